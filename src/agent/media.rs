//! Media that the agent's vendor makes: each call is a conversation of one request, whose reply
//! contains the media in addition to its text.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::agent::ModelSession;
use crate::agent::call_conversations::{CallConversations, ConversationSetup};
use crate::agent::recorded_conversation::SubagentEnding;
use crate::agent::vendor_tools::{CountingBackend, VendorRequestCount};
use crate::backend::available_model::AvailableModel;
use crate::backend::remote::media::{MediaClient, MediaRequest};
use crate::event::SubagentStatus;
use crate::id::SubagentId;
use crate::tools::call::SubagentTask;
use crate::tools::media::MediaOrder;
use crate::world::exec::media::MediaRunner;
use crate::world::store::paid_media::PaidMedia;

/// The name of these conversations in views and logs.
const NAME: &str = "generate_media";
/// Timeout of a request with its retries, in seconds.
const MEDIA_SECONDS_MAX: u64 = 900;

/// Generation of media for one call of an agent.
#[derive(Debug)]
pub(super) struct MediaCall {
    conversations: CallConversations,
    count: VendorRequestCount,
    /// Where the content is kept, if it is.
    paid_media: Option<PaidMedia>,
    /// The ids of the recorded calls whose media the vendor has made.
    completed_calls: BTreeSet<String>,
}

impl ModelSession {
    /// Returns what has media made for a call. Recorded conversations are not replayed: the record
    /// does not contain the media, which are kept next to it.
    pub(super) fn media_call(&self) -> MediaCall {
        let recorded_subagents = self
            .recorded
            .iter()
            .flat_map(|conversation| &conversation.subagents);
        let completed_subagents = recorded_subagents.filter(|subagent| {
            let is_completed = |ending: &SubagentEnding| ending.status == SubagentStatus::Completed;
            subagent.subagent.as_str() == NAME && subagent.ending.as_ref().is_some_and(is_completed)
        });
        MediaCall {
            completed_calls: completed_subagents
                .map(|subagent| subagent.call_id.clone())
                .collect(),
            paid_media: self.paid_media.clone(),
            conversations: CallConversations {
                steps_max: 1,
                recorded: Vec::new(),
                ..self.call_conversations()
            },
            count: self.vendor_requests.clone(),
        }
    }
}

impl MediaCall {
    async fn run(
        &self,
        call_id: &str,
        order: MediaOrder,
        cancellation: BoxFuture<'_, ()>,
    ) -> Result<Vec<u8>, String> {
        let models = self.conversations.models.iter();
        let media_clients = models.filter_map(|model| Some((model, model.media.as_ref()?)));
        let mut clients = media_clients
            .filter_map(|(model, client)| Some((model, client, client.model(order.kind)?)));
        let Some((model, client, media_model)) = clients.next() else {
            return Err("the model that works now has no vendor that makes this".to_owned());
        };
        let (budget, price) = (&self.conversations.budget, media_model.price.as_ref());
        budget.require_countable(
            &media_model.name,
            price,
            media_model.usage_report(order.kind),
        )?;
        self.count.add()?;
        let request = Arc::new(MediaRequest::new(
            Arc::<MediaClient>::clone(client),
            order.clone(),
        ));
        let backend = Arc::<MediaRequest>::clone(&request);
        let backend = CountingBackend::new(backend, self.count.clone());
        let model = AvailableModel {
            name: media_model.name.as_str().into(),
            price: media_model.price.clone(),
            backend: Arc::new(backend),
            media: None,
            ..model.clone()
        };
        let id = SubagentId::parse(NAME).map_err(|invalid| invalid.to_string())?;
        let setup = ConversationSetup {
            first: order.prompt.clone(),
            task: SubagentTask::new(id, order.prompt.clone()),
            models: vec![model],
            system: "".into(),
            tools: Arc::default(),
            gate: None,
            seconds_max: MEDIA_SECONDS_MAX,
            limit: "the limit of a request for media",
        };
        let conversation_run = self.conversations.run_until(call_id, setup, cancellation);
        let report = conversation_run.await;
        report.into_answer()?;
        let missing_content = || "the reply holds no content".to_owned();
        let content = request.take_content().ok_or_else(missing_content)?;
        if let Some(paid_media) = &self.paid_media {
            // If it cannot be kept, a resumed run has it made again.
            let _write_result = paid_media.write(call_id, &order, &content);
        }
        Ok(content)
    }
}

impl MediaRunner for MediaCall {
    fn generate<'a>(
        &'a self,
        call_id: &'a str,
        order: MediaOrder,
        cancellation: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        self.run(call_id, order, cancellation).boxed()
    }

    fn take_paid(&self, call_id: &str, order: &MediaOrder) -> Result<Option<Vec<u8>>, String> {
        let paid_media = self
            .paid_media
            .as_ref()
            .filter(|_| self.completed_calls.contains(call_id));
        let content = paid_media.map(|paid_media| paid_media.read(call_id, order));
        let content = content.transpose().map_err(|error| error.to_string())?;
        let content = content.flatten();
        if content.is_some() {
            // It was within the limit when it was recorded.
            let _counted = self.count.add();
        }
        Ok(content)
    }
}
