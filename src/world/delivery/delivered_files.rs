//! What became of the files that a run delivered: which are delivered now, which in part, and which
//! were reverted. It is read without a lock, for lists of runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::delivery::path_state::PathState;
use crate::error::{ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::delivery::delivery_dir::{DeliveryDir, open_root};
use crate::world::delivery::journal::{self, DeliveryProgress, DeliveryStep};
use crate::world::delivery::step_runner::is_applied;
use crate::world::store::delivery_names::{list_names, pipeline_of, run_of};
use crate::world::sys::state_files::file;

/// The largest journal that is read for a list, in bytes: that of some ten thousand files.
const JOURNAL_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The deliveries of a directory, by their runs.
#[derive(Debug, Default)]
pub struct DeliveriesByRun {
    /// For each run, the directories of its deliveries, the oldest first. A pipeline has a name for
    /// each time when it was applied.
    dirs: BTreeMap<String, Vec<AbsPath>>,
}

/// The files that a run delivered, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveredFiles {
    /// Those that are delivered, each with whether only some of its hunks are.
    applied: BTreeMap<AbsPath, bool>,
    /// Those that were reverted.
    reverted: BTreeSet<AbsPath>,
}

impl DeliveriesByRun {
    /// Lists the deliveries below `deliveries`.
    pub fn list(deliveries: &AbsPath) -> Result<Self> {
        let mut dirs: BTreeMap<String, Vec<AbsPath>> = BTreeMap::new();
        for name in list_names(deliveries)?.into_iter().rev() {
            let run_dirs = dirs.entry(run_of(&name).to_owned()).or_default();
            run_dirs.push(deliveries.join(&name));
        }
        Ok(Self { dirs })
    }

    /// Reads what happened to the files that `run` delivered. Deliveries that are damaged, are being
    /// changed, or were not created here count as unknown.
    ///
    /// # Errors
    /// The disk does not answer.
    pub fn delivered_files(&self, run: &str) -> Result<DeliveredFiles> {
        let mut files = DeliveredFiles::default();
        for dir in self.dirs.get(run).into_iter().flatten() {
            files.add_delivery(&DeliveryDir(dir.clone()))?;
        }
        Ok(files)
    }

    /// Reads, like [`Self::delivered_files`], what happened to the files that the pipeline with
    /// this short name delivered.
    ///
    /// # Errors
    /// The disk does not answer.
    pub fn files_of_pipeline(&self, short_name: &str) -> Result<DeliveredFiles> {
        let mut files = DeliveredFiles::default();
        let runs = self.dirs.iter();
        let runs_of_pipeline = runs.filter(|(name, _)| pipeline_of(name) == Some(short_name));
        for dir in runs_of_pipeline.flat_map(|(_, dirs)| dirs) {
            files.add_delivery(&DeliveryDir(dir.clone()))?;
        }
        Ok(files)
    }
}

impl DeliveredFiles {
    /// Returns whether every file that was delivered has been reverted.
    pub fn is_reverted(&self) -> bool {
        self.applied.is_empty() && !self.reverted.is_empty()
    }

    /// Returns whether some of the files have been reverted, and others have not.
    pub fn is_partly_reverted(&self) -> bool {
        !self.applied.is_empty() && !self.reverted.is_empty()
    }

    /// Returns whether some file is delivered only in part.
    pub fn is_partial(&self) -> bool {
        self.applied.values().any(|is_partial| *is_partial)
    }

    /// Returns whether the file at `path` is delivered, at least in part.
    pub fn is_applied(&self, path: &str) -> bool {
        let path = AbsPath::new(path);
        path.is_some_and(|path| self.applied.contains_key(&path))
    }

    /// Adds the files of a delivery that is later than those read so far.
    fn add_delivery(&mut self, delivery_dir: &DeliveryDir) -> Result<()> {
        let journal = delivery_dir.journal();
        if file::regular_size(&journal)?.is_none_or(|size| size > JOURNAL_BYTES_MAX) {
            return Ok(());
        }
        let state = match journal::read(&journal) {
            Ok(Some(state)) => state,
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Ok(None) | Err(_) => return Ok(()),
        };
        let is_closed = state.progress == DeliveryProgress::Closed;
        if !is_closed || delivery_dir.seal()? != state.seal {
            return Ok(());
        }
        let slots = delivery_dir.slots();
        if !file::is_directory(&slots)? {
            return Ok(());
        }
        let slots = open_root(&slots)?;
        let transaction_steps = state.steps.iter().take(state.transaction_steps);
        for step in transaction_steps.filter(|step| is_file_step(step)) {
            let Some(root) = state.roots.get(step.root) else {
                continue;
            };
            let path = root.path.join(step.rel.as_path());
            if is_applied(step, &slots)? {
                self.reverted.remove(&path);
                self.applied.insert(path, step.hunks.is_some());
            } else if !self.applied.contains_key(&path) {
                self.reverted.insert(path);
            }
        }
        Ok(())
    }
}

/// Returns whether the step creates, changes or removes a file or a symlink.
fn is_file_step(step: &DeliveryStep) -> bool {
    let is_file = |state: &PathState| matches!(state, PathState::File(_) | PathState::Link { .. });
    is_file(&step.theirs) || is_file(&step.ours)
}
