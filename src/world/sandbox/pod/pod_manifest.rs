//! Manifest of a pod: what is asked of the cluster. A pod must never get a right that the config
//! does not name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::config::docker::CONTAINER_HOME;
use crate::config::kubernetes::{KubernetesConfig, PodNetwork};
use crate::path::AbsPath;
use crate::world::sandbox::container_owner::FIRST_PROCESS;
use crate::world::sandbox::container_user::ContainerUser;

/// The label with the digest of the state directory that a pod belongs to.
pub(super) const STATE_LABEL: &str = "massgen.dev/state";
/// The label with the name of a pod, by which its network policy selects it.
const POD_LABEL: &str = "massgen.dev/pod";
/// The directory of a container in which supervised commands have theirs.
pub(super) const SUPERVISOR_DIR: &str = "/run/massgen";
/// Where the files are while they are prepared.
const PREPARED_DIR: &str = "/run/massgen-files";
/// How long the processes of a pod that is deleted have to end, in seconds: they end with their
/// pod.
const GRACE_SECONDS: u32 = 1;
/// The volume of the files that are sent.
const FILES_VOLUME: &str = "files";

/// A container of a pod. Each runs as another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodContainer {
    /// It runs commands.
    Commands,
    /// It owns what commands may only read.
    Files,
}

impl PodContainer {
    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            PodContainer::Commands => "commands",
            PodContainer::Files => "files",
        }
    }

    /// Returns the user that it runs as.
    pub(super) fn user(self) -> ContainerUser {
        match self {
            PodContainer::Commands => ContainerUser::ORDINARY,
            PodContainer::Files => ContainerUser::KEEPER,
        }
    }
}

/// The properties that every pod of one agent has.
#[derive(Clone, Debug)]
pub(super) struct PodPlan {
    /// The beginning of its name.
    pub(super) name: String,
    /// Who created it, by which later runs recognise it.
    pub(super) origin: BTreeMap<String, String>,
    /// The digest of the state directory.
    pub(super) state: String,
    /// The pod config.
    pub(super) config: KubernetesConfig,
    /// Memory of all commands, in bytes, unless the config limits it.
    pub(super) memory_bytes: Option<u64>,
}

impl PodPlan {
    /// Returns the manifest of the pod `name` with a directory for the files below each of
    /// `mounts`, and of its network policy.
    pub(super) fn manifest(&self, name: &str, mounts: &[AbsPath]) -> Value {
        let labels = json!({STATE_LABEL: self.state, POD_LABEL: name});
        let metadata = json!({"name": name, "labels": labels, "annotations": self.origin});
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": {
                "podSelector": {"matchLabels": {POD_LABEL: name}},
                "policyTypes": ["Ingress", "Egress"],
            },
        });
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": self.pod_spec(mounts),
        });
        let items = match self.config.network {
            // The policy is created first, so that the pod never runs without it.
            PodNetwork::None => vec![policy, pod],
            PodNetwork::Cluster => vec![pod],
        };
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }

    fn pod_spec(&self, mounts: &[AbsPath]) -> Value {
        let secrets = self.config.image_pull_secrets.iter();
        let pull_secrets: Vec<Value> = secrets.map(|name| json!({"name": name})).collect();
        let disk_bytes = self.config.disk_bytes;
        let size_limit = disk_bytes.map(|bytes| json!({"sizeLimit": bytes.to_string()}));
        let mut pod = json!({
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "hostname": "massgen",
            "activeDeadlineSeconds": self.config.deadline_seconds,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": {
                "runAsNonRoot": true,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": [
                {"name": FILES_VOLUME, "emptyDir": size_limit.unwrap_or_else(|| json!({}))},
                {"name": "home", "emptyDir": {}},
                {"name": "commands", "emptyDir": {}},
                {"name": "keeper", "emptyDir": {}},
            ],
            "initContainers": [self.preparation_container(mounts.len())],
            "containers": [
                self.container_spec(PodContainer::Commands, mounts),
                self.container_spec(PodContainer::Files, mounts),
            ],
        });
        if let Some(fields) = pod.as_object_mut() {
            if let Some(class) = &self.config.runtime_class {
                fields.insert("runtimeClassName".to_owned(), json!(class));
            }
            if !pull_secrets.is_empty() {
                fields.insert("imagePullSecrets".to_owned(), json!(pull_secrets));
            }
        }
        pod
    }

    /// Returns the container that creates the directories for files before the others start, so
    /// that they belong to the user of files.
    fn preparation_container(&self, mounts: usize) -> Value {
        let script = format!("umask 022; for n; do mkdir -p \"{PREPARED_DIR}/$n\" || exit 1; done");
        let shell = ["/bin/sh", "-c", &script, "massgen"].map(str::to_owned);
        let names = (0..mounts).map(|number| number.to_string());
        let command: Vec<String> = shell.into_iter().chain(names).collect();
        json!({
            "name": "preparation",
            "image": self.config.image,
            "command": command,
            "securityContext": security_context(PodContainer::Files),
            "resources": helper_resources(),
            "volumeMounts": [{"name": FILES_VOLUME, "mountPath": PREPARED_DIR}],
        })
    }

    fn container_spec(&self, container: PodContainer, mounts: &[AbsPath]) -> Value {
        let file_mounts = mounts.iter().enumerate().map(|(number, path)| {
            json!({"name": FILES_VOLUME, "mountPath": path, "subPath": number.to_string()})
        });
        let own_mounts = match container {
            PodContainer::Commands => vec![
                json!({"name": "commands", "mountPath": SUPERVISOR_DIR}),
                json!({"name": "home", "mountPath": CONTAINER_HOME}),
            ],
            PodContainer::Files => vec![json!({"name": "keeper", "mountPath": SUPERVISOR_DIR})],
        };
        let resources = match container {
            PodContainer::Commands => self.command_resources(),
            PodContainer::Files => helper_resources(),
        };
        json!({
            "name": container.name(),
            "image": self.config.image,
            "command": ["/bin/sh", "-c", FIRST_PROCESS],
            "workingDir": "/",
            "securityContext": security_context(container),
            "resources": resources,
            "volumeMounts": own_mounts.into_iter().chain(file_mounts).collect::<Vec<Value>>(),
        })
    }

    fn command_resources(&self) -> Value {
        let config = &self.config;
        let memory = config.memory_bytes.or(self.memory_bytes);
        let cpu = config
            .nano_cpus
            .map(|nano| format!("{}m", nano.div_ceil(1_000_000)));
        let disk = config.disk_bytes.map(|bytes| bytes.to_string());
        let limits = [
            ("memory", memory.map(|bytes| bytes.to_string())),
            ("cpu", cpu),
            ("ephemeral-storage", disk),
        ];
        let limits: Map<String, Value> = limits
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), json!(value?))))
            .collect();
        json!({"limits": limits})
    }
}

fn security_context(container: PodContainer) -> Value {
    let ContainerUser { uid, gid } = container.user();
    json!({
        "runAsUser": uid,
        "runAsGroup": gid,
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
    })
}

/// Returns the resources of what runs no commands.
fn helper_resources() -> Value {
    json!({
        "requests": {"memory": "32Mi", "cpu": "10m"},
        "limits": {"memory": "256Mi", "cpu": "1"},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> PodPlan {
        PodPlan {
            name: "massgen-a-1".to_owned(),
            origin: BTreeMap::from([("massgen.run".to_owned(), "run_1".to_owned())]),
            state: "abc".to_owned(),
            config: KubernetesConfig {
                context: None,
                namespace: None,
                image: "debian:12".to_owned(),
                image_pull_secrets: vec!["registry".to_owned()],
                runtime_class: Some("gvisor".to_owned()),
                memory_bytes: None,
                nano_cpus: Some(1_500_000_000),
                disk_bytes: Some(1 << 30),
                network: PodNetwork::None,
                deadline_seconds: 60,
                connection_timeout_seconds: 60,
            },
            memory_bytes: Some(1 << 20),
        }
    }

    #[test]
    fn a_pod_has_no_right_that_is_not_named() {
        let mounts = [AbsPath::new("/p").unwrap(), AbsPath::new("/ws").unwrap()];
        let manifest = plan().manifest("massgen-a-1-x", &mounts);
        let at = |path: &str| manifest.pointer(path).cloned().unwrap_or_default();
        assert_eq!(at("/items/0/kind"), json!("NetworkPolicy"));
        assert_eq!(
            at("/items/0/spec"),
            json!({"podSelector": {"matchLabels": {"massgen.dev/pod": "massgen-a-1-x"}},
                   "policyTypes": ["Ingress", "Egress"]})
        );
        assert_eq!(at("/items/1/kind"), json!("Pod"));
        assert_eq!(at("/items/1/metadata"), at("/items/0/metadata"));
        let of_pod = |path: &str| at(&format!("/items/1/spec/{path}"));
        assert_eq!(of_pod("automountServiceAccountToken"), json!(false));
        assert_eq!(of_pod("runtimeClassName"), json!("gvisor"));
        assert_eq!(of_pod("activeDeadlineSeconds"), json!(60));
        assert_eq!(of_pod("securityContext/runAsNonRoot"), json!(true));
        for (container, uid) in [
            ("initContainers/0", 65_533),
            ("containers/0", 1000),
            ("containers/1", 65_533),
        ] {
            let expected = json!({"runAsUser": uid, "runAsGroup": uid,
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
            assert_eq!(of_pod(&format!("{container}/securityContext")), expected);
        }
        assert_eq!(
            of_pod("containers/0/resources/limits"),
            json!({"memory": "1048576", "cpu": "1500m", "ephemeral-storage": "1073741824"})
        );
        assert_eq!(
            of_pod("containers/0/volumeMounts/2"),
            json!({"name": "files", "mountPath": "/p", "subPath": "0"})
        );
        let mut open_plan = plan();
        open_plan.config.network = PodNetwork::Cluster;
        assert_eq!(
            open_plan.manifest("x", &mounts)["items"][0]["kind"],
            json!("Pod")
        );
    }
}
