//! Implements `read_media_file`: an image file, for models that accept images. Reads the other files
//! that are part of a model's first message.

use std::io::Read as _;

use crate::permissions::history::FileFingerprint;
use crate::tools::image::{ImageRejection, ModelImage};
use crate::tools::model_file::{ModelFile, ModelFileClass};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::Observation;
use crate::world::exec::tool_result::{ToolError, ToolResult};
use crate::world::sys::file_system_error::FileSystemError;

/// Reads the image at `place`.
pub(super) fn read_media_file(gate: &Gate, place: &ResolvedPath) -> ToolResult {
    let (bytes, version) = read_bytes(gate, place, ModelImage::BYTES_MAX)?;
    let image = ModelImage::from_bytes(&bytes).map_err(|rejection: ImageRejection| {
        ToolError::failed_at(gate, "read", place, rejection)
    })?;
    gate.history().record_read(place.real().clone(), version);
    Ok(Observation {
        images: vec![image.clone()],
        ..Observation::done(image.to_string())
    })
}

/// Reads the document, recording or video at `place`, as `class` says.
pub(super) fn read_model_file(
    gate: &Gate,
    place: &ResolvedPath,
    class: ModelFileClass,
) -> Result<ModelFile, ToolError> {
    let bytes_max = u64::try_from(ModelFile::BYTES_MAX).unwrap_or(u64::MAX);
    let (bytes, version) = read_bytes(gate, place, bytes_max)?;
    let name = place.real().as_path().file_name().unwrap_or_default();
    let file = ModelFile::from_bytes(class, &name.to_string_lossy(), &bytes)
        .map_err(|rejection| ToolError::failed_at(gate, "read", place, rejection))?;
    gate.history().record_read(place.real().clone(), version);
    Ok(file)
}

/// Reads the file at `place`, and returns its version too. Of a larger one, it reads one byte more
/// than `bytes_max`, which shows that it is too large.
fn read_bytes(
    gate: &Gate,
    place: &ResolvedPath,
    bytes_max: u64,
) -> Result<(Vec<u8>, FileFingerprint), ToolError> {
    let fail = |fault: FileSystemError| ToolError::failed_at(gate, "read", place, fault);
    let (file, meta) = place.dir().open_file(&place.below()).map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| fail(FileSystemError::from(error)))?;
    Ok((bytes, meta.version))
}
