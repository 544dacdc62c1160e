//! Owns the door for people and scripts: what was typed becomes one call of the house, and what the
//! house tells becomes text on the two standard streams. It holds no rules, and only here is an
//! error printed, once.

use crate::cli::args::{Command, ExplainCommand, HookCommand, SchemaCommand};
use crate::cli::format::{OutputFormat, asked_for};
use crate::cli::guard::guarded;
use crate::cli::mcp::login;
use crate::cli::mcp::orchestrate;
use crate::cli::mcp_arguments::McpCommand;
use crate::cli::output::{Form, Output};
use crate::cli::pipeline_arguments::{PipelineArguments, PipelineCommand, RolesArguments};
use crate::cli::report::Report;
use crate::cli::usage::Invocation;
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::relay;

mod args;
mod asking;
mod automation;
mod clean;
mod conduct;
mod configs;
mod deliveries;
mod docker;
mod doctor;
mod dry_run;
mod editor;
mod environment;
pub mod explain;
mod follow;
mod format;
mod found_config;
mod gates;
mod gathered;
mod go_on;
pub mod grants_file;
mod guard;
mod help;
mod hook;
mod input;
mod interactive;
mod interrupts;
mod lines;
mod login_arguments;
mod mcp_arguments;
mod logs;
mod manual;
mod mcp;
mod mentions;
mod models;
mod output;
mod phase_argument;
mod pipeline;
mod pipeline_arguments;
mod prices;
mod prune;
mod render;
mod replay;
mod report;
mod result;
mod resume;
mod run;
mod sandbox;
mod schema;
mod session_arguments;
mod sessions;
pub mod selftest;
mod shell;
mod task;
mod team;
mod team_file;
pub mod tool;
mod usage;
mod used;

/// Does what the command line of `host` asks for, and gives the status that the process is to end
/// with.
pub fn run(host: &Host) -> u8 {
    let mut output = Output::of(host);
    let invocation = guarded(|| usage::parse(&host.arguments));
    let format = match &invocation {
        Ok(Invocation::Do(arguments)) => arguments.run.output_format,
        Ok(Invocation::Show(_)) => OutputFormat::Text,
        Err(_) => asked_for(&host.arguments),
    };
    let mut report = Report::new(format);
    let ended = invocation.and_then(|invocation| {
        guarded(|| carry_out(host, invocation, &mut output, report.as_mut()))
    });
    let ended = match ended {
        Ok(Ending::OfCommand(status)) => return status,
        Ok(Ending::Own(status)) => Ok(status),
        Err(error) => Err(error),
    };
    end(ended, report, &mut output).code()
}

/// What the process ends with.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// A status of massgen's own.
    Own(ExitStatus),
    /// The status of a command that was run for the user.
    OfCommand(u8),
}

/// Says why the process, with these words on its command line, could not even be read.
pub fn refuse(error: Error, words: &[String]) -> u8 {
    let report = Report::new(asked_for(words));
    let status = end(Err(error), report, &mut Output::plain());
    match words.first().map(String::as_str) {
        Some(hook::WORD) => hook::DENIED,
        _ => status.code(),
    }
}

/// Tells how the process ends: an error to people, and everything to a script that reads JSON.
fn end(ended: Result<ExitStatus>, report: Option<Report>, output: &mut Output<'_>) -> ExitStatus {
    let (status, error) = match ended {
        Ok(status) => (status, None),
        Err(error) => (error.kind().exit_status(), Some(error)),
    };
    if let Some(error) = &error {
        output.error(error);
    }
    let told = match report {
        Some(report) => report.end(status, error.as_ref(), output),
        None => Ok(()),
    };
    match told {
        Err(untold) if status == ExitStatus::Delivered => {
            output.error(&untold);
            untold.kind().exit_status()
        }
        Ok(()) | Err(_) => status,
    }
}

fn carry_out(
    host: &Host,
    invocation: Invocation,
    output: &mut Output<'_>,
    report: Option<&mut Report>,
) -> Result<Ending> {
    let arguments = match invocation {
        Invocation::Do(arguments) => arguments,
        Invocation::Show(text) => {
            output.result(&text)?;
            return Ok(Ending::Own(ExitStatus::Delivered));
        }
    };
    let status = match arguments.command {
        None if arguments.branches => {
            let all = PipelineCommand::Branches(PipelineArguments::default());
            pipeline::run_command(host, &all, output)?
        }
        None if arguments.permissions => {
            let roles = PipelineCommand::Roles(RolesArguments {
                config: arguments.run.config,
                json: false,
            });
            pipeline::run_command(host, &roles, output)?
        }
        None if interactive::is_wanted(host, &arguments.run) => {
            interactive::run(host, &arguments.run)?
        }
        None => run::run(host, &arguments.run, output, report)?,
        Some(Command::Config(command)) => configs::run(host, &command, output)?,
        Some(Command::Pipeline(command)) => pipeline::run_command(host, &command, output)?,
        Some(Command::Logs(command)) => logs::run(host, &command, output)?,
        Some(Command::Sessions(command)) => sessions::run(host, &command, output)?,
        Some(Command::Diff(asked)) => deliveries::diff::run(host, &asked, output)?,
        Some(Command::Apply(asked)) => deliveries::apply::run(host, &asked, output)?,
        Some(Command::Undo(asked)) => deliveries::undo::run(host, &asked, output)?,
        Some(Command::Replay(arguments)) => replay::run(host, &arguments, output)?,
        Some(Command::Models(question)) => models::list(host, &question, output)?,
        Some(Command::Tool(call)) => gates::tool(host, &call, output)?,
        Some(Command::Sandbox(asked)) => {
            return gates::sandbox(host, &asked, output).map(Ending::OfCommand);
        }
        Some(Command::Mcp(command)) => of_mcp(host, &command, output)?,
        Some(Command::Hook(HookCommand::PreToolUse(asked))) => {
            return Ok(Ending::OfCommand(hook::pre_tool_use(host, &asked, output)));
        }
        Some(Command::Doctor(question)) => doctor::run(host, &question, output)?,
        Some(Command::Selftest(wanted)) => selftest::run(host, &wanted, output)?,
        Some(Command::Explain(question)) => explained(host, question, output)?,
        Some(Command::Schema(SchemaCommand::Events)) => {
            output.result(&format!("{:#}\n", schema::events()))?;
            ExitStatus::Delivered
        }
        Some(Command::Docker(command)) => {
            docker::run(host, command, output)?;
            ExitStatus::Delivered
        }
        Some(Command::Completions { shell }) => {
            manual::completions(shell, output)?;
            ExitStatus::Delivered
        }
        Some(Command::Man) => {
            manual::man(output)?;
            ExitStatus::Delivered
        }
    };
    Ok(Ending::Own(status))
}

fn of_mcp(host: &Host, command: &McpCommand, output: &mut Output<'_>) -> Result<ExitStatus> {
    match command {
        McpCommand::Serve(asked) => gates::offer(host, asked, output),
        McpCommand::Orchestrate(asked) => orchestrate::orchestrate(host, asked, output),
        McpCommand::Login(asked) => login::login(host, asked, output),
        McpCommand::Logout(asked) => login::logout(host, asked, output),
        McpCommand::Workflow(asked) => {
            relay::pass_on(&AbsPath::resolve(&host.cwd, &asked.socket))?;
            Ok(ExitStatus::Delivered)
        }
    }
}

fn explained(host: &Host, question: ExplainCommand, output: &mut Output<'_>) -> Result<ExitStatus> {
    match question {
        ExplainCommand::Path(question) => gates::explain_path(host, &question, output)?,
        ExplainCommand::Command(question) => {
            return gates::explain_command(host, &question, output);
        }
        ExplainCommand::Prompt { text, base, json } => {
            mentions::explain(&text, base.as_deref(), Form::from(json), host, output)?;
        }
        ExplainCommand::Calls(source) => gates::explain_calls(host, &source, output)?,
    }
    Ok(ExitStatus::Delivered)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::error::ErrorKind;
    use crate::event::Event;

    /// What a script in `format` reads of a process in which `work` is done, with its exit status.
    fn told(
        format: OutputFormat,
        work: impl FnOnce(&mut Report, &mut Output<'_>) -> Result<ExitStatus>,
    ) -> (ExitStatus, Vec<Value>) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = Output::to(&mut out, &mut err);
        let mut report = Report::new(format).unwrap();
        let ended = guarded(|| work(&mut report, &mut output));
        let status = end(ended, Some(report), &mut output);
        drop(output);
        let lines = String::from_utf8(out).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        (status, lines.collect())
    }

    #[test]
    fn a_panic_in_the_middle_of_a_run_is_told_last_and_once() {
        for (format, count) in [(OutputFormat::Json, 1), (OutputFormat::StreamJson, 2)] {
            let (status, lines) = told(format, |report, output| {
                let message = "careful".to_owned();
                report.event(&Event::Warning { message }, output)?;
                panic!("no seat 7")
            });
            assert_eq!(status, ExitStatus::Bug);
            assert_eq!(lines.len(), count);
            let last = &lines[count - 1];
            assert_eq!(last["seq"], count);
            assert_eq!(last["outcome"], "failed");
            assert_eq!(last["exit_code"], 70);
            assert_eq!(last["summary"], "massgen broke off: no seat 7");
            assert_eq!(last["warnings"][0], "careful");
        }
    }

    #[test]
    fn an_error_is_told_with_all_that_led_to_it() {
        let (_, lines) = told(OutputFormat::Json, |_, _| {
            let disk = std::io::Error::other("the disk is gone");
            let inner = Error::io("cannot read `a`", disk);
            Err(Error::new(ErrorKind::Config, "no team")
                .caused_by(inner)
                .hint("plug it in"))
        });
        let error = serde_json::json!({
            "message": "no team",
            "caused_by": ["cannot read `a`", "the disk is gone"],
            "hints": ["plug it in"],
        });
        assert_eq!(lines[0]["error"], error);
        assert_eq!(lines[0]["exit_code"], 2);
    }
}
