//! The effect of a finished command on the user's trees: what changed there, and which changes were
//! not applied.

use std::collections::BTreeMap;

use crate::path::RealPath;
use crate::text::count_noun;
use crate::world::access::gate::Gate;
use crate::world::exec::tool_result::{ActionOutcome, ToolError, display_path};
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::sandbox::proxy::ProxyVisits;

/// The effect of a command on the user's trees.
#[derive(Debug, Default)]
pub(super) struct CommandChanges {
    /// What happened to the user's files.
    pub(super) changes: Vec<FileChange>,
    /// Names that the command changed but whose changes were not applied, and why; for the model.
    pub(super) left_out: Vec<OmittedChange>,
    /// Further notes.
    pub(super) notes: Vec<String>,
}

/// A path in the user's tree whose state differs from what a command made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OmittedChange {
    /// The path, existing or not, in the user's tree.
    pub(super) path: RealPath,
    /// Why the change was not applied.
    pub(super) reason: String,
}

impl CommandChanges {
    /// Adds the changes of another tree.
    pub(super) fn add(&mut self, other: CommandChanges) {
        self.changes.extend(other.changes);
        self.left_out.extend(other.left_out);
        self.notes.extend(other.notes);
    }

    /// Adds a note that lists the hosts that a command requested and the proxy refused.
    pub(super) fn note_refused_hosts(&mut self, visits: &ProxyVisits) {
        let hosts: Vec<&str> = visits.refused.keys().map(String::as_str).collect();
        if !hosts.is_empty() {
            let hosts = hosts.join(", ");
            self.notes
                .push(format!("hosts that are not allowed: {hosts}"));
        }
    }

    /// Returns the notes for the model, each with at most `names_max` names per reason.
    pub(super) fn notes(&self, gate: &Gate, names_max: usize) -> Vec<String> {
        let mut notes: Vec<String> = self.delivery_summary().into_iter().collect();
        notes.extend(self.warnings(gate, names_max));
        notes
    }

    /// Returns how many of the user's files were created, changed or deleted; `None` if none were.
    pub(super) fn delivery_summary(&self) -> Option<String> {
        let done_changes = self.changes.iter().filter(|change| {
            let FileChange { kind, .. } = change;
            matches!(
                kind,
                ChangeKind::Created | ChangeKind::Changed | ChangeKind::Deleted
            )
        });
        match done_changes.count() {
            0 => None,
            count => Some(format!(
                "{} to files delivered",
                count_noun(count, "change")
            )),
        }
    }

    /// Returns the notes other than the summary, each with at most `names_max` names per reason.
    pub(super) fn warnings(&self, gate: &Gate, names_max: usize) -> Vec<String> {
        let mut notes = self.notes.clone();
        for change in &self.changes {
            if let ChangeKind::Unlisted { reason } = &change.kind {
                let path = display_path(gate, &change.path);
                notes.push(format!("more may have changed in {path}: {reason}"));
            }
        }
        let mut paths_by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for change in &self.left_out {
            let path = display_path(gate, &change.path);
            paths_by_reason
                .entry(&change.reason)
                .or_default()
                .push(path);
        }
        for (reason, paths) in paths_by_reason {
            let named_paths = paths.iter().take(names_max).cloned().collect::<Vec<_>>();
            let remainder = match paths.len().saturating_sub(named_paths.len()) {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            notes.push(format!(
                "not delivered: {}{remainder}: {reason}",
                named_paths.join(", ")
            ));
        }
        notes
    }

    /// Records what happened to a file.
    pub(super) fn record_change(&mut self, path: &RealPath, kind: ChangeKind) {
        let path = path.clone();
        self.changes.push(FileChange::new(path, kind));
    }

    /// Records for the model that a change to a path was not applied.
    pub(super) fn record_omission(&mut self, path: &RealPath, reason: impl Into<String>) {
        let (path, reason) = (path.clone(), reason.into());
        self.left_out.push(OmittedChange { path, reason });
    }

    /// Like [`CommandChanges::record_omission`], and adds a denial to the changes too.
    pub(super) fn record_denial(&mut self, path: &RealPath, reason: impl Into<String>) {
        let reason = reason.into();
        self.record_omission(path, reason.clone());
        self.record_change(path, ChangeKind::Denied { reason });
    }

    /// Records that `path` was left unchanged because of `tool_error`, and the changes made before
    /// the error.
    pub(super) fn record_error(&mut self, path: &RealPath, tool_error: ToolError) {
        let reason = tool_error.message;
        self.record_omission(path, reason.clone());
        if tool_error.changes.is_empty() {
            let kind = match tool_error.outcome {
                ActionOutcome::Denied => ChangeKind::Denied { reason },
                ActionOutcome::Done | ActionOutcome::Failed => ChangeKind::Failed { reason },
            };
            self.record_change(path, kind);
        }
        self.changes.extend(tool_error.changes);
    }
}
