//! The task file of a batch: one JSON object a line, each of which becomes a cell.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::error::Category;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::spending::money::Money;

/// Maximum size of a task file, in bytes.
pub const TASK_FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Maximum length of one line of it, in bytes.
const TASK_LINE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of tasks.
const TASKS_MAX: usize = 1_000_000;
/// Maximum length of an id, in characters: file names may have 255 bytes, and some are added.
const ID_CHARS_MAX: usize = 100;
/// Maximum number of tags of a task.
const TAGS_MAX: usize = 32;
/// Maximum length of a tag, in characters: tables have a column of tags.
const TAG_CHARS_MAX: usize = 100;
/// Number of hexadecimal digits of a commit name: SHA-1 or SHA-256.
const COMMIT_DIGITS: [usize; 2] = [40, 64];

/// The id of a cell, which is also a file name: letters, digits, `-`, `_` and `.`, but no `-` or
/// `.` at the beginning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CellId(String);

impl CellId {
    /// Parses an id; `None` if it cannot be a file name on every system.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let has_valid_start = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let is_id = has_valid_start && text.len() <= ID_CHARS_MAX && text.chars().all(is_plain);
        is_id.then(|| Self(text.to_owned()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for CellId {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!(
                "`{text}` is not an id: expected at most {ID_CHARS_MAX} letters, digits, `-`, `_` and \
                 `.`, beginning with a letter, a digit or `_`"
            )
        })
    }
}

impl From<CellId> for String {
    fn from(id: CellId) -> Self {
        id.0
    }
}

/// A task of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchTask {
    /// Its id, unique in the batch.
    pub id: CellId,
    /// The task as the agents get it.
    pub text: String,
    /// The files that the cell works on a copy of; without them it begins in an empty directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<TaskProject>,
    /// The config of the team, instead of that of the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Its limits, instead of those of the config.
    #[serde(default, skip_serializing_if = "TaskLimits::is_empty")]
    pub limits: TaskLimits,
    /// The checks, in the form of `checks` in a config, instead of those of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Value>,
    /// The judge, in the form of `judge` in a config, instead of that of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<Value>,
    /// Words by which results are grouped.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
}

/// The files that a cell works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum TaskProject {
    /// A commit of a local git repository.
    Commit {
        /// The repository.
        git: String,
        /// The full name of the commit.
        commit: String,
    },
    /// A directory.
    Directory {
        /// Its path.
        path: String,
    },
}

impl TaskProject {
    /// Returns the directory or repository, relative to the user's directory.
    pub fn location(&self) -> &str {
        match self {
            TaskProject::Commit { git, .. } => git,
            TaskProject::Directory { path } => path,
        }
    }

    /// Returns it with an absolute path instead of one relative to `base`.
    #[must_use]
    pub fn with_absolute_path(self, base: &AbsPath) -> Self {
        match self {
            TaskProject::Commit { git, commit } => TaskProject::Commit {
                git: base.join(git).to_string(),
                commit,
            },
            TaskProject::Directory { path } => TaskProject::Directory {
                path: base.join(path).to_string(),
            },
        }
    }
}

/// The limits of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskLimits {
    /// Maximum cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<Money>,
    /// Maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_total: Option<u64>,
    /// Maximum number of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    /// Maximum duration in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

impl TaskLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl BatchTask {
    /// Parses one line of a task file.
    pub fn parse(line: &str) -> std::result::Result<Self, String> {
        if line.len() > TASK_LINE_BYTES_MAX {
            return Err(format!(
                "the line is longer than {TASK_LINE_BYTES_MAX} bytes"
            ));
        }
        let task = Self::parse_frozen(line)?;
        let is_long = |tag: &String| tag.chars().count() > TAG_CHARS_MAX;
        if task.tags.iter().any(is_long) {
            return Err(format!("a tag is longer than {TAG_CHARS_MAX} characters"));
        }
        Ok(task)
    }

    /// Parses one line of a frozen task file. It may be longer than the line that the user wrote,
    /// because its paths are absolute, and may have longer tags, because batches once had them.
    pub fn parse_frozen(line: &str) -> std::result::Result<Self, String> {
        let task: Self = serde_json::from_str(line).map_err(|error| describe_json_error(&error))?;
        task.check().map(|()| task)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.text.trim().is_empty() {
            return Err("`text` is empty".to_owned());
        }
        if self.tags.len() > TAGS_MAX {
            return Err(format!("more than {TAGS_MAX} tags"));
        }
        if self.tags.iter().any(|tag| tag.trim().is_empty()) {
            return Err("a tag is empty".to_owned());
        }
        if let Some(TaskProject::Commit { commit, .. }) = &self.project {
            let is_name = COMMIT_DIGITS.contains(&commit.len())
                && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_name {
                return Err(format!(
                    "`{commit}` is not a full commit hash: expected 40 or 64 hexadecimal digits"
                ));
            }
        }
        match self.project.as_ref().map(TaskProject::location) {
            Some("") => Err("the path of the project is empty".to_owned()),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns what is wrong with a line, and where in it.
fn describe_json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (line, column) = (error.line(), error.column());
    // The text is a single line, so its number says nothing.
    let location = format!(" at line {line} column {column}");
    let description = text.strip_suffix(&location).unwrap_or(&text);
    match error.classify() {
        Category::Syntax | Category::Eof => {
            format!("it is not JSON: {description} at column {column}")
        }
        Category::Data | Category::Io if column > 0 => format!("{description} at column {column}"),
        Category::Data | Category::Io => description.to_owned(),
    }
}

/// Parses a task file. Blank lines are skipped.
///
/// # Errors
/// If a line is not a task, an id occurs twice, or there are no tasks or too many. Its message
/// names the file as `name`.
pub fn parse_tasks(text: &str, name: &str) -> Result<Vec<BatchTask>> {
    let mut tasks = Vec::new();
    let mut ids = BTreeSet::new();
    let lines = text.lines().enumerate();
    for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let line_error = |reason: String| {
            let number = index.saturating_add(1);
            Error::new(
                ErrorKind::Usage,
                format!("`{name}`, line {number}: {reason}"),
            )
            .with_hint(
                "each line is one JSON object, such as {\"id\":\"fix-1\",\"text\":\"Fix the \
                 build\",\"project\":{\"path\":\"app\"},\"tags\":[\"easy\"]}",
            )
        };
        let task = BatchTask::parse(line).map_err(line_error)?;
        if tasks.len() == TASKS_MAX {
            return Err(line_error(format!("more than {TASKS_MAX} tasks")));
        }
        if !ids.insert(task.id.clone()) {
            return Err(line_error(format!("the id `{}` occurs twice", task.id)));
        }
        tasks.push(task);
    }
    if tasks.is_empty() {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("`{name}` has no tasks"),
        ));
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_line_may_be_longer_than_the_users() {
        let text = "x".repeat(TASK_LINE_BYTES_MAX);
        let line = format!("{{\"id\":\"a\",\"text\":\"{text}\"}}");
        assert!(BatchTask::parse(&line).is_err());
        assert_eq!(
            BatchTask::parse_frozen(&line).map(|task| task.text),
            Ok(text)
        );
        let tag = "x".repeat(TAG_CHARS_MAX + 1);
        let line = format!("{{\"id\":\"a\",\"text\":\"t\",\"tags\":[\"{tag}\"]}}");
        assert!(BatchTask::parse(&line).is_err());
        assert!(BatchTask::parse_frozen(&line).is_ok());
    }

    #[test]
    fn a_line_that_is_no_task_has_one_position() {
        for (line, expected) in [
            ("- id: a", "it is not JSON: "),
            ("{\"id\": \"a\"", "it is not JSON: "),
            ("{\"id\": 1}", "invalid type: "),
        ] {
            let error = BatchTask::parse(line).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert_eq!(error.matches(" column ").count(), 1, "{error}");
            assert!(!error.contains(" line "), "{error}");
        }
    }
}
