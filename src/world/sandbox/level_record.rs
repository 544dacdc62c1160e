//! Record of the sandbox levels that held: in the user's runtime directory (`XDG_RUNTIME_DIR`), or
//! for root without one in `/run/massgen`. A level check takes as long as a command and gives each
//! process the same result, as long as the facts are the same on which it depends. A file that
//! another user owns or may access is not trusted.

use std::collections::BTreeMap;

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::permissions::grant::{Grant, Permission};
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sys::machine_facts::machine_facts;
use crate::world::sys::proc::is_in_first_user_namespace;
use crate::world::sys::state_files::dir;
use crate::world::sys::state_files::private_directory::PrivateDirectory;

/// The variable that names the user's runtime directory, which lasts until they log out (XDG Base
/// Directory Specification).
const RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// The runtime directory of the system, in which services of root keep their files (Filesystem
/// Hierarchy Standard).
const SYSTEM_RUNTIME_DIR: &str = "/run";
/// The directory of massgen in one of these.
const RECORD_DIRECTORY: &str = "massgen";
/// The file of the record in that directory.
const RECORD_FILE: &str = "sandbox_levels.json";
/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 256 * 1024;
/// Largest number of entries; the newest come first.
const ENTRIES_MAX: usize = 32;

/// The record of one user, in the directory that contains its directory. Others may search that
/// one, so all that leads to the record is checked each time.
#[derive(Clone, Debug)]
pub struct LevelRecord(AbsPath);

/// A level that held, and the facts on which that depends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeldLevel {
    level: SandboxLevel,
    facts: Vec<String>,
}

impl LevelRecord {
    /// Returns the record in the runtime directory that `env` names, or else, for the root user of
    /// the first user namespace, the one in `/run`. `None` if there is no such directory that belongs
    /// to the user, or if one of these grants makes the record writable for an agent. In many
    /// containers `/run` is on a disk and survives a restart; the recorded facts do not match then.
    pub fn find(env: &BTreeMap<String, String>, grants: &[Grant]) -> Option<Self> {
        let user_dir = env.get(RUNTIME_DIR).and_then(AbsPath::new);
        let is_root = || geteuid().is_root() && is_in_first_user_namespace();
        let system_dir = || is_root().then(|| AbsPath::new(SYSTEM_RUNTIME_DIR))?;
        let user_record = user_dir.and_then(|dir| Self::below(&dir, grants));
        user_record.or_else(|| Self::below(&system_dir()?, grants))
    }

    fn below(dir: &AbsPath, grants: &[Grant]) -> Option<Self> {
        let real_dir = dir::resolve(dir).ok()?.to_abs();
        let is_own = dir::is_owned_by_user(&real_dir).ok()?;
        (is_own && !is_writable_for_agents(&real_dir, grants)).then_some(Self(real_dir))
    }

    /// Returns whether `level` held before, for sandboxes that `executable` builds and that write
    /// to `overlay_directory`, and no fact has changed since.
    pub(super) fn contains(
        &self,
        level: SandboxLevel,
        executable: &AbsPath,
        overlay_directory: &AbsPath,
    ) -> bool {
        let entry =
            machine_facts(executable, overlay_directory).map(|facts| HeldLevel { level, facts });
        entry.is_ok_and(|entry| self.read().contains(&entry))
    }

    /// Records that `level` has just held there. If that fails, the level is checked again the next
    /// time.
    pub(super) fn add(
        &self,
        level: SandboxLevel,
        executable: &AbsPath,
        overlay_directory: &AbsPath,
    ) {
        let Ok(facts) = machine_facts(executable, overlay_directory) else {
            return;
        };
        let entry = HeldLevel { level, facts };
        let mut entries = self.read();
        entries.retain(|other| *other != entry);
        entries.insert(0, entry);
        entries.truncate(ENTRIES_MAX);
        if let Ok(bytes) = serde_json::to_vec(&entries) {
            let directory = PrivateDirectory::open_or_create(&self.0, RECORD_DIRECTORY);
            let result = directory.and_then(|directory| directory.replace(RECORD_FILE, &bytes));
            result.unwrap_or_default();
        }
    }

    /// Reads the file; one that is not trusted is empty.
    fn read(&self) -> Vec<HeldLevel> {
        let directory = PrivateDirectory::open(&self.0, RECORD_DIRECTORY);
        let bytes = directory.and_then(|directory| directory.read_capped(RECORD_FILE, BYTES_MAX));
        let bytes = bytes.ok().flatten();
        let entries = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        entries.unwrap_or_default()
    }
}

/// Returns whether one of these grants makes the record below `dir` writable for an agent.
fn is_writable_for_agents(dir: &AbsPath, grants: &[Grant]) -> bool {
    let file = dir.join(RECORD_DIRECTORY).join(RECORD_FILE);
    grants.iter().any(|grant| {
        let root = grant.root.to_abs();
        grant.permission == Permission::Write && (file.is_within(&root) || root.is_within(&file))
    })
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "tests look at the disk themselves"
    )]

    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use crate::path::{AbsPath, RealPath};
    use crate::permissions::grant::{Grant, GrantKind, Permission};
    use crate::sandbox_policy::sandbox_level::SandboxLevel;
    use crate::world::sandbox::level_record::{LevelRecord, RECORD_DIRECTORY, RECORD_FILE};

    struct RuntimeDir {
        dir: TempDir,
        path: AbsPath,
    }

    impl RuntimeDir {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = AbsPath::new(dir.path().canonicalize().unwrap()).unwrap();
            Self { dir, path }
        }

        fn record(&self) -> LevelRecord {
            self.record_with(&[]).unwrap()
        }

        fn record_with(&self, grants: &[Grant]) -> Option<LevelRecord> {
            LevelRecord::below(&self.path, grants)
        }

        fn file(&self) -> std::path::PathBuf {
            self.dir.path().join(RECORD_DIRECTORY).join(RECORD_FILE)
        }

        fn contains(&self, level: SandboxLevel) -> bool {
            self.record()
                .contains(level, &executable("/proc/self/exe"), &self.path)
        }
    }

    fn executable(path: &str) -> AbsPath {
        AbsPath::new(path).unwrap()
    }

    #[test]
    fn a_level_that_held_is_known_for_the_same_facts_only() {
        let runtime_dir = RuntimeDir::new();
        let own_program = executable("/proc/self/exe");
        assert!(!runtime_dir.contains(SandboxLevel::Overlay));
        runtime_dir
            .record()
            .add(SandboxLevel::Overlay, &own_program, &runtime_dir.path);
        assert!(runtime_dir.contains(SandboxLevel::Overlay));
        assert!(!runtime_dir.contains(SandboxLevel::Namespaces));
        let other = executable("/bin/sh");
        let with_other =
            runtime_dir
                .record()
                .contains(SandboxLevel::Overlay, &other, &runtime_dir.path);
        assert!(!with_other, "another program");
        let elsewhere = executable("/proc");
        let is_contained =
            runtime_dir
                .record()
                .contains(SandboxLevel::Overlay, &own_program, &elsewhere);
        assert!(!is_contained, "another file system");
        let record_text = fs::read_to_string(runtime_dir.file()).unwrap();
        for (fact, description) in [
            ("Linux", "another kernel"),
            ("first process", "another container"),
        ] {
            let other = record_text.replace(fact, "other");
            assert_ne!(other, record_text, "{description}");
            fs::write(runtime_dir.file(), other).unwrap();
            assert!(
                !runtime_dir.contains(SandboxLevel::Overlay),
                "{description}"
            );
        }
        fs::write(runtime_dir.file(), record_text).unwrap();
        assert!(runtime_dir.contains(SandboxLevel::Overlay));
    }

    #[test]
    fn level_records_in_writable_directories_are_ignored() {
        let runtime_dir = RuntimeDir::new();
        let is_used = |path: &AbsPath, permission| {
            let root = RealPath::vouch(path.as_path());
            let grants = [Grant::tree(root, GrantKind::Workspace, permission)];
            runtime_dir.record_with(&grants).is_some()
        };
        assert!(!is_used(&runtime_dir.path, Permission::Write));
        assert!(!is_used(
            &runtime_dir.path.join("massgen"),
            Permission::Write
        ));
        assert!(is_used(&runtime_dir.path, Permission::Read));
        assert!(is_used(
            &runtime_dir.path.join("project"),
            Permission::Write
        ));
    }

    #[test]
    fn a_record_is_for_its_user_alone() {
        let system = RuntimeDir::new();
        let own_program = executable("/proc/self/exe");
        let contains = || system.contains(SandboxLevel::Overlay);
        assert!(!contains());
        system
            .record()
            .add(SandboxLevel::Overlay, &own_program, &system.path);
        assert!(contains());
        for (path, open, closed) in [
            (system.dir.path().to_owned(), 0o1777, 0o755),
            (system.dir.path().join(RECORD_DIRECTORY), 0o755, 0o700),
            (system.file(), 0o644, 0o600),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
            assert!(!contains(), "{}", path.display());
            fs::set_permissions(&path, Permissions::from_mode(closed)).unwrap();
            assert!(contains(), "{}", path.display());
        }
        fs::write(system.file(), "no JSON").unwrap();
        assert!(!contains());
    }
}
