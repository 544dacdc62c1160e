//! Finds the team that doctor checks: the one that a run with the same arguments would have.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::cli::doctor::keys::configured_variables;
use crate::cli::environment::LoadedEnvironment;
use crate::cli::output::CliOutput;
use crate::cli::team::probe_local_servers;
use crate::cli::team_file::TeamFile;
use crate::config::diagnostic::Severity;
use crate::config::team::{WorkspaceMode, team_from_environment};
use crate::config::{Config, LoadedConfig};
use crate::error::Result;
use crate::host::Host;
use crate::text::count_noun;

/// Number of a team's models that a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelRequirement {
    /// All: the user has named them.
    All,
    /// Any: massgen has assembled the team.
    Any,
}

/// The team, if there is one, and the findings about it.
pub(crate) struct DoctorTeam {
    /// The team.
    pub(crate) config: Option<Config>,
    /// Number of its models that a run needs.
    pub(crate) required_models: ModelRequirement,
    /// The findings about it.
    pub(crate) findings: Vec<DoctorFinding>,
}

/// Finds the team of a run with `--config argument`, or without it.
///
/// # Errors
/// There is no config with this name, or it cannot be read.
pub(crate) async fn find_team(
    loaded_environment: &LoadedEnvironment,
    argument: Option<&str>,
    output: &mut CliOutput<'_>,
) -> Result<DoctorTeam> {
    let host = &loaded_environment.host;
    let file = match argument {
        Some(argument) => Some(TeamFile::find(argument, host)?),
        None => TeamFile::find_default(host, output)?,
    };
    Ok(match file {
        Some(file) => team_from_file(&file, host),
        None => detect_team(loaded_environment).await,
    })
}

fn team_from_file(file: &TeamFile, host: &Host) -> DoctorTeam {
    let (config, finding) = match file.load(host) {
        Ok(loaded_config) => match file.require_trusted(&loaded_config, host) {
            Ok(()) => {
                let finding = usable_config(file, &loaded_config);
                (Some(loaded_config.config), finding)
            }
            Err(error) => (None, DoctorArea::Config.error_finding(file.name(), &error)),
        },
        Err(invalid) => {
            let diagnostics = invalid.diagnostics.iter();
            let errors = diagnostics.filter(|diagnostic| diagnostic.severity == Severity::Error);
            let error_count = count_noun(errors.count(), "error");
            let message = format!("{error_count}: it cannot be run");
            let finding =
                DoctorArea::Config.finding(FindingVerdict::Unusable, file.name(), message);
            (None, finding.with_remedy(check_command(file)))
        }
    };
    DoctorTeam {
        config,
        required_models: ModelRequirement::All,
        findings: vec![finding],
    }
}

fn usable_config(file: &TeamFile, loaded_config: &LoadedConfig) -> DoctorFinding {
    let agents = count_noun(loaded_config.config.agents.len(), "agent");
    if loaded_config.warnings.is_empty() {
        return DoctorArea::Config.finding(FindingVerdict::Ok, file.name(), agents);
    }
    let message = format!(
        "{agents}; {}",
        count_noun(loaded_config.warnings.len(), "warning")
    );
    let finding = DoctorArea::Config.finding(FindingVerdict::Warning, file.name(), message);
    finding.with_remedy(check_command(file))
}

fn check_command(file: &TeamFile) -> String {
    format!("massgen config check {}", file.name())
}

async fn detect_team(loaded_environment: &LoadedEnvironment) -> DoctorTeam {
    let host = &loaded_environment.host;
    let variables = host.config_variables();
    let servers = probe_local_servers(&variables, &host.policy).await;
    let team = team_from_environment(&variables, &servers, WorkspaceMode::None, &host.policy);
    let keys = configured_variables(loaded_environment);
    let vendor = keys.values().flatten().next();
    let (config, finding) = match (team, vendor) {
        (Ok(team), _) => {
            let message = format!("no config given or found; {}", team.summary);
            let finding = DoctorArea::Config.finding(FindingVerdict::Ok, "team", message);
            (Some(team.config), finding)
        }
        (Err(_), Some(vendor)) => {
            let message = format!("no config found, and `{vendor}` has no default model");
            let finding = DoctorArea::Config.finding(FindingVerdict::Warning, "team", message);
            let remedy = format!("massgen --backend {vendor} --model NAME \"…\"");
            (None, finding.with_remedy(remedy))
        }
        (Err(error), None) => (None, DoctorArea::Config.error_finding("team", &error)),
    };
    DoctorTeam {
        config,
        required_models: ModelRequirement::Any,
        findings: vec![finding],
    }
}
