//! Kills everything that a command has started, where no PID namespace does it (level `landlock`).
//! The supervisor is a child subreaper, so no process can escape from its descendants. It must
//! never signal a process that is not one of them.
#![expect(clippy::disallowed_methods, reason = "only world::sys touches files")]

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use landlock::{
    AccessFs, CompatLevel, Compatible, PathBeneath, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper,
    test_kill_process, wait,
};

use crate::world::sys::sandbox::raw;

/// How often descendants are listed before the ones found are killed: each round stops all that the
/// previous one found, and a stopped process starts nothing.
const ROUNDS_MAX: usize = 64;
/// How long to wait for killed processes to exit before the next round.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// Which processes the signals of this process reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalReach {
    /// Only its own descendants: the kernel keeps signals from all others (Landlock, Linux 6.12).
    Descendants,
    /// Every process of the user, as usual.
    User,
}

/// The descendants of this process: its children, their children, and so on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescendantProcesses {
    signal_reach: SignalReach,
}

impl DescendantProcesses {
    /// Makes this process a child subreaper. Must be called before it starts anything.
    pub(crate) fn become_subreaper() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self {
            signal_reach: SignalReach::User,
        })
    }

    /// Like [`DescendantProcesses::become_subreaper`], but also restricts the signals of this
    /// process and its descendants to one another, where the kernel can. Must be called while the
    /// process has one thread.
    pub(crate) fn become_subreaper_with_signal_scope() -> io::Result<Self> {
        Self::become_subreaper()?;
        Ok(Self {
            signal_reach: restrict_signals(),
        })
    }

    /// Kills all of them in one call, if signals are scoped to descendants.
    pub(crate) fn kill_if_scoped(self) {
        if self.signal_reach == SignalReach::Descendants {
            // No fork can interleave, so nothing escapes; an error means that there are no
            // descendants.
            raw::signal_all(Signal::KILL).unwrap_or_default();
        }
    }

    /// Kills all of them and returns when none is left.
    pub(crate) fn kill_and_wait(self) {
        loop {
            match self.signal_reach {
                SignalReach::Descendants => self.kill_if_scoped(),
                SignalReach::User => kill_descendants(),
            }
            if reap_all() {
                return;
            }
            thread::sleep(RETRY_PAUSE);
        }
    }
}

/// Puts this process into a domain that signals cannot leave, and verifies that.
fn restrict_signals() -> SignalReach {
    let is_enforced =
        enter_signal_domain().is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced);
    let parent = getppid().map(test_kill_process);
    if is_enforced && parent == Some(Err(Errno::PERM)) {
        SignalReach::Descendants
    } else {
        SignalReach::User
    }
}

/// Enters a Landlock domain for signals. Every domain, even one only for signals, forbids linking
/// and moving files to other directories unless it allows that: this one allows it everywhere.
fn enter_signal_domain() -> Result<RestrictionStatus, Box<dyn Error>> {
    let root = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let domain = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)?
        .handle_access(AccessFs::Refer)?
        .create()?
        .add_rule(PathBeneath::new(root, AccessFs::Refer))?;
    Ok(domain.restrict_self()?)
}

/// Reaps all children that have exited; returns whether no child is left.
pub(crate) fn reap_all() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Stops descendants until no new ones appear, then kills them.
fn kill_descendants() {
    let mut stopped_processes = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let new_processes: BTreeSet<i32> = list_descendants()
            .difference(&stopped_processes)
            .copied()
            .collect();
        if new_processes.is_empty() {
            break;
        }
        signal_each(&new_processes, Signal::STOP);
        stopped_processes.extend(new_processes);
    }
    signal_each(&stopped_processes, Signal::KILL);
}

fn signal_each(processes: &BTreeSet<i32>, signal: Signal) {
    for process in processes.iter().filter_map(|number| Pid::from_raw(*number)) {
        // A process that has exited already cannot be signalled.
        kill_process(process, signal).unwrap_or_default();
    }
}

/// Returns the PIDs of the descendants that the kernel lists now.
pub(crate) fn list_descendants() -> BTreeSet<i32> {
    let mut descendants = BTreeSet::new();
    let mut parents_left = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = parents_left.pop() {
        let children = list_children(parent);
        parents_left.extend(
            children
                .into_iter()
                .filter(|child| descendants.insert(*child)),
        );
    }
    descendants
}

/// Returns the children of all threads of a process; none if it is gone.
fn list_children(parent: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task"));
    let lists = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| {
            let list = thread.path().join("children");
            fs::read_to_string(list).ok()
        });
    let mut numbers = Vec::new();
    for list in lists {
        numbers.extend(
            list.split_whitespace()
                .filter_map(|number| number.parse::<i32>().ok()),
        );
    }
    numbers
}
