//! The hooks about each member of a team, and what they may read.

use std::sync::Arc;

use crate::error::Result;
use crate::hooks::request::HookContext;
use crate::orchestrator::hooks::LoggingHookObserver;
use crate::orchestrator::process_specs::HostEnvironment;
use crate::orchestrator::team::{AgentTeam, DeliveryAccess, TeamMember};
use crate::orchestrator::{grants, program_files};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::world::access::hook_runner::{HookRunner, HookSandbox};
use crate::world::delivery::planning::plan_overlay;

impl AgentTeam {
    /// Rejects hooks that cannot run or that an agent can write to.
    pub fn validate_hooks(&self, host: &HostEnvironment) -> Result<()> {
        match self.delivery_access {
            DeliveryAccess::ReadWrite => {
                program_files::validate_hooks(&self.members, &self.base, host)
            }
            DeliveryAccess::ReadOnly => Ok(()),
        }
    }

    /// Returns the hooks about `member`, if there are any.
    pub fn hooks(&self, member: &TeamMember) -> Result<Option<HookRunner>> {
        if member.config.hooks.is_empty() || self.delivery_access == DeliveryAccess::ReadOnly {
            return Ok(None);
        }
        let environment = self
            .resources
            .environments
            .as_ref()
            .and_then(|environments| environments.hook_environment(&member.id));
        let sandbox = match environment {
            None => None,
            Some(environment) => Some(HookSandbox {
                commands: environment.clone(),
                readable: self.hook_read_permissions(member)?,
                deliverable: grants::permission_manager(&member.grants, Phase::Final),
                plan: plan_overlay,
                import_directories: program_files::hook_import_directories(
                    &member.config.hooks,
                    &self.base,
                    &self.members,
                ),
            }),
        };
        let context = self.resources.hook_context.as_ref();
        let hook_context = HookContext {
            session_id: context.map(|context| context.session_id.clone()),
            project: grants::real_path(&self.base)?.to_abs(),
            agent: Some(member.id.clone()),
            workspace: member.workspace.clone(),
        };
        let observer = match context {
            Some(context) => context.observer(&member.id),
            None => Arc::new(LoggingHookObserver),
        };
        let hooks = member.config.hooks.clone();
        Ok(Some(HookRunner::new(
            hooks,
            hook_context,
            sandbox,
            observer,
        )))
    }

    /// Returns what hooks may read: the directory that massgen was started in, and what the agent
    /// may read. Hooks are the user's own, and rules about the agent's calls do not apply to them.
    fn hook_read_permissions(&self, member: &TeamMember) -> Result<PathPermissionManager> {
        let project_root = grants::real_path(&self.base)?;
        let project = Grant::tree(project_root, GrantKind::Context, Permission::Read);
        let agent_grants = member.grants.iter().map(|grant| Grant {
            permission: Permission::Read,
            path_rules: Arc::default(),
            ..grant.clone()
        });
        let grants = std::iter::once(project).chain(agent_grants).collect();
        Ok(PathPermissionManager::new(grants, Phase::Coordination))
    }
}
