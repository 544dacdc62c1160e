//! Owns `grep_files`: lines in files by regular expression, in time linear in what is read. Binary
//! files are skipped, links are not followed.

use std::io::{self, Read as _};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};

use crate::brief::foreign::note;
use crate::tools::call::{Case, Grep};
use crate::world::exec::Observation;
use crate::world::exec::answer::{Answer, Bounded, LISTING_BYTES_MAX, Stop, shown_path};
use crate::world::exec::list::{limits, readable};
use crate::world::exec::selection::Chosen;
use crate::world::gate::{Gate, Place};
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Kind;
use crate::world::sys::survey::{Keep, Survey};

/// How many bytes one call reads, at most.
const SCAN_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// How much of one line is shown, in characters.
const LINE_CHARS_MAX: usize = 500;

/// How much memory one line of a file may take before the file is given up.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How much memory a compiled expression may take.
const REGEX_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What is left of the limits of one call.
#[derive(Debug)]
struct Search {
    lines: Bounded,
    matches_left: u32,
    bytes_left: u64,
}

/// `grep_files`
pub(super) fn grep_files(gate: &Gate, place: &Place, grep: &Grep) -> Answer {
    let matcher = matcher(grep)?;
    let chosen = Chosen::new(&grep.selection)?;
    let stop = |fault: Fault| Stop::at(gate, "search", place, fault);
    let (files, survey) = match place.dir().meta(&place.below()).map_err(stop)?.kind {
        Kind::Directory => {
            let survey = readable(gate, place, &mut |_| Keep::Deep).map_err(stop)?;
            let found = survey.found.iter();
            let meant = found.filter(|found| found.kind == Kind::File && chosen.takes(&found.rel));
            (meant.map(|found| place.at(&found.rel)).collect(), survey)
        }
        Kind::File | Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device => {
            (vec![place.clone()], Survey::default())
        }
    };
    let mut search = Search {
        lines: Bounded::new(LISTING_BYTES_MAX),
        matches_left: grep.results_max,
        bytes_left: SCAN_BYTES_MAX,
    };
    let mut searcher = searcher(grep);
    for file in &files {
        if search.is_over() {
            break;
        }
        // A file that vanished or cannot be read has no matches.
        let _skipped = search.file(gate, file, &matcher, &mut searcher);
    }
    Ok(Observation::done(search.finish() + &limits(&survey)))
}

impl Search {
    fn is_over(&self) -> bool {
        self.matches_left == 0 || self.bytes_left == 0 || self.lines.is_full()
    }

    fn file(
        &mut self,
        gate: &Gate,
        place: &Place,
        matcher: &RegexMatcher,
        searcher: &mut Searcher,
    ) -> io::Result<()> {
        let Ok((file, meta)) = place.dir().open_file(&place.below()) else {
            return Ok(());
        };
        let file = file.take(self.bytes_left);
        self.bytes_left = self.bytes_left.saturating_sub(meta.version.size_bytes);
        let mut hits = Hits {
            path: shown_path(gate, place.real()),
            lines: Vec::new(),
            left: self.matches_left,
            room: LISTING_BYTES_MAX,
        };
        searcher.search_reader(matcher, file, &mut hits)?;
        self.matches_left = hits.left;
        for line in hits.lines {
            self.lines.push(&line);
        }
        Ok(())
    }

    fn finish(self) -> String {
        let over = if self.matches_left == 0 {
            Some("cut: there may be more matches; narrow the pattern or raise max_results")
        } else if self.bytes_left == 0 {
            Some("cut: more than 2 GiB to read; narrow the path")
        } else {
            None
        };
        let over = over.map_or_else(String::new, |over| format!("{}\n", note(over)));
        self.lines
            .finish("nothing matches\n", "narrow the pattern or the path")
            + &over
    }
}

fn matcher(grep: &Grep) -> Result<RegexMatcher, Stop> {
    RegexMatcherBuilder::new()
        .case_insensitive(grep.case == Case::Insensitive)
        .size_limit(REGEX_BYTES_MAX)
        .line_terminator(Some(b'\n'))
        .build(&grep.pattern)
        .map_err(|error| Stop::failed(format!("`{}` is no pattern: {error}", grep.pattern)))
}

fn searcher(grep: &Grep) -> Searcher {
    let context = usize::try_from(grep.context_lines).unwrap_or(usize::MAX);
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_BYTES_MAX))
        .before_context(context)
        .after_context(context)
        .line_number(true)
        .build()
}

/// The lines of one file that match, and those around them.
#[derive(Debug)]
struct Hits {
    path: String,
    lines: Vec<String>,
    /// How many more matches are wanted.
    left: u32,
    /// How many more bytes an answer could hold.
    room: usize,
}

impl Hits {
    fn push(&mut self, mark: char, number: Option<u64>, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text: String = text.trim_end().chars().take(LINE_CHARS_MAX).collect();
        let number = number.unwrap_or_default();
        let line = format!("{}{mark}{number}{mark}{text}", self.path);
        self.room = self.room.saturating_sub(line.len());
        self.lines.push(line);
    }

    fn goes_on(&self) -> bool {
        self.left > 0 && self.room > 0
    }
}

impl Sink for Hits {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.push(':', found.line_number(), found.bytes());
        self.left = self.left.saturating_sub(1);
        Ok(self.goes_on())
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        self.push('-', found.line_number(), found.bytes());
        Ok(self.goes_on())
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.lines.push("--".to_owned());
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.lines.clear();
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> io::Result<()> {
        Ok(())
    }
}
