//! Owns the process that builds a sandbox around one program (`massgen __sandbox`, or one that was
//! split off from a [`fork_server`]). What the program may do arrives as a value; the kernel is told so in
//! this order, and each step that fails ends all.
//!
//! 1. It parts with massgen: own session, no handle but the three of every process. One of a stem
//!    then stands by until there is an order.
//! 2. It splits. The outer half stays outside and waits ([`watch`]); the inner half begins in
//!    namespaces of its own ([`namespaces`]) and is the first process there ([`init`]).
//! 3. The inner half puts a root directory together ([`root_builder`]) and enters it.
//! 4. It gives up all privileges ([`privileges`]), enters a Landlock domain ([`domain`]) and lets
//!    its system calls be filtered ([`filter`]).
//! 5. It starts the program. When that ends, the kernel ends all that is left in there.
//!
//! Tier C has no namespaces: there the outer half waits for a [`supervisor`], and that for a
//! [`worker`] which does step 4 on the machine as it is and is replaced by the program.

pub(crate) mod arguments;
pub(crate) mod bpf;
pub(crate) mod control;
pub(crate) mod domain;
pub(crate) mod caller;
pub(crate) mod connections;
pub(crate) mod descendants;
pub(crate) mod filter;
pub(crate) mod root_builder;
pub(crate) mod open_granted;
pub(crate) mod init;
pub(crate) mod work_directories;
pub(crate) mod setid_rules;
pub(crate) mod link;
pub(crate) mod metadata;
pub(crate) mod landlock_filter;
pub(crate) mod notification;
pub(crate) mod landlock_paths;
pub(crate) mod program;
pub(crate) mod signals;
pub(crate) mod overlay_namespace;
pub(crate) mod fork_server;
pub(crate) mod supervisor;
pub(crate) mod worker;
pub(crate) mod mounts;
pub(crate) mod namespaces;
pub(crate) mod system_paths;
pub(crate) mod mount_plan;
pub(crate) mod privileges;
pub(crate) mod raw;
pub(crate) mod refusal;
pub(crate) mod restricted_files;
pub(crate) mod root;
pub(crate) mod watch;

use std::io::{self, stdin};
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit, setsid, umask,
};

use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sys::sandbox::control::{HelperRequest, ParentSocket};
use crate::world::sys::sandbox::filter::NamespaceFilter;
use crate::world::sys::sandbox::fork_server::{AssignedWork, ForkRole};
use crate::world::sys::sandbox::init::OuterContext;
use crate::world::sys::sandbox::namespaces::{HelperOwner, fork_into_namespaces};
use crate::world::sys::sandbox::privileges::CORE_BYTES;
use crate::world::sys::sandbox::raw::ForkHalf;
use crate::world::sys::sandbox::refusal::{SandboxRefusal, SandboxResult, StepContext};
use crate::world::sys::sandbox::restricted_files::RestrictedFiles;
use crate::world::sys::sandbox::root_builder::path_identities;

/// The exit status of a helper that got no order, or could not tell how it went.
const NO_ORDER: u8 = 1;

/// What others may do with files that a program makes, if it says nothing else.
const OTHERS_READ: Mode = Mode::from_raw_mode(0o022);

/// The whole of a process that such helpers are split off from, and of each of them; its exit status
/// comes back.
pub(crate) fn fork_server_main() -> u8 {
    let ready = HelperSetup::prepare();
    let role = fork_server::run_fork_server();
    exit_status(&role.and_then(|role| run_helper(role, &ready)))
}

/// What every sandbox needs and no order changes; a stem has it ready for all.
#[derive(Debug)]
pub(crate) struct HelperSetup {
    /// What the machine's settings keep from others.
    pub(crate) restricted_files: RestrictedFiles,
    /// What holds system calls in tiers A and B.
    pub(crate) filter: NamespaceFilter,
}

impl HelperSetup {
    fn prepare() -> Self {
        Self {
            restricted_files: RestrictedFiles::find(),
            filter: NamespaceFilter::compile(),
        }
    }
}

/// The whole helper process; its exit status comes back.
pub(crate) fn helper_main() -> u8 {
    exit_status(&detach_from_parent().and_then(|()| handle_request(&HelperSetup::prepare())))
}

fn exit_status(done: &io::Result<()>) -> u8 {
    match done {
        Ok(()) => 0,
        Err(_) => NO_ORDER,
    }
}

/// What a process does that was split off. What can be done before there is an order is done by then.
fn run_helper(mut role: ForkRole, ready: &HelperSetup) -> io::Result<()> {
    while role == ForkRole::Helper {
        detach_from_parent()?;
        match fork_server::wait_for_work()? {
            AssignedWork::Command => return handle_request(ready),
            AssignedWork::Overlay => role = fork_server::run_overlay_fork_server()?,
            AssignedWork::Nothing => break,
        }
    }
    Ok(())
}

fn handle_request(ready: &HelperSetup) -> io::Result<()> {
    let control = ParentSocket::from_stdin()?;
    let order = control.receive_request()?;
    let done = match order.confinement.tier {
        SandboxLevel::A | SandboxLevel::B => run_in_namespaces(&control, order, ready),
        SandboxLevel::C | SandboxLevel::Off => supervisor::run(&control, order),
        SandboxLevel::D => Err(SandboxRefusal {
            step: "choosing the tier".to_owned(),
            why: "in tier D no program is run".to_owned(),
        }),
    };
    match done {
        Ok(done) => done,
        Err(refusal) => control.send_report(&refusal.into()),
    }
}

/// Whatever happens to massgen or to its terminal, this process is none of it, and ends when the
/// thread that started it does.
fn detach_from_parent() -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    umask(OTHERS_READ);
    raw::close_from(3)?;
    let held = getrlimit(Resource::Core).maximum.unwrap_or(u64::MAX);
    let none = Some(held.min(CORE_BYTES));
    let none = Rlimit {
        current: none,
        maximum: none,
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// Leaves what the program writes to the program: whoever reads it sees its end when the program is
/// gone. Where that cannot be, it is seen when this process is gone too.
fn release_streams() {
    let Ok(nothing) = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let input = stdin();
    let streams = [input.as_fd(), nothing.as_fd(), nothing.as_fd()];
    raw::set_standard_streams(streams).unwrap_or_default();
}

/// Tiers A and B: a root and namespaces of its own.
fn run_in_namespaces(
    control: &ParentSocket,
    order: HelperRequest,
    ready: &HelperSetup,
) -> SandboxResult<io::Result<()>> {
    let before = OuterContext {
        owner: HelperOwner::current(),
        identities: path_identities(&order.confinement)?,
        ready,
    };
    let mut set_aside = Vec::new();
    for layer in &order.confinement.layers {
        let moved = work_directories::set_aside(layer);
        if moved.in_step(format_args!("preparing the layer on `{}`", layer.root))? {
            set_aside.push(layer.clone());
        }
    }
    let (reader, writer) = io::pipe().in_step("making a pipe")?;
    Ok(match fork_into_namespaces(order.confinement.reach)? {
        ForkHalf::Outer { pid, handle } => {
            release_streams();
            drop(writer);
            for layer in &set_aside {
                // What stays is removed before the layer is used again.
                work_directories::remove_set_aside(layer).unwrap_or_default();
            }
            watch::wait_until_gone(control, pid, &handle, reader)
        }
        ForkHalf::Inner => {
            drop(reader);
            init::run(control, order, &before, writer)
        }
    })
}
