//! The keys about media: those by another vendor than the agent's, which `orchestrator` and a backend
//! have, and of a file that is shown to a model at the beginning.

use crate::config::keys::found_config::FoundConfigUse::{Inside, NeedsNamedConfig};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::{ConfigKey, IgnoredEffect, ValueShape};

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

keys! {
    /// Images, documents, recordings and videos that are part of the agent's first message.
    const UPLOAD_FILES = ["upload_files"] nodes(const { &ValueShape::Mapping(&UPLOAD) })
        .in_found(Inside(PathPurpose::Opened)).with_default("[]");
}

section! {
    /// A file that the model is shown at the beginning, if it takes such files.
    pub static UPLOAD = "agents[].backend.upload_files[]";

    /// A PNG, JPEG, GIF or WebP file: absolute, below `~`, or relative to the directory in which
    /// massgen is started. The agent may read it.
    const IMAGE_PATH = ["image_path"] text().in_found(Inside(PathPurpose::Opened));

    /// The `https` URL of a PNG, JPEG, GIF or WebP file on a public server, which massgen reads.
    const IMAGE_URL = ["image_url"] text().in_found(Inside(PathPurpose::Uploaded));

    /// A PDF document: a path as in `image_path`, which the agent may read, or an `https` URL.
    const FILE_PATH = ["file_path"] text().in_found(Inside(PathPurpose::Uploaded));

    /// A WAV or MP3 recording: a path as in `image_path`, which the agent may read, or an `https`
    /// URL.
    const AUDIO_PATH = ["audio_path"] text().in_found(Inside(PathPurpose::Uploaded));

    /// An MP4, WebM or QuickTime video: a path as in `image_path`, which the agent may read, or an
    /// `https` URL.
    const VIDEO_PATH = ["video_path"] text().in_found(Inside(PathPurpose::Uploaded));
}
