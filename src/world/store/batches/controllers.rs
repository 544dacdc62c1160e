//! The processes that start the jobs of a batch. Each keeps a file and locks it, so that others see
//! when none is left.

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::io::clock;
use crate::world::store::batches::BatchDir;
use crate::world::store::batches::claims::{ClaimOwner, OwnerLiveness, owner_liveness, read_owner};
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::create_once::{LockedFile, create_once};
use crate::world::sys::state_files::dir::{self, DirectoryAudience};

/// The file of a process that starts the jobs of a batch. It is removed with the value.
#[derive(Debug)]
pub struct ControllerFile {
    path: AbsPath,
    _lock: LockedFile,
}

impl Drop for ControllerFile {
    fn drop(&mut self) {
        // One that stays is not locked, and counts for nothing.
        drop(clear::remove(&self.path));
    }
}

impl BatchDir {
    /// Marks this process as one that starts the jobs of the batch.
    pub fn mark_controller(&self) -> Result<ControllerFile> {
        let this_process = ClaimOwner::this_process("", None);
        let dir = self.controllers_dir();
        dir::create_all(&dir, DirectoryAudience::User)?;
        for path in self.controller_files()? {
            if owner_liveness(read_owner(&path).as_ref(), &path, &this_process)
                == OwnerLiveness::Dead
            {
                clear::remove(&path)?;
            }
        }
        let text = serde_json::to_vec(&this_process)
            .map_err(|error| Error::bug("a mark has no JSON form").with_source(error))?;
        let path = dir.join(format!(
            "{}.{}",
            this_process.pid,
            clock::now().unix_nanoseconds()
        ));
        let lock = create_once(&path, &text)?;
        let lock = lock.ok_or_else(|| {
            Error::new(ErrorKind::Io, format!("`{path}` exists already"))
                .with_hint("start the command again")
        })?;
        Ok(ControllerFile { path, _lock: lock })
    }

    /// Returns whether a process that starts the jobs of the batch is alive: the answer for the one
    /// that is alive most certainly.
    pub fn controller_liveness(&self) -> Result<OwnerLiveness> {
        let this_process = ClaimOwner::this_process("", None);
        let files = self.controller_files()?.into_iter();
        let states =
            files.map(|path| owner_liveness(read_owner(&path).as_ref(), &path, &this_process));
        Ok(states.max().unwrap_or(OwnerLiveness::Dead))
    }

    fn controller_files(&self) -> Result<Vec<AbsPath>> {
        let dir = self.controllers_dir();
        let names = dir::names_if_exists(&dir)?.into_iter();
        // A file that is being created has another name.
        let names = names.filter(|name| !name.starts_with('.'));
        Ok(names.map(|name| dir.join(name)).collect())
    }

    fn controllers_dir(&self) -> AbsPath {
        self.dir.join("controllers")
    }
}
