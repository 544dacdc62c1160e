//! Finds the characters of a text that are not displayed as what they are, and escapes them. The
//! Unicode properties of a character decide, not a list of characters.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// Control and format characters, line and paragraph separators, everything that Unicode allows
/// readers to ignore (tags, variation selectors, fillers), and noncharacters. The signs before
/// Arabic numbers are format characters too, but they are visible.
const HIDDEN_PATTERN: &str = r"[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]--\p{Prepended_Concatenation_Mark}]";

/// The end of an emoji that a joiner can connect to the next one.
const EMOJI_END_PATTERN: &str = r"\p{Extended_Pictographic}[\x{FE0F}\p{Emoji_Modifier}]?$";
/// The beginning of an emoji.
const EMOJI_START_PATTERN: &str = r"^\p{Extended_Pictographic}";
/// A character that is displayed as a picture or as a letter, depending on the selector after it.
const SELECTABLE_PATTERN: &str = r"\p{Emoji}$";
/// Letters and marks of scripts that need joiners: Arabic and related scripts, and those of India
/// and South-East Asia.
const JOINING_LETTER_PATTERN: &str = r"[[\p{L}\p{M}]&&[\p{scx=Arabic}\p{scx=Syriac}\p{scx=Mongolian}\p{scx=Nko}\p{scx=Mandaic}\p{scx=Devanagari}\p{scx=Bengali}\p{scx=Gurmukhi}\p{scx=Gujarati}\p{scx=Oriya}\p{scx=Tamil}\p{scx=Telugu}\p{scx=Kannada}\p{scx=Malayalam}\p{scx=Sinhala}\p{scx=Khmer}\p{scx=Myanmar}]]";

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';
const TEXT_SELECTOR: char = '\u{fe0e}';
const EMOJI_SELECTOR: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

/// Number of characters before a hidden character that decide whether it is needed.
const CONTEXT_CHARS: usize = 2;

/// A pattern, compiled at its first use: all of them together take longer than a short command.
/// `None` only if it were invalid, which a test would show.
type UnicodePattern = LazyLock<Option<Regex>>;

static HIDDEN_CHARACTER: UnicodePattern = LazyLock::new(|| compile(HIDDEN_PATTERN));
static EMOJI_BEFORE: UnicodePattern = LazyLock::new(|| compile(EMOJI_END_PATTERN));
static EMOJI_AFTER: UnicodePattern = LazyLock::new(|| compile(EMOJI_START_PATTERN));
static SELECTABLE_BEFORE: UnicodePattern = LazyLock::new(|| compile(SELECTABLE_PATTERN));
static JOINING_LETTER_BEFORE: UnicodePattern =
    LazyLock::new(|| compile(&format!("{JOINING_LETTER_PATTERN}$")));
static JOINING_LETTER_AFTER: UnicodePattern =
    LazyLock::new(|| compile(&format!("^{JOINING_LETTER_PATTERN}")));

fn compile(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

fn matches(pattern: &UnicodePattern, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

/// The hidden layout characters that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedLayout {
    /// None: the text is a name.
    Name,
    /// Tabs: the text is a line.
    Line,
    /// Tabs and line breaks.
    Text,
}

/// Replaces every hidden character of `text` by the output of `write`, except for those that
/// `layout` keeps and those that ordinary writing needs: a selector after an emoji, and a joiner
/// between two emoji or between two letters of a script that has joiners.
pub(super) fn replace_hidden(
    text: &str,
    layout: AllowedLayout,
    mut write: impl FnMut(&mut String, char),
) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied_length = 0;
    for (at, c) in hidden_characters(text) {
        let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
        let end = at.saturating_add(c.len_utf8());
        let after = text.get(end..).unwrap_or_default();
        debug_assert!(
            rest.starts_with(c),
            "a hidden character is not at its position"
        );
        if is_allowed_layout(c, after, layout) || is_needed(before, c, after) {
            continue;
        }
        out.push_str(text.get(copied_length..at).unwrap_or_default());
        write(&mut out, c);
        copied_length = end;
    }
    if copied_length == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied_length..).unwrap_or_default());
    Cow::Owned(out)
}

/// Returns whether `c` is not displayed as what it is, at least in some contexts.
pub fn is_hidden(c: char) -> bool {
    let mut bytes = [0; 4];
    hidden_characters(c.encode_utf8(&mut bytes))
        .next()
        .is_some()
}

/// Returns every hidden character of `text`, with its position in bytes.
fn hidden_characters(text: &str) -> Box<dyn Iterator<Item = (usize, char)> + '_> {
    // Plain ASCII needs no patterns, and compiling them takes longer than a short command.
    if text.is_ascii() {
        let bytes = text.bytes().enumerate();
        let unprintable_bytes = bytes.filter(|(_, byte)| !matches!(byte, b' '..=b'~'));
        return Box::new(unprintable_bytes.map(|(at, byte)| (at, char::from(byte))));
    }
    match HIDDEN_CHARACTER.as_ref() {
        Some(pattern) => {
            let pattern_matches = pattern.find_iter(text);
            Box::new(
                pattern_matches.filter_map(|matched| {
                    Some((matched.start(), matched.as_str().chars().next()?))
                }),
            )
        }
        // Without the properties, only plain ASCII is certain.
        None => Box::new(text.char_indices().filter(|(_, c)| !matches!(c, ' '..='~'))),
    }
}

/// Returns whether `layout` keeps the character `c` before `after`.
fn is_allowed_layout(c: char, after: &str, layout: AllowedLayout) -> bool {
    match (layout, c) {
        (AllowedLayout::Line | AllowedLayout::Text, '\t') | (AllowedLayout::Text, '\n') => true,
        (AllowedLayout::Text, '\r') => after.starts_with('\n'),
        (AllowedLayout::Name | AllowedLayout::Line | AllowedLayout::Text, _) => false,
    }
}

/// Returns whether ordinary writing needs the character `c` between `before` and `after`.
fn is_needed(before: &str, c: char, after: &str) -> bool {
    let before = context_before(before);
    let is_between_letters =
        || matches(&JOINING_LETTER_BEFORE, before) && matches(&JOINING_LETTER_AFTER, after);
    match c {
        TEXT_SELECTOR | EMOJI_SELECTOR => {
            // Digits, `#` and `*` are displayed as pictures only on a keycap.
            let is_ascii = before.ends_with(|c: char| c.is_ascii());
            matches(&SELECTABLE_BEFORE, before) && (!is_ascii || after.starts_with(KEYCAP))
        }
        ZERO_WIDTH_JOINER => {
            let is_between_emoji = matches(&EMOJI_BEFORE, before) && matches(&EMOJI_AFTER, after);
            is_between_emoji || is_between_letters()
        }
        ZERO_WIDTH_NON_JOINER => is_between_letters(),
        _ => false,
    }
}

/// Returns the last characters of `text`, as many as decide about the character after it.
fn context_before(text: &str) -> &str {
    let mut backwards = text.char_indices().rev();
    let first = backwards.nth(CONTEXT_CHARS.saturating_sub(1));
    first.and_then(|(at, _)| text.get(at..)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let write = |out: &mut String, c: char| out.extend(c.escape_default());
        assert_eq!(
            replace_hidden(text, AllowedLayout::Text, write),
            expected,
            "{text:?}"
        );
    }

    #[test]
    fn invisible_characters_are_escaped() {
        check(
            "a\u{1b}[31mb\u{7f}\u{9b}\0",
            "a\\u{1b}[31mb\\u{7f}\\u{9b}\\u{0}",
        );
        check(
            "nice\u{e0053}\u{e0001} tool",
            "nice\\u{e0053}\\u{e0001} tool",
        );
        check(
            "x\u{fe01}\u{e0101}\u{fe0f}",
            "x\\u{fe01}\\u{e0101}\\u{fe0f}",
        );
        check(
            "\u{61c}\u{180e}\u{202e}\u{2066}",
            "\\u{61c}\\u{180e}\\u{202e}\\u{2066}",
        );
        check(
            "\u{ad}\u{34f}\u{200b}\u{2060}\u{feff}",
            "\\u{ad}\\u{34f}\\u{200b}\\u{2060}\\u{feff}",
        );
        check(
            "\u{115f}\u{1160}\u{3164}\u{ffa0}",
            "\\u{115f}\\u{1160}\\u{3164}\\u{ffa0}",
        );
        check(
            "\u{2028}\u{2029}\u{85}\u{fff9}\u{1d173}",
            "\\u{2028}\\u{2029}\\u{85}\\u{fff9}\\u{1d173}",
        );
        // Not assigned yet, but default-ignorable even so.
        check("\u{e0fff}\u{2065}\u{fff0}", "\\u{e0fff}\\u{2065}\\u{fff0}");
        check("\u{fdd0}\u{10ffff}", "\\u{fdd0}\\u{10ffff}");
    }

    #[test]
    fn ordinary_writing_stays() {
        for text in [
            "tab\tand\nnewline\r\n",
            "Grüße, 世界, שלום, مرحبا, नमस्ते, ไทย, e\u{301}",
            "👩\u{200d}💻 👩🏽\u{200d}🚀 ❤\u{fe0f}\u{200d}🔥 👁\u{fe0f}\u{200d}🗨\u{fe0f} 1\u{fe0f}\u{20e3} ©\u{fe0e} 🇩🇪",
            "می\u{200c}شود क\u{94d}\u{200d}ष ශ\u{dca}\u{200d}රී",
            "\u{600}12 \u{6dd}",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn joiners_and_selectors_are_escaped_where_they_have_no_effect() {
        check("a\u{200d}b\u{200c}c", "a\\u{200d}b\\u{200c}c");
        check("👩\u{200d} 💻", "👩\\u{200d} 💻");
        check("👩\u{200d}\u{200d}💻", "👩\\u{200d}\\u{200d}💻");
        check("1\u{fe0f}2", "1\\u{fe0f}2");
        check("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}\\u{fe0f}");
        check("a\rb", "a\\rb");
    }

    #[test]
    fn names_and_lines_have_no_line_breaks() {
        let write = |out: &mut String, _| out.push('.');
        assert_eq!(
            replace_hidden("a\tb\nc", AllowedLayout::Name, write),
            "a.b.c"
        );
        assert_eq!(
            replace_hidden("a\tb\nc\r\n", AllowedLayout::Line, write),
            "a\tb.c.."
        );
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in any::<String>()) {
            let write = |out: &mut String, c: char| out.extend(c.escape_default());
            let once = replace_hidden(&text, AllowedLayout::Name, write).into_owned();
            let kept = |c: &char| matches!(*c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
            prop_assert!(!once.chars().any(|c| is_hidden(c) && !kept(&c)));
            prop_assert_eq!(replace_hidden(&once, AllowedLayout::Name, write), once.as_str());
        }
    }
}
