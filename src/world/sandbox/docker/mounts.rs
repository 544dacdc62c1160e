//! Plans the mounts of a container: the directories of the agent's grants, each at its own path,
//! with read-only or empty mounts over the paths in them that are masked or hidden.

use std::collections::BTreeMap;

use bollard::models::{Mount, MountType};

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::sandbox::docker::socket::EngineKind;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sys::proc;
use crate::world::sys::state_files::{dir, file};

/// Largest number of mounts of one container; with more, the kernel and engines become slow.
const MOUNTS_MAX: usize = 2_000;
/// Size of the empty directory that covers a hidden one, in bytes.
const EMPTY_DIRECTORY_BYTES: u32 = 64 * 1024;
/// Where the directory that the engine must see is mounted.
const TEST_MOUNT: &str = "/run/massgen";
/// File that covers a hidden file: it reads as empty.
const EMPTY_FILE: &str = "/dev/null";

/// The mount at a path of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MountEntry {
    /// The file or directory `source` of the machine.
    Shared {
        source: AbsPath,
        permission: Permission,
    },
    /// An empty directory.
    EmptyDirectory,
}

/// All mounts of a container, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MountPlan(BTreeMap<AbsPath, MountEntry>);

impl MountPlan {
    /// Plans the mounts of a container. The files of `shared` are mounted at other paths in
    /// addition, and the engine's own `socket` is hidden. Inspects the current file system.
    pub(super) fn plan(
        reachable: &ReachablePaths,
        shared: &BTreeMap<AbsPath, AbsPath>,
        socket: &AbsPath,
    ) -> Result<Self> {
        let mut mounts = Self::default();
        for open_path in &reachable.open {
            expect_no_link(&open_path.path)?;
            mounts.share(&open_path.path, open_path.permission, reachable);
        }
        for path in &reachable.masked {
            if !file::is_link(path)? {
                mounts.mask(path, reachable)?;
            }
        }
        let socket_path = std::iter::once(socket);
        for path in reachable.hidden.iter().chain(socket_path) {
            if reachable.accessible_path_for(path).is_some() && !file::is_link(path)? {
                mounts.hide(path)?;
            }
        }
        mounts.share_submounts(reachable)?;
        mounts.pin_parents(reachable);
        for (source, target) in shared {
            if let Some(open_path) = reachable.accessible_path_for(target) {
                let inside = format!("`{target}` is inside `{}`", open_path.path);
                let message = format!("`{source}` cannot be mounted: {inside}");
                return Err(Error::new(ErrorKind::Config, message)
                    .with_hint("choose another path in the container"));
            }
            mounts.0.insert(
                target.clone(),
                MountEntry::Shared {
                    source: source.clone(),
                    permission: Permission::Read,
                },
            );
        }
        if mounts.0.len() > MOUNTS_MAX {
            let message = format!("{} mounts are too many for a container", mounts.0.len());
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("grant a smaller directory: each protected name in it is a mount"));
        }
        Ok(mounts)
    }

    /// Adds a mount of `directory`, unless the agent's own paths are there.
    pub(super) fn add_test_mount(&mut self, directory: &AbsPath, reachable: &ReachablePaths) {
        let target = AbsPath::new(TEST_MOUNT)
            .filter(|target| reachable.accessible_path_for(target).is_none());
        self.0.extend(target.map(|target| {
            let entry = MountEntry::Shared {
                source: directory.clone(),
                permission: Permission::Read,
            };
            (target, entry)
        }));
    }

    fn share(&mut self, path: &AbsPath, permission: Permission, reachable: &ReachablePaths) {
        self.0.insert(
            path.clone(),
            MountEntry::Shared {
                source: reachable.source_for(path),
                permission,
            },
        );
    }

    /// Mounts a masked path read-only, unless it is hidden anyway.
    fn mask(&mut self, path: &AbsPath, reachable: &ReachablePaths) -> Result<()> {
        if file::kind(path)?.is_some() && !reachable.hides(path) {
            self.share(path, Permission::Read, reachable);
        }
        Ok(())
    }

    fn hide(&mut self, path: &AbsPath) -> Result<()> {
        let cover = match file::kind(path)? {
            Some(kind) if kind.is_dir() => MountEntry::EmptyDirectory,
            Some(_) => MountEntry::Shared {
                source: AbsPath::new(EMPTY_FILE).ok_or_else(|| Error::bug("no empty file"))?,
                permission: Permission::Read,
            },
            None => return Ok(()),
        };
        self.0.insert(path.clone(), cover);
        Ok(())
    }

    /// Adds read-only mounts for file systems that are mounted inside a read-only one, because they
    /// do not become read-only with it.
    fn share_submounts(&mut self, reachable: &ReachablePaths) -> Result<()> {
        let entries = self.0.iter();
        let read_only: Vec<AbsPath> = entries
            .filter_map(|(path, entry)| match entry {
                MountEntry::Shared {
                    permission: Permission::Read,
                    ..
                } => Some(path.clone()),
                MountEntry::Shared { .. } | MountEntry::EmptyDirectory => None,
            })
            .collect();
        for root in read_only {
            let points = proc::mount_points_below(&root)
                .map_err(|error| Error::io("cannot read the mount table", error))?;
            for point in points {
                let deepest = self.0.keys().rev().find(|path| point.is_within(path));
                if deepest == Some(&root) && !reachable.hides(&point) {
                    self.share(&point, Permission::Read, reachable);
                }
            }
        }
        Ok(())
    }

    /// Mounts the directories above a mount, so that they cannot be renamed, which would move the
    /// mount with them: a mount point itself cannot be renamed.
    fn pin_parents(&mut self, reachable: &ReachablePaths) {
        let mounted_paths: Vec<AbsPath> = self.0.keys().cloned().collect();
        for path in mounted_paths {
            let Some(open_path) = path
                .parent()
                .and_then(|parent| reachable.accessible_path_for(&parent))
            else {
                continue;
            };
            let root = open_path.path.clone();
            if open_path.permission == Permission::Read || reachable.hides(&path) {
                continue;
            }
            let mut ancestor = path.parent();
            while let Some(dir) = ancestor.filter(|dir| *dir != root && dir.is_within(&root)) {
                if !self.0.contains_key(&dir) {
                    self.share(&dir, Permission::Write, reachable);
                }
                ancestor = dir.parent();
            }
        }
    }

    /// Returns the bind mounts in the format of engines.
    pub(super) fn engine_mounts(&self) -> Vec<Mount> {
        let mounts = self.0.iter().filter_map(|(target, entry)| match entry {
            MountEntry::Shared { source, permission } => Some(Mount {
                target: Some(target.to_string()),
                source: Some(source.to_string()),
                typ: Some(MountType::BIND),
                read_only: Some(*permission == Permission::Read),
                ..Mount::default()
            }),
            MountEntry::EmptyDirectory => None,
        });
        mounts.collect()
    }

    /// Returns the empty directories with their tmpfs options for the engine `kind`. Without an
    /// option, Podman would copy into them what they hide.
    pub(super) fn empty_mounts(&self, kind: EngineKind) -> impl Iterator<Item = (String, String)> {
        let options = match kind {
            EngineKind::Docker => format!("size={EMPTY_DIRECTORY_BYTES}"),
            EngineKind::Podman => format!("size={EMPTY_DIRECTORY_BYTES},notmpcopyup"),
        };
        let is_empty = |entry: &MountEntry| *entry == MountEntry::EmptyDirectory;
        let empty_mounts = self.0.iter().filter(move |(_, entry)| is_empty(entry));
        empty_mounts.map(move |(path, _)| (path.to_string(), options.clone()))
    }

    /// Returns every directory of the machine that commands may write to.
    pub(super) fn writable_directories(&self) -> Vec<AbsPath> {
        let shared_mounts = self.0.values().filter_map(|entry| match entry {
            MountEntry::Shared {
                source,
                permission: Permission::Write,
            } => Some(source.clone()),
            MountEntry::Shared { .. } | MountEntry::EmptyDirectory => None,
        });
        shared_mounts.collect()
    }

    /// Returns whether a path of a container is a mount point, or a parent of one.
    pub(super) fn is_mount_parent(&self, path: &AbsPath) -> bool {
        self.0.keys().any(|target| target.is_within(path))
    }
}

/// Refuses symlinks, because the engine follows them and may have more permissions than the user:
/// only what was granted may be mounted.
fn expect_no_link(path: &AbsPath) -> Result<()> {
    let resolved = dir::resolve(path)?;
    if resolved.to_abs() == *path {
        return Ok(());
    }
    let message = format!("`{path}` was replaced by a symlink to `{resolved}`");
    Err(Error::new(ErrorKind::Environment, message).with_hint("nothing was mounted: start again"))
}
