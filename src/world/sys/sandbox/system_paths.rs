//! System paths that programs read, at every level.

/// Directories that hold programs and their libraries, and what programs query about the machine.
pub(crate) const PROGRAMS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/sys/devices/system/cpu",
];
