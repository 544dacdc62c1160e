//! The pieces of a word: its value without quotes and backslashes, and the parts that are known
//! only at run time.

use tree_sitter::Node;

use crate::commands::line::{ShellWord, WordPiece};

/// Returns the word at a node.
pub(super) fn shell_word(node: Node<'_>, source: &str) -> ShellWord {
    let raw = trimmed_text_of(node, source);
    let mut pieces = Vec::new();
    collect_pieces(node, source, &mut pieces);
    if begins_with_tilde(raw)
        && let Some(WordPiece::Text(first)) = pieces.first_mut()
    {
        let (tilde, rest) = first.split_at(first.find('/').unwrap_or(first.len()));
        let (tilde, rest) = (WordPiece::Unknown(tilde.to_owned()), rest.to_owned());
        *first = rest;
        pieces.insert(0, tilde);
    }
    ShellWord {
        raw: raw.to_owned(),
        pieces: merge_pieces(pieces),
    }
}

/// Returns the text of a node.
pub(super) fn text_of<'s>(node: Node<'_>, source: &'s str) -> &'s str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// Returns the text of a node without white space before it, which the grammar may count as part of
/// the node: for example that before an expansion in double quotes.
pub(super) fn trimmed_text_of<'s>(node: Node<'_>, source: &'s str) -> &'s str {
    text_of(node, source).trim_start()
}

/// Appends a word that follows another one without a space: together they are one word.
pub(super) fn append_word(word: &mut ShellWord, next: ShellWord) {
    if is_translated(&word.raw, &next.raw) {
        remove_trailing_dollar(&mut word.pieces);
    }
    word.raw.push_str(&next.raw);
    word.pieces.extend(next.pieces);
    word.pieces = merge_pieces(std::mem::take(&mut word.pieces));
}

/// Appends the pieces of a node to `out`. The recursion is shallow: words nest no deeper than a
/// concatenation of strings.
fn collect_pieces(node: Node<'_>, source: &str, out: &mut Vec<WordPiece>) {
    let raw = text_of(node, source);
    match node.kind() {
        "concatenation" | "command_name" => {
            let mut cursor = node.walk();
            let (mut has_brace, mut previous_text) = (false, "");
            for child in node.children(&mut cursor) {
                let text = text_of(child, source);
                has_brace |= text == "{";
                if is_translated(previous_text, text) {
                    remove_trailing_dollar(out);
                }
                collect_pieces(child, source, out);
                previous_text = text;
            }
            // A brace expansion can become several words, so that no part of this one is known.
            if has_brace && (raw.contains(',') || raw.contains("..")) {
                *out = vec![WordPiece::Unknown(raw.to_owned())];
            }
        }
        "variable_assignment" => assignment_pieces(node, source, out),
        "raw_string" => {
            let text = strip_quotes(trimmed_text_of(node, source), "'");
            out.push(WordPiece::Text(text.to_owned()));
        }
        "ansi_c_string" => {
            let quoted = trimmed_text_of(node, source);
            let text = decode_ansi_c(strip_quotes(quoted, "$'"));
            let unknown_piece = || WordPiece::Unknown(quoted.to_owned());
            out.push(text.map_or_else(unknown_piece, WordPiece::Text));
        }
        "string" => quoted_pieces(node, source, out),
        "translated_string" => {
            if let Some(text) = node.named_child(0) {
                quoted_pieces(text, source, out);
            }
        }
        "word" | "number" | "variable_name" | "test_operator" | "extglob_pattern" => {
            out.push(unquoted_piece(raw));
        }
        _ if !node.is_named() => out.push(unquoted_piece(raw)),
        _ => out.push(WordPiece::Unknown(trimmed_text_of(node, source).to_owned())),
    }
}

/// Appends the pieces of `NAME=value`; the content of an array is known only at run time.
fn assignment_pieces(node: Node<'_>, source: &str, out: &mut Vec<WordPiece>) {
    let value = node.child_by_field_name("value");
    let name_end = value.map_or(node.end_byte(), |value| value.start_byte());
    let name = source.get(node.start_byte()..name_end).unwrap_or_default();
    // See `trimmed_text_of`.
    out.push(WordPiece::Text(name.trim_start().to_owned()));
    if let Some(value) = value {
        collect_pieces(value, source, out);
    }
}

/// Appends the pieces of a double-quoted string: everything between its expansions is text.
fn quoted_pieces(node: Node<'_>, source: &str, out: &mut Vec<WordPiece>) {
    let raw = text_of(node, source);
    let opening_length = raw.find('"').unwrap_or(0).saturating_add(1);
    let mut text_start = node.start_byte().saturating_add(opening_length);
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        if !child.is_named() || child.kind() == "string_content" {
            continue;
        }
        let expansion = trimmed_text_of(child, source);
        // The node may begin with the white space before the expansion, which is text as well.
        let expansion_start = child.end_byte().saturating_sub(expansion.len());
        let text_before = source.get(text_start..expansion_start).unwrap_or_default();
        out.push(WordPiece::Text(unescape_double_quoted(text_before)));
        out.push(WordPiece::Unknown(expansion.to_owned()));
        text_start = child.end_byte();
    }
    let remaining_text = source.get(text_start..node.end_byte()).unwrap_or_default();
    out.push(WordPiece::Text(unescape_double_quoted(
        remaining_text.strip_suffix('"').unwrap_or(remaining_text),
    )));
}

/// Returns whether a `$` at the end of `previous_text` belongs to the double quotes at the
/// beginning of `next_text`: `$"…"` is translated to the user's language, and unchanged if there is
/// no translation.
fn is_translated(previous_text: &str, next_text: &str) -> bool {
    let backslash_count = previous_text.strip_suffix('$').map(|rest| {
        let backslashes = rest.chars().rev().take_while(|c| *c == '\\');
        backslashes.count()
    });
    next_text.starts_with('"') && backslash_count.is_some_and(|count| count % 2 == 0)
}

/// Removes the `$` at the end of the last piece, which belongs to the quotes after it.
fn remove_trailing_dollar(pieces: &mut [WordPiece]) {
    if let Some(WordPiece::Text(text)) = pieces.last_mut()
        && text.ends_with('$')
    {
        text.pop();
    }
}

/// Returns the piece for unquoted text. A glob can expand to anything.
fn unquoted_piece(raw: &str) -> WordPiece {
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(escaped) => text.push(escaped),
            },
            '*' | '?' | '[' => return WordPiece::Unknown(raw.to_owned()),
            '{' if raw.contains(',') || raw.contains("..") => {
                return WordPiece::Unknown(raw.to_owned());
            }
            c => text.push(c),
        }
    }
    WordPiece::Text(text)
}

/// Unescapes double-quoted text.
fn unescape_double_quoted(raw: &str) -> String {
    unescape(raw, "$`\"\\\n")
}

/// Removes the backslashes before the characters in `escapable` and keeps others. An escaped line
/// break is removed as well.
pub(super) fn unescape(raw: &str, escapable: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped_character = chars.next_if(|next| c == '\\' && escapable.contains(*next));
        match escaped_character {
            Some('\n') => {}
            Some(escaped_character) => text.push(escaped_character),
            None => text.push(c),
        }
    }
    text
}

/// Decodes the text of `$'…'` as bash does: a NUL character ends it. `None` if the bytes are not
/// UTF-8: together with those of the next piece, they may be.
fn decode_ansi_c(raw: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let escape = decode_escape(after);
        match escape.value {
            EscapeValue::Byte(0) | EscapeValue::Character('\0') => {
                return String::from_utf8(bytes).ok();
            }
            EscapeValue::Byte(byte) => bytes.push(byte),
            EscapeValue::Character(character) => {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            EscapeValue::Nothing => {}
        }
        rest = after.get(escape.length..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

/// What a backslash in `$'…'` means together with the text after it.
struct AnsiCEscape {
    /// What bash writes in its place.
    value: EscapeValue,
    /// How many bytes after the backslash belong to it.
    length: usize,
}

/// What bash writes for an escape sequence.
enum EscapeValue {
    /// Nothing.
    Nothing,
    /// A byte, which may be a part of a character.
    Byte(u8),
    /// A character.
    Character(char),
}

/// A byte that is in no UTF-8, for bytes that are not UTF-8 either.
const NOT_UTF8: EscapeValue = EscapeValue::Byte(0xff);

/// A backslash that means itself, because no escape sequence follows.
const LITERAL_BACKSLASH: AnsiCEscape = AnsiCEscape {
    value: EscapeValue::Byte(b'\\'),
    length: 0,
};

/// Decodes what follows a backslash in `$'…'`.
fn decode_escape(after: &str) -> AnsiCEscape {
    let Some(first_character) = after.chars().next() else {
        return LITERAL_BACKSLASH;
    };
    let character = match first_character {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'e' | 'E' => '\u{1b}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '?' => first_character,
        'c' => return decode_control_character(after),
        'x' if after.starts_with("x{") => {
            // Without digits, it is the NUL character.
            let (number, end) = decode_digits(after, 2, 16, usize::MAX);
            let has_closing_brace = after.get(end..).unwrap_or_default().starts_with('}');
            return AnsiCEscape {
                value: low_byte(number.unwrap_or_default()),
                length: end.saturating_add(usize::from(has_closing_brace)),
            };
        }
        'x' => return decode_number(after, 1, 16, 2, low_byte),
        'u' => return decode_number(after, 1, 16, 4, code_point),
        'U' => return decode_number(after, 1, 16, 8, code_point),
        '0'..='7' => return decode_number(after, 0, 8, 3, low_byte),
        _ => return LITERAL_BACKSLASH,
    };
    AnsiCEscape {
        value: EscapeValue::Character(character),
        length: first_character.len_utf8(),
    }
}

/// Decodes `cX`: the character that the key X types together with Ctrl.
fn decode_control_character(after: &str) -> AnsiCEscape {
    let Some(key) = after.chars().nth(1) else {
        return LITERAL_BACKSLASH;
    };
    let value = match u8::try_from(key.to_ascii_uppercase()) {
        Ok(b'?') => EscapeValue::Byte(0x7f),
        Ok(byte) if byte.is_ascii() => EscapeValue::Byte(byte & 0x1f),
        // bash converts the first byte of the character, and keeps the others.
        Ok(_) | Err(_) => NOT_UTF8,
    };
    // Ctrl and a backslash are written with two backslashes.
    let second_backslash = usize::from(after.starts_with("c\\\\"));
    AnsiCEscape {
        value,
        length: 1 + key.len_utf8() + second_backslash,
    }
}

/// Decodes the number after the first `skip` bytes of `after`. Without digits, the backslash means
/// itself.
fn decode_number(
    after: &str,
    skip: usize,
    radix: u32,
    digits_max: usize,
    value_of: fn(u32) -> EscapeValue,
) -> AnsiCEscape {
    let (number, end) = decode_digits(after, skip, radix, digits_max);
    number.map_or(LITERAL_BACKSLASH, |number| AnsiCEscape {
        value: value_of(number),
        length: end,
    })
}

/// Decodes the digits after the first `skip` bytes of `text`. Returns the lowest 32 bits of their
/// number, if there are digits, and where they end.
fn decode_digits(text: &str, skip: usize, radix: u32, digits_max: usize) -> (Option<u32>, usize) {
    let digits = text.get(skip..).unwrap_or_default().chars();
    let digits = digits.take(digits_max).map_while(|c| c.to_digit(radix));
    let count = digits.clone().count();
    let add_digit = |number: u32, digit| number.wrapping_mul(radix).wrapping_add(digit);
    let number = digits.fold(0, add_digit);
    ((count > 0).then_some(number), skip.saturating_add(count))
}

/// Returns the lowest byte of `number`, which is all that bash keeps.
fn low_byte(number: u32) -> EscapeValue {
    EscapeValue::Byte(number.to_le_bytes()[0])
}

/// Returns the character with this number. bash writes bytes for numbers that are no characters,
/// and nothing for those with more than 31 bits.
fn code_point(number: u32) -> EscapeValue {
    if i32::try_from(number).is_err() {
        return EscapeValue::Nothing;
    }
    char::from_u32(number).map_or(NOT_UTF8, EscapeValue::Character)
}

/// Returns the text between `open` and a single quote.
fn strip_quotes<'a>(raw: &'a str, open: &str) -> &'a str {
    let content = raw.strip_prefix(open).unwrap_or(raw);
    content.strip_suffix('\'').unwrap_or(content)
}

/// Returns whether the shell expands the beginning of the word to a home directory.
fn begins_with_tilde(raw: &str) -> bool {
    raw.starts_with('~')
}

/// Drops empty pieces and merges neighbours of the same kind.
fn merge_pieces(pieces: Vec<WordPiece>) -> Vec<WordPiece> {
    let mut out: Vec<WordPiece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match (out.last_mut(), piece) {
            (Some(WordPiece::Text(last)), WordPiece::Text(text))
            | (Some(WordPiece::Unknown(last)), WordPiece::Unknown(text)) => last.push_str(&text),
            (_, WordPiece::Text(text)) if text.is_empty() => {}
            (_, piece) => out.push(piece),
        }
    }
    out
}
