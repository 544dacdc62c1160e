//! The model of an agent as the config describes it: how it is reached, its timeouts, its fallbacks
//! and the models that make media.

use std::sync::Arc;

use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::config::external_agents::ExternalAgentConfig;
use crate::config::subagents::SubagentBackend;
use crate::config::vendors::{ImageInput, ReasoningEcho, Vendor};
use crate::path::AbsPath;
use crate::tools::media::MediaKind;

/// The model of an agent, and how it is reached.
#[derive(Clone, Debug)]
pub struct BackendConfig {
    /// The row of the vendor table that `type` names.
    pub vendor: &'static Vendor,
    /// The model's name at the vendor.
    pub model: String,
    /// The endpoint; the vendor's own unless the YAML or the environment names another.
    pub base_url: Option<String>,
    /// The key from the YAML; `None` uses the vendor's environment variables.
    pub api_key: Option<SecretString>,
    /// The hosts that the user's keys are sent to.
    pub key_hosts: KeyHosts,
    /// Keys for the model's API, sent in every request unchanged.
    pub parameters: Map<String, Value>,
    /// The replies of a `scripted` backend.
    pub script: Option<ScriptSource>,
    /// The external agent that replaces a model, if the type is one.
    pub external_agent: Option<Arc<ExternalAgentConfig>>,
    /// The models of the same vendor that make media for the agent.
    pub media: MediaModels,
    /// Whether the model accepts images.
    pub image_input: ImageInput,
    /// Whether a Chat Completions model gets its reasoning back; `None` leaves that to what is
    /// known of host and model.
    pub reasoning_echo: Option<ReasoningEcho>,
    /// The timeouts of a reply.
    pub timeouts: ReplyTimeouts,
    /// The models of the agent's subagents, which take turns; without one, they have the agent's.
    pub subagent_models: Vec<SubagentBackend>,
    /// The models that are used when this one fails, in this order; they have no fallback of their
    /// own.
    pub fallback: Vec<BackendConfig>,
}

impl BackendConfig {
    /// Returns this model, followed by its fallback models.
    pub fn with_fallbacks(&self) -> impl Iterator<Item = &BackendConfig> {
        std::iter::once(self).chain(&self.fallback)
    }

    /// Returns this model and its fallback models, followed by the models of the agent's subagents.
    pub fn with_subagent_models(&self) -> impl Iterator<Item = &BackendConfig> {
        let subagent_models = self.subagent_models.iter().map(|model| &model.backend);
        self.with_fallbacks().chain(subagent_models)
    }
}

/// The models of a vendor that make media, as far as the agent may have it made.
#[derive(Clone, Debug, Default)]
pub struct MediaModels {
    /// The vendor; `None` is the agent's own, at the agent's endpoint.
    pub vendor: Option<&'static Vendor>,
    /// The one for images.
    pub image: Option<String>,
    /// The one for speech.
    pub audio: Option<String>,
}

impl MediaModels {
    /// Returns the kinds of media that can be made.
    pub fn kinds(&self) -> Vec<MediaKind> {
        let is_made = |kind: &MediaKind| match kind {
            MediaKind::Image => self.image.is_some(),
            MediaKind::Audio => self.audio.is_some(),
        };
        MediaKind::ALL.into_iter().filter(is_made).collect()
    }
}

/// The hosts that the keys in the user's environment are sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyHosts {
    /// Those that the config names: the config is the user's own, or the user named it.
    #[default]
    Configured,
    /// Only the vendors' own.
    OfVendors,
}

/// The timeouts of a model's reply, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTimeouts {
    /// Until the first byte.
    pub first_byte_seconds: u64,
    /// Between two bytes after that.
    pub idle_seconds: u64,
    /// Until it is complete.
    pub total_seconds: u64,
}

/// The default silence timeout, in seconds. Vendors are silent for up to four minutes while a model
/// reasons or writes a long call, and local servers while they load a model.
const SILENCE_SECONDS_DEFAULT: u64 = 300;
/// The default timeout of a complete reply, in seconds.
const REPLY_SECONDS_DEFAULT: u64 = 3_600;

impl Default for ReplyTimeouts {
    fn default() -> Self {
        Self {
            first_byte_seconds: SILENCE_SECONDS_DEFAULT,
            idle_seconds: SILENCE_SECONDS_DEFAULT,
            total_seconds: REPLY_SECONDS_DEFAULT,
        }
    }
}

/// The source of a scripted backend's replies.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptSource {
    /// In the config itself, under `replies`.
    Inline {
        /// The list.
        replies: Value,
        /// The line of each reply in the config, from 1.
        lines: Vec<usize>,
    },
    /// In a separate YAML file.
    File(AbsPath),
}
