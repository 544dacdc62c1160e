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
use crate::waiting::{WAIT_TIME_MAX, wait_until};

/// Ctrl-U, which removes the line before the cursor.
const CLEAR_LINE: &str = "\u{15}";
/// Replies of an agent that only answers.
const ANSWERS: &str = "- {calls: [{name: new_answer, arguments: {content: done}}], repeat: true}";

/// Starts `project` on a terminal without colours.
pub(crate) fn interactive_project(project: Project) -> Project {
    project.env("TERM", "xterm").env("NO_COLOR", "1")
}

/// Returns a project whose agent has no files and gives these replies.
fn project(replies: &str) -> Project {
    interactive_project(Project::new().config(&team(&[agent("a", "", replies)], "")))
}

/// Returns a project whose agent has files and gives these replies.
fn with_files(replies: &str) -> Project {
    let config = team(&[agent("a", "cwd: w", replies)], "");
    interactive_project(Project::new().config(&config).file("src/main.rs", "main"))
}

/// Starts a session and waits for its prompt.
#[track_caller]
fn session(project: Project) -> Terminal {
    let terminal = Terminal::open(project, 80);
    terminal.wait_for_prompt(&[">"]);
    terminal
}

/// Starts a session in which the current directory stays closed.
#[track_caller]
pub(crate) fn closed_session(project: Project) -> Terminal {
    let mut terminal = Terminal::open(project, 80);
    terminal.wait_for_question("/ [C]ustom path: ");
    terminal.type_keys("n\r");
    terminal.wait_for_prompt(&[">"]);
    terminal
}

/// Types a prompt and waits for the next one; the turn is the session's `count`th.
#[track_caller]
pub(crate) fn wait_for_turn(terminal: &mut Terminal, prompt: &str, count: usize) {
    terminal.type_keys(prompt);
    terminal.wait(
        || terminal.prompt().join("").contains(prompt),
        || prompt.to_owned(),
    );
    terminal.type_keys(ENTER);
    let ended = || terminal.all_output().matches("\ndone: ").count();
    terminal.wait(
        || ended() == count,
        || format!("{count} turns that are done"),
    );
    terminal.wait_for_prompt(&[">"]);
}

#[test]
fn paths_accumulate_over_the_turns_that_are_typed() {
    let mut terminal = closed_session(interactive_project(sessions::project()));
    wait_for_turn(&mut terminal, "Review @src/main.py", 1);
    wait_for_turn(&mut terminal, "Now check @tests/test_main.py:w too", 2);
    wait_for_turn(&mut terminal, "Fix the bug", 3);
    let content = |path: &str| fs::read_to_string(terminal.project().path(path)).unwrap();
    assert_eq!(content("tests/test_main.py"), "fixed\n");
    wait_for_turn(&mut terminal, "Also update @docs/README.md:w", 4);
    let content = |path: &str| fs::read_to_string(terminal.project().path(path)).unwrap();
    assert_eq!(content("docs/README.md"), "updated\n");
    assert_eq!(content("src/main.py"), "print(1)\n");
    wait_for_turn(&mut terminal, "Raise @src/main.py:w", 5);
    let content = |path: &str| fs::read_to_string(terminal.project().path(path)).unwrap();
    assert_eq!(content("src/main.py"), "print(2)\n");
    terminal.type_keys("/context\r\r");
    terminal.wait_for_output("  1  write  [PROJECT]/src/main.py  turn 5");
    terminal.wait_for_output("  2  write  [PROJECT]/tests/test_main.py  turn 2");
    terminal.wait_for_output("  3  write  [PROJECT]/docs/README.md  turn 4");
    terminal.type_keys("/context remove 2\r");
    terminal.wait_for_output("[PROJECT]/tests/test_main.py is closed starting with the next turn");
    terminal.type_keys("/context remove 9\r");
    terminal.wait_for_output("`9` is not a path that can be closed");
    terminal.type_keys(CTRL_D);
    let project = terminal.wait_for_end(0);
    let shown = project.retyped(["sessions", "list"]).success();
    assert_eq!(shown.stdout().lines().count(), 1, "{}", shown.stdout());
    assert!(shown.stdout().contains("5 turns"), "{}", shown.stdout());
}

/// Replies of an agent whose commands write to their home directory and `/tmp`, or look there.
pub(crate) const HOME_REPLIES: &str = r#"
- when: {last: "Look", contains: "as the last turn left it"}
  calls: [{name: execute_command, arguments: {command: "test -e /tmp/note || cat ~/note"}}]
- when: {last: "Look"}
  calls: [{name: execute_command, arguments: {command: "cat ~/note || echo absent"}}]
- when: {last: "Keep"}
  calls: [{name: execute_command, arguments: {command: "echo ke''pt | tee ~/note > /tmp/note"}}]
- when: {last: "kept"}
  calls: [{name: new_answer, arguments: {content: it is there}}]
- when: {last: "absent"}
  calls: [{name: new_answer, arguments: {content: it is gone}}]
- calls: [{name: new_answer, arguments: {content: done}}]
"#;

#[test]
fn the_home_of_commands_lasts_from_turn_to_turn_of_a_session() {
    let config = team(
        &[agent(
            "a",
            "cwd: w\nenable_mcp_command_line: true",
            HOME_REPLIES,
        )],
        "",
    );
    let mut terminal = closed_session(interactive_project(Project::new().config(&config)));
    wait_for_turn(&mut terminal, "Keep", 1);
    wait_for_turn(&mut terminal, "Look", 2);
    terminal.wait_for_output("it is there");
    wait_for_turn(&mut terminal, "Look again", 3);
    assert_eq!(terminal.all_output().matches("it is gone").count(), 0);
    terminal.type_keys("/reset\r\r");
    terminal.wait_for_output("new session");
    wait_for_turn(&mut terminal, "Look", 4);
    terminal.wait_for_output("it is gone");
    terminal.type_keys(CTRL_D);
    let project = terminal.wait_for_end(0);
    let left = fs::read_dir(project.path(".massgen/sandboxes")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

/// Replies of an agent that writes `src/new.rs` before it answers.
const WRITES: &str = r#"
- when: {last: "Write"}
  calls: [{name: write_file, arguments: {path: "{{cwd}}/src/new.rs", content: "written"}}]
- calls: [{name: new_answer, arguments: {content: done}}]
  repeat: true
"#;

#[test]
fn enter_opens_the_current_directory() {
    let mut terminal = Terminal::open(with_files(WRITES), 80);
    terminal.wait_for_output("Add current directory as context path?\r\n   [PROJECT]\r\n");
    terminal.wait_for_output("   [Y]es (default) / [N]o / [C]ustom path: ");
    terminal.type_keys(ENTER);
    terminal.wait_for_output("✓ Added [PROJECT] (write)");
    terminal.wait_for_prompt(&[">"]);
    wait_for_turn(&mut terminal, "Write it", 1);
    let written = fs::read_to_string(terminal.project().path("src/new.rs")).unwrap();
    assert_eq!(written, "written");
    terminal.type_keys("/files\r");
    let delivered_count = || terminal.all_output().matches("created ").count();
    terminal.wait(
        || delivered_count() == 2,
        || "what was delivered".to_owned(),
    );
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys(CTRL_D);
    let again = Terminal::open(terminal.wait_for_end(0).retyped(["--continue"]), 80);
    again.wait_for_prompt(&[">"]);
    assert!(
        !again.all_output().contains("Add current directory"),
        "{}",
        again.all_output()
    );
    again.wait_for_output("turn 2");
}

#[test]
fn a_delivery_is_reviewed_before_and_undone_after() {
    let config = team(&[agent("a", "cwd: w", WRITES)], "delivery: review");
    let project = interactive_project(Project::new().config(&config)).env("PAGER", "cat");
    let mut terminal = session(project.args(["--cwd-context", "rw"]).dir("src"));
    terminal.type_keys("Write it\r");
    terminal.wait_for_output("[n]othing?");
    terminal.type_keys("a\r");
    terminal.wait_for_output("1 file delivered");
    terminal.wait_for_prompt(&[">"]);
    assert!(terminal.project().path("src/new.rs").exists());
    terminal.type_keys("/diff\r");
    terminal.wait_for_output("+written");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("/undo\r");
    terminal.wait_for_output("undone src/new.rs: removed");
    terminal.wait_for_prompt(&[">"]);
    assert!(!terminal.project().path("src/new.rs").exists());
}

#[test]
fn paths_protected_at_the_first_question_are_not_written() {
    let mut terminal = Terminal::open(with_files(WRITES), 80);
    terminal.wait_for_output("/ [C]ustom path: ");
    terminal.type_keys("p\r");
    terminal.wait_for_output("separated by commas: ");
    terminal.type_keys("../other\r");
    terminal.wait_for_output("`../other` is not a path inside `[PROJECT]`");
    terminal.type_keys("src\r");
    terminal.wait_for_output("✓ Added [PROJECT] (write; protected: src)");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("Write it\r");
    terminal.wait_for_output("no file was delivered");
    assert!(!terminal.project().path("src/new.rs").exists());
}

#[test]
fn another_directory_can_be_opened() {
    const WHICH: &str = "   path: ";
    let project = with_files(WRITES).home_file("library/a.txt", "a");
    let mut terminal = Terminal::open(project, 80);
    terminal.wait_for_question("/ [C]ustom path: ");
    terminal.type_keys("maybe\r");
    terminal.wait_for_output("expected `y`, `n`, `c` or `p`; the prompt for your task follows");
    terminal.wait_for_question("/ [C]ustom path: ");
    terminal.type_keys("c\r");
    terminal.wait_for_question(WHICH);
    terminal.type_keys("~/nowhere\r");
    terminal.wait_for_output("is not a readable directory");
    terminal.wait_for_question(WHICH);
    terminal.type_keys("src/main.rs\r");
    terminal.wait_for_output("is a file: mention it in a prompt");
    for (typed, refusal) in [
        ("/etc", "`/etc` is a system directory"),
        ("/", "`/` is a system directory"),
        ("~", "is your home directory"),
        ("..", "is a parent of your home directory"),
    ] {
        terminal.wait_for_question(WHICH);
        terminal.type_keys(&format!("{typed}\r"));
        terminal.wait_for_output(refusal);
    }
    terminal.wait_for_question(WHICH);
    terminal.type_keys("~/library\r");
    terminal.wait_for_question("[W]rite (default) / [R]ead: ");
    terminal.type_keys("r\r");
    terminal.wait_for_output("/home/library (read)");
    terminal.wait_for_prompt(&[">"]);
}

#[test]
fn a_session_can_be_left_at_the_first_question() {
    for typed in ["/quit\r", "exit\r"] {
        let mut terminal = Terminal::open(with_files(WRITES), 80);
        terminal.wait_for_question("/ [C]ustom path: ");
        terminal.type_keys(typed);
        let _project = terminal.wait_for_end(0);
    }
}

#[test]
fn the_first_question_is_skipped_if_a_path_is_open() {
    let agents = [agent("a", "cwd: w", ANSWERS)];
    let listed = "orchestrator:\n  context_paths: [{path: ., permission: read}]";
    let terminal = session(interactive_project(
        Project::new().config(&team(&agents, listed)),
    ));
    assert!(!terminal.all_output().contains("Add current directory"));
    let project = with_files(ANSWERS).args(["--cwd-context", "ro"]);
    let terminal = session(project);
    assert!(!terminal.all_output().contains("Add current directory"));
    terminal.wait_for_output("(read)");
}

#[test]
fn a_pasted_text_is_one_prompt() {
    let replies = "- when: {last: \"one\\ntwo\\nthree\"}\n  calls: [{name: new_answer, arguments: {content: all three}}]";
    let mut terminal = session(project(replies));
    terminal.type_keys("\u{1b}[200~one\ntwo\r\nthree\u{1b}[201~");
    terminal.wait_for_prompt(&["> one", "two", "three"]);
    turn_as_it_stands(&mut terminal);
    terminal.wait_for_output("all three");
    terminal.type_keys(UP);
    terminal.wait_for_prompt(&["> one", "two", "three"]);
    terminal.type_keys(CTRL_C);
    terminal.wait_for_text("press Ctrl-C again to exit");
    terminal.type_keys("one\\\rtwo");
    terminal.wait_for_prompt(&["> one\\", "two"]);
}

/// Submits the current line, and waits for the next prompt.
#[track_caller]
fn turn_as_it_stands(terminal: &mut Terminal) {
    terminal.type_keys(ENTER);
    terminal.wait_for_output("done: ");
    terminal.wait_for_prompt(&[">"]);
}

#[test]
fn ctrl_c_stops_a_run_and_keeps_the_session() {
    let replies = "- {delay_ms: 60000, text: late, repeat: true}";
    let mut terminal = session(project(replies));
    terminal.type_keys("Wait\r");
    terminal.wait_for_output("agents: a");
    terminal.type_keys("to all");
    terminal.type_keys("\r");
    terminal.wait_for_output("you to all: to all");
    terminal.type_keys("the next words");
    terminal.wait_for_output("you: the next words");
    terminal.type_keys(CTRL_C);
    terminal.wait_for_output("ended: ");
    terminal.wait_for_prompt(&["> the next words"]);
    terminal.type_keys(CTRL_C);
    terminal.wait_for_prompt(&[">   press Ctrl-C again to exit"]);
    terminal.type_keys(CTRL_C);
    drop(terminal.wait_for_end(0));
}

#[test]
fn an_error_of_a_turn_ends_nothing() {
    let replies = r#"
- when: {last: "missing.rs"}
  error: {message: "the line is cut"}
- calls: [{name: new_answer, arguments: {content: once}}]
"#;
    let mut terminal = session(project(replies));
    wait_for_turn(&mut terminal, "First", 1);
    terminal.type_keys("See @missing.rs\r");
    terminal.wait_for_output("missing.rs`");
    terminal.wait_for_output("the line is cut");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("Open @/ please\r");
    terminal.wait_for_output("would open all of `/`");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("/contxt\r");
    terminal.wait_for_output("did you mean `/context`?");
    terminal.type_keys("quit\r");
    drop(terminal.wait_for_end(0));
}

#[test]
fn escape_twice_stops_a_turn_and_swallows_no_key() {
    let slow = "- {delay_ms: 60000, calls: [{name: new_answer, arguments: {content: done}}]}\n";
    let mut terminal = session(project(slow));
    terminal.type_keys("Wait\r");
    terminal.wait_for_output("waiting for a");
    terminal.type_keys(ESCAPE);
    terminal.wait_for_output("press Esc again to stop");
    terminal.type_keys("be brief");
    terminal.wait_for_output("you: be brief");
    terminal.type_keys(ESCAPE);
    terminal.wait(
        || {
            terminal
                .all_output()
                .matches("press Esc again to stop")
                .count()
                == 2
        },
        || "the note again".to_owned(),
    );
    terminal.type_keys(ESCAPE);
    terminal.wait_for_output("ended: ");
    terminal.wait_for_prompt(&["> be brief"]);
}

#[test]
fn the_last_turn_can_be_looked_at() {
    let voting = |answer: &str| crate::scripted_team::answer_replies(answer, "agent1", 0);
    let agents = [
        agent("ann", "", &voting("red")),
        agent("bob", "", &voting("blue")),
    ];
    let mut terminal = session(interactive_project(
        Project::new().config(&team(&agents, "")),
    ));
    terminal.type_keys("/votes\r\r");
    terminal.wait_for_output("this session has no turn yet");
    terminal.type_keys("Choose\r");
    terminal.wait_for_text("or Enter: back to the prompt");
    terminal.type_keys("q");
    terminal.wait_for_output("done: ");
    terminal.type_keys("/votes\r\r");
    terminal.wait_for_output("bob votes for ann");
    terminal.type_keys("/cost\r\r");
    terminal.wait_for_output("ann: 100 tokens read, 7 written");
    terminal.wait_for_output("session: 1 turn, ");
    terminal.type_keys("/files\r\r");
    terminal.wait_for_output("no file was delivered");
    terminal.type_keys("/inspect\r\r");
    terminal.wait(
        || terminal.all_output().matches("winner: ann").count() >= 3,
        || "the turn told again".to_owned(),
    );
    terminal.type_keys("/status\r\r");
    terminal.wait_for_output("turn 2");
    terminal.type_keys("/reset\r\r");
    terminal.wait_for_output("new session");
    let refusal = "this session has no turn yet";
    let earlier_count = terminal.all_output().matches(refusal).count();
    terminal.type_keys("/votes\r\r");
    terminal.wait(
        || terminal.all_output().matches(refusal).count() > earlier_count,
        || "no votes of the earlier session".to_owned(),
    );
    terminal.type_keys("/resume\r\r");
    terminal.wait(
        || terminal.all_output().matches("turn 2").count() >= 2,
        || "the session resumed".to_owned(),
    );
}

#[test]
fn the_prompt_history_is_readable_only_by_the_user() {
    use std::os::unix::fs::PermissionsExt;
    let mut terminal = session(project(ANSWERS));
    wait_for_turn(&mut terminal, "Remember me", 1);
    terminal.type_keys(CTRL_D);
    let project = terminal.wait_for_end(0);
    let file = fs::metadata(project.path(".massgen/prompt_history/prompts.jsonl")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let mut terminal = session(project);
    terminal.type_keys(UP);
    terminal.wait_for_prompt(&["> Remember me"]);
}

#[test]
fn a_history_that_came_with_the_project_is_not_recalled() {
    let planted = "\"!touch planted\"\n";
    let project = project(ANSWERS)
        .file(".massgen/prompt_history.jsonl", planted)
        .file(".massgen/prompt_history/prompts.jsonl", planted);
    let mut terminal = session(project);
    terminal.type_keys(UP);
    terminal.type_keys("Own words");
    terminal.wait_for_prompt(&["> Own words"]);
    terminal.type_keys(ENTER);
    terminal.wait_for_output("done: ");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys(UP);
    terminal.wait_for_prompt(&["> Own words"]);
    terminal.type_keys(UP);
    terminal.type_keys("!");
    terminal.wait_for_prompt(&["> Own words!"]);
}

#[test]
fn special_keys_that_are_typed_ahead_leave_no_text() {
    let project = project(ANSWERS).env("SHELL", "/bin/sh");
    let typed = project.path("typed");
    let mut terminal = session(project);
    terminal.type_keys("!echo beg''un; until test -e typed; do sleep 0.1; done\r");
    terminal.wait_for_output("begun\r\n");
    terminal.type_keys(&format!("{UP}ca{UP}ts"));
    fs::write(typed, "").unwrap();
    terminal.wait_for_prompt(&["> cats"]);
    terminal.type_keys(CLEAR_LINE);
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys(CTRL_D);
    let _project = terminal.wait_for_end(0);
}

#[test]
fn a_signal_during_a_shell_command_ends_the_session() {
    let mut terminal = session(project(ANSWERS).env("SHELL", "/bin/sh"));
    terminal.type_keys("!echo begun; sleep 1\r");
    terminal.wait_for_output("begun\r\n");
    let process = rustix::process::Pid::from_raw(terminal.process().cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let _project = terminal.wait_for_end(130);
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
        terminal.type_keys("See @src/ma");
        terminal.wait_for_prompt(&["> See @src/ma"]);
        // On a busy machine, the files may not have been found yet.
        let is_listed = |terminal: &Terminal| terminal.all_output().contains("@src/main.rs");
        for looks in 0.. {
            if is_listed(&terminal) {
                break;
            }
            if looks % 200 == 0 {
                terminal.type_keys(TAB);
            }
            assert!(looks < 24_000, "{}", terminal.all_output());
            sleep(Duration::from_millis(5));
        }
        terminal.wait_for_output("@src/manager.rs");
        terminal.type_keys("i\t");
        terminal.wait_for_prompt(&["> See @src/main.rs"]);
        let written = terminal.all_output();
        assert!(
            !written.contains("directory") && !written.contains("Esc closes"),
            "{written}"
        );
        turn_as_it_stands(&mut terminal);
        terminal.type_keys(CTRL_C);
        terminal.wait_for_output("press Ctrl-C again to exit");
        terminal.type_keys(CTRL_C);
        drop(terminal.wait_for_end(0));
    }
}

#[test]
fn a_simple_terminal_gets_one_line_after_the_other() {
    let replies = "- {when: {last: \"main.rs\\nand what\\nfollows it\"}, calls: [{name: new_answer, arguments: {content: x}}]}";
    let project = project(replies).env("TERM", "dumb").file("src/main.rs", "");
    let mut terminal = session(project);
    terminal.type_keys("See @src/main.rs\nand what\nfollows it\n");
    terminal.wait_for_output("done: ");
    terminal.wait_for_prompt(&[">"]);
    let written = terminal.all_output();
    assert!(!written.contains('\u{1b}'), "{written:?}");
    terminal.type_keys(CTRL_C);
    terminal.wait_for_output("press Ctrl-C again to exit");
    terminal.type_keys(CTRL_C);
    drop(terminal.wait_for_end(0));
}

#[test]
fn colours_are_shown_where_they_are_wanted() {
    let colourful = Project::new().config(&team(&[agent("a", "", ANSWERS)], ""));
    let mut terminal = Terminal::open(colourful.env("TERM", "xterm").file("main.rs", ""), 80);
    terminal.wait_for_output("\u{1b}[1m> \u{1b}[0m");
    terminal.type_keys("@ma");
    terminal.wait_for_output("\u{1b}[1m > main.rs");
    terminal.type_keys(ESCAPE);
    let mut terminal = session(project(ANSWERS));
    terminal.type_keys("/he");
    terminal.wait_for_output("Esc closes");
    assert!(
        !terminal.all_output().contains("\u{1b}[1m"),
        "{}",
        terminal.all_output()
    );
}

#[test]
fn a_session_that_is_terminated_ends() {
    let terminal = session(project(ANSWERS));
    let process = i32::try_from(terminal.process()).unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    drop(terminal.wait_for_end(130));
}

#[test]
fn the_final_answer_is_shown_once() {
    let replies = r#"
- when: {system: "the final agent"}
  text: "spoken and\npresented"
- calls: [{name: new_answer, arguments: {content: done}}]
"#;
    let rest = "orchestrator: {coordination: {write_mode: legacy}}";
    let config = team(&[agent("a", "cwd: w", replies)], rest);
    let mut terminal = Terminal::open(interactive_project(Project::new().config(&config)), 80);
    terminal.wait_for_output("/ [C]ustom path: ");
    terminal.type_keys(ENTER);
    terminal.wait_for_prompt(&[">"]);
    wait_for_turn(&mut terminal, "Say it", 1);
    let written = terminal.all_output();
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
    wait_for_turn(&mut terminal, "One", 1);
    let mut command = terminal.project().command();
    command.args(["sessions", "delete", "last"]);
    let refused = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("is open in another process"), "{stderr}");
    wait_for_turn(&mut terminal, "Two", 2);
    fs::remove_dir_all(terminal.project().path(".massgen/sessions")).unwrap();
    wait_for_turn(&mut terminal, "Three", 3);
    terminal.wait_for_output("was removed: starting a new");
    wait_for_turn(&mut terminal, "Four", 4);
    terminal.type_keys(CTRL_D);
    let project = terminal.wait_for_end(0);
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
    wait_until("the run waits for its model", WAIT_TIME_MAX, || {
        logged_events(&project).contains(r#""type":"model_request_started""#)
    });
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    let config = team(&[agent("a", "", ANSWERS)], "");
    fs::write(project.path(".massgen/config.yaml"), &config).unwrap();
    fs::write(project.path("again.yaml"), config).unwrap();
    let typed = project.retyped(["--config", "again.yaml", "--continue"]);
    let mut terminal = Terminal::open(typed, 80);
    terminal.wait_for_output("resuming log_");
    terminal.wait_for_output("\ndone: ");
    terminal.wait_for_prompt(&[">"]);
    wait_for_turn(&mut terminal, "Next", 2);
    terminal.type_keys(CTRL_D);
    let shown = terminal
        .wait_for_end(0)
        .retyped(["sessions", "list"])
        .success();
    assert_eq!(shown.stdout().lines().count(), 1, "{}", shown.stdout());
    assert!(shown.stdout().contains("2 turns"), "{}", shown.stdout());
}

#[test]
fn the_level_in_force_is_shown() {
    let keys = "cwd: w\nenable_mcp_command_line: true\ncommand_line_sandbox: landlock";
    let config = team(&[agent("a", keys, ANSWERS)], "");
    let named = Project::new().file("team.yaml", config);
    let named = named.args(["--config", "team.yaml"]);
    let mut terminal = closed_session(interactive_project(named));
    terminal.type_keys("/status\r");
    let level = "  sandbox  level `landlock`: ";
    terminal.wait(
        || terminal.all_output().matches(level).count() == 2,
        || terminal.all_output(),
    );
}

#[test]
fn a_session_shows_an_unchanged_level_once() {
    let keys = "cwd: w\nenable_mcp_command_line: true\ncommand_line_sandbox: off";
    let config = team(&[agent("a", keys, ANSWERS)], "");
    let named = Project::new().file("team.yaml", config);
    let named = named.args(["--config", "team.yaml"]);
    let mut terminal = closed_session(interactive_project(named));
    wait_for_turn(&mut terminal, "First", 1);
    wait_for_turn(&mut terminal, "Second", 2);
    let notices = terminal
        .all_output()
        .matches("commands: no sandbox")
        .count();
    assert_eq!(notices, 1, "{}", terminal.all_output());
    terminal.type_keys(CTRL_D);
    let _project = terminal.wait_for_end(0);
}

/// Begins and ends a paste that the terminal marks.
const PASTE: &str = "\u{1b}[200~";
const PASTE_END: &str = "\u{1b}[201~";

#[test]
fn a_long_pasted_text_is_a_label_on_the_screen_and_reaches_the_agents() {
    let replies = "- when: {last: \"Count: line 1\\nline 2\\n\"}\n  \
                   calls: [{name: new_answer, arguments: {content: all of it}}]";
    let mut terminal = session(project(replies));
    let lines: Vec<String> = (1..=12).map(|number| format!("line {number}")).collect();
    terminal.type_keys("Count: ");
    terminal.type_keys(&format!("{PASTE}{}{PASTE_END}", lines.join("\r")));
    terminal.wait_for_prompt(&["> Count: [pasted text, 12 lines]"]);
    turn_as_it_stands(&mut terminal);
    terminal.wait_for_output("all of it");
    // The history has the text itself.
    terminal.type_keys(UP);
    let mut shown = vec!["> Count: line 1"];
    shown.extend(lines.iter().skip(1).map(String::as_str));
    terminal.wait_for_prompt(&shown);
    terminal.type_keys(CTRL_C);
    terminal.wait_for_text("press Ctrl-C again to exit");
    // Control: a short text is shown, and keys in it are no commands.
    terminal.type_keys(&format!("{PASTE}a\u{3}b\u{18}\u{5}c\t:d{PASTE_END}"));
    terminal.wait_for_text("abc");
    terminal.wait_for_text(":d");
}

#[test]
fn alt_enter_and_shift_enter_begin_a_new_line() {
    for key in ["\u{1b}\r", "\u{1b}[13;2u", "\u{1b}[27;2;13~"] {
        let mut terminal = session(project(ANSWERS));
        terminal.type_keys("one");
        terminal.type_keys(key);
        terminal.type_keys("two~");
        terminal.wait_for_prompt(&["> one", "two~"]);
    }
}

#[test]
fn a_session_has_a_shell_an_editor_and_commands_for_paths_and_models() {
    let project = with_files(ANSWERS)
        .env("EDITOR", "sed -i s/draft/edited/")
        .env("SHELL", "/bin/sh");
    let mut terminal = closed_session(project);
    terminal.type_keys("!echo $((40 + 2)) > made; cat made; exit 3\r");
    terminal.wait_for_output("42\r\n");
    terminal.wait_for_output("exit status 3");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys(&format!("{PASTE}!touch foreign{PASTE_END}"));
    terminal.wait_for_prompt(&["> !touch foreign"]);
    terminal.type_keys(ENTER);
    terminal.wait_for_output("the pasted text starts a shell command");
    terminal.type_keys(UP);
    terminal.wait_for_prompt(&["> !echo $((40 + 2)) > made; cat made; exit 3"]);
    terminal.type_keys(CLEAR_LINE);
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("/context add src write\r");
    terminal.wait_for_output("✓ Added [PROJECT]/src (write)");
    terminal.type_keys("/context add /etc write\r");
    terminal.wait_for_output("`/etc` is a system directory");
    terminal.type_keys("/context add nowhere\r");
    terminal.wait_for_output("nowhere` does not exist");
    terminal.type_keys("/model a other-model\r");
    terminal.wait_for_output("  a: other-model (scripted)");
    terminal.type_keys("/model b other-model\r");
    terminal.wait_for_output("no agent is named `b`");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("a draft\u{18}\u{5}");
    terminal.wait_for_prompt(&["> a edited"]);
    turn_as_it_stands(&mut terminal);
    terminal.type_keys("/export out.tar.gz\r");
    terminal.wait(
        || terminal.project().path("out.tar.gz").exists(),
        || "an archive".to_owned(),
    );
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys(CTRL_D);
    let project = terminal.wait_for_end(0);
    assert!(project.path("made").exists() && !project.path("foreign").exists());
    let mut again = Terminal::open(project.retyped(["--continue"]), 80);
    again.wait_for_prompt(&[">"]);
    assert!(!again.all_output().contains("Add current directory"));
    again.type_keys("/cost\r");
    again.wait_for_output("all: ");
}

#[test]
fn a_model_of_another_maker_is_named() {
    let project = interactive_project(
        Project::new()
            .env("OPENAI_API_KEY", "k")
            .args(["-m", "gpt-5"]),
    );
    let mut terminal = Terminal::open(project, 200);
    terminal.wait_for_question("/ [C]ustom path: ");
    terminal.type_keys("n\r");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("/model gpt-5-mini\r");
    terminal.wait_for_output("  agent1: gpt-5-mini (openai)");
    assert!(!terminal.all_output().contains("is a model of"));
    terminal.type_keys("/model claude-sonnet-4-5\r");
    terminal.wait_for_output(
        "warning: `claude-sonnet-4-5` is a model of `claude`, and the backend type stays `openai`: \
         set `type: claude` in the config, or start massgen with `-m claude-sonnet-4-5`",
    );
    terminal.type_keys(CTRL_D);
    let _project = terminal.wait_for_end(0);
}

#[test]
fn a_single_run_asks_about_the_current_directory() {
    let mut terminal = Terminal::open(with_files(WRITES).args(["Write it"]), 80);
    terminal.wait_for_output(
        "📂 Context Paths:\r\n   No context paths configured\r\n\r\n\
         ❓ Add current directory as context path?\r\n   [PROJECT]\r\n",
    );
    terminal.wait_for_output("all agents may read it, and the winner may change it");
    terminal.wait_for_output("   [Y]es (default) / [N]o / [C]ustom path:");
    terminal.type_keys(ENTER);
    terminal.wait_for_output("✓ Added [PROJECT] (write)");
    let project = terminal.wait_for_end(0);
    assert!(project.path("src/new.rs").exists());
    let named = project.retyped(["Look at @src"]);
    let terminal = Terminal::open(named, 80);
    terminal.wait_for_output("done: ");
    assert!(!terminal.all_output().contains("Add current directory"));
}

#[test]
fn a_session_remembers_that_the_directory_stays_closed() {
    let replies = r#"
- when: {last: "</task>"}
  calls: [{name: write_file, arguments: {path: "made.txt", content: "made"}}]
- calls: [{name: new_answer, arguments: {content: done}}]
"#;
    let mut terminal = Terminal::open(with_files(replies).args(["Make it"]), 80);
    terminal.wait_for_output("/ [C]ustom path:");
    terminal.type_keys("n\r");
    terminal.wait_for_output("done: ");
    terminal.wait_for_output("to let the winner write here: ");
    terminal.wait_for_output("--cwd-context rw");
    let written = terminal.all_output();
    let mut lines = written.lines();
    let command =
        lines.find_map(|line| line.strip_prefix("to copy its files to a new directory: "));
    let command = command.unwrap().trim();
    let project = terminal.wait_for_end(0);
    let copied = Command::new("bash")
        .args(["-c", command])
        .current_dir(project.path(""))
        .status();
    assert!(copied.unwrap().success(), "{command}");
    let copy = fs::read_to_string(project.path("massgen_files/made.txt"));
    assert_eq!(copy.unwrap(), "made");
    let terminal = Terminal::open(project.retyped(["--continue", "Again"]), 80);
    terminal.wait_for_output("done: ");
    terminal.wait_for_output("workspace massgen_files_2\r\n");
    assert!(!terminal.all_output().contains("Add current directory"));
}

#[test]
fn a_turn_that_was_stopped_is_resumed_only_if_the_user_agrees() {
    let slow = "- {delay_ms: 60000, text: late, repeat: true}";
    let mut terminal = session(project(slow));
    terminal.type_keys("Wait\r");
    terminal.wait_for_output("agents: a");
    terminal.type_keys(CTRL_C);
    terminal.wait_for_output("ended: ");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys(CTRL_D);
    let project = terminal.wait_for_end(0);
    let mut again = Terminal::open(project.retyped(["--continue"]), 80);
    again.wait_for_output("The last turn was stopped. Resume it? [Y]es (default) / [N]o: ");
    again.type_keys("n\r");
    again.wait_for_prompt(&[">"]);
    assert!(!again.all_output().contains("resuming log_"));
    again.type_keys(CTRL_D);
    let config = team(&[agent("a", "", ANSWERS)], "");
    let project = again.wait_for_end(0).file("again.yaml", config);
    let mut again = Terminal::open(
        project.retyped(["--config", "again.yaml", "--continue"]),
        80,
    );
    again.wait_for_output("Resume it?");
    again.type_keys(ENTER);
    again.wait_for_output("resuming log_");
    again.wait_for_output("\ndone: ");
}
