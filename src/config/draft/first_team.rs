//! The draft of a first team: the models and programs that were chosen, one directory, and whether
//! the agents run commands. Everything else keeps its default.

use std::collections::BTreeMap;

use url::Url;

use crate::config::draft::{AGENT_GROUP, COMMAND_GROUP, DraftAnswers, PATH_GROUP, TeamDraft};
use crate::config::external_agents::ExternalAgentKind;
use crate::config::keys::found_config::RestrictedUse;
use crate::config::keys::{agents, backend, commands, context_paths};
use crate::config::team::unused_name;
use crate::config::vendors::{Vendor, VendorConnection, find_vendor, is_this_machine};
use crate::config::{AgentConfig, BackendConfig};
use crate::dotenv::ConfigVariables;
use crate::permissions::grant::Permission;

/// A model or a program that can take part in a team.
#[derive(Clone, Debug)]
pub struct TeamCandidate {
    /// The name of its agent, unless another agent has it.
    pub name: String,
    /// Its backend type.
    pub vendor: &'static Vendor,
    /// Its model; `None` leaves the choice to the program.
    pub model: Option<String>,
    /// Its endpoint, if it is not that of the type.
    pub base_url: Option<String>,
    /// The variable whose key goes to a server on this machine, because the user's environment
    /// names that server as the endpoint of the type.
    pub local_key_variable: Option<&'static str>,
    /// Why it can take part: the variable of its key, its endpoint, or its program.
    pub source: String,
}

/// A directory that the agents of a first team may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDirectory {
    /// Its path as it is written in the config.
    pub path: String,
    /// What the winner may do in it.
    pub permission: Permission,
}

/// The answers that describe a first team.
#[derive(Clone, Debug)]
pub struct FirstTeam {
    /// Its agents, which may include the same candidate more than once.
    pub agents: Vec<TeamCandidate>,
    /// The directory that they may read.
    pub directory: Option<FirstDirectory>,
    /// Whether they may run commands in the sandbox.
    pub runs_commands: bool,
}

impl TeamCandidate {
    /// Describes a backend. An endpoint that a variable gives becomes part of the candidate, so
    /// that the config means the same without the variable.
    pub fn from_backend(
        name: &str,
        backend: &BackendConfig,
        source: &str,
        env: &ConfigVariables,
    ) -> Self {
        let variable = |name: &str| env.get_non_empty(name).map(str::to_owned);
        let vendor = backend.vendor;
        let endpoint = vendor.endpoint(backend.base_url.as_deref(), variable);
        let base_url = endpoint.filter(|url| Some(url.as_str()) != vendor.base_url);
        let env_url = base_url.as_deref().filter(|_| backend.base_url.is_none());
        let url = env_url.and_then(|url| Url::parse(url).ok());
        let local_key_variable = url.filter(is_this_machine).and_then(|url| {
            let mut variables = vendor.key_variables_at(&url).iter().copied();
            variables.find(|name| env.get_non_empty(name).is_some())
        });
        Self {
            name: name.to_owned(),
            vendor,
            model: Some(backend.model.clone()),
            base_url,
            local_key_variable,
            source: source.to_owned(),
        }
    }

    /// Describes the agent of a team that the command line names.
    pub fn from_agent(agent: &AgentConfig, env: &ConfigVariables) -> Self {
        Self::from_backend(agent.id.as_str(), &agent.backend, "", env)
    }

    /// Describes a program; `None` if its type has none of its own.
    pub fn from_program(kind: &ExternalAgentKind, model: Option<&str>) -> Option<Self> {
        let program = kind.command.first()?;
        Some(Self {
            name: kind.vendor.to_owned(),
            vendor: find_vendor(kind.vendor)?,
            model: model.map(str::to_owned),
            base_url: None,
            local_key_variable: None,
            source: format!("program `{program}`"),
        })
    }

    /// Returns whether it is a program that works with its own tools.
    pub fn is_program(&self) -> bool {
        matches!(self.vendor.connection, VendorConnection::ExternalAgent(_))
    }
}

impl FirstTeam {
    /// Returns the uses of this team that only a named config may have, in addition to those that
    /// its text shows: with a found config, no server on this machine gets a key.
    pub fn restricted_uses(&self) -> Vec<RestrictedUse> {
        let uses = self.agents.iter().filter_map(|agent| {
            let (name, url) = (agent.local_key_variable?, agent.base_url.as_deref()?);
            Some(RestrictedUse::Always(format!(
                "would send `{name}` to `{url}`, a server on this machine"
            )))
        });
        uses.collect()
    }

    /// Returns the draft of the team.
    pub fn to_draft(&self) -> TeamDraft {
        let mut names = Vec::new();
        let mut entries = Vec::new();
        for (number, agent) in (1..).zip(&self.agents) {
            let name = unused_name(&agent.name, &names);
            names.push(name.clone());
            entries.push(agent_answers(agent, name, number));
        }
        let directory = self.directory.iter().map(|directory| {
            DraftAnswers::from([
                answer(context_paths::PATH.name(), &directory.path),
                answer(
                    context_paths::PERMISSION.name(),
                    &directory.permission.to_string(),
                ),
            ])
        });
        let runs_commands = self.runs_commands.to_string();
        let commands = DraftAnswers::from([answer(commands::ENABLED.name(), &runs_commands)]);
        TeamDraft(BTreeMap::from([
            (AGENT_GROUP.to_owned(), entries),
            (PATH_GROUP.to_owned(), directory.collect()),
            (COMMAND_GROUP.to_owned(), vec![commands]),
        ]))
    }
}

fn agent_answers(agent: &TeamCandidate, name: String, number: usize) -> DraftAnswers {
    let mut answers = DraftAnswers::from([
        (agents::ID.name().to_owned(), name),
        answer(backend::TYPE.name(), agent.vendor.name),
        answer(backend::CWD.name(), &format!("workspace{number}")),
    ]);
    answers.extend(
        agent
            .model
            .iter()
            .map(|model| answer(backend::MODEL.name(), model)),
    );
    answers.extend(
        agent
            .base_url
            .iter()
            .map(|url| answer(backend::BASE_URL.name(), url)),
    );
    answers
}

fn answer(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}
