//! Owns the look at the user's trees before a command: what stands at closed names is masked, so
//! that the command sees an error, and remembered, so that what it makes there all the same is known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::confinement::tier::Tier;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::permissions::history::{History, Version};
use crate::permissions::protected::protected_name;
use crate::world::change::{Change, ChangeKind};
use crate::world::exec::answer::Stop;
use crate::world::exec::inventory::{FILES_MAX, Inventory};
use crate::world::gate::{Gate, Place};
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::{Kind, Meta};
use crate::world::sys::survey::{Found, Keep, Survey};

/// How many names are looked at before a command; looking takes about a second then.
const NAMES_BEFORE_MAX: usize = 1_000_000;
/// How many names are looked at after a command, which may have made many.
const NAMES_AFTER_MAX: usize = 4_000_000;

/// The protected names that an overlay masks at its root. What tools generate can be written there
/// and stays private.
const MASKED_IN_OVERLAYS: &[&str] = &[".git", ".env", ".massgen"];

/// What stands at the closed names of the trees that a command may write to.
#[derive(Debug, Default)]
pub(super) struct Standing {
    names: BTreeMap<RealPath, Stood>,
    /// Directories that could not be looked into.
    unread: BTreeSet<RealPath>,
    /// All others, where a command writes to them directly.
    files: Inventory,
}

/// What stands at one closed name.
#[derive(Clone, Debug)]
pub(super) struct Stood {
    /// What it is.
    pub(super) meta: Meta,
    /// Of a link, its text.
    pub(super) target: Option<PathBuf>,
}

impl Stood {
    fn at(place: &Place) -> Result<Self, Fault> {
        let meta = place.dir().meta(&place.below())?;
        let target = match meta.kind {
            Kind::Link => Some(place.dir().link_target(&place.below())?),
            Kind::File | Kind::Directory | Kind::Fifo | Kind::Socket | Kind::Device => None,
        };
        Ok(Self { meta, target })
    }

    /// What tells it from all others, wherever it is moved with its directory.
    pub(super) fn identity(&self) -> Identity {
        let Version {
            device,
            inode,
            changed_ns,
            ..
        } = self.meta.version;
        Identity {
            device,
            inode,
            unmasked_since_ns: (!self.can_be_masked()).then_some(changed_ns),
        }
    }

    /// Whether a command can be kept from it: a mask lies on a file or a directory.
    fn can_be_masked(&self) -> bool {
        matches!(self.meta.kind, Kind::File | Kind::Directory)
    }
}

/// What tells one closed name from all others. The number of an inode is used again as soon as it
/// is free; a masked one is never free while a command runs, and others changed when they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    unmasked_since_ns: Option<i128>,
}

impl Standing {
    /// What stands there, by path.
    pub(super) fn names(&self) -> &BTreeMap<RealPath, Stood> {
        &self.names
    }

    /// Directories that could not be looked into, and could `before`.
    pub(super) fn closed_since<'s>(
        &'s self,
        before: &'s Self,
    ) -> impl Iterator<Item = &'s RealPath> {
        self.unread.difference(&before.unread)
    }

    /// What became of the files that are not closed until `now`.
    pub(super) fn changes(&self, now: &Self, history: &mut History) -> Vec<Change> {
        let unread = self.unread.union(&now.unread).cloned().collect();
        let mut changes = self.files.changes(&now.files, &unread, history);
        for dir in self.unread.symmetric_difference(&now.unread) {
            let reason = "it could not be read all the time".to_owned();
            changes.push(Change {
                path: dir.clone(),
                kind: ChangeKind::Unlisted { reason },
            });
        }
        changes
    }

    /// What is to be masked: files and directories that may be read. A link cannot be masked.
    pub(super) fn masks(&self, gate: &Gate) -> Vec<AbsPath> {
        let is_masked = |(path, stood): &(&RealPath, &Stood)| {
            stood.can_be_masked() && gate.allows(path, Permission::Read)
        };
        let masked = self.names.iter().filter(is_masked);
        masked.map(|(path, _)| path.to_abs()).collect()
    }
}

/// What a command in this tier has to find masked. The error says why no command can be run.
pub(super) fn look(gate: &Gate, tier: Tier) -> Result<Standing, Stop> {
    match tier {
        Tier::A => Ok(at_the_roots(gate)),
        Tier::B => everywhere(gate, NAMES_BEFORE_MAX),
        Tier::Off => Ok(unmasked(gate, NAMES_BEFORE_MAX)),
        Tier::C | Tier::D => Ok(Standing::default()),
    }
}

/// What stands there after a command that wrote to the trees directly. The error says why nobody
/// knows.
pub(super) fn look_again(gate: &Gate, tier: Tier) -> Result<Standing, Stop> {
    match tier {
        Tier::Off => Ok(unmasked(gate, NAMES_AFTER_MAX)),
        Tier::A | Tier::B | Tier::C | Tier::D => everywhere(gate, NAMES_AFTER_MAX),
    }
}

/// The files alone. Nothing is closed to a command that nothing holds, so that it runs also where
/// not all can be looked at.
fn unmasked(gate: &Gate, names_max: usize) -> Standing {
    let mut standing = everywhere(gate, names_max).unwrap_or_else(|_| {
        let mut standing = Standing::default();
        for root in users_trees(gate) {
            standing.files.add_partial(root.real());
        }
        standing
    });
    standing.names.clear();
    standing
}

/// The roots of the user's trees that may be written to.
pub(super) fn users_trees(gate: &Gate) -> Vec<Place> {
    let is_users = |grant: &&Grant| matches!(grant.kind, GrantKind::Context | GrantKind::BuiltIn);
    let users = gate.manager().grants().iter().filter(is_users);
    users
        .filter_map(|grant| gate.writable_tree(&grant.root.to_abs()))
        .collect()
}

/// Some names at the root of each tree, and the paths that the config protects.
fn at_the_roots(gate: &Gate) -> Standing {
    let mut standing = Standing::default();
    for root in users_trees(gate) {
        let grant = root.grant();
        let entries = root.dir().dir(&root.below()).and_then(|dir| dir.entries());
        let named = entries.unwrap_or_default().into_iter().filter_map(|entry| {
            let rel = RelPath::default().child(&entry.name)?;
            let protected = protected_name(&rel, &grant.unprotected)?;
            MASKED_IN_OVERLAYS.contains(&protected).then_some(rel)
        });
        for rel in named.chain(grant.protected.iter().cloned()) {
            let place = root.at(&rel);
            // What is not there, or not to be looked at, cannot be masked either.
            if let Ok(stood) = Stood::at(&place) {
                standing.names.insert(place.real().clone(), stood);
            }
        }
    }
    standing
}

/// All closed names of the user's trees that may be written to, and the files that are not closed.
/// What is behind a closed name is not looked at, and neither is what other grants speak for.
pub(super) fn everywhere(gate: &Gate, names_max: usize) -> Result<Standing, Stop> {
    let mut standing = Standing::default();
    let mut names_left = names_max;
    for root in users_trees(gate) {
        let stop =
            |why: &dyn std::fmt::Display| Stop::at(gate, "look for protected names in", &root, why);
        let start = root
            .dir()
            .dir(&root.below())
            .map_err(|fault| stop(&fault))?;
        let (mut closed, mut files) = (Vec::new(), Vec::new());
        let survey = Survey::of(&start, &mut |found: &Found| {
            let Some(left) = names_left.checked_sub(1) else {
                return Keep::Not;
            };
            names_left = left;
            let place = root.at(&found.rel);
            if gate.speaking_for(place.real()) != Some(root.grant()) {
                return Keep::Not;
            }
            if !gate.allows(place.real(), Permission::Write) {
                closed.push(place);
                return Keep::Not;
            }
            match found.kind {
                Kind::Directory => Keep::Deep,
                Kind::File | Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device => {
                    // One more shows that there are more.
                    if files.len() <= FILES_MAX {
                        files.push(found.rel.clone());
                    }
                    Keep::Not
                }
            }
        });
        if let Some(cut) = survey.cut {
            return Err(stop(&cut));
        }
        if names_left == 0 {
            return Err(stop(&format!("it holds more than {names_max} names")));
        }
        standing.files.add(&root, &files);
        let unread = survey.unreadable.iter().map(|(rel, _)| root.at(rel));
        let unread = unread.map(|place| place.real().clone());
        standing.unread.extend(unread);
        for place in closed {
            match Stood::at(&place) {
                Ok(stood) => drop(standing.names.insert(place.real().clone(), stood)),
                // It went while it was looked at.
                Err(Fault::Missing | Fault::NotDirectory | Fault::Replaced) => {}
                Err(fault) => return Err(stop(&fault)),
            }
        }
    }
    Ok(standing)
}
