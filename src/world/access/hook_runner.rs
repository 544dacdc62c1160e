//! Runs the user's hooks: their commands run in a sandbox, all matching ones at the same time, and
//! their answers are reported and combined. A hook that cannot be run counts as failed; this module
//! decides nothing about failures.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::delivery::plan::DeliveryPlan;
use crate::hooks::answer::{HookFailure, parse_answer};
use crate::hooks::request::{HookContext, HookSubject, build_request};
use crate::hooks::verdict::{HookOutcome, HookVerdict};
use crate::hooks::{Hook, HookList};
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::Phase;
use crate::sandbox_policy::compile::compile;
use crate::world::io::clock::milliseconds;
use crate::world::sandbox::exec_environment::{CommandSpec, ExecEnvironment};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::overlay::view::OverlayView;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};

/// Largest request to a hook, in bytes of JSON.
const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Largest output of a hook on each of its streams, in bytes. If standard error is larger, its
/// middle is left out.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// The hooks of one agent, ready to run. A clone is the same.
#[derive(Clone, Debug)]
pub struct HookRunner(Arc<HookRunnerState>);

#[derive(Debug)]
struct HookRunnerState {
    hooks: HookList,
    context: HookContext,
    /// The sandbox that they run in; without it, all of them fail.
    hook_sandbox: Option<HookSandbox>,
    observer: Arc<dyn HookObserver>,
    /// The round that the agent is in.
    round: AtomicU32,
}

/// Sandbox for an agent's hooks.
#[derive(Clone, Debug)]
pub struct HookSandbox {
    /// Environment and private directories of their commands.
    pub commands: ExecEnvironment,
    /// What they may read.
    pub readable: PathPermissionManager,
    /// What a delivery by their agent may change.
    pub deliverable: PathPermissionManager,
    /// Returns what a delivery of the changes on an overlay would change.
    pub plan: fn(&WriteOverlay, &PathPermissionManager) -> crate::error::Result<DeliveryPlan>,
    /// The only directories outside Python's own from which Python imports modules.
    pub import_directories: BTreeSet<AbsPath>,
}

impl HookSandbox {
    /// Returns what hooks see of `overlay`: the user's trees with what a delivery would change, so
    /// that no agent decides what is found under a protected name.
    fn view(&self, overlay: &WriteOverlay) -> crate::error::Result<Option<OverlayView>> {
        if !self.commands.shows_overlays() {
            return Ok(None);
        }
        let plan = |overlay: &WriteOverlay| (self.plan)(overlay, &self.deliverable);
        overlay.view(self.commands.overlay_origin(), plan)
    }

    /// Returns the variables with which Python imports nothing from the directory in which it
    /// starts, where agents may write. Python older than 3.11 ignores the first.
    fn python_variables(&self) -> [(String, String); 2] {
        let directories = self.import_directories.iter().map(ToString::to_string);
        let import_path = directories.collect::<Vec<_>>().join(":");
        [("PYTHONSAFEPATH", "1"), ("PYTHONPATH", &import_path)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    }
}

/// Observer of hook runs.
pub trait HookObserver: fmt::Debug + Send + Sync {
    /// Called for each hook that has run.
    fn on_run(&self, run: &HookRun<'_>);
}

/// A hook that has run, or failed to run.
#[derive(Clone, Copy, Debug)]
pub struct HookRun<'a> {
    /// The hook.
    pub hook: &'a Hook,
    /// The event that it was run for.
    pub subject: &'a HookSubject<'a>,
    /// Its answer.
    pub outcome: &'a HookOutcome,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// Context of a hook run.
#[derive(Clone, Copy, Debug)]
pub struct HookInvocation<'a> {
    /// The phase of the agent.
    pub phase: Phase,
    /// The overlay whose deliverable changes hooks see in the user's paths, if there is one.
    pub overlay: Option<&'a WriteOverlay>,
    /// Cancelled when the caller no longer waits for the answer.
    pub cancellation: &'a CancellationToken,
}

/// One request that several hooks get at the same time.
#[derive(Clone, Copy)]
struct HookQuery<'a> {
    request: &'a [u8],
    subject: &'a HookSubject<'a>,
    overlay: Option<&'a WriteOverlay>,
    interrupt: &'a CommandInterrupt,
}

impl HookRunner {
    /// Creates a runner for the `hooks` of an agent. `observer` observes their runs.
    pub fn new(
        hooks: HookList,
        context: HookContext,
        hook_sandbox: Option<HookSandbox>,
        observer: Arc<dyn HookObserver>,
    ) -> Self {
        Self(Arc::new(HookRunnerState {
            hooks,
            context,
            hook_sandbox,
            observer,
            round: AtomicU32::new(1),
        }))
    }

    /// Returns the hooks as the config lists them.
    pub fn hook_list(&self) -> &HookList {
        &self.0.hooks
    }

    /// Counts the start of the agent's next round.
    pub fn begin_round(&self) {
        self.0.round.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs all hooks that match `subject` and waits for them. Blocks.
    pub fn ask(&self, subject: &HookSubject<'_>, invocation: HookInvocation<'_>) -> HookVerdict {
        let event = subject.event();
        let hooks = self
            .0
            .hooks
            .matching(event, subject.call().map(|call| call.tool));
        if hooks.is_empty() {
            return HookVerdict::default();
        }
        let round = match invocation.phase {
            Phase::Coordination | Phase::Attempt => Some(self.0.round.load(Ordering::Relaxed)),
            Phase::Final => None,
        };
        let request = build_request(&self.0.context, invocation.phase, round, subject).to_string();
        let view = match (&self.0.hook_sandbox, invocation.overlay) {
            (Some(hook_sandbox), Some(overlay)) => hook_sandbox.view(overlay),
            _ => Ok(None),
        };
        let ask_hooks = || {
            let view = view.map_err(|error| io::Error::other(format!("{error:#}")))?;
            let interrupt = CommandInterrupt::new()?;
            let _watch = CancellationWatcher::spawn(invocation.cancellation, &interrupt);
            let query = HookQuery {
                request: request.as_bytes(),
                subject,
                overlay: view.as_ref().and_then(OverlayView::overlay),
                interrupt: &interrupt,
            };
            self.ask_all(&hooks, query)
        };
        let outcomes = ask_hooks();
        let failure_outcomes = |error: io::Error| {
            let failure = HookFailure::new("it could not be run", &error.to_string());
            vec![Err(failure)]
        };
        HookVerdict::from_outcomes(event, outcomes.unwrap_or_else(failure_outcomes))
    }

    /// Runs all of these hooks at the same time.
    fn ask_all<'h>(
        &'h self,
        hooks: &[&'h Hook],
        query: HookQuery<'h>,
    ) -> io::Result<Vec<HookOutcome>> {
        thread::scope(|scope| {
            let spawn = |hook: &'h Hook| {
                let ask_hook = move || self.ask_one(hook, query);
                thread::Builder::new()
                    .name("hook".to_owned())
                    .spawn_scoped(scope, ask_hook)
            };
            let threads: Vec<_> = hooks
                .iter()
                .copied()
                .map(spawn)
                .collect::<io::Result<_>>()?;
            let join_thread =
                |thread: thread::ScopedJoinHandle<'_, HookOutcome>| match thread.join() {
                    Ok(outcome) => outcome,
                    Err(panic) => resume_unwind(panic),
                };
            Ok(threads.into_iter().map(join_thread).collect())
        })
    }

    fn ask_one(&self, hook: &Hook, query: HookQuery<'_>) -> HookOutcome {
        let start_time = Instant::now();
        let outcome = match self.run(hook, query) {
            Ok(output) => parse_outcome(hook, &output),
            Err(reason) => Err(HookFailure::new("it could not be run", &reason)),
        };
        self.0.observer.on_run(&HookRun {
            hook,
            subject: query.subject,
            outcome: &outcome,
            elapsed_ms: milliseconds(start_time.elapsed()),
        });
        outcome
    }

    /// Runs a hook to its end, with the request on its standard input. The error is a message for
    /// the user.
    fn run(&self, hook: &Hook, query: HookQuery<'_>) -> Result<CommandOutput, String> {
        let HookQuery {
            request,
            overlay,
            interrupt,
            ..
        } = query;
        if request.len() > REQUEST_BYTES_MAX {
            return Err(format!(
                "what it is asked about has more than {REQUEST_BYTES_MAX} bytes"
            ));
        }
        let hook_sandbox = self
            .0
            .hook_sandbox
            .as_ref()
            .ok_or("hooks are not run here")?;
        let sandbox = hook_sandbox
            .commands
            .backend()
            .local_sandbox()
            // The error is the rest of the sentence.
            .map_err(|reason| format!("hooks {reason}"))?
            .on_overlay(overlay);
        let message = |error: io::Error| error.to_string();
        let (network, proxy) = hook_sandbox
            .commands
            .network_for_policy(&hook.network)
            .map_err(message)?;
        let spec = CommandSpec {
            program: ["bash", "-c", &hook.command].map(str::to_owned).to_vec(),
            dir: self.0.context.project.clone(),
            venv: None,
        };
        // A hook that runs the project's code must not prepare what another hook obeys.
        let mut hooks = self.0.hooks.iter();
        let number = hooks.position(|other| other.command == hook.command);
        let directories = hook_sandbox.commands.directories();
        let home = directories.make_separate_home(number.unwrap_or_default());
        let home = home.map_err(|error| error.to_string())?;
        let command_context = hook_sandbox.commands.command_context(spec, network);
        let mut command_context = command_context.with_home(home);
        command_context.env.extend(hook_sandbox.python_variables());
        command_context.env.extend(self.environment_variables(hook));
        let policy = compile(
            &hook_sandbox.readable,
            hook_sandbox.commands.sandbox_level(),
            command_context,
        )
        .map_err(|error| error.to_string())?;
        let wait = CommandWaitLimits {
            time_max: Duration::from_secs(hook.timeout_seconds),
            output_bytes_max: OUTPUT_BYTES_MAX,
            interrupt: Some(interrupt),
            network: proxy.as_deref(),
        };
        let output = sandbox.run_with_bytes(&policy, request, wait);
        output.map_err(message)
    }

    /// Returns the environment variables that tell a hook about its run; see `docs/hooks.md`.
    fn environment_variables(&self, hook: &Hook) -> Vec<(String, String)> {
        let HookContext {
            session_id,
            project,
            agent,
            workspace,
        } = &self.0.context;
        let pairs = [
            ("CLAUDE_PROJECT_DIR", Some(project.to_string())),
            ("MASSGEN_PROJECT_DIR", Some(project.to_string())),
            ("MASSGEN_HOOK_EVENT", Some(hook.event.to_string())),
            ("MASSGEN_SESSION_ID", session_id.clone()),
            ("MASSGEN_AGENT_ID", agent.as_ref().map(ToString::to_string)),
            (
                "MASSGEN_WORKSPACE",
                workspace.as_ref().map(ToString::to_string),
            ),
        ];
        let pair = |(name, value): (&str, Option<String>)| Some((name.to_owned(), value?));
        pairs.into_iter().filter_map(pair).collect()
    }
}

/// Parses the answer of a hook that has run.
fn parse_outcome(hook: &Hook, output: &CommandOutput) -> HookOutcome {
    let (stdout, stderr) = (&output.stdout, &output.stderr.text);
    match &output.exit_reason {
        ExitReason::Exited(_) if stdout.left_out_bytes > 0 => {
            let cause = format!("it wrote more than {OUTPUT_BYTES_MAX} bytes");
            Err(HookFailure::new(cause, stderr))
        }
        ExitReason::Exited(status) => parse_answer(hook.event, *status, &stdout.text, stderr),
        ExitReason::TimedOut => {
            let seconds = hook.timeout_seconds;
            Err(HookFailure::new(
                format!("it took longer than {seconds} s"),
                stderr,
            ))
        }
        ExitReason::Refused { step, reason } => Err(HookFailure::new(
            "it could not be run",
            &format!("{step}: {reason}"),
        )),
        exit_reason @ (ExitReason::Signalled(_)
        | ExitReason::Interrupted
        | ExitReason::DiskFull(_)) => Err(HookFailure::new(exit_reason.to_string(), stderr)),
    }
}

/// Raises an interrupt once the caller stops waiting; stops watching on drop.
struct CancellationWatcher(Option<tokio::task::JoinHandle<()>>);

impl CancellationWatcher {
    /// Starts watching. Outside a runtime nothing is watched, because the caller always waits
    /// there.
    fn spawn(cancellation: &CancellationToken, interrupt: &CommandInterrupt) -> Self {
        let (cancellation, interrupt) = (cancellation.clone(), interrupt.clone());
        let runtime = Handle::try_current().ok();
        Self(runtime.map(|runtime| {
            runtime.spawn(async move {
                cancellation.cancelled().await;
                interrupt.raise();
            })
        }))
    }
}

impl Drop for CancellationWatcher {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
