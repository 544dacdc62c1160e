//! The rules of `permissions:` as a user meets them: what they deny to tools and commands, the
//! output of `config check` and `explain`, and symlinks that are swapped to evade them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use massgen::call_rules::CallRules;
use massgen::call_rules::rule_syntax::parse_rule;
use massgen::orchestrator::grants::apply_path_rules;
use massgen::path::AbsPath;
use massgen::permissions::grant::{Grant, Phase};
use massgen::permissions::path_rules::RuleAction;
use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use serde_json::{Value, json};

use crate::command_runs::is_supported;
use crate::disk::{Disk, NameExchange, call_tool};
use crate::docs::blocks;
use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, team};
use crate::waiting::wait_until;

/// Returns a project with files of all kinds, whose one agent has these `permissions`, on one line.
fn project(permissions: &str) -> Project {
    let config = format!(
        "agents:
  - id: ann
    backend:
      type: scripted
      replies: [{{text: a}}]
      cwd: ann
      enable_mcp_command_line: true
      permissions: {permissions}
orchestrator:
  context_paths: [{{path: src, permission: write}}]
"
    );
    Project::new()
        .file("team.yaml", config)
        .file("src/a.txt", "plain\n")
        .file("src/x.lock", "locked\n")
        .file("src/deep/y.lock", "locked\n")
        .file("src/secrets/key", "CANARY\n")
}

fn call(permissions: &str, tool: &str, arguments: &Value) -> FinishedCommand {
    call_in(project(permissions), tool, arguments)
}

fn call_in(project: Project, tool: &str, arguments: &Value) -> FinishedCommand {
    let args = ["tool", tool, "--config", "team.yaml", "--phase", "final"];
    project
        .args(args)
        .args(["--args", &arguments.to_string()])
        .run()
}

/// Checks that a call is denied by a rule, and allowed without it.
#[track_caller]
fn check_denied(permissions: &str, tool: &str, arguments: &Value, reason: &str) {
    let refused = call(permissions, tool, arguments);
    let (out, err) = (refused.stdout(), refused.stderr());
    assert_eq!(refused.code(), Some(4), "{tool} {arguments}: {out} {err}");
    assert!(out.contains(reason), "{out}");
    let control = call("{}", tool, arguments);
    assert_eq!(control.code(), Some(0), "{}", control.stdout());
}

/// Returns `path` of the project, relative to the agent's workspace.
fn source_path(path: &str) -> String {
    format!("../../../src/{path}")
}

#[test]
fn every_tool_obeys_a_deny_rule() {
    let lock = "{deny: ['write_file(*.lock)']}";
    let text = "`deny: write_file(*.lock)`";
    let write = |path: &str| json!({"path": source_path(path), "content": "new"});
    check_denied(lock, "write_file", &write("x.lock"), text);
    check_denied(lock, "write_file", &write("deep/y.lock"), text);
    check_denied(lock, "write_file", &write("NEW.LOCK"), text);
    check_denied(
        lock,
        "write_file",
        &json!({"path": "own.lock", "content": ""}),
        text,
    );
    check_denied(
        lock,
        "delete_file",
        &json!({"path": source_path("x.lock")}),
        text,
    );
    check_denied(
        lock,
        "move_file",
        &json!({"source": source_path("a.txt"), "destination": source_path("b.lock")}),
        text,
    );
    let secret = "{deny: ['read_file(secrets/**)']}";
    let text = "`deny: read_file(secrets/**)`";
    check_denied(
        secret,
        "read_text_file",
        &json!({"path": source_path("secrets/key")}),
        text,
    );
    check_denied(
        secret,
        "list_directory",
        &json!({"path": source_path("secrets")}),
        text,
    );
    check_denied(
        secret,
        "get_file_info",
        &json!({"path": source_path("secrets/key")}),
        text,
    );
    let copy = json!({"source_path": source_path("secrets/key"), "destination_path": "k"});
    check_denied(secret, "copy_file", &copy, text);
    check_denied(
        "{deny: ['tool(delete_*)']}",
        "delete_file",
        &json!({"path": source_path("a.txt")}),
        "`deny: tool(delete_*)`",
    );
}

#[test]
fn names_below_a_directory_are_asked_about_one_by_one() {
    let secret = "{deny: ['read_file(secrets/**)', 'write_file(*.lock)']}";
    let grep = json!({"path": source_path(""), "pattern": "CANARY|plain"});
    let found = call(secret, "grep_files", &grep);
    assert_eq!(found.code(), Some(0));
    assert!(found.stdout().contains("plain"), "{}", found.stdout());
    assert!(!found.stdout().contains("CANARY"), "{}", found.stdout());
    assert!(call("{}", "grep_files", &grep).stdout().contains("CANARY"));
    let tree = call(secret, "directory_tree", &json!({"path": source_path("")}));
    assert!(!tree.stdout().contains("key"), "{}", tree.stdout());
    let copy = json!({"source_base_path": source_path(""), "destination_base_path": "copy"});
    let copied = call(secret, "copy_files_batch", &copy);
    let _copied = copied
        .has_file(".massgen/workspaces/ann_00000000/copy/a.txt", "plain\n")
        .has_no(".massgen/workspaces/ann_00000000/copy/x.lock")
        .has_no(".massgen/workspaces/ann_00000000/copy/secrets/key");
    let delete = json!({"base_path": source_path("")});
    let deleted = call(secret, "delete_files_batch", &delete);
    let _deleted = deleted
        .has_no("src/a.txt")
        .has_file("src/x.lock", "locked\n")
        .has_file("src/deep/y.lock", "locked\n")
        .has_file("src/secrets/key", "CANARY\n");
    let whole = call(secret, "delete_file", &json!({"path": source_path("deep")}));
    assert_ne!(whole.code(), Some(0), "{}", whole.stdout());
    let _whole = whole.has_file("src/deep/y.lock", "locked\n");
    let moved = json!({"source": source_path("deep"), "destination": source_path("other")});
    let moved = call(secret, "move_file", &moved);
    assert_ne!(moved.code(), Some(0), "{}", moved.stdout());
    let _moved = moved.has_file("src/deep/y.lock", "locked\n");
}

#[test]
fn no_link_and_no_absolute_path_leads_past_a_rule() {
    let secret = "{deny: ['read_file(secrets/**)']}";
    let linked = || {
        let project = project(secret)
            .link("src/way", "secrets")
            .link("src/file", "secrets/key");
        project.link("src/plain", "a.txt")
    };
    for path in ["way/key", "file", "deep/../secrets/key", "./secrets//key"] {
        let read = call_in(
            linked(),
            "read_text_file",
            &json!({"path": source_path(path)}),
        );
        assert_eq!(read.code(), Some(4), "{path}: {}", read.stdout());
    }
    let read = call_in(
        linked(),
        "read_text_file",
        &json!({"path": source_path("plain")}),
    );
    assert_eq!(read.code(), Some(0), "{}", read.stdout());
    let absolute = project("{}");
    let root = absolute.path("src");
    symlink(&root, absolute.path("linked")).unwrap();
    let through = absolute.path("linked").join("secrets");
    let permissions = format!("{{deny: ['read_file({})']}}", through.display());
    let config = fs::read_to_string(absolute.path("team.yaml")).unwrap();
    let config = config.replace("permissions: {}", &format!("permissions: {permissions}"));
    let absolute = absolute.file("team.yaml", config);
    let read = call_in(
        absolute,
        "read_text_file",
        &json!({"path": source_path("secrets/key")}),
    );
    assert_eq!(read.code(), Some(4), "{}", read.stdout());
}

#[test]
fn rules_about_commands_apply_to_commands() {
    let push = "{deny: ['command(git push *)']}";
    let text = "`deny: command(git push *)`";
    for line in [
        "git push origin",
        "bash -c 'git push'",
        "env X=1 git -C . push",
        "true; git push",
    ] {
        let refused = call(push, "execute_command", &json!({"command": line}));
        assert_eq!(refused.code(), Some(4), "{line}: {}", refused.stdout());
        assert!(refused.stdout().contains(text), "{}", refused.stdout());
    }
    let unread = call(
        push,
        "execute_command",
        &json!({"command": "echo 'unclosed"}),
    );
    assert_eq!(unread.code(), Some(4), "{}", unread.stdout());
    let other = call(
        push,
        "execute_command",
        &json!({"command": "echo git push"}),
    );
    assert_eq!(other.code(), Some(0), "{}", other.stdout());
}

/// Runs a shell script in the project, whose agent has these `permissions`, in a level.
fn shell(level: SandboxLevel, permissions: &str, script: &str) -> FinishedCommand {
    let project = project(permissions).file(".massgen/workspaces/ann_00000000/own.lock", "own\n");
    let arguments = json!({"command": script});
    let args = [
        "tool",
        "execute_command",
        "--config",
        "team.yaml",
        "--phase",
        "final",
    ];
    project
        .args(args)
        .args([
            "--sandbox",
            &level.to_string(),
            "--args",
            &arguments.to_string(),
        ])
        .run()
}

#[test]
fn rules_about_paths_apply_to_commands() {
    let closed = "{deny: ['read_file(secrets/**)', 'read_file(*.pem)', 'write_file(*.lock)']}";
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ] {
        if !is_supported(level) {
            println!("skipped: this machine has no level {level}");
            continue;
        }
        let read = "cd ../../../src; cat secrets/key; cat a.txt; ls secrets";
        let held = shell(level, closed, read);
        assert!(
            held.stdout().contains("plain"),
            "{level}: {}",
            held.stdout()
        );
        assert!(
            !held.stdout().contains("CANARY"),
            "{level}: {}",
            held.stdout()
        );
        let free = shell(level, "{}", read);
        assert!(
            free.stdout().contains("CANARY"),
            "{level}: {}",
            free.stdout()
        );
        let script = "echo x >> own.lock; echo x > new.txt; cat new.txt";
        let own = shell(level, closed, script);
        let _own = own
            .has_file(
                ".massgen/workspaces/ann_00000000/own.lock",
                if level == SandboxLevel::Landlock {
                    "own\nx\n"
                } else {
                    "own\n"
                },
            )
            .has_file(".massgen/workspaces/ann_00000000/new.txt", "x\n");
    }
    for level in [SandboxLevel::Overlay, SandboxLevel::Namespaces] {
        if !is_supported(level) {
            println!("skipped: this machine has no level {level}");
            continue;
        }
        let script =
            "cd ../../../src; echo x > x.lock; rm -f deep/y.lock; echo x > n.lock; echo x > a.txt";
        let _held = shell(level, closed, script)
            .has_file("src/x.lock", "locked\n")
            .has_file("src/deep/y.lock", "locked\n")
            .has_no("src/n.lock")
            .has_file("src/a.txt", "x\n");
        let _free = shell(level, "{}", script)
            .has_file("src/x.lock", "x\n")
            .has_no("src/deep/y.lock")
            .has_file("src/n.lock", "x\n");
    }
}

#[test]
fn globs_close_what_they_find_to_commands() {
    let closed = "{deny: ['read_file(*.pem)']}";
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ] {
        if !is_supported(level) {
            println!("skipped: this machine has no level {level}");
            continue;
        }
        let read = |permissions: &str| {
            let project = project(permissions).file("src/deep/k.pem", "CANARY\n");
            let arguments = json!({"command": "cat ../../../src/deep/k.pem ../../../src/a.txt"});
            let args = [
                "tool",
                "execute_command",
                "--config",
                "team.yaml",
                "--sandbox",
            ];
            let project = project.args(args).args([level.to_string()]);
            project.args(["--args", &arguments.to_string()]).run()
        };
        let held = read(closed);
        assert!(
            held.stdout().contains("plain"),
            "{level}: {}",
            held.stdout()
        );
        assert!(
            !held.stdout().contains("CANARY"),
            "{level}: {}",
            held.stdout()
        );
        assert!(read("{}").stdout().contains("CANARY"), "{level}");
    }
}

#[test]
fn examples_in_a_config_are_checked() {
    let check = |permissions: &str, code: i32, expected: &str| {
        let checked = project(permissions)
            .args(["config", "check", "team.yaml"])
            .failure(code);
        assert!(checked.stdout().contains(expected), "{}", checked.stdout());
    };
    let rules = "deny: ['write_file(src/x.lock)'], ask: ['command(git push *)']";
    let good = "examples: [{write_file(src/x.lock): deny}, {write_file(src/y): allow}, {command(git push): ask}]";
    check(&format!("{{{rules}, {good}}}"), 0, "0 errors");
    let wrong = "examples: [{write_file(src/x.lock): allow}]";
    let text = "`write_file(src/x.lock)` is deny, but the example expects allow";
    check(&format!("{{{rules}, {wrong}}}"), 2, text);
    check("{examples: [{git push: deny}]}", 2, "invalid call");
    check(
        "{examples: [{tool(x): no}]}",
        2,
        "expected `deny`, `ask` or `allow`",
    );
    check("{deny: ['git push']}", 2, "invalid rule");
    let pages = "deny: ['read_url(.evil.org)'], ask: ['fetch_url(a.org/x*)'], examples: [{read_url(b.evil.org/y): deny}, {'read_url(https://a.org/x)': ask}, {read_url(a.org): allow}]";
    check(&format!("{{{pages}}}"), 0, "team.yaml: ok");
    check("{deny: ['read_url(a b)']}", 2, "expected a domain");
    check("{enabled: false, deny: ['nonsense']}", 0, "");
    check("{role: read-only}", 0, "team.yaml: ok");
    let by_role = "role: read-only, examples: [{write_file(x): deny}, {command(ls): deny}, {tool(execute_code): deny}, {read_file(x): allow}]";
    check(&format!("{{{by_role}}}"), 0, "team.yaml: ok");
    for role in ["read-only", "researcher"] {
        let lifted =
            "allow: [write_file, command], examples: [{write_file(x): deny}, {command(ls): deny}]";
        check(&format!("{{role: {role}, {lifted}}}"), 0, "team.yaml: ok");
        let servers = "examples: [{mcp(s/t): allow}]";
        check(&format!("{{role: {role}, {servers}}}"), 0, "team.yaml: ok");
    }
    for role in ["read-write", "implementer"] {
        let open = "examples: [{write_file(x): allow}, {command(ls): allow}]";
        check(&format!("{{role: {role}, {open}}}"), 0, "");
    }
    check("{role: read-only-ish}", 2, "`role` is");
    check("{mode: plan}", 2, "would restrict the run");
    check("{approval: always}", 2, "would restrict the run");
    check("{audit: true}", 0, "`audit` is not supported");
}

#[test]
fn a_role_that_reads_closes_the_workspace_unless_its_section_is_off() {
    let new_file = json!({"path": "new.txt", "content": "x"});
    let denied = call("{role: read-only}", "write_file", &new_file);
    assert_eq!(denied.code(), Some(4), "{}", denied.stdout());
    assert!(
        denied.stdout().contains("`permissions` denies it"),
        "{}",
        denied.stdout()
    );
    for open in ["{role: read-only, enabled: false}", "{role: read-write}"] {
        let done = call(open, "write_file", &new_file);
        assert_eq!(done.code(), Some(0), "{}", done.stdout());
    }
}

#[test]
fn explain_names_the_rule_that_applies() {
    let permissions = "{deny: ['write_file(*.lock)', 'command(git push *)'], ask: ['write_file(deep/**)', 'command(make *)']}";
    let explain = |arguments: &[&str], code: i32| {
        let finished = project(permissions)
            .args(["explain"])
            .args(arguments)
            .failure(code);
        finished.stdout().to_owned()
    };
    let config = [
        "--config",
        "team.yaml",
        "--agent",
        "ann",
        "--phase",
        "final",
    ];
    let path = |path: &str| explain(&[&["path", path], config.as_slice()].concat(), 0);
    let lock = path("src/x.lock");
    assert!(
        lock.contains(
            "write deny  permissions-deny: `permissions` denies it: `deny: write_file(*.lock)`"
        ),
        "{lock}"
    );
    let deep = path("src/deep/a");
    assert!(deep.contains("write ask   permissions-ask"), "{deep}");
    let command =
        |line: &str, code: i32| explain(&[&["command", line], config.as_slice()].concat(), code);
    let push = command("git push", 4);
    assert!(push.contains("`deny: command(git push *)`"), "{push}");
    let make = command("make all", 0);
    assert!(make.contains("`ask: command(make *)`"), "{make}");
    let calls = project(permissions).args(["explain", "calls", "--config", "team.yaml"]);
    let input = [
        json!({"tool": "write_file", "args": {"path": source_path("x.lock"), "content": ""}, "phase": "final"}),
        json!({"tool": "write_file", "args": {"path": source_path("deep/a"), "content": ""}, "phase": "final"}),
        json!({"tool": "write_file", "args": {"path": source_path("a.txt"), "content": ""}, "phase": "final"}),
        json!({"tool": "execute_command", "args": {"command": "git push"}}),
        json!({"tool": "execute_command", "args": {"command": "make"}}),
    ];
    let input: Vec<String> = input.iter().map(ToString::to_string).collect();
    let answered = calls.stdin(input.join("\n")).success();
    let decisions: Vec<Value> = answered
        .stdout()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["decision"].clone())
        .collect();
    assert_eq!(decisions, ["deny", "ask", "allow", "deny", "ask"]);
}

#[test]
fn a_run_tells_the_model_which_rule_denies() {
    let replies = r#"
- calls: [{name: write_file, arguments: {path: own.lock, content: x}}]
- when: {last: "`deny: write_file(*.lock)`"}
  calls: [{name: new_answer, arguments: {content: done}}]
- {text: done, repeat: true}
"#;
    let config = team(
        &[agent("a", "cwd: w", replies)],
        "permissions: {deny: ['write_file(*.lock)']}\norchestrator: {skip_coordination_rounds: true}",
    );
    // The file is not in a path of the user's, so the run has not failed.
    let finished = Project::new().config(&config).args(["task"]).success();
    assert!(
        finished.stderr().contains("denied"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn links_that_are_swapped_lead_past_no_rule() {
    let disk = Disk::new();
    disk.file("ws/open/f", "plain");
    disk.file("ws/closed/f", "CANARY");
    disk.link("ws/x", "$ROOT/ws/closed");
    let base = AbsPath::new(disk.path("ws")).unwrap();
    let denied = parse_rule(RuleAction::Deny, "read_file(closed/**)", None).unwrap();
    let grants: Vec<Grant> = disk.grants();
    let grants = apply_path_rules(grants, &CallRules::new(vec![denied]), &base).unwrap();
    let gate = disk.gate_with(grants, Phase::Coordination);
    let _exchange = NameExchange::of(disk.path("ws/open"), disk.path("ws/x"));
    let began = Instant::now();
    let (mut read, mut refused) = (0, 0);
    while began.elapsed() < Duration::from_millis(500) || read == 0 || refused == 0 {
        assert!(began.elapsed() < Duration::from_mins(2), "{read} {refused}");
        let answer = call_tool(&gate, "read_text_file", &json!({"path": "open/f"}));
        match answer {
            Ok(observation) if observation.content.contains("plain") => read += 1,
            Ok(observation) => {
                assert!(
                    !observation.content.contains("CANARY"),
                    "{}",
                    observation.content
                );
                refused += 1;
            }
            Err(_) => refused += 1,
        }
    }
}

/// Returns the first block of `docs/rules.md` in this language.
fn documented_block(language: &str) -> &'static str {
    blocks(include_str!("../../docs/rules.md"), language)[0]
}

/// Returns whether a process listens on a Unix socket: for a moment, one is only bound.
fn is_listening(socket: &Path) -> bool {
    // The fourth field has the flag of sockets that accept connections; see `proc_net_unix(5)`.
    const ACCEPTS_CONNECTIONS: &str = "00010000";
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let mut sockets = sockets.lines().map(str::split_whitespace);
    sockets.any(|mut fields| {
        fields.nth(3) == Some(ACCEPTS_CONNECTIONS) && fields.next_back() == socket.to_str()
    })
}

#[test]
fn the_program_of_the_documentation_answers() {
    let replies = "
- calls: [{name: write_file, arguments: {path: a.txt, content: one}}]
- calls: [{name: create_directory, arguments: {path: d}}]
- calls: [{name: new_answer, arguments: {content: done}}]
- {text: done, repeat: true}
";
    let config = team(
        &[agent("a", "cwd: w", replies)],
        "permissions: {ask: [write_file(a.txt), tool(create_directory)]}\norchestrator: {skip_coordination_rounds: true}",
    );
    let project = Project::new()
        .config(&config)
        .home_file("ask.py", documented_block("python"));
    let socket = project.home("ask.sock");
    let mut program = Command::new("python3");
    program.arg(project.home("ask.py")).arg(&socket);
    let mut program = program.spawn().expect("Python is installed");
    wait_until("the program listens", Duration::from_mins(2), || {
        is_listening(&socket)
    });
    let arguments = ["task", "--approval-socket", socket.to_str().unwrap()];
    let finished = project.args(arguments).run();
    program.kill().unwrap();
    program.wait().unwrap();
    let err = finished.stderr();
    assert!(err.contains("may use write_file (once)"), "{err}");
    assert!(err.contains("may not use create_directory (no)"), "{err}");
}
