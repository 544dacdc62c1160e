//! Owns what models are told about the user's checks: which there are, and how they ended on an
//! answer. What a check wrote is quoted and shortened: it is an agent's work that speaks there.

use std::fmt::Write;

use crate::brief::foreign::ForeignText;
use crate::config::checks::Check;
use crate::evidence::{Evidence, Finding, Need, Verdict};
use crate::id::AnswerLabel;
use crate::wording::one_line;

/// The longest command that is shown, in characters.
const COMMAND_CHARS_MAX: usize = 200;

/// Says by what answers will be checked.
pub(super) fn announced(out: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    out.push_str(
        "Every answer is checked by these commands, in the user's tree as the answer would leave \
         it:\n",
    );
    for check in checks {
        let need = match check.need {
            Need::Required => "required",
            Need::Told => "for your information",
        };
        let command = ForeignText::from(one_line(&check.command, COMMAND_CHARS_MAX)).code();
        let _ = writeln!(out, "- {}: {command} ({need})", check.name);
    }
    out.push_str("An answer that fails a required one cannot win while another one passes.\n");
}

/// Says how the checks ended on an answer.
pub(super) fn checked(out: &mut String, label: AnswerLabel, evidence: &Evidence) {
    let Evidence { checks, changes } = evidence;
    if !checks.is_empty() {
        let _ = writeln!(out, "Checks of {label}:");
    }
    for finding in checks {
        let Finding {
            check,
            need,
            verdict,
            tail,
            ..
        } = finding;
        let told = match (need, verdict) {
            (_, Verdict::Passed) | (Need::Required, _) => "",
            (Need::Told, _) => " (not required)",
        };
        let _ = writeln!(out, "- {check}: {verdict}{told}");
        out.push_str(&ForeignText::from(tail.as_str()).lines("  | "));
    }
    if let Some(changes) = changes {
        let _ = writeln!(out, "Changes of {label}: {changes}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Changes;
    use crate::id::AgentNumber;

    #[test]
    fn voters_read_how_each_check_ended() {
        let finding = |check: &str, need, verdict, tail: &str| Finding {
            check: check.to_owned(),
            need,
            verdict,
            tail: tail.to_owned(),
            elapsed_ms: 9,
        };
        let how = || "exit status 1".to_owned();
        let evidence = Evidence {
            checks: vec![
                finding("build", Need::Required, Verdict::Passed, ""),
                finding(
                    "tests",
                    Need::Required,
                    Verdict::Failed { how: how() },
                    "1 failed\nbye",
                ),
                finding("lint", Need::Told, Verdict::Failed { how: how() }, ""),
            ],
            changes: Some(Changes {
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
        checked(&mut out, label, &evidence);
        let expected = "Checks of agent1.1:\n- build: passed\n- tests: failed: exit status 1\n  | 1 \
                        failed\n  | bye\n- lint: failed: exit status 1 (not required)\nChanges of \
                        agent1.1: 1 file, +4 -2 lines\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn agents_know_the_checks_before_they_answer() {
        let check = |name: &str, need| Check {
            name: name.to_owned(),
            command: "make test".to_owned(),
            need,
            timeout_seconds: 5,
        };
        let mut out = String::new();
        announced(&mut out, &[]);
        assert_eq!(out, "");
        announced(
            &mut out,
            &[check("tests", Need::Required), check("lint", Need::Told)],
        );
        assert!(out.contains("- tests: `make test` (required)\n"), "{out}");
        assert!(
            out.contains("- lint: `make test` (for your information)\n"),
            "{out}"
        );
    }
}
