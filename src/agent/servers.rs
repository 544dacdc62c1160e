//! Owns what an agent knows of the tools of its servers: they are offered beside massgen's own, and
//! what changes is offered, and told, at the next step.

use std::sync::Arc;

use crate::agent::Mind;
use crate::brief;
use crate::event::Event;
use crate::tools::served::{Catalogue, SERVED_PREFIX};
use crate::tools::spec::ToolOffer;
use crate::world::exec::{program, served};

impl Mind {
    /// Offers the model the tools that its servers have, as far as they are known.
    pub fn take_up_served(&mut self) {
        if let Some(gate) = self.gate.as_ref().filter(|gate| gate.has_servers()) {
            let served = gate.catalogue();
            self.offer(served);
        }
    }

    /// Offers the tools that there are now, if a server has said that its tools are others.
    pub(super) async fn notice_servers(&mut self) {
        let Some(gate) = &self.gate else {
            return;
        };
        let Some((catalogue, notes)) = served::look_again(gate).await else {
            return;
        };
        for message in notes {
            self.emit(Event::Warning { message }).await;
        }
        if *catalogue != *self.served {
            self.offer(catalogue);
            let names: Vec<&str> = self.served.names().collect();
            self.tell(brief::served_tools_changed(&names));
        }
    }

    fn offer(&mut self, served: Arc<Catalogue>) {
        let own = self.tools.iter();
        let own = own.filter(|tool| !tool.name.starts_with(SERVED_PREFIX));
        let tools: Vec<ToolOffer> = match self.gate.as_ref().and_then(program::offers) {
            // Its programs call them.
            Some(of_programs) => own.map(|tool| one_of(&of_programs, tool)).collect(),
            None => own.cloned().chain(served.offers()).collect(),
        };
        self.tools = tools.into();
        self.served = served;
    }
}

/// `tool` as it is among `now`; as it was, if it is none of them.
fn one_of(now: &[ToolOffer], tool: &ToolOffer) -> ToolOffer {
    let known = now.iter().find(|one| one.name == tool.name);
    known.unwrap_or(tool).clone()
}
