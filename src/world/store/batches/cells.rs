//! The directory of each cell, with its work and its delivery, and the results of all cells. A
//! result is created once and never replaced; another one can follow only when it was withdrawn.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, ErrorKind as IoErrorKind, Read as _, Write};

use serde_json::Value;

use crate::batch::result::CellResult;
use crate::batch::task::CellId;
use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::store::batches::BatchDir;
use crate::world::store::directory_seal::DirectorySeal;
use crate::world::sys::state_files::create_once::{create_once, move_exclusively};
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::sync::sync_tree;
use crate::world::sys::state_files::tree::{self, CopyMethod, TreeLimits};
use crate::world::sys::state_files::{clear, damaged_error, file, file_error};

/// The suffix of result files.
const RESULT_SUFFIX: &str = ".jsonl";
/// Maximum length of the first line of a result, in bytes.
const HEAD_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum size of a result, in bytes.
const RESULT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The file that records that the work of a cell was prepared: by which attempt, and when the copying
/// of the user's project began.
const PREPARED_FILE: &str = "prepared";
/// Maximum size of that file, in bytes.
const PREPARED_BYTES_MAX: u64 = 64;

/// The largest project that is copied.
const PROJECT_MAX: TreeLimits = TreeLimits {
    entries: 1_000_000,
    bytes: 16 * 1024 * 1024 * 1024,
    depth: 64,
};

/// The directory of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellDir {
    dir: AbsPath,
}

impl CellDir {
    /// Returns the directory in which the run of the cell works.
    pub fn work(&self) -> AbsPath {
        self.dir.join("work")
    }

    /// Returns the directory of the changed files, in the form of an overlay's upper layer.
    pub fn changes(&self) -> AbsPath {
        self.dir.join("changes")
    }

    /// Returns the file with the changes as a patch.
    pub fn patch(&self) -> AbsPath {
        self.dir.join("delivery.patch")
    }

    /// Returns the file with what the run showed.
    pub fn output(&self) -> AbsPath {
        self.dir.join("output.txt")
    }

    /// Returns when the copying of the user's project began, by the clock of file timestamps, in
    /// nanoseconds since 1970: the copy has no later change of the user.
    pub fn prepared_ns(&self) -> Option<i64> {
        self.read_prepared()?.split_once(' ')?.1.parse().ok()
    }

    /// Returns the number of the attempt that prepared the work completely, if one did.
    pub fn first_attempt(&self) -> Option<u32> {
        self.read_prepared()?.split_once(' ')?.0.parse().ok()
    }

    fn read_prepared(&self) -> Option<String> {
        let path = self.dir.join(PREPARED_FILE);
        let bytes = file::read_regular_capped(&path, PREPARED_BYTES_MAX).ok()??;
        String::from_utf8(bytes).ok()
    }

    /// Records that `attempt` prepared the work, and that the copying began at `copy_began_ns`.
    pub fn mark_prepared(&self, attempt: u32, copy_began_ns: i64) -> Result<()> {
        sync_tree(&self.work())?;
        let text = format!("{attempt} {copy_began_ns}");
        file::replace(&self.dir.join(PREPARED_FILE), text.as_bytes())
    }

    /// Copies the directory `project` into the work. Returns notes about what was left out.
    pub fn copy_project(&self, project: &AbsPath) -> Result<Vec<String>> {
        let copy_result = tree::copy(
            project,
            &self.work(),
            CopyMethod::Writable,
            PROJECT_MAX,
            &[],
        )?;
        let omission_counts = [
            (copy_result.unreadable, "files that cannot be read"),
            (copy_result.special, "pipes, sockets and devices"),
            (copy_result.swapped, "files that were replaced meanwhile"),
        ];
        let omissions = omission_counts.into_iter().filter(|(count, _)| *count > 0);
        Ok(omissions
            .map(|(count, noun)| format!("not copied from `{project}`: {count} {noun}"))
            .collect())
    }

    /// Returns when the directory of the work was created, by the clock of file timestamps, in
    /// nanoseconds since 1970.
    pub fn work_created_ns(&self) -> Result<i64> {
        DirectorySeal::from_directory(&self.work()).map(DirectorySeal::born_ns)
    }

    /// Returns an empty directory for the files of git.
    pub fn scratch(&self) -> Result<AbsPath> {
        let path = self.dir.join("scratch");
        clear::remove(&path)?;
        dir::create_all(&path, DirectoryAudience::User)?;
        Ok(path)
    }

    /// Removes what an earlier attempt left, and creates the empty directory of the work.
    pub fn begin_anew(&self) -> Result<()> {
        clear::remove(&self.dir.join(PREPARED_FILE))?;
        for path in [self.work(), self.changes(), self.patch(), self.output()] {
            clear::remove(&path)?;
        }
        dir::create_all(&self.work(), DirectoryAudience::User)
    }

    /// Writes the patch of the delivery.
    pub fn write_patch(&self, text: &str) -> Result<()> {
        file::replace(&self.patch(), text.as_bytes())
    }

    /// Opens the file with what the run shows, to append to it.
    pub fn open_output(&self) -> Result<impl Write + Send + use<>> {
        file::open_to_append(&self.output())
    }
}

impl BatchDir {
    /// Returns the directory of `cell`.
    pub fn cell_dir(&self, cell: &CellId) -> CellDir {
        CellDir {
            dir: self.dir.join("cells").join(cell.as_str()),
        }
    }

    /// Returns whether `cell` has its result.
    pub fn has_result(&self, cell: &CellId) -> Result<bool> {
        file::exists(&self.result_file(cell))
    }

    /// Publishes the result of a cell, with that of its run in the published schema, unless it has
    /// one.
    pub fn publish(&self, result: &CellResult, run: &Value) -> Result<()> {
        let head = serde_json::to_string(result).map_err(Error::unserializable)?;
        let text = format!("{head}\n{run}\n");
        // The changes first: after a power failure, a result must not lack them.
        sync_tree(&self.cell_dir(&result.id).changes())?;
        create_once(&self.result_file(&result.id), text.as_bytes()).map(drop)
    }

    /// Reads the result of `cell`, and that of its run; `None` if there is none yet.
    pub fn result(&self, cell: &CellId) -> Result<Option<(CellResult, Value)>> {
        let path = self.result_file(cell);
        let bytes = match file::read_regular_capped(&path, RESULT_BYTES_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(|error| file_error("read", path.as_path(), error))?,
        };
        let damaged_error = || damaged_error(&path);
        let bytes = bytes.ok_or_else(damaged_error)?;
        let mut lines = bytes.splitn(2, |byte| *byte == b'\n');
        let head = serde_json::from_slice(lines.next().unwrap_or_default());
        let run = serde_json::from_slice(lines.next().unwrap_or_default());
        Ok(Some((
            head.map_err(|error| damaged_error().with_source(error))?,
            run.map_err(|error| damaged_error().with_source(error))?,
        )))
    }

    /// Returns the ids of the cells that have a result. No file is opened.
    pub(super) fn finished_cells(&self) -> Result<BTreeSet<String>> {
        let names = dir::names_if_exists(&self.results_dir())?.into_iter();
        let ids = names.filter_map(|name| Some(name.strip_suffix(RESULT_SUFFIX)?.to_owned()));
        Ok(ids.filter(|id| !id.starts_with('.')).collect())
    }

    /// Returns the number of cells that have a result.
    pub fn finished_count(&self) -> Result<usize> {
        self.finished_cells().map(|cells| cells.len())
    }

    /// Reads the results of `cells`, without those of their runs. One that was withdrawn meanwhile is
    /// left out.
    pub(super) fn read_results(&self, cells: &BTreeSet<String>) -> Result<Vec<CellResult>> {
        let results = cells.iter().map(|cell| self.read_head(cell));
        results.filter_map(Result::transpose).collect()
    }

    fn read_head(&self, cell: &str) -> Result<Option<CellResult>> {
        let path = self.results_dir().join(format!("{cell}{RESULT_SUFFIX}"));
        let damaged_error = || damaged_error(&path);
        let read_line = || -> std::io::Result<String> {
            let mut line = String::new();
            let mut reader = BufReader::new(file::open(&path)?.take(HEAD_BYTES_MAX));
            reader.read_line(&mut line)?;
            Ok(line)
        };
        let line = match read_line() {
            Ok(line) => line,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(damaged_error().with_source(error)),
        };
        serde_json::from_str(&line).map_err(|error| damaged_error().with_source(error))
    }

    /// Returns the numbers of the cells with these ids that have no result, in their order.
    pub fn unfinished_numbers(&self, ids: &[CellId]) -> Result<Vec<u32>> {
        let finished_cells = self.finished_cells()?;
        let numbers = 0..u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let unfinished_cells = numbers
            .zip(ids)
            .filter(|(_, id)| !finished_cells.contains(id.as_str()));
        Ok(unfinished_cells.map(|(number, _)| number).collect())
    }

    /// Takes back the result that `attempt` published for `cell`, so that the cell is run again; the
    /// result is kept in another directory.
    pub fn withdraw_result(&self, cell: &CellId, attempt: u32) -> Result<()> {
        let withdrawn = self.withdrawn_file(cell, attempt);
        move_exclusively(&self.result_file(cell), &withdrawn).map(drop)
    }

    /// Returns whether this attempt at `cell` published a result that was withdrawn.
    pub(super) fn is_withdrawn(&self, cell: &CellId, attempt: u32) -> Result<bool> {
        file::exists(&self.withdrawn_file(cell, attempt))
    }

    fn withdrawn_file(&self, cell: &CellId, attempt: u32) -> AbsPath {
        let name = format!("{cell}.{attempt}{RESULT_SUFFIX}");
        self.dir.join("earlier").join(name)
    }

    fn results_dir(&self) -> AbsPath {
        self.dir.join("results")
    }

    fn result_file(&self, cell: &CellId) -> AbsPath {
        self.results_dir().join(format!("{cell}{RESULT_SUFFIX}"))
    }
}
