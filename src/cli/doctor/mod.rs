//! Implements `massgen doctor`: checks what a run needs, one area after another.
//! `world::diagnostics::probe` examines the machine; this module judges the results.

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
mod tool_package;

use crate::cli::args::DoctorArguments;
use crate::cli::directory_question::directory_breadth_reason;
use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict, exit_status, show};
use crate::cli::environment;
use crate::cli::init::first_command;
use crate::cli::interrupts::runtime;
use crate::cli::model_prices::{model_list, require_prices};
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::team::with_connect_context;
use crate::config::Config;
use crate::config::machine_policy::MACHINE_POLICY_PATH;
use crate::config::storage_path::STATE_DIR;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::diagnostics::probe;
use crate::world::diagnostics::probe::terminal::{stderr_size, stdout_size};
use crate::world::mcp::packages::PackageStore;
use crate::world::sandbox::docker::socket::find_engine;

/// Runs all checks, prints the findings, and returns the exit status.
pub(crate) fn run(
    host: &Host,
    arguments: &DoctorArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let runtime = runtime()?;
    let (mut findings, team) = runtime.block_on(inspect(host, arguments, output))?;
    let discovery = runtime.block_on(find_engine(host.env("DOCKER_HOST")));
    findings.extend(docker::inspect(host, &discovery, team.as_ref()));
    let format = ReportFormat::from(arguments.json);
    let first_run = first_command(arguments.config.as_deref());
    show(&findings, &first_run, format, output)?;
    Ok(exit_status(&findings))
}

/// Runs all checks but that of the engine. Returns the findings, and the config of the team.
async fn inspect(
    initial_host: &Host,
    arguments: &DoctorArguments,
    output: &mut CliOutput<'_>,
) -> Result<(Vec<DoctorFinding>, Option<Config>)> {
    let loaded_environment = environment::load(initial_host);
    for warning in &loaded_environment.warnings {
        output.warning(warning);
    }
    let host = &loaded_environment.host;
    let team = team::find_team(&loaded_environment, arguments.config.as_deref(), output).await?;
    let mut findings = team.findings;
    let policy = host.policy.describe();
    findings.extend(
        policy
            .map(|text| DoctorArea::Config.finding(FindingVerdict::Ok, MACHINE_POLICY_PATH, text)),
    );
    findings.extend(keys::configured_keys(&loaded_environment));
    if let Some(config) = &team.config {
        let models = model_list(host, None, output);
        let price_check = models.and_then(|models| require_prices(config, &models));
        let price_finding = price_check
            .err()
            .map(|error| DoctorArea::Config.error_finding("prices", &error));
        findings.extend(price_finding);
        findings.extend(keys::team_keys(config, &loaded_environment));
        let queries =
            with_connect_context(host, |context| endpoints::endpoint_queries(config, context));
        findings.extend(if arguments.online {
            endpoints::query_all(queries, team.required_models).await
        } else {
            endpoints::skipped_findings(&queries)
        });
    }
    // Only the user's own environment, not a `.env` file, decides which programs are started and
    // which daemon is asked.
    let context = probe::ProbeContext {
        path: initial_host.env("PATH").unwrap_or_default(),
        home: initial_host.home.as_ref(),
        cwd: &initial_host.cwd,
    };
    let breadth_reason = directory_breadth_reason(&host.cwd, host);
    findings.push(git::check(
        &probe::toolchain::probe_git(context).await,
        breadth_reason,
    ));
    findings.extend(terminal::check(host, stdout_size(), stderr_size()));
    let state = host.state_parent.join(STATE_DIR);
    findings.extend(disk::check(&state, probe::disk::probe_disk(&state)));
    findings.extend(disk::check_config_directories(host));
    let sandbox_levels = sandbox::requested_sandbox_levels(team.config.as_ref());
    let trees: Vec<AbsPath> = team
        .config
        .iter()
        .flat_map(Config::write_paths)
        .cloned()
        .collect();
    let capabilities = probe::sandbox::probe_sandbox(
        &sandbox_levels,
        &initial_host.executable,
        &state,
        &trees,
        &host.policy,
    );
    findings.extend(sandbox::check(&capabilities, team.config.as_ref()));
    let path = context.path;
    let packages = host.home.as_ref().map(PackageStore::in_home);
    findings.extend(
        team.config
            .iter()
            .flat_map(|config| servers::inspect(config, path, packages.as_ref())),
    );
    if let Some(config) = &team.config {
        findings.extend(tool_package::inspect(config, context, &initial_host.env).await);
    }
    findings.extend(
        programs::inspect(
            initial_host,
            context,
            team.config.as_ref(),
            team.required_models,
        )
        .await,
    );
    Ok((findings, team.config))
}
