//! Drops privileges permanently before an agent's program is started, and sets its resource limits.
//! All of it is inherited, and none of it can be undone.

#![expect(clippy::disallowed_methods, reason = "only world::sys touches files")]

use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
    clear_ambient_capability_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use crate::sandbox_policy::ResourceLimits;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sys::sandbox::raw;
use crate::world::sys::sandbox::refusal::{SandboxResult, StepContext};

/// Drops every privilege, and every way to regain one.
pub(crate) fn drop_privileges() -> SandboxResult<()> {
    set_no_new_privs(true).in_step("giving up new privileges")?;
    let held_capabilities = capabilities(None).in_step("looking at capabilities")?;
    if held_capabilities.effective.contains(CapabilitySet::SETPCAP) {
        drop_capabilities()?;
    }
    // Without that capability, the bounding set stays but has no use: executing a program grants
    // nothing new, and no capability is left.
    clear_ambient_capability_set().in_step("giving up ambient capabilities")?;
    let no_capabilities = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, no_capabilities).in_step("giving up capabilities")
}

fn drop_capabilities() -> SandboxResult<()> {
    let root_is_nobody = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED;
    set_capabilities_secure_bits(root_is_nobody).in_step("making root a user like others")?;
    clear_bounding_set().in_step("emptying the set of possible capabilities")
}

fn clear_bounding_set() -> io::Result<()> {
    let mut capability = 0;
    while raw::drop_bounding_capability(capability)? {
        capability += 1;
    }
    Ok(())
}

/// The longest core dump, in bytes. It is shorter than any that the kernel writes, and is the one
/// limit at which the kernel does not start a `core_pattern` program either: for such a program, 0
/// is no limit.
pub(crate) const CORE_BYTES: u64 = 1;
/// The most pending signals and POSIX timers of a process. The kernel counts them per user, who has
/// some 10,000 to 100,000 of them.
pub(crate) const PENDING_SIGNALS: u64 = 4096;
/// The most that POSIX message queues may hold, in bytes: two queues of the usual size. The kernel
/// counts it per user, who usually has four times as much.
pub(crate) const MESSAGE_QUEUE_BYTES: u64 = 200 * 1024;
/// The most memory that may be locked, in bytes. The kernel counts shared memory per user, who
/// usually has eight times as much.
pub(crate) const LOCKED_BYTES: u64 = 1024 * 1024;

/// Sets the limits that the kernel enforces per process, except for [open
/// files](set_open_file_limit). The parent of massgen may have set lower ones.
pub(crate) fn set_limits(level: SandboxLevel, limits: &ResourceLimits) -> SandboxResult<()> {
    let mut resource_limits = vec![
        (Resource::Core, CORE_BYTES),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nproc, process_limit(level, limits.processes)),
        (Resource::Sigpending, PENDING_SIGNALS),
        (Resource::Msgqueue, MESSAGE_QUEUE_BYTES),
        (Resource::Memlock, LOCKED_BYTES),
        // No process runs before those of others.
        (Resource::Rtprio, 0),
        (Resource::Nice, 0),
    ];
    resource_limits.extend(limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds)));
    resource_limits.extend(limits.memory_bytes.map(|bytes| (Resource::Data, bytes)));
    for (resource, maximum) in resource_limits {
        lower_limit(resource, maximum)?;
    }
    Ok(())
}

/// Sets the limit on file descriptors. Afterwards this process may be unable to pass any to
/// massgen: other commands of the user may have as many in flight as the limit allows.
pub(crate) fn set_open_file_limit(limits: &ResourceLimits) -> SandboxResult<()> {
    lower_limit(Resource::Nofile, limits.open_files)
}

fn lower_limit(resource: Resource, maximum: u64) -> SandboxResult<()> {
    let current_max = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let hard_limit = if resource == Resource::Cpu {
        // At the soft limit, a signal shows why the process ends; at the hard one it is killed.
        maximum.saturating_add(1)
    } else {
        maximum
    };
    let limit = Rlimit {
        current: Some(current_max.min(maximum)),
        maximum: Some(current_max.min(hard_limit)),
    };
    setrlimit(resource, limit).in_step(format_args!("setting the limit {resource:?}"))
}

/// Returns the process limit that allows the program `processes_max` processes. Without a namespace
/// the kernel counts all of the user's, so the number of processes on the machine is added.
fn process_limit(level: SandboxLevel, processes_max: u64) -> u64 {
    match level {
        SandboxLevel::Overlay | SandboxLevel::Namespaces => processes_max,
        SandboxLevel::Landlock | SandboxLevel::Unavailable | SandboxLevel::Off => {
            processes_max.saturating_add(count_processes().unwrap_or(0))
        }
    }
}

/// Counts the processes and threads of the whole machine: `/proc/loadavg` contains `running/all`.
fn count_processes() -> Option<u64> {
    let line = fs::read_to_string("/proc/loadavg").ok()?;
    let (_, thread_count) = line.split_whitespace().nth(3)?.split_once('/')?;
    thread_count.parse().ok()
}
