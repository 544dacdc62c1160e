//! Finds scripts that shells run in places where the grammar sees only text: substitutions in
//! here-documents, patterns and default values, and nested backquotes.

use tree_sitter::Node;

use crate::commands::line::UnparsedReason;
use crate::commands::words::{text_of, unescape};

/// A node and its surroundings.
#[derive(Clone, Copy)]
pub(super) struct NodeContext<'t> {
    pub(super) node: Node<'t>,
    pub(super) parent: Option<Node<'t>>,
    /// Whether it is in double quotes or in a here-document.
    pub(super) is_quoted: bool,
}

impl<'t> NodeContext<'t> {
    /// Returns the context of a child.
    pub(super) fn child(&self, child: Node<'t>) -> Self {
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

    /// Returns the script of a backquoted substitution that contains backslashes, unescaped as the
    /// shell does; the grammar does not unescape it.
    pub(super) fn unescaped_substitution(
        &self,
        source: &str,
    ) -> Result<Option<String>, UnparsedReason> {
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
            return Ok(Some(unescape(inner, "`\\$\"")));
        }
        self.unescape_backquoted(inner).map(Some)
    }

    /// Returns the scripts in the node's own text, outside of its children.
    pub(super) fn scripts(
        &self,
        children: &[Node<'_>],
        source: &str,
    ) -> Result<Vec<String>, UnparsedReason> {
        if self.is_literal(source)? {
            return Ok(Vec::new());
        }
        let is_word = matches!(self.node.kind(), "word" | "regex" | "extglob_pattern");
        let mut scripts = Vec::new();
        let mut open_at: Option<usize> = None;
        let mut from = self.node.start_byte();
        let parts = children
            .iter()
            .filter(|child| child.kind() != CONTENT)
            .map(Some)
            .chain([None]);
        for part in parts {
            let end = part.map_or(self.node.end_byte(), Node::start_byte);
            for mark in marks(source.get(from..end).unwrap_or_default()) {
                let at = from.saturating_add(mark.at);
                match (mark.kind, open_at) {
                    (SubstitutionKind::Backquote, None) => open_at = Some(at.saturating_add(1)),
                    (SubstitutionKind::Backquote, Some(start)) => {
                        scripts.push(
                            self.unescape_backquoted(source.get(start..at).unwrap_or_default())?,
                        );
                        open_at = None;
                    }
                    (SubstitutionKind::Substitution, None) => {
                        return Err(UnparsedReason::Ambiguous);
                    }
                    (SubstitutionKind::Process, None) if is_word => {
                        return Err(UnparsedReason::Ambiguous);
                    }
                    (SubstitutionKind::Substitution | SubstitutionKind::Process, _) => {}
                }
            }
            if let Some(part) = part {
                if open_at.is_some() && text_of(*part, source).contains('`') {
                    return Err(UnparsedReason::Ambiguous);
                }
                from = part.end_byte();
            }
        }
        if open_at.is_some() {
            return Err(UnparsedReason::Ambiguous);
        }
        Ok(scripts)
    }

    /// Returns whether no shell expands substitutions in the node's own text.
    fn is_literal(&self, source: &str) -> Result<bool, UnparsedReason> {
        match self.node.kind() {
            "comment" | "heredoc_start" | "heredoc_end" | CONTENT => Ok(true),
            "heredoc_body" => Ok(self
                .parent
                .is_some_and(|parent| is_verbatim(parent, source))),
            // Inside double quotes, some shells treat single quotes as characters, others as
            // quotes.
            "raw_string" | "ansi_c_string" if self.is_quoted => {
                if text_of(self.node, source).contains(['"', '}', '\\', '\n']) {
                    return Err(UnparsedReason::Ambiguous);
                }
                Ok(false)
            }
            "raw_string" | "ansi_c_string" => Ok(true),
            _ => Ok(false),
        }
    }

    /// Returns the script between two backquotes, unescaped as the shell does.
    fn unescape_backquoted(&self, between: &str) -> Result<String, UnparsedReason> {
        let is_string = self.is_quoted && self.node.kind() != "heredoc_body";
        if is_string && between.contains("\\\"") {
            return Err(UnparsedReason::Ambiguous);
        }
        Ok(unescape(between, "`\\$"))
    }
}

/// `` `…` `` or `$(…)`.
const SUBSTITUTION: &str = "command_substitution";
/// A part of a here-document's body.
const CONTENT: &str = "heredoc_content";

/// Returns whether the body of a here-document is literal, because a part of its delimiter is
/// quoted.
pub(super) fn is_verbatim(redirection: Node<'_>, source: &str) -> bool {
    let mut cursor = redirection.walk();
    let mut children = redirection.children(&mut cursor);
    let start = children.find(|child| child.kind() == "heredoc_start");
    start.is_some_and(|start| text_of(start, source).contains(['\'', '"', '\\']))
}

/// The beginning or the end of a substitution.
struct SubstitutionMark {
    at: usize,
    kind: SubstitutionKind,
}

#[derive(Clone, Copy)]
enum SubstitutionKind {
    Backquote,
    /// `$(`
    Substitution,
    /// `<(` or `>(`
    Process,
}

/// Finds the marks in a text, except those escaped with a backslash.
fn marks(text: &str) -> impl Iterator<Item = SubstitutionMark> {
    let mut is_escaped = false;
    let next_bytes = text.bytes().skip(1).map(Some).chain([None]);
    let bytes = text.bytes().zip(next_bytes).enumerate();
    bytes.filter_map(move |(at, (byte, next))| {
        if std::mem::take(&mut is_escaped) {
            return None;
        }
        is_escaped = byte == b'\\';
        let kind = match (byte, next) {
            (b'`', _) => SubstitutionKind::Backquote,
            (b'$', Some(b'(')) => SubstitutionKind::Substitution,
            (b'<' | b'>', Some(b'(')) => SubstitutionKind::Process,
            _ => return None,
        };
        Some(SubstitutionMark { at, kind })
    })
}
