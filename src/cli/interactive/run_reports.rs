//! Reports of a session about its last turn, read from the turn's records and worded like the
//! output of the run itself.

use crate::cli::args::logs::LogsCommand;
use crate::cli::logs;
use crate::cli::output::{CliOutput, TextStyle};
use crate::cli::render::event_lines::{
    OutcomeText, delivered_path, delivery_outcome, event_line, tie_text, usage_shares,
};
use crate::error::Result;
use crate::event::{CoordinationEvent, DeliveryEvent, Event};
use crate::host::Host;
use crate::run_view::RunView;

/// Shows the recorded run `name` again.
pub(crate) fn show_run(name: &str, host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    let show = LogsCommand::Show {
        run: name.to_owned(),
        json: false,
    };
    logs::run(host, &show, output).map(drop)
}

/// Shows the recorded run `name` on the dashboard.
pub(crate) fn show_dashboard(name: &str, host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    let follow = LogsCommand::Follow {
        run: name.to_owned(),
        json: false,
        dashboard: true,
    };
    // It has an event loop of its own.
    tokio::task::block_in_place(|| logs::run(host, &follow, output).map(drop))
}

/// Prints what the run used, in total and by agent.
pub(crate) fn show_cost(name: &str, host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    let mut view = RunView::default();
    for event in read_events(name, host)? {
        // The reports show no times.
        view.apply_next(&event, 0);
    }
    let shares = usage_shares(view.usage(), &view.run().agents, "no usage was recorded");
    for (name, text) in shares {
        output.line(&[
            (TextStyle::Strong, name),
            (TextStyle::Plain, ": "),
            (TextStyle::Plain, &text),
        ]);
    }
    Ok(())
}

/// Prints the votes and the winner.
pub(crate) fn show_votes(name: &str, host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    let mut has_votes = false;
    let mut view = RunView::default();
    for event in read_events(name, host)? {
        // The reports show no times.
        view.apply_next(&event, 0);
        if let Event::Coordination(CoordinationEvent::WinnerSelected { agent, label, .. }) = &event
        {
            let tie = tie_text(view.ballot()).map(|tie| format!("; {tie}"));
            let text = format!("{agent} with {label}{}", tie.unwrap_or_default());
            output.line(&[
                (TextStyle::Good, "winner"),
                (TextStyle::Plain, ": "),
                (TextStyle::Plain, &text),
            ]);
        }
        if let (Event::Coordination(CoordinationEvent::Voted { agent, .. }), Some(vote)) =
            (&event, event_line(&event))
        {
            has_votes = true;
            let line = format!("{} {}", vote.verb, vote.rest);
            output.line(&[
                (TextStyle::Strong, agent.as_str()),
                (TextStyle::Plain, " "),
                (vote.style, &line),
            ]);
        }
    }
    if !has_votes {
        output.note("no votes");
    }
    Ok(())
}

/// Prints the outcome of each file that was to be delivered.
pub(crate) fn show_files(name: &str, host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    let mut delivery_rows = Vec::new();
    for event in read_events(name, host)? {
        if let Event::Delivery(DeliveryEvent::Delivered { rows, .. }) = event {
            delivery_rows = rows;
        }
    }
    if delivery_rows.is_empty() {
        output.note("no file was delivered");
    }
    for row in delivery_rows {
        let OutcomeText { style, word, note } = delivery_outcome(&row.outcome);
        let path = delivered_path(&row, &note);
        output.line(&[(style, &format!("{word:<9}")), (TextStyle::Plain, &path)]);
    }
    Ok(())
}

/// Returns the events of a run.
fn read_events(name: &str, host: &Host) -> Result<Vec<Event>> {
    let entries = logs::find_run(name, host)?.events()?.intact_entries();
    let events = entries.filter_map(|entry| entry.map(|entry| entry.event).transpose());
    events.collect()
}
