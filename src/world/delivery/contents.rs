//! Reads both sides of a change for a person or a merge, and checks whether the user has changed
//! theirs since the change was planned.

use std::ffi::OsStr;
use std::io::Read as _;

use sha2::{Digest, Sha256};

use crate::delivery::hunks::{DiffHunk, hunks};
use crate::delivery::line_diff::{LineDiff, MERGE_BYTES_MAX, as_text};
use crate::delivery::path_state::PathState;
use crate::delivery::plan::{
    ContentSource, DeliveryConflict, DeliveryEntry, DeliveryPlan, EntryAction,
};
use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::text::to_hex;
use crate::world::delivery::delivery_dir::{delivery_error, open_root};
use crate::world::delivery::read_state::read_state;
use crate::world::delivery::store::OpenDelivery;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContents {
    /// All of it.
    Whole(Vec<u8>),
    /// It is too long to be read.
    TooLong,
    /// It does not exist any more, or is not a regular file.
    None,
}

/// One side of a change, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffSide {
    /// Nothing exists.
    Nothing,
    /// A text.
    Text(String),
    /// A file that is not text, or is too long to be shown.
    Binary {
        /// Its size in bytes.
        size_bytes: u64,
        /// Its SHA-256 in hexadecimal digits; `None` if it is too long to be read.
        sha256: Option<String>,
    },
    /// A symlink with this target.
    Link(String),
    /// A directory.
    Directory,
    /// A file whose content is no longer kept.
    Lost,
}

/// A change with both of its sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryDifference {
    /// The changed path.
    pub path: AbsPath,
    /// The state before the change.
    pub before: DiffSide,
    /// The state after the change.
    pub after: DiffSide,
    /// What is changed in addition to the content, for people.
    pub details: Option<String>,
    /// The permission bits before and after, if they differ, of a file or a directory that remains
    /// one.
    pub modes: Option<(u32, u32)>,
}

impl DeliveryDifference {
    /// Returns the hunks that can be selected one by one; none unless both sides are text.
    pub fn hunks(&self) -> Vec<DiffHunk> {
        match (&self.before, &self.after) {
            (DiffSide::Text(old), DiffSide::Text(new)) => hunks(&LineDiff::new(old, new)),
            _ => Vec::new(),
        }
    }

    /// Returns what a delivery does at the path.
    pub fn action(&self) -> EntryAction {
        match (&self.before, &self.after) {
            (DiffSide::Nothing, _) => EntryAction::Create,
            (_, DiffSide::Nothing) => EntryAction::Delete,
            _ => EntryAction::Change,
        }
    }
}

/// Returns both sides of an entry of `plan`.
pub fn difference(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    entry: &DeliveryEntry,
) -> Result<DeliveryDifference> {
    sides(plan, entry, || read_ours(delivery, plan, entry))
}

fn sides(
    plan: &DeliveryPlan,
    entry: &DeliveryEntry,
    read_ours: impl FnOnce() -> Result<FileContents>,
) -> Result<DeliveryDifference> {
    let before = diff_side(&entry.theirs, || read_theirs(plan, entry))?;
    let after = diff_side(&entry.ours, read_ours)?;
    Ok(DeliveryDifference {
        path: plan.path(entry),
        before,
        after,
        details: entry.details(plan),
        modes: changed_modes(&entry.theirs, &entry.ours),
    })
}

/// Returns both sides of an entry of a plan of which nothing is composed.
pub fn uncomposed_difference(
    plan: &DeliveryPlan,
    entry: &DeliveryEntry,
) -> Result<DeliveryDifference> {
    let ours = || match plan.source_dirs.get(entry.root).cloned().flatten() {
        Some(source_dir) => read_file(&source_dir, &entry.rel),
        None => Ok(FileContents::None),
    };
    sides(plan, entry, ours)
}

/// Returns the conflict if the user has changed the path of `entry` since `plan` was made: the
/// change of the plan would not be applied.
pub fn change_since_plan(
    plan: &DeliveryPlan,
    entry: &DeliveryEntry,
) -> Result<Option<DeliveryConflict>> {
    let Some(root) = plan.roots.get(entry.root) else {
        return Ok(None);
    };
    let dir = open_root(root)?;
    let state_result = dir
        .parent_of(&entry.rel)
        .and_then(|(parent, name)| read_state(&parent, name));
    let current_state = match state_result {
        Ok((state, _)) => state,
        Err(error) if error.is_absence() => PathState::Nothing,
        Err(FileSystemError::NotRegular(_)) => return Ok(Some(DeliveryConflict::Changed)),
        Err(error) => return Err(delivery_error("read", &plan.path(entry), error)),
    };
    Ok(if entry.theirs.is_unchanged(&current_state) {
        None
    } else if current_state.is_absent() {
        Some(DeliveryConflict::Removed)
    } else {
        Some(DeliveryConflict::Changed)
    })
}

/// Reads the user's file at the path of `entry`.
pub(super) fn read_theirs(plan: &DeliveryPlan, entry: &DeliveryEntry) -> Result<FileContents> {
    match plan.roots.get(entry.root) {
        Some(root) => read_file(root, &entry.rel),
        None => Ok(FileContents::None),
    }
}

/// Reads the file `rel` below the directory `path`.
pub(super) fn read_file(path: &AbsPath, rel: &RelPath) -> Result<FileContents> {
    let dir = open_root(path)?;
    read_contents(&dir, rel)
        .map_err(|error| delivery_error("read", &path.join(rel.as_path()), error))
}

/// Reads the agent's file that is to replace the path of `entry`.
pub(super) fn read_ours(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    entry: &DeliveryEntry,
) -> Result<FileContents> {
    let (path, rel) = match entry.source {
        ContentSource::SourceDirectory => match plan.source_dirs.get(entry.root).cloned().flatten()
        {
            Some(source_dir) => (source_dir, entry.rel.clone()),
            None => return Ok(FileContents::None),
        },
        ContentSource::Composed { number, .. } => {
            let name = number.to_string();
            let rel = RelPath::default()
                .child(OsStr::new(&name))
                .unwrap_or_default();
            (delivery.delivery_dir.made_contents(), rel)
        }
    };
    read_file(&path, &rel)
}

/// Reads the file `rel` below `dir`.
fn read_contents(
    dir: &DirectoryHandle,
    rel: &RelPath,
) -> std::result::Result<FileContents, FileSystemError> {
    let (content, meta) = match dir.open_file(rel) {
        Ok(file_and_meta) => file_and_meta,
        Err(
            FileSystemError::Missing
            | FileSystemError::NotDirectory
            | FileSystemError::IsDirectory
            | FileSystemError::NotRegular(_),
        ) => {
            return Ok(FileContents::None);
        }
        Err(error) => return Err(error),
    };
    let bytes_max = u64::try_from(MERGE_BYTES_MAX).unwrap_or(u64::MAX);
    if meta.version.size_bytes > bytes_max {
        return Ok(FileContents::TooLong);
    }
    let mut bytes = Vec::new();
    content
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() > MERGE_BYTES_MAX {
        return Ok(FileContents::TooLong);
    }
    Ok(FileContents::Whole(bytes))
}

/// Returns one side of a change; `read` is called for the content of a file.
pub(super) fn diff_side(
    state: &PathState,
    read: impl FnOnce() -> Result<FileContents>,
) -> Result<DiffSide> {
    Ok(match state {
        PathState::Nothing => DiffSide::Nothing,
        PathState::Directory { .. } => DiffSide::Directory,
        PathState::Link { target } => DiffSide::Link(target.to_string_lossy().into_owned()),
        PathState::File(file) => match read()? {
            FileContents::Whole(bytes) => match as_text(&bytes) {
                Some(text) => DiffSide::Text(text.to_owned()),
                None => DiffSide::Binary {
                    size_bytes: file.size_bytes,
                    sha256: Some(to_hex(&Sha256::digest(&bytes))),
                },
            },
            FileContents::TooLong => DiffSide::Binary {
                size_bytes: file.size_bytes,
                sha256: None,
            },
            FileContents::None => DiffSide::Lost,
        },
    })
}

/// Returns the permission bits on both sides if they differ.
pub(super) fn changed_modes(theirs: &PathState, ours: &PathState) -> Option<(u32, u32)> {
    let modes = match (theirs, ours) {
        (PathState::File(theirs), PathState::File(ours)) => (theirs.mode, ours.mode),
        (PathState::Directory { mode: theirs }, PathState::Directory { mode: ours }) => {
            (*theirs, *ours)
        }
        _ => return None,
    };
    let (before, after) = modes;
    (before != after).then_some(modes)
}
