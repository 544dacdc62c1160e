//! Owns the note of what stood at closed names before a command that writes to the user's trees
//! directly. It is on the disk until the sweep is done: if massgen is ended before, the next run
//! sweeps by it, under the rules of the gate that the command had.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase, Scope};
use crate::permissions::path_rules::PathRule;
use crate::world::change::{Change, ChangeKind};
use crate::world::commands::room::{notes, quarantine};
use crate::world::exec::answer::shown;
use crate::world::exec::masks::{Standing, Stood};
use crate::world::exec::rounds::users_trees;
use crate::world::exec::sweep::sweep;
use crate::world::gate::{Gate, GatePolicy};
use crate::world::sys::dir::Dir;
use crate::world::sys::meta::Meta;
use crate::world::sys::own::file::{Durability, read_capped, replace};
use crate::world::sys::own::{clear, dir};

/// The longest note that is read, in bytes; a name takes some 300.
const NOTE_BYTES_MAX: u64 = 1 << 30;

/// A note on the disk.
#[derive(Debug)]
pub(super) struct Note(AbsPath);

/// What is in a note.
#[derive(Debug, Serialize, Deserialize)]
struct Noted {
    grants: Vec<NotedGrant>,
    trees: Vec<NotedTree>,
}

/// A grant of the gate. Its exceptions are whole paths.
#[derive(Debug, Serialize, Deserialize)]
struct NotedGrant {
    root: AbsPath,
    scope: Scope,
    kind: GrantKind,
    permission: Permission,
    protected: Vec<AbsPath>,
    hidden: Vec<AbsPath>,
    unprotected: Vec<String>,
    ruled: Vec<PathRule>,
}

/// A tree of the user's.
#[derive(Debug, Serialize, Deserialize)]
struct NotedTree {
    root: AbsPath,
    device: u64,
    inode: u64,
    names: Vec<NotedName>,
}

/// What stood at a closed name.
#[derive(Debug, Serialize, Deserialize)]
struct NotedName {
    path: AbsPath,
    stood: Stood,
    unread: bool,
}

impl Note {
    /// Writes down to `path` what stands there before a command of `gate`.
    pub(super) fn write(path: AbsPath, gate: &Gate, standing: &Standing) -> Result<Self> {
        let unnoted =
            |why: String| Error::new(ErrorKind::Io, format!("cannot note `{path}`: {why}"));
        let mut trees = Vec::new();
        for tree in users_trees(gate) {
            let meta = Meta::of(tree.dir()).map_err(|fault| unnoted(fault.to_string()))?;
            trees.push(NotedTree::new(tree.real(), &meta, standing));
        }
        let grants = gate.manager().grants().iter().map(NotedGrant::new);
        let noted = Noted {
            grants: grants.collect(),
            trees,
        };
        let bytes = serde_json::to_vec(&noted).map_err(|error| unnoted(error.to_string()))?;
        replace(&path, &bytes, Durability::Process)?;
        Ok(Self(path))
    }

    /// Removes it: the sweep is done.
    pub(super) fn remove(&self) {
        // Swept again, there is nothing to do.
        let _removed = clear::remove(&self.0);
    }
}

/// Sweeps after the commands whose room was at `room`, and that nobody swept after. Says what was
/// done, for people.
pub fn sweep_left_over(room: &AbsPath) -> Vec<String> {
    let notes = notes(room);
    let Ok(names) = dir::names(&notes) else {
        return Vec::new();
    };
    let said = names.into_iter().flat_map(|name| {
        let swept = sweep_by(&notes.join(name), &quarantine(room));
        swept.unwrap_or_else(|error| vec![format!("{UNKNOWN}: {error}")])
    });
    said.collect::<BTreeSet<String>>().into_iter().collect()
}

/// What is said where nothing could be compared.
const UNKNOWN: &str = "a run was broken off while a command wrote to your files, and protected names \
                       that it made may still be there";

fn sweep_by(note: &AbsPath, quarantine: &AbsPath) -> Result<Vec<String>> {
    let unread = |why: String| Error::new(ErrorKind::Io, format!("cannot read `{note}`: {why}"));
    let bytes = read_capped(note, NOTE_BYTES_MAX).map_err(|error| unread(error.to_string()))?;
    let bytes = bytes.ok_or_else(|| unread("it is not there".to_owned()))?;
    let noted: Noted = serde_json::from_slice(&bytes).map_err(|error| unread(error.to_string()))?;
    let mut standing = Standing::default();
    for tree in &noted.trees {
        tree.add_to(&mut standing)?;
    }
    let grants: Vec<Grant> = noted.grants.iter().filter_map(NotedGrant::grant).collect();
    let is_tree = |grant: &&Grant| grant.scope == Scope::Tree;
    let Some(base) = grants.iter().find(is_tree).map(|grant| grant.root.clone()) else {
        return Ok(Vec::new());
    };
    let manager = PathPermissionManager::new(grants, Phase::Final);
    let gate = Gate::open(manager, GatePolicy::single_call(base))?;
    let (_, aftermath) = sweep(&gate, &standing, quarantine);
    let told = |change: Change| match change.kind {
        ChangeKind::Denied { reason }
        | ChangeKind::Failed { reason }
        | ChangeKind::Unlisted { reason } => Some(format!(
            "after a run that was broken off: `{}`: {reason}",
            shown(change.path.as_path().as_os_str(), "/")
        )),
        ChangeKind::Created
        | ChangeKind::Changed
        | ChangeKind::Deleted
        | ChangeKind::Mode { .. }
        | ChangeKind::Declined
        | ChangeKind::TakenBack { .. }
        | ChangeKind::Conflict { .. } => None,
    };
    Ok(aftermath.changes.into_iter().filter_map(told).collect())
}

impl NotedTree {
    fn new(root: &RealPath, meta: &Meta, standing: &Standing) -> Self {
        let inside = standing
            .names()
            .iter()
            .filter(|(path, _)| path.is_within(root));
        let names = inside.map(|(path, stood)| NotedName {
            path: path.to_abs(),
            stood: stood.clone(),
            unread: standing.is_unread(path),
        });
        Self {
            root: root.to_abs(),
            device: meta.version.device,
            inode: meta.version.inode,
            names: names.collect(),
        }
    }

    /// Adds what stood in it. What stands there now can be compared only if it is the same tree, on
    /// a device that has the same number still.
    fn add_to(&self, standing: &mut Standing) -> Result<()> {
        let other = |why: String| {
            let message = format!("cannot look into `{}`: {why}", self.root);
            Error::new(ErrorKind::Io, message)
        };
        let root = Dir::own(&self.root).map_err(|fault| other(fault.to_string()))?;
        let meta = Meta::of(&root).map_err(|fault| other(fault.to_string()))?;
        if (meta.version.device, meta.version.inode) != (self.device, self.inode) {
            return Err(other("it is another directory now".to_owned()));
        }
        let real = root.real_path().map_err(|fault| other(fault.to_string()))?;
        for name in &self.names {
            if let Some(rel) = name.path.below(&self.root) {
                standing.add_closed(real.join(&rel), name.stood.clone(), name.unread);
            }
        }
        Ok(())
    }
}

impl NotedGrant {
    fn new(grant: &Grant) -> Self {
        let whole = |rels: &[RelPath]| {
            let whole = rels.iter().map(|rel| grant.root.join(rel).to_abs());
            whole.collect()
        };
        Self {
            root: grant.root.to_abs(),
            scope: grant.scope,
            kind: grant.kind,
            permission: grant.permission,
            protected: whole(&grant.protected),
            hidden: whole(&grant.hidden),
            unprotected: grant.unprotected.clone(),
            ruled: grant.ruled.to_vec(),
        }
    }

    /// The grant again; `None` if nothing stands there any more.
    fn grant(&self) -> Option<Grant> {
        let below = |paths: &[AbsPath]| {
            let below = paths.iter().filter_map(|path| path.below(&self.root));
            below.collect()
        };
        let real = |dir: &AbsPath| Dir::own(dir).and_then(|dir| dir.real_path()).ok();
        let root = match self.scope {
            Scope::Tree => real(&self.root)?,
            Scope::File => {
                let parent = self.root.parent()?;
                real(&parent)?.join(&self.root.below(&parent)?)
            }
        };
        Some(Grant {
            root,
            scope: self.scope,
            kind: self.kind,
            permission: self.permission,
            protected: below(&self.protected),
            hidden: below(&self.hidden),
            unprotected: self.unprotected.clone(),
            ruled: self.ruled.clone().into(),
        })
    }
}
