//! Draws text and borders into the cells of a frame. What does not fit is left out.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

use crate::cli::cell_text::{columns, fit, is_printable_ascii};
use crate::cli::dashboard::theme::{CharacterSet, Theme};
use crate::cli::output::{StyledLine, TextStyle};

/// A frame that is being drawn.
#[derive(Debug)]
pub(super) struct Canvas<'b> {
    buffer: &'b mut Buffer,
    theme: Theme,
}

impl<'b> Canvas<'b> {
    /// Creates the canvas of a frame.
    pub(super) fn new(buffer: &'b mut Buffer, theme: Theme) -> Self {
        Self { buffer, theme }
    }

    /// Returns the area of the frame.
    pub(super) fn area(&self) -> Rect {
        self.buffer.area
    }

    /// Draws `line` into the row `y` of `area`.
    pub(super) fn line(&mut self, area: Rect, y: u16, line: &StyledLine) {
        let area = area.intersection(self.buffer.area);
        let mut x = area.x;
        if y < area.y || y >= area.bottom() {
            return;
        }
        for (style, text) in line {
            let room = usize::from(area.right().saturating_sub(x));
            if room == 0 {
                return;
            }
            let mut text = fit(text, room);
            if self.theme.characters == CharacterSet::Ascii {
                text = text.replace('…', "~").into();
            }
            x = self.text(x, y, &text, room, self.theme.style(*style));
        }
    }

    /// Draws at most `room` columns of `text` and returns the column after it.
    fn text(&mut self, mut x: u16, y: u16, text: &str, room: usize, style: Style) -> u16 {
        if !is_printable_ascii(text) {
            let style = Style::reset().patch(style);
            (x, _) = self.buffer.set_stringn(x, y, text, room, style);
            return x;
        }
        for character in text.chars().take(room) {
            if let Some(cell) = self.buffer.cell_mut((x, y)) {
                cell.set_char(character)
                    .set_style(Style::reset().patch(style));
            }
            x = x.saturating_add(1);
        }
        x
    }

    /// Draws `lines` from the top of `area`.
    pub(super) fn lines(&mut self, area: Rect, lines: &[StyledLine]) {
        for (y, line) in (area.y..area.bottom()).zip(lines) {
            self.line(area, y, line);
        }
    }

    /// Draws `line` at the right end of the row `y` of `area`.
    pub(super) fn line_at_right(&mut self, area: Rect, y: u16, line: &StyledLine) {
        let width: usize = line.iter().map(|(_, text)| columns(text)).sum();
        let width = u16::try_from(width).unwrap_or(u16::MAX).min(area.width);
        let x = area.right().saturating_sub(width);
        self.line(Rect { x, width, ..area }, y, line);
    }

    /// Shows the cells of `area` as selected.
    pub(super) fn select(&mut self, area: Rect) {
        self.buffer.set_style(area, Theme::selection());
    }

    /// Draws a border along the inside of `area` with `title` in it. Returns the area within.
    pub(super) fn border(&mut self, area: Rect, title: &StyledLine, style: TextStyle) -> Rect {
        let area = area.intersection(self.buffer.area);
        if area.width < 2 || area.height < 2 {
            return Rect { height: 0, ..area };
        }
        let characters = self.theme.border();
        let style = self.theme.style(style);
        let (left, right) = (area.x, area.right().saturating_sub(1));
        let (top, bottom) = (area.y, area.bottom().saturating_sub(1));
        for x in left..=right {
            self.cell(x, top, characters.horizontal, style);
            self.cell(x, bottom, characters.horizontal, style);
        }
        for y in top..=bottom {
            self.cell(left, y, characters.vertical, style);
            self.cell(right, y, characters.vertical, style);
        }
        self.cell(left, top, characters.top_left, style);
        self.cell(right, top, characters.top_right, style);
        self.cell(left, bottom, characters.bottom_left, style);
        self.cell(right, bottom, characters.bottom_right, style);
        let inside = Rect {
            x: area.x.saturating_add(1),
            y: area.y.saturating_add(1),
            width: area.width.saturating_sub(2),
            height: area.height.saturating_sub(2),
        };
        self.line(Rect { y: top, ..inside }, top, title);
        inside
    }

    fn cell(&mut self, x: u16, y: u16, symbol: &str, style: Style) {
        if let Some(cell) = self.buffer.cell_mut((x, y)) {
            cell.set_symbol(symbol).set_style(style);
        }
    }
}
