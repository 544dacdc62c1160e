//! Doctor checks of Docker and Podman, in which commands may run.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::config::Config;
use crate::host::Host;
use crate::world::sandbox::docker::client::EngineClient;
use crate::world::sandbox::docker::socket::{DaemonStatus, EngineDiscovery, find_engine};

/// Checks the engine that a run would use and the images of the team's containers. A team that runs
/// no commands in containers does not need it.
pub(crate) async fn inspect(host: &Host, team: Option<&Config>) -> Vec<DoctorFinding> {
    let images = team.map(Config::images).unwrap_or_default();
    let engine_host = host.env("DOCKER_HOST");
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
        findings.extend(match EngineClient::connect(engine_host).await {
            Ok(client) => check_images(&client, &images).await,
            Err(error) => vec![DoctorArea::Docker.error_finding("daemon", &error)],
        });
    }
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
