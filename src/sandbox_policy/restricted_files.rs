//! The settings of the machine that only their owner and group can read. To a command that root
//! starts they would be readable: root is their owner.

use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::sandbox_policy::SandboxPolicy;

/// Where the machine's settings are.
pub const SETTINGS: &str = "/etc";

/// The settings that are closed to other users, as they were when they were searched for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestrictedFiles {
    /// A directory comes before its content. Empty for a process that is not root: its commands
    /// cannot read them anyway. An error is why they are not known.
    paths: Result<Vec<AbsPath>, String>,
}

impl RestrictedFiles {
    /// Takes the result of the search.
    pub fn new(paths: Result<Vec<AbsPath>, String>) -> Self {
        Self { paths }
    }

    /// Returns what is hidden from a command with this `policy`. Paths that the user opened are left
    /// out, and those on the way there.
    ///
    /// # Errors
    /// They are not known, and why.
    pub fn hidden_from(&self, policy: &SandboxPolicy) -> Result<Vec<&AbsPath>, String> {
        let paths = self.paths.as_ref().map_err(String::clone)?;
        let is_open = |path: &&AbsPath| {
            let mut roots = policy.open.iter().map(|opening| &opening.path);
            roots.any(|root| path.is_within(root) || root.is_within(path))
        };
        Ok(paths.iter().filter(|path| !is_open(path)).collect())
    }
}
