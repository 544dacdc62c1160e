//! The configuration of external agents, which are programs such as Claude Code. The defaults are
//! the strictest settings.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::config::command_line::CommandLineConfig;
use crate::config::vendors::AgentProtocolKind;
use crate::dotenv::ConfigVariables;

/// What to do about a program that has no account. The home directory of an agent is empty.
pub const SIGN_IN_HINT: &str = "agents do not see the login of your own programs: set the API key, \
                                or, for Claude Code, the token of `claude setup-token` as \
                                `CLAUDE_CODE_OAUTH_TOKEN`; the agent and its commands can read it";
/// The variable with the reasoning effort of Claude Code.
const EFFORT_VARIABLE: &str = "CLAUDE_CODE_EFFORT_LEVEL";
/// The variable with the number of tokens that Claude Code thinks with.
const THINKING_VARIABLE: &str = "MAX_THINKING_TOKENS";
/// The number of tokens that Claude Code thinks with under `reasoning: {type: enabled}`, as in
/// MassGen.
const THINKING_TOKENS_DEFAULT: u64 = 32_000;

/// The configuration of an external agent.
#[derive(Clone, Debug)]
pub struct ExternalAgentConfig {
    /// The name after `type:`.
    pub vendor: &'static str,
    /// Its protocol.
    pub protocol: AgentProtocolKind,
    /// The program and its first arguments (`command`).
    pub command: Vec<String>,
    /// The package that provides the program, if the type has one.
    pub package: Option<&'static str>,
    /// The model that it should use; `None` leaves the choice to the program.
    pub model: Option<String>,
    /// Reasoning effort of its model.
    pub reasoning: AgentReasoning,
    /// Its restrictions: network, variables and limits.
    pub sandbox: CommandLineConfig,
}

impl ExternalAgentConfig {
    /// Returns the values of its variables that must not appear in any record. Inherited values are
    /// looked up in `own_variables`.
    pub fn secrets(&self, own_variables: &ConfigVariables) -> Vec<SecretString> {
        self.sandbox.secrets(own_variables)
    }

    /// Returns whether the program may be able to sign in: it has a variable besides those that
    /// massgen sets itself, or the config names another command.
    pub fn may_sign_in(&self) -> bool {
        let default_variables = find_kind(self.vendor).map_or(&[][..], |kind| kind.env);
        let is_set_by_massgen = |name: &str| {
            [EFFORT_VARIABLE, THINKING_VARIABLE].contains(&name)
                || default_variables.iter().any(|(known, _)| *known == name)
        };
        let mut names = self.sandbox.env.keys();
        self.package.is_none() || names.any(|name| !is_set_by_massgen(name))
    }
}

/// Reasoning effort of the model of an external agent; `None` leaves it to the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReasoning {
    /// The effort, such as `high`.
    pub effort: Option<String>,
    /// The form in which the program summarizes the reasoning, such as `concise`.
    pub summary: Option<String>,
}

impl AgentReasoning {
    /// Returns the reasoning effort that the parameters of a backend ask for.
    pub fn from_parameters(parameters: &Map<String, Value>) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let reasoning = |name: &str| text(parameters.get("reasoning")?.get(name));
        Self {
            effort: reasoning("effort").or_else(|| text(parameters.get("reasoning_effort"))),
            summary: reasoning("summary"),
        }
    }

    /// Returns the variables by which Claude Code gets the reasoning effort that the parameters of
    /// a backend ask for: <https://code.claude.com/docs/en/env-vars>.
    pub fn claude_code_variables(
        parameters: &Map<String, Value>,
    ) -> BTreeMap<&'static str, String> {
        let mut variables = BTreeMap::new();
        if let Some(effort) = Self::from_parameters(parameters).effort {
            variables.insert(EFFORT_VARIABLE, effort);
        }
        let reasoning = |name: &str| parameters.get("reasoning")?.get(name);
        let tokens = match reasoning("type").and_then(Value::as_str) {
            Some("disabled") => Some(0),
            Some("enabled") => {
                let budget = reasoning("budget_tokens").and_then(Value::as_u64);
                Some(budget.unwrap_or(THINKING_TOKENS_DEFAULT))
            }
            Some(_) | None => None,
        };
        if let Some(tokens) = tokens {
            variables.insert(THINKING_VARIABLE, tokens.to_string());
        }
        variables
    }
}

/// A type of external agent and its defaults.
#[derive(Debug)]
pub struct ExternalAgentKind {
    /// The name after `type:`.
    pub vendor: &'static str,
    /// The program and its first arguments; empty if the config has to name it.
    pub command: &'static [&'static str],
    /// The package that provides it.
    pub package: Option<&'static str>,
    /// The variable from which it reads its key.
    pub key: Option<&'static str>,
    /// The variable from which it reads a token of the user's account; it is passed on if there is
    /// no key, or only one that came with a project.
    pub token: Option<&'static str>,
    /// The hosts that it needs to reach.
    pub hosts: &'static [&'static str],
    /// The file in which it keeps the user's login.
    pub login: Option<LoginFile>,
    /// Variables that are set for it.
    pub env: &'static [(&'static str, &'static str)],
}

/// The file in which a program keeps the user's login. Agents never get it.
#[derive(Clone, Copy, Debug)]
pub struct LoginFile {
    /// The variable that names another directory.
    pub variable: Option<&'static str>,
    /// The directory below the home directory.
    pub directory: &'static str,
    /// Its name in the directory.
    pub name: &'static str,
}

/// The types of external agents.
pub static KINDS: &[ExternalAgentKind] = &[
    // https://code.claude.com/docs/en/settings and https://code.claude.com/docs/en/network-config
    ExternalAgentKind {
        vendor: "claude_code",
        command: &["claude"],
        package: Some("@anthropic-ai/claude-code"),
        key: Some("ANTHROPIC_API_KEY"),
        token: Some("CLAUDE_CODE_OAUTH_TOKEN"),
        hosts: &["api.anthropic.com", "claude.ai", "platform.claude.com"],
        login: Some(LoginFile {
            variable: Some("CLAUDE_CONFIG_DIR"),
            directory: ".claude",
            name: ".credentials.json",
        }),
        env: &[
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
        ],
    },
    // https://developers.openai.com/codex/noninteractive
    ExternalAgentKind {
        vendor: "codex",
        command: &["codex"],
        package: Some("@openai/codex"),
        key: Some("CODEX_API_KEY"),
        token: None,
        hosts: &["api.openai.com", "auth.openai.com", "chatgpt.com"],
        login: Some(LoginFile {
            variable: Some("CODEX_HOME"),
            directory: ".codex",
            name: "auth.json",
        }),
        env: &[],
    },
    // https://geminicli.com/docs/reference/configuration
    ExternalAgentKind {
        vendor: "gemini_cli",
        command: &["gemini", "--acp"],
        package: Some("@google/gemini-cli"),
        key: Some("GEMINI_API_KEY"),
        token: None,
        hosts: &["generativelanguage.googleapis.com"],
        login: Some(LoginFile {
            variable: None,
            directory: ".gemini",
            name: "oauth_creds.json",
        }),
        env: &[
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
            ("GEMINI_SANDBOX", "false"),
        ],
    },
    ExternalAgentKind {
        vendor: "acp",
        command: &[],
        package: None,
        key: None,
        token: None,
        hosts: &[],
        login: None,
        env: &[],
    },
];

/// Returns the type with this name.
pub fn find_kind(vendor: &str) -> Option<&'static ExternalAgentKind> {
    KINDS.iter().find(|kind| kind.vendor == vendor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claude_code_learns_how_to_reason_by_variables() {
        let check = |parameters: Value, expected: &[(&str, &str)]| {
            let Value::Object(parameters) = parameters else {
                panic!("no mapping")
            };
            let variables = AgentReasoning::claude_code_variables(&parameters);
            let variables: Vec<(&str, &str)> = variables
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            assert_eq!(variables, expected);
        };
        let (effort, tokens) = ("CLAUDE_CODE_EFFORT_LEVEL", "MAX_THINKING_TOKENS");
        check(json!({}), &[]);
        check(json!({"reasoning_effort": "low"}), &[(effort, "low")]);
        check(
            json!({"reasoning": {"type": "adaptive", "effort": "high"}}),
            &[(effort, "high")],
        );
        check(json!({"reasoning": {"type": "disabled"}}), &[(tokens, "0")]);
        check(
            json!({"reasoning": {"type": "enabled"}}),
            &[(tokens, "32000")],
        );
        let budget = json!({"reasoning": {"type": "enabled", "budget_tokens": 9000}});
        check(budget, &[(tokens, "9000")]);
    }
}
