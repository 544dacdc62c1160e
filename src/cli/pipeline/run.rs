//! Runs a pipeline for the command line or the page: starts a prepared one or resumes an
//! interrupted one, and shows events as they happen.

use tokio::sync::mpsc;

use crate::agent::user_messages::{UserMessageSender, user_message_channel};
use crate::cli::args::RunArguments;
use crate::cli::command_line::usage_error;
use crate::cli::environment;
use crate::cli::execution::{EVENTS_WAITING_MAX, RunCompanion};
use crate::cli::model_prices::model_list;
use crate::cli::output::CliOutput;
use crate::cli::prune::prune_after_run;
use crate::cli::result_builder::RunStart;
use crate::cli::run_context::run_context;
use crate::cli::run_context::{PreparedRun, RunTeam, secret_values};
use crate::cli::run_flags::apply_flags;
use crate::cli::run_flags::telemetry_settings;
use crate::cli::run_frontend::OutputMode;
use crate::cli::run_frontend::{Decider, RunOutcome};
use crate::cli::team::load_config;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::storage_path::{LOGS, PIPELINES, STATE_DIR};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::layout::{RunLayout, RunName};
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::TurnResult;
use crate::orchestrator::approvals::SessionApprovals;
use crate::orchestrator::execution::{RunOutputPaths, ShutdownSignal};
use crate::orchestrator::program_files::privileged_files;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::pipeline::repository::{NewPipeline, PipelineRepository};
use crate::pipeline::{PipelineContext, PipelineRun, agents_of_stages};
use crate::world::io::files::{read_capped, write_output_file};
use crate::world::store::pipelines::{PipelineDir, find, list, lookup};
use crate::world::store::prune::ProjectStore;
use crate::world::store::records::metadata;
use crate::world::store::redact::Redactor;
use crate::world::store::{prepare_state_dir, runs};

/// Maximum size of an answers file, in bytes.
const ANSWERS_BYTES_MAX: u64 = 1024 * 1024;

/// Returns the directory of the pipelines of this directory.
pub(crate) fn pipelines_directory(host: &Host) -> AbsPath {
    host.state_parent.join(STATE_DIR).join(PIPELINES)
}

/// Finds the pipeline of this directory to resume if no task is given: the one that is named, or
/// the last one. One that has ended reports its result again, and to resume one on which another
/// process works is an error.
pub(crate) fn find_pipeline_to_resume(
    name: Option<&str>,
    host: &Host,
) -> Result<Option<PipelineDir>> {
    let pipelines = pipelines_directory(host);
    match name {
        Some(name) => lookup(name, &pipelines),
        None => Ok(list(&pipelines)?.into_iter().next()),
    }
}

/// What a pipeline needs to work.
struct PipelineLaunch<'a> {
    config: Config,
    state_parent: AbsPath,
    context: PipelineContext,
    sender: UserMessageSender,
    arguments: &'a RunArguments,
}

/// Starts the pipeline of a prepared run, and shows it.
pub(crate) async fn begin(
    prepared: PreparedRun,
    arguments: &RunArguments,
    stop: ShutdownSignal,
    output: &mut CliOutput<'_>,
    mode: OutputMode<'_>,
) -> Result<RunOutcome> {
    if prepared.continued_session.is_some() {
        return Err(
            usage_error("a pipeline is not part of a session").with_hint(
                "omit `--continue` and `--session-id`, or omit the task to resume a pipeline",
            ),
        );
    }
    let is_for_writing = |opened: &&OpenedPath| opened.permission == Permission::Write;
    if let Some(opened_path) = prepared.opened_paths.iter().find(is_for_writing) {
        let message = format!(
            "`{}` is opened for writing, but a pipeline cannot write to context paths",
            opened_path.path
        );
        return Err(Error::new(ErrorKind::Usage, message).with_hint(
            "mention it without `:w`; `massgen apply` delivers the result of the pipeline",
        ));
    }
    let (team, opened) = (prepared.team, prepared.opened_paths);
    let (state_parent, env) = (team.host.state_parent.clone(), team.host.env.clone());
    let pipelines = pipelines_directory(&team.host);
    prepare_state_dir(&state_parent.join(STATE_DIR), [&pipelines])?;
    let mut launch = PipelineLaunch::new(team, opened, prepared.approvals, arguments)?;
    let workflow = launch
        .config
        .workflow
        .as_ref()
        .ok_or_else(|| Error::bug("the config has no pipeline"))?;
    let context = &mut launch.context;
    let (repository, notes) = PipelineRepository::create(NewPipeline {
        workflow,
        task: &prepared.prompt.original_prompt,
        question: &prepared.prompt.cleaned_prompt,
        opened: &context.run.opened,
        base: &context.run.base,
        state_parent: &state_parent,
        pipelines: &pipelines,
        env: &env,
        invocation: &context.run.invocation,
        redactor: &context.run.redactor,
    })
    .await?;
    // A terminal shows them before the run begins; a front end, with its events.
    match &mode {
        OutputMode::Frontend(frontend) if frontend.decider() == Decider::User => {
            context.notes = notes;
        }
        OutputMode::Frontend(_) | OutputMode::Streams(_) => {
            for note in &notes {
                output.warning(note);
            }
        }
    }
    let execution = launch.run(repository, stop, output, mode);
    Box::pin(execution).await
}

/// Resumes the pipeline in `dir`, and shows it.
pub(crate) async fn resume(
    dir: PipelineDir,
    host: &Host,
    typed_arguments: &RunArguments,
    stop: ShutdownSignal,
    output: &mut CliOutput<'_>,
    mode: OutputMode<'_>,
) -> Result<RunOutcome> {
    let telemetry = telemetry_settings(host, output);
    let loaded_environment = environment::load(host);
    loaded_environment
        .warnings
        .iter()
        .for_each(|warning| output.warning(warning));
    let host = loaded_environment.host;
    let repository = PipelineRepository::reopen(dir, &host.env).await?;
    repository.require_start_directory(&host.cwd, "resume it there, or start the task again")?;
    let record = &repository.record;
    let arguments = typed_arguments.with_recorded(&record.arguments)?;
    let (file, name) = match (&typed_arguments.config, &record.config_path) {
        // A built-in config has no path: the recorded flags name it.
        (Some(_), _) | (None, None) => {
            let name = arguments.config.clone().unwrap_or_default();
            (TeamFile::find(&name, &host)?, name)
        }
        (None, Some(path)) => (TeamFile::from_session(path, &host)?, path.to_string()),
    };
    let file = file.with_settings(&typed_arguments.set);
    let config = load_config(&file, &host, output)?;
    let redactor = Redactor::new(secret_values(&config, &host));
    let has_changed = record.config.as_ref() != Some(&redactor.text(&file.text()));
    if has_changed && typed_arguments.config.is_none() {
        let message = format!("config `{name}` has changed since the pipeline started");
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("restore it, or name the config to use with `--config`"));
    }
    let models = model_list(&host, arguments.models.as_deref(), output)?;
    let team = RunTeam {
        host,
        config,
        file: Some(file),
        other_files: Vec::new(),
        models,
        telemetry,
    };
    let execution = resume_with_team(repository, team, &arguments, stop, output, mode);
    Box::pin(execution).await
}

/// Resumes the pipeline of `repository` with `team`, to which the flags in `arguments` are applied,
/// and shows it.
pub(crate) async fn resume_with_team(
    mut repository: PipelineRepository,
    mut team: RunTeam,
    arguments: &RunArguments,
    stop: ShutdownSignal,
    output: &mut CliOutput<'_>,
    mode: OutputMode<'_>,
) -> Result<RunOutcome> {
    let workflow = team.config.workflow.as_ref();
    let stages = workflow.map(|workflow| &workflow.pipeline.stages);
    let roles = stages.into_iter().flatten().map(|stage| &stage.role.name);
    if !roles.eq(&repository.record.roles) {
        let name = team.file.as_ref().map_or("", TeamFile::name);
        let message = format!("config `{name}` has other roles than the pipeline");
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("use a config with the same roles, or start the task again"));
    }
    apply_flags(&mut team.config, arguments, output)?;
    output.note(&format!("resuming {}", repository.dir.name()));
    let opened = repository.record.opened.clone();
    let launch = PipelineLaunch::new(team, opened, SessionApprovals::default(), arguments)?;
    record_limits(&mut repository, arguments, &launch.context.run.redactor)?;
    let execution = launch.run(repository, stop, output, mode);
    Box::pin(execution).await
}

/// Records the limits in `arguments`, with which a pipeline is resumed, so that it keeps them when
/// it is resumed again.
fn record_limits(
    repository: &mut PipelineRepository,
    arguments: &RunArguments,
    redactor: &Redactor,
) -> Result<()> {
    let record = &mut repository.record;
    let words = arguments.replace_limit_words(record.arguments.clone());
    if words == record.arguments {
        return Ok(());
    }
    record.arguments = words;
    repository.dir.write_record(&repository.record, redactor)
}

/// Returns where the pipeline in `dir`, which reads messages from `inbox`, leaves its output.
fn output_paths(dir: &PipelineDir, inbox: Option<AbsPath>) -> RunOutputPaths {
    RunOutputPaths {
        log_dir: dir.dir().clone(),
        status_file: dir.dir().join("pipeline.json"),
        answer_file: dir.answer_file(),
        workspace: dir.workspace(),
        inbox,
    }
}

/// Returns what old runs of the project are removed from.
fn project_store(config: &Config, state_parent: &AbsPath) -> ProjectStore {
    // Any name will do: the parent directories do not depend on it.
    let layout = RunLayout::plan(config, state_parent, RunName::new(0));
    ProjectStore {
        state: layout.state,
        sessions: layout.sessions,
    }
}

impl<'a> PipelineLaunch<'a> {
    /// Connects the models of `team`.
    fn new(
        mut team: RunTeam,
        opened: Vec<OpenedPath>,
        approvals: SessionApprovals,
        arguments: &'a RunArguments,
    ) -> Result<Self> {
        let (sender, messages) = user_message_channel(agents_of_stages(&team.config)?);
        let agents = team.config.agents.iter();
        let cwd = &team.host.cwd;
        let program_files = agents.flat_map(|agent| privileged_files(agent, cwd, cwd));
        team.other_files = program_files.collect();
        let mut run = run_context(&team, opened, arguments)?;
        run.approvals.session = approvals;
        let context = PipelineContext {
            run,
            state_parent: team.host.state_parent.clone(),
            messages,
            answers: clarifications(cwd, arguments)?,
            notes: Vec::new(),
        };
        Ok(Self {
            config: team.config,
            state_parent: team.host.state_parent,
            context,
            sender,
            arguments,
        })
    }

    /// Executes the pipeline and shows it.
    async fn run(
        mut self,
        repository: PipelineRepository,
        stop: ShutdownSignal,
        output: &mut CliOutput<'_>,
        mode: OutputMode<'_>,
    ) -> Result<RunOutcome> {
        let (config, run) = (&self.config, &mut self.context.run);
        let companion = RunCompanion::open(
            config,
            run,
            self.sender,
            &stop,
            self.arguments,
            mode,
            output,
        )?;
        let (name, dir) = (repository.dir.name(), repository.dir.dir().clone());
        let start = RunStart {
            session_id: name.clone(),
            log_dir: dir.to_string(),
            task: repository.record.task.clone(),
        };
        let (answer_file, redactor) = (repository.dir.answer_file(), run.redactor.clone());
        let paths = output_paths(&repository.dir, run.inbox.clone());
        let (event_sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        let retention = config.retention;
        let store = project_store(config, &self.state_parent);
        metadata::write_limits(&dir, &config.limits)?;
        let pipeline = PipelineRun::new(self.config, self.context, repository, stop, event_sender)?;
        let keep = |result: &TurnResult| match &result.answer {
            Some(answer) => write_output_file(&answer_file, &redactor.text(&answer.text)),
            None => Ok(()),
        };
        let following = companion.follow(pipeline.run(), events, start, paths, output, keep);
        let (result, unsent_text) = Box::pin(following).await?;
        prune_after_run(&store, &retention, output);
        Ok(RunOutcome {
            status: result.status,
            session: name,
            log_dir: dir,
            unsent_text,
            hint: None,
            kept_files: None,
        })
    }
}

/// Reads the user's answers from the file of `--clarifications`.
fn clarifications(cwd: &AbsPath, arguments: &RunArguments) -> Result<Option<String>> {
    let Some(name) = &arguments.clarifications else {
        return Ok(None);
    };
    let path = cwd.join(name);
    let bytes = read_capped(&path, ANSWERS_BYTES_MAX)?.ok_or_else(|| {
        let message = format!("the file of `--clarifications` does not exist: `{path}`");
        Error::new(ErrorKind::Usage, message).with_hint("name a text file with your answers")
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let message = format!("the file of `--clarifications` is not UTF-8 text: `{path}`");
        Error::new(ErrorKind::Usage, message).with_source(error)
    })?;
    Ok(Some(text))
}

/// Finds the pipeline `requested_name` of this directory.
pub(super) fn resolve_pipeline(requested_name: &str, host: &Host) -> Result<PipelineDir> {
    find(requested_name, &pipelines_directory(host)).map_err(|error| {
        let logs = host.state_parent.join(STATE_DIR).join(LOGS);
        match runs::find(requested_name, &logs, &host.cwd) {
            Ok(run) => {
                let name = run.name();
                error.with_hint(format!(
                    "`{name}` is a run without roles: massgen logs show {name}"
                ))
            }
            Err(_) => error,
        }
    })
}
