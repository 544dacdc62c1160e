//! Packs files for a container as a stream of a tar archive that is never held as a whole.

use std::io::{self, Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::sandbox::container_user::ContainerUser;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::sent_files::local_trees::LocalTrees;
use crate::world::sandbox::sent_files::{RemoteEntry, SentEntries, SentEntry};
use crate::world::sys::meta::SECOND_NS;

/// The user that owns what commands may not change. Nothing runs as that user.
const KEEPER: u32 = 65_533;
/// Permission bits of a symlink.
const LINK_BITS: u32 = 0o777;

/// The users that sent files belong to.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryOwners {
    /// The owner of what commands may change: their own user.
    pub(super) write: ContainerUser,
    /// The owner of what they may only read.
    pub(super) read: ContainerUser,
}

impl EntryOwners {
    /// Returns the owners for commands that run as `user`.
    pub(super) fn for_user(user: ContainerUser) -> Self {
        let id = if user.uid == KEEPER || user.gid == KEEPER {
            KEEPER.saturating_sub(1)
        } else {
            KEEPER
        };
        Self {
            write: user,
            read: ContainerUser { uid: id, gid: id },
        }
    }
}

/// Writes an archive of `paths`, which are entries of `view`, with paths from `/`.
pub(super) fn pack(
    archive: &mut dyn Write,
    reachable: &ReachablePaths,
    view: &SentEntries,
    paths: &[&AbsPath],
    owners: EntryOwners,
) -> io::Result<()> {
    let mut trees = LocalTrees::new(reachable);
    let mut builder = Builder::new(archive);
    for path in paths {
        if let Some(entry) = view.get(*path) {
            append(&mut builder, &mut trees, path, entry, owners)?;
        }
    }
    builder.into_inner()?.flush()
}

fn append(
    builder: &mut Builder<&mut dyn Write>,
    trees: &mut LocalTrees<'_>,
    path: &AbsPath,
    entry: &SentEntry,
    owners: EntryOwners,
) -> io::Result<()> {
    let owner = match entry.permission {
        Permission::Read => owners.read,
        Permission::Write => owners.write,
    };
    let below = path.as_path().strip_prefix("/").unwrap_or(path.as_path());
    if below == Path::new("") {
        return Ok(());
    }
    let mut header = Header::new_gnu();
    header.set_uid(owner.uid.into());
    header.set_gid(owner.gid.into());
    header.set_size(0);
    match &entry.what {
        RemoteEntry::Directory { bits } => {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(*bits);
            builder.append_data(&mut header, below, io::empty())
        }
        RemoteEntry::Link { target } => {
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(LINK_BITS);
            builder.append_link(&mut header, below, target)
        }
        RemoteEntry::File { bits, .. } => {
            let changed = || io::Error::other(format!("`{path}` was changed while it was sent"));
            let (dir, rel) = trees.locate(path).map_err(io::Error::other)?;
            let (content, meta) = dir.open_file(&rel).map_err(io::Error::other)?;
            if entry.local != Some(meta.version) {
                return Err(changed());
            }
            header.set_entry_type(EntryType::Regular);
            header.set_mode(*bits);
            header.set_size(meta.version.size_bytes);
            let seconds = meta.version.modified_ns.div_euclid(SECOND_NS);
            header.set_mtime(u64::try_from(seconds).unwrap_or_default());
            let mut sized = SizedReader {
                content: content.take(meta.version.size_bytes),
                left: meta.version.size_bytes,
            };
            builder.append_data(&mut header, below, &mut sized)?;
            if sized.left > 0 {
                Err(changed())
            } else {
                Ok(())
            }
        }
        RemoteEntry::Unknown | RemoteEntry::Unsent => Ok(()),
    }
}

/// Counts what is read, so that a file that has become shorter is noticed.
struct SizedReader<R> {
    content: R,
    left: u64,
}

impl<R: Read> Read for SizedReader<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(room)?;
        self.left = self
            .left
            .saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}
