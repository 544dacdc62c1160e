//! Writes changes as patches in the format of git.

use crate::delivery::hunks::hunks;
use crate::delivery::line_diff::LineDiff;
use crate::delivery::patch_name::quote_patch_name;
use crate::path::RelPath;
use crate::world::delivery::contents::{DeliveryDifference, DiffSide};

/// Adds a change to a patch, in the format of git. Files that are not text are only named, in a
/// line that git skips: they are in the layer. Git has no directories.
pub fn write_patch(difference: &DeliveryDifference, path: &RelPath, out: &mut String) {
    let is_directory = |side: &DiffSide| *side == DiffSide::Directory;
    if is_directory(&difference.before) || is_directory(&difference.after) {
        return;
    }
    let is_link_or_nothing =
        |side: &DiffSide| matches!(side, DiffSide::Nothing | DiffSide::Link(_));
    let is_link_alone =
        is_link_or_nothing(&difference.before) && is_link_or_nothing(&difference.after);
    let text = |side: &DiffSide| match side {
        DiffSide::Nothing => Some(String::new()),
        DiffSide::Text(text) => Some(text.clone()),
        // Git applies no change between a file and a symlink in one step.
        DiffSide::Link(target) if is_link_alone => Some(target.clone()),
        DiffSide::Binary { .. } | DiffSide::Link(_) | DiffSide::Directory | DiffSide::Lost => None,
    };
    let mut add = |line: String| out.push_str(&(line + "\n"));
    let (Some(old_text), Some(new_text)) = (text(&difference.before), text(&difference.after))
    else {
        let name = quote_patch_name("", path);
        add(format!("# not text: {name}"));
        return;
    };
    let (old_name, new_name) = (quote_patch_name("a/", path), quote_patch_name("b/", path));
    add(format!("diff --git {old_name} {new_name}"));
    let mode = match difference.modes {
        _ if is_link_alone => "120000".to_owned(),
        None => "100644".to_owned(),
        Some((_, after)) => format!("100{:o}", after & 0o777),
    };
    match (&difference.before, &difference.after, difference.modes) {
        (DiffSide::Nothing, _, _) => add(format!("new file mode {mode}")),
        (_, DiffSide::Nothing, _) => add(format!("deleted file mode {mode}")),
        (_, _, Some((before, after))) if before != after => {
            add(format!("old mode 100{:o}", before & 0o777));
            add(format!("new mode 100{:o}", after & 0o777));
        }
        _ => {}
    }
    if old_text == new_text {
        return;
    }
    let header_name = |side: &DiffSide, name: &str| {
        if *side == DiffSide::Nothing {
            "/dev/null".to_owned()
        } else {
            // As in git, a tab ends a name with spaces.
            let end = if name.contains(' ') { "\t" } else { "" };
            format!("{name}{end}")
        }
    };
    add(format!(
        "--- {}",
        header_name(&difference.before, &old_name)
    ));
    add(format!("+++ {}", header_name(&difference.after, &new_name)));
    for hunk in hunks(&LineDiff::new(&old_text, &new_text)) {
        add(hunk.header());
        for (side, text) in &hunk.lines {
            add(format!("{}{text}", side.sign()));
        }
    }
}
