//! One pod: its creation, the wait until it runs, and the programs that run in it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::docker::CONTAINER_HOME;
use crate::config::kubernetes::PodNetwork;
use crate::path::AbsPath;
use crate::text::shell_words::quote_word;
use crate::world::sandbox::home::GIT_SETTINGS;
use crate::world::sandbox::pod::cluster::PodCluster;
use crate::world::sandbox::pod::pod_manifest::{PodContainer, PodPlan};
use crate::world::sandbox::pod::pod_state::PodState;
use crate::world::sandbox::pod::retry_pause::RetryPause;

/// Script that checks which programs the image has, and whether the network is closed.
const READINESS_SCRIPT: &str = include_str!("readiness.sh");
/// The longest interval between two checks of a pod that is not ready yet.
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// How long a network plugin may take to apply the policy of a new pod.
const POLICY_TIME_MAX: Duration = Duration::from_secs(15);
/// The largest answer of a script, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Why an operation in a pod failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodError {
    /// The pod, or what runs in it, is gone for good; why.
    PodGone(String),
    /// The cluster did not answer, or refused; why.
    RemoteFailure(String),
}

/// Whether the network of a pod is closed, as far as that was tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkCheck {
    /// The API server cannot be reached from it, or need not be closed.
    Passed,
    /// The image has no program that could tell.
    Unknown,
}

/// A pod that was created.
#[derive(Debug)]
pub(super) struct PodInstance {
    pub(super) name: String,
    /// The directories that have copies of files.
    pub(super) mounts: Vec<AbsPath>,
    next_command_number: AtomicU64,
    /// The commands that are over, by container and number: their directories are removed with the
    /// next command.
    pub(super) ended_commands: Mutex<Vec<(PodContainer, u64)>>,
    readiness: Mutex<Option<NetworkCheck>>,
}

impl PodInstance {
    /// Creates the pod `name`, which may have to wait for its node.
    pub(super) async fn create(
        cluster: &PodCluster,
        plan: &PodPlan,
        name: String,
        mounts: Vec<AbsPath>,
    ) -> Result<Self, String> {
        let manifest = plan.manifest(&name, &mounts).to_string();
        // Without `--validate=false`, `kubectl` downloads the schemas of all kinds of objects.
        let arguments = [
            "create",
            "--validate=false",
            "--filename=-",
            "--output=name",
        ];
        let creation = cluster.kubectl.ask(&arguments, manifest.as_bytes()).await;
        if let Err(reason) = creation {
            // One of its objects may exist. If not even that can be deleted, the next run deletes
            // it.
            cluster.delete_pod(&name).await.unwrap_or_default();
            return Err(reason);
        }
        Ok(Self {
            name,
            mounts,
            next_command_number: AtomicU64::new(1),
            ended_commands: Mutex::default(),
            readiness: Mutex::default(),
        })
    }

    /// Returns a number that no other command in it has.
    pub(super) fn next_command_number(&self) -> u64 {
        self.next_command_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks the cluster for its state.
    pub(super) async fn state(&self, cluster: &PodCluster) -> Result<PodState, String> {
        let arguments = [
            "get",
            "pod",
            &self.name,
            "--ignore-not-found",
            "--output=json",
        ];
        PodState::parse(&cluster.kubectl.ask(&arguments, b"").await?)
    }

    /// Waits until its containers run, and checks once what massgen needs in them. `on_wait` gets
    /// what the cluster says about a pod that waits, and returns whether to go on waiting; if not,
    /// the result is `None`.
    pub(super) async fn wait_until_ready(
        &self,
        cluster: &PodCluster,
        on_wait: &(dyn Fn(Option<String>) -> bool + Sync),
    ) -> Result<Option<NetworkCheck>, PodError> {
        if let Some(readiness) = *self
            .readiness
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            return Ok(Some(readiness));
        }
        let mut pause = RetryPause::up_to(POLL_INTERVAL_MAX);
        let mut last_answer = Instant::now();
        loop {
            let reason = match self.state(cluster).await {
                Ok(PodState::Running) => break,
                Ok(PodState::Gone(reason) | PodState::Unusable(reason)) => {
                    return Err(PodError::PodGone(reason));
                }
                Ok(PodState::Waiting(reason)) => {
                    last_answer = Instant::now();
                    reason
                }
                Err(reason) if last_answer.elapsed() >= cluster.connection_timeout => {
                    return Err(PodError::RemoteFailure(reason));
                }
                Err(reason) => Some(reason),
            };
            if !on_wait(reason) {
                return Ok(None);
            }
            pause.wait().await;
        }
        let check = self.check(cluster).await?;
        let mut readiness = self
            .readiness
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *readiness = Some(check);
        Ok(Some(check))
    }

    /// Checks that the image has the programs that massgen needs, and that the network is closed.
    async fn check(&self, cluster: &PodCluster) -> Result<NetworkCheck, PodError> {
        let deadline = Instant::now() + POLICY_TIME_MAX.min(cluster.connection_timeout);
        let mut pause = RetryPause::up_to(POLL_INTERVAL_MAX);
        let settings = quote_word(GIT_SETTINGS);
        let git_config = format!("{CONTAINER_HOME}/.gitconfig");
        let script = format!(
            "[ -e {git_config} ] || printf %s {settings} >{git_config}\n{READINESS_SCRIPT}"
        );
        loop {
            let execution = self.exec(
                cluster,
                PodContainer::Commands,
                &["/bin/sh"],
                script.as_bytes(),
                ANSWER_BYTES_MAX,
            );
            let output = match execution.await {
                Err(PodError::RemoteFailure(_)) if Instant::now() < deadline => {
                    pause.wait().await;
                    continue;
                }
                exec_result => exec_result?,
            };
            let output = String::from_utf8_lossy(&output);
            let mut lines = output.lines();
            let missing_programs = lines.next().and_then(|line| line.strip_prefix("missing"));
            match missing_programs.map(str::trim) {
                Some("") => {}
                Some(programs) => {
                    let reason = format!("its image lacks programs: {programs}");
                    return Err(PodError::PodGone(reason));
                }
                None => {
                    return Err(PodError::RemoteFailure(
                        "its shell does not work".to_owned(),
                    ));
                }
            }
            match (cluster.network, lines.next()) {
                (PodNetwork::Cluster, _) | (PodNetwork::None, Some("closed")) => {
                    return Ok(NetworkCheck::Passed);
                }
                (PodNetwork::None, Some("open")) if Instant::now() < deadline => {
                    pause.wait().await;
                }
                (PodNetwork::None, Some("open")) => {
                    let reason = "commands in it can reach the API server, although a \
                                  NetworkPolicy denies it: the network plugin of the cluster does \
                                  not enforce policies";
                    return Err(PodError::PodGone(reason.to_owned()));
                }
                (PodNetwork::None, _) => return Ok(NetworkCheck::Unknown),
            }
        }
    }

    /// Runs a program in one of its containers with this input, and returns at most
    /// `output_bytes_max` of its output.
    pub(super) async fn exec(
        &self,
        cluster: &PodCluster,
        container: PodContainer,
        program: &[&str],
        input: &[u8],
        output_bytes_max: u64,
    ) -> Result<Vec<u8>, PodError> {
        let execution = cluster.kubectl.exec(
            &self.name,
            container.name(),
            program,
            input,
            output_bytes_max,
        );
        let reason = match execution.await {
            Ok(output) => return Ok(output),
            Err(reason) => reason,
        };
        // If the pod is gone, that is the reason, and the next command needs another.
        match self.state(cluster).await {
            Ok(PodState::Gone(reason) | PodState::Unusable(reason)) => {
                Err(PodError::PodGone(reason))
            }
            Ok(PodState::Running | PodState::Waiting(_)) | Err(_) => {
                Err(PodError::RemoteFailure(reason))
            }
        }
    }
}
