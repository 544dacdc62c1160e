//! The documents, recordings and videos that a config makes part of an agent's first message.

use std::fmt;

use crate::config::keys::media;
use crate::path::AbsPath;
use crate::tools::model_file::ModelFileClass;
use crate::tools::page_url::PageUrl;

/// A file that is part of an agent's first message, if its model accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadedFile {
    /// What it must contain.
    pub class: ModelFileClass,
    /// Where it is.
    pub source: UploadSource,
}

/// Where an uploaded file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadSource {
    /// On this machine; the agent may read it.
    Path(AbsPath),
    /// On a public server.
    Url(PageUrl),
}

impl UploadedFile {
    /// Returns the key that names it in a config.
    pub fn key(&self) -> &'static str {
        match self.class {
            ModelFileClass::Document => media::FILE_PATH.name(),
            ModelFileClass::Audio => media::AUDIO_PATH.name(),
            ModelFileClass::Video => media::VIDEO_PATH.name(),
        }
    }

    /// Returns its path, if it is on this machine.
    pub fn path(&self) -> Option<&AbsPath> {
        match &self.source {
            UploadSource::Path(path) => Some(path),
            UploadSource::Url(_) => None,
        }
    }
}

impl fmt::Display for UploadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UploadSource::Path(path) => path.fmt(f),
            UploadSource::Url(url) => url.fmt(f),
        }
    }
}
