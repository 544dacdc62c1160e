//! Offers an agent the tools of its MCP servers in addition to massgen's own. When they change, the
//! next step offers the model the new ones and says so.

use std::sync::Arc;

use crate::agent::ModelSession;
use crate::event::RunEvent;
use crate::prompts;
use crate::tools::served::{ToolCaller, ToolCatalogue, is_served_name};
use crate::tools::spec::ToolOffer;
use crate::world::exec::{program, server_calls};

impl ModelSession {
    /// Offers the model its servers' tools, as far as they are known.
    pub fn load_served_tools(&mut self) {
        if let Some(gate) = self.gate.as_ref().filter(|gate| gate.has_servers()) {
            let served = gate.catalogue();
            self.set_served_tools(served);
        }
    }

    /// Offers the current tools, if a server has reported that its tools have changed.
    pub(super) async fn refresh_served_tools(&mut self) {
        let Some(gate) = &self.gate else {
            return;
        };
        let Some((catalogue, notes)) = server_calls::refresh_tools(gate).await else {
            return;
        };
        for message in notes {
            self.emit(RunEvent::Warning { message }).await;
        }
        if *catalogue != *self.served {
            self.set_served_tools(catalogue);
            let names: Vec<&str> = self.served.names().collect();
            self.add_user_message(prompts::served_tools_changed(&names));
        }
    }

    fn set_served_tools(&mut self, served: Arc<ToolCatalogue>) {
        let own_tools = self.tools.iter().filter(|tool| !is_served_name(&tool.name));
        let tools: Vec<ToolOffer> = match self.gate.as_ref().and_then(program::tool_offers) {
            // The agent's programs call the tools of most servers.
            Some(program_offers) => own_tools
                .map(|tool| current_offer(&program_offers, tool))
                .chain(served.offers_to(ToolCaller::Model))
                .collect(),
            None => own_tools.cloned().chain(served.offers()).collect(),
        };
        self.tools = tools.into();
        self.served = served;
    }
}

/// Returns the current version of `tool` from `offers`, or `tool` itself if it is not there.
fn current_offer(offers: &[ToolOffer], tool: &ToolOffer) -> ToolOffer {
    let new_offer = offers.iter().find(|offer| offer.name == tool.name);
    new_offer.unwrap_or(tool).clone()
}
