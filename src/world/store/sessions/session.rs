//! The part of a run in its session: earlier turns are read, and its own turn appears whole or not
//! at all. An aborted turn leaves nothing behind except conflicting versions of files.

use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::AbsPath;
use crate::prompts::rewrite_paths;
use crate::text::{escape_json, escape_name};
use crate::world::io::clock;
use crate::world::store::directory_seal::DirectorySeal;
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::turn::{
    ANSWER, CONFLICTS, METADATA, PreviousTurn, TurnMetadata, WORKSPACE, read_text,
};
use crate::world::store::sessions::{PREFIX, SUMMARY, SessionDir};
use crate::world::store::snapshot::AgentSnapshots;
use crate::world::sys::state_files::dir::{self, DirLock, DirectoryAudience, StagingDirectory};
use crate::world::sys::state_files::{clear, file};

/// The number of random digits in a session's id: several sessions may begin in the same second.
pub(super) const SUFFIX_DIGITS: usize = 4;

/// A session that a run is part of. While this value lives, no other run can join it.
#[derive(Debug)]
pub struct Session {
    directory: SessionDir,
    redactor: Redactor,
    /// The number of the current turn, from 1.
    turn: u32,
    previous_turns: Vec<PreviousTurn>,
    /// The content of `SESSION_SUMMARY.txt` so far.
    summary: String,
    _lock: Option<DirLock>,
}

/// A turn that ended with a final answer.
#[derive(Clone, Copy, Debug)]
pub struct FinishedTurn<'a> {
    /// The user's task.
    pub task: &'a str,
    /// The agent that presented.
    pub winner: &'a AgentId,
    /// The final answer.
    pub answer: &'a str,
    /// The winner's workspace, if it has one.
    pub workspace: Option<LiveWorkspace<'a>>,
    /// The context in which it ran.
    pub turn_context: &'a TurnContext,
    /// The directory of the run's logs.
    pub log_dir: &'a AbsPath,
}

/// The context in which a turn ran.
#[derive(Clone, Debug)]
pub struct TurnContext {
    /// The user's working directory.
    pub cwd: AbsPath,
    /// The config file, if there is one.
    pub config: Option<AbsPath>,
    /// The paths that the prompts of the session have opened so far.
    pub opened: Vec<OpenedPath>,
}

/// A workspace in its current state, with the snapshots that were taken of it.
#[derive(Clone, Copy, Debug)]
pub struct LiveWorkspace<'a> {
    /// Its path.
    pub path: &'a AbsPath,
    /// The snapshots with which unchanged files are shared.
    pub snapshots: &'a AgentSnapshots,
}

/// A saved turn.
#[derive(Debug)]
pub struct SavedTurn {
    /// Its directory.
    pub dir: AbsPath,
    /// The copy of the winner's workspace, if that was not empty.
    pub workspace: Option<AbsPath>,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

impl Session {
    /// Creates a session below `sessions`, under an id that no other session there has.
    pub fn begin(sessions: &AbsPath, redactor: Redactor) -> Result<Self> {
        let now = clock::now();
        let name_prefix = format!("{PREFIX}{}_", now.short_name_format());
        let dir = dir::create_unique(sessions, &name_prefix, SUFFIX_DIGITS)?;
        let session_dir = SessionDir { dir };
        let summary = format!("Session {}\nBegan {}\n", session_dir.id(), now.iso_format());
        Ok(Self {
            _lock: session_dir.lock()?,
            directory: session_dir,
            redactor,
            turn: 1,
            previous_turns: Vec::new(),
            summary,
        })
    }

    /// Opens the session at `session_dir`. It is an error if another run is part of it, if it came
    /// with a project, or if one of its turns cannot be read.
    pub fn open(session_dir: SessionDir, redactor: Redactor) -> Result<Self> {
        session_dir.expect_own()?;
        let lock = session_dir.lock()?;
        let previous_turns = session_dir.turns()?;
        let summary_file = session_dir.dir.join(SUMMARY);
        let summary = if file::exists(&summary_file)? {
            read_text(&summary_file)?
        } else {
            format!("Session {}\n", session_dir.id())
        };
        Ok(Self {
            _lock: lock,
            turn: session_dir.next_turn()?,
            directory: session_dir,
            redactor,
            previous_turns,
            summary,
        })
    }

    /// Puts `turns`, which are stored elsewhere, before its first turn.
    #[must_use]
    pub fn after(self, turns: Vec<PreviousTurn>) -> Self {
        Self {
            previous_turns: turns,
            ..self
        }
    }

    /// Resumes the interrupted turn `turn` of the session at `session_dir`.
    pub fn resume_turn(session_dir: SessionDir, turn: u32, redactor: Redactor) -> Result<Self> {
        let mut session = Self::open(session_dir, redactor)?;
        session
            .previous_turns
            .retain(|previous| previous.metadata.turn < turn);
        session.turn = turn;
        Ok(session)
    }

    /// Returns the current turn if it has been saved already: the run was interrupted just after
    /// that.
    pub fn saved_turn(&self) -> Result<Option<SavedTurn>> {
        let dir = self.turn_dir();
        if !file::exists(&dir.join(METADATA))? {
            return Ok(None);
        }
        let copy = dir.join(WORKSPACE);
        Ok(Some(SavedTurn {
            workspace: file::exists(&copy)?.then_some(copy),
            dir,
            notes: Vec::new(),
        }))
    }

    /// Removes the result of the current turn, if it was saved: the turn is resumed. The directory
    /// of conflicting versions keeps its age.
    pub fn discard_saved_turn(&mut self) -> Result<()> {
        let dir = self.turn_dir();
        for name in [METADATA, ANSWER, WORKSPACE] {
            clear::remove(&dir.join(name))?;
        }
        let heading = turn_heading(self.turn);
        if let Some((earlier, _)) = self.summary.split_once(&heading) {
            self.summary = earlier.to_owned();
            self.write(&self.dir().join(SUMMARY), &self.summary)?;
        }
        self.create_conflicts_dir().map(drop)
    }

    /// Returns its name, such as `session_20261102_140322_9f3c`.
    pub fn id(&self) -> String {
        self.directory.id()
    }

    /// Returns its directory.
    pub fn dir(&self) -> &AbsPath {
        &self.directory.dir
    }

    /// Returns the number of the current turn, from 1.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Returns the directory of the current turn.
    pub fn turn_dir(&self) -> AbsPath {
        self.directory.turn_dir(self.turn)
    }

    /// Returns the turns before it.
    pub fn previous_turns(&self) -> &[PreviousTurn] {
        &self.previous_turns
    }

    /// Creates the directory for the agents' versions of files that the user changes during the
    /// current turn, unless it exists, and returns it. Files in it keep their paths when the turn
    /// is saved.
    pub fn create_conflicts_dir(&self) -> Result<AbsPath> {
        let dir = self.turn_dir().join(CONFLICTS);
        dir::create_all(&dir, DirectoryAudience::User)?;
        Ok(dir)
    }

    /// Resets the time from which changes count as the user's, by removing the conflicts directory
    /// whose age marks it: changes made so far count as no one's. Versions that were kept stay.
    pub fn reset_conflict_baseline(&self) {
        dir::remove_empty(&self.turn_dir().join(CONFLICTS));
    }

    /// Saves the finished turn and adds it to `SESSION_SUMMARY.txt`.
    pub fn save_turn(&mut self, turn: &FinishedTurn<'_>) -> Result<SavedTurn> {
        let timestamp = clock::now().iso_format();
        let dir = self.turn_dir();
        let staging = StagingDirectory::new(self.dir())?;
        let mut notes = Vec::new();
        let mut answer = turn.answer.to_owned();
        if let Some(workspace) = turn.workspace {
            let copy = staging.path().join(WORKSPACE);
            dir::create(&copy)?;
            notes = workspace.snapshots.save(workspace.path, &copy)?;
            dir::remove_empty(&copy);
            let real = dir::resolve(workspace.path)?.to_abs();
            let copy_path = dir.join(WORKSPACE).to_string();
            for old_path in [workspace.path, &real] {
                answer = rewrite_paths(&answer, old_path, &copy_path);
            }
        }
        let metadata = self.metadata(turn, &timestamp)?;
        for (name, text) in [(ANSWER, &answer), (METADATA, &metadata)] {
            let redacted = self.redactor.text(text);
            file::replace_unsynced(&staging.path().join(name), redacted.as_bytes())?;
        }
        dir::move_if_exists(&dir.join(CONFLICTS), &staging.path().join(CONFLICTS))?;
        // The seal first: without it, the session is not trusted as soon as it has a turn.
        DirectorySeal::write(self.dir())?;
        staging.publish(&dir)?;
        self.add_to_summary(turn, &timestamp, &dir)?;
        let copy = dir.join(WORKSPACE);
        Ok(SavedTurn {
            workspace: file::exists(&copy)?.then_some(copy),
            dir,
            notes,
        })
    }

    /// Ends the run's part in the session. A session without a saved turn is removed.
    pub fn end(self) {
        let turn = self.turn_dir();
        dir::remove_empty(&turn.join(CONFLICTS));
        dir::remove_empty(&turn);
        dir::remove_empty(self.dir());
    }

    fn metadata(&self, turn: &FinishedTurn<'_>, timestamp: &str) -> Result<String> {
        let TurnContext {
            cwd,
            config,
            opened,
        } = turn.turn_context;
        let metadata = TurnMetadata {
            turn: self.turn,
            timestamp: timestamp.to_owned(),
            winning_agent: turn.winner.clone(),
            task: turn.task.to_owned(),
            session_id: self.id(),
            cwd: cwd.clone(),
            config: config.clone(),
            log_dir: turn.log_dir.clone(),
            opened: opened.clone(),
        };
        let metadata = serde_json::to_value(metadata);
        let redacted = metadata.map(|metadata| self.redactor.json(metadata));
        redacted
            .and_then(|redacted| serde_json::to_string_pretty(&redacted))
            .map(|json| escape_json(&json).into_owned())
            .map_err(Error::unserializable)
    }

    /// Adds the turn to `SESSION_SUMMARY.txt`.
    fn add_to_summary(
        &mut self,
        turn: &FinishedTurn<'_>,
        timestamp: &str,
        dir: &AbsPath,
    ) -> Result<()> {
        let number = self.turn;
        let mut lines = vec![
            format!("  Time: {timestamp}"),
            format!("  Winner: {}", turn.winner),
            format!("  Task: {}", escape_name(turn.task.trim())),
            format!("  Answer: {}", dir.join(ANSWER)),
        ];
        if turn.workspace.is_some() {
            lines.push(format!("  Workspace: {}", dir.join(WORKSPACE)));
        }
        self.summary.push_str(&turn_heading(number));
        self.summary.push_str(&lines.join("\n"));
        self.summary.push('\n');
        self.write(&self.dir().join(SUMMARY), &self.summary)
    }

    fn write(&self, path: &AbsPath, text: &str) -> Result<()> {
        let redacted = self.redactor.text(text);
        file::replace(path, redacted.as_bytes())
    }
}

/// Returns the line of the summary with which the turn `number` begins, after a blank line.
fn turn_heading(number: u32) -> String {
    format!("\nTurn {number}\n")
}
