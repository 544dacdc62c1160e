//! The keys of a file that is shown to a model at the beginning.

use crate::config::keys::found_config::FoundConfigUse::Inside;
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::shape::{self, NodeList, Text};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};

pub(crate) const KEY: TypedKey<NodeList> = TypedKey::optional(
    &["upload_files"],
    shape::nodes(const { &ValueShape::Mapping(&UPLOAD) }),
    "Images, documents, recordings and videos that are part of the agent's first message.",
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

pub(crate) const IMAGE_URL: TypedKey<Text> = TypedKey::optional(
    &["image_url"],
    shape::text(),
    "The `https` URL of a PNG, JPEG, GIF or WebP file on a public server, which massgen reads.",
    Inside(PathPurpose::Uploaded),
);

pub(crate) const FILE_PATH: TypedKey<Text> = TypedKey::optional(
    &["file_path"],
    shape::text(),
    "A PDF document: a path as in `image_path`, which the agent may read, or an `https` URL.",
    Inside(PathPurpose::Uploaded),
);

pub(crate) const AUDIO_PATH: TypedKey<Text> = TypedKey::optional(
    &["audio_path"],
    shape::text(),
    "A WAV or MP3 recording: a path as in `image_path`, which the agent may read, or an `https` \
     URL.",
    Inside(PathPurpose::Uploaded),
);

pub(crate) const VIDEO_PATH: TypedKey<Text> = TypedKey::optional(
    &["video_path"],
    shape::text(),
    "An MP4, WebM or QuickTime video: a path as in `image_path`, which the agent may read, or an \
     `https` URL.",
    Inside(PathPurpose::Uploaded),
);

/// A file that is shown to a model at the beginning.
pub static UPLOAD: KeySection = KeySection {
    path: "agents[].backend.upload_files[]",
    doc: "A file that the model is shown at the beginning, if it takes such files.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        IMAGE_PATH.row(),
        IMAGE_URL.row(),
        FILE_PATH.row(),
        AUDIO_PATH.row(),
        VIDEO_PATH.row(),
    ],
};
