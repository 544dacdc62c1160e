//! The initial state of a resumed turn, reconstructed from its event log without asking a model.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::discriminant;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::agent::recorded_conversation::{
    EffectPersistence, RecordedCall, RecordedConversation, RecordedReply, RecordedSubagent,
    SubagentEnding, ToolResultContent,
};
use crate::backend::{BackendError, BackendErrorKind};
use crate::config::Config;
use crate::error::{ExitStatus, Result};
use crate::event::{
    CoordinationEvent, DeliveryEvent, DeliveryRow, Event, ModelEvent, RunEvent, SubagentEvent,
    SubagentKey, SubagentStatus, ToolEvent,
};
use crate::id::AgentId;
use crate::orchestrator::overlays::PendingDelivery;
use crate::orchestrator::snapshots::RecordedAnswer;
use crate::orchestrator::team::AgentTeam;
use crate::orchestrator::{ModelsByAgent, final_effect_persistence};
use crate::path::AbsPath;
use crate::permissions::grant::Phase;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::spending::totals::UsageTotals;
use crate::world::io::clock::LocalDateTime;
use crate::world::store::event_log::EventLog;
use crate::world::store::sessions::session::Session;

/// An interrupted turn.
#[derive(Debug)]
pub struct ResumedTurn {
    /// Its event log, which ends with the last of `events`.
    pub log: EventLog,
    /// The directory of its records.
    pub log_dir: AbsPath,
    /// Its recorded events, in order. Replies have their text.
    pub events: Vec<(Event, LocalDateTime)>,
}

impl ResumedTurn {
    /// Returns its recorded events.
    pub fn events(&self) -> impl Iterator<Item = &Event> + Clone {
        self.events.iter().map(|(event, _)| event)
    }
}

/// The initial state of a run; empty, unless it resumes an interrupted turn.
#[derive(Debug, Default)]
pub(super) struct InitialTurnState {
    /// The recorded events.
    pub(super) events: Vec<Event>,
    /// Those of them that the turn emits again.
    pub(super) already_logged: AlreadyLoggedEvents,
    /// The time of the last recorded event, in nanoseconds since 1970.
    pub(super) until_ns: Option<i128>,
    /// The events to emit first: the ends of requests that were in progress, and warnings.
    pub(super) first_events: Vec<Event>,
    /// The usage so far.
    pub(super) usage: UsageTotals,
    /// The recorded parts of all conversations.
    pub(super) recorded_conversations: RecordedConversations,
    /// The recorded conclusion, if only the end of the turn was missing.
    pub(super) recorded_conclusion: Option<RecordedConclusion>,
    /// Whether its final phase had begun to write to the user's paths, and starts again.
    restarts_final_phase: bool,
}

impl InitialTurnState {
    /// Returns the state with which `team` resumes, if it does.
    pub(super) fn from_resumed(
        resumed: Option<&ResumedTurn>,
        team: &AgentTeam,
        models: &ModelsByAgent,
    ) -> Self {
        let Some(resumed) = resumed else {
            return Self::default();
        };
        let conclusion = RecordedConclusion::from_events(resumed.events());
        let presenters = resumed.events().filter_map(|event| {
            let Event::Delivery(DeliveryEvent::FinalStarted { agent }) = event else {
                return None;
            };
            Some(agent)
        });
        let last_presenter = presenters.last();
        let mut members = team.members.iter();
        let member = members.find(|member| Some(&member.id) == last_presenter);
        let effects = member.map_or(EffectPersistence::Present, |member| {
            final_effect_persistence(&member.grants)
        });
        let request_ends = interrupted_requests(resumed.events(), models);
        Self {
            events: resumed.events().cloned().collect(),
            until_ns: (resumed.events.last()).map(|(_, time)| i128::from(time.unix_nanoseconds())),
            already_logged: AlreadyLoggedEvents::from_events(resumed.events(), effects),
            usage: recorded_usage(resumed.events().chain(&request_ends)),
            recorded_conversations: RecordedConversations::from_events(resumed.events()),
            restarts_final_phase: effects == EffectPersistence::Gone && conclusion.is_none(),
            first_events: request_ends,
            recorded_conclusion: conclusion,
        }
    }

    /// Forgets the baseline for conflicts, and warns, if commands write to the user's paths
    /// directly: otherwise a final phase that starts again would take its own earlier changes for
    /// the user's. If there are overlays, nothing is forgotten: all changes went there, and what
    /// the user has changed since is respected.
    pub(super) fn forget_conflicts(&mut self, session: &Session, config: &Config) {
        if !self.restarts_final_phase || !config.writes_in_place() {
            return;
        }
        session.reset_conflict_baseline();
        let message = "this run used no sandbox, so your changes since the interruption cannot be \
                       distinguished from its own";
        self.first_events.push(Event::Run(RunEvent::Warning {
            message: message.to_owned(),
        }));
    }

    /// Discards the overlays of a final phase that starts again.
    pub(super) fn discard_overlays(&self, team: &AgentTeam) -> Result<()> {
        if self.restarts_final_phase {
            team.clear_overlays(PendingDelivery::Nothing)?;
        }
        Ok(())
    }
}

/// The recorded parts of all conversations of a turn.
#[derive(Debug, Default)]
pub struct RecordedConversations(Mutex<BTreeMap<AgentId, VecDeque<(Phase, RecordedConversation)>>>);

impl RecordedConversations {
    /// Reconstructs them from `events`.
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut by_agent: BTreeMap<AgentId, VecDeque<(Phase, RecordedConversation)>> =
            BTreeMap::new();
        for event in events {
            if let Event::Run(RunEvent::RunStarted { agents, .. }) = event {
                for agent in agents {
                    let conversations = by_agent.entry(agent.clone()).or_default();
                    conversations.push_back((Phase::Coordination, RecordedConversation::default()));
                }
            } else if let Event::Delivery(DeliveryEvent::FinalStarted { agent }) = event {
                let conversations = by_agent.entry(agent.clone()).or_default();
                conversations.push_back((Phase::Final, RecordedConversation::default()));
            } else if let Some(agent) = event.agent()
                && let Some((_, conversation)) =
                    by_agent.get_mut(agent).and_then(VecDeque::back_mut)
            {
                append_event(conversation, event);
            }
        }
        Self(Mutex::new(by_agent))
    }

    /// Returns the subagents that the call `call_id` started in the next conversation of `agent`.
    pub fn subagents_of_next(&self, agent: &AgentId, call_id: &str) -> Vec<RecordedSubagent> {
        let by_agent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next_conversation = by_agent.get(agent).and_then(VecDeque::front);
        let subagents = next_conversation
            .into_iter()
            .flat_map(|(_, conversation)| &conversation.subagents);
        subagents
            .filter(|subagent| subagent.call_id == call_id)
            .cloned()
            .collect()
    }

    /// Returns the recorded part of the next conversation of `agent` in `phase`; `None` if it never
    /// began.
    pub fn take(&self, agent: &AgentId, phase: Phase) -> Option<RecordedConversation> {
        let mut by_agent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let conversations = by_agent.get_mut(agent)?;
        while let Some((conversation_phase, conversation)) = conversations.pop_front() {
            if conversation_phase == phase {
                return Some(conversation);
            }
        }
        None
    }
}

/// Adds `event` to the record of its conversation.
fn append_event(conversation: &mut RecordedConversation, event: &Event) {
    if let Event::Model(ModelEvent::Replied {
        text,
        calls,
        stop,
        echo,
        ..
    }) = event
    {
        conversation.replies.push_back(RecordedReply::Whole {
            text: text.to_string(),
            calls: calls.clone(),
            stop: *stop,
            echo: echo.clone(),
        });
    } else if let Event::Model(ModelEvent::Failed {
        reason, problem, ..
    }) = event
    {
        let reply = RecordedReply::Failed(BackendError {
            kind: problem.map_or(BackendErrorKind::Permanent, BackendErrorKind::NeedsUser),
            message: reason.clone(),
        });
        conversation.replies.push_back(reply);
    } else if let Event::Model(ModelEvent::ModelFallback { .. }) = event {
        conversation.abandoned_models = conversation.abandoned_models.saturating_add(1);
    } else if let Event::Tool(ToolEvent::ToolCalled {
        call_id, denied, ..
    }) = event
    {
        let record = match denied {
            Some(reason) => RecordedCall::Rejected(ToolResultContent::from_rejection(reason)),
            None => RecordedCall::Started,
        };
        conversation.calls.insert(call_id.clone(), record);
    } else if let Event::Tool(ToolEvent::ToolFinished {
        call_id,
        summary,
        content,
        images,
        success,
        ..
    }) = event
    {
        let content = content.as_deref().unwrap_or(summary);
        let result = ToolResultContent {
            content: content.to_owned(),
            images: images.clone(),
            has_failed: !success,
        };
        let call = RecordedCall::Executed(result);
        conversation.calls.insert(call_id.clone(), call);
    } else if let Event::Tool(ToolEvent::PlanUpdated { entries, .. }) = event {
        conversation.plan = Some(entries.clone());
    } else if let Event::Subagent(event) = event {
        append_subagent_event(conversation, event);
    }
}

/// Adds an event of a subagent to the record of its agent's conversation.
fn append_subagent_event(conversation: &mut RecordedConversation, event: &SubagentEvent) {
    let SubagentKey {
        call_id, subagent, ..
    } = event.key();
    let is_same =
        |recorded: &RecordedSubagent| recorded.call_id == call_id && recorded.subagent == *subagent;
    let recorded_index = conversation.subagents.iter().rposition(is_same);
    let Some(index) = recorded_index else {
        if let SubagentEvent::SubagentStarted { .. } = event {
            conversation.subagents.push(RecordedSubagent {
                call_id: call_id.to_owned(),
                subagent: subagent.clone(),
                conversation: RecordedConversation::default(),
                ending: None,
            });
        }
        return;
    };
    let Some(subagent) = conversation.subagents.get_mut(index) else {
        return;
    };
    match event {
        SubagentEvent::SubagentStarted { .. } => {}
        SubagentEvent::SubagentModel { event, .. } => {
            append_event(&mut subagent.conversation, &Event::Model(event.clone()));
        }
        SubagentEvent::SubagentTool { event, .. } => {
            append_event(&mut subagent.conversation, &Event::Tool(event.clone()));
        }
        SubagentEvent::SubagentFinished {
            status,
            reason,
            elapsed_ms,
            ..
        } => {
            // A subagent that was cancelled with the run is resumed with it.
            let has_ended = *status != SubagentStatus::Cancelled;
            subagent.ending = has_ended.then(|| SubagentEnding {
                status: *status,
                reason: reason.clone(),
                elapsed: Duration::from_millis(*elapsed_ms),
            });
        }
    }
}

/// Returns the accepted answers, with their snapshots.
pub fn recorded_answers<'e>(
    events: impl IntoIterator<Item = &'e Event>,
) -> VecDeque<RecordedAnswer> {
    let answer = |event: &Event| {
        let Event::Coordination(CoordinationEvent::Answered {
            label, snapshot, ..
        }) = event
        else {
            return None;
        };
        Some(RecordedAnswer {
            label: *label,
            snapshot: snapshot.as_ref().and_then(AbsPath::new),
        })
    };
    events.into_iter().filter_map(answer).collect()
}

/// Returns the recorded usage.
fn recorded_usage<'e>(events: impl IntoIterator<Item = &'e Event>) -> UsageTotals {
    let mut totals = UsageTotals::default();
    for event in events {
        event.add_to_totals(&mut totals);
    }
    totals
}

/// Returns the end events of the requests that were in progress when the turn was interrupted:
/// their cost is unknown, unless the model is free.
fn interrupted_requests<'e>(
    events: impl IntoIterator<Item = &'e Event>,
    models: &ModelsByAgent,
) -> Vec<Event> {
    let mut open_requests: BTreeMap<OpenRequestKey<'_>, (Arc<str>, Phase)> = BTreeMap::new();
    for (conversation, event) in with_conversation_keys(events) {
        let subagent = if let Event::Subagent(event) = event {
            Some(event.key())
        } else {
            None
        };
        if let Some(ModelEvent::ModelRequestStarted { agent, model }) = event.as_model_event() {
            open_requests.insert((agent, subagent), (Arc::clone(model), conversation.phase));
        } else if let Some(ModelEvent::ModelRequestFinished { agent, .. }) = event.as_model_event()
        {
            open_requests.remove(&(agent, subagent));
        }
    }
    let request_end =
        |((agent, subagent), (model, phase)): (OpenRequestKey<'_>, (Arc<str>, Phase))| {
            let agent = agent.clone();
            let mut agent_models = models.get(&agent).into_iter().flatten();
            let request_model = agent_models.find(|agent_model| agent_model.name == model);
            let price = request_model.and_then(|request_model| request_model.price.as_ref());
            let event = ModelEvent::ModelRequestFinished {
                agent: agent.clone(),
                model,
                phase,
                usage: TokenUsage::default(),
                cost_usd: price.filter(|price| price.is_free()).map(|_| Money::ZERO),
                elapsed_ms: 0,
            };
            match subagent {
                None => Event::Model(event),
                Some(key) => Event::Subagent(SubagentEvent::SubagentModel {
                    agent,
                    call_id: key.call_id.to_owned(),
                    subagent: key.subagent.clone(),
                    event,
                }),
            }
        };
    open_requests.into_iter().map(request_end).collect()
}

/// The agent that asked a model, and its subagent if it was one.
type OpenRequestKey<'e> = (&'e AgentId, Option<SubagentKey<'e>>);

/// The conclusion of a turn that was interrupted after everything was delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedConclusion {
    /// The agent that presented.
    pub agent: AgentId,
    /// The final answer.
    pub text: Arc<str>,
    /// The outcomes for files outside the workspaces.
    pub rows: Vec<DeliveryRow>,
    /// The exit status, if the turn was stopped early.
    pub stop_status: Option<ExitStatus>,
}

impl RecordedConclusion {
    /// Reconstructs it from `events`, if they include the delivery.
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Option<Self> {
        let (mut answer, mut delivered, mut stop_status) = (None, None, None);
        for event in events {
            if let Event::Delivery(DeliveryEvent::FinalAnswer { agent, content }) = event {
                answer = Some((agent.clone(), Arc::clone(content)));
            } else if let Event::Delivery(DeliveryEvent::Delivered { rows, .. }) = event {
                delivered = Some(rows.clone());
            } else if let Event::Run(RunEvent::CoordinationStopped { status }) = event {
                stop_status = Some(*status);
            }
        }
        let ((agent, text), rows) = answer.zip(delivered)?;
        Some(Self {
            agent,
            text,
            rows,
            stop_status,
        })
    }
}

/// The events of a resumed turn that are already in the log. A resumed turn emits again what
/// happened outside the requests to models; each such event is in here once.
#[derive(Debug, Default)]
pub struct AlreadyLoggedEvents(Vec<Event>);

impl AlreadyLoggedEvents {
    /// Collects them from `events`; `final_effects` says whether the effects of the final phase's
    /// calls persist.
    pub fn from_events<'e>(
        events: impl IntoIterator<Item = &'e Event> + Clone,
        final_effects: EffectPersistence,
    ) -> Self {
        let ended_calls: BTreeSet<(usize, &AgentId, &str)> = with_conversation_keys(events.clone())
            .filter_map(|(conversation, event)| {
                let Event::Tool(ToolEvent::ToolFinished { agent, call_id, .. }) = event else {
                    return None;
                };
                Some((conversation.number, agent, call_id.as_str()))
            })
            .collect();
        let ended_by_subagents: BTreeSet<(usize, SubagentKey<'_>, &str)> =
            with_conversation_keys(events.clone())
                .filter_map(|(conversation, event)| {
                    let Event::Subagent(event) = event else {
                        return None;
                    };
                    let SubagentEvent::SubagentTool {
                        event: ToolEvent::ToolFinished { call_id, .. },
                        ..
                    } = event
                    else {
                        return None;
                    };
                    Some((conversation.number, event.key(), call_id.as_str()))
                })
                .collect();
        let is_reemitted = |(conversation, event): &(ConversationKey, &Event)| {
            if let Event::Subagent(event) = event {
                // The subagents of a call that has ended are not run again.
                let key = event.key();
                return !ended_calls.contains(&(conversation.number, key.agent, key.call_id))
                    && is_reemitted_by_subagent(event, conversation.phase, |call_id| {
                        ended_by_subagents.contains(&(conversation.number, key, call_id))
                    });
            }
            let is_repeated =
                conversation.phase == Phase::Final && final_effects == EffectPersistence::Gone;
            if let Event::Tool(ToolEvent::ToolCalled {
                agent,
                call_id,
                denied: None,
                ..
            }) = event
            {
                is_repeated
                    || !ended_calls.contains(&(conversation.number, agent, call_id.as_str()))
            } else if let Event::Tool(ToolEvent::ToolCalled { .. }) = event {
                conversation.phase == Phase::Final
            } else if let Event::Tool(ToolEvent::PlanUpdated {
                agent,
                call_id: Some(call_id),
                ..
            }) = event
            {
                is_repeated
                    || !ended_calls.contains(&(conversation.number, agent, call_id.as_str()))
            } else if let Event::Tool(ToolEvent::ToolFinished { .. }) = event {
                is_repeated
            } else {
                is_always_reemitted(event)
            }
        };
        let reemitted = with_conversation_keys(events).filter(is_reemitted);
        Self(reemitted.map(|(_, event)| event.clone()).collect())
    }

    /// Returns whether `event` is already in the log, and removes one match.
    pub fn take_matching(&mut self, event: &Event) -> bool {
        let index = self
            .0
            .iter()
            .position(|recorded| is_same_event(recorded, event));
        index.is_some_and(|index| {
            self.0.remove(index);
            true
        })
    }
}

/// Returns whether a subagent that is run again emits `event` again; `has_ended` says whether a
/// call has ended.
fn is_reemitted_by_subagent(
    event: &SubagentEvent,
    phase: Phase,
    has_ended: impl Fn(&str) -> bool,
) -> bool {
    match event {
        SubagentEvent::SubagentStarted { .. } => true,
        SubagentEvent::SubagentModel { event, .. } => matches!(event, ModelEvent::Failed { .. }),
        SubagentEvent::SubagentTool {
            event: ToolEvent::ToolCalled {
                call_id, denied, ..
            },
            ..
        } => match denied {
            None => !has_ended(call_id),
            Some(_) => phase == Phase::Final,
        },
        // A call that has ended is not repeated.
        SubagentEvent::SubagentTool { .. } | SubagentEvent::SubagentFinished { .. } => false,
    }
}

/// Returns whether a resumed turn emits `event` again in any conversation: model requests, tool
/// calls and checks that have ended are not repeated.
fn is_always_reemitted(event: &Event) -> bool {
    match event {
        // Messages that are recorded are not reported again.
        Event::Run(event) => !matches!(
            event,
            RunEvent::RunEnded { .. } | RunEvent::UserMessage { .. }
        ),
        Event::Model(event) => matches!(event, ModelEvent::Failed { .. }),
        Event::Coordination(_) => true,
        Event::Delivery(event) => !matches!(
            event,
            DeliveryEvent::Checking { .. } | DeliveryEvent::Checked { .. }
        ),
        Event::Tool(_) | Event::Subagent(_) | Event::Pipeline(_) => false,
    }
}

/// Returns whether two events of subagents report the same thing.
fn is_same_subagent_event(recorded: &SubagentEvent, event: &SubagentEvent) -> bool {
    let call = |event: &SubagentEvent| {
        if let SubagentEvent::SubagentTool {
            event: ToolEvent::ToolCalled { call_id, .. },
            ..
        } = event
        {
            Some(call_id.clone())
        } else {
            None
        }
    };
    let is_same_kind = match (recorded, event) {
        (
            SubagentEvent::SubagentModel {
                event: recorded, ..
            },
            SubagentEvent::SubagentModel { event, .. },
        ) => discriminant(recorded) == discriminant(event),
        (
            SubagentEvent::SubagentTool {
                event: recorded, ..
            },
            SubagentEvent::SubagentTool { event, .. },
        ) => discriminant(recorded) == discriminant(event),
        (recorded, event) => discriminant(recorded) == discriminant(event),
    };
    is_same_kind && recorded.key() == event.key() && call(recorded) == call(event)
}

/// Returns whether two events report the same thing. Times and other details of the moment may
/// differ.
fn is_same_event(recorded: &Event, event: &Event) -> bool {
    if let (
        Event::Tool(ToolEvent::ToolCalled { call_id: a, .. }),
        Event::Tool(ToolEvent::ToolCalled { call_id: b, .. }),
    )
    | (
        Event::Tool(ToolEvent::ToolFinished { call_id: a, .. }),
        Event::Tool(ToolEvent::ToolFinished { call_id: b, .. }),
    ) = (recorded, event)
    {
        return a == b && recorded.agent() == event.agent();
    }
    if let (Event::Subagent(recorded), Event::Subagent(event)) = (recorded, event) {
        return is_same_subagent_event(recorded, event);
    }
    let is_compared_in_full = matches!(
        event,
        Event::Run(
            RunEvent::Warning { .. }
                | RunEvent::SandboxSelected { .. }
                | RunEvent::InstructionsRead { .. }
                | RunEvent::SkillsOffered { .. }
                | RunEvent::MemoryRead { .. }
                | RunEvent::MemorySaved { .. }
                | RunEvent::LimitMet { .. }
                | RunEvent::UserMessagesShown { .. }
        ) | Event::Tool(ToolEvent::PlanUpdated { .. })
    );
    if is_compared_in_full {
        recorded == event
    } else {
        recorded.is_same_kind(event) && recorded.agent() == event.agent()
    }
}

/// The conversation that an event belongs to.
#[derive(Clone, Copy, Debug)]
struct ConversationKey {
    phase: Phase,
    number: usize,
}

/// Returns all events, each with the conversation that it belongs to.
fn with_conversation_keys<'e>(
    events: impl IntoIterator<Item = &'e Event>,
) -> impl Iterator<Item = (ConversationKey, &'e Event)> {
    let mut conversation = ConversationKey {
        phase: Phase::Coordination,
        number: 0,
    };
    events.into_iter().map(move |event| {
        let next_phase = if let Event::Run(RunEvent::RunStarted { .. }) = event {
            Some(Phase::Coordination)
        } else if let Event::Delivery(DeliveryEvent::FinalStarted { .. }) = event {
            Some(Phase::Final)
        } else {
            None
        };
        if let Some(phase) = next_phase {
            conversation = ConversationKey {
                phase,
                number: conversation.number.saturating_add(1),
            };
        }
        (conversation, event)
    })
}
