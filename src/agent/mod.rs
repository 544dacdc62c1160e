//! Owns one agent at work: its conversation with its model, and the loop that asks, carries out
//! calls and asks again. Whether a call may run is the gate's decision, who wins the ballot's.

pub mod calls;
pub mod patience;
pub mod present;
pub mod round;

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use crate::backend::conversation::{Conversation, Message};
use crate::backend::{BackendError, FaultKind, Model, ReplyEvent, Request};
use crate::event::{Event, StopReason};
use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::Usage;
use crate::tools::parse;
use crate::tools::request::CallRequest;
use crate::tools::spec::ToolOffer;
use crate::world::gate::Gate;

/// How often one request is tried again after faults that may heal.
const RETRIES_MAX: usize = 4;
/// The first wait before trying again; it doubles each time, with jitter.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(500);
/// The longest wait before trying again. Where the vendor asks for more, the agent drops out: the
/// others would wait for it.
const RETRY_WAIT_MAX: Duration = Duration::from_mins(1);
/// Model requests in one round or presentation, so that no agent goes on forever.
pub const STEPS_MAX: u32 = 200;

/// An agent's side of its conversation with a model.
#[derive(Debug)]
pub struct Mind {
    /// Whose it is.
    pub agent: AgentId,
    /// The model that is asked, and after it those that are asked when it cannot go on.
    pub models: Vec<Model>,
    /// The half of the turn that the conversation belongs to.
    pub phase: Phase,
    /// What the model is told first, in every request.
    pub system: Arc<str>,
    /// The tools that it is offered, in every request.
    pub tools: Arc<[ToolOffer]>,
    /// What decides about its calls; without one it has no file access.
    pub gate: Option<Gate>,
    /// What was said so far.
    pub conversation: Conversation,
    /// Where events go.
    pub events: Sender<Event>,
}

/// One complete reply of a model.
#[derive(Debug)]
pub struct Said {
    /// Its text.
    pub text: String,
    /// Its calls, in order.
    pub calls: Vec<CallRequest>,
}

/// A whole reply as it came.
struct Heard {
    said: Said,
    echo: Option<Value>,
    stop: StopReason,
}

impl Mind {
    /// Whether the model was offered the tool of this name.
    pub fn offers(&self, name: &str) -> bool {
        let name = parse::canonical(name);
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Adds something that massgen says.
    pub fn tell(&mut self, text: impl Into<Arc<str>>) {
        self.conversation.push(Message::User(text.into()));
    }

    /// Adds the result of a call.
    pub fn answer_call(&mut self, call_id: &str, content: impl Into<String>) {
        let content = content.into();
        self.conversation.push(Message::CallResult {
            call_id: call_id.to_owned(),
            content,
        });
    }

    /// Asks the model once and adds its reply to the conversation. A fault that may heal is tried
    /// again a bounded number of times; a reply that was cut is thrown away whole.
    pub async fn step(&mut self) -> Result<Said, BackendError> {
        let mut waits = ExponentialBuilder::default()
            .with_min_delay(RETRY_WAIT_MIN)
            .with_max_delay(RETRY_WAIT_MAX)
            .with_max_times(RETRIES_MAX)
            .with_jitter()
            .build();
        loop {
            let fault = match self.ask().await {
                Ok(reply) => return Ok(self.take(reply).await),
                Err(fault) => fault,
            };
            let FaultKind::Transient { retry_after } = fault.kind else {
                return Err(fault);
            };
            let Some(wait) = waits.next() else {
                return Err(fault);
            };
            let wait = retry_after.unwrap_or_default().max(wait);
            if wait > RETRY_WAIT_MAX {
                return Err(too_long(&fault, wait));
            }
            self.emit(Event::Retrying {
                agent: self.agent.clone(),
                reason: fault.message,
                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            })
            .await;
            tokio::time::sleep(wait).await;
        }
    }

    /// Adds a whole reply to the conversation.
    async fn take(&mut self, reply: Heard) -> Said {
        let Heard { said, echo, stop } = reply;
        let (text, calls) = (said.text.clone(), said.calls.clone());
        self.emit(Event::Replied {
            agent: self.agent.clone(),
            text: text.as_str().into(),
            calls: calls.clone(),
            stop,
        })
        .await;
        self.conversation
            .push(Message::Assistant { text, calls, echo });
        said
    }

    async fn ask(&self) -> Result<Heard, BackendError> {
        let Some(model) = self.models.first() else {
            return Err(permanent("the agent has no model"));
        };
        let asked = Instant::now();
        self.emit(Event::Asking {
            agent: self.agent.clone(),
            model: Arc::clone(&model.name),
        })
        .await;
        let mut usage = Usage::default();
        let reply = self.hear(model, &mut usage).await;
        let elapsed_ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (agent, messages) = (self.agent.as_str(), self.conversation.messages().len());
        let failed = reply.is_err();
        tracing::debug!(agent, messages, elapsed_ms, failed, "a model was asked");
        self.emit(Event::Asked {
            agent: self.agent.clone(),
            model: Arc::clone(&model.name),
            phase: self.phase,
            usage,
            cost_usd: None,
            elapsed_ms,
        })
        .await;
        reply
    }

    async fn hear(&self, model: &Model, usage: &mut Usage) -> Result<Heard, BackendError> {
        let mut reply = model.backend.ask(Request {
            system: Arc::clone(&self.system),
            conversation: &self.conversation,
            tools: Arc::clone(&self.tools),
        });
        let (mut text, mut calls, mut echo) = (String::new(), Vec::new(), None);
        while let Some(event) = reply.next().await {
            match event? {
                ReplyEvent::Text(piece) => {
                    text.push_str(&piece);
                    self.emit(Event::Text {
                        agent: self.agent.clone(),
                        text: piece,
                    })
                    .await;
                }
                ReplyEvent::Reasoning(text) => {
                    self.emit(Event::Reasoning {
                        agent: self.agent.clone(),
                        text,
                    })
                    .await;
                }
                ReplyEvent::Call(call) => calls.push(call),
                ReplyEvent::Echo(wanted) => echo = Some(wanted),
                ReplyEvent::Usage(counted) => *usage = counted,
                ReplyEvent::End(stop) => {
                    let said = Said { text, calls };
                    return ended(Heard { said, echo, stop });
                }
            }
        }
        let kind = FaultKind::Transient { retry_after: None };
        Err(BackendError {
            kind,
            message: "the reply was cut before its end".to_owned(),
        })
    }

    /// Tells the outside.
    pub async fn emit(&self, event: Event) {
        emit(&self.events, event).await;
    }
}

/// Sends an event. Nobody listening any more is no reason to stop.
pub async fn emit(events: &Sender<Event>, event: Event) {
    let _closed = events.send(event).await;
}

/// A whole reply, if there is anything in it.
fn ended(heard: Heard) -> Result<Heard, BackendError> {
    let nothing = heard.said.text.is_empty() && heard.said.calls.is_empty();
    match heard.stop {
        StopReason::Filtered if nothing => Err(permanent("the vendor held the whole reply back")),
        StopReason::Length if nothing => Err(permanent(
            "the reply met the vendor's length limit while empty",
        )),
        StopReason::Done | StopReason::Filtered | StopReason::Length | StopReason::Paused => {
            Ok(heard)
        }
    }
}

fn permanent(message: &str) -> BackendError {
    BackendError {
        kind: FaultKind::Permanent,
        message: message.to_owned(),
    }
}

/// The fault of a vendor that asks for more patience than there is.
fn too_long(fault: &BackendError, wait: Duration) -> BackendError {
    let (asked, most) = (wait.as_secs(), RETRY_WAIT_MAX.as_secs());
    BackendError {
        kind: FaultKind::Permanent,
        message: format!(
            "{} (it asks to wait {asked} s, and massgen waits {most} s at most)",
            fault.message
        ),
    }
}
