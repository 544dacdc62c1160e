//! Owns what was applied: how each name stands now, taking it back byte for byte, and applying it
//! once more. What somebody changed since stays, unless the user says otherwise; then it takes the
//! place in the slot, so that even that can be had back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use crate::delivery::choice::{Take, settled};
use crate::delivery::plan::{Clash, Deed, Entry, Plan, Source};
use crate::delivery::stand::Stand;
use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::contents::{self, Bytes, Difference, Side};
use crate::world::delivery::journal::{Step, Way};
use crate::world::delivery::place::cannot;
use crate::world::delivery::recovery::settle;
use crate::world::delivery::standing::standing;
use crate::world::delivery::store::Delivery;
use crate::world::delivery::swap::Swapped;
use crate::world::delivery::work::{LeftOut, Work, open_root};
use crate::world::sys::dir::Dir;

/// How a name of a delivery stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    /// As it was delivered.
    Applied,
    /// As it was before the delivery.
    TakenBack,
    /// Otherwise: somebody changed it since.
    Changed,
}

/// What is done about names that somebody changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// They stay.
    Kept,
    /// They are replaced, and what stood there is kept with the delivery.
    Replaced,
}

/// In which direction a delivery is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Back to what stood there before.
    Back,
    /// To what was delivered.
    Again,
}

/// What became of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where.
    pub path: AbsPath,
    /// What was done there.
    pub outcome: Outcome,
}

/// What became of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What stood there once stands there again.
    Restored,
    /// What had come there is gone.
    Removed,
    /// It stays as it is.
    Left(&'static str),
}

/// A delivery that was applied.
#[derive(Debug)]
pub struct Delivered {
    delivery: Delivery,
    work: Work,
    /// How the name of each step stands.
    now: Vec<Now>,
    /// Whether each step is taken.
    taken: Vec<bool>,
}

impl Delivered {
    /// Looks at how every name of `delivery` stands; `None` if nothing of it was applied. What a
    /// process left open is settled first.
    pub fn open(delivery: Delivery) -> Result<Option<Self>> {
        settle(&delivery)?;
        let Some(told) = delivery.told()? else {
            return Ok(None);
        };
        let work = Work::go_on(delivery.place.clone(), told)?;
        let mut delivered = Self {
            delivery,
            work,
            now: Vec::new(),
            taken: Vec::new(),
        };
        delivered.look()?;
        Ok(Some(delivered))
    }

    /// The name of the delivery.
    pub fn name(&self) -> &str {
        self.delivery.name()
    }

    /// The trees that it lies in.
    pub fn roots(&self) -> Vec<AbsPath> {
        self.work.root_paths()
    }

    /// Every file and link of it, and every directory that got another mode, with what was done there and how it stands now.
    pub fn names(&self) -> impl Iterator<Item = (AbsPath, Deed, Now)> {
        let pairs = self.work.steps.iter().zip(&self.now);
        pairs.filter_map(|(step, now)| {
            let entry = entry(step, Way::Forward);
            let path = self.work.path(step);
            entry.is_told().then(|| (path, entry.deed(), *now))
        })
    }

    /// Both sides of every change, one after the other.
    pub fn differences(&mut self) -> impl Iterator<Item = Result<Difference>> + '_ {
        let steps: Vec<(Step, Now)> = self
            .work
            .steps
            .iter()
            .cloned()
            .zip(self.now.clone())
            .collect();
        let mut steps = steps;
        steps.sort_by(|(a, _), (b, _)| (a.root, &a.rel).cmp(&(b.root, &b.rel)));
        steps
            .into_iter()
            .map(|(step, now)| self.difference(&step, now))
    }

    /// Takes all names within `paths`, or all if there are none, in this direction.
    ///
    /// # Errors
    /// Nothing is changed then; what had been done is taken back.
    pub fn take(
        &mut self,
        direction: Direction,
        paths: &[AbsPath],
        since: Since,
    ) -> Result<Vec<Row>> {
        let way = match direction {
            Direction::Back => Way::Back,
            Direction::Again => Way::Forward,
        };
        let mut order: Vec<usize> = (0..self.work.steps.len()).collect();
        order.sort_by_key(|index| self.work.steps.get(*index).map(|s| (s.root, s.rel.clone())));
        order.retain(|index| self.taken.get(*index) == Some(&(way == Way::Back)));
        if since == Since::Replaced {
            self.refuse_special(&order, paths)?;
            self.adopt(&order, paths, way)?;
        }
        let mut plan = Plan {
            roots: self.work.root_paths(),
            ..Plan::default()
        };
        let mut wanted = Vec::new();
        for index in &order {
            let Some(step) = self.work.steps.get(*index) else {
                continue;
            };
            let mut entry = entry(step, way);
            if self.now.get(*index) == Some(&Now::Changed) {
                entry.clash = Some(Clash::Changed);
            }
            wanted.push(self.is_meant(step, paths));
            plan.entries.push(entry);
        }
        let takes: Vec<Take> = wanted
            .iter()
            .map(|wanted| if *wanted { Take::Taken } else { Take::Left })
            .collect();
        let takes = settled(&plan, &takes);
        let numbers: Vec<u32> = order
            .iter()
            .zip(&takes)
            .filter(|(_, take)| **take == Take::Taken)
            .filter_map(|(index, _)| self.work.steps.get(*index).map(|step| step.number))
            .collect();
        let mut left = LeftOut::new();
        if !numbers.is_empty() {
            self.work.open_rooms()?;
            self.work.fill_rooms(&numbers)?;
            left = self.work.session(way, Some(numbers))?;
        }
        let mut rows = Vec::new();
        for (((index, entry), take), wanted) in
            order.iter().zip(&plan.entries).zip(&takes).zip(&wanted)
        {
            let number = self.work.steps.get(*index).map(|step| step.number);
            let swapped = number.and_then(|number| left.get(&number).copied());
            let outcome = match (take, swapped) {
                (Take::Taken, None | Some(Swapped::Done)) if entry.ours.is_nothing() => {
                    Outcome::Removed
                }
                (Take::Taken, None | Some(Swapped::Done)) => Outcome::Restored,
                (Take::Taken, Some(Swapped::Foreign)) => Outcome::Left("it was changed since"),
                (Take::Taken, Some(Swapped::NotEmpty)) => Outcome::Left("it holds other files"),
                (Take::Left, _) if !wanted => continue,
                (Take::Left, _) if entry.clash.is_some() => Outcome::Left("it was changed since"),
                (Take::Left, _) => Outcome::Left("it holds files that stay"),
            };
            if entry.is_told() || matches!(outcome, Outcome::Left(_)) {
                rows.push(Row {
                    path: plan.path(entry),
                    outcome,
                });
            }
        }
        self.look()?;
        Ok(rows)
    }

    /// Refuses to replace pipes, sockets and devices: they could not be had back.
    fn refuse_special(&mut self, order: &[usize], paths: &[AbsPath]) -> Result<()> {
        for index in order {
            let Some(step) = self.work.steps.get(*index).cloned() else {
                continue;
            };
            if self.now.get(*index) != Some(&Now::Changed) || !self.is_meant(&step, paths) {
                continue;
            }
            let path = self.work.path(&step);
            let special = self.work.site(step.root)?.special(&step);
            if let Some(kind) = special.map_err(|fault| cannot("look at", &path, fault))? {
                let message = format!("`{path}` is {kind} by now, which could not be kept");
                return Err(Error::new(ErrorKind::Usage, message)
                    .hint("move it away first; nothing was changed"));
            }
        }
        Ok(())
    }

    /// Takes what stands at changed names for what was delivered there, so that it takes the place in
    /// the slot.
    fn adopt(&mut self, order: &[usize], paths: &[AbsPath], way: Way) -> Result<()> {
        let mut order = order.to_vec();
        order.sort_unstable();
        if way == Way::Back {
            order.reverse();
        }
        let mut adopted = BTreeSet::new();
        for index in order {
            let Some(step) = self.work.steps.get(index).cloned() else {
                continue;
            };
            if self.now.get(index) != Some(&Now::Changed) || !self.is_meant(&step, paths) {
                continue;
            }
            if let Some(now) = self.now.get_mut(index) {
                *now = Now::Applied;
            }
            if !adopted.insert((step.root, step.rel.clone())) {
                continue;
            }
            let mut stands = self.standing(&step)?;
            if self.work.is_apart(step.root) {
                stands = stands.copied();
            }
            self.work.amend(match way {
                Way::Back => Step {
                    ours: stands,
                    ..step
                },
                Way::Forward => Step {
                    theirs: stands,
                    ..step
                },
            })?;
        }
        Ok(())
    }

    fn is_meant(&self, step: &Step, paths: &[AbsPath]) -> bool {
        let path = self.work.path(step);
        paths.is_empty() || paths.iter().any(|meant| path.is_within(meant))
    }

    fn standing(&mut self, step: &Step) -> Result<Stand> {
        let path = self.work.path(step);
        let site = self.work.site(step.root)?;
        site.standing(step)
            .map_err(|fault| cannot("look at", &path, fault))
    }

    /// Looks at every name. A step is taken if its slot holds what stood there before; a name that was
    /// delivered more than once has several, of which the last that is taken tells what should stand
    /// there.
    fn look(&mut self) -> Result<()> {
        let slots = open_root(&self.delivery.place.slots())?;
        let steps = self.work.steps.clone();
        let mut taken = Vec::new();
        let mut expected = BTreeMap::new();
        for step in &steps {
            let is_taken = self.is_taken(step, &slots)?;
            let spot = (step.root, step.rel.clone());
            if is_taken {
                expected.insert(spot, step.ours.clone());
            } else {
                expected.entry(spot).or_insert_with(|| step.theirs.clone());
            }
            taken.push(is_taken);
        }
        let mut now = Vec::new();
        for (step, is_taken) in steps.iter().zip(&taken) {
            let stands = self.standing(step)?;
            let spot = (step.root, step.rel.clone());
            let agrees = expected
                .get(&spot)
                .is_some_and(|stand| stand.is_still(&stands));
            now.push(match (agrees, is_taken) {
                (true, true) => Now::Applied,
                (true, false) => Now::TakenBack,
                (false, _) => Now::Changed,
            });
        }
        self.taken = taken;
        self.now = now;
        Ok(())
    }

    fn is_taken(&mut self, step: &Step, slots: &Dir) -> Result<bool> {
        if step.theirs.is_directory() && step.ours.is_directory() {
            return Ok(!step.theirs.is_still(&self.standing(step)?));
        }
        let in_slot = standing(slots, OsStr::new(&step.slot()));
        let in_slot = in_slot.map_or(Stand::Nothing, |(stand, _)| stand);
        Ok(!step.ours.is_still(&in_slot))
    }

    fn difference(&mut self, step: &Step, now: Now) -> Result<Difference> {
        let path = self.work.path(step);
        let root = self
            .work
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
        let lost = || Ok(Bytes::None);
        let (before, after): (Side, Side) = match now {
            Now::Applied => (
                contents::side(&step.theirs, from_slot)?,
                contents::side(&step.ours, from_tree)?,
            ),
            Now::TakenBack => (
                contents::side(&step.theirs, from_tree)?,
                contents::side(&step.ours, from_slot)?,
            ),
            Now::Changed => (
                contents::side(&step.theirs, from_slot)?,
                contents::side(&step.ours, lost)?,
            ),
        };
        Ok(Difference {
            path,
            before,
            after,
            modes: contents::modes(&step.theirs, &step.ours),
        })
    }
}

fn read(dir: &AbsPath, rel: &RelPath) -> Result<Bytes> {
    let found = contents::bytes(&open_root(dir)?, rel);
    found.map_err(|fault| cannot("read", &dir.join(rel.as_path()), fault))
}

/// The entry of a plan that takes `step` in this direction.
fn entry(step: &Step, way: Way) -> Entry {
    let (from, to) = step.ends(way);
    Entry {
        root: step.root,
        rel: step.rel.clone(),
        theirs: from.clone(),
        ours: to.clone(),
        source: Source::Layer,
        clash: None,
    }
}

/// Refuses trees of `roots` that lie neither in `here` nor in one of `named`.
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
            format!("`{root}` lies outside of the current directory"),
        )
        .hint(format!("name it if you mean it: `--path {root}`"))),
    }
}
