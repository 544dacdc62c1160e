//! Reads an interrupted run, so that it can be resumed from its last recorded event: finds the run,
//! and decodes its log. A run that the user stopped is resumed from the event before that. It asks
//! no model and repeats nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::Value;

use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::event::{CoordinationEvent, DeliveryEvent, Event, ModelEvent, RunEvent};
use crate::id::AgentId;
use crate::layout::RunName;
use crate::orchestrator::replay_order::{RecordedCoordination, RecordedEnding};
use crate::orchestrator::resumed_turn::ResumedTurn;
use crate::path::AbsPath;
use crate::replay::plan::ReplayPlan;
use crate::world::io::clock::LocalDateTime;
use crate::world::store::event_log::{EventLog, LineEnd};
use crate::world::store::records::metadata::RecordedRunMetadata;
use crate::world::store::runs::{RunDir, RunStatus, list};
use crate::world::store::sessions::session::Session;

/// Maximum number of runs that are examined, the newest first, to find the last one of a session.
const RUNS_LOOKED_AT_MAX: usize = 10_000;

/// A run whose process is gone and that did not record its end, or that the user stopped.
#[derive(Clone, Debug)]
pub struct InterruptedRun {
    /// The run.
    pub run: RunDir,
    /// How it was started.
    pub metadata: RecordedRunMetadata,
    /// The number of the turn in its session.
    pub turn: u32,
    /// How it was interrupted.
    pub cause: InterruptionCause,
}

/// How a run was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptionCause {
    /// Its process ended without having recorded an end.
    Killed,
    /// The user stopped it, for example with Ctrl-C; it recorded that.
    Stopped,
}

/// Returns the last run in `logs`, of the session `session` if one is named, if it was interrupted
/// or stopped by the user.
/// Skips runs that are in progress, that had not begun to ask, whose session does not exist
/// according to `is_there`, or whose records were copied along with the project.
pub fn find_interrupted(
    logs: &AbsPath,
    session: Option<&str>,
    is_there: impl Fn(&str) -> bool,
) -> Result<Option<InterruptedRun>> {
    for run in own_runs(logs)? {
        let Some((metadata, turn)) = run.metadata().zip(run.turn_number()) else {
            continue;
        };
        if session.is_some_and(|session| session != metadata.session_id) {
            continue;
        }
        if let ControlFlow::Break(interrupted) = inspect_run(run, metadata, turn, &is_there) {
            return Ok(interrupted);
        }
    }
    Ok(None)
}

/// Returns the last run in `logs` of each of these sessions, if it was interrupted or stopped by the
/// user, by session. The records of a run are read once.
pub fn find_interrupted_of(
    logs: &AbsPath,
    mut sessions: BTreeSet<String>,
) -> Result<BTreeMap<String, InterruptedRun>> {
    let mut interrupted = BTreeMap::new();
    for run in own_runs(logs)? {
        if sessions.is_empty() {
            break;
        }
        let Some((metadata, turn)) = run.metadata().zip(run.turn_number()) else {
            continue;
        };
        let session = metadata.session_id.clone();
        if sessions.contains(&session)
            && let ControlFlow::Break(last_run) = inspect_run(run, metadata, turn, |_| true)
        {
            sessions.remove(&session);
            interrupted.extend(last_run.map(|run| (session, run)));
        }
    }
    Ok(interrupted)
}

/// Returns the runs in `logs` whose records were not copied along with the project, the newest
/// first.
fn own_runs(logs: &AbsPath) -> Result<impl Iterator<Item = RunDir>> {
    let runs = list(logs)?.into_iter().take(RUNS_LOOKED_AT_MAX);
    Ok(runs.filter(RunDir::is_own))
}

/// Breaks with what a run says about its session if it is the last one: whether it was interrupted.
/// Continues if an older run of the session says that.
fn inspect_run(
    run: RunDir,
    metadata: RecordedRunMetadata,
    turn: u32,
    is_there: impl Fn(&str) -> bool,
) -> ControlFlow<Option<InterruptedRun>> {
    let state = run.state();
    let cause = match state.status {
        RunStatus::Ended if was_stopped(state.status_file.as_ref()) => InterruptionCause::Stopped,
        RunStatus::Ended => return ControlFlow::Break(None),
        RunStatus::Interrupted => InterruptionCause::Killed,
        RunStatus::Running => return ControlFlow::Continue(()),
    };
    if is_there(&metadata.session_id) && run.manifest().is_ok() {
        return ControlFlow::Break(Some(InterruptedRun {
            run,
            metadata,
            turn,
            cause,
        }));
    }
    match cause {
        InterruptionCause::Stopped => ControlFlow::Break(None),
        InterruptionCause::Killed => ControlFlow::Continue(()),
    }
}

/// Returns whether a run with this `status.json` ended because the user stopped it.
fn was_stopped(status_file: Option<&Value>) -> bool {
    let reason = status_file
        .and_then(|file| file.get("finish_reason"))
        .and_then(|reason| ExitStatus::deserialize(reason).ok());
    reason == Some(ExitStatus::Interrupted)
}

/// State of a run that is to be resumed.
#[derive(Debug)]
pub struct ResumeState {
    /// The turn.
    pub resumed: ResumedTurn,
    /// The record of each of its coordinations.
    pub coordinations: VecDeque<RecordedCoordination>,
    /// Its name.
    pub name: RunName,
    /// Why its log was truncated, if it was.
    pub cut: Option<String>,
    /// Where the log ends without the end of a run that the user stopped, if it has one.
    stopped_after: Option<LineEnd>,
}

impl ResumeState {
    /// Reads the records of `run` and locks its log. Torn lines, and everything after damage, are
    /// cut off. The end of a run that the user stopped is not read, and stays in the log until
    /// [`ResumeState::discard_end`].
    pub fn read(run: &RunDir) -> Result<Self> {
        let manifest = run.manifest()?;
        let last_workspace = manifest.temp_workspaces.first().and_then(AbsPath::new);
        let last_name = last_workspace
            .as_ref()
            .and_then(|path| path.as_path().file_name());
        let name = last_name
            .and_then(|name| RunName::parse(name.to_str()?))
            .ok_or_else(|| resume_error(run, "its records do not contain its name"))?;
        let mut reopened = EventLog::reopen(&run.events_file())?;
        let events = std::mem::take(&mut reopened.events);
        let mut events = complete_replies(events).ok_or_else(|| {
            resume_error(run, "its log has an event that this version does not know")
        })?;
        let stop = stop_position(&events);
        let stopped_after = stop.map(|count| reopened.line_end(count));
        events.truncate(stop.unwrap_or(events.len()));
        let has_ended = |(event, _): &(Event, LocalDateTime)| {
            matches!(event, Event::Run(RunEvent::RunEnded { .. }))
        };
        if events.iter().any(has_ended) {
            return Err(resume_error(run, "it has ended"));
        }
        let coordinations = coordinations(events.iter().map(|(event, _)| event));
        Ok(Self {
            resumed: ResumedTurn {
                log: reopened.log,
                log_dir: run.log().clone(),
                events,
            },
            coordinations,
            name,
            cut: reopened.truncation_reason,
            stopped_after,
        })
    }

    /// Removes the end of a run that the user stopped from its log, and its turn from `session`.
    ///
    /// # Errors
    /// The disk does not allow it.
    pub fn discard_end(&mut self, session: &mut Session) -> Result<()> {
        let Some(end) = self.stopped_after.take() else {
            return Ok(());
        };
        // If the process ends between the two, the log still shows that the run was stopped.
        session.discard_saved_turn()?;
        self.resumed.log.truncate(end)
    }

    /// Returns the task as the agents read it, if the run recorded it.
    pub fn question(&self) -> Option<Arc<str>> {
        self.resumed.events().find_map(|event| {
            let Event::Run(RunEvent::RunStarted { question, .. }) = event else {
                return None;
            };
            Some(Arc::clone(question))
        })
    }
}

/// Returns how many events of a run that the user stopped come before the first one that followed
/// from that; `None` if it was not stopped.
fn stop_position(events: &[(Event, LocalDateTime)]) -> Option<usize> {
    let is_stopped = |(event, _): &(Event, LocalDateTime)| {
        matches!(event, Event::Run(RunEvent::RunEnded { status, .. })
            if *status == ExitStatus::Interrupted)
    };
    let stop = events.iter().rposition(is_stopped)?;
    let last_attempt = events
        .iter()
        .rposition(|(event, _)| matches!(event, Event::Run(RunEvent::RunStarted { .. })));
    let begin = last_attempt.unwrap_or_default();
    let follows = |(event, _): &(Event, LocalDateTime)| {
        matches!(event, Event::Run(RunEvent::CoordinationStopped { status })
            if *status == ExitStatus::Interrupted)
            || matches!(event, Event::Delivery(DeliveryEvent::FinalAnswer { .. }))
    };
    let first = events.iter().skip(begin).position(follows);
    Some(first.map_or(stop, |first| begin.saturating_add(first)))
}

fn resume_error(run: &RunDir, why: &str) -> Error {
    let message = format!("`{}` cannot be resumed: {why}", run.name());
    Error::new(ErrorKind::Environment, message).with_hint("start its task again")
}

/// Returns the events of a log with the streamed text in each reply; `None` if one of them is
/// unknown.
fn complete_replies(
    events: Vec<Option<(Event, LocalDateTime)>>,
) -> Option<Vec<(Event, LocalDateTime)>> {
    let mut streamed_texts: BTreeMap<AgentId, String> = BTreeMap::new();
    let events = events.into_iter().map(|event| {
        let (mut event, at) = event?;
        if let Event::Model(ModelEvent::ModelRequestStarted { agent, .. }) = &event {
            streamed_texts.remove(agent);
        } else if let Event::Model(ModelEvent::Text { agent, text }) = &event {
            streamed_texts
                .entry(agent.clone())
                .or_default()
                .push_str(text);
        } else if let Event::Model(ModelEvent::Replied { agent, text, .. }) = &mut event {
            *text = streamed_texts.remove(agent).unwrap_or_default().into();
        }
        Some((event, at))
    });
    events.collect()
}

/// Returns the record of each coordination. The last one stays open if the record is merely
/// truncated.
fn coordinations<'e>(
    events: impl Iterator<Item = &'e Event> + Clone,
) -> VecDeque<RecordedCoordination> {
    let mut coordinations = ReplayPlan::from_events(events.clone()).coordinations;
    let mut is_open = false;
    for event in events {
        if let Event::Run(RunEvent::RunStarted { .. }) = event {
            is_open = true;
        } else if let Event::Run(RunEvent::CoordinationStopped { .. })
        | Event::Coordination(CoordinationEvent::WinnerSelected { .. }) = event
        {
            is_open = false;
        }
    }
    if let Some(coordination) = coordinations.back_mut().filter(|_| is_open) {
        coordination.ending = RecordedEnding::Closed;
    }
    coordinations
}
