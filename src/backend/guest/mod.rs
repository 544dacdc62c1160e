//! Owns the guests: agents that are programs of their own, such as Claude Code. A guest works with its
//! own tools in its agent's sandbox, reaches the run over a relay, and is asked like every model: its
//! turn is a reply. It decides nothing; what its calls may do the gate says.

mod acp;
mod claude;
mod codex;
mod held;
mod parting;
mod permission;
mod relay;
mod session;
#[cfg(test)]
mod tests;
mod told;
mod tongue;
mod turn;
mod wishes;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream;

use crate::backend::guest::acp::Acp;
use crate::backend::guest::claude::Claude;
use crate::backend::guest::codex::Codex;
use crate::backend::guest::held::{Held, Progress};
use crate::backend::guest::tongue::Tongue;
use crate::backend::guest::turn::Turn;
use crate::backend::{Backend, BackendError, FaultKind, Reply, Request};
use crate::config::ReplyTimes;
use crate::config::guests::GuestConfig;
use crate::config::vendors::Tongue as Spoken;
use crate::world::exec::guest::Lodging;

/// The type whose program takes its model by an argument of its own.
const GEMINI: &str = "gemini_cli";

/// A guest that has no place yet: nothing holds it, so that it cannot be asked.
#[derive(Clone, Debug)]
pub struct Guest {
    config: Arc<GuestConfig>,
    times: ReplyTimes,
}

/// Where a guest lives in one phase.
#[derive(Clone, Debug)]
pub struct Seat {
    /// What holds it, and what it finds.
    pub lodging: Lodging,
    /// Its program and the first arguments, as they are started.
    pub command: Vec<String>,
}

impl Guest {
    /// The guest that `config` describes.
    pub fn new(config: Arc<GuestConfig>, times: ReplyTimes) -> Self {
        Self { config, times }
    }
}

impl Backend for Guest {
    fn ask<'a>(&'a self, _request: Request<'a>) -> Reply<'a> {
        let error = BackendError {
            kind: FaultKind::Permanent,
            message: format!("`{}` has nothing here that holds it", self.config.vendor),
        };
        Box::pin(stream::iter([Err(error)]))
    }

    fn seated(&self, seat: &Seat) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Seated {
            config: Arc::clone(&self.config),
            times: self.times,
            seat: seat.clone(),
            held: Mutex::default(),
        }))
    }
}

/// A guest in its place.
struct Seated {
    config: Arc<GuestConfig>,
    times: ReplyTimes,
    seat: Seat,
    /// What lasts between two replies.
    held: Mutex<Option<Held>>,
}

impl fmt::Debug for Seated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seated")
            .field("type", &self.config.vendor)
            .finish_non_exhaustive()
    }
}

impl Backend for Seated {
    fn ask<'a>(&'a self, request: Request<'a>) -> Reply<'a> {
        let turn = Turn::new(self, request);
        Box::pin(stream::unfold(turn, |mut turn| async move {
            let event = turn.next().await?;
            Some((event, turn))
        }))
    }

    fn rest(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let held = self.held().take();
            if let Some(mut held) = held {
                if held.progress == Progress::Open {
                    held.stop().await;
                }
                *self.held() = Some(held);
            }
        })
    }
}

impl Seated {
    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is spoken with.
    fn tongue(&self) -> Box<dyn Tongue> {
        match self.config.tongue {
            Spoken::Acp if self.config.vendor == GEMINI => Box::new(Acp::new(acp::gemini)),
            Spoken::Acp => Box::new(Acp::new(acp::plain)),
            Spoken::ClaudeCode => Box::new(Claude::default()),
            Spoken::Codex => Box::new(Codex::default()),
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
