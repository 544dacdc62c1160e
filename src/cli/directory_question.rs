//! The question whether the current directory is opened to the agents: when it is asked, its text,
//! and how an answer is parsed. Sessions and single runs ask it alike. It decides which directories
//! are more than a project.

use std::collections::BTreeSet;

use crate::cli::opening_question::user_location;
use crate::cli::team_file::config_context;
use crate::config::check::breadth_reason;
use crate::config::{Config, ConfigContext, ContextPath};
use crate::dotenv::ConfigVariables;
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;
use crate::world::io::locate::resolve_existing;
use crate::world::io::project_link::describe_detour;

/// Heading of the list of open paths before the question.
pub(crate) const PATHS_HEADING: &str = "📂 Context Paths:";
/// What the list holds if no path is open.
const NO_PATHS: &str = "   No context paths configured";
/// Heading of the question; the current directory follows.
const QUESTION_HEADING: &str = "❓ Add current directory as context path?";
/// What the answers mean, also one that the question does not offer.
const ANSWER_NOTES: [&str; 2] = [
    "   (yes: all agents may read it, and the winner may change it;",
    "   p: the same, and some paths in it stay as they are)",
];
/// Question about the current directory.
pub(crate) const DIRECTORY_QUESTION: &str = "   [Y]es (default) / [N]o / [C]ustom path: ";
/// What is expected if an answer to it is invalid.
pub(crate) const EXPECTED_ANSWERS: &str = "   expected `y`, `n`, `c` or `p`";
/// Question for a path of the user's choice.
pub(crate) const PATH_QUESTION: &str = "   path: ";
/// Question about its permission.
pub(crate) const PERMISSION_QUESTION: &str = "   [W]rite (default) / [R]ead: ";
/// Question about the protected paths in it.
pub(crate) const PROTECTED_PATHS_QUESTION: &str =
    "   read-only paths inside it, separated by commas: ";

/// An answer to [`DIRECTORY_QUESTION`].
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

/// Parses an answer to [`DIRECTORY_QUESTION`]; `None` if it is invalid.
pub(crate) fn parse_answer(text: &str) -> Option<DirectoryAnswer> {
    match text.trim().to_lowercase().as_str() {
        "" | "y" | "yes" => Some(DirectoryAnswer::Yes),
        "n" | "no" => Some(DirectoryAnswer::No),
        "c" | "custom" => Some(DirectoryAnswer::Custom),
        "p" | "protect" => Some(DirectoryAnswer::Protect),
        _ => None,
    }
}

/// Parses an answer to [`PERMISSION_QUESTION`]; `None` if it is invalid.
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
    opened_paths: &[OpenedPath],
    cwd: &AbsPath,
) -> bool {
    let has_files = config.agents.iter().any(|agent| agent.cwd.is_some());
    let context_paths = config
        .orchestrator
        .context_paths
        .iter()
        .map(|context| &context.path);
    let mut open_paths = context_paths.chain(opened_paths.iter().map(|opened| &opened.path));
    has_files && !open_paths.any(|path| cwd.is_within(path))
}

/// Returns the line that confirms what was opened.
pub(crate) fn confirmation(context: &ContextPath) -> String {
    let names: Vec<String> = context.protected.iter().map(ToString::to_string).collect();
    let protected_names = match names.as_slice() {
        [] => String::new(),
        names => format!("; protected: {}", names.join(", ")),
    };
    format!(
        "✓ Added {} ({}{protected_names})",
        context.path, context.permission
    )
}

/// Returns the lines before the question about `cwd`; `open_paths` are open to the agents already.
pub(crate) fn question_lines(cwd: &AbsPath, open_paths: &[ContextPath]) -> Vec<String> {
    let path_lines = open_paths
        .iter()
        .map(|context| format!("   {} ({})", context.path, context.permission));
    let empty_line = open_paths.is_empty().then(|| NO_PATHS.to_owned());
    std::iter::once(PATHS_HEADING.to_owned())
        .chain(empty_line)
        .chain(path_lines)
        .chain([
            String::new(),
            QUESTION_HEADING.to_owned(),
            format!("   {cwd}"),
        ])
        .chain(ANSWER_NOTES.map(str::to_owned))
        .collect()
}

/// Resolves a path that the user typed.
pub(crate) fn resolve_typed_path(text: &str, host: &Host) -> AbsPath {
    match (text.strip_prefix('~'), &host.home) {
        (Some(""), Some(home)) => home.clone(),
        (Some(below), Some(home)) if below.starts_with('/') => {
            home.join(below.trim_start_matches('/'))
        }
        (Some(_) | None, _) => host.cwd.join(text),
    }
}

/// Returns why the directory `path` is more than a project: it is a system directory, for example,
/// or contains the home directory. `None` if it is not. The check of a config refuses the same
/// directories; here, one to which a symlink leads counts too, because a project can contain one.
pub(crate) fn directory_breadth_reason(path: &AbsPath, host: &Host) -> Option<&'static str> {
    let (env, packages) = (ConfigVariables::default(), BTreeSet::new());
    let context = config_context(host, &env, &packages);
    breadth_reason(path, &context).or_else(|| {
        let home = context.home.map(resolve_existing);
        let real_context = ConfigContext {
            base: &resolve_existing(context.base),
            state_parent: &resolve_existing(context.state_parent),
            home: home.as_ref(),
            ..context
        };
        breadth_reason(&resolve_existing(path), &real_context)
    })
}

/// Returns the message about a directory that is more than a project for this `reason`.
pub(crate) fn breadth_message(path: &AbsPath, reason: &str) -> String {
    format!(
        "`{path}` is {reason}: name a directory of a project, or open it in a config with \
         `allow_broad: true`"
    )
}

/// Returns the message that symlinks of a project lead `path` elsewhere, if they do.
pub(crate) fn detour_message(path: &AbsPath, host: &Host) -> Option<String> {
    match describe_detour(path, user_location(host)) {
        Ok(detour) => detour.map(|detour| format!("{detour}: name that path to open it")),
        Err(error) => Some(error.to_string()),
    }
}

/// Returns why a typed path cannot be opened as a directory; `None` if it can.
pub(crate) fn directory_obstacle(
    path: &AbsPath,
    lookup: LookupResult,
    host: &Host,
) -> Option<String> {
    match lookup {
        LookupResult::Directory => directory_breadth_reason(path, host)
            .map(|reason| breadth_message(path, reason))
            .or_else(|| detour_message(path, host)),
        LookupResult::File => Some(format!(
            "`{path}` is a file: mention it in a prompt as `@path`"
        )),
        LookupResult::Missing | LookupResult::Unreadable => {
            Some(format!("`{path}` is not a readable directory"))
        }
    }
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
    fn protected_paths_must_be_inside_the_directory() {
        let root = AbsPath::new("/project").unwrap();
        let found = parse_protected_paths("a, docs/b ,", &root).unwrap();
        let added = ContextPath {
            protected: found,
            permission: Permission::Write,
            ..ContextPath::read_only(root.clone())
        };
        assert_eq!(
            confirmation(&added),
            "✓ Added /project (write; protected: a, docs/b)"
        );
        for outside in ["..", "/etc", "."] {
            assert!(parse_protected_paths(outside, &root).is_err(), "{outside}");
        }
    }
}
