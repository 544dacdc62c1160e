//! The supervisor of level `landlock`, outside the program's sandbox: it starts the worker,
//! answers the system calls that the kernel passes on, and kills what is left when the program ends
//! or massgen goes. It stays outside the program's domain and filters, and has no capability. With
//! the sandbox off, it only does the cleanup, and drops no privileges. If the supervisor itself is
//! killed, its parent does the cleanup.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{io, thread};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::connect;
use rustix::process::{
    Pid, Signal, WaitOptions, pidfd_send_signal, set_parent_process_death_signal, wait, waitpid,
};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};

use crate::path::AbsPath;
use crate::sandbox_policy::NetworkAccess;
use crate::sandbox_policy::helper_protocol::HelperReport;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sys::sandbox::caller::NotifyingProcess;
use crate::world::sys::sandbox::control::{HelperRequest, ParentSocket};
use crate::world::sys::sandbox::descendants::{DescendantProcesses, reap_all};
use crate::world::sys::sandbox::link::{WorkerLink, WorkerMessage};
use crate::world::sys::sandbox::notification::{NotificationListener, SeccompNotification};
use crate::world::sys::sandbox::raw::{self, ForkHalf};
use crate::world::sys::sandbox::refusal::{SandboxResult, StepContext};
use crate::world::sys::sandbox::{
    landlock_paths, metadata, privileges, release_streams, signals, worker,
};

/// Runs the program to its end, at level `landlock` or without a sandbox, and reports to massgen.
pub(crate) fn run(control: &ParentSocket, request: HelperRequest) -> SandboxResult<io::Result<()>> {
    // The socket shows when massgen exits. If this process were killed then, the others would be
    // left alone.
    set_parent_process_death_signal(None).in_step("outliving massgen")?;
    let level = request.policy.level;
    if level != SandboxLevel::Off {
        landlock_paths::check_policy(&request.policy).in_step("compiling the sandbox policy")?;
        privileges::drop_privileges()?;
    }
    let descendants = adopt_descendants(level)?;
    match raw::fork_process(0).in_step("splitting off the supervisor")? {
        ForkHalf::Inner => supervise(control, request),
        ForkHalf::Outer { pid, .. } => {
            drop(request);
            release_streams();
            let wait_result = waitpid(Some(pid), WaitOptions::empty());
            descendants.kill_and_wait();
            Ok(wait_result.map(drop).map_err(io::Error::from))
        }
    }
}

/// Makes this process the subreaper of all processes that lose their parent from now on.
fn adopt_descendants(level: SandboxLevel) -> SandboxResult<DescendantProcesses> {
    let adopt_result = match level {
        SandboxLevel::Off => DescendantProcesses::become_subreaper(),
        SandboxLevel::Overlay
        | SandboxLevel::Namespaces
        | SandboxLevel::Landlock
        | SandboxLevel::Unavailable => DescendantProcesses::become_subreaper_with_signal_scope(),
    };
    adopt_result.in_step("becoming the one that adopts")
}

fn supervise(control: &ParentSocket, request: HelperRequest) -> SandboxResult<io::Result<()>> {
    // A fork does not inherit this from its parent.
    let descendants = adopt_descendants(request.policy.level)?;
    let writable_paths = landlock_paths::writable_paths(&request.policy)
        .cloned()
        .collect();
    let (link, worker_link) = WorkerLink::pair().in_step("connecting to the program's process")?;
    match raw::fork_process(0).in_step("splitting off the program's process")? {
        ForkHalf::Inner => {
            drop(link);
            Ok(worker::run(&worker_link, request))
        }
        ForkHalf::Outer { pid, pidfd } => {
            drop(worker_link);
            release_streams();
            let proxy_port = match request.policy.network {
                NetworkAccess::Proxy { port } => Some(port),
                NetworkAccess::None | NetworkAccess::Host => None,
            };
            let program = SupervisedProgram {
                control,
                pid,
                pidfd,
                descendants,
                access: SupervisedAccess {
                    writable: writable_paths,
                    proxy_port,
                },
            };
            let end_report = program.run_to_end(&link);
            if end_report.is_ok() && !reap_all() {
                control
                    .send_report(&HelperReport::LeftBehind)
                    .unwrap_or_default();
            }
            descendants.kill_and_wait();
            Ok(control.send_report(&end_report.unwrap_or_else(HelperReport::from)))
        }
    }
}

fn in_thread(name: &str, work: impl FnOnce() + Send + 'static) -> SandboxResult<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    let start_result = thread.spawn(work).map(drop);
    start_result.in_step("starting a thread")
}

/// The process of the program, as the supervisor sees it.
struct SupervisedProgram<'a> {
    control: &'a ParentSocket,
    pid: Pid,
    pidfd: OwnedFd,
    descendants: DescendantProcesses,
    access: SupervisedAccess,
}

/// What the program may do with the calls that the supervisor answers.
#[derive(Clone)]
struct SupervisedAccess {
    /// The trees that it may change.
    writable: Vec<AbsPath>,
    /// The port of massgen's proxy, if it may reach nothing else on the network.
    proxy_port: Option<u16>,
}

impl SupervisedProgram<'_> {
    /// Stays with it until it ends.
    fn run_to_end(&self, link: &WorkerLink) -> SandboxResult<HelperReport> {
        let mut listener = None;
        loop {
            self.wait_for_message(link);
            match link
                .receive_message()
                .in_step("listening to the program's process")?
            {
                WorkerMessage::Listener(handle) => {
                    listener = Some(NotificationListener::new(handle));
                }
                WorkerMessage::Refused(refusal) => return Err(refusal),
                WorkerMessage::Closed => break,
            }
        }
        self.start_watching(listener)?;
        // If massgen does not receive it, massgen is gone, which is detected.
        self.control
            .send_report(&HelperReport::Started)
            .unwrap_or_default();
        self.wait_for_end().in_step("waiting for the program")
    }

    /// Waits until the worker sends a message; if massgen goes meanwhile, kills the worker.
    fn wait_for_message(&self, link: &WorkerLink) {
        if let [true, false] = wait_for_any([self.control.as_fd(), link.as_fd()]) {
            pidfd_send_signal(&self.pidfd, Signal::KILL).unwrap_or_default();
        }
    }

    /// Watches massgen from now on, and answers the program's calls from the first one on, in
    /// threads: a call that waits for a slow disk must not delay noticing the end.
    fn start_watching(&self, listener: Option<NotificationListener>) -> SandboxResult<()> {
        let massgen = self.control.try_clone().in_step("watching massgen")?;
        let program = self.pidfd.try_clone().in_step("watching the program")?;
        let (descendants, access) = (self.descendants, self.access.clone());
        in_thread("massgen", move || {
            if let Some(listener) = listener
                && let [false, _] = wait_for_any([massgen.as_fd(), listener.as_fd()])
                && !listener.has_no_callers()
            {
                // Without the thread, the program's calls fail.
                in_thread("answers", move || answer_all(&listener, &access)).unwrap_or_default();
            }
            wait_for_any([massgen.as_fd()]);
            pidfd_send_signal(&program, Signal::KILL).unwrap_or_default();
            descendants.kill_if_scoped();
        })
    }

    /// Waits for its exit, and reaps the processes that were adopted meanwhile.
    fn wait_for_end(&self) -> io::Result<HelperReport> {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == self.pid => {
                    return Ok(HelperReport::Ended {
                        code: status.exit_status(),
                        signal: status.terminating_signal(),
                    });
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Waits until one of these is readable or its other end is closed; returns which of them are.
/// After the request, massgen sends nothing more.
fn wait_for_any<const N: usize>(handles: [BorrowedFd<'_>; N]) -> [bool; N] {
    let events = PollFlags::IN | PollFlags::RDHUP;
    let mut poll_fds = handles.map(|handle| PollFd::from_borrowed_fd(handle, events));
    while poll(&mut poll_fds, None) == Err(Errno::INTR) {}
    poll_fds.map(|poll_fd| !poll_fd.revents().is_empty())
}

/// Answers calls until there are no more. When it returns, every later call fails.
fn answer_all(listener: &NotificationListener, access: &SupervisedAccess) {
    while let Ok(Some(notification)) = listener.receive_next() {
        if let Err(error) = answer(listener, &notification, access) {
            listener.answer(&notification, Err(error));
        }
    }
}

fn answer(
    listener: &NotificationListener,
    notification: &SeccompNotification,
    access: &SupervisedAccess,
) -> Result<(), Errno> {
    let caller = NotifyingProcess::new(notification.caller)?;
    // What was opened belongs to the caller only if it still waits.
    listener.check_pending(notification)?;
    match notification.call {
        libc::SYS_ioctl => return open_terminal(listener, notification, &caller),
        libc::SYS_connect => {
            let connection = prepare_connection(notification, &caller, access.proxy_port)?;
            listener.check_pending(notification)?;
            connection.open()?;
            listener.answer(notification, Ok(()));
            return Ok(());
        }
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill => {
            signals::send_signal(notification, &caller)?;
            listener.answer(notification, Ok(()));
            return Ok(());
        }
        _ => {}
    }
    let change = metadata::prepare_change(notification, &caller, &access.writable)?;
    listener.check_pending(notification)?;
    change.apply()?;
    listener.answer(notification, Ok(()));
    Ok(())
}

/// Opens the other end of a pseudo terminal that the caller created.
fn open_terminal(
    listener: &NotificationListener,
    notification: &SeccompNotification,
    caller: &NotifyingProcess,
) -> Result<(), Errno> {
    let terminal = caller.duplicate_handle(notification.argument_i32(0))?;
    listener.check_pending(notification)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let peer = ioctl_tiocgptpeer(terminal, flags)?;
    let flags = notification.argument_u32(2) & OpenptFlags::CLOEXEC.bits();
    listener.answer_with(notification, peer.as_fd(), flags)
}

/// The longest socket address, in bytes (`struct sockaddr_storage`).
const ADDRESS_BYTES_MAX: usize = 128;
/// Address families (`linux/socket.h`).
const INET: u16 = 2;
const INET6: u16 = 10;

/// A socket that is to be connected to the proxy.
#[derive(Debug)]
pub(crate) struct ProxyConnection {
    socket: OwnedFd,
    proxy: SocketAddr,
}

/// Reads the address that the caller wants to connect to; anything but the proxy at `proxy_port` is
/// refused, and without a proxy everything.
pub(crate) fn prepare_connection(
    notification: &SeccompNotification,
    caller: &NotifyingProcess,
    proxy_port: Option<u16>,
) -> Result<ProxyConnection, Errno> {
    let length = usize::try_from(notification.argument_i32(2)).map_err(|_| Errno::INVAL)?;
    if length > ADDRESS_BYTES_MAX {
        return Err(Errno::INVAL);
    }
    let address = caller.read_bytes(notification.argument(1), length)?;
    let proxy = parse_address(&address).filter(|address| is_proxy(*address, proxy_port));
    Ok(ProxyConnection {
        proxy: proxy.ok_or(Errno::ACCESS)?,
        socket: caller.duplicate_handle(notification.argument_i32(0))?,
    })
}

impl ProxyConnection {
    /// Connects the socket. The caller's own handle refers to the same socket.
    pub(crate) fn open(self) -> Result<(), Errno> {
        connect(self.socket, &self.proxy)
    }
}

/// Parses a `struct sockaddr_in` or a `struct sockaddr_in6`; `None` for another family.
fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, after_family) = bytes.split_first_chunk()?;
    let (port, after_port) = after_family.split_first_chunk()?;
    let ip = match u16::from_ne_bytes(*family) {
        INET => IpAddr::V4(Ipv4Addr::from(*after_port.first_chunk::<4>()?)),
        INET6 => {
            let (_flow, after_flow) = after_port.split_first_chunk::<4>()?;
            IpAddr::V6(Ipv6Addr::from(*after_flow.first_chunk::<16>()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

/// Returns whether the address is that of massgen's proxy. It listens on the IPv4 loopback address,
/// which an IPv6 socket writes in its own form.
fn is_proxy(address: SocketAddr, proxy_port: Option<u16>) -> bool {
    let is_loopback = address.ip().to_canonical() == IpAddr::V4(Ipv4Addr::LOCALHOST);
    is_loopback && proxy_port == Some(address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether a socket may be connected to `ip` at `port` when the proxy is at 3128, with
    /// the address in the kernel's format.
    #[track_caller]
    fn check(ip: &str, port: u16, expected: bool) {
        let (family, ip) = match ip.parse().unwrap() {
            IpAddr::V4(ip) => (INET, ip.octets().to_vec()),
            IpAddr::V6(ip) => (INET6, [&[0; 4], ip.octets().as_slice()].concat()),
        };
        let family = family.to_ne_bytes();
        let bytes = [family.as_slice(), &port.to_be_bytes(), &ip, &[0; 8]].concat();
        let address = parse_address(&bytes).unwrap();
        assert_eq!(is_proxy(address, Some(3128)), expected, "{address}");
        assert!(!is_proxy(address, None));
    }

    #[test]
    fn the_proxy_alone_is_reached() {
        check("127.0.0.1", 3128, true);
        check("::ffff:127.0.0.1", 3128, true);
        check("127.0.0.1", 3129, false);
        check("127.0.0.2", 3128, false);
        check("192.0.2.1", 3128, false);
        check("::1", 3128, false);
        check("::", 3128, false);
    }

    #[test]
    fn malformed_socket_addresses_are_rejected() {
        for bytes in [
            &[][..],
            &[2],
            &[2, 0, 12],
            &[2, 0, 12, 56, 127, 0, 0],
            &[1, 0, b'/', 0],
        ] {
            assert_eq!(parse_address(bytes), None, "{bytes:?}");
        }
        assert_eq!(parse_address(&[0; 16]), None);
    }
}
