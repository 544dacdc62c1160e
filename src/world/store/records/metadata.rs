//! `execution_metadata.yaml`: what was run, with which config and arguments, and where.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::store::redact::Redactor;

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
