//! Reads standard input to its end. This happens only if a lone `-` asks for it.

use std::io::Read;

use crate::cli::command_line::usage_error;
use crate::error::{Error, Result};

/// Maximum size of standard input, in bytes: more than any model or tool accepts.
pub(crate) const INPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The argument that means standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Reads all of `input` as text. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn read_text(input: impl Read) -> Result<String> {
    let limit = u64::try_from(INPUT_BYTES_MAX).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    input
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("cannot read standard input", error))?;
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(usage_error(format!(
            "standard input is longer than {INPUT_BYTES_MAX} bytes"
        ))
        .with_hint("shorten it, or mention a file: `Review @path/to/file`"));
    }
    // Only models read it, and a diff may be of files in another encoding.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
