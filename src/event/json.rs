//! The JSON form of an event, and its schema: one object whose `type` is the name of the event. It
//! does not contain the group; a reader looks for the group that has an event of that name.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use strum::VariantNames as _;

use crate::event::{
    CoordinationEvent, DeliveryEvent, Event, ModelEvent, PipelineEvent, RunEvent, SubagentEvent,
    ToolEvent,
};

/// The field that names the event.
const NAME_FIELD: &str = "type";

/// An event of a pipeline, whose own name is its `step`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum NamedPipelineEvent<E> {
    /// A pipeline of roles has made progress.
    Pipeline {
        /// The progress.
        #[serde(flatten)]
        step: E,
    },
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Event::Run(event) => event.serialize(serializer),
            Event::Model(event) => event.serialize(serializer),
            Event::Tool(event) => event.serialize(serializer),
            Event::Subagent(event) => event.serialize(serializer),
            Event::Coordination(event) => event.serialize(serializer),
            Event::Delivery(event) => event.serialize(serializer),
            Event::Pipeline(step) => NamedPipelineEvent::Pipeline { step }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        let name = fields
            .get(NAME_FIELD)
            .and_then(Value::as_str)
            .ok_or_else(|| D::Error::missing_field(NAME_FIELD))?;
        read(name, &fields).map_err(D::Error::custom)
    }
}

/// The name of an event in its JSON form.
#[derive(Deserialize)]
struct EventName<'n> {
    #[serde(rename = "type", borrow)]
    name: Cow<'n, str>,
}

/// Reads the event `name` from `json`, in the group that has an event of that name. The groups with
/// the most frequent events come first.
fn read<'de, D: Deserializer<'de>>(name: &str, json: D) -> Result<Event, D::Error> {
    let is_in = |names: &[&str]| names.contains(&name);
    if is_in(ModelEvent::VARIANTS) {
        ModelEvent::deserialize(json).map(Event::Model)
    } else if is_in(ToolEvent::VARIANTS) {
        ToolEvent::deserialize(json).map(Event::Tool)
    } else if is_in(SubagentEvent::VARIANTS) {
        SubagentEvent::deserialize(json).map(Event::Subagent)
    } else if is_in(CoordinationEvent::VARIANTS) {
        CoordinationEvent::deserialize(json).map(Event::Coordination)
    } else if is_in(DeliveryEvent::VARIANTS) {
        DeliveryEvent::deserialize(json).map(Event::Delivery)
    } else if is_in(RunEvent::VARIANTS) {
        RunEvent::deserialize(json).map(Event::Run)
    } else if name == "pipeline" {
        PipelineEvent::deserialize(json).map(Event::Pipeline)
    } else {
        Err(D::Error::custom(format_args!("there is no event `{name}`")))
    }
}

impl Event {
    /// Reads the event from a JSON object. Unknown fields are ignored.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        let EventName { name } = serde_json::from_str(text)?;
        read(&name, &mut serde_json::Deserializer::from_str(text))
    }

    /// Reads the event of this name from the fields of an object that follow its name, for a reader
    /// that has already read the name.
    pub(crate) fn from_fields<'de, A: MapAccess<'de>>(
        name: &str,
        fields: A,
    ) -> Result<Self, A::Error> {
        let fields = FieldsWithName {
            name,
            next_part: NamePart::Key,
            fields,
        };
        read(name, MapAccessDeserializer::new(fields))
    }
}

/// The fields of an event, its name first again: the groups read it to choose their variant.
struct FieldsWithName<'n, A> {
    name: &'n str,
    next_part: NamePart,
    fields: A,
}

/// The part of the field with the name that is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamePart {
    Key,
    Value,
    /// None: both have been read.
    Nothing,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for FieldsWithName<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        if self.next_part != NamePart::Key {
            return self.fields.next_key_seed(seed);
        }
        self.next_part = NamePart::Value;
        seed.deserialize(NAME_FIELD.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        if self.next_part != NamePart::Value {
            return self.fields.next_value_seed(seed);
        }
        self.next_part = NamePart::Nothing;
        seed.deserialize(self.name.into_deserializer())
    }
}

impl JsonSchema for Event {
    fn schema_name() -> Cow<'static, str> {
        "Event".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let groups = [
            RunEvent::json_schema(generator),
            ModelEvent::json_schema(generator),
            ToolEvent::json_schema(generator),
            SubagentEvent::json_schema(generator),
            CoordinationEvent::json_schema(generator),
            DeliveryEvent::json_schema(generator),
            NamedPipelineEvent::<PipelineEvent>::json_schema(generator),
        ];
        // One flat list of all events: a reader of the JSON form does not know the groups.
        let event_schemas: Vec<Value> = groups
            .into_iter()
            .filter_map(|mut group| group.remove("oneOf"))
            .filter_map(|schemas| serde_json::from_value::<Vec<Value>>(schemas).ok())
            .flatten()
            .collect();
        json_schema!({ "oneOf": event_schemas })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of each group, as a log writes it.
    const LINES: [&str; 7] = [
        r#"{"type":"limit_met","agent":null,"limit":"3 dollars"}"#,
        r#"{"type":"replied","agent":"a","text":"x","calls":[],"stop":"done"}"#,
        r#"{"type":"native_tool_call","agent":"a","tool":"Edit","detail":"f"}"#,
        r#"{"type":"subagent_model","agent":"a","call_id":"c","subagent":"s","event":{"type":"failed","agent":"a","reason":"r"}}"#,
        r#"{"type":"voted","agent":"a","candidate":"b","label":"agent2.1","reason":"r"}"#,
        r#"{"type":"delivered","rows":[{"path":"f","outcome":"created","sha256":null,"bytes":2}]}"#,
        r#"{"type":"pipeline","step":"merged","iteration":1,"role":"r","commit":"c","files":2}"#,
    ];

    #[track_caller]
    fn read(line: &str) -> serde_json::Result<Event> {
        let event = Event::from_json(line);
        let same = serde_json::from_str::<Event>(line);
        assert_eq!(event.as_ref().ok(), same.as_ref().ok(), "{line}");
        event
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        for line in LINES {
            let event = read(line).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), line);
        }
    }

    /// The names of the events of each group.
    const GROUPS: [&[&str]; 7] = [
        RunEvent::VARIANTS,
        ModelEvent::VARIANTS,
        ToolEvent::VARIANTS,
        SubagentEvent::VARIANTS,
        CoordinationEvent::VARIANTS,
        DeliveryEvent::VARIANTS,
        &["pipeline"],
    ];

    #[test]
    fn each_event_is_found_by_its_name_in_one_group() {
        let schema = schemars::schema_for!(Event);
        let forms = schema.as_value()["oneOf"].as_array().unwrap();
        for form in forms {
            let name = form["properties"]["type"]["const"].as_str().unwrap();
            let count = GROUPS.iter().filter(|names| names.contains(&name)).count();
            assert_eq!(count, 1, "{name}");
        }
        assert!(forms.len() > 30);
    }

    #[test]
    fn each_group_reads_the_events_that_it_names() {
        for name in GROUPS.concat() {
            let line = format!("{{\"type\":\"{name}\"}}");
            let read = super::read(name, &mut serde_json::Deserializer::from_str(&line));
            let refusal = read.map_or_else(|error| error.to_string(), |_| String::new());
            assert!(!refusal.starts_with("unknown variant"), "{name}: {refusal}");
        }
    }

    #[test]
    fn malformed_event_lines_are_errors() {
        #[track_caller]
        fn check(line: &str, expected: &str) {
            let error = read(line).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        check(r#"{"type":"dreamt"}"#, "there is no event `dreamt`");
        check(r#"{"agent":"a"}"#, "missing field `type`");
        check(r#"{"type":1}"#, "invalid type: integer `1`");
        check(
            r#"{"type":"voted","agent":"a"}"#,
            "missing field `candidate`",
        );
        check(
            r#"{"type":"pipeline","step":"leapt"}"#,
            "unknown variant `leapt`",
        );
    }
}
