//! Runs the config's checks on agents' work: in the user's trees as an answer would leave them, or
//! as the delivery has left them. Each check has its own overlay, home and temporary files, in the
//! sandbox of the agent's commands; nothing that it writes is kept. The results are not interpreted
//! here.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use crate::agent::deadline::RunDeadline;
use crate::agent::emit;
use crate::answer_changes::{AnswerChanges, ChangeLayers};
use crate::check_results::{ChangeCounts, CheckResult, CheckResults, CheckVerdict};
use crate::config::checks::{CheckConfig, ChecksConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CheckedTree, DeliveryEvent, Event, RunEvent};
use crate::id::AgentId;
use crate::orchestrator::grants::copy_all_call;
use crate::orchestrator::grants::{first_write_tree, permission_manager};
use crate::orchestrator::overlays::{OverlayFactory, OverlayPurpose};
use crate::path::{AbsPath, RealPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::sandbox_policy::environment::VENV;
use crate::text::single_line;
use crate::tools::call::{ToolCall, UserPath};
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::exec;
use crate::world::exec::command::{CheckCommandOutcome, run_check};
use crate::world::exec::compare::diffstat;
use crate::world::io::clock::{self, milliseconds};
use crate::world::io::file_change::FileChange;
use crate::world::io::locate::{LocatedPath, locate, places_on_way};
use crate::world::io::run_blocking;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::overlay::WriteOverlay;

/// Maximum length of the end of a check's output that is kept: lines, and characters of each line.
const TAIL_LINES_MAX: usize = 20;
const TAIL_CHARS_MAX: usize = 400;

/// How far the clock that stamps files may lag behind the time of day, in nanoseconds.
const CLOCK_TICK_NS: i128 = 20_000_000;

/// The directory of programs in a Python virtual environment.
const VENV_PROGRAMS: &str = "bin";

/// Reason why a path cannot be passed to a tool.
const NOT_UTF8: &str = "its path is not UTF-8";

/// The check runner of a run. Clones share its state.
#[derive(Clone, Debug)]
pub struct CheckRunner(Arc<CheckRunnerState>);

#[derive(Debug)]
struct CheckRunnerState {
    checks: Vec<CheckConfig>,
    judge: Option<CheckConfig>,
    agents: BTreeMap<AgentId, CheckedAgent>,
    overlays: OverlayFactory,
    overlay_count: AtomicUsize,
    /// One for each check that may run at the same time.
    permits: Semaphore,
}

/// An agent whose work is checked.
#[derive(Debug)]
pub struct CheckedAgent {
    /// All its grants.
    pub grants: Vec<Grant>,
    /// The environment in which checks run; `None` if no sandbox is available on this machine.
    pub environment: Option<ExecEnvironment>,
    /// The directories of its workspace that are not part of what it would deliver.
    pub left_out: Vec<&'static str>,
    /// How checks see its workspace.
    pub files: CheckedWorkspace,
}

/// How checks see an agent's workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckedWorkspace {
    /// A copy of its files is laid over the write path, unless they are the changes of an attempt.
    Copy,
    /// It is a checkout of the whole project, and is itself the tree that is checked.
    Tree,
}

/// Target of a check.
#[derive(Clone, Debug)]
pub enum CheckTarget {
    /// The trees as an answer would leave them, with the answer's files; or why there is no complete
    /// copy of them.
    Answer(std::result::Result<CheckedFiles, String>),
    /// The trees as the delivery has left them.
    Delivery {
        /// The results of checks that took files from the user's trees: the delivery has changed
        /// these files, so that the check of the answer counts.
        settled: Vec<CheckResult>,
    },
    /// The trees as they are before any agent works.
    Baseline,
}

impl CheckTarget {
    /// Returns which tree of an agent it is; `None` for the user's own.
    fn tree(&self) -> Option<CheckedTree> {
        match self {
            CheckTarget::Answer(_) => Some(CheckedTree::Answer),
            CheckTarget::Delivery { .. } => Some(CheckedTree::Delivery),
            CheckTarget::Baseline => None,
        }
    }

    /// Returns the event that `check` begins on the work of `agent`.
    fn start_event(&self, agent: &AgentId, check: &CheckConfig) -> Option<Event> {
        let (agent, check) = (agent.clone(), check.name.clone());
        let event = DeliveryEvent::Checking { agent, check };
        self.tree().map(|_| Event::Delivery(event))
    }

    /// Returns the event that a check on the work of `agent` has ended.
    fn end_event(&self, agent: &AgentId, finding: CheckResult) -> Event {
        match self.tree() {
            Some(subject) => Event::Delivery(DeliveryEvent::Checked {
                agent: agent.clone(),
                subject,
                finding,
            }),
            None => Event::Run(RunEvent::BaselineChecked { finding }),
        }
    }

    /// Returns the result of `check` if it stands already.
    fn settled_result(&self, check: &CheckConfig) -> Option<&CheckResult> {
        match self {
            CheckTarget::Delivery { settled } => {
                settled.iter().find(|result| result.check == check.name)
            }
            CheckTarget::Answer(_) | CheckTarget::Baseline => None,
        }
    }

    /// Returns the copy of an answer's files, or else the layers with its changes.
    fn into_files(self) -> Result<(Option<RealPath>, ChangeLayers)> {
        match self {
            CheckTarget::Answer(Ok(CheckedFiles::Copy(snapshot))) => {
                Ok((snapshot, ChangeLayers::default()))
            }
            CheckTarget::Answer(Ok(CheckedFiles::Changes(changes))) => Ok((None, changes.layers)),
            CheckTarget::Answer(Err(reason)) => {
                let reason = format!("there is no complete copy of the answer's files: {reason}");
                Err(check_error(&reason))
            }
            CheckTarget::Delivery { .. } | CheckTarget::Baseline => {
                Ok((None, ChangeLayers::default()))
            }
        }
    }

    /// Returns the target for `check`, which takes some of an answer's files from the user's trees.
    fn for_check(&self, check: &CheckConfig) -> Self {
        let mut target = self.clone();
        if let CheckTarget::Answer(Ok(CheckedFiles::Changes(changes))) = &mut target
            && let Some(layers) = changes.fixed_layers.remove(&check.name)
        {
            changes.layers = layers;
        }
        target
    }
}

/// The files of an answer.
#[derive(Clone, Debug)]
pub enum CheckedFiles {
    /// A copy of its agent's workspace, if that has files.
    Copy(Option<RealPath>),
    /// What it changes in the user's trees.
    Changes(AnswerChanges),
}

/// Environment in which checks run.
struct CheckEnvironment {
    gate: Gate,
    dir: UserPath,
    /// A gate to the user's own trees, and the answer's changes to them; `None` if nothing is
    /// delivered.
    user_trees: Option<(Gate, Vec<FileChange>)>,
}

impl CheckRunner {
    /// Creates a runner of the checks of a config on the work of `agents`.
    pub fn new(
        checks: &ChecksConfig,
        agents: BTreeMap<AgentId, CheckedAgent>,
        overlays: OverlayFactory,
    ) -> Self {
        Self(Arc::new(CheckRunnerState {
            checks: checks.list.clone(),
            judge: checks.judge.as_ref().map(|judge| judge.check.clone()),
            agents,
            overlays,
            overlay_count: AtomicUsize::new(0),
            permits: Semaphore::new(checks.parallel),
        }))
    }

    /// Runs all checks on the work of `agent`, one after the other, and emits events about each.
    pub async fn run_checks(
        &self,
        agent: &AgentId,
        check_target: CheckTarget,
        deadline: &RunDeadline,
        events: &Sender<impl From<Event>>,
    ) -> CheckResults {
        let mut results = Vec::new();
        let mut changes = match &check_target {
            CheckTarget::Answer(Ok(CheckedFiles::Changes(changes))) => Some(changes.counts),
            CheckTarget::Answer(_) | CheckTarget::Delivery { .. } | CheckTarget::Baseline => None,
        };
        for check in &self.0.checks {
            if let Some(result) = check_target.settled_result(check) {
                results.push(result.clone());
                continue;
            }
            let _permit = self.0.permits.acquire().await;
            if let Some(event) = check_target.start_event(agent, check) {
                emit(events, event).await;
            }
            let start = Instant::now();
            let mut runs_left = check.retries;
            let (verdict, tail) = loop {
                let target = check_target.for_check(check);
                let run = self.run_check(agent, check, target, &mut changes, deadline);
                let (verdict, tail) = run.await;
                let is_failure = matches!(verdict, CheckVerdict::Failed { .. });
                if !is_failure || runs_left == 0 || deadline.stop.is_cancelled() {
                    break (verdict, tail);
                }
                runs_left = runs_left.saturating_sub(1);
            };
            let result = CheckResult {
                check: check.name.clone(),
                need: check.requirement,
                verdict,
                tail,
                elapsed_ms: milliseconds(start.elapsed()),
            };
            emit(events, check_target.end_event(agent, result.clone())).await;
            results.push(result);
        }
        CheckResults {
            checks: results,
            changes,
        }
    }

    /// Runs the judge on the work of `agent`, and returns its verdict; `None` without a judge.
    pub async fn judge(
        &self,
        agent: &AgentId,
        target: CheckTarget,
        deadline: &RunDeadline,
    ) -> Option<CheckVerdict> {
        let judge = self.0.judge.as_ref()?;
        let mut changes = None;
        let run = self.run_check(agent, judge, target, &mut changes, deadline);
        // Its output may quote the hidden files, and records of the run must not.
        let (verdict, _) = run.await;
        Some(verdict)
    }

    /// Runs one check, and returns its verdict and the end of its output. Sets the `changes` of the
    /// answer unless they are known.
    async fn run_check(
        &self,
        agent: &AgentId,
        check: &CheckConfig,
        check_target: CheckTarget,
        changes: &mut Option<ChangeCounts>,
        deadline: &RunDeadline,
    ) -> (CheckVerdict, String) {
        // Each check has an overlay of its own: one must not fix what another checks.
        let number = self.0.overlay_count.fetch_add(1, Ordering::Relaxed);
        let purpose = OverlayPurpose::Check(number);
        let files = check.files.as_ref();
        let environment = self
            .open_environment(agent, check_target, purpose, files)
            .await;
        // Counted once, before a check writes anything.
        if let (None, Ok(environment)) = (&changes, &environment) {
            *changes = environment.count_changes().await;
        }
        let outcome = match &environment {
            Ok(environment) => environment.run_check(check, deadline).await,
            Err(error) => {
                let reason = single_line(&format!("{error:#}"), TAIL_CHARS_MAX);
                (CheckVerdict::NotRun { reason }, String::new())
            }
        };
        drop(environment);
        // What cannot be removed now is removed at the end of the run.
        let overlays = self.0.overlays.clone();
        let removal = tokio::task::spawn_blocking(move || overlays.remove(purpose)).await;
        if let Ok(Err(error)) = removal {
            tracing::warn!("cannot remove the files that a check has written: {error:#}");
        }
        outcome
    }

    async fn open_environment(
        &self,
        agent: &AgentId,
        check_target: CheckTarget,
        purpose: OverlayPurpose,
        files: Option<&AbsPath>,
    ) -> Result<CheckEnvironment> {
        let checked_agent = self
            .0
            .agents
            .get(agent)
            .ok_or_else(|| Error::bug(format!("no agent `{agent}`")))?;
        let environment = checked_agent
            .environment
            .clone()
            .ok_or_else(|| check_error("no sandbox is available for checks"))?;
        let (snapshot, layers) = match checked_agent.files {
            CheckedWorkspace::Tree => (None, ChangeLayers::default()),
            CheckedWorkspace::Copy => check_target.into_files()?,
        };
        let files = files
            .map(|files| Ok::<_, Error>(locate(files)?.into_real()))
            .transpose()?;
        let copied = [snapshot.as_ref(), files.as_ref()];
        let mut grants = checked_agent.grants_for_check(copied.into_iter().flatten());
        let tree = first_write_tree(&grants).cloned();
        let has_tree = tree.is_some();
        let target = if let Some(tree) = tree {
            tree
        } else {
            // Nothing of the user's can change: the answer's files are checked by themselves.
            let root = self.0.overlays.create_directory(purpose)?;
            let workspace_grant =
                Grant::tree(root.clone(), GrantKind::Workspace, Permission::Write);
            grants.push(workspace_grant);
            root
        };
        let dir = user_path(&target)?;
        let left_out = checked_agent.left_out.clone();
        // Their workspaces count, too.
        let agents = self.0.agents.values();
        let mut managers: Vec<PathPermissionManager> = agents
            .map(|agent| permission_manager(&agent.grants, Phase::Final))
            .collect();
        let manager = permission_manager(&grants, Phase::Final);
        managers.push(manager.clone());
        let venv_root = target.clone();
        let prepare = move || {
            let is_work = |path: &AbsPath| is_replaceable(path, &managers);
            let venv = user_venv(&venv_root).filter(|venv| !is_work(&venv.join(VENV_PROGRAMS)));
            environment.for_check(venv.as_ref(), is_work)
        };
        let environment = run_blocking(prepare).await?;
        let (overlay, _) = (self.0.overlays)
            .open(purpose, &grants, Some(&environment), &layers)
            .await?;
        if has_tree && !(overlay.as_ref()).is_some_and(WriteOverlay::is_fully_visible) {
            return Err(check_error("checks cannot see what would be delivered"));
        }
        let work = move || {
            let policy = GatePolicy {
                commands: Some(environment),
                overlay,
                ..GatePolicy::minimal(target.clone())
            };
            let call_policy = GatePolicy::minimal(target.clone());
            let user_policy = policy.overlay.is_some().then_some(call_policy);
            let gate = Gate::open(manager.clone(), policy)?;
            let mut user_trees = None;
            if let Some(snapshot) = snapshot {
                let changes = copy_snapshot(&gate, &snapshot, &target, left_out)?;
                let user_gate = user_policy
                    .map(|user_policy| Gate::open(manager, user_policy))
                    .transpose()?;
                user_trees = user_gate.map(|user_gate| (user_gate, changes));
            }
            if let Some(files) = files {
                copy_snapshot(&gate, &files, &target, Vec::new())?;
            }
            Ok(CheckEnvironment {
                gate,
                dir,
                user_trees,
            })
        };
        run_blocking(work).await
    }
}

impl CheckedAgent {
    /// Returns the grants of a check, without those of the agent's workspace and of directories in
    /// it: what a check writes there would persist. Of all copies of answers, it reads the one that
    /// it checks; `copied` are the directories that are laid over the tree.
    fn grants_for_check<'p>(&self, copied: impl Iterator<Item = &'p RealPath>) -> Vec<Grant> {
        let is_kept = |grant: &&Grant| {
            !matches!(
                grant.kind,
                GrantKind::Workspace | GrantKind::BuiltIn | GrantKind::TempWorkspace
            )
        };
        let copied_grants = copied
            .map(|root| Grant::tree(root.clone(), GrantKind::TempWorkspace, Permission::Read));
        let kept_grants = self.grants.iter().filter(is_kept).cloned();
        kept_grants.chain(copied_grants).collect()
    }
}

impl CheckEnvironment {
    /// Returns how much the answer would change in the user's trees.
    async fn count_changes(&self) -> Option<ChangeCounts> {
        let (user_gate, changes) = self.user_trees.clone()?;
        let gate = self.gate.clone();
        let count = move || {
            let paths = changes.iter().map(|change| &change.path);
            diffstat(&user_gate, &gate, paths)
        };
        tokio::task::spawn_blocking(count).await.ok()
    }

    async fn run_check(
        &self,
        check: &CheckConfig,
        deadline: &RunDeadline,
    ) -> (CheckVerdict, String) {
        let call = ToolCall::ExecuteCommand {
            command: check.command.clone(),
            timeout_seconds: Some(check.timeout_seconds),
            dir: self.dir.clone(),
            answer: None,
        };
        let stop = async {
            let _cause = deadline.wait().await;
        };
        run_command(self.gate.clone(), call, stop).await
    }
}

/// Runs the command of `call`, which `gate` permits, until `stop` ends. Returns its verdict and the
/// end of its output.
pub(super) async fn run_command(
    gate: Gate,
    call: ToolCall,
    stop: impl Future<Output = ()>,
) -> (CheckVerdict, String) {
    let not_run = |reason: String| (CheckVerdict::NotRun { reason }, String::new());
    let interrupt = match CommandInterrupt::new() {
        Ok(interrupt) => interrupt,
        Err(error) => return not_run(error.to_string()),
    };
    let _interrupt_on_drop = interrupt.on_drop();
    let interrupt_at_stop = interrupt.clone();
    let work = move || match gate.check(call) {
        Ok(permitted) => run_check(permitted, &interrupt),
        Err(error) => Err(error.reason()),
    };
    let mut command_task = tokio::task::spawn_blocking(work);
    let outcome = tokio::select! {
        outcome = &mut command_task => outcome,
        () = stop => {
            interrupt_at_stop.raise();
            command_task.await
        }
    };
    match outcome {
        Ok(Ok(CheckCommandOutcome::Passed)) => (CheckVerdict::Passed, String::new()),
        Ok(Ok(CheckCommandOutcome::Failed { failure, output })) => {
            (CheckVerdict::Failed { failure }, output_tail(&output))
        }
        Ok(Err(reason)) => not_run(single_line(&reason, TAIL_CHARS_MAX)),
        Err(_) => not_run("internal error in massgen".to_owned()),
    }
}

/// Returns when checks that run now begin, in nanoseconds since 1970, by the clock of file
/// timestamps.
pub(super) fn checks_begin_ns() -> i128 {
    i128::from(clock::now().unix_nanoseconds()) - CLOCK_TICK_NS
}

/// Returns why the work does not pass the required checks, if it does not.
pub(super) fn failure_of_checks(results: &CheckResults, deadline: &RunDeadline) -> Option<String> {
    let failure = results.failed_requirements()?;
    let is_interrupted = deadline.stop.is_cancelled() && !results.has_failed();
    Some(if is_interrupted {
        "interrupted before all checks had finished".to_owned()
    } else {
        failure
    })
}

/// Returns whether agents may write to `path` or decide what it leads to, so that what is there may
/// come from the work that is checked. Protected names are the user's.
fn is_replaceable(path: &AbsPath, managers: &[PathPermissionManager]) -> bool {
    let (Ok(places), Ok(_)) = (places_on_way(path), locate(path)) else {
        return true;
    };
    places.into_iter().any(|place| {
        let mut managers = managers.iter();
        managers.any(|manager| manager.allows(&place, Permission::Write))
    })
}

/// Returns the Python virtual environment in the user's directory `dir`, if there is one.
fn user_venv(dir: &RealPath) -> Option<AbsPath> {
    let venv = dir.to_abs().join(VENV);
    let programs = locate(&venv.join(VENV_PROGRAMS)).ok()?;
    matches!(programs, LocatedPath::Directory(_)).then_some(venv)
}

/// Copies the files of an answer over the tree that they would be delivered to, without the
/// directories `left_out`.
fn copy_snapshot(
    gate: &Gate,
    snapshot: &RealPath,
    target: &RealPath,
    left_out: Vec<&'static str>,
) -> Result<Vec<FileChange>> {
    let call =
        copy_all_call(&snapshot.to_abs(), target, left_out).ok_or_else(|| check_error(NOT_UTF8))?;
    let observation = exec::make_call(gate, call).map_err(|reason| check_error(&reason))?;
    Ok(observation.changes)
}

/// Returns `path` as a call names it.
pub(super) fn user_path(path: &RealPath) -> Result<UserPath> {
    let text = path.as_path().to_str();
    text.and_then(|text| UserPath::parse(text).ok())
        .ok_or_else(|| check_error(NOT_UTF8))
}

fn check_error(reason: &str) -> Error {
    Error::new(ErrorKind::Environment, reason)
}

/// Returns the end of `output`.
fn output_tail(output: &str) -> String {
    let lines: Vec<&str> = output
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let skipped_count = lines.len().saturating_sub(TAIL_LINES_MAX);
    let tail_lines: Vec<String> = lines
        .iter()
        .skip(skipped_count)
        .map(|line| single_line(line, TAIL_CHARS_MAX))
        .collect();
    tail_lines.join("\n")
}
