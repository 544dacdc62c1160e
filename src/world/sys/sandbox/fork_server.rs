//! The fork server (`massgen __stem`): a process that forks one sandbox helper after another. Each
//! helper stands by until massgen has work for it. The fork server must stay as it started: it
//! learns nothing about a sandbox, gets no handle of one, and has one thread. The overlay fork
//! server (`massgen __stage`) first creates an overlay namespace, in which all its helpers live.

use std::io::{self, IoSlice, IoSliceMut, stdin, stdout};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{retry_on_intr, write};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};

use crate::world::sys::cgroup::ITSELF;
use crate::world::sys::launch::fork_server::{ANSWER_BYTES_MAX, HANDED_MAX, HANDLES_MAX};
use crate::world::sys::launch::overlay_request::ORDER_BYTES_MAX;
use crate::world::sys::sandbox::detach_from_parent;
use crate::world::sys::sandbox::overlay_namespace;
use crate::world::sys::sandbox::raw::{ForkHalf, fork_process, set_standard_streams};
use crate::world::sys::sandbox::refusal::SandboxRefusal;

/// The message that carries the handles on an overlay namespace.
const WORLD_IS_THERE: &[u8] = b"+";

/// What this process is when it stops being a fork server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkRole {
    /// A sandbox helper; its standard input is a socket to massgen.
    Helper,
    /// Not needed: massgen is gone.
    Nothing,
}

/// Forks a helper each time that massgen requests one, and returns in each helper.
pub(crate) fn run_fork_server() -> io::Result<ForkRole> {
    detach_from_parent()?;
    serve_requests(&stdin().as_fd().try_clone_to_owned()?)
}

/// Like [`run_fork_server`], in the overlay namespace that massgen requests.
pub(crate) fn run_overlay_fork_server() -> io::Result<ForkRole> {
    detach_from_parent()?;
    let massgen = stdin().as_fd().try_clone_to_owned()?;
    let mut order = vec![0; ORDER_BYTES_MAX];
    let (_, length) = retry_on_intr(|| recv(&massgen, &mut *order, RecvFlags::TRUNC))?;
    let order = order.get(..length).ok_or(io::ErrorKind::FileTooLarge)?;
    match overlay_namespace::enter_overlay(&serde_json::from_slice(order)?) {
        Ok(handles) => {
            let handles: Vec<BorrowedFd<'_>> = handles.iter().map(AsFd::as_fd).collect();
            send_message(&massgen, WORLD_IS_THERE, &handles)?;
        }
        Err(SandboxRefusal { step, why }) => {
            let said = format!("{step}: {why}").into_bytes();
            let said = said.get(..ANSWER_BYTES_MAX).unwrap_or(&said);
            send_message(&massgen, said, &[])?;
            return Ok(ForkRole::Nothing);
        }
    }
    serve_requests(&massgen)
}

fn serve_requests(massgen: &OwnedFd) -> io::Result<ForkRole> {
    let mut word = [0];
    while retry_on_intr(|| recv(massgen, &mut word, RecvFlags::empty()))?.1 > 0 {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (theirs, its) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        // A sibling, not a child: massgen waits for it, and it exits with massgen.
        match fork_process(libc::CLONE_PARENT)? {
            ForkHalf::Outer { pid, handle } => {
                let number = pid.as_raw_nonzero().get().to_ne_bytes();
                send_message(massgen, &number, &[handle.as_fd(), theirs.as_fd()])?;
            }
            ForkHalf::Inner => {
                let nothing = stdout();
                set_standard_streams([its.as_fd(), nothing.as_fd(), nothing.as_fd()])?;
                return Ok(ForkRole::Helper);
            }
        }
    }
    Ok(ForkRole::Nothing)
}

/// Waits until massgen has work for this process, and then sets up its streams and joins its
/// control groups. Returns whether there is work.
pub(crate) fn wait_for_work() -> io::Result<bool> {
    let Some((streams, doors)) = receive_handles(&stdin().as_fd().try_clone_to_owned()?)? else {
        return Ok(false);
    };
    for door in &doors {
        write(door, ITSELF)?;
    }
    set_standard_streams(streams.each_ref().map(AsFd::as_fd))?;
    Ok(true)
}

/// What a helper gets: its streams, and the files by which it joins its control groups.
type WorkHandles = ([OwnedFd; 3], Vec<OwnedFd>);

/// Receives the handles that massgen sends; `None` if it never will.
fn receive_handles(massgen: &OwnedFd) -> io::Result<Option<WorkHandles>> {
    let mut word = [0];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(HANDLES_MAX))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut word)];
        recvmsg(massgen, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut handed = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(handles) = message {
            handed.extend(handles);
        }
    }
    let mut handed = handed.into_iter();
    match (handed.next(), handed.next(), handed.next()) {
        (Some(input), Some(output), Some(errors)) => {
            Ok(Some(([input, output, errors], handed.collect())))
        }
        _ => Err(io::Error::other("a process has three streams")),
    }
}

fn send_message(massgen: &OwnedFd, what: &[u8], handles: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(HANDED_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !handles.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(handles)) {
        return Err(io::Error::other("too many handles for one message"));
    }
    let parts = [IoSlice::new(what)];
    retry_on_intr(|| sendmsg(massgen, &parts, &mut beside, SendFlags::NOSIGNAL))?;
    Ok(())
}
