//! The files that a run obeys: no agent changes them, wherever they lie.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fmt::Write as _;
use std::fs;

use crate::project::Project;
use crate::scripted_team::{agent, team};

/// Returns a project with a config in its write path whose winner replaces `paths` and makes
/// `made.txt`.
fn project(paths: &[&str]) -> Project {
    let project = Project::new();
    let place = project.path("").display().to_string();
    let place = place.trim_end_matches('/');
    let mut replies = String::new();
    for path in paths.iter().chain(&["made.txt"]) {
        for call in [
            format!("read_text_file, arguments: {{path: {place}/{path}}}"),
            format!("write_file, arguments: {{path: {place}/{path}, content: 'agents: []'}}"),
        ] {
            writeln!(replies, "- calls: [{{name: {call}}}]").unwrap();
        }
    }
    replies.push_str("- calls: [{name: new_answer, arguments: {content: done}}]\n");
    let rest = "orchestrator: {context_paths: [{path: ., permission: write}]}\n";
    let config = team(&[agent("a", "cwd: w", &replies)], rest);
    project.file("conf/team.yaml", config)
}

#[test]
fn the_config_of_a_run_does_not_change() {
    let ended = project(&["conf/team.yaml"])
        .args(["--config", "conf/team.yaml", "--yes", "x"])
        .run();
    let config = fs::read_to_string(ended.project().path("conf/team.yaml")).unwrap();
    assert!(config.contains("context_paths"), "{config}");
    assert!(ended.project().path("made.txt").exists());
    let output = format!("{}{}", ended.stdout(), ended.stderr());
    assert!(
        output.contains("protected, because this run obeys it"),
        "{output}"
    );
    // Control: the config of no run is an ordinary file.
    let ended = project(&["conf/other.yaml"])
        .file("conf/other.yaml", "x: 1")
        .args(["--config", "conf/team.yaml", "--yes", "x"])
        .run();
    let other = fs::read_to_string(ended.project().path("conf/other.yaml")).unwrap();
    assert_eq!(other, "agents: []");
}

#[test]
fn a_symlink_to_the_config_of_a_run_stays() {
    let linked = project(&["conf/team.yaml", "team.yaml"]).link("team.yaml", "conf/team.yaml");
    let ended = linked
        .args(["--config", "team.yaml", "--yes", "x @team.yaml:w"])
        .run();
    let link = fs::read_link(ended.project().path("team.yaml")).unwrap();
    assert_eq!(link.to_str(), Some("conf/team.yaml"));
    let config = fs::read_to_string(ended.project().path("team.yaml")).unwrap();
    assert!(config.contains("context_paths"), "{config}");
    assert!(ended.project().path("made.txt").exists());
}

#[test]
fn a_cell_of_a_batch_does_not_change_what_the_batch_obeys() {
    let calls = ["team.yaml", "tasks.jsonl", "made.txt"].map(|name| {
        format!(
            "- calls: [{{name: execute_command, arguments: {{command: \"rm -f {{{{cwd}}}}/{name}; \
             echo agent > {{{{cwd}}}}/{name}\"}}}}]\n"
        )
    });
    let replies = format!(
        "{}- calls: [{{name: new_answer, arguments: {{content: done}}}}]\n",
        calls.concat()
    );
    let keys = "cwd: w\nenable_mcp_command_line: true";
    let task = "{\"id\": \"c0\", \"text\": \"x\", \"project\": {\"path\": \"app\"}}\n";
    let ended = Project::new()
        .file("app/team.yaml", team(&[agent("a", keys, &replies)], ""))
        .file("app/tasks.jsonl", task)
        .args([
            "batch",
            "run",
            "app/tasks.jsonl",
            "--config",
            "app/team.yaml",
        ])
        .success();
    let applied = ended.then(["batch", "apply", "last", "c0", "--yes"]).run();
    let read = |name: &str| fs::read_to_string(applied.project().path(name)).unwrap();
    assert_eq!(read("app/made.txt"), "agent\n", "{}", applied.stderr());
    assert_eq!(read("app/tasks.jsonl"), task);
    assert!(read("app/team.yaml").contains("agents:"));
}
