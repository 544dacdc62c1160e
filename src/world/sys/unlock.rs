//! Owns the opening of directories that a command, or the user, closed to their owner: massgen has to
//! look into them and take names out, and the kernel holds all but root to their modes.

use rustix::fs::{Mode, chmod};
use rustix::io::Errno;

use crate::world::sys::dir::{Dir, proc_path};
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Meta;

/// That the mode of a file or directory forbids it.
pub(crate) const CLOSED: Fault = Fault::System(Errno::ACCESS);

/// Lets its owner list and change `dir`, and gives the mode that it had.
pub(crate) fn unlock(dir: &Dir) -> Result<Mode, Fault> {
    let mode = Meta::of(dir)?.mode;
    chmod(proc_path(dir), mode | Mode::RWXU)?;
    Ok(mode)
}

/// Does `work`, which changes names in `dir`. A directory that is closed to that is opened for as
/// long, and then has its mode again.
pub(crate) fn unlocked<T>(
    dir: &Dir,
    mut work: impl FnMut() -> Result<T, Fault>,
) -> Result<T, Fault> {
    let done = work();
    if done.as_ref().err() != Some(&CLOSED) {
        return done;
    }
    // Another's directory stays closed.
    let mode = unlock(dir).map_err(|_| CLOSED)?;
    let done = work();
    chmod(proc_path(dir), mode)?;
    done
}
