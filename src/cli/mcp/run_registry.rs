//! Registry of the runs that MCP clients have started: limits their number, checks what a task
//! mentions, applies what a run did not deliver, and keeps ended runs for a while. The config is
//! read in advance, and no client may change it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};

use crate::cli::args::{ApplyArguments, RunArguments};
use crate::cli::command_line::usage_error;
use crate::cli::deliveries::{apply, finish_interrupted_deliveries};
use crate::cli::execution::execute;
use crate::cli::mcp::requests::ApplyRequest;
use crate::cli::mcp::tracked_run::TrackedRun;
use crate::cli::mentions;
use crate::cli::output::CliOutput;
use crate::cli::result::ErrorReport;
use crate::cli::run_context::PreparedRun;
use crate::cli::run_context::RunTeam;
use crate::cli::run_frontend::OutputMode;
use crate::cli::run_frontend::RunOutcome;
use crate::cli::team::ChosenTeam;
use crate::config::DeliveryMode;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::mentions::{Mention, ParsedPrompt, TaskText};
use crate::orchestrator::approvals::SessionApprovals;
use crate::orchestrator::execution::ShutdownSignal;
use crate::permissions::grant::Permission;
use crate::spending::models::ModelList;
use crate::text::count_noun;
use crate::world::diagnostics::telemetry::settings::TelemetrySettings;
use crate::world::io::locate::{is_inside, resolve_path};

/// Maximum length of a task, in bytes.
const TASK_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of runs that are kept; the oldest ended one is forgotten first.
const RUNS_KEPT_MAX: usize = 64;

/// Template of every run.
#[derive(Debug)]
pub(crate) struct RunTemplate {
    /// The process, and the variables of `.env` files.
    pub(crate) host: Host,
    pub(crate) team: ChosenTeam,
    /// The known models, with their prices.
    pub(crate) models: ModelList,
    /// The settings of the telemetry export, if it is enabled.
    pub(crate) telemetry: Option<TelemetrySettings>,
    /// The user's flags for all runs.
    pub(crate) arguments: RunArguments,
    /// Authority to apply what a run did not deliver.
    pub(crate) apply_authority: ApplyAuthority,
}

/// Authority to apply what a run did not deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyAuthority {
    /// The config decides.
    Config,
    /// Clients may apply it: the user has allowed it with a flag.
    Callers,
}

/// The runs. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct RunRegistry(Arc<RunRegistryState>);

#[derive(Debug)]
struct RunRegistryState {
    template: RunTemplate,
    /// Stops all runs.
    stop: ShutdownSignal,
    /// The number of slots.
    parallel: u32,
    /// A slot for each run at the same time.
    slots: Arc<Semaphore>,
    /// The runs that have a name, oldest first.
    runs: Mutex<Vec<Arc<TrackedRun>>>,
    /// Held while a delivery is applied, so that one is applied at a time.
    apply_lock: tokio::sync::Mutex<()>,
}

/// A run that has started.
#[derive(Debug)]
pub(crate) struct StartedRun {
    pub(crate) run: Arc<TrackedRun>,
    /// Its progress messages from now on.
    pub(crate) updates: broadcast::Receiver<Arc<str>>,
}

impl StartedRun {
    /// Subscribes to the updates of `run`.
    pub(crate) fn subscribe(run: Arc<TrackedRun>) -> Self {
        Self {
            updates: run.subscribe(),
            run,
        }
    }
}

impl RunRegistry {
    /// Creates a registry without runs; at most `parallel` run at the same time, and `stop` stops
    /// them all.
    pub(crate) fn new(template: RunTemplate, parallel: u32, stop: ShutdownSignal) -> Self {
        Self(Arc::new(RunRegistryState {
            template,
            stop,
            parallel,
            slots: Arc::new(Semaphore::new(usize::try_from(parallel).unwrap_or(1))),
            runs: Mutex::default(),
            apply_lock: tokio::sync::Mutex::default(),
        }))
    }

    /// Starts a run and waits until it has a name.
    ///
    /// # Errors
    /// The task is not accepted, or the run cannot start.
    pub(crate) async fn begin(&self, task: &str) -> Result<StartedRun> {
        let slot = Arc::clone(&self.0.slots)
            .try_acquire_owned()
            .map_err(|_| self.busy_error())?;
        let prompt = self.parse_task(task)?;
        let stop = ShutdownSignal {
            graceful: self.0.stop.graceful.child_token(),
            immediate: self.0.stop.immediate.child_token(),
            park: self.0.stop.park.child_token(),
        };
        let run = Arc::new(TrackedRun::new(stop));
        let started_run = StartedRun::subscribe(Arc::clone(&run));
        tokio::spawn(self.clone().execute(prompt, Arc::clone(&run), slot));
        // A run without a name is not kept: no client could ask for it.
        run.wait_for_name().await.map_err(not_started_error)?;
        let mut runs = self.lock_runs();
        runs.push(run);
        if runs.len() > RUNS_KEPT_MAX
            && let Some(oldest) = runs.iter().position(|run| run.is_ended())
        {
            runs.remove(oldest);
        }
        Ok(started_run)
    }

    /// Returns the run with this name.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<TrackedRun>> {
        let runs = self.lock_runs();
        let mut matching_runs = runs
            .iter()
            .filter(|run| run.name().as_deref() == Some(name));
        matching_runs.next().cloned().ok_or_else(|| {
            usage_error(format!("this server knows no run `{name}`"))
                .with_hint("name one that `run_task` of this server has given")
                .with_hint("a person sees all: `massgen logs list`")
        })
    }

    /// Applies what a run did not deliver, and returns the exit status and the report.
    ///
    /// # Errors
    /// Applying is not allowed, or the run has not ended.
    pub(crate) async fn apply(&self, request: ApplyRequest) -> Result<(ExitStatus, String)> {
        if !self.find(&request.run)?.is_ended() {
            let message = format!("the run `{}` has not ended", request.run);
            return Err(usage_error(message).with_hint("wait for it: `status` with `wait`"));
        }
        let host = self.0.template.host.clone();
        if !self.may_apply() {
            let message = "the config requires a person to review deliveries";
            return Err(Error::new(ErrorKind::Denied, message)
                .with_hint(format!(
                    "a person applies it, in `{}`: massgen apply {}",
                    host.cwd, request.run
                ))
                .with_hint("or starts this server with `--allow-apply`"));
        }
        let _apply_guard = self.0.apply_lock.lock().await;
        let task = tokio::task::spawn_blocking(move || {
            let arguments = ApplyArguments {
                run: request.run,
                agent: request.agent,
                path: request.paths,
                yes: true,
                history: None,
                push: None,
            };
            let (mut output_bytes, mut notes) = (Vec::new(), Vec::new());
            let mut output = CliOutput::with_writers(&mut output_bytes, &mut notes);
            let status = apply::run(&host, &arguments, &mut output)?;
            drop(output);
            output_bytes.extend(notes);
            Ok((status, String::from_utf8_lossy(&output_bytes).into_owned()))
        });
        let panic_error = |_| Error::bug("applying the delivery failed unexpectedly");
        task.await.map_err(panic_error)?
    }

    /// Waits until no run is active.
    pub(crate) async fn end(&self) {
        let _all_slots = self.0.slots.acquire_many(self.0.parallel).await;
    }

    /// Executes a run to its end, which is recorded in `run` even if the run panics.
    async fn execute(self, prompt: ParsedPrompt, run: Arc<TrackedRun>, slot: OwnedSemaphorePermit) {
        let execution = tokio::spawn(self.execute_run(prompt, Arc::clone(&run)));
        let panic_error = |_| (Err(Error::bug("the run failed unexpectedly")), Vec::new());
        let (outcome, warnings) = execution.await.unwrap_or_else(panic_error);
        run.end(&outcome, &warnings);
        drop(slot);
    }

    /// Executes a run as the command line does. Warnings for the user are returned with its
    /// outcome.
    async fn execute_run(
        self,
        prompt: ParsedPrompt,
        run: Arc<TrackedRun>,
    ) -> (Result<RunOutcome>, Vec<String>) {
        let template = &self.0.template;
        let mut output = CliOutput::for_server_run(run.stop());
        let prepared = PreparedRun {
            team: RunTeam {
                host: template.host.clone(),
                config: template.team.config.clone(),
                file: template.team.file.clone(),
                other_files: Vec::new(),
                models: template.models.clone(),
                telemetry: template.telemetry.clone(),
            },
            prompt,
            opened_paths: Vec::new(),
            continued_session: None,
            approvals: SessionApprovals::default(),
            session_sandboxes: None,
        };
        let stop = run.stop().clone();
        let outcome = match finish_interrupted_deliveries(&template.host, &mut output) {
            Ok(()) => {
                let mut clients = &*run;
                let mode = OutputMode::Frontend(&mut clients);
                execute(prepared, &template.arguments, stop, &mut output, mode).await
            }
            Err(error) => Err(error),
        };
        (outcome, output.warnings().to_vec())
    }

    /// Parses a task. Its mentions open nothing: they may only name what is open already.
    fn parse_task(&self, task: &str) -> Result<ParsedPrompt> {
        if task.trim().is_empty() {
            return Err(usage_error("there is no task"));
        }
        if task.len() > TASK_BYTES_MAX {
            let message = format!("the task is longer than {TASK_BYTES_MAX} bytes");
            return Err(
                usage_error(message).with_hint("put it into a file that is open, and name that")
            );
        }
        let host = &self.0.template.host;
        let prompt = mentions::parse(&TaskText::from_typed(task), &host.cwd, host);
        let mut all_mentions = prompt.mentions.iter().chain(&prompt.missing_mentions);
        all_mentions.try_for_each(|mention| self.require_open(mention))?;
        Ok(prompt)
    }

    /// Rejects a mention of a path that the config does not open, whether it exists or not.
    fn require_open(&self, mention: &Mention) -> Result<()> {
        let config = &self.0.template.team.config;
        let is_open = match mention.permission {
            Permission::Read => is_inside(
                &mention.path,
                config.opened_paths().filter_map(resolve_path),
            ),
            Permission::Write => {
                is_inside(&mention.path, config.write_paths().filter_map(resolve_path))
            }
        };
        if is_open {
            return Ok(());
        }
        let message = format!(
            "the config does not open `{}` for {}",
            mention.path,
            match mention.permission {
                Permission::Read => "reading",
                Permission::Write => "writing",
            }
        );
        Err(Error::new(ErrorKind::Denied, message)
            .with_hint("mention what is open to the team, or write `\\@` where no path is meant")
            .with_hint("a person opens more: `orchestrator.context_paths` in the config"))
    }

    fn may_apply(&self) -> bool {
        match (
            self.0.template.apply_authority,
            self.0.template.team.config.delivery,
        ) {
            (ApplyAuthority::Callers, _) | (ApplyAuthority::Config, DeliveryMode::Auto) => true,
            (ApplyAuthority::Config, DeliveryMode::Review) => false,
        }
    }

    fn busy_error(&self) -> Error {
        let runs = count_noun(usize::try_from(self.0.parallel).unwrap_or(1), "run");
        let all_runs = self.lock_runs();
        let active = all_runs.iter().filter(|run| !run.is_ended());
        let names: Vec<String> = active.filter_map(|run| run.name()).collect();
        let message = format!("no more than {runs} may run at the same time");
        Error::new(ErrorKind::Limit, message).with_hint(format!(
            "wait for one or cancel it: {}",
            if names.is_empty() {
                "it is about to begin".to_owned()
            } else {
                names.join(", ")
            }
        ))
    }

    fn lock_runs(&self) -> MutexGuard<'_, Vec<Arc<TrackedRun>>> {
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error of a run that did not start.
fn not_started_error(failure: Option<ErrorReport>) -> Error {
    let Some(failure) = failure else {
        return Error::new(
            ErrorKind::Interrupted,
            "the run was cancelled before it started",
        );
    };
    let causes = failure.caused_by.into_iter();
    let message: Vec<String> = std::iter::once(failure.message).chain(causes).collect();
    let error = Error::new(ErrorKind::Environment, message.join(": "));
    failure.hints.into_iter().fold(error, Error::with_hint)
}
