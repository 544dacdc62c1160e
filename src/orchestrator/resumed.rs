//! Owns what a turn is given that was broken off and is gone on with: what its log tells, as values
//! in the place of an empty beginning. Pure. It asks nobody and repeats nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::discriminant;
use std::sync::{Arc, Mutex, PoisonError};

use crate::agent::memory::{CallRecord, Effects, Memory, Reading, Remembered};
use crate::config::Config;
use crate::error::{ExitStatus, Result};
use crate::event::{DeliveryRow, Event};
use crate::id::AgentId;
use crate::orchestrator::snapshots::RecordedAnswer;
use crate::orchestrator::team::Team;
use crate::orchestrator::wings::Rest;
use crate::orchestrator::{Models, final_effects};
use crate::path::AbsPath;
use crate::permissions::grant::Phase;
use crate::spending::Usage;
use crate::spending::books::Books;
use crate::spending::money::Money;
use crate::world::clock::Moment;
use crate::world::store::event_log::EventLog;
use crate::world::store::sessions::session::Session;

/// A turn that was broken off.
#[derive(Debug)]
pub struct Resumed {
    /// Its event log, which ends with the last of `told`.
    pub log: EventLog,
    /// The directory of its records.
    pub log_dir: AbsPath,
    /// What it has told, in order. Replies have their text.
    pub told: Vec<(Event, Moment)>,
}

impl Resumed {
    /// What it has told.
    pub fn events(&self) -> impl Iterator<Item = &Event> + Clone {
        self.told.iter().map(|(event, _)| event)
    }
}

/// What a run begins with; nothing, unless it goes on with a turn that was broken off.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    /// What was told before.
    pub(super) told: Vec<Event>,
    /// What of it is told again.
    pub(super) known: Known,
    /// When the last of it was told, in nanoseconds since 1970.
    pub(super) until_ns: Option<i128>,
    /// The ends of requests that were under way, and what is to be said first.
    pub(super) given_up: Vec<Event>,
    /// What was used.
    pub(super) books: Books,
    /// What is recorded of all conversations.
    pub(super) memories: Memories,
    /// What it came to, where only its end was missing.
    pub(super) concluded: Option<Concluded>,
    /// Whether its final phase had begun to write to the user's paths, and begins again.
    delivers_again: bool,
}

impl Beginning {
    /// What `team` goes on with, if it does.
    pub(super) fn of(resumed: Option<&Resumed>, team: &Team, models: &Models) -> Self {
        let Some(resumed) = resumed else {
            return Self::default();
        };
        let concluded = Concluded::of(resumed.events());
        let presents = resumed.events().filter_map(|event| {
            let Event::FinalStarted { agent } = event else {
                return None;
            };
            Some(agent)
        });
        let presents = presents.last();
        let mut members = team.members.iter();
        let member = members.find(|member| Some(&member.id) == presents);
        let effects = member.map_or(Effects::There, |member| final_effects(&member.grants));
        let given_up = given_up(resumed.events(), models);
        Self {
            told: resumed.events().cloned().collect(),
            until_ns: (resumed.told.last()).map(|(_, at)| i128::from(at.unix_nanoseconds())),
            known: Known::of(resumed.events(), effects),
            books: books(resumed.events().chain(&given_up)),
            memories: Memories::of(resumed.events()),
            delivers_again: effects == Effects::Gone && concluded.is_none(),
            given_up,
            concluded,
        }
    }

    /// Where commands write to the user's paths themselves, a final phase that begins again would take
    /// for the user's what it wrote itself: the time from which on that counts is forgotten, and told.
    /// Elsewhere all was written to a stage, and what the user has changed since stays the user's.
    pub(super) fn forget_conflicts(&mut self, session: &Session, config: &Config) {
        if !self.delivers_again || !config.writes_in_place() {
            return;
        }
        session.forget_conflicts();
        let message = "nothing held the commands of this run: what you have changed since it was broken \
                       off is not told from what it wrote itself";
        self.given_up.push(Event::Warning {
            message: message.to_owned(),
        });
    }

    /// Throws away the stages of a final phase that begins again.
    pub(super) fn throw_away_stages(&self, team: &Team) -> Result<()> {
        if self.delivers_again {
            team.clear_stages(Rest::None)?;
        }
        Ok(())
    }
}

/// What is recorded of all conversations of a turn.
#[derive(Debug, Default)]
pub struct Memories(Mutex<BTreeMap<AgentId, VecDeque<(Phase, Memory)>>>);

impl Memories {
    /// What `events` tell of them.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut by_agent: BTreeMap<AgentId, VecDeque<(Phase, Memory)>> = BTreeMap::new();
        for event in events {
            if let Event::RunStarted { agents, .. } = event {
                for agent in agents {
                    let talks = by_agent.entry(agent.clone()).or_default();
                    talks.push_back((Phase::Coordination, Memory::default()));
                }
            } else if let Event::FinalStarted { agent } = event {
                let talks = by_agent.entry(agent.clone()).or_default();
                talks.push_back((Phase::Final, Memory::default()));
            } else if let Some(agent) = event.agent()
                && let Some((_, memory)) = by_agent.get_mut(agent).and_then(VecDeque::back_mut)
            {
                remember(memory, event);
            }
        }
        Self(Mutex::new(by_agent))
    }

    /// What is recorded of the next conversation of `agent` in `phase`; `None` if it was never begun.
    pub fn take(&self, agent: &AgentId, phase: Phase) -> Option<Memory> {
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
fn remember(memory: &mut Memory, event: &Event) {
    if let Event::Replied {
        text,
        calls,
        stop,
        echo,
        ..
    } = event
    {
        memory.replies.push_back(Remembered::Said {
            text: text.to_string(),
            calls: calls.clone(),
            stop: *stop,
            echo: echo.clone(),
        });
    } else if let Event::Failed { reason, .. } = event {
        let failed = Remembered::Failed(reason.clone());
        memory.replies.push_back(failed);
    } else if let Event::FellBack { .. } = event {
        memory.models_left = memory.models_left.saturating_add(1);
    } else if let Event::ToolCalled {
        call_id, denied, ..
    } = event
    {
        let record = match denied {
            Some(reason) => CallRecord::TurnedAway(Reading::turned_away(reason)),
            None => CallRecord::Begun,
        };
        memory.calls.insert(call_id.clone(), record);
    } else if let Event::ToolFinished {
        call_id,
        summary,
        content,
        images,
        ..
    } = event
    {
        let content = content.as_deref().unwrap_or(summary);
        let reading = Reading {
            content: content.to_owned(),
            images: images.clone(),
        };
        let ended = CallRecord::Ended(reading);
        memory.calls.insert(call_id.clone(), ended);
    }
}

/// The answers that were accepted, with their snapshots.
pub fn answers<'e>(events: impl IntoIterator<Item = &'e Event>) -> VecDeque<RecordedAnswer> {
    let answer = |event: &Event| {
        let Event::Answered {
            label, snapshot, ..
        } = event
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
fn books<'e>(events: impl IntoIterator<Item = &'e Event>) -> Books {
    let mut books = Books::default();
    for event in events {
        event.enter_into(&mut books);
    }
    books
}

/// The ends of the requests that were under way when the turn was broken off: nobody knows what they
/// cost, unless it is nothing.
fn given_up<'e>(events: impl IntoIterator<Item = &'e Event>, models: &Models) -> Vec<Event> {
    let mut open: BTreeMap<AgentId, (Arc<str>, Phase)> = BTreeMap::new();
    for (talk, event) in talks(events) {
        if let Event::Asking { agent, model } = event {
            open.insert(agent.clone(), (Arc::clone(model), talk.phase));
        } else if let Event::Asked { agent, .. } = event {
            open.remove(agent);
        }
    }
    let asked = |(agent, (model, phase)): (AgentId, (Arc<str>, Phase))| {
        let mut known = models.get(&agent).into_iter().flatten();
        let known = known.find(|known| known.name == model);
        let price = known.and_then(|known| known.price.as_ref());
        Event::Asked {
            agent,
            model,
            phase,
            usage: Usage::default(),
            cost_usd: price.filter(|price| price.is_free()).map(|_| Money::ZERO),
            elapsed_ms: 0,
        }
    };
    open.into_iter().map(asked).collect()
}

/// What a turn came to that was broken off after all was delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Concluded {
    /// Who presented.
    pub agent: AgentId,
    /// The final answer.
    pub text: Arc<str>,
    /// What became of files outside the workspaces.
    pub rows: Vec<DeliveryRow>,
    /// How the process will end, if the turn was cut short.
    pub cut_short: Option<ExitStatus>,
}

impl Concluded {
    /// What `events` tell of it, if they tell of the delivery.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Option<Self> {
        let (mut answer, mut delivered, mut cut_short) = (None, None, None);
        for event in events {
            if let Event::FinalAnswer { agent, content } = event {
                answer = Some((agent.clone(), Arc::clone(content)));
            } else if let Event::Delivered { rows } = event {
                delivered = Some(rows.clone());
            } else if let Event::CutShort { status } = event {
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
pub struct Known(Vec<Event>);

impl Known {
    /// What `events` tell; `of_final` says what is left of the calls of the final phase.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event> + Clone, of_final: Effects) -> Self {
        let ended: BTreeSet<(usize, &AgentId, &str)> = talks(events.clone())
            .filter_map(|(talk, event)| {
                let Event::ToolFinished { agent, call_id, .. } = event else {
                    return None;
                };
                Some((talk.number, agent, call_id.as_str()))
            })
            .collect();
        let is_told_again = |(talk, event): &(Talk, &Event)| {
            let is_repeated = talk.phase == Phase::Final && of_final == Effects::Gone;
            match event {
                Event::ToolCalled {
                    agent,
                    call_id,
                    denied: None,
                    ..
                } => is_repeated || !ended.contains(&(talk.number, agent, call_id.as_str())),
                Event::ToolCalled { .. } => talk.phase == Phase::Final,
                Event::ToolFinished { .. } => is_repeated,
                Event::Asking { .. }
                | Event::Text { .. }
                | Event::Reasoning { .. }
                | Event::Asked { .. }
                | Event::Replied { .. }
                | Event::Retrying { .. }
                | Event::Held { .. }
                | Event::FellBack { .. }
                | Event::Shortened { .. }
                | Event::OwnTool { .. }
                | Event::PersonAsked { .. }
                | Event::HookRan { .. }
                | Event::Pipeline { .. }
                | Event::ServerWorks { .. }
                | Event::Checking { .. }
                | Event::Checked { .. }
                | Event::RunEnded { .. } => false,
                Event::RunStarted { .. }
                | Event::Failed { .. }
                | Event::LimitMet { .. }
                | Event::Answered { .. }
                | Event::Voted { .. }
                | Event::VotesVoided { .. }
                | Event::Refused { .. }
                | Event::Informed { .. }
                | Event::DroppedOut { .. }
                | Event::WinnerSelected { .. }
                | Event::FinalStarted { .. }
                | Event::FinalAnswer { .. }
                | Event::Delivered { .. }
                | Event::Restarting { .. }
                | Event::Confined { .. }
                | Event::CutShort { .. }
                | Event::Warning { .. } => true,
            }
        };
        let again = talks(events).filter(is_told_again);
        Self(again.map(|(_, event)| event.clone()).collect())
    }

    /// Whether `event` stands in the log already; it does so once.
    pub fn has(&mut self, event: &Event) -> bool {
        let place = self.0.iter().position(|known| is_same(known, event));
        place.is_some_and(|place| {
            self.0.remove(place);
            true
        })
    }
}

/// Whether two events tell the same thing. Times, and what hangs on the moment, may differ.
fn is_same(known: &Event, event: &Event) -> bool {
    if let (Event::ToolCalled { call_id: a, .. }, Event::ToolCalled { call_id: b, .. })
    | (Event::ToolFinished { call_id: a, .. }, Event::ToolFinished { call_id: b, .. }) =
        (known, event)
    {
        return a == b && known.agent() == event.agent();
    }
    let is_said = matches!(
        event,
        Event::Warning { .. } | Event::Confined { .. } | Event::LimitMet { .. }
    );
    if is_said {
        known == event
    } else {
        discriminant(known) == discriminant(event) && known.agent() == event.agent()
    }
}

/// Which conversations an event falls into.
#[derive(Clone, Copy, Debug)]
struct Talk {
    phase: Phase,
    number: usize,
}

/// All events with the conversations that they fall into.
fn talks<'e>(
    events: impl IntoIterator<Item = &'e Event>,
) -> impl Iterator<Item = (Talk, &'e Event)> {
    let mut talk = Talk {
        phase: Phase::Coordination,
        number: 0,
    };
    events.into_iter().map(move |event| {
        let begun = if let Event::RunStarted { .. } = event {
            Some(Phase::Coordination)
        } else if let Event::FinalStarted { .. } = event {
            Some(Phase::Final)
        } else {
            None
        };
        if let Some(phase) = begun {
            talk = Talk {
                phase,
                number: talk.number.saturating_add(1),
            };
        }
        (talk, event)
    })
}
