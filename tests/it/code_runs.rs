//! Runs of agents that work with programs: the requests, the delivery, and missing requirements
//! that are reported before any model is asked.

use std::fs;

use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::openai_wire::{completed_event, stream_answer};
use crate::program_fixture::pandas_environment;
use crate::project::{FinishedCommand, Project, make_program};
use crate::scripted_team::{FINAL, agent, team};

/// Number of files that are edited.
const EDITS: usize = 30;

const PROGRAM: &str = "import workspace_tools\n\nfor n in range(30):\n    edits = [{\"oldText\": \"old\", \"newText\": \"new\"}]\n    \
                       workspace_tools.edit_file(f\"f{n:02}.txt\", edits)\nprint(\"30 edits\")\n";

fn call_reply(id: usize, name: &str, arguments: &Value) -> ScriptedResponse {
    let call = json!({"id": format!("fc_{id}"), "type": "function_call", "call_id": format!("call_{id}"),
        "name": name, "arguments": arguments.to_string()});
    stream_answer(&[completed_event(&json!([call]))])
}

/// Plays a model that edits the files with single calls or with one program, and then answers.
fn play_edits(request: &ReceivedRequest) -> ScriptedResponse {
    let body = request.json();
    let input = body["input"].as_array().unwrap().iter();
    let calls = input.filter(|item| item["type"] == "function_call").count();
    let has_programs = body["tools"].to_string().contains("\"execute_code\"");
    match (has_programs, calls) {
        (true, 0) => call_reply(calls, "execute_code", &json!({"code": PROGRAM})),
        (false, n) if n < EDITS => {
            let edits = [json!({"oldText": "old", "newText": "new"})];
            let path = format!("f{n:02}.txt");
            call_reply(calls, "edit_file", &json!({"path": path, "edits": edits}))
        }
        _ => call_reply(
            calls,
            "new_answer",
            &json!({"content": "all files are new"}),
        ),
    }
}

/// Returns the number of requests of a run whose agent has these keys, and their total size in
/// bytes.
fn count_requests(keys: &str) -> (usize, usize) {
    let endpoint = Endpoint::start_with(play_edits);
    let mut project = Project::new();
    for n in 0..EDITS {
        project = project.file(&format!("work/f{n:02}.txt"), "this is old\n");
    }
    let team = format!(
        "agent:\n  id: one\n  backend: {{type: openai, base_url: \"{}\", model: m, cwd: '{}'{keys}}}\n",
        endpoint.base_url(),
        project.path("work").display()
    );
    let project = project.file("team.yaml", team);
    let finished = project.args(["--config", "team.yaml", "edit"]).success();
    for n in 0..EDITS {
        let path = finished.project().path(format!("work/f{n:02}.txt"));
        assert_eq!(
            fs::read_to_string(path).unwrap(),
            "this is new\n",
            "{}",
            finished.stderr()
        );
    }
    let requests = endpoint.server.requests();
    let bytes = requests.iter().map(|request| request.bytes.len()).sum();
    (requests.len(), bytes)
}

#[test]
fn many_edits_are_one_program() {
    let by_calls = count_requests("");
    let by_programs = count_requests(", enable_code_based_tools: true");
    assert_eq!((by_calls.0, by_programs.0), (EDITS + 1, 2));
    assert!(
        by_programs.1 * 20 < by_calls.1,
        "{by_calls:?} {by_programs:?}"
    );
}

/// Runs one agent that works with programs, with further keys of its own and of the config.
fn run(keys: &str, replies: &str, rest: &str) -> FinishedCommand {
    let keys = format!("cwd: w1\nenable_code_based_tools: true\n{keys}");
    Project::new()
        .file("team.yaml", team(&[agent("one", &keys, replies)], rest))
        .file("src/old.txt", "old\n")
        .file("src/unread.txt", "mine\n")
        .args(["--config", "team.yaml", "build"])
        .run()
}

const WRITE_HERE: &str = "orchestrator:
  skip_coordination_rounds: true
  context_paths: [{path: src, permission: write}]
";

#[test]
fn files_written_by_a_program_are_delivered_and_reported() {
    let replies = format!(
        r#"
- when: {{system: "{FINAL}"}}
  calls:
    - name: execute_code
      arguments:
        code: |
          import workspace_tools as w
          where = "{{{{cwd}}}}/src"
          w.list_allowed_directories()
          w.read_text_file(where + "/old.txt")
          w.write_file(where + "/old.txt", "changed\n")
          w.write_file(where + "/new.txt", "new\n")
          try:
              w.write_file(where + "/unread.txt", "x")
          except w.ToolError as error:
              print(error)
          try:
              w.write_file("/etc/nothing", "x")
          except w.ToolError as error:
              print("refused")
- text: "done"
"#
    );
    let finished = run("", &replies, WRITE_HERE);
    let stderr = finished.stderr().to_owned();
    let finished = finished
        .has_file("src/old.txt", "changed\n")
        .has_file("src/new.txt", "new\n")
        .has_file("src/unread.txt", "mine\n");
    assert_eq!(finished.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("5 calls: list_allowed_directories: done, read_text_file"),
        "{stderr}"
    );
}

#[test]
fn with_programs_single_calls_are_not_offered() {
    let replies = "
- calls: [{name: write_file, arguments: {path: a.txt, content: x}}]
- text: done
";
    let finished = run(
        "",
        replies,
        "orchestrator: {skip_coordination_rounds: true}\n",
    );
    let stderr = finished.stderr();
    assert!(stderr.contains("is denied write_file"), "{stderr}");
}

#[test]
fn a_missing_language_is_an_error_before_any_model_is_asked() {
    let replies = "\n- text: asked\n";
    for (language, remedy) in [("python", "install `python3`"), ("go", "install Go")] {
        let keys = format!("cwd: w1\nenable_code_based_tools: true\ncode_language: {language}");
        // Commands are looked up in the system's directories, whatever `PATH` is; so the tool is
        // hidden by one with the same name that fails.
        let project = Project::new()
            .file("team.yaml", team(&[agent("one", &keys, replies)], ""))
            .file("bin/python3", "#!/bin/sh\necho no python >&2\nexit 1\n")
            .file("bin/go", "#!/bin/sh\necho no go >&2\nexit 1\n");
        let bin = project.path("bin");
        for name in ["python3", "go"] {
            make_program(&bin.join(name));
        }
        let finished = project
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .args(["--config", "team.yaml", "build"])
            .failure(3);
        let stderr = finished.stderr();
        assert!(
            stderr.contains("the programs of `one` cannot be run"),
            "{stderr}"
        );
        assert!(stderr.contains(remedy), "{stderr}");
        assert!(!finished.stdout().contains("asked"));
    }
}

#[test]
fn a_missing_library_is_an_error_before_any_model_is_asked() {
    let tables = pandas_environment();
    for (path, is_there) in [("/usr/bin".into(), false), (tables.join("bin"), true)] {
        let keys = "cwd: w1\nenable_code_based_tools: true\ncode_libraries: pandas";
        let rest = "orchestrator: {skip_coordination_rounds: true}\n";
        let project = Project::new()
            .file(
                "team.yaml",
                team(&[agent("one", keys, "\n- text: asked\n")], rest),
            )
            .env("PATH", format!("{}:/usr/bin:/bin", path.display()))
            .args(["--config", "team.yaml", "build"]);
        if is_there {
            let finished = project.env("VIRTUAL_ENV", &tables).success();
            assert!(finished.stdout().contains("asked"));
            continue;
        }
        let finished = project.failure(3);
        let stderr = finished.stderr();
        assert!(stderr.contains("No module named"), "{stderr}");
        assert!(
            stderr.contains("hint: install `pandas` for the `python3`"),
            "{stderr}"
        );
        assert!(!finished.stdout().contains("asked"));
    }
}

/// Returns the result of a program of an agent with commands, during coordination. `$SRC` will be
/// writable for it in the final phase.
fn run_program(code: &str) -> Value {
    let keys = "cwd: w1\nenable_code_based_tools: true\nenable_mcp_command_line: true";
    let rest = "orchestrator: {context_paths: [{path: src, permission: write}]}\n";
    let config = team(&[agent("one", keys, "- {text: done}")], rest);
    let project = Project::new()
        .file("team.yaml", config)
        .file("src/old.txt", "old\n");
    let code = code.replace("$SRC", project.path("src").to_str().unwrap());
    let arguments = json!({"code": code}).to_string();
    let args = [
        "tool",
        "execute_code",
        "--config",
        "team.yaml",
        "--args",
        &arguments,
    ];
    let ran = project.args(args).run();
    let report: Value = serde_json::from_str(ran.stdout()).unwrap();
    serde_json::from_str(report["output"].as_str().unwrap()).unwrap()
}

#[test]
fn a_command_that_ends_is_a_result_and_is_named() {
    let report = run_program(
        "import json, workspace_tools as w\n\
         came = json.loads(w.execute_command('echo half; exit 3'))\n\
         print(came['exit_code'], came['stdout'])\n\
         w.execute_command('true')\n",
    );
    assert_eq!(report["success"], true, "{report}");
    assert_eq!(report["stdout"], "3 half\n\n", "{report}");
    let calls = [
        "execute_command `echo half; exit 3`: status 3",
        "execute_command `true`: done",
    ];
    assert_eq!(report["calls"], json!(calls), "{report}");
}

#[test]
fn a_program_gets_the_error_of_a_call_without_notes_for_models() {
    let report = run_program(
        "import workspace_tools as w\n\
         for call in [lambda: w.delete_file('nothing.txt'),\n\
         \x20            lambda: w.write_file('$SRC/new.txt', 'x')]:\n\
         \x20   try:\n        call()\n\
         \x20   except w.ToolError as error:\n        print(error)\n",
    );
    let stdout = report["stdout"].as_str().unwrap();
    assert!(!stdout.contains("\"success\""), "{stdout}");
    assert!(stdout.starts_with("cannot "), "{stdout}");
    assert!(
        stdout.contains("read-only until the final phase"),
        "{stdout}"
    );
}
