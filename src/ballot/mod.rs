//! Owns the state of a coordination: who has answered, who has voted for what, when it is over.
//! A pure state machine: [`Ballot::step`] takes what one agent did and says what has to happen. It
//! knows no time and no disk, so every race between agents is a table test.

use std::collections::BTreeSet;

use crate::config::NoveltyRequirement;
use crate::evidence::Standing;
use crate::id::{AgentNumber, AnswerLabel};

/// The most answers that one agent may give where the config sets no limit, so that every
/// coordination ends.
pub const ANSWERS_PER_AGENT_MAX: u32 = 32;

/// What the config says about answers.
#[derive(Clone, Copy, Debug)]
pub struct BallotRules {
    /// How many answers one agent may give.
    pub answers_per_agent_max: u32,
    /// How different a new answer must be from all others.
    pub novelty: NoveltyRequirement,
}

/// What an agent did with its round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It gave an answer.
    Answer {
        /// The answer, with paths of the agent's own workspace made neutral, so that equal answers
        /// compare equal.
        content: String,
    },
    /// It voted.
    Vote {
        /// For whom.
        candidate: AgentNumber,
        /// For which of the candidate's answers, if the voter said so.
        ordinal: Option<u32>,
        /// How many answers of the ballot the voter had been shown.
        known_answers: u32,
    },
    /// It leaves: it failed, ran out of time or made no decision. An answer that it gave stays.
    Stopped,
}

/// What has to happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The answer counts; a snapshot is due.
    AcceptAnswer(AnswerLabel),
    /// The vote counts.
    AcceptVote {
        /// Who voted.
        voter: AgentNumber,
        /// For which answer.
        answer: AnswerLabel,
    },
    /// What the agent did does not count; it goes on and is told why.
    Refuse {
        /// Who.
        agent: AgentNumber,
        /// Why.
        refusal: Refusal,
    },
    /// These votes do not count any more.
    VoidVotes(Vec<AgentNumber>),
    /// The agent looks at the answers that there are, and votes or answers again.
    Judge(AgentNumber),
    /// The ballot is closed with this result.
    Close(Tally),
    /// The ballot is closed and nobody answered.
    GiveUp,
}

/// Why an answer or a vote does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The answer is empty.
    EmptyAnswer,
    /// The agent has given as many answers as it may.
    AnswerLimit {
        /// How many that is.
        answers_max: u32,
    },
    /// The same answer is there already.
    Duplicate(AnswerLabel),
    /// The answer says too much of what another one says.
    TooSimilar(AnswerLabel),
    /// There is nothing to vote for yet.
    NothingToVoteFor,
    /// The candidate has given no answer, or is no agent.
    UnknownCandidate {
        /// Who can be voted for.
        candidates: Vec<AgentNumber>,
    },
    /// The voter did not know all answers, or named one that has been replaced.
    Outdated,
    /// Hooks of the user's refused it, for this reason. The ballot was not asked.
    ByHook(String),
}

/// The result of a ballot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The winning answer: that with most votes of those that hold, or of all if none holds.
    pub winner: AnswerLabel,
    /// The votes for each agent with an answer, in registration order.
    pub votes: Vec<(AgentNumber, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is at work, on an answer or on a judgement.
    Working,
    /// It has answered and waits until there is something to judge.
    Waiting,
    /// Its vote counts.
    Voted(AgentNumber),
    /// It has left.
    Out,
}

#[derive(Clone, Debug)]
struct Seat {
    agent: AgentNumber,
    state: State,
    answers: u32,
    latest: Option<String>,
    /// Whether the latest answer may win before one that does not hold.
    standing: Standing,
}

impl Seat {
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
    seats: Vec<Seat>,
    /// All answers ever accepted; a voter must have been shown this many.
    answers: u32,
    closed: bool,
}

impl Ballot {
    /// Opens a ballot for `agents`, given in registration order; all of them are at work.
    pub fn new(agents: impl IntoIterator<Item = AgentNumber>, rules: BallotRules) -> Self {
        let seat = |agent| Seat {
            agent,
            state: State::Working,
            answers: 0,
            latest: None,
            standing: Standing::Holds,
        };
        Self {
            rules,
            seats: agents.into_iter().map(seat).collect(),
            answers: 0,
            closed: false,
        }
    }

    /// Whether the ballot waits for `agent` to do something.
    pub fn is_at_work(&self, agent: AgentNumber) -> bool {
        let mut seats = self.seats.iter();
        seats.any(|seat| seat.agent == agent && seat.state == State::Working)
    }

    /// Takes what `agent` did. An agent that is not at work, or unknown, changes nothing.
    pub fn step(&mut self, agent: AgentNumber, outcome: Outcome) -> Vec<Effect> {
        let at_work = |seat: &Seat| seat.agent == agent && seat.state == State::Working;
        let Some(index) = self.seats.iter().position(at_work).filter(|_| !self.closed) else {
            return Vec::new();
        };
        let mut effects = match outcome {
            Outcome::Answer { content } => self.answer(index, content),
            Outcome::Vote {
                candidate,
                ordinal,
                known_answers,
            } => self.vote(index, candidate, ordinal, known_answers),
            Outcome::Stopped => {
                self.set(index, State::Out);
                Vec::new()
            }
        };
        effects.extend(self.settle());
        effects
    }

    /// Takes what the checks say about an accepted answer. One that has been replaced meanwhile
    /// changes nothing.
    pub fn weigh(&mut self, label: AnswerLabel, standing: Standing) {
        let mut seats = self.seats.iter_mut();
        if let Some(seat) = seats.find(|seat| seat.label() == label) {
            seat.standing = standing;
        }
    }

    /// Ends the ballot as it stands: the votes that count decide, and without votes the first
    /// answer in registration order.
    pub fn close(&mut self) -> Effect {
        self.closed = true;
        match self.tally() {
            Some(tally) => Effect::Close(tally),
            None => Effect::GiveUp,
        }
    }

    fn answer(&mut self, index: usize, content: String) -> Vec<Effect> {
        let Some(seat) = self.seats.get(index) else {
            return Vec::new();
        };
        if let Some(refusal) = self.answer_refusal(seat, &content) {
            return vec![Effect::Refuse {
                agent: seat.agent,
                refusal,
            }];
        }
        let voters: Vec<AgentNumber> = self
            .seats
            .iter()
            .filter(|seat| matches!(seat.state, State::Voted(_)))
            .map(|seat| seat.agent)
            .collect();
        self.answers = self.answers.saturating_add(1);
        let mut effects = Vec::new();
        if let Some(seat) = self.seats.get_mut(index) {
            seat.answers = seat.answers.saturating_add(1);
            seat.latest = Some(content);
            seat.standing = Standing::Holds;
            seat.state = State::Waiting;
            effects.push(Effect::AcceptAnswer(seat.label()));
        }
        for seat in &mut self.seats {
            if matches!(seat.state, State::Voted(_)) {
                seat.state = State::Working;
            }
        }
        if !voters.is_empty() {
            effects.push(Effect::VoidVotes(voters.clone()));
            effects.extend(voters.into_iter().map(Effect::Judge));
        }
        effects
    }

    fn answer_refusal(&self, seat: &Seat, content: &str) -> Option<Refusal> {
        if content.trim().is_empty() {
            return Some(Refusal::EmptyAnswer);
        }
        let answers_max = self.rules.answers_per_agent_max;
        if seat.answers >= answers_max {
            return Some(Refusal::AnswerLimit { answers_max });
        }
        let mut existing = self.answers_given();
        if let Some((label, _)) = existing.find(|(_, other)| other.trim() == content.trim()) {
            return Some(Refusal::Duplicate(label));
        }
        let overlap_max = match self.rules.novelty {
            NoveltyRequirement::Lenient => return None,
            NoveltyRequirement::Balanced => 0.70,
            NoveltyRequirement::Strict => 0.50,
        };
        let similar = |(_, other): &(AnswerLabel, &str)| overlap(content, other) > overlap_max;
        self.answers_given()
            .find(similar)
            .map(|(label, _)| Refusal::TooSimilar(label))
    }

    fn vote(
        &mut self,
        index: usize,
        candidate: AgentNumber,
        ordinal: Option<u32>,
        known_answers: u32,
    ) -> Vec<Effect> {
        let Some(voter) = self.seats.get(index).map(|seat| seat.agent) else {
            return Vec::new();
        };
        let refuse = |refusal| {
            vec![Effect::Refuse {
                agent: voter,
                refusal,
            }]
        };
        let candidates: Vec<AgentNumber> = self
            .candidates()
            .map(|seat| seat.agent)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        if candidates.is_empty() {
            return refuse(Refusal::NothingToVoteFor);
        }
        let Some(answer) = self
            .candidates()
            .find(|s| s.agent == candidate)
            .map(Seat::label)
        else {
            return refuse(Refusal::UnknownCandidate { candidates });
        };
        let replaced = ordinal.is_some_and(|ordinal| ordinal != answer.ordinal);
        if known_answers < self.answers || replaced {
            return refuse(Refusal::Outdated);
        }
        self.set(index, State::Voted(candidate));
        vec![Effect::AcceptVote { voter, answer }]
    }

    /// Wakes those who have something to judge now, or closes the ballot.
    fn settle(&mut self) -> Vec<Effect> {
        let undecided = |seat: &&Seat| matches!(seat.state, State::Working | State::Waiting);
        let open: Vec<&Seat> = self.seats.iter().filter(undecided).collect();
        let only_answer_waits = match open.as_slice() {
            [seat] => seat.state == State::Waiting && self.candidates().count() == 1,
            _ => false,
        };
        if open.is_empty() || only_answer_waits {
            return vec![self.close()];
        }
        let owes_answer = |seat: &&Seat| seat.state == State::Working && seat.latest.is_none();
        if open.iter().any(owes_answer) {
            return Vec::new();
        }
        let mut effects = Vec::new();
        for seat in &mut self.seats {
            if seat.state == State::Waiting {
                seat.state = State::Working;
                effects.push(Effect::Judge(seat.agent));
            }
        }
        effects
    }

    fn answers_given(&self) -> impl Iterator<Item = (AnswerLabel, &str)> {
        self.seats
            .iter()
            .filter_map(|seat| Some((seat.label(), seat.latest.as_deref()?)))
    }

    fn candidates(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| seat.latest.is_some())
    }

    fn tally(&self) -> Option<Tally> {
        let choices = self.seats.iter().filter_map(|seat| match seat.state {
            State::Voted(candidate) => Some(candidate),
            State::Working | State::Waiting | State::Out => None,
        });
        let votes = count(self.candidates().map(|seat| seat.agent), choices);
        let agent = winner(&self.eligible(&votes)).or_else(|| winner(&votes))?;
        let seat = self.candidates().find(|seat| seat.agent == agent)?;
        Some(Tally {
            winner: seat.label(),
            votes,
        })
    }

    /// The votes for those whose answers hold.
    fn eligible(&self, votes: &[(AgentNumber, u32)]) -> Vec<(AgentNumber, u32)> {
        let holds = |agent| {
            let mut candidates = self.candidates();
            candidates.any(|seat| seat.agent == agent && seat.standing == Standing::Holds)
        };
        let votes = votes.iter().copied();
        votes.filter(|(agent, _)| holds(*agent)).collect()
    }

    fn set(&mut self, index: usize, state: State) {
        if let Some(seat) = self.seats.get_mut(index) {
            seat.state = state;
        }
    }
}

/// Counts `votes` for `candidates`, which stay in their order. With the accepted votes of an event
/// log it gives the tally again.
pub fn count(
    candidates: impl Iterator<Item = AgentNumber>,
    votes: impl Iterator<Item = AgentNumber>,
) -> Vec<(AgentNumber, u32)> {
    let mut counted: Vec<(AgentNumber, u32)> = candidates.map(|agent| (agent, 0)).collect();
    for vote in votes {
        if let Some((_, count)) = counted.iter_mut().find(|(agent, _)| *agent == vote) {
            *count = count.saturating_add(1);
        }
    }
    counted
}

/// Who has most votes; the first in order of those who have equally many.
pub fn winner(votes: &[(AgentNumber, u32)]) -> Option<AgentNumber> {
    let most = votes.iter().map(|(_, count)| *count).max()?;
    votes
        .iter()
        .find(|(_, count)| *count == most)
        .map(|(agent, _)| *agent)
}

/// How much two texts have in common: shared words by all words, from 0 to 1, words being split at
/// blanks and compared without case.
fn overlap(one: &str, other: &str) -> f64 {
    let words = |text: &str| -> BTreeSet<String> {
        text.split_whitespace().map(str::to_lowercase).collect()
    };
    let (one, other) = (words(one), words(other));
    let size = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let all = one.union(&other).count();
    if all == 0 {
        0.0
    } else {
        size(one.intersection(&other).count()) / size(all)
    }
}

#[cfg(test)]
mod tests;
