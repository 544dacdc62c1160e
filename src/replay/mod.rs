//! Replays a recorded run: runs today's code with the recorded replies, in the order of the record
//! and in scratch directories. It must never reach a model, and writes to none of the user's paths.

pub mod compare;
pub mod plan;
mod playback;
pub mod record;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::backend::available_model::AvailableModel;
use crate::backend::rate_limit::ModelRateLimiter;
use crate::backend::scripted::script::ScriptedReplies;
use crate::config::Config;
use crate::config::vendors::ImageInput;
use crate::config::vendors::file_input::ModelFileInput;
use crate::error::Result;
use crate::event::Event;
use crate::id::AgentId;
use crate::layout::{AgentWorkspace, RunLayout, WorkspaceOwner};
use crate::orchestrator::ModelsByAgent;
use crate::orchestrator::approvals::ApprovalConfig;
use crate::orchestrator::execution::{
    RunContext, RunExecution, RunRequest, ShutdownSignal, new_run_name,
};
use crate::orchestrator::process_specs::HostEnvironment;
use crate::orchestrator::record_context::RunInvocation;
use crate::orchestrator::recorded_messages::RecordedMessages;
use crate::orchestrator::replay_order::ReplayInput;
use crate::path::AbsPath;
use crate::prompts::rewrite_paths;
use crate::replay::compare::{
    PathAliases, RecordCompleteness, ReplayDifference, compared_events, first_difference,
};
use crate::replay::plan::ConversationPlan;
use crate::replay::playback::{
    PlaybackBackend, PlaybackCancellation, SubagentReplies, subagent_replies,
};
use crate::replay::record::RecordedRun;
use crate::world::store::ScratchDir;
use crate::world::store::prepare_state_dir;
use crate::world::store::redact::Redactor;

/// Maximum number of events that wait to be collected.
const EVENTS_WAITING_MAX: usize = 1024;
/// Prefix of the scratch directories of replays.
const SCRATCH_PREFIX: &str = "replay_";

/// Outcome of a replay.
#[derive(Debug)]
pub struct ReplayOutcome {
    /// The number of recorded events that were compared.
    pub compared: usize,
    /// Where it first differs from the record, if it does.
    pub difference: Option<ReplayDifference>,
    /// The workspaces and records of the replay; they are removed when this is dropped, unless they
    /// are kept.
    pub scratch: ScratchDir,
}

/// Replays `record` for a user whose state directory is `state`. `stop` ends it early.
pub async fn play(
    record: RecordedRun,
    state: &AbsPath,
    host_environment: HostEnvironment,
    stop: ShutdownSignal,
) -> Result<ReplayOutcome> {
    prepare_state_dir(state, [])?;
    let scratch = ScratchDir::make(state, SCRATCH_PREFIX)?;
    let layout = layout(&record.config, state, scratch.path());
    let moves = path_moves(&record, &layout);
    let aliases = path_aliases(&record, &layout);
    let recorded_events = compared_events(&record.events, &aliases);
    let completeness = if record.plan.is_complete {
        RecordCompleteness::Complete
    } else {
        RecordCompleteness::Interrupted
    };
    let run = RunExecution::prepare(
        run_request(record, layout, &moves, host_environment, &stop.graceful),
        stop,
    )?;
    let (event_sender, mut events) = mpsc::channel::<Event>(EVENTS_WAITING_MAX);
    let collect_events = async {
        let mut collected_events = Vec::new();
        while let Some(event) = events.recv().await {
            // Streamed text is not compared, and the record was read without it.
            if !event.is_streamed() {
                collected_events.push(event);
            }
        }
        collected_events
    };
    let (result, collected_events) = tokio::join!(run.execute(event_sender), collect_events);
    result?;
    let replayed_events = compared_events(&collected_events, &aliases);
    Ok(ReplayOutcome {
        compared: recorded_events.len(),
        difference: first_difference(&recorded_events, &replayed_events, completeness),
        scratch,
    })
}

/// Returns the paths of the replay. All that it writes to is inside `scratch`; `state` is the
/// user's own state directory.
fn layout(config: &Config, state: &AbsPath, scratch: &AbsPath) -> RunLayout {
    let agents_with_workspace = config.agents.iter().filter(|agent| agent.cwd.is_some());
    let workspaces = agents_with_workspace.map(|agent| {
        let workspace = AgentWorkspace {
            path: scratch.join("workspaces").join(agent.id.as_str()),
            owner: WorkspaceOwner::Massgen,
        };
        (agent.id.clone(), workspace)
    });
    RunLayout {
        run: new_run_name(),
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

/// Returns each path of the workspaces and of the temporary workspaces of the recorded run, which
/// its replies name, with the path in the replay.
fn path_moves(record: &RecordedRun, layout: &RunLayout) -> Vec<(AbsPath, String)> {
    let workspaces = record.workspaces.iter().filter_map(|(agent, old)| {
        let new = &layout.workspaces.get(agent)?.path;
        Some((old, new))
    });
    let temp_workspaces = (&record.temp_workspaces, &layout.temp_workspaces);
    let moves = workspaces.chain([temp_workspaces]);
    moves
        .flat_map(|(old, new)| old.iter().map(|old| (old.clone(), new.to_string())))
        .collect()
}

/// Returns an alias for each workspace of both runs, so that texts that name one
/// compare as equal.
fn path_aliases(record: &RecordedRun, layout: &RunLayout) -> PathAliases {
    let mut aliases = Vec::new();
    for (agent, old) in &record.workspaces {
        let new = layout
            .workspaces
            .get(agent)
            .map(|workspace| &workspace.path);
        let paths = old.iter().chain(new).cloned();
        aliases.extend(paths.map(|path| (path, format!("<workspace of {agent}>"))));
    }
    let temp_workspaces = record
        .temp_workspaces
        .iter()
        .chain([&layout.temp_workspaces])
        .cloned();
    aliases.extend(temp_workspaces.map(|path| (path, "<temp workspaces>".to_owned())));
    PathAliases(aliases)
}

/// Returns the request that replays `record`.
fn run_request(
    record: RecordedRun,
    layout: RunLayout,
    moves: &[(AbsPath, String)],
    host_environment: HostEnvironment,
    stop: &CancellationToken,
) -> RunRequest {
    let divergence = CancellationToken::new();
    let cancellation = PlaybackCancellation {
        divergence: divergence.clone(),
        stop: stop.clone(),
    };
    let question = record.question();
    let mut messages = RecordedMessages::from_events(&record.events);
    messages.divergence = Some(divergence.clone());
    let models = models(
        record.replies,
        subagent_replies(&record.events),
        &record.plan.conversations,
        moves,
        &cancellation,
    );
    let context = RunContext {
        base: record.cwd,
        opened: record.opened,
        models,
        redactor: Redactor::default(),
        telemetry: None,
        invocation: RunInvocation::default(),
        host: host_environment,
        approvals: ApprovalConfig::default(),
        inbox: None,
    };
    let replay = ReplayInput {
        coordinations: record.plan.coordinations,
        messages,
        divergence,
    };
    RunRequest {
        replay: Some(replay),
        ..RunRequest::new(context, record.config, layout, record.task, question)
    }
}

/// Returns the models: each gives the replies of its agent, with the paths of the replay.
fn models(
    replies: BTreeMap<AgentId, ScriptedReplies>,
    mut subagents: Vec<SubagentReplies>,
    conversations: &BTreeMap<AgentId, Vec<ConversationPlan>>,
    moves: &[(AbsPath, String)],
    cancellation: &PlaybackCancellation,
) -> ModelsByAgent {
    let with_new_paths = |text: &str| {
        let rewrite_path =
            |text: String, (old, new): &(AbsPath, String)| rewrite_paths(&text, old, new);
        moves.iter().fold(text.to_owned(), rewrite_path)
    };
    for subagent in &mut subagents {
        subagent.replies.map_texts(&with_new_paths);
    }
    let agent_models = |(agent, mut replies): (AgentId, ScriptedReplies)| {
        replies.map_texts(&with_new_paths);
        let subagents_of_agent: Vec<SubagentReplies> = subagents
            .extract_if(.., |subagent| subagent.agent == agent)
            .collect();
        let conversations = conversations
            .get(&agent)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let backend = PlaybackBackend::new(
            replies,
            conversations,
            subagents_of_agent,
            cancellation.clone(),
        );
        let model = AvailableModel {
            name: Arc::from("recorded"),
            image_input: ImageInput::Accepted,
            file_input: ModelFileInput::ALL,
            backend: Arc::new(backend),
            price: None,
            context_tokens: None,
            vendor_tools: BTreeMap::new(),
            media: None,
            subagents: Arc::default(),
            rate_limiter: ModelRateLimiter::default(),
        };
        (agent, vec![model])
    };
    replies.into_iter().map(agent_models).collect()
}
