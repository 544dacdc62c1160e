//! Agents that are programs of their own: a stand-in speaks their protocols and does what a table
//! says, also what no such program should do. Each attempt has a twin that works.

use serde_json::{Value, json};

use crate::mcp::events;
use crate::project::{Finished, Project};
use crate::scripted_team::{FINAL, agent, answers, team};

/// The program that stands in.
const STAND_IN: &str = include_str!("../guests/stand_in.py");

/// How the stand-in speaks.
const TONGUES: &[(&str, &str)] = &[("acp", "acp"), ("claude_code", "claude"), ("codex", "codex")];

/// A project with files to read, to write and to leave alone, and the stand-in.
fn project() -> Project {
    Project::new()
        .file("given/stand_in.py", STAND_IN)
        .file("given/notes.txt", "of the project")
        .file("out/old.txt", "old")
        .file("outside/secret.txt", "not for agents")
        .dir("w1")
        .dir("w2")
        .file("w2/theirs.txt", "of another agent")
}

/// The root of a project, without a slash at the end.
fn root(project: &Project) -> String {
    let root = project.path("").display().to_string();
    root.trim_end_matches('/').to_owned()
}

/// Adds the table of a guest and gives the guest as an agent; `$` in both is the project.
fn guest(
    project: Project,
    (id, kind): (&str, &str),
    keys: &str,
    table: &Value,
) -> (Project, String) {
    let root = root(&project);
    let file = format!("given/{id}.json");
    let project = project.file(&file, table.to_string().replace('$', &root));
    let (_, tongue) = TONGUES.iter().find(|(name, _)| *name == kind).unwrap();
    let yaml = format!(
        "  - id: {id}\n    backend:\n      type: {kind}\n      \
         command: [python3, $/given/stand_in.py, {tongue}, $/{file}]\n      {keys}\n"
    );
    let yaml = yaml.replace('$', &root);
    (project, yaml)
}

/// What the config opens to all.
const OPENED: &str = "orchestrator: {context_paths: [{path: given}, {path: out, permission: write}]}";

/// Runs one guest that does `steps`, then answers; gives what it said of each step.
fn run_with(
    project: Project,
    kind: &str,
    keys: &str,
    steps: &[Value],
) -> (Finished, Vec<String>) {
    let mut all = steps.to_vec();
    all.push(json!(["call", "new_answer", {"content": "done"}]));
    let table = json!([
        {"when": FINAL, "do": [["say", "presented"]]},
        {"when": "", "do": all},
    ]);
    let keys = format!("cwd: $/w1\n      {keys}");
    let (project, one) = guest(project, ("one", kind), &keys, &table);
    let finished = project
        .file("team.yaml", team(&[one], OPENED))
        .args(["--config", "team.yaml", "task"])
        .run();
    let said = said(&finished, "one");
    (finished, said)
}

fn run(kind: &str, steps: &[Value]) -> (Finished, Vec<String>) {
    run_with(project(), kind, "", steps)
}

/// The lines that an agent said.
fn said(finished: &Finished, id: &str) -> Vec<String> {
    let texts = events(finished, "text").into_iter();
    let texts = texts.filter(|event| event["agent"] == id);
    let all: String = texts
        .map(|event| event["text"].as_str().unwrap().to_owned())
        .collect();
    all.lines().map(str::to_owned).collect()
}

/// Checks what a guest says of each step.
#[track_caller]
fn check(kind: &str, steps: &[(Value, &str)]) {
    let todo: Vec<Value> = steps.iter().map(|(step, _)| step.clone()).collect();
    let (finished, said) = run(kind, &todo);
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    for (line, (step, expected)) in said.iter().zip(steps) {
        assert!(line.contains(expected), "{step}\n{line}\n{expected}\n{said:#?}");
    }
    assert!(said.len() > steps.len(), "{said:#?}");
}

#[test]
fn a_guest_answers_and_presents_whatever_it_speaks() {
    for (kind, _) in TONGUES {
        let (finished, said) = run(kind, &[json!(["own", "edit", "a.txt"])]);
        assert_eq!(finished.code(), Some(0), "{kind}: {}", finished.stderr());
        assert!(finished.stdout().contains("presented"), "{}", finished.stdout());
        assert!(said[1].contains("handed in"), "{said:#?}");
        assert_eq!(events(&finished, "answered")[0]["content"], "done");
        let own = events(&finished, "own_tool");
        assert!(own[0]["detail"].as_str().unwrap().contains("a.txt"), "{own:?}");
        let asked = events(&finished, "asked");
        assert!(asked[0]["input_tokens"].as_u64().unwrap() > 8, "{asked:?}");
        if *kind == "claude_code" {
            assert_eq!(asked[0]["cost_usd"], "0.25", "{asked:?}");
        }
    }
}

#[test]
fn a_guest_reaches_what_its_agent_reaches() {
    for (kind, _) in TONGUES {
        check(
            kind,
            &[
                (json!(["write", "own.txt", "mine"]), "ok"),
                (json!(["read", "own.txt"]), "ok mine"),
                (json!(["read", "$/given/notes.txt"]), "ok of the project"),
                (json!(["read", "$/outside/secret.txt"]), "failed"),
                (json!(["read", "$/w2/theirs.txt"]), "failed"),
                (json!(["write", "$/outside/new.txt", "x"]), "failed"),
                (json!(["write", "$/given/new.txt", "x"]), "failed"),
                (json!(["write", "$/out/early.txt", "x"]), "failed"),
                (json!(["list", "$/outside"]), "failed"),
            ],
        );
    }
}

#[test]
fn two_guests_and_a_model_vote_and_the_winner_delivers() {
    let votes = |delivers: &Value| {
        json!([
            {"when": FINAL, "do": delivers},
            {"when": "Compare all", "do": [["call", "vote", {"agent_id": "agent1", "reason": "best"}]]},
            {"when": "", "do": [
                ["write", "$/out/early.txt", "x"],
                ["call", "new_answer", {"content": "mine"}],
                ["call", "vote", {"agent_id": "agent2", "reason": "twice"}],
            ]},
        ])
    };
    let delivers = json!([
        ["write", "$/out/new.txt", "delivered"],
        ["write", "$/outside/new.txt", "x"],
        ["say", "all is there"],
    ]);
    let (project, first) = guest(
        project(),
        ("a", "acp"),
        "cwd: $/w1",
        &votes(&delivers),
    );
    let (project, second) = guest(project, ("b", "claude_code"), "cwd: $/w2", &votes(&json!([])));
    let third = agent("c", "", &answers("third", "agent1", 0));
    let finished = project
        .file("team.yaml", team(&[first, second, third], OPENED))
        .args(["--config", "team.yaml", "task"])
        .run();
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    assert_eq!(events(&finished, "voted").len(), 3, "{}", finished.stderr());
    let said = said(&finished, "a");
    assert!(said[0].contains("failed"), "{said:#?}");
    assert!(said[2].contains("you have handed in"), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("write: ok")), "{said:#?}");
    finished
        .has_file("out/new.txt", "delivered")
        .has_no("out/early.txt")
        .has_no("outside/new.txt");
}
