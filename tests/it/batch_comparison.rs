//! What batches say of their teams: candidates, judges and comparisons.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;

use serde_json::{Value, json};

use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, team};

/// Replies of an agent that writes `content` into `result.txt` of the project, answers, and votes
/// for agent1.
fn writes(content: &str) -> String {
    format!(
        r#"
- when: {{last: "<task>"}}
  usage: {{input_tokens: 100, output_tokens: 10}}
  calls:
    - {{name: execute_command, arguments: {{command: "printf '{content}' > {{{{cwd}}}}/result.txt"}}}}
    - {{name: new_answer, arguments: {{content: "It is {content}."}}}}
- usage: {{input_tokens: 200, output_tokens: 10}}
  calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "it is short"}}}}]
  repeat: true
"#
    )
}

fn member(id: &str, content: &str) -> String {
    let keys = format!("cwd: work-{id}\nenable_mcp_command_line: true\nmodel: model-{id}");
    agent(id, &keys, &writes(content))
}

/// Three agents, of which the votes prefer the first, whose work fails the check.
fn trio() -> String {
    let members = [
        member("one", "bad"),
        member("two", "good and wrong"),
        member("three", "good and right"),
    ];
    let rest = "checks: [\"grep -q good result.txt\"]\n\
                orchestrator:\n  defer_peer_updates_until_restart: true";
    team(&members, rest)
}

/// A task for each number, whose judge wants the hidden text.
fn tasks(count: usize, judge: &Value) -> String {
    let task = |number: usize| {
        let task = json!({"id": format!("t{number}"), "text": "work",
            "project": {"path": "app"}, "judge": judge});
        format!("{task}\n")
    };
    (0..count).map(task).collect()
}

fn judge() -> Value {
    json!({"command": "grep -q \"$(cat expected.txt)\" result.txt", "files": "hidden",
        "canary": "canary-5d1f"})
}

fn project(count: usize) -> Project {
    Project::new()
        .file("app/readme.txt", "empty\n")
        .file("hidden/expected.txt", "right")
        .file("hidden/notes.txt", "canary-5d1f")
        .file("tasks.jsonl", tasks(count, &judge()))
        .file("trio.yaml", trio())
        .file("solo.yaml", team(&[member("solo", "good and right")], ""))
}

fn run_batch(project: Project, config: &str) -> FinishedCommand {
    let batch = project.retyped(["batch", "run", "tasks.jsonl", "--config", config]);
    // A task that is not solved is a result too.
    batch.run()
}

fn results(finished: FinishedCommand) -> (Vec<Value>, Project) {
    let finished = finished.then(["batch", "results", "--json"]).success();
    let lines = finished.stdout().lines();
    let results = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (results, finished.then::<&str>([]))
}

fn compare(project: Project, batches: &[&str]) -> (Value, Project) {
    let arguments = ["batch", "compare", "--json"].iter().chain(batches);
    let finished = project.retyped(arguments.copied()).success();
    let comparison = serde_json::from_str(finished.stdout()).unwrap();
    (comparison, finished.then::<&str>([]))
}

#[test]
fn each_candidate_is_judged_and_the_judge_decides_nothing() {
    let (results, project) = results(run_batch(project(1), "trio.yaml"));
    let worth = &results[0]["worth"];
    let rows: Vec<(&str, &str, bool, u64, bool)> = worth["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|candidate| {
            (
                candidate["model"].as_str().unwrap(),
                candidate["checks"].as_str().unwrap(),
                candidate["judged"].as_bool().unwrap(),
                candidate["votes"].as_u64().unwrap(),
                candidate["is_selected"].as_bool().unwrap(),
            )
        })
        .collect();
    // Labels are numbered by name: agent1 is `one`, agent2 `three`.
    assert_eq!(
        rows,
        [
            ("model-one", "failed", false, 3, false),
            ("model-two", "passed", false, 0, true),
            ("model-three", "passed", true, 0, false),
        ],
        "{worth:#}"
    );
    assert_eq!(worth["judged"], false, "{worth:#}");
    assert_eq!(worth["selection"]["input_tokens"], 600, "{worth:#}");
    assert_eq!(results[0]["cell"]["checks"], "passed");
    let batch = fs::read_dir(project.path(".massgen/batches")).unwrap();
    let batch = batch.into_iter().next().unwrap().unwrap().path();
    let shown = fs::read_to_string(batch.join("cells/t0/output.txt")).unwrap();
    assert!(
        shown.contains(
            "3 answers, 2 passed the checks; the votes alone would have taken one that fails"
        ),
        "{shown}"
    );
    assert!(
        !batch
            .join("cells/t0/work/app")
            .join("expected.txt")
            .exists()
    );
    assert!(!batch.join("cells/t0/work/expected.txt").exists());
}

#[test]
fn batches_are_compared_in_figures_and_sentences() {
    let trio = run_batch(project(12), "trio.yaml");
    let solo = run_batch(trio.then::<&str>([]), "solo.yaml");
    let listed = solo.then(["batch", "list", "--json"]).success();
    let names: Vec<String> = listed
        .stdout()
        .lines()
        .map(|line| {
            let batch: Value = serde_json::from_str(line).unwrap();
            batch["batch"].as_str().unwrap().to_owned()
        })
        .collect();
    let [solo, trio] = [&names[0], &names[1]];
    let (comparison, project) = compare(listed.then::<&str>([]), &[trio, solo]);
    let figures = &comparison["batches"][0];
    assert_eq!(figures["team"], "trio.yaml");
    assert_eq!(figures["selected"]["value"], 0.0, "{figures:#}");
    assert_eq!(figures["best"]["value"], 1.0, "{figures:#}");
    assert_eq!(figures["pass_at_1"]["model-three"]["value"], 1.0);
    assert_eq!(figures["pass_at_1"]["model-one"]["value"], 0.0);
    assert_eq!(figures["votes_alone"]["value"], 0.0);
    assert_eq!(figures["checks_alone"]["value"], 0.5);
    let efficiency = figures["selection_efficiency"]["value"].as_f64().unwrap();
    assert!((efficiency + 0.5).abs() < 1e-9, "{figures:#}");
    let three = &figures["curve"][2];
    assert_eq!(
        (&three["candidates"], &three["checked"], &three["best"]),
        (&json!(3), &json!(0.5), &json!(1.0)),
        "{figures:#}"
    );
    let difference = &comparison["differences"][0];
    assert_eq!(difference["tasks"], 12);
    assert_eq!(difference["only_second"].as_array().unwrap().len(), 12);
    assert_eq!(
        difference["sentences"][0],
        "solo.yaml is better than trio.yaml: +100 points [+100, +100] on 12 tasks in common"
    );
    let shown = project.retyped(["batch", "compare", trio, trio]).success();
    let text = shown.stdout();
    assert!(text.contains("a perfect choice"), "{text}");
    assert!(
        text.contains("the data do not tell which is better"),
        "{text}"
    );
    let (alone, _) = compare(shown.then::<&str>([]), &[solo]);
    assert_eq!(alone["batches"][0]["selected"]["value"], 1.0);
}

#[test]
fn a_judge_whose_files_an_agent_can_read_is_refused() {
    let judge = json!({"command": "true", "files": "app"});
    let config = format!("{}\n  context_paths: [\"HIDDEN\"]", trio().trim_end());
    let project = project(1);
    let hidden = project.path("hidden");
    let open = config.replace("HIDDEN", hidden.to_str().unwrap());
    let finished = run_batch(project.file("open.yaml", open), "open.yaml");
    let (results, _) = results(finished);
    let reason = results[0]["cell"]["reason"].as_str().unwrap();
    assert!(reason.contains("can be read by one"), "{reason}");
    let missing = json!({"command": "true", "files": "nowhere"});
    for (judge, reason) in [(missing, "are not a directory"), (judge, "")] {
        let project = self::project(1).file("tasks.jsonl", tasks(1, &judge));
        let (results, _) = self::results(run_batch(project, "trio.yaml"));
        let shown = results[0]["cell"]["reason"].as_str().unwrap();
        assert!(shown.contains(reason), "{shown}");
    }
}

#[test]
fn a_canary_in_the_log_makes_the_results_void() {
    let leaking = trio().replace("good and right", "good and right canary-5d1f");
    let finished = run_batch(project(1).file("trio.yaml", leaking), "trio.yaml");
    let (results, project) = results(finished);
    assert_eq!(results[0]["worth"]["judged"], Value::Null, "{results:#?}");
    let task = json!({"id": "clean", "text": "work", "project": {"path": "app"}, "judge": judge()});
    let leaked = json!({"id": "leaked", "text": "work with canary-5d1f",
        "project": {"path": "app"}, "judge": judge()});
    let project = project.file("tasks.jsonl", format!("{task}\n{leaked}\n"));
    let finished = run_batch(project, "solo.yaml");
    let shown = finished.then(["batch", "compare", "last"]).success();
    let warning = shown.stderr();
    assert!(
        warning.contains("1 cell of")
            && warning.contains("not judged")
            && warning.contains("leaked"),
        "{warning}"
    );
    assert!(!warning.contains("clean"), "{warning}");
}

#[test]
fn advice_comes_from_the_runs_of_the_directory() {
    let keys = "cwd: w\nenable_mcp_command_line: true";
    let replies = |content: &str| writes(content).replace("{{cwd}}/result.txt", "result.txt");
    let members = [
        agent("one", keys, &replies("bad")),
        agent(
            "two",
            "cwd: v\nenable_mcp_command_line: true",
            &replies("good"),
        ),
    ];
    let rest = "checks: [\"grep -q good result.txt\"]\norchestrator:\n  \
                defer_peer_updates_until_restart: true\n  context_paths: [{path: ., permission: write}]";
    let mut project = Project::new().file("team.yaml", team(&members, rest));
    let none = project.retyped(["advise"]).success();
    assert!(
        none.stderr().contains("no run has ended"),
        "{}",
        none.stderr()
    );
    project = none.then::<&str>([]);
    for _ in 0..5 {
        let finished = project
            .retyped(["--config", "team.yaml", "--yes", "do it"])
            .success();
        let shown = finished.stderr();
        assert!(
            shown.contains("worth: 2 answers, 1 passed the checks; the votes alone would have taken one that fails"),
            "{shown}"
        );
        project = finished.then(["undo"]).success().then::<&str>([]);
    }
    let advised = project.retyped(["advise"]).success();
    let text = advised.stdout();
    assert!(text.contains("team.yaml"), "{text}");
    assert!(
        text.contains(
            "several answers gained 50 points, and the votes alone would have missed some"
        ),
        "{text}"
    );
    let json: Value =
        serde_json::from_str(advised.then(["advise", "--json"]).success().stdout()).unwrap();
    // Each delivery was undone.
    assert_eq!(json["teams"][0]["selected"]["value"], 0.0, "{json:#}");
    assert_eq!(json["teams"][0]["best"]["value"], 1.0, "{json:#}");
}
