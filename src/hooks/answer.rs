//! Parses a hook's exit status and output as its answer. Anything unexpected is a failure; the
//! caller decides what a failure means.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::hooks::HookEvent;
use crate::text::{escape_line, single_line, truncate};

/// The longest reason that is passed on, in characters.
const REASON_CHARS_MAX: usize = 2000;
/// The longest context that a hook can add to what a model reads, in characters.
const CONTEXT_CHARS_MAX: usize = 10_000;
/// How much of a hook's standard error is shown to the user, in characters.
const STDERR_CHARS_MAX: usize = 300;
/// The exit status that denies, with standard error as the reason.
const DENY_STATUS: i32 = 2;

/// A hook's decision, ordered from the mildest to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookDecision {
    /// The hook has no objection.
    Allow,
    /// Ask a person for approval.
    Ask,
    /// Leave the decision to someone else; a person is asked.
    Defer,
    /// Deny the event.
    Deny,
}

impl HookDecision {
    /// Returns its name in hook output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Defer => "defer",
            Self::Deny => "deny",
        }
    }
}

/// A hook's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// Its decision, if it made one.
    pub decision: Option<HookDecision>,
    /// The reason, with control characters escaped.
    pub reason: Option<String>,
    /// The input that replaces the tool's.
    pub updated_input: Option<Map<String, Value>>,
    /// Additional context for the model, with control characters escaped.
    pub context: Option<String>,
}

/// The reason why a hook gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFailure {
    /// What happened, as the end of a sentence. It contains nothing that the hook wrote.
    pub cause: String,
    /// The hook's standard error, for people.
    pub stderr: String,
}

impl HookFailure {
    /// Returns a failure with this cause and the hook's standard error.
    pub fn new(cause: impl Into<String>, stderr: &str) -> Self {
        Self {
            cause: cause.into(),
            stderr: escape_line(&single_line(stderr, STDERR_CHARS_MAX)),
        }
    }
}

/// The raw JSON output. An unknown field may be a denial that is misspelled or in the wrong place,
/// so it is a failure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HookOutput {
    #[serde(rename = "continue")]
    continues: Option<bool>,
    #[serde(rename = "stopReason")]
    stop_reason: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    #[serde(rename = "hookSpecificOutput")]
    specific: Option<HookSpecificOutput>,
    /// Shown to the user by other programs; ignored here.
    #[serde(rename = "systemMessage")]
    _system_message: Option<IgnoredAny>,
    /// Whether other programs hide the output from their user; ignored here.
    #[serde(rename = "suppressOutput")]
    _suppress_output: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HookSpecificOutput {
    hook_event_name: Option<String>,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Map<String, Value>>,
    additional_context: Option<String>,
}

/// Parses the exit status, standard output and standard error of a hook that ran on `event`.
pub fn parse_answer(
    event: HookEvent,
    status: i32,
    stdout: &str,
    stderr: &str,
) -> Result<HookAnswer, HookFailure> {
    match status {
        0 if stdout.trim().is_empty() => Ok(HookAnswer::default()),
        0 => parse_output(event, stdout).map_err(|cause| HookFailure::new(cause, stderr)),
        DENY_STATUS => Ok(HookAnswer {
            decision: Some(HookDecision::Deny),
            reason: sanitize_text(Some(stderr), REASON_CHARS_MAX),
            ..HookAnswer::default()
        }),
        status => Err(HookFailure::new(
            format!("it ended with status {status}"),
            stderr,
        )),
    }
}

fn parse_output(event: HookEvent, stdout: &str) -> Result<HookAnswer, String> {
    let output: HookOutput =
        serde_json::from_str(stdout).map_err(|_| "its answer is invalid".to_owned())?;
    let mut decisions = Vec::new();
    if output.continues == Some(false) {
        decisions.push((HookDecision::Deny, output.stop_reason));
    }
    match output.decision.as_deref() {
        None => {}
        Some("approve") => decisions.push((HookDecision::Allow, output.reason)),
        Some("block") => decisions.push((HookDecision::Deny, output.reason)),
        Some(_) => return Err("its `decision` is neither `approve` nor `block`".to_owned()),
    }
    let mut answer = HookAnswer::default();
    if let Some(specific) = output.specific {
        if specific
            .hook_event_name
            .is_some_and(|name| name != event.name())
        {
            return Err("its `hookEventName` is another event's".to_owned());
        }
        if let Some(name) = &specific.permission_decision {
            let decision = parse_decision(name).ok_or("its `permissionDecision` is unknown")?;
            decisions.push((decision, specific.permission_decision_reason));
        }
        if specific.updated_input.is_some() && event != HookEvent::PreToolUse {
            return Err("`updatedInput` comes too late".to_owned());
        }
        answer.updated_input = specific.updated_input;
        answer.context = sanitize_text(specific.additional_context.as_deref(), CONTEXT_CHARS_MAX);
    }
    // Among equal decisions the first counts; `max_by_key` returns the last.
    decisions.reverse();
    if let Some((decision, reason)) = decisions.into_iter().max_by_key(|(decision, _)| *decision) {
        answer.decision = Some(decision);
        answer.reason = sanitize_text(reason.as_deref(), REASON_CHARS_MAX);
    }
    Ok(answer)
}

fn parse_decision(name: &str) -> Option<HookDecision> {
    use HookDecision::{Allow, Ask, Defer, Deny};
    let decisions = [Allow, Ask, Defer, Deny];
    decisions
        .into_iter()
        .find(|decision| decision.name() == name)
}

/// Trims and truncates a hook's text and escapes its control characters. Returns `None` if it is
/// empty.
fn sanitize_text(text: Option<&str>, chars_max: usize) -> Option<String> {
    let text = text?.trim();
    let lines: Vec<String> = text.lines().map(escape_line).collect();
    (!text.is_empty()).then(|| truncate(&lines.join("\n"), chars_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the answer to `PreToolUse` output: its decision, reason, input and context.
    #[track_caller]
    fn check(status: i32, stdout: &str, stderr: &str, expected: &str) {
        let result = parse_answer(HookEvent::PreToolUse, status, stdout, stderr);
        let summary = match result {
            Err(failure) => format!("failed: {} ({})", failure.cause, failure.stderr),
            Ok(answer) => {
                let input = answer
                    .updated_input
                    .map(|input| Value::Object(input).to_string());
                let parts = [
                    answer.decision.map(|decision| decision.name().to_owned()),
                    answer.reason,
                    input,
                    answer.context.map(|context| format!("+{context}")),
                ];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                parts.join(" | ")
            }
        };
        assert_eq!(summary, expected);
    }

    fn specific(fields: &str) -> String {
        format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse",{fields}}}}}"#)
    }

    #[test]
    fn valid_answers_are_parsed() {
        check(0, "", "noise", "");
        check(0, " \n", "", "");
        check(0, "{}", "", "");
        for decision in ["allow", "deny", "ask", "defer"] {
            let fields =
                format!(r#""permissionDecision":"{decision}","permissionDecisionReason":"so""#);
            check(0, &specific(&fields), "", &format!("{decision} | so"));
        }
        check(
            0,
            &specific(r#""updatedInput":{"path":"b"},"additionalContext":"mind \u001b[31m""#),
            "",
            r#"{"path":"b"} | +mind \u{1b}[31m"#,
        );
        check(0, r#"{"decision":"block","reason":"no"}"#, "", "deny | no");
        check(0, r#"{"decision":"approve"}"#, "", "allow");
        check(
            0,
            r#"{"continue":false,"stopReason":"late"}"#,
            "",
            "deny | late",
        );
        let shown = r#"{"continue":true,"systemMessage":"x","suppressOutput":true}"#;
        check(0, shown, "", "");
        check(2, "{}", " not on a Friday\n", "deny | not on a Friday");
        check(2, "", "", "deny");
    }

    #[test]
    fn the_strictest_decision_of_an_answer_counts() {
        let both = r#"{"decision":"block","reason":"old",
            "hookSpecificOutput":{"permissionDecision":"allow"}}"#;
        check(0, both, "", "deny | old");
        let first = r#"{"continue":false,"stopReason":"stop","decision":"block","reason":"no"}"#;
        check(0, first, "", "deny | stop");
    }

    #[test]
    fn an_invalid_answer_is_a_failure() {
        check(
            1,
            "{}",
            "Traceback\nx\u{7}",
            r"failed: it ended with status 1 (Traceback x\u{7})",
        );
        let invalid = "failed: its answer is invalid ()";
        for text in ["fine", "[]", "1", "{", r#"{"decision":1}"#, "{} {}"] {
            check(0, text, "", invalid);
        }
        check(0, &specific(r#""updatedInput":"x""#), "", invalid);
        for misplaced_denial in [
            r#"{"permissionDecision":"deny"}"#,
            r#"{"Decision":"block"}"#,
            r#"{"hookspecificoutput":{"permissionDecision":"deny"}}"#,
            r#"{"__proto__":{"decision":"block"}}"#,
            &specific(r#""permissiondecision":"deny""#),
            &specific(r#""permission_decision":"deny""#),
            &specific(r#""decision":"block""#),
        ] {
            check(0, misplaced_denial, "", invalid);
        }
        check(
            0,
            &specific(r#""permissionDecision":"yes""#),
            "",
            "failed: its `permissionDecision` is unknown ()",
        );
        check(
            0,
            r#"{"decision":"deny"}"#,
            "",
            "failed: its `decision` is neither `approve` nor `block` ()",
        );
        check(
            0,
            r#"{"hookSpecificOutput":{"hookEventName":"Stop"}}"#,
            "",
            "failed: its `hookEventName` is another event's ()",
        );
    }

    #[test]
    fn messages_of_hooks_are_bounded() {
        let long = "x".repeat(REASON_CHARS_MAX + 5);
        let reason = parse_answer(HookEvent::PreToolUse, 2, "", &long)
            .unwrap()
            .reason;
        assert_eq!(reason.unwrap().chars().count(), REASON_CHARS_MAX + 1);
    }
}
