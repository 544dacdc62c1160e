//! The arguments of one call: bounded JSON, read parameter by parameter. It accepts unambiguous
//! deviations (`"10"` for 10, a single string for a list) and no others.

use std::collections::BTreeMap;

use globset::Glob;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Number;
use serde_json::value::RawValue;

use crate::id::SubagentId;
use crate::text::single_line;
use crate::tools::call::{FileEdit, LineRange, SubagentTask, UserPath, WORKSPACE};
use crate::tools::error::{CallParseError, excerpt};
use crate::tools::spec::{CRITERION_SCORE_MAX, ToolSpec};
use crate::tools::task_plan::{
    PLAN_ENTRIES_MAX, PLAN_ENTRY_CHARS_MAX, PlanEntry, PlanEntryStatus, TaskPlan,
};

/// The longest arguments that are parsed, in bytes. `serde_json` itself refuses more than 128
/// levels of nesting.
pub const ARGUMENTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The maximum number of items in a list of paths, patterns or edits.
pub const LIST_ITEMS_MAX: usize = 256;

/// The maximum number of subagents that one call starts.
pub const SUBAGENT_TASKS_MAX: usize = 8;

/// The longest task of a subagent, in bytes.
pub const SUBAGENT_TASK_BYTES_MAX: usize = 64 * 1024;

/// The longest glob or regular expression, in bytes.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// The arguments not yet read, for a tool whose parameters are known.
#[derive(Debug)]
pub(crate) struct ToolCallArguments {
    tool: &'static ToolSpec,
    values: BTreeMap<String, Box<RawValue>>,
}

/// One string or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrManyTexts {
    Several(Vec<String>),
    One(String),
}

/// A number or a boolean, possibly written as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum LenientScalar {
    Number(Number),
    Flag(bool),
    Text(String),
}

/// A value, possibly written as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lenient<T> {
    Value(T),
    Text(String),
}

/// One change of a file or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrManyEdits {
    Several(Vec<EditFields>),
    One(EditFields),
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum EditFields {
    Replacement {
        #[serde(rename = "oldText")]
        old: String,
        #[serde(rename = "newText")]
        new: String,
    },
    Insertion {
        #[serde(rename = "insertLine")]
        line: u64,
        #[serde(rename = "newText")]
        text: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanEntryFields {
    content: String,
    status: PlanEntryStatus,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskFields {
    #[serde(alias = "subagent_id")]
    id: String,
    task: String,
    #[serde(alias = "subagent_name")]
    subagent_type: Option<String>,
    agent: Option<String>,
}

impl ToolCallArguments {
    /// Parses the JSON that a model wrote. An empty text and `null` are an empty object; an object
    /// encoded as a JSON string is accepted as well.
    pub(crate) fn read(tool: &'static ToolSpec, text: &str) -> Result<Self, CallParseError> {
        if text.len() > ARGUMENTS_BYTES_MAX {
            return Err(CallParseError::TooLong { bytes: text.len() });
        }
        let values = match serde_json::from_str::<String>(text) {
            Ok(inner_text) => parse_object(tool, &inner_text)?,
            Err(_) => parse_object(tool, text)?,
        };
        match values.keys().find(|name| tool.parameter(name).is_none()) {
            Some(unknown_name) => Err(CallParseError::UnknownParameter {
                tool,
                parameter: excerpt(unknown_name),
            }),
            None => Ok(Self { tool, values }),
        }
    }

    /// Removes and returns a parameter; `null` counts as absent.
    fn take_value<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, CallParseError> {
        let Some(raw) = self.values.remove(name) else {
            return Ok(None);
        };
        serde_json::from_str(raw.get()).map_err(|_| self.wrong_type(name, raw.get()))
    }

    /// Removes and returns a parameter, which may be written as a string.
    fn take_lenient<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, CallParseError> {
        match self.take_value(name)? {
            None => Ok(None),
            Some(Lenient::Value(value)) => Ok(Some(value)),
            Some(Lenient::Text(text)) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|_| self.wrong_type(name, &text)),
        }
    }

    /// Like [`Self::take_lenient`], for a required parameter.
    fn take_required<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<T, CallParseError> {
        self.take_lenient(name)?
            .ok_or_else(|| self.missing_parameter(name))
    }

    /// Returns the error that `parameter` is missing.
    pub(crate) fn missing_parameter(&self, parameter: &'static str) -> CallParseError {
        CallParseError::Missing {
            tool: self.tool,
            parameter,
            expected: self.describe_expected(parameter),
        }
    }

    /// Returns the error that `parameter` has the wrong type; `found` is its value.
    fn wrong_type(&self, parameter: &'static str, found: &str) -> CallParseError {
        self.invalid_value(parameter, found, self.describe_expected(parameter))
    }

    fn describe_expected(&self, parameter: &str) -> &'static str {
        self.tool
            .parameter(parameter)
            .map_or("nothing", |parameter| parameter.kind.describe_expected())
    }

    /// Returns the error that `parameter` has the value `found`, where only `expected` makes sense.
    pub(crate) fn invalid_value(
        &self,
        parameter: &'static str,
        found: &str,
        expected: impl Into<String>,
    ) -> CallParseError {
        CallParseError::InvalidValue {
            tool: self.tool,
            parameter,
            found: excerpt(found),
            expected: expected.into(),
        }
    }

    /// Reads an optional string.
    pub(crate) fn optional_text(
        &mut self,
        name: &'static str,
    ) -> Result<Option<String>, CallParseError> {
        self.take_value(name)
    }

    /// Reads a required string; it may be empty.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<String, CallParseError> {
        self.take_value(name)?
            .ok_or_else(|| self.missing_parameter(name))
    }

    /// Reads a required path.
    pub(crate) fn path(&mut self, name: &'static str) -> Result<UserPath, CallParseError> {
        let text = self.text(name)?;
        self.checked_path(name, text)
    }

    /// Reads an optional path; the default is the agent's workspace.
    pub(crate) fn path_or_workspace(
        &mut self,
        name: &'static str,
    ) -> Result<UserPath, CallParseError> {
        let text = self.optional_text(name)?;
        self.checked_path(name, text.unwrap_or_else(|| WORKSPACE.to_owned()))
    }

    /// Returns `text`, a value of `parameter`, as a path.
    pub(crate) fn checked_path(
        &self,
        parameter: &'static str,
        text: String,
    ) -> Result<UserPath, CallParseError> {
        UserPath::parse(text).map_err(|source| CallParseError::Path {
            tool: self.tool,
            parameter,
            source,
        })
    }

    /// Reads a list of paths with at least one.
    pub(crate) fn paths(&mut self, name: &'static str) -> Result<Vec<UserPath>, CallParseError> {
        let texts = self.texts(name)?.unwrap_or_default();
        if texts.is_empty() {
            return Err(self.missing_parameter(name));
        }
        texts
            .into_iter()
            .map(|text| self.checked_path(name, text))
            .collect()
    }

    /// Reads an optional list of strings. A single string is a list of one; a list encoded as a
    /// JSON string is accepted as well.
    fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, CallParseError> {
        let texts = match self.take_value(name)? {
            None => return Ok(None),
            Some(OneOrManyTexts::Several(texts)) => texts,
            Some(OneOrManyTexts::One(text)) => {
                serde_json::from_str(&text).unwrap_or_else(|_| vec![text])
            }
        };
        self.check_item_count(name, texts.len())?;
        Ok(Some(texts))
    }

    fn check_item_count(&self, name: &'static str, count: usize) -> Result<(), CallParseError> {
        if count <= LIST_ITEMS_MAX {
            return Ok(());
        }
        let found = format!("a list of {count}");
        let expected = format!("at most {LIST_ITEMS_MAX} items; make several calls");
        Err(self.invalid_value(name, &found, expected))
    }

    /// Reads an optional list of valid globs.
    pub(crate) fn globs(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Vec<String>>, CallParseError> {
        let globs = self.texts(name)?;
        for glob in globs.iter().flatten() {
            self.check_glob(name, glob)?;
        }
        Ok(globs)
    }

    /// Reads a required, valid glob.
    pub(crate) fn glob(&mut self, name: &'static str) -> Result<String, CallParseError> {
        let glob = self.text(name)?;
        self.check_glob(name, &glob)?;
        Ok(glob)
    }

    /// Reads a required pattern of any syntax, neither empty nor too long.
    pub(crate) fn pattern(&mut self, name: &'static str) -> Result<String, CallParseError> {
        let pattern = self.text(name)?;
        self.check_length(name, &pattern)?;
        Ok(pattern)
    }

    fn check_glob(&self, parameter: &'static str, glob: &str) -> Result<(), CallParseError> {
        self.check_length(parameter, glob)?;
        match Glob::new(glob) {
            Ok(_) => Ok(()),
            Err(source) => Err(CallParseError::Glob {
                tool: self.tool,
                parameter,
                source,
            }),
        }
    }

    fn check_length(&self, parameter: &'static str, pattern: &str) -> Result<(), CallParseError> {
        if (1..=PATTERN_BYTES_MAX).contains(&pattern.len()) {
            return Ok(());
        }
        let expected = format!("a pattern of 1 to {PATTERN_BYTES_MAX} bytes");
        Err(self.invalid_value(parameter, pattern, expected))
    }

    /// Reads an optional integer; `"10"` and `10.0` are 10.
    pub(crate) fn count(&mut self, name: &'static str) -> Result<Option<u64>, CallParseError> {
        let text = match self.take_value(name)? {
            None => return Ok(None),
            Some(LenientScalar::Number(number)) => number.to_string(),
            Some(LenientScalar::Text(text)) => text,
            Some(LenientScalar::Flag(flag)) => return Err(self.wrong_type(name, &flag.to_string())),
        };
        let digits = text.trim();
        match digits.strip_suffix(".0").unwrap_or(digits).parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.wrong_type(name, &text)),
        }
    }

    /// Reads an optional integer that is at least 1. Models that fill in every parameter give 0 for
    /// those that they do not mean.
    pub(crate) fn positive_count(
        &mut self,
        name: &'static str,
    ) -> Result<Option<u64>, CallParseError> {
        Ok(self.count(name)?.filter(|count| *count > 0))
    }

    /// Reads an optional boolean; `"true"` is true.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, CallParseError> {
        let text = match self.take_value(name)? {
            None => return Ok(None),
            Some(LenientScalar::Flag(flag)) => return Ok(Some(flag)),
            Some(LenientScalar::Text(text)) => text,
            Some(LenientScalar::Number(number)) => number.to_string(),
        };
        match text.trim().to_ascii_lowercase().parse() {
            Ok(flag) => Ok(Some(flag)),
            Err(_) => Err(self.wrong_type(name, &text)),
        }
    }

    /// Reads an optional list of scores; without one it is empty.
    pub(crate) fn scores(&mut self, name: &'static str) -> Result<Vec<u8>, CallParseError> {
        let scores: Vec<u8> = self.take_value(name)?.unwrap_or_default();
        self.check_item_count(name, scores.len())?;
        match scores.iter().find(|score| **score > CRITERION_SCORE_MAX) {
            Some(score) => Err(self.wrong_type(name, &score.to_string())),
            None => Ok(scores),
        }
    }

    /// Reads a list of replacements with at least one. A single one needs no list.
    pub(crate) fn edits(&mut self, name: &'static str) -> Result<Vec<FileEdit>, CallParseError> {
        let edits = match self.take_required(name)? {
            OneOrManyEdits::Several(edits) => edits,
            OneOrManyEdits::One(edit) => vec![edit],
        };
        self.check_item_count(name, edits.len())?;
        let is_void = |edit: &EditFields| matches!(edit, EditFields::Replacement { old, .. } if old.is_empty());
        if edits.is_empty() || edits.iter().any(is_void) {
            let expected = "at least one replacement, each with a text in `oldText`";
            return Err(self.invalid_value(name, "empty", expected));
        }
        let edit = |edit| match edit {
            EditFields::Replacement { old, new } => FileEdit::Replacement { old, new },
            EditFields::Insertion { line, text } => FileEdit::Insertion { line, text },
        };
        Ok(edits.into_iter().map(edit).collect())
    }

    /// Reads an optional range of lines, `[FIRST, LAST]`; a last line of -1 is the end of the file.
    pub(crate) fn line_numbers(&mut self, name: &'static str) -> Result<LineRange, CallParseError> {
        let Some([first, last]) = self.take_lenient::<[i64; 2]>(name)? else {
            return Ok(LineRange::All);
        };
        let found = format!("[{first}, {last}]");
        let last = (last != -1).then_some(last);
        match (u64::try_from(first), last.map(u64::try_from).transpose()) {
            (Ok(first @ 1..), Ok(last)) if last.is_none_or(|last| last >= first) => {
                Ok(LineRange::Range { first, last })
            }
            _ => Err(self.wrong_type(name, &found)),
        }
    }

    /// Reads the entries of a plan; none is an empty plan. Each becomes one line.
    pub(crate) fn plan(&mut self, name: &'static str) -> Result<TaskPlan, CallParseError> {
        let entries: Vec<PlanEntryFields> = self.take_required(name)?;
        if entries.len() > PLAN_ENTRIES_MAX {
            let found = format!("a list of {}", entries.len());
            let expected = format!("at most {PLAN_ENTRIES_MAX} entries; plan in larger steps");
            return Err(self.invalid_value(name, &found, expected));
        }
        let entries = entries
            .into_iter()
            .map(|PlanEntryFields { content, status }| {
                let content = single_line(&content, usize::MAX);
                if (1..=PLAN_ENTRY_CHARS_MAX).contains(&content.chars().count()) {
                    return Ok(PlanEntry { content, status });
                }
                let expected = format!("entries of 1 to {PLAN_ENTRY_CHARS_MAX} characters");
                Err(self.invalid_value(name, &content, expected))
            });
        Ok(TaskPlan {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// Reads the tasks of subagents: at least one, each with an id of its own.
    pub(crate) fn subagent_tasks(
        &mut self,
        name: &'static str,
    ) -> Result<Vec<SubagentTask>, CallParseError> {
        let task_list: Vec<TaskFields> = self.take_required(name)?;
        if !(1..=SUBAGENT_TASKS_MAX).contains(&task_list.len()) {
            let found = format!("a list of {}", task_list.len());
            let expected = format!("1 to {SUBAGENT_TASKS_MAX} tasks");
            return Err(self.invalid_value(name, &found, expected));
        }
        let mut tasks: Vec<SubagentTask> = Vec::new();
        for fields in task_list {
            let TaskFields {
                id,
                task,
                subagent_type,
                agent,
            } = fields;
            if task.trim().is_empty() || task.len() > SUBAGENT_TASK_BYTES_MAX {
                let expected = format!("a task of 1 to {SUBAGENT_TASK_BYTES_MAX} bytes");
                return Err(self.invalid_value(name, &task, expected));
            }
            let id = match SubagentId::parse(&id) {
                Ok(id) => id,
                Err(error) => return Err(self.invalid_value(name, &id, error.to_string())),
            };
            if tasks.iter().any(|other| other.id == id) {
                let expected = "another `id` for each task";
                return Err(self.invalid_value(name, id.as_str(), expected));
            }
            tasks.push(SubagentTask {
                id,
                task,
                subagent_type: subagent_type.as_deref().and_then(chosen_name),
                agent: agent.as_deref().and_then(chosen_name),
            });
        }
        Ok(tasks)
    }
}

/// Returns a name that a model has chosen; an empty text chooses nothing.
fn chosen_name(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Parses the fields of a JSON object, leaving their values unparsed.
fn parse_object(
    tool: &'static ToolSpec,
    text: &str,
) -> Result<BTreeMap<String, Box<RawValue>>, CallParseError> {
    if text.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    match serde_json::from_str::<Option<_>>(text) {
        Ok(fields) => Ok(fields.unwrap_or_default()),
        Err(error) if error.is_data() => Err(CallParseError::NotAnObject { tool }),
        Err(error) => Err(CallParseError::Malformed(error)),
    }
}
