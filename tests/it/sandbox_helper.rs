//! Tests of the sandbox helper with massgen's protocol: what the layers of isolation allow and
//! deny, at levels `overlay` and `namespaces`, as root and as another user. Each denial has a
//! control that does the same where it is allowed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use massgen::path::AbsPath;
use massgen::permissions::grant::{GrantScope, Permission};
use massgen::sandbox_policy::NetworkAccess;
use massgen::sandbox_policy::ResourceLimits;
use massgen::sandbox_policy::helper_protocol::HelperReport;
use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use massgen::sandbox_policy::{AccessiblePath, FileIdentity, OverlayLayer, SandboxPolicy};
use rustix::fs::{major, minor};
use tempfile::TempDir;

use crate::helper_driver::{HelperOutcome, NOBODY, PATIENCE, RunningHelper, processes_with, start};
use crate::waiting::wait_until;

/// Directories on disk, and what a program may do there.
struct SandboxFixture {
    dir: TempDir,
    user: u32,
    policy: SandboxPolicy,
    input: Option<OwnedFd>,
}

/// Returns every kind of fixture that this machine supports: both levels, and both users if the tests
/// run as root.
fn fixtures() -> Vec<SandboxFixture> {
    let here = tempfile::tempdir().unwrap();
    let user = fs::metadata(here.path()).unwrap().uid();
    let users = if user == 0 {
        vec![0, NOBODY]
    } else {
        vec![user]
    };
    let kinds = users.iter().flat_map(|user| {
        [
            (SandboxLevel::Overlay, *user),
            (SandboxLevel::Namespaces, *user),
        ]
    });
    let fixtures: Vec<SandboxFixture> = kinds
        .map(|(level, user)| SandboxFixture::new(level, user))
        .filter(|fixture| match fixture.ran("true").reports.as_slice() {
            [HelperReport::Refused { step, .. }] => step != "making namespaces",
            _ => true,
        })
        .collect();
    fixtures
}

/// Creates the directories and files of a fixture, owned by `user`.
fn create_fixture_files(root: &Path, user: u32) {
    let directories = [
        "workspace",
        "notes/inner",
        "project/.git",
        "project/deep/.git",
        "project/secret/open",
        "project/source",
        "outside",
        "home",
        "scratch",
        "upper",
        "work",
    ];
    for directory in directories {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let files = [
        "notes/read",
        "project/.git/config",
        "project/deep/.git/config",
        "project/.env",
        "project/secret/key",
        "project/source/main",
        "outside/key",
    ];
    for file in files {
        fs::write(root.join(file), format!("{file}\n")).unwrap();
    }
    for path in paths_below(root) {
        chown(path, Some(user), Some(user)).unwrap();
    }
}

impl SandboxFixture {
    /// Creates a workspace, readable notes, and a project that is writable except for `.git` and
    /// `deep/.git`, with `.env` and `secret` hidden. `outside` is not open.
    fn new(level: SandboxLevel, user: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        create_fixture_files(&root, user);
        let path = |rel: &str| AbsPath::new(root.join(rel)).unwrap();
        let opening = |rel: &str, permission| AccessiblePath {
            path: path(rel),
            permission,
            scope: GrantScope::Tree,
        };
        let layer = OverlayLayer {
            root: path("project"),
            upper: path("upper"),
            work: path("work"),
            between: None,
        };
        let policy = SandboxPolicy {
            level,
            open: vec![
                opening("workspace", Permission::Write),
                opening("notes", Permission::Read),
                opening("notes/inner", Permission::Write),
                opening("project", Permission::Write),
                opening("project/secret/open", Permission::Write),
            ],
            identities: BTreeMap::new(),
            masked: vec![path("project/.git"), path("project/deep/.git")],
            hidden: vec![path("project/.env"), path("project/secret")],
            layers: Some(layer)
                .filter(|_| level == SandboxLevel::Overlay)
                .into_iter()
                .collect(),
            toolchains: vec![path("no-such-toolchain")],
            home: path("home"),
            scratch: path("scratch"),
            dir: path("workspace"),
            network: NetworkAccess::None,
            env: BTreeMap::from([
                ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ("AT".to_owned(), root.to_str().unwrap().to_owned()),
            ]),
            limits: ResourceLimits::default(),
            program: Vec::new(),
        };
        Self {
            dir,
            user,
            policy,
            input: None,
        }
    }

    fn path(&self, rel: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(rel)
    }

    fn label(&self) -> String {
        format!("level {}, user {}", self.policy.level, self.user)
    }

    /// Starts `script` in the shell, and waits until it runs or has been refused.
    fn start(&self, script: &str) -> RunningHelper {
        let mut policy = self.policy.clone();
        if policy.program.is_empty() {
            policy.program = ["sh", "-c", script].map(str::to_owned).to_vec();
        }
        start(&policy, self.user, self.input.as_ref())
    }

    fn ran(&self, script: &str) -> HelperOutcome {
        self.start(script).end()
    }

    /// Checks the output of `script`, which must succeed.
    #[track_caller]
    fn check(&self, script: &str, expected: &str) {
        let ran = self.ran(script);
        let label = self.label();
        assert_eq!(ran.stdout.trim(), expected, "{label}: {script}: {ran:?}");
        let ended = HelperReport::Ended {
            code: Some(0),
            signal: None,
        };
        let whole = [HelperReport::Started, ended];
        let mut reports = ran.reports;
        reports.retain(|report| *report != HelperReport::LeftBehind);
        assert_eq!(reports, whole, "{label}: {script}");
    }

    /// Checks that `script` fails, and `control` does not.
    #[track_caller]
    fn check_denied(&self, script: &str, control: &str) {
        let script = format!("({script}) 2>/dev/null && echo done || echo denied");
        self.check(&script, "denied");
        let control = format!("({control}) >/dev/null && echo done || echo denied");
        self.check(&control, "done");
    }

    /// Checks that the sandbox cannot be built, at this step.
    #[track_caller]
    fn check_refused(&self, expected_step: &str, expected_reason: &str) {
        let ran = self.ran("echo it runs");
        assert_eq!(ran.stdout, "", "{}", self.label());
        let [HelperReport::Refused { step, reason }] = ran.reports.as_slice() else {
            panic!("{}: {ran:?}", self.label());
        };
        let step_rel = step.replace(self.path("").to_str().unwrap(), "");
        assert_eq!(step_rel, expected_step, "{}: {reason}", self.label());
        assert!(
            reason.contains(expected_reason),
            "{}: {reason}",
            self.label()
        );
    }
}

/// Returns everything below `root`, with the content of files, and `root` itself.
fn paths_below(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        if path.is_dir() && !path.is_symlink() {
            let entries = fs::read_dir(&path).unwrap();
            found.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

/// Returns a snapshot of a tree: names, modes and the content of files.
fn picture_tree(root: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let picture = |path: PathBuf| {
        let mode = path.symlink_metadata().unwrap().mode();
        let content = if path.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        (path, mode, content)
    };
    paths_below(root).into_iter().map(picture).collect()
}

#[test]
fn a_directory_that_replaces_a_granted_one_is_not_opened() {
    for mut fixture in fixtures() {
        for rel in ["workspace", "notes", "project"] {
            let meta = fs::metadata(fixture.path(rel)).unwrap();
            let identity = FileIdentity {
                device: (u64::from(major(meta.dev())) << 32) | u64::from(minor(meta.dev())),
                inode: meta.ino(),
            };
            let path = AbsPath::new(fixture.path(rel)).unwrap();
            fixture.policy.identities.insert(path, identity);
        }
        let ran = fixture.ran("echo ran");
        assert_eq!(
            ran.stdout,
            "ran\n",
            "{}: {:?}",
            fixture.label(),
            ran.reports
        );
        fs::rename(fixture.path("notes"), fixture.path("moved")).unwrap();
        fs::create_dir_all(fixture.path("notes/inner")).unwrap();
        let ran = fixture.ran("echo ran");
        assert_eq!(ran.stdout, "", "{}", fixture.label());
        let reports = format!("{:?}", ran.reports);
        assert!(
            reports.contains("it was replaced after it was granted"),
            "{reports}"
        );
    }
}

#[test]
fn openings_can_be_used_and_the_rest_is_not_there() {
    for fixture in fixtures() {
        fixture.check(
            "echo new > made && cat made ../notes/read",
            "new\nnotes/read",
        );
        assert_eq!(
            fs::read_to_string(fixture.path("workspace/made")).unwrap(),
            "new\n"
        );
        fixture.check_denied("cat ../outside/key", "cat ../notes/read");
        fixture.check_denied("echo x > ../notes/new", "echo x > new");
        fixture.check_denied("rm ../notes/read", "rm new");
        fixture.check_denied("touch /usr/x || touch /etc/x || touch /x", "touch /tmp/x");
        fixture.check_denied(
            "ln -s ../outside/key k; cat k",
            "ln -s ../notes/read l; cat l",
        );
        // The parent directories of an open path belong to the sandbox; only `/tmp` is writable
        // among them.
        let beside = if fixture.path("").starts_with("/tmp") {
            "made"
        } else {
            "refused"
        };
        fixture.check(
            "mkdir ../beside 2>/dev/null && rmdir ../beside && echo made || echo refused",
            beside,
        );
        fixture.check("ls -A $AT", "home\nnotes\nproject\nworkspace");
        assert_eq!(
            fs::read_to_string(fixture.path("outside/key")).unwrap(),
            "outside/key\n"
        );
        assert!(!fixture.path("notes/new").exists() && !fixture.path("beside").exists());
    }
}

#[test]
fn the_deepest_accessible_path_determines_access() {
    for fixture in fixtures() {
        fixture.check_denied("echo x > ../notes/new", "echo x > ../notes/inner/new");
        fixture.check_denied(
            "mv ../notes/inner ../notes/other",
            "mv ../notes/inner/new made",
        );
        fixture.check_denied("cat ../project/secret/key", "ls ../project/secret/open");
        fixture.check("cd ../project/secret/open && echo x > new && cat new", "x");
        assert!(fixture.path("project/secret/open/new").exists());
    }
}

#[test]
fn masked_paths_stay_and_cannot_be_moved_out_of_the_way() {
    for mut fixture in fixtures() {
        fixture.policy.dir = AbsPath::new(fixture.path("project")).unwrap();
        let before = picture_tree(&fixture.path("project/.git"));
        let deep = picture_tree(&fixture.path("project/deep/.git"));
        fixture.check(
            "cat .git/config deep/.git/config",
            "project/.git/config\nproject/deep/.git/config",
        );
        fixture.check_denied("echo x > .git/config", "echo x > source/main");
        fixture.check_denied("touch .git/new", "touch source/new");
        fixture.check_denied("rm .git/config", "rm source/main");
        fixture.check_denied("chmod 777 .git/config", "chmod 777 source/new");
        fixture.check_denied("rmdir .git || mv .git away", "mv source sources");
        fixture.check_denied("mv deep away", "mkdir shallow && mv shallow away");
        fixture.check_denied("ln deep/.git/config source", "ln sources/new same");
        assert_eq!(picture_tree(&fixture.path("project/.git")), before);
        assert_eq!(picture_tree(&fixture.path("project/deep/.git")), deep);
    }
}

#[test]
fn hidden_paths_show_nothing_and_take_nothing() {
    for mut fixture in fixtures() {
        fixture.policy.dir = AbsPath::new(fixture.path("project")).unwrap();
        fixture.check(
            "cat .env; ls -A secret; cat source/main",
            "open\nproject/source/main",
        );
        fixture.check_denied("echo x > .env", "echo x > .envy");
        fixture.check_denied("touch secret/new", "touch source/new");
        fixture.check_denied("mv secret away || rm -f .env", "mv source away");
        let env_file = fs::read_to_string(fixture.path("project/.env")).unwrap();
        assert_eq!(env_file, "project/.env\n");
        assert!(fixture.path("project/secret/key").exists());
    }
}

#[test]
fn a_layer_takes_what_the_opening_would() {
    for fixture in fixtures() {
        let project = fixture.path("project");
        let before = picture_tree(&project);
        fixture.check(
            "cd ../project && echo two > source/main && cat source/main",
            "two",
        );
        fixture.check("cd ../project && cat source/main && rm source/main", "two");
        fixture.check(
            "cd ../project && mv source moved; ls",
            "deep\nmoved\nsecret",
        );
        let is_layered = fixture.policy.level == SandboxLevel::Overlay;
        assert_eq!(
            picture_tree(&project) == before,
            is_layered,
            "{}",
            fixture.label()
        );
        assert_eq!(
            fixture.path("upper/moved").exists(),
            is_layered,
            "{}",
            fixture.label()
        );
    }
}

#[test]
fn nothing_is_made_in_the_users_trees() {
    for fixture in fixtures() {
        let trees = ["workspace", "notes", "project", "outside", "home"];
        let before = trees.map(|tree| picture_tree(&fixture.path(tree)));
        fixture.check("true", "");
        assert_eq!(trees.map(|tree| picture_tree(&fixture.path(tree))), before);
        fs::remove_dir(fixture.path("project/secret/open")).unwrap();
        fixture.check_refused("opening `project/secret/open`", "No such file");
        assert!(!fixture.path("project/secret/open").exists());
    }
}

#[test]
fn a_place_that_is_not_what_was_opened_is_refused() {
    for mut fixture in fixtures() {
        fixture.check("echo fine", "fine");
        fs::rename(fixture.path("notes/inner"), fixture.path("notes/real")).unwrap();
        symlink(fixture.path("outside"), fixture.path("notes/inner")).unwrap();
        fixture.check_refused("opening `notes/inner`", "symbolic links");
        fs::remove_file(fixture.path("notes/inner")).unwrap();
        fs::rename(fixture.path("notes/real"), fixture.path("notes/inner")).unwrap();
        fixture.policy.dir = AbsPath::new(fixture.path("outside")).unwrap();
        fixture.check_refused("going to `outside`", "No such file");
        fixture.policy.dir = AbsPath::new(fixture.path("workspace")).unwrap();
        fixture.policy.program = vec!["no-such-program".to_owned()];
        fixture.check_refused("starting `no-such-program`", "No such file");
    }
}

#[test]
fn tmp_stays_from_command_to_command_and_leads_nowhere_else() {
    for fixture in fixtures() {
        fixture.check("echo kept > /tmp/own; mkdir /tmp/deep", "");
        fixture.check("cat /tmp/own", "kept");
        assert!(fixture.path("scratch/own").is_file());
        // Another agent has another directory, and this one is not visible by its own path.
        let other = SandboxFixture::new(fixture.policy.level, fixture.user);
        other.check("ls /tmp/own 2>/dev/null; echo none", "none");
        fixture.check("ls $AT/scratch 2>/dev/null; echo none", "none");
        fixture.check_denied(
            "ln -s $AT/outside /tmp/out && cat /tmp/out/key",
            "cat $AT/notes/read",
        );
        fixture.check_denied("ln $AT/notes/read /tmp/hard", "ln /tmp/own /tmp/hard2");
    }
}

#[test]
fn granted_paths_below_tmp_are_mounted_over_planted_files() {
    for fixture in fixtures()
        .into_iter()
        .filter(|fixture| fixture.path("").starts_with("/tmp"))
    {
        fixture.check(
            "cd /tmp && mv $AT away && mkdir -p $AT/notes && echo fake > $AT/notes/read",
            "",
        );
        fixture.check("cat $AT/notes/read", "notes/read");
        assert_eq!(
            fs::read_to_string(fixture.path("notes/read")).unwrap(),
            "notes/read\n"
        );
        fixture.check("cd /tmp && mv $AT away2 && touch $AT", "");
        fixture.check_refused("mounting `home`", "Not a directory");
    }
}

#[test]
fn proc_and_tmp_are_its_own() {
    let own = tempfile::NamedTempFile::new().unwrap();
    let path = own.path().to_str().unwrap();
    for fixture in fixtures() {
        fixture.check_denied(&format!("ls {path}"), "touch /tmp/own && ls /tmp/own");
        fixture.check("touch /dev/shm/own", "");
        fixture.check("ls /dev/shm/own 2>/dev/null; echo gone", "gone");
        assert!(!Path::new("/tmp/own").exists() && !Path::new("/dev/shm/own").exists());
        fixture.check("echo /proc/[0-9]*", "/proc/1 /proc/2");
        fixture.check_denied(&format!("kill -0 {}", std::process::id()), "kill -0 $$");
        fixture.check_denied("cat /proc/1/environ", "cat /proc/$$/environ");
        let switch = "/proc/sys/kernel/core_pattern";
        let before = fs::read_to_string(switch).unwrap();
        fixture.check_denied(&format!("echo x > {switch}"), &format!("cat {switch}"));
        assert_eq!(fs::read_to_string(switch).unwrap(), before);
        fixture.check(
            "cat /etc/shadow 2>/dev/null; test -s /etc/passwd && echo known",
            "known",
        );
    }
}

#[test]
fn privileges_are_dropped() {
    let own = fs::read_to_string("/proc/self/status").unwrap();
    assert!(
        own.contains("NoNewPrivs:\t0") && own.contains("Seccomp:\t0"),
        "{own}"
    );
    for fixture in fixtures() {
        let of = |name: &str| format!("grep {name} /proc/self/status | cut -f2");
        fixture.check(&of("NoNewPrivs"), "1");
        fixture.check(&of("Seccomp:"), "2");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            fixture.check(&of(set), "0000000000000000");
        }
        fixture.check("id -u", &fixture.user.to_string());
        fixture.check("grep -v nosuid /proc/mounts | wc -l", "0");
    }
}

#[test]
fn no_command_takes_all_watches_of_the_user() {
    for fixture in fixtures() {
        fixture.check("cat /proc/sys/user/max_inotify_instances", "32");
    }
}

/// Returns a `perl` command that prints the error number of a system call.
fn call(number: i64, arguments: &str) -> String {
    format!("perl -e '$! = 0; syscall({number}, {arguments}); print $! + 0'")
}

#[test]
fn system_calls_that_reach_out_fail() {
    let refused = libc::EPERM.to_string();
    let outside = |script: &str| {
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let all = fixtures();
    // For users other than root, the kernel itself refuses some of them.
    let is_root = all.iter().any(|fixture| fixture.user == 0);
    for fixture in all {
        let calls = [
            call(libc::SYS_io_uring_setup, "1, 0"),
            call(libc::SYS_userfaultfd, "-1"),
            call(libc::SYS_open_by_handle_at, "-1, 0, 0"),
            call(libc::SYS_ioctl, "-1, 0x5412, 0"),
            call(libc::SYS_socket, "99, 0, 0"),
            call(libc::SYS_move_mount, "-1, 0, -1, 0, 0"),
            call(libc::SYS_unshare, "-1"),
        ];
        for call in calls {
            assert!(!is_root || outside(&call) != refused, "{call}");
            fixture.check(&call, &refused);
        }
        fixture.check(&call(libc::SYS_clone3, "0, 0"), &libc::ENOSYS.to_string());
        fixture.check(&call(9999, "0"), &libc::ENOSYS.to_string());
        fixture.check(
            &call(libc::SYS_ioctl, "-1, 0x5413, 0"),
            &libc::EBADF.to_string(),
        );
        fixture.check_denied("mount -t tmpfs none /tmp", "mkdir /tmp/x");
        fixture.check_denied("unshare --user true", "true");
    }
}

#[test]
fn the_network_is_its_own() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = "use IO::Socket::INET; exit !IO::Socket::INET->new";
    let to_outside = format!(r#"perl -e '{connect}("127.0.0.1:{port}")'"#);
    let to_itself = format!(
        r#"perl -e 'use IO::Socket::INET; $l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1", LocalPort => {port}); exit !IO::Socket::INET->new("127.0.0.1:{port}")'"#
    );
    for mut fixture in fixtures() {
        fixture.check_denied(&to_outside, &to_itself);
        fixture.policy.network = NetworkAccess::Host;
        fixture.check(&format!("{to_outside} && echo reached"), "reached");
    }
}

#[test]
fn the_proxy_is_all_that_can_be_reached() {
    let port = 3128;
    for mut fixture in fixtures() {
        fixture.policy.network = NetworkAccess::Proxy { port };
        let ask = format!(
            r#"use IO::Socket::INET; print IO::Socket::INET->new("127.0.0.1:{port}")->getline"#
        );
        let mut running = fixture.start(&format!("perl -e '{ask}'"));
        let (report, listener) = running.report().unwrap();
        assert_eq!(report, HelperReport::Listening);
        let (report, _) = running.report().unwrap();
        assert_eq!(report, HelperReport::Started);
        let listener = TcpListener::from(listener.unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"hello from outside\n").unwrap();
        drop(stream);
        assert_eq!(running.end().stdout, "hello from outside\n");
    }
}

#[test]
fn the_program_gets_its_input_and_environment_and_no_more() {
    for mut fixture in fixtures() {
        fixture.check("cat", "");
        fixture.check("env | cut -d= -f1 | grep -v _ | sort", "AT\nPATH\nPWD");
        fixture.check("ls /proc/$$/fd", "0\n1\n2");
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"read me").unwrap();
        drop(writer);
        fixture.input = Some(reader.into());
        fixture.check("cat", "read me");
    }
}

#[test]
fn the_end_of_the_program_is_reported() {
    for fixture in fixtures() {
        let ended = |script: &str| fixture.ran(script).reports.pop().unwrap();
        let exited = |code| HelperReport::Ended {
            code: Some(code),
            signal: None,
        };
        assert_eq!(ended("exit 3"), exited(3));
        assert_eq!(ended("exit 137"), exited(137));
        let killed = HelperReport::Ended {
            code: None,
            signal: Some(9),
        };
        assert_eq!(ended("kill -9 $$"), killed);
        // No process inside can kill the first one.
        assert_eq!(ended("kill -9 1; exit 4"), exited(4));
    }
}

#[test]
fn limits_hold() {
    for mut fixture in fixtures() {
        fixture.policy.limits.file_bytes = 4096;
        fixture.policy.limits.cpu_seconds = Some(1);
        fixture.check_denied("head -c 4097 /dev/zero > a", "head -c 4096 /dev/zero > a");
        let spun = fixture.ran("while :; do :; done").reports.pop().unwrap();
        assert!(
            matches!(spun, HelperReport::Ended { code: None, .. }),
            "{spun:?}"
        );
        if fixture.user != 0 {
            fixture.policy.limits.processes = 8;
            let many = |count| format!("for i in $(seq {count}); do sleep 1 & done; wait");
            fixture.check_denied(&format!("{} 2>&1 | grep -q -v fork", many(20)), &many(3));
        }
    }
}

#[test]
fn the_end_of_the_program_is_the_end_of_all_that_it_started() {
    for fixture in fixtures() {
        let word = format!("98{}.{}", fixture.user, std::process::id());
        let script = format!("setsid sleep {word} & echo begun; cat");
        let (reader, writer) = std::io::pipe().unwrap();
        let mut fixture = fixture;
        fixture.input = Some(reader.into());
        let mut running = fixture.start(&script);
        running.await_word("begun\n");
        wait_until("the command runs", PATIENCE, || processes_with(&word) > 0);
        drop(writer);
        running.end();
        assert!(processes_with(&word) == 0, "{}", fixture.label());
    }
}

#[test]
fn an_orphaned_helper_ends() {
    for fixture in fixtures() {
        let begun = |word: &str| {
            let mut running = fixture.start(&format!("setsid sleep {word} & echo begun; wait"));
            running.await_word("begun\n");
            wait_until("the command runs", PATIENCE, || processes_with(word) > 0);
            running
        };
        let word = format!("97{}.{}", fixture.user, std::process::id());
        let RunningHelper { mut helper, socket } = begun(&word);
        drop(socket);
        assert!(helper.wait().unwrap().code().is_some());
        assert!(processes_with(&word) == 0, "{}", fixture.label());

        let mut running = begun(&word);
        running.helper.kill().unwrap();
        running.helper.wait().unwrap();
        wait_until("nothing of it is left", PATIENCE, || {
            processes_with(&word) == 0
        });
    }
}
