//! `massgen web`: the runs of the directory, their logs, and the file picker.

use std::os::unix::fs::symlink;
use std::thread;

use serde_json::{Value, json};

use crate::interactive::HOME_REPLIES;
use crate::project::Project;
use crate::scripted_team::{agent, answer_replies, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};
use crate::web_server::WebServer;

/// Returns a project with a team of two, whose files are not opened.
fn project() -> Project {
    let agents = [
        agent("ann", "", &answer_replies("yes", "agent1", 1)),
        agent("ben", "", &answer_replies("no", "agent1", 1)),
    ];
    let limits = "limits: {max_tokens_total: 10000000, max_tool_calls: 50}";
    Project::new().file("team.yaml", team(&agents, limits))
}

/// Runs the team in a terminal, and returns the server of a page for it.
fn after_a_run(task: &str) -> WebServer {
    let limited = ["--config", "team.yaml", "--max-tool-calls", "40", task];
    let finished = project().args(limited).success();
    WebServer::start(
        finished.then(Vec::<&str>::new()),
        &["--config", "team.yaml"],
    )
}

#[test]
fn paths_of_a_session_that_are_not_open_any_more_are_named() {
    let task = "read @gone.txt and @kept.txt";
    let project = project().file("gone.txt", "x").file("kept.txt", "x");
    let finished = project.args(["--config", "team.yaml", task]).success();
    std::fs::remove_file(finished.project().path("gone.txt")).unwrap();
    let server = WebServer::start(
        finished.then(Vec::<&str>::new()),
        &["--config", "team.yaml"],
    );
    let session = &server.get("/api/runs").json()["runs"][0]["session"];
    let warning = "gone.txt` was opened in an earlier turn but no longer exists";
    let preview = json!({"task": "again", "continue": session, "dry_run": true});
    let shown = server.post("/api/runs", &preview).json();
    assert!(shown["notes"].to_string().contains(warning), "{shown}");

    let run = server.start_run(&json!({"task": "again", "continue": session}));
    let mut page = server.stream(&run, None);
    page.read_to_end();
    let warnings = page.sections["run"]["warnings"].to_string();
    assert!(
        warnings.contains(warning) && !warnings.contains("kept.txt"),
        "{warnings}"
    );
}

#[test]
fn the_home_of_commands_lasts_while_the_page_continues_a_session() {
    let keys = "cwd: w\nenable_mcp_command_line: true";
    let config = team(&[agent("a", keys, HOME_REPLIES)], "");
    let server = WebServer::start(
        Project::new().file("team.yaml", config),
        &["--config", "team.yaml"],
    );
    let turn = |task: &str, session: &Value| {
        let run = server.start_run(&json!({"task": task, "continue": session}));
        server.stream(&run, None).read_to_end();
        server.get(&format!("/api/runs/{run}/log")).body
    };
    turn("Keep", &Value::Null);
    let session = server.get("/api/runs").json()["runs"][0]["session"].clone();
    let second = turn("Look", &session);
    assert!(second.contains("it is there"), "{second}");
    let other = turn("Look", &Value::Null);
    assert!(other.contains("it is gone"), "{other}");
    // Another run was the newest meanwhile.
    let third = turn("Look", &session);
    assert!(third.contains("it is gone"), "{third}");
}

#[test]
fn runs_that_were_started_in_a_terminal_are_listed_and_read() {
    let server = after_a_run("say yes or no");
    let listed = server.get("/api/runs").json();
    let run = &listed["runs"][0];
    for (key, expected) in [
        ("task", json!("say yes or no")),
        ("state", json!("ended")),
        ("agents", json!(["ann", "ben"])),
        ("live", json!(false)),
    ] {
        assert_eq!(run[key], expected, "{key}: {run}");
    }
    assert!(
        run["session"].as_str().unwrap().starts_with("session_"),
        "{run}"
    );
    assert!(run["tokens"].as_u64().unwrap() > 0, "{run}");
    let id = run["id"].as_str().unwrap();
    let read = |query: &str| server.get(&format!("/api/runs/{id}/log{query}")).json();
    let all = read("");
    let events = all["events"].as_array().unwrap();
    assert_eq!(events[0]["type"], "run_started", "{all}");
    assert_eq!(events.last().unwrap()["type"], "run_ended", "{all}");
    assert_eq!(all["has_more"], false);
    let part = read("?after=2&limit=3");
    assert_eq!(part["events"].as_array().unwrap()[..], events[2..5]);
    assert_eq!(part["has_more"], true);
    assert_eq!(
        read(&format!("?after={}", events.len()))["events"],
        json!([])
    );
    let mut page = server.stream(id, None);
    page.read_to_end();
    let limits = &page.sections["run"]["limits"];
    let expected =
        json!({"max_cost_usd": null, "max_tokens_total": 10_000_000, "max_tool_calls": 40});
    assert_eq!(limits, &expected);
    let info = server.get("/api/info").json();
    assert_eq!(info["teams"][0]["id"], "team.yaml", "{info}");
    let team = &info["teams"][0];
    assert_eq!(team["agents"][1]["id"], "ben", "{info}");
    assert_eq!(team["max_cost_usd"], Value::Null, "{info}");
    assert_eq!(team["max_tokens_total"], 10_000_000, "{info}");
    assert_eq!(team["max_tool_calls"], 50, "{info}");
    assert_eq!(team["orchestrator_timeout_seconds"], 1800, "{info}");
    assert_eq!(team["max_iterations"], Value::Null, "{info}");
}

#[test]
fn no_name_of_a_run_leads_to_other_files() {
    let server = after_a_run("say yes or no");
    let id = server.get("/api/runs").json()["runs"][0]["id"].clone();
    let id = id.as_str().unwrap();
    let directory = server.project.path(".massgen/massgen_logs");
    assert!(directory.is_dir(), "{}", directory.display());
    symlink(directory.join(id), directory.join("log_link")).unwrap();
    symlink("/etc", directory.join("log_etc")).unwrap();
    let log = |name: &str| server.get(&format!("/api/runs/{name}/log")).status;
    assert_eq!(log(id), 200);
    let endless = format!("log_{}", "x".repeat(5000));
    for name in [
        "last",
        "..",
        "%2e%2e",
        "log_etc",
        "log_link",
        "log_20260101_000000_000000",
        id.get(..12).unwrap(),
        &format!("..%2fmassgen_logs%2f{id}"),
        &format!("{id}%2f..%2f{id}"),
        &format!("{id}%00"),
        &format!("%2f{id}"),
        "log_%ff",
        &endless,
    ] {
        assert!(matches!(log(name), 400 | 404), "{name}: {}", log(name));
    }
    for query in ["?after=-1", "?after=x", "?base_path=/etc", "?limit="] {
        let reply = server.get(&format!("/api/runs/{id}/log{query}"));
        assert_eq!(reply.status, 400, "{query} {reply:?}");
    }
}

/// Returns the names that are found for a typed path.
fn names(found: &Value) -> Vec<&str> {
    let entries = found["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

fn tree() -> WebServer {
    let project = project()
        .file("src/main.py", "")
        .file("src/manager.py", "")
        .file("src/models/user.rs", "")
        .file("src/.hidden", "")
        .file("docs/a.md", "")
        .file(".vscode/settings.json", "")
        .file("<img src=x onerror=alert(1)>.txt", "")
        .file("odd/a\u{202e}b.txt", "");
    WebServer::start(project, &["--config", "team.yaml"])
}

#[test]
fn the_picker_finds_what_the_terminal_finds() {
    let server = tree();
    // What is not found yet is looked for again.
    let browse = |path: &str| {
        let query = json!({"path": path, "waits": true});
        let mut found = Value::Null;
        wait_until("everything is found", WAIT_TIME_MAX, || {
            found = server.post("/api/browse", &query).json();
            found["is_partial"] == false
        });
        found
    };
    let found = browse("src/");
    assert_eq!(found["path"], "src/", "{found}");
    assert_eq!(
        names(&found),
        ["main.py", "manager.py", "models/"],
        "{found}"
    );
    assert_eq!(
        found["entries"][0],
        json!({"name": "main.py", "type": "file", "language": "python"})
    );
    assert_eq!(
        found["entries"][2],
        json!({"name": "models/", "type": "directory"})
    );
    assert_eq!(found["has_more"], false);
    let some = browse("src/ma");
    assert_eq!(names(&some), ["main.py", "manager.py"]);
    assert_eq!(some["entries"][0]["match"], json!([[0, 2]]));
    let protected = json!({
        "name": ".vscode/", "type": "directory", "match": [[0, 4]], "permission": "protected",
    });
    assert_eq!(browse(".vsc")["entries"][0], protected);
    assert_eq!(names(&browse("src/.h")), [".hidden"]);
    assert!(names(&browse("")).contains(&"docs/"));
    let odd = browse("<img");
    assert_eq!(names(&odd), ["<img src=x onerror=alert(1)>.txt"], "{odd}");
    let limited = server.post("/api/browse", &json!({"path": "src/", "limit": 1}));
    assert_eq!(names(&limited.json()).len(), 1);
    assert_eq!(limited.json()["has_more"], true);
    let hidden = browse("odd/").to_string();
    assert!(!hidden.contains('\u{202e}'), "{hidden}");
}

#[test]
fn the_picker_stays_in_the_directory_of_the_server() {
    let server = tree();
    let secret = server.project.path("../secret");
    std::fs::create_dir(&secret).unwrap();
    std::fs::write(secret.join("CANARY.txt"), "").unwrap();
    symlink(&secret, server.project.path("out")).unwrap();
    symlink("src", server.project.path("inside")).unwrap();
    let browse = |path: &str| server.post("/api/browse", &json!({"path": path}));
    let inside = browse("inside/ma");
    assert_eq!(inside.status, 200, "{inside:?}");
    let absolute = format!("{}/", secret.display());
    for (path, expected) in [
        ("../secret/", 400),
        ("src/../../secret/", 400),
        ("..", 400),
        ("/etc/pass", 400),
        (absolute.as_str(), 400),
        ("~/", 400),
        ("~/../secret/", 400),
        ("~root/", 400),
        ("src/\0", 400),
        ("out/", 403),
        ("out/CAN", 403),
        ("none/x", 200),
        ("%2e%2e/secret/", 200),
        ("..\u{2215}secret", 200),
    ] {
        let reply = browse(path);
        assert_eq!(reply.status, expected, "{path:?} {reply:?}");
        assert!(!reply.body.contains("CANARY"), "{path:?} {reply:?}");
    }
    // A base of the client's own, which is inside.
    let root = server.project.path("").display().to_string();
    let root = root.trim_end_matches('/');
    for (base, path, names_path) in [
        (root.to_owned(), "src/ma", "src/"),
        (format!("{root}/src"), "ma", ""),
    ] {
        let reply = server.post("/api/browse", &json!({"path": path, "base_path": base}));
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.json()["path"], names_path);
    }
    for other in [
        json!({"path": "", "base_path": "/etc"}),
        json!({"path": "", "base_path": format!("{root}/src/../../secret")}),
        json!({"path": "", "root": "/etc"}),
        json!({"path": "", "limit": -1}),
    ] {
        let reply = server.post("/api/browse", &other);
        assert_eq!(reply.status, 400, "{other} {reply:?}");
    }
}

#[test]
fn lookups_are_limited_for_each_client() {
    let server = tree();
    let browse_often = || -> Vec<u16> {
        thread::scope(|scope| {
            let browse = || server.post("/api/browse", &json!({"path": "src/"})).status;
            let all: Vec<_> = (0..60).map(|_| scope.spawn(browse)).collect();
            all.into_iter()
                .map(|request| request.join().unwrap())
                .collect()
        })
    };
    // A busy machine may need longer than the period of the limit for all of them.
    let mut is_limited = false;
    for _ in 0..20 {
        let statuses = browse_often();
        let count = |status: u16| statuses.iter().filter(|found| **found == status).count();
        // Lookups that later ones replaced.
        assert_eq!(count(200) + count(429) + count(409), 60, "{statuses:?}");
        assert!(count(200) >= 1, "{statuses:?}");
        is_limited = count(429) >= 1;
        if is_limited {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(1100));
    }
    assert!(is_limited);
    thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(
        server.post("/api/browse", &json!({"path": "src/"})).status,
        200
    );
}
