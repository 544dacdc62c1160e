//! `execution_metadata.yaml`: what was run, with which config and arguments, and where; and
//! `replay.yaml`: what `massgen replay` needs in order to start as a run started.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::AbsPath;
use crate::spending::limits::BudgetLimits;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::{file, json_file};

/// The start parameters of a run; secrets in those that are read from its record are redacted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMetadata {
    /// The task as the user wrote it.
    pub query: String,
    /// The session that the run belongs to.
    pub session_id: String,
    /// The user's working directory.
    pub cwd: AbsPath,
    /// The config file, if there was one.
    pub config_path: Option<AbsPath>,
    /// The command line arguments.
    pub cli_args: Vec<String>,
    /// The text of the config as the user wrote it, before variables were expanded.
    pub config: Option<String>,
}

#[derive(Serialize)]
struct RunMetadataFile<'a> {
    timestamp: &'a str,
    massgen_version: &'a str,
    #[serde(flatten)]
    metadata: &'a RunMetadata,
}

impl RunMetadata {
    /// Returns the content of the file.
    pub(crate) fn to_yaml(&self, timestamp: &str, redactor: &Redactor) -> Result<String> {
        redactor.yaml(&RunMetadataFile {
            timestamp,
            massgen_version: env!("CARGO_PKG_VERSION"),
            metadata: self,
        })
    }
}

/// The name of the file.
const LIMITS_FILE: &str = "limits.json";
/// The largest file that is read, in bytes.
const LIMITS_BYTES_MAX: u64 = 4096;

/// Writes the limits in force to the directory of a run's records or of a pipeline.
pub fn write_limits(dir: &AbsPath, limits: &BudgetLimits) -> Result<()> {
    let text = serde_json::to_string(limits).map_err(Error::unserializable)?;
    file::replace_unsynced(&dir.join(LIMITS_FILE), text.as_bytes())
}

/// Reads the limits in a directory; `None` if it has none that can be read.
pub fn read_limits(dir: &AbsPath) -> Option<BudgetLimits> {
    json_file::read(&dir.join(LIMITS_FILE), LIMITS_BYTES_MAX).ok()?
}

/// How a run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayManifest {
    /// The task as the user wrote it.
    pub task: String,
    /// The user's working directory.
    pub cwd: String,
    /// The workspace of each agent that has one, as every path to it that may occur in a reply.
    pub workspaces: BTreeMap<AgentId, Vec<String>>,
    /// The directory in which the agents saw each other's snapshots, as every path to it.
    pub temp_workspaces: Vec<String>,
    /// The paths that the prompts of the session opened.
    pub opened: Vec<OpenedPath>,
    /// The team, as a config whose agents have recorded replies.
    pub team: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spending::money::Money;

    #[test]
    fn limits_are_read_as_they_were_written_last() {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = AbsPath::new(dir.path()).unwrap();
        assert_eq!(read_limits(&run_dir), None);
        for (cost, tokens, tool_calls) in [
            (None, None, None),
            (Money::from_dollars("0.083"), Some(u64::MAX), Some(0)),
            (Some(Money::ZERO), None, Some(7)),
        ] {
            let limits = BudgetLimits {
                cost,
                tokens,
                tool_calls,
                user_limits: None,
            };
            write_limits(&run_dir, &limits).unwrap();
            assert_eq!(read_limits(&run_dir), Some(limits));
        }
        let write_text = |text: &str| {
            let file = run_dir.join(LIMITS_FILE);
            file::replace_unsynced(&file, text.as_bytes()).unwrap();
        };
        for damaged_text in ["", "[1]", "{\"max_tokens_total\": -1}"] {
            write_text(damaged_text);
            assert_eq!(read_limits(&run_dir), None, "{damaged_text}");
        }
        write_text(&(" ".repeat(5000) + "{}"));
        assert_eq!(read_limits(&run_dir), None);
    }
}
