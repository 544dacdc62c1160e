//! The page of `massgen web` in a real browser, and the modules of it that need none.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::project::{Project, binary};
use crate::source_tree::repository;
use crate::web_server::WebServer;

/// The configs of the server, in `tests/web/project`.
const CONFIGS: [&str; 6] = ["watch", "review", "ask", "hostile", "slow", "line"];

/// Returns the directory of the tests that run in Node.
///
/// # Panics
/// Their packages are not installed.
fn page_tests() -> PathBuf {
    let directory = repository().join("tests/web");
    assert!(
        directory.join("node_modules").is_dir(),
        "the packages of `tests/web` are not installed: run `npm ci --prefix tests/web`"
    );
    directory
}

/// Runs Node with `arguments` in `tests/web`, and returns what it printed.
#[track_caller]
fn run_node(arguments: &[&str]) -> String {
    let mut node = Command::new("node");
    let output = node
        .args(arguments)
        .current_dir(page_tests())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{errors}");
    printed
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn people_watch_review_and_start_runs_in_a_browser() {
    let project = Project::new();
    let directory = project.path(".");
    copy_tree(&page_tests().join("project"), &directory);
    for config in ["hostile.yaml", "cell.yaml"] {
        let batch = Command::new(binary())
            .args(["batch", "run", "tasks.jsonl", "--config", config])
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(batch.status.success(), "{batch:?}");
    }
    let configs: Vec<String> = CONFIGS
        .iter()
        .flat_map(|name| ["--config".to_owned(), format!("{name}.yaml")])
        .collect();
    let arguments: Vec<&str> = configs.iter().map(String::as_str).collect();
    let mut node = Command::new("node");
    node.args(["page.mjs", directory.to_str().unwrap()])
        .current_dir(page_tests());
    let mut node = node
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(node.stdout.take().unwrap());
    let mut printed = String::new();
    lines.read_line(&mut printed).unwrap();
    assert_eq!(printed, "the browser is ready\n");
    // The link is valid for a minute, and a browser may take longer to start.
    let server = WebServer::start_without_session(project, &arguments);
    let mut input = node.stdin.take().unwrap();
    let link = format!("http://127.0.0.1:{}/#k={}\n", server.port, server.code);
    input.write_all(link.as_bytes()).unwrap();
    lines.read_to_string(&mut printed).unwrap();
    assert!(node.wait().unwrap().success(), "{printed}");
    assert!(
        printed.contains("page tests: 17 passed; 0 failed"),
        "{printed}"
    );
    let check = Command::new(binary())
        .args(["config", "check", "--strict", "written.yaml"])
        .current_dir(&directory)
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
}

#[test]
fn the_modules_of_the_page_that_need_no_browser_do_what_they_say() {
    let printed = run_node(&["--test"]);
    assert!(
        printed.contains("fail 0") && !printed.contains("pass 0"),
        "{printed}"
    );
}

#[test]
fn the_types_of_the_page_agree_with_each_other() {
    run_node(&["types.mjs"]);
}
