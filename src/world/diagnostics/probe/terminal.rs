//! Probes the sizes of the terminals that the standard streams are connected to.

use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters per line.
    pub columns: u16,
    /// Number of lines.
    pub rows: u16,
}

/// Width of a terminal that does not say how wide it is, in characters.
pub const COLUMNS_DEFAULT: u16 = 80;

/// Returns the width of the terminal that standard output is connected to, in characters.
pub fn stdout_columns() -> usize {
    usize::from(stdout_size().map_or(COLUMNS_DEFAULT, |size| size.columns))
}

/// Returns the size of the terminal that standard output is connected to; `None` if it is not a
/// terminal, or one that does not know its size.
pub fn stdout_size() -> Option<TerminalSize> {
    terminal_size(std::io::stdout())
}

/// Like [`stdout_size`], for standard error.
pub fn stderr_size() -> Option<TerminalSize> {
    terminal_size(std::io::stderr())
}

fn terminal_size(stream: impl AsFd) -> Option<TerminalSize> {
    let window_size = tcgetwinsize(stream).ok()?;
    (window_size.ws_col > 0).then_some(TerminalSize {
        columns: window_size.ws_col,
        rows: window_size.ws_row,
    })
}
