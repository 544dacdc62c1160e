//! Containers of a real engine behind a real server of SSH: files are sent, commands run there, and
//! what they change comes back under the same rules as on this machine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use massgen::config::docker::{ContainerNetwork, HostCredential, RootAccess};
use massgen::permissions::grant::Permission;
use massgen::world::sandbox::command_container::CommandContainer;
use massgen::world::sandbox::docker::container::AgentContainer;
use massgen::world::sandbox::docker::engine::ContainerEngine;
use massgen::world::sandbox::interrupt::CommandInterrupt;
use massgen::world::sandbox::reachable_paths::ReachablePaths;
use massgen::world::sandbox::{CommandOutput, CommandWaitLimits};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::docker::{ContainerFixture, Daemon, IMAGE, TIME_MAX, daemon, is_podman, median_time};
use crate::project::Project;
use crate::slurm_cluster::{contains, processes};
use crate::ssh_server::{SshServer, start_ssh_server, write_ssh};
use crate::waiting::wait_until;

/// An engine that is reached over SSH. Its machine is this one, but nothing is mounted.
pub(crate) struct RemoteEngine {
    pub(crate) daemon: Arc<Daemon>,
    server: SshServer,
    dir: TempDir,
}

impl RemoteEngine {
    /// Starts it; `None` if this user cannot.
    pub(crate) fn start() -> Option<Self> {
        let daemon = daemon()?;
        let dir = tempfile::tempdir().unwrap();
        let server = start_ssh_server(dir.path(), "");
        Some(Self {
            daemon,
            server,
            dir,
        })
    }

    pub(crate) fn host(&self) -> String {
        format!("ssh://build1{}", self.daemon.socket().display())
    }

    /// Returns a `PATH` with the `ssh` of a directory: the one of `bin` reaches it.
    pub(crate) fn program_path(&self, bin: &str) -> String {
        format!("{}:/usr/bin:/bin", self.dir.path().join(bin).display())
    }

    fn open_with(&self, bin: &str, host: &str) -> massgen::error::Result<ContainerEngine> {
        let env = BTreeMap::from([("PATH".to_owned(), self.program_path(bin))]);
        ContainerEngine::open(Some(host), &env)
    }

    fn fixture(&self) -> ContainerFixture {
        ContainerFixture::with_engine(self.open_with("bin", &self.host()).unwrap())
    }

    /// Kills the `ssh` that forwards to this server.
    pub(crate) fn cut(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends a signal to the `ssh` that forwards to this server.
    fn signal(&self, signal: Signal) {
        let port = format!("\0-p\0{}\0", self.server.port);
        for pid in processes() {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if contains(&arguments, port.as_bytes()) && contains(&arguments, b"ControlMaster=yes") {
                let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
                kill_process(pid, signal).unwrap_or_default();
            }
        }
    }
}

impl Drop for RemoteEngine {
    fn drop(&mut self) {
        let _ended = self.server.process.kill();
        let _status = self.server.process.wait();
    }
}

/// Runs a command as a run does: sends files before it, and fetches changes after it.
pub(crate) fn run(
    fixture: &ContainerFixture,
    container: &AgentContainer,
    reachable: &ReachablePaths,
    line: &str,
) -> Result<CommandOutput, String> {
    let interrupt = CommandInterrupt::new().unwrap();
    let wait = CommandWaitLimits {
        time_max: TIME_MAX,
        output_bytes_max: 4096,
        interrupt: &interrupt,
        network: None,
    };
    let mut finished = container
        .run_with_paths(line, &fixture.workspace(), reachable, wait)
        .map_err(|error| error.to_string())?;
    let notes = container.fetch_changes(reachable, &interrupt);
    finished
        .notes
        .extend(notes.map_err(|error| error.to_string())?);
    Ok(finished)
}

#[track_caller]
fn check(
    fixture: &ContainerFixture,
    container: &AgentContainer,
    line: &str,
    expected: &str,
) -> Vec<String> {
    let reachable = fixture.reachable(Permission::Read);
    let finished = run(fixture, container, &reachable, line).unwrap();
    let text = format!("{}{}", finished.stdout.text, finished.stderr.text);
    assert_eq!(text, expected, "{line}: {:?}", finished.exit_reason);
    finished.notes
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn commands_on_another_machine_have_the_same_rules() {
    let Some(remote) = RemoteEngine::start() else {
        return;
    };
    let fixture = remote.fixture();
    let container = fixture.open();
    let project = |name: &str| fixture.path("project").join(name);
    let shown = |name: &str| project(name).display().to_string();
    let does = |line: &str, expected: &str| check(&fixture, &container, line, expected);
    // What the grants let be read is there, and nothing else.
    does("cat begin", "begin\n");
    does(&format!("cat {}", shown("src/main.rs")), "fn main() {}\n");
    does(&format!("cat {}", shown("lib/.git/config")), "[core]\n");
    let hidden = format!("ls -A {}; ls -A {}", shown(".massgen"), shown(""));
    does(&hidden, "ws\n.massgen\nlib\nsrc\n");
    does(&format!("grep -rl secret {}", shown("")), "");
    // Ordinary work comes back, with modes, links and deletions.
    let work = "printf 'a\\n' >new; mkdir -p d/e; printf x >d/e/f; ln d/e/f hard; ln -s /etc/passwd link; \
                chmod 750 new; rm begin";
    assert_eq!(does(work, ""), Vec::<String>::new());
    let workspace = |name: &str| fixture.workspace().as_path().join(name);
    assert_eq!(
        (text(workspace("new")), text(workspace("hard"))),
        ("a\n".to_owned(), "x".to_owned())
    );
    assert!(!workspace("begin").exists());
    assert_eq!(
        fs::read_link(workspace("link")).unwrap(),
        Path::new("/etc/passwd")
    );
    // What changes here is there for the next command.
    fs::write(workspace("new"), "changed here\n").unwrap();
    fs::remove_dir_all(workspace("d")).unwrap();
    does("cat new; ls", "changed here\nhard\nlink\nnew\n");
    // Nothing that is read-only changes, there or here.
    let attack = format!(
        "cd {}; echo evil >src/main.rs; rm -rf src lib; echo x >planted; chmod 777 src; mv lib other; \
         cd ..; mv project away; mkdir -p project/src; echo evil >project/src/main.rs; id -u >{}/begin",
        shown(""),
        fixture.workspace()
    );
    let finished = run(
        &fixture,
        &container,
        &fixture.reachable(Permission::Read),
        &attack,
    )
    .unwrap();
    assert!(
        finished.stderr.text.contains("ermission denied"),
        "{:?}",
        finished.stderr
    );
    assert_eq!(text(project("src/main.rs")), "fn main() {}\n");
    assert!(!project("planted").exists());
    does(&format!("cat {}", shown("src/main.rs")), "fn main() {}\n");
    // A directory of the image that commands could move a read-only tree out of is found.
    let movable = |path: &str| {
        let script = include_str!("../../src/world/sandbox/sent_files/movable.sh");
        let call = ["exec", "-u", "1000:1000", container.name(), "sh", "-c"];
        let arguments = [script, "massgen", "/tmp/p", path];
        remote
            .daemon
            .client_output(&[&call[..], &arguments].concat())
    };
    does("mkdir -p /tmp/own/er", "");
    assert_eq!(movable("/tmp/own/er/p"), "/tmp/own/er");
    assert_eq!(movable(&shown("src")), "");
    assert_eq!(container.notes(), [""; 0]);
    // No network, no privileges, no devices; pipes stay there.
    does("wc -l </proc/net/route", "1\n");
    does(
        "grep -c -e 'CapEff:.*[1-9a-f]' -e 'NoNewPrivs:.*0' /proc/self/status",
        "0\n",
    );
    let notes = does("mkfifo pipe; ls", "begin\nhard\nlink\nnew\npipe\n");
    assert!(notes[0].contains("it is a named pipe"), "{notes:?}");
    assert!(!workspace("pipe").exists());
    let interrupted = || interrupt_transfers(&remote, &fixture, &container);
    many_files(&does, &interrupted, &fixture);
    container.close().unwrap();
    let left = remote.daemon.client_output(&[
        "ps",
        "-aq",
        "--filter",
        &format!("name={}", container.name()),
    ]);
    assert_eq!(left, "");
}

/// Interrupts a transfer in each direction. An engine that does not answer holds up no interrupt, also when
/// trees are to be listed there.
fn interrupt_transfers(
    remote: &RemoteEngine,
    fixture: &ContainerFixture,
    container: &AgentContainer,
) {
    let reachable = fixture.reachable(Permission::Read);
    let interrupt = CommandInterrupt::new().unwrap();
    interrupt.raise();
    fs::write(fixture.workspace().join("late").as_path(), "late\n").unwrap();
    let workspace = fixture.workspace();
    let sent = container.follow(
        "true",
        &workspace,
        &reachable,
        &interrupt,
        &mut |_: &[u8]| {},
    );
    remote.signal(Signal::STOP);
    let began = Instant::now();
    let fetched = container.fetch_changes(&reachable, &interrupt);
    remote.signal(Signal::CONT);
    assert!(began.elapsed() < Duration::from_mins(2));
    for error in [sent.unwrap_err(), fetched.unwrap_err()] {
        let error = error.to_string();
        assert!(error.contains("it was interrupted"), "{error}");
    }
}

/// With many files, only what may have changed is fetched, with the same result.
fn many_files(
    does: &dyn Fn(&str, &str) -> Vec<String>,
    interrupted: &dyn Fn(),
    fixture: &ContainerFixture,
) {
    let many = |name: &str| fixture.workspace().as_path().join("many").join(name);
    does(
        "mkdir many; i=0; while [ $i -lt 600 ]; do echo $i >many/$i; i=$((i+1)); done",
        "",
    );
    assert_eq!(fs::read_dir(many("")).unwrap().count(), 600);
    interrupted();
    // It is sent again, after what may be left of the interrupted transfer was killed.
    does("cat late; rm late", "late\n");
    does("cat many/599", "599\n");
    does("ls many | wc -l", "600\n");
    let line =
        "cd many; echo new >7; rm 8; ln 9 nine; ln -s 9 link; mkdir sub; mv 10 sub/; chmod 700 11";
    does(line, "");
    let expected = [
        ("7", "new\n"),
        ("nine", "9\n"),
        ("link", "9\n"),
        ("sub/10", "10\n"),
        ("12", "12\n"),
    ];
    for (name, content) in expected {
        assert_eq!(text(many(name)), content, "{name}");
    }
    assert!(!many("8").exists() && !many("10").exists());
    assert!(fs::symlink_metadata(many("link")).unwrap().is_symlink());
    fs::write(many("12"), "here\n").unwrap();
    does(
        "cat many/12; cat many/7; printf 'a\\nb' >'many/with\nbreak'",
        "here\nnew\n",
    );
    assert_eq!(text(many("with\nbreak")), "a\nb");
    // A name that is not UTF-8 is removed there like any other, and deleted here when it is gone there.
    let odd = many("").join(OsStr::from_bytes(b"b\xe9d"));
    does("touch \"many/$(printf 'b\\351d')\"", "");
    fs::remove_file(&odd).unwrap();
    does("ls many/b*d 2>/dev/null || echo none", "none\n");
    does("touch \"many/$(printf 'b\\351d')\"", "");
    does("rm many/b*d", "");
    assert!(!odd.exists());
    does("rm -r many", "");
    assert!(!many("").exists());
}

#[test]
fn writable_trees_keep_protected_names_and_a_lost_connection_is_reported() {
    let Some(mut remote) = RemoteEngine::start() else {
        return;
    };
    let fixture = remote.fixture();
    let container = fixture.open();
    let reachable = fixture.reachable(Permission::Write);
    let project = |name: &str| fixture.path("project").join(name);
    let line = format!(
        "cd {}; echo 'fn changed() {{}}' >src/main.rs; echo evil >>lib/.git/config; rm -rf lib/.git; \
         mv lib moved; echo x >notes.txt; mkdir .massgen/ws/sub; echo y >.massgen/ws/sub/z",
        fixture.path("project").display()
    );
    let finished = run(&fixture, &container, &reachable, &line).unwrap();
    assert_eq!(text(project("src/main.rs")), "fn changed() {}\n");
    assert_eq!(text(project("lib/.git/config")), "[core]\n");
    assert_eq!(text(project("notes.txt")), "secret\n");
    assert_eq!(text(project(".massgen/ws/sub/z")), "y\n");
    let notes = finished.notes.join("\n");
    assert!(
        notes.contains("read-only") && notes.contains("hidden"),
        "{notes}"
    );
    // The link breaks while commands run: they end with the reason, and the next one connects again.
    let began = Instant::now();
    let workspace = fixture.workspace();
    let never = CommandInterrupt::new().unwrap();
    let lost = thread::scope(|scope| {
        let running =
            scope.spawn(|| run(&fixture, &container, &reachable, "touch begun; sleep 300"));
        let line = "touch behind; sleep 300";
        let behind = scope
            .spawn(|| container.follow(line, &workspace, &reachable, &never, &mut |_: &[u8]| {}));
        let look = format!("cd {workspace} && test -e begun && test -e behind && echo yes || true");
        wait_until("running commands", TIME_MAX, || {
            remote
                .daemon
                .client_output(&["exec", container.name(), "sh", "-c", &look])
                == "yes"
        });
        remote.cut();
        let behind = behind.join().unwrap().unwrap_err().to_string();
        [running.join().unwrap().unwrap_err(), behind]
    });
    for lost in lost {
        assert!(
            lost.contains("the connection to `ssh://build1") && lost.contains("was lost"),
            "{lost}"
        );
    }
    assert!(began.elapsed() < TIME_MAX);
    // By then they are killed there.
    let line = "cat begin; rm -f begun behind; ps | grep -c '[s]leep 300'";
    let finished = run(&fixture, &container, &reachable, line).unwrap();
    assert_eq!(finished.stdout.text, "begin\n0\n");
    // The container is removed from outside: the next command says so, and the one after it has all files.
    remote.daemon.client_output(&["rm", "-f", container.name()]);
    let gone = run(&fixture, &container, &reachable, "true").unwrap_err();
    assert!(gone.contains("was removed from outside"), "{gone}");
    let finished = run(&fixture, &container, &reachable, "cat begin sub/z").unwrap();
    assert_eq!(finished.stdout.text, "begin\ny\n");
    // The host is gone for good: commands fail with that reason.
    remote.server.process.kill().unwrap();
    remote.server.process.wait().unwrap();
    remote.cut();
    let lost = run(&fixture, &container, &reachable, "true").unwrap_err();
    assert!(lost.contains("ssh://build1"), "{lost}");
    let gone = run(&fixture, &container, &reachable, "true").unwrap_err();
    assert!(
        gone.contains("ssh://build1") && gone.contains("refused"),
        "{gone}"
    );
    remote.daemon.client_output(&["rm", "-f", container.name()]);
}

#[test]
fn unreachable_hosts_and_unsupported_keys_are_refused_with_a_reason() {
    let Some(remote) = RemoteEngine::start() else {
        return;
    };
    let dir = remote.dir.path();
    let port = remote.server.port;
    let anyone = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";
    let key = format!("-i {}/user", dir.display());
    write_ssh(
        dir,
        "no-key",
        &format!("{anyone} -o PubkeyAuthentication=no"),
        port,
    );
    write_ssh(
        dir,
        "no-host-key",
        &format!("{key} -o UserKnownHostsFile=/dev/null"),
        port,
    );
    write_ssh(dir, "no-server", &format!("{key} {anyone}"), 1);
    let host = remote.host();
    for (bin, host, expected) in [
        ("no-key", host.as_str(), "accepts none of your keys"),
        ("no-host-key", &host, "host key is not known"),
        ("no-server", &host, "Connection refused"),
        (
            "bin",
            "ssh://build1/nowhere.sock",
            "there is no socket `/nowhere.sock`",
        ),
        (
            "bin",
            "ssh://-oProxyCommand=id",
            "not the address of a machine",
        ),
    ] {
        let error = remote.open_with(bin, host).unwrap_err();
        assert!(error.to_string().contains(expected), "{bin}: {error}");
        assert!(!error.hints().is_empty(), "{bin}: {error}");
    }
    // The user's own settings for sessions do not matter, nor unknown ones that the user ignores.
    let settings = "IgnoreUnknown UseKeychain\nUseKeychain yes\nStdinNull yes\n\
                    ForkAfterAuthentication yes\nSessionType none\n";
    fs::write(dir.join("ssh_config"), settings).unwrap();
    let config = format!("{key} {anyone} -F {}/ssh_config", dir.display());
    write_ssh(dir, "settings", &config, port);
    drop(remote.open_with("settings", &host).unwrap());
    let mut fixture = remote.fixture();
    let refused = |fixture: &ContainerFixture, expected: &str| {
        let error = fixture.try_open().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    fixture.config.image = "none:1".to_owned();
    refused(&fixture, "is not on `ssh://build1");
    fixture.config.image = IMAGE.to_owned();
    fixture.config.root = RootAccess::BySudo;
    refused(&fixture, "enable_sudo` is not available");
    fixture.config.root = RootAccess::Never;
    fixture.config.network = ContainerNetwork::Host;
    refused(&fixture, "network_mode: host` is not available");
    fixture.config.network = ContainerNetwork::None;
    fixture.config.credentials.mount = vec![HostCredential::SshKeys];
    refused(&fixture, "credentials` is not available");
}

#[test]
fn a_single_call_on_another_machine_is_applied_through_the_gate() {
    let Some(remote) = RemoteEngine::start() else {
        return;
    };
    if is_podman() {
        return;
    }
    let project = Project::new()
        .file("rw/src/a.txt", "old\n")
        .file("rw/.git/config", "[core]\n")
        .file("rw/.env", "KEY=secret\n")
        .file("ws/note", "note\n");
    let grants = json!({
        "workspace": project.path("ws"),
        "context_paths": [{"path": project.path("rw"), "permission": "write"}],
    });
    let line = "cd ../rw; echo new >src/a.txt; echo made >b.txt; mkdir -p .git/hooks; \
                echo evil >.git/hooks/x; echo evil >>.git/config; echo evil >.env; echo w >../ws/w; true";
    let arguments = json!({ "command": line }).to_string();
    let project = project
        .file("grants.json", grants.to_string())
        .env("DOCKER_HOST", remote.host())
        .env("PATH", remote.program_path("bin"));
    let call = [
        "tool",
        "execute_command",
        "--phase",
        "final",
        "--grants",
        "grants.json",
        "--docker",
        IMAGE,
        "--args",
        &arguments,
    ];
    let finished = project.args(call).success();
    let answer: Value = serde_json::from_str(finished.stdout()).unwrap();
    let read = |name: &str| text(finished.project().path(name));
    assert_eq!(
        (read("rw/src/a.txt"), read("rw/b.txt")),
        ("new\n".to_owned(), "made\n".to_owned()),
        "{answer}"
    );
    assert_eq!(read("ws/w"), "w\n");
    assert_eq!(
        (read("rw/.git/config"), read("rw/.env")),
        ("[core]\n".to_owned(), "KEY=secret\n".to_owned())
    );
    assert!(
        !finished.project().path("rw/.git/hooks").exists(),
        "{answer}"
    );
}

/// Measures one command on another machine, compared with `ssh host docker exec`, for
/// `docs/performance.md`: with an almost empty workspace, and with one of 2,000 files.
#[test]
fn commands_elsewhere_are_timed_when_asked_for() {
    if std::env::var_os("MASSGEN_TEST_TIMES").is_none() {
        eprintln!("skipped: MASSGEN_TEST_TIMES is not set");
        return;
    }
    let Some(remote) = RemoteEngine::start() else {
        return;
    };
    let fixture = remote.fixture();
    let container = fixture.open();
    let reachable = fixture.reachable(Permission::Read);
    let does = |line: &str| drop(run(&fixture, &container, &reachable, line).unwrap());
    let client = format!(
        "docker -H unix://{} exec {} true",
        remote.daemon.socket().display(),
        container.name()
    );
    let by_hand = || {
        let ssh = remote.dir.path().join("bin/ssh");
        let done = Command::new(ssh).args(["build1", &client]).status();
        assert!(done.unwrap().success());
    };
    for files in [1, 2000] {
        does(&format!(
            "i=0; while [ $i -lt {files} ]; do echo $i >f$i; i=$((i+1)); done"
        ));
        does("true");
        for _ in 0..2 {
            let (own, client) = (median_time(20, || does("true")), median_time(20, by_hand));
            eprintln!(
                "{files} files, own: {own:?}, ssh docker exec: {client:?}, {:.2}",
                own.div_duration_f64(client)
            );
        }
    }
}
