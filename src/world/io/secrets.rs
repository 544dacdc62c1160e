//! Finds files in the context paths of a run whose names suggest that they hold secrets. No content
//! is read, and finding nothing guarantees nothing.

use std::ffi::OsStr;

use crate::path::RealPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{GrantKind, GrantScope, Permission};
use crate::permissions::history::is_generated;
use crate::permissions::protected::{is_env_name, looks_secret};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};

/// Number of names that are checked in one context path, so that a huge tree does not delay a run.
const NAMES_MAX: usize = 20_000;

/// Returns the files in the context paths that an agent may read and that look like secrets,
/// sorted.
pub fn readable_secrets(manager: &PathPermissionManager) -> Vec<RealPath> {
    let context_grants = manager
        .grants()
        .iter()
        .filter(|grant| grant.kind == GrantKind::Context);
    let mut secret_paths: Vec<RealPath> = context_grants
        .flat_map(|grant| match grant.scope {
            GrantScope::File => vec![grant.root.clone()],
            GrantScope::Tree => secrets_below(&grant.root),
        })
        .filter(|path| path.name().is_some_and(looks_secret))
        .filter(|path| manager.allows(path, Permission::Read))
        .collect();
    secret_paths.sort();
    secret_paths.dedup();
    secret_paths
}

/// Returns the files below `root` that hold variables by convention, such as `.env`.
pub fn env_files(root: &RealPath) -> Vec<RealPath> {
    let mut files = secrets_below(root);
    files.retain(|path| path.name().is_some_and(is_env_name));
    files
}

fn secrets_below(root: &RealPath) -> Vec<RealPath> {
    let Ok(start) = DirectoryHandle::open(root) else {
        return Vec::new();
    };
    let mut name_count = 0_usize;
    let listing = TreeListing::list(&start, &mut |entry| {
        name_count = name_count.saturating_add(1);
        select_entry(entry, name_count)
    });
    listing
        .entries
        .iter()
        .map(|entry| root.join(&entry.rel))
        .collect()
}

fn select_entry(entry: &ListedEntry, name_count: usize) -> EntrySelection {
    let name = entry.rel.name().unwrap_or(OsStr::new(""));
    if entry.kind == FileKind::Directory {
        let is_pruned = name_count > NAMES_MAX || name == ".git" || is_generated(&entry.rel);
        if is_pruned {
            EntrySelection::Excluded
        } else {
            EntrySelection::Deep
        }
    } else if entry.kind == FileKind::File && looks_secret(name) {
        EntrySelection::Shallow
    } else {
        EntrySelection::Excluded
    }
}
