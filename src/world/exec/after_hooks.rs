//! Owns what hooks of the user's say after a call was carried out: they read what came of it, and what
//! they add is put behind what the model reads.

use crate::hooks::request::{HookSubject, HookToolCall};
use crate::prompts::untrusted_text::{escape_notes, note};
use crate::world::access::gate::Gate;
use crate::world::exec::Observation;

/// Asks the hooks about a call that was carried out, and adds what they and those that were asked
/// before it want the model to read.
pub(super) fn run_after_hooks(gate: &Gate, mut observation: Observation) -> Observation {
    let Some((hooks, hooked)) = gate.hook_result() else {
        return observation;
    };
    let mut added: Vec<String> = hooked
        .context
        .iter()
        .map(|text| marked_context(text))
        .collect();
    if let Some(told) = &hooked.call {
        let (tool, input) = (&told.0, &told.1);
        let id = gate.call_id();
        let called = HookToolCall { tool, input, id };
        let subject = HookSubject::Result(called, &observation.content);
        let verdict = hooks.ask(&subject, gate.hook_invocation());
        if let Some(reason) = verdict.denial() {
            added.push(note(escape_notes(reason)));
        }
        added.extend(verdict.context.iter().map(|text| marked_context(text)));
    }
    for text in added {
        observation.content.push_str("\n\n");
        observation.content.push_str(&text);
    }
    observation
}

/// What a hook adds, marked as its own.
fn marked_context(text: &str) -> String {
    note(format_args!(
        "a hook of the user's adds: {}",
        escape_notes(text)
    ))
}
