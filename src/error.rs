//! The one error type that reaches the user, and the exit status of the process. It must never
//! print: only `cli` does, and only once.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of an error, from the user's point of view; it determines the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line, or a file or an id that it names, cannot be used.
    Usage,
    /// The YAML, a grants file or a prompt asks for something impossible.
    Config,
    /// Something that the run needs is missing: a key, a kernel feature, a server.
    Environment,
    /// A model's endpoint failed, and retries did not help.
    Backend,
    /// Reading or writing massgen's own files failed.
    Io,
    /// Permissions denied the work that was asked for.
    Denied,
    /// A limit of time, money or rounds was reached.
    Limit,
    /// The user pressed Ctrl-C or the process was terminated.
    Interrupted,
    /// The run was parked: it was stopped without an end, and can be resumed.
    Parked,
    /// A state that should be impossible; the user should report it.
    Bug,
}

/// The exit statuses of the process, as `docs/config.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// The command did what was asked. After a run: there is an answer and, where a write path
    /// exists, it was delivered.
    #[serde(rename = "delivered")]
    Success = 0,
    /// The command did not reach its goal. After a run: no agent answered.
    #[serde(rename = "no_answer")]
    Failure = 1,
    /// Usage or config error.
    Usage = 2,
    /// No key, a missing kernel feature, a full disk.
    Environment = 3,
    /// A rule denied what was asked, or a change is missing from the user's paths: it was denied,
    /// or the user changed the file meanwhile.
    Denied = 4,
    /// A limit was reached; the results so far were saved.
    Limit = 5,
    /// A bug of massgen's own.
    Bug = 70,
    /// Parked: stopped without an end, to be resumed (`EX_TEMPFAIL` of `sysexits.h`).
    Parked = 75,
    /// Interrupted by the user.
    Interrupted = 130,
}

impl ExitStatus {
    /// Returns the number of the exit status.
    pub fn code(self) -> u8 {
        match self {
            ExitStatus::Success => 0,
            ExitStatus::Failure => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Environment => 3,
            ExitStatus::Denied => 4,
            ExitStatus::Limit => 5,
            ExitStatus::Bug => 70,
            ExitStatus::Parked => 75,
            ExitStatus::Interrupted => 130,
        }
    }
}

impl ErrorKind {
    /// Returns the exit status of a process that ends with this kind of error.
    pub fn exit_status(self) -> ExitStatus {
        match self {
            ErrorKind::Usage | ErrorKind::Config => ExitStatus::Usage,
            ErrorKind::Environment | ErrorKind::Io => ExitStatus::Environment,
            ErrorKind::Backend => ExitStatus::Failure,
            ErrorKind::Denied => ExitStatus::Denied,
            ErrorKind::Limit => ExitStatus::Limit,
            ErrorKind::Interrupted => ExitStatus::Interrupted,
            ErrorKind::Parked => ExitStatus::Parked,
            ErrorKind::Bug => ExitStatus::Bug,
        }
    }
}

/// An error for the user: one lower-case sentence, its causes, and what to do next.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hints: Vec<String>,
    cause: Option<anyhow::Error>,
}

/// The result of whatever can end a command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error of `kind`; `message` is lower case, names the thing and has no final
    /// period.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hints: Vec::new(),
            cause: None,
        }
    }

    /// Creates an error about massgen's own files.
    pub fn io(message: impl Into<String>, source: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, message).with_source(source)
    }

    /// Creates an error for a state that should be impossible.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Bug, message).with_hint("this is a bug in massgen: please report it")
    }

    /// Creates an error for a value that cannot be written as JSON or YAML.
    pub fn unserializable(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::bug("a value has no JSON or YAML form").with_source(error)
    }

    /// Creates an error from the payload of a panic.
    pub fn from_panic(panic: &(dyn Any + Send)) -> Self {
        let static_words = panic.downcast_ref::<&str>().copied();
        let words = static_words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        match words {
            Some(words) => Self::bug(format!("massgen crashed: {words}")),
            None => Self::bug("massgen crashed"),
        }
    }

    /// Adds the next action that the user can take.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds the cause of this error, with all the causes behind it.
    #[must_use]
    pub fn with_source(mut self, cause: impl Into<anyhow::Error>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the causes, the nearest first.
    pub fn causes(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        std::iter::successors(StdError::source(self), |&cause| cause.source())
    }

    /// Returns the next actions, in the order in which they were added.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

/// Prints the message; in the alternate form (`{:#}`) followed by its causes, on the same line. A
/// cause that the message before it already contains is left out.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !f.alternate() {
            return Ok(());
        }
        let mut message_before = self.message.clone();
        for cause in self.cause.iter().flat_map(anyhow::Error::chain) {
            let cause = cause.to_string();
            if !message_before.contains(&cause) {
                write!(f, ": {cause}")?;
            }
            message_before = cause;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let cause = self.cause.as_ref()?;
        Some(cause.as_ref())
    }
}
