//! Files of the user that are read-only by their permission bits: they stay, even if the directory
//! that contains them is deleted, moved or replaced.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::project::Project;

/// Returns a project with a write path in which `kept/file` has these permission bits. The file is
/// empty, so that it need not be read before it is deleted.
fn project(mode: u32) -> Project {
    let grants = json!({
        "workspace": "ws",
        "context_paths": [{"path": "src", "permission": "write"}],
    });
    let project = Project::new()
        .dir("ws")
        .file("src/kept/file", "")
        .file("grants.json", grants.to_string());
    let file = project.path("src/kept/file");
    fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    project
}

/// Makes a call in the final phase; returns its answer, and whether the file still exists.
fn call_outcome(mode: u32, (tool, arguments): (&str, &Value)) -> (String, bool) {
    let project = project(mode);
    let mut call = project.command();
    call.args(["tool", tool, "--grants", "grants.json", "--phase", "final"])
        .args(["--args", &arguments.to_string()]);
    let output = call.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    (stdout, project.path("src/kept/file").is_file())
}

#[test]
fn a_directory_with_a_read_only_file_is_neither_deleted_nor_moved_nor_replaced() {
    let in_src = |line: &str| json!({"command": format!("cd ../src && {line}")});
    let calls = [
        ("delete_file", json!({"path": "../src/kept/file"})),
        (
            "delete_file",
            json!({"path": "../src/kept", "recursive": true}),
        ),
        (
            "move_file",
            json!({"source": "../src/kept", "destination": "kept"}),
        ),
        ("execute_command", in_src("rm -rf kept")),
        ("execute_command", in_src("rm -rf kept; echo x > kept")),
        (
            "execute_command",
            in_src("rm -rf kept; mkdir kept; echo x > kept/other"),
        ),
        ("execute_command", in_src("mv kept moved")),
    ];
    for (tool, arguments) in &calls {
        let (stdout, is_kept) = call_outcome(0o444, (tool, arguments));
        assert!(is_kept, "{tool} {arguments}: {stdout}");
        assert!(stdout.contains("read-only"), "{tool} {arguments}: {stdout}");
        // Control: a writable file is removed.
        let (stdout, is_kept) = call_outcome(0o644, (tool, arguments));
        assert!(!is_kept, "{tool} {arguments}: {stdout}");
    }
}
