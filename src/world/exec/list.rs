//! Tools that list names: one directory, a tree, or the matches of a glob. Names that are hidden
//! from the agent are omitted as if they did not exist.

use std::fmt::Write as _;
use std::iter::Peekable;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::{Map, Value};

use crate::path::RelPath;
use crate::permissions::grant::Permission;
use crate::prompts::untrusted_text::note;
use crate::tools::call::FileSelection;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::tool_result::{
    BoundedText, LISTING_BYTES_MAX, Observation, ToolError, ToolResult, display_name, display_path,
    display_rel,
};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};

/// The size of an entry of `directory_tree` without its name, in bytes:
/// `{"name":"","type":"directory","children":[]},`.
const TREE_NODE_BYTES: usize = 48;

/// Implements `list_directory`.
pub(super) fn list_directory(gate: &Gate, path: &ResolvedPath) -> ToolResult {
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "list", path, error);
    let listing =
        list_readable(gate, path, &mut |_| EntrySelection::Shallow).map_err(tool_error)?;
    let mut lines = BoundedText::new(LISTING_BYTES_MAX);
    for entry in &listing.entries {
        let name = display_rel(&entry.rel);
        lines.push(&format!("[{}] {name}", entry.kind.label().to_uppercase()));
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
    let has_no_wildcard = !pattern.contains(['*', '?', '[', '{']);
    let glob = if has_no_wildcard {
        format!("*{pattern}*")
    } else {
        pattern.to_owned()
    };
    let (pattern_globs, excluded_globs) =
        (CompiledGlobs::new(&[glob])?, CompiledGlobs::new(exclude)?);
    let listing = list_readable(gate, path, &mut |entry| {
        select_unless_excluded(&excluded_globs, entry)
    })
    .map_err(|error| ToolError::failed_at(gate, "search", path, error))?;
    let mut lines = BoundedText::new(LISTING_BYTES_MAX);
    for entry in listing
        .entries
        .iter()
        .filter(|entry| pattern_globs.match_name(&entry.rel))
    {
        lines.push(&display_path(gate, path.join(&entry.rel).real()));
    }
    let text = lines.finish("nothing matches\n", "narrow the pattern or the path");
    Ok(Observation::done(text + &limit_notes(&listing)))
}

/// Implements `directory_tree`: JSON as `{name, type, children}`.
pub(super) fn directory_tree(gate: &Gate, path: &ResolvedPath, exclude: &[String]) -> ToolResult {
    let excluded_globs = CompiledGlobs::new(exclude)?;
    let listing = list_readable(gate, path, &mut |entry| {
        select_unless_excluded(&excluded_globs, entry)
    })
    .map_err(|error| ToolError::failed_at(gate, "list", path, error))?;
    let mut bytes_left = LISTING_BYTES_MAX;
    let mut entries = listing.entries.iter().peekable();
    let mut shown_entries = 0;
    let tree = Value::Array(tree_nodes(
        &mut entries,
        1,
        &mut bytes_left,
        &mut shown_entries,
    ));
    let mut text = format!("{tree}\n");
    let left_out_count = listing.entries.len() - shown_entries;
    if left_out_count > 0 {
        let cut_note = note(format_args!(
            "cut: {left_out_count} more; ask for a directory below, or use excludePatterns"
        ));
        let _written = writeln!(text, "{cut_note}");
    }
    Ok(Observation::done(text + &limit_notes(&listing)))
}

/// Lists everything readable below `path`. Fails if `path` is not a directory.
pub(super) fn list_readable(
    gate: &Gate,
    path: &ResolvedPath,
    select: &mut dyn FnMut(&ListedEntry) -> EntrySelection,
) -> Result<TreeListing, FileSystemError> {
    let start = path.open_dir()?;
    let mut listing = TreeListing::list(&start, &mut |entry| {
        if gate.allows(&path.real().join(&entry.rel), Permission::Read) {
            select(entry)
        } else {
            EntrySelection::Excluded
        }
    });
    match listing.unreadable.iter().position(|(rel, _)| rel.is_root()) {
        Some(index) => Err(listing.unreadable.swap_remove(index).1),
        None => Ok(listing),
    }
}

/// Returns one line for the limit at which the listing ends, and one about directories that it
/// cannot read.
pub(super) fn limit_notes(listing: &TreeListing) -> String {
    let mut text = String::new();
    if let Some(limit) = listing.reached_limit {
        let cut_note = note(format_args!("cut: {limit}; ask for a directory below"));
        let _written = writeln!(text, "{cut_note}");
    }
    if let Some((first_rel, error)) = listing.unreadable.first() {
        let number = listing.unreadable.len();
        let first_name = display_rel(first_rel);
        let unreadable_note = note(format_args!(
            "{number} directories could not be read; {first_name}: {error}"
        ));
        let _written = writeln!(text, "{unreadable_note}");
    }
    text
}

fn select_unless_excluded(excluded_globs: &CompiledGlobs, entry: &ListedEntry) -> EntrySelection {
    if excluded_globs.match_name(&entry.rel) {
        EntrySelection::Excluded
    } else {
        EntrySelection::Deep
    }
}

/// Returns the entries at `depth`, each with its children, until `bytes_left` is used up.
fn tree_nodes<'f>(
    entries: &mut Peekable<impl Iterator<Item = &'f ListedEntry>>,
    depth: usize,
    bytes_left: &mut usize,
    shown_entries: &mut usize,
) -> Vec<Value> {
    let mut nodes = Vec::new();
    while let Some(entry) = entries.next_if(|next| next.rel.names().count() == depth) {
        let name = display_name(entry.rel.name().unwrap_or_default());
        let Some(remaining_bytes) = bytes_left.checked_sub(name.len() + TREE_NODE_BYTES) else {
            // Nothing more is shown, at any depth.
            *bytes_left = 0;
            let _skipped = entries.by_ref().count();
            break;
        };
        *bytes_left = remaining_bytes;
        *shown_entries += 1;
        let mut node = Map::new();
        node.insert("name".to_owned(), name.into());
        node.insert("type".to_owned(), entry.kind.label().into());
        if entry.kind == FileKind::Directory {
            let child_nodes = tree_nodes(entries, depth + 1, bytes_left, shown_entries);
            node.insert("children".to_owned(), child_nodes.into());
        }
        nodes.push(Value::Object(node));
    }
    nodes
}

/// Compiled globs. `*` crosses `/`.
#[derive(Debug)]
pub(super) struct CompiledGlobs(GlobSet);

impl CompiledGlobs {
    /// Compiles `patterns`.
    pub(super) fn new(patterns: &[String]) -> Result<Self, ToolError> {
        let mut builder = GlobSetBuilder::new();
        for pattern in patterns {
            builder.add(compile_glob(pattern)?);
        }
        let set = builder
            .build()
            .map_err(|error| ToolError::failed(error.to_string()));
        Ok(Self(set?))
    }

    /// Returns whether one of them matches the path below the tree's root, or its last component.
    pub(super) fn match_name(&self, rel: &RelPath) -> bool {
        let by_name = || rel.name().is_some_and(|name| self.0.is_match(name));
        self.0.is_match(rel.as_path()) || by_name()
    }
}

/// A compiled [`FileSelection`].
#[derive(Debug)]
pub(super) struct CompiledSelection {
    include: CompiledGlobs,
    exclude: CompiledGlobs,
}

impl CompiledSelection {
    /// Compiles `selection`.
    pub(super) fn new(selection: &FileSelection) -> Result<Self, ToolError> {
        Ok(Self {
            include: CompiledGlobs::new(&selection.include)?,
            exclude: CompiledGlobs::new(&selection.exclude)?,
        })
    }

    /// Returns whether the file, given relative to the tree's root, is selected.
    pub(super) fn matches(&self, rel: &RelPath) -> bool {
        self.include.0.is_match(rel.as_path()) && !self.exclude.0.is_match(rel.as_path())
    }
}

fn compile_glob(pattern: &str) -> Result<Glob, ToolError> {
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    glob.map_err(|error| ToolError::failed(error.to_string()))
}
