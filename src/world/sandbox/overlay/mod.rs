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

use crate::error::Result;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission};
use crate::sandbox_policy::OverlayLayer;
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::sandbox::overlay::tree::TreeOverlay;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::follow::FollowBase;
use crate::world::sys::launch::overlay_request::OverlayRequest;
use crate::world::sys::launch::spawner::HelperSpawner;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir;
use crate::world::sys::state_files::file;

/// The write paths of one agent, staged. A clone is the same stage, and it goes with the last one;
/// what was changed on it stays on the disk.
#[derive(Clone, Debug)]
pub struct WriteOverlay(Arc<WriteOverlayInner>);

/// A stage that lasts as long as others hold it.
#[derive(Clone, Debug, Default)]
pub struct WeakWriteOverlay(Weak<WriteOverlayInner>);

impl WeakWriteOverlay {
    /// The stage, if somebody still holds it.
    pub(in crate::world) fn upgrade(&self) -> Option<WriteOverlay> {
        self.0.upgrade().map(WriteOverlay)
    }
}

#[derive(Debug)]
struct WriteOverlayInner {
    /// The deepest ones first.
    trees: Vec<TreeOverlay>,
    /// What stays as it is inside them.
    kept: Vec<RealPath>,
    audience: OverlayAudience,
    namespace: std::result::Result<OverlayNamespace, String>,
}

/// What commands find the stage in.
#[derive(Debug)]
struct OverlayNamespace {
    root: DirectoryHandle,
    fork_server: HelperSpawner,
}

/// What a stage is made from.
#[derive(Clone, Copy, Debug)]
pub struct OverlaySpec<'a> {
    /// massgen itself, which is started as the stem of the stage.
    pub executable: &'a AbsPath,
    /// Where what is changed goes; it is made.
    pub place: &'a AbsPath,
    /// All that is opened for the agent.
    pub grants: &'a [Grant],
    /// massgen's own directory, which is part of no stage.
    pub state: &'a AbsPath,
    /// Who is to see it beside the file tools.
    pub audience: OverlayAudience,
}

/// Who sees a stage beside the file tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayAudience {
    /// Commands in massgen's sandbox, if any.
    Sandbox,
    /// Commands in a container, whose engine can show directories only.
    Container,
}

/// How a tree is staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayMethod {
    /// An overlay shows the tree through what was changed.
    Overlay,
    /// A copy stands in the place of the tree.
    Copy,
}

/// A tree of the user's that is staged.
#[derive(Clone, Copy, Debug)]
pub struct OverlaidTree<'s> {
    /// The tree.
    pub root: &'s RealPath,
    /// What was changed in it, in the form of an overlay's upper layer. Where the tree was copied, it
    /// is up to date after [`WriteOverlay::sync_layers`].
    pub upper: &'s AbsPath,
    /// How.
    pub kind: OverlayMethod,
}

impl WriteOverlay {
    /// Stages the paths of the user's that `order` opens for writing. `None` if there are none.
    ///
    /// # Errors
    /// A tree can neither be overlaid nor copied.
    pub fn open(order: OverlaySpec<'_>) -> Result<Option<Self>> {
        let kept = excluded_paths(order);
        let roots = overlay_roots(order.grants, &kept);
        if roots.is_empty() {
            return Ok(None);
        }
        let apart: Vec<AbsPath> = roots.keys().chain(&kept).map(RealPath::to_abs).collect();
        let mut trees = Vec::new();
        for (number, (root, files)) in roots.into_iter().enumerate() {
            let place = order.place.join(number.to_string());
            trees.push(TreeOverlay::prepare(root, files, &place, &apart)?);
        }
        trees.sort_by_key(|tree| std::cmp::Reverse(tree.root.depth()));
        for tree in &mut trees {
            if order.audience == OverlayAudience::Container {
                tree.replace_with_copy("containers cannot be shown an overlay")?;
            } else if let Some(why) = tree.overlay_obstacle()? {
                tree.replace_with_copy(why)?;
            }
        }
        let world = match order.audience {
            OverlayAudience::Container => Err("an engine has no part in it".to_owned()),
            OverlayAudience::Sandbox => open_namespace(order.executable, &mut trees, &kept)?,
        };
        Ok(Some(Self(Arc::new(WriteOverlayInner {
            trees,
            kept,
            audience: order.audience,
            namespace: world,
        }))))
    }

    /// The trees, the deepest ones first.
    pub fn trees(&self) -> impl Iterator<Item = OverlaidTree<'_>> {
        self.0.trees.iter().map(TreeOverlay::overlaid_tree)
    }

    /// The layers with what was changed, and how each tree is staged; the deepest trees first.
    pub(in crate::world) fn layers(&self) -> Vec<(OverlayLayer, OverlayMethod)> {
        let layer = |tree: &TreeOverlay| (tree.layer().clone(), tree.overlaid_tree().kind);
        self.0.trees.iter().map(layer).collect()
    }

    /// The same stage, which may have gone when it is wanted.
    pub(in crate::world) fn downgrade(&self) -> WeakWriteOverlay {
        WeakWriteOverlay(Arc::downgrade(&self.0))
    }

    /// What the user should know: which trees are copied and why, and what commands do not see.
    pub fn notes(&self, audience: OverlayAudience) -> Vec<String> {
        let copied = self.0.trees.iter().filter_map(|tree| {
            let (why, root) = (tree.copy_reason()?, &tree.root);
            Some(format!(
                "the final agent works on a copy of `{root}`: {why}"
            ))
        });
        let mut notes: Vec<String> = copied.collect();
        if let (Err(why), OverlayAudience::Sandbox) = (&self.0.namespace, audience) {
            notes.push(format!(
                "commands of the final agent cannot see what it changes: {why}"
            ));
        }
        notes
    }

    /// Whether commands find all of it.
    pub fn is_fully_visible(&self) -> bool {
        match self.0.audience {
            OverlayAudience::Sandbox => self.0.trees.iter().all(TreeOverlay::is_visible),
            OverlayAudience::Container => true,
        }
    }

    /// Writes down what was changed in copies, so that [`OverlaidTree::upper`] tells it. Nobody changes
    /// anything meanwhile.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn sync_layers(&self) -> Result<()> {
        self.0.trees.iter().try_for_each(TreeOverlay::sync_layer)
    }

    /// As [`WriteOverlay::sync_layers`], but only what was changed since the last time. Commands may change
    /// copies meanwhile; that is written down the next time.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(in crate::world) fn sync_next_layers(&self) -> Result<()> {
        self.0
            .trees
            .iter()
            .try_for_each(TreeOverlay::sync_next_layer)
    }

    /// The staged directory at `path`, for a grant of this scope; `None` where none is staged.
    pub(in crate::world) fn directory(
        &self,
        path: &RealPath,
        scope: GrantScope,
    ) -> Option<std::result::Result<DirectoryHandle, FileSystemError>> {
        let tree = self.tree_containing(path)?;
        let below = path.below(&tree.root)?;
        tree.serves_scope(scope)
            .then(|| tree.directory().and_then(|dir| dir.dir(&below)))
    }

    /// What commands of the machine find at the directory `path`, where that is not the stage.
    pub(in crate::world) fn hidden_metadata(&self, path: &RealPath) -> Option<FileMetadata> {
        let tree = self.tree_containing(path)?;
        if tree.is_visible() {
            return None;
        }
        self.user_metadata(path)
    }

    /// Whether `path` is staged, and commands of the machine find the user's own tree there.
    pub(in crate::world) fn is_hidden(&self, path: &AbsPath) -> bool {
        let mut unseen = self.0.trees.iter().filter(|tree| !tree.is_visible());
        unseen.any(|tree| tree.root.as_path() == path.as_path())
    }

    /// What stands in the user's own tree at `path`, which is staged.
    pub(in crate::world) fn user_metadata(&self, path: &RealPath) -> Option<FileMetadata> {
        let tree = self.tree_containing(path)?;
        tree.users.meta(&path.below(&tree.root)?).ok()
    }

    /// Whether `path` is staged.
    pub(in crate::world) fn contains(&self, path: &RealPath) -> bool {
        self.tree_containing(path).is_some()
    }

    /// Where paths are followed that begin at `base`; `None` where that is the machine.
    pub(in crate::world) fn follow_base(
        &self,
        base: &RealPath,
    ) -> Option<std::result::Result<FollowBase, FileSystemError>> {
        let world = self.namespace()?;
        let root = world.root.try_clone();
        Some(root.map(|root| FollowBase::Overlay {
            root,
            base: base.clone(),
        }))
    }

    /// What starts commands that see the stage; `None` where none can.
    pub(in crate::world) fn fork_server(&self) -> Option<&HelperSpawner> {
        self.namespace().map(|world| &world.fork_server)
    }

    /// The copies of whole trees, by the path of the tree.
    pub(in crate::world) fn copies(&self) -> BTreeMap<AbsPath, AbsPath> {
        let copies = self.0.trees.iter().filter_map(TreeOverlay::whole_tree_copy);
        copies.collect()
    }

    fn namespace(&self) -> Option<&OverlayNamespace> {
        self.0.namespace.as_ref().ok()
    }

    /// The deepest tree that `path` is part of.
    fn tree_containing(&self, path: &RealPath) -> Option<&TreeOverlay> {
        let tree = self.0.trees.iter().find(|tree| tree.contains(path))?;
        let is_apart = |kept: &RealPath| path.is_within(kept) && is_inside(kept, &tree.root);
        (!self.0.kept.iter().any(is_apart)).then_some(tree)
    }
}

/// What is removed of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayCleanup {
    /// All of it.
    All,
    /// What only served while somebody worked on it. What was changed stays.
    Tools,
}

/// Removes what is left of the stages in `place` whose names begin with `prefix`.
///
/// # Errors
/// Something in it cannot be removed.
pub fn clear_overlays(place: &AbsPath, prefix: &str, what: OverlayCleanup) -> Result<()> {
    if file::kind(place).is_err() {
        return Ok(());
    }
    let stages = dir::names(place)?.into_iter();
    for stage in stages.filter(|name| name.starts_with(prefix)) {
        let stage = place.join(stage);
        if what == OverlayCleanup::All {
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
fn excluded_paths(order: OverlaySpec<'_>) -> Vec<RealPath> {
    let others = order.grants.iter().filter(|grant| !is_overlaid(grant));
    let others = others.filter(|grant| grant.scope == GrantScope::Tree);
    let state = locate(order.state).map(LocatedPath::into_real).ok();
    others
        .map(|grant| grant.root.clone())
        .chain(state)
        .collect()
}

fn is_overlaid(grant: &Grant) -> bool {
    grant.kind == GrantKind::Context && grant.permission == Permission::Write
}

/// The directories that are staged, each with the files of it that were granted by themselves; without
/// such all of it is. A file inside another staged tree is staged with that.
fn overlay_roots(grants: &[Grant], kept: &[RealPath]) -> BTreeMap<RealPath, Option<Vec<RealPath>>> {
    let staged = || grants.iter().filter(|grant| is_overlaid(grant));
    let trees = staged().filter(|grant| grant.scope == GrantScope::Tree);
    let mut roots: BTreeMap<RealPath, Option<Vec<RealPath>>> =
        trees.map(|grant| (grant.root.clone(), None)).collect();
    for file in staged().filter(|grant| grant.scope == GrantScope::File) {
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
fn open_namespace(
    executable: &AbsPath,
    trees: &mut [TreeOverlay],
    kept: &[RealPath],
) -> Result<std::result::Result<OverlayNamespace, String>> {
    let raised_once = start_namespace(executable, trees, kept);
    let Err(why) = &raised_once else {
        return Ok(raised_once);
    };
    if trees.iter().all(|tree| tree.copy_reason().is_some()) {
        return Ok(raised_once);
    }
    for tree in trees.iter_mut() {
        tree.replace_with_copy(why)?;
    }
    Ok(start_namespace(executable, trees, kept))
}

fn start_namespace(
    executable: &AbsPath,
    trees: &mut [TreeOverlay],
    kept: &[RealPath],
) -> std::result::Result<OverlayNamespace, String> {
    let is_covered = |path: &&RealPath| {
        let covers = |tree: &TreeOverlay| is_inside(path, &tree.root);
        trees.iter().any(covers) && !trees.iter().any(|tree| tree.root == **path)
    };
    let order = OverlayRequest {
        roots: trees.iter().filter_map(TreeOverlay::overlay_root).collect(),
        kept: kept
            .iter()
            .filter(is_covered)
            .map(RealPath::to_abs)
            .collect(),
    };
    let made = HelperSpawner::with_overlay(executable, order);
    let (stem, handles) = made.map_err(|error| error.to_string())?;
    let mut handles = handles.into_iter().map(DirectoryHandle::from);
    let missing = || "a handle is missing".to_owned();
    let root = handles.next().ok_or_else(missing)?;
    for tree in trees
        .iter_mut()
        .filter(|tree| tree.overlay_root().is_some())
    {
        tree.set_directory(handles.next().ok_or_else(missing)?);
    }
    Ok(OverlayNamespace {
        root,
        fork_server: stem,
    })
}
