//! Drives the sandbox helper with massgen's protocol, and finds processes that it may have left.

use std::borrow::Cow;
use std::fs;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use massgen::sandbox_policy::SandboxPolicy;
use massgen::sandbox_policy::helper_protocol::{
    FRAME_HEADER_BYTES, HelperReport, HelperRequestBody, encode_frame, frame_body_bytes,
};
use rustix::cmsg_space;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::project::binary;

/// Timeout of everything; what takes longer never happens.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// An ordinary user that every machine has: `nobody`.
pub(crate) const NOBODY: u32 = 65534;

/// A running helper.
pub(crate) struct RunningHelper {
    pub(crate) helper: Child,
    pub(crate) socket: UnixStream,
}

/// Outcome of a helper.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HelperOutcome {
    pub(crate) reports: Vec<HelperReport>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns the user that runs the tests.
pub(crate) fn own_user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

/// Starts a helper as `user`, and sends it its policy, and standard input for the program.
pub(crate) fn start(policy: &SandboxPolicy, user: u32, input: Option<&OwnedFd>) -> RunningHelper {
    let (socket, theirs) = UnixStream::pair().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new(binary());
    command
        .arg("__sandbox")
        .env_clear()
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if user != own_user() {
        command.uid(user).gid(user);
    }
    let helper = command.spawn().unwrap();
    let request = HelperRequestBody {
        policy: Cow::Borrowed(policy),
        restricted: None,
    };
    let frame = encode_frame(&request).unwrap();
    let handles: Vec<_> = input.iter().map(|input| input.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&handles));
    let flags = SendFlags::NOSIGNAL;
    let sent = sendmsg(&socket, &[IoSlice::new(&frame)], &mut beside, flags).unwrap();
    assert_eq!(sent, frame.len());
    RunningHelper { helper, socket }
}

impl RunningHelper {
    /// Returns the next report, with the file descriptor that came with it.
    pub(crate) fn report(&mut self) -> Option<(HelperReport, Option<OwnedFd>)> {
        let mut head = [0; FRAME_HEADER_BYTES];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut head)];
        let flags = RecvFlags::WAITALL;
        // Signals of other tests' children interrupt the call.
        let receive = || recvmsg(&self.socket, into, &mut beside, flags);
        let received = retry_on_intr(receive).unwrap();
        if received.bytes == 0 {
            return None;
        }
        let mut handle = None;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(mut handles) = message {
                handle = handles.next();
            }
        }
        let mut body = vec![0; frame_body_bytes(head).unwrap()];
        self.socket.read_exact(&mut body).unwrap();
        Some((serde_json::from_slice(&body).unwrap(), handle))
    }

    /// Waits until it has ended.
    pub(crate) fn end(mut self) -> HelperOutcome {
        let mut reports = Vec::new();
        while let Some((report, _)) = self.report() {
            reports.push(report);
        }
        let output = self.helper.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        HelperOutcome {
            reports,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Waits until the program has printed `word`.
    pub(crate) fn await_word(&mut self, word: &str) {
        let mut printed = vec![0; word.len()];
        let stdout = self.helper.stdout.as_mut().unwrap();
        stdout.read_exact(&mut printed).unwrap();
        assert_eq!(String::from_utf8(printed).unwrap(), word);
    }
}

/// Returns how many processes of the machine have `word` among their arguments.
pub(crate) fn processes_with(word: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let has_word = |line: &Vec<u8>| line.split(|byte| *byte == 0).any(|a| a == word.as_bytes());
    lines.filter(has_word).count()
}
