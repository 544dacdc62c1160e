//! Owns the decision about calls that another program makes with tools of its own, under the grants of
//! an agent: the gate's, asked as for every other call. Nothing is carried out here.

use crate::commands::CommandRules;
use crate::commands::judge::judge;
use crate::config::ToolFilter;
use crate::tools::aliases::{is_known_tool, names_of};
use crate::tools::call::ToolCall;
use crate::tools::external_tools::ExternalToolAction;
use crate::world::access::gate::Gate;
use crate::world::access::verdict::Denial;

/// Why a search is denied to a program that nothing keeps from what it finds.
const CLOSED_BELOW: &str = "denied: something below is closed to you; search a directory that holds \
                            nothing that is closed";

/// Why a command is denied to such a program.
const UNHELD: &str = "denied: you may not run commands here; `--in-sandbox` says that the program that \
                      asks runs in a sandbox with these grants";

/// Another program that works with the grants of an agent.
#[derive(Clone, Debug)]
pub struct ExternalCaller {
    /// Its gate. Nothing is carried out with its permits.
    pub gate: Gate,
    /// What the text of its commands is held to; without it, it may run none.
    pub commands: Option<CommandRules>,
    /// Which tools its agent is offered; it uses no other of its own that does the same.
    pub tools: ToolFilter,
    /// What holds it.
    pub held: CallerIsolation,
}

/// What holds another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerIsolation {
    /// A sandbox with its grants.
    BySandbox,
    /// Nothing but the answers that it gets.
    ByNothing,
}

impl ExternalCaller {
    /// Asks the gate about a call of `tool`. It blocks as long as a person is asked. The error says why
    /// the call is denied.
    pub fn decide(&self, tool: &str, foreign: ExternalToolAction) -> Result<(), String> {
        let gate = &self.gate;
        if !self.offers(tool) {
            return Err(format!(
                "denied: `{tool}` is not one of the tools that you are offered"
            ));
        }
        match foreign {
            ExternalToolAction::Nothing => check_rules(gate, tool, None),
            ExternalToolAction::Call(call) => {
                check_rules(gate, tool, None)?;
                if self.held == CallerIsolation::ByNothing && gate.crosses_hidden(&call) {
                    return Err(CLOSED_BELOW.to_owned());
                }
                discard_permit(gate.check(call))
            }
            ExternalToolAction::Command { line, dir } => {
                let Some(texts) = &self.commands else {
                    return Err(match self.held {
                        CallerIsolation::ByNothing => UNHELD.to_owned(),
                        CallerIsolation::BySandbox => {
                            "denied: you may not run commands here".to_owned()
                        }
                    });
                };
                judge(texts, &line).map_err(|refused| {
                    let (command, reason) = (refused.command, refused.reason);
                    format!("denied: command `{command}`: {reason}\n{}", refused.way_out)
                })?;
                check_rules(gate, tool, Some(&line))?;
                let look = ToolCall::ListDirectory { path: dir };
                discard_permit(gate.without_hooks().check(look))
            }
        }
    }
}

impl ExternalCaller {
    /// Whether the agent is offered a tool that does what `tool` does. What has no twin among massgen's
    /// tools is for the rules alone.
    fn offers(&self, tool: &str) -> bool {
        let ToolFilter { allowed, excluded } = &self.tools;
        let listed =
            |list: &[String]| names_of(tool).any(|name| list.iter().any(|entry| entry == name));
        let is_allowed = allowed.as_deref().is_none_or(listed);
        !listed(excluded) && (is_allowed || !is_known_tool(tool))
    }
}

/// Asks the rules of the config alone.
fn check_rules(gate: &Gate, tool: &str, command: Option<&str>) -> Result<(), String> {
    let checked = gate.check_external(tool, command);
    checked.map_err(|denial| denial.to_string())
}

/// The permit is not used: the other program carries the call out itself.
fn discard_permit<P>(checked: Result<P, Denial>) -> Result<(), String> {
    checked.map(drop).map_err(|denial| denial.to_string())
}
