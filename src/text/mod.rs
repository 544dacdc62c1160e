//! Converts values to parts of a sentence: truncated texts, lists and counts. It contains no
//! sentence itself. Also escapes the hidden characters of foreign text, and changes or encodes other
//! text.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use crate::text::hidden::{AllowedLayout, replace_hidden};

mod hidden;
pub(crate) mod json_value_count;
pub mod name_spelling;

pub use crate::text::hidden::is_hidden;

/// Returns the beginning of `text`, with `…` if something was cut off.
pub fn truncate(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Returns `text` as a single line, cut with `…` after `chars_max` characters.
pub fn single_line(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    truncate(&words.join(" "), chars_max)
}

/// Escapes every hidden character of a name, for example a line break as `\n`: nothing in it looks
/// like a separate line.
pub fn escape_name(name: &str) -> String {
    escape_hidden(name, AllowedLayout::Name).into_owned()
}

/// Escapes a foreign line like [`escape_name`], except for its tabs.
pub fn escape_line(line: &str) -> String {
    escape_hidden(line, AllowedLayout::Line).into_owned()
}

/// Escapes a foreign text like [`escape_name`], except for its tabs and line breaks.
pub fn escape_text(text: &str) -> Cow<'_, str> {
    escape_hidden(text, AllowedLayout::Text)
}

/// Returns JSON with the same values, in which every hidden character is escaped, for example as
/// `\u200b`. Line breaks and tabs between the values stay.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    replace_hidden(json, AllowedLayout::Text, |out, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` cannot fail.
            write!(out, "\\u{unit:04x}").unwrap_or_default();
        }
    })
}

/// Returns `value` with every string and every field name in it changed by `change`.
pub fn map_json_strings(value: Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(&text)),
        Value::Array(items) => items
            .into_iter()
            .map(|item| map_json_strings(item, change))
            .collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, field)| (change(&name), map_json_strings(field, change)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Removes the escape sequences for colours from `text` (SGR: `ESC [ … m`). All others stay.
pub fn without_colours(text: &str) -> Cow<'_, str> {
    let mut pieces = text.split("\u{1b}[");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ';' | ':'));
        if let Some(text_after) = rest.strip_prefix('m') {
            out.push_str(text_after);
        } else {
            out.push_str("\u{1b}[");
            out.push_str(piece);
        }
    }
    if out.len() == text.len() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(out)
    }
}

/// Reverses [`escape_text`] where it wrote `\u{…}`; `None` if the text contains nothing that it could have escaped.
pub fn unescape_text(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\u{") {
        let decoded_character = after.split_once('}').and_then(|(digits, after)| {
            let code = u32::from_str_radix(digits, 16).ok()?;
            let c = char::from_u32(code).filter(|c| is_hidden(*c))?;
            Some((c, after))
        });
        out.push_str(before);
        if let Some((c, after)) = decoded_character {
            out.push(c);
            rest = after;
        } else {
            out.push_str("\\u{");
            rest = after;
        }
    }
    out.push_str(rest);
    (out != text).then_some(out)
}

fn escape_hidden(text: &str, layout: AllowedLayout) -> Cow<'_, str> {
    replace_hidden(text, layout, |out, c| out.extend(c.escape_default()))
}

/// Returns a count with its noun: `1 error`, `2 errors`, `2 deliveries`, `2 batches`.
pub fn count_noun(count: usize, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("{count} {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        None if noun.ends_with("ch") => format!("{count} {noun}es"),
        Some(_) | None => format!("{count} {noun}s"),
    }
}

/// Formats a short duration: `3 ms`, `1.2 s`, `75 s`.
pub fn format_short(elapsed_ms: u64) -> String {
    match elapsed_ms {
        0..1000 => format!("{elapsed_ms} ms"),
        1000..10_000 => format!("{}.{} s", elapsed_ms / 1000, elapsed_ms / 100 % 10),
        _ => format!("{} s", elapsed_ms / 1000),
    }
}

/// Joins items with commas.
pub fn join_with_commas<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

/// Lists names as in a sentence: in backticks, the last two joined by `conjunction`.
pub fn list_names(names: &[&str], conjunction: &str) -> String {
    let quoted_names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted_names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} {conjunction} {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Lists the first names, in backticks, and the number of others.
pub fn list_first<T: ToString>(names: &[T], count_max: usize) -> String {
    let shown_names: Vec<String> = names
        .iter()
        .take(count_max)
        .map(|name| format!("`{}`", name.to_string()))
        .collect();
    match names.len().saturating_sub(shown_names.len()) {
        0 => shown_names.join(", "),
        more => format!("{} and {more} more", shown_names.join(", ")),
    }
}

/// Returns bytes as lower-case hexadecimal digits, two for each.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        // Writing to a `String` cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
    }
    text
}

/// Joins the words into a shell command line, each quoted so that the shell does not change it.
pub fn shell_line(words: &[String]) -> String {
    let quoted_words: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
    quoted_words.join(" ")
}

/// Quotes one word, unless the shell takes it as it is.
pub fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+./:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_line_joins_lines_and_truncates() {
        assert_eq!(single_line("a\n  b\tc", 10), "a b c");
        assert_eq!(single_line("äöüß", 3), "äöü…");
        assert_eq!(single_line("", 3), "");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(format_short(7), "7 ms");
        assert_eq!(format_short(1234), "1.2 s");
        assert_eq!(format_short(75_000), "75 s");
    }

    #[test]
    fn colours_go_and_other_sequences_stay() {
        let check = |text: &str, expected: &str| {
            assert_eq!(without_colours(text), expected, "{text:?}");
        };
        check("plain", "plain");
        check("\u{1b}[1;31mred\u{1b}[0m\u{1b}[m.", "red.");
        check("\u{1b}[38:2:1:2:3mx", "x");
        check("\u{1b}[2J\u{1b}]0;t\u{7}", "\u{1b}[2J\u{1b}]0;t\u{7}");
        check("\u{1b}[", "\u{1b}[");
        check("\u{1b}[\u{1b}[1m1m", "\u{1b}[1m");
    }

    #[test]
    fn a_name_is_no_line_of_its_own() {
        assert_eq!(escape_name("a\nb\u{1b}ä\\"), "a\\nb\\u{1b}ä\\");
        assert_eq!(escape_name("A\u{202e}txt.sh"), "A\\u{202e}txt.sh");
        assert_eq!(escape_line("\tx\r"), "\tx\\r");
        assert_eq!(escape_text("\tx\r\ny\0"), "\tx\r\ny\\u{0}");
    }

    #[test]
    fn json_keeps_its_values() {
        let value = serde_json::json!({"a\u{202e}": "b\u{e0041}\n\u{7f}é👩\u{200d}💻"});
        let json = value.to_string();
        let shown = escape_json(&json);
        let expected = "{\"a\\u202e\":\"b\\udb40\\udc41\\n\\u007fé👩\u{200d}💻\"}";
        assert_eq!(shown, expected);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn escaped_text_can_be_unescaped() {
        let text = "a\u{200b}b\u{e0041}c";
        assert_eq!(unescape_text(&escape_text(text)).as_deref(), Some(text));
        for plain in ["a", "\\u{41} \\u{zz} \\u{", "\\u{110000}"] {
            assert_eq!(unescape_text(plain), None, "{plain}");
        }
    }

    #[test]
    fn lists_and_counts_read_well() {
        assert_eq!(
            [count_noun(0, "vote"), count_noun(1, "vote")],
            ["0 votes", "1 vote"]
        );
        assert_eq!(count_noun(2, "batch"), "2 batches");
        assert_eq!(join_with_commas(&[1, 2, 3]), "1, 2, 3");
        assert_eq!(list_names(&["a", "b", "c"], "or"), "`a`, `b` or `c`");
        assert_eq!(list_names(&["a"], "or"), "`a`");
        assert_eq!(list_names(&[], "or"), "");
    }

    #[track_caller]
    fn check(words: &[&str], expected: &str) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(shell_line(&words), expected);
    }

    #[test]
    fn the_shell_takes_every_word_as_it_stands() {
        check(&["ls", "-la", "./src/a_b.rs"], "ls -la ./src/a_b.rs");
        check(&["echo", "", "a b", "$HOME;"], "echo '' 'a b' '$HOME;'");
        check(&["echo", "it's", "*"], r"echo 'it'\''s' '*'");
        check(&["VAR=1", "~"], "'VAR=1' '~'");
    }
}
