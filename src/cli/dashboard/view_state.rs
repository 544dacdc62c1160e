//! The state of the dashboard that is not of the run: which view is open, what is selected and how
//! far it is scrolled.

use crate::cli::dashboard::typed_text::TypedText;

/// A view that fills the body of the dashboard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OpenView {
    /// A cell or a row for each agent.
    #[default]
    Overview,
    /// One agent at length.
    Agent,
    /// The answers side by side.
    Answers,
    /// The changes of the delivery.
    Changes,
    /// The votes with their reasons.
    Votes,
    /// What each agent did when.
    Timeline,
    /// What was used.
    Cost,
    /// The stages of a pipeline.
    Stages,
    /// The lines of the run.
    Log,
    /// The keys.
    Help,
}

/// The state of the dashboard.
#[derive(Clone, Debug, Default)]
pub(super) struct ViewState {
    /// The open view.
    pub(super) view: OpenView,
    /// The index of the selected agent.
    pub(super) agent_index: usize,
    /// The index of the selected answer among the current ones.
    pub(super) answer_index: usize,
    /// How far the view is scrolled, in rows: from the top, or from the end for what grows there.
    pub(super) scroll: usize,
    /// The maximum of `scroll` at the last frame.
    pub(super) scroll_max: usize,
    /// Whether reasoning is folded.
    pub(super) folds_reasoning: bool,
    /// Whether the results of tools are folded.
    pub(super) folds_results: bool,
    /// The text that is looked for in the agent's transcript.
    pub(super) search: Option<SearchState>,
    /// The line that is being typed.
    pub(super) composer: Option<ComposerLine>,
    /// Whether the question fills the body.
    pub(super) is_task_open: bool,
    /// How far the question is scrolled, in rows.
    pub(super) task_scroll: usize,
    /// When the last key was pressed, in milliseconds after the start; `None` before the first.
    pub(super) last_key_ms: Option<u64>,
    /// A message about the last key, until the next one.
    pub(super) note: Option<&'static str>,
}

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComposerLine {
    /// What it is for.
    pub(super) purpose: ComposerPurpose,
    pub(super) text: TypedText,
}

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComposerPurpose {
    /// The answer to an open question.
    Answer,
    /// What an agent is to do in the place of a call that the user denies.
    Instead,
    /// A message to the agents.
    Message,
}

/// A search in a transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SearchState {
    pub(super) text: TypedText,
    /// Whether it is still being typed.
    pub(super) is_typing: bool,
}

impl ViewState {
    /// Opens `view` without a scroll offset.
    pub(super) fn open(&mut self, view: OpenView) {
        self.view = view;
        self.scroll = 0;
        self.search = None;
        self.is_task_open = false;
    }

    /// Opens `view`, or the overview if it is open.
    pub(super) fn toggle(&mut self, view: OpenView) {
        let is_open = self.view == view && !self.is_task_open;
        self.open(if is_open { OpenView::Overview } else { view });
    }

    /// Scrolls by `rows` towards larger offsets.
    pub(super) fn scroll_forward(&mut self, rows: usize) {
        self.scroll = self.scroll.saturating_add(rows).min(self.scroll_max);
    }

    /// Scrolls by `rows` towards the offset 0.
    pub(super) fn scroll_back(&mut self, rows: usize) {
        self.scroll = self.scroll.saturating_sub(rows);
    }

    /// Sets the maximum of the offset, as the last frame found it.
    pub(super) fn limit_scroll(&mut self, max: usize) {
        self.scroll_max = max;
        self.scroll = self.scroll.min(max);
    }
}
