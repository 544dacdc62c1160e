//! Owns the count of what an answer would change: files on a stage beside those of the user, line by
//! line, read through the gates of both.

use std::io::Read;

use similar::ChangeTag;

use crate::delivery::merge::{MERGE_BYTES_MAX, text};
use crate::evidence::Changes;
use crate::path::RealPath;
use crate::world::exec::compare::compared;
use crate::world::exec::fingerprint::content;
use crate::world::gate::Gate;

/// How much the files at `paths` differ between `users` and `stage`. It blocks on the disk.
pub fn diffstat<'p>(
    users: &Gate,
    stage: &Gate,
    paths: impl IntoIterator<Item = &'p RealPath>,
) -> Changes {
    let mut changes = Changes::default();
    for path in paths {
        let (old, new) = (beginning(users, path), beginning(stage, path));
        if old == new {
            continue;
        }
        changes.files = changes.files.saturating_add(1);
        let [old, new] = [old, new].map(Option::unwrap_or_default);
        if let (Some(old), Some(new)) = (text(&old), text(&new)) {
            for change in compared(old, new).iter_all_changes() {
                let count = match change.tag() {
                    ChangeTag::Insert => &mut changes.added,
                    ChangeTag::Delete => &mut changes.removed,
                    ChangeTag::Equal => continue,
                };
                *count = count.saturating_add(1);
            }
        }
    }
    changes
}

/// What stands at `path`, up to one byte more than is counted; `None` if no file does.
fn beginning(gate: &Gate, path: &RealPath) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MERGE_BYTES_MAX).ok()?.saturating_add(1);
    let content = content(gate, path.as_path().to_str()?)?;
    content.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
