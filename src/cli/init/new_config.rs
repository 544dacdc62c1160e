//! The config of a first team: where it goes, the check before it is written, and what follows.

use std::collections::BTreeSet;

use crate::cli::args::init::InitArguments;
use crate::cli::command_line::usage_error;
use crate::cli::found_config::reject_outside_reach;
use crate::cli::output::CliOutput;
use crate::cli::team_file::config_context;
use crate::config::draft::destination::ConfigDestination;
use crate::config::draft::findings::{DraftFinding, FindingSeverity};
use crate::config::draft::first_team::FirstTeam;
use crate::config::external_agents::SIGN_IN_HINT;
use crate::config::lookup::FOUND_CONFIG;
use crate::config::storage_path::STATE_DIR;
use crate::config::{Config, ConfigOrigin};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::permissions::protected::ENV_NAME;
use crate::text::{list_names, shell_line};
use crate::world::io::config_file::{ConfigWrite, write_config};
use crate::world::io::files::inspect;
use crate::world::store::prepare_state_dir;

/// The file of a team that only a config with a name may describe.
const NAMED_CONFIG: &str = "team.yaml";
/// The task of the first command.
const FIRST_TASK: &str = "Describe this project";

/// Whether the user agrees to replace a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplaceApproval {
    /// The user agrees.
    Given,
    /// The user was not asked.
    Missing,
}

impl From<&InitArguments> for ReplaceApproval {
    fn from(arguments: &InitArguments) -> Self {
        if arguments.force {
            Self::Given
        } else {
            Self::Missing
        }
    }
}

/// A config that passed the check.
#[derive(Debug)]
pub(super) struct NewConfig {
    destination: ConfigDestination,
    yaml: String,
    warnings: Vec<String>,
    /// Whether runs use it only if the user names it, because of what it contains.
    must_be_named: bool,
}

impl NewConfig {
    /// Writes the YAML of a team and checks it.
    ///
    /// # Errors
    /// The check found errors, or the file that the user named cannot hold this team.
    pub(super) fn new(team: &FirstTeam, arguments: &InitArguments, host: &Host) -> Result<Self> {
        let named_destination = arguments
            .output
            .as_deref()
            .map(ConfigDestination::parse)
            .transpose()?;
        let found_config = ConfigDestination::parse(FOUND_CONFIG)?;
        let destination = named_destination.as_ref().unwrap_or(&found_config);
        let origin = ConfigOrigin {
            name: destination.path().to_string(),
            directory: Some(host.cwd.clone()),
        };
        let (env, packages) = (host.config_variables(), BTreeSet::new());
        let context = config_context(host, &env, &packages);
        let check = team.to_draft().check(&origin, &context);
        let Some(loaded_config) = check.loaded else {
            return Err(invalid_team_error(&check.findings));
        };
        let mut uses = loaded_config.restricted_uses;
        uses.extend(team.restricted_uses());
        let reject_restricted_uses = || reject_outside_reach(&uses, FOUND_CONFIG, &host.cwd);
        let (destination, must_be_named) = match named_destination {
            Some(named_destination) if named_destination.is_found_config() => {
                reject_restricted_uses().map_err(|error| {
                    error.with_hint("write another file: massgen init --output team.yaml")
                })?;
                (named_destination, false)
            }
            Some(named_destination) => (named_destination, false),
            None => match reject_restricted_uses() {
                Ok(()) => (found_config, false),
                Err(error) if error.kind() == ErrorKind::Config => {
                    (ConfigDestination::parse(NAMED_CONFIG)?, true)
                }
                Err(error) => return Err(error),
            },
        };
        let findings = check.findings.iter().map(finding_line);
        Ok(Self {
            destination,
            warnings: findings
                .chain(signed_out_warning(&loaded_config.config))
                .collect(),
            yaml: check.yaml,
            must_be_named,
        })
    }

    /// Returns its path, relative to the current directory.
    pub(super) fn path(&self) -> String {
        self.destination.path().to_string()
    }

    /// Returns whether there is a file already.
    pub(super) fn exists(&self, host: &Host) -> bool {
        inspect(&host.cwd.join(self.destination.path().as_path())) != LookupResult::Missing
    }

    /// Returns the YAML.
    pub(super) fn yaml(&self) -> &str {
        &self.yaml
    }

    /// Prints what the check warns about.
    pub(super) fn show_warnings(&self, output: &mut CliOutput<'_>) {
        for warning in &self.warnings {
            output.warning(warning);
        }
    }

    /// Writes the file and says how it is used.
    pub(super) fn write(
        &self,
        host: &Host,
        approval: ReplaceApproval,
        output: &mut CliOutput<'_>,
    ) -> Result<()> {
        if self.destination.is_found_config() {
            prepare_state_dir(&host.cwd.join(STATE_DIR), [])?;
        }
        let write = |replaces: Option<&str>| {
            write_config(&host.cwd, &self.destination, &self.yaml, replaces)
        };
        let mut write_outcome = write(None)?;
        if let (ConfigWrite::Occupied { digest }, ReplaceApproval::Given) =
            (&write_outcome, approval)
        {
            write_outcome = write(Some(digest))?;
        }
        let path = self.path();
        if write_outcome != ConfigWrite::Written {
            return Err(usage_error(format!("`{path}` exists already"))
                .with_hint("replace it: add `--force`")
                .with_hint("or write another file: add `--output FILE`"));
        }
        if self.must_be_named {
            output.note(&format!(
                "name `{path}` with `--config` in each run: a config that massgen loads by itself \
                 may start no program, send no key to a server on this machine and open nothing \
                 outside this directory"
            ));
        }
        output.note(&format!("written: {path}"));
        if inspect(&host.cwd.join(ENV_NAME)) == LookupResult::File {
            output.note(
                "`.env` stays closed to the agents; `unprotected: [.env]` of the directory opens it",
            );
        }
        let named_path = (!self.destination.is_found_config()).then_some(path);
        output.note(&format!("try it: {}", first_command(named_path.as_deref())));
        Ok(())
    }
}

/// Returns the first command of a user, with this config if it has to be named.
pub(crate) fn first_command(config: Option<&str>) -> String {
    let mut words = vec!["massgen"];
    if let Some(path) = config {
        words.extend(["--config", path]);
    }
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    format!("{} \"{FIRST_TASK}\"", shell_line(&words))
}

/// Returns the warning that programs of the team have nothing to sign in with, if they have not.
fn signed_out_warning(config: &Config) -> Option<String> {
    let agents = config.agents.iter();
    let programs = agents.filter_map(|agent| agent.backend.external_agent.as_ref());
    let vendors: BTreeSet<&str> = programs
        .filter(|program| !program.may_sign_in())
        .map(|program| program.vendor)
        .collect();
    let names: Vec<&str> = vendors.into_iter().collect();
    (!names.is_empty()).then(|| {
        let names = list_names(&names, "and");
        format!("no API key and no token for {names}: {SIGN_IN_HINT}")
    })
}

fn finding_line(finding: &DraftFinding) -> String {
    match &finding.suggestion {
        Some(suggestion) => format!("{}; {suggestion}", finding.message),
        None => finding.message.clone(),
    }
}

/// Returns the first error of the check as a usage error: the flags or the answers describe the
/// team.
fn invalid_team_error(findings: &[DraftFinding]) -> Error {
    let is_error = |finding: &&DraftFinding| finding.severity == FindingSeverity::Error;
    let Some(finding) = findings.iter().find(is_error) else {
        return Error::bug("the check of a new config failed without an error");
    };
    let error = usage_error(format!("this team cannot be run: {}", finding.message));
    match &finding.suggestion {
        Some(suggestion) => error.with_hint(suggestion),
        None => error.with_hint("correct the flag, or the answer"),
    }
}
