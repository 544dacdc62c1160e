//! The limits of a pipeline: which one its stages have reached together, and how the pipeline is
//! resumed with a higher one.

use crate::event::{Event, RunEvent};
use crate::id::AgentId;
use crate::pipeline::PipelineRun;
use crate::roles::PipelineStage;
use crate::spending::limits::{BudgetLimits, ReachedLimit};
use crate::spending::totals::UsageTotals;

/// A limit of a pipeline that is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PipelineLimit {
    /// The agent whose limit it is; `None` for a limit of the whole pipeline.
    agent: Option<AgentId>,
    reached: ReachedLimit,
}

impl PipelineLimit {
    /// Returns the limit that this usage of all agents together reaches, if it reaches one.
    pub(super) fn find(limits: &BudgetLimits, used: &UsageTotals) -> Option<Self> {
        let reached = limits.reached_by_any(&used.run(), used.tool_calls())?;
        Some(Self {
            agent: None,
            reached,
        })
    }

    /// Returns which limit is reached, in one sentence.
    pub(super) fn reason(&self) -> String {
        match &self.agent {
            None => format!("the pipeline {}", self.reached),
            Some(agent) => format!("{agent} {}", self.reached),
        }
    }

    /// Returns how the pipeline is resumed with a higher limit.
    pub(super) fn hint(&self) -> String {
        match &self.agent {
            None => {
                let flag = self.reached.flag();
                format!("continue with a higher limit: massgen --continue {flag}")
            }
            Some(agent) => {
                let key = self.reached.key();
                format!(
                    "continue with a higher `{key}` of {agent} in the config: massgen --continue \
                     --config FILE"
                )
            }
        }
    }
}

impl PipelineRun {
    /// Returns the limit that prevents the agents of `stage` from asking their models once more.
    pub(super) fn reached_limit(&self, stage: &PipelineStage) -> Option<PipelineLimit> {
        let pipeline_limit = self.reached_pipeline_limit();
        let agent_limit = |id: &AgentId| {
            let usage = self.usage().agent(id);
            let reached = self.limits_of_agent(id)?.reached_by(&usage)?;
            Some(PipelineLimit {
                agent: Some(id.clone()),
                reached,
            })
        };
        pipeline_limit.or_else(|| stage.agents.iter().find_map(agent_limit))
    }

    fn reached_pipeline_limit(&self) -> Option<PipelineLimit> {
        PipelineLimit::find(&self.config.limits, &self.usage())
    }

    fn limits_of_agent(&self, id: &AgentId) -> Option<BudgetLimits> {
        let mut agents = self.config.agents.iter();
        agents
            .find(|agent| agent.id == *id)
            .map(|agent| agent.limits)
    }

    /// Converts an event of a stage run to one of the pipeline: a stage run reports a limit as what
    /// was left of it when the stage run began, but the user knows the limit of the pipeline.
    pub(super) fn restate_limit(&self, event: Event) -> Event {
        let Event::Run(RunEvent::LimitMet { agent, .. }) = &event else {
            return event;
        };
        let reason = match agent {
            None => self.reached_pipeline_limit().map(|limit| limit.reason()),
            Some(id) => self.limits_of_agent(id).and_then(|limits| {
                let usage = self.usage();
                let limit = limits.reached_by_any(&usage.agent(id), usage.tool_calls_of(id))?;
                Some(format!("it {limit}"))
            }),
        };
        match reason {
            Some(limit) => Event::Run(RunEvent::LimitMet {
                agent: agent.clone(),
                limit,
            }),
            None => event,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spending::limits::LimitOrigin;
    use crate::spending::money::Money;

    #[test]
    fn the_hint_names_what_raises_the_limit_that_was_reached() {
        let mut used = UsageTotals::default();
        let id = AgentId::parse("planner").unwrap();
        let limits = BudgetLimits {
            tool_calls: Some(2),
            ..BudgetLimits::default()
        };
        used.count_tool_call(&id);
        assert_eq!(PipelineLimit::find(&limits, &used), None);
        used.count_tool_call(&id);
        let limit = PipelineLimit::find(&limits, &used).unwrap();
        let reason = "the pipeline has used all 2 tool calls (`max_tool_calls`)";
        assert_eq!(limit.reason(), reason);
        let hint = "continue with a higher limit: massgen --continue --max-tool-calls COUNT";
        assert_eq!(limit.hint(), hint);

        let check = |agent: Option<&AgentId>, reached: ReachedLimit, expected: &str| {
            let agent = agent.cloned();
            let hint = PipelineLimit { agent, reached }.hint();
            assert!(hint.contains(expected), "{hint}");
        };
        let cost = ReachedLimit::Cost {
            spent: Money::ZERO,
            max: Money::ZERO,
            origin: LimitOrigin::Config,
        };
        let tokens = ReachedLimit::Tokens {
            used: 9,
            max: 9,
            origin: LimitOrigin::Config,
        };
        check(None, cost, "massgen --continue --max-cost-usd DOLLARS");
        check(None, tokens, "massgen --continue --max-tokens-total COUNT");
        check(Some(&id), tokens, "`max_tokens_total` of planner");
    }
}
