//! Markdown as styled lines for a terminal: headings, lists, quotations, code and tables, wrapped
//! to a width at spaces. A table that is too wide becomes a list of its rows.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::cli::output::{StyledRow, TextStyle};
use crate::cli::terminal_text::clean_text;
use crate::markdown::{ColumnAlignment, MarkdownBlock, MarkdownCell, MarkdownItem, MarkdownSpan};

/// Minimum width that is used, in columns, however narrow the terminal is.
const WIDTH_MIN: usize = 20;
/// The separator of two columns of a table.
const COLUMN_GAP: &str = "  ";

/// Appends text of a style to a row.
fn push(row: &mut StyledRow, style: TextStyle, text: &str) {
    if text.is_empty() {
        return;
    }
    match row.last_mut() {
        Some((last_style, before)) if *last_style == style => before.push_str(text),
        Some(_) | None => row.push((style, text.to_owned())),
    }
}

fn width_of(row: &StyledRow) -> usize {
    row.iter().map(|(_, text)| text.width()).sum()
}

fn trim_end(row: &mut StyledRow) {
    if let Some((_, last)) = row.last_mut() {
        let length = last.trim_end().len();
        last.truncate(length);
    }
}

/// Renders `blocks` as lines of at most `width` columns, except for code. Blocks are separated by
/// an empty line.
pub(crate) fn markdown_lines(blocks: &[MarkdownBlock], width: usize) -> Vec<StyledRow> {
    let mut lines = LineWriter {
        lines: Vec::new(),
        margins: Vec::new(),
        width: width.max(WIDTH_MIN),
    };
    lines.write_blocks(blocks, BlockSpacing::Loose);
    lines.lines
}

/// Whether an empty line separates blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockSpacing {
    Loose,
    Tight,
}

/// The prefixes of the lines of a list or a quotation.
#[derive(Debug)]
struct LeftMargin {
    /// Prefix of the first line, until it is written.
    first: Option<String>,
    /// Prefix of all other lines.
    rest: String,
}

struct LineWriter {
    lines: Vec<StyledRow>,
    margins: Vec<LeftMargin>,
    width: usize,
}

impl LineWriter {
    fn write_blocks(&mut self, blocks: &[MarkdownBlock], spacing: BlockSpacing) {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 && spacing == BlockSpacing::Loose {
                self.write_line(StyledRow::new());
            }
            self.write_block(block);
        }
    }

    fn write_block(&mut self, block: &MarkdownBlock) {
        match block {
            MarkdownBlock::Paragraph { spans } => self.write_spans(spans, TextStyle::Plain),
            MarkdownBlock::Heading { level, spans } => {
                let style = if *level == 1 {
                    TextStyle::Title
                } else {
                    TextStyle::Strong
                };
                self.write_spans(spans, style);
            }
            MarkdownBlock::List { start, items } => self.write_list(*start, items),
            MarkdownBlock::Code { text, .. } => self.write_code(text),
            MarkdownBlock::Table {
                alignments,
                head,
                rows,
            } => self.write_table(alignments, head, rows),
            MarkdownBlock::Quote { blocks } => {
                self.margins.push(LeftMargin {
                    first: None,
                    rest: "| ".to_owned(),
                });
                self.write_blocks(blocks, BlockSpacing::Loose);
                self.margins.pop();
            }
            MarkdownBlock::Rule => {
                let mut line = StyledRow::new();
                push(&mut line, TextStyle::Faint, "---");
                self.write_line(line);
            }
        }
    }

    fn write_list(&mut self, start: Option<u64>, items: &[MarkdownItem]) {
        let is_loose = items.iter().any(|item| item.blocks.len() > 1);
        let has_lists = items.iter().any(|item| {
            let mut blocks = item.blocks.iter();
            blocks.any(|block| matches!(block, MarkdownBlock::List { .. }))
        });
        let spacing = if is_loose && !has_lists {
            BlockSpacing::Loose
        } else {
            BlockSpacing::Tight
        };
        for (number, item) in (start.unwrap_or(0)..).zip(items) {
            let marker = match (start, item.checked) {
                (_, Some(true)) => "[x] ".to_owned(),
                (_, Some(false)) => "[ ] ".to_owned(),
                (Some(_), None) => format!("{number}. "),
                (None, None) => "- ".to_owned(),
            };
            self.margins.push(LeftMargin {
                rest: " ".repeat(marker.len()),
                first: Some(marker),
            });
            if item.blocks.is_empty() {
                self.write_line(StyledRow::new());
            }
            self.write_blocks(&item.blocks, spacing);
            self.margins.pop();
        }
    }

    fn write_code(&mut self, code: &str) {
        for text in code.lines() {
            let mut line = StyledRow::new();
            push(&mut line, TextStyle::Plain, "    ");
            push(&mut line, TextStyle::Code, &clean_text(text));
            self.write_line(line);
        }
    }

    fn write_spans(&mut self, spans: &[MarkdownSpan], style: TextStyle) {
        let mut words = WordWrapper::new(self.room());
        words.add_spans(spans, style);
        for line in words.finish() {
            self.write_line(line);
        }
    }

    /// Returns the width that the margins leave.
    fn room(&self) -> usize {
        let margins = self.margins.iter().map(|margin| margin.rest.width());
        self.width.saturating_sub(margins.sum()).max(WIDTH_MIN)
    }

    fn write_line(&mut self, line: StyledRow) {
        let mut row = StyledRow::new();
        for margin in &mut self.margins {
            let text = margin.first.take().unwrap_or_else(|| margin.rest.clone());
            push(&mut row, TextStyle::Faint, &text);
        }
        for (style, text) in line {
            push(&mut row, style, &text);
        }
        trim_end(&mut row);
        self.lines.push(row);
    }

    fn write_table(
        &mut self,
        alignments: &[ColumnAlignment],
        head: &[MarkdownCell],
        rows: &[Vec<MarkdownCell>],
    ) {
        let cells = |row: &[MarkdownCell], style| -> Vec<StyledRow> {
            row.iter().map(|cell| cell_line(cell, style)).collect()
        };
        let head = cells(head, TextStyle::Strong);
        let rows: Vec<Vec<StyledRow>> = rows
            .iter()
            .map(|row| cells(row, TextStyle::Plain))
            .collect();
        let column_width = |column: usize| {
            let all_rows = std::iter::once(&head).chain(&rows);
            let widths = all_rows.filter_map(|row| row.get(column).map(width_of));
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(column_width).collect();
        let gaps = widths.len().saturating_sub(1) * COLUMN_GAP.len();
        if widths.iter().sum::<usize>().saturating_add(gaps) > self.room() {
            self.write_records(&head, &rows);
            return;
        }
        self.write_row(&head, &widths, alignments);
        let mut rule = StyledRow::new();
        let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        push(&mut rule, TextStyle::Faint, &dashes.join(COLUMN_GAP));
        self.write_line(rule);
        for row in &rows {
            self.write_row(row, &widths, alignments);
        }
    }

    fn write_row(&mut self, row: &[StyledRow], widths: &[usize], alignments: &[ColumnAlignment]) {
        let mut line = StyledRow::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if column > 0 {
                push(&mut line, TextStyle::Plain, COLUMN_GAP);
            }
            let room = width.saturating_sub(width_of(cell));
            let before = match alignments.get(column) {
                Some(ColumnAlignment::Right) => room,
                Some(ColumnAlignment::Center) => room / 2,
                Some(ColumnAlignment::Left) | None => 0,
            };
            push(&mut line, TextStyle::Plain, &" ".repeat(before));
            for (style, text) in cell {
                push(&mut line, *style, text);
            }
            push(
                &mut line,
                TextStyle::Plain,
                &" ".repeat(room.saturating_sub(before)),
            );
        }
        self.write_line(line);
    }

    /// Writes each row of a table as lines `head: cell`.
    fn write_records(&mut self, head: &[StyledRow], rows: &[Vec<StyledRow>]) {
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                self.write_line(StyledRow::new());
            }
            for (name, cell) in head.iter().zip(row) {
                let mut words = WordWrapper::new(self.room());
                for (style, text) in name {
                    words.add_text(text, *style);
                }
                words.add_text(": ", TextStyle::Plain);
                for (style, text) in cell {
                    words.add_text(text, *style);
                }
                for line in words.finish() {
                    self.write_line(line);
                }
            }
        }
    }
}

/// Returns the text of a cell as one line.
fn cell_line(cell: &MarkdownCell, style: TextStyle) -> StyledRow {
    let mut words = WordWrapper::new(usize::MAX);
    words.add_spans(&cell.spans, style);
    words.finish().into_iter().next().unwrap_or_default()
}

/// Wraps text at spaces. A word that is longer than a line is broken between characters.
struct WordWrapper {
    room: usize,
    lines: Vec<StyledRow>,
    line: StyledRow,
    width: usize,
}

impl WordWrapper {
    fn new(room: usize) -> Self {
        Self {
            room,
            lines: Vec::new(),
            line: StyledRow::new(),
            width: 0,
        }
    }

    fn add_spans(&mut self, spans: &[MarkdownSpan], style: TextStyle) {
        for span in spans {
            match span {
                MarkdownSpan::Text { text } => self.add_text(text, style),
                MarkdownSpan::Code { text } => self.add_text(text, TextStyle::Code),
                MarkdownSpan::Emphasis { spans } => self.add_spans(spans, TextStyle::Emphasis),
                MarkdownSpan::Strong { spans } => self.add_spans(spans, TextStyle::Strong),
                MarkdownSpan::Strikethrough { spans } => {
                    self.add_text("~~", TextStyle::Faint);
                    self.add_spans(spans, TextStyle::Faint);
                    self.add_text("~~", TextStyle::Faint);
                }
                MarkdownSpan::Link { url, spans } => {
                    let text = crate::markdown::plain_text(spans);
                    self.add_spans(spans, TextStyle::Link);
                    if text != *url && !text.is_empty() {
                        self.add_text(&format!(" ({url})"), TextStyle::Faint);
                    } else if text.is_empty() {
                        self.add_text(url, TextStyle::Link);
                    }
                }
                MarkdownSpan::Break => self.break_line(),
            }
        }
    }

    fn add_text(&mut self, text: &str, style: TextStyle) {
        let text = clean_text(text).replace('\n', " ");
        for word in text.split_inclusive(' ') {
            let width = word.trim_end().width();
            if self.width > 0 && self.width.saturating_add(width) > self.room {
                self.break_line();
            }
            if width > self.room {
                self.add_long_word(word, style);
            } else if self.width > 0 || !word.trim().is_empty() {
                self.push(word, style);
            }
        }
    }

    fn add_long_word(&mut self, word: &str, style: TextStyle) {
        for character in word.graphemes(true) {
            if self.width.saturating_add(character.width()) > self.room {
                self.break_line();
            }
            self.push(character, style);
        }
    }

    fn push(&mut self, text: &str, style: TextStyle) {
        self.width = self.width.saturating_add(text.width());
        push(&mut self.line, style, text);
    }

    fn break_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        trim_end(&mut line);
        self.lines.push(line);
        self.width = 0;
    }

    fn finish(mut self) -> Vec<StyledRow> {
        if self.width > 0 || self.lines.is_empty() {
            self.break_line();
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::parse;

    /// Returns the lines, with `*` around each piece that is not plain.
    fn render(text: &str, width: usize) -> String {
        let lines = markdown_lines(&parse(text), width);
        let line = |line: &StyledRow| {
            let pieces = line.iter().map(|(style, text)| {
                if *style == TextStyle::Plain {
                    text.clone()
                } else {
                    format!("*{text}*")
                }
            });
            pieces.collect::<String>()
        };
        let lines: Vec<String> = lines.iter().map(line).collect();
        lines.join("\n")
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(render(text, 24), expected, "{text:?}");
    }

    #[test]
    fn blocks_are_laid_out() {
        check("# One\nTwo", "*One*\n\nTwo");
        check("a **b** `c`", "a *b* *c*");
        check("- a\n- b\n  - c", "*- *a\n*- *b\n*  - *c");
        check("9. a\n10. b", "*9. *a\n*10. *b");
        check("- [x] a\n- [ ] b", "*[x] *a\n*[ ] *b");
        check("> a\n>\n> b", "*| *a\n*|*\n*| *b");
        check("```\na\n\tb\n```", "    *a*\n    *    b*");
        check("a\n\n---\n\nb", "a\n\n*---*\n\nb");
    }

    #[test]
    fn text_is_wrapped_at_spaces_by_its_width_on_the_terminal() {
        check(
            "one two three four five six seven",
            "one two three four five\nsix seven",
        );
        check(
            "- one two three four five six",
            "*- *one two three four\n*  *five six",
        );
        check(
            &"日本".repeat(8),
            &format!("{}\n{}", "日本".repeat(6), "日本".repeat(2)),
        );
        check(
            &"e\u{301}".repeat(30),
            &format!("{}\n{}", "e\u{301}".repeat(24), "e\u{301}".repeat(6)),
        );
        check("a  \nb", "a\nb");
        check("", "");
    }

    #[test]
    fn a_table_is_aligned_or_becomes_a_list_of_rows() {
        check(
            "| a | b |\n|---|--:|\n| one | 2 |\n| x | 10 |",
            "*a*     *b*\n*---  --*\none   2\nx    10",
        );
        check(
            "| name | text |\n|---|---|\n| one | a long text that does not fit |",
            "*name*: one\n*text*: a long text that\ndoes not fit",
        );
    }

    #[test]
    fn links_show_their_address() {
        check("[x](https://a.b)", "*x** (https://a.b)*");
        check("<https://a.b>", "*https://a.b*");
    }

    #[test]
    fn control_sequences_in_markdown_are_removed() {
        let text =
            "a\u{1b}]0;t\u{7}b\u{202e}c\n\n```\n\u{1b}[2Jx\n```\n| \u{1b}[1m |\n|---|\n| \u{9b}m |";
        let lines = markdown_lines(&parse(text), 80);
        let pieces = lines.iter().flatten();
        let all: String = pieces.map(|(_, text)| text.as_str()).collect();
        assert!(!all.chars().any(char::is_control), "{all:?}");
        assert!(all.contains("ab\\u{202e}c"), "{all:?}");
    }
}
