//! Control groups (cgroups): limits on all processes of a command together, where the machine lets
//! the user set them. It must never touch a group that massgen has not created.
#![expect(clippy::disallowed_methods, reason = "only world::sys touches files")]

mod discovery;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

use crate::path::AbsPath;
use crate::sandbox_policy::ResourceLimits;
use crate::world::sys::cgroup::discovery::{CgroupResource, CgroupVersion, OwnCgroup, own_groups};
use crate::world::sys::proc::{pid_namespace, start_time};

/// The prefix of the name of every group that massgen creates.
const NAME_PREFIX: &str = "massgen";
/// What a process writes to enter a group.
pub(crate) const OWN_PROCESS: &[u8] = b"0";
/// The limit that is set to test a resource: the most processes that the kernel accepts as a limit
/// (`PID_MAX_LIMIT` of Linux), or 4 MiB of memory.
const TRIAL_LIMIT: u64 = 4 * 1024 * 1024;
/// How many processes, threads included, massgen's own helpers around a command count as: two in
/// levels `overlay` and `namespaces`; at level `landlock` one that waits and a supervisor of three
/// threads.
const HELPER_PROCESSES: u64 = 4;
/// How often the removal of a group is retried after its processes were killed.
const REMOVE_TRIES_MAX: u32 = 1000;
/// The pause between two such attempts.
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

/// Where groups can be created, and which limits each of these places can enforce for all processes
/// of a command together.
#[derive(Debug)]
pub(crate) struct Cgroups {
    parents: Vec<CgroupParent>,
    /// The identity of this process, as the names of its groups contain it.
    owner: String,
}

/// A directory in which groups can be created.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupParent {
    version: CgroupVersion,
    dir: AbsPath,
    resources: Vec<CgroupResource>,
}

impl Cgroups {
    /// Finds where groups can be created, and removes those that earlier runs left behind. Each
    /// candidate is tested: without permission it is not used.
    pub(crate) fn find() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (mounts, groups) = (text("/proc/self/mountinfo"), text("/proc/self/cgroup"));
        let mut cgroups = Self {
            parents: Vec::new(),
            owner: process_identity(std::process::id()).unwrap_or_default(),
        };
        // Without an identity, no other run could tell that the groups are in use.
        if cgroups.owner.is_empty() {
            return cgroups;
        }
        for resource in CgroupResource::ALL {
            let candidates = own_groups(resource, &mounts, &groups);
            let mut usable = candidates
                .iter()
                .filter_map(|own| usable_parent(own, resource));
            if let Some((version, dir)) =
                usable.find(|(version, dir)| cgroups.can_use(*version, dir, resource))
            {
                cgroups.add(version, dir, resource);
            }
        }
        for parent in &cgroups.parents {
            remove_orphaned(&parent.dir);
        }
        cgroups
    }

    fn add(&mut self, version: CgroupVersion, dir: AbsPath, resource: CgroupResource) {
        match self.parents.iter_mut().find(|parent| parent.dir == dir) {
            Some(parent) => parent.resources.push(resource),
            None => self.parents.push(CgroupParent {
                version,
                dir,
                resources: vec![resource],
            }),
        }
    }

    /// Returns whether a group can really be created in `dir` and limited.
    fn can_use(&self, version: CgroupVersion, dir: &AbsPath, resource: CgroupResource) -> bool {
        let dir = dir.join(self.new_name());
        let trial = fs::create_dir(dir.as_path())
            .and_then(|()| set_limit(&dir, version, resource, TRIAL_LIMIT));
        // If it cannot be removed, it was not created.
        fs::remove_dir(dir.as_path()).unwrap_or_default();
        trial.is_ok()
    }

    /// Returns whether the memory of all processes of a command can be limited together.
    pub(crate) fn can_limit_memory(&self) -> bool {
        self.has_controller(CgroupResource::Memory)
    }

    /// Returns whether the number of processes of a command can be limited.
    pub(crate) fn can_limit_processes(&self) -> bool {
        self.has_controller(CgroupResource::Processes)
    }

    fn has_controller(&self, resource: CgroupResource) -> bool {
        let mut parents = self.parents.iter();
        parents.any(|parent| parent.resources.contains(&resource))
    }

    /// Creates a group with these limits, as far as the machine can enforce them.
    pub(crate) fn create_group(&self, limits: &ResourceLimits) -> io::Result<CommandCgroup> {
        let name = self.new_name();
        let mut group = CommandCgroup {
            dirs: Vec::new(),
            limits_memory: self.can_limit_memory() && limits.memory_bytes.is_some(),
        };
        for parent in &self.parents {
            let resources = parent.resources.iter();
            let resource_limits: Vec<(CgroupResource, u64)> = resources
                .filter_map(|resource| {
                    limit_for(*resource, limits).map(|maximum| (*resource, maximum))
                })
                .collect();
            if resource_limits.is_empty() {
                continue;
            }
            let dir = parent.dir.join(&name);
            fs::create_dir(dir.as_path())?;
            group.dirs.push((parent.version, dir.clone()));
            for (resource, maximum) in resource_limits {
                set_limit(&dir, parent.version, resource, maximum)?;
            }
        }
        Ok(group)
    }

    fn new_name(&self) -> String {
        format!("{NAME_PREFIX}-{}-{}", self.owner, Uuid::new_v4().simple())
    }
}

/// The group of the processes of a command, with limits on all of them together. On drop, the
/// processes that are left are killed and the group is removed.
#[derive(Debug, Default)]
pub(crate) struct CommandCgroup {
    dirs: Vec<(CgroupVersion, AbsPath)>,
    limits_memory: bool,
}

impl CommandCgroup {
    /// Opens the files by which a process with one thread joins the group: it writes
    /// [`OWN_PROCESS`] to each of them, and everything that it starts afterwards is in the group,
    /// too. To move another process into the group, the kernel would block the start of processes
    /// on the whole machine and wait 10 ms or more.
    pub(crate) fn join_handles(&self) -> io::Result<Vec<OwnedFd>> {
        let handles = self.dirs.iter().map(|(version, dir)| {
            let file = match version {
                CgroupVersion::One => "tasks",
                CgroupVersion::Two => "cgroup.procs",
            };
            open_control_file(dir, file).map(OwnedFd::from)
        });
        handles.collect()
    }

    /// Returns whether it enforces a memory limit.
    pub(crate) fn limits_memory(&self) -> bool {
        self.limits_memory
    }

    /// Returns how many of its processes the kernel has killed for lack of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        let counts = self.dirs.iter().map(|(version, dir)| {
            let file = match version {
                CgroupVersion::One => "memory.oom_control",
                CgroupVersion::Two => "memory.events",
            };
            let text = fs::read_to_string(dir.join(file).as_path()).unwrap_or_default();
            let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            count
                .and_then(|count| count.trim().parse().ok())
                .unwrap_or(0)
        });
        // Only groups that count memory have the file.
        counts.max().unwrap_or(0)
    }
}

impl Drop for CommandCgroup {
    fn drop(&mut self) {
        for (_, dir) in &self.dirs {
            remove_group(dir);
        }
    }
}

/// Returns the limit of a resource; `None` if it is unlimited.
fn limit_for(resource: CgroupResource, limits: &ResourceLimits) -> Option<u64> {
    match resource {
        CgroupResource::Memory => limits.memory_bytes,
        CgroupResource::Processes => Some(limits.processes.saturating_add(HELPER_PROCESSES)),
    }
}

/// Returns the nearest group, from the own one upwards, whose children could count `resource`.
fn usable_parent(own: &OwnCgroup, resource: CgroupResource) -> Option<(CgroupVersion, AbsPath)> {
    match own.version {
        CgroupVersion::One => Some((CgroupVersion::One, own.group.clone())),
        CgroupVersion::Two => {
            let mut group = Some(own.group.clone());
            while let Some(dir) = group.filter(|dir| dir.is_within(&own.top)) {
                let file = dir.join("cgroup.subtree_control");
                let controllers = fs::read_to_string(file.as_path()).unwrap_or_default();
                if controllers
                    .split_whitespace()
                    .any(|name| name == resource.controller())
                {
                    return Some((CgroupVersion::Two, dir));
                }
                group = dir.parent();
            }
            None
        }
    }
}

/// Sets the limit of a resource in a group.
fn set_limit(
    dir: &AbsPath,
    version: CgroupVersion,
    resource: CgroupResource,
    maximum: u64,
) -> io::Result<()> {
    match (resource, version) {
        (CgroupResource::Processes, _) => write_control_file(dir, "pids.max", maximum),
        (CgroupResource::Memory, CgroupVersion::One) => {
            write_control_file(dir, "memory.limit_in_bytes", maximum)?;
            // Including swap. If the kernel does not count swap, the file does not exist.
            ignore_missing(write_control_file(
                dir,
                "memory.memsw.limit_in_bytes",
                maximum,
            ))
        }
        (CgroupResource::Memory, CgroupVersion::Two) => {
            write_control_file(dir, "memory.max", maximum)?;
            ignore_missing(write_control_file(dir, "memory.swap.max", 0))
        }
    }
}

fn write_control_file(dir: &AbsPath, file: &str, value: impl Display) -> io::Result<()> {
    // In one write: the kernel parses each write as a whole number.
    open_control_file(dir, file)?.write_all(format!("{value}").as_bytes())
}

fn open_control_file(dir: &AbsPath, file: &str) -> io::Result<File> {
    let path = dir.join(file);
    fs::OpenOptions::new().write(true).open(path.as_path())
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Kills the processes in a group and removes it.
fn remove_group(dir: &AbsPath) {
    for _ in 0..REMOVE_TRIES_MAX {
        match fs::remove_dir(dir.as_path()).map_err(|error| Errno::from_io_error(&error)) {
            Err(Some(Errno::BUSY)) => kill_members(dir),
            Ok(()) | Err(_) => return,
        }
        thread::sleep(REMOVE_PAUSE);
    }
}

fn kill_members(dir: &AbsPath) {
    let members = fs::read_to_string(dir.join("cgroup.procs").as_path()).unwrap_or_default();
    let members = members.lines().filter_map(|line| line.parse().ok());
    for member in members.filter_map(Pid::from_raw) {
        // A process that has exited already cannot be killed.
        kill_process(member, Signal::KILL).unwrap_or_default();
    }
}

/// Removes the groups of runs that have ended without removing them.
fn remove_orphaned(parent: &AbsPath) {
    let entries = fs::read_dir(parent.as_path())
        .into_iter()
        .flatten()
        .flatten();
    let names: BTreeSet<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let is_orphaned =
        |name: &&String| owner_from_name(name).is_some_and(|owner| !is_owner_alive(owner));
    for name in names.iter().filter(is_orphaned) {
        remove_group(&parent.join(name));
    }
}

/// Returns the owner from the name of a group.
fn owner_from_name(name: &str) -> Option<&str> {
    let owner_and_number = name.strip_prefix(NAME_PREFIX)?.strip_prefix('-')?;
    owner_and_number.rsplit_once('-').map(|(owner, _)| owner)
}

/// Identifies a process among all others of this machine: its PID namespace, its PID there, and its
/// start time.
fn process_identity(pid: u32) -> Option<String> {
    let namespace: String = pid_namespace()?
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let start_time = start_time(pid)?;
    Some(format!("{namespace}-{pid}-{start_time}"))
}

/// Returns whether the owner of a group is still running. A process that is not visible from this
/// PID namespace counts as running.
fn is_owner_alive(owner: &str) -> bool {
    let mut parts = owner.split('-');
    let (namespace, pid_text) = (parts.next(), parts.next());
    let own_identity = process_identity(std::process::id()).unwrap_or_default();
    if namespace != own_identity.split('-').next() {
        return true;
    }
    let pid = pid_text.and_then(|pid_text| pid_text.parse().ok());
    pid.and_then(process_identity)
        .is_some_and(|identity| identity == owner)
}

#[cfg(test)]
mod tests;
