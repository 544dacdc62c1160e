//! Owns what a process gives up for good before it starts an agent's program, and what its limits
//! are. All of it is inherited and none of it can be taken back.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use crate::confinement::limits::Limits;
use crate::world::sys::sandbox::raw;
use crate::world::sys::sandbox::refusal::{Built, During};

/// Gives up every privilege, and every way to one.
pub(crate) fn renounce() -> Built<()> {
    set_no_new_privs(true).during("giving up new privileges")?;
    let root_is_nobody = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED;
    set_capabilities_secure_bits(root_is_nobody).during("making root a user like others")?;
    bound().during("emptying the set of possible capabilities")?;
    clear_ambient_capability_set().during("giving up ambient capabilities")?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).during("giving up capabilities")
}

fn bound() -> io::Result<()> {
    let mut capability = 0;
    while raw::give_up_for_good(capability)? {
        capability += 1;
    }
    Ok(())
}

/// Sets the limits that the kernel holds each process to.
pub(crate) fn limit(limits: &Limits) -> Built<()> {
    let mut each = vec![
        (Resource::Core, 0),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nproc, limits.processes),
    ];
    each.extend(limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds)));
    for (resource, most) in each {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).during(format_args!("setting the limit {resource:?}"))?;
    }
    Ok(())
}
