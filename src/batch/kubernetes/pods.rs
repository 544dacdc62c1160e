//! The state of one pod, as the API of Kubernetes shows it: whether it waits, runs or has ended,
//! and what is wrong.

use serde::Deserialize;

use crate::error::ExitStatus;
use crate::text::{escape_line, single_line};

/// Maximum length of a message of the cluster that is shown, in characters.
const MESSAGE_CHARS_MAX: usize = 500;
/// The reasons of a waiting container whose image cannot be used. A first attempt to pull it that
/// failed is not among them: Kubernetes tries again.
const IMAGE_ERROR_REASONS: &[&str] = &[
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
];
/// The reasons of a waiting container that cannot be created or started: for example, a secret is
/// missing, or a path cannot be mounted.
const CONTAINER_ERROR_REASONS: &[&str] = &[
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
];
/// The reasons of a container that ended without having started.
const START_ERROR_REASONS: &[&str] = &["StartError", "ContainerCannotRun"];
/// Exit statuses of massgen or of a shell that would be the same after another start.
const PERMANENT_EXIT_CODES: &[i64] = &[2, 3, 126, 127, 128];

/// The fields of a pod that are needed here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodObject {
    pub(super) spec: PodSpecFields,
    pub(super) status: PodStatusFields,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpecFields {
    containers: Vec<ContainerFields>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerFields {
    image: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodStatusFields {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<PodConditionFields>,
    container_statuses: Vec<ContainerStatusFields>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodConditionFields {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatusFields {
    state: ContainerStateFields,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStateFields {
    waiting: Option<ContainerStateDetails>,
    terminated: Option<ContainerStateDetails>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStateDetails {
    exit_code: Option<i64>,
    reason: String,
    message: String,
}

/// What a pod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodCondition {
    /// It is not running yet; the reason, if Kubernetes could not place it on a node.
    Waiting(Option<String>),
    /// It will not run again: its image or its container is wrong, or its worker cannot work.
    Unusable(String),
    /// It runs.
    Running,
    /// Its worker has ended by itself.
    Succeeded,
    /// The cluster ended it, or its worker crashed; another worker takes over its cells. With a
    /// description for the user.
    Failed(String),
}

impl PodCondition {
    /// Returns why it will not run, if that is so.
    pub fn problem(&self) -> Option<&str> {
        match self {
            PodCondition::Unusable(reason) => Some(reason),
            PodCondition::Waiting(_)
            | PodCondition::Running
            | PodCondition::Succeeded
            | PodCondition::Failed(_) => None,
        }
    }
}

impl PodObject {
    /// Returns what the pod `name` does.
    pub fn condition(&self, name: &str) -> PodCondition {
        let status = &self.status;
        match status.phase.as_str() {
            "Succeeded" => PodCondition::Succeeded,
            "Failed" => self.failed_condition(name),
            "Pending" | "" => self.waiting_condition(name),
            // `Unknown`: its node does not answer, and may still work.
            _ => PodCondition::Running,
        }
    }

    /// Returns whether it has ended, in whatever way.
    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Returns the condition of a pod that is pending.
    fn waiting_condition(&self, name: &str) -> PodCondition {
        let mut states = self.status.container_statuses.iter();
        if let Some(waiting_state) = states.find_map(|status| status.state.waiting.as_ref()) {
            let message = cluster_message(&waiting_state.message);
            let reason = waiting_state.reason.as_str();
            if IMAGE_ERROR_REASONS.contains(&reason) {
                let image = self.image();
                return PodCondition::Unusable(format!(
                    "the image `{image}` cannot be used: {reason}: {message}"
                ));
            }
            if CONTAINER_ERROR_REASONS.contains(&reason) {
                return PodCondition::Unusable(format!(
                    "the container of pod `{name}` cannot be created: {reason}: {message}"
                ));
            }
        }
        let mut conditions = self.status.conditions.iter();
        let not_scheduled = conditions
            .find(|condition| condition.kind == "PodScheduled" && condition.status == "False");
        PodCondition::Waiting(not_scheduled.map(|condition| cluster_message(&condition.message)))
    }

    /// Returns the condition of a pod that has failed.
    fn failed_condition(&self, name: &str) -> PodCondition {
        let status = &self.status;
        let mut containers = status.container_statuses.iter();
        let termination = containers.find_map(|container| container.state.terminated.as_ref());
        // The cluster ended it, for example because its node is out of memory.
        if !status.reason.is_empty() {
            let message = cluster_message(&status.message);
            let reason = escape_line(&status.reason);
            return PodCondition::Failed(format!("pod `{name}`: {reason}: {message}"));
        }
        let Some(termination) = termination else {
            return PodCondition::Failed(format!("pod `{name}` has failed"));
        };
        let code = termination.exit_code.unwrap_or(-1);
        if code == i64::from(ExitStatus::Parked.code()) {
            let text = format!("pod `{name}` was stopped, and its run can be resumed");
            return PodCondition::Failed(text);
        }
        let reason = escape_line(&termination.reason);
        let message = match cluster_message(&termination.message) {
            message if message.is_empty() => String::new(),
            message => format!(": {message}"),
        };
        let text = format!("pod `{name}` ended with exit status {code}, {reason}{message}");
        if START_ERROR_REASONS.contains(&termination.reason.as_str())
            || PERMANENT_EXIT_CODES.contains(&code)
        {
            PodCondition::Unusable(text)
        } else {
            PodCondition::Failed(text)
        }
    }

    fn image(&self) -> String {
        let image = self.spec.containers.first();
        image.map_or_else(String::new, |container| escape_line(&container.image))
    }
}

/// Returns a message of the cluster as it is shown: in one line, truncated and escaped.
pub(super) fn cluster_message(message: &str) -> String {
    escape_line(&single_line(message, MESSAGE_CHARS_MAX))
}
