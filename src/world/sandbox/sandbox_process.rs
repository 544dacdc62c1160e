//! One process in a sandbox, as its helper reports it: whether it runs and how it ended. It must
//! never leave anything of the process behind, whatever happens.

use std::borrow::Cow;
use std::io;
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Signal;

use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::helper_protocol::{HelperReport, HelperRequestBody};
use crate::world::sandbox::command_run::{CommandRun, ExecProcess};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{ExitReason, ProcessStreams};
use crate::world::sys::cgroup::CommandCgroup;
use crate::world::sys::launch::control::{HelperMessage, HelperSocket};
use crate::world::sys::launch::fork_server::HelperStreams;
use crate::world::sys::launch::process::ChildProcess;
use crate::world::sys::launch::spawner::{HelperSpawner, ReapableProcess};
use crate::world::sys::restricted_search::RestrictedFilesSearch;

/// Note about a command that exceeded its memory limit.
const MEMORY_NOTE: &str = "it exceeded its memory limit: the kernel killed one of its processes";
/// Note about a command that ended before the processes that it had started.
const LEFT_PROCESSES_NOTE: &str = "processes that it left running were killed: start a server and its \
    client in the same command";

/// A process in a sandbox.
#[derive(Debug)]
pub(in crate::world) struct SandboxProcess {
    process: ChildProcess,
    /// `None` once the helper has closed its end.
    control: Option<HelperSocket>,
    progress: ProcessProgress,
    exit_reason: Option<ExitReason>,
    /// Whether processes that it had started were still running when it ended.
    has_left_processes: bool,
    /// Whether it and everything that it had started are gone. The sandbox helper may still exist.
    are_all_gone: bool,
    /// Enforces the limits of the process; what is left in it is killed on drop.
    group: CommandCgroup,
    /// Keeps the thread alive that started the process: the kernel kills the process when it ends.
    spawner: HelperSpawner,
}

/// Progress of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessProgress {
    /// Its sandbox is being built.
    Building,
    /// It runs.
    Started,
    /// It was terminated or has ended by itself.
    Ending,
}

impl SandboxProcess {
    /// Starts a process. Whether its sandbox can be built is not known yet. What
    /// `restricted_search` finds is hidden from it at the levels that hide anything.
    pub(super) fn start(
        spawner: &HelperSpawner,
        policy: &SandboxPolicy,
        restricted_search: Option<&RestrictedFilesSearch>,
        streams: ProcessStreams,
        group: CommandCgroup,
    ) -> io::Result<CommandRun<Self>> {
        let (control, helper_end) = HelperSocket::pair()?;
        let helper_streams = HelperStreams {
            stdin: helper_end,
            stdout: streams.stdout,
            stderr: streams.stderr,
            cgroup_handles: group.join_handles()?,
        };
        let start_time = Instant::now();
        // From here on the process is killed on drop if anything fails.
        let mut command_run = CommandRun::new(Self {
            process: spawner.start(helper_streams)?,
            control: Some(control),
            progress: ProcessProgress::Building,
            exit_reason: None,
            has_left_processes: false,
            are_all_gone: false,
            group,
            spawner: spawner.clone(),
        });
        let input = streams.stdin.as_ref().map(OwnedFd::as_fd);
        if let Some(control) = &command_run.process_mut().control {
            let request = HelperRequestBody {
                policy: Cow::Borrowed(policy),
                restricted: restricted_search.map(|search| Cow::Borrowed(search.wait())),
            };
            control.send_request(&request, input, start_time + Self::START_TIME_MAX)?;
        }
        Ok(command_run)
    }

    /// Handles the reports of the sandbox helper.
    fn receive_reports(&mut self, network: Option<&NetworkProxy>) -> io::Result<()> {
        while let Some(control) = &mut self.control {
            match control.receive_message()? {
                HelperMessage::NotReady => break,
                HelperMessage::ProxyListener(listener) => {
                    network.map_or(Ok(()), |proxy| proxy.serve(listener))?;
                }
                HelperMessage::Report(HelperReport::Started)
                    if self.progress == ProcessProgress::Building =>
                {
                    self.progress = ProcessProgress::Started;
                    // Forking the next helper no longer delays this program.
                    self.spawner.prepare();
                }
                HelperMessage::Report(HelperReport::Refused { step, reason }) => {
                    self.set_exit_reason(ExitReason::Refused { step, reason });
                }
                // What is left after massgen ended the command was not left by the command.
                HelperMessage::Report(HelperReport::LeftBehind) => {
                    self.has_left_processes = self.progress == ProcessProgress::Started;
                }
                HelperMessage::Report(HelperReport::Ended { code, signal }) => {
                    self.are_all_gone = true;
                    self.set_exit_reason(exit_reason(code, signal));
                }
                HelperMessage::Report(HelperReport::Listening | HelperReport::Started) => {}
                HelperMessage::Closed => {
                    self.set_exit_reason(self.exit_reason_without_report());
                    self.control = None;
                }
            }
        }
        Ok(())
    }

    /// Returns the exit reason when the helper closed the socket without reporting one.
    fn exit_reason_without_report(&self) -> ExitReason {
        match self.progress {
            ProcessProgress::Building => ExitReason::Refused {
                step: "starting".to_owned(),
                reason: "the sandbox helper exited without a report".to_owned(),
            },
            ProcessProgress::Started | ProcessProgress::Ending => {
                ExitReason::Signalled(Signal::KILL.as_raw())
            }
        }
    }

    /// Begins to end the process with the reason `exit_reason`, unless it is ending already.
    fn set_exit_reason(&mut self, exit_reason: ExitReason) {
        if self.progress != ProcessProgress::Ending {
            self.exit_reason = Some(exit_reason);
            self.terminate();
        }
    }
}

impl ExecProcess for SandboxProcess {
    const START_TIME_MAX: Duration = Duration::from_secs(20);
    /// At level `landlock`, processes may be left over if the helper is killed before it has killed
    /// them.
    const END_TIME_MAX: Duration = Duration::from_secs(10);
    const KILL_TIME_MAX: Duration = Duration::from_secs(1);
    const ENDS_WHEN_DROPPED: bool = true;

    fn handles(&self) -> Vec<BorrowedFd<'_>> {
        let control = self.control.as_ref().map(HelperSocket::as_fd);
        let process = (!self.process.has_ended()).then(|| self.process.as_fd());
        control.into_iter().chain(process).collect()
    }

    fn poll(&mut self, network: Option<&NetworkProxy>) -> io::Result<()> {
        self.process.poll_exit()?;
        self.receive_reports(network)
    }

    fn has_started(&self) -> bool {
        self.progress != ProcessProgress::Building
    }

    fn exit_reason(&self) -> Option<&ExitReason> {
        self.exit_reason.as_ref()
    }

    fn is_gone(&self) -> bool {
        self.are_all_gone || self.process.has_ended()
    }

    fn terminate(&mut self) {
        self.progress = ProcessProgress::Ending;
        if let Some(control) = &self.control {
            control.close();
        }
        // No helper was forked in advance if this process ends before its program was started.
        self.spawner.prepare();
    }

    fn kill(&mut self) -> io::Result<()> {
        self.process.kill();
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let memory_note = (self.group.oom_kills() > 0).then_some(MEMORY_NOTE);
        let left_processes_note = self.has_left_processes.then_some(LEFT_PROCESSES_NOTE);
        let notes = memory_note.into_iter().chain(left_processes_note);
        notes.map(str::to_owned).collect()
    }
}

fn exit_reason(code: Option<i32>, signal: Option<i32>) -> ExitReason {
    match (code, signal) {
        (Some(code), _) => ExitReason::Exited(code),
        (None, Some(signal)) => ExitReason::Signalled(signal),
        (None, None) => ExitReason::Signalled(Signal::KILL.as_raw()),
    }
}

/// [`CommandRun`] has run it to its end, or killed it; only the helper may be left.
impl Drop for SandboxProcess {
    fn drop(&mut self) {
        if self.process.has_ended() {
            return;
        }
        match self.process.hand_over() {
            Ok(process) => {
                let group = std::mem::take(&mut self.group);
                self.spawner
                    .reap_later(ReapableProcess::new(process, group));
            }
            Err(_) => self.process.wait().unwrap_or_default(),
        }
    }
}
