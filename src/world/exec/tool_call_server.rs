//! Serves the tool calls of a program: each is parsed, checked by the gate and carried out like a
//! call of its agent. Their number and size are bounded.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use tokio::runtime::Handle;

use crate::code_mode::package::{AnswerFrame, CallFrame, FRAME_BYTES_MAX};
use crate::prompts::call_answers::not_offered;
use crate::prompts::media_notes::unshown_images_note;
use crate::text::{count_noun, single_line};
use crate::tools::call::{ToolCall, WORKSPACE};
use crate::tools::parse::{canonical_name, parse};
use crate::tools::served::ToolCatalogue;
use crate::tools::spec::ToolOffer;
use crate::world::access::gate::Gate;
use crate::world::access::verdict::{Denial, PermitError};
use crate::world::exec::run_until;
use crate::world::exec::tool_result::ActionOutcome;
use crate::world::io::file_change::FileChange;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// The most calls of a program that are carried out in parallel.
const PARALLEL_CALLS_MAX: usize = 8;
/// The most calls that one program may make.
const CALLS_MAX: usize = 2000;
/// The most bytes that a program may send and receive in total.
const CALLS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The most calls that are reported to a model.
const CALLS_SHOWN_MAX: usize = 100;
/// The most calls that are reported to people.
const SUMMARY_CALLS_MAX: usize = 6;
/// The most of a path that is reported with a call, in characters.
const PATH_CHARS_MAX: usize = 120;

/// The server for the calls of one program.
#[derive(Debug)]
pub(super) struct ToolCallServer {
    gate: Gate,
    tools: Vec<ToolOffer>,
    /// The tools of MCP servers among them.
    catalogue: Arc<ToolCatalogue>,
    /// The runtime that waits for MCP servers; there is none outside a run.
    runtime: Option<Handle>,
    /// Calls that only read run in parallel; any other call runs alone.
    call_lock: RwLock<()>,
    summary: Mutex<CallSummary>,
}

/// What is reported about all calls of a program, and how much of its limits is used up.
#[derive(Debug, Default)]
pub(super) struct CallSummary {
    /// The first calls, each with its tool and paths, and how it ended.
    calls: Vec<(String, Cow<'static, str>)>,
    /// The number of calls that were within the limits.
    count: usize,
    /// The bytes that the program has sent and received.
    bytes: usize,
    /// The changes that they made.
    pub(super) changes: Vec<FileChange>,
    /// The denials of the gate.
    pub(super) denials: Vec<Denial>,
    /// Notes for the model about limits and faults of the program.
    pub(super) notes: Vec<String>,
}

impl CallSummary {
    /// Returns one line per call, for the model.
    pub(super) fn call_lines(&self) -> Vec<String> {
        let line = |(call, outcome): &(String, Cow<'_, str>)| format!("{call}: {outcome}");
        let mut lines: Vec<String> = self.calls.iter().map(line).collect();
        match self.count.saturating_sub(lines.len()) {
            0 => {}
            count => lines.push(format!("and {count} more")),
        }
        lines
    }

    /// Returns the first calls in one line, for people.
    pub(super) fn summary(&self) -> String {
        let first_lines = self.call_lines().into_iter().take(SUMMARY_CALLS_MAX);
        let first_calls = first_lines.collect::<Vec<_>>().join(", ");
        let count = count_noun(self.count, "call");
        if first_calls.is_empty() {
            count
        } else {
            format!("{count}: {first_calls}")
        }
    }
}

/// The outcome of a call.
struct CallOutcome {
    /// The outcome as the program receives it.
    outcome: &'static str,
    content: String,
    /// The outcome as reported to the model next to the call.
    summary: Cow<'static, str>,
}

impl CallOutcome {
    fn new(outcome: &'static str, content: String) -> Self {
        Self {
            outcome,
            content,
            summary: outcome.into(),
        }
    }
}

/// The reply to one call.
struct CallReply {
    id: u64,
    outcome: &'static str,
    content: String,
}

impl ToolCallServer {
    /// Creates a server for calls of `tools` through `gate`.
    pub(super) fn new(gate: Gate, tools: Vec<ToolOffer>) -> Self {
        Self {
            catalogue: gate.catalogue(),
            gate,
            tools,
            runtime: Handle::try_current().ok(),
            call_lock: RwLock::default(),
            summary: Mutex::default(),
        }
    }

    /// Returns what is reported about all calls.
    pub(super) fn into_summary(self) -> CallSummary {
        self.summary.into_inner()
    }

    /// Answers calls until there are no more. Calls in progress end when `interrupt` is raised.
    pub(super) fn serve(&self, stream: &UnixStream, interrupt: &CommandInterrupt) {
        let write_lock = Mutex::new(());
        let (call_sender, call_receiver) = sync_channel::<CallFrame>(PARALLEL_CALLS_MAX);
        let call_receiver = Mutex::new(call_receiver);
        thread::scope(|scope| {
            let (call_receiver, write_lock) = (&call_receiver, &write_lock);
            let mut worker_count = 0_usize;
            for _ in 0..PARALLEL_CALLS_MAX {
                let work = move || self.run_worker(call_receiver, stream, write_lock, interrupt);
                let worker = thread::Builder::new().name("call".to_owned());
                worker_count += usize::from(worker.spawn_scoped(scope, work).is_ok());
            }
            if worker_count == 0 {
                self.add_note("massgen could start no thread for calls");
            } else {
                self.receive(stream, &call_sender, write_lock);
            }
            // The workers exit when the channel is closed and empty.
            drop(call_sender);
            // A program that still waits for an answer sees the end of the stream.
            stream
                .shutdown(std::net::Shutdown::Both)
                .unwrap_or_default();
        });
    }

    /// Receives calls and passes them on to the workers until there are no more.
    fn receive(
        &self,
        stream: &UnixStream,
        call_sender: &SyncSender<CallFrame>,
        write_lock: &Mutex<()>,
    ) {
        let mut reader = BufReader::new(stream);
        let bytes_max = u64::try_from(FRAME_BYTES_MAX).unwrap_or(u64::MAX);
        loop {
            let mut frame = Vec::new();
            let bytes_read = reader
                .by_ref()
                .take(bytes_max)
                .read_until(b'\n', &mut frame);
            if bytes_read.is_err() || frame.is_empty() {
                return;
            }
            let Ok(call) = serde_json::from_slice::<CallFrame>(&frame) else {
                self.add_note(
                    "the program sent something that is not a call, and got no further answers",
                );
                return;
            };
            if self.count_exceeds_limits(frame.len()) {
                let content =
                    "this program has made all the calls that it may; use another program";
                let reply = CallReply {
                    id: call.id,
                    outcome: "failed",
                    content: content.to_owned(),
                };
                if self.send_reply(stream, write_lock, &reply).is_err() {
                    return;
                }
            } else if call_sender.send(call).is_err() {
                return;
            }
        }
    }

    /// Carries out the calls that it receives, one after another.
    fn run_worker(
        &self,
        call_receiver: &Mutex<Receiver<CallFrame>>,
        stream: &UnixStream,
        write_lock: &Mutex<()>,
        interrupt: &CommandInterrupt,
    ) {
        let _runtime_guard = self.runtime.as_ref().map(Handle::enter);
        loop {
            let next_call = call_receiver.lock().recv();
            let Ok(call) = next_call else { return };
            // Remaining calls are still received, so that the sender never blocks forever.
            if !interrupt.is_raised() {
                let reply = self.carry_out(call, interrupt);
                // This fails only if the program no longer reads: nobody waits for the reply.
                self.send_reply(stream, write_lock, &reply)
                    .unwrap_or_default();
            }
        }
    }

    /// Carries out one call: parses it, checks it at the gate and runs it.
    fn carry_out(&self, frame: CallFrame, interrupt: &CommandInterrupt) -> CallReply {
        let CallFrame {
            id,
            tool,
            arguments,
        } = frame;
        let (outcome, description) = match parse(&tool, arguments.get(), &self.catalogue) {
            // Whatever its arguments are: a tool that is not offered is denied.
            _ if !self.offers(&tool) => {
                let content = not_offered(&single_line(&tool, PATH_CHARS_MAX));
                (CallOutcome::new("denied", content), tool)
            }
            Err(error) => (CallOutcome::new("failed", error.to_string()), tool),
            Ok(call) => {
                let description = describe_call(&call);
                (self.check_and_run(call, interrupt), description)
            }
        };
        let mut summary = self.summary.lock();
        if summary.calls.len() < CALLS_SHOWN_MAX {
            summary
                .calls
                .push((single_line(&description, PATH_CHARS_MAX), outcome.summary));
        }
        CallReply {
            id,
            outcome: outcome.outcome,
            content: outcome.content,
        }
    }

    /// Checks a call at the gate and runs it.
    fn check_and_run(&self, call: ToolCall, interrupt: &CommandInterrupt) -> CallOutcome {
        let (_read_guard, _write_guard);
        if call.only_reads() {
            _read_guard = self.call_lock.read();
        } else {
            _write_guard = self.call_lock.write();
        }
        match self.gate.check(call) {
            Err(PermitError::Denied(denial)) => {
                let content = denial.to_string();
                self.summary.lock().denials.push(denial);
                CallOutcome::new("denied", content)
            }
            Err(error @ PermitError::Exhausted(_)) => {
                CallOutcome::new("failed", error_text(error.to_string()))
            }
            Ok(permitted) => {
                let mut observation = run_until(permitted, Some(interrupt));
                if !observation.images.is_empty() {
                    let images = unshown_images_note(observation.images.len());
                    observation.content.push_str(&images);
                }
                self.summary.lock().changes.extend(observation.changes);
                match (observation.outcome, observation.exit_code) {
                    // A command that exited by itself is a result, whatever its status.
                    (ActionOutcome::Failed, Some(status)) => CallOutcome {
                        summary: format!("status {status}").into(),
                        ..CallOutcome::new("done", observation.content)
                    },
                    (ActionOutcome::Done, _) => CallOutcome::new("done", observation.content),
                    (ActionOutcome::Failed, None) => {
                        CallOutcome::new("failed", error_text(observation.content))
                    }
                    (ActionOutcome::Denied, _) => {
                        CallOutcome::new("denied", error_text(observation.content))
                    }
                }
            }
        }
    }

    fn offers(&self, tool: &str) -> bool {
        let name = canonical_name(tool);
        self.tools.iter().any(|offer| offer.name == name)
    }

    /// Counts a call and returns whether it exceeds the limits.
    fn count_exceeds_limits(&self, bytes: usize) -> bool {
        let mut summary = self.summary.lock();
        summary.bytes = summary.bytes.saturating_add(bytes);
        if summary.count >= CALLS_MAX || summary.bytes > CALLS_BYTES_MAX {
            let note = format!(
                "it may make {CALLS_MAX} calls and send and receive {CALLS_BYTES_MAX} bytes, and \
                 tried to exceed that"
            );
            if !summary.notes.contains(&note) {
                summary.notes.push(note);
            }
            return true;
        }
        summary.count = summary.count.saturating_add(1);
        false
    }

    fn send_reply(
        &self,
        stream: &UnixStream,
        write_lock: &Mutex<()>,
        reply: &CallReply,
    ) -> std::io::Result<()> {
        let frame = AnswerFrame {
            id: reply.id,
            outcome: reply.outcome,
            content: &reply.content,
        };
        let mut frame = serde_json::to_vec(&frame)?;
        frame.push(b'\n');
        {
            let mut summary = self.summary.lock();
            summary.bytes = summary.bytes.saturating_add(frame.len());
        }
        let _guard = write_lock.lock();
        let mut stream = stream;
        stream.write_all(&frame)
    }

    fn add_note(&self, note: &str) {
        self.summary.lock().notes.push(note.to_owned());
    }
}

/// Returns why a call failed: the error message of a tool that answers in JSON, or the content as
/// it is.
fn error_text(content: String) -> String {
    #[derive(Deserialize)]
    struct ToolErrorBody {
        error: String,
    }
    serde_json::from_str::<ToolErrorBody>(&content).map_or(content, |body| body.error)
}

/// Describes a call briefly: the tool, its shell command, and its paths.
fn describe_call(call: &ToolCall) -> String {
    let accesses = call.accesses();
    let paths = accesses.iter().map(|access| access.path.as_str());
    let command = call.command().map(|command| format!("`{command}`"));
    let mut parts = vec![call.name()];
    parts.extend(command.as_deref());
    // Commands run in the workspace by default, so that directory says nothing about them.
    parts.extend(paths.filter(|path| command.is_none() || *path != WORKSPACE));
    parts.join(" ")
}
