//! Detects file systems that treat several spellings of a name as one (case-insensitively, for
//! example) while the kernel tells them apart, as FUSE, 9p and virtiofs can: there a mount over
//! `secrets` leaves `SECRETS` open, so nothing keeps a command out of it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::sandbox_policy::{AccessiblePath, SandboxPolicy};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::tool_result::{ToolError, cannot_run};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;

/// File systems on which the kernel itself folds names, if they are folded at all, so that a mount
/// covers every spelling. The numbers are the magic numbers of statfs(2).
const KERNEL_FOLDED_FILE_SYSTEMS: &[i64] = &[
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x7366_746e, // ntfs3
    0xef53,      // ext4
    0xf2f5_2010, // f2fs
    0x5846_5342, // XFS
    0x0102_1994, // tmpfs
];

/// Refuses a command that could bypass the mounts of `policy` through another spelling. Three
/// levels have no mounts: `landlock` allows files and directories by inode, under whatever name,
/// `unavailable` runs no command, and `off` closes nothing.
pub(super) fn expect_one_spelling(gate: &Gate, policy: &SandboxPolicy) -> Result<(), ToolError> {
    if matches!(
        policy.level,
        SandboxLevel::Landlock | SandboxLevel::Unavailable | SandboxLevel::Off
    ) {
        return Ok(());
    }
    let trees = gate.trees();
    let mut checked_paths = BTreeSet::new();
    for restricted_path in restricted_paths(policy) {
        for tree in &trees {
            let Some(rel) = restricted_path.below(&tree.real().to_abs()) else {
                continue;
            };
            let mut dir = tree.clone();
            for name in rel.names() {
                let Some(path) = RelPath::default().child(name).map(|rel| dir.join(&rel)) else {
                    continue;
                };
                if checked_paths.insert(path.real().to_abs())
                    && let Some(other) = other_spelling(&dir, name)?
                {
                    return Err(unenforceable_error(restricted_path, &path, &other));
                }
                dir = path;
            }
        }
    }
    Ok(())
}

/// Returns the paths that are less open than their surroundings.
fn restricted_paths(policy: &SandboxPolicy) -> impl Iterator<Item = &AbsPath> {
    let outer_permission = |inner: &AccessiblePath| {
        let other_paths = policy.open.iter().filter(|outer| outer.path != inner.path);
        other_paths
            .filter(|outer| inner.path.is_within(&outer.path))
            .map(|outer| outer.permission)
            .max()
    };
    let read_only_paths = policy
        .open
        .iter()
        .filter(move |inner| {
            inner.permission == Permission::Read
                && outer_permission(inner) == Some(Permission::Write)
        })
        .map(|inner| &inner.path);
    let closed_paths = policy.hidden.iter().chain(&policy.masked);
    closed_paths.chain(read_only_paths)
}

/// Returns another spelling of the entry `name` of a directory that resolves although the kernel
/// takes it for a different name. If `name` has no letters, another entry is tried in its place.
fn other_spelling(dir: &ResolvedPath, name: &OsStr) -> Result<Option<OsString>, ToolError> {
    let handle = match dir.open_dir() {
        Ok(handle) => handle,
        // There is nothing that could be reached.
        Err(FileSystemError::Missing | FileSystemError::NotDirectory) => return Ok(None),
        Err(error) => return Err(ToolError::failed(uninspected_message(dir, error))),
    };
    let other_spelling = find_other_spelling(&handle, name);
    other_spelling.map_err(|error| ToolError::failed(uninspected_message(dir, error)))
}

fn find_other_spelling(
    dir: &DirectoryHandle,
    name: &OsStr,
) -> Result<Option<OsString>, FileSystemError> {
    if KERNEL_FOLDED_FILE_SYSTEMS.contains(&dir.file_system()?) {
        return Ok(None);
    }
    let spelling = match in_other_case(name) {
        Some(spelling) => Some(spelling),
        None => dir
            .entries()?
            .iter()
            .find_map(|entry| in_other_case(&entry.name)),
    };
    let Some(spelling) = spelling else {
        return Ok(None);
    };
    let rel = RelPath::default()
        .child(&spelling)
        .ok_or(FileSystemError::Missing)?;
    // A spelling that does not resolve bypasses nothing.
    if dir.handle(&rel).is_err() {
        return Ok(None);
    }
    let is_listed = dir.entries()?.iter().any(|entry| entry.name == spelling);
    Ok((!is_listed).then_some(spelling))
}

/// Returns `name` with upper and lower case swapped; `None` if it has no letters.
fn in_other_case(name: &OsStr) -> Option<OsString> {
    let name = name.to_str()?;
    let mut swapped = String::new();
    for letter in name.chars() {
        if letter.is_lowercase() {
            swapped.extend(letter.to_uppercase());
        } else {
            swapped.extend(letter.to_lowercase());
        }
    }
    (swapped != name).then(|| swapped.into())
}

fn unenforceable_error(
    restricted_path: &AbsPath,
    path: &ResolvedPath,
    spelling: &OsStr,
) -> ToolError {
    let spelling = spelling.display();
    let reason = format!(
        "its file system treats `{spelling}` and `{}` as the same name, which the kernel does not, \
         so a command could access `{restricted_path}`, which is hidden or read-only\n\
         hint: set `command_line_sandbox: landlock`, move the directory to another disk, or open \
         less of it",
        path.real()
    );
    cannot_run(&reason)
}

fn uninspected_message(dir: &ResolvedPath, error: FileSystemError) -> String {
    format!(
        "the command was not run: `{}` cannot be inspected, and something in it is hidden or \
         read-only: {error}",
        dir.real()
    )
}
