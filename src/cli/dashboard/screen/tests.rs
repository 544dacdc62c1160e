//! Tests of what a panic leaves of the terminal.

use std::io::Read as _;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use super::*;

/// The test that panics, as the test binary names it.
const PANICS: &str = "cli::dashboard::screen::tests::a_panic_while_the_screen_is_covered";
/// What it panics with.
const MESSAGE: &str = "no agent 7";

#[test]
#[should_panic(expected = "no agent 7")]
fn a_panic_while_the_screen_is_covered() {
    let mut output = CliOutput::plain();
    let screen = TerminalScreen::enter(&mut output);
    panic!("{MESSAGE}: {screen:?}");
}

#[test]
fn a_panic_gives_the_terminal_back_before_its_message() {
    let pty = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut reader = pty.master.try_clone_reader().unwrap();
    let before = format!("{:?}", pty.master.get_termios().unwrap());
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.env("RUST_BACKTRACE", "0");
    command.args(["--exact", PANICS, "--nocapture", "--test-threads=1"]);
    let mut child = pty.slave.spawn_command(command).unwrap();
    let slave = pty.slave;
    assert!(child.wait().unwrap().success());
    let after = format!("{:?}", pty.master.get_termios().unwrap());
    drop(slave);
    let mut bytes = Vec::new();
    // A terminal whose last process has ended reports an error instead of the end.
    reader.read_to_end(&mut bytes).unwrap_or_default();
    let shown = String::from_utf8_lossy(&bytes);
    let at = |text: &str| {
        shown
            .find(text)
            .unwrap_or_else(|| panic!("{text:?} in {shown:?}"))
    };
    let (entered, left) = (at("\x1b[?1049h"), at("\x1b[?1049l"));
    assert!(entered < left && left < at(MESSAGE), "{shown:?}");
    assert!(at("\x1b[?25l") < at("\x1b[?25h"), "{shown:?}");
    assert!(at("\x1b[?2004h") < at("\x1b[?2004l"), "{shown:?}");
    assert_eq!(after, before);
}
