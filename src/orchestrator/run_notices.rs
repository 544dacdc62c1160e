//! Notices for the user at the start of a run: what it opens to its agents, which of them run
//! without a sandbox, and what the user should know about subagents.

use crate::orchestrator::grants::permission_manager;
use crate::orchestrator::team::{AgentTeam, TeamMember};
use crate::path::RealPath;
use crate::permissions::grant::{Grant, GrantKind, Phase};
use crate::sandbox_policy::NetworkPolicy;
use crate::text::list_first;
use crate::world::io::secrets::readable_secrets;

/// Maximum number of files that one notice lists.
const LISTED_FILES_MAX: usize = 5;

/// Returns the note about effects of agents that do the same work independently, if they can have
/// some outside the user's files.
fn repeated_effects_note(team: &AgentTeam) -> Option<String> {
    let has_network = |member: &TeamMember| {
        let commands = member.config.commands.as_ref();
        commands.is_some_and(|commands| *commands.network_access() != NetworkPolicy::Off)
            || !member.config.servers.is_empty()
    };
    let agents = team
        .members
        .iter()
        .filter(|member| has_network(member))
        .count();
    (team.collaborators() == 1 && agents > 1).then(|| {
        format!(
            "{agents} agents work alone with a network or servers: effects outside your files can \
             happen once for each"
        )
    })
}

/// Returns the notices about the run of `team`.
pub(super) fn run_notices(team: &AgentTeam) -> Vec<String> {
    let mut grants: Vec<Grant> = Vec::new();
    for grant in team.members.iter().flat_map(|member| &member.grants) {
        if grant.kind == GrantKind::Context && !grants.contains(grant) {
            grants.push(grant.clone());
        }
    }
    let unprotected_note = |grant: &Grant| {
        let names = grant.unprotected.join(", ");
        (!names.is_empty()).then(|| format!("unprotected in `{}`: {names}", grant.root))
    };
    let mut notices: Vec<String> = grants.iter().filter_map(unprotected_note).collect();
    let files: Vec<&RealPath> = team.protected_files.iter().collect();
    if !files.is_empty() {
        let files = list_first(&files, LISTED_FILES_MAX);
        notices.push(format!("protected, because this run obeys it: {files}"));
    }
    notices.extend(team.attempt_notes());
    notices.extend(team.unsandboxed_notes());
    notices.extend(repeated_effects_note(team));
    notices.extend(team.subagent_notes());
    notices.extend(team.subagent_choice_notices());
    let secrets = readable_secrets(&permission_manager(&grants, Phase::Coordination));
    if let Some(first_secret) = secrets.first() {
        let more = match secrets.len() {
            1 => String::new(),
            count => format!(" and {} more", count.saturating_sub(1)),
        };
        notices.push(format!(
            "agents may read `{first_secret}`{more}, which looks like a secret: hide it with \
             `hidden_paths` of its context path"
        ));
    }
    notices
}
