//! Owns what a session tells about its last turn: it is read from the turn's records, with the words that
//! the run itself uses.

use crate::cli::args::LogsCommand;
use crate::cli::logs;
use crate::cli::output::{Output, Style};
use crate::cli::render::deeds::{deed, outcome, used};
use crate::error::Result;
use crate::event::Event;
use crate::host::Host;
use crate::id::AgentId;
use crate::spending::books::Books;

/// Tells the run again that is recorded as `name`.
pub(crate) fn inspect(name: &str, host: &Host, output: &mut Output<'_>) -> Result<()> {
    let show = LogsCommand::Show {
        run: name.to_owned(),
        json: false,
    };
    logs::run(host, &show, output).map(drop)
}

/// Says what the run used, and each agent's part of it.
pub(crate) fn cost(name: &str, host: &Host, output: &mut Output<'_>) -> Result<()> {
    let mut books = Books::default();
    let mut agents: Vec<AgentId> = Vec::new();
    for event in events(name, host)? {
        event.enter_into(&mut books);
        if let Event::RunStarted { agents: all, .. } = event {
            agents = all;
        }
    }
    let nothing = || "nothing was counted".to_owned();
    for agent in &agents {
        let share = used(&books.agent(agent)).unwrap_or_else(nothing);
        output.line(&[
            (Style::Strong, agent.as_str()),
            (Style::Plain, ": "),
            (Style::Plain, &share),
        ]);
    }
    let all = used(&books.run()).unwrap_or_else(nothing);
    output.line(&[
        (Style::Strong, "all"),
        (Style::Plain, ": "),
        (Style::Plain, &all),
    ]);
    Ok(())
}

/// Says who voted for whom, and who won.
pub(crate) fn votes(name: &str, host: &Host, output: &mut Output<'_>) -> Result<()> {
    let mut voted = false;
    for event in events(name, host)? {
        if let Event::WinnerSelected { agent, label, .. } = &event {
            let text = format!("{agent} with {label}");
            output.line(&[
                (Style::Good, "winner"),
                (Style::Plain, ": "),
                (Style::Plain, &text),
            ]);
        }
        if let (Event::Voted { agent, .. }, Some((style, verb, text))) = (&event, deed(&event)) {
            voted = true;
            let line = format!("{verb} {text}");
            output.line(&[
                (Style::Strong, agent.as_str()),
                (Style::Plain, " "),
                (style, &line),
            ]);
        }
    }
    if !voted {
        output.note("nobody voted");
    }
    Ok(())
}

/// Says what became of each file that was to be delivered.
pub(crate) fn files(name: &str, host: &Host, output: &mut Output<'_>) -> Result<()> {
    let mut delivered = Vec::new();
    for event in events(name, host)? {
        if let Event::Delivered { rows } = event {
            delivered = rows;
        }
    }
    if delivered.is_empty() {
        output.note("no file was delivered");
    }
    for row in delivered {
        let (style, word, note) = outcome(&row.outcome);
        let path = format!("{}{note}", row.path);
        output.line(&[(style, &format!("{word:<9}")), (Style::Plain, &path)]);
    }
    Ok(())
}

/// The events of a run, as far as its log can be read.
fn events(name: &str, host: &Host) -> Result<Vec<Event>> {
    let log = logs::find(name, host)?.events()?;
    Ok(log.filter_map(|entry| entry.ok()?.event()).collect())
}
