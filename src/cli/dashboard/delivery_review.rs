//! The review of a delivery on the dashboard: its files with their hunks, and which of them are
//! selected. At the beginning all are.

use std::sync::Arc;

use crate::cli::deliveries::diff_text::{
    DiffStat, hunk_lines, lines, stat, stat_line, stat_summary,
};
use crate::cli::deliveries::interactive_review::entry_name;
use crate::cli::output::{StyledLine, TextStyle};
use crate::delivery::choice::DeliveryChoice;
use crate::delivery::hunks::{DiffHunk, HunkChoice, hunks};
use crate::delivery::line_diff::LineDiff;
use crate::delivery::plan::{DeliveryPlan, EntryAction};
use crate::orchestrator::review::DeliverySelection;
use crate::text::{count_noun, escape_name};
use crate::world::delivery::contents::{DeliveryDifference, DiffSide, difference};
use crate::world::delivery::store::OpenDelivery;

/// Maximum number of files whose changes are read when the review opens; the others are read when
/// they are selected.
const FILES_READ_MAX: usize = 200;
/// Maximum number of conflicts and refused names that are listed.
const NOTES_MAX: usize = 20;

/// The review of a delivery.
#[derive(Debug)]
pub(crate) struct DeliveryReview {
    delivery: Arc<OpenDelivery>,
    plan: Arc<DeliveryPlan>,
    /// The files, in the order of the plan.
    pub(super) files: Vec<ReviewFile>,
    /// The index of the selected file.
    pub(super) file: usize,
    /// The index of the selected hunk of that file.
    pub(super) hunk: usize,
    /// What is not offered, one warning each.
    notes: Vec<String>,
}

/// A file under review.
#[derive(Debug)]
pub(crate) struct ReviewFile {
    /// Its index among the entries of the plan.
    entry: usize,
    /// Its name for the user.
    pub(super) name: String,
    /// What happens to it.
    action: EntryAction,
    /// Its changes, once they have been read.
    pub(super) changes: Option<FileChanges>,
    /// For each hunk whether it is selected; one item for a file without hunks.
    pub(super) selected: Vec<bool>,
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
        let files = plan.items().into_iter().filter_map(|index| {
            let entry = plan.entries.get(index)?;
            Some(ReviewFile {
                entry: index,
                name: entry_name(plan, entry),
                action: entry.action(),
                changes: None,
                selected: vec![true],
            })
        });
        let mut review = Self {
            delivery: Arc::clone(delivery),
            plan: Arc::clone(plan),
            files: files.collect(),
            file: 0,
            hunk: 0,
            notes: notes(plan),
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
        let notes = self.notes.iter();
        lines.extend(notes.map(|note| vec![(TextStyle::Warn, note.clone())]));
        lines
    }

    /// Returns how much of the delivery is selected.
    pub(super) fn selection_text(&self) -> String {
        let files = self.files.iter();
        let selected_files = files.filter(|file| file.selected_hunks() > 0).count();
        let (mut selected, mut hunks) = (0_usize, 0_usize);
        for file in &self.files {
            selected = selected.saturating_add(file.selected_hunks());
            hunks = hunks.saturating_add(file.selected.len());
        }
        format!(
            "selected: {selected_files}/{} files, {selected}/{hunks} hunks",
            self.files.len()
        )
    }

    /// Selects the file that is `step` files further.
    pub(super) fn move_file(&mut self, step: isize) {
        let last_index = self.files.len().saturating_sub(1);
        self.file = self.file.saturating_add_signed(step).min(last_index);
        self.hunk = 0;
        self.read_changes(self.file);
    }

    /// Selects the hunk that is `step` hunks further.
    pub(super) fn move_hunk(&mut self, step: isize) {
        let hunks = self.current().map_or(0, |file| file.selected.len());
        self.hunk = self.hunk.saturating_add_signed(step);
        self.hunk = self.hunk.min(hunks.saturating_sub(1));
    }

    /// Selects all of the current file, or nothing of it if all of it is selected.
    pub(super) fn toggle_file(&mut self) {
        if let Some(file) = self.files.get_mut(self.file) {
            let is_whole = file.selected.iter().all(|selected| *selected);
            file.selected.fill(!is_whole);
        }
    }

    /// Selects the current hunk, or takes it out of the selection.
    pub(super) fn toggle_hunk(&mut self) {
        let file = self.files.get_mut(self.file);
        if let Some(is_selected) = file.and_then(|file| file.selected.get_mut(self.hunk)) {
            *is_selected = !*is_selected;
        }
    }

    /// Returns the current file.
    pub(super) fn current(&self) -> Option<&ReviewFile> {
        self.files.get(self.file)
    }

    /// Returns the selected changes.
    pub(super) fn selection(&self, plan: &DeliveryPlan) -> DeliverySelection {
        let is_selected = |selected: &bool| *selected;
        let mut files = self.files.iter();
        if files.all(|file| file.selected.iter().all(is_selected)) {
            return DeliverySelection::take_all(plan);
        }
        let mut selection = DeliverySelection::take_none(plan);
        // Directories are created and removed together with the selected files in them.
        for (entry, choice) in plan.entries.iter().zip(&mut selection.choices) {
            if entry.ours.is_absent() && !entry.is_file() {
                *choice = DeliveryChoice::Apply;
            }
        }
        for file in &self.files {
            let is_whole = file.selected.iter().all(is_selected);
            let is_part = !is_whole && file.selected.iter().any(is_selected);
            if let Some(choice) = selection.choices.get_mut(file.entry) {
                *choice = if is_whole {
                    DeliveryChoice::Apply
                } else {
                    DeliveryChoice::Leave
                };
            }
            if let (true, Some(changes)) = (is_part, &file.changes) {
                let choices = HunkChoice::list(&changes.hunks, &file.selected);
                selection.parts.insert(file.entry, choices);
            }
        }
        selection
    }

    fn read_changes(&mut self, index: usize) {
        let Some(file) = self.files.get_mut(index) else {
            return;
        };
        let Some(entry) = self.plan.entries.get(file.entry) else {
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
            file.selected = vec![true; changes.hunks.len()];
        }
        file.changes = Some(changes);
    }
}

impl ReviewFile {
    /// Returns its line in the list of files.
    pub(super) fn list_line(&self) -> StyledLine {
        let count = self.selected_hunks();
        let mark = match count {
            0 => "[ ] ",
            count if count == self.selected.len() => "[x] ",
            _ => "[~] ",
        };
        let (style, sign) = match self.action {
            EntryAction::Create => (TextStyle::Good, "+ "),
            EntryAction::Change => (TextStyle::Plain, "~ "),
            EntryAction::Delete => (TextStyle::Bad, "- "),
        };
        let mut line = vec![
            (TextStyle::Plain, mark.to_owned()),
            (style, sign.to_owned()),
        ];
        let stat = self.changes.as_ref().map(|changes| changes.stat.clone());
        if self.selected.len() > 1 {
            let hunks = format!("{count}/{} hunks  ", self.selected.len());
            line.push((TextStyle::Plain, hunks));
        }
        line.extend(stat_line(&self.name, &stat.unwrap_or_default()));
        line
    }

    /// Returns the number of selected hunks; a file without hunks counts as one.
    fn selected_hunks(&self) -> usize {
        self.selected.iter().filter(|selected| **selected).count()
    }

    /// Returns its diff. Hunks that can be selected one by one have a mark, and `current` points to
    /// one of them. Also returns the row at which that hunk begins.
    pub(super) fn diff_lines(&self, current_hunk: usize) -> (Vec<StyledLine>, usize) {
        let Some(changes) = &self.changes else {
            return (Vec::new(), 0);
        };
        if changes.hunks.len() < 2 {
            return (changes.lines.clone(), 0);
        }
        let (mut lines, mut begin) = (Vec::new(), 0);
        for (number, (hunk, is_selected)) in changes.hunks.iter().zip(&self.selected).enumerate() {
            let mark = if *is_selected { "[x] " } else { "[ ] " };
            let pointer = if number == current_hunk { "> " } else { "  " };
            let mut rows = hunk_lines(hunk).into_iter();
            if number == current_hunk {
                begin = lines.len();
            }
            if let Some(mut header) = rows.next() {
                header.insert(0, (TextStyle::Strong, format!("{pointer}{mark}")));
                lines.push(header);
            }
            lines.extend(rows);
        }
        (lines, begin)
    }
}

impl FileChanges {
    fn new(difference: &DeliveryDifference, name: &str) -> Self {
        let hunks = match (&difference.before, &difference.after) {
            (DiffSide::Text(old), DiffSide::Text(new)) => hunks(&LineDiff::new(old, new)),
            _ => Vec::new(),
        };
        Self {
            stat: stat(difference),
            lines: lines(difference, name),
            hunks,
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

fn notes(plan: &DeliveryPlan) -> Vec<String> {
    let conflicts = plan
        .entries
        .iter()
        .filter(|entry| entry.is_file())
        .filter_map(|entry| {
            let name = entry_name(plan, entry);
            Some(format!(
                "`{name}` is unchanged: {}",
                entry.conflict?.reason()
            ))
        });
    let refused = plan.refused.iter().map(|refusal| {
        let path = escape_name(&refusal.path.to_string());
        format!("`{path}` is refused: {}", refusal.reason)
    });
    let mut notes: Vec<String> = conflicts.chain(refused).collect();
    let more = notes.len().saturating_sub(NOTES_MAX);
    notes.truncate(NOTES_MAX);
    if more > 0 {
        notes.push(format!("and {}", count_noun(more, "more name")));
    }
    notes
}
