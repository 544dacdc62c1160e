//! Seccomp rules that stop a command from setting the setuid or setgid bit. The arguments of a call
//! contain only a path: the rules cannot distinguish directories from files, and apply to both.

use libc::c_long;

use crate::world::sys::sandbox::bpf::{
    ArgumentCheck, DENIED, SeccompAction, SeccompCase, SeccompRule,
};

/// `fchmodat2`, which has the same number on every architecture and no name in `libc` for every
/// target yet.
pub(crate) const FCHMODAT2: c_long = 452;

/// The setuid and setgid bits of a mode (`linux/stat.h`).
const SETID_BITS: u32 = 0o6000;

/// Flags with which opening a file creates it: `O_CREAT`, and the bit that only `O_TMPFILE` has.
/// Without them the mode has no effect (`asm-generic/fcntl.h`).
const CREATION_FLAGS: u32 = 0o2000_0100;

const fn without_setid_bits(index: u8) -> ArgumentCheck {
    ArgumentCheck {
        index,
        mask: SETID_BITS,
        values: &[0],
    }
}

const fn without_creation(index: u8) -> ArgumentCheck {
    ArgumentCheck {
        index,
        mask: CREATION_FLAGS,
        values: &[0],
    }
}

const fn allow_case(checks: &'static [ArgumentCheck]) -> SeccompCase {
    SeccompCase {
        checks,
        action: SeccompAction::Allow,
    }
}

const MODE_SECOND: SeccompCase = allow_case(&[without_setid_bits(1)]);
const MODE_THIRD: SeccompCase = allow_case(&[without_setid_bits(2)]);

/// The modes with which `open` may create a file; all others are denied.
#[cfg(target_arch = "x86_64")]
pub(crate) const OPEN: [SeccompCase; 2] = [MODE_THIRD, allow_case(&[without_creation(1)])];
/// The same for `openat`.
pub(crate) const OPENAT: [SeccompCase; 2] = [
    allow_case(&[without_setid_bits(3)]),
    allow_case(&[without_creation(2)]),
];

/// Returns the rules, which apply at every level.
pub(crate) fn rules() -> Vec<(c_long, SeccompRule)> {
    vec![
        (libc::SYS_fchmod, SeccompRule::Cases(&[MODE_SECOND], DENIED)),
        (
            libc::SYS_fchmodat,
            SeccompRule::Cases(&[MODE_THIRD], DENIED),
        ),
        (FCHMODAT2, SeccompRule::Cases(&[MODE_THIRD], DENIED)),
        (libc::SYS_mknodat, SeccompRule::Cases(&[MODE_THIRD], DENIED)),
        (libc::SYS_openat, SeccompRule::Cases(&OPENAT, DENIED)),
        // Its mode is in memory, where no filter sees it; libraries then fall back to `openat`.
        (
            libc::SYS_openat2,
            SeccompRule::Always(SeccompAction::Fail(libc::ENOSYS)),
        ),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, SeccompRule::Cases(&[MODE_SECOND], DENIED)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, SeccompRule::Cases(&[MODE_SECOND], DENIED)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, SeccompRule::Cases(&[MODE_SECOND], DENIED)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, SeccompRule::Cases(&OPEN, DENIED)),
    ]
}
