//! Owns what is known of one entry of a tree.

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexEntryKind {
    /// A directory.
    Directory,
    /// A file, or anything else that is no directory.
    File,
}

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Its path below the tree's root.
    pub(crate) path: Box<str>,
    /// What it is.
    pub(crate) kind: IndexEntryKind,
}
