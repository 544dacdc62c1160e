//! One entry of the index of a tree, from which file names are suggested.

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexEntryKind {
    /// A directory.
    Directory,
    /// A file, or anything else that is not a directory.
    File,
}

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Its path below the tree's root.
    pub(crate) path: Box<str>,
    pub(crate) kind: IndexEntryKind,
}
