//! Owns what the events of a recorded run say about how to play it again: the course of each
//! coordination, and how many replies each agent got in each conversation. Pure.

use std::collections::{BTreeMap, VecDeque};

use crate::agent::cues::{Cues, Look};
use crate::event::{Event, StopReason};
use crate::id::{AgentId, AgentNumber};
use crate::orchestrator::course::{Course, Ending};

/// How to play a run again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The course of each attempt's coordination.
    pub courses: VecDeque<Course>,
    /// The conversations of each agent, in order.
    pub talks: BTreeMap<AgentId, Vec<Talk>>,
    /// Whether the record goes to the end of its run.
    pub is_complete: bool,
}

/// One conversation of an agent with its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Talk {
    /// How many recorded replies belong to it; a request that failed for good counts too.
    pub replies: usize,
    /// What became of a request after them.
    pub then: Then,
}

/// What becomes of a request for which there is no recorded reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The record has none: the request fails.
    Fails,
    /// It was never answered: something else ended the conversation.
    Waits,
    /// It was never answered, and the run ended there.
    Ends,
}

/// Where in a run an event happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    Coordination,
    Final,
}

/// What the last event was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    /// A request failed for good.
    Failure,
    #[default]
    Another,
}

/// A plan that is being made.
#[derive(Default)]
struct Planning {
    plan: Plan,
    place: Place,
    numbers: BTreeMap<AgentId, AgentNumber>,
    /// Steps of each agent in the present coordination.
    steps: BTreeMap<AgentId, u32>,
    presents: Option<AgentId>,
    last: Last,
    /// Conversations in which nothing has happened yet; one that stays so was never begun.
    untouched: BTreeMap<AgentId, Talk>,
}

impl Plan {
    /// Reads `events` in their order.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut planning = Planning::default();
        for event in events {
            planning.take(event);
            planning.last = if let Event::Failed { .. } = event {
                Last::Failure
            } else {
                Last::Another
            };
        }
        if !planning.plan.is_complete {
            planning.cut();
        }
        planning.plan
    }
}

impl Planning {
    fn take(&mut self, event: &Event) {
        self.take_talk(event);
        if let Event::RunStarted { agents, .. } = event {
            self.begin(agents);
        } else if let Event::Informed { agent, labels } = event {
            let look = Look {
                after_steps: self.steps_of(agent),
                labels: labels.clone(),
            };
            self.cue(agent, |cues| cues.looks.push_back(look));
        } else if let Event::Answered { agent, .. }
        | Event::Voted { agent, .. }
        | Event::Refused { agent, .. } = event
        {
            self.turn(agent);
        } else if let Event::DroppedOut {
            agent, timed_out, ..
        } = event
        {
            if *timed_out {
                let after = self.steps_of(agent);
                self.cue(agent, |cues| cues.out_of_time_after = Some(after));
            }
            self.turn(agent);
        } else if let Event::WinnerSelected { .. } = event {
            self.close();
        } else if let Event::FinalStarted { agent } = event {
            self.place = Place::Final;
            self.presents = Some(agent.clone());
            self.open(agent);
        } else if let Event::CutShort { .. } = event {
            self.cut();
        } else if let Event::RunEnded { .. } = event {
            self.close();
            self.plan.is_complete = true;
        }
    }

    /// Counts what belongs to a conversation.
    fn take_talk(&mut self, event: &Event) {
        let (replies, agent) =
            if let Event::Replied { agent, .. } | Event::Failed { agent, .. } = event {
                (1, agent)
            } else if let Event::Asking { agent, .. } | Event::Held { agent, .. } = event {
                (0, agent)
            } else {
                return;
            };
        let talks = self.plan.talks.entry(agent.clone()).or_default();
        talks.extend(self.untouched.remove(agent));
        if let Some(talk) = talks.last_mut() {
            talk.replies = talk.replies.saturating_add(replies);
        }
        if let Event::Replied { calls, stop, .. } = event {
            let is_whole = *stop != StopReason::Paused || !calls.is_empty();
            let steps = self.steps.entry(agent.clone()).or_default();
            *steps = steps.saturating_add(u32::from(is_whole));
        }
    }

    fn begin(&mut self, agents: &[AgentId]) {
        let mut sorted = agents.to_vec();
        sorted.sort();
        let numbered = sorted.into_iter().enumerate();
        self.numbers = numbered
            .map(|(index, agent)| (agent, AgentNumber::from_index(index)))
            .collect();
        self.steps.clear();
        self.presents = None;
        self.place = Place::Coordination;
        for agent in agents {
            self.open(agent);
        }
        self.plan.courses.push_back(Course {
            ending: Ending::Cut,
            ..Course::default()
        });
    }

    fn open(&mut self, agent: &AgentId) {
        let talk = Talk {
            replies: 0,
            then: Then::Fails,
        };
        self.untouched.insert(agent.clone(), talk);
    }

    /// The coordination ends by itself, unless it was cut short before.
    fn close(&mut self) {
        if self.place == Place::Coordination
            && let Some(course) = self.plan.courses.back_mut()
        {
            course.ending = Ending::Closed;
        }
        self.place = Place::Outside;
    }

    /// What has not ended by now has no end of its own.
    fn cut(&mut self) {
        match self.place {
            Place::Outside => {}
            Place::Coordination => {
                let talks = self.plan.talks.values_mut();
                let waits = talks.filter_map(|talks| talks.last_mut());
                waits.for_each(|talk| talk.then = Then::Waits);
            }
            Place::Final => {
                let presents = self.presents.take();
                let talks = presents.and_then(|agent| self.plan.talks.get_mut(&agent));
                if let Some(talk) = talks.and_then(|talks| talks.last_mut()) {
                    // A limit refused the request: it was never made.
                    let refused = usize::from(self.last == Last::Failure);
                    talk.replies = talk.replies.saturating_sub(refused);
                    talk.then = Then::Ends;
                }
            }
        }
        self.place = Place::Outside;
    }

    fn turn(&mut self, agent: &AgentId) {
        let number = self.numbers.get(agent).copied();
        if let (Some(course), Some(number)) = (self.plan.courses.back_mut(), number) {
            course.turns.push_back(number);
        }
    }

    fn cue(&mut self, agent: &AgentId, add: impl FnOnce(&mut Cues)) {
        let number = self.numbers.get(agent).copied();
        if let (Some(course), Some(number)) = (self.plan.courses.back_mut(), number) {
            add(course.cues.entry(number).or_default());
        }
    }

    fn steps_of(&self, agent: &AgentId) -> u32 {
        self.steps.get(agent).copied().unwrap_or_default()
    }
}
