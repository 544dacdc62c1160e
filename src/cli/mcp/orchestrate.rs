//! Implements `massgen mcp orchestrate`: the team is read once, and clients may run it. The user
//! decides by the config and the command line; a client only gives a task.

use crate::cli::args::RunArguments;
use crate::cli::args::mcp::OrchestrateArguments;
use crate::cli::environment;
use crate::cli::interrupts::{SHUTDOWN_TIMEOUT, listen, runtime};
use crate::cli::mcp::run_handler::RunHandler;
use crate::cli::mcp::run_registry::{ApplyAuthority, RunRegistry, RunTemplate};
use crate::cli::mcp::transport::McpTransport;
use crate::cli::model_prices::model_list;
use crate::cli::output::CliOutput;
use crate::cli::run_context::connect_all;
use crate::cli::run_flags::telemetry_settings;
use crate::cli::team::{ChosenTeam, load_config};
use crate::cli::team_file::TeamFile;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::text::count_noun;
use crate::world::mcp::tool_server::ToolServer;

/// Serves runs until the client or the user ends it; then stops active runs gracefully.
pub(crate) fn serve_runs(
    host: &Host,
    arguments: &OrchestrateArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let transport = McpTransport::from_arguments(&arguments.transport, host)?;
    let template = run_template(host, arguments, output)?;
    let agents = count_noun(template.team.config.agents.len(), "agent");
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let stop = listen(host.hangup)?;
        output.set_stop(&stop);
        let runs = RunRegistry::new(template, arguments.parallel, stop.clone());
        let tools = ToolServer::new(RunHandler::new(runs.clone()));
        let offer = format!("runs of {agents}");
        let result = transport.serve(tools, &offer, &stop, output).await;
        stop.graceful.cancel();
        tokio::select! {
            () = runs.end() => {}
            () = stop.immediate.cancelled() => {}
        }
        result
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result.map(|()| ExitStatus::Success)
}

/// Prepares the template of every run. A missing key is reported now, not to the first client.
fn run_template(
    host: &Host,
    arguments: &OrchestrateArguments,
    output: &mut CliOutput<'_>,
) -> Result<RunTemplate> {
    let telemetry = telemetry_settings(host, output);
    let loaded_environment = environment::load(host);
    for warning in &loaded_environment.warnings {
        output.warning(warning);
    }
    let host = loaded_environment.host;
    let file = TeamFile::find(&arguments.config, &host)?;
    let config = load_config(&file, &host, output)?;
    if config.session_id.is_some() {
        output.warning("`session_id` is ignored here: each run starts a new session");
    }
    let models = model_list(&host, arguments.models.as_deref(), output)?;
    drop(connect_all(&config, &models, &host)?);
    Ok(RunTemplate {
        host,
        team: ChosenTeam {
            config,
            file: Some(file),
        },
        models,
        telemetry,
        arguments: RunArguments {
            approval_socket: arguments.approval_socket.clone(),
            ..RunArguments::default()
        },
        apply_authority: if arguments.allow_apply {
            ApplyAuthority::Callers
        } else {
            ApplyAuthority::Config
        },
    })
}
