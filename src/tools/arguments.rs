//! Owns the arguments of one call: bounded JSON, taken apart parameter by parameter. It forgives
//! what can be meant in one way only (`"10"` for 10, one text for a list) and nothing else.

use std::collections::BTreeMap;

use globset::Glob;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Number;
use serde_json::value::RawValue;

use crate::tools::call::{Edit, UserPath, WORKSPACE};
use crate::tools::error::{ParseError, excerpt};
use crate::tools::spec::ToolSpec;

/// The longest arguments that are read, in bytes. `serde_json` itself refuses more than 128 levels.
pub const ARGUMENTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most items in one list of paths, patterns or edits.
pub const LIST_ITEMS_MAX: usize = 256;

/// The longest glob or regular expression, in bytes.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// The arguments that are still to be taken, of a tool whose parameters are known.
#[derive(Debug)]
pub(crate) struct Arguments {
    tool: &'static ToolSpec,
    values: BTreeMap<String, Box<RawValue>>,
}

/// One text or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    Several(Vec<String>),
    One(String),
}

/// A number or a yes-or-no, perhaps written as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(Number),
    Flag(bool),
    Text(String),
}

/// One replacement or several, perhaps written as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Edits {
    Several(Vec<EditFields>),
    One(EditFields),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditFields {
    #[serde(rename = "oldText")]
    old: String,
    #[serde(rename = "newText")]
    new: String,
}

impl Arguments {
    /// Reads the JSON that a model wrote. Nothing and `null` are an empty object; an object that
    /// was written as a JSON text is read as well.
    pub(crate) fn read(tool: &'static ToolSpec, text: &str) -> Result<Self, ParseError> {
        if text.len() > ARGUMENTS_BYTES_MAX {
            return Err(ParseError::TooLong { bytes: text.len() });
        }
        let values = match serde_json::from_str::<String>(text) {
            Ok(inner) => object(tool, &inner)?,
            Err(_) => object(tool, text)?,
        };
        match values.keys().find(|name| tool.parameter(name).is_none()) {
            Some(unknown) => Err(ParseError::UnknownParameter {
                tool,
                parameter: excerpt(unknown),
            }),
            None => Ok(Self { tool, values }),
        }
    }

    /// Takes a parameter; `null` is none.
    fn take<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Option<T>, ParseError> {
        let Some(raw) = self.values.remove(name) else {
            return Ok(None);
        };
        serde_json::from_str(raw.get()).map_err(|_| self.mistyped(name, raw.get()))
    }

    /// That `parameter` is not there.
    pub(crate) fn missing(&self, parameter: &'static str) -> ParseError {
        ParseError::Missing {
            tool: self.tool,
            parameter,
            expected: self.expected(parameter),
        }
    }

    /// That `parameter` is `found` and so not of its kind.
    fn mistyped(&self, parameter: &'static str, found: &str) -> ParseError {
        self.refused(parameter, found, self.expected(parameter))
    }

    fn expected(&self, parameter: &str) -> &'static str {
        self.tool
            .parameter(parameter)
            .map_or("nothing", |parameter| parameter.kind.expected())
    }

    /// That `parameter` is `found`, where only what is `expected` makes sense.
    pub(crate) fn refused(
        &self,
        parameter: &'static str,
        found: &str,
        expected: impl Into<String>,
    ) -> ParseError {
        ParseError::Refused {
            tool: self.tool,
            parameter,
            found: excerpt(found),
            expected: expected.into(),
        }
    }

    /// That two parameters contradict each other.
    pub(crate) fn conflict(&self, first: &'static str, second: &'static str) -> ParseError {
        ParseError::Conflict {
            tool: self.tool,
            first,
            second,
        }
    }

    /// A text that may be absent.
    pub(crate) fn optional_text(
        &mut self,
        name: &'static str,
    ) -> Result<Option<String>, ParseError> {
        self.take(name)
    }

    /// A text that must be there; it may be empty.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<String, ParseError> {
        self.take(name)?.ok_or_else(|| self.missing(name))
    }

    /// A path that must be there.
    pub(crate) fn path(&mut self, name: &'static str) -> Result<UserPath, ParseError> {
        let text = self.text(name)?;
        self.checked_path(name, text)
    }

    /// A path; without one, the agent's workspace.
    pub(crate) fn path_or_workspace(&mut self, name: &'static str) -> Result<UserPath, ParseError> {
        let text = self.optional_text(name)?;
        self.checked_path(name, text.unwrap_or_else(|| WORKSPACE.to_owned()))
    }

    fn checked_path(&self, parameter: &'static str, text: String) -> Result<UserPath, ParseError> {
        UserPath::parse(text).map_err(|source| ParseError::Path {
            tool: self.tool,
            parameter,
            source,
        })
    }

    /// Paths, of which there must be one at least.
    pub(crate) fn paths(&mut self, name: &'static str) -> Result<Vec<UserPath>, ParseError> {
        let texts = self.texts(name)?.unwrap_or_default();
        if texts.is_empty() {
            return Err(self.missing(name));
        }
        texts
            .into_iter()
            .map(|text| self.checked_path(name, text))
            .collect()
    }

    /// A list of texts that may be absent. One text is a list of one; a list that was written as a
    /// JSON text is read as well.
    fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, ParseError> {
        let texts = match self.take(name)? {
            None => return Ok(None),
            Some(Texts::Several(texts)) => texts,
            Some(Texts::One(text)) => serde_json::from_str(&text).unwrap_or_else(|_| vec![text]),
        };
        self.check_items(name, texts.len())?;
        Ok(Some(texts))
    }

    fn check_items(&self, name: &'static str, items: usize) -> Result<(), ParseError> {
        if items <= LIST_ITEMS_MAX {
            return Ok(());
        }
        let found = format!("a list of {items}");
        let expected = format!("at most {LIST_ITEMS_MAX} items; make several calls");
        Err(self.refused(name, &found, expected))
    }

    /// Globs that may be absent, each valid.
    pub(crate) fn globs(&mut self, name: &'static str) -> Result<Option<Vec<String>>, ParseError> {
        let globs = self.texts(name)?;
        for glob in globs.iter().flatten() {
            self.check_glob(name, glob)?;
        }
        Ok(globs)
    }

    /// A valid glob that must be there.
    pub(crate) fn glob(&mut self, name: &'static str) -> Result<String, ParseError> {
        let glob = self.text(name)?;
        self.check_glob(name, &glob)?;
        Ok(glob)
    }

    /// A pattern that must be there, of whatever syntax, neither empty nor over-long.
    pub(crate) fn pattern(&mut self, name: &'static str) -> Result<String, ParseError> {
        let pattern = self.text(name)?;
        self.check_length(name, &pattern)?;
        Ok(pattern)
    }

    fn check_glob(&self, parameter: &'static str, glob: &str) -> Result<(), ParseError> {
        self.check_length(parameter, glob)?;
        match Glob::new(glob) {
            Ok(_) => Ok(()),
            Err(source) => Err(ParseError::Glob {
                tool: self.tool,
                parameter,
                source,
            }),
        }
    }

    fn check_length(&self, parameter: &'static str, pattern: &str) -> Result<(), ParseError> {
        if (1..=PATTERN_BYTES_MAX).contains(&pattern.len()) {
            return Ok(());
        }
        let expected = format!("a pattern of 1 to {PATTERN_BYTES_MAX} bytes");
        Err(self.refused(parameter, pattern, expected))
    }

    /// A whole number that may be absent; `"10"` and `10.0` are 10.
    pub(crate) fn count(&mut self, name: &'static str) -> Result<Option<u64>, ParseError> {
        let text = match self.take(name)? {
            None => return Ok(None),
            Some(Scalar::Number(number)) => number.to_string(),
            Some(Scalar::Text(text)) => text,
            Some(Scalar::Flag(flag)) => return Err(self.mistyped(name, &flag.to_string())),
        };
        let digits = text.trim();
        match digits.strip_suffix(".0").unwrap_or(digits).parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.mistyped(name, &text)),
        }
    }

    /// A line number or a number of lines: at least 1, may be absent.
    pub(crate) fn lines(&mut self, name: &'static str) -> Result<Option<u64>, ParseError> {
        match self.count(name)? {
            Some(0) => Err(self.refused(name, "0", "a whole number from 1")),
            lines => Ok(lines),
        }
    }

    /// Yes or no, which may be absent; `"true"` is yes.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, ParseError> {
        let text = match self.take(name)? {
            None => return Ok(None),
            Some(Scalar::Flag(flag)) => return Ok(Some(flag)),
            Some(Scalar::Text(text)) => text,
            Some(Scalar::Number(number)) => number.to_string(),
        };
        match text.trim().to_ascii_lowercase().parse() {
            Ok(flag) => Ok(Some(flag)),
            Err(_) => Err(self.mistyped(name, &text)),
        }
    }

    /// Replacements, of which there must be one at least. A single one needs no list.
    pub(crate) fn edits(&mut self, name: &'static str) -> Result<Vec<Edit>, ParseError> {
        let edits = match self.take(name)?.ok_or_else(|| self.missing(name))? {
            Edits::Several(edits) => edits,
            Edits::One(edit) => vec![edit],
            Edits::Text(text) => {
                serde_json::from_str(&text).map_err(|_| self.mistyped(name, &text))?
            }
        };
        self.check_items(name, edits.len())?;
        if edits.is_empty() || edits.iter().any(|edit| edit.old.is_empty()) {
            let expected = "at least one replacement, each with a text in `oldText`";
            return Err(self.refused(name, "empty", expected));
        }
        Ok(edits
            .into_iter()
            .map(|EditFields { old, new }| Edit { old, new })
            .collect())
    }
}

/// The fields of a JSON object, none of which is looked into yet.
fn object(
    tool: &'static ToolSpec,
    text: &str,
) -> Result<BTreeMap<String, Box<RawValue>>, ParseError> {
    if text.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    match serde_json::from_str::<Option<_>>(text) {
        Ok(fields) => Ok(fields.unwrap_or_default()),
        Err(error) if error.is_data() => Err(ParseError::NotAnObject { tool }),
        Err(error) => Err(ParseError::Malformed(error)),
    }
}
