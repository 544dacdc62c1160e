//! Hostile contents of a repository that the user has just cloned: symlinks where massgen writes,
//! and pipes where it reads. massgen fails quickly, reports why, and touches nothing elsewhere.

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::project::Project;

const TEAM: &str = r#"
agents:
  - id: solo
    backend:
      type: scripted
      cwd: w1
      replies:
        - calls: [{name: write_file, arguments: {path: a.txt, content: a}}]
        - calls: [{name: new_answer, arguments: {content: "done"}}]
"#;

/// Returns a project with a task, and next to it an unrelated directory.
fn project() -> Project {
    Project::new()
        .file("team.yaml", TEAM)
        .dir("../elsewhere")
        .args(["-c", "team.yaml", "go"])
}

#[test]
fn links_below_the_state_directory_are_not_followed() {
    for link in [
        "workspaces",
        "temp_workspaces",
        "snapshots",
        "sessions",
        "massgen_logs",
    ] {
        let link = format!(".massgen/{link}");
        let project = project().dir(".massgen").link(&link, "../../elsewhere");
        let finished = project.failure(3);
        let stderr = finished.stderr();
        assert!(
            stderr.contains(&link) && stderr.contains("is a symlink"),
            "{stderr}"
        );
        let link_target = finished.project().path("../elsewhere");
        assert_eq!(std::fs::read_dir(link_target).unwrap().count(), 0, "{link}");
    }
    let finished = project().link(".massgen", "../elsewhere").failure(3);
    assert!(
        finished.stderr().contains("is a symlink"),
        "{}",
        finished.stderr()
    );
    let _control = project().dir(".massgen/sessions").success();
}

fn make_pipe(project: &Project, path: &str) {
    let path = project.path(path);
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn a_pipe_that_was_not_named_is_not_waited_for() {
    let with_env = project();
    make_pipe(&with_env, ".env");
    let finished = with_env.success();
    let stderr = finished.stderr();
    assert!(stderr.contains("ignoring its variables"), "{stderr}");

    let with_config = Project::new().dir(".massgen").args(["go"]);
    make_pipe(&with_config, ".massgen/config.yaml");
    let finished = with_config.failure(3);
    assert!(
        finished.stderr().contains("it is a pipe"),
        "{}",
        finished.stderr()
    );
}
