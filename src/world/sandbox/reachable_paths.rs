//! What commands in a container have access to: paths of this machine, each with its permission.

use std::collections::BTreeMap;

use crate::path::AbsPath;
use crate::sandbox_policy::compile::deepest_accessible;
use crate::sandbox_policy::{AccessiblePath, SandboxPolicy};
use crate::world::sandbox::overlay::WriteOverlay;

/// The directories of the machine that commands in a container have access to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReachablePaths {
    /// The accessible paths; nothing else of the user's is mounted. The deepest one that covers a
    /// path determines its permission.
    pub open: Vec<AccessiblePath>,
    /// Existing paths inside writable ones that stay read-only.
    pub masked: Vec<AbsPath>,
    /// Existing paths inside accessible ones that appear empty.
    pub hidden: Vec<AbsPath>,
    /// Copies that are mounted instead of trees, by the path of the tree.
    pub copies: BTreeMap<AbsPath, AbsPath>,
}

/// Gives the same access as the sandbox of level `namespaces` does to a process.
impl From<&SandboxPolicy> for ReachablePaths {
    fn from(policy: &SandboxPolicy) -> Self {
        Self {
            open: policy.open.clone(),
            masked: policy.masked.clone(),
            hidden: policy.hidden.clone(),
            copies: BTreeMap::new(),
        }
    }
}

impl ReachablePaths {
    /// Returns the paths that a process with this policy can reach in a container if it works on
    /// `overlay`.
    pub(in crate::world) fn on_overlay(
        policy: &SandboxPolicy,
        overlay: Option<&WriteOverlay>,
    ) -> Self {
        Self {
            copies: overlay.map(WriteOverlay::copies).unwrap_or_default(),
            ..Self::from(policy)
        }
    }

    /// Returns the deepest accessible path that covers `path`.
    pub(in crate::world::sandbox) fn accessible_path_for(
        &self,
        path: &AbsPath,
    ) -> Option<&AccessiblePath> {
        deepest_accessible(path, &self.open)
    }

    /// Returns what is mounted at `path`: the path itself, or the same name in the copy of its
    /// tree.
    pub(in crate::world::sandbox) fn source_for(&self, path: &AbsPath) -> AbsPath {
        let open_path = self.accessible_path_for(path);
        let copy =
            open_path.and_then(|open_path| Some((open_path, self.copies.get(&open_path.path)?)));
        let path_in_copy = copy
            .and_then(|(open_path, copy)| Some(copy.join(path.below(&open_path.path)?.as_path())));
        path_in_copy.unwrap_or_else(|| path.clone())
    }

    /// Returns whether `path` is hidden, directly or with its parent, and no deeper accessible path
    /// covers it.
    pub(in crate::world::sandbox) fn hides(&self, path: &AbsPath) -> bool {
        let open_path = self.accessible_path_for(path);
        self.hidden.iter().any(|hidden| {
            path.is_within(hidden)
                && open_path.is_none_or(|open_path| hidden.is_within(&open_path.path))
        })
    }
}
