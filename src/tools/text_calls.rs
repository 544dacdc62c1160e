//! Tool calls that a model writes as text, as models of small local servers do whose templates the
//! server cannot parse. A text is a call only if all of it is one call of a tool that is offered,
//! with arguments that the tool takes.

use serde_json::{Map, Value};

use crate::tools::spec::ToolOffer;

/// Maximum length of a text that can be a call, in bytes.
pub const TEXT_CALL_BYTES_MAX: usize = 256 * 1024;
/// The mark around a block of code.
const FENCE: &str = "```";
/// The element in which many models write a call, as their templates say.
const CALL_ELEMENT: &str = "tool_call";
/// The names of the arguments in a call.
const ARGUMENTS: &[&str] = &["arguments", "parameters"];

/// A call that is written as text.
#[derive(Debug, PartialEq, Eq)]
pub struct TextCall {
    /// The tool's name.
    pub name: String,
    /// The arguments, as JSON.
    pub arguments: String,
}

/// Returns the call that `text` consists of, if it is one of `tools`.
pub fn parse_text_call(text: &str, tools: &[ToolOffer]) -> Option<TextCall> {
    if text.len() > TEXT_CALL_BYTES_MAX {
        return None;
    }
    let text = without_fence(text.trim());
    if let Some(inside) = inside_element(text, CALL_ELEMENT) {
        return parse_named_call(inside, tools);
    }
    let in_element = tools.iter().find_map(|tool| {
        let inside = inside_element(text, &tool.name)?;
        checked_call(tool, &serde_json::from_str(inside).ok()?)
    });
    in_element.or_else(|| parse_named_call(text, tools))
}

/// Returns the text inside of a block of code, if all of `text` is one block.
fn without_fence(text: &str) -> &str {
    let inside = text
        .strip_prefix(FENCE)
        .and_then(|rest| rest.strip_suffix(FENCE))
        .and_then(|rest| rest.split_once('\n'));
    match inside {
        Some((_language, inside)) if !inside.contains(FENCE) => inside.trim(),
        Some(_) | None => text,
    }
}

/// Returns the text inside of an element, if all of `text` is that element.
fn inside_element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let rest = text.strip_prefix('<')?.strip_prefix(name)?;
    let rest = rest.strip_prefix('>')?.strip_suffix('>')?;
    let inside = rest.strip_suffix(name)?.strip_suffix("</")?;
    Some(inside.trim())
}

/// Parses an object that has a name and arguments, and nothing else.
fn parse_named_call(text: &str, tools: &[ToolOffer]) -> Option<TextCall> {
    let mut call: Map<String, Value> = serde_json::from_str(text).ok()?;
    let name = call.remove("name")?;
    let mut arguments = ARGUMENTS.iter().filter_map(|name| call.remove(*name));
    let (Some(arguments), None) = (arguments.next(), arguments.next()) else {
        return None;
    };
    // Some models write the arguments as a JSON string.
    let arguments = match arguments.as_str() {
        Some(text) => serde_json::from_str(text).ok()?,
        None => arguments,
    };
    if !call.is_empty() {
        return None;
    }
    let tool = tools.iter().find(|tool| name == *tool.name)?;
    checked_call(tool, &arguments)
}

/// Returns the call if the arguments fit the tool: all that it requires, none that is unknown, and
/// each of its type.
fn checked_call(tool: &ToolOffer, arguments: &Value) -> Option<TextCall> {
    let object = arguments.as_object()?;
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let mut required_names = tool
        .parameters
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let is_valid = |(name, value): (&String, &Value)| {
        let schema = properties.and_then(|properties| properties.get(name));
        schema.is_some_and(|schema| has_type_of(value, schema))
    };
    let is_complete = required_names.all(|name| object.contains_key(name));
    (is_complete && object.iter().all(is_valid)).then(|| TextCall {
        name: tool.name.clone().into_owned(),
        arguments: arguments.to_string(),
    })
}

/// Returns whether a value has a type that its schema allows. A schema without a type allows all.
fn has_type_of(value: &Value, schema: &Value) -> bool {
    let is_type = |name: &str| match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    };
    match schema.get("type") {
        Some(Value::String(name)) => is_type(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is_type),
        Some(_) | None => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<ToolOffer> {
        let text = json!({"type": "string"});
        let tool = |name: &'static str, parameters: Value| ToolOffer {
            name: name.into(),
            description: String::new(),
            parameters,
        };
        vec![
            tool(
                "new_answer",
                json!({"type": "object", "properties": {"content": text}, "required": ["content"]}),
            ),
            tool(
                "read_text_file",
                json!({"type": "object", "properties": {"path": text, "head": {"type": "integer"}}}),
            ),
        ]
    }

    #[test]
    fn a_text_that_is_one_call_of_an_offered_tool_is_that_call() {
        let answer = r#"{"content":"It is <b>42</b>."}"#;
        let named = r#"{"name": "new_answer", "arguments": {"content": "It is <b>42</b>."}}"#;
        for text in [
            format!("<new_answer>{answer}</new_answer>"),
            format!("\n <new_answer>\n{answer}\n</new_answer>\n"),
            format!("<tool_call>\n{named}\n</tool_call>"),
            named.to_owned(),
            named.replace("arguments", "parameters"),
            format!("```json\n{named}\n```"),
            format!("```\n{named}\n```\n"),
            json!({"name": "new_answer", "arguments": answer}).to_string(),
        ] {
            let expected = TextCall {
                name: "new_answer".to_owned(),
                arguments: answer.to_owned(),
            };
            assert_eq!(parse_text_call(&text, &tools()), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_text_that_may_be_anything_else_is_text() {
        let call = |name: &str, arguments: Value| {
            json!({"name": name, "arguments": arguments}).to_string()
        };
        let good = call("read_text_file", json!({"path": "a", "head": 3}));
        assert!(parse_text_call(&good, &tools()).is_some());
        for text in [
            String::new(),
            format!("I call it: {good}"),
            format!("{good}\nDone."),
            format!("{good}\n{good}"),
            format!("```json\n{good}\n```\n```json\n{good}\n```"),
            format!("[{good}]"),
            good.replace("read_text_file", "rm"),
            good.replace("\"name\"", "\"tool\""),
            good.replace("{\"name\"", "{\"note\": 1, \"name\""),
            call("read_text_file", json!({"path": 3})),
            call("read_text_file", json!({"path": "a", "mode": "x"})),
            call("read_text_file", json!({"head": 1.5})),
            call("read_text_file", json!(["a"])),
            call("new_answer", json!({})),
            "<new_answer>It is 42.</new_answer>".to_owned(),
            "<new_answer>{\"content\": \"a\"}".to_owned(),
            "<answer>{\"content\": \"a\"}</answer>".to_owned(),
            "{\"name\": \"new_answer\", \"arguments\": {\"content\": tru".to_owned(),
        ] {
            assert_eq!(parse_text_call(&text, &tools()), None, "{text}");
        }
    }
}
