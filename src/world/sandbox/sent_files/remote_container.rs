//! The interface of a container that massgen's files are sent to: all differences between engines
//! are behind [`RemoteContainer`].

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::path::AbsPath;
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::container_user::ContainerUser;
use crate::world::sandbox::sent_files::helper_command::HelperCommand;
use crate::world::sandbox::sent_files::transfer_error::TransferError;
use crate::world::sandbox::sent_files::transfer_limit::TransferLimit;

/// A container whose files are copies. It stays the same as long as this is borrowed. Everything
/// that it returns is untrusted.
pub(in crate::world::sandbox) trait RemoteContainer {
    /// Returns the user that commands run as.
    fn user(&self) -> ContainerUser;

    /// Returns which user owns what is sent.
    fn ownership(&self) -> EntryOwnership;

    /// Returns the users besides that of commands that may own files in a container which nothing
    /// was sent to yet.
    fn first_owners(&self) -> Vec<ContainerUser>;

    /// Returns whether commands that are over here may still run there, and forgets it.
    fn take_lost_commands(&self) -> bool;

    /// Kills everything of `user` that belongs to no running command, and waits until that is done.
    fn sweep(&self, user: ContainerUser) -> Result<(), TransferError>;

    /// Runs a helper for at most `time_max`, without its output.
    fn run(
        &self,
        helper: HelperCommand,
        time_max: Duration,
        limit: &TransferLimit<'_>,
    ) -> Result<ExitReason, TransferError>;

    /// Starts a helper that changes nothing there, and whose output is read.
    fn read<'r>(
        &'r self,
        helper: HelperCommand,
        limit: &'r TransferLimit<'r>,
    ) -> Result<Box<dyn RemoteReader + 'r>, TransferError>;

    /// Begins to read an archive of `path`.
    fn read_archive<'r>(
        &'r self,
        path: &AbsPath,
        limit: &'r TransferLimit<'r>,
    ) -> Result<Box<dyn RemoteReader + 'r>, TransferError>;

    /// Unpacks the archive that `write` writes, with names from `/`, as one user. It may take long
    /// as long as it makes progress.
    fn unpack(
        &self,
        user: ContainerUser,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
        limit: &TransferLimit<'_>,
    ) -> Result<(), TransferError>;

    /// Returns the name of its machine for error messages, if that is another one.
    fn machine(&self) -> Option<String>;

    /// Returns why the connection was lost, if it was: that is the reason for all other errors.
    fn loss_reason(&self) -> Option<String>;
}

/// Which user owns what is sent to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world::sandbox) enum EntryOwnership {
    /// Archives are unpacked by root: what commands may change belongs to their user, and the rest
    /// to another user.
    ByPermission,
    /// Each user unpacks what belongs to it. Everything inside a writable tree belongs to the user
    /// of commands, so a change of what they may only read there is noticed when it comes back.
    /// Everything else belongs to another user, also the writable trees themselves, to which all
    /// users may write.
    ByTree,
}

/// What a container sends.
pub(in crate::world::sandbox) trait RemoteReader: Read {
    /// Returns what ended it, if it ended early.
    fn take_error(&mut self) -> Option<TransferError>;

    /// Returns how its helper has ended, after the end of the output.
    fn exit_reason(&mut self) -> Result<ExitReason, TransferError>;
}
