//! Tools that compare files and directories; the unified diff that edits show too; and the
//! comparison of two files by their bytes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read as _};

use serde_json::{Map, Value, json};

use crate::check_results::ChangeCounts;
use crate::delivery::hunks::hunks_in_context;
use crate::delivery::line_diff::{LineDiff, MERGE_BYTES_MAX, as_text};
use crate::path::{RealPath, RelPath};
use crate::prompts::untrusted_text::note;
use crate::tools::call::ContentDiff;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::access::merge_bases::FileAccessReason;
use crate::world::exec::fingerprint::open_content;
use crate::world::exec::list::list_readable;
use crate::world::exec::text;
use crate::world::exec::tool_result::{
    BoundedText, LISTING_BYTES_MAX, Observation, ToolError, ToolResult, display_rel, json_done,
    json_names,
};
use crate::world::sys::content::FileContent;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::tree_listing::EntrySelection;

/// The longest file that is compared line by line, in bytes.
const COMPARE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The most bytes that one comparison of directories reads; holes of sparse files count.
const COMPARE_TREES_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// The most bytes of diff shown for one file in a comparison of directories.
const FILE_DIFF_BYTES_MAX: usize = 8 * 1024;

/// Returns a unified diff with `context_lines` around each change, up to `bytes_max`.
pub(super) fn unified_diff(diff: &LineDiff<'_>, context_lines: usize, bytes_max: usize) -> String {
    let mut lines = BoundedText::new(bytes_max);
    for hunk in hunks_in_context(diff, context_lines) {
        lines.push(&hunk.header());
        for (side, line) in hunk.lines {
            for line in format!("{}{line}\n", side.sign()).lines() {
                lines.push(line);
            }
        }
    }
    lines.finish("no difference\n", "compare smaller parts")
}

/// Implements `compare_files`.
pub(super) fn compare_files(
    gate: &Gate,
    first: &ResolvedPath,
    second: &ResolvedPath,
    context_lines: u32,
) -> ToolResult {
    let (first_text, second_text) = (read_side(gate, first)?, read_side(gate, second)?);
    let difference = LineDiff::new(&first_text, &second_text);
    let is_identical = first_text == second_text;
    let (added_lines, removed_lines) = difference.counts();
    let context_lines = usize::try_from(context_lines).unwrap_or(usize::MAX);
    Ok(Observation::done(json_done(
        "compare_files",
        &json!({
            "identical": is_identical,
            "diff": if is_identical {
                String::new()
            } else {
                unified_diff(&difference, context_lines, LISTING_BYTES_MAX)
            },
            "stats": {
                "added": added_lines,
                "removed": removed_lines,
                "changed": added_lines.min(removed_lines),
            },
        }),
    )))
}

fn read_side(gate: &Gate, path: &ResolvedPath) -> Result<String, ToolError> {
    let (text, meta) = text::open_whole(gate, "read", path, COMPARE_BYTES_MAX)?;
    gate.history()
        .record_read(path.real().clone(), meta.version);
    gate.record_base(path, &meta.version, FileAccessReason::Read);
    Ok(text)
}

/// Implements `compare_directories`: compares all names below, the content of files of equal size,
/// and the targets of symlinks.
pub(super) fn compare_directories(
    gate: &Gate,
    first: &ResolvedPath,
    second: &ResolvedPath,
    content: ContentDiff,
) -> ToolResult {
    let (first_tree, second_tree) = (list_tree(gate, first)?, list_tree(gate, second)?);
    let (mut different, mut identical) = (Vec::new(), Vec::new());
    let mut bytes_left = COMPARE_TREES_BYTES_MAX;
    for (rel, kind) in &first_tree {
        let Some(other_kind) = second_tree.get(rel) else {
            continue;
        };
        let comparison = match (kind, other_kind) {
            (FileKind::File, FileKind::File) => {
                has_same_content(&first.join(rel), &second.join(rel), &mut bytes_left)
            }
            (FileKind::Link, FileKind::Link) => {
                has_same_target(&first.join(rel), &second.join(rel))
            }
            (kind, other_kind) => Ok(kind == other_kind),
        };
        if let Err(error @ FileSystemError::Limit(_)) = comparison {
            return Err(ToolError::failed_at(gate, "compare", first, error));
        }
        // What cannot be read counts as different.
        match (comparison.unwrap_or(false), kind) {
            (true, FileKind::Directory) => {}
            (true, _) => identical.push(rel),
            (false, _) => different.push(rel),
        }
    }
    let mut details = json!({
        "only_in_dir1": json_names(first_tree.keys().filter(|rel| !second_tree.contains_key(*rel))),
        "only_in_dir2": json_names(second_tree.keys().filter(|rel| !first_tree.contains_key(*rel))),
        "different": json_names(different.iter().copied()),
        "identical": json_names(identical.iter().copied()),
    });
    if let (ContentDiff::Lines, Some(details)) = (content, details.as_object_mut()) {
        let diffs = content_diffs(gate, first, second, &different);
        details.insert("content_diffs".to_owned(), Value::Object(diffs));
    }
    Ok(Observation::done(json_done(
        "compare_directories",
        &details,
    )))
}

/// Returns what the agent may read below `path`, by name.
fn list_tree(gate: &Gate, path: &ResolvedPath) -> Result<BTreeMap<RelPath, FileKind>, ToolError> {
    let listing = list_readable(gate, path, &mut |_| EntrySelection::Deep)
        .map_err(|error| ToolError::failed_at(gate, "list", path, error))?;
    if let Some(limit) = listing.reached_limit {
        return Err(ToolError::failed_at(gate, "compare", path, limit));
    }
    let entries = listing.entries.into_iter();
    Ok(entries.map(|entry| (entry.rel, entry.kind)).collect())
}

fn has_same_content(
    first: &ResolvedPath,
    second: &ResolvedPath,
    bytes_left: &mut u64,
) -> Result<bool, FileSystemError> {
    let (first, first_meta) = first.open_file()?;
    let (second, second_meta) = second.open_file()?;
    let size_bytes = first_meta.version.size_bytes;
    if size_bytes != second_meta.version.size_bytes {
        return Ok(false);
    }
    let limit_error =
        FileSystemError::Limit("more than 2 GiB would be read; compare directories below");
    *bytes_left = bytes_left
        .checked_sub(size_bytes.saturating_mul(2))
        .ok_or(limit_error)?;
    has_same_bytes(first, second, size_bytes)
}

/// Returns whether the first `size_bytes` bytes of both files are the same.
pub(in crate::world) fn has_same_bytes(
    first: FileContent,
    second: FileContent,
    size_bytes: u64,
) -> Result<bool, FileSystemError> {
    let mut first = BufReader::new(first.take(size_bytes));
    let mut second = BufReader::new(second.take(size_bytes));
    loop {
        let (left, right) = (first.fill_buf()?, second.fill_buf()?);
        let common_len = left.len().min(right.len());
        if common_len == 0 {
            return Ok(left.is_empty() && right.is_empty());
        }
        if left.get(..common_len) != right.get(..common_len) {
            return Ok(false);
        }
        first.consume(common_len);
        second.consume(common_len);
    }
}

fn has_same_target(first: &ResolvedPath, second: &ResolvedPath) -> Result<bool, FileSystemError> {
    let target = |path: &ResolvedPath| path.link_target();
    Ok(target(first)? == target(second)?)
}

fn content_diffs(
    gate: &Gate,
    first: &ResolvedPath,
    second: &ResolvedPath,
    different: &[&RelPath],
) -> Map<String, Value> {
    let mut diffs = Map::new();
    let mut bytes_left = LISTING_BYTES_MAX;
    for rel in different {
        let text = match (
            read_side(gate, &first.join(rel)),
            read_side(gate, &second.join(rel)),
        ) {
            (Ok(first_text), Ok(second_text)) => unified_diff(
                &LineDiff::new(&first_text, &second_text),
                1,
                bytes_left.min(FILE_DIFF_BYTES_MAX),
            ),
            (Err(tool_error), _) | (_, Err(tool_error)) => tool_error.message,
        };
        bytes_left = bytes_left.saturating_sub(text.len());
        diffs.insert(display_rel(rel), text.into());
        if bytes_left == 0 {
            diffs.insert(note("cut"), "compare_files shows the others".into());
            break;
        }
    }
    diffs
}

/// Counts how the files at `paths` differ between the gates `user_gate` and
/// `overlay_gate`. Blocks on disk I/O.
pub fn diffstat<'p>(
    user_gate: &Gate,
    overlay_gate: &Gate,
    paths: impl IntoIterator<Item = &'p RealPath>,
) -> ChangeCounts {
    let mut changes = ChangeCounts::default();
    for path in paths {
        let (old, new) = (
            read_beginning(user_gate, path),
            read_beginning(overlay_gate, path),
        );
        if old == new {
            continue;
        }
        let [old, new] = [old, new].map(Option::unwrap_or_default);
        let texts = as_text(&old).zip(as_text(&new));
        let lines = texts.map(|(old, new)| LineDiff::new(old, new).counts());
        changes.add_file(lines.unwrap_or_default());
    }
    changes
}

/// Returns the file at `path`, up to one byte more than is counted; `None` if there is no file.
fn read_beginning(gate: &Gate, path: &RealPath) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let bytes_max = u64::try_from(MERGE_BYTES_MAX).ok()?.saturating_add(1);
    let content = open_content(gate, path.as_path().to_str()?)?;
    content.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
