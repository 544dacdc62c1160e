//! Commands on another machine whose link is slow or cut, whose disk is full, or that is switched off: they
//! go on or end with the reason, the run goes on, and nothing is left there after the next start.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use massgen::permissions::grant::Permission;
use massgen::world::sandbox::command_container::CommandContainer;
use massgen::world::sandbox::docker::container::AgentContainer;
use massgen::world::sandbox::interrupt::CommandInterrupt;
use massgen::world::sandbox::{CommandWaitLimits, ExitReason};

use crate::docker::{ContainerFixture, IMAGE, is_podman};
use crate::docker_ssh::run;
use crate::linked_host::LinkedHost;
use crate::project::{Project, logged_events};
use crate::repetition::is_long;
use crate::scripted_team::team_with_command;
use crate::slurm_cluster::TIME_MAX;
use crate::waiting::wait_until;

/// Rate of a link on which transfers take seconds.
const SLOW: &str = "1mbit";
/// Size of a file whose transfer is cut, in bytes: it takes half a minute.
const LARGE_BYTES: usize = 4 << 20;
/// When its transfer is cut, in bytes.
const CUT_AFTER_BYTES: u64 = 100_000;

/// What a command printed, or why it could not be run.
type RanCommand = Result<String, String>;

/// Runs a command like an agent.
fn command_output(
    fixture: &ContainerFixture,
    container: &AgentContainer,
    line: &str,
) -> RanCommand {
    let finished = run(
        fixture,
        container,
        &fixture.reachable(Permission::Read),
        line,
    )?;
    let text = format!("{}{}", finished.stdout.text, finished.stderr.text);
    assert_eq!(
        finished.exit_reason,
        ExitReason::Exited(0),
        "{line}: {text}"
    );
    Ok(text)
}

/// Returns bytes that cannot be compressed.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let bytes = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    });
    bytes.take(count).collect()
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

/// Waits until a command runs in a container there.
fn wait_for_process(host: &LinkedHost, container: &str, line: &str) {
    wait_until("running command", TIME_MAX, || {
        let listed = host
            .daemon
            .client_output(&["top", container, "-eo", "pid,args"]);
        listed.contains(line)
    });
}

/// Lists the containers and images of massgen's there.
fn leftovers(host: &LinkedHost) -> String {
    let list = |arguments: &[&str]| {
        let filter = ["--filter", "label=massgen.state"];
        host.daemon.client_output(&[arguments, &filter].concat())
    };
    format!("{}{}", list(&["ps", "-aq"]), list(&["images", "-aq"]))
}

/// Runs a command on a slow link, and cuts it when a part of the command's transfer in one direction, `tx` or
/// `rx`, has crossed it. Returns why the command has failed. The link is not restored.
fn cut_during_transfer(
    host: &LinkedHost,
    direction: &str,
    run: &(dyn Fn() -> RanCommand + Sync),
) -> String {
    host.slow_down(SLOW);
    let lost = thread::scope(|scope| {
        let earlier = host.bytes(direction);
        let running = scope.spawn(run);
        host.wait_for_bytes(direction, earlier, CUT_AFTER_BYTES);
        host.cut();
        running.join().unwrap().unwrap_err()
    });
    host.speed_up();
    lost
}

#[test]
fn a_first_transfer_that_is_cut_is_repeated_in_a_new_container() {
    let Some(host) = LinkedHost::start(None) else {
        return;
    };
    // Where connections are not forgotten here, the rest of what was sent arrives when the link is restored.
    let cases: &[bool] = if is_long() { &[true, false] } else { &[true] };
    for is_forgotten in cases {
        let mut fixture = host.fixture();
        fixture.config.packages.python = vec!["black".to_owned()];
        let container = fixture.open();
        let does = |line: &str| command_output(&fixture, &container, line);
        let file = |name: &str| fixture.workspace().join(name).as_path().to_owned();
        fs::write(file("sent"), noise(LARGE_BYTES)).unwrap();
        let lost = cut_during_transfer(&host, "tx", &|| does("true"));
        let reason = ["the files cannot be sent", "to `ssh://build1", "was lost"];
        assert_contains(&lost, &reason);
        if *is_forgotten {
            host.forget_connections();
        }
        // Of the first transfer nothing is left, and the packages of the config are there.
        fs::remove_file(file("sent")).unwrap();
        fs::write(file("later"), "later\n").unwrap();
        host.restore();
        let line = "ls; cat later /tmp/installed";
        let expected = "begin\nlater\nlater\n1000 python3 -m pip install --quiet black\n";
        assert_eq!(does(line).unwrap(), expected);
        assert_eq!(does("rm later; ls").unwrap(), "begin\n");
        assert!(!file("later").exists());
        container.close().unwrap();
        assert_eq!(leftovers(&host), "");
    }
}

#[test]
fn a_cut_link_ends_what_is_running_and_the_next_command_connects_again() {
    if !is_long() {
        return;
    }
    let Some(host) = LinkedHost::start(None) else {
        return;
    };
    let fixture = host.fixture();
    let container = fixture.open();
    let does = |line: &str| command_output(&fixture, &container, line);
    let file = |name: &str| fixture.workspace().join(name).as_path().to_owned();
    assert_eq!(does("touch /tmp/kept; cat begin").unwrap(), "begin\n");
    // While files are sent. What else is in the container stays.
    let large = noise(LARGE_BYTES);
    fs::write(file("sent"), &large).unwrap();
    let lost = cut_during_transfer(&host, "tx", &|| does("true"));
    assert_contains(&lost, &["the files cannot be sent", "was lost"]);
    // While the link is cut, commands say so.
    let unreachable = does("true").unwrap_err();
    assert_contains(&unreachable, &["ssh://build1", "cannot connect"]);
    // The server there does not notice that this end is gone.
    host.forget_connections();
    host.restore();
    let kept = format!("{LARGE_BYTES}\nbegin\n/tmp/kept\n");
    let line = "wc -c <sent; cat begin; ls /tmp/kept";
    assert_eq!(does(line).unwrap(), kept);
    // While changes are fetched.
    let lost = cut_during_transfer(&host, "rx", &|| does("cp sent fetched; rm sent"));
    let reason = ["cannot be fetched", "to `ssh://build1", "was lost"];
    assert_contains(&lost, &reason);
    assert!(file("sent").exists() && !file("fetched").exists());
    host.restore();
    does("true").unwrap();
    assert!(fs::read(file("fetched")).unwrap() == large && !file("sent").exists());
    // While a command runs. Its container is removed although no other command has connected again.
    let lost = thread::scope(|scope| {
        let running = scope.spawn(|| does("sleep 300"));
        wait_for_process(&host, container.name(), "sleep 300");
        host.cut();
        running.join().unwrap().unwrap_err()
    });
    assert_contains(&lost, &["the connection to `ssh://build1", "was lost"]);
    host.restore();
    container.close().unwrap();
    assert_eq!(leftovers(&host), "");
}

#[test]
fn a_full_disk_there_is_named_and_the_next_command_finds_its_files_when_there_is_room() {
    let Some(host) = LinkedHost::start(Some(32)) else {
        return;
    };
    let fixture = host.fixture();
    let container = fixture.open();
    let does = |line: &str| command_output(&fixture, &container, line);
    assert_eq!(does("cat begin").unwrap(), "begin\n");
    let fill = host.daemon.path("data/fill");
    let filled = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M"])
        .arg(format!("of={}", fill.display()))
        .stderr(Stdio::null())
        .status();
    assert!(!filled.unwrap().success());
    fs::OpenOptions::new()
        .write(true)
        .open(&fill)
        .unwrap()
        .set_len(fs::metadata(&fill).unwrap().len() - (2 << 20))
        .unwrap();
    let large = vec![0; 4 << 20];
    fs::write(fixture.workspace().join("large").as_path(), large).unwrap();
    let refused = does("true").unwrap_err();
    assert_contains(
        &refused,
        &[
            "the files cannot be sent",
            "ssh://build1",
            "no space left on device",
        ],
    );
    fs::remove_file(&fill).unwrap();
    assert_eq!(does("wc -c <large; cat begin").unwrap(), "4194304\nbegin\n");
    container.close().unwrap();
    if !is_long() {
        return;
    }
    // A run whose files are too large for the disk there goes on without the command.
    let project = Project::new()
        .file("data/large", vec![0; 40 << 20])
        .file("team.yaml", team("true"))
        .env("DOCKER_HOST", host.host())
        .env("PATH", host.program_path())
        .args(["--config", "team.yaml", "go"]);
    let finished = project.success();
    let events = logged_events(finished.project());
    assert_contains(
        &events,
        &[
            "answer without",
            "the files cannot be sent",
            "no space left on device",
        ],
    );
    assert_eq!(leftovers(&host), "");
}

/// Returns a team of one whose agent runs this in a container, and answers.
fn team(command: &str) -> String {
    let keys = format!("command_line_execution_mode: docker\ncommand_line_docker_image: {IMAGE}");
    let answers = [
        ("success", "answer with"),
        ("ssh://build1", "answer without"),
    ];
    let team = team_with_command(&keys, command, &answers);
    format!("{team}orchestrator:\n  context_paths: [{{path: data, permission: read}}]\n")
}

/// Starts a run there whose agent's command sleeps, and waits until it does.
fn sleeping_run(host: &LinkedHost, project: &Project) -> Child {
    let run = project
        .command()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let listed = || {
        let running = ["ps", "-q", "--filter", "label=massgen.state"];
        host.daemon.client_output(&running)
    };
    wait_until("container", TIME_MAX, || !listed().is_empty());
    wait_for_process(host, &listed(), "sleep 300");
    run
}

#[test]
fn a_machine_that_is_switched_off_leaves_nothing_after_the_next_start() {
    if !is_long() {
        return;
    }
    let Some(mut host) = LinkedHost::start(None) else {
        return;
    };
    let fixture = host.fixture();
    let container = fixture.open();
    let does = |line: &str| command_output(&fixture, &container, line);
    does("echo kept >/tmp/kept; echo new >new").unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| does("sleep 300"));
        wait_for_process(&host, container.name(), "sleep 300");
        host.switch_off();
        let lost = running.join().unwrap().unwrap_err();
        assert_contains(&lost, &["the connection to `ssh://build1", "was lost"]);
    });
    let unreachable = does("true").unwrap_err();
    assert_contains(&unreachable, &["ssh://build1", "cannot connect"]);
    host.switch_on();
    let line = "cat begin new /tmp/kept; ps | grep -c '[s]leep 300' || true";
    assert_eq!(does(line).unwrap(), "begin\nnew\nkept\n0\n");
    container.close().unwrap();
    assert_eq!(leftovers(&host), "");
    // A run goes on without it, and the next run removes what is left there.
    let project = Project::new()
        .file("data/note", "note\n")
        .file("team.yaml", team("sleep 300"))
        .file("quick.yaml", team("true"))
        .env("DOCKER_HOST", host.host())
        .env("PATH", host.program_path())
        .args(["--config", "team.yaml", "go"]);
    let going = sleeping_run(&host, &project);
    host.switch_off();
    let ended = going.wait_with_output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert_contains(&logged_events(&project), &["was lost", "answer without"]);
    host.switch_on();
    assert_ne!(leftovers(&host), "");
    let next = project.retyped(["--config", "quick.yaml", "go"]).success();
    assert_contains(&logged_events(next.project()), &["answer with\""]);
    assert_eq!(leftovers(&host), "");
    // The same if massgen is killed while the machine is off.
    let project = next.then(["--config", "team.yaml", "go"]);
    let mut going = sleeping_run(&host, &project);
    host.switch_off();
    going.kill().unwrap();
    going.wait().unwrap();
    host.switch_on();
    let next = project.retyped(["--config", "quick.yaml", "go"]).success();
    assert_contains(&logged_events(next.project()), &["answer with\""]);
    assert_eq!(leftovers(&host), "");
}

#[test]
fn a_slow_link_makes_commands_slower_and_ends_none() {
    if !is_long() {
        return;
    }
    let Some(host) = LinkedHost::start(None) else {
        return;
    };
    host.delay(Duration::from_millis(100));
    host.slow_down("256kbit");
    let fixture = host.fixture();
    let container = fixture.open();
    let does = |line: &str| command_output(&fixture, &container, line);
    let large = noise(256 << 10);
    let file = |name: &str| fixture.workspace().join(name).as_path().to_owned();
    fs::write(file("sent"), &large).unwrap();
    assert_eq!(does("cat begin; wc -c <sent").unwrap(), "begin\n262144\n");
    does("cp sent fetched").unwrap();
    assert!(fs::read(file("fetched")).unwrap() == large);
    // Commands of another agent start and end while the link is full in each direction.
    let other = fixture.with_same_engine();
    let others = other.open();
    fs::write(file("more"), noise(384 << 10)).unwrap();
    thread::scope(|scope| {
        let busy = scope.spawn(|| does("cp more again"));
        while !busy.is_finished() {
            assert_eq!(
                command_output(&other, &others, "cat begin").unwrap(),
                "begin\n"
            );
        }
        busy.join().unwrap().unwrap();
    });
    assert!(fs::read(file("again")).unwrap() == fs::read(file("more")).unwrap());
    // Podman 4.3 may fail to restart a container whose output still waits for the link.
    if !is_podman() {
        time_out(&fixture, &container);
    }
    others.close().unwrap();
    container.close().unwrap();
    assert_eq!(leftovers(&host), "");
}

/// Runs a command that fills the link until its time is over: then it is killed there.
fn time_out(fixture: &ContainerFixture, container: &AgentContainer) {
    let interrupt = CommandInterrupt::new().unwrap();
    let wait = CommandWaitLimits {
        time_max: Duration::from_secs(5),
        output_bytes_max: 4096,
        interrupt: &interrupt,
        network: None,
    };
    let reachable = fixture.reachable(Permission::Read);
    let finished = container.run_with_paths("yes", &fixture.workspace(), &reachable, wait);
    assert_eq!(finished.unwrap().exit_reason, ExitReason::TimedOut);
    let line = "ps | grep -c '[y]es' || true";
    assert_eq!(command_output(fixture, container, line).unwrap(), "0\n");
}
