//! Applied deliveries: shows the state of each path, undoes a delivery byte for byte, and applies
//! it again, also in part. Paths that have been changed since stay unless the user wants otherwise;
//! then the changed version is moved to the slot, so that even that can be restored.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use rustix::fs::Mode;

use crate::delivery::change_details::change_details;
use crate::delivery::choice::{DeliveryChoice, resolve_choices};
use crate::delivery::hunks::{HunkChoice, apply_hunks};
use crate::delivery::path_state::PathState;
use crate::delivery::plan::{
    ContentSource, DeliveryConflict, DeliveryEntry, DeliveryPlan, EntryAction,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::HunkCount;
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::contents::{self, DeliveryDifference, DiffSide, FileContents};
use crate::world::delivery::delivery_dir::{delivery_error, open_root};
use crate::world::delivery::journal::{DeliveryStep, StepDirection};
use crate::world::delivery::layer_file::restore_layer_file;
use crate::world::delivery::planning::PartialFiles;
use crate::world::delivery::read_state::file_state;
use crate::world::delivery::recovery::recover_delivery;
use crate::world::delivery::step_runner::{SkippedSteps, StepRunner, is_applied};
use crate::world::delivery::store::OpenDelivery;
use crate::world::delivery::swap::SwapOutcome;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::slot::{self, FileAttributes};

/// The current state of a delivered path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveredState {
    /// The delivered version.
    Applied,
    /// The version before the delivery.
    Reverted,
    /// Another version: it has been changed since.
    Changed,
}

/// What to do with paths that have been changed since the delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedFilePolicy {
    /// They stay.
    Kept,
    /// They are replaced, and the changed version is kept with the delivery.
    Replaced,
}

/// The direction in which the steps of a delivery are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoDirection {
    /// Back to the state before the delivery.
    Undo,
    /// To the delivered state again.
    Redo,
}

/// The result for one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoRow {
    /// The path.
    pub path: AbsPath,
    /// What was done there.
    pub outcome: UndoOutcome,
}

/// What was done at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoOutcome {
    /// The previous file was restored.
    Restored,
    /// So many hunks of the delivered file were applied again.
    PartlyRestored(HunkCount),
    /// The delivered file was removed.
    Removed,
    /// It was left as it is, for this reason.
    Left(&'static str),
}

/// What was reverted at one path.
#[derive(Clone, Debug)]
pub struct RevertedChange {
    /// The path.
    pub path: AbsPath,
    /// What was done there.
    pub action: EntryAction,
    /// The index of the step that leads to the delivered version.
    last_step: usize,
}

/// Which part of a reverted file is applied again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReappliedPart {
    /// What was applied of it before.
    AsBefore,
    /// All that is offered of it.
    Whole,
    /// These hunks of what is offered.
    Hunks(Vec<HunkChoice>),
}

/// A step that takes other hunks of a reverted file than those that were applied before.
#[derive(Clone, Copy, Debug)]
struct HunkStep {
    number: u32,
    /// How many hunks it takes; `None` if it takes all.
    hunks: Option<HunkCount>,
}

/// A delivery that was applied.
#[derive(Debug)]
pub struct AppliedDelivery {
    delivery: Arc<OpenDelivery>,
    runner: StepRunner,
    /// The state of each step's path.
    states: Vec<DeliveredState>,
    /// Whether each step is currently applied.
    applied_flags: Vec<bool>,
}

impl AppliedDelivery {
    /// Inspects every path of `delivery`; `None` if nothing of it was applied. An interrupted
    /// transaction is recovered first. Other parts of this process may still read the delivery.
    pub fn open(delivery: impl Into<Arc<OpenDelivery>>) -> Result<Option<Self>> {
        let delivery = delivery.into();
        recover_delivery(&delivery)?;
        let Some(journal) = delivery.read_journal()? else {
            return Ok(None);
        };
        let runner = StepRunner::from_journal(delivery.delivery_dir.clone(), journal)?;
        let mut applied_delivery = Self {
            delivery,
            runner,
            states: Vec::new(),
            applied_flags: Vec::new(),
        };
        applied_delivery.inspect()?;
        Ok(Some(applied_delivery))
    }

    /// Returns the name of the delivery.
    pub fn name(&self) -> &str {
        self.delivery.name()
    }

    /// Returns the trees that contain its paths.
    pub fn roots(&self) -> Vec<AbsPath> {
        self.runner.root_paths()
    }

    /// Returns every file, symlink and directory with a changed mode, with what was done there and
    /// its current state.
    pub fn listed_paths(&self) -> impl Iterator<Item = (AbsPath, EntryAction, DeliveredState)> {
        let pairs = self.runner.steps.iter().zip(&self.states);
        pairs.filter_map(|(step, state)| {
            let entry = plan_entry(step, StepDirection::Forward);
            let path = self.runner.path(step);
            entry.is_listed().then(|| (path, entry.action(), *state))
        })
    }

    /// Returns what was reverted, sorted by path.
    pub fn reverted_changes(&self) -> Vec<RevertedChange> {
        let mut reverted: BTreeMap<AbsPath, RevertedChange> = BTreeMap::new();
        for (index, (step, state)) in self.runner.steps.iter().zip(&self.states).enumerate() {
            let entry = plan_entry(step, StepDirection::Forward);
            if *state != DeliveredState::Reverted || !entry.is_listed() {
                continue;
            }
            let path = self.runner.path(step);
            let change = RevertedChange {
                path: path.clone(),
                action: entry.action(),
                last_step: index,
            };
            reverted
                .entry(path)
                .and_modify(|change| change.last_step = index)
                .or_insert(change);
        }
        reverted.into_values().collect()
    }

    /// Returns both sides of a change that was reverted, as it was applied.
    pub fn reverted_difference(&mut self, change: &RevertedChange) -> Result<DeliveryDifference> {
        let step = self.last_step(change)?;
        self.difference(&step, DeliveredState::Reverted)
    }

    /// Returns both sides of what can be applied of a file that was reverted: also the hunks that
    /// were not applied before.
    pub fn offered_difference(&mut self, change: &RevertedChange) -> Result<DeliveryDifference> {
        let step = self.last_step(change)?;
        self.offered_sides(&step)
    }

    fn last_step(&self, change: &RevertedChange) -> Result<DeliveryStep> {
        let step = self.runner.steps.get(change.last_step).cloned();
        step.ok_or_else(|| Error::bug("a change that was reverted has no step"))
    }

    /// Returns both sides of what can be applied of the file of `last_step`, which was reverted.
    fn offered_sides(&mut self, last_step: &DeliveryStep) -> Result<DeliveryDifference> {
        let mut sides = self.difference(last_step, DeliveredState::Reverted)?;
        if last_step.hunks.is_none() {
            // What was delivered as a whole at first may be gone from the layer.
            if let Some(first_step) = self.first_whole_step(last_step) {
                sides.after = self
                    .difference(&first_step, DeliveredState::Reverted)?
                    .after;
            }
            return Ok(sides);
        }
        // Of a file with a number of hunks, the rest is in the agents' version.
        if let Some(FileContents::Whole(bytes)) = self.layer_contents(last_step)?
            && let Ok(text) = String::from_utf8(bytes)
        {
            sides.after = DiffSide::Text(text);
        }
        Ok(sides)
    }

    /// Returns the first step of the file of `last_step`, if it delivered the file as a whole and
    /// is reverted too.
    fn first_whole_step(&self, last_step: &DeliveryStep) -> Option<DeliveryStep> {
        let mut steps = self.runner.steps.iter().zip(&self.states);
        let (first_step, state) =
            steps.find(|(step, _)| step.root == last_step.root && step.rel == last_step.rel)?;
        let is_whole = first_step.hunks.is_none() && *state == DeliveredState::Reverted;
        (is_whole && first_step.number != last_step.number).then(|| first_step.clone())
    }

    /// Returns whether some path is as it was delivered.
    pub fn is_applied(&self) -> bool {
        self.listed_paths()
            .any(|(.., state)| state == DeliveredState::Applied)
    }

    /// Returns whether some path was not reverted, even if it has been changed since.
    pub fn is_in_effect(&self) -> bool {
        let mut steps = self.runner.steps.iter().zip(&self.applied_flags);
        steps.any(|(step, is_applied)| {
            *is_applied && plan_entry(step, StepDirection::Forward).is_listed()
        })
    }

    /// Returns the files of which some hunks were delivered, if they are still as they were
    /// delivered: the rest of their hunks can be offered.
    pub fn partial_files(&self) -> PartialFiles {
        let mut partial_paths = BTreeSet::new();
        // The last applied step of a path determines what is there.
        for (index, step) in self.runner.steps.iter().enumerate() {
            let file_key = (step.root, step.rel.clone());
            let is_applied = self.states.get(index) == Some(&DeliveredState::Applied);
            if is_applied && step.hunks.is_some() {
                partial_paths.insert(file_key);
            } else if is_applied {
                partial_paths.remove(&file_key);
            }
        }
        PartialFiles(partial_paths)
    }

    /// Returns both sides of every change, sorted by path.
    pub fn differences(&mut self) -> impl Iterator<Item = Result<DeliveryDifference>> + '_ {
        let mut steps: Vec<(DeliveryStep, DeliveredState)> = self
            .runner
            .steps
            .iter()
            .cloned()
            .zip(self.states.clone())
            .collect();
        steps.sort_by(|(a, _), (b, _)| (a.root, &a.rel).cmp(&(b.root, &b.rel)));
        // Of a path that was applied in several parts, one step has both sides of the whole change.
        steps.dedup_by(|later, earlier| {
            let is_same = (later.0.root, &later.0.rel) == (earlier.0.root, &earlier.0.rel);
            if is_same && earlier.1 == DeliveredState::Reverted {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        steps
            .into_iter()
            .map(|(step, state)| self.difference(&step, state))
    }

    /// Undoes or reapplies all paths within `paths`, or all paths if that is empty.
    ///
    /// # Errors
    /// What had been done is rolled back, now or by the next start of massgen, as the error says.
    pub fn undo_or_redo(
        mut self,
        direction: UndoDirection,
        paths: &[AbsPath],
        changed_files: ChangedFilePolicy,
    ) -> Result<Vec<UndoRow>> {
        let order = self.applicable_steps(direction);
        if changed_files == ChangedFilePolicy::Replaced {
            self.refuse_special(&order, paths)?;
            self.accept_current_versions(&order, paths, direction.step_direction())?;
        }
        let is_wanted = |path: &AbsPath, _: &DeliveryEntry| is_selected(path, paths);
        self.run_wanted_steps(direction, &order, &is_wanted, &BTreeMap::new())
    }

    /// Applies these parts of files that were reverted.
    ///
    /// # Errors
    /// As of [`Self::undo_or_redo`].
    pub fn reapply(mut self, parts: &BTreeMap<AbsPath, ReappliedPart>) -> Result<Vec<UndoRow>> {
        let is_wanted = |path: &AbsPath, entry: &DeliveryEntry| {
            // A directory is removed with the selected files in it.
            let is_removal = entry.ours.is_absent() && !entry.is_file();
            let holds_one = || parts.keys().any(|selected| selected.is_within(path));
            parts.contains_key(path) || (is_removal && holds_one())
        };
        let order = self.applicable_steps(UndoDirection::Redo);
        self.run_wanted_steps(UndoDirection::Redo, &order, &is_wanted, parts)
    }

    /// Returns the indices of the steps that can be taken in this direction, sorted by path.
    fn applicable_steps(&self, direction: UndoDirection) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.runner.steps.len()).collect();
        order.sort_by_key(|index| {
            self.runner
                .steps
                .get(*index)
                .map(|s| (s.root, s.rel.clone()))
        });
        // Only what is applied can be undone, and only what is not can be applied again.
        let must_be_applied = direction == UndoDirection::Undo;
        order.retain(|index| self.applied_flags.get(*index) == Some(&must_be_applied));
        order
    }

    /// Takes those of the steps in `order` whose entries are wanted. Of a file that is applied
    /// again, only its part in `parts` remains.
    fn run_wanted_steps(
        &mut self,
        direction: UndoDirection,
        order: &[usize],
        is_wanted: &dyn Fn(&AbsPath, &DeliveryEntry) -> bool,
        parts: &BTreeMap<AbsPath, ReappliedPart>,
    ) -> Result<Vec<UndoRow>> {
        let mut plan = DeliveryPlan {
            roots: self.runner.root_paths(),
            ..DeliveryPlan::default()
        };
        let mut wanted_choices = Vec::new();
        for index in order {
            let Some(step) = self.runner.steps.get(*index) else {
                continue;
            };
            let mut entry = plan_entry(step, direction.step_direction());
            if self.states.get(*index) == Some(&DeliveredState::Changed) {
                entry.conflict = Some(DeliveryConflict::Changed);
            }
            wanted_choices.push(if is_wanted(&self.runner.path(step), &entry) {
                DeliveryChoice::Apply
            } else {
                DeliveryChoice::Leave
            });
            plan.entries.push(entry);
        }
        let choices = resolve_choices(&plan, &wanted_choices);
        let numbers: Vec<u32> = order
            .iter()
            .zip(&choices)
            .filter(|(_, choice)| **choice == DeliveryChoice::Apply)
            .filter_map(|(index, _)| self.runner.steps.get(*index).map(|step| step.number))
            .collect();
        let (skipped, hunk_steps) = self.run_steps(direction, numbers, parts)?;
        let mut rows = Vec::new();
        for (((index, entry), choice), wanted_choice) in order
            .iter()
            .zip(&plan.entries)
            .zip(&choices)
            .zip(&wanted_choices)
        {
            let number = self.runner.steps.get(*index).map(|step| step.number);
            let skip_reason = number.and_then(|number| skipped.get(&number).copied());
            let Some(outcome) = step_outcome(entry, *choice, skip_reason, *wanted_choice) else {
                continue;
            };
            if entry.is_listed() || matches!(outcome, UndoOutcome::Left(_)) {
                let path = plan.path(entry);
                add_row(&mut rows, UndoRow { path, outcome }, direction);
            }
        }
        for row in &mut rows {
            if row.outcome == UndoOutcome::Restored
                && let Some(step) = hunk_steps.get(&row.path)
                && let Some(hunks) = step.hunks
                && !skipped.contains_key(&step.number)
            {
                row.outcome = UndoOutcome::PartlyRestored(hunks);
            }
        }
        Ok(rows)
    }

    /// Takes the steps with these numbers, and in the same transaction new ones that leave only
    /// `parts` of the files. Returns the steps that were skipped, and the new ones by path.
    fn run_steps(
        &mut self,
        direction: UndoDirection,
        mut numbers: Vec<u32>,
        parts: &BTreeMap<AbsPath, ReappliedPart>,
    ) -> Result<(SkippedSteps, BTreeMap<AbsPath, HunkStep>)> {
        if numbers.is_empty() {
            return Ok((SkippedSteps::new(), BTreeMap::new()));
        }
        self.runner.open_slot_dirs()?;
        self.runner.fill_slot_dirs(&numbers)?;
        let first_number = self.runner.steps.len();
        let added_steps = match self.add_hunk_steps(&numbers, parts) {
            Ok(added_steps) => added_steps,
            Err(error) => return Err(self.runner.discard_after_error(first_number, error)),
        };
        numbers.extend(added_steps.values().map(|step| step.number));
        let skipped = self
            .runner
            .run_transaction(direction.step_direction(), Some(numbers))?;
        Ok((skipped, added_steps))
    }

    /// Adds a step after those with these `numbers` for each file whose part is not the delivered
    /// version: from that version to the part.
    fn add_hunk_steps(
        &mut self,
        numbers: &[u32],
        parts: &BTreeMap<AbsPath, ReappliedPart>,
    ) -> Result<BTreeMap<AbsPath, HunkStep>> {
        let mut added_steps = BTreeMap::new();
        for change in self.reverted_changes() {
            let last_step = self.runner.steps.get(change.last_step).cloned();
            let step = last_step.filter(|step| numbers.contains(&step.number));
            let part = parts.get(&change.path);
            if let (Some(step), Some(part)) = (step, part)
                && let Some(hunk_step) = self.add_hunk_step(&step, part)?
            {
                added_steps.insert(change.path, hunk_step);
            }
        }
        Ok(added_steps)
    }

    /// Adds a step from the version that `last_step` delivers to `part`; `None` if that is this
    /// version.
    fn add_hunk_step(
        &mut self,
        last_step: &DeliveryStep,
        part: &ReappliedPart,
    ) -> Result<Option<HunkStep>> {
        let choices = match part {
            ReappliedPart::AsBefore => return Ok(None),
            ReappliedPart::Whole => None,
            ReappliedPart::Hunks(choices) => Some(choices),
        };
        let hunks = choices.and_then(|choices| {
            let taken_flags: Vec<bool> = choices.iter().map(|hunk| hunk.is_applied).collect();
            HunkCount::of(&taken_flags)
        });
        let sides = self.offered_sides(last_step)?;
        if hunks.is_none()
            && last_step.hunks.is_none()
            && sides.after == self.difference(last_step, DeliveredState::Reverted)?.after
        {
            return Ok(None);
        }
        let path = self.runner.path(last_step);
        let changed_error = || {
            let message = format!("`{path}` was changed while you chose its hunks");
            Error::new(ErrorKind::Usage, message).with_hint("nothing was applied")
        };
        let (DiffSide::Text(old), DiffSide::Text(new), PathState::File(file)) =
            (sides.before, sides.after, &last_step.ours)
        else {
            return Err(changed_error());
        };
        let text = match choices {
            Some(choices) => apply_hunks(&old, &new, choices).ok_or_else(changed_error)?,
            None => new.clone(),
        };
        if hunks.is_some() {
            let tree = &self.runner.delivery_tree(last_step.root)?.root;
            restore_layer_file(&self.delivery, tree, last_step, &new)?;
        }
        // The rest of a merged text cannot be offered later: its plan would not merge.
        let layer_contents = self.layer_contents(last_step)?;
        let is_agents_version = layer_contents == Some(FileContents::Whole(new.into_bytes()));
        let number = u32::try_from(self.runner.steps.len())
            .ok()
            .ok_or_else(|| Error::bug("a delivery has too many steps"))?;
        let mut step = DeliveryStep {
            number,
            theirs: last_step.ours.clone(),
            hunks: hunks.filter(|_| is_agents_version),
            ..last_step.clone()
        };
        let tree = self.runner.delivery_tree(last_step.root)?;
        let owner = tree.root.meta(&last_step.rel).ok();
        let attributes = FileAttributes {
            mode: Mode::from_raw_mode(file.mode),
            modified_ns: None,
            owner: owner.map(|meta| (meta.owner, meta.group)),
        };
        let name = OsString::from(step.slot());
        let fill_result = slot::create_from_bytes(&tree.slots, &name, text.as_bytes(), &attributes);
        let slot = fill_result.map_err(|error| delivery_error("prepare", &path, error))?;
        step.ours = file_state(&slot);
        if self.runner.has_separate_slots(last_step.root) {
            step.ours = step.ours.without_inode();
        }
        self.runner.add_step(step)?;
        Ok(Some(HunkStep { number, hunks }))
    }

    /// Returns the agents' version of the file of `step`, if it is kept.
    fn layer_contents(&self, step: &DeliveryStep) -> Result<Option<FileContents>> {
        let source = self.delivery.read_source()?;
        let source_dir = self.delivery.source_dir(&source, step.root)?;
        source_dir
            .map(|source_dir| contents::read_file(&source_dir.path, &step.rel))
            .transpose()
    }

    /// Refuses to replace pipes, sockets and devices, because they could not be restored.
    fn refuse_special(&mut self, order: &[usize], paths: &[AbsPath]) -> Result<()> {
        for index in order {
            let Some(step) = self.runner.steps.get(*index).cloned() else {
                continue;
            };
            if self.states.get(*index) != Some(&DeliveredState::Changed)
                || !is_selected(&self.runner.path(&step), paths)
            {
                continue;
            }
            let path = self.runner.path(&step);
            let kind_result = self.runner.delivery_tree(step.root)?.special_file(&step);
            if let Some(kind) =
                kind_result.map_err(|error| delivery_error("look at", &path, error))?
            {
                let message = format!("`{path}` is now {kind}, which could not be kept");
                return Err(Error::new(ErrorKind::Usage, message)
                    .with_hint("move it away first; nothing was changed"));
            }
        }
        Ok(())
    }

    /// Treats the current versions at changed paths as the delivered ones, so that they are moved
    /// to the slots.
    fn accept_current_versions(
        &mut self,
        order: &[usize],
        paths: &[AbsPath],
        step_direction: StepDirection,
    ) -> Result<()> {
        let mut order = order.to_vec();
        order.sort_unstable();
        if step_direction == StepDirection::Back {
            order.reverse();
        }
        // Of the steps of one path, the one that is taken first meets the current version.
        let mut accepted_files = BTreeSet::new();
        for index in order {
            let Some(step) = self.runner.steps.get(index).cloned() else {
                continue;
            };
            if self.states.get(index) != Some(&DeliveredState::Changed)
                || !is_selected(&self.runner.path(&step), paths)
            {
                continue;
            }
            if let Some(state) = self.states.get_mut(index) {
                *state = DeliveredState::Applied;
            }
            if !accepted_files.insert((step.root, step.rel.clone())) {
                continue;
            }
            let mut current = self.current_state(&step)?;
            if self.runner.has_separate_slots(step.root) {
                current = current.without_inode();
            }
            self.runner.replace_step(match step_direction {
                StepDirection::Back => DeliveryStep {
                    ours: current,
                    hunks: None,
                    ..step
                },
                StepDirection::Forward => DeliveryStep {
                    theirs: current,
                    ..step
                },
            })?;
        }
        Ok(())
    }

    fn current_state(&mut self, step: &DeliveryStep) -> Result<PathState> {
        let path = self.runner.path(step);
        let tree = self.runner.delivery_tree(step.root)?;
        tree.current_state(step)
            .map_err(|error| delivery_error("look at", &path, error))
    }

    /// Inspects every path. A step is applied if its slot holds what existed before; a path that
    /// was delivered more than once has several steps, of which the last applied one determines the
    /// expected state.
    fn inspect(&mut self) -> Result<()> {
        let slots = open_root(&self.delivery.delivery_dir.slots())?;
        let steps = self.runner.steps.clone();
        let mut applied_flags = Vec::new();
        let mut expected = BTreeMap::new();
        for step in &steps {
            let is_applied = self.is_step_applied(step, &slots)?;
            let file_key = (step.root, step.rel.clone());
            if is_applied {
                expected.insert(file_key, step.ours.clone());
            } else {
                expected
                    .entry(file_key)
                    .or_insert_with(|| step.theirs.clone());
            }
            applied_flags.push(is_applied);
        }
        let mut states = Vec::new();
        for (step, is_applied) in steps.iter().zip(&applied_flags) {
            let current = self.current_state(step)?;
            let file_key = (step.root, step.rel.clone());
            let is_unchanged = expected
                .get(&file_key)
                .is_some_and(|state| state.is_unchanged(&current));
            states.push(match (is_unchanged, is_applied) {
                (true, true) => DeliveredState::Applied,
                (true, false) => DeliveredState::Reverted,
                (false, _) => DeliveredState::Changed,
            });
        }
        self.applied_flags = applied_flags;
        self.states = states;
        Ok(())
    }

    fn is_step_applied(&mut self, step: &DeliveryStep, slots: &DirectoryHandle) -> Result<bool> {
        if step.theirs.is_directory() && step.ours.is_directory() {
            return Ok(!step.theirs.is_unchanged(&self.current_state(step)?));
        }
        is_applied(step, slots)
    }

    fn difference(
        &mut self,
        step: &DeliveryStep,
        state: DeliveredState,
    ) -> Result<DeliveryDifference> {
        let path = self.runner.path(step);
        let root = self.runner.root_paths().get(step.root).cloned();
        let root = root.unwrap_or_else(AbsPath::root);
        let slots = self.delivery.delivery_dir.slots();
        let slot = RelPath::default()
            .child(OsStr::new(&step.slot()))
            .unwrap_or_default();
        let from_tree = || contents::read_file(&root, &step.rel);
        let from_slot = || contents::read_file(&slots, &slot);
        let no_contents = || Ok(FileContents::None);
        let (before, after): (DiffSide, DiffSide) = match state {
            DeliveredState::Applied => (
                contents::diff_side(&step.theirs, from_slot)?,
                contents::diff_side(&step.ours, from_tree)?,
            ),
            DeliveredState::Reverted => (
                contents::diff_side(&step.theirs, from_tree)?,
                contents::diff_side(&step.ours, from_slot)?,
            ),
            DeliveredState::Changed => (
                contents::diff_side(&step.theirs, from_slot)?,
                contents::diff_side(&step.ours, no_contents)?,
            ),
        };
        Ok(DeliveryDifference {
            before,
            after,
            details: change_details(&path, &step.theirs, &step.ours),
            path,
            modes: contents::changed_modes(&step.theirs, &step.ours),
        })
    }
}

impl UndoDirection {
    /// Returns the direction of the steps.
    fn step_direction(self) -> StepDirection {
        match self {
            UndoDirection::Undo => StepDirection::Back,
            UndoDirection::Redo => StepDirection::Forward,
        }
    }
}

/// Returns whether `path` is within one of `paths`; an empty list selects everything.
pub fn is_selected(path: &AbsPath, paths: &[AbsPath]) -> bool {
    paths.is_empty() || paths.iter().any(|selected| path.is_within(selected))
}

/// Returns what was done at the path of `entry`, whose step may have been skipped; `None` if it was
/// not wanted and nothing was done there.
fn step_outcome(
    entry: &DeliveryEntry,
    choice: DeliveryChoice,
    skip_reason: Option<SwapOutcome>,
    wanted_choice: DeliveryChoice,
) -> Option<UndoOutcome> {
    Some(match (choice, skip_reason) {
        (DeliveryChoice::Apply, None | Some(SwapOutcome::Done)) if entry.ours.is_absent() => {
            UndoOutcome::Removed
        }
        (DeliveryChoice::Apply, None | Some(SwapOutcome::Done)) => UndoOutcome::Restored,
        (DeliveryChoice::Apply, Some(SwapOutcome::Changed)) => {
            UndoOutcome::Left("it was changed since")
        }
        (DeliveryChoice::Apply, Some(SwapOutcome::NotEmpty)) => {
            UndoOutcome::Left("it holds other files")
        }
        (DeliveryChoice::Leave, _) if wanted_choice == DeliveryChoice::Leave => return None,
        (DeliveryChoice::Leave, _) if entry.conflict.is_some() => {
            UndoOutcome::Left("it was changed since")
        }
        (DeliveryChoice::Leave, _) if entry.theirs.is_directory() => {
            UndoOutcome::Left("it contains files that are kept")
        }
        (DeliveryChoice::Leave, _) => UndoOutcome::Left("its directory stays as it is"),
    })
}

/// Adds `row` to rows that are sorted by path and step. Of a path with several steps, it keeps the
/// row of the step that was applied last, or of one that was not applied.
fn add_row(rows: &mut Vec<UndoRow>, row: UndoRow, direction: UndoDirection) {
    let is_left = |row: &UndoRow| matches!(row.outcome, UndoOutcome::Left(_));
    match rows.last_mut().filter(|last_row| last_row.path == row.path) {
        None => rows.push(row),
        Some(last_row) if is_left(last_row) => {}
        Some(last_row) => {
            if is_left(&row) || direction == UndoDirection::Redo {
                *last_row = row;
            }
        }
    }
}

/// Returns the plan entry that takes `step` in this direction.
fn plan_entry(step: &DeliveryStep, step_direction: StepDirection) -> DeliveryEntry {
    let (from, to) = step.before_and_after(step_direction);
    DeliveryEntry {
        root: step.root,
        rel: step.rel.clone(),
        theirs: from.clone(),
        ours: to.clone(),
        source: ContentSource::SourceDirectory,
        conflict: None,
        consent: None,
    }
}

/// Refuses roots that are neither inside `cwd` nor related to one of `named_paths`: inside it or
/// around it.
pub fn refuse_outside(roots: &[AbsPath], cwd: &AbsPath, named_paths: &[AbsPath]) -> Result<()> {
    let is_named = |root: &AbsPath| {
        named_paths
            .iter()
            .any(|path| path.is_within(root) || root.is_within(path))
    };
    let outside_root = roots
        .iter()
        .find(|root| !root.is_within(cwd) && !is_named(root));
    match outside_root {
        None => Ok(()),
        Some(root) => Err(Error::new(
            ErrorKind::Usage,
            format!("`{root}` is outside the current directory"),
        )
        .with_hint(format!("to include it, name it: `--path {root}`"))),
    }
}
