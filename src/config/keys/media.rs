//! The keys about media by another vendor than the agent's, which `orchestrator` and a backend
//! have.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;
use crate::config::keys::{ConfigKey, IgnoredEffect};

/// What a found config with such a key would do.
pub(super) const MAKES_MEDIA: &str = "has files made by its vendor, which costs money";

keys! {
    /// Whether agents may generate images and speech with the tool `generate_media`, by the vendors
    /// of `image_generation_backend` and `audio_generation_backend`; without these, by an agent's
    /// own vendor if that is `openai`. Images are read with `read_media_file`; sound and videos are
    /// not.
    const MULTIMODAL = ["enable_multimodal_tools"] flag().in_found(NeedsNamedConfig(MAKES_MEDIA))
        .with_default("false");

    /// With `enable_multimodal_tools`, the vendor that makes images: `openai`, with the key in its
    /// variable.
    const IMAGE_VENDOR = ["image_generation_backend"] text();

    /// With `enable_multimodal_tools`, the vendor that speaks: `openai`, with the key in its
    /// variable.
    const AUDIO_VENDOR = ["audio_generation_backend"] text();
}

/// The vendor of videos. OpenAI's API for them ended on 24 September 2026:
/// <https://developers.openai.com/api/docs/models/sora-2>.
pub(super) const VIDEO_VENDOR: ConfigKey = ConfigKey::unsupported(
    &["video_generation_backend"],
    IgnoredEffect::Convenience,
    "nothing makes videos (OpenAI has ended its API for them); use a custom tool",
);
