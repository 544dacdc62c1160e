//! The state of a coordination: who has answered, who has voted for what, and when it is over.
//!
//! It is a pure state machine: [`Ballot::apply`] takes the outcome of one agent's round and returns
//! what has to happen. It uses neither the clock nor the disk, so that tests cover every race
//! between agents.

pub mod checklist;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ballot::checklist::{ChecklistRule, ScoreProblem};
use crate::check_results::CheckStanding;
use crate::config::{NoveltyRequirement, Strategy};
use crate::id::{AgentNumber, AnswerLabel};

/// Maximum number of answers of one agent if the config sets no limit, so that every coordination
/// ends.
pub const ANSWERS_PER_AGENT_MAX: u32 = 32;
/// Maximum number of answers of an agent that answers alone if the config sets no limit: it may
/// repair its first one twice.
pub const INDEPENDENT_ANSWERS_MAX: u32 = 3;

/// The config's rules about answers.
#[derive(Clone, Copy, Debug)]
pub struct BallotRules {
    /// Whether agents vote, or each answers once and alone.
    pub strategy: Strategy,
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
    /// The answer counts once [`Ballot::confirm_answer`] is called: its files must be captured and
    /// checked before.
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
    /// The agent's answer failed a required check; the agent repairs it and answers again.
    Repair(AgentNumber),
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
    /// There is nothing to vote for yet, or in this run agents answer alone.
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
    /// It was rejected outside the ballot, for this reason: by the user's hooks, or because its files
    /// cannot be captured.
    External(String),
}

/// The result of a ballot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteTally {
    /// The winning answer: the one with the most votes among those that passed the required checks,
    /// or among all if none did.
    pub winner: AnswerLabel,
    /// What decided for it.
    pub reason: WinnerReason,
    /// The votes for each agent with an answer, in registration order.
    pub votes: Vec<(AgentNumber, u32)>,
}

/// What decided which answer won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WinnerReason {
    /// There was no other answer.
    OnlyAnswer,
    /// It had more votes than any other answer.
    MostVotes,
    /// Others had as many votes; it comes first in the config.
    FirstOfTie,
    /// It passed the required checks. Others failed them or, if the first that passes wins, were
    /// not given yet.
    PassedChecks,
    /// A review found it the best of those that passed the required checks.
    Review,
    /// It comes first in the config among those that passed the required checks: they change the
    /// same, or no review decided.
    FirstPassing,
    /// The user picked it.
    Picked,
}

impl WinnerReason {
    /// Returns the reason as the end of a sentence that begins with the winner.
    pub fn text(self) -> &'static str {
        match self {
            WinnerReason::OnlyAnswer => "it is the only answer",
            WinnerReason::MostVotes => "it has the most votes",
            WinnerReason::FirstOfTie => "it comes first in the config among those with most votes",
            WinnerReason::PassedChecks => "it passed the required checks, which others failed",
            WinnerReason::Review => "the review found it the best",
            WinnerReason::FirstPassing => "it comes first in the config among those that pass",
            WinnerReason::Picked => "the user picked it",
        }
    }
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
    unconfirmed_answer: Option<UnconfirmedAnswer>,
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

/// An answer that waits for its confirmation.
#[derive(Clone, Debug)]
struct UnconfirmedAnswer {
    content: String,
    /// The number of the last message of the user that its agent had been shown.
    known_messages: u32,
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
            unconfirmed_answer: None,
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
            RoundOutcome::Answer {
                content,
                known_messages,
            } => {
                return self.apply_answer(
                    index,
                    UnconfirmedAnswer {
                        content,
                        known_messages,
                    },
                );
            }
            RoundOutcome::Vote {
                candidate,
                ordinal,
                scores,
                known_answers,
                ..
            } => self.apply_vote(index, candidate, ordinal, known_answers, &scores),
            RoundOutcome::DropOut => {
                self.set_state(agent, VoterState::DroppedOut);
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
                // It reads the message once the checks of its answer have ended.
                VoterState::Waiting if voter.unconfirmed_answer.is_some() => continue,
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

    /// Counts an accepted answer whose checks ended with `standing`. Where agents answer alone, one
    /// that fails is repaired by its agent, as often as the rules allow.
    pub fn confirm_answer(
        &mut self,
        label: AnswerLabel,
        standing: CheckStanding,
    ) -> Vec<BallotEffect> {
        let Some((voter, answer)) = self.take_unconfirmed(label) else {
            return Vec::new();
        };
        voter.answer_count = label.ordinal;
        voter.latest_answer = Some(answer.content);
        voter.standing = standing;
        let is_outdated = voter.last_message > answer.known_messages;
        self.answer_count = self.answer_count.saturating_add(1);
        if self.rules.strategy.is_independent() && standing == CheckStanding::Fails {
            if self.limit_refusal(label.ordinal).is_none() {
                self.set_state(label.agent, VoterState::Working);
                return vec![BallotEffect::Repair(label.agent)];
            }
        } else if self.rules.strategy.ends_at_first_pass() {
            return vec![self.close()];
        }
        if is_outdated {
            self.set_state(label.agent, VoterState::Working);
            return vec![BallotEffect::Judge(label.agent)];
        }
        let mut voided_voters = Vec::new();
        for voter in &mut self.voters {
            if matches!(voter.state, VoterState::Voted(_)) {
                voter.state = VoterState::Working;
                voided_voters.push(voter.agent);
            }
        }
        let mut effects = Vec::new();
        if !voided_voters.is_empty() {
            effects.push(BallotEffect::VoidVotes(voided_voters.clone()));
            effects.extend(voided_voters.into_iter().map(BallotEffect::Judge));
        }
        effects.extend(self.advance());
        effects
    }

    /// Takes back an accepted answer whose files cannot be captured; its agent works on.
    pub fn withdraw_answer(&mut self, label: AnswerLabel) {
        if self.take_unconfirmed(label).is_some() {
            self.set_state(label.agent, VoterState::Working);
        }
    }

    fn take_unconfirmed(
        &mut self,
        label: AnswerLabel,
    ) -> Option<(&mut BallotVoter, UnconfirmedAnswer)> {
        let mut voters = self.voters.iter_mut();
        let voter = voters.find(|voter| voter.agent == label.agent)?;
        let answer = voter.unconfirmed_answer.take()?;
        Some((voter, answer))
    }

    /// Returns why an agent that has given `answer_count` answers may not give another one, if it may
    /// not.
    fn limit_refusal(&self, answer_count: u32) -> Option<BallotRefusal> {
        let answers_max = self.rules.answers_per_agent_max;
        if answer_count >= answers_max {
            return Some(BallotRefusal::AnswerLimit { answers_max });
        }
        let shared_max = self.rules.answers_max;
        let answers_max = shared_max.filter(|max| self.answer_count >= *max)?;
        Some(BallotRefusal::SharedAnswerLimit { answers_max })
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

    fn apply_answer(&mut self, index: usize, answer: UnconfirmedAnswer) -> Vec<BallotEffect> {
        let Some(voter) = self.voters.get(index) else {
            return Vec::new();
        };
        if let Some(refusal) = self.answer_refusal(voter, &answer.content) {
            return vec![BallotEffect::Refuse {
                agent: voter.agent,
                refusal,
            }];
        }
        let Some(voter) = self.voters.get_mut(index) else {
            return Vec::new();
        };
        voter.unconfirmed_answer = Some(answer);
        voter.state = VoterState::Waiting;
        vec![BallotEffect::AcceptAnswer(AnswerLabel {
            agent: voter.agent,
            ordinal: voter.answer_count.saturating_add(1),
        })]
    }

    fn answer_refusal(&self, voter: &BallotVoter, content: &str) -> Option<BallotRefusal> {
        if content.trim().is_empty() {
            return Some(BallotRefusal::EmptyAnswer);
        }
        // An answer that is given alone may be the same as another one, which its agent must not
        // hear of.
        if self.rules.strategy.is_independent() {
            return None;
        }
        if let Some(refusal) = self.limit_refusal(voter.answer_count) {
            return Some(refusal);
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
        if candidates.is_empty() || self.rules.strategy.is_independent() {
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
        self.set_state(voter, VoterState::Voted(candidate));
        vec![BallotEffect::AcceptVote { voter, answer }]
    }

    /// Returns why the scores of a vote do not let it count, if they do not. A voter scores the
    /// same answers once: it cannot raise its scores instead of giving a better answer. A voter
    /// without any answer left may vote for what there is.
    fn score_refusal(&mut self, index: usize, scores: &[u8]) -> Option<BallotRefusal> {
        let rule = self.rules.checklist?;
        let known_answers = self.answer_count;
        let answers_max = self.rules.answers_per_agent_max;
        let answer_count = self.voters.get(index)?.answer_count;
        let is_at_limit = self.limit_refusal(answer_count).is_some();
        let voter = self.voters.get_mut(index)?;
        let problem = rule.find_problem(scores, voter.answer_count, answers_max);
        if let Some(ScoreProblem::Count { expected }) = problem {
            return Some(BallotRefusal::ScoresMissing { expected });
        }
        if is_at_limit {
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
        let mut voters = self.voters.iter();
        if voters.any(|voter| voter.unconfirmed_answer.is_some()) {
            return Vec::new();
        }
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
        if self.rules.strategy.is_independent() {
            let is_working = |voter: &&BallotVoter| voter.state == VoterState::Working;
            if open_voters.iter().any(is_working) {
                return Vec::new();
            }
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

    fn candidates(&self) -> impl Iterator<Item = &BallotVoter> + Clone {
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
        let mut candidates = self.candidates();
        let winner = candidates.find(|candidate| candidate.agent == agent)?;
        Some(VoteTally {
            winner: winner.label(),
            reason: self.winner_reason(winner, &votes),
            votes,
        })
    }

    /// Returns what decided for `winner`.
    fn winner_reason(&self, winner: &BallotVoter, votes: &[(AgentNumber, u32)]) -> WinnerReason {
        let votes_for = |agent| {
            let mut counts = votes.iter().filter(|(candidate, _)| *candidate == agent);
            counts.next().map_or(0, |(_, count)| *count)
        };
        let others = self
            .candidates()
            .filter(|other| other.agent != winner.agent);
        let has_others = others.clone().next().is_some();
        let mut rivals = others.filter(|other| votes_for(other.agent) >= votes_for(winner.agent));
        let has_rival = rivals.clone().next().is_some();
        if !has_others {
            WinnerReason::OnlyAnswer
        } else if rivals.any(|other| other.standing != winner.standing) {
            WinnerReason::PassedChecks
        } else if has_rival {
            WinnerReason::FirstOfTie
        } else {
            WinnerReason::MostVotes
        }
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

    fn set_state(&mut self, agent: AgentNumber, state: VoterState) {
        let mut voters = self.voters.iter_mut();
        if let Some(voter) = voters.find(|voter| voter.agent == agent) {
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
mod interleavings;
#[cfg(test)]
mod tests;
