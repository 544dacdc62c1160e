//! Converts a role to the config of an ordinary run: agents with a workspace, grants, tools and
//! limits. The rights of roles are enforced only by that config; external agents on which it cannot
//! enforce them are rejected.

use crate::config::command_line::CommandLineConfig;
use crate::config::storage_path::StoragePath;
use crate::config::vendors::AgentProtocolKind;
use crate::config::{AgentConfig, Config};
use crate::error::{Error, ErrorKind, Result};
use crate::id::AgentId;
use crate::path::{AbsPath, RelPath};
use crate::permissions::guard::FolderGuard;
use crate::roles::{PipelineRole, PipelineStage, RoleRight, RoleWriteAccess};
use crate::spending::totals::UsageTotals;
use crate::world::git::checkout::PRIVATE_GIT_DIR;

/// The tool of roles with the right `edit`.
const EDIT: &str = "edit_file";
/// The tools of roles with the right `bash`. Without the right there is no environment for
/// commands; the names are for external agents, which have native tools.
const BASH: [&str; 2] = ["execute_command", "start_background_command"];

/// A role at work in a stage, or one of several copies of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoleInstance {
    /// The iteration, from 1.
    pub(super) iteration: u32,
    /// The index of the stage, from 0.
    pub(super) stage: usize,
    /// The number of the copy, from 1.
    pub(super) copy: u32,
    /// The number of copies that work at the same time.
    pub(super) copies: u32,
    /// The name of its branch and of its directories.
    pub(super) name: String,
}

impl RoleInstance {
    /// Creates an instance of `role`.
    pub(super) fn new(
        role: &PipelineRole,
        iteration: u32,
        stage: usize,
        copy: u32,
        copies: u32,
    ) -> Self {
        let name = match copy {
            1 => role.name.to_string(),
            copy => format!("{}-{copy}", role.name),
        };
        Self {
            iteration,
            stage,
            copy,
            copies,
            name,
        }
    }

    /// Returns the name of the checkout of one of its `agent_count` agents.
    pub(super) fn checkout_name(&self, agent_index: usize, agent_count: usize) -> String {
        match agent_count {
            1 => self.name.clone(),
            _ => format!("{}.agent{}", self.name, agent_index.saturating_add(1)),
        }
    }

    /// Returns the path of the file that it leaves for others, if its role leaves one.
    pub(super) fn output_path(&self, role: &PipelineRole) -> Option<String> {
        let output = role.output.as_ref()?;
        Some(match (self.copies, output.rsplit_once('.')) {
            (1, _) => output.clone(),
            (_, Some((stem, extension))) => format!("{stem}-{}.{extension}", self.copy),
            (_, None) => format!("{output}-{}", self.copy),
        })
    }
}

/// Rejects external agents in roles whose rights cannot be enforced on them: the sandbox contains
/// the commands that they run, but it cannot stop them from running any, unless they ask first.
pub(super) fn reject_unsupported_agents(config: &Config, stages: &[PipelineStage]) -> Result<()> {
    for stage in stages
        .iter()
        .filter(|stage| !stage.role.has_right(RoleRight::Bash))
    {
        let mut agents = config
            .agents
            .iter()
            .filter(|agent| stage.agents.contains(&agent.id));
        let unsupported_agent = agents.find(|agent| {
            let external_agent = agent.backend.external_agent.as_ref();
            external_agent.is_some_and(|external_agent| {
                external_agent.protocol != AgentProtocolKind::ClaudeCode
            })
        });
        if let Some(agent) = unsupported_agent {
            let role = &stage.role.name;
            let message = format!(
                "external agent `{}` runs commands by itself, but role `{role}` may not run any",
                agent.id
            );
            return Err(Error::new(ErrorKind::Config, message).with_hint(format!(
                "use another agent for `{role}`, or give it the right `bash`"
            )));
        }
    }
    Ok(())
}

/// The directories in the tree that a role may write to, and those within them that it may only
/// read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriteScope {
    /// Directories that it may write to.
    pub(super) write: Vec<RelPath>,
    /// Directories inside them that it may only read.
    pub(super) read: Vec<RelPath>,
}

impl WriteScope {
    /// Returns the write scope of `role`; the roles have their directories in `roles_directory` of
    /// the tree.
    pub(super) fn for_role(role: &PipelineRole, roles_directory: &RelPath) -> Self {
        let own_directory =
            roles_directory.join(&RelPath::new(role.name.as_str()).unwrap_or_default());
        if !role.has_right(RoleRight::Write) {
            return Self {
                write: Vec::new(),
                read: Vec::new(),
            };
        }
        match &role.writes {
            RoleWriteAccess::Project if !roles_directory.is_root() => Self {
                write: vec![RelPath::default(), own_directory],
                read: vec![roles_directory.clone()],
            },
            // At the root of the tree, their directories are not apart from the other files.
            RoleWriteAccess::OwnDirectory | RoleWriteAccess::Project => Self {
                write: vec![own_directory],
                read: Vec::new(),
            },
            RoleWriteAccess::OwnAndListed(others) => Self {
                write: [own_directory]
                    .into_iter()
                    .chain(others.iter().cloned())
                    .collect(),
                read: Vec::new(),
            },
        }
    }

    /// Returns whether the role may write to `path`: the deepest listed directory that contains it
    /// decides.
    pub(super) fn allows(&self, path: &RelPath) -> bool {
        let max_depth = |directories: &[RelPath]| {
            let ancestors = directories.iter().filter(|dir| path.is_within(dir));
            ancestors
                .map(|dir| dir.as_path().components().count())
                .max()
        };
        match (max_depth(&self.write), max_depth(&self.read)) {
            (Some(write_depth), Some(read_depth)) => write_depth > read_depth,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

/// The directories of an instance's agents, and what the pipeline has used.
#[derive(Clone, Debug)]
pub(super) struct InstanceDirectories<'a> {
    /// The directory in the tree for the roles' directories.
    pub(super) roles_directory: &'a RelPath,
    /// A checkout for each agent, in their order.
    pub(super) checkouts: &'a [AbsPath],
    /// What git needs to read in addition to a checkout: the objects of the pipeline and of its
    /// project.
    pub(super) objects: &'a [AbsPath],
    /// The directory for the sessions of this stage run.
    pub(super) sessions: AbsPath,
    /// The usage of the pipeline so far.
    pub(super) usage: &'a UsageTotals,
}

/// Returns the config of the run in which the agents of an instance work.
pub(super) fn instance_config(
    config: &Config,
    stage: &PipelineStage,
    instance: &RoleInstance,
    directories: &InstanceDirectories<'_>,
) -> Result<Config> {
    let write_scope = WriteScope::for_role(&stage.role, directories.roles_directory);
    let mut agents = Vec::new();
    for (id, checkout) in stage.agents.iter().zip(directories.checkouts) {
        let agent = config
            .agents
            .iter()
            .find(|agent| agent.id == *id)
            .ok_or_else(|| Error::bug(format!("no agent is `{id}`")))?;
        agents.push(instance_agent(
            agent,
            stage,
            instance,
            &write_scope,
            checkout,
            directories,
        )?);
    }
    let checks_run_like = common_commands(config);
    let mut config = config.clone();
    config.agents = agents;
    config.workflow = None;
    config.session_id = None;
    if let [_] = stage.agents.as_slice() {
        // Its work is checked when it is merged.
        config.checks.list.clear();
    }
    config.checks.commands = Some(checks_run_like);
    config.orchestrator.session_storage = StoragePath::Absolute(directories.sessions.clone());
    let usage = directories.usage;
    let limits_left = config
        .limits
        .remaining_after(&usage.run(), usage.tool_calls());
    // Copies work at the same time, so they share what is left.
    config.limits = limits_left.divided_by(instance.copies);
    Ok(config)
}

/// Returns how checks run in a pipeline: whoever's work is checked, code of all agents runs in them.
pub(super) fn common_commands(config: &Config) -> CommandLineConfig {
    let agents = config.agents.iter();
    CommandLineConfig::common(agents.map(|agent| agent.commands.as_ref()))
}

fn instance_agent(
    agent: &AgentConfig,
    stage: &PipelineStage,
    instance: &RoleInstance,
    write_scope: &WriteScope,
    checkout: &AbsPath,
    directories: &InstanceDirectories<'_>,
) -> Result<AgentConfig> {
    let below_checkout = |dirs: &[RelPath]| -> Vec<AbsPath> {
        dirs.iter()
            .map(|dir| checkout.join(dir.as_path()))
            .collect()
    };
    let role = &stage.role;
    let (mut read, mut write) = (
        below_checkout(&write_scope.read),
        below_checkout(&write_scope.write),
    );
    let mut limited_agent = agent.clone();
    if role.has_right(RoleRight::Bash) {
        // Its commands may use git.
        read.extend(directories.objects.iter().cloned());
        write.push(checkout.join(PRIVATE_GIT_DIR));
    } else {
        limited_agent.commands = None;
        limited_agent.programs = None;
        limited_agent.tools.excluded.extend(BASH.map(str::to_owned));
    }
    if !role.has_right(RoleRight::Edit) {
        limited_agent.tools.excluded.push(EDIT.to_owned());
    }
    limited_agent.folder_guard = FolderGuard::Role { read, write };
    limited_agent.cwd = Some(StoragePath::Absolute(checkout.clone()));
    let usage = directories.usage;
    let limits_left = agent
        .limits
        .remaining_after(&usage.agent(&agent.id), usage.tool_calls_of(&agent.id));
    limited_agent.limits = limits_left.divided_by(instance.copies);
    limited_agent.id = instance_agent_id(&agent.id, instance)?;
    Ok(limited_agent)
}

/// Returns the id of an agent in an instance: in further copies, the number of the copy follows.
pub(super) fn instance_agent_id(agent: &AgentId, instance: &RoleInstance) -> Result<AgentId> {
    match instance.copy {
        1 => Ok(agent.clone()),
        copy => {
            let name = format!("{agent}-{copy}");
            AgentId::parse(&name).map_err(|error| Error::bug(error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::RoleName;
    use crate::roles::built_in::built_in_role;

    fn path(text: &str) -> RelPath {
        RelPath::new(text).unwrap()
    }

    fn role(name: &str) -> PipelineRole {
        built_in_role(&RoleName::parse(name).unwrap()).unwrap()
    }

    #[track_caller]
    fn check(role: &PipelineRole, directory: &str, allowed: &[&str], refused: &[&str]) {
        let write_scope = WriteScope::for_role(role, &path(directory));
        for name in allowed {
            assert!(write_scope.allows(&path(name)), "{name}: {write_scope:?}");
        }
        for name in refused {
            assert!(!write_scope.allows(&path(name)), "{name}: {write_scope:?}");
        }
    }

    #[test]
    fn a_role_writes_where_it_may() {
        let outside = &["planner/PLAN.md", "src/a.rs", "TASK.md", "implementers/a"];
        check(&role("implementer"), "", &["implementer/a.py"], outside);
        check(&role("understand"), "", &[], &["understand/a", "a"]);
        let closed = &[
            ".pipeline/TASK.md",
            ".pipeline/planner/PLAN.md",
            ".pipeline",
        ];
        let open = &["src/a.rs", ".pipeline/implementer/I.md", "TASK.md"];
        check(&role("implementer"), ".pipeline", open, closed);
        check(
            &role("tester"),
            ".pipeline",
            &[".pipeline/tester/t"],
            &["src/a", "tester/t"],
        );
        let mut tester = role("tester");
        tester.writes = RoleWriteAccess::OwnAndListed(vec![path("tests")]);
        check(
            &tester,
            ".pipeline",
            &["tests/a", ".pipeline/tester/t"],
            &["src/a"],
        );
    }

    #[test]
    fn copies_do_not_meet() {
        let implementer = role("implementer");
        let instance = |copy, copies| RoleInstance::new(&implementer, 1, 2, copy, copies);
        assert_eq!(instance(1, 1).name, "implementer");
        assert_eq!(instance(2, 2).name, "implementer-2");
        let output = |copy, copies| instance(copy, copies).output_path(&implementer).unwrap();
        assert_eq!(output(1, 1), "IMPLEMENTATION.md");
        assert_eq!(output(1, 2), "IMPLEMENTATION-1.md");
        assert_eq!(instance(2, 2).checkout_name(0, 1), "implementer-2");
        assert_eq!(instance(1, 1).checkout_name(1, 2), "implementer.agent2");
    }
}
