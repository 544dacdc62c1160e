//! Why a server cannot be used, and whose fault that is.

/// Why a server cannot be used.
#[derive(Debug)]
pub(super) struct UnusableServer {
    /// The reason: a sentence, or only the end of one from what gets tokens.
    pub(super) reason: String,
    pub(super) cause: FailureCause,
}

/// Whose fault it is that a server cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureCause {
    /// The program, the server or the network has failed.
    Server,
    /// massgen refuses to use the server, or the user has to do something first.
    Refusal,
}
