//! The paths of the user that a config opens to agents.

use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;

/// A path of the user that agents are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPath {
    /// The path.
    pub path: AbsPath,
    /// The permission of the final agent; every agent may read during coordination.
    pub permission: Permission,
    /// Paths inside that stay read-only.
    pub protected: Vec<RelPath>,
    /// Paths inside that cannot be read either.
    pub hidden: Vec<RelPath>,
    /// Names that are removed from the protected ones here.
    pub unprotected: Vec<String>,
}

impl ContextPath {
    /// Creates a read-only context path.
    pub fn read_only(path: AbsPath) -> Self {
        Self {
            path,
            permission: Permission::Read,
            protected: Vec::new(),
            hidden: Vec::new(),
            unprotected: Vec::new(),
        }
    }
}
