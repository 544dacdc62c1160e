//! Models and programs that produce endless output: a run ends at its timeout whatever arrives, and
//! the stored part of a reply is bounded.

use std::fs;
use std::io::{Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::project::{FinishedCommand, Project, events};
use crate::repetition::{all_or_one, repetitions};
use crate::scripted_team::{agent, team};
use crate::waiting::wait_until;

/// Timeout of a run, in seconds.
const LIMIT_SECONDS: u64 = 2;
/// Maximum additional duration on a machine under load.
const SLACK: Duration = Duration::from_mins(1);
/// Maximum size of one reply, in bytes.
const REPLY_BYTES_MAX: usize = 8 << 20;

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn chat_chunk(delta: &Value) -> String {
    let chunk = json!({
        "id": "x", "object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}],
    });
    format!("data: {chunk}\n\n")
}

/// Starts a server that answers every request with `head`, and then repeats `piece` as long as the
/// client reads. Returns its address.
fn flood_start(head: String, piece: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let pieces = piece.repeat(1 + 16_000 / piece.len());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (head, pieces) = (head.clone(), pieces.clone());
            thread::spawn(move || send_flood(stream.unwrap(), &head, &pieces));
        }
    });
    url
}

fn send_flood(mut stream: TcpStream, head: &str, pieces: &str) {
    let mut request = vec![0; 1 << 16];
    let _read = stream.read(&mut request).unwrap();
    let status = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let begun = stream.write_all(format!("{status}{head}").as_bytes());
    if begun.is_ok() {
        while stream.write_all(pieces.as_bytes()).is_ok() {}
    }
}

/// Runs one agent whose model is of this type, and returns the duration.
fn run(kind: &str, url: &str, seconds: u64) -> (FinishedCommand, Duration) {
    let backend = format!("{{type: {kind}, model: m, api_key: key-1234567, base_url: '{url}'}}");
    let project = Project::new()
        .file(
            "team.yaml",
            format!("agents: [{{id: a, backend: {backend}}}]\n"),
        )
        .args(["--config", "team.yaml", "--orchestrator-timeout"])
        .args([seconds.to_string(), "do it".to_owned()]);
    let begun = Instant::now();
    let finished = project.run();
    (finished, begun.elapsed())
}

/// A flood: its name, the type of the backend, the beginning of the reply, and the part that is
/// repeated.
type Flood = (&'static str, &'static str, String, String);

const CHAT: &str = "chatcompletion";

fn chat_floods() -> Vec<Flood> {
    let begun =
        json!({"index": 0, "id": "c", "function": {"name": "new_answer", "arguments": "{"}});
    let more = json!({"index": 0, "function": {"arguments": "z".repeat(200)}});
    let row = |name, delta: &Value| (name, CHAT, String::new(), chat_chunk(delta));
    let call = |call: &Value| chat_chunk(&json!({"tool_calls": [call]}));
    vec![
        row("chat text", &json!({"content": "x"})),
        row("chat lines", &json!({"content": "x\n"})),
        row("chat reasoning", &json!({"reasoning_content": "x"})),
        row("chat silence", &json!({})),
        ("chat arguments", CHAT, call(&begun), call(&more)),
        ("chat comments", CHAT, String::new(), ": go on\n\n".into()),
        (
            "chat without a break",
            CHAT,
            "data: ".into(),
            "x".repeat(1000),
        ),
    ]
}

fn responses_floods() -> Vec<Flood> {
    let named = |data: &Value| event(data["type"].as_str().unwrap(), data);
    let text = named(&json!({
        "type": "response.output_text.delta", "item_id": "i", "output_index": 0,
        "content_index": 0, "delta": "x",
    }));
    let item = json!({
        "type": "function_call", "id": "f", "call_id": "c", "name": "new_answer", "arguments": "",
    });
    let item = named(&json!({
        "type": "response.output_item.added", "output_index": 0, "item": item,
    }));
    let arguments = named(&json!({
        "type": "response.function_call_arguments.delta", "item_id": "f", "output_index": 0,
        "delta": "z".repeat(200),
    }));
    vec![
        ("responses text", "openai", String::new(), text),
        ("responses arguments", "openai", item, arguments),
    ]
}

fn claude_floods() -> Vec<Flood> {
    let message = json!({"type": "message_start", "message": {
        "id": "m", "type": "message", "role": "assistant", "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }});
    let row = |name, block: Value, delta: Value| {
        let block = json!({"type": "content_block_start", "index": 0, "content_block": block});
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
        let head = event("message_start", &message) + &event("content_block_start", &block);
        (name, "claude", head, event("content_block_delta", &delta))
    };
    let ping = event("ping", &json!({"type": "ping"}));
    vec![
        row(
            "claude text",
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": "x"}),
        ),
        row(
            "claude reasoning",
            json!({"type": "thinking", "thinking": ""}),
            json!({"type": "thinking_delta", "thinking": "x"}),
        ),
        row(
            "claude arguments",
            json!({"type": "tool_use", "id": "t", "name": "new_answer", "input": {}}),
            json!({"type": "input_json_delta", "partial_json": "z".repeat(200)}),
        ),
        ("claude pings", "claude", String::new(), ping),
    ]
}

fn gemini_floods() -> Vec<Flood> {
    let row = |name, part: &Value| {
        let candidate = json!({"content": {"role": "model", "parts": [part]}, "index": 0});
        let piece = format!("data: {}\n\n", json!({"candidates": [candidate]}));
        (name, "gemini", String::new(), piece)
    };
    let call = json!({"functionCall": {"name": "new_answer", "args": {"content": "x"}}});
    vec![
        row("gemini text", &json!({"text": "x"})),
        row("gemini calls", &call),
    ]
}

#[test]
fn calls_without_an_end_are_not_requested_again() {
    let floods = chat_floods()
        .into_iter()
        .chain(responses_floods())
        .chain(claude_floods())
        .chain(gemini_floods());
    for (name, kind, head, piece) in floods {
        if !name.ends_with(" arguments") && !name.ends_with(" calls") {
            continue;
        }
        let url = flood_start(head, &piece);
        let (finished, _) = run(kind, &url, SLACK.as_secs());
        let stderr = finished.stderr();
        assert_eq!(finished.code(), Some(1), "{name}: {stderr}");
        let limit = format!("sent a reply of more than {REPLY_BYTES_MAX} bytes");
        assert!(stderr.contains(&limit), "{name}: {stderr}");
        assert_eq!(
            stderr.matches("sent a reply").count(),
            1,
            "{name}: {stderr}"
        );
    }
}

#[test]
fn the_limit_of_time_cuts_every_reply() {
    let all = chat_floods()
        .into_iter()
        .chain(responses_floods())
        .chain(claude_floods())
        .chain(gemini_floods());
    let running = all.map(|(name, kind, head, piece)| {
        let url = flood_start(head, &piece);
        thread::spawn(move || (name, run(kind, &url, LIMIT_SECONDS)))
    });
    // A few at a time: each uses a whole core.
    let mut floods = running.peekable();
    while floods.peek().is_some() {
        let some: Vec<_> = floods.by_ref().take(4).collect();
        for flood in some {
            let (name, (finished, took)) = flood.join().unwrap();
            let stderr = finished.stderr();
            assert!(matches!(finished.code(), Some(5 | 1)), "{name}: {stderr}");
            let most = Duration::from_secs(LIMIT_SECONDS) + SLACK;
            assert!(took < most, "{name}: {took:?}");
        }
    }
}

/// Returns the size of a run's event log, in bytes.
fn log_bytes(finished: &FinishedCommand) -> u64 {
    let logs = finished.project().path(".massgen/massgen_logs");
    let mut folders = vec![logs];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() == "events.jsonl" {
                bytes += entry.metadata().unwrap().len();
            }
        }
    }
    bytes
}

#[test]
fn a_reply_that_goes_on_is_given_up_at_its_longest() {
    let long = "x".repeat(50_000);
    for field in all_or_one(&["content", "reasoning_content"], 0) {
        let text = json!({field: long});
        let (finished, _) = run(
            "chatcompletion",
            &flood_start(String::new(), &chat_chunk(&text)),
            50,
        );
        let stderr = finished.stderr();
        assert!(
            stderr.contains("the reply is longer than 8388608 bytes"),
            "{stderr:.500}"
        );
        assert_eq!(finished.code(), Some(1));
        let bytes = log_bytes(&finished);
        let most = u64::try_from(REPLY_BYTES_MAX * 2).unwrap();
        assert!(bytes < most, "{bytes}");
        // It is not retried: the result would be the same.
        assert_eq!(events(&finished, "model_request_started").len(), 1);
    }
}

#[test]
fn a_long_reply_is_whole() {
    let text = "lorem ipsum ".repeat(repetitions(20_000, 100_000));
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let head = format!(
        "{}data: {end}\n\ndata: [DONE]\n\n",
        chat_chunk(&json!({"content": text}))
    );
    let (finished, _) = run("chatcompletion", &flood_start(head, "\n"), 50);
    assert_eq!(finished.code(), Some(0), "{:.500}", finished.stderr());
    assert_eq!(finished.stdout().trim(), text.trim());
}

/// Maximum time until a run ends whose output is not read.
const END_TIME_MAX: Duration = Duration::from_secs(30);

/// Number of bytes that a pipe holds; see `pipe(7)`.
const PIPE_BYTES: usize = 64 * 1024;

/// Starts a run that prints more than a pipe holds, and then waits for its model. Nothing is read
/// from its standard output, unless the test does so.
fn start_unread(arguments: &[&str]) -> (Project, Child) {
    let text = "x".repeat(4000);
    // No reply is like the one before it.
    let step = |number: usize| {
        let call = format!("{{name: create_directory, arguments: {{path: d{number}}}}}");
        format!("- text: {text}\n  calls: [{call}]\n")
    };
    let steps: String = (0..60).map(step).collect();
    let replies = format!("{steps}- delay_ms: 600000\n  text: late\n");
    let config = team(&[agent("one", "cwd: w1", &replies)], "");
    let project = Project::new().config(&config);
    let project = project.args(["task", "--output-format", "stream-json"]);
    let project = project.args(arguments);
    let mut command = project.command();
    let command = command.stdin(Stdio::null()).stderr(Stdio::null());
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    (project, child)
}

/// Waits until the run has recorded `count` replies.
fn wait_for_replies(project: &Project, count: usize) {
    wait_until("the replies are recorded", END_TIME_MAX, || {
        let log = crate::project::logged_events(project);
        log.matches("\"type\":\"replied\"").count() >= count
    });
}

/// Returns the exit status of `child`, which must end in time.
#[track_caller]
fn exit_code_in_time(mut child: Child) -> Option<i32> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if since.elapsed() > END_TIME_MAX {
            child.kill().unwrap();
            panic!("the run has not ended");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_whose_output_is_not_read_ends_at_a_signal() {
    let (project, child) = start_unread(&[]);
    // The run works although its output is not read.
    wait_for_replies(&project, 60);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(exit_code_in_time(child), Some(130));
}

#[test]
fn a_run_whose_output_is_not_read_ends_at_its_time_limit() {
    let (_project, child) = start_unread(&["--orchestrator-timeout", "3"]);
    assert_eq!(exit_code_in_time(child), Some(5));
}

#[test]
fn a_server_whose_messages_are_not_read_ends_at_a_signal() {
    let serve = ["mcp", "serve", "--agent", "one", "--config", "config.yaml"];
    let orchestrate = ["mcp", "orchestrate", "--config", "config.yaml"];
    let web = ["web", "--no-browser", "--config", "config.yaml"];
    for arguments in [&serve[..], &orchestrate, &web] {
        let replies = "- text: f\n  repeat: true\n";
        let project = Project::new().config(&team(&[agent("one", "cwd: w1", replies)], ""));
        let project = project.args(arguments.iter().copied());
        let (_unread, mut full_pipe) = pipe().unwrap();
        full_pipe.write_all(&vec![b'x'; PIPE_BYTES]).unwrap();
        let mut command = project.command();
        let command = command.stdin(Stdio::piped());
        let command = command.stdout(full_pipe.try_clone().unwrap());
        let mut child = command.stderr(full_pipe).spawn().unwrap();
        let _stdin = child.stdin.take();
        wait_until("the signals are received", END_TIME_MAX, || {
            let threads = fs::read_dir(format!("/proc/{}/task", child.id()));
            threads.unwrap().flatten().any(|thread| {
                let name = fs::read_to_string(thread.path().join("comm"));
                name.is_ok_and(|name| name == "signals\n")
            })
        });
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let _code = exit_code_in_time(child);
    }
}

#[test]
fn a_reader_who_is_slow_gets_every_line() {
    let (project, mut child) = start_unread(&[]);
    wait_for_replies(&project, 60);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut output = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    let mut piece = [0; 16 * 1024];
    loop {
        let length = stdout.read(&mut piece).unwrap();
        if length == 0 {
            break;
        }
        output.extend_from_slice(&piece[..length]);
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(exit_code_in_time(child), Some(130));
    let output = String::from_utf8(output).unwrap();
    let lines: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        output.matches("\"replied\"").count() >= 60,
        "{}",
        lines.len()
    );
    assert_eq!(lines.last().unwrap()["type"], "result");
}
