//! Owns the commands that go on while their agent works. They may do what a command may do while
//! agents coordinate: nobody waits for their end, so that nothing could be carried into the user's
//! trees then.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::confinement::Confinement;
use crate::confinement::compile::compile;
use crate::permissions::grant::Phase;
use crate::tools::call::BackgroundId;
use crate::world::commands::Place;
use crate::world::docker::container::Container;
use crate::world::docker::mounts::Reachable;
use crate::world::exec::Observation;
use crate::world::exec::answer::{Answer, Stop};
use crate::world::exec::command::{Asked, cannot_run, commands, facts, show};
use crate::world::gate::Gate;
use crate::world::sandbox::Ended;
use crate::world::sandbox::background::{Background, NotStarted, Status};

/// The most that one call returns of a command's output, in bytes.
const PART_BYTES_MAX: usize = 64 * 1024;

/// `start_background_command`
pub(super) fn start(gate: &Gate, asked: Asked<'_>) -> Answer {
    let commands = commands(gate)?;
    let (facts, network) = facts(gate, commands, asked)?;
    let manager = gate.manager().in_phase(Phase::Coordination);
    let confinement = compile(&manager, commands.tier(), facts).map_err(|why| cannot_run(&why))?;
    let background = commands.background();
    let id = match commands.place() {
        Place::Sandbox(sandbox) => background.start(sandbox, asked.0, &confinement, network),
        Place::Container(container) => {
            show(container, &confinement)?;
            in_container(background, container, asked.0, &confinement)
        }
    };
    let id = id.map_err(|why| cannot_run(&why))?;
    let status = background.status(id).ok_or_else(|| unknown(id))?;
    Ok(told(&status))
}

fn in_container(
    background: &Background,
    container: &Arc<Container>,
    line: &str,
    confinement: &Confinement,
) -> Result<BackgroundId, NotStarted> {
    let (container, command) = (Arc::clone(container), line.to_owned());
    let (dir, reachable) = (confinement.dir.clone(), Reachable::from(confinement));
    background.begin(line, || {
        Ok(Box::new(move |interrupt, taken| {
            container.follow((&command, &dir), &reachable, interrupt, taken)
        }))
    })
}

/// `get_background_output`
pub(super) fn output(gate: &Gate, id: BackgroundId, offset: u64) -> Answer {
    let background = commands(gate)?.background();
    let part = background.output(id, offset, PART_BYTES_MAX);
    let (Some(part), Some(status)) = (part, background.status(id)) else {
        return Err(unknown(id));
    };
    let mut answer = fields(&status);
    answer.insert("output".to_owned(), part.text.into());
    if part.from > offset {
        let note = format!(
            "the output from {offset} to {} is no longer kept",
            part.from
        );
        answer.insert("note".to_owned(), note.into());
    }
    answer.insert("next_offset".to_owned(), part.next.into());
    Ok(Observation::done(Value::Object(answer).to_string()))
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
    Observation::done(Value::Object(fields(status)).to_string())
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
    let mut notes: Vec<String> = status.fault.iter().cloned().collect();
    if let (Some(ended), None) = (&status.ended, code) {
        notes.insert(0, ended.to_string());
    }
    if !notes.is_empty() {
        tell("notes", notes.into());
    }
    fields
}
