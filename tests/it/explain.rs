//! `massgen explain` and `massgen tool`: the same gate as in a run, for people and scripts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::project::Project;

const GRANTS: &str =
    r#"{"workspace": "ws", "context_paths": [{"path": "src", "permission": "write"}]}"#;
const TEAM: &str = "
agents:
  - id: ann
    backend: {type: scripted, replies: [], cwd: ann}
  - id: bob
    backend: {type: scripted, replies: [], cwd: bob}
orchestrator:
  context_paths: [{path: src, permission: write}]
";

fn project() -> Project {
    let project = Project::new()
        .dir("ws")
        .file("src/a.txt", "a")
        .file("src/.env", "KEY=1");
    project.file("grants.json", GRANTS).file("team.yaml", TEAM)
}

/// Checks that a call ends with this status, and returns what was printed.
#[track_caller]
fn run_tool(name: &str, arguments: &Value, phase: &str, code: i32) -> Value {
    let args = [
        "tool",
        name,
        "--grants",
        "grants.json",
        "--phase",
        phase,
        "--args",
    ];
    let project = project().args(args).args([arguments.to_string()]);
    let finished = project.failure(code);
    serde_json::from_str(finished.stdout()).unwrap()
}

#[test]
fn a_single_call_is_carried_out_or_denied() {
    let write_arguments = |path: &str| json!({"path": path, "content": "new"});
    let source = |project: &str| format!("../src/{project}");
    let done = run_tool("write_file", &write_arguments("new.txt"), "coordination", 0);
    assert_eq!(
        (&done["ok"], &done["decision"], &done["exit"]),
        (&json!(true), &json!("allow"), &Value::Null)
    );
    let early = run_tool(
        "write_file",
        &write_arguments(&source("a.txt")),
        "coordination",
        4,
    );
    assert_eq!(
        (&early["ok"], &early["decision"]),
        (&json!(false), &json!("deny"))
    );
    let _in_time = run_tool("write_file", &write_arguments(&source("a.txt")), "final", 0);
    let _protected = run_tool("write_file", &write_arguments(&source(".env")), "final", 4);
    let _unknown = run_tool("format_disk", &json!({}), "final", 4);
    let malformed = run_tool("write_file", &json!({"path": "new.txt"}), "final", 2);
    assert_eq!(
        (&malformed["ok"], &malformed["decision"]),
        (&json!(false), &json!("invalid"))
    );
    let missing = run_tool("read_text_file", &json!({"path": "gone.txt"}), "final", 1);
    assert_eq!(
        (&missing["ok"], &missing["decision"]),
        (&json!(false), &json!("allow"))
    );
}

#[test]
fn what_a_closed_path_leads_to_is_closed_too() {
    let team = TEAM.replace(
        "permission: write",
        "permission: write, protected_paths: [tools], hidden_paths: [vault]",
    );
    let grants = GRANTS.replace(r#""write""#, r#""write", "protected_paths": ["tools"]"#);
    let by_config: &[&str] = &["--config", "team.yaml", "--agent", "ann"];
    let by_grants: &[&str] = &["--grants", "grants.json"];
    for (source, name, path, code) in [
        (by_config, "write_file", "impl/verify.py", 4),
        (by_config, "write_file", "other/verify.py", 0),
        (by_config, "read_text_file", "impl/verify.py", 0),
        (by_config, "read_text_file", "real/key", 4),
        (by_config, "move_file", "hop", 4),
        (by_config, "move_file", "loose", 0),
        (by_grants, "write_file", "impl/verify.py", 4),
        (by_grants, "write_file", "other/verify.py", 0),
    ] {
        let project = project()
            .file("src/impl/verify.py", "1")
            .file("src/other/verify.py", "1")
            .file("src/real/key", "1")
            .file("grants.json", &grants)
            .file("team.yaml", &team)
            .link("src/tools", "impl")
            .link("src/vault", "hop")
            .link("src/hop", "other/../real")
            .link("src/loose", "other");
        let place = project.path("src").join(path);
        let arguments = match name {
            "write_file" => json!({"path": place, "content": "2"}),
            "move_file" => json!({"source": place, "destination": project.path("src/moved")}),
            _ => json!({"path": place}),
        };
        let call = ["tool", name, "--phase", "final", "--args"];
        let finished = project
            .args(call)
            .args([arguments.to_string()])
            .args(source);
        let _finished = finished.failure(code);
    }
}

#[test]
fn a_working_tree_opens_the_repository_that_names_it() {
    let worktree = "main/.git/worktrees/tree";
    let submodule = "[core]\n\tbare = false\n\tworktree = ../../src\n[user]\n";
    for (git_file, listed, config, hidden, name, code) in [
        (worktree, "src/.git", "", "", "read_text_file", 0),
        (worktree, "src/.git", "", "", "write_file", 4),
        (worktree, "other/.git", "", "", "read_text_file", 4),
        (
            worktree,
            "src/.git",
            "",
            "read_file(src/.git/**)",
            "read_text_file",
            4,
        ),
        ("main/.git", "", submodule, "", "read_text_file", 0),
        (
            "main/.git",
            "",
            "[core]\n[a]\n\tworktree = ../../src\n",
            "",
            "read_text_file",
            4,
        ),
        ("gone/.git", "", "", "", "read_text_file", 4),
    ] {
        let project = project()
            .dir("main/.git/objects")
            .dir("other")
            .file("main/.git/HEAD", "ref: refs/heads/main\n")
            .file("main/.git/config", config)
            .file("main/.git/worktrees/tree/commondir", "../..\n");
        let place = |path: &str| project.path(path).display().to_string();
        let rules = match hidden {
            "" => json!([]),
            rule => json!([rule]),
        };
        let grants = json!({
            "context_paths": [{"path": "src", "permission": "write"}],
            "permissions": {"deny": rules},
        });
        let (listed, git_file) = (place(listed), place(git_file));
        let mut arguments = json!({"path": place("main/.git/HEAD")});
        if name == "write_file" {
            arguments["content"] = json!("x");
        }
        let finished = project
            .file("main/.git/worktrees/tree/gitdir", format!("{listed}\n"))
            .file("src/.git", format!("gitdir: {git_file}\n"))
            .file("grants.json", grants.to_string())
            .args(["tool", name, "--grants", "grants.json", "--phase", "final"])
            .args(["--args".to_owned(), arguments.to_string()]);
        let _finished = finished.failure(code);
    }
}

#[test]
fn a_repository_around_its_working_tree_stays_closed() {
    for (repository, file, code) in [
        ("apart/", "notes.txt", 0),
        ("apart/", "other/notes.txt", 4),
        ("", "notes.txt", 4),
    ] {
        let project = project().dir("src");
        let worktree = format!("{repository}worktrees/tree");
        let other = format!("{repository}worktrees/other/gitdir");
        let other_git_file = project.path(format!("{repository}other/.git"));
        let git_file = format!("gitdir: {}\n", project.path(&worktree).display());
        let listed = project.path("src/.git").display().to_string();
        let notes = format!("{repository}{file}");
        let call = json!({"path": project.path(&notes)}).to_string();
        let grants = json!({"context_paths": [{"path": "src", "permission": "read"}]});
        let finished = project
            .dir(&format!("{repository}objects"))
            .file(&format!("{repository}HEAD"), "ref: refs/heads/main\n")
            .file(&notes, "")
            .file(&format!("{worktree}/commondir"), "../..\n")
            .file(&format!("{worktree}/gitdir"), listed)
            .file(&other, other_git_file.display().to_string())
            .dir(&format!("{repository}other"))
            .file("src/.git", git_file)
            .file("grants.json", grants.to_string())
            .args([
                "tool",
                "read_text_file",
                "--grants",
                "grants.json",
                "--args",
            ])
            .args([call]);
        let _finished = finished.failure(code);
    }
}

#[test]
fn a_rule_about_a_symlink_applies_to_what_it_leads_to() {
    for (rule, code) in [
        ("read_file(private/**)", 4),
        ("read_file(private/k.txt)", 4),
        ("read_file(private/other/**)", 0),
        ("read_file(other/**)", 0),
    ] {
        let grants = json!({
            "context_paths": [{"path": "src", "permission": "read"}],
            "permissions": {"deny": [rule]},
        });
        let project = project()
            .file("src/data/x/k.txt", "k")
            .file("grants.json", grants.to_string())
            .link("src/private", "data/x");
        let path = project.path("src/data/x/k.txt");
        let call = [
            "tool",
            "read_text_file",
            "--grants",
            "grants.json",
            "--args",
        ];
        let finished = project.args(call).args([json!({"path": path}).to_string()]);
        let _finished = finished.failure(code);
    }
}

#[test]
fn arguments_come_from_standard_input_when_asked_for() {
    let arguments = [
        "tool",
        "write_file",
        "--grants",
        "grants.json",
        "--args",
        "-",
    ];
    let call = r#"{"path": "b.txt", "content": "from input"}"#;
    let _finished = project()
        .args(arguments)
        .stdin(call)
        .success()
        .has_file("ws/b.txt", "from input");
}

#[test]
fn single_calls_of_an_agent_share_its_workspace() {
    let arguments = ["tool", "write_file", "--config", "team.yaml", "--args"];
    let call = r#"{"path": "n.txt", "content": "n"}"#;
    let finished = project()
        .args(arguments)
        .args([call, "--agent", "bob"])
        .success();
    assert!(
        finished
            .project()
            .path(".massgen/workspaces/bob_00000000/n.txt")
            .exists()
    );
    let nobody = project().args(arguments).args([call]).failure(2);
    assert_eq!(
        nobody.stderr(),
        "error: `--agent` is missing, and there are several agents\n\
         hint: agents: ann, bob\n"
    );
    let stranger = project()
        .args(arguments)
        .args([call, "--agent", "eve"])
        .failure(2);
    assert!(stranger.stderr().starts_with("error: no agent `eve`\n"));
}

#[test]
fn a_command_line_is_explained_by_its_commands() {
    let arguments = ["explain", "command", "timeout 5 ls; sudo id", "--json"];
    let finished = Project::new().args(arguments).failure(4);
    let report: Value = serde_json::from_str(finished.stdout()).unwrap();
    let commands = report["commands"].as_array().unwrap();
    let texts: Vec<&str> = commands
        .iter()
        .map(|found| found["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["timeout 5 ls", "ls", "sudo id", "id"]);
    assert_eq!(commands[1]["reached"], json!(["through `timeout`"]));
    assert_eq!(commands[2]["checks"][0]["rule"], "becomes-root");
    assert_eq!(commands[2]["checks"][0]["outcome"], "refuse");
    assert_eq!(
        (&report["decision"], &report["holds"]),
        (&json!("deny"), &Value::Null)
    );
    let arguments = ["explain", "command", "echo sudo"];
    let allowed = Project::new().args(arguments).success();
    assert!(
        allowed
            .stdout()
            .starts_with("the agent, coordination phase: allow\n")
    );
}

#[test]
fn a_command_line_is_explained_with_what_would_hold_it() {
    let team = "
agent:
  id: ann
  backend:
    type: scripted
    replies: []
    cwd: ann
    enable_mcp_command_line: true
    command_line_sandbox: off
    command_line_allowed_commands: ['ls.*']
    command_line_limits: {memory: 1g, timeout: 7}
orchestrator:
  context_paths: [{path: src, permission: write}]
";
    let explained = |line: &str, phase: &str, code| {
        let project = project().file("run.yaml", team);
        let arguments = [
            "explain", "command", line, "--config", "run.yaml", "--phase", phase, "--json",
        ];
        let finished = project.args(arguments).failure(code);
        let report: Value = serde_json::from_str(finished.stdout()).unwrap();
        report
    };
    let open = |report: &Value| {
        let open = report["holds"]["open"].as_array().unwrap().iter();
        let open = open.map(|open| {
            let path = open["path"].as_str().unwrap();
            format!(
                "{} {}",
                open["permission"].as_str().unwrap(),
                path.rsplit('/').next().unwrap()
            )
        });
        open.collect::<Vec<String>>()
    };
    let early = explained("ls -l", "coordination", 0);
    assert_eq!(early["decision"], "allow");
    assert_eq!(
        open(&early),
        ["read 00000000", "write ann_00000000", "read src"]
    );
    assert_eq!(early["holds"]["memory_bytes"], 1_u64 << 30);
    assert_eq!(early["holds"]["timeout_seconds"], 7);
    // Nothing restricts the network: the sandbox is off.
    assert_eq!(early["holds"]["network"], json!(["on"]));
    let late = explained("ls | sort", "final", 4);
    assert_eq!(
        open(&late),
        ["read 00000000", "write ann_00000000", "write src"]
    );
    assert_eq!(late["decision"], "deny");
    let refused = &late["commands"][1]["checks"];
    let last = refused.as_array().unwrap().last().unwrap();
    assert_eq!(last["rule"], "allowed-commands");
    assert_eq!(last["reason"], "the config allows only `ls.*`");
}

#[test]
fn explaining_a_command_makes_and_tries_nothing() {
    let team = |keys: &str| {
        format!(
            "agent:\n  id: ann\n  backend:\n    type: scripted\n    replies: []\n    cwd: ann\n    \
             enable_mcp_command_line: true\n    {keys}\norchestrator:\n  \
             context_paths: [{{path: src, permission: write}}]\n"
        )
    };
    let explained = |keys: &str| {
        let project = project().dir("tmp").file("run.yaml", team(keys));
        let tmp = project.path("tmp");
        // There is no engine: asking one would fail.
        let project = project.env("TMPDIR", &tmp).env(
            "DOCKER_HOST",
            format!("unix://{}", tmp.join("no.sock").display()),
        );
        let root = project.path("");
        let before = tree(&root);
        let arguments = [
            "explain", "command", "make", "--config", "run.yaml", "--phase", "final",
        ];
        let finished = project.args(arguments).args(["--json"]).success();
        assert_eq!(tree(&root), before, "{keys}");
        let report: Value = serde_json::from_str(finished.stdout()).unwrap();
        assert_eq!(report["decision"], "allow", "{keys}");
        report["holds"]["by"].clone()
    };
    let docker = "command_line_execution_mode: docker";
    let image = "massgen/mcp-runtime:latest";
    assert_eq!(
        explained(docker),
        json!({"kind": "container", "image": image})
    );
    let only = "command_line_sandbox: namespaces";
    assert_eq!(
        explained(only),
        json!({"kind": "sandbox", "level": "namespaces"})
    );
    let any = "command_line_sandbox: auto";
    assert_eq!(explained(any), json!({"kind": "sandbox", "level": null}));
}

/// Returns all paths below a directory, with their mtimes.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (i64, i64)> {
    let meta = fs::metadata(dir).unwrap();
    let mut found = BTreeMap::from([(dir.to_owned(), (meta.ctime(), meta.ctime_nsec()))]);
    if meta.is_dir() {
        for entry in fs::read_dir(dir).unwrap() {
            found.extend(tree(&entry.unwrap().path()));
        }
    }
    found
}

#[test]
fn calls_are_answered_line_by_line() {
    let calls = [
        json!({"tool": "read_text_file", "args": {"path": "x"}}).to_string(),
        "no JSON".to_owned(),
        json!({"tool": "write_file", "args": {"path": "../src/a.txt", "content": ""}}).to_string(),
        json!({"tool": "write_file", "args": {"path": "../src/a.txt", "content": ""}, "phase": "final"})
            .to_string(),
        json!({"tool": "read_text_file", "args": {"path": "/etc/passwd"}}).to_string(),
    ];
    let arguments = ["explain", "calls", "--grants", "grants.json"];
    let finished = project().args(arguments).stdin(calls.join("\n")).success();
    let decisions: Vec<String> = finished
        .stdout()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|answer| format!("{} {}", answer["decision"], answer["rule"]))
        .collect();
    assert_eq!(
        decisions,
        [
            r#""allow" "granted""#,
            "null null",
            r#""deny" "coordination-phase""#,
            r#""allow" "granted""#,
            r#""deny" "outside-grants""#,
        ]
    );
}

#[test]
fn a_link_is_judged_by_where_it_leads() {
    let arguments = ["explain", "calls", "--grants", "grants.json"];
    let read = |path: &str| json!({"tool": "read_text_file", "args": {"path": path}}).to_string();
    let calls = [read("../src/inside"), read("../src/outside")].join("\n");
    let project = project()
        .link("src/inside", "a.txt")
        .link("src/outside", "/etc/passwd");
    let finished = project.args(arguments).stdin(calls).success();
    let rules: Vec<Value> = finished
        .stdout()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["rule"].clone())
        .collect();
    assert_eq!(rules, ["granted", "outside-grants"]);
}

#[test]
fn the_grant_that_decides_is_named_however_a_path_is_spelled() {
    const TREES: &str = "
agents: [{id: ann, backend: {type: scripted, replies: [], cwd: ann}}]
orchestrator:
  context_paths:
    - {path: src, permission: write}
    - {path: src/vendor, permission: read}
    - {path: src/open, permission: write}
";
    let check = |path: &str, access: &str, expected: &[&str]| {
        let arguments = [
            "explain",
            "path",
            path,
            "--config",
            "team.yaml",
            "--phase",
            "final",
        ];
        let project = project()
            .file("src/vendor/v.txt", "v")
            .file("src/VENDOR/v.txt", "v")
            .file("src/OPEN/o.txt", "o")
            .dir("src/open")
            .link("link", "src/vendor/v.txt")
            .file("team.yaml", TREES);
        let finished = project.args(arguments).success();
        let mut lines = finished.stdout().lines();
        let line = lines
            .find(|line| line.trim_start().starts_with(access))
            .unwrap_or_default();
        for part in expected {
            let found = finished.stdout().contains(part);
            assert!(
                found && line.contains(expected[0]),
                "{path}: {}",
                finished.stdout()
            );
        }
        finished.stdout().to_owned()
    };
    let denied = "deny  granted-permission";
    let inner = "set `permission: write` on context `[PROJECT]/src/vendor`";
    check("src/vendor/v.txt", "write", &[denied, inner]);
    check("src/VENDOR/v.txt", "write", &[denied, inner]);
    check("link", "write", &[denied, inner]);
    let shown = check(
        "src/VENDOR/v.txt",
        "read",
        &["allow granted: granted by context `[PROJECT]/src`"],
    );
    assert!(
        shown.contains("and by context `[PROJECT]/src/vendor`, which must"),
        "{shown}"
    );
    let shown = check(
        "src/OPEN/o.txt",
        "write",
        &["allow granted: granted by context `[PROJECT]/src`"],
    );
    assert!(
        shown.contains("and by context `[PROJECT]/src/open`"),
        "{shown}"
    );
    check("src/open/../VENDOR/v.txt", "write", &[denied, inner]);
    // The control: another name is the outer tree's alone.
    let shown = check(
        "src/a.txt",
        "write",
        &["allow granted: granted by context `[PROJECT]/src`"],
    );
    assert!(!shown.contains("so does"), "{shown}");
}

#[test]
fn a_path_is_explained_for_every_agent_and_nothing_is_written() {
    let arguments = [
        "explain",
        "path",
        "src/.env",
        "--config",
        "team.yaml",
        "--agent",
        "ann",
    ];
    let finished = project()
        .args(arguments)
        .args(["--phase", "final"])
        .success()
        .has_no(".massgen");
    insta::assert_snapshot!(finished.stdout(), @r"
    [PROJECT]/src/.env
    ann, final phase:
      read  deny  hidden-path: the path is hidden from agents
                  to change this: it is hidden by default: list `.env` in `unprotected` of context `[PROJECT]/src`, or open the file by itself
      write deny  hidden-path: the path is hidden from agents
                  to change this: it is hidden by default: list `.env` in `unprotected` of context `[PROJECT]/src`, or open the file by itself
    ");
    let arguments = ["explain", "path", "/etc/hosts", "--config", "team.yaml"];
    let finished = project().args(arguments).success();
    let reason = "deny  outside-grants: not inside any path that is open to the agent\n";
    assert!(finished.stdout().contains(reason), "{}", finished.stdout());
    let arguments = ["explain", "path", "src/a.txt", "--config", "team.yaml"];
    let finished = project().args(arguments).args(["--agent", "ann"]).success();
    assert_eq!(
        finished.stdout().matches("[PROJECT]/src/a.txt\n").count(),
        1
    );
    let arguments = [
        "explain",
        "path",
        "src/a.txt",
        "--config",
        "team.yaml",
        "--json",
    ];
    let finished = project().args(arguments).success();
    let rows: Vec<Value> = serde_json::from_str(finished.stdout()).unwrap();
    let write = |row: &Value| {
        format!(
            "{} {} {}",
            row["agent"], row["phase"], row["write"]["decision"]
        )
    };
    assert_eq!(
        rows.iter().map(write).collect::<Vec<_>>(),
        [
            r#""ann" "attempt" "allow""#,
            r#""ann" "final" "allow""#,
            r#""bob" "attempt" "allow""#,
            r#""bob" "final" "allow""#,
        ]
    );
    let legacy = TEAM.replace("tor:", "tor:\n  coordination: {write_mode: legacy}");
    let legacy = project().file("team.yaml", legacy).args(arguments);
    let rows: Vec<Value> = serde_json::from_str(legacy.success().stdout()).unwrap();
    assert_eq!(write(&rows[0]), r#""ann" "coordination" "deny""#);
}

#[test]
fn grants_that_cannot_be_opened_are_named() {
    let arguments = ["explain", "calls", "--grants"];
    let missing = project().args(arguments).args(["gone.json"]).failure(2);
    assert!(
        missing
            .stderr()
            .starts_with("error: grants file `gone.json` does not exist\n")
    );
    let grants = r#"{"workspace": "nowhere"}"#;
    let bad = project()
        .file("bad.json", grants)
        .args(arguments)
        .args(["bad.json"])
        .failure(2);
    assert!(bad.stderr().contains("`nowhere`"), "{}", bad.stderr());
}
