//! Carries out `spawn_subagents`: creates a directory and a gate for each subagent, both part of
//! what its parent may use, and reports to the parent how each of them ended. Their conversations
//! are the work of a [`SubagentRunner`].

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::event::SubagentStatus;
use crate::path::RelPath;
use crate::permissions::grant::{GrantKind, Permission};
use crate::prompts::untrusted_text::{escape_notes, note};
use crate::text::{count_noun, truncate};
use crate::tools::call::{SUBAGENTS_DIRECTORY, SubagentTask};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::list::list_readable;
use crate::world::exec::runner_call::RunnerCall;
use crate::world::exec::tool_result::{
    ActionOutcome, Observation, ToolError, ToolResult, display_path, json_names,
};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::tree_listing::EntrySelection;

/// Maximum length of a subagent's answer as its parent reads it, in characters.
const ANSWER_CHARS_MAX: usize = 20_000;

/// Maximum length of the reason for a subagent's failure as its parent reads it, in characters.
const REASON_CHARS_MAX: usize = 500;

/// What is not possible where a subagent cannot be started.
const START: &str = "start a subagent in";

/// Runs the conversations of an agent's subagents.
pub trait SubagentRunner: Debug + Send + Sync {
    /// Counts the subagents for `tasks` as the agent's.
    ///
    /// # Errors
    /// The agent may not have that many, or one has the name of an earlier one; the string says
    /// why.
    fn reserve(&self, tasks: &[SubagentTask]) -> Result<(), String>;

    /// Returns whether subagents may have been at work when the run was interrupted, so that their
    /// directories exist.
    fn is_resumed(&self) -> bool;

    /// Runs subagents to their ends, and returns how each of them ended, in their order. All end
    /// soon after `cancelled` completes.
    fn run<'a>(
        &'a self,
        call_id: &'a str,
        specs: Vec<SubagentSpec>,
        cancelled: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Vec<SubagentReport>>;
}

/// A subagent to run.
#[derive(Clone, Debug)]
pub struct SubagentSpec {
    /// Its name and task.
    pub task: SubagentTask,
    /// Decides about its calls.
    pub gate: Gate,
    /// Its directory.
    pub workspace: String,
}

/// How a subagent ended.
#[derive(Clone, Debug)]
pub struct SubagentReport {
    /// Whether it completed its task.
    pub status: SubagentStatus,
    /// The last text of its model.
    pub answer: String,
    /// Why it did not complete its task.
    pub reason: Option<String>,
    /// How long it worked.
    pub elapsed: Duration,
}

impl SubagentReport {
    /// Returns the answer of one that completed its task.
    ///
    /// # Errors
    /// It did not; the string says why.
    pub fn into_answer(self) -> Result<String, String> {
        match (self.status, self.reason) {
            (SubagentStatus::Completed, _) => Ok(self.answer),
            (_, Some(reason)) => Err(reason),
            (status, None) => Err(status.to_string()),
        }
    }
}

/// Implements `spawn_subagents`.
pub(super) fn spawn_subagents(
    gate: &Gate,
    tasks: Vec<SubagentTask>,
    dirs: &[ResolvedPath],
    interrupt: Option<&CommandInterrupt>,
    runner: Option<&dyn SubagentRunner>,
) -> ToolResult {
    let unavailable = "only agents of a run have subagents";
    let call = RunnerCall::new(gate, interrupt, runner, unavailable)?;
    // All directories are checked before the first is created.
    for (task, dir) in tasks.iter().zip(dirs) {
        check_directory(gate, task, dir, call.runner.is_resumed())?;
    }
    call.runner.reserve(&tasks).map_err(ToolError::failed)?;
    let mut specs = Vec::new();
    for (task, dir) in tasks.into_iter().zip(dirs) {
        specs.push(SubagentSpec {
            gate: open_gate(gate, dir)?,
            workspace: dir.real().to_string(),
            task,
        });
    }
    let started_specs = specs.clone();
    let reports = call.block_on(|runner, call_id, cancelled| runner.run(call_id, specs, cancelled));
    for spec in &started_specs {
        if let Some(commands) = spec.gate.commands() {
            // Background commands end with their subagent; nobody asks how.
            let _statuses = commands.end_background();
        }
    }
    let outcomes: Vec<_> = started_specs.iter().zip(dirs).zip(&reports).collect();
    let all_completed = outcomes.len() == dirs.len()
        && reports
            .iter()
            .all(|report| report.status == SubagentStatus::Completed);
    let results: Vec<Value> = outcomes
        .iter()
        .map(|((spec, dir), report)| result_json(gate, spec, dir, report))
        .collect();
    let summary_lines = outcomes
        .iter()
        .map(|((spec, _), report)| match &report.reason {
            Some(reason) => format!("{} {}: {reason}", spec.task.id, report.status),
            None => format!("{} {}", spec.task.id, report.status),
        });
    let summaries = summary_lines.collect::<Vec<_>>().join("; ");
    let content = json!({
        "success": all_completed,
        "operation": "spawn_subagents",
        "results": results,
    });
    let outcome = if all_completed {
        ActionOutcome::Done
    } else {
        ActionOutcome::Failed
    };
    Ok(Observation {
        summary: Some(format!(
            "{}: {summaries}",
            count_noun(dirs.len(), "subagent")
        )),
        ..Observation::new(outcome, content.to_string())
    })
}

/// Checks that `dir` is where the subagent's directory belongs, and is new unless it `is_resumed`.
fn check_directory(
    gate: &Gate,
    task: &SubagentTask,
    dir: &ResolvedPath,
    is_resumed: bool,
) -> Result<(), ToolError> {
    let expected = RelPath::new(format!("{SUBAGENTS_DIRECTORY}/{}", task.id));
    if expected != Some(dir.below()) || dir.grant().kind != GrantKind::Workspace {
        let reason = "subagents work only in your workspace";
        return Err(ToolError::denied(gate, dir.real(), reason));
    }
    match dir.meta() {
        Err(FileSystemError::Missing) => Ok(()),
        Ok(meta) if is_resumed && meta.kind == FileKind::Directory => Ok(()),
        Ok(_) => {
            let reason = "it exists; give the subagent another `id`";
            Err(ToolError::failed_at(gate, START, dir, reason))
        }
        Err(error) => Err(ToolError::failed_at(gate, START, dir, error)),
    }
}

/// Creates the directory of a subagent, and opens its gate.
fn open_gate(gate: &Gate, dir: &ResolvedPath) -> Result<Gate, ToolError> {
    let result = dir.dir().make_dirs(&dir.below());
    let _created = result.map_err(|error| ToolError::failed_at(gate, START, dir, error))?;
    let manager = gate.manager().for_subagent(dir.real()).ok_or_else(|| {
        let reason = "subagents work only in your workspace";
        ToolError::denied(gate, dir.real(), reason)
    })?;
    let commands = match gate.commands() {
        Some(commands) => commands
            .for_subagent()
            .map_err(|error| ToolError::failed_at(gate, START, dir, error))?,
        None => None,
    };
    let policy = gate
        .policy()
        .for_subagent(dir.real().clone(), &dir.below(), commands);
    Gate::open(manager, policy).map_err(|error| ToolError::failed_at(gate, START, dir, error))
}

/// Returns what the parent reads about one subagent.
fn result_json(
    gate: &Gate,
    spec: &SubagentSpec,
    dir: &ResolvedPath,
    report: &SubagentReport,
) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    add("id", spec.task.id.as_str().into());
    add("status", report.status.to_string().into());
    let mut answer = escape_notes(&truncate(&report.answer, ANSWER_CHARS_MAX)).into_owned();
    let cut_chars = report
        .answer
        .chars()
        .count()
        .saturating_sub(ANSWER_CHARS_MAX);
    if cut_chars > 0 {
        answer.push_str(&note(format_args!("cut: {cut_chars} more characters")));
    }
    add("answer", answer.into());
    if let Some(reason) = &report.reason {
        let reason = truncate(reason, REASON_CHARS_MAX);
        add("error", escape_notes(&reason).into_owned().into());
    }
    add("workspace", display_path(gate, dir.real()).into());
    add("files", files_json(gate, dir));
    let seconds = (report.elapsed.as_secs_f64() * 10.0).round() / 10.0;
    add("execution_time", json!(seconds));
    Value::Object(fields)
}

/// Returns the files below `dir` that the parent may read; none if the directory cannot be listed.
fn files_json(gate: &Gate, dir: &ResolvedPath) -> Value {
    let listing = list_readable(gate, dir, &mut |_| EntrySelection::Deep);
    let entries = listing.map(|listing| listing.entries).unwrap_or_default();
    let files = entries.iter().filter(|entry| {
        let path = dir.real().join(&entry.rel);
        entry.kind != FileKind::Directory && gate.allows(&path, Permission::Read)
    });
    json_names(files.map(|entry| &entry.rel))
}
