//! Owns the file of what the user has agreed to for always, in their own directory: never in a project,
//! whose files others write. What cannot be read there agrees to nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::io::files::read_own;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file::{self, FileDurability};

/// Where it lies in the user's home directory.
const PLACE: &str = ".massgen/consents.json";
/// The longest file, in bytes.
const BYTES_MAX: u64 = 1024 * 1024;
/// The most that is kept.
const CONSENTS_MAX: usize = 1000;

/// What somebody agreed to: a tool that does just this, for agents that work in this project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PersistentApproval {
    project: AbsPath,
    tool: String,
    deeds: Vec<String>,
}

impl PersistentApproval {
    /// To this use of a tool in a project.
    pub fn new(project: AbsPath, tool: String, deeds: Vec<String>) -> Self {
        Self {
            project,
            tool,
            deeds,
        }
    }
}

/// The file of what the user has agreed to for always.
#[derive(Clone, Debug)]
pub struct ApprovalFile(AbsPath);

impl ApprovalFile {
    /// The one of the user whose home directory this is.
    pub fn in_home(home: &AbsPath) -> Self {
        Self(home.join(PLACE))
    }

    /// Where it is.
    pub fn path(&self) -> &AbsPath {
        &self.0
    }

    /// Whether it holds `consent`.
    pub fn contains(&self, consent: &PersistentApproval) -> bool {
        self.read().is_ok_and(|known| known.contains(consent))
    }

    /// Adds `consent`.
    ///
    /// # Errors
    /// The file cannot be read or written, or is full.
    pub fn add(&self, consent: &PersistentApproval) -> Result<()> {
        let mut known = self.read()?;
        known.insert(consent.clone());
        if known.len() > CONSENTS_MAX {
            let message = format!("`{}` holds {CONSENTS_MAX} answers already", self.0);
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("take out those that you do not need any more"));
        }
        let bytes = serde_json::to_vec_pretty(&known)
            .map_err(|error| Error::bug("an answer has no JSON form").with_source(error))?;
        if let Some(parent) = self.0.parent() {
            dir::create_all(&parent, DirectoryAudience::User)?;
        }
        file::replace(&self.0, &bytes, FileDurability::Process)
    }

    fn read(&self) -> Result<BTreeSet<PersistentApproval>> {
        let Some(bytes) = read_own(&self.0, BYTES_MAX)? else {
            return Ok(BTreeSet::new());
        };
        let damaged = || {
            let message = format!("`{}` is no file of answers", self.0);
            Error::new(ErrorKind::Environment, message).with_hint("correct it, or move it away")
        };
        serde_json::from_slice(&bytes).map_err(|error| damaged().with_source(error))
    }
}
