//! Owns control groups: limits that hold for all processes of a command together, where the machine
//! lets the user set some. It must never touch a group that massgen has not made.
#![expect(clippy::disallowed_methods, reason = "this is where the disk is")]

mod discovery;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process};
use uuid::Uuid;

use crate::path::AbsPath;
use crate::sandbox_policy::limits::ResourceLimits;
use crate::world::sys::cgroup::discovery::{CgroupResource, CgroupVersion, OwnCgroup, own_groups};

/// The beginning of the name of every group that massgen makes.
const MARK: &str = "massgen";
/// What a process writes that enters a group.
pub(crate) const ITSELF: &[u8] = b"0";
/// What each resource is limited to when that is tried out: the most processes that the kernel takes
/// for a limit (`PID_MAX_LIMIT` of Linux), and a few bytes.
const TRIED: u64 = 4 * 1024 * 1024;
/// What the processes that hold a command count for, threads included: in tiers A and B two, in tier C
/// one that waits and a supervisor of three threads.
const HOLDING: u64 = 4;
/// How often it is tried to remove a group whose processes have just been killed.
const REMOVALS_MAX: u32 = 200;
/// How long is waited between two such trials.
const PAUSE: Duration = Duration::from_millis(5);

/// What of the limits a machine can hold for all processes of a command together.
#[derive(Debug)]
pub(crate) struct Cgroups {
    parents: Vec<CgroupParent>,
    owner: String,
}

/// A directory where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupParent {
    version: CgroupVersion,
    dir: AbsPath,
    resources: Vec<CgroupResource>,
}

impl Cgroups {
    /// Looks where groups can be made, and removes those that runs before have left. What is found
    /// is tried out: without rights there is no place.
    pub(crate) fn find() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (mounts, groups) = (text("/proc/self/mountinfo"), text("/proc/self/cgroup"));
        let mut cgroups = Self {
            parents: Vec::new(),
            owner: process_identity(getpid()).unwrap_or_default(),
        };
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
        for place in &cgroups.parents {
            remove_orphaned(&place.dir);
        }
        cgroups
    }

    fn add(&mut self, version: CgroupVersion, dir: AbsPath, resource: CgroupResource) {
        match self.parents.iter_mut().find(|place| place.dir == dir) {
            Some(place) => place.resources.push(resource),
            None => self.parents.push(CgroupParent {
                version,
                dir,
                resources: vec![resource],
            }),
        }
    }

    /// Whether a group can really be made there and limited.
    fn can_use(&self, version: CgroupVersion, dir: &AbsPath, resource: CgroupResource) -> bool {
        let dir = dir.join(self.new_name());
        let limited =
            fs::create_dir(dir.as_path()).and_then(|()| set_limit(&dir, version, resource, TRIED));
        // What cannot be removed was not made.
        fs::remove_dir(dir.as_path()).unwrap_or_default();
        limited.is_ok()
    }

    /// Whether the memory of a command can be limited for all its processes together.
    pub(crate) fn limit_memory(&self) -> bool {
        self.has_controller(CgroupResource::Memory)
    }

    /// Whether the processes of a command can be limited in number.
    pub(crate) fn limit_processes(&self) -> bool {
        self.has_controller(CgroupResource::Processes)
    }

    fn has_controller(&self, resource: CgroupResource) -> bool {
        let mut places = self.parents.iter();
        places.any(|place| place.resources.contains(&resource))
    }

    /// Makes a group with these limits, as far as the machine can hold them.
    pub(crate) fn create_group(&self, limits: &ResourceLimits) -> io::Result<CommandCgroup> {
        let name = self.new_name();
        let mut group = CommandCgroup {
            dirs: Vec::new(),
            limits_memory: self.limit_memory() && limits.memory_bytes.is_some(),
        };
        for place in &self.parents {
            let wanted = place.resources.iter();
            let wanted: Vec<(CgroupResource, u64)> = wanted
                .filter_map(|resource| limit_for(*resource, limits).map(|most| (*resource, most)))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            let dir = place.dir.join(&name);
            fs::create_dir(dir.as_path())?;
            group.dirs.push((place.version, dir.clone()));
            for (resource, most) in wanted {
                set_limit(&dir, place.version, resource, most)?;
            }
        }
        Ok(group)
    }

    fn new_name(&self) -> String {
        format!("{MARK}-{}-{}", self.owner, Uuid::new_v4().simple())
    }
}

/// The processes of a command, with limits on all of them together. When this goes, what is left of
/// them is killed and the group removed.
#[derive(Debug, Default)]
pub(crate) struct CommandCgroup {
    dirs: Vec<(CgroupVersion, AbsPath)>,
    limits_memory: bool,
}

impl CommandCgroup {
    /// Where a process with one thread comes in: it writes [`ITSELF`] to each of these, and all that
    /// it starts from then on is in as well. To have another one taken in, the kernel stops the
    /// starting of processes on the whole machine, for which it waits 10 ms and more.
    pub(crate) fn join_handles(&self) -> io::Result<Vec<OwnedFd>> {
        let doors = self.dirs.iter().map(|(version, dir)| {
            let door = match version {
                CgroupVersion::One => "tasks",
                CgroupVersion::Two => "cgroup.procs",
            };
            open_control_file(dir, door).map(OwnedFd::from)
        });
        doors.collect()
    }

    /// Whether it holds a limit on memory.
    pub(crate) fn limits_memory(&self) -> bool {
        self.limits_memory
    }

    /// How many of its processes the kernel has killed because there was no more memory for them.
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
        counts.max().unwrap_or(0)
    }
}

impl Drop for CommandCgroup {
    fn drop(&mut self) {
        for (_, dir) in &self.dirs {
            remove(dir);
        }
    }
}

/// How much of a resource there may be; `None` for as much as there is.
fn limit_for(resource: CgroupResource, limits: &ResourceLimits) -> Option<u64> {
    match resource {
        CgroupResource::Memory => limits.memory_bytes,
        CgroupResource::Processes => Some(limits.processes.saturating_add(HOLDING)),
    }
}

/// The nearest group, from the own one up, whose children could count `resource`.
fn usable_parent(own: &OwnCgroup, resource: CgroupResource) -> Option<(CgroupVersion, AbsPath)> {
    match own.version {
        CgroupVersion::One => Some((CgroupVersion::One, own.group.clone())),
        CgroupVersion::Two => {
            let mut group = Some(own.group.clone());
            while let Some(dir) = group.filter(|dir| dir.is_within(&own.top)) {
                let file = dir.join("cgroup.subtree_control");
                let counted = fs::read_to_string(file.as_path()).unwrap_or_default();
                if counted
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

/// Limits a resource of a group.
fn set_limit(
    dir: &AbsPath,
    version: CgroupVersion,
    resource: CgroupResource,
    most: u64,
) -> io::Result<()> {
    match (resource, version) {
        (CgroupResource::Processes, _) => write_control_file(dir, "pids.max", most),
        (CgroupResource::Memory, CgroupVersion::One) => {
            write_control_file(dir, "memory.limit_in_bytes", most)?;
            // With the swap. Where the kernel does not count that, the file is not there.
            ignore_missing(write_control_file(dir, "memory.memsw.limit_in_bytes", most))
        }
        (CgroupResource::Memory, CgroupVersion::Two) => {
            write_control_file(dir, "memory.max", most)?;
            ignore_missing(write_control_file(dir, "memory.swap.max", 0))
        }
    }
}

fn write_control_file(dir: &AbsPath, file: &str, value: impl Display) -> io::Result<()> {
    // In one piece: the kernel takes each write for a whole number.
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

/// Kills what is in a group and removes it.
fn remove(dir: &AbsPath) {
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir(dir.as_path()).map_err(|error| Errno::from_io_error(&error)) {
            Err(Some(Errno::BUSY)) => kill_members(dir),
            Ok(()) | Err(_) => return,
        }
        thread::sleep(PAUSE);
    }
}

fn kill_members(dir: &AbsPath) {
    let members = fs::read_to_string(dir.join("cgroup.procs").as_path()).unwrap_or_default();
    let members = members.lines().filter_map(|line| line.parse().ok());
    for member in members.filter_map(Pid::from_raw) {
        // Whoever has ended already cannot be killed.
        kill_process(member, Signal::KILL).unwrap_or_default();
    }
}

/// Removes the groups of runs that have ended without doing so.
fn remove_orphaned(place: &AbsPath) {
    let entries = fs::read_dir(place.as_path())
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names: BTreeSet<String> = names.collect();
    let is_forsaken = |name: &&String| owner_from_name(name).is_some_and(|owner| !is_alive(owner));
    for name in names.iter().filter(is_forsaken) {
        remove(&place.join(name));
    }
}

/// The owner that the name of a group says.
fn owner_from_name(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(MARK)?.strip_prefix('-')?;
    rest.rsplit_once('-').map(|(owner, _)| owner)
}

/// What tells a process from all others of this machine: its namespace of process numbers, its
/// number there, and when it began.
fn process_identity(process: Pid) -> Option<String> {
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let digits = |text: &str| {
        text.chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
    };
    let namespace = digits(namespace.to_str()?);
    let number = process.as_raw_nonzero();
    let stat = fs::read_to_string(Path::new("/proc").join(number.to_string()).join("stat")).ok()?;
    // The name of the program, in brackets, may hold anything; the 20th field after it is the time.
    let (_, fields) = stat.rsplit_once(')')?;
    let begun = fields.split_whitespace().nth(19)?;
    Some(format!("{namespace}-{number}-{begun}"))
}

/// Whether the owner of a group still runs. Of a process that cannot be seen from here it is taken
/// for granted.
fn is_alive(name: &str) -> bool {
    let mut parts = name.split('-');
    let (namespace, number) = (parts.next(), parts.next());
    let own = process_identity(getpid()).unwrap_or_default();
    if namespace != own.split('-').next() {
        return true;
    }
    let process = number
        .and_then(|number| number.parse().ok())
        .and_then(Pid::from_raw);
    process
        .and_then(process_identity)
        .is_some_and(|owner| owner == name)
}

#[cfg(test)]
mod tests;
