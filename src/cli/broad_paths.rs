//! Refuses what a mention or `--cwd-context` would open although it is more than a project, as the
//! check of a config does. What the config opens deliberately may be opened.

use crate::cli::directory_question::{breadth_message, directory_breadth_reason};
use crate::config::ContextPath;
use crate::config::storage_path::{LOGS, STATE_DIR};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::mentions::{LookupResult, Mention, ParsedPrompt};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::io::locate::resolve_existing;

/// Refuses a mention of a directory that is more than a project, such as `/etc`, unless it is in a
/// path that the config lists with the same permission.
///
/// # Errors
/// There is such a mention.
pub(crate) fn reject_broad_mentions(
    prompt: &ParsedPrompt,
    context_paths: &[ContextPath],
    host: &Host,
) -> Result<()> {
    let mut errors = prompt.mentions.iter().filter_map(|mention| {
        let is_open = is_listed(&mention.path, mention.permission, context_paths);
        let reason = broad_mention_reason(mention, host).filter(|_| !is_open)?;
        Some(broad_path_error(&mention.path, reason))
    });
    match errors.next() {
        Some(error) => Err(error.with_hint("write `\\@` for an `@` that does not name a path")),
        None => Ok(()),
    }
}

/// Refuses `--cwd-context` with this permission in a directory that is more than a project, unless
/// the config lists it.
///
/// # Errors
/// The current directory is such a directory.
pub(crate) fn reject_broad_cwd(
    permission: Permission,
    context_paths: &[ContextPath],
    host: &Host,
) -> Result<()> {
    match directory_breadth_reason(&host.cwd, host) {
        Some(reason) if !is_listed(&host.cwd, permission, context_paths) => {
            Err(broad_path_error(&host.cwd, reason))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns why a mention would open more than a project. A file that is only read may be anywhere,
/// and the logs of massgen's runs may be read too, as a config may open them.
pub(crate) fn broad_mention_reason(mention: &Mention, host: &Host) -> Option<&'static str> {
    let is_read = mention.permission == Permission::Read;
    let logs = host.state_parent.join(STATE_DIR).join(LOGS);
    let is_harmless = mention.lookup_result == LookupResult::File || mention.path.is_within(&logs);
    if is_read && is_harmless {
        return None;
    }
    directory_breadth_reason(&mention.path, host)
}

fn is_listed(path: &AbsPath, permission: Permission, context_paths: &[ContextPath]) -> bool {
    let real_path = resolve_existing(path);
    context_paths
        .iter()
        .filter(|context| context.permission >= permission)
        .any(|context| path.is_within(&context.path) || real_path.is_within(&context.path))
}

fn broad_path_error(path: &AbsPath, reason: &str) -> Error {
    Error::new(ErrorKind::Config, breadth_message(path, reason))
}
