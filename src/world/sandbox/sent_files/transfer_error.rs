//! Why a transfer of files to or from a container failed.

use std::fmt::{self, Display, Formatter};

use crate::error::Error;

/// Why files were not sent or fetched.
#[derive(Debug)]
pub(in crate::world::sandbox) enum TransferError {
    /// The container does not exist any more; how that was noticed.
    ContainerGone(String),
    /// The other side answered that it refuses; why, for people.
    RemoteRefusal(String),
    /// The other side failed, or the connection was lost; why, for people.
    RemoteFailure(String),
    /// A local file cannot be read or written.
    LocalFiles(Error),
    /// Everything that was received is refused. It may only be incomplete, because the connection
    /// was lost.
    RejectedData(Error),
    /// The command that it belongs to was interrupted.
    Interrupted,
}

impl From<Error> for TransferError {
    fn from(error: Error) -> Self {
        TransferError::LocalFiles(error)
    }
}

impl Display for TransferError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TransferError::ContainerGone(reason)
            | TransferError::RemoteRefusal(reason)
            | TransferError::RemoteFailure(reason) => f.write_str(reason),
            TransferError::LocalFiles(error) | TransferError::RejectedData(error) => error.fmt(f),
            TransferError::Interrupted => f.write_str("it was interrupted"),
        }
    }
}
