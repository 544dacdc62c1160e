//! Tier C against the real helper: what a command can and cannot do on a machine that it shares,
//! as root and as an ordinary user. Each denial has its control.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use massgen::confinement::limits::Limits;
use massgen::confinement::network::Reach;
use massgen::confinement::report::{HEAD_BYTES, Report, body_bytes, frame};
use massgen::confinement::tier::Tier;
use massgen::confinement::{Confinement, Opening};
use massgen::path::AbsPath;
use massgen::permissions::grant::{Permission, Scope};

/// An ordinary user that every machine has.
const NOBODY: u32 = 65534;
/// How long is waited for something to happen that must.
const PATIENCE: Duration = Duration::from_secs(20);

/// A user's disk in small: `ws` is the agent's, `ro` was opened for reading, `out` was not.
struct Room {
    dir: tempfile::TempDir,
    user: Option<u32>,
}

impl Room {
    /// One for the user of the tests, and one for an ordinary user if the tests may become one.
    fn each() -> Vec<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let users = [Some(None), is_root.then_some(Some(NOBODY))];
        users.into_iter().flatten().map(Self::new).collect()
    }

    fn new(user: Option<u32>) -> Self {
        let room = Self {
            dir: tempfile::Builder::new().prefix("tierc").tempdir().unwrap(),
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
            let dir = room.path(name);
            fs::create_dir_all(&dir).unwrap();
            room.give(&dir);
        }
        for name in [
            "ws/own",
            "ro/known",
            "ro/sub/known",
            "ro/secret/key",
            "out/known",
        ] {
            room.write(name, name);
        }
        room
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

    /// What everything outside the workspace looks like: names, modes, times and content.
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

    fn open(&self, name: &str, permission: Permission) -> Opening {
        let path = self.abs(name);
        let scope = if path.as_path().is_dir() {
            Scope::Tree
        } else {
            Scope::File
        };
        Opening {
            path,
            permission,
            scope,
        }
    }

    fn confinement(&self, script: &str) -> Confinement {
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", self.path("home").to_str().unwrap()),
            ("TMPDIR", self.path("scratch").to_str().unwrap()),
            ("R", self.dir.path().to_str().unwrap()),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Confinement {
            tier: Tier::C,
            open: vec![
                self.open("ws", Permission::Write),
                self.open("ro", Permission::Read),
            ],
            masked: Vec::new(),
            hidden: Vec::new(),
            layers: Vec::new(),
            toolchains: Vec::new(),
            home: self.abs("home"),
            scratch: self.abs("scratch"),
            dir: self.abs("ws"),
            reach: Reach::None,
            env: BTreeMap::from(env),
            limits: Limits::default(),
            program: ["bash", "-c", script].map(str::to_owned).to_vec(),
        }
    }

    fn start(&self, confinement: &Confinement) -> Started {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_massgen"));
        command
            .arg("__sandbox")
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let helper = command.spawn().unwrap();
        drop(command);
        let mut control = ours;
        control.write_all(&frame(confinement).unwrap()).unwrap();
        Started { helper, control }
    }

    fn run(&self, confinement: &Confinement) -> Done {
        self.start(confinement).done()
    }
}

/// A helper at work.
struct Started {
    helper: Child,
    control: UnixStream,
}

impl Started {
    fn report(&mut self) -> Option<Report> {
        let mut head = [0; HEAD_BYTES];
        self.control.read_exact(&mut head).ok()?;
        let mut body = vec![0; body_bytes(head).unwrap()];
        self.control.read_exact(&mut body).unwrap();
        Some(serde_json::from_slice(&body).unwrap())
    }

    fn done(mut self) -> Done {
        let mut reports = Vec::new();
        while let Some(report) = self.report() {
            reports.push(report);
        }
        let output = self.helper.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = [output.stdout, output.stderr].concat();
        Done {
            reports,
            said: String::from_utf8_lossy(&said).trim().to_owned(),
        }
    }
}

/// What came of a command.
#[derive(Debug)]
struct Done {
    reports: Vec<Report>,
    said: String,
}

fn ended(code: i32) -> Vec<Report> {
    let ended = Report::Ended {
        code: Some(code),
        signal: None,
    };
    vec![Report::Started, ended]
}

/// Runs `script` for every user; each line of it says something, and that is compared. Nothing
/// outside the workspace may be different afterwards.
#[track_caller]
fn check(script: &str, expected: &str) {
    check_with(|_, _| {}, script, expected);
}

#[track_caller]
fn check_with(prepare: impl Fn(&Room, &mut Confinement), script: &str, expected: &str) {
    for room in Room::each() {
        let mut confinement = room.confinement(script);
        prepare(&room, &mut confinement);
        let before = room.rest();
        let done = room.run(&confinement);
        assert_eq!(done.said, expected, "{:?} {script}", room.user);
        assert_eq!(done.reports, ended(0), "{:?} {script}", room.user);
        assert_eq!(room.rest(), before, "{:?} {script}", room.user);
    }
}

/// Says `yes` or `no` for each command, by whether it succeeded.
fn tried(commands: &[&str]) -> String {
    let each = commands
        .iter()
        .map(|command| format!("({command}) >/dev/null 2>&1 && echo yes || echo no"));
    each.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_command_reads_and_writes_what_is_open() {
    let can = [
        "cat own",
        "echo x > new",
        "mkdir -p a/b && mv own a/b/ && rm -r a",
        "cat ../ro/known ../ro/sub/known",
        "ls ../ro",
        "echo x > $HOME/new && echo x > $TMPDIR/new",
        "python3 -c 'import ssl, json'",
        "cat /etc/passwd /proc/self/status /proc/meminfo",
        "echo x > /dev/null && head -c 1 /dev/urandom",
        "echo x > /dev/shm/massgen-tier-c-$$ && rm /dev/shm/massgen-tier-c-$$",
    ];
    check(&tried(&can), ["yes"; 10].join("\n").as_str());
}

#[test]
fn a_command_neither_reads_nor_writes_anything_else() {
    let cannot = [
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
        "python3 -c 'import os; os.open(\"../ro/known\", os.O_RDONLY | os.O_TRUNC)'",
        "echo x > /tmp/massgen-tier-c",
        "ls /root /home /var/log /run",
        "cat /etc/shadow",
        "cat /proc/$PPID/environ",
        "ls /proc/1/root/",
        "echo x > /proc/sys/vm/swappiness",
        "echo x > /proc/self/clear_refs",
        "ls /dev/pts /dev/mem",
        "mount -t tmpfs none a",
        "unshare -U true",
        "chroot . true",
    ];
    check(&tried(&cannot), ["no"; 22].join("\n").as_str());
}
