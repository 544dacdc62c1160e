//! `grep_files`: searches lines of files with a regular expression, in time linear in the bytes
//! read. Binary files are skipped, symlinks are not followed.

use std::cmp::Reverse;
use std::io::{self, Read as _};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};

use crate::prompts::untrusted_text::note;
use crate::tools::call::{CaseSensitivity, GrepQuery};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::list::{CompiledSelection, limit_notes, list_readable};
use crate::world::exec::tool_result::{
    BoundedText, LISTING_BYTES_MAX, Observation, ToolError, ToolResult, display_path,
};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::tree_listing::{EntrySelection, TreeListing};

/// The most bytes that one call reads.
const SCAN_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// The most of one line that is shown, in characters.
const LINE_CHARS_MAX: usize = 500;

/// The most matching lines of a file that are compared for its rank, and the best that are shown.
const COMPARED_LINES_MAX: u32 = 1000;
const RANKED_LINES_MAX: usize = 3;
/// The number of ranked files from which the worse ones are dropped.
const RANKED_FILES_MAX: usize = 8192;

/// The most memory for one line of a file, in bytes; a file with a longer line is skipped.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most memory for a compiled expression, in bytes.
const REGEX_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The search of one call, with what remains of its limits.
#[derive(Debug)]
struct GrepSearch {
    lines: BoundedText,
    matches_left: u32,
    scan_bytes_left: u64,
}

/// Implements `grep_files`.
pub(super) fn grep_files(gate: &Gate, path: &ResolvedPath, grep: &GrepQuery) -> ToolResult {
    let matcher = build_matcher(grep)?;
    let selection = CompiledSelection::new(&grep.selection)?;
    let tool_error = |error: FileSystemError| ToolError::failed_at(gate, "search", path, error);
    let (files, listing) = match path.meta().map_err(tool_error)?.kind {
        FileKind::Directory => {
            let listing =
                list_readable(gate, path, &mut |_| EntrySelection::Deep).map_err(tool_error)?;
            let entries = listing.entries.iter();
            let selected_files = entries
                .filter(|entry| entry.kind == FileKind::File && selection.matches(&entry.rel));
            (
                selected_files.map(|entry| path.join(&entry.rel)).collect(),
                listing,
            )
        }
        FileKind::File | FileKind::Link | FileKind::Fifo | FileKind::Socket | FileKind::Device => {
            (vec![path.clone()], TreeListing::default())
        }
    };
    let mut search = GrepSearch {
        lines: BoundedText::new(LISTING_BYTES_MAX),
        matches_left: grep.results_max,
        scan_bytes_left: SCAN_BYTES_MAX,
    };
    let mut searcher = build_searcher(grep);
    let mut ranked_files = Vec::new();
    for file in &files {
        if search.is_over() {
            break;
        }
        // A file that vanished, cannot be read or has too long a line has no matches.
        let count_max = match grep.ranking.as_slice() {
            [] => search.matches_left,
            _ => COMPARED_LINES_MAX,
        };
        let Ok(found) = search.search_file(gate, file, &matcher, &mut searcher, count_max) else {
            continue;
        };
        if grep.ranking.is_empty() {
            search.show(&found.lines, found.count);
        } else if found.count > 0 {
            ranked_files.push(RankedFile::new(&grep.ranking, found.lines));
        }
        if ranked_files.len() >= RANKED_FILES_MAX {
            keep_best(&mut ranked_files, grep.results_max);
        }
    }
    keep_best(&mut ranked_files, grep.results_max);
    for file in ranked_files {
        for line in file.lines.into_iter().take(as_length(search.matches_left)) {
            search.show(&[line], 1);
        }
    }
    Ok(Observation::done(search.finish() + &limit_notes(&listing)))
}

/// A file with its best lines.
#[derive(Debug)]
struct RankedFile {
    /// The number of words that it contains.
    word_count: usize,
    lines: Vec<String>,
}

impl RankedFile {
    fn new(words: &[String], mut lines: Vec<String>) -> Self {
        let count_words = |text: &str| {
            let text = text.to_lowercase();
            words
                .iter()
                .filter(|word| text.contains(word.as_str()))
                .count()
        };
        let word_count = count_words(&lines.join("\n"));
        lines.sort_by_key(|line| Reverse(count_words(line)));
        lines.truncate(RANKED_LINES_MAX);
        Self { word_count, lines }
    }
}

/// Sorts files by rank, and keeps as many as can be shown.
fn keep_best(files: &mut Vec<RankedFile>, results_max: u32) {
    files.sort_by_key(|file| Reverse(file.word_count));
    files.truncate(as_length(results_max));
}

fn as_length(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl GrepSearch {
    /// Shows lines with `count` matches.
    fn show(&mut self, lines: &[String], count: u32) {
        self.matches_left = self.matches_left.saturating_sub(count);
        for line in lines {
            self.lines.push(line);
        }
    }

    fn is_over(&self) -> bool {
        self.matches_left == 0 || self.scan_bytes_left == 0 || self.lines.is_full()
    }

    fn search_file(
        &mut self,
        gate: &Gate,
        path: &ResolvedPath,
        matcher: &RegexMatcher,
        searcher: &mut Searcher,
        count_max: u32,
    ) -> io::Result<FileMatches> {
        let (file, meta) = path.open_file().map_err(io::Error::other)?;
        let file = file.take(self.scan_bytes_left);
        self.scan_bytes_left = self.scan_bytes_left.saturating_sub(meta.version.size_bytes);
        let mut file_matches = FileMatches {
            path: display_path(gate, path.real()),
            lines: Vec::new(),
            count: 0,
            count_max,
            output_bytes_left: LISTING_BYTES_MAX,
        };
        searcher.search_reader(matcher, file, &mut file_matches)?;
        Ok(file_matches)
    }

    fn finish(self) -> String {
        let limit = if self.matches_left == 0 {
            Some("cut: there may be more matches; narrow the pattern or raise max_results")
        } else if self.scan_bytes_left == 0 {
            Some("cut: more than 2 GiB to read; narrow the path")
        } else {
            None
        };
        let limit_note = limit.map_or_else(String::new, |limit| format!("{}\n", note(limit)));
        self.lines
            .finish("nothing matches\n", "narrow the pattern or the path")
            + &limit_note
    }
}

fn build_matcher(grep: &GrepQuery) -> Result<RegexMatcher, ToolError> {
    RegexMatcherBuilder::new()
        .case_insensitive(grep.case == CaseSensitivity::Insensitive)
        .size_limit(REGEX_BYTES_MAX)
        .line_terminator(Some(b'\n'))
        .build(&grep.pattern)
        .map_err(|error| ToolError::failed(format!("`{}` is not a pattern: {error}", grep.pattern)))
}

fn build_searcher(grep: &GrepQuery) -> Searcher {
    let context = usize::try_from(grep.context_lines).unwrap_or(usize::MAX);
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_BYTES_MAX))
        .before_context(context)
        .after_context(context)
        .line_number(true)
        .build()
}

/// The matching lines of one file, with their context.
#[derive(Debug)]
struct FileMatches {
    path: String,
    lines: Vec<String>,
    /// The number of matches so far.
    count: u32,
    /// The maximum number of matches.
    count_max: u32,
    /// The remaining number of bytes of the observation.
    output_bytes_left: usize,
}

impl FileMatches {
    fn push(&mut self, separator: char, number: Option<u64>, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text: String = text.trim_end().chars().take(LINE_CHARS_MAX).collect();
        let number = number.unwrap_or_default();
        let line = format!("{}{separator}{number}{separator}{text}", self.path);
        self.output_bytes_left = self.output_bytes_left.saturating_sub(line.len());
        self.lines.push(line);
    }

    fn wants_more(&self) -> bool {
        self.count < self.count_max && self.output_bytes_left > 0
    }
}

impl Sink for FileMatches {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, sink_match: &SinkMatch<'_>) -> io::Result<bool> {
        self.push(':', sink_match.line_number(), sink_match.bytes());
        self.count = self.count.saturating_add(1);
        Ok(self.wants_more())
    }

    fn context(&mut self, _: &Searcher, sink_context: &SinkContext<'_>) -> io::Result<bool> {
        self.push('-', sink_context.line_number(), sink_context.bytes());
        Ok(self.wants_more())
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.lines.push("--".to_owned());
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        // What was found before the NUL byte does not count.
        self.lines.clear();
        self.count = 0;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> io::Result<()> {
        Ok(())
    }
}
