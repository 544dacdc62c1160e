//! The approval prompt at the terminal: shows as plain text what an agent's call would do, and lets
//! the user allow it once, for the session or always, or deny it.

use serde_json::Value;

use crate::cli::output::{CliOutput, StyledLine, TextStyle, line_pieces};
use crate::event::ApprovalAnswer;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::text::{count_noun, escape_line, escape_name, truncate};
use crate::world::approval::ApprovalRequest;

/// Maximum length of the description of one effect of a call, in characters.
const EFFECT_CHARS_MAX: usize = 2000;
/// Maximum number of effects that are shown of a call.
const EFFECTS_SHOWN_MAX: usize = 20;
/// Maximum number of lines that are shown of one string argument.
const TEXT_LINES_MAX: usize = 40;
/// Maximum length of such a line, in characters.
const LINE_CHARS_MAX: usize = 300;
/// Maximum number of arguments that are shown, and of edits in one of them.
const VALUES_SHOWN_MAX: usize = 20;
/// Maximum length of an argument that is not a string, in characters.
const VALUE_CHARS_MAX: usize = 500;

/// Asks the user to approve an agent's call. The caller stores an answer of "always" in the file
/// `always`; without one it is not offered. Returns `None` at the end of the input, or if the
/// request is no longer pending.
pub(crate) fn ask_approval(
    agent: &AgentId,
    request: &ApprovalRequest,
    always: Option<&AbsPath>,
    output: &mut CliOutput<'_>,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Option<ApprovalAnswer> {
    for line in request_lines(agent, request) {
        output.line(&line_pieces(&line));
    }
    let choices = match always {
        Some(file) => format!(
            "[o]nce, this [s]ession, [a]lways (saved in {}), [n]o, then Enter?",
            escape_name(&file.to_string())
        ),
        None => "[o]nce, this [s]ession, [n]o, then Enter?".to_owned(),
    };
    loop {
        output.ask(&choices);
        match (next_line()?.to_lowercase().as_str(), always) {
            ("o" | "once" | "y" | "yes", _) => return Some(ApprovalAnswer::Once),
            ("s" | "session", _) => return Some(ApprovalAnswer::Session),
            ("a" | "always", Some(_)) => return Some(ApprovalAnswer::Always),
            ("n" | "no", _) => return Some(ApprovalAnswer::No),
            (_, Some(_)) => output.note("type o, s, a or n, then Enter"),
            (_, None) => output.note("type o, s or n, then Enter"),
        }
    }
}

/// Describes an agent's call, with its effects, its arguments and why approval is required.
pub(crate) fn request_lines(agent: &AgentId, request: &ApprovalRequest) -> Vec<StyledLine> {
    let title = format!("{agent} asks to use {}:", escape_name(&request.tool));
    let mut lines = vec![styled_line(TextStyle::Strong, title)];
    for effect in request.effects.iter().take(EFFECTS_SHOWN_MAX) {
        for text in truncate(effect, EFFECT_CHARS_MAX).lines() {
            lines.push(styled_line(
                TextStyle::Plain,
                format!("  {}", escape_line(text)),
            ));
        }
    }
    let hidden_count = request.effects.len().saturating_sub(EFFECTS_SHOWN_MAX);
    if hidden_count > 0 {
        let note = format!("  and {hidden_count} more");
        lines.push(styled_line(TextStyle::Faint, note));
    }
    add_input(&request.input, &mut lines);
    let reason = format!("  {}", escape_name(&request.reason));
    lines.push(styled_line(TextStyle::Faint, reason));
    lines
}

/// Adds the arguments of a tool call, one after the other.
fn add_input(input: &Value, lines: &mut Vec<StyledLine>) {
    let Value::Object(values) = input else {
        return add_value(None, input, lines);
    };
    for (name, value) in values.iter().take(VALUES_SHOWN_MAX) {
        add_value(Some(name), value, lines);
    }
    add_hidden_count(values.len(), lines);
}

fn add_value(name: Option<&str>, value: &Value, lines: &mut Vec<StyledLine>) {
    let name = name.unwrap_or("with");
    let edits: Option<Vec<(&str, &str)>> = value
        .as_array()
        .filter(|list| !list.is_empty())
        .and_then(|list| list.iter().map(edit_texts).collect());
    let text = match (value, edits) {
        (Value::String(text), _) if text.contains('\n') || text.len() > LINE_CHARS_MAX => {
            let count = count_noun(text.lines().count(), "line");
            let chars = count_noun(text.chars().count(), "character");
            let title = format!("  {}: {count}, {chars}", escape_name(name));
            lines.push(styled_line(TextStyle::Faint, title));
            return add_text(text, "    | ", TextStyle::Plain, lines);
        }
        (_, Some(edits)) => {
            let title = format!(
                "  {}: {}",
                escape_name(name),
                count_noun(edits.len(), "edit")
            );
            lines.push(styled_line(TextStyle::Faint, title));
            for (old, new) in edits.iter().take(VALUES_SHOWN_MAX) {
                add_text(old, "    - ", TextStyle::Bad, lines);
                add_text(new, "    + ", TextStyle::Good, lines);
            }
            return add_hidden_count(edits.len(), lines);
        }
        (Value::String(text), None) => text.clone(),
        (other, None) => truncate(&other.to_string(), VALUE_CHARS_MAX),
    };
    let text = format!("  {}: {}", escape_name(name), escape_name(&text));
    lines.push(styled_line(TextStyle::Faint, text));
}

/// Returns the old and the new text of an edit.
fn edit_texts(value: &Value) -> Option<(&str, &str)> {
    Some((
        value.get("oldText")?.as_str()?,
        value.get("newText")?.as_str()?,
    ))
}

fn add_text(text: &str, mark: &str, style: TextStyle, lines: &mut Vec<StyledLine>) {
    for text_line in text.lines().take(TEXT_LINES_MAX) {
        let shown_line = escape_line(&truncate(text_line, LINE_CHARS_MAX));
        lines.push(styled_line(style, format!("{mark}{shown_line}")));
    }
    let hidden_count = text.lines().count().saturating_sub(TEXT_LINES_MAX);
    if hidden_count > 0 {
        let hidden_lines = count_noun(hidden_count, "more line");
        lines.push(styled_line(
            TextStyle::Faint,
            format!("    and {hidden_lines}"),
        ));
    }
}

fn add_hidden_count(count: usize, lines: &mut Vec<StyledLine>) {
    let hidden_count = count.saturating_sub(VALUES_SHOWN_MAX);
    if hidden_count > 0 {
        let note = format!("    and {hidden_count} more");
        lines.push(styled_line(TextStyle::Faint, note));
    }
}

fn styled_line(style: TextStyle, text: String) -> StyledLine {
    vec![(style, text)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what the terminal shows of the arguments `input`.
    fn shown_input(input: &Value) -> String {
        let mut lines = Vec::new();
        add_input(input, &mut lines);
        let mut shown = Vec::new();
        let mut output = CliOutput::with_writers(std::io::sink(), &mut shown);
        for line in &lines {
            output.line(&line_pieces(line));
        }
        drop(output);
        String::from_utf8(shown).unwrap()
    }

    #[track_caller]
    fn check(input: &Value, expected: &str) {
        assert_eq!(shown_input(input), expected, "{input}");
    }

    #[test]
    fn an_approval_prompt_shows_file_content_line_by_line() {
        check(
            &json!({"path": "a.txt", "content": "one\n\u{1b}[2J\n"}),
            "  path: a.txt\n  content: 2 lines, 9 characters\n    | one\n    | \\u{1b}[2J\n",
        );
        check(
            &json!({"edits": [{"oldText": "a\nb", "newText": "c"}], "dryRun": false}),
            "  edits: 1 edit\n    - a\n    - b\n    + c\n  dryRun: false\n",
        );
        check(
            &json!({"edits": [{"oldText": "a"}]}),
            "  edits: [{\"oldText\":\"a\"}]\n",
        );
        check(&json!({"paths": []}), "  paths: []\n");
        check(&json!("text"), "  with: text\n");
    }

    #[test]
    fn long_values_are_truncated_with_their_length() {
        let shown = shown_input(&json!({"content": "x\n".repeat(4000)}));
        assert!(shown.contains("4000 lines, 8000 characters"), "{shown}");
        assert!(shown.ends_with("    and 3960 more lines\n"), "{shown}");
        assert_eq!(shown.lines().count(), TEXT_LINES_MAX + 2);
    }
}
