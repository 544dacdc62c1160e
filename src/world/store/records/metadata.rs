//! `execution_metadata.yaml`: what was run, with which config and arguments, and where.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::spending::limits::BudgetLimits;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::file;

/// The start parameters of a run.
#[derive(Clone, Debug)]
pub struct RunMetadata {
    /// The task as the user wrote it.
    pub query: String,
    /// The config file, if there was one.
    pub config_path: Option<AbsPath>,
    /// The text of the config as the user wrote it, before variables were expanded.
    pub config: Option<String>,
    /// The command line arguments.
    pub cli_args: Vec<String>,
    /// The user's working directory.
    pub cwd: AbsPath,
    /// The session that the run belongs to.
    pub session_id: String,
}

#[derive(Serialize)]
struct RunMetadataFile<'a> {
    query: &'a str,
    timestamp: &'a str,
    session_id: &'a str,
    cwd: String,
    config_path: Option<String>,
    cli_args: &'a [String],
    massgen_version: &'a str,
    config: Option<&'a str>,
}

/// The start parameters of a run as they are read from its record, redacted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RecordedRunMetadata {
    /// The session that the run belongs to.
    pub session_id: String,
    /// The config file, if there was one.
    pub config_path: Option<AbsPath>,
    /// The command line arguments.
    pub cli_args: Vec<String>,
    /// The text of the config.
    pub config: Option<String>,
}

impl RunMetadata {
    /// Returns the content of the file. Secrets are redacted before YAML folds and escapes strings.
    pub(crate) fn to_yaml(&self, timestamp: &str, redactor: &Redactor) -> Result<String> {
        let metadata_file = RunMetadataFile {
            query: &self.query,
            timestamp,
            session_id: &self.session_id,
            cwd: self.cwd.to_string(),
            config_path: self.config_path.as_ref().map(ToString::to_string),
            cli_args: &self.cli_args,
            massgen_version: env!("CARGO_PKG_VERSION"),
            config: self.config.as_deref(),
        };
        let metadata_json = serde_json::to_value(&metadata_file).map_err(|error| {
            Error::bug("the run's metadata has no JSON form").with_source(error)
        })?;
        serde_yaml::to_string(&redactor.json(metadata_json))
            .map_err(|error| Error::bug("the run's metadata has no YAML form").with_source(error))
    }
}

/// The name of the file.
const LIMITS_FILE: &str = "limits.json";
/// The largest file that is read, in bytes.
const LIMITS_BYTES_MAX: u64 = 4096;

/// Writes the limits in force to the directory of a run's records or of a pipeline.
pub fn write_limits(dir: &AbsPath, limits: &BudgetLimits) -> Result<()> {
    let text = serde_json::to_string(limits)
        .map_err(|error| Error::bug("the limits have no JSON form").with_source(error))?;
    file::replace_unsynced(&dir.join(LIMITS_FILE), text.as_bytes())
}

/// Reads the limits in a directory; `None` if it has none that can be read.
pub fn read_limits(dir: &AbsPath) -> Option<BudgetLimits> {
    let bytes = file::read_regular_capped(&dir.join(LIMITS_FILE), LIMITS_BYTES_MAX);
    serde_json::from_slice(&bytes.ok()??).ok()
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
