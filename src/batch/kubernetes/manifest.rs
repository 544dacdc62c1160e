//! The manifest of a Job, whose pods claim cells until none is left. It has only fields that
//! Kubernetes 1.20 knows, and names secrets without their values.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::batch::kubernetes::names::{batch_label, job_name_prefix};
use crate::batch::kubernetes::settings::{
    KubernetesSettings, LABEL_DOMAIN, NODE_VARIABLE, POD_VARIABLE, PodVolume,
};
use crate::batch::worker_script::WorkerScript;

/// The label of the Jobs and pods of a batch.
pub const BATCH_LABEL: &str = "massgen.dev/batch";
/// How many pods of a Job may fail, for each of its workers. If more of them have failed,
/// Kubernetes ends all pods of the Job.
const FAILURES_PER_WORKER: usize = 6;
/// Mode of the files of secrets: readable for their owner and their group.
const SECRET_MODE: u32 = 0o440;

/// Returns the selector for the Jobs and pods of `batch`.
pub fn batch_selector(batch: &str) -> String {
    format!("{BATCH_LABEL}={}", batch_label(batch))
}

/// Returns the manifest of a Job with this many workers, none of them on the nodes in
/// `excluded_nodes`.
pub fn job_manifest(
    settings: &KubernetesSettings,
    script: &WorkerScript,
    workers: usize,
    excluded_nodes: &[String],
) -> Value {
    let mut labels = settings.labels.clone();
    labels.insert(BATCH_LABEL.to_owned(), batch_label(&script.batch));
    labels.insert(format!("{LABEL_DOMAIN}engine"), script.engine.to_owned());
    let annotations = &settings.annotations;
    let prefix = job_name_prefix(&script.batch);
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": prefix, "labels": &labels, "annotations": annotations},
        "spec": {
            "parallelism": workers,
            "backoffLimit": workers.saturating_mul(FAILURES_PER_WORKER),
            "ttlSecondsAfterFinished": settings.ttl_seconds(),
            "activeDeadlineSeconds": settings.active_deadline_seconds,
            "template": {
                "metadata": {"labels": &labels, "annotations": annotations},
                "spec": pod_spec(settings, script, excluded_nodes),
            },
        },
    });
    remove_absent(job)
}

fn pod_spec(
    settings: &KubernetesSettings,
    script: &WorkerScript,
    excluded_nodes: &[String],
) -> Value {
    let secrets = settings.image_pull_secrets.iter();
    let pull_secrets: Vec<Value> = secrets.map(|name| json!({"name": name})).collect();
    let volumes: Vec<Value> = mounts(settings).map(|mount| mount.volume).collect();
    let is_restricted = settings.restricted;
    json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": settings.grace_seconds(),
        "serviceAccountName": settings.service_account_name,
        "priorityClassName": settings.priority_class_name,
        "runtimeClassName": settings.runtime_class_name,
        "nodeSelector": settings.node_selector,
        "tolerations": settings.tolerations,
        "imagePullSecrets": pull_secrets,
        "affinity": node_exclusion(excluded_nodes),
        "securityContext": {
            "runAsUser": settings.run_as_user,
            "runAsGroup": settings.run_as_group,
            "fsGroup": settings.fs_group,
            "runAsNonRoot": (is_restricted || settings.run_as_user.is_some_and(|id| id > 0))
                .then_some(true),
            "seccompProfile": is_restricted.then(|| json!({"type": "RuntimeDefault"})),
        },
        "volumes": volumes,
        "containers": [container(settings, script)],
    })
}

fn container(settings: &KubernetesSettings, script: &WorkerScript) -> Value {
    let mut command: Vec<String> = script
        .words()
        .iter()
        .map(|word| escape_references(word))
        .collect();
    for (flag, variable) in [("--job", POD_VARIABLE), ("--node", NODE_VARIABLE)] {
        command.extend([flag.to_owned(), format!("$({variable})")]);
    }
    let volume_mounts: Vec<Value> = mounts(settings).map(|mount| mount.volume_mount).collect();
    let is_restricted = settings.restricted;
    json!({
        "name": "massgen",
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": command,
        "workingDir": script.dir,
        "env": variables(settings, script),
        "volumeMounts": volume_mounts,
        "resources": {"requests": settings.requests, "limits": settings.limits},
        // The end of what massgen printed becomes part of the state of a pod that failed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": is_restricted.then(|| json!({
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
        })),
    })
}

/// Returns the variables of the container. The variables that the command refers to come first.
fn variables(settings: &KubernetesSettings, script: &WorkerScript) -> Vec<Value> {
    let field_variable = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut variables = vec![
        field_variable(POD_VARIABLE, "metadata.name"),
        field_variable(NODE_VARIABLE, "spec.nodeName"),
    ];
    // The settings take precedence over the user's variables, and secrets over both.
    let mut plain_variables: BTreeMap<&String, &String> = script.variables.iter().collect();
    plain_variables.extend(&settings.env);
    for name in settings.secret_variables() {
        plain_variables.remove(name);
    }
    let plain_variables = plain_variables.iter();
    variables.extend(
        plain_variables
            .map(|(name, value)| json!({"name": name, "value": escape_references(value)})),
    );
    for secret in &settings.secrets {
        let secret_variable = |key: &String| {
            let source = json!({"secretKeyRef": {"name": secret.name, "key": key}});
            json!({"name": key, "valueFrom": source})
        };
        variables.extend(secret.env.iter().map(secret_variable));
    }
    variables
}

/// A volume of a pod, and where it is mounted in the container.
struct PodMount {
    volume: Value,
    volume_mount: Value,
}

fn mounts(settings: &KubernetesSettings) -> impl Iterator<Item = PodMount> {
    let storage = settings.volumes.iter().enumerate().map(|(number, volume)| {
        let name = format!("storage-{number}");
        let PodVolume {
            persistent_volume_claim,
            host_path,
            mount_path,
            sub_path,
            read_only,
        } = volume;
        let claim = persistent_volume_claim.as_ref();
        let path = host_path.as_ref();
        PodMount {
            volume_mount: json!({
                "name": name, "mountPath": mount_path, "subPath": sub_path, "readOnly": read_only,
            }),
            volume: json!({
                "name": name,
                "persistentVolumeClaim": claim.map(|claim| json!({"claimName": claim})),
                "hostPath": path.map(|path| json!({"path": path, "type": "Directory"})),
            }),
        }
    });
    let numbered_secrets = settings.secrets.iter().enumerate();
    let secrets = numbered_secrets.filter_map(|(number, secret)| {
        let name = format!("secret-{number}");
        let path = secret.mount_path.as_ref()?;
        let source = json!({"secretName": secret.name, "defaultMode": SECRET_MODE});
        Some(PodMount {
            volume_mount: json!({"name": name, "mountPath": path, "readOnly": true}),
            volume: json!({"name": name, "secret": source}),
        })
    });
    storage.chain(secrets)
}

/// Returns an affinity that keeps pods off these nodes.
fn node_exclusion(nodes: &[String]) -> Value {
    if nodes.is_empty() {
        return Value::Null;
    }
    // An expression about the name of a node takes one value; all expressions of a term must hold.
    let is_other_than =
        |node: &String| json!({"key": "metadata.name", "operator": "NotIn", "values": [node]});
    let fields: Vec<Value> = nodes.iter().map(is_other_than).collect();
    let terms = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
}

/// Escapes what Kubernetes would expand in commands and values, as in `$(NAME)`.
fn escape_references(text: &str) -> String {
    text.replace('$', "$$")
}

/// Removes fields without a value, and those whose mapping or list is empty.
fn remove_absent(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let present_fields = fields
                .into_iter()
                .map(|(name, value)| (name, remove_absent(value)));
            let fields: Map<String, Value> = present_fields
                .filter(|(_, value)| !is_absent(value))
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(remove_absent).collect()),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::AbsPath;

    fn script() -> WorkerScript {
        WorkerScript {
            executable: AbsPath::new("/opt/mass$(gen)").unwrap(),
            dir: AbsPath::new("/home/u/p").unwrap(),
            batch: "batch_1".to_owned(),
            engine: "kubernetes",
            arguments: vec!["--require-sandbox".to_owned(), "overlay".to_owned()],
            variables: BTreeMap::from([("LANG".to_owned(), "C".to_owned())]),
        }
    }

    fn manifest(text: &str, workers: usize, without: &[&str]) -> Value {
        let settings = KubernetesSettings::parse(text, "k.yaml").unwrap();
        let without: Vec<String> = without.iter().map(|&name| name.to_owned()).collect();
        job_manifest(&settings, &script(), workers, &without)
    }

    #[test]
    fn a_small_file_gives_a_small_job() {
        let volume = "volumes: [{persistent_volume_claim: home, mount_path: /home/u}]";
        let labels = json!({"massgen.dev/batch": "batch_1", "massgen.dev/engine": "kubernetes"});
        let expected = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"generateName": "massgen-1-", "labels": labels},
            "spec": {
                "parallelism": 3,
                "backoffLimit": 18,
                "ttlSecondsAfterFinished": 3600,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "restartPolicy": "Never",
                        "automountServiceAccountToken": false,
                        "enableServiceLinks": false,
                        "terminationGracePeriodSeconds": 90,
                        "volumes": [
                            {"name": "storage-0", "persistentVolumeClaim": {"claimName": "home"}},
                        ],
                        "containers": [{
                            "name": "massgen",
                            "image": "m:1",
                            "command": [
                                "/opt/mass$$(gen)", "batch", "worker", "batch_1",
                                "--engine", "kubernetes", "--require-sandbox", "overlay",
                                "--job", "$(POD_NAME)", "--node", "$(NODE_NAME)",
                            ],
                            "workingDir": "/home/u/p",
                            "env": [
                                {"name": "POD_NAME",
                                 "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                                {"name": "NODE_NAME",
                                 "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                                {"name": "LANG", "value": "C"},
                            ],
                            "volumeMounts": [
                                {"name": "storage-0", "mountPath": "/home/u", "readOnly": false},
                            ],
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                        }],
                    },
                },
            },
        });
        assert_eq!(manifest(&format!("image: m:1\n{volume}"), 3, &[]), expected);
    }

    /// A file with every key.
    const CHOICES: &str = "
image: m:1
image_pull_policy: Always
image_pull_secrets: [registry]
volumes: [{host_path: /srv, mount_path: /data, sub_path: a, read_only: true}]
secrets: [{name: keys, env: [OPENAI_API_KEY]}, {name: files, mount_path: /run/keys}]
env: {LANG: de, X: $(HOME)}
requests: {cpu: '2'}
limits: {memory: 4Gi}
runtime_class_name: gvisor
service_account_name: batch
priority_class_name: low
node_selector: {pool: spot}
tolerations: [{key: spot, operator: Exists}]
labels: {team: a}
annotations: {note: b}
run_as_user: 1000
run_as_group: 1001
fs_group: 1002
restricted: true
active_deadline_seconds: 7200
ttl_seconds_after_finished: 60
termination_grace_period_seconds: 30
";

    #[test]
    fn each_choice_has_its_field() {
        let job = manifest(CHOICES, 1, &["n1", "n2"]);
        let pod = "/spec/template/spec";
        let affinity = "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        let apart =
            |node: &str| json!({"key": "metadata.name", "operator": "NotIn", "values": [node]});
        for (path, expected) in [
            ("/metadata/labels/team".to_owned(), json!("a")),
            (
                "/spec/template/metadata/annotations/note".to_owned(),
                json!("b"),
            ),
            ("/spec/activeDeadlineSeconds".to_owned(), json!(7200)),
            ("/spec/ttlSecondsAfterFinished".to_owned(), json!(60)),
            (format!("{pod}/terminationGracePeriodSeconds"), json!(30)),
            (format!("{pod}/serviceAccountName"), json!("batch")),
            (format!("{pod}/automountServiceAccountToken"), json!(false)),
            (format!("{pod}/priorityClassName"), json!("low")),
            (format!("{pod}/runtimeClassName"), json!("gvisor")),
            (format!("{pod}/nodeSelector/pool"), json!("spot")),
            (
                format!("{pod}/tolerations"),
                json!([{"key": "spot", "operator": "Exists"}]),
            ),
            (
                format!("{pod}/imagePullSecrets"),
                json!([{"name": "registry"}]),
            ),
            (
                format!("{pod}/{affinity}/nodeSelectorTerms/0/matchFields"),
                json!([apart("n1"), apart("n2")]),
            ),
            (
                format!("{pod}/securityContext"),
                json!({"runAsUser": 1000, "runAsGroup": 1001, "fsGroup": 1002,
                       "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}),
            ),
            (
                format!("{pod}/volumes"),
                json!([
                    {"name": "storage-0", "hostPath": {"path": "/srv", "type": "Directory"}},
                    {"name": "secret-1",
                     "secret": {"secretName": "files", "defaultMode": 0o440}},
                ]),
            ),
            (
                format!("{pod}/containers/0/volumeMounts"),
                json!([
                    {"name": "storage-0", "mountPath": "/data", "subPath": "a", "readOnly": true},
                    {"name": "secret-1", "mountPath": "/run/keys", "readOnly": true},
                ]),
            ),
            (
                format!("{pod}/containers/0/resources"),
                json!({"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}}),
            ),
            (
                format!("{pod}/containers/0/imagePullPolicy"),
                json!("Always"),
            ),
            (
                format!("{pod}/containers/0/securityContext"),
                json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}),
            ),
            (
                format!("{pod}/containers/0/env/2"),
                json!({"name": "LANG", "value": "de"}),
            ),
            (
                format!("{pod}/containers/0/env/3"),
                json!({"name": "X", "value": "$$(HOME)"}),
            ),
            (
                format!("{pod}/containers/0/env/4"),
                json!({"name": "OPENAI_API_KEY", "valueFrom":
                       {"secretKeyRef": {"name": "keys", "key": "OPENAI_API_KEY"}}}),
            ),
        ] {
            assert_eq!(job.pointer(&path), Some(&expected), "{path}");
        }
    }
}
