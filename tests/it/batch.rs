//! Batches of tasks by the real binary: each cell works on a copy and has one result, whatever is
//! killed, and all of them together spend no more than their limit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::docs::blocks;
use crate::project::{FinishedCommand, Project};

pub(crate) const DOCUMENT: &str = include_str!("../../docs/batch.md");

/// Changes, creates and deletes a file of its project.
const WORKS: &str = r#"
agents:
  - id: writer
    backend:
      type: scripted
      cwd: workspace
      replies:
        - when: {last: "old text"}
          text: "I work."
          delay_ms: 5
          calls:
            - {name: write_file, arguments: {path: "{{cwd}}/src/a.txt", content: "new text\n"}}
            - {name: delete_file, arguments: {path: "{{cwd}}/src/gone.txt"}}
            - {name: write_file, arguments: {path: "{{cwd}}/made/b.txt", content: "made\n"}}
        - when: {last: "<task>"}
          calls:
            - {name: read_text_file, arguments: {path: "{{cwd}}/src/a.txt"}}
            - {name: read_text_file, arguments: {path: "{{cwd}}/src/gone.txt"}}
        - delay_ms: 5
          usage: {output_tokens: 1000}
          calls: [{name: new_answer, arguments: {content: "an answer"}}]
"#;

/// A dollar for a thousand tokens.
const PRICES: &str = "\
models:
  - name: scripted
    usd_per_million_tokens: {input: 0, output: 1000}
";

fn task_lines(count: usize) -> String {
    let task = |number: usize| {
        let tag = if number.is_multiple_of(2) {
            "even"
        } else {
            "odd"
        };
        let task = json!({"id": format!("c{number}"), "text": "work", "tags": [tag],
            "project": {"path": "app"}});
        format!("{task}\n")
    };
    (0..count).map(task).collect()
}

/// Returns a project with a team and so many tasks.
fn project(count: usize) -> Project {
    Project::new()
        .file("team.yaml", WORKS)
        .file("prices.yaml", PRICES)
        .file("tasks.jsonl", task_lines(count))
        .file("app/src/a.txt", "old text\n")
        .file("app/src/gone.txt", "old text\n")
        .file("app/src/stays.txt", "stays\n")
}

const RUN: [&str; 5] = ["batch", "run", "tasks.jsonl", "--config", "team.yaml"];

/// Returns all files below `dir` with their contents, without massgen's own.
fn files_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().unwrap() != ".massgen" {
            found.extend(files_below(&path));
        } else if path.is_file() {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Returns the results of the last batch, by cell.
fn read_results(project: Project) -> (BTreeMap<String, Value>, Project) {
    let finished = project.retyped(["batch", "results", "--json"]).success();
    let lines = finished.stdout().lines();
    let results: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let count = results.len();
    let by_cell: BTreeMap<String, Value> = results
        .into_iter()
        .map(|result| (result["cell"]["id"].as_str().unwrap().to_owned(), result))
        .collect();
    assert_eq!(by_cell.len(), count, "a cell has one result");
    (by_cell, finished.then::<&str>([]))
}

/// Returns the directory of the only batch.
fn batch_dir(project: &Project) -> PathBuf {
    only_entry(&project.path(".massgen/batches"))
}

/// Returns the only entry of a directory.
fn only_entry(dir: &Path) -> PathBuf {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}

fn read_status(project: Project) -> (Value, Project) {
    let finished = project.retyped(["batch", "status", "--json"]).success();
    let state = serde_json::from_str(finished.stdout()).unwrap();
    (state, finished.then::<&str>([]))
}

#[test]
fn a_cell_works_on_a_copy_and_is_delivered_by_apply() {
    // A file name must not look like further lines of the patch.
    const MADE: &str = "made/q\n--- /dev/null\n+++ b/x\tb.txt";
    let team = WORKS.replace("made/b.txt", &MADE.escape_default().to_string());
    let project = project(3).file("team.yaml", team);
    let before = files_below(&project.path(""));
    let finished = project.args(RUN).success();
    assert_eq!(
        files_below(&finished.project().path("")),
        before,
        "nothing is delivered"
    );
    let table = finished.stdout().to_owned();
    for part in ["all", "even", "odd", "3 (100%)", "writer 3"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let (results, project) = read_results(finished.then::<&str>([]));
    for result in results.values() {
        assert_eq!(result["outcome"], "completed", "{result}");
        assert_eq!(result["type"], "result");
        assert_eq!(result["answer"], "an answer");
        assert_eq!(result["cell"]["attempts"], 1);
        assert_eq!(result["cell"]["engine"], "local");
        assert_eq!(result["cell"]["files"], 3, "{result}");
        assert_eq!(result["cell"]["winner"], "writer");
    }
    let patch = fs::read_to_string(batch_dir(&project).join("cells/c1/delivery.patch")).unwrap();
    for line in [
        "-old text\n+new text\n",
        "+made\n",
        "deleted file mode",
        "new file mode",
    ] {
        assert!(patch.contains(line), "{line}: {patch}");
    }
    let applied = project
        .retyped(["batch", "apply", "last", "c1", "--yes"])
        .success()
        .has_file("app/src/a.txt", "new text\n")
        .has_file(&format!("app/{MADE}"), "made\n")
        .has_file("app/src/stays.txt", "stays\n")
        .has_no("app/src/gone.txt");
    let undone = applied
        .then(["undo"])
        .success()
        .has_file("app/src/a.txt", "old text\n")
        .has_file("app/src/gone.txt", "old text\n")
        .has_no(&format!("app/{MADE}"));
    // What the user changed after the cell began stays.
    fs::write(undone.project().path("app/src/a.txt"), "mine\n").unwrap();
    let kept = undone
        .then(["batch", "apply", "last", "c2", "--yes"])
        .failure(4)
        .has_file("app/src/a.txt", "mine\n");
    let unknown = kept
        .then(["batch", "apply", "last", "c9", "--yes"])
        .failure(2);
    assert!(
        unknown.stderr().contains("has no cell `c9`"),
        "{}",
        unknown.stderr()
    );
    let patched = unknown.project().path("patched");
    fs::create_dir_all(patched.join("src")).unwrap();
    fs::write(patched.join("src/a.txt"), "old text\n").unwrap();
    fs::write(patched.join("src/gone.txt"), "old text\n").unwrap();
    let patch = batch_dir(unknown.project()).join("cells/c0/delivery.patch");
    let applied = std::process::Command::new("git")
        .args(["apply", "--unsafe-paths", patch.to_str().unwrap()])
        .current_dir(&patched)
        .output()
        .unwrap();
    assert!(applied.status.success(), "{applied:?}");
    assert_eq!(fs::read_to_string(patched.join(MADE)).unwrap(), "made\n");
    assert!(!patched.join("src/gone.txt").exists());
}

/// Starts a command in `project`.
pub(crate) fn start_massgen(project: &Project, arguments: &[&str]) -> Child {
    let mut command = project.command();
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Returns the processes that work on the batch in `project`.
fn processes(project: &Project) -> Vec<Pid> {
    let project_dir = project.path("");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let dir = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        if dir == project_dir.as_path() && String::from_utf8_lossy(&line).contains("batch\0") {
            found.extend(Pid::from_raw(number));
        }
    }
    found
}

/// Numbers that look random and are the same in each run (xorshift).
struct PseudoRandomNumbers(u64);

impl PseudoRandomNumbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Returns the number of cells of the test with kills: few, or 200 if `MASSGEN_TEST_LONG` is set.
fn killed_cells() -> usize {
    match std::env::var_os("MASSGEN_TEST_LONG") {
        Some(_) => 200,
        None => 24,
    }
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one story, from the kills to the result of each cell"
)]
fn each_cell_has_one_result_and_the_limit_holds_when_processes_are_killed() {
    let count = killed_cells();
    let project = project(count);
    let mut numbers = PseudoRandomNumbers(88_172_645_463_325_252);
    let pace = [
        "--parallel",
        "4",
        "--retries",
        "1000",
        "--models",
        "prices.yaml",
    ];
    let limit = format!("{}", 3 * count);
    let arguments: Vec<&str> = RUN
        .into_iter()
        .chain(pace)
        .chain(["--max-cost-usd", &limit])
        .collect();
    let mut control = start_massgen(&project, &arguments);
    let began = Instant::now();
    let has_begun = || {
        let batches = fs::read_dir(project.path(".massgen/batches"));
        batches
            .is_ok_and(|mut dirs| dirs.any(|dir| dir.unwrap().path().join("batch.json").exists()))
    };
    while !has_begun() {
        assert!(began.elapsed() < Duration::from_mins(2));
        sleep(Duration::from_millis(2));
    }
    let mut kills = 0;
    loop {
        sleep(Duration::from_millis(20 + numbers.below(120)));
        let running = processes(&project);
        if running.is_empty() || control.try_wait().unwrap().is_some() {
            drop(control.wait());
            let resumed = ["batch", "resume", "--parallel", "4"];
            if kills >= count {
                break;
            }
            control = start_massgen(&project, &resumed);
            kills += 1;
            continue;
        }
        let at = usize::try_from(numbers.below(u64::try_from(running.len()).unwrap())).unwrap();
        let signal = if numbers.below(5) == 0 {
            Signal::TERM
        } else {
            Signal::KILL
        };
        let _gone = kill_process(running[at], signal);
        kills += 1;
        if kills >= count || began.elapsed() > Duration::from_mins(1) {
            break;
        }
    }
    drop(control.kill());
    drop(control.wait());
    let finished = project
        .retyped(["batch", "resume", "--parallel", "4"])
        .success();
    let (results, project) = read_results(finished.then::<&str>([]));
    assert_eq!(results.len(), count);
    let mut spent = 0.0;
    for (cell, result) in &results {
        assert_eq!(result["outcome"], "completed", "{result}");
        assert_eq!(result["cell"]["files"], 3, "{result}");
        spent += result["cell"]["cost_usd"].as_f64().unwrap();
        let dir = batch_dir(&project).join("cells").join(cell);
        let read = |path: &str| fs::read_to_string(dir.join(path)).unwrap();
        assert_eq!(read("work/src/a.txt"), "new text\n");
        assert_eq!(read("changes/made/b.txt"), "made\n");
        let logs = fs::read_dir(dir.join("work/.massgen/massgen_logs")).unwrap();
        let is_paid = |log: &fs::DirEntry| {
            let events = fs::read_to_string(log.path().join("turn_1/events.jsonl"));
            events.is_ok_and(|events| events.contains("model_request_finished"))
        };
        let paid = logs.map(Result::unwrap).filter(is_paid);
        assert_eq!(paid.count(), 1, "a cell has one run, which is resumed");
    }
    // Each run makes one request of a dollar; one that was killed before its reply was recorded is
    // made again, and both are paid.
    let dollars = |count: usize| f64::from(u32::try_from(count).unwrap());
    let most = dollars(3 * count + 4);
    assert!(
        spent >= dollars(count) && spent <= most,
        "${spent} for {count} cells"
    );
    let (state, project) = read_status(project);
    assert_eq!(state["cells"]["completed"], count);
    assert_eq!(state["money"]["spent_usd"].as_f64(), Some(spent), "{state}");
    let app = files_below(&project.path("app"));
    assert_eq!(app.len(), 3, "nothing is delivered");
}

#[test]
fn a_batch_stops_at_its_cost_limit_and_resumes_with_a_higher_one() {
    let arguments = RUN
        .into_iter()
        .chain(["--models", "prices.yaml", "--max-cost-usd", "2.5"]);
    let finished = project(6)
        .args(arguments.chain(["--parallel", "2"]))
        .failure(5);
    assert!(
        finished
            .stderr()
            .contains("the money of the batch is spent"),
        "{}",
        finished.stderr()
    );
    assert!(
        !finished.stderr().contains("the run is parked"),
        "a cell without money has not failed: {}",
        finished.stderr()
    );
    let (state, project) = read_status(finished.then::<&str>([]));
    let (money, cells) = (&state["money"], &state["cells"]);
    let spent = money["spent_usd"].as_f64().unwrap();
    // At most one request for each running agent more than the limit.
    assert!(spent <= 2.5 + 2.0, "{state}");
    let without_money = ["out_of_money", "waiting"].map(|state| cells[state].as_u64().unwrap());
    assert!(without_money.iter().sum::<u64>() > 0, "{state}");
    assert_eq!((&cells["held"], &cells["failed"]), (&json!(0), &json!(0)));
    // With a lower limit, nothing more begins.
    let lower = project
        .retyped(["batch", "resume", "--max-cost-usd", "1"])
        .failure(5);
    let (state, project) = read_status(lower.then::<&str>([]));
    assert_eq!(state["money"]["spent_usd"].as_f64(), Some(spent), "{state}");
    let finished = project
        .retyped(["batch", "resume", "--max-cost-usd", "10"])
        .success();
    let (state, project) = read_status(finished.then::<&str>([]));
    assert_eq!(state["cells"]["completed"], 6, "{state}");
    assert_eq!(state["money"]["spent_usd"], 6.0, "{state}");
    // A cell whose processes were lost too often has failed, and what its run cost stays spent.
    let batch = batch_dir(&project);
    fs::remove_file(batch.join("results/c0.jsonl")).unwrap();
    let begun = |attempt: u32| batch.join(format!("attempts/c0.{attempt}"));
    for attempt in (2..10).filter(|attempt| !begun(*attempt).exists()) {
        fs::copy(begun(1), begun(attempt)).unwrap();
    }
    let finished = project.retyped(["batch", "resume"]).failure(1);
    let (state, _) = read_status(finished.then::<&str>([]));
    assert_eq!(state["cells"]["failed"], 1, "{state}");
    assert_eq!(state["money"]["spent_usd"], 6.0, "{state}");
}

/// Checks that a batch is refused before any cell begins.
#[track_caller]
fn check_refused(project: Project, expected: &str) {
    let finished = project.args(RUN).failure(2);
    let stderr = finished.stderr();
    assert!(stderr.contains(expected), "{stderr}");
    assert!(
        !finished.project().path(".massgen/batches").exists(),
        "{stderr}"
    );
}

#[test]
fn a_config_that_no_cell_can_use_is_refused_before_the_first_cell() {
    let with_team = |team: &str| project(1).file("team.yaml", team);
    let outside =
        format!("{WORKS}orchestrator:\n  context_paths: [{{path: /srv, permission: write}}]\n");
    check_refused(with_team(&outside), "may not write to `/srv`");
    for own in [
        "context_paths: [{path: /srv, permission: write}]",
        "folder_guard: {root: /srv, write: [/srv/a]}",
    ] {
        let own = WORKS.replace("cwd: workspace", &format!("cwd: workspace\n      {own}"));
        check_refused(with_team(&own), "may not write to `/srv");
    }
    let recorded = WORKS.replace("cwd: workspace", "cwd: workspace\n      record: r.yaml");
    check_refused(with_team(&recorded), "would overwrite each other's `");
    let shared = WORKS.replace("cwd: workspace", "cwd: /tmp/shared-workspace");
    check_refused(
        with_team(&shared),
        "may not write to `/tmp/shared-workspace`",
    );
    let pipeline =
        format!("workflow:\n  type: pipeline\n{WORKS}").replace("id: writer", "id: implementer");
    check_refused(with_team(&pipeline), "pipeline");
    check_refused(with_team("agents: []"), "cannot be run");
    let nowhere = r#"{"id":"a","text":"x","project":{"path":"nowhere"}}"#;
    check_refused(project(1).file("tasks.jsonl", nowhere), "does not exist");
    let twice = format!("{}{}", task_lines(1), task_lines(1));
    check_refused(
        project(1).file("tasks.jsonl", twice),
        "line 2: the id `c0` occurs twice",
    );
    let missing = project(1).args(["batch", "run", "none.jsonl", "--config", "team.yaml"]);
    assert!(missing.failure(2).stderr().contains("does not exist"));
}

#[test]
fn a_task_has_its_own_config_checks_and_limits() {
    let other = WORKS.replace("id: writer", "id: other");
    let other = format!("{other}orchestrator:\n  context_paths: [src/..]\n");
    let checked = json!({"id": "checked", "text": "x", "project": {"path": "app"},
        "checks": ["test -d made"]});
    let failing = json!({"id": "failing", "text": "x", "project": {"path": "app"},
        "checks": [{"name": "never", "command": "false"}]});
    let other_team = json!({"id": "other", "text": "x", "project": {"path": "app"},
        "config": "other.yaml"});
    let without = json!({"id": "without", "text": "x", "config": "simple.yaml"});
    let simple = "agents:\n  - id: simple\n    backend:\n      type: scripted\n      replies:\n        \
        - {when: {system: \"the final agent\"}, text: plain}\n        \
        - calls: [{name: new_answer, arguments: {content: plain}}]\n";
    let tasks = [checked, failing, other_team, without].map(|task| format!("{task}\n"));
    let finished = project(1)
        .file("tasks.jsonl", tasks.concat())
        .file("other.yaml", other)
        .file("simple.yaml", simple)
        .args(RUN)
        .failure(1);
    let begins = |start: &str| {
        finished
            .stderr()
            .lines()
            .any(|line| line.starts_with(start))
    };
    assert!(begins("failing: "), "{}", finished.stderr());
    assert!(!begins("checked: "), "{}", finished.stderr());
    let (results, project) = read_results(finished.then::<&str>([]));
    assert_eq!(results["other"]["cell"]["winner"], "other");
    assert_eq!(results["other"]["answer"], "an answer");
    assert_eq!(
        results["other"]["cell"]["files"], 0,
        "its config lists the copy for reading"
    );
    assert_eq!(
        results["checked"]["cell"]["checks"], "passed",
        "{}",
        results["checked"]
    );
    assert_eq!(
        results["failing"]["cell"]["checks"], "failed",
        "{}",
        results["failing"]
    );
    assert_eq!(results["without"]["cell"]["files"], 0);
    assert_eq!(results["without"]["answer"], "plain");
    // Later changes of the config have no effect; the failing cell is run again.
    fs::write(project.path("team.yaml"), "agents: []").unwrap();
    let again = project
        .retyped(["batch", "retry", "--only", "unsuccessful"])
        .failure(1);
    assert_eq!(again.code(), Some(1));
    let earlier = batch_dir(again.project()).join("earlier");
    assert!(fs::read_dir(earlier).unwrap().count() >= 1);
    let (results, project) = read_results(again.then::<&str>([]));
    assert_eq!(results["failing"]["cell"]["attempts"], 2);
    assert_eq!(results["checked"]["cell"]["attempts"], 1);
    // From another directory, nothing is begun and no result is withdrawn.
    let project = project.retyped(["batch", "retry", "--only", "all"]);
    let mut elsewhere = project.command();
    let refused = elsewhere.current_dir(project.path("app")).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let cancelled = project.retyped(["batch", "cancel", "--json"]).success();
    let stderr = cancelled.stderr();
    assert!(stderr.contains("nothing to cancel"), "{stderr}");
    let state: Value = serde_json::from_str(cancelled.stdout()).unwrap();
    assert_eq!(
        (&state["cells"]["cells"], &state["is_cancelled"]),
        (&json!(4), &json!(false))
    );
    assert!(!batch_dir(cancelled.project()).join("cancelled").exists());
}

#[test]
fn a_commit_is_the_project_of_a_cell() {
    let project = project(1);
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(arguments)
            .current_dir(project.path("app"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "-q", "-b", "trunk"]);
    git(&[
        "config",
        "filter.evil.smudge",
        "touch /tmp/massgen-evil; cat",
    ]);
    fs::write(project.path("app/.gitattributes"), "* filter=evil\n").unwrap();
    // Records that a commit has are not those of the cell.
    fs::create_dir_all(project.path("app/.massgen/deliveries/log_20990101_000000_000000")).unwrap();
    let planted = "app/.massgen/deliveries/log_20990101_000000_000000/delivery.json";
    fs::write(project.path(planted), "{}").unwrap();
    git(&["-c", "filter.evil.smudge=", "add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    let commit = git(&["rev-parse", "HEAD"]);
    fs::write(project.path("app/src/a.txt"), "later\n").unwrap();
    let task = |commit: &str| {
        json!({"id": "c0", "text": "x", "project": {"git": "app", "commit": commit}}).to_string()
    };
    let finished = project
        .file("tasks.jsonl", task(&commit))
        .args(RUN)
        .success();
    let (results, project) = read_results(finished.then::<&str>([]));
    assert_eq!(results["c0"]["cell"]["files"], 3, "{}", results["c0"]);
    assert!(!Path::new("/tmp/massgen-evil").exists());
    let applied = project
        .retyped(["batch", "apply", "last", "c0", "--yes"])
        .failure(2);
    assert!(
        applied.stderr().contains("git apply"),
        "{}",
        applied.stderr()
    );
}

#[test]
fn a_cell_writes_through_no_symlink_and_keeps_no_key() {
    const KEY: &str = "sk-SECRETKEY-0123456789abcdef";
    let task = |text: &str| {
        format!(
            "{}\n",
            json!({"id": "c0", "text": text, "project": {"path": "app"}})
        )
    };
    let victim = format!("victim-{KEY}");
    let keyed = WORKS.replace("\"an answer\"", &format!("\"the key {KEY}\""));
    let writes_to_link = format!(
        "{keyed}orchestrator:\n  context_paths:\n    - {{path: docs, permission: write}}\n"
    );
    let mut project = project(1)
        .file(&format!("{victim}/a.txt"), "as it was")
        .env("OPENAI_API_KEY", KEY);
    std::os::unix::fs::symlink(project.path(&victim), project.path("app/docs")).unwrap();
    // The second one fails before its config is read.
    let commit = json!({"git": victim, "commit": "0".repeat(40)});
    let without_files = json!({"id": "c0", "text": "Fix", "project": commit});
    for (team, task, reason) in [
        (&writes_to_link, task("Fix"), "may not write to"),
        (
            &keyed,
            format!("{without_files}\n"),
            "is not a git repository",
        ),
    ] {
        let refused = project
            .file("team.yaml", team)
            .file("tasks.jsonl", task)
            .args(RUN)
            .failure(1);
        project = refused.then::<&str>([]);
        let output = fs::read_to_string(batch_dir(&project).join("cells/c0/output.txt")).unwrap();
        let result = fs::read_to_string(batch_dir(&project).join("results/c0.jsonl")).unwrap();
        // The error names the directory that the link leads to, or the project.
        for shown in [output, result] {
            assert!(shown.contains(reason), "{shown}");
            assert!(shown.contains("victim-[redacted]"), "{shown}");
            assert!(!shown.contains(KEY), "{shown}");
        }
        assert_eq!(
            fs::read_to_string(project.path(format!("{victim}/a.txt"))).unwrap(),
            "as it was"
        );
        fs::remove_dir_all(project.path(".massgen/batches")).unwrap();
    }
    let finished = project
        .file("tasks.jsonl", task("Fix @docs:w"))
        .args(RUN)
        .success();
    let project = finished.then::<&str>([]);
    let output = fs::read_to_string(batch_dir(&project).join("cells/c0/output.txt")).unwrap();
    assert!(
        output.contains("the key ") && !output.contains(KEY),
        "{output}"
    );
    assert!(output.contains("which opens nothing"), "{output}");
}

/// Returns whether a file below `dir` contains `word`.
fn contains_word(dir: &Path, word: &str) -> bool {
    fs::read_dir(dir).unwrap().any(|entry| {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            return contains_word(&entry.path(), word);
        }
        let bytes = fs::read(entry.path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(word)
    })
}

#[test]
fn the_text_of_a_task_opens_only_what_the_user_allows() {
    let project = Project::new()
        .file("secret/key.txt", "CANARY-SECRET")
        .file("shared/notes.txt", "CANARY-SHARED")
        .file("app/a.txt", "CANARY-OWN");
    let [secret, shared] = ["secret/key.txt", "shared/notes.txt"].map(|path| project.path(path));
    let read = |path: &str| {
        format!("        - calls: [{{name: read_text_file, arguments: {{path: \"{path}\"}}}}]\n")
    };
    let team = format!(
        "agents:\n  - id: reader\n    backend:\n      type: scripted\n      cwd: workspace\n      \
         replies:\n{}{}{}        - calls: [{{name: new_answer, arguments: {{content: read}}}}]\n        \
         - {{text: done, repeat: true}}\n",
        read("{{cwd}}/a.txt"),
        read(secret.to_str().unwrap()),
        read(shared.to_str().unwrap()),
    );
    let text = format!(
        "Fix @a.txt, @{} and @{}, see @/etc",
        secret.display(),
        shared.display()
    );
    let task = json!({"id": "c0", "text": text, "project": {"path": "app"}});
    let arguments = ["--allow-mentions", "shared"];
    // A cell keeps its state in its own directory, wherever the batch is.
    let state = project.home("state");
    let finished = project
        .env("MASSGEN_STATE_DIR", &state)
        .file("team.yaml", team)
        .file("tasks.jsonl", format!("{task}\n"))
        .args(RUN.into_iter().chain(arguments))
        .success();
    let stderr = finished.stderr();
    assert!(stderr.contains("a mention in a task file opens nothing"));
    assert!(
        stderr.contains("secret/key.txt") && !stderr.contains("shared/notes"),
        "{stderr}"
    );
    let batch = only_entry(&only_entry(&state).join(".massgen/batches"));
    let logs = batch.join("cells/c0/work/.massgen");
    assert!(!contains_word(&logs, "CANARY-SECRET"));
    assert!(contains_word(&logs, "CANARY-SHARED"), "it was allowed");
    assert!(contains_word(&logs, "CANARY-OWN"), "the copy is open");
}

#[test]
fn a_mention_in_a_task_does_not_tell_what_exists_outside() {
    let project = Project::new()
        .file("secret/key.txt", "CANARY-SECRET")
        .file("app/notes.txt", "own")
        .file("data/open.txt", "open")
        .file("data/hidden/in.txt", "hidden");
    // A path that exists, and one that does not, in each place that the task may not read.
    let outside = [
        "secret/key.txt",
        "secret/kee.txt",
        "data/hidden/in.txt",
        "data/hidden/no.txt",
    ];
    let outside = outside.map(|path| project.path(path));
    let known = project.path("data/gone.txt");
    let text = format!(
        "Fix @{} and @notse, @gone.txt",
        outside
            .iter()
            .chain([&known])
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(" and @")
    );
    let task = json!({"id": "c0", "text": text, "project": {"path": "app"}});
    let team = format!(
        "agents:\n  - id: a\n    backend:\n      type: scripted\n      cwd: workspace\n      \
         replies: [{{text: done, repeat: true}}]\norchestrator:\n  context_paths:\n    \
         - {{path: {}, permission: read, hidden_paths: [hidden]}}\n",
        project.path("data").display()
    );
    let finished = project
        .file("team.yaml", team)
        .file("tasks.jsonl", format!("{task}\n"))
        .args(RUN)
        .success();
    let batch = batch_dir(finished.project());
    let output = fs::read_to_string(batch.join("cells/c0/output.txt")).unwrap();
    let [key, kee, within, _] = &outside;
    let warning = format!(
        "the task mentions `{}`, `{}`, `{}` and 1 more, which opens nothing",
        key.display(),
        kee.display(),
        within.display()
    );
    assert!(output.contains(&warning), "{output}");
    for path in &outside {
        let missing_warning = format!("{}` does not exist", path.display());
        assert!(!contains_word(&batch, &missing_warning), "{output}");
    }
    let stderr = finished.stderr();
    assert!(
        stderr.contains("data/hidden/no.txt` and 2 more;"),
        "{stderr}"
    );
    assert!(!contains_word(&batch, "did you mean"), "{output}");
    // Control: what is missing in what the task may read.
    for missing in [
        "data/gone.txt` does not exist",
        "work/gone.txt` does not exist",
    ] {
        assert!(output.contains(missing), "{output}");
    }
    // If the user types the same mention, massgen suggests the path that it probably means.
    let typed = format!("Fix @{}", kee.display());
    let typed = finished.then(["--config", "team.yaml", "--dry-run", &typed]);
    let typed = typed.success();
    let stderr = typed.stderr();
    assert!(stderr.contains("(did you mean `key.txt`?)"), "{stderr}");
}

#[test]
fn a_batch_that_was_copied_is_ignored() {
    let finished = project(1).args(RUN).success();
    let batch = batch_dir(finished.project());
    let name = batch.file_name().unwrap().to_str().unwrap().to_owned();
    let copy = batch.with_file_name("copy");
    crate::project::copy_tree(&batch, &copy);
    fs::remove_dir_all(&batch).unwrap();
    fs::rename(&copy, &batch).unwrap();
    let mut finished: FinishedCommand = finished.then(["batch", "resume", &name]).failure(3);
    for arguments in [
        &["batch", "status", &name][..],
        &["batch", "apply", &name, "c0", "--yes"],
        &["batch", "job", &name, "1", "0"],
        &["batch", "results", &name],
        &["batch", "cancel", &name],
    ] {
        finished = finished.then(arguments).failure(3);
        let stderr = finished.stderr();
        assert!(
            stderr.contains("not created by massgen"),
            "{arguments:?}: {stderr}"
        );
    }
}

#[test]
fn a_cancelled_batch_is_parked_and_resumed() {
    let slow = WORKS.replace("delay_ms: 5", "delay_ms: 60000");
    let project = project(2).file("team.yaml", &slow);
    let mut control = start_massgen(&project, &RUN);
    let began = Instant::now();
    let is_begun = || {
        let Ok(mut dirs) = fs::read_dir(project.path(".massgen/batches")) else {
            return false;
        };
        let Some(batch) = dirs.next() else {
            return false;
        };
        let cells = batch.unwrap().path().join("cells");
        ["c0", "c1"].iter().all(|cell| {
            let logs = cells.join(cell).join("work/.massgen/massgen_logs");
            fs::read_dir(logs).is_ok_and(|mut logs| {
                logs.any(|log| {
                    let events = log.unwrap().path().join("turn_1/events.jsonl");
                    let events = fs::read_to_string(events);
                    events.is_ok_and(|events| events.contains("model_request_started"))
                })
            })
        })
    };
    while !is_begun() {
        assert!(began.elapsed() < Duration::from_mins(2));
        sleep(Duration::from_millis(2));
    }
    let cancelled = project.retyped(["batch", "cancel"]).success();
    assert_eq!(control.wait().unwrap().code(), Some(130));
    let (state, project) = read_status(cancelled.then::<&str>([]));
    assert_eq!(state["cells"]["running"], 0, "{state}");
    assert_eq!(state["cells"]["parked"], 2, "{state}");
    assert!(processes(&project).is_empty());
    let shown = project.retyped(["batch", "status"]).success();
    let hint = "continue with: massgen batch resume batch_";
    assert!(shown.stderr().contains(hint), "{}", shown.stderr());
    let watched = shown.then(["batch", "watch", "--json"]).failure(75);
    assert!(watched.stderr().contains(hint), "{}", watched.stderr());
    let last: Value = serde_json::from_str(watched.stdout()).unwrap();
    assert_eq!(last["is_stopped"], true, "{last}");
}

#[test]
fn the_example_of_the_document_runs() {
    let team = blocks(DOCUMENT, "yaml")[0];
    let tasks = blocks(DOCUMENT, "json")[0];
    let commands = blocks(DOCUMENT, "sh")[0];
    let project = Project::new()
        .file("team.yaml", team)
        .file("tasks.jsonl", tasks);
    let script = format!(
        "set -eu\nmassgen() {{ {} \"$@\"; }}\n{commands}",
        crate::project::binary().display()
    );
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &script]).current_dir(project.path(""));
    shell.env("HOME", project.home(""));
    let output = shell.output().unwrap();
    let message = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("greet-1 completed\ngreet-2 completed\n"),
        "{message}"
    );
    assert!(!project.path("app/greeting.txt").exists(), "it was undone");
}
