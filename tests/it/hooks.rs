//! The user's hooks as real scripts: the effect of each answer and each failure on calls, answers,
//! votes and deliveries, what the scripts can access, and how they are configured.

use std::fs;
use std::time::{Duration, Instant};

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use serde_json::{Value, json};

use crate::attempts;
use crate::command_runs::is_supported;
use crate::docs::blocks;
use crate::project::{FinishedCommand, Project, events};
use crate::scripted_team::{FINAL, agent, answer_replies, team};
use crate::waiting::wait_until;

/// Returns a project whose one agent has these `hooks`, on one line, and may write to `src`. The
/// hook's script is outside of what the agent can write.
fn project(hooks: &str, script: &str) -> Project {
    let config = format!(
        "agents:
  - id: ann
    backend: {{type: scripted, replies: [{{text: a}}], cwd: ann, enable_mcp_command_line: true}}
orchestrator:
  context_paths: [{{path: src, permission: write}}]
hooks: {hooks}
"
    );
    Project::new()
        .file("team.yaml", config)
        .file("src/a.txt", "plain\n")
        .file("hooks/check.sh", script)
}

/// Returns a project with a hook before each `write_file`.
fn before_writes(script: &str) -> Project {
    let hooks = "{PreToolUse: [{matcher: write_file, hooks: ['sh hooks/check.sh']}]}";
    project(hooks, script)
}

fn call(project: Project, tool: &str, arguments: &Value) -> FinishedCommand {
    let args = ["tool", tool, "--config", "team.yaml", "--phase", "final"];
    project
        .args(args)
        .args(["--args", &arguments.to_string()])
        .run()
}

fn write() -> Value {
    json!({"path": "own.txt", "content": "new"})
}

const OWN: &str = ".massgen/workspaces/ann_00000000/own.txt";

/// Checks that a write with this hook is allowed or denied, and that the output says so.
#[track_caller]
fn check(script: &str, is_allowed: bool, message: &str) -> FinishedCommand {
    let done = call(before_writes(script), "write_file", &write());
    let (out, err) = (done.stdout(), done.stderr());
    let code = if is_allowed { 0 } else { 4 };
    assert_eq!(done.code(), Some(code), "{script}: {out} {err}");
    assert!(out.contains(message), "{script}: {out}");
    assert_eq!(done.project().path(OWN).exists(), is_allowed, "{script}");
    done
}

/// Returns a script that answers with these fields.
fn answer_script(fields: &Value) -> String {
    let mut answer = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse"}});
    for (name, value) in fields.as_object().unwrap() {
        answer["hookSpecificOutput"][name] = value.clone();
    }
    format!("cat > /dev/null\ncat <<'END'\n{answer}\nEND\n")
}

fn decision_script(decision: &str) -> String {
    answer_script(&json!({"permissionDecision": decision, "permissionDecisionReason": "so it is"}))
}

#[test]
fn each_answer_does_what_the_contract_says() {
    check("exit 0", true, "");
    check(&decision_script("allow"), true, "");
    check(
        &decision_script("deny"),
        false,
        "a hook of the user's denies it: so it is",
    );
    check(
        &decision_script("ask"),
        false,
        "has a person asked first: so it is",
    );
    check(
        &decision_script("defer"),
        false,
        "leaves it to a person: so it is",
    );
    check(
        "echo 'not today' >&2; exit 2",
        false,
        "denies it: not today",
    );
    check(
        r#"echo '{"decision":"block","reason":"old"}'"#,
        false,
        "denies it: old",
    );
    check(
        r#"echo '{"continue":false,"stopReason":"late"}'"#,
        false,
        "denies it: late",
    );
    check(
        &answer_script(&json!({"additionalContext": "mind the gap"})),
        true,
        "[massgen: a hook of the user's adds: mind the gap]",
    );
}

#[test]
fn a_hook_that_fails_denies() {
    check(
        "exit 1",
        false,
        "a hook of the user's failed: it ended with status 1",
    );
    check("kill -9 $$", false, "signal 9 ended it");
    check("echo fine", false, "its answer is invalid");
    check(
        "cat /dev/zero | head -c 1000000000",
        false,
        "it wrote more than 1048576 bytes",
    );
    check("no-such-program-anywhere", false, "status 127");
    check("echo CANARY >&2; exit 3", false, "it ended with status 3");
    let secret = call(
        before_writes("echo CANARY >&2; exit 3"),
        "write_file",
        &write(),
    );
    assert!(!secret.stdout().contains("CANARY"), "{}", secret.stdout());
}

#[test]
fn a_hook_that_takes_too_long_denies_and_leaves_nothing() {
    let hooks = "{PreToolUse: [{hooks: [{command: 'sh hooks/check.sh', timeout: 1}]}]}";
    let script = "sleep 987654 & sleep 987654";
    let begun = Instant::now();
    let late = call(project(hooks, script), "write_file", &write());
    assert_eq!(late.code(), Some(4), "{}", late.stdout());
    assert!(
        late.stdout().contains("it took longer than 1 s"),
        "{}",
        late.stdout()
    );
    assert!(begun.elapsed() < Duration::from_mins(2));
    // A process that was killed ends when it runs next.
    wait_until("nothing is left", Duration::from_mins(2), || {
        count_processes("987654") == 0
    });
}

/// Returns how many processes have this word on their command line.
fn count_processes(word: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let has_word = |line: &Vec<u8>| {
        line.split(|byte| *byte == 0)
            .any(|found| found == word.as_bytes())
    };
    lines.filter(has_word).count()
}

#[test]
fn a_hook_reads_what_it_is_asked_about() {
    let script = "cat > \"$TMPDIR/request\"; cat \"$TMPDIR/request\" >&2
echo \"$CLAUDE_PROJECT_DIR $MASSGEN_AGENT_ID $MASSGEN_HOOK_EVENT $PWD\" >&2; exit 2";
    let finished = call(before_writes(script), "write_file", &write());
    let report: Value = serde_json::from_str(finished.stdout()).unwrap();
    let output = report["output"].as_str().unwrap();
    let (_, output) = output.split_at(output.find('{').unwrap());
    let mut lines = output.lines();
    let text = lines.next().unwrap();
    let (request, rest) = text.split_at(text.rfind('}').unwrap() + 1);
    let request: Value = serde_json::from_str(request).unwrap();
    let expected = json!({
        "schema_version": 1, "session_id": null, "cwd": "[PROJECT]",
        "permission_mode": "default", "hook_event_name": "PreToolUse", "agent_id": "ann",
        "workspace": "[PROJECT]/.massgen/workspaces/ann_00000000", "phase": "final", "round": null,
        "tool_name": "write_file", "tool_input": write(), "tool_use_id": null,
    });
    assert_eq!(request, expected);
    let rest = format!("{rest}{}", lines.next().unwrap_or_default());
    assert!(
        rest.starts_with("[PROJECT] ann PreToolUse [PROJECT]"),
        "{rest}"
    );
}

#[test]
fn an_input_that_a_hook_changed_needs_a_new_approval() {
    let into =
        |path: &str| answer_script(&json!({"updatedInput": {"path": path, "content": "other"}}));
    let changed = call(before_writes(&into("b.txt")), "write_file", &write());
    assert_eq!(changed.code(), Some(0), "{}", changed.stdout());
    changed
        .has_file(".massgen/workspaces/ann_00000000/b.txt", "other")
        .has_no(OWN);
    let outside = call(
        before_writes(&into("../../../out.txt")),
        "write_file",
        &write(),
    );
    assert_eq!(outside.code(), Some(4), "{}", outside.stdout());
    assert!(
        outside
            .stdout()
            .contains("it does not lead into your directories")
    );
    outside.has_no("out.txt").has_no(OWN);
    let unread = answer_script(&json!({"updatedInput": {"file": "b.txt"}}));
    let denied = call(before_writes(&unread), "write_file", &write());
    assert_eq!(denied.code(), Some(4), "{}", denied.stdout());
    assert!(
        denied.stdout().contains("wants another input"),
        "{}",
        denied.stdout()
    );
}

#[test]
fn no_hook_opens_what_grants_close() {
    let beyond = json!({"path": "../../../out.txt", "content": ""});
    let allowing = "touch \"$TMPDIR/asked\"; ".to_owned() + &decision_script("allow");
    let denied = call(before_writes(&allowing), "write_file", &beyond);
    assert_eq!(denied.code(), Some(4), "{}", denied.stdout());
    denied.has_no("out.txt");
}

#[test]
fn hooks_run_concurrently_and_the_strictest_decision_applies() {
    let wait = |own: &str, other: &str, decision: &str| {
        format!(
            "touch \"$TMPDIR/{own}\"; while [ ! -e \"$TMPDIR/{other}\" ]; do sleep 0.05; done\n{}",
            decision_script(decision)
        )
    };
    for (one, other, code) in [
        ("allow", "deny", 4),
        ("deny", "allow", 4),
        ("allow", "allow", 0),
    ] {
        let hooks = "{PreToolUse: ['sh hooks/check.sh', 'sh hooks/other.sh']}";
        // Each waits for the other: if they ran one after another, both would time out.
        let project = project(hooks, &wait("one", "two", one))
            .file("hooks/other.sh", wait("two", "one", other));
        let done = call(project, "write_file", &write());
        assert_eq!(done.code(), Some(code), "{one} {other}: {}", done.stdout());
    }
}

#[test]
fn a_matcher_says_which_tools_a_hook_is_about() {
    let calls = [
        ("write_file", write()),
        ("list_directory", json!({"path": "."})),
        ("execute_command", json!({"command": "true"})),
    ];
    for (matcher, expected) in [
        ("write_file", [4, 0, 0]),
        ("Write", [4, 0, 0]),
        ("Bash|LS", [0, 4, 4]),
        ("write", [0, 0, 0]),
        ("*", [4, 4, 4]),
        (".*_file", [4, 0, 0]),
    ] {
        let hooks = format!("{{PreToolUse: [{{matcher: '{matcher}', hooks: ['exit 2']}}]}}");
        let done = calls
            .clone()
            .map(|(tool, arguments)| call(project(&hooks, ""), tool, &arguments).code().unwrap());
        assert_eq!(done, expected, "{matcher}");
    }
}

/// Runs commands and hooks of the project in this level.
fn with_level(project: Project, level: SandboxLevel) -> Project {
    let config = fs::read_to_string(project.path("team.yaml")).unwrap();
    let key = "enable_mcp_command_line: true";
    let changed = config.replace(key, &format!("{key}, command_line_sandbox: {level}"));
    assert_ne!(changed, config);
    project.file("team.yaml", changed)
}

#[test]
fn a_hook_reaches_the_project_and_nothing_else() {
    let script = "cat src/a.txt team.yaml > /dev/null || exit 3
echo x > \"$TMPDIR/x\" || exit 4
if cat ~/.ssh/id HOMEDIR/.ssh/id 2> /dev/null; then exit 5; fi
if (echo x > src/a.txt) 2> /dev/null; then exit 6; fi
if (echo x > made.txt) 2> /dev/null; then exit 7; fi
if (exec 3<>/dev/tcp/127.0.0.1/PORT) 2> /dev/null; then exit 8; fi
exit 0";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let hooks = "{PreToolUse: [{hooks: ['bash hooks/check.sh']}]}";
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ] {
        if !is_supported(level) {
            println!("skipped: this machine has no level {level}");
            continue;
        }
        let leveled_project = with_level(project(hooks, ""), level).home_file(".ssh/id", "CANARY");
        let home = leveled_project.home("");
        let home = home.to_str().unwrap().trim_end_matches('/').to_owned();
        let script = script.replace("HOMEDIR", &home).replace("PORT", &port);
        let done = call(
            leveled_project.file("hooks/check.sh", &script),
            "write_file",
            &write(),
        );
        let (out, err) = (done.stdout(), done.stderr());
        assert_eq!(done.code(), Some(0), "{level}: {out} {err}");
        done.has_file("src/a.txt", "plain\n").has_no("made.txt");
    }
    // Control: with network access, the same connection succeeds.
    let connects = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    for (network, code) in [("off", 4), ("on", 0)] {
        let hooks = format!(
            "{{PreToolUse: [{{hooks: [{{command: 'bash hooks/check.sh', network: {network}}}]}}]}}"
        );
        let done = call(project(&hooks, &connects), "write_file", &write());
        assert_eq!(done.code(), Some(code), "{network}: {}", done.stdout());
    }
}

#[test]
fn hooks_after_a_call_add_to_what_is_read_and_undo_nothing() {
    let after = |script: &str| {
        let hooks = "{PostToolUse: [{matcher: Write, hooks: ['sh hooks/check.sh']}]}";
        let done = call(project(hooks, script), "write_file", &write());
        assert_eq!(done.code(), Some(0), "{} {}", done.stdout(), done.stderr());
        let stdout = done.stdout().to_owned();
        done.has_file(OWN, "new");
        stdout
    };
    let adds = json!({"hookSpecificOutput": {"additionalContext": "now run the tests"}});
    assert!(after(&format!("echo '{adds}'")).contains("adds: now run the tests]"));
    let blocks =
        after(r#"grep -q '"tool_response":' && echo '{"decision":"block","reason":"ugly"}'"#);
    assert!(
        blocks.contains("[massgen: a hook of the user's denies it: ugly]"),
        "{blocks}"
    );
    assert!(!after("echo garbage; exit 1").contains("hook"));
}

#[test]
fn hooks_apply_to_calls_of_other_programs() {
    let asked = |hooks: &str, tool: &str, input: Value| {
        let hooked_project = project(hooks, "exit 2");
        let request = json!({
            "hook_event_name": "PreToolUse", "cwd": hooked_project.path("src"),
            "tool_name": tool, "tool_input": input,
        });
        let arguments = [
            "hook",
            "pre-tool-use",
            "--config",
            "team.yaml",
            "--in-sandbox",
        ];
        let done = hooked_project
            .args(arguments)
            .args(["--phase", "final"])
            .stdin(request.to_string())
            .run();
        let answer: Value = serde_json::from_str(done.stdout())
            .unwrap_or_else(|_| panic!("{} {}", done.stdout(), done.stderr()));
        let answer = &answer["hookSpecificOutput"];
        (
            answer["permissionDecision"].as_str().unwrap() == "allow",
            answer["permissionDecisionReason"].to_string(),
        )
    };
    let file = json!({"file_path": "new.txt", "content": ""});
    let on = |matcher: &str, command: &str| {
        format!("{{PreToolUse: [{{matcher: '{matcher}', hooks: ['{command}']}}]}}")
    };
    let (allowed, reason) = asked(&on("write_file", "exit 2"), "Write", file.clone());
    assert!(
        !allowed && reason.contains("a hook of the user's denies it"),
        "{reason}"
    );
    assert!(asked(&on("edit_file", "exit 2"), "Write", file.clone()).0);
    let command = json!({"command": "ls"});
    assert!(!asked(&on("execute_command", "exit 2"), "Bash", command.clone()).0);
    assert!(asked(&on("list_directory", "exit 2"), "Bash", command).0);
    let changes = answer_script(&json!({"updatedInput": {"path": "b", "content": ""}}));
    let hooked_project = project(&on("Write", "sh hooks/check.sh"), &changes);
    let request = json!({
        "hook_event_name": "PreToolUse", "cwd": hooked_project.path("src"),
        "tool_name": "Write", "tool_input": file,
    });
    let arguments = [
        "hook",
        "pre-tool-use",
        "--config",
        "team.yaml",
        "--phase",
        "final",
    ];
    let done = hooked_project
        .args(arguments)
        .stdin(request.to_string())
        .run();
    assert!(
        done.stdout()
            .contains("another input, which cannot be given"),
        "{}",
        done.stdout()
    );
}

#[test]
fn explain_names_the_hooks_and_runs_none() {
    let hooks = "{PreToolUse: [{matcher: Write, hooks: ['sh hooks/check.sh']}]}";
    let calls = "{\"tool\":\"write_file\",\"args\":{\"path\":\"x\",\"content\":\"\"}}
{\"tool\":\"list_directory\",\"args\":{\"path\":\".\"}}\n";
    let explained = project(hooks, "exit 2")
        .args(["explain", "calls", "--config", "team.yaml"])
        .stdin(calls)
        .success();
    let mut lines = explained.stdout().lines();
    let mut line = || serde_json::from_str::<Value>(lines.next().unwrap()).unwrap();
    let hooked = line();
    assert_eq!(hooked["decision"], "allow");
    assert_eq!(hooked["hooks"], json!(["sh hooks/check.sh"]));
    assert_eq!(line()["hooks"], Value::Null);
}

#[track_caller]
fn assert_refused(hooks: &str, expected: &str) {
    let checked = project(hooks, "exit 0")
        .args(["config", "check", "team.yaml"])
        .run();
    let out = checked.stdout();
    assert_eq!(
        checked.code().unwrap() == 0,
        expected.is_empty(),
        "{hooks}: {out}"
    );
    assert!(out.contains(expected), "{hooks}: {out}");
}

#[test]
fn a_config_with_hooks_is_checked() {
    assert_refused("{PreToolUse: ['sh hooks/check.sh']}", "");
    assert_refused(
        "{PreToolUse: ['\"$CLAUDE_PROJECT_DIR\"/hooks/check.sh']}",
        "",
    );
    assert_refused("{PreToolUse: ['./missing.sh --all']}", "`./missing.sh`");
    assert_refused("{PreToolUse: [no-such-program]}", "`no-such-program`");
    assert_refused("{PreToolUse: ['echo hi && ./missing.sh']}", "");
    assert_refused("{PreToolUs: []}", "did you mean `PreToolUse`?");
    assert_refused(
        "{PreToolUse: [{matcher: '(', hooks: [true]}]}",
        "is not a regular expression",
    );
    assert_refused("{PreToolUse: [{matcher: Write}]}", "`hooks` is missing");
    assert_refused(
        "{PreToolUse: [{hooks: [{type: http, command: x}]}]}",
        "expected `command`",
    );
    assert_refused(
        "{PreToolUse: [{hooks: [{command: [a, b]}]}]}",
        "expected text",
    );
    assert_refused(
        "{PreToolUse: [{matcher: [a], hooks: [echo]}]}",
        "expected text",
    );
    assert_refused(
        "{PreToolUse: [{hooks: [{command: echo, timeout: 601}]}]}",
        "from 1 to 600",
    );
    assert_refused(
        "{VoteCast: [{matcher: Write, hooks: [echo]}]}",
        "does not concern a tool",
    );
    let many = vec!["echo"; 17].join(", ");
    assert_refused(&format!("{{PreToolUse: [{many}]}}"), "at most 16");
}

#[test]
fn what_a_hook_names_is_protected() {
    let written = |command: &str, path: &str| {
        let hooks = format!("{{AfterDelivery: [{}]}}", json!(command));
        let project = project(&hooks, "exit 0")
            .file("src/check.sh", "exit 0")
            .file("src/my check.sh", "exit 0")
            .file("src/tool/__main__.py", "")
            .link("src/link.sh", "../hooks/check.sh");
        let arguments = json!({"path": project.path(path), "content": "exit 1"});
        call(project, "write_file", &arguments)
    };
    for (command, path) in [
        ("sh src/check.sh", "src/check.sh"),
        ("sh <src/check.sh", "src/check.sh"),
        ("cd src && sh check.sh", "src/check.sh"),
        ("sh $PWD/src/check.sh", "src/check.sh"),
        ("sh \"$CLAUDE_PROJECT_DIR\"/src/check.sh", "src/check.sh"),
        ("sh \"${X:-.}/src/check.sh\"", "src/check.sh"),
        ("sh \"$(pwd)/src/my check.sh\"", "src/my check.sh"),
        ("sh src/my\\ check.sh", "src/my check.sh"),
        ("bash --rcfile=src/check.sh -i", "src/check.sh"),
        ("CHECK=src/check.sh sh -c 'sh $CHECK'", "src/check.sh"),
        ("python3 -c 'open(\"src/check.sh\")'", "src/check.sh"),
        ("sh src/missing.sh", "src/missing.sh"),
        ("python3 -B src/tool", "src/tool/__main__.py"),
        ("make -C src/tool check", "src/tool/Makefile"),
        ("sh src/.claude/check.sh", "src/.claude/check.sh"),
    ] {
        let denied = written(command, path);
        let out = denied.stdout().to_owned() + denied.stderr();
        assert_eq!(denied.code(), Some(4), "{command}: {out}");
        assert!(out.contains("protects it"), "{command}: {out}");
        let control = written(command, "src/other.sh");
        assert_eq!(control.code(), Some(0), "{command}: {}", control.stderr());
    }
}

#[test]
fn a_hook_in_a_workspace_or_beside_what_it_imports_is_refused() {
    let refused = |command: &str| {
        let hooks = format!("{{PreToolUse: [{}]}}", json!(command));
        let project = project(&hooks, "exit 0")
            .file("src/check.js", "")
            .file("src/check.py", "")
            .file("src/data.txt", "")
            .file(".massgen/workspaces/ann_00000000/check.sh", "exit 0");
        let done = call(project, "write_file", &write());
        (done.code(), done.stderr().to_owned())
    };
    for command in [
        "sh .massgen/workspaces/ann_00000000/check.sh",
        "sh <.massgen/workspaces/ann_00000000/check.sh",
        "node src/check.js",
    ] {
        let (code, stderr) = refused(command);
        assert_eq!(code, Some(2), "{command}: {stderr}");
        let is_named = stderr.contains("which is part of the program of");
        assert!(is_named, "{command}: {stderr}");
    }
    // Controls: data may lie there, and Python imports nothing from there.
    for command in ["grep -q . src/data.txt", "python3 src/check.py"] {
        let (_, stderr) = refused(command);
        assert!(!stderr.contains("part of the program"), "{stderr}");
    }
}

#[test]
fn each_hook_has_its_own_home() {
    let listed = |hooks: String| {
        let done = call(project(&hooks, ""), "write_file", &write());
        done.stdout().contains("made")
    };
    let makes = "touch $HOME/made";
    let lists = "ls $HOME >&2; exit 2";
    let apart = format!("{{PreToolUse: ['{makes}'], PostToolUse: ['{lists}']}}");
    assert!(!listed(apart));
    // Control: the home of the same command is kept.
    let both = format!("{makes}; [ $MASSGEN_HOOK_EVENT = PreToolUse ] || {{ {lists}; }}");
    let both = format!("{{PreToolUse: ['{both}'], PostToolUse: ['{both}']}}");
    assert!(listed(both));
}

#[test]
fn hooks_of_all_places_add_up() {
    let config = "agents:
  - id: ann
    hooks: {PreToolUse: ['touch \"$TMPDIR/2\"']}
    backend:
      type: scripted
      replies: []
      cwd: ann
      hooks: {PreToolUse: ['touch \"$TMPDIR/1\"']}
orchestrator:
  hooks: {PreToolUse: ['touch \"$TMPDIR/3\"']}
hooks: {PreToolUse: ['touch \"$TMPDIR/4\"'], PostToolUse: ['ls \"$TMPDIR\" >&2; exit 2']}
";
    let done = call(
        Project::new().file("team.yaml", config),
        "write_file",
        &write(),
    );
    assert_eq!(done.code(), Some(0), "{} {}", done.stdout(), done.stderr());
    let stdout = done.stdout();
    assert!(stdout.contains(r"1\n2\n3\n4"), "{stdout}");
}

#[test]
fn hook_runs_are_events_and_models_read_their_reasons() {
    let replies = format!(
        r#"
- when: {{system: "{FINAL}"}}
  text: "done"
- when: {{last: "denies it: use b.txt"}}
  calls: [{{name: new_answer, arguments: {{content: "I read it"}}}}]
- calls: [{{name: write_file, arguments: {{path: a.txt, content: "one"}}}}]
"#
    );
    let hooks = "hooks: {PreToolUse: [{matcher: Write, hooks: ['echo use b.txt >&2; exit 2']}]}";
    let done = Project::new()
        .file(
            "team.yaml",
            team(&[agent("ann", "cwd: w", &replies)], hooks),
        )
        .args(["--config", "team.yaml", "work"])
        .success();
    let ran = events(&done, "hook_ran");
    assert_eq!(ran.len(), 1, "{ran:?}");
    assert_eq!(ran[0]["decision"], "deny");
    assert_eq!(ran[0]["reason"], "use b.txt");
    assert_eq!(ran[0]["tool"], "write_file");
    let called = events(&done, "tool_called");
    assert_eq!(called[0]["rule"], "hook");
    assert_eq!(events(&done, "answered")[0]["content"], "I read it");
}

/// Returns a team of two; each answers and both vote for the first. An answer that is refused is
/// given again with the word `better`.
fn voting_project(hooks: &str) -> Project {
    let replies = |me: &str| {
        let first = format!(
            r#"
- when: {{last: "not counted: a hook"}}
  calls: [{{name: new_answer, arguments: {{content: "{me} better"}}}}]
"#
        );
        first + &answer_replies(me, "agent1", 0)
    };
    let agents = [
        agent("one", "cwd: w1", &replies("first")),
        agent("two", "cwd: w2", &replies("second")),
    ];
    Project::new()
        .file("team.yaml", team(&agents, hooks))
        .file(
            "hooks/check.sh",
            "grep -q better && exit 0; echo 'say it better' >&2; exit 2",
        )
        .args(["--config", "team.yaml", "work"])
}

#[test]
fn a_hook_can_reject_an_answer() {
    let done = voting_project("hooks: {AnswerSubmitted: ['sh hooks/check.sh']}").success();
    let answered = events(&done, "answered");
    let texts: Vec<&str> = answered
        .iter()
        .map(|a| a["content"].as_str().unwrap())
        .collect();
    assert!(
        texts.iter().all(|text| text.ends_with("better")),
        "{texts:?}"
    );
    let refused = events(&done, "submission_rejected");
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!(
        refused[0]["external"],
        "a hook of the user's denies it: say it better"
    );
    let control = voting_project("").success();
    assert!(events(&control, "submission_rejected").is_empty());
}

#[test]
fn a_hook_about_an_answer_sees_the_attempt() {
    let hook = "hooks: {AnswerSubmitted: ['if grep -q evil src/a*; then exit 2; fi']}\n";
    for (word, code) in [("evil", 1), ("good", 0)] {
        let all_replies = [attempts::replies(&attempts::change(word), "done", "agent1")];
        let finished = attempts::project(&all_replies, hook).run();
        assert_eq!(finished.code(), Some(code), "{}", finished.stderr());
        assert_eq!(events(&finished, "hook_ran").len(), 1);
    }
}

#[test]
fn a_hook_can_reject_a_vote() {
    let done = voting_project("hooks: {VoteCast: ['exit 2']}").run();
    assert!(events(&done, "voted").is_empty());
    assert!(!events(&done, "submission_rejected").is_empty());
    let script =
        "grep -q '\"candidate\":\"one\",\"label\":\"agent1.1\",\"reason\":\"agent1 is good\"'";
    let allowed = voting_project("hooks: {VoteCast: ['sh hooks/votes.sh']}")
        .file("hooks/votes.sh", script)
        .success();
    assert_eq!(events(&allowed, "voted").len(), 2);
}

/// Returns an agent that delivers `src/new.txt`.
fn delivering_project(hooks: &str, script: &str) -> Project {
    let replies = format!(
        r#"
- when: {{last: "src/new.txt"}}
  text: "done"
- when: {{system: "{FINAL}"}}
  calls: [{{name: write_file, arguments: {{path: "$PROJECT/src/new.txt", content: "one"}}}}]
- calls: [{{name: new_answer, arguments: {{content: "the answer"}}}}]
"#
    );
    let project = Project::new().dir("src").file("hooks/check.sh", script);
    let project_dir = project
        .path("")
        .to_str()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    let rest = format!(
        "orchestrator:\n  coordination: {{write_mode: legacy}}\n  context_paths: [{{path: src, permission: write}}]\nhooks: {hooks}\n"
    );
    let config = team(
        &[agent(
            "ann",
            "cwd: w",
            &replies.replace("$PROJECT", &project_dir),
        )],
        &rest,
    );
    project
        .file("team.yaml", config)
        .args(["--config", "team.yaml", "work"])
}

#[test]
fn a_hook_can_block_a_delivery() {
    let hooks = "{BeforeDelivery: ['sh hooks/check.sh']}";
    let looks = "grep -q 'src/new.txt\",\"status\":\"created\"' || exit 3";
    let allowed = delivering_project(hooks, looks).success();
    let allowed = allowed.has_file("src/new.txt", "one");
    assert_eq!(events(&allowed, "hook_ran").len(), 1);
    let stopped = delivering_project(
        hooks,
        &format!("{looks}; echo 'not on a Friday' >&2; exit 2"),
    )
    .run();
    let stopped = stopped.has_no("src/new.txt");
    let output = stopped.stderr().to_owned() + stopped.stdout();
    assert!(output.contains("nothing was delivered"), "{output}");
    let rows = &events(&stopped, "delivered")[0]["rows"];
    assert_eq!(rows[0]["outcome"], "declined", "{rows}");
    // A stopped delivery can be applied later.
    let taken = stopped.then(["apply"]).success();
    taken.has_file("src/new.txt", "one");
}

#[test]
fn hooks_receive_the_delivery() {
    let hooks = "{AfterDelivery: ['sh hooks/check.sh']}";
    let finished = delivering_project(
        hooks,
        "grep -q 'src/new.txt\",\"status\":\"created\"' || exit 3",
    )
    .success();
    let ran = events(&finished, "hook_ran");
    assert_eq!((ran.len(), &ran[0]["decision"]), (1, &json!("nothing")));
    // A failing hook changes nothing.
    let failed = delivering_project(hooks, "exit 9").success();
    let failed = failed.has_file("src/new.txt", "one");
    assert_eq!(events(&failed, "hook_ran")[0]["decision"], "failed");
}

#[test]
fn hooks_hold_calls_of_programs() {
    let replies = r#"
- when: {last: "PROGRAM ENDED"}
  calls: [{name: new_answer, arguments: {content: "done"}}]
- calls: [{name: execute_code, arguments: {code: "import workspace_tools as w\ntry:\n    w.write_file('a.txt', 'one')\nexcept Exception as e:\n    print(e)\nw.write_file('b.txt', 'two')\nprint('PROGRAM ENDED')\n"}}]
"#;
    let hooks = "hooks: {PreToolUse: [{matcher: Write, hooks: ['grep -q b.txt || exit 2']}]}";
    let keys = "cwd: w\nenable_code_based_tools: true";
    let done = Project::new()
        .file("team.yaml", team(&[agent("ann", keys, replies)], hooks))
        .args(["--config", "team.yaml", "work"])
        .run();
    let ran = events(&done, "hook_ran");
    let decisions: Vec<&str> = ran
        .iter()
        .map(|ran| ran["decision"].as_str().unwrap())
        .collect();
    assert_eq!(
        decisions,
        ["deny", "nothing"],
        "{} {}",
        done.stdout(),
        done.stderr()
    );
    let finished = events(&done, "tool_finished");
    let denial = finished[0]["content"].to_string();
    assert!(
        denial.contains("a hook of the user's denies it"),
        "{denial}"
    );
}

#[test]
fn a_replay_runs_no_hook() {
    let done = voting_project("hooks: {AnswerSubmitted: ['sh hooks/check.sh']}").success();
    let logs = done.project().path(".massgen/massgen_logs");
    let log = fs::read_dir(logs).unwrap().next().unwrap().unwrap().path();
    let name = log.file_name().unwrap().to_str().unwrap().to_owned();
    let again = done.then(["replay", &name]).run();
    assert_eq!(
        again.code(),
        Some(0),
        "{} {}",
        again.stdout(),
        again.stderr()
    );
}

/// Returns the blocks of `docs/hooks.md` in this language.
fn documented_blocks(language: &str) -> Vec<&'static str> {
    blocks(include_str!("../../docs/hooks.md"), language)
}

#[test]
fn the_scripts_of_the_documentation_answer() {
    let scripts = documented_blocks("python");
    let hooks = "{PreToolUse: [{matcher: Write, hooks: ['python3 hooks/check.sh']}]}";
    let key = json!({"path": "own.txt", "content": "sk-abcdefghijklmnopqrstuvwxyz"});
    let denied = call(project(hooks, scripts[0]), "write_file", &key);
    assert_eq!(denied.code(), Some(4), "{}", denied.stdout());
    assert!(
        denied.stdout().contains("what looks like a key"),
        "{}",
        denied.stdout()
    );
    let allowed = call(project(hooks, scripts[0]), "write_file", &write());
    assert_eq!(allowed.code(), Some(0), "{}", allowed.stdout());
    let tidied = call(project(hooks, scripts[1]), "write_file", &write());
    assert_eq!(tidied.code(), Some(0), "{}", tidied.stdout());
    tidied.has_file(OWN, "new\n");
}

#[test]
fn a_resumed_run_repeats_no_hook() {
    let done = voting_project("hooks: {AnswerSubmitted: ['sh hooks/check.sh']}").success();
    let hook_runs = events(&done, "hook_ran").len();
    assert_eq!(hook_runs, 4);
    let state = done.project().path(".massgen");
    let run = fs::read_dir(state.join("massgen_logs")).unwrap().next();
    let log = run.unwrap().unwrap().path().join("turn_1/events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let last = text.rfind("\"type\":\"answered\"").unwrap();
    let (before, after) = text.split_at(last);
    let (event, _) = after.split_once('\n').unwrap();
    fs::write(&log, format!("{before}{event}\n")).unwrap();
    fs::remove_file(log.with_file_name("status.json")).unwrap();
    for session in fs::read_dir(state.join("sessions")).unwrap() {
        let turn = session.unwrap().path().join("turn_1");
        fs::remove_dir_all(&turn).unwrap();
        fs::create_dir(&turn).unwrap();
    }
    // A later change of the hook would refuse everything.
    fs::write(done.project().path("hooks/check.sh"), "exit 1").unwrap();
    let arguments = ["--continue", "--config", "team.yaml"];
    let again = done.then(arguments).success();
    assert_eq!(events(&again, "hook_ran").len(), hook_runs);
    assert_eq!(events(&again, "answered").len(), 2);
    assert_eq!(events(&again, "submission_rejected").len(), 2);
}

#[test]
fn no_hook_is_shown_the_users_home() {
    let config = "agents:
  - id: ann
    backend: {type: scripted, replies: [], cwd: ann}
hooks: {PreToolUse: ['exit 0']}
";
    let project = Project::new().file("team.yaml", config);
    let home = project.path("");
    let refused = call(project.env("HOME", home), "write_file", &write());
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr());
    assert!(
        refused.stderr().contains("would have access to all of"),
        "{}",
        refused.stderr()
    );
}
