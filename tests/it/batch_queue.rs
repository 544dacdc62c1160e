//! Batches as arrays of jobs: on a real Slurm of four nodes, and by the command lines that the
//! document has for other queues. Whatever is killed, each cell has one result and is paid once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use massgen::config::typed_yaml::read_typed;
use serde_json::{Value, json};

use crate::batch::{DOCUMENT, start_massgen};
use crate::docs::blocks;
use crate::project::{FinishedCommand, Project, binary};
use crate::slurm_cluster::{SlurmCluster, TIME_MAX, contains, processes};
use crate::waiting::wait_until;

/// A value that must not be seen anywhere.
const SECRET: &str = "sk-never-to-be-seen-4711";

/// The first reply is paid and quick, the second takes its time.
const TEAM: &str = r#"
agents:
  - id: writer
    backend:
      type: scripted
      cwd: workspace
      replies:
        - when: {last: "<task>"}
          usage: {output_tokens: 1000}
          calls: [{name: list_directory, arguments: {path: "{{cwd}}"}}]
        - delay_ms: 6000
          calls:
            - {name: write_file, arguments: {path: "{{cwd}}/b.txt", content: "new\n"}}
            - {name: new_answer, arguments: {content: "an answer"}}
"#;

/// A dollar for a thousand tokens.
const PRICES: &str =
    "models:\n  - name: scripted\n    usd_per_million_tokens: {input: 0, output: 1000}\n";

const RUN: [&str; 7] = [
    "batch",
    "run",
    "tasks.jsonl",
    "--config",
    "team.yaml",
    "--models",
    "prices.yaml",
];

/// Returns a project with so many tasks.
fn batch_project(count: usize) -> Project {
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
    batch_project(count)
        .env("SLURM_CONF", conf)
        .env("PATH", "/usr/bin:/bin")
}

/// Returns the directory of the only batch, once it exists.
fn batch_dir(project: &Project) -> Option<PathBuf> {
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
fn batch_files(project: &Project, part: &str) -> Vec<String> {
    batch_dir(project).map_or_else(Vec::new, |dir| names(&dir.join(part)))
}

/// Returns whether the attempt `name` at a cell has neither a result nor an end.
fn is_open(dir: &Path, name: &str) -> bool {
    let (cell, _) = name.rsplit_once('.').unwrap();
    let note = fs::read(dir.join("notes").join(name)).unwrap_or_default();
    let note: Value = serde_json::from_slice(&note).unwrap_or_default();
    note["end"].is_null() && !dir.join(format!("results/{cell}.jsonl")).exists()
}

/// Returns the open attempts, by the host that works on them.
fn open_attempts(project: &Project) -> Vec<(String, String)> {
    let Some(dir) = batch_dir(project) else {
        return Vec::new();
    };
    let open = names(&dir.join("attempts")).into_iter().filter_map(|name| {
        let text = fs::read(dir.join("attempts").join(&name)).ok()?;
        let mark: Value = serde_json::from_slice(&text).ok()?;
        let host = mark["host"].as_str()?.to_owned();
        is_open(&dir, &name).then_some((host, name))
    });
    open.collect()
}

/// Returns whether an attempt ended in this way.
fn has_end(project: &Project, end: &str) -> bool {
    let dir = batch_dir(project).unwrap();
    names(&dir.join("notes")).iter().any(|name| {
        let note = fs::read(dir.join("notes").join(name)).unwrap_or_default();
        let note: Value = serde_json::from_slice(&note).unwrap_or_default();
        note["end"] == end
    })
}

/// Checks that each of `count` cells has one result, one run and one bill.
#[track_caller]
fn check_results(
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
    assert_eq!(
        state["money"]["spent_usd"].as_f64(),
        Some(f64::from(u32::try_from(count).unwrap())),
        "{state}"
    );
    (hosts, finished.then::<&str>([]))
}

/// Checks that `SECRET` is in no file below `dir`, where others may be at work.
#[track_caller]
fn check_no_secret_below(dir: &Path) {
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

/// Lets the jobs begin that Slurm has requeued: it would wait for two minutes.
fn start_requeued(cluster: &SlurmCluster) {
    let waiting = ["--noheader", "--array", "--format=%i %r", "--state=PD"];
    let listed = cluster.run("squeue", &waiting);
    let requeued: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.trim().strip_suffix(" BeginTime"))
        .collect();
    if requeued.is_empty() {
        return;
    }
    // For a second, a node refuses the job that it has just ended: "Job credential revoked".
    std::thread::sleep(Duration::from_secs(2));
    for job in requeued {
        let update = ["update", &format!("JobId={job}"), "StartTime=now"];
        cluster.run("scontrol", &update);
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
    let job = ["--partition=main", "--time=10", "--nice=1"];
    let job = job.map(|option| format!("--slurm-option={option}"));
    let job = job.each_ref().map(String::as_str);
    let arguments = [&RUN[..], &queue, &job].concat();
    let mut control = start_massgen(&project, &arguments);
    wait_until("four jobs, which have begun", TIME_MAX, || {
        // The site allows four indexes, so jobs have two or three cells.
        cluster.running().len() == 4 && open_attempts(&project).len() == 4
    });
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
    let mut jobs = 0;
    for pid in processes() {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let line = read("cmdline");
        if contains(&line, b"\0batch\0job\0") {
            jobs += 1;
            assert!(!contains(&read("environ"), SECRET.as_bytes()));
            assert!(!contains(&line, SECRET.as_bytes()));
        }
    }
    assert!(jobs >= 4, "{jobs}");
    // One job is told to end, as before its time limit. It has the id of the whole array, and requeues
    // nothing but itself.
    let running = cluster.running();
    let (_, parked) = running.iter().find(|(_, job)| job.ends_with("_3")).unwrap();
    cluster.run("scancel", &["--signal=TERM", "--batch", parked]);
    wait_until("its run is parked", TIME_MAX, || {
        has_end(&project, "parked")
    });
    wait_until("it is requeued", TIME_MAX, || {
        let state = cluster.run("squeue", &["--noheader", "--format=%r", "--job", parked]);
        state.trim() == "BeginTime"
    });
    let running = cluster.running();
    assert_eq!(running.len(), 3, "{running:?}");
    // Another one is requeued, and a node loses its power; then the control process is killed.
    cluster.run("scontrol", &["requeue", &running[0].1]);
    let node = &running[2].0;
    let lost = open_attempts(&project)
        .into_iter()
        .find(|(host, _)| host == node);
    let (_, lost) = lost.expect("the node has a cell");
    cluster.pull_the_plug(node);
    // Slurm notices that itself, half a minute later.
    let down = [
        "update",
        &format!("NodeName={node}"),
        "State=DOWN",
        "Reason=power",
    ];
    cluster.run("scontrol", &down);
    control.kill().unwrap();
    control.wait().unwrap();
    // The next one finds the jobs in the queue.
    let mut control = start_massgen(&project, &["batch", "resume"]);
    wait_until("the end of the batch", TIME_MAX, || {
        start_requeued(&cluster);
        control.try_wait().unwrap().is_some()
    });
    assert_eq!(batch_files(&project, "submissions"), ["1"]);
    let finished = project.retyped(["batch", "resume"]).success();
    let (hosts, project) = check_results(finished, CELLS, "slurm");
    assert!(
        hosts.len() >= 2 && hosts.iter().all(|host| host.starts_with('n')),
        "{hosts:?}"
    );
    let (cell, attempt) = lost.rsplit_once('.').unwrap();
    let next = format!("{cell}.{}", attempt.parse::<u32>().unwrap() + 1);
    assert!(batch_files(&project, "attempts").contains(&next), "{next}");
    wait_until("an empty queue", TIME_MAX, || {
        cluster.run("squeue", &["--noheader"]).trim().is_empty()
    });
}

#[test]
fn a_cancelled_batch_parks_on_every_node() {
    let Some(cluster) = SlurmCluster::start(1001) else {
        return;
    };
    let project = on_slurm(4, &cluster);
    let refused = project
        .args(RUN)
        .args(["--on", "slurm", "--slurm-option=--partition=no-such"])
        .failure(3);
    let stderr = refused.stderr();
    assert!(
        stderr.contains("`sbatch` failed") && stderr.contains("--slurm-option"),
        "{stderr}"
    );
    fs::remove_dir_all(refused.project().path(".massgen/batches")).unwrap();
    let project = refused.then::<&str>([]);
    let arguments = [&RUN[..], &["--on", "slurm", "--parallel", "3"]].concat();
    let mut control = start_massgen(&project, &arguments);
    wait_until("three jobs, which have begun", TIME_MAX, || {
        cluster.running().len() == 3 && open_attempts(&project).len() == 3
    });
    let cancelled = project.retyped(["batch", "cancel"]).success();
    assert_eq!(control.wait().unwrap().code(), Some(130));
    wait_until("no job", TIME_MAX, || {
        cluster.run("squeue", &["--noheader"]).trim().is_empty()
    });
    let finished = cancelled.then(["batch", "status", "--json"]).success();
    let state: Value = serde_json::from_str(finished.stdout()).unwrap();
    let cells = &state["cells"];
    assert_eq!(
        (&cells["running"], &cells["parked"], &cells["waiting"]),
        (&json!(0), &json!(3), &json!(1)),
        "{state}"
    );
    let finished = finished.then(["batch", "resume"]).success();
    let _checked = check_results(finished, 4, "slurm");
}

/// Returns the first block of `language` after `heading` in the document about batches.
fn block_after(heading: &str, language: &str) -> String {
    let (_, text) = DOCUMENT.split_once(heading).unwrap();
    blocks(text, language)[0].to_owned()
}

/// Runs lines of a shell in `project`, with massgen in `PATH` and these variables.
fn shell(project: &Project, lines: &str, variables: &[(&str, String)]) -> String {
    let bin = project.home("bin");
    if !bin.exists() {
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(binary(), bin.join("massgen")).unwrap();
    }
    let output = Command::new("sh")
        .args(["-euc", lines])
        .current_dir(project.path(""))
        .env("HOME", project.home(""))
        .env(
            "PATH",
            format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()),
        )
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    assert!(output.status.success(), "{lines}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn task_spooler_runs_an_array_as_the_document_says() {
    let project = batch_project(6);
    let socket = (
        "TS_SOCKET",
        project.home("tsp.socket").display().to_string(),
    );
    let spool = |lines: &str| shell(&project, lines, std::slice::from_ref(&socket));
    spool("tsp -S 3");
    let script = block_after("### task-spooler", "sh").replace(
        "tasks.jsonl --config team.yaml",
        "tasks.jsonl --config team.yaml --models prices.yaml --max-cost-usd 100",
    );
    spool(&script);
    wait_until("three jobs have begun", TIME_MAX, || {
        open_attempts(&project).len() == 3
    });
    check_no_secret_below(&batch_dir(&project).unwrap());
    // One process is killed; then the batch is cancelled, and submitted again.
    let killed = spool("tsp | awk '$2 == \"running\" {print $1; exit}'");
    let kill = format!("kill -9 $(tsp -p {})", killed.trim());
    spool(&kill);
    spool("massgen batch cancel");
    wait_until("the jobs end", TIME_MAX, || {
        !spool("tsp").contains("running") && !spool("tsp").contains("queued")
    });
    spool(&script.replace(
        "batch run tasks.jsonl --config team.yaml --models prices.yaml --max-cost-usd 100",
        "batch resume",
    ));
    let is_over = || batch_files(&project, "results").len() == 6;
    wait_until("the end of the batch", TIME_MAX, is_over);
    spool("tsp -K");
    let finished = project.retyped(["batch", "resume"]).success();
    let _checked = check_results(finished, 6, "array");
}

#[test]
fn the_manifest_of_kubernetes_runs_its_index() {
    let manifest = read_typed::<Value>(&block_after("### Kubernetes", "yaml"));
    let manifest = manifest.map_err(|error| error.to_string()).unwrap();
    assert_eq!(manifest["apiVersion"], "batch/v1", "{manifest}");
    let spec = &manifest["spec"];
    assert_eq!(spec["completionMode"], "Indexed");
    let container = &spec["template"]["spec"]["containers"][0];
    let words = container["command"].as_array().unwrap();
    assert_eq!((&words[0], &words[1]), (&json!("/bin/sh"), &json!("-c")));
    let project = batch_project(3);
    let arguments = [
        "--on",
        "array",
        "--cells-per-job",
        "2",
        "--max-cost-usd",
        "100",
    ];
    let submitted = project.args([&RUN[..], &arguments].concat()).success();
    let submission: Vec<&str> = submitted.stdout().split_whitespace().collect();
    let [batch, number, indexes] = submission[..] else {
        panic!("{submission:?}");
    };
    assert_eq!((number, indexes), ("1", "2"));
    let line = words[2].as_str().unwrap();
    assert!(line.contains("BATCH 1 \"$JOB_COMPLETION_INDEX\""), "{line}");
    let dir = submitted.project().path("").display().to_string();
    let line = line
        .replace("BATCH", batch)
        .replace("/home/me/project", &dir);
    for index in 0..2 {
        let variable = ("JOB_COMPLETION_INDEX", index.to_string());
        shell(submitted.project(), &line, &[variable]);
    }
    let finished = submitted.then(["batch", "status", "--json"]).success();
    let _checked = check_results(finished, 3, "array");
}

#[test]
fn keys_of_the_shell_are_not_in_jobs_and_the_start_says_so() {
    let team = "agents:\n  - id: a\n    backend: {type: openai, model: gpt-5}\n";
    let project = batch_project(1).file("team.yaml", team);
    let refused = project.args([&RUN[..], &["--on", "slurm"]].concat()).run();
    let stderr = refused.stderr();
    assert_ne!(refused.code(), Some(0));
    assert!(stderr.contains("`~/.massgen/.env`"), "{stderr}");
    assert!(!stderr.contains(SECRET));
    assert!(batch_dir(refused.project()).is_none());
    let foreign = refused
        .then([&RUN[..], &["--slurm-option=--account=a"]].concat())
        .failure(2);
    assert!(
        foreign
            .stderr()
            .contains("`--slurm-option` applies only to"),
        "{}",
        foreign.stderr()
    );
}
