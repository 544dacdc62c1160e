//! Tools that list names: one directory, a tree, or the matches of a glob. Names that are hidden
//! from the agent are omitted as if they did not exist.

use std::fmt::Write as _;
use std::iter::Peekable;

use serde_json::{Map, Value};

use crate::permissions::grant::Permission;
use crate::prompts::untrusted_text::note;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::Observation;
use crate::world::exec::selection::CompiledGlobs;
use crate::world::exec::tool_result::{
    BoundedText, LISTING_BYTES_MAX, ToolError, ToolResult, display_name, display_path,
};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};

/// Implements `list_directory`.
pub(super) fn list_directory(gate: &Gate, path: &ResolvedPath) -> ToolResult {
    let tool_error = |fault: FileSystemError| ToolError::failed_at(gate, "list", path, fault);
    let listing =
        list_readable(gate, path, &mut |_| EntrySelection::Shallow).map_err(tool_error)?;
    let mut lines = BoundedText::new(LISTING_BYTES_MAX);
    for found in &listing.found {
        let name = display_name(found.rel.as_path().as_os_str(), ".");
        lines.push(&format!("[{}] {name}", found.kind.label().to_uppercase()));
    }
    let text = lines.finish("the directory is empty\n", "use search_files with a glob");
    Ok(Observation::done(text))
}

/// Implements `search_files`: a pattern without a wildcard matches any part of a name.
pub(super) fn search_files(
    gate: &Gate,
    path: &ResolvedPath,
    pattern: &str,
    exclude: &[String],
) -> ToolResult {
    let within_names = !pattern.contains(['*', '?', '[', '{']);
    let wanted = if within_names {
        format!("*{pattern}*")
    } else {
        pattern.to_owned()
    };
    let (wanted, excluded) = (CompiledGlobs::new(&[wanted])?, CompiledGlobs::new(exclude)?);
    let listing = list_readable(gate, path, &mut |found| keep_unless(&excluded, found))
        .map_err(|fault| ToolError::failed_at(gate, "search", path, fault))?;
    let mut lines = BoundedText::new(LISTING_BYTES_MAX);
    for found in listing
        .found
        .iter()
        .filter(|found| wanted.match_name(&found.rel))
    {
        lines.push(&display_path(gate, path.join(&found.rel).real()));
    }
    let text = lines.finish("nothing matches\n", "narrow the pattern or the path");
    Ok(Observation::done(text + &limit_notes(&listing)))
}

/// Implements `directory_tree`: JSON as `{name, type, children}`.
pub(super) fn directory_tree(gate: &Gate, path: &ResolvedPath, exclude: &[String]) -> ToolResult {
    let excluded = CompiledGlobs::new(exclude)?;
    let listing = list_readable(gate, path, &mut |found| keep_unless(&excluded, found))
        .map_err(|fault| ToolError::failed_at(gate, "list", path, fault))?;
    let mut bytes_left = LISTING_BYTES_MAX;
    let mut found = listing.found.iter().peekable();
    let mut shown_entries = 0;
    let tree = Value::Array(children(&mut found, 1, &mut bytes_left, &mut shown_entries));
    let mut text = format!("{tree}\n");
    let left_out = listing.found.len() - shown_entries;
    if left_out > 0 {
        let cut = note(format_args!(
            "cut: {left_out} more; ask for a directory below, or use excludePatterns"
        ));
        let _written = writeln!(text, "{cut}");
    }
    Ok(Observation::done(text + &limit_notes(&listing)))
}

/// Lists everything readable below `path`. Fails if `path` is not a directory.
pub(super) fn list_readable(
    gate: &Gate,
    path: &ResolvedPath,
    keep: &mut dyn FnMut(&ListedEntry) -> EntrySelection,
) -> Result<TreeListing, FileSystemError> {
    let start = path.dir().dir(&path.below())?;
    let mut listing = TreeListing::list(&start, &mut |found| {
        if gate.allows(&path.real().join(&found.rel), Permission::Read) {
            keep(found)
        } else {
            EntrySelection::Not
        }
    });
    match listing.unreadable.iter().position(|(rel, _)| rel.is_root()) {
        Some(at) => Err(listing.unreadable.swap_remove(at).1),
        None => Ok(listing),
    }
}

/// Returns one line for each thing that the walk could not see.
pub(super) fn limit_notes(listing: &TreeListing) -> String {
    let mut text = String::new();
    if let Some(cut) = listing.cut {
        let cut = note(format_args!("cut: {cut}; ask for a directory below"));
        let _written = writeln!(text, "{cut}");
    }
    if let Some((first, fault)) = listing.unreadable.first() {
        let number = listing.unreadable.len();
        let first = display_name(first.as_path().as_os_str(), ".");
        let unread = note(format_args!(
            "{number} directories could not be read; {first}: {fault}"
        ));
        let _written = writeln!(text, "{unread}");
    }
    text
}

fn keep_unless(excluded: &CompiledGlobs, found: &ListedEntry) -> EntrySelection {
    if excluded.match_name(&found.rel) {
        EntrySelection::Not
    } else {
        EntrySelection::Deep
    }
}

/// JSON overhead of one name: `{"name":"","type":"directory","children":[]},`.
const NODE_BYTES: usize = 48;

/// Returns the entries at `depth`, each with its children, until `bytes_left` is used up.
fn children<'f>(
    entries: &mut Peekable<impl Iterator<Item = &'f ListedEntry>>,
    depth: usize,
    bytes_left: &mut usize,
    entries_taken: &mut usize,
) -> Vec<Value> {
    let mut nodes = Vec::new();
    while let Some(next) = entries.next_if(|next| next.rel.names().count() == depth) {
        let name = display_name(next.rel.name().unwrap_or_default(), ".");
        let Some(left) = bytes_left.checked_sub(name.len() + NODE_BYTES) else {
            *bytes_left = 0;
            let _skipped = entries.by_ref().count();
            break;
        };
        *bytes_left = left;
        *entries_taken += 1;
        let mut node = Map::new();
        node.insert("name".to_owned(), name.into());
        node.insert("type".to_owned(), next.kind.label().into());
        if next.kind == FileKind::Directory {
            let below = children(entries, depth + 1, bytes_left, entries_taken);
            node.insert("children".to_owned(), below.into());
        }
        nodes.push(Value::Object(node));
    }
    nodes
}
