//! `massgen web`: runs that the page starts, what it decides about them, and their deliveries.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::project::Project;
use crate::scripted_team::{FINAL, agent, answer_replies, team};
use crate::terminal::Terminal;
use crate::waiting::wait_until;
use crate::web_server::{Reply, WebServer};

/// Timeout of what happens a moment after the last event of a run.
const PATIENCE: Duration = Duration::from_mins(2);
/// Lines of the file that the team changes in two places.
const BEFORE: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
const AFTER: &str = "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\ntwelve\n";

/// Returns a project whose team of two changes `out/a.txt` and creates `out/made.txt`.
fn project(rest: &str) -> Project {
    let after = AFTER.replace('\n', "\\n");
    let winner = format!(
        r#"
- when: {{last: "<task>"}}
  calls:
    - {{name: read_text_file, arguments: {{path: "{{{{cwd}}}}/out/a.txt"}}}}
    - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/out/a.txt", content: "{after}"}}}}
    - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/out/made.txt", content: "made\n"}}}}
    - {{name: new_answer, arguments: {{content: "yes"}}}}
{}"#,
        answer_replies("yes", "agent1", 1).trim_start()
    );
    let agents = [
        agent("ann", "cwd: wa", &winner),
        agent("ben", "cwd: wb", &answer_replies("no", "agent1", 1)),
    ];
    let opened = "orchestrator:\n  context_paths:\n    - {path: out, permission: write}\n";
    Project::new()
        .file("out/a.txt", BEFORE)
        .file("open/b.txt", "b\n")
        .file("team.yaml", team(&agents, &format!("{opened}{rest}")))
}

fn start_server(rest: &str) -> WebServer {
    WebServer::start(project(rest), &["--config", "team.yaml"])
}

fn read(server: &WebServer, path: &str) -> Option<String> {
    std::fs::read_to_string(server.project.path(path)).ok()
}

#[track_caller]
fn check_refused(reply: &Reply, status: u16, reason: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert!(reply.body.contains(reason), "{reason}: {reply:?}");
}

/// Checks that there are two hunks, of which the second has the lines between them, and that there are
/// none beyond the ends of the file.
#[track_caller]
fn check_two_hunks(hunks: &[Value]) {
    assert_eq!(hunks.len(), 2);
    let around = |hunk: &Value| [hunk["above"].clone(), hunk["below"].clone()];
    assert_eq!(around(&hunks[0]), [json!([]), json!([])]);
    assert_eq!(around(&hunks[1]), [json!(["5", "6", "7", "8"]), json!([])]);
}

/// Checks that a decision about anything but the `hunks` that the page shows is refused.
#[track_caller]
fn check_refused_choices(deliver: impl Fn(Value) -> Reply, hunks: &[Value]) {
    let with = |hunk: &Value| json!([{"path": "out/a.txt", "take": true, "hunks": [hunk]}]);
    for index in [0, 2] {
        let other = json!({"index": index, "digest": hunks[1]["digest"]});
        let reply = deliver(with(&other));
        check_refused(&reply, 409, "not the one that the page shows");
    }
    let none = json!([{"path": "../secret", "take": true}]);
    check_refused(&deliver(none), 409, "is not a change that can be applied");
    let twice = json!([{"path": "out/a.txt", "take": true}, {"path": "out/a.txt", "take": false}]);
    check_refused(&deliver(twice), 400, "named twice");
}

#[test]
fn a_review_is_asked_for_without_the_config() {
    let server = start_server("");
    assert_eq!(server.get("/api/info").json()["teams"][0]["review"], false);
    let run = server.start_run(&json!({"task": "change a", "review": true}));
    let mut page = server.stream(&run, None);
    assert_eq!(page.question("delivery")["files"], 2);
    let nothing = json!([
        {"path": "out/a.txt", "take": false},
        {"path": "out/made.txt", "take": false},
    ]);
    let target = format!("/api/runs/{run}/delivery");
    let answered = server.post(&target, &json!({ "files": nothing }));
    assert_eq!(answered.status, 200, "{answered:?}");
    page.read_to_end();
    assert_eq!(read(&server, "out/a.txt").as_deref(), Some(BEFORE));
    // Control: otherwise, the config delivers without asking.
    let run = server.start_run(&json!({"task": "change a"}));
    server.stream(&run, None).read_to_end();
    assert_ne!(read(&server, "out/a.txt").as_deref(), Some(BEFORE));
}

#[test]
fn a_run_is_started_watched_reviewed_by_hunk_and_undone() {
    let server = start_server("delivery: review\n");
    let run = server.start_run(&json!({"task": "change a", "team": "team.yaml"}));
    let mut page = server.stream(&run, None);
    let question = page.question("delivery");
    assert_eq!(question["files"], 2, "{question}");
    assert_eq!(server.get("/api/runs").json()["runs"][0]["live"], true);
    let diff = server.get(&format!("/api/runs/{run}/diff")).json();
    assert_eq!(diff["state"], "pending", "{diff}");
    let files = diff["files"].as_array().unwrap();
    assert_eq!(files[0]["path"], "out/a.txt", "{diff}");
    assert_eq!(files[0]["change"], "changed", "{diff}");
    assert_eq!(files[1]["change"], "created", "{diff}");
    let hunks = files[0]["hunks"].as_array().unwrap();
    assert_eq!(
        hunks[0]["lines"][0],
        json!({"kind": "removed", "text": "1"})
    );
    assert_eq!(
        hunks[0]["lines"][1],
        json!({"kind": "added", "text": "one"})
    );
    check_two_hunks(hunks);
    let deliver = |files: Value| {
        let target = format!("/api/runs/{run}/delivery");
        server.post(&target, &json!({ "files": files }))
    };
    let hunk = |index: usize| json!({"index": index, "digest": hunks[index]["digest"]});
    check_refused_choices(deliver, hunks);
    assert_eq!(read(&server, "out/a.txt").as_deref(), Some(BEFORE));
    let decisions = json!([
        {"path": "out/a.txt", "take": true, "hunks": [hunk(1)]},
        {"path": "out/made.txt", "take": false},
    ]);
    let delivered = deliver(decisions);
    assert_eq!(delivered.status, 200, "{delivered:?}");
    let rows = &delivered.json()["rows"];
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    assert_eq!(rows[0]["hunks"], json!({"taken": 1, "total": 2}), "{rows}");
    let partly_changed = BEFORE.replacen("12", "twelve", 1);
    assert_eq!(read(&server, "out/a.txt"), Some(partly_changed.clone()));
    assert_eq!(read(&server, "out/made.txt"), None);
    let events = page.read_to_end();
    assert_eq!(events.last().unwrap().name, "end", "{events:?}");
    assert_eq!(page.sections["run"]["phase"], "ended");
    assert_eq!(page.sections["questions"], json!([]));
    let log = server.get(&format!("/api/runs/{run}/log?limit=1000"));
    let log = log.json()["events"].clone();
    let mut log = log.as_array().unwrap().iter();
    let recorded = log.find(|event| event["type"] == "delivered").unwrap();
    assert_eq!(recorded["by"], "web", "{recorded}");

    let remaining = server.get(&format!("/api/runs/{run}/diff")).json();
    assert_eq!(remaining["state"], "kept", "{remaining}");
    assert_eq!(remaining["applied"][0]["state"], "applied", "{remaining}");
    let left: Vec<&str> = remaining["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert!(left.contains(&"out/made.txt"), "{remaining}");
    let applied = deliver(json!([{"path": "out/made.txt", "take": true}]));
    assert_eq!(applied.status, 200, "{applied:?}");
    assert_eq!(read(&server, "out/made.txt").as_deref(), Some("made\n"));
    assert_eq!(read(&server, "out/a.txt"), Some(partly_changed));
    // The hunk that was left can still be taken.
    let remaining_file = &remaining["files"][0];
    assert_eq!(remaining_file["path"], "out/a.txt", "{remaining}");
    assert_eq!(remaining_file["conflict"], Value::Null, "{remaining}");
    let left = remaining_file["hunks"].as_array().unwrap();
    assert_eq!(left.len(), 1, "{remaining}");
    let hunk = json!({"index": 0, "digest": left[0]["digest"]});
    let completed = deliver(json!([{"path": "out/a.txt", "take": true, "hunks": [hunk]}])).json();
    assert_eq!(completed["rows"][0]["outcome"], "changed", "{completed}");
    assert_eq!(completed["rows"][0]["hunks"], Value::Null, "{completed}");
    assert_eq!(read(&server, "out/a.txt").as_deref(), Some(AFTER));

    let undo = |body: Value| server.post(&format!("/api/runs/{run}/undo"), &body);
    check_refused(&undo(json!({"paths": ["../secret"]})), 400, "hint");
    let undone = undo(json!({}));
    assert_eq!(undone.status, 200, "{undone:?}");
    let rows = undone.json()["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    assert_eq!(read(&server, "out/a.txt").as_deref(), Some(BEFORE));
    assert_eq!(read(&server, "out/made.txt"), None);
    let again = deliver(json!([{"path": "out/made.txt", "take": true}]));
    assert_eq!(again.json()["rows"][0]["outcome"], "restored", "{again:?}");
    assert_eq!(read(&server, "out/made.txt").as_deref(), Some("made\n"));
}

#[test]
fn a_file_that_is_edited_while_the_review_waits_is_a_conflict() {
    let server = start_server("delivery: review\n");
    let run = server.start_run(&json!({"task": "change a", "team": "team.yaml"}));
    let mut page = server.stream(&run, None);
    page.question("delivery");
    let conflicts = || -> Vec<String> {
        let diff = server.get(&format!("/api/runs/{run}/diff")).json();
        assert_eq!(diff["state"], "pending", "{diff}");
        let files = diff["files"].as_array().unwrap().iter();
        let rows = files.map(|file| format!("{} {}", file["path"], file["conflict"]));
        rows.collect()
    };
    let made = "\"out/made.txt\" null".to_owned();
    assert_eq!(conflicts(), ["\"out/a.txt\" null".to_owned(), made.clone()]);
    let edited = format!("{BEFORE}13\n");
    std::fs::write(server.project.path("out/a.txt"), &edited).unwrap();
    let changed = "\"out/a.txt\" \"you changed it since the run began\"".to_owned();
    assert_eq!(conflicts(), [changed, made]);
    // A page that was loaded before the edit still offers both.
    let deliver = |paths: &[&str]| {
        let files: Vec<Value> = paths
            .iter()
            .map(|path| json!({"path": path, "take": true}))
            .collect();
        let target = format!("/api/runs/{run}/delivery");
        server.post(&target, &json!({ "files": files }))
    };
    let both = deliver(&["out/made.txt", "out/a.txt"]);
    check_refused(&both, 409, "was changed while the review waited");
    assert_eq!(read(&server, "out/made.txt"), None);
    let delivered = deliver(&["out/made.txt"]);
    assert_eq!(delivered.status, 200, "{delivered:?}");
    page.read_to_end();
    assert_eq!(read(&server, "out/a.txt"), Some(edited));
    assert_eq!(read(&server, "out/made.txt").as_deref(), Some("made\n"));
}

/// A run whose delivery waited for review, was applied as a whole, and was undone.
struct UndoneRun {
    server: WebServer,
    run: String,
}

impl UndoneRun {
    fn new() -> Self {
        let server = start_server("delivery: review\n");
        let run = server.start_run(&json!({"task": "change a", "team": "team.yaml"}));
        let mut page = server.stream(&run, None);
        page.question("delivery");
        let undone = Self { server, run };
        let all =
            json!([{"path": "out/a.txt", "take": true}, {"path": "out/made.txt", "take": true}]);
        assert_eq!(undone.deliver(&all).status, 200);
        page.read_to_end();
        undone.expect_files(AFTER, Some("made\n"));
        undone.undo();
        undone
    }

    fn undo(&self) {
        let target = format!("/api/runs/{}/undo", self.run);
        let undone = self.server.post(&target, &json!({}));
        assert_eq!(undone.status, 200, "{undone:?}");
        self.expect_files(BEFORE, None);
    }

    fn deliver(&self, files: &Value) -> Reply {
        let target = format!("/api/runs/{}/delivery", self.run);
        self.server.post(&target, &json!({ "files": files }))
    }

    /// Returns a file as the page shows it.
    #[track_caller]
    fn shown_file(&self, path: &str) -> Value {
        let target = format!("/api/runs/{}/diff", self.run);
        let diff = self.server.get(&target).json();
        let files = diff["files"].as_array().unwrap();
        let named: Vec<&Value> = files.iter().filter(|file| file["path"] == path).collect();
        assert_eq!(named.len(), 1, "{diff}");
        named[0].clone()
    }

    /// Returns the decision that takes one hunk of `out/a.txt`.
    fn hunk(&self, index: usize) -> Value {
        let digest = self.shown_file("out/a.txt")["hunks"][index]["digest"].clone();
        json!({"path": "out/a.txt", "take": true, "hunks": [{"index": index, "digest": digest}]})
    }

    /// Returns the decision that takes both hunks of `out/a.txt`.
    fn both_hunks(&self) -> Value {
        let mut both = self.hunk(0);
        let second = self.hunk(1)["hunks"][0].clone();
        both["hunks"].as_array_mut().unwrap().push(second);
        both
    }

    #[track_caller]
    fn expect_files(&self, changed: &str, made: Option<&str>) {
        assert_eq!(read(&self.server, "out/a.txt").as_deref(), Some(changed));
        assert_eq!(read(&self.server, "out/made.txt").as_deref(), made);
    }
}

#[test]
fn what_was_undone_is_applied_again_by_file_and_hunk() {
    let undone = UndoneRun::new();
    let whole_file = json!({"path": "out/a.txt", "take": true});
    let made = json!({"path": "out/made.txt", "take": true});
    for path in ["out/a.txt", "out/made.txt"] {
        let file = undone.shown_file(path);
        assert_eq!(file["undone"], true, "{file}");
        assert_eq!(file["conflict"], Value::Null, "{file}");
    }
    let mut stale = undone.hunk(0);
    stale["hunks"][0]["index"] = 1.into();
    let twice = json!([made, undone.hunk(0), undone.hunk(1)]);
    let unknown = json!([made, {"path": "out/b", "take": true}]);
    for (files, status, reason) in [
        (json!([made, stale]), 409, "not the one that the page shows"),
        (twice, 400, "named twice"),
        (unknown, 409, "is not a change"),
    ] {
        check_refused(&undone.deliver(&files), status, reason);
        undone.expect_files(BEFORE, None);
    }

    let rows = undone.deliver(&json!([undone.hunk(1)])).json()["rows"].clone();
    assert_eq!(rows[0]["outcome"], "restored", "{rows}");
    assert_eq!(rows[0]["hunks"], json!({"taken": 1, "total": 2}), "{rows}");
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    let partly = BEFORE.replacen("12", "twelve", 1);
    undone.expect_files(&partly, None);
    // Without hunks, a file is applied again as it was applied before.
    undone.undo();
    let offered = undone.shown_file("out/a.txt");
    assert_eq!(offered["hunks"].as_array().unwrap().len(), 2, "{offered}");
    let again = undone.deliver(&json!([whole_file]));
    assert_eq!(again.json()["rows"][0]["outcome"], "restored", "{again:?}");
    undone.expect_files(&partly, None);
    // All of it and another file that was undone are taken together.
    undone.undo();
    let all = undone.both_hunks();
    let both = undone.deliver(&json!([all, made])).json();
    assert_eq!(both["rows"].as_array().unwrap().len(), 2, "{both}");
    undone.expect_files(AFTER, Some("made\n"));
}

#[test]
fn hunks_that_were_left_can_be_taken_after_an_undo() {
    let undone = UndoneRun::new();
    assert_eq!(undone.deliver(&json!([undone.hunk(1)])).status, 200);
    undone.undo();
    let rows = undone.deliver(&json!([undone.hunk(0)])).json()["rows"].clone();
    assert_eq!(rows[0]["hunks"], json!({"taken": 1, "total": 2}), "{rows}");
    undone.expect_files(&BEFORE.replacen('1', "one", 1), None);
    undone.undo();
    let rows = undone.deliver(&json!([undone.both_hunks()])).json()["rows"].clone();
    assert_eq!(rows[0]["outcome"], "restored", "{rows}");
    undone.expect_files(AFTER, None);
    undone.undo();
}

#[test]
fn what_the_user_changed_after_an_undo_is_a_conflict() {
    let undone = UndoneRun::new();
    let hunk = undone.hunk(0);
    let whole_file = json!({"path": "out/a.txt", "take": true});
    let made = json!({"path": "out/made.txt", "take": true});
    let edited = format!("{BEFORE}13\n");
    std::fs::write(undone.server.project.path("out/a.txt"), &edited).unwrap();
    let target = format!("/api/runs/{}/diff", undone.run);
    let diff = undone.server.get(&target).json();
    let applied = &diff["applied"][0];
    assert_eq!(
        (&applied["path"], &applied["state"]),
        (&json!("out/a.txt"), &json!("changed since")),
        "{diff}"
    );
    for decision in [hunk, whole_file] {
        let reply = undone.deliver(&json!([decision, made]));
        check_refused(&reply, 409, "is not a change that can be applied");
        undone.expect_files(&edited, None);
    }
    assert_eq!(undone.deliver(&json!([made])).status, 200);
    undone.expect_files(&edited, Some("made\n"));
}

#[test]
fn a_task_opens_for_writing_only_what_the_person_has_agreed_to() {
    let server = start_server("");
    let open = server.project.path("open").display().to_string();
    let start = |task: &str, opens: &[&str]| {
        let request = json!({"task": task, "opens": opens, "pasted": []});
        server.post("/api/runs", &request)
    };
    let asked = start("change @open/:w", &[]);
    check_refused(&asked, 409, "has not agreed");
    assert_eq!(asked.json()["opens"], json!([open]), "{asked:?}");
    check_refused(&start("change @open/:w", &["/"]), 409, "has not agreed");
    let outside = server.project.home("x.txt");
    std::fs::write(&outside, "CANARY").unwrap();
    let reading = format!("read @{}", outside.display());
    check_refused(&start(&reading, &[]), 409, "has not agreed");
    assert_eq!(start("change @open/:w", &[&open]).status, 200);
    assert_eq!(start("change @out/:w", &[]).status, 200);
    assert_eq!(start("read @open/b.txt", &[]).status, 200);
    check_refused(&start("  ", &[]), 400, "there is no task");
    check_refused(&start("read @/", &["/"]), 400, "would open all of");
    let other = json!({"task": "x", "team": "other.yaml"});
    check_refused(&server.post("/api/runs", &other), 400, "names no team");
    let config = json!({"task": "x", "config": "/etc/passwd"});
    check_refused(&server.post("/api/runs", &config), 400, "config");
}

#[test]
fn pasted_text_opens_nothing_at_the_page_without_an_answer() {
    let server = start_server("");
    let file = server.project.path("open/b.txt").display().to_string();
    let start = |pasted: Value, opens: &[&str]| {
        let mut request = json!({"task": "read @open/b.txt", "opens": opens, "dry_run": true});
        if !pasted.is_null() {
            request["pasted"] = pasted;
        }
        server.post("/api/runs", &request)
    };
    // What the page does not say about a task was pasted.
    for pasted in [
        Value::Null,
        json!(["read @open/b.txt"]),
        json!(["@open/b.txt"]),
        json!(["x", "@open/", "b.txt"]),
    ] {
        let asked = start(pasted.clone(), &[]);
        check_refused(&asked, 409, "has not agreed");
        assert_eq!(asked.json()["opens"], json!([file]), "{pasted}");
        assert_eq!(start(pasted, &[&file]).status, 200);
    }
    assert_eq!(start(json!([]), &[]).status, 200);
    assert_eq!(start(json!(["read"]), &[]).status, 200);
    // What the config opens is open.
    let open = json!({"task": "change @out/:w", "dry_run": true});
    assert_eq!(server.post("/api/runs", &open).status, 200);
}

#[test]
fn what_a_context_path_closes_is_opened_only_after_an_answer() {
    let replies = "
- calls: [{name: write_file, arguments: {path: '[PROJECT]/.git/hooks/x', content: made}}]
- calls: [{name: new_answer, arguments: {content: done}}]
";
    let rest =
        "orchestrator: {context_paths: [{path: ., permission: write, hidden_paths: [private]}]}\n";
    let project = Project::new()
        .dir(".git/hooks")
        .file("private/x", "CANARY")
        .link("notes.ini", ".git/config")
        .link("guide.md", "../home/key")
        .file(".git/config", "")
        .home_file("key", "CANARY");
    let place = project.path("").display().to_string();
    let replies = replies.replace("[PROJECT]", place.trim_end_matches('/'));
    let project = project.file("team.yaml", team(&[agent("a", "cwd: w", &replies)], rest));
    let server = WebServer::start(project, &["--config", "team.yaml"]);
    let path = |name: &str| server.project.path(name).display().to_string();
    let start = |task: &str, opens: &[String]| {
        let request = json!({"task": task, "opens": opens, "pasted": []});
        server.post("/api/runs", &request)
    };
    let key = server.project.home("key").display().to_string();
    for (task, target, reason) in [
        (
            "x @.git/hooks/:w",
            path(".git/hooks"),
            "the name is protected",
        ),
        ("x @.git:w", path(".git"), "the name is protected"),
        ("x @private/x", path("private/x"), "hidden from agents"),
        ("x @private", path("private"), "hidden from agents"),
        (
            "x @notes.ini:w",
            path(".git/config"),
            "where `.git` is protected",
        ),
        ("x @guide.md", key, "out of"),
    ] {
        let asked = start(task, &[]);
        check_refused(&asked, 409, "has not agreed");
        let asked = asked.json();
        assert_eq!(asked["opens"], json!([target]), "{task}");
        let text = asked["reasons"][&target].as_str().unwrap();
        assert!(text.contains(reason), "{task}: {text}");
        // An answer about the symlink is not one about the place to which it leads.
        check_refused(&start(task, &[path("notes.ini")]), 409, "has not agreed");
    }
    // Control: what the context path opens is open, also through a symlink.
    assert_eq!(start("x @team.yaml @notes.ini", &[]).status, 200);
    let run = server.start_run(&json!({
        "task": "x @.git/hooks/:w", "opens": [path(".git/hooks")], "pasted": [],
    }));
    server.stream(&run, None).read_to_end();
    assert!(server.project.path(".git/hooks/x").exists());
}

/// Returns a project whose agent asks the person before each of two calls.
fn approval_project() -> Project {
    let replies = "
- {when: {system: the final agent}, text: done}
- calls: [{name: write_file, arguments: {path: a.txt, content: one}}]
- calls: [{name: write_file, arguments: {path: b.txt, content: two}}]
- calls: [{name: new_answer, arguments: {content: done}}]
- {calls: [{name: vote, arguments: {agent_id: agent1, reason: x}}], repeat: true}
";
    let rest = "permissions: {ask: ['write_file(*.txt)'], ask_timeout_seconds: 600}";
    let config = team(&[agent("a", "cwd: w", replies)], rest);
    Project::new().file("team.yaml", config)
}

#[test]
fn calls_wait_for_the_person_at_the_page() {
    let server = WebServer::start(approval_project(), &["--config", "team.yaml"]);
    let run = server.start_run(&json!({"task": "write"}));
    let mut page = server.stream(&run, None);
    let question = page.question("approval");
    assert_eq!(question["tool"], "write_file", "{question}");
    assert_eq!(question["agent"], "a", "{question}");
    let first = question["id"].as_str().unwrap().to_owned();
    let answer = |id: &str, choice: &str| {
        let target = format!("/api/runs/{run}/approvals/{id}");
        server.post(&target, &json!({ "answer": choice }))
    };
    check_refused(&answer(&first, "always"), 400, "expected `once`");
    check_refused(&answer("q99", "once"), 409, "nothing waits");
    assert_eq!(answer(&first, "once").status, 200);
    check_refused(&answer(&first, "once"), 409, "nothing waits");
    page.read_until(|sections| {
        let questions = sections["questions"].as_array().unwrap();
        questions
            .first()
            .is_some_and(|question| question["id"] != first.as_str())
    });
    let second = page.question("approval");
    assert_eq!(answer(second["id"].as_str().unwrap(), "no").status, 200);
    page.read_to_end();
    assert_eq!(page.sections["run"]["phase"], "ended");
    let log = server
        .get(&format!("/api/runs/{run}/log?limit=1000"))
        .json();
    let answers: Vec<&Value> = log["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "approval" && !event["answer"].is_null())
        .inspect(|event| assert_eq!(event["by"], "web", "{event}"))
        .map(|event| &event["answer"])
        .collect();
    assert_eq!(answers, [&json!("once"), &json!("no")], "{log}");
    // The run leaves the list of active ones a moment after its last event.
    wait_until("the run is not active", PATIENCE, || {
        answer(&first, "once").body.contains("not an active run")
    });
}

#[test]
fn a_run_of_the_page_is_resumed_here_with_new_questions_and_shown_when_resumed_in_a_terminal() {
    let project = approval_project().args(["--continue"]);
    let mut in_terminal = project.command();
    let server = WebServer::start(project, &["--config", "team.yaml"]);
    let limits = json!({"max_tool_calls": "40", "orchestrator_timeout_seconds": 600});
    let run = server.start_run(&json!({"task": "write", "limits": limits}));
    let target = |rest: &str| format!("/api/runs/{run}/{rest}");
    let asked = || {
        let mut page = server.stream(&run, None);
        let question = page.question("approval");
        // The same call again: the end of a run is no answer.
        let effects = question["effects"].to_string();
        assert!(effects.contains("`a.txt`"), "{question}");
        page.read_until(|sections| sections.contains_key("run"));
        // They are in force again when it is resumed.
        let limits = &page.sections["run"]["limits"];
        assert_eq!(limits["max_tool_calls"], 40, "{limits}");
        question["id"].as_str().unwrap().to_owned()
    };
    let cancel = || {
        let stopped = server.post(&target("stop"), &json!({"mode": "cancel"}));
        assert_eq!(stopped.status, 200, "{stopped:?}");
        server.stream(&run, None).read_to_end();
        // The run leaves the list of active ones a moment after its last event.
        wait_until("the run is not active", PATIENCE, || {
            server.get("/api/runs").json()["runs"][0]["live"] == false
        });
    };
    let first = asked();
    cancel();
    let resumed = server.post(&target("continue"), &json!({}));
    assert_eq!(resumed.status, 200, "{resumed:?}");
    // An answer to the question before the interruption does not answer the one after it.
    assert_ne!(asked(), first);
    let once = json!({"answer": "once"});
    let answered = server.post(&target(&format!("approvals/{first}")), &once);
    check_refused(&answered, 409, "nothing waits");
    cancel();
    let answer = || server.get(&target("answers/agent1.1"));
    assert_eq!(answer().status, 404);
    let finished = in_terminal.output().unwrap();
    assert!(finished.status.success(), "{finished:?}");
    assert_eq!(answer().json()["content"], "done");
    let mut page = server.stream(&run, None);
    page.read_to_end();
    assert_eq!(page.sections["run"]["status"], "delivered");
}

#[test]
fn a_run_is_stopped_previewed_and_limited_in_number() {
    let slow = answer_replies("yes", "agent1", 20_000);
    let config = team(&[agent("ann", "", &slow)], "");
    let project = Project::new().file("team.yaml", config);
    let arguments = ["--config", "team.yaml", "--parallel", "1"];
    let server = WebServer::start(project, &arguments);
    let preview = |limits: Value| {
        let request = json!({"task": "x", "dry_run": true, "limits": limits});
        server.post("/api/runs", &request)
    };
    let shown = preview(json!({"max_tool_calls": 3, "orchestrator_timeout_seconds": "60"}));
    for part in [
        "limits of the run: 3 tool calls",
        "timeout of the run: 60 s",
        "nothing was sent or written",
    ] {
        assert!(shown.body.contains(part), "{part}: {shown:?}");
    }
    for (field, value) in [
        ("max_cost_usd", json!("-1")),
        ("max_tokens_total", json!("NaN")),
        ("max_tool_calls", json!([1])),
        ("orchestrator_timeout_seconds", json!(1e99)),
        ("max_iterations", json!(2)),
    ] {
        let reply = preview(json!({ field: value }));
        assert_eq!(reply.status, 400, "{reply:?}");
        assert_eq!(reply.json()["field"], field, "{reply:?}");
    }
    check_refused(&preview(json!({"timeout": 1})), 400, "not known");
    check_refused(&preview(json!("none")), 400, "limits");
    assert_eq!(server.get("/api/runs").json()["runs"], json!([]));
    let run = server.start_run(&json!({"task": "x"}));
    check_refused(
        &server.post("/api/runs", &json!({"task": "y"})),
        429,
        "no more than 1 run",
    );
    let stop = |mode: &str| server.post(&format!("/api/runs/{run}/stop"), &json!({"mode": mode}));
    check_refused(&stop("now"), 400, "mode");
    let mut page = server.stream(&run, None);
    assert_eq!(stop("cancel").status, 200);
    page.read_to_end();
    assert_eq!(page.sections["run"]["status"], "interrupted");
}

/// Returns a server whose team of two agents writes these files below `out`, and reviews the delivery.
fn start_writers(files: [(&str, &str); 2]) -> WebServer {
    let writes = |(name, text): (&str, &str)| {
        let first = format!(
            "- {{when: {{last: \"<task>\"}}, calls: [{{name: write_file, arguments: {{path: \
             \"{name}\", content: \"{text}\\n\"}}}}]}}"
        );
        let votes =
            "- {calls: [{name: vote, arguments: {agent_id: agent1, reason: x}}], repeat: true}";
        format!(
            "- {{when: {{system: \"{FINAL}\"}}, text: done}}\n{first}\n- {{calls: [{{name: \
             new_answer, arguments: {{content: {text}}}}}]}}\n{votes}\n"
        )
    };
    let [one, other] = files.map(writes);
    let agents = [
        agent("ann", "cwd: wa", &one),
        agent("ben", "cwd: wb", &other),
    ];
    let opened = "orchestrator:\n  context_paths:\n    - {path: out, permission: write}\n";
    let project = Project::new().dir("out").file(
        "team.yaml",
        team(&agents, &format!("{opened}delivery: review\n")),
    );
    WebServer::start(project, &["--config", "team.yaml"])
}

#[test]
fn what_was_undone_of_every_part_is_told() {
    let server = start_writers([("a.txt", "yes"), ("b.txt", "no")]);
    let run = server.start_run(&json!({"task": "write"}));
    let mut page = server.stream(&run, None);
    page.question("delivery");
    let post = |action: &str, body: Value| {
        let reply = server.post(&format!("/api/runs/{run}/{action}"), &body);
        assert_eq!(reply.status, 200, "{reply:?}");
    };
    post(
        "delivery",
        json!({"files": [{"path": "out/a.txt", "take": true}]}),
    );
    page.read_to_end();
    let other = json!([{"path": "out/b.txt", "take": true}]);
    post("delivery", json!({"answer": "agent2.1", "files": other}));
    let check_applied = |expected: [(&str, &str); 2]| {
        post("undo", json!({}));
        let diff = server.get(&format!("/api/runs/{run}/diff")).json();
        let applied = diff["applied"].as_array().unwrap().iter();
        let mut applied: Vec<(&str, &str)> = applied
            .map(|file| {
                (
                    file["path"].as_str().unwrap(),
                    file["state"].as_str().unwrap(),
                )
            })
            .collect();
        applied.sort_unstable();
        assert_eq!(applied, expected, "{diff}");
    };
    check_applied([("out/a.txt", "applied"), ("out/b.txt", "reverted")]);
    check_applied([("out/a.txt", "reverted"), ("out/b.txt", "reverted")]);
    assert_eq!(read(&server, "out/a.txt"), None);
    assert_eq!(read(&server, "out/b.txt"), None);
}

#[test]
fn answers_are_compared_with_the_project_and_with_each_other() {
    let server = start_writers([("a.txt", "yes"), ("a.txt", "no")]);
    let run = server.start_run(&json!({"task": "write"}));
    let mut page = server.stream(&run, None);
    page.question("delivery");
    let nothing = server.post(&format!("/api/runs/{run}/delivery"), &json!({"files": []}));
    assert_eq!(
        nothing.json()["rows"][0]["outcome"],
        "declined",
        "{nothing:?}"
    );
    page.read_to_end();
    let answer = server.get(&format!("/api/runs/{run}/answers/agent1.1"));
    assert_eq!(answer.json()["content"], "yes", "{answer:?}");
    assert_eq!(
        answer.json()["markdown"][0]["kind"],
        "paragraph",
        "{answer:?}"
    );
    assert_eq!(
        server
            .get(&format!("/api/runs/{run}/answers/agent9.1"))
            .status,
        404
    );
    let diff = |query: &str| server.get(&format!("/api/runs/{run}/diff?{query}"));
    let lines = |reply: &Reply| reply.json()["files"][0]["hunks"][0]["lines"].clone();
    let other = diff("answer=agent2.1");
    assert!(lines(&other).to_string().contains("\"no\""), "{other:?}");
    let between = diff("answer=agent2.1&against=agent1.1");
    assert_eq!(
        lines(&between),
        json!([{"kind": "removed", "text": "yes"}, {"kind": "added", "text": "no"}]),
        "{between:?}"
    );
    check_refused(&diff("against=agent1.1"), 400, "needs `answer`");
    check_refused(&diff("answer=agent9.1"), 400, "no answer");
    check_refused(&diff("answer=..%2f..%2fx"), 400, "no answer");
    assert_eq!(diff("path=/etc/passwd").status, 400);
    let applied = server.post(
        &format!("/api/runs/{run}/delivery"),
        &json!({"answer": "agent2.1", "files": [{"path": "out/a.txt", "take": true}]}),
    );
    assert_eq!(applied.status, 200, "{applied:?}");
    assert_eq!(read(&server, "out/a.txt").as_deref(), Some("no\n"));
}

#[test]
fn a_failed_check_and_an_open_question_wait_for_the_page() {
    let rest = "checks: [{name: never, command: 'false'}]\non_check_failure: ask\n";
    let server = start_server(rest);
    let run = server.start_run(&json!({"task": "change a"}));
    let mut page = server.stream(&run, None);
    let question = page.question("failed_check");
    let id = question["id"].as_str().unwrap().to_owned();
    let answer = |id: &str, choice: &str| {
        let target = format!("/api/runs/{run}/questions/{id}");
        server.post(&target, &json!({ "answer": choice }))
    };
    check_refused(&answer(&id, "maybe"), 400, "expected `keep` or `revert`");
    check_refused(&answer("q7", "keep"), 409, "nothing waits");
    assert_eq!(read(&server, "out/made.txt").as_deref(), Some("made\n"));
    assert_eq!(answer(&id, "revert").status, 200);
    page.read_to_end();
    assert_eq!(read(&server, "out/made.txt"), None);
    assert_eq!(read(&server, "out/a.txt").as_deref(), Some(BEFORE));
}

/// The reply to the page waits for the outcome, which is there only after the checks.
#[test]
fn a_reviewed_delivery_whose_checks_fail_is_reverted() {
    let server = start_server("delivery: review\nchecks: [{name: never, command: 'false'}]\n");
    let run = server.start_run(&json!({"task": "change a"}));
    let mut page = server.stream(&run, None);
    page.question("delivery");
    let taken = json!({"files": [
        {"path": "out/a.txt", "take": true},
        {"path": "out/made.txt", "take": true},
    ]});
    let delivered = server.post(&format!("/api/runs/{run}/delivery"), &taken);
    assert_eq!(delivered.status, 200, "{delivered:?}");
    page.read_to_end();
    let rows = &page.sections["delivery"]["rows"];
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    for row in rows.as_array().unwrap() {
        assert_eq!(row["outcome"], "taken_back", "{rows}");
    }
    assert_eq!(read(&server, "out/a.txt").as_deref(), Some(BEFORE));
    assert_eq!(read(&server, "out/made.txt"), None);
}

#[test]
fn of_two_answers_to_one_question_only_the_first_counts() {
    let token = "0123456789abcdef0123";
    let project = project("delivery: review\n").file("token", token);
    let readable = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(project.path("token"), readable).unwrap();
    let arguments = ["--config", "team.yaml", "--token-file", "token"];
    let mut one = WebServer::start(project, &arguments);
    let run = one.start_run(&json!({"task": "change a"}));
    let mut page = one.stream(&run, None);
    page.question("delivery");
    let own = one.token.clone();
    token.clone_into(&mut one.token);
    let mut other = one.stream(&run, None);
    let question = other.question("delivery");
    assert_eq!(question, page.question("delivery"));
    let nothing = json!({"files": []});
    let target = format!("/api/runs/{run}/delivery");
    assert_eq!(one.post(&target, &nothing).status, 200);
    own.clone_into(&mut one.token);
    page.read_to_end();
    other.read_to_end();
    assert_eq!(page.sections, other.sections);
    // The delivery is kept, so that another choice applies it.
    let choice = json!({"files": [{"path": "out/made.txt", "take": true}]});
    let applied = one.post(&target, &choice);
    assert!(applied.body.contains("created"), "{applied:?}");
    assert_eq!(read(&one, "out/made.txt").as_deref(), Some("made\n"));
}

#[test]
fn text_typed_at_the_web_server_is_not_sent_to_agents() {
    const TYPED: usize = 12;
    let slow = answer_replies("yes", "agent1", 1500);
    let config = team(&[agent("ann", "", &slow)], "");
    let arguments = ["web", "--no-browser", "--config", "team.yaml"];
    let project = Project::new().file("team.yaml", config).args(arguments);
    let mut terminal = Terminal::open(project, 160);
    let links = |terminal: &Terminal| -> Vec<String> {
        let written = terminal.all_output();
        // The last line may not be whole yet.
        let shown = written
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(str::trim);
        let shown = shown.filter(|line| line.starts_with("http://") && line.contains("/#k="));
        shown.map(str::to_owned).collect()
    };
    terminal.wait(|| !links(&terminal).is_empty(), || "a link".to_owned());
    let server = WebServer::at_terminal(&links(&terminal)[0]);
    let run = server.start_run(&json!({"task": "x"}));
    let mut page = server.stream(&run, None);
    page.read_until(|sections| sections.contains_key("agents/0"));
    for number in 1..=TYPED {
        terminal.type_keys("hello\r");
        let expected = || format!("{number} more links");
        terminal.wait(|| links(&terminal).len() == number + 1, expected);
    }
    page.read_to_end();
    let log = server.get(&format!("/api/runs/{run}/log?limit=1000"));
    assert!(log.body.contains("run_ended"), "{log:?}");
    assert!(!log.body.contains("user_message"), "{log:?}");
}

#[test]
fn messages_reach_the_agents() {
    // The messages are sent during the first reply, and read before the next one.
    let replies = answer_replies("yes", "agent1", 1).replacen("delay_ms: 1", "delay_ms: 8000", 1);
    let config = team(&[agent("ann", "", &replies)], "");
    let project = Project::new().file("team.yaml", config);
    let server = WebServer::start(project, &["--config", "team.yaml"]);
    let run = server.start_run(&json!({"task": "x"}));
    let mut page = server.stream(&run, None);
    page.read_until(|sections| sections.contains_key("agents/0"));
    let target = format!("/api/runs/{run}/messages");
    let send = |body: Value| server.post(&target, &body);
    check_refused(&send(json!({"text": " "})), 400, "the message is empty");
    check_refused(&send(json!({"text": "x", "agent": "bob"})), 400, "bob");
    check_refused(&send(json!({"text": "x", "agent": "../x"})), 400, "x");
    assert_eq!(
        send(json!({"text": "be brief", "agent": "ann"})).status,
        200
    );
    page.read_to_end();
    let log = server.get(&format!("/api/runs/{run}/log?limit=1000"));
    assert!(log.body.contains("be brief"), "{log:?}");
    check_refused(&send(json!({"text": "x"})), 409, "run");
}
