//! Detects settings of a machine that prevent sandboxes, and files and mounts in a tree that
//! prevent an overlay over it, and suggests remedies.

use std::fmt;
use std::io;

use crate::path::AbsPath;
use crate::world::sys::file_system_features::foreign_writable;
use crate::world::sys::proc::mount_points_below;
use crate::world::sys::state_files::file;

/// Largest kernel file that is read, in bytes.
const KERNEL_FILE_BYTES_MAX: u64 = 4096;

/// A setting that prevents namespaces or Landlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxObstacle {
    /// What prevents them.
    pub cause: &'static str,
    /// What the user can do.
    pub remedy: String,
}

impl fmt::Display for SandboxObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause)
    }
}

/// A kernel setting that prevents sandboxes.
struct KernelSwitch {
    path: &'static str,
    forbidding_value: &'static str,
    cause: &'static str,
    remedy: &'static str,
}

const KERNEL_SWITCHES: &[KernelSwitch] = &[
    KernelSwitch {
        path: "/proc/sys/kernel/unprivileged_userns_clone",
        forbidding_value: "0",
        cause: "kernel.unprivileged_userns_clone=0",
        remedy: "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    },
    KernelSwitch {
        path: "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        forbidding_value: "1",
        cause: "kernel.apparmor_restrict_unprivileged_userns=1",
        remedy: "install massgen's `.deb`, which has an AppArmor profile, or sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    },
    KernelSwitch {
        path: "/proc/sys/user/max_user_namespaces",
        forbidding_value: "0",
        cause: "user.max_user_namespaces=0",
        remedy: "sudo sysctl -w user.max_user_namespaces=16384",
    },
];

/// Status line of a process with a seccomp filter, such as those of a container.
const SECCOMP_FILTER_LINE: &str = "Seccomp:\t2";

/// Detects all obstacles on this machine.
pub fn find_obstacles() -> Vec<SandboxObstacle> {
    let switches = KERNEL_SWITCHES.iter().filter(|switch| is_set(switch));
    let mut obstacles: Vec<SandboxObstacle> = switches
        .map(|switch| SandboxObstacle {
            cause: switch.cause,
            remedy: switch.remedy.to_owned(),
        })
        .collect();
    let status = read_kernel_file("/proc/self/status");
    if status.is_some_and(|status| status.lines().any(|line| line == SECCOMP_FILTER_LINE)) {
        obstacles.push(SandboxObstacle {
            cause: "system calls are filtered by seccomp, as in a container",
            remedy: "start the container with `--security-opt seccomp=unconfined`".to_owned(),
        });
    }
    if security_modules().is_some_and(|modules| !modules.contains("landlock")) {
        obstacles.push(SandboxObstacle {
            cause: "Landlock is disabled at boot",
            remedy: "add `landlock` to the kernel's `lsm=` parameter".to_owned(),
        });
    }
    obstacles
}

/// Returns why overlays over `trees` would not work and what the user can do, if so. For mounts,
/// see [`nested_mount`]. Files of others are an obstacle because only the user and group of
/// massgen's process exist in the namespaces of a sandbox, so that the kernel copies no file of
/// others into an upper layer.
pub(in crate::world) fn overlay_obstacle(trees: &[AbsPath]) -> io::Result<Option<String>> {
    for tree in trees {
        if let Some(path) = foreign_writable(tree)? {
            return Ok(Some(format!(
                "`{path}` belongs to another user or group, so commands could not change it through an \
                 overlay: give it your user and group"
            )));
        }
    }
    nested_mount(trees)
}

/// Returns why no overlay can be mounted over one of `trees`, if so: the kernel refuses one over a
/// directory in which another file system is mounted.
fn nested_mount(trees: &[AbsPath]) -> io::Result<Option<String>> {
    for tree in trees {
        if let Some(point) = mount_points_below(tree)?.first() {
            return Ok(Some(format!(
                "`{point}` is a separate file system inside `{tree}`, so no overlay can be mounted \
                 there: unmount it"
            )));
        }
    }
    Ok(None)
}

/// Returns the kernel's security modules, if it reports them.
fn security_modules() -> Option<String> {
    read_kernel_file("/sys/kernel/security/lsm")
}

fn is_set(switch: &KernelSwitch) -> bool {
    read_kernel_file(switch.path).is_some_and(|value| value.trim() == switch.forbidding_value)
}

fn read_kernel_file(path: &str) -> Option<String> {
    let bytes = file::read_capped(&AbsPath::new(path)?, KERNEL_FILE_BYTES_MAX);
    String::from_utf8(bytes.ok()??).ok()
}
