//! `massgen init`: writes the config of a first team. On a terminal it asks for what it cannot
//! find; for scripts, flags answer instead.

use tokio_util::sync::CancellationToken;

use crate::cli::args::init::InitArguments;
use crate::cli::command_line::usage_error;
use crate::cli::deliveries::interactive_review::TerminalLines;
use crate::cli::environment::{self, LoadedEnvironment};
use crate::cli::init::candidates::{
    agents_from_flags, choose_default_agents, find_candidates, nothing_found_error,
    second_agent_hint,
};
use crate::cli::init::dialogue::InitDialogue;
use crate::cli::init::directory::{default_directory, parse_directory};
use crate::cli::init::discovery::{find_logins, found_lines};
use crate::cli::init::new_config::{NewConfig, ReplaceApproval};
use crate::cli::output::CliOutput;
use crate::config::draft::first_team::{FirstDirectory, FirstTeam, TeamCandidate};
use crate::error::{ExitStatus, Result};
use crate::host::{Host, StreamTarget};
use crate::permissions::grant::Permission;

mod candidates;
mod dialogue;
mod directory;
mod discovery;
mod new_config;

pub(crate) use crate::cli::init::new_config::first_command;

/// Runs `massgen init`.
pub(crate) fn run(
    host: &Host,
    arguments: &InitArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let is_interactive = !arguments.yes && !arguments.print;
    let is_terminal = host.stdin == StreamTarget::Terminal && host.stderr == StreamTarget::Terminal;
    if is_interactive && !is_terminal {
        return Err(
            usage_error("`massgen init` asks on a terminal, and there is none")
                .with_hint("take what is found: massgen init --yes")
                .with_hint("or name the models: massgen init --yes --model MODEL")
                .with_hint("or only print the config: massgen init --print"),
        );
    }
    let LoadedEnvironment { host, warnings } = environment::load(host);
    for warning in &warnings {
        output.warning(warning);
    }
    if !is_interactive {
        let team = team_from_flags(arguments, &host, output)?;
        let config = NewConfig::new(&team, arguments, &host)?;
        config.show_warnings(output);
        if arguments.print {
            output.result(config.yaml())?;
        } else {
            config.write(&host, ReplaceApproval::from(arguments), output)?;
        }
        if let Some(hint) = second_agent_hint(&team.agents) {
            output.note(&hint);
        }
        return Ok(ExitStatus::Success);
    }
    let mut lines = TerminalLines::new(CancellationToken::new());
    let mut dialogue = InitDialogue {
        output,
        next_line: &mut || lines.next(),
    };
    let team = ask_team(arguments, &host, &mut dialogue)?;
    let config = NewConfig::new(&team, arguments, &host)?;
    dialogue.output.result(config.yaml())?;
    config.show_warnings(dialogue.output);
    let mut approval = ReplaceApproval::from(arguments);
    if approval == ReplaceApproval::Missing && config.exists(&host) {
        let question = format!("`{}` exists. Replace it?", config.path());
        if !dialogue.ask_yes_or_no(&question, false)? {
            dialogue
                .output
                .note("nothing was written; `--output FILE` writes another file");
            return Ok(ExitStatus::Success);
        }
        approval = ReplaceApproval::Given;
    }
    config.write(&host, approval, dialogue.output)?;
    Ok(ExitStatus::Success)
}

/// Returns the team that the flags and the defaults describe, and shows what was found for it.
fn team_from_flags(
    arguments: &InitArguments,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<FirstTeam> {
    let flag_agents = agents_from_flags(arguments, host, output)?;
    let agents = if flag_agents.is_empty() {
        let logins = find_logins(host);
        let candidates = find_candidates(host)?;
        if candidates.is_empty() {
            return Err(nothing_found_error(host, &logins));
        }
        for line in found_lines(&candidates, &logins) {
            output.note(&line);
        }
        choose_default_agents(candidates)?
    } else {
        flag_agents
    };
    let path = match &arguments.path {
        Some(text) => Some(parse_directory(text, host)?),
        None if arguments.no_path => None,
        None => default_directory(host),
    };
    if path.is_none() && arguments.access.is_some() {
        let message = "`--access` needs `--path`: this directory contains your home directory";
        return Err(usage_error(message).with_hint("open the directory of a project"));
    }
    let permission = arguments.access.map_or(Permission::Read, Permission::from);
    Ok(FirstTeam {
        agents,
        directory: path.map(|path| FirstDirectory { path, permission }),
        runs_commands: !arguments.no_commands,
    })
}

/// Returns the team that the user describes. What the flags say is not asked for.
fn ask_team(
    arguments: &InitArguments,
    host: &Host,
    dialogue: &mut InitDialogue<'_, '_>,
) -> Result<FirstTeam> {
    let flag_agents = agents_from_flags(arguments, host, dialogue.output)?;
    let agents = match flag_agents.as_slice() {
        [] => dialogue.ask_agents(host)?,
        [only] if !only.is_program() => dialogue.ask_pair(only)?,
        _ => flag_agents,
    };
    let path = match &arguments.path {
        Some(text) => Some(parse_directory(text, host)?),
        None if arguments.no_path => None,
        None => dialogue.ask_directory(host)?,
    };
    let directory = match (path, arguments.access) {
        (None, _) => None,
        (Some(path), Some(access)) => Some(FirstDirectory {
            path,
            permission: access.into(),
        }),
        (Some(path), None) => Some(FirstDirectory {
            path,
            permission: dialogue.ask_permission()?,
        }),
    };
    // A program runs its own commands, whatever the config says.
    let is_decided =
        arguments.commands || arguments.no_commands || agents.iter().all(TeamCandidate::is_program);
    let runs_commands = if is_decided {
        !arguments.no_commands
    } else {
        dialogue.ask_yes_or_no("May the agents run commands, in a sandbox?", true)?
    };
    Ok(FirstTeam {
        agents,
        directory,
        runs_commands,
    })
}
