//! External agents: a stand-in program speaks their protocols and executes the steps of a table,
//! including forbidden ones. Each attempt has a counterpart that works.

use serde_json::{Value, json};

use crate::mcp::HOSTILE;
use crate::project::{FinishedCommand, Project, events};
use crate::scripted_team::{FINAL, agent, answer_replies, team};

/// The stand-in program.
const STAND_IN: &str = include_str!("../external_agents/stand_in.py");

/// Protocols of the stand-in.
pub(crate) const PROTOCOLS: &[(&str, &str)] = &[
    ("acp", "acp"),
    ("claude_code", "claude"),
    ("codex", "codex"),
];

/// Returns a project with files to read, to write and to leave alone, and the stand-in.
pub(crate) fn external_agent_project() -> Project {
    Project::new()
        .file("given/stand_in.py", STAND_IN)
        .file("given/notes.txt", "of the project")
        .file("out/old.txt", "old")
        .file("outside/secret.txt", "not for agents")
        .dir("w1")
        .dir("w2")
        .file("w2/theirs.txt", "of another agent")
}

/// Returns the root of a project, without a trailing slash.
pub(crate) fn project_root(project: &Project) -> String {
    let root = project.path("").display().to_string();
    root.trim_end_matches('/').to_owned()
}

/// Writes the step table of an external agent and returns the agent's config; `$` in both is
/// replaced by the project.
pub(crate) fn external_agent(
    project: Project,
    (id, kind): (&str, &str),
    keys: &str,
    table: &Value,
) -> (Project, String) {
    let root = project_root(&project);
    let file = format!("given/{id}.json");
    let project = project.file(&file, table.to_string().replace('$', &root));
    let (_, protocol) = PROTOCOLS.iter().find(|(name, _)| *name == kind).unwrap();
    let yaml = format!(
        "  - id: {id}\n    backend:\n      type: {kind}\n      \
         command: [python3, $/given/stand_in.py, {protocol}, $/{file}]\n      {keys}\n"
    );
    let yaml = yaml.replace('$', &root);
    (project, yaml)
}

/// Paths that the config opens to all agents.
pub(crate) const OPENED: &str = "orchestrator: {coordination: {write_mode: legacy}, context_paths: [{path: given}, {path: out, permission: write}]}";

/// Runs one external agent that executes `steps`, then answers; returns what it reported for each
/// step.
fn run_with(
    project: Project,
    kind: &str,
    keys: &str,
    steps: &[Value],
) -> (FinishedCommand, Vec<String>) {
    let mut all = steps.to_vec();
    all.push(json!(["call", "new_answer", {"content": "done"}]));
    let table = json!([
        {"when": FINAL, "do": [["say", "presented"]]},
        {"when": "", "do": all},
    ]);
    let keys = format!("cwd: $/w1\n      {keys}");
    let (project, one) = external_agent(project, ("one", kind), &keys, &table);
    let finished = project
        .file("team.yaml", team(&[one], OPENED))
        .args(["--config", "team.yaml", "task"])
        .run();
    let reports = step_reports(&finished, "one");
    (finished, reports)
}

fn run(kind: &str, steps: &[Value]) -> (FinishedCommand, Vec<String>) {
    run_with(external_agent_project(), kind, "", steps)
}

/// Returns the lines that an agent reported.
pub(crate) fn step_reports(finished: &FinishedCommand, id: &str) -> Vec<String> {
    let texts = events(finished, "text")
        .into_iter()
        .filter(|event| event["agent"] == id);
    let all: String = texts
        .map(|event| event["text"].as_str().unwrap().to_owned())
        .collect();
    all.lines().map(str::to_owned).collect()
}

/// Checks what an external agent reports for each step.
#[track_caller]
pub(crate) fn check_with(
    project: Project,
    (kind, keys): (&str, &str),
    steps: &[(Value, &str)],
) -> FinishedCommand {
    let todo: Vec<Value> = steps.iter().map(|(step, _)| step.clone()).collect();
    let (finished, reports) = run_with(project, kind, keys, &todo);
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    for (line, (step, expected)) in reports.iter().zip(steps) {
        assert!(
            line.contains(expected),
            "{step}\n{line}\n{expected}\n{reports:#?}"
        );
    }
    assert!(reports.len() > steps.len(), "{reports:#?}");
    finished
}

#[track_caller]
fn check(kind: &str, steps: &[(Value, &str)]) -> FinishedCommand {
    check_with(external_agent_project(), (kind, ""), steps)
}

#[test]
fn an_external_agent_answers_and_presents_over_each_protocol() {
    for (kind, _) in PROTOCOLS {
        let (finished, reports) = run(kind, &[json!(["own", "edit", "a.txt"])]);
        assert_eq!(finished.code(), Some(0), "{kind}: {}", finished.stderr());
        assert!(
            finished.stdout().contains("presented"),
            "{}",
            finished.stdout()
        );
        assert!(reports[1].contains("handed in"), "{reports:#?}");
        assert_eq!(events(&finished, "answered")[0]["content"], "done");
        let own = events(&finished, "native_tool_call");
        assert!(
            own[0]["detail"].as_str().unwrap().contains("a.txt"),
            "{own:?}"
        );
        let model_requests = events(&finished, "model_request_finished");
        assert!(
            model_requests[0]["input_tokens"].as_u64().unwrap() > 8,
            "{model_requests:?}"
        );
        if *kind == "claude_code" {
            assert_eq!(model_requests[0]["cost_usd"], 0.25, "{model_requests:?}");
        }
    }
}

#[test]
fn an_external_agent_reaches_what_its_agent_reaches() {
    for (kind, _) in PROTOCOLS {
        let finished = check(
            kind,
            &[
                (json!(["write", "own.txt", "mine"]), "ok"),
                (json!(["read", "own.txt"]), "ok mine"),
                (json!(["read", "$/given/notes.txt"]), "ok of the project"),
                (json!(["read", "$/outside/secret.txt"]), "failed"),
                (json!(["read", "$/w2/theirs.txt"]), "failed"),
                (json!(["write", "$/given/new.txt", "x"]), "failed"),
                (json!(["write", "$/out/early.txt", "x"]), "failed"),
                // If nothing is granted, it sees its own private tree.
                (json!(["write", "$/outside/new.txt", "x"]), ""),
                (json!(["env", "HOME"]), "1.agent/home"),
                (json!(["env", "NOT_FOR_GUESTS"]), "none"),
            ],
        );
        finished
            .has_file("w1/own.txt", "mine")
            .has_no("outside/new.txt")
            .has_no("out/early.txt");
    }
}

#[test]
fn an_external_agent_takes_part_by_the_tools_that_it_is_offered() {
    let server = "mcp_servers: [{name: h, command: python3, args: ['$/given/hostile.py']}]";
    let project = external_agent_project().file("given/hostile.py", HOSTILE);
    let server = server.replace('$', &project_root(&project));
    let finished = check_with(
        project,
        ("acp", &server),
        &[
            (json!(["tools"]), "new_answer mcp__h__"),
            (
                json!(["call", "write_file", {"path": "a", "content": "x"}]),
                "there is no tool",
            ),
            (
                json!(["call", "vote", {"agent_id": "agent1", "reason": "x"}]),
                "there is no tool",
            ),
            (
                json!(["call", "mcp__h__read", {"path": "$/given/notes.txt"}]),
                "of the project",
            ),
            (
                json!(["call", "mcp__h__read", {"path": "$/outside/secret.txt"}]),
                "denied: read of",
            ),
            (json!(["spoil_socket"]), "failed"),
        ],
    );
    let called = events(&finished, "tool_called");
    assert_eq!(called.len(), 2, "{called:#?}");
    assert_eq!(called[0]["tool"], "mcp__h__read");
}

#[test]
fn an_external_agent_is_given_images_with_the_answer_to_its_call() {
    let server = "mcp_servers: [{name: h, command: python3, args: ['$/given/hostile.py']}]";
    let call = || json!(["call", "mcp__h__pictures", {"count": 1, "width": 3}]);
    let image_text = "[massgen: the image that `mcp__h__pictures` gave] <image/png iVBORw0KG>";
    for (keys, expected) in [
        ("\n      image_input: true", image_text),
        (
            "",
            "[massgen: 1 image not shown: the model accepts text only]",
        ),
    ] {
        let project = external_agent_project().file("given/hostile.py", HOSTILE);
        let keys = format!("{}{keys}", server.replace('$', &project_root(&project)));
        let finished = check_with(project, ("acp", &keys), &[(call(), expected)]);
        assert_eq!(events(&finished, "tool_called").len(), 1);
    }
}

#[test]
fn permissions_that_an_external_agent_asks_for_are_the_gates_to_give() {
    check(
        "acp",
        &[
            (json!(["permission", "edit", "a.txt"]), "permission: yes"),
            (
                json!(["permission", "read", "$/given/notes.txt"]),
                "permission: yes",
            ),
            (
                json!(["permission", "execute", "ls -la"]),
                "permission: yes",
            ),
            (
                json!(["permission", "read", "/etc/passwd"]),
                "permission: no",
            ),
            (
                json!(["permission", "edit", "$/given/notes.txt"]),
                "permission: no",
            ),
            (
                json!(["permission", "delete", "$/out/old.txt"]),
                "permission: no",
            ),
            (
                json!(["permission", "execute", "sudo ls"]),
                "permission: no",
            ),
            (json!(["permission", "edit", null]), "permission: no"),
            (
                json!(["permission", "fetch", "https://example.org"]),
                "permission: no",
            ),
            (json!(["permission", "whatever", "a.txt"]), "permission: no"),
            // One that ignores the denial is blocked all the same.
            (
                json!(["permission", "read", "$/outside/secret.txt"]),
                "permission: no",
            ),
            (json!(["read", "$/outside/secret.txt"]), "failed"),
            (json!(["fs_write", "new.txt", "by massgen"]), "fs_write: {}"),
            (json!(["fs_read", "new.txt"]), "by massgen"),
            (
                json!(["fs_read", "$/outside/secret.txt"]),
                "denied: read of",
            ),
        ],
    );
    check(
        "acp",
        &[(
            json!(["fs_write", "$/out/old.txt", "x"]),
            "denied: write to",
        )],
    )
    .has_file("out/old.txt", "old");
}

/// As Claude Code and opencode ask over the protocol.
#[test]
fn a_permission_is_decided_with_what_the_agent_announced_before() {
    let ask = |kind: &str, announced: Value, asked: Value| {
        json!(["announced_permission", kind, announced, asked])
    };
    let places = |path: &str, dir: &str| json!({"kind": "other", "locations": [{"path": path}, {"path": dir}]});
    let run = |line: &str| json!({"rawInput": {"command": line}});
    let finished = check(
        "acp",
        &[
            (ask("execute", json!({}), run("ls -la")), ": yes"),
            (ask("execute", json!({}), run("sudo ls")), ": no"),
            (
                ask("edit", json!({"file_path": "a.txt"}), json!({})),
                ": yes",
            ),
            (
                ask("edit", json!({"file_path": "$/out/old.txt"}), json!({})),
                ": no",
            ),
            (
                ask("read", json!({}), places("$/given/notes.txt", "$/given")),
                ": yes",
            ),
            (
                ask("edit", json!({}), places("$/given/notes.txt", "$/given")),
                ": no",
            ),
            // The directory is closed, whatever the file is.
            (ask("edit", json!({}), places("a.txt", "$")), ": no"),
            // What it would do is not said, so it may write.
            (ask("other", json!({}), places("own.txt", ".")), ": yes"),
            (
                ask("other", json!({}), places("$/given/notes.txt", "$/given")),
                ": no",
            ),
            (
                ask(
                    "other",
                    json!({"content": "x"}),
                    json!({"title": "mcp__massgen__new_answer"}),
                ),
                ": yes",
            ),
            (
                ask(
                    "execute",
                    json!({"command": "sudo ls"}),
                    json!({"title": "mcp__massgen__new_answer"}),
                ),
                ": no",
            ),
        ],
    );
    let denied = events(&finished, "native_tool_call")
        .into_iter()
        .filter(|event| event["denied"].is_string());
    assert_eq!(denied.count(), 6);
}

/// As opencode asks when it has won.
#[test]
fn the_winner_may_write_where_the_project_is_open_for_writing() {
    let locations = json!([{"path": "$/out/new.txt"}, {"path": "$/out"}]);
    let permission_request = json!({"kind": "other", "locations": locations});
    let table = json!([
        {"when": FINAL, "do": [
            ["announced_permission", "edit", {}, permission_request],
            ["permission", "other", "$/out/other.txt"],
            ["permission", "other", "$/given/notes.txt"],
            ["write", "$/out/new.txt", "delivered"],
            ["say", "presented"],
        ]},
        {"when": "", "do": [["call", "new_answer", {"content": "done"}]]},
    ]);
    let (project, one) = external_agent(
        external_agent_project(),
        ("one", "acp"),
        "cwd: $/w1",
        &table,
    );
    let finished = project
        .file("team.yaml", team(&[one], OPENED))
        .args(["--config", "team.yaml", "task"])
        .run();
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    let reports = step_reports(&finished, "one");
    let answers = [
        "announced_permission: yes",
        "permission: yes",
        "permission: no",
    ];
    assert_eq!(reports.get(1..4).unwrap(), answers, "{reports:#?}");
    finished.has_file("out/new.txt", "delivered");
}

#[test]
fn an_external_agent_changes_its_attempt() {
    for (kind, _) in PROTOCOLS {
        let table = json!([{"when": "", "do": [
            ["write", "$/out/new.txt", "made"],
            ["read", "$/out/new.txt"],
            ["write", "$/given/new.txt", "made"],
            ["call", "new_answer", {"content": "done"}],
        ]}]);
        let project = external_agent_project();
        let (project, one) = external_agent(project, ("one", kind), "cwd: $/w1", &table);
        let finished = project
            .file("team.yaml", team(&[one], &OPENED.replace("legacy", "auto")))
            .args(["--config", "team.yaml", "task"])
            .success();
        let reports = step_reports(&finished, "one");
        for (report, expected) in reports.iter().zip(["write: ok", "read: ok made", "failed"]) {
            assert!(report.contains(expected), "{kind}: {reports:#?}");
        }
        assert!(events(&finished, "final_started").is_empty());
        let _delivered = finished
            .has_file("out/new.txt", "made")
            .has_no("given/new.txt");
    }
}

#[test]
fn an_agent_that_asks_only_for_what_is_denied_drops_out() {
    let denied = || json!(["permission", "fetch", "https://example.org"]);
    let allowed = json!(["permission", "edit", "a.txt"]);
    let done = json!(["own", "edit", "a.txt", "tool_call_update", "completed"]);
    let mut steps = vec![denied(); 19];
    for good in [allowed, done] {
        steps.push(good);
        steps.extend(vec![denied(); 19]);
    }
    let (finished, reports) = run("acp", &steps);
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    assert_eq!(reports.len(), steps.len() + 2, "{reports:#?}");
    steps.push(denied());
    let (finished, _) = run("acp", &steps);
    assert_eq!(finished.code(), Some(1), "{}", finished.stderr());
    let reason =
        "20 requests of the program in a row were denied, the last with: denied: it does not say";
    assert!(finished.stderr().contains(reason), "{}", finished.stderr());
    assert_eq!(events(&finished, "retrying").len(), 0);
}

/// As Gemini CLI reports most of its calls, and as it looks for a file before it creates it.
#[test]
fn a_call_that_is_reported_by_updates_alone_is_shown_and_a_missing_file_is_named_so() {
    let finished = check(
        "acp",
        &[
            (
                json!(["own", "edit", "made a.txt", "tool_call_update", "completed"]),
                "own: used",
            ),
            (json!(["fs_read", "nothing.txt"]), "Resource not found: "),
            (
                json!(["fs_read", "$/outside/secret.txt"]),
                ": denied: read of",
            ),
        ],
    );
    let own = events(&finished, "native_tool_call");
    assert_eq!(own[0]["detail"], "made a.txt", "{own:#?}");
    assert_eq!(own.len(), 3, "{own:#?}");
    assert_eq!(own[1].get("denied"), None, "{own:#?}");
}

#[test]
fn long_questions_wait_for_each_other_and_too_long_ones_are_denied() {
    let steps = [
        (
            json!(["long_questions", 3_000_000, 6]),
            "long_questions: allow",
        ),
        (
            json!(["long_questions", 5_000_000, 2]),
            "long_questions: status 2 denied",
        ),
        (json!(["long_questions", 10, 2]), "long_questions: allow"),
    ];
    check("claude_code", &steps);
}

#[test]
fn the_hook_of_claude_code_asks_the_run() {
    let rules = "permissions: {deny: ['command(git push *)'], ask: ['command(make *)']}";
    let finished = check_with(
        external_agent_project(),
        ("claude_code", rules),
        &[
            (
                json!(["hook", "Write", {"file_path": "a.txt", "content": "x"}]),
                "hook: allow",
            ),
            (
                json!(["hook", "Read", {"file_path": "$/given/notes.txt"}]),
                "hook: allow",
            ),
            (json!(["hook", "Bash", {"command": "ls"}]), "hook: allow"),
            (
                json!(["hook", "mcp__massgen__new_answer", {}]),
                "hook: allow",
            ),
            (
                json!(["hook", "Write", {"file_path": "$/out/old.txt", "content": "x"}]),
                "hook: deny",
            ),
            (
                json!(["hook", "Read", {"file_path": "/etc/passwd"}]),
                "hook: deny",
            ),
            (
                json!(["hook", "Bash", {"command": "sudo ls"}]),
                "hook: deny",
            ),
            (
                json!(["hook", "Bash", {"command": "git push origin"}]),
                "hook: deny",
            ),
            (
                json!(["hook", "Bash", {"command": "make all"}]),
                "hook: deny",
            ),
            (json!(["hook", "mcp__other__tool", {}]), "hook: deny"),
            (json!(["hook", "Unknown", {}]), "hook: deny"),
        ],
    );
    let denied = events(&finished, "native_tool_call")
        .into_iter()
        .filter(|event| event["denied"].is_string());
    assert_eq!(denied.count(), 7);
}

#[test]
fn a_hook_that_reaches_no_run_denies() {
    let request = json!({
        "hook_event_name": "PreToolUse", "cwd": "/", "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    });
    let finished = Project::new()
        .args(["hook", "pre-tool-use", "--socket", "nobody"])
        .stdin(request.to_string())
        .failure(2);
    assert!(
        finished
            .stderr()
            .contains("cannot send a request to the run"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn an_external_agent_has_its_key_and_nothing_else_of_the_environment() {
    const KEY: &str = "ANTHROPIC_API_KEY";
    const TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
    let secret = "sk-ant-not-for-anybody-else";
    let with_key = external_agent_project()
        .env(KEY, secret)
        .env(TOKEN, "oat-of-the-user");
    // A key that came with the project does not replace what the user has exported.
    let with_token = external_agent_project()
        .file(".env", format!("{KEY}=sk-of-the-project\n"))
        .env(TOKEN, secret);
    for (project, passed, other) in [(with_key, KEY, TOKEN), (with_token, TOKEN, KEY)] {
        let finished = check_with(
            project.env("NOT_FOR_GUESTS", "x").env("FOR_GUESTS", "y"),
            ("claude_code", "env: [FOR_GUESTS]"),
            &[
                (
                    json!(["shell", format!("printenv {passed} | grep -qx {secret}")]),
                    "status 0",
                ),
                (json!(["env", passed]), "[redacted]"),
                (json!(["env", other]), "none"),
                (json!(["env", "NOT_FOR_GUESTS"]), "none"),
                (json!(["env", "FOR_GUESTS"]), "y"),
            ],
        );
        let texts = format!("{:?}", events(&finished, "text"));
        assert!(!texts.contains(secret), "{texts}");
    }
}

#[test]
fn an_external_agent_that_exits_is_restarted_with_the_whole_conversation() {
    let finished = check("acp", &[(json!(["die_once", "died"]), "went on")]);
    let retried = events(&finished, "retrying");
    let reason = retried[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("status 7") && reason.contains("out of luck"),
        "{reason}"
    );
}

#[test]
fn a_program_that_exits_at_once_is_started_twice() {
    let start = |script: &str| {
        let project = external_agent_project().file("given/start.sh", script);
        let table = json!([
            {"when": FINAL, "do": [["say", "presented"]]},
            {"when": "", "do": [["call", "new_answer", {"content": "done"}]]},
        ]);
        let (project, one) = external_agent(project, ("one", "acp"), "cwd: $/w1", &table);
        let script = format!("sh, {}/given/start.sh, python3", project_root(&project));
        let one = one.replace("python3", &script);
        project
            .file("team.yaml", team(&[one], OPENED))
            .args(["--config", "team.yaml", "task"])
            .run()
    };
    let finished = start("echo 'usage: agent' >&2; exit 7\n");
    assert_eq!(finished.code(), Some(1), "{}", finished.stderr());
    assert_eq!(events(&finished, "retrying").len(), 1);
    let reason = "the program does not start: the program has exited; it ended with status 7; \
                  it wrote: usage: agent";
    assert!(finished.stderr().contains(reason), "{}", finished.stderr());
    let finished = start("test -e once && exec \"$@\"; touch once; exit 7\n");
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    assert_eq!(events(&finished, "retrying").len(), 1);
    let finished = start("echo 'Not logged in: run agent login' >&2; exit 1\n");
    assert_eq!(events(&finished, "retrying").len(), 0);
    for part in [
        "Not logged in",
        "(hint: agents do not see the login of your own",
    ] {
        assert!(finished.stderr().contains(part), "{}", finished.stderr());
    }
}

#[test]
fn an_answer_counts_although_the_turn_of_the_external_agent_fails() {
    let steps = |first: Value, second: Value| json!([{"when": FINAL, "do": [["say", "presented"]]}, {"when": "", "do": [first, second]}]);
    let (fails, answers) = (
        json!(["fail_once", "failed"]),
        json!(["call", "new_answer", {"content": "done"}]),
    );
    let nothing = json!(["say", "nothing"]);
    for (table, retries) in [
        (steps(answers.clone(), fails.clone()), 0),
        (steps(fails, nothing), 1),
    ] {
        let (project, one) = external_agent(
            external_agent_project(),
            ("one", "acp"),
            "cwd: $/w1",
            &table,
        );
        let finished = project
            .file("team.yaml", team(&[one], OPENED))
            .args(["--config", "team.yaml", "task"])
            .run();
        assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
        let retried = events(&finished, "retrying");
        assert_eq!(retried.len(), retries, "{retried:?}");
    }
}

#[test]
fn an_external_agent_that_says_nothing_is_not_waited_for() {
    let steps = [json!(["sleep", 30])];
    let table = json!([{"when": "", "do": steps}]);
    let keys = "cwd: $/w1\n      idle_timeout_seconds: 1";
    let (project, one) = external_agent(external_agent_project(), ("one", "acp"), keys, &table);
    let finished = project
        .file("team.yaml", team(&[one], OPENED))
        .args([
            "--config",
            "team.yaml",
            "--orchestrator-timeout",
            "12",
            "task",
        ])
        .run();
    assert_ne!(finished.code(), Some(0));
    let reason = &events(&finished, "retrying")[0]["reason"];
    assert!(
        reason.as_str().unwrap().contains("sent nothing for 1 s"),
        "{reason}"
    );
    check_with(
        external_agent_project(),
        ("acp", "idle_timeout_seconds: 9"),
        &[(json!(["sleep", 0.1]), "slept")],
    );
}

#[test]
fn an_external_agent_that_floods_drops_out_and_control_sequences_are_shown() {
    let (finished, _) = run("acp", &[json!(["flood", 17_000_000])]);
    assert_ne!(finished.code(), Some(0));
    let reason = &events(&finished, "dropped_out")[0]["reason"];
    assert!(
        reason.as_str().unwrap().contains("a line of more than"),
        "{reason}"
    );
    let finished = check("acp", &[(json!(["say", "\u{1b}[2Jgone"]), "gone")]);
    assert!(
        !finished.stderr().contains('\u{1b}'),
        "{}",
        finished.stderr()
    );
}

#[test]
fn an_external_agent_that_cannot_start_is_reported_before_any_model_request() {
    let start = |backend: &str, arguments: &[&str]| {
        let yaml = format!("agent: {{id: one, backend: {{{backend}}}}}");
        let project = external_agent_project().file("team.yaml", yaml);
        let all = ["--config", "team.yaml"]
            .iter()
            .chain(arguments)
            .chain(&["task"]);
        project.args(all).run()
    };
    for (backend, arguments, expected) in [
        (
            "type: claude_code, cwd: w",
            &[][..],
            "npm install -g @anthropic-ai/claude-code",
        ),
        ("type: codex, cwd: w", &[], "npm install -g @openai/codex"),
        (
            "type: gemini_cli, cwd: w",
            &[],
            "npm install -g @google/gemini-cli",
        ),
        (
            "type: acp, cwd: w, command: [no-such-program]",
            &[],
            "set its absolute path",
        ),
        (
            "type: acp, cwd: w, command: [/bin/true]",
            &["--sandbox", "landlock"],
            "cannot run at sandbox level `landlock`",
        ),
        ("type: acp, cwd: w", &[], "`command` has no program"),
    ] {
        let finished = start(backend, arguments);
        assert_ne!(finished.code(), Some(0), "{backend}");
        let stderr = finished.stderr();
        assert!(stderr.contains(expected), "{backend}\n{stderr}");
        assert!(!stderr.contains("agents:"), "{backend}\n{stderr}");
    }
    let soon = &["--orchestrator-timeout", "12"];
    let finished = start("type: acp, cwd: w, command: [/bin/true]", soon);
    assert!(
        finished.stderr().contains("the program has exited"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn without_a_sandbox_an_external_agent_delivers_nothing_and_the_run_says_so() {
    let deliver = json!([
        {"when": FINAL, "do": [["fs_write", "$/out/new.txt", "x"], ["say", "presented"]]},
        {"when": "", "do": [["call", "new_answer", {"content": "done"}]]},
    ]);
    for (sandbox, expected) in [("off", "denied: write to"), ("auto", "fs_write: {}")] {
        let keys = format!("cwd: $/w1\n      command_line_sandbox: {sandbox}");
        let (project, one) =
            external_agent(external_agent_project(), ("one", "acp"), &keys, &deliver);
        let finished = project
            .file("team.yaml", team(&[one], OPENED))
            .args(["--config", "team.yaml", "task"])
            .run();
        assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
        let reports = step_reports(&finished, "one");
        let is_said = reports.iter().any(|line| line.contains(expected));
        let is_delivered = finished.project().path("out/new.txt").exists();
        assert_eq!(is_delivered, sandbox == "auto", "{}", finished.stderr());
        let warned = finished
            .stderr()
            .contains("the program of one runs without a sandbox");
        assert_eq!(warned, sandbox == "off", "{}", finished.stderr());
        // With nothing to deliver, the program does not present the answer.
        assert!(is_said || sandbox == "off", "{reports:#?}");
    }
}

#[test]
fn a_run_of_external_agents_is_replayed_without_them() {
    let (finished, _) = run("acp", &[json!(["own", "edit", "a.txt"])]);
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    let replayed = finished.then(["replay", "last"]).success();
    let stdout = replayed.stdout();
    assert!(stdout.starts_with("same: "), "{stdout}");
}

#[test]
fn two_external_agents_and_a_model_vote_and_the_winner_delivers() {
    let table = |answer: &str, delivers: &Value| {
        json!([
            {"when": FINAL, "do": delivers},
            {"when": "Compare all", "do": [["call", "vote", {"agent_id": "agent1", "reason": "best"}]]},
            {"when": "", "do": [
                ["write", "$/out/early.txt", "x"],
                ["call", "new_answer", {"content": answer}],
                ["call", "vote", {"agent_id": "agent2", "reason": "twice"}],
            ]},
        ])
    };
    let delivers = json!([
        ["write", "$/out/new.txt", "delivered"],
        ["write", "$/outside/new.txt", "x"],
        ["say", "all is there"],
    ]);
    let (project, first) = external_agent(
        external_agent_project(),
        ("a", "acp"),
        "cwd: $/w1",
        &table("first", &delivers),
    );
    let second = table("second", &json!([]));
    let (project, second) = external_agent(project, ("b", "claude_code"), "cwd: $/w2", &second);
    let third = agent("c", "", &answer_replies("third", "agent1", 0));
    let finished = project
        .file("team.yaml", team(&[first, second, third], OPENED))
        .args(["--config", "team.yaml", "task"])
        .run();
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    assert_eq!(events(&finished, "voted").len(), 3, "{}", finished.stderr());
    let reports = step_reports(&finished, "a");
    assert!(reports[0].contains("failed"), "{reports:#?}");
    assert!(reports[2].contains("you have handed in"), "{reports:#?}");
    assert!(
        reports.iter().any(|line| line.contains("write: ok")),
        "{reports:#?}"
    );
    finished
        .has_file("out/new.txt", "delivered")
        .has_no("out/early.txt")
        .has_no("outside/new.txt");
}
