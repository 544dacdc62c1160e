//! Looks for trees in a container on another machine that commands may only read, and could move
//! away all the same, because they may write to the directory above. Later commands would read what
//! they put there.

use std::io::Read;
use std::time::Duration;

use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::text::escape_name;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::sent_files::helper_command::HelperCommand;
use crate::world::sandbox::sent_files::remote_container::RemoteContainer;
use crate::world::sandbox::sent_files::transfer_error::TransferError;
use crate::world::sandbox::sent_files::transfer_limit::TransferLimit;
use crate::world::sandbox::sent_files::{COMMAND_PATHS_MAX, path_argument};

/// The longest answer, in bytes: a path and a line break.
const ANSWER_BYTES_MAX: u64 = 4096;
/// Timeout for all answers.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Returns a warning that names a directory of the image above a read-only tree, if commands may
/// rename what is in it, or says that the container does not answer.
pub(in crate::world::sandbox) fn movable_trees_note(
    remote: &dyn RemoteContainer,
    reachable: &ReachablePaths,
) -> Option<String> {
    let names: Vec<String> = read_only_trees(reachable).map(path_argument).collect();
    let limit = TransferLimit::within(ANSWER_TIME_MAX);
    let mut answers = names
        .chunks(COMMAND_PATHS_MAX)
        .map(|names| movable_dir(remote, names, &limit));
    let cause = match answers.find_map(Result::transpose)? {
        Ok(dir) => format!(
            "in the image, commands may write to `{}`",
            escape_name(&dir)
        ),
        Err(error) => {
            let reason = escape_name(&error.to_string());
            format!(
                "the container does not say ({reason}) whether commands may write to a directory of \
                 the image"
            )
        }
    };
    Some(format!(
        "{cause}: they could then move away what they may only read, and later commands would read \
         what is then at its path"
    ))
}

fn movable_dir(
    remote: &dyn RemoteContainer,
    names: &[String],
    limit: &TransferLimit<'_>,
) -> Result<Option<String>, TransferError> {
    let command = HelperCommand::find_movable(remote.user(), names.iter().cloned());
    let mut reader = remote.read(command, limit)?;
    let mut output = Vec::new();
    let read_result = reader
        .by_ref()
        .take(ANSWER_BYTES_MAX)
        .read_to_end(&mut output);
    if let Some(error) = reader.take_error() {
        return Err(error);
    }
    read_result.map_err(|error| TransferError::RemoteFailure(error.to_string()))?;
    let output = String::from_utf8_lossy(&output);
    Ok(output.lines().next().map(str::to_owned))
}

/// Returns the trees and files that commands may only read, without those inside others.
fn read_only_trees(reachable: &ReachablePaths) -> impl Iterator<Item = &AbsPath> {
    let open = &reachable.open;
    let is_nested = move |path: &AbsPath| {
        let mut other_paths = open.iter().filter(|other| other.path != *path);
        other_paths.any(|other| path.is_within(&other.path))
    };
    open.iter()
        .filter(|open_path| open_path.permission == Permission::Read)
        .map(|open_path| &open_path.path)
        .filter(move |path| !is_nested(path))
}
