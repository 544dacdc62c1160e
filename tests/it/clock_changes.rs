//! The newest run, delivery and session are those that were created last, also after the clock was
//! set back.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::path::Path;

use crate::project::Project;
use crate::scripted_team::{agent, team};

/// Writes a file of the project, and answers.
fn delivers(file: &str) -> String {
    let replies = format!(
        r#"
- calls: [{{name: write_file, arguments: {{path: "{{{{cwd}}}}/out/{file}", content: "new\n"}}}}]
- calls: [{{name: new_answer, arguments: {{content: "an answer"}}}}]
"#
    );
    let rest = "orchestrator:\n  context_paths: [{path: out, permission: write}]\n";
    team(&[agent("one", "cwd: ws", &replies)], rest)
}

/// Returns the only name in `directory`.
fn only_name(directory: &Path) -> String {
    let mut names = fs::read_dir(directory).unwrap();
    let name = names.next().unwrap().unwrap().file_name();
    assert!(names.next().is_none());
    name.into_string().unwrap()
}

#[test]
fn the_newest_run_is_the_last_one_after_the_clock_was_set_back() {
    let project = Project::new()
        .file("first.yaml", delivers("first"))
        .file("second.yaml", delivers("second"))
        .dir("out");
    let finished = project.args(["--config", "first.yaml", "one"]).success();
    // The clock was decades ahead.
    let path = |path: &str| finished.project().path(path);
    let logs = path(".massgen/massgen_logs");
    let name = only_name(&logs);
    let future = "log_20990101_000000_000000";
    for directory in [logs, path(".massgen/deliveries")] {
        fs::rename(directory.join(&name), directory.join(future)).unwrap();
    }
    let sessions = path(".massgen/sessions");
    let first = only_name(&sessions);
    let metadata = sessions.join(&first).join("turn_1/metadata.json");
    let text = fs::read_to_string(&metadata).unwrap();
    assert!(text.contains(&name));
    fs::write(&metadata, text.replace(&name, future)).unwrap();

    let finished = finished.then(["--config", "second.yaml", "two"]).success();
    let finished = finished.then(["logs", "show", "last"]).success();
    let shown = finished.stdout();
    assert!(shown.contains("out/second"), "{shown}");
    let finished = finished.then(["sessions", "show", "last"]).success();
    assert!(finished.stdout().contains("two"), "{}", finished.stdout());
    let finished = finished.then(["undo"]).success();
    let exists = |file: &str| finished.project().path("out").join(file).exists();
    assert!(exists("first") && !exists("second"));
}
