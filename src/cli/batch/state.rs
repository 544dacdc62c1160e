//! Shows the batches of a directory and the state of one, cancels and exports them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::batch::start_settings::BatchStartSettings;
use crate::cli::batch::{batches_directory, open_batch};
use crate::cli::batch_arguments::{BatchExportArguments, BatchNameArguments};
use crate::cli::interrupts::listen_for_parking;
use crate::cli::output::CliOutput;
use crate::cli::run::{CALLS_END_MAX, runtime};
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::text::count_noun;
use crate::world::store::batches::survey::BatchCounts;
use crate::world::store::batches::{BatchDir, list as list_batches};

/// How often the state is shown.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

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
        let finished = batch.results()?.len();
        let line = if is_json {
            json!({
                "batch": batch.name(),
                "began": record.began,
                "tasks": record.tasks_name,
                "cells": record.cells,
                "finished": finished,
            })
            .to_string()
        } else {
            let (name, tasks) = (batch.name(), &record.tasks_name);
            format!("{name}  {finished} of {} cells  {tasks}", record.cells)
        };
        output.result(&format!("{line}\n"))?;
    }
    Ok(ExitStatus::Delivered)
}

/// The state of a batch.
#[derive(Debug)]
struct BatchState {
    batch: String,
    counts: BatchCounts,
    money: Option<Value>,
    pause: Option<String>,
    is_cancelled: bool,
}

impl BatchState {
    fn read(batch: &BatchDir) -> Result<Self> {
        let record = batch.record()?;
        let results = batch.results()?;
        let counts = batch.counts(&batch.cell_ids(&record)?, &results)?;
        let spent = results
            .iter()
            .fold(crate::spending::money::Money::ZERO, |sum, result| {
                sum.saturating_add(result.cost_usd)
            });
        let budget = batch.budget()?;
        let money = budget.map(|budget| {
            json!({"limit_usd": budget.limit, "taken_usd": budget.taken, "spent_usd": spent})
        });
        let pause = batch.active_pause();
        let pause = pause.map(|pause| {
            let seconds = pause.rest().as_secs();
            format!("pauses for {seconds} s: {}", pause.reason)
        });
        Ok(Self {
            batch: batch.name(),
            counts,
            money,
            pause,
            is_cancelled: batch.is_cancelled(),
        })
    }

    fn to_json(&self) -> Value {
        json!({
            "batch": self.batch,
            "cells": self.counts,
            "money": self.money,
            "pause": self.pause,
            "is_cancelled": self.is_cancelled,
        })
    }

    fn lines(&self) -> Vec<String> {
        let counts = &self.counts;
        let states = [
            (counts.completed, "completed"),
            (counts.partial, "partial"),
            (counts.failed, "failed"),
            (counts.running, "running"),
            (counts.parked, "parked"),
            (counts.held, "held"),
            (counts.faulty, "to be repeated"),
            (counts.waiting, "waiting"),
        ];
        let states = states.iter().filter(|(count, _)| *count > 0);
        let states: Vec<String> = states
            .map(|(count, state)| format!("{count} {state}"))
            .collect();
        let cells = count_noun(counts.cells, "cell");
        let mut lines = vec![format!("{}: {cells}: {}", self.batch, states.join(", "))];
        if let Some(money) = &self.money {
            let part = |name: &str| money.get(name).map(ToString::to_string).unwrap_or_default();
            lines.push(format!(
                "money: ${} spent by finished cells, ${} taken, of ${}",
                part("spent_usd"),
                part("taken_usd"),
                part("limit_usd")
            ));
        }
        lines.extend(self.pause.clone());
        if self.is_cancelled {
            lines.push("cancelled".to_owned());
        }
        lines
    }
}

/// Runs `massgen batch status`.
pub(super) fn status(
    host: &Host,
    arguments: &BatchNameArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let batch = open_batch(&arguments.batch, &batches_directory(host))?;
    write_state(&BatchState::read(&batch)?, arguments.json, output)?;
    Ok(ExitStatus::Delivered)
}

fn write_state(state: &BatchState, is_json: bool, output: &mut CliOutput<'_>) -> Result<()> {
    if is_json {
        return output.result(&format!("{}\n", state.to_json()));
    }
    for line in state.lines() {
        output.result(&format!("{line}\n"))?;
    }
    Ok(())
}

/// Runs `massgen batch watch`: shows each change until every cell has a result.
pub(super) fn watch(
    host: &Host,
    arguments: &BatchNameArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let batch = open_batch(&arguments.batch, &batches_directory(host))?;
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let stop = listen_for_parking(host.hangup)?;
        let mut last = None;
        loop {
            let state = BatchState::read(&batch)?;
            if last != Some(state.counts) {
                write_state(&state, arguments.json, output)?;
                last = Some(state.counts);
            }
            if state.counts.finished() == state.counts.cells || output.is_closed() {
                return Ok(ExitStatus::Delivered);
            }
            tokio::select! {
                () = tokio::time::sleep(WATCH_INTERVAL) => {}
                () = stop.graceful.cancelled() => return Ok(ExitStatus::Interrupted),
                () = stop.park.cancelled() => return Ok(ExitStatus::Interrupted),
            }
        }
    });
    runtime.shutdown_timeout(CALLS_END_MAX);
    ended
}

/// Runs `massgen batch cancel`.
pub(super) fn cancel(
    host: &Host,
    arguments: &BatchNameArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let batch = open_batch(&arguments.batch, &batches_directory(host))?;
    batch.record()?;
    batch.cancel()?;
    cancel_jobs(&batch, host, output)?;
    output.note(&format!(
        "no cell begins, and those in progress are parked; go on with: massgen batch resume {}",
        batch.name()
    ));
    Ok(ExitStatus::Delivered)
}

/// Cancels the jobs of `batch` in its queue, if it has one.
fn cancel_jobs(batch: &BatchDir, host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    let Some(settings) = BatchStartSettings::kept(batch)? else {
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
    let batch = open_batch(&arguments.batch, &batches_directory(host))?;
    batch.record()?;
    let name = arguments
        .output
        .clone()
        .unwrap_or_else(|| format!("{}.tar.gz", batch.name()));
    let files = batch.export(&host.cwd.join(&name))?;
    output.note(&format!("{} in `{name}`", count_noun(files, "file")));
    Ok(ExitStatus::Delivered)
}
