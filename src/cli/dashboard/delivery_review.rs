//! The review of a delivery on the dashboard: its files with their hunks, and which of them are
//! selected. At the beginning all are.

use std::sync::Arc;

use crate::cli::deliveries::diff_text::{
    DiffStat, diff_lines, diff_stat, hunk_lines, stat_line, stat_summary,
};
use crate::cli::deliveries::interactive_review::{
    FileChoice, action_sign, entry_name, plan_warnings,
};
use crate::cli::output::{StyledLine, TextStyle};
use crate::delivery::choice::DeliveryChoice;
use crate::delivery::hunks::{DiffHunk, HunkChoice};
use crate::delivery::plan::{DeliveryPlan, EntryAction};
use crate::orchestrator::review::DeliverySelection;
use crate::text::count_noun;
use crate::world::delivery::contents::{DeliveryDifference, difference};
use crate::world::delivery::store::OpenDelivery;

/// Maximum number of files whose changes are read when the review opens; the changes of the others
/// are read when they become the current file.
const FILES_READ_MAX: usize = 200;

/// The review of a delivery.
#[derive(Debug)]
pub(crate) struct DeliveryReview {
    delivery: Arc<OpenDelivery>,
    plan: Arc<DeliveryPlan>,
    /// The files, in the order of the plan.
    pub(super) files: Vec<ReviewFile>,
    /// The index of the current file.
    pub(super) file_index: usize,
    /// The index of the current hunk of that file.
    pub(super) hunk_index: usize,
    /// What the delivery does not offer, one warning each.
    warnings: Vec<String>,
}

/// A file under review.
#[derive(Debug)]
pub(crate) struct ReviewFile {
    /// Its index among the entries of the plan.
    entry_index: usize,
    /// Its name for the user.
    pub(super) name: String,
    /// What happens to it.
    action: EntryAction,
    /// Its changes, once they have been read.
    pub(super) changes: Option<FileChanges>,
    /// For each hunk whether it is selected; one element for a file without hunks.
    pub(super) hunk_selection: Vec<bool>,
}

/// The changes of a file.
#[derive(Debug)]
pub(crate) struct FileChanges {
    /// The counts of lines.
    stat: DiffStat,
    /// The whole diff.
    pub(super) lines: Vec<StyledLine>,
    /// The hunks that can be selected one by one; none for a binary file.
    pub(super) hunks: Vec<DiffHunk>,
}

impl DeliveryReview {
    /// Opens the review of `plan`, and reads the changes of its first files.
    pub(super) fn open(delivery: &Arc<OpenDelivery>, plan: &Arc<DeliveryPlan>) -> Self {
        let reviewable_entries = plan.reviewable_entries().into_iter();
        let files = reviewable_entries.map(|(entry_index, entry)| ReviewFile {
            entry_index,
            name: entry_name(plan, entry),
            action: entry.action(),
            changes: None,
            hunk_selection: vec![entry.consent.is_none()],
        });
        let mut review = Self {
            delivery: Arc::clone(delivery),
            plan: Arc::clone(plan),
            files: files.collect(),
            file_index: 0,
            hunk_index: 0,
            warnings: plan_warnings(plan, "it is applied only if you select it"),
        };
        for index in 0..review.files.len().min(FILES_READ_MAX) {
            review.read_changes(index);
        }
        review
    }

    /// Returns the number of files and lines, and what is not offered.
    pub(super) fn summary(&self) -> Vec<StyledLine> {
        let stats: Vec<DiffStat> = self
            .files
            .iter()
            .filter_map(|file| file.changes.as_ref())
            .map(|changes| changes.stat.clone())
            .collect();
        let counts = if stats.len() == self.files.len() {
            stat_summary(&stats)
        } else {
            count_noun(self.files.len(), "file")
        };
        let title = format!("the delivery waits for your review: {counts}");
        let mut lines = vec![vec![(TextStyle::Strong, title)]];
        let warnings = self.warnings.iter();
        lines.extend(warnings.map(|warning| vec![(TextStyle::Warn, warning.clone())]));
        lines
    }

    /// Returns how much of the delivery is selected.
    pub(super) fn selection_text(&self) -> String {
        let files = self.files.iter();
        let selected_files = files.filter(|file| file.selected_hunk_count() > 0).count();
        let (mut selected_hunks, mut hunks) = (0_usize, 0_usize);
        for file in &self.files {
            selected_hunks = selected_hunks.saturating_add(file.selected_hunk_count());
            hunks = hunks.saturating_add(file.hunk_selection.len());
        }
        format!(
            "selected: {selected_files}/{} files, {selected_hunks}/{hunks} hunks",
            self.files.len()
        )
    }

    /// Moves to the file that is `step` files further.
    pub(super) fn move_file(&mut self, step: isize) {
        let last_index = self.files.len().saturating_sub(1);
        self.file_index = self.file_index.saturating_add_signed(step).min(last_index);
        self.hunk_index = 0;
        self.read_changes(self.file_index);
    }

    /// Moves to the hunk that is `step` hunks further.
    pub(super) fn move_hunk(&mut self, step: isize) {
        let hunks = self
            .current_file()
            .map_or(0, |file| file.hunk_selection.len());
        self.hunk_index = self.hunk_index.saturating_add_signed(step);
        self.hunk_index = self.hunk_index.min(hunks.saturating_sub(1));
    }

    /// Selects all of the current file, or skips it if all of it is selected.
    pub(super) fn toggle_file(&mut self) {
        if let Some(file) = self.files.get_mut(self.file_index) {
            let is_whole = file.hunk_selection.iter().all(|selected| *selected);
            file.hunk_selection.fill(!is_whole);
        }
    }

    /// Selects the current hunk, or skips it if it is selected.
    pub(super) fn toggle_hunk(&mut self) {
        let file = self.files.get_mut(self.file_index);
        if let Some(is_selected) =
            file.and_then(|file| file.hunk_selection.get_mut(self.hunk_index))
        {
            *is_selected = !*is_selected;
        }
    }

    /// Returns the current file.
    pub(super) fn current_file(&self) -> Option<&ReviewFile> {
        self.files.get(self.file_index)
    }

    /// Returns the selected changes.
    pub(super) fn selection(&self, plan: &DeliveryPlan) -> DeliverySelection {
        let is_selected = |selected: &bool| *selected;
        let mut files = self.files.iter();
        let needs_consent = plan.entries.iter().any(|entry| entry.consent.is_some());
        if !needs_consent && files.all(|file| file.hunk_selection.iter().all(is_selected)) {
            return DeliverySelection::take_all(plan);
        }
        let mut selection = DeliverySelection::take_no_files(plan);
        for file in &self.files {
            let is_whole = file.hunk_selection.iter().all(is_selected);
            let is_part = !is_whole && file.hunk_selection.iter().any(is_selected);
            let choice = match &file.changes {
                _ if is_whole => FileChoice::Whole(DeliveryChoice::Apply),
                Some(changes) if is_part => {
                    FileChoice::Hunks(HunkChoice::list(&changes.hunks, &file.hunk_selection))
                }
                Some(_) | None => FileChoice::Whole(DeliveryChoice::Leave),
            };
            choice.enter_into(&mut selection, file.entry_index);
        }
        selection
    }

    fn read_changes(&mut self, index: usize) {
        let Some(file) = self.files.get_mut(index) else {
            return;
        };
        let Some(entry) = self.plan.entries.get(file.entry_index) else {
            return;
        };
        if file.changes.is_some() {
            return;
        }
        let changes = match difference(&self.delivery, &self.plan, entry) {
            Ok(difference) => FileChanges::new(&difference, &file.name),
            Err(error) => FileChanges::unreadable(&format!("{error:#}")),
        };
        if changes.hunks.len() > 1 {
            file.hunk_selection = vec![true; changes.hunks.len()];
        }
        file.changes = Some(changes);
    }
}

impl ReviewFile {
    /// Returns its line in the list of files.
    pub(super) fn list_line(&self) -> StyledLine {
        let count = self.selected_hunk_count();
        let mark = match count {
            0 => "[ ] ",
            count if count == self.hunk_selection.len() => "[x] ",
            _ => "[~] ",
        };
        let mut line = vec![
            (TextStyle::Plain, mark.to_owned()),
            action_sign(self.action),
        ];
        let stat = self.changes.as_ref().map(|changes| changes.stat.clone());
        if self.hunk_selection.len() > 1 {
            let hunks = format!("{count}/{} hunks  ", self.hunk_selection.len());
            line.push((TextStyle::Plain, hunks));
        }
        line.extend(stat_line(&self.name, &stat.unwrap_or_default()));
        line
    }

    /// Returns the number of selected hunks; a file without hunks counts as one.
    fn selected_hunk_count(&self) -> usize {
        self.hunk_selection
            .iter()
            .filter(|selected| **selected)
            .count()
    }

    /// Returns its diff, and the index of the line at which the hunk `hunk_index` begins. Hunks
    /// that can be selected one by one have a mark, and that hunk also has a pointer.
    pub(super) fn diff_lines(&self, hunk_index: usize) -> (Vec<StyledLine>, usize) {
        let Some(changes) = &self.changes else {
            return (Vec::new(), 0);
        };
        if changes.hunks.len() < 2 {
            return (changes.lines.clone(), 0);
        }
        let (mut lines, mut begin) = (Vec::new(), 0);
        for (index, (hunk, is_selected)) in
            changes.hunks.iter().zip(&self.hunk_selection).enumerate()
        {
            let mark = if *is_selected { "[x] " } else { "[ ] " };
            let pointer = if index == hunk_index { "> " } else { "  " };
            let mut new_lines = hunk_lines(hunk).into_iter();
            if index == hunk_index {
                begin = lines.len();
            }
            if let Some(mut header) = new_lines.next() {
                header.insert(0, (TextStyle::Strong, format!("{pointer}{mark}")));
                lines.push(header);
            }
            lines.extend(new_lines);
        }
        (lines, begin)
    }
}

impl FileChanges {
    fn new(difference: &DeliveryDifference, name: &str) -> Self {
        Self {
            stat: diff_stat(difference),
            lines: diff_lines(difference, name),
            hunks: difference.hunks(),
        }
    }

    fn unreadable(reason: &str) -> Self {
        Self {
            stat: DiffStat {
                word: Some("cannot be read"),
                ..DiffStat::default()
            },
            lines: vec![vec![(TextStyle::Bad, reason.to_owned())]],
            hunks: Vec::new(),
        }
    }
}
