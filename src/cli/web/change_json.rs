//! Changes of files as the page reads them. The hunks are those by which a delivery is applied in
//! part; the digest of each lets the server notice that the page shows another one.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cli::deliveries::display_path;
use crate::cli::web::reply::TEXT_BYTES_MAX;
use crate::delivery::hunks::{DiffHunk, LineSide, hunks};
use crate::delivery::line_diff::LineDiff;
use crate::delivery::plan::{DeliveryConflict, DeliveryPlan, DeliveryRefusal, RefusalSource};
use crate::path::AbsPath;
use crate::text::to_hex;
use crate::world::delivery::contents::{DeliveryDifference, DiffSide};

/// Length of the digest of a hunk, in bytes.
const DIGEST_BYTES: usize = 16;

/// Returns the hunks of a change; there are none if one of its sides is not text.
pub(super) fn hunks_of(difference: &DeliveryDifference) -> Vec<DiffHunk> {
    match (side_text(&difference.before), side_text(&difference.after)) {
        (Some(old_text), Some(new_text)) => hunks(&LineDiff::new(old_text, new_text)),
        _ => Vec::new(),
    }
}

/// Returns a short digest of a hunk.
pub(super) fn hunk_digest(hunk: &DiffHunk) -> String {
    let mut hasher = Sha256::new();
    hasher.update(hunk.header());
    for (side, line) in &hunk.lines {
        hasher.update([b'\n']);
        hasher.update(side_word(*side));
        hasher.update([b' ']);
        hasher.update(line);
    }
    let digest = hasher.finalize();
    to_hex(digest.get(..DIGEST_BYTES).unwrap_or(&digest))
}

/// Returns a change for a person whose current directory is `cwd`; with a `conflict`, it cannot be
/// applied.
pub(super) fn change_json(
    difference: &DeliveryDifference,
    conflict: Option<DeliveryConflict>,
    cwd: &AbsPath,
) -> Value {
    let hunks = hunks_of(difference);
    let length: usize = hunks.iter().map(hunk_length).sum();
    let is_too_long = length > TEXT_BYTES_MAX;
    let counts = hunks.iter().map(DiffHunk::counts);
    let (added, removed) = counts.fold((0_usize, 0_usize), |(added, removed), (more, less)| {
        (added.saturating_add(more), removed.saturating_add(less))
    });
    let hunk_list: Vec<Value> = if is_too_long {
        Vec::new()
    } else {
        let hunks = hunks.iter().enumerate();
        hunks.map(|(index, hunk)| hunk_json(index, hunk)).collect()
    };
    let modes = difference.modes.map(
        |(before, after)| json!({"before": format!("{before:o}"), "after": format!("{after:o}")}),
    );
    json!({
        "path": display_path(&difference.path, cwd),
        "change": difference.action().outcome().word(),
        "before": side_json(&difference.before),
        "after": side_json(&difference.after),
        "details": difference.details,
        "mode": modes,
        "binary": binary_json(difference),
        "conflict": conflict.map(DeliveryConflict::reason),
        "added": added,
        "removed": removed,
        "too_long": is_too_long,
        "hunks": hunk_list,
    })
}

/// Returns a row for each name that `plan` refuses.
pub(super) fn refusals_json(plan: &DeliveryPlan, cwd: &AbsPath) -> Vec<Value> {
    let row = |refusal: &DeliveryRefusal| {
        let path = display_path(&refusal.path.to_abs(), cwd);
        json!({
            "path": path,
            "change": "refused",
            "protected": refusal.by == RefusalSource::Rule,
            "refused": refusal.reason,
            "hunks": [],
        })
    };
    plan.refused.iter().map(row).collect()
}

fn hunk_json(index: usize, hunk: &DiffHunk) -> Value {
    let line = |(side, text): &(LineSide, String)| json!({"kind": side_word(*side), "text": text});
    json!({
        "index": index,
        "digest": hunk_digest(hunk),
        "header": hunk.header(),
        "old_start": hunk.old.start.saturating_add(1),
        "new_start": hunk.new.start.saturating_add(1),
        "lines": hunk.lines.iter().map(line).collect::<Vec<_>>(),
    })
}

fn hunk_length(hunk: &DiffHunk) -> usize {
    hunk.lines.iter().map(|(_, text)| text.len()).sum()
}

fn side_word(side: LineSide) -> &'static str {
    match side {
        LineSide::Both => "context",
        LineSide::Old => "removed",
        LineSide::New => "added",
    }
}

/// Returns the sizes and digests of a change one side of which is not text.
fn binary_json(difference: &DeliveryDifference) -> Option<Value> {
    let is_binary = |side: &DiffSide| matches!(side, DiffSide::Binary { .. });
    let (before, after) = (&difference.before, &difference.after);
    (is_binary(before) || is_binary(after))
        .then(|| json!({"before": side_json(before), "after": side_json(after)}))
}

/// Returns what one side is, without the content of a text.
fn side_json(side: &DiffSide) -> Value {
    match side {
        DiffSide::Nothing => json!({"type": "nothing"}),
        DiffSide::Text(_) => json!({"type": "text"}),
        DiffSide::Binary { size_bytes, sha256 } => {
            json!({"type": "binary", "size": size_bytes, "sha256": sha256})
        }
        DiffSide::Link(target) => json!({"type": "link", "target": target}),
        DiffSide::Directory => json!({"type": "directory"}),
        DiffSide::Lost => json!({"type": "lost"}),
    }
}

/// Returns the text of a side; a missing file is empty.
fn side_text(side: &DiffSide) -> Option<&str> {
    match side {
        DiffSide::Nothing => Some(""),
        DiffSide::Text(text) => Some(text),
        DiffSide::Link(target) => Some(target),
        DiffSide::Binary { .. } | DiffSide::Directory | DiffSide::Lost => None,
    }
}
