//! Implements `massgen schema events`: generates the JSON Schema of every line of a stream, of the
//! event log and of the format `json` from the types that are serialized.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::cli::result::RunResult;
use crate::event::Event;
use crate::world::store::json_line::JsonLine;

/// Returns the schema.
pub(crate) fn event_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let mut lines = closed_variants::<JsonLine<Event>>(&mut generator);
    for line in &mut lines {
        if let Some(properties) = line.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("checksum".to_owned(), checksum_schema());
        }
    }
    lines.extend(closed_variants::<JsonLine<RunResult>>(&mut generator));
    let mut definitions = generator.take_definitions(true);
    for definition in definitions.values_mut() {
        if let Ok(schema) = definition.try_into() {
            ClosedObjectTransform.transform(schema);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "massgen events",
        "description": "A line of `--output-format stream-json` or of `events.jsonl`, or the object \
                        of `--output-format json`. A stream always ends with a `result`.",
        "oneOf": lines,
        "$defs": definitions,
    })
}

/// Returns the variants of `T`, each with all its properties.
fn closed_variants<T: JsonSchema>(generator: &mut SchemaGenerator) -> Vec<Value> {
    let mut schema = T::json_schema(generator);
    ClosedObjectTransform.transform(&mut schema);
    match schema.remove("oneOf") {
        Some(Value::Array(variants)) => variants,
        Some(_) | None => vec![schema.to_value()],
    }
}

fn checksum_schema() -> Value {
    json!({
        "description": "Only in the log: detects truncated or modified lines.",
        "type": "string",
        "pattern": "^[0-9a-f]{8}$",
    })
}

/// Adds the properties that all variants of an object share to each variant, and forbids other
/// properties. Also joins descriptions to one line.
#[derive(Clone, Debug)]
struct ClosedObjectTransform;

impl Transform for ClosedObjectTransform {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else {
            return;
        };
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = text.replace('\n', " ");
        }
        let is_object = object.get("type").and_then(Value::as_str) == Some("object");
        if let Some(Value::Array(mut variants)) = object.remove("oneOf") {
            if is_object {
                for variant in &mut variants {
                    add_shared_properties(variant, object);
                }
                object.retain(|key, _| key == "description");
            }
            object.insert("oneOf".to_owned(), variants.into());
        }
        if object.contains_key("properties") {
            object.insert("additionalProperties".to_owned(), false.into());
        }
    }
}

/// Inserts the `shared` properties before those of `variant`.
fn add_shared_properties(variant: &mut Value, shared: &Map<String, Value>) {
    let value_of = |object: &Map<String, Value>, key| object.get(key).cloned().unwrap_or_default();
    let Some(variant) = variant.as_object_mut() else {
        return;
    };
    let mut properties = Map::new();
    let mut required = Vec::new();
    for object in [shared, &*variant] {
        if let Value::Object(form_properties) = value_of(object, "properties") {
            properties.extend(form_properties);
        }
        if let Value::Array(names) = value_of(object, "required") {
            required.extend(names);
        }
    }
    variant.insert("properties".to_owned(), properties.into());
    variant.insert("required".to_owned(), required.into());
    variant.insert("additionalProperties".to_owned(), false.into());
}
