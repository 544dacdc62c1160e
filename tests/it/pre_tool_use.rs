//! `massgen hook pre-tool-use`: requests as other programs send them, against real files.

use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};

use crate::project::{FinishedCommand, Project};

/// Grants on a workspace, a directory to write to and one to read, with rules.
const GRANTS: &str = r#"{"workspace": "ws", "context_paths": [
  {"path": "rw", "permission": "write"}, {"path": "ro", "permission": "read"}],
  "permissions": {"deny": ["read_file(secrets/**)", "command(git push *)", "tool(Task)"],
                  "ask": ["write_file(deploy/**)"]}}"#;

fn project() -> Project {
    Project::new()
        .file("grants.json", GRANTS)
        .file("ws/own.txt", "own")
        .file("rw/a.txt", "a")
        .file("rw/.git/config", "")
        .file("rw/secrets/key", "k")
        .file("ro/b.txt", "b")
        .file("ro/sub/d.txt", "d")
        .file("outside/c.txt", "c")
        .link("rw/way-out", "../outside")
        .link("rw/way-in", "secrets")
}

/// Formats a request to use a tool; `$` in its input is replaced by the project.
fn hook_request(project: &Project, tool: &str, input: &Value) -> String {
    let root = project.path("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    let input = input.to_string().replace('$', root);
    let input: Value = serde_json::from_str(&input).unwrap();
    json!({
        "session_id": "s", "transcript_path": "/dev/null", "cwd": format!("{root}/ws"),
        "permission_mode": "default", "hook_event_name": "PreToolUse", "tool_name": tool,
        "tool_input": input, "tool_use_id": "t",
    })
    .to_string()
}

/// Arguments of the hook command.
const WORDS: [&str; 7] = [
    "hook",
    "pre-tool-use",
    "--grants",
    "grants.json",
    "--phase",
    "final",
    "--in-sandbox",
];

fn ask_hook(tool: &str, input: &Value) -> FinishedCommand {
    let project = project();
    let request = hook_request(&project, tool, input);
    project.args(WORDS).stdin(request).run()
}

/// Checks the decision, and returns its reason.
#[track_caller]
fn check(tool: &str, input: &Value, expected: &str) -> String {
    let finished = ask_hook(tool, input);
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
    let answer: Value = serde_json::from_str(finished.stdout()).unwrap();
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "PreToolUse");
    let reason = output["permissionDecisionReason"].as_str().unwrap();
    assert_eq!(
        output["permissionDecision"], expected,
        "{tool} {input}: {reason}"
    );
    reason.to_owned()
}

#[test]
fn the_gate_decides_about_files() {
    let file = |path: &str| json!({"file_path": path});
    let write = |path: &str| json!({"file_path": path, "content": "x"});
    for (path, read, written) in [
        ("$/ws/own.txt", "allow", "allow"),
        ("own.txt", "allow", "allow"),
        ("$/rw/a.txt", "allow", "allow"),
        ("$/ro/b.txt", "allow", "deny"),
        ("$/outside/c.txt", "deny", "deny"),
        ("../outside/c.txt", "deny", "deny"),
        ("$/rw/way-out/c.txt", "deny", "deny"),
        ("$/rw/secrets/key", "deny", "deny"),
        ("$/rw/way-in/key", "deny", "deny"),
        ("$/rw/SECRETS/key", "deny", "deny"),
        ("$/rw/.git/config", "allow", "deny"),
        ("$/rw/deploy/plan", "allow", "deny"),
        ("/etc/passwd", "deny", "deny"),
    ] {
        let _reason = check("Read", &file(path), read);
        let _reason = check("Write", &write(path), written);
        let edit = json!({"file_path": path, "old_string": "a", "new_string": "b"});
        let _reason = check("Edit", &edit, written);
        let edits = json!({"file_path": path, "edits": [{"old_string": "a", "new_string": "b"}]});
        let _reason = check("MultiEdit", &edits, written);
        let notebook = json!({"notebook_path": path, "new_source": "x"});
        let _reason = check("NotebookEdit", &notebook, written);
    }
}

#[test]
fn the_gate_decides_about_searches() {
    for (path, expected) in [
        ("$/rw", "allow"),
        ("$/outside", "deny"),
        ("$/rw/secrets", "deny"),
    ] {
        let search = json!({"pattern": "x", "path": path});
        let _reason = check("Grep", &search, expected);
        let _reason = check("Glob", &search, expected);
        let _reason = check("LS", &json!({"path": path}), expected);
    }
    let _reason = check("Grep", &json!({"pattern": "x"}), "allow");
    for pattern in [
        "**/*.rs",
        "{src,test}/**/*.{ts,tsx}",
        "*.test.[jt]s",
        "a/{b,c/d}/*.[ch]",
    ] {
        let _reason = check("Glob", &json!({"pattern": pattern}), "allow");
    }
    for pattern in [
        "/etc/*",
        "../**",
        "~/.ssh/*",
        "{..,x}/*",
        "{.,x}{.,y}/*",
        ".{,x}./*",
        "x/.{./a,b}",
        "{/etc,x}/*",
        ".[.]/*",
        "[/]etc/*",
        "[--9]etc/*",
        "\\/etc/*",
        " /etc/*",
    ] {
        let finished = ask_hook("Glob", &json!({"pattern": pattern}));
        assert_eq!(finished.code(), Some(2), "{pattern}: {}", finished.stdout());
    }
    // A pattern begins where its names resolve to, also through a symlink.
    let by_link = |pattern: &str, expected| {
        let search = json!({"path": "$/rw", "pattern": pattern});
        let _reason = check("Glob", &search, expected);
    };
    by_link("way-out/*", "deny");
    by_link("way-in/*", "deny");
    by_link(".git/*", "allow");
}

#[test]
fn a_path_that_can_be_read_in_two_ways_is_denied() {
    for path in ["~/.bashrc", "~root/x", " $/rw/a.txt", "$/rw/a.txt ", "~"] {
        for (tool, key) in [("Read", "file_path"), ("LS", "path"), ("Edit", "file_path")] {
            let mut input = json!({"old_string": "a", "new_string": "b"});
            input[key] = json!(path);
            let finished = ask_hook(tool, &input);
            assert_eq!(
                finished.code(),
                Some(2),
                "{tool} {path}: {}",
                finished.stdout()
            );
        }
    }
    let _reason = check("Read", &json!({"file_path": "$/rw/a.txt"}), "allow");
}

#[test]
fn commands_are_for_programs_in_a_sandbox() {
    let bash = |line: &str| json!({"command": line});
    let _reason = check("Bash", &bash("ls -l"), "allow");
    let pushed = check("Bash", &bash("env git push"), "deny");
    assert!(pushed.contains("`deny: command(git push *)`"), "{pushed}");
    let _reason = check("Bash", &bash("sudo rm -rf /"), "deny");
    let _reason = check("Bash", &bash("echo 'unclosed"), "deny");
    let project = project();
    let request = hook_request(&project, "Bash", &bash("ls"));
    let loose = project.args(["hook", "pre-tool-use", "--grants", "grants.json"]);
    let finished = loose.stdin(request).success();
    assert!(
        finished.stdout().contains("you may not run commands here"),
        "{}",
        finished.stdout()
    );
}

#[test]
fn a_program_that_nothing_holds_does_not_search_past_what_is_closed() {
    for (path, expected) in [
        ("$/rw", "deny"),
        ("$/ro/sub", "allow"),
        ("$/rw/a.txt", "allow"),
    ] {
        let project = project();
        let request = hook_request(&project, "Grep", &json!({"pattern": "x", "path": path}));
        let arguments = ["hook", "pre-tool-use", "--grants", "grants.json"];
        let finished = project.args(arguments).stdin(request).success();
        let text = format!("\"permissionDecision\":\"{expected}\"");
        assert!(
            finished.stdout().contains(&text),
            "{path}: {}",
            finished.stdout()
        );
    }
}

#[test]
fn rules_apply_to_tools_without_files() {
    let _reason = check("TodoWrite", &json!({"todos": []}), "allow");
    let denied = check("Task", &json!({"prompt": "x"}), "deny");
    assert!(denied.contains("`deny: tool(Task)`"), "{denied}");
}

#[test]
fn an_agent_of_a_config_is_answered_for_by_its_name() {
    let config = "
agents:
  - id: ann
    backend: {type: scripted, replies: [], permissions: {deny: ['read_file(b.txt)']}}
  - id: bob
    backend: {type: scripted, replies: []}
orchestrator: {context_paths: [ro]}
";
    for (agent, expected) in [("ann", "deny"), ("bob", "allow")] {
        let project = project().file("team.yaml", config);
        let request = hook_request(&project, "Read", &json!({"file_path": "$/ro/b.txt"}));
        let arguments = [
            "hook",
            "pre-tool-use",
            "--config",
            "team.yaml",
            "--agent",
            agent,
        ];
        let finished = project.args(arguments).stdin(request).success();
        let text = format!("\"permissionDecision\":\"{expected}\"");
        assert!(
            finished.stdout().contains(&text),
            "{agent}: {}",
            finished.stdout()
        );
    }
}

/// Checks that nothing is printed, and that the exit status denies.
#[track_caller]
fn assert_denied(project: Project, input: &str, reason: &str) {
    let finished = project.stdin(input).run();
    assert_eq!(finished.code(), Some(2), "{}", finished.stderr());
    assert_eq!(finished.stdout(), "");
    assert!(finished.stderr().contains(reason), "{}", finished.stderr());
}

#[test]
fn every_error_of_the_hook_denies() {
    let good = hook_request(&project(), "Read", &json!({"file_path": "/x"}));
    let with = |arguments: &[&str]| project().args(arguments);
    let usual = || with(&WORDS);
    assert_denied(usual(), "", "not what was expected");
    assert_denied(usual(), "nonsense", "not what was expected");
    assert_denied(usual(), "{}", "not what was expected");
    assert_denied(
        usual(),
        &good.replace("PreToolUse", "PostToolUse"),
        "the event is `PostToolUse`",
    );
    assert_denied(
        usual(),
        &good.replace("\"Read\"", "\"Reed\""),
        "no tool `Reed` is known",
    );
    assert_denied(
        usual(),
        &good.replace("\"Read\"", "\"WebFetch\""),
        "no tool `WebFetch` is known",
    );
    assert_denied(
        usual(),
        &good.replace("\"Read\"", "\"mcp__x__y\""),
        "no tool `mcp__x__y` is known",
    );
    assert_denied(
        usual(),
        &good.replace("file_path", "path"),
        "`Read` is not called so",
    );
    assert_denied(
        usual(),
        &good.replace("\"/x\"", "7"),
        "`Read` is not called so",
    );
    assert_denied(usual(), &good.replace("\"/x\"", "\"a\\u0000b\""), "NUL");
    let missing = with(&["hook", "pre-tool-use", "--grants", "gone.json"]);
    assert_denied(missing, &good, "grants file `");
    let damaged = with(&["hook", "pre-tool-use", "--grants", "bad.json"]).file("bad.json", "{");
    assert_denied(damaged, &good, "invalid grants");
    let wrong = r#"{"workspace": "ws", "permissions": {"deny": ["nonsense"]}}"#;
    let wrong = with(&["hook", "pre-tool-use", "--grants", "bad.json"]).file("bad.json", wrong);
    assert_denied(wrong, &good, "invalid rule `nonsense`");
    assert_denied(with(&["hook", "pre-tool-use"]), &good, "no config found");
    assert_denied(
        with(&["hook", "pre-tool-use", "--config", "gone.yaml"]),
        &good,
        "gone.yaml",
    );
    assert_denied(
        with(&["hook", "pre-tool-use", "--nonsense"]),
        &good,
        "--nonsense",
    );
    assert_denied(with(&["hook", "post-tool-use"]), &good, "post-tool-use");
}

#[test]
fn a_request_that_never_ends_is_cut() {
    let project = project();
    let mut command = project.command();
    command
        .args(WORDS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let flood = std::thread::spawn(move || {
        let zeros = vec![b' '; 1 << 20];
        let began = Instant::now();
        while std::io::Write::write_all(&mut input, &zeros).is_ok()
            && began.elapsed().as_secs() < 60
        {}
    });
    let output = child.wait_with_output().unwrap();
    flood.join().unwrap();
    assert_eq!(
        output.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
