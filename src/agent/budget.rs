//! An agent's budget in a run's ledger: before each request and each tool call it checks whether
//! the limits allow it, and after each request it is charged. The ledger decides; this module
//! reports what it refuses.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agent::ModelSession;
use crate::backend::available_model::AvailableModel;
use crate::backend::{BackendError, BackendErrorKind};
use crate::event::RunEvent;
use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::ledger::{BudgetLedger, BudgetRefusal, RefusalNovelty};
use crate::spending::money::Money;
use crate::spending::price::ModelPrice;
use crate::spending::totals::{RequestTotals, UsageKey};
use crate::spending::{TokenUsage, UsageReport};
use crate::text::list_names;

/// One agent's budget.
#[derive(Clone, Debug)]
pub struct AgentBudget {
    agent: AgentId,
    ledger: Arc<Mutex<BudgetLedger>>,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// A complete reply.
    Complete,
    /// No reply.
    Failed,
    /// It ended in the middle of something that is counted only at its end.
    Uncounted,
    /// It was dropped before its end: the vendor may have counted more.
    Abandoned,
}

impl AgentBudget {
    /// Creates the budget of `agent` in `ledger`.
    pub fn new(agent: AgentId, ledger: Arc<Mutex<BudgetLedger>>) -> Self {
        Self { agent, ledger }
    }

    /// Returns the limit that stops the agent's requests, in one sentence, if one does.
    pub fn exhausted_limit(&self) -> Option<String> {
        self.ledger().agent_exhausted_limit(&self.agent)
    }

    /// Charges a request to `model`, for which the vendor reported `usage` and perhaps a cost.
    /// Returns what it cost; `None` if that is unknown. A request that failed before anything was
    /// counted cost nothing; a complete reply that was not counted may have cost something, and so
    /// may one that was dropped or ended before it could be counted.
    pub fn charge(
        &self,
        model: &AvailableModel,
        phase: Phase,
        usage: TokenUsage,
        reported_cost: Option<Money>,
        outcome: RequestOutcome,
    ) -> Option<Money> {
        let is_counted = usage != TokenUsage::default();
        let cost = match (&model.price, outcome) {
            (_, RequestOutcome::Complete | RequestOutcome::Failed) if reported_cost.is_some() => {
                reported_cost
            }
            (Some(price), _) if price.is_free() => Some(Money::ZERO),
            (_, RequestOutcome::Uncounted | RequestOutcome::Abandoned) => None,
            (Some(price), _) if is_counted => Some(price.cost(&usage)),
            (_, RequestOutcome::Failed) if !is_counted => Some(Money::ZERO),
            (_, RequestOutcome::Failed | RequestOutcome::Complete) => None,
        };
        let key = UsageKey {
            agent: self.agent.clone(),
            model: Arc::clone(&model.name),
            phase: phase.into(),
        };
        self.ledger()
            .charge(key, RequestTotals::of_request(usage, cost));
        cost
    }

    /// Checks that the agent's limits can be enforced for a request to `model` with this price.
    ///
    /// # Errors
    /// Its tokens or its cost would stay unknown, although they are limited; the string says so.
    pub(super) fn require_countable(
        &self,
        model: &str,
        price: Option<&ModelPrice>,
        report: UsageReport,
    ) -> Result<(), String> {
        let has_cost = match (price, report) {
            (Some(price), UsageReport::Missing) => price.is_free(),
            (Some(_), UsageReport::Present) => true,
            (None, UsageReport::Missing | UsageReport::Present) => false,
        };
        let ledger = self.ledger();
        let is_cost_unenforceable = !has_cost && ledger.limits_cost(&self.agent);
        let are_tokens_unenforceable =
            report == UsageReport::Missing && ledger.limits_tokens(&self.agent);
        let limits = [
            (is_cost_unenforceable, "max_cost_usd"),
            (are_tokens_unenforceable, "max_tokens_total"),
        ];
        let limit_names: Vec<&str> = limits
            .iter()
            .filter_map(|(is_unenforceable, name)| is_unenforceable.then_some(*name))
            .collect();
        if limit_names.is_empty() {
            return Ok(());
        }
        let reason = match report {
            UsageReport::Missing => format!("`{model}` reports no usage"),
            UsageReport::Present => format!("the price of `{model}` is unknown"),
        };
        let names = list_names(&limit_names, "and");
        Err(format!(
            "{reason}, so {names} cannot be enforced: work without it"
        ))
    }

    fn ledger(&self) -> MutexGuard<'_, BudgetLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelSession {
    /// Fails if the agent may not ask its model once more. The error is permanent, so that no
    /// fallback is asked either.
    pub(super) async fn require_request_budget(&self) -> Result<(), BackendError> {
        if !self.budget.ledger().is_covered_by_shared_budget() {
            // The run is being parked; nothing may be recorded that a resumed run would repeat.
            pending::<()>().await;
        }
        let permission = self.budget.ledger().check_request(&self.agent);
        let Err(refusal) = permission else {
            return Ok(());
        };
        let message = refusal.limit.clone();
        self.report_limit(refusal).await;
        Err(BackendError {
            kind: BackendErrorKind::Permanent,
            message,
        })
    }

    /// Returns whether the agent may call a tool once more; if so, the call is counted.
    pub(super) async fn may_call_tool(&self) -> bool {
        let permission = self.budget.ledger().admit_tool_call(&self.agent);
        let Err(refusal) = permission else {
            return true;
        };
        self.report_limit(refusal).await;
        false
    }

    /// Warns once about the limits that cannot be enforced for the agent because a request, which
    /// cost `cost`, was not counted.
    pub(super) async fn warn_uncounted(&self, model: &str, cost: Option<Money>) {
        let unenforceable_limits = self
            .budget
            .ledger()
            .take_unenforceable_limits(&self.agent, cost);
        if let Some(limits) = unenforceable_limits {
            let agent = &self.agent;
            let message =
                format!("`{model}` reports no usage, so {limits} cannot be enforced for {agent}");
            self.emit(RunEvent::Warning { message }).await;
        }
    }

    /// Emits an event when a limit is first reached.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spending::limits::BudgetLimits;
    use crate::spending::price::TokenRates;

    #[test]
    fn a_request_that_cannot_be_counted_is_refused_if_it_would_escape_a_limit() {
        let cost = BudgetLimits {
            cost: Money::from_dollars("1"),
            ..BudgetLimits::default()
        };
        let tokens = BudgetLimits {
            tokens: Some(9),
            ..BudgetLimits::default()
        };
        let paid = ModelPrice {
            rates: TokenRates {
                output: Money::from_dollars("1").unwrap(),
                ..TokenRates::default()
            },
            ..ModelPrice::default()
        };
        let free = ModelPrice::default();
        let agent = AgentId::parse("a").unwrap();
        let refused = |limits: BudgetLimits, price: Option<&ModelPrice>, report: UsageReport| {
            let none = BudgetLimits::default();
            // The limits are the run's or the agent's own.
            let both = [(limits, none), (none, limits)].map(|(run, own)| {
                let ledger = BudgetLedger::new(run, [(agent.clone(), own)]);
                let budget = AgentBudget::new(agent.clone(), Arc::new(Mutex::new(ledger)));
                let refused = budget.require_countable("m", price, report).err();
                refused.unwrap_or_default()
            });
            assert_eq!(both[0], both[1]);
            both[0].clone()
        };
        let (present, missing) = (UsageReport::Present, UsageReport::Missing);
        for (limits, price, report, expected) in [
            (BudgetLimits::default(), None, missing, ""),
            (cost, Some(&paid), present, ""),
            (
                cost,
                Some(&paid),
                missing,
                "`m` reports no usage, so `max_cost_usd`",
            ),
            (cost, Some(&free), missing, ""),
            (
                cost,
                None,
                present,
                "the price of `m` is unknown, so `max_cost_usd`",
            ),
            (tokens, None, present, ""),
            (
                tokens,
                Some(&free),
                missing,
                "`m` reports no usage, so `max_tokens_total`",
            ),
        ] {
            let refused = refused(limits, price, report);
            assert_eq!(refused.is_empty(), expected.is_empty(), "{refused}");
            assert!(refused.starts_with(expected), "{refused}");
        }
    }
}
