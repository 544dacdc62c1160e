//! Explains what a gate decides, or would decide, without making a permit.

use crate::path::{AbsPath, RealPath};
use crate::permissions::folded;
use crate::permissions::grant::{Grant, Permission};
use crate::permissions::path_rules::{CallApproval, PathRule, RuleAction, matching_rule};
use crate::permissions::rules::{ASKED_BY_CONFIG, DENIED_BY_CONFIG, PermissionRule};
use crate::tools::call::{RequestedAccess, ToolCall, UserPath};
use crate::world::access::gate::Gate;
use crate::world::access::policy::ParentDirPolicy;
use crate::world::access::verdict::{
    AccessRefusal, Denial, DeniedSubject, GrantedRoot, PathError, PathVerdict, PermitError,
};

impl Gate {
    /// Returns whether `call` searches a directory in which something may not be read. massgen's
    /// own tools leave that out of their results.
    pub fn searches_hidden_paths(&self, call: &ToolCall) -> bool {
        let is_search = matches!(
            call,
            ToolCall::GrepFiles { .. }
                | ToolCall::SearchFiles { .. }
                | ToolCall::DirectoryTree { .. }
        );
        let search_roots: Vec<RealPath> = call
            .accesses()
            .into_iter()
            .filter_map(|access| {
                let (real, _) = self.resolve_path(
                    access.path,
                    access.permission,
                    access.link,
                    CallApproval::Missing,
                );
                real
            })
            .collect();
        let is_below = |path: &AbsPath| folded::is_within_any(path, &search_roots);
        let grants = self.state.manager.grants().iter();
        let mut hidden_paths =
            grants.flat_map(|grant| grant.hidden.iter().map(|rel| grant.root.join(rel).to_abs()));
        // A glob that could match several paths may hide one of them anywhere.
        let hides = |rule: &PathRule| {
            rule.blocks(Permission::Read) && rule.single_path().is_none_or(|path| is_below(&path))
        };
        is_search
            && (hidden_paths.any(|path| is_below(&path)) || self.path_rules().iter().any(hides))
    }

    /// Returns what [`Gate::check`] would decide about each path of `call`, with the reasons. A
    /// path about which a person would be asked counts as refused.
    pub fn explain(&self, call: &ToolCall) -> Vec<PathVerdict> {
        let call = self.with_adapted_paths(call.clone());
        let accesses = call.accesses().into_iter();
        accesses.map(|access| self.verdict(&access)).collect()
    }

    /// Returns the decision about one path, with its reason.
    pub fn verdict(&self, access: &RequestedAccess<'_>) -> PathVerdict {
        let (real, outcome) = self.resolve_path(
            access.path,
            access.permission,
            access.link,
            CallApproval::Missing,
        );
        let root_and_kind = |grant: &Grant| (grant.root.clone(), grant.kind);
        let manager = self.manager();
        let grant = real.as_ref().and_then(|real| {
            let decision = manager.decide(real, access.permission);
            decision.grant().map(root_and_kind)
        });
        let allowed_path = real.as_ref().filter(|_| outcome.is_ok());
        let other_spelling_grants = allowed_path.map(|real| manager.grants_in_other_spelling(real));
        PathVerdict {
            path: access.path.clone(),
            requested: access.permission,
            grant,
            other_spelling_grants: other_spelling_grants
                .into_iter()
                .flatten()
                .map(root_and_kind)
                .collect(),
            real,
            refusal: outcome.err().map(AccessRefusal::from),
        }
    }

    /// Returns the roots of the agent's grants, most specific first, with its permissions in this
    /// phase.
    pub fn roots(&self) -> Vec<GrantedRoot> {
        let granted_root = |grant: &Grant| {
            let allows = |requested| self.state.manager.allows(&grant.root, requested);
            let permission = [Permission::Write, Permission::Read]
                .into_iter()
                .find(|requested| allows(*requested))?;
            Some(GrantedRoot {
                path: grant.root.clone(),
                kind: grant.kind,
                scope: grant.scope,
                permission,
            })
        };
        self.state
            .manager
            .grants()
            .iter()
            .filter_map(granted_root)
            .collect()
    }

    /// Returns the refusal by a rule that lowers what a grant gives. It quotes the rule if that is
    /// one of the config.
    pub(super) fn lowering_refusal(
        &self,
        rule: &PermissionRule,
        path: &RealPath,
        requested: Permission,
    ) -> AccessRefusal {
        let rule_action = match rule.name {
            DENIED_BY_CONFIG => RuleAction::Deny,
            ASKED_BY_CONFIG => RuleAction::Ask,
            _ => return AccessRefusal::new(rule.name, rule.because),
        };
        let reason = match matching_rule(self.path_rules(), rule_action, path, requested) {
            Some(config_rule) => format!("{}: `{config_rule}`", rule.because),
            None => rule.because.to_owned(),
        };
        AccessRefusal::new(rule.name, reason)
    }

    /// Returns the error that `path` is not resolved.
    pub(super) fn permit_error(
        &self,
        path: &UserPath,
        requested: Permission,
        error: PathError,
    ) -> PermitError {
        match error {
            PathError::Refused(refusal) => self.deny(path, requested, refusal).into(),
            PathError::Exhausted(error) => PermitError::Exhausted(error.to_string()),
        }
    }

    /// Returns the denial of an access to `path`, with the roots where such an access is allowed.
    pub(super) fn deny(
        &self,
        path: &UserPath,
        requested: Permission,
        refusal: AccessRefusal,
    ) -> Denial {
        let is_outside = refusal == AccessRefusal::outside();
        let refusal = match self.state.policy.parent_dirs {
            // In the words that agents of MassGen's folder guard know.
            ParentDirPolicy::Refused if is_outside => {
                let reason = "it is not within any of the allowed paths";
                AccessRefusal::new(refusal.rule, reason)
            }
            ParentDirPolicy::Refused | ParentDirPolicy::Followed => refusal,
        };
        let roots = self.roots().into_iter();
        Denial {
            subject: DeniedSubject::Access {
                path: path.as_str().to_owned(),
                requested,
                roots: roots
                    .filter(|root| root.permission >= requested)
                    .map(|root| root.path)
                    .collect(),
            },
            rule: refusal.rule,
            reason: refusal.reason,
        }
    }
}

/// States why approval is needed for a path.
pub(super) fn approval_reason(rule: &PathRule) -> String {
    format!("a rule of the config asks you first: `{rule}`")
}
