//! Cancels a turn of an external agent: where the protocol supports it, asks the agent to end the
//! turn and waits a moment for it. The caller ends the process afterwards, whether or not the agent
//! has reacted.

use std::time::Duration;

use tokio::time::timeout;

use crate::backend::external_agent::agent_requests::encode_rejection;
use crate::backend::external_agent::agent_session::{ExternalAgentSession, TurnState};
use crate::backend::external_agent::protocol::{AgentEvent, ExternalAgentError, ProcessLifetime};

/// Maximum time that an agent gets to end its turn after a cancel request.
const CANCEL_TIME_MAX: Duration = Duration::from_secs(2);

/// Asks an agent to end the turn that is in progress, and waits a moment for it; returns the usage
/// that the agent has reported until then.
pub(super) async fn cancel_turn(session: &mut ExternalAgentSession) -> Vec<AgentEvent> {
    let mut usage = Vec::new();
    let cancel_lines = session.protocol.encode_cancel();
    if session.turn_state == TurnState::Open && !cancel_lines.is_empty() {
        // The agent is asked only once.
        session.turn_state = TurnState::Ended;
        let _timeout_result = timeout(
            CANCEL_TIME_MAX,
            wait_for_turn_end(session, cancel_lines, &mut usage),
        )
        .await;
    }
    usage
}

/// Waits for the end of the turn, and refuses the agent's requests meanwhile.
async fn wait_for_turn_end(
    session: &mut ExternalAgentSession,
    mut lines: Vec<String>,
    usage: &mut Vec<AgentEvent>,
) -> Result<(), ExternalAgentError> {
    let Some(process) = &mut session.process else {
        return Ok(());
    };
    lines.extend(session.cancel_reply.take());
    // Their callers learn that no result will come.
    session.waiting_calls.clear();
    loop {
        process
            .write_lines(&lines, ProcessLifetime::Session)
            .await?;
        lines.clear();
        let line = tokio::select! {
            biased;
            Some(call) = session.socket_server.incoming.recv() => {
                drop(call);
                continue;
            }
            line = process.read_line() => line?,
        };
        for event in session.protocol.decode_line(&line)? {
            match event {
                AgentEvent::Usage(_) | AgentEvent::Cost(_) => usage.push(event),
                AgentEvent::Send(line) => lines.push(line),
                AgentEvent::Request(id, request) => {
                    lines.extend(encode_rejection(&*session.protocol, &id, &request));
                }
                AgentEvent::TurnEnded | AgentEvent::Failed(_) => return Ok(()),
                AgentEvent::Text(_)
                | AgentEvent::Reasoning(_)
                | AgentEvent::NativeToolCall(_)
                | AgentEvent::Plan(_)
                | AgentEvent::ToolCallCompleted => {}
            }
        }
    }
}
