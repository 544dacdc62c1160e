//! Results of the gate's decisions, as values: a denial, which the model reads, and the decision
//! about each path, for people. It decides nothing.

use std::fmt;

use crate::path::RealPath;
use crate::permissions::grant::{GrantKind, GrantScope, Permission};
use crate::prompts::untrusted_text::escape_notes;
use crate::text::escape_name;
use crate::tools::call::UserPath;
use crate::world::sys::file_system_error::FileSystemError;

/// A refused call, as the model reads it. It names no path outside the grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What was refused.
    pub subject: DeniedSubject,
    /// Name of the rule that denies it.
    pub rule: &'static str,
    /// The reason, as the end of a sentence.
    pub reason: String,
}

/// What was refused, and what the agent may do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeniedSubject {
    /// An access to a path.
    Access {
        /// The path as the model wrote it.
        path: String,
        /// What the call would have done there.
        requested: Permission,
        /// Where the agent may do that.
        roots: Vec<RealPath>,
    },
    /// A whole call, whatever it touches.
    Call {
        /// The tool, the command or the address, shortened.
        subject: String,
        /// What to do instead, as a sentence of its own.
        suggestion: String,
    },
    /// A command.
    Command {
        /// The part of it that was refused, shortened.
        command: String,
        /// What to do instead, as a sentence of its own.
        suggestion: String,
    },
    /// A program.
    Program,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = &self.reason;
        match &self.subject {
            DeniedSubject::Access {
                path,
                requested,
                roots,
            } => {
                let path = escape_notes(path);
                let access = match requested {
                    Permission::Read => "read of",
                    Permission::Write => "write to",
                };
                writeln!(f, "denied: {access} {path}: {reason}")?;
                let roots: Vec<String> = roots
                    .iter()
                    .map(|root| escape_notes(&escape_name(&root.to_string())).into_owned())
                    .collect();
                if roots.is_empty() {
                    write!(f, "you may {requested} nothing in this phase")
                } else {
                    write!(f, "you may {requested} under: {}", roots.join(", "))
                }
            }
            DeniedSubject::Call {
                subject,
                suggestion,
            } => {
                let subject = escape_notes(subject);
                write!(f, "denied: `{subject}`: {reason}\n{suggestion}")
            }
            DeniedSubject::Command {
                command,
                suggestion,
            } => {
                let command = escape_notes(command);
                write!(f, "denied: command `{command}`: {reason}\n{suggestion}")
            }
            DeniedSubject::Program => write!(f, "denied: the program was not run:\n{reason}"),
        }
    }
}

/// Why there is no permit for a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermitError {
    /// The call is denied.
    #[error("{0}")]
    Denied(Denial),
    /// massgen or the machine has too many open files or no memory, so that nothing can be decided.
    #[error("error: nothing can be opened now: {0}")]
    Exhausted(String),
}

impl PermitError {
    /// Returns the reason, as the end of a sentence.
    pub fn reason(&self) -> String {
        match self {
            PermitError::Denied(denial) => denial.reason.clone(),
            PermitError::Exhausted(error) => error.clone(),
        }
    }
}

impl From<Denial> for PermitError {
    fn from(denial: Denial) -> Self {
        PermitError::Denied(denial)
    }
}

/// Why a path is not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::world) enum PathError {
    /// The access is refused.
    Refused(AccessRefusal),
    /// Nothing can be opened now.
    Exhausted(FileSystemError),
}

impl From<PathError> for AccessRefusal {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Refused(refusal) => refusal,
            PathError::Exhausted(error) => AccessRefusal::new("not-followed", error.to_string()),
        }
    }
}

/// A directory or file that an agent was given, with its permission there in this phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedRoot {
    /// Where it is.
    pub path: RealPath,
    /// What the grant is for.
    pub kind: GrantKind,
    /// Whether the root is a tree or one file.
    pub scope: GrantScope,
    /// What may be done there now.
    pub permission: Permission,
}

/// The decision about one path of a call, for people; it may name paths outside the grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathVerdict {
    /// The path as written.
    pub path: UserPath,
    /// What the call would do there.
    pub requested: Permission,
    /// The real path, as far as the path could be resolved.
    pub real: Option<RealPath>,
    /// Root and kind of the grant that decides.
    pub grant: Option<(RealPath, GrantKind)>,
    /// Root and kind of each nested grant that covers the path only if names are compared without
    /// case, as some file systems do: each has to allow the access too.
    pub other_spelling_grants: Vec<(RealPath, GrantKind)>,
    /// The rule that denies it and the reason; `None` if the access is allowed.
    pub refusal: Option<AccessRefusal>,
}

/// Why an access is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRefusal {
    /// Name of the rule.
    pub rule: &'static str,
    /// The reason, as the end of a sentence.
    pub reason: String,
}

impl AccessRefusal {
    pub(in crate::world) fn new(rule: &'static str, reason: impl Into<String>) -> Self {
        Self {
            rule,
            reason: reason.into(),
        }
    }

    /// The refusal of a path outside the grants. Its text is the same whether something exists
    /// there or not, so that a model learns nothing from it.
    pub(in crate::world) fn outside() -> Self {
        Self::new("outside-grants", "it does not lead into your directories")
    }
}

/// Returns the denial of a call by a rule of the config or by a hook.
pub(in crate::world) fn denial_by_rule(
    rule: &'static str,
    subject: String,
    reason: String,
) -> Denial {
    Denial {
        subject: DeniedSubject::Call {
            subject,
            suggestion: "do without it, or say in the answer why it is needed".to_owned(),
        },
        rule,
        reason,
    }
}
