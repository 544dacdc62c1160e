//! Shows the batches of a directory and the state of one, and cancels them.

use serde_json::json;

use crate::cli::args::batch::BatchNameArguments;
use crate::cli::batch::start_settings::BatchStartSettings;
use crate::cli::batch::{batches_directory, open_batch_and_record};
use crate::cli::batch_report::{BatchReport, failure_lines, resume_command};
use crate::cli::interrupts::runtime;
use crate::cli::output::CliOutput;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::world::store::batches::{BatchDir, BatchRecord, list as list_batches};

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
    let survey = batch.survey(record.cells)?;
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
        cancel_jobs(&batch, &record, host, output)?;
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

/// Cancels the jobs of `batch` that wait, if its engine has any without a control process.
fn cancel_jobs(
    batch: &BatchDir,
    record: &BatchRecord,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let settings = BatchStartSettings::saved(batch);
    let Some(mut engine) = settings.map_or(Ok(None), |saved| saved.engine(batch, record, host))?
    else {
        return Ok(());
    };
    let runtime = runtime()?;
    if let Err(error) = runtime.block_on(engine.cancel_waiting()) {
        output.warning(&format!("jobs may be left in the queue: {error:#}"));
    }
    Ok(())
}
