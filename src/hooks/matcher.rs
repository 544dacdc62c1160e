//! Tool matchers of hooks: a regular expression that must match the whole name of a tool, or the
//! name that other programs use for the same tool.

use regex::{Regex, RegexBuilder};

use crate::tools::external_tools::names_of;

/// The longest regular expression, in characters.
const EXPRESSION_CHARS_MAX: usize = 1000;
/// The largest compiled regular expression, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The tools that a hook applies to.
#[derive(Clone, Debug)]
pub enum ToolMatcher {
    /// All tools.
    All,
    /// Tools with a name that this expression matches.
    Named(Regex),
}

impl ToolMatcher {
    /// Parses a matcher: an expression for whole names; an empty string or `*` matches all tools.
    /// The error gives the cause as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if matches!(text, "" | "*") {
            return Ok(Self::All);
        }
        let chars = text.chars().count();
        if chars > EXPRESSION_CHARS_MAX {
            return Err(format!(
                "it has {chars} characters: at most {EXPRESSION_CHARS_MAX}"
            ));
        }
        let anchored_text = format!("^(?:{text})$");
        let anchored_result = RegexBuilder::new(&anchored_text)
            .size_limit(COMPILED_BYTES_MAX)
            .build();
        // Compiling `text` alone gives an error position within it, and rejects a `)` that would
        // close the group early.
        match (Regex::new(text), anchored_result) {
            (Ok(_), Ok(expression)) => Ok(Self::Named(expression)),
            (Err(error), _) | (_, Err(error)) => {
                let text = error.to_string();
                let last_line = text.lines().last().unwrap_or_default();
                Err(last_line.trim_start_matches("error: ").to_owned())
            }
        }
    }

    /// Returns whether it matches the tool of this name.
    pub fn matches(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(expression) => names_of(tool).any(|name| expression.is_match(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(matcher: &str, matching_names: &[&str], other_names: &[&str]) {
        let matcher = ToolMatcher::parse(matcher).unwrap();
        for tool in matching_names {
            assert!(matcher.matches(tool), "{tool}");
        }
        for tool in other_names {
            assert!(!matcher.matches(tool), "{tool}");
        }
    }

    #[test]
    fn a_matcher_fits_whole_names() {
        check("", &["write_file", "mcp__a__b"], &[]);
        check("*", &["write_file"], &[]);
        check(
            "write_file",
            &["write_file"],
            &["write_files", "my_write_file"],
        );
        check(
            "write_file|mcp__git__.*",
            &["write_file", "mcp__git__status"],
            &["edit_file", "mcp__github__x"],
        );
        check("write", &[], &["write_file", "Write"]);
        check(".*", &["write_file", "Task"], &[]);
    }

    #[test]
    fn names_of_other_programs_match_equivalent_tools() {
        check(
            "Write|Edit",
            &["write_file", "edit_file"],
            &["copy_file", "read_text_file"],
        );
        check(
            "Read",
            &["read_text_file", "read_multiple_files"],
            &["list_directory"],
        );
        check(
            "Bash",
            &["execute_command", "start_background_command"],
            &["execute_code"],
        );
        check("MultiEdit", &["edit_file"], &[]);
        check("execute_command", &["Bash"], &["Read"]);
        check("edit_file", &["Edit", "MultiEdit"], &["Write"]);
    }

    #[test]
    fn invalid_hook_matchers_are_errors() {
        for (text, expected) in [
            ("(", "unclosed group"),
            ("a)|(?:b", "unopened group"),
            ("a{1000}{1000}{1000}", "size limit"),
        ] {
            let reason = ToolMatcher::parse(text).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        }
        assert!(ToolMatcher::parse(&"a".repeat(1001)).is_err());
    }
}
