//! What the setup command of a run has left: layers that lie read-only below the changes on every
//! overlay, over the user's trees and over the home directory of commands.

use crate::answer_changes::ChangeLayers;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::sandbox::overlay::tree::create_layer;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::launch::overlay_request::{OverlayRoot, OverlaySource};
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};

/// The directory of the layer over a home directory.
const HOME_LAYER: &str = "home";

/// What an overlay has to do with a setup command.
#[derive(Clone, Copy, Debug)]
pub enum SetupUse<'a> {
    /// There is none.
    None,
    /// It runs on the overlay, for the first time.
    Runs,
    /// It has left no layer, so that it runs on the overlay, which has to be a copy.
    RunsInCopy,
    /// It has left these layers, which lie below the overlay; with the home directory of the commands
    /// that see the overlay, if there are any.
    Below(&'a SetupLayers, Option<&'a AbsPath>),
}

impl SetupUse<'_> {
    /// Returns the layer that lies on the tree `root`, if there is one.
    pub(super) fn layer_over(self, root: &AbsPath) -> Option<AbsPath> {
        match self {
            SetupUse::None | SetupUse::Runs | SetupUse::RunsInCopy => None,
            SetupUse::Below(layers, _) => layers.trees.over(root).cloned(),
        }
    }

    /// Returns why all trees are copied, if it requires that.
    pub(super) fn obstacle(self) -> Option<String> {
        match self {
            SetupUse::None | SetupUse::Runs | SetupUse::Below(..) => None,
            SetupUse::RunsInCopy => Some("the setup command could not leave a layer".to_owned()),
        }
    }

    /// Returns what is mounted over the home directory of commands, with a layer in `directory`.
    pub(super) fn home_root(self, directory: &AbsPath) -> Result<Option<OverlayRoot>> {
        let SetupUse::Below(layers, Some(home)) = self else {
            return Ok(None);
        };
        let directory = directory.join(HOME_LAYER);
        dir::create_all(&directory, DirectoryAudience::User)?;
        let directory = dir::resolve(&directory)?.to_abs();
        let layer = create_layer(home.clone(), &directory, Some(layers.home.clone()))?;
        let metadata = DirectoryHandle::open_own(home).and_then(FileMetadata::from_handle);
        let metadata = metadata.map_err(|error| {
            let message = format!("cannot prepare the home directory `{home}`: {error}");
            Error::new(ErrorKind::Environment, message)
        })?;
        Ok(Some(OverlayRoot {
            identity: metadata.identity(),
            source: OverlaySource::Layered(layer),
        }))
    }
}

/// What a setup command has left.
#[derive(Clone, Debug)]
pub struct SetupLayers {
    /// The layers over the user's trees.
    pub trees: ChangeLayers,
    /// Its home directory.
    pub home: AbsPath,
}
