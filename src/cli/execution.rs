//! Executes a run for the command line: passes the events on as they happen, and reports how the run
//! ended.

use std::fmt::Debug;

use tokio::sync::mpsc::{self, Receiver};

use crate::agent::user_messages::{UserMessageSender, user_message_channel};
use crate::cli::args::RunArguments;
use crate::cli::command_line::usage_error;
use crate::cli::dashboard::settings::{DashboardSettings, DisplayFacts, select_dashboard};
use crate::cli::follow::{TerminalQuestions, follow_run};
use crate::cli::kept_attempts::KeptAttempts;
use crate::cli::model_prices::uncounted_models_warning;
use crate::cli::output::CliOutput;
use crate::cli::pipeline;
use crate::cli::prune::prune_after_run;
use crate::cli::report_files::ReportFiles;
use crate::cli::result_builder::RunStart;
use crate::cli::resume::resume_command_line;
use crate::cli::run_context::{PreparedRun, run_request, write_paths};
use crate::cli::run_flags::reject_parking;
use crate::cli::run_frontend::{Decider, OutputMode, RunOutcome, UserPresence};
use crate::cli::run_observer::RunObserver;
use crate::cli::standard_stream::RunEndSignal;
use crate::cli::steering::SteeringInput;
use crate::config::{Config, DeliveryMode};
use crate::error::{Error, ExitStatus, Result};
use crate::event::{DeliveryOutcome, DeliveryRow, Event, InputChannel};
use crate::mentions::LookupResult;
use crate::orchestrator::TurnResult;
use crate::orchestrator::approvals::ApprovalChannel;
use crate::orchestrator::execution::{
    RunContext, RunExecution, RunOutputPaths, RunRequest, ShutdownSignal,
};
use crate::orchestrator::review::{Reviewer, UserQuestion, reviewer_channel};
use crate::path::AbsPath;
use crate::permissions::path_rules::RuleAction;
use crate::world::approval::socket::expect_socket;
use crate::world::io::answer_file::AnswerFile;
use crate::world::io::files::inspect;
use crate::world::io::project_link::UserLocation;
use crate::world::io::terminal_input::TerminalInput;
use crate::world::store::approvals::ApprovalFile;
use crate::world::store::prune::ProjectStore;
use crate::world::store::redact::Redactor;

/// Capacity of the event channel: as many events may wait while a person is asked in lines, or the
/// output is not read. Then the run waits too.
pub(crate) const EVENTS_WAITING_MAX: usize = 4096;
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
    for (flag, is_given) in [
        ("--review", arguments.delivery.review),
        ("--pick", arguments.delivery.pick),
    ] {
        if is_given && !may_ask && !is_for_clients {
            return Err(unanswerable_review_error(flag));
        }
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

/// Refuses a flag such as `--review` where no one can answer: the run would deliver what the user wants to see
/// first.
fn unanswerable_review_error(flag: &str) -> Error {
    let message = format!(
        "`{flag}` needs a terminal on standard input and standard error, and the format `text`"
    );
    usage_error(message)
        .with_hint(
            "omit it, or pass `--yes` to resume a run that was started with it, to apply what may be \
             delivered; `massgen undo` reverts that",
        )
        .with_hint(
            "or open no path for writing, and deliver later: massgen --continue --cwd-context rw",
        )
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
