//! Shows the batches of a directory and the state of one, cancels and exports them.

use serde_json::json;

use crate::batch::result::CellResult;
use crate::cli::args::batch::{BatchExportArguments, BatchNameArguments};
use crate::cli::batch::start_settings::BatchStartSettings;
use crate::cli::batch::{batches_directory, open_batch_and_record};
use crate::cli::batch_report::{BatchReport, failure_lines, resume_command};
use crate::cli::output::CliOutput;
use crate::cli::run::runtime;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::text::count_noun;
use crate::world::store::batches::{BatchDir, list as list_batches};

/// Runs `massgen batch list`.
pub(super) fn list(host: &Host, is_json: bool, output: &mut CliOutput<'_>) -> Result<ExitStatus> {
    let batches = list_batches(&batches_directory(host))?;
    if batches.is_empty() && !is_json {
        output.note("no batches in this directory");
    }
    for batch in batches {
        let record = match batch.record() {
            Ok(record) => record,
            Err(error) => {
                output.warning(&error.to_string());
                continue;
            }
        };
        let finished_cells = batch.finished_count()?;
        let line = if is_json {
            json!({
                "batch": batch.name(),
                "began": record.began,
                "tasks": record.tasks_name,
                "cells": record.cells,
                "finished": finished_cells,
            })
            .to_string()
        } else {
            let (name, tasks) = (batch.name(), &record.tasks_name);
            format!(
                "{name}  {finished_cells} of {} cells  {tasks}",
                record.cells
            )
        };
        output.result(&format!("{line}\n"))?;
    }
    Ok(ExitStatus::Success)
}

/// Runs `massgen batch status`.
pub(super) fn status(
    host: &Host,
    arguments: &BatchNameArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, record) = open_batch_and_record(&arguments.batch, host, output)?;
    if arguments.json {
        write_report(&BatchReport::read(&batch)?, true, output)?;
        return Ok(ExitStatus::Success);
    }
    // The reasons of failures are in whole results.
    let survey = batch.survey::<CellResult>(record.cells)?;
    let report = BatchReport::from_survey(&batch, &record, &survey)?;
    write_report(&report, false, output)?;
    let lines = failure_lines(&batch, &survey);
    for line in lines.iter().chain(&report.idle_hint()) {
        output.note(line);
    }
    Ok(ExitStatus::Success)
}

/// Writes the state of a batch.
pub(super) fn write_report(
    report: &BatchReport,
    is_json: bool,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    if is_json {
        return output.result(&format!("{}\n", report.to_json()));
    }
    for line in report.lines() {
        output.result(&format!("{line}\n"))?;
    }
    Ok(())
}

/// Runs `massgen batch cancel`.
pub(super) fn cancel(
    host: &Host,
    arguments: &BatchNameArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, record) = open_batch_and_record(&arguments.batch, host, output)?;
    if batch.finished_count()? >= usize::try_from(record.cells).unwrap_or(usize::MAX) {
        output.note(&format!(
            "every cell of `{}` has a result: there is nothing to cancel",
            batch.name()
        ));
    } else {
        batch.cancel()?;
        cancel_jobs(&batch, host, output)?;
        output.note(&format!(
            "no cell begins, and those in progress are parked; continue with: {}",
            resume_command(&batch.name(), false)
        ));
    }
    if arguments.json {
        write_report(&BatchReport::read(&batch)?, true, output)?;
    }
    Ok(ExitStatus::Success)
}

/// Cancels the jobs of `batch` in its queue, if it has one.
fn cancel_jobs(batch: &BatchDir, host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    let Some(settings) = BatchStartSettings::read_saved(batch)? else {
        return Ok(());
    };
    let Some(mut queue) = settings.queue(batch, host)? else {
        return Ok(());
    };
    let runtime = runtime()?;
    if let Err(error) = runtime.block_on(queue.cancel_all()) {
        output.warning(&format!("jobs may be left in the queue: {error:#}"));
    }
    Ok(())
}

/// Runs `massgen batch export`.
pub(super) fn export(
    host: &Host,
    arguments: &BatchExportArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, _) = open_batch_and_record(&arguments.batch, host, output)?;
    let name = arguments
        .output
        .clone()
        .unwrap_or_else(|| format!("{}.tar.gz", batch.name()));
    let files = batch.export(&host.cwd.join(&name))?;
    output.note(&format!("{} in `{name}`", count_noun(files, "file")));
    Ok(ExitStatus::Success)
}
