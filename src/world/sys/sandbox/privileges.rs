//! Owns what a process gives up for good before it starts an agent's program, and what its limits
//! are. All of it is inherited and none of it can be taken back.

#![expect(clippy::disallowed_methods, reason = "this is where the disk is")]

use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
    clear_ambient_capability_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use crate::confinement::limits::Limits;
use crate::confinement::tier::Tier;
use crate::world::sys::sandbox::raw;
use crate::world::sys::sandbox::refusal::{Built, During};

/// Gives up every privilege, and every way to one.
pub(crate) fn renounce() -> Built<()> {
    set_no_new_privs(true).during("giving up new privileges")?;
    let held = capabilities(None).during("looking at capabilities")?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        give_up_ways()?;
    }
    // Without that one the ways stay, and lead nowhere: nothing new can be had by starting a
    // program, and nothing is left.
    clear_ambient_capability_set().during("giving up ambient capabilities")?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).during("giving up capabilities")
}

fn give_up_ways() -> Built<()> {
    let root_is_nobody = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED;
    set_capabilities_secure_bits(root_is_nobody).during("making root a user like others")?;
    bound().during("emptying the set of possible capabilities")
}

fn bound() -> io::Result<()> {
    let mut capability = 0;
    while raw::give_up_for_good(capability)? {
        capability += 1;
    }
    Ok(())
}

/// Sets the limits that the kernel holds each process to. Who started massgen may have set lower
/// ones.
pub(crate) fn limit(tier: Tier, limits: &Limits) -> Built<()> {
    let mut each = vec![
        (Resource::Core, 0),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nproc, most_processes(tier, limits.processes)),
    ];
    each.extend(limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds)));
    each.extend(limits.memory_bytes.map(|bytes| (Resource::Data, bytes)));
    for (resource, most) in each {
        let held = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let hard = if resource == Resource::Cpu {
            // At the soft limit a signal says what ends the process; at the hard one it is killed.
            most.saturating_add(1)
        } else {
            most
        };
        let limit = Rlimit {
            current: Some(held.min(most)),
            maximum: Some(held.min(hard)),
        };
        setrlimit(resource, limit).during(format_args!("setting the limit {resource:?}"))?;
    }
    Ok(())
}

/// How many processes the kernel has to count for `wanted` of the program's. Without a namespace it
/// counts all of the user's, so there are as many more as the machine has now.
fn most_processes(tier: Tier, wanted: u64) -> u64 {
    match tier {
        Tier::A | Tier::B => wanted,
        Tier::C | Tier::D | Tier::Off => wanted.saturating_add(processes_now().unwrap_or(0)),
    }
}

/// The processes and threads of the whole machine: `/proc/loadavg` says `running/all` of them.
fn processes_now() -> Option<u64> {
    let line = fs::read_to_string("/proc/loadavg").ok()?;
    let (_, all) = line.split_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}
