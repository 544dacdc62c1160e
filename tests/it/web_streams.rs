//! `massgen web`: the streams of runs. A reader that reconnects after any interruption has what the
//! log contains.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use massgen::text::to_hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::project::Project;
use crate::repetition::repetitions;
use crate::scripted_team::{agent, answer_replies, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};
use crate::web_server::WebServer;

/// A team of three whose replies are streamed word by word, in a second.
fn project() -> Project {
    speaking_project(20)
}

/// The same in some seconds, in which a test looks at the run.
fn slow_project() -> Project {
    speaking_project(100)
}

/// The same with a pause of `pause_ms` before each word.
fn speaking_project(pause_ms: u32) -> Project {
    let words: Vec<String> = (0..40).map(|number| format!("word{number}")).collect();
    let speaks = |id: &str| {
        let speech = format!(
            "- {{when: {{last: \"<task>\"}}, text: \"{}\", chunk_delay_ms: {pause_ms}, calls: [{{name: \
             new_answer, arguments: {{content: {id}}}}}]}}\n",
            words.join(" ")
        );
        let rest = answer_replies(id, "agent1", 1);
        let (first, rest) = rest.split_once("- when: {last").unwrap();
        let (_, rest) = rest.split_once("\n- ").unwrap();
        agent(id, "", &format!("{first}{speech}- {rest}"))
    };
    let agents = ["ann", "ben", "cam"].map(speaks);
    Project::new().file("team.yaml", team(&agents, ""))
}

fn start_server() -> WebServer {
    WebServer::start(project(), &["--config", "team.yaml"])
}

fn start_slow_server() -> WebServer {
    WebServer::start(slow_project(), &["--config", "team.yaml"])
}

/// Returns the sections of a run as a reader that comes after its end sees them.
fn folded_agents(server: &WebServer, run: &str) -> BTreeMap<String, Value> {
    let mut late = server.stream(run, None);
    late.read_to_end();
    late.sections
}

#[test]
fn a_reader_that_reconnects_misses_nothing() {
    let server = start_server();
    let run = server.start_run(&json!({"task": "speak"}));
    let (mut sections, mut last, mut connections) = (BTreeMap::new(), None, 0);
    let begun = Instant::now();
    loop {
        assert!(
            begun.elapsed() < WAIT_TIME_MAX,
            "the run does not end: {sections:#?}"
        );
        connections += 1;
        let mut page = server.stream(&run, last);
        page.sections = sections;
        let mut is_over = false;
        // Breaking off after few events also happens between the sections of one change.
        for _ in 0..3 + connections % 10 {
            let Some(event) = page.next_event() else {
                break;
            };
            is_over |= event.name == "end";
        }
        (sections, last) = (page.sections, page.last_id);
        if is_over {
            break;
        }
    }
    assert!(connections > 3, "{connections}");
    let expected = folded_agents(&server, &run);
    assert!(expected.contains_key("agents/2"), "{expected:?}");
    assert_eq!(sections, expected);
    let events = server
        .get(&format!("/api/runs/{run}/log?limit=1000"))
        .json();
    let events = events["events"].as_array().unwrap().len();
    assert_eq!(last, u64::try_from(events).ok());
    let mut nothing = server.stream(&run, last);
    let rest = nothing.read_to_end();
    let names: Vec<&str> = rest.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(nothing.sections.keys().collect::<Vec<_>>(), ["questions"]);
    assert_eq!(names, ["section", "end"]);
    let mut beyond = server.stream(&run, Some(1_000_000));
    beyond.read_to_end();
    assert_eq!(beyond.sections, expected);
}

#[test]
fn pieces_of_replies_come_before_the_log_has_them() {
    let server = start_slow_server();
    let run = server.start_run(&json!({"task": "speak"}));
    let mut page = server.stream(&run, None);
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut ahead = 0;
    while let Some(event) = page.next_event() {
        if event.name != "text" {
            continue;
        }
        assert_eq!(event.id, None, "{event:?}");
        let piece = &event.data;
        let agent = piece["agent"].as_str().unwrap().to_owned();
        let text = texts.entry(agent).or_default();
        let at = usize::try_from(piece["at"].as_u64().unwrap()).unwrap();
        if at == text.len() {
            text.push_str(piece["text"].as_str().unwrap());
            ahead += 1;
        }
    }
    assert!(ahead > 10, "{texts:?}");
    for text in texts.values() {
        assert!(text.starts_with("word0 word1 word2"), "{texts:?}");
    }
    let length = &page.sections["agents/1"]["speech"]["length"];
    assert!(length.as_u64().unwrap() > 100, "{length}");
}

#[test]
fn six_readers_and_one_that_does_not_read_all_get_the_same() {
    let server = start_server();
    let run = server.start_run(&json!({"task": "speak"}));
    // Its connection is open and nothing is ever read from it.
    let target = format!("/api/runs/{run}/stream");
    let stuck = server.open("GET", &target, &server.headers(), None);
    let all: Vec<BTreeMap<String, Value>> = thread::scope(|scope| {
        let read = || {
            let mut page = server.stream(&run, None);
            page.read_to_end();
            page.sections
        };
        let readers: Vec<_> = (0..6).map(|_| scope.spawn(read)).collect();
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect()
    });
    let expected = folded_agents(&server, &run);
    for sections in all {
        assert_eq!(sections, expected);
    }
    drop(stuck);
    assert_eq!(server.get("/api/info").status, 200);
}

/// Starts a run of another process.
fn in_terminal(project: &Project) -> Child {
    let mut command = project.command();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Waits until the server lists a run, and returns its name.
#[track_caller]
fn wait_for_run(server: &WebServer) -> String {
    let mut run = None;
    wait_until("the run is listed", WAIT_TIME_MAX, || {
        let listed = server.get("/api/runs").json();
        run = listed["runs"][0]["id"].as_str().map(str::to_owned);
        run.is_some()
    });
    run.unwrap()
}

#[test]
fn a_run_of_another_process_is_followed_and_not_controlled() {
    let project = slow_project().args(["--config", "team.yaml", "speak"]);
    let command = project.command();
    let server = WebServer::start(project, &["--config", "team.yaml"]);
    let mut command = command;
    let mut other = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let run = wait_for_run(&server);
    let stopped = server.post(&format!("/api/runs/{run}/stop"), &json!({"mode": "cancel"}));
    assert_eq!(stopped.status, 409, "{stopped:?}");
    let mut page = server.stream(&run, None);
    let events = page.read_to_end();
    assert_eq!(events.last().unwrap().data["state"], "ended", "{events:?}");
    assert!(other.wait().unwrap().success());
    assert_eq!(page.sections, folded_agents(&server, &run));
}

/// Returns a server with these arguments, the run that was killed in a terminal meanwhile, and the command
/// that resumes it there.
fn with_killed_run(arguments: &[&str]) -> (WebServer, String, Command) {
    let other_team = team(&[agent("ann", "", &answer_replies("yes", "agent1", 1))], "");
    let project =
        slow_project()
            .file("other.yaml", other_team)
            .args(["--config", "team.yaml", "speak"]);
    let mut other = in_terminal(&project);
    let project = project.retyped(["--continue"]);
    let resumption = project.command();
    let server = WebServer::start(project, arguments);
    let run = wait_for_run(&server);
    let mut page = server.stream(&run, None);
    page.read_until(|sections| sections.contains_key("agents/0"));
    other.kill().unwrap();
    other.wait().unwrap();
    let events = page.read_to_end();
    assert_eq!(
        events.last().unwrap().data["state"],
        "interrupted",
        "{events:?}"
    );
    (server, run, resumption)
}

#[test]
fn a_run_whose_process_is_killed_is_interrupted_and_can_be_resumed() {
    let (server, run, _) = with_killed_run(&["--config", "team.yaml"]);
    let row = || server.get("/api/runs").json()["runs"][0].clone();
    assert_eq!(row()["state"], "interrupted");
    assert_eq!(row()["resumable"], true);
    let target = format!("/api/runs/{run}/continue");
    let resumed = server.post(&target, &json!({}));
    assert_eq!(resumed.status, 200, "{resumed:?}");
    assert_eq!(resumed.json()["run"], json!(run), "{resumed:?}");
    let mut page = server.stream(&run, None);
    let events = page.read_to_end();
    assert_eq!(events.last().unwrap().data["state"], "ended", "{events:?}");
    assert_eq!(page.sections["run"]["status"], "delivered");
    assert_eq!(page.sections, folded_agents(&server, &run));
    assert_eq!(row()["resumable"], false);
    let again = server.post(&target, &json!({}));
    assert_eq!(again.status, 409, "{again:?}");
    assert!(again.body.contains("cannot be resumed"), "{again:?}");
}

#[test]
fn a_run_is_resumed_only_with_its_own_config_and_in_a_terminal() {
    let (server, run, mut resumption) = with_killed_run(&["--config", "other.yaml"]);
    let refused = server.post(&format!("/api/runs/{run}/continue"), &json!({}));
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("massgen web --config"), "{refused:?}");
    let row = server.get("/api/runs").json()["runs"][0].clone();
    assert_eq!(row["state"], "interrupted", "{row}");
    let mut page = server.stream(&run, None);
    let bytes = page.read_to_end().last().unwrap().data["log_bytes"].clone();
    let is_resumed = || {
        let target = format!("/api/runs/{run}/resumption?log_bytes={bytes}");
        server.get(&target).json()["is_resumed"].clone()
    };
    assert_eq!(is_resumed(), false, "{bytes}");
    let resumed = resumption.output().unwrap();
    assert!(resumed.status.success(), "{resumed:?}");
    assert_eq!(is_resumed(), true, "{bytes}");
    // The server has a feed of the run, which ended when that was killed.
    let mut page = server.stream(&run, None);
    let events = page.read_to_end();
    let end = json!({"state": "ended", "log_bytes": null});
    assert_eq!(events.last().unwrap().data, end, "{events:?}");
    assert_eq!(page.sections["run"]["status"], "delivered");
}

#[test]
fn text_of_agents_reaches_the_page_escaped_and_redacted() {
    let key = "sk-proj-0123456789abcdef";
    let answer = format!("a\\u202Eb <script>alert(1)</script> {key}");
    let config = team(
        &[agent("ann", "", &answer_replies(&answer, "agent1", 1))],
        "",
    );
    let project = Project::new()
        .file("team.yaml", config)
        .env("OPENAI_API_KEY", key);
    let server = WebServer::start(project, &["--config", "team.yaml"]);
    let run = server.start_run(&json!({"task": "speak"}));
    let mut page = server.stream(&run, None);
    let events = page.read_to_end();
    let all: String = events.iter().map(|event| event.data.to_string()).collect();
    let log = server.get(&format!("/api/runs/{run}/log?limit=1000"));
    let label = server.get(&format!("/api/runs/{run}/answers/agent1.1"));
    for text in [&all, &log.body, &label.body] {
        assert!(!text.contains('\u{202e}') && !text.contains(key), "{text}");
        assert!(text.contains("[redacted]"), "{text}");
        assert!(text.contains("<script>"), "{text}");
    }
    for reply in [&log, &label] {
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
}

#[test]
fn ctrl_c_stops_the_runs_of_the_page_and_ends_their_streams() {
    let slow = answer_replies("yes", "agent1", 20_000);
    let config = team(&[agent("ann", "", &slow)], "");
    let project = Project::new().file("team.yaml", config);
    let mut server = WebServer::start(project, &["--config", "team.yaml"]);
    let run = server.start_run(&json!({"task": "x"}));
    let mut page = server.stream(&run, None);
    page.read_until(|sections| sections.contains_key("agents/0"));
    server.interrupt();
    page.read_to_end();
    assert_eq!(server.exit_code(), Some(0));
    let status = server
        .project
        .path(format!(".massgen/massgen_logs/{run}/turn_1/status.json"));
    let status: Value = serde_json::from_slice(&std::fs::read(status).unwrap()).unwrap();
    assert_eq!(status["is_complete"], true, "{status}");
}

#[test]
fn streams_are_limited_and_end_with_the_server() {
    let server = start_slow_server();
    let run = server.start_run(&json!({"task": "speak"}));
    // At once: the run may not last until they were opened one after another.
    let mut open: Vec<_> = thread::scope(|scope| {
        let opening: Vec<_> = (0..32)
            .map(|_| scope.spawn(|| server.stream(&run, None)))
            .collect();
        opening
            .into_iter()
            .map(|stream| stream.join().unwrap())
            .collect()
    });
    let target = format!("/api/runs/{run}/stream");
    let refused = server.get(&target);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(server.get("/api/info").status, 200);
    let mut last = open.pop().unwrap();
    last.read_to_end();
    drop(open);
    assert_eq!(server.get("/api/runs/log_1/stream").status, 404);
}

/// Maximum resident memory of a server that shows it, in kB.
const MEMORY_KB_MAX: u64 = 300_000;

/// Replaces `log` with that of a run that has this number of events.
fn write_long_log(log: &std::path::Path, events: u64) {
    let mut text = String::new();
    for seq in 1..=events {
        let event = match seq {
            1 => json!({"type": "run_started", "question": "q", "agents": ["ann"], "restart": 0}),
            last if last == events => {
                json!({"type": "run_ended", "status": "delivered", "summary": "done"})
            }
            _ => {
                json!({"type": "text", "agent": "ann", "text": format!("piece {seq} of a text\n")})
            }
        };
        let mut line = json!({"schema_version": 1, "seq": seq,
            "time": "2026-11-02T14:03:22.123456+01:00"});
        let fields = line.as_object_mut().unwrap();
        fields.extend(event.as_object().unwrap().clone());
        let mut line = line.to_string();
        line.pop();
        let sum = to_hex(&Sha256::digest(&line)[..4]);
        writeln!(text, "{line},\"checksum\":\"{sum}\"}}").unwrap();
    }
    std::fs::write(log, text).unwrap();
}

#[test]
fn a_long_run_is_shown_within_limited_memory() {
    let config = team(&[agent("ann", "", &answer_replies("yes", "agent1", 1))], "");
    let finished = Project::new()
        .file("team.yaml", config)
        .args(["--config", "team.yaml", "x"])
        .success();
    let server = WebServer::start(finished.then(Vec::<&str>::new()), &["--read-only"]);
    let run = server.get("/api/runs").json()["runs"][0]["id"].clone();
    let run = run.as_str().unwrap();
    let log = server
        .project
        .path(format!(".massgen/massgen_logs/{run}/turn_1/events.jsonl"));
    let count = u64::try_from(repetitions(40_000, 1_000_000)).unwrap();
    write_long_log(&log, count);
    let mut page = server.stream(run, None);
    let events = page.read_to_end();
    assert_eq!(events.last().unwrap().data["state"], "ended", "{events:?}");
    assert_eq!(page.last_id, Some(count));
    let speech = &page.sections["agents/0"]["speech"];
    let last = format!("piece {} of a text\n", count - 1);
    assert!(
        speech["text"].as_str().unwrap().ends_with(&last),
        "{speech}"
    );
    let memory = server.memory_kb();
    assert!(memory < MEMORY_KB_MAX, "{memory} kB");
    let after = count - 2;
    let rest = server
        .get(&format!("/api/runs/{run}/log?after={after}"))
        .json();
    assert_eq!(rest["events"].as_array().unwrap().len(), 2, "{rest}");
}
