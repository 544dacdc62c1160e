//! Attempts: each agent changes and tests its own copy of the write path, and what the winning
//! answer changed there is delivered as it is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::docker::{IMAGE, daemon};
use crate::final_overlay::is_root;
use crate::pipeline::git_in;
use crate::project::{Project, binary, events};
use crate::scripted_team::{agent, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};

const ATTEMPTS: &str = "orchestrator:
  context_paths: [{path: ., permission: write}]
";

/// Returns replies that run `command` in the project, answer with `answer` once its output is there,
/// and vote for `candidate`.
pub(crate) fn replies(command: &str, answer: &str, candidate: &str) -> String {
    format!(
        r#"
- when: {{last: "<task>"}}
  calls: [{{name: execute_command, arguments: {{command: "{command}"}}}}]
- when: {{last: "exit status"}}
  calls: [{{name: new_answer, arguments: {{content: "{answer}"}}}}]
- calls: [{{name: vote, arguments: {{agent_id: {candidate}, reason: "good"}}}}]
  repeat: true
"#
    )
}

/// Returns a git project with a team of agents that have these replies.
pub(crate) fn project(all_replies: &[String], rest: &str) -> Project {
    let agents: Vec<String> = all_replies
        .iter()
        .enumerate()
        .map(|(number, replies)| {
            let keys = format!("cwd: w{number}\nenable_mcp_command_line: true");
            agent(&format!("a{number}"), &keys, replies)
        })
        .collect();
    let project = Project::new()
        .file("team.yaml", team(&agents, &format!("{ATTEMPTS}{rest}")))
        .file(".gitignore", "*.out\n")
        .file("src/app.sh", "echo old\n")
        .file("old.txt", "to be removed\n")
        .file("name.txt", "to be renamed\n")
        .file("kept.txt", "of the user\n")
        .args(["--config", "team.yaml", "fix it"]);
    let root = project.path(".");
    git_in(&root, &["init", "-q"]);
    git_in(&root, &["add", "."]);
    project
}

/// Changes, removes, renames, links, and makes executable; the build output is ignored.
pub(crate) fn change(word: &str) -> String {
    format!(
        "sed -i s/old/{word}/ src/app.sh && chmod +x src/app.sh && rm old.txt && mv name.txt \
         new.txt && ln -s new.txt link && sh src/app.sh > app.out && cat app.out && echo exit status"
    )
}

#[test]
fn the_winner_is_delivered_as_it_was_in_its_attempt() {
    let finished = project(
        &[
            replies(&change("one"), "first", "agent2"),
            replies(&change("two"), "second", "agent2"),
            replies("cat src/app.sh; echo exit status", "third", "agent2"),
        ],
        "",
    )
    .success()
    .has_file("src/app.sh", "echo two\n")
    .has_file("new.txt", "to be renamed\n")
    .has_file("kept.txt", "of the user\n")
    .has_no("old.txt")
    .has_no("name.txt")
    // Git ignores it.
    .has_no("app.out");
    let mode = fs::metadata(finished.project().path("src/app.sh")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o755);
    let link = fs::read_link(finished.project().path("link")).unwrap();
    assert_eq!(link.to_str().unwrap(), "new.txt");
    assert!(events(&finished, "final_started").is_empty());
    let answers = events(&finished, "answered");
    let diff_of = |agent: &str| {
        let answer = answers.iter().find(|event| event["agent"] == agent);
        answer.unwrap()["changes"]["diff"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(diff_of("a0").contains("+echo one"));
    assert!(diff_of("a1").contains("+echo two"));
    assert!(diff_of("a1").contains("new file mode 120000"));
    assert!(!diff_of("a1").contains("app.out"));
    // The third agent saw the user's tree, and changed nothing.
    assert_eq!(diff_of("a2"), "");
    finished
        .then(["undo"])
        .success()
        .has_file("src/app.sh", "echo old\n")
        .has_file("old.txt", "to be removed\n")
        .has_file("name.txt", "to be renamed\n")
        .has_no("link")
        .has_no("new.txt")
        .then(["replay", "last"])
        .success()
        .has_no("new.txt");
}

#[test]
fn a_check_decides_against_the_votes_and_sees_no_private_file() {
    let wrong = "echo exit 1 > src/app.sh; touch private.out; echo exit status";
    let right = "echo exit 0 > src/app.sh; touch private.out; echo exit status";
    let all_replies = [
        replies(wrong, "wrong", "agent1"),
        replies(right, "right", "agent1"),
    ];
    // The check needs no private file, and what it leaves is gone.
    let command = "test ! -e private.out && sh src/app.sh && rm kept.txt && touch made";
    let checks = format!("checks: [{{name: runs, command: '{command}'}}]\n");
    let finished = project(&all_replies, &checks)
        .success()
        .has_file("src/app.sh", "exit 0\n")
        .has_file("kept.txt", "of the user\n")
        .has_no("made")
        .has_no("private.out");
    assert!(finished.stderr().contains("1 file that git ignores"));
    // Without the check, the votes decide.
    project(&all_replies, "")
        .success()
        .has_file("src/app.sh", "exit 1\n");
}

#[test]
fn others_read_the_diff_and_the_files_of_an_answer() {
    let reader = r#"
- when: {last: "+echo one"}
  calls: [{name: vote, arguments: {agent_id: agent1, reason: "I read its diff"}}]
  repeat: true
- when: {last: "<task>"}
  delay_ms: 600
  calls: [{name: new_answer, arguments: {content: "mine"}}]
- calls: [{name: vote, arguments: {agent_id: agent2, reason: "blind"}}]
  repeat: true
"#;
    let finished = project(
        &[
            replies(&change("one"), "first", "agent1"),
            reader.to_owned(),
        ],
        "",
    )
    .success()
    .has_file("src/app.sh", "echo one\n");
    let votes = events(&finished, "voted");
    assert!(votes.iter().any(|vote| vote["reason"] == "I read its diff"));
    let answers = events(&finished, "answered");
    let snapshot = answers.iter().find_map(|event| event["snapshot"].as_str());
    let snapshot = std::path::Path::new(snapshot.unwrap());
    assert_eq!(
        fs::read_to_string(snapshot.join("src/app.sh")).unwrap(),
        "echo one\n"
    );
    assert!(!snapshot.join("kept.txt").exists(), "it is not changed");
    let diff = fs::read_to_string(snapshot.join("CHANGES.diff")).unwrap();
    assert!(
        diff.contains("deleted file mode") && diff.contains("old.txt"),
        "{diff}"
    );
}

#[test]
fn an_answer_of_another_agent_can_be_applied_with_what_it_deletes() {
    project(
        &[
            replies(&change("one"), "first", "agent1"),
            replies("rm kept.txt; echo exit status", "second", "agent1"),
        ],
        "",
    )
    .success()
    .has_file("kept.txt", "of the user\n")
    .then(["undo"])
    .success()
    .then(["diff", "last", "--agent", "agent2"])
    .success()
    .then(["apply", "last", "--agent", "agent2", "--yes"])
    .success()
    .has_no("kept.txt")
    .has_file("src/app.sh", "echo old\n");
}

#[test]
fn the_first_request_says_what_becomes_of_changes() {
    let shown = |mode: &str| {
        let project = project(&[replies("true", "x", "agent1")], "");
        let yaml = fs::read_to_string(project.path("team.yaml")).unwrap();
        let mode = format!("orchestrator:\n  coordination: {{write_mode: {mode}}}\n");
        let yaml = yaml.replace("orchestrator:\n", &mode);
        let project = project.file("team.yaml", yaml).args(["--dry-run"]);
        project.success().stdout().to_owned()
    };
    let attempt = shown("worktree");
    assert!(attempt.contains("your own copy of the user's, read and write"));
    assert!(attempt.contains("is part of your answer"), "{attempt}");
    let legacy = shown("legacy");
    assert!(
        legacy.contains("the winner may write at the end"),
        "{legacy}"
    );
    assert!(!legacy.contains("is part of your answer"), "{legacy}");
}

#[test]
fn protected_names_stay_private() {
    let command = "echo x >> .git/config; mkdir -p .claude; echo x > .claude/hooks.json; \
                   echo new > src/app.sh; echo exit status";
    let finished = project(&[replies(command, "first", "agent1")], "")
        .success()
        .has_file("src/app.sh", "new\n")
        .has_no(".claude");
    let diff = events(&finished, "answered")[0]["changes"]["diff"].to_string();
    assert!(
        !diff.contains(".claude") && !diff.contains(".git/config"),
        "{diff}"
    );
}

#[test]
fn an_agent_commits_only_to_its_copy() {
    let command = "echo new > src/app.sh; git add -A && git -c user.name=a -c user.email=a@b.org \
                   commit -qm work && git log --oneline | grep -q work && echo exit status";
    let finished = project(&[replies(command, "first", "agent1")], "")
        .success()
        .has_file("src/app.sh", "new\n");
    let heads = fs::read_dir(finished.project().path(".git/refs/heads")).unwrap();
    assert_eq!(heads.count(), 0);
    assert_eq!(events(&finished, "answered").len(), 1);
}

#[test]
fn files_of_the_workspace_are_the_answer_if_nothing_else_changed() {
    let writes = |path: &str| {
        format!(
            r#"
- when: {{last: "<task>"}}
  calls: [{{name: write_file, arguments: {{path: "{path}", content: "hello"}}}}]
- when: {{last: "hello.txt"}}
  calls: [{{name: new_answer, arguments: {{content: "written"}}}}]
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "good"}}}}]
  repeat: true
"#
        )
    };
    // Relative paths start in the write path.
    project(&[writes("hello.txt")], "")
        .success()
        .has_file("hello.txt", "hello");
    let project = project(&[], "");
    let workspace = project.path("elsewhere");
    let replies = writes(workspace.join("hello.txt").to_str().unwrap());
    let keys = format!("cwd: {}", workspace.display());
    let yaml = team(&[agent("a0", &keys, &replies)], ATTEMPTS);
    project
        .file("team.yaml", yaml)
        .success()
        .has_file("hello.txt", "hello");
}

#[test]
fn without_a_sandbox_agents_only_read_before_the_final_phase() {
    let replies = replies("echo x > new.txt; echo exit status", "first", "agent1");
    let keys = "cwd: w0\nenable_mcp_command_line: true\ncommand_line_sandbox: off";
    let project = project(&[], "");
    let yaml = team(&[agent("a0", keys, &replies)], ATTEMPTS);
    let finished = project.file("team.yaml", yaml).success();
    assert!(!events(&finished, "final_started").is_empty());
    assert!(
        finished.stderr().contains("write_mode"),
        "{}",
        finished.stderr()
    );
}

/// Returns replies that change the project, wait, look at it, and answer.
fn slow_replies() -> String {
    let slow = r#"
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {command: "echo new > src/app.sh; rm old.txt; echo step $((0+1))"}}]
- when: {last: "step 1"}
  delay_ms: 60000
  calls: [{name: execute_command, arguments: {command: "cat src/app.sh; test -e old.txt || echo gone; echo step two"}}]
- when: {last: "step two"}
  calls: [{name: new_answer, arguments: {content: "done"}}]
"#;
    slow.to_owned()
}

/// Runs until the first command is done, kills the run, and returns its project, in which the next
/// run does not wait.
fn killed_project() -> Project {
    let project = project(&[slow_replies()], "");
    let mut run = project.command().stderr(Stdio::null()).spawn().unwrap();
    let layer = || {
        let deliveries = fs::read_dir(project.path(".massgen/deliveries")).ok()?;
        let run = deliveries.flatten().next()?.path();
        let upper = run.join("attempt0-agent1/0/upper");
        let is_done = fs::read_to_string(upper.join("src/app.sh")).ok()? == "new\n"
            && fs::symlink_metadata(upper.join("old.txt")).is_ok();
        is_done.then_some(run)
    };
    wait_until("the layer has the changes", WAIT_TIME_MAX, || {
        layer().is_some()
    });
    let logs = project.path(".massgen/massgen_logs");
    let is_recorded = || {
        let found = Command::new("grep")
            .args(["-rqs", "--include=events.jsonl", "step 1"])
            .arg(&logs)
            .status();
        found.unwrap().success()
    };
    wait_until("the step is recorded", WAIT_TIME_MAX, is_recorded);
    run.kill().unwrap();
    run.wait().unwrap();
    let yaml = fs::read_to_string(project.path("team.yaml")).unwrap();
    project.file("fast.yaml", yaml.replace("delay_ms: 60000", "delay_ms: 1"))
}

#[test]
fn a_killed_run_goes_on_with_its_attempts() {
    let finished = killed_project()
        .retyped(["--config", "fast.yaml", "--continue"])
        .success();
    assert!(
        finished.stderr().contains("status 0"),
        "{}",
        finished.stderr()
    );
    finished.has_file("src/app.sh", "new\n").has_no("old.txt");
}

#[test]
fn after_a_restart_of_the_machine_an_attempt_begins_anew() {
    let project = killed_project();
    let deliveries = fs::read_dir(project.path(".massgen/deliveries")).unwrap();
    let run = deliveries.flatten().next().unwrap().path();
    fs::write(run.join("attempt0-agent1/boot"), "another boot").unwrap();
    let finished = project
        .retyped(["--config", "fast.yaml", "--continue"])
        .success();
    let lost = "a0 lost what it changed since its last answer";
    assert!(finished.stderr().contains(lost), "{}", finished.stderr());
    finished
        .has_file("src/app.sh", "echo old\n")
        .has_file("old.txt", "to be removed\n");
}

#[test]
fn a_final_agent_sees_the_changes_of_its_answer() {
    let replies = r#"
- when: {offers: submit}
  calls: [{name: submit, arguments: {confirmed: true}}]
- when: {system: "the final agent", last: "exit status"}
  text: "presented"
- when: {system: "the final agent"}
  calls: [{name: execute_command, arguments: {command: "cat src/app.sh >> kept.txt; echo exit status"}}]
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {command: "echo new > src/app.sh; echo exit status"}}]
- when: {last: "exit status"}
  calls: [{name: new_answer, arguments: {content: "done"}}]
"#;
    for key in [
        "coordination: {max_orchestration_restarts: 1}",
        "final_answer_strategy: winner_present",
    ] {
        let project = project(&[replies.to_owned()], "");
        let yaml = fs::read_to_string(project.path("team.yaml")).unwrap();
        let rules = format!("orchestrator:\n  {key}\n");
        project
            .file("team.yaml", yaml.replace("orchestrator:\n", &rules))
            .success()
            .has_file("src/app.sh", "new\n")
            .has_file("kept.txt", "of the user\nnew\n");
    }
}

#[test]
fn a_single_agent_is_asked_for_nothing_but_its_answer() {
    let finished = project(&[replies(&change("one"), "first", "agent1")], "").success();
    assert_eq!(events(&finished, "model_request_started").len(), 2);
    assert_eq!(finished.stdout(), "first\n");
    let _delivered = finished
        .has_file("src/app.sh", "echo one\n")
        .has_no("old.txt");
}

#[test]
fn a_subagent_reads_the_attempt_of_its_agent() {
    let replies = r#"
- when: {system: "You are a subagent", last: "echo new"}
  text: "it is new"
- when: {system: "You are a subagent", last: "</task>"}
  calls:
    - {name: write_file, arguments: {path: "{{cwd}}/src/app.sh", content: "x"}}
    - {name: write_file, arguments: {path: "own.txt", content: "x"}}
    - {name: read_text_file, arguments: {path: "{{cwd}}/src/app.sh"}}
- when: {last: "it is new"}
  calls: [{name: new_answer, arguments: {content: "both see it"}}]
- when: {last: "exit status"}
  calls: [{name: spawn_subagents, arguments: {tasks: [{id: one, task: "look"}]}}]
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {command: "echo echo new > src/app.sh; echo exit status"}}]
"#;
    let project = project(&[replies.to_owned()], "");
    let yaml = fs::read_to_string(project.path("team.yaml")).unwrap();
    let subagents = "orchestrator:\n  coordination: {enable_subagents: true}\n";
    let finished = project
        .file("team.yaml", yaml.replace("orchestrator:\n", subagents))
        .success()
        .has_file("src/app.sh", "echo new\n")
        .has_no("own.txt")
        .has_no(".subagents");
    assert_eq!(finished.stdout(), "both see it\n");
}

/// Gives an entry of the project to another user, so that its layer has to be a copy.
pub(crate) fn need_copies(project: &Project) {
    std::os::unix::fs::chown(project.path("kept.txt"), Some(65534), Some(65534)).unwrap();
}

#[test]
fn where_no_layer_can_be_mounted_each_agent_has_a_copy() {
    if !is_root() {
        return;
    }
    let project = project(
        &[
            replies(&change("one"), "first", "agent2"),
            replies(&change("two"), "second", "agent2"),
        ],
        "",
    );
    need_copies(&project);
    let finished = project
        .success()
        .has_file("src/app.sh", "echo two\n")
        .has_file("new.txt", "to be renamed\n")
        .has_no("old.txt")
        .has_no("app.out");
    let note = "each agent works on a copy of";
    assert!(finished.stderr().contains(note), "{}", finished.stderr());
}

#[test]
fn at_level_landlock_each_agent_works_on_a_copy_at_another_path() {
    let closed = "cat secret.txt; cat '{{root}}/src/app.sh'; touch '{{root}}/made'; tool";
    let commit = "git add -A && git -c user.name=a -c user.email=a@b.org commit -qm work";
    let first = replies(
        &format!("{closed}; {}; {commit}", change("one")),
        "first",
        "agent2",
    );
    let second = replies(&change("two"), "second", "agent2");
    let rest = "checks: [{name: runs, command: 'grep -q one src/app.sh && touch made'}]\n\
                permissions: {deny: ['read_file(secret.txt)']}\n";
    let project = project(&[first, second], rest)
        .file(".venv/bin/tool", "#!/bin/sh\necho of the environment\n");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(project.path(".venv/bin/tool"), executable).unwrap();
    let root = project.path("").display().to_string();
    let root = root.trim_end_matches('/');
    let config = fs::read_to_string(project.path("team.yaml")).unwrap();
    let finished = project
        .file("team.yaml", config.replace("{{root}}", root))
        .file("secret.txt", "s3cret\n")
        .args(["--sandbox", "landlock"])
        .success()
        .has_file("src/app.sh", "echo one\n")
        .has_file("new.txt", "to be renamed\n")
        .has_file("secret.txt", "s3cret\n")
        .has_no("old.txt")
        .has_no("app.out")
        .has_no("made");
    let heads = fs::read_dir(finished.project().path(".git/refs/heads")).unwrap();
    assert_eq!(heads.count(), 0);
    let calls = events(&finished, "tool_finished");
    let of_first = calls.iter().find(|call| call["agent"] == "a0").unwrap();
    let content = of_first["content"].as_str().unwrap();
    assert!(
        content.contains("one\\n") && !content.contains("s3cret"),
        "{content}"
    );
    assert!(content.contains("of the environment"), "{content}");
    assert_eq!(content.matches("Permission denied").count(), 2, "{content}");
    assert!(
        content.contains(&format!("commands find `{root}` at")),
        "{content}"
    );
}

#[test]
fn file_tools_take_the_paths_that_commands_find_at_level_landlock() {
    let replies = r#"
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {command: 'ln -s "$PWD/src" linked; echo exit status'}}]
- when: {last: "exit status"}
  calls: [{name: write_file, arguments: {path: linked/added.sh, content: "echo new\n"}}]
- when: {last: "added.sh"}
  calls: [{name: execute_command, arguments: {command: "rm linked; sh src/added.sh"}}]
- when: {last: "new"}
  calls: [{name: new_answer, arguments: {content: "first"}}]
- calls: [{name: vote, arguments: {agent_id: agent1, reason: "good"}}]
  repeat: true
"#;
    project(&[replies.to_owned()], "")
        .args(["--sandbox", "landlock"])
        .success()
        .has_file("src/added.sh", "echo new\n")
        .has_no("linked");
}

#[test]
fn an_agent_whose_layer_cannot_be_made_works_without() {
    if !is_root() {
        return;
    }
    let command = "touch made; test -e made || echo exit status";
    let project = project(&[replies(command, "first", "agent1")], "");
    need_copies(&project);
    // No copy is that deep.
    fs::create_dir_all(project.path(["d"; 130].join("/"))).unwrap();
    let finished = project.run();
    let note = "a0 only reads the write paths before the final phase, as with `write_mode: legacy`";
    assert!(finished.stderr().contains(note), "{}", finished.stderr());
    assert_eq!(events(&finished, "answered").len(), 1);
    let _unchanged = finished.has_file("src/app.sh", "echo old\n");
}

#[test]
fn in_containers_each_agent_works_on_a_copy() {
    let Some(daemon) = daemon() else {
        return;
    };
    let project = project(
        &[
            replies(&change("one"), "first", "agent2"),
            replies(&change("two"), "second", "agent2"),
        ],
        "checks: ['grep -q old src/app.sh || test -e new.txt -a ! -e app.out']\n",
    )
    .env("DOCKER_HOST", daemon.host());
    let yaml = fs::read_to_string(project.path("team.yaml")).unwrap();
    let in_container = format!(
        "command_line: true\n      command_line_execution_mode: docker\n      \
         command_line_docker_image: {IMAGE}"
    );
    let finished = project
        .file(
            "team.yaml",
            yaml.replace("command_line: true", &in_container),
        )
        .success()
        .has_file("src/app.sh", "echo two\n")
        .has_file("new.txt", "to be renamed\n")
        .has_no("old.txt")
        .has_no("app.out");
    assert!(events(&finished, "final_started").is_empty());
    let stderr = finished.stderr();
    assert!(stderr.contains("commands: a container of"), "{stderr}");
    assert!(stderr.contains("each agent works on a copy of"), "{stderr}");
    for checked in events(&finished, "checked") {
        assert_eq!(checked["finding"]["verdict"], "passed", "{checked}");
    }
}

#[test]
fn what_an_earlier_turn_left_in_the_workspace_is_not_delivered() {
    let replies = r#"
- when: {last: "first"}
  calls:
    - name: update_plan
      arguments: {entries: [{content: change it, status: in_progress}]}
    - {name: execute_command, arguments: {command: "echo new > src/app.sh"}}
- calls: [{name: new_answer, arguments: {content: "done"}}]
  repeat: true
"#;
    let rest = "orchestrator:
  context_paths: [{path: ., permission: write}]
  coordination: {enable_agent_task_planning: true, task_planning_filesystem_mode: true}
";
    let keys = "enable_mcp_command_line: true\ncwd: w";
    let yaml = team(&[agent("a0", keys, replies)], rest);
    let project = project(&[], "").file("team.yaml", yaml);
    let first = project
        .retyped(["--config", "team.yaml", "first"])
        .success()
        .has_file("src/app.sh", "new\n")
        .has_no("tasks");
    let second = first
        .then(["--config", "team.yaml", "--continue", "what did you do?"])
        .success()
        .has_no("tasks");
    let stderr = second.stderr();
    assert!(stderr.contains("no file was delivered"), "{stderr}");
}

#[test]
fn ignored_names_that_the_config_opens_are_delivered() {
    let command =
        "mkdir -p dist && echo built > dist/app.out && echo log > run.out; echo exit status";
    let rest = "checks: [{name: built, command: 'test -e dist/app.out && test ! -e run.out'}]\n";
    let finished = project(&[replies(command, "built", "agent1")], rest);
    let config = fs::read_to_string(finished.path("team.yaml")).unwrap();
    let opened = config.replace(
        "orchestrator:\n",
        "orchestrator:\n  deliver_ignored: ['dist/**']\n",
    );
    let finished = finished
        .file("team.yaml", &opened)
        .success()
        .has_file("dist/app.out", "built\n")
        .has_no("run.out");
    assert!(
        finished.stderr().contains("1 file that git ignores"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn answers_change_submodules_and_replace_symlinks() {
    let command = "echo new > sub/x && echo log > sub/x.tmp && rm docs && mkdir docs && echo new > docs/a; \
                   echo exit status";
    let project = project(&[replies(command, "done", "agent1")], "")
        .file("sub/x", "old\n")
        .file("sub/.gitignore", "*.tmp\n")
        .file("other/a", "old\n")
        .link("docs", "other");
    let (root, sub) = (project.path("."), project.path("sub"));
    git_in(&sub, &["init", "-q"]);
    git_in(&sub, &["add", "."]);
    git_in(&sub, &["commit", "-q", "-m", "first"]);
    git_in(&root, &["add", "."]);
    let entries = git_in(&root, &["ls-files", "--stage", "sub"]);
    assert!(entries.starts_with("160000 "), "{entries}");
    let finished = project
        // A symlink of the user's stays, with what it leads to.
        .failure(4)
        .has_file("sub/x", "new\n")
        .has_file("docs/a", "old\n")
        .has_no("sub/x.tmp");
    assert!(
        finished.stderr().contains("1 file that git ignores"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn an_answer_that_takes_more_than_its_share_of_the_disk_does_not_count() {
    if !is_root() {
        return;
    }
    let many = r#"
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {command: "mkdir many; touch many/{1..16000}; echo exit status"}}]
- when: {last: "the changes in the write paths take"}
  calls: [{name: new_answer, arguments: {content: "too much"}}]
- when: {last: "could not be captured"}
  calls: [{name: execute_command, arguments: {command: "rm -r many; echo new > src/app.sh; echo few"}}]
- when: {last: "few"}
  calls: [{name: new_answer, arguments: {content: "little"}}]
- calls: [{name: vote, arguments: {agent_id: agent1, reason: "good"}}]
  repeat: true
"#;
    let few = replies("true; echo exit status", "nothing", "agent1");
    let project = project(&[many.to_owned(), few], "");
    // In its own mount namespace, so that no other process sees the disk: each of the two agents has
    // a quarter of its 60000 files.
    let script = "mkdir small && mount -t tmpfs -o size=1200m,nr_inodes=60k none small && \
                  tar cf - --exclude=./small . | tar xf - -C small && cd small && \
                  \"$0\" --config team.yaml go; cat src/app.sh; ls";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(binary())
        .current_dir(project.path(""))
        .env("HOME", project.home(""))
        .output()
        .unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(stdout.starts_with("little\nnew\n"), "{stdout}{stderr}");
    assert!(!stdout.contains("many"), "{stdout}");
    assert!(stderr.contains("in 16001 files, and may take"), "{stderr}");
}
