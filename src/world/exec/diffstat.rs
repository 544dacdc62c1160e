//! Counts the lines that an answer would change: compares files on an overlay with the user's, read
//! through the gates of both.

use std::io::Read;

use crate::check_results::ChangeCounts;
use crate::delivery::line_diff::LineDiff;
use crate::delivery::merge::{MERGE_BYTES_MAX, as_text};
use crate::path::RealPath;
use crate::world::access::gate::Gate;
use crate::world::exec::fingerprint::open_content;

/// Counts how the files at `paths` differ between the gates `user_gate` and
/// `overlay_gate`. Blocks on disk I/O.
pub fn diffstat<'p>(
    user_gate: &Gate,
    overlay_gate: &Gate,
    paths: impl IntoIterator<Item = &'p RealPath>,
) -> ChangeCounts {
    let mut changes = ChangeCounts::default();
    for path in paths {
        let (old, new) = (
            read_beginning(user_gate, path),
            read_beginning(overlay_gate, path),
        );
        if old == new {
            continue;
        }
        let [old, new] = [old, new].map(Option::unwrap_or_default);
        let texts = as_text(&old).zip(as_text(&new));
        let lines = texts.map(|(old, new)| LineDiff::new(old, new).counts());
        changes.add_file(lines.unwrap_or_default());
    }
    changes
}

/// Returns the file at `path`, up to one byte more than is counted; `None` if there is no file.
fn read_beginning(gate: &Gate, path: &RealPath) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let bytes_max = u64::try_from(MERGE_BYTES_MAX).ok()?.saturating_add(1);
    let content = open_content(gate, path.as_path().to_str()?)?;
    content.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
