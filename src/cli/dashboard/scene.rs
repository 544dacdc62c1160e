//! What a frame of the dashboard shows: the model of the run, and what its user selected.

use crate::cli::dashboard::line_history::LineHistory;
use crate::cli::dashboard::question::QuestionPanel;
use crate::cli::dashboard::view_state::{OpenView, ViewState};
use crate::id::AgentId;
use crate::run_view::RunView;
use crate::spending::limits::BudgetLimits;

/// Everything that a frame shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'s> {
    pub(super) run: &'s RunView,
    /// Its events so far.
    pub(super) history: &'s LineHistory,
    /// What is open and selected.
    pub(super) state: &'s ViewState,
    /// The questions that wait, oldest first.
    pub(super) questions: &'s [QuestionPanel],
    /// The limits of the run.
    pub(super) limits: BudgetLimits,
    /// The time since the start, in milliseconds.
    pub(super) now_ms: u64,
    /// Whether the run stays on the screen although it is over.
    pub(super) is_over: bool,
    /// Whether the run is over or recorded, and only viewed.
    pub(super) is_record: bool,
}

impl Scene<'_> {
    /// Returns whether the view is that of a delivery that waits for a review.
    pub(super) fn is_review_open(&self) -> bool {
        let question = self.questions.first();
        let is_review = question.is_some_and(|question| question.review.is_some());
        is_review && self.state.view == OpenView::Changes
    }

    /// Returns the position of `agent` in the config; agents of earlier stages come last.
    pub(super) fn agent_position(&self, agent: &AgentId) -> usize {
        self.run.agent_index(agent).unwrap_or(usize::MAX)
    }

    /// Returns whether the run is a pipeline whose roles work, or have worked.
    pub(super) fn has_stages(&self) -> bool {
        !self.run.pipeline().stages.is_empty()
    }

    /// Returns the number of tool calls; `None` for the log of a pipeline, which does not have
    /// them.
    pub(super) fn tool_calls(&self) -> Option<u64> {
        let is_unknown = self.is_record && self.has_stages();
        (!is_unknown).then(|| self.run.usage().tool_calls())
    }
}
