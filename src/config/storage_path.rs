//! Owns where a directory of massgen's lies: below `.massgen/`, or where the user says. A place is
//! made only by [`StoragePath::parse`], so that no text can lead out of the state directory again.

use std::fmt;
use std::path::Path;

use crate::path::{AbsPath, RelPath};

/// The directory that holds all state of massgen's, below the directory that it is started in.
pub const STATE_DIR: &str = ".massgen";
/// Where relative workspaces lie below the state directory.
const WORKSPACES: &str = "workspaces";
/// Where the log of each run lies below the state directory.
pub const LOGS: &str = "massgen_logs";
/// The directories of agents' commands, below the state directory.
pub const SANDBOXES: &str = "sandboxes";
/// What was and could be delivered of each run, below the state directory.
pub const DELIVERIES: &str = "deliveries";
/// Pipelines of roles, below the state directory.
pub const PIPELINES: &str = "pipelines";
/// Where the latest snapshot of each agent is found unless the config names another place.
pub const SNAPSHOTS: &str = "snapshots";
/// Where agents see each other's snapshots unless the config names another place.
pub const TEMP_WORKSPACES: &str = "temp_workspaces";
/// Where sessions are kept unless the config names another place.
pub const SESSIONS: &str = "sessions";

/// A directory of massgen's or of the user's, as the config names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoragePath {
    /// A relative path: it moves below the state directory.
    Relocated(RelPath),
    /// A relative path that begins with `.massgen/`: the rest of it, below the state directory.
    InState(RelPath),
    /// A path of the user's own.
    Absolute(AbsPath),
}

impl StoragePath {
    /// Reads a directory's name; `None` if it is empty or a relative one climbs with `..`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(absolute) = AbsPath::new(text) {
            return Some(StoragePath::Absolute(absolute));
        }
        let rel = RelPath::new(text)?;
        let place = match rel.as_path().strip_prefix(STATE_DIR) {
            Ok(below) => StoragePath::InState(RelPath::new(below)?),
            Err(_) => StoragePath::Relocated(rel),
        };
        (!place.is_empty()).then_some(place)
    }

    /// A place of massgen's own choice; `name` is a plain name.
    pub fn relocated(name: &str) -> Self {
        StoragePath::Relocated(RelPath::new(name).unwrap_or_default())
    }

    /// The path that the user chose in full; `None` below the state directory.
    pub fn absolute(&self) -> Option<&AbsPath> {
        match self {
            StoragePath::Absolute(path) => Some(path),
            StoragePath::Relocated(_) | StoragePath::InState(_) => None,
        }
    }

    /// Where it is for somebody who stands in `base`; relocated ones lie in `section` of the state
    /// directory, or directly in it.
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

    /// Where an agent's workspace is in one run: massgen's own ones end with the name of the run, so
    /// that two runs in one directory never share a workspace.
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
        let found = StoragePath::parse(text)
            .map(|place| place.resolve(&base, Some(WORKSPACES)).to_string());
        assert_eq!(found.as_deref(), expected, "{text}");
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
