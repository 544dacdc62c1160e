//! The rows of a delivery: the outcome of each of the user's files in the final phase, from the
//! changes and denials of all its steps.

use std::collections::BTreeMap;

use crate::agent::calls::ToolEffects;
use crate::event::{DeliveryOutcome, DeliveryRow};
use crate::path::AbsPath;
use crate::permissions::grant::{GrantKind, Permission};
use crate::permissions::protected::mark_of;
use crate::permissions::{DenyReason, PathPermissionManager, PermissionDecision};
use crate::world::access::verdict::DeniedSubject;
use crate::world::io::file_change::{ChangeKind, FileChange};

/// Returns the changes in the user's own paths. A workspace inside such a path is excluded: the
/// workspace's grant is the deeper one, and decides.
pub(super) fn user_path_changes<'a>(
    changes: &'a [FileChange],
    permissions: &PathPermissionManager,
) -> impl Iterator<Item = &'a FileChange> {
    let is_in_user_path =
        |change: &&FileChange| match permissions.decide(&change.path, Permission::Write) {
            PermissionDecision::Allow { grant }
            | PermissionDecision::Deny(DenyReason::Lowered { grant, .. }) => {
                grant.kind == GrantKind::Context
            }
            PermissionDecision::Deny(DenyReason::OutsideGrants) => false,
        };
    changes.iter().filter(is_in_user_path)
}

/// Returns one row per file: the result of the whole phase, not each step. A denied write in the
/// user's paths counts unless the same path was written in the end; other denials are only listed.
/// `base` is the directory that relative paths of the agent start from.
pub(super) fn delivery_rows(
    effects: &ToolEffects,
    permissions: &PathPermissionManager,
    base: &AbsPath,
) -> Vec<DeliveryRow> {
    let mut outcomes: BTreeMap<String, Option<DeliveryOutcome>> = BTreeMap::new();
    let mut all_details = BTreeMap::new();
    for change in user_path_changes(&effects.changes, permissions) {
        let path = change.path.to_string();
        all_details.insert(path.clone(), details_of(change));
        let earlier_outcome = outcomes.remove(&path).flatten();
        outcomes.insert(path, combine_outcomes(earlier_outcome, &change.kind));
    }
    for denial in &effects.denials {
        if let DeniedSubject::Access {
            path,
            requested: Permission::Write,
            ..
        } = &denial.subject
        {
            let path = AbsPath::resolve(base, path);
            if is_user_path(&path, permissions) {
                let denial_outcome = DeliveryOutcome::Denied {
                    reason: denial.reason.clone(),
                };
                outcomes
                    .entry(path.to_string())
                    .or_insert(Some(denial_outcome));
            }
        }
    }
    let mut row = |(path, outcome): (String, Option<DeliveryOutcome>)| {
        let details = all_details.remove(&path).flatten();
        Some(DeliveryRow {
            details,
            ..DeliveryRow::new(path, outcome?)
        })
    };
    outcomes.into_iter().filter_map(&mut row).collect()
}

/// Returns whether `path`, as it is written, is in a path that the user opened: the deepest grant
/// around it decides.
fn is_user_path(path: &AbsPath, permissions: &PathPermissionManager) -> bool {
    let grants = permissions.grants().iter();
    let ancestors = grants.filter(|grant| path.is_within(&grant.root.to_abs()));
    let deepest = ancestors.max_by_key(|grant| grant.root.depth());
    deepest.is_some_and(|grant| grant.kind == GrantKind::Context)
}

/// Returns the row of one change.
pub fn delivery_row(change: &FileChange) -> Option<DeliveryRow> {
    let outcome = combine_outcomes(None, &change.kind)?;
    Some(DeliveryRow {
        details: details_of(change),
        ..DeliveryRow::new(change.path.to_string(), outcome)
    })
}

/// Returns the details of a change. Of one that no delivery made, only its path says something.
fn details_of(change: &FileChange) -> Option<String> {
    let is_deleted = matches!(change.kind, ChangeKind::Deleted);
    let mark = || {
        let mark = (!is_deleted).then(|| mark_of(&change.path.to_abs()))?;
        mark.map(|mark| mark.to_string())
    };
    change.details.clone().or_else(mark)
}

/// Combines two changes of the same file; `None` if it is as it was.
fn combine_outcomes(
    before: Option<DeliveryOutcome>,
    after: &ChangeKind,
) -> Option<DeliveryOutcome> {
    use DeliveryOutcome::{Changed, Created, Deleted, Denied, Failed};
    let earlier_outcome =
        before.filter(|outcome| !matches!(outcome, Denied { .. } | Failed { .. }));
    match (earlier_outcome, after) {
        (Some(Created), ChangeKind::Deleted) => None,
        // Commands that overlap each report what changed since they began: the first to begin
        // may be the last to report, and knows that the file is new.
        (None | Some(Created | Changed { .. }), ChangeKind::Created)
        | (Some(Created), ChangeKind::Changed) => Some(Created),
        (_, ChangeKind::Created | ChangeKind::Changed) => Some(Changed { hunks: None }),
        (_, ChangeKind::PartlyChanged { hunks }) => Some(Changed {
            hunks: Some(*hunks),
        }),
        (_, ChangeKind::Deleted) => Some(Deleted),
        (_, ChangeKind::Mode { before, after }) => Some(DeliveryOutcome::Mode {
            before: before.map(|before| format!("{before:o}")),
            after: format!("{after:o}"),
        }),
        (_, ChangeKind::Conflict { kept: kept_file }) => Some(DeliveryOutcome::Conflict {
            kept: kept_file.to_string(),
        }),
        (_, ChangeKind::Declined) => Some(DeliveryOutcome::Declined),
        (_, ChangeKind::Denied { reason }) => Some(Denied {
            reason: reason.clone(),
        }),
        (_, ChangeKind::Failed { reason }) => Some(Failed {
            reason: reason.clone(),
        }),
        (_, ChangeKind::Reverted { reason }) => Some(DeliveryOutcome::Reverted {
            reason: reason.clone(),
        }),
        (before, ChangeKind::Unlisted { .. }) => before,
    }
}
