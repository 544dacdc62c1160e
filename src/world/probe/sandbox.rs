//! Owns the look at what holds agents to their grants: the tiers are set to work as in a run, and
//! what the gate needs of the kernel is tried.

use crate::confinement::tier::{Tier, TierChoice};
use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sandbox::Sandbox;
use crate::world::sandbox::obstacles::{Obstacle, obstacles};
use crate::world::sys;
use crate::world::sys::dir::Dir;
use crate::world::sys::own::file;
use crate::world::sys::sandbox::domain::is_offered;

/// The longest file of the kernel's that is read, in bytes.
const KERNEL_FILE_BYTES_MAX: u64 = 64 * 1024;

/// What of cgroups is the user's to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cgroups {
    /// The second version is not mounted.
    Absent,
    /// It is mounted, and memory and processes are not counted in it.
    Bare,
    /// It is mounted, and the process's group is not the user's to divide.
    Foreign,
    /// The process's group can be divided.
    Delegated,
}

/// Which limits hold for all processes of a command together; others hold for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    /// That of memory.
    pub memory: bool,
    /// That of the number of processes.
    pub processes: bool,
}

/// Whether the kernel offers Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// It does.
    There,
    /// It does not, or it is switched off.
    Missing,
}

/// What holds agents to their grants.
#[derive(Debug)]
pub struct Holds {
    /// Why the kernel does not offer what the gate needs, if it does not.
    pub gate: Option<String>,
    /// What came of each choice of a sandbox.
    pub tiers: Vec<(TierChoice, Result<Found>)>,
    /// What is known to forbid sandboxes here.
    pub obstacles: Vec<Obstacle>,
    /// What of cgroups is the user's.
    pub cgroups: Cgroups,
    /// What was really limited in them.
    pub together: Together,
    /// The second wall of tiers A and B, and the first of tier C.
    pub landlock: Landlock,
}

/// What a choice of a sandbox leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The tier in force.
    pub tier: Tier,
    /// Why no stronger one is.
    pub reasons: Vec<String>,
}

/// Tries each of `choices`, with `executable` as the program that builds sandboxes, in the directory
/// `place`. Commands may write to `trees` of the user's.
pub fn look(
    choices: &[TierChoice],
    executable: &AbsPath,
    place: &AbsPath,
    trees: &[AbsPath],
) -> Holds {
    let tried = |choice: &TierChoice| (*choice, in_force(*choice, executable, place, trees));
    let groups = sys::cgroup::Cgroups::find();
    Holds {
        together: Together {
            memory: groups.limit_memory(),
            processes: groups.limit_processes(),
        },
        landlock: if is_offered() {
            Landlock::There
        } else {
            Landlock::Missing
        },
        gate: gate(),
        tiers: choices.iter().map(tried).collect(),
        obstacles: obstacles(),
        cgroups: cgroups(),
    }
}

/// What `choice` leads to, as [`look`] tries it.
pub fn in_force(
    choice: TierChoice,
    executable: &AbsPath,
    place: &AbsPath,
    trees: &[AbsPath],
) -> Result<Found> {
    let sandbox = Sandbox::open_over(choice, executable, place, trees)?;
    Ok(Found {
        tier: sandbox.tier(),
        reasons: sandbox.reasons().to_vec(),
    })
}

/// The gate opens every file beneath a handle, and asks `/proc` where a handle has got to.
fn gate() -> Option<String> {
    let reached = Dir::root().and_then(|root| root.real_path());
    reached.err().map(|fault| fault.to_string())
}

fn cgroups() -> Cgroups {
    let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|root| line(&format!("{root}/cgroup.controllers")).is_some());
    let own = text("/proc/self/cgroup").and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::"));
        path.map(str::to_owned)
    });
    let place = root.zip(own).and_then(|(root, own)| {
        let root = AbsPath::new(root)?;
        Some(root.join(own.trim_start_matches('/')))
    });
    let Some(place) = place else {
        return Cgroups::Absent;
    };
    let counted = line(&place.join("cgroup.controllers").to_string()).unwrap_or_default();
    let counts = |what: &str| counted.split_whitespace().any(|known| known == what);
    if !(counts("memory") && counts("pids")) {
        Cgroups::Bare
    } else if file::is_writable(&place) {
        Cgroups::Delegated
    } else {
        Cgroups::Foreign
    }
}

/// The first line of a file of the kernel's, if it is there.
fn line(path: &str) -> Option<String> {
    Some(
        text(path)?
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned(),
    )
}

fn text(path: &str) -> Option<String> {
    let bytes = file::read_capped(&AbsPath::new(path)?, KERNEL_FILE_BYTES_MAX);
    String::from_utf8(bytes.ok()??).ok()
}
