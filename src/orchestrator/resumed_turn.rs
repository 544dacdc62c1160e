//! Owns what a turn is given that was broken off and is gone on with: what its log tells, as values
//! in the place of an empty beginning. Pure. It asks nobody and repeats nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::agent::recorded_conversation::{
    EffectPersistence, RecordedCall, RecordedConversation, RecordedReply, ToolResultContent,
};
use crate::config::Config;
use crate::error::{ExitStatus, Result};
use crate::event::{
    CoordinationEvent, DeliveryEvent, DeliveryRow, Event, ModelEvent, RunEvent, ToolEvent,
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
use crate::world::clock::LocalDateTime;
use crate::world::store::event_log::EventLog;
use crate::world::store::sessions::session::Session;

/// A turn that was broken off.
#[derive(Debug)]
pub struct ResumedTurn {
    /// Its event log, which ends with the last of `told`.
    pub log: EventLog,
    /// The directory of its records.
    pub log_dir: AbsPath,
    /// What it has told, in order. Replies have their text.
    pub events: Vec<(Event, LocalDateTime)>,
}

impl ResumedTurn {
    /// What it has told.
    pub fn events(&self) -> impl Iterator<Item = &Event> + Clone {
        self.events.iter().map(|(event, _)| event)
    }
}

/// What a run begins with; nothing, unless it goes on with a turn that was broken off.
#[derive(Debug, Default)]
pub(super) struct InitialTurnState {
    /// What was told before.
    pub(super) events: Vec<Event>,
    /// What of it is told again.
    pub(super) already_logged: AlreadyLoggedEvents,
    /// When the last of it was told, in nanoseconds since 1970.
    pub(super) until_ns: Option<i128>,
    /// The ends of requests that were under way, and what is to be said first.
    pub(super) interrupted_requests: Vec<Event>,
    /// What was used.
    pub(super) usage: UsageTotals,
    /// What is recorded of all conversations.
    pub(super) recorded_conversations: RecordedConversations,
    /// What it came to, where only its end was missing.
    pub(super) recorded_conclusion: Option<RecordedConclusion>,
    /// Whether its final phase had begun to write to the user's paths, and begins again.
    restarts_final_phase: bool,
}

impl InitialTurnState {
    /// What `team` goes on with, if it does.
    pub(super) fn from_resumed(
        resumed: Option<&ResumedTurn>,
        team: &AgentTeam,
        models: &ModelsByAgent,
    ) -> Self {
        let Some(resumed) = resumed else {
            return Self::default();
        };
        let concluded = RecordedConclusion::from_events(resumed.events());
        let presents = resumed.events().filter_map(|event| {
            let Event::Delivery(DeliveryEvent::FinalStarted { agent }) = event else {
                return None;
            };
            Some(agent)
        });
        let presents = presents.last();
        let mut members = team.members.iter();
        let member = members.find(|member| Some(&member.id) == presents);
        let effects = member.map_or(EffectPersistence::Present, |member| {
            final_effect_persistence(&member.grants)
        });
        let given_up = interrupted_requests(resumed.events(), models);
        Self {
            events: resumed.events().cloned().collect(),
            until_ns: (resumed.events.last()).map(|(_, at)| i128::from(at.unix_nanoseconds())),
            already_logged: AlreadyLoggedEvents::from_events(resumed.events(), effects),
            usage: recorded_usage(resumed.events().chain(&given_up)),
            recorded_conversations: RecordedConversations::from_events(resumed.events()),
            restarts_final_phase: effects == EffectPersistence::Gone && concluded.is_none(),
            interrupted_requests: given_up,
            recorded_conclusion: concluded,
        }
    }

    /// Where commands write to the user's paths themselves, a final phase that begins again would take
    /// for the user's what it wrote itself: the time from which on that counts is forgotten, and told.
    /// Elsewhere all was written to a stage, and what the user has changed since stays the user's.
    pub(super) fn forget_conflicts(&mut self, session: &Session, config: &Config) {
        if !self.restarts_final_phase || !config.writes_in_place() {
            return;
        }
        session.forget_conflicts();
        let message = "nothing held the commands of this run: what you have changed since it was broken \
                       off is not told from what it wrote itself";
        self.interrupted_requests
            .push(Event::Run(RunEvent::Warning {
                message: message.to_owned(),
            }));
    }

    /// Throws away the stages of a final phase that begins again.
    pub(super) fn discard_overlays(&self, team: &AgentTeam) -> Result<()> {
        if self.restarts_final_phase {
            team.clear_overlays(PendingDelivery::Nothing)?;
        }
        Ok(())
    }
}

/// What is recorded of all conversations of a turn.
#[derive(Debug, Default)]
pub struct RecordedConversations(Mutex<BTreeMap<AgentId, VecDeque<(Phase, RecordedConversation)>>>);

impl RecordedConversations {
    /// What `events` tell of them.
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut by_agent: BTreeMap<AgentId, VecDeque<(Phase, RecordedConversation)>> =
            BTreeMap::new();
        for event in events {
            if let Event::Run(RunEvent::RunStarted { agents, .. }) = event {
                for agent in agents {
                    let talks = by_agent.entry(agent.clone()).or_default();
                    talks.push_back((Phase::Coordination, RecordedConversation::default()));
                }
            } else if let Event::Delivery(DeliveryEvent::FinalStarted { agent }) = event {
                let talks = by_agent.entry(agent.clone()).or_default();
                talks.push_back((Phase::Final, RecordedConversation::default()));
            } else if let Some(agent) = event.agent()
                && let Some((_, memory)) = by_agent.get_mut(agent).and_then(VecDeque::back_mut)
            {
                append_event(memory, event);
            }
        }
        Self(Mutex::new(by_agent))
    }

    /// What is recorded of the next conversation of `agent` in `phase`; `None` if it was never begun.
    pub fn take(&self, agent: &AgentId, phase: Phase) -> Option<RecordedConversation> {
        let mut by_agent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let talks = by_agent.get_mut(agent)?;
        while let Some((of, memory)) = talks.pop_front() {
            if of == phase {
                return Some(memory);
            }
        }
        None
    }
}

/// Adds to `memory` what `event` tells of its conversation.
fn append_event(memory: &mut RecordedConversation, event: &Event) {
    if let Event::Model(ModelEvent::Replied {
        text,
        calls,
        stop,
        echo,
        ..
    }) = event
    {
        memory.replies.push_back(RecordedReply::Whole {
            text: text.to_string(),
            calls: calls.clone(),
            stop: *stop,
            echo: echo.clone(),
        });
    } else if let Event::Model(ModelEvent::Failed { reason, .. }) = event {
        let failed = RecordedReply::Failed(reason.clone());
        memory.replies.push_back(failed);
    } else if let Event::Model(ModelEvent::ModelFallback { .. }) = event {
        memory.models_left = memory.models_left.saturating_add(1);
    } else if let Event::Tool(ToolEvent::ToolCalled {
        call_id, denied, ..
    }) = event
    {
        let record = match denied {
            Some(reason) => RecordedCall::TurnedAway(ToolResultContent::from_rejection(reason)),
            None => RecordedCall::Begun,
        };
        memory.calls.insert(call_id.clone(), record);
    } else if let Event::Tool(ToolEvent::ToolFinished {
        call_id,
        summary,
        content,
        images,
        ..
    }) = event
    {
        let content = content.as_deref().unwrap_or(summary);
        let reading = ToolResultContent {
            content: content.to_owned(),
            images: images.clone(),
        };
        let ended = RecordedCall::Ended(reading);
        memory.calls.insert(call_id.clone(), ended);
    }
}

/// The answers that were accepted, with their snapshots.
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

/// What was used.
fn recorded_usage<'e>(events: impl IntoIterator<Item = &'e Event>) -> UsageTotals {
    let mut books = UsageTotals::default();
    for event in events {
        event.add_to_totals(&mut books);
    }
    books
}

/// The ends of the requests that were under way when the turn was broken off: nobody knows what they
/// cost, unless it is nothing.
fn interrupted_requests<'e>(
    events: impl IntoIterator<Item = &'e Event>,
    models: &ModelsByAgent,
) -> Vec<Event> {
    let mut open: BTreeMap<AgentId, (Arc<str>, Phase)> = BTreeMap::new();
    for (talk, event) in with_conversation_keys(events) {
        if let Event::Model(ModelEvent::ModelRequestStarted { agent, model }) = event {
            open.insert(agent.clone(), (Arc::clone(model), talk.phase));
        } else if let Event::Model(ModelEvent::ModelRequestFinished { agent, .. }) = event {
            open.remove(agent);
        }
    }
    let asked = |(agent, (model, phase)): (AgentId, (Arc<str>, Phase))| {
        let mut known = models.get(&agent).into_iter().flatten();
        let known = known.find(|known| known.name == model);
        let price = known.and_then(|known| known.price.as_ref());
        Event::Model(ModelEvent::ModelRequestFinished {
            agent,
            model,
            phase,
            usage: TokenUsage::default(),
            cost_usd: price.filter(|price| price.is_free()).map(|_| Money::ZERO),
            elapsed_ms: 0,
        })
    };
    open.into_iter().map(asked).collect()
}

/// What a turn came to that was broken off after all was delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedConclusion {
    /// Who presented.
    pub agent: AgentId,
    /// The final answer.
    pub text: Arc<str>,
    /// What became of files outside the workspaces.
    pub rows: Vec<DeliveryRow>,
    /// How the process will end, if the turn was cut short.
    pub cut_short: Option<ExitStatus>,
}

impl RecordedConclusion {
    /// What `events` tell of it, if they tell of the delivery.
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Option<Self> {
        let (mut answer, mut delivered, mut cut_short) = (None, None, None);
        for event in events {
            if let Event::Delivery(DeliveryEvent::FinalAnswer { agent, content }) = event {
                answer = Some((agent.clone(), Arc::clone(content)));
            } else if let Event::Delivery(DeliveryEvent::Delivered { rows }) = event {
                delivered = Some(rows.clone());
            } else if let Event::Run(RunEvent::CoordinationStopped { status }) = event {
                cut_short = Some(*status);
            }
        }
        let ((agent, text), rows) = answer.zip(delivered)?;
        Some(Self {
            agent,
            text,
            rows,
            cut_short,
        })
    }
}

/// What stands in the log already of what a turn tells that is gone on with. It tells again what
/// happened beside the requests to models; each of that is told once here.
#[derive(Debug, Default)]
pub struct AlreadyLoggedEvents(Vec<Event>);

impl AlreadyLoggedEvents {
    /// What `events` tell; `of_final` says what is left of the calls of the final phase.
    pub fn from_events<'e>(
        events: impl IntoIterator<Item = &'e Event> + Clone,
        of_final: EffectPersistence,
    ) -> Self {
        let ended: BTreeSet<(usize, &AgentId, &str)> = with_conversation_keys(events.clone())
            .filter_map(|(talk, event)| {
                let Event::Tool(ToolEvent::ToolFinished { agent, call_id, .. }) = event else {
                    return None;
                };
                Some((talk.number, agent, call_id.as_str()))
            })
            .collect();
        let is_told_again = |(talk, event): &(ConversationKey, &Event)| {
            let is_repeated = talk.phase == Phase::Final && of_final == EffectPersistence::Gone;
            if let Event::Tool(ToolEvent::ToolCalled {
                agent,
                call_id,
                denied: None,
                ..
            }) = event
            {
                is_repeated || !ended.contains(&(talk.number, agent, call_id.as_str()))
            } else if let Event::Tool(ToolEvent::ToolCalled { .. }) = event {
                talk.phase == Phase::Final
            } else if let Event::Tool(ToolEvent::ToolFinished { .. }) = event {
                is_repeated
            } else {
                is_always_told_again(event)
            }
        };
        let again = with_conversation_keys(events).filter(is_told_again);
        Self(again.map(|(_, event)| event.clone()).collect())
    }

    /// Whether `event` stands in the log already; it does so once.
    pub fn take_matching(&mut self, event: &Event) -> bool {
        let place = self.0.iter().position(|known| is_same_event(known, event));
        place.is_some_and(|place| {
            self.0.remove(place);
            true
        })
    }
}

/// Whether a turn that is gone on with tells `event` again, whatever conversation it falls into: what
/// belongs to requests to models, to calls and to checks was done and is not repeated.
fn is_always_told_again(event: &Event) -> bool {
    match event {
        Event::Run(event) => !matches!(event, RunEvent::RunEnded { .. }),
        Event::Model(event) => matches!(event, ModelEvent::Failed { .. }),
        Event::Coordination(_) => true,
        Event::Delivery(event) => !matches!(
            event,
            DeliveryEvent::Checking { .. } | DeliveryEvent::Checked { .. }
        ),
        Event::Tool(_) | Event::Pipeline(_) => false,
    }
}

/// Whether two events tell the same thing. Times, and what hangs on the moment, may differ.
fn is_same_event(known: &Event, event: &Event) -> bool {
    if let (
        Event::Tool(ToolEvent::ToolCalled { call_id: a, .. }),
        Event::Tool(ToolEvent::ToolCalled { call_id: b, .. }),
    )
    | (
        Event::Tool(ToolEvent::ToolFinished { call_id: a, .. }),
        Event::Tool(ToolEvent::ToolFinished { call_id: b, .. }),
    ) = (known, event)
    {
        return a == b && known.agent() == event.agent();
    }
    let is_said = matches!(
        event,
        Event::Run(
            RunEvent::Warning { .. } | RunEvent::SandboxSelected { .. } | RunEvent::LimitMet { .. }
        )
    );
    if is_said {
        known == event
    } else {
        known.is_same_kind(event) && known.agent() == event.agent()
    }
}

/// Which conversations an event falls into.
#[derive(Clone, Copy, Debug)]
struct ConversationKey {
    phase: Phase,
    number: usize,
}

/// All events with the conversations that they fall into.
fn with_conversation_keys<'e>(
    events: impl IntoIterator<Item = &'e Event>,
) -> impl Iterator<Item = (ConversationKey, &'e Event)> {
    let mut talk = ConversationKey {
        phase: Phase::Coordination,
        number: 0,
    };
    events.into_iter().map(move |event| {
        let begun = if let Event::Run(RunEvent::RunStarted { .. }) = event {
            Some(Phase::Coordination)
        } else if let Event::Delivery(DeliveryEvent::FinalStarted { .. }) = event {
            Some(Phase::Final)
        } else {
            None
        };
        if let Some(phase) = begun {
            talk = ConversationKey {
                phase,
                number: talk.number.saturating_add(1),
            };
        }
        (talk, event)
    })
}
