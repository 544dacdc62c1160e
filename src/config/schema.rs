//! Owns the JSON Schema of a config, for editors. It is made from the table of keys.

use serde_json::{Map, Value, json};

use crate::config::keys::{Key, Others, SECTIONS, Section, Shape, Status};
use crate::config::vendors::VENDORS;

/// The dialect that the schema is written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of the whole YAML.
pub fn schema() -> Value {
    let sections = SECTIONS.iter().filter(|section| !section.path.is_empty());
    let definitions: Map<String, Value> = sections
        .map(|section| (definition_name(section), section_schema(section)))
        .collect();
    let mut schema = json!({
        "$schema": DIALECT,
        "title": "massgen config",
        "$defs": definitions,
        "oneOf": [{ "required": ["agents"] }, { "required": ["agent"] }],
    });
    if let (Some(schema), Some(Value::Object(root))) = (
        schema.as_object_mut(),
        SECTIONS
            .iter()
            .find(|section| section.path.is_empty())
            .map(|root| section_schema(root)),
    ) {
        schema.extend(root);
    }
    schema
}

fn section_schema(section: &Section) -> Value {
    let names = |key: &'static Key| key.names.iter().map(move |name| (*name, key));
    let properties: Map<String, Value> = section
        .keys
        .iter()
        .flat_map(names)
        .map(|(name, key)| (name.to_owned(), key_schema(section, name, key)))
        .collect();
    let required: Vec<&str> = section
        .keys
        .iter()
        .filter(|key| key.status == Status::Required)
        .flat_map(|key| key.names.iter().copied())
        .collect();
    json!({
        "type": ["object", "null"],
        "description": section.doc,
        "properties": properties,
        "patternProperties": { "^x-": {} },
        "required": required,
        "additionalProperties": section.others == Others::Passed,
    })
}

fn key_schema(section: &Section, name: &str, key: &Key) -> Value {
    let mut schema = Map::new();
    let is_backend_type = section.others == Others::Passed && name == "type";
    match key.status {
        Status::Refused => {
            schema.insert("not".to_owned(), json!({}));
        }
        Status::Unserved => {
            schema.insert("deprecated".to_owned(), json!(true));
        }
        Status::Required | Status::Served | Status::Passed => {}
    }
    let doc = match key.status {
        Status::Unserved => format!("Not supported: {}.", key.doc),
        Status::Refused => format!("An error: {}.", key.doc),
        Status::Required | Status::Served | Status::Passed => key.doc.to_owned(),
    };
    schema.insert("description".to_owned(), json!(doc));
    let shape = if is_backend_type {
        let served = VENDORS.iter().filter(|vendor| vendor.is_served());
        json!({ "enum": served.map(|vendor| vendor.name).collect::<Vec<_>>() })
    } else {
        shape_schema(&key.shape)
    };
    if let Value::Object(shape) = shape {
        schema.extend(shape);
    }
    Value::Object(schema)
}

/// The schema of a shape. `${NAME}` can stand for any single value, and nothing for every value.
fn shape_schema(shape: &Shape) -> Value {
    let variable = json!({ "type": "string", "pattern": "\\$\\{[A-Z_][A-Z0-9_]*\\}" });
    let nothing = json!({ "type": "null" });
    match shape {
        Shape::Any | Shape::Verbatim => json!({}),
        Shape::Text => json!({ "type": ["string", "number", "boolean", "null"] }),
        Shape::Flag => json!({ "anyOf": [{ "type": "boolean" }, variable, nothing] }),
        Shape::Integer(least, most) => json!({
            "anyOf": [{ "type": "integer", "minimum": least, "maximum": most }, variable, nothing],
        }),
        Shape::Number(least, most) => json!({
            "anyOf": [{ "type": "number", "minimum": least, "maximum": most }, variable, nothing],
        }),
        Shape::OneOf(names) => json!({ "anyOf": [{ "enum": names }, variable, nothing] }),
        Shape::List(item) => json!({ "type": ["array", "null"], "items": shape_schema(item) }),
        Shape::Mapping(section) => reference(section),
        Shape::TextOr(section) => json!({ "anyOf": [{ "type": "string" }, reference(section)] }),
    }
}

fn reference(section: &Section) -> Value {
    json!({ "$ref": format!("#/$defs/{}", definition_name(section)) })
}

/// The last name of a section's path: `backend` of `agents[].backend`.
fn definition_name(section: &Section) -> String {
    let last = section.path.rsplit('.').next().unwrap_or_default();
    last.trim_end_matches("[]").to_owned()
}
