//! The state of a path in the user's tree, precise enough to detect whether it has changed since it
//! was recorded.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::path::as_text;

/// State of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum PathState {
    /// It does not exist.
    Nothing,
    /// A regular file.
    File(RegularFileState),
    /// A symlink.
    Link {
        /// Its target.
        #[serde(with = "as_text")]
        target: PathBuf,
    },
    /// A directory; its content has paths of its own.
    Directory {
        /// Its permission bits.
        mode: u32,
    },
}

/// A regular file, as `stat` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegularFileState {
    /// Its inode number; `None` if the file is a copy that got another one.
    pub inode: Option<u64>,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// Its modification time, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its permission bits.
    pub mode: u32,
}

impl PathState {
    /// Returns whether `other`, the current state, is unchanged since `self`.
    pub fn is_unchanged(&self, other: &PathState) -> bool {
        match (self, other) {
            (PathState::File(one), PathState::File(two)) => one.is_unchanged(two),
            _ => self == other,
        }
    }

    /// Returns whether nothing exists there.
    pub fn is_absent(&self) -> bool {
        *self == PathState::Nothing
    }

    /// Returns whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self, PathState::Directory { .. })
    }

    /// Returns the state without the inode number, for a path that is reached only by copies.
    #[must_use]
    pub fn without_inode(self) -> Self {
        match self {
            PathState::File(file) => PathState::File(RegularFileState {
                inode: None,
                ..file
            }),
            other @ (PathState::Nothing | PathState::Link { .. } | PathState::Directory { .. }) => {
                other
            }
        }
    }
}

impl RegularFileState {
    fn is_unchanged(&self, other: &RegularFileState) -> bool {
        let same_inode = match (self.inode, other.inode) {
            (Some(one), Some(two)) => one == two,
            (None, _) | (_, None) => true,
        };
        let metadata_of = |file: &RegularFileState| (file.size_bytes, file.modified_ns, file.mode);
        same_inode && metadata_of(self) == metadata_of(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: Option<u64>, size_bytes: u64, mode: u32) -> PathState {
        PathState::File(RegularFileState {
            inode,
            size_bytes,
            modified_ns: 7,
            mode,
        })
    }

    #[track_caller]
    fn check(one: &PathState, other: &PathState, expected: bool) {
        assert_eq!(one.is_unchanged(other), expected, "{one:?} {other:?}");
        assert_eq!(other.is_unchanged(one), expected, "{other:?} {one:?}");
    }

    #[test]
    fn a_file_is_known_by_its_number_unless_it_was_copied() {
        let seen = file(Some(1), 3, 0o644);
        check(&seen, &file(Some(1), 3, 0o644), true);
        check(&seen, &file(Some(2), 3, 0o644), false);
        check(&seen, &file(Some(1), 4, 0o644), false);
        check(&seen, &file(Some(1), 3, 0o755), false);
        check(
            &seen.clone().without_inode(),
            &file(Some(2), 3, 0o644),
            true,
        );
        check(&seen, &PathState::Nothing, false);
        check(&PathState::Nothing, &PathState::Nothing, true);
    }

    #[test]
    fn every_state_survives_as_text() {
        for state in [
            PathState::Nothing,
            file(Some(9), 1, 0o600),
            file(None, 1, 0o600),
            PathState::Directory { mode: 0o755 },
            PathState::Link {
                target: PathBuf::from("../a b%\n"),
            },
        ] {
            let text = serde_json::to_string(&state).unwrap();
            assert_eq!(
                serde_json::from_str::<PathState>(&text).unwrap(),
                state,
                "{text}"
            );
        }
    }
}
