//! Tools that read: the text of files, their metadata, and the directories that the agent was
//! granted.

use std::fmt::Write as _;
use std::io::Read as _;

use jiff::Timestamp;

use crate::permissions::grant::{GrantKind, GrantScope};
use crate::permissions::history::FileFingerprint;
use crate::prompts::untrusted_text::note;
use crate::tools::call::{LineRange, ReadForm};
use crate::tools::image::{ImageRejection, ModelImage};
use crate::tools::model_file::{ModelFile, ModelFileClass};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::access::merge_bases::FileAccessReason;
use crate::world::access::verdict::GrantedRoot;
use crate::world::exec::list::list_directory;
use crate::world::exec::text::{self, ReadText, TextReadError};
use crate::world::exec::tool_result::{
    OUTPUT_BYTES_MAX, Observation, ToolError, ToolResult, display_path,
};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;

/// The most bytes of a file that are shown with line numbers, which are longer than some lines.
const NUMBERED_BYTES_MAX: usize = OUTPUT_BYTES_MAX / 4;

/// Implements `read_text_file`.
pub(super) fn read_file(
    gate: &Gate,
    path: &ResolvedPath,
    lines: LineRange,
    form: ReadForm,
) -> ToolResult {
    let bytes_max = match form {
        ReadForm::Plain => OUTPUT_BYTES_MAX,
        ReadForm::Numbered => {
            let meta = path.meta();
            if meta.is_ok_and(|meta| meta.kind == FileKind::Directory) {
                return list_directory(gate, path);
            }
            NUMBERED_BYTES_MAX
        }
    };
    match read_text(gate, path, lines, bytes_max) {
        Ok(read) => Ok(Observation::done(match (form, lines) {
            (ReadForm::Plain, _) => read.text + &read.notes,
            (ReadForm::Numbered, LineRange::Range { first, .. }) => read.numbered(first),
            (ReadForm::Numbered, LineRange::All | LineRange::Head(_) | LineRange::Tail(_)) => {
                read.numbered(1)
            }
        })),
        Err(error) => Err(ToolError::failed_at(gate, "read", path, error)),
    }
}

/// Implements `read_multiple_files`: a file that cannot be read is replaced by the reason.
pub(super) fn read_multiple_files(gate: &Gate, paths: &[ResolvedPath]) -> Observation {
    let mut content = String::new();
    for path in paths {
        let shown_path = display_path(gate, path.real());
        let bytes_left = OUTPUT_BYTES_MAX.saturating_sub(content.len());
        let text = if bytes_left == 0 {
            note("cut: the answer is full; ask for this file alone")
        } else {
            read_text(gate, path, LineRange::All, bytes_left).map_or_else(
                |error| format!("error: {error}\n"),
                |read| read.text + &read.notes,
            )
        };
        let line_end = if text.ends_with('\n') { "" } else { "\n" };
        let heading = note(format_args!("file {shown_path}"));
        let _written = write!(content, "{heading}\n{text}{line_end}");
    }
    Observation::done(content)
}

fn read_text(
    gate: &Gate,
    path: &ResolvedPath,
    lines: LineRange,
    bytes_max: usize,
) -> Result<ReadText, TextReadError> {
    let (file, meta) = path.open_file()?;
    let name = path.real().as_path();
    let read = text::read_lines(file, name, lines, meta.version.size_bytes, bytes_max)?;
    // What is written after it was read would be in another encoding.
    if read.is_utf8 {
        gate.history()
            .record_read(path.real().clone(), meta.version);
    }
    gate.record_base(path, &meta.version, FileAccessReason::Read);
    Ok(read)
}

/// Implements `get_file_info`.
pub(super) fn get_file_info(gate: &Gate, path: &ResolvedPath) -> ToolResult {
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "look at", path, error);
    let meta = path.meta().map_err(tool_error)?;
    let kind = meta.kind.label();
    Ok(Observation::done(format!(
        "path: {}\ntype: {kind}\nsize: {}\nmodified: {}\npermissions: {:03o}\nnames: {}\n",
        display_path(gate, path.real()),
        meta.version.size_bytes,
        Timestamp::from_nanosecond(meta.version.modified_ns).unwrap_or_default(),
        meta.mode.as_raw_mode() & 0o7777,
        meta.link_count,
    )))
}

/// Implements `list_allowed_directories`.
pub(super) fn list_allowed_directories(gate: &Gate) -> Observation {
    let base = gate.base();
    let roots = gate.roots();
    let lines = roots.iter().map(|root| {
        let description = match (root.kind, root.scope) {
            (GrantKind::Workspace, _) if root.path == *base => {
                "your workspace; relative paths begin here"
            }
            (GrantKind::Workspace, _) => "in your workspace",
            (GrantKind::TempWorkspace, _) => "snapshots of all agents' work",
            (GrantKind::PreviousTurn, _) => "what an earlier turn left",
            (GrantKind::Context, GrantScope::Tree) => "the user's directory",
            (GrantKind::Context, GrantScope::File) => "the user's file",
            (GrantKind::BuiltIn, _) => "open to you",
            (GrantKind::Skill, _) => "a skill",
        };
        format!(
            "{:5} {} ({description})\n",
            root.permission.to_string(),
            root.path
        )
    });
    let mut text: String = lines.collect();
    if text.is_empty() {
        return Observation::done("you were given no directories\n".to_owned());
    }
    let is_base_workspace =
        |root: &GrantedRoot| root.kind == GrantKind::Workspace && root.path == *base;
    if !roots.iter().any(is_base_workspace) {
        let _ = writeln!(text, "relative paths begin in {base}");
    }
    if gate.commands().is_some()
        && let Some(start_dir) = gate.command_start_dir()
    {
        let _ = writeln!(text, "commands begin in {}", start_dir.as_str());
    }
    Observation::done(text)
}

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
    let (file, meta) = path.open_file().map_err(tool_error)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| tool_error(FileSystemError::from(error)))?;
    Ok((bytes, meta.version))
}
