//! Parent side of the fork server, the pre-forked process that sandbox helpers are forked from.
//! massgen is a big program, and starting it for each command takes longer than building a sandbox;
//! the fork server is already running. It never learns what the helpers are to do. One helper is
//! forked ahead and waits, so that no command waits for the fork either; the next one is forked
//! once that helper has started its program, which nothing may delay.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::path::AbsPath;
use crate::world::sys::launch::overlay_request::{OverlayRequest, ROOTS_MAX};
use crate::world::sys::launch::poll::{WaitInterest, wait_ready};
use crate::world::sys::launch::process::ChildProcess;
use crate::world::sys::process;

/// The argument that makes massgen a fork server.
const FORK_SERVER_ARGUMENT: &str = "__fork_server";
/// The most handles that a helper gets: its streams, and the files by which it joins control
/// groups.
pub(crate) const HANDLES_MAX: usize = 8;
/// The most handles that a fork server passes in one message: one for the root directory of an
/// overlay namespace, and one per overlaid directory.
pub(crate) const OVERLAY_HANDLES_MAX: usize = ROOTS_MAX + 1;
/// The longest answer of a fork server, in bytes: why an overlay namespace could not be created.
pub(crate) const ANSWER_BYTES_MAX: usize = 4096;
/// How many helpers in a row may prove dead when they are assigned work, because another process
/// killed them while they stood by.
const DEAD_HELPERS_MAX: usize = 3;
/// The message that asks a fork server for a helper.
const HELPER_REQUEST: &[u8] = b"+";
/// The message that assigns a command to a helper; it carries the handles for that.
const COMMAND_WORK: u8 = b'+';
/// The message that makes a helper the fork server of an overlay namespace; it carries the socket
/// to massgen.
pub(crate) const OVERLAY_WORK: u8 = b'o';
/// How long a fork server may take to answer, including its own start.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

/// The streams of a new helper, and the control groups that it joins.
#[derive(Debug)]
pub(crate) struct HelperStreams {
    /// Its standard input.
    pub(crate) stdin: OwnedFd,
    /// Its standard output.
    pub(crate) stdout: OwnedFd,
    /// Its standard error.
    pub(crate) stderr: OwnedFd,
    /// The files by which it joins the control groups that limit it, before anything else.
    pub(crate) cgroup_handles: Vec<OwnedFd>,
}

/// A fork server. It is killed on drop; helpers that have work continue.
#[derive(Debug)]
pub(crate) struct ForkServer {
    process: ChildProcess,
    socket: OwnedFd,
    /// Whether a helper was requested that has not been taken yet.
    is_standby_requested: bool,
}

impl ForkServer {
    /// Starts a fork server with an empty environment. This must not copy massgen's memory: the
    /// standard library uses `posix_spawn` as long as the program is an absolute path and nothing
    /// is to be done in the child.
    pub(crate) fn start(executable: &AbsPath) -> io::Result<Self> {
        let (socket, server_end) = message_pair()?;
        let no_variables: [(&str, &str); 0] = [];
        let process = process::with_environment(executable, no_variables)
            .arg(FORK_SERVER_ARGUMENT)
            .stdin(Stdio::from(server_end))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pid = Pid::from_child(&process);
        let mut server = Self {
            process: ChildProcess::new(pid, pidfd_open(pid, PidfdFlags::empty())?),
            socket,
            is_standby_requested: false,
        };
        server.request_standby()?;
        Ok(server)
    }

    /// Forks a fork server for an overlay namespace, which it
    /// [has yet to create](Self::enter_overlay).
    pub(crate) fn fork_overlay_server(&mut self) -> io::Result<Self> {
        let (socket, server_end) = message_pair()?;
        let process = self.assign_work(OVERLAY_WORK, &[server_end.as_fd()])?;
        Ok(Self {
            process,
            socket,
            is_standby_requested: false,
        })
    }

    /// Has it create an overlay namespace, in which it and all its helpers live from then on. The
    /// returned handles are on the root directory of that namespace, and on its overlaid
    /// directories in order.
    pub(crate) fn enter_overlay(&mut self, request: &OverlayRequest) -> io::Result<Vec<OwnedFd>> {
        let request = serde_json::to_vec(request)?;
        let mut no_handles = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(
            &self.socket,
            &[IoSlice::new(&request)],
            &mut no_handles,
            flags,
        )?;
        let mut answer = [0; ANSWER_BYTES_MAX];
        let (length, handles) =
            self.receive_answer(&mut answer, Instant::now() + ANSWER_TIME_MAX)?;
        if handles.is_empty() {
            let message = answer.get(..length).unwrap_or_default();
            return Err(io::Error::other(
                String::from_utf8_lossy(message).into_owned(),
            ));
        }
        self.request_standby()?;
        Ok(handles)
    }

    /// Returns a helper that builds a sandbox, on these streams. It is a child of massgen.
    pub(crate) fn fork_helper(&mut self, streams: &HelperStreams) -> io::Result<ChildProcess> {
        let handles = [&streams.stdin, &streams.stdout, &streams.stderr]
            .into_iter()
            .chain(&streams.cgroup_handles)
            .map(AsFd::as_fd);
        self.assign_work(COMMAND_WORK, &handles.collect::<Vec<_>>())
    }

    /// Returns a helper to which this work was assigned. It is a child of massgen.
    fn assign_work(&mut self, kind: u8, handles: &[BorrowedFd<'_>]) -> io::Result<ChildProcess> {
        let mut assign_result = Err(io::ErrorKind::BrokenPipe.into());
        for _ in 0..DEAD_HELPERS_MAX {
            self.request_standby()?;
            let standby = self.take_standby(Instant::now() + ANSWER_TIME_MAX)?;
            self.is_standby_requested = false;
            assign_result = standby.assign_work(kind, handles);
            if assign_result.is_ok() {
                break;
            }
        }
        assign_result
    }

    /// Requests a standby helper unless one was requested already. A dead fork server is detected
    /// when the helper is needed.
    pub(crate) fn request_standby(&mut self) -> io::Result<()> {
        if !self.is_standby_requested {
            let mut no_handles = SendAncillaryBuffer::default();
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            sendmsg(
                &self.socket,
                &[IoSlice::new(HELPER_REQUEST)],
                &mut no_handles,
                flags,
            )?;
            self.is_standby_requested = true;
        }
        Ok(())
    }

    /// Takes the helper that was requested and not taken yet.
    fn take_standby(&self, deadline: Instant) -> io::Result<StandbyProcess> {
        let mut pid_bytes = [0; size_of::<i32>()];
        let (_, handles) = self.receive_answer(&mut pid_bytes, deadline)?;
        let mut handles = handles.into_iter();
        match (
            Pid::from_raw(i32::from_ne_bytes(pid_bytes)),
            handles.next(),
            handles.next(),
        ) {
            (Some(pid), Some(pidfd), Some(socket)) => Ok(StandbyProcess {
                process: ChildProcess::new(pid, pidfd),
                socket,
            }),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Waits for an answer; returns its length in bytes and the handles that come with it.
    fn receive_answer(
        &self,
        buffer: &mut [u8],
        deadline: Instant,
    ) -> io::Result<(usize, Vec<OwnedFd>)> {
        let readiness = wait_ready(
            &[Some((self.socket.as_fd(), WaitInterest::Readable))],
            Some(deadline),
        )?;
        if readiness != [true] {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(OVERLAY_HANDLES_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let message = retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(buffer)];
            recvmsg(&self.socket, &mut parts, &mut ancillary, flags)
        })?;
        let mut handles = Vec::new();
        for ancillary_message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received_handles) = ancillary_message {
                handles.extend(received_handles);
            }
        }
        Ok((message.bytes, handles))
    }
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        // Helpers that have work continue, even one that is still in its process group.
        self.process.kill_alone();
        self.process.wait().unwrap_or_default();
        // From here on, nothing is added to what it has sent.
        while let Ok(standby) = self.take_standby(Instant::now()) {
            standby.terminate();
        }
    }
}

/// A helper that waits for its work.
#[derive(Debug)]
struct StandbyProcess {
    process: ChildProcess,
    socket: OwnedFd,
}

impl StandbyProcess {
    /// Sends it its work, with the handles for that.
    fn assign_work(self, kind: u8, handles: &[BorrowedFd<'_>]) -> io::Result<ChildProcess> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(HANDLES_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(handles)) {
            self.terminate();
            return Err(io::Error::other("a process gets too many handles"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(
            &self.socket,
            &[IoSlice::new(&[kind])],
            &mut ancillary,
            flags,
        ) {
            Ok(_) => Ok(self.process),
            Err(error) => {
                self.terminate();
                Err(error.into())
            }
        }
    }

    /// Kills it.
    fn terminate(mut self) {
        self.process.kill_and_wait();
    }
}

/// Creates a pair of sockets that keep the boundaries of messages.
fn message_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(socketpair(AddressFamily::UNIX, kind, flags, None)?)
}
