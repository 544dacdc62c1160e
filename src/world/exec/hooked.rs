//! Owns what hooks of the user's say after a call was carried out: they read what came of it, and what
//! they add is put behind what the model reads.

use crate::brief::foreign::{note, without_notes};
use crate::hooks::request::{Called, Subject};
use crate::world::exec::Observation;
use crate::world::gate::Gate;

/// Asks the hooks about a call that was carried out, and adds what they and those that were asked
/// before it want the model to read.
pub(super) fn after(gate: &Gate, mut observation: Observation) -> Observation {
    let Some((hooks, hooked)) = gate.hooked() else {
        return observation;
    };
    let mut added: Vec<String> = hooked.context.iter().map(|text| adds(text)).collect();
    if let Some(told) = &hooked.call {
        let (tool, input) = (&told.0, &told.1);
        let id = gate.call_id();
        let called = Called { tool, input, id };
        let subject = Subject::Result(called, &observation.content);
        let verdict = hooks.ask(&subject, gate.moment());
        if let Some(reason) = verdict.denial() {
            added.push(note(without_notes(reason)));
        }
        added.extend(verdict.context.iter().map(|text| adds(text)));
    }
    for text in added {
        observation.content.push_str("\n\n");
        observation.content.push_str(&text);
    }
    observation
}

/// What a hook adds, marked as its own.
fn adds(text: &str) -> String {
    note(format_args!(
        "a hook of the user's adds: {}",
        without_notes(text)
    ))
}
