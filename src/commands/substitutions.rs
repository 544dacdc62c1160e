//! Owns what shells run in places that the grammar leaves as text: substitutions in here-documents,
//! patterns and defaults, and those in backquotes that stand in backquotes.

use tree_sitter::Node;

use crate::commands::line::UnparsedReason;
use crate::commands::words::{text_of, unescape};

/// A node, and what stands around it.
#[derive(Clone, Copy)]
pub(super) struct NodeContext<'t> {
    pub(super) node: Node<'t>,
    pub(super) parent: Option<Node<'t>>,
    /// Whether it stands in double quotes or in a here-document.
    pub(super) is_quoted: bool,
}

impl<'t> NodeContext<'t> {
    /// The place of a child.
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

    /// The text of a substitution that is written with backslashes, as the shell reads it; the
    /// grammar reads it with them.
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

    /// The scripts in the node's own text, which are its children's business elsewhere.
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
        let mut open: Option<usize> = None;
        let mut from = self.node.start_byte();
        let parts = children.iter().filter(|child| child.kind() != CONTENT);
        let parts = parts.map(Some).chain([None]);
        for part in parts {
            let end = part.map_or(self.node.end_byte(), Node::start_byte);
            for mark in marks(source.get(from..end).unwrap_or_default()) {
                let at = from.saturating_add(mark.at);
                match (mark.kind, open) {
                    (SubstitutionKind::Backquote, None) => open = Some(at.saturating_add(1)),
                    (SubstitutionKind::Backquote, Some(start)) => {
                        scripts.push(
                            self.unescape_backquoted(source.get(start..at).unwrap_or_default())?,
                        );
                        open = None;
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
                if open.is_some() && text_of(*part, source).contains('`') {
                    return Err(UnparsedReason::Ambiguous);
                }
                from = part.end_byte();
            }
        }
        if open.is_some() {
            return Err(UnparsedReason::Ambiguous);
        }
        Ok(scripts)
    }

    /// Whether no shell looks for substitutions in the node's own text.
    fn is_literal(&self, source: &str) -> Result<bool, UnparsedReason> {
        match self.node.kind() {
            "comment" | "heredoc_start" | "heredoc_end" | CONTENT => Ok(true),
            "heredoc_body" => Ok(self
                .parent
                .is_some_and(|parent| is_verbatim(parent, source))),
            // Single quotes in double ones are letters to some shells, and an end to others.
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

    /// What the shell reads between two backquotes.
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

/// Whether the body of a here-document is taken as it is: a part of its mark is quoted.
pub(super) fn is_verbatim(redirection: Node<'_>, source: &str) -> bool {
    let mut cursor = redirection.walk();
    let mut children = redirection.children(&mut cursor);
    let start = children.find(|child| child.kind() == "heredoc_start");
    start.is_some_and(|start| text_of(start, source).contains(['\'', '"', '\\']))
}

/// What stands at the beginning or the end of a substitution.
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

/// The marks in a text, without those behind a backslash.
fn marks(text: &str) -> impl Iterator<Item = SubstitutionMark> {
    let mut is_escaped = false;
    let next = text.bytes().skip(1).map(Some).chain([None]);
    let bytes = text.bytes().zip(next).enumerate();
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
