//! Owns replacing and removing a name only while it is still what was looked at. The kernel has no
//! call for that, so the name is taken aside in one step, looked at there, and put back if it turns
//! out to be what somebody else has just saved. Nobody's bytes are removed unseen.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rustix::io::Errno;
use uuid::Uuid;

use crate::path::RelPath;
use crate::permissions::history::Version;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;

/// A name that nobody else uses, for what has no place yet or is about to go.
pub(crate) fn temporary_name() -> OsString {
    OsString::from(format!(".massgen-{}.tmp", Uuid::new_v4().simple()))
}

/// Puts `temporary`, a name in a directory, at `name`, where `expected` stands, and removes that. If
/// something else stands there, it stays, and `temporary` too. A file system that cannot exchange
/// names leaves a short time between looking and renaming.
pub(crate) fn replace_only(
    dir: &Dir,
    temporary: (&Dir, &OsStr),
    name: &OsStr,
    expected: &Version,
) -> Result<(), Fault> {
    let (aside, temporary) = temporary;
    match aside.exchange(temporary, dir, name) {
        Ok(()) => {}
        Err(Fault::Missing) => return Err(Fault::Changed),
        Err(Fault::System(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)) => {
            return if is_still(dir, name, expected)? {
                aside.rename_over(temporary, dir, name)
            } else {
                Err(Fault::Changed)
            };
        }
        Err(fault) => return Err(fault),
    }
    if is_still(aside, temporary, expected)? {
        return aside.unlink(temporary);
    }
    aside.exchange(temporary, dir, name)?;
    Err(Fault::Changed)
}

/// Makes a link that holds `target` at `name`, in the place of the link `expected`.
pub(crate) fn replace_link(
    dir: &Dir,
    name: &OsStr,
    target: &Path,
    expected: &Version,
) -> Result<(), Fault> {
    let temporary = temporary_name();
    dir.symlink(&temporary, target)?;
    let ours = version(dir, &temporary)?;
    let replaced = replace_only(dir, (dir, &temporary), name, expected);
    if replaced.is_err() {
        remove_only(dir, dir, &temporary, &ours)?;
    }
    replaced
}

/// Removes `name`, which is no directory, if `expected` still stands there. Meanwhile it is in
/// `aside`, where a process that is killed leaves it; in `dir` itself if that is elsewhere.
pub(crate) fn remove_only(
    dir: &Dir,
    aside: &Dir,
    name: &OsStr,
    expected: &Version,
) -> Result<(), Fault> {
    let temporary = temporary_name();
    let aside = match dir.rename_new(name, aside, &temporary) {
        Err(Fault::Replaced) => {
            dir.rename_new(name, dir, &temporary)?;
            dir
        }
        moved => moved.map(|()| aside)?,
    };
    if is_still(aside, &temporary, expected)? {
        return aside.unlink(&temporary);
    }
    // If somebody has made the name anew by now, both stay.
    let _put_back = aside.rename_new(&temporary, dir, name);
    Err(Fault::Changed)
}

fn is_still(dir: &Dir, name: &OsStr, expected: &Version) -> Result<bool, Fault> {
    Ok(version(dir, name)?.has_content_of(expected))
}

fn version(dir: &Dir, name: &OsStr) -> Result<Version, Fault> {
    let rel = RelPath::default().child(name).ok_or(Fault::Missing)?;
    Ok(dir.meta(&rel)?.version)
}
