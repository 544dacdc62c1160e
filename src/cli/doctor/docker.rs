//! Doctor checks of Docker and Podman, in which commands may run.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::config::Config;
use crate::host::Host;
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::socket::{DaemonStatus, EngineDiscovery};

/// Checks the engine that a run would use and the images of the team's containers. A team that runs
/// no commands in containers does not need it.
pub(crate) fn inspect(
    host: &Host,
    discovery: &EngineDiscovery,
    team: Option<&Config>,
) -> Vec<DoctorFinding> {
    let images = team.map(Config::images).unwrap_or_default();
    let verdict = match (discovery, images.is_empty()) {
        (EngineDiscovery::Socket(_, DaemonStatus::Answers(..)), _) => FindingVerdict::Ok,
        (_, false) => FindingVerdict::Unusable,
        (_, true) => FindingVerdict::Skipped,
    };
    let finding = DoctorArea::Docker.finding(verdict, "daemon", discovery.describe());
    // A team that does not need the engine needs no remedy either.
    let remedies = discovery
        .remedy()
        .into_iter()
        .filter(|_| verdict == FindingVerdict::Unusable);
    let daemon = remedies.fold(finding, DoctorFinding::with_remedy);
    let mut findings = vec![daemon];
    if verdict == FindingVerdict::Ok && !images.is_empty() {
        findings.extend(check_images(host.env("DOCKER_HOST"), &images));
    }
    findings
}

fn check_images(engine_host: Option<&str>, images: &[&str]) -> Vec<DoctorFinding> {
    let engine = match ContainerEngine::open(engine_host) {
        Ok(engine) => engine,
        Err(error) => return vec![DoctorArea::Docker.error_finding("daemon", &error)],
    };
    let check_image = |image: &&str| match engine.expect_image(image) {
        Ok(_) => {
            DoctorArea::Docker.finding(FindingVerdict::Ok, "image", format!("`{image}` exists"))
        }
        Err(error) => DoctorArea::Docker.error_finding("image", &error),
    };
    images.iter().map(check_image).collect()
}
