//! A pipeline of roles on a large project: 50,000 files and 10,000 commits. One role, five roles, and what
//! applying takes, beside copies of the same files. The project lies in `TMPDIR`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::measured::run;

/// The size of the project that the figures are about.
const FILES: u32 = 50_000;
const COMMITS: u32 = 10_000;
const FILES_PER_DIRECTORY: u32 = 500;

/// Takes the figures and prints them.
pub(crate) fn measure() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    make(&project);
    println!("{FILES} files, {COMMITS} commits");
    let copy = timed(
        Command::new("cp")
            .arg("-a")
            .arg(&project)
            .arg(dir.path().join("copy")),
    );
    println!("cp -a of all: {copy:.2?}");
    for roles in [1, 5] {
        let state = project.join(".massgen");
        if state.exists() {
            fs::remove_dir_all(&state).unwrap();
        }
        let measured = run(&project, &config(roles));
        println!(
            "{roles} roles: {:.2?}, {} ms of CPU time, {:.0} MiB; beside the checkouts {} MiB",
            measured.elapsed,
            measured.cpu_ms,
            measured.peak_mib,
            mebibytes(&state, "workspace")
        );
    }
    let binary = env!("CARGO_BIN_EXE_massgen");
    let mut apply = Command::new(binary);
    apply.args(["apply", "last", "--yes"]).current_dir(&project);
    println!("apply: {:.2?}", timed(&mut apply));
}

fn timed(command: &mut Command) -> Duration {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    begun.elapsed()
}

/// Each role changes a file of its own.
fn config(roles: u32) -> String {
    let (mut stages, mut table, mut agents) = (Vec::new(), String::new(), String::new());
    for role in 0..roles {
        let path = format!("d{role}/f{}.txt", role * FILES_PER_DIRECTORY);
        stages.push(format!("role{role}"));
        writeln!(
            table,
            "  role{role}: {{rights: [write, edit], writes: project}}"
        )
        .unwrap();
        write!(
            agents,
            "- id: role{role}\n  backend:\n    type: scripted\n    replies:\n    \
             - calls: [{{name: read_text_file, arguments: {{path: {path}}}}}, \
             {{name: write_file, arguments: {{path: {path}, content: \"new\\n\"}}}}]\n    \
             - calls: [{{name: new_answer, arguments: {{content: \"did it\"}}}}]\n      repeat: true\n"
        )
        .unwrap();
    }
    let stages = stages.join(", ");
    format!(
        "workflow:\n  type: pipeline\n  stages: [{stages}]\n  until: none\nroles:\n{table}agents:\n{agents}"
    )
}

fn make(project: &Path) {
    fs::create_dir(project).unwrap();
    let git = || {
        let mut git = Command::new("git");
        git.current_dir(project);
        git
    };
    timed(git().args(["init", "-q", "-b", "trunk"]));
    let mut import = git()
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stream = String::new();
    let begin = |stream: &mut String, number: u32| {
        let when = 1_700_000_000 + number;
        writeln!(
            stream,
            "commit refs/heads/trunk\nmark :{number}\ncommitter u <u@u> {when} +0000\ndata 1\nc"
        )
        .unwrap();
    };
    begin(&mut stream, 1);
    for file in 0..FILES {
        let content = format!("file {file}\n").repeat(6);
        let directory = file / FILES_PER_DIRECTORY;
        writeln!(
            stream,
            "M 100644 inline d{directory}/f{file}.txt\ndata {}\n{content}",
            content.len()
        )
        .unwrap();
    }
    for number in 2..=COMMITS {
        begin(&mut stream, number);
        let content = format!("v{number}\n");
        writeln!(
            stream,
            "from :{}\nM 100644 inline log.txt\ndata {}\n{content}",
            number - 1,
            content.len()
        )
        .unwrap();
    }
    let mut input = import.stdin.take().unwrap();
    input.write_all(stream.as_bytes()).unwrap();
    drop(input);
    assert!(import.wait().unwrap().success());
    timed(git().args(["reset", "-q", "--hard"]));
}

/// What lies below `dir`, without directories of the name `without`.
fn mebibytes(dir: &Path, without: &str) -> u64 {
    let mut du = Command::new("du");
    let output = du
        .args(["-sm", "--exclude", without])
        .arg(dir)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}
