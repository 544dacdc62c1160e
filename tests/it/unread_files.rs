//! Files of the user that an agent has not read: moving them does not make them the agent's own.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;

use crate::project::Project;
use crate::scripted_team::{FINAL, agent, team};

/// Returns the content of `src/new` after a run in which the final agent made these calls.
fn left_by(calls: &[&str]) -> String {
    let calls = calls.join(", ");
    let replies = format!(
        "- when: {{system: \"{FINAL}\"}}\n  text: works\n  calls: [{calls}]\n\
         - when: {{system: \"{FINAL}\"}}\n  text: done\n  repeat: true\n\
         - calls: [{{name: new_answer, arguments: {{content: answer}}}}]\n\
         - calls: [{{name: vote, arguments: {{agent_id: agent1, reason: good}}}}]\n  repeat: true\n"
    );
    let paths = "orchestrator:\n  coordination: {write_mode: legacy}\n  context_paths: [{path: src, permission: write}]";
    let finished = Project::new()
        .config(&team(&[agent("a", "", &replies)], paths))
        .file("src/old", "the user's\n")
        .file("src/dir/old", "the user's\n")
        .args(["go"])
        .success();
    let text = fs::read_to_string(finished.project().path("src/new"));
    text.unwrap_or_default()
}

#[test]
fn files_that_were_moved_unread_are_not_overwritten_or_deleted() {
    const MOVE: &str = "{name: move_file, arguments: {source: \"{{cwd}}/src/old\", destination: \"{{cwd}}/src/new\"}}";
    const MOVE_ALL: &str = "{name: move_file, arguments: {source: \"{{cwd}}/src/dir\", destination: \"{{cwd}}/src/dir2\"}}";
    const MOVE_ON: &str = "{name: move_file, arguments: {source: \"{{cwd}}/src/dir2/old\", destination: \"{{cwd}}/src/new\"}}";
    const READ: &str = "{name: read_text_file, arguments: {path: \"{{cwd}}/src/new\"}}";
    const WRITE: &str =
        "{name: write_file, arguments: {path: \"{{cwd}}/src/new\", content: \"another\"}}";
    const DELETE: &str = "{name: delete_file, arguments: {path: \"{{cwd}}/src/new\"}}";
    for (calls, expected) in [
        (&[MOVE, WRITE][..], "the user's\n"),
        (&[MOVE, DELETE], "the user's\n"),
        (&[MOVE_ALL, MOVE_ON, WRITE], "the user's\n"),
        (&[MOVE_ALL, MOVE_ON, DELETE], "the user's\n"),
        (&[MOVE, READ, WRITE], "another"),
        (&[MOVE, READ, DELETE], ""),
        (&[WRITE, DELETE], ""),
    ] {
        assert_eq!(left_by(calls), expected, "{calls:?}");
    }
}
