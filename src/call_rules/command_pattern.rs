//! A pattern of `command(…)` rules: words, in which `*` is a wildcard, compared with the words of a
//! parsed command. A word that is known only at run time matches anything for a rule that denies or
//! asks, and nothing for a rule that allows.

use std::borrow::Cow;
use std::{fmt, iter};

use crate::call_rules::matches_wildcard;
use crate::commands::line::{ExtraArguments, ShellWord, SimpleCommand};

/// The longest pattern, in words.
pub const PATTERN_WORDS_MAX: usize = 64;

/// A pattern that commands are matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern(Vec<String>);

/// How strictly a pattern is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternFit {
    /// The command could match: unknown words match, options before the next word are skipped, and
    /// the program may be in any directory.
    Possible,
    /// The command matches exactly as it is written.
    Certain,
}

impl CommandPattern {
    /// Parses a pattern: words separated by spaces. A `*` alone matches any number of words, and a
    /// `*` within a word any string. The error gives the cause as the end of a sentence.
    pub fn parse(written: &str) -> Result<Self, String> {
        let words: Vec<String> = written.split_whitespace().map(str::to_owned).collect();
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
                let more = iter::once(ShellWord::unknown());
                Cow::Owned(command.words.iter().cloned().chain(more).collect())
            }
        };
        let words: &[ShellWord] = &words;
        // For each number of consumed command words, the pattern words that can be next.
        let mut reachable = vec![vec![false; self.0.len().saturating_add(1)]; words.len() + 3];
        mark(&mut reachable, 0, 0);
        for used in 0..=words.len() {
            for at in 0..=self.0.len() {
                if is_marked(&reachable, used, at) {
                    self.advance(words, fit, used, at, &mut reachable);
                }
            }
        }
        is_marked(&reachable, words.len(), self.0.len())
    }

    /// Marks the states that one step leads to.
    fn advance(
        &self,
        words: &[ShellWord],
        fit: PatternFit,
        used: usize,
        at: usize,
        reachable: &mut [Vec<bool>],
    ) {
        let (word, wanted) = (words.get(used), self.0.get(at));
        let is_any = wanted.is_some_and(|wanted| wanted == "*");
        if is_any {
            mark(reachable, used, at + 1);
            if word.is_some() {
                mark(reachable, used + 1, at);
            }
        }
        let Some(word) = word else {
            return;
        };
        let Some(known) = word.known_text() else {
            if fit == PatternFit::Possible {
                mark(reachable, used + 1, at);
                mark(reachable, used, (at + 1).min(self.0.len()));
            }
            return;
        };
        let Some(wanted) = wanted else {
            return;
        };
        if word_matches(wanted, &known, used, fit) {
            mark(reachable, used + 1, at + 1);
        }
        let is_option = known.starts_with('-');
        if fit == PatternFit::Possible && used > 0 && is_option {
            mark(reachable, used + 1, at);
            mark(reachable, used + 2, at);
        }
    }
}

/// Returns whether one word matches. With [`PatternFit::Possible`] a program matches in any
/// directory.
fn word_matches(wanted: &str, known: &str, used: usize, fit: PatternFit) -> bool {
    let is_program = used == 0 && fit == PatternFit::Possible && !wanted.contains('/');
    let program = known.rsplit('/').next().filter(|_| is_program);
    matches_wildcard(wanted, known)
        || program.is_some_and(|program| matches_wildcard(wanted, program))
}

fn mark(reachable: &mut [Vec<bool>], used: usize, at: usize) {
    if let Some(cell) = reachable.get_mut(used).and_then(|row| row.get_mut(at)) {
        *cell = true;
    }
}

fn is_marked(reachable: &[Vec<bool>], used: usize, at: usize) -> bool {
    let row = reachable.get(used).and_then(|row| row.get(at));
    row.copied().unwrap_or_default()
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}
