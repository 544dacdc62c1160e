//! Owns one part of a pipeline: a seat at work in a run of its own. A part that was broken off is gone on
//! with, and one that has ended is not played again.

use std::sync::{Arc, PoisonError};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::agent::emit;
use crate::config::Config;
use crate::error::{Error, ExitStatus, Result};
use crate::event::Event;
use crate::id::AgentId;
use crate::layout::{Layout, RunName};
use crate::orchestrator::conduct::{Files, Order, Run};
use crate::orchestrator::course::Again;
use crate::orchestrator::{Models, TurnResult};
use crate::path::{AbsPath, RelPath};
use crate::pipeline::seat::{Desk, Reach, Seat, config_of, id_of};
use crate::pipeline::{Halt, Pipeline, Then};
use crate::resume::{Reading, Unfinished, unfinished};
use crate::roles::{Right, Stage};
use crate::spending::books::Books;
use crate::wording::one_line;
use crate::world::git::checkout::{Checkout, PRIVATE};
use crate::world::git::object::{Author, ObjectId};
use crate::world::git::private::Outset;
use crate::world::store::runs::{self, RunDir};
use crate::world::store::sessions::session::Session;
use crate::world::store::sessions::{self, find};

/// The longest task in what a part is called, in characters.
const HEADING_CHARS_MAX: usize = 200;
/// Events that may wait to be passed on.
const EVENTS_WAITING_MAX: usize = 256;

/// A part to be played.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) stage: &'a Stage,
    pub(super) seat: Seat,
    pub(super) work: Work,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// The role's own work.
    New {
        /// What its agents are told.
        question: String,
    },
    /// Work that did not merge is put right.
    Mend {
        /// What its agents are told.
        question: String,
        /// Which try it is, from 1.
        tried: u32,
        /// What they begin with.
        tree: ObjectId,
    },
}

/// What a part came to.
#[derive(Debug)]
pub(super) enum Played {
    /// It was played to its end.
    Whole(Box<Whole>),
    /// It was not, and the pipeline ends there.
    Not(Halt),
}

fn played(whole: Whole) -> Played {
    Played::Whole(Box::new(whole))
}

/// A part that was played to its end.
#[derive(Debug)]
pub(super) struct Whole {
    /// The files.
    pub(super) checkout: Checkout,
    /// Who they are by.
    pub(super) author: Author,
    /// Whose answer counts.
    pub(super) agent: AgentId,
    /// The answer.
    pub(super) answer: Arc<str>,
}

/// What is left of a part that was begun before.
enum Before {
    Nothing,
    BrokenOff(Box<Unfinished>, AbsPath),
    Ended { agent: AgentId, answer: String },
}

impl Work {
    fn question(&self) -> &str {
        match self {
            Work::New { question } | Work::Mend { question, .. } => question,
        }
    }

    /// Which try it is; the role's own work is none.
    pub(super) fn tried(&self) -> u32 {
        match self {
            Work::New { .. } => 0,
            Work::Mend { tried, .. } => *tried,
        }
    }
}

impl Pipeline {
    /// Plays a part whose branch begins at `tip` of the shared branch.
    pub(super) async fn begin_part(&self, part: &Part<'_>, tip: &ObjectId) -> Result<Played> {
        let checkouts = self.checkouts(part);
        let order = match self.before(part)? {
            Before::Ended { agent, answer } => {
                let answered = (agent, Arc::from(answer));
                return self.whole(part, &checkouts, answered).map(played);
            }
            Before::BrokenOff(unfinished, sessions) => {
                let config = self.config_of(part, &checkouts)?;
                self.resumed(part, config, (*unfinished, &sessions))?
            }
            Before::Nothing => {
                self.lay_out(part, &checkouts, tip).await?;
                let config = self.config_of(part, &checkouts)?;
                self.order(part, config)?
            }
        };
        match Box::pin(self.conduct(&part.seat.name, order)).await? {
            Ok(answered) => self.whole(part, &checkouts, answered).map(played),
            Err(halt) => Ok(Played::Not(halt)),
        }
    }

    /// Whose files count, and who they are by.
    fn whole(
        &self,
        part: &Part<'_>,
        checkouts: &[Checkout],
        (agent, answer): (AgentId, Arc<str>),
    ) -> Result<Whole> {
        let (stage, seat) = (part.stage, &part.seat);
        let mut found = None;
        for (id, checkout) in stage.agents.iter().zip(checkouts) {
            if id_of(id, seat)? == agent {
                found = Some((id, checkout));
            }
        }
        let (id, checkout) = found.ok_or_else(|| Error::bug(format!("`{agent}` has no seat")))?;
        Ok(Whole {
            checkout: checkout.clone(),
            author: self.author(part, id),
            agent,
            answer,
        })
    }

    fn author(&self, part: &Part<'_>, agent: &AgentId) -> Author {
        let agents = self.config.agents.iter();
        let known = agents.into_iter().find(|known| known.id == *agent);
        let model = known.map_or("", |known| known.backend.model.as_str());
        let role = &part.stage.role.name;
        Author::new(
            &format!("{role} ({model})"),
            &format!("{role}@massgen.invalid"),
        )
    }

    fn checkouts(&self, part: &Part<'_>) -> Vec<Checkout> {
        let agents = part.stage.agents.len();
        let checkout = |number| self.ground.checkout(&part.seat.checkout(number, agents));
        (0..agents).map(checkout).collect()
    }

    /// Where the sessions of a part are kept.
    fn sessions(&self, seat: &Seat, tried: u32) -> AbsPath {
        let name = match tried {
            0 => seat.iteration.to_string(),
            tried => format!("{}.{tried}", seat.iteration),
        };
        self.ground.dir.sessions(&seat.name).join(name)
    }

    /// The newest try of a seat that was begun before; 0 if it has not mended anything yet.
    pub(super) fn tried_before(&self, seat: &Seat) -> Result<u32> {
        let mut tried = 0;
        for next in 1..u32::MAX {
            if sessions::list(&self.sessions(seat, next))?.is_empty() {
                break;
            }
            tried = next;
        }
        Ok(tried)
    }

    fn before(&self, part: &Part<'_>) -> Result<Before> {
        let place = self.sessions(&part.seat, part.work.tried());
        for session in sessions::list(&place)? {
            let logs = Layout::plan(&self.config, &self.base, RunName::new(0)).logs;
            if let Some(unfinished) = unfinished(&logs, Some(&session.id()), |_| true)? {
                let ended = how_it_ended(&events_of(&unfinished.run)?);
                return Ok(match ended {
                    End::None => Before::BrokenOff(Box::new(unfinished), place),
                    // Its end was written down in its log and nowhere else: the disk was full, say.
                    End::Well { agent, answer } => Before::Ended { agent, answer },
                    End::Badly => Before::Nothing,
                });
            }
            let Some(turn) = session.turns()?.pop() else {
                continue;
            };
            let log_dir = &turn.metadata.log_dir;
            let run = runs::find(&log_dir.to_string(), log_dir, &self.base)?;
            if let End::Well { .. } = how_it_ended(&events_of(&run)?) {
                return Ok(Before::Ended {
                    agent: turn.metadata.winning_agent,
                    answer: turn.answer,
                });
            }
        }
        Ok(Before::Nothing)
    }

    /// Enters into the books what parts used that have ended before.
    pub(super) fn count_what_was_used(&self) -> Result<()> {
        let mut books = Books::default();
        let logs = Layout::plan(&self.config, &self.base, RunName::new(0)).logs;
        let known = self.ground.dir.runs()?;
        // Records that were removed tell nothing any more.
        let own = runs::list(&logs)?.into_iter();
        for run in own.filter(|run| known.contains(&run.name())) {
            let events = events_of(&run)?;
            // What has not ended is gone on with, and counts for itself.
            if let End::Well { .. } | End::Badly = how_it_ended(&events) {
                for event in &events {
                    event.enter_into(&mut books);
                }
            }
        }
        *self.books() = books;
        Ok(())
    }

    /// Makes the checkouts of a seat what it begins with.
    async fn lay_out(&self, part: &Part<'_>, checkouts: &[Checkout], tip: &ObjectId) -> Result<()> {
        let (hub, seat) = (&self.ground.hub, &part.seat);
        let branch = self.ground.branch(&seat.name)?;
        let at = hub.tip(&branch).await?;
        let (shown, head) = match (&part.work, at) {
            (Work::Mend { tree, .. }, Some(at)) => (tree, at),
            (Work::Mend { .. } | Work::New { .. }, at) => {
                hub.move_branch(&branch, tip, at.as_ref()).await?;
                (tip, tip.clone())
            }
        };
        for (number, checkout) in checkouts.iter().enumerate() {
            checkout.show(shown).await?;
            if part.stage.role.may(Right::Bash) {
                let agent = part.stage.agents.get(number);
                let agent = agent.ok_or_else(|| Error::bug("a seat without an agent"))?;
                let author = self.author(part, agent);
                let outset = Outset {
                    branch: &branch,
                    tip: &head,
                    main: tip,
                    author: &author,
                };
                hub.make_private(checkout.dir(), outset).await?;
            }
        }
        Ok(())
    }

    fn config_of(&self, part: &Part<'_>, checkouts: &[Checkout]) -> Result<Config> {
        let reach = Reach::of(&part.stage.role, &self.ground.record.directory);
        for checkout in checkouts {
            let mut both = reach.write.iter().chain(&reach.read);
            both.try_for_each(|dir| checkout.make_directory(dir))?;
            if part.stage.role.may(Right::Bash) {
                checkout.expect_plain(&RelPath::new(PRIVATE).unwrap_or_default())?;
            }
        }
        let dirs: Vec<AbsPath> = checkouts.iter().map(|one| one.dir().clone()).collect();
        let mut objects = vec![self.ground.hub.dir().join("objects")];
        let project = self.ground.project.as_ref();
        objects.extend(project.map(|project| project.objects.clone()));
        let books = self.books().clone();
        let desk = Desk {
            directory: &self.ground.record.directory,
            checkouts: &dirs,
            objects: &objects,
            sessions: self.sessions(&part.seat, part.work.tried()),
            books: &books,
        };
        config_of(&self.config, (part.stage, &part.seat), &desk)
    }

    fn models(&self, part: &Part<'_>) -> Result<Models> {
        let mut models = Models::new();
        for id in &part.stage.agents {
            let own = self.company.models.get(id);
            let own = own.ok_or_else(|| Error::bug(format!("agent `{id}` has no model")))?;
            models.insert(id_of(id, &part.seat)?, own.clone());
        }
        Ok(models)
    }

    /// What a part is called in the lists of runs.
    pub(super) fn heading(&self, seat: &Seat) -> String {
        let Seat {
            iteration, name, ..
        } = seat;
        let task = one_line(&self.ground.record.task, HEADING_CHARS_MAX);
        format!("[{name}, iteration {iteration}] {task}")
    }

    /// The order of a part that begins.
    fn order(&self, part: &Part<'_>, config: Config) -> Result<Order> {
        let run = RunName::new(Uuid::new_v4().as_fields().0);
        let company = &self.company;
        Ok(Order {
            layout: Layout::plan(&config, &self.base, run),
            config,
            base: self.base.clone(),
            task: self.heading(&part.seat),
            question: Arc::from(part.work.question()),
            opened: self.opened.clone(),
            session: None,
            models: self.models(part)?,
            redactor: company.redactor.clone(),
            telemetry: company.telemetry.clone(),
            started_with: company.started_with.clone(),
            again: None,
            resumed: None,
            machine: company.machine.clone(),
            reviewer: None,
            people: company.people.clone(),
            files: Files::InPlace,
        })
    }

    /// The order of a part that was broken off.
    fn resumed(
        &self,
        part: &Part<'_>,
        config: Config,
        (unfinished, sessions): (Unfinished, &AbsPath),
    ) -> Result<Order> {
        let reading = Reading::of(&unfinished.run)?;
        let place = find(&unfinished.started.session_id, sessions)?;
        let session = Session::take_up(place, unfinished.turn, self.company.redactor.clone())?;
        let question = reading.question();
        let order = self.order(part, config)?;
        Ok(Order {
            layout: Layout::plan(&order.config, &self.base, reading.name),
            session: Some(session),
            question: question.unwrap_or(order.question),
            again: Some(Again {
                courses: reading.courses,
                departed: CancellationToken::new(),
            }),
            resumed: Some(reading.resumed),
            ..order
        })
    }

    /// Whether an event says what was not said before: the sandbox of an agent is the same in every part.
    fn is_new(&self, event: &Event) -> bool {
        let Event::Confined { agents, by, .. } = event else {
            return true;
        };
        let said = format!("{agents:?} {by}");
        let confined = self.confined.lock();
        confined
            .unwrap_or_else(PoisonError::into_inner)
            .insert(said)
    }

    /// Carries out a part and passes on what happens in it. Gives whose answer counts, or why the pipeline
    /// ends there.
    async fn conduct(
        &self,
        role: &str,
        order: Order,
    ) -> Result<std::result::Result<(AgentId, Arc<str>), Halt>> {
        let run = Run::prepare(order, self.stop.clone())?;
        self.ground.dir.note_run(&run.places().log_dir)?;
        let (shown, mut told) = mpsc::channel::<Event>(EVENTS_WAITING_MAX);
        let passing = async {
            while let Some(event) = told.recv().await {
                event.enter_into(&mut self.books());
                if is_of_the_whole(&event) && self.is_new(&event) {
                    emit(&self.events, event).await;
                }
            }
        };
        let (result, ()) = tokio::join!(run.conduct(shown), passing);
        let TurnResult {
            status,
            summary,
            answer,
            ..
        } = result?;
        let answer = answer.filter(|_| status == ExitStatus::Delivered);
        let status = match (status, &answer) {
            (ExitStatus::Delivered, None) => ExitStatus::NoAnswer,
            (status, _) => status,
        };
        let why = if status == ExitStatus::Interrupted {
            format!("interrupted while {role} worked")
        } else {
            format!("{role}: {summary}")
        };
        let halt = Halt {
            status,
            why,
            then: Then::GoOn,
        };
        Ok(answer.map(|answer| (answer.agent, answer.text)).ok_or(halt))
    }
}

fn events_of(run: &RunDir) -> Result<Vec<Event>> {
    let read = run.events()?.flatten();
    Ok(read.filter_map(|entry| entry.event()).collect())
}

/// How a run ended.
enum End {
    /// It has not.
    None,
    /// As it was meant to, with an answer.
    Well {
        agent: AgentId,
        answer: String,
    },
    Badly,
}

/// How a run ended by its log.
fn how_it_ended(events: &[Event]) -> End {
    let mut said = None;
    let mut end = End::None;
    for event in events {
        if let Event::FinalAnswer { agent, content } = event {
            said = Some((agent.clone(), content.as_ref().to_owned()));
        } else if let Event::RunEnded { status, .. } = event {
            end = match said.take() {
                Some((agent, answer)) if *status == ExitStatus::Delivered => {
                    End::Well { agent, answer }
                }
                Some(_) | None => End::Badly,
            };
        }
    }
    end
}

/// Whether an event of a part is told of the whole pipeline: how a part begins and ends is told otherwise.
fn is_of_the_whole(event: &Event) -> bool {
    !matches!(
        event,
        Event::RunStarted { .. }
            | Event::FinalAnswer { .. }
            | Event::Delivered { .. }
            | Event::RunEnded { .. }
    )
}
