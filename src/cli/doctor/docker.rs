//! Doctor checks of Docker and Podman, in which commands may run.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingLevel};
use crate::config::Config;
use crate::host::Host;
use crate::world::sandbox::docker::client::EngineClient;
use crate::world::sandbox::docker::socket::{DaemonStatus, EngineDiscovery, find_engine};

/// Checks the engine that a run would use and the images of the team's containers. A team that runs
/// no commands in containers does not need it.
pub(crate) async fn inspect(host: &Host, team: Option<&Config>) -> Vec<DoctorFinding> {
    let images = team.map(Config::images).unwrap_or_default();
    let named = host.env("DOCKER_HOST");
    let found = find_engine(named).await;
    let verdict = match (&found, images.is_empty()) {
        (EngineDiscovery::At(_, DaemonStatus::Answers(..)), _) => FindingLevel::Ok,
        (_, false) => FindingLevel::Missing,
        (EngineDiscovery::Elsewhere(_), true) => FindingLevel::Skipped,
        (_, true) => FindingLevel::Warning,
    };
    let daemon = DoctorArea::Docker.finding(verdict, "daemon", found.describe());
    let daemon = found
        .remedy()
        .into_iter()
        .fold(daemon, DoctorFinding::with_remedy);
    let mut findings = vec![daemon];
    if verdict == FindingLevel::Ok && !images.is_empty() {
        findings.extend(check_images(named, images).await);
    }
    findings
}

async fn check_images(named: Option<&str>, images: Vec<&str>) -> Vec<DoctorFinding> {
    let client = match EngineClient::connect(named).await {
        Ok(client) => client,
        Err(error) => return vec![DoctorArea::Docker.error_finding("daemon", &error)],
    };
    let mut findings = Vec::new();
    for image in images {
        findings.push(match client.expect_image(image).await {
            Ok(_) => {
                DoctorArea::Docker.finding(FindingLevel::Ok, "image", format!("`{image}` exists"))
            }
            Err(error) => DoctorArea::Docker.error_finding("image", &error),
        });
    }
    findings
}
