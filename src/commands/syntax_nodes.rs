//! Reads commands, with their words and redirections, from syntax nodes, and detects where a shell
//! would parse the source differently from the grammar.

use tree_sitter::Node;

use crate::commands::line::{Redirection, ShellWord, SimpleCommand};
use crate::commands::substitutions::is_verbatim;
use crate::commands::words::{append_word, shell_word, text_of};

/// Returns the simple command at a node, if there is one.
pub(super) fn command_at(
    node: Node<'_>,
    parent: Option<Node<'_>>,
    children: &[Node<'_>],
    source: &str,
) -> Option<SimpleCommand> {
    if is_simple_command(node) {
        let mut command = build_command(children, source);
        if let Some(statement) = parent.filter(|parent| parent.kind() == REDIRECTED_STATEMENT) {
            let mut cursor = statement.walk();
            let siblings: Vec<Node<'_>> = statement.children(&mut cursor).collect();
            command.redirections.extend(redirections(&siblings, source));
            let trailing_words = siblings
                .iter()
                .flat_map(|node| words_after_target(*node, source));
            command.words.extend(trailing_words);
        }
        return Some(command);
    }
    let has_only_redirections = node.kind() == REDIRECTED_STATEMENT
        && !children.iter().any(|child| is_simple_command(*child));
    has_only_redirections.then(|| SimpleCommand {
        redirections: redirections(children, source),
        ..SimpleCommand::default()
    })
}

/// Returns an assignment that sets a variable for later commands rather than for one command.
pub(super) fn variable_setting_at(
    node: Node<'_>,
    parent: Option<Node<'_>>,
    source: &str,
) -> Option<SimpleCommand> {
    let is_for_one_command = parent.is_some_and(is_simple_command);
    let is_setting = node.kind() == "variable_assignment" && !is_for_one_command;
    is_setting.then(|| SimpleCommand {
        assignments: vec![shell_word(node, source)],
        ..SimpleCommand::default()
    })
}

/// Returns the words after the target of a redirection. The grammar treats them as further targets;
/// to a shell they are words of the command.
fn words_after_target(redirection: Node<'_>, source: &str) -> Vec<ShellWord> {
    let (field, targets) = match redirection.kind() {
        "file_redirect" => ("destination", 1),
        "heredoc_redirect" => ("argument", 0),
        _ => return Vec::new(),
    };
    let mut cursor = redirection.walk();
    let words = redirection.children_by_field_name(field, &mut cursor);
    words
        .skip(targets)
        .map(|node| shell_word(node, source))
        .collect()
}

/// The kind of node of a statement followed by redirections.
const REDIRECTED_STATEMENT: &str = "redirected_statement";

/// The word that negates the status of a command. The grammar takes a second one for a command
/// name.
pub(super) const NEGATION: &str = "!";

/// Returns whether a node is a simple command without the redirections around it.
fn is_simple_command(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "command" | "declaration_command" | "unset_command"
    )
}

/// Builds the command from a node's children.
fn build_command(children: &[Node<'_>], source: &str) -> SimpleCommand {
    let mut command = SimpleCommand {
        redirections: redirections(children, source),
        ..SimpleCommand::default()
    };
    let mut previous_end = 0;
    for child in children {
        match child.kind() {
            "variable_assignment" if command.words.is_empty() => {
                command.assignments.push(shell_word(*child, source));
            }
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                command.words.extend(words_after_target(*child, source));
                previous_end = child.end_byte();
            }
            "comment" => {}
            _ if command.words.is_empty() && text_of(*child, source).trim() == NEGATION => {}
            _ => {
                let word = shell_word(*child, source);
                let gap = source
                    .get(previous_end..child.start_byte())
                    .unwrap_or_default();
                match command.words.last_mut() {
                    Some(last) if gap.replace("\\\n", "").is_empty() => append_word(last, word),
                    _ => command.words.push(word),
                }
                previous_end = child.end_byte();
            }
        }
    }
    command
}

/// Returns the redirections among a node's children.
fn redirections(children: &[Node<'_>], source: &str) -> Vec<Redirection> {
    let redirections = children.iter().filter_map(|child| {
        let mut cursor = child.walk();
        let parts: Vec<Node<'_>> = child.children(&mut cursor).collect();
        let operator_node = parts.iter().find(|part| !part.is_named())?;
        let operator = text_of(*operator_node, source).to_owned();
        let target = match child.kind() {
            "file_redirect" => shell_word(child.child_by_field_name("destination")?, source),
            "herestring_redirect" => shell_word(*parts.last()?, source),
            "heredoc_redirect" => {
                let body = parts.iter().find(|part| part.kind() == "heredoc_body")?;
                ShellWord::literal(text_of(*body, source))
            }
            _ => return None,
        };
        Some(Redirection { operator, target })
    });
    redirections.collect()
}

/// Returns whether the shell would parse this node differently from the grammar. The grammar treats
/// an escaped space as a space, and an indented end marker of a here-document as its end.
pub(super) fn is_ambiguous(node: Node<'_>, children: &[Node<'_>], source: &str) -> bool {
    let is_text = matches!(
        node.kind(),
        "string" | "translated_string" | "heredoc_body" | "expansion" | "regex"
    );
    let mut pairs = children.iter().zip(children.iter().skip(1));
    let has_escape_between = |(left, right): (&Node<'_>, &Node<'_>)| {
        let gap = source.get(left.end_byte()..right.start_byte());
        gap.is_some_and(has_escape)
    };
    if !is_text && node.kind() != "heredoc_redirect" && pairs.any(has_escape_between) {
        return true;
    }
    node.kind() == "heredoc_redirect"
        && (has_misparsed_body(node, source) || !has_exact_end_marker(children, source))
}

/// Returns whether the grammar takes the beginning of a here-document's body for words of the
/// command, as it does after a backslash.
fn has_misparsed_body(redirection: Node<'_>, source: &str) -> bool {
    let mut cursor = redirection.walk();
    let mut words = redirection.children_by_field_name("argument", &mut cursor);
    words.any(|word| text_of(word, source).starts_with('\n')) && !is_verbatim(redirection, source)
}

/// Returns whether the end marker of a here-document is alone on its line.
fn has_exact_end_marker(children: &[Node<'_>], source: &str) -> bool {
    let Some(end) = children.iter().find(|child| child.kind() == "heredoc_end") else {
        return false;
    };
    let may_be_indented = children.iter().any(|child| child.kind() == "<<-");
    let mut bodies = children
        .iter()
        .filter(|child| child.kind() == "heredoc_body");
    let ends_earlier = bodies.any(|body| {
        let mut lines = text_of(*body, source).lines();
        let end_marker = text_of(*end, source).trim();
        lines.any(|line| {
            line == end_marker || may_be_indented && line.trim_start_matches('\t') == end_marker
        })
    });
    if ends_earlier {
        return false;
    }
    let text_before = source.get(..end.start_byte()).unwrap_or_default();
    let line = text_before.rsplit('\n').next().unwrap_or_default();
    let text = text_of(*end, source).trim_start_matches('\n');
    let indent_characters = line
        .chars()
        .chain(text.chars().take_while(|c| c.is_whitespace()));
    let text_after = source.get(end.end_byte()..).unwrap_or_default();
    let mut indent = indent_characters.peekable();
    let is_indented = indent.peek().is_some();
    (text_after.is_empty() || text_after.starts_with('\n'))
        && (!is_indented || (may_be_indented && indent.all(|c| c == '\t')))
}

/// Returns whether the text between two words contains a backslash that is not a line continuation.
pub(super) fn has_escape(text: &str) -> bool {
    let mut after_escapes = text.split('\\').skip(1);
    after_escapes.any(|after| !after.starts_with('\n'))
}
