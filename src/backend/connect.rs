//! Owns the way from a config to a backend. It finds endpoint and key and says what is missing;
//! it must never open a connection: a model is reached when it is first asked.

use std::fmt;
use std::sync::Arc;

use crate::backend::Backend;
use crate::backend::scripted::Scripted;
use crate::backend::scripted::script::ReplyList;
use crate::config::vendors::{VENDORS, Vendor, Wire};
use crate::config::{BackendConfig, Script};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::http::HttpClient;

/// What a backend may need from outside its config.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Looks an environment variable up; an empty one counts as unset.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The client that all backends share.
    pub http: &'a HttpClient,
    /// The directory that the user stands in.
    pub cwd: &'a AbsPath,
    /// Reads a script file as text.
    pub read: &'a dyn Fn(&AbsPath) -> Result<String>,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("cwd", self.cwd)
            .finish_non_exhaustive()
    }
}

/// Makes the backend that `config` describes.
///
/// # Errors
/// `Config` for a type that is not served, a malformed endpoint or script; `Environment` for a
/// missing key.
pub fn connect(config: &BackendConfig, around: Surroundings<'_>) -> Result<Arc<dyn Backend>> {
    match config.vendor.wire {
        Wire::ChatCompletions => Err(unserved(config.vendor)),
        Wire::Scripted => Ok(Arc::new(Scripted::new(replies(config, around)?))),
        Wire::Unserved => Err(unserved(config.vendor)),
    }
}

fn replies(config: &BackendConfig, around: Surroundings<'_>) -> Result<ReplyList> {
    match &config.script {
        Some(Script::Inline(list)) => ReplyList::from_list(list, around.cwd),
        Some(Script::File(path)) => {
            let text = (around.read)(path)?;
            ReplyList::parse(&text, &path.to_string(), around.cwd)
        }
        None => Err(
            Error::new(ErrorKind::Config, "a `scripted` backend has no replies")
                .hint("give `replies` or `script` beside `type: scripted`"),
        ),
    }
}

fn unserved(vendor: &Vendor) -> Error {
    let served: Vec<&str> = VENDORS
        .iter()
        .filter(|vendor| vendor.is_served())
        .map(|vendor| vendor.name)
        .collect();
    let message = format!("`type: {}` is not served by this version", vendor.name);
    let error = Error::new(ErrorKind::Config, message);
    let error = vendor.instead.into_iter().fold(error, Error::hint);
    error.hint(format!("served are: {}", served.join(", ")))
}
