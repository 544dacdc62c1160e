//! `massgen web`: pipelines that the page starts, answers, cancels and continues.

use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::pipeline::{git_in, pipeline_config, role_replies, write_call};
use crate::project::{Project, make_program};
use crate::scripted_team::agent;
use crate::waiting::{WAIT_TIME_MAX, wait_until};
use crate::web_server::{Reply, StreamClient, WebServer};

/// What the first role answers, with a question to the person.
const UNDERSTOOD: &str = "A file is wanted.\\n\\n## Open questions\\n\\n- Which colour?\\n  \
                          assumption: red\\n";

/// Returns a project with a pipeline of two roles: the first asks the person, and the second asks for
/// approval before it writes.
fn project() -> Project {
    let agents = [
        agent("understand", "", &role_replies("", UNDERSTOOD)),
        agent(
            "implementer",
            "",
            &role_replies(&write_call("implementer/a.txt", "a\\n"), "wrote it"),
        ),
    ];
    let keys = "stages: [understand, implementer]\nmax_iterations: 1\nproject: none";
    let rest = "permissions: {ask: [write_file]}";
    Project::new()
        .file("line.yaml", pipeline_config(keys, &agents, rest))
        .file(
            "other.yaml",
            pipeline_config(keys, &agents, "delivery: review"),
        )
}

/// Answers the question of this kind that waits.
#[track_caller]
fn answer_question(
    server: &WebServer,
    run: &str,
    page: &mut StreamClient,
    kind: &str,
    answer: &str,
) {
    let question = page.question(kind);
    let id = question["id"].as_str().unwrap();
    let route = if kind == "approval" {
        "approvals"
    } else {
        "questions"
    };
    let reply = server.post(
        &format!("/api/runs/{run}/{route}/{id}"),
        &json!({ "answer": answer }),
    );
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn pipeline_row(server: &WebServer, id: &str) -> Value {
    let list = server.get("/api/runs").json();
    let mut rows = list["runs"].as_array().unwrap().iter();
    let found = rows.find(|row| row["id"] == id);
    found.unwrap_or_else(|| panic!("{id}: {list}")).clone()
}

/// Continues a pipeline with these limits. Returns the reply.
#[track_caller]
fn resume_run(server: &WebServer, run: &str, limits: &Value) -> Reply {
    let target = format!("/api/runs/{run}/continue");
    let request = json!({ "limits": limits });
    let mut last_reply = None;
    // The pipeline has ended a moment later than its log.
    wait_until("no process works on the pipeline", WAIT_TIME_MAX, || {
        let reply = server.post(&target, &request);
        let is_decided = reply.status == 200 || !reply.body.contains("another process");
        last_reply = Some(reply);
        is_decided
    });
    last_reply.unwrap()
}

/// Takes one file of what a pipeline made, and undoes that.
#[track_caller]
fn check_delivery(server: &WebServer, run: &str) {
    let diff = server.get(&format!("/api/runs/{run}/diff")).json();
    assert_eq!(diff["state"], "offered", "{diff}");
    let files = diff["files"].as_array().unwrap().iter();
    let paths: Vec<&str> = files.map(|file| file["path"].as_str().unwrap()).collect();
    assert!(
        paths.contains(&"implementer/a.txt") && paths.contains(&"TASK.md"),
        "{paths:?}"
    );
    let taken = json!({"files": [{"path": "implementer/a.txt", "take": true}]});
    let target = format!("/api/runs/{run}/delivery");
    let delivered = server.post(&target, &taken);
    assert_eq!(delivered.status, 200, "{delivered:?}");
    let file = server.project.path("implementer/a.txt");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\n");
    assert!(!server.project.path("TASK.md").exists());
    let diff = server.get(&format!("/api/runs/{run}/diff")).json();
    assert_eq!(diff["applied"][0]["state"], "applied", "{diff}");
    assert_eq!(pipeline_row(server, run)["outcome"], "delivered");
    let undone = server.post(&format!("/api/runs/{run}/undo"), &json!({}));
    assert_eq!(undone.status, 200, "{undone:?}");
    assert!(!file.exists());
    assert_eq!(pipeline_row(server, run)["outcome"], "undone");
    assert_eq!(pipeline_row(server, run)["resumable"], false);
}

/// Sends a message to an agent of a run.
fn post_message(server: &WebServer, run: &str, agent: &str) -> Reply {
    let message = json!({"text": "be quick", "agent": agent});
    server.post(&format!("/api/runs/{run}/messages"), &message)
}

#[test]
fn a_pipeline_is_started_cancelled_and_continued_at_the_page() {
    let server = WebServer::start(project(), &["--config", "line.yaml"]);
    let team = server.get("/api/info").json()["teams"][0].clone();
    assert_eq!(
        team["stages"],
        json!(["understand", "implementer"]),
        "{team}"
    );
    let dry = json!({"task": "make a", "dry_run": true});
    let dry = server.post("/api/runs", &dry);
    assert!(dry.body.contains("implementer"), "{dry:?}");
    let run = server.start_run(&json!({"task": "make a"}));
    assert!(run.starts_with("pipeline_"), "{run}");
    let mut page = server.stream(&run, None);
    answer_question(&server, &run, &mut page, "open", "blue");
    page.question("approval");
    let stages = page.sections["pipeline"]["stages"].clone();
    assert_eq!(stages[0]["state"], "merged", "{stages}");
    assert_eq!(stages[1]["role"], "implementer", "{stages}");
    assert_eq!(stages[1]["state"], "working", "{stages}");
    let of_stage = stages[1]["runs"][0].as_str().unwrap();
    assert_eq!(pipeline_row(&server, of_stage)["pipeline"], json!(run));
    assert_eq!(pipeline_row(&server, of_stage)["resumable"], false);
    let live = pipeline_row(&server, &run);
    assert_eq!(
        (&live["live"], &live["state"]),
        (&json!(true), &json!("running")),
        "{live}"
    );
    assert_eq!(post_message(&server, &run, "nobody").status, 400);
    let posted = post_message(&server, &run, "implementer");
    assert_eq!(posted.status, 200, "{posted:?}");
    page.read_until(|sections| sections["run"]["messages"][0]["text"] == "be quick");

    let cancel = json!({"mode": "cancel"});
    let stopped = server.post(&format!("/api/runs/{run}/stop"), &cancel);
    assert_eq!(stopped.status, 200, "{stopped:?}");
    page.read_to_end();
    assert_eq!(
        page.sections["run"]["status"], "interrupted",
        "{:#?}",
        page.sections["run"]
    );
    let ended = server.stream(&run, None).read_to_end();
    assert_eq!(ended.last().unwrap().name, "end", "{ended:?}");

    let resumed = resume_run(&server, &run, &json!({}));
    assert_eq!(
        (resumed.status, &resumed.json()["run"]),
        (200, &json!(run)),
        "{resumed:?}"
    );
    let mut page = server.stream(&run, None);
    answer_question(&server, &run, &mut page, "approval", "once");
    page.read_to_end();
    assert_eq!(
        page.sections["run"]["status"], "delivered",
        "{:#?}",
        page.sections["run"]
    );
    let stages = &page.sections["pipeline"]["stages"];
    assert_eq!(stages.as_array().unwrap().len(), 2, "{stages}");
    assert_eq!(stages[1]["state"], "merged", "{stages}");
    assert_eq!(stages[1]["runs"][0], json!(of_stage), "{stages}");
    assert_eq!(page.sections["approvals"], json!([]));
    assert!(
        page.sections["delivery"]["answer"]
            .as_str()
            .unwrap()
            .contains("wrote it")
    );
    let done = pipeline_row(&server, &run);
    assert_eq!(
        (&done["outcome"], &done["resumable"]),
        (&json!("delivered"), &json!(false)),
        "{done}"
    );
    check_delivery(&server, &run);
    let branches = server
        .project
        .path(".massgen/pipelines")
        .join(&run)
        .join("hub.git");
    let shared = crate::pipeline::git_in(&branches, &["show", "main:SHARED_UNDERSTANDING.md"]);
    assert!(shared.contains("the user: blue"), "{shared}");
}

#[test]
fn a_pipeline_whose_starter_disconnects_is_one_of_the_page() {
    // Git waits at the pipe `gate` while there is a file `hold`, and with it the start of the pipeline.
    let project = project();
    let home = project.home("");
    let script = format!(
        "#!/bin/sh\nif test -e '{0}/hold'; then read -r line < '{0}/gate'; fi\n\
         PATH=/usr/local/bin:/usr/bin:/bin\nexec git \"$@\"\n",
        home.display()
    );
    let path = format!("{}:/usr/bin:/bin", home.join("bin").display());
    let project = project.home_file("bin/git", script).env("PATH", path);
    make_program(&home.join("bin/git"));
    let (hold, gate) = (home.join("hold"), home.join("gate"));
    mkfifoat(CWD, &gate, Mode::RWXU).unwrap();
    let server = WebServer::start(project, &["--config", "line.yaml"]);
    std::fs::write(&hold, "").unwrap();
    let request = json!({"task": "make a"}).to_string();
    let starter = server.open("POST", "/api/runs", &server.headers(), Some(&request));
    // This waits until git reads.
    let gate = std::fs::OpenOptions::new().write(true).open(gate).unwrap();
    drop(starter);
    // The server has seen that before it answers all of these.
    for _ in 0..3 {
        assert_eq!(server.get("/api/info").status, 200);
    }
    std::fs::remove_file(hold).unwrap();
    drop(gate);
    let live = (0..5_000).find_map(|_| {
        let list = server.get("/api/runs").json();
        let mut rows = list["runs"].as_array().unwrap().iter();
        let live = rows.find(|row| row["live"] == true)?;
        Some(live["id"].as_str().unwrap().to_owned())
    });
    let run = live.expect("no run is live");
    let cancel = json!({"mode": "cancel"});
    let stopped = server.post(&format!("/api/runs/{run}/stop"), &cancel);
    assert_eq!(stopped.status, 200, "{stopped:?}");
    server.stream(&run, None).read_to_end();
}

#[test]
fn a_pipeline_of_a_terminal_is_shown_and_continued_only_with_its_own_config() {
    let project = project()
        .retyped(["--config", "line.yaml", "make a"])
        .success()
        .then(["web"]);
    let server = WebServer::start(project, &["--config", "other.yaml"]);
    let list = server.get("/api/runs").json();
    let rows = list["runs"].as_array().unwrap().clone();
    let run = rows
        .iter()
        .find(|row| row["id"].as_str().unwrap().starts_with("pipeline_"));
    let run = run.unwrap_or_else(|| panic!("{list}"))["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut page = server.stream(&run, None);
    page.read_to_end();
    let stages = &page.sections["pipeline"]["stages"];
    assert_eq!(stages[0]["state"], "merged", "{stages}");
    let log = server.get(&format!("/api/runs/{run}/log")).json();
    assert_eq!(log["events"][0]["type"], "run_started", "{log}");
    let refused = server.post(&format!("/api/runs/{run}/continue"), &json!({}));
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("massgen web --config"), "{refused:?}");
    for other in ["pipeline_1", "pipeline_..", "pipeline_1/../x"] {
        let reply = server.get(&format!("/api/runs/{other}/stream"));
        assert_eq!(reply.status, 404, "{other}: {reply:?}");
    }
}

/// Returns a project with a commit, and a pipeline whose role changes three places of one file and adds
/// another, with a limit that ends it after its first call.
fn limited_project() -> Project {
    let lines = |changed: &[usize]| -> String {
        let line = |number: usize| {
            let word = if changed.contains(&number) {
                "new "
            } else {
                ""
            };
            format!("{word}{number}\n")
        };
        (1..=60).map(line).collect()
    };
    let calls = [
        "{name: read_text_file, arguments: {path: src/old.txt}}".to_owned(),
        write_call("src/old.txt", &lines(&[1, 30, 60]).replace('\n', "\\n")),
        write_call("src/new.txt", "theirs\\n"),
    ];
    let agents = [agent(
        "implementer",
        "",
        &role_replies(&calls.join(", "), "did it"),
    )];
    let rest = "limits: {max_tool_calls: 1}";
    let project = Project::new()
        .file(
            "line.yaml",
            pipeline_config("stages: [implementer]", &agents, rest),
        )
        .file("src/old.txt", lines(&[]));
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    git_in(&root, &["add", "src"]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    project
}

/// Returns the limit on the calls of the last run of the first stage.
fn stage_calls_max(server: &WebServer, page: &StreamClient) -> Value {
    let runs = &page.sections["pipeline"]["stages"][0]["runs"];
    let run = runs.as_array().unwrap().last().unwrap().as_str().unwrap();
    let mut stage = server.stream(run, None);
    stage.read_to_end();
    stage.sections["run"]["limits"]["max_tool_calls"].clone()
}

/// Takes one file of what is offered now, or only its hunk with this index. Returns the reply.
fn apply_file(server: &WebServer, run: &str, path: &str, hunk: Option<usize>) -> Reply {
    let diff = server.get(&format!("/api/runs/{run}/diff")).json();
    let mut files = diff["files"].as_array().unwrap().iter();
    let file = files
        .find(|file| file["path"] == path)
        .unwrap_or_else(|| panic!("{diff}"));
    let mut taken = json!({"path": path, "take": true});
    if let Some(index) = hunk {
        let hunk = &file["hunks"][index];
        taken["hunks"] = json!([{"index": hunk["index"], "digest": hunk["digest"]}]);
    }
    let target = format!("/api/runs/{run}/delivery");
    server.post(&target, &json!({ "files": [taken] }))
}

/// Undoes two parts of what a pipeline delivered to `file`, the newest first.
#[track_caller]
fn check_undo_of_parts(server: &WebServer, run: &str, file: &Path) {
    let diff = || server.get(&format!("/api/runs/{run}/diff")).json();
    let target = format!("/api/runs/{run}/undo");
    let all = diff()["parts"].clone();
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
    let unknown = server.post(&target, &json!({"part": "pipeline_1"}));
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let rest = [json!([all[1]]), json!([])];
    for (rest, begins) in rest.into_iter().zip(["new 1\n", "1\n"]) {
        let undone = server.post(&target, &json!({}));
        assert_eq!(undone.status, 200, "{undone:?}");
        assert_eq!(undone.json()["may_apply_again"], false, "{undone:?}");
        let text = std::fs::read_to_string(file).unwrap();
        assert!(
            text.starts_with(begins) && text.ends_with("\n60\n"),
            "{text}"
        );
        let diff = diff();
        assert_eq!(diff["parts"], rest, "{diff}");
        assert_eq!(diff["state"], "kept", "{diff}");
    }
    // The newest part has been reverted; what is named is reverted again without effect.
    let named = server.post(&target, &json!({"part": all[0]}));
    assert_eq!(named.json()["rows"], json!([]), "{named:?}");
}

#[test]
fn a_pipeline_that_reached_max_iterations_continues_with_a_higher_limit() {
    let second = "- when: {last: \"iteration 2 of\"}\n  calls: [{name: new_answer, arguments: \
                  {content: SATISFIED}}]\n";
    let planner = agent(
        "planner",
        "",
        &format!("{second}{}", role_replies("", "not yet")),
    );
    let keys = "stages: [planner]\nuntil: planner\nmax_iterations: 1\nproject: none";
    let project = Project::new().file("line.yaml", pipeline_config(keys, &[planner], ""));
    let server = WebServer::start(project, &["--config", "line.yaml"]);
    let more = json!({"task": "plan it", "dry_run": true, "limits": {"max_iterations": "7"}});
    let more = server.post("/api/runs", &more);
    assert!(more.body.contains("for at most 7 iterations"), "{more:?}");
    let limits = json!({"orchestrator_timeout_seconds": 600});
    let run = server.start_run(&json!({"task": "plan it", "limits": limits}));
    let mut page = server.stream(&run, None);
    page.read_to_end();
    assert_eq!(page.sections["run"]["status"], "limit");
    let resumed = resume_run(&server, &run, &json!({"max_iterations": 2}));
    assert_eq!(resumed.status, 200, "{resumed:?}");
    let mut page = server.stream(&run, None);
    page.read_to_end();
    assert_eq!(
        page.sections["run"]["status"], "delivered",
        "{:#?}",
        page.sections["run"]
    );
    let stages = &page.sections["pipeline"]["stages"];
    assert_eq!(stages[1]["iteration"], 2, "{stages}");
    // Were it continued again, here or in a terminal, it would keep both limits.
    let record = format!(".massgen/pipelines/{run}/pipeline.json");
    let record = std::fs::read_to_string(server.project.path(&record)).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let arguments = "--config line.yaml --max-iterations 2 --orchestrator-timeout 600";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    assert_eq!(record["arguments"], json!(arguments), "{record}");
}

#[test]
fn a_pipeline_continues_with_another_limit_and_is_delivered_in_parts_and_as_a_merge() {
    let server = WebServer::start(limited_project(), &["--config", "line.yaml"]);
    let run = server.start_run(&json!({"task": "change it"}));
    let mut page = server.stream(&run, None);
    page.read_to_end();
    assert_eq!(page.sections["run"]["status"], "limit");
    let target = format!("/api/runs/{run}/continue");
    for limits in [
        json!({"max_tokens_total": 0}),
        json!({"max_tool_calls": -1}),
        json!({"max_iterations": 0}),
        json!({"max_iterations": 1001}),
        // Its stages are worked through once.
        json!({"max_iterations": 5}),
        json!({"timeout": 1}),
    ] {
        let refused = server.post(&target, &json!({ "limits": limits }));
        assert_eq!(refused.status, 400, "{refused:?}");
    }
    assert_eq!(page.sections["run"]["limits"]["max_tool_calls"], 1);
    assert_eq!(stage_calls_max(&server, &page), 1);
    let resumed = resume_run(&server, &run, &json!({"max_tool_calls": 100}));
    assert_eq!(resumed.status, 200, "{resumed:?}");
    let mut page = server.stream(&run, None);
    page.read_to_end();
    assert_eq!(
        page.sections["run"]["status"], "delivered",
        "{:#?}",
        page.sections["run"]
    );
    assert_eq!(page.sections["run"]["limits"]["max_tool_calls"], 100);
    // A stage has what is left of it, or all of it if the run goes on that had used the rest.
    let left = stage_calls_max(&server, &page);
    assert!(matches!(left.as_u64(), Some(99 | 100)), "{left}");

    // What the person changed is kept, and hinders no other file.
    let (old, new) = (
        server.project.path("src/old.txt"),
        server.project.path("src/new.txt"),
    );
    std::fs::write(&new, "mine\n").unwrap();
    let refused = apply_file(&server, &run, "src/new.txt", None);
    assert_eq!(refused.status, 403, "{refused:?}");
    let take_two_parts = || {
        for (hunk, begins, ends) in [(0, "new 1\n", "\n60\n"), (1, "new 1\n", "\nnew 60\n")] {
            let taken = apply_file(&server, &run, "src/old.txt", Some(hunk));
            assert_eq!(taken.status, 200, "{taken:?}");
            let text = std::fs::read_to_string(&old).unwrap();
            assert!(text.starts_with(begins) && text.ends_with(ends), "{text}");
            assert!(text.contains("\n30\n"), "{text}");
        }
    };
    take_two_parts();
    check_undo_of_parts(&server, &run, &old);
    take_two_parts();
    let text = std::fs::read_to_string(&old).unwrap();
    std::fs::write(&old, format!("{text}mine\n")).unwrap();
    let refused = apply_file(&server, &run, "src/old.txt", Some(0));
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "mine\n");

    let root = server.project.path("");
    let target = format!("/api/runs/{run}/delivery");
    let merge = json!({"files": [], "history": "merge"});
    let refused = server.post(&target, &merge);
    assert_eq!(refused.status, 403, "{refused:?}");
    git_in(&root, &["checkout", "-q", "--", "src/old.txt"]);
    std::fs::remove_file(&new).unwrap();
    // A part of it that massgen delivered does not hinder the commit.
    assert_eq!(
        apply_file(&server, &run, "src/old.txt", Some(0)).status,
        200
    );
    let merged = server.post(&target, &merge);
    assert_eq!(merged.status, 200, "{merged:?}");
    assert_eq!(merged.json()["branch"], "trunk", "{merged:?}");
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "theirs\n");
    let log = git_in(&root, &["log", "--format=%s", "trunk"]);
    assert!(
        log.contains("change it\n") && log.contains("[implementer]"),
        "{log}"
    );
    let changed = git_in(&root, &["status", "--porcelain", "--", "src"]);
    assert_eq!(changed, "");
    let again = server.post(&target, &merge);
    assert_eq!(again.status, 409, "{again:?}");
}
