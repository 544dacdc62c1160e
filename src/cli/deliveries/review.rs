//! Owns the review of a delivery on a terminal: what would change is listed, and the user takes all of
//! it, nothing, or chooses file by file and hunk by hunk, as `git add -p` asks.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cli::deliveries::show::{Line, hunk_lines, lines, pieces, stat, stat_line, sum};
use crate::cli::output::{Output, Style};
use crate::delivery::choice::Take;
use crate::delivery::hunks::{Hunk, hunks};
use crate::delivery::plan::{Deed, Entry, Made, Plan, Source};
use crate::error::Result;
use crate::orchestrator::review::{Choice, Red};
use crate::wording::{counted, spelled};
use crate::world::delivery::contents::{Difference, Side, difference};
use crate::world::delivery::store::Delivery;
use crate::world::exec::compare::compared;
use crate::world::terminal::{Asking, has_input, line};

/// How often a question looks whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How many files the summary lists.
const LISTED_MAX: usize = 100;
/// How many refused names it lists.
const REFUSED_MAX: usize = 20;

/// The lines that the user types, one at a time.
#[derive(Debug)]
pub(crate) struct Typed {
    stop: CancellationToken,
    /// The terminal shows what is typed as long as this lives.
    _asking: Option<Asking>,
}

impl Typed {
    /// Reads standard input until somebody stops. Begun just before a question is shown: what was typed
    /// before that goes.
    pub(crate) fn until(stop: CancellationToken) -> Self {
        Self {
            stop,
            _asking: Asking::begin(),
        }
    }

    /// The next line; `None` at the end of the input, or if the user wants to stop. Nothing is read
    /// before there is a line: what is typed after a stop is for others.
    pub(crate) fn next(&mut self) -> Option<String> {
        self.next_unless(&|| false)
    }

    /// As [`Typed::next`]; `None` too when nobody waits for the line any more.
    pub(crate) fn next_unless(&mut self, is_over: &dyn Fn() -> bool) -> Option<String> {
        while !has_input(LOOK) {
            if self.stop.is_cancelled() || is_over() {
                return None;
            }
        }
        line()
    }
}

/// Asks whether a delivery stays whose checks do not pass. `None` at the end of the input.
pub(crate) fn on_red(
    reason: &str,
    output: &mut Output<'_>,
    next: &mut dyn FnMut() -> Option<String>,
) -> Option<Red> {
    output.warning(reason);
    loop {
        output.ask("[t]ake the delivery back, [k]eep it?");
        match next()?.as_str() {
            "t" | "take" => return Some(Red::TakeBack),
            "k" | "keep" => return Some(Red::Keep),
            _ => output.note("expected `t` or `k`"),
        }
    }
}

/// What the user answers about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    One(Take),
    /// This one and all that follow.
    Rest(Take),
    Parts(Vec<bool>),
}

/// Shows what `plan` would change and lets the user choose; `next` gives what they type. `None` if they
/// went away without an answer.
pub(crate) fn review(
    delivery: &Delivery,
    plan: &Plan,
    output: &mut Output<'_>,
    next: &mut dyn FnMut() -> Option<String>,
) -> Result<Option<Choice>> {
    summary(delivery, plan, output)?;
    if plan.items().is_empty() {
        return Ok(Some(Choice::nothing(plan)));
    }
    loop {
        output.ask("[a]pply all, [d]iff, [c]hoose, [n]othing?");
        let Some(typed) = next() else {
            output.note("");
            return Ok(None);
        };
        match typed.to_lowercase().as_str() {
            "a" | "apply" => return Ok(Some(Choice::everything(plan))),
            "n" | "nothing" => return Ok(Some(Choice::nothing(plan))),
            "d" | "diff" => {
                for index in plan.items() {
                    if let Some(entry) = plan.entries.get(index) {
                        show(
                            output,
                            &lines(&difference(delivery, plan, entry)?, &name(plan, entry)),
                        );
                    }
                }
            }
            "c" | "choose" => return choose(delivery, plan, output, next),
            _ => output.note("type a, d, c or n, and Enter"),
        }
    }
}

fn summary(delivery: &Delivery, plan: &Plan, output: &mut Output<'_>) -> Result<()> {
    let items = plan.items();
    let mut stats = Vec::new();
    if !items.is_empty() {
        output.line(&[(Style::Strong, "This would change:")]);
    }
    for index in &items {
        let Some(entry) = plan.entries.get(*index) else {
            continue;
        };
        let counts = stat(&difference(delivery, plan, entry)?);
        if stats.len() < LISTED_MAX {
            let (style, sign) = match entry.deed() {
                Deed::Create => (Style::Good, "  + "),
                Deed::Change => (Style::Plain, "  ~ "),
                Deed::Delete => (Style::Bad, "  - "),
            };
            let mut line = vec![(style, sign.to_owned())];
            line.extend(stat_line(&name(plan, entry), &counts));
            if let Source::Made {
                how: Made::Merged, ..
            } = entry.source
            {
                line.push((Style::Warn, "  merged with your changes".to_owned()));
            }
            show(output, &[line]);
        }
        stats.push(counts);
    }
    if stats.len() > LISTED_MAX {
        output.note(&format!(
            "  and {} more",
            stats.len().saturating_sub(LISTED_MAX)
        ));
    }
    if !stats.is_empty() {
        output.note(&sum(&stats));
    }
    for entry in plan.entries.iter().filter(|entry| entry.is_file()) {
        if let Some(clash) = entry.clash {
            let name = name(plan, entry);
            output.warning(&format!("`{name}` is left alone: {}", clash.because()));
        }
    }
    for refusal in plan.refused.iter().take(REFUSED_MAX) {
        let reason = &refusal.reason;
        let path = spelled(&refusal.path.to_string());
        output.warning(&format!("`{path}` is refused: {reason}"));
    }
    let more = plan.refused.len().saturating_sub(REFUSED_MAX);
    if more > 0 {
        let more = counted(more, "more name");
        output.warning(&format!("refused as well: {more}"));
    }
    Ok(())
}

fn choose(
    delivery: &Delivery,
    plan: &Plan,
    output: &mut Output<'_>,
    next: &mut dyn FnMut() -> Option<String>,
) -> Result<Option<Choice>> {
    let mut choice = Choice::nothing(plan);
    // Directories come and go with what is taken in them.
    for (entry, take) in plan.entries.iter().zip(&mut choice.takes) {
        if entry.ours.is_nothing() && !entry.is_file() {
            *take = Take::Taken;
        }
    }
    let mut rest = None;
    for index in plan.items() {
        let Some(entry) = plan.entries.get(index) else {
            continue;
        };
        let verdict = if let Some(take) = rest {
            Verdict::One(take)
        } else {
            let found = difference(delivery, plan, entry)?;
            let Some(verdict) = ask_about(&found, &name(plan, entry), output, next) else {
                return Ok(None);
            };
            verdict
        };
        let take = match verdict {
            Verdict::One(take) => take,
            Verdict::Rest(take) => {
                rest = Some(take);
                take
            }
            Verdict::Parts(taken) => {
                choice.parts.insert(index, taken);
                Take::Left
            }
        };
        if let Some(place) = choice.takes.get_mut(index) {
            *place = take;
        }
    }
    Ok(Some(choice))
}

fn ask_about(
    found: &Difference,
    name: &str,
    output: &mut Output<'_>,
    next: &mut dyn FnMut() -> Option<String>,
) -> Option<Verdict> {
    let parts = match (&found.before, &found.after) {
        (Side::Text(old), Side::Text(new)) => hunks(&compared(old, new)),
        _ => Vec::new(),
    };
    show(output, &lines(found, name));
    let by_hunks = if parts.len() > 1 { ",s" } else { "" };
    loop {
        output.ask(&format!("take `{name}`? [y,n,a,d,q{by_hunks},?]"));
        match next()?.as_str() {
            "y" => return Some(Verdict::One(Take::Taken)),
            "n" => return Some(Verdict::One(Take::Left)),
            "a" => return Some(Verdict::Rest(Take::Taken)),
            "d" | "q" => return Some(Verdict::Rest(Take::Left)),
            "s" if parts.len() > 1 => return by_hunk(&parts, name, output, next),
            _ => {
                output.note("y take this file, n leave it, a take it and all that follow");
                output.note("d or q leave it and all that follow");
                if parts.len() > 1 {
                    output.note("s choose among its hunks");
                }
            }
        }
    }
}

fn by_hunk(
    parts: &[Hunk],
    name: &str,
    output: &mut Output<'_>,
    next: &mut dyn FnMut() -> Option<String>,
) -> Option<Verdict> {
    let mut taken = Vec::new();
    for (number, hunk) in parts.iter().enumerate() {
        show(output, &hunk_lines(hunk));
        let place = format!("({}/{})", number.saturating_add(1), parts.len());
        loop {
            output.ask(&format!(
                "{place} take this hunk of `{name}`? [y,n,a,d,q,?]"
            ));
            match next()?.as_str() {
                "y" => taken.push(true),
                "n" => taken.push(false),
                "a" => taken.resize(parts.len(), true),
                "d" | "q" => taken.resize(parts.len(), false),
                _ => {
                    output.note("y take this hunk, n leave it, a take it and the rest of the file");
                    output.note("d or q leave it and the rest of the file");
                    continue;
                }
            }
            break;
        }
        if taken.len() == parts.len() {
            break;
        }
    }
    Some(Verdict::Parts(taken))
}

/// Prints lines of pieces, each with its look, where progress is shown.
fn show(output: &mut Output<'_>, lines: &[Line]) {
    for line in lines {
        output.line(&pieces(line));
    }
}

fn name(plan: &Plan, entry: &Entry) -> String {
    match plan.roots.as_slice() {
        [_] => spelled(&entry.rel.to_string()),
        _ => spelled(&plan.path(entry).to_string()),
    }
}
