//! A pattern of an allow or block list: a regular expression that is matched from the start of a
//! command, as Python's `re.match` does, for which the configs of MassGen are written.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// The most memory that a compiled pattern may use, in bytes.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct CommandRegex(Regex);

impl CommandRegex {
    /// Compiles a pattern from the config. The error gives the cause in one line.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let build_result = RegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES_MAX)
            .build();
        build_result.map(Self).map_err(|error| {
            if matches!(error, regex::Error::CompiledTooBig(_)) {
                return "it is too large".to_owned();
            }
            let text = error.to_string();
            let last_line = text.lines().last().unwrap_or_default();
            last_line.trim_start_matches("error: ").to_owned()
        })
    }

    /// Returns whether a match begins at the start of the text; it need not reach the end.
    pub fn matches(&self, text: &str) -> bool {
        self.0
            .find(text)
            .is_some_and(|matched| matched.start() == 0)
    }
}

impl fmt::Display for CommandRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: bool) {
        let pattern = CommandRegex::parse(pattern).unwrap();
        assert_eq!(pattern.matches(text), expected, "{pattern} on {text}");
    }

    #[test]
    fn patterns_match_from_the_start_as_in_python() {
        check("python.*", "python", true);
        check("python.*", "python -m pytest", true);
        check("python .*", "python", false);
        check("git push", "git push origin", true);
        check("push", "git push", false);
        check("a|b", "cab", false);
        check("b|ab", "ab", true);
        check("ls$", "lsof", false);
        check("(?i)LS", "ls", true);
        check("", "anything", true);
    }

    #[test]
    fn a_bad_pattern_says_why() {
        assert_eq!(CommandRegex::parse("rm(").unwrap_err(), "unclosed group");
        assert_eq!(
            CommandRegex::parse("rm(?!x)").unwrap_err(),
            "look-around, including look-ahead and look-behind, is not supported"
        );
        assert_eq!(
            CommandRegex::parse("(a{1000}){1000}").unwrap_err(),
            "it is too large"
        );
    }
}
