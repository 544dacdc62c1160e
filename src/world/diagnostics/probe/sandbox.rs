//! Owns the look at what holds agents to their grants: the tiers are set to work as in a run, and
//! what the gate needs of the kernel is tried.

use crate::error::Result;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::world::sandbox::Sandbox;
use crate::world::sandbox::obstacles::{SandboxObstacle, find_obstacles};
use crate::world::sys;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::sandbox::domain::is_offered;
use crate::world::sys::state_files::file;

/// The longest file of the kernel's that is read, in bytes.
const KERNEL_FILE_BYTES_MAX: u64 = 64 * 1024;

/// What of cgroups is the user's to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupAccess {
    /// The second version is not mounted.
    Absent,
    /// It is mounted, and memory and processes are not counted in it.
    NoControllers,
    /// It is mounted, and the process's group is not the user's to divide.
    Foreign,
    /// The process's group can be divided.
    Delegated,
}

/// Which limits hold for all processes of a command together; others hold for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLimits {
    /// That of memory.
    pub memory: bool,
    /// That of the number of processes.
    pub processes: bool,
}

/// Whether the kernel offers Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandlockSupport {
    /// It does.
    Available,
    /// It does not, or it is switched off.
    Missing,
}

/// What holds agents to their grants.
#[derive(Debug)]
pub struct SandboxCapabilities {
    /// Why the kernel does not offer what the gate needs, if it does not.
    pub gate: Option<String>,
    /// What came of each choice of a sandbox.
    pub tiers: Vec<(SandboxLevelChoice, Result<SandboxSelection>)>,
    /// What is known to forbid sandboxes here.
    pub obstacles: Vec<SandboxObstacle>,
    /// What of cgroups is the user's.
    pub cgroups: CgroupAccess,
    /// What was really limited in them.
    pub together: SharedLimits,
    /// The second wall of tiers A and B, and the first of tier C.
    pub landlock: LandlockSupport,
}

/// What a choice of a sandbox leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSelection {
    /// The tier in force.
    pub tier: SandboxLevel,
    /// Why no stronger one is.
    pub reasons: Vec<String>,
}

/// Tries each of `choices`, with `executable` as the program that builds sandboxes, in the directory
/// `place`. Commands may write to `trees` of the user's.
pub fn probe_sandbox(
    choices: &[SandboxLevelChoice],
    executable: &AbsPath,
    place: &AbsPath,
    trees: &[AbsPath],
) -> SandboxCapabilities {
    let tried =
        |choice: &SandboxLevelChoice| (*choice, select_sandbox(*choice, executable, place, trees));
    let groups = sys::cgroup::Cgroups::find();
    SandboxCapabilities {
        together: SharedLimits {
            memory: groups.limit_memory(),
            processes: groups.limit_processes(),
        },
        landlock: if is_offered() {
            LandlockSupport::Available
        } else {
            LandlockSupport::Missing
        },
        gate: probe_gate(),
        tiers: choices.iter().map(tried).collect(),
        obstacles: find_obstacles(),
        cgroups: probe_cgroups(),
    }
}

/// What `choice` leads to, as [`probe_sandbox`] tries it.
pub fn select_sandbox(
    choice: SandboxLevelChoice,
    executable: &AbsPath,
    place: &AbsPath,
    trees: &[AbsPath],
) -> Result<SandboxSelection> {
    let sandbox = Sandbox::open_over(choice, executable, place, trees)?;
    Ok(SandboxSelection {
        tier: sandbox.level(),
        reasons: sandbox.reasons().to_vec(),
    })
}

/// The gate opens every file beneath a handle, and asks `/proc` where a handle has got to.
fn probe_gate() -> Option<String> {
    let reached = DirectoryHandle::open_root().and_then(|root| root.real_path());
    reached.err().map(|fault| fault.to_string())
}

fn probe_cgroups() -> CgroupAccess {
    let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|root| first_line(&format!("{root}/cgroup.controllers")).is_some());
    let own = read_text("/proc/self/cgroup").and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::"));
        path.map(str::to_owned)
    });
    let place = root.zip(own).and_then(|(root, own)| {
        let root = AbsPath::new(root)?;
        Some(root.join(own.trim_start_matches('/')))
    });
    let Some(place) = place else {
        return CgroupAccess::Absent;
    };
    let counted = first_line(&place.join("cgroup.controllers").to_string()).unwrap_or_default();
    let counts = |what: &str| counted.split_whitespace().any(|known| known == what);
    if !(counts("memory") && counts("pids")) {
        CgroupAccess::NoControllers
    } else if file::is_writable(&place) {
        CgroupAccess::Delegated
    } else {
        CgroupAccess::Foreign
    }
}

/// The first line of a file of the kernel's, if it is there.
fn first_line(path: &str) -> Option<String> {
    Some(
        read_text(path)?
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned(),
    )
}

fn read_text(path: &str) -> Option<String> {
    let bytes = file::read_capped(&AbsPath::new(path)?, KERNEL_FILE_BYTES_MAX);
    String::from_utf8(bytes.ok()??).ok()
}
