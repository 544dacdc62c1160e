//! Owns the taking in of a session that was exported, here or elsewhere. It appears whole or not at
//! all, under an id of its own, and whatever its archive holds, nothing is written beside it.

use std::io;
use std::path::Path;

use crate::config::place::{SESSIONS, STATE_DIR};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::sessions::fork::{Came, Named, adopt, publish};
use crate::world::store::sessions::turn::WORKSPACE;
use crate::world::store::sessions::{PREFIX, SessionDir};
use crate::world::sys::own::dir::{self, Audience, Stage};
use crate::world::sys::own::tree::Limits;
use crate::world::sys::own::unpack::unpack;

/// How large a session may be to be taken in: entries, bytes, and directories in each other, which are
/// those of a workspace and three more.
const SESSION_MAX: Limits = Limits {
    entries: 1_000_000,
    bytes: 16 * 1024 * 1024 * 1024,
    depth: 67,
};

/// A session that was taken in.
#[derive(Debug)]
pub struct Imported {
    /// The session.
    pub session: SessionDir,
    /// Links that were left out, because they led out of it.
    pub links_left_out: u64,
}

/// Makes a session below `sessions` of the archive `from`.
pub fn import(from: &AbsPath, sessions: &AbsPath) -> Result<Imported> {
    let refused = |why: &str| {
        let message = format!("`{from}` is no session that massgen exported: {why}");
        Error::new(ErrorKind::Usage, message).hint("make one with `massgen sessions export`")
    };
    dir::create_all(sessions, Audience::User)?;
    let stage = Stage::new(sessions)?;
    let failed = |error: io::Error| {
        if error.kind() == io::ErrorKind::NotFound {
            Error::io(format!("cannot read `{from}`"), error)
        } else {
            refused("it cannot be unpacked").caused_by(error)
        }
    };
    let unpacked = unpack(from, stage.path(), SESSION_MAX, is_frozen).map_err(failed)?;
    if !unpacked.top.starts_with(PREFIX) {
        return Err(refused("its directory has another name"));
    }
    let staged = SessionDir {
        dir: stage.path().clone(),
    };
    let last = staged.last()?.ok_or_else(|| refused("it has no turn"))?;
    staged.turns()?;
    let place = last.cwd.join(STATE_DIR).join(SESSIONS).join(&unpacked.top);
    let before = Named {
        dir: place,
        id: unpacked.top,
    };
    let session = publish(sessions, stage, |made| {
        adopt(&staged, &before, made, Came::Imported)
    })?;
    Ok(Imported {
        session,
        links_left_out: unpacked.links_left_out,
    })
}

/// Files of workspaces are shared with later turns; nobody may change them.
fn is_frozen(path: &Path) -> bool {
    path.iter().nth(1).is_some_and(|name| name == WORKSPACE)
}
