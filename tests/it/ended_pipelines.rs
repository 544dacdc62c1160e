//! Ended pipelines: what they would deliver, what an undo leaves, which of them are trusted, and
//! which are removed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::process::Command;

use crate::git::{create_trap, take_triggered};
use crate::pipeline::{git_in, pipeline_config, pipeline_dir, role_replies};
use crate::pipeline_repository::{expect_committed, finished_pipeline, project};
use crate::scripted_team::agent;

#[test]
fn an_undo_names_the_commit_that_stays() {
    let applied = finished_pipeline().then(["apply", "last"]).success();
    let root = applied.project().path("");
    let head = git_in(&root, &["rev-parse", "HEAD"]);
    let undone = applied
        .then(["undo"])
        .success()
        .has_file("src/old.txt", "one\ntwo\n");
    let named = format!("git revert {}", head.trim());
    assert!(undone.stderr().contains(&named), "{}", undone.stderr());
    let again = undone.then(["apply", "last"]).success();
    assert!(
        again
            .stderr()
            .contains("your branch already has all changes"),
        "{}",
        again.stderr()
    );
    // The name of the pipeline means what was delivered of it; if nothing was committed, no commit is
    // mentioned.
    let unapplied = finished_pipeline();
    let name = pipeline_dir(unapplied.project());
    let name = name.file_name().unwrap().to_str().unwrap().to_owned();
    let refused = unapplied.then(["undo", &name]).failure(2);
    let reason = format!("nothing of `{name}` was applied");
    assert!(refused.stderr().contains(&reason), "{}", refused.stderr());
    let applied = refused
        .then(["apply", "last", "--history", "none"])
        .success();
    let shown = applied.then(["diff", &name]).success();
    assert!(shown.stdout().contains("+TWO\n"), "{}", shown.stdout());
    let undone = shown
        .then(["undo", &name])
        .success()
        .has_file("src/old.txt", "one\ntwo\n");
    assert!(!undone.stderr().contains("commit"), "{}", undone.stderr());
}

#[test]
fn diff_shows_what_apply_would_change_despite_changes_of_the_user() {
    let worked = finished_pipeline();
    fs::write(worked.project().path("src/old.txt"), "mine\n").unwrap();
    let shown = worked.then(["diff", "last"]).success();
    assert!(shown.stdout().contains("+TWO\n"), "{}", shown.stdout());
    shown
        .then(["apply", "last"])
        .failure(4)
        .has_file("src/old.txt", "mine\n");
}

#[test]
fn a_pipeline_that_changed_nothing_says_so() {
    let agents = [agent("implementer", "", &role_replies("", "nothing to do"))];
    let project = project().config(&pipeline_config("stages: [implementer]", &agents, ""));
    let finished = project.args(["change it"]).success();
    let stderr = finished.stderr();
    assert!(
        stderr.contains("it changed no files to deliver"),
        "{stderr}"
    );
    let shown = finished.then(["diff", "last"]).success();
    assert!(
        shown.stderr().contains("there are no files"),
        "{}",
        shown.stderr()
    );
    let applied = shown.then(["apply", "last"]).success();
    assert!(
        applied.stderr().contains("there are no files"),
        "{}",
        applied.stderr()
    );
}

#[test]
fn dry_run_shows_the_plan_of_a_pipeline() {
    let project = project();
    let head = git_in(&project.path(""), &["rev-parse", "HEAD"]);
    let shown = project.args(["--dry-run", "change it"]).success();
    for part in [
        ".pipeline/implementer/, the project",
        &format!("trunk at {}", head.trim()),
        "stages: implementer, once",
        "checks: none",
    ] {
        assert!(shown.stdout().contains(part), "{part}: {}", shown.stdout());
    }
    let shown = shown.then(["logs", "list"]).success();
    assert!(!shown.stdout().contains("change it"), "nothing was run");
    let listed = shown
        .then(["change it"])
        .success()
        .then(["logs", "list"])
        .success();
    let task = "[implementer, iteration 1] change it";
    assert!(listed.stdout().contains(task), "{}", listed.stdout());
    let name = pipeline_dir(listed.project());
    let name = name.file_name().unwrap().to_str().unwrap().to_owned();
    let log = listed.then(["logs", "show", &name]).success();
    for part in ["1 of 1 in iteration 1", "merged: implementer", "done: "] {
        assert!(log.stdout().contains(part), "{part}: {}", log.stdout());
    }
    let unknown = log.then(["logs", "show", "pipeline_1"]).failure(2);
    assert!(
        unknown.stderr().contains("no pipeline `pipeline_1`"),
        "{}",
        unknown.stderr()
    );
}

/// The repository of a pipeline decides how git is run on it.
#[test]
fn a_pipeline_that_came_with_a_project_is_ignored() {
    let worked = finished_pipeline();
    let traps = tempfile::tempdir().unwrap();
    let program = create_trap(traps.path(), "trap");
    let (own, planted) = (
        pipeline_dir(worked.project()),
        worked
            .project()
            .path(".massgen/pipelines/pipeline_20990101_000000_0a1b2c3d"),
    );
    let copied = Command::new("cp")
        .arg("-a")
        .arg(&own)
        .arg(&planted)
        .status();
    assert!(copied.unwrap().success());
    for name in ["filter.evil.clean", "filter.evil.smudge"] {
        git_in(&planted.join("hub.git"), &["config", name, &program]);
    }
    fs::create_dir_all(planted.join("hub.git/info")).unwrap();
    fs::write(planted.join("hub.git/info/attributes"), "* filter=evil\n").unwrap();
    let mut finished = worked;
    let prefix = "0a1b2c3d";
    for arguments in [
        ["log", prefix].as_slice(),
        &["branches", prefix],
        &["diff", prefix],
        &["apply", prefix],
        &["revert", prefix, "--role", "implementer"],
        &["reset", prefix, "--role", "implementer"],
        &["--continue"],
    ] {
        finished = finished.then(arguments).failure(3);
        let stderr = finished.stderr();
        assert!(
            stderr.contains("it was not created by massgen"),
            "{arguments:?}: {stderr}"
        );
    }
    assert_eq!(take_triggered(traps.path()), Vec::<String>::new());
    fs::remove_dir_all(&planted).unwrap();
    expect_committed(finished.then(["apply", "last"]).success().project());
}

#[test]
fn old_pipelines_are_removed_with_what_was_kept_of_them() {
    let applied = finished_pipeline().then(["apply", "last"]).success();
    let first = pipeline_dir(applied.project());
    let again = applied.then(["change it once more"]).success();
    let second = again.then(["apply", "last"]).success();
    let all = second.project().path(".massgen/pipelines");
    assert_eq!(fs::read_dir(&all).unwrap().count(), 2);
    let pruned = second
        .then(["sessions", "prune", "--larger-than", "1KiB"])
        .success();
    let name = first.file_name().unwrap().to_str().unwrap();
    assert!(
        pruned.stdout().contains(&format!("pipeline {name}")),
        "{}",
        pruned.stdout()
    );
    assert!(!first.exists());
    assert_eq!(fs::read_dir(&all).unwrap().count(), 1);
    let short = name.rsplit_once('_').unwrap().1;
    let deliveries = fs::read_dir(pruned.project().path(".massgen/deliveries")).unwrap();
    let mut left = deliveries.map(|one| one.unwrap().file_name().into_string().unwrap());
    assert!(left.all(|delivery| !delivery.contains(short)));
    pruned.then(["log"]).success();
}
