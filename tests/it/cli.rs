//! The command line: help, usage errors, exit statuses, and streams that are terminals, pipes or
//! nothing.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::project::Project;

/// Expects a usage error with this text.
#[track_caller]
fn check_usage(words: &[&str], expected: &str) {
    let finished = Project::new().args(words).failure(2);
    assert_eq!(finished.stdout(), "", "{words:?}");
    assert_eq!(finished.stderr(), expected, "{words:?}");
}

#[test]
fn help_names_every_flag() {
    let finished = Project::new().args(["--help"]).success();
    insta::assert_snapshot!(finished.stdout());
}

#[test]
fn the_version_is_one_line() {
    let finished = Project::new().args(["--version"]).success();
    assert_eq!(
        finished.stdout(),
        concat!("massgen ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn usage_errors_say_what_to_do() {
    let help = "hint: `massgen --help` shows what can be typed\n";
    check_usage(
        &["--modle", "x", "task"],
        &format!(
            "error: `--modle` is not a flag that is known here\nhint: did you mean `--model`?\n{help}"
        ),
    );
    check_usage(
        &["--cwd-context", "all", "task"],
        &format!("error: `all` is no value of `--cwd-context`: expected one of `ro`, `rw`\n{help}"),
    );
    check_usage(
        &["--orchestrator-timeout", "0", "task"],
        &format!(
            "error: `0` is no value of `--orchestrator-timeout`: expected whole seconds, at least 1\n\
             {help}"
        ),
    );
    check_usage(
        &["--config", "a", "--model", "b", "task"],
        &format!("error: `--config` and `--model` exclude each other\n{help}"),
    );
    check_usage(
        &["--config"],
        &format!("error: `--config` needs a value\n{help}"),
    );
    check_usage(
        &["config", "shwo"],
        "error: `shwo` is not a subcommand that is known here\n\
         hint: did you mean `show`?\n\
         hint: `massgen config --help` shows what can be typed\n",
    );
    check_usage(
        &["fix", "the", "bug"],
        "error: the task is more than one argument\n\
         hint: put it in quotes: massgen \"fix the bug\"\n",
    );
    check_usage(
        &["--config", "team.yaml", "explain"],
        "error: the subcommand `explain` cannot follow the flags of a run\n\
         hint: write it first: `massgen explain`\n\
         hint: if it is the task, write `massgen -- explain`\n",
    );
}

#[test]
fn without_a_task_an_example_is_shown() {
    check_usage(
        &[],
        "error: there is no task\n\
         hint: give one, in quotes: massgen --config @examples/basic/offline_demo \
         \"Write the report\"\n\
         hint: `massgen --help` shows what can be typed\n",
    );
}

#[test]
fn flags_of_the_peer_that_are_not_served_name_what_to_do_instead() {
    check_usage(
        &["--web", "task"],
        "error: `--web` is not in this version of massgen\n\
         hint: follow the run on the terminal, or with `--automation` through its `status.json`\n",
    );
    check_usage(
        &["--continue"],
        "error: `--continue` is not in this version of massgen\n\
         hint: each run stands for itself: give the whole task at once\n",
    );
    check_usage(
        &["serve"],
        "error: `serve` is not in this version of massgen\n\
         hint: follow the run on the terminal, or with `--automation` through its `status.json`\n\
         hint: if it is the task, write `massgen -- serve`\n",
    );
}

#[test]
fn words_that_are_not_text_are_refused() {
    let finished = Project::new()
        .args([OsStr::from_bytes(b"caf\xe9")])
        .failure(2);
    assert_eq!(
        finished.stderr(),
        "error: the argument `caf\u{fffd}` is not UTF-8\n\
         hint: give paths and tasks as UTF-8 text\n"
    );
    let finished = Project::new().args(["-"]).stdin(b"\xff\xfe").failure(2);
    assert!(
        finished
            .stderr()
            .starts_with("error: standard input is not UTF-8 text\n")
    );
}

#[test]
fn an_environment_that_is_not_text_is_passed_over() {
    let project = Project::new().env("ODD", OsStr::from_bytes(b"\xff"));
    let _finished = project.args(["--version"]).success();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let project = Project::new().args(["completions", "bash"]);
    let mut command = project.command();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child.stderr.unwrap().read_to_string(&mut stderr).unwrap();
    assert!(!first.is_empty());
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    let project = Project::new().args(["completions", "bash"]);
    let mut command = project.command();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = command.stdin(Stdio::null()).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.starts_with("error: the result could not be written"),
        "{stderr}"
    );
}

#[test]
fn closed_streams_are_no_panic() {
    let script = "\"$0\" --version >&- 2>&-; echo $?; \"$0\" --nonsense >&- 2>&-; echo $?";
    let project = Project::new();
    let binary = project.command().get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    let output = shell
        .args([OsStr::new("-c"), OsStr::new(script), &binary])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "0\n2\n");
}

#[test]
fn colours_are_for_terminals_whose_user_wants_them() {
    let typed = || Project::new().args(["--nonsense"]).env("TERM", "xterm");
    let red = "\u{1b}[31merror\u{1b}[0m: ";
    let on_terminal = typed().on_terminal();
    assert!(
        on_terminal.stdout().contains(red),
        "{:?}",
        on_terminal.stdout()
    );
    assert_eq!(on_terminal.code(), Some(2));
    let unwanted = typed().env("NO_COLOR", "1").on_terminal();
    assert!(
        unwanted.stdout().starts_with("error: "),
        "{:?}",
        unwanted.stdout()
    );
    let dumb = typed().env("TERM", "dumb").on_terminal();
    assert!(dumb.stdout().starts_with("error: "), "{:?}", dumb.stdout());
    let piped = typed().failure(2);
    assert!(
        piped.stderr().starts_with("error: "),
        "{:?}",
        piped.stderr()
    );
}

#[test]
fn completions_and_manual_know_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Project::new().args(["completions", shell]).success();
        assert!(script.stdout().contains("orchestrator-timeout"), "{shell}");
    }
    let manual = Project::new().args(["man"]).success();
    let titles: Vec<&str> = manual
        .stdout()
        .lines()
        .filter_map(|line| line.strip_prefix(".TH ")?.split_whitespace().next())
        .collect();
    assert_eq!(
        titles,
        [
            "massgen",
            "massgen-config",
            "massgen-config-check",
            "massgen-config-examples",
            "massgen-config-show",
            "massgen-config-schema",
            "massgen-explain",
            "massgen-explain-path",
            "massgen-explain-prompt",
            "massgen-explain-calls",
            "massgen-tool",
            "massgen-completions",
            "massgen-man",
        ]
    );
}
