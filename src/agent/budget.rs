//! Owns an agent's account in the one ledger of a run: before each request and each tool call it
//! says whether there is anything left to spend, and after each request it is charged. The ledger
//! decides; here its refusals are told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agent::ModelSession;
use crate::backend::{AvailableModel, BackendError, BackendErrorKind};
use crate::event::RunEvent;
use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::TokenUsage;
use crate::spending::ledger::{BudgetLedger, BudgetRefusal, RefusalNovelty};
use crate::spending::money::Money;
use crate::spending::totals::UsageKey;

/// One agent's account.
#[derive(Clone, Debug)]
pub struct AgentBudget {
    agent: AgentId,
    ledger: Arc<Mutex<BudgetLedger>>,
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// With a whole reply.
    Whole,
    /// Without one.
    Failed,
    /// In the middle of something that is counted only at its end.
    Uncounted,
    /// Nobody waited for its end: the vendor may have counted more by then.
    GivenUp,
}

impl AgentBudget {
    /// The account of `agent` in `ledger`.
    pub fn new(agent: AgentId, ledger: Arc<Mutex<BudgetLedger>>) -> Self {
        Self { agent, ledger }
    }

    /// The limit that keeps the agent from asking, in one sentence, if one has done so.
    pub fn exhausted_limit(&self) -> Option<String> {
        self.ledger().agent_exhausted_limit(&self.agent)
    }

    /// Charges a request to `model`, of which the vendor has counted `usage` and perhaps told a cost,
    /// and gives what it cost; `None` if that is not known. A request that failed before anything was
    /// counted cost nothing; a whole reply that was not counted may have, and so may one that was given up
    /// or ended before it could be counted.
    pub fn charge(
        &self,
        (model, phase): (&AvailableModel, Phase),
        (usage, told): (TokenUsage, Option<Money>),
        ending: RequestOutcome,
    ) -> Option<Money> {
        let is_counted = usage != TokenUsage::default();
        let cost = match (&model.price, ending) {
            (_, RequestOutcome::Whole | RequestOutcome::Failed) if told.is_some() => told,
            (Some(price), _) if price.is_free() => Some(Money::ZERO),
            (_, RequestOutcome::Uncounted | RequestOutcome::GivenUp) => None,
            (Some(price), _) if is_counted => Some(price.cost(&usage)),
            (_, RequestOutcome::Failed) if !is_counted => Some(Money::ZERO),
            (_, RequestOutcome::Failed | RequestOutcome::Whole) => None,
        };
        let post = UsageKey {
            agent: self.agent.clone(),
            model: Arc::clone(&model.name),
            phase,
        };
        self.ledger().charge(post, usage, cost);
        cost
    }

    fn ledger(&self) -> MutexGuard<'_, BudgetLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelSession {
    /// Whether the agent may ask its model once more; otherwise why not. No other model may be
    /// asked instead.
    pub(super) async fn may_ask(&self) -> Result<(), BackendError> {
        let asked = self.budget.ledger().may_ask(&self.agent);
        let Err(refusal) = asked else {
            return Ok(());
        };
        let message = refusal.limit.clone();
        self.report_limit(refusal).await;
        Err(BackendError {
            kind: BackendErrorKind::Permanent,
            message,
        })
    }

    /// Whether the agent may call a tool once more; if so, the call is counted.
    pub(super) async fn may_call_tool(&self) -> bool {
        let called = self.budget.ledger().may_call_tool(&self.agent);
        let Err(refusal) = called else {
            return true;
        };
        self.report_limit(refusal).await;
        false
    }

    /// Says once which limits do not hold the agent because a request was not counted, which cost `cost`.
    pub(super) async fn warn_uncounted(&self, model: &str, cost: Option<Money>) {
        let not_held = self
            .budget
            .ledger()
            .take_unenforceable_limits(&self.agent, cost);
        if let Some(limits) = not_held {
            let agent = &self.agent;
            let message = format!(
                "`{model}` does not say what it uses: {limits} cannot hold {agent} to that"
            );
            self.emit(RunEvent::Warning { message }).await;
        }
    }

    /// Tells of a limit when it is first met.
    async fn report_limit(&self, refusal: BudgetRefusal) {
        if refusal.novelty == RefusalNovelty::First {
            self.emit(RunEvent::LimitMet {
                agent: refusal.agent,
                limit: refusal.limit,
            })
            .await;
        }
    }
}
