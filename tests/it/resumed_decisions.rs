//! What the user decided about a run when it was started holds when it is resumed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;

use crate::project::Project;
use crate::scripted_team::{agent, team};
use crate::terminal::Terminal;

/// Answers, and writes a file of the project when it presents.
const DELIVERS: &str = r#"
- calls: [{name: write_file, arguments: {path: "{{cwd}}/out/new.txt", content: "new\n"}}]
- calls: [{name: new_answer, arguments: {content: "an answer"}}]
"#;

/// What shows that the delivery waits for the user.
const QUESTION: &str = "[n]othing?";

/// Returns a project with a run that was killed while the user reviewed its delivery.
fn killed_in_review() -> Project {
    let rest = "orchestrator:\n  context_paths: [{path: ., permission: write}]\n";
    let project = Project::new()
        .file(
            "team.yaml",
            team(&[agent("one", "cwd: ws", DELIVERS)], rest),
        )
        .dir("out")
        .args(["--plain", "--config", "team.yaml", "--review", "work"]);
    let terminal = Terminal::open(project, 100);
    terminal.wait_for_output(QUESTION);
    let process = i32::try_from(terminal.process()).unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    // Killed by a signal.
    terminal.wait_for_end(1)
}

#[test]
fn a_review_is_asked_for_again() {
    let project = killed_in_review().retyped(["--plain", "--continue", "--config", "team.yaml"]);
    let terminal = Terminal::open(project, 100);
    terminal.wait_for_output(QUESTION);
    assert!(!terminal.project().path("out/new.txt").exists());
}

#[test]
fn without_a_terminal_nothing_is_delivered_unreviewed() {
    let project = killed_in_review().retyped(["--continue"]);
    let finished = project.failure(2);
    assert!(
        finished.stderr().contains("`--review` needs a terminal"),
        "{}",
        finished.stderr()
    );
    assert!(!finished.project().path("out/new.txt").exists());
    // Control: the user decides otherwise.
    let finished = finished.then(["--continue", "--yes"]).success();
    let delivered = fs::read(finished.project().path("out/new.txt"));
    assert_eq!(delivered.unwrap(), b"new\n");
}
