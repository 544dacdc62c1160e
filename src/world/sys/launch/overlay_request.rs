//! The request for an overlay namespace: which directories are seen with changes that are stored
//! elsewhere, and which ones inside them stay unchanged.

use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::sandbox_policy::{FileIdentity, OverlayLayer};

/// The most directories that one namespace overlays; the handles on them are passed in one message.
pub(crate) const ROOTS_MAX: usize = 64;
/// The longest request, in bytes. It is sent in one message, and no socket accepts a longer one.
pub(crate) const REQUEST_BYTES_MAX: usize = 128 * 1024;

/// What an overlay namespace consists of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OverlayRequest {
    /// The directories that are overlaid.
    pub(crate) roots: Vec<OverlayRoot>,
    /// Directories that stay as they are, even inside overlaid ones.
    pub(crate) excluded: Vec<AbsPath>,
}

/// A directory that is overlaid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OverlayRoot {
    /// The directory at its path on the machine. If another one exists there now, the namespace is
    /// refused.
    pub(crate) identity: FileIdentity,
    /// What is seen there instead.
    pub(crate) source: OverlaySource,
}

/// What replaces a directory.
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
    /// Returns the directory that it replaces.
    pub(crate) fn root(&self) -> &AbsPath {
        match self {
            OverlaySource::Layered(layer) => &layer.root,
            OverlaySource::Copied { root, .. } => root,
        }
    }
}
