//! State of a session between its turns: the team, the open paths, and the session on disk.
//! Prepares each turn from it, as the command line prepares a single run.

use tokio_util::sync::CancellationToken;

use crate::cli::args::RunArguments;
use crate::cli::broad_paths::{reject_broad_cwd, reject_broad_mentions};
use crate::cli::command_line::usage_error;
use crate::cli::continued_session::{ContinuedSession, requested_session};
use crate::cli::directory_question::{directory_breadth_reason, needs_directory_question};
use crate::cli::editor::choices::CommandValue;
use crate::cli::logs::find_run;
use crate::cli::logs::run_summary::RecordedRunSummary;
use crate::cli::missing_keys::settle_missing_keys;
use crate::cli::model_prices::model_list;
use crate::cli::models::obstacle;
use crate::cli::opening_question::confirm_openings;
use crate::cli::output::CliOutput;
use crate::cli::resume::find_interrupted_run;
use crate::cli::run::reject_broad_mention;
use crate::cli::run_context::{PreparedRun, RunTeam, connect_all};
use crate::cli::run_flags::apply_flags;
use crate::cli::run_flags::telemetry_settings;
use crate::cli::run_frontend::RunOutcome;
use crate::cli::run_frontend::UserPresence;
use crate::cli::team::{ChosenTeam, choose_team, configured_team, require_detectable_team};
use crate::cli::{environment, mentions};
use crate::config::model_family::{foreign_model_warning, misspelling_warning};
use crate::config::storage_path::{SESSIONS, StoragePath};
use crate::config::team::WorkspaceMode;
use crate::config::{AgentConfig, Config, ContextPath};
use crate::error::Result;
use crate::host::Host;
use crate::mentions::TaskText;
use crate::mentions::opened_paths::{OpenedPath, open_mentions, open_path};
use crate::orchestrator::approvals::SessionApprovals;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::spending::models::{KnownModel, ModelList};
use crate::spending::money::Money;
use crate::text::{count_noun, join_with_commas, single_line};
use crate::world::diagnostics::telemetry::settings::TelemetrySettings;
use crate::world::store::sandboxes::SessionSandboxes;
use crate::world::store::sessions::{self, OpenSession, SessionDir, find};

/// Maximum length of the task of a session that is offered, in characters.
const TASK_CHARS_MAX: usize = 60;
/// Maximum number of sessions that are offered.
const VALUES_MAX: usize = 50;

/// State of a session between its turns.
#[derive(Debug)]
pub(crate) struct SessionState {
    /// The process, and the variables of `.env` files.
    pub(crate) host: Host,
    arguments: RunArguments,
    telemetry: Option<TelemetrySettings>,
    /// The known models with their prices; the list is read again before each turn.
    models: ModelList,
    /// The approvals that the user gave.
    approvals: SessionApprovals,
    /// The directories of the commands of the last turn.
    session_sandboxes: SessionSandboxes,
    /// The team; one that is built from keys and local servers is known from the first turn on.
    team: Option<ChosenTeam>,
    /// The paths that the prompts of the session have opened.
    opened_paths: Vec<OpenedPath>,
    /// Paths added by the user that the records of a session cannot hold.
    added_paths: Vec<ContextPath>,
    /// The session, once a turn was saved in it.
    session: Option<SessionDir>,
    /// Keeps the session from being removed between two turns.
    session_lock: Option<OpenSession>,
    /// The name of the last run's log, if there was one.
    last_run: Option<String>,
    /// Whether the user keeps the current directory closed, which the session does not record yet.
    is_directory_declined: bool,
}

/// A path that is open to agents, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenPath {
    pub(crate) path: AbsPath,
    /// The permission of the final agent.
    pub(crate) permission: Permission,
    pub(crate) origin: OpenPathOrigin,
}

/// Origin of an open path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenPathOrigin {
    /// A prompt, or an answer before it: the turn, from 1.
    Turn(u32),
    /// The user, for as long as massgen runs.
    Session,
    /// The config.
    Config,
}

impl SessionState {
    /// Finds the team and the session that the command line selects, without asking the user. A
    /// server is asked only for its models, where the command line names its URL and no model.
    pub(crate) async fn open(
        host: &Host,
        arguments: &RunArguments,
        output: &mut CliOutput<'_>,
    ) -> Result<Self> {
        let telemetry = telemetry_settings(host, output);
        let loaded_environment = environment::load(host);
        for warning in &loaded_environment.warnings {
            output.warning(warning);
        }
        let host = loaded_environment.host;
        let mut state = Self {
            models: model_list(&host, arguments.models.as_deref(), output)?,
            host,
            arguments: arguments.clone(),
            telemetry,
            approvals: SessionApprovals::default(),
            session_sandboxes: SessionSandboxes::default(),
            team: None,
            opened_paths: Vec::new(),
            added_paths: Vec::new(),
            session: None,
            session_lock: None,
            last_run: None,
            is_directory_declined: false,
        };
        state.find_team_and_session(output).await?;
        Ok(state)
    }

    /// Asks about agents whose key is missing.
    pub(crate) fn settle_missing_keys(&mut self, output: &mut CliOutput<'_>) -> Result<()> {
        let Some(team) = &mut self.team else {
            return Ok(());
        };
        let (parts, user) = ((&self.host, &self.models), UserPresence::Present);
        let stop = CancellationToken::new();
        settle_missing_keys(
            &mut team.config,
            parts,
            &self.arguments,
            user,
            &stop,
            output,
        )
    }

    /// Checks that every model of the team can be used, or without a config that there is one. A
    /// user without any reads what to do before the first question, not after the first prompt.
    pub(crate) async fn require_model(&self) -> Result<()> {
        let Some(team) = &self.team else {
            return require_detectable_team(&self.host).await;
        };
        connect_all(&team.config, &self.models, &self.host).map(drop)
    }

    async fn find_team_and_session(&mut self, output: &mut CliOutput<'_>) -> Result<()> {
        let (host, arguments) = (&self.host, &self.arguments);
        let interrupted_session =
            find_interrupted_run(arguments, host)?.map(|run| run.metadata.session_id);
        let session_name = interrupted_session
            .as_deref()
            .or(requested_session(&arguments.session));
        let continued = match (session_name, &arguments.config) {
            (Some(session_name), None) => {
                Some(ContinuedSession::find_without_config(session_name, host)?)
            }
            (_, Some(_)) | (None, None) => None,
        };
        let remembered_team = continued
            .as_ref()
            .map(|continued| continued.team_file(host))
            .transpose()?
            .flatten();
        let mode = WorkspaceMode::PerAgent;
        let models = &self.models;
        let team = configured_team(host, arguments, remembered_team, mode, models, output);
        let mut team = team.await?;
        if let Some(team) = &mut team {
            if team.config.workflow.is_some() {
                return Err(
                    usage_error("a pipeline needs a task and has no interactive prompt")
                        .with_hint("pass the task: massgen --config FILE \"…\"")
                        .with_hint("or resume the last one: massgen --continue"),
                );
            }
            apply_flags(&mut team.config, arguments, output)?;
        }
        self.team = team;
        let continued = match (session_name, continued) {
            (Some(session_name), None) => {
                Some(ContinuedSession::find(session_name, &self.sessions())?)
            }
            (_, continued) => continued,
        };
        if let Some(continued) = continued {
            self.continue_session(continued, output)?;
        }
        if let Some(access) = self.arguments.cwd_context {
            let config = self.config();
            let context_paths = config.map(|config| config.orchestrator.context_paths.as_slice());
            reject_broad_cwd(access.into(), context_paths.unwrap_or_default(), &self.host)?;
            let (cwd, turn) = (self.host.cwd.clone(), self.turn()?);
            open_path(&mut self.opened_paths, &cwd, access.into(), turn);
        }
        Ok(())
    }

    /// Continues a session: the paths that its prompts opened are open again.
    fn continue_session(
        &mut self,
        continued: ContinuedSession,
        output: &mut CliOutput<'_>,
    ) -> Result<()> {
        let (opened_paths, warnings) = continued.opened_paths(&self.host)?;
        for warning in warnings {
            output.warning(&warning);
        }
        self.opened_paths = opened_paths;
        self.last_run = continued.last_run();
        self.session_sandboxes = SessionSandboxes::default();
        self.set_session(Some(continued.session_dir));
        Ok(())
    }

    fn set_session(&mut self, session: Option<SessionDir>) {
        self.session_lock = session.as_ref().and_then(SessionDir::open);
        self.session = session;
    }

    /// Begins a new session with a warning if the current one was removed. Open paths stay open.
    fn recover_missing_session(&mut self, output: &mut CliOutput<'_>) {
        let is_gone = |session: &mut SessionDir| matches!(session.exists(), Ok(false));
        if let Some(session) = self.session.take_if(is_gone) {
            self.session_lock = None;
            self.session_sandboxes = SessionSandboxes::default();
            output.warning(&format!(
                "the session {} was removed: starting a new one without its turns",
                session.id()
            ));
        }
    }

    /// Continues the session `name`.
    pub(crate) fn resume(&mut self, name: &str, output: &mut CliOutput<'_>) -> Result<()> {
        let continued = ContinuedSession::find(name, &self.sessions())?;
        self.added_paths.clear();
        self.continue_session(continued, output)
    }

    /// Begins a new session, in which only the config's paths are open.
    pub(crate) fn reset(&mut self) {
        self.set_session(None);
        self.session_sandboxes = SessionSandboxes::default();
        self.last_run = None;
        self.opened_paths.clear();
        self.added_paths.clear();
    }

    /// Returns the config of the team, if it is known already.
    pub(crate) fn config(&self) -> Option<&Config> {
        self.team.as_ref().map(|team| &team.config)
    }

    /// Returns the agents of the team with their models; of one that is named like its model only
    /// the name.
    pub(crate) fn team_text(&self) -> String {
        let agents = self.config().into_iter().flat_map(|config| &config.agents);
        let text = |agent: &AgentConfig| match agent_model(agent) {
            Some(model) if model != agent.id.as_str() => format!("{} ({model})", agent.id),
            Some(_) | None => agent.id.to_string(),
        };
        agents.map(text).collect::<Vec<_>>().join(", ")
    }

    /// Returns the agents of the team, and the models that can be used now.
    pub(crate) fn model_values(&self) -> Vec<CommandValue> {
        let variables = self.host.config_variables();
        let agents = self.config().into_iter().flat_map(|config| &config.agents);
        let agents = agents.map(|agent| (agent.id.to_string(), "agent".to_owned()));
        let is_usable = |row: &&KnownModel| obstacle(row, &variables).is_none();
        let models = self.models.rows().iter().filter(is_usable);
        let models = models.map(|row| (row.name.clone(), row.vendor.clone().unwrap_or_default()));
        agents.chain(models).collect()
    }

    /// Returns how many turns the session has and what they used, as far as it was recorded.
    pub(crate) fn session_usage(&self) -> Option<String> {
        let turns = self.session.as_ref()?.turns().ok()?;
        let (mut cost, mut tokens) = (Money::ZERO, 0_u64);
        for turn in &turns {
            let Ok(run) = find_run(&turn.metadata.log_dir.name_lossy(), &self.host) else {
                continue;
            };
            let status = run.state().ok().and_then(|state| state.status_file);
            let summary = RecordedRunSummary::read(&run, status.as_ref());
            cost = cost.saturating_add(summary.cost_usd.unwrap_or_default());
            tokens = tokens
                .saturating_add(summary.input_tokens)
                .saturating_add(summary.output_tokens);
        }
        let turns = count_noun(turns.len(), "turn");
        let facts = [
            (tokens > 0).then(|| format!("{tokens} tokens")),
            (cost > Money::ZERO).then(|| format!("${}", cost.round_up())),
        ];
        let facts = facts.into_iter().flatten();
        Some(
            std::iter::once(turns)
                .chain(facts)
                .collect::<Vec<_>>()
                .join(", "),
        )
    }

    /// Returns a line for each agent of the team with its model; none while the team is unknown.
    pub(crate) fn model_lines(&self) -> Vec<String> {
        let agents = self.config().into_iter().flat_map(|config| &config.agents);
        let line = |agent: &AgentConfig| {
            let model = agent_model(agent).unwrap_or("of its own choice");
            format!("  {}: {model} ({})", agent.id, agent.backend.vendor.name)
        };
        agents.map(line).collect()
    }

    /// Changes the model of the agent `agent`, or of all agents, from the next turn on. The type of
    /// the backend stays; the warnings are about backends that have no such model.
    ///
    /// # Errors
    /// There is no such agent, the team is unknown, or one of the agents is a program.
    pub(crate) fn set_model(&mut self, agent: Option<&str>, model: &str) -> Result<Vec<String>> {
        let team = self.team.as_mut().ok_or_else(|| {
            usage_error("the team is created at the first prompt")
                .with_hint("to choose its models, start massgen with `--model NAME`")
        })?;
        let ids: Vec<_> = team.config.agents.iter().map(|agent| &agent.id).collect();
        let agent_names = join_with_commas(&ids);
        let is_meant =
            |config: &&mut AgentConfig| agent.is_none_or(|agent| config.id.as_str() == agent);
        let selected_agents: Vec<&mut AgentConfig> =
            team.config.agents.iter_mut().filter(is_meant).collect();
        if selected_agents.is_empty() {
            let name = agent.unwrap_or_default();
            return Err(usage_error(format!("no agent is named `{name}`"))
                .with_hint(format!("agents: {agent_names}")));
        }
        if let Some(program) = selected_agents
            .iter()
            .find(|agent| agent.backend.external_agent.is_some())
        {
            let message = format!(
                "the model of the program `{}` is set in the config",
                program.id
            );
            return Err(usage_error(message).with_hint("name another agent: /model AGENT NAME"));
        }
        let variables = self.host.config_variables();
        let mut warnings: Vec<String> = Vec::new();
        for agent in selected_agents {
            model.clone_into(&mut agent.backend.model);
            let warning = foreign_model_warning(&agent.backend, &variables)
                .or_else(|| misspelling_warning(&agent.backend, &variables, &self.models));
            warnings.extend(warning.filter(|warning| !warnings.contains(warning)));
        }
        Ok(warnings)
    }

    /// Returns the config's name for the user and its text, if there is one.
    pub(crate) fn config_file(&self) -> Option<(String, String)> {
        let file = self.team.as_ref()?.file.as_ref()?;
        Some((file.name().to_owned(), file.text()))
    }

    /// Returns the id of the session, once it has a turn.
    pub(crate) fn session_id(&self) -> Option<String> {
        self.session.as_ref().map(SessionDir::id)
    }

    /// Returns the number of the next turn, from 1.
    pub(crate) fn turn(&self) -> Result<u32> {
        self.session.as_ref().map_or(Ok(1), SessionDir::next_turn)
    }

    /// Returns the name of the last run's log.
    pub(crate) fn last_run(&self) -> Option<&str> {
        self.last_run.as_deref()
    }

    /// Returns whether to ask about opening the current directory. It is not offered if it is more
    /// than a project.
    pub(crate) fn needs_directory_question(&self) -> bool {
        let cwd = &self.host.cwd;
        let config_asks =
            |config: &Config| needs_directory_question(config, &self.opened_paths, cwd);
        // A team that is built from keys and local servers has files.
        let asks = self
            .config()
            .map_or_else(|| self.opened_paths.is_empty(), config_asks);
        let has_declined = |session: &SessionDir| session.is_directory_declined(cwd);
        asks && directory_breadth_reason(cwd, &self.host).is_none()
            && !self.session.as_ref().is_some_and(has_declined)
    }

    /// Keeps the current directory closed; the session remembers that from its next turn on.
    pub(crate) fn decline_directory(&mut self) {
        self.is_directory_declined = true;
    }

    /// Opens a path that the user added. One with protected paths is not saved with the session,
    /// because its records cannot hold them.
    pub(crate) fn open_context_path(&mut self, context: ContextPath) -> Result<()> {
        let turn = self.turn()?;
        if context.protected.is_empty() {
            open_path(
                &mut self.opened_paths,
                &context.path,
                context.permission,
                turn,
            );
        } else {
            self.added_paths.push(context);
        }
        Ok(())
    }

    /// Returns all open paths, first those that can be closed.
    pub(crate) fn open_paths(&self) -> Vec<OpenPath> {
        let turn_paths = self.opened_paths.iter().map(|opened| OpenPath {
            path: opened.path.clone(),
            permission: opened.permission,
            origin: OpenPathOrigin::Turn(opened.turn),
        });
        let open_path_from = |origin| {
            move |context: &ContextPath| OpenPath {
                path: context.path.clone(),
                permission: context.permission,
                origin,
            }
        };
        let session_paths = self
            .added_paths
            .iter()
            .map(open_path_from(OpenPathOrigin::Session));
        let config = self
            .config()
            .map(|config| config.orchestrator.context_paths.as_slice());
        let config_paths = config
            .unwrap_or_default()
            .iter()
            .map(open_path_from(OpenPathOrigin::Config));
        turn_paths
            .chain(session_paths)
            .chain(config_paths)
            .collect()
    }

    /// Closes the path at index `index` of [`SessionState::open_paths`]; `None` if the config
    /// opened it or there is no such path.
    pub(crate) fn close_path(&mut self, index: usize) -> Option<AbsPath> {
        if index < self.opened_paths.len() {
            return Some(self.opened_paths.remove(index).path);
        }
        let index = index.checked_sub(self.opened_paths.len())?;
        (index < self.added_paths.len()).then(|| self.added_paths.remove(index).path)
    }

    /// Prepares a turn with the typed prompt.
    pub(crate) async fn prepare(
        &mut self,
        text: &str,
        stop: &CancellationToken,
        output: &mut CliOutput<'_>,
    ) -> Result<PreparedRun> {
        let prompt = mentions::parse(&TaskText::from_typed(text), &self.host.cwd, &self.host);
        for warning in mentions::mention_warnings(&prompt) {
            output.warning(&warning);
        }
        reject_broad_mention(&prompt)?;
        self.recover_missing_session(output);
        self.models = model_list(&self.host, self.arguments.models.as_deref(), output)?;
        let team = self.team(output).await?;
        let context_paths = &team.config.orchestrator.context_paths;
        reject_broad_mentions(&prompt, context_paths, &self.host)?;
        let mut opened = self.opened_paths.clone();
        open_mentions(&mut opened, &prompt, self.turn()?);
        let mut config = team.config;
        let listed_count = config.orchestrator.context_paths.len();
        let added_paths = self.added_paths.iter().cloned();
        config.orchestrator.context_paths.extend(added_paths);
        let user = UserPresence::detect(&self.host);
        confirm_openings(&mut config, &mut opened, &self.host, user, stop, output)?;
        self.opened_paths = opened;
        // What the user has confirmed about the config holds for the session.
        if let Some(team) = &mut self.team {
            team.config.clone_from(&config);
            let listed_paths = &mut team.config.orchestrator.context_paths;
            listed_paths.truncate(listed_count);
        }
        Ok(PreparedRun {
            team: RunTeam {
                host: self.host.clone(),
                config,
                file: team.file,
                other_files: Vec::new(),
                models: self.models.clone(),
                telemetry: self.telemetry.clone(),
            },
            prompt,
            opened_paths: self.opened_paths.clone(),
            continued_session: self
                .session
                .clone()
                .map(ContinuedSession::open)
                .transpose()?,
            approvals: self.approvals.clone(),
            session_sandboxes: Some(self.session_sandboxes.clone()),
        })
    }

    /// Returns the team; builds it from keys and local servers if necessary.
    async fn team(&mut self, output: &mut CliOutput<'_>) -> Result<ChosenTeam> {
        if let Some(team) = &self.team {
            return Ok(team.clone());
        }
        let mut team = choose_team(
            &self.host,
            &self.arguments,
            None,
            WorkspaceMode::PerAgent,
            &self.models,
            output,
        )
        .await?;
        apply_flags(&mut team.config, &self.arguments, output)?;
        Ok(self.team.insert(team).clone())
    }

    /// Records the outcome of a turn. A session in which nothing was saved has been removed, so it
    /// is not found then, and the next turn begins another.
    pub(crate) fn record_outcome(&mut self, outcome: &RunOutcome) {
        self.last_run = Some(outcome.log_dir.name_lossy());
        if self.session.is_none() {
            self.set_session(find(&outcome.session, &self.sessions()).ok());
        }
        if let Some(session) = self.session.as_ref().filter(|_| self.is_directory_declined) {
            // If that fails, it is tried again after the next turn.
            self.is_directory_declined = session.decline_directory(&self.host.cwd).is_err();
        }
    }

    /// Records the outcome of a resumed turn, and continues its session.
    pub(crate) fn record_resumed_outcome(
        &mut self,
        outcome: &RunOutcome,
        output: &mut CliOutput<'_>,
    ) -> Result<()> {
        // So that the session of the resumed turn becomes the current one.
        self.session = None;
        self.record_outcome(outcome);
        match self.session.clone() {
            Some(session_dir) => {
                self.continue_session(ContinuedSession::open(session_dir)?, output)
            }
            None => Ok(()),
        }
    }

    /// Returns the directory of the sessions.
    pub(crate) fn sessions(&self) -> AbsPath {
        let default = StoragePath::relocated(SESSIONS);
        let storage = self
            .config()
            .map(|config| &config.orchestrator.session_storage);
        storage
            .unwrap_or(&default)
            .resolve(&self.host.state_parent, None)
    }
}

/// Returns the sessions below `sessions` except the current one, with their last tasks, the latest
/// first.
pub(crate) fn session_values(sessions: &AbsPath, current_id: Option<&str>) -> Vec<CommandValue> {
    let value = |session: SessionDir| {
        let last_turn = session.last_turn().ok().flatten()?;
        let task = single_line(&last_turn.task, TASK_CHARS_MAX);
        Some((session.id(), format!("{}  {task}", last_turn.timestamp)))
    };
    let found = sessions::list(sessions).unwrap_or_default().into_iter();
    let others = found.filter(|session| Some(session.id().as_str()) != current_id);
    others.filter_map(value).take(VALUES_MAX).collect()
}

/// Returns the model of an agent; `None` for a program that chooses its own.
fn agent_model(agent: &AgentConfig) -> Option<&str> {
    match &agent.backend.external_agent {
        Some(program) => program.model.as_deref(),
        None => Some(&agent.backend.model),
    }
}
