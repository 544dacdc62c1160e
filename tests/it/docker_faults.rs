//! Failures of engines and containers: each is reported with its remedy, the run continues or ends,
//! and nothing is left behind. Uses the suite's own engines.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use massgen::permissions::grant::Permission;
use massgen::world::sandbox::disk_watch::DiskShortage;
use massgen::world::sandbox::docker::engine::ContainerEngine;
use massgen::world::sandbox::interrupt::CommandInterrupt;
use massgen::world::sandbox::{CommandWaitLimits, ExitReason};

use crate::docker::{
    ContainerFixture, ContainerShell, Daemon, IMAGE, TIME_MAX, TmpfsMount, daemon,
};
use crate::project::{Project, binary, copy_program};
use crate::scripted_team::team_with_command;
use crate::waiting::wait_until;

/// Returns a team of one whose agent runs this in a container of `image`, answers, and presents.
fn team(image: &str, command: &str) -> String {
    let keys = format!("command_line_execution_mode: docker\ncommand_line_docker_image: {image}");
    let answers = [("success", "answer"), ("not run", "answer without")];
    team_with_command(&keys, command, &answers)
}

fn project(daemon: &Daemon, image: &str, command: &str) -> Project {
    Project::new()
        .file("team.yaml", team(image, command))
        .env("DOCKER_HOST", daemon.host())
        .args(["--config", "team.yaml", "go"])
}

/// Lists the containers of runs in a project, including stopped ones.
pub(crate) fn containers(daemon: &Daemon, project: &Project) -> String {
    let state = project.path(".massgen").display().to_string();
    let label = format!("label=massgen.state={state}");
    daemon.client_output(&["ps", "-aq", "--filter", &label])
}

/// Starts a run, and waits until its agent's command is running.
fn start_run(project: &Project) -> Child {
    let mut command = project.command();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let has_begun = || {
        let found = Command::new("find")
            .arg(project.path(""))
            .args(["-name", "begun"])
            .output();
        !found.unwrap().stdout.is_empty()
    };
    wait_until("command", TIME_MAX, has_begun);
    child
}

#[test]
fn the_next_run_removes_containers_of_a_killed_run_and_none_of_running_ones() {
    let Some(daemon) = daemon() else { return };
    let running = project(&daemon, IMAGE, "touch begun; sleep 120");
    let mut first = start_run(&running);
    let of_first = containers(&daemon, &running);
    assert_ne!(of_first, "");
    // Each check has its own container: what commands or another check change in theirs is not in
    // it.
    let checked = format!(
        "{}checks:\n  - test -e made && touch /tmp/planted ~/planted /bin/planted\n  \
         - test ! -e /tmp/planted && test ! -e ~/planted && test ! -e /bin/planted\n",
        team(IMAGE, "touch made /tmp/planted")
    );
    let second = running.retyped(["--config", "checked.yaml", "go"]);
    let second = second.file("checked.yaml", checked);
    let second = second.file("quick.yaml", team(IMAGE, "echo 1")).success();
    let shown = second.stderr();
    for check in ["passes test -e made", "passes test ! -e /tmp/planted"] {
        assert!(shown.contains(check), "{shown}");
    }
    let project = second.project();
    assert_eq!(containers(&daemon, project), of_first);
    // Control: it is found by its label, and killing only the run removes nothing.
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(containers(&daemon, project), of_first);
    let third = second.then(["--config", "quick.yaml", "go"]).success();
    assert_eq!(containers(&daemon, third.project()), "");
}

#[test]
fn nothing_is_asked_of_a_model_when_there_is_no_container() {
    let Some(daemon) = daemon() else { return };
    let check = |project: Project, words: &[&str]| {
        let finished = project.failure(3);
        for word in words {
            assert!(
                finished.stderr().contains(word),
                "{word}: {}",
                finished.stderr()
            );
        }
        let found = Command::new("grep")
            .args(["-rl", "request_started\\|new_answer\\|model_"])
            .arg(finished.project().path(".massgen"))
            .output();
        assert_eq!(String::from_utf8(found.unwrap().stdout).unwrap(), "");
    };
    check(
        project(&daemon, "none:1", "true"),
        &["`none:1` is not on this machine", "docker pull none:1"],
    );
    let empty = tempfile::tempdir().unwrap();
    fs::write(empty.path().join("file"), "text").unwrap();
    daemon.import_dir("no-shell:1", empty.path());
    check(
        project(&daemon, "no-shell:1", "true"),
        &[
            "cannot start a container of `no-shell:1`",
            "needs `/bin/sh`",
        ],
    );
    let nowhere = project(&daemon, IMAGE, "true").env("DOCKER_HOST", "unix:///nowhere.sock");
    check(nowhere, &["daemon found at /nowhere.sock", "docker.io"]);
    assert_eq!(
        daemon.client_output(&["ps", "-aq", "--filter", "ancestor=no-shell:1"]),
        ""
    );
    daemon.client_output(&["rmi", "no-shell:1"]);
}

/// An engine with other files at the same paths is one on another machine, or that of the machine on which
/// massgen itself runs in a container.
#[test]
fn an_engine_that_does_not_see_the_files_is_refused() {
    let Some(daemon) = daemon() else { return };
    let project = Project::new()
        .dir("ws")
        .dir("tmp")
        .env("DOCKER_HOST", daemon.host());
    let grants = format!(r#"{{"workspace": "{}"}}"#, project.path("ws").display());
    let temporary = project.path("tmp");
    let project = project
        .file("grants.json", grants)
        .env("TMPDIR", &temporary)
        .args([
            "tool",
            "execute_command",
            "--args",
            r#"{"command": "echo ran"}"#,
            "--grants",
            "grants.json",
            "--docker",
            IMAGE,
        ]);
    let call = |setup: &str| {
        let command = project.command();
        let mut outer = Command::new("unshare");
        outer
            .args(["--mount", "sh", "-c", &format!("{setup}; exec \"$@\"")])
            .arg(&temporary)
            .arg(command.get_program())
            .args(command.get_args())
            .envs(
                command
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .current_dir(project.path(""));
        let output = outer.output().unwrap();
        let shown = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(shown).unwrap())
    };
    let (code, shown) = call(":");
    assert!(code == Some(0) && shown.contains("ran"), "{code:?} {shown}");
    let (code, shown) = call("mount -t tmpfs none \"$0\"");
    assert_eq!(code, Some(3), "{shown}");
    for words in [
        "the engine does not see massgen's files",
        "run massgen there",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn an_engine_that_does_not_answer_is_reported_after_a_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("docker.sock");
    let _listens = UnixListener::bind(&socket).unwrap();
    let error = ContainerEngine::open(Some(&format!("unix://{}", socket.display()))).unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(
        error.hints().join("\n").contains("restart docker"),
        "{:?}",
        error.hints()
    );
}

#[test]
fn a_user_without_access_to_the_engine_gets_a_hint() {
    let Some(daemon) = daemon() else { return };
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    open(dir.path());
    let program = dir.path().join("massgen");
    copy_program(&binary(), &program);
    let socket = dir.path().join("docker.sock");
    let _listens = UnixListener::bind(&socket).unwrap();
    let ask = |mode: u32| {
        fs::set_permissions(&socket, Permissions::from_mode(mode)).unwrap();
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(["docker", "build"])
            .env("DOCKER_HOST", format!("unix://{}", socket.display()))
            .env("HOME", dir.path())
            .current_dir(dir.path())
            .output()
            .unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let denied = ask(0o600);
    assert!(
        denied.contains("is not accessible to you") && denied.contains("usermod -aG docker"),
        "{denied}"
    );
    let open = ask(0o666);
    assert!(open.contains("does not answer"), "{open}");
    drop(daemon);
}

#[test]
fn a_removed_container_is_recreated_and_the_agent_is_informed() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let container = fixture.open();
    let shell = ContainerShell(&fixture, &container);
    shell.check("echo state >~/kept; echo made >made", "");
    daemon.client_output(&["rm", "-f", container.name()]);
    let interrupt = CommandInterrupt::new().unwrap();
    let wait = || CommandWaitLimits {
        time_max: TIME_MAX,
        output_bytes_max: 4096,
        interrupt: Some(&interrupt),
        network: None,
    };
    let error = container
        .run("true", &fixture.workspace(), wait())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the container was removed from outside"),
        "{error}"
    );
    shell.check("ls -A ~; cat made", "made\n");
    // The same when other directories are about to be mounted.
    daemon.client_output(&["rm", "-f", container.name()]);
    let error = container
        .remount(&fixture.reachable(Permission::Write))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the container was removed from outside"),
        "{error}"
    );
    let source = fixture.path("project/src/main.rs");
    shell.check(&format!("echo 1 >{}", source.display()), "");
    assert_eq!(fs::read_to_string(source).unwrap(), "1\n");
    let name = container.name().to_owned();
    drop(container);
    assert_eq!(
        daemon.client_output(&["ps", "-aq", "--filter", &format!("name={name}")]),
        ""
    );
}

#[test]
fn no_process_writes_to_the_users_directories_after_a_command_has_ended() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let container = fixture.open();
    let shell = ContainerShell(&fixture, &container);
    let leave_writer = |path: &Path| {
        let path = path.display();
        // It has left the command's session when it writes.
        format!(
            "(env -i /bin/busybox setsid /bin/sh -c 'while :; do echo 1 >{path}; sleep 0.1; done' >/dev/null 2>&1 </dev/null &)
            until [ -e {path} ]; do sleep 0.05; done"
        )
    };
    let is_written = |path: &Path| {
        drop(fs::remove_file(path));
        thread::sleep(Duration::from_millis(500));
        path.exists()
    };
    // Control: in the workspace alone, such a process runs until the container stops.
    let own = fixture.path("project/.massgen/ws/late");
    shell.check(&leave_writer(&own), "");
    let mut tries = 0..60;
    assert!(tries.any(|_| is_written(&own)));
    container
        .remount(&fixture.reachable(Permission::Write))
        .unwrap();
    assert!(!is_written(&own));
    let users = fixture.path("project/late");
    shell.check(&leave_writer(&users), "");
    assert!(!is_written(&users));
    shell.check("echo and on", "and on\n");
}

#[test]
fn an_engine_that_ends_during_a_run_leaves_clear_errors_and_a_run_that_ends() {
    let Some(_shared) = daemon() else { return };
    if crate::docker::is_podman() {
        return;
    }
    let mut own = Daemon::start();
    let running = project(&own, IMAGE, "touch begun; sleep 120");
    let mut run = start_run(&running);
    let pid = fs::read_to_string(own.path("pid")).unwrap();
    let killed = Command::new("kill")
        .args(["-9", pid.trim()])
        .status()
        .unwrap();
    assert!(killed.success());
    wait_until("end of the run", TIME_MAX, || {
        run.try_wait().unwrap().is_some()
    });
    assert!(run.wait().unwrap().success());
    let matches = Command::new("grep")
        .args([
            "-rhoE",
            "the connection to the container engine failed|container engine does not",
        ])
        .arg(running.path(".massgen"))
        .output();
    assert!(!matches.unwrap().stdout.is_empty());
    // The next engine lists what the run could not remove, and the next run removes it.
    own.restart();
    let next = running.retyped(["--config", "quick.yaml", "go"]);
    let next = next.file("quick.yaml", team(IMAGE, "echo 1")).success();
    assert_eq!(containers(&own, next.project()), "");
}

#[test]
fn a_full_disk_ends_the_command_and_nothing_else() {
    let Some(daemon) = daemon() else { return };
    let fixture = ContainerFixture::new(&daemon.host());
    let small = TmpfsMount::at(&fixture.path("small"));
    let resized = Command::new("mount")
        .args(["-o", "remount,size=64m"])
        .arg(&small.0)
        .status();
    assert!(resized.unwrap().success());
    let mut reachable = fixture.reachable(Permission::Read);
    let mut opening = reachable.open[1].clone();
    opening.path = massgen::path::AbsPath::new(&small.0).unwrap();
    reachable.open.push(opening);
    let mut fixture = fixture;
    fixture.limits.disk_free_bytes = 32 << 20;
    let container = fixture.open();
    container.remount(&reachable).unwrap();
    let shell = ContainerShell(&fixture, &container);
    let fill = format!("cat /dev/zero >{}/big; sleep 60", small.0.display());
    assert_eq!(
        shell.run(&fill, TIME_MAX).exit_reason,
        ExitReason::DiskFull(DiskShortage::Bytes)
    );
    fs::remove_file(small.0.join("big")).unwrap();
    shell.check("echo and on", "and on\n");
    drop(container);
}

#[test]
fn a_build_without_network_says_how_to_do_without_it() {
    let Some(daemon) = daemon() else { return };
    if crate::docker::is_podman() {
        return;
    }
    let build = Project::new().env("DOCKER_HOST", daemon.host());
    let own = Daemon::start();
    let build = build
        .env("DOCKER_HOST", own.host())
        .args(["docker", "build"])
        .failure(3);
    for word in [
        "FROM debian:trixie-slim",
        "cannot build the image",
        "check its network access",
        "docker load",
    ] {
        assert!(build.stderr().contains(word), "{word}: {}", build.stderr());
    }
    assert_eq!(
        own.client_output(&["images", "-q", "massgen/mcp-runtime"]),
        ""
    );
}

#[test]
fn a_file_of_the_project_does_not_say_where_the_engine_is() {
    let Some(daemon) = daemon() else { return };
    let host = format!("DOCKER_HOST={}\n", daemon.host());
    let finished = Project::new()
        .file("team.yaml", team("none:1", "true"))
        .file(".env", host)
        .args(["--config", "team.yaml", "go"])
        .failure(3);
    assert!(
        finished
            .stderr()
            .contains("which may only set API keys: `DOCKER_HOST`"),
        "{}",
        finished.stderr()
    );
    assert!(
        !finished.stderr().contains("`none:1`"),
        "{}",
        finished.stderr()
    );
}
