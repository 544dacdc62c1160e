//! Owns the coordination of one attempt: takes what agents hand in, asks the ballot, and performs
//! its effects. It decides nothing itself.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agent::patience::{Over, Patience};
use crate::agent::round::{Board, Desk, RoundLimits, Submission, Verdict, coordinate};
use crate::agent::{Mind, emit};
use crate::ballot::{Ballot, BallotRules, Effect, Outcome, Refusal, Tally};
use crate::brief::{self, AnswerView};
use crate::event::Event;
use crate::evidence::Evidence;
use crate::id::{AgentId, AgentNumber, AnswerLabel};
use crate::orchestrator::course::{Followed, Handed, Heard, Intake};
use crate::orchestrator::examiner::{Examined, Examiner};
use crate::orchestrator::hooks::{self, Asked};
use crate::orchestrator::snapshots::SnapshotStore;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Phase;
use crate::world::hooks::Hooks;

/// Submissions that may wait for the desk; agents wait for their verdict, so there is one each.
const SUBMISSIONS_MAX: usize = 64;

/// One agent that takes part.
#[derive(Debug)]
pub struct Participant {
    /// Its own name.
    pub id: AgentId,
    /// Its anonymous name.
    pub number: AgentNumber,
    /// Its workspace, if it has one.
    pub workspace: Option<AbsPath>,
    /// What is asked about its answers and votes, if anything.
    pub hooks: Option<Hooks>,
    /// Its conversation, with the task told.
    pub mind: Mind,
}

/// An accepted answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its name.
    pub label: AnswerLabel,
    /// As the agent gave it.
    pub content: Arc<str>,
    /// The files that belong to it.
    pub snapshot: Option<RealPath>,
    /// How the checks ended on it, if there are any.
    pub evidence: Option<Evidence>,
}

/// A vote that counts.
#[derive(Clone, Debug)]
pub struct CountedVote {
    /// For whom.
    pub candidate: AgentNumber,
    /// Why.
    pub reason: String,
}

/// How a coordination ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every agent that is still there has voted.
    Agreed,
    /// It could not go on.
    Over(Over),
}

/// What a coordination came to.
#[derive(Debug)]
pub struct Coordinated {
    /// How it ended.
    pub end: End,
    /// Who won; without one nobody answered.
    pub tally: Option<Tally>,
    /// The latest answer of each agent that gave one.
    pub answers: BTreeMap<AgentNumber, Answer>,
    /// The votes that counted at the end, by voter.
    pub votes: BTreeMap<AgentNumber, CountedVote>,
}

impl Coordinated {
    /// One in which nobody has answered.
    pub fn without_answers(end: End) -> Self {
        Self {
            end,
            tally: None,
            answers: BTreeMap::new(),
            votes: BTreeMap::new(),
        }
    }
}

/// What limits a coordination.
#[derive(Debug)]
pub struct Limits {
    /// The rules of the ballot.
    pub ballot: BallotRules,
    /// How long rounds may take.
    pub rounds: RoundLimits,
    /// Until when it may go on; then it is closed as it stands.
    pub patience: Patience,
    /// What looks at answers before anybody else does, if the config has checks.
    pub examiner: Option<Examiner>,
}

/// Lets `participants`, given in registration order, work until the ballot is closed; on the course
/// of a record if one is `followed`.
pub async fn run(
    participants: Vec<Participant>,
    limits: Limits,
    mut followed: Option<Followed>,
    snapshots: &mut SnapshotStore,
    events: &mpsc::Sender<Event>,
) -> Coordinated {
    let (submissions, handed) = mpsc::channel::<Handed>(SUBMISSIONS_MAX);
    let known = followed
        .as_mut()
        .map(|followed| std::mem::take(&mut followed.course.evidence));
    let known = known.unwrap_or_default();
    let mut intake = Intake::new(handed, followed);
    let (board, watched) = watch::channel(Board::default());
    let mut table = Table {
        ballot: Ballot::new(participants.iter().map(|p| p.number), limits.ballot),
        people: BTreeMap::new(),
        board,
        parked: BTreeMap::new(),
        answers: BTreeMap::new(),
        votes: BTreeMap::new(),
        snapshots,
        examiner: limits.examiner.as_ref(),
        known,
        patience: &limits.patience,
        events,
    };
    let agents = participants.len();
    let over = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let mut task_of = BTreeMap::new();
    for participant in participants {
        let (number, person, mind) = participant.seated();
        table.people.insert(number, person);
        let desk = Desk {
            me: number,
            agents,
            submissions: submissions.clone(),
            board: watched.clone(),
            limits: limits.rounds,
            cued: intake.cued(number),
            over: over.clone(),
        };
        task_of.insert(tasks.spawn(coordinate(mind, desk)).id().to_string(), number);
    }
    drop(submissions);
    let closed = loop {
        let closed = tokio::select! {
            Some(((agent, submission, verdict), heard)) =
                intake.next(|agent| table.ballot.is_at_work(agent)) =>
            {
                table.take((agent, submission, heard), verdict).await
            }
            Some(Err(died)) = tasks.join_next() => {
                match task_of.get(&died.id().to_string()) {
                    Some(agent) => table.died(*agent).await,
                    None => None,
                }
            }
            over = limits.patience.over() => {
                table.emit(Event::CutShort { status: over.status() }).await;
                Some((End::Over(over), table.ballot.close()))
            }
        };
        if let Some(closed) = closed {
            break closed;
        }
    };
    over.cancel();
    while tasks.join_next().await.is_some() {}
    table.result(closed)
}

impl Participant {
    /// Who takes part, what the table knows of it, and what goes on its own way.
    fn seated(self) -> (AgentNumber, Person, Mind) {
        let person = Person {
            id: self.id,
            workspace: self.workspace,
            hooks: self.hooks,
        };
        (self.number, person, self.mind)
    }
}

struct Person {
    id: AgentId,
    workspace: Option<AbsPath>,
    hooks: Option<Hooks>,
}

/// An agent that waits for its verdict.
struct Parked {
    verdict: oneshot::Sender<Verdict>,
    recorded: Option<AnswerLabel>,
}

/// Where one coordination happens.
struct Table<'a> {
    ballot: Ballot,
    people: BTreeMap<AgentNumber, Person>,
    board: watch::Sender<Board>,
    parked: BTreeMap<AgentNumber, Parked>,
    answers: BTreeMap<AgentNumber, Answer>,
    votes: BTreeMap<AgentNumber, CountedVote>,
    snapshots: &'a mut SnapshotStore,
    examiner: Option<&'a Examiner>,
    /// What a record tells of answers that will be given.
    known: BTreeMap<AnswerLabel, Evidence>,
    patience: &'a Patience,
    events: &'a mpsc::Sender<Event>,
}

/// What an agent handed in, kept until the ballot has said whether it counts.
enum Pending {
    Answer(String),
    Vote(String),
    Nothing,
}

impl Table<'_> {
    async fn take(
        &mut self,
        (agent, submission, heard): (AgentNumber, Submission, Heard),
        verdict: oneshot::Sender<Verdict>,
    ) -> Option<(End, Effect)> {
        self.parked.insert(
            agent,
            Parked {
                verdict,
                recorded: None,
            },
        );
        let refused = match heard {
            Heard::Nothing => self.refused_by_hook(agent, &submission).await,
            Heard::Recorded(hook) => hook,
        };
        if let Some(reason) = refused {
            self.refuse(agent, Refusal::ByHook(reason)).await;
            return None;
        }
        let (outcome, pending) = match submission {
            Submission::Answer(content) => {
                let neutral = match self.workspace(agent) {
                    Some(workspace) => brief::rewrite_paths(&content, workspace, "."),
                    None => content.clone(),
                };
                (
                    Outcome::Answer { content: neutral },
                    Pending::Answer(content),
                )
            }
            Submission::Vote {
                candidate,
                ordinal,
                reason,
                known_answers,
            } => (
                Outcome::Vote {
                    candidate,
                    ordinal,
                    known_answers,
                },
                Pending::Vote(reason),
            ),
            Submission::Stopped { reason, timed_out } => {
                self.leave(agent, reason, timed_out).await;
                (Outcome::Stopped, Pending::Nothing)
            }
        };
        self.step(agent, outcome, pending).await
    }

    /// Why the user's hooks refuse what an agent hands in, if they do.
    async fn refused_by_hook(&self, agent: AgentNumber, submission: &Submission) -> Option<String> {
        let hooks = self.people.get(&agent)?.hooks.as_ref()?;
        let latest = |agent| self.answers.get(agent).map(|answer| answer.label);
        let asked = match submission {
            Submission::Answer(content) => {
                let before = latest(&agent).map_or(0, |label| label.ordinal);
                let ordinal = before.saturating_add(1);
                Asked::Answer(AnswerLabel { agent, ordinal }, content.clone())
            }
            Submission::Vote {
                candidate, reason, ..
            } => Asked::Vote(self.id(*candidate)?, latest(candidate)?, reason.clone()),
            Submission::Stopped { .. } => return None,
        };
        let here = (Phase::Coordination, None);
        let ended = self.patience.stop.child_token();
        let mut refusal = pin!(hooks::refusal(hooks, asked, here, &ended));
        tokio::select! {
            refusal = &mut refusal => refusal,
            _ = self.patience.over() => {
                ended.cancel();
                refusal.await
            }
        }
    }

    /// An agent whose task broke has left like any other; the run goes on without it.
    async fn died(&mut self, agent: AgentNumber) -> Option<(End, Effect)> {
        self.leave(agent, "it failed inside massgen".to_owned(), false)
            .await;
        self.step(agent, Outcome::Stopped, Pending::Nothing).await
    }

    async fn leave(&mut self, agent: AgentNumber, reason: String, timed_out: bool) {
        self.parked.remove(&agent);
        if let Some(id) = self.id(agent) {
            self.emit(Event::DroppedOut {
                agent: id,
                reason,
                timed_out,
            })
            .await;
        }
    }

    async fn step(
        &mut self,
        agent: AgentNumber,
        outcome: Outcome,
        pending: Pending,
    ) -> Option<(End, Effect)> {
        let mut pending = pending;
        for effect in self.ballot.step(agent, outcome) {
            match effect {
                Effect::AcceptAnswer(label) => {
                    if let Pending::Answer(content) =
                        std::mem::replace(&mut pending, Pending::Nothing)
                    {
                        self.accept_answer(label, content).await;
                    }
                }
                Effect::AcceptVote { voter, answer } => {
                    if let Pending::Vote(reason) = std::mem::replace(&mut pending, Pending::Nothing)
                    {
                        self.accept_vote(voter, answer, reason).await;
                    }
                }
                Effect::VoidVotes(voters) => self.void(voters).await,
                Effect::Refuse { agent, refusal } => self.refuse(agent, refusal).await,
                Effect::Judge(agent) => {
                    self.reply(agent, |recorded| Verdict::Judge { recorded });
                }
                Effect::Close(_) | Effect::GiveUp => return Some((End::Agreed, effect)),
            }
        }
        None
    }

    async fn accept_answer(&mut self, label: AnswerLabel, content: String) {
        let Some(id) = self.id(label.agent) else {
            return;
        };
        let workspace = self.workspace(label.agent).cloned();
        let snapshot = match &workspace {
            None => None,
            Some(workspace) => match self.snapshots.take(&id, label, workspace).await {
                Ok(None) => None,
                Ok(Some(snapshot)) => {
                    for note in snapshot.notes {
                        self.emit(Event::Warning {
                            message: format!("snapshot of {label}: {note}"),
                        })
                        .await;
                    }
                    Some(snapshot.path)
                }
                Err(error) => {
                    let message = format!("there is no snapshot of {label}: {error:#}");
                    self.emit(Event::Warning { message }).await;
                    None
                }
            },
        };
        let evidence = self.evidence(&id, label, snapshot.as_ref()).await;
        if let Some(evidence) = &evidence {
            self.ballot.weigh(label, evidence.standing());
        }
        let content: Arc<str> = content.into();
        // Told before anyone can be shown it.
        self.emit(Event::Answered {
            agent: id,
            label,
            content: Arc::clone(&content),
            snapshot: snapshot.as_ref().map(ToString::to_string),
            evidence: evidence.clone(),
        })
        .await;
        self.answers.insert(
            label.agent,
            Answer {
                label,
                content,
                snapshot,
                evidence,
            },
        );
        if let Some(parked) = self.parked.get_mut(&label.agent) {
            parked.recorded = Some(label);
        }
        let view = self.view(label.agent);
        self.board.send_modify(|board| board.answers.extend(view));
    }

    /// What is known of the answer: what a record tells, or how the checks end on it now.
    async fn evidence(
        &mut self,
        agent: &AgentId,
        label: AnswerLabel,
        snapshot: Option<&RealPath>,
    ) -> Option<Evidence> {
        if let Some(known) = self.known.remove(&label) {
            return Some(known);
        }
        let examined = Examined::Answer(snapshot.cloned());
        let (patience, events) = (self.patience, self.events);
        let evidence = self.examiner?.examine(agent, examined, patience, events);
        Some(evidence.await)
    }

    async fn accept_vote(&mut self, voter: AgentNumber, answer: AnswerLabel, reason: String) {
        let candidate = answer.agent;
        self.votes.insert(
            voter,
            CountedVote {
                candidate,
                reason: reason.clone(),
            },
        );
        if let (Some(agent), Some(candidate)) = (self.id(voter), self.id(candidate)) {
            self.emit(Event::Voted {
                agent,
                candidate,
                label: answer,
                reason,
            })
            .await;
        }
    }

    async fn void(&mut self, voters: Vec<AgentNumber>) {
        self.votes.clear();
        let voters = voters
            .into_iter()
            .filter_map(|voter| self.id(voter))
            .collect();
        self.emit(Event::VotesVoided { voters }).await;
    }

    async fn refuse(&mut self, agent: AgentNumber, refusal: Refusal) {
        if let Some(agent) = self.id(agent) {
            let reason = brief::refusal(&refusal);
            let hook = match &refusal {
                Refusal::ByHook(why) => Some(why.clone()),
                Refusal::EmptyAnswer
                | Refusal::AnswerLimit { .. }
                | Refusal::Duplicate(_)
                | Refusal::TooSimilar(_)
                | Refusal::NothingToVoteFor
                | Refusal::UnknownCandidate { .. }
                | Refusal::Outdated => None,
            };
            let refused = Event::Refused {
                agent,
                reason,
                hook,
            };
            self.emit(refused).await;
        }
        self.reply(agent, |_| Verdict::Refused(refusal));
    }

    fn reply(&mut self, agent: AgentNumber, verdict: impl FnOnce(Option<AnswerLabel>) -> Verdict) {
        if let Some(Parked {
            verdict: to,
            recorded,
        }) = self.parked.remove(&agent)
        {
            // An agent that no longer listens has ended; its seat is cleared when its task is seen.
            let _gone = to.send(verdict(recorded));
        }
    }

    /// The answer of `agent` as the others read it.
    fn view(&self, agent: AgentNumber) -> Option<AnswerView> {
        let answer = self.answers.get(&agent)?;
        Some(answer.view(self.workspace(agent)))
    }

    fn workspace(&self, agent: AgentNumber) -> Option<&AbsPath> {
        self.people.get(&agent)?.workspace.as_ref()
    }

    fn id(&self, agent: AgentNumber) -> Option<AgentId> {
        self.people.get(&agent).map(|person| person.id.clone())
    }

    async fn emit(&self, event: Event) {
        emit(self.events, event).await;
    }

    fn result(self, (end, effect): (End, Effect)) -> Coordinated {
        let tally = match effect {
            Effect::Close(tally) => Some(tally),
            Effect::AcceptAnswer(_)
            | Effect::AcceptVote { .. }
            | Effect::Refuse { .. }
            | Effect::VoidVotes(_)
            | Effect::Judge(_)
            | Effect::GiveUp => None,
        };
        let Table { answers, votes, .. } = self;
        Coordinated {
            end,
            tally,
            answers,
            votes,
        }
    }
}

impl Answer {
    /// The answer as someone else reads it: paths of the author's `workspace` lead to the snapshot.
    pub fn view(&self, workspace: Option<&AbsPath>) -> AnswerView {
        let files = self.snapshot.as_ref().map(ToString::to_string);
        let content = match (workspace, &files) {
            (Some(workspace), Some(files)) => brief::rewrite_paths(&self.content, workspace, files),
            _ => self.content.to_string(),
        };
        AnswerView {
            label: self.label,
            content: content.into(),
            files,
            evidence: self.evidence.clone(),
        }
    }
}
