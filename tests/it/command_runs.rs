//! Whole runs whose agents run commands: what these change in the user's own paths is delivered and
//! told, in each tier that this machine has.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use massgen::confinement::tier::{Tier, TierChoice};
use massgen::path::AbsPath;
use massgen::world::sandbox::Sandbox;
use rustix::process::{Pid, Signal, kill_process};

use crate::project::{Finished, Project, binary};
use crate::runs::status;
use crate::scripted_team::{agent, team};

const WRITE_HERE: &str = "orchestrator:
  skip_coordination_rounds: true
  context_paths: [{path: ., permission: write}]
";

/// Whether this machine can hold commands so.
fn has(tier: Tier) -> bool {
    let place = tempfile::tempdir().unwrap();
    let place = AbsPath::new(place.path()).unwrap();
    let executable = AbsPath::new(binary()).unwrap();
    let sandbox = Sandbox::open(TierChoice::Only(tier), &executable, &place);
    if let Err(error) = &sandbox {
        println!("skipped: {error}");
    }
    sandbox.is_ok()
}

/// A run of one agent that may run commands so; the final phase alone.
fn run(tier: Tier, replies: &str) -> Finished {
    project(tier, replies).run()
}

fn project(tier: Tier, replies: &str) -> Project {
    let keys =
        format!("w1\n      enable_mcp_command_line: true\n      command_line_sandbox: '{tier}'");
    Project::new()
        .config(&team(&[agent("one", &keys, replies)], WRITE_HERE))
        .file("src/old.txt", "old\n")
        .file("src/gone.txt", "gone\n")
        .file("src/same.txt", "same\n")
        .args(["build"])
}

/// What is told of each delivered file, by its name.
fn rows(finished: &Finished) -> BTreeMap<String, String> {
    let status = status(finished);
    let rows = status["results"]["delivered"].as_array().unwrap();
    let row = |row: &serde_json::Value| {
        let path = row["path"].as_str().unwrap();
        let name = path.rsplit('/').next().unwrap().to_owned();
        let hash = match row["sha256"].as_str() {
            Some(hash) => format!(" {} {}", row["bytes"], &hash[..6]),
            None => String::new(),
        };
        (name, format!("{}{hash}", row["outcome"].as_str().unwrap()))
    };
    rows.iter().map(row).collect()
}

#[test]
fn what_commands_changed_in_a_write_path_is_in_the_table() {
    let replies = r#"
- calls:
    - name: execute_command
      arguments:
        command: "cd '{{cwd}}/src' && echo new > new.txt && echo more >> old.txt && rm gone.txt && mkdir .git && echo x > .git/config; cat same.txt"
- text: "done"
"#;
    for tier in [Tier::A, Tier::B, Tier::Off] {
        if !has(tier) {
            continue;
        }
        let finished = run(tier, replies);
        let mut expected = BTreeMap::from([
            ("gone.txt".to_owned(), "deleted".to_owned()),
            ("new.txt".to_owned(), "created 4 7aa7a5".to_owned()),
            ("old.txt".to_owned(), "changed 9 d8c562".to_owned()),
        ]);
        if tier != Tier::Off {
            expected.insert("config".to_owned(), "denied".to_owned());
        }
        assert_eq!(rows(&finished), expected, "tier {tier}");
    }
}

#[test]
fn one_interrupt_ends_a_command_of_the_final_phase() {
    let replies = r#"
- calls:
    - name: execute_command
      arguments:
        command: "touch '{{cwd}}/src/begun' && sleep 3000"
        timeout: 3600
- text: "done"
"#;
    let project = project(Tier::Off, replies);
    let mut massgen = project.command().spawn().unwrap();
    while !project.path("src/begun").exists() {
        assert_eq!(massgen.try_wait().unwrap(), None);
        sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&massgen), Signal::INT).unwrap();
    assert_eq!(massgen.wait().unwrap().code(), Some(130));
}

#[test]
fn a_background_command_has_the_same_rights_and_its_changes_are_told() {
    let replies = r#"
- calls:
    - name: start_background_command
      arguments:
        command: "cd '{{cwd}}/src' && echo late > late.txt && rm gone.txt && cd - && touch begun && sleep 300"
    - name: execute_command
      arguments:
        command: "until [ -e begun ]; do sleep 0.05; done; echo new > '{{cwd}}/src/new.txt'"
- text: "done"
"#;
    for tier in [Tier::A, Tier::B, Tier::Off] {
        if !has(tier) {
            continue;
        }
        let finished = run(tier, replies);
        let expected = BTreeMap::from([
            ("gone.txt".to_owned(), "deleted".to_owned()),
            ("late.txt".to_owned(), "created 5 f15294".to_owned()),
            ("new.txt".to_owned(), "created 4 7aa7a5".to_owned()),
        ]);
        assert_eq!(rows(&finished), expected, "tier {tier}");
        let _changed = finished
            .has_file("src/late.txt", "late\n")
            .has_no("src/gone.txt");
    }
}

#[test]
fn in_tier_c_no_command_writes_to_the_users_paths() {
    let replies = r#"
- calls:
    - name: start_background_command
      arguments: {command: "echo late > '{{cwd}}/src/late.txt'; touch begun"}
    - name: execute_command
      arguments: {command: "until [ -e begun ]; do sleep 0.05; done; echo new > '{{cwd}}/src/new.txt'"}
- text: "done"
"#;
    if !has(Tier::C) {
        return;
    }
    let finished = run(Tier::C, replies);
    let _closed = finished.has_no("src/late.txt").has_no("src/new.txt");
}
