//! SIGCHLD, which a process ignores if the program that started it did. Then the kernel reaps its
//! children at once: how they ended is lost, and other processes may get their PIDs.

use rustix::process::Signal;

use crate::world::sys::sandbox::raw::SignalAction;

/// Makes the kernel keep the children of this process, and of those that it starts, until they are
/// waited for. Must be called before any is started.
pub fn keep_exited_children() {
    let action = SignalAction::default_action();
    // The call fails only for a signal that does not exist.
    action.install(Signal::CHILD).unwrap_or_default();
}
