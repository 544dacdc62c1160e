//! Doctor checks of Docker and Podman, in which commands may run.

use std::collections::BTreeSet;

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::config::Config;
use crate::config::engine_host::SSH_SCHEME;
use crate::host::Host;
use crate::world::sandbox::docker::client::EngineClient;
use crate::world::sandbox::docker::socket::{DaemonStatus, EngineDiscovery, find_engine};

/// Checks the engines that a run would use and the images of the team's containers. A team that
/// runs no commands in containers does not need them.
pub(crate) async fn inspect(host: &Host, team: Option<&Config>) -> Vec<DoctorFinding> {
    let images = team.map(Config::images).unwrap_or_default();
    let default_host = host.env("DOCKER_HOST");
    let hosts = team.map(Config::engine_hosts).unwrap_or_default();
    let team_engines = hosts
        .iter()
        .map(|engine_host| engine_host.map(ToString::to_string));
    let mut engines: BTreeSet<Option<String>> = team_engines
        .map(|engine| engine.or_else(|| default_host.map(str::to_owned)))
        .collect();
    if engines.is_empty() {
        engines.insert(default_host.map(str::to_owned));
    }
    let mut findings = Vec::new();
    for engine in engines {
        let engine = engine.as_deref();
        if engine.is_some_and(|engine| engine.starts_with(SSH_SCHEME)) {
            findings.extend(inspect_remote_engine(host, engine, &images).await);
        } else {
            findings.extend(inspect_local_engine(host, engine, &images).await);
        }
    }
    findings
}

/// Checks an engine on this machine.
async fn inspect_local_engine(
    host: &Host,
    engine_host: Option<&str>,
    images: &[&str],
) -> Vec<DoctorFinding> {
    let discovery = find_engine(engine_host).await;
    let verdict = match (&discovery, images.is_empty()) {
        (EngineDiscovery::Socket(_, DaemonStatus::Answers(..)), _) => FindingVerdict::Ok,
        (_, false) => FindingVerdict::Unusable,
        (EngineDiscovery::OtherAddress(_), true) => FindingVerdict::Skipped,
        (_, true) => FindingVerdict::Warning,
    };
    let finding = DoctorArea::Docker.finding(verdict, "daemon", discovery.describe());
    let daemon = discovery
        .remedy()
        .into_iter()
        .fold(finding, DoctorFinding::with_remedy);
    let mut findings = vec![daemon];
    if verdict == FindingVerdict::Ok && !images.is_empty() {
        findings.extend(match EngineClient::connect(engine_host, &host.env).await {
            Ok(client) => check_images(&client, images).await,
            Err(error) => vec![DoctorArea::Docker.error_finding("daemon", &error)],
        });
    }
    findings
}

/// Checks an engine on another machine, by connecting to it as a run would.
async fn inspect_remote_engine(
    host: &Host,
    engine_host: Option<&str>,
    images: &[&str],
) -> Vec<DoctorFinding> {
    if images.is_empty() {
        let message = format!(
            "`{}`: no agent runs commands there",
            engine_host.unwrap_or_default()
        );
        return vec![DoctorArea::Docker.finding(FindingVerdict::Skipped, "daemon", message)];
    }
    let client = match EngineClient::connect(engine_host, &host.env).await {
        Ok(client) => client,
        Err(error) => return vec![DoctorArea::Docker.error_finding("daemon", &error)],
    };
    let message = format!(
        "`{}` answers: {}",
        engine_host.unwrap_or_default(),
        client.version()
    );
    let mut findings = vec![DoctorArea::Docker.finding(FindingVerdict::Ok, "daemon", message)];
    findings.extend(check_images(&client, images).await);
    findings
}

async fn check_images(client: &EngineClient, images: &[&str]) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for image in images {
        findings.push(match client.expect_image(image).await {
            Ok(_) => {
                DoctorArea::Docker.finding(FindingVerdict::Ok, "image", format!("`{image}` exists"))
            }
            Err(error) => DoctorArea::Docker.error_finding("image", &error),
        });
    }
    findings
}
