//! Where massgen's directories are: below `.massgen/`, or where the user chose. A path is created
//! only by [`StoragePath::parse`], so that no string can lead out of the state directory.

use std::fmt;
use std::path::Path;

use crate::path::{AbsPath, RelPath};

/// The directory of all of massgen's state, below the directory in which massgen is started.
pub const STATE_DIR: &str = ".massgen";
/// The directory of relative workspaces, below the state directory.
const WORKSPACES: &str = "workspaces";
/// The directory of runs' logs, below the state directory.
pub const LOGS: &str = "massgen_logs";
/// The directory of agents' commands, below the state directory.
pub const SANDBOXES: &str = "sandboxes";
/// The directory of each run's applied and pending delivery, below the state directory.
pub const DELIVERIES: &str = "deliveries";
/// The directory of pipelines, below the state directory.
pub const PIPELINES: &str = "pipelines";
/// The directory of batches of tasks, below the state directory.
pub const BATCHES: &str = "batches";
/// The directory of the latest snapshot of each agent, below the state directory.
pub const SNAPSHOTS: &str = "snapshots";
/// The directory in which agents see each other's snapshots, below the state directory.
pub const TEMP_WORKSPACES: &str = "temp_workspaces";
/// The default directory of sessions.
pub const SESSIONS: &str = "sessions";

/// A directory of massgen's or the user's, as the config names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoragePath {
    /// A relative path, which is moved below the state directory.
    Relocated(RelPath),
    /// A relative path that starts with `.massgen/`: the rest of it, below the state directory.
    InState(RelPath),
    /// An absolute path chosen by the user.
    Absolute(AbsPath),
}

impl StoragePath {
    /// Parses a directory's path; `None` if it is empty, or relative with `..`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(absolute_path) = AbsPath::new(text) {
            return Some(StoragePath::Absolute(absolute_path));
        }
        let rel = RelPath::new(text)?;
        let path = match rel.as_path().strip_prefix(STATE_DIR) {
            Ok(below) => StoragePath::InState(RelPath::new(below)?),
            Err(_) => StoragePath::Relocated(rel),
        };
        (!path.is_empty()).then_some(path)
    }

    /// Creates a path of massgen's choice; `name` is a plain name.
    pub fn relocated(name: &str) -> Self {
        StoragePath::Relocated(RelPath::new(name).unwrap_or_default())
    }

    /// Returns the absolute path that the user chose; `None` below the state directory.
    pub fn absolute(&self) -> Option<&AbsPath> {
        match self {
            StoragePath::Absolute(path) => Some(path),
            StoragePath::Relocated(_) | StoragePath::InState(_) => None,
        }
    }

    /// Returns the path with a number at the end of its name; `None` for one that the user chose.
    pub fn with_suffix(&self, number: u32) -> Option<Self> {
        match self {
            StoragePath::Absolute(_) => None,
            StoragePath::Relocated(_) | StoragePath::InState(_) => {
                Self::parse(&format!("{self}_{number}"))
            }
        }
    }

    /// Resolves the path for the current directory `base`; a relocated one is in `section` of the
    /// state directory, or directly in it.
    pub fn resolve(&self, base: &AbsPath, section: Option<&str>) -> AbsPath {
        let state = base.join(STATE_DIR);
        match self {
            StoragePath::Relocated(rel) => {
                let section = section.map_or_else(|| state.clone(), |name| state.join(name));
                section.join(rel.as_path())
            }
            StoragePath::InState(rel) => state.join(rel.as_path()),
            StoragePath::Absolute(path) => path.clone(),
        }
    }

    /// Resolves an agent's workspace in one run. massgen's own workspaces end with the name of the
    /// run, so that two runs in one directory never share one.
    pub fn resolve_workspace(&self, base: &AbsPath, run: &str) -> AbsPath {
        let path = self.resolve(base, Some(WORKSPACES));
        let name = path.as_path().file_name().unwrap_or_default();
        match self {
            StoragePath::Absolute(_) => path,
            StoragePath::Relocated(_) | StoragePath::InState(_) => {
                let mut name = name.to_owned();
                name.push("_");
                name.push(run);
                path.join("..").join(name)
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            StoragePath::Relocated(rel) | StoragePath::InState(rel) => rel.is_root(),
            StoragePath::Absolute(_) => false,
        }
    }
}

impl fmt::Display for StoragePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoragePath::Relocated(rel) => rel.fmt(f),
            StoragePath::InState(rel) => Path::new(STATE_DIR).join(rel.as_path()).display().fmt(f),
            StoragePath::Absolute(path) => path.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let base = AbsPath::new("/p").unwrap();
        let actual = StoragePath::parse(text)
            .map(|storage| storage.resolve(&base, Some(WORKSPACES)).to_string());
        assert_eq!(actual.as_deref(), expected, "{text}");
    }

    #[test]
    fn relative_places_move_below_the_state_directory() {
        check("w1", Some("/p/.massgen/workspaces/w1"));
        check("./a/b/", Some("/p/.massgen/workspaces/a/b"));
        check(".massgen/workspaces/w1", Some("/p/.massgen/workspaces/w1"));
        check("./.massgen/x", Some("/p/.massgen/x"));
        check(".massgenx/y", Some("/p/.massgen/workspaces/.massgenx/y"));
    }

    #[test]
    fn absolute_places_stay() {
        check("/srv/w", Some("/srv/w"));
        check("/srv/../etc/w", Some("/etc/w"));
    }

    #[test]
    fn places_that_name_nothing_or_climb_are_refused() {
        for text in [
            "",
            ".",
            "..",
            "../x",
            "a/../../x",
            ".massgen",
            ".massgen/.",
            ".massgen/../x",
        ] {
            check(text, None);
        }
    }
}
