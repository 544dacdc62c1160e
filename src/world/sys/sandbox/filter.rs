//! System calls that no agent's program may make: those that change the machine or its mounts,
//! bypass the filter, or are needed by no test, build or script. Also the complete filter of levels
//! `overlay` and `namespaces`.
//!
//! `ptrace` and related calls are not denied: debuggers and leak checkers need them, and the
//! namespaces and the Landlock domain confine them.

use std::io;
use std::os::fd::OwnedFd;

use libc::c_long;

use crate::world::sys::sandbox::bpf::{
    ArgumentCheck, BpfProgramResult, DENIED, SeccompAction, SeccompCase, SeccompRule, compile_rules,
};
use crate::world::sys::sandbox::{raw, setid_rules};

/// The first number that Linux 6.18 has no call for. The calls of a newer kernel do not exist for
/// the program, whatever they do; libraries then fall back to older ones.
const FIRST_UNKNOWN_CALL: u32 = 470;

/// `quotactl_fd` and `open_tree_attr`, which have the same number on every architecture and no name
/// in `libc` yet.
const QUOTACTL_FD: c_long = 443;
const OPEN_TREE_ATTR: c_long = 467;

/// Calls that fail whatever their arguments are.
const DENIED_CALLS: &[c_long] = &[
    // mounts and roots
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // namespaces
    libc::SYS_setns,
    libc::SYS_unshare,
    // files by handle, bypassing every directory
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    // rings whose requests no filter sees
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // the kernel itself
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_syslog,
    libc::SYS_reboot,
    // keys
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // the machine
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    QUOTACTL_FD,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];

/// Calls that fail on one architecture only.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE_DENIED_CALLS: &[c_long] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
];
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE_DENIED_CALLS: &[c_long] = &[libc::SYS_kexec_file_load];

/// Every flag of `clone` that asks for a namespace (`linux/sched.h`).
const NAMESPACE_FLAGS: u32 = 0x7e02_0000;

/// Requests that inject input into a terminal of another program (`asm-generic/ioctls.h`,
/// `linux/tiocl.h`).
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const TIOCCONS: u32 = 0x541d;
pub(crate) const TERMINAL_INPUT_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 1,
        mask: u32::MAX,
        values: &[TIOCSTI, TIOCLINUX, TIOCCONS],
    }],
    action: DENIED,
};

/// Takes a lease on a file, which requires no write access: other processes that open the file then
/// block (`F_SETLEASE`, `linux/fcntl.h`).
pub(crate) const LEASE_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 1,
        mask: u32::MAX,
        values: &[1024],
    }],
    action: DENIED,
};

/// Asks for huge pages, which all users of the machine share (`vm.nr_hugepages`): flags of `mmap`,
/// `memfd_create` and `shmget` (`linux/mman.h`, `linux/memfd.h`, `linux/shm.h`). Without them,
/// programs use ordinary pages.
const MMAP_HUGE_PAGES_CASE: SeccompCase = huge_pages_case(&[ArgumentCheck {
    index: 3,
    mask: 0x4_0000,
    values: &[0x4_0000],
}]);
const MEMFD_HUGE_PAGES_CASE: SeccompCase = huge_pages_case(&[ArgumentCheck {
    index: 1,
    mask: 4,
    values: &[4],
}]);
const SHMGET_HUGE_PAGES_CASE: SeccompCase = huge_pages_case(&[ArgumentCheck {
    index: 2,
    mask: 0o4000,
    values: &[0o4000],
}]);

const fn huge_pages_case(checks: &'static [ArgumentCheck]) -> SeccompCase {
    SeccompCase {
        checks,
        action: SeccompAction::Fail(libc::ENOMEM),
    }
}

/// Leaves a whiteout device in place of a renamed file (`RENAME_WHITEOUT`, `linux/fs.h`), which
/// Landlock does not see.
const WHITEOUT_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 4,
        mask: 4,
        values: &[4],
    }],
    action: DENIED,
};

/// Socket families: unix, inet, inet6 and netlink (`linux/socket.h`).
const SOCKET_FAMILIES_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 0,
        mask: u32::MAX,
        values: &[1, 2, 10, 16],
    }],
    action: SeccompAction::Allow,
};
/// The family of socket pairs: unix.
const UNIX_SOCKET_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 0,
        mask: u32::MAX,
        values: &[1],
    }],
    action: SeccompAction::Allow,
};

/// Returns the rules that apply at every level.
pub(crate) fn common_rules() -> Vec<(c_long, SeccompRule)> {
    let denied_calls = DENIED_CALLS.iter().chain(ARCHITECTURE_DENIED_CALLS);
    let mut rules: Vec<(c_long, SeccompRule)> = denied_calls
        .map(|number| (*number, SeccompRule::Always(DENIED)))
        .collect();
    rules.extend([
        // Its arguments are in memory, where no filter sees them; libraries then fall back to
        // `clone`.
        (
            libc::SYS_clone3,
            SeccompRule::Always(SeccompAction::Fail(libc::ENOSYS)),
        ),
        // All users of the machine share one quota of such requests (`fs.aio-max-nr`), and one
        // program can exhaust it; databases work without.
        (
            libc::SYS_io_setup,
            SeccompRule::Always(SeccompAction::Fail(libc::ENOSYS)),
        ),
        (
            libc::SYS_clone,
            SeccompRule::Cases(
                &[SeccompCase {
                    checks: &[ArgumentCheck {
                        index: 0,
                        mask: NAMESPACE_FLAGS,
                        values: &[0],
                    }],
                    action: SeccompAction::Allow,
                }],
                DENIED,
            ),
        ),
        (
            libc::SYS_ioctl,
            SeccompRule::Cases(&[TERMINAL_INPUT_CASE], SeccompAction::Allow),
        ),
        (
            libc::SYS_fcntl,
            SeccompRule::Cases(&[LEASE_CASE], SeccompAction::Allow),
        ),
        (
            libc::SYS_renameat2,
            SeccompRule::Cases(&[WHITEOUT_CASE], SeccompAction::Allow),
        ),
        (
            libc::SYS_mmap,
            SeccompRule::Cases(&[MMAP_HUGE_PAGES_CASE], SeccompAction::Allow),
        ),
        (
            libc::SYS_memfd_create,
            SeccompRule::Cases(&[MEMFD_HUGE_PAGES_CASE], SeccompAction::Allow),
        ),
        (
            libc::SYS_shmget,
            SeccompRule::Cases(&[SHMGET_HUGE_PAGES_CASE], SeccompAction::Allow),
        ),
    ]);
    rules.extend(setid_rules::rules());
    rules
}

/// The filter of levels `overlay` and `namespaces`, compiled for the kernel.
#[derive(Debug)]
pub(crate) struct NamespaceFilter(BpfProgramResult);

impl NamespaceFilter {
    /// Compiles the filter; that takes longer than installing it.
    pub(crate) fn compile() -> Self {
        let mut rules = common_rules();
        // The network is the program's own, or the user allowed the host's.
        rules.extend([
            (
                libc::SYS_socket,
                SeccompRule::Cases(&[SOCKET_FAMILIES_CASE], DENIED),
            ),
            (
                libc::SYS_socketpair,
                SeccompRule::Cases(&[UNIX_SOCKET_CASE], DENIED),
            ),
        ]);
        Self(compile_rules(&rules, FIRST_UNKNOWN_CALL))
    }

    /// Applies the filter to this thread, and to everything that it starts, permanently.
    pub(crate) fn install(&self) -> io::Result<()> {
        match &self.0 {
            Ok(program) => raw::install_filter(program),
            Err(error) => Err(io::Error::other(*error)),
        }
    }
}

/// Applies `rules` to this thread, and to everything that it starts, permanently. Returns the
/// listener on which calls arrive that wait for an answer.
pub(crate) fn install_and_listen(rules: &[(c_long, SeccompRule)]) -> io::Result<OwnedFd> {
    let program = compile_rules(rules, FIRST_UNKNOWN_CALL).map_err(io::Error::other)?;
    raw::install_filter_with_listener(&program)
}
