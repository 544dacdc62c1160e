//! Resumes an interrupted run from the command line: the same team, task and paths, from its last
//! recorded event. What has changed since is reported. The records may have come with the project,
//! so flags that reach outside it, or weaken the isolation of commands, must be typed again.

use std::sync::Arc;

use crate::cli::args::RunArguments;
use crate::cli::continued_session::{default_sessions, filter_open_paths, requested_session};
use crate::cli::environment;
use crate::cli::execution::execute_and_show;
use crate::cli::model_prices::model_list;
use crate::cli::output::CliOutput;
use crate::cli::run_context::{RunTeam, connect_agents, run_context, secret_values};
use crate::cli::run_flags::{apply_flags, open_cwd, telemetry_settings, with_implied_review};
use crate::cli::run_frontend::{OutputMode, RunFrontend, RunOutcome};
use crate::cli::team::{ChosenTeam, choose_team, load_config};
use crate::cli::team_file::TeamFile;
use crate::config::recorded::recorded_config;
use crate::config::storage_path::{LOGS, STATE_DIR};
use crate::config::team::WorkspaceMode;
use crate::config::{AgentConfig, Config};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::layout::RunLayout;
use crate::orchestrator::execution::{RunRequest, ShutdownSignal};
use crate::path::AbsPath;
use crate::resume::{InterruptedRun, ResumeState};
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;
use crate::spending::models::ModelList;
use crate::text::{count_noun, shell_line};
use crate::world::store::naming::LAST;
use crate::world::store::records::metadata::{ReplayManifest, RunMetadata};
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::session::Session;
use crate::world::store::sessions::{find, list};

/// Returns the run that `arguments` would resume: the last one of the selected session, if it was
/// interrupted.
pub(crate) fn find_interrupted_run(
    arguments: &RunArguments,
    host: &Host,
) -> Result<Option<InterruptedRun>> {
    let sessions = default_sessions(host);
    let session_id = match requested_session(&arguments.session) {
        None => return Ok(None),
        Some(LAST) => None,
        Some(name) => Some(find(name, &sessions)?.id()),
    };
    let logs = host.state_parent.join(STATE_DIR).join(LOGS);
    let is_there = |session: &str| find(session, &sessions).is_ok();
    crate::resume::find_interrupted(&logs, session_id.as_deref(), is_there)
}

/// Returns the id of the session that `arguments` select if one of its turns is running; for
/// `last`, only the session used last is checked.
pub(crate) fn find_running_session(
    arguments: &RunArguments,
    host: &Host,
) -> Result<Option<String>> {
    let sessions = default_sessions(host);
    let session = match requested_session(&arguments.session) {
        None => None,
        Some(LAST) => list(&sessions)?.into_iter().next(),
        Some(name) => Some(find(name, &sessions)?),
    };
    match session {
        Some(session) if session.is_running()? => Ok(Some(session.id())),
        Some(_) | None => Ok(None),
    }
}

/// Resumes `interrupted_run` and shows it.
pub(crate) async fn resume(
    interrupted_run: InterruptedRun,
    host: &Host,
    arguments: &RunArguments,
    stop: ShutdownSignal,
    output: &mut CliOutput<'_>,
    report: Option<&mut dyn RunFrontend>,
) -> Result<RunOutcome> {
    let arguments = arguments.with_recorded(&interrupted_run.metadata.cli_args)?;
    let arguments = &with_implied_review(arguments, host);
    let request = resumed_request(&interrupted_run, host, arguments, output).await?;
    let mode = OutputMode::new(host, report);
    Box::pin(execute_and_show(request, arguments, stop, output, mode)).await
}

async fn resumed_request(
    interrupted_run: &InterruptedRun,
    host: &Host,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
) -> Result<RunRequest> {
    let run = &interrupted_run.run;
    let telemetry = telemetry_settings(host, output);
    let loaded_environment = environment::load(host);
    let host = loaded_environment.host;
    let warnings = loaded_environment.warnings.iter();
    warnings.for_each(|warning| output.warning(warning));
    let manifest = run.manifest()?;
    require_same_directory(&manifest, &host)?;
    let models = model_list(&host, arguments.models.as_deref(), output)?;
    let chosen_team = choose_resumed_team(
        interrupted_run,
        &manifest,
        &host,
        arguments,
        &models,
        output,
    )
    .await?;
    let team = RunTeam {
        host,
        config: chosen_team.config,
        file: chosen_team.file,
        other_files: Vec::new(),
        models,
        telemetry,
    };
    resume_with_team(interrupted_run, team, arguments, output)
}

/// Builds the request that resumes `interrupted_run` with `team`, to which the flags in `arguments`
/// are applied.
///
/// # Errors
/// The run cannot be resumed here, or the team differs from that of the run.
pub(crate) fn resume_with_team(
    interrupted_run: &InterruptedRun,
    mut team: RunTeam,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
) -> Result<RunRequest> {
    let manifest = interrupted_run.run.manifest()?;
    require_same_directory(&manifest, &team.host)?;
    apply_flags(&mut team.config, arguments, output)?;
    if let Some(access) = arguments.cwd_context {
        open_cwd(&mut team.config, &team.host, access.into());
    }
    if arguments.config.is_none() {
        let redactor = Redactor::new(secret_values(&team.config, &team.host));
        require_same_config(team.file.as_ref(), &interrupted_run.metadata, &redactor)?;
    }
    build_resumed_request(interrupted_run, manifest, team, arguments, output)
}

/// Builds the request that resumes `interrupted_run`, which began with `manifest`, with `team`.
///
/// # Errors
/// The run cannot be resumed, or the team differs from that of the run.
pub(crate) fn build_resumed_request(
    interrupted_run: &InterruptedRun,
    manifest: ReplayManifest,
    team: RunTeam,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
) -> Result<RunRequest> {
    let redactor = Redactor::new(secret_values(&team.config, &team.host));
    let team = without_skipped_agents(team, &manifest)?;
    require_same_team(&team.config, &manifest, &redactor)?;
    let mut resume_state = ResumeState::read(&interrupted_run.run)?;
    let layout = RunLayout::plan(&team.config, &team.host.state_parent, resume_state.name);
    require_same_workspaces(&layout, &manifest)?;
    let (opened, warnings) = filter_open_paths(&manifest.opened, &team.host)?;
    for warning in &warnings {
        output.warning(warning);
    }
    let session_dir = find(&interrupted_run.metadata.session_id, &layout.sessions)?;
    let context = run_context(&team, opened, arguments)?;
    let mut session = Session::resume_turn(session_dir, interrupted_run.turn, redactor)?;
    resume_state.discard_end(&mut session)?;
    note_resumption(&resume_state, interrupted_run, output);
    let question = Arc::from(manifest.task.as_str());
    let mut request = RunRequest::new(context, team.config, layout, manifest.task, question);
    resume_state.resume_in(&mut request, session);
    Ok(request)
}

fn note_resumption(
    resume_state: &ResumeState,
    interrupted_run: &InterruptedRun,
    output: &mut CliOutput<'_>,
) {
    if let Some(reason) = &resume_state.truncation_reason {
        output.warning(&format!(
            "{reason} in the event log: resuming from the event before it"
        ));
    }
    let InterruptedRun {
        run,
        metadata,
        turn,
        ..
    } = interrupted_run;
    output.note(&format!(
        "resuming {}, turn {turn} of {}, after {}",
        run.name(),
        metadata.session_id,
        count_noun(resume_state.resumed_turn.events.len(), "recorded event")
    ));
}

/// Returns the command that resumes a run with these arguments, with the flags that may have to be
/// typed again.
pub(crate) fn resume_command_line(arguments: &RunArguments) -> String {
    let sandbox = arguments.sandbox.map(|choice| match choice {
        SandboxLevelChoice::Auto => "auto".to_owned(),
        SandboxLevelChoice::Only(level) => level.to_string(),
    });
    let flags = [
        ("--config", arguments.config.clone()),
        ("--base-url", arguments.base_url.clone()),
        ("--sandbox", sandbox),
    ];
    let flag_words = flags
        .into_iter()
        .filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
    let settings = arguments.set.iter();
    let settings = settings.map(|setting| ["--set".to_owned(), setting.text()]);
    let words: Vec<String> = ["massgen", "--continue"]
        .map(str::to_owned)
        .into_iter()
        .chain(flag_words.chain(settings).flatten())
        .collect();
    shell_line(&words)
}

/// Chooses the team of the run: from the config that is named now, or else from the run's config.
async fn choose_resumed_team(
    interrupted_run: &InterruptedRun,
    manifest: &ReplayManifest,
    host: &Host,
    arguments: &RunArguments,
    models: &ModelList,
    output: &mut CliOutput<'_>,
) -> Result<ChosenTeam> {
    let workspaces = if manifest.workspaces.is_empty() {
        WorkspaceMode::None
    } else {
        WorkspaceMode::PerAgent
    };
    match (&interrupted_run.metadata.config_path, &arguments.config) {
        (Some(path), None) => {
            let file = TeamFile::from_session(path, host)?.with_settings(&arguments.set);
            Ok(ChosenTeam {
                config: load_config(&file, host, output)?,
                file: Some(file),
            })
        }
        (_, Some(_)) | (None, None) => {
            choose_team(host, arguments, None, workspaces, models, output).await
        }
    }
}

/// Requires the directory in which the run began, because models have read its paths.
fn require_same_directory(manifest: &ReplayManifest, host: &Host) -> Result<()> {
    if manifest.cwd == host.cwd.to_string() {
        return Ok(());
    }
    let message = format!(
        "the run was started in `{}`, not in this directory",
        manifest.cwd
    );
    Err(Error::new(ErrorKind::Environment, message).with_hint(format!(
        "resume it there: cd '{}'; if the project was moved, move it back or start the task again",
        manifest.cwd
    )))
}

/// Requires an unchanged config; a different one must be named with `--config`.
fn require_same_config(
    file: Option<&TeamFile>,
    metadata: &RunMetadata,
    redactor: &Redactor,
) -> Result<()> {
    let text = file.map(|file| redactor.text(&file.text()));
    if text == metadata.config {
        return Ok(());
    }
    let message = match file {
        Some(file) => format!("config `{}` has changed since the run started", file.name()),
        None => "the team differs from that of the run".to_owned(),
    };
    Err(Error::new(ErrorKind::Config, message)
        .with_hint("restore it, or name the config to use with `--config`")
        .with_hint("values of `--set` have to be given again"))
}

/// Requires the agents of the run, because their answers and votes are recorded.
fn require_same_team(
    config: &Config,
    manifest: &ReplayManifest,
    redactor: &Redactor,
) -> Result<()> {
    if agent_ids(&redactor.json(recorded_config(config))) == agent_ids(&manifest.team) {
        return Ok(());
    }
    let message = "the config has other agents than the run";
    Err(Error::new(ErrorKind::Config, message)
        .with_hint("use a config with the same agents, or start the task again"))
}

/// Returns the ids of the agents of a recorded team.
fn agent_ids(team: &serde_json::Value) -> Option<Vec<String>> {
    let agents = team.get("agents")?.as_array()?.iter();
    agents
        .map(|agent| Some(agent.get("id")?.as_str()?.to_owned()))
        .collect()
}

/// Returns the team without the agents that the run was started without because they have no key.
fn without_skipped_agents(mut team: RunTeam, manifest: &ReplayManifest) -> Result<RunTeam> {
    let recorded_ids = agent_ids(&manifest.team).unwrap_or_default();
    let is_recorded = |agent: &AgentConfig| recorded_ids.iter().any(|id| id == agent.id.as_str());
    if team.config.agents.iter().all(is_recorded) {
        return Ok(team);
    }
    let (_, failures) = connect_agents(&team.config, &team.models, &team.host)?;
    let fails = |agent: &AgentConfig| failures.iter().any(|(id, _)| *id == agent.id);
    let agents = &mut team.config.agents;
    agents.retain(|agent| is_recorded(agent) || !fails(agent));
    Ok(team)
}

/// Requires the workspaces of the run, because they hold its files.
fn require_same_workspaces(layout: &RunLayout, manifest: &ReplayManifest) -> Result<()> {
    let written_path = |paths: &[String]| paths.first().and_then(AbsPath::new);
    for (agent, paths) in &manifest.workspaces {
        let workspace = layout
            .workspaces
            .get(agent)
            .map(|workspace| workspace.path.clone());
        if written_path(paths) != workspace {
            let message = format!("the config gives {agent} a different workspace than the run");
            return Err(Error::new(ErrorKind::Config, message)
                .with_hint("restore its `cwd`, or start the task again"));
        }
    }
    Ok(())
}
