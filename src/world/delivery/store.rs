//! The deliveries of a project: looks them up, opens the directory of one, which is locked while it
//! is open, and writes and reads what it can deliver.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission, Phase};
use crate::permissions::path_rules::PathRule;
use crate::world::delivery::delivery_dir::{DeliveryDir, delivery_error, open_root};
use crate::world::delivery::journal;
use crate::world::io::files::read_regular_file;
use crate::world::io::locate::locate;
use crate::world::store::delivery_names::{DELIVERY_NAME_SCHEME, NUMBER_SEPARATOR, list_names};
use crate::world::store::directory_seal::{DirectorySeal, foreign_directory_error};
use crate::world::store::naming::LAST;
use crate::world::sys::state_files::dir::{
    self, DirLock, DirLockAttempt, DirectoryAudience, DirectoryCreation,
};
use crate::world::sys::state_files::{clear, file, json_file};
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};

/// The subdirectory of a delivery for the versions of the user's files that agents read.
pub const BASES: &str = "bases";

/// The longest commit name that is read, in bytes.
const COMMIT_BYTES_MAX: u64 = 100;
/// The largest `delivery.json` that is read, in bytes.
const SOURCE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The hint of an error about a run that has no delivery.
pub const NO_DELIVERY_HINT: &str = "only runs that change files in a write path have deliveries";

/// How often locking a directory is tried, and the delay between tries: a command that only shows a
/// delivery locks it too, for a moment.
const LOCK_TRIES_MAX: u32 = 250;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(20);

/// A delivery that this process has locked.
#[derive(Debug)]
pub struct OpenDelivery {
    pub(super) delivery_dir: DeliveryDir,
    name: String,
    /// The lock, if the file system supports locks.
    #[expect(dead_code, reason = "the directory is locked as long as it lives")]
    lock: Option<DirLock>,
}

/// What can be delivered: the write paths of a final agent, and which parts of them stay closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliverySource {
    /// The write paths; the number of each is also that of its layer.
    pub grants: Vec<Grant>,
    /// For each of them, the directory that is delivered instead of its layer, if any.
    pub source_dirs: Vec<Option<SourceDirectory>>,
    /// When the run began, by the clock of file timestamps, in nanoseconds since 1970.
    pub began_ns: i64,
    /// The number of restarts of the coordination before it.
    pub restart: u32,
    /// The directories of agents' workspaces that do not belong to their answers.
    pub left_out_of_answers: Vec<RelPath>,
}

/// A directory with content that can be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceDirectory {
    /// Its path.
    pub path: AbsPath,
    /// How it was written.
    pub layout: SourceLayout,
    /// Its subdirectories that are not delivered.
    pub left_out: Vec<RelPath>,
}

/// How the content to deliver was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceLayout {
    /// To a layer over the user's tree: names that are not in the layer are unchanged.
    OverlayLayer,
    /// To a separate directory, from which files are copied. Its permission bits count only for new
    /// files.
    SeparateDirectory,
}

/// A write path in `delivery.json`.
#[derive(Serialize, Deserialize)]
struct WritePathRecord {
    path: AbsPath,
    scope: GrantScope,
    protected: Vec<RelPath>,
    hidden: Vec<RelPath>,
    unprotected: Vec<String>,
    ruled: Vec<PathRule>,
    origin: Option<SourceDirectory>,
}

/// `delivery.json`.
#[derive(Serialize, Deserialize)]
struct DeliveryFile {
    seal: DirectorySeal,
    began_ns: i64,
    restart: u32,
    left_out_of_answers: Vec<RelPath>,
    write_paths: Vec<WritePathRecord>,
}

/// The purpose for which a delivery is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryUse {
    /// To show or apply it.
    Apply,
    /// To undo it.
    Revert,
}

/// Returns the name of the delivery that `given_name` selects: a run's name, a prefix of it, or
/// `last`, the newest one created here that can be used for this purpose. If none was created here,
/// `last` is the newest of all, so that an error can report why it is not trusted.
pub fn find(given_name: &str, deliveries: &AbsPath, purpose: DeliveryUse) -> Result<String> {
    let names = list_names(deliveries)?;
    let name = if given_name == LAST {
        let mut newest = None;
        for name in &names {
            let delivery_dir = DeliveryDir(deliveries.join(name));
            let can_be_used = match purpose {
                DeliveryUse::Apply => delivery_dir.is_used()?,
                DeliveryUse::Revert => file::exists(&delivery_dir.journal())?,
            };
            if can_be_used && !is_foreign(&delivery_dir)? {
                newest = Some(name);
                break;
            }
            newest = newest.or(can_be_used.then_some(name));
        }
        newest
    } else {
        DELIVERY_NAME_SCHEME.resolve(given_name, &names, String::clone)?
    };
    name.cloned().ok_or_else(|| {
        let message = if given_name == LAST {
            format!("no deliveries in `{deliveries}`")
        } else {
            format!("no delivery of run `{given_name}`")
        };
        Error::new(ErrorKind::Usage, message)
            .with_hint("see `massgen logs list` for the runs of this directory")
            .with_hint(NO_DELIVERY_HINT)
    })
}

/// Returns those of the deliveries `names` in which something was offered or applied.
pub fn used_deliveries(names: Vec<String>, deliveries: &AbsPath) -> Result<Vec<String>> {
    let names = names.into_iter().filter_map(|name| {
        let is_used = DeliveryDir(deliveries.join(&name)).is_used();
        is_used.map(|is_used| is_used.then_some(name)).transpose()
    });
    names.collect()
}

impl OpenDelivery {
    /// Creates and locks the directory of a delivery of `run` below `deliveries`. A run that
    /// restarts delivers more than once.
    pub fn create(deliveries: &AbsPath, run: &str) -> Result<Self> {
        dir::create_all(deliveries, DirectoryAudience::User)?;
        let mut number: u32 = 1;
        loop {
            let name = match number {
                1 => run.to_owned(),
                number => format!("{run}{NUMBER_SEPARATOR}{number}"),
            };
            let delivery_dir = DeliveryDir(deliveries.join(&name));
            let is_new = dir::create(&delivery_dir.0)? == DirectoryCreation::Created;
            if is_new || !delivery_dir.is_used()? {
                let lock = lock_delivery(&delivery_dir.0, &name)?;
                return Ok(Self {
                    delivery_dir,
                    name,
                    lock,
                });
            }
            number = number.saturating_add(1);
        }
    }

    /// Opens and locks the delivery `name`. It is an error if a run or another command has locked
    /// it.
    pub fn open(deliveries: &AbsPath, name: &str) -> Result<Self> {
        let delivery_dir = DeliveryDir(deliveries.join(name));
        if !dir::is_owned_by_user(&delivery_dir.0)? {
            let message = format!("`{}` is not a directory of yours", delivery_dir.0);
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("massgen uses only deliveries that you own"));
        }
        let name = name.to_owned();
        let lock = lock_delivery(&delivery_dir.0, &name)?;
        Ok(Self {
            delivery_dir,
            name,
            lock,
        })
    }

    /// Removes a delivery that was not used.
    pub fn discard(self) -> Result<()> {
        clear::discard(&self.delivery_dir.0)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its directory.
    pub fn dir(&self) -> &AbsPath {
        &self.delivery_dir.0
    }

    /// Returns the directory of the layer over the write path with this number; its subdirectory
    /// `upper` holds the changes.
    pub fn layer(&self, number: usize) -> AbsPath {
        self.delivery_dir.layer(number)
    }

    /// Returns the directory that is delivered to the write path with this number, if there is one.
    pub(super) fn source_dir(
        &self,
        source: &DeliverySource,
        number: usize,
    ) -> Result<Option<SourceDirectory>> {
        let source_dir = self.source_location(source, number);
        let is_directory = file::kind(&source_dir.path)?.is_some_and(|kind| kind.is_dir());
        Ok(is_directory.then_some(source_dir))
    }

    /// Like [`Self::source_dir`], whether the directory exists or not.
    pub(super) fn source_location(
        &self,
        source: &DeliverySource,
        number: usize,
    ) -> SourceDirectory {
        let source_dir = source.source_dirs.get(number).cloned().flatten();
        source_dir.unwrap_or_else(|| SourceDirectory {
            path: self.layer(number).join("upper"),
            layout: SourceLayout::OverlayLayer,
            left_out: Vec::new(),
        })
    }

    /// Returns whether something of it was applied or is about to be.
    pub fn is_applied(&self) -> Result<bool> {
        file::exists(&self.delivery_dir.journal())
    }

    /// Records the commit that was made from it.
    pub fn record_commit(&self, commit: &str) -> Result<()> {
        file::replace(&self.delivery_dir.commit(), commit.as_bytes())
    }

    /// Returns the commit that was made from it, if there is one.
    pub fn commit(&self) -> Result<Option<String>> {
        let commit = read_regular_file(&self.delivery_dir.commit(), COMMIT_BYTES_MAX)?
            .and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(commit.filter(|name| name.bytes().all(|byte| byte.is_ascii_hexdigit())))
    }

    /// Writes what can be delivered, so that it can also be applied later.
    pub fn write_source(&self, source: &DeliverySource) -> Result<()> {
        let write_path = |(number, grant): (usize, &Grant)| WritePathRecord {
            origin: source.source_dirs.get(number).cloned().flatten(),
            path: grant.root.to_abs(),
            scope: grant.scope,
            protected: grant.protected.clone(),
            hidden: grant.hidden.clone(),
            unprotected: grant.unprotected.clone(),
            ruled: grant.path_rules.to_vec(),
        };
        let delivery_file = DeliveryFile {
            seal: self.delivery_dir.seal()?,
            began_ns: source.began_ns,
            restart: source.restart,
            left_out_of_answers: source.left_out_of_answers.clone(),
            write_paths: source.grants.iter().enumerate().map(write_path).collect(),
        };
        json_file::replace(&self.delivery_dir.source_file(), &delivery_file)
    }

    /// Reads what can be delivered. A file that was not created here is an error, and so is a run
    /// that delivered nothing.
    pub fn read_source(&self) -> Result<DeliverySource> {
        if !self.delivery_dir.is_used()? {
            let message = format!("`{}` delivered nothing", self.name);
            return Err(Error::new(ErrorKind::Usage, message).with_hint(NO_DELIVERY_HINT));
        }
        let path = self.delivery_dir.source_file();
        let delivery_file: DeliveryFile = json_file::read_written(&path, SOURCE_BYTES_MAX)?;
        if delivery_file.seal != self.delivery_dir.seal()? {
            return Err(foreign_directory_error(&self.delivery_dir.0));
        }
        let source_dirs = delivery_file
            .write_paths
            .iter()
            .map(|path| path.origin.clone());
        let source_dirs = source_dirs.collect();
        let grants = delivery_file.write_paths.into_iter().map(|write_path| {
            Ok(Grant {
                root: locate(&write_path.path)?.into_real(),
                scope: write_path.scope,
                kind: GrantKind::Context,
                permission: Permission::Write,
                protected: write_path.protected,
                hidden: write_path.hidden,
                unprotected: write_path.unprotected,
                path_rules: write_path.ruled.into(),
            })
        });
        Ok(DeliverySource {
            grants: grants.collect::<Result<_>>()?,
            source_dirs,
            began_ns: delivery_file.began_ns,
            restart: delivery_file.restart,
            left_out_of_answers: delivery_file.left_out_of_answers,
        })
    }

    /// Reads the journal, if there is one. A journal that was not created here is an error.
    pub(super) fn read_journal(&self) -> Result<Option<journal::JournalState>> {
        let state = journal::read(&self.delivery_dir.journal())?;
        match state {
            Some(state) if state.seal != self.delivery_dir.seal()? => {
                Err(foreign_directory_error(&self.delivery_dir.0))
            }
            state => Ok(state),
        }
    }
}

impl DeliverySource {
    /// Returns the permission rules for the write paths.
    pub fn manager(&self) -> PathPermissionManager {
        PathPermissionManager::new(self.grants.clone(), Phase::Final)
    }

    /// Returns the number of the first write path that is a directory.
    pub fn first_tree(&self) -> Option<usize> {
        self.grants
            .iter()
            .position(|grant| grant.scope == GrantScope::Tree)
    }

    /// Returns the directories under the layers: the write paths, and for a file the directory that
    /// contains it.
    pub fn roots(&self) -> Vec<AbsPath> {
        let root = |grant: &Grant| match (grant.scope, grant.root.parent()) {
            (GrantScope::File, Some(parent)) => parent.to_abs(),
            _ => grant.root.to_abs(),
        };
        self.grants.iter().map(root).collect()
    }
}

/// Returns whether a delivery's directory contains files that were written for another directory.
///
/// # Errors
/// One of them cannot be read. A damaged one names no other directory.
fn is_foreign(delivery_dir: &DeliveryDir) -> Result<bool> {
    let mut written_seal = journal::read_seal(&delivery_dir.journal())?;
    if written_seal.is_none() {
        let delivery_file: Option<DeliveryFile> =
            json_file::read(&delivery_dir.source_file(), SOURCE_BYTES_MAX)?;
        written_seal = delivery_file.map(|delivery_file| delivery_file.seal);
    }
    let seal = delivery_dir.seal()?;
    Ok(written_seal.is_some_and(|written_seal| written_seal != seal))
}

/// Locks the directory of a delivery, retrying for a while; `None` if the file system does not
/// support locks.
fn lock_delivery(path: &AbsPath, name: &str) -> Result<Option<DirLock>> {
    for _ in 0..LOCK_TRIES_MAX {
        match dir::try_lock(path)? {
            DirLockAttempt::Acquired(lock) => return Ok(Some(lock)),
            DirLockAttempt::Unsupported => return Ok(None),
            DirLockAttempt::Taken => std::thread::sleep(LOCK_RETRY_DELAY),
        }
    }
    Err(Error::new(
        ErrorKind::Environment,
        format!("the delivery of `{name}` is in use"),
    )
    .with_hint("wait until the run or the other command ends"))
}

/// The default for the most deliveries that are kept.
pub const DELIVERIES_MAX: usize = 100;

/// Limits on the deliveries that are kept.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// The most deliveries.
    pub count: usize,
    /// The most disk space that all of them use, in bytes; `None` means no limit.
    pub bytes: Option<u64>,
}

/// Removes the oldest deliveries below `deliveries` that exceed the limits. A delivery that is in
/// use, or that must still be completed or rolled back, stays. Returns the names of the removed
/// ones.
pub fn prune(deliveries: &AbsPath, limits: RetentionLimits) -> Result<Vec<String>> {
    let mut removed_names = Vec::new();
    let mut bytes: u64 = 0;
    for (index, name) in list_names(deliveries)?.into_iter().enumerate() {
        let path = deliveries.join(&name);
        let mut is_over = index >= limits.count;
        if let (false, Some(bytes_max)) = (is_over, limits.bytes) {
            bytes = bytes.saturating_add(size(&path)?);
            is_over = bytes > bytes_max;
        }
        if is_over
            && is_closed(&path)?
            && let Ok(DirLockAttempt::Acquired(_lock)) = dir::try_lock(&path)
        {
            clear::discard(&path)?;
            removed_names.push(name);
        }
    }
    Ok(removed_names)
}

/// Returns whether nothing of the delivery at `path` must still be completed or rolled back.
fn is_closed(path: &AbsPath) -> Result<bool> {
    let journal = DeliveryDir(path.clone()).journal();
    Ok(!file::exists(&journal)? || journal::is_cleared(&journal)?)
}

fn size(path: &AbsPath) -> Result<u64> {
    let dir = open_root(path)?;
    let listing = TreeListing::list(&dir, &mut |_: &ListedEntry| EntrySelection::Deep);
    let sizes = listing.entries.iter().map(|entry| {
        let meta = dir.meta(&entry.rel);
        meta.map(|meta| meta.allocated_bytes)
            .map_err(|error| delivery_error("look at", &path.join(entry.rel.as_path()), error))
    });
    sizes.sum()
}
