//! The fork server (`massgen __fork_server`): a process that forks one sandbox helper after
//! another. Each helper waits until massgen has work for it. The fork server must stay as it
//! started: it learns nothing about a sandbox, gets no handle of one, and has one thread. A helper
//! can become the fork server of an overlay namespace: it creates the namespace, in which all its
//! helpers live.

use std::io::{self, IoSlice, IoSliceMut, stdin, stdout};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr, write};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};

use crate::path::AbsPath;
use crate::world::sys::cgroup::OWN_PROCESS;
use crate::world::sys::launch::fork_server::{
    ANSWER_BYTES_MAX, HANDLES_MAX, OVERLAY_HANDLES_MAX, OVERLAY_WORK,
};
use crate::world::sys::launch::overlay_request::{
    OverlayRequest, OverlayRoot, OverlaySource, REQUEST_BYTES_MAX,
};
use crate::world::sys::sandbox::mounts::{MountHandle, open_machine_path};
use crate::world::sys::sandbox::namespaces::enter_private_namespaces;
use crate::world::sys::sandbox::open_granted::open_expected;
use crate::world::sys::sandbox::raw::{ForkHalf, fork_process, set_standard_streams};
use crate::world::sys::sandbox::refusal::{SandboxRefusal, SandboxResult, StepContext};
use crate::world::sys::sandbox::{detach_from_parent, work_directories};

/// The message that carries the handles on an overlay namespace.
const OVERLAY_CREATED: &[u8] = b"+";

/// What this process is when it stops being a fork server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkRole {
    /// A sandbox helper; its standard input is a socket to massgen.
    Helper,
    /// Nothing: massgen has exited.
    ParentExited,
}

/// Forks a helper each time that massgen requests one, and returns in each helper.
pub(crate) fn run_fork_server() -> io::Result<ForkRole> {
    detach_from_parent()?;
    serve_requests(&stdin().as_fd().try_clone_to_owned()?)
}

/// Like [`run_fork_server`], for a helper that becomes the fork server of the overlay namespace
/// that massgen requests. Its standard input is the socket to massgen.
pub(crate) fn run_overlay_fork_server() -> io::Result<ForkRole> {
    let socket = stdin().as_fd().try_clone_to_owned()?;
    let mut request = vec![0; REQUEST_BYTES_MAX];
    let (_, length) = retry_on_intr(|| recv(&socket, &mut *request, RecvFlags::TRUNC))?;
    let request = request.get(..length).ok_or(io::ErrorKind::FileTooLarge)?;
    match enter_overlay(&serde_json::from_slice(request)?) {
        Ok(handles) => {
            let handles: Vec<BorrowedFd<'_>> = handles.iter().map(AsFd::as_fd).collect();
            send_message(&socket, OVERLAY_CREATED, &handles)?;
        }
        Err(SandboxRefusal { step, reason }) => {
            let refusal = format!("{step}: {reason}").into_bytes();
            let refusal = refusal.get(..ANSWER_BYTES_MAX).unwrap_or(&refusal);
            send_message(&socket, refusal, &[])?;
            return Ok(ForkRole::ParentExited);
        }
    }
    serve_requests(&socket)
}

fn serve_requests(socket: &OwnedFd) -> io::Result<ForkRole> {
    let mut request = [0];
    while retry_on_intr(|| recv(socket, &mut request, RecvFlags::empty()))?.1 > 0 {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (massgen_end, helper_end) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        // A sibling, not a child: massgen waits for it, and it exits with massgen.
        match fork_process(libc::CLONE_PARENT)? {
            ForkHalf::Outer { pid, pidfd } => {
                let pid_bytes = pid.as_raw_nonzero().get().to_ne_bytes();
                send_message(socket, &pid_bytes, &[pidfd.as_fd(), massgen_end.as_fd()])?;
            }
            ForkHalf::Inner => {
                let null_device = stdout();
                set_standard_streams([
                    helper_end.as_fd(),
                    null_device.as_fd(),
                    null_device.as_fd(),
                ])?;
                return Ok(ForkRole::Helper);
            }
        }
    }
    Ok(ForkRole::ParentExited)
}

/// The work that massgen assigns to a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssignedWork {
    /// It builds a sandbox; its streams are set up and it has joined its control groups.
    Command,
    /// It becomes the fork server of an overlay namespace; its standard input is the socket to
    /// massgen.
    Overlay,
    /// None: massgen has exited.
    ParentExited,
}

/// Waits until massgen has work for this process, and sets up its streams and control groups.
pub(crate) fn wait_for_work() -> io::Result<AssignedWork> {
    let (kind, handles) = receive_handles(&stdin().as_fd().try_clone_to_owned()?)?;
    match kind {
        None => Ok(AssignedWork::ParentExited),
        Some(OVERLAY_WORK) => {
            let [socket] = expect_handles(handles)?;
            let null_device = stdout();
            set_standard_streams([socket.as_fd(), null_device.as_fd(), null_device.as_fd()])?;
            Ok(AssignedWork::Overlay)
        }
        Some(_) => {
            let (streams, join_handles) =
                handles.split_at_checked(3).ok_or_else(handle_count_error)?;
            for join_handle in join_handles {
                write(join_handle, OWN_PROCESS)?;
            }
            let streams: &[OwnedFd; 3] = streams.try_into().map_err(|_| handle_count_error())?;
            set_standard_streams(streams.each_ref().map(AsFd::as_fd))?;
            Ok(AssignedWork::Command)
        }
    }
}

fn expect_handles<const COUNT: usize>(handles: Vec<OwnedFd>) -> io::Result<[OwnedFd; COUNT]> {
    handles.try_into().map_err(|_| handle_count_error())
}

fn handle_count_error() -> io::Error {
    io::Error::other("work came with another number of handles than it needs")
}

/// Receives the kind of work that massgen sends, and its handles; no kind if it never will send
/// any.
fn receive_handles(socket: &OwnedFd) -> io::Result<(Option<u8>, Vec<OwnedFd>)> {
    let mut request = [0];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(HANDLES_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut request)];
        recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut received_handles = Vec::new();
    for ancillary_message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(handles) = ancillary_message {
            received_handles.extend(handles);
        }
    }
    Ok(((message.bytes > 0).then_some(request[0]), received_handles))
}

fn send_message(socket: &OwnedFd, bytes: &[u8], handles: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(OVERLAY_HANDLES_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !handles.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(handles)) {
        return Err(io::Error::other("too many handles for one message"));
    }
    let parts = [IoSlice::new(bytes)];
    retry_on_intr(|| sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Moves this process into the namespace that `request` describes. The returned handles are on its
/// root directory, and on the overlaid directories in order.
pub(crate) fn enter_overlay(request: &OverlayRequest) -> SandboxResult<Vec<OwnedFd>> {
    enter_private_namespaces()?;
    // Every source is opened before the first mount: afterwards, paths lead into the overlays.
    let mut mounts = Vec::new();
    for root in &request.roots {
        let mount =
            overlay_mount(root).in_step(format_args!("staging `{}`", root.source.root()))?;
        mounts.push((root.source.root(), mount));
    }
    for path in &request.excluded {
        if let Some(mount) = unchanged_mount(path).in_step(format_args!("keeping `{path}`"))? {
            mounts.push((path, mount));
        }
    }
    mounts.sort_by_key(|(path, _)| path.as_path().components().count());
    for (path, mount) in &mounts {
        let attach_result = open_machine_path(path).and_then(|point| mount.attach(point));
        attach_result.in_step(format_args!("mounting `{path}`"))?;
    }
    for root in &request.roots {
        if let OverlaySource::Layered(layer) = &root.source {
            let result = work_directories::restore_owner_access(layer);
            result.in_step(format_args!("opening the layer on `{}`", layer.root))?;
        }
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut handles = vec![openat(CWD, "/", flags, Mode::empty()).in_step("opening the world")?];
    for root in &request.roots {
        let path = root.source.root();
        handles.push(open_machine_path(path).in_step(format_args!("opening `{path}`"))?);
    }
    Ok(handles)
}

/// Creates the mount that replaces a directory.
fn overlay_mount(root: &OverlayRoot) -> io::Result<MountHandle> {
    let user_tree = open_expected(root.source.root(), &root.identity)?;
    Ok(match &root.source {
        OverlaySource::Layered(layer) => MountHandle::overlay(user_tree, layer)?,
        OverlaySource::Copied { copy, .. } => MountHandle::copy_from(open_machine_path(copy)?)?,
    })
}

/// Clones a directory with its present content; `None` if it does not exist.
fn unchanged_mount(path: &AbsPath) -> io::Result<Option<MountHandle>> {
    match open_machine_path(path) {
        Err(Errno::NOENT) => Ok(None),
        source => Ok(Some(MountHandle::copy_from(source?)?)),
    }
}
