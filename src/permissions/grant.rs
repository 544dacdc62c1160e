//! The grant, the only unit of access. Workspaces, context paths, mentions and folder guards all
//! become grants; nothing else opens a path to an agent. Also how grants are merged, and how one
//! inside another inherits its exceptions.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::path::{RealPath, RelPath};
use crate::permissions::folded::below_folded;
use crate::permissions::path_rules::PathRule;

/// What may be done to a path. `Write` includes `Read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Read, list and search.
    Read,
    /// Also create, change, move and delete.
    Write,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Permission::Read => "read",
            Permission::Write => "write",
        })
    }
}

/// The phase of a turn that an agent is in. A gate is created for one phase and never changes it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Agents work independently, answer and vote; every context path is read-only.
    Coordination,
    /// The same on an attempt: a private layer over each write path, to which the agent may write
    /// what the config allows.
    Attempt,
    /// The winner delivers, with the permissions that the config gives.
    Final,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Coordination => "coordination",
            Phase::Attempt => "attempt",
            Phase::Final => "final",
        })
    }
}

/// The purpose of a grant; the rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrantKind {
    /// The agent's own workspace. Protected names do not apply in it.
    Workspace,
    /// Read-only snapshots of all agents' work.
    TempWorkspace,
    /// The workspace of an earlier turn; read-only.
    PreviousTurn,
    /// A path of the user, from the config, the command line or a mention.
    Context,
    /// A directory that massgen opens on its own, such as `Downloads/` of the folder guard.
    BuiltIn,
    /// The directory of a skill; read-only.
    Skill,
}

impl fmt::Display for GrantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GrantKind::Workspace => "workspace",
            GrantKind::TempWorkspace => "temp_workspace",
            GrantKind::PreviousTurn => "previous_turn",
            GrantKind::Context => "context",
            GrantKind::BuiltIn => "built_in",
            GrantKind::Skill => "skill",
        })
    }
}

/// The extent of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrantScope {
    /// The directory and everything below it.
    Tree,
    /// That one file; its siblings and its directory stay closed.
    File,
}

/// One opened path: its root, the permission, and what stays closed inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The opened directory, or file for [`GrantScope::File`].
    pub root: RealPath,
    /// Whether the root is a tree or one file.
    pub scope: GrantScope,
    /// The purpose of the grant.
    pub kind: GrantKind,
    /// The highest permission that it gives, in the final phase.
    pub permission: Permission,
    /// Paths below the root that stay read-only (`protected_paths` in YAML).
    pub protected: Vec<RelPath>,
    /// Paths below the root that cannot even be read (`hidden_paths` in YAML, and massgen's own
    /// state inside a context path).
    pub hidden: Vec<RelPath>,
    /// Names that this context path removes from the protected ones (`unprotected` in YAML).
    pub unprotected: Vec<String>,
    /// The path rules of `permissions` in the config, shared by all grants of an agent.
    pub path_rules: Arc<[PathRule]>,
}

impl Grant {
    /// Creates a grant of a whole tree, without exceptions.
    pub fn tree(root: RealPath, kind: GrantKind, permission: Permission) -> Self {
        Self {
            root,
            scope: GrantScope::Tree,
            kind,
            permission,
            protected: Vec::new(),
            hidden: Vec::new(),
            unprotected: Vec::new(),
            path_rules: Arc::default(),
        }
    }

    /// Creates a grant of one of the user's files.
    pub fn file(root: RealPath, permission: Permission) -> Self {
        Self {
            scope: GrantScope::File,
            ..Self::tree(root, GrantKind::Context, permission)
        }
    }

    /// Returns `path` relative to the root, if the grant covers it. The path of a granted file is
    /// the root itself.
    pub fn relative_path(&self, path: &RealPath) -> Option<RelPath> {
        match self.scope {
            GrantScope::Tree => path.below(&self.root),
            GrantScope::File => (path == &self.root).then(RelPath::default),
        }
    }
}

/// Adds `new` to `grants`. A grant with the same root, scope and kind is raised to the higher
/// permission and never lowered; the exceptions of both apply.
pub fn merge(grants: &mut Vec<Grant>, new: Grant) {
    let is_same =
        |old: &&mut Grant| old.root == new.root && old.scope == new.scope && old.kind == new.kind;
    match grants.iter_mut().find(is_same) {
        Some(old) => {
            old.permission = old.permission.max(new.permission);
            add_missing(&mut old.hidden, new.hidden);
            add_missing(&mut old.protected, new.protected);
        }
        None => grants.push(new),
    }
}

/// Protects and hides these places in the user's paths around them. What a grant opens as its root
/// stays open.
pub fn close_places(grants: &mut [Grant], protected: &[RealPath], hidden: &[RealPath]) {
    let is_context = |grant: &&mut Grant| grant.kind == GrantKind::Context;
    for grant in grants.iter_mut().filter(is_context) {
        let inside = |places: &[RealPath]| {
            let paths = places.iter().filter_map(|place| grant.relative_path(place));
            paths.filter(|rel| !rel.is_root()).collect()
        };
        let (protected, hidden) = (inside(protected), inside(hidden));
        add_missing(&mut grant.protected, protected);
        add_missing(&mut grant.hidden, hidden);
    }
}

fn add_missing(paths: &mut Vec<RelPath>, more_paths: Vec<RelPath>) {
    for path in more_paths {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
}

/// Makes every context tree inherit the exceptions that an enclosing context tree has for paths
/// inside it: a mention of `src/` opens nothing that the config closes below `src/`.
pub fn inherit_exceptions(grants: &mut [Grant]) {
    let is_context =
        |grant: &Grant| grant.kind == GrantKind::Context && grant.scope == GrantScope::Tree;
    let contexts: Vec<Grant> = grants
        .iter()
        .filter(|grant| is_context(grant))
        .cloned()
        .collect();
    for inner in grants.iter_mut().filter(|grant| is_context(grant)) {
        for outer in contexts.iter().filter(|outer| outer.root != inner.root) {
            let below_inner = |rel: &RelPath| {
                let path = outer.root.join(rel);
                below_folded(path.as_path(), inner.root.as_path()).filter(|rel| !rel.is_root())
            };
            let hidden = outer.hidden.iter().filter_map(below_inner);
            inner.hidden.extend(hidden);
            let protected = outer.protected.iter().filter_map(below_inner);
            inner.protected.extend(protected);
        }
    }
}
