//! Commands that run, resume, inspect and revert pipelines.

use crate::cli::output::CliOutput;
use crate::cli::pipeline_arguments::PipelineCommand;
use crate::error::{ExitStatus, Result};
use crate::host::Host;

mod branches;
mod lookup;
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
        PipelineCommand::Roles(asked) => roles::show(host, asked, output)?,
        PipelineCommand::Branches(asked) => branches::show(host, asked, output)?,
        PipelineCommand::Log(asked) => log::show(host, asked, output)?,
        PipelineCommand::Revert(asked) => revert::revert(host, asked, output)?,
        PipelineCommand::Reset(asked) => revert::reset(host, asked, output)?,
    }
    Ok(ExitStatus::Delivered)
}
