//! The run of one cell in its own directory, with the frozen config of its batch: a new run, or one
//! that was interrupted and is resumed.

use std::sync::Arc;
use std::time::Duration;

use crate::batch::task::{BatchTask, TaskProject};
use crate::cli::args::{LimitArguments, RunArguments};
use crate::cli::batch::cell_report::CellRunReport;
use crate::cli::batch::cell_scope::require_own_directory;
use crate::cli::batch::cell_team::load_cell_team;
use crate::cli::batch::copy_access::{open_copy, shared_permission};
use crate::cli::batch::task_mentions::{MentionScope, TaskMentions, read_mentions};
use crate::cli::deliveries::finish_interrupted_deliveries;
use crate::cli::execution::execute_and_show;
use crate::cli::interrupts::parked_before_run;
use crate::cli::model_prices::model_list;
use crate::cli::output::CliOutput;
use crate::cli::resume::build_resumed_request;
use crate::cli::run_context::{PreparedRun, RunTeam, environment_secrets};
use crate::cli::run_context::{run_request, secret_values};
use crate::cli::run_flags::apply_flags;
use crate::cli::run_flags::telemetry_settings;
use crate::cli::run_frontend::OutputMode;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::storage_path::{LOGS, STATE_DIR};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, RunEvent};
use crate::host::{Host, StreamTarget};
use crate::layout::{RunLayout, RunName};
use crate::mentions::opened_paths::open_path;
use crate::orchestrator::approvals::SessionApprovals;
use crate::orchestrator::execution::{RunRequest, ShutdownSignal};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::resume::{InterruptedRun, find_interrupted};
use crate::spending::money::Money;
use crate::spending::shared_budget::SharedBudget;
use crate::world::git::GitProgram;
use crate::world::git::project::ProjectRepository;
use crate::world::store::batches::attempts::EarlierAttempts;
use crate::world::store::batches::budget::AttemptBudget;
use crate::world::store::batches::cells::CellDir;
use crate::world::store::batches::{BatchDir, BatchRecord};
use crate::world::store::redact::Redactor;
use crate::world::store::runs::{self, RunStatus};
use crate::world::store::sessions;
use crate::world::store::stream_redactor::RedactedWriter;

/// A cell whose run starts or is resumed.
#[derive(Debug)]
pub(super) struct CellRun<'a> {
    /// The process, in the user's directory.
    pub(super) host: &'a Host,
    pub(super) batch: &'a BatchDir,
    /// How the batch began.
    pub(super) record: &'a BatchRecord,
    pub(super) task: &'a BatchTask,
    /// The directory of the cell.
    pub(super) cell: CellDir,
    /// Whether the work of the cell has a run that this attempt resumes.
    pub(super) is_resumed: bool,
    /// The attempts before this one.
    pub(super) earlier: &'a EarlierAttempts,
    /// How long they worked on the run, in milliseconds.
    pub(super) earlier_ms: u64,
    /// The money and the notes of this attempt.
    pub(super) budget: Arc<AttemptBudget>,
}

impl CellRun<'_> {
    /// Reports the end of the run from its records.
    fn report(
        &self,
        host: &Host,
        error: Option<&Error>,
        redactor: &Redactor,
    ) -> Result<CellRunReport> {
        let worked_ms = self.budget.note(Money::ZERO).worked_ms;
        let run_time = Duration::from_millis(self.earlier_ms.saturating_add(worked_ms));
        let mut report = CellRunReport::from_records(host, run_time, error, redactor)?;
        report.end.is_out_of_money = self.budget.is_exhausted();
        Ok(report)
    }
}

/// Runs a cell and reports how that ended. An error of the run is part of the report; only one of
/// the batch itself, such as unreadable records, is returned.
pub(super) async fn run_in_cell(run: &CellRun<'_>, stop: ShutdownSignal) -> Result<CellRunReport> {
    let host = cell_host(run.host, run.cell.work());
    if run.is_resumed && has_ended_run(&host)? {
        // Its process was killed after the end of the run and before the result was published.
        return run.report(&host, None, &Redactor::default());
    }
    if !run.is_resumed {
        run.cell.begin_anew()?;
    }
    // The secrets of the config are added as soon as it is loaded.
    let mut redactor = Redactor::new(environment_secrets(&host));
    let execution = prepare_and_execute(run, &host, stop, &mut redactor);
    let error = Box::pin(execution).await.err();
    if let Some(error) = &error {
        redacted_output(&run.cell, redactor.clone())?.error(error);
    }
    run.report(&host, error.as_ref(), &redactor)
}

/// Reports a cell whose processes were lost too often, as `error` says: also what its run has cost.
pub(super) fn report_lost_run(
    run: &CellRun<'_>,
    error: &Error,
    redactor: &Redactor,
) -> Result<CellRunReport> {
    if !run.is_resumed {
        return CellRunReport::from_error(error, redactor);
    }
    run.report(&cell_host(run.host, run.cell.work()), Some(error), redactor)
}

/// Prepares the work and executes the run. `redactor` gets the secrets of its config.
async fn prepare_and_execute(
    run: &CellRun<'_>,
    host: &Host,
    stop: ShutdownSignal,
    redactor: &mut Redactor,
) -> Result<()> {
    let output = &mut redacted_output(&run.cell, redactor.clone())?;
    if !run.is_resumed {
        prepare_work(run, output).await?;
    }
    finish_interrupted_deliveries(host, output)?;
    let arguments = run_arguments(run);
    let (file, config) = load_team(run, host, &arguments, output)?;
    *redactor = Redactor::new(secret_values(&config, host));
    // From here on, the secrets of the config are redacted too.
    let output = &mut redacted_output(&run.cell, redactor.clone())?;
    let team = RunTeam {
        // The file of the prices is relative to the user's directory.
        models: model_list(run.host, arguments.models.as_deref(), output)?,
        telemetry: telemetry_settings(host, output),
        host: host.clone(),
        config,
        file: Some(file),
        other_files: batch_files(run, &host.cwd),
    };
    let mut request = match find_unfinished(&team)? {
        Some(unfinished) => {
            let manifest = unfinished.run.manifest()?;
            build_resumed_request(&unfinished, manifest, team, &arguments, output)?
        }
        None => new_request(run, team, &arguments, output)?,
    };
    if stop.park.is_cancelled() {
        return Err(parked_before_run());
    }
    let budget: Arc<dyn SharedBudget> = Arc::<AttemptBudget>::clone(&run.budget);
    request.shared_budget = Some(budget);
    let mode = OutputMode::new(host, None);
    let execution = execute_and_show(request, &arguments, stop, output, mode);
    // The outcome is dropped: the report is read from the records of the run.
    Box::pin(execution).await.map(drop)
}

/// Opens the output of a cell for what its run shows, without secrets.
fn redacted_output(cell: &CellDir, redactor: Redactor) -> Result<CliOutput<'static>> {
    let out = RedactedWriter::new(cell.open_output()?, redactor.clone());
    let err = RedactedWriter::new(cell.open_output()?, redactor);
    Ok(CliOutput::with_writers(out, err).without_transients())
}

/// Returns `host` as if massgen had been started in the directory `work`, without a terminal.
pub(super) fn cell_host(host: &Host, work: AbsPath) -> Host {
    Host {
        project: work.clone(),
        state_parent: work.clone(),
        cwd: work,
        arguments: Vec::new(),
        stdin: StreamTarget::Plain,
        stdout: StreamTarget::Plain,
        stderr: StreamTarget::Plain,
        ..host.clone()
    }
}

/// Fills the empty directory `work` of a cell with the files of the project.
async fn prepare_work(run: &CellRun<'_>, output: &mut CliOutput<'_>) -> Result<()> {
    let cell = &run.cell;
    let created_ns = cell.work_created_ns()?;
    match &run.task.project {
        None => {}
        Some(TaskProject::Directory { path }) => {
            for note in cell.copy_project(&AbsPath::resolve(&run.record.cwd, path))? {
                output.warning(&note);
            }
        }
        Some(TaskProject::Commit { git, commit }) => {
            let repository_path = AbsPath::resolve(&run.record.cwd, git);
            let program = GitProgram::find(&run.host.env).await?;
            let repository = ProjectRepository::discover(&program, &repository_path).await?;
            let repository = repository.ok_or_else(|| {
                let message = format!("`{repository_path}` is not a git repository");
                Error::new(ErrorKind::Usage, message)
                    .with_hint("correct `git` of the task, or name a directory with `path`")
            })?;
            let (work, scratch) = (cell.work(), cell.scratch()?);
            repository
                .write_commit_files(&program, commit, &work, &scratch)
                .await?;
        }
    }
    cell.mark_prepared(run.budget.attempt().number(), created_ns)
}

/// Returns the flags of the run: the limits of its task, and that it may be parked.
fn run_arguments(run: &CellRun<'_>) -> RunArguments {
    let limits = run.task.limits;
    RunArguments {
        orchestrator_timeout: limits.timeout_seconds,
        limits: LimitArguments {
            cost: limits.max_cost_usd,
            tokens: limits.max_tokens_total,
            tool_calls: limits.max_tool_calls,
            iterations: None,
        },
        models: run.record.models.clone(),
        park: true,
        ..RunArguments::default()
    }
}

/// Loads the frozen config of the cell.
fn load_team(
    run: &CellRun<'_>,
    host: &Host,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
) -> Result<(TeamFile, Config)> {
    let (file, mut config) = load_cell_team(run.batch, run.record, run.task, host, output)?;
    apply_flags(&mut config, arguments, output)?;
    if config.limits.cost.is_none()
        && let Some(limit) = run.batch.limit(run.record)?
    {
        // So that models without a price are refused before any request.
        config.limits.cost = Some(limit);
    }
    if run.task.project.is_some() {
        open_copy(&mut config, &host.cwd);
    }
    Ok((file, config))
}

/// Returns the request of a new run.
fn new_request(
    run: &CellRun<'_>,
    team: RunTeam,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
) -> Result<RunRequest> {
    let (host, config) = (&team.host, &team.config);
    let scope = MentionScope::new(config, &run.record.allowed_mentions, host);
    let TaskMentions {
        prompt,
        mut opened,
        warnings,
    } = read_mentions(&run.task.text, &scope, host);
    for warning in &warnings {
        output.warning(warning);
    }
    let permission = shared_permission(config, &host.cwd);
    if run.task.project.is_some() && permission == Some(Permission::Write) {
        // A replay opens the copy too.
        open_path(&mut opened, &host.cwd, Permission::Write, 1);
    }
    // Any name will do: this checks only where the run writes.
    let layout = RunLayout::plan(config, &host.state_parent, RunName::new(0));
    require_own_directory(config, &opened, &layout, &host.cwd)?;
    let prepared = PreparedRun {
        team,
        prompt,
        opened_paths: opened,
        continued_session: None,
        approvals: SessionApprovals::default(),
        session_sandboxes: None,
    };
    run_request(prepared, arguments)
}

/// Returns the files that the batch obeys, existing or not: its configs and its task file, and
/// where they are in the copy `work` of the cell's project.
fn batch_files(run: &CellRun<'_>, work: &AbsPath) -> Vec<AbsPath> {
    let BatchRecord {
        cwd,
        configs,
        tasks_name,
        ..
    } = run.record;
    let project = run.task.project.as_ref();
    let project = project.map(|project| AbsPath::resolve(cwd, project.location()));
    let copy_of = |file: &AbsPath| Some(work.join(file.below(project.as_ref()?)?.as_path()));
    let configs = configs.iter().filter_map(|config| config.path.clone());
    let mut files: Vec<AbsPath> = configs.chain([AbsPath::resolve(cwd, tasks_name)]).collect();
    let copies: Vec<AbsPath> = files.iter().filter_map(copy_of).collect();
    files.extend(copies);
    files
}

/// Finds the interrupted run of the cell, if there is one.
fn find_unfinished(team: &RunTeam) -> Result<Option<InterruptedRun>> {
    let storage = &team.config.orchestrator.session_storage;
    let sessions = storage.resolve(&team.host.state_parent, None);
    let session_exists = |session: &str| sessions::find(session, &sessions).is_ok();
    find_interrupted(&logs_directory(&team.host), None, session_exists)
}

/// Returns whether the last run of the cell has recorded its end.
fn has_ended_run(host: &Host) -> Result<bool> {
    let Some(run) = runs::find_last_own(&logs_directory(host))? else {
        return Ok(false);
    };
    if run.state()?.status == RunStatus::Ended {
        return Ok(true);
    }
    // The process may have been killed between the last event and the last status.
    if !run.has_log()? {
        return Ok(false);
    }
    for entry in run.events()?.intact_entries() {
        if matches!(entry?.event, Some(Event::Run(RunEvent::RunEnded { .. }))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the directory of the logs of the cell's runs.
pub(super) fn logs_directory(host: &Host) -> AbsPath {
    host.state_parent.join(STATE_DIR).join(LOGS)
}
