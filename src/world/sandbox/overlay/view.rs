//! A view of an overlay: the user's trees with the changes that a delivery would make, and nothing
//! else of what is on the overlay.

use crate::delivery::plan::DeliveryPlan;
use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sandbox::overlay::capture::ContentTransfer;
use crate::world::sandbox::overlay::{OverlayOrigin, VIEW_PREFIX, WriteOverlay};
use crate::world::sys::state_files::clear;

/// A view of an overlay. Its directory is removed on drop.
#[derive(Debug)]
pub(in crate::world) struct OverlayView {
    /// `None` only while it is dropped.
    overlay: Option<WriteOverlay>,
    /// Its layers and copies.
    directory: AbsPath,
}

impl WriteOverlay {
    /// Creates a view of it: the user's trees with the changes that `plan` returns, each root of
    /// which is a tree of the overlay. `None` if no process can see it.
    ///
    /// # Errors
    /// The changes cannot be planned or shown.
    pub(in crate::world) fn view(
        &self,
        origin: OverlayOrigin<'_>,
        plan: impl FnOnce(&Self) -> Result<DeliveryPlan>,
    ) -> Result<Option<OverlayView>> {
        let next_view = &self.0.next_view;
        let mut next_view = next_view.lock();
        self.sync_layers()?;
        let plan = plan(self)?;
        let directory = self.0.directory.join(format!("{VIEW_PREFIX}{next_view}"));
        *next_view = next_view.wrapping_add(1);
        let mut view = OverlayView {
            overlay: None,
            directory,
        };
        // The view begins with copies of them.
        let changes = self.capture(&plan, &view.directory, ContentTransfer::Link)?;
        let overlay = self.open_again(origin, &view.directory, &changes)?;
        let is_visible = overlay.0.namespace.is_ok();
        view.overlay = Some(overlay);
        Ok(is_visible.then_some(view))
    }
}

impl OverlayView {
    /// Returns the overlay that shows it. Nothing may write to it.
    pub(in crate::world) fn overlay(&self) -> Option<&WriteOverlay> {
        self.overlay.as_ref()
    }
}

impl Drop for OverlayView {
    fn drop(&mut self) {
        // Its mounts end before what they show is removed.
        drop(self.overlay.take());
        if let Err(error) = clear::remove(&self.directory) {
            tracing::warn!("{error:#}");
        }
    }
}
