//! Owns what a thread that Landlock confines can still do: the trial runs in a thread of its own,
//! which ends with it. Nothing else of the process is ever confined here.
#![expect(clippy::disallowed_methods, reason = "this is where the disk is")]

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use landlock::{
    ABI, Access, AccessFs, LandlockStatus, PathBeneath, PathFd, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr,
};
use tempfile::TempDir;

/// The newest interface whose rights are asked for; an older kernel gives those that it knows.
const ABI_WANTED: ABI = ABI::V7;

/// What came of the trial.
#[derive(Debug)]
pub(crate) struct Trial {
    /// What the kernel offers.
    pub(crate) landlock: LandlockStatus,
    /// The first thing that went otherwise than it should.
    pub(crate) fault: Option<String>,
}

/// Confines a thread to one directory and lets it try to leave it.
pub(crate) fn try_to_escape() -> io::Result<Trial> {
    let place = TempDir::new()?;
    let (inside, outside) = prepared(place.path())?;
    let confined = move || -> io::Result<Trial> {
        let landlock = confine(&inside)?.landlock;
        let fault = first_fault(&inside, &outside);
        Ok(Trial { landlock, fault })
    };
    let thread = thread::Builder::new().name("confined".to_owned());
    match thread.spawn(confined)?.join() {
        Ok(tried) => tried,
        Err(_) => Err(io::Error::other("the trial broke off")),
    }
}

/// Two directories beside each other with a file in each, and a link from the first to the second.
fn prepared(place: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let (inside, outside) = (place.join("inside"), place.join("outside"));
    for dir in [&inside, &outside] {
        fs::create_dir(dir)?;
        fs::write(dir.join("known"), "x")?;
    }
    symlink(outside.join("known"), inside.join("link"))?;
    Ok((inside, outside))
}

fn confine(root: &Path) -> io::Result<RestrictionStatus> {
    let all = AccessFs::from_all(ABI_WANTED);
    let root = PathFd::new(root).map_err(io::Error::other)?;
    let restricted = Ruleset::default()
        .handle_access(all)
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rule(PathBeneath::new(root, all)))
        .and_then(RulesetCreated::restrict_self);
    restricted.map_err(io::Error::other)
}

/// The first thing that went otherwise than it should for a thread that is confined to `inside`.
fn first_fault(inside: &Path, outside: &Path) -> Option<String> {
    let controls = [
        ("reading inside", fs::read(inside.join("known")).map(drop)),
        ("writing inside", fs::write(inside.join("new"), "x")),
    ];
    for (what, done) in controls {
        if let Err(error) = done {
            return Some(format!("{what} is denied: {error}"));
        }
    }
    let escapes = [
        ("reading outside", fs::read(outside.join("known")).map(drop)),
        (
            "reading through a link",
            fs::read(inside.join("link")).map(drop),
        ),
        ("listing outside", fs::read_dir(outside).map(drop)),
        ("writing outside", fs::write(outside.join("new"), "x")),
        (
            "writing through a link",
            fs::write(inside.join("link"), "x"),
        ),
        ("deleting outside", fs::remove_file(outside.join("known"))),
        (
            "moving out",
            fs::rename(inside.join("known"), outside.join("moved")),
        ),
        (
            "linking in",
            fs::hard_link(outside.join("known"), inside.join("hard")),
        ),
    ];
    let is_held = |error: &io::Error| {
        matches!(
            error.kind(),
            ErrorKind::PermissionDenied | ErrorKind::CrossesDevices
        )
    };
    escapes.into_iter().find_map(|(what, done)| match done {
        Err(error) if is_held(&error) => None,
        Err(error) => Some(format!("{what} failed, but by itself: {error}")),
        Ok(()) => Some(format!("{what} is possible")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unconfined_thread_is_found_out() {
        let place = TempDir::new().unwrap();
        let (inside, outside) = prepared(place.path()).unwrap();
        let fault = first_fault(&inside, &outside);
        assert_eq!(fault.as_deref(), Some("reading outside is possible"));
    }
}
