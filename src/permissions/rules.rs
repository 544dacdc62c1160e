//! Owns the rules that lower what a grant gives, as one table. The most specific grant speaks
//! first; then every rule here is asked in order, and the lowest answer holds. No rule can raise.

use crate::path::RelPath;
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission, Phase};
use crate::permissions::path_rules::{CallApproval, RuleAction, remaining_permission};
use crate::permissions::protected::{is_within, protected_name};

/// What a rule looks at: one path, as the grant that reaches it sees it.
#[derive(Clone, Copy, Debug)]
pub struct RuleSubject<'a> {
    /// The grant that speaks for the path.
    pub grant: &'a Grant,
    /// The path below the grant's root.
    pub rel: &'a RelPath,
    /// The phase that the asking agent is in.
    pub phase: Phase,
    /// Whether a person has agreed to the call.
    pub approval: CallApproval,
}

/// The most that is allowed: `None` is nothing, and less than `Some(Read)`.
pub type PermissionCeiling = Option<Permission>;

/// A case that documents a rule; a test runs all of them.
#[derive(Clone, Copy, Debug)]
pub struct RuleExample {
    /// The kind of the grant that reaches the path.
    pub kind: GrantKind,
    /// What the grant gives.
    pub granted: Permission,
    /// The phase of the agent.
    pub phase: Phase,
    /// The path below the grant's root.
    pub rel: &'static str,
    /// What the agent wants to do.
    pub wanted: Permission,
}

/// One rule. It may only lower: its answer is taken together with all others by minimum.
#[derive(Clone, Copy, Debug)]
pub struct PermissionRule {
    /// The name that `massgen explain` and the logs use.
    pub name: &'static str,
    /// Why it denies, as the end of the sentence "… is denied: …".
    pub because: &'static str,
    /// The most that this rule allows for the subject.
    pub ceiling: fn(&RuleSubject<'_>) -> PermissionCeiling,
    /// Cases that this rule leaves open.
    pub allows: &'static [RuleExample],
    /// Cases that this rule, and no earlier one, closes.
    pub denies: &'static [RuleExample],
}

const WRITE: PermissionCeiling = Some(Permission::Write);
const READ: PermissionCeiling = Some(Permission::Read);

const fn example(
    kind: GrantKind,
    granted: Permission,
    phase: Phase,
    rel: &'static str,
    wanted: Permission,
) -> RuleExample {
    RuleExample {
        kind,
        granted,
        phase,
        rel,
        wanted,
    }
}

/// The rule by which `permissions:` of the config denies an access.
pub const DENIED_BY_CONFIG: &str = "permissions-deny";
/// The rule by which `permissions:` of the config has a person asked.
pub const ASKED_BY_CONFIG: &str = "permissions-ask";

/// All rules; the examples' grants hide `secrets` and protect `LICENSE`, deny writing to `*.lock` and
/// reading `keys`, and have a person asked about writing to `deploy`. They stand in the order in which
/// a tie is explained.
pub const RULES: &[PermissionRule] = &[
    PermissionRule {
        name: "hidden-path",
        because: "the path is hidden from agents",
        ceiling: |subject| {
            let hides = |path: &RelPath| is_within(subject.rel, path);
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
            GrantKind::Workspace | GrantKind::Context | GrantKind::BuiltIn => WRITE,
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
        because: "the config protects it",
        ceiling: |subject| {
            let protects = |path: &RelPath| is_within(subject.rel, path);
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
            GrantKind::Workspace | GrantKind::TempWorkspace | GrantKind::PreviousTurn => WRITE,
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

/// What the rules of `permissions:` with this ruling leave of a path.
fn ceiling_of_path_rules(subject: &RuleSubject<'_>, ruling: RuleAction) -> PermissionCeiling {
    let rules = &subject.grant.ruled;
    if rules.is_empty() {
        return WRITE;
    }
    remaining_permission(rules, ruling, &subject.grant.root.join(subject.rel))
}

/// A granted file lies at its own root, so its protected name is the root's last name.
fn protected_below(subject: &RuleSubject<'_>) -> Option<&'static str> {
    let open = &subject.grant.unprotected;
    match subject.grant.scope {
        GrantScope::Tree => protected_name(subject.rel, open),
        GrantScope::File => {
            let name = subject.grant.root.name()?;
            protected_name(&RelPath::default().child(name)?, open)
        }
    }
}
