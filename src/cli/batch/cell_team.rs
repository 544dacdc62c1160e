//! The team of a cell: a frozen config of its batch, with the checks of its task.

use serde_json::Value;

use crate::batch::task::BatchTask;
use crate::cli::output::CliOutput;
use crate::cli::team::load_config;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::typed_yaml::read_typed;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::world::store::batches::{BatchDir, BatchRecord};

/// The key of the checks in a config.
const CHECKS: &str = "checks";
const JUDGE: &str = "judge";

/// Loads the config of `task` for a run in the directory of `host`.
pub(super) fn load_cell_team(
    batch: &BatchDir,
    record: &BatchRecord,
    task: &BatchTask,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<(TeamFile, Config)> {
    let number = config_number(task)?;
    let text = batch.config_text(record, number)?;
    let frozen_config = record
        .configs
        .get(number)
        .ok_or_else(|| Error::bug("a task names a config that its batch lacks"))?;
    let text = replace_measures(text, task, &frozen_config.name)?;
    let file = TeamFile::from_text(frozen_config.name.clone(), frozen_config.path.clone(), text);
    let config = load_config(&file, host, output)?;
    reject_pipeline(&config, file.name())?;
    Ok((file, config))
}

/// Refuses a config that is a pipeline.
pub(super) fn reject_pipeline(config: &Config, name: &str) -> Result<()> {
    if config.workflow.is_none() {
        return Ok(());
    }
    let message = format!("`{name}` is a pipeline, which a batch cannot run");
    Err(Error::new(ErrorKind::Usage, message).with_hint("use a config without `workflow`"))
}

/// Returns the number of the frozen config of `task`; in a frozen task, `config` is that number.
fn config_number(task: &BatchTask) -> Result<usize> {
    // The first config is that of the batch, for tasks that name none.
    let number = task.config.as_deref().unwrap_or("0").parse();
    number.map_err(|_| Error::bug("a frozen task names no number of a config"))
}

/// Returns the text of a config with the checks and the judge of `task` instead of its own.
fn replace_measures(text: Vec<u8>, task: &BatchTask, name: &str) -> Result<Vec<u8>> {
    let measures = [(CHECKS, &task.checks), (JUDGE, &task.judge)];
    if measures.iter().all(|(_, measure)| measure.is_none()) {
        return Ok(text);
    }
    let config_error = |reason: String| {
        let message = format!(
            "`{name}` cannot get the checks and the judge of task `{}`: {reason}",
            task.id
        );
        Error::new(ErrorKind::Config, message)
    };
    let text = String::from_utf8_lossy(&text);
    let mut config: Value = read_typed(&text).map_err(|error| config_error(error.to_string()))?;
    let mapping = config
        .as_object_mut()
        .ok_or_else(|| config_error("it is not a mapping".to_owned()))?;
    for (key, measure) in measures {
        if let Some(measure) = measure {
            mapping.insert(key.to_owned(), measure.clone());
        }
    }
    // JSON is YAML too.
    Ok(config.to_string().into_bytes())
}
