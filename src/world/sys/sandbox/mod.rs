//! The sandbox helper: the process that builds a sandbox around one program (`massgen __sandbox`,
//! or a fork of a [`fork_server`]). What the program may do arrives as a value and is enforced in
//! this order; if a step fails, the helper gives up.
//!
//! 1. It detaches from massgen: its own session, and no handles but the three standard streams. A
//!    fork of a fork server then waits for a request.
//! 2. It forks. The outer half stays outside and waits ([`watch`]); the inner half starts in its
//!    own namespaces ([`namespaces`]) and is the first process there ([`init`]).
//! 3. The inner half builds a root directory ([`root_builder`]) and enters it.
//! 4. It drops all privileges ([`privileges`]), enters a Landlock domain ([`domain`]) and installs
//!    a seccomp filter ([`filter`]).
//! 5. It starts the program. When that exits, the kernel kills all that is left in the namespaces.
//!
//! Level `landlock` has no namespaces: there the outer half waits for a [`supervisor`], and the
//! supervisor for a [`worker`], which does step 4 on the machine as it is and is replaced by the
//! program.

pub(crate) mod bpf;
pub(crate) mod control;
pub(crate) mod domain;
pub(crate) mod caller;
pub(crate) mod setid_rules;
pub(crate) mod mount_plan;
pub(crate) mod raw;
pub(crate) mod descendants;
pub(crate) mod filter;
pub(crate) mod landlock_filter;
pub(crate) mod notification;
pub(crate) mod arguments;
pub(crate) mod metadata;
pub(crate) mod signals;
pub(crate) mod mounts;
pub(crate) mod open_granted;
pub(crate) mod work_directories;
pub(crate) mod landlock_paths;
pub(crate) mod refusal;
pub(crate) mod link;
pub(crate) mod program;
pub(crate) mod namespaces;
pub(crate) mod fork_server;
pub(crate) mod privileges;
pub(crate) mod worker;
pub(crate) mod supervisor;
pub(crate) mod root;
pub(crate) mod root_builder;
pub(crate) mod init;
pub(crate) mod watch;

use std::io::{self, stdin};
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit, setsid, umask,
};

use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sys::restricted_search::find_restricted_files;
use crate::world::sys::sandbox::control::{HelperRequest, ParentSocket};
use crate::world::sys::sandbox::filter::NamespaceFilter;
use crate::world::sys::sandbox::fork_server::{AssignedWork, ForkRole};
use crate::world::sys::sandbox::init::OuterContext;
use crate::world::sys::sandbox::namespaces::{UserAndGroup, fork_into_namespaces};
use crate::world::sys::sandbox::privileges::CORE_BYTES;
use crate::world::sys::sandbox::raw::ForkHalf;
use crate::world::sys::sandbox::refusal::{SandboxRefusal, SandboxResult, StepContext};
use crate::world::sys::sandbox::root_builder::path_identities;

/// The exit status of a helper that got no request, or could not report its result.
const NO_REQUEST: u8 = 1;

/// The umask of a program, unless it sets another: others may read its new files, not write to
/// them.
const OTHERS_READ: Mode = Mode::from_raw_mode(0o022);

/// Runs as a fork server, and as each helper that is forked from it; returns the exit status.
pub(crate) fn fork_server_main() -> u8 {
    let setup = HelperSetup::prepare();
    let role = fork_server::run_fork_server();
    exit_status(&role.and_then(|role| run_helper(role, &setup)))
}

/// What every sandbox needs and no request changes; a fork server prepares it once for all helpers.
#[derive(Debug)]
pub(crate) struct HelperSetup {
    /// The seccomp filter of levels `overlay` and `namespaces`.
    pub(crate) filter: NamespaceFilter,
}

impl HelperSetup {
    fn prepare() -> Self {
        Self {
            filter: NamespaceFilter::compile(),
        }
    }
}

/// Runs as a single helper; returns the exit status.
pub(crate) fn helper_main() -> u8 {
    exit_status(&detach_from_parent().and_then(|()| handle_request(&HelperSetup::prepare())))
}

fn exit_status(result: &io::Result<()>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(_) => NO_REQUEST,
    }
}

/// Runs as a forked helper. All that can be prepared without a request is prepared before.
fn run_helper(mut role: ForkRole, setup: &HelperSetup) -> io::Result<()> {
    while role == ForkRole::Helper {
        detach_from_parent()?;
        match fork_server::wait_for_work()? {
            AssignedWork::Command => return handle_request(setup),
            AssignedWork::Overlay => role = fork_server::run_overlay_fork_server()?,
            AssignedWork::ParentExited => break,
        }
    }
    Ok(())
}

fn handle_request(setup: &HelperSetup) -> io::Result<()> {
    let control = ParentSocket::from_stdin()?;
    let request = control.receive_request()?;
    let result = match request.policy.level {
        SandboxLevel::Overlay | SandboxLevel::Namespaces => {
            run_in_namespaces(&control, request, setup)
        }
        SandboxLevel::Landlock | SandboxLevel::Off => supervisor::run(&control, request),
        SandboxLevel::Unavailable => Err(SandboxRefusal {
            step: "choosing the sandbox level".to_owned(),
            reason: "no program runs at sandbox level `unavailable`".to_owned(),
        }),
    };
    match result {
        Ok(exit_result) => exit_result,
        Err(refusal) => control.send_report(&refusal.into()),
    }
}

/// Detaches this process from massgen and its terminal, so that no signal to them reaches it. It is
/// killed when the thread that started it exits.
fn detach_from_parent() -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    umask(OTHERS_READ);
    raw::close_from(3)?;
    let maximum = getrlimit(Resource::Core).maximum.unwrap_or(u64::MAX);
    let core_bytes = Some(maximum.min(CORE_BYTES));
    let no_core = Rlimit {
        current: core_bytes,
        maximum: core_bytes,
    };
    Ok(setrlimit(Resource::Core, no_core)?)
}

/// Gives up its copies of the program's streams: then readers see the end of the output when the
/// program is gone. If that fails, they see it when this process is gone, too.
fn release_streams() {
    let Ok(null_device) = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let input = stdin();
    let streams = [input.as_fd(), null_device.as_fd(), null_device.as_fd()];
    raw::set_standard_streams(streams).unwrap_or_default();
}

/// Runs the program at levels `overlay` and `namespaces`: with its own root and namespaces.
fn run_in_namespaces(
    control: &ParentSocket,
    mut request: HelperRequest,
    setup: &HelperSetup,
) -> SandboxResult<io::Result<()>> {
    let restricted_files = request.restricted_files.take();
    let context = OuterContext {
        user_and_group: UserAndGroup::of_this_process(),
        identities: path_identities(&request.policy)?,
        restricted_files: restricted_files.unwrap_or_else(find_restricted_files),
        setup,
    };
    let mut set_aside_layers = Vec::new();
    for layer in &request.policy.layers {
        let move_result = work_directories::set_aside(layer);
        if move_result.in_step(format_args!("preparing the layer on `{}`", layer.root))? {
            set_aside_layers.push(layer.clone());
        }
    }
    let (reader, writer) = io::pipe().in_step("making a pipe")?;
    Ok(match fork_into_namespaces(request.policy.network)? {
        ForkHalf::Outer { pid, pidfd } => {
            release_streams();
            drop(writer);
            for layer in &set_aside_layers {
                // What could not be removed is removed before the layer is used again.
                work_directories::remove_set_aside(layer).unwrap_or_default();
            }
            watch::wait_until_gone(control, pid, &pidfd, reader)
        }
        ForkHalf::Inner => {
            drop(reader);
            init::run(control, request, &context, writer)
        }
    })
}
