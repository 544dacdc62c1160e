//! The state of a pod, as the API shows it: whether it waits, runs or is gone, and why.

use serde::Deserialize;

use crate::world::sandbox::pod::kubectl::cluster_message;

/// Why the image or the container of a pod that waits is wrong: waiting does not help.
const LASTING_PROBLEMS: &[&str] = &[
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
];

/// What a pod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodState {
    /// It is not running yet; why, if the cluster says so.
    Waiting(Option<String>),
    /// It will not run: its image or its container is wrong.
    Unusable(String),
    /// All its containers run.
    Running,
    /// It was deleted or evicted, or one of its containers has ended; why.
    Gone(String),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CommandPodObject {
    metadata: PodMetadata,
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodMetadata {
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<CommandPodCondition>,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CommandPodCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerState {
    running: Option<ContainerDetail>,
    waiting: Option<ContainerDetail>,
    terminated: Option<ContainerDetail>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerDetail {
    reason: String,
    message: String,
    exit_code: i64,
}

impl PodState {
    /// Parses what `kubectl get pod --ignore-not-found --output=json` prints.
    ///
    /// # Errors
    /// It is not a pod.
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        if json.trim_ascii().is_empty() {
            return Ok(PodState::Gone("it was deleted".to_owned()));
        }
        let pod: CommandPodObject = serde_json::from_slice(json)
            .map_err(|error| format!("`kubectl get pod` printed something unexpected: {error}"))?;
        Ok(pod.state())
    }
}

impl CommandPodObject {
    fn state(&self) -> PodState {
        let status = &self.status;
        if self.metadata.deletion_timestamp.is_some() {
            return PodState::Gone("it is being deleted".to_owned());
        }
        // The pod's own reason, such as an eviction, says more than the ends of its containers.
        if matches!(status.phase.as_str(), "Failed" | "Succeeded") && !status.reason.is_empty() {
            return PodState::Gone(reason_and_message(&status.reason, &status.message));
        }
        let containers = || status.container_statuses.iter();
        let terminated = containers().find_map(|container| {
            let terminated = container.state.terminated.as_ref()?;
            Some(container_end(&container.name, terminated))
        });
        let init_containers = status.init_container_statuses.iter();
        let init_failure = init_containers.clone().find_map(|container| {
            let terminated = container.state.terminated.as_ref();
            let terminated = terminated.filter(|terminated| terminated.exit_code != 0)?;
            Some(container_end(&container.name, terminated))
        });
        if let Some(reason) = init_failure {
            return PodState::Unusable(reason);
        }
        if let Some(reason) = terminated {
            return PodState::Gone(reason);
        }
        if matches!(status.phase.as_str(), "Failed" | "Succeeded") {
            return PodState::Gone("it has ended".to_owned());
        }
        let waiting_states = || {
            let all_containers = init_containers.clone().chain(containers());
            all_containers.filter_map(|container| container.state.waiting.as_ref())
        };
        let lasting_problem =
            waiting_states().find(|waiting| LASTING_PROBLEMS.contains(&waiting.reason.as_str()));
        if let Some(problem) = lasting_problem {
            return PodState::Unusable(reason_and_message(&problem.reason, &problem.message));
        }
        let is_running = |container: &ContainerStatus| container.state.running.is_some();
        if status.phase == "Running"
            && containers().next().is_some()
            && containers().all(is_running)
        {
            return PodState::Running;
        }
        let mut conditions = status.conditions.iter();
        let unscheduled_condition = conditions
            .find(|condition| condition.kind == "PodScheduled" && condition.status == "False");
        PodState::Waiting(
            unscheduled_condition.map(|condition| cluster_message(&condition.message)),
        )
    }
}

fn container_end(name: &str, terminated: &ContainerDetail) -> String {
    let name = cluster_message(name);
    let cause = reason_and_message(&terminated.reason, &terminated.message);
    format!(
        "its container `{name}` ended with exit status {}: {cause}",
        terminated.exit_code
    )
}

fn reason_and_message(reason: &str, message: &str) -> String {
    let (reason, message) = (cluster_message(reason), cluster_message(message));
    if message.is_empty() {
        reason
    } else {
        format!("{reason}: {message}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state(object: &Value) -> PodState {
        PodState::parse(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_state_of_a_pod_is_what_the_cluster_shows() {
        let running = json!({"name": "commands", "state": {"running": {"startedAt": "x"}}});
        let unscheduled_condition = json!({"type": "PodScheduled", "status": "False",
            "message": "0/2 nodes are available: 2 Insufficient cpu."});
        for (object, expected) in [
            (json!({}), PodState::Waiting(None)),
            (
                json!({"status": {"phase": "Pending", "conditions": [unscheduled_condition]}}),
                PodState::Waiting(Some(
                    "0/2 nodes are available: 2 Insufficient cpu.".to_owned(),
                )),
            ),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [running]}}),
                PodState::Running,
            ),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [running,
                    {"name": "files", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}),
                PodState::Waiting(None),
            ),
            (
                json!({"status": {"phase": "Pending", "containerStatuses": [
                    {"name": "commands", "state": {"waiting": {"reason": "ImagePullBackOff",
                     "message": "Back-off pulling image \"a\""}}}]}}),
                PodState::Unusable("ImagePullBackOff: Back-off pulling image \"a\"".to_owned()),
            ),
            (
                json!({"status": {"phase": "Failed", "reason": "Evicted",
                    "message": "The node was low on resource: memory. "}}),
                PodState::Gone("Evicted: The node was low on resource: memory.".to_owned()),
            ),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [
                    {"name": "commands", "state": {"terminated": {"reason": "OOMKilled",
                     "exitCode": 137}}}, running]}}),
                PodState::Gone(
                    "its container `commands` ended with exit status 137: OOMKilled".to_owned(),
                ),
            ),
            (
                json!({"metadata": {"deletionTimestamp": "x"},
                    "status": {"phase": "Running", "containerStatuses": [running]}}),
                PodState::Gone("it is being deleted".to_owned()),
            ),
        ] {
            assert_eq!(state(&object), expected, "{object}");
        }
        assert_eq!(
            PodState::parse(b"\n"),
            Ok(PodState::Gone("it was deleted".to_owned()))
        );
        assert!(PodState::parse(b"{").is_err());
    }
}
