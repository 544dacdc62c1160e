//! Owns the change of a user's index. The next one is made aside, with the settings of massgen's git alone,
//! and put in the place of the user's by one renaming, under the lock that keeps every git off.

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::git::hub::Hub;
use crate::world::git::object::ObjectId;
use crate::world::git::project::Project;
use crate::world::git::receiver::moved;
use crate::world::sys::own::dir::{self, DirLock, Hold, Stage};
use crate::world::sys::own::lockfile::{Lockfile, version_of};

/// The index that follows the user's, and the lock of theirs.
#[derive(Debug)]
pub(super) struct NextIndex {
    lock: Lockfile,
    _held: Option<DirLock>,
}

impl NextIndex {
    /// Makes the index that the project has when `commit` is checked out, in which what the user has staged
    /// is staged too, and locks theirs.
    ///
    /// # Errors
    /// Another git has the lock, or has changed the index meanwhile.
    pub(super) async fn lock(hub: &Hub, project: &Project, commit: &ObjectId) -> Result<Self> {
        let held = hold(project)?;
        let before = version_of(&project.index);
        let stage = Stage::new(hub.dir())?;
        let next = stage.path().join("index");
        project.copy_index((hub, &next)).await?;
        // The files are there already, and git need not look at them.
        let mut words = vec!["read-tree", "-m", "-i"];
        words.extend(project.head.as_ref().map(ObjectId::as_str));
        words.push(commit.as_str());
        let files = (&project.root, &next);
        hub.ask_of_files(files, &words).await?;
        // It says by its status what differs, which is the user's affair.
        let refresh = ["update-index", "-q", "--refresh", "--ignore-submodules"];
        hub.try_of_files(files, &refresh).await?;
        let lock = Lockfile::take(&project.index, &next)?.ok_or_else(|| at_work(&project.index))?;
        if version_of(&project.index) != before {
            return Err(moved());
        }
        Ok(Self { lock, _held: held })
    }

    /// Puts it in the place of the user's.
    pub(super) fn put(self) -> Result<()> {
        self.lock.put()
    }

    /// Expects that no other git is at work on the user's.
    pub(super) fn expect_unlocked(project: &Project) -> Result<()> {
        if Lockfile::is_taken(&project.index) {
            return Err(at_work(&project.index));
        }
        Ok(())
    }

    /// Ends what a process that was killed has left: the user's index becomes the next one, or stays, and
    /// the lock goes. Gives whether it became the next one.
    pub(super) fn finish(project: &Project, is_moved: bool) -> Result<bool> {
        let _held = hold(project)?;
        let Some(left) = Lockfile::left(&project.index) else {
            return Ok(false);
        };
        if is_moved {
            left.put()?;
        }
        Ok(is_moved)
    }
}

/// Keeps other massgens off the index.
fn hold(project: &Project) -> Result<Option<DirLock>> {
    match dir::hold(&project.notes())? {
        Hold::Held(lock) => Ok(Some(lock)),
        Hold::Unsupported => Ok(None),
        Hold::Taken => {
            let message = format!("another massgen commits to `{}`", project.root);
            Err(Error::new(ErrorKind::Environment, message).hint("apply again when it has ended"))
        }
    }
}

fn at_work(index: &AbsPath) -> Error {
    let message = format!("another git is at work, for there is a `{index}.lock`");
    Error::new(ErrorKind::Environment, message)
        .hint("apply again when it has ended; if none runs, remove that file first")
}
