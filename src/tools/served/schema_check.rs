//! Checks the arguments of a call against the schema of the user's own tool: types, `enum`,
//! `required` and `additionalProperties`. The tool itself has to check everything else.

use serde_json::{Map, Value};

use crate::text::single_line;
use crate::tools::served::offer::SCHEMA_DEPTH_MAX;

/// The longest name that a message quotes, in characters.
const NAME_CHARS_MAX: usize = 80;

/// Returns what is wrong with `arguments`, as a message for the model.
pub fn argument_error(schema: &Value, arguments: &Map<String, Value>) -> Option<String> {
    let value = Value::Object(arguments.clone());
    value_error(schema, &value, "", SCHEMA_DEPTH_MAX)
}

/// Returns what is wrong with the value at `location`.
fn value_error(schema: &Value, value: &Value, location: &str, depth: usize) -> Option<String> {
    let depth_below = depth.checked_sub(1)?;
    let subject = || match location {
        "" => "the arguments".to_owned(),
        location => format!("`{}`", single_line(location, NAME_CHARS_MAX)),
    };
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        let allowed_texts: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Some(format!(
            "{} must be one of {}",
            subject(),
            allowed_texts.join(", ")
        ));
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_of_type(value, kind)) {
        return Some(format!(
            "{} must be of type {}",
            subject(),
            kinds.join(" or ")
        ));
    }
    match value {
        Value::Array(items) => {
            let schema = schema.get("items")?;
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| {
                value_error(schema, item, &format!("{location}[{index}]"), depth_below)
            })
        }
        Value::Object(fields) => fields_error(schema, fields, location, depth_below),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn fields_error(
    schema: &Value,
    fields: &Map<String, Value>,
    location: &str,
    depth: usize,
) -> Option<String> {
    let path = |name: &str| match location {
        "" => name.to_owned(),
        location => format!("{location}.{name}"),
    };
    let mut required_names = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    if let Some(missing_name) = required_names.find(|name| !fields.contains_key(*name)) {
        return Some(format!("`{}` is missing", path(missing_name)));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let additional = schema.get("additionalProperties");
    fields.iter().find_map(|(name, value)| {
        match (properties.and_then(|known| known.get(name)), additional) {
            (None, Some(Value::Bool(false))) => {
                let name = single_line(&path(name), NAME_CHARS_MAX);
                Some(format!("there is no argument `{name}`"))
            }
            (Some(schema), _) | (None, Some(schema)) => {
                value_error(schema, value, &path(name), depth)
            }
            (None, None) => None,
        }
    })
}

/// Returns whether a value has a type of JSON Schema. Unknown types have all values.
fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_do_not_fit_the_schema_are_named() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "count": {"type": ["integer", "null"]},
                "unit": {"enum": ["m", "km"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "more": {"type": "object", "required": ["a"], "additionalProperties": {"type": "number"}},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        let check = |arguments: Value, expected: Option<&str>| {
            let Value::Object(arguments) = arguments else {
                panic!("not an object");
            };
            let message = argument_error(&schema, &arguments);
            assert_eq!(message.as_deref(), expected, "{arguments:?}");
        };
        check(json!({"path": "a"}), None);
        check(
            json!({"path": "a", "count": 1.0, "unit": "km", "tags": ["x"], "more": {"a": 1}}),
            None,
        );
        check(json!({}), Some("`path` is missing"));
        check(json!({"path": 1}), Some("`path` must be of type string"));
        check(
            json!({"path": "a", "count": 1.5}),
            Some("`count` must be of type integer or null"),
        );
        check(
            json!({"path": "a", "unit": "s"}),
            Some("`unit` must be one of \"m\", \"km\""),
        );
        check(
            json!({"path": "a", "tags": ["x", 2]}),
            Some("`tags[1]` must be of type string"),
        );
        check(
            json!({"path": "a", "more": {"b": 1}}),
            Some("`more.a` is missing"),
        );
        check(
            json!({"path": "a", "more": {"a": "x"}}),
            Some("`more.a` must be of type number"),
        );
        check(
            json!({"path": "a", "z": 1}),
            Some("there is no argument `z`"),
        );
        check(json!({"path": "a", "more": {"a": 1}}), None);
    }
}
