//! Owns how the commands of an agent are run, as its config gives it. Where nothing is written, the
//! defaults are the closed ones.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};

use crate::commands::pattern::CommandRegex;
use crate::commands::{CommandPolicy, CommandRules};
use crate::config::execution_mode::ExecutionMode;
use crate::config::secrets::is_secret;
use crate::dotenv::ConfigVariables;
use crate::sandbox_policy::limits::ResourceLimits;
use crate::sandbox_policy::network::NetworkPolicy;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};

/// How long a command may run where neither the config nor the call says it, in seconds.
pub const TIMEOUT_SECONDS_DEFAULT: u64 = 60;
/// The longest that a call may let its command run, in seconds, unless the config lets all run
/// longer.
pub const TIMEOUT_SECONDS_MAX: u64 = 60 * 60;
/// How much is kept of what a command writes where the config does not say it, in bytes.
pub const OUTPUT_BYTES_DEFAULT: u64 = 1024 * 1024;

/// How the commands of one agent are run.
#[derive(Clone, Debug, Default)]
pub struct CommandLineConfig {
    /// Where they run (`command_line_execution_mode`).
    pub mode: ExecutionMode,
    /// How much is refused by text where something enforces (`command_policy`).
    pub policy: CommandPolicy,
    /// The only commands (`command_line_allowed_commands`).
    pub allowed: Option<Vec<CommandRegex>>,
    /// Never these (`command_line_blocked_commands`).
    pub blocked: Vec<CommandRegex>,
    /// How local commands are held to their grants (`command_line_sandbox`).
    pub sandbox: SandboxLevelChoice,
    /// What local commands reach of the network (`command_line_network`).
    pub network: NetworkPolicy,
    /// What one command may use up (`command_line_limits`).
    pub limits: ResourceLimits,
    /// How long a command may run and how much is kept of its output (`command_line_limits`).
    pub bounds: CommandBounds,
    /// Variables besides those that every command has (`env`).
    pub env: BTreeMap<String, EnvVariable>,
}

/// How long a command may run, and how much is kept of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandBounds {
    /// How long it may run unless its call says it, in seconds.
    pub timeout_seconds: u64,
    /// How much is kept of each of its two outputs, in bytes.
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
    /// With the value that it has in massgen's environment, or else in a `.env` file.
    Inherited,
    /// With a value that stands in the config.
    Literal(String),
    /// With a value that the config makes from variables of massgen's environment.
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

/// What of variables of processes must reach no record: values into which others were filled, and
/// those whose names say so. `own` is where the user's are looked for.
pub fn variable_secrets(
    variables: &BTreeMap<String, EnvVariable>,
    own: &ConfigVariables,
) -> impl Iterator<Item = SecretString> {
    variables.iter().filter_map(|(name, value)| match value {
        EnvVariable::Expanded(secret) => Some(secret.expose_secret().into()),
        EnvVariable::Literal(text) if is_secret(name) => Some(text.as_str().into()),
        EnvVariable::Inherited if is_secret(name) => Some(own.get(name)?.into()),
        EnvVariable::Inherited | EnvVariable::Literal(_) => None,
    })
}

impl CommandLineConfig {
    /// The variables besides those that every command has, with their values. One that is passed
    /// on and has no value in `own`, where the user's are looked for, is not there.
    pub fn added_env(&self, own: &ConfigVariables) -> BTreeMap<String, String> {
        let value = |(name, variable): (&String, &EnvVariable)| {
            let value = match variable {
                EnvVariable::Inherited => own.get(name)?.to_owned(),
                EnvVariable::Literal(value) => value.clone(),
                EnvVariable::Expanded(value) => value.expose_secret().to_owned(),
            };
            Some((name.clone(), value))
        };
        self.env.iter().filter_map(value).collect()
    }

    /// What of the variables must reach no record. `own` is where the user's are looked for.
    pub fn secrets(&self, own: &ConfigVariables) -> Vec<SecretString> {
        let passed = self.mode.passed_variables().iter();
        let passed = passed.filter(|name| is_secret(name));
        let passed = passed.filter_map(|name| own.get(name).map(SecretString::from));
        variable_secrets(&self.env, own).chain(passed).collect()
    }

    /// The text rules, when local commands are held to their grants by `tier`. Without anything
    /// that enforces they are strict, unless the user switched the sandbox off in words.
    pub fn rules(&self, tier: SandboxLevel) -> CommandRules {
        CommandRules {
            policy: self.mode.command_policy(self.policy, tier),
            privileges: self.mode.privileges(),
            allowed: self.allowed.clone(),
            blocked: self.blocked.clone(),
        }
    }
}
