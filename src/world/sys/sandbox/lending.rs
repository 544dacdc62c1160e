//! Owns the rules for system calls by which a file would come to lend the rights of its owner or of
//! its group to whoever starts it. A call says no more than a path: the rules cannot tell a
//! directory from a file, and hold for both.

use libc::c_long;

use crate::world::sys::sandbox::bpf::{Case, Check, Rule, Verdict};
use crate::world::sys::sandbox::filter::{DENIED, FCHMODAT2};

/// The bits of a mode that lend rights: of the owner and of the group (`linux/stat.h`).
pub(crate) const LENDING: u32 = 0o6000;

/// Flags with which a file is opened that is made thereby: `O_CREAT`, and what `O_TMPFILE` has
/// alone. Without them a mode says nothing (`asm-generic/fcntl.h`).
const MAKING: u32 = 0o2000_0100;

const fn lends_nothing(index: u8) -> Check {
    Check {
        index,
        mask: LENDING,
        values: &[0],
    }
}

const fn makes_nothing(index: u8) -> Check {
    Check {
        index,
        mask: MAKING,
        values: &[0],
    }
}

const fn allowed(checks: &'static [Check]) -> Case {
    Case {
        checks,
        verdict: Verdict::Allow,
    }
}

const MODE_SECOND: Case = allowed(&[lends_nothing(1)]);
const MODE_THIRD: Case = allowed(&[lends_nothing(2)]);

/// The modes that `open` may make a file with; all else is denied.
#[cfg(target_arch = "x86_64")]
pub(crate) const OPEN: [Case; 2] = [MODE_THIRD, allowed(&[makes_nothing(1)])];
/// The same for `openat`.
pub(crate) const OPENAT: [Case; 2] = [allowed(&[lends_nothing(3)]), allowed(&[makes_nothing(2)])];

/// The rules, which hold in every tier.
pub(crate) fn rules() -> Vec<(c_long, Rule)> {
    vec![
        (libc::SYS_fchmod, Rule::Cases(&[MODE_SECOND], DENIED)),
        (libc::SYS_fchmodat, Rule::Cases(&[MODE_THIRD], DENIED)),
        (FCHMODAT2, Rule::Cases(&[MODE_THIRD], DENIED)),
        (libc::SYS_mknodat, Rule::Cases(&[MODE_THIRD], DENIED)),
        (libc::SYS_openat, Rule::Cases(&OPENAT, DENIED)),
        // Its mode stands in memory, where no filter sees it; libraries then take `openat`.
        (libc::SYS_openat2, Rule::Always(Verdict::Fail(libc::ENOSYS))),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, Rule::Cases(&[MODE_SECOND], DENIED)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, Rule::Cases(&[MODE_SECOND], DENIED)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, Rule::Cases(&[MODE_SECOND], DENIED)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, Rule::Cases(&OPEN, DENIED)),
    ]
}
