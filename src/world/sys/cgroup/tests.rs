//! Tests of control groups on this machine: limits, cleanup, and unique names.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

use super::*;

/// Returns the groups of this machine; `None`, with a message, if there is nothing to test.
#[track_caller]
fn cgroups() -> Option<Cgroups> {
    let cgroups = Cgroups::find();
    for resource in CgroupResource::ALL {
        let is_found = cgroups.has_controller(resource);
        assert!(
            is_found || !can_be_limited_by_hand(resource),
            "{resource:?}"
        );
    }
    if cgroups.can_limit_memory() && cgroups.has_controller(CgroupResource::Processes) {
        return Some(cgroups);
    }
    println!("skipped: no control groups can be made here");
    None
}

/// Returns whether a shell can create a group below the own one and limit a resource there to 1024
/// processes or 1 MiB.
fn can_be_limited_by_hand(resource: CgroupResource) -> bool {
    let script = match resource {
        CgroupResource::Memory => {
            "d=/sys/fs/cgroup/memory$(sed -n 's/.*:memory://p' /proc/self/cgroup)/by-hand-$$
             mkdir $d && echo 1048576 > $d/memory.limit_in_bytes; s=$?; rmdir $d; exit $s"
        }
        CgroupResource::Processes => {
            "d=/sys/fs/cgroup/pids$(sed -n 's/.*:pids://p' /proc/self/cgroup)/by-hand-$$
             mkdir $d && echo 1024 > $d/pids.max; s=$?; rmdir $d; exit $s"
        }
    };
    start_shell(script).wait().unwrap().success()
}

/// Runs a script whose first line joins the group.
#[track_caller]
fn check(limits: ResourceLimits, script: impl Fn(&str) -> String, expected: &str) -> u64 {
    let Some(cgroups) = cgroups() else { return 1 };
    let group = cgroups.create_group(&limits).unwrap();
    let handles = group.join_handles().unwrap();
    let child = start_shell(&script(&entering(&handles)));
    let output = child.wait_with_output().unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output_text.trim(), expected, "{output:?}");
    group.oom_kills()
}

/// Joins the group through `handles`, which this process holds open.
fn entering(handles: &[OwnedFd]) -> String {
    let enter = |handle: &OwnedFd| format!("echo 0 > /proc/$PPID/fd/{}; ", handle.as_raw_fd());
    handles.iter().map(enter).collect()
}

fn start_shell(script: &str) -> Child {
    Command::new("/bin/bash")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Fills 64 MiB and exits as the program that held them.
const FILLER: &str = "head -c 67108864 /dev/zero | tail | tr -d '\\0'; exit ${PIPESTATUS[1]}";

/// Runs [`FILLER`] in a group and prints its exit status. The shell that prints it is outside: the
/// kernel can kill any process of the group, and sometimes kills a second one.
fn fill(enter: &str) -> String {
    format!("({enter}{FILLER}); echo $?")
}

#[test]
fn memory_is_limited_for_all_processes_together() {
    let limits = |mebibytes: Option<u64>| ResourceLimits {
        memory_bytes: mebibytes.map(|mebibytes| mebibytes << 20),
        ..ResourceLimits::default()
    };
    assert!(check(limits(Some(16)), fill, "137") > 0);
    check(limits(Some(512)), fill, "0");
    check(limits(None), fill, "0");
}

#[test]
fn processes_are_limited() {
    let limits = |processes| ResourceLimits {
        processes,
        ..ResourceLimits::default()
    };
    // Each waits for the next; bash retries for a while and then gives up.
    let script = |enter: &str| {
        format!("{enter}(echo $(echo $(echo $(echo $(echo $(echo all)))))) 2>/dev/null")
    };
    check(limits(100), script, "all");
    check(limits(1), script, "");
}

#[test]
fn dropping_a_group_kills_its_processes() {
    let Some(cgroups) = cgroups() else { return };
    let group = cgroups.create_group(&ResourceLimits::default()).unwrap();
    let handles = group.join_handles().unwrap();
    let script = format!("{}sleep 60 & echo; sleep 60", entering(&handles));
    let mut child = start_shell(&script);
    let mut entered = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut entered)
        .unwrap();
    drop(handles);
    let dirs = group.dirs.clone();
    assert!(dirs.iter().all(|(_, dir)| dir.as_path().is_dir()));
    drop(group);
    assert!(!dirs.iter().any(|(_, dir)| dir.as_path().is_dir()));
    assert!(!child.wait().unwrap().success());
}

#[test]
fn groups_do_not_get_into_each_others_way() {
    let (Some(one), Some(other)) = (cgroups(), cgroups()) else {
        return;
    };
    let limits = ResourceLimits::default();
    let groups = [&one, &other, &one].map(|cgroups| cgroups.create_group(&limits).unwrap());
    let dirs = groups.each_ref().map(|group| group.dirs.clone());
    drop(groups);
    assert!(dirs[0] != dirs[1] && dirs[1] != dirs[2] && dirs[0] != dirs[2]);
}

#[test]
fn groups_of_dead_runs_are_removed() {
    let Some(cgroups) = cgroups() else { return };
    let parent = &cgroups.parents[0].dir;
    let mut ended = start_shell("read forever");
    let owner_gone = process_identity(ended.id()).unwrap();
    drop(ended.stdin.take());
    ended.wait().unwrap();
    let mut living = start_shell("read forever");
    let owner_living = process_identity(living.id()).unwrap();
    let elsewhere = owner_gone.replacen(|c: char| c.is_ascii_digit(), "9", 3);
    let names =
        [owner_gone, owner_living, elsewhere].map(|owner| format!("{NAME_PREFIX}-{owner}-0"));
    for name in &names {
        fs::create_dir(parent.join(name).as_path()).unwrap();
    }
    drop(Cgroups::find());
    let removable = names.map(|name| fs::remove_dir(parent.join(name).as_path()).is_ok());
    drop(living.stdin.take());
    living.wait().unwrap();
    assert_eq!(removable, [false, true, true]);
}
