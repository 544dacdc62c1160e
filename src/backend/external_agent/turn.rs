//! One reply of an external agent: sends the messages that it does not know yet, and streams its
//! output until its turn ends or one of its calls has to be answered first.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::backend::external_agent::agent_requests::{encode_rejection, handle_agent_request};
use crate::backend::external_agent::agent_session::{
    ExternalAgentSession, ProcessReuse, TurnState, open_session,
};
use crate::backend::external_agent::protocol::{
    AgentEvent, AgentRequest, ExternalAgentError, ProcessLifetime, with_sign_in_hint,
};
use crate::backend::external_agent::socket_server::{AgentSocketMessage, ToolCallAnswer};
use crate::backend::external_agent::{SandboxedAgent, conversation_prompt};
use crate::backend::{BackendError, BackendErrorKind, ModelRequest, NativeToolCall, ReplyEvent};
use crate::event::StopReason;
use crate::permissions::grant::Phase;
use crate::prompts::external_agents::{ALREADY_SUBMITTED, SUBMISSION_RECEIVED};
use crate::spending::TokenUsage;
use crate::tools::CallRequest;
use crate::tools::served::is_served_name;
use crate::tools::spec::{MEDIA, SUBAGENTS, ToolOffer};
use crate::tools::task_plan::TaskPlan;
use crate::tools::workflow::{COORDINATION, EVALUATION};

/// Maximum time that a turn may continue after its decision.
const AFTER_DECISION_MAX: Duration = Duration::from_mins(1);
/// Maximum number of processes in a row that exit before they say anything.
const START_FAILURES_MAX: usize = 2;
/// Maximum size of one reply, in bytes.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum number of native tool calls of one reply that are shown to the user.
const NATIVE_CALLS_SHOWN_MAX: usize = 2_000;

/// Maximum number of plans of one reply that are shown to the user.
const PLANS_SHOWN_MAX: usize = 1_000;

/// Maximum number of requests that are denied in a row: an agent that only repeats what is denied
/// would ask its model forever.
const DENIALS_IN_A_ROW_MAX: usize = 20;

/// Progress of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyState {
    New,
    Running,
    Over,
}

/// One reply, which ends with the program's turn or with a call in it: a turn of the program may
/// take several replies.
pub(super) struct AgentTurn<'a> {
    agent: &'a SandboxedAgent,
    request: ModelRequest<'a>,
    session: Option<ExternalAgentSession>,
    state: ReplyState,
    ready_events: VecDeque<ReplyEvent>,
    /// Why the reply failed, if it did.
    failure: Option<BackendError>,
    /// The calls of massgen's tools so far, so that each gets an id of its own.
    calls: Vec<CallRequest>,
    /// Whether the agent has submitted a decision, which counts however the turn ends.
    has_submitted: bool,
    /// Whether the agent has reported its usage.
    is_counted: bool,
    /// The deadline of the reply; earlier once a decision was submitted.
    deadline: Instant,
    /// The deadline for the next output.
    silence_deadline: Instant,
    bytes: usize,
    /// The number of native tool calls that the agent has reported.
    native_call_count: usize,
    /// The number of plans that the agent has reported.
    plan_count: usize,
    /// Requests that were denied in a row: since one was allowed, a native tool call was completed,
    /// or a call of one of massgen's tools arrived.
    denials: usize,
}

/// The event that continues a turn.
enum TurnWakeup {
    Line(Result<String, ExternalAgentError>),
    SocketMessage(AgentSocketMessage),
    Silence,
    TimeOver,
}

impl<'a> AgentTurn<'a> {
    pub(super) fn new(agent: &'a SandboxedAgent, request: ModelRequest<'a>) -> Self {
        let start = Instant::now();
        Self {
            agent,
            request,
            session: None,
            state: ReplyState::New,
            ready_events: VecDeque::new(),
            failure: None,
            calls: Vec::new(),
            has_submitted: false,
            is_counted: false,
            deadline: deadline_after(start, agent.time_max()),
            silence_deadline: deadline_after(start, agent.silence_max()),
            bytes: 0,
            native_call_count: 0,
            plan_count: 0,
            denials: 0,
        }
    }

    /// Returns the next event of the reply; `None` after its end.
    pub(super) async fn next_event(&mut self) -> Option<Result<ReplyEvent, BackendError>> {
        loop {
            if let Some(event) = self.ready_events.pop_front() {
                return Some(Ok(event));
            }
            let step_result = match self.state {
                ReplyState::Over => return self.failure.take().map(Err),
                ReplyState::New => self.begin().await,
                ReplyState::Running => self.advance().await,
            };
            if let Err(error) = step_result {
                let error = self.count_start_failure(error);
                self.failure = Some(backend_error(error));
                self.stop().await;
            }
        }
    }

    /// Counts the processes in a row that exited before they said anything; once there are enough,
    /// the next one would too.
    fn count_start_failure(&mut self, error: ExternalAgentError) -> ExternalAgentError {
        let ExternalAgentError::StartFailed(reason) = error else {
            return error;
        };
        let failures = self.session.as_mut().map_or(START_FAILURES_MAX, |session| {
            session.start_failures = session.start_failures.saturating_add(1);
            session.start_failures
        });
        if failures < START_FAILURES_MAX {
            ExternalAgentError::from_message(reason)
        } else {
            ExternalAgentError::Permanent(format!("the program does not start: {reason}"))
        }
    }

    /// Sends the messages that the agent does not know yet.
    async fn begin(&mut self) -> Result<(), ExternalAgentError> {
        let session = self.agent.session().take();
        let session = match session {
            Some(session) => session,
            None => open_session(self.agent)?,
        };
        let session = self.session.insert(session);
        let offers: Vec<&ToolOffer> = self
            .request
            .tools
            .iter()
            .filter(|offer| is_offered_to_agent(&offer.name))
            .collect();
        session.socket_server.offer(&offers).await;
        let conversation = self.request.conversation;
        let messages = conversation.messages();
        let known_messages = session
            .known_messages
            .take()
            .filter(|(version, _)| version.is_same(conversation.version()));
        let reuse = match known_messages.and_then(|(_, count)| messages.get(count..)) {
            Some(new_messages) => session.continue_turn(self.agent, new_messages).await?,
            None => ProcessReuse::Restart,
        };
        if reuse == ProcessReuse::Restart {
            let text = conversation_prompt::render_all(&self.request.system, messages);
            session.restart(self.agent, text).await?;
        }
        session.known_messages = Some((conversation.version().clone(), messages.len()));
        session.turn_state = TurnState::Open;
        self.state = ReplyState::Running;
        self.ready_events.push_back(ReplyEvent::Uncounted);
        Ok(())
    }

    async fn advance(&mut self) -> Result<(), ExternalAgentError> {
        let Some(session) = &mut self.session else {
            return Err(ExternalAgentError::Permanent("bug in massgen".to_owned()));
        };
        let Some(process) = &mut session.process else {
            return Err(ExternalAgentError::Transient(
                "the program has exited".to_owned(),
            ));
        };
        // Biased: what arrived over the socket counts before the end of the turn that follows it.
        let wakeup = tokio::select! {
            biased;
            Some(message) = session.socket_server.incoming.recv() => {
                TurnWakeup::SocketMessage(message)
            }
            line = process.read_line() => TurnWakeup::Line(line),
            () = sleep_until(self.silence_deadline) => TurnWakeup::Silence,
            () = sleep_until(self.deadline) => TurnWakeup::TimeOver,
        };
        match wakeup {
            TurnWakeup::Line(line) => {
                let line = match line {
                    Err(_) if self.has_submitted => {
                        self.end_after_decision().await;
                        return Ok(());
                    }
                    line => line?,
                };
                self.count_bytes(line.len())?;
                self.handle_line(&line).await?;
            }
            TurnWakeup::SocketMessage(message) => self.handle_socket_message(message),
            TurnWakeup::Silence | TurnWakeup::TimeOver if self.has_submitted => {
                self.end_after_decision().await;
            }
            TurnWakeup::Silence => {
                let seconds = self.agent.silence_max().as_secs();
                let reason = format!("the program sent nothing for {seconds} s");
                return Err(ExternalAgentError::Transient(reason));
            }
            TurnWakeup::TimeOver => {
                let seconds = self.agent.time_max().as_secs();
                let reason = format!("the program's turn took more than {seconds} s");
                return Err(ExternalAgentError::Transient(reason));
            }
        }
        // A person may have been asked meanwhile, so the silence timeout starts again.
        self.silence_deadline = deadline_after(Instant::now(), self.agent.silence_max());
        Ok(())
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), ExternalAgentError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > REPLY_BYTES_MAX {
            let reason = format!("the program sent more than {REPLY_BYTES_MAX} bytes in one turn");
            return Err(ExternalAgentError::Permanent(reason));
        }
        Ok(())
    }

    /// Handles a line of the agent.
    async fn handle_line(&mut self, line: &str) -> Result<(), ExternalAgentError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let events = session.protocol.decode_line(line)?;
        if !events.is_empty() {
            session.start_failures = 0;
        }
        for event in events {
            match event {
                AgentEvent::Text(text) => self.ready_events.push_back(ReplyEvent::Text(text)),
                AgentEvent::Reasoning(text) => {
                    self.ready_events.push_back(ReplyEvent::Reasoning(text));
                }
                AgentEvent::NativeToolCall(tool) => self.push_native_tool_call(tool),
                AgentEvent::Plan(plan) => self.push_plan(plan),
                AgentEvent::ToolCallCompleted => self.denials = 0,
                AgentEvent::Usage(_) | AgentEvent::Cost(_) => {
                    self.is_counted = true;
                    self.ready_events.extend(usage_event(&event));
                }
                AgentEvent::Send(line) => self.write_line(line).await?,
                AgentEvent::Request(id, request) => self.handle_request(&id, *request).await?,
                AgentEvent::TurnEnded => self.finish_turn().await,
                AgentEvent::Failed(error) => {
                    if let Some(session) = &mut self.session {
                        session.turn_state = TurnState::Ended;
                    }
                    // A submitted decision counts, however the turn ended.
                    if !self.has_submitted {
                        return Err(error);
                    }
                    self.end_after_decision().await;
                }
            }
        }
        Ok(())
    }

    fn push_native_tool_call(&mut self, tool: NativeToolCall) {
        self.native_call_count = self.native_call_count.saturating_add(1);
        if self.native_call_count <= NATIVE_CALLS_SHOWN_MAX {
            self.ready_events
                .push_back(ReplyEvent::NativeToolCall(tool));
        }
    }

    fn push_plan(&mut self, plan: TaskPlan) {
        self.plan_count = self.plan_count.saturating_add(1);
        if self.plan_count <= PLANS_SHOWN_MAX {
            self.ready_events.push_back(ReplyEvent::Plan(plan));
        }
    }

    async fn write_line(&mut self, line: String) -> Result<(), ExternalAgentError> {
        match self
            .session
            .as_mut()
            .and_then(|session| session.process.as_mut())
        {
            Some(process) => process.write_lines(&[line], ProcessLifetime::Session).await,
            None => Ok(()),
        }
    }

    /// Answers a request of the agent.
    async fn handle_request(
        &mut self,
        id: &Value,
        request: AgentRequest,
    ) -> Result<(), ExternalAgentError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        session.cancel_reply = encode_rejection(&*session.protocol, id, &request);
        let launcher = self.agent.launch.launcher.clone();
        let request_answer = handle_agent_request(&*session.protocol, launcher, id, request).await;
        session.cancel_reply = None;
        if let Some(native_call) = request_answer.native_call {
            self.push_native_tool_call(native_call);
        }
        if let Some(line) = request_answer.line {
            self.write_line(line).await?;
        }
        self.count_denial(request_answer.denied)
    }

    /// Counts the requests that were denied in a row, and fails at the maximum, unless a decision
    /// was submitted. `denied` is why this one was denied.
    fn count_denial(&mut self, denied: Option<String>) -> Result<(), ExternalAgentError> {
        let Some(reason) = denied else {
            self.denials = 0;
            return Ok(());
        };
        self.denials = self.denials.saturating_add(1);
        if self.denials < DENIALS_IN_A_ROW_MAX || self.has_submitted {
            return Ok(());
        }
        let reason = format!(
            "the turn was ended: {DENIALS_IN_A_ROW_MAX} requests of the program in a row were \
             denied, the last with: {reason}"
        );
        Err(ExternalAgentError::Permanent(reason))
    }

    /// Handles a message from the agent socket.
    fn handle_socket_message(&mut self, incoming: AgentSocketMessage) {
        let (name, arguments, answer) = match incoming {
            AgentSocketMessage::Refused(tool) => return self.push_native_tool_call(tool),
            AgentSocketMessage::Call {
                name,
                arguments,
                answer,
            } => (name, arguments, answer),
        };
        // An agent that no longer waits needs no answer, here and below.
        if self.has_submitted {
            let _result = answer.send(Err(ALREADY_SUBMITTED.to_owned()));
            return;
        }
        let call = CallRequest {
            id: self.request.conversation.call_id("", &self.calls),
            name,
            arguments,
        };
        self.calls.push(call.clone());
        if is_decision(&call.name) {
            self.has_submitted = true;
            self.deadline = self
                .deadline
                .min(deadline_after(Instant::now(), AFTER_DECISION_MAX));
            let _result = answer.send(Ok(ToolCallAnswer::from_text(
                SUBMISSION_RECEIVED.to_owned(),
            )));
            self.ready_events.push_back(ReplyEvent::Call(call));
            return;
        }
        self.denials = 0;
        if let Some(session) = &mut self.session {
            session.waiting_calls.insert(call.id.clone(), answer);
        }
        self.ready_events.push_back(ReplyEvent::Call(call));
        self.end();
    }

    /// Ends the reply after the agent's turn has ended. In the final phase this ends the process
    /// too: no process may write to an overlay that is being delivered.
    async fn finish_turn(&mut self) {
        if !self.is_counted {
            // No usage will be reported any more.
            self.ready_events
                .push_back(ReplyEvent::Usage(TokenUsage::default()));
        }
        let is_last = self.agent.launch.launcher.gate.phase() == Phase::Final;
        if let Some(session) = &mut self.session {
            session.turn_state = TurnState::Ended;
            session.waiting_calls.clear();
            if session.protocol.process_lifetime() == ProcessLifetime::SingleTurn || is_last {
                let process = session.process.take();
                // Ending the process takes a moment.
                let _ended = spawn_blocking(move || drop(process)).await;
            }
        }
        self.end();
    }

    /// Ends a reply whose decision has been submitted, and the process with it.
    async fn end_after_decision(&mut self) {
        self.stop().await;
        self.end();
    }

    /// Ends the process; only the usage until then is added to the reply.
    async fn stop(&mut self) {
        self.state = ReplyState::Over;
        if let Some(session) = &mut self.session {
            let usage = session.stop().await;
            self.ready_events
                .extend(usage.iter().filter_map(usage_event));
        }
    }

    /// Completes the reply.
    fn end(&mut self) {
        self.state = ReplyState::Over;
        self.ready_events
            .push_back(ReplyEvent::End(StopReason::Done));
        *self.agent.session() = self.session.take();
    }
}

/// Handles a reply that is dropped: the process may be in the middle of its turn, so the next reply
/// starts a new one.
impl Drop for AgentTurn<'_> {
    fn drop(&mut self) {
        if let Some(mut session) = self.session.take() {
            session.known_messages = None;
            *self.agent.session() = Some(session);
        }
    }
}

/// Converts usage and cost to events of the reply.
fn usage_event(event: &AgentEvent) -> Option<ReplyEvent> {
    match event {
        AgentEvent::Usage(usage) => Some(ReplyEvent::Usage(*usage)),
        AgentEvent::Cost(cost) => Some(ReplyEvent::Cost(*cost)),
        AgentEvent::Text(_)
        | AgentEvent::Reasoning(_)
        | AgentEvent::NativeToolCall(_)
        | AgentEvent::Plan(_)
        | AgentEvent::ToolCallCompleted
        | AgentEvent::Send(_)
        | AgentEvent::Failed(_)
        | AgentEvent::Request(..)
        | AgentEvent::TurnEnded => None,
    }
}

/// Returns whether a tool is offered to external agents: they have their own tools for files and
/// commands.
fn is_offered_to_agent(name: &str) -> bool {
    let mut massgen_tools = MEDIA.iter().chain(SUBAGENTS);
    is_decision(name) || is_served_name(name) || massgen_tools.any(|tool| tool.name == name)
}

fn is_decision(name: &str) -> bool {
    let mut decisions = COORDINATION.iter().chain(EVALUATION);
    decisions.any(|tool| tool.name == name)
}

fn backend_error(error: ExternalAgentError) -> BackendError {
    let (kind, message) = match error {
        ExternalAgentError::Transient(message) => {
            (BackendErrorKind::Transient { retry_after: None }, message)
        }
        ExternalAgentError::Permanent(message) | ExternalAgentError::StartFailed(message) => {
            (BackendErrorKind::Permanent, with_sign_in_hint(message))
        }
    };
    BackendError { kind, message }
}

fn deadline_after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time).unwrap_or(now)
}
