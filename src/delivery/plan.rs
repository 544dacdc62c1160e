//! The plan of a delivery: the changes to the user's trees, the paths that may not be changed, and
//! the user's changes meanwhile. It holds no content.

use std::collections::BTreeSet;

use crate::delivery::change_details::change_details;
use crate::delivery::path_state::PathState;
use crate::event::{DeliveryOutcome, HunkCount};
use crate::path::{AbsPath, RealPath, RelPath};

/// The planned changes to the user's trees.
#[derive(Clone, Debug, Default)]
pub struct DeliveryPlan {
    /// The directories that contain the entries.
    pub roots: Vec<AbsPath>,
    /// For each of them, the directory with the new content, if there is one.
    pub source_dirs: Vec<Option<AbsPath>>,
    /// One for each path that would change, by root and path.
    pub entries: Vec<DeliveryEntry>,
    /// Paths that may not be changed. If a whole directory is closed, only the directory is listed.
    pub refused: Vec<DeliveryRefusal>,
    /// Paths that are left out and that the user's tree does not need, such as what tools generate
    /// under a protected name.
    pub left_out: Vec<DeliveryRefusal>,
}

/// A path that would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryEntry {
    /// The index of its root.
    pub root: usize,
    /// The path relative to the root.
    pub rel: RelPath,
    /// The current state, which is the user's.
    pub theirs: PathState,
    /// The planned state, which is the agents'.
    pub ours: PathState,
    /// Where the content of the planned state is.
    pub source: ContentSource,
    /// The change since the run began, if it prevents this one.
    pub conflict: Option<DeliveryConflict>,
    /// Why it is applied only if the user chooses it by itself, if that is so.
    pub consent: Option<NeededConsent>,
}

/// Why an entry is applied only if the user chooses it by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededConsent {
    /// It is a symlink that leads out of its root, or to a name in it that agents may not change.
    OutgoingLink,
    /// It replaces this change of the user, or restores what they removed.
    Drift(DeliveryConflict),
}

impl NeededConsent {
    /// Returns the reason in a few words, as the end of a sentence about the entry.
    pub fn label(self) -> &'static str {
        match self {
            NeededConsent::OutgoingLink => "leads out",
            NeededConsent::Drift(DeliveryConflict::Removed) => "was removed by you",
            NeededConsent::Drift(DeliveryConflict::Changed | DeliveryConflict::Delivered) => {
                "has changes of yours"
            }
        }
    }

    /// Returns why the entry is left alone, as the end of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            NeededConsent::OutgoingLink => {
                "the symlink leads out of the directory that was opened, or to a closed name in it; \
                 `massgen apply` applies it if you choose it with `c`"
            }
            NeededConsent::Drift(conflict) => conflict.reason(),
        }
    }
}

/// Location of the content of a file to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentSource {
    /// In the source directory of its root, at its own path.
    SourceDirectory,
    /// Outside of it, composed of the agents' content and the user's.
    Composed {
        /// The number of the file among those that were composed.
        number: u32,
        /// How it was composed.
        origin: ContentOrigin,
    },
}

/// Origin of a content that neither the user nor an agent wrote as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentOrigin {
    /// The user's changes were merged with the agents'.
    Merge,
    /// The user selected a part of the agents' changes.
    Selection(HunkCount),
    /// The user selected a part of a merged text.
    SelectionOfMerge(HunkCount),
}

impl ContentOrigin {
    /// Returns how many hunks the user selected, if they left some.
    pub fn hunks(self) -> Option<HunkCount> {
        match self {
            ContentOrigin::Merge => None,
            ContentOrigin::Selection(hunks) | ContentOrigin::SelectionOfMerge(hunks) => Some(hunks),
        }
    }
}

/// The change to a path during the run, or after it, that prevents a delivery there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryConflict {
    /// The user changed or created it.
    Changed,
    /// Another delivery of the same run changed it, and is still applied.
    Delivered,
    /// The user removed it.
    Removed,
}

impl DeliveryConflict {
    /// Returns whether the user made the change.
    pub fn is_drift(self) -> bool {
        match self {
            DeliveryConflict::Changed | DeliveryConflict::Removed => true,
            DeliveryConflict::Delivered => false,
        }
    }

    /// Returns why the path is left alone, as the end of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            DeliveryConflict::Changed => "you changed it since the run began",
            DeliveryConflict::Delivered => {
                "the run has already delivered another version of it; undo that first"
            }
            DeliveryConflict::Removed => "you removed it, or its directory, since the run began",
        }
    }
}

/// A path that is left as it is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRefusal {
    /// The path.
    pub path: RealPath,
    /// The reason, as the end of a sentence.
    pub reason: String,
    /// The source of the refusal.
    pub by: RefusalSource,
}

/// Source of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalSource {
    /// A rule does not allow the change.
    Rule,
    /// The state of the disk prevents the change.
    Disk,
}

/// What a delivery does at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAction {
    /// It creates the path.
    Create,
    /// It changes what is there.
    Change,
    /// It deletes the path.
    Delete,
}

impl EntryAction {
    /// Returns the action as a verb.
    pub fn verb(self) -> &'static str {
        match self {
            EntryAction::Create => "create",
            EntryAction::Change => "change",
            EntryAction::Delete => "delete",
        }
    }

    /// Returns the outcome when it is carried out as a whole.
    pub fn outcome(self) -> DeliveryOutcome {
        match self {
            EntryAction::Create => DeliveryOutcome::Created,
            EntryAction::Change => DeliveryOutcome::Changed { hunks: None },
            EntryAction::Delete => DeliveryOutcome::Deleted,
        }
    }
}

impl DeliveryEntry {
    /// Returns how many hunks of the change the user selected, if they left some.
    pub fn hunks(&self) -> Option<HunkCount> {
        match self.source {
            ContentSource::SourceDirectory => None,
            ContentSource::Composed { origin, .. } => origin.hunks(),
        }
    }

    /// Returns what it changes in `plan` in addition to the content, for people.
    pub fn details(&self, plan: &DeliveryPlan) -> Option<String> {
        change_details(&plan.path(self), &self.theirs, &self.ours)
    }

    /// Returns what a delivery does at the path.
    pub fn action(&self) -> EntryAction {
        match (&self.theirs, &self.ours) {
            (_, PathState::Nothing) => EntryAction::Delete,
            (PathState::Nothing, _) => EntryAction::Create,
            _ => EntryAction::Change,
        }
    }

    /// Returns whether it is listed: every file and symlink, and a directory whose permission bits
    /// change.
    pub fn is_listed(&self) -> bool {
        let is_mode_change = self.theirs.is_directory() && self.ours.is_directory();
        self.is_file() || is_mode_change
    }

    /// Returns whether a file or symlink is created, removed or changed, and not only a directory.
    pub fn is_file(&self) -> bool {
        let is_file_or_link =
            |state: &PathState| matches!(state, PathState::File(_) | PathState::Link { .. });
        is_file_or_link(&self.theirs) || is_file_or_link(&self.ours)
    }
}

impl DeliveryPlan {
    /// Lets the user choose what conflicts with their own changes, each entry by itself.
    pub fn offer_drift(&mut self) {
        for entry in &mut self.entries {
            if entry.conflict.is_some_and(DeliveryConflict::is_drift) {
                entry.consent = entry.conflict.take().map(NeededConsent::Drift);
            }
        }
    }

    /// Returns the path of an entry.
    pub fn path(&self, entry: &DeliveryEntry) -> AbsPath {
        let root = self
            .roots
            .get(entry.root)
            .cloned()
            .unwrap_or_else(AbsPath::root);
        root.join(entry.rel.as_path())
    }

    /// Returns every path in it, including those that may not be changed.
    pub fn paths(&self) -> BTreeSet<AbsPath> {
        let refused_paths = self.refused.iter().map(|refusal| refusal.path.to_abs());
        let entries = self.entries.iter().map(|entry| self.path(entry));
        entries.chain(refused_paths).collect()
    }

    /// Returns whether there is nothing to decide and nothing to report.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.refused.is_empty()
    }

    /// Returns the order in which entries are applied: removals, the deepest first, then creations
    /// and changes, parents first. The reverse order reverts them.
    pub fn application_order(&self) -> Vec<usize> {
        let is_removal = |index: &usize| {
            let entry = self.entries.get(*index);
            entry.is_some_and(|entry| entry.ours.is_absent())
        };
        let indexes = || 0..self.entries.len();
        let removals = indexes().rev().filter(is_removal);
        let other_changes = indexes().filter(|index| !is_removal(index));
        removals.chain(other_changes).collect()
    }
}
