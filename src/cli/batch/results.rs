//! Shows the results of a batch as a table or as JSON.

use serde_json::Value;

use crate::batch::result::CellResult;
use crate::batch::table::{TagRow, tag_rows};
use crate::cli::args::batch::BatchNameArguments;
use crate::cli::batch::open_batch_and_record;
use crate::cli::batch_report::{failure_lines, open_cells_line};
use crate::cli::output::CliOutput;
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;
use crate::text::escape_line;

/// The headings of the table.
const HEADINGS: [&str; 10] = [
    "tag",
    "cells",
    "success",
    "completed",
    "partial",
    "failed",
    "cost",
    "p50",
    "p95",
    "winners",
];

/// Runs `massgen batch results`.
pub(super) fn results(
    host: &Host,
    arguments: &BatchNameArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, record) = open_batch_and_record(&arguments.batch, host, output)?;
    if !arguments.json {
        let survey = batch.survey(record.cells)?;
        write_table(&survey.results, output)?;
        let lines = failure_lines(&batch, &survey);
        for line in lines.iter().chain(&open_cells_line(&survey.counts())) {
            output.note(line);
        }
        return Ok(ExitStatus::Success);
    }
    for id in batch.cell_ids(&record)? {
        let Some((cell, mut run)) = batch.result(&id)? else {
            continue;
        };
        let cell = serde_json::to_value(cell).map_err(Error::unserializable)?;
        if let Value::Object(run) = &mut run {
            run.insert("cell".to_owned(), cell);
        }
        output.result(&format!("{run}\n"))?;
        if output.is_closed() {
            break;
        }
    }
    Ok(ExitStatus::Success)
}

/// Writes the table of `results`.
pub(super) fn write_table(results: &[CellResult], output: &mut CliOutput<'_>) -> Result<()> {
    let rows = tag_rows(results);
    let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| row_texts(row).to_vec()));
    // The first and the last column are words, the others numbers.
    write_columns(&lines, |column| matches!(column, 0 | 9), output)
}

/// Writes `lines` in columns; those for which `is_text` holds begin at their left end.
pub(super) fn write_columns(
    lines: &[Vec<String>],
    is_text: impl Fn(usize) -> bool,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let texts = lines.iter().filter_map(|line| line.get(column));
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for line in lines {
        let padded_texts: Vec<String> = line
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (text, &width))| {
                if is_text(column) {
                    format!("{text:<width$}")
                } else {
                    format!("{text:>width$}")
                }
            })
            .collect();
        output.result(&format!("{}\n", padded_texts.join("  ").trim_end()))?;
    }
    Ok(())
}

fn row_texts(row: &TagRow) -> [String; 10] {
    let share = row.successes.saturating_mul(100).checked_div(row.cells);
    let cost_suffix = if row.cost_is_complete { "" } else { "+" };
    let winners: Vec<String> = row
        .winners
        .iter()
        .map(|(agent, count)| format!("{agent} {count}"))
        .collect();
    [
        escape_line(&row.tag),
        row.cells.to_string(),
        format!("{} ({}%)", row.successes, share.unwrap_or(0)),
        row.completed.to_string(),
        row.partial.to_string(),
        row.failed.to_string(),
        format!("${}{cost_suffix}", row.cost_usd.round_up()),
        seconds_text(row.p50_ms),
        seconds_text(row.p95_ms),
        escape_line(&winners.join(", ")),
    ]
}

fn seconds_text(milliseconds: u64) -> String {
    format!(
        "{:.1} s",
        std::time::Duration::from_millis(milliseconds).as_secs_f64()
    )
}
