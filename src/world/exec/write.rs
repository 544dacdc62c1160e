//! Tools that write one path: a whole file, parts of one, or a directory.

use regex::Regex;

use crate::delivery::line_diff::LineDiff;
use crate::prompts::untrusted_text::unescape_result;
use crate::text::{escape_line, truncate};
use crate::tools::call::{EditMode, ExistingTarget, FileEdit};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::compare::unified_diff;
use crate::world::exec::put::{FileSource, WriteOptions, put};
use crate::world::exec::text;
use crate::world::exec::tool_result::{
    LISTING_BYTES_MAX, Observation, ToolError, ToolResult, display_path,
};
use crate::world::exec::write_block::WriteIntent;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;

/// The longest file that can be edited, in bytes.
pub(super) const EDIT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The most lines that are compared with a line that does not occur.
const COMPARED_LINES_MAX: usize = 20_000;
/// The longest part of a line that is compared and shown, in characters.
const LINE_CHARS_MAX: usize = 200;
/// The similarity (0 to 1, Levenshtein) from which a line counts as meant.
const LINE_SIMILARITY_MIN: f64 = 0.6;

/// Lines shown around each difference of an edit.
const DIFF_CONTEXT_LINES: usize = 3;

/// Implements `write_file`.
pub(super) fn write_file(gate: &Gate, path: &ResolvedPath, content: &str) -> ToolResult {
    let options = WriteOptions {
        intent: WriteIntent::Overwrite,
        existing: ExistingTarget::Overwrite,
    };
    let change = put(gate, path, &FileSource::Bytes(content.as_bytes()), options)?;
    let shown_path = display_path(gate, path.real());
    let bytes = content.len();
    Ok(
        Observation::done(format!("wrote {bytes} bytes to {shown_path}\n"))
            .with_changes(vec![change]),
    )
}

/// Implements `edit_file`.
pub(super) fn edit_file(
    gate: &Gate,
    path: &ResolvedPath,
    edits: &[FileEdit],
    mode: EditMode,
) -> ToolResult {
    let (old_text, meta) = text::open_whole(gate, "edit", path, EDIT_BYTES_MAX)?;
    let new_text = apply_edits(&old_text, edits)
        .map_err(|reason| ToolError::failed_at(gate, "edit", path, reason))?;
    let shown_path = display_path(gate, path.real());
    let (shown_old, shown_new) = (
        text::strip_byte_order_mark(&old_text),
        text::strip_byte_order_mark(&new_text),
    );
    let line_diff = LineDiff::new(shown_old, shown_new);
    let diff = unified_diff(&line_diff, DIFF_CONTEXT_LINES, LISTING_BYTES_MAX);
    if mode == EditMode::DryRun {
        return Ok(Observation::done(format!(
            "{shown_path} would change:\n{diff}"
        )));
    }
    let options = WriteOptions {
        intent: WriteIntent::Edit(meta.version),
        existing: ExistingTarget::Overwrite,
    };
    let change = put(gate, path, &FileSource::Bytes(new_text.as_bytes()), options)?;
    Ok(Observation::done(format!("edited {shown_path}:\n{diff}")).with_changes(vec![change]))
}

/// Implements `create_directory`.
pub(super) fn create_directory(gate: &Gate, path: &ResolvedPath) -> ToolResult {
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "create", path, error);
    let shown_path = display_path(gate, path.real());
    let rel = path.below();
    match path.dir().meta(&rel) {
        Ok(meta) if meta.kind == FileKind::Directory => Ok(Observation::done(format!(
            "{shown_path} is there already\n"
        ))),
        Ok(_) => Err(tool_error(FileSystemError::Exists)),
        Err(FileSystemError::Missing) => {
            let reserve = &gate.policy().disk_reserve;
            reserve.expect_room(path.dir(), 0).map_err(tool_error)?;
            let _dir = path.dir().make_dirs(&rel).map_err(tool_error)?;
            Ok(Observation::done(format!("created {shown_path}\n")))
        }
        Err(error) => Err(tool_error(error)),
    }
}

/// Why a replacement cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum EditError {
    #[error("the old text of edit {number} does not occur{}", describe_nearest(.nearest.as_ref()))]
    Missing {
        number: usize,
        /// The number of the most similar line, and the line.
        nearest: Option<(usize, String)>,
    },
    #[error(
        "the old text of edit {0} occurs more than once; add lines around it until it is unique"
    )]
    Ambiguous(usize),
    #[error("it has only {0} lines")]
    BeyondTheEnd(usize),
}

fn describe_nearest(nearest: Option<&(usize, String)>) -> String {
    match nearest {
        Some((number, line)) => {
            format!("; the nearest is line {number}, `{line}`: every blank, quote and dash counts")
        }
        None => "; read the file again, every blank counts".to_owned(),
    }
}

/// Returns the line of `text` that is the most similar to the first line with text of `old`, with
/// its number; `None` if none is similar.
fn nearest_line(text: &str, old: &str) -> Option<(usize, String)> {
    let is_in_text = |line: &&str| text.lines().any(|other| other == *line);
    let old_lines = || old.lines().filter(|line| !line.trim().is_empty());
    let wanted = old_lines()
        .find(|line| !is_in_text(line))
        .or_else(|| old_lines().next())?;
    let shown = |line: &str| truncate(line, LINE_CHARS_MAX);
    let wanted = shown(wanted.trim());
    let lines = (1..).zip(text.lines().take(COMPARED_LINES_MAX));
    let similarities = lines.map(|(number, line)| {
        let similarity = strsim::normalized_levenshtein(&wanted, &shown(line.trim()));
        (similarity, number, line)
    });
    let (similarity, number, line) = similarities.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (similarity >= LINE_SIMILARITY_MIN).then(|| (number, shown(&escape_line(line))))
}

/// Returns the only part of `text` that is `old` but for the ends of its lines, which may be CR LF.
fn find_with_line_ends<'t>(text: &'t str, old: &str) -> Option<&'t str> {
    let pattern = regex::escape(old).replace('\n', "\r?\n");
    let pattern = Regex::new(&pattern).ok()?;
    let mut parts = pattern.find_iter(text);
    let part = parts.next()?.as_str();
    parts.next().is_none().then_some(part)
}

/// Returns `text` with `inserted` below the line of this number.
fn insert_lines(text: &str, line: u64, inserted: &str) -> Result<String, EditError> {
    let body = text::strip_byte_order_mark(text);
    let mark = text.strip_suffix(body).unwrap_or_default();
    let lines: Vec<&str> = body.split_inclusive('\n').collect();
    let index = usize::try_from(line).unwrap_or(usize::MAX);
    let (before, after) = lines
        .split_at_checked(index)
        .ok_or(EditError::BeyondTheEnd(lines.len()))?;
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let is_open = |lines: &[&str]| lines.last().is_some_and(|line| !line.ends_with('\n'));
    // A file keeps its last line without an end.
    let (gap, end) = match (is_open(before), inserted.ends_with('\n')) {
        (true, _) => (line_end, ""),
        (false, true) => ("", ""),
        (false, false) => ("", line_end),
    };
    Ok([mark, &before.concat(), gap, inserted, end, &after.concat()].concat())
}

/// Returns the text after all changes. If every line ends in CR LF, the replacements do too; if
/// some do, those whose first line does.
fn apply_edits(text: &str, edits: &[FileEdit]) -> Result<String, EditError> {
    let mut text = text.to_owned();
    for (number, edit) in (1..).zip(edits) {
        let has_crlf = text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
        let with_line_ends = |part: &str| {
            if has_crlf && !part.contains('\r') {
                part.replace('\n', "\r\n")
            } else {
                part.to_owned()
            }
        };
        let (edit_old, edit_new) = match edit {
            FileEdit::Replacement { old, new } => (old, new),
            FileEdit::Insertion {
                line,
                text: inserted,
            } => {
                text = insert_lines(&text, *line, &with_line_ends(inserted))?;
                continue;
            }
        };
        let (mut old, mut new) = (with_line_ends(edit_old), with_line_ends(edit_new));
        if !text.contains(&old)
            && let Some(part) = find_with_line_ends(&text, &old)
        {
            let first_line = part.split_inclusive('\n').next();
            if first_line.is_some_and(|line| line.ends_with("\r\n")) {
                new = new.replace('\n', "\r\n");
            }
            part.clone_into(&mut old);
        }
        if !text.contains(&old) {
            // The model copied it from a result in which some characters are escaped.
            (old, new) = (unescape_result(&old), unescape_result(&new));
        }
        let Some((before, after)) = text.split_once(&old) else {
            let nearest = nearest_line(&text, edit_old);
            return Err(EditError::Missing { number, nearest });
        };
        if text.rfind(&old) != Some(before.len()) {
            return Err(EditError::Ambiguous(number));
        }
        text = [before, &new, after].concat();
    }
    Ok(text)
}
