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
use tokio::sync::mpsc::Sender;

use crate::backend::{
    Backend, BackendError, CallRequest, FaultKind, Message, ReplyEvent, Request, StopReason, Usage,
};
use crate::event::Event;
use crate::id::AgentId;
use crate::tools::parse;
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
    /// The model.
    pub backend: Arc<dyn Backend>,
    /// What the model is told first, in every request.
    pub system: Arc<str>,
    /// The tools that it is offered, in every request.
    pub tools: Arc<[ToolOffer]>,
    /// What decides about its calls; without one it has no file access.
    pub gate: Option<Gate>,
    /// The conversation, oldest first; it only grows.
    pub messages: Vec<Message>,
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

impl Mind {
    /// Whether the model was offered the tool of this name.
    pub fn offers(&self, name: &str) -> bool {
        let name = parse::canonical(name);
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Adds something that massgen says.
    pub fn tell(&mut self, text: impl Into<Arc<str>>) {
        self.messages.push(Message::User(text.into()));
    }

    /// Adds the result of a call.
    pub fn answer_call(&mut self, call_id: &str, content: impl Into<String>) {
        let content = content.into();
        self.messages.push(Message::CallResult {
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
                Ok(said) => {
                    let (text, calls) = (said.text.clone(), said.calls.clone());
                    self.messages.push(Message::Assistant { text, calls });
                    return Ok(said);
                }
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

    async fn ask(&self) -> Result<Said, BackendError> {
        let asked = tokio::time::Instant::now();
        let reply = self.hear().await;
        let milliseconds = asked.elapsed().as_millis();
        let (agent, messages) = (self.agent.as_str(), self.messages.len());
        tracing::debug!(
            agent,
            messages,
            milliseconds,
            failed = reply.is_err(),
            "a model was asked"
        );
        reply
    }

    async fn hear(&self) -> Result<Said, BackendError> {
        self.emit(Event::Asking {
            agent: self.agent.clone(),
        })
        .await;
        let request = Request {
            system: Arc::clone(&self.system),
            messages: &self.messages,
            tools: Arc::clone(&self.tools),
        };
        let mut reply = self.backend.ask(request);
        let mut said = Said {
            text: String::new(),
            calls: Vec::new(),
        };
        let mut usage = Usage::default();
        while let Some(event) = reply.next().await {
            match event? {
                ReplyEvent::Text(text) => {
                    said.text.push_str(&text);
                    self.emit(Event::Text {
                        agent: self.agent.clone(),
                        text,
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
                ReplyEvent::Call(call) => said.calls.push(call),
                ReplyEvent::Usage(counted) => usage = counted,
                ReplyEvent::End(stop) => return self.ended(said, stop, usage).await,
            }
        }
        let kind = FaultKind::Transient { retry_after: None };
        Err(BackendError {
            kind,
            message: "the reply was cut before its end".to_owned(),
        })
    }

    async fn ended(
        &self,
        said: Said,
        stop: StopReason,
        usage: Usage,
    ) -> Result<Said, BackendError> {
        let Usage {
            input_tokens,
            output_tokens,
            ..
        } = usage;
        let agent = self.agent.clone();
        self.emit(Event::Asked {
            agent,
            input_tokens,
            output_tokens,
        })
        .await;
        let nothing = said.text.is_empty() && said.calls.is_empty();
        let message = match stop {
            StopReason::Filtered if nothing => "the vendor held the whole reply back",
            StopReason::Length if nothing => "the reply met the vendor's length limit while empty",
            StopReason::Done | StopReason::Filtered | StopReason::Length => return Ok(said),
        };
        Err(BackendError {
            kind: FaultKind::Permanent,
            message: message.to_owned(),
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
