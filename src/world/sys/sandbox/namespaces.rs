//! Sets up the namespaces: what the forked child of the helper, its inner half, does not share with
//! the machine, its user and group there, and its network.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Gid, Uid, getegid, geteuid};

use crate::sandbox_policy::NetworkAccess;
use crate::sandbox_policy::helper_protocol::HelperReport;
use crate::world::sys::sandbox::control::ParentSocket;
use crate::world::sys::sandbox::raw::{self, ForkHalf};
use crate::world::sys::sandbox::refusal::{SandboxResult, StepContext};

/// The file of the limit on inotify instances in these namespaces. The user has 128 of them on most
/// machines, and those of the sandbox count towards that.
const INOTIFY_INSTANCES_FILE: &str = "/proc/sys/user/max_inotify_instances";
const INOTIFY_INSTANCES_MAX: &str = "32";
/// The file of the limit on inotify watches of these namespaces, and the limit: this many, or a
/// fraction of the user's limit, whichever is less.
const INOTIFY_WATCHES_FILE: &str = "/proc/sys/user/max_inotify_watches";
const INOTIFY_WATCHES_MAX: u64 = 8192;
const INOTIFY_WATCHES_DIVISOR: u64 = 16;
/// The file of the user's limit.
const USER_INOTIFY_WATCHES_FILE: &str = "/proc/sys/fs/inotify/max_user_watches";

/// The step of an error when mounts are made private.
const PRIVATE_MOUNTS_STEP: &str = "parting with the mounts of the machine";

/// Forks the process; the inner half starts in its own namespaces.
pub(crate) fn fork_into_namespaces(network: NetworkAccess) -> SandboxResult<ForkHalf> {
    let always_flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    let network = match network {
        NetworkAccess::Host => 0,
        NetworkAccess::None | NetworkAccess::Proxy { .. } => libc::CLONE_NEWNET,
    };
    raw::fork_process(always_flags | network).in_step("making namespaces")
}

/// The effective user and group of a process. They have to be read before the process enters new
/// namespaces: there it has neither until both are mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserAndGroup {
    user: Uid,
    group: Gid,
}

impl UserAndGroup {
    /// Returns the user and group of this process.
    pub(crate) fn of_this_process() -> Self {
        Self {
            user: geteuid(),
            group: getegid(),
        }
    }
}

/// Sets up the inner half: the same user and group as outside, and no other; lower limits on
/// inotify; private mounts.
pub(crate) fn set_up_inner_half(user_and_group: UserAndGroup) -> SandboxResult<()> {
    map_user_and_group(user_and_group)?;
    limit_inotify();
    let private_flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private_flags).in_step(PRIVATE_MOUNTS_STEP)
}

/// Lowers the inotify limits in these namespaces. If the settings cannot be written, only the
/// user's limits apply, which other processes share.
fn limit_inotify() {
    fs::write(INOTIFY_INSTANCES_FILE, INOTIFY_INSTANCES_MAX).unwrap_or_default();
    let user_watches = fs::read_to_string(USER_INOTIFY_WATCHES_FILE).unwrap_or_default();
    let user_watches = user_watches.trim().parse().unwrap_or(INOTIFY_WATCHES_MAX);
    let user_share = user_watches.div_euclid(INOTIFY_WATCHES_DIVISOR);
    let watches = user_share.clamp(1, INOTIFY_WATCHES_MAX).to_string();
    fs::write(INOTIFY_WATCHES_FILE, watches).unwrap_or_default();
}

/// Moves this process into its own namespaces, in which it keeps its user and sees later mounts and
/// unmounts of the machine, while its own stay invisible to the machine.
pub(crate) fn enter_private_namespaces() -> SandboxResult<()> {
    let user_and_group = UserAndGroup::of_this_process();
    raw::unshare_namespaces(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)
        .in_step("making namespaces")?;
    map_user_and_group(user_and_group)?;
    let downstream_flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", downstream_flags).in_step(PRIVATE_MOUNTS_STEP)
}

/// Maps `user_and_group` to themselves in the user namespace of this process, and nobody else.
fn map_user_and_group(user_and_group: UserAndGroup) -> SandboxResult<()> {
    let user = user_and_group.user.as_raw();
    let group = user_and_group.group.as_raw();
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ];
    for (name, map) in maps {
        fs::write(format!("/proc/self/{name}"), map).in_step(format_args!("writing `{name}`"))?;
    }
    Ok(())
}

/// Makes the available network usable, and passes the listener of the proxy to massgen.
pub(crate) fn set_up_network(network: NetworkAccess, control: &ParentSocket) -> SandboxResult<()> {
    match network {
        NetworkAccess::Host => Ok(()),
        NetworkAccess::None => switch_loopback_on().in_step("switching the loopback on"),
        NetworkAccess::Proxy { port } => {
            switch_loopback_on().in_step("switching the loopback on")?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                .in_step(format_args!("listening on port {port}"))?;
            control
                .send_report_with_handle(&HelperReport::Listening, listener.as_fd())
                .in_step("handing the listener over")
        }
    }
}

fn switch_loopback_on() -> io::Result<()> {
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    raw::switch_loopback_on(socket.as_fd())
}
