//! The state of a coordination: who has answered, who has voted for what, and when it is over.
//!
//! It is a pure state machine: [`Ballot::apply`] takes the outcome of one agent's round and returns
//! what has to happen. It uses neither the clock nor the disk, so that tests cover every race
//! between agents.

pub mod checklist;

use std::collections::BTreeSet;

use crate::ballot::checklist::{ChecklistRule, ScoreProblem};
use crate::check_results::CheckStanding;
use crate::config::NoveltyRequirement;
use crate::id::{AgentNumber, AnswerLabel};

/// Maximum number of answers of one agent if the config sets no limit, so that every coordination
/// ends.
pub const ANSWERS_PER_AGENT_MAX: u32 = 32;

/// The config's rules about answers.
#[derive(Clone, Copy, Debug)]
pub struct BallotRules {
    /// Maximum number of answers of one agent.
    pub answers_per_agent_max: u32,
    /// Maximum number of answers of all agents together; `None` sets no limit.
    pub answers_max: Option<u32>,
    /// How different a new answer must be from all others.
    pub novelty: NoveltyRequirement,
    /// What the scores of a vote must satisfy, if votes have scores.
    pub checklist: Option<ChecklistRule>,
    /// How many answers more than the others an agent may give before it waits for those that have
    /// not voted; `None` sets no limit.
    pub answer_lead_max: Option<u32>,
}

/// Outcome of an agent's round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundOutcome {
    /// It gave an answer.
    Answer {
        /// The answer, with paths in the agent's own workspace made neutral, so that equal answers
        /// compare equal.
        content: String,
        /// The number of the last message of the user that the agent had been shown.
        known_messages: u32,
    },
    /// It voted.
    Vote {
        /// The agent that it is for.
        candidate: AgentNumber,
        /// The ordinal of the candidate's answer, if the voter named one.
        ordinal: Option<u32>,
        /// The scores of the candidate's answer, one for each criterion.
        scores: Vec<u8>,
        /// The number of answers of the ballot that the voter had been shown.
        known_answers: u32,
        /// The number of the last message of the user that it had been shown.
        known_messages: u32,
    },
    /// It drops out: it failed, ran out of time, or neither answered nor voted. An answer that it
    /// gave before stays.
    DropOut,
}

/// An action that follows from an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BallotEffect {
    /// The answer counts; a snapshot must be taken.
    AcceptAnswer(AnswerLabel),
    /// The vote counts.
    AcceptVote {
        /// The voter.
        voter: AgentNumber,
        /// The answer that it is for.
        answer: AnswerLabel,
    },
    /// The submission does not count; the agent gets the reason and continues.
    Refuse {
        /// The agent.
        agent: AgentNumber,
        /// The reason.
        refusal: BallotRefusal,
    },
    /// These votes no longer count.
    VoidVotes(Vec<AgentNumber>),
    /// The agent judges the answers so far, and votes or answers again.
    Judge(AgentNumber),
    /// The ballot is closed with this result.
    Close(VoteTally),
    /// The ballot is closed without any answer.
    GiveUp,
}

/// Reason why an answer or a vote does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BallotRefusal {
    /// The answer is empty.
    EmptyAnswer,
    /// The agent has given the maximum number of answers.
    AnswerLimit {
        /// The maximum.
        answers_max: u32,
    },
    /// All agents together have given the maximum number of answers.
    SharedAnswerLimit {
        /// The maximum.
        answers_max: u32,
    },
    /// The same answer already exists.
    Duplicate(AnswerLabel),
    /// The answer has too much in common with this one.
    TooSimilar(AnswerLabel),
    /// There is nothing to vote for yet.
    NothingToVoteFor,
    /// The candidate has given no answer, or is not an agent.
    UnknownCandidate {
        /// The possible candidates.
        candidates: Vec<AgentNumber>,
    },
    /// The voter had not seen all answers, or named one that has been replaced.
    Outdated,
    /// A vote needs one score for each criterion of the checklist.
    ScoresMissing {
        /// The number of criteria.
        expected: usize,
    },
    /// The scores of the answer are too low: the voter has to give a better answer.
    BelowChecklist {
        /// The criteria that are not met, counted from 1.
        criteria: Vec<usize>,
    },
    /// The voter has scored these answers already and has to give a better one.
    AlreadyScored,
    /// The agent had not read all messages of the user.
    UnreadMessage,
    /// The user's hooks rejected it, for this reason. The ballot was not asked.
    ByHook(String),
}

/// The result of a ballot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteTally {
    /// The winning answer: the one with the most votes among those that passed the required checks,
    /// or among all if none did.
    pub winner: AnswerLabel,
    /// The votes for each agent with an answer, in registration order.
    pub votes: Vec<(AgentNumber, u32)>,
}

/// What an agent does in the ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VoterState {
    /// It is working, on an answer or on a judgement.
    Working,
    /// It has answered and waits until there is something to judge.
    Waiting,
    /// Its vote for this agent counts.
    Voted(AgentNumber),
    /// It no longer takes part.
    DroppedOut,
}

/// An agent in the ballot, with its latest answer.
#[derive(Clone, Debug)]
struct BallotVoter {
    agent: AgentNumber,
    state: VoterState,
    answer_count: u32,
    latest_answer: Option<String>,
    /// Whether the latest answer passed the required checks.
    standing: CheckStanding,
    /// The number of the last message of the user to it; 0 if there is none.
    last_message: u32,
    /// The number of answers of the ballot when its scores were last too low for a vote.
    scored_answers: Option<u32>,
}

impl BallotVoter {
    fn label(&self) -> AnswerLabel {
        AnswerLabel {
            agent: self.agent,
            ordinal: self.answer_count,
        }
    }
}

/// The state of one coordination.
#[derive(Clone, Debug)]
pub struct Ballot {
    rules: BallotRules,
    /// In registration order, which breaks ties.
    voters: Vec<BallotVoter>,
    /// The number of answers ever accepted; a voter must have been shown this many.
    answer_count: u32,
    is_closed: bool,
}

impl Ballot {
    /// Opens a ballot for `agents`, given in registration order; all of them are working.
    pub fn new(agents: impl IntoIterator<Item = AgentNumber>, rules: BallotRules) -> Self {
        let voter = |agent| BallotVoter {
            agent,
            state: VoterState::Working,
            answer_count: 0,
            latest_answer: None,
            standing: CheckStanding::Holds,
            last_message: 0,
            scored_answers: None,
        };
        Self {
            rules,
            voters: agents.into_iter().map(voter).collect(),
            answer_count: 0,
            is_closed: false,
        }
    }

    /// Returns whether the ballot waits for `agent` to do something.
    pub fn is_at_work(&self, agent: AgentNumber) -> bool {
        let mut voters = self.voters.iter();
        voters.any(|voter| voter.agent == agent && voter.state == VoterState::Working)
    }

    /// Applies the outcome of a round of `agent`. An agent that is not working, or unknown, changes
    /// nothing.
    pub fn apply(&mut self, agent: AgentNumber, outcome: RoundOutcome) -> Vec<BallotEffect> {
        let is_at_work =
            |voter: &BallotVoter| voter.agent == agent && voter.state == VoterState::Working;
        let index = self.voters.iter().position(is_at_work);
        let Some(index) = index.filter(|_| !self.is_closed) else {
            return Vec::new();
        };
        let known_messages = match &outcome {
            RoundOutcome::Answer { known_messages, .. }
            | RoundOutcome::Vote { known_messages, .. } => Some(*known_messages),
            RoundOutcome::DropOut => None,
        };
        if known_messages.is_some_and(|known| self.has_unread_message(index, known)) {
            let refusal = BallotRefusal::UnreadMessage;
            return vec![BallotEffect::Refuse { agent, refusal }];
        }
        let mut effects = match outcome {
            RoundOutcome::Answer { content, .. } => self.apply_answer(index, content),
            RoundOutcome::Vote {
                candidate,
                ordinal,
                scores,
                known_answers,
                ..
            } => self.apply_vote(index, candidate, ordinal, known_answers, &scores),
            RoundOutcome::DropOut => {
                self.set_state(index, VoterState::DroppedOut);
                Vec::new()
            }
        };
        effects.extend(self.advance());
        effects
    }

    /// Applies the user's message `number` to one agent, or to all. An agent that has voted loses
    /// its vote and goes back to work, like one that waits. The next answer or vote of each of them
    /// counts only after it has read the message. An agent that has dropped out never reads it.
    pub fn apply_user_message(
        &mut self,
        number: u32,
        to: Option<AgentNumber>,
    ) -> Vec<BallotEffect> {
        if self.is_closed {
            return Vec::new();
        }
        let (mut voided_voters, mut judges) = (Vec::new(), Vec::new());
        for voter in &mut self.voters {
            if to.is_some_and(|to| to != voter.agent) {
                continue;
            }
            voter.last_message = number;
            match voter.state {
                VoterState::Working | VoterState::DroppedOut => {}
                VoterState::Waiting => judges.push(voter.agent),
                VoterState::Voted(_) => {
                    voided_voters.push(voter.agent);
                    judges.push(voter.agent);
                }
            }
            if voter.state != VoterState::DroppedOut {
                voter.state = VoterState::Working;
            }
        }
        let mut effects = Vec::new();
        if !voided_voters.is_empty() {
            effects.push(BallotEffect::VoidVotes(voided_voters));
        }
        effects.extend(judges.into_iter().map(BallotEffect::Judge));
        effects
    }

    /// Returns whether `agent`, or any agent if none is named, takes part.
    pub fn takes_part(&self, agent: Option<AgentNumber>) -> bool {
        let mut voters = self.voters.iter();
        voters.any(|voter| {
            voter.state != VoterState::DroppedOut && agent.is_none_or(|agent| agent == voter.agent)
        })
    }

    fn has_unread_message(&self, index: usize, known: u32) -> bool {
        let voter = self.voters.get(index);
        voter.is_some_and(|voter| voter.last_message > known)
    }

    /// Applies the result of the checks on an accepted answer. An answer that has been replaced
    /// meanwhile changes nothing.
    pub fn apply_check_standing(&mut self, label: AnswerLabel, standing: CheckStanding) {
        let mut voters = self.voters.iter_mut();
        if let Some(voter) = voters.find(|voter| voter.label() == label) {
            voter.standing = standing;
        }
    }

    /// Closes the ballot with what there is: the votes that count decide, and without votes the
    /// first answer in registration order.
    pub fn close(&mut self) -> BallotEffect {
        self.is_closed = true;
        match self.tally() {
            Some(tally) => BallotEffect::Close(tally),
            None => BallotEffect::GiveUp,
        }
    }

    fn apply_answer(&mut self, index: usize, content: String) -> Vec<BallotEffect> {
        let Some(voter) = self.voters.get(index) else {
            return Vec::new();
        };
        if let Some(refusal) = self.answer_refusal(voter, &content) {
            return vec![BallotEffect::Refuse {
                agent: voter.agent,
                refusal,
            }];
        }
        self.answer_count = self.answer_count.saturating_add(1);
        let mut effects = Vec::new();
        if let Some(voter) = self.voters.get_mut(index) {
            voter.answer_count = voter.answer_count.saturating_add(1);
            voter.latest_answer = Some(content);
            // Until the checks on it have ended.
            voter.standing = CheckStanding::Holds;
            voter.state = VoterState::Waiting;
            effects.push(BallotEffect::AcceptAnswer(voter.label()));
        }
        let mut voided_voters = Vec::new();
        for voter in &mut self.voters {
            if matches!(voter.state, VoterState::Voted(_)) {
                voter.state = VoterState::Working;
                voided_voters.push(voter.agent);
            }
        }
        if !voided_voters.is_empty() {
            effects.push(BallotEffect::VoidVotes(voided_voters.clone()));
            effects.extend(voided_voters.into_iter().map(BallotEffect::Judge));
        }
        effects
    }

    fn answer_refusal(&self, voter: &BallotVoter, content: &str) -> Option<BallotRefusal> {
        if content.trim().is_empty() {
            return Some(BallotRefusal::EmptyAnswer);
        }
        let answers_max = self.rules.answers_per_agent_max;
        if voter.answer_count >= answers_max {
            return Some(BallotRefusal::AnswerLimit { answers_max });
        }
        let shared_max = self.rules.answers_max;
        if let Some(answers_max) = shared_max.filter(|max| self.answer_count >= *max) {
            return Some(BallotRefusal::SharedAnswerLimit { answers_max });
        }
        let mut answers = self.latest_answers();
        if let Some((label, _)) = answers.find(|(_, other)| other.trim() == content.trim()) {
            return Some(BallotRefusal::Duplicate(label));
        }
        let overlap_max = match self.rules.novelty {
            NoveltyRequirement::Lenient => return None,
            NoveltyRequirement::Balanced => 0.70,
            NoveltyRequirement::Strict => 0.50,
        };
        let is_too_similar =
            |(_, other): &(AnswerLabel, &str)| word_overlap(content, other) > overlap_max;
        self.latest_answers()
            .find(is_too_similar)
            .map(|(label, _)| BallotRefusal::TooSimilar(label))
    }

    fn apply_vote(
        &mut self,
        index: usize,
        candidate: AgentNumber,
        ordinal: Option<u32>,
        known_answers: u32,
        scores: &[u8],
    ) -> Vec<BallotEffect> {
        let Some(voter) = self.voters.get(index).map(|voter| voter.agent) else {
            return Vec::new();
        };
        let refuse = |refusal| {
            vec![BallotEffect::Refuse {
                agent: voter,
                refusal,
            }]
        };
        let candidates: Vec<AgentNumber> = self
            .candidates()
            .map(|voter| voter.agent)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        if candidates.is_empty() {
            return refuse(BallotRefusal::NothingToVoteFor);
        }
        let Some(answer) = self
            .candidates()
            .find(|voter| voter.agent == candidate)
            .map(BallotVoter::label)
        else {
            return refuse(BallotRefusal::UnknownCandidate { candidates });
        };
        let is_replaced = ordinal.is_some_and(|ordinal| ordinal != answer.ordinal);
        if known_answers < self.answer_count || is_replaced {
            return refuse(BallotRefusal::Outdated);
        }
        if let Some(refusal) = self.score_refusal(index, scores) {
            return refuse(refusal);
        }
        self.set_state(index, VoterState::Voted(candidate));
        vec![BallotEffect::AcceptVote { voter, answer }]
    }

    /// Returns why the scores of a vote do not let it count, if they do not. A voter scores the
    /// same answers once: it cannot raise its scores instead of giving a better answer. A voter
    /// without any answer left may vote for what there is.
    fn score_refusal(&mut self, index: usize, scores: &[u8]) -> Option<BallotRefusal> {
        let rule = self.rules.checklist?;
        let known_answers = self.answer_count;
        let answers_max = self.rules.answers_per_agent_max;
        let shared_max = self.rules.answers_max;
        let is_shared_max_reached = shared_max.is_some_and(|max| known_answers >= max);
        let voter = self.voters.get_mut(index)?;
        let problem = rule.find_problem(scores, voter.answer_count, answers_max);
        if let Some(ScoreProblem::Count { expected }) = problem {
            return Some(BallotRefusal::ScoresMissing { expected });
        }
        if is_shared_max_reached || voter.answer_count >= answers_max {
            return None;
        }
        if voter.scored_answers == Some(known_answers) {
            return Some(BallotRefusal::AlreadyScored);
        }
        let Some(ScoreProblem::UnmetCriteria(criteria)) = problem else {
            return None;
        };
        voter.scored_answers = Some(known_answers);
        Some(BallotRefusal::BelowChecklist { criteria })
    }

    /// Lets waiting agents judge if they have something to judge now, or closes the ballot.
    fn advance(&mut self) -> Vec<BallotEffect> {
        let is_open =
            |voter: &&BallotVoter| matches!(voter.state, VoterState::Working | VoterState::Waiting);
        let open_voters: Vec<&BallotVoter> = self.voters.iter().filter(is_open).collect();
        let has_only_own_answer = match open_voters.as_slice() {
            [voter] => voter.state == VoterState::Waiting && self.candidates().count() == 1,
            _ => false,
        };
        if open_voters.is_empty() || has_only_own_answer {
            return vec![self.close()];
        }
        let owes_first_answer = |voter: &&BallotVoter| {
            voter.state == VoterState::Working && voter.latest_answer.is_none()
        };
        if open_voters.iter().any(owes_first_answer) {
            return Vec::new();
        }
        let ready_agents: BTreeSet<AgentNumber> = open_voters
            .iter()
            .filter(|voter| !self.would_be_too_far_ahead(voter, &open_voters))
            .map(|voter| voter.agent)
            .collect();
        let mut effects = Vec::new();
        for voter in &mut self.voters {
            if voter.state == VoterState::Waiting && ready_agents.contains(&voter.agent) {
                voter.state = VoterState::Working;
                effects.push(BallotEffect::Judge(voter.agent));
            }
        }
        effects
    }

    /// Returns whether `voter` would be too many answers ahead of the other `open_voters` with one
    /// more. The agent with the fewest answers never is, so that one agent can always continue.
    fn would_be_too_far_ahead(&self, voter: &BallotVoter, open_voters: &[&BallotVoter]) -> bool {
        let other_voters = open_voters
            .iter()
            .filter(|other| other.agent != voter.agent);
        let answers_min = other_voters.map(|other| other.answer_count).min();
        let (Some(lead_max), Some(answers_min)) = (self.rules.answer_lead_max, answers_min) else {
            return false;
        };
        voter.answer_count.saturating_add(1) > answers_min.saturating_add(lead_max.max(1))
    }

    fn latest_answers(&self) -> impl Iterator<Item = (AnswerLabel, &str)> {
        self.voters
            .iter()
            .filter_map(|voter| Some((voter.label(), voter.latest_answer.as_deref()?)))
    }

    fn candidates(&self) -> impl Iterator<Item = &BallotVoter> {
        let voters = self.voters.iter();
        voters.filter(|voter| voter.latest_answer.is_some())
    }

    fn tally(&self) -> Option<VoteTally> {
        let accepted_votes = self.voters.iter().filter_map(|voter| match voter.state {
            VoterState::Voted(candidate) => Some(candidate),
            VoterState::Working | VoterState::Waiting | VoterState::DroppedOut => None,
        });
        let candidates = self.candidates().map(|candidate| candidate.agent);
        let votes = count_votes(candidates, accepted_votes);
        let agent = most_voted(&self.eligible_votes(&votes)).or_else(|| most_voted(&votes))?;
        let winner = self
            .candidates()
            .find(|candidate| candidate.agent == agent)?;
        Some(VoteTally {
            winner: winner.label(),
            votes,
        })
    }

    /// Returns the votes for agents whose answers passed the required checks.
    fn eligible_votes(&self, votes: &[(AgentNumber, u32)]) -> Vec<(AgentNumber, u32)> {
        let is_eligible = |agent| {
            let mut candidates = self.candidates();
            candidates.any(|candidate| {
                candidate.agent == agent && candidate.standing == CheckStanding::Holds
            })
        };
        let votes = votes.iter().copied();
        votes.filter(|(agent, _)| is_eligible(*agent)).collect()
    }

    fn set_state(&mut self, index: usize, state: VoterState) {
        if let Some(voter) = self.voters.get_mut(index) {
            voter.state = state;
        }
    }
}

/// Counts `votes` for `candidates`, and keeps the order of these. The accepted votes of an event
/// log give the same tally again.
pub fn count_votes(
    candidates: impl Iterator<Item = AgentNumber>,
    votes: impl Iterator<Item = AgentNumber>,
) -> Vec<(AgentNumber, u32)> {
    let mut vote_counts: Vec<(AgentNumber, u32)> = candidates.map(|agent| (agent, 0)).collect();
    for vote in votes {
        if let Some((_, count)) = vote_counts.iter_mut().find(|(agent, _)| *agent == vote) {
            *count = count.saturating_add(1);
        }
    }
    vote_counts
}

/// Returns the candidate with the most votes; in a tie, the first in order.
pub fn most_voted(votes: &[(AgentNumber, u32)]) -> Option<AgentNumber> {
    let votes_max = votes.iter().map(|(_, count)| *count).max()?;
    votes
        .iter()
        .find(|(_, count)| *count == votes_max)
        .map(|(agent, _)| *agent)
}

/// Returns the number of words that two texts share, divided by the number of all their words. Words
/// are separated by whitespace and compared without case.
fn word_overlap(text: &str, other_text: &str) -> f64 {
    let words = |text: &str| -> BTreeSet<String> {
        text.split_whitespace().map(str::to_lowercase).collect()
    };
    let (set, other_set) = (words(text), words(other_text));
    let to_float = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let union_size = set.union(&other_set).count();
    if union_size == 0 {
        0.0
    } else {
        to_float(set.intersection(&other_set).count()) / to_float(union_size)
    }
}

#[cfg(test)]
mod tests;
