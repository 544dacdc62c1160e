//! Packs files for a container as a stream of a tar archive that is never held as a whole.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use crate::path::AbsPath;
use crate::permissions::grant::{GrantScope, Permission};
use crate::world::sandbox::container_user::ContainerUser;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::sent_files::local_trees::LocalTrees;
use crate::world::sandbox::sent_files::remote_container::{EntryOwnership, RemoteContainer};
use crate::world::sandbox::sent_files::{RemoteEntry, SentEntries, SentEntry, is_within_any};
use crate::world::sys::meta::SECOND_NS;

/// Permission bits of a symlink.
const LINK_BITS: u32 = 0o777;

/// Permission bits of a writable directory that belongs to another user than that of commands.
const SHARED_DIRECTORY_BITS: u32 = 0o777;
/// Permission bits of a writable file that belongs to another user than that of commands.
const SHARED_FILE_BITS: u32 = 0o666;

/// The users that sent files belong to.
#[derive(Clone, Debug)]
pub(super) struct EntryOwners {
    /// The owner of what commands may change: their own user.
    pub(super) command_user: ContainerUser,
    /// The owner of what they may only read.
    pub(super) keeper: ContainerUser,
    /// The outermost writable trees, if everything in them belongs to the user of commands, as
    /// with [`EntryOwnership::ByTree`].
    user_owned_trees: Option<BTreeSet<AbsPath>>,
}

/// The owner of one name, and the permission bits that it has in addition.
#[derive(Clone, Copy, Debug)]
struct EntryAccess {
    owner: ContainerUser,
    more_bits: u32,
}

impl EntryOwners {
    /// Returns the owners in a container.
    pub(super) fn in_container(remote: &dyn RemoteContainer, reachable: &ReachablePaths) -> Self {
        let user_owned_trees = match remote.ownership() {
            EntryOwnership::ByPermission => None,
            EntryOwnership::ByTree => Some(writable_trees(reachable)),
        };
        Self {
            user_owned_trees,
            ..Self::for_user(remote.user())
        }
    }

    /// Returns the owners for commands that run as `user`.
    pub(super) fn for_user(user: ContainerUser) -> Self {
        let usual = ContainerUser::KEEPER;
        // The keeper shares neither the user nor the group of commands.
        let id = if user.uid == usual.uid || user.gid == usual.gid {
            usual.uid.saturating_sub(1)
        } else {
            usual.uid
        };
        Self {
            command_user: user,
            keeper: ContainerUser { uid: id, gid: id },
            user_owned_trees: None,
        }
    }

    /// Returns the outermost writable trees, if everything in them belongs to the user of commands.
    pub(super) fn user_owned_trees(&self) -> Option<&BTreeSet<AbsPath>> {
        self.user_owned_trees.as_ref()
    }

    /// Returns the users that remove files, one after another: the last one removes the
    /// directories.
    pub(super) fn removers(&self) -> [ContainerUser; 2] {
        match self.user_owned_trees {
            None => [self.keeper, self.command_user],
            Some(_) => [self.command_user, self.keeper],
        }
    }

    /// Returns the users that unpack archives, one after another.
    pub(super) fn unpackers(&self) -> Vec<ContainerUser> {
        match self.user_owned_trees {
            None => vec![ContainerUser::ROOT],
            Some(_) => vec![self.keeper, self.command_user],
        }
    }

    /// Returns whether `user` unpacks this entry.
    pub(super) fn is_unpacked_by(
        &self,
        user: ContainerUser,
        path: &AbsPath,
        permission: Permission,
    ) -> bool {
        self.user_owned_trees.is_none() || self.access(path, permission).owner == user
    }

    /// Returns the accessible paths that `user` owns, each with its permission bits, for a
    /// container in which each user unpacks its own entries: there, `tar` may not set the bits of
    /// directories that exist.
    pub(super) fn granted_bits(
        &self,
        user: ContainerUser,
        reachable: &ReachablePaths,
        entries: &SentEntries,
    ) -> Vec<(u32, String)> {
        let open = reachable
            .open
            .iter()
            .filter(|_| self.user_owned_trees.is_some());
        let bits = open.filter_map(|open_path| {
            let entry = entries.get(&open_path.path)?;
            let EntryAccess { owner, more_bits } = self.access(&open_path.path, entry.permission);
            let bits = match entry.remote_entry {
                RemoteEntry::Directory { bits } => bits | more_bits,
                RemoteEntry::File { bits, .. } => bits | (more_bits & SHARED_FILE_BITS),
                RemoteEntry::Link { .. } | RemoteEntry::Refused | RemoteEntry::Unsent => {
                    return None;
                }
            };
            (owner == user).then(|| (bits, open_path.path.to_string()))
        });
        bits.collect()
    }

    /// Returns who owns the entry at `path`, as [`EntryOwnership`] describes it, and which bits it
    /// has in addition: commands need them in a writable tree that belongs to the keeper.
    fn access(&self, path: &AbsPath, permission: Permission) -> EntryAccess {
        let owned_by = |owner| EntryAccess {
            owner,
            more_bits: 0,
        };
        let is_in_tree = |trees: &BTreeSet<AbsPath>| {
            path.parent()
                .is_some_and(|parent| is_within_any(&parent, trees))
        };
        match (&self.user_owned_trees, permission) {
            (None, Permission::Write) => owned_by(self.command_user),
            (Some(trees), _) if is_in_tree(trees) => owned_by(self.command_user),
            (None | Some(_), Permission::Read) => owned_by(self.keeper),
            (Some(_), Permission::Write) => EntryAccess {
                owner: self.keeper,
                more_bits: SHARED_DIRECTORY_BITS,
            },
        }
    }
}

/// Returns the trees that commands may write to, without those inside others.
fn writable_trees(reachable: &ReachablePaths) -> BTreeSet<AbsPath> {
    let trees = || {
        let open = reachable.open.iter();
        let trees = open.filter(|open_path| open_path.scope == GrantScope::Tree);
        let writable = trees.filter(|open_path| open_path.permission == Permission::Write);
        writable.map(|open_path| &open_path.path)
    };
    let is_inside_another =
        |path: &AbsPath| trees().any(|other| other != path && path.is_within(other));
    let outermost = trees().filter(|path| !is_inside_another(path));
    outermost.cloned().collect()
}

/// Writes an archive of `paths`, which are among `entries`, with paths from `/`.
pub(super) fn pack(
    archive: &mut dyn Write,
    reachable: &ReachablePaths,
    entries: &SentEntries,
    paths: &[&AbsPath],
    owners: &EntryOwners,
) -> io::Result<()> {
    let mut trees = LocalTrees::new(reachable);
    let mut builder = Builder::new(archive);
    for path in paths {
        if let Some(entry) = entries.get(*path) {
            append_entry(&mut builder, &mut trees, path, entry, owners)?;
        }
    }
    builder.into_inner()?.flush()
}

fn append_entry(
    builder: &mut Builder<&mut dyn Write>,
    trees: &mut LocalTrees<'_>,
    path: &AbsPath,
    entry: &SentEntry,
    owners: &EntryOwners,
) -> io::Result<()> {
    let EntryAccess { owner, more_bits } = owners.access(path, entry.permission);
    let rel_path = path.as_path().strip_prefix("/").unwrap_or(path.as_path());
    if rel_path == Path::new("") {
        return Ok(());
    }
    let mut header = Header::new_gnu();
    header.set_uid(owner.uid.into());
    header.set_gid(owner.gid.into());
    header.set_size(0);
    match &entry.remote_entry {
        RemoteEntry::Directory { bits } => {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(*bits | more_bits);
            builder.append_data(&mut header, rel_path, io::empty())
        }
        RemoteEntry::Link { target } => {
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(LINK_BITS);
            builder.append_link(&mut header, rel_path, target)
        }
        RemoteEntry::File { bits, .. } => {
            let change_error =
                || io::Error::other(format!("`{path}` was changed while it was sent"));
            let (dir, rel) = trees.locate(path).map_err(io::Error::other)?;
            let (content, meta) = dir.open_file(&rel).map_err(io::Error::other)?;
            if entry.local_version != Some(meta.version) {
                return Err(change_error());
            }
            header.set_entry_type(EntryType::Regular);
            header.set_mode(*bits | (more_bits & SHARED_FILE_BITS));
            header.set_size(meta.version.size_bytes);
            let seconds = meta.version.modified_ns.div_euclid(SECOND_NS);
            header.set_mtime(u64::try_from(seconds).unwrap_or_default());
            let mut sized_reader = SizedReader {
                content: content.take(meta.version.size_bytes),
                bytes_left: meta.version.size_bytes,
            };
            builder.append_data(&mut header, rel_path, &mut sized_reader)?;
            if sized_reader.bytes_left > 0 {
                Err(change_error())
            } else {
                Ok(())
            }
        }
        RemoteEntry::Refused | RemoteEntry::Unsent => Ok(()),
    }
}

/// Counts what is read, so that a file that has become shorter is noticed.
struct SizedReader<R> {
    content: R,
    bytes_left: u64,
}

impl<R: Read> Read for SizedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.bytes_left = self
            .bytes_left
            .saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}
