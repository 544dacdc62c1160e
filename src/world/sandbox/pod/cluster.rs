//! A cluster in which agents have pods, and what interrupted runs have left behind there.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::task::AbortHandle;

use crate::config::kubernetes::{KubernetesConfig, PodNetwork, is_object_name};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::to_hex;
use crate::world::sandbox::event_loop_thread::EventLoopThread;
use crate::world::sandbox::origin_labels::is_orphaned;
use crate::world::sandbox::pod::kubectl::{Kubectl, KubectlFailure};
use crate::world::sandbox::pod::pod_manifest::STATE_LABEL;

/// The kinds of objects that a pod consists of.
const KINDS: &str = "pods,networkpolicies.networking.k8s.io";
/// Length of the digest of a state directory in labels, in characters.
const DIGEST_CHARS: usize = 40;
/// Longest time that the end of a run waits for the removal of a pod.
const FINISH_TIME_MAX: Duration = Duration::from_secs(20);

/// A cluster, with the context and the namespace of one config. Clones share one thread.
#[derive(Clone, Debug)]
pub struct PodCluster {
    pub(super) kubectl: Kubectl,
    pub(super) network: PodNetwork,
    /// How long it may fail to answer before the connection counts as lost.
    pub(super) connection_timeout: Duration,
    thread: Arc<EventLoopThread>,
}

/// An object of a list, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListedObject {
    kind: String,
    metadata: ListedMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListedMetadata {
    name: String,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObjectList {
    items: Vec<ListedObject>,
}

impl PodCluster {
    /// Finds the user's `kubectl`; `env` is the user's environment, and `dir` the user's directory.
    pub fn open(
        config: &KubernetesConfig,
        env: &BTreeMap<String, String>,
        dir: &AbsPath,
    ) -> Result<Self> {
        Ok(Self {
            kubectl: Kubectl::find(config, env, dir)?,
            network: config.network,
            connection_timeout: Duration::from_secs(config.connection_timeout_seconds),
            thread: Arc::new(EventLoopThread::start("kubectl")?),
        })
    }

    /// Removes every pod that an interrupted earlier run in `state` has left behind. Those of
    /// active runs are never touched.
    pub fn remove_leftovers(&self, state: &AbsPath) -> Result<()> {
        let remove_result = self.block_on(self.remove_orphans(state));
        remove_result
            .map_err(|reason| cluster_error("cannot remove the pods of earlier runs", &reason))
    }

    async fn remove_orphans(&self, state: &AbsPath) -> std::result::Result<(), KubectlFailure> {
        let selector = format!("--selector={STATE_LABEL}={}", state_digest(state));
        let arguments = ["get", self.kinds(), selector.as_str(), "--output=json"];
        let output = self.kubectl.ask(&arguments, b"").await?;
        let list: ObjectList = serde_json::from_slice(&output)
            .map_err(|error| format!("`kubectl get` printed something unexpected: {error}"))?;
        let orphans = list.items.iter().filter(|object| {
            let annotations = &object.metadata.annotations;
            is_object_name(&object.metadata.name) && is_orphaned(|name| annotations.get(name))
        });
        let names = orphans.filter_map(|object| {
            let kind = match object.kind.as_str() {
                "Pod" => "pod",
                "NetworkPolicy" => "networkpolicy.networking.k8s.io",
                _ => return None,
            };
            Some(format!("{kind}/{}", object.metadata.name))
        });
        self.delete(names.collect()).await
    }

    /// Deletes objects, and does not wait for their end; missing ones are not an error.
    async fn delete(&self, names: Vec<String>) -> std::result::Result<(), KubectlFailure> {
        if names.is_empty() {
            return Ok(());
        }
        let mut arguments = vec!["delete", "--wait=false", "--ignore-not-found"];
        arguments.extend(names.iter().map(String::as_str));
        self.kubectl.ask(&arguments, b"").await.map(drop)
    }

    /// Deletes a pod with its network policy; a missing one is not an error.
    pub(super) async fn delete_pod(&self, name: &str) -> std::result::Result<(), KubectlFailure> {
        let policy = match self.network {
            PodNetwork::None => Some(format!("networkpolicy.networking.k8s.io/{name}")),
            PodNetwork::Cluster => None,
        };
        let names = [format!("pod/{name}")].into_iter().chain(policy);
        self.delete(names.collect()).await
    }

    fn kinds(&self) -> &'static str {
        match self.network {
            PodNetwork::None => KINDS,
            // The user may have no permission to list policies, and needs none.
            PodNetwork::Cluster => "pods",
        }
    }

    /// Runs an operation and waits for it.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.thread.block_on(work)
    }

    /// Runs an operation in the background.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.thread.spawn(work)
    }

    /// Deletes a pod at the end of a run, even where an event loop must not be blocked on.
    pub(super) fn delete_detached(&self, name: String) {
        let cluster = self.clone();
        // If it cannot be deleted now, the next run deletes it.
        let removal = async move { cluster.delete_pod(&name).await.unwrap_or_default() };
        self.thread.finish_detached(removal, FINISH_TIME_MAX);
    }
}

/// Returns the digest of a state directory, which labels can hold.
pub(super) fn state_digest(state: &AbsPath) -> String {
    let mut digest = to_hex(&Sha256::digest(state.to_string()));
    digest.truncate(DIGEST_CHARS);
    digest
}

/// Returns the error for an operation of the cluster that failed.
pub(super) fn cluster_error(message: &str, reason: &str) -> Error {
    Error::new(ErrorKind::Environment, format!("{message}: {reason}"))
        .with_hint("try `kubectl get pods` with the same context and namespace")
}
