//! Owns the look at the user's trees before a command: what stands at closed names is masked, so
//! that the command sees an error, and remembered, so that what it makes there all the same is known.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStringExt;

use serde::{Deserialize, Serialize};

use crate::confinement::tier::Tier;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::history::{History, Version};
use crate::permissions::protected::protected_name;
use crate::world::change::{Change, ChangeKind};
use crate::world::exec::answer::Stop;
use crate::world::exec::inventory::Inventory;
use crate::world::exec::rounds::{Class, Inspector, Name, PATH_BYTES_MAX, go_round, users_trees};
use crate::world::gate::{Gate, Place};
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::{Kind, Meta};
use crate::world::sys::patrol::Turn;

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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stood {
    /// What it is.
    pub(super) kind: Kind,
    /// Its identity and state.
    pub(super) version: Version,
    /// Its permission bits.
    pub(super) mode_bits: u32,
    /// Of a link, the bytes of its text.
    pub(super) target: Option<Vec<u8>>,
}

impl Stood {
    fn at(place: &Place) -> Result<Self, Fault> {
        let below = place.below();
        let (dir, name) = place.dir().parent_of(&below)?;
        Self::of(&dir, name, &Meta::named(&dir, name)?)
    }

    /// What stands at `name` in `dir`, of which the kernel says `meta`.
    pub(super) fn of(dir: &Dir, name: &OsStr, meta: &Meta) -> Result<Self, Fault> {
        let rel = RelPath::default().child(name).ok_or(Fault::Missing)?;
        let target = match meta.kind {
            Kind::Link => Some(dir.link_target(&rel)?.into_os_string().into_vec()),
            Kind::File | Kind::Directory | Kind::Fifo | Kind::Socket | Kind::Device => None,
        };
        Ok(Self {
            kind: meta.kind,
            version: meta.version,
            mode_bits: meta.permission_bits().bits(),
            target,
        })
    }

    /// What tells it from all others, wherever it is moved with its directory.
    pub(super) fn identity(&self) -> Identity {
        let Version {
            device,
            inode,
            changed_ns,
            ..
        } = self.version;
        Identity {
            device,
            inode,
            unmasked_since_ns: (!self.can_be_masked()).then_some(changed_ns),
        }
    }

    /// Whether a command can be kept from it: a mask lies on a file or a directory.
    pub(super) fn can_be_masked(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Directory)
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

    /// Notes what stood at a closed name; of a directory, whether it could not be looked into.
    pub(super) fn add_closed(&mut self, path: RealPath, stood: Stood, unread: bool) {
        if unread {
            self.unread.insert(path.clone());
        }
        self.names.insert(path, stood);
    }

    /// Whether this directory could not be looked into.
    pub(super) fn is_unread(&self, path: &RealPath) -> bool {
        self.unread.contains(path)
    }

    /// Whether no directory could not be looked into.
    pub(super) fn is_all_read(&self) -> bool {
        self.unread.is_empty()
    }

    /// Notes a directory that cannot be looked into.
    pub(super) fn add_unread(&mut self, path: &RealPath) {
        self.unread.insert(path.clone());
    }

    /// Notes a file that is not closed.
    pub(super) fn add_file(&mut self, name: &Name<'_>) {
        let (root, path) = (name.root.real(), name.place.real());
        self.files.add(root, path, name.meta.version);
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

/// The files that stand there after a command that nothing held.
pub(super) fn look_again(gate: &Gate) -> Standing {
    unmasked(gate, NAMES_AFTER_MAX)
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
/// What cannot be looked into is closed as well: nobody knows what is in it.
pub(super) fn everywhere(gate: &Gate, names_max: usize) -> Result<Standing, Stop> {
    let mut look = Look {
        gate,
        names_max,
        names: 0,
        standing: Standing::default(),
        refused: None,
    };
    go_round(gate, &mut look);
    look.refused.map_or(Ok(look.standing), Err)
}

/// The look at all that stands there.
struct Look<'g> {
    gate: &'g Gate,
    names_max: usize,
    names: usize,
    standing: Standing,
    refused: Option<Stop>,
}

impl Look<'_> {
    /// Nobody can say what stands in the tree that `place` is of.
    fn refuse(&mut self, place: &Place, why: impl Display) -> Turn {
        let stop = Stop::at(self.gate, "look for protected names in", place, why);
        self.refused.get_or_insert(stop);
        Turn::Home
    }

    fn close(&mut self, place: &Place, stood: Result<Stood, Fault>) -> Turn {
        match stood {
            Ok(stood) => drop(self.standing.names.insert(place.real().clone(), stood)),
            // It went while it was looked at.
            Err(Fault::Missing | Fault::NotDirectory | Fault::Replaced) => {}
            Err(fault) => return self.refuse(place, fault),
        }
        Turn::Past
    }
}

impl Inspector for Look<'_> {
    fn see(&mut self, name: Name<'_>, class: Class) -> Turn {
        self.names = self.names.saturating_add(1);
        if self.names > self.names_max {
            let why = format!("it holds more than {} names", self.names_max);
            return self.refuse(name.root, why);
        }
        match class {
            Class::Closed => {
                let stood = Stood::of(name.dir, name.called, name.meta);
                self.close(name.place, stood)
            }
            Class::TooLong => {
                let why = format!("a path in it is longer than {PATH_BYTES_MAX} bytes");
                self.refuse(name.root, why)
            }
            Class::Directory => Turn::Inside,
            Class::File => {
                self.standing.add_file(&name);
                Turn::Past
            }
        }
    }

    fn barred(&mut self, place: &Place, _dir: Option<&Dir>, fault: Fault) -> Turn {
        if place.real() == &place.grant().root {
            return self.refuse(place, fault);
        }
        self.standing.add_unread(place.real());
        self.close(place, Stood::at(place))
    }
}
