//! The directory of a first team: what is offered, what is refused, and how it is written.

use crate::cli::command_line::usage_error;
use crate::error::Result;
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::path::AbsPath;
use crate::text::escape_name;
use crate::world::io::files::inspect;

/// The current directory in a config.
const THIS_DIRECTORY: &str = ".";

/// The path of the directory as it is written in the config, if there is one.
pub(super) type DirectoryChoice = Option<String>;

/// Returns the current directory, unless it contains far more than a project.
pub(super) fn default_directory(host: &Host) -> DirectoryChoice {
    (!is_broad(&host.cwd, host)).then(|| THIS_DIRECTORY.to_owned())
}

/// Parses the directory that the user typed: relative to the current one if it is inside.
///
/// # Errors
/// It is not a directory that can be read, or it contains the home directory.
pub(super) fn parse_directory(path_text: &str, host: &Host) -> Result<String> {
    let path = match (path_text.strip_prefix('~'), &host.home) {
        (Some(""), Some(home)) => home.clone(),
        (Some(below), Some(home)) if below.starts_with('/') => {
            home.join(below.trim_start_matches('/'))
        }
        _ => host.cwd.join(path_text),
    };
    let name = escape_name(path_text);
    if inspect(&path) != LookupResult::Directory {
        let message = format!("`{name}` is not a directory that can be read");
        return Err(usage_error(message).with_hint("create it, or name another one"));
    }
    if is_broad(&path, host) {
        let message = format!("`{name}` contains your home directory");
        return Err(usage_error(message).with_hint("open the directory of a project"));
    }
    Ok(match path.below(&host.cwd) {
        Some(below) if below.is_root() => THIS_DIRECTORY.to_owned(),
        Some(below) => below.to_string(),
        None => path.to_string(),
    })
}

/// Returns whether `path` contains the home directory, and with it far more than a project.
fn is_broad(path: &AbsPath, host: &Host) -> bool {
    let home = host.home.as_ref();
    path.parent().is_none() || home.is_some_and(|home| home.is_within(path))
}
