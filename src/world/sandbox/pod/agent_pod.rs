//! Pod of one agent, from before the first model request until the end of the run. It is reused for
//! all commands. If it is evicted or deleted, the command that notices it fails with that reason,
//! and the next one has a new pod.

use std::collections::BTreeMap;
use std::io::{self, pipe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;

use crate::config::kubernetes::KubernetesConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::sandbox_policy::limits::ResourceLimits;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::world::sandbox::command_container::CommandContainer;
use crate::world::sandbox::command_run::{CommandRun, OutputPipes, ProcessBounds, ProcessOutput};
use crate::world::sandbox::container_owner::ContainerOwner;
use crate::world::sandbox::docker::container::{ContainerWork, FIXED_VARIABLES};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::pod::cluster::{PodCluster, state_digest};
use crate::world::sandbox::pod::pod_files::PodFiles;
use crate::world::sandbox::pod::pod_instance::{NetworkCheck, PodError, PodInstance};
use crate::world::sandbox::pod::pod_manifest::{PodContainer, PodPlan};
use crate::world::sandbox::pod::pod_process::PodProcess;
use crate::world::sandbox::pod::replaceable_pod::{AwaitedPod, ReplaceablePod};
use crate::world::sandbox::pod::supervised_command::{PodProgram, SupervisedCommand};
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::running_commands::RunningCommand;
use crate::world::sandbox::sent_files::movable_trees::movable_trees_note;
use crate::world::sandbox::sent_files::transfer_error::TransferError;
use crate::world::sandbox::sent_files::{SentFiles, transfer_failure};
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};

/// How long the start of a run waits for a pod.
const OPENING_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a background command waits for a pod.
const BACKGROUND_TIME_MAX: Duration = Duration::from_mins(10);
/// The most of an agent's name that is part of the name of its pod, in characters.
const NAME_CHARS_MAX: usize = 24;
/// Unit in which a shell limits the size of files, in bytes.
const BLOCK_BYTES: u64 = 512;

/// The pod of one agent. It is deleted on drop.
#[derive(Debug)]
pub struct AgentPod {
    pod: ReplaceablePod,
    env: BTreeMap<String, String>,
    /// Limits of each process, as lines for a shell.
    limits: String,
    processes_max: u64,
    notes: Vec<String>,
    contents: Mutex<PodContents>,
}

/// What is in the pod with this name.
#[derive(Debug)]
struct PodContents {
    pod: Option<String>,
    files: SentFiles,
}

impl PodContents {
    /// Returns what is in `pod`: nothing, if it is another one than before.
    fn for_pod(&mut self, pod: &PodInstance) -> &mut SentFiles {
        if self.pod.as_ref() != Some(&pod.name) {
            self.pod = Some(pod.name.clone());
            self.files.forget();
        }
        &mut self.files
    }
}

impl AgentPod {
    /// Creates the pod of an agent for `work`. A pod that waits for the cluster is not an error:
    /// commands wait for it.
    pub fn open(
        cluster: &PodCluster,
        owner: ContainerOwner<'_>,
        work: ContainerWork,
        config: &KubernetesConfig,
        reachable: &ReachablePaths,
    ) -> Result<Self> {
        let plan = PodPlan {
            name: pod_name(owner.agent, work),
            origin: owner.origin.labels().into(),
            state: state_digest(owner.origin.state),
            config: config.clone(),
            memory_bytes: owner.limits.memory_bytes,
        };
        let fixed_variables = FIXED_VARIABLES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut env: BTreeMap<String, String> = fixed_variables.collect();
        // Variables of the config replace the fixed ones.
        env.extend(owner.config_env.clone());
        let mut agent_pod = Self {
            pod: ReplaceablePod::new(cluster, plan),
            env,
            limits: limit_lines(owner.limits),
            processes_max: owner.limits.processes,
            notes: Vec::new(),
            contents: Mutex::new(PodContents {
                pod: None,
                files: SentFiles::new(owner.origin.state, *owner.limits),
            }),
        };
        match agent_pod
            .pod
            .ensure_ready(reachable, None, OPENING_TIME_MAX)?
        {
            AwaitedPod::Waiting(reason) => {
                let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                agent_pod.notes.push(format!(
                    "the pod waits for the cluster{reason}; commands wait until it runs"
                ));
            }
            AwaitedPod::Ready(instance, network) => {
                if network == NetworkCheck::Unknown {
                    agent_pod.notes.push(
                        "the image has no program that can tell whether the cluster enforces the \
                         NetworkPolicy of the pod"
                            .to_owned(),
                    );
                }
                let files = agent_pod.files_of(&instance);
                let note = movable_trees_note(&files, reachable);
                agent_pod.notes.extend(note);
            }
        }
        Ok(agent_pod)
    }

    /// Deletes it. A second call has no effect.
    pub fn close(&self) -> Result<()> {
        self.pod.close()
    }

    /// Waits for the pod, and sends what commands may read.
    fn wait_and_send(
        &self,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
        time_max: Duration,
    ) -> io::Result<Arc<PodInstance>> {
        let ready_result = self.pod.ensure_ready(reachable, Some(interrupt), time_max);
        let instance = match ready_result.map_err(io::Error::other)? {
            AwaitedPod::Ready(instance, _) => instance,
            AwaitedPod::Waiting(reason) => {
                let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                let message = format!(
                    "the pod still waits for the cluster{reason}; run the command again later"
                );
                return Err(io::Error::other(message));
            }
        };
        let files = self.files_of(&instance);
        let mut contents = self.lock_contents();
        let send_result = contents
            .for_pod(&instance)
            .send(&files, reachable, Some(interrupt));
        drop(contents);
        match send_result {
            Ok(()) => Ok(instance),
            Err(TransferError::ContainerGone(reason)) => {
                self.pod.discard(&instance);
                let error = Error::new(ErrorKind::Environment, gone_message(&reason));
                Err(io::Error::other(error))
            }
            Err(error) => {
                let error = transfer_failure(&files, "the files cannot be sent", error);
                Err(io::Error::other(error))
            }
        }
    }

    /// Starts an agent's command in the directory `dir`, with its output on these `streams`.
    fn start<'p>(
        &'p self,
        instance: &Arc<PodInstance>,
        running_command: &'p RunningCommand,
        command: &str,
        dir: &AbsPath,
        streams: [OwnedFd; 2],
    ) -> io::Result<CommandRun<PodProcess<'p>>> {
        let program = PodProgram::Line {
            line: command.to_owned(),
            dir: dir.clone(),
            env: self.env.clone(),
            limits: self.limits.clone(),
            processes_max: self.processes_max,
        };
        let container = PodContainer::Commands;
        let supervised_command =
            SupervisedCommand::prepare(&self.pod.cluster, instance, container, program);
        let supervised_command = supervised_command.with_mark(running_command.id.variable());
        let instance = Arc::clone(instance);
        PodProcess::follow(
            &self.pod,
            instance,
            running_command,
            supervised_command,
            streams,
        )
    }

    fn files_of(&self, instance: &Arc<PodInstance>) -> PodFiles<'_> {
        PodFiles {
            pod: &self.pod,
            instance: Arc::clone(instance),
        }
    }

    fn lock_contents(&self) -> MutexGuard<'_, PodContents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the error for the agent of a command that cannot be followed any more. After a lost
    /// connection it may still run, so it is killed before the next one.
    fn describe_error(
        &self,
        instance: &Arc<PodInstance>,
        command_run: &mut CommandRun<PodProcess<'_>>,
        error: &io::Error,
    ) -> io::Error {
        io::Error::other(match command_run.process_mut().take_error(error) {
            PodError::PodGone(reason) => {
                self.pod.discard(instance);
                gone_message(&reason)
            }
            PodError::RemoteFailure(reason) => {
                self.pod.has_lost_commands.store(true, Ordering::Release);
                reason
            }
        })
    }
}

impl CommandContainer for AgentPod {
    fn isolation(&self) -> ExecutionIsolation {
        let config = &self.pod.plan.config;
        ExecutionIsolation::Pod {
            image: config.image.clone(),
            runtime_class: config.runtime_class.clone(),
        }
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn refusal_of_programs(&self) -> &'static str {
        "do not run in pods"
    }

    /// Does nothing: a background command waits for its pod itself.
    fn prepare(&self, _reachable: &ReachablePaths) -> Result<()> {
        Ok(())
    }

    fn run_with_paths(
        &self,
        command: &str,
        dir: &AbsPath,
        reachable: &ReachablePaths,
        limits: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        // The time limit begins when the pod is ready; the time that is reported includes the wait.
        let wait_start = Instant::now();
        let instance = self.wait_and_send(reachable, limits.interrupt, limits.time_max)?;
        let start_time = Instant::now();
        let running_command = self.pod.register_command();
        let (outputs, streams) = OutputPipes::open()?;
        let mut command_run = self.start(&instance, &running_command, command, dir, streams)?;
        let bounds = ProcessBounds {
            deadline: start_time.checked_add(limits.time_max),
            interrupt: Some(limits.interrupt),
            ..ProcessBounds::default()
        };
        let output = command_run
            .capture(outputs, &bounds, limits.output_bytes_max, start_time)
            .map_err(|error| self.describe_error(&instance, &mut command_run, &error))?;
        Ok(CommandOutput {
            elapsed: wait_start.elapsed(),
            ..output
        })
    }

    fn follow(
        &self,
        command: &str,
        dir: &AbsPath,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
        on_output: &mut (dyn FnMut(&[u8]) + Send),
    ) -> io::Result<ExitReason> {
        let instance = self.wait_and_send(reachable, interrupt, BACKGROUND_TIME_MAX)?;
        let running_command = self.pod.register_command();
        // Standard output and error share one pipe: a background command has one output.
        let (output, stdout) = pipe()?;
        let streams = [stdout.try_clone()?.into(), stdout.into()];
        let mut command_run = self.start(&instance, &running_command, command, dir, streams)?;
        let bounds = ProcessBounds {
            interrupt: Some(interrupt),
            ..ProcessBounds::default()
        };
        let exit_reason =
            command_run.run_to_end(&mut [ProcessOutput::new(output, on_output)], &bounds);
        exit_reason.map_err(|error| self.describe_error(&instance, &mut command_run, &error))
    }

    fn fetch_changes(
        &self,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
    ) -> io::Result<Vec<String>> {
        let message = "the command has ended, but what it changed cannot be fetched";
        let instance = self
            .pod
            .current()
            .ok_or_else(|| io::Error::other(format!("{message}: its pod is gone")))?;
        let files = self.files_of(&instance);
        let mut contents = self.lock_contents();
        let fetch_result = contents
            .for_pod(&instance)
            .fetch(&files, reachable, interrupt);
        fetch_result.map_err(|error| {
            if let TransferError::ContainerGone(reason) = error {
                self.pod.discard(&instance);
                return io::Error::other(format!("{message}: {}", gone_message(&reason)));
            }
            io::Error::other(transfer_failure(&files, message, error))
        })
    }
}

/// Returns the message to an agent whose pod is gone.
fn gone_message(reason: &str) -> String {
    format!(
        "the pod is gone, with what ran and was installed in it ({reason}); the next command has a \
         new one"
    )
}

/// Returns the beginning of the name of a pod. Its end is random.
fn pod_name(agent: &AgentId, work: ContainerWork) -> String {
    let agent = agent.as_str().to_ascii_lowercase();
    let agent: String = agent
        .chars()
        .take(NAME_CHARS_MAX)
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    match work {
        ContainerWork::Commands => format!("massgen-{agent}"),
        ContainerWork::Checks => format!("massgen-{agent}-checks"),
    }
}

/// Returns lines for a shell that limit its processes. What the cluster limits more remains.
fn limit_lines(limits: &ResourceLimits) -> String {
    let blocks = limits.file_bytes.div_ceil(BLOCK_BYTES);
    let cpu = limits.cpu_seconds;
    let cpu = cpu.map_or_else(String::new, |seconds| format!("ulimit -t {seconds} || :\n"));
    let files = limits.open_files;
    format!("ulimit -c 0 || :\nulimit -f {blocks} || :\nulimit -n {files} || :\n{cpu}")
}
