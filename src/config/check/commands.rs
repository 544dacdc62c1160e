//! Checks the keys of an agent about commands: which ones it may run, in what environment, and
//! their resource limits. Also those about the programs that it writes.

use std::collections::BTreeMap;

use secrecy::SecretString;

use crate::code_mode::ProgramLanguage;
use crate::code_mode::language::{ProgramDialect, PythonLibraries};
use crate::commands::CommandPolicy;
use crate::commands::rules::CommandRegex;
use crate::config::check::ConfigChecker;
use crate::config::check::key_walk::is_default;
use crate::config::check::mapping_view::{MappingView, TextValue, join_key, scalar_text};
use crate::config::command_line::{CodeModeConfig, CommandBounds, CommandLineConfig, EnvVariable};
use crate::config::execution_mode::ExecutionMode;
use crate::config::keys::backend::BACKEND;
use crate::config::keys::shape::{NamesOrPairs, SeveralTexts, TextList, TextOrList};
use crate::config::keys::{ConfigKey, TypedKey, commands, docker};
use crate::config::vendors::is_key_variable;
use crate::config::yaml::{YamlEntry, YamlNode, YamlValue};
use crate::permissions::domains::DomainPattern;
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::ResourceLimits;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};

/// The maximum number of patterns or domains in one list.
const ENTRIES_MAX: usize = 256;
/// The hint about a name that no variable can have.
const ENV_SYNTAX_HINT: &str = "write `env: [NAME]`, or `env: {NAME: value}`";

impl ConfigChecker<'_> {
    /// Returns how an agent's commands are run, if it may run any.
    pub(super) fn commands(&mut self, backend: &MappingView<'_>) -> Option<CommandLineConfig> {
        // First, so that errors in these keys are reported even if the agent runs no commands.
        let config = CommandLineConfig {
            mode: self.execution_mode(backend),
            policy: policy(backend),
            allowed: backend
                .get(&commands::ALLOWED)
                .map(|_| self.patterns(backend, &commands::ALLOWED)),
            blocked: self.patterns(backend, &commands::BLOCKED),
            sandbox: sandbox(backend),
            network: self.network(backend),
            limits: command_limits(backend),
            bounds: command_bounds(backend),
            env: self.command_variables(backend, &commands::ENV),
        };
        if !backend.is_set(&commands::ENABLED) {
            // Without commands, the keys may still be about programs.
            if !writes_programs(backend) {
                let hint = "add `enable_mcp_command_line: true`, or remove it";
                let reason = "the agent runs no commands";
                self.warn_without_effect(backend, commands::COMMAND_PREFIX, reason, hint);
            }
            return None;
        }
        if config.mode.container().is_none() {
            let hint = "add `command_line_execution_mode: docker`, or remove it";
            let reason = "commands run on this machine";
            self.warn_without_effect(backend, docker::PREFIX, reason, hint);
        }
        if config.mode.is_local() {
            self.warn_about_open_settings(backend, &config);
        }
        if !self.has_workspace(backend) {
            let message = "commands need a workspace, but `cwd` is missing: the agent cannot run \
                           any";
            let hint = "add `cwd: workspace`";
            self.warn(backend.at(&commands::ENABLED), message, hint);
            return None;
        }
        Some(config)
    }

    /// Returns how an agent's programs are run, if it writes programs.
    pub(super) fn programs(&mut self, backend: &MappingView<'_>) -> Option<CodeModeConfig> {
        let language = backend.word(&commands::CODE_LANGUAGE);
        let libraries = backend
            .word(&commands::CODE_LIBRARIES)
            .and_then(PythonLibraries::from_name);
        if !writes_programs(backend) {
            let hint = "add `enable_code_based_tools: true`, or remove it";
            let reason = "the agent does not write programs";
            self.warn_without_effect(backend, commands::CODE_PREFIX, reason, hint);
            return None;
        }
        if !self.has_workspace(backend) {
            let message = "programs need a workspace, but `cwd` is missing: the agent cannot run \
                           any";
            self.warn(backend.at(&commands::CODE), message, "add `cwd: workspace`");
            return None;
        }
        Some(CodeModeConfig {
            dialect: match language.and_then(ProgramLanguage::from_name) {
                Some(ProgramLanguage::Go) => ProgramDialect::Go,
                Some(ProgramLanguage::Python) | None => {
                    ProgramDialect::Python(libraries.unwrap_or_default())
                }
            },
            sandbox: sandbox(backend),
            limits: command_limits(backend),
            bounds: command_bounds(backend),
        })
    }

    /// Warns about each key that starts with `prefix` that it has no effect.
    pub(super) fn warn_without_effect(
        &mut self,
        backend: &MappingView<'_>,
        prefix: &str,
        reason: &str,
        hint: &str,
    ) {
        for YamlEntry {
            key,
            key_span,
            value,
        } in backend.node.entries()
        {
            let asks_for_effect =
                |row: &ConfigKey| row.is_implemented() && !is_default(value, row.default);
            if key.starts_with(prefix)
                && value.value != YamlValue::Null
                && BACKEND.find(key).is_some_and(asks_for_effect)
            {
                let message = format!("`{key}` has no effect: {reason}");
                self.warn((join_key(&backend.path, key), key_span), message, hint);
            }
        }
    }

    /// Warns about settings that open what is closed by default.
    fn warn_about_open_settings(&mut self, backend: &MappingView<'_>, config: &CommandLineConfig) {
        let mut warn = |key: &ConfigKey, message: &str, hint: &str| {
            self.warn(backend.at(key), message, hint);
        };
        if config.sandbox == SandboxLevelChoice::Only(SandboxLevel::Off) {
            warn(
                &commands::SANDBOX,
                "the agent's commands run without a sandbox, with your own rights",
                "remove it; see `massgen doctor` for the sandbox",
            );
        } else if config.network == NetworkPolicy::On {
            warn(
                &commands::NETWORK,
                "the agent's commands can access the whole network, including servers on this \
                 machine",
                "list the hosts that they need: `command_line_network: [example.org]`",
            );
        }
    }

    fn execution_mode(&mut self, backend: &MappingView<'_>) -> ExecutionMode {
        match backend.word(&commands::MODE) {
            Some("docker") => ExecutionMode::Docker(Box::new(self.docker(backend))),
            // `local` or `srt`: the walk has reported any other word as an error.
            _ => ExecutionMode::Local,
        }
    }

    fn patterns(
        &mut self,
        backend: &MappingView<'_>,
        key: &TypedKey<TextList>,
    ) -> Vec<CommandRegex> {
        let texts = self.bounded_texts(backend, key).into_iter();
        texts.filter_map(|text| self.pattern(&text)).collect()
    }

    fn pattern(&mut self, text: &TextValue<'_>) -> Option<CommandRegex> {
        let regex = CommandRegex::parse(text.value);
        let reason = match regex {
            Ok(pattern) => return Some(pattern),
            Err(reason) => reason,
        };
        let hint = "write `git push.*` for a command with any arguments";
        self.refuse_value(text, &format!("a regular expression: {reason}"), hint);
        None
    }

    fn network(&mut self, backend: &MappingView<'_>) -> NetworkPolicy {
        if backend.get(&commands::NETWORK).is_some() {
            self.network_of(backend, &commands::NETWORK)
        } else {
            self.domains(backend, &commands::SRT_DOMAINS)
        }
    }

    /// Returns the network access that a key allows: none, everything, or a list of domains.
    pub(super) fn network_of(
        &mut self,
        view: &MappingView<'_>,
        key: &TypedKey<TextOrList>,
    ) -> NetworkPolicy {
        match view.word(key) {
            Some("on") => NetworkPolicy::On,
            Some(_) => NetworkPolicy::Off,
            None => self.domains(view, key),
        }
    }

    fn domains<V: SeveralTexts>(
        &mut self,
        backend: &MappingView<'_>,
        key: &TypedKey<V>,
    ) -> NetworkPolicy {
        let mut domains = Vec::new();
        for text in self.bounded_texts(backend, key) {
            if let Some(domain) = DomainPattern::parse(text.value) {
                domains.push(domain);
                continue;
            }
            let hint = "write `example.org` for one host, `.example.org` for all below it";
            self.refuse_value(&text, "a host name", hint);
        }
        if domains.is_empty() {
            NetworkPolicy::Off
        } else {
            NetworkPolicy::Domains(domains)
        }
    }

    /// Returns the strings of a list, up to the maximum number.
    pub(super) fn bounded_texts<'n, V: SeveralTexts>(
        &mut self,
        backend: &MappingView<'n>,
        key: &TypedKey<V>,
    ) -> Vec<TextValue<'n>> {
        let mut texts = backend.texts(key);
        if texts.len() > ENTRIES_MAX {
            let (name, count) = (key.name(), texts.len());
            let message = format!("`{name}` has {count} entries: at most {ENTRIES_MAX}");
            self.add_error(backend.at(key), message);
            texts.truncate(ENTRIES_MAX);
        }
        texts
    }

    /// Returns the variables that a key gives to all commands of an agent; those with a vendor's
    /// key are warnings.
    pub(super) fn command_variables(
        &mut self,
        view: &MappingView<'_>,
        key: &TypedKey<NamesOrPairs>,
    ) -> BTreeMap<String, EnvVariable> {
        self.warn_about_keys(view, key);
        self.variables(view, key)
    }

    /// Returns the variables that a key lists, each with its value unless it is inherited.
    pub(super) fn variables(
        &mut self,
        view: &MappingView<'_>,
        key: &TypedKey<NamesOrPairs>,
    ) -> BTreeMap<String, EnvVariable> {
        let mut variables = BTreeMap::new();
        for text in self.bounded_texts(view, key) {
            if self.is_variable_name(&text, ENV_SYNTAX_HINT) {
                self.warn_if_unset(&text);
                variables.insert(text.value.to_owned(), EnvVariable::Inherited);
            }
        }
        let pairs = view.section(key);
        for entry in pairs.iter().flat_map(|pairs| pairs.node.entries()) {
            let name = pair_name(view, key, entry);
            if self.is_variable_name(&name, ENV_SYNTAX_HINT) {
                let variable = self.variable(&entry.value);
                if entry.value.value == YamlValue::Null {
                    self.warn_if_unset(&name);
                }
                variables.insert(entry.key.clone(), variable);
            }
        }
        variables
    }

    /// Returns a variable with its value; one without a value is inherited.
    fn variable(&self, value: &YamlNode) -> EnvVariable {
        let Some(text) = scalar_text(value, String::new()) else {
            return EnvVariable::Inherited;
        };
        // A value that the file contains as it is has no expanded variables.
        let source = self.text.get(text.span.clone());
        if source.is_some_and(|source| source.contains(text.value)) {
            EnvVariable::Literal(text.value.to_owned())
        } else {
            EnvVariable::Expanded(SecretString::from(text.value))
        }
    }

    /// Warns if an inherited variable is not set.
    fn warn_if_unset(&mut self, name: &TextValue<'_>) {
        let TextValue {
            value: variable,
            path,
            ..
        } = name;
        if self.context.env.get(variable).is_none() {
            let message = format!("variable `{variable}` is not set: commands run without it");
            let hint = format!("export {variable}, or write `env: {{{variable}: value}}`");
            self.warn((path, name.span), message, hint);
        }
    }

    /// Returns whether a string is a valid name of a variable, and adds an error if not; `hint`
    /// shows how to write one.
    pub(super) fn is_variable_name(&mut self, name: &TextValue<'_>, hint: &str) -> bool {
        let mut bytes = name.value.bytes();
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let first_byte = bytes.next();
        let is_name = first_byte.is_some_and(|byte| is_word(byte) && !byte.is_ascii_digit())
            && bytes.all(is_word);
        if !is_name {
            self.refuse_value(name, "a variable name", hint);
        }
        is_name
    }

    /// Warns about variables that hold an API key, which every command could then read.
    fn warn_about_keys(&mut self, view: &MappingView<'_>, key: &TypedKey<NamesOrPairs>) {
        let pairs = view.section(key);
        let pairs = pairs.iter().flat_map(|pairs| pairs.node.entries());
        let pair_names = pairs.map(|entry| pair_name(view, key, entry));
        let names = view.texts(key).into_iter().chain(pair_names);
        for name in names.filter(|name| is_key_variable(name.value)) {
            let message = format!("every command of the agent can read `{}`", name.value);
            self.warn(&name, message, "remove it: only massgen needs the key");
        }
    }
}

/// Returns the name of a variable that a key gives with its value.
fn pair_name<'n>(
    view: &MappingView<'_>,
    key: &TypedKey<NamesOrPairs>,
    entry: &'n YamlEntry,
) -> TextValue<'n> {
    TextValue {
        value: &entry.key,
        path: view.key_path(key),
        span: &entry.key_span,
    }
}

/// Returns the restrictions on an external agent's program, except for its network and its
/// variables.
pub(super) fn external_agent_commands(backend: &MappingView<'_>) -> CommandLineConfig {
    CommandLineConfig {
        sandbox: sandbox(backend),
        limits: command_limits(backend),
        ..CommandLineConfig::default()
    }
}

fn writes_programs(backend: &MappingView<'_>) -> bool {
    backend.is_set(&commands::CODE)
}

fn policy(backend: &MappingView<'_>) -> CommandPolicy {
    if backend.has_text(&commands::POLICY, "strict") {
        CommandPolicy::Strict
    } else {
        CommandPolicy::Standard
    }
}

pub(super) fn sandbox(backend: &MappingView<'_>) -> SandboxLevelChoice {
    let name = backend.word(&commands::SANDBOX);
    name.and_then(|name| name.parse().ok()).unwrap_or_default()
}

fn command_limits(backend: &MappingView<'_>) -> ResourceLimits {
    let default = ResourceLimits::default();
    let view = backend.section_or_empty(&commands::LIMITS);
    ResourceLimits {
        memory_bytes: view.size(&commands::MEMORY),
        processes: view
            .integer(&commands::PROCESSES)
            .unwrap_or(default.processes),
        file_bytes: view
            .size(&commands::FILE_SIZE)
            .unwrap_or(default.file_bytes),
        cpu_seconds: view.integer(&commands::CPU_SECONDS),
        open_files: view
            .integer(&commands::OPEN_FILES)
            .unwrap_or(default.open_files),
        disk_free_bytes: default.disk_free_bytes,
        disk_free_files: default.disk_free_files,
    }
}

fn command_bounds(backend: &MappingView<'_>) -> CommandBounds {
    let default = CommandBounds::default();
    let view = backend.section_or_empty(&commands::LIMITS);
    CommandBounds {
        timeout_seconds: view
            .integer(&commands::TIMEOUT)
            .unwrap_or(default.timeout_seconds),
        output_bytes_max: view
            .size(&commands::OUTPUT)
            .unwrap_or(default.output_bytes_max),
    }
}

/// Returns whether a value is a list of strings, or a mapping of names to strings or to nothing.
pub(super) fn is_variable_mapping(node: &YamlNode) -> bool {
    let is_scalar = |node: &YamlNode| matches!(node.value, YamlValue::Scalar(_));
    match &node.value {
        YamlValue::List(items) => items.iter().all(is_scalar),
        YamlValue::Mapping(entries) => {
            let mut values = entries.iter().map(|entry| &entry.value);
            values.all(|value| is_scalar(value) || value.value == YamlValue::Null)
        }
        YamlValue::Null | YamlValue::Scalar(_) => false,
    }
}
