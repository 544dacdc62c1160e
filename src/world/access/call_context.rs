//! The context of one call at a gate: its approval, its cancellation token and the results of the
//! user's hooks. It permits nothing.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::hooks::request::{HookSubject, HookToolCall};
use crate::permissions::path_rules::CallApproval;
use crate::tools::call::ToolCall;
use crate::tools::parse::parse;
use crate::tools::served::ToolCatalogue;
use crate::world::access::hook_runner::{HookInvocation, HookRunner};
use crate::world::access::verdict::{Denial, denial_by_rule};
use crate::world::mcp::progress::ServerProgressSender;

/// Rule name of a denial by a hook.
pub(in crate::world) const DENIED_BY_HOOK: &str = "hook";

/// Context of the call that a gate decides on.
#[derive(Clone, Debug, Default)]
pub(in crate::world) struct CallContext {
    /// Whether a person has approved it.
    pub(in crate::world) approval: CallApproval,
    /// Cancelled when the caller no longer waits for the call.
    pub(in crate::world) cancellation: CancellationToken,
    /// Its id in the conversation.
    pub(in crate::world) id: Option<String>,
    /// What the hooks returned, once they have run.
    pub(in crate::world) hook_result: Option<CallHookResult>,
    /// Which program carries it out.
    pub(in crate::world) executor: CallExecutor,
    /// Receives the progress that a server reports.
    pub(in crate::world) progress: Option<ServerProgressSender>,
}

/// What the hooks returned about a call that they let through.
#[derive(Clone, Debug, Default)]
pub(in crate::world) struct CallHookResult {
    /// The tool and its input, as the hooks left it; `None` if no hooks were run.
    pub(in crate::world) call: Option<Arc<(String, Value)>>,
    /// Additional context for the model.
    pub(in crate::world) context: Vec<String>,
    /// Why a person has to be asked, if a hook wants that.
    pub(in crate::world) ask_reason: Option<String>,
}

/// Program that carries out calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::world) enum CallExecutor {
    /// massgen.
    #[default]
    Massgen,
    /// Another program, which makes the call as it asked for it and cannot be given another input.
    External,
}

impl CallContext {
    /// Runs the user's hooks on a call that rules and grants let through. Returns their result and,
    /// if they changed the input, the call that replaces it; hooks are not run on that one again.
    pub(in crate::world) fn run_hooks(
        &self,
        hooks: Option<&HookRunner>,
        invocation: HookInvocation<'_>,
        call: Option<&(String, Value)>,
        served: &ToolCatalogue,
    ) -> Result<(CallHookResult, Option<ToolCall>), Denial> {
        let (hooks, (tool, input)) = match (&self.hook_result, hooks, call) {
            (None, Some(hooks), Some(call)) => (hooks, call),
            (hook_result, _, _) => return Ok((hook_result.clone().unwrap_or_default(), None)),
        };
        let id = self.id.as_deref();
        let subject = HookSubject::Call(HookToolCall { tool, input, id });
        let verdict = hooks.ask(&subject, invocation);
        let denial = |reason: String| denial_by_rule(DENIED_BY_HOOK, tool.clone(), reason);
        if let Some(reason) = verdict.denial() {
            return Err(denial(reason.to_owned()));
        }
        let ask_reason = verdict.ask_reason().map(str::to_owned);
        let (input, changed_call) = match verdict.updated_input {
            None => (input.clone(), None),
            Some(_) if self.executor == CallExecutor::External => {
                let reason = "a hook of the user's wants another input, which cannot be given";
                return Err(denial(reason.to_owned()));
            }
            Some(updated) => {
                let updated = Value::Object(updated);
                let parse_result = parse(tool, &updated.to_string(), served);
                let changed_call = parse_result.map_err(|error| {
                    denial(format!("a hook of the user's wants another input: {error}"))
                })?;
                (updated, Some(changed_call))
            }
        };
        let hook_result = CallHookResult {
            call: Some(Arc::new((tool.clone(), input))),
            context: verdict.context,
            ask_reason,
        };
        Ok((hook_result, changed_call))
    }
}
