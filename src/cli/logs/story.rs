//! Owns the telling of a run from its event log, with the code that shows it while it goes on. All of
//! it goes to standard output, damage too: it is what was asked for.

use std::time::Duration;

use serde_json::Value;

use crate::cli::output::{Form, Output};
use crate::cli::render::Render;
use crate::error::Result;
use crate::event::Event;
use crate::host::Host;
use crate::world::clock::Moment;
use crate::world::store::event_log::{Entry, LogFault};
use crate::world::store::runs::RunDir;
use crate::world::store::tail::Tail;

/// A line of the log, or why it cannot be used.
type Line = std::result::Result<Entry, LogFault>;

/// Whether a run has told how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    ToTheEnd,
    SoFar,
}

/// Tells `run` as far as its log goes.
pub(super) fn show(run: &RunDir, form: Form, host: &Host) -> Result<()> {
    tell(run.events()?, form, host).map(drop)
}

/// Tells `run` and goes on until it ends.
pub(super) fn follow(run: &RunDir, form: Form, host: &Host) -> Result<()> {
    if tell(Tail::open(run)?, form, host)? == Told::SoFar {
        let mut output = Output::of(host);
        output
            .warning("the run was broken off: its process is gone and it did not say how it ended");
    }
    Ok(())
}

fn tell(lines: impl Iterator<Item = Line>, form: Form, host: &Host) -> Result<Told> {
    let mut output = Output::story(host);
    match form {
        Form::Json => tell_scripts(lines, &mut output),
        Form::Text => tell_people(lines, &mut output),
    }
}

/// Each event as it stands in the log; what is damaged is said on standard error.
fn tell_scripts(lines: impl Iterator<Item = Line>, output: &mut Output<'_>) -> Result<Told> {
    let mut damage = Output::plain();
    for line in lines {
        match line {
            Ok(entry) => {
                let is_last = is_end(&entry);
                output.result(&format!("{}\n", Value::Object(entry.fields)))?;
                if is_last || output.is_closed() {
                    return Ok(Told::ToTheEnd);
                }
            }
            Err(fault) => damage.warning(&fault.to_string()),
        }
    }
    Ok(Told::SoFar)
}

fn is_end(entry: &Entry) -> bool {
    matches!(entry.event(), Some(Event::RunEnded { .. }))
}

fn tell_people(lines: impl Iterator<Item = Line>, output: &mut Output<'_>) -> Result<Told> {
    let mut began: Option<Moment> = None;
    let mut render = Render::new(output);
    for line in lines {
        let (at, event) = match line {
            Ok(entry) => (entry.at(), entry.event()),
            Err(fault) => {
                render.say(&fault.to_string());
                continue;
            }
        };
        let Some(event) = event else {
            continue;
        };
        if began.is_none() {
            began.clone_from(&at);
        }
        let elapsed = match (&at, &began) {
            (Some(at), Some(began)) => at.since(began),
            _ => Duration::ZERO,
        };
        render.event(&event, elapsed)?;
        if matches!(event, Event::RunEnded { .. }) || render.is_closed() {
            return Ok(Told::ToTheEnd);
        }
    }
    render.break_off();
    Ok(Told::SoFar)
}
