//! `replies/<agent id>.yaml`: each complete reply of an agent's model, in the format of a scripted
//! backend, and their copy in the file that the config names. The files are append-only with one
//! line per reply, so that a crash loses at most the last reply.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, ModelEvent, StopReason};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::spending::TokenUsage;
use crate::text::is_hidden;
use crate::tools::CallRequest;
use crate::world::store::records::record_paths::REPLIES;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::{self, dir, file};

/// The start of every file of recorded replies; a recording never replaces any other file.
pub const HEADER: &str = "# massgen recording";

/// Records the replies of all agents of one run.
#[derive(Debug)]
pub(crate) struct ReplyRecorder {
    dir: AbsPath,
    redactor: Redactor,
    /// The tokens that the current request of each agent used.
    usage: BTreeMap<AgentId, TokenUsage>,
    /// The files that have been created.
    files: BTreeMap<AgentId, AbsPath>,
}

/// A reply in the format of scripted backends.
#[derive(Serialize)]
struct ReplyRecord<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<TokenUsage>,
    /// Left out if the model had finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<StopReason>,
}

impl ReplyRecorder {
    /// Creates a recorder below `turn`, which exists.
    pub(crate) fn new(turn: &AbsPath, redactor: Redactor) -> Self {
        Self {
            dir: turn.join(REPLIES),
            redactor,
            usage: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }

    /// Applies the next event, and records it if it is a reply or a request that failed for good.
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
            let reply = serde_json::to_value(&reply).map_err(Error::unserializable)?;
            self.append_reply(agent, reply)
        } else if let Event::Model(ModelEvent::Failed { agent, reason, .. }) = event {
            self.append_reply(agent, json!({"error": {"message": reason}}))
        } else {
            Ok(())
        }
    }

    /// Returns the recording of `agent`, if there is one.
    pub(crate) fn file_of(&self, agent: &AgentId) -> Option<&AbsPath> {
        self.files.get(agent)
    }

    fn append_reply(&mut self, agent: &AgentId, reply: Value) -> Result<()> {
        let line = format!("- {}\n", yaml_line(&self.redactor.json(reply)));
        if let Some(path) = self.files.get(agent) {
            return file::append(path, line.as_bytes());
        }
        dir::create(&self.dir)?;
        let path = self.dir.join(format!("{agent}.yaml"));
        let header = format!("{HEADER} of agent {agent}\nreplies:\n{line}");
        file::append(&path, header.as_bytes())?;
        self.files.insert(agent.clone(), path);
        Ok(())
    }
}

/// Returns a call in the format of scripted backends. The arguments are a mapping if that loses
/// nothing, so that secrets are found in them, and otherwise a string.
fn scripted_call(call: &CallRequest) -> Value {
    let mapping = serde_json::from_str(&call.arguments)
        .ok()
        .filter(|value: &Value| value.is_object() && is_same_in_yaml(value));
    let arguments = mapping.unwrap_or_else(|| Value::String(call.arguments.clone()));
    json!({"name": call.name, "arguments": arguments})
}

/// Returns whether YAML reads a value as JSON does: it has no fractions and no merge key.
fn is_same_in_yaml(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => number.is_i64(),
        Value::Array(items) => items.iter().all(is_same_in_yaml),
        Value::Object(fields) => fields
            .iter()
            .all(|(name, field)| name != "<<" && is_same_in_yaml(field)),
    }
}

/// Returns a value as JSON that is also one line of YAML: characters that YAML does not allow
/// verbatim, and invisible ones, are escaped in strings. For those beyond 16 bits, only YAML
/// understands the escape.
fn yaml_line(value: &Value) -> String {
    let json = value.to_string();
    let needs_escape = |c: char| {
        matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        ) || !c.is_ascii() && is_hidden(c)
    };
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        if needs_escape(c) {
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

/// The largest recording that is copied, in bytes.
const RECORDING_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Refuses a target that is something other than a recording or cannot be written.
pub fn check_target(path: &AbsPath) -> Result<()> {
    file::expect_writable_for_user(path)?;
    match file::begins_with(path, HEADER.as_bytes()) {
        Ok(Some(true) | None) => Ok(()),
        Ok(Some(false)) => Err(Error::new(
            ErrorKind::Config,
            format!("`{path}` exists and is not a recording of massgen: not replacing it"),
        )
        .with_hint("choose another file with `record`, or move this one away")),
        Err(error) => Err(state_files::file_error("read", path.as_path(), error)),
    }
}

/// Copies the recording `from` to `to` atomically, unless something else exists there now.
pub fn publish(from: &AbsPath, to: &AbsPath) -> Result<()> {
    check_target(to)?;
    let unreadable = |error| state_files::file_error("read", from.as_path(), error);
    let bytes = file::read_regular_capped(from, RECORDING_BYTES_MAX).map_err(unreadable)?;
    let bytes = bytes.ok_or_else(|| unreadable(std::io::ErrorKind::FileTooLarge.into()))?;
    file::write_for_user(to, &bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::config::typed_yaml::read_typed;

    /// Generates text with many characters that YAML and JSON disagree about.
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
            prop_assume!(is_same_in_yaml(&value));
            let line = yaml_line(&json!({"v": value}));
            prop_assert!(!line.contains('\n'));
            let read: Value = read_typed(&format!("- {line}\n")).unwrap();
            prop_assert_eq!(&read[0]["v"], &value);
        }
    }

    #[test]
    fn values_that_yaml_reads_differently_are_not_plain() {
        for arguments in ["1.5", "1e400", "[18446744073709551615]", "{\"<<\": {}}"] {
            let value = serde_json::from_str(arguments).unwrap_or(json!(0.5));
            assert!(!is_same_in_yaml(&value), "{arguments}");
        }
    }
}
