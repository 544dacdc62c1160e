//! Runs the user's hooks after a tool call: they receive the result, and the context they add is
//! appended to what the model reads.

use crate::hooks::request::{HookSubject, HookToolCall};
use crate::prompts::untrusted_text::{escape_notes, note};
use crate::world::access::gate::Gate;
use crate::world::exec::Observation;

/// Asks the hooks about a call that was carried out, and appends the context that they and the
/// hooks before the call want the model to read.
pub(super) fn run_after_hooks(gate: &Gate, mut observation: Observation) -> Observation {
    let Some((hooks, hook_result)) = gate.hook_result() else {
        return observation;
    };
    let mut notes: Vec<String> = hook_result
        .context
        .iter()
        .map(|text| marked_context(text))
        .collect();
    if let Some(call) = &hook_result.call {
        let (tool, input) = (&call.0, &call.1);
        let id = gate.call_id();
        let hook_call = HookToolCall { tool, input, id };
        let subject = HookSubject::Result(hook_call, &observation.content);
        let verdict = hooks.ask(&subject, gate.hook_invocation());
        // The call has been carried out, so a denial is only a message for the model.
        if let Some(reason) = verdict.denial() {
            notes.push(note(escape_notes(reason)));
        }
        notes.extend(verdict.context.iter().map(|text| marked_context(text)));
    }
    for text in notes {
        observation.content.push_str("\n\n");
        observation.content.push_str(&text);
    }
    observation
}

/// Formats the context added by a hook as a note that names its origin.
fn marked_context(text: &str) -> String {
    note(format_args!(
        "a hook of the user's adds: {}",
        escape_notes(text)
    ))
}
