//! Finds the symlinks of a planned delivery that lead out of their tree, or to a name in it that
//! agents may not change. Each is followed both as the tree is now and as the delivery would leave
//! it, so that no other link of the same delivery can bend its way.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path};

use crate::delivery::path_state::PathState;
use crate::path::{RealPath, RelPath};
use crate::world::delivery::read_state::read_state;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;

/// The most symlinks that are followed on the way of one, as in the kernel.
const LINKS_MAX: usize = 40;

/// A tree with the changes that are planned in it.
pub(super) struct PlannedTree<'a> {
    /// The user's tree.
    pub(super) tree: &'a DirectoryHandle,
    pub(super) path: &'a RealPath,
    /// The planned state of each path that changes.
    pub(super) changes: BTreeMap<RelPath, PathState>,
    /// Returns whether agents may not change a path of the tree.
    pub(super) is_closed: &'a dyn Fn(&RelPath) -> bool,
}

impl PlannedTree<'_> {
    /// Returns whether a symlink at `rel` to `target` leads out. What cannot be followed does.
    pub(super) fn leads_out(&self, rel: &RelPath, target: &Path) -> bool {
        let follow = |changes: &BTreeMap<RelPath, PathState>| {
            let end = self.follow(rel, target, changes);
            end.is_none_or(|end| (self.is_closed)(&end))
        };
        follow(&self.changes) || follow(&BTreeMap::new())
    }

    /// Returns the path in the tree to which a symlink leads; `None` if it leads out.
    fn follow(
        &self,
        rel: &RelPath,
        target: &Path,
        changes: &BTreeMap<RelPath, PathState>,
    ) -> Option<RelPath> {
        let mut at = rel.parent().unwrap_or_default();
        // What is left of the way, from its end.
        let mut way = Vec::new();
        self.push_target(target, &mut at, &mut way)?;
        let mut links_left = LINKS_MAX;
        while let Some(name) = way.pop() {
            if name == ".." {
                at = at.parent()?;
                continue;
            }
            let next = at.child(&name)?;
            match self.state(&next, changes) {
                Ok(PathState::Link { target }) => {
                    let Some(left) = links_left.checked_sub(1) else {
                        // The kernel does not follow it either: a loop leads nowhere.
                        return Some(at);
                    };
                    links_left = left;
                    self.push_target(&target, &mut at, &mut way)?;
                }
                Ok(PathState::Nothing | PathState::File(_) | PathState::Directory { .. }) => {
                    at = next;
                }
                Err(_) => return None,
            }
        }
        Some(at)
    }

    /// Puts the components of `target` on the way. An absolute one has to lie in the tree, and
    /// starts at its root. One that leads up from a name leads out: a later delivery could replace
    /// the name with a symlink, and so change where `..` leads.
    fn push_target(&self, target: &Path, at: &mut RelPath, way: &mut Vec<OsString>) -> Option<()> {
        let mut rest = target;
        if target.is_absolute() {
            rest = target.strip_prefix(self.path.as_path()).ok()?;
            *at = RelPath::default();
        }
        let is_name = |component: &Component<'_>| matches!(component, Component::Normal(_));
        let mut from_first_name = rest
            .components()
            .skip_while(|component| !is_name(component));
        if from_first_name.any(|component| component == Component::ParentDir) {
            return None;
        }
        for component in rest.components().rev() {
            match component {
                Component::Normal(name) => way.push(name.to_owned()),
                Component::ParentDir => way.push("..".into()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        Some(())
    }

    /// Returns the state of `rel` after `changes`.
    fn state(
        &self,
        rel: &RelPath,
        changes: &BTreeMap<RelPath, PathState>,
    ) -> Result<PathState, FileSystemError> {
        if let Some(state) = changes.get(rel) {
            return Ok(state.clone());
        }
        let parent_and_name = self.tree.parent_of(rel);
        match parent_and_name.and_then(|(parent, name)| read_state(&parent, name)) {
            Ok((state, _)) => Ok(state),
            // What another entry replaces has nothing below it, and a device is not a symlink.
            Err(FileSystemError::NotRegular(_)) => Ok(PathState::Nothing),
            Err(error) if error.is_absence() => Ok(PathState::Nothing),
            Err(error) => Err(error),
        }
    }
}
