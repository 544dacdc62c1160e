//! Owns an agent's part in the coordination: rounds that end in an answer or a vote, for as long as
//! the ballot is open. The conversation goes on from round to round; it is never begun again.

use std::future::pending;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::agent::Mind;
use crate::agent::calls::FileCall;
use crate::agent::cues::{Cued, Sight};
use crate::agent::memory::Memory;
use crate::ballot::Refusal;
use crate::brief::{self, AnswerView};
use crate::event::Event;
use crate::id::{AgentNumber, AnswerLabel};
use crate::tools::request::CallRequest;
use crate::tools::served::Catalogue;
use crate::tools::workflow::{ModelCall, WorkflowCall, parse_call};
use crate::world::gate::Gate;

/// How long after the grace of a round an agent may take for its decision, until it drops out.
const LAST_DECISION_MAX: Duration = Duration::from_mins(1);
/// How often an agent may end a reply without a decision before it drops out.
const UNDECIDED_REPLIES_MAX: u32 = 3;

/// How many decisions of one round may be refused before the agent drops out.
const REFUSALS_MAX: u32 = 6;

/// All answers that were accepted so far, oldest first, as agents may see them.
#[derive(Debug, Default)]
pub struct Board {
    /// The answers, also those that their agents have replaced.
    pub answers: Vec<AnswerView>,
}

impl Board {
    /// What is news for `me`, who has seen the first answers and now sees those before `end`: the
    /// latest of each other agent. Nobody is shown an answer of their own.
    fn news(&self, me: AgentNumber, seen: usize, end: usize) -> Vec<AnswerView> {
        let new = self.answers.get(seen..end).unwrap_or_default();
        let is_latest = |place: usize, answer: &AnswerView| {
            let mut later = new.iter().skip(place.saturating_add(1));
            !later.any(|later| later.label.agent == answer.label.agent)
        };
        let shown = new.iter().enumerate();
        let shown =
            shown.filter(|(place, answer)| answer.label.agent != me && is_latest(*place, answer));
        shown.map(|(_, answer)| answer.clone()).collect()
    }

    /// How far someone sees who is shown the answers of these names; `None` while one is missing.
    pub(super) fn end_of(&self, labels: &[AnswerLabel]) -> Option<usize> {
        let place = |label: &AnswerLabel| {
            let mut answers = self.answers.iter();
            answers.position(|answer| answer.label == *label)
        };
        let places: Option<Vec<usize>> = labels.iter().map(place).collect();
        places?.into_iter().max().map(|last| last.saturating_add(1))
    }

    /// How far `me` sees who has seen the first `seen` answers: each knows their own.
    fn with_own(&self, me: AgentNumber, seen: usize) -> usize {
        let unseen = self.answers.iter().skip(seen);
        let own = unseen.take_while(|answer| answer.label.agent == me);
        seen.saturating_add(own.count())
    }
}

/// What an agent hands in.
#[derive(Debug)]
pub enum Submission {
    /// A new answer.
    Answer(String),
    /// A vote, by an agent that had been shown so many answers.
    Vote {
        /// For whom.
        candidate: AgentNumber,
        /// For which of the candidate's answers, if the voter said so.
        ordinal: Option<u32>,
        /// Why.
        reason: String,
        /// How many answers the voter had been shown.
        known_answers: u32,
    },
    /// The agent leaves.
    Stopped {
        /// Why.
        reason: String,
        /// Whether its time was over.
        timed_out: bool,
    },
}

/// What becomes of a submission. The desk keeps an agent waiting until there is something to do.
#[derive(Debug)]
pub enum Verdict {
    /// It does not count, for this reason; the agent goes on.
    Refused(Refusal),
    /// It counted; now there are answers to judge.
    Judge {
        /// The name of the agent's answer, if it handed one in.
        recorded: Option<AnswerLabel>,
    },
    /// The coordination is over for this agent.
    Closed,
}

/// Where an agent hands things in.
#[derive(Debug)]
pub struct Desk {
    /// The agent's anonymous name.
    pub me: AgentNumber,
    /// How many agents take part.
    pub agents: usize,
    /// Takes submissions, with where the verdict goes.
    pub submissions: mpsc::Sender<(AgentNumber, Submission, oneshot::Sender<Verdict>)>,
    /// The answers that there are.
    pub board: watch::Receiver<Board>,
    /// How long rounds may take.
    pub limits: RoundLimits,
    /// When the agent looks at the answers, where a run is played again.
    pub cued: Option<Cued>,
    /// Says that the coordination is over, whatever the agent does.
    pub over: CancellationToken,
}

/// How long the rounds of an agent may take.
#[derive(Clone, Copy, Debug)]
pub struct RoundLimits {
    /// The first round, until the agent is told to finish.
    pub first: Option<Duration>,
    /// Every later round, until the agent is told to finish.
    pub later: Option<Duration>,
    /// How long after that it may use tools; then only its decision is waited for.
    pub grace: Duration,
}

/// How far a round's time has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    Running,
    FinishSoon,
    ToolsClosed,
}

/// Lets the agent work until the coordination is over or the agent drops out.
pub async fn coordinate(mind: Mind, desk: Desk) {
    let (limit, over) = (desk.limits.first, desk.over.clone());
    let mut seat = Seat {
        seen: 0,
        steps: 0,
        round: Round::begin(limit, desk.limits.grace),
        mind,
        desk,
    };
    let _worked = over.run_until_cancelled(seat.work()).await;
    seat.mind.rest().await;
}

/// One agent with what it knows of the others.
struct Seat {
    mind: Mind,
    desk: Desk,
    /// How many of the answers the agent has seen.
    seen: usize,
    /// How many steps it has taken.
    steps: u32,
    round: Round,
}

/// The time and patience of one round.
struct Round {
    started: Instant,
    soft: Option<Duration>,
    grace: Duration,
    told_to_finish: bool,
    undecided: u32,
    refused: u32,
    steps: u32,
}

impl Round {
    fn begin(soft: Option<Duration>, grace: Duration) -> Self {
        let started = Instant::now();
        Self {
            started,
            soft,
            grace,
            told_to_finish: false,
            undecided: 0,
            refused: 0,
            steps: 0,
        }
    }

    fn clock(&self) -> Clock {
        let Some(soft) = self.soft else {
            return Clock::Running;
        };
        let elapsed = self.started.elapsed();
        if elapsed >= soft.saturating_add(self.grace) {
            Clock::ToolsClosed
        } else if elapsed >= soft {
            Clock::FinishSoon
        } else {
            Clock::Running
        }
    }

    /// When the agent drops out, if the round has a limit at all.
    fn end(&self) -> Option<Instant> {
        let soft = self.soft?;
        self.started.checked_add(
            soft.saturating_add(self.grace)
                .saturating_add(LAST_DECISION_MAX),
        )
    }
}

impl Seat {
    async fn work(&mut self) {
        loop {
            self.catch_up().await;
            self.await_the_present().await;
            if self
                .desk
                .cued
                .as_ref()
                .is_some_and(|cued| cued.is_out_of_time(self.steps))
            {
                return self.out_of_time().await;
            }
            if self.round.clock() != Clock::Running && !self.round.told_to_finish {
                self.round.told_to_finish = true;
                self.mind.tell(brief::finish_soon());
            }
            self.round.steps = self.round.steps.saturating_add(1);
            self.mind.notice_servers().await;
            let steps_max = self.mind.steps_max;
            if self.round.steps > steps_max {
                let reason =
                    format!("no decision after {steps_max} requests (`max_steps_per_round`)");
                return self.stop(reason, false).await;
            }
            let said = match self.mind.step_unless(moment(self.round.end())).await {
                Ok(Ok(said)) => said,
                Ok(Err(fault)) => return self.stop(fault.message, false).await,
                Err(()) => return self.out_of_time().await,
            };
            self.steps = self.steps.saturating_add(1);
            let (decisions, files) = sort_calls(said.calls, &self.mind.served);
            let idle = decisions.is_empty() && files.is_empty();
            self.use_tools(files).await;
            match decide(decisions) {
                Decision::Contradiction(ids) => {
                    for id in ids {
                        self.mind.answer_call(&id, brief::one_decision());
                    }
                }
                Decision::None if idle => {
                    if self.undecided(said.text).await.is_none() {
                        return;
                    }
                }
                Decision::None => {}
                Decision::One { id, call } => {
                    if self.decided(&id, call, said.text).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// A reply without any call. The text of an agent that is alone and has no tools is its answer;
    /// others are asked to decide, and if they never do, their text is the answer that they lack.
    /// `None` when the coordination is over.
    async fn undecided(&mut self, text: String) -> Option<()> {
        self.round.undecided = self.round.undecided.saturating_add(1);
        let was_last = self.round.undecided >= UNDECIDED_REPLIES_MAX;
        let can_only_talk = self.desk.agents == 1 && self.mind.gate.is_none();
        let has_answered = self.has_answered();
        if (was_last || can_only_talk) && !has_answered && !text.trim().is_empty() {
            return self.hand_in(None, Submission::Answer(text)).await;
        }
        if was_last {
            let reason = format!("no decision in {UNDECIDED_REPLIES_MAX} replies");
            self.stop(reason, false).await;
            return None;
        }
        self.mind.tell(brief::decide_now(self.desk.agents));
        Some(())
    }

    /// Shows answers that came while the agent was at work.
    async fn catch_up(&mut self) {
        let unseen = self.look().await;
        if !unseen.is_empty() {
            self.mind.tell(brief::news(&unseen));
            self.inform(&unseen).await;
        }
    }

    /// Where a run is gone on with: an agent that has said all that is recorded of it waits for the
    /// others, and then sees what there is.
    async fn await_the_present(&mut self) {
        let is_over = self.mind.memory.as_ref().is_some_and(Memory::is_over);
        if let Some(cued) = self.desk.cued.as_ref().filter(|_| is_over) {
            cued.departed.cancelled().await;
            self.mind.memory = None;
            self.catch_up().await;
        }
    }

    /// The answers that the agent has not been shown; from now on it has.
    async fn look(&mut self) -> Vec<AnswerView> {
        let me = self.desk.me;
        let end = match &mut self.desk.cued {
            Some(cued) => cued.end(me, self.steps, &mut self.desk.board).await,
            None => Sight::All,
        };
        let board = self.desk.board.borrow_and_update();
        let end = match end {
            Sight::All => board.answers.len(),
            Sight::Before(end) => board.with_own(me, end.max(self.seen)),
        };
        let news = board.news(me, self.seen, end);
        self.seen = end;
        news
    }

    fn has_answered(&self) -> bool {
        let board = self.desk.board.borrow();
        let mut answers = board.answers.iter();
        answers.any(|answer| answer.label.agent == self.desk.me)
    }

    async fn inform(&self, answers: &[AnswerView]) {
        if !answers.is_empty() {
            let labels = answers.iter().map(|answer| answer.label).collect();
            self.mind
                .emit(Event::Informed {
                    agent: self.mind.agent.clone(),
                    labels,
                })
                .await;
        }
    }

    async fn use_tools(&mut self, files: Vec<FileCall>) {
        if self.round.clock() == Clock::ToolsClosed {
            for call in files {
                self.mind.answer_call(&call.request.id, brief::too_late());
            }
        } else {
            self.mind.carry_out(files).await;
        }
    }

    /// A reply with one decision; `None` when the coordination is over.
    async fn decided(&mut self, id: &str, call: WorkflowCall, text: String) -> Option<()> {
        let submission = match call {
            WorkflowCall::NewAnswer { content } => Submission::Answer(content.unwrap_or(text)),
            WorkflowCall::Vote {
                agent: candidate,
                ordinal,
                reason,
            } => {
                let known_answers = u32::try_from(self.seen).unwrap_or(u32::MAX);
                Submission::Vote {
                    candidate,
                    ordinal,
                    reason,
                    known_answers,
                }
            }
            WorkflowCall::Submit | WorkflowCall::Restart { .. } => {
                self.mind.answer_call(id, brief::nothing_to_judge());
                return Some(());
            }
        };
        self.hand_in(Some(id), submission).await
    }

    /// Hands a decision in, which came with the call `id` if with any, and waits for the verdict;
    /// `None` when the coordination is over.
    async fn hand_in(&mut self, id: Option<&str>, submission: Submission) -> Option<()> {
        match self.submit(submission).await {
            Verdict::Closed => None,
            Verdict::Refused(refusal) => {
                let reason = brief::refusal(&refusal);
                self.reply(id, reason);
                // News that came meanwhile is not the agent's fault, and ends with the answers.
                if refusal != Refusal::Outdated {
                    self.round.refused = self.round.refused.saturating_add(1);
                }
                if self.round.refused >= REFUSALS_MAX {
                    self.stop("its decisions were refused too often".into(), false)
                        .await;
                    return None;
                }
                Some(())
            }
            Verdict::Judge { recorded } => {
                let counted = recorded.map_or_else(|| brief::counted().to_owned(), brief::accepted);
                self.reply(id, counted);
                let unseen = self.look().await;
                self.mind.tell(brief::judge(&unseen, self.desk.me));
                self.inform(&unseen).await;
                if let Some(hooks) = self.mind.gate.as_ref().and_then(Gate::hooks) {
                    hooks.begin_round();
                }
                self.round = Round::begin(self.desk.limits.later, self.desk.limits.grace);
                Some(())
            }
        }
    }

    fn reply(&mut self, id: Option<&str>, text: String) {
        match id {
            Some(id) => self.mind.answer_call(id, text),
            None => self.mind.tell(text),
        }
    }

    async fn submit(&self, submission: Submission) -> Verdict {
        let (answer, verdict) = oneshot::channel();
        if self
            .desk
            .submissions
            .send((self.desk.me, submission, answer))
            .await
            .is_err()
        {
            return Verdict::Closed;
        }
        verdict.await.unwrap_or(Verdict::Closed)
    }

    async fn out_of_time(&self) {
        self.stop("its time for the round is over".into(), true)
            .await;
    }

    async fn stop(&self, reason: String, timed_out: bool) {
        self.submit(Submission::Stopped { reason, timed_out }).await;
    }
}

/// Waits until then; for ever where there is no such moment.
async fn moment(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => pending().await,
    }
}

/// What the workflow calls of one reply come to.
enum Decision {
    None,
    One { id: String, call: WorkflowCall },
    Contradiction(Vec<String>),
}

fn decide(mut calls: Vec<(String, WorkflowCall)>) -> Decision {
    match (calls.pop(), calls.is_empty()) {
        (None, _) => Decision::None,
        (Some((id, call)), true) => Decision::One { id, call },
        (Some(last), false) => {
            calls.push(last);
            Decision::Contradiction(calls.into_iter().map(|(id, _)| id).collect())
        }
    }
}

/// Parts the calls of a reply into decisions and file tools, each in their order. A call that
/// cannot be understood is answered as a file call.
fn sort_calls(
    calls: Vec<CallRequest>,
    served: &Catalogue,
) -> (Vec<(String, WorkflowCall)>, Vec<FileCall>) {
    let mut decisions = Vec::new();
    let mut files = Vec::new();
    for request in calls {
        match parse_call(&request.name, &request.arguments, served) {
            Ok(ModelCall::Workflow(call)) => decisions.push((request.id, call)),
            Ok(ModelCall::File(call)) => files.push(FileCall {
                request,
                call: Ok(call),
            }),
            Err(error) => files.push(FileCall {
                request,
                call: Err(error.to_string()),
            }),
        }
    }
    (decisions, files)
}
