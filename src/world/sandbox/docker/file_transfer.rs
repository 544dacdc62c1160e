//! Sends files to the container of an engine on another machine, and fetches them: as archives,
//! which the engine packs and unpacks as root.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bollard::body_try_stream;
use bollard::errors::Error as EngineError;
use bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::path::AbsPath;
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::container_user::ContainerUser;
use crate::world::sandbox::docker::client::{command_error, is_missing, is_reply};
use crate::world::sandbox::docker::command::{ContainerExec, exit_status};
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::instance::REMOVED_MESSAGE;
use crate::world::sandbox::docker::replaceable_container::{ContainerGuard, ReplaceableContainer};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::sent_files::helper_command::HelperCommand;
use crate::world::sandbox::sent_files::movable_trees::movable_trees_note;
use crate::world::sandbox::sent_files::remote_container::{
    EntryOwnership, RemoteContainer, RemoteReader,
};
use crate::world::sandbox::sent_files::transfer_error::TransferError;
use crate::world::sandbox::sent_files::transfer_limit::TransferLimit;
use crate::world::sandbox::sent_files::{SentFiles, transfer_failure};

/// What has failed if no command was run.
const SEND_FAILURE: &str = "the files cannot be sent";
/// Size of a chunk of an archive, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// Number of chunks that wait for the connection.
const QUEUED_CHUNKS_MAX: usize = 4;
/// Timeout for the connection to take the next chunk.
const CHUNK_TIME_MAX: Duration = Duration::from_mins(2);
/// Timeout for the engine to unpack what it has received, after the last chunk.
const UNPACKING_TIME_MAX: Duration = Duration::from_mins(10);
/// Timeout for a whole upload: the largest one needs 50 kB per second.
const UPLOAD_TIME_MAX: Duration = Duration::from_hours(24);
/// Timeout for the next part of an archive.
const PART_TIME_MAX: Duration = Duration::from_mins(2);
/// Timeout for a whole archive: the largest one needs 0.6 MB per second.
const DOWNLOAD_TIME_MAX: Duration = Duration::from_hours(2);

/// A container that is not replaced while this is held.
struct LockedContainer<'c> {
    container: &'c ReplaceableContainer,
    guard: ContainerGuard<'c>,
}

impl From<EngineError> for TransferError {
    fn from(error: EngineError) -> Self {
        let is_missing = is_missing(&error);
        let is_reply = is_reply(&error);
        let reason = command_error(error).to_string();
        if is_missing {
            TransferError::ContainerGone(reason)
        } else if is_reply {
            TransferError::RemoteRefusal(reason)
        } else {
            TransferError::RemoteFailure(reason)
        }
    }
}

impl RemoteContainer for LockedContainer<'_> {
    fn user(&self) -> ContainerUser {
        self.container.engine.client.container_user()
    }

    fn ownership(&self) -> EntryOwnership {
        EntryOwnership::ByPermission
    }

    fn first_owners(&self) -> Vec<ContainerUser> {
        vec![ContainerUser::ROOT]
    }

    fn take_lost_commands(&self) -> bool {
        let lost = &self.container.has_lost_commands;
        lost.swap(false, Ordering::AcqRel)
    }

    fn sweep(&self, user: ContainerUser) -> Result<(), TransferError> {
        Ok(self.container.sweep_user(&self.guard, user)?)
    }

    fn run(
        &self,
        helper: HelperCommand,
        time_max: Duration,
        limit: &TransferLimit<'_>,
    ) -> Result<ExitReason, TransferError> {
        let engine = &self.container.engine;
        let exec = self.container.start(&self.guard, helper.into())?;
        let id = exec.id().to_owned();
        engine.block_on(limit.watch(exec.drain_output(time_max)))?;
        helper_status(engine, &id, limit)
    }

    fn read<'r>(
        &'r self,
        helper: HelperCommand,
        limit: &'r TransferLimit<'r>,
    ) -> Result<Box<dyn RemoteReader + 'r>, TransferError> {
        let engine = &self.container.engine;
        let start = Box::pin(self.container.start_async(&self.guard, helper.into()));
        let exec = engine.block_on(limit.watch(start))??;
        Ok(Box::new(EngineDownload::of_output(engine, exec, limit)))
    }

    fn read_archive<'r>(
        &'r self,
        path: &AbsPath,
        limit: &'r TransferLimit<'r>,
    ) -> Result<Box<dyn RemoteReader + 'r>, TransferError> {
        let engine = &self.container.engine;
        let download = EngineDownload::of_archive(engine, self.guard.id(), path, limit);
        Ok(Box::new(download))
    }

    fn unpack(
        &self,
        _user: ContainerUser,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
        limit: &TransferLimit<'_>,
    ) -> Result<(), TransferError> {
        upload(&self.container.engine, self.guard.id(), limit, write)
    }

    fn machine(&self) -> Option<String> {
        let host = self.container.engine.client.host();
        host.map(ToString::to_string)
    }

    fn loss_reason(&self) -> Option<String> {
        self.container.engine.loss_reason()
    }
}

/// Returns how a command that was started for a transfer has ended.
fn helper_status(
    engine: &ContainerEngine,
    exec: &str,
    limit: &TransferLimit<'_>,
) -> Result<ExitReason, TransferError> {
    let status = engine.block_on(limit.watch(exit_status(&engine.client, exec)));
    Ok(status??)
}

impl ReplaceableContainer {
    fn lock_for_files(&self) -> LockedContainer<'_> {
        LockedContainer {
            container: self,
            guard: self.lock(),
        }
    }

    /// Replaces a container that was removed from outside, and forgets what was sent to it.
    pub(super) fn recreate_unsent(
        &self,
        sent_files: &Mutex<SentFiles>,
    ) -> crate::error::Result<()> {
        let recreate_result = self.recreate();
        sent_files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .forget();
        recreate_result
    }

    /// Sends the files that commands may read, as far as they changed since the last time, and
    /// removes there what they may no longer read. Blocks; an interrupt ends it.
    pub(super) fn send_files(
        &self,
        sent_files: &Mutex<SentFiles>,
        reachable: &ReachablePaths,
        interrupt: Option<&CommandInterrupt>,
    ) -> crate::error::Result<()> {
        self.engine.ensure_connected()?;
        let mut known_files = sent_files.lock().unwrap_or_else(PoisonError::into_inner);
        if known_files.is_abandoned() {
            let notes = self
                .start_over(interrupt)
                .map_err(|error| transfer_failure(&self.lock_for_files(), SEND_FAILURE, error))?;
            known_files.forget();
            known_files.add_notes(notes);
        }
        let remote = self.lock_for_files();
        let Err(error) = known_files.send(&remote, reachable, interrupt) else {
            return Ok(());
        };
        drop(known_files);
        if matches!(error, TransferError::ContainerGone(_)) && remote.guard.is_open() {
            drop(remote);
            self.recreate_unsent(sent_files)?;
            return Err(Error::new(ErrorKind::Environment, REMOVED_MESSAGE)
                .with_hint("run the command again"));
        }
        Err(transfer_failure(&remote, SEND_FAILURE, error))
    }

    /// Replaces a container in which no command has run yet by a new one, with the packages of the
    /// config. Returns a sentence about each kind of them that was not installed.
    fn start_over(
        &self,
        interrupt: Option<&CommandInterrupt>,
    ) -> Result<Vec<String>, TransferError> {
        let limit = TransferLimit::new(interrupt, Duration::ZERO);
        let mut instance = self.lock_instance();
        if let Some(current) = instance.as_mut() {
            let restart = current.start_over(&self.engine.client, &self.spec);
            let restart_result = self.engine.block_on(limit.watch(Box::pin(restart)))?;
            restart_result.map_err(|error| TransferError::RemoteFailure(error.to_string()))?;
        }
        drop(instance);
        Ok(self.install_packages())
    }

    /// Fetches the changes of commands in writable paths, and writes them here as far as the rules
    /// allow it. Returns notes about refused changes. Blocks until a few seconds after an
    /// interrupt: then nothing is written here, and the next call fetches everything. On this
    /// machine, where paths are mounted, nothing is fetched.
    pub(super) fn fetch_changes(
        &self,
        sent_files: &Mutex<SentFiles>,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
    ) -> io::Result<Vec<String>> {
        if !self.engine.client.has_copies() {
            return Ok(Vec::new());
        }
        let mut known_files = sent_files.lock().unwrap_or_else(PoisonError::into_inner);
        let remote = self.lock_for_files();
        let fetch_result = known_files.fetch(&remote, reachable, interrupt);
        fetch_result.map_err(|error| {
            let message = "the command has ended, but what it changed cannot be fetched";
            io::Error::other(transfer_failure(&remote, message, error))
        })
    }

    /// Returns a warning about directories of the image, as [`movable_trees_note`] does; `None`
    /// where trees are mounted.
    pub(super) fn movable_trees_note(&self, reachable: &ReachablePaths) -> Option<String> {
        let has_copies = self.engine.client.has_copies();
        let note = || movable_trees_note(&self.lock_for_files(), reachable);
        has_copies.then(note).flatten()
    }
}

/// What an engine sends, while it is downloaded.
struct EngineDownload<'e> {
    engine: &'e ContainerEngine,
    limit: &'e TransferLimit<'e>,
    parts: Pin<Box<dyn Stream<Item = Result<Vec<u8>, EngineError>> + 'e>>,
    part: io::Cursor<Vec<u8>>,
    deadline: Instant,
    error: Option<TransferError>,
    /// The engine's id of the helper whose output it is.
    exec: Option<String>,
}

impl<'e> EngineDownload<'e> {
    /// Begins to download an archive of `path`.
    fn of_archive(
        engine: &'e ContainerEngine,
        container: &'e str,
        path: &AbsPath,
        limit: &'e TransferLimit<'e>,
    ) -> Self {
        let options = DownloadFromContainerOptionsBuilder::default().path(&path.to_string());
        let api = &engine.client.api;
        let parts = api
            .download_from_container(container, Some(options.build()))
            .map(|part| part.map(|part| part.to_vec()));
        Self::new(engine, parts, None, limit)
    }

    /// Begins to download the standard output of a command.
    fn of_output(
        engine: &'e ContainerEngine,
        exec: ContainerExec,
        limit: &'e TransferLimit<'e>,
    ) -> Self {
        let id = exec.id().to_owned();
        Self::new(engine, exec.into_stdout(), Some(id), limit)
    }

    fn new(
        engine: &'e ContainerEngine,
        parts: impl Stream<Item = Result<Vec<u8>, EngineError>> + 'e,
        exec: Option<String>,
        limit: &'e TransferLimit<'e>,
    ) -> Self {
        Self {
            engine,
            limit,
            parts: Box::pin(parts),
            part: io::Cursor::default(),
            deadline: Instant::now() + DOWNLOAD_TIME_MAX,
            error: None,
            exec,
        }
    }
}

impl RemoteReader for EngineDownload<'_> {
    fn take_error(&mut self) -> Option<TransferError> {
        self.error.take()
    }

    fn exit_reason(&mut self) -> Result<ExitReason, TransferError> {
        let Some(exec) = &self.exec else {
            return Ok(ExitReason::Exited(0));
        };
        helper_status(self.engine, exec, self.limit)
    }
}

impl Read for EngineDownload<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.part.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let part_deadline = self.deadline.min(Instant::now() + PART_TIME_MAX);
            let next_part = self.limit.wait(part_deadline, self.parts.next());
            let error = match self.engine.block_on(next_part) {
                Ok(None) => return Ok(0),
                Ok(Some(Ok(part))) => {
                    self.part = io::Cursor::new(part);
                    continue;
                }
                Ok(Some(Err(error))) => error.into(),
                Err(error) => error,
            };
            self.error = Some(error);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
}

/// Uploads the archive that `write` writes to a container, and unpacks it there at `/`. It may take
/// long as long as it makes progress.
fn upload(
    engine: &ContainerEngine,
    container: &str,
    limit: &TransferLimit<'_>,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<(), TransferError> {
    let (chunks, receiver) = mpsc::channel::<io::Result<Vec<u8>>>(QUEUED_CHUNKS_MAX);
    let body = body_try_stream(unfold(receiver, async |mut receiver| {
        let chunk = receiver.recv().await?;
        Some((chunk.map(Into::into), receiver))
    }));
    let api = engine.client.api.clone().with_timeout(UPLOAD_TIME_MAX);
    let id = container.to_owned();
    let (result_sender, result_receiver) = oneshot::channel();
    let upload_task = engine.spawn(async move {
        let options = UploadToContainerOptionsBuilder::default().path("/").build();
        let upload_result = api.upload_to_container(&id, Some(options), body).await;
        // It is not received after an interrupt.
        drop(result_sender.send(upload_result));
    });
    let mut writer = ChunkWriter {
        engine,
        limit,
        chunks,
        chunk: Vec::with_capacity(CHUNK_BYTES),
        error: None,
    };
    let write_result = write(&mut writer);
    if let Err(error) = &write_result
        && writer.error.is_none()
    {
        let read_error = io::Error::other(error.to_string());
        // The upload may have ended by itself.
        writer.send(Err(read_error)).unwrap_or_default();
    }
    let ChunkWriter { chunks, error, .. } = writer;
    if let Some(error) = error {
        upload_task.abort();
        return Err(error);
    }
    drop(chunks);
    let deadline = Instant::now() + UNPACKING_TIME_MAX;
    let receive_result = engine.block_on(limit.wait(deadline, result_receiver));
    // It has ended already, unless it took too long.
    upload_task.abort();
    let upload_result: Result<(), EngineError> =
        receive_result?.unwrap_or(Err(EngineError::RequestTimeoutError));
    match (upload_result, write_result) {
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
    /// Why the upload was given up.
    error: Option<TransferError>,
}

impl ChunkWriter<'_> {
    /// Waits until the connection has room for a chunk.
    fn send(&mut self, chunk: io::Result<Vec<u8>>) -> io::Result<()> {
        let deadline = Instant::now() + CHUNK_TIME_MAX;
        let send = self.limit.wait(deadline, self.chunks.send(chunk));
        match self.engine.block_on(send) {
            Ok(Ok(())) => return Ok(()),
            // The upload has ended, and says why.
            Ok(Err(_)) => {}
            Err(error) => self.error = Some(error),
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
    use crate::world::sandbox::interrupt::CommandInterrupt;

    /// Answers one request as an engine whose archives have no end, and that takes all of an
    /// upload.
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
        let mut download = EngineDownload::of_archive(&engine, "c", &path, &limit);
        download.read_exact(&mut chunk).unwrap();
        interrupt.raise();
        assert!(io::copy(&mut download, &mut io::sink()).is_err());
        let error = download.take_error();
        assert!(matches!(error, Some(TransferError::Interrupted)));

        let interrupt = CommandInterrupt::new().unwrap();
        let limit = TransferLimit::new(Some(&interrupt), Duration::ZERO);
        let uploaded = upload(&engine, "c", &limit, &mut |archive| {
            loop {
                archive.write_all(&chunk)?;
                interrupt.raise();
            }
        });
        assert!(matches!(uploaded, Err(TransferError::Interrupted)));
    }
}
