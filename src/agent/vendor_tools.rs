//! The tools of the agent's vendor: each use is a conversation of one request with the agent's
//! model, to which the vendor's tool is given instead of massgen's. Requests for media count with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::agent::ModelSession;
use crate::agent::call_conversations::{CallConversations, ConversationSetup};
use crate::backend::AvailableModel;
use crate::id::SubagentId;
use crate::prompts::vendor_tools::{vendor_tool_system, vendor_tool_task};
use crate::tools::call::SubagentTask;
use crate::tools::vendor_tool::VendorTool;
use crate::world::exec::vendor_tools::{VendorToolRequest, VendorToolRunner};

/// Maximum number of requests of one agent in one conversation that use tools of its vendor or have
/// media made.
pub const VENDOR_REQUESTS_MAX: usize = 64;
/// Timeout of such a request, in seconds.
const VENDOR_REQUEST_SECONDS_MAX: u64 = 300;

/// The number of requests of one agent that use tools of its vendor or have media made. Clones share
/// it.
#[derive(Clone, Debug, Default)]
pub struct VendorRequestCount(Arc<AtomicUsize>);

impl VendorRequestCount {
    /// Counts a request.
    ///
    /// # Errors
    /// There would be too many; the string says so.
    pub(super) fn add(&self) -> Result<(), String> {
        if self.0.fetch_add(1, Ordering::Relaxed) < VENDOR_REQUESTS_MAX {
            return Ok(());
        }
        Err(format!(
            "you have used tools of your vendor and had media made {VENDOR_REQUESTS_MAX} times, which \
             is the limit: work with what you have"
        ))
    }
}

/// The use of a vendor's tool by one call of an agent.
#[derive(Debug)]
pub(super) struct VendorToolCall {
    conversations: CallConversations,
    count: VendorRequestCount,
}

impl ModelSession {
    /// Returns what runs a call of a vendor's tool.
    pub(super) fn vendor_tool_call(&self) -> VendorToolCall {
        VendorToolCall {
            conversations: self.call_conversations().with_one_request(),
            count: self.vendor_requests.clone(),
        }
    }
}

impl VendorToolCall {
    /// Returns the models that have `tool` by a request of its own, as they are asked for it.
    fn models(&self, tool: VendorTool) -> Vec<AvailableModel> {
        let models = self.conversations.models.iter();
        let with_tool = models.filter_map(|model| {
            let backend = model.vendor_tools.get(&tool)?;
            Some(AvailableModel {
                backend: Arc::clone(backend),
                vendor_tools: BTreeMap::new(),
                ..model.clone()
            })
        });
        with_tool.collect()
    }

    async fn run(
        &self,
        call_id: &str,
        request: VendorToolRequest,
        cancelled: BoxFuture<'_, ()>,
    ) -> Result<String, String> {
        let VendorToolRequest { tool, request } = request;
        let models = self.models(tool);
        if models.is_empty() {
            return Err("your vendor gives you this tool directly: use that one".to_owned());
        }
        self.count.add()?;
        let id = SubagentId::parse(tool.name()).map_err(|invalid| invalid.to_string())?;
        let setup = ConversationSetup {
            first: vendor_tool_task(&request),
            task: SubagentTask::new(id, request),
            models,
            system: vendor_tool_system(tool).into(),
            tools: Arc::default(),
            gate: None,
            seconds_max: VENDOR_REQUEST_SECONDS_MAX,
            limit: "the limit of a request for a vendor's tool",
        };
        let running = self.conversations.run_until(call_id, setup, cancelled);
        running.await.into_answer()
    }
}

impl VendorToolRunner for VendorToolCall {
    fn ask<'a>(
        &'a self,
        call_id: &'a str,
        request: VendorToolRequest,
        cancelled: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<String, String>> {
        self.run(call_id, request, cancelled).boxed()
    }
}
