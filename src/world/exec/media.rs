//! Carries out `generate_media`: a [`MediaRunner`] has the vendor make the content, which becomes a
//! new file.

use std::fmt::Debug;
use std::io::Read as _;

use futures_util::future::BoxFuture;

use crate::tools::call::ExistingTarget;
use crate::tools::media::MediaOrder;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::put::{FileSource, WriteOptions, put};
use crate::world::exec::runner_call::RunnerCall;
use crate::world::exec::tool_result::{Observation, ToolError, ToolResult, display_path};
use crate::world::exec::write_block::WriteIntent;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sys::file_system_error::FileSystemError;

/// Has the vendor of an agent make media.
pub trait MediaRunner: Debug + Send + Sync {
    /// Returns the bytes of what was made. The request ends soon after `cancelled` completes.
    ///
    /// # Errors
    /// Nothing was made; the string says why.
    fn generate<'a>(
        &'a self,
        call_id: &'a str,
        order: MediaOrder,
        cancelled: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>>;

    /// Returns what was made for this call before the run was interrupted, if it is kept. It counts
    /// as a request.
    fn take_paid(&self, call_id: &str, order: &MediaOrder) -> Result<Option<Vec<u8>>, String>;
}

/// Implements `generate_media`. An existing file is not replaced, and that is known before the
/// vendor is paid. What was paid for before the run was interrupted is not made again.
pub(super) fn generate_media(
    gate: &Gate,
    path: &ResolvedPath,
    order: MediaOrder,
    interrupt: Option<&CommandInterrupt>,
    runner: Option<&dyn MediaRunner>,
) -> ToolResult {
    let unavailable = "only agents of a run have media made";
    let call = RunnerCall::new(gate, interrupt, runner, unavailable)?;
    let paid_media = call.runner.take_paid(call.call_id, &order);
    let paid_media = paid_media.map_err(ToolError::failed)?;
    let is_written = || {
        let paid_media = paid_media.as_deref();
        paid_media.is_some_and(|bytes| has_content(gate, path, bytes))
    };
    match path.meta() {
        Err(FileSystemError::Missing) => {}
        Ok(_) if is_written() => {
            let size = paid_media.as_ref().map_or(0, Vec::len);
            return Ok(Observation::done(report(gate, path, size)));
        }
        Ok(_) => {
            let reason = "it exists; use another name";
            return Err(ToolError::failed_at(gate, "write", path, reason));
        }
        Err(error) => return Err(ToolError::failed_at(gate, "write", path, error)),
    }
    let bytes = if let Some(bytes) = paid_media {
        bytes
    } else {
        let outcome =
            call.block_on(|runner, call_id, cancelled| runner.generate(call_id, order, cancelled));
        outcome.map_err(ToolError::failed)?
    };
    let options = WriteOptions {
        intent: WriteIntent::Overwrite,
        existing: ExistingTarget::Keep,
    };
    let change = put(gate, path, &FileSource::Bytes(&bytes), options)?;
    let text = report(gate, path, bytes.len());
    Ok(Observation::done(text).with_changes(vec![change]))
}

fn report(gate: &Gate, path: &ResolvedPath, size: usize) -> String {
    let shown_path = display_path(gate, path.real());
    format!("wrote {size} bytes to {shown_path}\n")
}

/// Returns whether `path` is a file with exactly this content. If so, it counts as read.
fn has_content(gate: &Gate, path: &ResolvedPath, content: &[u8]) -> bool {
    let Ok((file, meta)) = path.open_file() else {
        return false;
    };
    let bytes_max = u64::try_from(content.len()).unwrap_or(u64::MAX);
    let mut content_read = Vec::new();
    let read_result = file
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut content_read);
    let is_same = read_result.is_ok() && content_read == content;
    if is_same {
        let (known_path, version) = (path.real().clone(), meta.version);
        gate.history().record_read(known_path, version);
    }
    is_same
}
