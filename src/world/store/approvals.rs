//! The file of persistent approvals, which lies in the user's home directory and never in a
//! project, whose files others write. A file that cannot be read approves nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::io::files::read_own;
use crate::world::sys::state_files::{dir, json_file};

/// Path of the file below the user's home directory.
const FILE_PATH: &str = ".massgen/consents.json";
/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// The most approvals that are kept.
const APPROVALS_MAX: usize = 1000;

/// A persistent approval: of this exact use of a tool, by agents that work in this project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PersistentApproval {
    project: AbsPath,
    tool: String,
    /// What the call does, as the user was asked about it.
    effects: Vec<String>,
}

impl PersistentApproval {
    /// Creates an approval of this use of a tool in a project.
    pub fn new(project: AbsPath, tool: String, effects: Vec<String>) -> Self {
        Self {
            project,
            tool,
            effects,
        }
    }
}

/// The file of the user's persistent approvals.
#[derive(Clone, Debug)]
pub struct ApprovalFile(AbsPath);

impl ApprovalFile {
    /// Returns the file of the user with this home directory.
    pub fn in_home(home: &AbsPath) -> Self {
        Self(home.join(FILE_PATH))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &AbsPath {
        &self.0
    }

    /// Returns whether the file holds `approval`.
    pub fn contains(&self, approval: &PersistentApproval) -> bool {
        self.read()
            .is_ok_and(|approvals| approvals.contains(approval))
    }

    /// Adds `approval` to the file.
    ///
    /// # Errors
    /// The file cannot be read or written, or is full.
    pub fn add(&self, approval: &PersistentApproval) -> Result<()> {
        // Another run could add an approval between reading and writing, and it would be lost.
        let _lock = dir::lock_directory_of(&self.0)?;
        let mut approvals = self.read()?;
        approvals.insert(approval.clone());
        if approvals.len() > APPROVALS_MAX {
            let message = format!("`{}` already contains {APPROVALS_MAX} approvals", self.0);
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("remove approvals that you no longer need"));
        }
        json_file::replace(&self.0, &approvals)
    }

    fn read(&self) -> Result<BTreeSet<PersistentApproval>> {
        let Some(bytes) = read_own(&self.0, FILE_BYTES_MAX)? else {
            return Ok(BTreeSet::new());
        };
        let damaged_error = || {
            let message = format!("`{}` is not a valid file of approvals", self.0);
            Error::new(ErrorKind::Environment, message).with_hint("correct it, or move it away")
        };
        serde_json::from_slice(&bytes).map_err(|error| damaged_error().with_source(error))
    }
}
