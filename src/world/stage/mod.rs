//! Owns the stage: the user's write paths as the final agent of a run sees and changes them, or one
//! command of a single call. What is changed lies beside the user's trees and not in them. The file
//! tools reach the stage through handles, and commands find it at the paths of the trees, in a world
//! that only they live in.
//!
//! Where the kernel offers it, a tree is staged by an overlay. Elsewhere a copy stands in its place,
//! and what was changed in that is written down in the same form.

mod tree;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::confinement::Layer;
use crate::error::Result;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, Scope};
use crate::world::locate::{Located, locate};
use crate::world::stage::tree::Tree;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::follow::Ground;
use crate::world::sys::launch::spawner::Spawner;
use crate::world::sys::launch::staging::Staging;
use crate::world::sys::meta::Meta;
use crate::world::sys::own::clear;
use crate::world::sys::own::dir;
use crate::world::sys::own::file;

/// The write paths of one agent, staged. A clone is the same stage, and it goes with the last one;
/// what was changed on it stays on the disk.
#[derive(Clone, Debug)]
pub struct Stage(Arc<Inner>);

/// A stage that lasts as long as others hold it.
#[derive(Clone, Debug, Default)]
pub struct WeakStage(Weak<Inner>);

impl WeakStage {
    /// The stage, if somebody still holds it.
    pub(in crate::world) fn upgrade(&self) -> Option<Stage> {
        self.0.upgrade().map(Stage)
    }
}

#[derive(Debug)]
struct Inner {
    /// The deepest ones first.
    trees: Vec<Tree>,
    /// What stays as it is inside them.
    kept: Vec<RealPath>,
    audience: Audience,
    world: std::result::Result<World, String>,
}

/// What commands find the stage in.
#[derive(Debug)]
struct World {
    root: Dir,
    stem: Spawner,
}

/// What a stage is made from.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// massgen itself, which is started as the stem of the stage.
    pub executable: &'a AbsPath,
    /// Where what is changed goes; it is made.
    pub place: &'a AbsPath,
    /// All that is opened for the agent.
    pub grants: &'a [Grant],
    /// massgen's own directory, which is part of no stage.
    pub state: &'a AbsPath,
    /// Who is to see it beside the file tools.
    pub audience: Audience,
}

/// Who sees a stage beside the file tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Commands in massgen's sandbox, if any.
    Sandbox,
    /// Commands in a container, whose engine can show directories only.
    Container,
}

/// How a tree is staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An overlay shows the tree through what was changed.
    Overlay,
    /// A copy stands in the place of the tree.
    Copy,
}

/// A tree of the user's that is staged.
#[derive(Clone, Copy, Debug)]
pub struct Staged<'s> {
    /// The tree.
    pub root: &'s RealPath,
    /// What was changed in it, in the form of an overlay's upper layer. Where the tree was copied, it
    /// is up to date after [`Stage::write_down`].
    pub upper: &'s AbsPath,
    /// How.
    pub kind: Kind,
}

impl Stage {
    /// Stages the paths of the user's that `order` opens for writing. `None` if there are none.
    ///
    /// # Errors
    /// A tree can neither be overlaid nor copied.
    pub fn open(order: Order<'_>) -> Result<Option<Self>> {
        let kept = kept(order);
        let roots = roots(order.grants, &kept);
        if roots.is_empty() {
            return Ok(None);
        }
        let apart: Vec<AbsPath> = roots.keys().chain(&kept).map(RealPath::to_abs).collect();
        let mut trees = Vec::new();
        for (number, (root, files)) in roots.into_iter().enumerate() {
            let place = order.place.join(number.to_string());
            trees.push(Tree::prepare(root, files, &place, &apart)?);
        }
        trees.sort_by_key(|tree| std::cmp::Reverse(tree.root.depth()));
        for tree in &mut trees {
            if order.audience == Audience::Container {
                tree.copy("containers cannot be shown an overlay")?;
            } else if let Some(why) = tree.obstacle()? {
                tree.copy(why)?;
            }
        }
        let world = match order.audience {
            Audience::Container => Err("an engine has no part in it".to_owned()),
            Audience::Sandbox => world(order.executable, &mut trees, &kept)?,
        };
        Ok(Some(Self(Arc::new(Inner {
            trees,
            kept,
            audience: order.audience,
            world,
        }))))
    }

    /// The trees, the deepest ones first.
    pub fn trees(&self) -> impl Iterator<Item = Staged<'_>> {
        self.0.trees.iter().map(Tree::staged)
    }

    /// The layers with what was changed, and how each tree is staged; the deepest trees first.
    pub(in crate::world) fn layers(&self) -> Vec<(Layer, Kind)> {
        let layer = |tree: &Tree| (tree.layer().clone(), tree.staged().kind);
        self.0.trees.iter().map(layer).collect()
    }

    /// The same stage, which may have gone when it is wanted.
    pub(in crate::world) fn downgrade(&self) -> WeakStage {
        WeakStage(Arc::downgrade(&self.0))
    }

    /// What the user should know: which trees are copied and why, and what commands do not see.
    pub fn notes(&self, audience: Audience) -> Vec<String> {
        let copied = self.0.trees.iter().filter_map(|tree| {
            let (why, root) = (tree.why_copied()?, &tree.root);
            Some(format!(
                "the final agent works on a copy of `{root}`: {why}"
            ))
        });
        let mut notes: Vec<String> = copied.collect();
        if let (Err(why), Audience::Sandbox) = (&self.0.world, audience) {
            notes.push(format!(
                "commands of the final agent cannot see what it changes: {why}"
            ));
        }
        notes
    }

    /// Whether commands find all of it.
    pub fn is_shown(&self) -> bool {
        match self.0.audience {
            Audience::Sandbox => self.0.trees.iter().all(Tree::is_shown),
            Audience::Container => true,
        }
    }

    /// Writes down what was changed in copies, so that [`Staged::upper`] tells it. Nobody changes
    /// anything meanwhile.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn write_down(&self) -> Result<()> {
        self.0.trees.iter().try_for_each(Tree::write_down)
    }

    /// As [`Stage::write_down`], but only what was changed since the last time. Commands may change
    /// copies meanwhile; that is written down the next time.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(in crate::world) fn write_down_next(&self) -> Result<()> {
        self.0.trees.iter().try_for_each(Tree::write_next)
    }

    /// The staged directory at `path`, for a grant of this scope; `None` where none is staged.
    pub(in crate::world) fn dir(
        &self,
        path: &RealPath,
        scope: Scope,
    ) -> Option<std::result::Result<Dir, Fault>> {
        let tree = self.tree_of(path)?;
        let below = path.below(&tree.root)?;
        tree.serves(scope)
            .then(|| tree.dir().and_then(|dir| dir.dir(&below)))
    }

    /// What commands of the machine find at the directory `path`, where that is not the stage.
    pub(in crate::world) fn unseen(&self, path: &RealPath) -> Option<Meta> {
        let tree = self.tree_of(path)?;
        if tree.is_shown() {
            return None;
        }
        self.users(path)
    }

    /// Whether `path` is staged, and commands of the machine find the user's own tree there.
    pub(in crate::world) fn is_unseen(&self, path: &AbsPath) -> bool {
        let mut unseen = self.0.trees.iter().filter(|tree| !tree.is_shown());
        unseen.any(|tree| tree.root.as_path() == path.as_path())
    }

    /// What stands in the user's own tree at `path`, which is staged.
    pub(in crate::world) fn users(&self, path: &RealPath) -> Option<Meta> {
        let tree = self.tree_of(path)?;
        tree.users.meta(&path.below(&tree.root)?).ok()
    }

    /// Whether `path` is staged.
    pub(in crate::world) fn holds(&self, path: &RealPath) -> bool {
        self.tree_of(path).is_some()
    }

    /// Where paths are followed that begin at `base`; `None` where that is the machine.
    pub(in crate::world) fn ground(
        &self,
        base: &RealPath,
    ) -> Option<std::result::Result<Ground, Fault>> {
        let world = self.world()?;
        let root = world.root.try_clone();
        Some(root.map(|root| Ground::World {
            root,
            base: base.clone(),
        }))
    }

    /// What starts commands that see the stage; `None` where none can.
    pub(in crate::world) fn stem(&self) -> Option<&Spawner> {
        self.world().map(|world| &world.stem)
    }

    /// The copies of whole trees, by the path of the tree.
    pub(in crate::world) fn copies(&self) -> BTreeMap<AbsPath, AbsPath> {
        let copies = self.0.trees.iter().filter_map(Tree::whole_copy);
        copies.collect()
    }

    fn world(&self) -> Option<&World> {
        self.0.world.as_ref().ok()
    }

    /// The deepest tree that `path` is part of.
    fn tree_of(&self, path: &RealPath) -> Option<&Tree> {
        let tree = self.0.trees.iter().find(|tree| tree.reaches(path))?;
        let is_apart = |kept: &RealPath| path.is_within(kept) && is_inside(kept, &tree.root);
        (!self.0.kept.iter().any(is_apart)).then_some(tree)
    }
}

/// What is removed of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// All of it.
    All,
    /// What only served while somebody worked on it. What was changed stays.
    Tools,
}

/// Removes what is left of the stages in `place` whose names begin with `prefix`.
///
/// # Errors
/// Something in it cannot be removed.
pub fn clear(place: &AbsPath, prefix: &str, what: Clearing) -> Result<()> {
    if file::kind(place).is_err() {
        return Ok(());
    }
    let stages = dir::names(place)?.into_iter();
    for stage in stages.filter(|name| name.starts_with(prefix)) {
        let stage = place.join(stage);
        if what == Clearing::All {
            clear::remove(&stage)?;
            continue;
        }
        for tree in dir::names(&stage)? {
            for tool in ["work", "copy"] {
                clear::remove(&stage.join(&tree).join(tool))?;
            }
        }
    }
    dir::remove_empty(place);
    Ok(())
}

/// What is part of no stage: massgen's own, and what is opened otherwise.
fn kept(order: Order<'_>) -> Vec<RealPath> {
    let others = order.grants.iter().filter(|grant| !is_staged(grant));
    let others = others.filter(|grant| grant.scope == Scope::Tree);
    let state = locate(order.state).map(Located::into_real).ok();
    others
        .map(|grant| grant.root.clone())
        .chain(state)
        .collect()
}

fn is_staged(grant: &Grant) -> bool {
    grant.kind == GrantKind::Context && grant.permission == Permission::Write
}

/// The directories that are staged, each with the files of it that were granted by themselves; without
/// such all of it is. A file inside another staged tree is staged with that.
fn roots(grants: &[Grant], kept: &[RealPath]) -> BTreeMap<RealPath, Option<Vec<RealPath>>> {
    let staged = || grants.iter().filter(|grant| is_staged(grant));
    let trees = staged().filter(|grant| grant.scope == Scope::Tree);
    let mut roots: BTreeMap<RealPath, Option<Vec<RealPath>>> =
        trees.map(|grant| (grant.root.clone(), None)).collect();
    for file in staged().filter(|grant| grant.scope == Scope::File) {
        let Some(dir) = file.root.parent() else {
            continue;
        };
        let is_whole = |root: &RealPath| {
            let is_apart = |kept: &RealPath| dir.is_within(kept) && is_inside(kept, root);
            dir.is_within(root) && !kept.iter().any(is_apart)
        };
        let mut whole = roots.iter().filter(|(_, files)| files.is_none());
        if !whole.any(|(root, _)| is_whole(root)) {
            let files = roots.entry(dir).or_insert_with(|| Some(Vec::new()));
            if let Some(files) = files {
                files.push(file.root.clone());
            }
        }
    }
    roots
}

/// Whether `path` is in the directory `root`, and not that itself.
fn is_inside(path: &RealPath, root: &RealPath) -> bool {
    path != root && path.is_within(root)
}

/// Makes the world in which the trees are staged, or says why there is none. Where overlays cannot be
/// had the trees are copied, and where there is no world at all, only handles lead to the copies.
fn world(
    executable: &AbsPath,
    trees: &mut [Tree],
    kept: &[RealPath],
) -> Result<std::result::Result<World, String>> {
    let raised_once = raised(executable, trees, kept);
    let Err(why) = &raised_once else {
        return Ok(raised_once);
    };
    if trees.iter().all(|tree| tree.why_copied().is_some()) {
        return Ok(raised_once);
    }
    for tree in trees.iter_mut() {
        tree.copy(why)?;
    }
    Ok(raised(executable, trees, kept))
}

fn raised(
    executable: &AbsPath,
    trees: &mut [Tree],
    kept: &[RealPath],
) -> std::result::Result<World, String> {
    let is_covered = |path: &&RealPath| {
        let covers = |tree: &Tree| is_inside(path, &tree.root);
        trees.iter().any(covers) && !trees.iter().any(|tree| tree.root == **path)
    };
    let order = Staging {
        roots: trees.iter().filter_map(Tree::staging).collect(),
        kept: kept
            .iter()
            .filter(is_covered)
            .map(RealPath::to_abs)
            .collect(),
    };
    let made = Spawner::staged(executable, order);
    let (stem, handles) = made.map_err(|error| error.to_string())?;
    let mut handles = handles.into_iter().map(Dir::from);
    let missing = || "a handle is missing".to_owned();
    let root = handles.next().ok_or_else(missing)?;
    for tree in trees.iter_mut().filter(|tree| tree.staging().is_some()) {
        tree.take(handles.next().ok_or_else(missing)?);
    }
    Ok(World { root, stem })
}
