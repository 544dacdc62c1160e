//! Owns what is remembered of trials: which levels held, in the user's own directory. A trial takes as
//! long as a command, and would be the same again for each process; what it told holds as long as the
//! machine runs and nothing is different by which the kernel could hold less. A file
//! that another user owns, or that everybody may change, is not believed.

use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::permissions::grant::{Grant, Permission};
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sys::machine_facts::machine_facts;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file::{self, FileDurability};

/// Where the file lies in the user's home directory.
const PLACE: &str = ".massgen/sandbox_levels.json";
/// The longest file, in bytes.
const BYTES_MAX: u64 = 256 * 1024;
/// The most that is remembered; the newest come first.
const ENTRIES_MAX: usize = 32;

/// The levels that held for the user whose home directory this is in.
#[derive(Clone, Debug)]
pub struct LevelRecord(AbsPath);

/// A level that held, and all by which it could hold less another time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeldLevel {
    level: SandboxLevel,
    facts: Vec<String>,
}

impl LevelRecord {
    /// The one in `home`. `None` where one of these grants opens it for writing: then whoever has them
    /// could write it.
    pub fn in_home(home: &AbsPath, grants: &[Grant]) -> Option<Self> {
        let path = home.join(PLACE);
        let real = dir::resolve(home).ok()?.to_abs().join(PLACE);
        let opens = |grant: &&Grant| {
            let root = grant.root.to_abs();
            grant.permission == Permission::Write
                && (real.is_within(&root) || root.is_within(&real))
        };
        (!grants.iter().any(|grant| opens(&grant))).then_some(Self(path))
    }

    /// Whether `level` held before in sandboxes that `executable` builds and that write to `place`, and
    /// nothing has changed since.
    pub(super) fn contains(
        &self,
        level: SandboxLevel,
        (executable, place): (&AbsPath, &AbsPath),
    ) -> bool {
        let held = machine_facts(executable, place).map(|facts| HeldLevel { level, facts });
        held.is_ok_and(|held| self.read().contains(&held))
    }

    /// Notes that `level` has just held there. Where that cannot be written, it is tried again the next
    /// time.
    pub(super) fn add(&self, level: SandboxLevel, (executable, place): (&AbsPath, &AbsPath)) {
        let Ok(facts) = machine_facts(executable, place) else {
            return;
        };
        let held = HeldLevel { level, facts };
        let mut known = self.read();
        known.retain(|other| *other != held);
        known.insert(0, held);
        known.truncate(ENTRIES_MAX);
        let (Ok(bytes), Some(parent)) = (serde_json::to_vec(&known), self.0.parent()) else {
            return;
        };
        let made = dir::create_all(&parent, DirectoryAudience::User);
        let written = made.and_then(|()| file::replace(&self.0, &bytes, FileDurability::Process));
        written.unwrap_or_default();
    }

    /// What is known; nothing where the file is not the user's own.
    fn read(&self) -> Vec<HeldLevel> {
        let read = file::read_own_capped(&self.0, BYTES_MAX);
        let bytes = read.ok().and_then(Result::ok).flatten();
        let known = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        known.unwrap_or_default()
    }
}
