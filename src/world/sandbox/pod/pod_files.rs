//! Sends files to a pod, and fetches them. Each archive is packed and unpacked by the user that its
//! files belong to, because nothing in a pod runs as root.

use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::error::{Error, ErrorKind};
use crate::path::AbsPath;
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::container_user::ContainerUser;
use crate::world::sandbox::pod::kubectl::cluster_message;
use crate::world::sandbox::pod::pod_instance::{PodError, PodInstance};
use crate::world::sandbox::pod::pod_manifest::{PodContainer, SUPERVISOR_DIR};
use crate::world::sandbox::pod::replaceable_pod::ReplaceablePod;
use crate::world::sandbox::pod::supervised_command::{
    PodOutputPart, PodProgram, SupervisedCommand,
};
use crate::world::sandbox::sent_files::helper_command::{HelperCommand, shell_script};
use crate::world::sandbox::sent_files::remote_container::{
    EntryOwnership, RemoteContainer, RemoteReader,
};
use crate::world::sandbox::sent_files::transfer_error::TransferError;
use crate::world::sandbox::sent_files::transfer_limit::TransferLimit;

/// The size of a piece of an archive that is sent at once, in bytes.
const PIECE_BYTES: usize = 1024 * 1024;
/// How often a piece is sent before the connection counts as lost.
const ATTEMPTS_MAX: usize = 4;
/// Timeout for unpacking what was sent.
const UNPACKING_TIME_MAX: Duration = Duration::from_mins(10);
/// Timeout for a whole archive that is read.
const READING_TIME_MAX: Duration = Duration::from_hours(2);
/// The largest answer to a piece, in bytes.
const ANSWER_BYTES_MAX: u64 = 4096;
/// Script that keeps a piece with a number of bytes.
const KEEP_SCRIPT: &str = "{ head -c \"$2\" >\"$1\" || cat >/dev/null; }; [ $(($(wc -c <\"$1\"))) = \"$2\" ] && echo massgen 0";
/// Script that unpacks an archive with a number of bytes. All of its input is read, even if that
/// fails: some versions of Kubernetes wait forever for a program that leaves some.
const UNPACK_SCRIPT: &str = "umask 0; if head -c \"$2\" >\"$1\"; then e=$(tar -xpof \"$1\" -C / 2>&1); s=$?; else cat \
                         >/dev/null; s=1; e='the disk of the pod is full'; fi; rm -f \"$1\"; printf \
                         'massgen %s\\n%s' $s \"$e\"";
/// Script that unpacks what was kept in pieces.
const UNPACK_PIECES_SCRIPT: &str = "n=0; while [ $n -lt \"$2\" ]; do cat \"$1.$n\"; rm -f \"$1.$n\"; \
                                n=$((n + 1)); done | (umask 0; tar -xpof - -C /)";
/// Script that packs a path, whose owner can read everything in it then.
const PACK_SCRIPT: &str = "cd -- \"$1\" || exit 1\nfind \"./$2\" -type d ! -perm -500 -exec chmod u+rx {} \\; -o \
                       -type f ! -perm -400 -exec chmod u+r {} + 2>/dev/null\nexec tar -cf - -- \"$2\"";

/// The files of one pod.
#[derive(Debug)]
pub(super) struct PodFiles<'p> {
    pub(super) pod: &'p ReplaceablePod,
    pub(super) instance: Arc<PodInstance>,
}

impl From<PodError> for TransferError {
    fn from(error: PodError) -> Self {
        match error {
            PodError::PodGone(reason) => TransferError::ContainerGone(reason),
            PodError::RemoteFailure(reason) => TransferError::RemoteFailure(reason),
        }
    }
}

impl PodFiles<'_> {
    fn command(&self, container: PodContainer, words: Vec<String>) -> SupervisedCommand {
        let program = PodProgram::Words(words);
        SupervisedCommand::prepare(&self.pod.cluster, &self.instance, container, program)
    }

    fn reader<'r>(
        &'r self,
        container: PodContainer,
        program: Vec<String>,
        limit: &'r TransferLimit<'r>,
    ) -> PodReader<'r> {
        PodReader {
            pod: self.pod,
            command: self.command(container, program),
            limit,
            part: Cursor::default(),
            status: None,
            deadline: Instant::now() + READING_TIME_MAX,
            error: None,
        }
    }

    /// Sends bytes to a script, which answers with its status and a text.
    fn send_piece(
        &self,
        container: PodContainer,
        script: &str,
        arguments: &[&str],
        piece: &[u8],
        limit: &TransferLimit<'_>,
    ) -> Result<(), TransferError> {
        let length = piece.len().to_string();
        let program = ["/bin/sh", "-c", script, "massgen"];
        let program = [&program, arguments, &[length.as_str()]].concat();
        let mut attempt = 1_usize;
        let answer = loop {
            let execution = self.instance.exec(
                &self.pod.cluster,
                container,
                &program,
                piece,
                ANSWER_BYTES_MAX,
            );
            match self.pod.cluster.block_on(limit.watch(execution))? {
                Err(PodError::RemoteFailure(_)) if attempt < ATTEMPTS_MAX => {
                    attempt = attempt.saturating_add(1);
                }
                answer => break answer?,
            }
        };
        let answer = String::from_utf8_lossy(&answer);
        let answer = answer.strip_prefix("massgen ");
        match answer.map(|answer| answer.split_once('\n').unwrap_or((answer, ""))) {
            Some(("0", _)) => Ok(()),
            Some((_, reason)) => Err(unpack_error(reason).into()),
            None => Err(TransferError::RemoteFailure(
                "the answer of its shell is incomplete".to_owned(),
            )),
        }
    }
}

fn unpack_error(reason: &str) -> Error {
    let reason = cluster_message(reason);
    let message = format!("the files cannot be unpacked in the pod: {reason}");
    Error::new(ErrorKind::Environment, message)
}

/// Returns the container that runs as `user`.
fn container_of(user: ContainerUser) -> PodContainer {
    if user == PodContainer::Files.user() {
        PodContainer::Files
    } else {
        PodContainer::Commands
    }
}

impl RemoteContainer for PodFiles<'_> {
    fn user(&self) -> ContainerUser {
        PodContainer::Commands.user()
    }

    fn ownership(&self) -> EntryOwnership {
        EntryOwnership::ByTree
    }

    /// Nothing in it runs as another user.
    fn first_owners(&self) -> Vec<ContainerUser> {
        Vec::new()
    }

    fn take_lost_commands(&self) -> bool {
        self.pod.has_lost_commands.swap(false, Ordering::AcqRel)
    }

    fn sweep(&self, user: ContainerUser) -> Result<(), TransferError> {
        let result = self.pod.sweep(&self.instance, container_of(user), None);
        match result {
            Err(PodError::RemoteFailure(reason)) if self.pod.end_processes(&self.instance) => {
                let reason = format!("its processes cannot be killed: {reason}");
                Err(TransferError::ContainerGone(reason))
            }
            result => Ok(result?),
        }
    }

    fn run(
        &self,
        helper: HelperCommand,
        time_max: Duration,
        limit: &TransferLimit<'_>,
    ) -> Result<ExitReason, TransferError> {
        let mut command = self.command(container_of(helper.user), helper.program);
        let exit_status = async {
            loop {
                if let Some(status) = command.read().await?.status {
                    return Ok::<i32, PodError>(status);
                }
            }
        };
        let status = self
            .pod
            .cluster
            .block_on(limit.watch(async { timeout(time_max, exit_status).await }))?;
        match status {
            Ok(status) => Ok(ExitReason::Exited(status?)),
            Err(_) => Ok(ExitReason::TimedOut),
        }
    }

    fn read<'r>(
        &'r self,
        helper: HelperCommand,
        limit: &'r TransferLimit<'r>,
    ) -> Result<Box<dyn RemoteReader + 'r>, TransferError> {
        let container = container_of(helper.user);
        Ok(Box::new(self.reader(container, helper.program, limit)))
    }

    fn read_archive<'r>(
        &'r self,
        path: &AbsPath,
        limit: &'r TransferLimit<'r>,
    ) -> Result<Box<dyn RemoteReader + 'r>, TransferError> {
        let parent = path.parent().unwrap_or_else(AbsPath::root);
        let name = path.below(&parent).map(|name| name.to_string());
        let program = shell_script(PACK_SCRIPT, [parent.to_string(), name.unwrap_or_default()]);
        Ok(Box::new(self.reader(
            PodContainer::Commands,
            program,
            limit,
        )))
    }

    fn unpack(
        &self,
        owner: ContainerUser,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
        limit: &TransferLimit<'_>,
    ) -> Result<(), TransferError> {
        let container = container_of(owner);
        let number = self.instance.next_command_number();
        let mut writer = PieceWriter {
            files: self,
            container,
            archive_path: format!("{SUPERVISOR_DIR}/archive-{number}"),
            limit,
            piece: Vec::new(),
            pieces_sent: 0,
            error: None,
        };
        let write_result = write(&mut writer);
        if let Some(error) = writer.error {
            return Err(error);
        }
        if let Err(error) = write_result {
            let message = format!("files cannot be read to be sent to the pod: {error}");
            return Err(Error::new(ErrorKind::Environment, message).into());
        }
        if writer.pieces_sent == 0 {
            return self.send_piece(
                container,
                UNPACK_SCRIPT,
                &[&writer.archive_path],
                &writer.piece,
                limit,
            );
        }
        writer.keep_piece()?;
        let (archive_path, pieces_sent) =
            (writer.archive_path.clone(), writer.pieces_sent.to_string());
        let helper = HelperCommand {
            user: owner,
            program: shell_script(UNPACK_PIECES_SCRIPT, [archive_path, pieces_sent]),
        };
        let exit_reason = self.run(helper, UNPACKING_TIME_MAX, limit)?;
        if exit_reason == ExitReason::Exited(0) {
            return Ok(());
        }
        Err(unpack_error(&exit_reason.to_string()).into())
    }

    fn machine(&self) -> Option<String> {
        None
    }

    fn loss_reason(&self) -> Option<String> {
        None
    }
}

/// Sends what is written in pieces, which are kept there if there is more than one.
struct PieceWriter<'w> {
    files: &'w PodFiles<'w>,
    container: PodContainer,
    archive_path: String,
    limit: &'w TransferLimit<'w>,
    piece: Vec<u8>,
    pieces_sent: usize,
    /// Why sending is given up.
    error: Option<TransferError>,
}

impl PieceWriter<'_> {
    fn keep_piece(&mut self) -> Result<(), TransferError> {
        let piece_path = format!("{}.{}", self.archive_path, self.pieces_sent);
        let piece = std::mem::take(&mut self.piece);
        self.files.send_piece(
            self.container,
            KEEP_SCRIPT,
            &[&piece_path],
            &piece,
            self.limit,
        )?;
        self.pieces_sent = self.pieces_sent.saturating_add(1);
        Ok(())
    }
}

impl Write for PieceWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() >= PIECE_BYTES
            && let Err(error) = self.keep_piece()
        {
            self.error = Some(error);
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.piece.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The output of a helper, while it is read.
struct PodReader<'r> {
    pod: &'r ReplaceablePod,
    command: SupervisedCommand,
    limit: &'r TransferLimit<'r>,
    part: Cursor<Vec<u8>>,
    status: Option<i32>,
    deadline: Instant,
    error: Option<TransferError>,
}

impl PodReader<'_> {
    /// Reads the next part.
    fn read_part(&mut self) -> Result<(), TransferError> {
        let step = self.limit.wait(self.deadline, self.command.read());
        let PodOutputPart { stdout, status, .. } = self.pod.cluster.block_on(step)??;
        self.part = Cursor::new(stdout);
        self.status = status;
        Ok(())
    }
}

impl Read for PodReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.part.read(buffer)?;
            if count > 0 || buffer.is_empty() || self.status.is_some() {
                return Ok(count);
            }
            if let Err(error) = self.read_part() {
                self.error = Some(error);
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }
}

impl RemoteReader for PodReader<'_> {
    fn take_error(&mut self) -> Option<TransferError> {
        self.error.take()
    }

    fn exit_reason(&mut self) -> Result<ExitReason, TransferError> {
        loop {
            if let Some(status) = self.status {
                return Ok(ExitReason::Exited(status));
            }
            self.read_part()?;
        }
    }
}
