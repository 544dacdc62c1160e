//! Probes the size of the terminal.

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
const COLUMNS_DEFAULT: u16 = 80;

/// Returns the width of the terminal that standard error is connected to, in characters.
pub fn terminal_columns() -> usize {
    usize::from(terminal_size().map_or(COLUMNS_DEFAULT, |size| size.columns))
}

/// Returns the size of the terminal that standard error is connected to; `None` if it is not a
/// terminal, or one that does not know its size.
pub fn terminal_size() -> Option<TerminalSize> {
    let window_size = tcgetwinsize(std::io::stderr()).ok()?;
    (window_size.ws_col > 0).then_some(TerminalSize {
        columns: window_size.ws_col,
        rows: window_size.ws_row,
    })
}
