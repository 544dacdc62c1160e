//! Owns a pipeline from its task to its end: which role works next, and when it is over. A role works in
//! an ordinary run; what it made becomes part of the shared branch, whose history alone says what was
//! done. So a pipeline that is killed goes on where it was.

pub mod delivering;
pub mod ground;
mod instructions;
pub mod looking;
mod merging;
mod part;
mod people;
mod seat;
mod taking_back;
mod taking_up;
mod telling;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::sync::mpsc::Sender;

use crate::agent::emit;
use crate::config::Config;
use crate::config::workflow::Workflow;
use crate::error::{Error, ExitStatus, Result};
use crate::event::{Event, PipelineStep};
use crate::id::AgentId;
use crate::orchestrator::asking::People;
use crate::orchestrator::conduct::{StartedWith, Stop};
use crate::orchestrator::shells::Machine;
use crate::orchestrator::{FinalAnswer, Models};
use crate::path::AbsPath;
use crate::pipeline::ground::Ground;
use crate::pipeline::merging::Merging;
use crate::pipeline::part::{Part, Played, Work};
use crate::pipeline::seat::{Seat, expect_guests};
use crate::pipeline::telling::Now;
use crate::prompt::opened::Opened;
use crate::roles::course::{Next, Over, next};
use crate::roles::trail::{Entry, done, merged};
use crate::roles::{Pipeline as Course, Stage};
use crate::spending::books::Books;
use crate::world::store::redact::Redactor;
use crate::world::telemetry::settings::Settings;

/// Who plays in a pipeline, and what they need of the process.
#[derive(Debug)]
pub struct Company {
    /// The models of all agents.
    pub models: Models,
    /// What the records must never hold.
    pub redactor: Redactor,
    /// Where spans are sent, if anywhere.
    pub telemetry: Option<Settings>,
    /// What the pipeline was started with, for the records.
    pub started_with: StartedWith,
    /// What commands need to know about the process.
    pub machine: Machine,
    /// Who is asked about calls.
    pub people: People,
    /// What the person who is asked about the task has answered before.
    pub answers: Option<String>,
}

/// A pipeline that is ready to run.
#[derive(Debug)]
pub struct Pipeline {
    config: Config,
    workflow: Workflow,
    base: AbsPath,
    opened: Vec<Opened>,
    company: Company,
    ground: Ground,
    stop: Stop,
    events: Sender<Event>,
    books: Mutex<Books>,
    /// What was said of the sandboxes of agents.
    confined: Mutex<BTreeSet<String>>,
}

/// What a pipeline came to.
#[derive(Debug)]
pub struct PipelineResult {
    /// How the process should end.
    pub status: ExitStatus,
    /// One sentence for people.
    pub summary: String,
    /// What its last role said, if any did.
    pub answer: Option<FinalAnswer>,
}

/// Why a pipeline does not go on.
#[derive(Debug)]
struct Halt {
    status: ExitStatus,
    why: String,
    then: Then,
}

/// What can be done with a pipeline that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It has come to its end.
    Over,
    /// It can be gone on with.
    GoOn,
}

impl Pipeline {
    /// The pipeline of `config` on `ground`, by a user who stands in `base` and whose prompt opened
    /// `opened`. It is an error if the config has none.
    pub fn new(
        config: Config,
        (base, opened): (AbsPath, Vec<Opened>),
        (company, ground): (Company, Ground),
        (stop, events): (Stop, Sender<Event>),
    ) -> Result<Self> {
        let workflow = config.workflow.clone();
        let workflow = workflow.ok_or_else(|| Error::bug("the config has no pipeline"))?;
        expect_guests(&config, &workflow.pipeline.stages)?;
        Ok(Self {
            config,
            workflow,
            base,
            opened,
            company,
            ground,
            stop,
            events,
            books: Mutex::default(),
            confined: Mutex::default(),
        })
    }

    /// Runs it to its end. What goes wrong in a role is part of the result; an error means that it could
    /// not go on at all.
    pub async fn run(self) -> Result<PipelineResult> {
        self.count_what_was_used()?;
        self.begin().await;
        self.expect_checks().await?;
        let ended = loop {
            let trail = self.ground.trail().await?;
            match next(
                self.course(),
                &done(&self.ground.record.roles, views(&trail)),
            ) {
                Next::Over(over) => {
                    self.end_iteration(&trail).await?;
                    break self.over(over);
                }
                Next::Work { iteration, stage } => {
                    self.begin_iteration(iteration, &trail).await?;
                    if let Some(halt) = self.work((iteration, stage), &trail).await? {
                        break halt;
                    }
                }
            }
        };
        self.conclude(ended).await
    }

    fn course(&self) -> &Course {
        &self.workflow.pipeline
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn begin(&self) {
        let stages = self.course().stages.iter();
        let mut agents: Vec<_> = stages.flat_map(|stage| stage.agents.clone()).collect();
        agents.sort();
        agents.dedup();
        let question = Arc::from(self.ground.record.task.as_str());
        let begun = Event::RunStarted {
            question,
            agents,
            attempt: 1,
        };
        emit(&self.events, begun).await;
    }

    /// Says on the shared branch that an iteration begins, and before that, that another has ended.
    async fn begin_iteration(&self, iteration: u32, trail: &[(Entry, String)]) -> Result<()> {
        let begun = Entry::Begin { iteration };
        if trail.iter().any(|(entry, _)| *entry == begun) {
            return Ok(());
        }
        self.end_iteration(trail).await?;
        let subject = format!("[supervisor] begin iteration {iteration}");
        self.note(&begun, &subject).await
    }

    /// Says on the shared branch that the last iteration has ended, unless it is said.
    async fn end_iteration(&self, trail: &[(Entry, String)]) -> Result<()> {
        let last = trail.iter().rev().find_map(|(entry, _)| {
            if let Entry::Begin { iteration } = entry {
                Some(*iteration)
            } else {
                None
            }
        });
        let Some(iteration) = last else {
            return Ok(());
        };
        let ended = Entry::End { iteration };
        if trail.iter().any(|(entry, _)| *entry == ended) {
            return Ok(());
        }
        let subject = format!("[supervisor] end iteration {iteration}");
        self.note(&ended, &subject).await
    }

    async fn note(&self, entry: &Entry, subject: &str) -> Result<()> {
        let tip = self.ground.tip().await?;
        let tree = self.ground.hub.tree_of(&tip).await?;
        let message = entry.message(subject, "");
        let made = self.ground.commit((&tip, &[], &tree), &message).await;
        made.map(drop)
    }

    /// Lets a stage work and merges what it made; `trail` tells of all that was merged before. Gives why
    /// the pipeline ends there, if it does.
    async fn work(
        &self,
        (iteration, number): (u32, usize),
        trail: &[(Entry, String)],
    ) -> Result<Option<Halt>> {
        let stage = self.course().stage(number);
        let stage = stage.ok_or_else(|| Error::bug(format!("no stage is {number}")))?;
        if let Some(halt) = self.may_not_begin(stage) {
            return Ok(Some(halt));
        }
        let tip = self.ground.tip().await?;
        let tree = self.ground.hub.tree_of(&tip).await?;
        let now = Now {
            ground: &self.ground,
            pipeline: self.course(),
            tip: &tip,
            tree: &tree,
            trail,
        };
        let parts = match stage.copies {
            1 => Vec::new(),
            _ => now.parts_for(number).await?,
        };
        let copies = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let copies = copies.clamp(1, stage.copies);
        let merged = merged(views(trail), (iteration, &stage.role.name));
        let open: Vec<u32> = (1..=copies).filter(|copy| !merged.contains(copy)).collect();
        if open.is_empty() {
            let message = format!(
                "{} has nothing left to do, and is not done",
                stage.role.name
            );
            return Err(Error::bug(message));
        }
        let stages = self.course().stages.len();
        let mut playing = Vec::new();
        for copy in open {
            let seat = Seat::of(&stage.role, (iteration, number), (copy, copies));
            let works = PipelineStep::Works {
                iteration,
                role: seat.name.clone(),
                stage: number.saturating_add(1),
                stages,
                agents: seat_agents(stage, &seat)?,
            };
            emit(&self.events, Event::Pipeline { step: works }).await;
            let index = usize::try_from(copy).unwrap_or_default().saturating_sub(1);
            let of_plan = parts.get(index).filter(|_| copies > 1);
            let of_plan = of_plan.map(String::as_str);
            let told = now.question((stage, &seat), &self.config, of_plan).await?;
            let question = format!("{}\n\n{told}", self.heading(&seat));
            let work = Work::New { question };
            playing.push(Part { stage, seat, work });
        }
        let played = join_all(playing.iter().map(|part| self.begin_part(part, &tip))).await;
        // One after the other, in the order of the copies, so that it is the same every time.
        for (part, played) in playing.iter().zip(played) {
            let halt = match played? {
                Played::Whole(whole) => {
                    let merging = Merging {
                        pipeline: self,
                        part,
                    };
                    merging.carry_out(*whole).await?
                }
                Played::Not(halt) => Some(halt),
            };
            if halt.is_some() {
                return Ok(halt);
            }
        }
        Ok(None)
    }

    /// Why no stage may begin any more, if so.
    fn may_not_begin(&self, stage: &Stage) -> Option<Halt> {
        if self.stop.soon.is_cancelled() {
            return Some(Halt {
                status: ExitStatus::Interrupted,
                why: "interrupted".to_owned(),
                then: Then::GoOn,
            });
        }
        let (books, limits) = (self.books(), &self.config.limits);
        let met = limits.met_by(&books.run());
        let met = met.or_else(|| limits.met_by_calls(books.tool_calls()));
        let of_an_agent = || {
            let agents = self.config.agents.iter();
            let mut its = agents.filter(|agent| stage.agents.contains(&agent.id));
            its.find_map(|agent| {
                let met = agent.limits.met_by(&books.agent(&agent.id))?;
                Some(format!("{} {met}", agent.id))
            })
        };
        let met = met.map(|met| format!("the pipeline {met}"));
        let why = met.or_else(of_an_agent)?;
        Some(Halt {
            status: ExitStatus::Limit,
            why,
            then: Then::GoOn,
        })
    }

    fn over(&self, over: Over) -> Halt {
        let iterations = self.course().iterations_max;
        let (status, why) = match (over, &self.course().until) {
            (Over::Finished, Some(role)) => (ExitStatus::Delivered, format!("{role} is satisfied")),
            (Over::Finished, None) => (
                ExitStatus::Delivered,
                "all stages were gone through".to_owned(),
            ),
            (Over::OutOfIterations, Some(role)) => (
                ExitStatus::Limit,
                format!(
                    "{role} is not satisfied after {iterations} iterations, and there may be no more"
                ),
            ),
            (Over::OutOfIterations, None) => (
                ExitStatus::Limit,
                format!("there may be no more than {iterations} iterations"),
            ),
            (Over::NoProgress, _) => (
                ExitStatus::NoAnswer,
                "the last iterations have changed nothing, or brought the same feedback".to_owned(),
            ),
        };
        Halt {
            status,
            why,
            then: Then::Over,
        }
    }

    /// Tells how it ended.
    async fn conclude(self, halt: Halt) -> Result<PipelineResult> {
        let name = self.ground.dir.name();
        let trail = self.ground.trail().await?;
        let last = trail
            .iter()
            .rev()
            .find_map(|(entry, text)| Some((entry.merge()?, text)));
        let answer = last.and_then(|(merge, text)| {
            let stages = self.course().stages.iter();
            let stage = stages
                .into_iter()
                .find(|stage| stage.role.name == merge.role)?;
            Some(FinalAnswer {
                agent: stage.agents.first()?.clone(),
                text: Arc::from(text.as_str()),
            })
        });
        // What a stage before said is no answer of a pipeline that did not come to its end.
        let answer = answer.filter(|_| halt.then == Then::Over);
        if let Some(answer) = &answer {
            let told = Event::FinalAnswer {
                agent: answer.agent.clone(),
                content: Arc::clone(&answer.text),
            };
            emit(&self.events, told).await;
        }
        let way_on = if halt.status == ExitStatus::Delivered {
            if self.ground.has_something_to_deliver().await? {
                format!("deliver it: massgen apply {name}")
            } else {
                format!("it changed no files to deliver; see: massgen log {name}")
            }
        } else {
            match halt.then {
                Then::Over => format!("see what there is: massgen log {name}"),
                Then::GoOn => {
                    format!("go on: massgen --continue, or see what there is: massgen log {name}")
                }
            }
        };
        let summary = format!("{}; {way_on}", halt.why);
        let ended = Event::RunEnded {
            status: halt.status,
            summary: summary.clone(),
        };
        emit(&self.events, ended).await;
        Ok(PipelineResult {
            status: halt.status,
            summary,
            answer,
        })
    }
}

/// The entries of a trail, with the texts beside them.
fn views(trail: &[(Entry, String)]) -> impl Iterator<Item = (&Entry, &str)> {
    trail.iter().map(|(entry, text)| (entry, text.as_str()))
}

fn seat_agents(stage: &Stage, seat: &Seat) -> Result<Vec<AgentId>> {
    let ids = stage.agents.iter().map(|id| seat::id_of(id, seat));
    ids.collect()
}
