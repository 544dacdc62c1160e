//! Specification of containers: the capabilities, limits and mounts that are requested from an
//! engine. A container must never get a right that the config does not name.

use std::collections::BTreeMap;

use bollard::models::{ContainerCreateBody, HostConfig, ResourcesUlimits};
use bollard::query_parameters::{CreateContainerOptions, CreateContainerOptionsBuilder};
use rustix::process::{Resource, getrlimit};

use crate::config::docker::{CONTAINER_HOME, DockerConfig, RootAccess};
use crate::error::Result;
use crate::path::AbsPath;
use crate::sandbox_policy::ResourceLimits;
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::mounts::MountPlan;
use crate::world::sandbox::docker::seccomp_profile;
use crate::world::sandbox::docker::socket::EngineKind;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sys::proc;
use crate::world::sys::sandbox::privileges::{
    CORE_BYTES, LOCKED_BYTES, MESSAGE_QUEUE_BYTES, PENDING_SIGNALS,
};

/// The first process of a container: it reaps orphaned processes. The number is the longest time
/// that every `sleep` accepts, in seconds.
const FIRST_PROCESS: &str = "while :; do sleep 2147483 & wait $!; done";
/// Capabilities that even an agent that may become root does not get: raw packets, device files.
const DROPPED_FROM_ROOT: &[&str] = &["NET_RAW", "MKNOD"];

/// The properties that every container of one agent has.
#[derive(Clone, Debug)]
pub(super) struct ContainerSpec {
    pub(super) name: String,
    /// The labels by which later runs find it.
    pub(super) labels: BTreeMap<String, String>,
    /// The container config.
    pub(super) config: DockerConfig,
    /// Limits of all commands together.
    pub(super) limits: ResourceLimits,
    /// The credential files, each with its path in the container.
    pub(super) files: BTreeMap<AbsPath, AbsPath>,
    /// An empty directory with a random name, which the engine must see.
    pub(super) unique_directory: AbsPath,
}

impl ContainerSpec {
    /// Plans the mounts for an agent with this access.
    pub(super) fn plan_mounts(
        &self,
        engine: &ContainerEngine,
        reachable: &ReachablePaths,
    ) -> Result<MountPlan> {
        let mut mounts = MountPlan::plan(reachable, &self.files, &engine.socket)?;
        mounts.add_test_mount(&self.unique_directory, reachable);
        Ok(mounts)
    }

    /// Returns whether a path of a container changes when the container is created.
    pub(super) fn is_creation_artifact(path: &AbsPath) -> bool {
        let home_path = AbsPath::new(CONTAINER_HOME);
        home_path.is_some_and(|home| home.is_within(path))
            || matches!(
                path.as_path().to_str(),
                Some("/etc" | "/etc/gitconfig" | "/etc/passwd")
            )
    }

    /// Builds the request for a container of `image`.
    pub(super) fn create_request(
        &self,
        engine: &ContainerEngine,
        image: &str,
        mounts: &MountPlan,
    ) -> (CreateContainerOptions, ContainerCreateBody) {
        let options = CreateContainerOptionsBuilder::default().name(&self.name);
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(vec!["/bin/sh".to_owned(), "-c".to_owned()]),
            cmd: Some(vec![FIRST_PROCESS.to_owned()]),
            user: Some(engine.container_user().to_string()),
            hostname: Some("massgen".to_owned()),
            working_dir: Some("/".to_owned()),
            labels: Some(self.labels.clone().into_iter().collect()),
            host_config: Some(HostConfig {
                mounts: Some(mounts.engine_mounts()),
                tmpfs: Some(mounts.empty_mounts(engine.properties.kind).collect()),
                network_mode: Some(self.config.network.name().to_owned()),
                ..self.host_config(engine)
            }),
            ..ContainerCreateBody::default()
        };
        (options.build(), body)
    }

    fn host_config(&self, engine: &ContainerEngine) -> HostConfig {
        let mut security = Vec::new();
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let dropped = match self.config.root {
            RootAccess::Never => {
                security.push("no-new-privileges:true".to_owned());
                if engine.properties.kind == EngineKind::Docker {
                    security.push(format!("seccomp={}", seccomp_profile::profile_json()));
                }
                names(&["ALL"])
            }
            RootAccess::BySudo => names(DROPPED_FROM_ROOT),
        };
        if engine.properties.has_selinux {
            security.push("label=disable".to_owned());
        }
        let memory = self
            .config
            .memory_bytes
            .or(self.limits.memory_bytes)
            .map(engine_number);
        HostConfig {
            memory,
            memory_swap: memory,
            nano_cpus: self.config.nano_cpus.map(engine_number),
            pids_limit: Some(engine_number(self.limits.processes)),
            ulimits: Some(self.ulimits()),
            cap_drop: dropped,
            security_opt: Some(security),
            userns_mode: engine.properties.maps_users.then(|| "host".to_owned()),
            ..HostConfig::default()
        }
    }

    fn ulimits(&self) -> Vec<ResourcesUlimits> {
        let limits = |name: &str, soft: u64, hard: u64| ResourcesUlimits {
            name: Some(name.to_owned()),
            soft: Some(engine_number(soft)),
            hard: Some(engine_number(hard)),
        };
        let limit = |name: &str, most: u64| limits(name, most, most);
        // At the soft limit a signal reports the reason; at the hard limit the process is killed.
        let cpu = |seconds: u64| limits("cpu", seconds, seconds.saturating_add(1));
        let cpu = self.limits.cpu_seconds.map(cpu);
        // An engine cannot grant more than it has itself, and Podman tries unless the limit is set.
        // For Podman, the number of processes is limited by the machine's range of process ids.
        let cap = |resource, most: u64| getrlimit(resource).maximum.unwrap_or(most).min(most);
        let processes = [getrlimit(Resource::Nproc).maximum, proc::pids_max()];
        let processes = processes
            .into_iter()
            .flatten()
            .min()
            .map(|most| limit("nproc", most));
        let fixed = [
            limit("core", cap(Resource::Core, CORE_BYTES)),
            limit("fsize", self.limits.file_bytes),
            limit("nofile", cap(Resource::Nofile, self.limits.open_files)),
            limit("sigpending", cap(Resource::Sigpending, PENDING_SIGNALS)),
            limit("msgqueue", cap(Resource::Msgqueue, MESSAGE_QUEUE_BYTES)),
            limit("memlock", cap(Resource::Memlock, LOCKED_BYTES)),
        ];
        fixed.into_iter().chain(cpu).chain(processes).collect()
    }
}

/// Converts a number to the engine's type.
fn engine_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
