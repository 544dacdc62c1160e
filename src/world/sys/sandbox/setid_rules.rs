//! Owns the rules for system calls by which a file would come to lend the rights of its owner or of
//! its group to whoever starts it. A call says no more than a path: the rules cannot tell a
//! directory from a file, and hold for both.

use libc::c_long;

use crate::world::sys::sandbox::bpf::{ArgumentCheck, SeccompAction, SeccompCase, SeccompRule};
use crate::world::sys::sandbox::filter::{DENIED, FCHMODAT2};

/// The bits of a mode that lend rights: of the owner and of the group (`linux/stat.h`).
pub(crate) const LENDING: u32 = 0o6000;

/// Flags with which a file is opened that is made thereby: `O_CREAT`, and what `O_TMPFILE` has
/// alone. Without them a mode says nothing (`asm-generic/fcntl.h`).
const MAKING: u32 = 0o2000_0100;

const fn without_setid_bits(index: u8) -> ArgumentCheck {
    ArgumentCheck {
        index,
        mask: LENDING,
        values: &[0],
    }
}

const fn without_creation(index: u8) -> ArgumentCheck {
    ArgumentCheck {
        index,
        mask: MAKING,
        values: &[0],
    }
}

const fn allow_case(checks: &'static [ArgumentCheck]) -> SeccompCase {
    SeccompCase {
        checks,
        verdict: SeccompAction::Allow,
    }
}

const MODE_SECOND: SeccompCase = allow_case(&[without_setid_bits(1)]);
const MODE_THIRD: SeccompCase = allow_case(&[without_setid_bits(2)]);

/// The modes that `open` may make a file with; all else is denied.
#[cfg(target_arch = "x86_64")]
pub(crate) const OPEN: [SeccompCase; 2] = [MODE_THIRD, allow_case(&[without_creation(1)])];
/// The same for `openat`.
pub(crate) const OPENAT: [SeccompCase; 2] = [
    allow_case(&[without_setid_bits(3)]),
    allow_case(&[without_creation(2)]),
];

/// The rules, which hold in every tier.
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
        // Its mode stands in memory, where no filter sees it; libraries then take `openat`.
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
