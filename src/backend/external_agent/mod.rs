//! Owns the guests: agents that are programs of their own, such as Claude Code. A guest works with its
//! own tools in its agent's sandbox, reaches the run over a relay, and is asked like every model: its
//! turn is a reply. It decides nothing; what its calls may do the gate says.

mod acp;
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
use crate::world::exec::agent_launcher::AgentLauncher;

/// The type whose program takes its model by an argument of its own.
const GEMINI: &str = "gemini_cli";

/// A guest that has no place yet: nothing holds it, so that it cannot be asked.
#[derive(Clone, Debug)]
pub struct ExternalAgent {
    config: Arc<ExternalAgentConfig>,
    times: ReplyTimeouts,
}

/// Where a guest lives in one phase.
#[derive(Clone, Debug)]
pub struct AgentLaunchSetup {
    /// What holds it, and what it finds.
    pub launcher: AgentLauncher,
    /// Its program and the first arguments, as they are started.
    pub command: Vec<String>,
}

impl ExternalAgent {
    /// The guest that `config` describes.
    pub fn new(config: Arc<ExternalAgentConfig>, times: ReplyTimeouts) -> Self {
        Self { config, times }
    }
}

impl Backend for ExternalAgent {
    fn ask<'a>(&'a self, _request: ModelRequest<'a>) -> ReplyStream<'a> {
        let error = BackendError {
            kind: BackendErrorKind::Permanent,
            message: format!("`{}` has nothing here that holds it", self.config.vendor),
        };
        Box::pin(stream::iter([Err(error)]))
    }

    fn with_launcher(&self, seat: &AgentLaunchSetup) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(SandboxedAgent {
            config: Arc::clone(&self.config),
            times: self.times,
            launch: seat.clone(),
            session: Mutex::default(),
        }))
    }
}

/// A guest in its place.
struct SandboxedAgent {
    config: Arc<ExternalAgentConfig>,
    times: ReplyTimeouts,
    launch: AgentLaunchSetup,
    /// What lasts between two replies.
    session: Mutex<Option<ExternalAgentSession>>,
}

impl fmt::Debug for SandboxedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seated")
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
            let held = self.session().take();
            if let Some(mut held) = held {
                if held.progress == TurnState::Open {
                    held.stop().await;
                }
                *self.session() = Some(held);
            }
        })
    }
}

impl SandboxedAgent {
    fn session(&self) -> MutexGuard<'_, Option<ExternalAgentSession>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is spoken with.
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

    /// How long it may say nothing.
    fn silence_max(&self) -> Duration {
        Duration::from_secs(self.times.idle_seconds)
    }

    /// How long a turn may take.
    fn time_max(&self) -> Duration {
        Duration::from_secs(self.times.total_seconds)
    }
}
