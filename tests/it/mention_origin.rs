//! Which mentions open a path: those that the user typed, and no others.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;

use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, team};
use crate::terminal::{CTRL_C, CTRL_D, ENTER, Terminal, UP, words};

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
fn a_mention_opens_the_only_file_with_another_spelling() {
    let check = |files: &[&str], expected: &str| {
        let project = files
            .iter()
            .fold(Project::new(), |project, file| project.file(file, "x"));
        let arguments = [
            "explain",
            "prompt",
            "Read @\"shot 1.01 AM.txt\" now",
            "--json",
        ];
        let finished = project.args(arguments).success();
        assert!(
            finished.stdout().contains(expected),
            "{}",
            finished.stdout()
        );
    };
    let spelled = "shot 1.01\u{202f}AM.txt";
    check(
        &[spelled],
        "shot 1.01\u{202f}AM.txt\",\"permission\":\"read\"}]",
    );
    check(&[spelled, "shot 1.01\u{a0}AM.txt"], "\"context_paths\":[]");
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

/// Returns a clone with symlinks that lead elsewhere than their names say.
fn clone_with_links(project: Project) -> Project {
    project
        .dir(".git/hooks")
        .file(".git/config", "")
        .file(".env", "TOKEN=1")
        .file("private/x", "x")
        .file("src/main.rs", "main")
        .file("node_modules/.store/pkg/index.js", "x")
        .dir("sub")
        .home_file("key", "KEY")
        .home_file("lib/a.txt", "a")
        .link("settings.ini", ".git/config")
        .link("docs", ".git")
        .link("chain", "sub/next")
        .link("sub/next", "../docs")
        .link("guide.md", "../home/key")
        .link("lib", "../home/lib")
        .link("env.txt", ".env")
        .link("sources", "src")
        .link("node_modules/pkg", ".store/pkg")
        .link("sub/secret", "../private")
}

/// The replies of an agent whose only task is to be previewed.
const PREVIEWED: &str = "- calls: [{name: new_answer, arguments: {content: done}}]\n";

#[test]
fn a_symlink_of_a_project_leads_a_mention_nowhere_unasked() {
    let git = "where `.git` is protected";
    for (task, reason) in [
        ("improve @settings.ini:w", git),
        ("read @settings.ini", git),
        ("improve @docs/:w", git),
        ("read @docs/config", git),
        ("read @chain", git),
        ("read @sub/next/hooks", git),
        ("read @env.txt", "where `.env` is protected"),
        ("read @guide.md", "out of"),
        ("improve @guide.md:w", "out of"),
        ("read @lib/a.txt", "out of"),
        ("read @lib/", "out of"),
    ] {
        let refused = clone_with_links(preview(&[task], "")).failure(2);
        let stderr = refused.stderr();
        assert!(stderr.contains(reason), "{task}: {stderr}");
        assert!(stderr.contains("mention it by that path"), "{stderr}");
        // The name that the user wrote is not the place that would be opened.
        assert!(
            stderr.contains(", to `") || stderr.contains(" to `"),
            "{stderr}"
        );
    }
    // Controls: other symlinks, and places that are named themselves.
    for task in [
        "improve @sources/:w",
        "read @sources/main.rs",
        "read @node_modules/pkg/index.js",
        "read @.git/config and @.env",
        "read @sub/secret/x",
        "read @../home/key",
        "read @sub/../src/main.rs",
    ] {
        drop(clone_with_links(preview(&[task], "")).success());
    }
    // A symlink outside of a project is the user's own, also on the way to it.
    let own = clone_with_links(
        Project::new().file("team.yaml", team(&[agent("a", "cwd: w", PREVIEWED)], "")),
    );
    std::os::unix::fs::symlink(own.path(""), own.home("proj")).unwrap();
    std::os::unix::fs::symlink("key", own.home("own")).unwrap();
    for (task, status) in [
        ("read @~/own", 0),
        ("read @~/proj/src/main.rs", 0),
        ("read @~/proj/guide.md", 2),
        ("read @~/proj/docs", 2),
    ] {
        let mut command = own.command();
        command.args(["--config", "team.yaml", "--dry-run", task]);
        assert_eq!(command.status().unwrap().code(), Some(status), "{task}");
    }
    // From another directory, the project is still the one that the symlink belongs to.
    for (directory, task, status) in [
        ("sub", "read @../guide.md", 2),
        ("sub", "read @../sources/main.rs", 0),
        ("../home", "read @../project/settings.ini", 2),
    ] {
        let mut command = own.command();
        command.current_dir(own.path(directory));
        command.arg("--config").arg(own.path("team.yaml"));
        command.args(["--dry-run", task]);
        if directory != "sub" {
            command.env("HOME", "/nowhere");
        }
        assert_eq!(command.status().unwrap().code(), Some(status), "{task}");
    }
}

#[test]
fn a_symlink_of_a_project_leads_a_config_nowhere() {
    let context = |path: &str| {
        format!("orchestrator: {{context_paths: [{{path: {path}, permission: write}}]}}\n")
    };
    for (path, reason) in [
        ("docs", "where `.git` is protected"),
        ("./sub/next", "where `.git` is protected"),
        ("lib", "out of"),
    ] {
        let refused = clone_with_links(preview(&["x"], &context(path))).failure(2);
        let stderr = refused.stderr();
        assert!(stderr.contains(reason), "{path}: {stderr}");
        assert!(stderr.contains("in the config by that path"), "{stderr}");
    }
    for path in ["sources", "src", ".git/hooks", "../home/lib"] {
        drop(clone_with_links(preview(&["x"], &context(path))).success());
    }
    let hidden =
        "orchestrator: {context_paths: [{path: ., hidden_paths: [private]}, {path: sub/secret}]}\n";
    let refused = clone_with_links(preview(&["x"], hidden)).failure(2);
    assert!(
        refused.stderr().contains("hidden from agents"),
        "{}",
        refused.stderr()
    );
    let named = hidden.replace("sub/secret", "private");
    drop(clone_with_links(preview(&["x"], &named)).success());
}

#[test]
fn a_symlink_of_a_project_leads_a_workspace_nowhere() {
    let preview_in = |workspace: &str| {
        let project = Project::new().dir("own").link("later", "../home/later");
        let project = clone_with_links(project);
        let cwd = format!("cwd: {}", project.path(workspace).display());
        let project = project.config(&team(&[agent("a", &cwd, PREVIEWED)], ""));
        project.args(["--config", ".massgen/config.yaml", "--dry-run", "x"])
    };
    for (workspace, reason) in [
        ("lib", "out of"),
        ("later", "out of"),
        ("docs/hooks", "where `.git` is protected"),
    ] {
        let refused = preview_in(workspace).failure(2);
        let stderr = refused.stderr();
        assert!(stderr.contains(reason), "{workspace}: {stderr}");
    }
    for workspace in ["own", "sources", "private"] {
        drop(preview_in(workspace).success());
    }
}

#[test]
fn a_path_inside_another_keeps_what_that_one_closes_unless_the_user_says_otherwise() {
    let open = |rest: &str| {
        format!(
            "orchestrator: {{context_paths: [{{path: ., permission: write, hidden_paths: [private], protected_paths: [src/main.rs]{rest}}}]}}\n"
        )
    };
    for (task, reason) in [
        ("x @.git/hooks/:w", "the name is protected"),
        ("x @.git:w", "the name is protected"),
        ("x @.git/config:w", "the name is protected"),
        ("x @.env:w", "the name is protected"),
        ("x @src/main.rs:w", "the config or the run protects it"),
        ("x @private/x", "hidden from agents"),
        ("x @private", "hidden from agents"),
        ("x @sub/secret/x", "hidden from agents"),
    ] {
        let refused = clone_with_links(preview(&[task], &open(""))).failure(2);
        let stderr = refused.stderr();
        assert!(stderr.contains(reason), "{task}: {stderr}");
        assert!(stderr.contains("context_paths"), "{task}: {stderr}");
    }
    for (task, rest) in [
        ("x @.git/hooks and @.env", ""),
        ("x @src/:w", ""),
        ("x @.git/hooks/:w", ", unprotected: [.git]"),
        ("x @private/x", "}, {path: private"),
        (
            "x @.git/hooks/x:w",
            "}, {path: .git/hooks, permission: write",
        ),
    ] {
        drop(clone_with_links(preview(&[task], &open(rest))).success());
    }
    // A closed path closes what it leads to.
    let links = "orchestrator: {context_paths: [{path: ., permission: write, hidden_paths: [sub/secret], protected_paths: [sources]}]}\n";
    for (task, reason) in [
        ("x @private/x", "hidden from agents"),
        ("x @src/main.rs:w", "the config or the run protects it"),
    ] {
        let refused = clone_with_links(preview(&[task], links)).failure(2);
        assert!(refused.stderr().contains(reason), "{task}");
    }
    drop(clone_with_links(preview(&["x @src/main.rs"], links)).success());
    // What was listed for reading is not open for writing.
    let rest = open("}, {path: .git, permission: read");
    drop(clone_with_links(preview(&["x @.git/hooks/:w"], &rest)).failure(2));
}

#[test]
fn a_question_shows_where_a_mention_leads_and_an_answer_opens_that_place() {
    for (mention, target, is_home) in [
        ("@guide.md:w", "key", true),
        ("@settings.ini:w", ".git/config", false),
    ] {
        let config = team(&[agent("a", "cwd: w", ANSWERS)], "");
        let mut terminal = session(clone_with_links(Project::new().config(&config)));
        let place = if is_home {
            terminal.project().home(target).display().to_string()
        } else {
            format!("[PROJECT]/{target}")
        };
        terminal.type_keys(&format!("fix {mention}\r"));
        terminal.wait_for_output(&format!("open `{place}` for writing?"));
        terminal.type_keys("\r");
        terminal.wait_for_output("mention it by that path");
        terminal.wait_for_prompt(&[">"]);
        let open = open_paths(&mut terminal);
        assert!(!open.contains("write  "), "{open}");
        terminal.type_keys(&format!("fix {mention} now\r"));
        terminal.wait(
            || terminal.all_output().matches("for writing?").count() == 2,
            || "the second question".to_owned(),
        );
        terminal.type_keys("y\r");
        terminal.wait_for_output("done: ");
        terminal.wait_for_prompt(&[">"]);
        // It is asked once.
        terminal.type_keys(&format!("again {mention}\r"));
        let ended = || terminal.all_output().matches("\ndone: ").count();
        terminal.wait(|| ended() == 2, || "two turns".to_owned());
        terminal.wait_for_prompt(&[">"]);
        let open = open_paths(&mut terminal);
        let is_open = words(&open).contains("write [PROJECT]") && open.contains(target);
        assert!(is_open, "{open}");
    }
}
