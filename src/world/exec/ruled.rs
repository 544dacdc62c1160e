//! Owns the look for what is closed to a command, before it runs: the names in all trees that rules of
//! `permissions:` or `hidden_paths` keep it from reading, and those of the agent's own workspace that
//! it may only read.

use std::collections::BTreeSet;

use crate::confinement::tier::Tier;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::{GrantKind, Permission};
use crate::permissions::path_rules::PathRule;
use crate::permissions::protected::fold;
use crate::world::exec::answer::Stop;
use crate::world::exec::command::cannot_run;
use crate::world::gate::{Gate, Place};
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Kind;
use crate::world::sys::patrol::{Sight, Turn, Watch, patrol};

/// How many names are looked at before a command; looking takes about a second then.
const NAMES_MAX: usize = 1_000_000;

/// What a command finds closed, besides what the grants close.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// What it may not read.
    pub(super) hidden: BTreeSet<AbsPath>,
    /// What it may not change, of its agent's workspace.
    pub(super) masked: BTreeSet<AbsPath>,
}

/// What rules close of what stands in the trees of `gate`. The error says why no command can be run.
pub(super) fn closed(gate: &Gate, tier: Tier) -> Result<Closed, Stop> {
    let mut closed = Closed::default();
    let rules = gate.path_rules();
    let hides = |rule: &PathRule| rule.closes(Permission::Read);
    // In tier C nothing inside a directory that may be written to can be kept as it is.
    let masks = |rule: &PathRule| tier != Tier::C && rule.closes(Permission::Write);
    let (hides, masks) = (rules.iter().any(hides), rules.iter().any(masks));
    let mut names = 0_usize;
    for root in gate.trees() {
        for rel in &root.grant().hidden {
            let spellings = spellings(&root, rel)?;
            let shut = spellings.into_iter().map(|rel| root.at(&rel));
            let shut = shut.filter(|place| !gate.allows(place.real(), Permission::Read));
            closed
                .hidden
                .extend(shut.map(|place| place.real().to_abs()));
        }
        let is_own = root.grant().kind == GrantKind::Workspace;
        let is_looked_through = hides || (masks && is_own);
        if !is_looked_through {
            continue;
        }
        let mut look = Look {
            gate,
            root: &root,
            masks: masks && is_own,
            names: &mut names,
            closed: &mut closed,
        };
        patrol(root.dir(), &mut look).map_err(|fault| cannot_run(&fault))?;
    }
    if names > NAMES_MAX {
        let why = format!("`permissions` has globs, and there are more than {NAMES_MAX} names");
        return Err(cannot_run(&why));
    }
    Ok(closed)
}

/// What stands in the tree `root` under `rel`, or under names that are the same when folded: the
/// rules hide all of them.
fn spellings(root: &Place, rel: &RelPath) -> Result<Vec<RelPath>, Stop> {
    let mut found = vec![RelPath::default()];
    for wanted in rel.names() {
        let wanted = fold(wanted);
        let mut next = Vec::new();
        for above in found {
            let place = root.at(&above);
            let entries = match place
                .dir()
                .dir(&place.below())
                .and_then(|dir| dir.entries())
            {
                Ok(entries) => entries,
                Err(Fault::Missing | Fault::NotDirectory) => continue,
                Err(fault) => {
                    let dir = place.real();
                    let why = format!("`{dir}` cannot be listed, and `{rel}` is hidden: {fault}");
                    return Err(cannot_run(&why));
                }
            };
            let same = entries
                .into_iter()
                .filter(|entry| entry.kind != Kind::Link && fold(&entry.name) == wanted);
            next.extend(same.filter_map(|entry| above.child(&entry.name)));
        }
        found = next;
    }
    Ok(found)
}

struct Look<'l> {
    gate: &'l Gate,
    root: &'l Place,
    /// Whether what may only be read is noted too.
    masks: bool,
    names: &'l mut usize,
    closed: &'l mut Closed,
}

impl Watch for Look<'_> {
    fn see(&mut self, sight: Sight<'_>) -> Turn {
        *self.names = self.names.saturating_add(1);
        if *self.names > NAMES_MAX {
            return Turn::Home;
        }
        let place = self.root.at(sight.rel);
        let path = place.real();
        if self.gate.speaking_for(path) != Some(self.root.grant()) {
            return Turn::Past;
        }
        // A link is nothing that could be covered, and leads to nothing that is not closed itself.
        let can_be_covered = matches!(sight.kind, Kind::File | Kind::Directory);
        if !self.gate.allows(path, Permission::Read) {
            if can_be_covered {
                self.closed.hidden.insert(path.to_abs());
            }
            return Turn::Past;
        }
        if self.masks && can_be_covered && !self.gate.allows(path, Permission::Write) {
            self.closed.masked.insert(path.to_abs());
        }
        match sight.kind {
            Kind::Directory => Turn::Inside,
            Kind::File | Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device => Turn::Past,
        }
    }

    /// Nobody knows what is in it, and a command might open it.
    fn barred(&mut self, rel: &RelPath, _fault: Fault) -> Turn {
        self.closed.hidden.insert(self.root.at(rel).real().to_abs());
        Turn::Past
    }
}
