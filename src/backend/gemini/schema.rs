//! Converts JSON Schema to the dialect in which Google's models are given the parameters of a tool.

use serde_json::{Map, Value, json};

/// The supported keywords:
/// <https://ai.google.dev/api/generate-content#FIELDS.response_json_schema>.
const KEYWORDS: &[&str] = &[
    "$anchor",
    "$defs",
    "$id",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "oneOf",
    "prefixItems",
    "properties",
    "propertyOrdering",
    "required",
    "title",
    "type",
];

/// Returns the schema of a tool's arguments; a tool without arguments has no schema.
pub(super) fn tool_parameters(schema: &Value) -> Option<Value> {
    let properties = schema.get("properties")?.as_object()?;
    (!properties.is_empty()).then(|| adapt_schema(schema))
}

/// Removes from a schema what the dialect does not support. It then allows more than before, never
/// less; the arguments are checked when a call arrives.
fn adapt_schema(schema: &Value) -> Value {
    let Value::Object(schema) = schema else {
        return schema.clone();
    };
    // A reference must have no siblings.
    let is_reference = schema.contains_key("$ref");
    let keywords = schema.iter().filter_map(|(keyword, value)| {
        if is_reference && !keyword.starts_with('$') {
            return None;
        }
        let (keyword, value) = match keyword.as_str() {
            "const" => ("enum", enum_values(std::slice::from_ref(value))?),
            "enum" => ("enum", enum_values(value.as_array()?)?),
            known => (
                *KEYWORDS.iter().find(|name| **name == known)?,
                adapt_keyword(known, value),
            ),
        };
        Some((keyword.to_owned(), value))
    });
    Value::Object(keywords.collect())
}

/// Converts the value of a keyword, including the schemas in it.
fn adapt_keyword(keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        ("properties" | "$defs", Value::Object(named)) => {
            let named_schemas = named.iter();
            let adapted = named_schemas.map(|(name, schema)| (name.clone(), adapt_schema(schema)));
            Value::Object(adapted.collect::<Map<String, Value>>())
        }
        ("anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
            schemas.iter().map(adapt_schema).collect()
        }
        ("items" | "additionalProperties", schema) => adapt_schema(schema),
        (_, value) => value.clone(),
    }
}

/// Returns the values of an `enum` that are strings or numbers.
fn enum_values(values: &[Value]) -> Option<Value> {
    let is_supported = |value: &&Value| value.is_string() || value.is_number();
    let values: Vec<&Value> = values.iter().filter(is_supported).collect();
    (!values.is_empty()).then(|| json!(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::workflow::tool_tables;

    /// Asserts recursively that every keyword of a schema is one of the dialect's.
    fn assert_supported_keywords(schema: &Value) {
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            assert!(KEYWORDS.contains(&keyword.as_str()), "{keyword}");
            match keyword.as_str() {
                "properties" | "$defs" => {
                    value
                        .as_object()
                        .unwrap()
                        .values()
                        .for_each(assert_supported_keywords);
                }
                "anyOf" | "oneOf" | "prefixItems" => {
                    value
                        .as_array()
                        .unwrap()
                        .iter()
                        .for_each(assert_supported_keywords);
                }
                "items" | "additionalProperties" => assert_supported_keywords(value),
                _ => {}
            }
        }
    }

    #[track_caller]
    fn check(schema: &Value, expected: Option<&Value>) {
        let adapted = tool_parameters(schema);
        assert_eq!(adapted.as_ref(), expected, "{schema}");
        adapted.iter().for_each(assert_supported_keywords);
    }

    #[test]
    fn schemas_of_massgens_tools_are_sent_unchanged() {
        for tool in tool_tables().into_iter().flatten() {
            let schema = tool.offer().parameters;
            check(&schema, (!tool.parameters.is_empty()).then_some(&schema));
        }
    }

    #[test]
    fn unsupported_schema_keywords_are_removed_at_every_depth() {
        check(&json!({"type": "object", "properties": {}}), None);
        check(&json!({"type": "object"}), None);
        let object = |schema: Value| json!({"type": "object", "properties": {"p": schema}});
        let check_parameter =
            |schema: Value, adapted: Value| check(&object(schema), Some(&object(adapted)));
        check_parameter(
            json!({"type": "string", "pattern": "^a", "minLength": 1, "default": "a"}),
            json!({"type": "string"}),
        );
        check_parameter(
            json!({"type": "array", "uniqueItems": true, "items": {"type": "integer", "not": {}}}),
            json!({"type": "array", "items": {"type": "integer"}}),
        );
        check_parameter(
            json!({"anyOf": [{"type": "null"}, {"type": "string", "examples": ["a"]}]}),
            json!({"anyOf": [{"type": "null"}, {"type": "string"}]}),
        );
        check_parameter(
            json!({"type": "object", "properties": {"pattern": {"const": "a"}}, "additionalProperties": false}),
            json!({"type": "object", "properties": {"pattern": {"enum": ["a"]}}, "additionalProperties": false}),
        );
        check_parameter(
            json!({"enum": ["a", null, 1, true]}),
            json!({"enum": ["a", 1]}),
        );
        check_parameter(json!({"enum": [true]}), json!({}));
        check_parameter(
            json!({"$ref": "#/$defs/a", "description": "x"}),
            json!({"$ref": "#/$defs/a"}),
        );
        let with_definitions = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": {"a": {"type": "string", "contentEncoding": "base64"}},
            "type": "object", "properties": {"p": {"$ref": "#/$defs/a"}}, "required": ["p"],
        });
        let adapted = json!({
            "$defs": {"a": {"type": "string"}},
            "type": "object", "properties": {"p": {"$ref": "#/$defs/a"}}, "required": ["p"],
        });
        check(&with_definitions, Some(&adapted));
    }
}
