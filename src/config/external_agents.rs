//! Owns the guests: agents that are programs of their own, such as Claude Code, as a config names
//! them. Where nothing is written, the defaults are the closed ones.

use secrecy::SecretString;

use crate::config::command_line::CommandLineConfig;
use crate::config::vendors::AgentProtocolKind;
use crate::dotenv::ConfigVariables;

/// A guest as an agent's config describes it.
#[derive(Clone, Debug)]
pub struct ExternalAgentConfig {
    /// The name after `type:`.
    pub vendor: &'static str,
    /// How it is spoken with.
    pub protocol: AgentProtocolKind,
    /// The program and its first arguments (`command`).
    pub command: Vec<String>,
    /// The package that has the program, where the type has one.
    pub package: Option<&'static str>,
    /// The model that it is told to ask; its own choice without one.
    pub model: Option<String>,
    /// How it is held: its network, its variables and its limits.
    pub sandbox: CommandLineConfig,
}

impl ExternalAgentConfig {
    /// What of its variables must reach no record. `own` is where the user's are looked for.
    pub fn secrets(&self, own: &ConfigVariables) -> Vec<SecretString> {
        self.sandbox.secrets(own)
    }
}

/// What a type of guests is, where its config says nothing else.
#[derive(Debug)]
pub struct ExternalAgentKind {
    /// The name after `type:`.
    pub vendor: &'static str,
    /// The program and its first arguments; empty where the config has to name it.
    pub command: &'static [&'static str],
    /// The package that has it.
    pub package: Option<&'static str>,
    /// The variable by which it takes its key.
    pub key: Option<&'static str>,
    /// The hosts that it has to reach.
    pub hosts: &'static [&'static str],
    /// Variables that are set for it.
    pub env: &'static [(&'static str, &'static str)],
}

/// The types of guests.
pub static KINDS: &[ExternalAgentKind] = &[
    // https://code.claude.com/docs/en/settings and https://code.claude.com/docs/en/network-config
    ExternalAgentKind {
        vendor: "claude_code",
        command: &["claude"],
        package: Some("@anthropic-ai/claude-code"),
        key: Some("ANTHROPIC_API_KEY"),
        hosts: &["api.anthropic.com", "claude.ai", "platform.claude.com"],
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
        hosts: &["api.openai.com", "auth.openai.com", "chatgpt.com"],
        env: &[],
    },
    // https://geminicli.com/docs/reference/configuration
    ExternalAgentKind {
        vendor: "gemini_cli",
        command: &["gemini", "--acp"],
        package: Some("@google/gemini-cli"),
        key: Some("GEMINI_API_KEY"),
        hosts: &["generativelanguage.googleapis.com"],
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
        hosts: &[],
        env: &[],
    },
];

/// The row of the table with this name.
pub fn find_kind(vendor: &str) -> Option<&'static ExternalAgentKind> {
    KINDS.iter().find(|kind| kind.vendor == vendor)
}
