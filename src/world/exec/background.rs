//! Owns the commands that go on while their agent works. They may do what other commands may do.
//! What one changed in the user's trees is carried there, or found, when it has ended; until then it
//! has a stage of its own, which nobody else writes to.

use std::io;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::path::AbsPath;
use crate::tools::call::BackgroundId;
use crate::wording::visible_lines;
use crate::world::commands::{Commands, Place};
use crate::world::docker::container::Container;
use crate::world::docker::mounts::Reachable;
use crate::world::exec::Observation;
use crate::world::exec::answer::{Answer, Stop};
use crate::world::exec::command::{
    Asked, LEFT_OUT_TOLD_MAX, cannot_run, commands, compiled, facts, on_stage, reachable, show,
};
use crate::world::exec::reckoning::{Lasting, Reckoning, writes_to_the_users};
use crate::world::gate::Gate;
use crate::world::policy::GatePolicy;
use crate::world::sandbox::Ended;
use crate::world::sandbox::background::{Afterwards, Follow, Status};
use crate::world::sandbox::interrupt::Interrupt;

/// The most that one call returns of a command's output, in bytes.
const PART_BYTES_MAX: usize = 64 * 1024;

/// `start_background_command`
pub(super) fn start(gate: &Gate, asked: Asked<'_>) -> Answer {
    let commands = commands(gate)?;
    let (facts, network) = facts(gate, commands, asked)?;
    let nothing: Afterwards = Box::new(Vec::new);
    let (gate, afterwards) = if writes_to_the_users(gate, commands) {
        prepared(gate, commands)?
    } else {
        (gate.clone(), nothing)
    };
    let confinement = compiled(&gate, commands, facts)?;
    let background = commands.background();
    let id = match commands.place() {
        Place::Sandbox(sandbox) => {
            let sandbox = on_stage(&gate, sandbox);
            background.start_before(&sandbox, asked.0, (&confinement, network), afterwards)
        }
        Place::Container(container) => {
            show(&gate, container, &confinement)?;
            let (dir, reachable) = (confinement.dir.clone(), reachable(&gate, &confinement));
            let begun = in_container(container, asked.0, (dir, reachable));
            background.begin(asked.0, begun, afterwards)
        }
    };
    let id = id.map_err(|why| cannot_run(&why))?;
    let status = background.status(id).ok_or_else(|| unknown(id))?;
    Ok(told(&status))
}

/// The gate by which a command is run that may write to the user's trees, and what is done when it has
/// ended.
fn prepared(gate: &Gate, commands: &Commands) -> Result<(Gate, Afterwards), Stop> {
    let lasting = Lasting::UntilTheCommandEnds;
    let mut alone = commands.trees().alone();
    let reckoning = Reckoning::open(gate, commands, lasting, &mut alone)?;
    drop(alone);
    // Without the commands: they last as long as somebody holds them, and end those in here.
    let policy = GatePolicy {
        commands: None,
        servers: None,
        ..gate.policy().clone()
    };
    let manager = gate.manager().in_phase(gate.phase());
    let own = Gate::open(manager, policy).map_err(|error| cannot_run(&error))?;
    let (trees, late) = (commands.trees().clone(), commands.late().clone());
    let by = reckoning.gate().clone();
    let settle = move || {
        let settled = reckoning.settle(&own, &mut trees.alone());
        let (changes, notes) = match settled {
            Ok(aftermath) => {
                let notes = aftermath.notes(&own, LEFT_OUT_TOLD_MAX);
                (aftermath.changes, notes)
            }
            Err(stop) => (stop.changes, vec![stop.message]),
        };
        late.add(changes);
        notes
    };
    Ok((by, Box::new(settle)))
}

fn in_container(
    container: &Arc<Container>,
    line: &str,
    (dir, reachable): (AbsPath, Reachable),
) -> impl FnOnce() -> io::Result<Follow> {
    let (container, command) = (Arc::clone(container), line.to_owned());
    move || {
        Ok(Box::new(
            move |interrupt: &Interrupt, taken: &mut (dyn FnMut(&[u8]) + Send)| {
                let ended = container.follow((&command, &dir), &reachable, interrupt, taken)?;
                Ok((ended, Vec::new()))
            },
        ))
    }
}

/// `get_background_output`
pub(super) fn output(gate: &Gate, id: BackgroundId, offset: u64) -> Answer {
    let background = commands(gate)?.background();
    let part = background.output(id, offset, PART_BYTES_MAX);
    let (Some(part), Some(status)) = (part, background.status(id)) else {
        return Err(unknown(id));
    };
    let mut answer = fields(&status);
    answer.insert("output".to_owned(), visible_lines(&part.text).into());
    if part.from > offset {
        let note = format!(
            "the output from {offset} to {} is no longer kept",
            part.from
        );
        answer.insert("note".to_owned(), note.into());
    }
    answer.insert("next_offset".to_owned(), part.next.into());
    Ok(Observation {
        summary: Some(summary(&status)),
        ..Observation::done(Value::Object(answer).to_string())
    })
}

/// `get_background_status`
pub(super) fn status(gate: &Gate, id: BackgroundId) -> Answer {
    let status = commands(gate)?.background().status(id);
    Ok(told(&status.ok_or_else(|| unknown(id))?))
}

/// `stop_background_command`
pub(super) fn stop(gate: &Gate, id: BackgroundId) -> Answer {
    let status = commands(gate)?.background().stop(id);
    Ok(told(&status.ok_or_else(|| unknown(id))?))
}

/// `list_background_commands`
pub(super) fn list(gate: &Gate) -> Answer {
    let all = commands(gate)?.background().list();
    let row = |status: &Status| {
        let mut row = fields(status);
        row.insert("command".to_owned(), status.command.clone().into());
        Value::Object(row)
    };
    let rows: Vec<Value> = all.iter().map(row).collect();
    Ok(Observation::done(json!({"commands": rows}).to_string()))
}

fn unknown(id: BackgroundId) -> Stop {
    Stop::failed(format!(
        "there is no background command {id}: call list_background_commands"
    ))
}

fn told(status: &Status) -> Observation {
    Observation {
        summary: Some(summary(status)),
        ..Observation::done(Value::Object(fields(status)).to_string())
    }
}

/// How a command stands, for people.
fn summary(status: &Status) -> String {
    let ended = status.ended.as_ref();
    let stands = ended.map_or_else(|| "it goes on".to_owned(), Ended::to_string);
    format!("command {}: {stands}", status.id)
}

/// How a command stands.
fn fields(status: &Status) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut tell = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    tell("command_id", status.id.0.into());
    let (word, code) = match &status.ended {
        None => ("running", None),
        Some(Ended::Exited(code)) => ("exited", Some(*code)),
        Some(Ended::Interrupted) => ("stopped", None),
        Some(_) => ("killed", None),
    };
    tell("status", word.into());
    if let Some(code) = code {
        tell("exit_code", code.into());
    }
    tell("running_seconds", status.elapsed.as_secs().into());
    tell("output_bytes", status.output_bytes.into());
    let mut notes = status.notes.clone();
    if let (Some(ended), None) = (&status.ended, code) {
        notes.insert(0, ended.to_string());
    }
    if !notes.is_empty() {
        tell("notes", notes.into());
    }
    fields
}
