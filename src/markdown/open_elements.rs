//! The open elements of a page while it is read, and whether a browser would show text in them, as
//! far as attributes and inline styles say. Style sheets and scripts are not read. The page is
//! untrusted: the number of open elements is bounded.

use html5gum::StartTag;

/// Maximum number of open elements, as in browsers; a deeper one takes the place of the innermost.
const OPEN_MAX: usize = 512;

/// Elements that begin a paragraph of their own.
pub(super) const BLOCKS: &[&[u8]] = &[
    b"address",
    b"article",
    b"aside",
    b"body",
    b"center",
    b"dd",
    b"details",
    b"dialog",
    b"div",
    b"dl",
    b"dt",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"header",
    b"hgroup",
    b"legend",
    b"main",
    b"menu",
    b"nav",
    b"p",
    b"search",
    b"section",
    b"summary",
    b"caption",
];
/// Other blocks, which end an open paragraph when they begin.
const OTHER_BLOCKS: &[&[u8]] = &[
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"ul",
    b"ol",
    b"li",
    b"pre",
    b"blockquote",
    b"table",
    b"hr",
];
/// The parts of tables; an end tag inside of a cell closes nothing outside of it.
const TABLE_PARTS: &[&[u8]] = &[
    b"table", b"caption", b"thead", b"tbody", b"tfoot", b"tr", b"td", b"th",
];
/// Elements that have no content.
const VOID: &[&[u8]] = &[
    b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta", b"param",
    b"source", b"track", b"wbr",
];
/// Elements that an end tag closes although blocks in them are still open.
const FORMATTING: &[&[u8]] = &[
    b"a", b"b", b"big", b"code", b"em", b"font", b"i", b"nobr", b"s", b"small", b"strike",
    b"strong", b"tt", b"u",
];
/// The elements around all text. Pages hide them until their scripts have run, so their attributes
/// and styles are ignored; text behind their end tags still belongs to them.
const ROOTS: &[&[u8]] = &[b"html", b"body"];

/// Why a browser shows no text in an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TextConcealment {
    /// Nothing in it is displayed.
    is_absent: bool,
    /// It is invisible, and so is what is in it unless that is made visible again.
    is_invisible: bool,
    /// Its text has no size, and so has text in it unless that is given a size.
    is_sizeless: bool,
}

impl TextConcealment {
    fn hides_text(self) -> bool {
        self.is_absent || self.is_invisible || self.is_sizeless
    }

    /// Returns the concealment of an element with this start tag in an element with `self`.
    /// `aria-hidden` counts if `heeds_aria_hidden`.
    fn of_child(self, tag: &StartTag<()>, heeds_aria_hidden: bool) -> Self {
        let has = |name: &[u8]| tag.attributes.contains_key(name);
        let value = |name: &[u8]| {
            let attribute = tag.attributes.get(name)?;
            Some(String::from_utf8_lossy(&attribute.value))
        };
        let style = value(b"style").map(|style| InlineStyle::parse(&style));
        let style = style.unwrap_or_default();
        let name: &[u8] = &tag.name;
        let is_closed = has(b"hidden") || has(b"popover") || (name == b"dialog" && !has(b"open"));
        let is_aria_hidden =
            || value(b"aria-hidden").is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
        Self {
            is_absent: self.is_absent
                || style.is_displayed.map_or(is_closed, |displayed| !displayed)
                || (heeds_aria_hidden && is_aria_hidden()),
            is_invisible: style
                .is_visible
                .map_or(self.is_invisible, |visible| !visible),
            is_sizeless: style.has_size.map_or(self.is_sizeless, |sized| !sized),
        }
    }
}

/// What the inline style of an element says about its text; `None` if it says nothing.
#[derive(Debug, Default, PartialEq, Eq)]
struct InlineStyle {
    is_displayed: Option<bool>,
    is_visible: Option<bool>,
    has_size: Option<bool>,
}

impl InlineStyle {
    /// Reads the declarations of a `style` attribute. Of several, one that hides the text counts.
    fn parse(style: &str) -> Self {
        let mut inline_style = Self::default();
        for declaration in remove_comments(style).split(';') {
            let Some((property, value)) = declaration.split_once(':') else {
                continue;
            };
            let value = value
                .split('!')
                .next()
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase();
            let (slot, is_shown) = match property.trim().to_ascii_lowercase().as_str() {
                "display" => (&mut inline_style.is_displayed, Some(value != "none")),
                "visibility" => (&mut inline_style.is_visible, visibility(&value)),
                "font-size" => (&mut inline_style.has_size, has_size(&value)),
                "font" => (&mut inline_style.has_size, has_size_in_font(&value)),
                _ => continue,
            };
            if let Some(is_shown) = is_shown {
                *slot = Some(slot.unwrap_or(true) && is_shown);
            }
        }
        inline_style
    }
}

/// Returns `style` without its comments.
fn remove_comments(style: &str) -> String {
    let mut parts = style.split("/*");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once("*/").map_or("", |(_, rest)| rest));
    }
    text
}

fn visibility(value: &str) -> Option<bool> {
    match value {
        "visible" => Some(true),
        "hidden" | "collapse" => Some(false),
        _ => None,
    }
}

/// Returns whether text of this `font-size` has a size; `None` if it depends on the text around it.
fn has_size(size: &str) -> Option<bool> {
    if is_zero(size) {
        return Some(false);
    }
    let is_part_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-');
    let unit = size.trim_start_matches(is_part_of_number);
    let is_relative = unit.is_empty()
        || unit.contains('(')
        || matches!(
            unit,
            "em" | "ex" | "ch" | "%" | "smaller" | "larger" | "inherit" | "unset" | "revert"
        );
    (!is_relative).then_some(true)
}

/// Returns `Some(false)` if text of this `font`, such as `0/0 a`, has no size.
fn has_size_in_font(font: &str) -> Option<bool> {
    let mut words = font.split_whitespace();
    let has_zero = words.any(|word| is_zero(word.split('/').next().unwrap_or_default()));
    has_zero.then_some(false)
}

/// Returns whether `size` is zero of any unit.
fn is_zero(size: &str) -> bool {
    let unit = size.trim_start_matches(['+', '-', '.', '0']);
    let digits = size.strip_suffix(unit).unwrap_or_default();
    digits.contains('0') && !unit.starts_with(|c: char| c.is_ascii_digit())
}

/// An element that is open.
#[derive(Debug)]
struct OpenElement {
    name: Vec<u8>,
    concealment: TextConcealment,
    /// Whether it is a block or a part of one: the end tag of an inline element around it closes
    /// nothing.
    is_block: bool,
    is_table_part: bool,
}

impl OpenElement {
    fn new(name: &[u8], concealment: TextConcealment) -> Self {
        let is_table_part = TABLE_PARTS.contains(&name);
        Self {
            name: name.to_vec(),
            concealment,
            is_block: is_table_part || is_block(name),
            is_table_part,
        }
    }

    fn is(&self, name: &[u8]) -> bool {
        self.name == name
    }

    fn is_one_of(&self, names: &[&[u8]]) -> bool {
        names.iter().any(|name| self.is(name))
    }
}

/// Whether the text of the element that an end tag closed is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndTagEffect {
    /// It closed an element whose text is shown, or it closed none where text is shown.
    Shown,
    /// It closed an element whose text is not shown, or it closed none where text is not shown.
    Hidden,
}

/// The open elements, from the outermost to the innermost.
#[derive(Debug, Default)]
pub(super) struct OpenElements {
    elements: Vec<OpenElement>,
    /// The number of open `p` elements.
    paragraph_count: usize,
}

impl OpenElements {
    /// Returns whether text here is hidden.
    pub(super) fn hides_text(&self) -> bool {
        self.concealment().hides_text()
    }

    fn concealment(&self) -> TextConcealment {
        let innermost = self.elements.last();
        innermost
            .map(|element| element.concealment)
            .unwrap_or_default()
    }

    /// Opens an element, and closes those that its start tag ends. Returns whether its text is
    /// hidden. `is_formula` says that it may be the visible form of a formula, which has
    /// `aria-hidden` because another form is there for screen readers.
    pub(super) fn open(&mut self, tag: &StartTag<()>, is_formula: bool) -> bool {
        let name: &[u8] = &tag.name;
        self.close_elements_ended_by(name);
        let parent_concealment = self.concealment();
        let is_void = VOID.contains(&name);
        let concealment = if ROOTS.contains(&name) {
            parent_concealment
        } else {
            parent_concealment.of_child(tag, !is_void && !is_formula)
        };
        if !is_void {
            self.close_from(OPEN_MAX.saturating_sub(1));
            if name == b"p" {
                self.paragraph_count = self.paragraph_count.saturating_add(1);
            }
            self.elements.push(OpenElement::new(name, concealment));
        }
        concealment.hides_text()
    }

    /// Closes the element that an end tag closes, if there is one.
    pub(super) fn close(&mut self, name: &[u8]) -> EndTagEffect {
        let index = self.index_closed_by(name);
        let closed_element = index.and_then(|index| self.elements.get(index));
        let hides_text = closed_element.map_or_else(
            || self.hides_text(),
            |element| element.concealment.hides_text(),
        );
        match index {
            Some(index) if FORMATTING.contains(&name) => drop(self.elements.remove(index)),
            Some(index) => self.close_from(index),
            None => {}
        }
        if hides_text {
            EndTagEffect::Hidden
        } else {
            EndTagEffect::Shown
        }
    }

    /// Returns the index of the element that an end tag closes, if it closes one.
    fn index_closed_by(&self, name: &[u8]) -> Option<usize> {
        let is_wanted = |element: &OpenElement| element.is(name);
        if ROOTS.contains(&name) {
            None
        } else if TABLE_PARTS.contains(&name) {
            self.innermost_index(is_wanted, |element| element.is(b"table"))
        } else if is_block(name) || FORMATTING.contains(&name) {
            self.innermost_index(is_wanted, |element| element.is_table_part)
        } else {
            self.innermost_index(is_wanted, |element| element.is_block)
        }
    }

    /// Closes the elements that end where an element `name` begins.
    fn close_elements_ended_by(&mut self, name: &[u8]) {
        if self.paragraph_count > 0 && is_block(name) {
            self.close_innermost(&[b"p"], |element| {
                element.is_table_part || element.is(b"button")
            });
        }
        let is_container = |element: &OpenElement| {
            element.is_block && !element.is_one_of(&[b"address", b"div", b"p"])
        };
        let is_table = |element: &OpenElement| element.is(b"table");
        match name {
            b"li" => self.close_innermost(&[b"li"], is_container),
            b"dt" | b"dd" => self.close_innermost(&[b"dt", b"dd"], is_container),
            b"td" | b"th" => self.close_innermost(&[b"td", b"th"], is_table),
            b"tr" => self.close_innermost(&[b"tr"], is_table),
            b"thead" | b"tbody" | b"tfoot" => {
                self.close_innermost(&[b"thead", b"tbody", b"tfoot"], is_table);
            }
            _ => {}
        }
    }

    /// Closes the innermost element that has one of `names`, unless an element at which
    /// `is_scope_boundary` ends the search is open in it.
    fn close_innermost(
        &mut self,
        names: &[&[u8]],
        is_scope_boundary: impl Fn(&OpenElement) -> bool,
    ) {
        if let Some(index) =
            self.innermost_index(|element| element.is_one_of(names), is_scope_boundary)
        {
            self.close_from(index);
        }
    }

    /// Returns the index of the innermost element that is wanted, unless an element at which the
    /// search ends is open in it.
    fn innermost_index(
        &self,
        is_wanted: impl Fn(&OpenElement) -> bool,
        is_scope_boundary: impl Fn(&OpenElement) -> bool,
    ) -> Option<usize> {
        let innermost_first = self.elements.iter().enumerate().rev();
        for (index, element) in innermost_first {
            if is_wanted(element) {
                return Some(index);
            }
            if is_scope_boundary(element) {
                return None;
            }
        }
        None
    }

    /// Closes the elements from `index` on, if there are any.
    fn close_from(&mut self, index: usize) {
        let closed_elements = self.elements.drain(index.min(self.elements.len())..);
        let closed_count = closed_elements.filter(|element| element.is(b"p")).count();
        self.paragraph_count = self.paragraph_count.saturating_sub(closed_count);
    }
}

/// Returns whether an element is a block, which ends an open paragraph when it begins.
fn is_block(name: &[u8]) -> bool {
    BLOCKS.contains(&name) || OTHER_BLOCKS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_style_says_whether_text_is_shown() {
        #[track_caller]
        fn check(style: &str, expected: [Option<bool>; 3]) {
            let read = InlineStyle::parse(style);
            let actual = [read.is_displayed, read.is_visible, read.has_size];
            assert_eq!(actual, expected, "{style}");
        }
        let (no, yes) = (Some(false), Some(true));
        check("", [None; 3]);
        check("color: red; display", [None; 3]);
        check("DISPLAY : None !important", [no, None, None]);
        check("display:/* x */none", [no, None, None]);
        check("display:none;display:block", [no, None, None]);
        check("display:block", [yes, None, None]);
        check("visibility:hidden", [None, no, None]);
        check("visibility:collapse", [None, no, None]);
        check("visibility:visible", [None, yes, None]);
        check("visibility:inherit", [None; 3]);
        for zero in ["0", "0px", "0.0em", "+0pt", "00%", ".0rem"] {
            check(&format!("font-size: {zero}"), [None, None, no]);
        }
        for size in ["12px", "0.9rem", "medium", "1vw"] {
            check(&format!("font-size: {size}"), [None, None, yes]);
        }
        for relative in ["2em", "150%", "larger", "inherit", "calc(1px)"] {
            check(&format!("font-size: {relative}"), [None; 3]);
        }
        check("font: 0/0 a", [None, None, no]);
        check("font: 400 14px Arial", [None; 3]);
    }
}
