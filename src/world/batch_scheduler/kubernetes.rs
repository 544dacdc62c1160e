//! Jobs of Kubernetes, by the user's own `kubectl`: it knows the kubeconfig, its contexts and the
//! programs that log in. Each Job has pods that claim cells; the Jobs of a batch are found by a
//! label.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::batch::kubernetes::cluster_state::{ClusterState, ListedWorker, creation_problem};
use crate::batch::kubernetes::manifest::{batch_selector, job_manifest};
use crate::batch::kubernetes::refusal::{KubectlRefusal, shown_error};
use crate::batch::kubernetes::settings::{KubernetesSettings, is_object_name};
use crate::batch::worker_script::WorkerScript;
use crate::error::{Error, ErrorKind, Result};
use crate::world::batch_scheduler::site_command::{SiteCommandEnd, SiteCommands};
use crate::world::batch_scheduler::{JobListing, JobQueue, QueueJob};

/// The value of `--on` for this queue.
pub const KUBERNETES: &str = "kubernetes";
/// The name of the client program.
const KUBECTL: &str = "kubectl";
/// What the user can do if `kubectl` is not found.
pub const KUBECTL_MISSING_HINT: &str =
    "install kubectl, and check that `kubectl get jobs` works here";
/// Timeout of one request to the API server.
const REQUEST_TIMEOUT: &str = "--request-timeout=20s";
/// The kinds of objects that are listed for a batch, as `kubectl get` takes them.
const OBJECTS: &str = "jobs.batch,pods";
/// How much longer than its time for parking a pod may take to be deleted. After that it counts as
/// gone: its node does not answer.
const DELETION_DELAY: Duration = Duration::from_secs(30);
/// The number of further lists without a Job's pods after which massgen asks for its events again.
const LISTS_PER_EVENT_QUERY: u32 = 4;

/// Submits Jobs to Kubernetes.
#[derive(Debug)]
pub struct KubernetesQueue {
    site: SiteCommands,
    settings: KubernetesSettings,
    script: WorkerScript,
    /// Whether a worker of the batch runs or has run since this process began.
    has_run: bool,
    /// Since when each pod is being deleted.
    terminating_since: BTreeMap<String, Instant>,
    /// The pods whose end was reported.
    reported_pods: BTreeSet<String>,
    /// In how many lists in a row each Job lacked pods.
    lists_without_pods: BTreeMap<String, u32>,
    /// Why Kubernetes does not create pods.
    creation_problem: Option<String>,
}

impl KubernetesQueue {
    /// Creates the queue of the Jobs whose pods run this script.
    pub fn new(site: SiteCommands, settings: KubernetesSettings, script: WorkerScript) -> Self {
        Self {
            site,
            settings,
            script,
            has_run: false,
            terminating_since: BTreeMap::new(),
            reported_pods: BTreeSet::new(),
            lists_without_pods: BTreeMap::new(),
            creation_problem: None,
        }
    }

    /// Runs `kubectl` with these arguments, in the user's context and namespace.
    async fn kubectl(&self, arguments: &[&str], input: &[u8]) -> Result<String> {
        let settings = &self.settings;
        let connection_options = [
            ("context", &settings.context),
            ("namespace", &settings.namespace),
        ];
        let connection_options = connection_options
            .into_iter()
            .filter_map(|(flag, value)| Some(format!("--{flag}={}", value.as_ref()?)));
        let arguments = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .chain(connection_options);
        let arguments: Vec<String> = arguments.chain([REQUEST_TIMEOUT.to_owned()]).collect();
        match self.site.run_to_end(KUBECTL, &arguments, input).await? {
            SiteCommandEnd::Output(output) => Ok(output),
            SiteCommandEnd::Failure(errors) => {
                let refusal = KubectlRefusal::from_output(&errors);
                let message = format!("{}: {}", refusal.cause(), shown_error(&errors));
                Err(Error::new(ErrorKind::Environment, message).with_hint(refusal.hint()))
            }
        }
    }

    fn selector(&self) -> String {
        format!("--selector={}", batch_selector(&self.script.batch))
    }

    async fn cluster_state(&self) -> Result<ClusterState> {
        let selector = self.selector();
        let arguments = ["get", OBJECTS, selector.as_str(), "--output=json"];
        let output = self.kubectl(&arguments, b"").await?;
        ClusterState::parse(&output).map_err(|reason| {
            let message = format!("`kubectl get {OBJECTS}` printed something unexpected: {reason}");
            Error::new(ErrorKind::Environment, message)
                .with_hint("lower `--parallel` if there are thousands of pods")
        })
    }

    async fn delete(&self, jobs: &[String]) -> Result<()> {
        let jobs: Vec<&str> = jobs
            .iter()
            .map(String::as_str)
            .filter(|job| is_object_name(job))
            .collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let mut arguments = vec!["delete", "jobs.batch", "--wait=false", "--ignore-not-found"];
        arguments.extend(jobs);
        self.kubectl(&arguments, b"").await.map(drop)
    }

    /// Returns the workers whose pods have not been under deletion for too long.
    fn remaining_jobs(&mut self, workers: Vec<ListedWorker>) -> Vec<QueueJob> {
        let is_terminating = |name: &String| {
            let listed_worker = workers.iter().find(|worker| worker.name == *name);
            listed_worker.is_some_and(|worker| worker.is_terminating)
        };
        self.terminating_since
            .retain(|name, _| is_terminating(name));
        let grace = Duration::from_secs(u64::from(self.settings.grace_seconds()));
        let time_max = grace.saturating_add(DELETION_DELAY);
        let mut jobs = Vec::new();
        for worker in workers {
            if worker.is_terminating {
                let since = self.terminating_since.entry(worker.name.clone());
                if since.or_insert_with(Instant::now).elapsed() > time_max {
                    continue;
                }
            }
            jobs.push(QueueJob {
                name: worker.name,
                is_waiting: worker.is_waiting,
            });
        }
        jobs
    }

    /// Asks Kubernetes why it creates no pods for a Job, if it has had the time to create them.
    async fn query_creation_problem(&mut self, unfilled_jobs: &BTreeSet<String>) {
        self.lists_without_pods
            .retain(|name, _| unfilled_jobs.contains(name));
        let mut overdue = None;
        for name in unfilled_jobs {
            let count = self.lists_without_pods.entry(name.clone()).or_default();
            // The first list may be too early. Of several Jobs, one is enough: all have the same
            // settings.
            if count.checked_rem(LISTS_PER_EVENT_QUERY) == Some(1) {
                overdue = Some(name);
            }
            *count = count.saturating_add(1);
        }
        // The last answer counts until massgen asks for the events again.
        let Some(name) = overdue else {
            if unfilled_jobs.is_empty() {
                self.creation_problem = None;
            }
            return;
        };
        let fields = format!("--field-selector=involvedObject.kind=Job,involvedObject.name={name}");
        let arguments = ["get", "events", fields.as_str(), "--output=json"];
        // Without permission to read events, the reason stays unknown.
        let output = self.kubectl(&arguments, b"").await;
        self.creation_problem = output.ok().and_then(|output| creation_problem(&output));
    }
}

#[async_trait]
impl JobQueue for KubernetesQueue {
    fn name(&self) -> &'static str {
        KUBERNETES
    }

    fn restarts_jobs(&self) -> bool {
        // Another pod has another name. One that runs may be listed as waiting for a moment.
        false
    }

    async fn preflight(&mut self) -> Result<()> {
        // What an earlier start with other settings has left would be taken for this one's.
        let state = self.cluster_state().await?;
        self.delete(&state.useless_jobs).await
    }

    async fn submit(&mut self, jobs: usize, excluded_nodes: &[String]) -> Result<()> {
        let manifest = job_manifest(&self.settings, &self.script, jobs, excluded_nodes).to_string();
        // Without `--validate=false`, `kubectl` downloads the schemas of all kinds of objects.
        let arguments = [
            "create",
            "--validate=false",
            "--filename=-",
            "--output=name",
        ];
        self.kubectl(&arguments, manifest.as_bytes())
            .await
            .map(drop)
    }

    async fn list(&mut self) -> Result<JobListing> {
        let state = self.cluster_state().await?;
        self.query_creation_problem(&state.unfilled_jobs).await;
        self.has_run |= state.workers.iter().any(|worker| !worker.is_waiting);
        // Once a worker has run, pods can work, and the problem is not one of all pods.
        let error = state.problem.filter(|_| !self.has_run).map(|reason| {
            Error::new(ErrorKind::Environment, format!("no pod can work: {reason}"))
                .with_hint("change the file of `--kubernetes`, and name it again")
        });
        let messages = state
            .ends
            .into_iter()
            .filter(|(name, _)| self.reported_pods.insert(name.clone()))
            .map(|(_, message)| message)
            .collect();
        let creation_problem = self.creation_problem.clone();
        Ok(JobListing {
            jobs: self.remaining_jobs(state.workers),
            wait: state.wait.or(creation_problem),
            messages,
            error,
        })
    }

    async fn cancel_waiting(&mut self) -> Result<()> {
        // Deleting a Job would end its running pods too; their workers find out from the files.
        let state = self.cluster_state().await?;
        self.delete(&state.idle_jobs).await
    }

    async fn cancel_all(&mut self) -> Result<()> {
        let selector = self.selector();
        let arguments = [
            "delete",
            "jobs.batch",
            selector.as_str(),
            "--wait=false",
            "--ignore-not-found",
        ];
        self.kubectl(&arguments, b"").await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::AbsPath;

    #[test]
    fn a_pod_whose_deletion_takes_too_long_is_lost() {
        let settings = "image: m:1\ntermination_grace_period_seconds: 10\n";
        let dir = AbsPath::root();
        let script = WorkerScript {
            executable: dir.clone(),
            dir: dir.clone(),
            batch: "batch_1".to_owned(),
            engine: KUBERNETES,
            arguments: Vec::new(),
            variables: BTreeMap::new(),
        };
        let site = SiteCommands::of_client(dir, &BTreeMap::new(), KUBECTL_MISSING_HINT);
        let settings = KubernetesSettings::parse(settings, "pods.yaml").unwrap();
        let mut queue = KubernetesQueue::new(site, settings, script);
        let worker = |name: &str, is_terminating: bool| ListedWorker {
            name: name.to_owned(),
            is_waiting: false,
            is_terminating,
        };
        let workers = || vec![worker("runs", false), worker("a", true), worker("b", true)];
        let names =
            |jobs: Vec<QueueJob>| -> Vec<String> { jobs.into_iter().map(|job| job.name).collect() };
        assert_eq!(names(queue.remaining_jobs(workers())), ["runs", "a", "b"]);
        let seconds_ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        for (name, seconds) in [("a", 20), ("b", 41)] {
            let since = seconds_ago(seconds).unwrap();
            queue.terminating_since.insert(name.to_owned(), since);
        }
        assert_eq!(names(queue.remaining_jobs(workers())), ["runs", "a"]);
        assert_eq!(names(queue.remaining_jobs(Vec::new())), [""; 0]);
        assert!(queue.terminating_since.is_empty());
    }
}
