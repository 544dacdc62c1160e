//! Owns what massgen keeps on disk under `.massgen`: workspaces, snapshots, sessions and records.
//! Nothing that massgen did not make is ever emptied or replaced here.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sys::own::dir::{self, Audience, Made};
use crate::world::sys::own::file::{self, Durability};

pub mod redact;
pub mod trace;
pub mod event_log;
pub mod records;
pub mod snapshot;
pub mod workspace;
pub mod session;

/// Makes massgen's state directory (`.massgen`) if it is missing, for the user alone and with a
/// `.gitignore` that keeps it out of the user's repository. An existing one is left as it is.
pub fn prepare_state_dir(dir: &AbsPath) -> Result<()> {
    if let Some(parent) = dir.parent() {
        dir::create_all(&parent, Audience::Umask)?;
    }
    if dir::create(dir)? == Made::Now {
        file::replace(&dir.join(".gitignore"), b"*\n", Durability::Process)?;
    }
    Ok(())
}
