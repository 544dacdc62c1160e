//! The file of `--kubernetes`: where in which cluster the jobs of a batch run, with which image,
//! storage and secrets. Keys have the names that Kubernetes gives them, in snake case.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::config::typed_yaml::read_typed;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;

/// Maximum size of the file, in bytes.
pub const KUBERNETES_FILE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum number of entries of a list or map of the file.
const ENTRIES_MAX: usize = 100;
/// Maximum length of a name, in bytes.
const NAME_BYTES_MAX: usize = 253;
/// Maximum length of a text, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Prefix of the labels that massgen sets.
pub const LABEL_DOMAIN: &str = "massgen.dev/";
/// The variable of the container with the name of its pod.
pub const POD_VARIABLE: &str = "POD_NAME";
/// The variable of the container with the name of its node.
pub const NODE_VARIABLE: &str = "NODE_NAME";
/// The default time that Kubernetes keeps a Job that has ended, in seconds.
const TTL_SECONDS_DEFAULT: u32 = 3600;
/// The default time that a run has for being parked, in seconds.
const GRACE_SECONDS_DEFAULT: u32 = 90;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesSettings {
    /// The context of the kubeconfig; by default the current one.
    pub context: Option<String>,
    /// The namespace; by default that of the context.
    pub namespace: Option<String>,
    /// The image of the containers.
    pub image: String,
    /// When the image is pulled: `Always`, `IfNotPresent` or `Never`.
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Names of the secrets for the registry of the image.
    #[serde(default)]
    pub image_pull_secrets: Vec<String>,
    /// The path of massgen in the container; by default that of this program, if it is on a volume.
    pub massgen: Option<AbsPath>,
    /// Storage that this machine and all pods share.
    #[serde(default)]
    pub volumes: Vec<PodVolume>,
    /// Secrets that exist in the cluster.
    #[serde(default)]
    pub secrets: Vec<PodSecret>,
    /// Further variables of the container. Anyone who can read Jobs sees their values.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The resources that each pod needs, such as `cpu: "2"`.
    #[serde(default)]
    pub requests: BTreeMap<String, String>,
    /// The resources that each pod may use.
    #[serde(default)]
    pub limits: BTreeMap<String, String>,
    /// The container runtime, such as `gvisor`.
    pub runtime_class_name: Option<String>,
    /// The service account. Its token is never mounted.
    pub service_account_name: Option<String>,
    /// The priority of the pods.
    pub priority_class_name: Option<String>,
    /// Labels that nodes must have.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the pods tolerate.
    #[serde(default)]
    pub tolerations: Vec<NodeToleration>,
    /// Further labels of the Jobs and pods.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Further annotations of the Jobs and pods.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// The user id of massgen in the container; by default that of the image.
    pub run_as_user: Option<u32>,
    /// The group id.
    pub run_as_group: Option<u32>,
    /// A further group, to which volumes that support this belong.
    pub fs_group: Option<u32>,
    /// Whether the pods follow the Pod Security Standard `restricted`.
    #[serde(default)]
    pub restricted: bool,
    /// How long a Job may exist, in seconds; then its runs are parked, and another Job takes over.
    pub active_deadline_seconds: Option<u32>,
    /// How long a Job is kept after its end, in seconds.
    pub ttl_seconds_after_finished: Option<u32>,
    /// How long runs have for being parked when a pod is deleted, in seconds.
    pub termination_grace_period_seconds: Option<u32>,
}

/// When the image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImagePullPolicy {
    /// Before each start.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// The node must have it.
    Never,
}

/// Storage that is mounted in each pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodVolume {
    /// The claim of a persistent volume that several nodes can write to (`ReadWriteMany`).
    pub persistent_volume_claim: Option<String>,
    /// Or a directory that all nodes have.
    pub host_path: Option<AbsPath>,
    /// Where it is mounted.
    pub mount_path: AbsPath,
    /// The part of it that is mounted; by default all of it.
    pub sub_path: Option<String>,
    /// Whether pods can only read it.
    #[serde(default)]
    pub read_only: bool,
}

/// A secret that exists in the cluster. massgen neither creates nor reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodSecret {
    /// Its name.
    pub name: String,
    /// Those of its keys that become variables of the same name.
    #[serde(default)]
    pub env: Vec<String>,
    /// Where it is mounted as files.
    pub mount_path: Option<AbsPath>,
}

/// A taint of nodes that is tolerated, as in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeToleration {
    /// The key of the taint; without it, every taint.
    pub key: Option<String>,
    /// `Equal` or `Exists`.
    pub operator: Option<String>,
    /// Its value.
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Option<String>,
}

impl KubernetesSettings {
    /// Parses the file `name`.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let settings_error = |reason: String| {
            let message = format!("`{name}` cannot be used: {reason}");
            Error::new(ErrorKind::Usage, message)
                .with_hint("see \"Kubernetes\" in docs/batch.md for an example")
        };
        let settings: Self = read_typed(text).map_err(|error| settings_error(error.to_string()))?;
        match settings.error() {
            None => Ok(settings),
            Some(reason) => Err(settings_error(reason)),
        }
    }

    /// Returns how long runs have for being parked when a pod is deleted, in seconds.
    pub fn grace_seconds(&self) -> u32 {
        self.termination_grace_period_seconds
            .unwrap_or(GRACE_SECONDS_DEFAULT)
    }

    /// Returns how long a Job is kept after its end, in seconds.
    pub fn ttl_seconds(&self) -> u32 {
        self.ttl_seconds_after_finished
            .unwrap_or(TTL_SECONDS_DEFAULT)
    }

    /// Returns the names of the variables that have their values from secrets.
    pub fn secret_variables(&self) -> impl Iterator<Item = &String> {
        self.secrets.iter().flat_map(|secret| &secret.env)
    }

    /// Returns whether `path` is on a volume of the pods.
    pub fn has_path(&self, path: &AbsPath) -> bool {
        self.volume_of(path).is_some()
    }

    /// Returns whether `path` is on a volume that pods can write to.
    pub fn can_write_to(&self, path: &AbsPath) -> bool {
        self.volume_of(path).is_some_and(|volume| !volume.read_only)
    }

    /// Returns the volume that contains `path`; of several, the one with the longest mount path.
    fn volume_of(&self, path: &AbsPath) -> Option<&PodVolume> {
        let volumes = self
            .volumes
            .iter()
            .filter(|volume| path.is_within(&volume.mount_path));
        volumes.max_by_key(|volume| volume.mount_path.as_path().components().count())
    }

    /// Returns what is wrong, if anything is. Kubernetes itself checks the rest.
    fn error(&self) -> Option<String> {
        let counts = [
            ("image_pull_secrets", self.image_pull_secrets.len()),
            ("volumes", self.volumes.len()),
            ("secrets", self.secrets.len()),
            ("env", self.env.len()),
            ("requests", self.requests.len()),
            ("limits", self.limits.len()),
            ("node_selector", self.node_selector.len()),
            ("tolerations", self.tolerations.len()),
            ("labels", self.labels.len()),
            ("annotations", self.annotations.len()),
        ];
        let oversized_key = counts.iter().find(|(_, count)| *count > ENTRIES_MAX);
        oversized_key
            .map(|(key, _)| format!("`{key}` has more than {ENTRIES_MAX} entries"))
            .or_else(|| self.text_error())
            .or_else(|| self.name_error())
            .or_else(|| self.volume_error())
            .or_else(|| self.variable_error())
            .or_else(|| {
                let labels = self.labels.keys().chain(self.annotations.keys());
                let reserved_label = labels
                    .into_iter()
                    .find(|name| name.starts_with(LABEL_DOMAIN))?;
                Some(format!("`{reserved_label}` is set by massgen"))
            })
    }

    /// Returns what is wrong with a text, if anything is.
    fn text_error(&self) -> Option<String> {
        let with_key =
            |key: &'static str, text: &Option<String>| text.clone().map(|text| (key, text));
        let texts = [
            Some(("image", self.image.clone())),
            with_key("context", &self.context),
            with_key("namespace", &self.namespace),
            with_key("runtime_class_name", &self.runtime_class_name),
            with_key("service_account_name", &self.service_account_name),
            with_key("priority_class_name", &self.priority_class_name),
        ];
        texts.into_iter().flatten().find_map(|(key, text)| {
            let has_space = text.contains(|c: char| c.is_whitespace() || c.is_control());
            let is_valid = !text.is_empty() && !has_space && text.len() <= TEXT_BYTES_MAX;
            (!is_valid).then(|| format!("`{key}` is empty, too long or has a space"))
        })
    }

    /// Returns what is wrong with the name of an object, if anything is.
    fn name_error(&self) -> Option<String> {
        let claims = self
            .volumes
            .iter()
            .filter_map(|volume| volume.persistent_volume_claim.as_ref());
        let secrets = self.secrets.iter().map(|secret| &secret.name);
        let mut names = claims
            .chain(secrets)
            .chain(&self.image_pull_secrets)
            .chain(&self.namespace);
        let wrong_name = names.find(|name| !is_object_name(name))?;
        Some(format!(
            "`{wrong_name}` is not the name of a Kubernetes object"
        ))
    }

    /// Returns what is wrong with the volumes or the mounted secrets, if anything is.
    fn volume_error(&self) -> Option<String> {
        let mut mount_paths = BTreeSet::new();
        for volume in &self.volumes {
            let mount_path = volume.mount_path.to_string();
            match (&volume.persistent_volume_claim, &volume.host_path) {
                (Some(_), None) | (None, Some(_)) => {}
                (None, None) | (Some(_), Some(_)) => {
                    return Some(format!(
                        "the volume at `{mount_path}` needs `persistent_volume_claim` or `host_path`"
                    ));
                }
            }
            if !mount_paths.insert(mount_path.clone()) {
                return Some(format!("two volumes are mounted at `{mount_path}`"));
            }
        }
        for secret in &self.secrets {
            if secret.env.is_empty() && secret.mount_path.is_none() {
                return Some(format!(
                    "the secret `{}` needs `env` or `mount_path`",
                    secret.name
                ));
            }
            let mount_path = secret.mount_path.as_ref().map(AbsPath::to_string);
            if let Some(mount_path) =
                mount_path.filter(|mount_path| !mount_paths.insert(mount_path.clone()))
            {
                return Some(format!("two volumes are mounted at `{mount_path}`"));
            }
        }
        None
    }

    /// Returns what is wrong with the variables, if anything is.
    fn variable_error(&self) -> Option<String> {
        let mut names = BTreeSet::from([POD_VARIABLE, NODE_VARIABLE]);
        for name in self.secret_variables().chain(self.env.keys()) {
            let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(is_inner)
                && name.len() <= NAME_BYTES_MAX;
            if !is_name {
                return Some(format!("`{name}` is not the name of a variable"));
            }
            if !names.insert(name) {
                return Some(format!("the variable `{name}` is set twice"));
            }
        }
        None
    }
}

/// Returns whether Kubernetes allows `name` for an object: a DNS subdomain.
pub fn is_object_name(name: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_inner = |c: char| is_end(c) || matches!(c, '-' | '.');
    name.starts_with(is_end)
        && name.ends_with(is_end)
        && name.chars().all(is_inner)
        && name.len() <= NAME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let error = KubernetesSettings::parse(text, "k.yaml").unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }

    #[test]
    fn a_file_is_strict_and_its_volumes_say_what_pods_have() {
        let text = "image: example.org/massgen:1\nmassgen: /usr/bin/massgen\nvolumes:\n\
                    - {persistent_volume_claim: home, mount_path: /home/u}\n\
                    - {host_path: /srv/data, mount_path: /home/u/data, read_only: true}\n\
                    secrets: [{name: keys, env: [OPENAI_API_KEY]}]\nenv: {HOME: /root}\n";
        let settings = KubernetesSettings::parse(text, "k.yaml").unwrap();
        for (path, has, can_write) in [
            ("/home/u", true, true),
            ("/home/u/p/q", true, true),
            ("/home/u/data/x", true, false),
            ("/home/us", false, false),
            ("/", false, false),
        ] {
            let path = AbsPath::new(path).unwrap();
            assert_eq!(settings.has_path(&path), has, "{path}");
            assert_eq!(settings.can_write_to(&path), can_write, "{path}");
        }
        for (text, reason) in [
            ("volumes: []", "missing field"),
            ("image: a\nreplicas: 3", "unknown field"),
            ("image: ''", "`image` is empty"),
            ("image: a b", "has a space"),
            (
                "image: a\nnamespace: My_Space",
                "`My_Space` is not the name",
            ),
            ("image: a\nimage_pull_policy: Sometimes", "unknown variant"),
            ("image: a\nmassgen: massgen", "not an absolute path"),
            ("image: a\nvolumes: [{mount_path: /a}]", "needs `persistent"),
            (
                "image: a\nvolumes: [{host_path: /a, persistent_volume_claim: b, mount_path: /a}]",
                "needs `persistent",
            ),
            (
                "image: a\nvolumes: [{host_path: /a, mount_path: /a}, \
                 {host_path: /b, mount_path: /a}]",
                "two volumes",
            ),
            (
                "image: a\nvolumes: [{persistent_volume_claim: ../b, mount_path: /a}]",
                "`../b` is not the name",
            ),
            ("image: a\nsecrets: [{name: k}]", "needs `env` or"),
            ("image: a\nsecrets: [{name: k, env: [A-B]}]", "`A-B` is no"),
            (
                "image: a\nsecrets: [{name: k, env: [A]}]\nenv: {A: b}",
                "`A` is set twice",
            ),
            ("image: a\nenv: {POD_NAME: b}", "`POD_NAME` is set twice"),
            ("image: a\nlabels: {massgen.dev/batch: b}", "is set by"),
        ] {
            check_refused(text, reason);
        }
        let many = vec!["a"; ENTRIES_MAX + 1].join(", ");
        check_refused(
            &format!("image: a\nimage_pull_secrets: [{many}]"),
            "more than 100",
        );
    }
}
