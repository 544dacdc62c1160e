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
use crate::world::hook_runner::{HookInvocation, HookRunner};
use crate::world::verdict::{Denial, by_rule};

/// The rule that denies what a hook denies.
pub(super) const DENIED_BY_HOOK: &str = "hook";

/// What belongs to the call that a gate is asked about.
#[derive(Clone, Debug, Default)]
pub(super) struct CallContext {
    /// Whether a person has agreed to it.
    pub(super) consent: CallApproval,
    /// Nobody waits for it any more.
    pub(super) ended: CancellationToken,
    /// Its id in the conversation.
    pub(super) id: Option<String>,
    /// What hooks have said of it, once they were asked.
    pub(super) hooked: Option<CallHookResult>,
    /// Who carries it out.
    pub(super) by: CallExecutor,
}

/// What hooks have said of a call that they let through.
#[derive(Clone, Debug, Default)]
pub(super) struct CallHookResult {
    /// The tool and what it is given.
    pub(super) call: Option<Arc<(String, Value)>>,
    /// What the model shall read besides.
    pub(super) context: Vec<String>,
    /// Why a person is asked, if they want it.
    pub(super) asked: Option<String>,
}

/// Who carries calls out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CallExecutor {
    /// massgen.
    #[default]
    Massgen,
    /// Another program, which does what it wanted and nothing else.
    External,
}

impl CallContext {
    /// Asks the user's hooks about a call that rules and grants let through. Gives what they have said,
    /// and the call in its place that they want, which they are not asked about again.
    pub(super) fn run_hooks(
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
