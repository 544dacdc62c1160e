//! The question whether the current directory is opened to the agents: when it is asked, its text,
//! and how an answer is parsed. Pure.

use crate::config::{Config, ContextPath};
use crate::mentions::opened_paths::OpenedPath;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;

/// Question about the current directory.
pub(crate) const QUESTION: &str =
    "   [Y]es (default) / [N]o / [C]ustom path / yes, and [P]rotect paths in it: ";
/// Question for a path of the user's choice.
pub(crate) const WHICH: &str = "   path: ";
/// Question about its permission.
pub(crate) const HOW: &str = "   [W]rite (default) / [R]ead: ";
/// Question about the protected paths in it.
pub(crate) const PROTECTED: &str = "   read-only paths inside it, separated by commas: ";

/// An answer to [`QUESTION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryAnswer {
    /// Open the directory.
    Yes,
    /// Open nothing.
    No,
    /// Open another directory.
    Custom,
    /// Open it, with protected paths.
    Protect,
}

/// Parses an answer to [`QUESTION`]; `None` if it is invalid.
pub(crate) fn parse_answer(text: &str) -> Option<DirectoryAnswer> {
    match text.trim().to_lowercase().as_str() {
        "" | "y" | "yes" => Some(DirectoryAnswer::Yes),
        "n" | "no" => Some(DirectoryAnswer::No),
        "c" | "custom" => Some(DirectoryAnswer::Custom),
        "p" | "protect" => Some(DirectoryAnswer::Protect),
        _ => None,
    }
}

/// Parses an answer to [`HOW`]; `None` if it is invalid.
pub(crate) fn parse_permission(text: &str) -> Option<Permission> {
    match text.trim().to_lowercase().as_str() {
        "" | "w" | "write" => Some(Permission::Write),
        "r" | "read" => Some(Permission::Read),
        _ => None,
    }
}

/// Parses the paths in `text`, which must be inside `root`; the first one that is not is an error.
pub(crate) fn parse_protected_paths(text: &str, root: &AbsPath) -> Result<Vec<RelPath>, String> {
    let names = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let inside = |name: &str| {
        let below = root.join(name).below(root).filter(|below| !below.is_root());
        below.ok_or_else(|| format!("`{name}` is not a path inside `{root}`"))
    };
    names.map(inside).collect()
}

/// Returns whether agents have files and nothing opens `cwd` to them yet.
pub(crate) fn needs_directory_question(
    config: &Config,
    opened: &[OpenedPath],
    cwd: &AbsPath,
) -> bool {
    let has_files = config.agents.iter().any(|agent| agent.cwd.is_some());
    let listed = config
        .orchestrator
        .context_paths
        .iter()
        .map(|listed| &listed.path);
    let mut covering = listed.chain(opened.iter().map(|opened| &opened.path));
    has_files && !covering.any(|path| cwd.is_within(path))
}

/// Returns the line that confirms what was opened.
pub(crate) fn confirmation(added: &ContextPath) -> String {
    let names: Vec<String> = added.protected.iter().map(ToString::to_string).collect();
    let protected = match names.as_slice() {
        [] => String::new(),
        names => format!("; protected: {}", names.join(", ")),
    };
    format!("Added {} ({}{protected})", added.path, added.permission)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_to_open_it_for_writing() {
        assert_eq!(parse_answer(""), Some(DirectoryAnswer::Yes));
        assert_eq!(parse_answer(" N "), Some(DirectoryAnswer::No));
        assert_eq!(parse_answer("custom"), Some(DirectoryAnswer::Custom));
        assert_eq!(parse_answer("maybe"), None);
        assert_eq!(parse_permission(""), Some(Permission::Write));
        assert_eq!(parse_permission("R"), Some(Permission::Read));
        assert_eq!(parse_permission("x"), None);
    }

    #[test]
    fn what_is_protected_lies_inside() {
        let root = AbsPath::new("/project").unwrap();
        let found = parse_protected_paths("a, docs/b ,", &root).unwrap();
        let added = ContextPath {
            protected: found,
            permission: Permission::Write,
            ..ContextPath::read_only(root.clone())
        };
        assert_eq!(
            confirmation(&added),
            "Added /project (write; protected: a, docs/b)"
        );
        for outside in ["..", "/etc", "."] {
            assert!(parse_protected_paths(outside, &root).is_err(), "{outside}");
        }
    }
}
