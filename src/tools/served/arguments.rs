//! The arguments of a call of a server's tool: bounded JSON, and which strings in it may be paths.
//! A string counts as a path, about which the gate is asked, unless the tool's schema or the user's
//! config declares otherwise.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use url::Url;

use crate::tools::arguments::ARGUMENTS_BYTES_MAX;
use crate::tools::call::{ToolCall, USER_PATH_BYTES_MAX, UserPath};
use crate::tools::error::{CallParseError, excerpt};
use crate::tools::served::{ServedTool, ServerCall, TouchedPath};

/// The maximum nesting depth of arguments.
pub const DEPTH_MAX: usize = 32;
/// The maximum number of distinct strings of one call that may be paths: the gate is asked about
/// each.
pub const TEXTS_MAX: usize = 1024;
/// The longest file name, in bytes (`NAME_MAX` of Linux).
const FILE_NAME_BYTES_MAX: usize = 255;
/// The maximum number of references in a schema that are followed for one value.
const REFERENCES_MAX: usize = 8;
/// The maximum number of schemas inspected for one string; if more are needed, it counts as a path.
const SCHEMAS_MAX: usize = 256;
/// Schema formats that exclude a path.
const NON_PATH_FORMATS: &[&str] = &[
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "json-pointer",
    "regex",
    "time",
    "uuid",
];

/// The problem with the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentProblem {
    /// They are not an object.
    #[error("are no JSON object")]
    NotAnObject,
    /// They are nested too deeply.
    #[error("are nested deeper than {DEPTH_MAX} levels: send a flatter object")]
    TooDeep,
    /// They contain too many strings to ask the gate about.
    #[error(
        "hold more than {TEXTS_MAX} texts that may be paths: divide the work into several calls"
    )]
    TooManyTexts,
    /// They contain a string that servers interpret differently.
    #[error("hold `{0}`, which servers read in different ways: write the whole path")]
    Ambiguous(String),
}

impl ServedTool {
    /// Parses a call; `arguments` is the model's JSON text. An empty text is an empty object.
    pub fn parse_call(&self, arguments: &str) -> Result<ToolCall, CallParseError> {
        if arguments.len() > ARGUMENTS_BYTES_MAX {
            return Err(CallParseError::TooLong {
                bytes: arguments.len(),
            });
        }
        let arguments = self.parse_object(arguments)?;
        let paths = self
            .paths(&arguments)
            .map_err(|problem| self.invalid_arguments(problem))?;
        let touched_path = |path| TouchedPath {
            path,
            permission: self.permission,
        };
        Ok(ToolCall::CallServer(ServerCall {
            server: self.server.clone(),
            tool: self.name.clone(),
            full_name: self.offer.name.to_string(),
            operation: self.operation,
            outside: self.outside,
            arguments,
            paths: paths.into_iter().map(touched_path).collect(),
        }))
    }

    fn invalid_arguments(&self, problem: ArgumentProblem) -> CallParseError {
        CallParseError::Served {
            tool: self.offer.name.to_string(),
            problem,
        }
    }

    fn parse_object(&self, text: &str) -> Result<Map<String, Value>, CallParseError> {
        if text.trim().is_empty() {
            return Ok(Map::new());
        }
        let mut value: Value = serde_json::from_str(text).map_err(CallParseError::Malformed)?;
        // Some models encode the object twice.
        if let Value::String(json_text) = &value {
            value = serde_json::from_str(json_text).map_err(CallParseError::Malformed)?;
        }
        match value {
            Value::Null => Ok(Map::new()),
            Value::Object(fields) => Ok(fields),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(self.invalid_arguments(ArgumentProblem::NotAnObject))
            }
        }
    }

    /// Returns the paths that the arguments name, without duplicates.
    fn paths(&self, arguments: &Map<String, Value>) -> Result<Vec<UserPath>, ArgumentProblem> {
        let mut search = PathSearch {
            root: &self.offer.parameters,
            texts: BTreeSet::new(),
        };
        for (name, value) in arguments {
            let is_content = self.content.contains(name);
            search.field(name, value, search.root, is_content, DEPTH_MAX)?;
        }
        let mut paths: Vec<UserPath> = Vec::new();
        for text in search.texts {
            let texts_to_parse = [Some(text), option_value(text)];
            for text in texts_to_parse.into_iter().flatten() {
                paths.extend(path(text)?.filter(|path| !paths.contains(path)));
            }
        }
        Ok(paths)
    }
}

/// Collects strings that may be paths.
struct PathSearch<'a> {
    root: &'a Value,
    texts: BTreeSet<&'a str>,
}

impl<'a> PathSearch<'a> {
    /// Searches one field of an object that `schema` describes; `depth` is the number of levels
    /// that may follow.
    fn field(
        &mut self,
        name: &'a str,
        value: &'a Value,
        schema: &'a Value,
        is_content: bool,
        depth: usize,
    ) -> Result<(), ArgumentProblem> {
        let schema = self.resolve_reference(schema);
        let property_schema = schema.get("properties").and_then(|all| all.get(name));
        // The schema does not declare the name, so it may be a path itself.
        if property_schema.is_none() {
            self.text(name)?;
        }
        let other_schema = schema.get("additionalProperties").unwrap_or(&Value::Null);
        self.value(
            value,
            property_schema.unwrap_or(other_schema),
            is_content,
            depth,
        )
    }

    fn value(
        &mut self,
        value: &'a Value,
        schema: &'a Value,
        is_content: bool,
        depth: usize,
    ) -> Result<(), ArgumentProblem> {
        let depth_below = depth.checked_sub(1).ok_or(ArgumentProblem::TooDeep)?;
        let schema = self.resolve_reference(schema);
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            Value::String(_) if is_content || self.is_declared_non_path(schema, value) => Ok(()),
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                let item_schema = schema.get("items").unwrap_or(&Value::Null);
                let mut items = items.iter();
                items.try_for_each(|item| self.value(item, item_schema, is_content, depth_below))
            }
            Value::Object(fields) => {
                let mut fields = fields.iter();
                fields.try_for_each(|(name, value)| {
                    if is_content {
                        self.value(value, &Value::Null, true, depth_below)
                    } else {
                        self.field(name, value, schema, false, depth_below)
                    }
                })
            }
        }
    }

    fn text(&mut self, text: &'a str) -> Result<(), ArgumentProblem> {
        if could_be_path(text.trim()) {
            self.texts.insert(text.trim());
        }
        if self.texts.len() > TEXTS_MAX {
            return Err(ArgumentProblem::TooManyTexts);
        }
        Ok(())
    }

    /// Follows references within the same schema.
    fn resolve_reference(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        for _ in 0..REFERENCES_MAX {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let Some(pointer) = reference.and_then(|text| text.strip_prefix('#')) else {
                return schema;
            };
            schema = self.root.pointer(pointer).unwrap_or(&Value::Null);
        }
        &Value::Null
    }

    fn is_declared_non_path(&self, schema: &'a Value, value: &Value) -> bool {
        let mut schemas_left = SCHEMAS_MAX;
        self.schema_excludes_path(schema, value, &mut schemas_left)
    }

    /// Returns whether a schema declares that a string is not a path. A schema may refer to itself,
    /// so that at most `schemas_left` schemas are inspected.
    fn schema_excludes_path(
        &self,
        schema: &'a Value,
        value: &Value,
        schemas_left: &mut usize,
    ) -> bool {
        let Some(schemas_left_after) = schemas_left.checked_sub(1) else {
            return false;
        };
        *schemas_left = schemas_left_after;
        let has_key = |key| schema.get(key).is_some();
        if has_key("contentMediaType") || has_key("contentEncoding") {
            return true;
        }
        let is_listed = |list: &Value| list.as_array().is_some_and(|list| list.contains(value));
        if schema.get("const") == Some(value) || schema.get("enum").is_some_and(is_listed) {
            return true;
        }
        let format = schema.get("format").and_then(Value::as_str);
        if format.is_some_and(|format| NON_PATH_FORMATS.contains(&format)) {
            return true;
        }
        let mut alternatives = ["anyOf", "oneOf"]
            .iter()
            .filter_map(|key| schema.get(*key))
            .filter_map(Value::as_array);
        let takes_text =
            |alternative: &&&Value| alternative.get("type").is_none_or(|kind| kind == "string");
        alternatives.any(|alternatives| {
            let alternatives: Vec<&Value> = alternatives
                .iter()
                .map(|alternative| self.resolve_reference(alternative))
                .collect();
            let mut texts = alternatives.iter().filter(takes_text).peekable();
            texts.peek().is_some()
                && texts
                    .all(|alternative| self.schema_excludes_path(alternative, value, schemas_left))
        })
    }
}

/// Returns whether the kernel would accept a string as a path.
fn could_be_path(text: &str) -> bool {
    let is_name = |name: &str| name.len() <= FILE_NAME_BYTES_MAX;
    let is_uri = is_file_uri(text);
    !text.is_empty()
        && !text.contains('\0')
        && (is_uri || (text.len() <= USER_PATH_BYTES_MAX && text.split('/').all(is_name)))
}

fn is_file_uri(text: &str) -> bool {
    let scheme = text.get(.."file:".len());
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
}

/// Returns the value of an option such as `--file=/etc/passwd`.
fn option_value(text: &str) -> Option<&str> {
    let (_, value) = text.strip_prefix('-')?.split_once('=')?;
    could_be_path(value).then_some(value)
}

/// Returns the path that a string names.
fn path(text: &str) -> Result<Option<UserPath>, ArgumentProblem> {
    let ambiguous = || ArgumentProblem::Ambiguous(excerpt(text));
    if is_file_uri(text) {
        let path = Url::parse(text)
            .ok()
            .and_then(|url| url.to_file_path().ok())
            .and_then(|path| UserPath::parse(path.to_str()?).ok());
        return path.map(Some).ok_or_else(ambiguous);
    }
    let first_name = text.split('/').next().unwrap_or_default();
    let names_home = first_name.starts_with('~') && !first_name.contains(char::is_whitespace);
    if names_home {
        return Err(ambiguous());
    }
    Ok(UserPath::parse(text).ok())
}
