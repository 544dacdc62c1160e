//! Backend for external agents: agents that are separate programs, such as Claude Code. An external
//! agent works with its own tools in its agent's sandbox, reaches the run over a Unix socket, and
//! is asked like every model: a reply ends with its turn, or with a call that needs an answer. The
//! gate decides what its calls may do.

mod acp;
mod announced_calls;
mod claude;
mod codex;
mod agent_session;
mod cancellation;
mod permission;
mod socket_server;
mod connection;
#[cfg(test)]
mod tests;
mod conversation_prompt;
mod protocol;
mod turn;
mod agent_requests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream;

use crate::backend::external_agent::acp::AcpProtocol;
use crate::backend::external_agent::agent_session::{ExternalAgentSession, TurnState};
use crate::backend::external_agent::claude::ClaudeCodeProtocol;
use crate::backend::external_agent::codex::CodexProtocol;
use crate::backend::external_agent::protocol::AgentProtocol;
use crate::backend::external_agent::turn::AgentTurn;
use crate::backend::{Backend, BackendError, BackendErrorKind, ModelRequest, ReplyStream};
use crate::config::ReplyTimeouts;
use crate::config::external_agents::ExternalAgentConfig;
use crate::config::vendors::AgentProtocolKind;
use crate::world::exec::agent_launcher::AgentLaunchSetup;

/// The type of Google's program, which has launch options of its own.
const GEMINI: &str = "gemini_cli";

/// An external agent without a sandbox, so that it cannot be asked.
#[derive(Clone, Debug)]
pub struct ExternalAgent {
    config: Arc<ExternalAgentConfig>,
    times: ReplyTimeouts,
}

impl ExternalAgent {
    /// Creates the external agent that `config` describes.
    pub fn new(config: Arc<ExternalAgentConfig>, times: ReplyTimeouts) -> Self {
        Self { config, times }
    }
}

impl Backend for ExternalAgent {
    fn ask<'a>(&'a self, _request: ModelRequest<'a>) -> ReplyStream<'a> {
        let error = BackendError {
            kind: BackendErrorKind::Permanent,
            message: format!("`{}` has no sandbox here", self.config.vendor),
        };
        Box::pin(stream::iter([Err(error)]))
    }

    fn with_launcher(&self, setup: &AgentLaunchSetup) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(SandboxedAgent {
            config: Arc::clone(&self.config),
            times: self.times,
            launch: setup.clone(),
            session: Mutex::default(),
        }))
    }
}

/// An external agent in its sandbox.
struct SandboxedAgent {
    config: Arc<ExternalAgentConfig>,
    times: ReplyTimeouts,
    launch: AgentLaunchSetup,
    /// State that lasts from one reply to the next.
    session: Mutex<Option<ExternalAgentSession>>,
}

impl fmt::Debug for SandboxedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxedAgent")
            .field("type", &self.config.vendor)
            .finish_non_exhaustive()
    }
}

impl Backend for SandboxedAgent {
    fn ask<'a>(&'a self, request: ModelRequest<'a>) -> ReplyStream<'a> {
        let turn = AgentTurn::new(self, request);
        Box::pin(stream::unfold(turn, |mut turn| async move {
            let event = turn.next_event().await?;
            Some((event, turn))
        }))
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let session = self.session().take();
            if let Some(mut session) = session {
                // A process between two turns is kept for the next reply.
                if session.turn_state == TurnState::Open {
                    session.stop().await;
                }
                *self.session() = Some(session);
            }
        })
    }
}

impl SandboxedAgent {
    fn session(&self) -> MutexGuard<'_, Option<ExternalAgentSession>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the protocol that the agent uses.
    fn protocol(&self) -> Box<dyn AgentProtocol> {
        match self.config.protocol {
            AgentProtocolKind::Acp if self.config.vendor == GEMINI => {
                Box::new(AcpProtocol::new(acp::gemini_launch))
            }
            AgentProtocolKind::Acp => Box::new(AcpProtocol::new(acp::plain_launch)),
            AgentProtocolKind::ClaudeCode => Box::new(ClaudeCodeProtocol::default()),
            AgentProtocolKind::Codex => Box::new(CodexProtocol::default()),
        }
    }

    /// Returns the maximum time without output.
    fn silence_max(&self) -> Duration {
        Duration::from_secs(self.times.idle_seconds)
    }

    /// Returns the maximum time of a reply.
    fn time_max(&self) -> Duration {
        Duration::from_secs(self.times.total_seconds)
    }
}
