//! Runs a pipeline for the command line or the page: starts a prepared one or resumes an
//! interrupted one, and shows events as they happen.

use tokio::sync::mpsc;

use crate::agent::user_messages::user_message_channel;
use crate::cli::args::RunArguments;
use crate::cli::command_line::usage_error;
use crate::cli::dashboard::settings::{DisplayFacts, select_dashboard};
use crate::cli::environment;
use crate::cli::execution::{
    EVENTS_WAITING_MAX, OutputMode, RunOutcome, UserPresence, connect_all, host_environment,
    run_invocation, secret_values, user_interaction,
};
use crate::cli::follow::follow_run;
use crate::cli::model_prices::model_list;
use crate::cli::opening_question::user_location;
use crate::cli::output::CliOutput;
use crate::cli::prune::prune_after_run;
use crate::cli::result_builder::RunStart;
use crate::cli::resume::ResumedTeam;
use crate::cli::run::{PreparedRun, apply_flags, telemetry_settings};
use crate::cli::run_observer::RunObserver;
use crate::cli::standard_stream::RunEndSignal;
use crate::cli::steering::SteeringInput;
use crate::cli::team::load_config;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::storage_path::{PIPELINES, STATE_DIR};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::layout::{RunLayout, RunName};
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::approvals::{ApprovalConfig, SessionApprovals};
use crate::orchestrator::execution::{RunOutputPaths, ShutdownSignal};
use crate::orchestrator::program_files::privileged_files;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::pipeline::repository::{NewPipeline, PipelineRepository};
use crate::pipeline::{PipelineContext, PipelineRun, agents_of_stages};
use crate::spending::models::ModelList;
use crate::world::diagnostics::telemetry::settings::TelemetrySettings;
use crate::world::io::answer_file::AnswerFile;
use crate::world::io::files::{read_capped, write_output_file};
use crate::world::store::approvals::ApprovalFile;
use crate::world::store::pipelines::{PipelineDir, list, lookup};
use crate::world::store::prepare_state_dir;
use crate::world::store::prune::ProjectStore;
use crate::world::store::records::metadata;
use crate::world::store::redact::Redactor;

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

/// Everything that a pipeline is started with.
struct PipelineLaunch<'a> {
    host: Host,
    config: Config,
    models: ModelList,
    opened: Vec<OpenedPath>,
    telemetry: Option<TelemetrySettings>,
    approvals: SessionApprovals,
    file: Option<TeamFile>,
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
    let launch = PipelineLaunch {
        host: prepared.host,
        config: prepared.config,
        models: prepared.models,
        opened: prepared.opened_paths,
        telemetry: prepared.telemetry,
        approvals: prepared.approvals,
        file: prepared.team_file,
        arguments,
    };
    let pipelines = pipelines_directory(&launch.host);
    prepare_state_dir(&launch.host.state_parent.join(STATE_DIR), [&pipelines])?;
    let (mut context, steering) = launch.pipeline_context()?;
    let workflow = launch
        .config
        .workflow
        .as_ref()
        .ok_or_else(|| Error::bug("the config has no pipeline"))?;
    let (repository, notes) = PipelineRepository::create(NewPipeline {
        workflow,
        task: &prepared.prompt.original_prompt,
        question: &prepared.prompt.cleaned_prompt,
        opened: &launch.opened,
        base: &launch.host.cwd,
        state_parent: &launch.host.state_parent,
        pipelines: &pipelines,
        env: &launch.host.env,
        invocation: &context.invocation,
        redactor: &context.redactor,
    })
    .await?;
    if let OutputMode::Page(_) = mode {
        context.notes = notes;
    } else {
        for note in &notes {
            output.warning(note);
        }
    }
    let execution = launch.run(context, steering, repository, stop, output, mode);
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
    let config = load_config(&file, &host, output)?;
    let redactor = Redactor::new(secret_values(&config, &host));
    let has_changed = record.config.as_ref() != Some(&redactor.text(&file.text()));
    if has_changed && typed_arguments.config.is_none() {
        let message = format!("config `{name}` has changed since the pipeline started");
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("restore it, or name the config to use with `--config`"));
    }
    let models = model_list(&host, arguments.models.as_deref(), output)?;
    let team = ResumedTeam {
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
    mut team: ResumedTeam,
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
    let launch = PipelineLaunch {
        host: team.host,
        config: team.config,
        models: team.models,
        opened: repository.record.opened.clone(),
        telemetry: team.telemetry,
        approvals: SessionApprovals::default(),
        file: team.file,
        arguments,
    };
    let (context, steering) = launch.pipeline_context()?;
    record_limits(&mut repository, arguments, &context.redactor)?;
    let execution = launch.run(context, steering, repository, stop, output, mode);
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
fn project_store(config: &Config, host: &Host) -> ProjectStore {
    // Any name will do: the parent directories do not depend on it.
    let layout = RunLayout::plan(config, &host.state_parent, RunName::new(0));
    ProjectStore {
        state: layout.state,
        sessions: layout.sessions,
    }
}

impl PipelineLaunch<'_> {
    /// Returns the pipeline's context, and the input of messages to its agents. Approvals and the
    /// keyboard are set later, once it is known where the output goes.
    fn pipeline_context(&self) -> Result<(PipelineContext, SteeringInput)> {
        let host = &self.host;
        let (sender, messages) = user_message_channel(agents_of_stages(&self.config)?);
        let inbox = self
            .arguments
            .inbox_dir
            .as_ref()
            .map(|dir| host.cwd.join(dir));
        let steering = SteeringInput::open(sender, inbox.as_ref(), None)?;
        let agents = self.config.agents.iter();
        let program_files: Vec<AbsPath> = agents
            .flat_map(|agent| privileged_files(agent, &host.cwd, &host.cwd))
            .collect();
        let context = PipelineContext {
            base: self.host.cwd.clone(),
            state_parent: self.host.state_parent.clone(),
            opened: self.opened.clone(),
            models: connect_all(&self.config, &self.models, host)?,
            redactor: Redactor::new(secret_values(&self.config, host)),
            telemetry: self.telemetry.clone(),
            invocation: run_invocation(self.file.as_ref(), &program_files, host, self.arguments),
            host: host_environment(host),
            approvals: ApprovalConfig::default(),
            messages,
            inbox,
            answers: self.clarifications()?,
            notes: Vec::new(),
        };
        Ok((context, steering))
    }

    /// Reads the user's answers from the file of `--clarifications`.
    fn clarifications(&self) -> Result<Option<String>> {
        let Some(name) = &self.arguments.clarifications else {
            return Ok(None);
        };
        let path = self.host.cwd.join(name);
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

    async fn run(
        self,
        mut context: PipelineContext,
        mut steering: SteeringInput,
        repository: PipelineRepository,
        stop: ShutdownSignal,
        output: &mut CliOutput<'_>,
        mode: OutputMode<'_>,
    ) -> Result<RunOutcome> {
        let Self {
            host,
            config,
            approvals,
            arguments,
            ..
        } = self;
        let answer_file = arguments
            .output_file
            .as_ref()
            .map(|file| AnswerFile::new(host.cwd.join(file), user_location(&host)))
            .transpose()?;
        let presence = UserPresence::detect(&host);
        let facts = DisplayFacts {
            config: &config,
            env: &host.env,
            size: mode.watched_terminal(presence),
        };
        let dashboard = select_dashboard(&facts, arguments)?;
        if let OutputMode::Page(page) = &mode {
            page.accept_messages(steering.sender.clone());
            page.show_limits(config.limits);
        }
        let interaction = user_interaction(&config, &host.cwd, presence, arguments, &mode, output)?;
        steering.keyboard = interaction.typed_messages(&host.env);
        context.approvals = ApprovalConfig {
            channel: interaction.approval_channel.clone(),
            session: approvals,
            persistent: host.home.as_ref().map(ApprovalFile::in_home),
        };
        let questions = interaction.into_questions(stop.graceful.clone());
        // Its stages have the time limits.
        let end = RunEndSignal::new(&stop, None);
        output.set_run_end(Some(end.clone()));
        let (name, dir) = (repository.dir.name(), repository.dir.dir().clone());
        let run_start = RunStart {
            session_id: name.clone(),
            log_dir: dir.to_string(),
            task: repository.record.task.clone(),
        };
        let (kept_answer_file, redactor) = (repository.dir.answer_file(), context.redactor.clone());
        let paths = output_paths(&repository.dir, context.inbox.clone());
        let (event_sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        let retention = config.retention;
        let store = project_store(&config, &host);
        metadata::write_limits(&dir, &config.limits)?;
        // A page follows the log, which exists from now on.
        let pipeline = PipelineRun::new(config, context, repository, stop, event_sender)?;
        let observer_redactor = redactor.clone();
        let view = RunObserver::begin(
            mode,
            dashboard,
            run_start,
            observer_redactor,
            arguments,
            paths,
            output,
        )?;
        let run = pipeline.run();
        let (result, view_result) =
            Box::pin(follow_run(run, end, events, view, questions, &mut steering)).await;
        let result = result?;
        if let Some(answer) = &result.answer {
            write_output_file(&kept_answer_file, &redactor.text(&answer.text))?;
        }
        if let (Some(file), Some(answer)) = (&answer_file, &result.answer) {
            file.write(&answer.text)?;
        }
        view_result?;
        prune_after_run(&store, &retention, output);
        Ok(RunOutcome {
            status: result.status,
            session: name,
            log_dir: dir,
            unsent_text: steering.line.take_text(),
            hint: None,
            kept_files: None,
        })
    }
}
