//! Implements `massgen undo`, and the report of what was undone or delivered again, which
//! `massgen apply` prints too.

use crate::cli::args::UndoArguments;
use crate::cli::deliveries::parts::{earlier_parts, newest_part, revertible_parts};
use crate::cli::deliveries::pipeline::resolve_pipeline;
use crate::cli::deliveries::{
    deliveries_directory, display_path, find_delivery, require_known_path, resolve_paths,
};
use crate::cli::output::{CliOutput, TextStyle};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::event::HunkCount;
use crate::host::Host;
use crate::path::AbsPath;
use crate::text::count_noun;
use crate::world::delivery::store::{DeliveryUse, OpenDelivery};
use crate::world::delivery::undo::{
    AppliedDelivery, ChangedFilePolicy, UndoDirection, UndoOutcome, UndoRow, refuse_outside,
};
use crate::world::store::delivery_names::pipeline_of;
use crate::world::store::naming::LAST;

/// Reverts a delivery.
pub(crate) fn run(
    host: &Host,
    arguments: &UndoArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (deliveries, name) = find_revertible(&arguments.run, host, output)?;
    let delivery = OpenDelivery::open(&deliveries, &name)?;
    let commit = delivery.commit()?;
    let Some(delivered) = AppliedDelivery::open(delivery)? else {
        let message = format!("`{name}` has no applied delivery");
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint(format!("`massgen diff {name}` shows what it would deliver")));
    };
    let rows = revert(delivered, &arguments.path, arguments.force, host)?;
    let reported_move = if arguments.force {
        ReportedMove::ForcedUndo
    } else {
        ReportedMove::Undo
    };
    if let Some(commit) = commit {
        output.note(&format!(
            "the commit remains; revert it with git: git revert {commit} (or, to restore the \
             files: git restore FILE)"
        ));
    }
    let status = report(&name, &host.cwd, &rows, reported_move, output)?;
    // With `--path`, the rest of this part has to be reverted before an earlier one.
    if arguments.path.is_empty() {
        offer_earlier_part(&name, &deliveries, output)?;
    }
    Ok(status)
}

/// Reverts `delivered`, or what it changed in `paths` if there are some; with `force`, also what was
/// changed afterwards.
pub(crate) fn revert(
    delivered: AppliedDelivery,
    paths: &[String],
    force: bool,
    host: &Host,
) -> Result<Vec<UndoRow>> {
    let paths = resolve_paths(paths, host);
    refuse_outside(&delivered.roots(), &host.project, &paths)?;
    let known_paths = delivered.listed_paths().map(|(path, ..)| path).collect();
    require_known_path(&paths, delivered.name(), &known_paths, &host.cwd)?;
    let changed_files = if force {
        ChangedFilePolicy::Replaced
    } else {
        ChangedFilePolicy::Kept
    };
    delivered.undo_or_redo(UndoDirection::Undo, &paths, changed_files)
}

/// Finds the delivery to revert: the one that is named, or the newest of the pipeline that is
/// named.
fn find_revertible(
    requested_run: &str,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<(AbsPath, String)> {
    let lookup_error = match find_delivery(requested_run, DeliveryUse::Revert, host, output) {
        Ok(delivery) => return Ok(delivery),
        Err(error) => error,
    };
    // `last` names no pipeline: without a delivery, there is nothing to revert.
    let requested_pipeline = if requested_run == LAST {
        None
    } else {
        resolve_pipeline(requested_run, host)?
    };
    let Some(pipeline) = requested_pipeline else {
        return Err(lookup_error);
    };
    let (name, deliveries) = (pipeline.name(), deliveries_directory(host));
    match newest_part(&name, &deliveries)? {
        Some(part) => Ok((deliveries, part)),
        None => Err(
            Error::new(ErrorKind::Usage, format!("nothing of `{name}` was applied"))
                .with_hint(format!("`massgen diff {name}` shows what it would deliver")),
        ),
    }
}

/// Names the part that can be reverted next: the newest that was delivered before `name`.
fn offer_earlier_part(name: &str, deliveries: &AbsPath, output: &mut CliOutput<'_>) -> Result<()> {
    let earlier = earlier_parts(name, deliveries)?;
    let applied_parts = revertible_parts(&earlier, deliveries)?;
    let Some(newest) = applied_parts.first() else {
        return Ok(());
    };
    let run_kind = if pipeline_of(name).is_some() {
        "pipeline"
    } else {
        "run"
    };
    let count = count_noun(applied_parts.len(), "earlier part");
    let (verb, pronoun) = if applied_parts.len() == 1 {
        ("is", "it")
    } else {
        ("are", "the newest of them")
    };
    output.note(&format!(
        "{count} of what the {run_kind} delivered {verb} still applied; to revert {pronoun}: \
         massgen undo {newest}"
    ));
    Ok(())
}

/// What the rows of a report are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportedMove {
    /// An undo that left what was changed since: `--force` undoes that too.
    Undo,
    /// An undo with `--force`.
    ForcedUndo,
    /// What was undone is delivered again.
    Redo,
}

impl ReportedMove {
    /// Returns what was done with a path, as a participle.
    fn word(self) -> &'static str {
        match self {
            ReportedMove::Undo | ReportedMove::ForcedUndo => "undone",
            ReportedMove::Redo => "delivered again",
        }
    }
}

/// Prints what was done, and what was not.
pub(super) fn report(
    name: &str,
    cwd: &AbsPath,
    rows: &[UndoRow],
    reported_move: ReportedMove,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let move_word = reported_move.word();
    let mut left_count = 0_usize;
    for row in rows {
        let path = display_path(&row.path, cwd);
        let (style, word, note) = match row.outcome {
            UndoOutcome::Restored => (TextStyle::Good, move_word, String::new()),
            UndoOutcome::PartlyRestored(HunkCount { taken, total }) => {
                let note = format!(": {taken} of {total} hunks");
                (TextStyle::Good, move_word, note)
            }
            UndoOutcome::Removed => (TextStyle::Good, move_word, ": removed".to_owned()),
            UndoOutcome::Left(reason) => {
                left_count = left_count.saturating_add(1);
                (TextStyle::Warn, "left", format!(": {reason}"))
            }
        };
        output.result_line(&[(style, word), (TextStyle::Plain, &format!(" {path}{note}"))])?;
    }
    if rows.is_empty() {
        let state = match reported_move {
            ReportedMove::Undo | ReportedMove::ForcedUndo => "undone",
            ReportedMove::Redo => "delivered",
        };
        output.note(&format!("`{name}` is already {state}"));
    }
    if left_count > 0 {
        let paths = count_noun(left_count, "path");
        output.warning(&match reported_move {
            ReportedMove::Undo => {
                format!("{paths} not undone; `--force` also undoes what was changed afterwards")
            }
            ReportedMove::ForcedUndo | ReportedMove::Redo => format!("{paths} not {move_word}"),
        });
        return Ok(ExitStatus::Denied);
    }
    Ok(ExitStatus::Success)
}
