//! Interactive review of a delivery on a terminal: lists what would change, and lets the user apply
//! all of it, nothing, or choose file by file and hunk by hunk, as `git add -p` does. Also reads
//! the lines that the user types for other questions, and asks what to do after a failed check.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cli::deliveries::diff_text::{
    diff_lines, diff_stat, hunk_lines, stat_line, stat_summary,
};
use crate::cli::output::{CliOutput, StyledLine, TextStyle, line_pieces};
use crate::delivery::choice::DeliveryChoice;
use crate::delivery::hunks::{DiffHunk, HunkChoice};
use crate::delivery::plan::{
    ContentOrigin, ContentSource, DeliveryEntry, DeliveryPlan, EntryAction,
};
use crate::error::Result;
use crate::orchestrator::review::{DeliverySelection, FailedCheckDecision};
use crate::text::{count_noun, escape_name};
use crate::world::delivery::contents::{DeliveryDifference, difference};
use crate::world::delivery::store::OpenDelivery;
use crate::world::io::terminal_mode::{QuestionModeGuard, has_input, read_line};

/// Interval at which a question checks whether the user wants to stop or it is withdrawn.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of files that the summary lists.
const FILES_LISTED_MAX: usize = 100;
/// Maximum number of conflicts and refused names that it lists.
const WARNINGS_MAX: usize = 20;

/// Reads the lines that the user types, one at a time.
#[derive(Debug)]
pub(crate) struct TerminalLines {
    stop: CancellationToken,
    /// Keeps the terminal's echo on until it is dropped.
    _echo: Option<QuestionModeGuard>,
}

impl TerminalLines {
    /// Reads standard input until `stop` is cancelled. Must be created just before a question is
    /// shown: earlier input is discarded.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            _echo: QuestionModeGuard::enter(),
        }
    }

    /// Asks one question, which only what is typed after it answers. Returns the line, or `None` as
    /// [`TerminalLines::next`] does.
    pub(crate) fn ask_once(
        stop: &CancellationToken,
        question: &str,
        output: &mut CliOutput<'_>,
    ) -> Option<String> {
        let mut lines = Self::new(stop.clone());
        output.ask(question);
        lines.next()
    }

    /// Returns the next line, or `None` at the end of the input or if the user wants to stop.
    /// Nothing is read before a line is available: what is typed after a stop is left for others.
    pub(crate) fn next(&mut self) -> Option<String> {
        self.next_unless(&|| false)
    }

    /// Like [`TerminalLines::next`], but also returns `None` when `is_over` is true.
    pub(crate) fn next_unless(&mut self, is_over: &dyn Fn() -> bool) -> Option<String> {
        while !has_input(POLL_INTERVAL) {
            if self.stop.is_cancelled() || is_over() {
                return None;
            }
        }
        read_line()
    }
}

/// Asks whether to keep a delivery whose checks failed. `None` at the end of the input.
pub(crate) fn ask_after_failed_check(
    reason: &str,
    output: &mut CliOutput<'_>,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Option<FailedCheckDecision> {
    output.warning(reason);
    loop {
        output.ask("[t]ake the delivery back, [k]eep it?");
        match next_line()?.as_str() {
            "t" | "take" => return Some(FailedCheckDecision::Revert),
            "k" | "keep" => return Some(FailedCheckDecision::Keep),
            _ => output.note("expected `t` or `k`"),
        }
    }
}

/// The user's choice about the change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileChoice {
    /// All of it, or nothing.
    Whole(DeliveryChoice),
    /// Some of its hunks.
    Hunks(Vec<HunkChoice>),
}

impl FileChoice {
    /// Enters the choice about the file at `index` of the plan into `selection`.
    pub(crate) fn enter_into(self, selection: &mut DeliverySelection, index: usize) {
        let choice = match self {
            FileChoice::Whole(choice) => choice,
            FileChoice::Hunks(hunks) => {
                // The choices about the hunks take the place of that about the whole file.
                selection.parts.insert(index, hunks);
                DeliveryChoice::Leave
            }
        };
        if let Some(entry_choice) = selection.choices.get_mut(index) {
            *entry_choice = choice;
        }
    }
}

/// The user's answer about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FileReviewAnswer {
    ThisFile(FileChoice),
    /// For this file and all that follow.
    AllRemaining(DeliveryChoice),
}

/// Shows what `plan` would change and lets the user choose; `next_line` returns what they type.
/// `None` if the input ends without an answer.
pub(crate) fn review(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    output: &mut CliOutput<'_>,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Result<Option<DeliverySelection>> {
    show_summary(delivery, plan, output)?;
    if plan.reviewable_entries().is_empty() {
        return Ok(Some(DeliverySelection::take_none(plan)));
    }
    loop {
        let question = "[a]pply all, [d]iff, [c]hoose, [n]othing?";
        let Some(answer) = ask_what_to_apply(question, output, next_line) else {
            return Ok(None);
        };
        match answer {
            ReviewAnswer::All => return Ok(Some(DeliverySelection::take_all(plan))),
            ReviewAnswer::Nothing => return Ok(Some(DeliverySelection::take_none(plan))),
            ReviewAnswer::Diff => {
                for (_, entry) in plan.reviewable_entries() {
                    let file_diff = difference(delivery, plan, entry)?;
                    show_difference(&file_diff, &entry_name(plan, entry), output);
                }
            }
            ReviewAnswer::Choose => return ask_for_selection(delivery, plan, output, next_line),
        }
    }
}

/// The user's answer about all changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewAnswer {
    /// Apply all of them.
    All,
    /// Show them.
    Diff,
    /// Ask about each file.
    Choose,
    /// Apply none of them.
    Nothing,
}

/// Asks `question` until one of its letters is typed. `None` if the input ends.
pub(super) fn ask_what_to_apply(
    question: &str,
    output: &mut CliOutput<'_>,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Option<ReviewAnswer> {
    loop {
        output.ask(question);
        let Some(line) = next_line() else {
            // The next output begins on a line of its own.
            output.note("");
            return None;
        };
        match line.to_lowercase().as_str() {
            "a" | "apply" => return Some(ReviewAnswer::All),
            "n" | "nothing" => return Some(ReviewAnswer::Nothing),
            "d" | "diff" => return Some(ReviewAnswer::Diff),
            "c" | "choose" => return Some(ReviewAnswer::Choose),
            _ => output.note("type a, d, c or n, then Enter"),
        }
    }
}

/// Shows the diff of one file.
pub(super) fn show_difference(
    file_diff: &DeliveryDifference,
    name: &str,
    output: &mut CliOutput<'_>,
) {
    show(output, &diff_lines(file_diff, name));
}

fn show_summary(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let entries = plan.reviewable_entries();
    let mut stats = Vec::new();
    if !entries.is_empty() {
        output.line(&[(TextStyle::Strong, "Changes:")]);
    }
    for (_, entry) in entries {
        let counts = diff_stat(&difference(delivery, plan, entry)?);
        if stats.len() < FILES_LISTED_MAX {
            let mut line = vec![
                (TextStyle::Plain, "  ".to_owned()),
                action_sign(entry.action()),
            ];
            line.extend(stat_line(&entry_name(plan, entry), &counts));
            if let ContentSource::Composed {
                origin: ContentOrigin::Merge,
                ..
            } = entry.source
            {
                line.push((TextStyle::Warn, "  merged with your changes".to_owned()));
            }
            show(output, &[line]);
        }
        stats.push(counts);
    }
    if stats.len() > FILES_LISTED_MAX {
        output.note(&format!(
            "  and {} more",
            stats.len().saturating_sub(FILES_LISTED_MAX)
        ));
    }
    if !stats.is_empty() {
        output.note(&stat_summary(&stats));
    }
    for warning in plan_warnings(plan, "only `c` applies it, by itself") {
        output.warning(&warning);
    }
    Ok(())
}

fn ask_for_selection(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    output: &mut CliOutput<'_>,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Result<Option<DeliverySelection>> {
    let mut selection = DeliverySelection::take_no_files(plan);
    let entries = plan.reviewable_entries();
    let mut read_difference =
        |(_, entry): &(usize, &DeliveryEntry)| -> Result<(String, DeliveryDifference)> {
            let file_diff = difference(delivery, plan, entry)?;
            Ok((entry_name(plan, entry), file_diff))
        };
    let needs_consent = |(_, entry): &(usize, &DeliveryEntry)| entry.consent.is_some();
    let file_choices = ask_about_files(
        &entries,
        &needs_consent,
        &mut read_difference,
        output,
        next_line,
    )?;
    let Some(file_choices) = file_choices else {
        return Ok(None);
    };
    for ((index, _), file_choice) in entries.into_iter().zip(file_choices) {
        file_choice.enter_into(&mut selection, index);
    }
    Ok(Some(selection))
}

/// Asks about each of `files`; `read_difference` returns the name and the change of one. A file for
/// which `needs_consent` is true is only applied with an answer about it alone. `None` if the input
/// ends.
pub(super) fn ask_about_files<F>(
    files: &[F],
    needs_consent: &dyn Fn(&F) -> bool,
    read_difference: &mut dyn FnMut(&F) -> Result<(String, DeliveryDifference)>,
    output: &mut CliOutput<'_>,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Result<Option<Vec<FileChoice>>> {
    let mut file_choices = Vec::new();
    for file in files {
        let (name, file_diff) = read_difference(file)?;
        match ask_about_file(&file_diff, &name, output, next_line) {
            None => return Ok(None),
            Some(FileReviewAnswer::ThisFile(choice)) => file_choices.push(choice),
            Some(FileReviewAnswer::AllRemaining(choice)) => {
                let remaining_files = files.iter().skip(file_choices.len());
                let choices = remaining_files.enumerate().map(|(index, file)| {
                    // The first is the one that the answer is about.
                    let is_left = index > 0 && needs_consent(file);
                    let choice = if is_left {
                        DeliveryChoice::Leave
                    } else {
                        choice
                    };
                    FileChoice::Whole(choice)
                });
                file_choices.extend(choices.collect::<Vec<_>>());
                break;
            }
        }
    }
    Ok(Some(file_choices))
}

fn ask_about_file(
    file_diff: &DeliveryDifference,
    name: &str,
    output: &mut CliOutput<'_>,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Option<FileReviewAnswer> {
    let file_hunks = file_diff.hunks();
    show_difference(file_diff, name, output);
    let this_file = |choice| FileReviewAnswer::ThisFile(FileChoice::Whole(choice));
    let split_key = if file_hunks.len() > 1 { ",s" } else { "" };
    loop {
        output.ask(&format!("apply `{name}`? [y,n,a,d,q{split_key},?]"));
        match next_line()?.as_str() {
            "y" => return Some(this_file(DeliveryChoice::Apply)),
            "n" => return Some(this_file(DeliveryChoice::Leave)),
            "a" => return Some(FileReviewAnswer::AllRemaining(DeliveryChoice::Apply)),
            "d" | "q" => return Some(FileReviewAnswer::AllRemaining(DeliveryChoice::Leave)),
            "s" if file_hunks.len() > 1 => {
                let hunks = ask_about_hunks(&file_hunks, name, output, next_line)?;
                return Some(FileReviewAnswer::ThisFile(FileChoice::Hunks(hunks)));
            }
            _ => {
                output.note("y apply this file, n skip it, a apply it and all that follow");
                output.note("d or q skip it and all that follow");
                if file_hunks.len() > 1 {
                    output.note("s select hunks");
                }
            }
        }
    }
}

fn ask_about_hunks(
    file_hunks: &[DiffHunk],
    name: &str,
    output: &mut CliOutput<'_>,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Option<Vec<HunkChoice>> {
    let mut is_applied = Vec::new();
    for (index, hunk) in file_hunks.iter().enumerate() {
        show(output, &hunk_lines(hunk));
        let progress = format!("({}/{})", index.saturating_add(1), file_hunks.len());
        loop {
            output.ask(&format!(
                "{progress} apply this hunk of `{name}`? [y,n,a,d,q,?]"
            ));
            match next_line()?.as_str() {
                "y" => is_applied.push(true),
                "n" => is_applied.push(false),
                "a" => is_applied.resize(file_hunks.len(), true),
                "d" | "q" => is_applied.resize(file_hunks.len(), false),
                _ => {
                    output
                        .note("y apply this hunk, n skip it, a apply it and the rest of the file");
                    output.note("d or q skip it and the rest of the file");
                    continue;
                }
            }
            break;
        }
        if is_applied.len() == file_hunks.len() {
            break;
        }
    }
    Some(HunkChoice::list(file_hunks, &is_applied))
}

/// Prints lines of styled pieces to the progress stream.
fn show(output: &mut CliOutput<'_>, lines: &[StyledLine]) {
    for line in lines {
        output.line(&line_pieces(line));
    }
}

/// Returns the name of an entry for the user: below the root, if there is one root only.
pub(crate) fn entry_name(plan: &DeliveryPlan, entry: &DeliveryEntry) -> String {
    match plan.roots.as_slice() {
        [_] => escape_name(&entry.rel.to_string()),
        _ => escape_name(&plan.path(entry).to_string()),
    }
}

/// Returns a warning for each conflict, each refused name, and each change that only an answer about
/// it alone applies; `consent_hint` says how to give one.
pub(crate) fn plan_warnings(plan: &DeliveryPlan, consent_hint: &str) -> Vec<String> {
    let files = plan.entries.iter().filter(|entry| entry.is_file());
    let conflicts = files.filter_map(|entry| {
        let reason = entry.conflict?.reason();
        Some(format!(
            "`{}` is unchanged: {reason}",
            entry_name(plan, entry)
        ))
    });
    let needs_consent = plan.entries.iter().filter_map(|entry| {
        let (name, label) = (entry_name(plan, entry), entry.consent?.label());
        Some(format!("`{name}` {label}: {consent_hint}"))
    });
    let refused = plan.refused.iter().map(|refusal| {
        let path = escape_name(&refusal.path.to_string());
        format!("`{path}` is refused: {}", refusal.reason)
    });
    let mut warnings: Vec<String> = needs_consent.chain(conflicts).chain(refused).collect();
    let hidden_count = warnings.len().saturating_sub(WARNINGS_MAX);
    warnings.truncate(WARNINGS_MAX);
    if hidden_count > 0 {
        warnings.push(format!("and {}", count_noun(hidden_count, "more name")));
    }
    warnings
}

/// Returns the sign of an action in a list of files.
pub(crate) fn action_sign(action: EntryAction) -> (TextStyle, String) {
    let (style, sign) = match action {
        EntryAction::Create => (TextStyle::Good, "+ "),
        EntryAction::Change => (TextStyle::Plain, "~ "),
        EntryAction::Delete => (TextStyle::Bad, "- "),
    };
    (style, sign.to_owned())
}
