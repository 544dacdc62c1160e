//! Looks for trees in a container on another machine that commands may only read, and could move away
//! all the same, because the directory above is theirs. Later commands would read what they put there.

use std::io::{self, Read};
use std::time::Duration;

use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::text::escape_name;
use crate::world::sandbox::docker::client::command_error;
use crate::world::sandbox::docker::command::ContainerCommand;
use crate::world::sandbox::docker::replaceable_container::ReplaceableContainer;
use crate::world::sandbox::docker::sent_files::incoming::EngineDownload;
use crate::world::sandbox::docker::sent_files::transfer_limit::TransferLimit;
use crate::world::sandbox::docker::sent_files::{COMMAND_PATHS_MAX, path_argument};
use crate::world::sandbox::reachable_paths::ReachablePaths;

/// The longest answer, in bytes: a path and a line break.
const ANSWER_BYTES_MAX: u64 = 4096;
/// Timeout for all answers.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

impl ReplaceableContainer {
    /// Returns a warning that names a directory of the image above a read-only tree, if commands may rename
    /// what is in it, or says that the container does not answer; `None` on this machine, where trees are
    /// mounted.
    pub(in crate::world::sandbox::docker) fn movable_trees_note(
        &self,
        reachable: &ReachablePaths,
    ) -> Option<String> {
        if !self.engine.is_elsewhere() {
            return None;
        }
        let names: Vec<String> = read_only_trees(reachable).map(path_argument).collect();
        let limit = TransferLimit::within(ANSWER_TIME_MAX);
        let mut answers = names
            .chunks(COMMAND_PATHS_MAX)
            .map(|names| self.movable_dir(names, &limit));
        let found = match answers.find_map(Result::transpose)? {
            Ok(dir) => format!("in the image, `{}` belongs", escape_name(&dir)),
            Err(why) => {
                let why = escape_name(&why.to_string());
                format!(
                    "the container does not say ({why}) whether a directory of the image belongs"
                )
            }
        };
        Some(format!(
            "{found} to the user of commands: they could then move away what they may only read, and later \
             commands would read what is then at its path"
        ))
    }

    fn movable_dir(
        &self,
        names: &[String],
        limit: &TransferLimit<'_>,
    ) -> io::Result<Option<String>> {
        let guard = self.lock();
        let user = self.engine.client.container_user();
        let command = ContainerCommand::movable(user, names.iter().cloned());
        let exec = self.start(&guard, command).map_err(command_error)?;
        let mut answer = EngineDownload::output(&self.engine, exec, limit).take(ANSWER_BYTES_MAX);
        let mut output = Vec::new();
        answer.read_to_end(&mut output)?;
        let output = String::from_utf8_lossy(&output);
        Ok(output.lines().next().map(str::to_owned))
    }
}

/// Returns the trees and files that commands may only read, without those inside others.
fn read_only_trees(reachable: &ReachablePaths) -> impl Iterator<Item = &AbsPath> {
    let open = &reachable.open;
    let is_nested = move |path: &AbsPath| {
        let mut others = open.iter().filter(|other| other.path != *path);
        others.any(|other| path.is_within(&other.path))
    };
    open.iter()
        .filter(|opening| opening.permission == Permission::Read)
        .map(|opening| &opening.path)
        .filter(move |path| !is_nested(path))
}
