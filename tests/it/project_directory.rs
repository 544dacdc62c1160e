//! The state directory of a project: found from the directories below it, not where everybody could
//! have created it, and elsewhere if the user wants that.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use crate::project::Project;
use crate::scripted_team::{agent, team};

/// Replies of an agent that writes `made.txt` into the current directory when it presents.
const WRITES: &str = r#"
- when: {system: "the final agent", last: "made.txt"}
  text: "presented"
- when: {system: "the final agent"}
  calls: [{name: write_file, arguments: {path: "{{cwd}}/made.txt", content: "made"}}]
- calls: [{name: new_answer, arguments: {content: done}}]
  repeat: true
"#;

/// Runs massgen in the directory `at` of the project, with this state directory if it is not empty.
fn massgen(project: &Project, at: &str, elsewhere: &str, words: &[&str]) -> Output {
    let mut command = project.command();
    command.current_dir(project.path(at)).args(words);
    if !elsewhere.is_empty() {
        command.env("MASSGEN_STATE_DIR", elsewhere);
    }
    command.output().unwrap()
}

/// Returns what a command prints.
fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Returns what a command that succeeds prints.
#[track_caller]
fn said(output: &Output) -> String {
    let all = text(output);
    assert!(output.status.success(), "{all}");
    all
}

#[test]
fn the_state_of_a_project_is_found_from_its_subdirectories() {
    let config = team(&[agent("a", "cwd: w", WRITES)], "");
    let project = Project::new().config(&config).dir("src/deep");
    let run = |at: &str, words: &[&str]| massgen(&project, at, "", words);
    said(&run("", &["Begin", "--cwd-context", "rw"]));
    let listed = said(&run("src/deep", &["logs", "list"]));
    assert!(listed.contains("Begin"), "{listed}");
    said(&run(
        "src/deep",
        &["--continue", "Go on", "--cwd-context", "rw"],
    ));
    assert!(project.path("src/deep/made.txt").exists());
    let sessions = said(&run("src", &["sessions", "list"]));
    assert!(sessions.contains("2 turns"), "{sessions}");
    said(&run("src/deep", &["undo"]));
    assert!(!project.path("src/deep/made.txt").exists());
    assert!(project.path("made.txt").exists());
    assert!(!project.path("src/deep/.massgen").exists());
    // A directory in which every user could have created one is not searched.
    fs::set_permissions(project.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let listed = text(&run("src/deep", &["logs", "list"]));
    assert!(!listed.contains("Begin"), "{listed}");
}

#[test]
fn the_state_can_be_in_another_directory() {
    let config = team(&[agent("a", "cwd: w", WRITES)], "");
    let project = Project::new().file("team.yaml", config).dir("src");
    let elsewhere = project.home("state").display().to_string();
    let run = |at: &str, words: &[&str]| massgen(&project, at, &elsewhere, words);
    said(&run(
        "",
        &["Begin", "--config", "team.yaml", "--cwd-context", "rw"],
    ));
    assert!(!project.path(".massgen").exists());
    assert!(project.path("made.txt").exists());
    let listed = said(&run("src", &["logs", "list"]));
    assert!(listed.contains("Begin"), "{listed}");
    said(&run("src", &["undo"]));
    assert!(!project.path("made.txt").exists());
    let other = Project::new();
    let listed = text(&massgen(&other, "", &elsewhere, &["logs", "list"]));
    assert!(!listed.contains("Begin"), "{listed}");
}
