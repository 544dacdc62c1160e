//! Owns what `.env` files say: their syntax, the variables that were read from them, and the one
//! value in which they stand beside the environment of the process. They are settings of configs
//! and keys of vendors; nothing here gives out an environment that a process could be started with.

use std::collections::BTreeMap;
use std::fmt;

use crate::path::AbsPath;

/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;
/// How many variables one file may set.
pub const VARIABLES_MAX: usize = 1000;

/// What the text of one file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The variables, in the order of their lines; a name may be there twice, and the last counts.
    pub assignments: Vec<Assignment>,
    /// What could not be read, in the order of the lines.
    pub faults: Vec<Fault>,
}

/// One `NAME=value`.
#[derive(Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// The name of the variable.
    pub name: String,
    /// The value as it is written: nothing is filled in.
    pub value: String,
}

/// A place in a file that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub kind: FaultKind,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It is not `NAME=value`.
    NotAssignment,
    /// A quote is opened and never closed, so that the file ends there.
    OpenQuote,
    /// The value is longer than [`VALUE_BYTES_MAX`].
    TooLong,
    /// [`VARIABLES_MAX`] variables stand before it, so that the file ends there.
    TooMany,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::NotAssignment => f.write_str("is not `NAME=value`: the line is skipped"),
            FaultKind::OpenQuote => {
                f.write_str("opens a quote that is never closed: the rest of the file is skipped")
            }
            FaultKind::TooLong => write!(
                f,
                "has a value of more than {VALUE_BYTES_MAX} bytes: the variable is skipped"
            ),
            FaultKind::TooMany => write!(
                f,
                "comes after {VARIABLES_MAX} variables: the rest of the file is skipped"
            ),
        }
    }
}

/// A value may be a key, and is never shown.
impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, name, .. } = self;
        f.debug_struct("Assignment")
            .field("line", line)
            .field("name", name)
            .finish_non_exhaustive()
    }
}

/// Reads the text of a `.env` file: lines of `NAME=value`, with `export` before it or not, comments
/// after `#`, and quotes as in a shell. `$` means nothing. It takes time in proportion to the text.
pub fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let mut reader = Reader {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        line: 1,
    };
    while reader.skip_to_statement() {
        let line = reader.line;
        if parsed.assignments.len() == VARIABLES_MAX {
            let kind = FaultKind::TooMany;
            parsed.faults.push(Fault { line, kind });
            break;
        }
        match reader.assignment() {
            Ok((name, value)) => parsed.assignments.push(Assignment { line, name, value }),
            Err(kind) => {
                parsed.faults.push(Fault { line, kind });
                match kind {
                    FaultKind::OpenQuote | FaultKind::TooMany => break,
                    FaultKind::NotAssignment | FaultKind::TooLong => reader.skip_line(),
                }
            }
        }
    }
    parsed
}

/// The text that is not read yet.
struct Reader<'t> {
    rest: &'t str,
    line: usize,
}

/// Where in a value the reader stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Bare,
    Single,
    Double,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        if next == '\n' {
            self.line = self.line.saturating_add(1);
        }
        Some(next)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip_while(&mut self, skipped: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&skipped) {
            self.next();
        }
    }

    /// Leaves the rest of the line out, up to its end.
    fn skip_line(&mut self) {
        self.skip_while(|next| next != '\n');
    }

    /// Goes to the next line that says something; `false` at the end of the text.
    fn skip_to_statement(&mut self) -> bool {
        loop {
            self.skip_while(char::is_whitespace);
            match self.peek() {
                None => return false,
                Some('#') => self.skip_line(),
                Some(_) => return true,
            }
        }
    }

    fn assignment(&mut self) -> Result<(String, String), FaultKind> {
        if let Some(after) = self.rest.strip_prefix("export")
            && after.starts_with(is_blank)
        {
            self.rest = after.trim_start_matches(is_blank);
        }
        let name = self.name()?;
        self.skip_while(is_blank);
        // Where the line ends here, its end is not taken: the next one is no part of the fault.
        let Some(after) = self.rest.strip_prefix('=') else {
            return Err(FaultKind::NotAssignment);
        };
        self.rest = after.trim_start_matches(is_blank);
        if after.starts_with(is_blank) && self.peek() == Some('#') {
            self.skip_line();
            return Ok((name, String::new()));
        }
        Ok((name, self.value()?))
    }

    fn name(&mut self) -> Result<String, FaultKind> {
        let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.');
        let end = self.rest.find(|char| !is_part(char));
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(FaultKind::NotAssignment);
        }
        self.rest = rest;
        Ok(name.to_owned())
    }

    fn value(&mut self) -> Result<String, FaultKind> {
        let mut value = String::new();
        let mut quoting = Quoting::Bare;
        let mut is_too_long = false;
        while let Some(next) = self.peek() {
            if quoting == Quoting::Bare && next.is_whitespace() {
                break;
            }
            self.next();
            let char = match (quoting, next) {
                (_, '\0') => return Err(FaultKind::NotAssignment),
                (Quoting::Bare, '\'') => {
                    quoting = Quoting::Single;
                    continue;
                }
                (Quoting::Bare, '"') => {
                    quoting = Quoting::Double;
                    continue;
                }
                (Quoting::Single, '\'') | (Quoting::Double, '"') => {
                    quoting = Quoting::Bare;
                    continue;
                }
                (Quoting::Bare | Quoting::Double, '\\') => self.escaped()?,
                (Quoting::Bare | Quoting::Single | Quoting::Double, char) => char,
            };
            is_too_long |= value.len() >= VALUE_BYTES_MAX;
            if !is_too_long {
                value.push(char);
            }
        }
        match quoting {
            Quoting::Bare if is_too_long => Err(FaultKind::TooLong),
            Quoting::Bare => self.expect_end().map(|()| value),
            Quoting::Single | Quoting::Double => Err(FaultKind::OpenQuote),
        }
    }

    /// The character that stands after a backslash.
    fn escaped(&mut self) -> Result<char, FaultKind> {
        match self.peek() {
            Some('n') => {
                self.next();
                Ok('\n')
            }
            Some(char @ ('\\' | '\'' | '"' | '$' | ' ')) => {
                self.next();
                Ok(char)
            }
            Some(_) | None => Err(FaultKind::NotAssignment),
        }
    }

    /// Expects that nothing but a comment follows on the line.
    fn expect_end(&mut self) -> Result<(), FaultKind> {
        self.skip_while(is_blank);
        match self.peek() {
            None | Some('\n') => Ok(()),
            Some('#') => {
                self.skip_line();
                Ok(())
            }
            Some(_) => Err(FaultKind::NotAssignment),
        }
    }
}

/// Whether a character separates words of one line.
fn is_blank(char: char) -> bool {
    char != '\n' && char.is_whitespace()
}

/// What was read from `.env` files and may be used. It stands beside the environment of the process
/// and is never part of it.
#[derive(Clone, Debug, Default)]
pub struct DotenvVariables(BTreeMap<String, DotenvVariable>);

#[derive(Clone)]
struct DotenvVariable {
    value: String,
    source: Source,
}

/// Where a variable was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub file: AbsPath,
    /// The line on which it begins, from 1.
    pub line: usize,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A value may be a key, and is never shown.
impl fmt::Debug for DotenvVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

impl DotenvVariables {
    /// Adds what one file sets. What an earlier file set stays.
    pub fn add(&mut self, file: &AbsPath, assignments: Vec<Assignment>) {
        let mut added = BTreeMap::new();
        for Assignment { line, name, value } in assignments {
            let file = file.clone();
            let source = Source { file, line };
            added.insert(name, DotenvVariable { value, source });
        }
        for (name, variable) in added {
            self.0.entry(name).or_insert(variable);
        }
    }

    /// Where a variable was read, if it was.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.0.get(name).map(|variable| &variable.source)
    }
}

/// The variables that a config and the clients of models can ask for by name: those of the process,
/// and what `.env` files add. It cannot be listed or turned into an environment, so that no process
/// is started with it.
#[derive(Clone, Default)]
pub struct ConfigVariables(BTreeMap<String, String>);

impl ConfigVariables {
    /// The variables of the process, which stay as they are, and those of the files.
    pub fn new(process: &BTreeMap<String, String>, files: &DotenvVariables) -> Self {
        let mut all = process.clone();
        for (name, variable) in &files.0 {
            let value = || variable.value.clone();
            all.entry(name.clone()).or_insert_with(value);
        }
        Self(all)
    }

    /// The value of a variable, which may be empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of a variable; an empty one counts as unset.
    pub fn get_filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Those variables whose name `is_kept` accepts.
    #[must_use]
    pub fn only(&self, is_kept: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, _)| is_kept(name));
        Self(
            kept.map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    }
}

impl FromIterator<(String, String)> for ConfigVariables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

/// Values may be keys, and are never shown.
impl fmt::Debug for ConfigVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, assignments: &[(usize, &str, &str)], faults: &[(usize, FaultKind)]) {
        let parsed = parse(text);
        let found: Vec<(usize, &str, &str)> = parsed
            .assignments
            .iter()
            .map(|found| (found.line, found.name.as_str(), found.value.as_str()))
            .collect();
        assert_eq!(found, assignments, "{text:?}");
        let found: Vec<(usize, FaultKind)> = parsed
            .faults
            .iter()
            .map(|fault| (fault.line, fault.kind))
            .collect();
        assert_eq!(found, faults, "{text:?}");
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
    fn what_is_no_variable_is_told_with_its_line() {
        use FaultKind::{NotAssignment, OpenQuote, TooLong, TooMany};
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
        assert_eq!(parsed.faults, [Fault { line, kind }]);
    }

    #[test]
    fn files_add_and_never_change() {
        let mut files = DotenvVariables::default();
        let (first, second) = (AbsPath::new("/1").unwrap(), AbsPath::new("/2").unwrap());
        files.add(&first, parse("A=old\nSET=new\nEMPTY=new\nA=1").assignments);
        files.add(&second, parse("A=2\nB=3").assignments);
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
        assert_eq!(all.get_filled("EMPTY"), None);
        let source = files.source("A").unwrap();
        assert_eq!((source.file.to_string().as_str(), source.line), ("/1", 4));
        assert_eq!(all.only(|name| name == "A").get("B"), None);
        let shown = format!("{all:?} {files:?}");
        assert!(!shown.contains("old") && !shown.contains("new"), "{shown}");
    }
}
