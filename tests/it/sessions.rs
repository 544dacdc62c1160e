//! Sessions with several turns: what the next turn knows, has and may use, and operations on whole
//! sessions.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};

/// Replies for the turns of a session about a small project, newest first: the agent reads a file
/// and answers, and writes a file if it may when it presents. After a denial, no reply of its
/// script matches.
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

/// Returns a project with one agent that follows [`TURNS`].
pub(crate) fn project() -> Project {
    Project::new()
        .config(&team(&[agent("a", "cwd: w", TURNS)], ""))
        .file("src/main.py", "print(1)\n")
        .file("tests/test_main.py", "def test(): pass\n")
        .file("docs/README.md", "old\n")
}

/// Returns the directories of the sessions of a project.
pub(crate) fn sessions(project: &Project) -> Vec<PathBuf> {
    let dir = fs::read_dir(project.path(".massgen/sessions"));
    let entries = dir.into_iter().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Returns the turns of the only session, as scripts read them.
fn shown_turns(finished: FinishedCommand) -> (FinishedCommand, Vec<Value>) {
    let shown = finished.then(["sessions", "show", "--json"]).success();
    let lines = shown.stdout().lines();
    let turns = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (shown, turns)
}

/// Checks what is open after the last turn: `turn permission name`.
#[track_caller]
fn check_opened(finished: FinishedCommand, expected: &[&str]) -> FinishedCommand {
    let (finished, turns) = shown_turns(finished);
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

/// Returns replies of an agent that only creates the file `name` with this content, and answers
/// `text`.
fn write_replies(name: &str, content: &str, text: &str) -> String {
    format!(
        r#"
- when: {{last: "</task>"}}
  calls: [{{name: write_file, arguments: {{path: "{name}", content: "{content}"}}}}]
- calls: [{{name: new_answer, arguments: {{content: "{text}"}}}}]
"#
    )
}

/// Returns a project after its first turn: its agent created `made.txt` and answered `red`.
fn after_one_turn() -> FinishedCommand {
    let replies = write_replies("made.txt", "one", "red, see made.txt");
    let config = team(&[agent("a", "cwd: w", &replies)], "");
    Project::new().config(&config).args(["Choose"]).success()
}

/// Gives the project another team.
fn with_team(finished: &FinishedCommand, replies: &str) {
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
fn a_run_whose_records_cannot_be_written_fails() {
    let answer = "x".repeat(100_000);
    let replies = format!(
        "- calls: [{{name: new_answer, arguments: {{content: \"{answer}\"}}}}]\n\
         - when: {{system: \"the final agent\"}}\n  text: \"{answer}\"\n"
    );
    let project = Project::new().config(&team(&[agent("a", "", &replies)], ""));
    let project = project.args(["--output-format", "json", "Write"]);
    let command = project.command();
    let script = "trap '' XFSZ; exec prlimit --fsize=50000 \"$@\"";
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", script, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(project.path(""))
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        limited.env(name, value.unwrap_or_default());
    }
    let output = limited.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&result["outcome"], &result["exit_code"]),
        (&"failed".into(), &3.into())
    );
    assert!(stderr.contains("cannot write `"), "{stderr}");
    // Control: without the limit it is saved.
    let finished = project.success();
    let shown = finished.then(["sessions", "show", "last"]).success();
    assert!(shown.stdout().contains(&answer), "{}", shown.stdout());
}

#[test]
fn a_new_run_knows_nothing_of_sessions() {
    let finished = after_one_turn();
    with_team(&finished, &write_replies("other.txt", "one", "blue"));
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
fn a_dry_run_shows_the_prompt_of_the_next_turn() {
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
fn paths_outside_the_directory_are_open_only_if_mentioned_again() {
    let finished = after_one_turn();
    let outside_file = finished.project().home("notes.txt");
    fs::write(&outside_file, "notes").unwrap();
    fs::write(finished.project().path("gone.txt"), "x").unwrap();
    let task = format!("Read @{} and @gone.txt", outside_file.display());
    with_team(&finished, &write_replies("a.txt", "one", "blue"));
    let finished = finished.then(["--continue", &task]).success();
    fs::remove_file(finished.project().path("gone.txt")).unwrap();
    let finished = finished.then(["--continue", "Again"]).success();
    let stderr = finished.stderr();
    assert!(
        stderr.contains("gone.txt` was opened in an earlier turn but no longer exists"),
        "{stderr}"
    );
    assert!(
        stderr.contains("notes.txt` was opened in an earlier turn but is outside"),
        "{stderr}"
    );
    let finished = check_opened(finished, &[]);
    let again = format!("Read @{}", outside_file.display());
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
        refused.stderr().contains("is a symlink"),
        "{}",
        refused.stderr()
    );
}

#[test]
fn a_session_is_part_of_one_run_at_a_time() {
    let finished = after_one_turn();
    with_team(&finished, "- delay_ms: 600000\n  text: late");
    let project = finished.then(["--continue", "Wait"]);
    let mut command = project.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut waiting = command.spawn().unwrap();
    let second = sessions(&project)[0].join("turn_2");
    wait_until("the second turn begins", WAIT_TIME_MAX, || second.exists());
    let id = sessions(&project)[0].file_name().unwrap().to_owned();
    let id = id.to_str().unwrap().to_owned();
    let mut refused = project.retyped(["--continue", "Wait too"]).failure(3);
    for arguments in [
        &["--continue", "Wait too"][..],
        &["--continue"],
        &["sessions", "resume", &id],
        &["sessions", "fork", &id],
        &["sessions", "export", &id],
        &["sessions", "delete", &id],
    ] {
        refused = refused.then(arguments).failure(3);
        let message = format!("a turn of session `{id}` is running");
        assert!(
            refused.stderr().contains(&message),
            "{arguments:?}: {}",
            refused.stderr()
        );
    }
    let listed = refused.then(["sessions", "list"]).success();
    assert!(
        listed.stdout().contains("  running  "),
        "{}",
        listed.stdout()
    );
    let listed = listed.then(["sessions", "list", "--json"]).success();
    assert!(
        listed.stdout().contains(r#""running":true"#),
        "{}",
        listed.stdout()
    );
    let refused = listed.then(["sessions", "show"]).success();
    assert!(
        refused
            .stderr()
            .contains(&format!("a turn of {id} is running")),
        "{}",
        refused.stderr()
    );
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    with_team(&refused, &write_replies("a.txt", "one", "blue"));
    let finished = refused.then(["--continue", "Now"]).success();
    assert_eq!(finished.stdout(), "blue\n");
}

#[test]
fn a_fork_is_independent_and_shares_unchanged_files() {
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
    with_team(&forked, &write_replies("b.txt", "one", "blue"));
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
    error: no session `nope`
    hint: see `massgen sessions list` for the sessions of this directory
    hint: give the id of a session, a prefix of it, or `last`
    ");
    fs::remove_dir_all(refused.project().path(".massgen/sessions")).unwrap();
    let refused = refused.then(["--continue", "Go on"]).failure(2);
    insta::assert_snapshot!(refused.stderr(), @r"
    error: no sessions in `[PROJECT]/.massgen/sessions`
    hint: see `massgen sessions list` for the sessions of this directory
    hint: give the id of a session, a prefix of it, or `last`
    ");
}

/// Returns the only id that a command printed.
fn session_id(finished: &FinishedCommand) -> String {
    finished.stdout().trim().to_owned()
}

#[test]
fn an_exported_session_is_imported_elsewhere() {
    let finished = after_one_turn();
    let packed = finished.then(["sessions", "export", "last", "-o", "s.tar.gz"]);
    let packed = packed.success();
    let archive = fs::read(packed.project().path("s.tar.gz")).unwrap();
    let here = packed.then(["sessions", "import", "s.tar.gz"]).success();
    let ids: Vec<String> = sessions(here.project())
        .iter()
        .map(|dir| dir.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert!(ids.contains(&session_id(&here)), "{ids:?}");
    let replies = write_replies("more.txt", "two", "made.txt stands");
    let imported = Project::new().config(&team(&[agent("a", "cwd: w", &replies)], ""));
    let imported = imported.file("s.tar.gz", archive);
    let imported = imported.args(["sessions", "import", "s.tar.gz"]).success();
    let id = session_id(&imported);
    let shown = imported.then(["sessions", "show", &id]).success();
    assert!(
        shown.stdout().contains("red, see made.txt"),
        "{}",
        shown.stdout()
    );
    let turn = shown
        .project()
        .path(format!(".massgen/sessions/{id}/turn_1"));
    let made = turn.join("workspace/made.txt");
    assert_eq!(fs::read_to_string(&made).unwrap(), "one");
    assert_eq!(
        made.metadata().unwrap().mode() & 0o222,
        0,
        "nobody may change it"
    );
    let config = shown.project().path(".massgen/config.yaml");
    let config = config.to_str().unwrap().to_owned();
    // A file younger than a few clock ticks is not trusted to be unchanged.
    std::thread::sleep(Duration::from_millis(60));
    let next = shown
        .then(["--session-id", &id, "--config", &config, "Go on"])
        .success();
    let workspace = next
        .project()
        .path(format!(".massgen/sessions/{id}/turn_2/workspace"));
    assert_eq!(
        fs::read_to_string(workspace.join("made.txt")).unwrap(),
        "one"
    );
    let inodes = [made, workspace.join("made.txt")].map(|path| path.metadata().unwrap().ino());
    assert_eq!(
        inodes[0], inodes[1],
        "what did not change is stored once across turns"
    );
}

/// An archive entry: a name, a type, and the content or target.
type Entry<'a> = (&'a str, tar::EntryType, &'a str);

fn make_archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (name, kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        // The name is written directly: the library rejects what an attacker would use.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        if kind.is_file() {
            header.set_size(u64::try_from(content.len()).unwrap());
        } else {
            header.set_size(0);
            header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
        }
        header.set_cksum();
        let body = if kind.is_file() { content } else { "" };
        archive.append(&header, body.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// Imports an archive of these entries and a valid turn, and checks the status. Nothing may be
/// written outside the session.
#[track_caller]
fn check_hostile(entries: &[Entry<'_>], code: i32) {
    let cwd = Project::new();
    let metadata = serde_json::json!({
        "turn": 1, "timestamp": "2026-11-02T14:03:22.000000+00:00", "winning_agent": "a",
        "task": "t", "session_id": "session_x", "cwd": cwd.path("").to_str().unwrap(),
        "config": null, "log_dir": "/nowhere", "opened": [],
    })
    .to_string();
    let good = [
        (
            "session_x/turn_1/metadata.json",
            tar::EntryType::Regular,
            metadata.as_str(),
        ),
        (
            "session_x/turn_1/answer.txt",
            tar::EntryType::Regular,
            "yes",
        ),
    ];
    let bytes = make_archive(&[&good[..], entries].concat());
    let project = cwd.file("s.tar.gz", bytes).file("victim", "kept");
    let finished = project
        .args(["sessions", "import", "s.tar.gz"])
        .failure(code);
    let names = fs::read_dir(finished.project().path("")).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".massgen", "s.tar.gz", "victim"]);
    let made = sessions(finished.project());
    assert_eq!(made.len(), usize::from(code == 0), "{made:?}");
    for session in made {
        let outside = fs::canonicalize(session.join("turn_1/workspace/l"));
        assert!(outside.is_err() || outside.unwrap().starts_with(&session));
    }
    let _kept = finished.has_file("victim", "kept");
}

#[test]
fn a_hostile_archive_leads_nowhere() {
    use tar::EntryType as E;
    check_hostile(&[], 0);
    check_hostile(&[("session_x/turn_1/workspace/l", E::Symlink, "m")], 0);
    check_hostile(
        &[(
            "session_x/turn_1/workspace/l",
            E::Symlink,
            "../../../../../victim",
        )],
        0,
    );
    check_hostile(&[("session_x/turn_1/workspace/l", E::Symlink, "/etc")], 0);
    let through = [
        ("session_x/turn_1/workspace/l", E::Symlink, ".."),
        ("session_x/turn_1/workspace/l/x", E::Symlink, "../../../.."),
    ];
    check_hostile(&through, 2);
    let over = [
        ("session_x/turn_1/workspace/l", E::Symlink, "m"),
        ("session_x/turn_1/workspace/l/x", E::Regular, "evil"),
    ];
    check_hostile(&over, 2);
    check_hostile(&[("../victim", E::Regular, "evil")], 2);
    check_hostile(&[("session_x/../../../victim", E::Regular, "evil")], 2);
    check_hostile(&[("/victim", E::Regular, "evil")], 2);
    check_hostile(&[("session_y/turn_1/answer.txt", E::Regular, "evil")], 2);
    check_hostile(&[("session_x/turn_1/answer.txt", E::Regular, "twice")], 2);
    check_hostile(&[("session_x/turn_1/workspace/l", E::Link, "victim")], 2);
    check_hostile(&[("session_x/turn_1/workspace/l", E::Fifo, "")], 2);
    check_hostile(&[("session_x/turn_1/workspace/l", E::Char, "")], 2);
}

/// Makes the file or directory at `path` look as if it was last used `days` days ago.
fn age_file(path: &Path, days: u64) {
    let last_use = std::time::SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    let file = fs::OpenOptions::new().read(true).open(path).unwrap();
    file.set_modified(last_use).unwrap();
}

/// Returns the numbers of sessions, runs and workspaces of a project.
fn count_kept(project: &Project) -> Vec<usize> {
    let count = |dir: &str| fs::read_dir(project.path(dir)).map_or(0, Iterator::count);
    let dirs = ["sessions", "massgen_logs", "workspaces", "temp_workspaces"];
    dirs.map(|dir| count(&format!(".massgen/{dir}"))).to_vec()
}

/// Creates three sessions of one run each, the first two unused for 40 days.
fn three_sessions() -> FinishedCommand {
    let mut finished = after_one_turn();
    for _ in 0..2 {
        finished = finished.then(["Choose"]).success();
    }
    let mut all = sessions(finished.project());
    let logs = fs::read_dir(finished.project().path(".massgen/massgen_logs")).unwrap();
    let mut logs: Vec<PathBuf> = logs
        .map(|log| log.unwrap().path().join("turn_1/events.jsonl"))
        .collect();
    let newest = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    all.sort_by_key(newest);
    logs.sort();
    all[..2]
        .iter()
        .chain(&logs[..2])
        .for_each(|path| age_file(path, 40));
    assert_eq!(count_kept(finished.project()), [3, 3, 3, 3]);
    finished
}

#[test]
fn unused_sessions_are_pruned() {
    let finished = three_sessions();
    let arguments = ["sessions", "prune", "--older-than", "30d", "--dry-run"];
    let listed = finished.then(arguments).success();
    assert_eq!(listed.stdout().lines().count(), 4, "{}", listed.stdout());
    assert_eq!(count_kept(listed.project()), [3, 3, 3, 3]);
    let pruned = listed.then(&arguments[..4]).success();
    assert_eq!(count_kept(pruned.project()), [1, 1, 1, 1]);
    let again = pruned.then(["--continue", "Go on"]).success();
    assert_eq!(count_kept(again.project()), [1, 2, 2, 2]);
    let refused = again.then(["sessions", "prune"]).failure(2);
    assert!(
        refused.stderr().contains("--older-than"),
        "{}",
        refused.stderr()
    );
}

#[test]
fn sessions_beyond_the_size_limit_are_pruned_except_the_newest() {
    let finished = three_sessions();
    let pruned = finished.then(["sessions", "prune", "--larger-than", "0"]);
    assert_eq!(count_kept(pruned.success().project()), [1, 1, 1, 1]);
}

#[test]
fn the_config_sets_what_is_kept() {
    let finished = three_sessions();
    let config = finished.project().path(".massgen/config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}retention: {{days: 30}}\n")).unwrap();
    let refused = finished.then(["Choose"]).failure(2);
    assert!(
        refused
            .stderr()
            .contains("found in the project rather than named")
    );
    assert_eq!(count_kept(refused.project()), [3, 3, 3, 3]);
    let named = ["--config", ".massgen/config.yaml", "Choose"];
    let next = refused.then(named).success();
    assert_eq!(count_kept(next.project()), [2, 2, 2, 2]);
}

#[test]
fn a_config_names_its_session() {
    let finished = after_one_turn();
    let config = finished.project().path(".massgen/config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}session_id: last\n")).unwrap();
    let next = finished.then(["Go on"]).success();
    assert_eq!(sessions(next.project()).len(), 1);
    let (_, turns) = shown_turns(next);
    assert_eq!(turns.len(), 2);
}

#[test]
fn runs_side_by_side_never_mix() {
    const RUNS: usize = 32;
    let replies = write_replies("made.txt", "one", "red, see made.txt");
    let config = team(&[agent("a", "cwd: w", &replies)], "");
    let project = Project::new().config(&config);
    let run = |number: usize| {
        let mut command = project.command();
        command.arg(format!("task {number}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let running: Vec<_> = (0..RUNS).map(run).collect();
    for running in running {
        let output = running.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
    }
    assert_eq!(count_kept(&project), [RUNS; 4]);
    let mut tasks: Vec<String> = sessions(&project)
        .iter()
        .map(|dir| {
            let text = fs::read_to_string(dir.join("turn_1/metadata.json")).unwrap();
            let turn: Value = serde_json::from_str(&text).unwrap();
            let log = PathBuf::from(turn["log_dir"].as_str().unwrap());
            let recorded = fs::read_to_string(log.join("turn_1/events.jsonl")).unwrap();
            let task = turn["task"].as_str().unwrap().to_owned();
            assert!(
                recorded.contains(&format!("\"question\":\"{task}\"")),
                "{task}"
            );
            task
        })
        .collect();
    tasks.sort();
    tasks.dedup();
    assert_eq!(tasks.len(), RUNS);
}

/// Creates a session with one turn, and a newer one whose first run was killed while it waited for
/// its model.
fn after_a_killed_run() -> (FinishedCommand, String) {
    let finished = after_one_turn();
    let old = sessions(finished.project());
    with_team(&finished, "- delay_ms: 600000\n  text: late");
    let project = finished.then(["Begin anew"]);
    let mut command = project.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut waiting = command.spawn().unwrap();
    let begun = |session: &PathBuf| !old.contains(session);
    let logs = || fs::read_dir(project.path(".massgen/massgen_logs")).unwrap();
    let asks = || {
        let mut texts = logs()
            .map(|run| run.unwrap().path().join("turn_1/events.jsonl"))
            .filter_map(|log| fs::read_to_string(log).ok());
        texts.any(|text| {
            text.contains("Begin anew") && text.contains(r#""type":"model_request_started""#)
        })
    };
    wait_until("the run waits for its model", WAIT_TIME_MAX, || {
        sessions(&project).iter().any(begun) && asks()
    });
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    let new = sessions(&project).into_iter().find(begun).unwrap();
    let id = new.file_name().unwrap().to_str().unwrap().to_owned();
    (project.retyped(["sessions", "list"]).success(), id)
}

#[test]
fn a_task_is_not_given_to_an_older_session_than_the_one_that_was_interrupted() {
    let (finished, id) = after_a_killed_run();
    let refused = finished.then(["--continue", "And then?"]).failure(2);
    let message = format!("of the last session `{id}` was interrupted and not saved");
    assert!(refused.stderr().contains(&message), "{}", refused.stderr());
    let older = "or continue the session before it: massgen --session-id session_";
    assert!(refused.stderr().contains(older), "{}", refused.stderr());
    let removed = refused.then(["sessions", "delete", &id]).success();
    with_team(&removed, &write_replies("a.txt", "one", "blue"));
    let finished = removed.then(["--continue", "And then?"]).success();
    assert_eq!(finished.stdout(), "blue\n");
    assert_eq!(sessions(finished.project()).len(), 1);
}

#[test]
fn a_session_whose_first_turn_was_interrupted_is_not_listed_as_empty() {
    let (listed, id) = after_a_killed_run();
    let (broken, other): (Vec<&str>, Vec<&str>) = listed
        .stdout()
        .lines()
        .partition(|line| line.starts_with(&id));
    let [broken] = broken[..] else {
        panic!("{broken:?}");
    };
    assert!(broken.contains("  interrupted  "), "{broken}");
    assert!(broken.ends_with("1 turn  Begin anew"), "{broken}");
    let [other] = other[..] else {
        panic!("{other:?}");
    };
    assert!(!other.contains("interrupted"), "{other}");
    assert!(other.contains("1 turn  Choose"), "{other}");
    let listed = listed.then(["sessions", "list", "--json"]).success();
    for line in listed.stdout().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let is_broken = row["id"] == id.as_str();
        assert_eq!(row["interrupted"], is_broken, "{row}");
        // An interrupted turn is not saved, so that the other fields do not describe it.
        assert_eq!(row["turns"], i32::from(!is_broken), "{row}");
        assert_eq!(row["task"].is_null(), is_broken, "{row}");
    }
}

#[test]
fn a_state_directory_that_cannot_be_read_is_not_called_empty() {
    for arguments in [
        &["sessions", "list"][..],
        &["logs", "list"],
        &["diff"],
        &["undo"],
    ] {
        let around = Project::new().link(".massgen", ".massgen");
        let refused = around.args(arguments).run();
        assert_ne!(refused.code(), Some(0), "{arguments:?}");
        let message = "`[PROJECT]/.massgen` is a symlink";
        assert!(
            refused.stderr().contains(message),
            "{arguments:?}: {}",
            refused.stderr()
        );
        let none = Project::new().args(arguments).run();
        assert!(!none.stderr().contains("cannot read"), "{}", none.stderr());
    }
}

#[test]
fn nothing_is_made_or_removed_where_a_link_leads() {
    let finished = after_one_turn();
    let project = finished.project();
    let id = sessions(project)[0].file_name().unwrap().to_owned();
    let id = id.to_str().unwrap().to_owned();
    let moved = (project.path(".massgen"), project.path("elsewhere"));
    let mut finished = finished.then(["sessions", "export", &id]).success();
    fs::rename(moved.0, moved.1).unwrap();
    symlink("elsewhere", finished.project().path(".massgen")).unwrap();
    let archive = format!("{id}.tar.gz");
    for arguments in [
        &["sessions", "fork", &id][..],
        &["sessions", "show", &id],
        &["sessions", "import", &archive],
        &["sessions", "prune", "--older-than", "1d"],
        &["sessions", "delete", &id],
    ] {
        finished = finished.then(arguments).failure(3);
        let message = "`[PROJECT]/.massgen` is a symlink";
        assert!(
            finished.stderr().contains(message),
            "{arguments:?}: {}",
            finished.stderr()
        );
    }
    assert_eq!(sessions(finished.project()).len(), 1);
}
