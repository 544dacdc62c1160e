//! How names of files are shown, and which spellings mean the same one: a name may differ from what
//! is typed only in the form of its accents (NFC or NFD), in no-break spaces, or in bytes that are
//! not UTF-8. The names that macOS gives its files do.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

use crate::text::escape_name;

/// Converts `bytes` to text: UTF-8 is kept, and any other byte is written as `\xNN`.
pub fn to_readable_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a `String` cannot fail.
            write!(text, "\\x{byte:02x}").unwrap_or_default();
        }
    }
    text
}

/// Returns `name`, or the names in a path, with everything escaped by which one differs invisibly
/// from another.
pub fn show_name(name: &OsStr) -> String {
    let text = escape_name(&to_readable_text(name.as_bytes()));
    if text.is_ascii() {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    for name in text.split_inclusive('/') {
        let is_composed = is_nfc(name);
        for c in name.chars() {
            if is_unusual_space(c) || (!is_composed && is_combining_mark(c)) {
                shown.extend(c.escape_default());
            } else {
                shown.push(c);
            }
        }
    }
    shown
}

/// Returns whether `written` may be another spelling of the name of a file.
pub fn may_be_respelled(written: &str) -> bool {
    !written.is_ascii() || written.contains([' ', '\\'])
}

/// Returns whether `written` means `name`: as it is shown, or in another Unicode form.
pub fn is_spelling_of(written: &str, name: &OsStr) -> bool {
    let form = |text: &str| -> String { text.chars().map(usual_space).nfc().collect() };
    written == show_name(name)
        || name
            .to_str()
            .is_some_and(|name| form(name) == form(written))
}

/// Returns the space that people type in the place of one that looks like it; other characters stay.
pub fn usual_space(c: char) -> char {
    if is_unusual_space(c) { ' ' } else { c }
}

/// Returns whether `c` looks like a space and is not the one that people type.
fn is_unusual_space(c: char) -> bool {
    c.is_whitespace() && !c.is_control() && !matches!(c, ' ' | '\u{3000}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_by_its_look_and_shown_by_its_characters() {
        let check = |name: &[u8], shown: &str, written: &[&str]| {
            let name = OsStr::from_bytes(name);
            assert_eq!(show_name(name), shown);
            for written in written.iter().chain([&shown]) {
                assert!(is_spelling_of(written, name), "{written}");
            }
        };
        check(
            "Mu\u{308}ller".as_bytes(),
            "Mu\\u{308}ller",
            &["M\u{fc}ller", "Mu\u{308}ller"],
        );
        check("M\u{fc}ller".as_bytes(), "M\u{fc}ller", &["Mu\u{308}ller"]);
        check(
            "1.01\u{202f}AM".as_bytes(),
            "1.01\\u{202f}AM",
            &["1.01 AM", "1.01\u{a0}AM"],
        );
        check(b"lat\xe9n", "lat\\xe9n", &[]);
        // Marks that have no composed form are ordinary letters of their scripts.
        check("\u{915}\u{93f}".as_bytes(), "\u{915}\u{93f}", &[]);
        assert!(!is_spelling_of("muller", OsStr::new("M\u{fc}ller")));
        assert!(!is_spelling_of(
            "lat\u{e9}n",
            OsStr::from_bytes(b"lat\xe9n")
        ));
        assert!(!may_be_respelled("plain.txt") && may_be_respelled("a b"));
    }
}
