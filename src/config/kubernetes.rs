//! The configuration of an agent's pod in a Kubernetes cluster. By default it has no network.

/// The default lifetime of a pod that massgen does not remove, in seconds.
pub const DEADLINE_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// The default time for which the cluster may fail to answer, in seconds.
pub const CONNECTION_TIMEOUT_SECONDS_DEFAULT: u64 = 60;
/// The maximum length of a name of an object, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// The configuration of an agent's pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesConfig {
    /// The context of the kubeconfig; by default the current one.
    pub context: Option<String>,
    /// The namespace; by default that of the context.
    pub namespace: Option<String>,
    /// The image of its containers.
    pub image: String,
    /// The secrets for the registry of the image.
    pub image_pull_secrets: Vec<String>,
    /// The container runtime, such as `gvisor`.
    pub runtime_class: Option<String>,
    /// Memory of all commands, in bytes.
    pub memory_bytes: Option<u64>,
    /// CPU time, in billionths of one CPU.
    pub nano_cpus: Option<u64>,
    /// Size of all files that were sent or created, in bytes.
    pub disk_bytes: Option<u64>,
    /// The network access.
    pub network: PodNetwork,
    /// The lifetime of a pod that massgen does not remove, in seconds.
    pub deadline_seconds: u64,
    /// The time for which the cluster may fail to answer before a command fails, in seconds.
    pub connection_timeout_seconds: u64,
}

impl KubernetesConfig {
    /// Returns the defaults for a pod with this image.
    pub fn of_image(image: String) -> Self {
        Self {
            context: None,
            namespace: None,
            image,
            image_pull_secrets: Vec::new(),
            runtime_class: None,
            memory_bytes: None,
            nano_cpus: None,
            disk_bytes: None,
            network: PodNetwork::None,
            deadline_seconds: DEADLINE_SECONDS_DEFAULT,
            connection_timeout_seconds: CONNECTION_TIMEOUT_SECONDS_DEFAULT,
        }
    }
}

/// The network access of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodNetwork {
    /// A policy of the cluster denies all connections.
    #[default]
    None,
    /// Whatever the cluster allows to its pods.
    Cluster,
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
