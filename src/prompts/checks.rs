//! Texts for models about the user's checks: their list, and their results for an answer. The
//! output of a check is quoted and shortened: it comes from an agent's work.

use std::fmt::Write;

use crate::check_results::{CheckRequirement, CheckResult, CheckResults, CheckVerdict};
use crate::config::checks::CheckConfig;
use crate::id::AnswerLabel;
use crate::prompts::untrusted_text::UntrustedText;
use crate::text::single_line;

/// Maximum length of a displayed command, in characters.
const COMMAND_CHARS_MAX: usize = 200;

/// Lists the checks on answers.
pub(super) fn announce_checks(out: &mut String, checks: &[CheckConfig]) {
    if checks.is_empty() {
        return;
    }
    out.push_str(
        "Every answer is checked by these commands, in the user's tree as the answer would leave \
         it:\n",
    );
    for check in checks {
        let need = match check.requirement {
            CheckRequirement::Required => "required",
            CheckRequirement::Informational => "for your information",
        };
        let command =
            UntrustedText::from(single_line(&check.command, COMMAND_CHARS_MAX)).in_backticks();
        let _ = writeln!(out, "- {}: {command} ({need})", check.name);
    }
    out.push_str("An answer that fails a required one cannot win while another one passes.\n");
}

/// Describes the results of the checks on an answer.
pub(super) fn describe_check_results(
    out: &mut String,
    label: AnswerLabel,
    check_results: &CheckResults,
) {
    let CheckResults { checks, changes } = check_results;
    if !checks.is_empty() {
        let _ = writeln!(out, "Checks of {label}:");
    }
    for check_result in checks {
        let CheckResult {
            check,
            need,
            verdict,
            tail,
            ..
        } = check_result;
        let suffix = match (need, verdict) {
            (_, CheckVerdict::Passed) | (CheckRequirement::Required, _) => "",
            (CheckRequirement::Informational, _) => " (not required)",
        };
        let _ = writeln!(out, "- {check}: {verdict}{suffix}");
        out.push_str(&UntrustedText::from(tail.as_str()).with_line_prefix("  | "));
    }
    if let Some(changes) = changes {
        let _ = writeln!(out, "Changes of {label}: {changes}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_results::ChangeCounts;
    use crate::config::checks::FileGlobs;
    use crate::id::AgentNumber;

    #[test]
    fn voters_read_how_each_check_ended() {
        let check_result = |check: &str, need, verdict, tail: &str| CheckResult {
            check: check.to_owned(),
            need,
            verdict,
            tail: tail.to_owned(),
            elapsed_ms: 9,
        };
        let failure = || "exit status 1".to_owned();
        let check_results = CheckResults {
            checks: vec![
                check_result(
                    "build",
                    CheckRequirement::Required,
                    CheckVerdict::Passed,
                    "",
                ),
                check_result(
                    "tests",
                    CheckRequirement::Required,
                    CheckVerdict::Failed { failure: failure() },
                    "1 failed\nbye",
                ),
                check_result(
                    "lint",
                    CheckRequirement::Informational,
                    CheckVerdict::Failed { failure: failure() },
                    "",
                ),
            ],
            changes: Some(ChangeCounts {
                files: 1,
                added: 4,
                removed: 2,
            }),
        };
        let label = AnswerLabel {
            agent: AgentNumber::from_index(0),
            ordinal: 1,
        };
        let mut out = String::new();
        describe_check_results(&mut out, label, &check_results);
        let expected = "Checks of agent1.1:\n- build: passed\n- tests: failed: exit status 1\n  | 1 \
                        failed\n  | bye\n- lint: failed: exit status 1 (not required)\nChanges of \
                        agent1.1: 1 file, +4 -2 lines\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn agents_know_the_checks_before_they_answer() {
        let check = |name: &str, need| CheckConfig {
            retries: 0,
            fixed: FileGlobs::default(),
            files: None,
            name: name.to_owned(),
            command: "make test".to_owned(),
            requirement: need,
            timeout_seconds: 5,
        };
        let mut out = String::new();
        announce_checks(&mut out, &[]);
        assert_eq!(out, "");
        announce_checks(
            &mut out,
            &[
                check("tests", CheckRequirement::Required),
                check("lint", CheckRequirement::Informational),
            ],
        );
        assert!(out.contains("- tests: `make test` (required)\n"), "{out}");
        assert!(
            out.contains("- lint: `make test` (for your information)\n"),
            "{out}"
        );
    }
}
