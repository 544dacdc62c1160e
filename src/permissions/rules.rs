//! The rules that lower what a grant gives, as one table. The most specific grant applies first;
//! then every rule here is evaluated in order, and the lowest ceiling holds. No rule can raise it.

use crate::path::RelPath;
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission, Phase};
use crate::permissions::path_rules::{CallApproval, RuleAction, remaining_permission};
use crate::permissions::protected::{is_within_folded, protected_name};

/// The subject of a rule: one path, relative to the grant that covers it.
#[derive(Clone, Copy, Debug)]
pub struct RuleSubject<'a> {
    /// The grant that applies to the path.
    pub grant: &'a Grant,
    /// The path below the grant's root.
    pub rel: &'a RelPath,
    /// The phase of the agent.
    pub phase: Phase,
    /// Whether a person approved the call.
    pub approval: CallApproval,
}

impl RuleSubject<'_> {
    /// Returns the lowest ceiling of all rules, with the first rule that sets it.
    pub(crate) fn lowest_ceiling(&self) -> Option<(&'static PermissionRule, PermissionCeiling)> {
        let ceilings = RULES.iter().map(|rule| (rule, (rule.ceiling)(self)));
        // Of several minima, `min_by_key` returns the first.
        ceilings.min_by_key(|(_, ceiling)| *ceiling)
    }
}

/// The highest permission allowed; `None` is no access and ranks below `Some(Read)`.
pub type PermissionCeiling = Option<Permission>;

/// A case that documents a rule; a test runs all of them.
#[derive(Clone, Copy, Debug)]
pub struct RuleExample {
    /// The kind of the grant that covers the path.
    pub kind: GrantKind,
    /// The permission that the grant gives.
    pub granted: Permission,
    /// The phase of the agent.
    pub phase: Phase,
    /// The path below the grant's root.
    pub rel: &'static str,
    /// The access that the agent wants.
    pub requested: Permission,
}

/// One rule. It can only lower: the minimum of all rules' ceilings holds.
#[derive(Clone, Copy, Debug)]
pub struct PermissionRule {
    /// The name in `massgen explain` and the logs.
    pub name: &'static str,
    /// The reason for a denial, as the end of the sentence "… is denied: …".
    pub because: &'static str,
    /// Returns the highest permission that this rule allows for the subject.
    pub ceiling: fn(&RuleSubject<'_>) -> PermissionCeiling,
    /// Cases that this rule allows.
    pub allows: &'static [RuleExample],
    /// Cases that this rule denies and no earlier rule does.
    pub denies: &'static [RuleExample],
}

/// The ceiling of a rule that lowers nothing.
const WRITE: PermissionCeiling = Some(Permission::Write);
/// The ceiling of a rule that denies writing.
const READ: PermissionCeiling = Some(Permission::Read);

const fn example(
    kind: GrantKind,
    granted: Permission,
    phase: Phase,
    rel: &'static str,
    requested: Permission,
) -> RuleExample {
    RuleExample {
        kind,
        granted,
        phase,
        rel,
        requested,
    }
}

/// The rule by which `permissions:` in the config denies an access.
pub const DENIED_BY_CONFIG: &str = "permissions-deny";
/// The rule by which `permissions:` in the config asks for approval.
pub const ASKED_BY_CONFIG: &str = "permissions-ask";

/// All rules. The grants of the examples hide `secrets`, protect `LICENSE`, deny writing to
/// `*.lock` and reading `keys`, and ask about writing to `deploy`. The order decides which rule
/// explains a tie.
pub const RULES: &[PermissionRule] = &[
    PermissionRule {
        name: "hidden-path",
        because: "the path is hidden from agents",
        ceiling: |subject| {
            let hides = |path: &RelPath| is_within_folded(subject.rel, path);
            if subject.grant.hidden.iter().any(hides) {
                None
            } else {
                WRITE
            }
        },
        allows: &[
            example(
                GrantKind::Context,
                Permission::Read,
                Phase::Coordination,
                "src/a",
                Permission::Read,
            ),
            example(
                GrantKind::Context,
                Permission::Read,
                Phase::Coordination,
                "secrets2",
                Permission::Read,
            ),
        ],
        denies: &[
            example(
                GrantKind::Context,
                Permission::Read,
                Phase::Coordination,
                "secrets",
                Permission::Read,
            ),
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "secrets/key",
                Permission::Read,
            ),
            example(
                GrantKind::Context,
                Permission::Read,
                Phase::Coordination,
                "SECRETS./key",
                Permission::Read,
            ),
        ],
    },
    PermissionRule {
        name: "read-only-kind",
        because: "it holds copies of earlier work, which stay as they are",
        ceiling: |subject| match subject.grant.kind {
            GrantKind::TempWorkspace | GrantKind::PreviousTurn => READ,
            GrantKind::Workspace | GrantKind::Context | GrantKind::BuiltIn | GrantKind::Skill => {
                WRITE
            }
        },
        allows: &[
            example(
                GrantKind::TempWorkspace,
                Permission::Write,
                Phase::Final,
                "agent1.1/a",
                Permission::Read,
            ),
            example(
                GrantKind::Workspace,
                Permission::Write,
                Phase::Coordination,
                "a",
                Permission::Write,
            ),
        ],
        denies: &[
            example(
                GrantKind::TempWorkspace,
                Permission::Write,
                Phase::Final,
                "agent1.1/a",
                Permission::Write,
            ),
            example(
                GrantKind::PreviousTurn,
                Permission::Write,
                Phase::Final,
                "a",
                Permission::Write,
            ),
        ],
    },
    PermissionRule {
        name: "coordination-phase",
        because: "context paths are read-only until the final phase",
        ceiling: |subject| match (subject.grant.kind, subject.phase) {
            (GrantKind::Context, Phase::Coordination) => READ,
            _ => WRITE,
        },
        allows: &[
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "src/a",
                Permission::Write,
            ),
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Coordination,
                "src/a",
                Permission::Read,
            ),
            example(
                GrantKind::Workspace,
                Permission::Write,
                Phase::Coordination,
                ".git/a",
                Permission::Write,
            ),
        ],
        denies: &[example(
            GrantKind::Context,
            Permission::Write,
            Phase::Coordination,
            "src/a",
            Permission::Write,
        )],
    },
    PermissionRule {
        name: "granted-permission",
        because: "it was opened for reading only",
        ceiling: |subject| Some(subject.grant.permission),
        allows: &[
            example(
                GrantKind::Context,
                Permission::Read,
                Phase::Final,
                "src/a",
                Permission::Read,
            ),
            example(
                GrantKind::BuiltIn,
                Permission::Write,
                Phase::Coordination,
                "a",
                Permission::Write,
            ),
        ],
        denies: &[
            example(
                GrantKind::Context,
                Permission::Read,
                Phase::Final,
                "src/a",
                Permission::Write,
            ),
            example(
                GrantKind::BuiltIn,
                Permission::Read,
                Phase::Final,
                "a",
                Permission::Write,
            ),
        ],
    },
    PermissionRule {
        name: "protected-path",
        because: "the config or the run protects it",
        ceiling: |subject| {
            let protects = |path: &RelPath| is_within_folded(subject.rel, path);
            if subject.grant.protected.iter().any(protects) {
                READ
            } else {
                WRITE
            }
        },
        allows: &[
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "LICENSE.md",
                Permission::Write,
            ),
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "LICENSE",
                Permission::Read,
            ),
        ],
        denies: &[
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "LICENSE",
                Permission::Write,
            ),
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "License./a",
                Permission::Write,
            ),
        ],
    },
    PermissionRule {
        name: "protected-name",
        because: "the name is protected",
        ceiling: |subject| match subject.grant.kind {
            GrantKind::Context | GrantKind::BuiltIn => match protected_below(subject) {
                Some(_) => READ,
                None => WRITE,
            },
            GrantKind::Workspace
            | GrantKind::TempWorkspace
            | GrantKind::PreviousTurn
            | GrantKind::Skill => WRITE,
        },
        allows: &[
            example(
                GrantKind::Workspace,
                Permission::Write,
                Phase::Final,
                ".env",
                Permission::Write,
            ),
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                ".env",
                Permission::Read,
            ),
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                ".gitignore",
                Permission::Write,
            ),
        ],
        denies: &[
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                ".env",
                Permission::Write,
            ),
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "sub/.git/hooks/x",
                Permission::Write,
            ),
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "node_modules/p/i.js",
                Permission::Write,
            ),
        ],
    },
    PermissionRule {
        name: DENIED_BY_CONFIG,
        because: "`permissions` denies it",
        ceiling: |subject| ceiling_of_path_rules(subject, RuleAction::Deny),
        allows: &[
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "src/a.lock",
                Permission::Read,
            ),
            example(
                GrantKind::Workspace,
                Permission::Write,
                Phase::Final,
                "keyring",
                Permission::Write,
            ),
        ],
        denies: &[
            example(
                GrantKind::Context,
                Permission::Write,
                Phase::Final,
                "src/A.LOCK",
                Permission::Write,
            ),
            example(
                GrantKind::Workspace,
                Permission::Write,
                Phase::Coordination,
                "keys/one",
                Permission::Read,
            ),
        ],
    },
    PermissionRule {
        name: ASKED_BY_CONFIG,
        because: "`permissions` has a person asked first, about a call that names it",
        ceiling: |subject| match subject.approval {
            CallApproval::Missing => ceiling_of_path_rules(subject, RuleAction::Ask),
            CallApproval::Given => WRITE,
        },
        allows: &[example(
            GrantKind::Workspace,
            Permission::Write,
            Phase::Final,
            "deploy/plan",
            Permission::Read,
        )],
        denies: &[example(
            GrantKind::Workspace,
            Permission::Write,
            Phase::Final,
            "deploy/plan",
            Permission::Write,
        )],
    },
];

/// Returns what the `permissions:` rules with this action leave of a path.
fn ceiling_of_path_rules(subject: &RuleSubject<'_>, action: RuleAction) -> PermissionCeiling {
    let rules = &subject.grant.path_rules;
    if rules.is_empty() {
        return WRITE;
    }
    remaining_permission(rules, action, &subject.grant.root.join(subject.rel))
}

/// Returns the protected name on the path. A granted file is its own root, so its protected name is
/// the root's last component.
fn protected_below(subject: &RuleSubject<'_>) -> Option<&'static str> {
    let unprotected = &subject.grant.unprotected;
    match subject.grant.scope {
        GrantScope::Tree => protected_name(subject.rel, unprotected),
        GrantScope::File => {
            let name = subject.grant.root.name()?;
            protected_name(&RelPath::default().child(name)?, unprotected)
        }
    }
}
