//! Limits on resources that the kernel counts for all processes of a user, or for the machine: an
//! attack in a sandbox leaves enough for the user's other programs. The control is the same attack
//! without a sandbox.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use massgen::world::sandbox::ENFORCING_LEVELS;
use rustix::process::geteuid;

use crate::command_runs::is_supported;
use crate::project::{Project, binary};

/// Path of Python, the same in every sandbox.
const PYTHON: &str = "/usr/bin/python3";
/// Puts as many file descriptors in flight as the kernel allows, prints the number, and keeps them
/// there.
const FLIGHT: &str = r#"
import array, os, resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
null, kept, count = os.open("/dev/null", os.O_RDONLY), [], 0
handles = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 250))]
try:
    while count < 100_000:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept.append(pair)
        for _ in range(8):
            pair[0].sendmsg([b"x"], handles)
            count += 250
except OSError:
    pass
print(count, flush=True)
sys.stdin.read()
"#;
/// Passes one descriptor, as the user's other programs do.
const PASS: &str = r#"
import array, socket
one, other = socket.socketpair()
one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
print("passed")
"#;
/// Watches all files below the current directory and prints their number.
const WATCH: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None)
instance, count = libc.inotify_init1(0), 0
for directory, _, files in os.walk("."):
    for name in files:
        if libc.inotify_add_watch(instance, os.path.join(directory, name).encode(), 2) < 0:
            break
        count += 1
print(count, flush=True)
sys.stdin.read()
"#;
/// Number of files to watch: more than a command may watch.
const FILES: usize = 9000;
/// Maximum number of files that a command may watch.
const WATCHES_MAX: usize = 8192;

/// Returns a project with a workspace and a grants file, owned by `user` if given.
fn project(user: Option<u32>, script: &str) -> Project {
    let project = Project::new().dir("ws").file("ws/attack.py", script);
    let workspace = project.path("ws").display().to_string();
    let grants =
        format!(r#"{{"workspace":"{workspace}","temp_workspaces":[],"context_paths":[]}}"#);
    let project = project.file("g.json", grants);
    if let Some(user) = user {
        give_to_user(project.path("..").as_path(), user);
    }
    project
}

fn give_to_user(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give_to_user(&entry.unwrap().path(), user);
        }
    }
}

/// Returns a user whose resources no other test or program uses; `None` if the test cannot become
/// one.
fn user_of_its_own(number: u32) -> Option<u32> {
    let user = geteuid().is_root().then_some(number)?;
    let mut version = as_user(Some(user), binary().to_str().unwrap());
    let version = version.arg("--version").output();
    let can_start = version.is_ok_and(|output| output.status.success());
    if !can_start {
        println!("skipped: another user cannot start massgen");
    }
    can_start.then_some(user)
}

/// Returns a command that runs the program as this user, with the limits that most users have: 1024
/// open files, which a program may raise to 20,000.
fn as_user(user: Option<u32>, program: &str) -> Command {
    let mut command = Command::new("prlimit");
    command.args(["--nofile=1024:20000", "--"]);
    if let Some(user) = user {
        let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
        command.args(["setpriv", &user, &group, "--clear-groups"]);
    }
    command.arg(program);
    command
}

/// An attack that continues until its standard input is closed.
struct Attack {
    child: Child,
    /// The first line that it printed.
    first_line: String,
}

impl Attack {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first_line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut first_line).unwrap();
        let first_line = first_line.trim().to_owned();
        Self { child, first_line }
    }

    fn count(&self) -> usize {
        self.first_line.parse().unwrap()
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Returns `massgen sandbox` in the project; the words of a command follow.
fn sandbox_command(project: &Project, user: Option<u32>, level: SandboxLevel) -> Command {
    let mut command = as_user(user, binary().to_str().unwrap());
    command
        .current_dir(project.path("ws"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", project.home(""))
        .args(["sandbox", "--sandbox", &level.to_string(), "--grants"])
        .arg(project.path("g.json"))
        .arg("--");
    command
}

/// Returns the output of a command in a sandbox, including errors.
fn run_and_read(mut command: Command, arguments: &[&str]) -> String {
    let mut child = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = String::new();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    stdout.read_to_string(&mut output).unwrap();
    stderr.read_to_string(&mut output).unwrap();
    child.wait().unwrap();
    output.trim().to_owned()
}

/// Returns the output of a script outside of every sandbox.
fn run_unsandboxed(user: Option<u32>, script: &str) -> String {
    let mut command = as_user(user, PYTHON);
    command.current_dir("/");
    run_and_read(command, &["-c", script])
}

#[test]
fn descriptors_in_flight_leave_enough_for_others() {
    for (level, number) in [
        (SandboxLevel::Overlay, 61_341),
        (SandboxLevel::Namespaces, 61_342),
        (SandboxLevel::Landlock, 61_343),
    ] {
        let user = user_of_its_own(number);
        if !is_supported(level) || (user.is_none() && geteuid().is_root()) {
            continue;
        }
        let project = project(user, FLIGHT);
        let mut attack = sandbox_command(&project, user, level);
        attack.args([PYTHON, "attack.py"]);
        let attack = Attack::start(attack);
        let count = attack.count();
        assert!((512..1024).contains(&count), "level {level}: {count}");
        assert_eq!(run_unsandboxed(user, PASS), "passed", "level {level}");
        let other = run_and_read(sandbox_command(&project, user, level), &["echo", "starts"]);
        assert_eq!(other, "starts", "level {level}");
        drop(attack);
        // Without the attack, commands can pass descriptors to each other.
        let passed = run_and_read(
            sandbox_command(&project, user, level),
            &[PYTHON, "-c", PASS],
        );
        assert_eq!(passed, "passed", "level {level}");
    }
}

#[test]
fn descriptors_in_flight_outside_leave_nothing() {
    let Some(user) = user_of_its_own(61_344) else {
        return;
    };
    let mut attack = as_user(Some(user), PYTHON);
    attack.args(["-c", FLIGHT]);
    let attack = Attack::start(attack);
    assert!(attack.count() > 10_000, "{}", attack.first_line);
    let others = run_unsandboxed(Some(user), PASS);
    assert!(others.contains("Too many references"), "{others}");
}

#[test]
fn massgen_passes_descriptors_where_other_programs_cannot() {
    let Some(user) = user_of_its_own(61_345) else {
        return;
    };
    for level in supported_levels() {
        let project = project(Some(user), FLIGHT);
        // Twice as many as other programs may have open.
        let limited = FLIGHT.replace(
            "setrlimit(resource.RLIMIT_NOFILE, (most, most))",
            "setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))",
        );
        let mut attack = as_user(Some(user), PYTHON);
        attack.args(["-c", &limited]);
        let attack = Attack::start(attack);
        assert!(attack.count() > 1024, "{}", attack.first_line);
        assert_ne!(run_unsandboxed(Some(user), PASS), "passed");
        let started = run_and_read(
            sandbox_command(&project, Some(user), level),
            &["echo", "starts"],
        );
        assert_eq!(started, "starts", "level {level}");
    }
}

#[test]
fn watches_over_files_leave_enough_for_others() {
    let project = project(None, WATCH).dir("ws/many");
    for number in 0..FILES {
        fs::write(project.path(format!("ws/many/{number}")), "").unwrap();
    }
    for level in [SandboxLevel::Overlay, SandboxLevel::Namespaces]
        .into_iter()
        .filter(|level| is_supported(*level))
    {
        let mut attack = sandbox_command(&project, None, level);
        attack.args([PYTHON, "attack.py"]);
        let attack = Attack::start(attack);
        let count = attack.count();
        assert!((1..=WATCHES_MAX).contains(&count), "level {level}: {count}");
    }
    let mut control = Command::new(PYTHON);
    control.arg("attack.py").current_dir(project.path("ws"));
    let control = Attack::start(control);
    assert!(control.count() > WATCHES_MAX, "{}", control.first_line);
}

/// Returns the hard limit with this name from `/proc/self/limits`.
fn hard_limit(limits: &str, name: &str) -> u64 {
    let line = limits.lines().find_map(|line| line.strip_prefix(name));
    let words = line.unwrap_or_else(|| panic!("no {name} in {limits}"));
    let hard = words.split_whitespace().nth(1).unwrap();
    hard.parse().unwrap_or(u64::MAX)
}

#[test]
fn every_count_of_a_user_has_a_limit_in_a_sandbox() {
    let project = project(None, "");
    let own = fs::read_to_string("/proc/self/limits").unwrap();
    for level in supported_levels() {
        let limits = run_and_read(
            sandbox_command(&project, None, level),
            &["cat", "/proc/self/limits"],
        );
        for (name, most) in [
            ("Max open files", 512),
            ("Max pending signals", 4096),
            ("Max msgqueue size", 204_800),
            ("Max locked memory", 1 << 20),
            ("Max core file size", 1),
            ("Max nice priority", 0),
            ("Max realtime priority", 0),
        ] {
            let expected = hard_limit(&own, name).min(most);
            assert_eq!(hard_limit(&limits, name), expected, "level {level}: {name}");
        }
    }
}

#[test]
fn a_config_may_open_more_files() {
    let team = "agents:\n  - id: a\n    backend:\n      type: scripted\n      cwd: ws\n      \
                enable_mcp_command_line: true\n      command_line_limits: {open_files: 700}\n      \
                replies: []\n";
    let finished = Project::new()
        .dir("ws")
        .file("team.yaml", team)
        .args(["sandbox", "--config", "team.yaml", "--", "sh", "-c"])
        .args(["ulimit -Sn; ulimit -Hn"])
        .success();
    assert_eq!(finished.stdout(), "700\n700\n");
}

/// Returns the levels that this machine and user support.
fn supported_levels() -> impl Iterator<Item = SandboxLevel> {
    let levels = ENFORCING_LEVELS.iter().copied();
    levels.filter(|level| is_supported(*level))
}

/// Checks what the program of `project` prints at every level.
#[track_caller]
fn check_attack(project: &Project, expected: &str) {
    for level in supported_levels() {
        let output = run_and_read(
            sandbox_command(project, None, level),
            &[PYTHON, "attack.py"],
        );
        assert_eq!(output, expected, "level {level}");
    }
}

/// Sets up as many asynchronous I/O requests as the machine allows.
const REQUESTS: &str = r#"
import ctypes, os, platform
number = {"x86_64": 206, "aarch64": 0}[platform.machine()]
libc, context = ctypes.CDLL(None, use_errno=True), ctypes.c_ulong(0)
done = libc.syscall(number, 1, ctypes.byref(context))
print("made" if done == 0 else os.strerror(ctypes.get_errno()))
"#;

#[test]
fn no_command_takes_requests_that_the_whole_machine_shares() {
    check_attack(&project(None, REQUESTS), "Function not implemented");
    assert_eq!(run_unsandboxed(None, REQUESTS), "made");
}

/// Asks for memory in huge pages, in each way that there is, and prints how that ended.
const HUGE_PAGES: &str = r#"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
private, huge = 0x22, 0x40000
def end(result):
    return errno.errorcode[ctypes.get_errno()] if result in (-1, ctypes.c_void_p(-1).value) else "made"
for flags in (private, private | huge):
    print("mmap", end(libc.mmap(None, 2 << 20, 3, flags, -1, 0)))
for flags in (0, 4):
    print("memfd", end(libc.memfd_create(b"x", flags)))
"#;

#[test]
fn no_command_takes_huge_pages_of_the_machine() {
    let expected = "mmap made\nmmap ENOMEM\nmemfd made\nmemfd ENOMEM";
    check_attack(&project(None, HUGE_PAGES), expected);
    let output = run_unsandboxed(None, HUGE_PAGES);
    assert!(output.ends_with("memfd made\nmemfd made"), "{output}");
}

/// Opens pseudoterminals until there are no more.
const TERMINALS: &str = r#"
import os
kept = []
try:
    while len(kept) < 100:
        kept.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError:
    pass
print(len(kept))
"#;

#[test]
fn a_command_has_pseudo_terminals_of_its_own_and_not_too_many() {
    let project = project(None, TERMINALS);
    for level in [SandboxLevel::Overlay, SandboxLevel::Namespaces]
        .into_iter()
        .filter(|level| is_supported(*level))
    {
        let output = run_and_read(
            sandbox_command(&project, None, level),
            &[PYTHON, "attack.py"],
        );
        let count: usize = output.parse().unwrap();
        assert!((1..=64).contains(&count), "level {level}: {output}");
    }
    assert_eq!(run_unsandboxed(None, TERMINALS), "100");
}

#[test]
fn kernel_details_that_programs_do_not_need_are_hidden() {
    let project = project(None, "");
    let closed = [
        "slabinfo",
        "vmallocinfo",
        "timer_list",
        "kallsyms",
        "keys",
        "key-users",
    ];
    let needed = [
        "meminfo",
        "cpuinfo",
        "stat",
        "self/status",
        "sys/kernel/osrelease",
    ];
    let lengths = |names: &[&str]| {
        let paths = names.iter().map(|name| format!("/proc/{name}"));
        let count = |path| format!("head -c 100 {path} 2>/dev/null | wc -c; ");
        paths.map(count).collect::<String>()
    };
    for level in [SandboxLevel::Overlay, SandboxLevel::Namespaces]
        .into_iter()
        .filter(|level| is_supported(*level))
    {
        let read = |names| {
            run_and_read(
                sandbox_command(&project, None, level),
                &["sh", "-c", &lengths(names)],
            )
        };
        let output = read(&closed);
        assert!(
            output.lines().all(|line| line == "0"),
            "level {level}: {output}"
        );
        let output = read(&needed);
        assert!(
            output.lines().all(|line| line != "0"),
            "level {level}: {output}"
        );
    }
    if geteuid().is_root() {
        assert_ne!(fs::read_to_string("/proc/slabinfo").unwrap(), "");
    }
}

/// Creates files until there can be no more, with pauses in which massgen, on a busy machine, can count
/// them.
const MANY_FILES: &str = r#"
import os, time
number = 0
try:
    while True:
        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
        number += 1
        if number % 100 == 0:
            time.sleep(0.002)
except OSError as error:
    print(error, flush=True)
time.sleep(2)
print("survived")
"#;

#[test]
fn a_command_leaves_room_for_files_on_its_disk() {
    if !geteuid().is_root() {
        println!("skipped: only root mounts a small disk");
        return;
    }
    let few = MANY_FILES.replace("while True", "while number < 1000");
    // Only its end by massgen keeps it from the end of its sleep.
    let many = MANY_FILES.replace("sleep(2)", "sleep(60)");
    for level in supported_levels() {
        let project = project(None, "")
            .file("few.py", &few)
            .file("many.py", &many);
        // In its own mount namespace, so that no other process sees the disk.
        let script = "mount -t tmpfs -o size=900m,nr_inodes=20k none ws && cp \"$1\" ws/attack.py && \
                      shift && \"$@\"; touch ws/more && echo there is room";
        let run = |attack: &str| {
            let mut command = Command::new("unshare");
            command
                .args(["-m", "sh", "-c", script, "sh", attack])
                .arg(binary())
                .current_dir(project.path(""))
                .env("HOME", project.home(""));
            command.args([
                "sandbox",
                "--sandbox",
                &level.to_string(),
                "--grants",
                "g.json",
            ]);
            run_and_read(command, &["--", "sh", "-c", "/usr/bin/python3 attack.py"])
        };
        let output = run("few.py");
        assert!(output.contains("survived"), "level {level}: {output}");
        let output = run("many.py");
        assert!(
            output.contains("room for only a few more files"),
            "level {level}: {output}"
        );
        assert!(output.contains("there is room"), "level {level}: {output}");
        assert!(!output.contains("survived"), "level {level}: {output}");
    }
}
