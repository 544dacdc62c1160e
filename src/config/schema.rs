//! Generates the JSON Schema of a config, for editors, from the table of keys.

use serde_json::{Map, Value, json};

use crate::config::keys::root::{self, ROOT};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, KeyStatus, SECTIONS, UnknownKeys, ValueShape,
};
use crate::config::vendors::VENDORS;

/// The dialect of the schema.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the schema of the whole YAML.
pub fn schema() -> Value {
    let sections = SECTIONS.iter().filter(|section| !section.path.is_empty());
    let definitions: Map<String, Value> = sections
        .map(|section| (definition_name(section), section_schema(section).into()))
        .collect();
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), DIALECT.into());
    schema.insert("title".to_owned(), "massgen config".into());
    schema.extend(section_schema(&ROOT));
    let requires = |name: &str| json!({ "required": [name] });
    let alternatives = json!([requires(root::AGENTS.name()), requires(root::AGENT.name())]);
    schema.insert("oneOf".to_owned(), alternatives);
    schema.insert("$defs".to_owned(), definitions.into());
    schema.into()
}

fn section_schema(section: &KeySection) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required_names = Vec::new();
    for key in section.known_keys() {
        for name in key.names.iter().copied() {
            properties.insert(name.to_owned(), key_schema(section, name, key));
            if key.status == KeyStatus::Required {
                required_names.push(name);
            }
        }
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!(["object", "null"]));
    schema.insert("description".to_owned(), section.doc.into());
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("patternProperties".to_owned(), json!({ "^x-": {} }));
    schema.insert("required".to_owned(), required_names.into());
    let allows_unknown_keys = section.unknown_keys != UnknownKeys::Refused;
    schema.insert(
        "additionalProperties".to_owned(),
        allows_unknown_keys.into(),
    );
    schema
}

fn key_schema(section: &KeySection, name: &str, key: &ConfigKey) -> Value {
    let (doc, keyword) = match key.status {
        KeyStatus::Required | KeyStatus::Supported | KeyStatus::PassedOn => {
            (key.doc.to_owned(), None)
        }
        KeyStatus::Unsupported(IgnoredEffect::Restricts | IgnoredEffect::RestrictsAs(_)) => {
            let doc = format!("Not supported, and an error: {}.", key.doc);
            (doc, Some(("deprecated", json!(true))))
        }
        KeyStatus::Unsupported(IgnoredEffect::Nothing) => {
            let doc = format!("Changes nothing: {}.", key.doc);
            (doc, Some(("deprecated", json!(true))))
        }
        KeyStatus::Unsupported(IgnoredEffect::Convenience) => {
            let doc = format!("Not supported: {}.", key.doc);
            (doc, Some(("deprecated", json!(true))))
        }
        KeyStatus::Refused => (format!("An error: {}.", key.doc), Some(("not", json!({})))),
    };
    let is_backend_type = section.unknown_keys != UnknownKeys::Refused && name == "type";
    let value_schema = if is_backend_type {
        let supported = VENDORS.iter().filter(|vendor| vendor.is_supported());
        json!({ "enum": supported.map(|vendor| vendor.name).collect::<Vec<_>>() })
    } else if key.foreign_values.is_empty() {
        shape_schema(&key.shape)
    } else {
        let massgen_values = key.foreign_values.iter().map(|value| value.massgen_value);
        let massgen_values: Vec<&str> = massgen_values.collect();
        let deprecated_schema = json!({ "enum": massgen_values, "deprecated": true });
        json!({ "anyOf": [shape_schema(&key.shape), deprecated_schema] })
    };
    let mut schema = Map::new();
    schema.insert("description".to_owned(), doc.into());
    if let Some((name, value)) = keyword {
        schema.insert(name.to_owned(), value);
    }
    if let Value::Object(keywords) = value_schema {
        schema.extend(keywords);
    }
    schema.into()
}

/// Returns the schema of a shape. `${NAME}` is valid for any scalar, and null for any value.
fn shape_schema(shape: &ValueShape) -> Value {
    let variable = json!({ "type": "string", "pattern": "\\$\\{[A-Z_][A-Z0-9_]*\\}" });
    let null_type = json!({ "type": "null" });
    match shape {
        ValueShape::Any | ValueShape::Verbatim => json!({}),
        ValueShape::Text => json!({ "type": ["string", "number", "boolean", "null"] }),
        ValueShape::Flag => json!({ "anyOf": [{ "type": "boolean" }, variable, null_type] }),
        ValueShape::Integer(min, max) => json!({
            "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, variable, null_type],
        }),
        ValueShape::Number(min, max) => json!({
            "anyOf": [{ "type": "number", "minimum": min, "maximum": max }, variable, null_type],
        }),
        ValueShape::OneOf(names) => json!({ "anyOf": [{ "enum": names }, variable, null_type] }),
        ValueShape::OneOfOrList(names) => json!({
            "anyOf": [
                { "enum": names },
                { "type": "array", "items": { "type": "string" } },
                variable,
                null_type,
            ],
        }),
        ValueShape::Size(..) => json!({
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]+[kmgtKMGT]?[bB]?$" },
                variable,
                null_type,
            ],
        }),
        ValueShape::Names => json!({
            "anyOf": [
                { "type": "array", "items": { "type": "string" } },
                { "type": "object", "additionalProperties": shape_schema(&ValueShape::Text) },
                null_type,
            ],
        }),
        ValueShape::List(item) => json!({ "type": ["array", "null"], "items": shape_schema(item) }),
        ValueShape::Mapping(section) => reference(section),
        ValueShape::TextOr(section) => {
            json!({ "anyOf": [{ "type": "string" }, reference(section)] })
        }
        ValueShape::Named(section) => json!({
            "anyOf": [
                { "type": "array", "items": reference(section) },
                { "type": "object", "additionalProperties": reference(section) },
                null_type,
            ],
        }),
    }
}

fn reference(section: &KeySection) -> Value {
    json!({ "$ref": format!("#/$defs/{}", definition_name(section)) })
}

/// Returns the last component of a section's path: `backend` of `agents[].backend`.
fn definition_name(section: &KeySection) -> String {
    let last_part = section.path.rsplit('.').next().unwrap_or_default();
    last_part.trim_end_matches("[]").to_owned()
}
