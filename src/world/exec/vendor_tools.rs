//! Carries out calls of the vendor's own tools: the request to the model is the work of a
//! [`VendorToolRunner`], and its reply is a stranger's words.

use std::fmt::Debug;

use futures_util::future::BoxFuture;

use crate::prompts::outside_text::describe_vendor_result;
use crate::tools::vendor_tool::VendorTool;
use crate::world::access::gate::Gate;
use crate::world::exec::runner_call::RunnerCall;
use crate::world::exec::tool_result::{Observation, ToolError, ToolResult};
use crate::world::sandbox::interrupt::CommandInterrupt;

/// The most text of a result that a model reads, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Asks the model of an agent to use a tool of its vendor.
pub trait VendorToolRunner: Debug + Send + Sync {
    /// Returns the text of the reply to `request`. The request ends soon after `cancelled`
    /// completes.
    ///
    /// # Errors
    /// There is no reply; the string says why.
    fn ask<'a>(
        &'a self,
        call_id: &'a str,
        request: VendorToolRequest,
        cancelled: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<String, String>>;
}

/// What a tool of a vendor is asked for.
#[derive(Clone, Debug)]
pub struct VendorToolRequest {
    /// The tool.
    pub tool: VendorTool,
    /// The query or task.
    pub request: String,
}

/// Implements `web_search` and `vendor_code_execution`.
pub(super) fn ask_vendor(
    gate: &Gate,
    request: VendorToolRequest,
    interrupt: Option<&CommandInterrupt>,
    runner: Option<&dyn VendorToolRunner>,
) -> ToolResult {
    let unavailable = "only agents of a run use tools of their vendor";
    let call = RunnerCall::new(gate, interrupt, runner, unavailable)?;
    let result =
        call.block_on(|runner, call_id, cancelled| runner.ask(call_id, request, cancelled));
    let text = result.map_err(ToolError::failed)?;
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    let shown_text = text.get(..end).unwrap_or_default();
    let content = describe_vendor_result(shown_text, end < text.len());
    Ok(Observation {
        summary: Some(format!("{} bytes of text", text.len())),
        ..Observation::done(content)
    })
}
