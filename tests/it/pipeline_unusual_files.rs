//! Unusual files that roles leave in their checkouts are committed completely or sent back to the
//! role, and no pipeline ends because of them.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;

use crate::pipeline::{bare_repository_git, git_in, pipeline_config, role_replies, write_call};
use crate::project::Project;
use crate::scripted_team::agent;

/// Returns a call of a command, which must not contain quotes or backslashes.
fn command_call(command: &str) -> String {
    format!("{{name: execute_command, arguments: {{command: \"{command}\"}}}}")
}

const BASH: &str = "enable_mcp_command_line: true";
const ROLES: &str = "roles:\n  one: {rights: [write, edit, bash], writes: project}\n  two: {rights: [write, edit, bash], writes: project}";

/// Returns a pipeline of a role `one` with these `replies`, and then `two`.
fn project(replies: &str, two: &str) -> Project {
    let agents = [agent("one", BASH, replies), agent("two", BASH, two)];
    let keys = "stages: [one, two]\nuntil: none";
    commit_project(Project::new().config(&pipeline_config(keys, &agents, ROLES)))
}

/// Turns the project into a repository with one commit.
fn commit_project(project: Project) -> Project {
    let project = project.file("README", "r\n");
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    git_in(&root, &["add", "README"]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    project
}

#[track_caller]
fn check_sent_back(leaves: &str, mends: &str, message: &str) {
    let replies = format!(
        "- when: {{last: \"Your work was not merged\"}}\n  calls: [{}]\n  repeat: true\n{}",
        command_call(mends),
        role_replies(
            &command_call(&format!("echo kept > kept; {leaves}")),
            "did it"
        )
    );
    let finished = project(&replies, &role_replies("", "did nothing"))
        .args(["go"])
        .success();
    assert!(finished.stderr().contains(message), "{}", finished.stderr());
    let files = bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main"],
    );
    assert!(files.contains("kept\n"), "{files}");
    let log = bare_repository_git(
        finished.project(),
        &["log", "--first-parent", "--format=%s", "main"],
    );
    assert!(log.contains("merge two"), "{log}");
}

#[test]
fn files_that_git_cannot_store_return_the_work_to_the_role() {
    let cause = "git cannot hold all of it: invalid path";
    check_sent_back(
        "mkdir -p a/git~1; echo x > a/git~1/f",
        "rm -r a/git~1",
        cause,
    );
    check_sent_back(
        "mkdir -p src/.GIT; echo x > src/.GIT/config",
        "rm -r src/.GIT",
        cause,
    );
    let deep = "for i in $(seq 70); do mkdir r && cd r && git init -q . ; done";
    check_sent_back(deep, "rm -rf r", "repositories are in each other");
}

#[test]
fn a_role_that_leaves_it_as_it_is_ends_the_pipeline_with_the_cause() {
    let leaves = "mkdir -p .GIT; echo x > .GIT/config";
    let finished = project(
        &role_replies(&command_call(leaves), "did it"),
        &role_replies("", "nothing"),
    )
    .args(["go"])
    .failure(1);
    assert!(
        finished.stderr().contains("invalid path '.GIT/config'"),
        "{}",
        finished.stderr()
    );
    let log = bare_repository_git(
        finished.project(),
        &["log", "--first-parent", "--format=%s", "main"],
    );
    assert!(!log.contains("merge one"), "{log}");
}

#[test]
fn an_answer_may_hold_any_character() {
    let answer = "did\\u0000 \\u001b[31mit\\u202e";
    let finished = project(&role_replies("", answer), &role_replies("", "nothing"))
        .args(["go"])
        .success();
    let log = bare_repository_git(finished.project(), &["log", "--format=%s", "main"]);
    assert!(log.contains("[one] did"), "{log}");
}

/// For an ordinary user, to whom modes apply, this tests more than for root.
#[test]
fn unreadable_files_and_directories_are_committed() {
    let first = "mkdir -p d && echo 1 > d/f && echo s > s && chmod 000 s && chmod 555 d . .git";
    let second = "echo 2 >> d/f; echo again >> s";
    let agents = [
        agent("one", BASH, &role_replies(&command_call(first), "did it")),
        agent("two", BASH, &role_replies(&command_call(second), "not yet")),
    ];
    let keys = "stages: [one, two]\nuntil: two\nmax_iterations: 2";
    let finished = commit_project(Project::new().config(&pipeline_config(keys, &agents, ROLES)))
        .args(["go"])
        .failure(5);
    let count = finished
        .stderr()
        .matches(" for one; not protected: ")
        .count();
    assert_eq!(count, 1, "the same sandbox is reported once");
    let project = finished.project();
    assert_eq!(
        bare_repository_git(project, &["show", "main:s"]),
        "s\nagain\n"
    );
    assert_eq!(
        bare_repository_git(project, &["show", "main:d/f"]),
        "1\n2\n"
    );
}

/// Returns a project whose `.gitignore` contains `rules`, and two roles, the second of which is
/// told what the first has left.
fn ignoring(rules: &str, planner: &str) -> String {
    let reply = "- when: {contains: \"THE PLAN\"}\n  calls: [{name: new_answer, arguments: {content: \"told\"}}]\n  repeat: true\n";
    let agents = [
        agent("planner", "", &role_replies(planner, "planned")),
        agent(
            "implementer",
            "",
            &format!("{reply}{}", role_replies("", "not told")),
        ),
    ];
    let project = Project::new()
        .config(&pipeline_config(
            "stages: [planner, implementer]",
            &agents,
            "",
        ))
        .file("src/a", "a\n")
        .file(".gitignore", rules);
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    git_in(&root, &["add", "-f", "src", ".gitignore"]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    let finished = project.args(["plan it"]).success();
    assert!(
        finished.stdout().contains("told") && !finished.stdout().contains("not told"),
        "{}",
        finished.stdout()
    );
    bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main", ".pipeline/planner/"],
    )
}

#[test]
fn output_of_a_role_is_committed_even_if_ignored() {
    let plan = write_call("planner/PLAN.md", "THE PLAN\\n");
    let plan = plan.replace("planner/PLAN", ".pipeline/planner/PLAN");
    let more = [
        plan.clone(),
        write_call(".pipeline/planner/notes.txt", "n\\n"),
        write_call(".pipeline/planner/cache/x", "x\\n"),
    ]
    .join(", ");
    let path = |name: &str| format!(".pipeline/planner/{name}\n");
    let both = path("PLAN.md") + &path("notes.txt");
    assert_eq!(ignoring(".*\ncache/\n", &more), both);
    assert_eq!(ignoring(".pipeline\ncache/\n", &more), both);
    assert_eq!(ignoring("*.md\n*.txt\ncache/\n", &more), path("PLAN.md"));
    let hides = [plan, write_call(".pipeline/planner/.gitignore", "*\\n")].join(", ");
    assert_eq!(ignoring("none\n", &hides), path("PLAN.md"));
}

#[test]
fn a_role_that_starts_afresh_lets_those_after_it_work_again() {
    let finished = project(
        &role_replies(&command_call("echo 1 >> one"), "did it"),
        &role_replies("", "nothing"),
    )
    .args(["go"])
    .success();
    let finished = finished.then(["reset", "--role", "one"]).success();
    let finished = finished.then(["--continue"]).success();
    let log = bare_repository_git(
        finished.project(),
        &["log", "--first-parent", "--format=%s", "main"],
    );
    let merged = |role: &str| log.matches(&format!("merge {role}")).count();
    assert_eq!((merged("one"), merged("two")), (2, 2), "{log}");
}

/// If the disk was full when a stage ended, its log may be the only record of that.
#[test]
fn a_stage_that_ended_only_in_its_log_is_resumed() {
    let stopped = project(
        &role_replies(&command_call("echo 1 > f"), "did it"),
        &role_replies(&command_call("echo 2 > g"), "did more"),
    )
    .args(["--max-tool-calls", "1", "go"])
    .failure(5);
    let logs = stopped.project().path(".massgen/massgen_logs");
    let mut runs: Vec<_> = fs::read_dir(&logs)
        .unwrap()
        .map(|run| run.unwrap().path())
        .filter(|run| run.is_dir())
        .collect();
    runs.sort();
    let last = runs.pop().unwrap();
    let status = last.join("turn_1/status.json");
    let text = fs::read_to_string(&status).unwrap();
    let cut = text.replace("\"is_complete\": true", "\"is_complete\": false");
    assert_ne!(cut, text);
    fs::write(&status, cut).unwrap();
    let finished = stopped
        .then(["--continue", "--max-tool-calls", "100"])
        .success();
    assert_eq!(
        bare_repository_git(finished.project(), &["show", "main:g"]),
        "2\n"
    );
}

/// The usage of a failed stage counts too.
#[test]
fn a_limit_holds_over_all_that_a_pipeline_has_used() {
    let three = ["echo 1 > f", "echo 2 > f", "echo 3 > f"]
        .map(command_call)
        .join(", ");
    let stopped = project(
        &role_replies(&three, "did it"),
        &role_replies("", "nothing"),
    )
    .args(["--max-tool-calls", "2", "go"])
    .failure(5);
    assert_eq!(stopped.stderr().matches("calls execute_command").count(), 2);
    let hint = "the pipeline has used all 2 tool calls (`max_tool_calls`); continue with a higher \
                limit: massgen --continue --max-tool-calls COUNT";
    assert!(stopped.stderr().contains(hint), "{}", stopped.stderr());
    let again = stopped.then(["--continue"]).failure(5);
    assert!(
        !again.stderr().contains("calls execute_command"),
        "{}",
        again.stderr()
    );
    // The end shows the limit as it was set, and not what was left of it.
    let raised = again
        .then(["--continue", "--max-tool-calls", "3"])
        .failure(5);
    let shown = raised.stderr();
    assert!(
        shown.contains("the pipeline has used all 3 tool calls"),
        "{shown}"
    );
    raised
        .then(["--continue", "--max-tool-calls", "9"])
        .success();
}
