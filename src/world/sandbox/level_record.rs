//! Record of the sandbox levels that held: in the user's runtime directory (`XDG_RUNTIME_DIR`), or
//! for root without one in `/run/massgen`. A level check takes as long as a command and gives each
//! process the same result, as long as the facts are the same on which it depends. A file that
//! another user owns, or that every user may change, is not trusted.

use std::collections::BTreeMap;

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::permissions::grant::{Grant, Permission};
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sys::machine_facts::machine_facts;
use crate::world::sys::proc::is_in_first_user_namespace;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;
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

/// The record of one user.
#[derive(Clone, Debug)]
pub struct LevelRecord(RecordPlace);

/// Where a record is.
#[derive(Clone, Debug)]
enum RecordPlace {
    /// Below the user's runtime directory.
    User(AbsPath),
    /// Below a directory that others search too: all that leads to the record is checked each time.
    System(AbsPath),
}

/// A level that held, and the facts on which that depends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeldLevel {
    level: SandboxLevel,
    facts: Vec<String>,
}

impl LevelRecord {
    /// Returns the record in the runtime directory that `env` names, or else, for root, the one in
    /// `/run`. `None` if there is no such directory that belongs to the user, or if one of these
    /// grants makes the record writable for an agent.
    pub fn find(env: &BTreeMap<String, String>, grants: &[Grant]) -> Option<Self> {
        let user_record = Self::in_runtime_dir(env, grants);
        user_record.or_else(|| Self::in_system_dir(grants))
    }

    fn in_runtime_dir(env: &BTreeMap<String, String>, grants: &[Grant]) -> Option<Self> {
        let runtime_dir = AbsPath::new(env.get(RUNTIME_DIR)?)?;
        if !dir::is_owned_by_user(&runtime_dir).ok()? {
            return None;
        }
        let real_dir = dir::resolve(&runtime_dir).ok()?.to_abs();
        (!is_writable_for_agents(&real_dir, grants)).then_some(Self(RecordPlace::User(runtime_dir)))
    }

    /// Returns the record in `/run`, for the root user of the first user namespace only. In many
    /// containers `/run` is on a disk and survives a restart; the recorded facts do not match then.
    fn in_system_dir(grants: &[Grant]) -> Option<Self> {
        let dir = AbsPath::new(SYSTEM_RUNTIME_DIR)?;
        let is_root = geteuid().is_root() && is_in_first_user_namespace();
        is_root.then(|| Self::in_shared_dir(dir, grants))?
    }

    /// Returns the record below `dir`, which others may search.
    fn in_shared_dir(dir: AbsPath, grants: &[Grant]) -> Option<Self> {
        (!is_writable_for_agents(&dir, grants)).then_some(Self(RecordPlace::System(dir)))
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
            self.0.write(&bytes);
        }
    }

    /// Reads the file; one that is not trusted is empty.
    fn read(&self) -> Vec<HeldLevel> {
        let bytes = self.0.read();
        let entries = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        entries.unwrap_or_default()
    }
}

impl RecordPlace {
    /// Reads the file; `None` if it is not trusted or cannot be read.
    fn read(&self) -> Option<Vec<u8>> {
        match self {
            RecordPlace::User(dir) => {
                let content =
                    file::read_own_capped(&dir.join(RECORD_DIRECTORY).join(RECORD_FILE), BYTES_MAX);
                content.ok()?.ok()?
            }
            RecordPlace::System(dir) => {
                let directory = PrivateDirectory::open(dir, RECORD_DIRECTORY).ok()?;
                directory.read_capped(RECORD_FILE, BYTES_MAX).ok()?
            }
        }
    }

    /// Replaces the file. Failures are ignored.
    fn write(&self, bytes: &[u8]) {
        match self {
            RecordPlace::User(dir) => {
                let dir = dir.join(RECORD_DIRECTORY);
                let directory = dir::create_all(&dir, DirectoryAudience::User);
                let result =
                    directory.and_then(|()| file::replace_unsynced(&dir.join(RECORD_FILE), bytes));
                result.unwrap_or_default();
            }
            RecordPlace::System(dir) => {
                let directory = PrivateDirectory::open_or_create(dir, RECORD_DIRECTORY);
                let result = directory.and_then(|directory| directory.replace(RECORD_FILE, bytes));
                result.unwrap_or_default();
            }
        }
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
#[expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use crate::path::{AbsPath, RealPath};
    use crate::permissions::grant::{Grant, GrantKind, Permission};
    use crate::sandbox_policy::sandbox_level::SandboxLevel;
    use crate::world::sandbox::level_record::{
        LevelRecord, RECORD_DIRECTORY, RECORD_FILE, RUNTIME_DIR,
    };

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
            let env = BTreeMap::from([(RUNTIME_DIR.to_owned(), self.path.to_string())]);
            LevelRecord::in_runtime_dir(&env, grants)
        }

        /// The record if the directory is the one of the system.
        fn system_record(&self, grants: &[Grant]) -> Option<LevelRecord> {
            LevelRecord::in_shared_dir(self.path.clone(), grants)
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
    fn a_file_that_others_may_change_is_not_trusted() {
        let runtime_dir = RuntimeDir::new();
        let own_program = executable("/proc/self/exe");
        runtime_dir
            .record()
            .add(SandboxLevel::Overlay, &own_program, &runtime_dir.path);
        let mode = fs::metadata(runtime_dir.file())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        fs::set_permissions(runtime_dir.file(), Permissions::from_mode(0o666)).unwrap();
        assert!(!runtime_dir.contains(SandboxLevel::Overlay));
        fs::write(runtime_dir.file(), "no JSON").unwrap();
        fs::set_permissions(runtime_dir.file(), Permissions::from_mode(0o600)).unwrap();
        assert!(!runtime_dir.contains(SandboxLevel::Overlay));
    }

    #[test]
    fn level_records_in_writable_directories_are_ignored() {
        let runtime_dir = RuntimeDir::new();
        let is_used = |path: &AbsPath, permission| {
            let root = RealPath::vouch(path.as_path());
            let grants = [Grant::tree(root, GrantKind::Workspace, permission)];
            let is_used = runtime_dir.record_with(&grants).is_some();
            assert_eq!(runtime_dir.system_record(&grants).is_some(), is_used);
            is_used
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
    fn the_record_in_the_directory_of_the_system_is_for_its_user_alone() {
        let system = RuntimeDir::new();
        let own_program = executable("/proc/self/exe");
        let record = system.system_record(&[]).unwrap();
        let contains = || record.contains(SandboxLevel::Overlay, &own_program, &system.path);
        assert!(!contains());
        record.add(SandboxLevel::Overlay, &own_program, &system.path);
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
