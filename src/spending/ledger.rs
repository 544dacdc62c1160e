//! The budget of a run: its usage and its limits, which decide whether an agent may make further
//! requests and tool calls. Limits are checked before each request and each call, so that at most
//! the requests in progress exceed them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::AgentId;
use crate::spending::limits::{BudgetLimits, ReachedLimit};
use crate::spending::money::Money;
use crate::spending::shared_budget::SharedBudget;
use crate::spending::totals::{RequestTotals, UsageKey, UsageTotals};
use crate::text::list_names;

/// The totals and limits of a run and of its agents.
#[derive(Clone, Debug, Default)]
pub struct BudgetLedger {
    totals: UsageTotals,
    run: TrackedLimits,
    agents: BTreeMap<AgentId, TrackedLimits>,
    /// The agents with requests whose usage a vendor did not report.
    uncounted_agents: BTreeSet<AgentId>,
    /// Money that other runs use too, if any.
    shared_budget: Option<Arc<dyn SharedBudget>>,
}

/// The limits of a run or an agent, and those that have been reached.
#[derive(Clone, Debug, Default)]
struct TrackedLimits {
    limits: BudgetLimits,
    /// The first limit that refused a request.
    request_limit: Option<ReachedLimit>,
    /// The limit on tool calls, if it refused one.
    tool_call_limit: Option<ReachedLimit>,
}

/// Refusal because of a reached limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRefusal {
    /// The agent whose limit is reached; `None` for the run's.
    pub agent: Option<AgentId>,
    /// The limit, in one sentence.
    pub limit: String,
    /// Whether the limit was reached before.
    pub novelty: RefusalNovelty,
}

/// Whether a limit was reached before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalNovelty {
    /// It is reached for the first time.
    First,
    /// It has already refused something.
    Repeated,
}

impl BudgetLedger {
    /// Creates an empty ledger with these limits.
    pub fn new(
        run: BudgetLimits,
        agents: impl IntoIterator<Item = (AgentId, BudgetLimits)>,
    ) -> Self {
        let agents = agents.into_iter();
        Self {
            totals: UsageTotals::default(),
            run: TrackedLimits::from_limits(run),
            uncounted_agents: BTreeSet::new(),
            shared_budget: None,
            agents: agents
                .map(|(id, limits)| (id, TrackedLimits::from_limits(limits)))
                .collect(),
        }
    }

    /// Returns the ledger with the usage before the run was interrupted.
    #[must_use]
    pub fn with_totals(self, totals: UsageTotals) -> Self {
        Self { totals, ..self }
    }

    /// Returns the ledger of a run that shares money with others.
    #[must_use]
    pub fn with_shared_budget(self, shared_budget: Option<Arc<dyn SharedBudget>>) -> Self {
        Self {
            shared_budget,
            ..self
        }
    }

    /// Returns whether the money that the run shares with others covers a further request.
    pub fn is_covered_by_shared_budget(&self) -> bool {
        let run_cost = self.totals.run().known_cost();
        let shared_budget = self.shared_budget.as_ref();
        shared_budget.is_none_or(|budget| budget.covers(run_cost))
    }

    /// Checks whether `agent` may send a further request to its model.
    pub fn check_request(&mut self, agent: &AgentId) -> Result<(), BudgetRefusal> {
        // Without tool calls left the run ends; an agent without them may still answer and vote.
        if let Some(limit) = self.run.tool_call_limit {
            return Err(refusal(None, limit, RefusalNovelty::Repeated));
        }
        let reached = self.run.limits.reached_by(&self.totals.run());
        if let Some((limit, novelty)) = record_limit(&mut self.run.request_limit, reached) {
            return Err(refusal(None, limit, novelty));
        }
        let tracked = self.agents.entry(agent.clone()).or_default();
        let reached = tracked.limits.reached_by(&self.totals.agent(agent));
        if let Some((limit, novelty)) = record_limit(&mut tracked.request_limit, reached) {
            return Err(refusal(Some(agent), limit, novelty));
        }
        Ok(())
    }

    /// Checks whether `agent` may call a tool once more; if so, the call is counted.
    pub fn admit_tool_call(&mut self, agent: &AgentId) -> Result<(), BudgetRefusal> {
        let run_calls = self.totals.tool_calls();
        let reached = self.run.limits.reached_by_tool_calls(run_calls);
        if let Some((limit, novelty)) = record_limit(&mut self.run.tool_call_limit, reached) {
            return Err(refusal(None, limit, novelty));
        }
        let tracked = self.agents.entry(agent.clone()).or_default();
        let agent_calls = self.totals.tool_calls_of(agent);
        let reached = tracked.limits.reached_by_tool_calls(agent_calls);
        if let Some((limit, novelty)) = record_limit(&mut tracked.tool_call_limit, reached) {
            return Err(refusal(Some(agent), limit, novelty));
        }
        self.totals.count_tool_call(agent);
        Ok(())
    }

    /// Charges a request.
    pub fn charge(&mut self, key: UsageKey, request: RequestTotals) {
        self.totals.charge(key, request);
    }

    /// Returns whether the money that `agent` spends is limited: by its own limit, by the run's, or
    /// by what the run shares with others.
    pub fn limits_cost(&self, agent: &AgentId) -> bool {
        let mut limits = self.limits_of(agent).into_iter();
        let shared_budget = self.shared_budget.as_ref();
        shared_budget.is_some_and(|budget| budget.limits_cost())
            || limits.any(|limits| limits.cost.is_some())
    }

    /// Returns whether the tokens that `agent` uses are limited: by its own limit, or by the run's.
    pub fn limits_tokens(&self, agent: &AgentId) -> bool {
        let mut limits = self.limits_of(agent).into_iter();
        limits.any(|limits| limits.tokens.is_some())
    }

    /// Returns the limits of the run and of `agent`.
    fn limits_of(&self, agent: &AgentId) -> [BudgetLimits; 2] {
        let agent_limits = self.agents.get(agent).map(|tracked| tracked.limits);
        [self.run.limits, agent_limits.unwrap_or_default()]
    }

    /// Names the limits that cannot be enforced for `agent`, because the vendor did not report the
    /// usage of a complete request; its `cost` may be known nevertheless. Returns `None` if there
    /// are none or the user was already warned.
    pub fn take_unenforceable_limits(
        &mut self,
        agent: &AgentId,
        cost: Option<Money>,
    ) -> Option<String> {
        let limits = self.limits_of(agent);
        let mut names = Vec::new();
        if cost.is_none() && limits.iter().any(|limits| limits.cost.is_some()) {
            names.push("max_cost_usd");
        }
        if limits.iter().any(|limits| limits.tokens.is_some()) {
            names.push("max_tokens_total");
        }
        let is_new = !names.is_empty() && self.uncounted_agents.insert(agent.clone());
        is_new.then(|| list_names(&names, "and"))
    }

    /// Returns the totals.
    pub fn totals(&self) -> &UsageTotals {
        &self.totals
    }

    /// Returns the limit that ended the run, in one sentence, if one did.
    pub fn run_exhausted_limit(&self) -> Option<String> {
        let limit = self.run.request_limit.or(self.run.tool_call_limit)?;
        Some(format!("the run {limit}"))
    }

    /// Returns the limit that stops the requests of the run or of any agent, in one sentence.
    pub fn any_exhausted_limit(&self) -> Option<String> {
        let agent_limit = || {
            self.agents
                .keys()
                .find_map(|id| self.agent_exhausted_limit(id))
        };
        self.run_exhausted_limit().or_else(agent_limit)
    }

    /// Returns the limit that stops the requests of `agent`, in one sentence: the run's, or its
    /// own.
    pub fn agent_exhausted_limit(&self, agent: &AgentId) -> Option<String> {
        let own_limit = || {
            let limit = self.agents.get(agent)?.request_limit?;
            Some(format!("{agent} {limit}"))
        };
        self.run_exhausted_limit().or_else(own_limit)
    }
}

impl TrackedLimits {
    fn from_limits(limits: BudgetLimits) -> Self {
        Self {
            limits,
            request_limit: None,
            tool_call_limit: None,
        }
    }
}

/// Records in `first_limit` the first limit that was reached; returns the one that is reached now,
/// if any.
fn record_limit(
    first_limit: &mut Option<ReachedLimit>,
    reached: Option<ReachedLimit>,
) -> Option<(ReachedLimit, RefusalNovelty)> {
    let reached = reached?;
    let novelty = if first_limit.is_none() {
        *first_limit = Some(reached);
        RefusalNovelty::First
    } else {
        RefusalNovelty::Repeated
    };
    Some((reached, novelty))
}

/// Creates a refusal because of `limit`, which is that of `agent`, or else of the run.
fn refusal(agent: Option<&AgentId>, limit: ReachedLimit, novelty: RefusalNovelty) -> BudgetRefusal {
    BudgetRefusal {
        agent: agent.cloned(),
        limit: match agent {
            Some(_) => format!("it {limit}"),
            None => format!("the run {limit}"),
        },
        novelty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spending::TokenUsage;
    use crate::spending::money::Money;
    use crate::spending::totals::SpendingPhase;

    fn id(name: &str) -> AgentId {
        AgentId::parse(name).unwrap()
    }

    fn dollars(text: &str) -> Money {
        Money::from_dollars(text).unwrap()
    }

    fn limits(cost: Option<&str>, tokens: Option<u64>, tool_calls: Option<u64>) -> BudgetLimits {
        BudgetLimits {
            cost: cost.map(dollars),
            tokens,
            tool_calls,
            user_limits: None,
        }
    }

    /// Returns a ledger of agents `a` and `b`, in which `a` has made one request for 100 tokens and
    /// a dime.
    fn charged_ledger(run: BudgetLimits, a: BudgetLimits) -> BudgetLedger {
        let mut ledger = BudgetLedger::new(run, [(id("a"), a), (id("b"), BudgetLimits::default())]);
        assert_eq!(ledger.check_request(&id("a")), Ok(()));
        let key = UsageKey {
            agent: id("a"),
            model: "m".into(),
            phase: SpendingPhase::Coordination,
        };
        let usage = TokenUsage {
            input_tokens: 90,
            output_tokens: 10,
            ..TokenUsage::default()
        };
        ledger.charge(key, RequestTotals::of_request(usage, Some(dollars("0.1"))));
        ledger
    }

    /// Checks the refusals that `a` and `b` get when they ask again, each with its novelty.
    #[track_caller]
    fn check(run: BudgetLimits, a: BudgetLimits, expected: [Option<(&str, RefusalNovelty)>; 2]) {
        let mut ledger = charged_ledger(run, a);
        let refusals = ["a", "b"].map(|agent| ledger.check_request(&id(agent)).err());
        let refusals =
            refusals.map(|refusal| refusal.map(|refusal| (refusal.limit, refusal.novelty)));
        let expected =
            expected.map(|refusal| refusal.map(|(limit, novelty)| (limit.to_owned(), novelty)));
        assert_eq!(refusals, expected);
    }

    #[test]
    fn a_limit_of_the_run_stops_every_agent_and_is_reported_once() {
        let none = BudgetLimits::default();
        check(none, none, [None, None]);
        check(limits(Some("0.11"), Some(101), Some(0)), none, [None, None]);
        let spent = "the run has spent $0.1 of at most $0.1 (`max_cost_usd`)";
        let both = [
            Some((spent, RefusalNovelty::First)),
            Some((spent, RefusalNovelty::Repeated)),
        ];
        check(limits(Some("0.1"), None, None), none, both);
        let used = "the run has used 100 tokens of at most 50 (`max_tokens_total`)";
        let both = [
            Some((used, RefusalNovelty::First)),
            Some((used, RefusalNovelty::Repeated)),
        ];
        check(limits(None, Some(50), None), none, both);
    }

    #[test]
    fn a_limit_of_an_agent_stops_that_agent() {
        let spent = "it has spent $0.1 of at most $0.0001 (`max_cost_usd`)";
        let only_a = [Some((spent, RefusalNovelty::First)), None];
        check(
            BudgetLimits::default(),
            limits(Some("0.0001"), None, None),
            only_a,
        );
    }

    #[test]
    fn a_limit_of_nothing_is_for_models_that_cost_nothing() {
        let mut free = BudgetLedger::new(limits(Some("0"), None, None), []);
        assert_eq!(free.check_request(&id("a")), Ok(()));
        let mut paid = charged_ledger(limits(Some("0"), None, None), BudgetLimits::default());
        assert!(paid.check_request(&id("a")).is_err());
    }

    #[test]
    fn tool_calls_are_counted_and_never_exceed_their_limit() {
        let mut ledger = BudgetLedger::new(
            limits(None, None, Some(3)),
            [(id("a"), limits(None, None, Some(2)))],
        );
        let mut call = |agent| {
            let refused = ledger.admit_tool_call(&id(agent)).err();
            refused.map(|refusal| (refusal.limit, refusal.novelty))
        };
        assert_eq!([call("a"), call("a")], [None, None]);
        let own = |novelty| {
            Some((
                "it has used all 2 tool calls (`max_tool_calls`)".to_owned(),
                novelty,
            ))
        };
        assert_eq!(
            [call("a"), call("a")],
            [own(RefusalNovelty::First), own(RefusalNovelty::Repeated)]
        );
        assert_eq!(call("b"), None);
        let run = "the run has used all 3 tool calls (`max_tool_calls`)".to_owned();
        assert_eq!(call("b"), Some((run.clone(), RefusalNovelty::First)));
        assert_eq!(ledger.totals().tool_calls(), 3);
        assert_eq!(ledger.run_exhausted_limit(), Some(run));
        assert!(ledger.check_request(&id("b")).is_err());
    }

    #[test]
    fn limits_that_cannot_be_enforced_are_named_once() {
        let none = BudgetLimits::default();
        let mut unlimited = BudgetLedger::new(none, [(id("a"), limits(None, None, Some(1)))]);
        assert_eq!(unlimited.take_unenforceable_limits(&id("a"), None), None);
        let own = [(id("a"), limits(None, Some(9), None))];
        let mut limited = BudgetLedger::new(limits(Some("1"), None, None), own);
        let both = "`max_cost_usd` and `max_tokens_total`".to_owned();
        let tokens = Some("`max_tokens_total`".to_owned());
        let own = [(id("a"), limits(None, Some(9), None))];
        let mut free = BudgetLedger::new(limits(Some("1"), None, None), own);
        assert_eq!(
            free.take_unenforceable_limits(&id("a"), Some(Money::ZERO)),
            tokens
        );
        assert_eq!(
            free.take_unenforceable_limits(&id("b"), Some(Money::ZERO)),
            None
        );
        assert_eq!(
            limited.take_unenforceable_limits(&id("a"), None),
            Some(both)
        );
        assert_eq!(limited.take_unenforceable_limits(&id("a"), None), None);
        assert_eq!(
            limited.take_unenforceable_limits(&id("b"), None),
            Some("`max_cost_usd`".to_owned())
        );
    }

    #[test]
    fn an_agent_without_tool_calls_left_may_still_decide() {
        let own = limits(None, None, Some(0));
        let mut ledger = BudgetLedger::new(BudgetLimits::default(), [(id("a"), own)]);
        assert!(ledger.admit_tool_call(&id("a")).is_err());
        assert_eq!(ledger.check_request(&id("a")), Ok(()));
        assert_eq!(ledger.agent_exhausted_limit(&id("a")), None);
        assert_eq!(ledger.run_exhausted_limit(), None);
    }

    #[test]
    fn unknown_costs_are_counted_in_addition_to_known_ones() {
        let mut ledger = charged_ledger(BudgetLimits::default(), BudgetLimits::default());
        let phase = SpendingPhase::Final;
        let (agent, model) = (id("b"), "n".into());
        let key = UsageKey {
            agent,
            model,
            phase,
        };
        ledger.charge(key, RequestTotals::of_request(TokenUsage::default(), None));
        let totals = ledger.totals();
        let run = totals.run();
        let sums = (
            run.requests,
            run.known_cost().to_string(),
            run.cost_is_complete,
        );
        assert_eq!(sums, (2, "0.1".to_owned(), false));
        assert_eq!(totals.agent(&id("b")).cost_usd, None);
        assert_eq!(totals.agent(&id("a")).usage.total_tokens(), 100);
        assert_eq!(totals.entries().count(), 2);
    }
}
