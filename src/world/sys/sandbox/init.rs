//! The first process of a sandbox (PID 1 of its namespace): it builds the sandbox around itself,
//! starts the program in it, and lives as long as the program. When it exits, everything that runs
//! in the sandbox is killed.

use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, chdir, set_dumpable_behavior,
    set_parent_process_death_signal, setsid, wait,
};

use crate::permissions::grant::Permission;
use crate::sandbox_policy::RestrictedFiles;
use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::helper_protocol::HelperReport;
use crate::world::sys::sandbox::control::{HelperRequest, ParentSocket, encode_report};
use crate::world::sys::sandbox::descendants::reap_all;
use crate::world::sys::sandbox::domain::{LandlockDomain, PathRights, TcpPorts};
use crate::world::sys::sandbox::mount_plan::{MountPiece, plan_pieces};
use crate::world::sys::sandbox::namespaces::{self, UserAndGroup};
use crate::world::sys::sandbox::refusal::{SandboxResult, StepContext};
use crate::world::sys::sandbox::root::{IsDirectory, is_directory};
use crate::world::sys::sandbox::root_builder::{
    DEVICES, PathIdentities, WRITABLE_DIRECTORIES, build_root,
};
use crate::world::sys::sandbox::{HelperSetup, privileges, program};

/// What the outer half determined before the namespaces existed.
#[derive(Debug)]
pub(crate) struct OuterContext<'a> {
    /// The user and group of the helper.
    pub(crate) user_and_group: UserAndGroup,
    /// The file at each accessible path.
    pub(crate) identities: PathIdentities,
    /// The settings that are hidden from the program.
    pub(crate) restricted_files: RestrictedFiles,
    /// What was prepared before there was a request.
    pub(crate) setup: &'a HelperSetup,
}

/// Builds the sandbox, runs the program in it to its end, and writes the result to `result_pipe`.
pub(crate) fn run(
    control: &ParentSocket,
    request: HelperRequest,
    context: &OuterContext<'_>,
    mut result_pipe: PipeWriter,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if is_orphaned(&result_pipe)? {
        return Ok(());
    }
    let report = match build_sandbox(control, &request.policy, context)
        .and_then(|()| start_program(&request.policy, request.input))
    {
        Ok(program) => {
            // If massgen is gone, the outer half kills all this.
            control
                .send_report(&HelperReport::Started)
                .unwrap_or_default();
            wait_for_program(program)?
        }
        Err(refusal) => refusal.into(),
    };
    if !reap_all() {
        result_pipe.write_all(&encode_report(&HelperReport::LeftBehind)?)?;
    }
    result_pipe.write_all(&encode_report(&report)?)
}

/// Returns whether the outer half exited before this process could be killed with it.
fn is_orphaned(result_pipe: &PipeWriter) -> io::Result<bool> {
    let mut reader = [PollFd::from_borrowed_fd(
        result_pipe.as_fd(),
        PollFlags::empty(),
    )];
    poll(&mut reader, Some(&Timespec::default()))?;
    Ok(reader.iter().any(|reader| !reader.revents().is_empty()))
}

fn build_sandbox(
    control: &ParentSocket,
    policy: &SandboxPolicy,
    context: &OuterContext<'_>,
) -> SandboxResult<()> {
    program::prefer_for_oom()?;
    namespaces::set_up_inner_half(context.user_and_group)?;
    namespaces::set_up_network(policy.network, control)?;
    build_root(policy, &context.identities, &context.restricted_files)?.enter()?;
    let dir = &policy.dir;
    chdir(dir.as_path()).in_step(format_args!("going to `{dir}`"))?;
    privileges::set_limits(policy.level, &policy.limits)?;
    privileges::set_open_file_limit(&policy.limits)?;
    privileges::drop_privileges()?;
    enter_domain(policy)?;
    let result = context.setup.filter.install();
    result.in_step("filtering system calls")?;
    // The program has the same user, but must not read this process's memory or handles.
    let result = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    result.in_step("closing its own memory")
}

/// Enters the Landlock domain, the second barrier: what the root shows may be read, and what is
/// writable may be written to.
fn enter_domain(policy: &SandboxPolicy) -> SandboxResult<()> {
    let step = "confining itself with Landlock";
    let mut domain = LandlockDomain::deny_all_except_ports(TcpPorts::All).in_step(step)?;
    domain
        .allow_tree(open_path("/")?, PathRights::Read)
        .in_step(step)?;
    for path in WRITABLE_DIRECTORIES {
        domain
            .allow_tree(open_path(path)?, PathRights::Write)
            .in_step(step)?;
    }
    domain
        .allow_tree(open_path(DEVICES)?, PathRights::Device)
        .in_step(step)?;
    for (path, piece) in plan_pieces(policy) {
        if let MountPiece::Open(Permission::Write) | MountPiece::Layer(_) = piece {
            let handle = open_path(path.as_path())?;
            match is_directory(&handle).in_step(step)? {
                IsDirectory::Yes => domain.allow_tree(handle, PathRights::Write),
                IsDirectory::No => domain.allow_file(handle, PathRights::Write),
            }
            .in_step(step)?;
        }
    }
    domain.enter().map(drop).in_step(step)
}

fn open_path(path: impl AsRef<Path>) -> SandboxResult<OwnedFd> {
    let path = path.as_ref();
    let handle = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    handle.in_step(format_args!("opening `{}`", path.display()))
}

fn start_program(policy: &SandboxPolicy, input: Option<OwnedFd>) -> SandboxResult<Pid> {
    setsid().in_step("beginning a session")?;
    program::take_terminal(input.as_ref())?;
    let child = program::command(policy, input)?.spawn();
    let child = child.in_step(format_args!("starting `{}`", program::program_name(policy)))?;
    Ok(Pid::from_child(&child))
}

/// Waits for the program, and reaps the orphans that this process inherits.
fn wait_for_program(program: Pid) -> io::Result<HelperReport> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                return Ok(HelperReport::Ended {
                    code: status.exit_status(),
                    signal: status.terminating_signal(),
                });
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
