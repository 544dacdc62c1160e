//! The folder guard: lists of directories that an agent is restricted to, from the config or from
//! its role in a pipeline, and named presets of such lists. It decides about no access: the lists
//! become grants, and those decide.

use crate::path::AbsPath;
use crate::permissions::grant::Permission;

/// The directory below the root of a guard that is open unless the config drops it.
pub const DOWNLOADS: &str = "Downloads";

/// Whether an agent is restricted to listed directories. `Off` differs from two empty lists, which
/// open no directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FolderGuard {
    /// The agent has its workspace and the context paths.
    #[default]
    Off,
    /// The agent has only these directories.
    On {
        /// The base of relative paths; `None` is the agent's workspace.
        root: Option<AbsPath>,
        /// Readable directories.
        read: Vec<AbsPath>,
        /// Readable and writable directories.
        write: Vec<AbsPath>,
        /// A preset whose directories are in the agent's workspace. One below `root` is already
        /// part of the lists.
        workspace_preset: Option<GuardPreset>,
        /// Whether the built-in grant of `Downloads/` exists.
        downloads: DownloadsAccess,
    },
    /// The agent has a role in a pipeline: it reads its workspace and what the user opened, and
    /// writes only to these directories.
    Role {
        /// Directories that are readable in addition to the workspace, and parts of `write` that
        /// are read-only.
        read: Vec<AbsPath>,
        /// Writable directories of the workspace.
        write: Vec<AbsPath>,
    },
}

/// What a guard opens for an agent with a particular workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedDirectories {
    /// The base of relative paths, if the guard or the workspace gives one.
    pub root: Option<AbsPath>,
    /// Readable directories.
    pub read: Vec<AbsPath>,
    /// Readable and writable directories.
    pub write: Vec<AbsPath>,
    /// `Downloads/` and its permission: read-only under a guard without writable directories.
    pub downloads: Option<(AbsPath, Permission)>,
    /// How the context paths are treated.
    pub context_paths: ContextPathAccess,
}

/// How context paths are treated under a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextPathAccess {
    /// They are closed.
    Closed,
    /// They are read-only.
    ReadOnly,
}

impl FolderGuard {
    /// Returns the user's directories that it lists; none without a guard or for a role, which
    /// lists directories of a workspace.
    pub fn directories(&self) -> impl Iterator<Item = &AbsPath> {
        let (read, write): (&[AbsPath], &[AbsPath]) = match self {
            FolderGuard::Off | FolderGuard::Role { .. } => (&[], &[]),
            FolderGuard::On { read, write, .. } => (read, write),
        };
        read.iter().chain(write)
    }

    /// Returns what it opens for an agent with this workspace; `None` without a guard.
    pub fn resolve(&self, workspace: Option<&AbsPath>) -> Option<GuardedDirectories> {
        match self {
            FolderGuard::Off => None,
            FolderGuard::Role { read, write } => Some(GuardedDirectories {
                root: workspace.cloned(),
                read: workspace.into_iter().chain(read).cloned().collect(),
                write: write.clone(),
                downloads: None,
                context_paths: ContextPathAccess::ReadOnly,
            }),
            FolderGuard::On {
                root,
                read,
                write,
                workspace_preset,
                downloads,
            } => {
                let root = root.as_ref().or(workspace).cloned();
                let (mut read, mut write) = (read.clone(), write.clone());
                if let (Some(preset), Some(workspace)) = (workspace_preset, workspace) {
                    let in_workspace = |name: &&str| workspace.join(name);
                    read.extend(preset.readable_names().iter().map(in_workspace));
                    write.extend(preset.writable_names().iter().map(in_workspace));
                }
                let permission = match (write.as_slice(), downloads) {
                    (_, DownloadsAccess::Dropped) => None,
                    ([], DownloadsAccess::Open) => Some(Permission::Read),
                    (_, DownloadsAccess::Open) => Some(Permission::Write),
                };
                let downloads = root.as_ref().map(|root| root.join(DOWNLOADS));
                Some(GuardedDirectories {
                    root,
                    read,
                    write,
                    downloads: downloads.zip(permission),
                    context_paths: ContextPathAccess::Closed,
                })
            }
        }
    }
}

/// The directory lists of a preset, named after an agent's part in a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardPreset {
    /// Does the work: reads what was learned, writes results.
    Execution,
    /// Plans the work: reads what was learned, writes plans.
    Planning,
    /// Judges the work: reads results, writes reports.
    Validation,
    /// Observes: reads what was learned and writes nothing.
    ReadOnly,
}

impl GuardPreset {
    /// The names of presets in a config.
    pub const NAMES: &'static [&'static str] =
        &["execution", "planning", "validation", "read_only"];

    /// Returns the preset of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "execution" => Some(GuardPreset::Execution),
            "planning" => Some(GuardPreset::Planning),
            "validation" => Some(GuardPreset::Validation),
            "read_only" => Some(GuardPreset::ReadOnly),
            _ => None,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            GuardPreset::Execution => "execution",
            GuardPreset::Planning => "planning",
            GuardPreset::Validation => "validation",
            GuardPreset::ReadOnly => "read_only",
        }
    }

    /// Returns the names of the readable directories below the root.
    pub fn readable_names(self) -> &'static [&'static str] {
        match self {
            GuardPreset::Execution | GuardPreset::Planning | GuardPreset::ReadOnly => {
                &["learnings"]
            }
            GuardPreset::Validation => &["execution"],
        }
    }

    /// Returns the names of the readable and writable directories below the root.
    pub fn writable_names(self) -> &'static [&'static str] {
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
    /// Readable, and writable if any directory is.
    #[default]
    Open,
    /// Dropped by the config.
    Dropped,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves a guard for an agent with the workspace `/w`: its root, then each directory.
    #[track_caller]
    fn check(guard: &FolderGuard, expected: &str) {
        let directories = guard.resolve(AbsPath::new("/w").as_ref()).unwrap();
        let mut entries = vec![directories.root.unwrap().to_string()];
        entries.extend(directories.read.iter().map(|path| format!("read {path}")));
        entries.extend(directories.write.iter().map(|path| format!("write {path}")));
        let downloads = directories.downloads.iter();
        entries.extend(downloads.map(|(path, permission)| format!("{permission} {path}")));
        assert_eq!(entries.join(", "), expected);
    }

    fn preset(name: &str) -> FolderGuard {
        FolderGuard::On {
            root: None,
            read: Vec::new(),
            write: Vec::new(),
            workspace_preset: GuardPreset::from_name(name),
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
            workspace_preset: Some(GuardPreset::Execution),
            downloads: DownloadsAccess::Dropped,
        };
        check(
            &guard,
            "/p, read /p/docs, read /w/learnings, write /w/execution",
        );
        assert_eq!(FolderGuard::Off.resolve(None), None);
    }
}
