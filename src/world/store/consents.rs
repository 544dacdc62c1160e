//! Owns the file of what the user has agreed to for always, in their own directory: never in a project,
//! whose files others write. What cannot be read there agrees to nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::files::read_own;
use crate::world::sys::own::dir::{self, Audience};
use crate::world::sys::own::file::{self, Durability};

/// Where it lies in the user's home directory.
const PLACE: &str = ".massgen/consents.json";
/// The longest file, in bytes.
const BYTES_MAX: u64 = 1024 * 1024;
/// The most that is kept.
const CONSENTS_MAX: usize = 1000;

/// What somebody agreed to: a tool that does just this, for agents that work in this project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Consent {
    project: AbsPath,
    tool: String,
    deeds: Vec<String>,
}

impl Consent {
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
pub struct ConsentFile(AbsPath);

impl ConsentFile {
    /// The one of the user whose home directory this is.
    pub fn of(home: &AbsPath) -> Self {
        Self(home.join(PLACE))
    }

    /// Where it is.
    pub fn path(&self) -> &AbsPath {
        &self.0
    }

    /// Whether it holds `consent`.
    pub fn holds(&self, consent: &Consent) -> bool {
        self.read().is_ok_and(|known| known.contains(consent))
    }

    /// Adds `consent`.
    ///
    /// # Errors
    /// The file cannot be read or written, or is full.
    pub fn add(&self, consent: &Consent) -> Result<()> {
        let mut known = self.read()?;
        known.insert(consent.clone());
        if known.len() > CONSENTS_MAX {
            let message = format!("`{}` holds {CONSENTS_MAX} answers already", self.0);
            return Err(Error::new(ErrorKind::Environment, message)
                .hint("take out those that you do not need any more"));
        }
        let bytes = serde_json::to_vec_pretty(&known)
            .map_err(|error| Error::bug("an answer has no JSON form").caused_by(error))?;
        if let Some(parent) = self.0.parent() {
            dir::create_all(&parent, Audience::User)?;
        }
        file::replace(&self.0, &bytes, Durability::Process)
    }

    fn read(&self) -> Result<BTreeSet<Consent>> {
        let Some(bytes) = read_own(&self.0, BYTES_MAX)? else {
            return Ok(BTreeSet::new());
        };
        let damaged = || {
            let message = format!("`{}` is no file of answers", self.0);
            Error::new(ErrorKind::Environment, message).hint("correct it, or move it away")
        };
        serde_json::from_slice(&bytes).map_err(|error| damaged().caused_by(error))
    }
}
