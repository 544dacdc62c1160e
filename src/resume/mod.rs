//! Reads an interrupted run, so that it can be resumed from its last recorded event: finds the run,
//! decodes its log, and cuts off what cannot be resumed. A run that the user stopped is resumed
//! from the event before that. Nothing here sends a request to a model.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::event::{CoordinationEvent, DeliveryEvent, Event, ModelEvent, RunEvent};
use crate::id::AgentId;
use crate::layout::RunName;
use crate::orchestrator::execution::RunRequest;
use crate::orchestrator::recorded_messages::RecordedMessages;
use crate::orchestrator::replay_order::{RecordedCoordination, RecordedEnding, ReplayInput};
use crate::orchestrator::resumed_turn::ResumedTurn;
use crate::path::AbsPath;
use crate::replay::plan::ReplayPlan;
use crate::world::io::clock::LocalDateTime;
use crate::world::store::event_log::{EventLog, LineEnd};
use crate::world::store::records::metadata::RunMetadata;
use crate::world::store::runs::{RunDir, RunStatus, find_by_name, list};
use crate::world::store::sessions::session::Session;

/// Maximum number of runs that are examined, the newest first, to find the last one of a session.
const RUNS_EXAMINED_MAX: usize = 10_000;

/// A run whose process is gone and that did not record its end, or that the user stopped.
#[derive(Clone, Debug)]
pub struct InterruptedRun {
    /// The run.
    pub run: RunDir,
    /// How it was started.
    pub metadata: RunMetadata,
    /// The number of the turn in its session.
    pub turn: u32,
    /// Whether its process was killed or the user stopped it.
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
/// or stopped by the user. Skips runs that are in progress or whose records were copied along with
/// the project, and killed runs that have no manifest yet or whose session does not exist according
/// to `session_exists`. A run that the user stopped without these ends the search, as a run that
/// ended by itself does.
pub fn find_interrupted(
    logs: &AbsPath,
    session: Option<&str>,
    session_exists: impl Fn(&str) -> bool,
) -> Result<Option<InterruptedRun>> {
    for run in own_runs(logs)? {
        let run = run?;
        let Some((metadata, turn)) = run.metadata().zip(run.turn_number()) else {
            continue;
        };
        if session.is_some_and(|session| session != metadata.session_id) {
            continue;
        }
        if let ControlFlow::Break(interrupted) = inspect_run(run, metadata, turn, &session_exists)?
        {
            return Ok(interrupted);
        }
    }
    Ok(None)
}

/// Returns the last run in `logs` of each of these sessions, if it was interrupted or stopped by
/// the user, by session. The records of a run are read once.
pub fn find_interrupted_of(
    logs: &AbsPath,
    mut sessions: BTreeSet<String>,
) -> Result<BTreeMap<String, InterruptedRun>> {
    let mut interrupted = BTreeMap::new();
    for run in own_runs(logs)? {
        if sessions.is_empty() {
            break;
        }
        let run = run?;
        let Some((metadata, turn)) = run.metadata().zip(run.turn_number()) else {
            continue;
        };
        let session = metadata.session_id.clone();
        if sessions.contains(&session)
            && let ControlFlow::Break(last_run) = inspect_run(run, metadata, turn, |_| true)?
        {
            sessions.remove(&session);
            interrupted.extend(last_run.map(|run| (session, run)));
        }
    }
    Ok(interrupted)
}

/// Returns the runs in `logs` whose records were not copied along with the project, the newest
/// first.
fn own_runs(logs: &AbsPath) -> Result<impl Iterator<Item = Result<RunDir>>> {
    let runs = list(logs)?.into_iter().take(RUNS_EXAMINED_MAX);
    Ok(runs.filter_map(|run| run.is_own().map(|is_own| is_own.then_some(run)).transpose()))
}

/// Breaks if `run` decides whether its session can be resumed: with the run, or with `None` if it
/// has ended. Continues if an older run of the session decides that.
fn inspect_run(
    run: RunDir,
    metadata: RunMetadata,
    turn: u32,
    session_exists: impl Fn(&str) -> bool,
) -> Result<ControlFlow<Option<InterruptedRun>>> {
    let state = run.state()?;
    let cause = match state.status {
        RunStatus::Ended if was_stopped(state.status_file.as_ref()) => InterruptionCause::Stopped,
        RunStatus::Ended => return Ok(ControlFlow::Break(None)),
        RunStatus::Interrupted => InterruptionCause::Killed,
        RunStatus::Running => return Ok(ControlFlow::Continue(())),
    };
    if session_exists(&metadata.session_id) && run.manifest().is_ok() {
        return Ok(ControlFlow::Break(Some(InterruptedRun {
            run,
            metadata,
            turn,
            cause,
        })));
    }
    Ok(match cause {
        InterruptionCause::Stopped => ControlFlow::Break(None),
        InterruptionCause::Killed => ControlFlow::Continue(()),
    })
}

/// Returns whether a run with this `status.json` ended because the user stopped it.
fn was_stopped(status_file: Option<&Value>) -> bool {
    let reason = status_file
        .and_then(|file| file.get("finish_reason"))
        .and_then(|reason| ExitStatus::deserialize(reason).ok());
    reason == Some(ExitStatus::Interrupted)
}

/// Returns whether the user stopped the run `name` in `logs`.
pub fn was_stopped_by_user(name: &str, logs: &AbsPath) -> Result<bool> {
    let run = find_by_name(name, logs)?;
    run.map_or(Ok(false), |run| {
        Ok(was_stopped(run.state()?.status_file.as_ref()))
    })
}

/// State of a run that is to be resumed.
#[derive(Debug)]
pub struct ResumeState {
    /// The turn, with its log and the recorded events.
    pub resumed_turn: ResumedTurn,
    /// The record of each of its coordinations.
    pub coordinations: VecDeque<RecordedCoordination>,
    /// The name of the run, which its directories have.
    pub name: RunName,
    /// Why its log was truncated, if it was.
    pub truncation_reason: Option<String>,
    /// If the user stopped the run: the end of the last line before the events that followed from
    /// that.
    end_before_stop: Option<LineEnd>,
}

impl ResumeState {
    /// Reads the records of `run` and locks its log. Torn lines, and everything after damage, are
    /// cut off. The end of a run that the user stopped is not read, and stays in the log until
    /// [`ResumeState::discard_end`].
    pub fn read(run: &RunDir) -> Result<Self> {
        let manifest = run.manifest()?;
        // The directory of the snapshots that agents see is named after the run.
        let temp_workspaces = manifest.temp_workspaces.first().and_then(AbsPath::new);
        let directory_name = temp_workspaces
            .as_ref()
            .and_then(|path| path.as_path().file_name());
        let name = directory_name
            .and_then(|name| RunName::parse(name.to_str()?))
            .ok_or_else(|| resume_error(run, "its records do not contain its name"))?;
        let mut reopened = EventLog::reopen(&run.events_file())?;
        let events = std::mem::take(&mut reopened.events).into_iter();
        let mut events: Vec<_> = events.collect::<Option<_>>().ok_or_else(|| {
            resume_error(run, "its log has an event that this version does not know")
        })?;
        complete_replies(events.iter_mut().map(|(event, _)| event));
        let count_before_stop = count_before_stop(&events);
        let end_before_stop = count_before_stop.map(|count| reopened.line_end(count));
        events.truncate(count_before_stop.unwrap_or(events.len()));
        let has_ended = |(event, _): &(Event, LocalDateTime)| {
            matches!(event, Event::Run(RunEvent::RunEnded { .. }))
        };
        if events.iter().any(has_ended) {
            return Err(resume_error(run, "it has ended"));
        }
        let coordinations = coordinations(events.iter().map(|(event, _)| event));
        Ok(Self {
            resumed_turn: ResumedTurn {
                log: reopened.log,
                log_dir: run.log().clone(),
                events,
            },
            coordinations,
            name,
            truncation_reason: reopened.truncation_reason,
            end_before_stop,
        })
    }

    /// Removes the end of a run that the user stopped from its log, and its turn from `session`.
    ///
    /// # Errors
    /// If the log or the session cannot be written.
    pub fn discard_end(&mut self, session: &mut Session) -> Result<()> {
        let Some(end) = self.end_before_stop.take() else {
            return Ok(());
        };
        // If the process ends between these steps, the log still shows that the run was stopped.
        session.discard_saved_turn()?;
        self.resumed_turn.log.truncate(end)
    }

    /// Makes `request` resume the run in `session`.
    pub fn resume_in(self, request: &mut RunRequest, session: Session) {
        if let Some(question) = self.question() {
            request.question = question;
        }
        request.session = Some(session);
        request.replay = Some(ReplayInput {
            messages: RecordedMessages::from_events(self.resumed_turn.events()),
            coordinations: self.coordinations,
            divergence: CancellationToken::new(),
        });
        request.resumed = Some(self.resumed_turn);
    }

    /// Returns the task as the agents read it, if the run recorded it.
    fn question(&self) -> Option<Arc<str>> {
        self.resumed_turn.events().find_map(|event| {
            let Event::Run(RunEvent::RunStarted { question, .. }) = event else {
                return None;
            };
            Some(Arc::clone(question))
        })
    }
}

/// Returns how many events of a run that the user stopped come before the first one that followed
/// from that; `None` if it was not stopped.
fn count_before_stop(events: &[(Event, LocalDateTime)]) -> Option<usize> {
    let is_stopped = |(event, _): &(Event, LocalDateTime)| {
        matches!(event, Event::Run(RunEvent::RunEnded { status, .. })
            if *status == ExitStatus::Interrupted)
    };
    let stop = events.iter().rposition(is_stopped)?;
    let last_coordination = events
        .iter()
        .rposition(|(event, _)| matches!(event, Event::Run(RunEvent::RunStarted { .. })));
    let coordination_start = last_coordination.unwrap_or_default();
    let follows_stop = |(event, _): &(Event, LocalDateTime)| {
        matches!(event, Event::Run(RunEvent::CoordinationStopped { status })
            if *status == ExitStatus::Interrupted)
            || matches!(event, Event::Delivery(DeliveryEvent::FinalAnswer { .. }))
    };
    // Only the last coordination counts: an earlier one that stopped was restarted.
    let first_consequence = events
        .iter()
        .skip(coordination_start)
        .position(follows_stop);
    Some(first_consequence.map_or(stop, |index| coordination_start.saturating_add(index)))
}

fn resume_error(run: &RunDir, reason: &str) -> Error {
    let message = format!("`{}` cannot be resumed: {reason}", run.name());
    Error::new(ErrorKind::Environment, message).with_hint("start its task again")
}

/// Inserts the streamed text in each reply of the events of a log, which has it only in pieces.
pub fn complete_replies<'e>(events: impl Iterator<Item = &'e mut Event>) {
    let mut streamed_texts: BTreeMap<AgentId, String> = BTreeMap::new();
    for event in events {
        if let Event::Model(ModelEvent::ModelRequestStarted { agent, .. }) = event {
            streamed_texts.remove(agent);
        } else if let Event::Model(ModelEvent::Text { agent, text }) = event {
            streamed_texts
                .entry(agent.clone())
                .or_default()
                .push_str(text);
        } else if let Event::Model(ModelEvent::Replied { agent, text, .. }) = event {
            *text = streamed_texts.remove(agent).unwrap_or_default().into();
        }
    }
}

/// Returns the record of each coordination. One in which the record just ends does not count as
/// interrupted: the resumed run continues it.
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
