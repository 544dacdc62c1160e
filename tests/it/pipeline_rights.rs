//! Rights of the roles of a pipeline, exercised by scripted models with the real binary: file
//! tools, commands and git, each denial next to what is allowed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;

use serde_json::Value;

use crate::docker::{IMAGE, daemon};
use crate::pipeline::{
    bare_repository_git, pipeline_config, pipeline_dir, role_replies, stage_events, write_call,
};
use crate::project::{FinishedCommand, Project};
use crate::scripted_team::agent;

const FILE: &str = "write_file";
const EDIT: &str = "edit_file";
const BASH: &str = "execute_command";

fn write_arguments(path: &str) -> String {
    write_call(path, "x")
}

fn edit_arguments(path: &str) -> String {
    let edits = "[{oldText: \"x\", newText: \"y\"}]";
    format!("{{name: {EDIT}, arguments: {{path: \"{path}\", edits: {edits}}}}}")
}

fn command_arguments(line: &str) -> String {
    format!("{{name: {BASH}, arguments: {{command: \"{line}\"}}}}")
}

/// Returns the calls of a run: the tool, and why it was denied, if it was.
fn logged_calls(events: &[Value]) -> Vec<(String, Option<String>)> {
    let mut calls: Vec<(String, Option<String>)> = Vec::new();
    for event in events {
        let tool = event["tool"].as_str().unwrap_or_default().to_owned();
        if event["type"] == "tool_called" {
            calls.push((tool, event["denied"].as_str().map(str::to_owned)));
        } else if event["type"] == "tool_finished" && event["success"] == false {
            let mut same = calls.iter_mut().rev().filter(|(name, _)| *name == tool);
            same.next().unwrap().1 = Some(event["summary"].as_str().unwrap_or_default().to_owned());
        }
    }
    calls.retain(|(tool, _)| tool != "new_answer");
    calls
}

/// A role that makes these calls; each with its tool and whether it is allowed.
type RoleCalls<'a> = (&'a str, &'a [(String, &'static str, bool)]);

/// Lets roles of a pipeline without a project make calls, one role after another.
fn try_calls(roles: &[RoleCalls<'_>]) -> FinishedCommand {
    try_calls_at("auto", roles)
}

/// Like [`try_calls`], with commands in a sandbox of this level.
fn try_calls_at(level: &str, roles: &[RoleCalls<'_>]) -> FinishedCommand {
    let agents: Vec<String> = roles
        .iter()
        .map(|(role, calls)| {
            let calls: Vec<&str> = calls.iter().map(|(call, ..)| call.as_str()).collect();
            let keys = "enable_mcp_command_line: true";
            agent(role, keys, &role_replies(&calls.join(", "), "done"))
        })
        .collect();
    let names: Vec<&str> = roles.iter().map(|(role, _)| *role).collect();
    let keys = format!("stages: [{}]\nuntil: none\nproject: none", names.join(", "));
    let config = pipeline_config(&keys, &agents, "");
    let project = Project::new().config(&config);
    let finished = project.args(["--sandbox", level, "go"]).success();
    let runs = stage_events(&finished);
    assert_eq!(runs.len(), roles.len());
    for ((role, expected), events) in roles.iter().zip(runs) {
        let found = logged_calls(&events);
        assert_eq!(found.len(), expected.len(), "{role}: {found:#?}");
        for ((tool, denied), (call, expected_tool, allowed)) in found.iter().zip(*expected) {
            assert_eq!(tool, expected_tool, "{role}: {call}");
            assert_eq!(denied.is_none(), *allowed, "{role}: {call}: {denied:?}");
        }
    }
    finished
}

#[test]
fn commands_have_the_rights_of_their_role_at_each_level() {
    let calls = [
        ("echo x > tester/a && cat TASK.md", true),
        (
            "git log -1 --format=%s && git status && git stash list",
            true,
        ),
        ("git add tester && git commit -qm own", true),
        ("echo x >> TASK.md", false),
        ("mkdir user && echo x > user/a", false),
        ("cat ../../hub.git/config", false),
        ("echo x > ../../hub.git/description; false", false),
        ("cat ../../../../config.yaml", false),
    ]
    .map(|(line, allowed)| (command_arguments(line), BASH, allowed));
    for level in ["overlay", "namespaces", "landlock"] {
        let finished = try_calls_at(level, &[("tester", &calls)]);
        let bare_repository = pipeline_dir(finished.project()).join("hub.git");
        assert!(!bare_repository.join("description").exists(), "{level}");
        let files = bare_repository_git(
            finished.project(),
            &["ls-tree", "-r", "--name-only", "main"],
        );
        assert_eq!(
            files, "CUMULATIVE_UNDERSTANDING.md\nTASK.md\ntester/a\n",
            "{level}"
        );
    }
}

#[test]
fn a_role_writes_in_its_own_directory_by_the_tools_that_it_may_use() {
    let finished = try_calls(&[
        (
            "understand",
            &[
                (write_arguments("understand/a"), FILE, false),
                (command_arguments("true"), BASH, false),
            ],
        ),
        (
            "planner",
            &[
                (write_arguments("planner/a"), FILE, true),
                (write_arguments("TASK.md"), FILE, false),
                (write_arguments("user/a"), FILE, false),
                (edit_arguments("planner/a"), EDIT, false),
                (command_arguments("true"), BASH, false),
            ],
        ),
        (
            "implementer",
            &[
                (write_arguments("implementer/a"), FILE, true),
                (edit_arguments("implementer/a"), EDIT, true),
                (write_arguments("planner/b"), FILE, false),
                (command_arguments("true"), BASH, false),
            ],
        ),
        (
            "reviewer",
            &[
                (write_arguments("reviewer/a"), FILE, true),
                (edit_arguments("reviewer/a"), EDIT, false),
            ],
        ),
        (
            "tester",
            &[
                (write_arguments("tester/a"), FILE, true),
                (edit_arguments("tester/a"), EDIT, true),
                (command_arguments("true"), BASH, true),
            ],
        ),
        (
            "user",
            &[
                (write_arguments("user/a"), FILE, true),
                (edit_arguments("user/a"), EDIT, false),
                (command_arguments("true"), BASH, true),
            ],
        ),
    ]);
    let tree = bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main"],
    );
    let made: Vec<&str> = tree.lines().filter(|name| name.contains('/')).collect();
    let expected = [
        "implementer/a",
        "planner/a",
        "reviewer/a",
        "tester/a",
        "user/a",
    ];
    assert_eq!(made, expected);
}

#[test]
fn commands_of_a_role_reach_only_its_directory_and_repository() {
    let bare_repository = "../../hub.git";
    let finished = try_calls(&[(
        "tester",
        &[
            (command_arguments("echo 1 > tester/b"), BASH, true),
            (command_arguments("echo 1 > implementer/b"), BASH, false),
            (command_arguments("echo 1 > b"), BASH, false),
            (
                command_arguments(
                    "ln -s /etc tester/link && echo 1 > tester/link/massgen-was-here",
                ),
                BASH,
                false,
            ),
            (
                command_arguments("rm tester/link && mv tester tester2"),
                BASH,
                false,
            ),
            (
                command_arguments(
                    "git update-ref refs/heads/main HEAD~1 && git log -1 --format=%s main",
                ),
                BASH,
                true,
            ),
            (
                command_arguments(&format!(
                    "git --git-dir={bare_repository} update-ref refs/heads/main HEAD"
                )),
                BASH,
                false,
            ),
            // What it creates there is only in its own view of the disk.
            (
                command_arguments(&format!("mkdir -p {bare_repository}/hooks")),
                BASH,
                true,
            ),
            (
                command_arguments(
                    "git commit --allow-empty -q -m mine && git stash list && echo committed",
                ),
                BASH,
                true,
            ),
            (
                command_arguments(
                    "mkdir -p .git/hooks && printf '#!/bin/sh\\ntouch /tmp/x' > .git/hooks/post-commit",
                ),
                BASH,
                true,
            ),
        ],
    )]);
    let project = finished.project();
    let tree = bare_repository_git(project, &["ls-tree", "-r", "--name-only", "main"]);
    assert!(tree.lines().any(|name| name == "tester/b"), "{tree}");
    let first = bare_repository_git(
        project,
        &["log", "--first-parent", "--reverse", "--format=%s", "main"],
    );
    assert!(
        first.starts_with("[supervisor] start: go\n"),
        "the history is as it was: {first}"
    );
    assert!(!first.contains("mine"), "{first}");
    assert!(!pipeline_dir(project).join("hub.git/hooks").exists());
    let left = pipeline_dir(project).join("workspace/tester/.git");
    assert!(
        fs::symlink_metadata(left).is_err(),
        "nothing that an agent made is left for git"
    );
    // Control: the same command succeeds without the sandbox.
    bare_repository_git(project, &["update-ref", "refs/heads/other", "main"]);
}

#[test]
fn a_link_that_one_role_plants_opens_nothing_to_the_next() {
    let project = Project::new();
    let outside = project.home("outside");
    fs::create_dir(&outside).unwrap();
    let plant = command_arguments(&format!("ln -s {} tests", outside.display()));
    let keys = "enable_mcp_command_line: true";
    let agents = [
        agent("builder", keys, &role_replies(&plant, "planted")),
        agent(
            "checker",
            keys,
            &role_replies(&write_arguments("tests/unit/a"), "wrote"),
        ),
    ];
    let roles = "roles:\n  builder: {rights: [write, edit, bash], writes: project}\n  \
        checker: {rights: [write], writes: [tests/unit]}";
    let stages = "stages: [builder, checker]";
    let config = pipeline_config(stages, &agents, roles);
    let project = project.config(&config).file("README.md", "x\n");
    let root = project.path("");
    crate::pipeline::git_in(&root, &["init", "-q", "-b", "trunk"]);
    crate::pipeline::git_in(&root, &["add", "README.md"]);
    crate::pipeline::git_in(&root, &["commit", "-q", "-m", "first"]);
    let finished = project.args(["go"]).failure(3);
    let stderr = finished.stderr();
    assert!(stderr.contains("tests/unit"), "{stderr}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let planted = bare_repository_git(finished.project(), &["ls-tree", "main", "tests"]);
    assert!(
        planted.starts_with("120000 "),
        "the link is there: {planted}"
    );
}

/// In a container, where the image of these tests has no git.
#[test]
fn a_container_holds_commands_to_the_rights_of_their_role() {
    let Some(daemon) = daemon() else { return };
    let calls = [
        ("echo x > tester/a && cat TASK.md", true),
        ("test -e .git/HEAD", true),
        ("echo x >> TASK.md", false),
        ("mkdir user && echo x > user/a", false),
        ("cat ../../hub.git/config", false),
        ("cat ../../../../config.yaml", false),
    ]
    .map(|(line, allowed)| (command_arguments(line), BASH, allowed));
    let lines: Vec<&str> = calls.iter().map(|(call, ..)| call.as_str()).collect();
    let keys = format!(
        "enable_mcp_command_line: true\ncommand_line_execution_mode: docker\ncommand_line_docker_image: {IMAGE}"
    );
    let agents = [agent(
        "tester",
        &keys,
        &role_replies(&lines.join(", "), "done"),
    )];
    let config = pipeline_config("stages: [tester]\nuntil: none\nproject: none", &agents, "");
    let project = Project::new()
        .config(&config)
        .env("DOCKER_HOST", daemon.host());
    let finished = project
        .args(["--config", ".massgen/config.yaml", "go"])
        .success();
    let found = calls_of(&finished);
    for ((tool, denied), (call, _, allowed)) in found.iter().zip(&calls) {
        assert_eq!(
            (tool.as_str(), denied.is_none()),
            (BASH, *allowed),
            "{call}: {denied:?}"
        );
    }
    assert_eq!(found.len(), calls.len());
    let files = bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main"],
    );
    assert_eq!(files, "CUMULATIVE_UNDERSTANDING.md\nTASK.md\ntester/a\n");
}

fn calls_of(finished: &FinishedCommand) -> Vec<(String, Option<String>)> {
    stage_events(finished)
        .iter()
        .flat_map(|events| logged_calls(events))
        .collect()
}

#[test]
fn the_hooks_of_a_config_are_asked_in_each_stage() {
    let script = "cat > /dev/null\necho 'not today' >&2\nexit 2\n";
    let all = "hooks: {PreToolUse: [{matcher: write_file, hooks: ['sh hooks/no.sh']}]}";
    for (of_planner, of_all, expected) in [
        ("", "", [true, true]),
        (all, "", [false, true]),
        ("", all, [false, false]),
    ] {
        let replies = |role: &str| role_replies(&write_arguments(&format!("{role}/a")), "done");
        let agents = [
            agent("planner", of_planner, &replies("planner")),
            agent("implementer", "", &replies("implementer")),
        ];
        let keys = "stages: [planner, implementer]\nuntil: none\nproject: none";
        let project = Project::new()
            .file("team.yaml", pipeline_config(keys, &agents, of_all))
            .file("hooks/no.sh", script);
        let arguments = ["--config", "team.yaml", "go"];
        let finished = project.args(arguments).success();
        let runs = stage_events(&finished);
        assert_eq!(runs.len(), expected.len());
        for (events, is_allowed) in runs.iter().zip(expected) {
            let calls = logged_calls(events);
            let (tool, denied) = &calls[0];
            assert_eq!(tool, FILE);
            assert_eq!(
                denied.is_none(),
                is_allowed,
                "{of_planner} {of_all}: {denied:?}"
            );
        }
    }
}
