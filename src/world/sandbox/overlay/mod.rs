//! Overlay over the user's write paths, as the final agent of a run, or one command of a single
//! call, sees and changes them. Changes are kept apart from the user's trees and must never reach
//! them here. The file tools access the overlay through directory handles; commands find it at the
//! paths of the trees, in a mount namespace of their own.
//!
//! Where the kernel supports it, a tree is covered by an overlay mount. Elsewhere a copy replaces
//! it, and the changes in the copy are written in the same format. At level `landlock`, which has no
//! mounts, commands find the copy at its own path.

mod tree;
pub mod quota;
pub mod setup;
pub mod capture;
pub(in crate::world) mod view;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::answer_changes::ChangeLayers;
use crate::error::Result;
use crate::path::{AbsPath, RealPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission, Phase};
use crate::sandbox_policy::OverlayLayer;
use crate::world::io::files::read_regular_file;
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::sandbox::Sandbox;
use crate::world::sandbox::overlay::quota::LayerQuota;
use crate::world::sandbox::overlay::setup::SetupUse;
use crate::world::sandbox::overlay::tree::{TreeOverlay, open_error};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::follow::FollowBase;
use crate::world::sys::launch::overlay_request::{OverlayRequest, OverlayRoot};
use crate::world::sys::launch::spawner::HelperSpawner;
use crate::world::sys::machine_facts::boot_id;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::replica::apply_layer;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::{clear, file};

/// The file that says since when the machine was running when a layer was begun.
const BOOT_FILE: &str = "boot";
/// More bytes than a boot ID has.
const BOOT_BYTES_MAX: u64 = 256;

/// Prefix of the names of the directories of views; a number follows.
const VIEW_PREFIX: &str = "view";

/// The write paths of one agent under an overlay. A clone is the same overlay. It is torn down when
/// the last clone is dropped; its changes stay on the disk.
#[derive(Clone, Debug)]
pub struct WriteOverlay(Arc<WriteOverlayInner>);

/// Weak reference to an overlay, which does not keep it alive.
#[derive(Clone, Debug, Default)]
pub struct WeakWriteOverlay(Weak<WriteOverlayInner>);

impl WeakWriteOverlay {
    /// Returns the overlay, if it is still alive.
    pub(in crate::world) fn upgrade(&self) -> Option<WriteOverlay> {
        self.0.upgrade().map(WriteOverlay)
    }
}

#[derive(Debug)]
struct WriteOverlayInner {
    /// Deepest trees first.
    trees: Vec<TreeOverlay>,
    /// Paths inside them that are not overlaid.
    excluded: Vec<RealPath>,
    /// What is left out of copies that commands find at their own paths, because nothing can close it
    /// there.
    closed: Option<PathPermissionManager>,
    audience: OverlayAudience,
    namespace: std::result::Result<OverlayNamespace, String>,
    /// The directory of the overlay.
    directory: AbsPath,
    /// What its changes may take of the disk.
    quota: Option<LayerQuota>,
    /// The number of its next view. While one is created, its layers do not change.
    next_view: Mutex<u32>,
}

/// The mount namespace in which commands see the overlay.
#[derive(Debug)]
struct OverlayNamespace {
    root: DirectoryHandle,
    fork_server: HelperSpawner,
}

/// Parameters of an overlay.
#[derive(Clone, Copy, Debug)]
pub struct OverlaySpec<'a> {
    /// Where its fork server comes from.
    pub origin: OverlayOrigin<'a>,
    /// Directory for the changes; it is created.
    pub directory: &'a AbsPath,
    /// All grants of the agent.
    pub grants: &'a [Grant],
    /// massgen's own directory, which is never overlaid.
    pub state: &'a AbsPath,
    /// What sees the overlay in addition to the file tools.
    pub audience: OverlayAudience,
    /// How many overlays share the space for copies.
    pub copies: u64,
    /// What the changes may take of the disk; `None` leaves that to the free space.
    pub quota: Option<LayerQuota>,
    /// What a setup command does about it.
    pub setup: SetupUse<'a>,
}

/// Where the fork server of an overlay comes from.
#[derive(Clone, Copy, Debug)]
pub enum OverlayOrigin<'a> {
    /// It is forked from the fork server of this sandbox, whose commands it is for.
    Sandbox(&'a Sandbox),
    /// It is forked from a new fork server of this executable of massgen's.
    Executable(&'a AbsPath),
}

impl OverlayOrigin<'_> {
    fn helper_spawner(self) -> io::Result<HelperSpawner> {
        match self {
            OverlayOrigin::Sandbox(sandbox) => Ok(sandbox.helper_spawner().clone()),
            OverlayOrigin::Executable(executable) => HelperSpawner::new(executable),
        }
    }
}

/// What sees an overlay in addition to the file tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayAudience {
    /// Commands in massgen's sandbox, if any.
    Sandbox,
    /// Commands in a container, whose engine can only mount directories.
    Container,
    /// Commands at level `landlock`, which find copies at their own paths.
    Landlock,
}

/// How a tree is overlaid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayMethod {
    /// An overlay mount merges the tree with its changes.
    Overlay,
    /// A copy replaces the tree.
    Copy,
}

/// A tree of the user's that is overlaid.
#[derive(Clone, Copy, Debug)]
pub struct OverlaidTree<'s> {
    /// The tree.
    pub root: &'s RealPath,
    /// Its changes, in the format of an overlay's upper layer. For a copied tree, it is up to date
    /// after [`WriteOverlay::sync_layers`].
    pub upper: &'s AbsPath,
    /// The read-only layer between the tree and its changes, if there is one.
    pub between: Option<&'s AbsPath>,
    /// How it is overlaid.
    pub kind: OverlayMethod,
}

impl WriteOverlay {
    /// Creates an overlay over the user's paths that `spec` opens for writing. `None` if there are
    /// none.
    ///
    /// # Errors
    /// A tree can be neither overlaid nor copied.
    pub fn open(spec: OverlaySpec<'_>) -> Result<Option<Self>> {
        let excluded = excluded_paths(spec);
        let roots = overlay_roots(spec.grants, &excluded);
        if roots.is_empty() {
            return Ok(None);
        }
        let separate_paths: Vec<AbsPath> = roots
            .keys()
            .chain(&excluded)
            .map(RealPath::to_abs)
            .collect();
        let mut trees = Vec::new();
        for (number, (root, files)) in roots.into_iter().enumerate() {
            let directory = spec.directory.join(number.to_string());
            let between = spec.setup.layer_over(&root.to_abs());
            trees.push(TreeOverlay::prepare(
                root,
                files,
                &directory,
                &separate_paths,
                spec.copies,
                between,
            )?);
        }
        trees.sort_by_key(|tree| std::cmp::Reverse(tree.root.depth()));
        let closed = (spec.audience == OverlayAudience::Landlock)
            .then(|| PathPermissionManager::new(spec.grants.to_vec(), Phase::Final));
        let overlay = Self::mount(
            trees,
            (excluded, closed),
            spec.audience,
            spec.origin,
            spec.directory,
            &OverlayExtras {
                quota: spec.quota,
                home: spec.setup.home_root(spec.directory)?,
                has_one_method: !matches!(spec.setup, SetupUse::None),
                obstacle: spec.setup.obstacle(),
            },
        )?;
        Ok(Some(overlay))
    }

    /// Creates another overlay of its trees in `directory`, for commands in massgen's sandbox. It
    /// begins with `changes`, and shows nothing of this one.
    ///
    /// # Errors
    /// A tree can be neither overlaid nor copied.
    pub(in crate::world) fn open_again(
        &self,
        origin: OverlayOrigin<'_>,
        directory: &AbsPath,
        changes: &ChangeLayers,
    ) -> Result<Self> {
        let mut trees = Vec::new();
        for (number, tree) in self.0.trees.iter().enumerate() {
            let directory = directory.join(number.to_string());
            trees.push(tree.prepare_again(&directory)?);
        }
        let left_out = (self.0.excluded.clone(), self.0.closed.clone());
        let audience = match self.0.audience {
            OverlayAudience::Sandbox | OverlayAudience::Container => OverlayAudience::Sandbox,
            OverlayAudience::Landlock => OverlayAudience::Landlock,
        };
        let extras = &OverlayExtras::default();
        let overlay = Self::mount(trees, left_out, audience, origin, directory, extras)?;
        overlay.apply(changes)?;
        Ok(overlay)
    }

    /// Creates the overlay of `trees`, deepest first, whose directories are in `directory`.
    fn mount(
        mut trees: Vec<TreeOverlay>,
        (excluded, closed): (Vec<RealPath>, Option<PathPermissionManager>),
        audience: OverlayAudience,
        origin: OverlayOrigin<'_>,
        directory: &AbsPath,
        extras: &OverlayExtras,
    ) -> Result<Self> {
        for tree in &mut trees {
            let obstacle = match audience {
                OverlayAudience::Container => Some("containers cannot be shown an overlay".into()),
                OverlayAudience::Landlock => Some("level `landlock` has no mounts".into()),
                OverlayAudience::Sandbox => tree.overlay_obstacle()?,
            };
            if let Some(reason) = obstacle.or_else(|| extras.obstacle.clone()) {
                tree.replace_with_copy(reason)?;
            }
            if let Some(manager) = &closed {
                tree.remove_from_copy(|path| !manager.allows(path, Permission::Read))?;
            }
        }
        let mut reasons = trees.iter().filter_map(TreeOverlay::copy_reason);
        if let Some(reason) = reasons.next().filter(|_| extras.has_one_method) {
            let reason = reason.to_owned();
            for tree in &mut trees {
                tree.replace_with_copy(reason.as_str())?;
            }
        }
        let namespace = match audience {
            OverlayAudience::Container | OverlayAudience::Landlock => {
                Err("nothing is mounted for them".to_owned())
            }
            OverlayAudience::Sandbox => {
                open_namespace(origin, &mut trees, &excluded, extras.home.as_ref())?
            }
        };
        Ok(Self(Arc::new(WriteOverlayInner {
            trees,
            excluded,
            closed,
            audience,
            namespace,
            directory: directory.clone(),
            quota: extras.quota,
            next_view: Mutex::default(),
        })))
    }

    /// Makes the changes of `layers` in the trees.
    ///
    /// # Errors
    /// A change cannot be made.
    pub fn apply(&self, layers: &ChangeLayers) -> Result<()> {
        for tree in &self.0.trees {
            let Some(path) = layers.over(&tree.root.to_abs()) else {
                continue;
            };
            let applied = DirectoryHandle::open_own(path)
                .and_then(|layer| apply_layer(&layer, tree.directory()?));
            applied.map_err(|error| open_error(&tree.root, error))?;
        }
        Ok(())
    }

    /// Returns the trees, deepest first.
    pub fn trees(&self) -> impl Iterator<Item = OverlaidTree<'_>> {
        self.0.trees.iter().map(TreeOverlay::overlaid_tree)
    }

    /// Returns the layers that hold the changes and how each tree is overlaid, deepest trees first.
    pub(in crate::world) fn layers(&self) -> Vec<(OverlayLayer, OverlayMethod)> {
        let layer = |tree: &TreeOverlay| (tree.layer().clone(), tree.overlaid_tree().kind);
        self.0.trees.iter().map(layer).collect()
    }

    /// Returns a weak reference to the overlay.
    pub(in crate::world) fn downgrade(&self) -> WeakWriteOverlay {
        WeakWriteOverlay(Arc::downgrade(&self.0))
    }

    /// Returns what the user should know: which trees are copied for `author`, who changes them, and
    /// why, and what commands do not see.
    pub fn notes(&self, audience: OverlayAudience, author: &str) -> Vec<String> {
        let copy_notes = self.0.trees.iter().filter_map(|tree| {
            let (reason, root) = (tree.copy_reason()?, &tree.root);
            Some(format!("{author} works on a copy of `{root}`: {reason}"))
        });
        let mut notes: Vec<String> = copy_notes.collect();
        if let (Err(reason), OverlayAudience::Sandbox) = (&self.0.namespace, audience) {
            notes.push(format!(
                "commands of {author} cannot see what it changes: {reason}"
            ));
        }
        notes
    }

    /// Returns whether commands see the whole overlay.
    pub fn is_fully_visible(&self) -> bool {
        match self.0.audience {
            OverlayAudience::Sandbox => self.0.trees.iter().all(TreeOverlay::is_visible),
            OverlayAudience::Container => true,
            OverlayAudience::Landlock => self.copies().len() == self.0.trees.len(),
        }
    }

    /// Writes the changes in copies to [`OverlaidTree::upper`]. Nothing may change the copies
    /// meanwhile.
    ///
    /// # Errors
    /// The changes cannot be read or written.
    pub fn sync_layers(&self) -> Result<()> {
        self.0.trees.iter().try_for_each(TreeOverlay::sync_layer)
    }

    /// Takes the present state of copies for that of the user's trees: it is not part of any change.
    ///
    /// # Errors
    /// A copy cannot be read.
    pub fn rebase(&self) -> Result<()> {
        self.0.trees.iter().try_for_each(TreeOverlay::rebase)
    }

    /// Like [`WriteOverlay::sync_layers`], but writes only the changes since the last call.
    /// Commands may change copies meanwhile; the next call writes those changes.
    ///
    /// # Errors
    /// The changes cannot be read or written.
    pub(in crate::world) fn sync_next_layers(&self) -> Result<()> {
        self.0
            .trees
            .iter()
            .try_for_each(TreeOverlay::sync_next_layer)
    }

    /// Opens the overlaid directory at `path` for a grant of this scope; `None` if it is not
    /// overlaid.
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

    /// Returns what commands find at the directory `path`, if they see the user's tree there
    /// instead of the overlay.
    pub(in crate::world) fn hidden_metadata(&self, path: &RealPath) -> Option<FileMetadata> {
        let tree = self.tree_containing(path)?;
        if tree.is_visible() {
            return None;
        }
        self.user_metadata(path)
    }

    /// Returns whether `path` is an overlaid tree in whose place commands see the user's own tree.
    fn is_hidden(&self, path: &AbsPath) -> bool {
        let mut hidden_trees = self.0.trees.iter().filter(|tree| !tree.is_visible());
        hidden_trees.any(|tree| tree.root.as_path() == path.as_path())
    }

    /// Returns whether `audience` sees at `path` what it may change there: a tree that is not
    /// overlaid, or the overlaid tree itself.
    pub(in crate::world) fn shows_changes(
        &self,
        path: &AbsPath,
        audience: OverlayAudience,
    ) -> bool {
        !self.is_hidden(path)
            || (audience == OverlayAudience::Container && self.copies().contains_key(path))
    }

    /// Returns the metadata of the user's own file at `path`, which is overlaid.
    pub(in crate::world) fn user_metadata(&self, path: &RealPath) -> Option<FileMetadata> {
        let tree = self.tree_containing(path)?;
        tree.user_tree.meta(&path.below(&tree.root)?).ok()
    }

    /// Returns whether `path` is overlaid.
    pub(in crate::world) fn contains(&self, path: &RealPath) -> bool {
        self.tree_containing(path).is_some()
    }

    /// Returns the base for resolving paths relative to `base`; `None` if they are resolved on the
    /// machine.
    pub(in crate::world) fn follow_base(
        &self,
        base: &RealPath,
    ) -> Option<std::result::Result<FollowBase, FileSystemError>> {
        let namespace = self.namespace()?;
        let root = namespace.root.try_clone();
        Some(root.map(|root| FollowBase::Overlay {
            root,
            base: base.clone(),
        }))
    }

    /// Returns the fork server of commands that see the overlay; `None` if no command can.
    pub(in crate::world) fn fork_server(&self) -> Option<&HelperSpawner> {
        self.namespace().map(|namespace| &namespace.fork_server)
    }

    /// Returns the copies of whole trees, by the path of the tree.
    pub(in crate::world) fn copies(&self) -> BTreeMap<AbsPath, AbsPath> {
        let copies = self.0.trees.iter().filter_map(TreeOverlay::whole_tree_copy);
        copies.collect()
    }

    /// Returns the path at which commands find `path`, if they find it elsewhere.
    pub(in crate::world) fn relocated_path(&self, path: &AbsPath) -> Option<AbsPath> {
        self.relocations().find_map(|(root, copy)| {
            let mut excluded = self.0.excluded.iter();
            let is_excluded = |excluded: &RealPath| {
                is_inside(excluded, root) && path.is_within(&excluded.to_abs())
            };
            let below = path
                .below(&root.to_abs())
                .filter(|_| !excluded.any(is_excluded));
            Some(copy.join(below?.as_path()))
        })
    }

    /// Returns the path in the user's trees of what commands find at `path`, if they find it
    /// elsewhere.
    pub(in crate::world) fn original_path(&self, path: &RealPath) -> Option<RealPath> {
        let path = path.to_abs();
        self.relocations()
            .find_map(|(root, copy)| Some(root.join(&path.below(&copy)?)))
    }

    /// Returns the trees that commands find elsewhere, deepest first, each with its copy.
    pub(in crate::world) fn relocations(&self) -> impl Iterator<Item = (&RealPath, AbsPath)> {
        let is_relocated = self.0.audience == OverlayAudience::Landlock;
        let trees = self.0.trees.iter().filter(move |_| is_relocated);
        trees.filter_map(|tree| Some((&tree.root, tree.whole_tree_copy()?.1)))
    }

    fn namespace(&self) -> Option<&OverlayNamespace> {
        self.0.namespace.as_ref().ok()
    }

    /// Returns the deepest tree that contains `path`.
    fn tree_containing(&self, path: &RealPath) -> Option<&TreeOverlay> {
        let tree = self.0.trees.iter().find(|tree| tree.contains(path))?;
        let is_excluded =
            |excluded: &RealPath| path.is_within(excluded) && is_inside(excluded, &tree.root);
        (!self.0.excluded.iter().any(is_excluded)).then_some(tree)
    }
}

/// What an overlay begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerOrigin {
    /// Nothing: no process has worked on it before.
    New,
    /// The changes that an earlier process has left.
    Earlier,
    /// Nothing, because the changes that an earlier process has left cannot be trusted.
    Lost,
}

/// Prepares `directory` for an overlay whose changes a later process may go on with. The kernel does
/// not sync layers, so they are removed if the machine was restarted since.
///
/// # Errors
/// The directory cannot be read or written.
pub fn claim_layers(directory: &AbsPath) -> Result<LayerOrigin> {
    let marker = directory.join(BOOT_FILE);
    let boot = boot_id();
    let origin = match read_regular_file(&marker, BOOT_BYTES_MAX)? {
        Some(bytes) if !boot.is_empty() && bytes == boot.as_bytes() => {
            return Ok(LayerOrigin::Earlier);
        }
        Some(_) => LayerOrigin::Lost,
        None => LayerOrigin::New,
    };
    clear::remove(directory)?;
    dir::create_all(directory, DirectoryAudience::User)?;
    file::replace_unsynced(&marker, boot.as_bytes())?;
    Ok(origin)
}

/// Removes what is left of an overlay that could not be opened in `directory`.
///
/// # Errors
/// Something in it cannot be removed.
pub fn remove_layers(directory: &AbsPath) -> Result<()> {
    clear::remove(directory)
}

/// The part of an overlay that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayCleanup {
    /// All of it.
    All,
    /// Only the directories that were needed while it was in use. The changes stay.
    WorkDirectories,
}

/// Removes what is left of the overlays in `directory` whose names begin with `prefix`.
///
/// # Errors
/// Something in it cannot be removed.
pub fn clear_overlays(directory: &AbsPath, prefix: &str, cleanup: OverlayCleanup) -> Result<()> {
    let names = dir::names_if_exists(directory)?.into_iter();
    for name in names.filter(|name| name.starts_with(prefix)) {
        let overlay_dir = directory.join(name);
        if cleanup == OverlayCleanup::All {
            clear::remove(&overlay_dir)?;
            continue;
        }
        for tree in dir::names(&overlay_dir)? {
            if tree.starts_with(VIEW_PREFIX) {
                clear::remove(&overlay_dir.join(&tree))?;
                continue;
            }
            for work_dir in ["work", "copy"] {
                clear::remove(&overlay_dir.join(&tree).join(work_dir))?;
            }
        }
    }
    dir::remove_empty(directory);
    Ok(())
}

/// Returns the paths that are never overlaid: massgen's own, and those of other grants.
fn excluded_paths(spec: OverlaySpec<'_>) -> Vec<RealPath> {
    let other_grants = spec
        .grants
        .iter()
        .filter(|grant| !is_overlaid(grant))
        .filter(|grant| grant.scope == GrantScope::Tree);
    let state = locate(spec.state).map(LocatedPath::into_real).ok();
    other_grants
        .map(|grant| grant.root.clone())
        .chain(state)
        .collect()
}

fn is_overlaid(grant: &Grant) -> bool {
    grant.kind == GrantKind::Context && grant.permission == Permission::Write
}

/// Returns the directories to overlay, each with the files in it that were granted individually;
/// `None` means the whole directory. A file inside another overlaid tree belongs to that one.
fn overlay_roots(
    grants: &[Grant],
    excluded: &[RealPath],
) -> BTreeMap<RealPath, Option<Vec<RealPath>>> {
    let overlaid_grants = || grants.iter().filter(|grant| is_overlaid(grant));
    let trees = overlaid_grants().filter(|grant| grant.scope == GrantScope::Tree);
    let mut roots: BTreeMap<RealPath, Option<Vec<RealPath>>> =
        trees.map(|grant| (grant.root.clone(), None)).collect();
    for file in overlaid_grants().filter(|grant| grant.scope == GrantScope::File) {
        let Some(dir) = file.root.parent() else {
            continue;
        };
        let is_whole = |root: &RealPath| {
            let is_excluded =
                |excluded: &RealPath| dir.is_within(excluded) && is_inside(excluded, root);
            dir.is_within(root) && !excluded.iter().any(is_excluded)
        };
        let mut whole_trees = roots.iter().filter(|(_, files)| files.is_none());
        if !whole_trees.any(|(root, _)| is_whole(root)) {
            let files = roots.entry(dir).or_insert_with(|| Some(Vec::new()));
            if let Some(files) = files {
                files.push(file.root.clone());
            }
        }
    }
    roots
}

/// Returns whether `path` is below the directory `root`, and not `root` itself.
fn is_inside(path: &RealPath, root: &RealPath) -> bool {
    path != root && path.is_within(root)
}

/// What an overlay has besides its trees.
#[derive(Debug, Default)]
struct OverlayExtras {
    quota: Option<LayerQuota>,
    /// The home directory of commands, if it has a layer.
    home: Option<OverlayRoot>,
    /// Whether all trees are copied if one is.
    has_one_method: bool,
    /// Why all trees are copied in any case, if they are.
    obstacle: Option<String>,
}

/// Creates the mount namespace with the overlay, or returns why there is none. If overlays cannot
/// be mounted the trees are copied; without any namespace, only handles lead to the copies.
fn open_namespace(
    origin: OverlayOrigin<'_>,
    trees: &mut [TreeOverlay],
    excluded: &[RealPath],
    home: Option<&OverlayRoot>,
) -> Result<std::result::Result<OverlayNamespace, String>> {
    let first_try = start_namespace(origin, trees, excluded, home);
    let Err(reason) = &first_try else {
        return Ok(first_try);
    };
    if trees.iter().all(|tree| tree.copy_reason().is_some()) {
        return Ok(first_try);
    }
    for tree in trees.iter_mut() {
        tree.replace_with_copy(reason)?;
    }
    Ok(start_namespace(origin, trees, excluded, None))
}

fn start_namespace(
    origin: OverlayOrigin<'_>,
    trees: &mut [TreeOverlay],
    excluded: &[RealPath],
    home: Option<&OverlayRoot>,
) -> std::result::Result<OverlayNamespace, String> {
    let is_covered = |path: &&RealPath| {
        let covers = |tree: &TreeOverlay| is_inside(path, &tree.root);
        trees.iter().any(covers) && !trees.iter().any(|tree| tree.root == **path)
    };
    let request = OverlayRequest {
        // The handles on the trees come first.
        roots: (trees.iter().filter_map(TreeOverlay::overlay_root))
            .chain(home.cloned())
            .collect(),
        excluded: excluded
            .iter()
            .filter(is_covered)
            .map(RealPath::to_abs)
            .collect(),
    };
    let launch = origin
        .helper_spawner()
        .and_then(|helper_spawner| helper_spawner.in_overlay(&request));
    let (fork_server, handles) = launch.map_err(|error| error.to_string())?;
    let mut handles = handles.into_iter().map(DirectoryHandle::from);
    let missing_handle = || "a handle is missing".to_owned();
    let root = handles.next().ok_or_else(missing_handle)?;
    for tree in trees
        .iter_mut()
        .filter(|tree| tree.overlay_root().is_some())
    {
        tree.set_directory(handles.next().ok_or_else(missing_handle)?);
    }
    Ok(OverlayNamespace { root, fork_server })
}
