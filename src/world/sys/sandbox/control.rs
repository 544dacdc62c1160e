//! The helper's end of the control socket to massgen: it receives one request and sends reports. If
//! the other end is closed, the program is no longer wanted.

use std::borrow::Cow;
use std::io::{self, IoSlice, IoSliceMut, stdin};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};

use crate::sandbox_policy::RestrictedFiles;
use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::helper_protocol::{
    FRAME_HEADER_BYTES, HelperReport, HelperRequestBody, encode_frame, frame_body_bytes,
};

/// The socket to massgen.
#[derive(Debug)]
pub(crate) struct ParentSocket(OwnedFd);

/// A request from massgen, with the handle that was attached to it.
#[derive(Debug)]
pub(crate) struct HelperRequest {
    /// The program and everything that it may do.
    pub(crate) policy: SandboxPolicy,
    /// The settings that are hidden from the program, if massgen has searched for them.
    pub(crate) restricted_files: Option<RestrictedFiles>,
    /// The program's standard input; none if absent.
    pub(crate) input: Option<OwnedFd>,
}

impl ParentSocket {
    /// Takes the socket that the process was started with as its standard input.
    pub(crate) fn from_stdin() -> io::Result<Self> {
        Ok(Self(stdin().as_fd().try_clone_to_owned()?))
    }

    /// Duplicates the socket.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Waits for the request.
    pub(crate) fn receive_request(&self) -> io::Result<HelperRequest> {
        let mut header = [0; FRAME_HEADER_BYTES];
        let input = self.receive_header(&mut header)?;
        let length =
            frame_body_bytes(header).ok_or_else(|| io::Error::other("the request is too long"))?;
        let mut body = vec![0; length];
        let mut unfilled = body.as_mut_slice();
        while !unfilled.is_empty() {
            let (_, bytes_received) = recv(&self.0, &mut *unfilled, RecvFlags::WAITALL)?;
            unfilled = match unfilled.split_at_mut_checked(bytes_received) {
                Some((_, rest)) if bytes_received > 0 => rest,
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        let request_body: HelperRequestBody<'_> = serde_json::from_slice(&body)?;
        Ok(HelperRequest {
            policy: request_body.policy.into_owned(),
            restricted_files: request_body.restricted.map(Cow::into_owned),
            input,
        })
    }

    fn receive_header(&self, header: &mut [u8; FRAME_HEADER_BYTES]) -> io::Result<Option<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::WAITALL | RecvFlags::CMSG_CLOEXEC;
        let message = recvmsg(
            &self.0,
            &mut [IoSliceMut::new(header)],
            &mut ancillary,
            flags,
        )?;
        if message.bytes != FRAME_HEADER_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut handles) = message {
                return Ok(handles.next());
            }
        }
        Ok(None)
    }

    /// Sends a report to massgen.
    pub(crate) fn send_report(&self, report: &HelperReport) -> io::Result<()> {
        self.send_frame(&encode_report(report)?)
    }

    /// Sends massgen a report that is encoded as a frame already.
    pub(crate) fn send_frame(&self, mut frame: &[u8]) -> io::Result<()> {
        while !frame.is_empty() {
            let bytes_sent = send(&self.0, frame, SendFlags::NOSIGNAL)?;
            frame = frame.get(bytes_sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends a report to massgen and passes `handle` with it.
    pub(crate) fn send_report_with_handle(
        &self,
        report: &HelperReport,
        handle: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let frame = encode_report(report)?;
        let handles = [handle];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&handles));
        let flags = SendFlags::NOSIGNAL;
        let bytes_sent = sendmsg(&self.0, &[IoSlice::new(&frame)], &mut ancillary, flags)?;
        self.send_frame(frame.get(bytes_sent..).unwrap_or_default())
    }
}

impl AsFd for ParentSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Encodes `report` as a frame.
pub(crate) fn encode_report(report: &HelperReport) -> io::Result<Vec<u8>> {
    encode_frame(report).ok_or_else(|| io::Error::other("the report is too long"))
}
