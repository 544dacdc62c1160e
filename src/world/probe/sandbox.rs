//! Owns the look at what could confine commands: each mechanism is set to work once. It also tries
//! what the gate itself needs of the kernel.

use landlock::LandlockStatus;

use crate::path::AbsPath;
use crate::world::probe::{Said, Surroundings};
use crate::world::sys::confine::{Trial, try_to_escape};
use crate::world::sys::dir::Dir;
use crate::world::sys::own::file;

/// The longest file of the kernel's that is read, in bytes.
const KERNEL_FILE_BYTES_MAX: u64 = 64 * 1024;

/// What came of a thread that tried to leave the directory that Landlock confined it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// The kernel has no Landlock, or it is switched off.
    Absent(&'static str),
    /// All that was tried outside failed, and all inside succeeded.
    Holds {
        /// The version of the kernel's interface.
        version: String,
    },
    /// It does not do what it should.
    Fails {
        /// What was possible and should not have been, or the other way.
        how: String,
    },
}

/// Whether something worked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Worked {
    /// It did.
    Yes,
    /// It did not; the first line of why.
    No(String),
    /// There is no program to try it with.
    NoProgram,
}

/// Whether the user may make namespaces, and what forbids it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// What came of `unshare --user --map-root-user true`.
    pub made: Worked,
    /// Switches of the kernel that forbid it, as they are set.
    pub forbidding: Vec<&'static str>,
}

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

/// What could confine commands.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// Why the kernel does not offer what the gate needs, if it does not.
    pub gate: Option<String>,
    /// Landlock.
    pub landlock: Landlock,
    /// User namespaces.
    pub namespaces: Namespaces,
    /// What came of starting bubblewrap.
    pub bubblewrap: Worked,
    /// Whether the kernel filters system calls.
    pub seccomp: bool,
    /// Limits of memory and processes.
    pub cgroups: Cgroups,
}

/// Switches that forbid namespaces, each with the value that does.
const FORBIDDING: &[(&str, &str, &str)] = &[
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "kernel.unprivileged_userns_clone=0",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "user.max_user_namespaces=0",
    ),
];

/// Sets each mechanism to work once.
pub async fn sandbox(around: Surroundings<'_>) -> Sandbox {
    let unshare = ["--user", "--map-root-user", "true"];
    let bwrap = [
        "--ro-bind",
        "/",
        "/",
        "--unshare-all",
        "--die-with-parent",
        "true",
    ];
    let (made, bubblewrap) = tokio::join!(
        tried(around, "unshare", &unshare),
        tried(around, "bwrap", &bwrap)
    );
    let is_set = |(path, value, _): &&(&str, &str, &str)| line(path).as_deref() == Some(*value);
    let forbidding = FORBIDDING.iter().filter(is_set).map(|(_, _, name)| *name);
    Sandbox {
        gate: gate(),
        landlock: landlock(),
        namespaces: Namespaces {
            made,
            forbidding: forbidding.collect(),
        },
        bubblewrap,
        seccomp: line("/proc/sys/kernel/seccomp/actions_avail").is_some(),
        cgroups: cgroups(),
    }
}

/// The gate opens every file beneath a handle, and asks `/proc` where a handle has got to.
fn gate() -> Option<String> {
    let reached = Dir::root().and_then(|root| root.real_path());
    reached.err().map(|fault| fault.to_string())
}

fn landlock() -> Landlock {
    match try_to_escape() {
        Err(error) => Landlock::Fails {
            how: error.to_string(),
        },
        Ok(Trial { landlock, fault }) => match (landlock, fault) {
            (LandlockStatus::NotImplemented, _) => {
                Landlock::Absent("this kernel is built without it")
            }
            (LandlockStatus::NotEnabled, _) => Landlock::Absent("it is switched off at boot"),
            (LandlockStatus::Available { .. }, Some(how)) => Landlock::Fails { how },
            (
                LandlockStatus::Available {
                    effective_abi,
                    kernel_abi,
                },
                None,
            ) => Landlock::Holds {
                version: kernel_abi
                    .map_or_else(|| effective_abi.to_string(), |abi| abi.to_string()),
            },
        },
    }
}

async fn tried(around: Surroundings<'_>, name: &str, arguments: &[&str]) -> Worked {
    match around.find(name) {
        None => Worked::NoProgram,
        Some(program) => match around.ask(&program, arguments).await {
            Said::Well(_) => Worked::Yes,
            Said::Badly(why) => Worked::No(why),
        },
    }
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
