//! Commands that run, resume, inspect and revert pipelines.

use crate::cli::args::pipeline::PipelineCommand;
use crate::cli::output::CliOutput;
use crate::error::{ExitStatus, Result};
use crate::host::Host;

mod branches;
mod log;
pub(crate) mod roles;
pub(crate) mod run;
mod revert;

/// Runs a command about a pipeline.
pub(crate) fn run_command(
    host: &Host,
    command: &PipelineCommand,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    match command {
        PipelineCommand::Roles(arguments) => roles::show(host, arguments, output)?,
        PipelineCommand::Branches(arguments) => branches::show(host, arguments, output)?,
        PipelineCommand::Log(arguments) => log::show(host, arguments, output)?,
        PipelineCommand::Revert(arguments) => revert::revert(host, arguments, output)?,
        PipelineCommand::Reset(arguments) => revert::reset(host, arguments, output)?,
    }
    Ok(ExitStatus::Success)
}
