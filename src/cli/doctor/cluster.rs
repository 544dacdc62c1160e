//! Doctor checks of the Kubernetes clusters in which commands run in pods.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::config::Config;
use crate::config::kubernetes::KubernetesConfig;
use crate::host::Host;
use crate::world::sandbox::pod::cluster_check::check_cluster;

/// Checks the clusters of a team. Nothing is created there.
pub(crate) async fn inspect(host: &Host, team: Option<&Config>) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for pod in team.map(Config::pods).unwrap_or_default() {
        findings.push(match check_cluster(pod, &host.env, &host.cwd).await {
            Ok(()) => {
                let message = format!("{} answers and permits the team's pods", cluster_name(pod));
                DoctorArea::Cluster.finding(FindingVerdict::Ok, "pods", message)
            }
            Err(error) => DoctorArea::Cluster.error_finding("pods", &error),
        });
    }
    findings
}

/// Returns the name of a cluster for people.
fn cluster_name(pod: &KubernetesConfig) -> String {
    let context = pod.context.as_ref().map_or_else(
        || "the current context".to_owned(),
        |context| format!("context `{context}`"),
    );
    let namespace = pod.namespace.as_ref();
    namespace.map_or_else(
        || context.clone(),
        |namespace| format!("namespace `{namespace}` of {context}"),
    )
}
