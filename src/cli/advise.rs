//! Implements `massgen advise`: what the user's own runs in a directory show of each team. Nothing
//! leaves the machine.

use std::collections::BTreeMap;

use serde_json::json;

use crate::batch::comparison::{BatchFigures, ComparedBatch, ComparedCell, GAIN_MIN};
use crate::batch::task::CellId;
use crate::check_results::ChecksOutcome;
use crate::cli::args::RunArguments;
use crate::cli::args::recorded::parse_recorded;
use crate::cli::batch::compare::write_figures;
use crate::cli::deliveries::deliveries_directory;
use crate::cli::logs::logs_directory;
use crate::cli::output::CliOutput;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::run_view::RunView;
use crate::text::{count_noun, escape_line};
use crate::world::delivery::delivered_files::DeliveriesByRun;
use crate::world::io::clock::milliseconds;
use crate::world::store::event_log::EventLogClock;
use crate::world::store::records::metadata::RunMetadata;
use crate::world::store::runs::{self, RunDir, RunStatus};

/// The newest runs that are read, at most.
const RUNS_MAX: usize = 200;
/// The number of runs from which a team is judged.
const JUDGED_RUNS_MIN: usize = 5;

/// Runs `massgen advise`.
pub(crate) fn run(host: &Host, json: bool, output: &mut CliOutput<'_>) -> Result<ExitStatus> {
    let deliveries = DeliveriesByRun::list(&deliveries_directory(host))?;
    let mut teams: BTreeMap<String, Vec<ComparedCell>> = BTreeMap::new();
    for run in runs::list(&logs_directory(host))?.iter().take(RUNS_MAX) {
        if run.state()?.status != RunStatus::Ended || !run.is_own()? || !run.has_log()? {
            continue;
        }
        let (Some(metadata), Some(cell)) = (run.metadata(), read_run(run, &deliveries)?) else {
            continue;
        };
        teams.entry(team_name(&metadata)).or_default().push(cell);
    }
    let figures: Vec<BatchFigures> = teams
        .into_iter()
        .map(|(team, cells)| ComparedBatch::new(String::new(), team, cells).figures())
        .collect();
    let advice: Vec<String> = figures.iter().filter_map(advise).collect();
    if json {
        output.result(&format!(
            "{}\n",
            json!({"teams": figures, "advice": advice})
        ))?;
    } else if figures.is_empty() {
        output.note("no run has ended in this directory");
    } else {
        write_figures(&figures, output)?;
        output.note(
            "a run counts as solved if its checks passed, or without checks if it completed, and \
             its delivery was not undone; the teams had different tasks",
        );
        for sentence in &advice {
            output.result(&format!("{}\n", escape_line(sentence)))?;
        }
    }
    Ok(ExitStatus::Success)
}

/// Reads a run as a task that its team has or has not solved; `None` if its end is not recorded.
fn read_run(run: &RunDir, deliveries: &DeliveriesByRun) -> Result<Option<ComparedCell>> {
    let (mut view, mut clock) = (RunView::default(), EventLogClock::default());
    for entry in run.events()?.intact_entries() {
        let entry = entry?;
        if let Some(event) = &entry.event {
            view.apply_next(event, milliseconds(clock.elapsed_at(&entry)));
        }
    }
    let (Some(id), Some(status)) = (CellId::parse(&run.name()), view.run().status) else {
        return Ok(None);
    };
    let is_undone = deliveries.delivered_files(&run.name())?.is_reverted();
    let has_passed = match view.checks_outcome() {
        ChecksOutcome::Passed => true,
        ChecksOutcome::Failed => false,
        ChecksOutcome::None => status == ExitStatus::Success,
    };
    let total = view.usage().run();
    Ok(Some(ComparedCell {
        id,
        is_success: has_passed && !is_undone,
        worth: view.candidate_report(),
        cost: total.known_cost(),
        cost_is_complete: total.cost_is_complete,
        tokens: total.usage.total_tokens(),
        duration_ms: view.run().elapsed_ms,
    }))
}

/// Returns the name of the team of a run: its config or its models, and the strategy if a flag names
/// it.
fn team_name(metadata: &RunMetadata) -> String {
    let flags = parse_recorded(&metadata.cli_args).unwrap_or_default();
    let RunArguments {
        config,
        model,
        strategy,
        best_of,
        ..
    } = flags;
    let file = metadata.config_path.as_ref().map(AbsPath::name_lossy);
    let mut words = match (file, config) {
        (Some(file), _) => vec![file],
        (None, Some(config)) => vec![config],
        (None, None) => model,
    };
    words.extend(strategy.map(|strategy| strategy.name().to_owned()));
    words.extend(best_of.map(|count| format!("best of {count}")));
    words.join(" ")
}

/// Returns what follows from the figures of a team, in one sentence.
fn advise(figures: &BatchFigures) -> Option<String> {
    let (team, runs) = (&figures.team, count_noun(figures.tasks, "run"));
    if figures.tasks < JUDGED_RUNS_MIN {
        return None;
    }
    let Some(best) = figures.best else {
        return Some(format!(
            "{team}: none of {runs} had a required check, so nothing tells a good answer from a bad \
             one; name one with `--check` or in `checks`"
        ));
    };
    let one = figures.pass_at_1.values().map(|estimate| estimate.value);
    let one = one.reduce(f64::max)?;
    if best.value - one < GAIN_MIN {
        return Some(format!(
            "{team}: in {runs}, one answer passed the checks about as often as the best of all: one \
             agent, or `strategy: cascade`, costs less"
        ));
    }
    let votes = figures.votes_alone.map(|votes| votes.value);
    let gain = 100.0 * (best.value - one);
    Some(match votes {
        Some(votes) if votes + GAIN_MIN < best.value => format!(
            "{team}: in {runs}, several answers gained {gain:.0} points, and the votes alone would \
             have missed some: the checks pay off"
        ),
        Some(_) | None => format!("{team}: in {runs}, several answers gained {gain:.0} points"),
    })
}
