//! What commands can access if rules close the root of a grant inside another open tree: the same
//! as the file tools, at every level.

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use serde_json::json;

use crate::command_runs::is_supported;
use crate::project::Project;

/// Returns a project whose grants file opens `src` with a directory and a file in it, under these
/// rules.
fn project(rules: &[&str]) -> Project {
    let grants = json!({
        "workspace": "ws",
        "context_paths": [
            {"path": "src", "permission": "write"},
            {"path": "src/keys", "permission": "read"},
            {"path": "src/server.pem", "permission": "read"},
            {"path": "src/docs", "permission": "write"},
        ],
        "permissions": {"deny": rules},
    });
    Project::new()
        .file("grants.json", grants.to_string())
        .file("ws/own.txt", "own\n")
        .file("src/a.txt", "plain\n")
        .file("src/keys/deep/id", "CANARY-KEY\n")
        .file("src/server.pem", "CANARY-PEM\n")
        .file("src/docs/b.txt", "docs\n")
        .file("src/.MASSGEN/old", "CANARY-STATE\n")
}

/// Returns what `script` prints in the project's directory, and the content of `src/docs/b.txt`
/// afterwards.
fn run(rules: &[&str], level: SandboxLevel, phase: &str, script: &str) -> (String, String) {
    let project = project(rules);
    let script = script.replace("SRC", &project.path("src").display().to_string());
    let level = level.to_string();
    let arguments = ["sandbox", "--grants", "grants.json", "--sandbox", &level];
    let arguments = [
        arguments.as_slice(),
        &["--phase", phase, "--", "sh", "-c", &script],
    ]
    .concat();
    let finished = project.args(arguments).run();
    let docs = std::fs::read_to_string(finished.project().path("src/docs/b.txt"));
    (finished.stdout().to_owned(), docs.unwrap())
}

/// Returns whether a file tool reads `path` under these rules.
fn is_read(rules: &[&str], path: &str) -> bool {
    let project = project(rules);
    let arguments = json!({"path": project.path(path)}).to_string();
    let args = [
        "tool",
        "read_text_file",
        "--grants",
        "grants.json",
        "--args",
        &arguments,
    ];
    project.args(args).run().code() == Some(0)
}

const READ_ALL: &str =
    "cat SRC/a.txt SRC/keys/deep/id SRC/server.pem SRC/.MASSGEN/old 2>/dev/null; true";

#[test]
fn a_root_that_rules_close_is_closed_to_commands() {
    let rules = ["read_file(keys)", "read_file(*.pem)"];
    for path in ["src/keys/deep/id", "src/server.pem"] {
        assert!(is_read(&[], path) && !is_read(&rules, path), "{path}");
    }
    assert!(!is_read(&[], "src/.MASSGEN/old"));
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ]
    .into_iter()
    .filter(|level| is_supported(*level))
    {
        for phase in ["coordination", "final"] {
            let open = run(&[], level, phase, READ_ALL).0;
            assert_eq!(open, "plain\nCANARY-KEY\nCANARY-PEM\n", "{level} {phase}");
            let held = run(&rules, level, phase, READ_ALL).0;
            assert_eq!(held, "plain\n", "{level} {phase}");
        }
    }
}

#[test]
fn a_root_that_rules_keep_from_changes_is_only_read_by_commands() {
    let script = "echo more >> SRC/docs/b.txt; cat SRC/docs/b.txt";
    for level in [SandboxLevel::Overlay, SandboxLevel::Namespaces]
        .into_iter()
        .filter(|level| is_supported(*level))
    {
        let (_, changed) = run(&[], level, "final", script);
        assert_eq!(changed, "docs\nmore\n", "{level}");
        let (seen, kept) = run(&["write_file(docs)"], level, "final", script);
        assert_eq!(
            (seen.as_str(), kept.as_str()),
            ("docs\n", "docs\n"),
            "{level}"
        );
    }
}
