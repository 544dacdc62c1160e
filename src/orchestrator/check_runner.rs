//! Runs the config's checks on agents' work: in the user's trees as an answer would leave them, or
//! as the delivery has left them. Each check has its own overlay, home and temporary files, in the
//! sandbox of the agent's commands; nothing that it writes is kept. The results are not interpreted
//! here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::mpsc::Sender;

use crate::agent::deadline::RunDeadline;
use crate::agent::emit;
use crate::check_results::{ChangeCounts, CheckResult, CheckResults, CheckVerdict};
use crate::config::checks::CheckConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CheckedTree, DeliveryEvent, Event};
use crate::id::AgentId;
use crate::orchestrator::final_phase::copy_all_call;
use crate::orchestrator::grants::{permission_manager, write_roots};
use crate::orchestrator::overlays::{OverlayFactory, OverlayPurpose};
use crate::path::{AbsPath, RealPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission, Phase};
use crate::sandbox_policy::environment::VENV;
use crate::text::single_line;
use crate::tools::call::{ToolCall, UserPath};
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::exec::check_command::{CheckCommandOutcome, run_check};
use crate::world::exec::diffstat::diffstat;
use crate::world::exec::{self, ActionOutcome};
use crate::world::io::clock::milliseconds;
use crate::world::io::file_change::FileChange;
use crate::world::io::locate::{LocatedPath, locate, symlinks_on_path};
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Maximum length of the end of a check's output that is kept: lines, and characters of each line.
const TAIL_LINES_MAX: usize = 20;
const TAIL_CHARS_MAX: usize = 400;

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
    agents: BTreeMap<AgentId, CheckedAgent>,
    overlays: OverlayFactory,
    overlay_count: AtomicUsize,
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
}

/// Target of a check.
#[derive(Clone, Debug)]
pub enum CheckTarget {
    /// The trees as an answer would leave them, with the copy of the answer's files, if it has any;
    /// or why there is no complete copy.
    Answer(std::result::Result<Option<RealPath>, String>),
    /// The trees as they are.
    Delivery,
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
    /// Creates a runner of `checks` on the work of `agents`.
    pub fn new(
        checks: Vec<CheckConfig>,
        agents: BTreeMap<AgentId, CheckedAgent>,
        overlays: OverlayFactory,
    ) -> Self {
        Self(Arc::new(CheckRunnerState {
            checks,
            agents,
            overlays,
            overlay_count: AtomicUsize::new(0),
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
        let subject = match check_target {
            CheckTarget::Answer(_) => CheckedTree::Answer,
            CheckTarget::Delivery => CheckedTree::Delivery,
        };
        let mut results = Vec::new();
        let mut changes = None;
        for check in &self.0.checks {
            let start_event = Event::Delivery(DeliveryEvent::Checking {
                agent: agent.clone(),
                check: check.name.clone(),
            });
            emit(events, start_event).await;
            let start = Instant::now();
            // Each check has an overlay of its own: one must not fix what another checks.
            let environment = self.open_environment(agent, check_target.clone()).await;
            // Counted once, before a check writes anything.
            if let (None, Ok(environment)) = (&changes, &environment) {
                changes = environment.count_changes().await;
            }
            let (verdict, tail) = match &environment {
                Ok(environment) => environment.run_check(check, deadline).await,
                Err(error) => {
                    let reason = single_line(&format!("{error:#}"), TAIL_CHARS_MAX);
                    (CheckVerdict::NotRun { reason }, String::new())
                }
            };
            drop(environment);
            self.clear_overlays().await;
            let result = CheckResult {
                check: check.name.clone(),
                need: check.requirement,
                verdict,
                tail,
                elapsed_ms: milliseconds(start.elapsed()),
            };
            let end_event = Event::Delivery(DeliveryEvent::Checked {
                agent: agent.clone(),
                subject,
                finding: result.clone(),
            });
            emit(events, end_event).await;
            results.push(result);
        }
        CheckResults {
            checks: results,
            changes,
        }
    }

    /// Removes what the checks wrote. What cannot be removed now is removed at the end of the run.
    async fn clear_overlays(&self) {
        let overlays = self.0.overlays.clone();
        let clear_result = tokio::task::spawn_blocking(move || overlays.clear_checks()).await;
        if let Ok(Err(error)) = clear_result {
            tracing::warn!("cannot remove files written by checks: {error:#}");
        }
    }

    async fn open_environment(
        &self,
        agent: &AgentId,
        check_target: CheckTarget,
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
        // Without the grants of the agent's workspace and of directories in it: what a check writes
        // there would persist.
        let is_kept =
            |grant: &&Grant| !matches!(grant.kind, GrantKind::Workspace | GrantKind::BuiltIn);
        let mut grants: Vec<Grant> = checked_agent
            .grants
            .iter()
            .filter(is_kept)
            .cloned()
            .collect();
        let number = self.0.overlay_count.fetch_add(1, Ordering::Relaxed);
        let purpose = OverlayPurpose::Check(number);
        let (overlay, _) = (self.0.overlays)
            .open(purpose, &grants, Some(&environment))
            .await?;
        let roots = write_roots(&grants);
        let tree = roots.iter().find(|grant| grant.scope == GrantScope::Tree);
        let snapshot = match check_target {
            CheckTarget::Answer(Ok(snapshot)) => snapshot,
            CheckTarget::Answer(Err(reason)) => {
                let reason = format!("there is no complete copy of the answer's files: {reason}");
                return Err(check_error(&reason));
            }
            CheckTarget::Delivery => None,
        };
        let target = match (tree, &overlay) {
            (Some(tree), Some(overlay)) if overlay.is_fully_visible() => tree.root.clone(),
            (Some(_), _) => {
                return Err(check_error("checks cannot see what would be delivered"));
            }
            // Nothing of the user's can change: the answer's files are checked by themselves.
            (None, _) => {
                let root = self.0.overlays.create_directory(purpose)?;
                let workspace_grant =
                    Grant::tree(root.clone(), GrantKind::Workspace, Permission::Write);
                grants.push(workspace_grant);
                root
            }
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
        let work = move || {
            let is_work = |path: &AbsPath| is_replaceable(path, &managers);
            let venv = user_venv(&target).filter(|venv| !is_work(&venv.join(VENV_PROGRAMS)));
            let policy = GatePolicy {
                commands: Some(environment.for_check(venv.as_ref(), is_work)?),
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
            Ok(CheckEnvironment {
                gate,
                dir,
                user_trees,
            })
        };
        let result = tokio::task::spawn_blocking(work).await;
        result.map_err(|_| Error::bug("cannot prepare the checks"))?
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
        let not_run = |reason: String| (CheckVerdict::NotRun { reason }, String::new());
        let call = ToolCall::ExecuteCommand {
            command: check.command.clone(),
            timeout_seconds: Some(check.timeout_seconds),
            dir: self.dir.clone(),
        };
        let interrupt = match CommandInterrupt::new() {
            Ok(interrupt) => interrupt,
            Err(error) => return not_run(error.to_string()),
        };
        let _interrupt_on_drop = interrupt.on_drop();
        let (gate, interrupt_at_deadline) = (self.gate.clone(), interrupt.clone());
        let work = move || match gate.check(call) {
            Ok(permitted) => run_check(permitted, &interrupt),
            Err(denial) => Err(denial.reason),
        };
        let mut command_task = tokio::task::spawn_blocking(work);
        let outcome = tokio::select! {
            outcome = &mut command_task => outcome,
            _ = deadline.wait() => {
                interrupt_at_deadline.raise();
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
}

/// Returns whether agents may write to `path` or decide what it leads to, so that what is there may
/// come from the work that is checked. Protected names are the user's.
fn is_replaceable(path: &AbsPath, managers: &[PathPermissionManager]) -> bool {
    let (Ok(symlinks), Ok(located)) = (symlinks_on_path(path), locate(path)) else {
        return true;
    };
    let mut places = symlinks.into_iter().chain([located.into_real()]);
    places.any(|place| {
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
    let permitted = gate
        .check(call)
        .map_err(|denial| check_error(&denial.reason))?;
    let observation = exec::run(permitted);
    match observation.outcome {
        ActionOutcome::Done => Ok(observation.changes),
        ActionOutcome::Failed | ActionOutcome::Denied => Err(check_error(&observation.content)),
    }
}

fn user_path(path: &RealPath) -> Result<UserPath> {
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
