//! Handles on the trees of this machine that a container on another machine has copies of. Names
//! below them are opened without following symlinks.

use std::collections::BTreeMap;

use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::GrantScope;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;

/// Handles on the trees, opened when they are needed.
#[derive(Debug)]
pub(super) struct LocalTrees<'a> {
    reachable: &'a ReachablePaths,
    handles: BTreeMap<AbsPath, DirectoryHandle>,
}

impl<'a> LocalTrees<'a> {
    pub(super) fn new(reachable: &'a ReachablePaths) -> Self {
        Self {
            reachable,
            handles: BTreeMap::new(),
        }
    }

    /// Returns the handle of the tree that `path` belongs to, and the path below it. A file that is
    /// granted by itself is found in its directory.
    pub(super) fn locate(
        &mut self,
        path: &AbsPath,
    ) -> Result<(&DirectoryHandle, RelPath), FileSystemError> {
        let open_path = self
            .reachable
            .accessible_path_for(path)
            .ok_or(FileSystemError::Missing)?;
        let source = self.reachable.source_for(&open_path.path);
        let (root, rel) = match open_path.scope {
            GrantScope::Tree => (source, path.below(&open_path.path)),
            GrantScope::File => {
                let name = source.as_path().file_name();
                let rel = name.and_then(|name| RelPath::default().child(name));
                (source.parent().ok_or(FileSystemError::Missing)?, rel)
            }
        };
        let rel = rel.ok_or(FileSystemError::Missing)?;
        if !self.handles.contains_key(&root) {
            let handle = DirectoryHandle::open_own(&root)?;
            self.handles.insert(root.clone(), handle);
        }
        let handle = self.handles.get(&root).ok_or(FileSystemError::Missing)?;
        Ok((handle, rel))
    }
}
