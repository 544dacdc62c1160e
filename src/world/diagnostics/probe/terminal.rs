//! Owns the look at the terminal: how large it is.

use rustix::termios::tcgetwinsize;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters on a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

/// The size of the terminal that standard error leads to; `None` if it leads elsewhere, or to a
/// terminal that does not know.
pub fn terminal_size() -> Option<TerminalSize> {
    let found = tcgetwinsize(std::io::stderr()).ok()?;
    (found.ws_col > 0).then_some(TerminalSize {
        columns: found.ws_col,
        rows: found.ws_row,
    })
}
