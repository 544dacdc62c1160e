//! The tools of the agent's vendor: each use is a conversation of one request with the agent's
//! model, to which the vendor's tool is given instead of massgen's. Requests for media count with
//! them.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream;
use futures_util::{FutureExt, StreamExt};

use crate::agent::ModelSession;
use crate::agent::call_conversations::{CallConversations, ConversationSetup};
use crate::backend::available_model::AvailableModel;
use crate::backend::{Backend, BackendError, BackendErrorKind, ModelRequest, ReplyStream};
use crate::id::SubagentId;
use crate::prompts::outside_text::{vendor_tool_system_prompt, vendor_tool_task};
use crate::tools::call::SubagentTask;
use crate::tools::vendor_tool::VendorTool;
use crate::world::exec::vendor_tools::{VendorToolRequest, VendorToolRunner};

/// Maximum number of requests of one agent in one conversation that use tools of its vendor or have
/// media made.
pub const VENDOR_REQUESTS_MAX: usize = 64;
/// Timeout of such a request, in seconds.
const VENDOR_REQUEST_SECONDS_MAX: u64 = 300;

/// The number of requests of one agent that use tools of its vendor or have media made. Clones
/// share it.
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

/// The model of a call, which counts each request but the first: the call itself has counted that
/// one.
#[derive(Clone, Debug)]
pub(super) struct CountingBackend {
    backend: Arc<dyn Backend>,
    count: VendorRequestCount,
    /// Whether a request was sent, by this model or another one of the call.
    was_sent: Arc<AtomicBool>,
}

impl CountingBackend {
    /// Creates the only model of a call.
    pub(super) fn new(backend: Arc<dyn Backend>, count: VendorRequestCount) -> Self {
        Self {
            backend,
            count,
            was_sent: Arc::default(),
        }
    }
}

impl Backend for CountingBackend {
    fn ask<'a>(&'a self, request: ModelRequest<'a>) -> ReplyStream<'a> {
        if self.was_sent.swap(true, Ordering::Relaxed)
            && let Err(message) = self.count.add()
        {
            let refusal = BackendError {
                kind: BackendErrorKind::Permanent,
                message,
            };
            return stream::once(ready(Err(refusal))).boxed();
        }
        self.backend.ask(request)
    }

    fn for_subagent(&self, subagent: &SubagentId) -> Option<Arc<dyn Backend>> {
        let backend = self.backend.for_subagent(subagent)?;
        Some(Arc::new(Self {
            backend,
            ..self.clone()
        }))
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.backend.shutdown()
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
            conversations: CallConversations {
                steps_max: 1,
                ..self.call_conversations()
            },
            count: self.vendor_requests.clone(),
        }
    }
}

impl VendorToolCall {
    /// Returns the models that have `tool` by a request of its own, as they are asked for it.
    fn models(&self, tool: VendorTool) -> Vec<AvailableModel> {
        let models = self.conversations.models.iter();
        let was_sent = Arc::new(AtomicBool::new(false));
        let models_with_tool = models.filter_map(|model| {
            let backend = CountingBackend {
                backend: Arc::clone(model.vendor_tools.get(&tool)?),
                count: self.count.clone(),
                was_sent: Arc::clone(&was_sent),
            };
            Some(AvailableModel {
                backend: Arc::new(backend),
                vendor_tools: BTreeMap::new(),
                ..model.clone()
            })
        });
        models_with_tool.collect()
    }

    async fn run(
        &self,
        call_id: &str,
        request: VendorToolRequest,
        cancellation: BoxFuture<'_, ()>,
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
            system: vendor_tool_system_prompt(tool).into(),
            tools: Arc::default(),
            gate: None,
            seconds_max: VENDOR_REQUEST_SECONDS_MAX,
            limit: "the limit of a request for a vendor's tool",
        };
        let conversation_run = self.conversations.run_until(call_id, setup, cancellation);
        conversation_run.await.into_answer()
    }
}

impl VendorToolRunner for VendorToolCall {
    fn ask<'a>(
        &'a self,
        call_id: &'a str,
        request: VendorToolRequest,
        cancellation: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<String, String>> {
        self.run(call_id, request, cancellation).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::conversation::Conversation;

    /// A vendor that never replies.
    #[derive(Debug)]
    struct SilentBackend;

    impl Backend for SilentBackend {
        fn ask<'a>(&'a self, _request: ModelRequest<'a>) -> ReplyStream<'a> {
            stream::empty().boxed()
        }
    }

    #[test]
    fn repeated_requests_count() {
        let count = VendorRequestCount::default();
        count.add().unwrap();
        let request = CountingBackend::new(Arc::new(SilentBackend), count.clone());
        let conversation = Conversation::default();
        let refusal = || {
            let mut replies = request.ask(ModelRequest {
                system: "".into(),
                conversation: &conversation,
                tools: Arc::default(),
            });
            let first = replies.next().now_or_never().unwrap();
            first?.err()
        };
        for _ in 0..VENDOR_REQUESTS_MAX {
            assert_eq!(refusal(), None);
        }
        let refused = refusal().unwrap();
        assert_eq!(refused.kind, BackendErrorKind::Permanent);
        assert!(refused.message.contains("64 times"), "{refused}");
        assert!(count.add().is_err());
    }

    #[test]
    fn a_fallback_model_repeats_the_request_of_the_first() {
        let count = VendorRequestCount::default();
        let first = CountingBackend::new(Arc::new(SilentBackend), count.clone());
        let fallback = first.clone();
        let conversation = Conversation::default();
        for (model, expected) in [(&first, 0), (&fallback, 1), (&fallback, 2)] {
            let _asked = model.ask(ModelRequest {
                system: "".into(),
                conversation: &conversation,
                tools: Arc::default(),
            });
            assert_eq!(count.0.load(Ordering::Relaxed), expected);
        }
    }
}
