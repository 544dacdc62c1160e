//! Record of the sandbox levels that held, in the user's runtime directory (`XDG_RUNTIME_DIR`). A
//! level check takes as long as a command and gives each process the same result, as long as the
//! facts are the same on which it depends. A file that another user owns, or that every user may
//! change, is not trusted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::permissions::grant::{Grant, Permission};
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sys::machine_facts::machine_facts;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file::{self, FileDurability};

/// The variable that names the user's runtime directory, which lasts until they log out (XDG Base
/// Directory Specification).
const RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// The file, in the runtime directory.
const PLACE: &str = "massgen/sandbox_levels.json";
/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 256 * 1024;
/// Largest number of entries; the newest come first.
const ENTRIES_MAX: usize = 32;

/// The record of one user.
#[derive(Clone, Debug)]
pub struct LevelRecord(AbsPath);

/// A level that held, and the facts on which that depends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeldLevel {
    level: SandboxLevel,
    facts: Vec<String>,
}

impl LevelRecord {
    /// Returns the record in the runtime directory that `env` names. `None` if there is no such
    /// directory that belongs to the user, or if one of these grants makes the record writable for an
    /// agent.
    pub fn in_runtime_dir(env: &BTreeMap<String, String>, grants: &[Grant]) -> Option<Self> {
        let runtime_dir = AbsPath::new(env.get(RUNTIME_DIR)?)?;
        if !dir::is_owned_by_user(&runtime_dir) {
            return None;
        }
        let path = runtime_dir.join(PLACE);
        let real = dir::resolve(&runtime_dir).ok()?.to_abs().join(PLACE);
        let opens = |grant: &&Grant| {
            let root = grant.root.to_abs();
            grant.permission == Permission::Write
                && (real.is_within(&root) || root.is_within(&real))
        };
        (!grants.iter().any(|grant| opens(&grant))).then_some(Self(path))
    }

    /// Returns whether `level` held before, for sandboxes that `executable` builds and that write to
    /// `place`, and no fact has changed since.
    pub(super) fn contains(
        &self,
        level: SandboxLevel,
        executable: &AbsPath,
        place: &AbsPath,
    ) -> bool {
        let entry = machine_facts(executable, place).map(|facts| HeldLevel { level, facts });
        entry.is_ok_and(|entry| self.read().contains(&entry))
    }

    /// Records that `level` has just held there. If that fails, the level is checked again the next
    /// time.
    pub(super) fn add(&self, level: SandboxLevel, executable: &AbsPath, place: &AbsPath) {
        let Ok(facts) = machine_facts(executable, place) else {
            return;
        };
        let entry = HeldLevel { level, facts };
        let mut known = self.read();
        known.retain(|other| *other != entry);
        known.insert(0, entry);
        known.truncate(ENTRIES_MAX);
        let (Ok(bytes), Some(parent)) = (serde_json::to_vec(&known), self.0.parent()) else {
            return;
        };
        let parent_result = dir::create_all(&parent, DirectoryAudience::User);
        let written =
            parent_result.and_then(|()| file::replace(&self.0, &bytes, FileDurability::Process));
        written.unwrap_or_default();
    }

    /// Reads the file; one that is not trusted is empty.
    fn read(&self) -> Vec<HeldLevel> {
        let read = file::read_own_capped(&self.0, BYTES_MAX);
        let bytes = read.ok().and_then(Result::ok).flatten();
        let known = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        known.unwrap_or_default()
    }
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
    use crate::world::sandbox::level_record::{LevelRecord, PLACE, RUNTIME_DIR};

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

        fn file(&self) -> std::path::PathBuf {
            self.dir.path().join(PLACE)
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
        let own = executable("/proc/self/exe");
        assert!(!runtime_dir.contains(SandboxLevel::Overlay));
        runtime_dir
            .record()
            .add(SandboxLevel::Overlay, &own, &runtime_dir.path);
        assert!(runtime_dir.contains(SandboxLevel::Overlay));
        assert!(!runtime_dir.contains(SandboxLevel::Namespaces));
        let other = executable("/bin/sh");
        let with_other =
            runtime_dir
                .record()
                .contains(SandboxLevel::Overlay, &other, &runtime_dir.path);
        assert!(!with_other, "another program");
        let elsewhere = executable("/proc");
        let there = runtime_dir
            .record()
            .contains(SandboxLevel::Overlay, &own, &elsewhere);
        assert!(!there, "another file system");
        let known = fs::read_to_string(runtime_dir.file()).unwrap();
        for (fact, what) in [
            ("Linux", "another kernel"),
            ("first process", "another container"),
        ] {
            let other = known.replace(fact, "other");
            assert_ne!(other, known, "{what}");
            fs::write(runtime_dir.file(), other).unwrap();
            assert!(!runtime_dir.contains(SandboxLevel::Overlay), "{what}");
        }
        fs::write(runtime_dir.file(), known).unwrap();
        assert!(runtime_dir.contains(SandboxLevel::Overlay));
    }

    #[test]
    fn a_file_that_others_may_change_is_not_trusted() {
        let runtime_dir = RuntimeDir::new();
        let own = executable("/proc/self/exe");
        runtime_dir
            .record()
            .add(SandboxLevel::Overlay, &own, &runtime_dir.path);
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
    fn what_a_grant_makes_writable_is_no_record() {
        let runtime_dir = RuntimeDir::new();
        let grant = |path: &AbsPath, permission| {
            Grant::tree(
                RealPath::vouch(path.as_path()),
                GrantKind::Workspace,
                permission,
            )
        };
        let is_used = |path: &AbsPath, permission| {
            runtime_dir
                .record_with(&[grant(path, permission)])
                .is_some()
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
}
