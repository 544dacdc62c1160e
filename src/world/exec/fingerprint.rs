//! Fingerprints of files on disk, which are read through the gate like any other file.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

use sha2::{Digest, Sha256};

use crate::text::to_hex;
use crate::tools::call::{ToolCall, UserPath};
use crate::world::access::gate::{Action, Gate};
use crate::world::sys::content::FileContent;

/// The most bytes of all files of a delivery that are hashed, holes included: they cost an agent
/// nothing, and reading them takes as long as reading content.
pub const HASHED_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// The most of a file that is held in memory, in bytes.
const BLOCK_BYTES: usize = 64 * 1024;

/// Identifies the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentFingerprint {
    /// The SHA-256 of the content, in hexadecimal digits; `None` if it is too long.
    pub sha256: Option<String>,
    /// Its length, in bytes.
    pub bytes: u64,
}

/// Returns the fingerprint of the regular file at `path`; `None` if there is none, the path
/// contains a symlink, or the gate denies reading it. A file of more than `bytes_left` bytes is not
/// hashed; what is hashed is subtracted from it. Blocks on disk I/O.
pub fn fingerprint(gate: &Gate, path: &str, bytes_left: &mut u64) -> Option<ContentFingerprint> {
    let mut content = open_content(gate, path)?;
    let bytes = content.seek(SeekFrom::End(0)).ok()?;
    let sha256 = match bytes_left.checked_sub(bytes) {
        Some(rest) => {
            *bytes_left = rest;
            content.rewind().ok()?;
            Some(compute_sha256(content.take(bytes)).ok()?)
        }
        None => None,
    };
    Some(ContentFingerprint { sha256, bytes })
}

/// Opens the content of the regular file at `path`, if that is its real path.
pub(super) fn open_content(gate: &Gate, path: &str) -> Option<FileContent> {
    let call = ToolCall::GetFileInfo {
        path: UserPath::parse(path).ok()?,
    };
    let (action, _gate) = gate.check(call).ok()?.into_action();
    let Action::GetFileInfo {
        path: resolved_path,
    } = action
    else {
        return None;
    };
    let is_at_path = resolved_path.real().as_path().to_str() == Some(path);
    let (content, _) = resolved_path.open_file().ok()?;
    is_at_path.then_some(content)
}

fn compute_sha256(mut content: impl Read) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let read_bytes = match content.read(&mut block) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let Some(chunk) = block.get(..read_bytes).filter(|chunk| !chunk.is_empty()) else {
            return Ok(to_hex(&digest.finalize()));
        };
        digest.update(chunk);
    }
}
