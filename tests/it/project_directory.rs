//! The state directory of a project: found from the directories below it, not where every user could
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
- calls: [{name: write_file, arguments: {path: "{{cwd}}/made.txt", content: "made"}}]
- calls: [{name: new_answer, arguments: {content: done}}]
  repeat: true
"#;

/// Runs massgen in the directory `at` of the project, with this state directory if it is not empty.
fn massgen(project: &Project, at: &str, state_dir: &str, arguments: &[&str]) -> Output {
    let mut command = project.command();
    command.current_dir(project.path(at)).args(arguments);
    if !state_dir.is_empty() {
        command.env("MASSGEN_STATE_DIR", state_dir);
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
fn successful_output(output: &Output) -> String {
    let all = text(output);
    assert!(output.status.success(), "{all}");
    all
}

#[test]
fn the_state_of_a_project_is_found_from_its_subdirectories() {
    let config = team(&[agent("a", "cwd: w", WRITES)], "");
    let project = Project::new().config(&config).dir("src/deep");
    let run = |at: &str, arguments: &[&str]| massgen(&project, at, "", arguments);
    successful_output(&run("", &["Begin", "--cwd-context", "rw"]));
    let listed = successful_output(&run("src/deep", &["logs", "list"]));
    assert!(listed.contains("Begin"), "{listed}");
    successful_output(&run(
        "src/deep",
        &["--continue", "Go on", "--cwd-context", "rw"],
    ));
    assert!(project.path("src/deep/made.txt").exists());
    let sessions = successful_output(&run("src", &["sessions", "list"]));
    assert!(sessions.contains("2 turns"), "{sessions}");
    successful_output(&run("src/deep", &["undo"]));
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
    let state_dir = project.home("state").display().to_string();
    let run = |at: &str, arguments: &[&str]| massgen(&project, at, &state_dir, arguments);
    successful_output(&run(
        "",
        &["Begin", "--config", "team.yaml", "--cwd-context", "rw"],
    ));
    assert!(!project.path(".massgen").exists());
    assert!(project.path("made.txt").exists());
    let listed = successful_output(&run("src", &["logs", "list"]));
    assert!(listed.contains("Begin"), "{listed}");
    successful_output(&run("src", &["undo"]));
    assert!(!project.path("made.txt").exists());
    let other = Project::new();
    let listed = text(&massgen(&other, "", &state_dir, &["logs", "list"]));
    assert!(!listed.contains("Begin"), "{listed}");
}

#[test]
fn the_state_directory_may_be_behind_a_symlink_and_is_apart_for_each_project() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let config = team(&[agent("a", "cwd: w", WRITES)], "");
    let project = Project::new()
        .home_file("real/x", "")
        .file("team.yaml", config);
    std::os::unix::fs::symlink(project.home("real"), project.home("link")).unwrap();
    let state_dir = project.home("link/state").display().to_string();
    // Names that look alike once they are text, and one that is as long as a name can be.
    let long = "x".repeat(250);
    let names = [&b"caf\xe9"[..], b"caf\xe8", long.as_bytes()];
    for (number, name) in names.iter().enumerate() {
        let at = project.path(OsStr::from_bytes(name));
        fs::create_dir(&at).unwrap();
        let run = |arguments: &[&str]| {
            let mut command = project.command();
            command.current_dir(&at).args(arguments);
            command
                .env("MASSGEN_STATE_DIR", &state_dir)
                .output()
                .unwrap()
        };
        let task = format!("Begin{number}");
        successful_output(&run(&[
            &task,
            "--config",
            "../team.yaml",
            "--cwd-context",
            "rw",
        ]));
        let listed = successful_output(&run(&["logs", "list"]));
        assert_eq!(listed.matches("Begin").count(), 1, "{listed}");
        assert!(listed.contains(&task), "{listed}");
    }
    assert!(project.home("real/state").is_dir());
}
