//! The keys of a file that is shown to a model at the beginning.

use crate::config::keys::ValueShape;
use crate::config::keys::found_config::FoundConfigUse::Inside;
use crate::config::keys::found_config::PathPurpose;

keys! {
    /// Images, documents, recordings and videos that are part of the agent's first message.
    const KEY = ["upload_files"] nodes(const { &ValueShape::Mapping(&UPLOAD) })
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
