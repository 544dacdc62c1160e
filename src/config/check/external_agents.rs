//! Checks the keys of an external agent: the program to start, its variables and its network
//! access.

use std::collections::BTreeMap;

use secrecy::SecretString;

use crate::config::BackendConfig;
use crate::config::check::ConfigChecker;
use crate::config::check::commands::external_agent_commands;
use crate::config::check::mapping_view::MappingView;
use crate::config::command_line::{CommandLineConfig, EnvVariable};
use crate::config::external_agents::{
    AgentReasoning, ExternalAgentConfig, ExternalAgentKind, find_kind,
};
use crate::config::keys::{ConfigKey, backend, commands, docker};
use crate::config::vendors::{AgentProtocolKind, VendorConnection};
use crate::permissions::domains::DomainPattern;
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};

/// Keys about commands, or prefixes of such keys, that have no effect for an external agent, each
/// with a hint.
const KEYS_ABOUT_COMMANDS: &[(&str, &str)] = &[
    (commands::NETWORK.name(), "write `network`"),
    (commands::SRT_PREFIX, "write `network`"),
    (
        commands::ALLOWED.name(),
        "use `permissions`: its rules apply to the agent's requests",
    ),
    (
        commands::BLOCKED.name(),
        "use `permissions`: its rules apply to the agent's requests",
    ),
    (
        commands::POLICY.name(),
        "use `permissions`: its rules apply to the agent's requests",
    ),
    (commands::MODE.name(), "remove it"),
    (docker::PREFIX, "remove it"),
];

impl ConfigChecker<'_> {
    /// Refuses keys about the agent's program where no program is started.
    pub(super) fn refuse_external_agent_keys(&mut self, view: &MappingView<'_>) {
        let keys: [&ConfigKey; 2] = [&backend::COMMAND, &backend::NETWORK];
        for key in keys {
            if view.get(key).is_some() {
                let message = format!("`{}` has no effect: no program is started", key.name());
                self.refuse(view.at(key), message, "remove it, or write `type: acp`");
            }
        }
    }

    /// Returns the program of an external agent.
    pub(super) fn external_agent(
        &mut self,
        view: &MappingView<'_>,
        backend: &BackendConfig,
        protocol: AgentProtocolKind,
    ) -> Option<ExternalAgentConfig> {
        let kind = find_kind(backend.vendor.name)?;
        let keys_without_effect: [(&ConfigKey, &str); 4] = [
            (
                &commands::ENABLED,
                "the external agent runs its own commands",
            ),
            (
                &commands::CODE,
                "the external agent calls the tools of its servers one by one",
            ),
            (
                &backend::FALLBACK,
                "an external agent has no fallback model",
            ),
            (
                &backend::BASE_URL,
                "set it for an external agent by a variable in `env`",
            ),
        ];
        for (key, reason) in keys_without_effect {
            if view.get(key).is_some_and(|value| !value.is_false()) {
                let message = format!("`{}` has no effect: {reason}", key.name());
                self.warn(view.at(key), message, "remove it");
            }
        }
        for (prefix, hint) in KEYS_ABOUT_COMMANDS {
            let reason = "it concerns massgen's commands, but the external agent runs its own";
            self.warn_without_effect(view, prefix, reason, hint);
        }
        let command = self.agent_command(view, kind)?;
        let names_model = backend.model != backend.vendor.name;
        if names_model && kind.key.is_none() {
            let message = "`model` only sets the price of tokens: the protocol cannot select a \
                           model";
            let hint = "select the model with an argument in `command`, or with `env`";
            self.warn(view.at(&backend::MODEL), message, hint);
        }
        let sandbox = self.agent_sandbox(view, backend, kind);
        Some(ExternalAgentConfig {
            vendor: kind.vendor,
            protocol,
            command,
            package: kind
                .package
                .filter(|_| view.get(&backend::COMMAND).is_none()),
            model: names_model.then(|| backend.model.clone()),
            reasoning: AgentReasoning::from_parameters(&backend.parameters),
            sandbox,
        })
    }

    /// Returns the command to start.
    fn agent_command(
        &mut self,
        view: &MappingView<'_>,
        kind: &ExternalAgentKind,
    ) -> Option<Vec<String>> {
        let mut texts = view.texts(&backend::COMMAND).into_iter();
        // A program given as a path is resolved; its arguments stay as they are.
        let program = texts.next().map(|text| {
            let path = text
                .value
                .contains('/')
                .then(|| self.path(&text))
                .flatten()
                .map(|path| path.to_string());
            path.unwrap_or_else(|| text.value.to_owned())
        });
        let arguments = texts.map(|text| text.value.to_owned());
        let words: Vec<String> = program.into_iter().chain(arguments).collect();
        let is_first_empty = words.first().map(|word| word.trim().is_empty());
        match (view.get(&backend::COMMAND), is_first_empty) {
            (None, _) if !kind.command.is_empty() => {
                let default_command = kind.command.iter().copied();
                return Some(default_command.map(str::to_owned).collect());
            }
            (Some(_), Some(false)) => return Some(words),
            (None | Some(_), _) => {}
        }
        let message = "`command` has no program";
        let hint = "write `command: [program, argument]`";
        self.refuse(view.at(&backend::COMMAND), message, hint);
        None
    }

    /// Returns the restrictions on the program. The vendor's key, from its variables or the config,
    /// or else a token of the user's account, is passed to this program only.
    fn agent_sandbox(
        &mut self,
        view: &MappingView<'_>,
        backend: &BackendConfig,
        kind: &ExternalAgentKind,
    ) -> CommandLineConfig {
        let default_env = kind.env.iter().map(|(name, value)| {
            let value = EnvVariable::Literal((*value).to_owned());
            ((*name).to_owned(), value)
        });
        let mut env: BTreeMap<String, EnvVariable> = default_env.collect();
        let claude_code = VendorConnection::ExternalAgent(AgentProtocolKind::ClaudeCode);
        if backend.vendor.connection == claude_code {
            let reasoning = AgentReasoning::claude_code_variables(&backend.parameters).into_iter();
            env.extend(
                reasoning.map(|(name, value)| (name.to_owned(), EnvVariable::Literal(value))),
            );
        }
        if let Some((name, secret)) = self.account_variable(backend, kind) {
            env.insert(name.to_owned(), EnvVariable::Expanded(secret));
        }
        // Last, so that what the config sets takes precedence.
        env.extend(self.command_variables(view, &commands::ENV));
        let network = if view.get(&backend::NETWORK).is_some() {
            self.network_of(view, &backend::NETWORK)
        } else {
            let hosts = kind.hosts.iter().copied();
            let domains: Vec<DomainPattern> = hosts.filter_map(DomainPattern::parse).collect();
            if domains.is_empty() {
                NetworkPolicy::Off
            } else {
                NetworkPolicy::Domains(domains)
            }
        };
        let mut commands = external_agent_commands(view);
        if commands.sandbox == SandboxLevelChoice::Only(SandboxLevel::Off) {
            let message = "the external agent runs without a sandbox, with your own rights";
            let key = &commands::SANDBOX;
            let hint = "remove it; see `massgen doctor` for the sandbox";
            self.warn(view.at(key), message, hint);
        }
        commands.env = env;
        commands.network = network;
        commands
    }

    /// Returns the variable with which the program gets the user's key, or else a token of their
    /// account. A key that came with a project does not replace a token that the user has exported.
    fn account_variable(
        &self,
        backend: &BackendConfig,
        kind: &ExternalAgentKind,
    ) -> Option<(&'static str, SecretString)> {
        let variable = self.set_key_variable(backend);
        let api_key = backend.api_key.clone().or_else(|| self.secret(variable?));
        let key = kind.key.zip(api_key);
        let token = kind.token.and_then(|name| Some((name, self.secret(name)?)));
        let has_config_key = backend.api_key.is_some();
        let is_key_by_stranger =
            |name: &str| !has_config_key && self.context.env.is_by_stranger(name);
        let is_exported = |name: &str| self.context.env.is_exported(name);
        if variable.is_some_and(is_key_by_stranger) && kind.token.is_some_and(is_exported) {
            token.or(key)
        } else {
            key.or(token)
        }
    }

    /// Returns the first variable of the vendor that has a key.
    fn set_key_variable(&self, backend: &BackendConfig) -> Option<&'static str> {
        let mut variables = backend.vendor.key_variables.iter().copied();
        variables.find(|name| self.secret(name).is_some())
    }

    /// Returns the value of a variable without white space around it; an empty one counts as unset.
    fn secret(&self, name: &str) -> Option<SecretString> {
        let value = self.context.env.get(name)?.trim();
        (!value.is_empty()).then(|| value.into())
    }
}
