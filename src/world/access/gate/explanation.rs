//! Explains what a gate would decide, without making a permit.

use crate::path::{AbsPath, RealPath};
use crate::permissions::folded;
use crate::permissions::grant::{Grant, Permission};
use crate::permissions::path_rules::{CallApproval, PathRule};
use crate::tools::call::{RequestedAccess, ToolCall};
use crate::world::access::gate::Gate;
use crate::world::access::verdict::{GrantedRoot, PathVerdict};

impl Gate {
    /// Returns whether `call` searches a directory in which something may not be read. massgen's
    /// own tools leave that out of their results.
    pub fn crosses_hidden(&self, call: &ToolCall) -> bool {
        let searches = matches!(
            call,
            ToolCall::GrepFiles { .. }
                | ToolCall::SearchFiles { .. }
                | ToolCall::DirectoryTree { .. }
        );
        let from: Vec<RealPath> = call
            .accesses()
            .into_iter()
            .filter_map(|access| {
                self.resolve_path(
                    access.path,
                    access.wanted,
                    access.link,
                    CallApproval::Missing,
                )
                .0
            })
            .collect();
        let is_below = |path: &AbsPath| folded::is_within_any(path, &from);
        let grants = self.0.manager.grants().iter();
        let mut hidden_paths =
            grants.flat_map(|grant| grant.hidden.iter().map(|rel| grant.root.join(rel).to_abs()));
        let closes = |rule: &PathRule| {
            rule.blocks(Permission::Read) && rule.single_path().is_none_or(|path| is_below(&path))
        };
        searches
            && (hidden_paths.any(|path| is_below(&path)) || self.path_rules().iter().any(closes))
    }

    /// Returns what [`Gate::check`] would decide about each path of `call`, with the reasons.
    pub fn explain(&self, call: &ToolCall) -> Vec<PathVerdict> {
        let call = self.with_open_start_dir(call.clone());
        let accesses = call.accesses().into_iter();
        accesses.map(|access| self.verdict(&access)).collect()
    }

    /// Returns the decision about one path, with its reason.
    pub fn verdict(&self, access: &RequestedAccess<'_>) -> PathVerdict {
        let (real, outcome) = self.resolve_path(
            access.path,
            access.wanted,
            access.link,
            CallApproval::Missing,
        );
        let root_and_kind = |grant: &Grant| (grant.root.clone(), grant.kind);
        let manager = self.manager();
        let grant = real.as_ref().and_then(|real| {
            let decision = manager.decide(real, access.wanted);
            decision.grant().map(root_and_kind)
        });
        let allowed_path = real.as_ref().filter(|_| outcome.is_ok());
        let agreeing = allowed_path.map(|real| manager.grants_in_other_spelling(real));
        PathVerdict {
            path: access.path.clone(),
            wanted: access.wanted,
            grant,
            agreeing: agreeing.into_iter().flatten().map(root_and_kind).collect(),
            real,
            refusal: outcome.err(),
        }
    }

    /// Returns what the agent was given, most specific first, with its permissions in this phase.
    pub fn roots(&self) -> Vec<GrantedRoot> {
        let current_grant = |grant: &Grant| {
            let allows = |wanted| self.0.manager.allows(&grant.root, wanted);
            let permission = [Permission::Write, Permission::Read]
                .into_iter()
                .find(|wanted| allows(*wanted))?;
            Some(GrantedRoot {
                path: grant.root.clone(),
                kind: grant.kind,
                scope: grant.scope,
                permission,
            })
        };
        self.0
            .manager
            .grants()
            .iter()
            .filter_map(current_grant)
            .collect()
    }
}
