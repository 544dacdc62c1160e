//! Owns the sums of what was used: of the run, of each agent, and of each model in each phase.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::Usage;
use crate::spending::money::Money;

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Spent {
    /// Requests to models, answered or not.
    pub requests: u64,
    /// Their tokens, as far as vendors have counted them.
    #[serde(flatten)]
    pub usage: Usage,
    /// Calls of tools, refused ones among them; answers and votes are none.
    pub tool_calls: u64,
    /// What it cost, as far as that is known.
    #[serde(rename = "cost_usd")]
    pub cost: Money,
    /// Requests whose cost is not known.
    pub uncosted_requests: u64,
}

impl Spent {
    fn add(&mut self, usage: Usage, cost: Option<Money>) {
        self.requests = self.requests.saturating_add(1);
        self.usage = self.usage.plus(usage);
        match cost {
            Some(cost) => self.cost = self.cost.plus(cost),
            None => self.uncosted_requests = self.uncosted_requests.saturating_add(1),
        }
    }

    fn call_tool(&mut self) {
        self.tool_calls = self.tool_calls.saturating_add(1);
    }
}

/// What a request is charged to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Post {
    /// Who asked.
    pub agent: AgentId,
    /// The model that was asked.
    pub model: Arc<str>,
    /// In which phase.
    pub phase: Phase,
}

/// The sums of a run.
#[derive(Clone, Debug, Default)]
pub struct Books {
    run: Spent,
    agents: BTreeMap<AgentId, Spent>,
    posts: BTreeMap<Post, Spent>,
}

impl Books {
    /// Adds a request.
    pub fn charge(&mut self, post: Post, usage: Usage, cost: Option<Money>) {
        self.run.add(usage, cost);
        self.of(&post.agent).add(usage, cost);
        self.posts.entry(post).or_default().add(usage, cost);
    }

    /// Adds a tool call.
    pub fn call_tool(&mut self, agent: &AgentId) {
        self.run.call_tool();
        self.of(agent).call_tool();
    }

    /// What the run used.
    pub fn run(&self) -> Spent {
        self.run
    }

    /// What an agent used.
    pub fn agent(&self, agent: &AgentId) -> Spent {
        self.agents.get(agent).copied().unwrap_or_default()
    }

    /// The requests of each agent to each model in each phase. Tool calls are in none of them.
    pub fn posts(&self) -> impl Iterator<Item = (&Post, &Spent)> {
        self.posts.iter()
    }

    fn of(&mut self, agent: &AgentId) -> &mut Spent {
        self.agents.entry(agent.clone()).or_default()
    }
}
