//! Changes of files as the page reads them. The hunks are those by which a delivery is applied in
//! part; the digest of each lets the server notice that the page shows another one.

use std::iter::once;
use std::ops::Range;

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

/// Maximum number of unchanged lines on each side of a hunk that the page can show in addition.
const CONTEXT_LINES_MAX: usize = 100;
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
    let unchanged = unchanged_lines(difference, &hunks);
    let length: usize = hunks.iter().map(hunk_length).sum();
    let is_too_long = length > TEXT_BYTES_MAX;
    let counts = hunks.iter().map(DiffHunk::counts);
    let (added, removed) = counts.fold((0_usize, 0_usize), |(added, removed), (more, less)| {
        (added.saturating_add(more), removed.saturating_add(less))
    });
    let hunk_list: Vec<Value> = if is_too_long {
        Vec::new()
    } else {
        let hunks = hunks.iter().zip(unchanged).enumerate();
        hunks
            .map(|(index, (hunk, unchanged))| hunk_json(index, hunk, &unchanged))
            .collect()
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

/// Returns the lines above and below each hunk that no hunk has, up to [`CONTEXT_LINES_MAX`]. Those
/// between two hunks are above the second one, or shared if they are more. There are none if they are
/// too long.
fn unchanged_lines<'d>(
    difference: &'d DeliveryDifference,
    hunks: &[DiffHunk],
) -> Vec<[Vec<&'d str>; 2]> {
    let text = side_text(&difference.before).unwrap_or_default();
    let lines: Vec<&str> = text.split_terminator('\n').collect();
    let pairs = hunks.iter().zip(hunks.iter().skip(1));
    let cuts_between = pairs.map(|(hunk, next)| {
        let (end, next_start) = (hunk.old.end, next.old.start);
        if next_start.saturating_sub(end) > CONTEXT_LINES_MAX {
            end.midpoint(next_start)
        } else {
            end
        }
    });
    let cuts: Vec<usize> = once(0)
        .chain(cuts_between)
        .chain(once(lines.len()))
        .collect();
    let lines_in = |range: Range<usize>| lines.get(range).unwrap_or_default().to_vec();
    let shares = cuts.iter().zip(cuts.iter().skip(1));
    let around_hunk = |(hunk, (from, to)): (&DiffHunk, (&usize, &usize))| {
        let Range { start, end } = hunk.old;
        let first = start.saturating_sub(CONTEXT_LINES_MAX).max(*from);
        let last = end.saturating_add(CONTEXT_LINES_MAX).min(*to);
        [lines_in(first..start), lines_in(end..last)]
    };
    let around: Vec<_> = hunks.iter().zip(shares).map(around_hunk).collect();
    let length: usize = around
        .iter()
        .flatten()
        .flatten()
        .map(|line| line.len())
        .sum();
    if length > TEXT_BYTES_MAX {
        return vec![Default::default(); hunks.len()];
    }
    around
}

fn hunk_json(index: usize, hunk: &DiffHunk, [above, below]: &[Vec<&str>; 2]) -> Value {
    let line = |(side, text): &(LineSide, String)| json!({"kind": side_word(*side), "text": text});
    json!({
        "index": index,
        "digest": hunk_digest(hunk),
        "header": hunk.header(),
        "old_start": hunk.old.start.saturating_add(1),
        "new_start": hunk.new.start.saturating_add(1),
        "lines": hunk.lines.iter().map(line).collect::<Vec<_>>(),
        "above": above,
        "below": below,
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
