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
    if is_simple(node) {
        let mut command = build_command(children, source);
        if let Some(outside) = parent.filter(|parent| parent.kind() == REDIRECTED) {
            let mut cursor = outside.walk();
            let around: Vec<Node<'_>> = outside.children(&mut cursor).collect();
            command.redirections.extend(redirections(&around, source));
            let words_behind = around
                .iter()
                .flat_map(|node| words_after_target(*node, source));
            command.words.extend(words_behind);
        }
        return Some(command);
    }
    let is_bare = node.kind() == REDIRECTED && !children.iter().any(|child| is_simple(*child));
    is_bare.then(|| SimpleCommand {
        redirections: redirections(children, source),
        ..SimpleCommand::default()
    })
}

/// Returns an assignment that sets a variable for later commands rather than for one command.
pub(super) fn setting_at(
    node: Node<'_>,
    parent: Option<Node<'_>>,
    source: &str,
) -> Option<SimpleCommand> {
    let is_for_a_command = parent.is_some_and(is_simple);
    let is_setting = node.kind() == "variable_assignment" && !is_for_a_command;
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

/// A statement followed by redirections.
const REDIRECTED: &str = "redirected_statement";

/// Negates the status of a command; the grammar takes a second one for a command name.
pub(super) const NOT: &str = "!";

fn is_simple(node: Node<'_>) -> bool {
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
    let mut end = 0;
    for child in children {
        match child.kind() {
            "variable_assignment" if command.words.is_empty() => {
                command.assignments.push(shell_word(*child, source));
            }
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                command.words.extend(words_after_target(*child, source));
                end = child.end_byte();
            }
            "comment" => {}
            _ if command.words.is_empty() && text_of(*child, source).trim() == NOT => {}
            _ => {
                let word = shell_word(*child, source);
                let gap = source.get(end..child.start_byte()).unwrap_or_default();
                match command.words.last_mut() {
                    Some(last) if gap.replace("\\\n", "").is_empty() => append_word(last, word),
                    _ => command.words.push(word),
                }
                end = child.end_byte();
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
    let gap = |(left, right): (&Node<'_>, &Node<'_>)| {
        let gap = source.get(left.end_byte()..right.start_byte());
        gap.is_some_and(has_escape)
    };
    if !is_text && node.kind() != "heredoc_redirect" && pairs.any(gap) {
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
    let is_dashed = children.iter().any(|child| child.kind() == "<<-");
    let mut bodies = children
        .iter()
        .filter(|child| child.kind() == "heredoc_body");
    let ends_before = bodies.any(|body| {
        let mut lines = text_of(*body, source).lines();
        let mark = text_of(*end, source).trim();
        lines.any(|line| line == mark || is_dashed && line.trim_start_matches('\t') == mark)
    });
    if ends_before {
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
        && (!is_indented || (is_dashed && indent.all(|c| c == '\t')))
}

/// Returns whether the text between two words contains a backslash that is not a line continuation.
pub(super) fn has_escape(text: &str) -> bool {
    let mut after_escapes = text.split('\\').skip(1);
    after_escapes.any(|after| !after.starts_with('\n'))
}
