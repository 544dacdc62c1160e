//! Owns the door for people and scripts: what was typed becomes one call of the house, and what the
//! house tells becomes text on the two standard streams. It holds no rules, and only here is an
//! error printed, once.

use crate::cli::args::{Command, ExplainCommand};
use crate::cli::output::{Form, Output};
use crate::cli::usage::Invocation;
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;

mod args;
mod automation;
mod clean;
mod conduct;
mod configs;
mod dry_run;
mod environment;
pub mod explain;
mod follow;
mod found_config;
mod gates;
pub mod grants_file;
mod input;
mod lines;
mod logs;
mod manual;
mod mentions;
mod models;
mod output;
mod prices;
mod render;
mod replay;
mod run;
mod task;
mod team;
mod team_file;
pub mod tool;
mod usage;

/// Does what the command line of `host` asks for, and says how the process is to end.
pub fn run(host: &Host) -> ExitStatus {
    let mut output = Output::of(host);
    match carry_out(host, &mut output) {
        Ok(status) => status,
        Err(error) => {
            output.error(&error);
            error.kind().exit_status()
        }
    }
}

/// Says why the process could not even be read.
pub fn refuse(error: &Error) -> ExitStatus {
    Output::plain().error(error);
    error.kind().exit_status()
}

fn carry_out(host: &Host, output: &mut Output<'_>) -> Result<ExitStatus> {
    let arguments = match usage::parse(&host.arguments)? {
        Invocation::Do(arguments) => arguments,
        Invocation::Show(text) => {
            output.result(&text)?;
            return Ok(ExitStatus::Delivered);
        }
    };
    match arguments.command {
        None => return run::run(host, &arguments.run, output),
        Some(Command::Config(command)) => return configs::run(host, &command, output),
        Some(Command::Logs(command)) => return logs::run(host, &command, output),
        Some(Command::Replay(arguments)) => return replay::run(host, &arguments, output),
        Some(Command::Models(question)) => return models::list(host, &question, output),
        Some(Command::Tool(call)) => return gates::tool(host, &call, output),
        Some(Command::Explain(ExplainCommand::Path(question))) => {
            gates::explain_path(host, &question, output)?;
        }
        Some(Command::Explain(ExplainCommand::Prompt { text, base, json })) => {
            mentions::explain(&text, base.as_deref(), Form::from(json), host, output)?;
        }
        Some(Command::Explain(ExplainCommand::Calls(source))) => {
            gates::explain_calls(host, &source, output)?;
        }
        Some(Command::Completions { shell }) => manual::completions(shell, output)?,
        Some(Command::Man) => manual::man(output)?,
    }
    Ok(ExitStatus::Delivered)
}
