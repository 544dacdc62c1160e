//! Seccomp profile for programs in a container, in Docker's format. It matches the filter of
//! massgen's own sandbox: calls that bypass the mounts, create setuid or setgid programs, or are of
//! no use to tests, builds and scripts, fail.

use serde_json::{Value, json};

/// Calls that are allowed with any arguments, from those of Linux 6.18 on 64-bit machines. A call
/// that is not listed fails, including those of newer kernels.
const ALLOWED_CALLS: &str = "\
    accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chown \
    clock_getres clock_gettime clock_nanosleep close close_range connect copy_file_range \
    dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait \
    eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate \
    fchdir fchown fchownat fdatasync fgetxattr file_getattr file_setattr flistxattr flock \
    fork fremovexattr fsetxattr fstat fstatat fstatfs fsync ftruncate futex futex_requeue \
    futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd \
    getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp \
    getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid \
    getsockname getsockopt gettid gettimeofday getuid getxattr getxattrat inotify_add_watch \
    inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents \
    io_submit ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset \
    landlock_restrict_self lchown lgetxattr link linkat listen listmount listxattr listxattrat \
    llistxattr lremovexattr lseek lsetxattr lsm_get_self_attr lsm_list_modules lstat madvise \
    map_shadow_stack membarrier memfd_secret mincore mkdir mkdirat mlock mlock2 \
    mlockall mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend \
    mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep \
    newfstatat pause pidfd_getfd pidfd_open pidfd_send_signal pipe pipe2 \
    pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 \
    process_madvise process_mrelease process_vm_readv process_vm_writev pselect6 ptrace pwrite64 \
    pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg \
    remap_file_pages removexattr removexattrat rename renameat restart_syscall rmdir \
    rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend \
    rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min \
    sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval \
    sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select \
    semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto set_robust_list \
    set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid \
    setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid \
    setxattr setxattrat shmat shmctl shmdt shutdown sigaltstack signalfd signalfd4 splice \
    stat statfs statmount statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs \
    sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime \
    timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask \
    uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid write writev";

/// Error numbers (`asm-generic/errno-base.h`, `asm-generic/errno.h`).
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
/// All flags of `clone` that create a namespace (`linux/sched.h`).
const NAMESPACE_FLAGS: u64 = 0x7e02_0000;
/// The setuid and setgid bits of a file mode (`linux/stat.h`).
const SETID_BITS: u64 = 0o6000;
/// Flags of `open` that create a file: `O_CREAT`, and the bit that only `O_TMPFILE` has
/// (`asm-generic/fcntl.h`).
const CREATION_FLAGS: u64 = 0o2000_0100;
/// The `fcntl` command that can block every process that opens a file (`F_SETLEASE` of
/// `linux/fcntl.h`).
const SETLEASE_COMMAND: u64 = 1024;
/// Flag that leaves a device where a renamed file was (`RENAME_WHITEOUT` of `linux/fs.h`).
const WHITEOUT_FLAG: u64 = 4;
/// Flags of `mmap`, `memfd_create` and `shmget` that ask for huge pages of the machine
/// (`linux/mman.h`, `linux/memfd.h`, `linux/shm.h`).
const MAP_HUGETLB: u64 = 0x4_0000;
const MFD_HUGETLB: u64 = 4;
const SHM_HUGETLB: u64 = 0o4000;
/// Mask of the file type in `mknod`, and the types that are not devices (`linux/stat.h`):
/// unspecified, regular file, pipe, socket.
const FILE_TYPE_MASK: u64 = 0o170_000;
const PLAIN_FILE_TYPES: [u64; 4] = [0, 0o100_000, 0o010_000, 0o140_000];
/// The `ioctl` request that injects input into the user's terminal (`asm-generic/ioctls.h`).
const TIOCSTI: u64 = 0x5412;
/// Allowed socket families: unix, inet, inet6 and netlink (`linux/socket.h`).
const SOCKET_FAMILIES: [u64; 4] = [1, 2, 10, 16];
const UNIX_FAMILY: u64 = 1;
/// Personalities that debuggers and old programs need (`linux/personality.h`): `PER_LINUX` and
/// `PER_LINUX32`, each also with `UNAME26`; `ADDR_NO_RANDOMIZE`; and the query.
const PERSONALITIES: [u64; 6] = [0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff];
/// Number of bits that the kernel reads of a request or a mode.
const WORD_BITS: u32 = 32;

/// Returns the profile as JSON.
pub(super) fn profile_json() -> String {
    let mut rules = vec![
        json!({ "names": ALLOWED_CALLS.split_whitespace().collect::<Vec<_>>(), "action": ALLOW_ACTION }),
        // Their arguments are in memory, which no filter can read; libraries fall back to other
        // calls.
        json!({ "names": ["clone3", "openat2"], "action": FAIL_ACTION, "errnoRet": ENOSYS }),
        // All users of the machine share one limit on these contexts; databases work without them.
        json!({ "names": ["io_setup"], "action": FAIL_ACTION, "errnoRet": ENOSYS }),
        allow_masked("clone", 0, NAMESPACE_FLAGS, 0),
        allow_masked("chmod", 1, SETID_BITS, 0),
        allow_masked("fchmod", 1, SETID_BITS, 0),
        allow_masked("fchmodat", 2, SETID_BITS, 0),
        allow_masked("fchmodat2", 2, SETID_BITS, 0),
        allow_masked("creat", 1, SETID_BITS, 0),
        allow_masked("open", 2, SETID_BITS, 0),
        allow_masked("open", 1, CREATION_FLAGS, 0),
        allow_masked("openat", 3, SETID_BITS, 0),
        allow_masked("openat", 2, CREATION_FLAGS, 0),
        allow_masked("renameat2", 4, WHITEOUT_FLAG, 0),
        allow_masked("mmap", 3, MAP_HUGETLB, 0),
        allow_masked("memfd_create", 1, MFD_HUGETLB, 0),
        allow_masked("shmget", 2, SHM_HUGETLB, 0),
        allow_equal("socketpair", UNIX_FAMILY),
    ];
    rules.extend(
        PLAIN_FILE_TYPES.map(|kind| allow_masked("mknod", 1, FILE_TYPE_MASK | SETID_BITS, kind)),
    );
    rules.extend(
        PLAIN_FILE_TYPES.map(|kind| allow_masked("mknodat", 2, FILE_TYPE_MASK | SETID_BITS, kind)),
    );
    rules.extend(SOCKET_FAMILIES.map(|family| allow_equal("socket", family)));
    rules.extend(PERSONALITIES.map(|kind| allow_equal("personality", kind)));
    rules.extend(allow_all_but("ioctl", 1, TIOCSTI));
    rules.extend(allow_all_but("fcntl", 1, SETLEASE_COMMAND));
    json!({
        "defaultAction": FAIL_ACTION,
        "defaultErrnoRet": EPERM,
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": rules,
    })
    .to_string()
}

const ALLOW_ACTION: &str = "SCMP_ACT_ALLOW";
const FAIL_ACTION: &str = "SCMP_ACT_ERRNO";

/// Allows a call if its argument `index`, after applying a mask, equals `value`.
fn allow_masked(name: &str, index: u32, mask: u64, value: u64) -> Value {
    let check =
        json!({ "index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ" });
    json!({ "names": [name], "action": ALLOW_ACTION, "args": [check] })
}

/// Allows a call if any bit of its argument `index` differs from `value`. A comparison of the whole
/// argument would also include bits that the kernel ignores.
fn allow_all_but(name: &str, index: u32, value: u64) -> impl Iterator<Item = Value> {
    let masks = (0..WORD_BITS).map(|bit| 1 << bit);
    masks.map(move |mask| allow_masked(name, index, mask, !value & mask))
}

/// Allows a call if its first argument equals `value`.
fn allow_equal(name: &str, value: u64) -> Value {
    let check = json!({ "index": 0, "value": value, "op": "SCMP_CMP_EQ" });
    json!({ "names": [name], "action": ALLOW_ACTION, "args": [check] })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns whether a call with these arguments is allowed.
    fn is_made(name: &str, arguments: &[u64]) -> bool {
        let profile: Value = serde_json::from_str(&profile_json()).unwrap();
        let rules = profile["syscalls"].as_array().unwrap();
        let number = |check: &Value, field: &str| check[field].as_u64().unwrap();
        let fits = |check: &Value| {
            let index = usize::try_from(number(check, "index")).unwrap();
            let argument = arguments.get(index).copied().unwrap_or_default();
            match check["op"].as_str().unwrap() {
                "SCMP_CMP_EQ" => argument == number(check, "value"),
                _ => argument & number(check, "value") == number(check, "valueTwo"),
            }
        };
        rules.iter().any(|rule| {
            let names = rule["names"].as_array().unwrap();
            let checks = rule["args"].as_array().into_iter().flatten();
            rule["action"] == ALLOW_ACTION
                && names.contains(&json!(name))
                && checks.into_iter().all(fits)
        })
    }

    #[test]
    fn what_programs_need_is_made_and_what_reaches_around_is_not() {
        let check = |name: &str, arguments: &[u64], expected| {
            assert_eq!(is_made(name, arguments), expected, "{name} {arguments:?}");
        };
        check("openat", &[0, 0, 0, 0], true);
        check("openat", &[0, 0, 0o101, 0o644], true);
        check("openat", &[0, 0, 0o101, 0o4755], false);
        check("openat", &[0, 0, 0, 0o4755], true);
        check("open", &[0, 0o2020_0000, 0o2755], false);
        check("openat2", &[], false);
        check("creat", &[0, 0o644], true);
        check("creat", &[0, 0o2644], false);
        check("mount", &[], false);
        check("io_uring_setup", &[], false);
        check("ioctl", &[0, 0x5401], true);
        check("ioctl", &[0, TIOCSTI], false);
        check("ioctl", &[0, TIOCSTI | 1 << 32], false);
        check("fcntl", &[0, 3], true);
        check("fcntl", &[0, SETLEASE_COMMAND], false);
        check("renameat2", &[0, 0, 0, 0, 2], true);
        check("renameat2", &[0, 0, 0, 0, WHITEOUT_FLAG], false);
        check("mmap", &[0, 0, 0, 0x22], true);
        check("mmap", &[0, 0, 0, 0x22 | MAP_HUGETLB], false);
        check("chmod", &[0, 0o755], true);
        check("chmod", &[0, 0o4755], false);
        check("chmod", &[0, 0o2755], false);
        check("fchmodat", &[0, 0, 0o4755], false);
        check("mknodat", &[0, 0, 0o010_644], true);
        check("mknodat", &[0, 0, 0o020_644], false);
        check("mknodat", &[0, 0, 0o104_755], false);
        check("socket", &[2, 1], true);
        check("socket", &[40, 1], false);
        check("clone", &[0x11], true);
        check("clone", &[0x1000_0011], false);
        check("clone3", &[], false);
    }

    #[test]
    fn every_call_is_named_once() {
        let names: Vec<&str> = ALLOWED_CALLS.split_whitespace().collect();
        let distinct_names: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct_names.len(), names.len());
    }
}
