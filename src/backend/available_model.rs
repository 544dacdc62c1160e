//! A model to which requests can be sent, with what is known about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backend::Backend;
use crate::backend::rate_limit::ModelRateLimiter;
use crate::backend::remote::media::MediaClient;
use crate::config::vendors::ImageInput;
use crate::config::vendors::file_input::ModelFileInput;
use crate::spending::price::ModelPrice;
use crate::tools::vendor_tool::VendorTool;
use crate::world::exec::agent_launcher::AgentLaunchSetup;

/// A model to which requests can be sent.
#[derive(Clone, Debug)]
pub struct AvailableModel {
    /// Its name at its vendor.
    pub name: Arc<str>,
    /// What it costs; `None` if that is not known.
    pub price: Option<ModelPrice>,
    /// The size of its context in tokens; `None` if that is not known.
    pub context_tokens: Option<u64>,
    /// Whether it receives images.
    pub image_input: ImageInput,
    /// Which documents, recordings and videos it receives.
    pub file_input: ModelFileInput,
    /// The client that sends requests to it.
    pub backend: Arc<dyn Backend>,
    /// For each tool of the vendor that it does not combine with other tools: the client of
    /// requests with that tool alone.
    pub vendor_tools: BTreeMap<VendorTool, Arc<dyn Backend>>,
    /// The client of the models of the same vendor that make media, if the config names some.
    pub media: Option<Arc<MediaClient>>,
    /// The models of its agent's subagents, if they have models of their own.
    pub subagents: Arc<[SubagentModel]>,
    /// Its rate limits.
    pub rate_limiter: ModelRateLimiter,
}

impl AvailableModel {
    /// Returns the model with the launcher and the command in `setup` if it is an external agent,
    /// and as it is otherwise.
    #[must_use]
    pub fn with_launcher(self, setup: &AgentLaunchSetup) -> Self {
        match self.backend.with_launcher(setup) {
            Some(backend) => Self { backend, ..self },
            None => self,
        }
    }
}

/// One of the models that subagents may have instead of their agent's.
#[derive(Clone, Debug)]
pub struct SubagentModel {
    /// The name by which an agent chooses it.
    pub name: Arc<str>,
    /// The model, followed by its fallback models.
    pub models: Arc<[AvailableModel]>,
}
