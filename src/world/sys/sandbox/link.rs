//! The socket pair between the supervisor of level `landlock` and the worker, before the worker
//! becomes the program: it passes the handle on which system calls arrive, or why there is no
//! program. The link closes by itself when the program takes over the process.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
};

use crate::world::sys::sandbox::refusal::SandboxRefusal;

/// The longest message, in bytes; a longer one is truncated.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Separates the step and the reason of a refusal.
const SEPARATOR: char = '\0';

/// One end of the link.
#[derive(Debug)]
pub(crate) struct WorkerLink(OwnedFd);

/// A message of the worker.
#[derive(Debug)]
pub(crate) enum WorkerMessage {
    /// Its system calls arrive on this handle.
    Listener(OwnedFd),
    /// It cannot become the program.
    Refused(SandboxRefusal),
    /// It is the program now, or has exited.
    Closed,
}

impl WorkerLink {
    /// Creates both ends.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (one, other) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Passes the handle on which calls arrive.
    pub(crate) fn send_listener(&self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let handles = [listener];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&handles));
        sendmsg(
            &self.0,
            &[IoSlice::new(b"calls")],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// Reports why there is no program.
    pub(crate) fn send_refusal(&self, refusal: &SandboxRefusal) -> io::Result<()> {
        let message = format!("{}{SEPARATOR}{}", refusal.step, refusal.reason);
        let message: Vec<u8> = message
            .into_bytes()
            .into_iter()
            .take(MESSAGE_BYTES_MAX)
            .collect();
        send(&self.0, &message, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for the next message of the other end.
    pub(crate) fn receive_message(&self) -> io::Result<WorkerMessage> {
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut message)];
        let received = recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for ancillary_message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut handles) = ancillary_message
                && let Some(listener) = handles.next()
            {
                return Ok(WorkerMessage::Listener(listener));
            }
        }
        message.truncate(received.bytes);
        if message.is_empty() {
            return Ok(WorkerMessage::Closed);
        }
        let message = String::from_utf8_lossy(&message);
        let (step, reason) = message.split_once(SEPARATOR).unwrap_or((&message, ""));
        Ok(WorkerMessage::Refused(SandboxRefusal {
            step: step.to_owned(),
            reason: reason.to_owned(),
        }))
    }
}

impl AsFd for WorkerLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
