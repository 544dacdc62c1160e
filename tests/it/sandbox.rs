//! Commands in a sandbox as real processes: the part of their output that is kept, what ends them,
//! and that nothing of them is ever left. Other tests cover what a sandbox prevents; here
//! everything holds at each level that the machine supports, and without a sandbox.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]
#![expect(
    clippy::disallowed_types,
    reason = "massgen is given files of the tests for its streams"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use massgen::path::{AbsPath, RealPath};
use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, Permission, Phase};
use massgen::sandbox_policy::NetworkAccess;
use massgen::sandbox_policy::ResourceLimits;
use massgen::sandbox_policy::compile::{CommandContext, WriteTarget, compile};
use massgen::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use massgen::sandbox_policy::{OverlayLayer, SandboxPolicy};
use massgen::tools::call::BackgroundCommandId;
use massgen::world::sandbox::background::{BackgroundCommands, BackgroundStartError, RUNNING_MAX};
use massgen::world::sandbox::disk_watch::DiskShortage;
use massgen::world::sandbox::interrupt::CommandInterrupt;
use massgen::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason, Sandbox};
use portable_pty::{PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::project::{Project, binary, copy_program};
use crate::waiting::wait_until;

/// Timeout of a command that should end by itself.
const LONG: Duration = Duration::from_mins(1);
/// Number of bytes of a stream that are kept by default.
const KEPT_BYTES: usize = 64 * 1024;

/// An agent's directories, and the sandbox of its commands.
struct CommandFixture {
    dir: TempDir,
    sandbox: Sandbox,
}

impl CommandFixture {
    fn new(level: SandboxLevel) -> Option<Self> {
        Self::by(&binary(), level)
    }

    /// `executable` is massgen.
    fn by(executable: &Path, level: SandboxLevel) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ws", "project", "upper", "work", "home", "tmp", "state"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let state = abs(&dir.path().join("state"));
        let executable = abs(executable);
        let sandbox = Sandbox::open(SandboxLevelChoice::Only(level), &executable, &state);
        match sandbox {
            Ok(sandbox) => Some(Self { dir, sandbox }),
            Err(error) => {
                println!("skipped: {error}");
                None
            }
        }
    }

    fn path(&self, name: &str) -> AbsPath {
        abs(&self.dir.path().canonicalize().unwrap().join(name))
    }

    /// Returns the policy of `command`, run by a shell, in the final phase.
    fn policy(&self, command: &str, edit: impl FnOnce(&mut CommandContext)) -> SandboxPolicy {
        self.policy_in(Phase::Final, command, edit)
    }

    fn policy_in(
        &self,
        phase: Phase,
        command: &str,
        edit: impl FnOnce(&mut CommandContext),
    ) -> SandboxPolicy {
        let grant = |name: &str, kind| {
            let root = RealPath::vouch(self.path(name).as_path());
            Grant::tree(root, kind, Permission::Write)
        };
        let grants = vec![
            grant("ws", GrantKind::Workspace),
            grant("project", GrantKind::Context),
        ];
        let env = [
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("HOME", self.path("home").to_string()),
            ("GREETING", "hello".to_owned()),
        ];
        let env = env
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let mut facts = CommandContext {
            dir: self.path("ws"),
            home: self.path("home"),
            scratch: self.path("tmp"),
            toolchains: Vec::new(),
            env: env.collect::<BTreeMap<String, String>>(),
            limits: ResourceLimits {
                disk_free_bytes: 0,
                ..ResourceLimits::default()
            },
            network: NetworkAccess::None,
            write_target: WriteTarget::Layers(vec![OverlayLayer {
                root: self.path("project"),
                upper: self.path("upper"),
                work: self.path("work"),
                between: None,
            }]),
            identities: BTreeMap::new(),
            masked: Vec::new(),
            hidden: Vec::new(),
            program: ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
        };
        edit(&mut facts);
        let manager = PathPermissionManager::new(grants, phase);
        compile(&manager, self.sandbox.level(), facts).unwrap()
    }

    fn run(&self, command: &str) -> CommandOutput {
        self.run_within(command, LONG)
    }

    fn run_within(&self, command: &str, time_max: Duration) -> CommandOutput {
        let interrupt = CommandInterrupt::new().unwrap();
        let wait = CommandWaitLimits {
            time_max,
            output_bytes_max: KEPT_BYTES,
            interrupt: Some(&interrupt),
            network: None,
        };
        self.sandbox
            .run(&self.policy(command, |_| ()), wait)
            .unwrap()
    }
}

fn abs(path: &Path) -> AbsPath {
    AbsPath::new(path).unwrap()
}

/// Runs the test at every level that the machine supports, and without a sandbox.
fn at_each_level(test: impl Fn(&CommandFixture)) {
    at_each_level_by(&binary(), test);
}

fn at_each_level_by(executable: &Path, test: impl Fn(&CommandFixture)) {
    let mut tried = Vec::new();
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
        SandboxLevel::Off,
    ] {
        if let Some(fixture) = CommandFixture::by(executable, level) {
            println!("level {level}");
            test(&fixture);
            tried.push(level);
        }
    }
    assert!(tried.contains(&SandboxLevel::Off), "{tried:?}");
}

/// Returns a sleep duration in seconds that no other process on the machine uses.
fn unique_sleep() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("86400.{}{count:04}", process::id())
}

/// Returns the processes with the argument `word`.
fn processes_with(word: &str) -> Vec<String> {
    let names = fs::read_dir("/proc").unwrap();
    let lines = names.filter_map(|entry| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0);
        let found = words.any(|found| found == word.as_bytes());
        found.then(|| String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.collect()
}

#[test]
fn a_command_has_its_output_its_status_and_its_environment() {
    at_each_level(|fixture| {
        let finished = fixture.run("echo out; echo err >&2; exit 3");
        assert_eq!(finished.exit_reason, ExitReason::Exited(3), "{finished:?}");
        assert_eq!(finished.stdout.text, "out\n");
        assert_eq!(finished.stderr.text, "err\n");
        assert_eq!(finished.notes, Vec::<String>::new());
        assert_eq!(
            fixture.run("kill -9 $$").exit_reason,
            ExitReason::Signalled(9)
        );
        assert_eq!(fixture.run("printf 'caf\\351'").stdout.text, "caf\\xe9");
        let env = fixture.run("env").stdout.text;
        assert!(
            env.contains("GREETING=hello\n") && !env.contains("CARGO"),
            "{env}"
        );
        assert_eq!(
            fixture.run("pwd").stdout.text,
            format!("{}\n", fixture.path("ws"))
        );
        // There is nothing to read, and none of massgen's files are open.
        assert_eq!(
            fixture.run("cat; ls /proc/self/fd").stdout.text,
            "0\n1\n2\n3\n"
        );
    });
}

#[test]
fn a_command_that_times_out_is_killed_and_its_output_is_kept() {
    at_each_level(|fixture| {
        for stubborn in ["", "trap '' TERM INT HUP QUIT; "] {
            let time = unique_sleep();
            let command =
                format!("{stubborn}echo begun; sleep {time} & setsid sleep {time}; echo no");
            // On a busy machine, it needs more time to begin.
            let times = [1, 5, 25, 60].into_iter().map(Duration::from_secs);
            let mut tries = times.map(|time| fixture.run_within(&command, time));
            let finished = tries.find(|run| !run.stdout.text.is_empty()).unwrap();
            assert_eq!(finished.exit_reason, ExitReason::TimedOut);
            assert_eq!(finished.stdout.text, "begun\n");
            assert_eq!(processes_with(&time), Vec::<String>::new());
        }
    });
}

#[test]
fn nothing_outlives_a_command_that_has_ended() {
    at_each_level(|fixture| {
        let time = unique_sleep();
        let command = format!(
            "sleep {time} & setsid sleep {time} & nohup setsid sh -c 'sleep {time}; :' & \
             (setsid setsid sleep {time} &) ; echo done"
        );
        let finished = fixture.run(&command);
        assert_eq!(finished.exit_reason, ExitReason::Exited(0), "{finished:?}");
        assert_eq!(finished.stdout.text, "done\n");
        assert_eq!(processes_with(&time), Vec::<String>::new());
        let [note] = finished.notes.as_slice() else {
            panic!("{finished:?}");
        };
        assert!(
            note.starts_with("processes that it left running were killed"),
            "{note}"
        );
        let waited = fixture.run("sleep 0 & wait; echo done");
        assert_eq!(waited.notes, Vec::<String>::new());
    });
}

#[test]
fn the_limit_that_ended_a_command_is_reported() {
    at_each_level(|fixture| {
        let interrupt = CommandInterrupt::new().unwrap();
        let ran = |command: &str, edit: fn(&mut ResourceLimits)| {
            let wait = CommandWaitLimits {
                time_max: LONG,
                output_bytes_max: KEPT_BYTES,
                interrupt: Some(&interrupt),
                network: None,
            };
            let policy = fixture.policy(command, |facts| edit(&mut facts.limits));
            fixture.sandbox.run(&policy, wait).unwrap()
        };
        let busy = ran("while :; do :; done", |limits| {
            limits.cpu_seconds = Some(1);
        });
        let reason = busy.exit_reason.to_string();
        assert_eq!(reason, "its limit on processor time ended it");
        let greedy = ran(
            "exec head -c 400M /dev/zero | tail -c 400M > /dev/null",
            |limits| {
                limits.memory_bytes = Some(64 << 20);
            },
        );
        // Without a control group, allocations fail and no process is killed.
        let notes = greedy.notes.concat();
        assert!(
            notes.is_empty() || notes.starts_with("it exceeded its memory limit"),
            "{greedy:?}"
        );
    });
}

#[test]
fn a_command_is_interrupted_from_another_thread() {
    at_each_level(|fixture| {
        let time = unique_sleep();
        let interrupt = CommandInterrupt::new().unwrap();
        let raised = interrupt.clone();
        let begun = fixture.path("ws").join("begun");
        let watch = {
            let begun = begun.clone();
            thread::spawn(move || {
                wait_until("the command", LONG, || begun.as_path().exists());
                raised.raise();
            })
        };
        let wait = CommandWaitLimits {
            time_max: LONG,
            output_bytes_max: KEPT_BYTES,
            interrupt: Some(&interrupt),
            network: None,
        };
        let policy = fixture.policy(&format!("echo > begun; sleep {time}"), |_| ());
        let finished = fixture.sandbox.run(&policy, wait).unwrap();
        watch.join().unwrap();
        assert_eq!(finished.exit_reason, ExitReason::Interrupted);
        assert_eq!(processes_with(&time), Vec::<String>::new());
        // An interrupt that was raised in advance prevents the start.
        fs::remove_file(begun.as_path()).unwrap();
        assert_eq!(
            fixture.sandbox.run(&policy, wait).unwrap().exit_reason,
            ExitReason::Interrupted
        );
        assert!(!begun.as_path().exists());
    });
}

#[test]
fn a_flood_of_output_is_read_and_not_kept() {
    at_each_level(|fixture| {
        let finished = fixture.run("echo first; head -c 64M /dev/zero | tr '\\0' x; echo last");
        assert_eq!(finished.exit_reason, ExitReason::Exited(0));
        let text = &finished.stdout.text;
        assert!(text.starts_with("first\nxxx") && text.ends_with("xxxlast\n"));
        let written = 6 + (64 << 20) + 5;
        let kept_bytes = u64::try_from(KEPT_BYTES).unwrap();
        assert_eq!(finished.stdout.left_out_bytes, written - kept_bytes);
        assert!(text.len() < KEPT_BYTES + 100, "{}", text.len());
    });
}

#[test]
fn a_command_that_leaves_too_little_room_is_ended() {
    at_each_level(|fixture| {
        let interrupt = CommandInterrupt::new().unwrap();
        let wait = CommandWaitLimits {
            time_max: LONG,
            output_bytes_max: KEPT_BYTES,
            interrupt: Some(&interrupt),
            network: None,
        };
        let with = |disk_free_bytes, command: &str| {
            let policy = fixture.policy(command, |facts| {
                facts.limits.disk_free_bytes = disk_free_bytes;
            });
            fixture.sandbox.run(&policy, wait).unwrap().exit_reason
        };
        assert_eq!(
            with(u64::MAX, "sleep 100"),
            ExitReason::DiskFull(DiskShortage::Bytes)
        );
        assert_eq!(with(0, "sleep 0.1"), ExitReason::Exited(0));
    });
}

#[test]
fn a_sandbox_that_cannot_be_built_runs_nothing_and_says_why() {
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ] {
        let Some(fixture) = CommandFixture::new(level) else {
            continue;
        };
        let mut policy = fixture.policy("echo > ran", |_| ());
        policy.open.push(massgen::sandbox_policy::AccessiblePath {
            path: fixture.path("missing"),
            permission: Permission::Read,
            scope: massgen::permissions::grant::GrantScope::Tree,
        });
        let interrupt = CommandInterrupt::new().unwrap();
        let wait = CommandWaitLimits {
            time_max: LONG,
            output_bytes_max: KEPT_BYTES,
            interrupt: Some(&interrupt),
            network: None,
        };
        let exit_reason = fixture.sandbox.run(&policy, wait).unwrap().exit_reason;
        let ExitReason::Refused { step, reason } = &exit_reason else {
            panic!("{exit_reason:?}");
        };
        assert!(
            step.contains("missing") || reason.contains("missing"),
            "{exit_reason:?}"
        );
        assert!(!fixture.path("ws").join("ran").as_path().exists());
    }
}

/// Returns the processes of `program`, in the order in which they were started.
fn processes_of(program: &Path) -> Vec<Pid> {
    let is_one = |number: &i32| {
        fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|found| found == program)
    };
    let names = fs::read_dir("/proc").unwrap();
    let numbers = names.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let mut found: Vec<i32> = numbers.filter(is_one).collect();
    found.sort_unstable();
    found.into_iter().filter_map(Pid::from_raw).collect()
}

/// Returns whether only the exit status of a process is left. It releases its program before its
/// handles.
fn has_ended(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    let state = stat.map(|stat| stat.rsplit(") ").next().unwrap().starts_with('Z'));
    state.unwrap_or(true)
}

#[test]
fn killing_the_fork_server_ends_no_command() {
    let dir = tempfile::tempdir().unwrap();
    // Its processes are distinguished from those of other tests by their program.
    let program = dir.path().canonicalize().unwrap().join("massgen");
    copy_program(&binary(), &program);
    at_each_level_by(&program, |fixture| {
        let run = || {
            let finished = fixture.run("echo done");
            assert_eq!(finished.stdout.text, "done\n", "{:?}", finished.exit_reason);
        };
        let check = |chosen: fn(&[Pid]) -> &[Pid]| {
            run();
            wait_until("one fork server, and one waiting helper", LONG, || {
                processes_of(&program).len() == 2
            });
            let processes = processes_of(&program);
            let killed = chosen(&processes);
            for process in killed {
                // One of a pair ends by itself if the other was killed.
                let _sent = kill_process(*process, Signal::KILL);
            }
            wait_until("the end of what was killed", LONG, || {
                killed.iter().all(|process| has_ended(*process))
            });
            run();
        };
        check(|processes| &processes[..1]);
        check(|processes| &processes[1..]);
        check(|processes| processes);
    });
    wait_until("the end of all", LONG, || processes_of(&program).is_empty());
}

#[test]
fn a_policy_compiled_for_another_level_is_refused() {
    let fixture = CommandFixture::new(SandboxLevel::Off).unwrap();
    let mut policy = fixture.policy("true", |_| ());
    policy.level = SandboxLevel::Landlock;
    let interrupt = CommandInterrupt::new().unwrap();
    let wait = CommandWaitLimits {
        time_max: LONG,
        output_bytes_max: KEPT_BYTES,
        interrupt: Some(&interrupt),
        network: None,
    };
    let error = fixture.sandbox.run(&policy, wait).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("compiled for sandbox level `landlock`"),
        "{error}"
    );
}

#[test]
fn many_commands_run_at_once() {
    at_each_level(|fixture| {
        let run = |number: i32| {
            let command = format!("echo {number} > {number}; cat {number}");
            let interrupt = CommandInterrupt::new().unwrap();
            let wait = CommandWaitLimits {
                time_max: LONG,
                output_bytes_max: KEPT_BYTES,
                interrupt: Some(&interrupt),
                network: None,
            };
            let policy = fixture.policy_in(Phase::Coordination, &command, |_| ());
            let finished = fixture.sandbox.run(&policy, wait).unwrap();
            assert_eq!(finished.stdout.text, format!("{number}\n"), "{finished:?}");
        };
        thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || run(number));
            }
        });
    });
}

/// Starts a command in the background.
fn start(
    background: &BackgroundCommands,
    fixture: &CommandFixture,
    command: &str,
) -> Result<BackgroundCommandId, BackgroundStartError> {
    // Several parallel ones cannot share a layer.
    let policy = fixture.policy_in(Phase::Coordination, command, |_| ());
    background.start(&fixture.sandbox, command, &policy, None)
}

#[test]
fn a_background_command_is_read_watched_and_stopped() {
    at_each_level(|fixture| {
        let time = unique_sleep();
        let background = BackgroundCommands::default();
        let command = format!("echo one; echo two >&2; setsid sleep {time}");
        let id = start(&background, fixture, &command).unwrap();
        let written = || background.status(id).unwrap().output_bytes;
        wait_until("its output", LONG, || written() == 8);
        let all = background.output(id, 0, KEPT_BYTES).unwrap();
        assert_eq!((all.text.as_str(), all.next_offset), ("one\ntwo\n", 8));
        let rest = background.output(id, 4, KEPT_BYTES).unwrap();
        assert_eq!((rest.text.as_str(), rest.next_offset), ("two\n", 8));
        assert_eq!(background.status(id).unwrap().exit_reason, None);
        let stopped = background.stop(id).unwrap();
        assert_eq!(stopped.exit_reason, Some(ExitReason::Interrupted));
        assert_eq!(stopped.notes, Vec::<String>::new());
        assert_eq!(processes_with(&time), Vec::<String>::new());

        let id = start(&background, fixture, "echo end; exit 4").unwrap();
        wait_until("its end", LONG, || {
            background.status(id).unwrap().exit_reason.is_some()
        });
        assert_eq!(
            background.status(id).unwrap().exit_reason,
            Some(ExitReason::Exited(4))
        );
        assert_eq!(background.output(id, 0, KEPT_BYTES).unwrap().text, "end\n");
        assert_eq!(background.list().len(), 2);
        let unknown = BackgroundCommandId(99);
        assert_eq!(background.stop(unknown), None);
    });
}

#[test]
fn background_commands_are_few_and_end_together() {
    at_each_level(|fixture| {
        let time = unique_sleep();
        let background = BackgroundCommands::default();
        let sleep = format!("trap '' TERM; sleep {time}");
        for _ in 0..RUNNING_MAX {
            start(&background, fixture, &sleep).unwrap();
        }
        let refused = start(&background, fixture, &sleep);
        assert!(
            matches!(refused, Err(BackgroundStartError::TooMany)),
            "{refused:?}"
        );
        wait_until("the commands run", LONG, || {
            !processes_with(&time).is_empty()
        });
        drop(background);
        assert_eq!(processes_with(&time), Vec::<String>::new());
    });
}

/// Returns a project that grants the workspace and one path of the user's.
fn project_with_grants() -> Project {
    let project = Project::new().dir("ws").dir("src");
    let grants = serde_json::json!({
        "workspace": project.path("ws"),
        "context_paths": [{"path": project.path("src"), "permission": "write"}],
    });
    project.file("grants.json", grants.to_string())
}

/// Returns `massgen sandbox` with these words after `--`.
fn with_sandbox_command(project: Project, arguments: &[&str]) -> Project {
    let options = [
        "sandbox",
        "--grants",
        "grants.json",
        "--sandbox",
        "off",
        "--",
    ];
    project.args(options).args(arguments)
}

#[test]
fn one_command_runs_on_the_users_streams_with_its_own_status() {
    let arguments = ["sh", "-c", "cat; echo 'it'\"'\"'s' >&2; pwd; exit 5"];
    let project = with_sandbox_command(project_with_grants().stdin("typed\n"), &arguments);
    let finished = project.failure(5);
    assert_eq!(finished.stdout(), "typed\n[PROJECT]/ws\n");
    let warning = "warning: commands run without a sandbox, with your own rights\n";
    assert_eq!(finished.stderr(), format!("{warning}it's\n"));
    with_sandbox_command(project_with_grants(), &["sh", "-c", "kill -9 $$"]).failure(137);
    with_sandbox_command(project_with_grants(), &["true"]).success();
}

#[test]
fn one_command_holds_no_stream_of_the_users() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let shut = "chmod 400 /dev/stdin; cat";
    let project = project_with_grants().file("typed", "typed\n");
    let typed = project.path("typed");
    let project = with_sandbox_command(project, &["sh", "-c", shut]);
    let by = |mut command: Command| {
        fs::set_permissions(&typed, fs::Permissions::from_mode(0o600)).unwrap();
        let output = command
            .stdin(fs::File::open(&typed).unwrap())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "typed\n");
        mode(&typed)
    };
    let mut alone = Command::new("sh");
    alone.args(["-c", shut]);
    assert_eq!(by(alone), 0o400);
    assert_eq!(by(project.command()), 0o600);
}

#[test]
fn one_command_has_no_directory_for_a_stream() {
    let project = with_sandbox_command(project_with_grants(), &["true"]);
    let with = |stdin: &Path| {
        let mut command = project.command();
        let output = command.stdin(fs::File::open(stdin).unwrap()).output();
        output.unwrap().status.code()
    };
    assert_eq!(with(&project.path("src")), Some(2));
    assert_eq!(with(&project.path("grants.json")), Some(0));
}

#[test]
fn one_command_writes_in_order_where_both_streams_are_one() {
    let words = "for i in 1 2 3; do echo out $i; echo err $i >&2; done";
    let project = with_sandbox_command(project_with_grants(), &["sh", "-c", words]);
    let written = project.path("written");
    let file = fs::File::create(&written).unwrap();
    let mut command = project.command();
    command.stdout(file.try_clone().unwrap()).stderr(file);
    assert!(command.status().unwrap().success());
    let written = fs::read_to_string(written).unwrap();
    let (warning, written) = written.split_once('\n').unwrap();
    assert!(
        warning.starts_with("warning: commands run without a sandbox"),
        "{warning}"
    );
    assert_eq!(written, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
}

/// Returns the levels that this machine supports.
fn supported_levels() -> impl Iterator<Item = &'static str> {
    let all = ["overlay", "namespaces", "landlock", "off"].into_iter();
    all.filter(|level| CommandFixture::new(level_named(level)).is_some())
}

/// Returns a project that runs this script in a level.
fn at_level(level: &str, script: &str) -> Project {
    let options = ["sandbox", "--grants", "grants.json", "--sandbox", level];
    project_with_grants()
        .args(options)
        .args(["--", "sh", "-c", script])
}

#[test]
fn a_command_runs_even_if_sigchld_was_ignored_from_the_start() {
    for level in supported_levels() {
        let project = at_level(level, "exit 3");
        let command = project.command();
        let mut shell = Command::new("bash");
        shell
            .args(["-c", "trap '' CHLD; exec \"$0\" \"$@\""])
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(project.path(""))
            .env_clear();
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap());
        }
        let output = shell.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "level {level}: {output:?}");
    }
}

#[test]
fn one_command_has_a_terminal_where_the_user_has_one() {
    for level in supported_levels() {
        let script = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size && echo own > /dev/tty";
        let finished = at_level(level, script).on_terminal();
        let shown = finished.stdout();
        assert!(
            shown.ends_with("24 80\r\nown\r\n"),
            "level {level}: {shown}"
        );
        assert_eq!(finished.code(), Some(0), "level {level}");
        let none = at_level(level, "[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || : < /dev/tty");
        assert_ne!(none.run().code(), Some(0), "level {level}");
    }
}

#[test]
fn keys_that_end_a_program_mean_the_command() {
    for level in supported_levels() {
        let pty = native_pty_system().openpty(PtySize::default()).unwrap();
        let script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep .05; done";
        let project = at_level(level, script);
        let mut child = pty.slave.spawn_command(project.terminal_command()).unwrap();
        drop(pty.slave);
        let mut shown = BufReader::new(pty.master.try_clone_reader().unwrap()).lines();
        assert!(shown.any(|line| line.unwrap() == "ready"));
        pty.master
            .take_writer()
            .unwrap()
            .write_all(b"\x03")
            .unwrap();
        let mut shown = shown.map_while(Result::ok);
        assert!(shown.any(|line| line.ends_with("caught")), "level {level}");
        let _rest = shown.count();
        assert_eq!(child.wait().unwrap().exit_code(), 7, "level {level}");
    }
}

/// A team of one that may run commands.
const TEAM: &str = "agents:
  - id: one
    backend:
      type: scripted
      replies: [{text: done}]
      cwd: w1
      enable_mcp_command_line: true
";

#[test]
fn single_commands_run_as_an_agent_of_a_config_would_run_them() {
    for level in supported_levels() {
        let with = |arguments: &[&str]| {
            let options = ["--config", "team.yaml", "--sandbox", level];
            let project = Project::new().file("team.yaml", TEAM);
            let (name, arguments) = arguments.split_first().unwrap();
            project.args([name]).args(options).args(arguments).success()
        };
        let call = [
            "tool",
            "execute_command",
            "--args",
            r#"{"command": "echo told"}"#,
        ];
        let finished = with(&call);
        assert!(
            finished.stdout().contains("told\\\\n"),
            "{}",
            finished.stdout()
        );
        assert_eq!(with(&["sandbox", "--", "echo", "told"]).stdout(), "told\n");
    }
}

#[test]
fn one_command_is_asked_about_and_held_as_an_agents() {
    let refused = with_sandbox_command(project_with_grants(), &["sudo", "true"]).failure(4);
    assert!(refused.stderr().contains("sudo"), "{}", refused.stderr());
    let usage = project_with_grants()
        .args(["sandbox", "--grants", "grants.json"])
        .failure(2);
    assert!(usage.stderr().contains("CMD"), "{}", usage.stderr());
    let held = |phase: &str| {
        let options = ["sandbox", "--grants", "grants.json", "--phase", phase, "--"];
        let command = "echo x > ../src/new; echo x > new; cat ../grants.json; true";
        project_with_grants()
            .args(options)
            .args(["sh", "-c", command])
            .success()
    };
    let sandbox = CommandFixture::new(SandboxLevel::Overlay)
        .or_else(|| CommandFixture::new(SandboxLevel::Namespaces));
    if sandbox.is_none() {
        return;
    }
    let _kept_out = held("coordination")
        .has_file("ws/new", "x\n")
        .has_no("src/new");
    let finished = held("final");
    assert_eq!(finished.stdout(), "");
    let _delivered = finished
        .has_file("ws/new", "x\n")
        .has_file("src/new", "x\n");
}

/// Checks that nothing of the command is left, and no directory of massgen's.
#[track_caller]
fn check_gone(project: &Project, time: &str) {
    wait_until("the end of all processes", LONG, || {
        processes_with(time).is_empty()
    });
    let left: Vec<_> = fs::read_dir(project.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn commands_end_with_massgen_on_every_signal() {
    for level in ["overlay", "namespaces", "landlock", "off"] {
        if CommandFixture::new(level_named(level)).is_none() {
            continue;
        }
        for signal in [Signal::KILL, Signal::TERM, Signal::INT] {
            let time = unique_sleep();
            let command = format!("trap '' TERM INT HUP; setsid sleep {time} & sleep {time}");
            let project = project_with_grants().dir("tmp");
            let tmp = project.path("tmp");
            let options = [
                "sandbox",
                "--grants",
                "grants.json",
                "--sandbox",
                level,
                "--",
            ];
            let project = project.env("TMPDIR", &tmp).args(options);
            let project = project.args(["sh", "-c", &command]);
            let mut massgen = project.command().spawn().unwrap();
            wait_until("the command", LONG, || processes_with(&time).len() >= 2);
            let pid = Pid::from_child(&massgen);
            kill_process(pid, signal).unwrap();
            let status = massgen.wait().unwrap();
            if signal == Signal::KILL {
                wait_until("its end", LONG, || processes_with(&time).is_empty());
            } else {
                assert_eq!(status.code(), Some(130), "level {level}");
                check_gone(&project, &time);
            }
        }
    }
}

fn level_named(name: &str) -> SandboxLevel {
    match name.parse().unwrap() {
        SandboxLevelChoice::Only(level) => level,
        SandboxLevelChoice::Auto => panic!("{name} is no level"),
    }
}

#[test]
fn without_a_config_the_current_directory_can_be_read_and_not_written() {
    let project = || Project::new().file("a.txt", "hi\n");
    let note = "no config found: this directory can be read";
    let read = project().args(["sandbox", "--", "cat", "a.txt"]).success();
    assert_eq!(read.stdout(), "hi\n", "{}", read.stderr());
    assert!(read.stderr().contains(note), "{}", read.stderr());
    let written = project()
        .args(["sandbox", "--", "sh", "-c", "echo x > new"])
        .run();
    assert_ne!(written.code(), Some(0), "{}", written.stderr());
    let _project = written.has_no("new");
    let explained = project()
        .args(["explain", "path", "a.txt", "--json"])
        .success();
    let report = explained.stdout();
    assert!(
        report.contains("read") && report.contains("allow"),
        "{report}"
    );
    assert!(explained.stderr().contains(note), "{}", explained.stderr());
    let of_run = "as with `--cwd-context ro`; without it a run opens nothing";
    assert!(
        explained.stderr().contains(of_run),
        "{}",
        explained.stderr()
    );
}
