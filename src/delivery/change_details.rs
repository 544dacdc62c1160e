//! Describes what a change does in addition to the content of a file: the kind of the path, the
//! target of a symlink, permission bits, and what reads or runs the file later.

use crate::delivery::path_state::PathState;
use crate::path::AbsPath;
use crate::permissions::protected::mark_of;
use crate::text::escape_name;

/// The bits of a mode that let a file be executed.
const EXECUTE_BITS: u32 = 0o111;

/// Returns the description of a change of `path` from `theirs` to `ours`, with all names in it
/// escaped; `None` if there is nothing to say but that its content changes.
pub fn change_details(path: &AbsPath, theirs: &PathState, ours: &PathState) -> Option<String> {
    let mark = (!ours.is_absent()).then(|| mark_of(path)).flatten();
    let mark = mark.map(|mark| mark.to_string());
    let details: Vec<String> = [kind_details(theirs, ours), mark]
        .into_iter()
        .flatten()
        .collect();
    (!details.is_empty()).then(|| details.join("; "))
}

/// Describes a change of the kind, the target or the permission bits.
fn kind_details(theirs: &PathState, ours: &PathState) -> Option<String> {
    match (theirs, ours) {
        (PathState::File(before), PathState::File(after)) => mode_details(before.mode, after.mode),
        (PathState::Directory { mode: before }, PathState::Directory { mode: after }) => {
            mode_details(*before, *after)
        }
        (PathState::Nothing, PathState::File(file)) => {
            let is_executable = file.mode & EXECUTE_BITS != 0;
            is_executable.then(|| format!("executable, mode {:o}", file.mode))
        }
        (PathState::File(_) | PathState::Directory { .. }, PathState::Nothing)
        | (PathState::Nothing, PathState::Directory { .. } | PathState::Nothing) => None,
        (PathState::Nothing, link) | (link, PathState::Nothing) => Some(kind(link)),
        (before, after) if before == after => None,
        (before, after) => Some(format!("{} becomes {}", kind(before), kind(after))),
    }
}

fn mode_details(before: u32, after: u32) -> Option<String> {
    (before != after).then(|| format!("mode {before:o} becomes {after:o}"))
}

fn kind(state: &PathState) -> String {
    match state {
        PathState::Nothing => "nothing".to_owned(),
        PathState::File(file) if file.mode & EXECUTE_BITS != 0 => "executable file".to_owned(),
        PathState::File(_) => "file".to_owned(),
        PathState::Directory { .. } => "directory".to_owned(),
        PathState::Link { target } => {
            format!("symlink to `{}`", escape_name(&target.to_string_lossy()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::path_state::RegularFileState;

    fn file(mode: u32) -> PathState {
        PathState::File(RegularFileState {
            inode: None,
            size_bytes: 1,
            modified_ns: 1,
            mode,
        })
    }

    fn link(target: &str) -> PathState {
        PathState::Link {
            target: target.into(),
        }
    }

    #[track_caller]
    fn check(path: &str, theirs: &PathState, ours: &PathState, expected: Option<&str>) {
        let path = AbsPath::new(path).unwrap();
        let details = change_details(&path, theirs, ours);
        assert_eq!(details.as_deref(), expected, "{path}");
    }

    #[test]
    fn a_change_names_kind_target_mode_and_mark() {
        let (plain, nothing) = (file(0o644), PathState::Nothing);
        let directory = PathState::Directory { mode: 0o755 };
        check("/p/a", &plain, &plain, None);
        check("/p/a", &nothing, &plain, None);
        check("/p/a", &plain, &nothing, None);
        check("/p/a", &nothing, &file(0o755), Some("executable, mode 755"));
        check("/p/a", &plain, &file(0o755), Some("mode 644 becomes 755"));
        check("/p/a", &nothing, &link("b"), Some("symlink to `b`"));
        check("/p/a", &link("b"), &nothing, Some("symlink to `b`"));
        check(
            "/p/a",
            &directory,
            &link("/b\n"),
            Some("directory becomes symlink to `/b\\n`"),
        );
        check(
            "/p/a",
            &link("b"),
            &link("c"),
            Some("symlink to `b` becomes symlink to `c`"),
        );
        check(
            "/p/a",
            &link("b"),
            &file(0o755),
            Some("symlink to `b` becomes executable file"),
        );
        check("/p/a", &plain, &directory, Some("file becomes directory"));
        let world = PathState::Directory { mode: 0o777 };
        check("/p/a", &directory, &world, Some("mode 755 becomes 777"));
        check(
            "/p/AGENTS.md",
            &plain,
            &plain,
            Some("instructs later agents"),
        );
        check("/p/AGENTS.md", &plain, &nothing, None);
        check(
            "/p/.github/workflows/ci.yml",
            &plain,
            &link("x"),
            Some("file becomes symlink to `x`; runs later"),
        );
    }
}
