//! State of an external agent that lasts from one reply to the next: its process, its socket,
//! and how much of the conversation it knows.

use std::collections::BTreeMap;

use tokio::task::spawn_blocking;

use crate::backend::conversation::{ChatMessage, ConversationVersion};
use crate::backend::external_agent::cancellation::cancel_turn;
use crate::backend::external_agent::connection::{AgentConnection, start_process};
use crate::backend::external_agent::protocol::{
    AgentEvent, AgentProtocol, ExternalAgentError, LaunchContext, ProcessLifetime,
};
use crate::backend::external_agent::socket_server::{
    AgentSocketServer, AnswerSender, ToolCallAnswer,
};
use crate::backend::external_agent::{SandboxedAgent, conversation_prompt};
use crate::prompts::external_agents::CONTINUE_PROMPT;
use crate::world::access::external_call::{CallerIsolation, ExternalCaller};
use crate::world::exec::agent_launcher::AgentLauncher;

/// State of an external agent that lasts from one reply to the next.
pub(super) struct ExternalAgentSession {
    pub(super) socket_server: AgentSocketServer,
    pub(super) protocol: Box<dyn AgentProtocol>,
    launch_context: LaunchContext,
    pub(super) process: Option<AgentConnection>,
    /// The version of the conversation that the process knows, and how many of its messages.
    pub(super) known_messages: Option<(ConversationVersion, usize)>,
    /// The calls whose results the agent waits for during its turn.
    pub(super) waiting_calls: BTreeMap<String, AnswerSender>,
    /// Whether a turn is in progress.
    pub(super) turn_state: TurnState,
    /// How many processes in a row have exited before they said anything.
    pub(super) start_failures: usize,
    /// The line that rejects the request that the agent waits for, sent if the turn is cancelled
    /// meanwhile; `None` if it waits for none.
    pub(super) cancel_reply: Option<String>,
}

/// Progress of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnState {
    Open,
    Ended,
}

/// Result of trying to continue with the existing process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessReuse {
    Reused,
    Restart,
}

impl ExternalAgentSession {
    /// Ends the process; the next one knows nothing of the conversation.
    fn discard_process(&mut self) {
        self.process = None;
        self.known_messages = None;
        self.waiting_calls.clear();
        self.cancel_reply = None;
        self.turn_state = TurnState::Ended;
    }

    /// Ends the process. A turn in progress gets a moment to end; returns the usage that the agent
    /// has reported until then.
    pub(super) async fn stop(&mut self) -> Vec<AgentEvent> {
        let usage = cancel_turn(self).await;
        let process = self.process.take();
        // Ending the process takes a moment.
        let _ended = spawn_blocking(move || drop(process)).await;
        self.discard_process();
        usage
    }

    /// Sends the new messages to a process that knows the rest.
    pub(super) async fn continue_turn(
        &mut self,
        agent: &SandboxedAgent,
        new_messages: &[ChatMessage],
    ) -> Result<ProcessReuse, ExternalAgentError> {
        if self.turn_state == TurnState::Open {
            return Ok(self.answer_calls(new_messages));
        }
        let lifetime = self.protocol.process_lifetime();
        if lifetime == ProcessLifetime::Session && self.process.is_none() {
            return Ok(ProcessReuse::Restart);
        }
        let text = conversation_prompt::render_new(new_messages, |_| false);
        let text = if text.is_empty() {
            CONTINUE_PROMPT.to_owned()
        } else {
            text
        };
        if lifetime == ProcessLifetime::SingleTurn {
            self.start(agent).await?;
        }
        let lines = self.protocol.encode_turn(text);
        match &mut self.process {
            Some(process) => process
                .write_lines(&lines, lifetime)
                .await
                .map(|()| ProcessReuse::Reused),
            None => Ok(ProcessReuse::Restart),
        }
    }

    /// Answers the calls that the agent waits for. Other new messages go with the last answer.
    fn answer_calls(&mut self, new_messages: &[ChatMessage]) -> ProcessReuse {
        let text =
            conversation_prompt::render_new(new_messages, |id| self.waiting_calls.contains_key(id));
        let mut results = Vec::new();
        let mut new_images = Vec::new();
        for message in new_messages {
            match message {
                ChatMessage::CallResult { call_id, content } => {
                    let with_answer = |answer| (answer, ToolCallAnswer::from_text(content.clone()));
                    results.extend(self.waiting_calls.remove(call_id).map(with_answer));
                }
                ChatMessage::Images { images, .. } => new_images.extend_from_slice(images),
                ChatMessage::User(_)
                | ChatMessage::Assistant { .. }
                | ChatMessage::Files { .. } => {}
            }
        }
        let Some((_, last_answer)) = results.last_mut() else {
            return ProcessReuse::Restart;
        };
        if !text.is_empty() {
            last_answer.text.push_str("\n\n");
            last_answer.text.push_str(&text);
        }
        last_answer.images = new_images;
        for (answer, tool_answer) in results {
            // A receiver that no longer waits has already told its model.
            let _result = answer.send(Ok(tool_answer));
        }
        ProcessReuse::Reused
    }

    /// Starts a new process, and sends the whole conversation to it.
    pub(super) async fn restart(
        &mut self,
        agent: &SandboxedAgent,
        text: String,
    ) -> Result<(), ExternalAgentError> {
        self.stop().await;
        // Discards the requests of an earlier process, which no longer waits for them.
        while self.socket_server.incoming.try_recv().is_ok() {}
        let lines = self.protocol.encode_first_turn(&self.launch_context, text);
        self.start(agent).await?;
        let lifetime = self.protocol.process_lifetime();
        match &mut self.process {
            Some(process) => process.write_lines(&lines, lifetime).await,
            None => Ok(()),
        }
    }

    async fn start(&mut self, agent: &SandboxedAgent) -> Result<(), ExternalAgentError> {
        let launch = &agent.launch;
        let process = start_process(
            &launch.launcher,
            &launch.command,
            &*self.protocol,
            &self.launch_context,
            &self.socket_server.agent_socket,
        )
        .await?;
        self.process = Some(process);
        Ok(())
    }
}

/// Opens the agent socket and creates the session of an external agent.
pub(super) fn open_session(
    agent: &SandboxedAgent,
) -> Result<ExternalAgentSession, ExternalAgentError> {
    let launcher = &agent.launch.launcher;
    let socket_and_program = launcher
        .open_socket()
        .and_then(|socket| Ok((socket, AgentLauncher::own_executable()?)));
    let (socket, massgen) =
        socket_and_program.map_err(|error| ExternalAgentError::Permanent(error.to_string()))?;
    let socket_server = AgentSocketServer::open(socket, external_caller(launcher));
    Ok(ExternalAgentSession {
        launch_context: LaunchContext {
            dir: launcher.dir(),
            massgen,
            socket: socket_server.socket().clone(),
            directories: launcher.open_directories(),
            model: agent.config.model.clone(),
            reasoning: agent.config.reasoning.clone(),
        },
        socket_server,
        protocol: agent.protocol(),
        process: None,
        known_messages: None,
        waiting_calls: BTreeMap::new(),
        turn_state: TurnState::Ended,
        start_failures: 0,
        cancel_reply: None,
    })
}

/// Returns the caller for whose calls the gate decides.
pub(super) fn external_caller(launcher: &AgentLauncher) -> ExternalCaller {
    ExternalCaller {
        gate: launcher.gate.for_external_program(),
        commands: Some(launcher.commands.rules().clone()),
        tools: launcher.tools.clone(),
        isolation: CallerIsolation::Sandbox,
    }
}
