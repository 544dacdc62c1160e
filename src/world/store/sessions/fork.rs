//! Owns the forking of a session: a second one of the same turns. It appears whole or not at all, and
//! paths in it lead to its own copies. So do those of one that is taken in.

use crate::brief::rewrite_paths;
use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::clock;
use crate::world::seal::Seal;
use crate::world::store::sessions::session::SUFFIX_DIGITS;
use crate::world::store::sessions::turn::{ANSWER, METADATA, Metadata, text};
use crate::world::store::sessions::{PREFIX, SUMMARY, SessionDir};
use crate::world::sys::own::dir::{self, Stage};
use crate::world::sys::own::file::{self, Durability};
use crate::world::sys::own::tree::{self, Limits, Method};

/// How large a session may be to be forked: entries, bytes that are stored anew, and directories in
/// each other, which are those of a workspace and three more.
const SESSION_MAX: Limits = Limits {
    entries: 5_000_000,
    bytes: 64 * 1024 * 1024 * 1024,
    depth: 67,
};

/// Makes a session of the same turns beside `of`.
pub(super) fn fork(of: &SessionDir) -> Result<SessionDir> {
    let _held = of.hold()?;
    let parent = of.dir.parent();
    let sessions = parent.ok_or_else(|| Error::bug("a session has no directory above it"))?;
    let stage = Stage::new(&sessions)?;
    tree::copy(&of.dir, stage.path(), Method::Shared, SESSION_MAX, &[])?;
    let before = Named {
        dir: of.dir.clone(),
        id: of.id(),
    };
    let staged = SessionDir {
        dir: stage.path().clone(),
    };
    publish(&sessions, stage, |made| {
        adopt(&staged, &before, made, Came::Forked)
    })
}

/// Shows what is staged below `sessions` under an id that no other session there has, once `adopt` has
/// let it name itself so.
pub(super) fn publish(
    sessions: &AbsPath,
    stage: Stage,
    adopt: impl FnOnce(&SessionDir) -> Result<()>,
) -> Result<SessionDir> {
    let stem = format!("{PREFIX}{}_", clock::now().short_name());
    let made = SessionDir {
        dir: dir::create_unique(sessions, &stem, SUFFIX_DIGITS)?,
    };
    let adopted = adopt(&made).and_then(|()| stage.publish(&made.dir));
    if adopted.is_err() {
        dir::remove_empty(&made.dir);
    }
    adopted.map(|()| made)
}

/// How a session named itself.
#[derive(Debug)]
pub(super) struct Named {
    /// Where it was.
    pub(super) dir: AbsPath,
    /// Its id.
    pub(super) id: String,
}

/// How a session came to be beside the one that it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It was forked from one that was made here.
    Forked,
    /// It was taken in from an archive, which anybody may have written: it opens no path and names no
    /// config.
    Imported,
}

impl Came {
    fn word(self) -> &'static str {
        match self {
            Came::Forked => "Forked",
            Came::Imported => "Imported",
        }
    }
}

/// Lets what is `staged` name itself as `made`, where it named itself as `of`, and seals it. The summary
/// tells how that `came`.
pub(super) fn adopt(staged: &SessionDir, of: &Named, made: &SessionDir, came: Came) -> Result<()> {
    let reworded = |path: &AbsPath| -> Result<()> {
        let text = rewrite_paths(&text(path)?, &of.dir, &made.dir.to_string());
        file::replace(path, text.as_bytes(), Durability::Power)
    };
    for turn in staged.saved() {
        reworded(&turn.join(ANSWER))?;
        let mut metadata = Metadata::read(&turn)?;
        metadata.session_id = made.id();
        if came == Came::Imported {
            metadata.opened.clear();
            metadata.config = None;
        }
        let metadata = serde_json::to_string_pretty(&metadata)
            .map_err(|error| Error::bug("a turn has no JSON form").caused_by(error))?;
        file::replace(&turn.join(METADATA), metadata.as_bytes(), Durability::Power)?;
    }
    let summary = staged.dir.join(SUMMARY);
    if file::kind(&summary).is_ok() {
        reworded(&summary)?;
        let told = format!("\n{} from {} as {}\n", came.word(), of.id, made.id());
        file::append(&summary, told.as_bytes())?;
    }
    Seal::write(&staged.dir)
}
