//! Checks `workflow` and `roles`, the keys about pipelines: every role is known, has an agent and
//! occurs in one stage only, and no key of an agent contradicts its role.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, scalar_text};
use crate::config::diagnostic::quote;
use crate::config::keys::shape::Text;
use crate::config::keys::{TypedKey, backend, context_paths, nearest_hint, root, workflow};
use crate::config::storage_path::StoragePath;
use crate::config::workflow::{MERGE_TRIES_DEFAULT, ProjectChoice, WorkflowConfig};
use crate::config::yaml::YamlValue;
use crate::config::{AgentConfig, Config};
use crate::id::AgentId;
use crate::path::RelPath;
use crate::permissions::grant::Permission;
use crate::permissions::guard::FolderGuard;
use crate::roles::built_in::{ROLES, USER, built_in_role};
use crate::roles::{
    PipelineRole, PipelineSpec, PipelineStage, RoleName, RoleReadAccess, RoleRight, RoleWriteAccess,
};

/// The maximum number of stages.
const STAGES_MAX: usize = 64;
/// The maximum number of roles that a config describes.
const ROLES_MAX: usize = 64;
/// The default number of iterations.
const ITERATIONS_DEFAULT: u64 = 3;
/// The default token budget for earlier output in a stage's prompt.
const CONTEXT_TOKENS_DEFAULT: u64 = 20_000;
/// The value for no role or no project.
const NONE: &str = "none";

impl ConfigChecker<'_> {
    /// Returns the pipeline of the config, if it has a valid one.
    pub(super) fn workflow(
        &mut self,
        root: &MappingView<'_>,
        agents: &[AgentConfig],
    ) -> Option<WorkflowConfig> {
        let roles = self.roles(root);
        let Some(view) = root.section(&root::WORKFLOW) else {
            if root.get(&root::ROLES).is_some() {
                let message = "`roles` have no effect without `workflow`";
                let hint = "add `workflow`, or remove them";
                self.warn(root.at(&root::ROLES), message, hint);
            }
            return None;
        };
        let stages = self.stages(&view, &roles, agents)?;
        self.check_outputs_exist(root, &stages);
        self.check_command_roles(&view, &stages, agents);
        let until = self.deciding_role(&view, &stages);
        let merge_tries = view.integer(&workflow::MERGE_TRIES);
        let iterations = view
            .integer(&workflow::MAX_ITERATIONS)
            .unwrap_or(ITERATIONS_DEFAULT);
        Some(WorkflowConfig {
            pipeline: PipelineSpec {
                stages,
                iterations_max: u32::try_from(iterations).unwrap_or(u32::MAX),
                until,
                context_tokens_max: view
                    .integer(&workflow::CONTEXT_TOKENS)
                    .unwrap_or(CONTEXT_TOKENS_DEFAULT),
            },
            workspace: view
                .text(&workflow::WORKSPACE)
                .and_then(|text| self.workspace(&text)),
            directory: view
                .text(&workflow::DIRECTORY)
                .and_then(|text| self.directory(&text)),
            project: self.project(&view),
            within: None,
            merge_tries_max: merge_tries.unwrap_or(MERGE_TRIES_DEFAULT),
        })
    }

    /// Refuses context paths that are open for writing, and keys of agents that their roles decide.
    pub(super) fn refuse_role_controlled_keys(&mut self, root: &MappingView<'_>, config: &Config) {
        let Some(workflow) = &config.workflow else {
            return;
        };
        let mut paths = config.context_paths();
        if let Some(open_path) = paths.find(|path| path.permission == Permission::Write) {
            let path = quote(&open_path.path.to_string());
            let message =
                format!("{path} is open for writing, but a pipeline cannot write to context paths");
            let hint = "open it with `permission: read`; `massgen apply` delivers";
            self.refuse(root.at(&root::WORKFLOW), message, hint);
        }
        if config.checks.setup.is_some() {
            let hint = "remove it, or let a check prepare the tree";
            let message = "a pipeline has no write path that `setup` could prepare";
            self.refuse(root.at(&root::SETUP), message, hint);
        }
        let stages = &workflow.pipeline.stages;
        for agent in &config.agents {
            let takes_part = stages.iter().any(|stage| stage.agents.contains(&agent.id));
            let set_key = match (&agent.folder_guard, &agent.cwd) {
                (FolderGuard::On { .. }, _) => context_paths::GUARD.name(),
                (_, Some(StoragePath::Absolute(_))) => backend::CWD.name(),
                _ => continue,
            };
            if takes_part {
                let message = format!("`{set_key}` of `{}` is set by its role", agent.id);
                let hint = "remove it; use `roles` to set write paths";
                self.refuse(root.at(&root::WORKFLOW), message, hint);
            }
        }
    }

    /// Returns the roles that the config describes.
    fn roles(&mut self, root: &MappingView<'_>) -> Vec<PipelineRole> {
        let entries = root.named_mappings(&root::ROLES, &workflow::ROLE_NAME);
        let hint = "remove roles that are not a stage";
        let count = (entries.len(), ROLES_MAX);
        self.limit_count(root.at(&root::ROLES), count, "roles", hint);
        let mut roles: Vec<PipelineRole> = Vec::new();
        for (name, entry) in entries.into_iter().take(ROLES_MAX) {
            let Some(name) = name else {
                self.refuse(
                    entry.at(&workflow::ROLE_NAME),
                    "`name` is missing",
                    "name the role",
                );
                continue;
            };
            let Some(name) = self.role_name(&name) else {
                continue;
            };
            if roles.iter().any(|role| role.name == name) {
                let message = format!("role `{name}` is defined twice");
                self.refuse(entry.at(&workflow::ROLE_NAME), message, "define it once");
                continue;
            }
            roles.extend(self.role(name, &entry));
        }
        roles
    }

    fn role_name(&mut self, text: &TextValue<'_>) -> Option<RoleName> {
        RoleName::parse(text.value)
            .map_err(|reason| {
                let message = format!("{}: {reason}", quote(text.value));
                self.add_error(text, message);
            })
            .ok()
    }

    fn role(&mut self, name: RoleName, entry: &MappingView<'_>) -> Option<PipelineRole> {
        let mut role = built_in_role(&name).unwrap_or_else(|| PipelineRole::read_only(name));
        let text = |key: &TypedKey<Text>| entry.text(key).map(|text| text.value.trim().to_owned());
        if let Some(purpose) = text(&workflow::ROLE_PURPOSE) {
            role.purpose = purpose;
        }
        role.prompt = text(&workflow::ROLE_PROMPT).or(role.prompt);
        if entry.get(&workflow::ROLE_RIGHTS).is_some() {
            let right_names = entry.texts(&workflow::ROLE_RIGHTS);
            let rights = right_names
                .iter()
                .filter_map(|text| RoleRight::from_name(text.value));
            role.rights = rights.collect();
        }
        if role.has_right(RoleRight::Edit) && !role.has_right(RoleRight::Write) {
            let message = "`edit` requires `write`";
            let hint = "add `write`, or remove `edit`";
            self.refuse(entry.at(&workflow::ROLE_RIGHTS), message, hint);
        }
        if entry.get(&workflow::ROLE_WRITES).is_some() {
            role.writes = self.writes(entry)?;
        }
        if entry.get(&workflow::ROLE_READS).is_some() {
            role.reads = self.reads(entry)?;
        }
        if let Some(output) = entry.text(&workflow::ROLE_OUTPUT) {
            role.output = Some(self.output(&output)?);
        }
        Some(role)
    }

    fn writes(&mut self, entry: &MappingView<'_>) -> Option<RoleWriteAccess> {
        match entry.word(&workflow::ROLE_WRITES) {
            Some("own") => return Some(RoleWriteAccess::OwnDirectory),
            Some("project") => return Some(RoleWriteAccess::Project),
            Some(_) | None => {}
        }
        let dir_texts = entry.texts(&workflow::ROLE_WRITES);
        let dirs = dir_texts.iter().map(|text| self.directory(text));
        dirs.collect::<Option<_>>()
            .map(RoleWriteAccess::OwnAndListed)
    }

    fn reads(&mut self, entry: &MappingView<'_>) -> Option<RoleReadAccess> {
        if entry
            .text(&workflow::ROLE_READS)
            .is_some_and(|text| text.value == "all")
        {
            return Some(RoleReadAccess::AllEarlier);
        }
        let name_texts = entry.texts(&workflow::ROLE_READS);
        let names = name_texts.iter().map(|text| self.role_name(text));
        names.collect::<Option<_>>().map(RoleReadAccess::Only)
    }

    fn output(&mut self, text: &TextValue<'_>) -> Option<String> {
        let is_name = RelPath::new(text.value).is_some_and(|path| {
            path.as_path().components().count() == 1 && path.to_string() == text.value
        });
        if is_name && !text.value.starts_with('.') {
            return Some(text.value.to_owned());
        }
        let hint = "write a plain name, such as `NOTES.md`";
        self.refuse_value(text, "a file name", hint);
        None
    }

    /// Returns a directory of the tree.
    fn directory(&mut self, text: &TextValue<'_>) -> Option<RelPath> {
        // Git rejects paths with one of these components, ignoring case: `git~1` is the short name
        // of `.git` on Windows.
        let is_git_name = |component: &OsStr| {
            [".git", "git~1"]
                .iter()
                .any(|name| component.eq_ignore_ascii_case(name))
        };
        let is_git_path = |path: &RelPath| path.as_path().iter().any(is_git_name);
        let path = RelPath::new(text.value).filter(|path| !path.is_root() && !is_git_path(path));
        if path.is_none() {
            let hint = "write a path below its root, such as `docs/notes`";
            self.refuse_value(text, "a directory of the tree", hint);
        }
        path
    }

    fn workspace(&mut self, text: &TextValue<'_>) -> Option<StoragePath> {
        let storage = StoragePath::parse(text.value);
        if storage.is_none() {
            self.refuse_value(text, "a directory", "write a name or an absolute path");
        }
        storage
    }

    fn project(&mut self, view: &MappingView<'_>) -> ProjectChoice {
        match view.text(&workflow::PROJECT) {
            None => ProjectChoice::Auto,
            Some(text) => match text.value {
                "auto" => ProjectChoice::Auto,
                NONE => ProjectChoice::None,
                _ => self
                    .path(&text)
                    .map_or(ProjectChoice::Auto, ProjectChoice::At),
            },
        }
    }

    /// Returns the stages; `None` if one is invalid.
    fn stages(
        &mut self,
        view: &MappingView<'_>,
        roles: &[PipelineRole],
        agents: &[AgentConfig],
    ) -> Option<Vec<PipelineStage>> {
        let items = view.items(&workflow::STAGES);
        if items.is_empty() || items.len() > STAGES_MAX {
            let message = match items.len() {
                0 => "`stages` is empty".to_owned(),
                count => format!("{count} stages are too many: at most {STAGES_MAX}"),
            };
            let hint = "list the roles in order";
            self.refuse(view.at(&workflow::STAGES), message, hint);
            return None;
        }
        let count = items.len();
        let mut stages: Vec<PipelineStage> = Vec::new();
        for (path, node) in items {
            let stage = match &node.value {
                YamlValue::Mapping(_) => MappingView { node, path },
                YamlValue::Scalar(_) => {
                    let text = scalar_text(node, path)?;
                    stages.extend(self.stage(&text, None, roles, agents));
                    continue;
                }
                YamlValue::Null | YamlValue::List(_) => continue,
            };
            if let Some(text) = stage.text(&workflow::STAGE_ROLE) {
                stages.extend(self.stage(&text, Some(&stage), roles, agents));
            }
        }
        let mut role_names = BTreeSet::new();
        for stage in &stages {
            if !role_names.insert(&stage.role.name) {
                let message = format!("role `{}` is in two stages", stage.role.name);
                let hint = "define a role with another name under `roles`";
                self.refuse(view.at(&workflow::STAGES), message, hint);
            }
        }
        (stages.len() == count).then_some(stages)
    }

    /// Returns the stage of the role `name`; `view` is its mapping, if it has one.
    fn stage(
        &mut self,
        name: &TextValue<'_>,
        view: Option<&MappingView<'_>>,
        roles: &[PipelineRole],
        agents: &[AgentConfig],
    ) -> Option<PipelineStage> {
        let role = self.role_name(name)?;
        let config_role = roles.iter().find(|other| other.name == role).cloned();
        let Some(role) = config_role.or_else(|| built_in_role(&role)) else {
            let message = format!("unknown role {}", quote(name.value));
            let role_names = roles
                .iter()
                .map(|role| role.name.as_str())
                .chain(ROLES.iter().map(|row| row.name));
            let hint = nearest_hint(name.value, role_names, "define it under `roles`");
            self.refuse(name, message, hint);
            return None;
        };
        let mut agent_names: Vec<TextValue<'_>> = Vec::new();
        if let Some(view) = view {
            agent_names.extend(view.text(&workflow::STAGE_AGENT));
            agent_names.extend(view.texts(&workflow::STAGE_AGENTS));
        }
        let known_ids: Option<Vec<AgentId>> = agent_names
            .iter()
            .map(|text| self.stage_agent(text, agents))
            .collect();
        let mut ids = known_ids?;
        if ids.is_empty() {
            let namesake = agents
                .iter()
                .find(|agent| agent.id.as_str() == role.name.as_str());
            ids.extend(namesake.or(agents.first()).map(|agent| agent.id.clone()));
        }
        let copies = view
            .and_then(|view| view.integer(&workflow::COPIES))
            .unwrap_or(1);
        Some(PipelineStage {
            role,
            agents: ids,
            copies: u32::try_from(copies).unwrap_or(1),
        })
    }

    fn stage_agent(&mut self, text: &TextValue<'_>, agents: &[AgentConfig]) -> Option<AgentId> {
        let ids = || agents.iter().map(|agent| agent.id.as_str());
        if let Some(known_agent) = agents.iter().find(|agent| agent.id.as_str() == text.value) {
            return Some(known_agent.id.clone());
        }
        let message = format!("unknown agent {}", quote(text.value));
        let all_ids = ids().collect::<Vec<_>>().join(", ");
        let hint = nearest_hint(text.value, ids(), format!("expected one of: {all_ids}"));
        self.refuse(text, message, hint);
        None
    }

    /// Returns the role whose verdict ends the pipeline.
    fn deciding_role(
        &mut self,
        view: &MappingView<'_>,
        stages: &[PipelineStage],
    ) -> Option<RoleName> {
        let find_role = |name: &str| {
            let mut roles = stages.iter().map(|stage| &stage.role.name);
            roles.find(|role| role.as_str() == name).cloned()
        };
        let Some(text) = view.text(&workflow::UNTIL) else {
            return find_role(USER);
        };
        if text.value == NONE {
            return None;
        }
        let role = find_role(text.value);
        if role.is_none() {
            let message = format!("role {} is not a stage", quote(text.value));
            self.refuse(&text, message, "expected one of the stages, or `none`");
        }
        role
    }

    /// Refuses roles that read the output of a role without a stage.
    fn check_outputs_exist(&mut self, root: &MappingView<'_>, stages: &[PipelineStage]) {
        for stage in stages {
            let RoleReadAccess::Only(names) = &stage.role.reads else {
                continue;
            };
            let is_stage = |name: &&RoleName| stages.iter().any(|other| other.role.name == **name);
            if let Some(unknown_name) = names.iter().find(|name| !is_stage(name)) {
                let role = &stage.role.name;
                let message =
                    format!("`{role}` reads outputs of `{unknown_name}`, which is not a stage");
                let hint = "list only roles that are stages";
                self.refuse(root.at(&root::ROLES), message, hint);
            }
        }
    }

    /// Refuses roles that may run commands if their agents cannot.
    fn check_command_roles(
        &mut self,
        view: &MappingView<'_>,
        stages: &[PipelineStage],
        agents: &[AgentConfig],
    ) {
        for stage in stages
            .iter()
            .filter(|stage| stage.role.has_right(RoleRight::Bash))
        {
            let stage_agents = agents
                .iter()
                .filter(|agent| stage.agents.contains(&agent.id));
            for agent in stage_agents {
                if agent.commands.is_some()
                    || agent.programs.is_some()
                    || agent.backend.external_agent.is_some()
                {
                    continue;
                }
                let role = &stage.role.name;
                let message = format!(
                    "role `{role}` runs commands, but its agent `{}` may not",
                    agent.id
                );
                let hint = "add `enable_mcp_command_line: true` to its `backend`, or change the role's `rights`";
                self.refuse(view.at(&workflow::STAGES), message, hint);
            }
        }
    }
}
