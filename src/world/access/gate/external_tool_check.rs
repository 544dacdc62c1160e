//! Checks a tool of another program, such as an external agent, without making a permit: the
//! program carries out the call itself.

use serde_json::{Map, Value, json};

use crate::call_rules::judge::CallJudgement;
use crate::permissions::rules::{ASKED_BY_CONFIG, DENIED_BY_CONFIG};
use crate::tools::call::ToolCall;
use crate::world::access::call_context::DENIED_BY_HOOK;
use crate::world::access::gate::Gate;
use crate::world::access::verdict::{PermitError, denial_by_rule};
use crate::world::approval::{ApprovalRequest, canonical_input};

impl Gate {
    /// Checks another program's tool against `permissions` of the config, resolves the paths of
    /// `call`, which does what the tool does if that is known, runs the hooks, then asks for
    /// approval if required and possible. `options` are further arguments of a command.
    pub fn check_external(
        &self,
        tool: &str,
        call: Option<ToolCall>,
        options: Map<String, Value>,
    ) -> std::result::Result<(), PermitError> {
        let command = call.as_ref().and_then(ToolCall::command).map(str::to_owned);
        let reason = match self.state.policy.rules.judge(tool, command.as_deref()) {
            CallJudgement::Undecided | CallJudgement::Allowed => None,
            CallJudgement::Asked(rule) if self.state.policy.approver.is_none() => {
                return Err(denial_by_rule(ASKED_BY_CONFIG, rule.subject, rule.reason).into());
            }
            CallJudgement::Asked(rule) => Some(rule.reason),
            CallJudgement::Denied(rule) => {
                return Err(denial_by_rule(DENIED_BY_CONFIG, rule.subject, rule.reason).into());
            }
        };
        let mut input = call.as_ref().map_or(Value::Null, ToolCall::input);
        let mut effects: Vec<String> = command.clone().into_iter().collect();
        if let Some(call) = call {
            effects = self.resolve_call(call, None, effects)?.effects;
        }
        if !options.is_empty() {
            effects.push(canonical_input(&json!(options)));
        }
        if let Some(arguments) = input.as_object_mut() {
            arguments.extend(options);
        }
        if effects.is_empty() {
            effects.push(tool.to_owned());
        }
        // A call without a command reaches the hooks as the massgen call that it is translated to.
        let described_call = command.map(|_| (tool.to_owned(), input.clone()));
        let (hook_result, _) = self.run_hooks(described_call.as_ref())?;
        let reason = match (reason, hook_result.ask_reason) {
            (_, Some(hook_reason)) if self.state.policy.approver.is_none() => {
                return Err(denial_by_rule(DENIED_BY_HOOK, tool.to_owned(), hook_reason).into());
            }
            (reason, hook_reason) => reason.or(hook_reason),
        };
        let Some(reason) = reason else {
            return Ok(());
        };
        let request = ApprovalRequest {
            tool: tool.to_owned(),
            input,
            effects,
            reason,
            phase: self.phase(),
            call_id: self.call_context.id.clone(),
        };
        Ok(self.request_approval(request)?)
    }
}
