//! Planted records that came with the project: symlinks in them are never followed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::project::{Project, copy_tree};
use crate::scripted_team::{agent, answer_replies, team};

/// Must not be printed.
const PRIVATE: &str = "what-is-private";
/// The planted run; its name is newer than that of any other.
const PLANTED: &str = ".massgen/massgen_logs/log_20990101_000000_000000";

/// Returns a project in which one run has ended.
fn run_to_end() -> Project {
    let config = team(&[agent("a", "", &answer_replies(PRIVATE, "agent1", 0))], "");
    let run = Project::new().config(&config).args([PRIVATE]).success();
    run.then([""])
}

/// Adds to the home another project with a run whose task is private.
fn with_other_run(project: Project) -> Project {
    let other = run_to_end();
    fs::create_dir(project.home("other")).unwrap();
    copy_tree(&other.path(".massgen"), &project.home("other/.massgen"));
    project
}

/// Checks that no command that reads records prints what is private.
#[track_caller]
fn tells_nothing(mut project: Project) {
    for arguments in [
        &["logs", "list"][..],
        &["logs", "show", "last"],
        &["logs", "show", PLANTED],
        &["logs", "export", "last", "-o", "all.tar.gz"],
        &["replay", "last"],
        &["sessions", "list"],
        &["sessions", "show", "last"],
        &["--continue", "go on"],
    ] {
        let finished = project.retyped(arguments.iter().copied()).run();
        let output = [finished.stdout(), finished.stderr()].concat();
        assert!(!output.contains(PRIVATE), "{arguments:?}\n{output}");
        project = finished.then([""]);
    }
    let packed = fs::metadata(project.path("all.tar.gz"));
    assert!(packed.is_err(), "something was packed");
}

fn other_log(project: &Project) -> PathBuf {
    let logs = fs::read_dir(project.home("other/.massgen/massgen_logs")).unwrap();
    logs.map(|log| log.unwrap().path()).next().unwrap()
}

#[test]
fn a_run_of_this_project_is_listed() {
    let finished = run_to_end().retyped(["logs", "show", "last"]).success();
    assert!(finished.stdout().contains(PRIVATE));
    let finished = finished.then(["logs", "export", "last", "-o", "all.tar.gz"]);
    let finished = finished.success();
    assert!(finished.project().path("all.tar.gz").exists());
}

#[test]
fn a_link_instead_of_records_is_not_followed() {
    let at = |path: &str, target: &str| {
        let project = with_other_run(Project::new());
        let link = project.path(path);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let target = match target {
            "log" => other_log(&project),
            "turn" => other_log(&project).join("turn_1"),
            file => project.home(file),
        };
        symlink(target, link).unwrap();
        tells_nothing(project);
    };
    at(".massgen", "other/.massgen");
    at(".massgen/massgen_logs", "other/.massgen/massgen_logs");
    at(".massgen/sessions", "other/.massgen/sessions");
    at(PLANTED, "log");
    at(&format!("{PLANTED}/turn_1"), "turn");
}

#[test]
fn a_link_instead_of_a_record_file_is_not_followed() {
    for name in ["events.jsonl", "status.json", "replay.yaml"] {
        let project = with_other_run(Project::new()).dir(&format!("{PLANTED}/turn_1"));
        let target = other_log(&project).join("turn_1").join(name);
        symlink(target, project.path(PLANTED).join("turn_1").join(name)).unwrap();
        tells_nothing(project);
    }
}
