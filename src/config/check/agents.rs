//! Checks the agents of a config: their names, their instructions and their access.

use std::sync::Arc;

use crate::config::agent::{PermissionsConfig, STEPS_PER_ROUND_DEFAULT};
use crate::config::check::limits::{dashboard_mode, retention, steps_per_round};
use crate::config::check::mapping_view::{MappingView, TextValue, join_key};
use crate::config::check::orchestrator::timeouts;
use crate::config::check::preparation::paraphrases;
use crate::config::check::{AGENTS_MAX, ConfigChecker};
use crate::config::copies::COPIES_MAX;
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::keys::shape::TextList;
use crate::config::keys::{TypedKey, agents, backend, context_paths, nearest, orchestrator, root};
use crate::config::servers::ServerConfig;
use crate::config::storage_path::StoragePath;
use crate::config::vendors::{VendorConnection, find_vendor};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::config::{AgentConfig, Config, ContextPath, DeliveryMode, ToolFilter, WinnerChoice};
use crate::hooks::HookList;
use crate::id::AgentId;
use crate::permissions::folded::FoldedPath;
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::ReadBeforeDelete;
use crate::tools::served::{CUSTOM_PREFIX, SERVED_PREFIX, is_served_name};
use crate::tools::spec::TOOLS;
use crate::tools::tool_selection::{is_own_tool, own_tools};

/// The server that offers MassGen's file tools.
const FILE_SERVER: &str = "workspace_tools";
/// The name of the workspace of an external agent without `cwd`.
const WORKSPACE: &str = "workspace";

/// The settings that all agents share.
#[derive(Clone, Copy)]
struct SharedSettings<'a> {
    context_paths: &'a [ContextPath],
    servers: &'a [Arc<ServerConfig>],
    steps_per_round_max: u32,
    permissions: &'a PermissionsConfig,
    hooks: &'a HookList,
}

impl ConfigChecker<'_> {
    /// Builds the whole config, as far as it is valid.
    pub(super) fn build_config(&mut self, tree: &YamlNode) -> Option<Config> {
        let root = MappingView {
            node: tree,
            path: String::new(),
        };
        self.is_pipeline = root.get(&root::WORKFLOW).is_some();
        self.media = self.team_media(&root);
        let mut orchestrator = self.orchestrator(&root);
        self.add_memory(&root, &mut orchestrator);
        let parent_sections = [Some(root.clone()), root.section(&root::ORCHESTRATOR)];
        let parents: Vec<&MappingView<'_>> = parent_sections.iter().flatten().collect();
        let machine_rules = &self.context.policy.permissions;
        let permissions = self.permissions(&parents, machine_rules);
        let permissions = permissions.merged_with(machine_rules);
        let hooks = self.hooks(&parents, &HookList::default());
        let servers = self.servers(&root);
        let shared = SharedSettings {
            permissions: &permissions,
            hooks: &hooks,
            context_paths: &orchestrator.context_paths,
            servers: &servers,
            steps_per_round_max: steps_per_round(&root).unwrap_or(STEPS_PER_ROUND_DEFAULT),
        };
        let subagent_models = self.subagent_models(&root);
        let mut agents = self.agents(&root, shared);
        for agent in agents.iter_mut().flatten() {
            agent.backend.subagent_models.clone_from(&subagent_models);
        }
        let all_servers: Vec<Arc<ServerConfig>> = agents
            .iter()
            .flatten()
            .flat_map(|agent| &agent.servers)
            .cloned()
            .collect();
        self.warn_unmatched_rules(&parents, &all_servers);
        let limits = self.limits_of_run(&root);
        let agents = agents?;
        orchestrator.preparation.paraphrases = paraphrases(&root, &agents);
        orchestrator.reviewer = self.reviewer(&root, &agents);
        let workflow = self.workflow(&root, &agents);
        let config = Config {
            agents,
            orchestrator,
            timeouts: timeouts(&root),
            rate_limits: self.rate_limits(&root),
            retention: retention(&root),
            session_id: root.string(&root::SESSION_ID),
            limits,
            limits_max: self.context.policy.limits,
            winner_choice: WinnerChoice::default(),
            delivery: match root.word(&root::DELIVERY) {
                Some("review") => DeliveryMode::Review,
                _ => DeliveryMode::Auto,
            },
            dashboard: dashboard_mode(&root),
            checks: self.checks(&root),
            permissions,
            workflow,
        };
        self.check_overlaps(&root, &config);
        self.require_deciding_check(&root, &config);
        self.refuse_role_controlled_keys(&root, &config);
        Some(config)
    }

    fn agents(
        &mut self,
        root: &MappingView<'_>,
        shared: SharedSettings<'_>,
    ) -> Option<Vec<AgentConfig>> {
        let views = self.agent_views(root)?;
        let mut agents: Vec<AgentConfig> = Vec::new();
        let mut is_complete = true;
        for view in &views {
            let Some(agent) = self.agent(view, shared) else {
                is_complete = false;
                continue;
            };
            self.refuse_shared_record(view, &agent, &agents);
            let agent = self.with_own_workspace(view, agent, &agents);
            let agent = with_shared_servers(agent, &agents);
            for copy in self.copies(view, &agent) {
                self.refuse_namesake(view, &copy, &agents);
                agents.push(copy);
            }
        }
        let hint = "make fewer `copies`";
        let count = (agents.len(), AGENTS_MAX);
        self.limit_count(root.at(&root::AGENTS), count, "agents", hint);
        is_complete.then_some(agents)
    }

    /// Refuses an agent with the id of an earlier one.
    fn refuse_namesake(
        &mut self,
        view: &MappingView<'_>,
        agent: &AgentConfig,
        earlier_agents: &[AgentConfig],
    ) {
        let mut namesakes = earlier_agents.iter();
        if let Some(namesake) = namesakes.find(|earlier| same_name(&earlier.id, &agent.id)) {
            let message = format!("the id `{}` is taken by another agent", namesake.id);
            let hint = "ids are directory names: they must differ in more than case";
            self.refuse(view.at(&agents::ID), message, hint);
        }
    }

    /// Returns the copies of an agent for which the config asks.
    fn copies(&mut self, view: &MappingView<'_>, agent: &AgentConfig) -> Vec<AgentConfig> {
        let count = view.integer(&agents::COPIES).unwrap_or(1);
        let count = u32::try_from(count).unwrap_or(COPIES_MAX);
        match agent.copies(count) {
            Ok(copies) => copies,
            Err(reason) => {
                let message = format!("`{}` cannot be copied: {reason}", agent.id);
                let hint = "list each agent by itself";
                self.refuse(view.at(&agents::COPIES), message, hint);
                Vec::new()
            }
        }
    }

    /// Returns the agent whose model compares answers: one of `agents`, or the first of its copies.
    fn reviewer(&mut self, root: &MappingView<'_>, agents: &[AgentConfig]) -> Option<AgentId> {
        let view = root.section(&root::ORCHESTRATOR)?;
        let text = view.text(&orchestrator::REVIEWER)?;
        let first_copy = format!("{}-1", text.value);
        let mut ids = agents.iter().map(|agent| &agent.id);
        let id = ids.find(|id| [text.value, &first_copy].contains(&id.as_str()));
        if id.is_none() {
            let message = format!("no agent is called {}", quote(text.value));
            let hint = "name the `id` of one of `agents`";
            self.refuse(&text, message, hint);
        }
        id.cloned()
    }

    /// Requires a check for a strategy whose winner is the first answer that passes it.
    fn require_deciding_check(&mut self, root: &MappingView<'_>, config: &Config) {
        let strategy = config.orchestrator.strategy;
        if !strategy.ends_at_first_pass() || config.checks.has_required() {
            return;
        }
        let view = root.section_or_empty(&root::ORCHESTRATOR);
        let message = format!("`{}` needs a required check", strategy.name());
        let hint = "add one to `checks`, such as `cargo test -q`";
        self.refuse(view.at(&orchestrator::STRATEGY), message, hint);
    }

    /// Returns the mappings of the agents: those of `agents`, or the single one of `agent`.
    fn agent_views<'n>(&mut self, root: &MappingView<'n>) -> Option<Vec<MappingView<'n>>> {
        let error = |message: &str| Diagnostic::error(root.key_path(&root::AGENTS), message);
        let finding = match (root.get(&root::AGENTS), root.section(&root::AGENT)) {
            (None, Some(agent)) => return Some(vec![agent]),
            (Some(list), None) => match &list.value {
                YamlValue::List(items) if items.is_empty() => {
                    error("`agents` is empty").with_span(&list.span)
                }
                YamlValue::List(items) if items.len() > AGENTS_MAX => {
                    let message =
                        format!("{} agents are too many: at most {AGENTS_MAX}", items.len());
                    error(&message).with_span(&list.span)
                }
                YamlValue::List(_) => return Some(root.views(&root::AGENTS)),
                YamlValue::Null | YamlValue::Scalar(_) | YamlValue::Mapping(_) => return None,
            },
            (Some(_), Some(_)) => {
                error("`agent` and `agents` are both set").with_span(root.key_span(&root::AGENT))
            }
            (None, None) if root.get(&root::AGENT).is_some() => return None,
            (None, None) => error("`agents` is missing"),
        };
        self.findings.push(
            finding.with_suggestion("describe each agent in the list `agents`, or one in `agent`"),
        );
        None
    }

    fn agent(&mut self, view: &MappingView<'_>, shared: SharedSettings<'_>) -> Option<AgentConfig> {
        let id = view.text(&agents::ID).and_then(|text| self.agent_id(&text));
        let backend_view = view.section(&agents::BACKEND)?;
        let backend = self.backend(&backend_view);
        let cwd = backend_view
            .text(&backend::CWD)
            .and_then(|text| self.parse_storage_path(&text))
            .or_else(|| self.workspace_of_program(&backend_view));
        let folder_guard = self.folder_guard(view, &backend_view);
        let context_paths =
            self.own_context_paths(&backend_view, shared.context_paths, &folder_guard);
        let uploaded_images = self.uploaded_images(&backend_view, &folder_guard);
        let uploaded_image_urls = self.uploaded_image_urls(&backend_view);
        let uploaded_files = self.uploaded_files(&backend_view);
        let servers = self.agent_servers(&backend_view, shared.servers);
        let mut tools = self.tool_filter(&backend_view, &servers);
        let is_external = is_external_agent(&backend_view);
        let (commands, programs) = if is_external {
            (None, None)
        } else {
            let commands = self.commands(&backend_view);
            (commands, self.programs(&backend_view))
        };
        self.expect_engine_of_servers(&backend_view, &servers, commands.as_ref());
        let without_file_tools = backend_view.is_set(&backend::EXCLUDE_FILE_OPERATION_MCPS);
        if without_file_tools && !is_external && programs.is_none() {
            // The names that MassGen gives them, so that no tool of a server is excluded.
            let names = TOOLS
                .iter()
                .map(|tool| format!("{SERVED_PREFIX}{FILE_SERVER}__{}", tool.name));
            tools.excluded.extend(names);
        }
        let read_before_delete = match backend_view.flag(&backend::ENFORCE_READ_BEFORE_DELETE) {
            Some(false) => ReadBeforeDelete::Off,
            _ => ReadBeforeDelete::Enforced,
        };
        let record = backend_view
            .text(&backend::RECORD)
            .and_then(|text| self.config_relative_path(&text));
        let system_message = view
            .text(&agents::SYSTEM_MESSAGE)
            .or_else(|| backend_view.text(&agents::SYSTEM_MESSAGE));
        let texts = [system_message, view.text(&agents::APPEND_SYSTEM_PROMPT)];
        let system_messages: Vec<&str> = texts.iter().flatten().map(|text| text.value).collect();
        let limits = self.limits(view);
        let permissions = self.permissions(&[view, &backend_view], shared.permissions);
        let permissions = permissions.merged_with(shared.permissions);
        self.warn_unmatched_rules(&[view, &backend_view], &servers);
        let hooks = self.hooks(&[view, &backend_view], shared.hooks);
        let permissions = servers.iter().fold(permissions, |permissions, server| {
            permissions.merged_with(&PermissionsConfig {
                rules: server.call_rules(),
                ask_timeout_seconds: None,
            })
        });
        if commands.is_some() {
            self.warn_unenforced_for_commands(&backend_view, &permissions.rules);
        }
        let pages = self.network_of(&backend_view, &backend::FETCH_URL);
        let steps_per_round_max = steps_per_round(view).unwrap_or(shared.steps_per_round_max);
        Some(AgentConfig {
            id: id?,
            system_message: (!system_messages.is_empty()).then(|| system_messages.join("\n\n")),
            backend: backend?,
            cwd,
            context_paths,
            uploaded_images,
            uploaded_image_urls,
            uploaded_files,
            folder_guard,
            read_before_delete,
            tools,
            commands,
            programs,
            merges_files: backend_view.is_set(&backend::ENABLE_FILE_GENERATION),
            pages,
            servers,
            record,
            limits,
            permissions,
            hooks,
            steps_per_round_max,
        })
    }

    /// Refuses a `record` file that another agent has: they would overwrite each other's recording.
    fn refuse_shared_record(
        &mut self,
        view: &MappingView<'_>,
        agent: &AgentConfig,
        earlier_agents: &[AgentConfig],
    ) {
        let has_same_record =
            |other: &&AgentConfig| other.record.is_some() && other.record == agent.record;
        let Some(other_agent) = earlier_agents.iter().find(has_same_record) else {
            return;
        };
        let message = format!(
            "the replies of `{}` are recorded in this file too",
            other_agent.id
        );
        let path = join_key(&view.key_path(&agents::BACKEND), backend::RECORD.name());
        let hint = "give each agent its own file";
        self.refuse((path, view.key_span(&agents::BACKEND)), message, hint);
    }

    /// Returns the workspace of an external agent without `cwd`: it cannot work without one.
    fn workspace_of_program(&self, backend: &MappingView<'_>) -> Option<StoragePath> {
        let has_cwd = self.is_pipeline || backend.get(&backend::CWD).is_some();
        (is_external_agent(backend) && !has_cwd).then(|| StoragePath::relocated(WORKSPACE))
    }

    /// Returns the agent with a workspace that no earlier agent has: where massgen manages the
    /// workspaces, two agents that name the same one get one each.
    fn with_own_workspace(
        &mut self,
        view: &MappingView<'_>,
        agent: AgentConfig,
        earlier_agents: &[AgentConfig],
    ) -> AgentConfig {
        let base = self.context.base;
        let folded_path = |path: &StoragePath| {
            let path = path.resolve_workspace(base, "");
            FoldedPath::from_path(path.as_path())
        };
        let used_workspaces: Vec<FoldedPath> = earlier_agents
            .iter()
            .filter_map(|agent| agent.cwd.as_ref())
            .map(folded_path)
            .collect();
        let Some(workspace) = agent.cwd.clone() else {
            return agent;
        };
        if workspace.absolute().is_some() || !used_workspaces.contains(&folded_path(&workspace)) {
            return agent;
        }
        let numbers = (2..).take(AGENTS_MAX);
        let mut numbered_paths = numbers.filter_map(|number| workspace.with_suffix(number));
        let Some(own_workspace) =
            numbered_paths.find(|path| !used_workspaces.contains(&folded_path(path)))
        else {
            return agent;
        };
        let backend = view.section(&agents::BACKEND);
        if let Some(text) = backend.as_ref().and_then(|view| view.text(&backend::CWD)) {
            let message = format!(
                "another agent works in {} too: this one works in {}",
                quote(&workspace.to_string()),
                quote(&own_workspace.to_string())
            );
            self.add_warning(&text, message);
        }
        AgentConfig {
            cwd: Some(own_workspace),
            ..agent
        }
    }

    fn agent_id(&mut self, text: &TextValue<'_>) -> Option<AgentId> {
        AgentId::parse(text.value)
            .map_err(|invalid| {
                let hint = "name it by its model or its part, such as `reviewer`";
                self.refuse(text, invalid.to_string(), hint);
            })
            .ok()
    }

    /// Returns the context paths of one agent that `orchestrator` does not list.
    fn own_context_paths(
        &mut self,
        backend: &MappingView<'_>,
        shared: &[ContextPath],
        guard: &FolderGuard,
    ) -> Vec<ContextPath> {
        let mut context_paths = self.context_paths(backend);
        if !context_paths.is_empty() && *guard != FolderGuard::Off {
            let message = "`context_paths` are not open to an agent with a `folder_guard`";
            let hint = "list them in `read` or `write` of the guard";
            self.warn(backend.at(&context_paths::KEY), message, hint);
        }
        context_paths.retain(|entry| {
            let shared_entry = shared.iter().find(|shared| shared.path == entry.path);
            if shared_entry.is_some_and(|shared| shared != entry) {
                let path = quote(&entry.path.to_string());
                let message =
                    format!("{path} is also listed in `orchestrator`, which takes precedence");
                self.add_warning(backend.at(&context_paths::KEY), message);
            }
            shared_entry.is_none()
        });
        context_paths
    }

    fn tool_filter(
        &mut self,
        backend: &MappingView<'_>,
        servers: &[Arc<ServerConfig>],
    ) -> ToolFilter {
        let allowed = backend
            .get(&backend::ALLOWED_TOOLS)
            .map(|_| self.tool_names(backend, &backend::ALLOWED_TOOLS, servers));
        let excluded = self.tool_names(backend, &backend::EXCLUDE_TOOLS, servers);
        ToolFilter { allowed, excluded }
    }

    /// Returns the tools that a list names. An unknown name similar to a known one is an error,
    /// because a misspelled name would open a tool that should be closed.
    fn tool_names(
        &mut self,
        backend: &MappingView<'_>,
        key: &TypedKey<TextList>,
        servers: &[Arc<ServerConfig>],
    ) -> Vec<String> {
        let texts = backend.texts(key);
        let is_external = is_external_agent(backend);
        // The names of an external agent's native tools start with a capital letter.
        let is_native_tool =
            |name: &str| is_external && name.starts_with(|c: char| c.is_uppercase());
        let custom_tools = servers.iter().flat_map(|server| server.custom_tools());
        let custom_tools: Vec<String> = custom_tools.collect();
        let is_custom_tool = |name: &str| {
            let mut full_names = custom_tools.iter();
            full_names.any(|full_name| full_name.strip_prefix(CUSTOM_PREFIX) == Some(name))
        };
        for text in &texts {
            let name = text.value;
            let is_known = is_custom_tool(name) || is_own_tool(name) || is_served_name(name);
            if is_known || is_native_tool(name) {
                continue;
            }
            let message = format!("massgen has no file tool {}", quote(text.value));
            let names = own_tools().map(|tool| tool.name);
            let finding = match nearest(text.value, names) {
                Some(similar_name) => Diagnostic::error(&text.path, message)
                    .with_suggestion(format!("did you mean `{similar_name}`?")),
                // It may be a tool of a server, whose tools are not known here.
                None if !servers.is_empty() => continue,
                None => Diagnostic::warning(&text.path, message),
            };
            self.findings.push(finding.with_span(text.span));
        }
        texts.iter().map(|text| text.value.to_owned()).collect()
    }
}

/// Returns whether an agent is a program of its own.
pub(super) fn is_external_agent(backend: &MappingView<'_>) -> bool {
    let vendor = backend
        .text(&backend::TYPE)
        .and_then(|text| find_vendor(text.value));
    vendor.is_some_and(|vendor| matches!(vendor.connection, VendorConnection::ExternalAgent(_)))
}

/// Returns whether two ids would share a directory on a case-insensitive file system.
fn same_name(a: &AgentId, b: &AgentId) -> bool {
    a.as_str().eq_ignore_ascii_case(b.as_str())
}

/// Returns `agent` with the servers of earlier agents in place of its own equal ones, so that they
/// can share a connection and everything known about a server.
fn with_shared_servers(mut agent: AgentConfig, earlier_agents: &[AgentConfig]) -> AgentConfig {
    for server in &mut agent.servers {
        let mut earlier_servers = earlier_agents.iter().flat_map(|earlier| &earlier.servers);
        if let Some(equal_server) = earlier_servers.find(|earlier| *earlier == server) {
            *server = Arc::clone(equal_server);
        }
    }
    agent
}
