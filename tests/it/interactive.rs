//! The interactive session: turns, questions, commands, and the keys during a turn.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::project::{Project, logged_events};
use crate::scripted_team::{agent, team};
use crate::sessions;
use crate::terminal::{CTRL_C, CTRL_D, ENTER, ESCAPE, TAB, Terminal, UP};

/// Ctrl-U, which removes the line before the cursor.
const CLEAR_LINE: &str = "\u{15}";
/// Replies of an agent that only answers.
const ANSWERS: &str = "- {calls: [{name: new_answer, arguments: {content: done}}], repeat: true}";

/// Starts `project` on a terminal without colours.
fn typed(project: Project) -> Project {
    project.env("TERM", "xterm").env("NO_COLOR", "1")
}

/// Returns a project whose agent has no files and gives these replies.
fn project(replies: &str) -> Project {
    typed(Project::new().config(&team(&[agent("a", "", replies)], "")))
}

/// Returns a project whose agent has files and gives these replies.
fn with_files(replies: &str) -> Project {
    let config = team(&[agent("a", "cwd: w", replies)], "");
    typed(Project::new().config(&config).file("src/main.rs", "main"))
}

/// Starts a session and waits for its prompt.
#[track_caller]
fn session(project: Project) -> Terminal {
    let terminal = Terminal::open(project, 80);
    terminal.shows(&[">"]);
    terminal
}

/// Starts a session in which the current directory stays closed.
#[track_caller]
fn closed_session(project: Project) -> Terminal {
    let mut terminal = Terminal::open(project, 80);
    terminal.asks("/ [C]ustom path: ");
    terminal.types("n\r");
    terminal.shows(&[">"]);
    terminal
}

/// Types a prompt and waits for the next one; the turn is the session's `count`th.
#[track_caller]
fn turn(terminal: &mut Terminal, prompt: &str, count: usize) {
    terminal.types(prompt);
    terminal.wait(
        || terminal.prompt().join("").contains(prompt),
        || prompt.to_owned(),
    );
    terminal.types(ENTER);
    let ended = || terminal.written().matches("\ndone: ").count();
    terminal.wait(
        || ended() == count,
        || format!("{count} turns that are done"),
    );
    terminal.shows(&[">"]);
}

#[test]
fn paths_accumulate_over_the_turns_that_are_typed() {
    let mut terminal = closed_session(typed(sessions::project()));
    turn(&mut terminal, "Review @src/main.py", 1);
    turn(&mut terminal, "Now check @tests/test_main.py:w too", 2);
    turn(&mut terminal, "Fix the bug", 3);
    let content = |path: &str| fs::read_to_string(terminal.project().path(path)).unwrap();
    assert_eq!(content("tests/test_main.py"), "fixed\n");
    turn(&mut terminal, "Also update @docs/README.md:w", 4);
    let content = |path: &str| fs::read_to_string(terminal.project().path(path)).unwrap();
    assert_eq!(content("docs/README.md"), "updated\n");
    assert_eq!(content("src/main.py"), "print(1)\n");
    turn(&mut terminal, "Raise @src/main.py:w", 5);
    let content = |path: &str| fs::read_to_string(terminal.project().path(path)).unwrap();
    assert_eq!(content("src/main.py"), "print(2)\n");
    terminal.types("/context\r\r");
    terminal.says("  1  write  [PROJECT]/src/main.py  turn 5");
    terminal.says("  2  write  [PROJECT]/tests/test_main.py  turn 2");
    terminal.says("  3  write  [PROJECT]/docs/README.md  turn 4");
    terminal.types("/context remove 2\r");
    terminal.says("[PROJECT]/tests/test_main.py is closed starting with the next turn");
    terminal.types("/context remove 9\r");
    terminal.says("`9` is not a path that can be closed");
    terminal.types(CTRL_D);
    let project = terminal.ends(0);
    let shown = project.retyped(["sessions", "list"]).success();
    assert_eq!(shown.stdout().lines().count(), 1, "{}", shown.stdout());
    assert!(shown.stdout().contains("5 turns"), "{}", shown.stdout());
}

/// Replies of an agent that writes `src/new.rs` when it presents.
const WRITES: &str = r#"
- when: {system: "the final agent", last: "Write"}
  calls: [{name: write_file, arguments: {path: "{{cwd}}/src/new.rs", content: "written"}}]
- when: {system: "the final agent"}
  text: "presented"
  repeat: true
- calls: [{name: new_answer, arguments: {content: done}}]
  repeat: true
"#;

#[test]
fn enter_opens_the_current_directory() {
    let mut terminal = Terminal::open(with_files(WRITES), 80);
    terminal.says("Add current directory as context path?\r\n   [PROJECT]\r\n");
    terminal.says("   [Y]es (default) / [N]o / [C]ustom path: ");
    terminal.types(ENTER);
    terminal.says("✓ Added [PROJECT] (write)");
    terminal.shows(&[">"]);
    turn(&mut terminal, "Write it", 1);
    let written = fs::read_to_string(terminal.project().path("src/new.rs")).unwrap();
    assert_eq!(written, "written");
    terminal.types("/files\r");
    let delivered_count = || terminal.written().matches("created  ").count();
    terminal.wait(
        || delivered_count() == 2,
        || "what was delivered".to_owned(),
    );
    terminal.shows(&[">"]);
    terminal.types(CTRL_D);
    let again = Terminal::open(terminal.ends(0).retyped(["--continue"]), 80);
    again.shows(&[">"]);
    assert!(
        !again.written().contains("Add current directory"),
        "{}",
        again.written()
    );
    again.says("turn 2");
}

#[test]
fn a_delivery_is_reviewed_before_and_undone_after() {
    let config = team(&[agent("a", "cwd: w", WRITES)], "delivery: review");
    let project = typed(Project::new().config(&config)).env("PAGER", "cat");
    let mut terminal = session(project.args(["--cwd-context", "rw"]).dir("src"));
    terminal.types("Write it\r");
    terminal.says("[n]othing?");
    terminal.types("a\r");
    terminal.says("1 file delivered");
    terminal.shows(&[">"]);
    assert!(terminal.project().path("src/new.rs").exists());
    terminal.types("/diff\r");
    terminal.says("+written");
    terminal.shows(&[">"]);
    terminal.types("/undo\r");
    terminal.says("removed src/new.rs");
    terminal.shows(&[">"]);
    assert!(!terminal.project().path("src/new.rs").exists());
}

#[test]
fn paths_protected_at_the_first_question_are_not_written() {
    let mut terminal = Terminal::open(with_files(WRITES), 80);
    terminal.says("/ [C]ustom path: ");
    terminal.types("p\r");
    terminal.says("separated by commas: ");
    terminal.types("../other\r");
    terminal.says("`../other` is not a path inside `[PROJECT]`");
    terminal.types("src\r");
    terminal.says("✓ Added [PROJECT] (write; protected: src)");
    terminal.shows(&[">"]);
    terminal.types("Write it\r");
    terminal.says("1 refused");
    assert!(!terminal.project().path("src/new.rs").exists());
}

#[test]
fn another_directory_can_be_opened() {
    const WHICH: &str = "   path: ";
    let project = with_files(WRITES).home_file("library/a.txt", "a");
    let mut terminal = Terminal::open(project, 80);
    terminal.asks("/ [C]ustom path: ");
    terminal.types("maybe\r");
    terminal.says("expected `y`, `n`, `c` or `p`");
    terminal.asks("/ [C]ustom path: ");
    terminal.types("c\r");
    terminal.asks(WHICH);
    terminal.types("~/nowhere\r");
    terminal.says("is not a readable directory");
    terminal.asks(WHICH);
    terminal.types("src/main.rs\r");
    terminal.says("is a file: mention it in a prompt");
    for (typed, refusal) in [
        ("/etc", "`/etc` is a system directory"),
        ("/", "`/` is a system directory"),
        ("~", "is your home directory"),
        ("..", "is a parent of your home directory"),
    ] {
        terminal.asks(WHICH);
        terminal.types(&format!("{typed}\r"));
        terminal.says(refusal);
    }
    terminal.asks(WHICH);
    terminal.types("~/library\r");
    terminal.asks("[W]rite (default) / [R]ead: ");
    terminal.types("r\r");
    terminal.says("/home/library (read)");
    terminal.shows(&[">"]);
}

#[test]
fn the_first_question_is_skipped_if_a_path_is_open() {
    let agents = [agent("a", "cwd: w", ANSWERS)];
    let listed = "orchestrator:\n  context_paths: [{path: ., permission: read}]";
    let terminal = session(typed(Project::new().config(&team(&agents, listed))));
    assert!(!terminal.written().contains("Add current directory"));
    let given = with_files(ANSWERS).args(["--cwd-context", "ro"]);
    let terminal = session(given);
    assert!(!terminal.written().contains("Add current directory"));
    terminal.says("(read)");
}

#[test]
fn a_pasted_text_is_one_prompt() {
    let replies = "- when: {last: \"one\\ntwo\\nthree\"}\n  calls: [{name: new_answer, arguments: {content: all three}}]";
    let mut terminal = session(project(replies));
    terminal.types("\u{1b}[200~one\ntwo\r\nthree\u{1b}[201~");
    terminal.shows(&["> one", "two", "three"]);
    turn_as_it_stands(&mut terminal);
    terminal.says("all three");
    terminal.types(UP);
    terminal.shows(&["> one", "two", "three"]);
    terminal.types(CTRL_C);
    terminal.displays("press Ctrl-C again to exit");
    terminal.types("one\\\rtwo");
    terminal.shows(&["> one\\", "two"]);
}

/// Submits the current line, and waits for the next prompt.
#[track_caller]
fn turn_as_it_stands(terminal: &mut Terminal) {
    terminal.types(ENTER);
    terminal.says("done: ");
    terminal.shows(&[">"]);
}

#[test]
fn ctrl_c_stops_a_run_and_keeps_the_session() {
    let replies = "- {delay_ms: 60000, text: late, repeat: true}";
    let mut terminal = session(project(replies));
    terminal.types("Wait\r");
    terminal.says("agents: a");
    terminal.types("to all");
    terminal.types("\r");
    terminal.says("you to all: to all");
    terminal.types("the next words");
    terminal.says("you: the next words");
    terminal.types(CTRL_C);
    terminal.says("ended: ");
    terminal.shows(&["> the next words"]);
    terminal.types(CTRL_C);
    terminal.shows(&[">   press Ctrl-C again to exit"]);
    terminal.types(CTRL_C);
    drop(terminal.ends(0));
}

#[test]
fn an_error_of_a_turn_ends_nothing() {
    let replies = r#"
- when: {last: "missing.rs"}
  error: {message: "the line is cut"}
- calls: [{name: new_answer, arguments: {content: once}}]
"#;
    let mut terminal = session(project(replies));
    turn(&mut terminal, "First", 1);
    terminal.types("See @missing.rs\r");
    terminal.says("missing.rs` does not exist");
    terminal.says("the line is cut");
    terminal.shows(&[">"]);
    terminal.types("Open @/ please\r");
    terminal.says("would open all of `/`");
    terminal.shows(&[">"]);
    terminal.types("/contxt\r");
    terminal.says("did you mean `/context`?");
    terminal.types("quit\r");
    drop(terminal.ends(0));
}

#[test]
fn the_last_turn_can_be_looked_at() {
    let voting = |answer: &str| crate::scripted_team::answers(answer, "agent1", 0);
    let agents = [
        agent("ann", "", &voting("red")),
        agent("bob", "", &voting("blue")),
    ];
    let mut terminal = session(typed(Project::new().config(&team(&agents, ""))));
    terminal.types("/votes\r\r");
    terminal.says("this session has no turn yet");
    turn(&mut terminal, "Choose", 1);
    terminal.types("/votes\r\r");
    terminal.says("bob votes for ann");
    terminal.types("/cost\r\r");
    terminal.says("ann: 100 tokens read, 7 written");
    terminal.types("/files\r\r");
    terminal.says("no file was delivered");
    terminal.types("/inspect\r\r");
    terminal.wait(
        || terminal.written().matches("winner: ann").count() >= 3,
        || "the turn told again".to_owned(),
    );
    terminal.types("/status\r\r");
    terminal.says("turn 2");
    terminal.types("/reset\r\r");
    terminal.says("new session");
    terminal.types("/resume\r\r");
    terminal.wait(
        || terminal.written().matches("turn 2").count() >= 2,
        || "the session resumed".to_owned(),
    );
}

#[test]
fn the_prompt_history_is_readable_only_by_the_user() {
    use std::os::unix::fs::PermissionsExt;
    let mut terminal = session(project(ANSWERS));
    turn(&mut terminal, "Remember me", 1);
    terminal.types(CTRL_D);
    let project = terminal.ends(0);
    let file = fs::metadata(project.path(".massgen/prompt_history/prompts.jsonl")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let mut terminal = session(project);
    terminal.types(UP);
    terminal.shows(&["> Remember me"]);
}

#[test]
fn a_history_that_came_with_the_project_is_not_recalled() {
    let planted = "\"!touch planted\"\n";
    let project = project(ANSWERS)
        .file(".massgen/prompt_history.jsonl", planted)
        .file(".massgen/prompt_history/prompts.jsonl", planted);
    let mut terminal = session(project);
    terminal.types(UP);
    terminal.types("Own words");
    terminal.shows(&["> Own words"]);
    terminal.types(ENTER);
    terminal.says("done: ");
    terminal.shows(&[">"]);
    terminal.types(UP);
    terminal.shows(&["> Own words"]);
    terminal.types(UP);
    terminal.types("!");
    terminal.shows(&["> Own words!"]);
}

#[test]
fn a_signal_during_a_shell_command_ends_the_session() {
    let mut terminal = session(project(ANSWERS).env("SHELL", "/bin/sh"));
    terminal.types("!echo begun; sleep 1\r");
    terminal.says("begun\r\n");
    let process = rustix::process::Pid::from_raw(terminal.process().cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let _project = terminal.ends(130);
}

#[test]
fn screen_reader_mode_prints_plain_lines() {
    let plain = [
        ("MASSGEN_SCREEN_READER", "1", &[][..]),
        ("LANG", "C", &["--screen-reader"][..]),
    ];
    for (name, value, words) in plain {
        let project = project(ANSWERS).env(name, value).args(words);
        let mut terminal = session(project.file("src/main.rs", "").file("src/manager.rs", ""));
        terminal.types("See @src/ma");
        terminal.shows(&["> See @src/ma"]);
        // On a busy machine, the files may not have been found yet.
        let is_listed = |terminal: &Terminal| terminal.written().contains("@src/main.rs");
        for looks in 0.. {
            if is_listed(&terminal) {
                break;
            }
            if looks % 200 == 0 {
                terminal.types(TAB);
            }
            assert!(looks < 24_000, "{}", terminal.written());
            sleep(Duration::from_millis(5));
        }
        terminal.says("@src/manager.rs");
        terminal.types("i\t");
        terminal.shows(&["> See @src/main.rs"]);
        let written = terminal.written();
        assert!(
            !written.contains("directory") && !written.contains("Esc closes"),
            "{written}"
        );
        turn_as_it_stands(&mut terminal);
        terminal.types(CTRL_C);
        terminal.says("press Ctrl-C again to exit");
        terminal.types(CTRL_C);
        drop(terminal.ends(0));
    }
}

#[test]
fn a_simple_terminal_gets_one_line_after_the_other() {
    let replies = "- {when: {last: \"main.rs\\nand what\\nfollows it\"}, calls: [{name: new_answer, arguments: {content: x}}]}";
    let project = project(replies).env("TERM", "dumb").file("src/main.rs", "");
    let mut terminal = session(project);
    terminal.types("See @src/main.rs\nand what\nfollows it\n");
    terminal.says("done: ");
    terminal.shows(&[">"]);
    let written = terminal.written();
    assert!(!written.contains('\u{1b}'), "{written:?}");
    terminal.types(CTRL_C);
    terminal.says("press Ctrl-C again to exit");
    terminal.types(CTRL_C);
    drop(terminal.ends(0));
}

#[test]
fn colours_are_shown_where_they_are_wanted() {
    let colourful = Project::new().config(&team(&[agent("a", "", ANSWERS)], ""));
    let mut terminal = Terminal::open(colourful.env("TERM", "xterm").file("main.rs", ""), 80);
    terminal.says("\u{1b}[1m> \u{1b}[0m");
    terminal.types("@ma");
    terminal.says("\u{1b}[1m > main.rs");
    terminal.types(ESCAPE);
    let mut terminal = session(project(ANSWERS));
    terminal.types("/he");
    terminal.says("Esc closes");
    assert!(
        !terminal.written().contains("\u{1b}[1m"),
        "{}",
        terminal.written()
    );
}

#[test]
fn a_session_that_is_terminated_ends() {
    let terminal = session(project(ANSWERS));
    let process = i32::try_from(terminal.process()).unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    drop(terminal.ends(130));
}

#[test]
fn the_final_answer_is_shown_once() {
    let replies = r#"
- when: {system: "the final agent"}
  text: "spoken and\npresented"
- calls: [{name: new_answer, arguments: {content: done}}]
"#;
    let mut terminal = Terminal::open(with_files(replies), 80);
    terminal.says("/ [C]ustom path: ");
    terminal.types(ENTER);
    terminal.shows(&[">"]);
    turn(&mut terminal, "Say it", 1);
    let written = terminal.written();
    assert_eq!(written.matches("spoken and").count(), 1, "{written}");
    assert_eq!(written.matches("presented").count(), 1, "{written}");
    assert!(
        written.contains("\nspoken and\r\npresented\r\n"),
        "{written}"
    );
}

#[test]
fn a_removed_session_is_reported_and_a_new_one_begins() {
    let mut terminal = session(project(ANSWERS));
    turn(&mut terminal, "One", 1);
    let mut words = terminal.project().command();
    words.args(["sessions", "delete", "last"]);
    let refused = words.output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("is open in another process"), "{stderr}");
    turn(&mut terminal, "Two", 2);
    fs::remove_dir_all(terminal.project().path(".massgen/sessions")).unwrap();
    turn(&mut terminal, "Three", 3);
    terminal.says("was removed: starting a new one without its turns");
    turn(&mut terminal, "Four", 4);
    terminal.types(CTRL_D);
    let project = terminal.ends(0);
    let shown = project.retyped(["sessions", "list"]).success();
    assert_eq!(shown.stdout().lines().count(), 1, "{}", shown.stdout());
    assert!(shown.stdout().contains("2 turns"), "{}", shown.stdout());
    let removed = shown.then(["sessions", "delete", "last"]).success();
    assert!(
        removed.stderr().contains("removed session_"),
        "{}",
        removed.stderr()
    );
}

#[test]
fn an_interrupted_first_run_is_resumed_at_the_prompt() {
    let slow = "- delay_ms: 60000\n  text: late";
    let project = project(slow).args(["Begin"]);
    let mut command = project.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut waiting = command.spawn().unwrap();
    while !logged_events(&project).contains(r#""type":"model_request_started""#) {
        sleep(Duration::from_millis(10));
    }
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    let config = team(&[agent("a", "", ANSWERS)], "");
    fs::write(project.path(".massgen/config.yaml"), &config).unwrap();
    fs::write(project.path("again.yaml"), config).unwrap();
    let typed = project.retyped(["--config", "again.yaml", "--continue"]);
    let mut terminal = Terminal::open(typed, 80);
    terminal.says("resuming log_");
    terminal.says("\ndone: ");
    terminal.shows(&[">"]);
    turn(&mut terminal, "Next", 2);
    terminal.types(CTRL_D);
    let shown = terminal.ends(0).retyped(["sessions", "list"]).success();
    assert_eq!(shown.stdout().lines().count(), 1, "{}", shown.stdout());
    assert!(shown.stdout().contains("2 turns"), "{}", shown.stdout());
}

#[test]
fn the_level_in_force_is_shown() {
    let keys = "cwd: w\nenable_mcp_command_line: true\ncommand_line_sandbox: landlock";
    let config = team(&[agent("a", keys, ANSWERS)], "");
    let named = Project::new().file("team.yaml", config);
    let named = named.args(["--config", "team.yaml"]);
    let mut terminal = closed_session(typed(named));
    terminal.types("/status\r");
    let level = "  sandbox  level `landlock`: ";
    terminal.wait(
        || terminal.written().matches(level).count() == 2,
        || terminal.written(),
    );
}

/// Begins and ends a paste that the terminal marks.
const PASTE: &str = "\u{1b}[200~";
const PASTE_END: &str = "\u{1b}[201~";

#[test]
fn alt_enter_and_shift_enter_begin_a_new_line() {
    for key in ["\u{1b}\r", "\u{1b}[13;2u", "\u{1b}[27;2;13~"] {
        let mut terminal = session(project(ANSWERS));
        terminal.types("one");
        terminal.types(key);
        terminal.types("two~");
        terminal.shows(&["> one", "two~"]);
    }
}

#[test]
fn a_session_has_a_shell_an_editor_and_commands_for_paths_and_models() {
    let project = with_files(ANSWERS)
        .env("EDITOR", "sed -i s/draft/edited/")
        .env("SHELL", "/bin/sh");
    let mut terminal = closed_session(project);
    terminal.types("!echo $((40 + 2)) > made; cat made; exit 3\r");
    terminal.says("42\r\n");
    terminal.says("exit status 3");
    terminal.shows(&[">"]);
    terminal.types(&format!("{PASTE}!touch foreign{PASTE_END}"));
    terminal.shows(&["> !touch foreign"]);
    terminal.types(ENTER);
    terminal.says("the pasted text starts a shell command");
    terminal.types(UP);
    terminal.shows(&["> !echo $((40 + 2)) > made; cat made; exit 3"]);
    terminal.types(CLEAR_LINE);
    terminal.shows(&[">"]);
    terminal.types("/context add src write\r");
    terminal.says("✓ Added [PROJECT]/src (write)");
    terminal.types("/context add /etc write\r");
    terminal.says("`/etc` is a system directory");
    terminal.types("/context add nowhere\r");
    terminal.says("nowhere` does not exist");
    terminal.types("/model a other-model\r");
    terminal.says("  a: other-model (scripted)");
    terminal.types("/model b other-model\r");
    terminal.says("no agent has this name");
    terminal.shows(&[">"]);
    terminal.types("a draft\u{18}\u{5}");
    terminal.shows(&["> a edited"]);
    turn_as_it_stands(&mut terminal);
    terminal.types("/export out.tar.gz\r");
    terminal.wait(
        || terminal.project().path("out.tar.gz").exists(),
        || "an archive".to_owned(),
    );
    terminal.shows(&[">"]);
    terminal.types(CTRL_D);
    let project = terminal.ends(0);
    assert!(project.path("made").exists() && !project.path("foreign").exists());
    let mut again = Terminal::open(project.retyped(["--continue"]), 80);
    again.shows(&[">"]);
    assert!(!again.written().contains("Add current directory"));
    again.types("/cost\r");
    again.says("all: ");
}

#[test]
fn a_single_run_asks_about_the_current_directory() {
    let mut terminal = Terminal::open(with_files(WRITES).args(["Write it"]), 80);
    terminal.says(
        "📂 Context Paths:\r\n   No context paths configured\r\n\r\n\
         ❓ Add current directory as context path?\r\n   [PROJECT]\r\n",
    );
    terminal.says("   [Y]es (default) / [N]o / [C]ustom path:");
    terminal.types(ENTER);
    terminal.says("✓ Added [PROJECT] (write)");
    let project = terminal.ends(0);
    assert!(project.path("src/new.rs").exists());
    let named = project.retyped(["Look at @src"]);
    let terminal = Terminal::open(named, 80);
    terminal.says("done: ");
    assert!(!terminal.written().contains("Add current directory"));
}

#[test]
fn a_session_remembers_that_the_directory_stays_closed() {
    let replies = r#"
- when: {last: "</task>"}
  calls: [{name: write_file, arguments: {path: "made.txt", content: "made"}}]
- calls: [{name: new_answer, arguments: {content: done}}]
"#;
    let mut terminal = Terminal::open(with_files(replies).args(["Make it"]), 80);
    terminal.says("/ [C]ustom path:");
    terminal.types("n\r");
    terminal.says("done: ");
    terminal.says("to let the winner write here: ");
    terminal.says("--cwd-context rw");
    let written = terminal.written();
    let mut lines = written.lines();
    let command =
        lines.find_map(|line| line.strip_prefix("to copy its files to a new directory: "));
    let command = command.unwrap().trim();
    let project = terminal.ends(0);
    let copied = Command::new("bash")
        .args(["-c", command])
        .current_dir(project.path(""))
        .status();
    assert!(copied.unwrap().success(), "{command}");
    let copy = fs::read_to_string(project.path("massgen_files/made.txt"));
    assert_eq!(copy.unwrap(), "made");
    let terminal = Terminal::open(project.retyped(["--continue", "Again"]), 80);
    terminal.says("done: ");
    terminal.says("workspace massgen_files_2\r\n");
    assert!(!terminal.written().contains("Add current directory"));
}

#[test]
fn a_turn_that_was_stopped_is_resumed_only_if_the_user_agrees() {
    let slow = "- {delay_ms: 60000, text: late, repeat: true}";
    let mut terminal = session(project(slow));
    terminal.types("Wait\r");
    terminal.says("agents: a");
    terminal.types(CTRL_C);
    terminal.says("ended: ");
    terminal.shows(&[">"]);
    terminal.types(CTRL_D);
    let project = terminal.ends(0);
    let mut again = Terminal::open(project.retyped(["--continue"]), 80);
    again.says("The last turn was stopped. Resume it? [Y]es (default) / [N]o: ");
    again.types("n\r");
    again.shows(&[">"]);
    assert!(!again.written().contains("resuming log_"));
    again.types(CTRL_D);
    let config = team(&[agent("a", "", ANSWERS)], "");
    let project = again.ends(0).file("again.yaml", config);
    let mut again = Terminal::open(
        project.retyped(["--config", "again.yaml", "--continue"]),
        80,
    );
    again.says("Resume it?");
    again.types(ENTER);
    again.says("resuming log_");
    again.says("\ndone: ");
}
