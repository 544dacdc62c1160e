//! The format of scripts, which `docs/scripted.md` documents. Nothing here reads a file.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::backend::scripted::transcript::{any_text, latest_texts};
use crate::backend::{BackendError, BackendErrorKind, ModelRequest};
use crate::config::typed_yaml::read_typed;
use crate::error::{Error, ErrorKind, Result};
use crate::event::StopReason;
use crate::path::AbsPath;
use crate::spending::TokenUsage;
use crate::tools::CallRequest;

/// Placeholder for the user's current directory.
const CWD_PLACEHOLDER: &str = "{{cwd}}";

/// The replies that a scripted backend can give, in the order of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptedReplies {
    pub(super) replies: Vec<ScriptedReply>,
}

/// One reply and its condition.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScriptedReply {
    pub(super) when: ReplyCondition,
    pub(super) reasoning: String,
    pub(super) text: String,
    pub(super) calls: Vec<ScriptedCall>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) stop: StopReason,
    pub(super) error: Option<ScriptedError>,
    pub(super) cut: bool,
    pub(super) delay_ms: u64,
    pub(super) chunk_delay_ms: u64,
    pub(super) repeat: bool,
}

/// Condition on a request; an empty condition always holds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReplyCondition {
    contains: Option<String>,
    system: Option<String>,
    last: Option<String>,
    offers: Option<String>,
    lacks: Option<String>,
}

/// A tool call. Arguments given as a string are sent verbatim, malformed or not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedCall {
    pub(super) name: String,
    #[serde(default)]
    pub(super) arguments: Value,
}

/// A failure instead of a reply, or after its text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedError {
    pub(super) message: String,
    #[serde(default)]
    pub(super) transient: bool,
    pub(super) retry_after_seconds: Option<u64>,
}

/// Completeness of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordingEnd {
    /// Every reply in it is complete.
    Complete,
    /// It is truncated; the rest of its last reply was skipped.
    Truncated,
}

impl ScriptedReplies {
    /// Parses a script file. `name` is its name in errors.
    pub(crate) fn parse(text: &str, name: &str, cwd: &AbsPath) -> Result<Self> {
        let list: Self = read_typed(text).map_err(|error| {
            malformed_script(format!("the script `{name}` is malformed: {error}"))
        })?;
        list.with_cwd(cwd)
    }

    /// Parses a recording that massgen wrote: verbatim, and as far as it is complete. A truncated
    /// recording may be cut in its last reply. Each reply is parsed by itself, so that their number
    /// is not limited.
    pub(crate) fn parse_recording(text: &str, name: &str) -> Result<(Self, RecordingEnd)> {
        // The beginning of another reply.
        if let Some(whole) = text.strip_suffix("\n-") {
            let (list, _) = Self::parse_recording(whole, name)?;
            return Ok((list, RecordingEnd::Truncated));
        }
        let mut list = Self::default();
        let mut items = text.split("\n- ").skip(1).peekable();
        while let Some(item) = items.next() {
            match read_typed::<Self>(&format!("replies:\n- {item}")) {
                Ok(read) => list.replies.extend(read.replies),
                Err(_) if items.peek().is_none() && !text.ends_with('\n') => {
                    return Ok((list, RecordingEnd::Truncated));
                }
                Err(error) => {
                    let number = list.len().saturating_add(1);
                    return Err(malformed_script(format!(
                        "reply {number} of the recording `{name}` cannot be read: {error}"
                    )));
                }
            }
        }
        let end = if list.replies.is_empty() {
            RecordingEnd::Truncated
        } else {
            RecordingEnd::Complete
        };
        Ok((list, end))
    }

    /// Splits off the first replies, `count` of them at most.
    pub(crate) fn take_first(&mut self, count: usize) -> Self {
        let later_replies = self.replies.split_off(count.min(self.replies.len()));
        Self {
            replies: std::mem::replace(&mut self.replies, later_replies),
        }
    }

    /// Returns the number of replies.
    pub(crate) fn len(&self) -> usize {
        self.replies.len()
    }

    /// Adds a recorded reply.
    pub(crate) fn push_reply(&mut self, text: &str, calls: &[CallRequest], stop: StopReason) {
        let call = |call: &CallRequest| ScriptedCall {
            name: call.name.clone(),
            arguments: serde_json::from_str(&call.arguments)
                .unwrap_or_else(|_| Value::String(call.arguments.clone())),
        };
        self.replies.push(ScriptedReply {
            text: text.to_owned(),
            calls: calls.iter().map(call).collect(),
            stop,
            ..ScriptedReply::default()
        });
    }

    /// Adds a recorded request that failed for good.
    pub(crate) fn push_failure(&mut self, message: &str) {
        self.replies.push(ScriptedReply {
            error: Some(ScriptedError {
                message: message.to_owned(),
                transient: false,
                retry_after_seconds: None,
            }),
            ..ScriptedReply::default()
        });
    }

    /// Applies `change` to every text that a model wrote, including those in calls.
    pub(crate) fn map_texts(&mut self, change: &impl Fn(&str) -> String) {
        for reply in &mut self.replies {
            reply.text = change(&reply.text);
            for call in &mut reply.calls {
                map_json_texts(&mut call.arguments, change);
            }
        }
    }

    /// Parses the list under `replies` of a config; `lines` are those of its items there.
    pub(crate) fn from_list(list: &Value, lines: &[usize], cwd: &AbsPath) -> Result<Self> {
        let Value::Array(items) = list else {
            return Err(malformed_script("`replies` is not a list".to_owned()));
        };
        let mut replies = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let reply = ScriptedReply::deserialize(item).map_err(|error| {
                let line = lines.get(position).map(|line| format!(" at line {line}"));
                let line = line.unwrap_or_default();
                malformed_script(format!("`replies[{position}]` is malformed: {error}{line}"))
            })?;
            replies.push(reply);
        }
        Self { replies }.with_cwd(cwd)
    }

    /// Fills in the user's current directory, and rejects a script that could never reply.
    fn with_cwd(mut self, cwd: &AbsPath) -> Result<Self> {
        if self.replies.is_empty() {
            return Err(malformed_script("the script has no replies".to_owned()));
        }
        let cwd = cwd.to_string();
        self.map_texts(&|text| text.replace(CWD_PLACEHOLDER, &cwd));
        Ok(self)
    }
}

impl ReplyCondition {
    /// Returns whether `request` satisfies the reply's condition.
    pub(super) fn matches(&self, request: &ModelRequest<'_>) -> bool {
        let is_offered = |name: &String| request.tools.iter().any(|tool| tool.name == *name);
        self.contains
            .iter()
            .all(|text| any_text(request, |part| part.contains(text)))
            && self.system.iter().all(|text| request.system.contains(text))
            && self
                .last
                .iter()
                .all(|text| latest_texts(request).any(|part| part.contains(text)))
            && self.offers.iter().all(is_offered)
            && !self.lacks.iter().any(is_offered)
    }
}

impl fmt::Display for ReplyCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("contains", &self.contains),
            ("system", &self.system),
            ("last", &self.last),
            ("offers", &self.offers),
            ("lacks", &self.lacks),
        ];
        let mut separator = "";
        for (key, text) in parts {
            if let Some(text) = text {
                write!(f, "{separator}`{key}: {text}`")?;
                separator = " and ";
            }
        }
        Ok(())
    }
}

impl ScriptedCall {
    /// Returns the arguments as a model would write them.
    pub(super) fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                self.arguments.to_string()
            }
        }
    }
}

impl From<&ScriptedError> for BackendError {
    fn from(error: &ScriptedError) -> Self {
        let kind = if error.transient {
            BackendErrorKind::Transient {
                retry_after: error.retry_after_seconds.map(Duration::from_secs),
            }
        } else {
            BackendErrorKind::Permanent
        };
        Self {
            kind,
            message: error.message.clone(),
        }
    }
}

fn map_json_texts(value: &mut Value, change: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| map_json_texts(item, change)),
        Value::Object(map) => map
            .values_mut()
            .for_each(|item| map_json_texts(item, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn malformed_script(message: String) -> Error {
    Error::new(ErrorKind::Config, message)
        .with_hint("`massgen config show basic/offline_demo` is an example of the format")
}
