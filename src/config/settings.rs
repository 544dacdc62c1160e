//! Values of config keys that the command line sets: they replace or extend what a config says, and
//! are checked as if they stood there.

use crate::config::diagnostic::{Diagnostic, Span, quote};
use crate::config::yaml::{self, YamlEntry, YamlNode, YamlValue};

/// How a line begins that records a setting in the text of a config, where it is a comment.
const LINE_PREFIX: &str = "# --set ";

/// A key of a config and its value, as `--set KEY=VALUE` gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSetting {
    key: String,
    value: String,
}

impl ConfigSetting {
    /// Parses `KEY=VALUE`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let expected = "expected KEY=VALUE, such as `limits.max_cost_usd=0.50`";
        let (key, value) = text.split_once('=').ok_or(expected)?;
        let is_key = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        if !key.split('.').all(is_key) || value.contains(['\n', '\r']) {
            return Err(expected);
        }
        Ok(Self {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }

    /// Returns it as the command line has it.
    pub fn text(&self) -> String {
        format!("{}={}", self.key, self.value)
    }
}

/// Adds lines with `settings` to the text of a config, as comments, so that findings can show them.
pub fn append_settings(text: &mut Vec<u8>, settings: &[ConfigSetting]) {
    for setting in settings {
        text.extend_from_slice(format!("\n{LINE_PREFIX}{}", setting.text()).as_bytes());
    }
}

/// Sets the values of `settings`, which `text` has as its last lines, in the tree of the text.
pub(super) fn apply_settings(
    tree: &mut YamlNode,
    text: &str,
    settings: &[ConfigSetting],
) -> Result<(), Box<Diagnostic>> {
    let lengths = settings.iter().map(|setting| setting.text().len());
    let mut start = text.len();
    let mut starts: Vec<usize> = Vec::new();
    for length in lengths.rev() {
        start = start.saturating_sub(length);
        starts.push(start);
        start = start.saturating_sub(LINE_PREFIX.len().saturating_add(1));
    }
    for (setting, start) in settings.iter().zip(starts.into_iter().rev()) {
        apply_setting(tree, setting, start)?;
    }
    Ok(())
}

fn apply_setting(
    tree: &mut YamlNode,
    setting: &ConfigSetting,
    start: usize,
) -> Result<(), Box<Diagnostic>> {
    let key_span = start..start.saturating_add(setting.key.len());
    let value_start = key_span.end.saturating_add(1);
    let value_span = value_start..value_start.saturating_add(setting.value.len());
    let error = |message: String| {
        Box::new(Diagnostic::error(setting.key.as_str(), message).with_span(&key_span))
    };
    let mut value = yaml::parse(&setting.value)
        .map_err(|diagnostic| error(format!("the value is {}", diagnostic.message)))?;
    set_span(&mut value, &value_span);
    let mut node = tree;
    for part in setting.key.split('.') {
        let (name, indexes) = part.split_once('[').map_or((part, ""), |(name, rest)| {
            (name, rest.strip_suffix(']').unwrap_or(rest))
        });
        node = entry_value(node, name, &key_span).ok_or_else(|| {
            error(format!(
                "{} is below a value that is not a mapping",
                quote(name)
            ))
        })?;
        for index in indexes.split("][").filter(|index| !index.is_empty()) {
            node = item(node, index)
                .ok_or_else(|| error(format!("{} has no entry {}", quote(name), quote(index))))?;
        }
    }
    *node = value;
    Ok(())
}

/// Returns the value of the key `name` of a mapping, which is added if it is missing; `None` if
/// `node` is another value.
fn entry_value<'n>(
    node: &'n mut YamlNode,
    name: &str,
    key_span: &Span,
) -> Option<&'n mut YamlNode> {
    if node.value == YamlValue::Null {
        node.value = YamlValue::Mapping(Vec::new());
    }
    let YamlValue::Mapping(entries) = &mut node.value else {
        return None;
    };
    let index = entries.iter().position(|entry| entry.key == name);
    let index = index.unwrap_or_else(|| {
        entries.push(YamlEntry {
            key: name.to_owned(),
            key_span: key_span.clone(),
            value: YamlNode {
                span: key_span.clone(),
                value: YamlValue::Null,
            },
        });
        entries.len().saturating_sub(1)
    });
    entries.get_mut(index).map(|entry| &mut entry.value)
}

/// Returns the entry of a list with this index.
fn item<'n>(node: &'n mut YamlNode, index: &str) -> Option<&'n mut YamlNode> {
    let YamlValue::List(items) = &mut node.value else {
        return None;
    };
    items.get_mut(index.parse::<usize>().ok()?)
}

fn set_span(node: &mut YamlNode, span: &Span) {
    node.span = span.clone();
    match &mut node.value {
        YamlValue::Null | YamlValue::Scalar(_) => {}
        YamlValue::List(items) => items.iter_mut().for_each(|item| set_span(item, span)),
        YamlValue::Mapping(entries) => {
            for entry in entries {
                entry.key_span = span.clone();
                set_span(&mut entry.value, span);
            }
        }
    }
}
