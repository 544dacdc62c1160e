//! Requests the user's approval of calls, and the answers to questions of MCP servers: one at a
//! time, over the configured channel, and an approval never twice for the same call. The rules
//! decide which calls need approval; without approval, a call is denied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, WeakSender};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agent::emit;
use crate::event::{ApprovalAnswer, Event, InputChannel, RunEvent, ToolEvent};
use crate::id::AgentId;
use crate::orchestrator::review::{Reviewer, UserQuestion};
use crate::path::AbsPath;
use crate::world::approval::socket::{request_approval, request_elicitation};
use crate::world::approval::{
    ApprovalDecision, ApprovalRequest, CallApprover, ElicitationResponder,
};
use crate::world::io::event_sink::QueuedEvent;
use crate::world::store::approvals::{ApprovalFile, PersistentApproval};

/// Channel for approval requests.
#[derive(Clone, Debug, Default)]
pub enum ApprovalChannel {
    /// There is none: every request is denied.
    #[default]
    Unavailable,
    /// The user at the terminal or the page.
    Terminal(Reviewer),
    /// A program that listens on this socket.
    Socket(AbsPath),
}

/// Approvals that last as long as the process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SessionApprovals(Arc<Mutex<BTreeSet<PersistentApproval>>>);

impl SessionApprovals {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<PersistentApproval>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Configuration of approvals in a run, with the approvals so far.
#[derive(Clone, Debug, Default)]
pub struct ApprovalConfig {
    /// The channel for requests.
    pub channel: ApprovalChannel,
    /// The approvals for the session.
    pub session: SessionApprovals,
    /// The file for persistent approvals; without it, they last for the session.
    pub persistent: Option<ApprovalFile>,
}

/// Requests approvals for a run. Clones share its state.
#[derive(Clone, Debug)]
pub struct ApprovalBroker(Arc<ApprovalBrokerState>);

#[derive(Debug)]
struct ApprovalBrokerState {
    config: ApprovalConfig,
    /// The directory that persistent approvals apply to.
    project: AbsPath,
    /// The answers that were given before the run was interrupted.
    recorded: BTreeMap<(AgentId, String, PersistentApproval), ApprovalAnswer>,
    /// The lock that a request holds while the user is asked; further requests queue for it.
    queue: AsyncMutex<()>,
    events: WeakSender<QueuedEvent>,
    /// Cancelled when the user wants the run to end; then no further approval is requested.
    stop: CancellationToken,
}

impl ApprovalBroker {
    /// Creates a broker that requests approval of calls in `project` over the channel of `config`,
    /// until `stop` is cancelled. It sends events to `events`, of which it holds only a weak
    /// sender: the queue of events ends when all other senders are gone. Requests that
    /// `recorded_events` answer are not repeated.
    pub fn new(
        config: ApprovalConfig,
        project: &AbsPath,
        events: &Sender<QueuedEvent>,
        stop: &CancellationToken,
        recorded_events: &[Event],
    ) -> Self {
        let mut answers = BTreeMap::new();
        for event in recorded_events {
            let Event::Tool(ToolEvent::Approval {
                agent,
                call_id: Some(call_id),
                tool,
                effects,
                answer: Some(given_answer),
                ..
            }) = event
            else {
                continue;
            };
            let approval = PersistentApproval::new(project.clone(), tool.clone(), effects.clone());
            if *given_answer == ApprovalAnswer::Session {
                config.session.lock().insert(approval.clone());
            }
            if *given_answer != ApprovalAnswer::NoAnswer {
                answers.insert((agent.clone(), call_id.clone(), approval), *given_answer);
            }
        }
        Self(Arc::new(ApprovalBrokerState {
            config,
            project: project.clone(),
            recorded: answers,
            queue: AsyncMutex::default(),
            events: events.downgrade(),
            stop: stop.clone(),
        }))
    }

    /// Returns the socket that answers come from, if the channel is a socket.
    pub fn socket(&self) -> Option<&AbsPath> {
        match &self.0.config.channel {
            ApprovalChannel::Socket(socket) => Some(socket),
            ApprovalChannel::Unavailable | ApprovalChannel::Terminal(_) => None,
        }
    }

    /// Returns a responder for questions of servers, if there is a channel; each question waits so
    /// many seconds for its answer.
    pub fn elicitation_responder(&self, seconds: u64) -> Option<Arc<dyn ElicitationResponder>> {
        match self.0.config.channel {
            ApprovalChannel::Unavailable => None,
            ApprovalChannel::Terminal(_) | ApprovalChannel::Socket(_) => {
                Some(Arc::new(ElicitationBroker {
                    broker: self.clone(),
                    time_max: Duration::from_secs(seconds),
                }))
            }
        }
    }

    async fn emit(&self, event: impl Into<Event>) {
        if let Some(events) = self.0.events.upgrade() {
            emit(&events, event).await;
        }
    }

    /// Returns an approver for the calls of `agent`; each request waits this many seconds for its
    /// answer.
    pub fn approver_for(&self, agent: &AgentId, seconds: u64) -> Arc<dyn CallApprover> {
        Arc::new(AgentApprover {
            broker: self.clone(),
            agent: agent.clone(),
            time_max: Duration::from_secs(seconds),
        })
    }
}

/// Asks the user the questions of MCP servers.
#[derive(Debug)]
struct ElicitationBroker {
    broker: ApprovalBroker,
    time_max: Duration,
}

impl ElicitationResponder for ElicitationBroker {
    fn elicit(&self, question: String, without_answer: String) -> BoxFuture<'_, Option<String>> {
        let broker = &self.broker.0;
        let answer = async {
            let _turn = broker.queue.lock().await;
            let reply = async {
                match &broker.config.channel {
                    ApprovalChannel::Unavailable => None,
                    ApprovalChannel::Terminal(reviewer) => {
                        reviewer.ask_open_question(question, without_answer).await
                    }
                    ApprovalChannel::Socket(socket) => {
                        self.query_socket(socket, question, without_answer).await
                    }
                }
            };
            timeout(self.time_max, reply).await.ok()?
        };
        let answer_or_stop = async {
            tokio::select! {
                answer = answer => answer,
                () = broker.stop.cancelled() => None,
            }
        };
        answer_or_stop.boxed()
    }
}

impl ElicitationBroker {
    async fn query_socket(
        &self,
        socket: &AbsPath,
        question: String,
        without_answer: String,
    ) -> Option<String> {
        let request_fields = json!({
            "schema_version": 1,
            "project": self.broker.0.project,
            "server_asks": question,
            "otherwise": without_answer,
        });
        match request_elicitation(socket, &request_fields.to_string()).await {
            Ok(reply) => reply,
            Err(reason) => {
                let message = format!("a question of an MCP server was not answered: {reason}");
                self.broker.emit(RunEvent::Warning { message }).await;
                None
            }
        }
    }
}

/// Requests approval of one agent's calls.
#[derive(Debug)]
struct AgentApprover {
    broker: ApprovalBroker,
    agent: AgentId,
    time_max: Duration,
}

/// An answer to an approval request.
struct ExplainedAnswer {
    answer: ApprovalAnswer,
    /// The reason why the call is not approved.
    reason: String,
}

impl ExplainedAnswer {
    fn new(answer: ApprovalAnswer, reason: impl Into<String>) -> Self {
        Self {
            answer,
            reason: reason.into(),
        }
    }
}

impl CallApprover for AgentApprover {
    fn request_approval(
        &self,
        question: ApprovalRequest,
        cancellation: &CancellationToken,
    ) -> ApprovalDecision {
        // The gate calls this on a thread that may block.
        match Handle::try_current() {
            Ok(runtime) => runtime.block_on(self.decide(&question, cancellation)),
            Err(_) => ApprovalDecision::Denied("no user to ask".to_owned()),
        }
    }
}

impl AgentApprover {
    async fn decide(
        &self,
        question: &ApprovalRequest,
        cancellation: &CancellationToken,
    ) -> ApprovalDecision {
        let broker = &self.broker.0;
        let approval = PersistentApproval::new(
            broker.project.clone(),
            question.tool.clone(),
            question.effects.clone(),
        );
        // An error is a decision that was made before.
        let decision = async {
            // A call that is already decided about does not wait for other requests.
            if let Some(known_decision) = self.previous_decision(question, &approval) {
                return Err(known_decision);
            }
            let _turn = self.wait_for_turn(question).await;
            if let Some(known_decision) = self.previous_decision(question, &approval) {
                return Err(known_decision);
            }
            self.emit_approval(question, None).await;
            let timed_answer = timeout(self.time_max, self.ask_user(question)).await;
            let explained_answer = timed_answer.unwrap_or_else(|_| {
                let seconds = self.time_max.as_secs();
                let reason = format!("no answer within {seconds} s");
                ExplainedAnswer::new(ApprovalAnswer::NoAnswer, reason)
            });
            // The next request has to find the answer.
            self.store_answer(explained_answer.answer, &approval).await;
            Ok(explained_answer)
        };
        let no_answer = |reason| Ok(ExplainedAnswer::new(ApprovalAnswer::NoAnswer, reason));
        let explained_answer = tokio::select! {
            explained_answer = decision => explained_answer,
            () = cancellation.cancelled() => no_answer("the request was withdrawn"),
            () = broker.stop.cancelled() => no_answer("the run is ending"),
        };
        let ExplainedAnswer { answer, reason } = match explained_answer {
            Ok(explained_answer) => explained_answer,
            Err(known_decision) => return known_decision,
        };
        self.emit_approval(question, Some(answer)).await;
        if answer.is_yes() {
            ApprovalDecision::Approved
        } else {
            ApprovalDecision::Denied(reason)
        }
    }

    /// Waits until the user is asked about no other request.
    async fn wait_for_turn(&self, question: &ApprovalRequest) -> AsyncMutexGuard<'_, ()> {
        let queue = &self.broker.0.queue;
        if let Ok(turn) = queue.try_lock() {
            return turn;
        }
        self.emit_queued(question, true).await;
        let turn = queue.lock().await;
        self.emit_queued(question, false).await;
        turn
    }

    /// Returns the earlier decision about the call, if there is one.
    fn previous_decision(
        &self,
        question: &ApprovalRequest,
        approval: &PersistentApproval,
    ) -> Option<ApprovalDecision> {
        let broker = &self.broker.0;
        // All calls of a program have the same id, so the effects are compared too.
        let call = question
            .call_id
            .clone()
            .map(|id| (self.agent.clone(), id, approval.clone()));
        let recorded_answer = call.and_then(|call| broker.recorded.get(&call));
        if recorded_answer == Some(&ApprovalAnswer::No) {
            return Some(ApprovalDecision::Denied("the user refused it".to_owned()));
        }
        let approval_file = broker.config.persistent.as_ref();
        let is_approved = recorded_answer.is_some()
            || broker.config.session.lock().contains(approval)
            || approval_file.is_some_and(|file| file.contains(approval));
        is_approved.then_some(ApprovalDecision::Approved)
    }

    /// Stores an approval. If it cannot be saved persistently, it lasts for the session, and the
    /// user is warned.
    async fn store_answer(&self, answer: ApprovalAnswer, approval: &PersistentApproval) {
        let config = &self.broker.0.config;
        if answer == ApprovalAnswer::Always
            && let Some(file) = &config.persistent
            && let Err(error) = file.add(approval)
        {
            self.emit(RunEvent::Warning {
                message: format!("the approval was saved only for this session: {error}"),
            })
            .await;
        }
        if matches!(answer, ApprovalAnswer::Session | ApprovalAnswer::Always) {
            config.session.lock().insert(approval.clone());
        }
    }

    async fn ask_user(&self, question: &ApprovalRequest) -> ExplainedAnswer {
        let no_answer = |reason| ExplainedAnswer::new(ApprovalAnswer::NoAnswer, reason);
        match &self.broker.0.config.channel {
            ApprovalChannel::Unavailable => {
                no_answer("no user can be asked: there is no terminal and no `--approval-socket`")
            }
            ApprovalChannel::Terminal(Reviewer { questions, .. }) => {
                let (answer, reply) = oneshot::channel();
                let request = UserQuestion::Call {
                    agent: self.agent.clone(),
                    question: question.clone(),
                    always: self.approval_file_path(),
                    answer,
                };
                if questions.send(request).await.is_err() {
                    return no_answer("the terminal or the page is closed");
                }
                match reply.await {
                    Ok(ApprovalAnswer::No) => {
                        ExplainedAnswer::new(ApprovalAnswer::No, "the user refuses it")
                    }
                    Ok(answer) => ExplainedAnswer::new(answer, ""),
                    Err(_) => no_answer("no answer"),
                }
            }
            ApprovalChannel::Socket(socket) => self.query_socket(socket, question).await,
        }
    }

    async fn query_socket(&self, socket: &AbsPath, question: &ApprovalRequest) -> ExplainedAnswer {
        let request = json!({
            "schema_version": 2,
            "project": self.broker.0.project,
            "agent": self.agent,
            "call_id": question.call_id,
            "phase": question.phase,
            "tool": question.tool,
            "input": question.input,
            "effects": question.effects,
            "reason": question.reason,
        });
        match request_approval(socket, &request.to_string()).await {
            Ok(reply) if reply.answer == ApprovalAnswer::No => {
                let reason = reply
                    .reason
                    .unwrap_or_else(|| "the user refuses it".to_owned());
                ExplainedAnswer::new(ApprovalAnswer::No, reason)
            }
            Ok(reply) => ExplainedAnswer::new(reply.answer, ""),
            Err(reason) => ExplainedAnswer::new(ApprovalAnswer::NoAnswer, reason),
        }
    }

    /// Returns the path of the file for persistent approvals.
    fn approval_file_path(&self) -> Option<AbsPath> {
        let approval_file = self.broker.0.config.persistent.as_ref();
        approval_file.map(|file| file.path().clone())
    }

    async fn emit_queued(&self, question: &ApprovalRequest, waiting: bool) {
        self.emit(ToolEvent::ApprovalQueued {
            agent: self.agent.clone(),
            call_id: question.call_id.clone(),
            tool: question.tool.clone(),
            waiting,
        })
        .await;
    }

    async fn emit_approval(&self, question: &ApprovalRequest, answer: Option<ApprovalAnswer>) {
        self.emit(ToolEvent::Approval {
            agent: self.agent.clone(),
            call_id: question.call_id.clone(),
            tool: question.tool.clone(),
            effects: question.effects.clone(),
            reason: question.reason.clone(),
            answer,
            by: self.answer_channel(answer),
        })
        .await;
    }

    /// Returns where an answer came from.
    fn answer_channel(&self, answer: Option<ApprovalAnswer>) -> Option<InputChannel> {
        if matches!(answer, None | Some(ApprovalAnswer::NoAnswer)) {
            return None;
        }
        match &self.broker.0.config.channel {
            ApprovalChannel::Unavailable => None,
            ApprovalChannel::Terminal(reviewer) => Some(reviewer.channel),
            ApprovalChannel::Socket(_) => Some(InputChannel::ApprovalSocket),
        }
    }

    async fn emit(&self, event: impl Into<Event>) {
        self.broker.emit(event).await;
    }
}
