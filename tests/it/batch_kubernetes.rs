//! Batches on Kubernetes, with the real `kubectl` and a cluster whose API is that of the tests: whatever
//! the cluster does to pods and Jobs, each cell has one result and is paid once.
#![expect(
    clippy::disallowed_types,
    reason = "the output of a process goes to a file"
)]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::batch::start_massgen;
use crate::batch_queue::{
    RUN, SECRET, batch_dir, batch_files, batch_project, check_no_secret_below, check_results,
    open_claims,
};
use crate::kubernetes_cluster::{ClusterFault, KubernetesCluster, NAMESPACE, SECRET_VALUE};
use crate::project::{Project, binary};
use crate::slurm_cluster::{TIME_MAX, contains};
use crate::waiting::wait_until;

const ON: [&str; 4] = ["--on", "kubernetes", "--kubernetes", "pods.yaml"];

/// Returns the file of the pods: a line for the context, the path of massgen and that of the volume.
fn pods_file(context: &str, massgen: &Path, mount_path: &Path) -> String {
    format!(
        "context: {context}\nnamespace: {NAMESPACE}\nimage: example.org/massgen:1\n\
         massgen: {}\nvolumes: [{{persistent_volume_claim: home, mount_path: {}}}]\n\
         secrets: [{{name: model-keys, env: [OPENAI_API_KEY]}}]\n",
        massgen.display(),
        mount_path.display()
    )
}

/// Returns a project with so many tasks and the settings for `cluster`.
fn on_kubernetes(count: usize, cluster: &KubernetesCluster) -> Project {
    let project = batch_project(count);
    let root = project.path("");
    let file = pods_file("lab", &binary(), root.parent().unwrap());
    project
        .file("pods.yaml", file)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("PATH", std::env::var_os("PATH").unwrap())
}

/// Starts a command whose error output is the file `stderr`.
fn start_with_stderr_file(project: &Project, arguments: &[&str]) -> Child {
    let stderr = File::create(project.path("stderr")).unwrap();
    let mut command = project.command();
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(stderr);
    command.spawn().unwrap()
}

fn has_printed(project: &Project, text: &str) -> bool {
    fs::read_to_string(project.path("stderr")).is_ok_and(|stderr| stderr.contains(text))
}

fn ends_with(project: &Project, text: &str) -> bool {
    let ends = batch_dir(project).unwrap().join("ends");
    batch_files(project, "ends")
        .iter()
        .any(|name| fs::read_to_string(ends.join(name)).is_ok_and(|end| end.contains(text)))
}

#[test]
fn a_pod_is_evicted_and_a_job_deleted_and_each_cell_has_one_result_and_one_bill() {
    const CELLS: usize = 9;
    let cluster = KubernetesCluster::start();
    let project = on_kubernetes(CELLS, &cluster);
    let money = ["--parallel", "3", "--max-cost-usd", "100"];
    let mut control = start_massgen(&project, &[&RUN[..], &ON, &money].concat());
    wait_until("three pods, which have claimed", TIME_MAX, || {
        cluster.running().len() == 3 && open_claims(&project).len() == 3
    });
    // The key of the cluster is in pods alone, and that of the shell nowhere.
    for process in cluster.running().values() {
        let environ = fs::read(format!("/proc/{process}/environ")).unwrap();
        assert!(contains(&environ, SECRET_VALUE.as_bytes()));
        assert!(!contains(&environ, SECRET.as_bytes()));
    }
    let manifests = serde_json::to_string(&cluster.manifests()).unwrap();
    assert!(!manifests.contains(SECRET) && !manifests.contains(SECRET_VALUE));
    check_no_secret_below(&batch_dir(&project).unwrap());
    let pod = open_claims(&project).into_keys().next().unwrap();
    assert!(cluster.running().contains_key(&pod), "{pod}");
    cluster.evict(&pod);
    wait_until("its cell is free", TIME_MAX, || {
        ends_with(&project, "is gone")
    });
    wait_until("another pod", TIME_MAX, || cluster.running().len() == 3);
    assert_eq!(cluster.manifests().len(), 1, "the Job replaces the pod");
    control.kill().unwrap();
    control.wait().unwrap();
    cluster.set_fault(ClusterFault::Down);
    let refused = project.retyped(["batch", "resume"]).failure(3);
    let stderr = refused.stderr();
    assert!(
        stderr.contains("does not answer: Error from server"),
        "{stderr}"
    );
    cluster.set_fault(ClusterFault::None);
    let project = refused.then::<&str>([]);
    let mut control = start_massgen(&project, &["batch", "resume"]);
    cluster.delete_jobs();
    wait_until("another Job", TIME_MAX, || cluster.manifests().len() >= 2);
    cluster.set_fault(ClusterFault::Down);
    wait_until("two polls in vain", TIME_MAX, || cluster.refusals() >= 2);
    cluster.set_fault(ClusterFault::None);
    assert_eq!(control.wait().unwrap().code(), Some(0));
    let finished = project.retyped(["batch", "status"]).success();
    let _checked = check_results(finished, CELLS, "kubernetes");
    assert!(cluster.jobs().is_empty(), "{:?}", cluster.jobs());
    assert!(cluster.running().is_empty());
}

#[test]
fn a_full_cluster_is_a_state_and_a_cancelled_batch_leaves_no_jobs() {
    let cluster = KubernetesCluster::start();
    let project = on_kubernetes(2, &cluster);
    cluster.set_fault(ClusterFault::PodQuota);
    let mut control = start_with_stderr_file(&project, &[&RUN[..], &ON].concat());
    wait_until("a quota", TIME_MAX, || {
        has_printed(&project, "exceeded quota: small")
    });
    cluster.set_fault(ClusterFault::Full);
    wait_until("a full cluster", TIME_MAX, || {
        has_printed(&project, "wait in the queue: 0/2 nodes are available")
    });
    cluster.set_fault(ClusterFault::None);
    wait_until("claims", TIME_MAX, || open_claims(&project).len() == 2);
    let cancelled = project.retyped(["batch", "cancel"]).success();
    let project = cancelled.then::<&str>([]);
    assert_eq!(control.wait().unwrap().code(), Some(130));
    assert!(cluster.jobs().is_empty() && cluster.running().is_empty());
    assert!(ends_with(&project, "\"parked\""));
    let finished = project.retyped(["batch", "resume"]).success();
    let _checked = check_results(finished, 2, "kubernetes");
}

#[test]
fn a_refusal_of_the_cluster_is_reported_and_no_job_remains() {
    let cluster = KubernetesCluster::start();
    let mut project = on_kubernetes(1, &cluster);
    let root = project.path("").parent().unwrap().to_owned();
    let usual = pods_file("lab", &binary(), &root);
    let of = |context: &str| pods_file(context, &binary(), &root);
    let cases = [
        (
            of("nowhere"),
            ClusterFault::None,
            3,
            "the kubeconfig has no such context",
        ),
        (
            of("away"),
            ClusterFault::None,
            3,
            "the API server of the cluster does not answer",
        ),
        (
            usual.clone(),
            ClusterFault::NoPermission,
            3,
            "cannot list resource \"jobs\"",
        ),
        (
            usual.clone(),
            ClusterFault::JobQuota,
            3,
            "the quota of the namespace is used up",
        ),
        (
            usual.clone(),
            ClusterFault::NoImage,
            3,
            "`example.org/massgen:1` cannot be used",
        ),
        (
            pods_file("lab", Path::new("/nowhere/massgen"), &root),
            ClusterFault::None,
            3,
            "StartError: failed to create",
        ),
        (
            usual.replace("model-keys", "other"),
            ClusterFault::None,
            3,
            "CreateContainerConfigError: secret \"other\" not found",
        ),
        (
            usual.replace(NAMESPACE, "elsewhere"),
            ClusterFault::None,
            3,
            "the namespace does not exist",
        ),
        (
            pods_file("lab", &binary(), &root.join("home")),
            ClusterFault::None,
            2,
            "no volume is mounted there",
        ),
    ];
    let mut wrong = Vec::new();
    let arguments = [&RUN[..], &ON].concat();
    for (file, fault, code, expected) in cases {
        cluster.set_fault(fault);
        project = project.file("pods.yaml", file).retyped(arguments.clone());
        let finished = project.failure(code);
        let stderr = finished.stderr();
        let is_clean = cluster.jobs().is_empty();
        if !(stderr.contains(expected) && stderr.contains("hint:") && is_clean) {
            wrong.push(format!("{expected}: {is_clean}: {stderr}"));
        }
        cluster.set_fault(ClusterFault::None);
        project = finished.then::<&str>([]);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let project = project.file("pods.yaml", usual).env("PATH", "/nowhere");
    let missing = project.retyped(arguments).failure(3);
    let stderr = missing.stderr();
    assert!(stderr.contains("cannot find `kubectl`"), "{stderr}");
    let bare = missing.then([&RUN[..], &ON[..2]].concat()).failure(2);
    let stderr = bare.stderr();
    assert!(stderr.contains("`--kubernetes FILE`"), "{stderr}");
}
