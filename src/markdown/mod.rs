//! Markdown of answers as a tree, which every view renders in its own way. There is no HTML in it:
//! raw HTML is text, a link leads to the web or a mail address, and an image is a link. Its size
//! and depth are bounded. `from_html` turns web pages into Markdown.

mod open_elements;
pub mod from_html;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde::Serialize;

/// Maximum length of the text that is parsed, in bytes; the rest is one paragraph of plain text.
pub const MARKDOWN_BYTES_MAX: usize = 1024 * 1024;
/// Maximum depth of nested blocks and spans; what is deeper is added to the block around it.
pub const DEPTH_MAX: usize = 24;
/// The extensions of Markdown that answers use.
const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);
/// Beginnings of the addresses that a link may lead to.
const LINK_SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// A block of text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MarkdownBlock {
    /// A paragraph.
    Paragraph {
        /// Its text.
        spans: Vec<MarkdownSpan>,
    },
    /// A heading.
    Heading {
        /// The level, from 1 to 6.
        level: u8,
        /// Its text.
        spans: Vec<MarkdownSpan>,
    },
    /// A list.
    List {
        /// The number of the first item; `None` for a list with bullets.
        start: Option<u64>,
        /// The items.
        items: Vec<MarkdownItem>,
    },
    /// A code block.
    Code {
        /// The word after the fence, such as `rust`; empty without one.
        language: String,
        /// The code, with newlines.
        text: String,
    },
    /// A table.
    Table {
        /// The alignment of each column.
        alignments: Vec<ColumnAlignment>,
        /// The cells of the head.
        head: Vec<MarkdownCell>,
        /// The rows below it.
        rows: Vec<Vec<MarkdownCell>>,
    },
    /// A quotation.
    Quote {
        /// Its blocks.
        blocks: Vec<MarkdownBlock>,
    },
    /// A horizontal rule.
    Rule,
}

/// An item of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MarkdownItem {
    /// Whether its box is checked; `None` for an item without a box.
    pub checked: Option<bool>,
    /// Its blocks.
    pub blocks: Vec<MarkdownBlock>,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MarkdownCell {
    /// Its text.
    pub spans: Vec<MarkdownSpan>,
}

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnAlignment {
    /// To the left.
    Left,
    /// To the middle.
    Center,
    /// To the right.
    Right,
}

/// A piece of text in a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MarkdownSpan {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Code.
    Code {
        /// The code.
        text: String,
    },
    /// Emphasis.
    Emphasis {
        /// The emphasized text.
        spans: Vec<MarkdownSpan>,
    },
    /// Strong emphasis.
    Strong {
        /// The emphasized text.
        spans: Vec<MarkdownSpan>,
    },
    /// Text that is struck through.
    Strikethrough {
        /// The text.
        spans: Vec<MarkdownSpan>,
    },
    /// A link to the web or a mail address, or an image there.
    Link {
        /// The address.
        url: String,
        /// The text of the link.
        spans: Vec<MarkdownSpan>,
    },
    /// A line break.
    Break,
}

/// Parses `CommonMark` with tables, task lists and strikethrough, as on GitHub.
pub fn parse(text: &str) -> Vec<MarkdownBlock> {
    let (text, later_text) = text.split_at(text.floor_char_boundary(MARKDOWN_BYTES_MAX));
    let mut tree = TreeBuilder::default();
    for event in Parser::new_ext(text, OPTIONS) {
        tree.add(event);
    }
    let mut blocks = tree.finish();
    if !later_text.is_empty() {
        let spans = vec![MarkdownSpan::Text {
            text: later_text.to_owned(),
        }];
        blocks.push(MarkdownBlock::Paragraph { spans });
    }
    blocks
}

/// A node of the tree whose end has not been read.
#[derive(Debug)]
enum OpenNode {
    Paragraph,
    Heading(u8),
    List(Option<u64>, Vec<MarkdownItem>),
    Item(Option<bool>),
    Code(String),
    Table(OpenTable),
    Cell,
    Quote,
    Emphasis,
    Strong,
    Strikethrough,
    Link(String),
    /// One that is not in the tree: its content belongs to the node around it.
    Transparent,
}

/// A table whose end has not been read.
#[derive(Debug, Default)]
struct OpenTable {
    alignments: Vec<ColumnAlignment>,
    head: Vec<MarkdownCell>,
    rows: Vec<Vec<MarkdownCell>>,
    /// The row that is being read.
    row: Vec<MarkdownCell>,
}

/// An open node with the content that has been read.
#[derive(Debug)]
struct OpenFrame {
    node: OpenNode,
    blocks: Vec<MarkdownBlock>,
    spans: Vec<MarkdownSpan>,
}

impl OpenFrame {
    fn new(node: OpenNode) -> Self {
        Self {
            node,
            blocks: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Returns the blocks. Spans outside of blocks, as in a tight list, become a paragraph.
    fn into_blocks(mut self) -> Vec<MarkdownBlock> {
        self.close_paragraph();
        self.blocks
    }

    fn close_paragraph(&mut self) {
        if !self.spans.is_empty() {
            let spans = std::mem::take(&mut self.spans);
            self.blocks.push(MarkdownBlock::Paragraph { spans });
        }
    }
}

/// Returns the blocks at the beginning of `text` that more text cannot change, and their length in
/// bytes. The last block may continue, so it is not among them.
pub fn parse_complete(text: &str) -> (Vec<MarkdownBlock>, usize) {
    let parser = Parser::new_ext(text, OPTIONS).into_offset_iter();
    let mut depth = 0_usize;
    let mut last_block_start = 0;
    for (event, range) in parser {
        if depth == 0 {
            last_block_start = range.start;
        }
        if let Event::Start(_) = event {
            depth = depth.saturating_add(1);
        } else if let Event::End(_) = event {
            depth = depth.saturating_sub(1);
        }
    }
    let complete_text = text.get(..last_block_start).unwrap_or_default();
    (parse(complete_text), complete_text.len())
}

/// Builds the tree from the events of the parser.
#[derive(Debug)]
struct TreeBuilder {
    /// The open nodes, from the outermost to the innermost.
    open: Vec<OpenFrame>,
    root: OpenFrame,
}

impl Default for TreeBuilder {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            root: OpenFrame::new(OpenNode::Transparent),
        }
    }
}

impl TreeBuilder {
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.add_text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.add_span(MarkdownSpan::Code {
                    text: text.into_string(),
                });
            }
            Event::SoftBreak => self.add_text("\n"),
            Event::HardBreak => self.add_span(MarkdownSpan::Break),
            Event::Rule => self.add_block(MarkdownBlock::Rule),
            Event::TaskListMarker(checked) => {
                if let OpenNode::Item(is_checked) = &mut self.innermost().node {
                    *is_checked = Some(checked);
                }
            }
            Event::FootnoteReference(name) => self.add_text(&format!("[{name}]")),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let node = match tag {
            Tag::Paragraph => OpenNode::Paragraph,
            Tag::Heading { level, .. } => OpenNode::Heading(level_number(level)),
            Tag::List(start) => OpenNode::List(start, Vec::new()),
            Tag::Item => OpenNode::Item(None),
            Tag::CodeBlock(kind) => OpenNode::Code(match kind {
                CodeBlockKind::Fenced(info) => {
                    let mut words = info.split([' ', ',']);
                    words.next().unwrap_or_default().to_owned()
                }
                CodeBlockKind::Indented => String::new(),
            }),
            Tag::Table(alignments) => OpenNode::Table(OpenTable {
                alignments: alignments.into_iter().map(column_alignment).collect(),
                ..OpenTable::default()
            }),
            Tag::TableCell => OpenNode::Cell,
            Tag::BlockQuote(_) => OpenNode::Quote,
            Tag::Emphasis => OpenNode::Emphasis,
            Tag::Strong => OpenNode::Strong,
            Tag::Strikethrough => OpenNode::Strikethrough,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }
                if is_safe_address(&dest_url) =>
            {
                OpenNode::Link(dest_url.into_string())
            }
            Tag::TableHead
            | Tag::TableRow
            | Tag::HtmlBlock
            | Tag::Link { .. }
            | Tag::Image { .. }
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => OpenNode::Transparent,
        };
        self.open.push(OpenFrame::new(node));
    }

    fn end(&mut self, end: TagEnd) {
        let is_too_deep = self.open.len() > DEPTH_MAX;
        let Some(mut frame) = self.open.pop() else {
            return;
        };
        let node = std::mem::replace(&mut frame.node, OpenNode::Transparent);
        if is_too_deep {
            self.merge(frame);
            return;
        }
        match node {
            OpenNode::Paragraph => {
                let spans = frame.spans;
                self.add_block(MarkdownBlock::Paragraph { spans });
            }
            OpenNode::Heading(level) => {
                let spans = frame.spans;
                self.add_block(MarkdownBlock::Heading { level, spans });
            }
            OpenNode::List(start, items) => self.add_block(MarkdownBlock::List { start, items }),
            OpenNode::Item(checked) => {
                let blocks = frame.into_blocks();
                if let OpenNode::List(_, items) = &mut self.innermost().node {
                    items.push(MarkdownItem { checked, blocks });
                }
            }
            OpenNode::Code(language) => {
                let text = plain_text(&frame.spans);
                self.add_block(MarkdownBlock::Code { language, text });
            }
            OpenNode::Table(table) => self.add_block(MarkdownBlock::Table {
                alignments: table.alignments,
                head: table.head,
                rows: table.rows,
            }),
            OpenNode::Cell => {
                let spans = frame.spans;
                if let Some(table) = self.open_table() {
                    table.row.push(MarkdownCell { spans });
                }
            }
            OpenNode::Quote => {
                let blocks = frame.into_blocks();
                self.add_block(MarkdownBlock::Quote { blocks });
            }
            OpenNode::Emphasis => self.add_span(MarkdownSpan::Emphasis { spans: frame.spans }),
            OpenNode::Strong => self.add_span(MarkdownSpan::Strong { spans: frame.spans }),
            OpenNode::Strikethrough => {
                self.add_span(MarkdownSpan::Strikethrough { spans: frame.spans });
            }
            OpenNode::Link(url) => self.add_span(MarkdownSpan::Link {
                url,
                spans: frame.spans,
            }),
            OpenNode::Transparent => {
                self.merge(frame);
                self.end_row(end);
            }
        }
    }

    /// Adds the row of a table that ends.
    fn end_row(&mut self, end: TagEnd) {
        let Some(table) = self.open_table() else {
            return;
        };
        if end == TagEnd::TableHead {
            table.head = std::mem::take(&mut table.row);
        } else if end == TagEnd::TableRow {
            let row = std::mem::take(&mut table.row);
            table.rows.push(row);
        }
    }

    /// Returns the innermost open table.
    fn open_table(&mut self) -> Option<&mut OpenTable> {
        self.open.iter_mut().rev().find_map(|frame| {
            if let OpenNode::Table(table) = &mut frame.node {
                Some(table)
            } else {
                None
            }
        })
    }

    /// Returns the innermost open node, or the root.
    fn innermost(&mut self) -> &mut OpenFrame {
        self.open.last_mut().unwrap_or(&mut self.root)
    }

    /// Adds the content of a node that is not in the tree to the node around it.
    fn merge(&mut self, frame: OpenFrame) {
        let parent = self.innermost();
        if !frame.blocks.is_empty() {
            parent.close_paragraph();
            parent.blocks.extend(frame.blocks);
        }
        parent.spans.extend(frame.spans);
    }

    fn add_block(&mut self, block: MarkdownBlock) {
        let parent = self.innermost();
        parent.close_paragraph();
        parent.blocks.push(block);
    }

    fn add_span(&mut self, span: MarkdownSpan) {
        self.innermost().spans.push(span);
    }

    fn add_text(&mut self, piece: &str) {
        let spans = &mut self.innermost().spans;
        if let Some(MarkdownSpan::Text { text }) = spans.last_mut() {
            text.push_str(piece);
        } else {
            spans.push(MarkdownSpan::Text {
                text: piece.to_owned(),
            });
        }
    }

    fn finish(mut self) -> Vec<MarkdownBlock> {
        while let Some(frame) = self.open.pop() {
            self.merge(frame);
        }
        self.root.into_blocks()
    }
}

/// Returns whether a link may lead to `url`.
fn is_safe_address(url: &str) -> bool {
    LINK_SCHEMES.iter().any(|scheme| {
        let start = url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// Returns the text of spans without their styles.
pub fn plain_text(spans: &[MarkdownSpan]) -> String {
    let mut text = String::new();
    for span in spans {
        match span {
            MarkdownSpan::Text { text: piece } | MarkdownSpan::Code { text: piece } => {
                text.push_str(piece);
            }
            MarkdownSpan::Emphasis { spans }
            | MarkdownSpan::Strong { spans }
            | MarkdownSpan::Strikethrough { spans }
            | MarkdownSpan::Link { spans, .. } => text.push_str(&plain_text(spans)),
            MarkdownSpan::Break => text.push('\n'),
        }
    }
    text
}

fn level_number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

fn column_alignment(alignment: Alignment) -> ColumnAlignment {
    match alignment {
        Alignment::None | Alignment::Left => ColumnAlignment::Left,
        Alignment::Center => ColumnAlignment::Center,
        Alignment::Right => ColumnAlignment::Right,
    }
}

#[cfg(test)]
mod tests;
