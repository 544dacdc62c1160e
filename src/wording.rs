//! Owns how values become parts of a sentence: texts cut to a length, lists and counts. It knows no
//! sentence itself.

use std::fmt::Write as _;

/// The beginning of `text`, with `…` where something was cut off.
pub fn beginning(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// `text` as a single line of at most `chars_max` characters.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    beginning(&words.join(" "), chars_max)
}

/// A name with every character written out that is not seen as what it is, as `\n`: nothing in it looks
/// like a line of its own.
pub fn spelled(name: &str) -> String {
    written_out(name, is_unseen)
}

/// A line of somebody's text as [`spelled`] has it, but for its tabs.
pub fn visible(line: &str) -> String {
    written_out(line, |c| c != '\t' && is_unseen(c))
}

fn written_out(text: &str, is_written_out: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_written_out(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Control characters, and those that take no place or turn the direction of what follows.
fn is_unseen(c: char) -> bool {
    let invisible = [
        '\u{ad}'..='\u{ad}',
        '\u{200b}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{2069}',
        '\u{feff}'..='\u{feff}',
    ];
    c.is_control() || invisible.iter().any(|range| range.contains(&c))
}

/// A count with its noun: `1 error`, `2 errors`, `2 deliveries`.
pub fn counted(count: usize, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("{count} {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        Some(_) | None => format!("{count} {noun}s"),
    }
}

/// Items with commas between them.
pub fn joined<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

/// Names as a sentence lists them: in backticks, the last two joined by `conjunction`.
pub fn listed(names: &[&str], conjunction: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} {conjunction} {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The first names of a list, in backticks, and how many more there are.
pub fn first_of<T: ToString>(names: &[T], count_max: usize) -> String {
    let shown = names.iter().take(count_max);
    let shown: Vec<String> = shown
        .map(|name| format!("`{}`", name.to_string()))
        .collect();
    match names.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Bytes as lower-case hexadecimal digits, two for each.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        // Writing to a `String` cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_holds_everything_up_to_its_limit() {
        assert_eq!(one_line("a\n  b\tc", 10), "a b c");
        assert_eq!(one_line("äöüß", 3), "äöü…");
        assert_eq!(one_line("", 3), "");
    }

    #[test]
    fn a_name_is_no_line_of_its_own() {
        assert_eq!(spelled("a\nb\u{1b}ä\\"), "a\\nb\\u{1b}ä\\");
        assert_eq!(spelled("A\u{202e}txt.sh"), "A\\u{202e}txt.sh");
        assert_eq!(visible("\tx\r"), "\tx\\r");
    }

    #[test]
    fn lists_and_counts_read_well() {
        assert_eq!(
            [counted(0, "vote"), counted(1, "vote")],
            ["0 votes", "1 vote"]
        );
        assert_eq!(joined(&[1, 2, 3]), "1, 2, 3");
        assert_eq!(listed(&["a", "b", "c"], "or"), "`a`, `b` or `c`");
        assert_eq!(listed(&["a"], "or"), "`a`");
        assert_eq!(listed(&[], "or"), "");
    }
}
