//! Facts that determine what the kernel enforces on the descendants of this process: the kernel and
//! its boot, the identity of this process, and its own restrictions.
#![expect(clippy::disallowed_methods, reason = "only world::sys touches files")]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::statfs;

use crate::path::AbsPath;
use crate::world::sys::proc::start_time;

/// Files of the kernel that are facts, which every kernel has.
const REQUIRED_FILES: &[&str] = &["/proc/sys/kernel/random/boot_id", "/proc/version"];
/// The same, which some kernels lack.
const OPTIONAL_FILES: &[&str] = &["/sys/kernel/security/lsm", "/proc/self/attr/current"];
/// The namespaces that this process is in.
const NAMESPACES: &[&str] = &["user", "mnt", "pid", "net"];
/// The first process of a machine or container: it starts and ends with it. The numbers of
/// namespaces are given again when they are free.
const FIRST_PROCESS: u32 = 1;
/// Lines of `/proc/self/status` about the rights and restrictions of a process (proc(5)).
const STATUS_FIELDS: &[&str] = &[
    "Uid:",
    "Gid:",
    "Groups:",
    "CapInh:",
    "CapPrm:",
    "CapEff:",
    "CapBnd:",
    "CapAmb:",
    "NoNewPrivs:",
    "Seccomp:",
    "Seccomp_filters:",
];

/// The name of this host, as the kernel knows it.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// The identity of this boot of the kernel.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Returns the name of this host; empty if the kernel does not say.
pub(crate) fn host_name() -> String {
    let name = fs::read_to_string(HOST_NAME).unwrap_or_default();
    name.trim().to_owned()
}

/// Returns the identity of this boot of the kernel; empty if the kernel does not say.
pub(crate) fn boot_id() -> String {
    let id = fs::read_to_string(BOOT_ID).unwrap_or_default();
    id.trim().to_owned()
}

/// Returns the facts for processes that `executable` starts and that write to `state_dir`. As long
/// as they are the same, the kernel enforces the same.
pub(crate) fn machine_facts(executable: &AbsPath, state_dir: &AbsPath) -> io::Result<Vec<String>> {
    let mut facts = Vec::new();
    for path in REQUIRED_FILES {
        facts.push(fs::read_to_string(path)?);
    }
    for path in OPTIONAL_FILES {
        facts.push(fs::read_to_string(path).unwrap_or_default());
    }
    for name in NAMESPACES {
        let link = fs::read_link(format!("/proc/self/ns/{name}"))?;
        facts.push(link.display().to_string());
    }
    facts.push(format!("first process {:?}", start_time(FIRST_PROCESS)));
    let status = fs::read_to_string("/proc/self/status")?;
    let is_fact = |line: &&str| STATUS_FIELDS.iter().any(|field| line.starts_with(field));
    facts.extend(status.lines().filter(is_fact).map(str::to_owned));
    let program = fs::metadata(executable.as_path())?;
    let (device, inode, length) = (program.dev(), program.ino(), program.len());
    let change_time = (program.ctime(), program.ctime_nsec());
    facts.push(format!("{device} {inode} {length} {change_time:?}"));
    let root = fs::metadata("/")?;
    facts.push(format!("{} {}", root.dev(), root.ino()));
    let (metadata, system) = (
        fs::metadata(state_dir.as_path())?,
        statfs(state_dir.as_path())?,
    );
    facts.push(format!("{} {}", metadata.dev(), system.f_type));
    Ok(facts)
}
