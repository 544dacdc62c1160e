//! Directories to which the commands of a run write: they are removed with the run, whatever
//! commands created in them, and the next run removes those of an interrupted one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use massgen::id::AgentId;
use massgen::path::AbsPath;
use massgen::world::store::sandboxes::SandboxDirs;
use rustix::fs::{CWD, Mode, mkfifoat};

fn abs(path: &Path) -> AbsPath {
    AbsPath::new(path).unwrap()
}

fn agent(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

/// Returns the number of runs' directories below `parent`.
fn count_run_dirs(parent: &Path) -> usize {
    fs::read_dir(parent).unwrap().count()
}

#[test]
fn each_run_has_directories_of_its_own_and_they_go_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let parent = abs(&dir.path().join("sandboxes"));
    let one = SandboxDirs::make(&parent).unwrap();
    let other = SandboxDirs::make(&parent).unwrap();
    let path = one.agent(&agent("a")).unwrap();
    assert_ne!(path, one.agent(&agent("b")).unwrap());
    assert_ne!(path, other.agent(&agent("a")).unwrap());
    assert_eq!(count_run_dirs(parent.as_path()), 2);
    fs::create_dir(path.join("home").as_path()).unwrap();
    drop(one);
    assert_eq!(count_run_dirs(parent.as_path()), 1);
    drop(other);
    assert_eq!(count_run_dirs(parent.as_path()), 0);
}

#[test]
fn sandbox_directories_are_cleared_and_nothing_outside_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "stays").unwrap();
    let parent = abs(&dir.path().join("sandboxes"));
    let sandboxes = SandboxDirs::make(&parent).unwrap();
    let home = sandboxes.agent(&agent("a")).unwrap().join("home");
    let home = home.as_path();
    fs::create_dir(home).unwrap();
    std::os::unix::fs::symlink(&outside, home.join("link")).unwrap();
    mkfifoat(CWD, home.join("pipe"), Mode::RUSR).unwrap();
    fs::create_dir_all(home.join("shut/inside")).unwrap();
    fs::write(home.join("shut/inside/file"), "x").unwrap();
    let shut = fs::Permissions::from_mode(0o000);
    fs::set_permissions(home.join("shut/inside"), shut.clone()).unwrap();
    fs::set_permissions(home.join("shut"), shut).unwrap();
    // Deeper than the maximum length of a path.
    let deep =
        "d=$(printf 'd/%.0s' $(seq 1500)); mkdir -p $d; mkdir e; mv d e; mkdir -p $d; mv e $d";
    let status = Command::new("sh")
        .args(["-ec", deep])
        .current_dir(home)
        .status()
        .unwrap();
    assert!(status.success());
    for number in 0..2_000 {
        fs::write(home.join(format!("f{number}")), "").unwrap();
    }
    drop(sandboxes);
    assert_eq!(count_run_dirs(parent.as_path()), 0);
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "stays");
}

#[test]
fn leftovers_of_an_interrupted_run_are_removed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let parent = abs(&dir.path().join("sandboxes"));
    let going_on = SandboxDirs::make(&parent).unwrap();
    let file = going_on.agent(&agent("a")).unwrap().join("file");
    fs::write(file.as_path(), "used").unwrap();
    let left_over = parent.join("run_00000000/a/layers/0/work/work");
    fs::create_dir_all(left_over.as_path()).unwrap();
    fs::set_permissions(left_over.as_path(), fs::Permissions::from_mode(0o000)).unwrap();
    let next = SandboxDirs::make(&parent).unwrap();
    assert!(fs::metadata(parent.join("run_00000000").as_path()).is_err());
    assert_eq!(fs::read_to_string(file.as_path()).unwrap(), "used");
    drop(next);
    assert_eq!(count_run_dirs(parent.as_path()), 1);
}

#[test]
fn only_leftovers_of_an_interrupted_call_are_removed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let parent = abs(dir.path());
    let going_on = SandboxDirs::make_for_call(&parent).unwrap();
    let room = going_on.caller().unwrap();
    let left = parent.join(".massgen_call_00c0ffee/caller/home");
    let others = [
        "massgen_00c0ffee",
        ".massgen_call_",
        ".massgen_call_00c0ffee1",
        ".massgen_call_notdigit",
        "run_00c0ffee",
    ];
    for path in others.map(|name| parent.join(name)).iter().chain([&left]) {
        fs::create_dir_all(path.as_path()).unwrap();
    }
    std::os::unix::fs::symlink(dir.path(), parent.join(".massgen_call_11111111").as_path())
        .unwrap();
    drop(SandboxDirs::make_for_call(&parent).unwrap());
    let is_there = |name: &str| fs::symlink_metadata(parent.join(name).as_path()).is_ok();
    assert!(!is_there(".massgen_call_00c0ffee"));
    assert!(others.into_iter().all(is_there) && is_there(".massgen_call_11111111"));
    assert!(fs::metadata(room.as_path()).is_ok());
    drop(going_on);
    assert!(fs::metadata(room.as_path()).is_err());
}

#[test]
fn of_many_directories_that_were_left_each_call_removes_a_few_until_none_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let parent = abs(dir.path());
    let left = 100;
    for number in 0..left {
        let path = parent.join(format!(
            ".massgen_call_{:08x}/caller/home",
            number * 0x0100_0000
        ));
        fs::create_dir_all(path.as_path()).unwrap();
    }
    drop(SandboxDirs::make_for_call(&parent).unwrap());
    let after_one = count_run_dirs(parent.as_path());
    assert!((left - 20..left).contains(&after_one), "{after_one}");
    let calls = (0..left).find(|_| {
        drop(SandboxDirs::make_for_call(&parent).unwrap());
        count_run_dirs(parent.as_path()) == 0
    });
    assert!(
        calls.is_some(),
        "{} are left",
        count_run_dirs(parent.as_path())
    );
}
