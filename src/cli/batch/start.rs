//! Starts or resumes a batch, or repeats some of its cells. The first start checks everything that
//! can be wrong for all cells before any model is called, and freezes the tasks and the configs.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::batch::result::{CellOutcome, CellResult};
use crate::batch::task::{BatchTask, TASK_FILE_BYTES_MAX, TaskProject, parse_tasks};
use crate::cli::args::batch::{
    BatchEngine, BatchResumeArguments, BatchRetryArguments, BatchRunArguments, RetrySelection,
};
use crate::cli::batch::cell_run::cell_host;
use crate::cli::batch::cell_scope::require_own_directory;
use crate::cli::batch::cell_team::reject_pipeline;
use crate::cli::batch::control::{BatchControl, create_submission};
use crate::cli::batch::start_settings::BatchStartSettings;
use crate::cli::batch::task_mentions::{TaskPathSurvey, allowed_mentions};
use crate::cli::batch::{batches_directory, open_batch_and_record};
use crate::cli::environment;
use crate::cli::interrupts::SHUTDOWN_TIMEOUT;
use crate::cli::interrupts::runtime;
use crate::cli::model_prices::model_list;
use crate::cli::output::CliOutput;
use crate::cli::run_context::connect_all;
use crate::cli::team::load_config;
use crate::cli::team_file::TeamFile;
use crate::config::storage_path::STATE_DIR;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::layout::{RunLayout, RunName};
use crate::mentions::LookupResult;
use crate::path::{AbsPath, RealPath};
use crate::spending::money::Money;
use crate::text::count_noun;
use crate::world::io::clock::now;
use crate::world::io::files::{inspect, read_capped};
use crate::world::io::locate::resolve_path;
use crate::world::store::batches::{BatchDir, BatchRecord, FrozenConfig, digest};
use crate::world::store::prepare_state_dir;

/// The configs of a batch, each once.
#[derive(Debug, Default)]
struct BatchConfigs {
    files: Vec<TeamFile>,
    /// The index of each config among the files, by the argument that names it.
    numbers: BTreeMap<String, usize>,
}

impl BatchConfigs {
    /// Returns the number of the config that `argument` names. A new one is added after `check`.
    fn number_or_add(
        &mut self,
        argument: &str,
        check: &mut dyn FnMut(&TeamFile) -> Result<()>,
        host: &Host,
    ) -> Result<usize> {
        if let Some(number) = self.numbers.get(argument) {
            return Ok(*number);
        }
        let file = TeamFile::find(argument, host)?;
        check(&file)?;
        let number = self.files.len();
        self.files.push(file);
        self.numbers.insert(argument.to_owned(), number);
        Ok(number)
    }
}

/// Runs `massgen batch run`.
pub(super) fn run(
    host: &Host,
    arguments: &BatchRunArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let loaded_environment = environment::load(host);
    for warning in &loaded_environment.warnings {
        output.warning(warning);
    }
    let host = &loaded_environment.host;
    let bytes = read_capped(&host.cwd.join(&arguments.tasks), TASK_FILE_BYTES_MAX)?;
    let missing_error = || {
        let message = format!("the task file `{}` does not exist", arguments.tasks);
        Error::new(ErrorKind::Usage, message)
            .with_hint("a task file has one JSON object a line: {\"id\": \"a\", \"text\": \"…\"}")
    };
    let text = String::from_utf8(bytes.ok_or_else(missing_error)?).map_err(|error| {
        let message = format!("the task file `{}` is not UTF-8", arguments.tasks);
        Error::new(ErrorKind::Usage, message)
            .with_source(error)
            .with_hint("convert it, for example with `iconv -t UTF-8`")
    })?;
    let settings = BatchStartSettings::new(&arguments.settings, None)?;
    let job_host = settings.host_of_jobs(host);
    let mut tasks = parse_tasks(&text, &arguments.tasks)?;
    let mut configs = BatchConfigs::default();
    let models = arguments.models.as_deref();
    let mut check = |file: &TeamFile| {
        check_config(file, models, arguments.max_cost_usd, &job_host, output)
            .map_err(|error| with_key_hint(error, &settings))
    };
    configs.number_or_add(&arguments.config, &mut check, host)?;
    let allowed_paths = allowed_mentions(&arguments.allow_mentions, host)?;
    let allowed_roots: Vec<RealPath> = allowed_paths.iter().filter_map(resolve_path).collect();
    let mut survey = TaskPathSurvey::default();
    for task in &mut tasks {
        if let Some(config_name) = task.config.take() {
            let number = configs.number_or_add(&config_name, &mut check, host)?;
            // The frozen task names its frozen config by number.
            task.config = Some(number.to_string());
        }
        check_project(task, host)?;
        resolve_judge_files(task, host);
        survey.add(task, &allowed_roots, host);
    }
    for note in survey.notes() {
        output.note(&note);
    }
    let batches = batches_directory(host);
    prepare_state_dir(&host.state_parent.join(STATE_DIR), [&batches])?;
    let batch = create_batch(&batches, &tasks, &configs, arguments, allowed_paths, host)?;
    output.note(&format!(
        "{}: {}",
        batch.name(),
        count_noun(tasks.len(), "cell")
    ));
    drop(tasks);
    start(host, batch, &settings, output)
}

fn create_batch(
    batches: &AbsPath,
    tasks: &[BatchTask],
    configs: &BatchConfigs,
    arguments: &BatchRunArguments,
    allowed_mentions: Vec<AbsPath>,
    host: &Host,
) -> Result<BatchDir> {
    let texts: Vec<Vec<u8>> = configs
        .files
        .iter()
        .map(|file| file.text().into_bytes())
        .collect();
    let frozen_config = |(file, text): (&TeamFile, &Vec<u8>)| FrozenConfig {
        name: file.name().to_owned(),
        path: file.path().cloned(),
        sha256: digest(text),
    };
    let cells = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    BatchDir::create(batches, tasks, &texts, |tasks_sha256| BatchRecord {
        cwd: host.cwd.clone(),
        began: now().iso_format(),
        tasks_name: arguments.tasks.clone(),
        cells,
        tasks_sha256,
        configs: configs
            .files
            .iter()
            .zip(&texts)
            .map(frozen_config)
            .collect(),
        models: arguments.models.clone(),
        allowed_mentions,
        retries: arguments.retries,
        max_cost_usd: arguments.max_cost_usd,
    })
}

/// Checks a config as far as that is possible without a cell: its text, keys and prices, and that
/// it writes nowhere else.
fn check_config(
    file: &TeamFile,
    models: Option<&str>,
    limit: Option<Money>,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    // The state of a cell is in its own directory, wherever that of the batch is.
    let host = &cell_host(host, host.cwd.clone());
    let mut config = load_config(file, host, output)?;
    reject_pipeline(&config, file.name())?;
    // Any name will do: this checks only where a run writes.
    let layout = RunLayout::plan(&config, &host.state_parent, RunName::new(0));
    require_own_directory(&config, &[], &layout, &host.cwd)?;
    config.limits.cost = config.limits.cost.or(limit);
    connect_all(&config, &model_list(host, models, output)?, host).map(drop)
}

/// Makes the path of a project absolute, and checks that it exists.
fn check_project(task: &mut BatchTask, host: &Host) -> Result<()> {
    let Some(project) = task.project.take() else {
        return Ok(());
    };
    let project = project.with_absolute_path(&host.cwd);
    let project_dir = AbsPath::resolve(&host.cwd, project.location());
    if inspect(&project_dir) != LookupResult::Directory {
        let kind = match project {
            TaskProject::Commit { .. } => "repository",
            TaskProject::Directory { .. } => "directory",
        };
        let message = format!(
            "task `{}`: the {kind} `{project_dir}` does not exist",
            task.id
        );
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint("paths of projects are relative to the current directory"));
    }
    task.project = Some(project);
    Ok(())
}

/// Makes the path of the judge's files absolute.
fn resolve_judge_files(task: &mut BatchTask, host: &Host) {
    let files = task.judge.as_mut().and_then(|judge| judge.get_mut("files"));
    if let Some(Value::String(files)) = files {
        *files = AbsPath::resolve(&host.cwd, files.as_str()).to_string();
    }
}

/// Runs `massgen batch resume`.
pub(super) fn resume(
    host: &Host,
    arguments: &BatchResumeArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, record) = open_batch_and_record(&arguments.batch, host, output)?;
    require_same_directory(&batch, &record, host)?;
    let settings = BatchStartSettings::new(&arguments.settings, Some(&batch))?;
    let limit = arguments.max_cost_usd.or(batch.limit(&record)?);
    check_configs(&batch, &record, limit, &settings, host, output)?;
    if let Some(limit) = arguments.max_cost_usd {
        batch.set_limit(limit)?;
    }
    start(host, batch, &settings, output)
}

/// Runs `massgen batch retry`.
pub(super) fn retry(
    host: &Host,
    arguments: &BatchRetryArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, record) = open_batch_and_record(&arguments.batch, host, output)?;
    require_same_directory(&batch, &record, host)?;
    // Only a batch whose tasks are unchanged loses results.
    batch.cell_ids(&record)?;
    let settings = BatchStartSettings::new(&arguments.settings, Some(&batch))?;
    check_configs(
        &batch,
        &record,
        batch.limit(&record)?,
        &settings,
        host,
        output,
    )?;
    let is_selected = |result: &CellResult| match arguments.only {
        RetrySelection::Failed => result.outcome == CellOutcome::Failed,
        RetrySelection::Partial => result.outcome == CellOutcome::Partial,
        RetrySelection::Unsuccessful => !result.is_success(),
        RetrySelection::All => true,
    };
    let results = batch.results()?;
    let selected_results: Vec<&CellResult> = results
        .iter()
        .filter(|result| is_selected(result))
        .collect();
    for result in &selected_results {
        batch.withdraw_result(&result.id, result.attempts)?;
    }
    output.note(&format!(
        "{} again",
        count_noun(selected_results.len(), "cell")
    ));
    start(host, batch, &settings, output)
}

/// Checks that a batch is started again where it was started: paths of tasks are relative to that.
fn require_same_directory(batch: &BatchDir, record: &BatchRecord, host: &Host) -> Result<()> {
    if record.cwd == host.cwd {
        return Ok(());
    }
    let message = format!("`{}` was started in `{}`", batch.name(), record.cwd);
    Err(Error::new(ErrorKind::Environment, message).with_hint("change to that directory"))
}

/// Adds a hint to an error about a config: jobs of Slurm do not have the keys of the user's shell.
fn with_key_hint(error: Error, settings: &BatchStartSettings) -> Error {
    if settings.engine != BatchEngine::Slurm || error.kind() != ErrorKind::Environment {
        return error;
    }
    error.with_hint("jobs do not have the keys of this shell: put them into `~/.massgen/.env`")
}

/// Checks that the jobs of a batch that is started again can use its configs, with this limit.
fn check_configs(
    batch: &BatchDir,
    record: &BatchRecord,
    limit: Option<Money>,
    settings: &BatchStartSettings,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let job_host = settings.host_of_jobs(&environment::load(host).host);
    for (number, config) in record.configs.iter().enumerate() {
        let text = batch.config_text(record, number)?;
        let file = TeamFile::from_text(config.name.clone(), config.path.clone(), text);
        let models = record.models.as_deref();
        check_config(&file, models, limit, &job_host, output)
            .map_err(|error| with_key_hint(error, settings))?;
    }
    Ok(())
}

/// Runs the cells of `batch` that have no result.
fn start(
    host: &Host,
    batch: BatchDir,
    settings: &BatchStartSettings,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let record = batch.record()?;
    settings.save(&batch)?;
    batch.revoke_cancellation()?;
    batch.release_held()?;
    let Some(engine) = settings.engine(&batch, &record, host)? else {
        return submit_for_user(&batch, &record, settings, output);
    };
    let control = BatchControl::new(batch, record, engine, settings.cells_per_job)?;
    let runtime = runtime()?;
    let result = runtime.block_on(Box::pin(control.run(host, output)));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// Creates a submission and prints what the array of the user needs.
fn submit_for_user(
    batch: &BatchDir,
    record: &BatchRecord,
    settings: &BatchStartSettings,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let open = batch.unfinished_numbers(&batch.cell_ids(record)?)?;
    if open.is_empty() {
        output.note("every cell has a result");
        return Ok(ExitStatus::Success);
    }
    let (engine, sizes) = (settings.engine.name(), [settings.cells_per_job, usize::MAX]);
    let submission = create_submission(batch, record, engine, &open, sizes)?;
    let submission = submission.ok_or_else(|| {
        let message = "another process has just submitted the cells";
        Error::new(ErrorKind::Environment, message)
    })?;
    let (name, number, indexes) = (batch.name(), submission.number, submission.indexes);
    output.result(&format!("{name} {number} {indexes}\n"))?;
    let last_index = indexes.saturating_sub(1);
    output.note(&format!(
        "run each index from 0 to {last_index}: massgen batch job {name} {number} INDEX"
    ));
    Ok(ExitStatus::Success)
}
