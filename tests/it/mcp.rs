//! Runs whose agents use tools of a hostile MCP server: what reaches it, what it can do, and that
//! the run continues whatever it does.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::project::{FinishedCommand, Project, events};
use crate::scripted_team::{FINAL, agent, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};

/// A server that misbehaves when asked to.
pub(crate) const HOSTILE: &str = include_str!("../servers/hostile.py");

/// A secret in massgen's environment that no server may see.
const SECRET: &str = "secret-of-the-user-1";

/// Returns a project with one agent and the hostile server, which has further `keys`; the agent
/// makes one of the `calls` per step, and answers. Nothing is delivered.
fn project(keys: &str, calls: &[(&str, Value)]) -> Project {
    let server = format!(
        "{{name: h, command: python3, args: ['{{{{cwd}}}}/hostile.py'], cwd: '{{{{cwd}}}}', {keys}}}"
    );
    with_server(&server, calls, "orchestrator: {}")
}

/// The same with the complete config of the server, in which `{{cwd}}` is replaced by the project.
pub(crate) fn with_server(server: &str, calls: &[(&str, Value)], rest: &str) -> Project {
    let project = Project::new();
    let cwd = project.path("").display().to_string();
    let cwd = cwd.trim_end_matches('/');
    let server = server.replace("{{cwd}}", cwd);
    let keys = format!("cwd: w1\nmcp_servers: [{server}]");
    let rest = rest.replace(
        "orchestrator: {",
        "orchestrator: {context_paths: [{path: .}], ",
    );
    project
        .file("hostile.py", HOSTILE)
        .file("notes.txt", "of the project\n")
        .file(
            "team.yaml",
            team(&[agent("one", &keys, &replies(calls))], &rest),
        )
        .env("TOKEN", SECRET)
        .args(["--config", "team.yaml", "task"])
}

/// Returns replies that make one call each, and then an answer; the agent is alone and does not
/// vote.
fn replies(calls: &[(&str, Value)]) -> String {
    let calls = calls_of(calls);
    format!(
        "{calls}- calls: [{{name: new_answer, arguments: {{content: done}}}}]\n\
         - text: presented\n  repeat: true\n"
    )
}

/// Returns replies that make one call each.
pub(crate) fn calls_of(calls: &[(&str, Value)]) -> String {
    calls
        .iter()
        .fold(String::new(), |replies, (tool, arguments)| {
            replies + &format!("- calls: [{{name: {tool}, arguments: {arguments}}}]\n")
        })
}

/// Returns what the model read for each of its calls, in order: the result, or why it was denied.
pub(crate) fn call_results(finished: &FinishedCommand) -> Vec<String> {
    let called = events(finished, "tool_called").into_iter();
    let finished = events(finished, "tool_finished");
    let answer = |call: Value| {
        if let Some(reason) = call["denied"].as_str() {
            return reason.to_owned();
        }
        let same =
            |done: &&Value| done["call_id"] == call["call_id"] && done["agent"] == call["agent"];
        let done = finished
            .iter()
            .find(same)
            .expect("a call that was begun has an end");
        let content = done["content"].as_str().or(done["summary"].as_str());
        content.unwrap_or_default().to_owned()
    };
    called.map(answer).collect()
}

/// Runs these calls of the hostile server's tools and checks that each answer contains its text.
#[track_caller]
fn check(keys: &str, calls: &[(&str, Value, &str)]) -> FinishedCommand {
    let call_pairs: Vec<(String, Value)> = calls
        .iter()
        .map(|(tool, arguments, _)| (format!("mcp__h__{tool}"), arguments.clone()))
        .collect();
    let call_pairs: Vec<(&str, Value)> = call_pairs
        .iter()
        .map(|(tool, arguments)| (tool.as_str(), arguments.clone()))
        .collect();
    let finished = project(keys, &call_pairs).success();
    let read = call_results(&finished);
    assert_eq!(read.len(), calls.len(), "{read:#?}\n{}", finished.stderr());
    for (read, (tool, arguments, expected)) in read.iter().zip(calls) {
        assert!(
            read.contains(expected),
            "{tool} {arguments}\n{read}\n{expected}"
        );
    }
    finished
}

#[test]
fn a_tool_of_a_server_is_called_and_its_answer_is_read() {
    check(
        "",
        &[
            ("echo", json!({"text": "hello"}), "echo: hello"),
            ("fail", json!({}), "it went wrong"),
            (
                "image",
                json!({}),
                "[massgen: image image/png, 3 bytes, not shown: it is no PNG, JPEG, GIF or WebP image]",
            ),
            ("nothing", json!({}), "there is no tool `mcp__h__nothing`"),
        ],
    );
}

#[test]
fn the_gate_decides_about_every_path_of_a_call() {
    check(
        "",
        &[
            (
                "read",
                json!({"path": "/etc/hostname"}),
                "denied: read of /etc/hostname",
            ),
            (
                "read",
                json!({"path": "file:///etc/hostname"}),
                "denied: read of /etc/hostname",
            ),
            (
                "read",
                json!({"path": "../../../../../../../etc/hostname"}),
                "denied: read of",
            ),
            (
                "read",
                json!({"path": "~/.bashrc"}),
                "servers read in different ways",
            ),
            ("read", json!({"path": "notes.txt"}), "of the project"),
            (
                "write",
                json!({"path": "/tmp/x", "content": "x"}),
                "denied: read of /tmp/x",
            ),
        ],
    );
}

#[test]
fn the_sandbox_holds_what_the_gate_cannot_see() {
    let outside = Project::new().file("outside.txt", "outside\n");
    let path = outside.path("outside.txt").display().to_string();
    let finished = check(
        "",
        &[
            ("sneak", json!({"blob": path}), "refused:"),
            ("sneak", json!({"blob": "notes.txt"}), "of the project"),
            (
                "write",
                json!({"path": "notes.txt", "content": "x"}),
                "refused:",
            ),
            ("where", json!({}), "\"word\": null"),
        ],
    );
    finished.has_file("notes.txt", "of the project\n");
    assert_eq!(
        fs::read_to_string(outside.path("outside.txt")).unwrap(),
        "outside\n"
    );
}

#[test]
fn a_server_writes_where_its_agent_may_if_the_config_says_so() {
    let calls = [
        (
            "mcp__h__write",
            json!({"path": "new.txt", "content": "new\n"}),
        ),
        ("read_text_file", json!({"path": "new.txt"})),
        (
            "mcp__h__write",
            json!({"path": "../../../notes.txt", "content": "x"}),
        ),
        ("mcp__h__sneak", json!({"blob": "new.txt"})),
    ];
    for (permission, expected) in [
        ("write", ["written", "new", "denied: write to", "new"]),
        ("read", ["refused:", "error:", "denied", "refused:"]),
    ] {
        let server = format!(
            "{{name: h, command: python3, args: ['{{{{cwd}}}}/hostile.py'], permission: {permission}}}"
        );
        let finished = with_server(&server, &calls, "orchestrator: {}").success();
        let read = call_results(&finished);
        for (read, expected) in read.iter().zip(expected) {
            let is_so = read.contains(expected) || (permission == "read" && expected == "denied");
            assert!(is_so, "{permission}: {read:?}");
        }
        finished.has_file("notes.txt", "of the project\n");
    }
}

#[test]
fn text_of_a_server_is_bounded_and_escaped() {
    let finished = check(
        "timeout_seconds: 20",
        &[
            ("control", json!({}), "a\\u{1b}[2Jb\\u{202e}c\\u{7}"),
            ("big", json!({}), "[massgen: cut: more than 262144 bytes]"),
            ("parts", json!({}), "[massgen: 1500 more parts left out]"),
        ],
    );
    assert!(!finished.stderr().contains("\u{1b}[2J"));
}

#[test]
fn an_unanswered_call_times_out_and_is_cancelled_at_the_server() {
    let finished = check(
        "timeout_seconds: 4",
        &[
            ("hang", json!({}), "no answer within 4 s"),
            ("deep", json!({}), "the server `h`"),
            ("echo", json!({"text": "after"}), "echo: after"),
            ("flood", json!({}), "no answer within 4 s"),
        ],
    );
    let logs = finished.project().path(".massgen/massgen_logs");
    let log = fs::read_dir(logs).unwrap().next().unwrap().unwrap().path();
    let log_text = fs::read_to_string(log.join("servers/one.h.coordination.log")).unwrap();
    assert!(log_text.contains("cancelled: "), "{log_text}");
}

#[test]
fn progress_of_a_server_is_shown_at_most_once_a_second() {
    let finished = check("", &[("work", json!({}), "worked")]);
    let mut progress = events(&finished, "server_progress");
    // On a busy machine, a slow start is reported as well.
    progress.retain(|event| event["text"] != "is starting, within a minute");
    assert!((1..20).contains(&progress.len()), "{progress:#?}");
    assert_eq!(progress[0]["server"], "h");
    let text = progress[0]["text"].as_str().unwrap();
    assert!(text.ends_with(" of 100: step\\u{1b}[2J"), "{text}");
    let stderr = finished.stderr();
    assert!(stderr.contains(&format!("h: {text}")), "{stderr}");
    assert!(!stderr.contains('\u{1b}'), "{stderr}");
}

#[test]
fn a_server_that_exits_is_restarted_a_limited_number_of_times() {
    let dies = "the server `h` has ended, and the outcome of the call is unknown; \
                it ended with status 3; it wrote: last words\\u{1b}[2J of nobody";
    check(
        "",
        &[
            ("die", json!({}), dies),
            ("echo", json!({"text": "again"}), "echo: again"),
            ("die", json!({}), dies),
            ("die", json!({}), dies),
            (
                "echo",
                json!({}),
                "was started 3 times and will not be started again",
            ),
        ],
    );
}

#[test]
fn elicitation_without_a_user_is_declined() {
    let finished = check(
        "",
        &[
            ("ask", json!({}), "\"action\": \"decline\""),
            ("sample", json!({}), "-32601"),
            ("roots", json!({}), "file://"),
        ],
    );
    let cwd = finished.project().path("").display().to_string();
    assert!(call_results(&finished)[2].contains(cwd.trim_end_matches('/')));
}

#[test]
fn a_list_that_changes_is_offered_at_the_next_step() {
    let finished = check(
        "",
        &[
            ("grow", json!({}), "grown"),
            ("grown", json!({}), "still growing"),
            ("echo", json!({}), "there is no tool `mcp__h__echo`"),
        ],
    );
    drop(finished);
    let replies = "\
- calls: [{name: mcp__h__grow, arguments: {}}]
- when: {last: 'The tools of your servers have changed'}
  calls: [{name: new_answer, arguments: {content: done}}]
- text: presented
  repeat: true
";
    let project = project("", &[]);
    let text = fs::read_to_string(project.path("team.yaml")).unwrap();
    let head = text.split("      replies:\n").next().unwrap().to_owned();
    let indented = replies
        .lines()
        .fold(String::new(), |text, line| text + "        " + line + "\n");
    let rest = text.split("orchestrator:").nth(1).unwrap();
    let text = format!("{head}      replies:\n{indented}orchestrator:{rest}");
    project.file("team.yaml", text).success();
}

#[test]
fn a_server_that_does_not_list_its_new_tools_is_not_asked_again() {
    let finished = check(
        "",
        &[
            ("restless", json!({}), "restless"),
            ("restless", json!({}), "restless"),
            ("echo", json!({"text": "as before"}), "echo: as before"),
        ],
    );
    let warnings = events(&finished, "warning");
    let warnings = warnings
        .iter()
        .filter_map(|event| event["message"].as_str());
    let warnings: Vec<&str> = warnings
        .filter(|warning| warning.contains("no list of tools"))
        .collect();
    assert_eq!(
        warnings,
        ["the server `h`: no list of tools within 5 s; its list of tools is unchanged"]
    );
}

#[test]
fn a_server_that_reads_no_answers_is_paused() {
    let finished = check(
        "timeout_seconds: 60",
        &[
            ("pester", json!({}), "pestered "),
            ("echo", json!({"text": "after"}), "echo: after"),
        ],
    );
    let read = call_results(&finished);
    let count = read[0].split(' ').nth(1).unwrap();
    let count: u32 = count.parse().unwrap();
    assert!((32..20_000).contains(&count), "{count}");
}

#[test]
fn a_run_ends_while_a_server_starts() {
    for (rest, signal) in [
        ("timeout_settings: {orchestrator_timeout_seconds: 6}", None),
        ("", Some(Signal::INT)),
    ] {
        let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py', mute]}";
        let rest = format!("orchestrator: {{}}\n{rest}");
        let project = with_server(server, &[], &rest);
        let mark = project.path("hostile.py").display().to_string();
        let mut massgen = project.command();
        massgen.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut massgen = massgen.spawn().unwrap();
        let mut lines = BufReader::new(massgen.stderr.take().unwrap()).lines();
        let start = lines.find(|line| {
            line.as_ref()
                .unwrap()
                .contains("h: is starting, within a minute")
        });
        assert!(start.is_some());
        if let Some(signal) = signal {
            kill_process(Pid::from_child(&massgen), signal).unwrap();
        }
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        let status = massgen.wait().unwrap();
        let expected = if signal.is_some() { 130 } else { 5 };
        assert_eq!(status.code(), Some(expected), "{rest:#?}");
        // A process that was killed ends when it runs next.
        wait_until("the server ends", WAIT_TIME_MAX, || !is_running(&mark));
    }
}

#[test]
fn a_server_that_repeats_its_list_of_tools_offers_them_once() {
    let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py', again]}";
    let calls = [("mcp__h__echo", json!({"text": "once"}))];
    let finished = with_server(server, &calls, "orchestrator: {}").success();
    assert_eq!(call_results(&finished)[0], "echo: once");
    assert!(events(&finished, "warning").is_empty());
}

#[test]
fn unsupported_names_and_schemas_are_dropped_and_reported() {
    let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py', names]}";
    let calls = [("mcp__h__good", json!({})), ("mcp__h__huge", json!({}))];
    let finished = with_server(server, &calls, "orchestrator: {}").success();
    assert!(call_results(&finished)[1].contains("there is no tool `mcp__h__huge`"));
    for note in [
        "`a b` of `h` is not offered: a name has letters",
        "`x\\u{1b}[2Jy` of `h` is not offered",
        "is longer than the 64 bytes",
        "`twice` of `h` is not offered: another of its tools",
        "`huge` of `h` is not offered: its schema has",
        "`list` of `h` is not offered: its schema is not about an object",
        "`deep` of `h` is not offered: its schema is nested",
    ] {
        let warnings = events(&finished, "warning");
        let is_warned = warnings
            .iter()
            .any(|event| event["message"].as_str().unwrap().contains(note));
        assert!(is_warned, "{note}\n{}", finished.stderr());
    }
}

#[test]
fn a_server_with_a_list_of_hosts_is_told_about_the_proxy() {
    let calls = [("mcp__h__where", json!({}))];
    for (network, is_told) in [("[example.org]", true), ("on", false), ("off", false)] {
        let finished = project(&format!("network: {network}"), &calls).success();
        let read = call_results(&finished);
        let report: Value = serde_json::from_str(&read[0]).unwrap();
        let names = report["env"].as_array().unwrap();
        for name in ["HTTPS_PROXY", "NODE_USE_ENV_PROXY"] {
            let is_set = names.contains(&Value::from(name));
            assert_eq!(is_set, is_told, "{network}: {name}\n{report}");
        }
    }
}

#[test]
fn arguments_name_the_directory_that_a_program_begins_in() {
    let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py', '${cwd}']}";
    let calls = [("mcp__h__where", json!({}))];
    let finished = with_server(server, &calls, "orchestrator: {}").success();
    let read = call_results(&finished);
    let report: Value = serde_json::from_str(&read[0]).unwrap();
    assert_eq!(report["mode"], report["cwd"]);
}

#[test]
fn all_pages_of_a_list_are_read_up_to_a_limit() {
    let lists = |pages: u32| {
        let server = format!(
            "{{name: h, command: python3, args: ['{{{{cwd}}}}/hostile.py', pages, '{pages}']}}"
        );
        let calls = [
            ("mcp__h__list_resources", json!({})),
            ("mcp__h__list_prompts", json!({})),
        ];
        call_results(&with_server(&server, &calls, "orchestrator: {}").success())
    };
    for list in lists(3) {
        for entry in ["entry1", "entry2", "entry3"] {
            assert!(list.contains(entry), "{list}");
        }
        assert!(!list.contains("lists more"), "{list}");
    }
    for list in lists(40) {
        let is_listed = |entry: &str| list.contains(entry);
        assert!(is_listed("entry32") && !is_listed("entry33"), "{list}");
        assert!(list.contains("(the server lists more)"), "{list}");
    }
}

#[test]
fn one_invalid_tool_does_not_hide_the_others() {
    let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py', loose]}";
    let calls = [
        ("mcp__h__echo", json!({"text": "there"})),
        ("mcp__h__loose", json!({})),
    ];
    let finished = with_server(server, &calls, "orchestrator: {}").success();
    let read = call_results(&finished);
    assert!(read[0].contains("echo: there"), "{read:#?}");
    assert!(
        read[1].contains("there is no tool `mcp__h__loose`"),
        "{read:#?}"
    );
    let note = "`loose` of `h` is not offered: its schema is no JSON object";
    assert!(finished.stderr().contains(note), "{}", finished.stderr());
}

#[test]
fn a_run_ends_without_a_server_that_cannot_start_only_if_it_is_required() {
    for (server, expected) in [
        (
            "{name: h, command: python3, args: ['{{cwd}}/hostile.py', dead], env: {WORD: '${TOKEN}'}}",
            "it wrote: cannot start without ",
        ),
        (
            "{name: h, command: python3, args: ['{{cwd}}/missing.py']}",
            "the server `h` cannot be used",
        ),
        (
            "{name: h, command: /no/such/node}",
            "the server `h` cannot be used",
        ),
        (
            "{name: h, command: python3, args: ['{{cwd}}/hostile.py', endless]}",
            "its list of tools is longer than 16777216 bytes",
        ),
        (
            "{name: h, command: python3, args: [-c, 'import sys; input(); sys.exit(\"at the first message\")']}",
            "it wrote: at the first message",
        ),
        // The end could be the beginning of a secret.
        (
            "{name: h, command: python3, args: [-c, 'import sys; input(); sys.stderr.write(\"it has no secret\")'], env: {WORD: '${TOKEN}'}}",
            "it wrote: it has no secret",
        ),
    ] {
        let optional = with_server(server, &[], "orchestrator: {}").success();
        let warnings = events(&optional, "warning");
        let mut messages = warnings
            .iter()
            .filter_map(|event| event["message"].as_str());
        let is_warned = messages.any(|message| {
            message.contains("the server `h` cannot be used, so `one` works without its tools")
                && message.contains(expected)
        });
        assert!(is_warned, "{}", optional.stderr());
        assert!(!optional.stderr().contains(SECRET), "{}", optional.stderr());
        let required = server.replacen("name: h,", "name: h, required: true,", 1);
        let finished = with_server(&required, &[], "orchestrator: {}").failure(3);
        assert!(
            finished.stderr().contains(expected),
            "{}",
            finished.stderr()
        );
        assert_eq!(events(&finished, "replied").len(), 0);
        assert!(!finished.stderr().contains(SECRET), "{}", finished.stderr());
    }
}

#[test]
fn a_secret_of_a_server_reaches_it_and_nothing_else() {
    let server =
        "{name: h, command: python3, args: ['{{cwd}}/hostile.py'], env: {WORD: '${TOKEN}'}}";
    let calls = [("mcp__h__where", json!({})), ("mcp__h__die", json!({}))];
    let finished = with_server(server, &calls, "orchestrator: {}").success();
    let answer = &call_results(&finished)[0];
    assert!(answer.contains("\"word\": \"[redacted]\""), "{answer}");
    assert!(!answer.contains("TOKEN"), "{answer}");
    stands_nowhere(SECRET, finished.project().path(".massgen"));
}

/// Checks that no file in or below `dir` contains `secret`.
#[track_caller]
pub(crate) fn stands_nowhere(secret: &str, dir: PathBuf) {
    let mut dirs = vec![dir];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                assert!(!text.contains(secret), "{}", path.display());
            }
        }
    }
}

#[test]
fn calls_with_effects_outside_wait_where_agents_plan() {
    let call = [("mcp__h__echo", json!({"text": "sent"}))];
    let plan = "orchestrator: {coordination: {enable_planning_mode: true}}";
    let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py']}";
    let finished = with_server(server, &call, plan).success();
    assert!(
        call_results(&finished)[0].contains("agents only plan now"),
        "{:?}",
        call_results(&finished)
    );
    for harmless in ["side_effects: none", "tools_without_side_effects: [echo]"] {
        let server = server
            .replace("}]", "]")
            .replace("]}", &format!("], {harmless}}}"));
        let finished = with_server(&server, &call, plan).success();
        assert_eq!(call_results(&finished), ["echo: sent"], "{harmless}");
    }
}

#[test]
fn the_server_of_the_final_agent_writes_on_the_overlay() {
    let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py'], permission: write}";
    let file = |name: &str| json!({"path": format!("{{{{cwd}}}}/{name}"), "content": "served\n"});
    let calls = [
        ("mcp__h__write", file("notes.txt")),
        ("mcp__h__write", file("new.txt")),
        ("mcp__h__write", file(".git/config")),
        ("mcp__h__write", json!({"path": "/tmp/x", "content": ""})),
    ];
    let rest = "orchestrator:
  skip_coordination_rounds: true
  context_paths: [{path: ., permission: write}]
";
    let finished = with_server(server, &calls, rest).run();
    let read = call_results(&finished);
    assert_eq!(
        read[..2],
        ["written", "written"],
        "{read:#?}\n{}",
        finished.stderr()
    );
    assert!(read[2].contains("denied: write to") && read[3].contains("denied: write to /tmp/x"));
    finished
        .has_file("notes.txt", "served\n")
        .has_file("new.txt", "served\n")
        .has_no(".git/config");
}

/// Runs three agents with the hostile server, each of which makes these calls before it answers,
/// and the final one again. Returns what they read, and checks how many instances there were.
#[track_caller]
fn check_instances(keys: &str, calls: &[(&str, Value)], expected: usize) -> Vec<String> {
    let calls: Vec<(&str, Value)> = [("mcp__h__where", json!({}))]
        .into_iter()
        .chain(calls.iter().cloned())
        .collect();
    let replies = format!(
        "
- when: {{system: \"{FINAL}\"}}
  calls: [{{name: mcp__h__where, arguments: {{}}}}]
- when: {{system: \"{FINAL}\"}}
  text: presented
{}- calls: [{{name: new_answer, arguments: {{content: done}}}}]
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: good}}}}]
  repeat: true
",
        calls_of(&calls)
    );
    let members = ["one", "two", "three"];
    let members = members.map(|id| agent(id, &format!("cwd: '{{{{home}}}}{id}'"), &replies));
    let project = Project::new()
        .file("hostile.py", HOSTILE)
        .file("notes.txt", "of the project\n");
    let path = project.path("hostile.py").display().to_string();
    let rest = format!(
        "orchestrator: {{context_paths: [{{path: .}}]}}\n\
         mcp_servers: {{h: {{command: python3, args: ['{path}'], {keys}}}}}"
    );
    let root = project.path("").display().to_string();
    let home = project.home("").display().to_string();
    let text = team(&members, &rest);
    let text = text.replace("{{cwd}}", &root).replace("{{home}}", &home);
    let finished = project
        .file("team.yaml", text)
        .args(["--config", "team.yaml", "task"])
        .success();
    let answers = call_results(&finished);
    let homes: Vec<String> = answers
        .iter()
        .filter_map(|answer| serde_json::from_str::<Value>(answer).ok())
        .map(|answer| answer["home"].to_string())
        .collect();
    assert_eq!(homes.len(), 4, "{answers:#?}");
    let different: BTreeSet<String> = homes.into_iter().collect();
    assert_eq!(different.len(), expected, "{keys}: {different:#?}");
    answers
}

#[test]
fn agents_share_an_instance_only_if_the_config_says_so() {
    let write = ("write_file", json!({"path": "own.txt", "content": "own"}));
    let own = "{{home}}one/own.txt";
    let calls = [
        write,
        ("mcp__h__read", json!({"path": own})),
        ("mcp__h__read", json!({"path": "{{cwd}}notes.txt"})),
        ("mcp__h__sneak", json!({"blob": own})),
        ("mcp__h__roots", json!({})),
    ];
    for (keys, instances, owns, rooted) in [("", 3, 2, 3), ("shared: true", 1, 0, 0)] {
        let answers = check_instances(keys, &calls, instances);
        let count = |fits: &dyn Fn(&str) -> bool| {
            answers.iter().filter(|answer| fits(answer.trim())).count()
        };
        assert_eq!(
            count(&|answer| answer == "of the project"),
            3,
            "{answers:#?}"
        );
        assert_eq!(
            count(&|answer| answer == "own"),
            owns,
            "{keys}: {answers:#?}"
        );
        let roots = |answer: &str| answer.contains("file://") && answer.contains("/home/");
        assert_eq!(count(&roots), rooted, "{keys}: {answers:#?}");
    }
}

#[test]
fn servers_end_with_massgen_on_every_signal() {
    for signal in [Signal::INT, Signal::KILL] {
        let project = project("timeout_seconds: 600", &[("mcp__h__hang", json!({}))]);
        let mark = project.path("hostile.py").display().to_string();
        let mut massgen = project
            .command()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the server runs", WAIT_TIME_MAX, || {
            assert_eq!(massgen.try_wait().unwrap(), None);
            is_running(&mark)
        });
        kill_process(Pid::from_child(&massgen), signal).unwrap();
        let ended = massgen.wait().unwrap();
        assert!(ended.code().is_some() || ended.signal().is_some());
        wait_until("the server ends", WAIT_TIME_MAX, || !is_running(&mark));
    }
}

/// Returns whether a process is running whose command line contains `mark`.
fn is_running(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let mut lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.any(|line| line.split('\0').nth(1) == Some(mark))
}
