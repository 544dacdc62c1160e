//! Owns `massgen doctor`: looks at what a run needs, one area after another. What is there is found
//! out by `world::probe`; what it means is said here.

mod docker;
mod disk;
mod endpoints;
mod finding;
mod git;
mod keys;
mod programs;
pub(crate) mod sandbox;
mod servers;
mod team;
mod terminal;

use crate::backend::connect::Surroundings;
use crate::backend::pace::Pace;
use crate::cli::args::DoctorArguments;
use crate::cli::conduct::read_script;
use crate::cli::doctor::finding::{Area, Finding, exit_status, show};
use crate::cli::environment;
use crate::cli::output::{Form, Output};
use crate::cli::prices::{expect_prices, model_list};
use crate::cli::run::runtime;
use crate::config::Config;
use crate::config::place::STATE_DIR;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::spending::models::ModelList;
use crate::world::http::HttpClient;
use crate::world::probe;

/// Looks at everything, shows what was found, and ends with what it comes to.
pub(crate) fn run(
    host: &Host,
    arguments: &DoctorArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let findings = runtime()?.block_on(look(host, arguments, output))?;
    show(&findings, Form::from(arguments.json), output)?;
    Ok(exit_status(&findings))
}

async fn look(
    started: &Host,
    arguments: &DoctorArguments,
    output: &mut Output<'_>,
) -> Result<Vec<Finding>> {
    let completed = environment::complete(started);
    for warning in &completed.warnings {
        output.warning(warning);
    }
    let host = &completed.host;
    let team = team::team(&completed, arguments.config.as_deref(), output).await?;
    let mut findings = team.findings;
    findings.extend(keys::set(&completed));
    if let Some(config) = &team.config {
        let models = model_list(host, None, output);
        let priced = models.and_then(|models| expect_prices(config, &models));
        let unpriced = priced
            .err()
            .map(|error| Area::Config.lacks("prices", &error));
        findings.extend(unpriced);
        findings.extend(keys::of_team(config, &completed));
        let asked = surrounded(host, |around| endpoints::questions(config, around));
        findings.extend(if arguments.online {
            endpoints::look(asked, team.needs).await
        } else {
            endpoints::unasked(&asked)
        });
    }
    // Which programs are started and where a daemon is asked is the user's to say, and no file's.
    let around = probe::Surroundings {
        path: started.env("PATH").unwrap_or_default(),
        home: started.home.as_ref(),
        cwd: &started.cwd,
    };
    findings.push(git::judge(&probe::git::git(around).await));
    findings.extend(terminal::judge(host, probe::terminal::size()));
    let state = host.cwd.join(STATE_DIR);
    findings.extend(disk::judge(&state, probe::disk::disk(&state)));
    findings.extend(disk::config_directories(host));
    let choices = sandbox::choices(team.config.as_ref());
    let trees = team.config.iter().flat_map(Config::write_paths);
    let trees: Vec<AbsPath> = trees.cloned().collect();
    let holds = probe::sandbox::look(&choices, &started.executable, &state, &trees);
    findings.extend(sandbox::judge(&holds, team.config.as_ref()));
    let team_of_programs = (team.config.as_ref(), team.needs);
    let path = around.path;
    findings.extend(
        team.config
            .iter()
            .flat_map(|config| servers::look(config, path)),
    );
    findings.extend(programs::look(started, around, team_of_programs).await);
    findings.extend(docker::look(started, team.config.as_ref()).await);
    Ok(findings)
}

/// Calls `with` with what the way to a backend needs. No connection is opened by it.
fn surrounded<T>(host: &Host, with: impl FnOnce(Surroundings<'_>) -> T) -> T {
    let variables = host.config_variables();
    let env = |name: &str| variables.get_filled(name).map(str::to_owned);
    with(Surroundings {
        env: &env,
        http: &HttpClient::new(),
        cwd: &host.cwd,
        pace: &Pace::default(),
        models: &ModelList::with(Vec::new()),
        read: &read_script,
    })
}
