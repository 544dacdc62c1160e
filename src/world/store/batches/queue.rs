//! What a batch keeps about the jobs of a queue: how they are submitted, their output, the nodes
//! that cannot run its cells, and which cells have lost their job.

use std::collections::VecDeque;

use crate::batch::next_step::AttemptEnd;
use crate::batch::task::CellId;
use crate::error::Result;
use crate::path::AbsPath;
use crate::world::store::batches::BatchDir;
use crate::world::store::batches::claims::{AttemptNote, ClaimOwner};
use crate::world::store::batches::result_index::is_listed;
use crate::world::store::batches::survey::last_attempts;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;

/// Maximum size of the settings, in bytes.
const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum length of the name of a node that is recorded, in bytes.
const NODE_BYTES_MAX: usize = 200;
/// How much of the output of a job is read, in bytes.
const OUTPUT_BYTES_MAX: u64 = 2000;

/// A cell without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCell {
    /// Its number, from 0.
    pub number: u32,
    /// The cell.
    pub id: CellId,
    /// The number of the last attempt at it; 0 if there was none.
    pub attempt: u32,
    /// How that attempt ended, if it did.
    pub end: Option<AttemptEnd>,
    /// Who works on it or did until it was lost, if the attempt has no end.
    pub owner: Option<ClaimOwner>,
}

impl OpenCell {
    /// Returns whether an attempt has begun and has no recorded end.
    pub fn is_claimed(&self) -> bool {
        self.attempt > 0 && self.end.is_none()
    }
}

impl BatchDir {
    /// Returns the cells without a result among those with these ids, in their order.
    pub fn open_cells(&self, ids: &[CellId]) -> Result<Vec<OpenCell>> {
        // Claims before results: a cell that ends meanwhile is not mistaken for a lost one.
        let claims = self.claim_names()?;
        let listed_results = self.listed_results()?;
        let attempts = last_attempts(&claims, &listed_results);
        let numbers = 0..u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let open_cells = numbers
            .zip(ids)
            .filter(|(_, id)| !is_listed(&listed_results, id.as_str()));
        let cells = open_cells.map(|(number, id)| {
            let attempt = attempts.get(id.as_str()).copied().unwrap_or(0);
            let note = match attempt {
                0 => None,
                attempt => self.attempt_note(id, attempt)?,
            };
            let is_claimed = attempt > 0 && note.is_none();
            Ok(OpenCell {
                number,
                id: id.clone(),
                attempt,
                end: note.map(|note| note.end),
                owner: is_claimed.then(|| self.claim_owner(id, attempt)).flatten(),
            })
        });
        cells.collect()
    }

    /// Returns the numbers of the cells with these ids that have no result, in their order.
    pub fn unfinished_numbers(&self, ids: &[CellId]) -> Result<VecDeque<u32>> {
        let listed_results = self.listed_results()?;
        let numbers = 0..u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let unfinished_cells = numbers
            .zip(ids)
            .filter(|(_, id)| !is_listed(&listed_results, id.as_str()));
        Ok(unfinished_cells.map(|(number, _)| number).collect())
    }

    /// Records that the job which worked on `cell` is gone, unless the attempt has already ended.
    pub fn record_lost_job(&self, cell: &OpenCell) -> Result<()> {
        if self.has_result(&cell.id)? {
            return Ok(());
        }
        let note = AttemptNote::new(AttemptEnd::ProcessLost, "its job is gone");
        self.write_note(&cell.id, cell.attempt, &note)
    }

    /// Returns the directory of the scripts and of the output of jobs.
    pub fn jobs_dir(&self) -> Result<AbsPath> {
        let path = self.dir.join("jobs");
        dir::create_all(&path, DirectoryAudience::User)?;
        Ok(path)
    }

    /// Returns the end of the output of the last job that printed anything.
    pub fn last_job_output(&self) -> Option<String> {
        let jobs = self.dir.join("jobs");
        let mut names = dir::names_if_exists(&jobs).ok()?;
        names.retain(|name| name.strip_suffix(".txt").is_some());
        names.sort_unstable();
        names.iter().rev().find_map(|name| {
            let end = file::read_end(&jobs.join(name), OUTPUT_BYTES_MAX).ok()?;
            let text = String::from_utf8_lossy(&end).trim().to_owned();
            (!text.is_empty()).then_some(text)
        })
    }

    /// Keeps how jobs are submitted, for the next start.
    pub fn keep_settings(&self, text: &[u8]) -> Result<()> {
        file::replace(&self.settings_file(), text)
    }

    /// Returns how jobs were submitted last, if that was recorded.
    pub fn settings(&self) -> Option<Vec<u8>> {
        let content = file::read_regular_capped(&self.settings_file(), SETTINGS_BYTES_MAX);
        content.ok().flatten()
    }

    /// Records that no further cell should begin on `node`, and why.
    pub fn refuse_node(&self, node: &str, reason: &str) -> Result<()> {
        let Some(path) = self.node_file(node) else {
            return Ok(());
        };
        dir::create_all(&self.nodes_dir(), DirectoryAudience::User)?;
        file::replace(&path, reason.as_bytes())
    }

    /// Returns the names of the nodes on which no further cell should begin.
    pub fn refused_nodes(&self) -> Result<Vec<String>> {
        let mut names = dir::names_if_exists(&self.nodes_dir())?;
        names.retain(|name| !name.starts_with('.'));
        names.sort_unstable();
        Ok(names)
    }

    /// Returns why no further cell should begin on `node`.
    pub fn refusal(&self, node: &str) -> Option<String> {
        let bytes = file::read_regular_capped(&self.node_file(node)?, OUTPUT_BYTES_MAX).ok()??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Admits all nodes again.
    pub fn admit_nodes(&self) -> Result<()> {
        clear::remove(&self.nodes_dir())
    }

    /// Returns the file about `node`; `None` if its name cannot be a file name.
    fn node_file(&self, node: &str) -> Option<AbsPath> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_plain = node.chars().all(is_name) && !node.starts_with('.');
        let is_file_name = is_plain && !node.is_empty() && node.len() <= NODE_BYTES_MAX;
        is_file_name.then(|| self.nodes_dir().join(node))
    }

    fn nodes_dir(&self) -> AbsPath {
        self.dir.join("nodes")
    }

    fn settings_file(&self) -> AbsPath {
        self.dir.join("scheduler.json")
    }
}
