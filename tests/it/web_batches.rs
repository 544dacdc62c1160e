//! `massgen web`: the batches of the directory, their cells in parts, and the runs of cells.

use std::fs;

use serde_json::{Value, json};

use crate::project::Project;
use crate::web_server::WebServer;

/// Answers with a key of the environment, and writes nothing.
const TEAM: &str = r#"
agents:
  - id: writer
    backend:
      type: scripted
      replies:
        - when: {system: "the final agent"}
          text: "my key is sk-0123456789abcdef"
        - calls: [{name: new_answer, arguments: {content: "my key is sk-0123456789abcdef"}}]
"#;
/// Number of results in addition to that of the cell that ran: more than a reply has.
const MORE: usize = 600;

/// Returns a server in a directory with a batch of `MORE` cells and two, of which one ran, one is open
/// and `MORE` have a result of which every tenth failed.
fn start_server() -> (WebServer, String) {
    let task = "{\"id\":\"ran\",\"text\":\"work\",\"tags\":[\"easy\"]}\n";
    let arguments = ["batch", "run", "tasks.jsonl", "--config", "team.yaml"];
    let project = Project::new()
        .file("team.yaml", TEAM)
        .file("tasks.jsonl", task)
        .retyped(arguments)
        .success()
        .then::<&str>([]);
    let batches = project.path(".massgen/batches");
    let name = fs::read_dir(&batches).unwrap().next().unwrap().unwrap();
    let name = name.file_name().into_string().unwrap();
    let batch = batches.join(&name);
    let record = fs::read_to_string(batch.join("batch.json")).unwrap();
    let cells = format!("\"cells\": {}", MORE + 2);
    fs::write(
        batch.join("batch.json"),
        record.replace("\"cells\": 1", &cells),
    )
    .unwrap();
    let result = fs::read_to_string(batch.join("results/ran.jsonl")).unwrap();
    for number in 0..MORE {
        let outcome = if number % 10 == 0 {
            "failed"
        } else {
            "completed"
        };
        let own = result
            .replace("\"ran\"", &format!("\"c{number:03}\""))
            .replace("\"completed\"", &format!("\"{outcome}\""));
        fs::write(batch.join(format!("results/c{number:03}.jsonl")), own).unwrap();
    }
    let project = project.env("OPENAI_API_KEY", "sk-0123456789abcdef");
    (WebServer::start(project, &["--config", "team.yaml"]), name)
}

fn batch_ids(reply: &Value) -> Vec<&str> {
    let cells = reply["cells"].as_array().unwrap().iter();
    cells.map(|cell| cell["id"].as_str().unwrap()).collect()
}

#[test]
fn batches_are_shown_in_parts_with_the_runs_of_their_cells() {
    let (server, name) = start_server();
    let list = server.get("/api/batches").json();
    let row = &list["batches"][0];
    assert_eq!(row["id"], json!(name), "{list}");
    assert_eq!(
        (&row["cells"], &row["finished"]),
        (&json!(MORE + 2), &json!(MORE + 1)),
        "{list}"
    );
    let target = format!("/api/batches/{name}");
    let first = server.get(&target).json();
    let counts = &first["counts"];
    assert_eq!(
        (&counts["failed"], &counts["completed"], &counts["waiting"]),
        (&json!(60), &json!(541), &json!(1)),
        "{counts}"
    );
    assert_eq!(first["rows"][1]["tag"], "easy", "{first}");
    assert_eq!(
        (batch_ids(&first).len(), &first["matching"]),
        (100, &json!(601))
    );
    let all = server.get(&format!("{target}?limit=100000")).json();
    assert_eq!(batch_ids(&all).len(), 500);
    let failed = server
        .get(&format!("{target}?state=failed&offset=58"))
        .json();
    assert_eq!(
        (batch_ids(&failed), &failed["matching"]),
        (vec!["c580", "c590"], &json!(60))
    );
    let found = server.get(&format!("{target}?search=ran")).json();
    assert_eq!(batch_ids(&found), ["ran"]);
    let cell = &found["cells"][0];
    let run = cell["run"].as_str().unwrap();
    assert_eq!(run, format!("{name}:ran"));
    assert_eq!(
        (&cell["state"], &cell["success"]),
        (&json!("completed"), &json!(true))
    );
    // A cell without a log here has no run.
    assert_eq!(failed["cells"][0]["run"], Value::Null);

    let run = format!("/api/runs/{}", run.replace(':', "%3A"));
    let stream = server.get(&format!("{run}/stream?follow=false"));
    assert!(stream.body.contains("my key is"), "{stream:?}");
    let answer = server.get(&format!("{run}/answers/agent1.1"));
    assert!(answer.body.contains("my key is [redacted]"), "{answer:?}");
    assert!(!format!("{stream:?}{answer:?}").contains("sk-0123"));
    for (target, status) in [
        ("/api/batches/batch_20260101_000000_0000".to_owned(), 404),
        ("/api/batches/..%2F..%2F".to_owned(), 404),
        (format!("{target}?state=gone"), 400),
        (format!("{target}?cells=1"), 400),
        (format!("/api/runs/{name}%3Aopen/stream"), 404),
        (format!("/api/runs/{name}%3A..%2Fran/log"), 404),
        ("/api/runs/batch_x%3Aran/log".to_owned(), 404),
        (format!("{run}/diff"), 404),
    ] {
        let reply = server.get(&target);
        assert_eq!(reply.status, status, "{target}: {reply:?}");
    }
    for (target, body) in [
        ("delivery", json!({"files": []})),
        ("undo", json!({})),
        ("continue", json!({})),
    ] {
        let reply = server.post(&format!("{run}/{target}"), &body);
        assert_eq!(reply.status, 404, "{target}: {reply:?}");
    }
}
