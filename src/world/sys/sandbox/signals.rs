//! Answers system calls that signal processes, on kernels whose Landlock does not restrict signals
//! (before Linux 6.12). The supervisor sends the signal itself: to the command's own processes, and
//! never to another.

use std::collections::BTreeSet;

use rustix::io::Errno;
use rustix::process::{Pid, getpgid, test_kill_process};

use crate::world::sys::sandbox::caller::NotifyingProcess;
use crate::world::sys::sandbox::notification::SeccompNotification;
use crate::world::sys::sandbox::{descendants, raw};

/// Sends the caller's signal, if it may send it.
pub(crate) fn send_signal(
    notification: &SeccompNotification,
    caller: &NotifyingProcess,
) -> Result<(), Errno> {
    let [first, second, third] = [0, 1, 2].map(|index| notification.argument_i32(index));
    match notification.call {
        libc::SYS_kill => signal_processes(caller, first, second),
        libc::SYS_tkill => {
            let process = NotifyingProcess::new(u32::try_from(first).map_err(|_| Errno::INVAL)?)?
                .process_id()?;
            signal_one_thread(caller, process.as_raw_nonzero().get(), first, second)
        }
        libc::SYS_tgkill => signal_one_thread(caller, first, second, third),
        _ => Err(Errno::NOSYS),
    }
}

/// Signals the processes that `kill` addresses by a number: a process, or with 0 and below a group
/// or all.
fn signal_processes(caller: &NotifyingProcess, target: i32, signal: i32) -> Result<(), Errno> {
    let descendants = descendants::list_descendants();
    let members = |group: Pid| {
        let is_member = |process: &i32| {
            let process = Pid::from_raw(*process);
            getpgid(process).is_ok_and(|process_group| process_group == group)
        };
        descendants.iter().copied().filter(is_member).collect()
    };
    let caller = caller.process_id()?;
    let targets: BTreeSet<i32> = match target {
        1.. if descendants.contains(&target) => BTreeSet::from([target]),
        1.. => return Err(foreign_process_error(target)),
        0 => members(getpgid(Some(caller))?),
        -1 => {
            let caller = caller.as_raw_nonzero().get();
            descendants
                .iter()
                .copied()
                .filter(|process| *process != caller)
                .collect()
        }
        _ => members(Pid::from_raw(target.saturating_neg()).ok_or(Errno::SRCH)?),
    };
    let results = targets
        .iter()
        .map(|process| raw::signal_process(*process, signal));
    // As in the kernel, one process that was reached is enough.
    results.reduce(Result::or).unwrap_or(Err(Errno::SRCH))
}

fn signal_one_thread(
    caller: &NotifyingProcess,
    process: i32,
    thread: i32,
    signal: i32,
) -> Result<(), Errno> {
    let is_caller = caller.process_id()?.as_raw_nonzero().get() == process;
    if is_caller || descendants::list_descendants().contains(&process) {
        raw::signal_thread(process, thread, signal)
    } else {
        Err(foreign_process_error(process))
    }
}

/// Returns the error for a process that does not belong to the command.
fn foreign_process_error(process: i32) -> Errno {
    match Pid::from_raw(process).map(test_kill_process) {
        Some(Err(Errno::SRCH)) | None => Errno::SRCH,
        Some(Ok(()) | Err(_)) => Errno::PERM,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    use rustix::process::getppid;

    use super::*;

    fn sleeper() -> Child {
        let mut sleep = Command::new("sleep");
        sleep.arg("60").process_group(0).spawn().unwrap()
    }

    fn number(child: &Child) -> i32 {
        child.id().try_into().unwrap()
    }

    /// Checks the result of a call by `caller`.
    #[track_caller]
    fn check(caller: &Child, call: i64, arguments: [i32; 3], expected: Result<(), Errno>) {
        let words = arguments.map(|argument| u64::from(argument.cast_unsigned()));
        let notification = SeccompNotification::new(caller.id(), call, &words);
        let process = NotifyingProcess::new(caller.id()).unwrap();
        assert_eq!(
            send_signal(&notification, &process),
            expected,
            "{call} {arguments:?}"
        );
    }

    #[test]
    fn only_own_processes_are_signalled() {
        let (mut one, mut other, mut ended) = (sleeper(), sleeper(), sleeper());
        ended.kill().unwrap();
        ended.wait().unwrap();
        let parent = getppid().unwrap().as_raw_nonzero().get();
        let (kill, to_one, to_member) = (libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill);
        let [own, sibling] = [number(&one), number(&other)];
        for target in [own, sibling, 0, -1, -own, -sibling] {
            check(&one, kill, [target, 0, 0], Ok(()));
        }
        for target in [own, sibling] {
            check(&one, to_one, [target, 0, 0], Ok(()));
            check(&one, to_member, [target, target, 0], Ok(()));
        }
        check(&one, kill, [parent, 0, 0], Err(Errno::PERM));
        check(&one, to_one, [parent, 0, 0], Err(Errno::PERM));
        check(&one, to_member, [parent, parent, 0], Err(Errno::PERM));
        check(&one, kill, [number(&ended), 0, 0], Err(Errno::SRCH));
        check(&one, kill, [sibling, libc::SIGTERM, 0], Ok(()));
        assert_eq!(other.wait().unwrap().signal(), Some(libc::SIGTERM));
        check(&one, kill, [0, libc::SIGKILL, 0], Ok(()));
        assert_eq!(one.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
