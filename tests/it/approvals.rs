//! Approval of calls: on a real terminal, over a socket, and without anyone to ask.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{scope, sleep, spawn};
use std::time::Duration;

use massgen::path::AbsPath;
use massgen::world::store::approvals::{ApprovalFile, PersistentApproval};
use serde_json::{Value, json};

use crate::external_agents::{OPENED, external_agent, external_agent_project, step_reports};
use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, team};
use crate::terminal::{CTRL_C, Terminal};
use crate::waiting::wait_until;

/// Writes a file twice, and then answers.
const WRITES_TWICE: &str = "
- calls: [{name: write_file, arguments: {path: a.txt, content: one}}]
- calls: [{name: write_file, arguments: {path: a.txt, content: two}}]
- calls: [{name: new_answer, arguments: {content: done}}]
- {text: done, repeat: true}
";
/// End of the terminal's approval prompt.
const APPROVAL_PROMPT: &str = "[o]nce, for this [s]ession, [A]lways";
/// File of persistent approvals, in the home directory.
const APPROVALS_FILE: &str = ".massgen/consents.json";

/// Returns a project with one agent that gives these replies, and an `ask` rule for `*.txt`.
fn project(replies: &str) -> Project {
    let rest = "permissions: {ask: ['write_file(*.txt)'], ask_timeout_seconds: 600}
orchestrator: {skip_coordination_rounds: true}";
    let keys = "cwd: w\nenforce_read_before_delete: false";
    Project::new()
        .config(&team(&[agent("a", keys, replies)], rest))
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .args(["task", "--cwd-context", "ro"])
}

/// Returns the content of the agent's file in the workspace after the run.
fn read_agent_file(project: &Project) -> String {
    let workspaces = project.path(".massgen/workspaces");
    let mut found = String::new();
    for run in fs::read_dir(workspaces).into_iter().flatten() {
        let text = fs::read_to_string(run.unwrap().path().join("a.txt"));
        found.push_str(&text.unwrap_or_default());
    }
    found
}

/// Returns how often `text` was written to a terminal.
fn count_shown(terminal: &Terminal, text: &str) -> usize {
    terminal.all_output().matches(text).count()
}

/// Returns all lines of the logs.
fn log_text(project: &Project) -> String {
    log_text_below(&project.path(".massgen"))
}

/// Returns all lines of the logs below `dir`.
fn log_text_below(dir: &Path) -> String {
    let mut logs = Vec::new();
    find_logs(dir, &mut logs);
    let texts = logs.iter().map(|log| fs::read(log).unwrap());
    texts
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .collect()
}

/// Returns all events of the log about an approval request that was answered.
fn logged_answers(project: &Project) -> Vec<Value> {
    let text = log_text(project);
    let lines = text
        .lines()
        .filter(|line| line.contains("\"type\":\"approval\""));
    let events = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    events
        .filter(|event| !field(event, "answer").is_null())
        .collect()
}

/// Returns the answers to all approval requests, in order.
pub(crate) fn approval_answers(project: &Project) -> Vec<Value> {
    let answers = logged_answers(project);
    let answers = answers.iter();
    answers
        .map(|event| field(event, "answer").clone())
        .collect()
}

/// Returns a field of an event, wherever the log stores it.
fn field<'e>(event: &'e Value, name: &str) -> &'e Value {
    match event.get(name) {
        Some(value) => value,
        None => &event["event"][name],
    }
}

fn find_logs(dir: &Path, logs: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            find_logs(&path, logs);
        } else if path.file_name().is_some_and(|name| name == "events.jsonl") {
            logs.push(path);
        }
    }
}

#[test]
fn a_person_is_asked_each_time_and_may_refuse() {
    let mut terminal = Terminal::open(project(WRITES_TWICE), 100);
    terminal.wait_for_output(APPROVAL_PROMPT);
    terminal.wait_for_output("a asks to use write_file:");
    terminal.wait_for_output("write `a.txt` in the workspace");
    terminal.wait_for_output("`ask: write_file(*.txt)`");
    // Enter and other keys answer nothing.
    terminal.type_answer("\r");
    terminal.type_answer("x");
    terminal.type_answer("o");
    terminal.wait(
        || count_shown(&terminal, "a asks to use") == 2,
        || "a second question".to_owned(),
    );
    terminal.type_answer("n");
    terminal.wait_for_output("the user refuses it");
    let project = terminal.wait_for_end(0);
    assert_eq!(read_agent_file(&project), "one");
    assert_eq!(approval_answers(&project), ["once", "no"]);
    assert!(!project.home(APPROVALS_FILE).exists());
}

#[test]
fn a_refusal_can_tell_the_agent_what_to_do_instead() {
    let mut terminal = Terminal::open(project(WRITES_TWICE), 100);
    terminal.wait_for_output(APPROVAL_PROMPT);
    terminal.type_answer("t");
    terminal.wait_for_output("what should a do instead?");
    terminal.type_keys("write no file\r");
    terminal.wait_for_output("you to a: write no file");
    terminal.wait(
        || count_shown(&terminal, APPROVAL_PROMPT) == 2,
        || "a second question".to_owned(),
    );
    terminal.type_answer("n");
    let project = terminal.wait_for_end(0);
    assert_eq!(approval_answers(&project), ["no", "no"]);
}

#[test]
fn keys_before_and_beside_an_approval_request_are_text() {
    let late = WRITES_TWICE.replacen("- calls", "- delay_ms: 6000\n  calls", 1);
    let mut terminal = Terminal::open(project(&late), 100);
    terminal.wait_for_output("waiting for a");
    terminal.type_keys("a\ro\ro");
    terminal.wait_for_output(APPROVAL_PROMPT);
    // On a line with text, a key is text.
    terminal.type_answer("o");
    terminal.wait_for_output("you: oo");
    terminal.type_answer("\u{15}");
    terminal.type_answer("o");
    terminal.wait(
        || count_shown(&terminal, APPROVAL_PROMPT) == 2,
        || "a second question".to_owned(),
    );
    terminal.type_answer("n");
    terminal.wait_for_output("the user refuses it");
    let project = terminal.wait_for_end(0);
    assert_eq!(read_agent_file(&project), "one");
    assert_eq!(approval_answers(&project), ["once", "no"]);
    assert!(!project.home(APPROVALS_FILE).exists());
}

#[test]
fn an_answer_for_the_session_or_for_always_spares_the_next_question() {
    let mut terminal = Terminal::open(project(WRITES_TWICE), 100);
    terminal.wait_for_output(APPROVAL_PROMPT);
    terminal.type_answer("s");
    terminal.wait_for_output("done: ");
    assert_eq!(count_shown(&terminal, "a asks to use"), 1);
    let finished_project = terminal.wait_for_end(0);
    assert_eq!(read_agent_file(&finished_project), "two");
    assert!(!finished_project.home(APPROVALS_FILE).exists());
    drop(finished_project);

    let replies = WRITES_TWICE.replace("path: a.txt", "path: \"{{cwd}}/out/a.txt\"");
    let rest = "permissions: {ask: ['write_file(*.txt)']}
orchestrator: {skip_coordination_rounds: true, context_paths: [{path: out, permission: write}]}";
    let keys = "cwd: w\nenforce_read_before_delete: false";
    let replies = replies.replace(
        "- calls: [{name: write_file",
        "- when: {system: the final agent}\n  calls: [{name: write_file",
    );
    let config = team(&[agent("a", keys, &replies)], rest);
    let project = Project::new()
        .config(&config)
        .dir("out")
        .env("TERM", "xterm")
        .env("NO_COLOR", "1");
    let mut terminal = Terminal::open(project.args(["task"]), 100);
    terminal.wait_for_output(APPROVAL_PROMPT);
    terminal.type_answer("a");
    let project = terminal.wait_for_end(0);
    let stored_rules = fs::read_to_string(project.home(APPROVALS_FILE)).unwrap();
    assert!(stored_rules.contains("out/a.txt"), "{stored_rules}");
    fs::remove_file(project.path("out/a.txt")).unwrap();
    let again = Terminal::open(project.retyped(["task"]), 100);
    again.wait_for_output("done: ");
    assert_eq!(count_shown(&again, "a asks to use"), 0);
    let project = again.wait_for_end(0);
    assert_eq!(
        fs::read_to_string(project.path("out/a.txt")).unwrap(),
        "two"
    );
}

#[test]
fn without_an_approver_calls_are_denied_and_the_run_continues() {
    let finished = project(WRITES_TWICE).success();
    let err = finished.stderr();
    assert!(err.contains("no user can be asked"), "{err}");
    assert_eq!(read_agent_file(finished.project()), "");
    assert_eq!(
        field(&logged_answers(finished.project())[0], "answer"),
        "nobody"
    );
}

#[test]
fn control_sequences_in_a_file_name_are_escaped_in_an_approval_request() {
    let replies = r#"
- calls: [{name: write_file, arguments: {path: "a\e[2J\e]0;x\a\u202e.txt", content: one}}]
- calls: [{name: new_answer, arguments: {content: done}}]
- {text: done, repeat: true}
"#;
    let mut terminal = Terminal::open(project(replies), 100);
    terminal.wait_for_output(APPROVAL_PROMPT);
    let output = terminal.all_output();
    assert!(!output.contains("\u{1b}[2J\u{1b}]0;x"), "{output:?}");
    assert!(!output.contains('\u{202e}'), "{output:?}");
    assert!(output.contains(r"\u{1b}[2J"), "{output:?}");
    terminal.type_answer("n");
    let _project = terminal.wait_for_end(0);
}

#[test]
fn ctrl_c_ends_a_question() {
    let mut terminal = Terminal::open(project(WRITES_TWICE), 100);
    terminal.wait_for_output(APPROVAL_PROMPT);
    terminal.type_keys(CTRL_C);
    terminal.wait_for_output("the question was not answered");
    terminal.wait_for_output("ended: ");
}

/// A program that answers approval requests at a socket, one after another, and records them.
pub(crate) struct ApprovalServer {
    pub(crate) requests: Arc<Mutex<Vec<Value>>>,
    overlaps: Arc<Mutex<bool>>,
}

/// Answers with `reply` after a short delay.
fn start_approval_server(socket: &Path, reply: &'static str) -> ApprovalServer {
    start_approval_server_with(socket, move |_| reply)
}

/// Answers with what `reply` returns for the request, after a short delay.
pub(crate) fn start_approval_server_with(
    socket: &Path,
    reply: impl Fn(&Value) -> &'static str + Send + 'static,
) -> ApprovalServer {
    let listener = UnixListener::bind(socket).unwrap();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let overlaps = Arc::new(Mutex::new(false));
    let (recorded, overlap) = (Arc::clone(&requests), Arc::clone(&overlaps));
    spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap())
                .read_line(&mut line)
                .unwrap();
            let question: Value = serde_json::from_str(&line).unwrap();
            let reply = reply(&question);
            recorded.lock().unwrap().push(question);
            sleep(Duration::from_millis(50));
            listener.set_nonblocking(true).unwrap();
            *overlap.lock().unwrap() |= listener.accept().is_ok();
            listener.set_nonblocking(false).unwrap();
            answer_request(stream, reply);
        }
    });
    ApprovalServer { requests, overlaps }
}

/// Sends an answer; massgen may have closed the connection.
fn answer_request(mut stream: UnixStream, reply: &str) {
    let _gone = stream.write_all(reply.as_bytes());
}

/// Runs a project whose approval requests are answered with `reply`.
fn run_with_approval_server(
    replies: &str,
    reply: &'static str,
) -> (FinishedCommand, ApprovalServer) {
    let project = project(replies);
    let socket = project.home("ask.sock");
    let server = start_approval_server(&socket, reply);
    let finished = project
        .args(["--approval-socket", socket.to_str().unwrap()])
        .run();
    (finished, server)
}

#[test]
fn a_program_at_a_socket_answers() {
    let (finished, server) = run_with_approval_server(WRITES_TWICE, "{\"answer\": \"once\"}\n");
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    assert_eq!(read_agent_file(finished.project()), "two");
    let requests = server.requests.lock().unwrap();
    assert_eq!(requests.len(), 2);
    let first = &requests[0];
    assert_eq!(
        (&first["agent"], &first["tool"]),
        (&json!("a"), &json!("write_file"))
    );
    assert_eq!(first["input"], json!({"path": "a.txt", "content": "one"}));
    assert_eq!(first["schema_version"], 2);
    assert_eq!(first["effects"], json!(["write `a.txt` in the workspace"]));
}

#[test]
fn an_approval_for_always_applies_in_the_workspace_of_the_next_run() {
    let project = project(WRITES_TWICE);
    let (socket, other) = (project.home("ask.sock"), project.home("no.sock"));
    let yes = start_approval_server(&socket, "{\"answer\": \"always\"}\n");
    let no = start_approval_server(&other, "{\"answer\": \"no\"}\n");
    let first = project.args(["--approval-socket", socket.to_str().unwrap()]);
    let first = first.success();
    assert_eq!(yes.requests.lock().unwrap().len(), 1);
    let second = first.then(["task", "--approval-socket", other.to_str().unwrap()]);
    let second = second.success();
    assert_eq!(read_agent_file(second.project()), "twotwo");
    assert_eq!(*no.requests.lock().unwrap(), Vec::<Value>::new());
}

#[test]
fn an_approval_of_a_command_holds_for_its_directory_and_arguments() {
    let ask = |input: Value| json!(["announced_permission", "execute", input, {}]);
    let run = |dir: &str| ask(json!({"command": "make all", "cwd": dir}));
    let asked = [
        (run("$/given"), "yes"),
        (run("$/given"), "yes"),
        (run("$/w1"), "no"),
        (run("$/out"), "no"),
        (
            ask(json!({"command": "make all", "cwd": "$/given", "description": "x"})),
            "yes",
        ),
        (
            ask(json!({"command": "make all", "cwd": "$/given", "env": {"CC": "./cc"}})),
            "no",
        ),
        (ask(json!({"command": "make all ", "cwd": "$/given"})), "no"),
        // A directory that is closed is denied without a question.
        (run("$/outside"), "no"),
    ];
    let mut steps: Vec<&Value> = asked.iter().map(|(step, _)| step).collect();
    let answer = json!(["call", "new_answer", {"content": "done"}]);
    steps.push(&answer);
    let table = json!([
        {"when": "final agent", "do": [["say", "presented"]]},
        {"when": "", "do": steps},
    ]);
    let keys = "cwd: $/w1\n      permissions: {ask: ['command(make *)']}";
    let (project, one) = external_agent(external_agent_project(), ("one", "acp"), keys, &table);
    let socket = project.home("ask.sock");
    let server = start_approval_server_with(&socket, |question| {
        let is_first = question["effects"].to_string().contains("/given\"]");
        let answer = ["{\"answer\": \"no\"}\n", "{\"answer\": \"session\"}\n"];
        answer[usize::from(is_first && question["input"]["command"] == "make all")]
    });
    let finished = project
        .file("team.yaml", team(&[one], OPENED))
        .args(["--config", "team.yaml", "task", "--approval-socket"])
        .args([&socket])
        .run();
    let reports = step_reports(&finished, "one");
    for (report, (step, expected)) in reports.iter().zip(&asked) {
        assert!(
            report.ends_with(&format!(": {expected}")),
            "{step}: {reports:#?}"
        );
    }
    let requests = server.requests.lock().unwrap();
    let effects: Vec<&Value> = requests.iter().map(|request| &request["effects"]).collect();
    assert_eq!(requests.len(), 5, "{effects:#?}");
    assert_eq!(
        effects[1],
        &json!(["make all", "in the workspace of `one`"])
    );
    assert_eq!(effects[3][2], "{\"env\":{\"CC\":\"./cc\"}}");
}

#[test]
fn a_long_command_is_approved_with_its_end_and_its_directory_in_sight() {
    let filler = " ".repeat(9000);
    let replies = format!(
        "- calls: [{{name: execute_command, arguments: {{command: \"echo a{filler}; echo the-end\"}}}}]
- calls: [{{name: new_answer, arguments: {{content: done}}}}]
- {{text: done, repeat: true}}
"
    );
    let config = team(
        &[agent(
            "a",
            "cwd: w\nenable_mcp_command_line: true",
            &replies,
        )],
        "permissions: {ask: ['command(echo *)']}\norchestrator: {skip_coordination_rounds: true}",
    );
    let project = Project::new()
        .config(&config)
        .env("TERM", "xterm")
        .env("NO_COLOR", "1");
    let mut terminal = Terminal::open(project.args(["task", "--cwd-context", "ro"]), 100);
    terminal.wait_for_output("[v]iew all");
    let question = terminal.all_output();
    assert!(question.contains("in the workspace of `a`"), "{question}");
    assert!(question.contains("command: echo a"), "{question}");
    assert!(question.contains("rows not shown"), "{question}");
    assert_eq!(question.matches("the-end").count(), 1, "{question}");
    terminal.type_answer("v");
    terminal.wait(
        || count_shown(&terminal, "the-end") == 2,
        || "all of the command".to_owned(),
    );
    terminal.type_answer("n");
    let _project = terminal.wait_for_end(0);
}

#[test]
fn approvals_that_are_added_at_the_same_time_are_all_kept() {
    let dir = tempfile::tempdir().unwrap();
    let home = AbsPath::new(dir.path()).unwrap();
    let file = ApprovalFile::in_home(&home);
    let approval_of = |tool: String| PersistentApproval::new(home.clone(), tool, Vec::new());
    let approvals: Vec<PersistentApproval> = (0..32)
        .map(|number| approval_of(format!("tool{number}")))
        .collect();
    scope(|threads| {
        for approval in &approvals {
            let file = &file;
            threads.spawn(move || file.add(approval).unwrap());
        }
    });
    for approval in &approvals {
        assert!(file.contains(approval), "{approval:?}");
    }
    assert!(!file.contains(&approval_of("other".to_owned())));
}

#[test]
fn a_full_file_of_approvals_takes_no_further_one_and_says_so() {
    const APPROVALS_MAX: usize = 1000;
    let dir = tempfile::tempdir().unwrap();
    let home = AbsPath::new(dir.path()).unwrap();
    let file = ApprovalFile::in_home(&home);
    let approval_of = |tool: &str| PersistentApproval::new(home.clone(), tool.to_owned(), vec![]);
    let approvals: Vec<PersistentApproval> = (0..APPROVALS_MAX)
        .map(|number| approval_of(&format!("tool{number}")))
        .collect();
    fs::create_dir(dir.path().join(".massgen")).unwrap();
    let bytes = serde_json::to_vec(&approvals).unwrap();
    fs::write(dir.path().join(APPROVALS_FILE), bytes).unwrap();
    let other = approval_of("other");
    let error = file.add(&other).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("already contains 1000 approvals"),
        "{message}"
    );
    assert_eq!(error.hints(), ["remove approvals that you no longer need"]);
    assert!(!file.contains(&other));
    // The control: one that the file holds is no further one.
    file.add(&approval_of("tool7")).unwrap();
    assert!(file.contains(&approval_of("tool7")));
}

/// Writes a file with a program, and then answers.
const BY_PROGRAM: &str = "
- calls:
    - name: execute_code
      arguments:
        code: |
          import workspace_tools as w
          try:
              w.write_file('a.txt', 'one')
          except w.ToolError as error:
              print(error)
- calls: [{name: new_answer, arguments: {content: done}}]
- {text: done, repeat: true}
";

/// Runs a program whose call needs approval, which is answered with `reply`.
#[track_caller]
fn check_program(reply: &'static str, expected: &str, denials: &[&str]) {
    let rest = "permissions: {ask: ['write_file(*.txt)']}
orchestrator: {skip_coordination_rounds: true}";
    let keys = "cwd: w\nenable_code_based_tools: true";
    let project = Project::new().config(&team(&[agent("a", keys, BY_PROGRAM)], rest));
    let socket = project.home("ask.sock");
    let server = start_approval_server(&socket, reply);
    let arguments = ["task", "--output-format", "json", "--approval-socket"];
    let finished = project
        .args(arguments)
        .args([socket.to_str().unwrap()])
        .run();
    assert_eq!(server.requests.lock().unwrap().len(), 1);
    assert_eq!(
        read_agent_file(finished.project()),
        expected,
        "{}",
        finished.stderr()
    );
    let result: Value = serde_json::from_str(finished.stdout().trim()).unwrap();
    let denied = result["permission_denials"].as_array().unwrap().iter();
    let rules: Vec<&str> = denied
        .map(|denial| denial["rule"].as_str().unwrap())
        .collect();
    assert_eq!(rules, denials, "{result}");
}

#[test]
fn calls_of_a_program_need_approval_and_denials_reach_it() {
    check_program("{\"answer\": \"once\"}\n", "one", &[]);
    check_program("{\"answer\": \"no\"}\n", "", &["permissions-ask"]);
}

#[test]
fn an_invalid_reply_of_an_approval_program_denies() {
    for (reply, reason) in [
        (
            "{\"answer\": \"no\", \"reason\": \"not on a Friday\"}\n",
            "not on a Friday",
        ),
        ("{\"answer\": \"maybe\"}\n", "gave no answer"),
        ("{\"answer\": \"nobody\"}\n", "does not answer"),
        ("yes\n", "gave no answer"),
        ("", "gave no answer"),
        ("{\"answer\": \"once\", \"extra\": 1}\n", "gave no answer"),
    ] {
        let (finished, _server) = run_with_approval_server(WRITES_TWICE, reply);
        assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
        assert_eq!(read_agent_file(finished.project()), "", "{reply}");
        assert!(
            finished.stderr().contains(reason),
            "{reply}: {}",
            finished.stderr()
        );
    }
}

#[test]
fn a_silent_approval_program_times_out_as_configured() {
    let project = project(WRITES_TWICE);
    let socket = project.home("ask.sock");
    let _silent = UnixListener::bind(&socket).unwrap();
    let config = fs::read_to_string(project.path(".massgen/config.yaml")).unwrap();
    let config = config.replace("ask_timeout_seconds: 600", "ask_timeout_seconds: 1");
    let project = project
        .config(&config)
        .args(["--approval-socket", socket.to_str().unwrap()]);
    let finished = project.success();
    assert!(
        finished.stderr().contains("no answer within 1 s"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn a_missing_approval_socket_is_an_error_before_the_run() {
    for (socket, reason) in [
        (
            "/nowhere/ask.sock",
            "no program listens on `/nowhere/ask.sock`",
        ),
        ("/etc/hostname", "`/etc/hostname` is not a socket"),
    ] {
        let refused = project(WRITES_TWICE)
            .args(["--approval-socket", socket])
            .failure(2);
        assert!(refused.stderr().contains(reason), "{}", refused.stderr());
        assert_eq!(logged_answers(refused.project()), Vec::<Value>::new());
    }
}

#[test]
fn a_run_without_an_approver_warns_at_the_start() {
    let warning = "no terminal to ask on";
    let without_approver = project(WRITES_TWICE).success();
    assert_eq!(
        without_approver.stderr().matches(warning).count(),
        1,
        "{}",
        without_approver.stderr()
    );
    let (with_approver, _server) =
        run_with_approval_server(WRITES_TWICE, "{\"answer\": \"once\"}\n");
    assert!(
        !with_approver.stderr().contains(warning),
        "{}",
        with_approver.stderr()
    );
}

#[test]
fn the_end_of_the_time_ends_a_question() {
    let project = project(WRITES_TWICE);
    let socket = project.home("ask.sock");
    let _silent = UnixListener::bind(&socket).unwrap();
    let arguments = [
        "--approval-socket",
        socket.to_str().unwrap(),
        "--orchestrator-timeout",
        "1",
    ];
    let finished = project.args(arguments).run();
    // It ends itself, long before the time for an answer is over.
    assert!(finished.code().is_some(), "{}", finished.stderr());
}

#[test]
fn questions_of_several_agents_queue() {
    let rest = "permissions: {ask: ['write_file(*.txt)']}";
    let replies = "
- calls: [{name: write_file, arguments: {path: a.txt, content: one}}]
- calls: [{name: new_answer, arguments: {content: done}}]
- {calls: [{name: vote, arguments: {agent_id: agent1, reason: x}}], repeat: true}
";
    let replies = format!("- {{when: {{system: the final agent}}, text: done}}\n{replies}");
    let agents = ["a", "b", "c"].map(|id| agent(id, &format!("cwd: {id}"), replies.trim()));
    let project = Project::new().config(&team(&agents, rest)).args(["task"]);
    let socket = project.home("ask.sock");
    let server = start_approval_server(&socket, "{\"answer\": \"once\"}\n");
    let finished = project
        .args(["--approval-socket", socket.to_str().unwrap()])
        .success();
    let requests = server.requests.lock().unwrap();
    let mut agents: Vec<&str> = requests
        .iter()
        .map(|request| request["agent"].as_str().unwrap())
        .collect();
    agents.sort_unstable();
    assert_eq!(agents, ["a", "b", "c"], "{}", finished.stderr());
    assert!(!*server.overlaps.lock().unwrap(), "two questions at once");
}

/// Runs two agents that make the same call. The first request is answered with `reply` when the other
/// one waits for it. Returns how many were asked, and for each line of the log about the agent that
/// waited whether it waits.
#[track_caller]
fn check_queue(reply: &'static str, asked: usize) {
    let rest = "permissions: {ask: ['write_file(*.txt)']}";
    let replies = "
- {when: {system: the final agent}, text: done}
- calls: [{name: write_file, arguments: {path: a.txt, content: one}}]
- calls: [{name: new_answer, arguments: {content: done}}]
- {calls: [{name: vote, arguments: {agent_id: agent1, reason: x}}], repeat: true}
";
    let agents = ["a", "b"].map(|id| agent(id, &format!("cwd: {id}"), replies.trim()));
    let project = Project::new().config(&team(&agents, rest)).args(["task"]);
    let socket = project.home("ask.sock");
    let logs = project.path(".massgen");
    let server = start_approval_server_with(&socket, move |_| {
        wait_until("the other request waits", Duration::from_mins(2), || {
            log_text_below(&logs).contains("\"type\":\"approval_queued\"")
        });
        reply
    });
    let finished = project
        .args(["--approval-socket", socket.to_str().unwrap()])
        .success();
    assert_eq!(server.requests.lock().unwrap().len(), asked);
    let text = log_text(finished.project());
    let lines = text
        .lines()
        .filter(|line| line.contains("\"type\":\"approval_queued\""));
    let waits = |line| {
        let event: Value = serde_json::from_str(line).unwrap();
        field(&event, "waiting").as_bool().unwrap()
    };
    let waits: Vec<bool> = lines.map(waits).collect();
    assert_eq!(waits, [true, false], "{text}");
}

#[test]
fn a_request_that_waits_for_another_is_in_the_log_and_is_asked_unless_the_answer_holds_for_it() {
    check_queue("{\"answer\": \"once\"}\n", 2);
    check_queue("{\"answer\": \"session\"}\n", 1);
}

#[test]
fn a_socket_that_agents_could_replace_is_refused() {
    let rest = "orchestrator: {context_paths: [{path: out, permission: write}]}";
    let replies = "- {text: done, repeat: true}";
    let config = team(&[agent("a", "cwd: w", replies)], rest);
    for socket in ["out/ask.sock", "link.sock"] {
        let project = Project::new().config(&config).dir("out");
        let _listening = UnixListener::bind(project.path("out/ask.sock")).unwrap();
        symlink(project.path("out/ask.sock"), project.path("link.sock")).unwrap();
        let finished = project
            .args(["task", "--approval-socket", socket])
            .failure(2);
        let stderr = finished.stderr();
        assert!(
            stderr.contains("the location of the approval socket"),
            "{stderr}"
        );
    }
}

#[test]
fn an_approval_for_the_session_survives_a_killed_process() {
    let replies = "
- calls: [{name: write_file, arguments: {path: a.txt, content: one}}]
- {delay_ms: 60000, when: {contains: nothing-says-this}, text: never}
- delay_ms: 6000
  calls: [{name: write_file, arguments: {path: a.txt, content: two}}]
- calls: [{name: new_answer, arguments: {content: done}}]
- {text: done, repeat: true}
";
    let project = project(replies);
    let socket = project.home("ask.sock");
    let server = start_approval_server(&socket, "{\"answer\": \"session\"}\n");
    let mut command = project.command();
    command.args(["--approval-socket", socket.to_str().unwrap()]);
    let mut child = command.spawn().unwrap();
    wait_until("the first file is written", Duration::from_mins(2), || {
        log_text(&project).contains("\"type\":\"tool_finished\"")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(server.requests.lock().unwrap().len(), 1);
    let finished = project.retyped(["--continue"]).success();
    assert_eq!(
        read_agent_file(finished.project()),
        "two",
        "{}",
        finished.stderr()
    );
    assert_eq!(server.requests.lock().unwrap().len(), 1);
}
