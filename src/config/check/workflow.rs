//! Owns the check of `workflow` and `roles`: every role is known, has an agent, and stands in one place.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::config::check::Checker;
use crate::config::check::view::{Text, View, text_of};
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::keys::nearest;
use crate::config::node::Value;
use crate::config::place::Place;
use crate::config::workflow::{MERGE_TRIES_DEFAULT, ProjectChoice, Workflow};
use crate::config::{AgentConfig, Config};
use crate::id::AgentId;
use crate::path::RelPath;
use crate::permissions::grant::Permission;
use crate::permissions::guard::FolderGuard;
use crate::roles::table::{ROLES, USER, built_in};
use crate::roles::{Pipeline, Reads, Right, Role, RoleName, Stage, Writes};

/// The most stages.
const STAGES_MAX: usize = 64;
/// The most roles that a config describes.
const ROLES_MAX: usize = 64;
/// How often the stages may be gone through, where nothing is written.
const ITERATIONS_DEFAULT: u64 = 3;
/// How much a role is told of earlier ones, in tokens, where nothing is written.
const CONTEXT_TOKENS_DEFAULT: u64 = 20_000;
/// A word in the place of a role or of a project.
const NONE: &str = "none";

impl Checker<'_> {
    /// The pipeline of the config, if it has one that can be made.
    pub(super) fn workflow(&mut self, root: &View<'_>, agents: &[AgentConfig]) -> Option<Workflow> {
        let roles = self.roles(root);
        let Some(view) = root.section("workflow") else {
            if root.get("roles").is_some() {
                let message = "`roles` have no effect: no `workflow` gives them work";
                let warning = Diagnostic::warning("roles", message).at(root.span_of("roles"));
                self.findings
                    .push(warning.suggest("add `workflow`, or remove them"));
            }
            return None;
        };
        let stages = self.stages(&view, &roles, agents);
        let stages = stages?;
        self.expect_readable(root, &stages);
        self.expect_commands(&view, &stages, agents);
        self.tell_of_idle(&view, &stages, agents);
        let until = self.until(&view, &stages);
        let merge_tries = view.integer("merge_tries");
        let merge_tries = merge_tries.and_then(|tries| u32::try_from(tries).ok());
        let iterations = view.integer("max_iterations").unwrap_or(ITERATIONS_DEFAULT);
        Some(Workflow {
            pipeline: Pipeline {
                stages,
                iterations_max: u32::try_from(iterations).unwrap_or(u32::MAX),
                until,
                context_tokens_max: view
                    .integer("context_tokens")
                    .unwrap_or(CONTEXT_TOKENS_DEFAULT),
            },
            workspace: view
                .text("workspace")
                .and_then(|text| self.workspace(&text)),
            directory: view
                .text("directory")
                .and_then(|text| self.directory(&text)),
            project: self.project(&view),
            within: None,
            merge_tries_max: merge_tries.unwrap_or(MERGE_TRIES_DEFAULT),
        })
    }

    /// Refuses keys of agents that say what roles say in a pipeline.
    pub(super) fn refuse_what_roles_decide(&mut self, root: &View<'_>, config: &Config) {
        let Some(workflow) = &config.workflow else {
            return;
        };
        let own = config.agents.iter().flat_map(|agent| &agent.context_paths);
        let mut paths = config.orchestrator.context_paths.iter().chain(own);
        if let Some(open) = paths.find(|path| path.permission == Permission::Write) {
            let path = quote(&open.path.to_string());
            let message =
                format!("{path} is open for writing, and a pipeline writes to no such path");
            let error = Diagnostic::error("workflow", message).at(root.span_of("workflow"));
            self.findings
                .push(error.suggest("open it with `permission: read`; `massgen apply` delivers"));
        }
        let stages = &workflow.pipeline.stages;
        for agent in &config.agents {
            let takes_part = stages.iter().any(|stage| stage.agents.contains(&agent.id));
            let fault = match (&agent.folder_guard, &agent.cwd) {
                (FolderGuard::On { .. }, _) => "folder_guard",
                (_, Some(Place::Absolute(_))) => "cwd",
                _ => continue,
            };
            if takes_part {
                let message = format!("the `{fault}` of `{}` says what its role says", agent.id);
                let error = Diagnostic::error("workflow", message).at(root.span_of("workflow"));
                self.findings
                    .push(error.suggest("remove it; `roles` say who writes where"));
            }
        }
    }

    /// The roles that the config describes.
    fn roles(&mut self, root: &View<'_>) -> Vec<Role> {
        let entries = root.named("roles");
        if entries.len() > ROLES_MAX {
            let message = format!("{} roles are too many: at most {ROLES_MAX}", entries.len());
            self.refuse_key(root, "roles", &message, "remove those that are no stage");
        }
        let mut roles: Vec<Role> = Vec::new();
        for (name, entry) in entries.into_iter().take(ROLES_MAX) {
            let Some(name) = name else {
                self.refuse_key(&entry, "name", "`name` is missing", "name the role");
                continue;
            };
            let Some(name) = self.role_name(&name) else {
                continue;
            };
            if roles.iter().any(|role| role.name == name) {
                let message = format!("the role `{name}` is described twice");
                self.refuse_key(&entry, "name", &message, "describe it once");
                continue;
            }
            roles.extend(self.role(name, &entry));
        }
        roles
    }

    fn role_name(&mut self, text: &Text<'_>) -> Option<RoleName> {
        RoleName::parse(text.written)
            .map_err(|why| {
                let message = format!("{}: {why}", quote(text.written));
                self.findings
                    .push(Diagnostic::error(&text.path, message).at(text.span));
            })
            .ok()
    }

    fn role(&mut self, name: RoleName, entry: &View<'_>) -> Option<Role> {
        let mut role = built_in(&name).unwrap_or_else(|| Role::empty(name));
        let text = |key| entry.text(key).map(|text| text.written.trim().to_owned());
        if let Some(purpose) = text("purpose") {
            role.purpose = purpose;
        }
        role.prompt = text("prompt").or(role.prompt);
        if entry.get("rights").is_some() {
            let rights = entry.texts("rights");
            let rights = rights.iter().filter_map(|text| Right::named(text.written));
            role.rights = rights.collect();
        }
        if role.may(Right::Edit) && !role.may(Right::Write) {
            let message = "whoever may `edit` may `write`";
            self.refuse_key(entry, "rights", message, "add `write`, or remove `edit`");
        }
        if entry.get("writes").is_some() {
            role.writes = self.writes(entry)?;
        }
        if entry.get("reads").is_some() {
            role.reads = self.reads(entry)?;
        }
        if let Some(output) = entry.text("output") {
            role.output = Some(self.output(&output)?);
        }
        Some(role)
    }

    fn writes(&mut self, entry: &View<'_>) -> Option<Writes> {
        match entry.text("writes").map(|text| text.written) {
            Some("own") => return Some(Writes::OwnDirectory),
            Some("project") => return Some(Writes::Project),
            Some(_) | None => {}
        }
        let dirs = entry.texts("writes");
        let dirs = dirs.iter().map(|text| self.directory(text));
        dirs.collect::<Option<_>>().map(Writes::Also)
    }

    fn reads(&mut self, entry: &View<'_>) -> Option<Reads> {
        if entry
            .text("reads")
            .is_some_and(|text| text.written == "all")
        {
            return Some(Reads::AllEarlier);
        }
        let names = entry.texts("reads");
        let names = names.iter().map(|text| self.role_name(text));
        names.collect::<Option<_>>().map(Reads::Only)
    }

    fn output(&mut self, text: &Text<'_>) -> Option<String> {
        let is_name = RelPath::new(text.written).is_some_and(|path| {
            path.as_path().components().count() == 1 && path.to_string() == text.written
        });
        if is_name && !text.written.starts_with('.') {
            return Some(text.written.to_owned());
        }
        let message = format!("{} is no name of a file", quote(text.written));
        let error = Diagnostic::error(&text.path, message).at(text.span);
        self.findings
            .push(error.suggest("write a plain name, such as `NOTES.md`"));
        None
    }

    /// A directory of the tree.
    fn directory(&mut self, text: &Text<'_>) -> Option<RelPath> {
        // Git takes no file whose path has one of these, in whatever letters: the second is what
        // Windows calls the first.
        let is_gits = |part: &OsStr| {
            [".git", "git~1"]
                .iter()
                .any(|name| part.eq_ignore_ascii_case(name))
        };
        let is_git = |path: &RelPath| path.as_path().iter().any(is_gits);
        let path = RelPath::new(text.written).filter(|path| !path.is_root() && !is_git(path));
        if path.is_none() {
            let message = format!("{} is no directory of the tree", quote(text.written));
            let error = Diagnostic::error(&text.path, message).at(text.span);
            self.findings
                .push(error.suggest("write a path below its root, such as `docs/notes`"));
        }
        path
    }

    fn workspace(&mut self, text: &Text<'_>) -> Option<Place> {
        let place = Place::parse(text.written);
        if place.is_none() {
            let message = format!("{} names no directory", quote(text.written));
            let error = Diagnostic::error(&text.path, message).at(text.span);
            self.findings
                .push(error.suggest("write a name, or a whole path"));
        }
        place
    }

    fn project(&mut self, view: &View<'_>) -> ProjectChoice {
        match view.text("project") {
            None => ProjectChoice::Auto,
            Some(text) => match text.written {
                "auto" => ProjectChoice::Auto,
                NONE => ProjectChoice::None,
                _ => self
                    .path(&text)
                    .map_or(ProjectChoice::Auto, ProjectChoice::At),
            },
        }
    }

    fn stages(
        &mut self,
        view: &View<'_>,
        roles: &[Role],
        agents: &[AgentConfig],
    ) -> Option<Vec<Stage>> {
        let items = view.items("stages");
        if items.is_empty() || items.len() > STAGES_MAX {
            let message = match items.len() {
                0 => "`stages` is empty".to_owned(),
                count => format!("{count} stages are too many: at most {STAGES_MAX}"),
            };
            self.refuse_key(view, "stages", &message, "list the roles in their order");
            return None;
        }
        let count = items.len();
        let mut stages: Vec<Stage> = Vec::new();
        for (path, node) in items {
            let stage = match &node.value {
                Value::Mapping(_) => View { node, path },
                Value::Scalar(_) => {
                    let text = text_of(node, path)?;
                    stages.extend(self.stage(&text, None, (roles, agents)));
                    continue;
                }
                Value::Null | Value::List(_) => continue,
            };
            if let Some(text) = stage.text("role") {
                stages.extend(self.stage(&text, Some(&stage), (roles, agents)));
            }
        }
        let mut seen = BTreeSet::new();
        for stage in &stages {
            if !seen.insert(&stage.role.name) {
                let message = format!("the role `{}` stands in two stages", stage.role.name);
                let way_out = "describe a role of another name under `roles`";
                self.refuse_key(view, "stages", &message, way_out);
            }
        }
        (stages.len() == count).then_some(stages)
    }

    fn stage(
        &mut self,
        name: &Text<'_>,
        view: Option<&View<'_>>,
        (roles, agents): (&[Role], &[AgentConfig]),
    ) -> Option<Stage> {
        let role = self.role_name(name)?;
        let own = roles.iter().find(|own| own.name == role).cloned();
        let Some(role) = own.or_else(|| built_in(&role)) else {
            let message = format!("there is no role {}", quote(name.written));
            let known = roles.iter().map(|role| role.name.as_str());
            let known = known.chain(ROLES.iter().map(|row| row.name));
            let way_out = match nearest(name.written, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "describe it under `roles`".to_owned(),
            };
            let error = Diagnostic::error(&name.path, message).at(name.span);
            self.findings.push(error.suggest(way_out));
            return None;
        };
        let mut named: Vec<Text<'_>> = Vec::new();
        if let Some(view) = view {
            named.extend(view.text("agent"));
            named.extend(view.texts("agents"));
        }
        let ids: Option<Vec<AgentId>> = named
            .iter()
            .map(|text| self.agent_of_stage(text, agents))
            .collect();
        let mut ids = ids?;
        if ids.is_empty() {
            let same = agents
                .iter()
                .find(|agent| agent.id.as_str() == role.name.as_str());
            if let (None, [first, _, ..]) = (same, agents) {
                let message = format!(
                    "no agent is called `{}`, so `{}` plays it",
                    role.name, first.id
                );
                let warning = Diagnostic::warning(&name.path, message).at(name.span);
                let way_out = format!("name the agent: `{{role: {}, agent: …}}`", role.name);
                self.findings.push(warning.suggest(way_out));
            }
            ids.extend(same.or(agents.first()).map(|agent| agent.id.clone()));
        }
        let copies = view.and_then(|view| view.integer("copies")).unwrap_or(1);
        Some(Stage {
            role,
            agents: ids,
            copies: u32::try_from(copies).unwrap_or(1),
        })
    }

    fn agent_of_stage(&mut self, text: &Text<'_>, agents: &[AgentConfig]) -> Option<AgentId> {
        let ids = || agents.iter().map(|agent| agent.id.as_str());
        if let Some(known) = agents
            .iter()
            .find(|agent| agent.id.as_str() == text.written)
        {
            return Some(known.id.clone());
        }
        let message = format!("there is no agent {}", quote(text.written));
        let way_out = match nearest(text.written, ids()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("name one of: {}", ids().collect::<Vec<_>>().join(", ")),
        };
        let error = Diagnostic::error(&text.path, message).at(text.span);
        self.findings.push(error.suggest(way_out));
        None
    }

    fn until(&mut self, view: &View<'_>, stages: &[Stage]) -> Option<RoleName> {
        let stage_of = |name: &str| {
            let mut names = stages.iter().map(|stage| &stage.role.name);
            names.find(|known| known.as_str() == name).cloned()
        };
        let Some(text) = view.text("until") else {
            return stage_of(USER);
        };
        if text.written == NONE {
            return None;
        }
        let role = stage_of(text.written);
        if role.is_none() {
            let message = format!("the role {} is no stage", quote(text.written));
            let error = Diagnostic::error(&text.path, message).at(text.span);
            self.findings
                .push(error.suggest("name one of the stages, or `none`"));
        }
        role
    }

    /// Refuses outputs that a role is to be told of and that nobody leaves.
    fn expect_readable(&mut self, root: &View<'_>, stages: &[Stage]) {
        for stage in stages {
            let Reads::Only(names) = &stage.role.reads else {
                continue;
            };
            let is_stage = |name: &&RoleName| stages.iter().any(|other| other.role.name == **name);
            if let Some(unknown) = names.iter().find(|name| !is_stage(name)) {
                let role = &stage.role.name;
                let message = format!("`{role}` reads what `{unknown}` leaves, which is no stage");
                self.refuse_key(root, "roles", &message, "name roles that are stages");
            }
        }
    }

    /// Refuses roles that may run commands and whose agents cannot.
    fn expect_commands(&mut self, view: &View<'_>, stages: &[Stage], agents: &[AgentConfig]) {
        for stage in stages.iter().filter(|stage| stage.role.may(Right::Bash)) {
            let its = agents
                .iter()
                .filter(|agent| stage.agents.contains(&agent.id));
            for agent in its {
                let is_able = agent.commands.is_some() || agent.backend.guest.is_some();
                if is_able || agent.programs.is_some() {
                    continue;
                }
                let role = &stage.role.name;
                let message = format!(
                    "the role `{role}` runs commands, and its agent `{}` runs none",
                    agent.id
                );
                let way_out = "add `enable_mcp_command_line: true` to its `backend`, or give the role other `rights`";
                self.refuse_key(view, "stages", &message, way_out);
            }
        }
    }

    /// Says which agents have nothing to do.
    fn tell_of_idle(&mut self, view: &View<'_>, stages: &[Stage], agents: &[AgentConfig]) {
        let takes_part =
            |agent: &&AgentConfig| stages.iter().any(|stage| stage.agents.contains(&agent.id));
        for agent in agents.iter().filter(|agent| !takes_part(agent)) {
            let message = format!("the agent `{}` takes part in no stage", agent.id);
            let warning =
                Diagnostic::warning("workflow.stages", message).at(view.span_of("stages"));
            self.findings
                .push(warning.suggest("name it in a stage, or remove it"));
        }
    }
}
