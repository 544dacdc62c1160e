//! Owns the question at the terminal whether an agent may make a call: what it would do is shown as
//! plain text, and the user answers for this time, for the session, for always, or with no.

use crate::cli::output::{Output, Style};
use crate::event::Said;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::wording::{beginning, spelled, visible};
use crate::world::consultation::Question;

/// The most characters of one thing that a call would do.
const DEED_CHARS_MAX: usize = 2000;
/// The most things that are shown of a call.
const DEEDS_SHOWN_MAX: usize = 20;
/// The most characters that are shown of what a tool is given.
const INPUT_CHARS_MAX: usize = 1000;

/// Asks about a call of an agent; an answer for always is kept in the file. `None` if the user went
/// away without an answer, or nobody waits for it any more.
pub(crate) fn may_call(
    (agent, question, always): (&AgentId, &Question, Option<&AbsPath>),
    output: &mut Output<'_>,
    next: &mut dyn FnMut() -> Option<String>,
) -> Option<Said> {
    let title = format!("{agent} asks to use {}:", spelled(&question.tool));
    output.line(&[(Style::Strong, &title)]);
    for deed in question.deeds.iter().take(DEEDS_SHOWN_MAX) {
        for line in beginning(deed, DEED_CHARS_MAX).lines() {
            output.line(&[(Style::Plain, &format!("  {}", visible(line)))]);
        }
    }
    let more = question.deeds.len().saturating_sub(DEEDS_SHOWN_MAX);
    if more > 0 {
        output.line(&[(Style::Faint, &format!("  and {more} more"))]);
    }
    let input = beginning(&question.input.to_string(), INPUT_CHARS_MAX);
    output.line(&[(Style::Faint, &format!("  with {}", spelled(&input)))]);
    output.line(&[(Style::Faint, &format!("  {}", spelled(&question.reason)))]);
    let offered = match always {
        Some(file) => format!(
            "[o]nce, for this [s]ession, [a]lways (kept in {}), [n]o?",
            spelled(&file.to_string())
        ),
        None => "[o]nce, for this [s]ession, [n]o?".to_owned(),
    };
    loop {
        output.ask(&offered);
        match (next()?.to_lowercase().as_str(), always) {
            ("o" | "once" | "y" | "yes", _) => return Some(Said::Once),
            ("s" | "session", _) => return Some(Said::Session),
            ("a" | "always", Some(_)) => return Some(Said::Always),
            ("n" | "no", _) => return Some(Said::No),
            (_, Some(_)) => output.note("type o, s, a or n, and Enter"),
            (_, None) => output.note("type o, s or n, and Enter"),
        }
    }
}
