//! Sends files to a container as a stream of a tar archive that is never held as a whole.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc as std_mpsc;

use bollard::body_try_stream;
use bollard::errors::Error as EngineError;
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use futures_util::stream::unfold;
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc;

use crate::error::{Error, ErrorKind};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::sandbox::docker::client::ContainerUser;
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::mounts::ReachablePaths;
use crate::world::sandbox::docker::sent_files::local_trees::LocalTrees;
use crate::world::sandbox::docker::sent_files::{
    RemoteEntry, SentEntries, SentEntry, TransferFault,
};
use crate::world::sys::meta::SECOND_NS;

/// Size of a chunk of an archive, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// Number of chunks that wait for the connection.
const CHUNKS_WAITING: usize = 4;
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

/// Uploads the archive that `write` writes to a container, and unpacks it there at `/`.
pub(super) fn upload(
    engine: &ContainerEngine,
    container: &str,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<(), TransferFault> {
    let (chunks, receiver) = mpsc::channel::<io::Result<Vec<u8>>>(CHUNKS_WAITING);
    let body = body_try_stream(unfold(receiver, async |mut receiver| {
        let chunk = receiver.recv().await?;
        Some((chunk.map(Into::into), receiver))
    }));
    let (client, id) = (engine.client.clone(), container.to_owned());
    let (done, ended) = std_mpsc::sync_channel(1);
    engine.spawn(async move {
        let options = UploadToContainerOptionsBuilder::default().path("/").build();
        let uploaded = client
            .api
            .upload_to_container(&id, Some(options), body)
            .await;
        // The receiver waits for this.
        done.send(uploaded).unwrap_or_default();
    });
    let mut writer = ChunkWriter {
        chunks,
        chunk: Vec::with_capacity(CHUNK_BYTES),
    };
    let written = write(&mut writer);
    if let Err(error) = &written {
        let broken = io::Error::other(error.to_string());
        // The upload may have ended by itself.
        writer.chunks.blocking_send(Err(broken)).unwrap_or_default();
    }
    drop(writer);
    let uploaded: Result<(), EngineError> = ended
        .recv()
        .unwrap_or(Err(EngineError::RequestTimeoutError));
    match (uploaded, written) {
        (Ok(()), Ok(())) => Ok(()),
        (_, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            let message = format!("files cannot be read to be sent to the container: {error}");
            Err(Error::new(ErrorKind::Environment, message).into())
        }
        (Err(error), _) => Err(error.into()),
        (Ok(()), Err(_)) => Err(EngineError::RequestTimeoutError.into()),
    }
}

/// Passes what is written on in chunks.
struct ChunkWriter {
    chunks: mpsc::Sender<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        let sent = self.chunks.blocking_send(Ok(chunk));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
