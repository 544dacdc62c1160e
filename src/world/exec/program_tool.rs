//! Calls the user's programs that are tools: each call starts the program in the agent's sandbox,
//! with the arguments as JSON on its standard input.

use std::time::Duration;

use serde_json::Value;

use crate::config::custom_tools::ProgramInterface;
use crate::config::servers::{ServerConfig, ServerTransport};
use crate::text::truncate;
use crate::tools::served::ServerCall;
use crate::tools::served::schema_check::argument_error;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::exec::process_report::summary;
use crate::world::exec::server_launch::{ConfinedProgram, confine, working_directory};
use crate::world::exec::tool_result::{
    ActionOutcome, OUTPUT_BYTES_MAX, Observation, ToolError, ToolResult, cannot_run,
};
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits};

/// Longest part of each output of a failed call that a model reads, in characters.
const ERROR_CHARS_MAX: usize = 4000;

/// Runs the program of a permitted call to its end.
pub(super) fn run(
    gate: &Gate,
    config: &ServerConfig,
    environment: &ExecEnvironment,
    call: &ServerCall<ResolvedPath>,
    interrupt: Option<&CommandInterrupt>,
) -> ToolResult {
    let ServerTransport::Program(program) = &config.transport else {
        return Err(ToolError::failed("it is not a program"));
    };
    if let ProgramInterface::SingleTool(tool) = &program.interface
        && let Some(error) = argument_error(&tool.schema, &call.arguments)
    {
        return Err(ToolError::failed(error));
    }
    let dir = working_directory(gate, program, environment).map_err(ToolError::failed)?;
    let permission = config.rules.permission;
    let command = program.command.clone();
    let ConfinedProgram {
        policy,
        network,
        gate,
    } = confine(gate, program, command, environment, &dir, permission)
        .map_err(ToolError::failed)?;
    let sandbox = environment
        .backend()
        .local_sandbox()
        .map_err(|reason| ToolError::failed(format!("tools {reason}")))?;
    let sandbox = sandbox.on_overlay(gate.overlay());
    let wait = CommandWaitLimits {
        time_max: Duration::from_secs(config.call_seconds),
        output_bytes_max: OUTPUT_BYTES_MAX,
        interrupt,
        network: network.as_deref(),
    };
    let request = Value::Object(call.arguments.clone()).to_string();
    let output = sandbox.run_with_bytes(&policy, request.as_bytes(), wait);
    let mut observation = observation(&output.map_err(|error| cannot_run(&error))?);
    if observation.outcome == ActionOutcome::Failed {
        let note = config.closed_network_note(&observation.content);
        observation.content.push_str(note);
    }
    Ok(observation)
}

/// Returns what the model reads: the output of a program that succeeded, or how it ended and what
/// it wrote, standard error first.
fn observation(program_output: &CommandOutput) -> Observation {
    let exit_code = program_output.exit_reason.exit_code();
    let (outcome, content) = if exit_code == Some(0) {
        (ActionOutcome::Done, program_output.stdout.for_model())
    } else {
        let errors = truncate(&program_output.stderr.for_model(), ERROR_CHARS_MAX);
        let output = truncate(&program_output.stdout.for_model(), ERROR_CHARS_MAX);
        let texts = [program_output.exit_reason.to_string(), errors, output];
        let trimmed_texts: Vec<&str> = texts.iter().map(|part| part.trim()).collect();
        let nonempty_texts = trimmed_texts.into_iter().filter(|part| !part.is_empty());
        let content = nonempty_texts.collect::<Vec<_>>().join("\n");
        (ActionOutcome::Failed, content)
    };
    Observation {
        exit_code,
        summary: Some(summary(program_output)),
        ..Observation::new(outcome, content)
    }
}
