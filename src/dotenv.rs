//! `.env` files: their syntax, the variables that were read from them, and the one value that
//! combines them with the environment of the process. They hold settings of configs and keys of
//! vendors; nothing here returns an environment that a process could be started with.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read};
use std::ops::RangeInclusive;

use crate::path::AbsPath;

/// Maximum length of a value, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of variables that one file may set.
pub const VARIABLES_MAX: usize = 1000;
/// Characters without an assigned meaning (Unicode's private use area).
const PRIVATE_USE: RangeInclusive<char> = '\u{e000}'..='\u{f8ff}';

/// The parsed content of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedDotenv {
    /// The variables, in the order of their lines; a name may occur twice, and the last one counts.
    pub assignments: Vec<DotenvAssignment>,
    /// The problems, in the order of the lines.
    pub problems: Vec<DotenvProblem>,
}

/// One `NAME=value`.
#[derive(Clone, PartialEq, Eq)]
pub struct DotenvAssignment {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// The name of the variable.
    pub name: String,
    /// The value without its quotes and backslashes; no variable in it is expanded.
    pub value: String,
}

/// A place in a file that could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DotenvProblem {
    /// The line, from 1.
    pub line: usize,
    /// The kind of problem.
    pub kind: DotenvProblemKind,
}

/// Kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotenvProblemKind {
    /// It is not `NAME=value`.
    NotAssignment,
    /// A quote is never closed, so that the file ends there.
    OpenQuote,
    /// The value is longer than [`VALUE_BYTES_MAX`].
    TooLong,
    /// [`VARIABLES_MAX`] variables precede it, so that the file ends there.
    TooMany,
}

impl fmt::Display for DotenvProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DotenvProblemKind::NotAssignment => {
                f.write_str("is not `NAME=value`: the line is skipped")
            }
            DotenvProblemKind::OpenQuote => {
                f.write_str("opens a quote that is never closed: the rest of the file is skipped")
            }
            DotenvProblemKind::TooLong => write!(
                f,
                "has a value of more than {VALUE_BYTES_MAX} bytes: the variable is skipped"
            ),
            DotenvProblemKind::TooMany => write!(
                f,
                "comes after {VARIABLES_MAX} variables: the rest of the file is skipped"
            ),
        }
    }
}

/// The author of a `.env` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotenvAuthor {
    /// The user: it is in a directory that contains only their own settings.
    User,
    /// The creator of the directory, such as the author of a cloned repository.
    Stranger,
}

/// Omits the value: it may be a key, and is never shown.
impl fmt::Debug for DotenvAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, name, .. } = self;
        f.debug_struct("DotenvAssignment")
            .field("line", line)
            .field("name", name)
            .finish_non_exhaustive()
    }
}

/// Parses a `.env` file like `dotenvy`, except that `$` has no meaning.
pub fn parse(text: &str) -> ParsedDotenv {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parsed_file = ParsedDotenv::default();
    let Some(placeholder) = unused_character(text) else {
        // No settings contain every character of the private use area.
        let kind = DotenvProblemKind::NotAssignment;
        parsed_file.problems.push(DotenvProblem { line: 1, kind });
        return parsed_file;
    };
    let text_without_dollars = replace_dollars(text, placeholder);
    let lines_read = Cell::new(0);
    let lines = LineReader {
        rest: text_without_dollars.as_bytes(),
        lines_read: &lines_read,
    };
    let mut statements = (1..)
        .zip(text.lines())
        .filter(|(_, line)| has_content(line));
    let mut last_end = 0;
    for result in dotenvy::from_read_iter(lines) {
        // The lines of a quoted value are skipped with the statement that they belong to.
        let line = statements
            .find(|(line, _)| *line > last_end)
            .map_or(1, |(line, _)| line);
        last_end = lines_read.get();
        let kind = match result {
            Ok(_) if parsed_file.assignments.len() == VARIABLES_MAX => DotenvProblemKind::TooMany,
            Ok((_, value)) if value.len() > VALUE_BYTES_MAX => DotenvProblemKind::TooLong,
            Ok((_, value)) if value.contains('\0') => DotenvProblemKind::NotAssignment,
            Ok((name, value)) => {
                let value = value.replace(placeholder, "$");
                parsed_file
                    .assignments
                    .push(DotenvAssignment { line, name, value });
                continue;
            }
            // `dotenvy` reads further lines only while a quote is open.
            Err(dotenvy::Error::LineParse(statement, _)) if statement.trim_end().contains('\n') => {
                DotenvProblemKind::OpenQuote
            }
            Err(_) => DotenvProblemKind::NotAssignment,
        };
        parsed_file.problems.push(DotenvProblem { line, kind });
        if kind == DotenvProblemKind::TooMany {
            break;
        }
    }
    parsed_file
}

/// Returns a character that does not occur in `text`, which can replace `$` while `dotenvy` parses
/// it.
fn unused_character(text: &str) -> Option<char> {
    let used_characters: BTreeSet<char> =
        text.chars().filter(|c| PRIVATE_USE.contains(c)).collect();
    PRIVATE_USE
        .into_iter()
        .find(|c| !used_characters.contains(c))
}

/// Replaces each `$` in `text` that `dotenvy` would take for the beginning of a variable by
/// `placeholder`: it would expand the variables of the process. A `$` after a backslash is plain
/// text for it already.
fn replace_dollars(text: &str, placeholder: char) -> String {
    let mut is_escaped = false;
    let replace = |c: char| {
        let is_variable = c == '$' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        if is_variable { placeholder } else { c }
    };
    text.chars().map(replace).collect()
}

/// Returns whether a line is neither empty nor a comment.
fn has_content(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}

/// Reads at most one line at a time, so that `lines_read` shows how far the parser is.
struct LineReader<'t> {
    rest: &'t [u8],
    lines_read: &'t Cell<usize>,
}

impl Read for LineReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let line = end.map_or(self.rest.len(), |end| end.saturating_add(1));
        let (head, rest) = self.rest.split_at(line.min(buffer.len()));
        if let Some(target) = buffer.get_mut(..head.len()) {
            target.copy_from_slice(head);
        }
        if head.ends_with(b"\n") {
            self.lines_read.set(self.lines_read.get().saturating_add(1));
        }
        self.rest = rest;
        Ok(head.len())
    }
}

/// The variables that were read from `.env` files and may be used. They are separate from the
/// environment of the process and never part of it.
#[derive(Clone, Debug, Default)]
pub struct DotenvVariables(BTreeMap<String, DotenvVariable>);

#[derive(Clone)]
struct DotenvVariable {
    value: String,
    source: DotenvSource,
    author: DotenvAuthor,
}

/// Origin of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotenvSource {
    /// The file.
    pub file: AbsPath,
    /// The line on which it begins, from 1.
    pub line: usize,
}

impl fmt::Display for DotenvSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Omits the value: it may be a key, and is never shown.
impl fmt::Debug for DotenvVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

impl DotenvVariables {
    /// Adds the variables of one file of `author`. Variables of earlier files take precedence; in
    /// one file, the last assignment does.
    pub fn add(
        &mut self,
        file: &AbsPath,
        author: DotenvAuthor,
        assignments: Vec<DotenvAssignment>,
    ) {
        let mut added_variables = BTreeMap::new();
        for DotenvAssignment { line, name, value } in assignments {
            let file = file.clone();
            let source = DotenvSource { file, line };
            let variable = DotenvVariable {
                value,
                source,
                author,
            };
            added_variables.insert(name, variable);
        }
        for (name, variable) in added_variables {
            self.0.entry(name).or_insert(variable);
        }
    }

    /// Returns where a variable was read, if it was.
    pub fn source(&self, name: &str) -> Option<&DotenvSource> {
        self.0.get(name).map(|variable| &variable.source)
    }
}

/// The variables that a config and the clients of models can look up by name: those of the process,
/// and those that `.env` files add. They cannot be listed with their values or converted to an
/// environment, so that no process is started with them.
#[derive(Clone, Default)]
pub struct ConfigVariables(BTreeMap<String, ConfigVariable>);

#[derive(Clone)]
struct ConfigVariable {
    value: String,
    /// The author of its `.env` file; `None` if the process has it.
    author: Option<DotenvAuthor>,
}

impl ConfigVariable {
    fn from_process(value: String) -> Self {
        Self {
            value,
            author: None,
        }
    }
}

impl ConfigVariables {
    /// Combines the variables of the process, which take precedence, with those of the files.
    pub fn new(process: &BTreeMap<String, String>, files: &DotenvVariables) -> Self {
        let process = process.clone().into_iter();
        let mut variables: Self = process.collect();
        for (name, variable) in &files.0 {
            let file_variable = || ConfigVariable {
                value: variable.value.clone(),
                author: Some(variable.author),
            };
            variables
                .0
                .entry(name.clone())
                .or_insert_with(file_variable);
        }
        variables
    }

    /// Returns the value of a variable, which may be empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|variable| variable.value.as_str())
    }

    /// Returns whether the process has a variable, so that the user has exported it.
    pub fn is_exported(&self, name: &str) -> bool {
        let variable = self.0.get(name);
        variable.is_some_and(|variable| variable.author.is_none())
    }

    /// Returns whether the value of a variable may have come with a project, in its `.env` file.
    pub fn is_by_stranger(&self, name: &str) -> bool {
        let variable = self.0.get(name);
        variable.is_some_and(|variable| variable.author == Some(DotenvAuthor::Stranger))
    }

    /// Returns the value of a variable; an empty one counts as unset.
    pub fn get_non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Returns the values of all variables.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|variable| variable.value.as_str())
    }

    /// Returns only the variables whose name `is_kept` accepts.
    #[must_use]
    pub fn retain_named(&self, is_kept: impl Fn(&str) -> bool) -> Self {
        let retained_variables = self
            .0
            .iter()
            .filter(|(name, _)| is_kept(name))
            .map(|(name, variable)| (name.clone(), variable.clone()));
        Self(retained_variables.collect())
    }
}

/// Combines the variables of a process.
impl FromIterator<(String, String)> for ConfigVariables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name, ConfigVariable::from_process(value)));
        Self(variables.collect())
    }
}

/// Omits the values: they may be keys, and are never shown.
impl fmt::Debug for ConfigVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        text: &str,
        assignments: &[(usize, &str, &str)],
        problems: &[(usize, DotenvProblemKind)],
    ) {
        let parsed = parse(text);
        let found: Vec<(usize, &str, &str)> = parsed
            .assignments
            .iter()
            .map(|found| (found.line, found.name.as_str(), found.value.as_str()))
            .collect();
        assert_eq!(found, assignments, "{text:?}");
        let found: Vec<(usize, DotenvProblemKind)> = parsed
            .problems
            .iter()
            .map(|problem| (problem.line, problem.kind))
            .collect();
        assert_eq!(found, problems, "{text:?}");
    }

    #[test]
    fn lines_are_read_as_a_shell_would_without_filling_anything_in() {
        check("", &[], &[]);
        check("A=1", &[(1, "A", "1")], &[]);
        check("\u{feff}# keys\n\nA=1\r\n", &[(3, "A", "1")], &[]);
        check(
            "export A=1\n exported=2",
            &[(1, "A", "1"), (2, "exported", "2")],
            &[],
        );
        check("A = \"two words\" # said", &[(1, "A", "two words")], &[]);
        check(
            "A=x # y\nB=x#y\nC=\nD= # y",
            &[(1, "A", "x"), (2, "B", "x#y"), (3, "C", ""), (4, "D", "")],
            &[],
        );
        check(
            "A='$B \\n'\nB=\"\\$A\\n\\\"\"",
            &[(1, "A", "$B \\n"), (2, "B", "$A\n\"")],
            &[],
        );
        check(
            "A=${B}$C\nB=\"${A}\"",
            &[(1, "A", "${B}$C"), (2, "B", "${A}")],
            &[],
        );
        check("A=\"1\n2\"\nB=3", &[(1, "A", "1\n2"), (3, "B", "3")], &[]);
        check("A='a'\"b\"c", &[(1, "A", "abc")], &[]);
    }

    #[test]
    fn invalid_variables_are_reported_with_their_line() {
        use DotenvProblemKind::{NotAssignment, OpenQuote, TooLong, TooMany};
        check(
            "A=1\nsk-secret is my key\nB=2",
            &[(1, "A", "1"), (3, "B", "2")],
            &[(2, NotAssignment)],
        );
        check("nonsense\nB=2", &[(2, "B", "2")], &[(1, NotAssignment)]);
        check(
            "1=a\n=b\n\u{e4}=c",
            &[],
            &[(1, NotAssignment), (2, NotAssignment), (3, NotAssignment)],
        );
        check(
            "A=two words\nB=\\x\nC=1\0",
            &[],
            &[(1, NotAssignment), (2, NotAssignment), (3, NotAssignment)],
        );
        check("A='open\nB=2\n", &[], &[(1, OpenQuote)]);
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        check(
            &format!("A='{long}'\nB=2"),
            &[(2, "B", "2")],
            &[(1, TooLong)],
        );
        let many = "A=\n".repeat(VARIABLES_MAX + 1);
        let parsed = parse(&many);
        assert_eq!(parsed.assignments.len(), VARIABLES_MAX);
        let (line, kind) = (VARIABLES_MAX + 1, TooMany);
        assert_eq!(parsed.problems, [DotenvProblem { line, kind }]);
    }

    #[test]
    fn files_add_and_never_change() {
        let mut files = DotenvVariables::default();
        let (first, second) = (AbsPath::new("/1").unwrap(), AbsPath::new("/2").unwrap());
        let (user, stranger) = (DotenvAuthor::User, DotenvAuthor::Stranger);
        let text = "A=old\nSET=new\nEMPTY=new\nA=1";
        files.add(&first, stranger, parse(text).assignments);
        files.add(&second, user, parse("A=2\nB=3").assignments);
        let process = [("SET", "old"), ("EMPTY", "")];
        let process = process.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let all = ConfigVariables::new(&BTreeMap::from(process), &files);
        for (name, expected) in [
            ("A", Some("1")),
            ("B", Some("3")),
            ("SET", Some("old")),
            ("EMPTY", Some("")),
            ("C", None),
        ] {
            assert_eq!(all.get(name), expected, "{name}");
        }
        assert_eq!(all.get_non_empty("EMPTY"), None);
        let names = ["A", "B", "SET", "EMPTY", "C"];
        let exported = names.map(|name| all.is_exported(name));
        assert_eq!(exported, [false, false, true, true, false]);
        let by_stranger = names.map(|name| all.is_by_stranger(name));
        assert_eq!(by_stranger, [true, false, false, false, false]);
        let source = files.source("A").unwrap();
        assert_eq!((source.file.to_string().as_str(), source.line), ("/1", 4));
        assert_eq!(all.retain_named(|name| name == "A").get("B"), None);
        let shown = format!("{all:?} {files:?}");
        assert!(!shown.contains("old") && !shown.contains("new"), "{shown}");
    }
}
