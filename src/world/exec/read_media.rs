//! Implements `read_media_file`: an image file, for models that accept images.

use std::io::Read as _;

use crate::tools::image::{ImageRejection, ModelImage};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::Observation;
use crate::world::exec::tool_result::{ToolError, ToolResult};
use crate::world::sys::file_system_error::FileSystemError;

/// Reads the image at `place`.
pub(super) fn read_media_file(gate: &Gate, place: &ResolvedPath) -> ToolResult {
    let fail = |reason: &dyn std::fmt::Display| ToolError::failed_at(gate, "read", place, reason);
    let (file, meta) = place
        .dir()
        .open_file(&place.below())
        .map_err(|fault| fail(&fault))?;
    let mut bytes = Vec::new();
    // One byte more than the limit shows that a file is too large.
    file.take(ModelImage::BYTES_MAX.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| fail(&FileSystemError::from(error)))?;
    let image =
        ModelImage::from_bytes(&bytes).map_err(|rejection: ImageRejection| fail(&rejection))?;
    gate.history()
        .record_read(place.real().clone(), meta.version);
    Ok(Observation {
        images: vec![image.clone()],
        ..Observation::done(image.to_string())
    })
}
