//! The Jobs and pods of a batch, as `kubectl get jobs.batch,pods -o json` shows them, and what
//! follows for the batch: which workers there are, what they wait for, and whether none of them can
//! work.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::batch::kubernetes::pods::{PodCondition, PodObject, cluster_message};

/// Maximum number of pods of a Job that are counted.
const PARALLELISM_MAX: usize = 10_000;

/// The state of a batch in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// The workers that have not ended, also those whose pod does not exist yet.
    pub workers: Vec<ListedWorker>,
    /// What workers wait for, if the pods say so.
    pub wait: Option<String>,
    /// Why no worker can work; `None` if one runs, has run or may still begin.
    pub problem: Option<String>,
    /// How the pods that failed ended, by their names.
    pub ends: BTreeMap<String, String>,
    /// Jobs without a running pod.
    pub idle_jobs: Vec<String>,
    /// Jobs that have ended, and Jobs none of whose pods can work.
    pub useless_jobs: Vec<String>,
    /// Jobs of which a pod does not exist yet.
    pub unfilled_jobs: BTreeSet<String>,
}

/// A worker that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedWorker {
    /// The name of its pod, or another name if the pod does not exist yet.
    pub name: String,
    /// Whether it does not run yet.
    pub is_waiting: bool,
    /// Whether its pod is being deleted.
    pub is_terminating: bool,
}

/// A list of objects, as `kubectl` prints it.
#[derive(Debug, Deserialize)]
struct ObjectList {
    items: Vec<Value>,
}

/// The fields that each object has.
#[derive(Debug, Deserialize)]
struct CommonFields {
    kind: String,
    metadata: ObjectMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectMetadata {
    name: String,
    deletion_timestamp: Option<String>,
    owner_references: Vec<OwnerFields>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OwnerFields {
    kind: String,
    name: String,
}

/// The fields of a Job that are needed here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobObject {
    spec: JobSpecFields,
    status: JobStatusFields,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobSpecFields {
    parallelism: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobStatusFields {
    succeeded: usize,
    conditions: Vec<JobConditionFields>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobConditionFields {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// What is needed of a pod.
#[derive(Debug)]
struct ListedPod {
    name: String,
    /// The name of its Job; empty if it has none.
    job: String,
    /// Whether it is being deleted.
    is_terminating: bool,
    has_ended: bool,
    condition: PodCondition,
}

/// What is needed of a Job.
#[derive(Debug)]
struct ListedBatchJob {
    name: String,
    /// Whether it has ended or is being deleted, so that it creates no further pods.
    is_over: bool,
    /// Whether it creates new pods for those that fail: no longer after one has succeeded.
    replaces_failed_pods: bool,
    parallelism: usize,
}

impl ClusterState {
    /// Parses the output of `kubectl get jobs.batch,pods -o json`. The error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let list: ObjectList = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let (mut jobs, mut pods) = (Vec::new(), Vec::new());
        for item in list.items {
            let common = CommonFields::deserialize(&item).map_err(|error| error.to_string())?;
            match common.kind.as_str() {
                "Job" => jobs.push(listed_job(common.metadata, &item)?),
                "Pod" => pods.push(listed_pod(common.metadata, &item)?),
                _ => {}
            }
        }
        Ok(Self::from_objects(&jobs, &pods))
    }

    fn from_objects(jobs: &[ListedBatchJob], pods: &[ListedPod]) -> Self {
        let mut state = Self::default();
        for pod in pods {
            state.add_pod(pod);
        }
        for job in jobs {
            state.add_job(job, pods);
        }
        // The pods of a Job that was deleted will be deleted too, and do not count.
        let has_listed_job = |pod: &&ListedPod| jobs.iter().any(|job| job.name == pod.job);
        let known_pods: Vec<&ListedPod> = pods.iter().filter(has_listed_job).collect();
        // A pod that cannot work replaces the reason why another one waits.
        if let Some(problem) = known_pods.iter().find_map(|pod| pod.condition.problem()) {
            let has_pod = |job: &ListedBatchJob| known_pods.iter().any(|pod| pod.job == job.name);
            let is_hopeless = known_pods
                .iter()
                .all(|pod| pod.condition.problem().is_some())
                && jobs.iter().all(|job| job.is_over || has_pod(job));
            state.problem = is_hopeless.then(|| problem.to_owned());
            state.wait = Some(problem.to_owned());
        }
        state
    }

    fn add_pod(&mut self, pod: &ListedPod) {
        match &pod.condition {
            PodCondition::Succeeded => return,
            PodCondition::Failed(description) => {
                self.ends.insert(pod.name.clone(), description.clone());
                return;
            }
            PodCondition::Unusable(_) if pod.has_ended => return,
            PodCondition::Waiting(Some(reason)) => self.wait = Some(reason.clone()),
            PodCondition::Waiting(None) | PodCondition::Unusable(_) | PodCondition::Running => {}
        }
        self.workers.push(ListedWorker {
            name: pod.name.clone(),
            is_waiting: pod.condition != PodCondition::Running,
            is_terminating: pod.is_terminating,
        });
    }

    fn add_job(&mut self, job: &ListedBatchJob, pods: &[ListedPod]) {
        let pods_of_job = || pods.iter().filter(|pod| pod.job == job.name);
        let is_running = |pod: &ListedPod| pod.condition == PodCondition::Running;
        let is_unusable = |pod: &ListedPod| pod.condition.problem().is_some();
        if !pods_of_job().any(is_running) {
            self.idle_jobs.push(job.name.clone());
        }
        if job.is_over || (pods_of_job().next().is_some() && pods_of_job().all(is_unusable)) {
            self.useless_jobs.push(job.name.clone());
        }
        if job.is_over || !job.replaces_failed_pods {
            return;
        }
        let live_pods = pods_of_job().filter(|pod| !pod.has_ended && !pod.is_terminating);
        for number in live_pods.count()..job.parallelism {
            self.unfilled_jobs.insert(job.name.clone());
            self.workers.push(ListedWorker {
                // The name of a pod has no `/`.
                name: format!("{}/{number}", job.name),
                is_waiting: true,
                is_terminating: false,
            });
        }
    }
}

fn listed_job(metadata: ObjectMetadata, item: &Value) -> Result<ListedBatchJob, String> {
    let job = JobObject::deserialize(item).map_err(|error| error.to_string())?;
    let is_final = |condition: &JobConditionFields| {
        matches!(
            condition.kind.as_str(),
            "Complete" | "Failed" | "FailureTarget"
        ) && condition.status == "True"
    };
    Ok(ListedBatchJob {
        name: metadata.name,
        is_over: metadata.deletion_timestamp.is_some()
            || job.status.conditions.iter().any(is_final),
        // A Job without a number of completions creates no pod after one has succeeded.
        replaces_failed_pods: job.status.succeeded == 0,
        parallelism: job.spec.parallelism.min(PARALLELISM_MAX),
    })
}

fn listed_pod(metadata: ObjectMetadata, item: &Value) -> Result<ListedPod, String> {
    let pod = PodObject::deserialize(item).map_err(|error| error.to_string())?;
    let mut owners = metadata.owner_references.into_iter();
    let job = owners.find(|owner| owner.kind == "Job");
    Ok(ListedPod {
        condition: pod.condition(&metadata.name),
        has_ended: pod.has_ended(),
        is_terminating: metadata.deletion_timestamp.is_some(),
        job: job.map_or_else(String::new, |owner| owner.name),
        name: metadata.name,
    })
}

/// Returns why Kubernetes creates no pods for a Job, from the output of
/// `kubectl get events -o json`: the newest such event counts, wherever it is in the list. `None`
/// also for other output, because this only explains a wait.
pub fn creation_problem(text: &str) -> Option<String> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct EventFields {
        reason: String,
        message: String,
        /// When it happened last, in UTC as RFC 3339.
        last_timestamp: Option<String>,
        /// When it first happened, for an event without the last time.
        event_time: Option<String>,
    }
    let list: ObjectList = serde_json::from_str(text).ok()?;
    let event = list
        .items
        .iter()
        .filter_map(|item| EventFields::deserialize(item).ok())
        .filter(|event| event.reason == "FailedCreate")
        .max_by_key(|event| {
            let last_time = event.last_timestamp.clone();
            last_time.or_else(|| event.event_time.clone())
        })?;
    Some(cluster_message(&event.message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(name: &str, parallelism: usize, status: Value) -> Value {
        let mut job = json!({
            "kind": "Job",
            "metadata": {"name": name, "labels": {"massgen.dev/batch": "b"}},
            "spec": {"parallelism": parallelism, "backoffLimit": 6},
        });
        job["status"] = status;
        job
    }

    fn pod(name: &str, status: Value) -> Value {
        let owner =
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": true});
        let mut pod = json!({
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "massgen", "image": "m:1"}]},
        });
        pod["status"] = status;
        pod
    }

    fn waiting_state(reason: &str, message: &str) -> Value {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        json!({
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "massgen", "ready": false, "state": state}],
        })
    }

    fn terminated_state(code: i64, reason: &str, message: &str) -> Value {
        let state = json!({"terminated": {"exitCode": code, "reason": reason, "message": message}});
        json!({"phase": "Failed", "containerStatuses": [{"name": "massgen", "state": state}]})
    }

    fn unschedulable() -> Value {
        let message = "0/3 nodes are available: 3 Insufficient cpu.";
        json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": message},
        ]})
    }

    fn state(items: &[Value]) -> ClusterState {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        ClusterState::parse(&list.to_string()).unwrap()
    }

    /// Returns the workers as one text: `+` runs, `-` waits.
    fn workers(state: &ClusterState) -> String {
        let sign = |worker: &ListedWorker| if worker.is_waiting { '-' } else { '+' };
        let shown = state
            .workers
            .iter()
            .map(|worker| format!("{}{}", sign(worker), worker.name));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn workers_are_pods_and_those_that_jobs_will_create() {
        let running = || json!({"phase": "Running"});
        let succeeded = || json!({"phase": "Succeeded"});
        let complete = || {
            json!({"succeeded": 1, "conditions": [
            {"type": "Complete", "status": "True"}]})
        };
        let failed = || {
            json!({"failed": 7, "conditions": [
            {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]})
        };
        for (items, expected) in [
            (vec![], ""),
            (vec![job("j", 2, json!({}))], "-j/0 -j/1"),
            (
                vec![job("j", 2, json!({"active": 1})), pod("p", running())],
                "+p -j/1",
            ),
            // A pod that failed is replaced, until one has succeeded.
            (
                vec![
                    job("j", 2, json!({"active": 1, "failed": 1})),
                    pod("p", running()),
                    pod("q", terminated_state(137, "Error", "")),
                ],
                "+p -j/1",
            ),
            (
                vec![
                    job("j", 2, json!({"active": 1, "succeeded": 1})),
                    pod("p", running()),
                    pod("q", succeeded()),
                ],
                "+p",
            ),
            (vec![job("j", 2, complete()), pod("p", succeeded())], ""),
            (vec![job("j", 2, failed())], ""),
            // The node of a pod does not answer.
            (
                vec![
                    job("j", 1, json!({})),
                    pod("p", json!({"phase": "Unknown"})),
                ],
                "+p",
            ),
            // Its Job was deleted, and the pod is still parking its run.
            (vec![pod("p", running())], "+p"),
            (vec![json!({"kind": "Other", "metadata": {}})], ""),
        ] {
            assert_eq!(workers(&state(&items)), expected, "{items:?}");
        }
        let mut ending = pod("p", running());
        ending["metadata"]["deletionTimestamp"] = json!("2026-11-26T10:00:00Z");
        let shown = state(&[job("j", 1, json!({})), ending]);
        assert_eq!(workers(&shown), "+p -j/0");
        assert!(shown.workers[0].is_terminating);
        assert!(ClusterState::parse("{}").is_err());
        assert!(ClusterState::parse("{\"items\": [{}]}").is_err());
    }

    #[test]
    fn a_full_cluster_is_a_wait_and_a_wrong_image_a_fault() {
        let one = |status: Value| state(&[job("j", 1, json!({"active": 1})), pod("p", status)]);
        let full = one(unschedulable());
        let reason = "0/3 nodes are available: 3 Insufficient cpu.";
        assert_eq!(full.wait.as_deref(), Some(reason));
        assert_eq!(full.problem, None);
        assert_eq!(full.idle_jobs, ["j"]);
        assert!(full.useless_jobs.is_empty());
        for (status, expected) in [
            (
                waiting_state("ImagePullBackOff", "Back-off pulling image \"m:1\""),
                "the image `m:1` cannot be used: ImagePullBackOff: Back-off pulling image \"m:1\"",
            ),
            (
                waiting_state("InvalidImageName", "couldn't parse"),
                "the image `m:1` cannot be used: InvalidImageName",
            ),
            (
                waiting_state("CreateContainerConfigError", "secret \"keys\" not found"),
                "cannot be created: CreateContainerConfigError: secret \"keys\" not found",
            ),
            (
                terminated_state(128, "StartError", "exec: \"/m\": no such file or directory"),
                "exit status 128, StartError: exec: \"/m\": no such file",
            ),
            (
                terminated_state(2, "Error", "error: no batch `b`\n  hint: \u{1b}[1m"),
                "exit status 2, Error: error: no batch `b` hint: \\u{1b}[1m",
            ),
        ] {
            let shown = one(status);
            let problem = shown.problem.unwrap();
            assert!(problem.contains(expected), "{problem}");
            assert_eq!(shown.useless_jobs, ["j"]);
        }
        // A Job that was deleted says nothing about the next one.
        let wrong = || pod("p", waiting_state("ImagePullBackOff", "x"));
        assert_eq!(state(&[wrong()]).problem, None);
        assert_eq!(state(&[wrong(), job("k", 1, json!({}))]).problem, None);
        assert_eq!(
            state(&[job("j", 1, json!({})), wrong(), job("k", 1, json!({}))]).problem,
            None
        );
        // Kubernetes pulls again by itself, and as long as one pod works or may work, there is
        // hope.
        assert_eq!(one(waiting_state("ErrImagePull", "x")).problem, None);
        assert_eq!(one(waiting_state("ContainerCreating", "")).problem, None);
        for other in [
            json!({"phase": "Running"}),
            json!({"phase": "Succeeded"}),
            unschedulable(),
        ] {
            let shown = state(&[job("j", 2, json!({})), wrong(), pod("q", other)]);
            assert_eq!(shown.problem, None);
            assert!(shown.wait.unwrap().contains("ImagePullBackOff"));
        }
    }

    #[test]
    fn a_pod_that_the_cluster_ended_is_reported_with_its_reason() {
        let evicted = json!({
            "phase": "Failed", "reason": "Evicted",
            "message": "The node was low on resource: memory. ",
        });
        for (status, expected) in [
            (
                evicted,
                "pod `p`: Evicted: The node was low on resource: memory.",
            ),
            (
                terminated_state(137, "OOMKilled", ""),
                "pod `p` ended with exit status 137, OOMKilled",
            ),
            (
                terminated_state(75, "Error", "parked"),
                "pod `p` was stopped, and its run can be resumed",
            ),
            (json!({"phase": "Failed"}), "pod `p` has failed"),
        ] {
            let shown = state(&[job("j", 1, json!({"failed": 1})), pod("p", status)]);
            assert_eq!(shown.ends.get("p").map(String::as_str), Some(expected));
            assert_eq!(shown.problem, None);
            assert_eq!(workers(&shown), "-j/0");
        }
        let message = "Error creating: pods \"j-x\" is forbidden: exceeded quota: q";
        let events = json!({"items": [
            {"reason": "FailedCreate", "message": "older"},
            {"reason": "FailedCreate", "message": message},
            {"reason": "SuccessfulCreate", "message": "x"},
        ]});
        assert_eq!(
            creation_problem(&events.to_string()).as_deref(),
            Some(message)
        );
        assert_eq!(creation_problem("{\"items\": []}"), None);
        // The cluster lists events by their names.
        let event = |message: &str, time_key: &str, time: &str| {
            let mut event = json!({"reason": "FailedCreate", "message": message});
            event[time_key] = json!(time);
            event
        };
        let events = json!({"items": [
            event("oldest", "lastTimestamp", "2026-03-01T09:00:00Z"),
            event("newest", "lastTimestamp", "2026-03-01T10:00:02Z"),
            event("older", "eventTime", "2026-03-01T10:00:01.000000Z"),
        ]});
        let problem = creation_problem(&events.to_string());
        assert_eq!(problem.as_deref(), Some("newest"));
    }
}
