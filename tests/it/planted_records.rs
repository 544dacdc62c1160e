//! Sessions and runs that came with a project: nothing in them runs, writes or opens anything. What
//! was created in this directory is trusted, and so is what the user imports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::project::{FinishedCommand, Project, copy_tree};
use crate::repetition::{all_or_one, repetitions};
use crate::scripted_team::{FINAL, agent, team};
use crate::sessions::sessions;

/// Part of the error about planted records.
const REFUSED: &str = "it was not created by massgen in this directory";
/// Part of the error without a task: there is no run that could be resumed.
const NOT_BROKEN_OFF: &str = "the session has no interrupted run";

/// Runs a project with these calls to its end, with a config that is named.
fn run_to_end(calls: &str) -> FinishedCommand {
    let replies = format!(
        "- when: {{system: \"{FINAL}\"}}\n  text: presented\n{calls}\
         - calls: [{{name: new_answer, arguments: {{content: done}}}}]\n- text: x\n  repeat: true\n"
    );
    let config = team(&[agent("a", "cwd: w", &replies)], "");
    Project::new()
        .config(&config)
        .file("notes.txt", "of the project\n")
        .args(["task"])
        .success()
}

/// Formats a call in a reply as YAML.
fn call(tool: &str, arguments: &Value) -> String {
    format!("- calls: [{{name: {tool}, arguments: {arguments}}}]\n")
}

/// Returns a project that has the state of `finished` but did not create it. `forge` changes the
/// content of its files with this name; paths are adapted to the new project.
fn plant_record(
    finished: &FinishedCommand,
    name: &str,
    forge: impl Fn(&Project, &str) -> String,
) -> Project {
    let project = Project::new().file("notes.txt", "of the project\n");
    copy_tree(&finished.project().path(".massgen"), &project.path(""));
    for file in find_files(&project.path(".massgen"), name) {
        let old = finished.project().path("").display().to_string();
        let new = project.path("").display().to_string();
        let text = fs::read_to_string(&file).unwrap().replace(&old, &new);
        fs::write(&file, forge(&project, &text)).unwrap();
    }
    project
}

/// Returns the files with this name below `dir`.
fn find_files(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut find = Command::new("find");
    let found = find
        .arg(dir)
        .args(["-name", name, "-type", "f"])
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(!found.is_empty(), "no {name}");
    found.lines().map(PathBuf::from).collect()
}

/// Leaves the content unchanged.
fn unchanged(_: &Project, text: &str) -> String {
    text.to_owned()
}

/// Adds keys to the backend of a recorded team.
fn with_keys(text: &str, keys: &[String]) -> String {
    let backend: Vec<&str> = ["type: scripted"]
        .into_iter()
        .chain(keys.iter().map(String::as_str))
        .collect();
    text.replace("type: scripted", &backend.join("\n      "))
}

/// A forgery: its name, and the backend keys that would run a command which must not run.
type Forgery = (&'static str, fn(&str) -> Vec<String>);

#[test]
fn replaying_a_planted_run_starts_no_program() {
    let sprung = |project: &Project| project.home("sprung").display().to_string();
    let touch = |project: &Project| format!("touch {}", sprung(project));
    let forgeries: [Forgery; 4] = [
        ("commands", |_| {
            vec![
                "enable_mcp_command_line: true".to_owned(),
                "command_line_sandbox: 'off'".to_owned(),
            ]
        }),
        ("a server", |touch| {
            let arguments = format!("args: [-c, '{touch}; sleep 1']");
            vec![format!(
                "mcp_servers: [{{name: x, command: /bin/sh, {arguments}}}]"
            )]
        }),
        ("a program as agent", |touch| {
            vec![format!("command: [/bin/sh, -c, '{touch}']")]
        }),
        ("programs of the model", |_| {
            vec!["enable_code_based_tools: true".to_owned()]
        }),
    ];
    let replies = |project: &Project| call("execute_command", &json!({"command": touch(project)}));
    for (forgery, keys) in forgeries {
        let run = run_to_end("");
        let project = plant_record(&run, "replay.yaml", |project, text| {
            with_keys(text, &keys(&touch(project)))
        });
        for file in find_files(&project.path(".massgen"), "a.yaml") {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(file, text + &replies(&project)).unwrap();
        }
        let finished = project.args(["replay", "last"]).run();
        let stderr = finished.stderr();
        assert!(
            !finished.project().home("sprung").exists(),
            "{forgery}\n{stderr}"
        );
        assert_ne!(finished.code(), Some(0), "{forgery}\n{stderr}");
        assert!(
            stderr.contains("the team in `replay.yaml`") || stderr.contains("recorded team"),
            "{stderr}"
        );
    }
    // Control: a run that massgen wrote can be replayed elsewhere too.
    let run = run_to_end("");
    let project = plant_record(&run, "replay.yaml", unchanged);
    let finished = project.args(["replay", "last"]).success();
    assert!(
        finished.stdout().starts_with("same: "),
        "{}",
        finished.stdout()
    );
}

#[test]
fn replaying_a_planted_run_opens_and_writes_no_path() {
    let opening = |path: &Path| {
        let opened =
            json!([{"path": path, "permission": "write", "turn": 1, "is_confirmed": false}]);
        move |text: &str| text.replace("opened: []", &format!("opened: {opened}"))
    };
    let outside = "is outside the current directory";
    let run = run_to_end("");
    let project = plant_record(&run, "replay.yaml", |project, text| {
        opening(&project.home(""))(text)
    });
    let finished = project.args(["replay", "last"]).run();
    assert!(finished.stderr().contains(outside), "{}", finished.stderr());

    // What the record opens in the project is readable, and does not change.
    let final_write = |project: &Project| {
        let arguments = json!({"path": project.path("new.txt"), "content": "planted"});
        format!("- {{\"calls\":[{{\"name\":\"write_file\",\"arguments\":{arguments}}}]}}\n")
    };
    let run = run_to_end("");
    let project = plant_record(&run, "replay.yaml", |project, text| {
        opening(&project.path(""))(text)
    });
    for file in find_files(&project.path(".massgen"), "a.yaml") {
        let text = fs::read_to_string(&file).unwrap();
        let (head, last) = text.trim_end().rsplit_once('\n').unwrap();
        fs::write(file, format!("{head}\n{}{last}\n", final_write(&project))).unwrap();
    }
    let finished = project.args(["replay", "last"]).run();
    assert!(
        !finished.stderr().contains(outside),
        "{}",
        finished.stderr()
    );
    let _kept = finished
        .has_no("new.txt")
        .has_file("notes.txt", "of the project\n");
}

/// Makes a session open the whole project for writing.
fn opening_all(project: &Project, text: &str) -> String {
    let mut metadata: Value = serde_json::from_str(text).unwrap();
    metadata["opened"] = json!([{"path": project.path(""), "permission": "write", "turn": 1, "is_confirmed": false}]);
    metadata.to_string()
}

/// Returns a config whose agent writes `new.txt` into the project, if it may.
fn writing_process(project: &Project) -> String {
    let arguments = json!({"path": project.path("new.txt"), "content": "new"});
    let replies = format!(
        "- when: {{last: \"<task>\"}}\n  \
         calls: [{{name: write_file, arguments: {arguments}}}]\n\
         - calls: [{{name: new_answer, arguments: {{content: done}}}}]\n  repeat: true\n"
    );
    team(&[agent("a", "cwd: w", &replies)], "")
}

/// Adds the config of [`writing_process`] to `project` and names it `own.yaml`.
fn with_writer(project: Project) -> Project {
    let config = writing_process(&project);
    project.file("own.yaml", config)
}

#[test]
fn a_planted_session_is_not_continued() {
    let run = run_to_end("");
    let mut project = with_writer(plant_record(&run, "metadata.json", opening_all));
    let id = sessions(&project)[0]
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    for arguments in [
        &["--continue", "--config", "own.yaml", "go on"][..],
        &["--session-id", &id, "--config", "own.yaml", "go on"],
        &["sessions", "resume", &id],
        &["sessions", "fork", &id],
    ] {
        let finished = project.retyped(arguments.iter().copied()).run();
        assert_ne!(finished.code(), Some(0), "{arguments:?}");
        let stderr = finished.stderr();
        assert!(
            stderr.contains(REFUSED) || stderr.contains(NOT_BROKEN_OFF),
            "{arguments:?}\n{}",
            finished.stderr()
        );
        project = finished.has_no("new.txt").then([""]);
    }
    // The last session is the last one that was created here.
    let own = ["--config", "own.yaml", "task"];
    let finished = project.retyped(own).success();
    let newest = sessions(finished.project());
    assert_eq!(newest.len(), 2);
    let planted = finished.project().path(".massgen/sessions").join(&id);
    let later = fs::read_to_string(planted.join("turn_1/metadata.json")).unwrap();
    let later = later.replace("\"20", "\"29");
    fs::write(planted.join("turn_1/metadata.json"), later).unwrap();
    let go_on = ["--continue", "--config", "own.yaml", "go on"];
    let finished = finished.then(go_on).success().has_no("new.txt");
    // Control: what the user mentions stays open in their own session.
    let mention = ["--continue", "--config", "own.yaml", "go on with @.:w"];
    let finished = finished.then(mention).success().has_file("new.txt", "new");
    fs::remove_file(finished.project().path("new.txt")).unwrap();
    let _open = finished.then(go_on).success().has_file("new.txt", "new");
}

#[test]
fn an_imported_session_opens_no_path() {
    let run = run_to_end("");
    let project = with_writer(plant_record(&run, "metadata.json", opening_all));
    let pack = ["sessions", "export", "last", "-o", "s.tar.gz"];
    let packed = project.args(pack).success();
    let taken = packed.then(["sessions", "import", "s.tar.gz"]).success();
    let id = taken.stdout().trim().to_owned();
    let go_on = ["--session-id", &id, "--config", "own.yaml", "go on"];
    let finished = taken.then(go_on).success();
    let finished = finished.has_no("new.txt");
    // Control: a forked one opens what the original did.
    let mention = [
        "--session-id",
        &id,
        "--config",
        "own.yaml",
        "go on with @.:w",
    ];
    let finished = finished.then(mention).success().has_file("new.txt", "new");
    fs::remove_file(finished.project().path("new.txt")).unwrap();
    let forked = finished.then(["sessions", "fork", &id]).success();
    let id = forked.stdout().trim().to_owned();
    let go_on = ["--session-id", &id, "--config", "own.yaml", "go on"];
    let _open = forked.then(go_on).success().has_file("new.txt", "new");
}

#[test]
fn a_planted_interrupted_run_is_not_resumed() {
    let run = run_to_end("");
    let project = with_writer(plant_record(&run, "execution_metadata.yaml", |_, text| {
        text.replace("cli_args:\n", "cli_args:\n- --cwd-context\n- rw\n")
    }));
    for file in find_files(&project.path(".massgen"), "status.json") {
        let status = fs::read_to_string(&file).unwrap();
        let status = status.replace("\"is_complete\": true", "\"is_complete\": false");
        assert!(status.contains("\"is_complete\": false"), "{status}");
        fs::write(file, status).unwrap();
    }
    for file in find_files(&project.path(".massgen"), "events.jsonl") {
        let log = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = log.split_inclusive('\n').collect();
        fs::write(file, lines[..lines.len() / 2].concat()).unwrap();
    }
    let finished = project.args(["--continue", "--config", "own.yaml"]).run();
    assert!(
        !finished.stderr().contains("resuming"),
        "{}",
        finished.stderr()
    );
    let stderr = finished.stderr();
    assert!(stderr.contains(NOT_BROKEN_OFF), "{stderr}");
    let _closed = finished.has_no("new.txt");
}

/// Creates something at a path that cannot be read as a file, or is hard to read.
type Obstacle = (&'static str, fn(&Path));

const OBSTACLES: [Obstacle; 6] = [
    ("a pipe", |path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }),
    ("a device", |path| {
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    }),
    ("a directory", |path| fs::create_dir(path).unwrap()),
    ("a file with a hole", |path| {
        let mut truncate = Command::new("truncate");
        assert!(
            truncate
                .args(["-s", "1T"])
                .arg(path)
                .status()
                .unwrap()
                .success()
        );
    }),
    ("deep brackets", |path| {
        fs::write(path, "[".repeat(1 << 20)).unwrap();
    }),
    ("deep braces", |path| {
        fs::write(path, "{\"a\":".repeat(1 << 20)).unwrap();
    }),
];

/// Every file of `.massgen` that a command reads, in the project of [`ended`].
const READ: [&str; 10] = [
    "events.jsonl",
    "status.json",
    "replay.yaml",
    "execution_metadata.yaml",
    "a.yaml",
    "metadata.json",
    "answer.txt",
    "SESSION_SUMMARY.txt",
    "config.yaml",
    "seal.json",
];

#[test]
fn special_files_instead_of_records_do_not_block() {
    let run = run_to_end("");
    let mut commands = 0_usize;
    for (number, name) in READ.iter().enumerate() {
        for (obstacle, make) in all_or_one(&OBSTACLES, number) {
            let mut project = plant_record(&run, "config.yaml", unchanged);
            for file in find_files(&project.path(".massgen"), name) {
                fs::remove_file(&file).unwrap();
                make(&file);
            }
            for arguments in [
                &["logs", "list"][..],
                &["logs", "show", "last"],
                &["replay", "last"],
                &["sessions", "list"],
                &["sessions", "show", "last"],
                &["--continue", "go on"],
                &["undo", "last"],
            ] {
                // The harness kills what takes a minute; a panic is an error.
                let finished = project.retyped(arguments.iter().copied()).run();
                let stderr = finished.stderr();
                assert!(
                    finished.code().is_some(),
                    "{obstacle} as {name}: {arguments:?}\n{stderr}"
                );
                assert!(
                    !stderr.contains("panicked"),
                    "{obstacle} as {name}: {arguments:?}\n{stderr}"
                );
                commands += 1;
                project = finished.then([""]);
            }
        }
    }
    let obstacles = repetitions(1, OBSTACLES.len());
    assert_eq!(commands, obstacles * READ.len() * 7);
}
