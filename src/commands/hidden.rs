//! Owns what shells run in places that the grammar leaves as text: substitutions in here-documents,
//! patterns and defaults, and those in backquotes that stand in backquotes.

use tree_sitter::Node;

use crate::commands::line::Unread;
use crate::commands::word::{text_of, unescaped};

/// A node, and what stands around it.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    pub(super) node: Node<'t>,
    pub(super) parent: Option<Node<'t>>,
    /// Whether it stands in double quotes or in a here-document.
    pub(super) is_quoted: bool,
}

impl<'t> Place<'t> {
    /// The place of a child.
    pub(super) fn inner(&self, child: Node<'t>) -> Self {
        let is_quoted = match child.kind() {
            "string" | "heredoc_body" => true,
            SUBSTITUTION | "process_substitution" => false,
            _ => self.is_quoted,
        };
        Self {
            node: child,
            parent: Some(self.node),
            is_quoted,
        }
    }

    /// The text of a substitution that is written with backslashes, as the shell reads it; the
    /// grammar reads it with them.
    pub(super) fn escaped(&self, source: &str) -> Result<Option<String>, Unread> {
        if self.node.kind() != SUBSTITUTION {
            return Ok(None);
        }
        let text = text_of(self.node, source).trim_start();
        let inner = text
            .strip_prefix('`')
            .and_then(|rest| rest.strip_suffix('`'));
        let Some(inner) = inner.filter(|inner| inner.contains('\\')) else {
            return Ok(None);
        };
        let is_string = self.parent.is_some_and(|parent| parent.kind() == "string");
        if is_string {
            return Ok(Some(unescaped(inner, "`\\$\"")));
        }
        self.read(inner).map(Some)
    }

    /// The scripts in the node's own text, which are its children's business elsewhere.
    pub(super) fn scripts(
        &self,
        children: &[Node<'_>],
        source: &str,
    ) -> Result<Vec<String>, Unread> {
        if self.is_only_text(source)? {
            return Ok(Vec::new());
        }
        let is_word = matches!(self.node.kind(), "word" | "regex" | "extglob_pattern");
        let mut scripts = Vec::new();
        let mut open: Option<usize> = None;
        let mut from = self.node.start_byte();
        let parts = children.iter().filter(|child| child.kind() != CONTENT);
        let parts = parts.map(Some).chain([None]);
        for part in parts {
            let end = part.map_or(self.node.end_byte(), Node::start_byte);
            for mark in marks(source.get(from..end).unwrap_or_default()) {
                let at = from.saturating_add(mark.at);
                match (mark.kind, open) {
                    (Kind::Backquote, None) => open = Some(at.saturating_add(1)),
                    (Kind::Backquote, Some(start)) => {
                        scripts.push(self.read(source.get(start..at).unwrap_or_default())?);
                        open = None;
                    }
                    (Kind::Substitution, None) => return Err(Unread::Ambiguous),
                    (Kind::Process, None) if is_word => return Err(Unread::Ambiguous),
                    (Kind::Substitution | Kind::Process, _) => {}
                }
            }
            if let Some(part) = part {
                if open.is_some() && text_of(*part, source).contains('`') {
                    return Err(Unread::Ambiguous);
                }
                from = part.end_byte();
            }
        }
        if open.is_some() {
            return Err(Unread::Ambiguous);
        }
        Ok(scripts)
    }

    /// Whether no shell looks for substitutions in the node's own text.
    fn is_only_text(&self, source: &str) -> Result<bool, Unread> {
        match self.node.kind() {
            "comment" | "heredoc_start" | "heredoc_end" | CONTENT => Ok(true),
            "heredoc_body" => Ok(self
                .parent
                .is_some_and(|parent| is_verbatim(parent, source))),
            // Single quotes in double ones are letters to some shells, and an end to others.
            "raw_string" | "ansi_c_string" if self.is_quoted => {
                if text_of(self.node, source).contains(['"', '}', '\\', '\n']) {
                    return Err(Unread::Ambiguous);
                }
                Ok(false)
            }
            "raw_string" | "ansi_c_string" => Ok(true),
            _ => Ok(false),
        }
    }

    /// What the shell reads between two backquotes.
    fn read(&self, between: &str) -> Result<String, Unread> {
        let is_string = self.is_quoted && self.node.kind() != "heredoc_body";
        if is_string && between.contains("\\\"") {
            return Err(Unread::Ambiguous);
        }
        Ok(unescaped(between, "`\\$"))
    }
}

/// `` `…` `` or `$(…)`.
const SUBSTITUTION: &str = "command_substitution";
/// A part of a here-document's body.
const CONTENT: &str = "heredoc_content";

/// Whether the body of a here-document is taken as it is: a part of its mark is quoted.
pub(super) fn is_verbatim(redirection: Node<'_>, source: &str) -> bool {
    let mut cursor = redirection.walk();
    let mut children = redirection.children(&mut cursor);
    let start = children.find(|child| child.kind() == "heredoc_start");
    start.is_some_and(|start| text_of(start, source).contains(['\'', '"', '\\']))
}

/// What stands at the beginning or the end of a substitution.
struct Mark {
    at: usize,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Backquote,
    /// `$(`
    Substitution,
    /// `<(` or `>(`
    Process,
}

/// The marks in a text, without those behind a backslash.
fn marks(text: &str) -> impl Iterator<Item = Mark> {
    let mut is_escaped = false;
    let next = text.bytes().skip(1).map(Some).chain([None]);
    let bytes = text.bytes().zip(next).enumerate();
    bytes.filter_map(move |(at, (byte, next))| {
        if std::mem::take(&mut is_escaped) {
            return None;
        }
        is_escaped = byte == b'\\';
        let kind = match (byte, next) {
            (b'`', _) => Kind::Backquote,
            (b'$', Some(b'(')) => Kind::Substitution,
            (b'<' | b'>', Some(b'(')) => Kind::Process,
            _ => return None,
        };
        Some(Mark { at, kind })
    })
}
