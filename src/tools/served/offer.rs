//! Converts a server's description of its tools to offers to models. All of it is untrusted:
//! anything too long, too deep or malformed is left out, with a note. Also the tools by which
//! models use a server's resources and prompts.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::permissions::path_rules::RuleAction;
use crate::text::{count_noun, escape_line, escape_name, truncate};
use crate::tools::served::{
    CUSTOM_PREFIX, OutsideEffects, SEPARATOR, SERVED_PREFIX, ServedTool, ServedToolRules,
    ServerOperation, ToolNaming,
};
use crate::tools::spec::ToolOffer;

/// The maximum number of tools offered per server: each is sent with every request.
pub const TOOLS_PER_SERVER_MAX: usize = 128;
/// The longest tool name that all vendors accept, in bytes:
/// <https://platform.openai.com/docs/api-reference/chat/create>.
pub const FULL_NAME_BYTES_MAX: usize = 64;
/// The longest part of a tool's description that is passed on, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 2048;
/// The longest schema of a tool's arguments, in bytes of JSON.
pub const SCHEMA_BYTES_MAX: usize = 32 * 1024;
/// The maximum nesting depth of such a schema.
pub const SCHEMA_DEPTH_MAX: usize = 32;
/// The longest part of an untrusted name that a note quotes, in characters.
const NAME_CHARS_MAX: usize = 80;

/// A tool as a server describes it, entirely unchecked.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerToolDescription {
    /// Its name at the server.
    pub name: String,
    /// The server's description of it.
    pub description: String,
    /// The server's schema of its arguments.
    pub schema: Value,
    /// The operation that a call of it requests.
    pub operation: ServerOperation,
}

/// A server feature that massgen offers to models as tools, in addition to the server's own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFeature {
    /// The server has resources.
    Resources,
    /// The server has prompts.
    Prompts,
}

impl ServerFeature {
    /// Returns the two tools by which a model lists and reads them.
    pub fn tool_descriptions(self) -> [ServerToolDescription; 2] {
        let tool = |name: &str, description: &str, schema, operation| ServerToolDescription {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
            operation,
        };
        let nothing = || json!({"type": "object", "properties": {}});
        let text = || json!({"type": "string"});
        match self {
            ServerFeature::Resources => [
                tool(
                    "list_resources",
                    "List what can be read at this server.",
                    nothing(),
                    ServerOperation::ListResources,
                ),
                tool(
                    "read_resource",
                    "Read something that list_resources names.",
                    json!({"type": "object", "properties": {"uri": text()}, "required": ["uri"]}),
                    ServerOperation::ReadResource,
                ),
            ],
            ServerFeature::Prompts => [
                tool(
                    "list_prompts",
                    "List the prompts of this server.",
                    nothing(),
                    ServerOperation::ListPrompts,
                ),
                tool(
                    "get_prompt",
                    "Get a prompt that list_prompts names.",
                    json!({
                        "type": "object",
                        "properties": {"name": text(), "arguments": {"type": "object"}},
                        "required": ["name"],
                    }),
                    ServerOperation::GetPrompt,
                ),
            ],
        }
    }
}

/// Returns the tools of a server that an agent may be offered, with a note for each that is left
/// out although the user did not exclude it.
pub fn offer_tools(
    rules: &ServedToolRules,
    descriptions: &[ServerToolDescription],
) -> (Vec<ServedTool>, Vec<String>) {
    let (mut tools, mut notes) = (Vec::new(), Vec::new());
    let mut used_names = BTreeSet::new();
    let server = &rules.server;
    let mut wanted_tools: Vec<&ServerToolDescription> = descriptions
        .iter()
        .filter(|tool| rules.is_chosen(&tool.name))
        .collect();
    if let Some(more) = wanted_tools
        .len()
        .checked_sub(TOOLS_PER_SERVER_MAX)
        .filter(|more| *more > 0)
    {
        wanted_tools.truncate(TOOLS_PER_SERVER_MAX);
        let more = count_noun(more, "tool");
        notes.push(format!(
            "{more} of `{server}` too many: {TOOLS_PER_SERVER_MAX} are offered; choose with \
             `allowed_tools`"
        ));
    }
    for tool in wanted_tools {
        let name = escape_name(&truncate(&tool.name, NAME_CHARS_MAX));
        match rules.served_tool(tool) {
            Ok(tool) if used_names.insert(tool.offer.name.clone()) => tools.push(tool),
            Ok(_) => notes.push(format!(
                "`{name}` of `{server}` is not offered: another of its tools has this name"
            )),
            Err(reason) => {
                notes.push(format!("`{name}` of `{server}` is not offered: {reason}"));
            }
        }
    }
    let is_known = |name: &&String| {
        descriptions
            .iter()
            .any(|tool| rules.names(name, &tool.name))
    };
    let allowed_names = rules
        .allowed
        .iter()
        .flatten()
        .map(|name| (name, "allowed_tools"));
    let ruled_names = rules.tool_rules.keys().map(|name| (name, "tools"));
    let excluded_names = rules.excluded.iter().map(|name| (name, "exclude_tools"));
    let unknown_names = allowed_names
        .chain(excluded_names)
        .chain(ruled_names)
        .filter(|(name, _)| !is_known(name));
    notes.extend(
        unknown_names
            .map(|(name, key)| format!("`{server}` has no tool `{name}`, which `{key}` names")),
    );
    (tools, notes)
}

impl ServedToolRules {
    /// Returns whether an entry of a list names the server's tool `name`.
    fn names(&self, entry: &str, name: &str) -> bool {
        entry == name || full_name(self, name).is_some_and(|full| entry == full)
    }

    fn is_chosen(&self, name: &str) -> bool {
        let is_listed = |list: &[String]| list.iter().any(|entry| self.names(entry, name));
        let mut tool_rules = self.tool_rules.iter();
        let is_denied = tool_rules
            .any(|(entry, ruling)| *ruling == RuleAction::Deny && self.names(entry, name));
        self.allowed.as_deref().is_none_or(is_listed) && !is_listed(&self.excluded) && !is_denied
    }

    /// Returns the full name of the tool that an entry of a list names.
    pub fn full_name_of(&self, entry: &str) -> Option<String> {
        if entry.starts_with(&prefix(self)) {
            return Some(entry.to_owned());
        }
        full_name(self, entry)
    }

    /// Returns the tool as it is offered, or the reason why it is not.
    fn served_tool(&self, tool: &ServerToolDescription) -> Result<ServedTool, String> {
        let Some(offered_name) = full_name(self, &tool.name) else {
            return Err("a name has letters, digits, `_`, `-`, `.` and `/`".to_owned());
        };
        if offered_name.len() > FULL_NAME_BYTES_MAX {
            return Err(format!(
                "its name `{offered_name}` is longer than the {FULL_NAME_BYTES_MAX} bytes that vendors \
                 take; give the server a shorter name"
            ));
        }
        let is_harmless = self
            .harmless
            .iter()
            .any(|entry| self.names(entry, &tool.name));
        Ok(ServedTool {
            server: self.server.clone(),
            name: tool.name.clone(),
            operation: tool.operation,
            offer: ToolOffer {
                name: Cow::Owned(offered_name),
                description: description(&tool.description),
                parameters: clean_tool_schema(&tool.schema)?,
            },
            permission: self.permission,
            caller: self.caller,
            outside: if is_harmless {
                OutsideEffects::None
            } else {
                self.outside
            },
            content: self.content_arguments(&tool.name),
        })
    }

    /// Returns the arguments of a tool that are content, and so are never treated as paths.
    fn content_arguments(&self, tool: &str) -> Vec<String> {
        let argument = |entry: &String| match entry.rsplit_once('.') {
            None => Some(entry.clone()),
            Some((tool_name, argument)) => self.names(tool_name, tool).then(|| argument.to_owned()),
        };
        self.content.iter().filter_map(argument).collect()
    }
}

/// Returns the full name of a tool for models; `None` if it contains invalid characters.
fn full_name(rules: &ServedToolRules, name: &str) -> Option<String> {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if name.is_empty() || !name.chars().all(is_name_char) {
        return None;
    }
    let name = name.replace(['.', '/'], "_");
    Some(format!("{}{name}", prefix(rules)))
}

/// Returns what the full names of a server's tools begin with.
fn prefix(rules: &ServedToolRules) -> String {
    match rules.naming {
        ToolNaming::OfServer => format!("{SERVED_PREFIX}{}{SEPARATOR}", rules.server),
        ToolNaming::Custom => CUSTOM_PREFIX.to_owned(),
    }
}

/// Sanitizes a description: escapes control and invisible characters and truncates it.
fn description(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(escape_line).collect();
    truncate(lines.join("\n").trim(), DESCRIPTION_CHARS_MAX)
}

/// Returns a schema that can be sent to vendors, or the reason why it cannot.
pub fn clean_tool_schema(schema: &Value) -> Result<Value, String> {
    let Value::Object(fields) = schema else {
        return Err("its schema is no JSON object".to_owned());
    };
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(format!(
            "its schema has {bytes} bytes: expected at most {SCHEMA_BYTES_MAX}"
        ));
    }
    let is_object = |kind: &Value| {
        kind == "object"
            || kind
                .as_array()
                .is_some_and(|kinds| kinds.contains(&json!("object")))
    };
    if !fields.get("type").is_none_or(is_object) {
        return Err("its schema is not about an object".to_owned());
    }
    let Some(Value::Object(mut clean)) = clean_schema(schema, SCHEMA_DEPTH_MAX) else {
        return Err(format!(
            "its schema is nested deeper than {SCHEMA_DEPTH_MAX} levels"
        ));
    };
    clean.insert("type".to_owned(), json!("object"));
    clean.entry("properties").or_insert_with(|| json!({}));
    Ok(Value::Object(clean))
}

/// Returns the value with control and invisible characters of all its strings escaped; `None` if it
/// is nested deeper than `depth` levels.
fn clean_schema(value: &Value, depth: usize) -> Option<Value> {
    let depth_below = depth.checked_sub(1)?;
    Some(match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => {
            let lines: Vec<String> = text.split('\n').map(escape_line).collect();
            Value::String(lines.join("\n"))
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| clean_schema(item, depth_below));
            Value::Array(items.collect::<Option<_>>()?)
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                Some((escape_line(name), clean_schema(value, depth_below)?))
            };
            Value::Object(fields.iter().map(field).collect::<Option<Map<_, _>>>()?)
        }
    })
}
