//! Attempts of eight agents in a project of 150,000 files, beside the same in a small one and beside eight
//! worktrees of git; and commands in an attempt, beside commands without one. The projects lie in `TMPDIR`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::measured::run;

/// The size of the project that the figures are about.
const FILES: u32 = 150_000;
const FILES_PER_DIRECTORY: u32 = 500;
const AGENTS: u32 = 8;
/// How many files each answer changes.
const CHANGED: u32 = 10;
const COMMANDS: u32 = 100;
const REPETITIONS: usize = 5;

/// Takes the figures and prints them.
pub(crate) fn measure() {
    let dir = tempfile::tempdir().unwrap();
    let (large, small) = (dir.path().join("large"), dir.path().join("small"));
    make(&large, FILES);
    make(&small, CHANGED);
    let worktrees: Duration = (0..AGENTS)
        .map(|number| {
            let target = dir.path().join(format!("worktree{number}"));
            git(
                &large,
                &[
                    "worktree",
                    "add",
                    "-q",
                    "--detach",
                    target.to_str().unwrap(),
                ],
            )
        })
        .sum();
    println!("{AGENTS} × git worktree add of {FILES} files: {worktrees:.2?}");
    for (name, project) in [("small project", &small), ("large project", &large)] {
        let elapsed = median(project, &answering_team());
        println!("{AGENTS} attempts, {CHANGED} changed files each, {name}: {elapsed:.2?}");
    }
    for permission in ["read", "write"] {
        let elapsed = median(&small, &commanding_team(permission));
        println!("{COMMANDS} commands of one agent, `permission: {permission}`: {elapsed:.2?}");
    }
}

/// Makes a repository of so many files.
fn make(project: &Path, files: u32) {
    for number in 0..files {
        let directory = project.join(format!("src/d{}", number / FILES_PER_DIRECTORY));
        if number % FILES_PER_DIRECTORY == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        fs::write(directory.join(format!("f{number}.txt")), "before\n").unwrap();
    }
    fs::write(project.join(".gitignore"), "/.massgen/\n/team.yaml\n").unwrap();
    git(project, &["init", "-q"]);
    git(project, &["add", "."]);
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    git(
        project,
        &[&identity[..], &["commit", "-q", "-m", "first"]].concat(),
    );
}

fn git(project: &Path, arguments: &[&str]) -> Duration {
    let begun = Instant::now();
    let mut command = Command::new("git");
    command
        .current_dir(project)
        .args(arguments)
        .stdin(Stdio::null());
    assert!(command.status().unwrap().success(), "{arguments:?}");
    begun.elapsed()
}

/// The median time of runs of the team, without the delivery of the last one.
fn median(project: &Path, yaml: &str) -> Duration {
    let mut times: Vec<Duration> = (0..REPETITIONS)
        .map(|_| {
            let elapsed = run(project, yaml).elapsed;
            git(project, &["checkout", "-q", "."]);
            elapsed
        })
        .collect();
    times.sort();
    times[REPETITIONS / 2]
}

/// Agents that change the same files, each in its attempt, and vote for the first.
fn answering_team() -> String {
    let mut yaml =
        String::from("orchestrator:\n  context_paths: [{path: ., permission: write}]\nagents:\n");
    for agent in 1..=AGENTS {
        let mut calls = String::new();
        for number in 0..CHANGED {
            let path = format!("src/d0/f{number}.txt");
            let _ = write!(
                calls,
                "{{name: edit_file, arguments: {{path: {path}, edits: [{{oldText: before, newText: after {agent}}}]}}}}, "
            );
        }
        let _ = write!(
            yaml,
            "  - id: a{agent}\n    backend:\n      type: scripted\n      replies:\n        \
             - when: {{last: \"<task>\"}}\n          calls: [{calls}{{name: new_answer, arguments: {{content: \"{agent}\"}}}}]\n        \
             - calls: [{{name: vote, arguments: {{agent_id: agent1, reason: \"good\"}}}}]\n          repeat: true\n"
        );
    }
    yaml
}

/// An agent that runs commands with its own view of the project, or without one.
fn commanding_team(permission: &str) -> String {
    let mut calls = String::new();
    for number in 0..COMMANDS {
        let _ = write!(
            calls,
            "{{name: execute_command, arguments: {{command: \"true {number}\"}}}}, "
        );
    }
    format!(
        "orchestrator:\n  context_paths: [{{path: ., permission: {permission}}}]\nagents:\n  - id: a\n    \
         backend:\n      type: scripted\n      cwd: ws\n      enable_mcp_command_line: true\n      replies:\n        \
         - when: {{last: \"<task>\"}}\n          calls: [{calls}]\n        - text: done\n          repeat: true\n"
    )
}
