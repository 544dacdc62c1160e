//! Owns the stem (`massgen __stem`): a process that stands ready, and of which one after the other
//! is split off that builds a sandbox. It must stay as it began: it learns nothing about a sandbox,
//! keeps no handle of one, and has one thread. One for a stage (`massgen __stage`) makes a staged
//! world before it stands ready, so that all that are split off from it live there.

use std::io::{self, IoSlice, IoSliceMut, stdin};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{retry_on_intr, write};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};
use rustix::process::Pid;

use crate::world::sys::cgroup::ITSELF;
use crate::world::sys::launch::staging::ORDER_BYTES_MAX;
use crate::world::sys::launch::stem::{ANSWER_BYTES_MAX, HANDED_MAX, HANDLES_MAX};
use crate::world::sys::sandbox::part_with_massgen;
use crate::world::sys::sandbox::raw::{Half, become_streams, split};
use crate::world::sys::sandbox::refusal::Refusal;
use crate::world::sys::sandbox::staged_world;

/// What is said with the handles of a staged world.
const WORLD_IS_THERE: &[u8] = b"+";

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
    serve(&stdin().as_fd().try_clone_to_owned()?)
}

/// As [`stand`], in the staged world that massgen orders.
pub(crate) fn stand_on_stage() -> io::Result<Became> {
    part_with_massgen()?;
    let massgen = stdin().as_fd().try_clone_to_owned()?;
    let mut order = vec![0; ORDER_BYTES_MAX];
    let (_, length) = retry_on_intr(|| recv(&massgen, &mut *order, RecvFlags::TRUNC))?;
    let order = order.get(..length).ok_or(io::ErrorKind::FileTooLarge)?;
    match staged_world::enter(&serde_json::from_slice(order)?) {
        Ok(handles) => {
            let handles: Vec<BorrowedFd<'_>> = handles.iter().map(AsFd::as_fd).collect();
            say(&massgen, WORLD_IS_THERE, &handles)?;
        }
        Err(Refusal { step, why }) => {
            let said = format!("{step}: {why}").into_bytes();
            let said = said.get(..ANSWER_BYTES_MAX).unwrap_or(&said);
            say(&massgen, said, &[])?;
            return Ok(Became::Nothing);
        }
    }
    serve(&massgen)
}

fn serve(massgen: &OwnedFd) -> io::Result<Became> {
    while let Some((streams, doors)) = wanted(massgen)? {
        // A sibling, not a child: massgen waits for it, and it ends with massgen.
        match split(libc::CLONE_PARENT)? {
            Half::Outer { pid, handle } => hand_over(massgen, pid, &handle)?,
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
    say(massgen, &number, &[handle.as_fd()])
}

fn say(massgen: &OwnedFd, what: &[u8], handles: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(HANDED_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !handles.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(handles)) {
        return Err(io::Error::other("too many handles for one message"));
    }
    let parts = [IoSlice::new(what)];
    retry_on_intr(|| sendmsg(massgen, &parts, &mut beside, SendFlags::NOSIGNAL))?;
    Ok(())
}
