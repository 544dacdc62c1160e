//! The messages between massgen and the sandbox helper, and the framing that both use on the socket
//! between them: four bytes of length, little endian, followed by JSON.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::sandbox_policy::{RestrictedFiles, SandboxPolicy};

/// The longest frame, in bytes without its header.
pub const FRAME_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// The length of the header of a frame, in bytes.
pub const FRAME_HEADER_BYTES: usize = 4;

/// The only message to the helper. The standard input of its program is attached to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperRequestBody<'a> {
    /// Everything that its program may do.
    pub policy: Cow<'a, SandboxPolicy>,
    /// The settings that are hidden from the program; without them, the helper searches for them.
    pub restricted: Option<Cow<'a, RestrictedFiles>>,
}

/// A message to massgen. They are sent in this order, and `Refused` or `Ended` is the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelperReport {
    /// The sandbox listens for connections to the proxy; the listening socket is attached.
    Listening,
    /// The program is running.
    Started,
    /// The sandbox could not be built; the program never ran.
    Refused {
        /// The step that failed.
        step: String,
        /// The system's error message.
        reason: String,
    },
    /// The program has exited but left processes behind, which are now killed.
    LeftBehind,
    /// The program and every process that it started have exited.
    Ended {
        /// Its exit status, unless a signal killed it.
        code: Option<i32>,
        /// The signal that killed it.
        signal: Option<i32>,
    },
}

/// Encodes `value` as a frame; `None` if it is too long.
pub fn encode_frame(value: &impl Serialize) -> Option<Vec<u8>> {
    let body = serde_json::to_vec(value).ok()?;
    let length = u32::try_from(body.len()).ok()?;
    (length <= FRAME_BYTES_MAX).then(|| [&length.to_le_bytes(), body.as_slice()].concat())
}

/// Returns the length that the header of a frame gives for the rest, in bytes; `None` if it is too
/// long.
pub fn frame_body_bytes(header: [u8; FRAME_HEADER_BYTES]) -> Option<usize> {
    let length = u32::from_le_bytes(header);
    (length <= FRAME_BYTES_MAX)
        .then(|| usize::try_from(length).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_how_long_it_is() {
        let report = HelperReport::Refused {
            step: "making namespaces".to_owned(),
            reason: "Operation not permitted (os error 1)".to_owned(),
        };
        let frame = encode_frame(&report).unwrap();
        let (header, body) = frame.split_first_chunk().unwrap();
        assert_eq!(frame_body_bytes(*header), Some(body.len()));
        assert_eq!(
            serde_json::from_slice::<HelperReport>(body).unwrap(),
            report
        );
    }

    #[test]
    fn a_frame_has_an_end() {
        assert_eq!(
            frame_body_bytes(FRAME_BYTES_MAX.to_le_bytes()),
            Some(16 << 20)
        );
        assert_eq!(frame_body_bytes((FRAME_BYTES_MAX + 1).to_le_bytes()), None);
    }
}
