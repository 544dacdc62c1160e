//! Owns the order that makes a staged world: which directories are seen with changes that lie
//! elsewhere, and what stays as it is inside them.

use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::sandbox_policy::{FileIdentity, OverlayLayer};

/// The most directories that one world stages; the handles on them travel in one message.
pub(crate) const ROOTS_MAX: usize = 64;
/// The longest order, in bytes. It travels in one message, and no socket takes a longer one.
pub(crate) const ORDER_BYTES_MAX: usize = 128 * 1024;

/// What a staged world is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OverlayRequest {
    /// The directories that are staged.
    pub(crate) roots: Vec<OverlayRoot>,
    /// Directories that stay as they are, inside staged ones too.
    pub(crate) kept: Vec<AbsPath>,
}

/// A directory that is staged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OverlayRoot {
    /// What stands at its path on the machine. Where something else stands now, there is no world.
    pub(crate) identity: FileIdentity,
    /// What is seen there instead.
    pub(crate) scene: OverlaySource,
}

/// What is seen in the place of a directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum OverlaySource {
    /// The directory, with the changes of a layer.
    Layered(OverlayLayer),
    /// A copy.
    Copied {
        /// The directory.
        root: AbsPath,
        /// Its copy.
        copy: AbsPath,
    },
}

impl OverlaySource {
    /// The directory in whose place it is seen.
    pub(crate) fn root(&self) -> &AbsPath {
        match self {
            OverlaySource::Layered(layer) => &layer.root,
            OverlaySource::Copied { root, .. } => root,
        }
    }
}
