//! Owns whose needs count: those of the team that a run with the same words would have.

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::cli::doctor::keys::set_variables;
use crate::cli::environment::Completed;
use crate::cli::output::Output;
use crate::cli::team::local_servers;
use crate::cli::team_file::TeamFile;
use crate::config::diagnostic::Severity;
use crate::config::team::{Workspaces, from_surroundings};
use crate::config::{Config, Loaded};
use crate::error::Result;
use crate::host::Host;
use crate::wording::counted;

/// How many of a team's models a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// All: the user has named them.
    Each,
    /// Any: massgen has put the team together.
    One,
}

/// The team, as far as there is one, and what was found about it.
pub(crate) struct Team {
    /// The team.
    pub(crate) config: Option<Config>,
    /// How many of its models a run needs.
    pub(crate) needs: Needs,
    /// What was found about it.
    pub(crate) findings: Vec<Finding>,
}

/// The team of a run with `--config argument`, or without it.
///
/// # Errors
/// There is no config of this name, or it cannot be read.
pub(crate) async fn team(
    completed: &Completed,
    argument: Option<&str>,
    output: &mut Output<'_>,
) -> Result<Team> {
    let host = &completed.host;
    let file = match argument {
        Some(argument) => Some(TeamFile::named(argument, host)?),
        None => TeamFile::default(host, output)?,
    };
    Ok(match file {
        Some(file) => described(&file, host),
        None => put_together(completed).await,
    })
}

fn described(file: &TeamFile, host: &Host) -> Team {
    let (config, finding) = match file.load(host) {
        Ok(loaded) => match file.trust(&loaded, host) {
            Ok(()) => {
                let finding = usable(file, &loaded);
                (Some(loaded.config), finding)
            }
            Err(error) => (None, Area::Config.lacks(file.name(), &error)),
        },
        Err(invalid) => {
            let found = invalid.diagnostics.iter();
            let errors = found.filter(|found| found.severity == Severity::Error);
            let errors = counted(errors.count(), "error");
            let message = format!("it has {errors} and cannot be run");
            let finding = Area::Config.finds(Verdict::Missing, file.name(), message);
            (None, finding.remedy(check_of(file)))
        }
    };
    Team {
        config,
        needs: Needs::Each,
        findings: vec![finding],
    }
}

fn usable(file: &TeamFile, loaded: &Loaded) -> Finding {
    let agents = counted(loaded.config.agents.len(), "agent");
    if loaded.warnings.is_empty() {
        return Area::Config.finds(Verdict::Ok, file.name(), agents);
    }
    let message = format!("{agents}; {}", counted(loaded.warnings.len(), "warning"));
    let finding = Area::Config.finds(Verdict::Warning, file.name(), message);
    finding.remedy(check_of(file))
}

fn check_of(file: &TeamFile) -> String {
    format!("massgen config check {}", file.name())
}

async fn put_together(completed: &Completed) -> Team {
    let servers = local_servers().await;
    let found = from_surroundings(
        &completed.host.config_variables(),
        &servers,
        Workspaces::None,
    );
    let keys = set_variables(completed);
    let vendor = keys.values().flatten().next();
    let (config, finding) = match (found, vendor) {
        (Ok(found), _) => {
            let message = format!("none is named and none is found; {}", found.summary);
            let finding = Area::Config.finds(Verdict::Ok, "team", message);
            (Some(found.config), finding)
        }
        (Err(_), Some(vendor)) => {
            let message = format!("no config is found, and `{vendor}` has no default model");
            let finding = Area::Config.finds(Verdict::Warning, "team", message);
            let remedy = format!("massgen --backend {vendor} --model NAME \"…\"");
            (None, finding.remedy(remedy))
        }
        (Err(error), None) => (None, Area::Config.lacks("team", &error)),
    };
    Team {
        config,
        needs: Needs::One,
        findings: vec![finding],
    }
}
