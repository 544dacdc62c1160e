//! What a run does if only some agents of its team have an API key: without the others, if the user
//! wants that, or not at all.

use tokio_util::sync::CancellationToken;

use crate::cli::args::RunArguments;
use crate::cli::deliveries::interactive_review::TerminalLines;
use crate::cli::interrupts::interrupted_before_run;
use crate::cli::output::CliOutput;
use crate::cli::run_context::connect_agents;
use crate::cli::run_context::connection_error;
use crate::cli::run_frontend::UserPresence;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::id::AgentId;
use crate::spending::models::ModelList;

/// Removes the agents whose key is missing from the team, if there are others and the user wants
/// that. A dry run asks nothing.
///
/// # Errors
/// The user is not there to be asked; the error names the flag. The input ended.
pub(crate) fn settle_missing_keys(
    config: &mut Config,
    (host, models): (&Host, &ModelList),
    arguments: &RunArguments,
    user: UserPresence,
    stop: &CancellationToken,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    if arguments.dry_run && !arguments.skip_missing {
        return Ok(());
    }
    let (usable, failures) = connect_agents(config, models, host)?;
    let is_missing = |(_, error): &(AgentId, Error)| error.kind() == ErrorKind::Environment;
    // The roles of a pipeline need their agents, and so does a review by one agent.
    let is_fixed = config.workflow.is_some() || config.orchestrator.reviewer.is_some();
    let is_partial = !usable.is_empty() && !failures.is_empty() && failures.iter().all(is_missing);
    if is_fixed || !is_partial {
        return Ok(());
    }
    let others = match usable.len() {
        1 => "the 1 agent that has a key".to_owned(),
        count => format!("the {count} agents that have a key"),
    };
    if !arguments.skip_missing {
        if user == UserPresence::Absent {
            let hint = format!("or run with {others}: add `--skip-missing`");
            let error = connection_error(failures).map(|error| error.with_hint(hint));
            return error.map_or(Ok(()), Err);
        }
        for (agent, error) in &failures {
            output.note(&format!("{agent}: {error}"));
        }
        let question = format!("Run with {others}? [Y/n]");
        let answer = TerminalLines::ask_once(stop, &question, output);
        let answer = answer.ok_or_else(interrupted_before_run)?;
        if !matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") {
            return Ok(());
        }
    }
    for (agent, error) in &failures {
        output.warning(&format!("{agent} does not take part: {error}"));
    }
    config.agents.retain(|agent| usable.contains_key(&agent.id));
    Ok(())
}
