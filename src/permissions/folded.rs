//! Owns the comparison of whole paths by folded names: some disks take `VENDOR` for `vendor`, so the
//! rules take both for one name on every disk. See `fold_name` in `protected` for what is folded.

use std::path::Path;

use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantScope};
use crate::permissions::protected::fold_name;

/// The folded names of a path, from the top down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FoldedPath(Vec<String>);

impl FoldedPath {
    /// Folds every name of `path`.
    pub(crate) fn of(path: &Path) -> Self {
        let names = path.iter();
        Self(names.map(|name| fold_name(name).into_owned()).collect())
    }

    /// Whether this is `root` or inside it.
    pub(crate) fn is_within(&self, root: &Self) -> bool {
        self.0.starts_with(&root.0)
    }
}

/// Where `path` lies below `root`, with its own spelling; `None` if it is not inside.
pub fn below_folded(path: &Path, root: &Path) -> Option<RelPath> {
    let mut names = path.iter();
    let mut above = root.iter();
    let leads_here = above.all(|wanted| {
        names
            .next()
            .is_some_and(|name| fold_name(name) == fold_name(wanted))
    });
    leads_here.then(|| RelPath::new(names.as_path())).flatten()
}

/// Whether `path` is one of `dirs` or inside one.
pub fn is_within_any(path: &AbsPath, dirs: &[RealPath]) -> bool {
    let mut dirs = dirs.iter();
    dirs.any(|dir| below_folded(path.as_path(), dir.as_path()).is_some())
}

/// A grant inside another one that the same path may belong to, spelled otherwise.
#[derive(Clone, Debug)]
pub(crate) struct NestedGrant {
    /// Its place among the manager's grants.
    pub(crate) index: usize,
    scope: GrantScope,
    /// The folded names that lead from the root of the outer grant to its root.
    below: Vec<String>,
}

impl NestedGrant {
    /// The grants inside `grants[outer]`, by folded names.
    pub(crate) fn all_inside(outer: usize, grants: &[Grant], roots: &[FoldedPath]) -> Vec<Self> {
        let (Some(grant), Some(root)) = (grants.get(outer), roots.get(outer)) else {
            return Vec::new();
        };
        let pairs = grants.iter().zip(roots).enumerate();
        let inside =
            pairs.filter(|(_, (other, folded))| other.root != grant.root && folded.is_within(root));
        let nested = inside.map(|(index, (other, folded))| Self {
            index,
            scope: other.scope,
            below: folded.0.iter().skip(root.0.len()).cloned().collect(),
        });
        nested.collect()
    }

    /// Whether it reaches `rel`, a path below the root of the outer grant.
    pub(crate) fn reaches(&self, rel: &RelPath) -> bool {
        let mut names = rel.names();
        let mut wanted = self.below.iter();
        wanted.all(|wanted| names.next().is_some_and(|name| fold_name(name) == *wanted))
            && (self.scope == GrantScope::Tree || names.next().is_none())
    }
}
