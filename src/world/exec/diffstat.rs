//! Owns the count of what an answer would change: files on a stage beside those of the user, line by
//! line, read through the gates of both.

use std::io::Read;

use similar::{ChangeTag, TextDiff};

use crate::delivery::merge::text;
use crate::evidence::Changes;
use crate::path::RealPath;
use crate::tools::call::{ToolCall, UserPath};
use crate::world::exec::compare::DIFF_TIME_MAX;
use crate::world::gate::{Action, Gate};

/// The largest file whose lines are counted, in bytes. Of a larger one it is said that it changes.
const COUNTED_BYTES_MAX: u64 = 512 * 1024;

/// How much the files at `paths` differ between `users` and `stage`. It blocks on the disk.
pub fn diffstat<'p>(
    users: &Gate,
    stage: &Gate,
    paths: impl IntoIterator<Item = &'p RealPath>,
) -> Changes {
    let mut changes = Changes::default();
    for path in paths {
        let (old, new) = (content(users, path), content(stage, path));
        if old == new {
            continue;
        }
        changes.files = changes.files.saturating_add(1);
        let [old, new] = [old, new].map(Option::unwrap_or_default);
        if let (Some(old), Some(new)) = (text(&old), text(&new)) {
            let compared = TextDiff::configure()
                .timeout(DIFF_TIME_MAX)
                .diff_lines(old, new);
            for change in compared.iter_all_changes() {
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
fn content(gate: &Gate, path: &RealPath) -> Option<Vec<u8>> {
    let call = ToolCall::GetFileInfo {
        path: UserPath::parse(path.as_path().to_str()?).ok()?,
    };
    let (action, _) = gate.check(call).ok()?.into_action();
    let Action::GetFileInfo { path: place } = action else {
        return None;
    };
    let (content, _) = place.dir().open_file(&place.below()).ok()?;
    let mut bytes = Vec::new();
    let most = COUNTED_BYTES_MAX.saturating_add(1);
    content.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
