//! Tools whose arguments the vendor makes conform to their schema, as far as it can:
//! <https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use>. It accepts only
//! a part of JSON Schema, and only a limited number of such tools in a request; the others are sent
//! as usual.

use serde_json::{Map, Value, json};

use crate::tools::served::is_served_name;
use crate::tools::spec::ToolOffer;

/// Maximum number of such tools in a request.
const TOOLS_MAX: usize = 20;
/// Maximum number of optional parameters of all of them.
const OPTIONAL_MAX: usize = 24;
/// Maximum depth of a schema, which bounds the recursion.
const DEPTH_MAX: usize = 16;
/// The keywords that the vendor accepts in a schema; those that it does not enforce are among them.
const KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "description",
    "title",
    "default",
];

/// What is left of the limits of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct StrictToolLimits {
    tools_left: usize,
    optional_parameters_left: usize,
}

impl Default for StrictToolLimits {
    fn default() -> Self {
        Self {
            tools_left: TOOLS_MAX,
            optional_parameters_left: OPTIONAL_MAX,
        }
    }
}

impl StrictToolLimits {
    /// Returns the schema with which a tool is strict, if it can be: a tool of the user's, of a
    /// server or a custom one, within the limits.
    pub(super) fn strict_schema(&mut self, offer: &ToolOffer) -> Option<Value> {
        let tools_left = self.tools_left.checked_sub(1)?;
        if !is_served_name(&offer.name) {
            return None;
        }
        let mut optional_count = 0;
        let schema = closed_schema(&offer.parameters, &mut optional_count, 0)?;
        let optional_parameters_left = self.optional_parameters_left.checked_sub(optional_count)?;
        *self = Self {
            tools_left,
            optional_parameters_left,
        };
        Some(schema)
    }
}

/// Returns the same schema with objects that have no other properties than those it lists, and
/// counts the optional ones; `None` if the vendor does not accept it.
fn closed_schema(schema: &Value, optional_count: &mut usize, depth: usize) -> Option<Value> {
    let schema = schema.as_object()?;
    let is_accepted = |(key, value): (&String, &Value)| match key.as_str() {
        "additionalProperties" => *value != Value::Bool(true) && !value.is_object(),
        // Several types are a union, of which the vendor accepts few.
        "type" => value.is_string(),
        key => KEYWORDS.contains(&key),
    };
    if depth > DEPTH_MAX || !schema.iter().all(is_accepted) {
        return None;
    }
    let mut closed = Map::new();
    for (key, value) in schema {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let mut strict_properties = Map::new();
                for (name, property) in properties {
                    let property = closed_schema(property, optional_count, depth + 1)?;
                    strict_properties.insert(name.clone(), property);
                }
                strict_properties.into()
            }
            ("items", items) => closed_schema(items, optional_count, depth + 1)?,
            ("anyOf", Value::Array(variants)) => {
                let mut closed = Vec::new();
                for variant in variants {
                    closed.push(closed_schema(variant, optional_count, depth + 1)?);
                }
                closed.into()
            }
            (_, value) => value.clone(),
        };
        closed.insert(key.clone(), value);
    }
    if schema.get("type") == Some(&json!("object")) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let required_names = schema.get("required").and_then(Value::as_array);
        let optional = properties
            .map_or(0, Map::len)
            .saturating_sub(required_names.map_or(0, Vec::len));
        *optional_count = optional_count.saturating_add(optional);
        closed.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Some(closed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &str, parameters: Value) -> ToolOffer {
        ToolOffer {
            name: name.to_owned().into(),
            description: String::new(),
            parameters,
        }
    }

    #[track_caller]
    fn check(parameters: Value, expected: Option<&Value>) {
        let offer = offer("mcp__s__t", parameters);
        let schema = StrictToolLimits::default().strict_schema(&offer);
        assert_eq!(schema.as_ref(), expected, "{offer:?}");
    }

    #[test]
    fn a_schema_that_the_vendor_accepts_is_closed() {
        let inner = json!({"type": "object", "properties": {"b": {"type": "integer"}}});
        let closed = json!({"type": "object", "properties": {"b": {"type": "integer"}},
            "additionalProperties": false});
        check(
            json!({"type": "object", "required": ["a"],
                "properties": {"a": {"type": "array", "items": inner}}}),
            Some(&json!({"type": "object", "required": ["a"],
                "properties": {"a": {"type": "array", "items": closed}},
                "additionalProperties": false})),
        );
        for unaccepted in [
            json!({"type": "integer", "minimum": 1}),
            json!({"type": ["string", "null"]}),
            json!({"$ref": "#/$defs/a"}),
            json!({"type": "object", "additionalProperties": true}),
        ] {
            check(
                json!({"type": "object", "properties": {"a": unaccepted}}),
                None,
            );
        }
    }

    #[test]
    fn only_tools_of_the_user_within_the_limits_are_strict() {
        let simple = || json!({"type": "object"});
        let mut limits = StrictToolLimits::default();
        assert!(
            limits
                .strict_schema(&offer("new_answer", simple()))
                .is_none()
        );
        let many = (0..=OPTIONAL_MAX).map(|at| (at.to_string(), json!({})));
        let many = json!({"type": "object", "properties": many.collect::<Map<_, _>>()});
        assert!(limits.strict_schema(&offer("mcp__s__t", many)).is_none());
        for _ in 0..TOOLS_MAX {
            assert!(
                limits
                    .strict_schema(&offer("mcp__s__t", simple()))
                    .is_some()
            );
        }
        assert!(
            limits
                .strict_schema(&offer("mcp__s__t", simple()))
                .is_none()
        );
    }
}
