//! Applied deliveries: shows the state of each path, undoes a delivery byte for byte, and applies
//! it again. Paths that have been changed since stay unless the user wants otherwise; then the
//! changed version is moved to the slot, so that even that can be restored.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::sync::Arc;

use crate::delivery::choice::{DeliveryChoice, resolve_choices};
use crate::delivery::path_state::PathState;
use crate::delivery::plan::{
    ContentSource, DeliveryConflict, DeliveryEntry, DeliveryPlan, EntryAction,
};
use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::contents::{self, DeliveryDifference, DiffSide, FileContents};
use crate::world::delivery::delivery_dir::delivery_error;
use crate::world::delivery::journal::{DeliveryStep, StepDirection};
use crate::world::delivery::planning::PartialFiles;
use crate::world::delivery::read_state::read_state;
use crate::world::delivery::recovery::recover_delivery;
use crate::world::delivery::session::{DeliverySession, SkippedSteps, open_root};
use crate::world::delivery::store::OpenDelivery;
use crate::world::delivery::swap::SwapOutcome;
use crate::world::sys::dir::DirectoryHandle;

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
    /// The delivered file was removed.
    Removed,
    /// It was left as it is, for this reason.
    Left(&'static str),
}

/// A delivery that was applied.
#[derive(Debug)]
pub struct AppliedDelivery {
    delivery: Arc<OpenDelivery>,
    session: DeliverySession,
    /// The state of each step's path.
    now: Vec<DeliveredState>,
    /// Whether each step is currently applied.
    applied: Vec<bool>,
}

impl AppliedDelivery {
    /// Inspects every path of `delivery`; `None` if nothing of it was applied. An interrupted session
    /// is recovered first. Other parts of this process may still read the delivery.
    pub fn open(delivery: impl Into<Arc<OpenDelivery>>) -> Result<Option<Self>> {
        let delivery = delivery.into();
        recover_delivery(&delivery)?;
        let Some(journal) = delivery.read_journal()? else {
            return Ok(None);
        };
        let session = DeliverySession::from_journal(delivery.place.clone(), journal)?;
        let mut delivered = Self {
            delivery,
            session,
            now: Vec::new(),
            applied: Vec::new(),
        };
        delivered.inspect()?;
        Ok(Some(delivered))
    }

    /// Returns the name of the delivery.
    pub fn name(&self) -> &str {
        self.delivery.name()
    }

    /// Returns the trees that contain its paths.
    pub fn roots(&self) -> Vec<AbsPath> {
        self.session.root_paths()
    }

    /// Returns every file, symlink and directory with a changed mode, with what was done there and
    /// its current state.
    pub fn names(&self) -> impl Iterator<Item = (AbsPath, EntryAction, DeliveredState)> {
        let pairs = self.session.steps.iter().zip(&self.now);
        pairs.filter_map(|(step, now)| {
            let entry = entry(step, StepDirection::Forward);
            let path = self.session.path(step);
            entry.is_listed().then(|| (path, entry.action(), *now))
        })
    }

    /// Returns whether some path is as it was delivered.
    pub fn is_applied(&self) -> bool {
        self.names().any(|(.., now)| now == DeliveredState::Applied)
    }

    /// Returns whether some path was not reverted, even if it has been changed since.
    pub fn is_in_effect(&self) -> bool {
        let mut steps = self.session.steps.iter().zip(&self.applied);
        steps.any(|(step, is_applied)| {
            *is_applied && entry(step, StepDirection::Forward).is_listed()
        })
    }

    /// Returns the files of which some hunks were delivered, if they are still as they were
    /// delivered: the rest of their hunks can be offered.
    pub fn partial_files(&self) -> PartialFiles {
        let mut partial = BTreeSet::new();
        // The last applied step of a path determines what is there.
        for (index, step) in self.session.steps.iter().enumerate() {
            let place = (step.root, step.rel.clone());
            let is_applied = self.now.get(index) == Some(&DeliveredState::Applied);
            if is_applied && step.hunks.is_some() {
                partial.insert(place);
            } else if is_applied {
                partial.remove(&place);
            }
        }
        PartialFiles(partial)
    }

    /// Returns both sides of every change, sorted by path.
    pub fn differences(&mut self) -> impl Iterator<Item = Result<DeliveryDifference>> + '_ {
        let steps: Vec<(DeliveryStep, DeliveredState)> = self
            .session
            .steps
            .iter()
            .cloned()
            .zip(self.now.clone())
            .collect();
        let mut steps = steps;
        steps.sort_by(|(a, _), (b, _)| (a.root, &a.rel).cmp(&(b.root, &b.rel)));
        // Of a path that was applied in several parts, one step has both sides of the whole change.
        steps.dedup_by(|later, kept| {
            let is_same = (later.0.root, &later.0.rel) == (kept.0.root, &kept.0.rel);
            if is_same && kept.1 == DeliveredState::Reverted {
                std::mem::swap(later, kept);
            }
            is_same
        });
        steps
            .into_iter()
            .map(|(step, now)| self.difference(&step, now))
    }

    /// Undoes or reapplies all paths within `paths`, or all if that is empty.
    ///
    /// # Errors
    /// Nothing is changed in that case; what had been done is rolled back.
    pub fn move_steps(
        &mut self,
        direction: UndoDirection,
        paths: &[AbsPath],
        since: ChangedFilePolicy,
    ) -> Result<Vec<UndoRow>> {
        let step_direction = match direction {
            UndoDirection::Undo => StepDirection::Back,
            UndoDirection::Redo => StepDirection::Forward,
        };
        let mut order: Vec<usize> = (0..self.session.steps.len()).collect();
        order.sort_by_key(|index| {
            self.session
                .steps
                .get(*index)
                .map(|s| (s.root, s.rel.clone()))
        });
        order.retain(|index| {
            self.applied.get(*index) == Some(&(step_direction == StepDirection::Back))
        });
        if since == ChangedFilePolicy::Replaced {
            self.refuse_special(&order, paths)?;
            self.adopt(&order, paths, step_direction)?;
        }
        let mut plan = DeliveryPlan {
            roots: self.session.root_paths(),
            ..DeliveryPlan::default()
        };
        let mut wanted = Vec::new();
        for index in &order {
            let Some(step) = self.session.steps.get(*index) else {
                continue;
            };
            let mut entry = entry(step, step_direction);
            if self.now.get(*index) == Some(&DeliveredState::Changed) {
                entry.conflict = Some(DeliveryConflict::Changed);
            }
            wanted.push(self.is_selected(step, paths));
            plan.entries.push(entry);
        }
        let choices: Vec<DeliveryChoice> = wanted.iter().copied().map(choice).collect();
        let choices = resolve_choices(&plan, &choices);
        let numbers: Vec<u32> = order
            .iter()
            .zip(&choices)
            .filter(|(_, choice)| **choice == DeliveryChoice::Apply)
            .filter_map(|(index, _)| self.session.steps.get(*index).map(|step| step.number))
            .collect();
        let mut skipped = SkippedSteps::new();
        if !numbers.is_empty() {
            self.session.open_slot_dirs()?;
            self.session.fill_slot_dirs(&numbers)?;
            skipped = self.session.run_session(step_direction, Some(numbers))?;
        }
        let mut rows = Vec::new();
        for (((index, entry), choice), wanted) in
            order.iter().zip(&plan.entries).zip(&choices).zip(&wanted)
        {
            let number = self.session.steps.get(*index).map(|step| step.number);
            let skipped_as = number.and_then(|number| skipped.get(&number).copied());
            let outcome = match (choice, skipped_as) {
                (DeliveryChoice::Apply, None | Some(SwapOutcome::Done))
                    if entry.ours.is_absent() =>
                {
                    UndoOutcome::Removed
                }
                (DeliveryChoice::Apply, None | Some(SwapOutcome::Done)) => UndoOutcome::Restored,
                (DeliveryChoice::Apply, Some(SwapOutcome::Foreign)) => {
                    UndoOutcome::Left("it was changed since")
                }
                (DeliveryChoice::Apply, Some(SwapOutcome::NotEmpty)) => {
                    UndoOutcome::Left("it holds other files")
                }
                (DeliveryChoice::Leave, _) if !wanted => continue,
                (DeliveryChoice::Leave, _) if entry.conflict.is_some() => {
                    UndoOutcome::Left("it was changed since")
                }
                (DeliveryChoice::Leave, _) => UndoOutcome::Left("it contains files that are kept"),
            };
            if entry.is_listed() || matches!(outcome, UndoOutcome::Left(_)) {
                let path = plan.path(entry);
                add_row(&mut rows, UndoRow { path, outcome }, direction);
            }
        }
        self.inspect()?;
        Ok(rows)
    }

    /// Refuses to replace pipes, sockets and devices, because they could not be restored.
    fn refuse_special(&mut self, order: &[usize], paths: &[AbsPath]) -> Result<()> {
        for index in order {
            let Some(step) = self.session.steps.get(*index).cloned() else {
                continue;
            };
            if self.now.get(*index) != Some(&DeliveredState::Changed)
                || !self.is_selected(&step, paths)
            {
                continue;
            }
            let path = self.session.path(&step);
            let special = self.session.delivery_tree(step.root)?.special_file(&step);
            if let Some(kind) = special.map_err(|fault| delivery_error("look at", &path, fault))? {
                let message = format!("`{path}` is now {kind}, which could not be kept");
                return Err(Error::new(ErrorKind::Usage, message)
                    .with_hint("move it away first; nothing was changed"));
            }
        }
        Ok(())
    }

    /// Treats the current versions at changed paths as the delivered ones, so that they are moved to
    /// the slots.
    fn adopt(
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
        let mut adopted = BTreeSet::new();
        for index in order {
            let Some(step) = self.session.steps.get(index).cloned() else {
                continue;
            };
            if self.now.get(index) != Some(&DeliveredState::Changed)
                || !self.is_selected(&step, paths)
            {
                continue;
            }
            if let Some(now) = self.now.get_mut(index) {
                *now = DeliveredState::Applied;
            }
            if !adopted.insert((step.root, step.rel.clone())) {
                continue;
            }
            let mut current = self.current_state(&step)?;
            if self.session.has_separate_slots(step.root) {
                current = current.without_inode();
            }
            self.session.amend(match step_direction {
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

    fn is_selected(&self, step: &DeliveryStep, paths: &[AbsPath]) -> bool {
        let path = self.session.path(step);
        paths.is_empty() || paths.iter().any(|meant| path.is_within(meant))
    }

    fn current_state(&mut self, step: &DeliveryStep) -> Result<PathState> {
        let path = self.session.path(step);
        let tree = self.session.delivery_tree(step.root)?;
        tree.current_state(step)
            .map_err(|fault| delivery_error("look at", &path, fault))
    }

    /// Inspects every path. A step is applied if its slot holds what existed before; a path that
    /// was delivered more than once has several steps, of which the last applied one determines the
    /// expected state.
    fn inspect(&mut self) -> Result<()> {
        let slots = open_root(&self.delivery.place.slots())?;
        let steps = self.session.steps.clone();
        let mut applied = Vec::new();
        let mut expected = BTreeMap::new();
        for step in &steps {
            let is_applied = self.is_step_applied(step, &slots)?;
            let location = (step.root, step.rel.clone());
            if is_applied {
                expected.insert(location, step.ours.clone());
            } else {
                expected
                    .entry(location)
                    .or_insert_with(|| step.theirs.clone());
            }
            applied.push(is_applied);
        }
        let mut now = Vec::new();
        for (step, is_applied) in steps.iter().zip(&applied) {
            let current = self.current_state(step)?;
            let location = (step.root, step.rel.clone());
            let is_unchanged = expected
                .get(&location)
                .is_some_and(|state| state.is_unchanged(&current));
            now.push(match (is_unchanged, is_applied) {
                (true, true) => DeliveredState::Applied,
                (true, false) => DeliveredState::Reverted,
                (false, _) => DeliveredState::Changed,
            });
        }
        self.applied = applied;
        self.now = now;
        Ok(())
    }

    fn is_step_applied(&mut self, step: &DeliveryStep, slots: &DirectoryHandle) -> Result<bool> {
        if step.theirs.is_directory() && step.ours.is_directory() {
            return Ok(!step.theirs.is_unchanged(&self.current_state(step)?));
        }
        let in_slot = read_state(slots, OsStr::new(&step.slot()));
        let in_slot = in_slot.map_or(PathState::Nothing, |(state, _)| state);
        Ok(!step.ours.is_unchanged(&in_slot))
    }

    fn difference(
        &mut self,
        step: &DeliveryStep,
        now: DeliveredState,
    ) -> Result<DeliveryDifference> {
        let path = self.session.path(step);
        let root = self
            .session
            .root_paths()
            .get(step.root)
            .cloned()
            .unwrap_or_else(AbsPath::top);
        let slots = self.delivery.place.slots();
        let slot = RelPath::default()
            .child(OsStr::new(&step.slot()))
            .unwrap_or_default();
        let from_tree = || read(&root, &step.rel);
        let from_slot = || read(&slots, &slot);
        let lost = || Ok(FileContents::None);
        let (before, after): (DiffSide, DiffSide) = match now {
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
                contents::diff_side(&step.ours, lost)?,
            ),
        };
        Ok(DeliveryDifference {
            path,
            before,
            after,
            modes: contents::modes(&step.theirs, &step.ours),
        })
    }
}

/// Adds `row` to rows that are sorted by path and step. Of a path with several steps, it keeps the
/// row of the step that was applied last, or of one that was not applied.
fn add_row(rows: &mut Vec<UndoRow>, row: UndoRow, direction: UndoDirection) {
    let is_left = |row: &UndoRow| matches!(row.outcome, UndoOutcome::Left(_));
    match rows.last_mut().filter(|known| known.path == row.path) {
        None => rows.push(row),
        Some(known) if is_left(known) => {}
        Some(known) => {
            if is_left(&row) || direction == UndoDirection::Redo {
                *known = row;
            }
        }
    }
}

fn read(dir: &AbsPath, rel: &RelPath) -> Result<FileContents> {
    let found = contents::read_contents(&open_root(dir)?, rel);
    found.map_err(|fault| delivery_error("read", &dir.join(rel.as_path()), fault))
}

/// Returns the choice about a path that is within the wanted ones or not.
fn choice(is_wanted: bool) -> DeliveryChoice {
    if is_wanted {
        DeliveryChoice::Apply
    } else {
        DeliveryChoice::Leave
    }
}

/// Returns the plan entry that takes `step` in this direction.
fn entry(step: &DeliveryStep, step_direction: StepDirection) -> DeliveryEntry {
    let (from, to) = step.before_and_after(step_direction);
    DeliveryEntry {
        root: step.root,
        rel: step.rel.clone(),
        theirs: from.clone(),
        ours: to.clone(),
        source: ContentSource::Layer,
        conflict: None,
    }
}

/// Refuses trees of `roots` that are neither inside `here` nor named in `named`.
pub fn refuse_outside(roots: &[AbsPath], here: &AbsPath, named: &[AbsPath]) -> Result<()> {
    let is_named = |root: &AbsPath| {
        named
            .iter()
            .any(|path| path.is_within(root) || root.is_within(path))
    };
    let outside = roots
        .iter()
        .find(|root| !root.is_within(here) && !is_named(root));
    match outside {
        None => Ok(()),
        Some(root) => Err(Error::new(
            ErrorKind::Usage,
            format!("`{root}` is outside the current directory"),
        )
        .with_hint(format!("to include it, name it: `--path {root}`"))),
    }
}
