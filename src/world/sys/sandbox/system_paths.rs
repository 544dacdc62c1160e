//! Owns the names of what programs are read from, in every tier.

/// Directories that hold programs and what they are made of, and what they ask about the machine.
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
