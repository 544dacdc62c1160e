//! Owns one tree of the user's that is staged: what is laid over it, or what stands in its place.

use crate::confinement::{Identity, Layer};
use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Scope;
use crate::permissions::history::Version;
use crate::world::sandbox::obstacles::no_layers_over;
use crate::world::stage::{Kind, Staged};
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::launch::staging::{Scene, StagedRoot};
use crate::world::sys::layer::takes_marks;
use crate::world::sys::meta::Meta;
use crate::world::sys::own::clear;
use crate::world::sys::own::dir::{self, Audience};
use crate::world::sys::replica::Replica;
use crate::world::sys::trial::within_reach_of_root;

/// A tree.
#[derive(Debug)]
pub(super) struct Tree {
    /// Where it is.
    pub(super) root: RealPath,
    /// The tree itself, as the user has it.
    pub(super) users: Dir,
    /// The files that alone are staged; without them all of it is.
    files: Option<Vec<RealPath>>,
    layer: Layer,
    /// Where a copy lies, if one is made.
    copy_at: AbsPath,
    /// Directories that are none of its own.
    apart: Vec<AbsPath>,
    copied: Option<Copied>,
    /// The tree as it is staged in a world.
    staged: Option<Dir>,
}

/// What stands in the place of a tree.
#[derive(Debug)]
struct Copied {
    replica: Replica,
    why: String,
}

impl Tree {
    /// Makes the directories in `place` for what is changed in the tree `root`, and opens the tree.
    pub(super) fn prepare(
        root: RealPath,
        files: Option<Vec<RealPath>>,
        place: &AbsPath,
        apart: &[AbsPath],
    ) -> Result<Self> {
        let users = Dir::open(&root).map_err(|fault| cannot_open(&root, fault))?;
        dir::create_all(place, Audience::User)?;
        // The kernel takes no path with a link in it.
        let place = dir::follow(place)?.to_abs();
        let layer = Layer::of(root.to_abs(), &place);
        // The kernel takes no work directory that was used before.
        clear::remove(&layer.work)?;
        for path in [&layer.upper, &layer.work] {
            dir::create_all(path, Audience::User)?;
        }
        let inside = apart.iter().filter(|path| path.is_within(&layer.root));
        let inside = inside.filter(|path| **path != layer.root);
        Ok(Self {
            users,
            files,
            copy_at: place.join("copy"),
            apart: inside.cloned().collect(),
            layer,
            root,
            copied: None,
            staged: None,
        })
    }

    /// Why no overlay can stage it, as far as that is known before it is tried.
    pub(super) fn obstacle(&self) -> Result<Option<String>> {
        let trees = std::slice::from_ref(&self.layer.root);
        let failed = |error| Error::io("cannot find out what layers can be laid over", error);
        let obstacle = no_layers_over(trees).map_err(failed)?;
        if obstacle.is_some() {
            return Ok(obstacle);
        }
        if let Some(path) = within_reach_of_root(&self.layer.root).map_err(failed)? {
            let why = "belongs to another user or group, and could not be changed through a layer";
            return Ok(Some(format!("`{path}` {why}")));
        }
        let upper = Dir::own(&self.layer.upper).map_err(|fault| cannot_open(&self.root, fault))?;
        let unmarked = || "the file system of `.massgen` takes no attributes of users".to_owned();
        Ok((!takes_marks(&upper)).then(unmarked))
    }

    /// Puts a copy in its place, unless one is there.
    pub(super) fn copy(&mut self, why: impl Into<String>) -> Result<()> {
        if self.copied.is_some() {
            return Ok(());
        }
        // A container that was shown an earlier copy still shows this directory.
        if let Ok(earlier) = Dir::own(&self.copy_at) {
            clear::empty(&earlier).map_err(|fault| cannot_open(&self.root, fault))?;
        }
        let replica = match &self.files {
            None => Replica::of_tree(&self.root, &self.copy_at, &self.apart)?,
            Some(files) => {
                let names: Vec<_> = files.iter().filter_map(RealPath::name).collect();
                Replica::of_files(&self.users, &names, &self.copy_at)?
            }
        };
        self.copied = Some(Copied {
            replica,
            why: why.into(),
        });
        Ok(())
    }

    /// Why it is copied, if it is.
    pub(super) fn why_copied(&self) -> Option<&str> {
        self.copied.as_ref().map(|copied| copied.why.as_str())
    }

    /// Whether `path` is in it.
    pub(super) fn reaches(&self, path: &RealPath) -> bool {
        match &self.files {
            None => path.is_within(&self.root),
            Some(files) => *path == self.root || files.contains(path),
        }
    }

    /// What a world is told about it. A copy of single files is shown in none: whoever has one open
    /// would go on seeing the file that stood there first.
    pub(super) fn staging(&self) -> Option<StagedRoot> {
        let scene = match (&self.copied, &self.files) {
            (None, _) => Scene::Layered(self.layer.clone()),
            (Some(_), None) => Scene::Copied {
                root: self.layer.root.clone(),
                copy: self.copy_at.clone(),
            },
            (Some(_), Some(_)) => return None,
        };
        let Version { device, inode, .. } = Meta::of(&self.users).ok()?.version;
        let identity = Identity { device, inode };
        Some(StagedRoot { identity, scene })
    }

    /// Takes the handle on it in a world.
    pub(super) fn take(&mut self, staged: Dir) {
        self.staged = Some(staged);
    }

    /// Whether a grant of this scope is opened in it. In a copy of single files nothing else is.
    pub(super) fn serves(&self, scope: Scope) -> bool {
        scope == Scope::File || self.copied.is_none() || self.files.is_none()
    }

    /// Whether commands find it at its path.
    pub(super) fn is_shown(&self) -> bool {
        self.staged.is_some()
    }

    /// The tree as it is staged.
    pub(super) fn dir(&self) -> std::result::Result<&Dir, Fault> {
        let copy = self.copied.as_ref().map(|copied| copied.replica.dir());
        self.staged.as_ref().or(copy).ok_or(Fault::Missing)
    }

    /// It and its copy, if all of it is copied.
    pub(super) fn whole_copy(&self) -> Option<(AbsPath, AbsPath)> {
        let is_whole = self.copied.is_some() && self.files.is_none();
        is_whole.then(|| (self.layer.root.clone(), self.copy_at.clone()))
    }

    /// Brings the layer of a copy up to date.
    pub(super) fn write_down(&self) -> Result<()> {
        match &self.copied {
            Some(copied) => copied.replica.write_layer(&self.layer.upper),
            None => Ok(()),
        }
    }

    /// Makes the layer of a copy one of what was changed since the last time.
    pub(super) fn write_next(&self) -> Result<()> {
        match &self.copied {
            Some(copied) => copied.replica.write_next_layer(&self.layer.upper),
            None => Ok(()),
        }
    }

    /// Where what is changed in it goes.
    pub(super) fn layer(&self) -> &Layer {
        &self.layer
    }

    /// It, for others.
    pub(super) fn staged(&self) -> Staged<'_> {
        Staged {
            root: &self.root,
            upper: &self.layer.upper,
            kind: match self.copied {
                Some(_) => Kind::Copy,
                None => Kind::Overlay,
            },
        }
    }
}

fn cannot_open(root: &RealPath, fault: Fault) -> Error {
    let message = format!("cannot stage `{root}`, which is open for writing: {fault}");
    Error::new(ErrorKind::Environment, message)
}
