//! Owns an agent's account in the one ledger of a run: before each request and each tool call it
//! says whether there is anything left to spend, and after each request it is charged. The ledger
//! decides; here its refusals are told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agent::Mind;
use crate::backend::{BackendError, FaultKind, Model};
use crate::event::Event;
use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::Usage;
use crate::spending::books::Post;
use crate::spending::ledger::{Ledger, News, Refusal};
use crate::spending::money::Money;

/// One agent's account.
#[derive(Clone, Debug)]
pub struct Account {
    agent: AgentId,
    ledger: Arc<Mutex<Ledger>>,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The model that was asked.
    pub model: &'a Model,
    /// In which phase.
    pub phase: Phase,
    /// What the vendor counted, as far as it has said so.
    pub usage: Usage,
    /// Why there is no whole reply, if there is none.
    pub fault: Option<&'a BackendError>,
}

impl Account {
    /// The account of `agent` in `ledger`.
    pub fn new(agent: AgentId, ledger: Arc<Mutex<Ledger>>) -> Self {
        Self { agent, ledger }
    }

    /// The limit that keeps the agent from asking, in one sentence, if one has done so.
    pub fn ended_by(&self) -> Option<String> {
        self.ledger().agent_ended_by(&self.agent)
    }

    /// Charges a request and gives what it cost; `None` if that is not known. A request that failed
    /// before anything was counted cost nothing; a whole reply that was not counted may have.
    pub fn charge(&self, asked: Asked<'_>) -> Option<Money> {
        let price = asked.model.price.as_ref();
        let is_counted = asked.usage != Usage::default();
        let cost = match price {
            Some(price) if is_counted => Some(price.cost(&asked.usage)),
            Some(price) if price.is_free() => Some(Money::ZERO),
            Some(_) | None if !is_counted && asked.fault.is_some() => Some(Money::ZERO),
            Some(_) | None => None,
        };
        let post = Post {
            agent: self.agent.clone(),
            model: Arc::clone(&asked.model.name),
            phase: asked.phase,
        };
        self.ledger().charge(post, asked.usage, cost);
        cost
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mind {
    /// Whether the agent may ask its model once more; otherwise why not. No other model may be
    /// asked instead.
    pub(super) async fn may_ask(&self) -> Result<(), BackendError> {
        let asked = self.account.ledger().may_ask(&self.agent);
        let Err(refusal) = asked else {
            return Ok(());
        };
        let message = refusal.limit.clone();
        self.tell_of(refusal).await;
        Err(BackendError {
            kind: FaultKind::Permanent,
            message,
        })
    }

    /// Whether the agent may call a tool once more; if so, the call is counted.
    pub(super) async fn may_call_tool(&self) -> bool {
        let called = self.account.ledger().may_call_tool(&self.agent);
        let Err(refusal) = called else {
            return true;
        };
        self.tell_of(refusal).await;
        false
    }

    /// Tells of a limit when it is first met.
    async fn tell_of(&self, refusal: Refusal) {
        if refusal.news == News::First {
            self.emit(Event::LimitMet {
                agent: refusal.whose,
                limit: refusal.limit,
            })
            .await;
        }
    }
}
