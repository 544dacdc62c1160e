//! Owns what belongs to one call at a gate beside the call itself: who agreed to it, who waits for it,
//! and what the user's hooks have said of it. It permits nothing.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::hooks::request::{HookSubject, HookToolCall};
use crate::permissions::path_rules::CallApproval;
use crate::tools::call::ToolCall;
use crate::tools::parse::parse;
use crate::tools::served::ToolCatalogue;
use crate::world::access::hook_runner::{HookInvocation, HookRunner};
use crate::world::access::verdict::{Denial, by_rule};

/// The rule that denies what a hook denies.
pub(in crate::world) const DENIED_BY_HOOK: &str = "hook";

/// What belongs to the call that a gate is asked about.
#[derive(Clone, Debug, Default)]
pub(in crate::world) struct CallContext {
    /// Whether a person has agreed to it.
    pub(in crate::world) consent: CallApproval,
    /// Nobody waits for it any more.
    pub(in crate::world) ended: CancellationToken,
    /// Its id in the conversation.
    pub(in crate::world) id: Option<String>,
    /// What hooks have said of it, once they were asked.
    pub(in crate::world) hooked: Option<CallHookResult>,
    /// Who carries it out.
    pub(in crate::world) by: CallExecutor,
}

/// What hooks have said of a call that they let through.
#[derive(Clone, Debug, Default)]
pub(in crate::world) struct CallHookResult {
    /// The tool and what it is given.
    pub(in crate::world) call: Option<Arc<(String, Value)>>,
    /// What the model shall read besides.
    pub(in crate::world) context: Vec<String>,
    /// Why a person is asked, if they want it.
    pub(in crate::world) asked: Option<String>,
}

/// Who carries calls out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::world) enum CallExecutor {
    /// massgen.
    #[default]
    Massgen,
    /// Another program, which does what it wanted and nothing else.
    External,
}

impl CallContext {
    /// Asks the user's hooks about a call that rules and grants let through. Gives what they have said,
    /// and the call in its place that they want, which they are not asked about again.
    pub(in crate::world) fn run_hooks(
        &self,
        (hooks, moment): (Option<&HookRunner>, HookInvocation<'_>),
        told: Option<&(String, Value)>,
        served: &ToolCatalogue,
    ) -> Result<(CallHookResult, Option<ToolCall>), Denial> {
        let (hooks, (tool, input)) = match (&self.hooked, hooks, told) {
            (None, Some(hooks), Some(told)) => (hooks, told),
            (hooked, _, _) => return Ok((hooked.clone().unwrap_or_default(), None)),
        };
        let id = self.id.as_deref();
        let subject = HookSubject::Call(HookToolCall { tool, input, id });
        let verdict = hooks.ask(&subject, moment);
        let denied = |reason: String| by_rule(DENIED_BY_HOOK, tool.clone(), reason);
        if let Some(reason) = verdict.denial() {
            return Err(denied(reason.to_owned()));
        }
        let asked = verdict.ask_reason().map(str::to_owned);
        let (input, changed) = match verdict.updated_input {
            None => (input.clone(), None),
            Some(_) if self.by == CallExecutor::External => {
                let reason = "a hook of the user's wants another input, which cannot be given";
                return Err(denied(reason.to_owned()));
            }
            Some(updated) => {
                let updated = Value::Object(updated);
                let parsed = parse(tool, &updated.to_string(), served);
                let changed = parsed.map_err(|error| {
                    denied(format!("a hook of the user's wants another input: {error}"))
                })?;
                (updated, Some(changed))
            }
        };
        let hooked = CallHookResult {
            call: Some(Arc::new((tool.clone(), input))),
            context: verdict.context,
            asked,
        };
        Ok((hooked, changed))
    }
}
