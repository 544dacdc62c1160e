//! Path completion while a prompt is typed: what is on the screen.

use crate::project::Project;
use crate::scripted_team::{agent, team};
use crate::terminal::{CTRL_C, CTRL_D, CTRL_W, DOWN, ENTER, ESCAPE, LEFT, TAB, Terminal, UP};

/// Replies of an agent that only answers.
const ANSWERS: &str = "- {calls: [{name: new_answer, arguments: {content: done}}], repeat: true}";

/// Returns a project with some files, whose agent has none.
fn project() -> Project {
    Project::new()
        .config(&team(&[agent("a", "", ANSWERS)], ""))
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .file("src/main.rs", "fn main() {}\n")
        .file("src/manager.rs", "x".repeat(1234))
        .file("docs/notes.md", "notes")
        .file("my file.txt", "text")
        .file("README.md", "read me")
}

/// Starts a session in it and waits for its prompt, on a terminal of this many columns.
fn session(project: Project, columns: u16) -> Terminal {
    let terminal = Terminal::open(project, columns);
    terminal.wait_for_prompt(&[">"]);
    terminal
}

const FOOTER: &str = "   Tab inserts, Ctrl-W to write, Esc closes";

#[test]
fn the_picker_opens_on_an_at_sign_narrows_and_inserts() {
    let mut terminal = session(project(), 80);
    terminal.type_keys("Review @");
    terminal.wait_for_prompt(&[
        "> Review @",
        " > docs/        directory",
        "   my file.txt  4 B",
        "   README.md    7 B",
        "   src/         directory",
        FOOTER,
    ]);
    terminal.type_keys("ma");
    terminal.wait_for_prompt(&[
        "> Review @ma",
        " > src/main.rs     13 B",
        "   src/manager.rs  1.2 kB",
        FOOTER,
    ]);
    terminal.type_keys(DOWN);
    terminal.wait_for_prompt(&[
        "> Review @ma",
        "   src/main.rs     13 B",
        " > src/manager.rs  1.2 kB",
        FOOTER,
    ]);
    terminal.type_keys(TAB);
    terminal.wait_for_prompt(&["> Review @src/manager.rs"]);
    terminal.type_keys("and @ma");
    terminal.wait_for_prompt(&[
        "> Review @src/manager.rs and @ma",
        " > src/main.rs     13 B",
        "   src/manager.rs  1.2 kB",
        FOOTER,
    ]);
    terminal.type_keys(UP);
    terminal.type_keys(ENTER);
    terminal.wait_for_prompt(&["> Review @src/manager.rs and @src/manager.rs"]);
    terminal.type_keys(CTRL_C);
    terminal.wait_for_text("press Ctrl-C again to exit");
    terminal.type_keys(CTRL_D);
    drop(terminal.wait_for_end(0));
}

#[test]
fn a_key_asks_for_writing_and_quotes_are_added() {
    let mut terminal = session(project(), 80);
    terminal.type_keys("Fix @mana");
    terminal.wait_for_prompt(&["> Fix @mana", " > src/manager.rs  1.2 kB", FOOTER]);
    terminal.type_keys(CTRL_W);
    terminal.wait_for_prompt(&["> Fix @src/manager.rs:w"]);
    terminal.type_keys("with @my");
    terminal.wait_for_prompt(&[
        "> Fix @src/manager.rs:w with @my",
        " > my file.txt  4 B",
        FOOTER,
    ]);
    terminal.type_keys(TAB);
    terminal.wait_for_prompt(&["> Fix @src/manager.rs:w with @\"my file.txt\""]);
    terminal.type_keys("and @notes:w");
    terminal.wait_for_prompt(&[
        "> Fix @src/manager.rs:w with @\"my file.txt\" and @notes:w",
        " > docs/notes.md  5 B",
        "   Tab inserts, Esc closes",
    ]);
    terminal.type_keys(TAB);
    terminal
        .wait_for_prompt(&["> Fix @src/manager.rs:w with @\"my file.txt\" and @docs/notes.md:w"]);
}

#[test]
fn writing_is_asked_for_after_a_choice_was_taken_too() {
    let mut terminal = session(project(), 80);
    terminal.type_keys("Fix @mana");
    terminal.wait_for_prompt(&["> Fix @mana", " > src/manager.rs  1.2 kB", FOOTER]);
    terminal.type_keys(TAB);
    terminal.wait_for_prompt(&["> Fix @src/manager.rs"]);
    terminal.type_keys(":w");
    terminal.wait_for_prompt(&[
        "> Fix @src/manager.rs:w",
        " > src/manager.rs  1.2 kB",
        "   Tab inserts, Esc closes",
    ]);
    terminal.type_keys(TAB);
    terminal.type_keys("with @my");
    terminal.wait_for_prompt(&[
        "> Fix @src/manager.rs:w with @my",
        " > my file.txt  4 B",
        FOOTER,
    ]);
    terminal.type_keys(TAB);
    terminal.type_keys(":w and : alone");
    terminal.wait_for_prompt(&["> Fix @src/manager.rs:w with @\"my file.txt\":w and : alone"]);
}

#[test]
fn the_picker_closes_on_escape_and_ignores_text_that_is_no_path() {
    let mut terminal = session(project(), 80);
    terminal.type_keys("@ma");
    terminal.wait_for_prompt(&[
        "> @ma",
        " > src/main.rs     13 B",
        "   src/manager.rs  1.2 kB",
        FOOTER,
    ]);
    terminal.type_keys(ESCAPE);
    terminal.wait_for_prompt(&["> @ma"]);
    terminal.type_keys("i");
    terminal.wait_for_prompt(&["> @mai"]);
    terminal.type_keys(TAB);
    terminal.wait_for_prompt(&["> @mai", " > src/main.rs  13 B", FOOTER]);
    terminal.type_keys(LEFT);
    terminal.wait_for_prompt(&["> @mai"]);
    terminal.type_keys(CTRL_C);
    terminal.wait_for_prompt(&[">   press Ctrl-C again to exit"]);
    terminal.type_keys("@nothinglikeit");
    terminal.wait_for_prompt(&["> @nothinglikeit", "   no file matches"]);
    terminal.type_keys(CTRL_C);
    terminal.wait_for_prompt(&[">   press Ctrl-C again to exit"]);
    for typed in ["me@main", "\\@main", "@main "] {
        terminal.type_keys(typed);
        terminal.wait_for_prompt(&[format!("> {}", typed.trim_end()).as_str()]);
        terminal.type_keys(CTRL_C);
        terminal.wait_for_prompt(&[">   press Ctrl-C again to exit"]);
    }
    terminal.type_keys(CTRL_C);
    drop(terminal.wait_for_end(0));
}

#[test]
fn choosing_a_directory_opens_it_and_limits_the_search() {
    let project = project()
        .home_file("letters/one.txt", "1")
        .home_file("two.txt", "22");
    let mut terminal = session(project, 80);
    terminal.type_keys("@doc");
    terminal.wait_for_prompt(&[
        "> @doc",
        " > docs/          directory",
        "   docs/notes.md  5 B",
        FOOTER,
    ]);
    terminal.type_keys(TAB);
    terminal.wait_for_prompt(&["> @docs/"]);
    terminal.type_keys("n");
    terminal.wait_for_prompt(&["> @docs/n", " > docs/notes.md  5 B", FOOTER]);
    terminal.type_keys(CTRL_C);
    terminal.wait_for_text("press Ctrl-C again to exit");
    terminal.type_keys("@~/");
    terminal.wait_for_prompt(&[
        "> @~/",
        " > ~/letters/  directory",
        "   ~/two.txt   2 B",
        FOOTER,
    ]);
    terminal.type_keys("tw");
    terminal.wait_for_text(" > ~/two.txt");
    terminal.type_keys(TAB);
    terminal.wait_for_prompt(&["> @~/two.txt"]);
    terminal.type_keys("@../ho");
    terminal.wait_for_prompt(&["> @~/two.txt @../ho", " > ../home/  directory", FOOTER]);
}

#[test]
fn the_picker_lists_ignored_files_only_on_request() {
    let project = project()
        .file(".gitignore", "target\n")
        .file("target/debug/main.o", "object")
        .file("target/trace.txt", "trace");
    let mut terminal = session(project, 80);
    terminal.type_keys("@ma");
    terminal.wait_for_prompt(&[
        "> @ma",
        " > src/main.rs     13 B",
        "   src/manager.rs  1.2 kB",
        FOOTER,
    ]);
    terminal.type_keys(CTRL_C);
    terminal.wait_for_text("press Ctrl-C again to exit");
    terminal.type_keys("@targ");
    terminal.wait_for_prompt(&["> @targ", " > target/  directory", FOOTER]);
    terminal.type_keys(TAB);
    terminal.wait_for_prompt(&["> @target/"]);
    terminal.type_keys("t");
    terminal.wait_for_prompt(&["> @target/t", " > target/trace.txt  5 B", FOOTER]);
}

#[test]
fn a_narrow_terminal_and_one_that_changes_are_filled() {
    let project = project().file("a/directory/far/down/below/the/others/main.rs", "");
    let mut terminal = session(project, 40);
    terminal.type_keys("@others");
    terminal.wait_for_prompt(&[
        "> @others",
        " > …r/down/below/the/others/  directory",
        "   …/down/below/the/others/main.rs  0 B",
        "   Tab, ^W, Esc",
    ]);
    terminal.resize(80);
    terminal.type_keys("/m");
    terminal.wait_for_prompt(&[
        "> @others/m",
        " > a/directory/far/down/below/the/others/main.rs  0 B",
        FOOTER,
    ]);
    terminal.resize(30);
    terminal.wait(
        || terminal.lines().iter().any(|line| line.starts_with(" > …")),
        || "a shortened path".to_owned(),
    );
}

#[test]
fn a_path_that_is_typed_out_is_sent_at_once() {
    let mut terminal = session(project(), 80);
    terminal.type_keys("Review @src/main.rs");
    terminal.wait_for_prompt(&["> Review @src/main.rs", " > src/main.rs  13 B", FOOTER]);
    terminal.type_keys(ENTER);
    terminal.wait_for_output("done: ");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys(CTRL_D);
    drop(terminal.wait_for_end(0));
}

#[test]
fn commands_are_completed_as_they_are_typed() {
    let mut terminal = session(project(), 80);
    terminal.type_keys("/co");
    let footer = "   Enter runs it, Tab inserts it, Esc closes";
    terminal.wait_for_prompt(&[
        "> /co",
        " > /context  lists open paths; `/context add PATH [write]`, `/context remove N`",
        "   /config   shows the config of the team",
        "   /cost     shows what the last turn and the session used",
        footer,
    ]);
    terminal.type_keys(DOWN);
    terminal.type_keys(ENTER);
    terminal.wait_for_output("type: scripted");
    assert!(terminal.lines().iter().any(|line| line == "> /config"));
    // A recalled line opens no list, so that the next key recalls the line before it.
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("/status\r");
    terminal.wait(
        || terminal.all_output().matches("  session").count() == 2,
        || "the state".to_owned(),
    );
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys(UP);
    terminal.wait_for_prompt(&["> /status"]);
    terminal.type_keys(UP);
    terminal.wait_for_prompt(&["> /config"]);
}
