//! Level `landlock` with the real helper: what a command can and cannot do on a machine that it
//! shares, as root and as an ordinary user. Each denial has its control.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use massgen::path::AbsPath;
use massgen::permissions::grant::{GrantScope, Permission};
use massgen::sandbox_policy::NetworkAccess;
use massgen::sandbox_policy::ResourceLimits;
use massgen::sandbox_policy::helper_protocol::HelperReport;
use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use massgen::sandbox_policy::{AccessiblePath, SandboxPolicy};
use rustix::process::{Pid, Signal, kill_process};

use crate::helper_driver::{
    HelperOutcome, NOBODY, PATIENCE, RunningHelper, own_user, processes_with, start,
};
use crate::waiting::wait_until;

/// A small disk of a user: `ws` is the agent's, `ro` is open for reading, `out` is not open.
struct LandlockFixture {
    dir: tempfile::TempDir,
    user: Option<u32>,
}

impl LandlockFixture {
    /// Returns one for the user of the tests, and one for an ordinary user if the tests can become
    /// one.
    fn each() -> Vec<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let users = [Some(None), is_root.then_some(Some(NOBODY))];
        users.into_iter().flatten().map(Self::new).collect()
    }

    fn new(user: Option<u32>) -> Self {
        let fixture = Self {
            dir: tempfile::Builder::new()
                .prefix("landlock")
                .tempdir()
                .unwrap(),
            user,
        };
        for name in [
            "",
            "ws",
            "ro",
            "ro/sub",
            "ro/secret",
            "out",
            "home",
            "scratch",
        ] {
            let dir = fixture.path(name);
            fs::create_dir_all(&dir).unwrap();
            fixture.give(&dir);
        }
        for name in [
            "ws/own",
            "ro/known",
            "ro/sub/known",
            "ro/secret/key",
            "out/known",
        ] {
            fixture.write(name, name);
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn abs(&self, name: &str) -> AbsPath {
        AbsPath::new(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
        self.give(&self.path(name));
    }

    fn give(&self, path: &Path) {
        if let Some(user) = self.user {
            chown(path, Some(user), Some(user)).unwrap();
        }
    }

    /// Returns a snapshot of everything outside the workspace: names, modes, times and content.
    fn rest(&self) -> Vec<(PathBuf, u32, i64, i64, Vec<u8>)> {
        use std::os::unix::fs::MetadataExt;
        let mut seen = Vec::new();
        let mut open = vec![self.path("ro"), self.path("out")];
        while let Some(path) = open.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            if meta.is_dir() {
                open.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            seen.push((path, meta.mode(), meta.mtime(), meta.mtime_nsec(), content));
        }
        seen.sort();
        seen
    }

    fn open(&self, name: &str, permission: Permission) -> AccessiblePath {
        let path = self.abs(name);
        let scope = if path.as_path().is_dir() {
            GrantScope::Tree
        } else {
            GrantScope::File
        };
        AccessiblePath {
            path,
            permission,
            scope,
        }
    }

    fn policy(&self, script: &str) -> SandboxPolicy {
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", self.abs("home").to_string()),
            ("TMPDIR", self.abs("scratch").to_string()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value));
        SandboxPolicy {
            level: SandboxLevel::Landlock,
            open: vec![
                self.open("ws", Permission::Write),
                self.open("ro", Permission::Read),
            ],
            identities: BTreeMap::new(),
            masked: Vec::new(),
            hidden: Vec::new(),
            layers: Vec::new(),
            toolchains: Vec::new(),
            home: self.abs("home"),
            scratch: self.abs("scratch"),
            dir: self.abs("ws"),
            network: NetworkAccess::None,
            env: BTreeMap::from(env),
            limits: ResourceLimits::default(),
            program: ["bash", "-c", script].map(str::to_owned).to_vec(),
        }
    }

    fn start(&self, policy: &SandboxPolicy) -> RunningHelper {
        start(policy, self.user.unwrap_or_else(own_user), None)
    }

    fn run(&self, policy: &SandboxPolicy) -> CommandResult {
        let HelperOutcome {
            reports,
            stdout,
            stderr,
        } = self.start(policy).end();
        CommandResult {
            reports,
            output: [stdout, stderr].concat().trim().to_owned(),
        }
    }
}

/// Result of a command.
#[derive(Debug)]
struct CommandResult {
    reports: Vec<HelperReport>,
    output: String,
}

fn exit_reports(code: i32) -> Vec<HelperReport> {
    let ended = HelperReport::Ended {
        code: Some(code),
        signal: None,
    };
    vec![HelperReport::Started, ended]
}

/// Runs `script` for every user, and compares its output line by line. Nothing outside the
/// workspace may be different afterwards.
#[track_caller]
fn check(script: &str, expected: &str) {
    check_with(|_, _| {}, script, expected);
}

#[track_caller]
fn check_with(
    prepare: impl Fn(&LandlockFixture, &mut SandboxPolicy),
    script: &str,
    expected: &str,
) {
    for fixture in LandlockFixture::each() {
        let mut policy = fixture.policy(script);
        prepare(&fixture, &mut policy);
        let before = fixture.rest();
        let done = fixture.run(&policy);
        assert_eq!(done.output, expected, "{:?} {script}", fixture.user);
        assert_eq!(done.reports, exit_reports(0), "{:?} {script}", fixture.user);
        assert_eq!(fixture.rest(), before, "{:?} {script}", fixture.user);
    }
}

/// Compares the result of each command with the expected one.
#[track_caller]
fn check_each(expected: &str, commands: &[&str]) {
    check_each_with(|_, _| {}, expected, commands);
}

#[track_caller]
fn check_each_with(
    prepare: impl Fn(&LandlockFixture, &mut SandboxPolicy),
    expected: &str,
    commands: &[&str],
) {
    let each = commands
        .iter()
        .map(|command| format!("({command}) >/dev/null 2>&1 && echo yes || echo no"));
    let script = each.collect::<Vec<_>>().join("\n");
    let lines = commands.iter().map(|_| expected);
    check_with(prepare, &script, &lines.collect::<Vec<_>>().join("\n"));
}

/// Returns a Python program that does what a shell has no command for.
fn python_command(lines: &str) -> String {
    format!("python3 -c '\nimport os, socket, fcntl, resource\n{lines}'")
}

#[track_caller]
fn check_each_python(expected: &str, programs: &[&str]) {
    let programs: Vec<String> = programs
        .iter()
        .map(|program| python_command(program))
        .collect();
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    check_each(expected, &programs);
}

#[test]
fn a_command_reads_and_writes_what_is_open() {
    check_each(
        "yes",
        &[
            "cat own",
            "echo x > new",
            "mkdir -p a/b && mv own a/b/ && rm -r a",
            "cat ../ro/known ../ro/sub/known",
            "ls ../ro",
            "echo x > $HOME/new && echo x > $TMPDIR/new",
            "python3 -c 'import ssl, json'",
            "cat /etc/passwd /proc/self/status /proc/meminfo",
            "echo x > /dev/null && head -c 1 /dev/urandom",
        ],
    );
}

#[test]
fn a_command_neither_reads_nor_writes_anything_else() {
    check_each(
        "no",
        &[
            "cat ../out/known",
            "ls ../out",
            "ls ..",
            "echo x > ../ro/new",
            "echo x >> ../ro/known",
            "rm ../ro/known",
            "mv ../ro/known .",
            "ln ../ro/known hard && echo x >> hard",
            "ln -s ../out/known soft && cat soft",
            "truncate -s 0 ../ro/known",
            "echo x > /tmp/massgen-level-c",
            "ls /root /home /var/log /run",
            "cat /etc/shadow",
            "cat /proc/$PPID/environ",
            "ls /proc/1/root/",
            "echo 60 > /proc/sys/vm/swappiness",
            "ls /dev/pts",
            "cat /dev/mem",
            "mount -t tmpfs none a",
            "unshare -U true",
            "chroot . true",
            "kill -0 $PPID",
            "kill -9 $PPID",
        ],
    );
    check_each_python(
        "no",
        &[
            "os.open(\"../ro/known\", os.O_RDONLY | os.O_TRUNC)",
            "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))",
            "import ctypes; c = ctypes.CDLL(None); os._exit(c.shmget(0, 4096, 0o1600) < 0)",
        ],
    );
}

#[test]
fn file_metadata_changes_only_in_the_workspace() {
    let changes = [
        "chmod 600 FILE",
        "touch FILE",
        "touch -d 2001-01-01 FILE",
        "chown $(id -u):$(id -g) FILE",
    ];
    let by_handle = [
        "os.fchmod(os.open(\"FILE\", 0), 0o600)",
        "os.chmod(\"/proc/self/fd/%d\" % os.open(\"FILE\", 0), 0o600)",
        "os.chmod(\"/dev/fd/%d\" % os.open(\"FILE\", 0), 0o600)",
        "os.chmod(os.path.basename(\"FILE\"), 0o600, \
         dir_fd=os.open(os.path.dirname(\"FILE\") or \".\", os.O_PATH))",
        "os.symlink(os.path.abspath(\"FILE\"), \"l\"); os.chmod(\"l\", 0o600); os.unlink(\"l\")",
        "os.utime(os.open(\"FILE\", 0))",
        "os.utime(\"FILE\", ns=(1, 2))",
        "os.setxattr(\"FILE\", \"user.x\", b\"y\"); os.removexattr(\"FILE\", \"user.x\")",
        "os.setxattr(os.open(\"FILE\", 0), \"user.x\", b\"y\")",
    ];
    for (file, expected) in [
        ("own", "yes"),
        ("../ro/known", "no"),
        ("../out/known", "no"),
    ] {
        let on = |change: &&str| change.replace("FILE", file);
        let changes: Vec<String> = changes.iter().map(on).collect();
        check_each(
            expected,
            &changes.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        let by_handle: Vec<String> = by_handle.iter().map(on).collect();
        let by_handle: Vec<&str> = by_handle.iter().map(String::as_str).collect();
        check_each_python(expected, &by_handle);
    }
}

#[test]
fn rights_that_reach_beyond_the_user_are_not_given_away() {
    check_each("yes", &["chmod 700 own", "chmod g+s .", "ls"]);
    check_each(
        "no",
        &["chmod 4755 own", "chmod 2755 own", "chown 12345 own"],
    );
    check_each_python(
        "no",
        &[
            "os.setxattr(\"own\", \"security.capability\", b\"y\")",
            "os.setxattr(\"own\", \"trusted.x\", b\"y\")",
            // `FS_IOC_SETFLAGS` only needs a read-only handle.
            "fcntl.ioctl(os.open(\"../ro/known\", 0), 0x40086602, bytes([64, 0, 0, 0]))",
        ],
    );
}

#[test]
fn no_socket_signals_a_process_that_its_owner_chose() {
    let signalled_by = |request: &str| {
        format!(
            "fcntl.ioctl(socket.socketpair()[0], {request}, os.getpid().to_bytes(4, \"little\"))"
        )
    };
    // `FIOASYNC`, `FIOSETOWN` and `SIOCSPGRP`.
    check_each_python("yes", &[&signalled_by("0x5452")]);
    check_each_python("no", &[&signalled_by("0x8901"), &signalled_by("0x8902")]);
}

#[test]
fn everyday_tools_work_in_the_workspace() {
    let git = "git -c user.name=a -c user.email=a@b";
    let script = format!(
        "set -e
        mkdir a; echo 1 > a/x; chmod 751 a/x; ln -s x a/l; touch -h -d 2001-01-01 a/l
        tar cf t.tar a; rm -r a; tar xf t.tar
        stat -c '%a %N' a/x a/l; stat -c %y a/l | cut -c1-10
        cp -a a b; cp -p ../ro/known k; install -m 640 k kk; stat -c %a kk
        git init -q g; cd g; echo 1 > f; git add f; {git} commit -qm one
        echo 2 > f; {git} stash -q; {git} stash pop -q; {git} commit -qam two
        git gc -q; git log --format=%s
        python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, 2]))'
        python3 -c 'import pty, os; m, s = pty.openpty(); os.write(s, b\"x\"); print(os.read(m, 1))'"
    );
    let expected = "751 'a/x'\n777 'a/l' -> 'x'\n2001-01-01\n640\ntwo\none\n[1, 2]\nb'x'";
    check(&script, expected);
}

#[test]
fn hidden_paths_at_level_landlock_have_a_name_and_no_content() {
    let hides = |names: &'static [&'static str]| {
        move |fixture: &LandlockFixture, policy: &mut SandboxPolicy| {
            policy.hidden = names.iter().map(|name| fixture.abs(name)).collect();
        }
    };
    let open = [
        "cat ../ro/known",
        "cat ../ro/sub/known",
        "ls ../ro",
        "ls ../ro/secret",
    ];
    check_each_with(hides(&["ro/secret"]), "yes", &open);
    check_each_with(hides(&["ro/secret/key"]), "yes", &open);
    check_each_with(hides(&["ro/none"]), "yes", &["cat ../ro/secret/key"]);
    let closed = ["cat ../ro/secret/key"];
    check_each_with(hides(&["ro/secret"]), "no", &closed);
    check_each_with(hides(&["ro/secret/key"]), "no", &closed);
    check_each_with(hides(&["ro"]), "no", &["cat ../ro/known", "ls ../ro"]);
}

#[test]
fn a_link_among_the_siblings_of_something_hidden_opens_nothing() {
    let prepare = |fixture: &LandlockFixture, policy: &mut SandboxPolicy| {
        symlink(fixture.path("out"), fixture.path("ro/link")).unwrap();
        symlink(fixture.path("ro/secret"), fixture.path("ro/sub/link")).unwrap();
        policy.hidden = vec![fixture.abs("ro/secret")];
    };
    let closed = ["cat ../ro/link/known", "cat ../ro/sub/link/key"];
    check_each_with(prepare, "no", &closed);
    check_each_with(prepare, "yes", &["cat ../ro/sub/known"]);
}

#[test]
fn the_deepest_grant_applies() {
    let inside_hidden = |fixture: &LandlockFixture, policy: &mut SandboxPolicy| {
        fs::create_dir(fixture.path("ro/secret/open")).unwrap();
        fixture.give(&fixture.path("ro/secret/open"));
        policy.hidden = vec![fixture.abs("ro/secret")];
        let deeper = fixture.open("ro/secret/open", Permission::Write);
        policy.open.push(deeper);
    };
    for fixture in LandlockFixture::each() {
        let mut policy = fixture.policy("echo x > ../ro/secret/open/new && cat ../ro/secret/key");
        inside_hidden(&fixture, &mut policy);
        let done = fixture.run(&policy);
        assert_eq!(done.reports, exit_reports(1), "{done:?}");
        assert!(fixture.path("ro/secret/open/new").exists());
    }
    let one_file = |fixture: &LandlockFixture, policy: &mut SandboxPolicy| {
        policy.open = vec![
            fixture.open("ws", Permission::Write),
            fixture.open("ro/known", Permission::Read),
        ];
    };
    check_each_with(one_file, "yes", &["cat ../ro/known"]);
    check_each_with(
        one_file,
        "no",
        &["cat ../ro/sub/known", "ls ../ro", "echo x >> ../ro/known"],
    );
}

#[track_caller]
fn check_refused(prepare: impl Fn(&LandlockFixture, &mut SandboxPolicy), expected: &str) {
    for fixture in LandlockFixture::each() {
        let mut policy = fixture.policy("touch ran");
        prepare(&fixture, &mut policy);
        let done = fixture.run(&policy);
        match done.reports.as_slice() {
            [HelperReport::Refused { step, reason }] => {
                let message = format!("{step}: {reason}");
                assert!(message.contains(expected), "{message}");
            }
            other => panic!("{other:?}"),
        }
        assert!(!fixture.path("ws/ran").exists());
    }
}

#[test]
fn policies_that_landlock_cannot_enforce_are_refused_with_the_cause() {
    let remedy = "which contains it; levels `overlay` and `namespaces` support this";
    check_refused(
        |fixture, policy| policy.hidden = vec![fixture.abs("ws/own")],
        remedy,
    );
    check_refused(
        |fixture, policy| policy.masked = vec![fixture.abs("ws/own")],
        remedy,
    );
    check_refused(
        |fixture, policy| {
            let lower = fixture.open("ws/own", Permission::Read);
            policy.open.push(lower);
        },
        remedy,
    );
    check_refused(
        |fixture, policy| {
            let replaced_workspace = fixture.open("ws", Permission::Write);
            fs::rename(fixture.path("ws"), fixture.path("moved")).unwrap();
            symlink(fixture.path("out"), fixture.path("ws")).unwrap();
            policy.dir = fixture.abs("home");
            policy.open = vec![replaced_workspace];
        },
        "ws` cannot be opened",
    );
    check_refused(
        |_, policy| policy.program = vec!["no-such-program".to_owned()],
        "starting `no-such-program`",
    );
    check_refused(
        |fixture, policy| policy.dir = fixture.abs("nowhere"),
        "nowhere`",
    );
}

/// Sockets of the user's other programs.
struct UserSockets {
    tcp: TcpListener,
    other_tcp: TcpListener,
    /// At the port of `tcp` on another address.
    _elsewhere: TcpListener,
    udp: UdpSocket,
    stream: UnixListener,
    datagram: UnixDatagram,
}

impl UserSockets {
    /// Creates the sockets; those with paths are in the workspace, where a command certainly finds
    /// them.
    fn new(fixture: &LandlockFixture) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let others = Self {
            tcp,
            _elsewhere: TcpListener::bind(("127.0.0.2", port)).unwrap(),
            other_tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            stream: UnixListener::bind(fixture.path("ws/stream")).unwrap(),
            datagram: UnixDatagram::bind(fixture.path("ws/datagram")).unwrap(),
        };
        fixture.give(&fixture.path("ws/stream"));
        fixture.give(&fixture.path("ws/datagram"));
        others
    }

    /// Returns a program that tries to reach each of them.
    fn attempts(&self) -> String {
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let (tcp, other) = (port(&self.tcp), port(&self.other_tcp));
        let udp = self.udp.local_addr().unwrap().port();
        python_command(&format!(
            r#"
def tried(name, what):
    try:
        what()
        print(name, "yes")
    except OSError as error:
        print(name, "no")
S = socket
tried("tcp", lambda: S.create_connection(("127.0.0.1", {tcp}), 5))
tried("other", lambda: S.create_connection(("127.0.0.1", {other}), 5))
tried("elsewhere", lambda: S.create_connection(("127.0.0.2", {tcp}), 5))
tried("fast", lambda: S.socket().sendto(b"x", 0x20000000, ("127.0.0.1", {other})))
tried("mptcp", lambda: S.socket(2, 1, 262).connect(("127.0.0.1", {other})))
tried("udp", lambda: S.socket(2, 2).sendto(b"x", ("127.0.0.1", {udp})))
tried("listen", lambda: S.socket().listen())
tried("stream", lambda: S.socket(1, 1).connect("stream"))
tried("datagram", lambda: S.socket(1, 2).sendto(b"x", "datagram"))
tried("pair", lambda: S.socketpair(1, 2)[0].sendto(b"x", "datagram"))
tried("raw", lambda: S.socketpair(1, 3)[0].sendto(b"x", "datagram"))
one, other = S.socketpair()
tried("streams", lambda: one.send(b"x"))
"#
        ))
    }
}

#[track_caller]
fn check_reach(network: impl Fn(&UserSockets) -> NetworkAccess, reached: &[&str]) {
    for fixture in LandlockFixture::each() {
        let others = UserSockets::new(&fixture);
        let mut policy = fixture.policy(&others.attempts());
        policy.network = network(&others);
        let done = fixture.run(&policy);
        assert_eq!(done.reports, exit_reports(0), "{done:?}");
        let lines = done
            .output
            .lines()
            .filter_map(|line| line.strip_suffix(" yes"));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            reached,
            "{:?}: {}",
            fixture.user,
            done.output
        );
        others.datagram.set_nonblocking(true).unwrap();
        others.stream.set_nonblocking(true).unwrap();
        assert!(others.datagram.recv(&mut [0]).is_err());
        assert!(others.stream.accept().is_err());
    }
}

#[test]
fn sockets_lead_only_where_the_network_is_open_to() {
    check_reach(|_| NetworkAccess::None, &["streams"]);
    let port = |others: &UserSockets| others.tcp.local_addr().unwrap().port();
    let to_proxy = |others: &UserSockets| NetworkAccess::Proxy { port: port(others) };
    check_reach(to_proxy, &["tcp", "streams"]);
    let on_host = [
        "tcp",
        "other",
        "elsewhere",
        "fast",
        "mptcp",
        "udp",
        "listen",
        "streams",
    ];
    check_reach(|_| NetworkAccess::Host, &on_host);
}

/// Returns a script that starts processes which leave their parents, sessions and groups, and
/// ignore signals.
fn socket_attempt(word: &str) -> String {
    format!(
        "sleep {word} & setsid sleep {word} & (setsid setsid sleep {word} &) ; nohup sleep {word} &
        (trap '' TERM INT HUP; exec sleep {word}) &
        setsid bash -c 'setsid bash -c \"sleep {word} & exit\" & exit'
        while [ $(pgrep -fxc 'sleep {word}') -lt 6 ]; do sleep .01; done"
    )
}

#[test]
fn processes_of_a_command_end_with_it() {
    for (index, fixture) in LandlockFixture::each().into_iter().enumerate() {
        let word = format!("98{index}1.{}", std::process::id());
        let done = fixture.run(&fixture.policy(&format!("{}; exit 3", socket_attempt(&word))));
        let mut expected = exit_reports(3);
        expected.insert(1, HelperReport::LeftBehind);
        assert_eq!(done.reports, expected, "{done:?}");
        assert_eq!(processes_with(&word), 0);
    }
}

#[test]
fn processes_of_a_command_end_when_massgen_exits() {
    for (index, fixture) in LandlockFixture::each().into_iter().enumerate() {
        let word = format!("98{index}2.{}", std::process::id());
        let script = format!("{}; touch ready; sleep {word}", socket_attempt(&word));
        let RunningHelper { mut helper, socket } = fixture.start(&fixture.policy(&script));
        wait_until("the command is ready", PATIENCE, || {
            fixture.path("ws/ready").exists()
        });
        assert!(processes_with(&word) >= 6);
        // The kernel closes it, whatever ends massgen.
        drop(socket);
        // It cannot report its outcome.
        helper.wait().unwrap();
        assert_eq!(processes_with(&word), 0);
    }
}

#[test]
fn processes_of_a_command_end_when_the_supervisor_is_killed() {
    for (index, fixture) in LandlockFixture::each().into_iter().enumerate() {
        let word = format!("98{index}4.{}", std::process::id());
        let script = format!("{}; touch ready; sleep {word}", socket_attempt(&word));
        let mut started = fixture.start(&fixture.policy(&script));
        wait_until("the command is ready", PATIENCE, || {
            fixture.path("ws/ready").exists()
        });
        let outer = started.helper.id();
        let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
        let supervisor = children.trim().parse().ok().and_then(Pid::from_raw);
        kill_process(supervisor.unwrap(), Signal::KILL).unwrap();
        started.helper.wait().unwrap();
        assert_eq!(processes_with(&word), 0);
        assert_eq!(
            started.report().map(|(report, _)| report),
            Some(HelperReport::Started)
        );
        assert!(started.report().is_none());
    }
}

/// Many processes each fork another and exit, so that none is where it was just seen.
#[test]
fn processes_that_run_away_are_all_ended() {
    let program = "import os, time\nfirst = os.getpid()\nfor i in range(6): os.fork()\n\
                   while True:\n    if os.getpid() != first and os.fork(): os._exit(0)\n    \
                   time.sleep(.03)";
    for (index, fixture) in LandlockFixture::each().into_iter().enumerate() {
        let word = format!("98{index}3.{}", std::process::id());
        let mut policy = fixture.policy("");
        policy.program = ["python3", "-c", program, &word]
            .map(str::to_owned)
            .to_vec();
        let mut started = fixture.start(&policy);
        let (report, _) = started.report().unwrap();
        assert_eq!(report, HelperReport::Started);
        wait_until("all that it starts runs", PATIENCE, || {
            processes_with(&word) >= 20
        });
        drop(started.socket);
        started.helper.wait().unwrap();
        assert_eq!(processes_with(&word), 0);
    }
}

#[test]
fn limits_of_each_process_hold() {
    let limited = |limits: ResourceLimits| {
        move |_: &LandlockFixture, policy: &mut SandboxPolicy| {
            policy.limits = limits;
        }
    };
    let small_files = ResourceLimits {
        file_bytes: 1024,
        ..ResourceLimits::default()
    };
    let grown = |bytes| python_command(&format!("os.truncate(\"own\", {bytes})"));
    check_each_with(limited(small_files), "yes", &[&grown(1024)]);
    check_each_with(limited(small_files), "no", &[&grown(1025)]);
    let little_memory = ResourceLimits {
        memory_bytes: Some(64 << 20),
        ..ResourceLimits::default()
    };
    check_each_with(
        limited(little_memory),
        "yes",
        &["python3 -c 'bytearray(1 << 20)'"],
    );
    check_each_with(
        limited(little_memory),
        "no",
        &["python3 -c 'bytearray(1 << 27)'"],
    );
}

/// What this level does not promise, as documented in `docs/sandbox.md`.
#[test]
fn level_landlock_leaves_open_what_is_documented() {
    check_each(
        "yes",
        &[
            "stat ../out/known",
            "test -e ../out/known && ! test -e ../out/none",
            "cat /proc/$PPID/cmdline",
            "echo x > /dev/shm/massgen-level-c-$$ && rm /dev/shm/massgen-level-c-$$",
        ],
    );
}
