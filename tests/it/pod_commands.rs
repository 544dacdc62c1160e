//! Commands in pods: files are sent, commands run there, and what they change comes back under the same
//! rules as on this machine. The `kubectl` of these tests has pods that are processes of this machine.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use massgen::config::kubernetes::{KubernetesConfig, PodNetwork};
use massgen::id::AgentId;
use massgen::layout::RunName;
use massgen::path::AbsPath;
use massgen::permissions::grant::{GrantScope, Permission};
use massgen::sandbox_policy::AccessiblePath;
use massgen::sandbox_policy::limits::ResourceLimits;
use massgen::world::sandbox::command_container::CommandContainer;
use massgen::world::sandbox::container_owner::ContainerOwner;
use massgen::world::sandbox::docker::container::ContainerWork;
use massgen::world::sandbox::interrupt::CommandInterrupt;
use massgen::world::sandbox::origin_labels::ContainerOrigin;
use massgen::world::sandbox::pod::agent_pod::AgentPod;
use massgen::world::sandbox::pod::cluster::PodCluster;
use massgen::world::sandbox::reachable_paths::ReachablePaths;
use massgen::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::project::{Project, directory_outside_tmp, make_program};
use crate::scripted_team::team_with_command;
use crate::waiting::wait_until;

const TIME_MAX: Duration = Duration::from_mins(1);
/// Number of files whose paths together are longer than one argument of a program may be.
const LONG_NAMES: usize = 180;

/// Returns a team of one whose agent runs a command in a pod.
fn team() -> String {
    let keys = "command_line_execution_mode: kubernetes\n\
                command_line_kubernetes: {context: lab, namespace: evals, image: \"debian:12\"}";
    let command = "echo made in $(hostname) >made; id -u";
    team_with_command(keys, command, &[("1000", "answer")])
}

/// A cluster, and a project with an agent's workspace below it.
struct PodScene {
    cluster: TempDir,
    root: TempDir,
    config: KubernetesConfig,
    limits: ResourceLimits,
}

fn abs(path: impl AsRef<Path>) -> AbsPath {
    AbsPath::new(path.as_ref()).unwrap()
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

/// Makes a directory with the `kubectl` of a cluster, and returns it; `None` for other users than root.
pub(crate) fn make_cluster() -> Option<TempDir> {
    if !geteuid().is_root() {
        println!("skipped: only root can start pods");
        return None;
    }
    let cluster = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/kubectl_for_pods.py");
    let program = cluster.path().join("kubectl");
    let line = format!(
        "#!/bin/sh\nMASSGEN_TEST_CLUSTER='{}' exec /usr/bin/python3 -I -S '{script}' \"$@\"\n",
        cluster.path().display()
    );
    fs::write(&program, line).unwrap();
    make_program(&program);
    Some(cluster)
}

pub(crate) fn cluster_env(cluster: &TempDir) -> BTreeMap<String, String> {
    let dir = cluster.path().display().to_string();
    let path = std::env::var("PATH").unwrap();
    BTreeMap::from([("PATH".to_owned(), format!("{dir}:{path}"))])
}

pub(crate) fn pods(cluster: &TempDir) -> Vec<String> {
    let Ok(found) = fs::read_dir(cluster.path().join("pods")) else {
        return Vec::new();
    };
    let names = found.map(|pod| pod.unwrap().file_name().into_string().unwrap());
    names.collect()
}

impl PodScene {
    fn start() -> Option<Self> {
        let cluster = make_cluster()?;
        let root = directory_outside_tmp();
        for (name, content) in [
            ("project/src/main.rs", "fn main() {}\n"),
            ("project/lib/.git/config", "[core]\n"),
            ("project/.massgen/config.yaml", "hidden words\n"),
            ("project/.massgen/ws/begin", "begin\n"),
            ("project/notes.txt", "hidden words\n"),
        ] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let config = KubernetesConfig {
            context: Some("lab".to_owned()),
            namespace: Some("evals".to_owned()),
            ..KubernetesConfig::of_image("debian:12".to_owned())
        };
        Some(Self {
            cluster,
            root,
            config,
            limits: ResourceLimits::default(),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn workspace(&self) -> AbsPath {
        abs(self.path("project/.massgen/ws"))
    }

    fn reachable(&self, permission: Permission) -> ReachablePaths {
        let opening = |path: &str, permission| AccessiblePath {
            path: abs(self.path(path)),
            permission,
            scope: GrantScope::Tree,
        };
        ReachablePaths {
            open: vec![
                opening("project", permission),
                opening("project/.massgen/ws", Permission::Write),
            ],
            masked: match permission {
                Permission::Read => Vec::new(),
                Permission::Write => vec![abs(self.path("project/lib/.git"))],
            },
            hidden: ["project/.massgen", "project/notes.txt"]
                .map(|path| abs(self.path(path)))
                .into(),
            copies: BTreeMap::new(),
        }
    }

    fn open_cluster(&self) -> PodCluster {
        let env = cluster_env(&self.cluster);
        PodCluster::open(&self.config, &env, &abs(self.root.path())).unwrap()
    }

    fn try_open(&self) -> massgen::error::Result<AgentPod> {
        let owner = ContainerOwner {
            agent: &AgentId::parse("Coder_1").unwrap(),
            origin: ContainerOrigin {
                run: RunName::new(1),
                state: &abs(self.path("project/.massgen")),
            },
            workspace: &self.workspace(),
            limits: &self.limits,
            config_env: &BTreeMap::from([("ADDED".to_owned(), "it's in words".to_owned())]),
        };
        AgentPod::open(
            &self.open_cluster(),
            owner,
            ContainerWork::Commands,
            &self.config,
            &self.reachable(Permission::Read),
        )
    }

    fn open(&self) -> AgentPod {
        self.try_open().unwrap()
    }

    /// Calls the `kubectl` of the cluster.
    fn kubectl(&self, words: &[&str]) -> String {
        let called = Command::new(self.cluster.path().join("kubectl"))
            .args(words)
            .output()
            .unwrap();
        String::from_utf8(called.stdout).unwrap()
    }

    /// Waits until a command has made a file.
    fn wait_for_file(&self, pod: &str, file: &str) {
        let script = format!("test -e {file} && echo yes");
        let words = ["exec", "--stdin", pod, "--container", "commands", "--"];
        let words = [&words[..], &["sh", "-c", &script]].concat();
        wait_until("a running command", TIME_MAX, || {
            self.kubectl(&words) == "yes\n"
        });
    }

    fn set_fault(&self, name: &str, content: &str) {
        fs::write(self.cluster.path().join(name), content).unwrap();
    }

    fn end_fault(&self, name: &str) {
        fs::remove_file(self.cluster.path().join(name)).unwrap();
    }

    /// Sends files and runs a command.
    fn run_without_fetching(
        &self,
        pod: &AgentPod,
        permission: Permission,
        line: &str,
        time_max: Duration,
    ) -> Result<CommandOutput, String> {
        let interrupt = CommandInterrupt::new().unwrap();
        let wait = CommandWaitLimits {
            time_max,
            output_bytes_max: 4096,
            interrupt: &interrupt,
            network: None,
        };
        let reachable = self.reachable(permission);
        let finished = pod.run_with_paths(line, &self.workspace(), &reachable, wait);
        finished.map_err(|error| error.to_string())
    }

    /// Runs a command as a run does: sends files before it, and fetches changes after it.
    fn run(
        &self,
        pod: &AgentPod,
        permission: Permission,
        line: &str,
        time_max: Duration,
    ) -> Result<CommandOutput, String> {
        let mut finished = self.run_without_fetching(pod, permission, line, time_max)?;
        let interrupt = CommandInterrupt::new().unwrap();
        let notes = pod.fetch_changes(&self.reachable(permission), &interrupt);
        finished
            .notes
            .extend(notes.map_err(|error| error.to_string())?);
        Ok(finished)
    }

    #[track_caller]
    fn does(&self, pod: &AgentPod, line: &str, expected: &str) -> Vec<String> {
        let finished = self.run(pod, Permission::Read, line, TIME_MAX).unwrap();
        let text = format!("{}{}", finished.stdout.text, finished.stderr.text);
        assert_eq!(text, expected, "{line}: {:?}", finished.exit_reason);
        finished.notes
    }
}

#[test]
fn commands_in_a_pod_have_the_same_rules() {
    let Some(scene) = PodScene::start() else {
        return;
    };
    let pod = scene.open();
    let project = |name: &str| scene.path("project").join(name);
    let shown = |name: &str| project(name).display().to_string();
    let does = |line: &str, expected: &str| scene.does(&pod, line, expected);
    assert_eq!(pod.notes(), [""; 0]);
    // What the grants let be read is there, and nothing else.
    does(
        "cat begin; id -u; echo $ADDED",
        "begin\n1000\nit's in words\n",
    );
    does(
        &format!("cd {}; cat src/main.rs; ls -A", shown("")),
        "fn main() {}\n.massgen\nlib\nsrc\n",
    );
    let place = scene
        .cluster
        .path()
        .join("pods")
        .join(&pods(&scene.cluster)[0]);
    let leaked = Command::new("grep")
        .args(["-rl", "hidden words"])
        .arg(place)
        .output();
    assert_eq!(String::from_utf8(leaked.unwrap().stdout).unwrap(), "");
    // What changes there comes back, and the other way round.
    does(
        "mkdir d; echo a >d/x; ln d/x hard; ln -s /etc/passwd link; rm begin; chmod 000 hard; exit 3",
        "",
    );
    let workspace = |name: &str| scene.workspace().as_path().join(name);
    assert_eq!(text(workspace("d/x")), "a\n");
    assert!(!workspace("begin").exists());
    assert_eq!(
        fs::read_link(workspace("link")).unwrap(),
        Path::new("/etc/passwd")
    );
    fs::write(workspace("d/x"), "changed here\n").unwrap();
    fs::remove_file(workspace("link")).unwrap();
    does("cat d/x; ls", "changed here\nd\nhard\n");
    // Nothing that is read-only changes, there or here.
    let attack = format!(
        "cd {}; echo evil >src/main.rs; rm -rf src lib; echo x >planted; chmod 777 src; mv lib other; \
         cd ..; mv project away; touch .massgen/x",
        shown("")
    );
    let finished = scene
        .run(&pod, Permission::Read, &attack, TIME_MAX)
        .unwrap();
    assert!(
        finished.stderr.text.contains("ermission denied"),
        "{:?}",
        finished.stderr
    );
    assert_eq!(text(project("src/main.rs")), "fn main() {}\n");
    assert!(!project("planted").exists());
    does(&format!("cat {}", shown("src/main.rs")), "fn main() {}\n");
    // No network, no privileges; pipes stay there; git works.
    does("grep -c 00000000 /proc/net/route", "0\n");
    does(
        "grep -c -e 'CapEff:.*[1-9a-f]' -e 'NoNewPrivs:.*0' /proc/self/status",
        "0\n",
    );
    let notes = does(
        "mkfifo pipe; git init -q . && git add d && git commit -qm x && git log --format=%s",
        "x\n",
    );
    assert!(notes[0].contains("it is a named pipe"), "{notes:?}");
    does("rm -rf .git pipe", "");
    pod.close().unwrap();
    assert_eq!(pods(&scene.cluster), [""; 0]);
    assert_eq!(
        fs::read_dir(scene.cluster.path().join("policies"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn large_files_and_much_output_pass_in_parts() {
    let Some(scene) = PodScene::start() else {
        return;
    };
    let pod = scene.open();
    let finished = scene.run(
        &pod,
        Permission::Read,
        "yes | head -c 1500000; echo end >&2",
        TIME_MAX,
    );
    let finished = finished.unwrap();
    assert!(
        finished.stdout.text.contains("bytes"),
        "{:?}",
        finished.stdout
    );
    assert_eq!(finished.stderr.text, "end\n");
    let large = "0123456789".repeat(250_000);
    let workspace = |name: &str| scene.workspace().as_path().join(name);
    fs::write(workspace("large"), &large).unwrap();
    scene.does(
        &pod,
        "wc -c <large; tail -c 3 large; cp large other",
        "2500000\n789",
    );
    assert_eq!(text(workspace("other")), large);
}

#[test]
fn many_files_with_long_names_are_sent_and_removed() {
    let Some(scene) = PodScene::start() else {
        return;
    };
    let pod = scene.open();
    let long = |number: usize| format!("{number:03}{}", "n".repeat(200));
    let dir = (0..4).fold(scene.workspace().as_path().to_owned(), |dir, number| {
        dir.join(long(number))
    });
    fs::create_dir_all(&dir).unwrap();
    for number in 0..LONG_NAMES {
        fs::write(dir.join(long(number)), "x").unwrap();
    }
    let count = "find . -type f -name '*nnn' | wc -l";
    scene.does(&pod, count, &format!("{LONG_NAMES}\n"));
    for number in 0..LONG_NAMES {
        fs::remove_file(dir.join(long(number))).unwrap();
    }
    scene.does(&pod, count, "0\n");
}

#[test]
fn writable_trees_keep_protected_names_in_pods() {
    let Some(scene) = PodScene::start() else {
        return;
    };
    let pod = scene.open();
    scene.does(&pod, "echo kept >kept", "");
    let project = |name: &str| scene.path("project").join(name);
    let line = format!(
        "cd {}; echo 'fn changed() {{}}' >src/main.rs; echo evil >>lib/.git/config; rm -rf lib/.git; \
         mv lib moved; echo x >notes.txt; mkdir .massgen/ws/sub; echo y >.massgen/ws/sub/z; cat .massgen/ws/kept",
        scene.path("project").display()
    );
    let finished = scene.run(&pod, Permission::Write, &line, TIME_MAX).unwrap();
    assert_eq!(
        text(project("src/main.rs")),
        "fn changed() {}\n",
        "{finished:?}"
    );
    assert_eq!(text(project("lib/.git/config")), "[core]\n");
    assert_eq!(text(project("notes.txt")), "hidden words\n");
    assert_eq!(text(project(".massgen/ws/sub/z")), "y\n");
    assert!(finished.stdout.text.contains("kept"), "{finished:?}");
    let notes = finished.notes.join("\n");
    assert!(
        notes.contains("read-only") && notes.contains("hidden"),
        "{notes}"
    );
    // What was refused is undone there before the next command.
    let line = format!(
        "cd {}; cat lib/.git/config; ls -A",
        scene.path("project").display()
    );
    let finished = scene.run(&pod, Permission::Write, &line, TIME_MAX).unwrap();
    assert!(finished.stdout.text.starts_with("[core]\n"), "{finished:?}");
    assert!(!finished.stdout.text.contains("notes.txt"), "{finished:?}");
    // Without the permission, the tree is closed again.
    let line = format!(
        "echo x >{}/src/main.rs || echo closed",
        scene.path("project").display()
    );
    let finished = scene.run(&pod, Permission::Read, &line, TIME_MAX).unwrap();
    assert_eq!(finished.stdout.text, "closed\n");
}

#[test]
fn a_pod_that_is_lost_is_replaced_and_a_broken_connection_loses_nothing() {
    let Some(scene) = PodScene::start() else {
        return;
    };
    // The first answer arrives only in part.
    scene.set_fault("broken", "1");
    let pod = scene.open();
    scene.does(&pod, "echo installed >$HOME/tool; cat begin", "begin\n");
    // Answers that arrive in part are asked for again, and nothing starts twice.
    scene.set_fault("broken", "3");
    scene.does(&pod, "echo once >>count; cat count", "once\n");
    scene.end_fault("broken");
    // A command that takes too long is killed with everything that it has started.
    let line = "(setsid sleep 1234 &); sleep 1234";
    let finished = scene
        .run(&pod, Permission::Read, line, Duration::from_secs(1))
        .unwrap();
    assert_eq!(finished.exit_reason, ExitReason::TimedOut);
    scene.does(&pod, "ps ax | grep -c '[s]leep 1234'", "0\n");
    // A process that writes another exit status is noticed.
    let forge = "for d in /run/massgen/*; do echo 'x 0' >$d/status; done; sleep 1234";
    let forged = scene
        .run(&pod, Permission::Read, forge, TIME_MAX)
        .unwrap_err();
    assert!(forged.contains("forged"), "{forged}");
    scene.does(&pod, "echo again >>count; ls -A $HOME", ".gitconfig\n");
    let name = pods(&scene.cluster).remove(0);
    let lost = thread::scope(|scope| {
        let running = scope.spawn(|| {
            scene.run(
                &pod,
                Permission::Read,
                "touch /tmp/begun; sleep 1234",
                TIME_MAX,
            )
        });
        scene.wait_for_file(&name, "/tmp/begun");
        scene.kubectl(&["evict", &name]);
        running.join().unwrap().unwrap_err()
    });
    assert!(
        lost.contains("Evicted") && lost.contains("the next command has a new one"),
        "{lost}"
    );
    scene.does(&pod, "cat count", "once\nagain\n");
    assert_ne!(pods(&scene.cluster), [name]);
}

#[test]
fn a_cluster_that_does_not_answer_for_a_while_keeps_the_pod() {
    let Some(mut scene) = PodScene::start() else {
        return;
    };
    scene.config.connection_timeout_seconds = 1;
    let pod = scene.open();
    scene.does(&pod, "echo installed >$HOME/tool", "");
    // Commands fail with the reason, and go on when it is back.
    scene.set_fault("down", "");
    let down = scene
        .run(&pod, Permission::Read, "true", TIME_MAX)
        .unwrap_err();
    assert!(
        down.contains("the connection to the cluster was lost") && down.contains("was refused"),
        "{down}"
    );
    scene.end_fault("down");
    scene.does(&pod, "cat $HOME/tool", "installed\n");
    // What could not be killed in time is killed before the next command.
    let name = pods(&scene.cluster).remove(0);
    let finished = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let line = "touch /tmp/begun; (setsid sleep 1234 &); sleep 1234";
            scene.run_without_fetching(&pod, Permission::Read, line, Duration::from_secs(3))
        });
        scene.wait_for_file(&name, "/tmp/begun");
        scene.set_fault("down", "");
        running.join().unwrap()
    });
    // Either the connection is lost first, or the time is over.
    assert!(
        finished
            .as_ref()
            .is_ok_and(|finished| finished.exit_reason == ExitReason::TimedOut)
            || finished
                .as_ref()
                .is_err_and(|lost| lost.contains("was lost")),
        "{finished:?}"
    );
    scene.end_fault("down");
    scene.does(
        &pod,
        "ps ax | grep -c '[s]leep 1234'; cat $HOME/tool",
        "0\ninstalled\n",
    );
}

#[test]
fn what_a_cluster_cannot_give_is_told() {
    let Some(mut scene) = PodScene::start() else {
        return;
    };
    // The network plugin enforces no policy.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    scene.set_fault("open", &format!("127.0.0.1 {port}"));
    scene.config.connection_timeout_seconds = 1;
    let open = scene.try_open().unwrap_err().to_string();
    assert!(open.contains("does not enforce policies"), "{open}");
    assert_eq!(pods(&scene.cluster), [""; 0]);
    scene.config.network = PodNetwork::Cluster;
    let pod = scene.open();
    scene.does(&pod, "cat begin", "begin\n");
    drop(pod);
    scene.end_fault("open");
    scene.config.network = PodNetwork::None;
    scene.set_fault("down", "");
    let down = scene.try_open().unwrap_err();
    assert!(down.to_string().contains("was refused"), "{down}");
    scene.end_fault("down");
    // What a killed run has left behind is removed by the next one, and nothing else is.
    let pod = scene.open();
    let state = abs(scene.path("project/.massgen"));
    scene.open_cluster().remove_leftovers(&state).unwrap();
    assert_eq!(pods(&scene.cluster).len(), 1);
    let place = scene
        .cluster
        .path()
        .join("pods")
        .join(&pods(&scene.cluster)[0])
        .join("state");
    let mut known: serde_json::Value = serde_json::from_str(&text(&place)).unwrap();
    known["object"]["metadata"]["annotations"]["massgen.pid.started"] = "1".into();
    fs::write(&place, known.to_string()).unwrap();
    scene.open_cluster().remove_leftovers(&state).unwrap();
    assert_eq!(pods(&scene.cluster), [""; 0]);
    let gone = scene
        .run(&pod, Permission::Read, "true", TIME_MAX)
        .unwrap_err();
    assert!(gone.contains("it was deleted"), "{gone}");
    scene.does(&pod, "cat begin", "begin\n");
}

#[test]
fn too_many_processes_in_a_pod_are_killed() {
    let Some(mut scene) = PodScene::start() else {
        return;
    };
    scene.limits.processes = 40;
    let pod = scene.open();
    let line = |count: u32| format!("for n in $(seq {count}); do sleep 1234 & done; echo {count}");
    // What a command leaves behind is killed with it.
    scene.does(&pod, &line(20), "20\n");
    let many = format!("{}; wait", line(60));
    let finished = scene.run(&pod, Permission::Read, &many, TIME_MAX).unwrap();
    assert_eq!(finished.exit_reason, ExitReason::Exited(137));
    let notes = finished.notes.join("\n");
    assert!(notes.contains("more than 40 processes"), "{notes}");
    scene.does(&pod, "ps ax | grep -c '[s]leep 1234'", "0\n");
}

#[test]
fn explain_says_which_network_a_pod_has() {
    for (network, expected) in [("none", "network  off"), ("cluster", "network  on")] {
        let image = "image: \"debian:12\"";
        let team = team().replace(image, &format!("{image}, network: {network}"));
        let explained = Project::new()
            .file("team.yaml", &team)
            .args(["explain", "command", "--config", "team.yaml", "true"])
            .success();
        let stdout = explained.stdout();
        assert!(
            stdout.contains("a pod of `debian:12`") && stdout.contains(expected),
            "{stdout}"
        );
    }
}

#[test]
fn doctor_says_what_a_cluster_lacks() {
    let Some(cluster) = make_cluster() else {
        return;
    };
    let doctor = || {
        let mut project = Project::new().file("team.yaml", team());
        for (name, value) in cluster_env(&cluster) {
            project = project.env(&name, value);
        }
        project.args(["doctor", "--config", "team.yaml"])
    };
    let lacks = |fault: &str, reason: &str| {
        fs::write(cluster.path().join(fault), "").unwrap();
        let finished = doctor().failure(3);
        let line = finished
            .stdout()
            .lines()
            .find(|line| line.contains(" cluster "));
        assert!(
            line.is_some_and(|line| line.starts_with("missing") && line.contains(reason)),
            "{}",
            finished.stdout()
        );
        fs::remove_file(cluster.path().join(fault)).unwrap();
    };
    lacks("down", "was refused");
    lacks("forbidden", "exceeded quota");
    lacks("closed", "does not let you get pods");
    let permits = doctor().success();
    assert!(
        permits
            .stdout()
            .contains("namespace `evals` of context `lab` answers and permits the team's pods"),
        "{}",
        permits.stdout()
    );
    assert_eq!(pods(&cluster), [""; 0]);
}

#[test]
fn a_run_has_its_commands_in_pods() {
    let Some(cluster) = make_cluster() else {
        return;
    };
    let env = cluster_env(&cluster);
    let mut project = Project::new().file("team.yaml", team());
    for (name, value) in &env {
        project = project.env(name, value);
    }
    let finished = project.args(["--config", "team.yaml", "go"]).success();
    assert!(finished.stderr().contains("pod"), "{}", finished.stderr());
    let made = Command::new("find")
        .arg(finished.project().path(""))
        .args(["-name", "made"])
        .output();
    assert!(!made.unwrap().stdout.is_empty(), "{}", finished.stderr());
    assert_eq!(pods(&cluster), [""; 0]);
    // A config that massgen found in the project reaches no cluster.
    let mut project = Project::new().config(&team());
    for (name, value) in &env {
        project = project.env(name, value);
    }
    let refused = project.args(["go"]).failure(2);
    assert!(
        refused.stderr().contains("sends files to a cluster")
            && refused.stderr().contains("--config"),
        "{}",
        refused.stderr()
    );
}
