//! Command line interface: dispatches what was typed, and writes results, progress and errors to
//! the two standard streams. It must hold no rules, and only here is an error printed, once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cli::args::gate_calls::{ExplainCommand, HookCommand};
use crate::cli::args::mcp::McpCommand;
use crate::cli::args::pipeline::{PipelineArguments, PipelineCommand, RolesArguments};
use crate::cli::args::{CliCommand, DeliveryArguments, RunArguments, SchemaCommand};
use crate::cli::command_line::CliInvocation;
use crate::cli::format::{OutputFormat, requested_format};
use crate::cli::json_report::JsonReport;
pub use crate::cli::machine_policy::read_machine_policy;
use crate::cli::mcp::{login, orchestrate, packages};
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::run_frontend::{RunFrontend, UserPresence};
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::exec::agent_socket;
use crate::world::io::stop_signal::keep_exited_children;

mod args;
mod advise;
mod batch;
mod batch_report;
mod broad_paths;
mod approval_prompt;
mod automation;
mod terminal_text;
mod run_frontend;
mod run_context;
mod run_flags;
mod execution;
mod configs;
mod dashboard;
mod deliveries;
mod docker;
mod doctor;
mod directory_question;
mod dry_run;
mod editor;
mod embedded_file;
mod environment;
pub mod explain;
mod follow;
mod format;
mod found_check;
mod found_config;
mod gates;
mod result_builder;
mod continued_session;
pub mod grants_file;
mod help;
mod hook;
mod http;
mod init;
mod interactive;
mod interrupts;
mod line_buffer;
mod machine_policy;
mod logs;
mod manual;
mod markdown_lines;
mod mcp;
mod memory;
mod mentions;
mod missing_files;
mod missing_keys;
mod models;
mod opening_question;
mod output;
mod pipeline;
mod model_prices;
mod prune;
mod render;
mod replay;
mod report_files;
mod json_report;
mod kept_attempts;
mod result;
mod resume;
mod run;
mod run_directory;
mod run_observer;
mod run_terminal;
mod sandbox;
mod schema;
mod sessions;
mod skills;
pub mod selftest;
mod standard_stream;
mod steering;
mod call_environment;
mod cell_text;
mod task;
mod team;
mod team_file;
mod typed_message;
pub mod tool;
mod command_line;
mod completion_values;
mod web;

/// Executes the command line of `host` and returns the exit status of the process.
pub fn run(host: &Host) -> u8 {
    keep_exited_children();
    let mut output = CliOutput::from_host(host);
    if let Some((word, words)) = host.arguments.split_first()
        && word == completion_values::COMMAND_NAME
    {
        let result = catch_panic(|| completion_values::print_values(host, words, &mut output));
        return result
            .map_or(ExitStatus::Bug, |()| ExitStatus::Success)
            .code();
    }
    let invocation = catch_panic(|| command_line::parse(&host.arguments));
    let format = match &invocation {
        Ok(CliInvocation::Execute(arguments)) => arguments.run.output_format,
        Ok(CliInvocation::Print(_)) => OutputFormat::Text,
        Err(_) => requested_format(&host.arguments),
    };
    let mut report = JsonReport::new(format);
    let outcome = invocation.and_then(|invocation| {
        catch_panic(|| execute(host, invocation, &mut output, report.as_mut()))
    });
    let result = match outcome {
        Ok(ProcessStatus::Command(status)) => return status,
        Ok(ProcessStatus::Massgen(status)) => Ok(status),
        Err(error) => Err(error),
    };
    finish(result, report, &mut output).code()
}

/// Exit status of the process.
#[derive(Clone, Copy, Debug)]
enum ProcessStatus {
    /// A status that `docs/config.md` lists.
    Massgen(ExitStatus),
    /// The status of a command that was run for the user.
    Command(u8),
}

/// Reports why a process with these words on its command line cannot start: what it was started
/// with cannot be read.
pub fn report_start_error(error: Error, words: &[String]) -> u8 {
    let report = JsonReport::new(requested_format(words));
    let status = finish(Err(error), report, &mut CliOutput::plain());
    match words.first().map(String::as_str) {
        Some(hook::COMMAND_NAME) => hook::DENIAL_STATUS,
        _ => status.code(),
    }
}

/// Reports how the process ends: an error to the user, and the result to a script that reads JSON.
/// Returns its exit status.
fn finish(
    result: Result<ExitStatus>,
    report: Option<JsonReport>,
    output: &mut CliOutput<'_>,
) -> ExitStatus {
    let (status, error) = match result {
        Ok(status) => (status, None),
        Err(error) => (error.kind().exit_status(), Some(error)),
    };
    if let Some(error) = &error {
        output.error(error);
    }
    let report_result = match report {
        Some(report) => report.end(status, error.as_ref(), output),
        None => Ok(()),
    };
    match report_result {
        Err(report_error) if status == ExitStatus::Success => {
            output.error(&report_error);
            report_error.kind().exit_status()
        }
        Ok(()) | Err(_) => status,
    }
}

fn execute(
    host: &Host,
    invocation: CliInvocation,
    output: &mut CliOutput<'_>,
    report: Option<&mut JsonReport>,
) -> Result<ProcessStatus> {
    let arguments = match invocation {
        CliInvocation::Execute(arguments) => arguments,
        CliInvocation::Print(text) => {
            output.result(&text)?;
            return Ok(ProcessStatus::Massgen(ExitStatus::Success));
        }
    };
    let status = match arguments.command {
        None if arguments.branches => {
            let branches = PipelineCommand::Branches(PipelineArguments::default());
            pipeline::run_command(host, &branches, output)?
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
        None => {
            let report = report.map(|report| -> &mut dyn RunFrontend { report });
            run::run(host, &arguments.run, output, report)?
        }
        Some(CliCommand::Init(arguments)) => init::run(host, &arguments, output)?,
        Some(CliCommand::Demo) => run::run(host, &demo_arguments(host), output, None)?,
        Some(CliCommand::Config(command)) => configs::run(host, &command, output)?,
        Some(CliCommand::Batch(command)) => batch::run(host, &command, output)?,
        Some(CliCommand::Pipeline(command)) => pipeline::run_command(host, &command, output)?,
        Some(CliCommand::Logs(command)) => logs::run(host, &command, output)?,
        Some(CliCommand::Sessions(command)) => sessions::run(host, &command, output)?,
        Some(CliCommand::Advise { json }) => advise::run(host, json, output)?,
        Some(CliCommand::Memory(command)) => memory::run(host, &command, output)?,
        Some(CliCommand::Skills(command)) => skills::run(host, &command, output)?,
        Some(CliCommand::Diff(arguments)) => deliveries::diff::run(host, &arguments, output)?,
        Some(CliCommand::Apply(arguments)) => deliveries::apply::run(host, &arguments, output)?,
        Some(CliCommand::Undo(arguments)) => deliveries::undo::run(host, &arguments, output)?,
        Some(CliCommand::Replay(arguments)) => replay::run(host, &arguments, output)?,
        Some(CliCommand::Models(arguments)) => models::list(host, &arguments, output)?,
        Some(CliCommand::Tool(arguments)) => gates::run_tool(host, &arguments, output)?,
        Some(CliCommand::Sandbox(arguments)) => {
            return gates::run_sandbox(host, &arguments, output).map(ProcessStatus::Command);
        }
        Some(CliCommand::Mcp(command)) => run_mcp(host, &command, output)?,
        Some(CliCommand::Web(arguments)) => web::serve::serve_page(host, &arguments, output)?,
        Some(CliCommand::Hook(HookCommand::PreToolUse(arguments))) => {
            return Ok(ProcessStatus::Command(hook::pre_tool_use(
                host, &arguments, output,
            )));
        }
        Some(CliCommand::Doctor(arguments)) => doctor::run(host, &arguments, output)?,
        Some(CliCommand::Selftest(arguments)) => selftest::run(host, &arguments, output)?,
        Some(CliCommand::Explain(command)) => run_explain(host, command, output)?,
        Some(CliCommand::Schema(SchemaCommand::Events)) => {
            output.result(&format!("{:#}\n", schema::event_schema()))?;
            ExitStatus::Success
        }
        Some(CliCommand::Docker(command)) => {
            docker::run(host, command, output)?;
            ExitStatus::Success
        }
        Some(CliCommand::Completions { shell }) => {
            manual::print_completions(shell, output)?;
            ExitStatus::Success
        }
        Some(CliCommand::Man) => {
            manual::print_manual_pages(output)?;
            ExitStatus::Success
        }
    };
    Ok(ProcessStatus::Massgen(status))
}

fn run_mcp(host: &Host, command: &McpCommand, output: &mut CliOutput<'_>) -> Result<ExitStatus> {
    match command {
        McpCommand::Serve(arguments) => gates::serve_gate_tools(host, arguments, output),
        McpCommand::Orchestrate(arguments) => orchestrate::serve_runs(host, arguments, output),
        McpCommand::Install(arguments) => packages::install(host, arguments, output),
        McpCommand::List => packages::list(host, output),
        McpCommand::Uninstall(arguments) => packages::uninstall(host, arguments, output),
        McpCommand::Login(arguments) => login::login(host, arguments, output),
        McpCommand::Logout(arguments) => login::logout(host, arguments, output),
        McpCommand::Workflow(arguments) => {
            agent_socket::forward_stdio(&AbsPath::resolve(&host.cwd, &arguments.socket))?;
            Ok(ExitStatus::Success)
        }
    }
}

/// Returns the arguments of the demo, whose delivery is reviewed at a terminal.
fn demo_arguments(host: &Host) -> RunArguments {
    RunArguments {
        config: Some("@examples/basic/demo".to_owned()),
        task: vec!["Write a program that greets my project".to_owned()],
        delivery: DeliveryArguments {
            review: UserPresence::detect(host) == UserPresence::Present,
            ..DeliveryArguments::default()
        },
        ..RunArguments::default()
    }
}

fn run_explain(
    host: &Host,
    command: ExplainCommand,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    match command {
        ExplainCommand::Path(arguments) => gates::explain_path(host, &arguments, output)?,
        ExplainCommand::Command(arguments) => {
            return gates::explain_command(host, &arguments, output);
        }
        ExplainCommand::Prompt { text, base, json } => {
            mentions::explain(
                &text,
                base.as_deref(),
                ReportFormat::from(json),
                host,
                output,
            )?;
        }
        ExplainCommand::Calls(source) => gates::explain_calls(host, &source, output)?,
    }
    Ok(ExitStatus::Success)
}

/// Runs `work` and returns its result; a panic in it is an error of the kind bug.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // What `work` was changing is only reported and dropped afterwards, never used for further
    // work.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Error::from_panic(&*panic)))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::error::{ErrorKind, ExitStatus};
    use crate::event::{Event, RunEvent};

    /// Returns what a script reads in `format` of a process that does `work`, with its exit status.
    fn report_lines(
        format: OutputFormat,
        work: impl FnOnce(&mut JsonReport, &mut CliOutput<'_>) -> Result<ExitStatus>,
    ) -> (ExitStatus, Vec<Value>) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = CliOutput::with_writers(&mut out, &mut err);
        let mut report = JsonReport::new(format).unwrap();
        let ended = catch_panic(|| work(&mut report, &mut output));
        let status = finish(ended, Some(report), &mut output);
        drop(output);
        let lines = String::from_utf8(out).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        (status, lines.collect())
    }

    #[test]
    fn a_panic_during_a_run_is_reported_once_on_the_last_line() {
        for (format, count) in [(OutputFormat::Json, 1), (OutputFormat::StreamJson, 2)] {
            let (status, lines) = report_lines(format, |report, output| {
                let message = "careful".to_owned();
                output.warning(&message);
                report.on_event(&Event::Run(RunEvent::Warning { message }), output)?;
                panic!("no agent 7")
            });
            assert_eq!(status, ExitStatus::Bug);
            assert_eq!(lines.len(), count);
            let last = &lines[count - 1];
            assert_eq!(last["seq"], count);
            assert_eq!(last["outcome"], "failed");
            assert_eq!(last["exit_code"], 70);
            assert_eq!(last["summary"], "massgen crashed: no agent 7");
            assert_eq!(last["warnings"][0], "careful");
        }
    }

    #[test]
    fn an_error_is_reported_with_its_sources() {
        let (_, lines) = report_lines(OutputFormat::Json, |_, _| {
            let disk = std::io::Error::other("the disk is gone");
            let inner = Error::io("cannot read `a`", disk);
            Err(Error::new(ErrorKind::Config, "no team")
                .with_source(inner)
                .with_hint("plug it in"))
        });
        let error = serde_json::json!({
            "message": "no team",
            "caused_by": ["cannot read `a`", "the disk is gone"],
            "hints": ["plug it in"],
        });
        assert_eq!(lines[0]["error"], error);
        assert_eq!(lines[0]["exit_code"], 2);
    }

    #[track_caller]
    fn check(work: impl FnOnce() -> Result<u8>, expected: std::result::Result<u8, &str>) {
        let status = catch_panic(work).map_err(|error| error.to_string());
        assert_eq!(status, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_panic_is_an_error_and_everything_else_is_as_it_was() {
        check(|| Ok(1), Ok(1));
        check(
            || Err(Error::new(ErrorKind::Usage, "typed wrongly")),
            Err("typed wrongly"),
        );
        check(
            || panic!("no agent {}", 7),
            Err("massgen crashed: no agent 7"),
        );
        check(|| panic!("no agent"), Err("massgen crashed: no agent"));
        check(|| std::panic::panic_any(7), Err("massgen crashed"));
    }

    #[test]
    fn a_panic_is_our_bug() {
        let error = catch_panic(|| -> Result<()> { panic!("no agent") }).unwrap_err();
        assert_eq!(error.kind().exit_status(), ExitStatus::Bug);
    }
}
