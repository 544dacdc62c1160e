//! The run of one cell in its own directory, with the frozen config of its batch: a new run, or one
//! that was interrupted and is resumed.

use std::sync::Arc;

use crate::batch::next_step::AttemptErrorOrigin;
use crate::batch::task::{BatchTask, TaskProject};
use crate::cli::args::{LimitArguments, RunArguments};
use crate::cli::batch::cell_report::CellRunReport;
use crate::cli::batch::cell_scope::require_own_directory;
use crate::cli::batch::cell_team::load_cell_team;
use crate::cli::batch::copy_access::{open_copy, shared_permission};
use crate::cli::batch::task_mentions::{MentionScope, TaskMentions, read_mentions};
use crate::cli::deliveries::finish_interrupted_deliveries;
use crate::cli::execution::{
    OutputMode, UserPresence, environment_secrets, execute_and_show, run_request, secret_values,
};
use crate::cli::interrupts::parked_before_run;
use crate::cli::model_prices::model_list;
use crate::cli::output::CliOutput;
use crate::cli::resume::{ResumedTeam, build_resumed_request};
use crate::cli::run::{PreparedRun, apply_flags, telemetry_settings};
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
use crate::spending::shared_budget::SharedBudget;
use crate::world::git::GitProgram;
use crate::world::git::project::ProjectRepository;
use crate::world::io::clock::LocalDateTime;
use crate::world::store::batches::budget::CellBudget;
use crate::world::store::batches::cells::CellDir;
use crate::world::store::batches::claims::EarlierAttempts;
use crate::world::store::batches::{BatchDir, BatchRecord};
use crate::world::store::event_log::LogEntry;
use crate::world::store::redact::Redactor;
use crate::world::store::redacted_writer::RedactedWriter;
use crate::world::store::runs::{self, RunDir, RunStatus};
use crate::world::store::sessions;

/// A cell whose run starts or is resumed.
#[derive(Debug)]
pub(super) struct CellRun<'a> {
    /// The process, in the user's directory.
    pub(super) host: &'a Host,
    /// The batch.
    pub(super) batch: &'a BatchDir,
    /// How the batch began.
    pub(super) record: &'a BatchRecord,
    /// The task.
    pub(super) task: &'a BatchTask,
    /// The number of this attempt, from 1.
    pub(super) attempt: u32,
    /// The attempts before this one.
    pub(super) earlier_attempts: EarlierAttempts,
    /// The tokens that stop the run.
    pub(super) stop: ShutdownSignal,
}

impl CellRun<'_> {
    /// Returns when each attempt at the cell began.
    fn attempt_starts(&self) -> Result<Vec<LocalDateTime>> {
        let id = &self.task.id;
        let attempts = 1..=self.batch.last_attempt(id)?;
        let owners = attempts.filter_map(|attempt| self.batch.claim_owner(id, attempt));
        Ok(owners
            .filter_map(|owner| LocalDateTime::parse(&owner.since))
            .collect())
    }

    /// Returns whether the work in `cell` has a run that this attempt resumes.
    fn can_resume(&self, cell: &CellDir) -> bool {
        cell.is_prepared() && self.earlier_attempts.can_resume(cell.first_attempt())
    }
}

/// Runs a cell and reports how that ended. An error of the run is part of the report; only one of
/// the batch itself, such as unreadable records, is returned.
pub(super) async fn run_in_cell(run: CellRun<'_>) -> Result<CellRunReport> {
    let cell = run.batch.cell_dir(&run.task.id);
    let is_resumed = run.can_resume(&cell);
    let host = cell_host(run.host, cell.work());
    if is_resumed && has_ended_run(&host)? {
        // Its process was killed after the end of the run and before the result was published.
        return CellRunReport::from_records(
            &host,
            &run.attempt_starts()?,
            None,
            &Redactor::default(),
        );
    }
    if !is_resumed {
        cell.begin_anew(run.attempt)?;
    }
    let park = run.stop.park.clone();
    let budget = run
        .batch
        .cell_budget(&run.task.id, run.earlier_attempts.spent, park)?
        .map(Arc::new);
    // The secrets of the config are added as soon as it is loaded.
    let mut redactor = Redactor::new(environment_secrets(&host));
    let execution = prepare_and_execute(
        &run,
        &cell,
        &host,
        is_resumed,
        budget.clone(),
        &mut redactor,
    );
    let attempt_error = Box::pin(execution).await.err();
    let error = attempt_error
        .as_ref()
        .map(|attempt_error| &attempt_error.error);
    if let Some(error) = error {
        redacted_output(&cell, redactor.clone())?.error(error);
    }
    let mut report = CellRunReport::from_records(&host, &run.attempt_starts()?, error, &redactor)?;
    report.end.error_origin = attempt_error
        .map(|attempt_error| attempt_error.origin)
        .unwrap_or_default();
    report.end.is_out_of_money = budget.is_some_and(|budget| budget.is_exhausted());
    Ok(report)
}

/// Reports a cell whose processes were lost too often, as `error` says: also what its run has cost.
pub(super) fn report_lost_run(
    run: &CellRun<'_>,
    error: &Error,
    redactor: &Redactor,
) -> Result<CellRunReport> {
    let cell = run.batch.cell_dir(&run.task.id);
    if !run.can_resume(&cell) {
        return CellRunReport::from_error(error, redactor);
    }
    let host = cell_host(run.host, cell.work());
    CellRunReport::from_records(&host, &run.attempt_starts()?, Some(error), redactor)
}

/// An error that ended an attempt, and where it came from.
#[derive(Debug)]
struct AttemptError {
    error: Error,
    origin: AttemptErrorOrigin,
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> Self {
        Self {
            error,
            origin: AttemptErrorOrigin::Cell,
        }
    }
}

/// Prepares the work and executes the run. `redactor` gets the secrets of its config.
async fn prepare_and_execute(
    run: &CellRun<'_>,
    cell: &CellDir,
    host: &Host,
    is_resumed: bool,
    budget: Option<Arc<CellBudget>>,
    redactor: &mut Redactor,
) -> std::result::Result<(), AttemptError> {
    let output = &mut redacted_output(cell, redactor.clone())?;
    if !is_resumed {
        prepare_work(run, cell, output).await?;
    }
    finish_interrupted_deliveries(host, output)?;
    let arguments = run_arguments(run);
    let (file, config) =
        load_team(run, host, &arguments, output).map_err(|error| AttemptError {
            error,
            origin: config_origin(run.task),
        })?;
    *redactor = Redactor::new(secret_values(&config, host));
    // From here on, the secrets of the config are redacted too.
    let output = &mut redacted_output(cell, redactor.clone())?;
    let team = ResumedTeam {
        // The file of the prices is relative to the user's directory.
        models: model_list(run.host, arguments.models.as_deref(), output)?,
        telemetry: telemetry_settings(host, output),
        host: host.clone(),
        config,
        file: Some(file),
    };
    let request = match find_unfinished(&team)? {
        Some(unfinished) => {
            let manifest = unfinished.run.manifest()?;
            build_resumed_request(&unfinished, manifest, team, &arguments, output)?
        }
        None => new_request(run, team, &arguments, output)?,
    };
    if run.stop.park.is_cancelled() {
        return Err(parked_before_run().into());
    }
    let request = RunRequest {
        shared_budget: budget.map(|budget| -> Arc<dyn SharedBudget> { budget }),
        ..request
    };
    let execution = execute_and_show(
        request,
        UserPresence::Absent,
        &arguments,
        run.stop.clone(),
        output,
        OutputMode::Streams,
    );
    // The outcome is dropped: the report is read from the records of the run.
    let result = Box::pin(execution).await;
    result.map(drop).map_err(AttemptError::from)
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
async fn prepare_work(run: &CellRun<'_>, cell: &CellDir, output: &mut CliOutput<'_>) -> Result<()> {
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
    cell.mark_prepared(created_ns)
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

/// Returns where an error of the config of `task` comes from: a config or checks of its own concern
/// no other cell.
fn config_origin(task: &BatchTask) -> AttemptErrorOrigin {
    if task.config.is_none() && task.checks.is_none() {
        AttemptErrorOrigin::Config
    } else {
        AttemptErrorOrigin::Cell
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
    apply_flags(&mut config, arguments, output);
    if config.limits.cost.is_none()
        && let Some(budget) = run.batch.budget()?
    {
        // So that models without a price are refused before any request.
        config.limits.cost = Some(budget.limit);
    }
    if run.task.project.is_some() {
        open_copy(&mut config, &host.cwd);
    }
    Ok((file, config))
}

/// Returns the request of a new run.
fn new_request(
    run: &CellRun<'_>,
    team: ResumedTeam,
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
        host: team.host,
        config: team.config,
        team_file: team.file,
        other_files: Vec::new(),
        models: team.models,
        prompt,
        opened_paths: opened,
        continued_session: None,
        telemetry: team.telemetry,
        approvals: SessionApprovals::default(),
    };
    run_request(prepared, arguments)
}

/// Finds the interrupted run of the cell, if there is one.
fn find_unfinished(team: &ResumedTeam) -> Result<Option<InterruptedRun>> {
    let storage = &team.config.orchestrator.session_storage;
    let sessions = storage.resolve(&team.host.state_parent, None);
    let session_exists = |session: &str| sessions::find(session, &sessions).is_ok();
    find_interrupted(&logs_directory(&team.host), None, session_exists)
}

/// Returns whether the last run of the cell has recorded its end.
fn has_ended_run(host: &Host) -> Result<bool> {
    let last_run = runs::list(&logs_directory(host))?
        .into_iter()
        .find(RunDir::is_own);
    let Some(run) = last_run else {
        return Ok(false);
    };
    if run.state().status == RunStatus::Ended {
        return Ok(true);
    }
    // The process may have been killed between the last event and the last status.
    let is_end =
        |entry: LogEntry| matches!(entry.event, Some(Event::Run(RunEvent::RunEnded { .. })));
    Ok(run.has_log()? && run.events()?.flatten().any(is_end))
}

/// Returns the directory of the logs of the cell's runs.
pub(super) fn logs_directory(host: &Host) -> AbsPath {
    host.state_parent.join(STATE_DIR).join(LOGS)
}
