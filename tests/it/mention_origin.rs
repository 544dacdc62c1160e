//! Which mentions open a path: those that the user typed, and no others.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;

use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, team};
use crate::terminal::{CTRL_C, CTRL_D, ENTER, Terminal, UP};

/// Replies of an agent that only answers.
const ANSWERS: &str = "- {calls: [{name: new_answer, arguments: {content: done}}], repeat: true}";

/// Returns a project with files that can be mentioned, and a key in the user's home directory.
fn project() -> Project {
    Project::new()
        .config(&team(&[agent("a", "cwd: w", ANSWERS)], ""))
        .file("README.md", "hi")
        .file("src/main.rs", "main")
        .home_file(".ssh/id_rsa", "KEY")
}

/// Returns the dry run whose task is `arguments` and `piped`.
fn dry_run(arguments: &[&str], piped: &str) -> FinishedCommand {
    let arguments = ["--dry-run"].iter().chain(arguments);
    project().args(arguments).stdin(piped).success()
}

#[test]
fn piped_text_opens_nothing() {
    let piped = "commit 1\n\n    fix @~/.ssh/id_rsa, @README.md:w and @src/\n";
    for arguments in [&["Summarise", "-"][..], &["-"], &["-", "See @src/main.rs"]] {
        let planned = dry_run(arguments, piped);
        let output = format!("{}{}", planned.stdout(), planned.stderr());
        let opened: Vec<&str> = planned
            .stdout()
            .lines()
            .filter(|line| line.contains("id_rsa") || line.contains("README.md"))
            .filter(|line| line.contains("read ") || line.contains("write "))
            .collect();
        assert_eq!(opened, Vec::<&str>::new(), "{arguments:?}: {output}");
        assert!(
            output.contains("standard input mentions"),
            "{arguments:?}: {output}"
        );
        assert!(output.contains("opens nothing"), "{arguments:?}: {output}");
    }
    // What the user typed next to it opens what it names.
    let planned = dry_run(&["See @src/main.rs", "-"], piped);
    let is_opened = |line: &str| line.contains("read ") && line.contains("src/main.rs");
    assert!(
        planned.stdout().lines().any(is_opened),
        "{}",
        planned.stdout()
    );
    // Text without mentions causes no message.
    let planned = dry_run(&["Summarise", "-"], "mail bob@host about @property");
    assert!(
        !planned.stderr().contains("standard input"),
        "{}",
        planned.stderr()
    );
}

/// Starts a session in which the current directory stays closed.
#[track_caller]
fn session(project: Project) -> Terminal {
    let project = project.env("TERM", "xterm").env("NO_COLOR", "1");
    let mut terminal = Terminal::open(project, 80);
    terminal.wait_for_output("/ [C]ustom path: ");
    terminal.type_keys("n\r");
    terminal.wait_for_prompt(&[">"]);
    terminal
}

/// Wraps `text` as a terminal marks pasted text.
fn bracketed_paste(text: &str) -> String {
    format!("\u{1b}[200~{text}\u{1b}[201~")
}

/// Returns what `/context` shows of the paths that the session has open.
#[track_caller]
fn open_paths(terminal: &mut Terminal) -> String {
    terminal.type_keys("/context\r");
    let is_command = |line: &String| line == "> /context";
    terminal.wait(
        || terminal.prompt() == [">"] && terminal.lines().iter().any(is_command),
        || "the open paths".to_owned(),
    );
    let lines = terminal.lines();
    let begin = lines.iter().rposition(is_command).unwrap();
    lines[begin..].join("\n")
}

/// Waits until the edited line is `line`, whatever choices are below it.
#[track_caller]
fn wait_for_line(terminal: &Terminal, line: &str) {
    terminal.wait(
        || terminal.prompt().first().is_some_and(|first| first == line),
        || format!("expected {line:?}"),
    );
}

#[test]
fn a_pasted_block_opens_nothing() {
    let mut terminal = session(project());
    terminal.type_keys(&bracketed_paste("Fix this:\n@README.md:w and @src/main.rs"));
    terminal.type_keys(ENTER);
    terminal.wait_for_output("the pasted text mentions");
    terminal.wait_for_output("opens nothing");
    terminal.wait_for_output("done: ");
    terminal.wait_for_prompt(&[">"]);
    // Recalled from the history, it opens nothing either.
    terminal.type_keys(UP);
    terminal.type_keys(ENTER);
    let ended = || terminal.all_output().matches("\ndone: ").count();
    terminal.wait(|| ended() == 2, || "two turns".to_owned());
    terminal.wait_for_prompt(&[">"]);
    // Typed, the same mention opens the file.
    terminal.type_keys("See @README.md now\r");
    let ended = || terminal.all_output().matches("\ndone: ").count();
    terminal.wait(|| ended() == 3, || "three turns".to_owned());
    terminal.wait_for_prompt(&[">"]);
    let open = open_paths(&mut terminal);
    assert!(open.contains("read  [PROJECT]/README.md"), "{open}");
    assert!(!open.contains("main.rs"), "{open}");
    terminal.type_keys(CTRL_D);
    drop(terminal.wait_for_end(0));
}

#[test]
fn a_pasted_mention_in_a_line_is_asked_about() {
    for (typed, text, answer, expected) in [
        ("Fix ", "@README.md:w", "\r", None),
        (
            "Fix ",
            "@README.md:w",
            "y\r",
            Some("write  [PROJECT]/README.md"),
        ),
        ("Fix @README.md", ":w", "n\r", None),
        (
            "Fix ",
            "@README.md",
            "yes\r",
            Some("read  [PROJECT]/README.md"),
        ),
    ] {
        let mut terminal = session(project());
        terminal.type_keys(typed);
        terminal.type_keys(&bracketed_paste(text));
        terminal.type_keys(ENTER);
        terminal.wait_for_output("the pasted text asks to ");
        terminal.wait_for_output("[y]es / [N]o (default): ");
        terminal.type_keys(answer);
        terminal.wait_for_output("done: ");
        terminal.wait_for_prompt(&[">"]);
        let open = open_paths(&mut terminal);
        match expected {
            Some(expected) => assert!(open.contains(expected), "{text} {answer:?}: {open}"),
            None => assert!(!open.contains("README.md"), "{text} {answer:?}: {open}"),
        }
    }
}

#[test]
fn text_that_is_cut_and_yanked_still_counts_as_pasted() {
    let mut terminal = session(project());
    terminal.type_keys(&bracketed_paste("Fix @README.md:w"));
    wait_for_line(&terminal, "> Fix @README.md:w");
    terminal.type_keys(CTRL_C);
    terminal.wait_for_prompt(&[">   press Ctrl-C again to exit"]);
    terminal.type_keys("\u{19}");
    wait_for_line(&terminal, "> Fix @README.md:w");
    terminal.type_keys(ENTER);
    terminal.wait_for_output("the pasted text asks to write");
    terminal.type_keys("n\r");
    terminal.wait_for_output("done: ");
    terminal.wait_for_prompt(&[">"]);
    let history = terminal
        .project()
        .path(".massgen/prompt_history/prompts.jsonl");
    let history = fs::read_to_string(history).unwrap();
    assert!(history.contains("\\\\@README.md:w"), "{history}");
}

#[test]
fn mentions_typed_during_a_turn_need_confirmation() {
    let replies = "- {delay_ms: 60000, text: late, when: {last: Wait}}\n\
                   - {calls: [{name: new_answer, arguments: {content: done}}], repeat: true}";
    let config = team(&[agent("a", "cwd: w", replies)], "");
    let mut terminal = session(project().config(&config));
    terminal.type_keys("Wait\r");
    terminal.wait_for_output("agents: a");
    terminal.type_keys("fix @README.md:w");
    terminal.type_keys(CTRL_C);
    terminal.wait_for_output("ended: ");
    wait_for_line(&terminal, "> fix @README.md:w");
    terminal.type_keys(ENTER);
    terminal.wait_for_output("the pasted text asks to write");
    terminal.type_keys("n\r");
    terminal.wait_for_output("done: ");
}

/// Returns a preview of a run with this task, for a team with `rest` in its config.
fn preview(task: &[&str], rest: &str) -> Project {
    let replies = "- calls: [{name: new_answer, arguments: {content: done}}]\n";
    let team = team(&[agent("a", "cwd: w", replies)], rest);
    Project::new()
        .file("team.yaml", team)
        .args(["--config", "team.yaml", "--dry-run"])
        .args(task)
}

#[test]
fn what_is_more_than_a_project_is_opened_by_a_config_alone() {
    for (task, broad) in [
        ("read @/etc", "`/etc` is a system directory"),
        ("change @/etc:w", "`/etc` is a system directory"),
        ("change @/proc/self/comm:w", "is a system directory"),
        ("change @.massgen/sessions:w", "is massgen's own state"),
        ("read @.massgen/sessions", "is massgen's own state"),
        // A symlink in a project may lead to such a directory.
        ("change @docs:w", "is your home directory"),
        ("read @above", "is a parent of your home directory"),
    ] {
        let project = preview(&[task], "").dir(".massgen/sessions");
        let linked = project.link("docs", "../home").link("above", "..");
        let refused = linked.failure(2);
        let stderr = refused.stderr();
        assert!(stderr.contains(broad), "{task}: {stderr}");
        assert!(stderr.contains("`allow_broad: true`"), "{task}: {stderr}");
    }
    let explained = Project::new().args(["explain", "prompt", "read @/etc and @/etc/passwd"]);
    let explained = explained.success();
    let refused = "/etc  (refused unless a config opens it: a system directory)\n";
    assert!(
        explained.stdout().contains(refused),
        "{}",
        explained.stdout()
    );
    assert!(
        explained
            .stdout()
            .contains("/etc/passwd  (outside the base directory)\n"),
        "{}",
        explained.stdout()
    );
    let home = |access: &str, rest: &str| {
        let project = preview(&["--cwd-context", access, "tidy"], rest);
        let cwd = project.path("");
        project.env("HOME", cwd.to_str().unwrap().trim_end_matches('/'))
    };
    for access in ["ro", "rw"] {
        let refused = home(access, "").failure(2);
        let stderr = refused.stderr();
        assert!(stderr.contains("is your home directory"), "{stderr}");
    }
    // Controls: a file for reading, a project, logs, and what the config opens deliberately.
    let opened = |path: &str, permission: &str| {
        format!(
            "orchestrator:\n  context_paths: [{{path: {path}, permission: {permission}, \
             allow_broad: true}}]\n"
        )
    };
    let files = |project: Project| {
        let project = project.dir("src").dir(".massgen/massgen_logs");
        project.link("sources", "src")
    };
    for task in [
        "read @/etc/passwd",
        "change @src:w",
        "change @sources:w",
        "read @.massgen/massgen_logs",
    ] {
        drop(files(preview(&[task], "")).success());
    }
    drop(preview(&["--cwd-context", "rw", "tidy"], "").success());
    drop(preview(&["read @/etc"], &opened("/etc", "read")).success());
    drop(home("ro", &opened(".", "read")).success());
    // A config that opens it for reading does not open it for writing.
    drop(preview(&["change @/etc:w"], &opened("/etc", "read")).failure(2));
}
