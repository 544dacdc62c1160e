//! The answers, the votes and the winner of a coordination, with what decided between them.

use std::sync::Arc;

use serde::Serialize;

use crate::ballot::WinnerReason;
use crate::check_results::{CheckResults, CheckStanding};
use crate::event::{CoordinationEvent, Event};
use crate::id::{AgentId, AnswerLabel};
use crate::run_view::EventPosition;
use crate::tools::task_plan::TaskPlan;

/// Maximum number of answers, and of votes, that are kept; the oldest go first.
pub const SUBMISSIONS_MAX: usize = 512;

/// The ballot.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BallotView {
    /// The agents, in the order of the config, which breaks ties.
    #[serde(skip)]
    agent_order: Vec<AgentId>,
    /// The answers, oldest first.
    pub answers: Vec<BallotAnswer>,
    /// The votes, also those that became void, oldest first.
    pub votes: Vec<BallotVote>,
    /// The winner; `None` before the ballot is closed.
    pub winner: Option<BallotWinner>,
}

/// An answer.
#[derive(Clone, Debug, Serialize)]
pub struct BallotAnswer {
    /// Its label.
    pub label: AnswerLabel,
    /// The agent that gave it.
    pub agent: AgentId,
    /// The whole text.
    pub content: Arc<str>,
    /// Whether the agent's workspace had files, which were saved with it.
    pub has_files: bool,
    /// The directory in which they were saved.
    #[serde(skip)]
    pub snapshot: Option<String>,
    /// When it was given, in milliseconds after the start of the run.
    pub at_ms: u64,
    /// The results of the config's checks.
    pub checks: Option<CheckResults>,
    /// The agent's plan when it gave the answer.
    pub plan: Option<TaskPlan>,
    /// The other agents that have been shown it.
    pub seen_by: Vec<AgentId>,
    /// Whether a later answer of the same agent replaced it.
    pub is_replaced: bool,
}

/// A vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BallotVote {
    /// The agent that voted.
    pub voter: AgentId,
    /// The agent that the vote is for.
    pub candidate: AgentId,
    /// The answer that the vote is for.
    pub label: AnswerLabel,
    /// The reason that the voter gave.
    pub reason: String,
    /// Whether a new answer or a message of the user made it void.
    pub is_void: bool,
    /// The number of the user's message that made it void; `None` if it is not void, or because of
    /// an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voiding_message: Option<u32>,
}

/// The winner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BallotWinner {
    /// The agent that won.
    pub agent: AgentId,
    /// The answer with which it won.
    pub label: AnswerLabel,
    /// The number of votes for each agent that has an answer, in the order of the config.
    pub votes: Vec<VotesForAgent>,
    /// What decided between its answer and the others.
    pub reason: WinnerReason,
}

/// The number of votes for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VotesForAgent {
    /// The agent.
    pub agent: AgentId,
    /// The votes for it.
    pub count: u32,
}

impl BallotAnswer {
    /// Returns whether a required check failed.
    pub fn fails_checks(&self) -> bool {
        let standing = self.checks.as_ref().map(CheckResults::standing);
        standing == Some(CheckStanding::Fails)
    }
}

impl BallotView {
    /// Creates a ballot without answers; `agents` are in the order of the config.
    pub(super) fn new(agents: &[AgentId]) -> Self {
        Self {
            agent_order: agents.to_vec(),
            ..Self::default()
        }
    }

    /// Returns the answer with this label.
    pub fn answer(&self, label: AnswerLabel) -> Option<&BallotAnswer> {
        self.answers.iter().find(|answer| answer.label == label)
    }

    /// Returns the answers that no later one of the same agent replaced, oldest first.
    pub fn current_answers(&self) -> impl Iterator<Item = &BallotAnswer> {
        self.answers.iter().filter(|answer| !answer.is_replaced)
    }

    /// Returns the votes that count.
    pub fn current_votes(&self) -> impl Iterator<Item = &BallotVote> {
        self.votes.iter().filter(|vote| !vote.is_void)
    }

    /// Returns the agents whose current answer fails a required check, in the order of the config.
    pub fn failing_agents(&self) -> Vec<&AgentId> {
        let fails = |agent: &&AgentId| {
            let mut current_answers = self.current_answers();
            current_answers.any(|answer| answer.agent == **agent && answer.fails_checks())
        };
        self.agent_order.iter().filter(fails).collect()
    }

    /// Folds an event into the ballot. Returns whether it changed.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "events that are not named change nothing here"
    )]
    pub(super) fn apply(&mut self, event: &CoordinationEvent, at: EventPosition) -> bool {
        match event {
            CoordinationEvent::Answered {
                agent,
                label,
                content,
                snapshot,
                check_results,
                plan,
                ..
            } => {
                // An agent that answers again takes its own vote back.
                self.void_votes(std::slice::from_ref(agent), None);
                for answer in &mut self.answers {
                    answer.is_replaced |= answer.agent == *agent;
                }
                push_bounded(
                    &mut self.answers,
                    BallotAnswer {
                        label: *label,
                        agent: agent.clone(),
                        content: Arc::clone(content),
                        has_files: snapshot.is_some(),
                        snapshot: snapshot.clone(),
                        at_ms: at.elapsed_ms,
                        checks: check_results.clone(),
                        plan: plan.clone(),
                        seen_by: Vec::new(),
                        is_replaced: false,
                    },
                );
            }
            CoordinationEvent::Voted {
                agent,
                candidate,
                label,
                reason,
            } => push_bounded(
                &mut self.votes,
                BallotVote {
                    voter: agent.clone(),
                    candidate: candidate.clone(),
                    label: *label,
                    reason: reason.clone(),
                    is_void: false,
                    voiding_message: None,
                },
            ),
            CoordinationEvent::VotesVoided { voters, message } => {
                self.void_votes(voters, *message);
            }
            CoordinationEvent::AnswersShown { agent, labels } => self.show_answers(agent, labels),
            CoordinationEvent::WinnerSelected {
                agent,
                label,
                reason,
                votes,
            } => {
                let votes_for_agent = |(agent, count): &(AgentId, u32)| VotesForAgent {
                    agent: agent.clone(),
                    count: *count,
                };
                self.winner = Some(BallotWinner {
                    agent: agent.clone(),
                    label: *label,
                    reason: *reason,
                    votes: votes.iter().map(votes_for_agent).collect(),
                });
            }
            _ => return false,
        }
        true
    }

    fn void_votes(&mut self, voters: &[AgentId], message: Option<u32>) {
        for vote in &mut self.votes {
            if voters.contains(&vote.voter) && !vote.is_void {
                vote.is_void = true;
                vote.voiding_message = message;
            }
        }
    }

    fn show_answers(&mut self, agent: &AgentId, labels: &[AnswerLabel]) {
        for answer in &mut self.answers {
            let is_new = labels.contains(&answer.label)
                && answer.agent != *agent
                && !answer.seen_by.contains(agent);
            if is_new {
                answer.seen_by.push(agent.clone());
            }
        }
    }
}

/// Returns the agents whose votes `event` makes void.
pub(super) fn voided_voters(event: &Event) -> &[AgentId] {
    if let Event::Coordination(CoordinationEvent::VotesVoided { voters, .. }) = event {
        voters
    } else {
        &[]
    }
}

/// Adds an item to a list, and drops the oldest one if the list is full.
fn push_bounded<T>(list: &mut Vec<T>, item: T) {
    if list.len() == SUBMISSIONS_MAX {
        list.remove(0);
    }
    list.push(item);
}
