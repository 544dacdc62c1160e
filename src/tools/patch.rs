//! Patches of several files in the format that OpenAI's models are trained on (`apply_patch`): hunks
//! are found by the lines that they contain, without line numbers. Source: the "GPT-4.1 Prompting
//! Guide" of OpenAI.

use std::str::Lines;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";
const HUNK: &str = "@@";

/// What a patch does with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePatch<P> {
    /// The file is new.
    Add {
        /// The file.
        path: P,
        /// Its content.
        content: String,
    },
    /// The file is removed.
    Delete {
        /// The file.
        path: P,
    },
    /// The file is changed.
    Update {
        /// The file.
        path: P,
        /// Its new path, if it gets one.
        destination: Option<P>,
        /// The changes, from the top of the file to its end.
        hunks: Vec<PatchHunk>,
    },
}

/// Lines that replace others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchHunk {
    /// Lines above the hunk, such as the head of a function, the outermost first.
    anchors: Vec<String>,
    /// The number of its first line in the file, as a unified diff gives it.
    line_number: Option<usize>,
    lines: Vec<PatchLine>,
    /// Whether the hunk is at the end of the file.
    is_at_end: bool,
}

/// A line of a hunk, without its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PatchLine {
    Kept(String),
    Removed(String),
    Added(String),
}

/// How two lines are compared, the strictest first.
const COMPARISONS: [fn(&str) -> &str; 3] = [|line| line, str::trim_end, str::trim];

impl<P> FilePatch<P> {
    /// Replaces every path with the result of `map_path`, in the order in which the patch names them.
    pub(crate) fn try_map<Q, E>(
        self,
        map_path: &mut impl FnMut(P) -> Result<Q, E>,
    ) -> Result<FilePatch<Q>, E> {
        Ok(match self {
            FilePatch::Add { path, content } => FilePatch::Add {
                path: map_path(path)?,
                content,
            },
            FilePatch::Delete { path } => FilePatch::Delete {
                path: map_path(path)?,
            },
            FilePatch::Update {
                path,
                destination,
                hunks,
            } => FilePatch::Update {
                path: map_path(path)?,
                destination: destination.map(map_path).transpose()?,
                hunks,
            },
        })
    }
}

/// Parses a patch, whose paths `parse_path` parses.
///
/// # Errors
/// It is not a patch; the cause is given as the end of a sentence.
pub fn parse_patch<P>(
    text: &str,
    parse_path: impl Fn(&str) -> Result<P, String>,
) -> Result<Vec<FilePatch<P>>, String> {
    let mut lines = text.trim().lines();
    if lines.next().map(str::trim_end) != Some(BEGIN) {
        return Err(format!("its first line is not `{BEGIN}`"));
    }
    let mut parser = PatchParser { lines };
    let mut files = Vec::new();
    loop {
        let Some(line) = parser.lines.next() else {
            return Err(format!("its last line is not `{END}`"));
        };
        let path = |path: &str| parse_path(path.trim());
        files.push(if line.trim_end() == END {
            break;
        } else if let Some(name) = line.strip_prefix(ADD) {
            FilePatch::Add {
                path: path(name)?,
                content: parser.added_lines(),
            }
        } else if let Some(name) = line.strip_prefix(DELETE) {
            FilePatch::Delete { path: path(name)? }
        } else if let Some(name) = line.strip_prefix(UPDATE) {
            FilePatch::Update {
                path: path(name)?,
                destination: parser.take(MOVE).map(path).transpose()?,
                hunks: parser.hunks()?,
            }
        } else {
            return Err(format!(
                "expected a line such as `{UPDATE}src/main.rs`, found `{line}`"
            ));
        });
    }
    if files.is_empty() {
        return Err("it names no file".to_owned());
    }
    Ok(files)
}

/// Returns the patch that changes the file at `path` as a unified diff of it does.
pub(crate) fn unified_diff_to_patch(path: &str, diff: &str) -> String {
    let hunks = diff.lines().skip_while(|line| !line.starts_with(HUNK));
    // Such a line says that the file has no newline at its end.
    let hunks = hunks.filter(|line| !line.starts_with('\\'));
    let hunks: String = hunks.flat_map(|line| [line, "\n"]).collect();
    format!("{BEGIN}\n{UPDATE}{path}\n{hunks}{END}\n")
}

/// Returns the number of the first line of a hunk of a unified diff (`-3,4 +3,5`).
fn line_number(anchor: &str) -> Option<usize> {
    let (old, new) = anchor.strip_prefix('-')?.split_once(" +")?;
    new.starts_with(|c: char| c.is_ascii_digit())
        .then_some(())?;
    old.split(',').next()?.parse().ok()
}

struct PatchParser<'t> {
    lines: Lines<'t>,
}

impl<'t> PatchParser<'t> {
    fn peek(&self) -> Option<&'t str> {
        self.lines.clone().next()
    }

    /// Takes the next line if it begins with `prefix`, and returns the rest of it.
    fn take(&mut self, prefix: &str) -> Option<&'t str> {
        let rest = self.peek()?.strip_prefix(prefix)?;
        self.lines.next();
        Some(rest)
    }

    fn added_lines(&mut self) -> String {
        let mut content = String::new();
        while let Some(line) = self.take("+") {
            content.push_str(line);
            content.push('\n');
        }
        content
    }

    /// Takes the hunks of a file.
    fn hunks(&mut self) -> Result<Vec<PatchHunk>, String> {
        let mut hunks = Vec::new();
        loop {
            let mut hunk = PatchHunk::default();
            while let Some(anchor) = self.take(HUNK) {
                let anchor = anchor.trim_end_matches(HUNK).trim();
                hunk.line_number = line_number(anchor);
                if hunk.line_number.is_some() {
                    continue;
                }
                hunk.anchors
                    .extend((!anchor.is_empty()).then(|| anchor.to_owned()));
            }
            while let Some(line) = self.peek() {
                if line.starts_with("***") || line.starts_with(HUNK) {
                    break;
                }
                self.lines.next();
                hunk.lines.push(PatchLine::parse(line)?);
            }
            hunk.is_at_end = self.take(END_OF_FILE).is_some();
            if hunk.lines.is_empty() {
                return Ok(hunks);
            }
            hunks.push(hunk);
        }
    }
}

impl PatchLine {
    fn parse(line: &str) -> Result<Self, String> {
        let (mark, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
        match mark {
            "+" => Ok(Self::Added(rest.to_owned())),
            "-" => Ok(Self::Removed(rest.to_owned())),
            " " => Ok(Self::Kept(rest.to_owned())),
            _ => Err(format!("expected ` `, `+` or `-` before `{line}`")),
        }
    }

    /// Returns the line, if the file has it before the change.
    fn present(&self) -> Option<&str> {
        match self {
            PatchLine::Kept(line) | PatchLine::Removed(line) => Some(line),
            PatchLine::Added(_) => None,
        }
    }
}

impl PatchHunk {
    /// Returns where the lines that it keeps and removes begin in `lines`, from the line `start` on.
    fn find(&self, lines: &[&str], start: usize) -> Result<usize, String> {
        let mut start = start;
        for anchor in &self.anchors {
            let mut below = lines.iter().skip(start);
            let position = below.position(|line| line.trim() == anchor);
            let position = position.ok_or_else(|| format!("no line is `{anchor}`"))?;
            start = start.saturating_add(position).saturating_add(1);
        }
        let present: Vec<&str> = self.lines.iter().filter_map(PatchLine::present).collect();
        if present.is_empty() {
            return Ok(match self.line_number {
                Some(number) => number.max(start).min(lines.len()),
                None if self.anchors.is_empty() => lines.len(),
                None => start,
            });
        }
        let last_start = lines.len().saturating_sub(present.len());
        let first_start = if self.is_at_end {
            last_start.max(start)
        } else {
            start
        };
        for comparable in COMPARISONS {
            let is_equal =
                |(line, present): (&&str, &&str)| comparable(line) == comparable(present);
            let matches_at = |position: &usize| {
                let found = lines.get(*position..).unwrap_or_default();
                found.len() >= present.len() && found.iter().zip(&present).all(is_equal)
            };
            let meant = self.line_number.unwrap_or(0).saturating_sub(1);
            let positions = (first_start..=last_start).filter(matches_at);
            if let Some(position) = positions.min_by_key(|position| position.abs_diff(meant)) {
                return Ok(position);
            }
        }
        let first = present.iter().find(|line| !line.trim().is_empty());
        Err(format!(
            "the lines from `{}` on are not there in this order; read the file again",
            first.unwrap_or(&"")
        ))
    }
}

/// Returns `text` after `hunks`. New lines end as most lines of the text do.
///
/// # Errors
/// The lines of a hunk are not found; the cause is given as the end of a sentence.
pub fn apply_hunks(text: &str, hunks: &[PatchHunk]) -> Result<String, String> {
    let crlf_count = text.matches("\r\n").count();
    let has_crlf = crlf_count.saturating_mul(2) > text.matches('\n').count();
    let line_end = if has_crlf { "\r\n" } else { "\n" };
    let mut whole_lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(last) = whole_lines.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push_str(line_end);
    }
    let lines: Vec<&str> = text.lines().collect();
    let (mut result, mut next) = (String::new(), 0_usize);
    for hunk in hunks {
        let start = hunk.find(&lines, next)?;
        result.extend(
            whole_lines
                .iter()
                .take(start)
                .skip(next)
                .map(String::as_str),
        );
        next = start;
        for line in &hunk.lines {
            match line {
                // It keeps its blanks.
                PatchLine::Kept(_) => {
                    result.push_str(whole_lines.get(next).map_or("", String::as_str));
                    next = next.saturating_add(1);
                }
                PatchLine::Removed(_) => next = next.saturating_add(1),
                PatchLine::Added(line) => {
                    result.push_str(line);
                    result.push_str(line_end);
                }
            }
        }
    }
    result.extend(whole_lines.iter().skip(next).map(String::as_str));
    if !text.is_empty() && !text.ends_with('\n') {
        let end = result.strip_suffix(line_end).map_or(result.len(), str::len);
        result.truncate(end);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Result<String, String> {
        let named = (!text.is_empty()).then(|| text.to_owned());
        named.ok_or_else(|| "a path is missing".to_owned())
    }

    #[track_caller]
    fn check(before: &str, hunks: &str, expected: Result<&str, &str>) {
        let patch = format!("{BEGIN}\n{UPDATE}a.py\n{hunks}{END}\n");
        let files = parse_patch(&patch, path).unwrap();
        let [FilePatch::Update { hunks, .. }] = files.as_slice() else {
            panic!("{files:?}");
        };
        let result = apply_hunks(before, hunks);
        match expected {
            Ok(expected) => assert_eq!(result.as_deref(), Ok(expected), "{patch}"),
            Err(expected) => assert!(result.as_ref().is_err_and(|error| error.contains(expected))),
        }
    }

    #[test]
    fn hunks_are_found_by_their_lines() {
        let text = "def a():\n    return 1\n\ndef b():\n    return 1\n";
        check(
            text,
            "@@\n-    return 1\n+    return 2\n",
            Ok(&text.replacen('1', "2", 1)),
        );
        let second = "def a():\n    return 1\n\ndef b():\n    return 2\n";
        for hunk in [
            "@@ def b():\n-    return 1\n+    return 2\n",
            "@@ def b(): @@\n-return 1\n+    return 2\n",
            " def b():\n-    return 1\n+    return 2\n",
            "@@\n-    return 1\n+    return 2\n*** End of File\n",
            "@@\n def a():\n     return 1\n \n@@\n-    return 1  \n+    return 2\n",
        ] {
            check(text, hunk, Ok(second));
        }
        check(
            text,
            "@@\n-    return 3\n",
            Err("the lines from `    return 3` on"),
        );
        check(
            text,
            "@@ def c():\n-    return 1\n",
            Err("no line is `def c():`"),
        );
        check("a\nb", "@@\n a\n+x\n", Ok("a\nx\nb"));
        check("a\nb", "@@\n+x\n", Ok("a\nb\nx"));
        check(
            text,
            "@@ -5,1 +5,1 @@\n-    return 1\n+    return 2\n",
            Ok(second),
        );
        check("a\nb\n", "@@ -1,0 +2 @@\n+x\n", Ok("a\nx\nb\n"));
        check("a\r\nb\r\n", "@@\n-a\n+x\n", Ok("x\r\nb\r\n"));
        check("", "@@\n+x\n", Ok("x\n"));
    }

    #[test]
    fn a_patch_names_files_and_has_two_ends() {
        let patch = "*** Begin Patch\n*** Add File: new.txt\n+a\n+\n*** Delete File: old.txt\n\
                     *** Update File: a.py\n*** Move to: b.py\n*** End Patch";
        let expected = [
            FilePatch::Add {
                path: "new.txt".to_owned(),
                content: "a\n\n".to_owned(),
            },
            FilePatch::Delete {
                path: "old.txt".to_owned(),
            },
            FilePatch::Update {
                path: "a.py".to_owned(),
                destination: Some("b.py".to_owned()),
                hunks: Vec::new(),
            },
        ];
        assert_eq!(parse_patch(patch, path).unwrap(), expected);
        for (text, reason) in [
            ("--- a", "first line"),
            ("*** Begin Patch\n*** Delete File: a", "last line"),
            ("*** Begin Patch\n*** End Patch", "names no file"),
            (
                "*** Begin Patch\n*** Delete File: \n*** End Patch",
                "a path is missing",
            ),
            ("*** Begin Patch\nx\n*** End Patch", "found `x`"),
            (
                "*** Begin Patch\n*** Update File: a\nx\n*** End Patch",
                "before `x`",
            ),
        ] {
            let error = parse_patch(text, path).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
