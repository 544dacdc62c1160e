//! Copies of an agent, which make several attempts with one model.

use crate::config::{AgentConfig, Config};
use crate::id::AgentId;

/// The most copies of an agent.
pub const COPIES_MAX: u32 = 16;

impl AgentConfig {
    /// Returns `count` copies of the agent, named after it and numbered from 1; the agent itself if
    /// that is one. Each has a workspace of its own.
    ///
    /// # Errors
    /// It cannot be copied; the string says why.
    pub fn copies(&self, count: u32) -> Result<Vec<Self>, String> {
        if count == 1 {
            return Ok(vec![self.clone()]);
        }
        if self.record.is_some() {
            return Err("its replies are recorded, and copies would share the file".to_owned());
        }
        let copy = |number: u32| {
            let id = AgentId::parse(&format!("{}-{number}", self.id));
            let cwd = self.cwd.as_ref().map(|cwd| {
                let numbered_path = cwd.with_suffix(number);
                numbered_path.ok_or_else(|| {
                    format!("`cwd` is your own directory `{cwd}`, and each copy needs its own")
                })
            });
            Ok(Self {
                id: id.map_err(|invalid| invalid.to_string())?,
                cwd: cwd.transpose()?,
                ..self.clone()
            })
        };
        (1..=count).map(copy).collect()
    }
}

impl Config {
    /// Replaces the agents by `count` attempts in all, which are dealt to them in turn.
    ///
    /// # Errors
    /// An agent cannot be copied; the string says why.
    pub fn deal_attempts(&mut self, count: u32) -> Result<(), String> {
        let agent_count = u32::try_from(self.agents.len()).unwrap_or(u32::MAX).max(1);
        let (each, more) = (count / agent_count, count % agent_count);
        let mut agents = Vec::new();
        for (agent, index) in self.agents.iter().zip(0..) {
            let copies = each.saturating_add(u32::from(index < more));
            if copies > 0 {
                agents.extend(agent.copies(copies)?);
            }
        }
        self.agents = agents;
        Ok(())
    }
}
