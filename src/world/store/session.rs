//! Owns sessions: what remains of a conversation for people and for its next turn. A turn appears
//! whole or not at all, and an aborted one leaves nothing behind but conflicting versions of files.

use serde_json::json;

use crate::brief::rewrite_paths;
use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::world::clock;
use crate::world::store::redact::Redactor;
use crate::world::store::snapshot::Snapshots;
use crate::world::sys::own::dir::{self, Audience, Stage};
use crate::world::sys::own::file::{self, Durability};

/// How many random digits end a session's id: sessions may begin in the same second.
const SUFFIX_DIGITS: usize = 4;

/// A session that is open.
#[derive(Debug)]
pub struct Session {
    id: String,
    dir: AbsPath,
    redactor: Redactor,
    /// What `SESSION_SUMMARY.txt` holds by now.
    summary: String,
}

/// A turn that ended with a final answer.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Which turn of the session it is, from 1.
    pub number: u32,
    /// What the user asked.
    pub task: &'a str,
    /// Who presented.
    pub winner: &'a AgentId,
    /// The final answer.
    pub answer: &'a str,
    /// The winner's workspace, if it has one.
    pub workspace: Option<LiveWorkspace<'a>>,
}

/// A workspace as it is now, with the snapshots that were taken of it.
#[derive(Clone, Copy, Debug)]
pub struct LiveWorkspace<'a> {
    /// Where it is.
    pub path: &'a AbsPath,
    /// What of it is stored already.
    pub snapshots: &'a Snapshots,
}

/// A turn that has been saved.
#[derive(Debug)]
pub struct SavedTurn {
    /// Where it is.
    pub dir: AbsPath,
    /// The copy of the winner's workspace, if there was anything in it.
    pub workspace: Option<AbsPath>,
    /// What the user should know about it, one sentence each.
    pub notes: Vec<String>,
}

impl Session {
    /// Begins a session below `sessions`, under an id that no other session there has.
    pub fn begin(sessions: &AbsPath, redactor: Redactor) -> Result<Self> {
        let now = clock::now();
        let stem = format!("session_{}", now.short_name());
        let dir = dir::create_unique(sessions, &stem, SUFFIX_DIGITS)?;
        let name = dir.as_path().file_name().unwrap_or_default();
        let id = name.to_string_lossy().into_owned();
        let summary = format!("Session {id}\nBegan {}\n", now.iso());
        Ok(Self {
            id,
            dir,
            redactor,
            summary,
        })
    }

    /// Its name, such as `session_20261102_140322_9f3c`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it is.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// The directory for our versions of files that the user changed during `turn`, made if it is
    /// missing. What is put there stays at its place when the turn is saved.
    pub fn conflicts(&self, turn: u32) -> Result<AbsPath> {
        let dir = self.turn_dir(turn).join(CONFLICTS);
        dir::create_all(&dir, Audience::User)?;
        Ok(dir)
    }

    /// Saves a turn and adds it to `SESSION_SUMMARY.txt`.
    pub fn save_turn(&mut self, turn: &Turn<'_>) -> Result<SavedTurn> {
        let timestamp = clock::now().iso();
        let dir = self.turn_dir(turn.number);
        let stage = Stage::new(&self.dir)?;
        let mut notes = Vec::new();
        let mut answer = turn.answer.to_owned();
        if let Some(workspace) = turn.workspace {
            let copy = stage.path().join(WORKSPACE);
            dir::create(&copy)?;
            notes = workspace.snapshots.keep(workspace.path, &copy)?;
            dir::remove_empty(&copy);
            let real = dir::follow(workspace.path)?.to_abs();
            let kept = dir.join(WORKSPACE).to_string();
            for old in [workspace.path, &real] {
                answer = rewrite_paths(&answer, old, &kept);
            }
        }
        self.write(&stage.path().join("answer.txt"), &answer)?;
        let metadata = json!({
            "turn": turn.number,
            "timestamp": timestamp,
            "winning_agent": turn.winner,
            "task": turn.task,
            "session_id": self.id,
        });
        let metadata = serde_json::to_string_pretty(&self.redactor.json(metadata))
            .map_err(|error| Error::bug("a turn has no JSON form").caused_by(error))?;
        self.write(&stage.path().join("metadata.json"), &metadata)?;
        dir::move_if_there(&dir.join(CONFLICTS), &stage.path().join(CONFLICTS))?;
        stage.publish(&dir)?;
        self.summarise(turn, &timestamp, &dir)?;
        let workspace = Some(dir.join(WORKSPACE)).filter(|copy| file::kind(copy).is_ok());
        Ok(SavedTurn {
            dir,
            workspace,
            notes,
        })
    }

    /// Ends the session. If nothing was saved, its directory goes.
    pub fn end(self) {
        let turn = self.turn_dir(1);
        dir::remove_empty(&turn.join(CONFLICTS));
        dir::remove_empty(&turn);
        dir::remove_empty(&self.dir);
    }

    fn turn_dir(&self, turn: u32) -> AbsPath {
        self.dir.join(format!("turn_{turn}"))
    }

    fn summarise(&mut self, turn: &Turn<'_>, timestamp: &str, dir: &AbsPath) -> Result<()> {
        let number = turn.number;
        let mut lines = vec![
            format!("\nTurn {number}"),
            format!("  Time: {timestamp}"),
            format!("  Winner: {}", turn.winner),
            format!("  Task: {}", turn.task),
            format!("  Answer: {}", dir.join("answer.txt")),
        ];
        if turn.workspace.is_some() {
            lines.push(format!("  Workspace: {}", dir.join(WORKSPACE)));
        }
        self.summary.push_str(&lines.join("\n"));
        self.summary.push('\n');
        self.write(&self.dir.join("SESSION_SUMMARY.txt"), &self.summary)
    }

    fn write(&self, path: &AbsPath, text: &str) -> Result<()> {
        let clean = self.redactor.text(text);
        file::replace(path, clean.as_bytes(), Durability::Power)
    }
}

/// The name of a turn's copy of the winner's workspace.
const WORKSPACE: &str = "workspace";

/// The name of the directory that holds our versions of files that the user changed.
const CONFLICTS: &str = "conflicts";
