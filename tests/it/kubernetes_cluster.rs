//! The API of a Kubernetes cluster, as far as `kubectl` needs it for Jobs and pods. Objects have the
//! shapes of a real cluster. The command of each pod is a process of this machine; for root, each pod
//! has its own host name and its node its own identity of a boot, so that massgen takes them for
//! different hosts. Jobs get their pods when they are listed.
#![expect(
    clippy::disallowed_types,
    reason = "the output of a pod goes to a file"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::slurm_cluster::free_ports;

/// The only namespace.
pub(crate) const NAMESPACE: &str = "evals";
/// The value of `OPENAI_API_KEY` in the secret `model-keys`.
pub(crate) const SECRET_VALUE: &str = "sk-of-the-cluster-0815";
/// How much of the output of a container becomes its message, in bytes.
const MESSAGE_BYTES_MAX: usize = 2048;
const STARTED: &str = "2026-11-26T10:00:00Z";

/// What is wrong with the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClusterFault {
    #[default]
    None,
    /// The API server answers nothing.
    Down,
    /// The user may not list Jobs.
    NoPermission,
    /// The quota allows no further Jobs.
    JobQuota,
    /// The quota allows no further pods.
    PodQuota,
    /// No node has room.
    Full,
    /// The image cannot be pulled.
    NoImage,
}

/// A running cluster; its pods end with the value.
pub(crate) struct KubernetesCluster {
    dir: TempDir,
    contents: Arc<Mutex<ClusterContents>>,
    _endpoint: Endpoint,
}

/// The objects of a cluster.
#[derive(Default)]
struct ClusterContents {
    dir: PathBuf,
    fault: ClusterFault,
    /// Number of requests that were refused because of the fault.
    refused: usize,
    jobs: BTreeMap<String, Value>,
    pods: BTreeMap<String, ClusterPod>,
    manifests: Vec<Value>,
    serial: usize,
}

struct ClusterPod {
    object: Value,
    process: Option<Child>,
}

impl KubernetesCluster {
    /// Starts a cluster without Jobs.
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for node in ["node-0", "node-1"] {
            let id = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
            fs::write(dir.path().join(node), id).unwrap();
        }
        let contents = Arc::new(Mutex::new(ClusterContents {
            dir: dir.path().to_owned(),
            ..ClusterContents::default()
        }));
        let shared = Arc::clone(&contents);
        let endpoint = Endpoint::start_with(move |request| shared.lock().unwrap().answer(request));
        let closed = free_ports(1)[0];
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: away\nclusters:\n\
             - {{name: lab, cluster: {{server: '{}'}}}}\n\
             - {{name: away, cluster: {{server: 'http://127.0.0.1:{closed}'}}}}\n\
             users: [{{name: me, user: {{token: t}}}}]\ncontexts:\n\
             - {{name: lab, context: {{cluster: lab, user: me, namespace: {NAMESPACE}}}}}\n\
             - {{name: away, context: {{cluster: away, user: me, namespace: {NAMESPACE}}}}}\n",
            endpoint.server.url
        );
        fs::write(dir.path().join("kubeconfig"), config).unwrap();
        Self {
            dir,
            contents,
            _endpoint: endpoint,
        }
    }

    fn contents(&self) -> MutexGuard<'_, ClusterContents> {
        self.contents.lock().unwrap()
    }

    /// Returns the path of a kubeconfig with the contexts `lab`, and `away`, whose server is down.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Changes what is wrong; returns how many requests the fault before has refused.
    pub(crate) fn set_fault(&self, fault: ClusterFault) -> usize {
        let mut contents = self.contents();
        contents.fault = fault;
        std::mem::take(&mut contents.refused)
    }

    /// Returns how many requests the fault has refused.
    pub(crate) fn refusals(&self) -> usize {
        self.contents().refused
    }

    /// Returns the names of the Jobs.
    pub(crate) fn jobs(&self) -> Vec<String> {
        self.contents().jobs.keys().cloned().collect()
    }

    /// Returns the processes of the pods that run, by the names of the pods.
    pub(crate) fn running(&self) -> BTreeMap<String, u32> {
        let mut contents = self.contents();
        contents.reap();
        let running = contents
            .pods
            .iter()
            .filter_map(|(name, pod)| Some((name.clone(), pod.process.as_ref()?.id())));
        running.collect()
    }

    /// Returns all that was created, as it was sent.
    pub(crate) fn manifests(&self) -> Vec<Value> {
        self.contents().manifests.clone()
    }

    /// Evicts a pod, whose process has no time to do anything.
    pub(crate) fn evict(&self, name: &str) {
        let mut contents = self.contents();
        let pod = contents.pods.get_mut(name).unwrap();
        let mut process = pod.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        pod.object["status"] = json!({
            "phase": "Failed", "reason": "Evicted", "startTime": STARTED,
            "message": "The node was low on resource: memory. ",
        });
    }

    /// Deletes all Jobs, as another user could.
    pub(crate) fn delete_jobs(&self) {
        let mut contents = self.contents();
        let names: Vec<String> = contents.jobs.keys().cloned().collect();
        for name in names {
            contents.delete(&name);
        }
    }
}

impl Drop for KubernetesCluster {
    fn drop(&mut self) {
        let mut contents = self.contents.lock().unwrap();
        for pod in contents.pods.values_mut() {
            if let Some(process) = &mut pod.process {
                let _gone = process.kill();
                let _status = process.wait();
            }
        }
    }
}

impl ClusterContents {
    fn answer(&mut self, request: &ReceivedRequest) -> ScriptedResponse {
        let (method, target) = request.line.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if self.fault == ClusterFault::Down {
            self.refused += 1;
            return failure(503, "ServiceUnavailable", "apiserver not ready");
        }
        if let Some(found) = discovery(path) {
            return object(200, &found);
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let (namespace, rest) = match parts.as_slice() {
            ["apis", "batch", "v1", "namespaces", namespace, rest @ ..]
            | ["api", "v1", "namespaces", namespace, rest @ ..] => (*namespace, rest),
            _other => panic!("unexpected request: {}", request.line),
        };
        if namespace != NAMESPACE && method == "GET" {
            return list("v1", "Object", [].iter(), "");
        }
        if namespace != NAMESPACE {
            let message = format!("namespaces \"{namespace}\" not found");
            return failure(404, "NotFound", &message);
        }
        match (method, rest) {
            ("GET", ["jobs"]) if self.fault == ClusterFault::NoPermission => {
                let message = format!(
                    "jobs.batch is forbidden: User \"me\" cannot list resource \"jobs\" in API \
                     group \"batch\" in the namespace \"{namespace}\""
                );
                failure(403, "Forbidden", &message)
            }
            ("GET", ["jobs"]) => {
                self.reap();
                self.fill();
                list("batch/v1", "Job", self.jobs.values(), query)
            }
            ("GET", ["pods"]) => {
                let pods = self.pods.values().map(|pod| &pod.object);
                list("v1", "Pod", pods, query)
            }
            ("GET", ["events"]) => list("v1", "Event", [self.event(query)].iter(), ""),
            ("POST", ["jobs"]) => self.create(request.json()),
            ("GET", ["jobs", name]) if self.jobs.contains_key(*name) => {
                object(200, &self.jobs[*name])
            }
            ("DELETE", ["jobs", name]) if self.jobs.contains_key(*name) => {
                assert_eq!(request.json()["propagationPolicy"], "Background");
                self.delete(name);
                object(
                    200,
                    &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
                )
            }
            (_, ["jobs", name]) => {
                failure(404, "NotFound", &format!("jobs.batch \"{name}\" not found"))
            }
            _other => panic!("unexpected request: {}", request.line),
        }
    }

    fn next_name(&mut self, prefix: &str) -> String {
        self.serial += 1;
        format!("{prefix}{:05}", self.serial)
    }

    fn create(&mut self, manifest: Value) -> ScriptedResponse {
        self.manifests.push(manifest.clone());
        let prefix = manifest["metadata"]["generateName"].as_str().unwrap();
        let name = self.next_name(prefix);
        if self.fault == ClusterFault::JobQuota {
            let message = format!(
                "jobs.batch \"{name}\" is forbidden: exceeded quota: small, requested: \
                 count/jobs.batch=1, used: count/jobs.batch=4, limited: count/jobs.batch=4"
            );
            return failure(403, "Forbidden", &message);
        }
        let mut job = manifest;
        job["metadata"]["name"] = json!(name);
        job["metadata"]["namespace"] = json!(NAMESPACE);
        job["metadata"]["uid"] = json!(format!("uid-{name}"));
        job["metadata"]["creationTimestamp"] = json!(STARTED);
        job["status"] = json!({});
        let answer = object(201, &job);
        self.jobs.insert(name, job);
        answer
    }

    fn delete(&mut self, name: &str) {
        self.jobs.remove(name);
        self.pods
            .retain(|_, pod| !is_owned(pod, name) || pod.process.is_some());
        for pod in self.pods.values_mut().filter(|pod| is_owned(pod, name)) {
            pod.object["metadata"]["deletionTimestamp"] = json!(STARTED);
            let process = pod.process.as_ref().unwrap();
            let pid = Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap();
            let _gone = kill_process(pid, Signal::TERM);
        }
    }

    /// Records which processes have ended.
    fn reap(&mut self) {
        let dir = self.dir.clone();
        self.pods.retain(|name, pod| {
            let ended = pod.process.as_mut().map(Child::try_wait);
            let Some(Ok(Some(status))) = ended else {
                return true;
            };
            pod.process = None;
            let output = fs::read(dir.join(format!("{name}.txt"))).unwrap_or_default();
            pod.object["status"] = ended_status(status, &output);
            pod.object["metadata"]["deletionTimestamp"].is_null()
        });
    }

    /// Gives each Job the pods that it lacks, and starts those that have a place.
    fn fill(&mut self) {
        let names: Vec<String> = self.jobs.keys().cloned().collect();
        for name in names {
            self.fill_job(&name);
        }
        let waiting: Vec<String> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.object["status"]["phase"] == "Pending" && pod.process.is_none())
            .map(|(name, _)| name.clone())
            .collect();
        for name in waiting {
            self.start_pod(&name);
        }
    }

    fn fill_job(&mut self, name: &str) {
        let desired = self.jobs[name]["spec"]["parallelism"].as_u64().unwrap();
        let phases = |contents: &Self, phase: &[&str]| -> u64 {
            let own = contents.pods.values().filter(|pod| is_owned(pod, name));
            let found = own.filter(|pod| {
                let shown = pod.object["status"]["phase"].as_str().unwrap();
                phase.contains(&shown)
            });
            found.count().try_into().unwrap()
        };
        let (succeeded, failed) = (phases(self, &["Succeeded"]), phases(self, &["Failed"]));
        // A pod that never began is tried again only after ten seconds.
        let has_failed_start = self
            .pods
            .values()
            .any(|pod| is_owned(pod, name) && pod.object.to_string().contains("\"StartError\""));
        let mut active = phases(self, &["Pending", "Running"]);
        let may_create = succeeded == 0 && self.fault != ClusterFault::PodQuota;
        while may_create && !has_failed_start && active < desired {
            let pod_name = self.next_name(&format!("{name}-"));
            let job = &self.jobs[name];
            let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": name,
                "uid": job["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true});
            let mut labels = job["spec"]["template"]["metadata"]["labels"].clone();
            labels["job-name"] = json!(name);
            let object = json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": pod_name, "namespace": NAMESPACE, "labels": labels,
                    "creationTimestamp": STARTED, "ownerReferences": [owner]},
                "spec": job["spec"]["template"]["spec"],
                "status": {"phase": "Pending"},
            });
            let process = None;
            self.pods.insert(pod_name, ClusterPod { object, process });
            active += 1;
        }
        let mut status = json!({"startTime": STARTED, "active": active});
        for (key, count) in [("succeeded", succeeded), ("failed", failed)] {
            if count > 0 {
                status[key] = json!(count);
            }
        }
        if succeeded > 0 && active == 0 {
            status["conditions"] = json!([{"type": "Complete", "status": "True"}]);
        }
        self.jobs.get_mut(name).unwrap()["status"] = status;
    }

    fn start_pod(&mut self, name: &str) {
        let status = match self.fault {
            ClusterFault::Full => json!({
                "phase": "Pending", "qosClass": "Burstable",
                "conditions": [{"type": "PodScheduled", "status": "False",
                    "reason": "Unschedulable", "lastTransitionTime": STARTED,
                    "message": "0/2 nodes are available: 2 Insufficient cpu."}],
            }),
            ClusterFault::NoImage => waiting_status(
                "ImagePullBackOff",
                "Back-off pulling image \"example.org/massgen:1\"",
            ),
            ClusterFault::None
            | ClusterFault::Down
            | ClusterFault::NoPermission
            | ClusterFault::JobQuota
            | ClusterFault::PodQuota => {
                let node = format!("node-{}", self.serial % 2);
                let pod = self.pods.get_mut(name).unwrap();
                pod.object["spec"]["nodeName"] = json!(node);
                let spec = pod.object["spec"].clone();
                match start_container(name, &node, &spec, &self.dir) {
                    Ok(process) => {
                        pod.process = Some(process);
                        running_status()
                    }
                    Err(status) => status,
                }
            }
        };
        self.pods.get_mut(name).unwrap().object["status"] = status;
    }

    /// Returns the event about the Job in `query` that lacks its pods.
    fn event(&self, query: &str) -> Value {
        let job = self.jobs.keys().find(|name| query.contains(*name)).unwrap();
        json!({
            "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedCreate",
            "metadata": {"name": format!("{job}.17"), "namespace": NAMESPACE},
            "involvedObject": {"kind": "Job", "name": job, "namespace": NAMESPACE},
            "message": format!("Error creating: pods \"{job}-x\" is forbidden: exceeded quota: \
                small, requested: pods=1, used: pods=4, limited: pods=4"),
        })
    }
}

fn is_owned(pod: &ClusterPod, job: &str) -> bool {
    pod.object["metadata"]["ownerReferences"][0]["name"] == job
}

/// Starts the container of a pod, or returns the state of the pod that says why not.
fn start_container(name: &str, node: &str, spec: &Value, dir: &Path) -> Result<Child, Value> {
    let container = &spec["containers"][0];
    let mut env = BTreeMap::new();
    for variable in container["env"].as_array().unwrap() {
        let from = &variable["valueFrom"];
        let value = match from["fieldRef"]["fieldPath"].as_str() {
            Some("metadata.name") => name.to_owned(),
            Some("spec.nodeName") => node.to_owned(),
            Some(other) => panic!("unexpected field {other}"),
            None if from["secretKeyRef"].is_object() => {
                let expected = json!({"name": "model-keys", "key": "OPENAI_API_KEY"});
                if from["secretKeyRef"] != expected {
                    let message = "secret \"other\" not found";
                    return Err(waiting_status("CreateContainerConfigError", message));
                }
                SECRET_VALUE.to_owned()
            }
            None => expand_variables(variable["value"].as_str().unwrap(), &env),
        };
        env.insert(variable["name"].as_str().unwrap().to_owned(), value);
    }
    let words = container["command"].as_array().unwrap().iter();
    let words: Vec<String> = words
        .map(|word| expand_variables(word.as_str().unwrap(), &env))
        .collect();
    let working_dir = container["workingDir"].as_str().unwrap();
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert!(working_dir.starts_with(mount), "{working_dir}");
    if !Path::new(&words[0]).exists() {
        let message = format!(
            "failed to create containerd task: failed to create shim task: OCI runtime create \
             failed: exec: \"{}\": stat {}: no such file or directory: unknown",
            words[0], words[0]
        );
        return Err(
            json!({"phase": "Failed", "containerStatuses": [{"name": "massgen", "state":
            {"terminated": {"exitCode": 128, "reason": "StartError", "message": message}}}]}),
        );
    }
    let mut command = if geteuid().is_root() {
        let boot = dir.join(node);
        let line = format!(
            "hostname \"$0\" && mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$@\"",
            boot.display()
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "-u", "sh", "-c", &line, name]);
        command.args(&words);
        command
    } else {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    };
    let output = File::create(dir.join(format!("{name}.txt"))).unwrap();
    command
        .current_dir(working_dir)
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .envs(&env)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output);
    Ok(command.spawn().unwrap())
}

/// Expands `$(NAME)` and `$$`, as Kubernetes does.
fn expand_variables(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest
            .strip_prefix('(')
            .and_then(|inner| inner.split_once(')'))
        {
            out.push_str(&env[name]);
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

fn waiting_status(reason: &str, message: &str) -> Value {
    json!({
        "phase": "Pending", "startTime": STARTED,
        "conditions": [{"type": "PodScheduled", "status": "True"},
            {"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady"}],
        "containerStatuses": [{"name": "massgen", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}}}],
    })
}

fn running_status() -> Value {
    json!({
        "phase": "Running", "startTime": STARTED,
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{"name": "massgen", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": STARTED}}}],
    })
}

fn ended_status(status: ExitStatus, output: &[u8]) -> Value {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    let start = output.len().saturating_sub(MESSAGE_BYTES_MAX);
    let mut terminated = json!({"exitCode": code, "startedAt": STARTED, "finishedAt": STARTED});
    let phase = if code == 0 {
        terminated["reason"] = json!("Completed");
        "Succeeded"
    } else {
        terminated["reason"] = json!("Error");
        terminated["message"] = json!(String::from_utf8_lossy(&output[start..]));
        "Failed"
    };
    json!({
        "phase": phase, "startTime": STARTED,
        "containerStatuses": [{"name": "massgen", "ready": false, "restartCount": 0,
            "state": {"terminated": terminated}}],
    })
}

/// Returns what clients ask first: which kinds of objects there are.
fn discovery(path: &str) -> Option<Value> {
    let resource = |name: &str, kind: &str| {
        json!({"name": name, "singularName": "", "namespaced": true, "kind": kind,
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update",
                "watch"]})
    };
    let version = json!({"groupVersion": "batch/v1", "version": "v1"});
    Some(match path {
        "/version" => json!({"major": "1", "minor": "20", "gitVersion": "v1.20.2",
            "platform": "linux/amd64"}),
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": []}),
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": "batch", "versions": [version], "preferredVersion": version}]}),
        "/api/v1" => json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            resource("pods", "Pod"), resource("events", "Event")]}),
        "/apis/batch/v1" => json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "batch/v1", "resources": [resource("jobs", "Job")]}),
        _other => return None,
    })
}

fn list<'o>(
    version: &str,
    kind: &str,
    items: impl Iterator<Item = &'o Value>,
    query: &str,
) -> ScriptedResponse {
    let query = query.replace("%2F", "/").replace("%3D", "=");
    let mut terms = query.split('&');
    let selector = terms.find_map(|term| term.strip_prefix("labelSelector="));
    let (label, value) = selector
        .and_then(|selector| selector.split_once('='))
        .unwrap_or_default();
    let is_selected =
        |item: &&Value| label.is_empty() || item["metadata"]["labels"][label] == value;
    let items: Vec<&Value> = items.filter(is_selected).collect();
    let list = json!({"kind": format!("{kind}List"), "apiVersion": version,
        "metadata": {"resourceVersion": "1"}, "items": items});
    object(200, &list)
}

fn failure(code: u16, reason: &str, message: &str) -> ScriptedResponse {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": message, "reason": reason, "code": code});
    object(code, &status)
}

fn object(code: u16, object: &Value) -> ScriptedResponse {
    let headers = ["content-type: application/json"];
    ScriptedResponse::whole(&format!("{code} Answer"), &headers, object.to_string())
}
