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

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a whole reply.
    Whole,
    /// Without one.
    Failed,
    /// In the middle of something that is counted only at its end.
    Uncounted,
    /// Nobody waited for its end: the vendor may have counted more by then.
    GivenUp,
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

    /// Charges a request to `model`, of which the vendor has counted `usage` and perhaps told a cost,
    /// and gives what it cost; `None` if that is not known. A request that failed before anything was
    /// counted cost nothing; a whole reply that was not counted may have, and so may one that was given up
    /// or ended before it could be counted.
    pub fn charge(
        &self,
        (model, phase): (&Model, Phase),
        (usage, told): (Usage, Option<Money>),
        ending: Ending,
    ) -> Option<Money> {
        let is_counted = usage != Usage::default();
        let cost = match (&model.price, ending) {
            (_, Ending::Whole | Ending::Failed) if told.is_some() => told,
            (Some(price), _) if price.is_free() => Some(Money::ZERO),
            (_, Ending::Uncounted | Ending::GivenUp) => None,
            (Some(price), _) if is_counted => Some(price.cost(&usage)),
            (_, Ending::Failed) if !is_counted => Some(Money::ZERO),
            (_, Ending::Failed | Ending::Whole) => None,
        };
        let post = Post {
            agent: self.agent.clone(),
            model: Arc::clone(&model.name),
            phase,
        };
        self.ledger().charge(post, usage, cost);
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

    /// Says once which limits do not hold the agent because a request was not counted, which cost `cost`.
    pub(super) async fn tell_of_uncounted(&self, model: &str, cost: Option<Money>) {
        let not_held = self.account.ledger().not_held(&self.agent, cost);
        if let Some(limits) = not_held {
            let agent = &self.agent;
            let message = format!(
                "`{model}` does not say what it uses: {limits} cannot hold {agent} to that"
            );
            self.emit(Event::Warning { message }).await;
        }
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
