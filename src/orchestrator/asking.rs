//! Owns the questions of a run to a person about calls: one at a time, to whoever was named, and none
//! that was answered before. It decides nothing: the rules say what is asked, and without a yes there
//! is a no.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, WeakSender};
use tokio::sync::{Mutex as Line, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agent::emit;
use crate::event::{Event, Said};
use crate::id::AgentId;
use crate::orchestrator::review::{Question as Asked, Reviewer};
use crate::path::AbsPath;
use crate::world::ask_socket;
use crate::world::consultation::{Answer, Consult, Inform, Question};
use crate::world::store::consents::{Consent, ConsentFile};

/// Who is asked.
#[derive(Clone, Debug, Default)]
pub enum To {
    /// Nobody: every question is answered with no.
    #[default]
    Nobody,
    /// Whoever sits at the terminal.
    Terminal(Reviewer),
    /// A program that listens at this socket.
    Socket(AbsPath),
}

/// What was agreed to for as long as the process lives. A clone is the same memory.
#[derive(Clone, Debug, Default)]
pub struct Consents(Arc<Mutex<BTreeSet<Consent>>>);

impl Consents {
    fn held(&self) -> MutexGuard<'_, BTreeSet<Consent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who answers the questions of a run, and what they have answered.
#[derive(Clone, Debug, Default)]
pub struct People {
    /// Who is asked.
    pub to: To,
    /// What they agreed to for the session.
    pub consents: Consents,
    /// Where what they agree to for always is kept; without it, it holds for the session.
    pub always: Option<ConsentFile>,
}

/// Asks the people of a run. A clone asks the same ones.
#[derive(Clone, Debug)]
pub struct Asker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    people: People,
    /// The directory that what is agreed to for always holds for.
    project: AbsPath,
    /// What was said of calls before the run was broken off.
    recorded: BTreeMap<(AgentId, String, Consent), Said>,
    /// The agents whose questions wait, one behind the other.
    line: Line<()>,
    events: WeakSender<Event>,
    /// The user wants the run to end; then nothing more is asked.
    stop: CancellationToken,
}

impl Asker {
    /// Asks `people` about calls in a project, until `stop` says that the user wants the run to end.
    /// Events go to `events`, which it keeps nobody listening at. What `told` says was answered before is
    /// not asked again.
    pub fn new(
        people: People,
        (project, events, stop): (&AbsPath, &Sender<Event>, &CancellationToken),
        told: &[Event],
    ) -> Self {
        let mut recorded = BTreeMap::new();
        for event in told {
            let Event::PersonAsked {
                agent,
                call_id: Some(call_id),
                tool,
                deeds,
                answer: Some(said),
                ..
            } = event
            else {
                continue;
            };
            let consent = Consent::new(project.clone(), tool.clone(), deeds.clone());
            if *said == Said::Session {
                people.consents.held().insert(consent.clone());
            }
            if *said != Said::Nobody {
                recorded.insert((agent.clone(), call_id.clone(), consent), *said);
            }
        }
        Self(Arc::new(Inner {
            people,
            project: project.clone(),
            recorded,
            line: Line::default(),
            events: events.downgrade(),
            stop: stop.clone(),
        }))
    }

    /// The socket where the answers come from, if they come from one.
    pub fn socket(&self) -> Option<&AbsPath> {
        match &self.0.people.to {
            To::Socket(socket) => Some(socket),
            To::Nobody | To::Terminal(_) => None,
        }
    }

    /// Asks what servers want to know, if there is anybody to ask; each question waits so many seconds for
    /// its answer.
    pub fn informer(&self, seconds: u64) -> Option<Arc<dyn Inform>> {
        match self.0.people.to {
            To::Nobody => None,
            To::Terminal(_) | To::Socket(_) => Some(Arc::new(Informer {
                asker: self.clone(),
                time_max: Duration::from_secs(seconds),
            })),
        }
    }

    async fn emit(&self, event: Event) {
        if let Some(events) = self.0.events.upgrade() {
            emit(&events, event).await;
        }
    }

    /// Asks about the calls of `agent`; each question waits so many seconds for its answer.
    pub fn of(&self, agent: &AgentId, seconds: u64) -> Arc<dyn Consult> {
        Arc::new(AskerOf {
            asker: self.clone(),
            agent: agent.clone(),
            time_max: Duration::from_secs(seconds),
        })
    }
}

/// Asks what servers want to know.
#[derive(Debug)]
struct Informer {
    asker: Asker,
    time_max: Duration,
}

impl Inform for Informer {
    fn ask(&self, question: String, otherwise: String) -> BoxFuture<'_, Option<String>> {
        let inner = &self.asker.0;
        let asking = async {
            let _turn = inner.line.lock().await;
            let said = async {
                match &inner.people.to {
                    To::Nobody => None,
                    To::Terminal(reviewer) => {
                        let asked = (question, otherwise);
                        reviewer.open_question(asked, &inner.stop).await
                    }
                    To::Socket(socket) => self.put_to(socket, (question, otherwise)).await,
                }
            };
            timeout(self.time_max, said).await.ok()?
        };
        asking.boxed()
    }
}

impl Informer {
    async fn put_to(
        &self,
        socket: &AbsPath,
        (question, otherwise): (String, String),
    ) -> Option<String> {
        let Inner { project, stop, .. } = &*self.asker.0;
        let told = json!({
            "schema_version": 1,
            "project": project,
            "server_asks": question,
            "otherwise": otherwise,
        });
        let told = told.to_string();
        let said = tokio::select! {
            said = ask_socket::inform(socket, &told) => said,
            () = stop.cancelled() => return None,
        };
        match said {
            Ok(said) => said,
            Err(why) => {
                let message = format!("a server's question has no answer: {why}");
                self.asker.emit(Event::Warning { message }).await;
                None
            }
        }
    }
}

/// Asks about the calls of one agent.
#[derive(Debug)]
struct AskerOf {
    asker: Asker,
    agent: AgentId,
    time_max: Duration,
}

/// What somebody who was asked says, and why if they do not agree.
type Spoken = (Said, String);

impl Consult for AskerOf {
    fn ask(&self, question: Question, ended: &CancellationToken) -> Answer {
        // The gate asks on a thread that may block.
        match Handle::try_current() {
            Ok(runtime) => runtime.block_on(self.answer(&question, ended)),
            Err(_) => Answer::Refused("nobody can be asked here".to_owned()),
        }
    }
}

impl AskerOf {
    async fn answer(&self, question: &Question, ended: &CancellationToken) -> Answer {
        let inner = &self.asker.0;
        let consent = Consent::new(
            inner.project.clone(),
            question.tool.clone(),
            question.deeds.clone(),
        );
        let asking = async {
            let _turn = inner.line.lock().await;
            if let Some(known) = self.known(question, &consent) {
                return Err(known);
            }
            self.tell(question, None).await;
            let spoken = timeout(self.time_max, self.put(question)).await;
            Ok(spoken.unwrap_or_else(|_| {
                let seconds = self.time_max.as_secs();
                (Said::Nobody, format!("nobody answered within {seconds} s"))
            }))
        };
        let gone = |why: &str| Ok((Said::Nobody, why.to_owned()));
        let spoken = tokio::select! {
            spoken = asking => spoken,
            () = ended.cancelled() => gone("nobody waits for it any more"),
            () = inner.stop.cancelled() => gone("the run is to end"),
        };
        let (said, why) = match spoken {
            Ok(spoken) => spoken,
            Err(known) => return known,
        };
        self.remember(said, consent).await;
        self.tell(question, Some(said)).await;
        if said.is_yes() {
            Answer::Agreed
        } else {
            Answer::Refused(why)
        }
    }

    /// What was said of the call before, if anything was.
    fn known(&self, question: &Question, consent: &Consent) -> Option<Answer> {
        let inner = &self.asker.0;
        // A program makes several calls under one id.
        let call = question.call_id.clone();
        let call = call.map(|id| (self.agent.clone(), id, consent.clone()));
        let recorded = call.and_then(|call| inner.recorded.get(&call));
        if recorded == Some(&Said::No) {
            return Some(Answer::Refused("the user refused it".to_owned()));
        }
        let always = inner.people.always.as_ref();
        let is_agreed = recorded.is_some()
            || inner.people.consents.held().contains(consent)
            || always.is_some_and(|file| file.holds(consent));
        is_agreed.then_some(Answer::Agreed)
    }

    /// What cannot be written down holds for the session, and the user is told.
    async fn remember(&self, said: Said, consent: Consent) {
        let people = &self.asker.0.people;
        if said == Said::Always
            && let Some(file) = &people.always
            && let Err(error) = file.add(&consent)
        {
            self.emit(Event::Warning {
                message: format!("the answer is kept for the session only: {error}"),
            })
            .await;
        }
        if matches!(said, Said::Session | Said::Always) {
            people.consents.held().insert(consent);
        }
    }

    async fn put(&self, question: &Question) -> Spoken {
        let nobody = |why: &str| (Said::Nobody, why.to_owned());
        match &self.asker.0.people.to {
            To::Nobody => nobody("nobody can be asked: there is no terminal and no `--ask-file`"),
            To::Terminal(Reviewer(questions)) => {
                let (answer, answered) = oneshot::channel();
                let asked = Asked::Call {
                    agent: self.agent.clone(),
                    question: question.clone(),
                    always: self.always_kept_in(),
                    answer,
                };
                if questions.send(asked).await.is_err() {
                    return nobody("nobody is there any more");
                }
                match answered.await {
                    Ok(Said::No) => (Said::No, "the user refuses it".to_owned()),
                    Ok(said) => (said, String::new()),
                    Err(_) => nobody("nobody answered"),
                }
            }
            To::Socket(socket) => self.put_to(socket, question).await,
        }
    }

    async fn put_to(&self, socket: &AbsPath, question: &Question) -> Spoken {
        let told = json!({
            "schema_version": 1,
            "project": self.asker.0.project,
            "agent": self.agent,
            "call_id": question.call_id,
            "phase": question.phase,
            "tool": question.tool,
            "input": question.input,
            "deeds": question.deeds,
            "reason": question.reason,
        });
        match ask_socket::ask(socket, &told.to_string()).await {
            Ok(reply) if reply.answer == Said::No => {
                let why = reply
                    .reason
                    .unwrap_or_else(|| "the user refuses it".to_owned());
                (Said::No, why)
            }
            Ok(reply) => (reply.answer, String::new()),
            Err(why) => (Said::Nobody, why),
        }
    }

    /// Where an answer for always is kept.
    fn always_kept_in(&self) -> Option<AbsPath> {
        let always = self.asker.0.people.always.as_ref();
        always.map(|file| file.path().clone())
    }

    async fn tell(&self, question: &Question, answer: Option<Said>) {
        self.emit(Event::PersonAsked {
            agent: self.agent.clone(),
            call_id: question.call_id.clone(),
            tool: question.tool.clone(),
            deeds: question.deeds.clone(),
            reason: question.reason.clone(),
            answer,
        })
        .await;
    }

    async fn emit(&self, event: Event) {
        self.asker.emit(event).await;
    }
}
