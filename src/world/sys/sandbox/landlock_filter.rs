//! Seccomp rules that level `landlock` adds, because it shares the machine with all other
//! processes: what other levels keep out with namespaces and read-only mounts is denied here by
//! number, or passed to the supervisor.

use landlock::ABI;
use libc::c_long;

use crate::sandbox_policy::NetworkAccess;
use crate::world::sys::sandbox::bpf::{
    ArgumentCheck, DENIED, SeccompAction, SeccompCase, SeccompRule,
};
use crate::world::sys::sandbox::filter::{LEASE_CASE, TERMINAL_INPUT_CASE};
use crate::world::sys::sandbox::setid_rules::{self, FCHMODAT2};

const NOT_IMPLEMENTED: SeccompAction = SeccompAction::Fail(libc::ENOSYS);

/// Calls that change a file's metadata and not its content. Landlock covers none of them.
const METADATA_CALLS: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];
#[cfg(target_arch = "x86_64")]
const OLD_METADATA_CALLS: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(target_arch = "aarch64")]
const OLD_METADATA_CALLS: &[c_long] = &[];

/// Newer variants of these calls, with arguments in memory: `setxattrat`, `removexattrat` and
/// `file_setattr`, which have no names in `libc` yet. Libraries then fall back to older calls.
const NEW_METADATA_CALLS: &[c_long] = &[463, 466, 469];

/// System V shared memory, message queues and semaphores, and POSIX message queues, which all
/// processes of a user share by number or name.
const SHARED_IPC_CALLS: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// The byte of an `ioctl` request number (`linux/ioctl.h`) that shows what it is for.
const PURPOSE_MASK: u32 = 0xff00;

/// Requests that only query, or that need the file open for writing.
const FILE_REQUESTS_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 1,
        mask: u32::MAX,
        values: &[
            0x8008_6601, // FS_IOC_GETFLAGS
            0xc020_660b, // FS_IOC_FIEMAP
            0x801c_581f, // FS_IOC_FSGETXATTR
            0x8008_7601, // FS_IOC_GETVERSION
            0x4004_9409, // FICLONE
            0x4020_940d, // FICLONERANGE
            0xc018_9436, // FIDEDUPERANGE
        ],
    }],
    action: SeccompAction::Allow,
};

/// Requests to file systems. Many change a file or directory that is open only for reading: its
/// flags, its encryption, or whether it can ever be written again. Some create and remove
/// subvolumes.
const FILE_SYSTEM_REQUESTS_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 1,
        mask: PURPOSE_MASK,
        values: &[
            0x5800, // XFS, and others that adopted its requests
            0x6600, // ext4, and others that adopted its requests
            0x7200, // FAT and exFAT
            0x7600, // versions of files
            0x8300, // ZFS
            0x9400, // btrfs
            0x9700, // ceph
            0xbc00, // bcachefs
            0xf500, // f2fs
        ],
    }],
    action: DENIED,
};

/// Opens the other end of a pseudo terminal by its handle (`TIOCGPTPEER`). By name it stays closed,
/// like all of `/dev/pts`: the user's own terminals are there.
const TERMINAL_PEER_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 1,
        mask: u32::MAX,
        values: &[0x5441],
    }],
    action: SeccompAction::Notify,
};

/// Limits and CPU affinity of the process itself; changing those of another could kill it or slow
/// it down.
const OWN_PROCESS_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 0,
        mask: u32::MAX,
        values: &[0],
    }],
    action: SeccompAction::Allow,
};

/// Priority of the process itself (0 of `linux/resource.h`, 1 of `linux/ioprio.h`), or of its group
/// (1 of the former).
const OWN_PRIORITY_CASE: SeccompCase = SeccompCase {
    checks: &[
        ArgumentCheck {
            index: 0,
            mask: u32::MAX,
            values: &[0, 1],
        },
        ArgumentCheck {
            index: 1,
            mask: u32::MAX,
            values: &[0],
        },
    ],
    action: SeccompAction::Allow,
};

/// Pairs of stream or seqpacket sockets. A datagram socket could send to any socket that has a
/// path.
const SOCKET_PAIR_CASE: SeccompCase = SeccompCase {
    checks: &[
        ArgumentCheck {
            index: 0,
            mask: u32::MAX,
            values: &[1],
        },
        ArgumentCheck {
            index: 1,
            mask: 0xf,
            values: &[1, 5],
        },
    ],
    action: SeccompAction::Allow,
};

/// Sockets of the internet and of the kernel. Unix sockets are not among them: Landlock does not
/// see them before Linux 7.1, and they lead to the user's other programs.
const INTERNET_SOCKET_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 0,
        mask: u32::MAX,
        values: &[2, 10, 16],
    }],
    action: SeccompAction::Allow,
};

/// Plain TCP only, whose ports Landlock restricts. It does not see other stream protocols.
const TCP_SOCKET_CASE: SeccompCase = SeccompCase {
    checks: &[
        ArgumentCheck {
            index: 0,
            mask: u32::MAX,
            values: &[2, 10],
        },
        ArgumentCheck {
            index: 1,
            mask: 0xf,
            values: &[1],
        },
        ArgumentCheck {
            index: 2,
            mask: u32::MAX,
            values: &[0, 6],
        },
    ],
    action: SeccompAction::Allow,
};

/// Sets which process a socket signals (`FIOSETOWN`, `SIOCSPGRP`), which may be any.
const SOCKET_OWNER_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 1,
        mask: u32::MAX,
        values: &[0x8901, 0x8902],
    }],
    action: DENIED,
};

/// The same for every handle (`F_SETOWN`, `F_SETOWN_EX`).
const SIGNAL_OWNER_CASE: SeccompCase = SeccompCase {
    checks: &[ArgumentCheck {
        index: 1,
        mask: u32::MAX,
        values: &[8, 15],
    }],
    action: DENIED,
};

/// The flag of a message that also connects (`MSG_FASTOPEN`), which Landlock does not see.
const FAST_OPEN_FLAG: u32 = 0x2000_0000;

/// Flags that open a file read-only and truncate it nevertheless. Landlock covers that from ABI 3
/// on.
const READ_ONLY_TRUNCATE_FLAGS: [u32; 2] = [0o1000, 0o1003];

/// Returns the rules that are added to the common ones. `abi` is the kernel's Landlock ABI.
pub(crate) fn rules(network: NetworkAccess, abi: ABI) -> Vec<(c_long, SeccompRule)> {
    let mut rules = Vec::new();
    let mut add_rules = |calls: &[c_long], action| {
        rules.extend(
            calls
                .iter()
                .map(|call| (*call, SeccompRule::Always(action))),
        );
    };
    add_rules(METADATA_CALLS, SeccompAction::Notify);
    add_rules(OLD_METADATA_CALLS, SeccompAction::Notify);
    add_rules(NEW_METADATA_CALLS, NOT_IMPLEMENTED);
    add_rules(SHARED_IPC_CALLS, DENIED);
    // The first case that matches decides, so single requests come before all of a file system.
    let requests = &[
        TERMINAL_INPUT_CASE,
        FILE_REQUESTS_CASE,
        FILE_SYSTEM_REQUESTS_CASE,
        TERMINAL_PEER_CASE,
        SOCKET_OWNER_CASE,
    ];
    rules.extend([
        (
            libc::SYS_ioctl,
            SeccompRule::Cases(requests, SeccompAction::Allow),
        ),
        (
            libc::SYS_prlimit64,
            SeccompRule::Cases(&[OWN_PROCESS_CASE], DENIED),
        ),
        (
            libc::SYS_sched_setaffinity,
            SeccompRule::Cases(&[OWN_PROCESS_CASE], DENIED),
        ),
        (
            libc::SYS_sched_setscheduler,
            SeccompRule::Cases(&[OWN_PROCESS_CASE], DENIED),
        ),
        (
            libc::SYS_sched_setparam,
            SeccompRule::Cases(&[OWN_PROCESS_CASE], DENIED),
        ),
        (
            libc::SYS_sched_setattr,
            SeccompRule::Cases(&[OWN_PROCESS_CASE], DENIED),
        ),
        (
            libc::SYS_setpriority,
            SeccompRule::Cases(&[OWN_PRIORITY_CASE], DENIED),
        ),
        (
            libc::SYS_ioprio_set,
            SeccompRule::Cases(&[OWN_PRIORITY_CASE], DENIED),
        ),
        (
            libc::SYS_socketpair,
            SeccompRule::Cases(&[SOCKET_PAIR_CASE], DENIED),
        ),
    ]);
    rules.extend(socket_rules(network));
    if abi < ABI::V6 {
        rules.extend(signal_rules());
    }
    if abi < ABI::V3 {
        rules.extend(truncation_rules());
    }
    rules
}

fn socket_rules(network: NetworkAccess) -> Vec<(c_long, SeccompRule)> {
    let deny_rule = SeccompRule::Always(DENIED);
    match network {
        NetworkAccess::Host => vec![(
            libc::SYS_socket,
            SeccompRule::Cases(&[INTERNET_SOCKET_CASE], DENIED),
        )],
        NetworkAccess::None => vec![
            (libc::SYS_socket, deny_rule),
            (libc::SYS_connect, deny_rule),
            (libc::SYS_bind, deny_rule),
            (libc::SYS_listen, deny_rule),
        ],
        NetworkAccess::Proxy { .. } => {
            const fn fast_open_check(index: u8) -> ArgumentCheck {
                ArgumentCheck {
                    index,
                    mask: FAST_OPEN_FLAG,
                    values: &[FAST_OPEN_FLAG],
                }
            }
            const fn connect_case(checks: &'static [ArgumentCheck]) -> SeccompCase {
                SeccompCase {
                    checks,
                    action: DENIED,
                }
            }
            const SENDTO_CASE: SeccompCase = connect_case(&[fast_open_check(3)]);
            const SENDMSG_CASE: SeccompCase = connect_case(&[fast_open_check(2)]);
            vec![
                (
                    libc::SYS_socket,
                    SeccompRule::Cases(&[TCP_SOCKET_CASE], DENIED),
                ),
                (libc::SYS_listen, deny_rule),
                // Landlock restricts the port, but not the address.
                (
                    libc::SYS_connect,
                    SeccompRule::Always(SeccompAction::Notify),
                ),
                (
                    libc::SYS_sendto,
                    SeccompRule::Cases(&[SENDTO_CASE], SeccompAction::Allow),
                ),
                (
                    libc::SYS_sendmsg,
                    SeccompRule::Cases(&[SENDMSG_CASE], SeccompAction::Allow),
                ),
                (
                    libc::SYS_sendmmsg,
                    SeccompRule::Cases(&[SENDTO_CASE], SeccompAction::Allow),
                ),
            ]
        }
    }
}

/// Returns the substitute for the scope of signals, which Landlock has from ABI 6 on.
fn signal_rules() -> impl Iterator<Item = (c_long, SeccompRule)> {
    let signal_calls = [libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill];
    let other_calls = [
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_send_signal,
    ];
    let signal_rules = signal_calls.map(|call| (call, SeccompRule::Always(SeccompAction::Notify)));
    let other_rules = other_calls.map(|call| (call, SeccompRule::Always(DENIED)));
    let fcntl_rule = (
        libc::SYS_fcntl,
        SeccompRule::Cases(&[LEASE_CASE, SIGNAL_OWNER_CASE], SeccompAction::Allow),
    );
    signal_rules
        .into_iter()
        .chain(other_rules)
        .chain([fcntl_rule])
}

/// Returns the substitute for the right to truncate, which Landlock has from ABI 3 on.
fn truncation_rules() -> Vec<(c_long, SeccompRule)> {
    const fn truncate_case(checks: &'static [ArgumentCheck]) -> SeccompCase {
        SeccompCase {
            checks,
            action: DENIED,
        }
    }
    const fn flags(index: u8) -> ArgumentCheck {
        ArgumentCheck {
            index,
            mask: 0o1003,
            values: &READ_ONLY_TRUNCATE_FLAGS,
        }
    }
    const OPENAT: &[SeccompCase] = &[
        truncate_case(&[flags(2)]),
        setid_rules::OPENAT[0],
        setid_rules::OPENAT[1],
    ];
    let mut rules = vec![
        (libc::SYS_truncate, SeccompRule::Always(DENIED)),
        (libc::SYS_openat, SeccompRule::Cases(OPENAT, DENIED)),
    ];
    #[cfg(target_arch = "x86_64")]
    {
        const OPEN: &[SeccompCase] = &[
            truncate_case(&[flags(1)]),
            setid_rules::OPEN[0],
            setid_rules::OPEN[1],
        ];
        rules.push((libc::SYS_open, SeccompRule::Cases(OPEN, DENIED)));
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[track_caller]
    fn check(network: NetworkAccess, abi: ABI, call: c_long, expected: Option<SeccompRule>) {
        let rules: BTreeMap<c_long, SeccompRule> = rules(network, abi).into_iter().collect();
        assert_eq!(rules.get(&call), expected.as_ref(), "{call}");
    }

    #[test]
    fn calls_that_an_older_landlock_cannot_restrict_are_filtered() {
        let deny_rule = Some(SeccompRule::Always(DENIED));
        for (abi, expected) in [(ABI::V1, deny_rule), (ABI::V2, deny_rule), (ABI::V3, None)] {
            check(NetworkAccess::None, abi, libc::SYS_truncate, expected);
        }
        check(NetworkAccess::None, ABI::V3, libc::SYS_openat, None);
    }

    #[test]
    fn where_landlock_does_not_keep_signals_in_they_are_handed_over() {
        let notified = Some(SeccompRule::Always(SeccompAction::Notify));
        check(NetworkAccess::None, ABI::V5, libc::SYS_kill, notified);
        check(NetworkAccess::None, ABI::V6, libc::SYS_kill, None);
    }

    #[test]
    fn metadata_calls_are_never_continued_in_the_kernel() {
        for call in METADATA_CALLS.iter().chain(OLD_METADATA_CALLS) {
            check(
                NetworkAccess::Host,
                ABI::V7,
                *call,
                Some(SeccompRule::Always(SeccompAction::Notify)),
            );
        }
    }
}
