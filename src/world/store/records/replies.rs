//! Owns `replies/<agent id>.yaml`: each whole reply of an agent's model, as a scripted backend takes
//! it. The files only grow, by one line a reply, so that a crash costs the last reply at most.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::event::{Event, ModelEvent, StopReason};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::spending::TokenUsage;
use crate::text::is_hidden;
use crate::tools::request::CallRequest;
use crate::world::store::records::record_paths::REPLIES;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::dir;
use crate::world::sys::state_files::file;

/// What a file of recorded replies begins with; nothing else is ever replaced by one.
pub const HEAD: &str = "# massgen recording";

/// Records the replies of all agents of one run.
#[derive(Debug)]
pub(crate) struct ReplyRecorder {
    dir: AbsPath,
    redactor: Redactor,
    /// What the present request of each agent used up.
    usage: BTreeMap<AgentId, TokenUsage>,
    /// The files that have been begun.
    begun: BTreeMap<AgentId, AbsPath>,
}

/// A reply in the format of scripts.
#[derive(Serialize)]
struct ReplyRecord<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<TokenUsage>,
    /// Nothing where it had said all.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<StopReason>,
}

impl ReplyRecorder {
    /// Records below `turn`, which exists.
    pub(crate) fn new(turn: &AbsPath, redactor: Redactor) -> Self {
        Self {
            dir: turn.join(REPLIES),
            redactor,
            usage: BTreeMap::new(),
            begun: BTreeMap::new(),
        }
    }

    /// Takes in the next event, and records it if it is a reply or a request that failed for good.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<()> {
        if let Event::Model(ModelEvent::ModelRequestFinished { agent, usage, .. }) = event {
            self.usage.insert(agent.clone(), *usage);
            Ok(())
        } else if let Event::Model(ModelEvent::Replied {
            agent,
            text,
            calls,
            stop,
            ..
        }) = event
        {
            let usage = self.usage.remove(agent);
            let reply = ReplyRecord {
                text,
                calls: calls.iter().map(scripted_call).collect(),
                usage: usage.filter(|usage| *usage != TokenUsage::default()),
                stop: Some(*stop).filter(|stop| *stop != StopReason::Done),
            };
            let reply = serde_json::to_value(&reply)
                .map_err(|error| Error::bug("a reply has no JSON form").with_source(error))?;
            self.add(agent, reply)
        } else if let Event::Model(ModelEvent::Failed { agent, reason }) = event {
            self.add(agent, json!({"error": {"message": reason}}))
        } else {
            Ok(())
        }
    }

    /// The recording of `agent`, if it has begun.
    pub(crate) fn path_of(&self, agent: &AgentId) -> Option<&AbsPath> {
        self.begun.get(agent)
    }

    fn add(&mut self, agent: &AgentId, reply: Value) -> Result<()> {
        let line = format!("- {}\n", on_one_line(&self.redactor.json(reply)));
        if let Some(path) = self.begun.get(agent) {
            return file::append(path, line.as_bytes());
        }
        dir::create(&self.dir)?;
        let path = self.dir.join(format!("{agent}.yaml"));
        let head = format!("{HEAD} of agent {agent}\nreplies:\n{line}");
        file::append(&path, head.as_bytes())?;
        self.begun.insert(agent.clone(), path);
        Ok(())
    }
}

/// A call as scripts write it. Arguments are a mapping where that loses nothing, so that secrets are
/// found in them, and else the text.
fn scripted_call(call: &CallRequest) -> Value {
    let mapping = serde_json::from_str(&call.arguments).ok();
    let mapping = mapping.filter(|value: &Value| value.is_object() && is_plain(value));
    let arguments = mapping.unwrap_or_else(|| Value::String(call.arguments.clone()));
    json!({"name": call.name, "arguments": arguments})
}

/// Whether YAML reads a value as JSON does: without fractions, and without the key that merges.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => number.is_i64(),
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(fields) => fields
            .iter()
            .all(|(name, field)| name != "<<" && is_plain(field)),
    }
}

/// A value as JSON that is also one line of YAML: characters that YAML does not take as they are, and
/// those that cannot be seen, stand escaped in the strings. Of those beyond 16 bits only YAML reads the
/// escape.
fn on_one_line(value: &Value) -> String {
    let json = value.to_string();
    let refused = |c: char| {
        matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        ) || !c.is_ascii() && is_hidden(c)
    };
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        if refused(c) {
            let code = u32::from(c);
            // Writing to a `String` cannot fail.
            match u16::try_from(code) {
                Ok(code) => write!(line, "\\u{code:04x}"),
                Err(_) => write!(line, "\\U{code:08x}"),
            }
            .unwrap_or_default();
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Text that YAML and JSON disagree about more often than others.
    fn text() -> impl Strategy<Value = String> {
        let chars = proptest::char::range('\0', '\u{ffff}');
        let odd = proptest::sample::select(vec![
            '\u{7f}',
            '\u{85}',
            '\u{a0}',
            '\u{2028}',
            '\u{feff}',
            '\u{ffff}',
            '\t',
            '\n',
            '\r',
            '"',
            '\\',
            '\'',
            '#',
            ':',
            '-',
            '{',
            '&',
            '*',
            '!',
            '%',
            '@',
            '`',
            '\u{1f600}',
        ]);
        proptest::collection::vec(prop_oneof![chars, odd], 0..20)
            .prop_map(|chars| chars.into_iter().collect())
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text().prop_map(Value::from),
            proptest::sample::select(vec!["~", "no", "1e3", "0x1f", "2026-01-01", "<<", ""])
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            let fields = proptest::collection::vec((text(), inner.clone()), 0..4);
            prop_oneof![
                proptest::collection::vec(inner, 0..4).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn yaml_reads_what_json_wrote(value in value()) {
            prop_assume!(is_plain(&value));
            let line = on_one_line(&json!({"v": value}));
            prop_assert!(!line.contains('\n'));
            let read: Value = serde_yaml::from_str(&format!("- {line}\n")).unwrap();
            prop_assert_eq!(&read[0]["v"], &value);
        }
    }

    #[test]
    fn what_yaml_reads_otherwise_is_not_plain() {
        for arguments in ["1.5", "1e400", "[18446744073709551615]", "{\"<<\": {}}"] {
            let value = serde_json::from_str(arguments).unwrap_or(json!(0.5));
            assert!(!is_plain(&value), "{arguments}");
        }
    }
}
