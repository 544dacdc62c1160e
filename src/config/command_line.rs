//! The configuration of how an agent's commands are run. Every default is the strictest setting.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};

use crate::code_mode::language::ProgramDialect;
use crate::commands::rules::CommandRegex;
use crate::commands::{CommandPolicy, CommandRules};
use crate::config::execution_mode::ExecutionMode;
use crate::config::secrets::is_secret;
use crate::dotenv::ConfigVariables;
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::ResourceLimits;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};

/// The default timeout of a command, in seconds.
pub const TIMEOUT_SECONDS_DEFAULT: u64 = 60;
/// The longest timeout that a call can request, in seconds, unless the config's own is longer.
pub const TIMEOUT_SECONDS_MAX: u64 = 60 * 60;
/// The default size of a command's output that is kept, in bytes.
pub const OUTPUT_BYTES_DEFAULT: u64 = 1024 * 1024;

/// How the commands of one agent are run.
#[derive(Clone, Debug, Default)]
pub struct CommandLineConfig {
    /// Where they run (`command_line_execution_mode`).
    pub mode: ExecutionMode,
    /// Which text rules refuse commands where a sandbox enforces the grants
    /// (`command_policy`).
    pub policy: CommandPolicy,
    /// If set, the only allowed commands (`command_line_allowed_commands`).
    pub allowed: Option<Vec<CommandRegex>>,
    /// Blocked commands (`command_line_blocked_commands`).
    pub blocked: Vec<CommandRegex>,
    /// The sandbox level of local commands (`command_line_sandbox`).
    pub sandbox: SandboxLevelChoice,
    /// The network access of local commands (`command_line_network`).
    pub network: NetworkPolicy,
    /// The resource limits of a command (`command_line_limits`).
    pub limits: ResourceLimits,
    /// The timeout of a command and the size of the output that is kept (`command_line_limits`).
    pub bounds: CommandBounds,
    /// Variables in addition to those that every command has (`env`).
    pub env: BTreeMap<String, EnvVariable>,
}

/// Whether a program of the user has more than an agent's commands: variables of the user, a network
/// or a verdict. What it runs must then not depend on what an agent can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It has no more.
    Ordinary,
    /// It has more.
    Privileged,
}

impl Privilege {
    /// Returns the privilege of a program without a verdict, with these variables and this network.
    pub fn of(env: &BTreeMap<String, EnvVariable>, network: &NetworkPolicy) -> Self {
        if env.is_empty() && *network == NetworkPolicy::Off {
            Self::Ordinary
        } else {
            Self::Privileged
        }
    }
}

/// The timeout of a command, and the size of the output that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandBounds {
    /// The timeout, in seconds, unless the call gives one.
    pub timeout_seconds: u64,
    /// The size that is kept of each of its two outputs, in bytes.
    pub output_bytes_max: u64,
}

impl Default for CommandBounds {
    fn default() -> Self {
        Self {
            timeout_seconds: TIMEOUT_SECONDS_DEFAULT,
            output_bytes_max: OUTPUT_BYTES_DEFAULT,
        }
    }
}

/// A variable that commands are given.
#[derive(Clone, Debug)]
pub enum EnvVariable {
    /// With its value in massgen's environment, or else in a `.env` file.
    Inherited,
    /// With a value from the config.
    Literal(String),
    /// With a value that the config expands from variables of massgen's environment.
    Expanded(SecretString),
}

impl PartialEq for EnvVariable {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (EnvVariable::Inherited, EnvVariable::Inherited) => true,
            (EnvVariable::Literal(text), EnvVariable::Literal(other)) => text == other,
            (EnvVariable::Expanded(secret), EnvVariable::Expanded(other)) => {
                secret.expose_secret() == other.expose_secret()
            }
            (EnvVariable::Inherited | EnvVariable::Literal(_) | EnvVariable::Expanded(_), _) => {
                false
            }
        }
    }
}

/// Returns the values of variables that must not appear in any record: expanded values, and those
/// whose names indicate a secret. Inherited values are looked up in `own_variables`.
pub fn variable_secrets(
    variables: &BTreeMap<String, EnvVariable>,
    own_variables: &ConfigVariables,
) -> impl Iterator<Item = SecretString> {
    variables.iter().filter_map(|(name, value)| match value {
        EnvVariable::Expanded(secret) => Some(secret.expose_secret().into()),
        EnvVariable::Literal(text) if is_secret(name) => Some(text.as_str().into()),
        EnvVariable::Inherited if is_secret(name) => Some(own_variables.get(name)?.into()),
        EnvVariable::Inherited | EnvVariable::Literal(_) => None,
    })
}

impl CommandLineConfig {
    /// Returns the network access of commands, wherever they run.
    pub fn network_access(&self) -> &NetworkPolicy {
        match self.mode.has_engine_network() {
            None => &self.network,
            Some(true) => &NetworkPolicy::On,
            Some(false) => &NetworkPolicy::Off,
        }
    }

    /// Returns the variables in addition to those that every command has. An inherited variable
    /// without a value in `own_variables` is omitted.
    pub fn added_env(&self, own_variables: &ConfigVariables) -> BTreeMap<String, String> {
        let value = |(name, variable): (&String, &EnvVariable)| {
            let value = match variable {
                EnvVariable::Inherited => own_variables.get(name)?.to_owned(),
                EnvVariable::Literal(value) => value.clone(),
                EnvVariable::Expanded(value) => value.expose_secret().to_owned(),
            };
            Some((name.clone(), value))
        };
        self.env.iter().filter_map(value).collect()
    }

    /// Returns the values of variables that must not appear in any record. Inherited values are
    /// looked up in `own_variables`.
    pub fn secrets(&self, own_variables: &ConfigVariables) -> Vec<SecretString> {
        let names = self
            .mode
            .passed_variables()
            .iter()
            .filter(|name| is_secret(name));
        let passed_variables =
            names.filter_map(|name| own_variables.get(name).map(SecretString::from));
        variable_secrets(&self.env, own_variables)
            .chain(passed_variables)
            .collect()
    }

    /// Returns how a process runs that executes the work of all these agents, each with its
    /// commands: where those of the first agent run that has any, with the rights that all agents
    /// have. An agent without commands has none.
    pub fn common<'c>(agents: impl Iterator<Item = Option<&'c Self>> + Clone) -> Self {
        let mut common = agents.clone().flatten().next().cloned().unwrap_or_default();
        let no_commands = Self::default();
        for agent in agents {
            common.restrict_to(agent.unwrap_or(&no_commands));
        }
        common
    }

    /// Takes away the rights that `other` does not have.
    fn restrict_to(&mut self, other: &Self) {
        self.env
            .retain(|name, value| other.env.get(name) == Some(value));
        if self.network != other.network {
            self.network = NetworkPolicy::Off;
        }
        if self.sandbox != other.sandbox {
            self.sandbox = SandboxLevelChoice::default();
        }
        self.mode.restrict_to(&other.mode);
    }

    /// Returns the text rules for local commands in a sandbox of `level`. If nothing enforces the
    /// grants they are strict, unless the user explicitly disabled the sandbox.
    pub fn rules(&self, level: SandboxLevel) -> CommandRules {
        CommandRules {
            policy: self.mode.command_policy(self.policy, level),
            privileges: self.mode.privileges(),
            allowed: self.allowed.clone(),
            blocked: self.blocked.clone(),
        }
    }
}

/// How the programs of one agent are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeModeConfig {
    /// Their language (`code_language`) and additional libraries (`code_libraries`).
    pub dialect: ProgramDialect,
    /// The sandbox level (`command_line_sandbox`).
    pub sandbox: SandboxLevelChoice,
    /// The resource limits of a program (`command_line_limits`).
    pub limits: ResourceLimits,
    /// The timeout and the size of the output that is kept (`command_line_limits`).
    pub bounds: CommandBounds,
}

impl CodeModeConfig {
    /// Returns the configuration of their sandbox: no network, none of the user's variables, and
    /// always a sandbox.
    pub fn sandbox_config(&self) -> CommandLineConfig {
        CommandLineConfig {
            sandbox: match self.sandbox {
                SandboxLevelChoice::Only(SandboxLevel::Off) => SandboxLevelChoice::Auto,
                SandboxLevelChoice::Auto
                | SandboxLevelChoice::Only(
                    SandboxLevel::Overlay
                    | SandboxLevel::Namespaces
                    | SandboxLevel::Landlock
                    | SandboxLevel::Unavailable,
                ) => self.sandbox,
            },
            limits: self.limits,
            bounds: self.bounds,
            ..CommandLineConfig::default()
        }
    }
}
