//! Imports a session that was exported, here or elsewhere. It appears whole or not at all, under a
//! new id, and whatever its archive contains, nothing is written outside it.

use std::io;
use std::path::Path;

use crate::config::storage_path::{SESSIONS, STATE_DIR};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::sessions::fork::{
    SessionIdentity, SessionOrigin, publish, rewrite_identity,
};
use crate::world::store::sessions::turn::WORKSPACE;
use crate::world::store::sessions::{PREFIX, SessionDir};
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};
use crate::world::sys::state_files::tree::TreeLimits;
use crate::world::sys::state_files::unpack::unpack;

/// The largest session that is imported: entries, bytes, and levels of directories, which are those
/// of a workspace and three more.
const SESSION_LIMITS: TreeLimits = TreeLimits {
    entries: 1_000_000,
    bytes: 16 * 1024 * 1024 * 1024,
    depth: 67,
};

/// An imported session.
#[derive(Debug)]
pub struct ImportedSession {
    /// The session.
    pub session: SessionDir,
    /// The number of links that were skipped because they led out of it.
    pub links_left_out: u64,
}

/// Creates a session below `sessions` from the archive `from`.
pub fn import(from: &AbsPath, sessions: &AbsPath) -> Result<ImportedSession> {
    let refusal = |reason: &str| {
        let message = format!("`{from}` is not an exported session: {reason}");
        Error::new(ErrorKind::Usage, message).with_hint("create one with `massgen sessions export`")
    };
    dir::create_all(sessions, DirectoryAudience::User)?;
    let staging = StagingDirectory::new(sessions)?;
    let unpack_error = |error: io::Error| {
        if error.kind() == io::ErrorKind::NotFound {
            Error::io(format!("cannot read `{from}`"), error)
        } else {
            refusal("it cannot be unpacked").with_source(error)
        }
    };
    let unpacked = unpack(from, staging.path(), SESSION_LIMITS, is_frozen).map_err(unpack_error)?;
    if !unpacked.top.starts_with(PREFIX) {
        return Err(refusal("its directory has another name"));
    }
    let staged = SessionDir {
        dir: staging.path().clone(),
    };
    let last_turn = staged
        .last_turn()?
        .ok_or_else(|| refusal("it has no turn"))?;
    staged.turns()?;
    let logs = last_turn.log_dir.parent();
    let state_dir = logs
        .and_then(|logs| logs.parent())
        .unwrap_or_else(|| last_turn.cwd.join(STATE_DIR));
    let session_dir = state_dir.join(SESSIONS).join(&unpacked.top);
    let exported_identity = SessionIdentity {
        dir: session_dir,
        id: unpacked.top,
    };
    let session = publish(sessions, staging, |session| {
        rewrite_identity(
            &staged,
            &exported_identity,
            session,
            SessionOrigin::Imported,
        )
    })?;
    Ok(ImportedSession {
        session,
        links_left_out: unpacked.links_left_out,
    })
}

/// Returns whether a file belongs to a workspace: those are shared with later turns and must not
/// change.
fn is_frozen(path: &Path) -> bool {
    path.iter().nth(1).is_some_and(|name| name == WORKSPACE)
}
