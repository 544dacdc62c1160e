//! Sends files to a container as a stream of a tar archive that is never held as a whole.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use bollard::body_try_stream;
use bollard::errors::Error as EngineError;
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use futures_util::stream::unfold;
use tar::{Builder, EntryType, Header};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::sandbox::container_user::ContainerUser;
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::sent_files::local_trees::LocalTrees;
use crate::world::sandbox::docker::sent_files::transfer_limit::TransferLimit;
use crate::world::sandbox::docker::sent_files::{
    RemoteEntry, SentEntries, SentEntry, TransferFault,
};
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sys::meta::SECOND_NS;

/// Size of a chunk of an archive, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// Number of chunks that wait for the connection.
const CHUNKS_WAITING: usize = 4;
/// Timeout for the connection to take the next chunk.
const CHUNK_TIME_MAX: Duration = Duration::from_mins(2);
/// Timeout for the engine to unpack what it has received, after the last chunk.
const UNPACKING_TIME_MAX: Duration = Duration::from_mins(10);
/// Timeout for a whole upload: the largest one needs 50 kB per second.
const UPLOAD_TIME_MAX: Duration = Duration::from_hours(24);
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

/// Uploads the archive that `write` writes to a container, and unpacks it there at `/`. It may take long as
/// long as it makes progress.
pub(super) fn upload(
    engine: &ContainerEngine,
    container: &str,
    limit: &TransferLimit<'_>,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<(), TransferFault> {
    let (chunks, receiver) = mpsc::channel::<io::Result<Vec<u8>>>(CHUNKS_WAITING);
    let body = body_try_stream(unfold(receiver, async |mut receiver| {
        let chunk = receiver.recv().await?;
        Some((chunk.map(Into::into), receiver))
    }));
    let api = engine.client.api.clone().with_timeout(UPLOAD_TIME_MAX);
    let id = container.to_owned();
    let (done, ended) = oneshot::channel();
    let sending = engine.spawn(async move {
        let options = UploadToContainerOptionsBuilder::default().path("/").build();
        let uploaded = api.upload_to_container(&id, Some(options), body).await;
        // It is not received after an interrupt.
        drop(done.send(uploaded));
    });
    let mut writer = ChunkWriter {
        engine,
        limit,
        chunks,
        chunk: Vec::with_capacity(CHUNK_BYTES),
        fault: None,
    };
    let written = write(&mut writer);
    if let Err(error) = &written
        && writer.fault.is_none()
    {
        let broken = io::Error::other(error.to_string());
        // The upload may have ended by itself.
        writer.send(Err(broken)).unwrap_or_default();
    }
    let ChunkWriter { chunks, fault, .. } = writer;
    if let Some(fault) = fault {
        sending.abort();
        return Err(fault);
    }
    drop(chunks);
    let unpacked = Instant::now() + UNPACKING_TIME_MAX;
    let uploaded = engine.block_on(limit.wait(unpacked, ended));
    // It has ended already, unless it took too long.
    sending.abort();
    let uploaded: Result<(), EngineError> =
        uploaded?.unwrap_or(Err(EngineError::RequestTimeoutError));
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
struct ChunkWriter<'e> {
    engine: &'e ContainerEngine,
    limit: &'e TransferLimit<'e>,
    chunks: mpsc::Sender<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    /// Why the upload is given up.
    fault: Option<TransferFault>,
}

impl ChunkWriter<'_> {
    /// Waits until the connection has room for a chunk.
    fn send(&mut self, chunk: io::Result<Vec<u8>>) -> io::Result<()> {
        let until = Instant::now() + CHUNK_TIME_MAX;
        let sending = self.limit.wait(until, self.chunks.send(chunk));
        match self.engine.block_on(sending) {
            Ok(Ok(())) => return Ok(()),
            // The upload has ended, and says why.
            Ok(Err(_)) => {}
            Err(fault) => self.fault = Some(fault),
        }
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for ChunkWriter<'_> {
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
        self.send(Ok(chunk))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;

    use super::*;
    use crate::world::sandbox::docker::sent_files::incoming::EngineDownload;
    use crate::world::sandbox::interrupt::CommandInterrupt;

    /// Answers one request as an engine whose archives have no end, and that takes all of an upload.
    fn answer(mut stream: UnixStream) {
        let mut request: Vec<u8> = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read(&mut byte).unwrap_or_default() == 0 {
                return;
            }
            request.push(byte[0]);
        }
        let request = String::from_utf8(request).unwrap();
        let is_archive = request.contains("/archive");
        let (size, body) = if is_archive {
            (u64::from(u32::MAX), "")
        } else {
            (21, r#"{"ApiVersion":"1.41"}"#)
        };
        if is_archive && request.starts_with("PUT ") {
            io::copy(&mut stream, &mut io::sink()).unwrap_or_default();
            return;
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\nServer: Libpod/4.3.1 (linux)\r\nContent-Length: {size}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        while is_archive && stream.write_all(&[0; 4096]).is_ok() {}
    }

    #[test]
    fn transfers_end_at_an_interrupt() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("engine");
        let listener = UnixListener::bind(&socket).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(|| answer(stream.unwrap()));
            }
        });
        let host = format!("unix://{}", socket.display());
        let engine = ContainerEngine::open(Some(&host), &BTreeMap::new()).unwrap();
        let mut chunk = vec![0; CHUNK_BYTES];

        let interrupt = CommandInterrupt::new().unwrap();
        let limit = TransferLimit::new(Some(&interrupt), Duration::ZERO);
        let path = AbsPath::new("/ws").unwrap();
        let mut download = EngineDownload::archive(&engine, "c", &path, &limit);
        download.read_exact(&mut chunk).unwrap();
        interrupt.raise();
        assert!(io::copy(&mut download, &mut io::sink()).is_err());
        let fault = download.take_failure();
        assert!(matches!(fault, Some(TransferFault::Interrupted)));

        let interrupt = CommandInterrupt::new().unwrap();
        let limit = TransferLimit::new(Some(&interrupt), Duration::ZERO);
        let uploaded = upload(&engine, "c", &limit, &mut |archive| {
            loop {
                archive.write_all(&chunk)?;
                interrupt.raise();
            }
        });
        assert!(matches!(uploaded, Err(TransferFault::Interrupted)));
    }
}
