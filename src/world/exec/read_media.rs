//! Implements `read_media_file`: an image file, for models that accept images. Reads the other
//! files that are part of a model's first message.

use std::io::Read as _;

use crate::permissions::history::FileFingerprint;
use crate::tools::image::{ImageRejection, ModelImage};
use crate::tools::model_file::{ModelFile, ModelFileClass};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::Observation;
use crate::world::exec::tool_result::{ToolError, ToolResult};
use crate::world::sys::file_system_error::FileSystemError;

/// Reads the image at `path`.
pub(super) fn read_media_file(gate: &Gate, path: &ResolvedPath) -> ToolResult {
    let (bytes, version) = read_bytes(gate, path, ModelImage::BYTES_MAX)?;
    let image = ModelImage::from_bytes(&bytes)
        .map_err(|rejection: ImageRejection| ToolError::failed_at(gate, "read", path, rejection))?;
    gate.history().record_read(path.real().clone(), version);
    Ok(Observation {
        images: vec![image.clone()],
        ..Observation::done(image.to_string())
    })
}

/// Reads the document, recording or video at `path`, as `class` says.
pub(super) fn read_model_file(
    gate: &Gate,
    path: &ResolvedPath,
    class: ModelFileClass,
) -> Result<ModelFile, ToolError> {
    let bytes_max = u64::try_from(ModelFile::BYTES_MAX).unwrap_or(u64::MAX);
    let (bytes, version) = read_bytes(gate, path, bytes_max)?;
    let name = path.real().as_path().file_name().unwrap_or_default();
    let file = ModelFile::from_bytes(class, &name.to_string_lossy(), &bytes)
        .map_err(|rejection| ToolError::failed_at(gate, "read", path, rejection))?;
    gate.history().record_read(path.real().clone(), version);
    Ok(file)
}

/// Reads the file at `path`, and returns its version too. Of a larger one, it reads one byte more
/// than `bytes_max`, which shows that it is too large.
fn read_bytes(
    gate: &Gate,
    path: &ResolvedPath,
    bytes_max: u64,
) -> Result<(Vec<u8>, FileFingerprint), ToolError> {
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "read", path, error);
    let (file, meta) = path.dir().open_file(&path.below()).map_err(tool_error)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| tool_error(FileSystemError::from(error)))?;
    Ok((bytes, meta.version))
}
