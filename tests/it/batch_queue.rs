//! Batches as jobs of queues: a real Slurm of four nodes, and a queue that is known by its commands
//! only. Whatever is killed, each cell has one result and is paid once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use massgen::batch::queue_commands::QueueCommands;
use massgen::batch::worker_script::WorkerScript;
use massgen::path::AbsPath;
use massgen::world::batch_scheduler::JobQueue;
use massgen::world::batch_scheduler::command_queue::CommandQueue;
use massgen::world::batch_scheduler::site_command::SiteCommands;
use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::batch::start_massgen;
use crate::project::{FinishedCommand, Project, binary};
use crate::slurm_cluster::{SlurmCluster, TIME_MAX, contains, processes};
use crate::waiting::wait_until;

/// A value that must not be seen anywhere.
pub(crate) const SECRET: &str = "sk-never-to-be-seen-4711";

/// The first reply is paid and quick, the second takes its time.
const TEAM: &str = r#"
agents:
  - id: writer
    backend:
      type: scripted
      cwd: workspace
      replies:
        - when: {system: "the final agent", last: "b.txt"}
          text: "done"
        - when: {system: "the final agent"}
          delay_ms: 6000
          calls: [{name: write_file, arguments: {path: "{{cwd}}/b.txt", content: "new\n"}}]
        - usage: {output_tokens: 1000}
          calls: [{name: new_answer, arguments: {content: "an answer"}}]
"#;

/// A dollar for a thousand tokens.
const PRICES: &str =
    "models:\n  - name: scripted\n    usd_per_million_tokens: {input: 0, output: 1000}\n";

pub(crate) const RUN: [&str; 7] = [
    "batch",
    "run",
    "tasks.jsonl",
    "--config",
    "team.yaml",
    "--models",
    "prices.yaml",
];

/// Returns a project with so many tasks.
pub(crate) fn batch_project(count: usize) -> Project {
    let task = |number| {
        let id = format!("c{number}");
        json!({"id": id, "text": "x", "project": {"path": "app"}}).to_string()
    };
    let tasks: Vec<String> = (0..count).map(task).collect();
    Project::new()
        .file("team.yaml", TEAM)
        .file("prices.yaml", PRICES)
        .file("tasks.jsonl", tasks.join("\n"))
        .file("app/a.txt", "old\n")
        .env("OPENAI_API_KEY", SECRET)
}

fn on_slurm(count: usize, cluster: &SlurmCluster) -> Project {
    let conf = cluster.path("slurm.conf");
    // The directory holds `ssh` with the settings of the cluster.
    let path = format!("{}:/usr/bin:/bin", cluster.path("bin").display());
    batch_project(count)
        .env("SLURM_CONF", conf)
        .env("PATH", path)
}

/// Returns the directory of the only batch, once it exists.
pub(crate) fn batch_dir(project: &Project) -> Option<PathBuf> {
    let mut batches = fs::read_dir(project.path(".massgen/batches")).ok()?;
    let dir = batches.next()?.unwrap().path();
    dir.join("batch.json").exists().then_some(dir)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// Returns the files of a part of the only batch.
pub(crate) fn batch_files(project: &Project, part: &str) -> Vec<String> {
    batch_dir(project).map_or_else(Vec::new, |dir| names(&dir.join(part)))
}

/// Returns the claims whose attempt has no end yet, by the job that has them.
pub(crate) fn open_claims(project: &Project) -> BTreeMap<String, Value> {
    let Some(dir) = batch_dir(project) else {
        return BTreeMap::new();
    };
    let open = names(&dir.join("claims")).into_iter().filter_map(|name| {
        let (cell, _) = name.rsplit_once('.')?;
        let has_ended = dir.join("ends").join(&name).exists()
            || dir.join(format!("results/{cell}.jsonl")).exists();
        let text = fs::read(dir.join("claims").join(&name)).ok()?;
        let owner: Value = serde_json::from_slice(&text).ok()?;
        let job = owner["job"].as_str()?.to_owned();
        (!has_ended).then_some((job, owner))
    });
    open.collect()
}

/// Checks that each of `count` cells has one result, one run and one bill.
#[track_caller]
pub(crate) fn check_results(
    finished: FinishedCommand,
    count: usize,
    engine: &str,
) -> (BTreeSet<String>, Project) {
    let finished = finished.then(["batch", "results", "--json"]).success();
    let results: Vec<Value> = finished
        .stdout()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(results.len(), count);
    let mut hosts = BTreeSet::new();
    for result in &results {
        let cell = &result["cell"];
        assert_eq!(result["outcome"], "completed", "{result}");
        assert_eq!(cell["engine"], engine, "{result}");
        assert_eq!(cell["files"], 1, "{result}");
        assert_eq!(
            cell["cost_usd"], 1.0,
            "a reply that was recorded is paid once: {result}"
        );
        hosts.insert(cell["host"].as_str().unwrap().to_owned());
        let dir = batch_dir(finished.project()).unwrap();
        let work = dir
            .join("cells")
            .join(cell["id"].as_str().unwrap())
            .join("work");
        // One that was killed before its first reply was recorded begins anew.
        let logs = work.join(".massgen/massgen_logs");
        let is_paid = |name: &String| {
            let events = fs::read_to_string(logs.join(name).join("turn_1/events.jsonl"));
            events.is_ok_and(|events| events.contains("model_request_finished"))
        };
        let paid = names(&logs).iter().filter(|name| is_paid(name)).count();
        assert_eq!(paid, 1, "a cell has one run, which is resumed");
    }
    let finished = finished.then(["batch", "status", "--json"]).success();
    let state: Value = serde_json::from_str(finished.stdout()).unwrap();
    assert_eq!(state["cells"]["completed"], count, "{state}");
    if !state["money"].is_null() {
        assert_eq!(
            state["money"]["spent_usd"].as_f64(),
            state["money"]["taken_usd"].as_f64()
        );
    }
    (hosts, finished.then::<&str>([]))
}

/// Checks that `SECRET` is in no file below `dir`, where others may be at work.
#[track_caller]
pub(crate) fn check_no_secret_below(dir: &Path) {
    assert!(dir.is_dir(), "{}", dir.display());
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        // It may have been removed meanwhile.
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                left.push(path);
            } else if path.is_file() {
                let text = fs::read(&path).unwrap_or_default();
                assert!(!contains(&text, SECRET.as_bytes()), "{}", path.display());
            }
        }
    }
}

#[test]
fn a_node_is_killed_and_each_cell_has_one_result_and_one_bill() {
    const CELLS: usize = 10;
    let Some(cluster) = SlurmCluster::start(4) else {
        return;
    };
    let project = on_slurm(CELLS, &cluster);
    let queue = ["--on", "slurm", "--parallel", "6", "--max-cost-usd", "100"];
    let job = "--partition main --time 10 --slurm-option=--nice=1";
    let job: Vec<&str> = job.split(' ').collect();
    let arguments = [&RUN[..], &queue, &job].concat();
    let mut control = start_massgen(&project, &arguments);
    wait_until("six jobs, which have claimed", TIME_MAX, || {
        cluster.running().len() == 6 && open_claims(&project).len() >= 4
    });
    let arrays: BTreeSet<String> = cluster
        .running()
        .into_iter()
        .map(|(_, job)| job.split_once('_').unwrap().0.to_owned())
        .collect();
    assert!(
        arrays.len() >= 2,
        "arrays are cut to what the site allows: {arrays:?}"
    );
    // Nothing that others can see has the key.
    let shown = cluster.run("scontrol", &["show", "job", "--details"]);
    assert!(
        shown.contains("JobName=batch_") && shown.contains("Requeue=1"),
        "{shown}"
    );
    assert!(
        shown.contains("Nice=1") && shown.contains("TimeLimit=00:10:00"),
        "{shown}"
    );
    assert!(!shown.contains(SECRET));
    check_no_secret_below(&cluster.path("state"));
    check_no_secret_below(&batch_dir(&project).unwrap());
    let mut workers = 0;
    for pid in processes() {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let line = read("cmdline");
        if contains(&line, b"\0worker\0") {
            workers += 1;
            assert!(!contains(&read("environ"), SECRET.as_bytes()));
            assert!(!contains(&line, SECRET.as_bytes()));
        }
    }
    assert!(workers >= 4, "{workers}");
    // One job is requeued and one is cancelled by hand, the control process is killed, and a node
    // loses its power.
    let running = cluster.running();
    let of_node = |node: &str| {
        let (_, job) = running.iter().find(|(name, _)| name == node).unwrap();
        job.clone()
    };
    cluster.run("scontrol", &["requeue", &of_node("n2")]);
    cluster.run("scancel", &["--signal=TERM", "--batch", &of_node("n3")]);
    wait_until("a cell on n1", TIME_MAX, || {
        let is_on_n1 = |owner: &Value| owner["host"] == "n1";
        open_claims(&project).values().any(is_on_n1)
    });
    cluster.pull_the_plug("n1");
    // Slurm notices that itself, half a minute later.
    let down = ["update", "NodeName=n1", "State=DOWN", "Reason=power"];
    cluster.run("scontrol", &down);
    control.kill().unwrap();
    control.wait().unwrap();
    let finished = project.retyped(["batch", "resume"]).success();
    let (hosts, project) = check_results(finished, CELLS, "slurm");
    assert!(
        hosts.len() >= 2 && hosts.iter().all(|host| host.starts_with('n')),
        "{hosts:?}"
    );
    let lost = batch_files(&project, "ends").into_iter().filter(|name| {
        let path = batch_dir(&project).unwrap().join("ends").join(name);
        fs::read_to_string(path)
            .unwrap()
            .contains("its job is gone")
    });
    assert!(lost.count() >= 1, "the node had a cell");
    // The jobs that Slurm would start again later have nothing to do.
    wait_until("an empty queue", TIME_MAX, || {
        cluster.run("squeue", &["--noheader"]).trim().is_empty()
    });
}

#[test]
fn a_cancelled_batch_parks_on_every_node_and_a_job_can_be_preempted() {
    let Some(mut cluster) = SlurmCluster::start(1001) else {
        return;
    };
    let project = on_slurm(4, &cluster);
    let refused = project
        .args(RUN)
        .args(["--on", "slurm", "--partition", "no-such"])
        .failure(3);
    let stderr = refused.stderr();
    assert!(
        stderr.contains("`sbatch` failed") && stderr.contains("--partition"),
        "{stderr}"
    );
    fs::remove_dir_all(refused.project().path(".massgen/batches")).unwrap();
    let project = refused.then::<&str>([]);
    let arguments = [&RUN[..], &["--on", "slurm", "--parallel", "4"]].concat();
    let mut control = start_massgen(&project, &arguments);
    wait_until("four jobs, which have claimed", TIME_MAX, || {
        cluster.running().len() == 4 && open_claims(&project).len() >= 3
    });
    // As Slurm does for a preemption: TERM to the script, then the job begins again.
    let job = open_claims(&project).into_keys().next().unwrap();
    cluster.run("scancel", &["--signal=TERM", "--batch", &job]);
    wait_until("its run is parked", TIME_MAX, || {
        let ends = batch_files(&project, "ends");
        ends.iter().any(|name| {
            let path = batch_dir(&project).unwrap().join("ends").join(name);
            fs::read_to_string(path).is_ok_and(|text| text.contains("\"parked\""))
        })
    });
    let cancelled = project.retyped(["batch", "cancel"]).success();
    assert_eq!(control.wait().unwrap().code(), Some(130));
    wait_until("no job", TIME_MAX, || cluster.running().is_empty());
    let finished = cancelled.then(["batch", "status", "--json"]).success();
    let state: Value = serde_json::from_str(finished.stdout()).unwrap();
    assert_eq!(state["cells"]["running"], 0, "{state}");
    assert!(state["cells"]["parked"].as_u64().unwrap() >= 1, "{state}");
    let finished = finished.then(["batch", "resume"]).success();
    let (_, project) = check_results(finished, 4, "slurm");
    // Again, with the commands of the site on another host.
    let project = project.env("SLURM_CONF", "/nowhere");
    cluster.start_ssh();
    let again = ["batch", "retry", "--only", "all", "--login", "127.0.0.1"];
    let retried = project.retyped(again).success();
    let results = retried.then(["batch", "results", "--json"]).success();
    let second = results.stdout().matches("\"engine\":\"slurm\"").count();
    assert_eq!(second, 4);
    assert_eq!(batch_files(results.project(), "earlier").len(), 4);
}

/// Returns the commands of a queue that is known by its commands only.
const SPOOLER: &str = r#"
submit: tsp sh {script}
list: |
  tsp | awk '$2 == "running" {print $1} $2 == "queued" || $2 == "allocating" {print $1, "waiting"}'
cancel: tsp -r {id}
"#;

#[test]
fn another_queue_is_used_by_the_commands_of_the_user() {
    let project = batch_project(6).file("queue.yaml", SPOOLER);
    let socket = project.home("tsp.socket");
    let spool = |arguments: &[&str]| {
        let output = Command::new("tsp")
            .args(arguments)
            .env("TS_SOCKET", &socket)
            .output();
        output.expect("install task-spooler: apt-get install task-spooler")
    };
    spool(&["-S", "3"]);
    let project = project.env("TS_SOCKET", &socket);
    let arguments = [
        &RUN[..],
        &[
            "--on",
            "commands",
            "--queue-commands",
            "queue.yaml",
            "--parallel",
            "4",
        ],
    ]
    .concat();
    let mut control = start_massgen(&project, &arguments);
    wait_until("two jobs have claimed", TIME_MAX, || {
        open_claims(&project).len() >= 2
    });
    check_no_secret_below(&batch_dir(&project).unwrap());
    let owner = open_claims(&project).into_values().next().unwrap();
    let killed = owner["pid"].as_u64().unwrap().to_string();
    let status = Command::new("kill").args(["-9", &killed]).status().unwrap();
    assert!(status.success());
    // The control process ends, and the jobs go on.
    let control_id = control.id().to_string();
    Command::new("kill")
        .args(["-TERM", &control_id])
        .status()
        .unwrap();
    assert_eq!(control.wait().unwrap().code(), Some(75));
    // The commands are as they were when the user named them.
    fs::write(
        project.path("queue.yaml"),
        "submit: touch stolen {script}\n",
    )
    .unwrap();
    let finished = project.retyped(["batch", "resume"]).success();
    let (_, project) = check_results(finished, 6, "commands");
    assert!(!project.path("stolen").exists());
    spool(&["-K"]);
    let without = project
        .retyped([&RUN[..], &["--on", "commands"]].concat())
        .failure(2);
    assert!(
        without.stderr().contains("--queue-commands FILE"),
        "{}",
        without.stderr()
    );
    let foreign = without
        .then([&RUN[..], &["--account", "a"]].concat())
        .failure(2);
    assert!(
        foreign.stderr().contains("`--account` does not apply"),
        "{}",
        foreign.stderr()
    );
}

#[tokio::test]
async fn a_job_that_has_the_id_of_one_that_began_is_not_cancelled() {
    let root = tempfile::tempdir().unwrap();
    let dir = AbsPath::new(root.path()).unwrap();
    // Job 1 has begun, so the queue has its id for something else now; job 2 waits.
    for (name, content) in [("1.id", "7"), ("1.txt", ""), ("2.id", "8")] {
        fs::write(root.path().join(name), content).unwrap();
    }
    let commands = "submit: 'true {script}'\nlist: printf '7 waiting\\n8 waiting\\n9 waiting\\n'\n\
                    cancel: echo {id} >> cancelled\n";
    let commands = QueueCommands::parse(commands, "queue.yaml").unwrap();
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let script = WorkerScript {
        executable: dir.clone(),
        dir: dir.clone(),
        batch: "batch_1".to_owned(),
        engine: "commands",
        arguments: Vec::new(),
        variables: BTreeMap::new(),
    };
    let site = SiteCommands::new(dir.clone(), &env, None);
    let mut queue = CommandQueue::new(site, commands, script, dir);
    queue.cancel_waiting().await.unwrap();
    let cancelled = fs::read_to_string(root.path().join("cancelled")).unwrap();
    assert_eq!(cancelled, "8\n");
}

#[test]
fn keys_of_the_shell_are_not_in_jobs_and_the_start_says_so() {
    let team = "agents:\n  - id: a\n    backend: {type: openai, model: gpt-5}\n";
    let project = batch_project(1)
        .file("team.yaml", team)
        .file("queue.yaml", SPOOLER);
    let arguments = [
        &RUN[..],
        &["--on", "commands", "--queue-commands", "queue.yaml"],
    ]
    .concat();
    let refused = project.args(arguments).run();
    let stderr = refused.stderr();
    assert_ne!(refused.code(), Some(0));
    assert!(stderr.contains("`~/.massgen/.env`"), "{stderr}");
    assert!(!stderr.contains(SECRET));
    assert!(batch_dir(refused.project()).is_none());
}

#[test]
fn a_node_with_a_weaker_sandbox_runs_no_cell() {
    if !geteuid().is_root() {
        return;
    }
    let finished = batch_project(1).args(RUN).success();
    let dir = batch_dir(finished.project()).unwrap();
    let batch = dir.file_name().unwrap().to_str().unwrap().to_owned();
    fs::remove_file(dir.join("results/c0.jsonl")).unwrap();
    fs::write(
        dir.join("ends/c0.1"),
        r#"{"end":"repeated","reason":"","spent_picodollars":0,"at":""}"#,
    )
    .unwrap();
    let worker = |node: &str| {
        format!(
            "{} batch worker {batch} --engine slurm --job 1_0 --node {node} \
             --require-sandbox namespaces",
            binary().display()
        )
    };
    let run = |line: &str| {
        let mut shell = Command::new("unshare");
        shell.args(["--user", "--map-root-user", "sh", "-c", line]);
        shell.current_dir(finished.project().path(""));
        shell.env("HOME", finished.project().home(""));
        shell.output().unwrap()
    };
    // No further namespaces can be created in this one, so that Landlock is all there is.
    let weak = format!(
        "echo 0 > /proc/sys/user/max_mnt_namespaces && exec {}",
        worker("n1")
    );
    let refused = run(&weak);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("`namespaces` is required"), "{stderr}");
    assert!(!dir.join("claims/c0.2").exists());
    assert!(dir.join("nodes/n1").exists());
    // Its next job does not try again, and another node runs the cell.
    assert_eq!(run(&worker("n1")).status.code(), Some(3));
    let admitted = run(&worker("n2"));
    assert!(
        admitted.status.success(),
        "{}",
        String::from_utf8_lossy(&admitted.stderr)
    );
    assert!(dir.join("results/c0.jsonl").exists());
}
