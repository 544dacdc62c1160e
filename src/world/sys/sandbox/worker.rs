//! The process that becomes the program of level `landlock`: it drops one privilege after the
//! other, and is then replaced by the program. What it cannot drop, it reports to the supervisor.
//! With the sandbox off, it drops nothing.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;

use landlock::ABI;
use rustix::process::{Signal, chdir, set_parent_process_death_signal, setsid};

use crate::sandbox_policy::NetworkAccess;
use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sys::sandbox::control::HelperRequest;
use crate::world::sys::sandbox::domain::{LandlockDomain, TcpPorts};
use crate::world::sys::sandbox::link::WorkerLink;
use crate::world::sys::sandbox::refusal::{SandboxResult, StepContext};
use crate::world::sys::sandbox::{filter, landlock_filter, landlock_paths, privileges, program};

/// Becomes the program, or reports why not and returns.
pub(crate) fn run(link: &WorkerLink, request: HelperRequest) -> io::Result<()> {
    match become_program(link, request) {
        Ok(never) => match never {},
        Err(refusal) => link.send_refusal(&refusal),
    }
}

fn become_program(link: &WorkerLink, request: HelperRequest) -> SandboxResult<Infallible> {
    let HelperRequest { policy, input, .. } = request;
    // Processes that this one starts are not signalled when the supervisor exits: it kills them
    // itself.
    set_parent_process_death_signal(Some(Signal::KILL))
        .in_step("binding itself to the supervisor")?;
    // Its own group: a signal to the group of the program does not reach the supervisor.
    setsid().in_step("beginning a session")?;
    program::take_terminal(input.as_ref())?;
    program::prefer_for_oom()?;
    let dir = &policy.dir;
    chdir(dir.as_path()).in_step(format_args!("going to `{dir}`"))?;
    privileges::set_limits(policy.level, &policy.limits)?;
    let mut command = program::command(&policy, input)?;
    if policy.level != SandboxLevel::Off {
        apply_restrictions(link, &policy)?;
    }
    // Until here it had a handle to pass on.
    privileges::set_open_file_limit(&policy.limits)?;
    Err(command.exec()).in_step(format_args!(
        "starting `{}`",
        program::program_name(&policy)
    ))
}

/// Applies the restrictions of the program.
fn apply_restrictions(link: &WorkerLink, policy: &SandboxPolicy) -> SandboxResult<()> {
    let abi = enter_domain(policy)?;
    let mut rules = filter::common_rules();
    rules.extend(landlock_filter::rules(policy.network, abi));
    let listener = filter::install_and_listen(&rules).in_step("filtering system calls")?;
    link.send_listener(listener.as_fd())
        .in_step("handing its calls over")
}

/// Enters the Landlock domain, the only barrier to the disk: what is not opened here is closed.
fn enter_domain(policy: &SandboxPolicy) -> SandboxResult<ABI> {
    let step = "confining itself with Landlock";
    let mut domain = LandlockDomain::deny_all_except_ports(match policy.network {
        NetworkAccess::None => TcpPorts::None,
        NetworkAccess::Host => TcpPorts::All,
        NetworkAccess::Proxy { port } => TcpPorts::Only(port),
    })
    .in_step(step)?;
    landlock_paths::allow_policy_paths(policy, &mut domain).in_step(step)?;
    let abi = domain.enter().in_step(step)?;
    if abi == ABI::Unsupported {
        return Err("the kernel does not offer it").in_step(step);
    }
    Ok(abi)
}
