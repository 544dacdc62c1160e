//! Compares batches, as a table with sentences or as JSON.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::batch::comparison::{
    BatchDifference, BatchFigures, ComparedBatch, ComparedCell, Estimate,
};
use crate::batch::task::CellId;
use crate::cli::args::batch::BatchCompareArguments;
use crate::cli::batch::open_batch_and_record;
use crate::cli::batch::results::write_columns;
use crate::cli::output::CliOutput;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::text::{count_noun, escape_line};
use crate::world::store::batches::BatchDir;

/// The largest number of differing tasks that are named; JSON has all.
const NAMED_TASKS_MAX: usize = 20;

/// Runs `massgen batch compare`.
pub(super) fn compare(
    host: &Host,
    arguments: &BatchCompareArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let batches = arguments.batches.iter();
    let batches = batches.map(|name| Ok(open_batch_and_record(name, host, output)?.0));
    let comparison = BatchComparison::read(&batches.collect::<Result<Vec<_>>>()?)?;
    for unjudged in comparison
        .figures
        .iter()
        .filter(|figures| !figures.unjudged.is_empty())
    {
        let cells: Vec<&str> = unjudged.unjudged.iter().map(CellId::as_str).collect();
        output.warning(&format!(
            "{} of {} were not judged and are left out (`output.txt` of a cell says why): {}",
            count_noun(cells.len(), "cell"),
            unjudged.batch,
            cells.join(", ")
        ));
    }
    if arguments.json {
        output.result(&format!("{}\n", comparison.to_json()))?;
    } else {
        comparison.write(output)?;
    }
    Ok(ExitStatus::Success)
}

/// Reads the results of a batch with the candidates of its runs.
fn read_batch(batch: &BatchDir) -> Result<ComparedBatch> {
    let record = batch.record()?;
    let mut cells = Vec::new();
    for id in batch.cell_ids(&record)? {
        let Some((result, mut run)) = batch.result(&id)? else {
            continue;
        };
        let worth = run.get_mut("worth").map(Value::take).unwrap_or_default();
        let worth = serde_json::from_value(worth).map_err(|error| {
            let message = format!("the result of cell `{id}` does not list its candidates");
            Error::new(ErrorKind::Environment, message).with_source(error)
        })?;
        let tokens = |name: &str| {
            let tokens = run.pointer(&format!("/usage/total/{name}"));
            tokens.and_then(Value::as_u64).unwrap_or_default()
        };
        cells.push(ComparedCell {
            is_success: result.is_success(),
            cost: result.cost_usd,
            cost_is_complete: result.cost_is_complete,
            duration_ms: result.duration_ms,
            id,
            worth,
            tokens: tokens("input_tokens").saturating_add(tokens("output_tokens")),
        });
    }
    Ok(ComparedBatch::new(
        batch.name(),
        record.team().to_owned(),
        cells,
    ))
}

/// Adds the name of its batch to each team of a name that another one has too.
fn name_teams_apart(batches: &mut [ComparedBatch]) {
    let teams: Vec<String> = batches.iter().map(|batch| batch.team.clone()).collect();
    for batch in batches {
        if teams.iter().filter(|team| **team == batch.team).count() > 1 {
            batch.team = format!("{} ({})", batch.team, batch.batch);
        }
    }
}

/// The figures of batches, and how the others differ from the first.
pub(crate) struct BatchComparison {
    figures: Vec<BatchFigures>,
    differences: Vec<BatchDifference>,
}

impl BatchComparison {
    /// Compares the batches with the first of them.
    ///
    /// # Errors
    /// A result cannot be read.
    pub(crate) fn read(batches: &[BatchDir]) -> Result<Self> {
        let batches = batches.iter().map(read_batch);
        let mut batches = batches.collect::<Result<Vec<ComparedBatch>>>()?;
        name_teams_apart(&mut batches);
        let differences = match batches.as_slice() {
            [first, others @ ..] => others.iter().map(|other| first.difference(other)).collect(),
            [] => Vec::new(),
        };
        Ok(Self {
            differences,
            figures: batches.iter().map(ComparedBatch::figures).collect(),
        })
    }

    /// Returns the comparison for scripts and for the page.
    pub(crate) fn to_json(&self) -> Value {
        json!({"batches": self.figures, "differences": self.differences})
    }

    fn write(&self, output: &mut CliOutput<'_>) -> Result<()> {
        write_figures(&self.figures, output)?;
        for difference in &self.differences {
            output.result("\n")?;
            for sentence in &difference.sentences {
                output.result(&format!("{}\n", escape_line(sentence)))?;
            }
            for (team, tasks) in [
                (&difference.first, &difference.only_first),
                (&difference.second, &difference.only_second),
            ] {
                if !tasks.is_empty() {
                    let named: Vec<&str> = tasks
                        .iter()
                        .take(NAMED_TASKS_MAX)
                        .map(CellId::as_str)
                        .collect();
                    let more = if tasks.len() > named.len() {
                        ", …"
                    } else {
                        ""
                    };
                    let count = count_noun(tasks.len(), "task");
                    let line = format!("only {team} solves {count}: {}{more}", named.join(", "));
                    output.result(&format!("{}\n", escape_line(&line)))?;
                }
            }
        }
        Ok(())
    }
}

/// Writes figures as a table, a team a column.
pub(crate) fn write_figures(
    all_figures: &[BatchFigures],
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let teams = all_figures.iter().map(|figures| escape_line(&figures.team));
    let mut lines = vec![std::iter::once(String::new()).chain(teams).collect()];
    let mut add_row = |name: &str, text: &dyn Fn(&BatchFigures) -> Option<String>| {
        let texts: Vec<Option<String>> = all_figures.iter().map(text).collect();
        if texts.iter().any(Option::is_some) {
            let texts = texts
                .into_iter()
                .map(|text| text.unwrap_or_else(|| "-".to_owned()));
            lines.push(std::iter::once(name.to_owned()).chain(texts).collect());
        }
    };
    add_row("tasks", &|figures| Some(figures.tasks.to_string()));
    add_row("solved", &|figures| figures.selected.map(percent));
    let models: BTreeSet<&String> = all_figures
        .iter()
        .flat_map(|figures| figures.pass_at_1.keys())
        .collect();
    for model in models {
        let name = format!("one attempt of {}", escape_line(model));
        add_row(&name, &|figures| {
            figures.pass_at_1.get(model).copied().map(percent)
        });
    }
    add_row("a perfect choice", &|figures| figures.best.map(percent));
    add_row("the votes alone", &|figures| {
        figures.votes_alone.map(percent)
    });
    add_row("the checks alone", &|figures| {
        figures.checks_alone.map(percent)
    });
    add_row("selection efficiency", &|figures| {
        figures.selection_efficiency.map(percent)
    });
    add_row("cost of a task", &|figures| figures.cost_usd.map(dollars));
    add_row("cost of a solved task", &|figures| {
        figures.cost_usd_of_success.map(dollars)
    });
    add_row("tokens of a solved task", &|figures| {
        figures
            .tokens_of_success
            .map(|tokens| interval(tokens, |value| format!("{value:.0}")))
    });
    add_row("minutes of a solved task", &|figures| {
        figures
            .minutes_of_success
            .map(|time| interval(time, |value| format!("{value:.2}")))
    });
    add_row("tokens for selection", &|figures| {
        figures.selection_share.map(share)
    });
    add_row("tokens for presentation", &|figures| {
        figures.presentation_share.map(share)
    });
    write_columns(&lines, |_| true, output)
}

fn interval(estimate: Estimate, text: impl Fn(f64) -> String) -> String {
    let Estimate { value, low, high } = estimate;
    format!("{} [{}, {}]", text(value), text(low), text(high))
}

fn percent(estimate: Estimate) -> String {
    interval(estimate, |value| format!("{:.0}%", value * 100.0))
}

fn dollars(estimate: Estimate) -> String {
    interval(estimate, |value| format!("${value:.4}"))
}

fn share(value: f64) -> String {
    format!("{:.0}%", value * 100.0)
}
