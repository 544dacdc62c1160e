//! Applies a plan: the accepted changes are prepared outside the user's tree, and are applied there
//! as a whole or not at all. Before that, files of which only some hunks are accepted get a content
//! of their own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use rustix::fs::Mode;
use rustix::process::{Gid, Uid};

use crate::delivery::choice::{DeliveryChoice, resolve_choices};
use crate::delivery::hunks::{HunkChoice, apply_hunks};
use crate::delivery::path_state::PathState;
use crate::delivery::plan::{
    ContentOrigin, ContentSource, DeliveryConflict, DeliveryEntry, DeliveryPlan, EntryAction,
    NeededConsent, RefusalSource,
};
use crate::error::{Error, Result};
use crate::event::HunkCount;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::world::delivery::contents::{DeliveryDifference, DiffSide, difference};
use crate::world::delivery::delivery_dir::{delivery_error, open_root};
use crate::world::delivery::journal::{DeliveryStep, StepDirection};
use crate::world::delivery::read_state::file_state;
use crate::world::delivery::recovery::recover_delivery;
use crate::world::delivery::step_runner::StepRunner;
use crate::world::delivery::store::OpenDelivery;
use crate::world::delivery::swap::SwapOutcome;
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::sys::conditional_replace::temporary_name;
use crate::world::sys::content::FileContent;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::slot::{self, FileAttributes};
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir as state_dir;

/// The reason for a change that was not applied because the user did not accept it.
const DECLINED_REASON: &str = "you did not take it";
/// The reason for a change that cannot be applied because of a conflict about another path.
const BLOCKED_REASON: &str = "it cannot be applied without a path that stays as it is";

/// Who chose the changes that are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionOrigin {
    /// The user, who was shown every change.
    Review,
    /// massgen: nobody was asked, or nobody answered.
    Default,
}

/// Applies the accepted changes of `plan`. The agent's versions of files that the user has changed
/// in the meantime are written to `conflicts_dir`. Returns what happened to every path.
///
/// # Errors
/// The changes could not be applied: what had been done is rolled back, now or by the next start of
/// massgen, as the error says.
pub fn apply(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    choices: &[DeliveryChoice],
    selection_origin: SelectionOrigin,
    conflicts_dir: Option<&RealPath>,
) -> Result<Vec<FileChange>> {
    let choices = resolve_choices(plan, choices);
    // What could fail is done first: once the changes are applied, nothing may hide that.
    let roots: Vec<RealPath> = plan.roots.iter().map(real_root).collect::<Result<_>>()?;
    let mut outcomes: Vec<Option<SwapOutcome>> = vec![None; plan.entries.len()];
    if choices.contains(&DeliveryChoice::Apply) {
        let mut transaction = ApplyTransaction {
            delivery,
            plan,
            runner: open_runner(delivery, plan)?,
        };
        let first_number = transaction.runner.steps.len();
        let preparation = transaction.prepare(&choices);
        let indices = match preparation {
            Ok(indices) => indices,
            Err(error) => {
                return Err(transaction.runner.discard_after_error(first_number, error));
            }
        };
        let numbers = step_numbers(first_number, indices.len());
        let skipped = transaction
            .runner
            .run_transaction(StepDirection::Forward, Some(numbers.clone()))?;
        for (index, number) in indices.into_iter().zip(numbers) {
            if let Some(outcome) = outcomes.get_mut(index) {
                *outcome = Some(skipped.get(&number).copied().unwrap_or(SwapOutcome::Done));
            }
        }
    }
    let possible_choices = match selection_origin {
        SelectionOrigin::Review => {
            resolve_choices(plan, &vec![DeliveryChoice::Apply; plan.entries.len()])
        }
        SelectionOrigin::Default => plan.select_all(),
    };
    let outcomes: Vec<_> = possible_choices.into_iter().zip(outcomes).collect();
    Ok(report_changes(plan, &roots, &outcomes, conflicts_dir))
}

/// Returns the real path of one of the user's trees.
fn real_root(path: &AbsPath) -> Result<RealPath> {
    let real_path = open_root(path)?.real_path();
    real_path.map_err(|error| delivery_error("look at", path, error))
}

/// Returns the numbers of `count` steps from `first_number` on.
fn step_numbers(first_number: usize, count: usize) -> Vec<u32> {
    let range = first_number..first_number.saturating_add(count);
    range
        .filter_map(|number| u32::try_from(number).ok())
        .collect()
}

/// Returns what runs the steps of `delivery`, some of which may have been applied earlier.
fn open_runner(delivery: &OpenDelivery, plan: &DeliveryPlan) -> Result<StepRunner> {
    recover_delivery(delivery)?;
    match delivery.read_journal()? {
        None => StepRunner::begin(delivery.delivery_dir.clone(), &plan.roots),
        Some(journal) => {
            let mut runner = StepRunner::from_journal(delivery.delivery_dir.clone(), journal)?;
            runner.open_slot_dirs()?;
            Ok(runner)
        }
    }
}

/// The accepted changes of a plan, while they are prepared and applied.
struct ApplyTransaction<'a> {
    delivery: &'a OpenDelivery,
    plan: &'a DeliveryPlan,
    runner: StepRunner,
}

impl ApplyTransaction<'_> {
    /// Fills the slots of the accepted changes. Returns the index of the entry for each step.
    fn prepare(&mut self, choices: &[DeliveryChoice]) -> Result<Vec<usize>> {
        let mut source_dirs: Vec<Option<DirectoryHandle>> = Vec::new();
        for number in 0..self.plan.roots.len() {
            let path = self.plan.source_dirs.get(number).cloned().flatten();
            let source_dir = path.map(|path| open_root(&path));
            source_dirs.push(source_dir.transpose()?);
        }
        let mut indices = Vec::new();
        for index in self.plan.application_order() {
            let Some(entry) = self.plan.entries.get(index) else {
                continue;
            };
            if choices.get(index) != Some(&DeliveryChoice::Apply) {
                continue;
            }
            let source_dir = source_dirs.get(entry.root).and_then(Option::as_ref);
            self.add_step(entry, source_dir)
                .map_err(|error| delivery_error("prepare", &self.plan.path(entry), error))??;
            indices.push(index);
        }
        Ok(indices)
    }

    /// Fills the slot of the step for `entry`, and adds the step. The outer error does not name the
    /// path of the entry yet; the inner one is complete.
    fn add_step(
        &mut self,
        entry: &DeliveryEntry,
        source_dir: Option<&DirectoryHandle>,
    ) -> std::result::Result<Result<()>, FileSystemError> {
        let Ok(number) = u32::try_from(self.runner.steps.len()) else {
            return Err(FileSystemError::Limit("it has too many steps"));
        };
        let mut step = DeliveryStep {
            number,
            root: entry.root,
            rel: entry.rel.clone(),
            theirs: entry.theirs.clone(),
            ours: entry.ours.clone(),
            hunks: agent_hunks(entry),
        };
        let slots = match self.runner.delivery_tree(entry.root) {
            Ok(tree) => tree.slots.try_clone()?,
            Err(error) => return Ok(Err(error)),
        };
        // A step that only changes the mode of a directory has no slot.
        if !(entry.theirs.is_directory() && entry.ours.is_directory()) {
            step.ours = self.fill_slot(&slots, &step, entry, source_dir)?;
        }
        // The slots of a tree on another file system are copied when the transaction ends, and so
        // get other inodes.
        if self.runner.has_separate_slots(entry.root) {
            step.theirs = step.theirs.without_inode();
            step.ours = step.ours.without_inode();
        }
        Ok(self.runner.add_step(step))
    }

    /// Fills the slot with the new content of the path. Returns the state of the slot.
    fn fill_slot(
        &self,
        slots: &DirectoryHandle,
        step: &DeliveryStep,
        entry: &DeliveryEntry,
        source_dir: Option<&DirectoryHandle>,
    ) -> std::result::Result<PathState, FileSystemError> {
        let name = OsString::from(step.slot());
        match &entry.ours {
            PathState::Nothing => Ok(PathState::Nothing),
            PathState::Link { target } => {
                slots.symlink(&name, target)?;
                Ok(entry.ours.clone())
            }
            PathState::Directory { mode } => {
                slot::make_dir(slots, &name, Mode::from_raw_mode(*mode))?;
                Ok(entry.ours.clone())
            }
            PathState::File(file) => {
                let (content, meta) = self.open_content(entry, source_dir)?;
                let attributes = FileAttributes {
                    mode: Mode::from_raw_mode(file.mode),
                    modified_ns: match entry.source {
                        ContentSource::SourceDirectory => Some(meta.version.modified_ns),
                        ContentSource::Composed { .. } => None,
                    },
                    owner: self.owner(entry),
                };
                let size_bytes = meta.version.size_bytes;
                slot::create_from_content(slots, &name, &content, size_bytes, &attributes)
                    .map(|meta| file_state(&meta))
            }
        }
    }

    /// Opens the new content of the path.
    fn open_content(
        &self,
        entry: &DeliveryEntry,
        source_dir: Option<&DirectoryHandle>,
    ) -> std::result::Result<(FileContent, FileMetadata), FileSystemError> {
        match entry.source {
            ContentSource::SourceDirectory => source_dir
                .ok_or(FileSystemError::Missing)?
                .open_file(&entry.rel),
            ContentSource::Composed { number, .. } => {
                let contents =
                    DirectoryHandle::open_own(&self.delivery.delivery_dir.made_contents())?;
                let name = OsString::from(number.to_string());
                contents.open_file(
                    &RelPath::default()
                        .child(&name)
                        .ok_or(FileSystemError::Missing)?,
                )
            }
        }
    }

    /// Returns the owner of the replaced file, which the new file gets too.
    fn owner(&self, entry: &DeliveryEntry) -> Option<(Uid, Gid)> {
        let PathState::File(_) = entry.theirs else {
            return None;
        };
        let root = DirectoryHandle::open_own(self.plan.roots.get(entry.root)?).ok()?;
        let meta = root.meta(&entry.rel).ok()?;
        Some((meta.owner, meta.group))
    }
}

/// Returns how many hunks of the agents' version `entry` takes, if the rest of them can be offered
/// later. The rest of a merged text cannot: the plan of a later delivery does not merge.
fn agent_hunks(entry: &DeliveryEntry) -> Option<HunkCount> {
    match entry.source {
        ContentSource::Composed {
            origin: ContentOrigin::Selection(hunks),
            ..
        } => Some(hunks),
        ContentSource::Composed {
            origin: ContentOrigin::Merge | ContentOrigin::SelectionOfMerge(_),
            ..
        }
        | ContentSource::SourceDirectory => None,
    }
}

/// Returns what happened to every path below the real paths `roots`. Keeps the agent's versions of
/// files that the user changed; if one cannot be kept, its change says why.
fn report_changes(
    plan: &DeliveryPlan,
    roots: &[RealPath],
    choices_and_outcomes: &[(DeliveryChoice, Option<SwapOutcome>)],
    conflicts_dir: Option<&RealPath>,
) -> Vec<FileChange> {
    let mut changes = Vec::new();
    for refusal in &plan.refused {
        let reason = refusal.reason.clone();
        changes.push(FileChange {
            path: refusal.path.clone(),
            details: None,
            kind: match refusal.by {
                RefusalSource::Rule => ChangeKind::Denied { reason },
                RefusalSource::Disk => ChangeKind::Failed { reason },
            },
        });
    }
    // What stays even if everything is selected, the user has not declined.
    for (entry, (possible_choice, outcome)) in plan.entries.iter().zip(choices_and_outcomes) {
        let path = plan.path(entry);
        let reason = match (outcome, entry.conflict) {
            (Some(SwapOutcome::Done), _) => None,
            (Some(SwapOutcome::Changed), _) => Some(DeliveryConflict::Changed.reason()),
            (Some(SwapOutcome::NotEmpty), _) => {
                Some("it holds files that you made since the run began")
            }
            (None, Some(conflict)) => Some(conflict.reason()),
            (None, None) if *possible_choice == DeliveryChoice::Leave => {
                let consent = entry.consent.map(NeededConsent::reason);
                Some(consent.unwrap_or(BLOCKED_REASON))
            }
            (None, None) => Some(DECLINED_REASON),
        };
        let mode_change = mode_change(entry);
        if !entry.is_file() && mode_change.is_none() {
            continue;
        }
        let is_left_drift = || {
            let is_drift = matches!(entry.consent, Some(NeededConsent::Drift(_)));
            is_drift && *outcome != Some(SwapOutcome::Done)
        };
        let is_conflict = entry.conflict.is_some()
            || matches!(outcome, Some(SwapOutcome::Changed))
            || is_left_drift();
        let kept_file = match conflicts_dir {
            Some(conflicts_dir) if is_conflict => {
                keep_agents_version(plan, entry, &path, conflicts_dir)
            }
            _ => Ok(None),
        };
        let kind = match (reason, kept_file) {
            (None, _) => mode_change.unwrap_or_else(|| match (entry.action(), entry.hunks()) {
                (EntryAction::Create, _) => ChangeKind::Created,
                (EntryAction::Change, None) => ChangeKind::Changed,
                (EntryAction::Change, Some(hunks)) => ChangeKind::PartlyChanged { hunks },
                (EntryAction::Delete, _) => ChangeKind::Deleted,
            }),
            (Some(_), Ok(Some(kept_file))) => ChangeKind::Conflict { kept: kept_file },
            (Some(DECLINED_REASON), Ok(None)) => ChangeKind::Declined,
            (Some(reason), Ok(None)) => ChangeKind::Denied {
                reason: reason.to_owned(),
            },
            (Some(reason), Err(error)) => ChangeKind::Failed {
                reason: format!("{reason}; {error}"),
            },
        };
        if let Some(root) = roots.get(entry.root) {
            let path = root.join(&entry.rel);
            let details = entry.details(plan);
            changes.push(FileChange {
                path,
                kind,
                details,
            });
        }
    }
    changes
}

/// Returns the reported change of a directory: changed permission bits, or a new world-writable
/// one.
fn mode_change(entry: &DeliveryEntry) -> Option<ChangeKind> {
    const WORLD_WRITABLE: u32 = 0o002;
    match (&entry.theirs, &entry.ours) {
        (PathState::Directory { mode: before }, PathState::Directory { mode: after }) => {
            Some(ChangeKind::Mode {
                before: Some(*before),
                after: *after,
            })
        }
        (_, PathState::Directory { mode }) if mode & WORLD_WRITABLE != 0 => {
            Some(ChangeKind::Mode {
                before: None,
                after: *mode,
            })
        }
        _ => None,
    }
}

/// Keeps the agent's version of a file under its full path below `conflicts_dir`.
fn keep_agents_version(
    plan: &DeliveryPlan,
    entry: &DeliveryEntry,
    path: &AbsPath,
    conflicts_dir: &RealPath,
) -> Result<Option<RealPath>> {
    let PathState::File(file) = &entry.ours else {
        return Ok(None);
    };
    let Some(source_dir) = plan.source_dirs.get(entry.root).cloned().flatten() else {
        return Ok(None);
    };
    let parsed_rel = RelPath::new(path.as_path().strip_prefix("/").unwrap_or(path.as_path()));
    let rel = parsed_rel.ok_or_else(|| Error::bug(format!("`{path}` is not a path")))?;
    let kept_file = conflicts_dir.join(&rel);
    let copy_file = || {
        let (content, meta) = DirectoryHandle::open_own(&source_dir)?.open_file(&entry.rel)?;
        let (dir, name): (DirectoryHandle, &OsStr) =
            DirectoryHandle::open(conflicts_dir)?.make_parent_of(&rel)?;
        let attributes = FileAttributes {
            mode: Mode::from_raw_mode(file.mode),
            modified_ns: Some(meta.version.modified_ns),
            owner: None,
        };
        let staging_name = temporary_name();
        slot::create_from_content(
            &dir,
            &staging_name,
            &content,
            meta.version.size_bytes,
            &attributes,
        )?;
        dir.rename_over(&staging_name, &dir, name)
    };
    copy_file().map_err(|error| delivery_error("keep our version of", path, error))?;
    Ok(Some(kept_file))
}

/// Replaces the files of `plan` with these indices by versions with only the chosen hunks, and
/// accepts these. A file with no chosen hunk is not accepted. Returns the choices about all files.
pub fn select_hunks(
    delivery: &OpenDelivery,
    plan: &mut DeliveryPlan,
    mut choices: Vec<DeliveryChoice>,
    hunk_choices: &BTreeMap<usize, Vec<HunkChoice>>,
) -> Result<Vec<DeliveryChoice>> {
    for (index, file_choices) in hunk_choices {
        let Some(entry) = plan.entries.get(*index) else {
            continue;
        };
        let taken_flags: Vec<bool> = file_choices.iter().map(|hunk| hunk.is_applied).collect();
        // If all hunks are chosen, the file is applied as it is.
        let Some(hunks) = HunkCount::of(&taken_flags) else {
            if let Some(choice) = choices.get_mut(*index) {
                *choice = DeliveryChoice::Apply;
            }
            continue;
        };
        let text = match difference(delivery, plan, entry)? {
            DeliveryDifference {
                before: DiffSide::Text(old),
                after: DiffSide::Text(new),
                ..
            } if taken_flags.contains(&true) => {
                // The hunks do not fit if the user has changed the file since: the step, when it is
                // applied, finds that out.
                Some(apply_hunks(&old, &new, file_choices).unwrap_or(old))
            }
            _ => None,
        };
        if let Some(text) = &text {
            let number = u32::try_from(*index).unwrap_or(u32::MAX);
            write_made_content(delivery, number, text.as_bytes())?;
            if let Some(entry) = plan.entries.get_mut(*index) {
                let origin = match entry.source {
                    ContentSource::SourceDirectory => ContentOrigin::Selection(hunks),
                    ContentSource::Composed { .. } => ContentOrigin::SelectionOfMerge(hunks),
                };
                entry.source = ContentSource::Composed { number, origin };
            }
        }
        if let Some(choice) = choices.get_mut(*index) {
            *choice = if text.is_some() {
                DeliveryChoice::Apply
            } else {
                DeliveryChoice::Leave
            };
        }
    }
    Ok(choices)
}

/// Writes content that was composed of the user's and the agents' versions of a file.
pub(super) fn write_made_content(delivery: &OpenDelivery, number: u32, bytes: &[u8]) -> Result<()> {
    let contents = delivery.delivery_dir.made_contents();
    state_dir::create_all(&contents, state_dir::DirectoryAudience::User)?;
    let name = number.to_string();
    clear::remove(&contents.join(&name))?;
    let attributes = FileAttributes {
        mode: Mode::RUSR | Mode::WUSR,
        modified_ns: None,
        owner: None,
    };
    let write_result = slot::create_from_bytes(
        &open_root(&contents)?,
        OsStr::new(&name),
        bytes,
        &attributes,
    );
    write_result
        .map(drop)
        .map_err(|error| delivery_error("write", &contents.join(&name), error))
}
