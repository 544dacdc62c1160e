//! The gates of a team's members, each with its policy for a phase.

use std::sync::Arc;

use crate::error::Result;
use crate::orchestrator::grants;
use crate::orchestrator::team::model_input::{media_kinds, vendor_tools};
use crate::orchestrator::team::{AgentTeam, DeliveryAccess, TeamMember};
use crate::permissions::grant::Phase;
use crate::permissions::guard::FolderGuard;
use crate::sandbox_policy::NetworkPolicy;
use crate::tools::spec::PAGES;
use crate::tools::tool_selection::names_any;
use crate::world::access::gate::Gate;
use crate::world::access::policy::{GatePolicy, ParentDirPolicy, TrialAnswers};
use crate::world::approval::WORKSPACE_NAME;
use crate::world::io::page_fetcher::PageAccess;
use crate::world::sandbox::overlay::WriteOverlay;

impl AgentTeam {
    /// Returns the gate of `member` for `phase`, with an overlay if there is one; `None` if it has
    /// no grants and no tools that need none.
    pub fn gate(
        &self,
        member: &TeamMember,
        phase: Phase,
        overlay: Option<&WriteOverlay>,
    ) -> Result<Option<Gate>> {
        let seconds = member.config.permissions.approval_timeout_seconds();
        let approvals = self.resources.approvals.as_ref();
        let policy = GatePolicy {
            read_before_delete: member.config.read_before_delete,
            servers: self.servers(member, phase),
            plan_entries_max: self.plan_entries_max(member),
            plan_file: self.plan_file(member),
            pages: self.page_access(member),
            vendor_tools: vendor_tools(&member.config),
            media: media_kinds(&member.config),
            subagents: self.subagent_limits(member),
            answers: self
                .tries_answers(member, phase)
                .then(TrialAnswers::default),
            hooks: self.hooks(member)?,
            approver: approvals.map(|broker| broker.approver_for(&member.id, seconds)),
            ..self.gate_policy(member, overlay)?
        };
        self.open_gate(member, phase, policy, self.shared_server_gate(member)?)
    }

    /// Returns the pages that `member` may read; `None` if the config opens no host to it, in a
    /// replay, which reads nothing, and for external agents, which have tools of their own.
    pub(super) fn page_access(&self, member: &TeamMember) -> Option<PageAccess> {
        let is_external = member.config.backend.external_agent.is_some();
        let is_excluded = names_any(&member.config.tools.excluded, PAGES);
        let is_replay = self.delivery_access == DeliveryAccess::ReadOnly;
        let hosts = &member.config.pages;
        let is_closed = *hosts == NetworkPolicy::Off || is_external || is_excluded || is_replay;
        (!is_closed).then(|| PageAccess {
            hosts: hosts.clone(),
            fetcher: self.page_fetcher.clone(),
        })
    }

    /// Returns the gate that copies the winner's files to the user's paths, or to `overlay`, if the
    /// winner has not done so itself.
    pub fn delivery_gate(
        &self,
        member: &TeamMember,
        overlay: Option<&WriteOverlay>,
    ) -> Result<Option<Gate>> {
        self.open_gate(
            member,
            Phase::Final,
            self.gate_policy(member, overlay)?,
            None,
        )
    }

    /// Returns the policy that all gates of `member` share.
    fn gate_policy(
        &self,
        member: &TeamMember,
        overlay: Option<&WriteOverlay>,
    ) -> Result<GatePolicy> {
        let base = grants::real_path(&self.working_directory(member))?;
        Ok(GatePolicy {
            workspace_name: format!("{WORKSPACE_NAME} of `{}`", member.id),
            parent_dirs: match member.config.folder_guard {
                FolderGuard::Off | FolderGuard::Role { .. } => ParentDirPolicy::Followed,
                FolderGuard::On { .. } => ParentDirPolicy::Refused,
            },
            history: Arc::clone(&member.history),
            disk_reserve: self.disk_reserve.clone(),
            conflicts: self.resources.conflicts.clone(),
            commands: self.command_environment(member).cloned(),
            programs: self.program_environment(member).cloned(),
            merge_bases: self
                .resources
                .delivery
                .as_ref()
                .map(|settings| settings.merge_bases.clone()),
            overlay: overlay.cloned(),
            rules: Arc::clone(&member.rules),
            ..GatePolicy::minimal(base)
        })
    }

    fn open_gate(
        &self,
        member: &TeamMember,
        phase: Phase,
        policy: GatePolicy,
        shared_servers: Option<Gate>,
    ) -> Result<Option<Gate>> {
        if member.grants.is_empty() && !policy.has_tools_without_files() {
            return Ok(None);
        }
        let phase = match self.delivery_access {
            DeliveryAccess::ReadWrite => phase,
            // In this phase, the user's paths are read-only.
            DeliveryAccess::ReadOnly => Phase::Coordination,
        };
        let manager = grants::permission_manager(&member.grants, phase);
        Gate::open_with_shared_servers(manager, policy, shared_servers).map(Some)
    }
}
