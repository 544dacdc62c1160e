//! The result of a coordination: the answers and votes that count, and how it ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::agent::deadline::StopCause;
use crate::answer_changes::{AnswerChanges, ChangeLayers};
use crate::ballot::VoteTally;
use crate::check_results::{CheckResult, CheckResults, CheckStanding};
use crate::event::SetupProblem;
use crate::id::{AgentNumber, AnswerLabel};
use crate::path::{AbsPath, RealPath};
use crate::prompts::{self, AnswerView};

/// A vote that counts.
#[derive(Clone, Debug)]
pub struct CountedVote {
    /// The agent that it is for.
    pub candidate: AgentNumber,
    /// The reason.
    pub reason: String,
}

/// End of a coordination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinationEnd {
    /// Every remaining agent has voted.
    Agreed,
    /// It was stopped.
    Stopped(StopCause),
}

/// Result of a coordination.
#[derive(Debug)]
pub struct CoordinationResult {
    /// How it ended.
    pub end: CoordinationEnd,
    /// The tally; `None` if there are no answers.
    pub tally: Option<VoteTally>,
    /// The latest answer of each agent that submitted one.
    pub answers: BTreeMap<AgentNumber, AcceptedAnswer>,
    /// The votes that counted at the end, by voter.
    pub votes: BTreeMap<AgentNumber, CountedVote>,
    /// What the user has to change, if that is why every agent dropped out.
    pub setup_problems: Vec<SetupProblem>,
}

impl CoordinationResult {
    /// Returns a result without answers.
    pub fn without_answers(end: CoordinationEnd) -> Self {
        Self {
            end,
            tally: None,
            answers: BTreeMap::new(),
            votes: BTreeMap::new(),
            setup_problems: Vec::new(),
        }
    }
}

/// An accepted answer.
#[derive(Clone, Debug)]
pub struct AcceptedAnswer {
    /// Its name.
    pub label: AnswerLabel,
    /// The text that the agent gave.
    pub content: Arc<str>,
    /// The files that belong to it.
    pub snapshot: Option<RealPath>,
    /// What it changes in the user's paths, if it was made in an attempt.
    pub changes: Option<AnswerChanges>,
    /// The results of the checks on it, if there are checks.
    pub check_results: Option<CheckResults>,
    /// When the checks began, in nanoseconds since 1970, if they ran in this process.
    pub checks_began_ns: Option<i128>,
}

impl AcceptedAnswer {
    /// Returns whether it passed all required checks.
    pub fn has_passed(&self) -> bool {
        let results = self.check_results.as_ref();
        results.is_none_or(|results| results.standing() == CheckStanding::Holds)
    }

    /// Returns the layers with what it changes.
    pub fn layers(&self) -> ChangeLayers {
        let changes = self.changes.as_ref();
        changes.map_or_else(ChangeLayers::default, |changes| changes.layers.clone())
    }

    /// Returns when the checks on its changes began, in nanoseconds since 1970, if they passed in
    /// this process and saw all of the changes.
    pub fn checked_since_ns(&self) -> Option<i128> {
        let changes = self.changes.as_ref()?;
        let is_checked = self.check_results.is_some() && self.has_passed();
        self.checks_began_ns
            .filter(|_| is_checked && changes.fixed_layers.is_empty())
    }

    /// Returns the results of the checks that took files from the user's trees in the place of those
    /// that it changes.
    pub fn results_with_fixed_files(&self) -> Vec<CheckResult> {
        let (Some(results), Some(changes)) = (&self.check_results, &self.changes) else {
            return Vec::new();
        };
        let results = results.checks.iter();
        let is_settled = |result: &&CheckResult| changes.fixed_layers.contains_key(&result.check);
        results.filter(is_settled).cloned().collect()
    }

    /// Returns the answer as other agents read it: paths in the author's `workspace` are rewritten
    /// to the snapshot.
    pub fn view(&self, workspace: Option<&AbsPath>) -> AnswerView {
        let files = self.snapshot.as_ref().map(ToString::to_string);
        let content = match (workspace, &files) {
            (Some(workspace), Some(files)) => {
                prompts::rewrite_paths(&self.content, workspace, files)
            }
            _ => self.content.to_string(),
        };
        AnswerView {
            label: self.label,
            content: content.into(),
            files,
            diff: self
                .changes
                .as_ref()
                .map(|changes| changes.diff.as_str().into()),
            layers: self.changes.as_ref().map(|_| self.layers()),
            check_results: self.check_results.clone(),
        }
    }
}
