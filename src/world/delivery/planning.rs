//! Owns the making of a plan: each name of a layer is looked at beside what stands there in the user's
//! tree. The rules for agents hold for every name, and nothing of the layer is followed or trusted.

use std::collections::BTreeSet;

use rustix::fs::Mode;

use crate::delivery::plan::{By, Clash, Entry, Plan, Refusal, Source};
use crate::delivery::stand::{FileStand, Stand};
use crate::error::Result;
use crate::path::{RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, Scope};
use crate::permissions::history::is_generated;
use crate::permissions::{Decision, DenyReason, PathPermissionManager};
use crate::world::bases::Bases;
use crate::world::delivery::place::cannot;
use crate::world::delivery::standing::{mode_bits, standing};
use crate::world::delivery::store::{Delivery, Offer, Origin, Written};
use crate::world::exec::compare::same_bytes;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::layer::{Trace, is_copied_up, open_up, trace};
use crate::world::sys::meta::{Kind, Meta};
use crate::world::sys::slot::is_same_mount;
use crate::world::sys::survey::{Found, Keep, Survey};

/// The bits of a mode that say who may read, write and execute, and nothing else.
const PLAIN_BITS: u32 = 0o777;

/// How many names a refusal gives as examples.
const EXAMPLES_MAX: usize = 3;

/// What the user does while a run goes on, and how it is known.
#[derive(Clone, Debug)]
pub struct Since {
    /// When the run began, by the clock that stamps files, in nanoseconds since 1970.
    pub began_ns: i128,
    /// What the agent read since.
    pub bases: Option<Bases>,
}

/// What `delivery` would change now.
pub fn plan(delivery: &Delivery, offer: &Offer, since: Option<&Since>) -> Result<Plan> {
    let mut plan = Plan {
        roots: offer.roots(),
        ..Plan::default()
    };
    let manager = offer.manager();
    for (number, root) in offer.roots().iter().enumerate() {
        let origin = delivery.origin(offer, number);
        plan.origins
            .push(origin.as_ref().map(|origin| origin.path.clone()));
        let Some(Origin { path, written }) = origin else {
            continue;
        };
        let upper = Dir::own(&path).map_err(|fault| cannot("open", &path, fault))?;
        let tree = Dir::own(root).map_err(|fault| cannot("open", root, fault))?;
        let real = tree
            .real_path()
            .map_err(|fault| cannot("open", root, fault))?;
        let reading = Reading {
            manager: &manager,
            since,
            written,
            number,
            real,
            tree,
            upper,
            hiding: BTreeSet::new(),
            closed: BTreeSet::new(),
            plan: &mut plan,
        };
        reading.read()?;
    }
    plan.entries
        .sort_by(|a, b| (a.root, &a.rel).cmp(&(b.root, &b.rel)));
    plan.entries
        .dedup_by(|b, a| (a.root, &a.rel) == (b.root, &b.rel));
    Ok(plan)
}

/// The reading of one layer.
struct Reading<'a> {
    manager: &'a PathPermissionManager,
    since: Option<&'a Since>,
    written: Written,
    /// The number of the root.
    number: usize,
    /// Where the user's tree is.
    real: RealPath,
    /// The user's tree.
    tree: Dir,
    /// The layer.
    upper: Dir,
    /// Directories of the layer through which nothing shows.
    hiding: BTreeSet<RelPath>,
    /// Directories in which nothing can be changed: they are no directories in the user's tree.
    closed: BTreeSet<RelPath>,
    plan: &'a mut Plan,
}

/// Why a name is left out of a plan.
enum Stopped {
    Refused(String),
    Fault(Fault),
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

type Read = std::result::Result<(), Stopped>;

impl Reading<'_> {
    fn read(mut self) -> Result<()> {
        let survey = self.survey();
        if let Some(cut) = survey.cut {
            let path = self.real.to_abs();
            return Err(cannot("plan the delivery to", &path, Fault::Limit(cut)));
        }
        for (rel, fault) in &survey.unreadable {
            self.refuse(rel, By::Disk, format!("its layer cannot be read: {fault}"));
        }
        for found in &survey.found {
            let parent = found.rel.parent().unwrap_or_default();
            if self.closed.contains(&parent) {
                self.closed.insert(found.rel.clone());
                continue;
            }
            match self.take(&found.rel) {
                Ok(()) => {}
                Err(stopped) => self.refuse_all(&found.rel, stopped),
            }
        }
        Ok(())
    }

    /// All names of the layer that may be changed, parents first. The others are noted, once.
    fn survey(&mut self) -> Survey {
        let Ok(upper) = self.upper.try_clone() else {
            return Survey::default();
        };
        Survey::of(&upper, &mut |found: &Found| {
            if let Some(reason) = self.forbidden(&found.rel) {
                self.refuse(&found.rel, By::Rule, reason);
                return Keep::Not;
            }
            if found.kind == Kind::Directory {
                // If it cannot be read, the survey says so.
                let _opened = open_up(&upper, &found.rel);
            }
            Keep::Deep
        })
    }

    /// Why nothing may be changed at `rel`, if so.
    fn forbidden(&self, rel: &RelPath) -> Option<String> {
        let is_own = |grant: &Grant| {
            let here = grant.root == self.real || grant.scope == Scope::File;
            grant.kind == GrantKind::Context && here
        };
        match self.manager.decide(&self.real.join(rel), Permission::Write) {
            Decision::Allow { grant } if is_own(grant) => None,
            Decision::Allow { .. } => {
                Some("it lies in another directory that was opened".to_owned())
            }
            Decision::Deny(DenyReason::OutsideGrants) => {
                Some("it is not among the files that were opened".to_owned())
            }
            Decision::Deny(DenyReason::Lowered { rule, .. }) => Some(rule.because.to_owned()),
        }
    }

    fn refuse(&mut self, rel: &RelPath, by: By, reason: String) {
        let path = self.real.join(rel);
        let refusal = Refusal { path, reason, by };
        if is_generated(rel) {
            self.plan.left_out.push(refusal);
        } else {
            self.plan.refused.push(refusal);
        }
    }

    /// Refuses a name with all that is below it.
    fn refuse_all(&mut self, rel: &RelPath, stopped: Stopped) {
        self.closed.insert(rel.clone());
        match stopped {
            Stopped::Refused(reason) => self.refuse(rel, By::Rule, reason),
            Stopped::Fault(fault) => self.refuse(rel, By::Disk, fault.to_string()),
        }
    }

    fn take(&mut self, rel: &RelPath) -> Read {
        open_up(&self.upper, rel)?;
        let hides_parent = rel
            .parent()
            .is_some_and(|parent| self.hiding.contains(&parent));
        match trace(&self.upper, rel)? {
            Trace::Removed => self.remove(rel),
            Trace::Merged(meta) => self.merge_dir(rel, &meta),
            Trace::Made(meta) if hides_parent => self.replace_dir(rel, &meta),
            Trace::Made(meta) => self.make_dir(rel, &meta),
            Trace::Replaced(meta) => self.replace_dir(rel, &meta),
            Trace::File(meta) => self.put_file(rel, &meta),
            Trace::Link => {
                let target = self.upper.link_target(rel)?;
                self.put(rel, Stand::Link { target })
            }
            Trace::Special(kind) => {
                self.refuse(rel, By::Rule, format!("it is {kind}"));
                Ok(())
            }
        }
    }

    /// What stands at `rel` in the user's tree, opened beneath its root. Where its directory is gone,
    /// nothing does.
    fn theirs(&self, rel: &RelPath) -> std::result::Result<(Stand, Option<Meta>), Stopped> {
        let name = rel.name().ok_or(Fault::IsDirectory)?;
        let parent = rel.parent().unwrap_or_default();
        match self.tree.dir(&parent) {
            Ok(dir) => {
                if !is_same_mount(&dir, &self.tree)? {
                    let why = "another file system is mounted there";
                    return Err(Stopped::Refused(why.to_owned()));
                }
                match standing(&dir, name) {
                    Err(Fault::NotRegular(kind)) => {
                        Err(Stopped::Refused(format!("{kind} stands there")))
                    }
                    other => Ok(other?),
                }
            }
            Err(Fault::Missing) => Ok((Stand::Nothing, None)),
            // What stands there gives way to the directory that is to come.
            Err(Fault::NotDirectory | Fault::Replaced) if self.hiding.contains(&parent) => {
                Ok((Stand::Nothing, None))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// A directory that was in the user's tree when the agent began.
    fn merge_dir(&mut self, rel: &RelPath, meta: &Meta) -> Read {
        let (theirs, _) = self.theirs(rel)?;
        match theirs {
            Stand::Directory { mode } => {
                let ours = Stand::Directory {
                    mode: mode_bits(meta),
                };
                if self.written == Written::Over && mode != mode_bits(meta) {
                    self.add(rel, theirs, ours, None);
                }
                Ok(())
            }
            // What is in it says whether anything is missed.
            Stand::Nothing => {
                let ours = Stand::Directory {
                    mode: mode_bits(meta),
                };
                self.add(rel, theirs, ours, Some(Clash::Removed));
                Ok(())
            }
            Stand::File(_) | Stand::Link { .. } => Err(no_directory(&theirs)),
        }
    }

    fn make_dir(&mut self, rel: &RelPath, meta: &Meta) -> Read {
        let (theirs, _) = self.theirs(rel)?;
        match theirs {
            Stand::Directory { .. } => Ok(()),
            Stand::Nothing => {
                let ours = Stand::Directory {
                    mode: mode_bits(meta) | Mode::RWXU.as_raw_mode(),
                };
                self.add(rel, theirs, ours, None);
                Ok(())
            }
            Stand::File(_) | Stand::Link { .. } => Err(no_directory(&theirs)),
        }
    }

    /// A directory that stands in the place of what was there: what is not in it is gone.
    fn replace_dir(&mut self, rel: &RelPath, meta: &Meta) -> Read {
        self.hiding.insert(rel.clone());
        let (theirs, found) = self.theirs(rel)?;
        let ours = Stand::Directory {
            mode: mode_bits(meta) | Mode::RWXU.as_raw_mode(),
        };
        match theirs {
            Stand::Nothing => self.add(rel, theirs, ours, None),
            Stand::Directory { .. } => {
                if theirs != ours {
                    self.add(rel, theirs, ours, None);
                }
                self.remove_hidden(rel)?;
            }
            Stand::File(_) | Stand::Link { .. } => {
                let clash = self.clash(rel, found.as_ref());
                self.add(rel, theirs, ours, clash);
            }
        }
        Ok(())
    }

    /// Removes what is in a directory of the user's and not in the one that hides it.
    fn remove_hidden(&mut self, rel: &RelPath) -> Read {
        let kept = self.upper.dir(rel).and_then(|dir| dir.entries())?;
        let kept: BTreeSet<_> = kept.into_iter().map(|entry| entry.name).collect();
        for entry in self.tree.dir(rel).and_then(|dir| dir.entries())? {
            let Some(rel) = rel.child(&entry.name) else {
                continue;
            };
            if kept.contains(&entry.name) {
                continue;
            }
            if let Some(reason) = self.forbidden(&rel) {
                self.refuse(&rel, By::Rule, reason);
            } else if let Err(stopped) = self.remove(&rel) {
                self.refuse_all(&rel, stopped);
            }
        }
        Ok(())
    }

    fn put_file(&mut self, rel: &RelPath, meta: &Meta) -> Read {
        let (theirs, found) = self.theirs(rel)?;
        let new_bits = (meta.plain_bits() | Mode::WUSR).as_raw_mode();
        let kept = match (&theirs, self.written) {
            (Stand::File(old), Written::Apart) => Some(old.mode),
            (Stand::File(old), Written::Over) if old.mode & PLAIN_BITS | 0o200 == new_bits => {
                Some(old.mode)
            }
            _ => None,
        };
        // The rights that a file lends are not lent to what an agent puts into it.
        let mode = kept.map_or(new_bits, |mode| mode & PLAIN_BITS);
        let ours = Stand::File(FileStand {
            inode: None,
            size_bytes: meta.version.size_bytes,
            modified_ns: i64::try_from(meta.version.modified_ns).unwrap_or(i64::MAX),
            mode,
        });
        if let (Stand::File(old), Some(old_meta)) = (&theirs, &found) {
            if kept == Some(old.mode) && self.is_same(rel, old_meta)? {
                return Ok(());
            }
            if old_meta.names > 1 {
                let why = "it is one of several names (hard links) of the same file";
                return Err(Stopped::Refused(why.to_owned()));
            }
            if !old_meta.is_writable_for_owner() {
                let why = "its permission bits say that it is read-only";
                return Err(Stopped::Refused(why.to_owned()));
            }
        }
        self.put_looked_at(rel, theirs, found.as_ref(), ours)
    }

    /// Whether the layer's file has the content of the user's: a command only opened or touched it.
    fn is_same(&self, rel: &RelPath, their: &Meta) -> std::result::Result<bool, Fault> {
        let (ours, our) = self.upper.open_file(rel)?;
        let size_bytes = our.version.size_bytes;
        if size_bytes != their.version.size_bytes {
            return Ok(false);
        }
        let (theirs, _) = self.tree.open_file(rel)?;
        same_bytes(ours, theirs, size_bytes)
    }

    fn put(&mut self, rel: &RelPath, ours: Stand) -> Read {
        let (theirs, found) = self.theirs(rel)?;
        if theirs == ours {
            return Ok(());
        }
        self.put_looked_at(rel, theirs, found.as_ref(), ours)
    }

    /// Puts a file or a link where `theirs` stands; a directory there goes first, with all that is in
    /// it, or not at all.
    fn put_looked_at(
        &mut self,
        rel: &RelPath,
        theirs: Stand,
        found: Option<&Meta>,
        ours: Stand,
    ) -> Read {
        if theirs.is_directory() {
            if self.written == Written::Apart {
                return Err(Stopped::Fault(Fault::IsDirectory));
            }
            self.remove_below(rel)?;
        }
        let clash = match found {
            Some(_) => self.clash(rel, found),
            None => self.missed(rel),
        };
        self.add(rel, theirs, ours, clash);
        Ok(())
    }

    /// Removes what stands at `rel`; a directory with all that is in it, or not at all.
    fn remove(&mut self, rel: &RelPath) -> Read {
        let (theirs, found) = self.theirs(rel)?;
        if theirs.is_nothing() {
            return Ok(());
        }
        if theirs.is_directory() {
            self.remove_below(rel)?;
            self.add(rel, theirs, Stand::Nothing, None);
            return Ok(());
        }
        if found
            .as_ref()
            .is_some_and(|meta| meta.kind == Kind::File && !meta.is_writable_for_owner())
        {
            let why = "its permission bits say that it is read-only";
            return Err(Stopped::Refused(why.to_owned()));
        }
        let clash = self.clash(rel, found.as_ref());
        self.add(rel, theirs, Stand::Nothing, clash);
        Ok(())
    }

    /// Removes everything below the user's directory `rel`, if all of it may go.
    fn remove_below(&mut self, rel: &RelPath) -> Read {
        if self.manager.holds_a_root(&self.real.join(rel)) {
            let why = "it holds a directory that was opened as a whole";
            return Err(Stopped::Refused(why.to_owned()));
        }
        let start = self.tree.dir(rel)?;
        let survey = Survey::of(&start, &mut |_: &Found| Keep::Deep);
        if let Some(cut) = survey.cut {
            return Err(Stopped::Fault(Fault::Limit(cut)));
        }
        if let Some((_, fault)) = survey.unreadable.first() {
            return Err(Stopped::Fault(*fault));
        }
        let below: Vec<RelPath> = survey
            .found
            .iter()
            .map(|found| rel.join(&found.rel))
            .collect();
        let closed: Vec<&RelPath> = below
            .iter()
            .filter(|rel| self.forbidden(rel).is_some())
            .collect();
        if !closed.is_empty() {
            return Err(Stopped::Refused(holds_closed(&closed)));
        }
        for rel in &below {
            let (_, found) = self.theirs(rel)?;
            if found.is_some_and(|meta| meta.kind == Kind::File && !meta.is_writable_for_owner()) {
                let why =
                    format!("it holds `{rel}`, whose permission bits say that it is read-only");
                return Err(Stopped::Refused(why));
            }
        }
        for rel in below {
            let (theirs, found) = self.theirs(&rel)?;
            let clash = match theirs {
                Stand::Directory { .. } | Stand::Nothing => None,
                Stand::File(_) | Stand::Link { .. } => self.clash(&rel, found.as_ref()),
            };
            self.add(&rel, theirs, Stand::Nothing, clash);
        }
        Ok(())
    }

    fn add(&mut self, rel: &RelPath, theirs: Stand, ours: Stand, clash: Option<Clash>) {
        self.plan.entries.push(Entry {
            root: self.number,
            rel: rel.clone(),
            theirs,
            ours,
            source: Source::Layer,
            clash,
        });
    }

    /// What the user did to what stands at `rel` since the run began, unless the agent has read it as
    /// it is now.
    fn clash(&self, rel: &RelPath, found: Option<&Meta>) -> Option<Clash> {
        let (since, found) = (self.since?, found?);
        if found.version.changed_ns < since.began_ns {
            return None;
        }
        let base = since
            .bases
            .as_ref()
            .and_then(|bases| bases.of(&self.real.join(rel)));
        match base {
            Some(base) if base.is_of(&found.version) => None,
            Some(_) | None => Some(Clash::Changed),
        }
    }

    /// Whether the user has removed what the agent changed. That something was copied from the tree
    /// says so only if names of its directory have come or gone: an agent can also have moved it here.
    fn missed(&self, rel: &RelPath) -> Option<Clash> {
        let since = self.since?;
        let bases = since.bases.as_ref();
        let was_read = bases.is_some_and(|bases| bases.of(&self.real.join(rel)).is_some());
        let may_be_missed = || {
            let parent = self.tree.meta(&rel.parent().unwrap_or_default());
            parent.is_ok_and(|meta| meta.version.changed_ns >= since.began_ns)
        };
        let is_missed = was_read || (is_copied_up(&self.upper, rel) && may_be_missed());
        is_missed.then_some(Clash::Removed)
    }
}

fn no_directory(theirs: &Stand) -> Stopped {
    let what = match theirs {
        Stand::Link { .. } => "a symbolic link",
        Stand::File(_) => "a file",
        Stand::Directory { .. } | Stand::Nothing => "something else",
    };
    Stopped::Refused(format!(
        "{what} stands where it is a directory, and is not followed"
    ))
}

fn holds_closed(closed: &[&RelPath]) -> String {
    let examples: Vec<String> = closed
        .iter()
        .take(EXAMPLES_MAX)
        .map(ToString::to_string)
        .collect();
    let more = match closed.len().saturating_sub(EXAMPLES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let examples = examples.join("`, `");
    format!("it holds names that may not be changed (`{examples}`{more})")
}
