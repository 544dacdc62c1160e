//! The user's programs that decide or hold secrets (hooks, and servers and tools with variables or a
//! network): what runs is the user's, whatever agents write, and the data may be the agents'.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use serde_json::{Value, json};

use crate::command_runs::is_supported;
use crate::mcp::{call_results, calls_of};
use crate::project::{FinishedCommand, Project, make_program};
use crate::scripted_team::{agent, answer_replies, team};

/// A server with one tool, which returns what the variable `TOKEN` holds, or the name of its
/// program.
const SERVER: &str = r#"import json, os, sys
ANSWER = "the user's program"
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if number is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "ping", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": ANSWER + " in " + os.getcwd()}]}
    else:
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)
"#;
/// What an agent turns the answer of the server into.
const REWRITE: &str = "sed -i 's/the user.s program/a program of the agent/'";
/// A hook that denies everything.
const HOOK: &str = "import os, sys\nsys.stdin.read()\nsys.exit(2)\n";
/// The same as a shell script.
const SHELL_HOOK: &str = "#!/bin/sh\ncat > /dev/null\nexit 2\n";

/// Returns the path of the project.
fn root(project: &Project) -> String {
    let path = project.path("").display().to_string();
    path.trim_end_matches('/').to_owned()
}

/// Runs an agent that makes `first` calls in the coordination and the others in the final phase, in
/// which it may write to the project. `{{root}}` is replaced by the path of the project.
fn run(
    project: Project,
    (keys, rest): (&str, &str),
    first: &[(&str, Value)],
    last: &[(&str, Value)],
) -> FinishedCommand {
    let answer = ("new_answer", json!({"content": "done"}));
    let coordination = calls_of(&[first, &[answer]].concat());
    let replies = format!(
        "{}- {{text: presented, repeat: true}}\n",
        coordination + &calls_of(last)
    );
    let keys = format!("cwd: w1\nenable_mcp_command_line: true\n{keys}");
    let rest = format!(
        "orchestrator: {{coordination: {{write_mode: legacy}}, context_paths: [{{path: ., permission: write}}]}}\n{rest}"
    );
    let config = team(&[agent("one", &keys, &replies)], &rest);
    let config = config.replace("{{root}}", &root(&project));
    let arguments = ["--config", "team.yaml", "--yes", "task"];
    project.file("team.yaml", config).args(arguments).run()
}

fn command(line: &str) -> (&'static str, Value) {
    ("execute_command", json!({"command": line}))
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": path, "content": content}))
}

/// The levels at which the final agent's commands work on an overlay.
fn levels_with_overlay() -> Vec<SandboxLevel> {
    let mut levels = vec![SandboxLevel::Overlay, SandboxLevel::Namespaces];
    levels.retain(|level| {
        let is_available = is_supported(*level);
        if !is_available {
            println!("skipped: this machine has no level {level}");
        }
        is_available
    });
    levels
}

#[test]
fn no_command_rewrites_a_hook_under_a_protected_name() {
    for level in levels_with_overlay() {
        let hooks = "hooks: {BeforeDelivery: ['python3 .claude/hooks/check.py']}";
        let keys = format!("command_line_sandbox: {level}");
        for change in [
            "true",
            "echo 'import sys; sys.exit(0)' > .claude/hooks/check.py",
            "rm -rf .claude; mkdir -p .claude/hooks; echo > .claude/hooks/check.py",
            "mkdir x; echo > x/check.py; mv .claude/hooks .claude/old; ln -s ../x .claude/hooks",
        ] {
            let line = format!("cd {{{{root}}}} && {change}; echo new > delivered.txt");
            let project = Project::new().file(".claude/hooks/check.py", HOOK);
            let line = line.replace("{{root}}", &root(&project));
            let finished = run(project, (&keys, hooks), &[], &[command(&line)]);
            finished.has_no("delivered.txt");
        }
        // Control: the user's own hook allows the delivery.
        let project = Project::new().file(".claude/hooks/check.py", "");
        let line = format!("echo new > {}/delivered.txt", root(&project));
        let finished = run(project, (&keys, hooks), &[], &[command(&line)]);
        finished.has_file("delivered.txt", "new\n");
    }
}

#[test]
fn a_hook_sees_what_would_be_delivered_and_nothing_else() {
    let script = "cd \"$CLAUDE_PROJECT_DIR\"
cat > /dev/null
{ cat src/new.txt src/old.txt src/tree/inner.txt; ls -d src/gone.txt src/gone src/tree/before.txt
  cat src/file/inner.txt .env node_modules/x.js kept/.env; readlink src/link; } >&2 2> /dev/null
exit 2
";
    let seen = "new changed inner moved user user user new.txt";
    let change = "cd {{root}}/src && echo new > new.txt && echo changed > old.txt && rm gone.txt && \
                  rm -r gone && rm -r tree && mkdir tree && echo inner > tree/inner.txt && \
                  rm file && mkdir file && echo moved > file/inner.txt && ln -s new.txt link; cd .. && echo agent > .env; \
                  echo agent > node_modules/x.js; rm -rf kept; mkdir kept";
    for level in levels_with_overlay() {
        let project = Project::new()
            .file(".massgen/hooks/look.sh", script)
            .file("src/old.txt", "old\n")
            .file("src/gone.txt", "gone\n")
            .file("src/gone/deep/x.txt", "gone\n")
            .file("src/tree/before.txt", "gone\n")
            .file("src/file", "gone\n")
            .file("kept/.env", "user\n")
            .file(".env", "user\n")
            .file("node_modules/x.js", "user\n");
        let hooks = "hooks: {BeforeDelivery: ['sh .massgen/hooks/look.sh']}";
        let keys = format!("command_line_sandbox: {level}");
        let line = change.replace("{{root}}", &root(&project));
        let finished = run(project, (&keys, hooks), &[], &[command(&line)]);
        let stderr = finished.stderr();
        assert!(stderr.contains(&format!(": {seen}\n")), "{level}: {stderr}");
    }
}

#[test]
fn no_agent_writes_what_a_hook_imports() {
    let deny = "import json, sys; json.load(sys.stdin); sys.exit(2)";
    let inline = format!("hooks: {{BeforeDelivery: [\"python3 -c '{deny}'\"]}}");
    let beside = "hooks: {BeforeDelivery: ['python3 .claude/hooks/check.py']}";
    let forged = "import os\nos._exit(0)\n";
    let project = || {
        Project::new()
            .file(
                ".claude/hooks/check.py",
                "import helper, sys\nsys.exit(helper.STATUS)\n",
            )
            .file(".claude/hooks/helper.py", "STATUS = 2\n")
    };
    for (hooks, name) in [(&*inline, "json.py"), (beside, "helper.py")] {
        let project = project();
        let path = format!("{}/{name}", root(&project));
        let finished = run(project, ("", hooks), &[], &[write(&path, forged)]);
        finished.has_no(name);
    }
    // Control: a script imports the modules beside it, where no agent may write.
    let allowing = project().file(".claude/hooks/helper.py", "STATUS = 0\n");
    let path = format!("{}/other.py", root(&allowing));
    let finished = run(allowing, ("", beside), &[], &[write(&path, forged)]);
    finished.has_file("other.py", forged);
}

#[test]
fn programs_are_looked_up_where_no_agent_may_write() {
    let with_bin = |name: &str, text: &str| {
        let project = Project::new().file(&format!("bin/{name}"), text);
        make_program(&project.path(format!("bin/{name}")));
        let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", root(&project));
        project.env("PATH", path)
    };
    let refused = run(
        with_bin("mycheck", SHELL_HOOK),
        ("", "hooks: {BeforeDelivery: [mycheck]}"),
        &[],
        &[],
    );
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr());
    assert!(
        refused.stderr().contains("may write to"),
        "{}",
        refused.stderr()
    );
    // The system's program is started instead of one that an agent may write.
    let hooks = "hooks: {BeforeDelivery: ['grep -q nothing || exit 2']}";
    let project = with_bin("grep", "#!/bin/sh\nexit 0\n");
    let path = format!("{}/delivered.txt", root(&project));
    let finished = run(project, ("", hooks), &[], &[write(&path, "x")]);
    finished.has_no("delivered.txt");
    let tool = |keys: &str| {
        format!(
            "tools: [{{name: count, command: [mytool], description: d, {keys}schema: {{type: object}}}}]"
        )
    };
    let script = "#!/bin/sh\necho counted\n";
    let refused = run(
        with_bin("mytool", script),
        (&tool("env: {A: b}, "), ""),
        &[],
        &[],
    );
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr());
    assert!(
        refused.stderr().contains("may write to"),
        "{}",
        refused.stderr()
    );
    // Control: a program without variables or a network has no more access than the agent.
    let call = ("custom_tool__count", json!({}));
    let finished = run(with_bin("mytool", script), (&tool(""), ""), &[call], &[]);
    assert_eq!(
        call_results(&finished)[0].trim(),
        "counted",
        "{}",
        finished.stderr()
    );
}

#[test]
fn the_search_path_of_a_config_leads_to_no_agent() {
    let run_tool = |directory: &str| {
        let project = Project::new()
            .file("count.sh", "#!/bin/sh\nhelper\n")
            .file(".venv/bin/helper", "#!/bin/sh\necho of the user\n");
        make_program(&project.path("count.sh"));
        make_program(&project.path(".venv/bin/helper"));
        let directory = directory.replace("{root}", &root(&project));
        let tool = format!(
            "tools: [{{name: count, command: [./count.sh], description: d, env: {{PATH: \
             '{directory}:/usr/bin:/bin'}}, schema: {{type: object}}}}]"
        );
        let calls = [
            write("bin/helper", "#!/bin/sh\necho of the agent\n"),
            command("chmod +x bin/helper"),
            ("custom_tool__count", json!({})),
        ];
        call_results(&run(project, (&tool, ""), &calls, &[]))[2].clone()
    };
    for directory in ["bin", "./bin"] {
        let read = run_tool(directory);
        assert!(read.contains("helper: not found"), "{directory}: {read}");
    }
    // Control: no agent writes to a directory with a protected name.
    let read = run_tool("{root}/.venv/bin");
    assert!(read.contains("of the user"), "{read}");
}

/// Runs the server of the file `path` of the project in the final phase, after its agent has
/// rewritten it, and returns what its tool answers.
fn answer_after_rewriting(path: &str, keys: &str) -> String {
    let project = Project::new().file(path, SERVER);
    let file = format!("{}/{path}", root(&project));
    let keys = format!("mcp_servers: [{{name: s, command: python3, args: ['{file}'], {keys}}}]");
    let rewrite = command(&format!("{REWRITE} {file}"));
    let ping = ("mcp__s__ping", json!({}));
    let finished = run(project, (&keys, ""), &[], &[rewrite, ping]);
    let results = call_results(&finished);
    results
        .last()
        .cloned()
        .unwrap_or_else(|| finished.stderr().to_owned())
}

#[test]
fn no_command_rewrites_a_server_with_a_secret_under_a_protected_name() {
    for path in [".venv/srv.py", "node_modules/s/srv.py", "deep/.venv/srv"] {
        let read = answer_after_rewriting(path, "env: {TOKEN: secret}");
        assert!(read.contains("the user's program"), "{path}: {read}");
        // It starts in a directory of its own.
        assert!(!read.contains("workspaces"), "{path}: {read}");
    }
    // Control: without variables and network it is part of what the agent works on.
    let read = answer_after_rewriting(".venv/srv.py", "permission: read");
    assert!(read.contains("a program of the agent"), "{read}");
    assert!(read.contains("workspaces"), "{read}");
}

#[test]
fn a_tool_with_a_secret_runs_nothing_of_the_workspace() {
    let show = |keys: &str| {
        let keys = format!(
            "tools: [{{name: show, command: [sh, -c, '. ./settings; echo $PWD $MASSGEN_WORKSPACE'], \
             description: d, {keys}schema: {{type: object}}}}]"
        );
        let calls = [
            write("settings", "echo agent"),
            ("custom_tool__show", json!({})),
        ];
        let finished = run(Project::new(), (&keys, ""), &calls, &[]);
        call_results(&finished)[1].clone()
    };
    let read = show("env: {A: b}, ");
    assert!(!read.contains("agent\n"), "{read}");
    // Control: without a secret it starts in the workspace.
    let read = show("");
    assert!(
        read.contains("agent\n") && read.contains("workspaces"),
        "{read}"
    );
}

#[test]
fn the_config_of_a_run_is_not_in_a_workspace() {
    for (cwd, code) in [("ws", 2), ("work", 0)] {
        let project = Project::new();
        let keys = format!("cwd: '{}'\n", project.path(cwd).display());
        let finished = project
            .file(
                "ws/team.yaml",
                team(
                    &[agent("one", &keys, &answer_replies("done", "agent1", 0))],
                    "",
                ),
            )
            .args(["--config", "ws/team.yaml", "task"])
            .run();
        let stderr = finished.stderr();
        assert_eq!(finished.code(), Some(code), "{stderr}");
        let is_named = stderr.contains("which this run obeys: it would decide");
        assert_eq!(is_named, code == 2, "{stderr}");
    }
}

#[test]
fn a_workspace_contains_nothing_that_a_context_path_closes() {
    for (closed, code) in [("sub/secret", 2), ("other", 0)] {
        let project = Project::new().file("p/sub/secret", "").file("p/other", "");
        let keys = format!("cwd: '{}'\n", project.path("p/sub").display());
        let paths = format!("[{{path: p, permission: read, hidden_paths: [{closed}]}}]");
        let finished = project
            .file(
                "team.yaml",
                team(
                    &[agent("one", &keys, &answer_replies("done", "agent1", 0))],
                    &format!("orchestrator: {{context_paths: {paths}}}\n"),
                ),
            )
            .args(["--config", "team.yaml", "task"])
            .run();
        let stderr = finished.stderr();
        assert_eq!(finished.code(), Some(code), "{stderr}");
        assert_eq!(
            stderr.contains("which the context path"),
            code == 2,
            "{stderr}"
        );
    }
}

#[test]
fn a_program_with_a_secret_is_not_in_a_workspace() {
    let refused = |keys: &str| {
        let project = Project::new().file("ws/x.js", "").file("ws/tool.cfg", "");
        let keys = format!("mcp_servers: [{{name: s, command: python3, env: {{A: b}}, {keys}}}]\n");
        let config = team(
            &[agent(
                "one",
                &format!("cwd: '{{{{root}}}}/ws'\n{keys}"),
                "- text: done",
            )],
            "",
        );
        let config = config.replace("{{root}}", &root(&project));
        let finished = project
            .file("team.yaml", config)
            .args(["--config", "team.yaml", "task"])
            .run();
        (finished.code(), finished.stderr().to_owned())
    };
    for keys in [
        "args: ['--require={{root}}/ws/x.js']",
        "args: ['{{root}}/ws/tool.cfg']",
        "cwd: '{{root}}/ws'",
        "args: ['--directory', '${cwd}', run]",
        "args: ['--prefix={{root}}/ws']",
        "args: ['-C${cwd}']",
        "args: ['${cwd}']",
    ] {
        let (code, stderr) = refused(keys);
        assert_eq!(code, Some(2), "{keys}: {stderr}");
        assert!(stderr.contains("may write to"), "{keys}: {stderr}");
    }
    // Control: a directory may be data.
    let (_, stderr) = refused("args: [-m, server, '{{root}}/ws']");
    assert!(!stderr.contains("may write to"), "{stderr}");
}

#[test]
fn a_file_that_a_server_with_a_secret_names_is_protected() {
    let rewrite = |secret: &str| {
        let project = Project::new().file("lib/srv", SERVER).file("lib/other", "");
        let path = root(&project);
        let keys = format!(
            "mcp_servers: [{{name: s, command: python3, args: ['-X', 'p={path}/lib/other', \
             '{path}/lib/srv'], {secret}}}]"
        );
        let calls = ["lib/srv", "lib/other"].map(|name| {
            let line = format!("rm -f {path}/{name}; echo agent > {path}/{name}; true");
            command(&line)
        });
        let finished = run(project, (&keys, ""), &[], &calls);
        let read = |name: &str| std::fs::read_to_string(finished.project().path(name)).unwrap();
        [read("lib/srv"), read("lib/other")]
    };
    assert_eq!(rewrite("env: {A: b}"), [SERVER, ""]);
    // Control: a server that has no more access than the agent is part of what it works on.
    assert_eq!(rewrite("permission: read"), ["agent\n", "agent\n"]);
}

#[test]
fn a_script_of_a_program_with_a_secret_is_protected_with_the_way_to_it() {
    const NAMES: [&str; 5] = [
        "count.sh",
        "link.sh",
        "second.sh",
        "missing.sh",
        "directory",
    ];
    let rewritten = |words: &str| {
        let tool = format!(
            "tools: [{{name: count, command: [{words}], description: d, env: {{A: b}}, schema: \
             {{type: object}}}}]"
        );
        let project = Project::new()
            .file("count.sh", SHELL_HOOK)
            .link("link.sh", "second.sh")
            .link("second.sh", "count.sh")
            .link("directory", ".");
        make_program(&project.path("count.sh"));
        let change = |name: &str| {
            let path = format!("{}/{name}", root(&project));
            command(&format!("rm -f {path}; echo agent > {path}; true"))
        };
        let calls = NAMES.map(change);
        let finished = run(project, (&tool, ""), &[], &calls);
        assert_eq!(finished.code(), Some(4), "{words}: {}", finished.stderr());
        let is_rewritten = |name: &&str| {
            let path = finished.project().path(name);
            std::fs::read_to_string(path).is_ok_and(|text| text == "agent\n")
        };
        NAMES.into_iter().filter(is_rewritten).collect::<Vec<_>>()
    };
    for (words, expected) in [
        ("./link.sh", "missing.sh directory"),
        ("./directory/count.sh", "link.sh second.sh missing.sh"),
        ("./missing.sh", "count.sh link.sh second.sh directory"),
        (
            "/bin/sh, ./missing.sh",
            "count.sh link.sh second.sh directory",
        ),
    ] {
        assert_eq!(rewritten(words).join(" "), expected, "{words}");
    }
}
