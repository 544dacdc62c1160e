//! Resolves paths that the user wrote, and decides which are too broad to be opened to agents.

use std::path::Path;

use crate::config::ConfigContext;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue};
use crate::config::checks::FileGlobs;
use crate::config::diagnostic::quote;
use crate::config::keys::TypedKey;
use crate::config::keys::shape::TextList;
use crate::config::storage_path::STATE_DIR;
use crate::path::AbsPath;

/// The longest path, in bytes: `PATH_MAX` of Linux.
const PATH_BYTES_MAX: usize = 4096;

/// System directories; they are not part of any project.
const SYSTEM_DIRS: &[&str] = &[
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc",
    "/root", "/run", "/sbin", "/sys", "/usr", "/var",
];
/// Directories that hold interfaces to the kernel rather than files.
const KERNEL_DIRS: &[&str] = &["/dev", "/proc", "/sys"];

/// Returns why a path is too broad to be opened to agents without explicit permission from the
/// user; `None` if it is not.
pub fn breadth_reason(path: &AbsPath, context: &ConfigContext<'_>) -> Option<&'static str> {
    let is_one_of = |dirs: &[&str]| dirs.iter().any(|dir| path.as_path() == Path::new(dir));
    let is_within_one_of = |dirs: &[&str]| dirs.iter().any(|dir| path.as_path().starts_with(dir));
    let contains = |inner: &AbsPath| inner.is_within(path);
    if is_one_of(SYSTEM_DIRS) || is_within_one_of(KERNEL_DIRS) {
        Some("a system directory")
    } else if context.home == Some(path) {
        Some("your home directory")
    } else if context.home.is_some_and(contains) {
        Some("a parent of your home directory")
    } else if path != context.base && contains(context.base) {
        Some("a parent of the current directory")
    } else if path.is_within(&context.state_parent.join(STATE_DIR)) {
        Some("massgen's own state")
    } else {
        None
    }
}

impl ConfigChecker<'_> {
    /// Returns the globs of a list. Adds an error for each that is invalid.
    pub(super) fn file_globs(
        &mut self,
        view: &MappingView<'_>,
        key: &TypedKey<TextList>,
    ) -> FileGlobs {
        let mut globs = FileGlobs::default();
        for text in view.texts(key) {
            if let Err(reason) = globs.add(text.value) {
                let hint = "write one such as `tests/**`, relative to the write path";
                self.refuse_value(&text, &format!("a glob: {reason}"), hint);
            }
        }
        globs
    }

    /// Resolves a path; relative ones start in the user's directory. Adds an error if it is
    /// invalid.
    pub(super) fn path(&mut self, text: &TextValue<'_>) -> Option<AbsPath> {
        let path = resolve(text.value, self.context);
        path.map_err(|problem| {
            self.refuse(text, problem.message, problem.suggestion);
        })
        .ok()
    }
}

/// A problem with a path.
#[derive(Debug)]
pub(super) struct PathProblem {
    message: String,
    /// What the user can do.
    suggestion: &'static str,
}

impl PathProblem {
    fn new(message: String, suggestion: &'static str) -> Self {
        Self {
            message,
            suggestion,
        }
    }
}

/// Resolves `text` to a path, or returns the problem with it.
pub(super) fn resolve(text: &str, context: &ConfigContext<'_>) -> Result<AbsPath, PathProblem> {
    if text.is_empty() {
        return Err(PathProblem::new(
            "the path is empty".to_owned(),
            "write `.` for the current directory",
        ));
    }
    if text.contains('\0') || text.len() > PATH_BYTES_MAX {
        return Err(PathProblem::new(
            format!("{} cannot be a path", quote(text)),
            "use a path without NUL, of at most 4096 bytes",
        ));
    }
    let home = || {
        context.home.ok_or_else(|| {
            PathProblem::new(
                format!("{} needs a home directory, but there is none", quote(text)),
                "set HOME, or write an absolute path",
            )
        })
    };
    match text.strip_prefix('~') {
        Some("") => home().cloned(),
        Some(rest) => match rest.strip_prefix('/') {
            Some(below) => Ok(home()?.join(below)),
            None => Err(PathProblem::new(
                format!("{} is the home directory of another user", quote(text)),
                "write an absolute path, or `./~name` for a directory with that name",
            )),
        },
        None => Ok(AbsPath::resolve(context.base, text)),
    }
}
