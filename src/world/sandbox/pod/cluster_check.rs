//! What a team needs of a cluster, asked without creating anything: the cluster answers, would
//! admit such a pod, and lets the user reach and delete it.

use std::collections::BTreeMap;

use crate::config::kubernetes::{KubernetesConfig, PodNetwork};
use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sandbox::pod::cluster::cluster_error;
use crate::world::sandbox::pod::kubectl::Kubectl;
use crate::world::sandbox::pod::pod_manifest::PodPlan;

/// The name of a pod that is never created.
const POD_NAME: &str = "massgen-doctor";
/// What a run does with its pods.
const POD_ACTIONS: &[(&str, &str)] = &[
    ("get", "pods"),
    ("list", "pods"),
    ("delete", "pods"),
    ("create", "pods/exec"),
];
/// What it does with the network policies of pods without a network.
const POLICY_ACTIONS: &[(&str, &str)] = &[
    ("list", "networkpolicies.networking.k8s.io"),
    ("delete", "networkpolicies.networking.k8s.io"),
];

/// Asks the cluster of `config` whether a run could have its pods there; `env` is the user's
/// environment, and `dir` the user's directory.
///
/// # Errors
/// It could not; the error says why.
pub async fn check_cluster(
    config: &KubernetesConfig,
    env: &BTreeMap<String, String>,
    dir: &AbsPath,
) -> Result<()> {
    let kubectl = Kubectl::find(config, env, dir)?;
    let plan = PodPlan {
        name: POD_NAME.to_owned(),
        origin: BTreeMap::new(),
        state: POD_NAME.to_owned(),
        config: config.clone(),
        memory_bytes: None,
    };
    let manifest = plan.manifest(POD_NAME, &[]).to_string();
    let arguments = [
        "create",
        "--dry-run=server",
        "--validate=false",
        "--filename=-",
        "--output=name",
    ];
    let dry_run_result = kubectl.ask(&arguments, manifest.as_bytes()).await;
    dry_run_result
        .map_err(|reason| cluster_error("the cluster would not create a pod", &reason))?;
    let policies = match config.network {
        PodNetwork::None => POLICY_ACTIONS,
        PodNetwork::Cluster => &[],
    };
    for (verb, resource) in POD_ACTIONS.iter().chain(policies) {
        let answer = kubectl.ask(&["auth", "can-i", verb, resource], b"").await;
        answer.map_err(|reason| {
            let message = format!("the cluster does not let you {verb} {resource}");
            cluster_error(&message, &reason)
        })?;
    }
    Ok(())
}
