//! Forms that a server asks a person to fill in, on a real terminal.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::mcp::with_server;
use crate::terminal::Terminal;

/// A run on a terminal whose agent calls the tool `form` of a server that waits a second for answers.
fn asked() -> Terminal {
    let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py'], timeout_seconds: 1}";
    let project = with_server(server, &[("mcp__h__form", json!({}))], "orchestrator: {}");
    let project = project.env("TERM", "xterm").env("NO_COLOR", "1");
    let terminal = Terminal::open(project, 240);
    terminal.says("the server `h` asks: How? `color`: of the\\u{1b}[2J door (`red` or `blue`)");
    terminal.says("Enter alone: the server is told nothing");
    terminal
}

#[test]
fn a_person_fills_in_a_form_and_takes_their_time() {
    let mut terminal = asked();
    // Longer than the server may take for an answer of its own.
    sleep(Duration::from_millis(1500));
    terminal.types("green\r");
    terminal.says("write `red` or `blue`");
    terminal.types("red\r");
    terminal.says("`count` (a whole number)");
    terminal.says("Enter alone: 3");
    terminal.types("\r");
    terminal.says("\"action\": \"accept\"");
    terminal.says("\"color\": \"red\"");
    terminal.says("\"count\": 3");
}

#[test]
fn a_person_who_says_nothing_tells_the_server_nothing() {
    let mut terminal = asked();
    terminal.types("\r");
    terminal.says("\"action\": \"decline\"");
}
