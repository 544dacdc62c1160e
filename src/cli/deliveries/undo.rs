//! Implements `massgen undo`.

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
    let (deliveries, name) = find_reverted(&arguments.run, host, output)?;
    let delivery = OpenDelivery::open(&deliveries, &name)?;
    let commit = delivery.commit()?;
    let Some(mut delivered) = AppliedDelivery::open(delivery)? else {
        let message = format!("`{name}` has no applied delivery");
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint(format!("`massgen diff {name}` shows what it would deliver")));
    };
    let paths = resolve_paths(&arguments.path, host);
    refuse_outside(&delivered.roots(), &host.project, &paths)?;
    let known = delivered.names().map(|(path, ..)| path).collect();
    require_known_path(&paths, &name, &known, &host.cwd)?;
    let since = if arguments.force {
        ChangedFilePolicy::Replaced
    } else {
        ChangedFilePolicy::Kept
    };
    let rows = delivered.move_steps(UndoDirection::Undo, &paths, since)?;
    let remedy = match since {
        ChangedFilePolicy::Kept => UndoRemedy::Force,
        ChangedFilePolicy::Replaced => UndoRemedy::None,
    };
    if let Some(commit) = commit {
        output.note(&format!(
            "the commit remains; revert it with git: git revert {commit} (or, to restore the \
             files: git restore FILE)"
        ));
    }
    let status = report(&name, &host.cwd, &rows, remedy, output)?;
    if paths.is_empty() {
        offer_earlier_part(&name, &deliveries, output)?;
    }
    Ok(status)
}

/// Finds the delivery to revert: the one that is named, or the newest of the pipeline that is named.
fn find_reverted(
    wanted: &str,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<(AbsPath, String)> {
    let unknown = match find_delivery(wanted, DeliveryUse::Revert, host, output) {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    let meant = if wanted == LAST {
        None
    } else {
        resolve_pipeline(wanted, host)?
    };
    let Some(pipeline) = meant else {
        return Err(unknown);
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
    let applied: Vec<String> = revertible_parts(&earlier, deliveries).collect();
    let Some(newest) = applied.first() else {
        return Ok(());
    };
    let whose = if pipeline_of(name).is_some() {
        "pipeline"
    } else {
        "run"
    };
    let count = count_noun(applied.len(), "earlier part");
    let (verb, meant) = if applied.len() == 1 {
        ("is", "it")
    } else {
        ("are", "the newest of them")
    };
    output.note(&format!(
        "{count} of what the {whose} delivered {verb} still applied; to revert {meant}: massgen \
         undo {newest}"
    ));
    Ok(())
}

/// Advice about names that were not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UndoRemedy {
    /// `--force` replaces them.
    Force,
    /// This command has no option for it.
    None,
}

/// Prints what was done, and what was not.
pub(super) fn report(
    name: &str,
    cwd: &AbsPath,
    rows: &[UndoRow],
    remedy: UndoRemedy,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let mut unreverted = 0_usize;
    for row in rows {
        let path = display_path(&row.path, cwd);
        let (style, word, note) = match row.outcome {
            UndoOutcome::Restored => (TextStyle::Good, "restored", String::new()),
            UndoOutcome::PartlyRestored(HunkCount { taken, total }) => {
                let note = format!(": {taken} of {total} hunks");
                (TextStyle::Good, "restored", note)
            }
            UndoOutcome::Removed => (TextStyle::Good, "removed", String::new()),
            UndoOutcome::Left(why) => {
                unreverted = unreverted.saturating_add(1);
                (TextStyle::Warn, "left", format!(": {why}"))
            }
        };
        output.result_line(&[(style, word), (TextStyle::Plain, &format!(" {path}{note}"))])?;
    }
    if rows.is_empty() {
        output.note(&format!("`{name}` is already reverted"));
    }
    if unreverted > 0 {
        let names = count_noun(unreverted, "name");
        output.warning(&match remedy {
            UndoRemedy::Force => {
                format!("{names} not reverted; `--force` also reverts what was changed afterwards")
            }
            UndoRemedy::None => format!("{names} not reverted"),
        });
        return Ok(ExitStatus::Denied);
    }
    Ok(ExitStatus::Delivered)
}
