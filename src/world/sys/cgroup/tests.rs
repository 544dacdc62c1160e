//! What is found of control groups in what the kernel tells.

use std::process::{Child, Command, Stdio};

use super::*;

/// The groups of this machine; `None`, with a word, where there is nothing to test.
fn cgroups(resource: Resource) -> Option<Cgroups> {
    let found = Cgroups::find();
    if found.limit(resource) {
        return Some(found);
    }
    println!(
        "skipped: no control group limits {} here",
        resource.controller()
    );
    None
}

/// Runs a script whose first line waits until it is in the group.
#[track_caller]
fn check(resource: Resource, limits: Limits, script: &str, expected: &str) -> u64 {
    let Some(cgroups) = cgroups(resource) else {
        return 1;
    };
    let group = cgroups.make(&limits).unwrap();
    let child = started(&format!("read go; {script}"));
    group.take_in(id(&child)).unwrap();
    let mut child = child;
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.trim(), expected, "{output:?}");
    group.killed_for_memory()
}

fn started(script: &str) -> Child {
    Command::new("/bin/bash")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn id(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// A program that fills 64 MiB, then says so.
const FILLER: &str = "head -c 67108864 /dev/zero | tail | tr -d '\\0'; echo ${PIPESTATUS[1]}";

#[test]
fn memory_is_limited_for_all_processes_together() {
    let limits = |mebibytes: Option<u64>| Limits {
        memory_bytes: mebibytes.map(|mebibytes| mebibytes << 20),
        ..Limits::default()
    };
    let check = |limits, expected| check(Resource::Memory, limits, FILLER, expected);
    assert!(check(limits(Some(16)), "137") > 0);
    check(limits(Some(512)), "0");
    check(limits(None), "0");
}

#[test]
fn processes_are_limited() {
    let limits = |processes| Limits {
        processes,
        ..Limits::default()
    };
    // Each waits for the next; bash tries again for a while and then gives up.
    let script = "(echo $(echo $(echo $(echo $(echo all))))) 2>/dev/null";
    let check = |limits, expected| check(Resource::Processes, limits, script, expected);
    check(limits(100), "all");
    check(limits(1), "");
}

#[test]
fn groups_of_one_process_have_names_of_their_own() {
    let Some(one) = cgroups(Resource::Processes) else {
        return;
    };
    let first = one.make(&Limits::default()).unwrap();
    let other = Cgroups::find();
    assert!(other.limit(Resource::Processes));
    let second = other.make(&Limits::default()).unwrap();
    assert!(first.dirs.iter().all(|dir| !second.dirs.contains(dir)));
}

#[test]
fn a_group_goes_with_all_that_is_in_it() {
    let Some(cgroups) = cgroups(Resource::Processes) else {
        return;
    };
    let group = cgroups.make(&Limits::default()).unwrap();
    let mut child = started("sleep 60 & sleep 60");
    group.take_in(id(&child)).unwrap();
    let dirs = group.dirs.clone();
    assert!(dirs.iter().all(|(_, dir)| dir.as_path().is_dir()));
    drop(group);
    assert!(!dirs.iter().any(|(_, dir)| dir.as_path().is_dir()));
    assert!(!child.wait().unwrap().success());
}

#[test]
fn groups_of_runs_that_are_gone_are_removed() {
    let Some(cgroups) = cgroups(Resource::Processes) else {
        return;
    };
    let place = &cgroups.places[0].dir;
    let mut gone = started("exit");
    let owner_gone = owner(id(&gone)).unwrap();
    gone.wait().unwrap();
    let mut living = started("read forever");
    let owner_living = owner(id(&living)).unwrap();
    let elsewhere = owner_gone.replacen(|c: char| c.is_ascii_digit(), "9", 3);
    let names = [owner_gone, owner_living, elsewhere].map(|owner| format!("{MARK}-{owner}-0"));
    for name in &names {
        fs::create_dir(place.join(name).as_path()).unwrap();
    }
    drop(Cgroups::find());
    let left = names.map(|name| fs::remove_dir(place.join(name).as_path()).is_ok());
    drop(living.stdin.take());
    living.wait().unwrap();
    assert_eq!(left, [false, true, true]);
}
