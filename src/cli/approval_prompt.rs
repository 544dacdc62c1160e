//! The approval prompt at the terminal: shows as plain text all of what an agent's call would do,
//! and lets the user allow it once, for the session or always, or deny it. Nothing is left out
//! without a line that says how much and how to read it.

use std::iter::once;

use serde_json::Value;

use crate::cli::cell_text::wrap_styled_line;
use crate::cli::output::{CliOutput, StyledLine, TextStyle, line_pieces};
use crate::event::ApprovalAnswer;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::text::{count_noun, escape_line, escape_name};
use crate::world::approval::ApprovalRequest;

/// Maximum number of rows that are shown of one argument.
const ARGUMENT_ROWS_MAX: usize = 24;
/// Maximum number of rows that are shown of a call.
const ROWS_MAX: usize = 120;

/// What the user answers about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallDecision {
    /// Only that.
    Answer(ApprovalAnswer),
    /// No, and the user will say what the agent is to do instead.
    Instead,
}

/// Asks the user to approve an agent's call, on a terminal of `width` columns. The caller stores an
/// answer of "always" in the file `always`; without one it is not offered. Returns `None` at the
/// end of the input, or if the request is no longer pending.
pub(crate) fn ask_approval(
    agent: &AgentId,
    request: &ApprovalRequest,
    always: Option<&AbsPath>,
    width: u16,
    output: &mut CliOutput<'_>,
    next_key: &mut dyn FnMut(&mut CliOutput<'_>) -> Option<char>,
) -> Option<CallDecision> {
    let wrap = |part: &Vec<StyledLine>| -> Vec<StyledLine> {
        let lines = part.iter();
        lines
            .flat_map(|line| wrap_styled_line(line, width))
            .collect()
    };
    let parts: Vec<Vec<StyledLine>> = request_parts(agent, request).iter().map(wrap).collect();
    let shown_parts = parts
        .iter()
        .flat_map(|part| excerpt(part, ARGUMENT_ROWS_MAX));
    let shown_rows = excerpt(&shown_parts.collect::<Vec<_>>(), ROWS_MAX);
    let all_rows = parts.concat();
    let print = |rows: &[StyledLine], output: &mut CliOutput<'_>| {
        for row in rows {
            output.line(&line_pieces(row));
        }
    };
    print(&shown_rows, output);
    let view = if shown_rows == all_rows {
        ""
    } else {
        ", [v]iew all of it"
    };
    let choices = match always {
        Some(file) => format!(
            "allow it [o]nce, for this [s]ession, [A]lways (saved in {})? [n]o, no and [t]ell it \
             what to do{view}",
            escape_name(&file.to_string())
        ),
        None => {
            format!("allow it [o]nce, for this [s]ession? [n]o, no and [t]ell it what to do{view}")
        }
    };
    output.line(&[(TextStyle::Strong, &choices)]);
    loop {
        let (word, reply) = match (next_key(output)?, always) {
            ('o' | 'y', _) => ("once", CallDecision::Answer(ApprovalAnswer::Once)),
            ('s', _) => (
                "this session",
                CallDecision::Answer(ApprovalAnswer::Session),
            ),
            ('a', Some(_)) => ("always", CallDecision::Answer(ApprovalAnswer::Always)),
            ('n', _) => ("no", CallDecision::Answer(ApprovalAnswer::No)),
            ('t', _) => ("no", CallDecision::Instead),
            ('v', _) => {
                print(&all_rows, output);
                output.line(&[(TextStyle::Strong, &choices)]);
                continue;
            }
            _ => continue,
        };
        output.note(word);
        return Some(reply);
    }
}

/// Returns the first and the last of `rows`, at most `rows_max` of them, and between them a line
/// that counts the others.
pub(crate) fn excerpt(rows: &[StyledLine], rows_max: usize) -> Vec<StyledLine> {
    if rows.len() <= rows_max {
        return rows.to_vec();
    }
    let shown_count = rows_max.saturating_sub(1);
    let (head, rest) = rows.split_at(shown_count.div_ceil(2));
    let (hidden, tail) = rest.split_at(rest.len().saturating_sub(shown_count / 2));
    let note = format!("  … {} not shown", count_noun(hidden.len(), "row"));
    let marker = styled_line(TextStyle::Warn, note);
    head.iter()
        .chain(once(&marker))
        .chain(tail)
        .cloned()
        .collect()
}

/// Describes an agent's call in full: its effects, its arguments and why approval is required. Each
/// part is a list of lines, in which nothing looks like a line of another part.
pub(crate) fn request_parts(agent: &AgentId, request: &ApprovalRequest) -> Vec<Vec<StyledLine>> {
    let title = format!("{agent} asks to use {}:", escape_name(&request.tool));
    let mut parts = vec![vec![styled_line(TextStyle::Strong, title)]];
    // What is an argument is shown as one.
    let input_text = request.input.to_string();
    let is_argument = |effect: &str| {
        let mut values = request.input.as_object().into_iter().flatten();
        values.any(|(_, value)| value.as_str() == Some(effect)) || effect == input_text
    };
    for effect in request.effects.iter().filter(|effect| !is_argument(effect)) {
        let text = format!("  {}", escape_name(effect));
        parts.push(vec![styled_line(TextStyle::Plain, text)]);
    }
    match &request.input {
        Value::Null => {}
        Value::Object(values) => {
            parts.extend(
                values
                    .iter()
                    .map(|(name, value)| argument_lines(name, value)),
            );
        }
        input @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            parts.push(argument_lines("with", input));
        }
    }
    let reason = format!("  {}", escape_name(&request.reason));
    parts.push(vec![styled_line(TextStyle::Faint, reason)]);
    parts
}

/// Describes one argument of a call: text of several lines line by line, edits as removed and added
/// lines.
fn argument_lines(name: &str, value: &Value) -> Vec<StyledLine> {
    let name = escape_name(name);
    let title = |text: String| styled_line(TextStyle::Faint, format!("  {name}: {text}"));
    let edits: Option<Vec<(&str, &str)>> = value
        .as_array()
        .filter(|list| !list.is_empty())
        .and_then(|list| list.iter().map(edit_texts).collect());
    match (value, edits) {
        (Value::String(text), _) if text.contains('\n') => {
            let lines = text_lines(text, "    | ", TextStyle::Plain);
            let count = count_noun(lines.len(), "line");
            let chars = count_noun(text.chars().count(), "character");
            once(title(format!("{count}, {chars}")))
                .chain(lines)
                .collect()
        }
        (_, Some(edits)) => {
            let mut lines = vec![title(count_noun(edits.len(), "edit"))];
            for (old, new) in edits {
                lines.extend(text_lines(old, "    - ", TextStyle::Bad));
                lines.extend(text_lines(new, "    + ", TextStyle::Good));
            }
            lines
        }
        (Value::String(text), None) => vec![title(escape_name(text))],
        (other, None) => vec![title(escape_name(&other.to_string()))],
    }
}

/// Returns the old and the new text of an edit.
fn edit_texts(value: &Value) -> Option<(&str, &str)> {
    Some((
        value.get("oldText")?.as_str()?,
        value.get("newText")?.as_str()?,
    ))
}

/// Returns the lines of `text`, escaped, each after `mark`.
fn text_lines(text: &str, mark: &str, style: TextStyle) -> Vec<StyledLine> {
    let lines = text.split_terminator('\n');
    lines
        .map(|line| styled_line(style, format!("{mark}{}", escape_line(line))))
        .collect()
}

fn styled_line(style: TextStyle, text: String) -> StyledLine {
    vec![(style, text)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::permissions::grant::Phase;

    /// Returns what a terminal of 40 columns shows of a call with these effects and arguments, if
    /// the user answers `v` and then `n`.
    fn shown(effects: &[&str], input: &Value) -> String {
        let request = ApprovalRequest {
            tool: "t".to_owned(),
            input: input.clone(),
            effects: effects.iter().map(|effect| (*effect).to_owned()).collect(),
            reason: "r".to_owned(),
            phase: Phase::Coordination,
            call_id: None,
        };
        let mut shown = Vec::new();
        let mut output = CliOutput::with_writers(std::io::sink(), &mut shown);
        let agent = AgentId::parse("a").unwrap();
        let mut answers = ['\n', 'v', 'n'].into_iter();
        let mut next_key = |_: &mut CliOutput<'_>| answers.next();
        let answer = ask_approval(&agent, &request, None, 40, &mut output, &mut next_key);
        assert_eq!(answer, Some(CallDecision::Answer(ApprovalAnswer::No)));
        drop(output);
        String::from_utf8(shown).unwrap()
    }

    #[track_caller]
    fn check(input: &Value, expected: &str) {
        let shown = shown(&[], input);
        let shown = shown.strip_prefix("a asks to use t:\n").unwrap();
        let arguments = shown.split("  r\n").next().unwrap();
        assert_eq!(arguments, expected, "{input}");
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
    fn a_path_forges_no_line_of_an_approval_prompt() {
        let path = "a\n  path: b\n  r";
        let effect = format!("write `{path}`");
        let wide = format!("{}  path: b", "x".repeat(40));
        let shown = shown(&[&effect], &json!({"content": wide, "path": path}));
        let is_forged = |line: &str| matches!(line, "  path: b" | "  r" | "path: b");
        assert_eq!(
            shown.lines().filter(|line| is_forged(line)).count(),
            2,
            "{shown}"
        );
    }

    #[test]
    fn a_long_text_is_shown_with_head_and_tail_and_all_of_it_on_request() {
        let lines: Vec<String> = (0..4000).map(|number| format!("x{number}")).collect();
        let content = lines.join("\n");
        let shown = shown(&["in d"], &json!({"content": content, "other": "y"}));
        let (question, all) = shown.split_once("[v]iew all").unwrap();
        assert!(
            question.contains("4000 lines, 22889 characters"),
            "{question}"
        );
        assert!(
            question.contains("| x0\n") && question.contains("| x3999\n"),
            "{question}"
        );
        assert!(question.contains("  … 3978 rows not shown\n"), "{question}");
        assert!(
            question.contains("  in d\n") && question.contains("  other: y\n"),
            "{question}"
        );
        assert!(question.lines().count() < 40, "{question}");
        assert!(
            lines
                .iter()
                .all(|line| all.contains(&format!("| {line}\n")))
        );
    }

    #[test]
    fn the_end_of_a_long_command_is_shown() {
        let command = format!("echo{}; echo end", " ".repeat(9000));
        let shown = shown(&[&command, "in d"], &json!({"command": command}));
        let (question, all) = shown.split_once("[v]iew all").unwrap();
        assert!(
            question.contains("command: echo") && question.contains("; echo end"),
            "{question}"
        );
        assert!(all.lines().count() > 9000 / 40, "{all}");
    }
}
