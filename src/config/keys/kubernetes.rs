//! The keys of a backend about the pod that its commands run in.

use crate::config::keys::docker::{CPUS_MAX, CPUS_MIN, MEMORY_BYTES};
use crate::config::keys::found_config::FoundConfigUse::{Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, ByteSize, Decimal, Integer, Section, Text, TextList};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};

/// The name of the section.
pub(crate) const SECTION_NAME: &str = "command_line_kubernetes";
/// The lowest and highest number of seconds that a pod may exist: ten minutes, and 30 days.
const DEADLINE_SECONDS: (i64, i64) = (600, 30 * 24 * 60 * 60);
/// The lowest and highest number of seconds that the cluster may fail to answer.
const CONNECTION_TIMEOUT_SECONDS: (i64, i64) = (1, 60 * 60);

pub(crate) const SECTION: TypedKey<Section> = TypedKey::optional(
    &[SECTION_NAME],
    shape::section(&KUBERNETES),
    "The pod in which the agent's commands run, with `command_line_execution_mode: kubernetes`.",
    NeedsNamedConfig("sends files to a cluster"),
);

pub(crate) const CONTEXT: TypedKey<Text> = TypedKey::optional(
    &["context"],
    shape::text(),
    "The context of your kubeconfig. Default: the current one.",
    Harmless,
);

pub(crate) const NAMESPACE: TypedKey<Text> = TypedKey::optional(
    &["namespace"],
    shape::text(),
    "The namespace of the pod. Default: that of the context.",
    Harmless,
);

pub(crate) const IMAGE: TypedKey<Text> = TypedKey::required(
    &["image"],
    shape::text(),
    "The image of the pod's containers. It needs `/bin/sh`, `setsid`, `tar`, `find` and the usual small \
     programs; Debian, Ubuntu and Alpine have them.",
    Harmless,
);

pub(crate) const PULL_SECRETS: TypedKey<TextList> = TypedKey::optional(
    &["image_pull_secrets"],
    shape::texts(&ValueShape::Text),
    "Names of secrets in the namespace with which the image is pulled.",
    Harmless,
)
.with_default("[]");

pub(crate) const RUNTIME_CLASS: TypedKey<Text> = TypedKey::optional(
    &["runtime_class"],
    shape::text(),
    "The runtime class of the pod, such as `gvisor`. Default: that of the cluster.",
    Harmless,
);

pub(crate) const MEMORY: TypedKey<ByteSize> = TypedKey::optional(
    &["memory_limit"],
    shape::size(MEMORY_BYTES.0, MEMORY_BYTES.1),
    "Memory of all commands of the pod. Default: `memory` of `command_line_limits`.",
    Harmless,
);

pub(crate) const CPUS: TypedKey<Decimal> = TypedKey::optional(
    &["cpu_limit"],
    shape::decimal(CPUS_MIN, CPUS_MAX),
    "Number of CPUs for the commands of the pod.",
    Harmless,
);

pub(crate) const DISK: TypedKey<ByteSize> = TypedKey::optional(
    &["disk_limit"],
    shape::size(MEMORY_BYTES.0, MEMORY_BYTES.1),
    "Size of all files in the pod. With more, the cluster evicts it.",
    Harmless,
);

pub(crate) const NETWORK: TypedKey<Text> = TypedKey::optional(
    &["network"],
    shape::one_of(&["none", "cluster"]),
    "Network access of the pod: none, which a NetworkPolicy enforces, or whatever the cluster allows to its \
     pods.",
    Harmless,
)
.with_default("none");

pub(crate) const DEADLINE: TypedKey<Integer> = TypedKey::optional(
    &["active_deadline_seconds"],
    shape::integer(DEADLINE_SECONDS.0, DEADLINE_SECONDS.1),
    "How long a pod may exist; then the cluster ends it, and the next command has a new one.",
    Harmless,
)
.with_default("86400");

pub(crate) const CONNECTION_TIMEOUT: TypedKey<Integer> = TypedKey::optional(
    &["connection_timeout_seconds"],
    shape::integer(CONNECTION_TIMEOUT_SECONDS.0, CONNECTION_TIMEOUT_SECONDS.1),
    "How long the cluster may fail to answer before a command fails, or stops being followed.",
    Harmless,
)
.with_default("60");

/// The pod in which an agent's commands run.
pub static KUBERNETES: KeySection = KeySection {
    path: "agents[].backend.command_line_kubernetes",
    doc: "The pod in which the agent's commands run.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        CONTEXT.row(),
        NAMESPACE.row(),
        IMAGE.row(),
        PULL_SECRETS.row(),
        RUNTIME_CLASS.row(),
        MEMORY.row(),
        CPUS.row(),
        DISK.row(),
        NETWORK.row(),
        DEADLINE.row(),
        CONNECTION_TIMEOUT.row(),
    ],
};
