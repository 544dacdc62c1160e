//! The sessions of a directory: lists and looks them up, and removes, forks and exports them. A
//! session is a directory of turns; the result of a turn never changes afterwards.

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::directory_seal::{foreign_directory_error, is_sealed};
use crate::world::store::existing_directories;
use crate::world::store::naming::{LAST, NameScheme};
use crate::world::store::sessions::turn::{METADATA, PreviousTurn, TurnMetadata};
use crate::world::sys::state_files::dir::{self, DirLock, DirLockAttempt};
use crate::world::sys::state_files::disk_usage::unchanged_for;
use crate::world::sys::state_files::process_directory::{self, ABANDONED_AFTER};
use crate::world::sys::state_files::{archive, clear, file, json_file};

pub mod turn;
pub mod session;
mod fork;
pub mod import;

/// The prefix of session ids.
const PREFIX: &str = "session_";
/// The prefix of turn names; the number follows.
const TURN_PREFIX: &str = "turn_";
/// How sessions are named.
const SESSION_NAMES: NameScheme = NameScheme {
    noun: "session",
    name: "id",
    prefix: PREFIX,
};
/// The name of the summary of all turns for people.
const SUMMARY: &str = "SESSION_SUMMARY.txt";

/// The file with the directory that the user keeps closed to the agents.
const DECLINED_DIRECTORY: &str = "declined_directory.json";
/// The largest such file that is read, in bytes.
const DECLINED_BYTES_MAX: u64 = 64 * 1024;

/// A session on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDir {
    dir: AbsPath,
}

/// A session that is open in this process: while this value lives, it is not removed.
#[derive(Debug)]
pub struct OpenSession {
    _lock: DirLock,
}

/// Returns all sessions below `sessions`: first those with a running turn, then the most recently
/// used.
pub fn list(sessions: &AbsPath) -> Result<Vec<SessionDir>> {
    let dirs = SESSION_NAMES.list(sessions)?.map(|dir| SessionDir { dir });
    // One without a turn is only beginning, or its process was killed just then.
    let has_turn = |session: &SessionDir| {
        Ok(session.exists()? && (!session.turn_numbers()?.is_empty() || session.is_running()?))
    };
    let dirs = existing_directories(dirs, has_turn)?.into_iter();
    let mut dirs: Vec<(_, SessionDir)> = dirs
        .map(|session| {
            let sort_key = (session.is_running()?, session.last_run()?, session.id());
            Ok((sort_key, session))
        })
        .collect::<Result<_>>()?;
    dirs.sort_by(|(a, _), (b, _)| b.cmp(a));
    Ok(dirs.into_iter().map(|(_, session)| session).collect())
}

/// Removes what killed processes left unfinished below `sessions`. What cannot be removed stays.
pub fn sweep(sessions: &AbsPath) {
    process_directory::sweep(sessions);
    for name in dir::names_if_exists(sessions).unwrap_or_default() {
        let path = sessions.join(&name);
        if name.starts_with(PREFIX) && unchanged_for(&path) > Some(ABANDONED_AFTER) {
            dir::remove_empty(&path);
        }
    }
}

/// Returns the session that `given_name` selects: an id, the only one with this prefix, or `last`,
/// which is the first of [`list`] that has a running or saved turn. Sessions created here take
/// precedence over those that came with the project.
pub fn find(given_name: &str, sessions: &AbsPath) -> Result<SessionDir> {
    let all_sessions = list(sessions)?;
    if given_name == LAST {
        let mut found_session = None;
        for session in all_sessions {
            if !session.is_running()? && session.last_run()?.is_none() {
                continue;
            }
            if session.is_own()? {
                return Ok(session);
            }
            found_session = found_session.or(Some(session));
        }
        let no_sessions = || not_found(format!("no sessions in `{sessions}`"));
        return found_session.ok_or_else(no_sessions);
    }
    let named_session = SESSION_NAMES.resolve(given_name, &all_sessions, SessionDir::id)?;
    let no_session = || not_found(format!("no session `{given_name}`"));
    named_session.cloned().ok_or_else(no_session)
}

fn not_found(message: String) -> Error {
    Error::new(ErrorKind::Usage, message)
        .with_hint("see `massgen sessions list` for the sessions of this directory")
        .with_hint("give the id of a session, a prefix of it, or `last`")
}

impl SessionDir {
    /// Returns its name, such as `session_20261102_140322_9f3c`.
    pub fn id(&self) -> String {
        self.dir.name_lossy()
    }

    /// Returns its directory.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// Returns whether its turns, if any were saved, were saved in this place.
    fn is_own(&self) -> Result<bool> {
        Ok(self.saved_turns()?.is_empty() || is_sealed(&self.dir)?)
    }

    /// Refuses turns that came with a project: their author could have written any question, answer
    /// and opened paths into them.
    ///
    /// # Errors
    /// They were not saved in this place.
    pub fn expect_own(&self) -> Result<()> {
        if self.is_own()? {
            return Ok(());
        }
        let id = self.id();
        Err(foreign_directory_error(&self.dir).with_hint(format!(
            "if it is yours, export and import it: `massgen sessions export {id} -o FILE`, \
             `massgen sessions import FILE`"
        )))
    }

    /// Returns its turns in order. A damaged one is an error.
    pub fn turns(&self) -> Result<Vec<PreviousTurn>> {
        let saved = self.saved_turns()?.into_iter();
        saved.map(|dir| PreviousTurn::read(&dir)).collect()
    }

    /// Returns the metadata of its last turn; `None` if none was saved.
    pub fn last_turn(&self) -> Result<Option<TurnMetadata>> {
        let last_turn = self.saved_turns()?.pop();
        last_turn.map(|dir| TurnMetadata::read(&dir)).transpose()
    }

    /// Returns the number of the next turn, from 1.
    pub fn next_turn(&self) -> Result<u32> {
        let last = self.turn_numbers()?.pop().unwrap_or_default();
        Ok(last.saturating_add(1))
    }

    /// Returns whether its last turn has no result: it is running, or was interrupted or aborted.
    pub fn has_unsaved_turn(&self) -> Result<bool> {
        Ok(match self.turn_numbers()?.pop() {
            Some(turn) => !is_saved(&self.turn_dir(turn))?,
            None => true,
        })
    }

    /// Returns whether a turn of it is running.
    pub fn is_running(&self) -> Result<bool> {
        dir::is_locked(&self.dir)
    }

    /// Returns whether it still exists.
    pub fn exists(&self) -> Result<bool> {
        Ok(file::is_directory(&self.dir)? && file::is_accessible(&self.dir)?)
    }

    /// Keeps it from being removed while it is open, also between two turns. `None` if no turn has
    /// been saved yet or the file system does not support locks.
    pub fn open(&self) -> Option<OpenSession> {
        match dir::try_lock_shared(self.saved_turns().ok()?.first()?).ok()? {
            DirLockAttempt::Acquired(lock) => Some(OpenSession { _lock: lock }),
            DirLockAttempt::Taken | DirLockAttempt::Unsupported => None,
        }
    }

    /// Records that the user keeps the directory `cwd` closed to the agents.
    pub fn decline_directory(&self, cwd: &AbsPath) -> Result<()> {
        json_file::replace(&self.dir.join(DECLINED_DIRECTORY), &cwd.to_string())
    }

    /// Returns whether the user keeps the directory `cwd` closed to the agents.
    pub fn is_directory_declined(&self, cwd: &AbsPath) -> bool {
        let path = self.dir.join(DECLINED_DIRECTORY);
        let declined_directory = json_file::read::<String>(&path, DECLINED_BYTES_MAX);
        declined_directory.is_ok_and(|directory| directory == Some(cwd.to_string()))
    }

    /// Removes it with all its turns. It is an error if a run is part of it, or if another process
    /// has it open.
    pub fn remove(&self) -> Result<()> {
        let _lock = self.lock()?;
        let first_turn = self.saved_turns()?.into_iter().next();
        let lock_attempt = first_turn
            .map(|turn| dir::try_lock_at_once(&turn))
            .transpose()?;
        if matches!(lock_attempt, Some(DirLockAttempt::Taken)) {
            let message = format!("the session `{}` is open in another process", self.id());
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("exit it there first, or start another one: `/reset`"));
        }
        clear::discard(&self.dir)
    }

    /// Creates an independent session with the same turns. Files that are never changed are stored
    /// once.
    pub fn fork(&self) -> Result<Self> {
        self.expect_own()?;
        fork::fork(self)
    }

    /// Packs all of it into a new archive at `archive_path` and returns the number of files. It is
    /// an error if a run is part of it.
    pub fn export(&self, archive_path: &AbsPath) -> Result<usize> {
        let _lock = self.lock()?;
        archive::pack(&self.dir, &self.id(), archive_path)
    }

    /// Locks it for a run. It is an error if another run has locked it.
    fn lock(&self) -> Result<Option<DirLock>> {
        match dir::try_lock(&self.dir)? {
            DirLockAttempt::Acquired(lock) => Ok(Some(lock)),
            DirLockAttempt::Unsupported => Ok(None),
            DirLockAttempt::Taken => {
                let message = format!("a turn of session `{}` is running", self.id());
                Err(Error::new(ErrorKind::Environment, message)
                    .with_hint("wait until it ends; `massgen logs list` shows its run"))
            }
        }
    }

    /// Returns the name of the run that saved its last turn, by which sessions are ordered: the
    /// clock may have been set since. `None` if no turn was saved.
    fn last_run(&self) -> Result<Option<String>> {
        let mut newest = self.saved_turns()?.into_iter().rev();
        Ok(newest.find_map(|dir| Some(TurnMetadata::read(&dir).ok()?.log_dir.name_lossy())))
    }

    /// Returns the directories of all saved turns, in order.
    fn saved_turns(&self) -> Result<Vec<AbsPath>> {
        let numbers = self.turn_numbers()?.into_iter();
        existing_directories(numbers.map(|number| self.turn_dir(number)), is_saved)
    }

    /// Returns the numbers of all turns that have a directory, sorted.
    fn turn_numbers(&self) -> Result<Vec<u32>> {
        let names = dir::names_if_exists(&self.dir)?;
        let number = |name: String| name.strip_prefix(TURN_PREFIX)?.parse().ok();
        let mut numbers: Vec<u32> = names.into_iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn turn_dir(&self, turn: u32) -> AbsPath {
        self.dir.join(format!("{TURN_PREFIX}{turn}"))
    }
}

/// Returns whether the turn in `dir` has ended with a result.
fn is_saved(dir: &AbsPath) -> Result<bool> {
    Ok(file::is_directory(dir)? && file::exists(&dir.join(METADATA))?)
}
