//! Converts an HTML page to Markdown for a model: headings, paragraphs, lists, links, code and
//! tables. Scripts, styles, what is not text and text that the HTML itself hides are left out. The
//! page is untrusted: nothing is recursive, and the result is bounded.

use std::convert::Infallible;

use html5gum::{DefaultEmitter, StartTag, StringReader, Token, Tokenizer};
use url::Url;

use crate::markdown::open_elements::{BLOCKS, EndTagEffect, OpenElements};

/// The maximum depth of nested lists and quotes that is shown; deeper ones are not indented
/// further.
const NESTING_MAX: usize = 12;
/// The maximum length of a link's address, in bytes; a longer one is left out.
const LINK_BYTES_MAX: usize = 1024;
/// The maximum length of the marks before a text, in bytes; further ones are left out.
const MARKS_BYTES_MAX: usize = 1024;
/// The maximum number of columns in the line below the first row of a table.
const COLUMNS_MAX: usize = 144;
/// The maximum length of a title, in bytes.
const TITLE_BYTES_MAX: usize = 1024;

/// Elements whose content is left out.
const SKIPPED_ELEMENTS: &[&[u8]] = &[
    b"script",
    b"style",
    b"noscript",
    b"template",
    b"svg",
    b"math",
    b"iframe",
    b"noembed",
    b"noframes",
    b"audio",
    b"video",
    b"object",
    b"canvas",
    b"select",
    b"datalist",
    b"textarea",
];

/// A page as Markdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageText {
    /// Its title; empty without one.
    pub title: String,
    /// Its text.
    pub markdown: String,
    /// Whether the text was longer than the maximum, and ends there.
    pub is_truncated: bool,
}

/// Converts `html`, the page at `base`, to at most about `bytes_max` bytes of Markdown.
pub fn page_to_markdown(html: &str, base: &Url, bytes_max: usize) -> PageText {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let tokens: Tokenizer<StringReader<'_>, DefaultEmitter> =
        Tokenizer::new_with_emitter(html, emitter);
    let mut writer = MarkdownWriter::new(base);
    for token in tokens {
        let Ok(token): Result<Token, Infallible> = token;
        writer.write(token);
        if writer.out.len() > bytes_max {
            writer.page.is_truncated = true;
            break;
        }
    }
    writer.finish(bytes_max)
}

/// The gap before the next text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TextGap {
    None,
    Space,
    Line,
    Paragraph,
}

/// A list that is open.
#[derive(Clone, Copy, Debug)]
enum OpenList {
    Bullets,
    /// With the number of the next item.
    Numbers(u32),
}

/// The state of a conversion.
struct MarkdownWriter<'b> {
    base: &'b Url,
    page: PageText,
    out: String,
    gap: TextGap,
    /// Marks that are written before the next text: of an item, a heading, emphasis or a link.
    marks: String,
    lists: Vec<OpenList>,
    quote_depth: usize,
    /// The number of open `pre` elements.
    pre_depth: usize,
    /// The addresses of open links; `None` for one without an address that a reader could follow.
    links: Vec<Option<String>>,
    /// The element whose content is skipped, and how often it is open.
    skipped_element: Option<(Vec<u8>, usize)>,
    elements: OpenElements,
    /// Whether a formula for screen readers was skipped since the last text: its visible form may
    /// follow.
    has_skipped_formula: bool,
    is_in_title: bool,
    /// The number of cells in the current row of a table.
    cell_count: usize,
    /// Whether the next row is the first one of its table.
    is_first_row: bool,
}

impl<'b> MarkdownWriter<'b> {
    fn new(base: &'b Url) -> Self {
        Self {
            base,
            page: PageText::default(),
            out: String::new(),
            gap: TextGap::None,
            marks: String::new(),
            lists: Vec::new(),
            quote_depth: 0,
            pre_depth: 0,
            links: Vec::new(),
            skipped_element: None,
            elements: OpenElements::default(),
            has_skipped_formula: false,
            is_in_title: false,
            cell_count: 0,
            is_first_row: false,
        }
    }

    fn write(&mut self, token: Token) {
        match token {
            Token::StartTag(tag) => self.open_element(&tag),
            Token::EndTag(tag) => self.close_element(&tag.name),
            Token::String(text) => self.write_text(&String::from_utf8_lossy(&text.value)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }

    fn finish(mut self, bytes_max: usize) -> PageText {
        if self.pre_depth > 0 {
            self.out.push_str("\n```");
        }
        let end = self.out.floor_char_boundary(bytes_max);
        self.out.truncate(end);
        self.page.markdown = self.out;
        self.page
    }

    fn open_element(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some((skipped_name, depth)) = &mut self.skipped_element {
            if skipped_name == name && !tag.self_closing {
                *depth = depth.saturating_add(1);
            }
            return;
        }
        if SKIPPED_ELEMENTS.contains(&name) {
            self.has_skipped_formula |= name == b"math";
            if !tag.self_closing {
                self.skipped_element = Some((name.to_vec(), 1));
            }
            return;
        }
        if self.elements.open(tag, self.has_skipped_formula) {
            return;
        }
        match name {
            b"title" => self.is_in_title = true,
            b"br" => self.write_line_break(),
            b"hr" => self.write_rule(),
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.require_gap(TextGap::Paragraph);
                let level = name.get(1).map_or(1, |digit| usize::from(digit - b'0'));
                self.marks = format!("{} ", "#".repeat(level));
            }
            b"ul" | b"ol" => self.open_list(name == b"ol"),
            b"li" => self.open_item(),
            b"blockquote" => {
                self.require_gap(TextGap::Paragraph);
                self.quote_depth = self.quote_depth.saturating_add(1);
            }
            b"pre" => self.open_preformatted(),
            b"strong" | b"b" => self.open_mark("**"),
            b"em" | b"i" => self.open_mark("*"),
            b"code" | b"kbd" | b"samp" => self.open_mark("`"),
            b"a" => self.open_link(tag),
            b"img" => self.write_image(tag),
            b"table" => {
                self.require_gap(TextGap::Paragraph);
                self.is_first_row = true;
            }
            b"tr" => {
                self.require_gap(TextGap::Line);
                self.cell_count = 0;
            }
            b"td" | b"th" => {
                self.cell_count = self.cell_count.saturating_add(1);
                self.gap = self.gap.max(if self.cell_count == 1 {
                    TextGap::Line
                } else {
                    TextGap::Space
                });
                self.marks.push_str("| ");
            }
            name if BLOCKS.contains(&name) => self.require_block(),
            _ => {}
        }
    }

    fn close_element(&mut self, name: &[u8]) {
        if let Some((skipped_name, depth)) = &mut self.skipped_element {
            if skipped_name == name {
                *depth = depth.saturating_sub(1);
                if *depth == 0 {
                    self.skipped_element = None;
                }
            }
            return;
        }
        if self.elements.close(name) == EndTagEffect::Hidden {
            return;
        }
        match name {
            b"title" => self.is_in_title = false,
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" | b"table" => {
                self.require_gap(TextGap::Paragraph);
            }
            b"ul" | b"ol" => {
                self.lists.pop();
                let gap = if self.lists.is_empty() {
                    TextGap::Paragraph
                } else {
                    TextGap::Line
                };
                self.require_gap(gap);
            }
            b"li" => self.require_gap(TextGap::Line),
            b"blockquote" => {
                self.require_gap(TextGap::Paragraph);
                self.quote_depth = self.quote_depth.saturating_sub(1);
            }
            b"pre" => self.close_preformatted(),
            b"strong" | b"b" => self.close_mark("**"),
            b"em" | b"i" => self.close_mark("*"),
            b"code" | b"kbd" | b"samp" => self.close_mark("`"),
            b"a" => self.close_link(),
            b"tr" => self.close_row(),
            name if BLOCKS.contains(&name) => self.require_block(),
            _ => {}
        }
    }

    /// Requires a gap for a block: a line of its own in a list, and only a space in a cell of a
    /// table.
    fn require_block(&mut self) {
        if self.cell_count > 0 {
            self.gap = self.gap.max(TextGap::Space);
        } else if self.lists.is_empty() {
            self.require_gap(TextGap::Paragraph);
        } else {
            self.require_gap(TextGap::Line);
        }
    }

    /// Requires at least `gap` before the next text, which ends the current paragraph or line.
    fn require_gap(&mut self, gap: TextGap) {
        if self.pre_depth == 0 {
            self.gap = self.gap.max(gap);
            // The marks of an empty item or heading are dropped, those of a list item stay for the
            // paragraph in it.
            if !self.marks.ends_with("- ") && !self.marks.ends_with(". ") {
                self.marks.clear();
            }
        }
    }

    fn write_line_break(&mut self) {
        if self.pre_depth > 0 {
            self.out.push('\n');
        } else {
            self.require_line();
        }
    }

    /// Requires a line of its own for the next text, and only a space in a cell of a table.
    fn require_line(&mut self) {
        let gap = if self.cell_count > 0 {
            TextGap::Space
        } else {
            TextGap::Line
        };
        self.gap = self.gap.max(gap);
    }

    fn write_rule(&mut self) {
        self.require_gap(TextGap::Paragraph);
        self.push_text("---");
        self.require_gap(TextGap::Paragraph);
    }

    fn open_list(&mut self, is_numbered: bool) {
        let gap = if self.lists.is_empty() {
            TextGap::Paragraph
        } else {
            TextGap::Line
        };
        self.require_gap(gap);
        if self.lists.len() < NESTING_MAX {
            let list = if is_numbered {
                OpenList::Numbers(1)
            } else {
                OpenList::Bullets
            };
            self.lists.push(list);
        }
    }

    fn open_item(&mut self) {
        self.require_gap(TextGap::Line);
        let marker = match self.lists.last_mut() {
            Some(OpenList::Numbers(next)) => {
                let marker = format!("{next}. ");
                *next = next.saturating_add(1);
                marker
            }
            Some(OpenList::Bullets) | None => "- ".to_owned(),
        };
        let indent = "  ".repeat(self.lists.len().saturating_sub(1));
        self.marks = format!("{indent}{marker}");
    }

    fn open_preformatted(&mut self) {
        if self.pre_depth == 0 {
            self.require_gap(TextGap::Paragraph);
            self.marks.clear();
            self.push_text("```\n");
        }
        self.pre_depth = self.pre_depth.saturating_add(1);
    }

    fn close_preformatted(&mut self) {
        if self.pre_depth == 1 {
            let closing_fence = if self.out.ends_with('\n') {
                "```"
            } else {
                "\n```"
            };
            self.out.push_str(closing_fence);
            self.gap = TextGap::Paragraph;
        }
        self.pre_depth = self.pre_depth.saturating_sub(1);
    }

    /// Adds the opening mark of emphasis, code or a link.
    fn open_mark(&mut self, mark: &str) {
        if self.pre_depth == 0 && self.marks.len() < MARKS_BYTES_MAX {
            self.marks.push_str(mark);
        }
    }

    /// Closes emphasis or code; without text in it, nothing is left of it.
    fn close_mark(&mut self, mark: &str) {
        if self.pre_depth > 0 {
            return;
        }
        match self.marks.strip_suffix(mark) {
            Some(rest) => self.marks.truncate(rest.len()),
            None if !self.out.is_empty() => self.out.push_str(mark),
            None => {}
        }
    }

    fn open_link(&mut self, tag: &StartTag<()>) {
        if self.links.len() >= NESTING_MAX {
            return;
        }
        let address = attribute(tag, b"href").and_then(|href| self.link_address(&href));
        if address.is_some() {
            self.open_mark("[");
        }
        self.links.push(address);
    }

    fn close_link(&mut self) {
        if let Some(Some(address)) = self.links.pop() {
            if self.marks.ends_with('[') {
                self.marks.pop();
            } else if self.pre_depth == 0 {
                self.out.push_str("](");
                self.out.push_str(&address);
                self.out.push(')');
            }
        }
    }

    fn write_image(&mut self, tag: &StartTag<()>) {
        let alt_text = attribute(tag, b"alt").unwrap_or_default();
        let text = alt_text.split_whitespace().collect::<Vec<_>>().join(" ");
        let address = attribute(tag, b"src").and_then(|src| self.link_address(&src));
        if let (false, Some(address)) = (text.is_empty(), address) {
            self.push_text(&format!("![{text}]({address})"));
        }
    }

    /// Returns the absolute address of a link; `None` for places in the page itself and for what is
    /// not a page.
    fn link_address(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') || href.len() > LINK_BYTES_MAX {
            return None;
        }
        let url = self.base.join(href).ok()?;
        let is_page = matches!(url.scheme(), "http" | "https" | "mailto");
        let text = String::from(url).replace('(', "%28").replace(')', "%29");
        (is_page && text.len() <= LINK_BYTES_MAX).then_some(text)
    }

    /// Ends a row of a table, and writes the line below the first one.
    fn close_row(&mut self) {
        if self.cell_count == 0 {
            return;
        }
        self.gap = TextGap::Space;
        let empty_cells = std::mem::take(&mut self.marks);
        self.push_text(&format!("{empty_cells}|"));
        if std::mem::take(&mut self.is_first_row) {
            self.out.push('\n');
            self.push_prefix();
            let columns = self.cell_count.min(COLUMNS_MAX);
            self.out.push_str(&"|---".repeat(columns));
            self.out.push('|');
        }
        self.cell_count = 0;
        self.gap = TextGap::Line;
    }

    fn write_text(&mut self, text: &str) {
        if self.skipped_element.is_some() || self.elements.hides_text() {
            return;
        }
        if self.is_in_title {
            let bytes_left = TITLE_BYTES_MAX.saturating_sub(self.page.title.len());
            let end = text.floor_char_boundary(bytes_left);
            let piece = text.get(..end).unwrap_or_default();
            let words: Vec<&str> = piece.split_whitespace().collect();
            self.page.title.push_str(&words.join(" "));
            return;
        }
        if self.pre_depth > 0 {
            self.out.push_str(text);
            return;
        }
        for (index, word) in text.split(char::is_whitespace).enumerate() {
            if index > 0 {
                self.gap = self.gap.max(TextGap::Space);
            }
            if !word.is_empty() {
                self.push_text(word);
            }
        }
    }

    /// Writes text after the gap and the marks that belong before it.
    fn push_text(&mut self, text: &str) {
        match (self.gap, self.out.is_empty()) {
            (_, true) => self.push_prefix(),
            (TextGap::None, false) => {}
            (TextGap::Space, false) => self.out.push(' '),
            (TextGap::Line, false) => {
                self.out.push('\n');
                self.push_prefix();
            }
            (TextGap::Paragraph, false) => {
                self.out.push_str("\n\n");
                self.push_prefix();
            }
        }
        self.gap = TextGap::None;
        self.has_skipped_formula = false;
        self.out.push_str(&self.marks);
        self.marks.clear();
        self.out.push_str(text);
    }

    /// Begins a line of a quote.
    fn push_prefix(&mut self) {
        let depth = self.quote_depth.min(NESTING_MAX);
        self.out.push_str(&"> ".repeat(depth));
    }
}

/// Returns the value of an attribute of a start tag.
fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let value = tag.attributes.get(name)?;
    Some(String::from_utf8_lossy(&value.value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(html: &str, expected: &str) {
        let base = Url::parse("https://example.org/docs/").unwrap();
        let page = page_to_markdown(html, &base, 10_000);
        assert_eq!(page.markdown, expected, "{html}");
    }

    #[test]
    fn pages_become_markdown() {
        check(
            "<h1>A &amp; B</h1><p>one\n two</p><p>three",
            "# A & B\n\none two\n\nthree",
        );
        check(
            "<ul><li>a<li><p>b</p><ol><li>c</li></ol></ul>d",
            "- a\n- b\n  1. c\n\nd",
        );
        check(
            "see <a href='x?a=1'>the <b>guide</b></a>, <a href='#top'>top</a>",
            "see [the **guide**](https://example.org/docs/x?a=1), top",
        );
        check("<pre><code>a\n  b</code></pre>c", "```\na\n  b\n```\n\nc");
        check("use <code>x</code> <i></i>now<br>next", "use `x` now\nnext");
        check(
            "<blockquote><p>a</p><p>b</p></blockquote>c",
            "> a\n\n> b\n\nc",
        );
        check(
            "<table><tr><th>a<th>b</tr><tr><td>1</td><td><p>2</p></td></tr></table>",
            "| a | b |\n|---|---|\n| 1 | 2 |",
        );
        check(
            "a<hr>b<img alt='cat' src=c.png>",
            "a\n\n---\n\nb![cat](https://example.org/docs/c.png)",
        );
    }

    #[test]
    fn scripts_styles_and_unsafe_links_of_a_page_are_left_out() {
        check("<script>a<b</script><style>p{}</style>x<!-- y -->", "x");
        check("<svg><svg>a</svg>b</svg>c<noscript>d</noscript>", "c");
        check(
            "<a href='javascript:alert(1)'>a</a><a href='data:x'>b</a>",
            "ab",
        );
        check("<img src=a.png><img alt=b>", "");
        let base = Url::parse("https://example.org").unwrap();
        let page = page_to_markdown("<title> A\n b </title><body>c", &base, 100);
        assert_eq!((page.title.as_str(), page.markdown.as_str()), ("A b", "c"));
    }

    #[test]
    fn text_that_the_html_hides_is_left_out() {
        for attributes in [
            "hidden",
            "hidden=until-found",
            "popover",
            "aria-hidden=true",
            "style='display: none'",
            "style='color:red;DISPLAY:none!important'",
            "style='visibility:hidden'",
            "style='font-size:0'",
        ] {
            for (html, expected) in [
                ("a<span @>x <b>y</b></span>b", "ab"),
                ("a<p @>x<p>b", "a\n\nb"),
                ("a<div @><div>x</div>y</i></div>b", "ab"),
                ("<ul><li>a<li @>x<ul><li>y</ul><li>b</ul>c", "- a\n- b\n\nc"),
                ("<ul><li @>x</ul>a", "a"),
                ("<table @><tr><td>x</table>a", "a"),
                ("<table><tr><td>a<td @>x<td>b</table>c", "| a | b\n\nc"),
                ("<dl><dt @>x<dd>a</dl>", "a"),
                ("<pre @>x</pre>a", "a"),
                ("<a @ href=x>x</a>a", "a"),
                ("a<dialog @ open>x</dialog>", "a"),
            ] {
                check(&html.replace('@', attributes), expected);
            }
        }
        check("a<dialog>x</dialog>b", "ab");
        check("a<img hidden alt=x src=c.png>b", "ab");
        // Controls: what is shown, or shown again.
        for html in [
            "<span style='display:inline'>a</span>",
            "<span hidden style='display:block'>a</span>",
            "<span aria-hidden=false>a</span>",
            "<dialog open>a</dialog>",
            "<p style='visibility:hidden'><b style='visibility:visible'>a</b></p>",
            "<p style='font-size:0'>x<span style='font-size:12px'>a</span></p>",
            "<body hidden>a",
            "<span hidden></span>a",
            "<math>x</math><span aria-hidden=true>a</span>",
        ] {
            let base = Url::parse("https://example.org").unwrap();
            let shown = page_to_markdown(html, &base, 100).markdown;
            assert_eq!(shown.replace('*', ""), "a", "{html}");
        }
        check("<p hidden><b style='visibility:visible'>x</b></p>", "");
        check(
            "<p style='font-size:0'><b style='font-size:2em'>x</b></p>",
            "",
        );
        check("<math>x</math>a<span aria-hidden=true>y</span>", "a");
    }

    #[test]
    fn hidden_text_stays_hidden_however_deep_it_is() {
        let deep = "<div>".repeat(2_000);
        check(&format!("{deep}a<div hidden>{deep}x"), "a");
        check(&format!("<div hidden>{}x", "</span>".repeat(2_000)), "");
        check(&format!("<div hidden>{}x</div>a", "<p>".repeat(2_000)), "a");
    }

    #[test]
    fn a_hostile_page_is_bounded() {
        let base = Url::parse("https://example.org").unwrap();
        for html in [
            "<ul><li>x".repeat(20_000),
            "<blockquote>x".repeat(20_000),
            "<b><a href=x>".repeat(20_000) + "x",
            "<table><tr>".to_owned() + &"<td>x".repeat(20_000) + "</tr>",
            "x".repeat(100_000),
            "<title>".to_owned() + &"é ".repeat(50_000),
            "</ul></li></blockquote></pre></a></b></tr>".repeat(1000),
            "<pre><".repeat(1000),
            "<span>".repeat(1000) + &"</x>".repeat(20_000),
            "<p hidden style='display:none'>x".repeat(20_000),
        ] {
            let page = page_to_markdown(&html, &base, 5_000);
            assert!(page.markdown.len() <= 5_000 && page.title.len() <= 2_048);
        }
    }
}
