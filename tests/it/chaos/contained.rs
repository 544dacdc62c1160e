//! Commands that try to exhaust the machine, or do not end, started by the agent of a run: they are
//! limited, the agent is told so, and the run continues to its end. Each run begins with a harmless
//! command that does a little of the same, and works.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::chaos::fixture::{ChaosFixture, reply};
use crate::chaos::levels;
use crate::chaos::traces::{check_nothing_left, processes};
use crate::waiting::wait_until;

/// Maximum memory that massgen allocates while a command writes 256 MiB, in MiB. An unoptimized build
/// allocates about 10.
const ALLOCATED_MIB_MAX: u64 = 48;
/// Part of the result of every command.
const ANY: &str = r#""execution_time":"#;
/// Maximum number of processes of a bomb, including those of the sandbox.
const PROCESSES_MAX: usize = 64;
/// Timeout for the removal of a control group whose processes have ended.
const EMPTY_WITHIN: Duration = Duration::from_mins(2);
/// Timeout of a run with a harmless command and a hostile one.
const RUN_TIME_MAX: Duration = Duration::from_mins(30);
/// Number of processes that the machine can bear if massgen does not limit them.
const BEARABLE: usize = 500;

/// A command of an agent, and two texts that its result contains.
struct CommandCase {
    command: String,
    /// Timeout in seconds, for a command that would not end by itself.
    timeout: Option<u64>,
    texts: [&'static str; 2],
}

impl CommandCase {
    fn of(command: impl Into<String>, texts: [&'static str; 2]) -> Self {
        let command = command.into();
        Self {
            command,
            timeout: None,
            texts,
        }
    }

    /// Returns a case whose command never ends, and is killed after a second.
    fn endless(command: &str) -> Self {
        let mut case = Self::of(command, ["it took too long and was killed", ANY]);
        case.timeout = Some(1);
        case
    }

    fn call(&self) -> (&'static str, Value) {
        // Generous, for a machine under load.
        let timeout = self.timeout.unwrap_or(600);
        (
            "execute_command",
            json!({"command": self.command, "timeout": timeout}),
        )
    }

    /// Returns the condition for a request that contains the result.
    fn request_condition(&self) -> Value {
        let [last, other] = self.texts;
        json!({"last": last, "contains": other})
    }
}

/// Peak usage of a run.
#[derive(Clone, Copy, Debug, Default)]
struct PeakUsage {
    /// Memory that massgen itself has allocated.
    allocated_mib: u64,
    /// Counted only in a run with a limit of processes: that reads all of `/proc` each time.
    processes: usize,
}

/// Runs a team whose agent makes both calls, at each level, and checks that it receives the
/// expected results, answers, and presents. `prepared` creates the process from massgen's
/// arguments.
#[track_caller]
fn check_prepared(
    limits: &Value,
    harmless: &CommandCase,
    hostile: &CommandCase,
    prepared: impl Fn(&ChaosFixture, &[&str]) -> Command,
) -> PeakUsage {
    let mut peak = PeakUsage::default();
    let counts_processes = limits.get("processes").is_some();
    for level in levels() {
        let fixture = ChaosFixture::new(level);
        let answer = ("new_answer", json!({"content": "held"}));
        let replies = vec![
            reply(&json!({}), &harmless.call()),
            reply(&harmless.request_condition(), &hostile.call()),
            reply(&hostile.request_condition(), &answer),
        ];
        // If it receives anything else, it answers something else.
        fixture.team_of(&json!({"command_line_limits": limits}), replies, &[]);
        let mut massgen = fixture.start(prepared(&fixture, &["-c", "team.yaml", "go"]));
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = massgen.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > RUN_TIME_MAX {
                massgen.kill().unwrap();
                panic!("level {level}: the run hangs: {}", fixture.stderr());
            }
            let allocated_mib = allocated_mib(massgen.id(), &fixture.path("massgen"));
            peak.allocated_mib = peak.allocated_mib.max(allocated_mib.unwrap_or(0));
            if counts_processes {
                peak.processes = peak.processes.max(processes(&fixture).len());
            }
            thread::sleep(Duration::from_millis(30));
        };
        let stderr = fixture.stderr();
        assert_eq!(status.code(), Some(0), "level {level}: {stderr}");
        assert!(stderr.contains("[solo] | held"), "level {level}: {stderr}");
        check_nothing_left(&fixture);
    }
    peak
}

#[track_caller]
fn check(limits: &Value, harmless: &CommandCase, hostile: &CommandCase) -> PeakUsage {
    check_prepared(limits, harmless, hostile, ChaosFixture::massgen)
}

/// Returns the memory that a process has allocated, in MiB: without the pages of files, because how
/// much of a program is resident depends on the page cache. Returns `None` if the process does not
/// execute `program` yet: until then it shares its memory with this process.
fn allocated_mib(process: u32, program: &Path) -> Option<u64> {
    let executed = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    if executed != program {
        return None;
    }
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib / 1024)
}

/// Protects the machine if massgen fails to limit a bomb.
enum BombLimit {
    /// A control group that contains everything.
    Group(PathBuf),
    /// A limit of the user.
    User,
}

impl BombLimit {
    /// Returns `None` for root without control groups, because user limits do not apply to it.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            return Some(Self::User);
        }
        let name = format!("chaos-{}", Uuid::new_v4().simple());
        let places = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];
        let mut made = places.iter().filter_map(|parent| {
            let dir = Path::new(parent).join(&name);
            fs::create_dir(&dir).ok()?;
            let limited = fs::write(dir.join("pids.max"), BEARABLE.to_string());
            let guard = Self::Group(dir);
            limited.is_ok().then_some(guard)
        });
        made.next()
    }

    /// Returns a shell script that enters the guard and then executes its arguments.
    fn script(&self) -> String {
        match self {
            BombLimit::Group(dir) => {
                format!("echo $$ > {}/cgroup.procs && exec \"$@\"", dir.display())
            }
            BombLimit::User => {
                let entries = fs::read_dir("/proc").unwrap();
                let most = entries.count() + BEARABLE;
                format!("ulimit -u {most} && exec \"$@\"")
            }
        }
    }
}

impl Drop for BombLimit {
    fn drop(&mut self) {
        if let BombLimit::Group(dir) = self {
            // The kernel may still be removing the last process from it.
            wait_until("an empty group", EMPTY_WITHIN, || {
                fs::remove_dir(dir.as_path()).is_ok()
            });
        }
    }
}

/// Returns massgen, started by a shell that first runs `script`.
fn limited_command(script: &str, fixture: &ChaosFixture, arguments: &[&str]) -> Command {
    let massgen = fixture.path("massgen").display().to_string();
    let inner = fixture.massgen(&[]);
    let mut command = Command::new("bash");
    command
        .args(["-c", script, "bash", &massgen])
        .args(arguments);
    command.env_clear();
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    command.current_dir(inner.get_current_dir().unwrap());
    fixture.capture_output(&mut command);
    command
}

#[test]
fn a_fork_bomb_is_held() {
    let Some(guard) = BombLimit::new() else {
        println!("skipped: nothing here keeps a bomb from the machine if massgen does not");
        return;
    };
    // The first process waits until another one cannot fork any more.
    let bomb = |most: usize| {
        format!(
            "python3 -c '
import os, time
first = os.getpid()
for count in range({most}):
    if os.getpid() == first and os.path.exists(\"full\"): break
    try: os.fork()
    except OSError: open(\"full\", \"w\").close()
    time.sleep(.01)
if os.getpid() != first: time.sleep(86400)
print(\"full\" if os.path.exists(\"full\") else \"room\")'"
        )
    };
    let harmless = CommandCase::of(bomb(3), [r#""stdout":"room\n""#, r#""success":true"#]);
    let hostile = CommandCase::of(
        bomb(1_000_000),
        [r#""stdout":"full\n""#, r#""success":true"#],
    );
    let limits = json!({"processes": PROCESSES_MAX});
    let peak = check_prepared(&limits, &harmless, &hostile, |fixture, arguments| {
        limited_command(&guard.script(), fixture, arguments)
    });
    // At level `landlock` a user's other processes count as well, so the limit is that much higher.
    let others = match guard {
        BombLimit::User => BEARABLE,
        BombLimit::Group(_) => 8,
    };
    assert!(peak.processes <= PROCESSES_MAX + others, "{peak:?}");
}

#[test]
fn a_file_that_grows_without_end_is_cut_off() {
    let filler = |bytes: &str| format!("head -c {bytes} /dev/zero > file; wc -c < file");
    let harmless = CommandCase::of(
        filler("1000"),
        [r#""stdout":"1000\n""#, r#""success":true"#],
    );
    let hostile = CommandCase::of(filler("1G"), [r#""stdout":"1048576\n""#, ANY]);
    check(&json!({"file_size": "1m"}), &harmless, &hostile);
}

#[test]
fn a_disk_that_is_nearly_full_ends_the_command_that_fills_it() {
    if !geteuid().is_root() {
        println!("skipped: only root can have a small disk");
        return;
    }
    // The mount disappears with the namespace.
    let script = "mkdir .massgen && mount -t tmpfs -o size=320m tmpfs .massgen && exec \"$@\"";
    let script = format!("exec unshare -m bash -c '{script}' bash \"$@\"");
    let filler = |files: u32| {
        format!("for n in $(seq {files}); do head -c 1M /dev/zero > f$n || exit; done; rm f*")
    };
    let harmless = CommandCase::of(filler(3), [r#""success":true"#, ANY]);
    let full = "it was killed because the disk was nearly full";
    let hostile = CommandCase::of(format!("{}; sleep 86400", filler(400)), [full, ANY]);
    check_prepared(&json!({}), &harmless, &hostile, |fixture, arguments| {
        limited_command(&script, fixture, arguments)
    });
}

#[test]
fn a_flood_of_output_is_reported_by_its_two_ends() {
    let flood = |bytes: &str| {
        format!("echo first; head -c {bytes} /dev/zero | tr '\\0' x; echo; echo last")
    };
    let harmless = CommandCase::of(flood("5"), [r#""stdout":"first\nxxxxx\nlast\n""#, ANY]);
    let hostile = CommandCase::of(
        flood("256M"),
        [r#""stdout":"first\nxxxxx"#, r#"xxxxx\nlast\n""#],
    );
    let peak = check(&json!({}), &harmless, &hostile);
    assert!(
        (1..=ALLOCATED_MIB_MAX).contains(&peak.allocated_mib),
        "{peak:?}"
    );
    println!("{peak:?}");
}

#[test]
fn a_command_that_does_not_want_to_end_is_ended() {
    let harmless = CommandCase::of(
        "trap '' TERM; sleep 0.01; echo done",
        [r#""stdout":"done\n""#, ANY],
    );
    let deaf = "trap '' TERM INT HUP QUIT; \
                setsid sh -c 'trap \"\" TERM INT HUP QUIT; sleep 86400' & sleep 86400";
    let silent = "exec >&- 2>&-; sleep 86400";
    for command in [deaf, silent] {
        check(&json!({}), &harmless, &CommandCase::endless(command));
    }
}

#[test]
fn a_daemon_does_not_outlive_the_command_that_leaves_it() {
    let texts = [r#""stdout":"left\n""#, r#""success":true"#];
    let harmless = CommandCase::of("sleep 0.01 & wait; echo left", texts);
    let hostile = "(setsid nohup sleep 86400 >/dev/null 2>&1 &); (setsid setsid sleep 86400 &); \
                   echo left";
    check(&json!({}), &harmless, &CommandCase::of(hostile, texts));
}

#[test]
fn memory_without_end_is_not_to_be_had() {
    // It would end at 1 GiB.
    let hog = |mib: u32| {
        format!("python3 -c 'x = [bytearray(1 << 20) for _ in range({mib})]; print(\"grown\")'")
    };
    let harmless = CommandCase::of(hog(1), [r#""stdout":"grown\n""#, r#""success":true"#]);
    let hostile = CommandCase::of(hog(1024), [r#""success":false"#, r#""stdout":"""#]);
    check(&json!({"memory": "96m"}), &harmless, &hostile);
}
