//! Forks a session: creates another one with the same turns. The fork appears whole or not at all,
//! and paths in it point to its own copies. Paths of imported sessions are rewritten here too.

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::prompts::rewrite_paths;
use crate::world::io::clock;
use crate::world::store::directory_seal::DirectorySeal;
use crate::world::store::sessions::session::SUFFIX_DIGITS;
use crate::world::store::sessions::turn::{ANSWER, METADATA, TurnMetadata, read_text};
use crate::world::store::sessions::{PREFIX, SUMMARY, SessionDir};
use crate::world::sys::state_files::dir::{self, StagingDirectory};
use crate::world::sys::state_files::file;
use crate::world::sys::state_files::tree::{self, CopyMethod, TreeLimits};

/// The largest session that is forked: entries, newly stored bytes, and levels of directories,
/// which are those of a workspace and three more.
const SESSION_LIMITS: TreeLimits = TreeLimits {
    entries: 5_000_000,
    bytes: 64 * 1024 * 1024 * 1024,
    depth: 67,
};

/// Creates a session with the same turns next to `original`.
pub(super) fn fork(original: &SessionDir) -> Result<SessionDir> {
    let _lock = original.lock()?;
    let parent = original.dir.parent();
    let sessions = parent.ok_or_else(|| Error::bug("a session has no directory above it"))?;
    let staging = StagingDirectory::new(&sessions)?;
    tree::copy(
        &original.dir,
        staging.path(),
        CopyMethod::Shared,
        SESSION_LIMITS,
        &[],
    )?;
    let original_identity = SessionIdentity {
        dir: original.dir.clone(),
        id: original.id(),
    };
    let staged = SessionDir {
        dir: staging.path().clone(),
    };
    publish(&sessions, staging, |session| {
        rewrite_identity(&staged, &original_identity, session, SessionOrigin::Forked)
    })
}

/// Publishes `staging` below `sessions` under an id that no other session there has, after
/// `rewrite` has rewritten its identity.
pub(super) fn publish(
    sessions: &AbsPath,
    staging: StagingDirectory,
    rewrite: impl FnOnce(&SessionDir) -> Result<()>,
) -> Result<SessionDir> {
    let name_prefix = format!("{PREFIX}{}_", clock::now().short_name_format());
    let session = SessionDir {
        dir: dir::unused_path(sessions, &name_prefix, SUFFIX_DIGITS)?,
    };
    rewrite(&session)?;
    staging.publish(&session.dir)?;
    Ok(session)
}

/// The identity of a session, as its files mention it.
#[derive(Debug)]
pub(super) struct SessionIdentity {
    /// The path of the session.
    pub(super) dir: AbsPath,
    pub(super) id: String,
}

/// How a session was created from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionOrigin {
    /// It was forked from one that was created here.
    Forked,
    /// It was imported from an archive, which anyone may have written: it opens no path and names
    /// no config.
    Imported,
}

impl SessionOrigin {
    fn label(self) -> &'static str {
        match self {
            SessionOrigin::Forked => "Forked",
            SessionOrigin::Imported => "Imported",
        }
    }
}

/// Rewrites the identity in the `staged` files from `original` to `session`, and seals the
/// directory. The summary records the `origin` of the session.
pub(super) fn rewrite_identity(
    staged: &SessionDir,
    original: &SessionIdentity,
    session: &SessionDir,
    origin: SessionOrigin,
) -> Result<()> {
    let rewrite = |path: &AbsPath| -> Result<()> {
        let text = rewrite_paths(&read_text(path)?, &original.dir, &session.dir.to_string());
        file::replace_unsynced(path, text.as_bytes())
    };
    for turn in staged.saved_turns()? {
        rewrite(&turn.join(ANSWER))?;
        let mut metadata = TurnMetadata::read(&turn)?;
        metadata.session_id = session.id();
        if origin == SessionOrigin::Imported {
            metadata.opened.clear();
            metadata.config = None;
        }
        let metadata = serde_json::to_string_pretty(&metadata).map_err(Error::unserializable)?;
        file::replace_unsynced(&turn.join(METADATA), metadata.as_bytes())?;
    }
    let summary = staged.dir.join(SUMMARY);
    if file::exists(&summary)? {
        rewrite(&summary)?;
        let note_line = format!(
            "\n{} from {} as {}\n",
            origin.label(),
            original.id,
            session.id()
        );
        file::append(&summary, note_line.as_bytes())?;
    }
    DirectorySeal::write(&staged.dir)
}
