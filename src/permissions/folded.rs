//! Compares whole paths by their folded names, and finds the grants inside another by them: some
//! file systems treat `VENDOR` and `vendor` as the same name, so the rules do so on every disk.
//! `fold_name` in `protected` defines the folding.

use std::path::Path;

use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantScope};
use crate::permissions::protected::{fold_name, take_folded};

/// The folded names of a path, from the root down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FoldedPath(Vec<String>);

impl FoldedPath {
    /// Folds every name of `path`.
    pub(crate) fn from_path(path: &Path) -> Self {
        let names = path.iter();
        Self(names.map(|name| fold_name(name).into_owned()).collect())
    }

    /// Returns whether this path is `root` or below it.
    pub(crate) fn is_within(&self, root: &Self) -> bool {
        self.0.starts_with(&root.0)
    }
}

/// Returns `path` relative to `root`, in its own spelling; `None` if it is not below `root`.
pub fn below_folded(path: &Path, root: &Path) -> Option<RelPath> {
    let mut names = path.iter();
    let is_below = take_folded(&mut names, root.iter());
    is_below.then(|| RelPath::new(names.as_path())).flatten()
}

/// Returns whether `path` is one of `dirs` or below one.
pub fn is_within_any(path: &AbsPath, dirs: &[RealPath]) -> bool {
    let mut dirs = dirs.iter();
    dirs.any(|dir| below_folded(path.as_path(), dir.as_path()).is_some())
}

/// A grant inside another grant, which a path may belong to under a different spelling.
#[derive(Clone, Debug)]
pub(crate) struct NestedGrant {
    /// Its index in the manager's grants.
    pub(crate) index: usize,
    scope: GrantScope,
    /// The folded names from the root of the outer grant to its own.
    names_below: Vec<String>,
}

impl NestedGrant {
    /// Returns the grants inside `grants[outer]`, compared by folded names.
    pub(crate) fn all_inside(outer: usize, grants: &[Grant], roots: &[FoldedPath]) -> Vec<Self> {
        let (Some(grant), Some(root)) = (grants.get(outer), roots.get(outer)) else {
            return Vec::new();
        };
        let other_grants = grants.iter().zip(roots).enumerate();
        other_grants
            .filter(|(_, (other, other_root))| {
                other.root != grant.root && other_root.is_within(root)
            })
            .map(|(index, (other, other_root))| Self {
                index,
                scope: other.scope,
                names_below: other_root.0.iter().skip(root.0.len()).cloned().collect(),
            })
            .collect()
    }

    /// Returns whether it covers `rel`, a path below the root of the outer grant.
    pub(crate) fn covers(&self, rel: &RelPath) -> bool {
        let mut names = rel.names();
        let mut own_names = self.names_below.iter();
        own_names.all(|own| names.next().is_some_and(|name| fold_name(name) == *own))
            && (self.scope == GrantScope::Tree || names.next().is_none())
    }
}
