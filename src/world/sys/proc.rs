//! Reads `/proc`: when a process started, the PID namespace and limit, and the mount points.
#![expect(clippy::disallowed_methods, reason = "only world::sys touches files")]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;

use crate::path::AbsPath;

/// The index of the start time in `/proc/PID/stat`, counted from after the name (proc(5)).
const START_TIME_FIELD: usize = 19;
/// The state of a zombie, a process that has exited and is still listed (proc(5)).
const ZOMBIE_STATE: char = 'Z';
/// The index of the mount point in a line of `/proc/self/mountinfo` (proc(5)).
const MOUNT_POINT_FIELD: usize = 4;
/// The target of a process's link to its user namespace if that is the first one, whose number is
/// fixed (`PROC_USER_INIT_INO` in the kernel).
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

/// Returns when the process `pid` started, in clock ticks since boot; `None` if there is no such
/// process, or it is a zombie. Together with the PID, this identifies one process among all since
/// boot.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    let start_ticks = after_name.split(' ').nth(START_TIME_FIELD)?.parse().ok();
    start_ticks.filter(|_| !after_name.starts_with(ZOMBIE_STATE))
}

/// Identifies the PID namespace of this process.
pub(crate) fn pid_namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str().map(str::to_owned)
}

/// Returns whether this process is in the first user namespace of the machine, in which root is the
/// root of the machine.
pub(crate) fn is_in_first_user_namespace() -> bool {
    let link = fs::read_link("/proc/self/ns/user");
    link.is_ok_and(|link| link.as_os_str() == FIRST_USER_NAMESPACE)
}

/// Identifies this machine among others, as far as it has been given a name or an id.
pub(crate) fn machine_identity() -> String {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let (id, name) = (text("/etc/machine-id"), text("/proc/sys/kernel/hostname"));
    format!("{}/{}", id.trim(), name.trim())
}

/// Returns how many processes this machine has PIDs for at most.
pub(crate) fn pids_max() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").ok()?;
    text.trim().parse().ok()
}

/// Returns every mount point below `root`, not `root` itself.
pub(crate) fn mount_points_below(root: &AbsPath) -> io::Result<Vec<AbsPath>> {
    let table = fs::read("/proc/self/mountinfo")?;
    let lines = table.split(|byte| *byte == b'\n');
    let fields = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(MOUNT_POINT_FIELD));
    let mut points: Vec<AbsPath> = fields
        .filter_map(|field| AbsPath::new(OsString::from_vec(unescape(field))))
        .filter(|point| point != root && point.is_within(root))
        .collect();
    points.sort();
    points.dedup();
    Ok(points)
}

/// Decodes a field in which blanks and other special characters are written as octal escapes such
/// as `\040`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let byte = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        decoded.push(byte.unwrap_or(*first));
        rest = match byte {
            Some(_) => after.get(3..).unwrap_or_default(),
            None => after,
        };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_a_start_time_and_an_ended_one_none() {
        let own_start = start_time(std::process::id());
        assert!(own_start.is_some());
        assert_eq!(own_start, start_time(std::process::id()));
        assert_eq!(start_time(u32::MAX), None);
    }

    #[test]
    fn names_of_mount_points_are_read_as_they_are() {
        assert_eq!(unescape(br"/a\040b\134c"), b"/a b\\c");
        assert_eq!(unescape(br"/a\04"), br"/a\04");
        let root = AbsPath::new("/").unwrap();
        assert!(!mount_points_below(&root).unwrap().contains(&root));
    }
}
