//! Carries out `generate_media`: a [`MediaRunner`] has the vendor make the content, which becomes a
//! new file.

use std::fmt::Debug;

use futures_util::future::BoxFuture;

use crate::tools::call::ExistingTarget;
use crate::tools::media::MediaOrder;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::Observation;
use crate::world::exec::put::{FileSource, WriteOptions, put};
use crate::world::exec::runner_call::RunnerCall;
use crate::world::exec::tool_result::{ToolError, ToolResult, display_path};
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
}

/// Implements `generate_media`. An existing file is not replaced, and that is known before the
/// vendor is paid.
pub(super) fn generate_media(
    gate: &Gate,
    place: &ResolvedPath,
    order: MediaOrder,
    interrupt: Option<&CommandInterrupt>,
    runner: Option<&dyn MediaRunner>,
) -> ToolResult {
    let only_runs = "only agents of a run have media made";
    let call = RunnerCall::new(gate, interrupt, runner, only_runs)?;
    match place.dir().meta(&place.below()) {
        Err(FileSystemError::Missing) => {}
        Ok(_) => {
            let why = "it exists; use another name";
            return Err(ToolError::failed_at(gate, "write", place, why));
        }
        Err(fault) => return Err(ToolError::failed_at(gate, "write", place, fault)),
    }
    let bytes =
        call.block_on(|runner, call_id, cancelled| runner.generate(call_id, order, cancelled));
    let bytes = bytes.map_err(ToolError::failed)?;
    let manner = WriteOptions {
        intent: WriteIntent::Overwrite,
        existing: ExistingTarget::Keep,
    };
    let change = put(gate, place, &FileSource::Bytes(&bytes), manner)?;
    let path = display_path(gate, place.real());
    let size = bytes.len();
    Ok(Observation::done(format!("wrote {size} bytes to {path}\n")).with_changes(vec![change]))
}
