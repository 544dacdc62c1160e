//! Owns the stem (`massgen __stem`): a process that stands ready, and of which one after the other
//! is split off that builds a sandbox. It must stay as it began: it learns nothing about a sandbox,
//! keeps no handle of one, and has one thread.

use std::io::{self, IoSlice, IoSliceMut, stdin};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{retry_on_intr, write};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::Pid;

use crate::world::sys::cgroup::ITSELF;
use crate::world::sys::launch::stem::HANDLES_MAX;
use crate::world::sys::sandbox::part_with_massgen;
use crate::world::sys::sandbox::raw::{Half, become_streams, split};

/// What this process is when it stops being a stem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    /// One that builds a sandbox; its standard streams are its own.
    Helper,
    /// Nothing: massgen is gone.
    Nothing,
}

/// Splits off a process each time that massgen asks for one, and returns in each of these.
pub(crate) fn stand() -> io::Result<Became> {
    part_with_massgen()?;
    let massgen = stdin().as_fd().try_clone_to_owned()?;
    while let Some((streams, doors)) = wanted(&massgen)? {
        // A sibling, not a child: massgen waits for it, and it ends with massgen.
        match split(libc::CLONE_PARENT)? {
            Half::Outer { pid, handle } => hand_over(&massgen, pid, &handle)?,
            Half::Inner => {
                for door in &doors {
                    write(door, ITSELF)?;
                }
                become_streams(streams.each_ref().map(AsFd::as_fd))?;
                return Ok(Became::Helper);
            }
        }
    }
    Ok(Became::Nothing)
}

/// What a process gets: its streams, and what it enters its control groups by.
type Handles = ([OwnedFd; 3], Vec<OwnedFd>);

/// The handles of the next process; `None` at the end of massgen.
fn wanted(massgen: &OwnedFd) -> io::Result<Option<Handles>> {
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

/// Tells massgen the number of the new process, and gives it the handle.
fn hand_over(massgen: &OwnedFd, pid: Pid, handle: &OwnedFd) -> io::Result<()> {
    let number = pid.as_raw_nonzero().get().to_ne_bytes();
    let handles = [handle.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&handles));
    let parts = [IoSlice::new(&number)];
    retry_on_intr(|| sendmsg(massgen, &parts, &mut beside, SendFlags::NOSIGNAL))?;
    Ok(())
}
