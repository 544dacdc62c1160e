//! Facts about an answer besides its text: the results of the user's checks, and how much it would
//! change. It decides which answers take precedence, and runs nothing.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{count_noun, list_names};

/// The check results of an answer or a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckResults {
    /// The result of each check, in the order of the config.
    pub checks: Vec<CheckResult>,
    /// The changes to the user's trees, if known.
    pub changes: Option<ChangeCounts>,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckResult {
    /// The check's name.
    pub check: String,
    /// Whether an answer must pass it.
    pub need: CheckRequirement,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: CheckVerdict,
    /// The end of its output; empty if it passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    /// The duration in milliseconds.
    pub elapsed_ms: u64,
}

/// Whether an answer must pass a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckRequirement {
    /// An answer that fails it cannot win while another one passes.
    #[default]
    Required,
    /// Voters see the result and decide.
    #[serde(rename = "told")]
    Informational,
}

/// The verdict of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum CheckVerdict {
    /// Its command exited with status 0.
    Passed,
    /// Its command failed.
    Failed {
        /// The failure, as the end of a sentence.
        #[serde(rename = "how")]
        failure: String,
    },
    /// It could not run.
    NotRun {
        /// The reason, as the end of a sentence.
        #[serde(rename = "why")]
        reason: String,
    },
}

impl CheckVerdict {
    /// Returns the verdict in words.
    pub fn word(&self) -> &'static str {
        match self {
            CheckVerdict::Passed => "passed",
            CheckVerdict::Failed { .. } => "failed",
            CheckVerdict::NotRun { .. } => "did not run",
        }
    }
}

/// The size of the changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeCounts {
    /// Created, changed and deleted files.
    pub files: u64,
    /// Added lines of text.
    pub added: u64,
    /// Removed lines of text.
    pub removed: u64,
}

impl ChangeCounts {
    /// Adds a changed file with these numbers of added and removed lines of text.
    pub fn add_file(&mut self, (added, removed): (usize, usize)) {
        let add = |sum: u64, lines| sum.saturating_add(u64::try_from(lines).unwrap_or(u64::MAX));
        self.files = self.files.saturating_add(1);
        self.added = add(self.added, added);
        self.removed = add(self.removed, removed);
    }
}

/// How required checks ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChecksOutcome {
    /// All of them passed.
    Passed,
    /// One of them failed or did not run.
    Failed,
    /// There were none.
    None,
}

impl ChecksOutcome {
    /// Returns how the required ones of `checks` ended.
    pub fn of<'c>(checks: impl IntoIterator<Item = &'c CheckResult>) -> Self {
        let mut outcome = ChecksOutcome::None;
        for check in checks {
            if check.need == CheckRequirement::Required {
                if check.verdict != CheckVerdict::Passed {
                    return ChecksOutcome::Failed;
                }
                outcome = ChecksOutcome::Passed;
            }
        }
        outcome
    }
}

/// Standing of an answer, which decides whether it takes precedence over others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckStanding {
    /// It passed all required checks, or there are none.
    #[default]
    Holds,
    /// It did not pass a required check.
    Fails,
}

impl CheckResults {
    /// Returns which required checks did not pass, as the beginning of a sentence; `None` if all
    /// passed.
    pub fn failed_requirements(&self) -> Option<String> {
        let unmet_requirements = self.unmet_requirements();
        let names: Vec<&str> = unmet_requirements
            .map(|result| result.check.as_str())
            .collect();
        let (noun, verb) = match names.len() {
            0 => return None,
            1 => ("check", "does"),
            _ => ("checks", "do"),
        };
        Some(format!(
            "the {noun} {} {verb} not pass",
            list_names(&names, "and")
        ))
    }

    /// Returns what follows from the checks. A required check that could not run counts as failed.
    pub fn standing(&self) -> CheckStanding {
        match self.unmet_requirements().next() {
            Some(_) => CheckStanding::Fails,
            None => CheckStanding::Holds,
        }
    }

    /// Returns why the first required check that could not run did not.
    pub fn prevented_requirement(&self) -> Option<(&str, &str)> {
        self.unmet_requirements().find_map(|result| {
            if let CheckVerdict::NotRun { reason } = &result.verdict {
                Some((result.check.as_str(), reason.as_str()))
            } else {
                None
            }
        })
    }

    /// Returns whether a required check ran to its end and failed.
    pub fn has_failed(&self) -> bool {
        let mut unmet_requirements = self.unmet_requirements();
        unmet_requirements.any(|result| matches!(result.verdict, CheckVerdict::Failed { .. }))
    }

    /// Returns the required checks that did not pass: they failed, or could not run.
    pub fn unmet_requirements(&self) -> impl Iterator<Item = &CheckResult> {
        let required_checks = self
            .checks
            .iter()
            .filter(|result| result.need == CheckRequirement::Required);
        required_checks.filter(|result| result.verdict != CheckVerdict::Passed)
    }
}

impl fmt::Display for CheckVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckVerdict::Passed => f.write_str("passed"),
            CheckVerdict::Failed { failure } => write!(f, "failed: {failure}"),
            CheckVerdict::NotRun { reason } => write!(f, "not run: {reason}"),
        }
    }
}

impl fmt::Display for ChangeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = usize::try_from(self.files).unwrap_or(usize::MAX);
        let (added, removed) = (self.added, self.removed);
        write!(
            f,
            "{}, +{added} -{removed} lines",
            count_noun(files, "file")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(findings: &[(CheckRequirement, CheckVerdict)], expected: CheckStanding) {
        let finding = |(need, verdict): &(CheckRequirement, CheckVerdict)| CheckResult {
            check: "tests".to_owned(),
            need: *need,
            verdict: verdict.clone(),
            tail: String::new(),
            elapsed_ms: 1,
        };
        let check_results = CheckResults {
            checks: findings.iter().map(finding).collect(),
            changes: None,
        };
        assert_eq!(check_results.standing(), expected, "{findings:?}");
    }

    #[test]
    fn an_answer_holds_if_no_required_check_says_otherwise() {
        let failed = || CheckVerdict::Failed {
            failure: "status 1".to_owned(),
        };
        let not_run = || CheckVerdict::NotRun {
            reason: "no sandbox".to_owned(),
        };
        check(&[], CheckStanding::Holds);
        check(
            &[(CheckRequirement::Required, CheckVerdict::Passed)],
            CheckStanding::Holds,
        );
        check(
            &[(CheckRequirement::Informational, failed())],
            CheckStanding::Holds,
        );
        check(
            &[(CheckRequirement::Required, failed())],
            CheckStanding::Fails,
        );
        check(
            &[(CheckRequirement::Required, not_run())],
            CheckStanding::Fails,
        );
        let both = [
            (CheckRequirement::Required, CheckVerdict::Passed),
            (CheckRequirement::Required, failed()),
        ];
        check(&both, CheckStanding::Fails);
    }

    #[test]
    fn check_results_keep_their_form_in_the_log() {
        let text = r#"{"checks":[{"check":"tests","need":"required","verdict":"failed","how":"status 1","tail":"x","elapsed_ms":5}],"changes":{"files":2,"added":3,"removed":0}}"#;
        let check_results: CheckResults = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&check_results).unwrap(), text);
        let changes = check_results.changes.map(|changes| changes.to_string());
        assert_eq!(changes.as_deref(), Some("2 files, +3 -0 lines"));
    }
}
