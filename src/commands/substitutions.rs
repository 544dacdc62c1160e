//! Finds scripts that shells run in places where the grammar sees only text: substitutions in
//! here-documents, patterns and default values, and nested backquotes.

use tree_sitter::Node;

use crate::commands::line::UnparsedReason;
use crate::commands::words::{text_of, trimmed_text_of, unescape};

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
            COMMAND_SUBSTITUTION | "process_substitution" => false,
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
        if self.node.kind() != COMMAND_SUBSTITUTION {
            return Ok(None);
        }
        let text = trimmed_text_of(self.node, source);
        let inner = text
            .strip_prefix('`')
            .and_then(|rest| rest.strip_suffix('`'));
        let Some(inner) = inner.filter(|inner| inner.contains('\\')) else {
            return Ok(None);
        };
        let is_in_string = self.parent.is_some_and(|parent| parent.kind() == "string");
        if is_in_string {
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
        let mut script_start: Option<usize> = None;
        let mut text_start = self.node.start_byte();
        // The node's own text ends where its next child begins, or with the node.
        let children_and_end = children
            .iter()
            .filter(|child| child.kind() != HEREDOC_CONTENT)
            .map(Some)
            .chain([None]);
        for child in children_and_end {
            let end = child.map_or(self.node.end_byte(), Node::start_byte);
            for mark in marks(source.get(text_start..end).unwrap_or_default()) {
                let at = text_start.saturating_add(mark.at);
                match (mark.kind, script_start) {
                    (SubstitutionKind::Backquote, None) => {
                        script_start = Some(at.saturating_add(1));
                    }
                    (SubstitutionKind::Backquote, Some(start)) => {
                        scripts.push(
                            self.unescape_backquoted(source.get(start..at).unwrap_or_default())?,
                        );
                        script_start = None;
                    }
                    // Unlike a backquote's, its end can only be found by parsing what is inside.
                    (SubstitutionKind::Command, None) => {
                        return Err(UnparsedReason::Ambiguous);
                    }
                    // Elsewhere, as in here-documents, shells leave it as text.
                    (SubstitutionKind::Process, None) if is_word => {
                        return Err(UnparsedReason::Ambiguous);
                    }
                    (SubstitutionKind::Command | SubstitutionKind::Process, _) => {}
                }
            }
            if let Some(child) = child {
                if script_start.is_some() && text_of(*child, source).contains('`') {
                    return Err(UnparsedReason::Ambiguous);
                }
                text_start = child.end_byte();
            }
        }
        if script_start.is_some() {
            return Err(UnparsedReason::Ambiguous);
        }
        Ok(scripts)
    }

    /// Returns whether no shell expands substitutions in the node's own text.
    fn is_literal(&self, source: &str) -> Result<bool, UnparsedReason> {
        match self.node.kind() {
            "comment" | "heredoc_start" | "heredoc_end" | HEREDOC_CONTENT => Ok(true),
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

    /// Unescapes the script between two backquotes as the shell does.
    fn unescape_backquoted(&self, script: &str) -> Result<String, UnparsedReason> {
        // Deeper in double quotes, as in a default value, only some shells unescape double quotes.
        let is_in_string = self.is_quoted && self.node.kind() != "heredoc_body";
        if is_in_string && script.contains("\\\"") {
            return Err(UnparsedReason::Ambiguous);
        }
        Ok(unescape(script, "`\\$"))
    }
}

/// `` `…` `` or `$(…)`.
const COMMAND_SUBSTITUTION: &str = "command_substitution";
/// A part of a here-document's body.
const HEREDOC_CONTENT: &str = "heredoc_content";

/// Returns whether the body of a here-document is literal, because a part of its delimiter is
/// quoted.
pub(super) fn is_verbatim(redirection: Node<'_>, source: &str) -> bool {
    let mut cursor = redirection.walk();
    let mut children = redirection.children(&mut cursor);
    let start = children.find(|child| child.kind() == "heredoc_start");
    start.is_some_and(|start| text_of(start, source).contains(['\'', '"', '\\']))
}

/// The beginning of a substitution, or a backquote, which also ends one.
struct SubstitutionMark {
    /// Its position in the text, in bytes.
    at: usize,
    kind: SubstitutionKind,
}

#[derive(Clone, Copy)]
enum SubstitutionKind {
    /// `` ` ``
    Backquote,
    /// `$(`
    Command,
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
            (b'$', Some(b'(')) => SubstitutionKind::Command,
            (b'<' | b'>', Some(b'(')) => SubstitutionKind::Process,
            _ => return None,
        };
        Some(SubstitutionMark { at, kind })
    })
}
