//! Checks the keys about MCP servers: their names and tools, the programs to start for them, and
//! their URLs and headers. A value with expanded variables is never quoted, because it may be a
//! secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::SecretString;
use url::Url;

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, join_key, scalar_text};
use crate::config::command_line::CommandLineConfig;
use crate::config::custom_tools::ProgramInterface;
use crate::config::diagnostic::quote;
use crate::config::keys::shape::{Flag, NamesOrPairs};
use crate::config::keys::{ConfigKey, TypedKey, commands, servers};
use crate::config::server_package::{ServerPackage, registry_domains};
use crate::config::servers::{
    AddressAllowance, AddressPolicy, CALL_SECONDS_DEFAULT, CWD_PLACEHOLDER, InstanceSharing,
    PackageRequest, ProgramPlace, RemoteServer, ServerConfig, ServerDirectory, ServerNeed,
    ServerProgram, ServerTransport, URL_INTO_PRIVATE_NETWORK, URL_TO_METADATA_SERVICE,
    URL_TO_RESERVED_ADDRESS, URL_TO_THIS_MACHINE,
};
use crate::permissions::grant::Permission;
use crate::permissions::path_rules::RuleAction;
use crate::sandbox_policy::NetworkPolicy;
use crate::tools::served::{
    OutsideEffects, SERVER_NAME_BYTES_MAX, ServedToolRules, ServerName, ToolCaller, ToolNaming,
};

/// The maximum number of servers in one list.
const SERVERS_MAX: usize = 32;
/// The longest command, in characters.
const COMMAND_CHARS_MAX: usize = 1000;
/// The maximum number of arguments of a program, and the longest one, in characters.
const ARGUMENTS_MAX: usize = 50;
const ARGUMENT_CHARS_MAX: usize = 500;
/// The longest URL and the longest directory, in characters.
const URL_CHARS_MAX: usize = 2048;
const CWD_CHARS_MAX: usize = 500;
/// The longest name and value of a variable or header, in characters.
const NAME_CHARS_MAX: usize = 100;
pub(super) const VALUE_CHARS_MAX: usize = 1000;
/// Characters with a meaning for a shell; no shell parses the command, so they would have no
/// effect.
const METACHARACTERS: &[char] = &[
    ';', '&', '|', '`', '$', '(', ')', '<', '>', '\n', '\r', '\0',
];
/// Programs that a server may run at any security level.
const PROGRAMS: &[&str] = &[
    "bash",
    "bun",
    "bunx",
    "cargo",
    "cmd",
    "deno",
    "fastmcp",
    "fish",
    "go",
    "java",
    "node",
    "npm",
    "npx",
    "pip",
    "pipx",
    "pnpm",
    "powershell",
    "pwsh",
    "py",
    "ruby",
    "rust",
    "sh",
    "uv",
    "uvx",
    "yarn",
    "zsh",
];
/// Programs that download the packages that they run.
const PACKAGE_RUNNERS: &[&str] = &["bunx", "npx", "pipx", "uvx"];
/// Additional programs of the level `moderate`.
const MODERATE_PROGRAMS: &[&str] = &["git", "nodejs"];
/// Additional programs of the level `permissive`.
const PERMISSIVE_PROGRAMS: &[&str] = &["curl", "wget"];

/// The hint about the syntax of servers.
const SYNTAX_HINT: &str =
    "write `mcp_servers: [{name: files, command: npx, args: [PACKAGE]}]`, or a mapping of names";

impl ConfigChecker<'_> {
    /// Returns the servers of an agent: its own, and those for all agents that it does not
    /// override. Without a workspace, programs start in a private directory.
    pub(super) fn agent_servers(
        &mut self,
        backend: &MappingView<'_>,
        team_servers: &[Arc<ServerConfig>],
    ) -> Vec<Arc<ServerConfig>> {
        let mut servers = self.servers(backend);
        for server in team_servers {
            if !servers.iter().any(|own| own.name() == server.name()) {
                servers.push(Arc::clone(server));
            }
        }
        let custom_tool_servers = self.custom_tool_servers(backend, &servers);
        servers.extend(custom_tool_servers.into_iter().map(Arc::new));
        self.mark_direct_servers(backend, &mut servers);
        if self.has_workspace(backend) {
            return servers;
        }
        servers.into_iter().map(with_private_directory).collect()
    }

    /// Marks the servers whose tools the model calls directly, although it calls other tools from
    /// programs.
    fn mark_direct_servers(
        &mut self,
        backend: &MappingView<'_>,
        servers: &mut [Arc<ServerConfig>],
    ) {
        for text in backend.texts(&servers::DIRECT) {
            let mut server_list = servers.iter_mut();
            if let Some(server) = server_list.find(|server| server.name().as_str() == text.value) {
                Arc::make_mut(server).rules.caller = ToolCaller::Model;
            } else {
                let message = format!("there is no server {}", quote(text.value));
                let hint = "name one of `mcp_servers`";
                self.warn(&text, message, hint);
            }
        }
    }

    /// Returns the servers that a mapping lists.
    pub(super) fn servers(&mut self, view: &MappingView<'_>) -> Vec<Arc<ServerConfig>> {
        let entries = view.named_mappings(&servers::KEY, &servers::NAME);
        let hint = "list fewer";
        let count = (entries.len(), SERVERS_MAX);
        self.limit_count(view.at(&servers::KEY), count, "servers", hint);
        let mut servers: Vec<Arc<ServerConfig>> = Vec::new();
        for (name, entry) in entries.into_iter().take(SERVERS_MAX) {
            let Some(name) = self.server_name(name, &entry) else {
                continue;
            };
            if servers.iter().any(|server| *server.name() == name) {
                let message = format!("the name `{name}` is taken by another server");
                let hint = "give each server a unique name";
                self.refuse(entry.at(&servers::NAME), message, hint);
            }
            let server = self.server(name, &entry);
            servers.extend(server.map(Arc::new));
        }
        servers
    }

    fn server_name(
        &mut self,
        name: Option<TextValue<'_>>,
        entry: &MappingView<'_>,
    ) -> Option<ServerName> {
        let Some(text) = name else {
            self.refuse(entry.at(&servers::NAME), "`name` is missing", SYNTAX_HINT);
            return None;
        };
        let name = ServerName::parse(text.value);
        if name.is_none() {
            let hint =
                format!("a name has letters, digits, `_` and `-`, at most {SERVER_NAME_BYTES_MAX}");
            self.refuse_value(&text, "a server name", hint);
        }
        name
    }

    fn server(&mut self, name: ServerName, entry: &MappingView<'_>) -> Option<ServerConfig> {
        let type_text = entry.text(&servers::TYPE);
        let transport = match (
            type_text.as_ref().map(|text| text.value),
            entry.get(&servers::URL),
        ) {
            (Some("stdio"), Some(_)) => {
                let hint = "remove one of them";
                let message = "a `stdio` server has no `url`";
                self.refuse(entry.at(&servers::URL), message, hint);
                None
            }
            (Some("stdio") | None, None) => self.program(entry).map(ServerTransport::Program),
            (Some(_), _) | (None, Some(_)) => self.remote(entry).map(ServerTransport::Remote),
        };
        let tool_actions = self.tool_actions(&name, entry);
        Some(ServerConfig {
            rules: ServedToolRules {
                naming: ToolNaming::OfServer,
                server: name,
                allowed: entry
                    .get(&servers::ALLOWED_TOOLS)
                    .map(|_| entry.strings(&servers::ALLOWED_TOOLS)),
                excluded: entry.strings(&servers::EXCLUDE_TOOLS),
                tool_rules: tool_actions,
                permission: if entry.has_text(&servers::PERMISSION, "write") {
                    Permission::Write
                } else {
                    Permission::Read
                },
                content: entry.strings(&servers::CONTENT_ARGUMENTS),
                outside: if entry.has_text(&servers::SIDE_EFFECTS, "none") {
                    OutsideEffects::None
                } else {
                    OutsideEffects::Some
                },
                harmless: entry.strings(&servers::TOOLS_WITHOUT_SIDE_EFFECTS),
                caller: ToolCaller::Programs,
            },
            transport: transport?,
            call_seconds: entry
                .integer(&servers::TIMEOUT_SECONDS)
                .unwrap_or(CALL_SECONDS_DEFAULT),
            need: if entry.is_set(&servers::REQUIRED) {
                ServerNeed::Required
            } else {
                ServerNeed::Optional
            },
        })
    }

    /// Returns the actions in `tools`, each for one tool.
    fn tool_actions(
        &mut self,
        server: &ServerName,
        entry: &MappingView<'_>,
    ) -> BTreeMap<String, RuleAction> {
        let mut tool_actions = BTreeMap::new();
        let Some(view) = entry.section(&servers::TOOLS) else {
            if entry.get(&servers::TOOLS).is_some() {
                let hint = "write `tools: {delete_ticket: deny, create_ticket: ask}`";
                self.refuse(entry.at(&servers::TOOLS), "`tools` is not a mapping", hint);
            }
            return tool_actions;
        };
        for tool in view.node.entries() {
            let path = join_key(&view.path, &tool.key);
            let text = scalar_text(&tool.value, path.clone());
            let mut actions = [RuleAction::Deny, RuleAction::Ask, RuleAction::Allow].into_iter();
            let action =
                text.and_then(|text| actions.find(|action| action.to_string() == text.value));
            let is_name = !tool.key.is_empty() && !tool.key.contains('*');
            match action {
                Some(action) if is_name => {
                    tool_actions.insert(tool.key.clone(), action);
                }
                Some(_) => {
                    let message = format!("{} is not a tool name", quote(&tool.key));
                    let hint =
                        format!("for all tools, write `permissions: {{ask: ['mcp({server}/*)']}}`");
                    self.refuse((path, &tool.key_span), message, hint);
                }
                None => {
                    let message = format!("{} is not `allow`, `ask` or `deny`", quote(&tool.key));
                    self.add_error((path, &tool.value.span), message);
                }
            }
        }
        tool_actions
    }

    fn program(&mut self, entry: &MappingView<'_>) -> Option<ServerProgram> {
        self.refuse_keys(
            entry,
            &[&servers::HEADERS, &servers::OAUTH],
            "a program uses no headers and needs no sign-in",
        );
        let Some(text) = entry.text(&servers::COMMAND) else {
            let hint = "add `command: npx`, or `url: https://…` for a remote server";
            self.refuse(entry.at(&servers::COMMAND), "`command` is missing", hint);
            return None;
        };
        let mut command: Vec<String> = text.value.split_whitespace().map(str::to_owned).collect();
        self.check_command(entry, &text, command.first());
        let arguments = entry.texts(&servers::ARGS);
        let hint = "move them to a file that the program reads";
        let count = (arguments.len(), ARGUMENTS_MAX);
        self.limit_count(entry.at(&servers::ARGS), count, "arguments", hint);
        for argument in &arguments {
            self.limit_chars(argument, "the argument", ARGUMENT_CHARS_MAX);
        }
        command.extend(arguments.iter().map(|text| text.value.to_owned()));
        let env = self.variables(entry, &servers::ENV);
        self.limit_pairs(entry, &servers::ENV);
        let cwd = entry
            .text(&servers::CWD)
            .filter(|text| text.value != CWD_PLACEHOLDER)
            .and_then(|text| {
                self.limit_chars(&text, "the directory", CWD_CHARS_MAX);
                self.path(&text)
            });
        let network = self.network_of(entry, &servers::NETWORK);
        let run_in = self.place_of_program(entry);
        let is_local = run_in == ProgramPlace::Sandbox;
        // What is installed on this machine is not in a container.
        let package = ServerPackage::parse(&command).filter(|_| is_local);
        let package = package.map(|package| PackageRequest {
            package,
            install_command: self.install_command(),
        });
        if is_local {
            self.warn_about_download(&text, &command, package.as_ref(), &network);
        }
        Some(ServerProgram {
            command,
            interface: ProgramInterface::Mcp,
            run_in,
            directory: cwd.map_or(ServerDirectory::Workspace, ServerDirectory::Named),
            env,
            network,
            instances: self.instances(entry),
            package,
        })
    }

    /// Returns where a program runs. Refuses the keys that have no effect there.
    fn place_of_program(&mut self, entry: &MappingView<'_>) -> ProgramPlace {
        if !entry.has_text(&servers::RUN_IN, "container") {
            let reason = "the program does not run in a container";
            self.refuse_keys(entry, &[&servers::IMAGE], reason);
            return ProgramPlace::Sandbox;
        }
        if entry.get(&servers::NETWORK).is_some() {
            let message = "`network` does not apply to a container";
            let hint = "remove it: `command_line_docker_network_mode` of the agent is the network of its \
                        containers";
            self.refuse(entry.at(&servers::NETWORK), message, hint);
        }
        if entry.is_set(&servers::SHARED) {
            let message = "a shared program cannot run in a container";
            let hint =
                "remove `shared`, so that each agent has its own instance, or remove `run_in`";
            self.refuse(entry.at(&servers::SHARED), message, hint);
        }
        let image = entry.text(&servers::IMAGE);
        ProgramPlace::Container {
            image: image.map(|text| self.image_name(&text)),
        }
    }

    /// Refuses servers in containers if the agent's commands do not run in one: the settings of the
    /// commands name the engine.
    pub(super) fn expect_engine_of_servers(
        &mut self,
        backend: &MappingView<'_>,
        servers: &[Arc<ServerConfig>],
        commands: Option<&CommandLineConfig>,
    ) {
        let is_in_container = |server: &&Arc<ServerConfig>| match &server.transport {
            ServerTransport::Program(program) => program.run_in != ProgramPlace::Sandbox,
            ServerTransport::Remote(_) => false,
        };
        let has_engine = commands.is_some_and(|commands| commands.mode.container().is_some());
        let Some(server) = servers.iter().find(is_in_container).filter(|_| !has_engine) else {
            return;
        };
        let message = format!(
            "the server `{}` runs in a container, but the agent's commands do not",
            server.name()
        );
        let hint = "add `enable_mcp_command_line: true` and `command_line_execution_mode: docker`, or \
                    remove `run_in`";
        self.refuse(backend.at(&commands::MODE), message, hint);
    }

    /// Warns if a program must download a package that is not installed, but has no network access.
    fn warn_about_download(
        &mut self,
        text: &TextValue<'_>,
        command: &[String],
        request: Option<&PackageRequest>,
        network: &NetworkPolicy,
    ) {
        let program_name = command
            .first()
            .and_then(|program| program.rsplit('/').next());
        let needs_package =
            request.is_some() || program_name.is_some_and(|name| PACKAGE_RUNNERS.contains(&name));
        let is_installed =
            request.is_some_and(|request| self.context.packages.contains(&request.package.key()));
        if !needs_package || is_installed || *network != NetworkPolicy::Off {
            return;
        }
        let program = quote(program_name.unwrap_or_default());
        let (message, hint) = match request {
            Some(PackageRequest {
                package,
                install_command,
            }) => (
                format!(
                    "{program} needs the package {}, which is not installed, and the server has no \
                     network access",
                    quote(&package.describe())
                ),
                format!(
                    "run `{install_command}` once, or open the registry with `network: [{}]`",
                    registry_domains(package.registry).join(", ")
                ),
            ),
            None => (
                format!("{program} downloads packages, but the server has no network access"),
                "add `network: on` or the domains of the registry, or install the package and name \
                 its program"
                    .to_owned(),
            ),
        };
        self.warn(text, message, hint);
    }

    /// Returns the command that installs the packages of the servers of this config.
    fn install_command(&self) -> String {
        let name = &self.origin.name;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./@+:~".contains(c);
        let name = if !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain) {
            name.clone()
        } else {
            "FILE".to_owned()
        };
        format!("massgen mcp install --config {name}")
    }

    /// Returns which agents share an instance of a program. Refuses a shared one that may write.
    fn instances(&mut self, entry: &MappingView<'_>) -> InstanceSharing {
        if entry.flag(&servers::SHARED) != Some(true) {
            return InstanceSharing::PerAgent;
        }
        if entry.has_text(&servers::PERMISSION, "write") {
            let message = "a shared program cannot write";
            let hint = "remove `shared`, so that each agent has its own instance, or remove \
                        `permission: write`";
            self.refuse(entry.at(&servers::PERMISSION), message, hint);
        }
        InstanceSharing::One
    }

    /// Refuses a command that needs a shell, or whose program the security level does not allow.
    fn check_command(
        &mut self,
        entry: &MappingView<'_>,
        text: &TextValue<'_>,
        program: Option<&String>,
    ) {
        self.limit_chars(text, "the command", COMMAND_CHARS_MAX);
        let source = quote(self.text.get(text.span.clone()).unwrap_or_default());
        if text.value.contains(METACHARACTERS) {
            let message = format!("{source} contains a shell metacharacter");
            let hint = "it is not run by a shell: write the program in `command` and each argument in \
                 `args`";
            return self.refuse(entry.at(&servers::COMMAND), message, hint);
        }
        let level = entry
            .section(&servers::SECURITY)
            .and_then(|view| view.word(&servers::SECURITY_LEVEL));
        let is_allowed = |program: &String| {
            let name = program.rsplit('/').next().unwrap_or(program);
            let name = name.trim_end_matches(".exe");
            let allowed_lists: &[&[&str]] = match level {
                Some("permissive") => &[PROGRAMS, MODERATE_PROGRAMS, PERMISSIVE_PROGRAMS],
                Some("moderate") => &[PROGRAMS, MODERATE_PROGRAMS],
                Some(_) | None => &[PROGRAMS],
            };
            let is_python = name.strip_prefix("python").is_some_and(|version| {
                let mut bytes = version.bytes();
                bytes.all(|byte| byte.is_ascii_digit() || byte == b'.')
            });
            let is_allowed_path = level == Some("permissive") && program.starts_with('/');
            let is_listed = allowed_lists.iter().any(|list| list.contains(&name));
            is_allowed_path || is_python || is_listed
        };
        if !program.is_some_and(is_allowed) {
            let message = format!("{source} is not an allowed program for a server");
            let hint = "use an interpreter or package runner (`npx`, `uvx`, `python3`, `node`, …); \
                        with `security: {level: permissive}` also the absolute path of any program";
            self.refuse(entry.at(&servers::COMMAND), message, hint);
        }
    }

    fn remote(&mut self, entry: &MappingView<'_>) -> Option<RemoteServer> {
        let program_keys: [&ConfigKey; 8] = [
            &servers::COMMAND,
            &servers::ARGS,
            &servers::ENV,
            &servers::CWD,
            &servers::RUN_IN,
            &servers::IMAGE,
            &servers::NETWORK,
            &servers::SHARED,
        ];
        let reason = "no program is started for a remote server";
        self.refuse_keys(entry, &program_keys, reason);
        let Some(text) = entry.text(&servers::URL) else {
            let hint = "add `url: https://…`, or `command: npx` for a program";
            self.refuse(entry.at(&servers::URL), "`url` is missing", hint);
            return None;
        };
        self.limit_chars(&text, "the address", URL_CHARS_MAX);
        let security = entry.section(&servers::SECURITY);
        let allowance =
            |key: &TypedKey<Flag>| match security.as_ref().and_then(|view| view.flag(key)) {
                Some(true) => AddressAllowance::Yes,
                Some(false) | None => AddressAllowance::No,
            };
        let addresses = AddressPolicy {
            this_machine: allowance(&servers::ALLOW_LOCALHOST),
            private: allowance(&servers::ALLOW_PRIVATE_IPS),
        };
        let url = Url::parse(text.value).ok();
        let problem = match &url {
            None => Some("`url` is not a URL"),
            Some(url) if !matches!(url.scheme(), "http" | "https") => {
                Some("`url` is not an HTTP URL")
            }
            Some(url) if !url.username().is_empty() || url.password().is_some() => {
                Some("`url` contains a password: use `headers` instead")
            }
            Some(url) => addresses.url_problem(url),
        };
        if let Some(problem) = problem {
            let hint = match problem {
                URL_TO_THIS_MACHINE => "to allow it, add `security: {allow_localhost: true}`",
                URL_INTO_PRIVATE_NETWORK => {
                    "to allow it, add `security: {allow_private_ips: true}`"
                }
                URL_TO_METADATA_SERVICE => {
                    "nothing allows it, because metadata services hand out credentials"
                }
                URL_TO_RESERVED_ADDRESS => "nothing allows it: write `https://host/path`",
                _ => "write `https://host/path`",
            };
            self.refuse(entry.at(&servers::URL), problem, hint);
        }
        Some(RemoteServer {
            url: url?,
            headers: self.headers(entry),
            addresses,
            oauth: self.oauth(entry),
        })
    }

    fn headers(&mut self, entry: &MappingView<'_>) -> BTreeMap<String, SecretString> {
        self.limit_pairs(entry, &servers::HEADERS);
        let mut headers = BTreeMap::new();
        let Some(view) = entry.section(&servers::HEADERS) else {
            if entry.get(&servers::HEADERS).is_some() {
                let hint = "write `headers: {Authorization: 'Bearer ${TOKEN}'}`";
                let message = "`headers` is not a mapping";
                self.refuse(entry.at(&servers::HEADERS), message, hint);
            }
            return headers;
        };
        for header in view.node.entries() {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let value = scalar_text(&header.value, String::new()).map(|text| text.value);
            let is_value = value.is_some_and(|value| !value.contains(char::is_control));
            if header.key.is_empty() || !header.key.bytes().all(is_name) || !is_value {
                let message = format!("{} is not a header", quote(&header.key));
                self.add_error(
                    (join_key(&view.path, &header.key), &header.key_span),
                    message,
                );
            }
            headers.extend(value.map(|value| (header.key.clone(), SecretString::from(value))));
        }
        headers
    }

    /// Refuses keys that have no effect for this kind of server.
    pub(super) fn refuse_keys(
        &mut self,
        entry: &MappingView<'_>,
        keys: &[&ConfigKey],
        reason: &str,
    ) {
        for key in keys.iter().filter(|key| entry.get(key).is_some()) {
            let message = format!("`{}` has no effect: {reason}", key.name());
            self.refuse(entry.at(key), message, "remove it");
        }
    }

    /// Refuses a string that is longer than `chars_max` characters.
    pub(super) fn limit_chars(&mut self, text: &TextValue<'_>, subject: &str, chars_max: usize) {
        let chars = text.value.chars().count();
        if chars > chars_max {
            let message = format!("{subject} has {chars} characters: at most {chars_max}");
            self.add_error(text, message);
        }
    }

    /// Refuses names and values that are too long in the mapping of a key.
    fn limit_pairs(&mut self, entry: &MappingView<'_>, key: &TypedKey<NamesOrPairs>) {
        let Some(view) = entry.section(key) else {
            return;
        };
        for pair in view.node.entries() {
            let name = TextValue {
                value: &pair.key,
                path: view.path.clone(),
                span: &pair.key_span,
            };
            self.limit_chars(&name, "the name", NAME_CHARS_MAX);
            if let Some(value) = scalar_text(&pair.value, join_key(&view.path, &pair.key)) {
                self.limit_chars(&value, "the text", VALUE_CHARS_MAX);
            }
        }
    }
}

/// Returns the server for an agent without a workspace: a program that would start in the workspace
/// starts in a private directory instead.
fn with_private_directory(server: Arc<ServerConfig>) -> Arc<ServerConfig> {
    let starts_in_workspace = |program: &&ServerProgram| {
        program.directory == ServerDirectory::Workspace
            && program.instances == InstanceSharing::PerAgent
    };
    let program = match &server.transport {
        ServerTransport::Program(program) => Some(program).filter(starts_in_workspace),
        ServerTransport::Remote(_) => None,
    };
    let Some(program) = program else {
        return server;
    };
    let program = ServerProgram {
        directory: ServerDirectory::Private,
        ..program.clone()
    };
    Arc::new(ServerConfig {
        transport: ServerTransport::Program(program),
        ..ServerConfig::clone(&server)
    })
}
