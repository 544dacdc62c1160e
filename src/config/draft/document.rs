//! The YAML of a draft: a small tree that is written in block style, with a comment from the table
//! of keys above the first use of a key. Text that YAML could read as something else is quoted.

use std::collections::BTreeSet;

use crate::config::yaml::{YamlLiteral, YamlScalar};
use crate::text::is_hidden;

/// Words that some version of YAML reads as something else.
const AMBIGUOUS_WORDS: &[&str] = &[
    "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity",
];
/// The indentation of a level, in spaces.
const INDENT: usize = 2;

/// A value in the YAML.
#[derive(Clone, Debug)]
pub(super) enum DocumentNode {
    /// A scalar as it is written.
    Scalar(String),
    /// Several lines of text.
    Block(String),
    /// A list.
    List(Vec<DocumentNode>),
    /// A mapping, in the order of the file.
    Mapping(Vec<DocumentEntry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct DocumentEntry {
    key: &'static str,
    comment: &'static str,
    value: DocumentNode,
}

impl DocumentNode {
    /// Creates an empty mapping.
    pub(super) fn mapping() -> Self {
        Self::Mapping(Vec::new())
    }

    /// Creates the node of a text, written so that YAML reads the same text.
    pub(super) fn text(text: &str) -> Self {
        if is_plain(text) {
            Self::Scalar(text.to_owned())
        } else if is_block(text) {
            Self::Block(text.to_owned())
        } else {
            Self::Scalar(quote_scalar(text))
        }
    }

    /// Creates the node of a number or a boolean, written as it was typed; anything else is a text.
    pub(super) fn literal(text: &str) -> Self {
        let text = text.trim();
        match YamlScalar::infer(text.to_owned()).literal {
            YamlLiteral::Flag(_) | YamlLiteral::Integer(_) | YamlLiteral::Number(_) => {
                Self::Scalar(text.to_owned())
            }
            YamlLiteral::Text => Self::text(text),
        }
    }

    /// Returns the value of a key, which is created if the mapping lacks it; `None` if this is not
    /// a mapping.
    pub(super) fn entry(
        &mut self,
        key: &'static str,
        comment: &'static str,
        create: impl FnOnce() -> DocumentNode,
    ) -> Option<&mut DocumentNode> {
        let DocumentNode::Mapping(entries) = self else {
            return None;
        };
        let existing_index = entries.iter().position(|entry| entry.key == key);
        let index = existing_index.unwrap_or(entries.len());
        if existing_index.is_none() {
            let value = create();
            entries.push(DocumentEntry {
                key,
                comment,
                value,
            });
        }
        entries.get_mut(index).map(|entry| &mut entry.value)
    }

    /// Returns the item at `index` of a list, which is extended with empty mappings as needed;
    /// `None` if this is not a list.
    pub(super) fn item(&mut self, index: usize) -> Option<&mut DocumentNode> {
        let DocumentNode::List(items) = self else {
            return None;
        };
        while items.len() <= index {
            items.push(DocumentNode::mapping());
        }
        items.get_mut(index)
    }

    /// Returns the YAML of a whole file.
    pub(super) fn to_yaml(&self, heading: &str) -> String {
        let mut writer = YamlWriter {
            out: format!("# {heading}\n"),
            written_comments: BTreeSet::new(),
        };
        writer.write_node(self, 0);
        writer.out
    }
}

struct YamlWriter {
    out: String,
    /// The comments that have been written: each is written once.
    written_comments: BTreeSet<&'static str>,
}

impl YamlWriter {
    /// Writes a mapping or a list in lines of its own.
    fn write_node(&mut self, node: &DocumentNode, indent: usize) {
        match node {
            DocumentNode::Mapping(entries) => {
                for entry in entries {
                    self.write_entry(entry, indent);
                }
            }
            DocumentNode::List(items) => {
                for item in items {
                    self.write_item(item, indent);
                }
            }
            DocumentNode::Scalar(_) | DocumentNode::Block(_) => self.write_value(node, indent),
        }
    }

    fn write_entry(&mut self, entry: &DocumentEntry, indent: usize) {
        self.write_comment(entry.comment, indent);
        self.write_indent(indent);
        self.out.push_str(entry.key);
        self.out.push(':');
        self.write_value(&entry.value, indent);
    }

    /// Writes the first sentence about a key, unless it was written before.
    fn write_comment(&mut self, doc: &'static str, indent: usize) {
        if doc.is_empty() || !self.written_comments.insert(doc) {
            return;
        }
        if indent == 0 {
            self.out.push('\n');
        }
        self.write_indent(indent);
        self.out.extend(["# ", first_sentence(doc), "\n"]);
    }

    /// Writes a value after the `:` of its key, or after a `-`.
    fn write_value(&mut self, node: &DocumentNode, indent: usize) {
        let inner_indent = indent.saturating_add(INDENT);
        match node {
            DocumentNode::Scalar(text) => self.out.extend([" ", text, "\n"]),
            DocumentNode::Block(text) => {
                let mark = if text.ends_with('\n') { "|" } else { "|-" };
                self.out.extend([" ", mark, "\n"]);
                for line in text.lines() {
                    if !line.is_empty() {
                        self.write_indent(inner_indent);
                    }
                    self.out.push_str(line);
                    self.out.push('\n');
                }
            }
            DocumentNode::Mapping(entries) if entries.is_empty() => self.out.push_str(" {}\n"),
            DocumentNode::List(items) if items.is_empty() => self.out.push_str(" []\n"),
            DocumentNode::Mapping(_) | DocumentNode::List(_) => {
                self.out.push('\n');
                self.write_node(node, inner_indent);
            }
        }
    }

    fn write_item(&mut self, item: &DocumentNode, indent: usize) {
        let first_entry = match item {
            DocumentNode::Mapping(entries) => entries.first(),
            DocumentNode::List(_) | DocumentNode::Scalar(_) | DocumentNode::Block(_) => None,
        };
        if let Some(first_entry) = first_entry {
            // A comment between the `-` and the key would need a line of its own.
            self.write_comment(first_entry.comment, indent);
        }
        self.write_indent(indent);
        self.out.push('-');
        let start = self.out.len();
        self.write_value(item, indent);
        // A mapping begins with a line break and its indentation: its first key moves up to the
        // `-`.
        if first_entry.is_some() {
            let item_text = self.out.split_off(start);
            self.out.extend([" ", item_text.trim_start()]);
        }
    }

    fn write_indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}

/// Returns the first sentence of a description.
fn first_sentence(doc: &str) -> &str {
    doc.split_once(". ")
        .and_then(|(sentence, _)| doc.get(..=sentence.len()))
        .unwrap_or(doc)
}

/// Returns whether every version of YAML reads `text` as this text without quotes.
fn is_plain(text: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '_');
    let is_plain_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
    let lower = text.to_ascii_lowercase();
    text.starts_with(is_start)
        && text.chars().all(is_plain_char)
        && !AMBIGUOUS_WORDS.contains(&lower.as_str())
        && YamlScalar::infer(text.to_owned()).literal == YamlLiteral::Text
        && text.parse::<f64>().is_err()
}

/// Returns whether `text` has several lines that a block scalar keeps as they are.
fn is_block(text: &str) -> bool {
    let is_line = |line: &str| {
        !line.ends_with(char::is_whitespace) && !line.chars().any(is_hidden) || line.is_empty()
    };
    text.trim_end_matches('\n').contains('\n')
        && !text.starts_with(char::is_whitespace)
        && !text.ends_with("\n\n")
        && !text.contains('\r')
        && text.split('\n').all(is_line)
}

/// Writes `text` in double quotes, with hidden characters as escapes.
fn quote_scalar(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let code = u32::from(c);
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            _ if is_hidden(c) => out.push_str(&escape(code)),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns the escape of a character in double quotes.
fn escape(code: u32) -> String {
    if code <= 0xffff {
        format!("\\u{code:04x}")
    } else {
        format!("\\U{code:08x}")
    }
}
