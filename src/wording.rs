//! Owns how values become parts of a sentence: texts cut to a length, lists and counts. It knows no
//! sentence itself.

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

/// A count with its noun: `1 error`, `2 errors`.
pub fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
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
