//! The index of the results of a batch: the first lines of all results in one file, so that tables
//! of many cells open one file and list one directory. It is derived from the results and replaced
//! as a whole. A line of it counts only for the file that it was read from; an index that is
//! damaged, or that was written for another directory, is ignored. What it lacks is read from the
//! results.

use std::io::{BufRead as _, BufReader, ErrorKind as IoErrorKind, Read as _};
use std::num::NonZero;
use std::thread;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::batches::cells::RESULT_SUFFIX;
use crate::world::store::batches::{BatchDir, digest};
use crate::world::store::directory_seal::DirectorySeal;
use crate::world::sys::state_files::dir;
use crate::world::sys::state_files::file;

/// The file with the index.
const INDEX_FILE: &str = "results.index";
/// Maximum size of the index, in bytes.
const INDEX_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Maximum length of the first line of a result, in bytes.
const HEAD_BYTES_MAX: u64 = 1024 * 1024;
/// Number of results that the index has to lack at least before a reader writes it again.
const MISSING_MIN: usize = 1000;
/// The part of all results that it has to lack too: one of so many.
const MISSING_PART: usize = 20;
/// Maximum number of threads that read results.
const READERS_MAX: usize = 8;
/// Minimum number of results for each thread.
const RESULTS_PER_READER: usize = 1000;

/// The first line of the index.
#[derive(Serialize, Deserialize)]
struct IndexHeader {
    /// The directory of the batch for which it was written.
    seal: DirectorySeal,
    /// The digest of all other lines.
    sha256: String,
}

/// A result file in the listing of its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedResult {
    /// The id of its cell.
    pub(super) id: String,
    /// The inode of the file, which differs from that of an earlier result of the cell.
    inode: u64,
}

/// The first line of a result, as the parsed value and, if it is not in the index, as text.
struct ResultHead<R> {
    value: R,
    unindexed_line: Option<String>,
}

/// Returns how many results may be missing from the index of `results` results.
pub fn missing_max(results: usize) -> usize {
    MISSING_MIN.max(results.div_euclid(MISSING_PART))
}

/// Returns whether `listed`, which is sorted, has a result of `cell`.
pub(super) fn is_listed(listed: &[ListedResult], cell: &str) -> bool {
    let position = listed.binary_search_by(|result| result.id.as_str().cmp(cell));
    position.is_ok()
}

impl BatchDir {
    /// Returns the number of cells that have a result.
    pub fn finished_count(&self) -> Result<usize> {
        self.listed_results().map(|listed| listed.len())
    }

    /// Lists the results, sorted by the ids of their cells. No file is opened.
    pub(super) fn listed_results(&self) -> Result<Vec<ListedResult>> {
        let entries = dir::numbered_names_if_exists(&self.results_dir())?;
        let mut listed_results: Vec<ListedResult> = entries
            .into_iter()
            .filter(|entry| !entry.name.starts_with('.'))
            .filter_map(|mut entry| {
                let id_bytes = entry.name.strip_suffix(RESULT_SUFFIX)?.len();
                entry.name.truncate(id_bytes);
                Some(ListedResult {
                    id: entry.name,
                    inode: entry.inode,
                })
            })
            .collect();
        listed_results.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        Ok(listed_results)
    }

    /// Reads the first lines of the `listed` results, from the index as far as it has them. An
    /// index that lacks many of them is written again.
    pub(super) fn parse_results<R: DeserializeOwned + Send>(
        &self,
        listed: &[ListedResult],
    ) -> Result<Vec<R>> {
        self.parse_and_index(listed, missing_max(listed.len()))
    }

    /// Adds all results to the index that are not in it.
    pub fn update_index(&self) -> Result<()> {
        let listed_results = self.listed_results()?;
        self.parse_and_index::<IgnoredAny>(&listed_results, 1)
            .map(drop)
    }

    fn parse_and_index<R: DeserializeOwned + Send>(
        &self,
        listed: &[ListedResult],
        missing_max: usize,
    ) -> Result<Vec<R>> {
        let seal = DirectorySeal::from_directory(&self.dir)?;
        let index = self.read_index().unwrap_or_default();
        let lines = find_lines(index_body(&index, seal).unwrap_or_default(), listed);
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let wanted_readers = listed.len().div_ceil(RESULTS_PER_READER);
        let reader_count = wanted_readers.clamp(1, cores.min(READERS_MAX));
        let chunk_len = listed.len().div_ceil(reader_count).max(1);
        let parts = thread::scope(|scope| {
            let readers: Vec<_> = listed
                .chunks(chunk_len)
                .zip(lines.chunks(chunk_len))
                .map(|(listed, lines)| scope.spawn(move || self.parse_all(listed, lines)))
                .collect();
            let panic_error = |_| Err(Error::bug("reading results failed unexpectedly"));
            readers
                .into_iter()
                .map(|reader| reader.join().unwrap_or_else(panic_error))
                .collect::<Result<Vec<_>>>()
        })?;
        let heads: Vec<Option<ResultHead<R>>> = parts.into_iter().flatten().collect();
        let missing_heads = heads
            .iter()
            .flatten()
            .filter(|head| head.unindexed_line.is_some())
            .count();
        if missing_heads >= missing_max {
            let texts = heads.iter().zip(&lines).map(|(head, line)| {
                let unindexed_line = head.as_ref()?.unindexed_line.as_deref();
                unindexed_line.or(*line)
            });
            // Without an index, the results are read again: it may be on a disk that is read-only.
            drop(self.write_index(seal, listed.iter().zip(texts)));
        }
        Ok(heads.into_iter().flatten().map(|head| head.value).collect())
    }

    /// Parses the first lines of `listed` results, of which `lines` are known. A result that was
    /// withdrawn meanwhile is `None`.
    fn parse_all<R: DeserializeOwned>(
        &self,
        listed: &[ListedResult],
        lines: &[Option<&str>],
    ) -> Result<Vec<Option<ResultHead<R>>>> {
        let parse = |(result, line): (&ListedResult, Option<&str>)| {
            if let Some(value) = line.and_then(|line| serde_json::from_str(line).ok()) {
                return Ok(Some(ResultHead {
                    value,
                    unindexed_line: None,
                }));
            }
            self.read_head(&result.id)
        };
        let lines = lines.iter().copied();
        listed.iter().zip(lines).map(parse).collect()
    }

    fn read_head<R: DeserializeOwned>(&self, cell: &str) -> Result<Option<ResultHead<R>>> {
        let path = self.results_dir().join(format!("{cell}{RESULT_SUFFIX}"));
        let damaged_error = || Error::new(ErrorKind::Environment, format!("`{path}` is damaged"));
        let read_line = || -> std::io::Result<String> {
            let mut line = String::new();
            let mut reader = BufReader::new(file::open(&path)?.take(HEAD_BYTES_MAX));
            reader.read_line(&mut line)?;
            Ok(line)
        };
        let mut line = match read_line() {
            Ok(line) => line,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(damaged_error().with_source(error)),
        };
        let value =
            serde_json::from_str(&line).map_err(|error| damaged_error().with_source(error))?;
        line.truncate(line.trim_end().len());
        Ok(Some(ResultHead {
            value,
            unindexed_line: Some(line),
        }))
    }

    /// Reads the index; `None` if it does not exist or is not text.
    fn read_index(&self) -> Option<String> {
        let bytes = file::read_regular_capped(&self.index_file(), INDEX_BYTES_MAX).ok()??;
        String::from_utf8(bytes).ok()
    }

    /// Replaces the index by one with these first lines.
    fn write_index<'r>(
        &self,
        seal: DirectorySeal,
        results: impl Iterator<Item = (&'r ListedResult, Option<&'r str>)>,
    ) -> Result<()> {
        let mut body = String::new();
        for (result, line) in results {
            if let Some(line) = line {
                let ListedResult { id, inode } = result;
                let inode = inode.to_string();
                body.extend([inode.as_str(), " ", id.as_str(), " ", line, "\n"]);
            }
        }
        let header = IndexHeader {
            seal,
            sha256: digest(body.as_bytes()),
        };
        let mut text = serde_json::to_string(&header)
            .map_err(|error| Error::bug("an index has no JSON form").with_source(error))?;
        text.push('\n');
        text.push_str(&body);
        file::replace_unsynced(&self.index_file(), text.as_bytes())
    }

    fn index_file(&self) -> AbsPath {
        self.dir.join(INDEX_FILE)
    }
}

/// Returns the lines of the index `text` after its header; `None` if they are not those that were
/// written for the directory with this seal.
fn index_body(text: &str, seal: DirectorySeal) -> Option<&str> {
    let (header, body) = text.split_once('\n')?;
    let header: IndexHeader = serde_json::from_str(header).ok()?;
    (header.seal == seal && header.sha256 == digest(body.as_bytes())).then_some(body)
}

/// Returns the first line of each of the `listed` results that the index `body` has. Both are
/// sorted by id; a line that is out of order is not found.
fn find_lines<'b>(body: &'b str, listed: &[ListedResult]) -> Vec<Option<&'b str>> {
    let mut lines = body
        .lines()
        .filter_map(|line| {
            let (inode, rest) = line.split_once(' ')?;
            let (id, first_line) = rest.split_once(' ')?;
            Some((id, inode.parse::<u64>().ok()?, first_line))
        })
        .peekable();
    let find_line = |result: &ListedResult| {
        while lines.next_if(|(id, ..)| *id < result.id.as_str()).is_some() {}
        let (_, inode, first_line) = lines.next_if(|(id, ..)| *id == result.id.as_str())?;
        (inode == result.inode).then_some(first_line)
    };
    listed.iter().map(find_line).collect()
}
