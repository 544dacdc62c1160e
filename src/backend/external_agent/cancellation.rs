//! Owns the end of a guest's turn before its time: where the protocol has a word for it, the guest is asked
//! to end the turn and gets a moment to do so. Whoever does not react is ended all the same.

use std::time::Duration;

use tokio::time::timeout;

use crate::backend::external_agent::agent_requests::encode_rejection;
use crate::backend::external_agent::agent_session::{ExternalAgentSession, TurnState};
use crate::backend::external_agent::protocol::{AgentEvent, ExternalAgentError, ProcessLifetime};

/// How long a guest may take to end its turn once it is asked to.
const PARTING_TIME_MAX: Duration = Duration::from_secs(2);

/// Asks a guest that is in the middle of its turn to end that, and waits a moment for it; gives what the
/// guest has counted by then.
pub(super) async fn cancel_turn(held: &mut ExternalAgentSession) -> Vec<AgentEvent> {
    let mut counted = Vec::new();
    let asked = held.protocol.encode_cancel();
    if held.progress == TurnState::Open && !asked.is_empty() {
        // It is asked once, whatever becomes of that.
        held.progress = TurnState::Ended;
        let _in_time = timeout(
            PARTING_TIME_MAX,
            wait_for_turn_end(held, asked, &mut counted),
        )
        .await;
    }
    counted
}

/// Waits for the end of the turn. What the guest asks for meanwhile is refused.
async fn wait_for_turn_end(
    held: &mut ExternalAgentSession,
    mut lines: Vec<String>,
    counted: &mut Vec<AgentEvent>,
) -> Result<(), ExternalAgentError> {
    let Some(process) = &mut held.process else {
        return Ok(());
    };
    lines.extend(held.refusal.take());
    // Whoever made these calls reads that nobody waits for them.
    held.waiting.clear();
    loop {
        process
            .write_lines(&lines, ProcessLifetime::Session)
            .await?;
        lines.clear();
        let line = tokio::select! {
            biased;
            Some(call) = held.socket_server.incoming.recv() => {
                drop(call);
                continue;
            }
            line = process.read_line() => line?,
        };
        for heard in held.protocol.decode_line(&line)? {
            match heard {
                AgentEvent::Usage(_) | AgentEvent::Cost(_) => counted.push(heard),
                AgentEvent::Send(line) => lines.push(line),
                AgentEvent::Request(id, wish) => {
                    lines.extend(encode_rejection(&*held.protocol, &id, &wish));
                }
                AgentEvent::TurnEnded | AgentEvent::Failed(_) => return Ok(()),
                AgentEvent::Text(_) | AgentEvent::Reasoning(_) | AgentEvent::NativeToolCall(_) => {}
            }
        }
    }
}
