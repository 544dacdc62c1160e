//! The terminal while the dashboard covers it: the alternate screen and the key mode, which are
//! left however the dashboard ends, even by a panic. Only the cells that changed are written, in
//! one piece.

use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::queue;
use crossterm::style::{Attribute, ResetColor, SetAttribute};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, SetTitle,
};
use ratatui_core::backend::Backend as _;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_crossterm::CrosstermBackend;

use crate::cli::output::{CliOutput, write_in_panic};
use crate::world::diagnostics::probe::terminal::TerminalSize;
use crate::world::io::terminal_mode::TerminalModeGuard;

/// Saves the title of the window on a stack of the terminal, and restores it; see `XTWINOPS` in
/// xterm's `ctlseqs`.
const SAVE_TITLE: &[u8] = b"\x1b[22;2t";
const RESTORE_TITLE: &[u8] = b"\x1b[23;2t";
/// Makes the mouse wheel send Up and Down on the alternate screen (mode 1007 of xterm), and
/// restores what it did before. The mouse itself is not captured: a terminal that reports it to
/// programs selects no text with it.
const SET_WHEEL: &[u8] = b"\x1b[?1007s\x1b[?1007h";
const RESTORE_WHEEL: &[u8] = b"\x1b[?1007r";
/// Lets the terminal beep.
const BELL: u8 = 7;

/// The terminal while the dashboard covers it.
#[derive(Debug)]
pub(super) struct TerminalScreen {
    keyboard: Arc<TerminalModeGuard>,
    is_entered: Arc<AtomicBool>,
    _hook: PanicHook,
    /// The frame on the terminal.
    last_frame: Buffer,
    /// Whether the terminal may show something else than the last frame.
    needs_full_draw: bool,
}

/// What a frame changes besides its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BellAndTitle {
    /// Whether the terminal beeps.
    pub(super) beep: bool,
    /// The new title of the window.
    pub(super) title: Option<&'static str>,
}

impl TerminalScreen {
    /// Enters the alternate screen and the key mode; `None` if standard input is not a terminal.
    pub(super) fn enter(output: &mut CliOutput<'_>) -> Option<Self> {
        let keyboard = Arc::new(TerminalModeGuard::from_stdin()?);
        let is_entered = Arc::new(AtomicBool::new(false));
        let hook = PanicHook::install(Arc::clone(&keyboard), Arc::clone(&is_entered));
        let mut screen = Self {
            keyboard,
            is_entered,
            _hook: hook,
            last_frame: Buffer::default(),
            needs_full_draw: true,
        };
        screen.cover(output);
        Some(screen)
    }

    /// Returns whether the dashboard covers the terminal; a panic takes it back.
    pub(super) fn is_entered(&self) -> bool {
        self.is_entered.load(Ordering::SeqCst)
    }

    /// Draws `frame`.
    pub(super) fn draw(
        &mut self,
        frame: Buffer,
        bell_and_title: BellAndTitle,
        output: &mut CliOutput<'_>,
    ) {
        let bytes = self.frame_bytes(&frame, bell_and_title);
        self.last_frame = frame;
        if let Ok(bytes) = bytes
            && self.is_entered()
        {
            output.draw(&bytes);
        }
    }

    /// Draws all of the next frame.
    pub(super) fn request_full_draw(&mut self) {
        self.needs_full_draw = true;
    }

    /// Covers the terminal again after the process was stopped and may have lost it.
    pub(super) fn resume(&mut self, output: &mut CliOutput<'_>) {
        if self.is_entered() {
            self.enter_modes(Vec::new(), output);
        }
    }

    /// Enters the alternate screen and the key mode.
    fn cover(&mut self, output: &mut CliOutput<'_>) {
        self.is_entered.store(true, Ordering::SeqCst);
        self.enter_modes([SAVE_TITLE, SET_WHEEL].concat(), output);
    }

    fn enter_modes(&mut self, mut bytes: Vec<u8>, output: &mut CliOutput<'_>) {
        self.keyboard.enter_key_mode();
        // Writing to a vector cannot fail.
        queue!(bytes, EnterAlternateScreen, Hide, EnableBracketedPaste).unwrap_or_default();
        self.needs_full_draw = true;
        output.draw(&bytes);
    }

    /// Restores the terminal.
    pub(super) fn leave(&mut self, output: &mut CliOutput<'_>) {
        if self.is_entered.swap(false, Ordering::SeqCst) {
            output.draw(&restore_bytes());
            self.keyboard.restore();
        }
    }

    /// Calls `stop`, which stops the process until the shell continues it; the terminal is the
    /// shell's meanwhile.
    pub(super) fn suspend(&mut self, stop: impl FnOnce(), output: &mut CliOutput<'_>) {
        self.leave(output);
        stop();
        self.cover(output);
    }

    /// Returns the bytes that turn the last frame into `frame`; none if nothing changes.
    fn frame_bytes(
        &mut self,
        frame: &Buffer,
        bell_and_title: BellAndTitle,
    ) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let is_full =
            std::mem::take(&mut self.needs_full_draw) || self.last_frame.area != frame.area;
        if is_full {
            self.last_frame = Buffer::empty(frame.area);
        }
        let changes = self.last_frame.diff(frame);
        if changes.is_empty() && !is_full && bell_and_title == BellAndTitle::default() {
            return Ok(bytes);
        }
        queue!(bytes, BeginSynchronizedUpdate)?;
        if let Some(title) = bell_and_title.title {
            queue!(bytes, SetTitle(title))?;
        }
        if bell_and_title.beep {
            bytes.push(BELL);
        }
        if is_full {
            queue!(bytes, Clear(ClearType::All))?;
        }
        CrosstermBackend::new(&mut bytes).draw(changes.into_iter())?;
        queue!(bytes, EndSynchronizedUpdate)?;
        Ok(bytes)
    }
}

/// Returns the area of a terminal.
pub(super) fn area_of(size: TerminalSize) -> Rect {
    Rect::new(0, 0, size.columns, size.rows)
}

/// Returns the control sequences that restore the terminal.
fn restore_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to a vector cannot fail.
    queue!(
        bytes,
        EndSynchronizedUpdate,
        ResetColor,
        SetAttribute(Attribute::Reset),
        DisableBracketedPaste,
        Show,
        // GNU screen has no alternate screen, unless its user sets `altscreen on`.
        MoveTo(0, 0),
        Clear(ClearType::All),
        LeaveAlternateScreen
    )
    .unwrap_or_default();
    bytes.extend_from_slice(RESTORE_WHEEL);
    bytes.extend_from_slice(RESTORE_TITLE);
    bytes
}

type HookFunction = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// A panic hook that restores the terminal before the message of the panic is printed. The previous
/// hook returns on drop.
struct PanicHook {
    previous_hook: Arc<Mutex<Option<HookFunction>>>,
}

impl PanicHook {
    fn install(keyboard: Arc<TerminalModeGuard>, is_entered: Arc<AtomicBool>) -> Self {
        let previous_hook = Arc::new(Mutex::new(Some(take_hook())));
        let shared_hook = Arc::clone(&previous_hook);
        set_hook(Box::new(move |info| {
            if is_entered.swap(false, Ordering::SeqCst) {
                write_in_panic(&restore_bytes());
                keyboard.restore();
            }
            if let Ok(hook) = shared_hook.lock()
                && let Some(hook) = hook.as_ref()
            {
                hook(info);
            }
        }));
        Self { previous_hook }
    }
}

impl Drop for PanicHook {
    fn drop(&mut self) {
        // A thread that panics must not change hooks; ours does nothing any more.
        if std::thread::panicking() {
            return;
        }
        drop(take_hook());
        if let Ok(mut hook) = self.previous_hook.lock()
            && let Some(hook) = hook.take()
        {
            set_hook(hook);
        }
    }
}

impl std::fmt::Debug for PanicHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PanicHook").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
