//! Reports a finished process, a command or a program: to the model as JSON, and to people as one
//! line.

use serde_json::{Map, Value, json};

use crate::permissions::protected::is_env_name;
use crate::world::access::gate::Gate;
use crate::world::exec::tool_result::{ActionOutcome, Observation};
use crate::world::sandbox::{CommandOutput, ExitReason};

/// The exit status reported for a process that did not exit by itself.
const EXIT_CODE_NONE: i32 = -1;

/// What Python prints before the calls that led to an error.
const TRACEBACK_HEADING: &str = "Traceback (most recent call last):";

/// Returns the observation of a finished process, with additional fields and its `notes`.
pub(super) fn process_observation<const N: usize>(
    output: &CommandOutput,
    extra_fields: [(&str, Value); N],
    notes: Vec<String>,
) -> Observation {
    let exit_code = output.exit_reason.exit_code();
    let success = exit_code == Some(0);
    let mut answer = Map::new();
    let mut add = |name: &str, value: Value| drop(answer.insert(name.to_owned(), value));
    add("success", success.into());
    add("exit_code", exit_code.unwrap_or(EXIT_CODE_NONE).into());
    add("stdout", output.stdout.for_model().into());
    add("stderr", output.stderr.for_model().into());
    add("execution_time", seconds(output.elapsed.as_millis()));
    for (name, value) in extra_fields {
        add(name, value);
    }
    let exit_note = exit_code.is_none().then(|| output.exit_reason.to_string());
    let exit_notes = exit_note.into_iter().chain(output.notes.clone());
    let notes: Vec<String> = exit_notes.chain(notes).collect();
    if !notes.is_empty() {
        add("notes", notes.into());
    }
    let outcome = if success {
        ActionOutcome::Done
    } else {
        ActionOutcome::Failed
    };
    Observation {
        exit_code,
        summary: Some(summary(output)),
        ..Observation::new(outcome, Value::Object(answer).to_string())
    }
}

/// Returns the note for a process that failed although it may have needed a file with variables, which
/// the trees of `gate` hide.
pub(super) fn hidden_env_note(output: &CommandOutput, gate: &Gate) -> Option<String> {
    if output.exit_reason == ExitReason::Exited(0) {
        return None;
    }
    let hidden_file = gate.trees().into_iter().find_map(|tree| {
        let mut hidden = tree.grant().hidden.iter();
        let rel = hidden.find(|rel| rel.name().is_some_and(is_env_name))?;
        Some(tree.join(rel).real().clone())
    })?;
    Some(format!(
        "`{hidden_file}` is hidden here; `unprotected: [.env]` of its context path opens it"
    ))
}

/// Returns one line for people: how the process ended, after how long, and the most telling line of
/// its output.
pub(super) fn summary(output: &CommandOutput) -> String {
    let CommandOutput {
        exit_reason,
        elapsed,
        ..
    } = output;
    let (stdout, stderr) = (&output.stdout.text, &output.stderr.text);
    let (exit_text, texts) = match exit_reason.exit_code() {
        Some(0) => ("status 0".to_owned(), [stdout, stderr]),
        Some(status) => (format!("status {status}"), [stderr, stdout]),
        None => (exit_reason.to_string(), [stderr, stdout]),
    };
    let summary_line = texts.into_iter().find_map(|text| summary_line(text));
    let suffix = summary_line.map_or_else(String::new, |line| format!(": {line}"));
    format!("{exit_text} after {:.1} s{suffix}", elapsed.as_secs_f64())
}

/// Returns the first non-empty line of an output; of a Python traceback the last, which states the
/// error.
fn summary_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let is_heading = |line: &str| line.starts_with("# ");
    if text
        .lines()
        .any(|line| line.trim_end() == TRACEBACK_HEADING)
    {
        return lines.next_back();
    }
    let first_line = lines.next()?;
    // Go prints a heading with the package's name before the error.
    Some(
        lines
            .next()
            .filter(|_| is_heading(first_line))
            .unwrap_or(first_line),
    )
}

/// Converts milliseconds to seconds with three decimal places.
fn seconds(millis: u128) -> Value {
    let millis = u32::try_from(millis).unwrap_or(u32::MAX);
    json!(f64::from(millis) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_first_line_or_the_exception() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(summary_line(text), expected, "{text}");
        };
        check("", None);
        check("\n \none\ntwo\n", Some("one"));
        let trace = "Traceback (most recent call last):\n  File \"x\", line 1\n";
        check(
            &format!("{trace}AttributeError: no f\n"),
            Some("AttributeError: no f"),
        );
        check(
            &format!("a warning\n{trace}KeyError: 1"),
            Some("KeyError: 1"),
        );
        check(
            "# program\n./main.go:3:2: undefined: x\n",
            Some("./main.go:3:2: undefined: x"),
        );
        check("# a comment alone\n", Some("# a comment alone"));
        check("panic: no\n\ngoroutine 1 [running]:\n", Some("panic: no"));
    }
}
