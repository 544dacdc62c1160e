//! Sessions of several turns: what the next turn knows, has and may use, and what is done with whole
//! sessions.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::project::{Finished, Project};
use crate::scripted_team::{agent, team};

/// The turns of a session about a small project, newest first: the agent looks at a file and answers,
/// and writes what it may write when it presents. Where it is denied, nothing fits its script.
const TURNS: &str = r#"
- when: {system: "the final agent", last: "Raise"}
  calls: [{name: read_text_file, arguments: {path: "{{cwd}}/src/main.py"}}]
- when: {system: "the final agent", last: "print(1)"}
  calls: [{name: write_file, arguments: {path: "{{cwd}}/src/main.py", content: "print(2)\n"}}]
- when: {system: "the final agent", last: "Also update"}
  calls: [{name: read_text_file, arguments: {path: "{{cwd}}/docs/README.md"}}]
- when: {system: "the final agent", last: "old"}
  calls: [{name: write_file, arguments: {path: "{{cwd}}/docs/README.md", content: "updated\n"}}]
- when: {system: "the final agent", last: "Fix the bug"}
  calls: [{name: read_text_file, arguments: {path: "{{cwd}}/tests/test_main.py"}}]
- when: {system: "the final agent", last: "def test"}
  calls: [{name: write_file, arguments: {path: "{{cwd}}/tests/test_main.py", content: "fixed\n"}}]
- when: {system: "the final agent"}
  text: "presented"
- when: {last: "</task>", lacks: nothing}
  calls: [{name: read_text_file, arguments: {path: "{{cwd}}/src/main.py"}}]
- when: {last: "print(1)"}
  calls: [{name: new_answer, arguments: {content: "I have read it."}}]
"#;

/// A project with one agent that follows [`TURNS`].
pub(crate) fn project() -> Project {
    Project::new()
        .config(&team(&[agent("a", "cwd: w", TURNS)], ""))
        .file("src/main.py", "print(1)\n")
        .file("tests/test_main.py", "def test(): pass\n")
        .file("docs/README.md", "old\n")
}

/// The directories of the sessions of a project.
fn sessions(project: &Project) -> Vec<PathBuf> {
    let dir = fs::read_dir(project.path(".massgen/sessions"));
    let entries = dir.into_iter().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// The turns of the only session, as scripts read them.
fn turns(finished: Finished) -> (Finished, Vec<Value>) {
    let shown = finished.then(["sessions", "show", "--json"]).success();
    let lines = shown.stdout().lines();
    let turns = lines.map(|line| serde_json::from_str(line).unwrap());
    let turns = turns.collect();
    (shown, turns)
}

/// What is open after the last turn: `turn permission name`.
#[track_caller]
fn check_opened(finished: Finished, expected: &[&str]) -> Finished {
    let (finished, turns) = turns(finished);
    let opened = turns.last().unwrap()["opened"].as_array().unwrap();
    let lines: Vec<String> = opened
        .iter()
        .map(|opened| {
            let path = opened["path"].as_str().unwrap();
            let name = path.rsplit('/').next().unwrap();
            format!(
                "{} {} {name}",
                opened["turn"],
                opened["permission"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(lines, expected);
    finished
}

#[test]
fn paths_accumulate_over_the_turns_of_a_session() {
    let finished = project().args(["Review @src/main.py"]).success();
    let finished = check_opened(finished, &["1 read main.py"]);
    let finished = finished
        .then(["--continue", "Now check @tests/test_main.py:w too"])
        .success();
    let opened = ["1 read main.py", "2 write test_main.py"];
    let finished = check_opened(finished, &opened);
    let finished = finished.then(["--continue", "Fix the bug"]).success();
    let finished = finished.has_file("tests/test_main.py", "fixed\n");
    let finished = check_opened(finished, &opened);
    let finished = finished
        .then(["--continue", "Also update @docs/README.md:w"])
        .success();
    let finished = finished
        .has_file("docs/README.md", "updated\n")
        .has_file("src/main.py", "print(1)\n");
    let opened = [&opened[..], &["4 write README.md"]].concat();
    let finished = check_opened(finished, &opened);
    let finished = finished
        .then(["--continue", "Raise @src/main.py:w"])
        .success();
    let finished = finished.has_file("src/main.py", "print(2)\n");
    let opened = [
        "5 write main.py",
        "2 write test_main.py",
        "4 write README.md",
    ];
    let finished = check_opened(finished, &opened);
    assert_eq!(sessions(finished.project()).len(), 1);
}

/// What an agent does that only makes a file: `name` with this content, and `text` as its answer.
fn makes(name: &str, content: &str, text: &str) -> String {
    format!(
        r#"
- when: {{last: "</task>"}}
  calls: [{{name: write_file, arguments: {{path: "{name}", content: "{content}"}}}}]
- calls: [{{name: new_answer, arguments: {{content: "{text}"}}}}]
"#
    )
}

/// A project whose first turn is over: its agent made `made.txt` and answered `red`.
fn after_one_turn() -> Finished {
    let makes = makes("made.txt", "one", "red, see made.txt");
    let config = team(&[agent("a", "cwd: w", &makes)], "");
    Project::new().config(&config).args(["Choose"]).success()
}

/// The project with another team.
fn with_team(finished: &Finished, replies: &str) {
    let config = team(&[agent("a", "cwd: w", replies)], "");
    fs::write(finished.project().path(".massgen/config.yaml"), config).unwrap();
}

#[test]
fn the_next_turn_knows_the_last_one_and_begins_with_its_files() {
    let finished = after_one_turn();
    let earlier = sessions(finished.project())[0].join("turn_1/workspace/made.txt");
    let earlier = earlier.display();
    let looks = format!(
        r#"
- when: {{last: "red, see made.txt", contains: "<task>\nAgain\n</task>"}}
  calls:
    - {{name: read_text_file, arguments: {{path: made.txt}}}}
    - {{name: read_text_file, arguments: {{path: "{earlier}"}}}}
    - {{name: write_file, arguments: {{path: made.txt, content: two}}}}
    - {{name: write_file, arguments: {{path: "{earlier}", content: two}}}}
- when: {{last: "denied"}}
  calls: [{{name: new_answer, arguments: {{content: "green"}}}}]
"#
    );
    with_team(&finished, &looks);
    let finished = finished.then(["--continue", "Again"]).success();
    assert_eq!(finished.stdout(), "green\n");
    let session = &sessions(finished.project())[0];
    let content = |path: &str| fs::read_to_string(session.join(path)).unwrap();
    assert_eq!(content("turn_1/workspace/made.txt"), "one");
    assert_eq!(content("turn_2/workspace/made.txt"), "two");
    assert_eq!(content("turn_2/answer.txt"), "green");
    let summary = content("SESSION_SUMMARY.txt");
    assert!(
        summary.contains("Turn 1\n") && summary.contains("Turn 2\n"),
        "{summary}"
    );
    let logs = finished.project().path(".massgen/massgen_logs");
    let logs = fs::read_dir(logs).unwrap().map(|log| log.unwrap().path());
    assert!(
        logs.into_iter()
            .any(|log| log.join("turn_2/events.jsonl").exists())
    );
    let replayed = finished.then(["replay", "last"]).success();
    assert!(
        replayed.stdout().starts_with("same: "),
        "{}",
        replayed.stdout()
    );
}

#[test]
fn a_new_run_knows_nothing_of_sessions() {
    let finished = after_one_turn();
    with_team(&finished, &makes("other.txt", "one", "blue"));
    let finished = finished.then(["Choose again"]).success();
    assert_eq!(sessions(finished.project()).len(), 2);
    let looks =
        "- when: {contains: \"red, see\"}\n  calls: [{name: new_answer, arguments: {content: x}}]";
    with_team(&finished, looks);
    let finished = finished.then(["And again"]).failure(1);
    assert!(
        finished.stderr().contains("waits for `contains: red, see`"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn a_dry_run_shows_what_the_next_turn_would_be_told() {
    let finished = after_one_turn();
    let shown = finished
        .then(["--continue", "--dry-run", "Again"])
        .success();
    assert!(shown.stdout().contains("red, see "), "{}", shown.stdout());
    assert!(
        shown.stdout().contains("(previous_turn)"),
        "{}",
        shown.stdout()
    );
    assert_eq!(sessions(shown.project()).len(), 1);
}

#[test]
fn what_lies_elsewhere_is_open_only_if_it_is_mentioned_again() {
    let finished = after_one_turn();
    let elsewhere = finished.project().home("notes.txt");
    fs::write(&elsewhere, "notes").unwrap();
    fs::write(finished.project().path("gone.txt"), "x").unwrap();
    let task = format!("Read @{} and @gone.txt", elsewhere.display());
    with_team(&finished, &makes("a.txt", "one", "blue"));
    let finished = finished.then(["--continue", &task]).success();
    fs::remove_file(finished.project().path("gone.txt")).unwrap();
    let finished = finished.then(["--continue", "Again"]).success();
    let said = finished.stderr();
    assert!(
        said.contains("gone.txt` was opened earlier and is gone"),
        "{said}"
    );
    assert!(
        said.contains("notes.txt` was opened earlier and lies outside"),
        "{said}"
    );
    let finished = check_opened(finished, &[]);
    let again = format!("Read @{}", elsewhere.display());
    let finished = finished.then(["--continue", &again]).success();
    check_opened(finished, &["4 read notes.txt"]);
}

#[test]
fn a_link_in_a_session_leads_nowhere() {
    let finished = after_one_turn();
    let workspace = sessions(finished.project())[0].join("turn_1/workspace");
    let home = finished.project().home("");
    fs::write(home.join("secret.txt"), "CANARY").unwrap();
    fs::rename(&workspace, workspace.with_extension("old")).unwrap();
    symlink(&home, &workspace).unwrap();
    let secret = workspace.join("secret.txt");
    let looks = format!(
        r#"
- when: {{last: "</task>"}}
  calls: [{{name: read_text_file, arguments: {{path: "{}"}}}}]
- when: {{last: "denied"}}
  calls: [{{name: new_answer, arguments: {{content: "denied"}}}}]
"#,
        secret.display()
    );
    with_team(&finished, &looks);
    let finished = finished.then(["--continue", "Again"]).success();
    assert_eq!(finished.stdout(), "denied\n");
    let answer = sessions(finished.project())[0].join("turn_1/answer.txt");
    fs::remove_file(&answer).unwrap();
    symlink(home.join("secret.txt"), &answer).unwrap();
    let refused = finished.then(["--continue", "Again"]).failure(3);
    assert!(
        refused.stderr().contains("is a link"),
        "{}",
        refused.stderr()
    );
}

#[test]
fn a_session_is_part_of_one_run_at_a_time() {
    let finished = after_one_turn();
    with_team(&finished, "- delay_ms: 60000\n  text: late");
    let project = finished.then(["--continue", "Wait"]);
    let mut command = project.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut waiting = command.spawn().unwrap();
    let second = sessions(&project)[0].join("turn_2");
    while !second.exists() {
        sleep(Duration::from_millis(10));
    }
    let refused = project.retyped(["--continue", "Wait too"]).failure(3);
    assert!(
        refused.stderr().contains("is in use by another run"),
        "{}",
        refused.stderr()
    );
    assert!(
        refused.stderr().contains("massgen sessions fork"),
        "{}",
        refused.stderr()
    );
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    with_team(&refused, &makes("a.txt", "one", "blue"));
    let finished = refused.then(["--continue", "Now"]).success();
    assert_eq!(finished.stdout(), "blue\n");
}

#[test]
fn a_fork_goes_on_by_itself_and_shares_what_nobody_changes() {
    let finished = after_one_turn();
    let original = sessions(finished.project())[0].clone();
    let forked = finished.then(["sessions", "fork", "last"]).success();
    let id = forked.stdout().trim().to_owned();
    let fork = original.with_file_name(&id);
    let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
    let made = Path::new("turn_1/workspace/made.txt");
    assert_eq!(inode(fork.join(made)), inode(original.join(made)));
    let metadata = fs::read_to_string(fork.join("turn_1/metadata.json")).unwrap();
    assert!(metadata.contains(&id), "{metadata}");
    with_team(&forked, &makes("b.txt", "one", "blue"));
    let finished = forked.then(["--session-id", &id, "Go on"]).success();
    assert!(fork.join("turn_2").exists());
    assert!(!original.join("turn_2").exists());
    let deleted = finished.then(["sessions", "delete", &id]).success();
    assert!(!fork.exists());
    assert_eq!(fs::read_to_string(original.join(made)).unwrap(), "one");
    let listed = deleted.then(["sessions", "list"]).success();
    let lines: Vec<&str> = listed.stdout().lines().collect();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("1 turn  Choose"), "{}", lines[0]);
}

#[test]
fn a_session_is_packed_as_a_whole() {
    let finished = after_one_turn();
    let packed = finished
        .then(["sessions", "export", "last", "-o", "s.tar.gz"])
        .success();
    let archive = packed.project().path("s.tar.gz");
    let listed = std::process::Command::new("tar")
        .arg("-tzf")
        .arg(archive)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in [
        "SESSION_SUMMARY.txt",
        "turn_1/answer.txt",
        "turn_1/workspace/made.txt",
    ] {
        assert!(listed.lines().any(|line| line.ends_with(name)), "{listed}");
    }
}

#[test]
fn a_session_that_is_not_there_is_an_error() {
    let finished = after_one_turn();
    let refused = finished.then(["--session-id", "nope", "Go on"]).failure(2);
    insta::assert_snapshot!(refused.stderr(), @r"
    error: there is no session `nope`
    hint: `massgen sessions list` shows the sessions of this directory
    hint: name a session by its id, the beginning of it, or `last`
    ");
    fs::remove_dir_all(refused.project().path(".massgen/sessions")).unwrap();
    let refused = refused.then(["--continue", "Go on"]).failure(2);
    insta::assert_snapshot!(refused.stderr(), @r"
    error: there is no session in `[PROJECT]/.massgen/sessions`
    hint: `massgen sessions list` shows the sessions of this directory
    hint: name a session by its id, the beginning of it, or `last`
    ");
}
