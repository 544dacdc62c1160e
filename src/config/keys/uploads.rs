//! The keys of a file that is shown to a model at the beginning.

use crate::config::keys::found_config::FoundConfigUse::Inside;
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::shape::{self, NodeList, Text};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape,
};

pub(crate) const KEY: TypedKey<NodeList> = TypedKey::optional(
    &["upload_files"],
    shape::nodes(const { &ValueShape::Mapping(&UPLOAD) }),
    "Images that are part of the agent's first message, as if the task mentioned them.",
    Inside(PathPurpose::Opened),
)
.with_default("[]");

pub(crate) const IMAGE_PATH: TypedKey<Text> = TypedKey::optional(
    &["image_path"],
    shape::text(),
    "A PNG, JPEG, GIF or WebP file: absolute, below `~`, or relative to the directory in which \
     massgen is started. The agent may read it.",
    Inside(PathPurpose::Opened),
);

/// What to do for files that are not images.
const NO_IMAGE: &str = "only images are shown to models; give the directory of other files in \
                        `context_paths`, and a server or custom tool for audio and video";

/// A file that is shown to a model at the beginning.
pub static UPLOAD: KeySection = KeySection {
    path: "agents[].backend.upload_files[]",
    doc: "A file that the model is shown at the beginning, if it takes images.",
    others: UnknownKeys::Refused,
    keys: &[
        IMAGE_PATH.row(),
        ConfigKey::unsupported(
            &["file_path", "audio_path", "video_path", "image_url"],
            ValueShape::Text,
            NO_IMAGE,
            IgnoredEffect::Cosmetic,
        ),
    ],
};
