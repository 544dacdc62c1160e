//! Pods of a Kubernetes cluster in which an agent's commands run, by the user's own `kubectl`.
//! Nothing is mounted there: files are sent and fetched. A command is supervised by a script in its
//! pod, which keeps its output and its exit status until they were read.

/// Environment variable with the directory in which `kubectl` caches what a cluster has.
pub const KUBE_CACHE: &str = "KUBECACHEDIR";

mod retry_pause;
mod kubectl;
mod pod_state;
mod pod_manifest;
pub mod cluster;
pub mod cluster_check;
mod pod_instance;
mod supervised_command;
mod replaceable_pod;
mod pod_files;
mod pod_process;
pub mod agent_pod;
