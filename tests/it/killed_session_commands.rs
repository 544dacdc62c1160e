//! Commands about sessions that are killed at any moment leave whole sessions, and nothing else once
//! another one has run.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, team};

/// Answers and presents.
const ANSWERS: &str = r#"
- when: {system: "the final agent"}
  text: "the result"
- when: {last: "notes.txt"}
  calls: [{name: new_answer, arguments: {content: "an answer"}}]
- calls: [{name: write_file, arguments: {path: "notes.txt", content: "notes\n"}}]
"#;

/// The number of files in the session, so that each command takes some time.
const FILES: usize = 400;
/// The number of moments at which each command is killed, and the time between them.
const KILLS: u32 = 12;
const INTERVAL: Duration = Duration::from_millis(6);

/// Returns the names in `directory` that begin with `prefix`.
fn names(directory: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}

fn kill_after(project: &Project, delay: Duration) {
    let mut command = project.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    sleep(delay);
    process.kill().unwrap();
    process.wait().unwrap();
}

/// Checks that all sessions are whole, and returns their ids.
fn whole_sessions(finished: &FinishedCommand) -> Vec<String> {
    let sessions = finished.project().path(".massgen/sessions");
    let lines = finished.stdout().lines();
    let ids: Vec<String> = lines
        .map(|line| {
            assert!(line.contains("  1 turn  work"), "{line}");
            line.split_whitespace().next().unwrap().to_owned()
        })
        .collect();
    for id in &ids {
        let turn = sessions.join(id).join("turn_1");
        assert!(turn.join("answer.txt").exists(), "{id}");
        assert_eq!(names(&turn.join("workspace"), "file").len(), FILES, "{id}");
    }
    ids
}

#[test]
fn killed_commands_leave_whole_sessions() {
    let project = Project::new().file("team.yaml", team(&[agent("one", "cwd: ws", ANSWERS)], ""));
    let mut finished = project.args(["--config", "team.yaml", "work"]).success();
    let sessions = finished.project().path(".massgen/sessions");
    let id = names(&sessions, "session_").remove(0);
    let workspace = sessions.join(&id).join("turn_1/workspace");
    for number in 0..FILES {
        fs::write(workspace.join(format!("file{number}")), "text").unwrap();
    }
    finished = finished
        .then(["sessions", "export", &id, "-o", "whole.tar.gz"])
        .success();
    for number in 1..=KILLS {
        let delay = INTERVAL * number;
        let archive = format!("archive{number}");
        for words in [
            &["sessions", "fork", &id][..],
            &["sessions", "import", "whole.tar.gz"],
            &["sessions", "export", &id, "-o", &archive],
        ] {
            let project = finished.then(words.iter().copied());
            kill_after(&project, delay);
            finished = project.retyped(["sessions", "list"]).success();
        }
        let ids = whole_sessions(&finished);
        if let Some(other) = ids.iter().find(|other| **other != id) {
            let project = finished.then(["sessions", "delete", other]);
            kill_after(&project, delay);
            finished = project.retyped(["sessions", "list"]).success();
            whole_sessions(&finished);
        }
        let root = finished.project().path("");
        let archive = root.join(archive);
        if archive.exists() {
            let import = ["sessions", "import", archive.to_str().unwrap()];
            finished = finished.then(import).success();
        }
    }
    finished = finished
        .then(["sessions", "prune", "--older-than", "900d"])
        .success()
        .then(["sessions", "list"])
        .success();
    assert!(whole_sessions(&finished).contains(&id));
    assert_eq!(names(&sessions, "."), [""; 0]);
    let root = finished.project().path("");
    assert_eq!(names(&root, ".massgen-"), [""; 0]);
}
