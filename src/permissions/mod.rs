//! Decides about every access to a path, by the grants of an agent; no other code does. Each
//! question has an answer, never an error. Nothing here does IO, reads a clock or is async. Also
//! here: domains that commands may reach, folder guards, and what an agent has read and written.

pub mod domains;
pub mod folded;
pub mod grant;
pub mod guard;
pub mod history;
pub mod path_rules;
pub mod protected;
pub mod rules;

use std::cmp::Reverse;
use std::sync::Arc;

use crate::path::{RealPath, RelPath};
use crate::permissions::folded::{FoldedPath, NestedGrant, below_folded};
use crate::permissions::grant::{
    Grant, GrantKind, GrantScope, Permission, Phase, inherit_exceptions,
};
use crate::permissions::path_rules::CallApproval;
use crate::permissions::rules::{PermissionCeiling, PermissionRule, RuleSubject};

/// The grants of one agent in one phase, most specific first.
#[derive(Clone, Debug)]
pub struct PathPermissionManager {
    grants: Vec<Grant>,
    /// The folded root of each grant.
    roots: Vec<FoldedPath>,
    /// For each grant, the grants inside it by folded names.
    nested_grants: Vec<Vec<NestedGrant>>,
    phase: Phase,
}

/// The grant that covers a path by exact names.
struct CoveringGrant<'a> {
    grant: &'a Grant,
    /// The grants inside it by folded names.
    nested_grants: &'a [NestedGrant],
    /// The path below the root of the grant.
    rel: RelPath,
}

/// The decision whether a path may be read or written, with its basis.
#[derive(Clone, Copy, Debug)]
pub enum PermissionDecision<'a> {
    /// The access is allowed by `grant`.
    Allow {
        /// The grant that applies to the path.
        grant: &'a Grant,
    },
    /// The access is denied.
    Deny(DenyReason<'a>),
}

/// The reason why an access is denied.
#[derive(Clone, Copy, Debug)]
pub enum DenyReason<'a> {
    /// No grant covers the path.
    OutsideGrants,
    /// `grant` covers it, and `rule` lowers it below the requested permission.
    Lowered {
        /// The grant that applies to the path.
        grant: &'a Grant,
        /// The first of the rules with the lowest ceiling.
        rule: &'static PermissionRule,
        /// What is still allowed: `Some(Read)`, or `None` for nothing.
        remaining: PermissionCeiling,
    },
}

impl<'a> PermissionDecision<'a> {
    /// Returns the grant that decides, if one covers the path.
    pub fn grant(self) -> Option<&'a Grant> {
        match self {
            Self::Allow { grant } | Self::Deny(DenyReason::Lowered { grant, .. }) => Some(grant),
            Self::Deny(DenyReason::OutsideGrants) => None,
        }
    }
}

impl PathPermissionManager {
    /// Sorts `grants` so that an exact file precedes a tree and a deeper root a shallower one. Of
    /// two grants with the same root and scope, the one with the kind closest to the agent comes
    /// first (workspace before context), then the one listed first. Trees inside a context path
    /// inherit its exceptions.
    pub fn new(mut grants: Vec<Grant>, phase: Phase) -> Self {
        inherit_exceptions(&mut grants);
        grants.sort_by_key(|grant| {
            let depth = grant.root.depth();
            (scope_rank(grant), Reverse(depth), kind_rank(grant))
        });
        let roots: Vec<FoldedPath> = grants
            .iter()
            .map(|grant| FoldedPath::from_path(grant.root.as_path()))
            .collect();
        let nested_grants = (0..grants.len())
            .map(|outer| NestedGrant::all_inside(outer, &grants, &roots))
            .collect();
        Self {
            grants,
            roots,
            nested_grants,
            phase,
        }
    }

    /// Returns the same grants in another phase.
    #[must_use]
    pub fn in_phase(&self, phase: Phase) -> Self {
        Self {
            phase,
            ..self.clone()
        }
    }

    /// Returns the permissions of a subagent that works in `workspace`: it reads what this agent
    /// reads, and writes only there. `None` unless `workspace` is part of a workspace without
    /// exceptions that this agent may write to.
    #[must_use]
    pub fn for_subagent(&self, workspace: &RealPath) -> Option<Self> {
        let outer = self.most_specific(workspace)?.grant;
        let is_own = outer.kind == GrantKind::Workspace
            && outer.scope == GrantScope::Tree
            && outer.protected.is_empty()
            && outer.hidden.is_empty();
        if !is_own || !self.allows(workspace, Permission::Write) {
            return None;
        }
        let workspace_grant = Grant {
            root: workspace.clone(),
            ..outer.clone()
        };
        let other_grants = self.grants.iter().filter(|grant| grant.root != *workspace);
        let mut grants: Vec<Grant> = other_grants
            .map(|grant| Grant {
                permission: Permission::Read,
                ..grant.clone()
            })
            .collect();
        grants.push(workspace_grant);
        Some(Self::new(grants, self.phase))
    }

    /// Returns the workspace that the agent may write to, if it has one.
    pub fn workspace(&self) -> Option<&RealPath> {
        let is_own = |grant: &&Grant| {
            grant.kind == GrantKind::Workspace
                && grant.scope == GrantScope::Tree
                && grant.permission == Permission::Write
        };
        self.grants.iter().find(is_own).map(|grant| &grant.root)
    }

    /// Decides about one resolved path without an approval.
    pub fn decide(&self, path: &RealPath, requested: Permission) -> PermissionDecision<'_> {
        self.decide_with_approval(path, requested, CallApproval::Missing)
    }

    /// Decides about one resolved path of a call that a person may have approved. If the path is
    /// also inside a nested grant when its names are folded, both grants must allow the access,
    /// because it is unknown here whether the disk treats both spellings as the same name.
    pub fn decide_with_approval(
        &self,
        path: &RealPath,
        requested: Permission,
        approval: CallApproval,
    ) -> PermissionDecision<'_> {
        let Some(covering) = self.most_specific(path) else {
            return PermissionDecision::Deny(DenyReason::OutsideGrants);
        };
        for inner in self.nested_grants_covering(&covering) {
            if let Some(rel) = below_folded(path.as_path(), inner.root.as_path())
                && let denied @ PermissionDecision::Deny(_) =
                    self.decide_by(inner, &rel, requested, approval)
            {
                return denied;
            }
        }
        self.decide_by(covering.grant, &covering.rel, requested, approval)
    }

    /// Decides about the path `rel` below the root of `grant`.
    fn decide_by<'a>(
        &self,
        grant: &'a Grant,
        rel: &RelPath,
        requested: Permission,
        approval: CallApproval,
    ) -> PermissionDecision<'a> {
        let subject = RuleSubject {
            grant,
            rel,
            phase: self.phase,
            approval,
        };
        match subject.lowest_ceiling() {
            Some((rule, remaining)) if remaining < Some(requested) => {
                PermissionDecision::Deny(DenyReason::Lowered {
                    grant,
                    rule,
                    remaining,
                })
            }
            _ => PermissionDecision::Allow { grant },
        }
    }

    /// Returns the nested grants that `path` belongs to only in another spelling: each of them has
    /// to allow an access too.
    pub fn grants_in_other_spelling(&self, path: &RealPath) -> Vec<&Grant> {
        let covering = self.most_specific(path);
        let nested_grants =
            covering.map(|covering| self.nested_grants_covering(&covering).collect());
        nested_grants.unwrap_or_default()
    }

    /// Returns the most specific grant that covers `path` by exact names.
    fn most_specific(&self, path: &RealPath) -> Option<CoveringGrant<'_>> {
        let mut grants = self.grants.iter().zip(&self.nested_grants);
        grants.find_map(|(grant, nested_grants)| {
            Some(CoveringGrant {
                grant,
                nested_grants,
                rel: grant.relative_path(path)?,
            })
        })
    }

    /// Returns the grants inside `covering` that cover its path by folded names.
    fn nested_grants_covering(&self, covering: &CoveringGrant<'_>) -> impl Iterator<Item = &Grant> {
        let nested_grants = covering.nested_grants.iter();
        nested_grants
            .filter(|nested| nested.covers(&covering.rel))
            .filter_map(|nested| self.grants.get(nested.index))
    }

    /// Returns whether the access is allowed.
    pub fn allows(&self, path: &RealPath, requested: Permission) -> bool {
        matches!(
            self.decide(path, requested),
            PermissionDecision::Allow { .. }
        )
    }

    /// Returns the grants, most specific first.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Returns the phase that the decisions are made for.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns whether a grant has its root at `path`, in any spelling.
    pub fn is_grant_root(&self, path: &RealPath) -> bool {
        self.roots.contains(&FoldedPath::from_path(path.as_path()))
    }

    /// Returns whether another grant has its root strictly inside `path`, in any spelling. Deleting
    /// or moving `path` would remove that grant's root.
    pub fn contains_grant_root(&self, path: &RealPath) -> bool {
        let folded_path = FoldedPath::from_path(path.as_path());
        let mut roots = self.roots.iter();
        roots.any(|root| root.is_within(&folded_path) && *root != folded_path)
    }

    /// Returns whether anything can be written in this phase.
    pub fn can_write(&self) -> bool {
        // A path that needs approval counts: it can be asked for.
        let is_writable = |grant: &Grant| {
            let decision =
                self.decide_with_approval(&grant.root, Permission::Write, CallApproval::Given);
            matches!(decision, PermissionDecision::Allow { .. })
        };
        self.grants.iter().any(is_writable)
    }
}

/// Returns the first context path among `grants` that contains `path`, in any spelling, and hides it
/// or protects it from being written, with the rule that does so. A path that is opened inside a
/// context path keeps what that one closes, unless the user says otherwise.
pub fn closing_grant<'g>(
    grants: &'g [Grant],
    path: &RealPath,
    requested: Permission,
) -> Option<(&'g Grant, &'static PermissionRule)> {
    let mut context_paths = grants
        .iter()
        .filter(|grant| grant.kind == GrantKind::Context);
    context_paths.find_map(|grant| {
        let rel = match grant.scope {
            GrantScope::Tree => below_folded(path.as_path(), grant.root.as_path()),
            GrantScope::File => grant.relative_path(path),
        };
        // Only what it closes matters, not how much it opens.
        let open_grant = Grant {
            permission: Permission::Write,
            path_rules: Arc::default(),
            ..grant.clone()
        };
        let subject = RuleSubject {
            grant: &open_grant,
            rel: &rel?,
            phase: Phase::Final,
            approval: CallApproval::Given,
        };
        let (rule, remaining) = subject.lowest_ceiling()?;
        (remaining < Some(requested)).then_some((grant, rule))
    })
}

/// Ranks a grant by its scope; the most specific comes first.
fn scope_rank(grant: &Grant) -> u8 {
    match grant.scope {
        GrantScope::File => 0,
        GrantScope::Tree => 1,
    }
}

/// Ranks a grant by its kind; the one closest to the agent comes first.
fn kind_rank(grant: &Grant) -> u8 {
    match grant.kind {
        GrantKind::Workspace => 0,
        GrantKind::TempWorkspace => 1,
        GrantKind::PreviousTurn => 2,
        GrantKind::Context => 3,
        GrantKind::BuiltIn => 4,
        GrantKind::Skill => 5,
    }
}

#[cfg(test)]
mod tests;
