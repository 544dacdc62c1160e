//! Words of a shell command line, quoted so that the shell changes none of them.

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
