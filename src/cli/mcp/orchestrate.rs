//! Owns `massgen mcp orchestrate`: the team is read once, and whoever comes may let it run. The user
//! decides by the config and the command line; a caller gives a task.

use crate::cli::args::RunArguments;
use crate::cli::conduct::connect_all;
use crate::cli::environment;
use crate::cli::interrupts::listen;
use crate::cli::mcp::conductor::Conductor;
use crate::cli::mcp::runs::{Applying, Ground, Runs};
use crate::cli::mcp::way::Way;
use crate::cli::mcp_arguments::OrchestrateArguments;
use crate::cli::output::Output;
use crate::cli::prices::model_list;
use crate::cli::run::{CALLS_END_MAX, runtime, telemetry};
use crate::cli::team::{ChosenTeam, checked};
use crate::cli::team_file::TeamFile;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::wording::counted;

/// Offers runs until the client or the user ends it; what goes on then ends in order.
pub(crate) fn orchestrate(
    host: &Host,
    asked: &OrchestrateArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let way = Way::of(&asked.way, host)?;
    let ground = ground(host, asked, output)?;
    let agents = counted(ground.team.config.agents.len(), "agent");
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let stop = listen(host.hangup)?;
        let runs = Runs::new(ground, asked.parallel, stop.clone());
        let conductor = Conductor::new(runs.clone());
        let what = format!("runs of {agents}");
        let served = way.serve((&conductor, &what), &stop, output).await;
        stop.soon.cancel();
        tokio::select! {
            () = runs.end() => {}
            () = stop.at_once.cancelled() => {}
        }
        served
    });
    runtime.shutdown_timeout(CALLS_END_MAX);
    served.map(|()| ExitStatus::Delivered)
}

/// What every run is made from. A key that is missing is told now, and not to the first caller.
fn ground(host: &Host, asked: &OrchestrateArguments, output: &mut Output<'_>) -> Result<Ground> {
    let telemetry = telemetry(host, output);
    let completed = environment::complete(host);
    for warning in &completed.warnings {
        output.warning(warning);
    }
    let host = completed.host;
    let file = TeamFile::named(&asked.config, &host)?;
    let config = checked(&file, &host, output)?;
    if config.session_id.is_some() {
        output.warning("`session_id` does not count here: each run begins a session of its own");
    }
    let models = model_list(&host, asked.models.as_deref(), output)?;
    drop(connect_all(&config, &models, &host)?);
    Ok(Ground {
        host,
        team: ChosenTeam {
            config,
            file: Some(file),
        },
        models,
        telemetry,
        arguments: RunArguments {
            ask_file: asked.ask_file.clone(),
            ..RunArguments::default()
        },
        applying: if asked.allow_apply {
            Applying::ByCallers
        } else {
            Applying::AsDelivered
        },
    })
}
