//! The paths that the prompts of a session open together: each turn adds the paths that it
//! mentions, a later `:w` raises the permission, and nothing lowers it. Nothing is opened here;
//! this is what a user asked for.

use serde::{Deserialize, Serialize};

use crate::mentions::ParsedPrompt;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;

/// A path that the user asked to open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedPath {
    /// The path of a directory or of a single file.
    pub path: AbsPath,
    /// The permission that was asked for.
    pub permission: Permission,
    /// The turn that gave this permission, from 1.
    pub turn: u32,
    /// Whether the user confirmed that it is opened although a context path closes it.
    pub is_confirmed: bool,
}

/// Adds the path that the user asks for in `turn` to those that were `opened` before.
pub fn open_path(opened: &mut Vec<OpenedPath>, path: &AbsPath, permission: Permission, turn: u32) {
    match opened
        .iter_mut()
        .find(|opened_path| opened_path.path == *path)
    {
        Some(opened_path) if opened_path.permission < permission => {
            opened_path.permission = permission;
            opened_path.turn = turn;
            opened_path.is_confirmed = false;
        }
        Some(_) => {}
        None => opened.push(OpenedPath {
            path: path.clone(),
            permission,
            turn,
            is_confirmed: false,
        }),
    }
}

/// Records that the user confirmed to open `target` instead of `path`, which a prompt mentioned and
/// which leads there.
pub fn confirm_path(opened: &mut Vec<OpenedPath>, path: &AbsPath, target: &AbsPath) {
    let Some(index) = opened.iter().position(|opened| opened.path == *path) else {
        return;
    };
    let confirmed = opened.remove(index);
    // Its permission was asked about, and includes that of a narrower mention of the same target.
    opened.retain(|other| other.path != *target || other.permission > confirmed.permission);
    opened.push(OpenedPath {
        path: target.clone(),
        is_confirmed: true,
        ..confirmed
    });
}

/// Adds the paths that `prompt` mentions and that exist.
pub fn open_mentions(opened: &mut Vec<OpenedPath>, prompt: &ParsedPrompt, turn: u32) {
    for mention in &prompt.mentions {
        open_path(opened, &mention.path, mention.permission, turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `words` are turns and what they ask for: `1r:/a` reads `/a`, `2w:/a` also writes it.
    #[track_caller]
    fn check(words: &str, expected: &str) {
        let mut opened = Vec::new();
        for word in words.split_whitespace() {
            let (prefix, path) = word.split_once(':').unwrap();
            let permission = if prefix.ends_with('w') {
                Permission::Write
            } else {
                Permission::Read
            };
            let turn = prefix.trim_end_matches(['r', 'w']).parse().unwrap();
            open_path(&mut opened, &AbsPath::new(path).unwrap(), permission, turn);
        }
        let lines = opened.iter().map(|opened| {
            let letter = match opened.permission {
                Permission::Read => "r",
                Permission::Write => "w",
            };
            format!("{}{letter}:{}", opened.turn, opened.path)
        });
        assert_eq!(lines.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn paths_accumulate_and_are_only_raised() {
        check("1r:/a 2w:/b 4w:/c", "1r:/a 2w:/b 4w:/c");
        check("1r:/a 2w:/a", "2w:/a");
        check("1w:/a 2r:/a 3w:/a", "1w:/a");
        check("1r:/a 2r:/a", "1r:/a");
        check("1r:/a 2w:/a/b", "1r:/a 2w:/a/b");
    }
}
