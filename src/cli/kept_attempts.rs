//! The directory of `--keep-attempts`: after a run, it has the changed files and the diff of the last
//! answer of each agent.

use std::collections::BTreeMap;

use crate::cli::command_line::usage_error;
use crate::cli::run_context::write_paths;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CoordinationEvent, Event, RunEvent};
use crate::orchestrator::execution::RunRequest;
use crate::path::{AbsPath, RealPath};
use crate::world::git::GitProgram;
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::io::project_link::{UserLocation, describe_detour};
use crate::world::store::runs;
use crate::world::store::snapshot::{is_free, restore};
use crate::world::store::workspace::make_new;

/// Where the answers of a run are kept.
#[derive(Debug)]
pub(crate) struct KeptAttempts {
    dir: AbsPath,
    base: AbsPath,
}

impl KeptAttempts {
    /// Checks the directory `name` for `request`, before anything costs money. It must not exist or
    /// be empty, and a delivery must not include it.
    pub(crate) async fn new(request: &RunRequest, name: &str) -> Result<Self> {
        let (dir, base) = (
            request.context.base.join(name),
            request.context.base.clone(),
        );
        let location = UserLocation {
            base: &base,
            home: request.context.host.home.as_ref(),
        };
        if let Some(detour) = describe_detour(&dir, location)? {
            return Err(Error::new(ErrorKind::Denied, detour)
                .with_hint("if the attempts are to be kept there, name that path"));
        }
        if !is_free(&dir)? {
            let message = format!("`--keep-attempts {dir}` names a directory that is not empty");
            return Err(usage_error(message).with_hint("name a directory that does not exist"));
        }
        let real = locate(&dir).map(LocatedPath::into_real)?;
        for root in write_paths(request) {
            let root = locate(root).map(LocatedPath::into_real)?;
            if is_delivered_from(&root, &real, request).await? {
                let message = format!(
                    "`--keep-attempts {dir}` is inside `{root}`, which agents may write to"
                );
                return Err(usage_error(message)
                    .with_hint("name a directory outside of it, or one that git ignores"));
            }
        }
        Ok(Self { dir, base })
    }

    /// Copies the files of the last answers of the run with these logs.
    pub(crate) fn write(&self, log_dir: &AbsPath) -> Result<()> {
        let run = runs::find(&log_dir.to_string(), log_dir, &self.base)?;
        let mut answers: BTreeMap<String, AbsPath> = BTreeMap::new();
        for entry in run.events()?.intact_entries() {
            let event = entry?.event;
            if let Some(Event::Run(RunEvent::RunStarted { .. })) = event {
                answers.clear();
            } else if let Some(Event::Coordination(CoordinationEvent::Answered {
                label,
                snapshot: Some(snapshot),
                ..
            })) = event
                && let Some(snapshot) = AbsPath::new(&snapshot)
            {
                answers.insert(label.agent.to_string(), snapshot);
            }
        }
        for (agent, snapshot) in answers {
            if let LocatedPath::Directory(snapshot) = locate(&snapshot)? {
                let target = self.dir.join(agent);
                make_new(&target)?;
                restore(&snapshot, &target)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a delivery into `root` could include `dir`: it is in there, and git does not
/// ignore it.
async fn is_delivered_from(root: &RealPath, dir: &RealPath, request: &RunRequest) -> Result<bool> {
    let Some(below) = dir.below(root) else {
        return Ok(false);
    };
    if below.is_root() {
        return Ok(true);
    }
    let Ok(git) = GitProgram::find(&request.context.host.env).await else {
        return Ok(true);
    };
    let (root, names) = (root.to_abs(), [below]);
    let ignored = git.ignored_names(&root, &names).await?;
    Ok(ignored.is_none_or(|ignored| ignored.is_empty()))
}
