//! Executes a run for the command line: connects the models, passes the events on as they happen,
//! and reports how the run ended.

use std::fmt::Debug;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc::{self, Receiver};

use crate::agent::user_messages::{UserMessageSender, user_message_channel};
use crate::backend::connect::{ConnectContext, connect, require_scripts};
use crate::backend::rate_limit::RateLimiter;
use crate::cli::args::RunArguments;
use crate::cli::command_line::usage_error;
use crate::cli::dashboard::settings::{DashboardSettings, DisplayFacts, select_dashboard};
use crate::cli::follow::{TerminalQuestions, follow_run};
use crate::cli::json_report::JsonReport;
use crate::cli::kept_attempts::KeptAttempts;
use crate::cli::model_prices::{require_prices, uncounted_models_warning};
use crate::cli::output::CliOutput;
use crate::cli::pipeline;
use crate::cli::prune::prune_after_run;
use crate::cli::report_files::ReportFiles;
use crate::cli::result_builder::RunStart;
use crate::cli::resume::resume_command_line;
use crate::cli::run::{PreparedRun, RunTeam, reject_parking};
use crate::cli::run_observer::RunObserver;
use crate::cli::standard_stream::RunEndSignal;
use crate::cli::steering::SteeringInput;
use crate::cli::team_file::TeamFile;
use crate::config::secrets::is_secret;
use crate::config::vendors::{is_key_variable, key_variables};
use crate::config::{Config, DeliveryMode};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::event::{DeliveryOutcome, DeliveryRow, Event, InputChannel};
use crate::host::{Host, StreamTarget};
use crate::id::AgentId;
use crate::layout::RunLayout;
use crate::mentions::LookupResult;
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::approvals::{ApprovalChannel, ApprovalConfig};
use crate::orchestrator::execution::{
    RunContext, RunExecution, RunOutputPaths, RunRequest, ShutdownSignal, new_run_name,
};
use crate::orchestrator::process_specs::HostEnvironment;
use crate::orchestrator::record_context::RunInvocation;
use crate::orchestrator::review::{Reviewer, UserQuestion, reviewer_channel};
use crate::orchestrator::{ModelsByAgent, TurnResult};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::permissions::path_rules::RuleAction;
use crate::spending::limits::BudgetLimits;
use crate::spending::models::ModelList;
use crate::world::approval::socket::expect_socket;
use crate::world::diagnostics::probe::terminal::{TerminalSize, stderr_size};
use crate::world::io::answer_file::AnswerFile;
use crate::world::io::files::{inspect, read_regular_file};
use crate::world::io::http::HttpClient;
use crate::world::io::project_link::UserLocation;
use crate::world::io::terminal_input::TerminalInput;
use crate::world::sandbox::docker::credentials::{self, HostUser};
use crate::world::store::approvals::ApprovalFile;
use crate::world::store::diagnostic_log::LogDetail;
use crate::world::store::prune::ProjectStore;
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::session::Session;

/// Capacity of the event channel: as many events may wait while a person is asked in lines, or the
/// output is not read. Then the run waits too.
pub(crate) const EVENTS_WAITING_MAX: usize = 4096;
/// Maximum size of a script of replies, in bytes.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Executes a prepared run, or its pipeline, and shows it.
pub(crate) async fn execute(
    prepared: PreparedRun,
    arguments: &RunArguments,
    stop: ShutdownSignal,
    output: &mut CliOutput<'_>,
    mode: OutputMode<'_>,
) -> Result<RunOutcome> {
    let team = &prepared.team;
    let uncounted = uncounted_models_warning(&team.config, &team.models);
    if let Some(warning) = uncounted
        && output.is_new_notice("uncounted models", &warning)
    {
        output.warning(&warning);
    }
    if team.config.workflow.is_some() {
        reject_parking(arguments)?;
        let run = pipeline::run::begin(prepared, arguments, stop, output, mode);
        return Box::pin(run).await;
    }
    let request = run_request(prepared, arguments)?;
    Box::pin(execute_and_show(request, arguments, stop, output, mode)).await
}

/// What shows a run elsewhere than on the two standard streams.
pub(crate) trait RunFrontend: Debug + Send {
    /// Begins the run, which has its records now.
    fn begin(
        &mut self,
        start: RunStart,
        redactor: Redactor,
        output: &mut CliOutput<'_>,
    ) -> Result<()>;

    /// Receives the next event, whose warning was printed.
    fn on_event(&mut self, event: &Event, output: &mut CliOutput<'_>) -> Result<()>;

    /// Returns who decides about deliveries, and who approves calls.
    fn decider(&self) -> Decider;

    /// Receives the sender of messages to the agents, and the limits of the run.
    fn accept_messages(&self, _sender: &UserMessageSender, _limits: BudgetLimits) {}

    /// Asks its user, if it has one; without an answer, the question is dropped.
    fn ask(&self, _question: UserQuestion) {}
}

/// Who decides about the deliveries of a run that is not shown on the standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decider {
    /// A person, who also approves calls.
    User,
    /// Nobody can be asked: what may be delivered without a review is applied.
    Config,
    /// Clients that cannot answer: a delivery that needs a review is not applied.
    Clients,
}

/// Where the events and the result of a run go.
#[derive(Debug)]
pub(crate) enum OutputMode<'r> {
    /// To the two standard streams, as lines or on the dashboard.
    Streams(UserPresence),
    /// To something else.
    Frontend(&'r mut dyn RunFrontend),
}

impl<'r> OutputMode<'r> {
    /// Returns the mode of a run that is started by `host`, with its report in JSON if there is one.
    pub(crate) fn new(host: &Host, report: Option<&'r mut JsonReport>) -> Self {
        match report {
            Some(report) => OutputMode::Frontend(report),
            None => OutputMode::Streams(UserPresence::detect(host)),
        }
    }

    /// Returns the size of the terminal on which a user watches the run, if one does.
    fn watched_terminal(&self) -> Option<TerminalSize> {
        let is_watched = matches!(self, Self::Streams(UserPresence::Present));
        is_watched.then(stderr_size).flatten()
    }
}

/// Whether a user is at the terminal and can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserPresence {
    /// At a terminal.
    Present,
    /// Not at a terminal.
    Absent,
}

impl UserPresence {
    /// Detects whether standard input and standard error of `host` are terminals.
    pub(crate) fn detect(host: &Host) -> Self {
        let has_terminal = |stream: StreamTarget| stream == StreamTarget::Terminal;
        Self::from_flag(has_terminal(host.stdin) && has_terminal(host.stderr))
    }

    /// Returns `Present` if `is_present`.
    pub(crate) fn from_flag(is_present: bool) -> Self {
        if is_present {
            UserPresence::Present
        } else {
            UserPresence::Absent
        }
    }
}

/// What accompanies a run or a pipeline: its display, the questions to its user, and the user's
/// messages.
#[derive(Debug)]
pub(crate) struct RunCompanion<'r, 'm> {
    mode: OutputMode<'m>,
    arguments: &'r RunArguments,
    dashboard: Option<DashboardSettings>,
    reviewer: Option<Reviewer>,
    questions: TerminalQuestions,
    steering: SteeringInput,
    end: RunEndSignal,
    redactor: Redactor,
    answer_file: Option<AnswerFile>,
    report_files: Option<ReportFiles>,
}

impl<'r, 'm> RunCompanion<'r, 'm> {
    /// Opens what accompanies a run in `context`, and enters there how calls are approved. `sender`
    /// sends messages to its agents.
    pub(crate) fn open(
        config: &Config,
        context: &mut RunContext,
        sender: UserMessageSender,
        stop: &ShutdownSignal,
        arguments: &'r RunArguments,
        mode: OutputMode<'m>,
        output: &mut CliOutput<'_>,
    ) -> Result<Self> {
        let home = context.host.home.as_ref();
        let location = UserLocation {
            base: &context.base,
            home,
        };
        let answer_file = arguments.output_file.as_ref();
        let answer_file = answer_file
            .map(|file| AnswerFile::new(context.base.join(file), location))
            .transpose()?;
        let report_files = ReportFiles::new(arguments, location)?;
        let facts = DisplayFacts {
            config,
            env: &context.host.env,
            size: mode.watched_terminal(),
        };
        let dashboard = select_dashboard(&facts, arguments)?;
        let interaction = user_interaction(config, &context.base, arguments, &mode, output)?;
        context.approvals.channel = interaction.approval_channel;
        context.approvals.persistent = home.map(ApprovalFile::in_home);
        if let OutputMode::Frontend(frontend) = &mode {
            frontend.accept_messages(&sender, config.limits);
        }
        let takes_keys = interaction.takes_typed_messages;
        let keyboard = takes_keys.then(|| TerminalInput::start(&context.host.env));
        // The stages of a pipeline have limits of their own.
        let seconds = config.timeouts.orchestrator_seconds;
        let end = RunEndSignal::new(stop, config.workflow.is_none().then_some(seconds));
        output.set_run_end(Some(end.clone()));
        Ok(Self {
            mode,
            arguments,
            dashboard,
            reviewer: interaction.reviewer,
            questions: TerminalQuestions {
                receiver: interaction.questions,
                stop: stop.graceful.clone(),
            },
            steering: SteeringInput::open(sender, context.inbox.as_ref(), keyboard.flatten())?,
            end,
            redactor: context.redactor.clone(),
            answer_file,
            report_files,
        })
    }

    /// Follows `run` to its end, and writes its answer to the user's file and then with `keep`.
    /// Returns its result, and the beginning of a line that the user typed and did not send.
    pub(crate) async fn follow(
        mut self,
        run: impl Future<Output = Result<TurnResult>> + Send + 'static,
        events: Receiver<Event>,
        start: RunStart,
        paths: RunOutputPaths,
        output: &mut CliOutput<'_>,
        keep: impl FnOnce(&TurnResult) -> Result<()>,
    ) -> Result<(TurnResult, String)> {
        let mut report = self.report_files.map(|files| files.begin(start.clone()));
        let observer = RunObserver::begin(
            &mut self.mode,
            self.dashboard,
            start,
            self.redactor.clone(),
            self.arguments,
            paths,
            output,
        )?;
        let steering = &mut self.steering;
        let following = follow_run(
            run,
            self.end,
            events,
            observer,
            report.as_mut(),
            self.questions,
            steering,
        );
        let (result, observer_result) = Box::pin(following).await;
        let result = result?;
        if let (Some(file), Some(answer)) = (&self.answer_file, &result.answer) {
            file.write(&answer.text)?;
        }
        if let Some(report) = report {
            report.write(&self.redactor)?;
        }
        keep(&result)?;
        // Only now, so that an output that failed does not cost the answer file.
        observer_result?;
        Ok((result, self.steering.line.take_text()))
    }
}

/// Executes `request` and shows it.
pub(crate) async fn execute_and_show(
    mut request: RunRequest,
    arguments: &RunArguments,
    stop: ShutdownSignal,
    output: &mut CliOutput<'_>,
    mode: OutputMode<'_>,
) -> Result<RunOutcome> {
    let kept_attempts = match &arguments.keep_attempts {
        Some(dir) => Some(KeptAttempts::new(&request, dir).await?),
        None => None,
    };
    let agents = request.config.agents.iter().map(|agent| agent.id.clone());
    let (sender, messages) = user_message_channel(agents);
    request.messages = messages;
    let (config, context) = (&request.config, &mut request.context);
    let companion = RunCompanion::open(config, context, sender, &stop, arguments, mode, output)?;
    request.reviewer.clone_from(&companion.reviewer);
    let (task, retention) = (request.task.clone(), request.config.retention);
    let store = ProjectStore {
        state: request.layout.state.clone(),
        sessions: request.layout.sessions.clone(),
    };
    let is_writable = write_paths(&request).any(|path| request.context.base.is_within(path));
    let run = RunExecution::prepare(request, stop)?;
    let (session, paths) = (run.session_id(), run.output_paths());
    let start = RunStart {
        session_id: session.clone(),
        log_dir: paths.log_dir.to_string(),
        task,
    };
    let (event_sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
    let keep = |_: &TurnResult| match &kept_attempts {
        Some(kept_attempts) => kept_attempts.write(&paths.log_dir),
        None => Ok(()),
    };
    let run = run.execute(event_sender);
    let following = companion.follow(run, events, start, paths.clone(), output, keep);
    let (result, unsent_text) = Box::pin(following).await?;
    prune_after_run(&store, &retention, output);
    Ok(RunOutcome {
        status: result.status,
        session,
        unsent_text,
        hint: next_command_hint(result.status, &result.rows, arguments),
        kept_files: kept_files(paths.workspace, result.status, &result.rows, is_writable),
        log_dir: paths.log_dir,
    })
}

/// Returns the user's paths that agents of `request` may write to.
pub(crate) fn write_paths(request: &RunRequest) -> impl Iterator<Item = &AbsPath> {
    let opened = request.context.opened.iter();
    let opened = opened.filter(|opened| opened.permission == Permission::Write);
    let config_paths = request.config.write_paths();
    config_paths.chain(opened.map(|opened| &opened.path))
}

/// Returns `workspace`, the winner's files in the session, if they stay there.
fn kept_files(
    workspace: AbsPath,
    status: ExitStatus,
    rows: &[DeliveryRow],
    is_writable: bool,
) -> Option<AbsPath> {
    let is_there =
        is_kept(status, rows, is_writable) && inspect(&workspace) == LookupResult::Directory;
    is_there.then_some(workspace)
}

/// Returns whether the winner's files stay in the session because there was no path to deliver them
/// to. The files of an interrupted run are those of its resumption.
fn is_kept(status: ExitStatus, rows: &[DeliveryRow], is_writable: bool) -> bool {
    status != ExitStatus::Interrupted && rows.is_empty() && !is_writable
}

/// Returns the command to suggest to the user after a run with these arguments and this exit status
/// whose delivery had these outcomes.
fn next_command_hint(
    status: ExitStatus,
    rows: &[DeliveryRow],
    arguments: &RunArguments,
) -> Option<String> {
    if status == ExitStatus::Interrupted {
        return Some(format!("resume it: {}", resume_command_line(arguments)));
    }
    let is_left = |row: &DeliveryRow| {
        matches!(
            row.outcome,
            DeliveryOutcome::Declined | DeliveryOutcome::Changed { hunks: Some(_) }
        )
    };
    let is_any_delivered = rows.iter().any(|row| row.outcome.is_delivered());
    let hint = match (is_any_delivered, rows.iter().any(is_left)) {
        (true, true) => "undo: massgen undo, or apply the rest: massgen apply",
        (true, false) => "undo: massgen undo",
        (false, true) => "apply it later: massgen apply",
        (false, false) => return None,
    };
    Some(hint.to_owned())
}

/// Returns whether a rule of any agent asks for approval.
fn has_ask_rules(config: &Config) -> bool {
    let mut rules = config
        .agents
        .iter()
        .flat_map(|agent| agent.permissions.rules.iter());
    rules.any(|rule| rule.action == RuleAction::Ask)
}

/// The channels to the user during a run: approvals, the review and questions.
struct UserInteraction {
    approval_channel: ApprovalChannel,
    /// The reviewer of deliveries, if there is one.
    reviewer: Option<Reviewer>,
    /// The questions for the terminal.
    questions: Receiver<UserQuestion>,
    /// Whether lines that the user types meanwhile are messages to the agents.
    takes_typed_messages: bool,
}

/// Decides who answers approval requests and reviews the delivery in a run of `config` that was
/// started in `base`.
fn user_interaction(
    config: &Config,
    base: &AbsPath,
    arguments: &RunArguments,
    mode: &OutputMode<'_>,
    output: &mut CliOutput<'_>,
) -> Result<UserInteraction> {
    let (is_at_terminal, decider) = match mode {
        OutputMode::Streams(user) => {
            let is_present = *user == UserPresence::Present;
            (is_present && !arguments.automation, Decider::Config)
        }
        OutputMode::Frontend(frontend) => (false, frontend.decider()),
    };
    let may_ask = is_at_terminal || decider == Decider::User;
    let is_for_clients = decider == Decider::Clients;
    if arguments.delivery.review && !may_ask && !is_for_clients {
        return Err(unanswerable_review_error());
    }
    let (reviewer, questions) = reviewer_channel(match decider {
        Decider::User => InputChannel::Web,
        Decider::Config | Decider::Clients => InputChannel::Terminal,
    });
    let approval_channel = match &arguments.approval_socket {
        Some(socket) => ApprovalChannel::Socket(expect_socket(&base.join(socket))?),
        None if may_ask => ApprovalChannel::Terminal(reviewer.clone()),
        None => ApprovalChannel::Unavailable,
    };
    if matches!(approval_channel, ApprovalChannel::Unavailable) && has_ask_rules(config) {
        output.warning(
            "no terminal to ask on: calls that match `permissions.ask` will be denied (use \
             `--approval-socket`)",
        );
    }
    let is_for_person =
        matches!(mode, OutputMode::Streams(_)) && !arguments.automation && !arguments.delivery.yes;
    if config.delivery == DeliveryMode::Review && is_for_person && !is_at_terminal {
        output.note(
            "no terminal to review on: `delivery: review` has no effect, and what the run may \
             deliver is applied",
        );
    }
    // Clients cannot answer the reviewer, so a delivery that it is asked about is not applied.
    let has_reviewer = is_for_clients || (may_ask && !arguments.delivery.yes);
    Ok(UserInteraction {
        approval_channel,
        reviewer: has_reviewer.then_some(reviewer),
        questions,
        takes_typed_messages: is_at_terminal,
    })
}

/// Refuses `--review` where no one can answer: the run would deliver what the user wants to see
/// first.
fn unanswerable_review_error() -> Error {
    let message = "`--review` needs a terminal on standard input and standard error, and the format \
                   `text`";
    usage_error(message)
        .with_hint(
            "omit it, or pass `--yes` to resume a run that was started with it, to apply what may be \
             delivered; `massgen undo` reverts that",
        )
        .with_hint(
            "or open no path for writing, and deliver later: massgen --continue --cwd-context rw",
        )
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub(crate) struct RunOutcome {
    /// The exit status of the process.
    pub(crate) status: ExitStatus,
    /// The id of its session; a session in which nothing was saved has been removed.
    pub(crate) session: String,
    /// The directory of its logs.
    pub(crate) log_dir: AbsPath,
    /// The beginning of a line that the user typed and did not send to the agents.
    pub(crate) unsent_text: String,
    /// The next command to suggest to the user.
    pub(crate) hint: Option<String>,
    /// The directory with the winner's files, if they stayed in the session because there was no
    /// path to deliver them to.
    pub(crate) kept_files: Option<AbsPath>,
}

/// Builds the request of a prepared run.
pub(crate) fn run_request(prepared: PreparedRun, arguments: &RunArguments) -> Result<RunRequest> {
    let (team, prompt) = (prepared.team, prepared.prompt);
    let mut context = run_context(&team, prepared.opened_paths, arguments)?;
    context.host.session_sandboxes = prepared.session_sandboxes;
    context.approvals.session = prepared.approvals;
    let session = prepared
        .continued_session
        .map(|continued| Session::open(continued.session_dir, context.redactor.clone()))
        .transpose()?;
    let layout = RunLayout::plan(&team.config, &team.host.state_parent, new_run_name());
    let question = Arc::from(prompt.cleaned_prompt);
    Ok(RunRequest {
        session,
        ..RunRequest::new(
            context,
            team.config,
            layout,
            prompt.original_prompt,
            question,
        )
    })
}

/// Connects the models of `team`, and returns what its runs have in common, with the paths that
/// prompts opened.
pub(crate) fn run_context(
    team: &RunTeam,
    opened: Vec<OpenedPath>,
    arguments: &RunArguments,
) -> Result<RunContext> {
    let (host, file) = (&team.host, team.file.as_ref());
    let inbox = arguments.inbox_dir.as_ref();
    Ok(RunContext {
        base: host.cwd.clone(),
        opened,
        models: connect_all(&team.config, &team.models, host)?,
        redactor: Redactor::new(secret_values(&team.config, host)),
        telemetry: team.telemetry.clone(),
        invocation: RunInvocation {
            config_path: file.and_then(TeamFile::path).cloned(),
            own_files: own_files(file, &team.other_files),
            config_text: file.map(TeamFile::text),
            arguments: host.arguments.clone(),
            detail: if arguments.debug {
                LogDetail::Debug
            } else {
                LogDetail::Plain
            },
        },
        host: host_environment(host),
        approvals: ApprovalConfig::default(),
        inbox: inbox.map(|dir| host.cwd.join(dir)),
    })
}

/// Returns the files that a run with the config `file` obeys: that one and `other_files`.
pub(crate) fn own_files(file: Option<&TeamFile>, other_files: &[AbsPath]) -> Vec<AbsPath> {
    let config_path = file.and_then(TeamFile::path);
    config_path
        .into_iter()
        .chain(other_files)
        .cloned()
        .collect()
}

/// Returns what commands need to know about the process.
pub(crate) fn host_environment(host: &Host) -> HostEnvironment {
    HostEnvironment {
        executable: host.executable.clone(),
        cwd: host.cwd.clone(),
        env: host.env.clone(),
        variables: host.config_variables(),
        home: host.home.clone(),
        policy: host.policy.clone(),
        session_sandboxes: None,
    }
}

/// Connects the models of all agents; no request is sent yet.
pub(crate) fn connect_all(
    config: &Config,
    models: &ModelList,
    host: &Host,
) -> Result<ModelsByAgent> {
    let (models_by_agent, failures) = connect_agents(config, models, host)?;
    match connection_error(failures) {
        None => Ok(models_by_agent),
        Some(error) => Err(error),
    }
}

/// Connects the models of all agents, and returns why those of some agents cannot be asked.
pub(crate) fn connect_agents(
    config: &Config,
    models: &ModelList,
    host: &Host,
) -> Result<(ModelsByAgent, Vec<(AgentId, Error)>)> {
    require_prices(config, models)?;
    require_agent_scripts(config, &host.cwd)?;
    let http = HttpClient::new();
    let variables = host.config_variables();
    let env = |name: &str| variables.get_non_empty(name).map(str::to_owned);
    let context = ConnectContext {
        env: &env,
        http: &http,
        cwd: &host.cwd,
        rate_limiter: &RateLimiter::new(&config.rate_limits),
        models,
        read: &read_script,
        policy: &host.policy,
    };
    let (mut models_by_agent, mut failures) = (ModelsByAgent::new(), Vec::new());
    for agent in &config.agents {
        match connect(&agent.backend, context) {
            Ok(models) => {
                models_by_agent.insert(agent.id.clone(), models);
            }
            Err(error) => failures.push((agent.id.clone(), error)),
        }
    }
    Ok((models_by_agent, failures))
}

/// Returns one error for all agents whose models cannot be asked: with every key that would help.
pub(crate) fn connection_error(failures: Vec<(AgentId, Error)>) -> Option<Error> {
    let mut failures = failures.into_iter();
    let (_, first_error) = failures.next()?;
    let mut other_errors: Vec<(AgentId, Error)> = failures.collect();
    other_errors.retain(|(_, error)| error.to_string() != first_error.to_string());
    Some(
        other_errors
            .into_iter()
            .fold(first_error, |all, (agent, error)| {
                let hint = error.hints().first().map_or("", String::as_str);
                all.with_hint(format!("{agent}: {error}; {hint}"))
            }),
    )
}

/// Checks the scripts of all agents. The error names the agent.
pub(crate) fn require_agent_scripts(config: &Config, cwd: &AbsPath) -> Result<()> {
    for agent in &config.agents {
        require_scripts(&agent.backend, cwd, &read_script).map_err(|error| {
            let message = format!("agent `{}`: {error}", agent.id);
            let hints = error.hints().iter();
            hints.fold(Error::new(error.kind(), message), |named, hint| {
                named.with_hint(hint.as_str())
            })
        })?;
    }
    Ok(())
}

/// Reads a script of replies.
pub(crate) fn read_script(path: &AbsPath) -> Result<String> {
    let missing_error = || {
        Error::new(
            ErrorKind::Config,
            format!("the script `{path}` does not exist"),
        )
        .with_hint("`script` is relative to the directory of the config file")
    };
    let bytes = read_regular_file(path, SCRIPT_BYTES_MAX)?.ok_or_else(missing_error)?;
    String::from_utf8(bytes).map_err(|error| {
        Error::new(
            ErrorKind::Config,
            format!("the script `{path}` is not UTF-8"),
        )
        .with_source(error)
    })
}

/// Returns the secrets of the environment that can be recognized by name: no others are known
/// before a config is read.
pub(crate) fn environment_secrets(host: &Host) -> Vec<SecretString> {
    let variables = host.config_variables();
    let secrets = variables.retain_named(|name| is_key_variable(name) || is_secret(name));
    secrets.values().map(SecretString::from).collect()
}

/// Returns every secret that this run could send: the keys in the config and the environment, and
/// what the config passes to servers, agent programs and commands.
pub(crate) fn secret_values(config: &Config, host: &Host) -> Vec<SecretString> {
    let api_keys = config
        .agents
        .iter()
        .flat_map(|agent| agent.backend.with_subagent_models())
        .filter_map(|model| model.api_key.as_ref());
    let written_secrets = api_keys.map(|key| SecretString::from(key.expose_secret()));
    let variables = host.config_variables();
    let variable_secrets = key_variables()
        .filter_map(|name| variables.get_non_empty(name))
        .map(SecretString::from);
    let external = config
        .agents
        .iter()
        .flat_map(|agent| agent.backend.with_subagent_models())
        .filter_map(|model| model.external_agent.as_ref());
    let agent_secrets = external.flat_map(|agent| agent.secrets(&variables));
    let servers = config.agents.iter().flat_map(|agent| &agent.servers);
    let server_secrets = servers.flat_map(|server| server.secrets(&variables));
    let commands = config.commands();
    let user = HostUser {
        home: host.home.as_ref(),
        env: &host.env,
        variables: &variables,
    };
    let container_secrets = commands.clone().filter_map(|commands| {
        let docker = commands.mode.container()?;
        Some(credentials::secrets(&docker.credentials, user))
    });
    let command_secrets = commands.flat_map(|commands| commands.secrets(&variables));
    written_secrets
        .chain(variable_secrets)
        .chain(server_secrets)
        .chain(agent_secrets)
        .chain(command_secrets)
        .chain(container_secrets.flatten())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_is_suggested_only_to_a_finished_run_in_a_closed_directory() {
        assert!(is_kept(ExitStatus::Success, &[], false));
        assert!(is_kept(ExitStatus::Limit, &[], false));
        assert!(!is_kept(ExitStatus::Success, &[], true));
        for is_writable in [false, true] {
            assert!(!is_kept(ExitStatus::Interrupted, &[], is_writable));
        }
    }
}
