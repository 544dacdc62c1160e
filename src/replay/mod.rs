//! Owns the playing again of a recorded run: today's code with the recorded replies, in the order of
//! the record and in a place of its own. It must never reach a model, and writes nothing of the
//! user's.

pub mod compare;
pub mod plan;
mod playback;
pub mod record;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::backend::Model;
use crate::backend::pace::Pacing;
use crate::backend::scripted::script::ReplyList;
use crate::brief::rewrite_paths;
use crate::config::Config;
use crate::config::vendors::ImageInput;
use crate::error::Result;
use crate::event::Event;
use crate::id::AgentId;
use crate::layout::{Layout, Owner, RunName, Workspace};
use crate::orchestrator::Models;
use crate::orchestrator::asking::People;
use crate::orchestrator::conduct::{Files, Order, Run, StartedWith, Stop};
use crate::orchestrator::course::Again;
use crate::orchestrator::shells::Machine;
use crate::path::AbsPath;
use crate::replay::compare::{Completeness, Difference, Names, first_difference, happenings};
use crate::replay::plan::Talk;
use crate::replay::playback::{Ends, Playback};
use crate::replay::record::Record;
use crate::world::store::prepare_state_dir;
use crate::world::store::redact::Redactor;
use crate::world::store::scratch::Scratch;
use crate::world::store::trace::Detail;

/// Events that may wait to be looked at.
const EVENTS_WAITING_MAX: usize = 1024;
/// What the name of a directory begins with in which a run is played again.
const SCRATCH_PREFIX: &str = "replay_";

/// What a run came to that was played again.
#[derive(Debug)]
pub struct Replayed {
    /// How many of the things that count were compared.
    pub compared: usize,
    /// Where it first differs from the record, if it does.
    pub difference: Option<Difference>,
    /// The workspaces and records of the second run; they go with this value unless they are kept.
    pub scratch: Scratch,
}

/// Plays `record` again for a user whose state lies in `state`. `stop` ends it early.
pub async fn play(
    record: Record,
    state: &AbsPath,
    machine: Machine,
    stop: Stop,
) -> Result<Replayed> {
    prepare_state_dir(state, [])?;
    let scratch = Scratch::make(state, SCRATCH_PREFIX)?;
    let layout = layout(&record.config, state, scratch.path());
    let moves = moves(&record, &layout);
    let names = names(&record, &layout);
    let recorded = happenings(&record.events, &names);
    let completeness = if record.plan.is_complete {
        Completeness::Complete
    } else {
        Completeness::BreaksOff
    };
    let run = Run::prepare(order(record, layout, &moves, machine, &stop.soon), stop)?;
    let (shown, mut events) = mpsc::channel(EVENTS_WAITING_MAX);
    let watching = async {
        let mut seen = Vec::new();
        while let Some(event) = events.recv().await {
            if !matches!(event, Event::Text { .. } | Event::Reasoning { .. }) {
                seen.push(event);
            }
        }
        seen
    };
    let (result, seen) = tokio::join!(run.conduct(shown), watching);
    result?;
    let replayed = happenings(&seen, &names);
    Ok(Replayed {
        compared: recorded.len(),
        difference: first_difference(&recorded, &replayed, completeness),
        scratch,
    })
}

/// All places of the second run, inside `scratch`.
fn layout(config: &Config, state: &AbsPath, scratch: &AbsPath) -> Layout {
    let with_workspace = config.agents.iter().filter(|agent| agent.cwd.is_some());
    let workspaces = with_workspace.map(|agent| {
        let workspace = Workspace {
            path: scratch.join("workspaces").join(agent.id.as_str()),
            owner: Owner::Massgen,
        };
        (agent.id.clone(), workspace)
    });
    Layout {
        run: RunName::new(Uuid::new_v4().as_fields().0),
        state: state.clone(),
        workspaces: workspaces.collect(),
        temp_workspaces: scratch.join("temp_workspaces"),
        snapshots: scratch.join("snapshots"),
        sessions: scratch.join("sessions"),
        logs: scratch.join("massgen_logs"),
        sandboxes: scratch.join("sandboxes"),
        deliveries: scratch.join("deliveries"),
    }
}

/// Each path of the first run with the one of the second.
fn moves(record: &Record, layout: &Layout) -> Vec<(AbsPath, String)> {
    let workspaces = record.workspaces.iter().filter_map(|(agent, old)| {
        let new = &layout.workspaces.get(agent)?.path;
        Some((old, new))
    });
    let temp = (&record.temp_workspaces, &layout.temp_workspaces);
    let all = workspaces.chain([temp]);
    all.flat_map(|(old, new)| old.iter().map(|old| (old.clone(), new.to_string())))
        .collect()
}

/// Names for the paths of both runs.
fn names(record: &Record, layout: &Layout) -> Names {
    let mut names = Vec::new();
    for (agent, old) in &record.workspaces {
        let new = layout
            .workspaces
            .get(agent)
            .map(|workspace| &workspace.path);
        let paths = old.iter().chain(new).cloned();
        names.extend(paths.map(|path| (path, format!("<workspace of {agent}>"))));
    }
    let temp = record.temp_workspaces.iter();
    let temp = temp.chain([&layout.temp_workspaces]).cloned();
    names.extend(temp.map(|path| (path, "<temp workspaces>".to_owned())));
    Names(names)
}

fn order(
    record: Record,
    layout: Layout,
    moves: &[(AbsPath, String)],
    machine: Machine,
    stop: &CancellationToken,
) -> Order {
    let departed = CancellationToken::new();
    let ends = Ends {
        departed: departed.clone(),
        stop: stop.clone(),
    };
    let question = record.question();
    Order {
        layout,
        question,
        models: models(record.replies, &record.plan.talks, moves, &ends),
        again: Some(Again {
            courses: record.plan.courses,
            departed,
        }),
        resumed: None,
        opened: record.opened,
        people: People::default(),
        session: None,
        config: record.config,
        base: record.cwd,
        task: record.task,
        redactor: Redactor::default(),
        telemetry: None,
        started_with: StartedWith {
            config_path: None,
            config_text: None,
            arguments: Vec::new(),
            detail: Detail::Plain,
        },
        machine,
        reviewer: None,
        files: Files::Kept,
    }
}

/// The models: each gives the replies of its agent, with the paths of the second run.
fn models(
    replies: BTreeMap<AgentId, ReplyList>,
    talks: &BTreeMap<AgentId, Vec<Talk>>,
    moves: &[(AbsPath, String)],
    ends: &Ends,
) -> Models {
    let with_new_paths = |text: &str| {
        let move_one =
            |text: String, (old, new): &(AbsPath, String)| rewrite_paths(&text, old, new);
        moves.iter().fold(text.to_owned(), move_one)
    };
    let model = |(agent, mut replies): (AgentId, ReplyList)| {
        replies.reword(&with_new_paths);
        let talks = talks.get(&agent).map(Vec::as_slice).unwrap_or_default();
        let backend = Playback::new(replies, talks, ends.clone());
        let model = Model {
            name: Arc::from("recorded"),
            image_input: ImageInput::Taken,
            backend: Arc::new(backend),
            price: None,
            pacing: Pacing::default(),
        };
        (agent, vec![model])
    };
    replies.into_iter().map(model).collect()
}
