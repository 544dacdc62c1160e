//! Runs steps of a delivery as a transaction: all of them are applied or none, except that steps
//! whose paths hold someone else's changes are skipped. The journal records that a transaction is
//! open, and a process that finds it open later resumes it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::delivery::delivery_dir::{DeliveryDir, delivery_error, open_root};
use crate::world::delivery::journal::{
    DeliveryStep, Journal, JournalRecord, JournalRoot, JournalState, SlotLocation, StepDirection,
};
use crate::world::delivery::swap::{DeliveryTree, SwapOutcome, state_at};
use crate::world::sys::conditional_replace::temporary_name;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::slot;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};

/// The steps that were not applied, by number, and why.
pub(super) type SkippedSteps = BTreeMap<u32, SwapOutcome>;

/// A transaction that is open in the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalTransaction {
    pub(super) direction: StepDirection,
    /// The offset of its line in the journal, in bytes.
    pub(super) start: u64,
}

/// The result of the rollback of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RollbackResult {
    /// Nothing is changed, and no transaction is open in the journal.
    Done,
    /// The journal records the rollback, so the next start completes it.
    NextStartRollsBack,
    /// The journal does not record the rollback, so the next start completes the transaction.
    NextStartCompletes,
}

impl RollbackResult {
    fn message(self) -> &'static str {
        match self {
            Self::Done => "nothing was changed: the changes so far were rolled back",
            Self::NextStartRollsBack => {
                "the changes so far could not be rolled back yet; the next start of massgen does \
                 it"
            }
            Self::NextStartCompletes => {
                "the rollback could not be recorded; the next start completes the delivery"
            }
        }
    }
}

/// Runs the steps of a delivery in the trees that contain the changed paths.
#[derive(Debug)]
pub(super) struct StepRunner {
    delivery_dir: DeliveryDir,
    journal: Journal,
    roots: Vec<JournalRoot>,
    /// All steps, by number.
    pub(super) steps: Vec<DeliveryStep>,
    /// The tree of each root; `None` until it is opened.
    trees: Vec<Option<DeliveryTree>>,
    /// The hidden directories for slots, each with the number of its root.
    slot_directories: Vec<(usize, String)>,
}

/// Returns why a transaction failed, and the result of its rollback.
fn rollback_error(cause: &Error, result: RollbackResult) -> Error {
    let message = format!("{cause}; {}", result.message());
    with_hints_of(cause, Error::new(ErrorKind::Io, message))
}

/// Returns `error` with the hints of `cause`.
fn with_hints_of(cause: &Error, error: Error) -> Error {
    cause.hints().iter().cloned().fold(error, Error::with_hint)
}

/// Returns whether a step is applied: then its slot does not hold the delivered version any more.
/// This holds for all steps but a change of a directory's mode, which has no slot.
pub(super) fn is_applied(step: &DeliveryStep, slots: &DirectoryHandle) -> Result<bool> {
    let slot = step.slot();
    let in_slot = state_at(slots, OsStr::new(&slot));
    let in_slot = in_slot.map_err(|error| {
        Error::new(
            ErrorKind::Io,
            format!("cannot look at slot `{slot}` of the delivery: {error}"),
        )
    })?;
    Ok(!step.ours.is_unchanged(&in_slot))
}

impl StepRunner {
    /// Starts a new delivery to these trees.
    pub(super) fn begin(delivery_dir: DeliveryDir, roots: &[AbsPath]) -> Result<Self> {
        dir::create_all(&delivery_dir.slots(), DirectoryAudience::User)?;
        let slots = open_root(&delivery_dir.slots())?;
        let journal_root = |path: &AbsPath| {
            let is_same_mount = slot::is_same_mount(&open_root(path)?, &slots)
                .map_err(|error| delivery_error("look at", path, error))?;
            Ok(JournalRoot {
                path: path.clone(),
                slots: if is_same_mount {
                    SlotLocation::Delivery
                } else {
                    SlotLocation::Root
                },
            })
        };
        let roots = roots.iter().map(journal_root).collect::<Result<Vec<_>>>()?;
        let journal = Journal::create(delivery_dir.journal(), delivery_dir.seal()?, roots.clone())?;
        let mut runner = Self::new(delivery_dir, journal, roots, Vec::new());
        runner.open_slot_dirs()?;
        Ok(runner)
    }

    /// Resumes a delivery from its journal. Steps that were prepared for a transaction that did not
    /// begin are discarded.
    pub(super) fn from_journal(delivery_dir: DeliveryDir, state: JournalState) -> Result<Self> {
        let journal = Journal::reopen(delivery_dir.journal(), &state)?;
        let mut runner = Self::new(delivery_dir, journal, state.roots, state.steps);
        runner.slot_directories = state.slot_directories;
        // If none has begun yet, the recovery removes the whole journal.
        if state.transaction_steps > 0 {
            runner.discard_from(state.transaction_steps)?;
        }
        Ok(runner)
    }

    fn new(
        delivery_dir: DeliveryDir,
        journal: Journal,
        roots: Vec<JournalRoot>,
        steps: Vec<DeliveryStep>,
    ) -> Self {
        let trees = roots.iter().map(|_| None).collect();
        Self {
            delivery_dir,
            journal,
            roots,
            steps,
            trees,
            slot_directories: Vec::new(),
        }
    }

    /// Returns the trees that contain the changed paths.
    pub(super) fn root_paths(&self) -> Vec<AbsPath> {
        self.roots.iter().map(|root| root.path.clone()).collect()
    }

    /// Returns the path that a step changes.
    pub(super) fn path(&self, step: &DeliveryStep) -> AbsPath {
        let root = self.roots.get(step.root).map(|root| root.path.clone());
        root.unwrap_or_else(AbsPath::root).join(step.rel.as_path())
    }

    /// Returns whether this root has slots of its own while steps run, because the delivery's slots
    /// are on another file system.
    pub(super) fn has_separate_slots(&self, root: usize) -> bool {
        self.roots
            .get(root)
            .is_some_and(|root| root.slots == SlotLocation::Root)
    }

    /// Adds a step whose slot has been filled.
    pub(super) fn add_step(&mut self, step: DeliveryStep) -> Result<()> {
        self.journal.add(&JournalRecord::Step(step.clone()))?;
        self.steps.push(step);
        Ok(())
    }

    /// Replaces the step that has the same number.
    pub(super) fn replace_step(&mut self, step: DeliveryStep) -> Result<()> {
        self.journal.add(&JournalRecord::Step(step.clone()))?;
        let number = usize::try_from(step.number).ok();
        if let Some(earlier_step) = number.and_then(|number| self.steps.get_mut(number)) {
            *earlier_step = step;
        }
        Ok(())
    }

    /// Returns the tree of the root with this number, with its slots. Opens it if it is not open.
    pub(super) fn delivery_tree(&mut self, root: usize) -> Result<&mut DeliveryTree> {
        let journal_root = self
            .roots
            .get(root)
            .cloned()
            .ok_or_else(|| Error::bug(format!("a step names no root: {root}")))?;
        if self.trees.get(root).is_none_or(Option::is_none) {
            let tree = open_root(&journal_root.path)?;
            // The last one counts: an interrupted transaction may have left one behind.
            let slot_directory = self
                .slot_directories
                .iter()
                .rev()
                .find(|(root_number, _)| *root_number == root);
            let slots = match (journal_root.slots, slot_directory) {
                (SlotLocation::Root, Some((_, name))) => journal_root.path.join(name),
                (SlotLocation::Root | SlotLocation::Delivery, _) => self.delivery_dir.slots(),
            };
            let slots = open_root(&slots)?;
            if let Some(delivery_tree) = self.trees.get_mut(root) {
                *delivery_tree = Some(DeliveryTree::new(journal_root.path, tree, slots));
            }
        }
        let delivery_tree = self.trees.get_mut(root).and_then(Option::as_mut);
        delivery_tree.ok_or_else(|| Error::bug(format!("a step names no root: {root}")))
    }

    /// Applies the selected steps, or all if none are selected, in this direction. If one fails,
    /// none is applied. Steps whose paths hold someone else's changes are skipped and returned.
    pub(super) fn run_transaction(
        &mut self,
        direction: StepDirection,
        selected_steps: Option<Vec<u32>>,
    ) -> Result<SkippedSteps> {
        // All that the transaction needs is on disk before the journal says that it has begun.
        self.sync_slots()?;
        let step_numbers = self.step_numbers(selected_steps.as_ref());
        self.journal.sync()?;
        let transaction = JournalTransaction {
            direction,
            start: self.journal.len(),
        };
        let begin_result = self.journal.add(&JournalRecord::TransactionBegun {
            direction,
            selected_steps,
        });
        match begin_result.and_then(|()| self.journal.sync()) {
            Ok(()) => self.run_steps(transaction, &step_numbers),
            Err(error) => {
                let result = match self.journal.truncate(transaction.start) {
                    Ok(()) => RollbackResult::Done,
                    Err(_) => RollbackResult::NextStartCompletes,
                };
                Err(rollback_error(&error, result))
            }
        }
    }

    /// Resumes an interrupted transaction.
    pub(super) fn resume(
        &mut self,
        transaction: JournalTransaction,
        selected_steps: Option<&Vec<u32>>,
        is_rolling_back: bool,
    ) -> Result<()> {
        let step_numbers = self.step_numbers(selected_steps);
        if is_rolling_back {
            self.apply_steps(transaction.direction.reversed(), &step_numbers)?;
            self.sync_trees(&step_numbers)?;
            self.record_end()?;
            return self.clear_slot_dirs();
        }
        self.run_steps(transaction, &step_numbers).map(drop)
    }

    /// Returns the numbers of the steps of a transaction; all of them if none are selected.
    fn step_numbers(&self, selected_steps: Option<&Vec<u32>>) -> BTreeSet<u32> {
        match selected_steps {
            Some(numbers) => numbers.iter().copied().collect(),
            None => self.steps.iter().map(|step| step.number).collect(),
        }
    }

    /// Applies the steps and ends the transaction. If one fails, the earlier ones are rolled back.
    fn run_steps(
        &mut self,
        transaction: JournalTransaction,
        step_numbers: &BTreeSet<u32>,
    ) -> Result<SkippedSteps> {
        let journal_length = self.journal.len();
        let apply_result = self
            .apply_steps(transaction.direction, step_numbers)
            .and_then(|skipped| {
                self.sync_trees(step_numbers)?;
                self.record_end()?;
                Ok(skipped)
            });
        let result = match &apply_result {
            // The transaction has ended, so there is nothing to roll back.
            Ok(_) => RollbackResult::Done,
            // The transaction is open again, even if a part of its end was written.
            Err(_) => match self.journal.truncate(journal_length) {
                Ok(()) => self.roll_back(transaction, step_numbers),
                Err(_) => RollbackResult::NextStartCompletes,
            },
        };
        if result == RollbackResult::Done {
            // The next start removes what cannot be removed now.
            drop(self.clear_slot_dirs());
        }
        apply_result.map_err(|error| rollback_error(&error, result))
    }

    /// Rolls back the steps of a transaction. If the journal cannot be written, as on a full disk,
    /// it is truncated to what it was before the transaction.
    fn roll_back(
        &mut self,
        transaction: JournalTransaction,
        step_numbers: &BTreeSet<u32>,
    ) -> RollbackResult {
        let record_result = self
            .journal
            .add(&JournalRecord::RollbackBegun)
            .and_then(|()| self.journal.sync());
        let rollback_result = self
            .apply_steps(transaction.direction.reversed(), step_numbers)
            .and_then(|_| self.sync_trees(step_numbers))
            .and_then(|()| {
                self.record_end()
                    .or_else(|_| self.journal.truncate(transaction.start))
            });
        match (rollback_result, record_result) {
            (Ok(()), _) => RollbackResult::Done,
            (Err(_), Ok(())) => RollbackResult::NextStartRollsBack,
            (Err(_), Err(_)) => RollbackResult::NextStartCompletes,
        }
    }

    fn apply_steps(
        &mut self,
        direction: StepDirection,
        step_numbers: &BTreeSet<u32>,
    ) -> Result<SkippedSteps> {
        let mut skipped = SkippedSteps::new();
        let count = self.steps.len();
        for offset in 0..count {
            let index = match direction {
                StepDirection::Forward => offset,
                StepDirection::Back => count.saturating_sub(offset).saturating_sub(1),
            };
            let Some(step) = self.steps.get(index).cloned() else {
                continue;
            };
            if !step_numbers.contains(&step.number) {
                continue;
            }
            let delivery_tree = self.delivery_tree(step.root)?;
            let swap_result = delivery_tree.swap(&step, direction);
            let path = delivery_tree.path.join(step.rel.as_path());
            match swap_result.map_err(|error| delivery_error("deliver", &path, error))? {
                SwapOutcome::Done => {}
                outcome @ (SwapOutcome::Changed | SwapOutcome::NotEmpty) => {
                    skipped.insert(step.number, outcome);
                }
            }
        }
        Ok(skipped)
    }

    /// Syncs the trees of all steps to disk, after copying back slots that are on their file
    /// systems.
    fn sync_trees(&mut self, step_numbers: &BTreeSet<u32>) -> Result<()> {
        self.copy_back_slots(step_numbers)?;
        for root in 0..self.roots.len() {
            if self.steps.iter().any(|step| step.root == root) {
                let delivery_tree = self.delivery_tree(root)?;
                let sync_result = delivery_tree.root.sync_file_system();
                sync_result
                    .map_err(|error| delivery_error("write", &delivery_tree.path.clone(), error))?;
            }
        }
        Ok(())
    }

    /// Records the end of a transaction whose files are on disk.
    fn record_end(&mut self) -> Result<()> {
        self.journal.add(&JournalRecord::TransactionEnded)?;
        if self.slot_directories.is_empty() {
            self.journal.add(&JournalRecord::SlotDirectoriesRemoved)?;
        }
        self.journal.sync()
    }

    fn sync_slots(&mut self) -> Result<()> {
        let slots = open_root(&self.delivery_dir.slots())?;
        let write_error = |error| delivery_error("write", &self.delivery_dir.slots(), error);
        slots.sync_file_system().map_err(write_error)?;
        for root in 0..self.roots.len() {
            if self.has_separate_slots(root) {
                let delivery_tree = self.delivery_tree(root)?;
                let sync_result = delivery_tree.slots.sync_file_system();
                sync_result
                    .map_err(|error| delivery_error("write", &delivery_tree.path.clone(), error))?;
            }
        }
        Ok(())
    }
}

/// Slots of trees on other file systems.
impl StepRunner {
    /// Creates a hidden directory for the transaction in each tree on another file system.
    pub(super) fn open_slot_dirs(&mut self) -> Result<()> {
        for root in 0..self.roots.len() {
            if !self.has_separate_slots(root) {
                continue;
            }
            let name = temporary_name().to_string_lossy().into_owned();
            self.journal.add(&JournalRecord::SlotDirectory {
                root,
                name: name.clone(),
            })?;
            self.journal.sync()?;
            let path = self
                .roots
                .get(root)
                .map(|root| root.path.join(&name))
                .ok_or_else(|| Error::bug("a slot directory has no root"))?;
            dir::create(&path)?;
            self.slot_directories.push((root, name));
        }
        self.close_trees();
        Ok(())
    }

    /// Closes the trees, because the directories of their slots have changed.
    fn close_trees(&mut self) {
        self.trees
            .iter_mut()
            .for_each(|delivery_tree| *delivery_tree = None);
    }

    /// Copies the slots of these steps to the file system where they can be swapped.
    pub(super) fn fill_slot_dirs(&mut self, step_numbers: &[u32]) -> Result<()> {
        let slots = open_root(&self.delivery_dir.slots())?;
        for step in self.separate_steps(&step_numbers.iter().copied().collect()) {
            let delivery_tree = self.delivery_tree(step.root)?;
            let result = slot::duplicate(&slots, &delivery_tree.slots, OsStr::new(&step.slot()));
            match result {
                // The slot is empty if the step only removes or only creates.
                Ok(()) | Err(FileSystemError::Missing) => {}
                Err(error) => {
                    return Err(delivery_error("write", &delivery_tree.path.clone(), error));
                }
            }
        }
        Ok(())
    }

    /// Copies slots on other file systems back to the delivery's directory, where they are kept.
    fn copy_back_slots(&mut self, step_numbers: &BTreeSet<u32>) -> Result<()> {
        let steps = self.separate_steps(step_numbers);
        if steps.is_empty() {
            return Ok(());
        }
        let path = self.delivery_dir.slots();
        let kept_slots = open_root(&path)?;
        for step in &steps {
            let name = step.slot();
            clear::remove(&path.join(&name))?;
            let slots = &self.delivery_tree(step.root)?.slots;
            match slot::duplicate(slots, &kept_slots, OsStr::new(&name)) {
                Ok(()) | Err(FileSystemError::Missing) => {}
                Err(error) => return Err(delivery_error("write", &path, error)),
            }
        }
        let sync_result = kept_slots.sync_file_system();
        sync_result.map_err(|error| delivery_error("write", &path, error))
    }

    /// Returns those of the steps whose slots are on another file system than the delivery.
    fn separate_steps(&self, step_numbers: &BTreeSet<u32>) -> Vec<DeliveryStep> {
        let has_separate_slot = |step: &&DeliveryStep| {
            // A step that only changes the mode of a directory has no slot.
            let are_directories = step.theirs.is_directory() && step.ours.is_directory();
            step_numbers.contains(&step.number)
                && self.has_separate_slots(step.root)
                && !are_directories
        };
        self.steps
            .iter()
            .filter(has_separate_slot)
            .cloned()
            .collect()
    }

    /// Removes the hidden directories of a transaction that has ended.
    pub(super) fn clear_slot_dirs(&mut self) -> Result<()> {
        if self.slot_directories.is_empty() {
            return Ok(());
        }
        self.remove_slot_dirs()?;
        self.journal.add(&JournalRecord::SlotDirectoriesRemoved)?;
        self.journal.sync()
    }

    fn remove_slot_dirs(&mut self) -> Result<()> {
        for (root, name) in std::mem::take(&mut self.slot_directories) {
            if let Some(root) = self.roots.get(root) {
                clear::remove(&root.path.join(name))?;
            }
        }
        self.close_trees();
        Ok(())
    }

    /// Discards the steps from this number on, because they could not be prepared. Returns `error`,
    /// which says why; if the steps could not be discarded either, it says that too.
    pub(super) fn discard_after_error(&mut self, number: usize, error: Error) -> Error {
        let Err(discard_error) = self.discard_from(number) else {
            return error;
        };
        let message =
            format!("{error:#}; the prepared files could not be removed: {discard_error:#}");
        with_hints_of(&error, Error::new(error.kind(), message))
    }

    /// Discards the steps from this number on, which are only prepared and have changed no path of
    /// the user's. From step 0 on, the whole journal is removed.
    pub(super) fn discard_from(&mut self, number: usize) -> Result<()> {
        if number == 0 {
            self.remove_slot_dirs()?;
            clear::remove(&self.delivery_dir.slots())?;
            return clear::remove(&self.delivery_dir.journal());
        }
        for step in self.steps.split_off(number.min(self.steps.len())) {
            clear::remove(&self.delivery_dir.slots().join(step.slot()))?;
        }
        Ok(())
    }
}
