//! Containers of a real engine: the suite installs Docker, starts its own daemon without any
//! network, builds an image without a registry, and stops everything again. Requires root.
#![expect(
    clippy::print_stderr,
    clippy::disallowed_types,
    reason = "a test says why it has nothing to do, and gives the daemon a log"
)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use massgen::config::docker::{
    CredentialsConfig, DependencyInstall, DockerConfig, PackagesConfig, RootAccess,
};
use massgen::dotenv::ConfigVariables;
use massgen::error::ErrorKind;
use massgen::id::AgentId;
use massgen::layout::RunName;
use massgen::path::AbsPath;
use massgen::permissions::grant::{GrantScope, Permission};
use massgen::sandbox_policy::{AccessiblePath, ResourceLimits};
use massgen::world::sandbox::container_owner::{ContainerOrigin, ContainerOwner};
use massgen::world::sandbox::docker::container::{AgentContainer, ContainerWork};
use massgen::world::sandbox::docker::credentials::HostUser;
use massgen::world::sandbox::docker::engine::ContainerEngine;
use massgen::world::sandbox::interrupt::CommandInterrupt;
use massgen::world::sandbox::reachable_paths::ReachablePaths;
use massgen::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};
use rustix::process::{geteuid, getgid, getuid};
use tempfile::TempDir;

use crate::docker_faults::containers;
use crate::interactive::{closed_session, interactive_project, wait_for_turn};
use crate::project::{Project, copy_program};
use crate::scripted_team::{agent, team};
use crate::terminal::{CTRL_D, Terminal};
use crate::waiting::wait_until;

/// Timeout of a daemon's answer, and of a slow command.
pub(crate) const TIME_MAX: Duration = Duration::from_mins(2);
/// Image of all tests: busybox, with stand-ins for package managers.
pub(crate) const IMAGE: &str = "massgen-test/busybox:1";
/// Runs the tests against Podman, which is off by default: its containers are monitored by
/// processes that outlive them.
const PODMAN_VARIABLE: &str = "MASSGEN_TEST_PODMAN";
/// Config that Podman needs on a machine without systemd.
const CONTAINERS_CONF: &str = "[containers]\ndefault_ulimits=[\"nofile=4096:4096\",\"nproc=4096:4096\"]\n\
                               [engine]\nruntime=\"runc\"\ncgroup_manager=\"cgroupfs\"\n\
                               events_logger=\"file\"\n";
/// Address of the daemon, for a test that runs itself again as another user.
const SOCKET_VARIABLE: &str = "MASSGEN_TEST_DOCKER_SOCKET";

/// A daemon with one image. It stops with the last test that uses it, or with the process.
pub(crate) struct Daemon {
    dir: TempDir,
    process: Option<Child>,
}

static SHARED_DAEMON: Mutex<Weak<Daemon>> = Mutex::new(Weak::new());

/// Returns the daemon of all running tests; `None` if this user cannot start one.
pub(crate) fn daemon() -> Option<Arc<Daemon>> {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can start a daemon of Docker");
        return None;
    }
    let mut shared = SHARED_DAEMON.lock().unwrap_or_else(PoisonError::into_inner);
    Some(shared.upgrade().unwrap_or_else(|| {
        let daemon = Arc::new(Daemon::start());
        *shared = Arc::downgrade(&daemon);
        daemon
    }))
}

impl Daemon {
    pub(crate) fn start() -> Self {
        install("dockerd", "docker.io");
        install("busybox", "busybox-static");
        let mut daemon = Self {
            dir: tempfile::tempdir().unwrap(),
            process: None,
        };
        daemon.start_process();
        daemon.import(IMAGE, "missing");
        daemon
    }

    /// Returns the path of one of its files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts it again after it was killed.
    pub(crate) fn restart(&mut self) {
        self.stop_process();
        // Stale files of the killed daemon would keep the next one from starting.
        for stale in ["pid", "exec/containerd/containerd.pid"] {
            fs::remove_file(self.path(stale)).unwrap_or_default();
        }
        self.start_process();
    }

    fn start_process(&mut self) {
        let path = |name: &str| self.path(name).display().to_string();
        let log = fs::File::create(path("log")).unwrap();
        // If this process ends, the pipe closes, which stops the daemon.
        let mut process = Command::new("sh");
        if is_podman() {
            install("podman", "podman");
            fs::write(path("containers.conf"), CONTAINERS_CONF).unwrap();
            process.env("CONTAINERS_CONF", path("containers.conf"));
            process.args([
                "-c",
                r#"podman "$@" </dev/null & cat; kill $!; wait $!"#,
                "sh",
            ]);
            process.args(["--root", &path("data"), "--runroot", &path("exec")]);
            process.args(["system", "service", "--time=0"]);
            process.arg(format!("unix://{}", path("docker.sock")));
        } else {
            process.args([
                "-c",
                r#"dockerd "$@" </dev/null & cat; kill $!; wait $!"#,
                "sh",
            ]);
            process.args(["--data-root", &path("data"), "--exec-root", &path("exec")]);
            process.args(["-H", &format!("unix://{}", path("docker.sock"))]);
            process.args(["--pidfile", &path("pid"), "--bridge=none"]);
            process.args([
                "--iptables=false",
                "--ip6tables=false",
                "--userland-proxy=false",
            ]);
        }
        let process = process
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while !self.docker(&["version"]).status.success() {
            let log = || fs::read_to_string(path("log")).unwrap();
            assert!(begin.elapsed() < TIME_MAX, "no daemon:\n{}", log());
            thread::sleep(Duration::from_millis(50));
        }
        self.process = Some(process);
    }

    fn stop_process(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.stdin.take());
            process.wait().unwrap();
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("docker.sock")
    }

    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Runs Docker's own client.
    fn docker(&self, arguments: &[&str]) -> std::process::Output {
        let mut client = Command::new("docker");
        client.arg("-H").arg(self.host()).args(arguments);
        client.output().unwrap()
    }

    /// Returns the output of Docker's own client.
    #[track_caller]
    pub(crate) fn client_output(&self, arguments: &[&str]) -> String {
        let output = self.docker(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns the command lines of all processes in a container; none if it is not running.
    pub(crate) fn processes(&self, container: &str) -> String {
        let output = self.docker(&["top", container, "-eo", "pid,args"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Builds an image from busybox. Its package managers record how they were called, and fail for
    /// packages in `refused`.
    fn import(&self, name: &str, refused: &str) {
        let root = self.path("root");
        let dirs = [
            "bin",
            "etc/sudoers.d",
            "tmp",
            "root",
            "usr/bin",
            "usr/local/bin",
        ];
        for dir in dirs {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        fs::set_permissions(root.join("tmp"), Permissions::from_mode(0o1777)).unwrap();
        fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        // The copy cannot be executed while a process that another test has just started holds it
        // open.
        let applets = Command::new("/bin/busybox")
            .arg("--list")
            .output()
            .unwrap()
            .stdout;
        for applet in String::from_utf8(applets).unwrap().lines() {
            let link = root.join("bin").join(applet);
            if !link.exists() {
                symlink("busybox", link).unwrap();
            }
        }
        for name in ["apt-get", "python3", "npm", "git"] {
            let program = root.join("bin").join(name);
            let script = format!(
                "#!/bin/sh\ncase \"$*\" in *{refused}*) echo no such package >&2; exit 1;; esac\n\
                 echo \"$(id -u) {name} $*\" >>/tmp/installed\n"
            );
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        }
        self.import_dir(name, &root);
    }

    /// Builds an image from a directory.
    pub(crate) fn import_dir(&self, name: &str, root: &Path) {
        let script = format!(
            "tar -C '{}' -c . | docker -H '{}' import - {name}",
            root.display(),
            self.host()
        );
        let imported = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(imported.status.success(), "{imported:?}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop_process();
    }
}

/// Returns whether the suite was asked to start Podman.
pub(crate) fn is_podman() -> bool {
    std::env::var_os(PODMAN_VARIABLE).is_some()
}

/// Installs a program if it is missing.
fn install(program: &str, package: &str) {
    let is_there = || {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output();
        found.unwrap().status.success()
    };
    if is_there() {
        return;
    }
    let script =
        format!("apt-get update -qq && apt-get install -y -qq --no-install-recommends {package}");
    let mut apt = Command::new("sh");
    let installed = apt
        .args(["-c", &script])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output();
    assert!(
        is_there(),
        "`{program}` is missing and cannot be installed: {installed:?}"
    );
}

pub(crate) fn abs(path: impl AsRef<Path>) -> AbsPath {
    AbsPath::new(path).unwrap()
}

/// A user's directories, and what their agent can access.
pub(crate) struct ContainerFixture {
    root: TempDir,
    engine: ContainerEngine,
    pub(crate) config: DockerConfig,
    pub(crate) limits: ResourceLimits,
    env: BTreeMap<String, String>,
    run: RunName,
}

impl ContainerFixture {
    /// Creates a project with protected and hidden paths, a workspace below it, and a home.
    pub(crate) fn new(host: &str) -> Self {
        let engine = ContainerEngine::open(Some(host)).unwrap();
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("project/src/main.rs", "fn main() {}\n");
        file("project/lib/.git/config", "[core]\n");
        file("project/.massgen/config.yaml", "secret\n");
        file("project/.massgen/ws/begin", "begin\n");
        file("project/notes.txt", "secret\n");
        fs::create_dir(root.path().join("unique")).unwrap();
        file("home/.ssh/id", "key\n");
        file("home/.config/gh/hosts.yml", "token\n");
        let run = u32::from_str_radix(
            uuid::Uuid::new_v4().simple().to_string().get(..8).unwrap(),
            16,
        );
        Self {
            root,
            engine,
            config: DockerConfig {
                image: IMAGE.to_owned(),
                ..DockerConfig::default()
            },
            limits: ResourceLimits::default(),
            env: BTreeMap::new(),
            run: RunName::new(run.unwrap()),
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn workspace(&self) -> AbsPath {
        abs(self.path("project/.massgen/ws"))
    }

    pub(crate) fn open(&self) -> AgentContainer {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> massgen::error::Result<AgentContainer> {
        self.open_after(None, Permission::Read)
    }

    /// Opens the container of the turn after that of `previous`, in which the project has this
    /// permission.
    fn open_after(
        &self,
        previous: Option<AgentContainer>,
        permission: Permission,
    ) -> massgen::error::Result<AgentContainer> {
        let owner = ContainerOwner {
            agent: &AgentId::parse("Coder").unwrap(),
            origin: ContainerOrigin {
                run: self.run,
                state: &abs(self.path("project/.massgen")),
                unique_directory: &abs(self.path("unique")),
            },
            workspace: &self.workspace(),
            limits: &self.limits,
            config_env: &BTreeMap::from([("ADDED".to_owned(), "in words".to_owned())]),
        };
        let user = HostUser {
            home: Some(&abs(self.path("home"))),
            env: &self.env,
            variables: &self.env.clone().into_iter().collect::<ConfigVariables>(),
        };
        let (work, reachable) = (ContainerWork::Commands, self.reachable(permission));
        AgentContainer::open(
            &self.engine,
            owner,
            work,
            &self.config,
            user,
            &reachable,
            previous,
        )
    }

    /// Returns what the agent can access if the project is readable, or writable.
    pub(crate) fn reachable(&self, permission: Permission) -> ReachablePaths {
        let opening = |path: &str, permission| AccessiblePath {
            path: abs(self.path(path)),
            permission,
            scope: GrantScope::Tree,
        };
        let open = vec![
            opening("project", permission),
            opening("project/.massgen/ws", Permission::Write),
        ];
        let masked = match permission {
            Permission::Read => Vec::new(),
            Permission::Write => vec![abs(self.path("project/lib/.git"))],
        };
        ReachablePaths {
            open,
            masked,
            hidden: ["project/.massgen", "project/notes.txt", "project/nothing"]
                .map(|path| abs(self.path(path)))
                .into(),
            copies: BTreeMap::new(),
        }
    }
}

fn wait_limits(interrupt: &CommandInterrupt, time_max: Duration) -> CommandWaitLimits<'_> {
    CommandWaitLimits {
        time_max,
        output_bytes_max: 4096,
        interrupt: Some(interrupt),
        network: None,
    }
}

/// Runs commands in the workspace of a fixture.
pub(crate) struct ContainerShell<'a>(
    pub(crate) &'a ContainerFixture,
    pub(crate) &'a AgentContainer,
);

impl ContainerShell<'_> {
    pub(crate) fn run(&self, command: &str, time_max: Duration) -> CommandOutput {
        let interrupt = CommandInterrupt::new().unwrap();
        let wait = wait_limits(&interrupt, time_max);
        self.1.run(command, &self.0.workspace(), wait).unwrap()
    }

    /// Runs a command that needs these mounts.
    fn run_with_paths(&self, command: &str, reachable: &ReachablePaths) -> CommandOutput {
        let interrupt = CommandInterrupt::new().unwrap();
        let wait = wait_limits(&interrupt, TIME_MAX);
        let dir = self.0.workspace();
        let finished = self.1.run_with_paths(command, &dir, reachable, wait);
        finished.unwrap()
    }

    /// Returns the output of a command on both streams, and its exit status if it is not 0.
    #[track_caller]
    fn command_output(&self, command: &str) -> String {
        let finished = self.run(command, TIME_MAX);
        let text = format!("{}{}", finished.stdout.text, finished.stderr.text);
        if finished.exit_reason == ExitReason::Exited(0) {
            text
        } else {
            format!("{text}{:?}", finished.exit_reason)
        }
    }

    #[track_caller]
    pub(crate) fn check(&self, command: &str, expected: &str) {
        assert_eq!(self.command_output(command), expected, "{command}");
    }

    /// Checks that a command fails with these words.
    #[track_caller]
    fn check_fails(&self, command: &str, words: &str) {
        let output = self.command_output(command);
        let failed = output.ends_with(')') && output.contains("Exited");
        assert!(failed && output.contains(words), "{command}: {output}");
    }
}

#[test]
fn the_container_of_a_turn_is_continued_by_the_next_one() {
    let Some(daemon) = daemon() else { return };
    let mut fixture = ContainerFixture::new(&daemon.host());
    let mut container = fixture.open();
    let shell = ContainerShell(&fixture, &container);
    shell.check("echo kept > ~/note", "");
    container.end_processes();
    // As a rule, a turn has another workspace, and thus other mounts.
    for permission in [Permission::Write, Permission::Write] {
        let next = fixture.open_after(Some(container), permission).unwrap();
        assert!(next.is_continued());
        let shell = ContainerShell(&fixture, &next);
        shell.check("cat ~/note", "kept\n");
        container = next;
    }
    fixture.limits.processes = 123;
    let next = fixture
        .open_after(Some(container), Permission::Write)
        .unwrap();
    assert!(!next.is_continued());
    ContainerShell(&fixture, &next).check("test -e ~/note || echo it is gone", "it is gone\n");
}

/// Replies of an agent that leaves a file and a process in its container, or looks for them.
const SESSION_REPLIES: &str = r#"
- when: {last: "Look"}
  calls: [{name: execute_command, arguments: {command: "ps | grep -q '[9]8765' || cat ~/note"}}]
- when: {last: "Keep"}
  calls: [{name: execute_command, arguments: {command: "echo ke''pt >~/note; (env -i /bin/busybox setsid sleep 98765 >/dev/null 2>&1 </dev/null &); until ps | grep -q '[9]8765'; do sleep 0.1; done"}}]
- when: {last: "kept"}
  calls: [{name: new_answer, arguments: {content: it is there}}]
- calls: [{name: new_answer, arguments: {content: done}}]
"#;

#[test]
fn a_container_lasts_from_turn_to_turn_of_a_session_and_its_processes_do_not() {
    let Some(daemon) = daemon() else { return };
    let keys = format!(
        "cwd: w\nenable_mcp_command_line: true\ncommand_line_execution_mode: docker\n\
         command_line_docker_image: {IMAGE}"
    );
    let session_team = team(&[agent("keeper", &keys, SESSION_REPLIES)], "");
    let project = Project::new()
        .file("team.yaml", session_team)
        .args(["--config", "team.yaml"])
        .env("DOCKER_HOST", daemon.host());
    let mut terminal = closed_session(interactive_project(project));
    let count_found = |terminal: &Terminal| {
        let output = terminal.all_output();
        output.matches("\nit is there").count()
    };
    wait_for_turn(&mut terminal, "Keep", 1);
    assert_eq!(count_found(&terminal), 0);
    wait_for_turn(&mut terminal, "Look", 2);
    assert_eq!(count_found(&terminal), 1);
    terminal.type_keys("/reset\r\r");
    terminal.wait_for_output("new session");
    wait_for_turn(&mut terminal, "Look", 3);
    assert_eq!(count_found(&terminal), 1);
    terminal.type_keys(CTRL_D);
    let project = terminal.wait_for_end(0);
    assert_eq!(containers(&daemon, &project), "");
}

#[test]
fn a_container_is_kept_across_commands_and_removed_at_the_end() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let container = fixture.open();
    let name = container.name().to_owned();
    assert_eq!(name, format!("massgen-Coder-{}", fixture.run));
    let shell = ContainerShell(&fixture, &container);
    shell.check("pwd", &format!("{}\n", fixture.workspace()));
    shell.check(
        "cat begin && echo $HOME $ADDED && whoami",
        "begin\n/home/massgen in words\nroot\n",
    );
    let split = shell.run("echo out; echo err >&2; exit 3", TIME_MAX);
    assert_eq!(
        (split.stdout.text.as_str(), split.stderr.text.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!(split.exit_reason, ExitReason::Exited(3));
    shell.check(
        "echo kept >~/state; echo made >made; printf '\\377\\n'",
        "\\xff\n",
    );
    shell.check("cat ~/state", "kept\n");
    assert_eq!(
        fs::read_to_string(fixture.path("project/.massgen/ws/made")).unwrap(),
        "made\n"
    );
    shell.check("mkdir -p .venv/bin; printf '#!/bin/sh\\necho mine\\n' >.venv/bin/tool; chmod +x .venv/bin/tool", "");
    shell.check("tool", "mine\n");
    container.close().unwrap();
    assert_eq!(
        daemon.client_output(&["ps", "-aq", "--filter", &format!("name={name}")]),
        ""
    );
    // A dropped container is removed too.
    let dropped = fixture.open().name().to_owned();
    assert_eq!(
        daemon.client_output(&["ps", "-aq", "--filter", &format!("name={dropped}")]),
        ""
    );
}

#[test]
fn a_container_sees_what_is_granted_and_nothing_else() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let mounted = TmpfsMount::at(&fixture.path("project/src/disk"));
    let container = fixture.open();
    let shell = ContainerShell(&fixture, &container);
    let project = fixture.path("project").display().to_string();
    shell.check(
        &format!("cat {project}/src/main.rs; touch made"),
        "fn main() {}\n",
    );
    shell.check_fails(&format!("touch {project}/src/x"), "Read-only");
    shell.check_fails(&format!("touch {}/x", mounted.0.display()), "Read-only");
    shell.check(
        &format!("cat {project}/notes.txt; ls -A {project}/.massgen"),
        "ws\n",
    );
    shell.check_fails(
        &format!("ls {}", fixture.path("home").display()),
        "No such file",
    );
    shell.check_fails(&format!("ls {}", daemon.socket().display()), "No such file");
    assert_eq!(
        fs::read_to_string(fixture.path("project/notes.txt")).unwrap(),
        "secret\n"
    );
    assert!(!fixture.path("project/nothing").exists());
}

#[test]
fn the_final_phase_writes_what_is_not_protected_and_keeps_the_containers_state() {
    let Some(daemon) = daemon() else { return };
    let mut fixture = ContainerFixture::new(&daemon.host());
    fixture.config.packages.python = vec!["pytest".to_owned()];
    let container = fixture.open();
    let shell = ContainerShell(&fixture, &container);
    let id = || daemon.client_output(&["inspect", "-f", "{{.Id}}", container.name()]);
    let before = id();
    container
        .remount(&fixture.reachable(Permission::Read))
        .unwrap();
    assert_eq!(id(), before);
    let project = fixture.path("project").display().to_string();
    let source = format!("{project}/src/main.rs");
    shell.check_fails(&format!("echo 1 >{source}"), "Read-only");
    shell.check("echo state >~/kept; echo state >/tmp/kept", "");
    container
        .remount(&fixture.reachable(Permission::Write))
        .unwrap();
    assert_ne!(id(), before);
    shell.check(
        &format!("echo 1 >{source}; cat ~/kept /tmp/kept /tmp/installed"),
        "state\nstate\n0 python3 -m pip install --quiet pytest\n",
    );
    shell.check_fails(&format!("echo 1 >{project}/lib/.git/config"), "Read-only");
    shell.check_fails(&format!("mv {project}/lib/.git {project}/lib/git"), "busy");
    shell.check_fails(&format!("mv {project}/lib {project}/other"), "busy");
    shell.check(
        &format!("cat {project}/notes.txt; ls -A {project}/.massgen"),
        "ws\n",
    );
    assert_eq!(fs::read_to_string(&source).unwrap(), "1\n");
    // Paths that a later turn adds are accessible, and everything else stays.
    fs::create_dir(fixture.path("more")).unwrap();
    let mut more = fixture.reachable(Permission::Write);
    more.open.push(AccessiblePath {
        path: abs(fixture.path("more")),
        permission: Permission::Write,
        scope: GrantScope::Tree,
    });
    // Commands that need different mounts at the same time each run with their own.
    let read = fixture.reachable(Permission::Read);
    let adding = format!(
        "cat ~/kept; echo 2 >{}",
        fixture.path("more/file").display()
    );
    thread::scope(|scope| {
        let added = scope.spawn(|| shell.run_with_paths(&adding, &more));
        let refused = shell.run_with_paths(&format!("echo 2 >{source}"), &read);
        assert_ne!(refused.exit_reason, ExitReason::Exited(0));
        assert!(refused.stderr.text.contains("Read-only"), "{refused:?}");
        let added = added.join().unwrap();
        assert_eq!(added.exit_reason, ExitReason::Exited(0), "{added:?}");
        assert_eq!(added.stdout.text, "state\n");
    });
    assert_eq!(
        fs::read_to_string(fixture.path("more/file")).unwrap(),
        "2\n"
    );
    assert_eq!(fs::read_to_string(&source).unwrap(), "1\n");
    let images = || daemon.client_output(&["images", "-aq", "--filter", "label=massgen.run"]);
    assert_ne!(images(), "");
    container.close().unwrap();
    container.close().unwrap();
    assert_eq!(
        daemon.client_output(&[
            "ps",
            "-aq",
            "--filter",
            &format!("name={}", container.name())
        ]),
        ""
    );
    let own = format!("label=massgen.run={}", fixture.run);
    assert_eq!(
        daemon.client_output(&["images", "-aq", "--filter", &own]),
        ""
    );
}

#[test]
fn a_root_that_has_become_a_link_is_not_mounted() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let container = fixture.open();
    let ws = fixture.path("project/.massgen/ws");
    fs::rename(&ws, fixture.path("project/.massgen/moved")).unwrap();
    symlink("/etc", &ws).unwrap();
    let refused = container
        .remount(&fixture.reachable(Permission::Write))
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("was replaced by a symlink to `/etc`"),
        "{refused}"
    );
    ContainerShell(&fixture, &container).check("cat begin", "begin\n");
}

#[test]
fn time_that_is_out_ends_everything_inside_and_nothing_else() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let container = fixture.open();
    let shell = ContainerShell(&fixture, &container);
    let left = "ps -o args | grep -c '^sleep 12[0-9]'";
    let hostile = "sleep 121 & setsid sleep 122 & (env -i /bin/busybox setsid /bin/sleep 123 &) \n\
                   trap '' TERM; echo begun; sleep 124; sleep 125";
    let interrupt = CommandInterrupt::new().unwrap();
    let reachable = fixture.reachable(Permission::Read);
    thread::scope(|scope| {
        let background = "echo on; sleep 120; echo off";
        let follow = || {
            let mut output = Vec::new();
            let mut take = |bytes: &[u8]| output.extend_from_slice(bytes);
            let exit_reason = container.follow(
                background,
                &fixture.workspace(),
                &reachable,
                &interrupt,
                &mut take,
            );
            (exit_reason.unwrap(), String::from_utf8(output).unwrap())
        };
        let follower = scope.spawn(follow);
        wait_until("the background command runs", TIME_MAX, || {
            shell.command_output("ps -o args | grep -c '^sleep 120'") == "1\n"
        });
        // On a busy machine, it needs more time to begin.
        let times = [1, 5, 25, 60].into_iter().map(Duration::from_secs);
        let mut tries = times.map(|time| shell.run(hostile, time));
        let finished = tries.find(|run| !run.stdout.text.is_empty()).unwrap();
        assert_eq!(finished.exit_reason, ExitReason::TimedOut);
        assert_eq!(finished.stdout.text, "begun\n");
        // The background command keeps running.
        shell.check(left, "1\n");
        interrupt.raise();
        let (exit_reason, output) = follower.join().unwrap();
        assert_eq!(
            (exit_reason, output.as_str()),
            (ExitReason::Interrupted, "on\n")
        );
    });
    shell.check_fails(left, "0\n");
    let finished = shell.run(hostile, Duration::from_secs(1));
    assert_eq!(finished.exit_reason, ExitReason::TimedOut);
    shell.check_fails(left, "0\n");
    // A process that a command leaves behind ends with it, and does not keep its output open.
    shell.check("sleep 126 & setsid sleep 127 & echo done", "done\n");
    shell.check_fails(left, "0\n");
}

#[test]
fn an_interrupt_ends_a_command_at_once() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let container = fixture.open();
    let interrupt = CommandInterrupt::new().unwrap();
    interrupt.raise();
    let wait = CommandWaitLimits {
        time_max: TIME_MAX,
        output_bytes_max: 100,
        interrupt: Some(&interrupt),
        network: None,
    };
    let finished = container
        .run("sleep 120", &fixture.workspace(), wait)
        .unwrap();
    assert_eq!(finished.exit_reason, ExitReason::Interrupted);
    ContainerShell(&fixture, &container).check_fails("ps -o args | grep '^sleep 120'", "");
}

#[test]
fn a_container_has_no_rights_and_no_network_and_its_limits_hold() {
    let Some(daemon) = daemon() else { return };
    let mut fixture = ContainerFixture::new(&daemon.host());
    fixture.config.memory_bytes = Some(64 << 20);
    fixture.config.nano_cpus = Some(500_000_000);
    fixture.limits.processes = 40;
    fixture.limits.file_bytes = 1 << 20;
    let container = fixture.open();
    let shell = ContainerShell(&fixture, &container);
    shell.check(
        "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status | tr -d '\\n\\t'",
        "CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1",
    );
    shell.check("ls /sys/class/net", "lo\n");
    shell.check_fails("mount -t tmpfs none /tmp", "denied");
    let cpu = daemon.client_output(&[
        "inspect",
        "-f",
        "{{.HostConfig.NanoCpus}}",
        container.name(),
    ]);
    assert_eq!(cpu, "500000000");
    shell.check_fails("dd if=/dev/zero of=big bs=1M count=2", "");
    shell.check_fails("tail -c 200000000 /dev/zero >/dev/null", "137");
    let bomb = shell.run(
        "bomb() { bomb | bomb & }; bomb & exec sleep 120",
        Duration::from_secs(2),
    );
    assert_eq!(bomb.exit_reason, ExitReason::TimedOut);
    shell.check("echo and on", "and on\n");
    let much = shell.run("yes | head -c 100000000; exit 5", TIME_MAX);
    assert_eq!(much.exit_reason, ExitReason::Exited(5));
    assert!(much.stdout.text.len() < 5000 && much.stdout.left_out_bytes > 99_000_000);
}

#[test]
fn a_container_that_was_ended_from_outside_is_started_again() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let container = fixture.open();
    let shell = ContainerShell(&fixture, &container);
    shell.check("echo state >~/kept", "");
    daemon.client_output(&["kill", container.name()]);
    shell.check("cat ~/kept", "state\n");
}

#[test]
fn the_next_run_removes_containers_of_a_dead_run_and_no_others() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let alive = fixture.open();
    let state = fixture.path("project/.massgen").display().to_string();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
    let template = "{{index .Config.Labels \"massgen.machine\"}}";
    let machine = daemon.client_output(&["inspect", "--format", template, alive.name()]);
    let plant = |name: &str, state: &str, started: &str| {
        let labels = [
            format!("massgen.state={state}"),
            format!("massgen.machine={machine}"),
            "massgen.pid=1".to_owned(),
            format!("massgen.pid.namespace={}", namespace.display()),
            format!("massgen.pid.started={started}"),
        ];
        let mut arguments = vec!["create", "--name", name];
        arguments.extend(labels.iter().flat_map(|label| ["--label", label]));
        arguments.extend([IMAGE, "true"]);
        daemon.client_output(&arguments);
    };
    let (dead, foreign) = (
        format!("dead-{}", fixture.run),
        format!("foreign-{}", fixture.run),
    );
    plant(&dead, &state, "999999999999");
    plant(&foreign, "/elsewhere/.massgen", "999999999999");
    if !is_podman() {
        // Docker's own client does not understand Podman's answer.
        daemon.client_output(&["commit", &dead]);
    }
    let removed = fixture.engine.remove_leftovers(&abs(&state)).unwrap();
    assert_eq!(removed, [dead]);
    ContainerShell(&fixture, &alive).check("echo alive", "alive\n");
    let of_state = format!("label=massgen.state={state}");
    assert_eq!(
        daemon.client_output(&["images", "-aq", "--filter", &of_state]),
        ""
    );
    daemon.client_output(&["rm", &foreign]);
}

#[test]
fn credentials_are_given_when_they_are_listed_and_cannot_be_changed() {
    let Some(daemon) = daemon() else { return };
    let mut fixture = ContainerFixture::new(&daemon.host());
    let env_file = fixture.path("secrets.env");
    fs::write(&env_file, "# two\nA='a a'\nB=b\n").unwrap();
    for (name, value) in [("TOKEN", "t"), ("OTHER", "o"), ("PATH", "/nowhere")] {
        fixture.env.insert(name.to_owned(), value.to_owned());
    }
    let none = fixture.open();
    ContainerShell(&fixture, &none).check("ls -A ~; echo $TOKEN$OTHER$A", "\n");
    none.close().unwrap();
    fixture.config.credentials = CredentialsConfig {
        mount: vec![".ssh", ".config/gh"],
        additional_mounts: BTreeMap::from([(abs(&env_file), abs("/srv/secrets"))]),
        env_file: Some(abs(&env_file)),
        env_vars_from_file: vec!["A".to_owned()],
        env_vars: vec!["TOKEN".to_owned(), "UNSET".to_owned()],
        ..CredentialsConfig::default()
    };
    let some = fixture.open();
    assert_eq!(some.notes(), ["the variable `UNSET` is not set"]);
    let shell = ContainerShell(&fixture, &some);
    shell.check(
        "cat ~/.ssh/id ~/.config/gh/hosts.yml; echo $TOKEN$OTHER,$A,$B",
        "key\ntoken\nt,a a,\n",
    );
    shell.check_fails("echo 1 >~/.ssh/id", "Read-only");
    shell.check_fails("echo 1 >/srv/secrets", "Read-only");
    shell.check("touch ~/.config/own", "");
    // `inspect` of the container shows no secret.
    let inspection = daemon.client_output(&["inspect", some.name()]);
    assert!(
        !inspection.contains("a a") && !inspection.contains("TOKEN"),
        "{inspection}"
    );
    some.close().unwrap();
    fixture.config.credentials.mount.push(".npmrc");
    let refused = fixture.try_open().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Environment);
    assert!(refused.to_string().contains(".npmrc"), "{refused}");
    fixture.config.credentials = CredentialsConfig {
        additional_mounts: BTreeMap::from([(abs(&env_file), fixture.workspace().join("in/key"))]),
        ..CredentialsConfig::default()
    };
    let refused = fixture.try_open().unwrap_err();
    assert!(refused.to_string().contains("is inside"), "{refused}");
}

#[test]
fn packages_are_installed_in_order_and_failures_reported() {
    let Some(daemon) = daemon() else { return };
    let mut fixture = ContainerFixture::new(&daemon.host());
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    fixture.config.root = RootAccess::BySudo;
    fixture.config.packages = PackagesConfig {
        system: names(&["vim"]),
        python: names(&["missing>=1"]),
        npm: names(&["typescript", "eslint"]),
        dependencies: DependencyInstall::Automatic,
    };
    let container = fixture.open();
    let failed = "Python packages were not installed (missing>=1): no such package";
    assert_eq!(container.notes(), [failed]);
    let shell = ContainerShell(&fixture, &container);
    let system = "0 apt-get update -qq\n0 apt-get install -y -qq --no-install-recommends vim\n";
    let npm = "0 npm install --global --silent --prefix /home/massgen/.local typescript eslint\n";
    shell.check(
        "cat /tmp/installed; rm /tmp/installed; cp begin requirements.txt",
        &format!("{system}{npm}"),
    );
    let python = "0 python3 -m pip install --quiet -r requirements.txt\n";
    shell.check("cat /tmp/installed", python);
    shell.check("cat /tmp/installed; echo 2 >>requirements.txt", python);
    shell.check("wc -l </tmp/installed", "2\n");
}

#[test]
fn a_missing_engine_is_reported_with_a_remedy() {
    let Some(daemon) = daemon() else { return };
    let mut fixture = ContainerFixture::new(&daemon.host());
    let check = |error: massgen::error::Error, words: &str, remedy: &str| {
        assert_eq!(error.kind(), ErrorKind::Environment);
        assert!(format!("{error:#}").contains(words), "{error:#}");
        assert!(
            error.hints().join("\n").contains(remedy),
            "{:?}",
            error.hints()
        );
    };
    let nowhere = format!("unix://{}", fixture.path("nowhere.sock").display());
    check(
        ContainerEngine::open(Some(&nowhere)).unwrap_err(),
        "no Docker or Podman daemon found at",
        "docker.io",
    );
    check(
        ContainerEngine::open(Some("tcp://10.0.0.1:1")).unwrap_err(),
        "expected a Unix socket of this machine",
        "run massgen there",
    );
    fixture.config.image = "example/none:1".to_owned();
    check(
        fixture.try_open().unwrap_err(),
        "is not on this machine",
        "docker pull example/none:1",
    );
}

#[test]
fn the_image_is_built_from_what_ships_with_massgen() {
    let Some(daemon) = daemon() else { return };
    let build = |arguments: &[&str]| {
        let arguments = ["docker", "build"].iter().chain(arguments);
        Project::new()
            .env("DOCKER_HOST", daemon.host())
            .args(arguments)
    };
    let mut fixture = ContainerFixture::new(&daemon.host());
    fixture.config = DockerConfig::default();
    let missing = fixture.try_open().unwrap_err();
    assert_eq!(missing.hints(), ["massgen docker build"], "{missing}");
    let base = "debian:trixie-slim";
    daemon.import(base, "ripgrep");
    let failed = build(&[]).failure(3);
    assert!(
        failed
            .stderr()
            .contains("cannot build the image `massgen/mcp-runtime:latest`")
    );
    assert!(
        failed.stderr().contains("no such package"),
        "{}",
        failed.stderr()
    );
    daemon.import(base, "missing");
    let made = build(&[]).success();
    assert_eq!(made.stdout(), "massgen/mcp-runtime:latest\n");
    assert!(
        made.stderr().contains("FROM debian:trixie-slim"),
        "{}",
        made.stderr()
    );
    assert_eq!(
        build(&["--sudo"]).success().stdout(),
        "massgen/mcp-runtime-sudo:latest\n"
    );
    fixture.config = DockerConfig {
        image: "massgen/mcp-runtime-sudo:latest".to_owned(),
        ..DockerConfig::default()
    };
    let container = fixture.open();
    let sudoers = "cat /etc/sudoers.d/massgen";
    ContainerShell(&fixture, &container).check(sudoers, "ALL ALL=(ALL:ALL) NOPASSWD: ALL\n");
    for image in [
        "massgen/mcp-runtime:latest",
        "massgen/mcp-runtime-sudo:latest",
        base,
    ] {
        drop(container.close());
        daemon.client_output(&["rmi", "-f", image]);
    }
}

#[test]
fn doctor_says_what_a_team_in_containers_lacks() {
    let Some(daemon) = daemon() else { return };
    let team = |image: &str| {
        format!(
            "agents:\n  - id: a\n    backend:\n      type: scripted\n      cwd: w\n      \
             replies: [{{text: hi}}]\n      enable_mcp_command_line: true\n      \
             command_line_execution_mode: docker\n      command_line_docker_image: {image}\n"
        )
    };
    let doctor = |image: &str, host: &str| {
        let project = Project::new().file("team.yaml", team(image));
        let project = project.env("DOCKER_HOST", host);
        project.args(["doctor", "--config", "team.yaml"])
    };
    let is_there = doctor(IMAGE, &daemon.host()).success();
    assert!(
        is_there.stdout().contains(&format!("`{IMAGE}` exists")),
        "{}",
        is_there.stdout()
    );
    let lacks = doctor("none:1", &daemon.host()).failure(3);
    assert!(
        lacks.stdout().contains("docker pull none:1"),
        "{}",
        lacks.stdout()
    );
    let nothing = doctor(IMAGE, "unix:///nowhere.sock").failure(3);
    assert!(
        nothing
            .stdout()
            .contains("no Docker or Podman daemon found at /nowhere.sock"),
        "{}",
        nothing.stdout()
    );
}

/// Returns the median duration of `work`.
pub(crate) fn median_time(repetitions: usize, work: impl Fn()) -> Duration {
    let time = |_| {
        let began = Instant::now();
        work();
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..repetitions).map(time).collect();
    times.sort();
    times[repetitions / 2]
}

/// Measures one command in a container, compared with Docker's own client, for
/// `docs/performance.md`.
#[test]
fn commands_are_timed_when_asked_for() {
    if std::env::var_os("MASSGEN_TEST_TIMES").is_none() {
        eprintln!("skipped: MASSGEN_TEST_TIMES is not set");
        return;
    }
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let opening = Instant::now();
    let container = fixture.open();
    eprintln!("open: {:?}", opening.elapsed());
    let shell = ContainerShell(&fixture, &container);
    for _ in 0..2 {
        let own = median_time(40, || shell.check("true", ""));
        let client = median_time(40, || {
            daemon.client_output(&["exec", container.name(), "sh", "-c", "true"]);
        });
        eprintln!(
            "own: {own:?}, docker exec: {client:?}, {:.2}",
            own.div_duration_f64(client)
        );
    }
    let remount = |permission| {
        let begin = Instant::now();
        container.remount(&fixture.reachable(permission)).unwrap();
        eprintln!("remount: {:?}", begin.elapsed());
    };
    remount(Permission::Write);
    shell.check(
        "dd if=/dev/zero of=/root/big bs=1M count=100 2>/dev/null",
        "",
    );
    remount(Permission::Read);
    let begin = Instant::now();
    assert_eq!(
        shell.run("sleep 9", Duration::from_millis(100)).exit_reason,
        ExitReason::TimedOut
    );
    eprintln!("timeout of 100 ms: {:?}", begin.elapsed());
}

/// Runs the same as another user, who must own the files afterwards.
#[test]
fn files_belong_to_the_user_who_runs_massgen() {
    if let Ok(socket) = std::env::var(SOCKET_VARIABLE) {
        return as_another_user(&socket);
    }
    let Some(daemon) = daemon() else { return };
    fs::set_permissions(daemon.socket(), Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(daemon.dir.path(), Permissions::from_mode(0o755)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let program = dir.path().join("tests");
    copy_program(&std::env::current_exe().unwrap(), &program);
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program)
        .args([
            "--exact",
            "docker::files_belong_to_the_user_who_runs_massgen",
            "--nocapture",
        ])
        .env("TMPDIR", dir.path())
        .env(SOCKET_VARIABLE, daemon.host())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{output:?}"
    );
}

fn as_another_user(socket: &str) {
    assert_ne!(getuid().as_raw(), 0);
    let fixture = ContainerFixture::new(socket);
    let container = fixture.open();
    let shell = ContainerShell(&fixture, &container);
    shell.check(
        "id -u; whoami; echo 1 >made; touch ~/own",
        "65534\nmassgen\n",
    );
    let made = fs::metadata(fixture.path("project/.massgen/ws/made")).unwrap();
    assert_eq!(
        (made.uid(), made.gid()),
        (getuid().as_raw(), getgid().as_raw())
    );
    let finished = shell.run("sleep 120 & sleep 121", Duration::from_secs(1));
    assert_eq!(finished.exit_reason, ExitReason::TimedOut);
    shell.check_fails("ps -o args | grep '^sleep 12'", "");
}

/// A file system mounted at a path until it is dropped.
pub(crate) struct TmpfsMount(pub(crate) PathBuf);

impl TmpfsMount {
    pub(crate) fn at(place: &Path) -> Self {
        fs::create_dir(place).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "none"])
            .arg(place)
            .status();
        assert!(mounted.unwrap().success());
        Self(place.to_owned())
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.unwrap().success());
    }
}
