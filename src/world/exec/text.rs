//! Reads files as text: which lines, how much, and which files are not text at all.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::prompts::untrusted_text::{escape_notes, note};
use crate::text::name_spelling::to_readable_text;
use crate::tools::call::LineRange;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::tool_result::ToolError;
use crate::world::sandbox::output::{character_tail_len, complete_characters_len};
use crate::world::sys::content::FileContent;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;

/// The most bytes that are skipped to find a line.
const SCAN_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The byte order mark, which some editors put before UTF-8 text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// By how many bytes the escape of a byte is longer than the byte.
const ESCAPE_EXCESS: usize = "\\xNN".len() - 1;

/// Why a file with NUL bytes is not read.
const HAS_NUL: TextReadError = TextReadError::Binary("a binary file (it holds NUL bytes)");

/// Suffixes of files that are never text, and what such files are.
const BINARY_SUFFIXES: &[(&str, &[&str])] = &[
    (
        "an image",
        &[
            "jpg", "jpeg", "png", "gif", "bmp", "ico", "webp", "tiff", "tif",
        ],
    ),
    (
        "a video",
        &[
            "mp4", "avi", "mov", "mkv", "flv", "wmv", "webm", "m4v", "mpg", "mpeg",
        ],
    ),
    (
        "a sound",
        &["mp3", "wav", "ogg", "flac", "aac", "m4a", "wma"],
    ),
    (
        "an archive",
        &["zip", "tar", "gz", "bz2", "7z", "rar", "xz", "zst", "jar"],
    ),
    (
        "an office document",
        &["doc", "xls", "ppt", "pdf", "docx", "xlsx", "pptx"],
    ),
    (
        "a compiled or binary file",
        &[
            "exe", "bin", "dll", "so", "dylib", "o", "a", "pyc", "pyo", "class", "wasm", "db",
            "sqlite", "sqlite3",
        ],
    ),
];

/// Why a file cannot be read as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TextReadError {
    /// Its name or its content shows that it is binary.
    #[error(
        "it is {0}, not text; get_file_info tells its size and type, and copy_file or move_file \
         take it as it is"
    )]
    Binary(&'static str),
    /// It is text in another encoding than UTF-8.
    #[error(
        "it is text in another encoding than UTF-8; a command can change it, such as `sed -i`, or \
         convert it: `iconv -f latin1 -t utf-8`"
    )]
    OtherEncoding,
    /// The requested line is past the end.
    #[error("it has only {lines} lines")]
    BeyondTheEnd {
        /// The number of lines in the file.
        lines: u64,
    },
    /// It is too long to be read as a whole.
    #[error("it is longer than the {bytes_max} bytes that this tool takes")]
    TooLong {
        /// The most bytes that the tool reads.
        bytes_max: usize,
    },
    /// The file system returned an error.
    #[error("{0}")]
    Disk(#[from] FileSystemError),
}

impl From<std::io::Error> for TextReadError {
    fn from(error: std::io::Error) -> Self {
        TextReadError::Disk(error.into())
    }
}

/// What was read of a file.
#[derive(Debug)]
pub(super) struct ReadText {
    /// The text.
    pub(super) text: String,
    /// Notes about it.
    pub(super) notes: String,
    /// Whether the file is UTF-8, so that the text can be written back.
    pub(super) is_utf8: bool,
}

impl ReadText {
    /// Returns the lines with their numbers, the first of which is `first`, and the notes.
    pub(super) fn numbered(&self, first: u64) -> String {
        let mut lines = String::new();
        for (number, line) in (first..).zip(self.text.split_inclusive('\n')) {
            let _written = write!(lines, "{number}\t{line}");
        }
        lines + &self.notes
    }
}

/// Returns the requested lines, up to `bytes_max`; a note says what was cut.
pub(super) fn read_lines(
    file: FileContent,
    name: &Path,
    lines: LineRange,
    size_bytes: u64,
    bytes_max: usize,
) -> Result<ReadText, TextReadError> {
    if let Some(kind) = binary_kind(name) {
        return Err(TextReadError::Binary(kind));
    }
    let mut read = match lines {
        LineRange::All => read_range(file, 1, None, bytes_max),
        LineRange::Head(lines) => read_range(file, 1, Some(lines), bytes_max),
        LineRange::Range { first, last } => read_range(file, first, last, bytes_max),
        LineRange::Tail(lines) => read_tail(file, lines, size_bytes, bytes_max),
    }?;
    read.text = strip_byte_order_mark(&read.text).to_owned();
    if !read.is_utf8 {
        let encoding_note = note("it is not UTF-8; bytes that are not are shown as \\xNN");
        let _written = writeln!(read.notes, "\n{encoding_note}");
    }
    Ok(read)
}

/// Strips a byte order mark, which a model does not need to see.
pub(super) fn strip_byte_order_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Reads a file that is only useful as a whole, such as one that is edited; a byte order mark is
/// kept.
pub(super) fn read_whole(
    file: FileContent,
    name: &Path,
    bytes_max: usize,
) -> Result<String, TextReadError> {
    if let Some(kind) = binary_kind(name) {
        return Err(TextReadError::Binary(kind));
    }
    let bytes = read_bounded(file, bytes_max)?;
    if bytes.len() > bytes_max {
        return Err(TextReadError::TooLong { bytes_max });
    }
    decode(bytes)
}

/// Opens and reads a file as [`read_whole`] does, to do `action` with it.
pub(super) fn open_whole(
    gate: &Gate,
    action: &str,
    path: &ResolvedPath,
    bytes_max: usize,
) -> Result<(String, FileMetadata), ToolError> {
    let read = || -> Result<_, TextReadError> {
        let (file, meta) = path.open_file()?;
        Ok((read_whole(file, path.real().as_path(), bytes_max)?, meta))
    };
    read().map_err(|error| ToolError::failed_at(gate, action, path, error))
}

fn binary_kind(name: &Path) -> Option<&'static str> {
    let extension = name.extension()?.to_str()?.to_ascii_lowercase();
    BINARY_SUFFIXES
        .iter()
        .find(|(_, suffixes)| suffixes.contains(&extension.as_str()))
        .map(|(kind, _)| *kind)
}

/// Whether more bytes follow those that were read; if so, the last ones may be only a part of a
/// character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RemainingBytes {
    Nothing,
    Something,
}

/// Decodes UTF-8 text.
fn decode(bytes: Vec<u8>) -> Result<String, TextReadError> {
    if bytes.contains(&0) {
        return Err(HAS_NUL);
    }
    String::from_utf8(bytes).map_err(|_| TextReadError::OtherEncoding)
}

/// Decodes text for a model that only reads it: bytes that are not UTF-8 are escaped, and UTF-16 is
/// recognized by its byte order mark. Anything that looks like a note from massgen is escaped too.
fn decode_to_show(
    mut bytes: Vec<u8>,
    remaining: RemainingBytes,
) -> Result<ReadText, TextReadError> {
    if remaining == RemainingBytes::Something {
        bytes.truncate(complete_characters_len(&bytes));
    }
    let (text, is_utf8) = match decode_utf16(&bytes) {
        Some(text) => (text, false),
        None if bytes.contains(&0) => return Err(HAS_NUL),
        None => {
            let text = to_readable_text(&bytes);
            let escaped_bytes = text.len().saturating_sub(bytes.len()) / ESCAPE_EXCESS;
            // Hardly anything would be readable.
            if escaped_bytes > bytes.len() / 3 {
                return Err(TextReadError::OtherEncoding);
            }
            (text, escaped_bytes == 0)
        }
    };
    Ok(ReadText {
        text: escape_notes(&text).into_owned(),
        notes: String::new(),
        is_utf8,
    })
}

/// Decodes UTF-16 with a byte order mark; `None` if there is none.
fn decode_utf16(bytes: &[u8]) -> Option<String> {
    let (unit, units): (fn([u8; 2]) -> u16, _) = match bytes {
        [0xff, 0xfe, units @ ..] => (u16::from_le_bytes, units),
        [0xfe, 0xff, units @ ..] => (u16::from_be_bytes, units),
        _ => return None,
    };
    let units = units.as_chunks().0.iter().copied().map(unit);
    let chars = char::decode_utf16(units);
    Some(
        chars
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect(),
    )
}

/// Reads up to one byte more than `bytes_max`, so that the caller sees whether something is left.
fn read_bounded(file: impl Read, bytes_max: usize) -> Result<Vec<u8>, TextReadError> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_range(
    file: FileContent,
    first: u64,
    last: Option<u64>,
    bytes_max: usize,
) -> Result<ReadText, TextReadError> {
    let mut file = BufReader::new(file);
    skip_lines(&mut file, first.saturating_sub(1))?;
    let mut bytes = read_bounded(file, bytes_max)?;
    let line_count = last.map_or(u64::MAX, |last| {
        last.saturating_sub(first.saturating_sub(1))
    });
    if let Some(end) = end_of_line(&bytes, line_count) {
        bytes.truncate(end);
    }
    if bytes.len() <= bytes_max {
        return decode_to_show(bytes, RemainingBytes::Nothing);
    }
    let whole_lines = bytes.iter().rposition(|byte| *byte == b'\n');
    bytes.truncate(whole_lines.map_or(bytes_max, |newline| newline + 1));
    let mut read = decode_to_show(bytes, RemainingBytes::Something)?;
    let shown_lines = u64::try_from(read.text.matches('\n').count()).unwrap_or(u64::MAX);
    let next_line = first.saturating_add(shown_lines);
    let _written = if whole_lines.is_some() {
        let cut_note = format_args!("cut after {bytes_max} bytes: continue with line {next_line}");
        writeln!(read.notes, "{}", note(cut_note))
    } else {
        let cut_note = format_args!("cut: line {first} is longer than {bytes_max} bytes");
        writeln!(read.notes, "\n{}", note(cut_note))
    };
    Ok(read)
}

/// Returns where the line with this number, from 1, ends in `bytes`, if it ends there; for line 0,
/// the beginning.
fn end_of_line(bytes: &[u8], number: u64) -> Option<usize> {
    let index = usize::try_from(number).ok()?.checked_sub(1);
    let newlines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    match index {
        Some(index) => newlines.map(|(at, _)| at + 1).nth(index),
        None => Some(0),
    }
}

fn skip_lines(file: &mut BufReader<FileContent>, lines: u64) -> Result<(), TextReadError> {
    let mut scanned_bytes = 0;
    for skipped_lines in 0..lines {
        let bytes_left = SCAN_BYTES_MAX.saturating_sub(scanned_bytes);
        let length = skip_line(&mut file.by_ref().take(bytes_left))?;
        if bytes_left == 0 {
            return Err(TextReadError::Disk(FileSystemError::Limit(
                "the lines begin more than 1 GiB into the file; ask for its tail",
            )));
        }
        if length == 0 {
            return Err(TextReadError::BeyondTheEnd {
                lines: skipped_lines,
            });
        }
        scanned_bytes += length;
    }
    Ok(())
}

/// Skips one line without keeping it and returns its length.
fn skip_line(file: &mut impl BufRead) -> Result<u64, TextReadError> {
    let mut length = 0;
    loop {
        let buffer = file.fill_buf()?;
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let used_bytes = newline.map_or(buffer.len(), |newline| newline + 1);
        file.consume(used_bytes);
        length += u64::try_from(used_bytes).unwrap_or(u64::MAX);
        if newline.is_some() || used_bytes == 0 {
            return Ok(length);
        }
    }
}

fn read_tail(
    mut file: FileContent,
    lines: u64,
    size_bytes: u64,
    bytes_max: usize,
) -> Result<ReadText, TextReadError> {
    let window = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let window_start = size_bytes.saturating_sub(window);
    file.seek(SeekFrom::Start(window_start))?;
    let mut bytes = read_bounded(file, bytes_max)?;
    bytes.truncate(bytes_max);
    // A newline at the very end ends the last line, and begins none.
    let end = bytes.len().saturating_sub(1);
    let count = usize::try_from(lines).unwrap_or(usize::MAX);
    let lines_start = bytes
        .iter()
        .take(end)
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(count.saturating_sub(1))
        .map(|(at, _)| at + 1);
    let is_cut = lines_start.is_none() && window_start > 0;
    let start = match lines_start {
        _ if lines == 0 => bytes.len(),
        Some(start) => start,
        // What is kept begins in the middle of a line, which is left out. If there is no other line,
        // it begins in the middle of a character at worst.
        None if is_cut => {
            let newline = bytes.iter().take(end).position(|byte| *byte == b'\n');
            newline.map_or_else(|| character_tail_len(&bytes), |at| at + 1)
        }
        None => 0,
    };
    let mut read = decode_to_show(bytes.split_off(start), RemainingBytes::Nothing)?;
    if is_cut {
        let cut_note = format_args!("cut: only the last {bytes_max} bytes are shown");
        read.text = format!("{}\n{}", note(cut_note), read.text);
    }
    Ok(read)
}
