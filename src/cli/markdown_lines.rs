//! Markdown as styled lines for a terminal: headings, lists, quotations, code and tables, wrapped
//! to a width at spaces. A table that is too wide becomes a list of its rows.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::cli::output::{StyledLine, TextStyle};
use crate::cli::terminal_text::clean_text;
use crate::markdown::{ColumnAlignment, MarkdownBlock, MarkdownCell, MarkdownItem, MarkdownSpan};

/// Minimum width of lines, in terminal columns: lines are wider than a terminal that has fewer.
const WIDTH_MIN: usize = 20;
/// The separator of two columns of a table.
const COLUMN_SEPARATOR: &str = "  ";

/// Appends `text` to a line, to its last piece if that has the same style.
fn append(line: &mut StyledLine, style: TextStyle, text: &str) {
    if text.is_empty() {
        return;
    }
    match line.last_mut() {
        Some((last_style, last_text)) if *last_style == style => last_text.push_str(text),
        Some(_) | None => line.push((style, text.to_owned())),
    }
}

fn width_of(line: &StyledLine) -> usize {
    line.iter().map(|(_, text)| text.width()).sum()
}

/// Removes the spaces at the end of the last piece of a line.
fn trim_end(line: &mut StyledLine) {
    if let Some((_, text)) = line.last_mut() {
        let length = text.trim_end().len();
        text.truncate(length);
    }
}

/// Renders `blocks` as lines of at most `width` columns, except for code. Blocks are separated by
/// an empty line.
pub(crate) fn markdown_lines(blocks: &[MarkdownBlock], width: usize) -> Vec<StyledLine> {
    let mut writer = LineWriter {
        lines: Vec::new(),
        margins: Vec::new(),
        width: width.max(WIDTH_MIN),
    };
    writer.write_blocks(blocks, BlockSpacing::Loose);
    writer.lines
}

/// Whether an empty line separates blocks, as in a loose or a tight list of Markdown.
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

/// Writes blocks as lines.
struct LineWriter {
    lines: Vec<StyledLine>,
    /// The margins of the lists and quotations around the current block, outermost first.
    margins: Vec<LeftMargin>,
    /// Maximum width of a line with its margins.
    width: usize,
}

impl LineWriter {
    fn write_blocks(&mut self, blocks: &[MarkdownBlock], spacing: BlockSpacing) {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 && spacing == BlockSpacing::Loose {
                self.write_line(StyledLine::new());
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
                let mut line = StyledLine::new();
                append(&mut line, TextStyle::Faint, "---");
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
                self.write_line(StyledLine::new());
            }
            self.write_blocks(&item.blocks, spacing);
            self.margins.pop();
        }
    }

    fn write_code(&mut self, code: &str) {
        for text in code.lines() {
            let mut line = StyledLine::new();
            append(&mut line, TextStyle::Plain, "    ");
            append(&mut line, TextStyle::Code, &clean_text(text));
            self.write_line(line);
        }
    }

    fn write_spans(&mut self, spans: &[MarkdownSpan], style: TextStyle) {
        let mut wrapper = WordWrapper::new(self.text_width());
        wrapper.add_spans(spans, style);
        for line in wrapper.finish() {
            self.write_line(line);
        }
    }

    /// Returns the width that the margins leave for text.
    fn text_width(&self) -> usize {
        let margins = self.margins.iter().map(|margin| margin.rest.width());
        self.width.saturating_sub(margins.sum()).max(WIDTH_MIN)
    }

    /// Writes the margins and `content` as a line.
    fn write_line(&mut self, content: StyledLine) {
        let mut line = StyledLine::new();
        for margin in &mut self.margins {
            let prefix = margin.first.take().unwrap_or_else(|| margin.rest.clone());
            append(&mut line, TextStyle::Faint, &prefix);
        }
        for (style, text) in content {
            append(&mut line, style, &text);
        }
        trim_end(&mut line);
        self.lines.push(line);
    }

    /// Writes a table in columns or, if it is too wide for that, as a list of its rows.
    fn write_table(
        &mut self,
        alignments: &[ColumnAlignment],
        head: &[MarkdownCell],
        rows: &[Vec<MarkdownCell>],
    ) {
        let cells = |row: &[MarkdownCell], style| -> Vec<StyledLine> {
            row.iter().map(|cell| cell_line(cell, style)).collect()
        };
        let head = cells(head, TextStyle::Strong);
        let rows: Vec<Vec<StyledLine>> = rows
            .iter()
            .map(|row| cells(row, TextStyle::Plain))
            .collect();
        let column_width = |column: usize| {
            let all_rows = std::iter::once(&head).chain(&rows);
            let widths = all_rows.filter_map(|row| row.get(column).map(width_of));
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(column_width).collect();
        let separators = widths.len().saturating_sub(1) * COLUMN_SEPARATOR.len();
        if widths.iter().sum::<usize>().saturating_add(separators) > self.text_width() {
            self.write_rows_as_lists(&head, &rows);
            return;
        }
        self.write_row(&head, &widths, alignments);
        let mut rule = StyledLine::new();
        let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        append(&mut rule, TextStyle::Faint, &dashes.join(COLUMN_SEPARATOR));
        self.write_line(rule);
        for row in &rows {
            self.write_row(row, &widths, alignments);
        }
    }

    fn write_row(&mut self, row: &[StyledLine], widths: &[usize], alignments: &[ColumnAlignment]) {
        let mut line = StyledLine::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if column > 0 {
                append(&mut line, TextStyle::Plain, COLUMN_SEPARATOR);
            }
            let padding = width.saturating_sub(width_of(cell));
            let left_padding = match alignments.get(column) {
                Some(ColumnAlignment::Right) => padding,
                Some(ColumnAlignment::Center) => padding / 2,
                Some(ColumnAlignment::Left) | None => 0,
            };
            append(&mut line, TextStyle::Plain, &" ".repeat(left_padding));
            for (style, text) in cell {
                append(&mut line, *style, text);
            }
            append(
                &mut line,
                TextStyle::Plain,
                &" ".repeat(padding.saturating_sub(left_padding)),
            );
        }
        self.write_line(line);
    }

    /// Writes each row of a table as a list of lines `head: cell`.
    fn write_rows_as_lists(&mut self, head: &[StyledLine], rows: &[Vec<StyledLine>]) {
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                self.write_line(StyledLine::new());
            }
            for (name, cell) in head.iter().zip(row) {
                let mut wrapper = WordWrapper::new(self.text_width());
                for (style, text) in name {
                    wrapper.add_text(text, *style);
                }
                wrapper.add_text(": ", TextStyle::Plain);
                for (style, text) in cell {
                    wrapper.add_text(text, *style);
                }
                for line in wrapper.finish() {
                    self.write_line(line);
                }
            }
        }
    }
}

/// Returns the text of a cell as one line.
fn cell_line(cell: &MarkdownCell, style: TextStyle) -> StyledLine {
    let mut wrapper = WordWrapper::new(usize::MAX);
    wrapper.add_spans(&cell.spans, style);
    wrapper.finish().into_iter().next().unwrap_or_default()
}

/// Wraps text at spaces. A word that is longer than a line is broken between characters.
struct WordWrapper {
    width_max: usize,
    lines: Vec<StyledLine>,
    current_line: StyledLine,
    /// The width of the current line so far.
    current_width: usize,
}

impl WordWrapper {
    fn new(width_max: usize) -> Self {
        Self {
            width_max,
            lines: Vec::new(),
            current_line: StyledLine::new(),
            current_width: 0,
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
            if self.current_width > 0 && self.current_width.saturating_add(width) > self.width_max {
                self.break_line();
            }
            if width > self.width_max {
                self.add_long_word(word, style);
            } else if self.current_width > 0 || !word.trim().is_empty() {
                self.push_text(word, style);
            }
        }
    }

    fn add_long_word(&mut self, word: &str, style: TextStyle) {
        for character in word.graphemes(true) {
            if self.current_width.saturating_add(character.width()) > self.width_max {
                self.break_line();
            }
            self.push_text(character, style);
        }
    }

    fn push_text(&mut self, text: &str, style: TextStyle) {
        self.current_width = self.current_width.saturating_add(text.width());
        append(&mut self.current_line, style, text);
    }

    fn break_line(&mut self) {
        let mut line = std::mem::take(&mut self.current_line);
        trim_end(&mut line);
        self.lines.push(line);
        self.current_width = 0;
    }

    fn finish(mut self) -> Vec<StyledLine> {
        if self.current_width > 0 || self.lines.is_empty() {
            self.break_line();
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::parse;

    /// Returns the lines of Markdown, with `*` around each piece that is not plain.
    fn render(text: &str, width: usize) -> String {
        let lines = markdown_lines(&parse(text), width);
        let line = |line: &StyledLine| {
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
