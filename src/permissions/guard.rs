//! Owns the folder guard: two lists of directories that replace an agent's other grants on the
//! user's files, and the named presets of such lists. It is no second engine; it lowers to grants.

use crate::path::AbsPath;
use crate::permissions::grant::Permission;

/// The directory below the root of a guard that it opens unless it is dropped.
pub const DOWNLOADS: &str = "Downloads";

/// Whether an agent is held to listed directories. `Off` and two empty lists are different things:
/// the second opens none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FolderGuard {
    /// The agent has its workspace and the context paths.
    #[default]
    Off,
    /// The agent has these directories and nothing else.
    On {
        /// Where relative paths begin; the agent's workspace without one.
        root: Option<AbsPath>,
        /// Directories that may be read.
        read: Vec<AbsPath>,
        /// Directories that may be read and written.
        write: Vec<AbsPath>,
        /// A preset whose directories lie in the agent's workspace. One below `root` is part of the
        /// lists.
        own: Option<GuardPreset>,
        /// Whether the built-in grant of `Downloads/` is there.
        downloads: DownloadsAccess,
    },
    /// The agent has a role in a pipeline: it reads its workspace and what the user opened, and writes
    /// only to these.
    Role {
        /// Directories that may be read beside the workspace, and parts of `write` that may only be read.
        read: Vec<AbsPath>,
        /// Directories of the workspace that may be read and written.
        write: Vec<AbsPath>,
    },
}

/// What a guard opens for an agent with a certain workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedDirectories {
    /// Where relative paths begin, if the guard or the workspace says so.
    pub root: Option<AbsPath>,
    /// Directories that may be read.
    pub read: Vec<AbsPath>,
    /// Directories that may be read and written.
    pub write: Vec<AbsPath>,
    /// `Downloads/` with what may be done there: under a guard that lets nothing be written, reading.
    pub downloads: Option<(AbsPath, Permission)>,
    /// What becomes of the context paths.
    pub context: ContextPathAccess,
}

/// What becomes of context paths under a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextPathAccess {
    /// They are closed.
    Closed,
    /// They may be read.
    ReadOnly,
}

impl FolderGuard {
    /// The directories of the user's that it lists; none without a guard.
    pub fn directories(&self) -> impl Iterator<Item = &AbsPath> {
        let (read, write): (&[AbsPath], &[AbsPath]) = match self {
            FolderGuard::Off | FolderGuard::Role { .. } => (&[], &[]),
            FolderGuard::On { read, write, .. } => (read, write),
        };
        read.iter().chain(write)
    }

    /// What it opens for an agent with this workspace; `None` without a guard.
    pub fn resolve(&self, workspace: Option<&AbsPath>) -> Option<GuardedDirectories> {
        let (root, read, write, own, downloads) = match self {
            FolderGuard::Off => return None,
            FolderGuard::Role { read, write } => {
                let own = workspace.cloned();
                return Some(GuardedDirectories {
                    read: own.iter().chain(read).cloned().collect(),
                    root: own,
                    write: write.clone(),
                    downloads: None,
                    context: ContextPathAccess::ReadOnly,
                });
            }
            FolderGuard::On {
                root,
                read,
                write,
                own,
                downloads,
            } => (root, read, write, own, downloads),
        };
        let root = root.as_ref().or(workspace).cloned();
        let (mut read, mut write) = (read.clone(), write.clone());
        if let (Some(preset), Some(workspace)) = (own, workspace) {
            read.extend(preset.read().iter().map(|name| workspace.join(name)));
            write.extend(preset.write().iter().map(|name| workspace.join(name)));
        }
        let permission = match (write.as_slice(), downloads) {
            (_, DownloadsAccess::Dropped) => None,
            ([], DownloadsAccess::Open) => Some(Permission::Read),
            (_, DownloadsAccess::Open) => Some(Permission::Write),
        };
        let place = root.as_ref().map(|root| root.join(DOWNLOADS));
        Some(GuardedDirectories {
            root,
            read,
            write,
            downloads: place.zip(permission),
            context: ContextPathAccess::Closed,
        })
    }
}

/// The lists of an agent's part in a workflow, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardPreset {
    /// Does the work: reads what was learned, writes what it does.
    Execution,
    /// Plans the work: reads what was learned, writes plans.
    Planning,
    /// Judges the work: reads what was done, writes reports.
    Validation,
    /// Looks on: reads what was learned and writes nothing.
    ReadOnly,
}

impl GuardPreset {
    /// What presets are called in a config.
    pub const NAMES: &'static [&'static str] =
        &["execution", "planning", "validation", "read_only"];

    /// The preset of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "execution" => Some(GuardPreset::Execution),
            "planning" => Some(GuardPreset::Planning),
            "validation" => Some(GuardPreset::Validation),
            "read_only" => Some(GuardPreset::ReadOnly),
            _ => None,
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            GuardPreset::Execution => "execution",
            GuardPreset::Planning => "planning",
            GuardPreset::Validation => "validation",
            GuardPreset::ReadOnly => "read_only",
        }
    }

    /// The directories below the root that may be read.
    pub fn read(self) -> &'static [&'static str] {
        match self {
            GuardPreset::Execution | GuardPreset::Planning | GuardPreset::ReadOnly => {
                &["learnings"]
            }
            GuardPreset::Validation => &["execution"],
        }
    }

    /// The directories below the root that may be read and written.
    pub fn write(self) -> &'static [&'static str] {
        match self {
            GuardPreset::Execution => &["execution"],
            GuardPreset::Planning => &["planning"],
            GuardPreset::Validation => &["validation"],
            GuardPreset::ReadOnly => &[],
        }
    }
}

/// Whether `Downloads/` is open under a guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DownloadsAccess {
    /// Open for reading, and for writing where anything is.
    #[default]
    Open,
    /// Dropped by the config.
    Dropped,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an agent with the workspace `/w` is given: its root, then each directory.
    #[track_caller]
    fn check(guard: &FolderGuard, expected: &str) {
        let opened = guard.resolve(AbsPath::new("/w").as_ref()).unwrap();
        let mut told = vec![opened.root.unwrap().to_string()];
        told.extend(opened.read.iter().map(|path| format!("read {path}")));
        told.extend(opened.write.iter().map(|path| format!("write {path}")));
        let downloads = opened.downloads.iter();
        told.extend(downloads.map(|(path, permission)| format!("{permission} {path}")));
        assert_eq!(told.join(", "), expected);
    }

    fn preset(name: &str) -> FolderGuard {
        FolderGuard::On {
            root: None,
            read: Vec::new(),
            write: Vec::new(),
            own: GuardPreset::from_name(name),
            downloads: DownloadsAccess::Open,
        }
    }

    #[test]
    fn a_preset_lists_the_directories_of_its_part() {
        check(
            &preset("execution"),
            "/w, read /w/learnings, write /w/execution, write /w/Downloads",
        );
        check(
            &preset("planning"),
            "/w, read /w/learnings, write /w/planning, write /w/Downloads",
        );
        check(
            &preset("validation"),
            "/w, read /w/execution, write /w/validation, write /w/Downloads",
        );
        check(
            &preset("read_only"),
            "/w, read /w/learnings, read /w/Downloads",
        );
        for name in GuardPreset::NAMES {
            assert_eq!(
                GuardPreset::from_name(name).map(GuardPreset::name),
                Some(*name)
            );
        }
    }

    #[test]
    fn lists_are_added_and_downloads_can_be_dropped() {
        let guard = FolderGuard::On {
            root: AbsPath::new("/p"),
            read: vec![AbsPath::new("/p/docs").unwrap()],
            write: Vec::new(),
            own: Some(GuardPreset::Execution),
            downloads: DownloadsAccess::Dropped,
        };
        check(
            &guard,
            "/p, read /p/docs, read /w/learnings, write /w/execution",
        );
        assert_eq!(FolderGuard::Off.resolve(None), None);
    }
}
