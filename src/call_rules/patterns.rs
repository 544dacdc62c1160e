//! The patterns of rules. One of `read_url(…)` is a domain, or an address in which `*` matches any
//! string. One of `command(…)` is words, in which `*` is a wildcard, compared with the words of a
//! parsed command. A word that is known only at run time matches anything for a rule that denies or
//! asks, and nothing for a rule that allows.

use std::borrow::Cow;
use std::{fmt, iter};

use crate::call_rules::matches_wildcard;
use crate::commands::line::{ExtraArguments, ShellWord, SimpleCommand};
use crate::permissions::domains::DomainPattern;
use crate::tools::page_url::PageUrl;

/// The longest pattern, in words.
pub const PATTERN_WORDS_MAX: usize = 64;

/// A pattern that commands are matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern(Vec<String>);

/// How strictly a pattern is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternFit {
    /// The command could match: unknown words match, options between the words of the pattern are
    /// skipped, and the program may be in any directory.
    Possible,
    /// The command matches exactly as it is written.
    Certain,
}

impl CommandPattern {
    /// Parses a pattern: words separated by spaces. A `*` alone matches any number of words, and a
    /// `*` within a word any string. The error gives the cause as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        match words.len() {
            0 => Err("expected a command, such as `git push *`".to_owned()),
            1..=PATTERN_WORDS_MAX => Ok(Self(words)),
            _ => Err(format!("expected at most {PATTERN_WORDS_MAX} words")),
        }
    }

    /// Returns whether every command matches.
    pub(super) fn matches_all(&self) -> bool {
        self.0.iter().all(|word| word == "*")
    }

    /// Returns whether the words of `command` match.
    pub(super) fn matches(&self, command: &SimpleCommand, fit: PatternFit) -> bool {
        if command.words.is_empty() {
            return false;
        }
        let words = match command.extra_arguments {
            ExtraArguments::None => Cow::Borrowed(&command.words),
            ExtraArguments::Unknown => {
                let unknown_word = iter::once(ShellWord::unknown());
                Cow::Owned(command.words.iter().cloned().chain(unknown_word).collect())
            }
        };
        let words: &[ShellWord] = &words;
        // For each number of consumed command words, the pattern words that can be next.
        let row = vec![false; self.0.len().saturating_add(1)];
        let mut reachable = vec![row; words.len().saturating_add(1)];
        mark(&mut reachable, 0, 0);
        for word_index in 0..=words.len() {
            for pattern_index in 0..=self.0.len() {
                if is_marked(&reachable, word_index, pattern_index) {
                    self.advance(words, fit, word_index, pattern_index, &mut reachable);
                }
            }
        }
        is_marked(&reachable, words.len(), self.0.len())
    }

    /// Marks the positions that can follow this one in `reachable`.
    fn advance(
        &self,
        words: &[ShellWord],
        fit: PatternFit,
        word_index: usize,
        pattern_index: usize,
        reachable: &mut [Vec<bool>],
    ) {
        let (word, pattern_word) = (words.get(word_index), self.0.get(pattern_index));
        let is_wildcard = pattern_word.is_some_and(|pattern_word| pattern_word == "*");
        if is_wildcard {
            mark(reachable, word_index, pattern_index + 1);
            if word.is_some() {
                mark(reachable, word_index + 1, pattern_index);
            }
        }
        let Some(word) = word else {
            return;
        };
        let Some(text) = word.known_text() else {
            // It may turn out to be any number of words.
            if fit == PatternFit::Possible {
                mark(reachable, word_index + 1, pattern_index);
                mark(reachable, word_index, (pattern_index + 1).min(self.0.len()));
            }
            return;
        };
        let Some(pattern_word) = pattern_word else {
            return;
        };
        if word_matches(pattern_word, &text, word_index, fit) {
            mark(reachable, word_index + 1, pattern_index + 1);
        }
        let is_option = text.starts_with('-');
        if fit == PatternFit::Possible && word_index > 0 && is_option {
            // The option may have a value.
            mark(reachable, word_index + 1, pattern_index);
            mark(reachable, word_index + 2, pattern_index);
        }
    }
}

/// Returns whether one word matches. With [`PatternFit::Possible`] a program matches in any
/// directory.
fn word_matches(pattern_word: &str, text: &str, word_index: usize, fit: PatternFit) -> bool {
    let is_program = word_index == 0 && fit == PatternFit::Possible && !pattern_word.contains('/');
    let program = text.rsplit('/').next().filter(|_| is_program);
    matches_wildcard(pattern_word, text)
        || program.is_some_and(|program| matches_wildcard(pattern_word, program))
}

/// Marks a position, if the table has it.
fn mark(reachable: &mut [Vec<bool>], word_index: usize, pattern_index: usize) {
    if let Some(cell) = reachable
        .get_mut(word_index)
        .and_then(|row| row.get_mut(pattern_index))
    {
        *cell = true;
    }
}

fn is_marked(reachable: &[Vec<bool>], word_index: usize, pattern_index: usize) -> bool {
    let row = reachable
        .get(word_index)
        .and_then(|row| row.get(pattern_index));
    row.copied().unwrap_or_default()
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// The prefix of a domain in rules of Claude Code.
const DOMAIN_PREFIX: &str = "domain:";

/// A pattern that pages are matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePattern {
    /// All pages of these hosts.
    Domain(DomainPattern),
    /// Pages whose address matches, with or without its scheme.
    Address(String),
}

impl PagePattern {
    /// Parses `example.org`, `.example.org` and `*.example.org`, as in `command_line_network`, or
    /// an address with wildcards, such as `example.org/docs/*`. The error gives the cause as the
    /// end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix(DOMAIN_PREFIX).unwrap_or(text).trim();
        if let Some(domain) = DomainPattern::parse(text) {
            return Ok(Self::Domain(domain));
        }
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err("expected a domain, or an address with `*`".to_owned());
        }
        Ok(Self::Address(text.trim_end_matches('/').to_owned()))
    }

    /// Returns whether the pattern matches the page.
    pub fn matches(&self, page: &PageUrl) -> bool {
        match self {
            Self::Domain(domain) => domain.matches(page.host()),
            Self::Address(pattern) => {
                let url = page.as_str();
                let (_, address) = url.split_once("://").unwrap_or(("", url));
                [url, address].into_iter().any(|text| {
                    matches_wildcard(pattern, text)
                        || matches_wildcard(pattern, text.trim_end_matches('/'))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_domain_or_an_address() {
        #[track_caller]
        fn check(pattern: &str, page: &str, expected: bool) {
            let pattern = PagePattern::parse(pattern).unwrap();
            let page = PageUrl::parse(page).unwrap();
            assert_eq!(pattern.matches(&page), expected, "{pattern:?} {page}");
        }
        check("*", "https://example.org/a", true);
        check("example.org", "https://example.org/a", true);
        check("domain:example.org", "http://EXAMPLE.org:8080", true);
        check("example.org", "https://a.example.org/", false);
        check("*.example.org", "https://a.example.org/", true);
        check(".example.org", "https://badexample.org/", false);
        check("https://example.org", "https://example.org/", true);
        check("https://example.org/", "http://example.org/", false);
        check("example.org/docs/*", "https://example.org/docs/a?b", true);
        check("example.org/docs/*", "https://example.org/other", false);
        check("*evil*", "https://an-evil.net/", true);
        for bad in ["", "a b", "domain:"] {
            assert!(PagePattern::parse(bad).is_err(), "{bad:?}");
        }
    }
}
