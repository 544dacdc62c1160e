//! Owns the plan of a delivery: the list of what would change in the user's trees, with what may not
//! be changed and what the user has changed meanwhile. It holds no content.

use std::collections::BTreeSet;

use crate::delivery::path_state::PathState;
use crate::path::{AbsPath, RealPath, RelPath};

/// What a delivery would change in the user's trees.
#[derive(Clone, Debug, Default)]
pub struct DeliveryPlan {
    /// The directories that the entries lie below.
    pub roots: Vec<AbsPath>,
    /// For each of them, the directory that holds what is to come there.
    pub origins: Vec<Option<AbsPath>>,
    /// One for each name that would change, by root and path.
    pub entries: Vec<DeliveryEntry>,
    /// Names that may not be changed. Of a directory that is closed as a whole, only it is named.
    pub refused: Vec<DeliveryRefusal>,
    /// Names that nobody misses in the user's tree, such as what tools generate under a closed name.
    pub left_out: Vec<DeliveryRefusal>,
}

/// One name that would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryEntry {
    /// Below which of the roots.
    pub root: usize,
    /// Where, seen from the root.
    pub rel: RelPath,
    /// What stands there.
    pub theirs: PathState,
    /// What is to stand there.
    pub ours: PathState,
    /// Where the content of our file is.
    pub source: ContentSource,
    /// What the user did there meanwhile, if that forbids the change.
    pub conflict: Option<DeliveryConflict>,
}

/// Where the content of a file is that is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentSource {
    /// In the layer, under its own name.
    Layer,
    /// Beside the layer, made of the layer's content and the user's: merged, or chosen in parts.
    Made {
        /// Which of the files that were made.
        number: u32,
        /// How.
        how: ContentOrigin,
    },
}

/// How a content came to be that neither the user nor an agent wrote as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentOrigin {
    /// The user's changes and ours did not touch each other.
    Merged,
    /// The user took a part of ours.
    Chosen,
}

/// What the user did at a name while the run went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryConflict {
    /// They changed or made what stands there.
    Changed,
    /// They removed what stood there.
    Removed,
}

impl DeliveryConflict {
    /// Why the name is left alone, as the end of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            DeliveryConflict::Changed => "you changed it since the run began",
            DeliveryConflict::Removed => "you removed it, or its directory, since the run began",
        }
    }
}

/// A name that is left as it is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRefusal {
    /// Where it is.
    pub path: RealPath,
    /// Why, as the end of a sentence.
    pub reason: String,
    /// What says so.
    pub by: RefusalSource,
}

/// What says that a name is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalSource {
    /// A rule.
    Rule,
    /// The disk.
    Disk,
}

/// What happens at a name, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAction {
    /// Nothing stood there before.
    Create,
    /// Something else stands there after.
    Change,
    /// Nothing stands there after.
    Delete,
}

impl DeliveryEntry {
    /// What happens there.
    pub fn action(&self) -> EntryAction {
        match (&self.theirs, &self.ours) {
            (_, PathState::Nothing) => EntryAction::Delete,
            (PathState::Nothing, _) => EntryAction::Create,
            _ => EntryAction::Change,
        }
    }

    /// Whether it is told by name: every file and link, and a directory that gets other permission bits.
    pub fn is_listed(&self) -> bool {
        let is_mode = self.theirs.is_directory() && self.ours.is_directory();
        self.is_file() || is_mode
    }

    /// Whether a file or link comes, goes or changes, and not only a directory.
    pub fn is_file(&self) -> bool {
        let counts =
            |stand: &PathState| matches!(stand, PathState::File(_) | PathState::Link { .. });
        counts(&self.theirs) || counts(&self.ours)
    }
}

impl DeliveryPlan {
    /// Where an entry lies.
    pub fn path(&self, entry: &DeliveryEntry) -> AbsPath {
        let root = self.roots.get(entry.root).cloned();
        let root = root.unwrap_or_else(AbsPath::top);
        root.join(entry.rel.as_path())
    }

    /// Every path of it, of what may not be changed too.
    pub fn paths(&self) -> BTreeSet<AbsPath> {
        let refused = self.refused.iter().map(|refusal| refusal.path.to_abs());
        let entries = self.entries.iter().map(|entry| self.path(entry));
        entries.chain(refused).collect()
    }

    /// Whether there is nothing to decide and nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.refused.is_empty()
    }

    /// The order in which entries are applied: what goes, the deepest first, then what comes or
    /// changes, parents first. The other way round takes them back.
    pub fn order(&self) -> Vec<usize> {
        let goes = |index: &usize| self.entries.get(*index).is_some_and(|e| e.ours.is_absent());
        let all = || 0..self.entries.len();
        let going = all().rev().filter(goes);
        going.chain(all().filter(|index| !goes(index))).collect()
    }
}
