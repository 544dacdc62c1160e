//! Shows the results of a batch as a table or as JSON, and compares two batches.

use serde_json::{Value, json};

use crate::batch::comparison::{
    BatchComparison, BatchSummary, ConfidenceInterval, NamedResults, ResultsByCell,
    compare as compare_results,
};
use crate::batch::result::CellResult;
use crate::batch::table::{TagRow, tag_rows};
use crate::cli::args::batch::{BatchCompareArguments, BatchResultsArguments};
use crate::cli::batch::{open_batch, open_batch_and_record};
use crate::cli::batch_report::{failure_lines, open_cells_line};
use crate::cli::output::CliOutput;
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;
use crate::text::escape_line;
use crate::world::store::batches::BatchDir;

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
    arguments: &BatchResultsArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, record) = open_batch_and_record(&arguments.batch, host, output)?;
    if !arguments.json {
        let survey = batch.survey::<CellResult>(record.cells)?;
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
        let cell = serde_json::to_value(cell)
            .map_err(|error| Error::bug("a result has no JSON form").with_source(error))?;
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
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(rows.iter().map(row_texts));
    let widths: Vec<usize> = (0..HEADINGS.len())
        .map(|column| {
            let texts = lines.iter().filter_map(|line| line.get(column));
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for line in &lines {
        let padded_texts: Vec<String> = line
            .iter()
            .zip(&widths)
            .enumerate()
            // The first and the last column are words, the others numbers.
            .map(|(column, (text, &width))| match column {
                0 | 9 => format!("{text:<width$}"),
                _ => format!("{text:>width$}"),
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

/// Runs `massgen batch compare`.
pub(super) fn compare(
    host: &Host,
    arguments: &BatchCompareArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let first = open_batch(&arguments.first, host, output)?;
    let second = open_batch(&arguments.second, host, output)?;
    let comparison = compare_results(
        NamedResults {
            name: &first.name(),
            results: &results_by_cell(&first)?,
        },
        NamedResults {
            name: &second.name(),
            results: &results_by_cell(&second)?,
        },
    );
    if arguments.json {
        output.result(&format!("{}\n", json!(comparison)))?;
        return Ok(ExitStatus::Success);
    }
    for line in comparison_lines(&comparison) {
        output.result(&format!("{line}\n"))?;
    }
    Ok(ExitStatus::Success)
}

fn results_by_cell(batch: &BatchDir) -> Result<ResultsByCell> {
    batch.record()?;
    let results = batch.results()?.into_iter();
    Ok(results.map(|result| (result.id.clone(), result)).collect())
}

fn comparison_lines(comparison: &BatchComparison) -> Vec<String> {
    let summary_line = |summary: &BatchSummary| {
        format!(
            "{}: {} cells, success {}, cost ${}, time {} s",
            summary.batch,
            summary.cells,
            percent_text(&summary.success_share),
            interval_text(&summary.cost_usd, 4),
            interval_text(&summary.seconds, 1)
        )
    };
    let verdict = if comparison.success_difference.excludes_zero() {
        "a difference"
    } else {
        "no difference that these cells can show"
    };
    let mut lines = vec![
        summary_line(&comparison.first),
        summary_line(&comparison.second),
        format!(
            "{} tasks with a result in both: only the first solved {}, only the second {}",
            comparison.pairs, comparison.only_first, comparison.only_second
        ),
        format!(
            "second minus first: success {} ({verdict}), cost ${} a cell, time {} s a cell",
            percent_text(&comparison.success_difference),
            interval_text(&comparison.cost_difference, 4),
            interval_text(&comparison.seconds_difference, 1)
        ),
    ];
    if let Some(price) = comparison.cost_per_additional_success {
        lines.push(format!("price of one more success: ${price:.4}"));
    }
    lines.push("in brackets: confidence intervals of 95%".to_owned());
    lines
}

fn percent_text(share: &ConfidenceInterval) -> String {
    format!(
        "{:.1}% [{:.1}, {:.1}]",
        share.estimate * 100.0,
        share.low * 100.0,
        share.high * 100.0
    )
}

fn interval_text(value: &ConfidenceInterval, decimals: usize) -> String {
    let ConfidenceInterval {
        estimate,
        low,
        high,
    } = value;
    format!("{estimate:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
}
