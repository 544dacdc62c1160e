//! Owns what is said about Docker and Podman, which commands may be run in.

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::config::Config;
use crate::host::Host;
use crate::world::docker::client::Client;
use crate::world::docker::socket::{Daemon, Found, find};

/// Asks the engine that a run would use, and looks for the images that the team's containers are
/// made from. A team that runs no commands in containers needs nothing of it.
pub(crate) async fn look(host: &Host, team: Option<&Config>) -> Vec<Finding> {
    let images = team.map(Config::images).unwrap_or_default();
    let named = host.env("DOCKER_HOST");
    let found = find(named).await;
    let verdict = match (&found, images.is_empty()) {
        (Found::At(_, Daemon::Answers(..)), _) => Verdict::Ok,
        (_, false) => Verdict::Missing,
        (Found::Elsewhere(_), true) => Verdict::Skipped,
        (_, true) => Verdict::Warning,
    };
    let daemon = Area::Docker.finds(verdict, "daemon", found.describe());
    let daemon = found.remedy().into_iter().fold(daemon, Finding::remedy);
    let mut findings = vec![daemon];
    if verdict == Verdict::Ok && !images.is_empty() {
        findings.extend(judge_images(named, images).await);
    }
    findings
}

async fn judge_images(named: Option<&str>, images: Vec<&str>) -> Vec<Finding> {
    let client = match Client::connect(named).await {
        Ok(client) => client,
        Err(error) => return vec![Area::Docker.lacks("daemon", &error)],
    };
    let mut findings = Vec::new();
    for image in images {
        findings.push(match client.expect_image(image).await {
            Ok(_) => Area::Docker.finds(Verdict::Ok, "image", format!("`{image}` is there")),
            Err(error) => Area::Docker.lacks("image", &error),
        });
    }
    findings
}
