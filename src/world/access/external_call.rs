//! Decides calls that another program makes with its own tools under an agent's grants, by asking
//! the gate as for any other call. Nothing is carried out here.

use serde_json::{Map, Value};

use crate::commands::CommandRules;
use crate::commands::judge::judge;
use crate::config::ToolFilter;
use crate::tools::call::{ToolCall, UserPath};
use crate::tools::external_tools::{ExternalToolAction, is_known_tool, names_of};
use crate::world::access::gate::Gate;
use crate::world::access::verdict::PermitError;

/// Why a search is denied to a program that has no sandbox to keep it from what it finds.
const HIDDEN_BELOW: &str = "denied: something below is closed to you; search a directory that \
                            holds nothing that is closed";

/// Why a command is denied to such a program.
const NO_SANDBOX: &str = "denied: you may not run commands here; `--in-sandbox` says that the \
                          program that asks runs in a sandbox with these grants";

/// Another program that works with the grants of an agent.
#[derive(Clone, Debug)]
pub struct ExternalCaller {
    /// Its gate. Nothing is carried out with its permits.
    pub gate: Gate,
    /// Rules for its command lines; without them it may run no command.
    pub commands: Option<CommandRules>,
    /// The tools that its agent is offered; its own equivalents of other tools are denied.
    pub tools: ToolFilter,
    /// How the program is confined.
    pub isolation: CallerIsolation,
}

/// How another program is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerIsolation {
    /// A sandbox with its grants.
    Sandbox,
    /// Not at all: only the decisions that it asks for restrict it.
    Unconfined,
}

impl ExternalCaller {
    /// Decides a call of `tool`. Blocks while a person is asked. The error says why the call is
    /// denied.
    pub fn decide(&self, tool: &str, action: ExternalToolAction) -> Result<(), String> {
        let gate = &self.gate;
        if !self.offers(tool) {
            return Err(format!(
                "denied: `{tool}` is not one of the tools that you are offered"
            ));
        }
        match action {
            ExternalToolAction::Nothing => check_rules(gate, tool, None, Map::new()),
            ExternalToolAction::Call(call) => {
                check_rules(gate, tool, Some(call.clone()), Map::new())?;
                if self.isolation == CallerIsolation::Unconfined
                    && gate.searches_hidden_paths(&call)
                {
                    return Err(HIDDEN_BELOW.to_owned());
                }
                discard_permit(gate.check(call))
            }
            ExternalToolAction::Command { line, dir, options } => {
                let Some(rules) = &self.commands else {
                    return Err(match self.isolation {
                        CallerIsolation::Unconfined => NO_SANDBOX.to_owned(),
                        CallerIsolation::Sandbox => {
                            "denied: you may not run commands here".to_owned()
                        }
                    });
                };
                judge(rules, &line).map_err(|refusal| {
                    let (command, reason) = (refusal.command, refusal.reason);
                    format!(
                        "denied: command `{command}`: {reason}\n{}",
                        refusal.suggestion
                    )
                })?;
                let call = ToolCall::ExecuteCommand {
                    command: line,
                    timeout_seconds: None,
                    dir,
                    answer: None,
                };
                check_rules(gate, tool, Some(call), options)
            }
        }
    }

    /// Decides whether the program may list `dir`, which one of its calls names in addition to its
    /// target.
    pub fn check_directory(&self, dir: UserPath) -> Result<(), String> {
        let listing = ToolCall::ListDirectory { path: dir };
        discard_permit(self.gate.without_hooks().check(listing))
    }

    /// Returns whether the agent is offered a tool that does what `tool` does. A tool without an
    /// equivalent among massgen's is left to the rules.
    fn offers(&self, tool: &str) -> bool {
        let ToolFilter { allowed, excluded } = &self.tools;
        let names_tool =
            |list: &[String]| names_of(tool).any(|name| list.iter().any(|entry| entry == name));
        let is_allowed = allowed.as_deref().is_none_or(names_tool);
        !names_tool(excluded) && (is_allowed || !is_known_tool(tool))
    }
}

/// Checks the rules of the config and the paths of `call`, and runs the hooks and asks a person as
/// the rules require.
fn check_rules(
    gate: &Gate,
    tool: &str,
    call: Option<ToolCall>,
    options: Map<String, Value>,
) -> Result<(), String> {
    let permit = gate.check_external(tool, call, options);
    permit.map_err(|error| error.to_string())
}

/// Discards the permit, because the other program carries the call out itself.
fn discard_permit<P>(permit: Result<P, PermitError>) -> Result<(), String> {
    permit.map(drop).map_err(|error| error.to_string())
}
