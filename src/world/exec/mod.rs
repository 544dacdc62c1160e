//! Carries out permitted actions. This is the only folder that unwraps a [`Permitted`]. Every path
//! is opened beneath the handle of its grant's root, and every name found below it is checked
//! against the permissions again.

pub mod tool_result;
mod command_changes;
mod inventory;
mod closed_paths;
mod list;
mod text;
pub mod fingerprint;
pub mod compare;
mod write_block;
mod delete;
mod put;
mod commit;
mod command_sync;
mod folding;
mod process_report;
pub mod command;
mod answer_trial;
mod background;
mod tool_call_server;
mod copy;
mod grep;
pub mod agent_socket;
pub mod agent_launcher;
pub mod program;
mod read;
mod plan_file;
mod relocate;
mod server_launch;
mod program_tool;
pub mod server_calls;
mod fetch;
mod runner_call;
pub mod vendor_tools;
pub mod media;
pub mod subagents;
mod write;
mod apply_patch;

use std::convert::Infallible;

use crate::answer_changes::ChangeLayers;
use crate::hooks::request::{HookSubject, HookToolCall};
use crate::path::AbsPath;
use crate::prompts::untrusted_text::{escape_notes, note};
use crate::tools::call::{LineRange, ReadForm, ToolCall, UserPath};
use crate::tools::model_file::{ModelFile, ModelFileClass};
use crate::world::access::gate::{Action, Gate, Permitted, ResolvedPath};
use crate::world::exec::command::{PassthroughResult, ShellInvocation};
use crate::world::exec::copy::CopyRoute;
use crate::world::exec::media::MediaRunner;
use crate::world::exec::subagents::SubagentRunner;
use crate::world::exec::tool_result::{ActionOutcome, Observation, ToolError, ToolResult};
use crate::world::exec::vendor_tools::{VendorToolRequest, VendorToolRunner};
use crate::world::sandbox::ProcessStreams;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sys::file_kind::FileKind;

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
    let json_operation = action.json_operation();
    let result = carry_out(&gate, action, interrupt, runners);
    let observation = result.unwrap_or_else(|error| error.observation(json_operation));
    run_after_hooks(&gate, observation)
}

/// Records that the agent has seen the current version of the files of an action that was carried
/// out earlier.
pub fn refresh_versions(permitted: Permitted<Action>) {
    let (action, gate) = permitted.into_action();
    let record = |path: ResolvedPath| -> Result<(), Infallible> {
        if let Ok(meta) = path.meta()
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
        read::read_model_file(&gate, &path, class)
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
    let json_operation = action.json_operation();
    let result = if let Action::ExecuteCommand { command, dir, .. } = action {
        let invocation = ShellInvocation::new(&command, &dir);
        answer_trial::run_on_answer(&gate, changes, invocation, |gate, invocation| {
            command::pass_through(gate, invocation, streams, interrupt)
        })
    } else {
        Err(ToolError::failed("only a command has streams"))
    };
    result.map_err(|error| error.observation(json_operation).content)
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
        Action::ReadMediaFile { path } => read::read_media_file(gate, &path),
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

/// Asks the hooks about a call that was carried out, and appends the context that they and the
/// hooks before the call want the model to read.
pub(super) fn run_after_hooks(gate: &Gate, mut observation: Observation) -> Observation {
    let Some((hooks, hook_result)) = gate.hook_result() else {
        return observation;
    };
    let mut notes: Vec<String> = hook_result
        .context
        .iter()
        .map(|text| marked_context(text))
        .collect();
    if let Some(call) = &hook_result.call {
        let (tool, input) = (&call.0, &call.1);
        let id = gate.call_id();
        let hook_call = HookToolCall { tool, input, id };
        let subject = HookSubject::Result(hook_call, &observation.content);
        let verdict = hooks.ask(&subject, gate.hook_invocation());
        // The call has been carried out, so a denial is only a message for the model.
        if let Some(reason) = verdict.denial() {
            notes.push(note(escape_notes(reason)));
        }
        notes.extend(verdict.context.iter().map(|text| marked_context(text)));
    }
    for text in notes {
        observation.content.push_str("\n\n");
        observation.content.push_str(&text);
    }
    observation
}

/// Formats the context added by a hook as a note that names its origin.
fn marked_context(text: &str) -> String {
    note(format_args!(
        "a hook of the user's adds: {}",
        escape_notes(text)
    ))
}

#[cfg(test)]
mod tests;
