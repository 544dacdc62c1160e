//! Schemas of tools as the APIs of vendors accept them.

use serde_json::{Map, Value, json};

/// Returns a schema in which the properties of alternatives and parts at the top are its own, because
/// vendors refuse these keywords there. What all parts require stays required; the tool's server
/// checks the rest.
pub fn fold_alternatives(schema: &Value) -> Value {
    let Value::Object(fields) = schema else {
        return schema.clone();
    };
    let mut folded = fields.clone();
    for keyword in ["allOf", "anyOf", "oneOf", "not", "enum"] {
        let members = folded.remove(keyword);
        let members = members.as_ref().and_then(Value::as_array).into_iter();
        for member in members.flatten().filter(|_| keyword.ends_with("Of")) {
            add_properties(&mut folded, member);
            if keyword == "allOf" {
                add_required(&mut folded, member);
            }
        }
    }
    Value::Object(folded)
}

fn add_properties(schema: &mut Map<String, Value>, member: &Value) {
    let properties = member.get("properties").and_then(Value::as_object);
    let own = schema.entry("properties").or_insert_with(|| json!({}));
    if let (Some(properties), Value::Object(own)) = (properties, own) {
        for (name, property) in properties {
            own.entry(name.clone()).or_insert_with(|| property.clone());
        }
    }
}

fn add_required(schema: &mut Map<String, Value>, member: &Value) {
    let names = member.get("required").and_then(Value::as_array);
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let (Some(names), Value::Array(required)) = (names, required) {
        required.extend(names.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_at_the_top_of_a_schema_are_folded() {
        let part =
            |name: &str| json!({"properties": {name: {"type": "string"}}, "required": [name]});
        for (keyword, required) in [("allOf", json!(["a", "b"])), ("anyOf", Value::Null)] {
            let schema =
                fold_alternatives(&json!({"type": "object", keyword: [part("a"), part("b")]}));
            assert_eq!(schema.get(keyword), None);
            assert_eq!(schema["properties"]["b"], json!({"type": "string"}));
            assert_eq!(schema["required"], required);
        }
        let plain = json!({"type": "object", "properties": {"a": {"enum": [1]}}});
        assert_eq!(fold_alternatives(&plain), plain);
    }
}
