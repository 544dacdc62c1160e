//! Runs whose agents use the user's own tools: Python functions and programs, what they can reach,
//! and files and results that are hostile.

use serde_json::{Value, json};

use crate::docs::blocks;
use crate::http_server::Endpoint;
use crate::mcp::{call_results, calls_of};
use crate::project::{FinishedCommand, Project, events, make_program};
use crate::scripted_team::{FINAL, agent, team};

const PAGE: &str = include_str!("../../docs/custom-tools.md");
/// Functions of every kind, and functions that misbehave.
const TOOLS: &str = include_str!("../servers/custom_tools.py");
/// A program that says what it was given and what it sees.
const PROBE: &str = "#!/bin/sh\nread -r line\necho \"$line\"\nid -un > \"${MASSGEN_WORKSPACE:-.}/written.txt\" && echo wrote\n\
                     cat \"$PROBED\" 2>&1\necho \"token: $TOKEN\"\n[ \"$line\" != '{\"fail\":true}' ] || \
                     { echo it failed >&2; exit 3; }\n";
/// A secret in massgen's environment that no tool may see.
const SECRET: &str = "secret-of-the-user-1";

/// Makes a file of the project executable.
fn with_program(project: Project, path: &str, text: &str) -> Project {
    let project = project.file(path, text);
    make_program(&project.path(path));
    project
}

/// Returns a project whose agent has these keys and makes one of the calls per step.
fn project(keys: &str, calls: &[(&str, Value)], rest: &str) -> Project {
    let replies = format!(
        "- when: {{system: \"{FINAL}\"}}\n  text: presented\n  repeat: true\n{}\
         - calls: [{{name: new_answer, arguments: {{content: done}}}}]\n",
        calls_of(calls)
    );
    let keys = format!("cwd: w1\n{keys}");
    Project::new()
        .file("tools.py", TOOLS)
        .file("team.yaml", team(&[agent("one", &keys, &replies)], rest))
        .env("TOKEN", SECRET)
        .args(["--config", "team.yaml", "task"])
}

/// Runs calls of the functions in `tools.py` and checks that each result contains its text.
#[track_caller]
fn check(keys: &str, calls: &[(&str, Value, &str)]) -> FinishedCommand {
    let functions: Vec<&str> = calls.iter().map(|(tool, ..)| *tool).collect();
    let mut functions: Vec<&str> = functions;
    functions.sort_unstable();
    functions.dedup();
    let keys = format!(
        "custom_tools: [{{path: tools.py, function: [{}]{keys}}}]",
        functions.join(", ")
    );
    let full: Vec<String> = calls
        .iter()
        .map(|(tool, ..)| format!("custom_tool__{tool}"))
        .collect();
    let call_pairs: Vec<(&str, Value)> = full
        .iter()
        .zip(calls)
        .map(|(full, (_, arguments, _))| (full.as_str(), arguments.clone()))
        .collect();
    let finished = project(&keys, &call_pairs, "").success();
    let read = call_results(&finished);
    assert_eq!(read.len(), calls.len(), "{read:#?}\n{}", finished.stderr());
    for (read, (tool, arguments, expected)) in read.iter().zip(calls) {
        assert!(
            read.contains(expected),
            "{tool} {arguments}: {read}\n{expected}"
        );
    }
    finished
}

#[test]
fn the_example_of_the_page_runs() {
    let calls = [
        (
            "custom_tool__convert_length",
            json!({"value": 42.195, "to": "mile"}),
        ),
        (
            "write_file",
            json!({"path": "notes.txt", "content": "a\nb\n"}),
        ),
        ("custom_tool__count_lines", json!({"path": "notes.txt"})),
        ("custom_tool__count_lines", json!({"path": "/etc/passwd"})),
        ("custom_tool__count_lines", json!({})),
        (
            "custom_tool__convert_length",
            json!({"value": 1, "source": "mile"}),
        ),
    ];
    let replies = calls_of(&calls)
        + "- calls: [{name: new_answer, arguments: {content: done}}]\n\
                                      - text: presented\n  repeat: true\n";
    let indented = replies.lines().map(|line| format!("        {line}\n"));
    let replies = indented.collect::<Vec<_>>().concat();
    let config =
        blocks(PAGE, "yaml")[0].replace("type: openai\n      model: gpt-5-mini", "type: scripted");
    let project = Project::new()
        .file("units.py", blocks(PAGE, "python")[0])
        .file("team.yaml", format!("{config}      replies:\n{replies}"));
    let project = with_program(project, "count.sh", blocks(PAGE, "bash")[0]);
    let shown = project
        .args(["--config", "team.yaml", "--dry-run", "task"])
        .success();
    let stdout = shown.stdout();
    assert!(
        stdout.contains("tool: custom_tool__convert_length: `convert` of units.py, read"),
        "{stdout}"
    );
    assert!(
        stdout.contains("tool: custom_tool__count_lines: ./count.sh, read"),
        "{stdout}"
    );
    let finished = shown.then(["--config", "team.yaml", "task"]).success();
    let read = call_results(&finished);
    assert_eq!(read[0], "42.195 km = 26.2188 mile");
    assert_eq!(read[2].trim(), "2");
    assert!(
        read[3].contains("denied") || read[3].contains("outside"),
        "{read:#?}"
    );
    assert_eq!(read[4], "error: `path` is missing");
    assert_eq!(
        read[5],
        "there is no argument `source`; expected `value`, `to`"
    );
}

#[test]
fn functions_of_every_kind_are_called() {
    let finished = check(
        ", preset_args: [{}, {}, {}, {}, {}, {}, {hidden: kept}, {}, {}]",
        &[
            ("add", json!({"x": 1}), "3"),
            ("counted", json!({"n": 3}), "0\n1\n2"),
            (
                "fail",
                json!({"why": "so"}),
                "ValueError: it went wrong: so\n  line ",
            ),
            ("leave", json!({}), "SystemExit: 3"),
            (
                "plain",
                json!({"words": ["a"], "mode": "b"}),
                "\"mode\": \"b\"",
            ),
            ("preset", json!({"shown": "s"}), "s kept"),
            ("pictured", json!({}), "image/png"),
            ("streamed", json!({"n": 2}), "the end"),
            ("told", json!({"question": "who"}), "who one"),
        ],
    );
    let read = call_results(&finished);
    assert!(
        !read[2].contains(&finished.project().path("").display().to_string()),
        "{read:#?}"
    );
    assert!(!read[7].contains("part"), "{read:#?}");
}

#[test]
fn models_read_the_schemas_of_functions_and_programs() {
    let endpoint = Endpoint::start();
    let more = ", cwd: w1, custom_tools: [{path: tools.py, function: [add, plain, preset], \
                description: [Adds., '', ''], preset_args: {hidden: x}, name: [sum, plain, preset]}], \
                tools: [{name: probe, command: 'true', description: Probes., \
                schema: {properties: {n: {type: integer}}}}]";
    let config = format!("agents:\n{}", endpoint.agent("a", "m", more));
    let config = config.replace(
        "preset_args: {hidden: x}",
        "preset_args: [{}, {}, {hidden: x}]",
    );
    let project = Project::new()
        .file("tools.py", TOOLS)
        .file("team.yaml", config);
    let finished = project.args(["--config", "team.yaml", "task"]).success();
    let bodies = endpoint.bodies();
    let offered = bodies["m"][0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["function"]);
    let find = |name: &str| {
        let full = format!("custom_tool__{name}");
        let mut offered = offered.clone();
        let found = offered.find(|tool| tool["name"] == full.as_str());
        found
            .unwrap_or_else(|| panic!("{full}: {}", finished.stderr()))
            .clone()
    };
    let sum = find("sum");
    assert_eq!(sum["description"], "Adds.");
    assert_eq!(
        sum["parameters"],
        json!({"type": "object", "required": ["x"], "properties": {
            "x": {"type": "integer", "description": "The first number"},
            "y": {"type": "integer", "description": "The second number", "default": 2},
        }})
    );
    let plain = find("plain");
    assert_eq!(plain["description"], "Returns a value.\n\nIt is no result.");
    assert_eq!(plain["parameters"]["required"], json!(["words"]));
    let properties = &plain["parameters"]["properties"];
    assert_eq!(
        properties["words"],
        json!({"type": "array", "items": {"type": "string"}})
    );
    assert_eq!(properties["mode"]["enum"], json!(["a", "b"]));
    assert_eq!(
        properties["sizes"]["anyOf"],
        json!([{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "null"}])
    );
    let preset = find("preset");
    assert!(
        preset["parameters"]["properties"].get("hidden").is_none(),
        "{preset}"
    );
    assert_eq!(
        find("probe")["parameters"],
        json!({"type": "object", "properties": {"n": {"type": "integer"}}})
    );
}

/// The control is `the_example_of_the_page_runs`.
#[test]
fn a_found_config_has_no_tools() {
    for keys in [
        "custom_tools: [{path: tools.py, function: add}]",
        "tools: [{name: probe, command: ./probe.sh, description: Probes.}]",
    ] {
        let config = team(&[agent("one", keys, "- text: hello\n")], "");
        let project = Project::new().file("tools.py", TOOLS).config(&config);
        let finished = with_program(project, "probe.sh", PROBE)
            .args(["task"])
            .run();
        let stderr = finished.stderr();
        assert_ne!(finished.code(), Some(0));
        assert!(
            stderr.contains("own program as a tool") && stderr.contains("--config"),
            "{stderr}"
        );
    }
}

#[test]
fn a_tool_reaches_what_its_entry_opens() {
    let outside = Project::new().file("secret.txt", "canary");
    let secret = outside.path("secret.txt").display().to_string();
    let calls = [
        ("custom_tool__reach", json!({})),
        ("custom_tool__probe", json!({})),
        ("custom_tool__probe", json!({"fail": true})),
        ("list_directory", json!({"path": "."})),
    ];
    let run = |more: &str| {
        let keys = format!(
            "custom_tools: [{{path: tools.py, function: reach, preset_args: {{outside: '{secret}'}}{more}}}]\n\
             tools: [{{name: probe, command: tools/probe.sh, description: Probes., \
             schema: {{properties: {{fail: {{type: boolean}}}}}}{more}}}]"
        );
        let probe = PROBE.replace("$PROBED", &secret);
        let finished = with_program(project(&keys, &calls, ""), "tools/probe.sh", &probe).success();
        call_results(&finished)
    };
    let closed = run("");
    let reached: Value = serde_json::from_str(&closed[0]).unwrap_or_else(|_| panic!("{closed:#?}"));
    assert_eq!(
        reached,
        json!({"read": false, "wrote": false, "token": false, "network": false})
    );
    assert!(
        closed[1].starts_with("{}\n") && !closed[1].contains("wrote"),
        "{closed:#?}"
    );
    assert!(closed[1].contains("token: \n"), "{closed:#?}");
    assert!(
        closed[2].contains("status 3\nit failed") || closed[2].contains("status 3"),
        "{closed:#?}"
    );
    assert!(
        closed
            .iter()
            .all(|call_results| !call_results.contains("canary") && !call_results.contains(SECRET))
    );
    let open = run(", permission: write, env: [TOKEN]");
    let reached: Value = serde_json::from_str(&open[0]).unwrap_or_else(|_| panic!("{open:#?}"));
    assert_eq!(
        reached,
        json!({"read": false, "wrote": true, "token": true, "network": false})
    );
    assert!(open[1].contains("wrote"), "{open:#?}");
    assert!(open[3].contains("written.txt"), "{open:#?}");
    assert!(
        open.iter()
            .all(|call_results| !call_results.contains("canary")),
        "{open:#?}"
    );
}

#[test]
fn a_failure_without_a_network_says_what_opens_it() {
    let run = |text: &str, network: &str| {
        let keys = format!(
            "tools: [{{name: fetch, command: tools/fetch.sh, description: Fetches.{network}}}]"
        );
        let program = format!("#!/bin/sh\necho '{text}' >&2\nexit 6\n");
        let calls = [("custom_tool__fetch", json!({}))];
        let project = with_program(project(&keys, &calls, ""), "tools/fetch.sh", &program);
        call_results(&project.success()).remove(0)
    };
    let note = "`network` in its entry of the config";
    let unreachable = "Could not resolve host: example.org";
    let closed = run(unreachable, "");
    assert!(
        closed.contains(unreachable) && closed.contains(note),
        "{closed}"
    );
    let open = run(unreachable, ", network: [example.org]");
    assert!(!open.contains(note), "{open}");
    let other_failure = run("no such line", "");
    assert!(!other_failure.contains(note), "{other_failure}");
}

#[test]
fn what_a_tool_with_variables_starts_finds_nothing_of_the_agent() {
    let calls = [
        (
            "write_file",
            json!({"path": "planted.py", "content": "print('of the agent')"}),
        ),
        ("custom_tool__probe", json!({})),
    ];
    let run = |more: &str| {
        let keys = format!(
            "tools: [{{name: probe, command: tools/probe.sh, description: Probes.{more}}}]"
        );
        let probe = "#!/bin/sh\nread -r line\npython3 -c 'import planted' 2>&1 | tail -1\n";
        let project = with_program(project(&keys, &calls, ""), "tools/probe.sh", probe);
        call_results(&project.success())[1].clone()
    };
    assert!(run("").contains("of the agent"));
    let result = run(", env: [TOKEN]");
    assert!(result.contains("No module named 'planted'"), "{result}");
}

/// An agent that plants a module in its workspace, which is where the host starts, gets it imported
/// in no phase: the host could have variables that the agent has not.
#[test]
fn modules_of_the_workspace_are_not_imported() {
    let planted = "open('planted.txt', 'w').write('x')\nraise SystemExit\n";
    let plant = |name: &str| ("write_file", json!({"path": name, "content": planted}));
    let names = [
        "json.py",
        "asyncio.py",
        "dataclasses.py",
        "massgen.py",
        "sitecustomize.py",
    ];
    let planting: Vec<(&str, Value)> = names.into_iter().map(plant).collect();
    let add = ("custom_tool__add", json!({"x": 1}));
    let list = ("list_directory", json!({"path": "."}));
    let vote = json!({"agent_id": "agent1", "reason": "r"});
    let final_calls = calls_of(&[add.clone(), list.clone()]);
    let final_calls = final_calls.replace(
        "- calls",
        &format!("- when: {{system: \"{FINAL}\"}}\n  calls"),
    );
    let end = format!(
        "- calls: [{{name: new_answer, arguments: {{content: done}}}}]\n\
         - calls: [{{name: vote, arguments: {vote}}}]\n  repeat: true\n"
    );
    let presented = format!("- when: {{system: \"{FINAL}\"}}\n  text: presented\n  repeat: true\n");
    let own = calls_of(&[planting.as_slice(), &[add, list]].concat());
    let one = format!("{final_calls}{presented}{own}{end}");
    let keys = "cwd: w1\ncustom_tools: [{path: tools.py, function: add, permission: write}]";
    let agents = [
        agent("one", keys, &one),
        agent(
            "two",
            "cwd: w2",
            &format!("{presented}{}", end.replace("done", "of two")),
        ),
    ];
    let finished = Project::new()
        .file("tools.py", TOOLS)
        .file("team.yaml", team(&agents, ""))
        .args(["--config", "team.yaml", "task"])
        .success();
    // The calls of the final phase have the same ids as earlier ones.
    let read: Vec<String> = events(&finished, "tool_finished")
        .iter()
        .map(|done| {
            let content = done["content"].as_str().or(done["summary"].as_str());
            content.unwrap_or_default().to_owned()
        })
        .collect();
    assert!(
        read.iter().filter(|read| *read == "3").count() >= 2,
        "{read:#?}"
    );
    assert!(
        read.iter().all(|read| !read.contains("planted.txt")),
        "{read:#?}"
    );
}

/// What a tool writes and returns cannot pass for messages of the protocol or fill the memory.
#[test]
fn results_are_bounded_and_prints_are_not_messages() {
    let finished = check(
        "",
        &[
            ("flood", json!({}), "characters left out"),
            ("forge", json!({}), "the true result"),
            ("surrogate", json!({}), "a?b"),
            ("add", json!({"x": 5}), "7"),
        ],
    );
    let read = call_results(&finished);
    assert!(read.iter().all(|read| read.len() < 400_000));
    assert!(!read[1].contains("forged"), "{}", read[1]);
}

/// The control is `functions_of_every_kind_are_called`.
#[test]
fn a_tool_that_cannot_be_loaded_is_named_and_the_run_continues() {
    let cases = [
        (
            "path: tools.py, function: nothing",
            "tools.py` has no function `nothing`",
        ),
        ("path: none.py, function: absent", "no file `none.py`"),
        ("path: broken.py, function: broken", "SyntaxError"),
        ("path: raising.py, function: raising", "ZeroDivisionError"),
        (
            "path: massgen/tool/_none/none.py, function: packaged",
            "massgen/tool/_none/none.py",
        ),
        ("path: tools.py, function: talks", "it needs `messages`"),
        (
            "path: tools.py, function: add, preset_args: {z: 1}",
            "`preset_args` has `z`",
        ),
    ];
    let entries: Vec<String> = cases
        .iter()
        .map(|(keys, _)| format!("{{{keys}}}"))
        .collect();
    let keys = format!(
        "custom_tools: [{}, {{path: tools.py, function: add, name: kept}}]",
        entries.join(", ")
    );
    let finished = project(&keys, &[("custom_tool__kept", json!({"x": 1}))], "")
        .file("broken.py", "def broken(:\n")
        .file("raising.py", "1 / 0\n")
        .success();
    let stderr = finished.stderr();
    for (_, expected) in cases {
        let mut lines = stderr.lines();
        let named = lines.any(|line| line.contains("is not offered") && line.contains(expected));
        assert!(named, "{expected}\n{stderr}");
    }
    assert_eq!(call_results(&finished), ["3"]);
}

/// The control is `functions_of_every_kind_are_called`.
#[test]
fn a_hostile_file_ends_the_run_before_any_request() {
    let large = "#".repeat(2 * 1024 * 1024);
    for (name, content, expected) in [
        (
            "large.py",
            large.as_bytes(),
            "expected a file of at most 1048576 bytes",
        ),
        ("binary.py", b"\xff\xfe\x00".as_slice(), "is not UTF-8 text"),
    ] {
        let keys = format!("custom_tools: [{{path: {name}, function: add}}]");
        let finished = project(&keys, &[], "").file(name, content).run();
        let stderr = finished.stderr();
        assert_ne!(finished.code(), Some(0), "{stderr}");
        assert!(
            stderr.contains(expected) && stderr.contains("custom_tool__add"),
            "{stderr}"
        );
        assert_eq!(stderr.matches(expected).count(), 1, "{stderr}");
    }
    let keys = "custom_tools: [{path: pipe.py, function: add}]";
    let project = project(keys, &[], "");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        project.path("pipe.py"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let finished = project.run();
    assert_ne!(finished.code(), Some(0), "{}", finished.stderr());
}

#[test]
fn programs_need_no_python_and_functions_say_that_they_do() {
    let program = "tools: [{name: greet, command: [sh, -c, 'read -r line; echo got $line'], \
                   description: Greets., schema: {properties: {to: {enum: [me]}}}}]";
    let calls = [
        ("custom_tool__greet", json!({"to": "me"})),
        ("custom_tool__greet", json!({"to": "you"})),
    ];
    let function = "custom_tools: [{path: tools.py, function: add}]";
    let run = |keys: &str| {
        let project = project(keys, &calls, "");
        let path = format!("{}:/usr/bin:/bin", project.path("bin").display());
        with_program(
            project,
            "bin/python3",
            "#!/bin/sh\necho no python >&2\nexit 127\n",
        )
        .env("PATH", path)
        .run()
    };
    let finished = run(program);
    let read = call_results(&finished);
    assert_eq!(
        read[0].trim(),
        "got {\"to\":\"me\"}",
        "{}",
        finished.stderr()
    );
    assert_eq!(read[1], "error: `to` must be one of \"me\"");
    let finished = run(function);
    let stderr = finished.stderr();
    assert_ne!(finished.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("`custom_tool__add` cannot be used") && stderr.contains("python"),
        "{stderr}"
    );
}

#[test]
fn a_program_that_does_not_exist_is_named_before_it_is_called() {
    let keys = "tools: [{name: gone, command: ./gone.sh, description: d}, \
                {name: here, command: ./here.sh, description: d}]";
    let calls = [("custom_tool__here", json!({}))];
    let script = "#!/bin/sh\necho it is here\n";
    let finished = with_program(project(keys, &calls, ""), "here.sh", script).success();
    let stderr = finished.stderr();
    let named: Vec<&str> = stderr
        .lines()
        .filter(|line| line.contains("there is no program"))
        .collect();
    assert_eq!(named.len(), 1, "{stderr}");
    assert!(
        named[0].contains("calls of `custom_tool__gone` fail: there is no program `./gone.sh`"),
        "{stderr}"
    );
    // Control: the other one is called.
    assert_eq!(call_results(&finished)[0].trim(), "it is here", "{stderr}");
}

#[test]
fn a_module_in_the_workspace_is_not_part_of_a_program() {
    let keys = "tools: [{name: show, command: [/usr/bin/python3, -m, json.tool], description: d, \
                schema: {type: object}}]";
    let shadow = json!({"path": "json.py", "content": "print('SHADOW')"});
    let show = ("custom_tool__show", json!({"a": 1}));
    let calls = [show.clone(), ("write_file", shadow), show];
    let read = call_results(&project(keys, &calls, "").success());
    assert!(read[0].contains("\"a\": 1"), "{read:#?}");
    assert!(
        read[2].contains("\"a\": 1") && !read[2].contains("SHADOW"),
        "{read:#?}"
    );
}

#[test]
fn agents_write_to_no_program_that_has_variables_of_its_own() {
    let run = |tool: &str, path: &str| {
        let rest = format!("orchestrator: {{context_paths: [{path}]}}");
        let project = project(
            &format!("enable_mcp_command_line: true\n{tool}"),
            &[],
            &rest,
        );
        with_program(project, "count.sh", PROBE).run()
    };
    let program = |env: &str| {
        format!(
            "tools: [{{name: count, command: [./count.sh], description: d, {env}schema: {{type: \
             object}}}}]"
        )
    };
    let function = "custom_tools: [{path: tools.py, function: [add], env: {A: b}}]";
    let writable = "{path: ., permission: write}";
    // Python imports from the directory of the file, too.
    let refused = run(function, writable);
    let stderr = refused.stderr();
    assert_eq!(refused.code(), Some(2), "{stderr}");
    for expected in ["which is part of the program of", "protected_paths"] {
        assert!(stderr.contains(expected), "{stderr}");
    }
    let closed = "{path: ., permission: write, protected_paths: [count.sh]}";
    for (tool, path) in [
        (program(""), writable),
        (program("env: {A: b}, "), writable),
        (program("env: {A: b}, "), closed),
        (program("env: {A: b}, "), "{path: .}"),
    ] {
        let finished = run(&tool, path);
        assert_eq!(
            finished.code(),
            Some(0),
            "{tool}, {path}: {}",
            finished.stderr()
        );
    }
}
