//! The approval prompt at the terminal: shows as plain text what an agent's call would do, and lets
//! the user allow it once, for the session or always, or deny it.

use serde_json::Value;

use crate::cli::output::{CliOutput, TextStyle};
use crate::event::ApprovalAnswer;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::text::{count_noun, escape_line, escape_name, truncate};
use crate::world::approval::ApprovalRequest;

/// Maximum length of the description of one effect of a call, in characters.
const DEED_CHARS_MAX: usize = 2000;
/// Maximum number of effects that are shown of a call.
const DEEDS_SHOWN_MAX: usize = 20;
/// Maximum number of lines that are shown of one string argument, and maximum line length in
/// characters.
const TEXT_LINES_MAX: usize = 40;
const LINE_CHARS_MAX: usize = 300;
/// Maximum number of edits and of other arguments that are shown.
const VALUES_SHOWN_MAX: usize = 20;
/// Maximum length of an argument that is not a string, in characters.
const VALUE_CHARS_MAX: usize = 500;

/// Asks the user to approve an agent's call. The caller stores an answer of "always" in the file
/// `always`; without one it is not offered. Returns `None` at the end of the input, or if the
/// request is no longer pending.
pub(crate) fn ask_approval(
    agent: &AgentId,
    question: &ApprovalRequest,
    always: Option<&AbsPath>,
    output: &mut CliOutput<'_>,
    next: &mut dyn FnMut() -> Option<String>,
) -> Option<ApprovalAnswer> {
    let title = format!("{agent} asks to use {}:", escape_name(&question.tool));
    output.line(&[(TextStyle::Strong, &title)]);
    for deed in question.deeds.iter().take(DEEDS_SHOWN_MAX) {
        for line in truncate(deed, DEED_CHARS_MAX).lines() {
            output.line(&[(TextStyle::Plain, &format!("  {}", escape_line(line)))]);
        }
    }
    let more = question.deeds.len().saturating_sub(DEEDS_SHOWN_MAX);
    if more > 0 {
        output.line(&[(TextStyle::Faint, &format!("  and {more} more"))]);
    }
    show_input(&question.input, output);
    output.line(&[(
        TextStyle::Faint,
        &format!("  {}", escape_name(&question.reason)),
    )]);
    let offered = match always {
        Some(file) => format!(
            "[o]nce, this [s]ession, [a]lways (saved in {}), [n]o, then Enter?",
            escape_name(&file.to_string())
        ),
        None => "[o]nce, this [s]ession, [n]o, then Enter?".to_owned(),
    };
    loop {
        output.ask(&offered);
        match (next()?.to_lowercase().as_str(), always) {
            ("o" | "once" | "y" | "yes", _) => return Some(ApprovalAnswer::Once),
            ("s" | "session", _) => return Some(ApprovalAnswer::Session),
            ("a" | "always", Some(_)) => return Some(ApprovalAnswer::Always),
            ("n" | "no", _) => return Some(ApprovalAnswer::No),
            (_, Some(_)) => output.note("type o, s, a or n, then Enter"),
            (_, None) => output.note("type o, s or n, then Enter"),
        }
    }
}

/// Shows the arguments of a tool call, one after the other.
fn show_input(input: &Value, output: &mut CliOutput<'_>) {
    let Value::Object(values) = input else {
        return show_value(None, input, output);
    };
    for (name, value) in values.iter().take(VALUES_SHOWN_MAX) {
        show_value(Some(name), value, output);
    }
    show_more(values.len(), output);
}

fn show_value(name: Option<&str>, value: &Value, output: &mut CliOutput<'_>) {
    let name = name.unwrap_or("with");
    let edits: Option<Vec<(&str, &str)>> = value
        .as_array()
        .filter(|list| !list.is_empty())
        .and_then(|list| list.iter().map(edited_text).collect());
    let text = match (value, edits) {
        (Value::String(text), _) if text.contains('\n') || text.len() > LINE_CHARS_MAX => {
            let lines = count_noun(text.lines().count(), "line");
            let chars = count_noun(text.chars().count(), "character");
            let title = format!("  {}: {lines}, {chars}", escape_name(name));
            output.line(&[(TextStyle::Faint, &title)]);
            return show_lines(text, "    | ", TextStyle::Plain, output);
        }
        (_, Some(edits)) => {
            let title = format!(
                "  {}: {}",
                escape_name(name),
                count_noun(edits.len(), "edit")
            );
            output.line(&[(TextStyle::Faint, &title)]);
            for (old, new) in edits.iter().take(VALUES_SHOWN_MAX) {
                show_lines(old, "    - ", TextStyle::Bad, output);
                show_lines(new, "    + ", TextStyle::Good, output);
            }
            return show_more(edits.len(), output);
        }
        (Value::String(text), None) => text.clone(),
        (other, None) => truncate(&other.to_string(), VALUE_CHARS_MAX),
    };
    let line = format!("  {}: {}", escape_name(name), escape_name(&text));
    output.line(&[(TextStyle::Faint, &line)]);
}

/// Returns the old and the new text of an edit.
fn edited_text(value: &Value) -> Option<(&str, &str)> {
    Some((
        value.get("oldText")?.as_str()?,
        value.get("newText")?.as_str()?,
    ))
}

fn show_lines(text: &str, mark: &str, style: TextStyle, output: &mut CliOutput<'_>) {
    for line in text.lines().take(TEXT_LINES_MAX) {
        let line = escape_line(&truncate(line, LINE_CHARS_MAX));
        output.line(&[(style, &format!("{mark}{line}"))]);
    }
    let more = text.lines().count().saturating_sub(TEXT_LINES_MAX);
    if more > 0 {
        let more = count_noun(more, "more line");
        output.line(&[(TextStyle::Faint, &format!("    and {more}"))]);
    }
}

fn show_more(count: usize, output: &mut CliOutput<'_>) {
    let more = count.saturating_sub(VALUES_SHOWN_MAX);
    if more > 0 {
        output.line(&[(TextStyle::Faint, &format!("    and {more} more"))]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(input: &Value, expected: &str) {
        let mut shown = Vec::new();
        let mut output = CliOutput::with_writers(std::io::sink(), &mut shown);
        show_input(input, &mut output);
        drop(output);
        assert_eq!(String::from_utf8(shown).unwrap(), expected, "{input}");
    }

    #[test]
    fn what_a_tool_is_given_is_shown_as_it_would_stand_in_a_file() {
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
    fn what_is_long_is_shortened_and_its_length_told() {
        let mut shown = Vec::new();
        let mut output = CliOutput::with_writers(std::io::sink(), &mut shown);
        show_input(&json!({"content": "x\n".repeat(4000)}), &mut output);
        drop(output);
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains("4000 lines, 8000 characters"), "{shown}");
        assert!(shown.ends_with("    and 3960 more lines\n"), "{shown}");
        assert_eq!(shown.lines().count(), TEXT_LINES_MAX + 2);
    }
}
