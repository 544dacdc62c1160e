//! Owns the words and looks for what agents did and what became of files. Pure.

use std::time::Duration;

use crate::cli::output::Style;
use crate::event::{DeliveryOutcome, Event, Said};
use crate::evidence::{Finding, Verdict};
use crate::spending::Usage;
use crate::spending::books::Spent;
use crate::spending::money::Money;
use crate::wording::{joined, one_line};

/// The most of a tool's arguments or result that is shown, in characters.
const SUMMARY_CHARS_MAX: usize = 160;

/// The look of a verb, the verb, and the rest of the sentence.
pub(crate) type Deed = (Style, &'static str, String);

/// What an agent did, as a verb with its look and the rest of the sentence; `None` for what is no
/// deed of one agent or is shown in another way.
pub(crate) fn deed(event: &Event) -> Option<Deed> {
    Some(match event {
        Event::Retrying { .. }
        | Event::Held { .. }
        | Event::FellBack { .. }
        | Event::Shortened { .. }
        | Event::LimitMet { .. }
        | Event::DroppedOut { .. } => return trouble(event),
        Event::ToolCalled {
            tool,
            arguments,
            denied,
            ..
        } => called(tool, arguments, denied.as_deref()),
        Event::OwnTool {
            tool,
            detail,
            denied,
            ..
        } => called(tool, detail, denied.as_deref()),
        Event::PersonAsked { tool, answer, .. } => person_asked(tool, *answer),
        Event::HookRan { .. } => return hook_ran(event),
        Event::ToolFinished {
            tool,
            success,
            summary,
            ..
        } => {
            let rest = one_line(&format!("{tool}: {summary}"), SUMMARY_CHARS_MAX);
            if *success {
                (Style::Faint, "did", rest)
            } else {
                (Style::Warn, "failed", rest)
            }
        }
        Event::Answered { label, .. } => (Style::Good, "answers", format!("as {label}:")),
        Event::Voted {
            candidate,
            label,
            reason,
            ..
        } => (
            Style::Good,
            "votes",
            format!("for {candidate} ({label}): {reason}"),
        ),
        Event::Refused { reason, .. } => (Style::Warn, "is not accepted:", reason.clone()),
        Event::Informed { labels, .. } => (Style::Faint, "sees", joined(labels)),
        Event::Checking { check, .. } => (Style::Faint, "is checked by", check.clone()),
        Event::Checked { finding, .. } => checked(finding),
        Event::FinalStarted { .. } => (Style::Strong, "presents", "the final answer".to_owned()),
        Event::RunStarted { .. }
        | Event::Asking { .. }
        | Event::Text { .. }
        | Event::Reasoning { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::Failed { .. }
        | Event::Confined { .. }
        | Event::CutShort { .. }
        | Event::VotesVoided { .. }
        | Event::WinnerSelected { .. }
        | Event::FinalAnswer { .. }
        | Event::Delivered { .. }
        | Event::Restarting { .. }
        | Event::Pipeline { .. }
        | Event::ServerWorks { .. }
        | Event::Warning { .. }
        | Event::RunEnded { .. } => return None,
    })
}

/// That a person is asked about a call, or what they say.
fn person_asked(tool: &str, answer: Option<Said>) -> Deed {
    match answer {
        None => (
            Style::Warn,
            "waits",
            format!("for a person's word about {tool}"),
        ),
        Some(said) if said.is_yes() => (Style::Good, "may use", format!("{tool} ({said})")),
        Some(said) => (Style::Bad, "may not use", format!("{tool} ({said})")),
    }
}

/// What a hook said.
fn hook_ran(event: &Event) -> Option<Deed> {
    let Event::HookRan {
        event,
        command,
        decision,
        reason,
        ..
    } = event
    else {
        return None;
    };
    let (style, verb) = match decision.as_str() {
        "deny" => (Style::Bad, "is denied by"),
        "failed" => (Style::Bad, "is let down by"),
        "ask" | "defer" => (Style::Warn, "is questioned by"),
        _ => (Style::Faint, "passes"),
    };
    let why = reason.as_ref().map(|why| format!(": {why}"));
    let why = why.unwrap_or_default();
    Some((style, verb, format!("the hook `{command}` ({event}){why}")))
}

/// How a check ended on an agent's work.
fn checked(finding: &Finding) -> Deed {
    let Finding {
        check,
        verdict,
        elapsed_ms,
        ..
    } = finding;
    let rest = format!("{check} ({})", clock(Duration::from_millis(*elapsed_ms)));
    match verdict {
        Verdict::Passed => (Style::Good, "passes", rest),
        Verdict::Failed { how } => (Style::Bad, "fails", format!("{rest}: {how}")),
        Verdict::NotRun { why } => (Style::Warn, "is not checked by", format!("{check}: {why}")),
    }
}

/// What keeps an agent from going on as it was.
fn trouble(event: &Event) -> Option<Deed> {
    let in_a_while = |ms: &u64| clock(Duration::from_millis(*ms));
    if let Event::Retrying {
        reason, wait_ms, ..
    } = event
    {
        let rest = format!("in {}: {reason}", in_a_while(wait_ms));
        return Some((Style::Warn, "asks again", rest));
    }
    if let Event::Held {
        reason, wait_ms, ..
    } = event
    {
        let rest = format!("for {}: {reason}", in_a_while(wait_ms));
        return Some((Style::Faint, "waits", rest));
    }
    if let Event::FellBack {
        from, to, reason, ..
    } = event
    {
        let rest = format!("with {to} instead of {from}: {reason}");
        return Some((Style::Warn, "goes on", rest));
    }
    if let Event::Shortened { how, .. } = event {
        return Some((Style::Warn, "forgets:", how.clone()));
    }
    if let Event::LimitMet { limit, .. } = event {
        return Some((Style::Bad, "meets its limit:", limit.clone()));
    }
    let Event::DroppedOut {
        reason, timed_out, ..
    } = event
    else {
        return None;
    };
    let verb = if *timed_out {
        "is out of time:"
    } else {
        "drops out:"
    };
    Some((Style::Bad, verb, reason.clone()))
}

/// A duration for people: `9.4 s`, then `2 min 5 s`.
pub(crate) fn clock(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0..60 => format!("{:.1} s", elapsed.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// What was used: tokens as the vendors counted them, and money; `None` where there is neither.
pub(crate) fn used(spent: &Spent) -> Option<String> {
    let Usage {
        input_tokens,
        output_tokens,
        ..
    } = spent.usage;
    let counted = spent.usage.total_tokens() > 0;
    let tokens = counted.then(|| format!("{input_tokens} tokens read, {output_tokens} written"));
    let parts = [tokens, cost(spent)].into_iter().flatten();
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What it cost, as far as that is known; `None` where it cost nothing.
fn cost(spent: &Spent) -> Option<String> {
    let dollars = spent.known_cost().rounded();
    match (dollars, spent.cost_is_complete) {
        (Money::ZERO, true) => None,
        (Money::ZERO, false) => Some("cost not known".to_owned()),
        (_, true) => Some(format!("${dollars}")),
        (_, false) => Some(format!("at least ${dollars}")),
    }
}

fn called(tool: &str, arguments: &str, denied: Option<&str>) -> Deed {
    let call = one_line(&format!("{tool} {arguments}"), SUMMARY_CHARS_MAX);
    match denied {
        None => (Style::Plain, "calls", call),
        Some(why) => {
            let why: Vec<&str> = why.lines().collect();
            (
                Style::Bad,
                "is denied",
                format!("{call}: {}", why.join("; ")),
            )
        }
    }
}

/// What became of one file: the look of a word, the word, and what is to be said after the path.
pub(crate) fn outcome(outcome: &DeliveryOutcome) -> (Style, &'static str, String) {
    match outcome {
        DeliveryOutcome::Created => (Style::Good, "created", String::new()),
        DeliveryOutcome::Changed => (Style::Good, "changed", String::new()),
        DeliveryOutcome::Deleted => (Style::Good, "deleted", String::new()),
        DeliveryOutcome::Mode { before, after } => mode(before.as_deref(), after),
        DeliveryOutcome::Declined => (Style::Faint, "not taken", String::new()),
        DeliveryOutcome::Denied { reason } => (Style::Bad, "denied", format!(": {reason}")),
        DeliveryOutcome::Conflict { kept } => {
            let note = format!(": you changed it meanwhile; the agents' version is kept in {kept}");
            (Style::Warn, "conflict", note)
        }
        DeliveryOutcome::Failed { reason } => (Style::Bad, "failed", format!(": {reason}")),
        DeliveryOutcome::TakenBack { reason } => (Style::Bad, "undone", format!(": {reason}")),
    }
}

/// Other permission bits of a directory. That everybody may write there is said in words.
fn mode(before: Option<&str>, after: &str) -> (Style, &'static str, String) {
    const EVERYBODY_WRITES: u32 = 0o002;
    let opens =
        |mode: &str| u32::from_str_radix(mode, 8).is_ok_and(|mode| mode & EVERYBODY_WRITES != 0);
    let note = match before {
        Some(before) => format!(": the directory's mode {before} becomes {after}"),
        None => format!(": a new directory of mode {after}"),
    };
    if opens(after) && !before.is_some_and(opens) {
        (
            Style::Warn,
            "mode",
            format!("{note}; everybody may write there"),
        )
    } else {
        (Style::Good, "mode", note)
    }
}
