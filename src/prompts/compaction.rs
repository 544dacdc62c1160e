//! Texts for models in a conversation that was compacted. They must say that something is missing
//! and how to get it again, so that the model does not take the rest for everything.

use crate::prompts::untrusted_text::{UntrustedText, note};
use crate::text::{count_noun, single_line};

/// Number of characters of a call with its arguments that a summary keeps.
const CALL_CHARS_MAX: usize = 80;
/// Number of characters of a reply or a result that a summary keeps.
const TEXT_CHARS_MAX: usize = 100;
/// Maximum number of steps that a summary lists, the newest ones.
const STEPS_LISTED_MAX: usize = 40;

/// Returns the text for a call's result of which only `beginning` is left.
pub fn truncated_result(beginning: &str, omitted_chars: usize) -> String {
    let note = note(format_args!(
        "shortened: {} of this result were left out because the conversation is too long for the \
         model. Call the tool again if you need them.",
        count_noun(omitted_chars, "character")
    ));
    format!("{beginning}\n{note}")
}

/// One of an agent's earlier steps.
#[derive(Debug)]
pub struct CompactedStep<'a> {
    /// The model's text.
    pub text: &'a str,
    /// Its calls.
    pub calls: Vec<CompactedCall<'a>>,
}

/// A call of an earlier step.
#[derive(Debug)]
pub struct CompactedCall<'a> {
    /// The name of the tool.
    pub tool: &'a str,
    /// The arguments, as JSON.
    pub arguments: &'a str,
    /// The result; empty if there is none.
    pub result: &'a str,
}

/// Returns the text that replaces earlier steps.
pub fn compacted_steps(steps: &[CompactedStep<'_>]) -> String {
    format!(
        "[{} of yours were left out here because the conversation is too long for the model. In \
         short, they were:\n{}\nYour files are as you left them. Go on from here.]",
        count_noun(steps.len(), "earlier step"),
        list_steps(steps),
    )
}

/// Returns an answer, and in short the steps that led to it.
pub fn answer_after_steps(answer: &str, steps: &[CompactedStep<'_>]) -> String {
    if steps.is_empty() {
        return answer.to_owned();
    }
    format!(
        "{answer}\n\nIn short, your steps were:\n{}",
        list_steps(steps)
    )
}

/// Returns a line for each text and each call.
fn list_steps(steps: &[CompactedStep<'_>]) -> String {
    let omitted_count = steps.len().saturating_sub(STEPS_LISTED_MAX);
    let mut lines = Vec::new();
    if omitted_count > 0 {
        lines.push(format!("- {omitted_count} more, of which nothing is kept"));
    }
    for step in steps.iter().skip(omitted_count) {
        if !step.text.trim().is_empty() {
            let text = UntrustedText::from(single_line(step.text, TEXT_CHARS_MAX));
            lines.push(format!("- you said: {}", text.to_end_of_line()));
        }
        for CompactedCall {
            tool,
            arguments,
            result,
        } in &step.calls
        {
            let call_line = single_line(&format!("{tool} {arguments}"), CALL_CHARS_MAX);
            let call = UntrustedText::from(call_line).in_backticks();
            let result = UntrustedText::from(single_line(result, TEXT_CHARS_MAX)).in_quotes();
            lines.push(format!("- you called {call}: {result}"));
        }
    }
    lines.join("\n")
}
