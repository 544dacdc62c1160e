//! massgen's end of the control socket to a sandbox helper: one request is sent, reports are
//! received. Closing this end makes the helper kill everything and exit.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::Instant;

use rustix::cmsg_space;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown,
    socketpair,
};

use crate::sandbox_policy::helper_protocol::{
    HelperReport, HelperRequestBody, encode_frame, frame_body_bytes,
};
use crate::world::sys::launch::poll::{WaitInterest, wait_ready};

/// The size of the receive buffer, in bytes; reports are short.
const BUFFER_BYTES: usize = 4096;
/// The longest report that is accepted, in bytes.
const REPORT_BYTES_MAX: usize = 64 * 1024;

/// The control socket to a sandbox helper.
#[derive(Debug)]
pub(crate) struct HelperSocket {
    socket: OwnedFd,
    /// Received bytes that were not parsed yet.
    unparsed_bytes: Vec<u8>,
    /// Received handles that belong to reports which are not parsed yet.
    handles: VecDeque<OwnedFd>,
}

/// The result of reading from the socket.
#[derive(Debug)]
pub(crate) enum HelperMessage {
    /// The helper reports something.
    Report(HelperReport),
    /// It passes the socket that listens in the sandbox for connections to massgen's proxy.
    ProxyListener(OwnedFd),
    /// Nothing at the moment.
    NotReady,
    /// Nothing will ever come again.
    Closed,
}

impl HelperSocket {
    /// Creates a socket pair, and returns massgen's end and the helper's.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (socket, helper_end) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let control = Self {
            socket,
            unparsed_bytes: Vec::new(),
            handles: VecDeque::new(),
        };
        Ok((control, helper_end))
    }

    /// Sends the request, and the handle that the program reads as its standard input. A helper
    /// that accepts no data until the deadline is given up.
    pub(crate) fn send_request(
        &self,
        request: &HelperRequestBody<'_>,
        input: Option<BorrowedFd<'_>>,
        deadline: Instant,
    ) -> io::Result<()> {
        let too_long_error = || io::Error::other("the sandbox policy is too long to be sent");
        let frame = encode_frame(request).ok_or_else(too_long_error)?;
        let mut unsent = frame.as_slice();
        let mut input = input;
        while !unsent.is_empty() {
            match self.send(unsent, input) {
                Ok(sent_bytes) => {
                    unsent = unsent.get(sent_bytes..).unwrap_or_default();
                    input = None;
                }
                Err(Errno::AGAIN) => self.wait_until_writable(deadline)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn send(&self, bytes: &[u8], handle: Option<BorrowedFd<'_>>) -> rustix::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let handles: Vec<BorrowedFd<'_>> = handle.into_iter().collect();
        if !handles.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&handles));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut ancillary, flags)
    }

    fn wait_until_writable(&self, deadline: Instant) -> io::Result<()> {
        if Instant::now() >= deadline {
            let message = "the process that builds the sandbox does not listen";
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        wait_ready(
            &[Some((self.as_fd(), WaitInterest::Writable))],
            Some(deadline),
        )
        .map(drop)
    }

    /// Returns the next message of the helper, without waiting for it.
    pub(crate) fn receive_message(&mut self) -> io::Result<HelperMessage> {
        loop {
            if let Some(report) = self.take_report()? {
                return match report {
                    HelperReport::Listening => {
                        let listener = self.handles.pop_front();
                        let missing_listener =
                            || io::Error::other("the sandbox's listener is missing");
                        listener
                            .map(HelperMessage::ProxyListener)
                            .ok_or_else(missing_listener)
                    }
                    report @ (HelperReport::Started
                    | HelperReport::Refused { .. }
                    | HelperReport::LeftBehind
                    | HelperReport::Ended { .. }) => Ok(HelperMessage::Report(report)),
                };
            }
            match self.receive() {
                Ok(0) | Err(Errno::CONNRESET) => return Ok(HelperMessage::Closed),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(HelperMessage::NotReady),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive(&mut self) -> rustix::io::Result<usize> {
        let mut buffer = [0; BUFFER_BYTES];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let count = recvmsg(&self.socket, &mut parts, &mut ancillary, flags)?.bytes;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(handles) = message {
                self.handles.extend(handles);
            }
        }
        let bytes = buffer.get(..count).unwrap_or_default();
        self.unparsed_bytes.extend_from_slice(bytes);
        Ok(count)
    }

    /// Returns the first received report, if it is complete.
    fn take_report(&mut self) -> io::Result<Option<HelperReport>> {
        let Some((header, rest)) = self.unparsed_bytes.split_first_chunk() else {
            return Ok(None);
        };
        let length = frame_body_bytes(*header).filter(|length| *length <= REPORT_BYTES_MAX);
        let length = length.ok_or_else(|| io::Error::other("a report is too long"))?;
        let Some((body, rest)) = rest.split_at_checked(length) else {
            return Ok(None);
        };
        let report = serde_json::from_slice(body)?;
        self.unparsed_bytes = rest.to_vec();
        Ok(Some(report))
    }

    /// Makes the helper kill everything and exit. What it still reports can be received.
    pub(crate) fn close(&self) {
        // If the other end is gone already, there is no helper to stop.
        shutdown(&self.socket, Shutdown::Write).unwrap_or_default();
    }
}

impl AsFd for HelperSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::net::send;

    use super::*;

    fn put(socket: &OwnedFd, bytes: &[u8]) {
        assert_eq!(send(socket, bytes, SendFlags::empty()), Ok(bytes.len()));
    }

    #[test]
    fn reports_are_received_when_they_are_complete() {
        let (mut control, helper_end) = HelperSocket::pair().unwrap();
        assert!(matches!(
            control.receive_message().unwrap(),
            HelperMessage::NotReady
        ));
        let frame = encode_frame(&HelperReport::Started).unwrap();
        let (first, second) = frame.split_at(6);
        put(&helper_end, first);
        assert!(matches!(
            control.receive_message().unwrap(),
            HelperMessage::NotReady
        ));
        put(&helper_end, &[second, &frame].concat());
        for _ in 0..2 {
            let message = control.receive_message().unwrap();
            assert!(
                matches!(message, HelperMessage::Report(HelperReport::Started)),
                "{message:?}"
            );
        }
        assert!(matches!(
            control.receive_message().unwrap(),
            HelperMessage::NotReady
        ));
        drop(helper_end);
        // A process that another test is starting has a copy of the socket until it is executed.
        let is_closed = (0..24_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            matches!(control.receive_message().unwrap(), HelperMessage::Closed)
        });
        assert!(is_closed);
    }

    #[test]
    fn a_listener_comes_with_its_report() {
        let (mut control, helper_end) = HelperSocket::pair().unwrap();
        let listening = encode_frame(&HelperReport::Listening).unwrap();
        let other = HelperSocket {
            socket: helper_end,
            unparsed_bytes: Vec::new(),
            handles: VecDeque::new(),
        };
        let input = std::io::stdin();
        assert_eq!(
            other.send(&listening, Some(input.as_fd())),
            Ok(listening.len())
        );
        assert!(matches!(
            control.receive_message().unwrap(),
            HelperMessage::ProxyListener(_)
        ));
        put(&other.socket, &listening);
        assert!(control.receive_message().is_err());
    }

    #[test]
    fn nonsense_is_an_error() {
        let (mut control, helper_end) = HelperSocket::pair().unwrap();
        put(&helper_end, &u32::MAX.to_le_bytes());
        assert!(control.receive_message().is_err());
        let (mut control, helper_end) = HelperSocket::pair().unwrap();
        put(&helper_end, b"\x02\0\0\0{}");
        assert!(control.receive_message().is_err());
    }

    #[test]
    fn sending_to_a_peer_that_reads_nothing_times_out() {
        let (control, _theirs) = HelperSocket::pair().unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        let filled = std::iter::repeat_with(|| control.send(&[0; 4096], None));
        let full_error = filled.take(1000).find_map(Result::err);
        assert_eq!(full_error, Some(Errno::AGAIN));
        let error = control
            .wait_until_writable(soon)
            .and_then(|()| control.wait_until_writable(soon));
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
