//! Owns the applying of a plan: what is taken of it is prepared beside the user's tree, and comes
//! there as a whole or not at all.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use rustix::fs::Mode;
use rustix::process::{Gid, Uid};

use crate::delivery::choice::{Take, settled};
use crate::delivery::hunks::with;
use crate::delivery::plan::{By, Clash, Deed, Entry, Made, Plan, Source};
use crate::delivery::stand::Stand;
use crate::error::{Error, Result};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::world::change::{Change, ChangeKind};
use crate::world::delivery::contents::{Difference, Side, difference};
use crate::world::delivery::journal::{Step, Way};
use crate::world::delivery::place::cannot;
use crate::world::delivery::recovery::settle;
use crate::world::delivery::standing::file_stand;
use crate::world::delivery::store::Delivery;
use crate::world::delivery::swap::Swapped;
use crate::world::delivery::work::{Work, open_root};
use crate::world::exec::compare::compared;
use crate::world::sys::content::Content;
use crate::world::sys::dir::Dir;
use crate::world::sys::displace::temporary_name;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Meta;
use crate::world::sys::own::clear;
use crate::world::sys::own::dir as own_dir;
use crate::world::sys::slot::{self, Looks};

/// Why a name is not as it was to be, if the user did not want it.
const NOT_TAKEN: &str = "you did not take it";

/// Applies what is taken of `plan`. Our versions of files that the user changed meanwhile go to
/// `kept_in`. Gives what became of every name.
///
/// # Errors
/// Nothing is applied then; what had been done is taken back.
pub fn apply(
    delivery: &Delivery,
    plan: &Plan,
    takes: &[Take],
    kept_in: Option<&RealPath>,
) -> Result<Vec<Change>> {
    let takes = settled(plan, takes);
    let mut outcomes: Vec<Option<Swapped>> = vec![None; plan.entries.len()];
    if takes.contains(&Take::Taken) {
        let mut applying = Applying {
            delivery,
            plan,
            work: opened(delivery, plan)?,
        };
        let first = applying.work.steps.len();
        let prepared = applying.prepare(&takes);
        let indices = match prepared {
            Ok(indices) => indices,
            Err(error) => {
                applying.work.give_up_from(first)?;
                return Err(error);
            }
        };
        let numbers = numbers(first, indices.len());
        let left = applying.work.session(Way::Forward, Some(numbers.clone()))?;
        for (index, number) in indices.into_iter().zip(numbers) {
            if let Some(outcome) = outcomes.get_mut(index) {
                *outcome = Some(left.get(&number).copied().unwrap_or(Swapped::Done));
            }
        }
    }
    tell(plan, &outcomes, kept_in)
}

fn numbers(first: usize, count: usize) -> Vec<u32> {
    let all = first..first.saturating_add(count);
    all.filter_map(|number| u32::try_from(number).ok())
        .collect()
}

/// The work of `delivery`, new or gone on with.
fn opened(delivery: &Delivery, plan: &Plan) -> Result<Work> {
    settle(delivery)?;
    match delivery.told()? {
        None => Work::begin(delivery.place.clone(), &plan.roots),
        Some(told) => {
            let mut work = Work::go_on(delivery.place.clone(), told)?;
            work.open_rooms()?;
            Ok(work)
        }
    }
}

struct Applying<'a> {
    delivery: &'a Delivery,
    plan: &'a Plan,
    work: Work,
}

impl Applying<'_> {
    /// Fills the slots of what is taken. Gives which entry each step is of.
    fn prepare(&mut self, takes: &[Take]) -> Result<Vec<usize>> {
        let mut uppers: Vec<Option<Dir>> = Vec::new();
        for number in 0..self.plan.roots.len() {
            let origin = self.plan.origins.get(number).cloned().flatten();
            let upper = origin.map(|path| open_root(&path));
            uppers.push(upper.transpose()?);
        }
        let mut indices = Vec::new();
        for index in self.plan.order() {
            let Some(entry) = self.plan.entries.get(index) else {
                continue;
            };
            if takes.get(index) != Some(&Take::Taken) {
                continue;
            }
            let upper = uppers.get(entry.root).and_then(Option::as_ref);
            self.add(entry, upper)
                .map_err(|fault| cannot("prepare", &self.plan.path(entry), fault))??;
            indices.push(index);
        }
        Ok(indices)
    }

    fn add(
        &mut self,
        entry: &Entry,
        upper: Option<&Dir>,
    ) -> std::result::Result<Result<()>, Fault> {
        let Ok(number) = u32::try_from(self.work.steps.len()) else {
            return Err(Fault::Limit("it has too many steps"));
        };
        let mut step = Step {
            number,
            root: entry.root,
            rel: entry.rel.clone(),
            theirs: entry.theirs.clone(),
            ours: entry.ours.clone(),
        };
        let slots = match self.work.site(entry.root) {
            Ok(site) => site.slots.try_clone()?,
            Err(error) => return Ok(Err(error)),
        };
        if !(entry.theirs.is_directory() && entry.ours.is_directory()) {
            step.ours = self.fill(&slots, &step, entry, upper)?;
        }
        if self.work.is_apart(entry.root) {
            step.theirs = step.theirs.copied();
            step.ours = step.ours.copied();
        }
        Ok(self.work.add(step))
    }

    /// Puts into the slot what is to stand at the name.
    fn fill(
        &self,
        slots: &Dir,
        step: &Step,
        entry: &Entry,
        upper: Option<&Dir>,
    ) -> std::result::Result<Stand, Fault> {
        let name = OsString::from(step.slot());
        match &entry.ours {
            Stand::Nothing => Ok(Stand::Nothing),
            Stand::Link { target } => {
                slots.symlink(&name, target)?;
                Ok(entry.ours.clone())
            }
            Stand::Directory { mode } => {
                slot::make_dir(slots, &name, Mode::from_raw_mode(*mode))?;
                Ok(entry.ours.clone())
            }
            Stand::File(file) => {
                let (content, meta) = self.content(entry, upper)?;
                let looks = Looks {
                    mode: Mode::from_raw_mode(file.mode),
                    modified_ns: match entry.source {
                        Source::Layer => Some(meta.version.modified_ns),
                        Source::Made { .. } => None,
                    },
                    owner: self.owner(entry),
                };
                let size_bytes = meta.version.size_bytes;
                slot::fill(slots, &name, (&content, size_bytes), &looks)
                    .map(|filled| file_stand(&filled))
            }
        }
    }

    fn content(
        &self,
        entry: &Entry,
        upper: Option<&Dir>,
    ) -> std::result::Result<(Content, Meta), Fault> {
        match entry.source {
            Source::Layer => upper.ok_or(Fault::Missing)?.open_file(&entry.rel),
            Source::Made { number, .. } => {
                let made = Dir::own(&self.delivery.place.made())?;
                let name = OsString::from(number.to_string());
                made.open_file(&RelPath::default().child(&name).ok_or(Fault::Missing)?)
            }
        }
    }

    /// A file that replaces another one belongs to whom that belongs to.
    fn owner(&self, entry: &Entry) -> Option<(Uid, Gid)> {
        let Stand::File(_) = entry.theirs else {
            return None;
        };
        let root = Dir::own(self.plan.roots.get(entry.root)?).ok()?;
        let meta = root.meta(&entry.rel).ok()?;
        Some((meta.owner, meta.group))
    }
}

/// What became of every name; our version of what the user changed is kept.
fn tell(
    plan: &Plan,
    outcomes: &[Option<Swapped>],
    kept_in: Option<&RealPath>,
) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    let real = |path: &AbsPath| {
        let found = open_root(path)?.real_path();
        found.map_err(|fault| cannot("look at", path, fault))
    };
    let roots: Vec<RealPath> = plan.roots.iter().map(real).collect::<Result<_>>()?;
    for refusal in &plan.refused {
        let reason = refusal.reason.clone();
        changes.push(Change {
            path: refusal.path.clone(),
            kind: match refusal.by {
                By::Rule => ChangeKind::Denied { reason },
                By::Disk => ChangeKind::Failed { reason },
            },
        });
    }
    for (entry, outcome) in plan.entries.iter().zip(outcomes) {
        let path = plan.path(entry);
        let because = match (outcome, entry.clash) {
            (Some(Swapped::Done), _) => None,
            (Some(Swapped::Foreign), _) => Some(Clash::Changed.because()),
            (Some(Swapped::NotEmpty), _) => {
                Some("it holds files that you made since the run began")
            }
            (None, Some(clash)) => Some(clash.because()),
            (None, None) => Some(NOT_TAKEN),
        };
        let mode = mode(entry);
        if !entry.is_file() && mode.is_none() {
            continue;
        }
        let is_clash = entry.clash.is_some() || matches!(outcome, Some(Swapped::Foreign));
        let kept = match kept_in {
            Some(kept_in) if is_clash => keep(plan, entry, &path, kept_in)?,
            _ => None,
        };
        let kind = match (because, kept) {
            (None, _) => mode.unwrap_or(match entry.deed() {
                Deed::Create => ChangeKind::Created,
                Deed::Change => ChangeKind::Changed,
                Deed::Delete => ChangeKind::Deleted,
            }),
            (Some(_), Some(kept)) => ChangeKind::Conflict { kept },
            (Some(NOT_TAKEN), None) => ChangeKind::Declined,
            (Some(because), None) => ChangeKind::Denied {
                reason: because.to_owned(),
            },
        };
        if let Some(root) = roots.get(entry.root) {
            let path = root.join(&entry.rel);
            changes.push(Change { path, kind });
        }
    }
    Ok(changes)
}

/// What is told of a directory: other permission bits, and a new one that everybody may write to.
fn mode(entry: &Entry) -> Option<ChangeKind> {
    const EVERYBODY_WRITES: u32 = 0o002;
    match (&entry.theirs, &entry.ours) {
        (Stand::Directory { mode: before }, Stand::Directory { mode: after }) => {
            Some(ChangeKind::Mode {
                before: Some(*before),
                after: *after,
            })
        }
        (_, Stand::Directory { mode }) if mode & EVERYBODY_WRITES != 0 => Some(ChangeKind::Mode {
            before: None,
            after: *mode,
        }),
        _ => None,
    }
}

/// Keeps our version of a file under its whole path below `kept_in`.
fn keep(
    plan: &Plan,
    entry: &Entry,
    path: &AbsPath,
    kept_in: &RealPath,
) -> Result<Option<RealPath>> {
    let Stand::File(file) = &entry.ours else {
        return Ok(None);
    };
    let Some(upper) = plan.origins.get(entry.root).cloned().flatten() else {
        return Ok(None);
    };
    let below = RelPath::new(path.as_path().strip_prefix("/").unwrap_or(path.as_path()));
    let below = below.ok_or_else(|| Error::bug(format!("`{path}` is no path")))?;
    let kept = kept_in.join(&below);
    let copied = || {
        let (content, meta) = Dir::own(&upper)?.open_file(&entry.rel)?;
        let (dir, name): (Dir, &OsStr) = Dir::open(kept_in)?.make_parent_of(&below)?;
        let looks = Looks {
            mode: Mode::from_raw_mode(file.mode),
            modified_ns: Some(meta.version.modified_ns),
            owner: None,
        };
        let waiting = temporary_name();
        slot::fill(&dir, &waiting, (&content, meta.version.size_bytes), &looks)?;
        dir.rename_over(&waiting, &dir, name)
    };
    copied().map_err(|fault| cannot("keep our version of", path, fault))?;
    Ok(Some(kept))
}

/// Puts the chosen hunks of some files of `plan` in the place of the whole files, which are taken then.
/// A file of which no hunk is chosen is left.
pub fn take_parts(
    delivery: &Delivery,
    plan: &mut Plan,
    mut takes: Vec<Take>,
    parts: &BTreeMap<usize, Vec<bool>>,
) -> Result<Vec<Take>> {
    for (index, taken) in parts {
        let Some(entry) = plan.entries.get(*index) else {
            continue;
        };
        let made = match difference(delivery, plan, entry)? {
            Difference {
                before: Side::Text(old),
                after: Side::Text(new),
                ..
            } if taken.contains(&true) => Some(with(&compared(&old, &new), taken)),
            _ => None,
        };
        if let Some(text) = &made {
            let number = u32::try_from(*index).unwrap_or(u32::MAX);
            file_made(delivery, number, text.as_bytes())?;
            if let Some(entry) = plan.entries.get_mut(*index) {
                let how = Made::Chosen;
                entry.source = Source::Made { number, how };
            }
        }
        if let Some(take) = takes.get_mut(*index) {
            *take = if made.is_some() {
                Take::Taken
            } else {
                Take::Left
            };
        }
    }
    Ok(takes)
}

/// Writes a content that was made of the user's and ours, for an entry of a plan.
pub(super) fn file_made(delivery: &Delivery, number: u32, bytes: &[u8]) -> Result<()> {
    let made = delivery.place.made();
    own_dir::create_all(&made, own_dir::Audience::User)?;
    let name = number.to_string();
    clear::remove(&made.join(&name))?;
    let looks = Looks {
        mode: Mode::RUSR | Mode::WUSR,
        modified_ns: None,
        owner: None,
    };
    let filled = slot::fill_with(&open_root(&made)?, OsStr::new(&name), bytes, &looks);
    filled
        .map(drop)
        .map_err(|fault| cannot("write", &made.join(&name), fault))
}
