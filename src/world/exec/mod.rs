//! Carries out permitted actions. This is the only folder that unwraps a [`Permitted`]. Every path
//! is opened beneath the handle of its grant's root, and every name found below it is checked
//! against the permissions again.

mod tool_result;
mod command_changes;
mod closed_paths;
mod selection;
mod list;
mod text;
pub mod compare;
mod write_block;
mod delete;
mod put;
mod commit;
mod user_trees;
mod inventory;
mod command_sync;
mod folding;
mod masks;
mod process_report;
mod relocated_trees;
mod command;
mod answer_trial;
mod background;
mod tool_call_server;
mod copy;
pub mod fingerprint;
pub mod diffstat;
mod grep;
pub mod agent_socket;
pub mod agent_launcher;
mod after_hooks;
pub mod pass_through;
pub mod program;
mod read;
mod plan_file;
mod read_media;
mod relocate;
mod server_launch;
mod program_tool;
pub mod server_calls;
mod fetch;
mod runner_call;
pub mod vendor_tools;
pub mod media;
pub mod subagents;
pub mod check_command;
mod write;
mod apply_patch;

use std::convert::Infallible;

use serde_json::json;

use crate::answer_changes::ChangeLayers;
use crate::path::AbsPath;
use crate::tools::call::{LineRange, ReadForm, ToolCall, UserPath};
use crate::tools::image::ModelImage;
use crate::tools::model_file::{ModelFile, ModelFileClass};
use crate::world::access::gate::{Action, Gate, Permitted, ResolvedPath};
use crate::world::access::verdict::{Denial, PermitError};
use crate::world::exec::command::ShellInvocation;
use crate::world::exec::copy::CopyRoute;
use crate::world::exec::media::MediaRunner;
use crate::world::exec::pass_through::PassthroughResult;
use crate::world::exec::subagents::SubagentRunner;
use crate::world::exec::tool_result::{ToolError, ToolResult};
use crate::world::exec::vendor_tools::{VendorToolRequest, VendorToolRunner};
use crate::world::io::file_change::FileChange;
use crate::world::sandbox::ProcessStreams;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sys::file_kind::FileKind;

/// The result of an action: what the model reads, and what changed on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Whether the action did what was requested.
    pub outcome: ActionOutcome,
    /// What the model reads; bounded in size.
    pub content: String,
    /// Images that belong to the content.
    pub images: Vec<ModelImage>,
    /// Every file that the action created, changed or deleted, or left alone to protect the user's
    /// data.
    pub changes: Vec<FileChange>,
    /// Denials of tool calls that the action itself made, as a program does.
    pub denials: Vec<Denial>,
    /// The exit status of a command or program that exited by itself; file tools have none.
    pub exit_code: Option<i32>,
    /// A one-line version of the content for people, where the content is meant for models only.
    pub summary: Option<String>,
}

impl From<PermitError> for Observation {
    fn from(error: PermitError) -> Self {
        let outcome = match error {
            PermitError::Denied(_) => ActionOutcome::Denied,
            PermitError::Exhausted(_) => ActionOutcome::Failed,
        };
        Self::new(outcome, error.to_string())
    }
}

/// Whether an action did what was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// The action did what was requested.
    Done,
    /// It failed; the content says why.
    Failed,
    /// A rule that needs the state of the disk denies it: for example, a file is unread or was
    /// changed by somebody else, or a directory holds a protected name.
    Denied,
}

/// Carries out a permitted action. Blocks on disk I/O, so async callers must run it in a blocking
/// pool.
pub fn run(permitted: Permitted<Action>) -> Observation {
    run_until(permitted, None)
}

/// Makes a call through `gate`. The error is the reason why it was not done.
pub fn make_call(gate: &Gate, call: ToolCall) -> Result<Observation, String> {
    let observation = run(gate.check(call).map_err(|error| error.reason())?);
    match observation.outcome {
        ActionOutcome::Done => Ok(observation),
        ActionOutcome::Failed | ActionOutcome::Denied => Err(observation.content),
    }
}

/// Returns the text of a file, as the agent of `gate` would read it, or why it cannot read it.
pub fn read_text(gate: &Gate, file: &AbsPath) -> Result<String, String> {
    let call = ToolCall::ReadTextFile {
        path: UserPath::parse(file.to_string()).map_err(|error| error.to_string())?,
        lines: LineRange::All,
        form: ReadForm::Plain,
    };
    make_call(gate, call).map(|observation| observation.content)
}

/// Like [`run`], but stops a command or program when `interrupt` is raised.
pub fn run_until(
    permitted: Permitted<Action>,
    interrupt: Option<&CommandInterrupt>,
) -> Observation {
    run_with_runners(permitted, interrupt, CallRunners::default())
}

/// What asks the model of an agent on behalf of its calls; without it, such calls fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallRunners<'a> {
    /// Runs the agent's subagents.
    pub subagents: Option<&'a dyn SubagentRunner>,
    /// Uses the tools of its vendor.
    pub vendor_tools: Option<&'a dyn VendorToolRunner>,
    /// Has its vendor make media.
    pub media: Option<&'a dyn MediaRunner>,
}

/// Like [`run_until`], for an agent that has `runners`.
pub fn run_with_runners(
    permitted: Permitted<Action>,
    interrupt: Option<&CommandInterrupt>,
    runners: CallRunners<'_>,
) -> Observation {
    let (action, gate) = permitted.into_action();
    let format = ResultFormat::from_action(&action);
    let result = carry_out(&gate, action, interrupt, runners);
    let observation = result.unwrap_or_else(|error| format.observation(error));
    after_hooks::run_after_hooks(&gate, observation)
}

/// Records that the agent has seen the current version of the files of an action that was carried
/// out earlier.
pub fn refresh_versions(permitted: Permitted<Action>) {
    let (action, gate) = permitted.into_action();
    let record = |path: ResolvedPath| -> Result<(), Infallible> {
        if let Ok(meta) = path.dir().meta(&path.below())
            && meta.kind == FileKind::File
        {
            gate.history()
                .record_read(path.real().clone(), meta.version);
        }
        Ok(())
    };
    // `try_map` serves to visit each path; the action that it returns is not carried out again.
    let _mapped = action.try_map(record);
}

/// Reads the media file that an action may read as a document, recording or video, as `class` says,
/// for the first message to a model. Blocks on disk I/O.
///
/// # Errors
/// The file cannot be read, is of another type or too large; the string says why.
pub fn read_model_file(
    permitted: Permitted<Action>,
    class: ModelFileClass,
) -> Result<ModelFile, String> {
    let (action, gate) = permitted.into_action();
    let read_result = if let Action::ReadMediaFile { path } = action {
        read_media::read_model_file(&gate, &path, class)
    } else {
        Err(ToolError::failed("only a media file is read as one"))
    };
    read_result.map_err(|tool_error| tool_error.message)
}

/// Runs a permitted command on `streams` until it exits or `interrupt` is raised: on the user's
/// trees with `changes`, if there are some.
///
/// # Errors
/// The command was not run, or its changes could not be applied; the string says why.
pub fn run_on_streams(
    permitted: Permitted<Action>,
    changes: Option<&ChangeLayers>,
    streams: ProcessStreams,
    interrupt: &CommandInterrupt,
) -> Result<PassthroughResult, String> {
    let (action, gate) = permitted.into_action();
    let format = ResultFormat::from_action(&action);
    let result = if let Action::ExecuteCommand { command, dir, .. } = action {
        let invocation = ShellInvocation::new(&command, &dir);
        answer_trial::run_on_answer(&gate, changes, invocation, |gate, invocation| {
            pass_through::pass_through(gate, invocation, streams, interrupt)
        })
    } else {
        Err(ToolError::failed("only a command has streams"))
    };
    result.map_err(|error| format.observation(error).content)
}

fn carry_out(
    gate: &Gate,
    action: Action,
    interrupt: Option<&CommandInterrupt>,
    runners: CallRunners<'_>,
) -> ToolResult {
    match action {
        Action::ReadTextFile { path, lines, form } => read::read_file(gate, &path, lines, form),
        Action::ReadMultipleFiles { paths } => Ok(read::read_multiple_files(gate, &paths)),
        Action::WriteFile { path, content } => write::write_file(gate, &path, &content),
        Action::ApplyPatch { files, .. } => apply_patch::apply_patch(gate, &files),
        Action::EditFile { path, edits, mode } => write::edit_file(gate, &path, &edits, mode),
        Action::CreateDirectory { path } => write::create_directory(gate, &path),
        Action::ListDirectory { path } => list::list_directory(gate, &path),
        Action::DirectoryTree { path, exclude } => list::directory_tree(gate, &path, &exclude),
        Action::MoveFile {
            source,
            destination,
        } => relocate::move_file(gate, &source, &destination),
        Action::SearchFiles {
            path,
            pattern,
            exclude,
        } => list::search_files(gate, &path, &pattern, &exclude),
        Action::GrepFiles { path, grep } => grep::grep_files(gate, &path, &grep),
        Action::ReadMediaFile { path } => read_media::read_media_file(gate, &path),
        Action::GetFileInfo { path } => read::get_file_info(gate, &path),
        Action::CopyFile {
            source,
            destination,
            existing,
        } => copy::copy_file(CopyRoute::new(gate, &source, &destination, existing)),
        Action::CopyFilesBatch {
            source,
            destination,
            selection,
            existing,
        } => {
            let route = CopyRoute::new(gate, &source, &destination, existing);
            copy::copy_files_batch(route, &selection)
        }
        Action::DeleteFile { path, recursion } => delete::delete_file(gate, &path, recursion),
        Action::DeleteFilesBatch { path, selection } => {
            delete::delete_files_batch(gate, &path, &selection)
        }
        Action::CompareFiles {
            first,
            second,
            context_lines,
        } => compare::compare_files(gate, &first, &second, context_lines),
        Action::CompareDirectories {
            first,
            second,
            content,
        } => compare::compare_directories(gate, &first, &second, content),
        Action::ListAllowedDirectories => Ok(read::list_allowed_directories(gate)),
        Action::ExecuteCommand {
            command,
            timeout_seconds,
            dir,
            answer,
        } => {
            let invocation = ShellInvocation::new(&command, &dir);
            answer_trial::execute_command(gate, answer, invocation, timeout_seconds, interrupt)
        }
        Action::StartBackgroundCommand { command, dir } => {
            background::start(gate, ShellInvocation::new(&command, &dir))
        }
        Action::GetBackgroundOutput { id, offset } => background::output(gate, id, offset),
        Action::GetBackgroundStatus { id } => background::status(gate, id),
        Action::StopBackgroundCommand { id } => background::stop(gate, id),
        Action::ListBackgroundCommands => background::list(gate),
        Action::ExecuteCode {
            code,
            timeout_seconds,
        } => program::execute_code(gate, &code, timeout_seconds, interrupt),
        Action::FetchUrl { url } => fetch::fetch_url(gate, url, interrupt),
        Action::AskVendor { tool, request } => {
            let request = VendorToolRequest { tool, request };
            vendor_tools::ask_vendor(gate, request, interrupt, runners.vendor_tools)
        }
        Action::GenerateMedia { path, order } => {
            media::generate_media(gate, &path, order, interrupt, runners.media)
        }
        Action::UpdatePlan { plan } => Ok(plan_file::update_plan(gate, &plan)),
        Action::SpawnSubagents { tasks, dirs } => {
            subagents::spawn_subagents(gate, tasks, &dirs, interrupt, runners.subagents)
        }
        Action::CallServer(call) => server_calls::call(gate, &call, interrupt),
    }
}

/// How a tool formats its result: file tools use text, workspace tools JSON.
#[derive(Clone, Copy, Debug)]
enum ResultFormat {
    Text,
    Json(&'static str),
}

impl ResultFormat {
    fn from_action(action: &Action) -> Self {
        action
            .json_operation()
            .map_or(ResultFormat::Text, ResultFormat::Json)
    }

    fn observation(self, error: ToolError) -> Observation {
        let ToolError {
            outcome,
            message,
            changes,
        } = error;
        let content = match (self, outcome) {
            (ResultFormat::Text, ActionOutcome::Denied) => message,
            (ResultFormat::Text, ActionOutcome::Done | ActionOutcome::Failed) => {
                format!("error: {message}")
            }
            (ResultFormat::Json(operation), _) => {
                json!({"success": false, "operation": operation, "error": message}).to_string()
            }
        };
        Observation::new(outcome, content).with_changes(changes)
    }
}

#[cfg(test)]
mod tests;
