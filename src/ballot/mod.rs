//! The state of a coordination: who has answered, who has voted for what, and when it is over. A
//! pure state machine: [`Ballot::apply`] takes the outcome of one agent's round and returns what
//! has to happen. It does not use time or the disk, so every race between agents is a table test.

pub mod checklist;

use std::collections::BTreeSet;

use crate::ballot::checklist::{ChecklistRule, ScoreFault};
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
    /// It drops out: it failed, ran out of time or made no decision. An answer that it gave stays.
    Stopped,
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
    /// The winning answer: the one with the most votes among those that hold, or among all if none
    /// holds.
    pub winner: AnswerLabel,
    /// The votes for each agent with an answer, in registration order.
    pub votes: Vec<(AgentNumber, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VoterState {
    /// It is working, on an answer or on a judgement.
    Working,
    /// It has answered and waits until there is something to judge.
    Waiting,
    /// Its vote counts.
    Voted(AgentNumber),
    /// It has dropped out.
    Left,
}

#[derive(Clone, Debug)]
struct BallotVoter {
    agent: AgentNumber,
    state: VoterState,
    answers: u32,
    latest: Option<String>,
    /// Whether the latest answer takes precedence over one that does not hold.
    standing: CheckStanding,
    /// The number of the last message of the user to it; 0 if there is none.
    last_message: u32,
    /// The number of answers of the ballot when its scores were too low for a vote.
    scored_at: Option<u32>,
}

impl BallotVoter {
    fn label(&self) -> AnswerLabel {
        AnswerLabel {
            agent: self.agent,
            ordinal: self.answers,
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
    answers: u32,
    is_closed: bool,
}

impl Ballot {
    /// Opens a ballot for `agents`, given in registration order; all of them are working.
    pub fn new(agents: impl IntoIterator<Item = AgentNumber>, rules: BallotRules) -> Self {
        let voter = |agent| BallotVoter {
            agent,
            state: VoterState::Working,
            answers: 0,
            latest: None,
            standing: CheckStanding::Holds,
            last_message: 0,
            scored_at: None,
        };
        Self {
            rules,
            voters: agents.into_iter().map(voter).collect(),
            answers: 0,
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
        let at_work =
            |voter: &BallotVoter| voter.agent == agent && voter.state == VoterState::Working;
        let Some(index) = self
            .voters
            .iter()
            .position(at_work)
            .filter(|_| !self.is_closed)
        else {
            return Vec::new();
        };
        let known_messages = match &outcome {
            RoundOutcome::Answer { known_messages, .. }
            | RoundOutcome::Vote { known_messages, .. } => Some(*known_messages),
            RoundOutcome::Stopped => None,
        };
        if known_messages.is_some_and(|known| self.has_unread_message(index, known)) {
            let refusal = BallotRefusal::UnreadMessage;
            return vec![BallotEffect::Refuse { agent, refusal }];
        }
        let mut effects = match outcome {
            RoundOutcome::Answer { content, .. } => self.answer(index, content),
            RoundOutcome::Vote {
                candidate,
                ordinal,
                scores,
                known_answers,
                ..
            } => self.vote(index, candidate, ordinal, known_answers, &scores),
            RoundOutcome::Stopped => {
                self.set_state(index, VoterState::Left);
                Vec::new()
            }
        };
        effects.extend(self.advance());
        effects
    }

    /// Applies the user's message `number` to one agent, or to all. An agent that has voted loses
    /// its vote, and it goes back to work like one that waits; a decision of an agent at work
    /// counts only after it has read the message. One that has dropped out never reads it.
    pub fn apply_user_message(
        &mut self,
        number: u32,
        to: Option<AgentNumber>,
    ) -> Vec<BallotEffect> {
        if self.is_closed {
            return Vec::new();
        }
        let (mut voided, mut resumed) = (Vec::new(), Vec::new());
        for voter in &mut self.voters {
            if to.is_some_and(|to| to != voter.agent) {
                continue;
            }
            voter.last_message = number;
            match voter.state {
                VoterState::Working | VoterState::Left => {}
                VoterState::Waiting => resumed.push(voter.agent),
                VoterState::Voted(_) => {
                    voided.push(voter.agent);
                    resumed.push(voter.agent);
                }
            }
            if voter.state != VoterState::Left {
                voter.state = VoterState::Working;
            }
        }
        let voided = (!voided.is_empty()).then_some(BallotEffect::VoidVotes(voided));
        let resumed = resumed.into_iter().map(BallotEffect::Judge);
        voided.into_iter().chain(resumed).collect()
    }

    /// Returns whether `agent`, or any agent if none is named, takes part.
    pub fn takes_part(&self, agent: Option<AgentNumber>) -> bool {
        let mut voters = self.voters.iter();
        voters.any(|voter| {
            voter.state != VoterState::Left && agent.is_none_or(|agent| agent == voter.agent)
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

    fn answer(&mut self, index: usize, content: String) -> Vec<BallotEffect> {
        let Some(voter) = self.voters.get(index) else {
            return Vec::new();
        };
        if let Some(refusal) = self.answer_refusal(voter, &content) {
            return vec![BallotEffect::Refuse {
                agent: voter.agent,
                refusal,
            }];
        }
        let voters: Vec<AgentNumber> = self
            .voters
            .iter()
            .filter(|voter| matches!(voter.state, VoterState::Voted(_)))
            .map(|voter| voter.agent)
            .collect();
        self.answers = self.answers.saturating_add(1);
        let mut effects = Vec::new();
        if let Some(voter) = self.voters.get_mut(index) {
            voter.answers = voter.answers.saturating_add(1);
            voter.latest = Some(content);
            voter.standing = CheckStanding::Holds;
            voter.state = VoterState::Waiting;
            effects.push(BallotEffect::AcceptAnswer(voter.label()));
        }
        for voter in &mut self.voters {
            if matches!(voter.state, VoterState::Voted(_)) {
                voter.state = VoterState::Working;
            }
        }
        if !voters.is_empty() {
            effects.push(BallotEffect::VoidVotes(voters.clone()));
            effects.extend(voters.into_iter().map(BallotEffect::Judge));
        }
        effects
    }

    fn answer_refusal(&self, voter: &BallotVoter, content: &str) -> Option<BallotRefusal> {
        if content.trim().is_empty() {
            return Some(BallotRefusal::EmptyAnswer);
        }
        let answers_max = self.rules.answers_per_agent_max;
        if voter.answers >= answers_max {
            return Some(BallotRefusal::AnswerLimit { answers_max });
        }
        if let Some(answers_max) = self.rules.answers_max.filter(|max| self.answers >= *max) {
            return Some(BallotRefusal::SharedAnswerLimit { answers_max });
        }
        let mut existing = self.answers_given();
        if let Some((label, _)) = existing.find(|(_, other)| other.trim() == content.trim()) {
            return Some(BallotRefusal::Duplicate(label));
        }
        let overlap_max = match self.rules.novelty {
            NoveltyRequirement::Lenient => return None,
            NoveltyRequirement::Balanced => 0.70,
            NoveltyRequirement::Strict => 0.50,
        };
        let similar = |(_, other): &(AnswerLabel, &str)| word_overlap(content, other) > overlap_max;
        self.answers_given()
            .find(similar)
            .map(|(label, _)| BallotRefusal::TooSimilar(label))
    }

    fn vote(
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
            .find(|s| s.agent == candidate)
            .map(BallotVoter::label)
        else {
            return refuse(BallotRefusal::UnknownCandidate { candidates });
        };
        let is_replaced = ordinal.is_some_and(|ordinal| ordinal != answer.ordinal);
        if known_answers < self.answers || is_replaced {
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
        let answers = self.answers;
        let answers_max = self.rules.answers_per_agent_max;
        let is_full = self.rules.answers_max.is_some_and(|max| answers >= max);
        let voter = self.voters.get_mut(index)?;
        let fault = rule.find_fault(scores, voter.answers, answers_max);
        if let Some(ScoreFault::Count { expected }) = fault {
            return Some(BallotRefusal::ScoresMissing { expected });
        }
        if is_full || voter.answers >= answers_max {
            return None;
        }
        if voter.scored_at == Some(answers) {
            return Some(BallotRefusal::AlreadyScored);
        }
        let Some(ScoreFault::BelowBar(criteria)) = fault else {
            return None;
        };
        voter.scored_at = Some(answers);
        Some(BallotRefusal::BelowChecklist { criteria })
    }

    /// Wakes agents that have something to judge now, or closes the ballot.
    fn advance(&mut self) -> Vec<BallotEffect> {
        let undecided =
            |voter: &&BallotVoter| matches!(voter.state, VoterState::Working | VoterState::Waiting);
        let open_voters: Vec<&BallotVoter> = self.voters.iter().filter(undecided).collect();
        let only_answer_waits = match open_voters.as_slice() {
            [voter] => voter.state == VoterState::Waiting && self.candidates().count() == 1,
            _ => false,
        };
        if open_voters.is_empty() || only_answer_waits {
            return vec![self.close()];
        }
        let owes_answer =
            |voter: &&BallotVoter| voter.state == VoterState::Working && voter.latest.is_none();
        if open_voters.iter().any(owes_answer) {
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

    /// Returns whether one more answer of `voter` would be too many, compared with those in `open`.
    /// It never is for the agent with the fewest answers, so that one of them can always continue.
    fn would_be_too_far_ahead(&self, voter: &BallotVoter, open: &[&BallotVoter]) -> bool {
        let other_voters = open.iter().filter(|other| other.agent != voter.agent);
        let answers_min = other_voters.map(|other| other.answers).min();
        let (Some(lead_max), Some(answers_min)) = (self.rules.answer_lead_max, answers_min) else {
            return false;
        };
        voter.answers.saturating_add(1) > answers_min.saturating_add(lead_max.max(1))
    }

    fn answers_given(&self) -> impl Iterator<Item = (AnswerLabel, &str)> {
        self.voters
            .iter()
            .filter_map(|voter| Some((voter.label(), voter.latest.as_deref()?)))
    }

    fn candidates(&self) -> impl Iterator<Item = &BallotVoter> {
        self.voters.iter().filter(|voter| voter.latest.is_some())
    }

    fn tally(&self) -> Option<VoteTally> {
        let choices = self.voters.iter().filter_map(|voter| match voter.state {
            VoterState::Voted(candidate) => Some(candidate),
            VoterState::Working | VoterState::Waiting | VoterState::Left => None,
        });
        let votes = count_votes(self.candidates().map(|one| one.agent), choices);
        let agent = most_voted(&self.eligible_votes(&votes)).or_else(|| most_voted(&votes))?;
        let winner = self
            .candidates()
            .find(|candidate| candidate.agent == agent)?;
        Some(VoteTally {
            winner: winner.label(),
            votes,
        })
    }

    /// Returns the votes for agents whose answers hold.
    fn eligible_votes(&self, votes: &[(AgentNumber, u32)]) -> Vec<(AgentNumber, u32)> {
        let is_eligible = |agent| {
            let mut candidates = self.candidates();
            candidates.any(|one| one.agent == agent && one.standing == CheckStanding::Holds)
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

/// Returns how much two texts have in common: the number of shared words divided by that of all
/// words, from 0 to 1. Words are separated by whitespace and compared without case.
fn word_overlap(one: &str, other: &str) -> f64 {
    let words = |text: &str| -> BTreeSet<String> {
        text.split_whitespace().map(str::to_lowercase).collect()
    };
    let (one, other) = (words(one), words(other));
    let size = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let union_size = one.union(&other).count();
    if union_size == 0 {
        0.0
    } else {
        size(one.intersection(&other).count()) / size(union_size)
    }
}

#[cfg(test)]
mod tests;
