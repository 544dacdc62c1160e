//! Probes what can enforce agents' grants: runs the sandbox levels as in a run, and tests the
//! kernel features that the gate needs.

use crate::config::machine_policy::MachinePolicy;
use crate::error::Result;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::world::sandbox::obstacles::{SandboxObstacle, find_obstacles};
use crate::world::sandbox::{Sandbox, SandboxSpec};
use crate::world::sys;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::sandbox::domain::is_offered;
use crate::world::sys::state_files::file;

/// Largest kernel file that is read, in bytes.
const KERNEL_FILE_BYTES_MAX: u64 = 64 * 1024;

/// What the user may do with cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupAccess {
    /// cgroup v2 is not mounted.
    Absent,
    /// It is mounted, but without the memory and pids controllers.
    NoControllers,
    /// It is mounted, but the process's cgroup is not delegated to the user.
    Foreign,
    /// The process's cgroup is delegated to the user.
    Delegated,
}

/// Which limits apply to all processes of a command together; the others apply to each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLimits {
    /// Whether the memory limit does.
    pub memory: bool,
    /// Whether the limit on the number of processes does.
    pub processes: bool,
}

/// Whether the kernel supports Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandlockSupport {
    /// It is supported.
    Available,
    /// It is not supported, or switched off.
    Missing,
}

/// The mechanisms that enforce agents' grants.
#[derive(Debug)]
pub struct SandboxCapabilities {
    /// What the kernel lacks that the gate needs, if anything.
    pub gate: Option<String>,
    /// Result of each sandbox choice.
    pub levels: Vec<(SandboxLevelChoice, Result<SandboxSelection>)>,
    /// Known settings that prevent sandboxes here.
    pub obstacles: Vec<SandboxObstacle>,
    /// What the user may do with cgroups.
    pub cgroups: CgroupAccess,
    /// The limits that they enforce on all processes of a command together.
    pub shared_limits: SharedLimits,
    /// The second barrier of levels `overlay` and `namespaces`, and the first of `landlock`.
    pub landlock: LandlockSupport,
}

/// Result of a sandbox choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSelection {
    /// The level in use.
    pub level: SandboxLevel,
    /// Why no stronger level is used.
    pub reasons: Vec<String>,
}

/// Tests each of `choices` in the directory `state_dir`, with `executable` as the sandbox helper.
/// Commands may write to the user's `trees`.
pub fn probe_sandbox(
    choices: &[SandboxLevelChoice],
    executable: &AbsPath,
    state_dir: &AbsPath,
    trees: &[AbsPath],
    policy: &MachinePolicy,
) -> SandboxCapabilities {
    let try_level = |choice: &SandboxLevelChoice| {
        (
            *choice,
            select_sandbox(*choice, executable, state_dir, trees, policy),
        )
    };
    let cgroups = sys::cgroup::Cgroups::find();
    SandboxCapabilities {
        shared_limits: SharedLimits {
            memory: cgroups.can_limit_memory(),
            processes: cgroups.can_limit_processes(),
        },
        landlock: if is_offered() {
            LandlockSupport::Available
        } else {
            LandlockSupport::Missing
        },
        gate: probe_gate(),
        levels: choices.iter().map(try_level).collect(),
        obstacles: find_obstacles(),
        cgroups: probe_cgroups(),
    }
}

/// Returns what `choice` selects, tested as in [`probe_sandbox`].
pub fn select_sandbox(
    choice: SandboxLevelChoice,
    executable: &AbsPath,
    state_dir: &AbsPath,
    trees: &[AbsPath],
    policy: &MachinePolicy,
) -> Result<SandboxSelection> {
    let sandbox = Sandbox::open_with(SandboxSpec {
        choice,
        executable,
        overlay_directory: state_dir,
        trees,
        record: None,
        policy,
    })?;
    Ok(SandboxSelection {
        level: sandbox.level(),
        reasons: sandbox.reasons().to_vec(),
    })
}

/// Tests what the gate needs: it opens every file beneath a handle, and asks `/proc` for the
/// current path of a handle.
fn probe_gate() -> Option<String> {
    let real_path = DirectoryHandle::open_root().and_then(|root| root.real_path());
    real_path.err().map(|error| error.to_string())
}

fn probe_cgroups() -> CgroupAccess {
    let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|root| first_line(&format!("{root}/cgroup.controllers")).is_some());
    let own_cgroup = read_text("/proc/self/cgroup").and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::"));
        path.map(str::to_owned)
    });
    let cgroup_dir = root.zip(own_cgroup).and_then(|(root, own_cgroup)| {
        let root = AbsPath::new(root)?;
        Some(root.join(own_cgroup.trim_start_matches('/')))
    });
    let Some(cgroup_dir) = cgroup_dir else {
        return CgroupAccess::Absent;
    };
    let controllers =
        first_line(&cgroup_dir.join("cgroup.controllers").to_string()).unwrap_or_default();
    let has_controller = |name: &str| {
        controllers
            .split_whitespace()
            .any(|controller| controller == name)
    };
    if !(has_controller("memory") && has_controller("pids")) {
        CgroupAccess::NoControllers
    } else if file::is_writable(&cgroup_dir) {
        CgroupAccess::Delegated
    } else {
        CgroupAccess::Foreign
    }
}

/// Returns the first line of a kernel file, if it exists.
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
