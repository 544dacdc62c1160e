//! Five hundred commands that are killed at random moments: while their sandbox is built, while
//! they run, while their changes are transferred, and with commands in the background.

use std::fs;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use crate::chaos::fixture::ChaosFixture;
use crate::chaos::levels;
use crate::chaos::random::Random;
use crate::chaos::traces::{Process, await_end_of_all, check_nothing_left, processes};
use crate::repetition::repetitions;

/// Seed of the random moments.
const SEED: u64 = 20_250_401;
/// Number of commands that are killed.
const KILLS: usize = 500;
/// The same in the short suite.
const KILLS_SHORT: usize = 48;
/// Number of parallel commands.
const AT_ONCE: usize = 3;
/// Timeout of a command.
const LIFE_MAX: Duration = Duration::from_mins(2);

/// Way of starting a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartMethod {
    /// By `massgen sandbox`.
    Alone,
    /// By the final agent of a run, which also has commands in the background.
    InRun,
}

/// Process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KilledProcess {
    /// The command, by a signal that asks massgen to end.
    Command,
    /// massgen, which cannot react.
    Massgen,
    /// The process outside the sandbox.
    Outer,
    /// Its child: the first process of the sandbox.
    Inner,
}

/// A series of commands that are killed one after another.
#[derive(Clone, Copy, Debug)]
struct KillJob {
    level: SandboxLevel,
    method: StartMethod,
    victim: KilledProcess,
    kills: usize,
}

/// Returns the number of commands to kill.
fn kill_count() -> usize {
    repetitions(KILLS_SHORT, KILLS)
}

/// Returns all jobs. A run takes longer than a single command, and gets fewer kills.
fn all_jobs(levels: &[SandboxLevel]) -> Vec<KillJob> {
    let methods = [(StartMethod::InRun, 1), (StartMethod::Alone, 3)];
    let victims = [
        KilledProcess::Massgen,
        KilledProcess::Command,
        KilledProcess::Outer,
        KilledProcess::Inner,
    ];
    let parts = levels.len() * victims.len() * (1 + 3);
    let part = kill_count().div_ceil(parts);
    let mut jobs = Vec::new();
    for (method, share) in methods {
        for level in levels {
            let job = |victim| KillJob {
                level: *level,
                method,
                victim,
                kills: part * share,
            };
            jobs.extend(victims.map(job));
        }
    }
    jobs
}

/// Size of each file that a command writes, in bytes.
const FILE_BYTES: usize = 32 * 1024;
/// Number of files of each kind.
const FILES: usize = 6;

/// Returns the content of a file before (`1`) or after (`2`) the command.
fn file_content(digit: &str) -> String {
    format!("{digit:0>FILE_BYTES$}")
}

/// A fixture and the job that runs in it.
struct KillSeries {
    fixture: ChaosFixture,
    job: KillJob,
}

impl KillSeries {
    /// Returns the directory in which changes are visible.
    fn target_dir(&self) -> &'static str {
        match (self.job.level, self.job.method) {
            (SandboxLevel::Landlock, StartMethod::Alone) => "project/ws",
            // In a run of level `landlock`, a command writes to the workspace, and the run
            // delivers.
            _ => "project/src",
        }
    }

    /// Returns a script that changes files, each atomically, creates new ones and removes others,
    /// and leaves processes behind.
    fn script(&self) -> String {
        let fixture = &self.fixture;
        let in_dir = match (self.job.level, self.job.method) {
            (SandboxLevel::Landlock, StartMethod::InRun) => String::new(),
            _ => format!("cd {}; ", fixture.path(self.target_dir()).display()),
        };
        // At level `landlock`, these directories are the machine's.
        let shared = match self.job.level {
            SandboxLevel::Landlock => String::new(),
            SandboxLevel::Overlay
            | SandboxLevel::Namespaces
            | SandboxLevel::Unavailable
            | SandboxLevel::Off => {
                format!("echo > /tmp/{0}.x; echo > /dev/shm/{0}.x; ", fixture.name())
            }
        };
        let last = FILES - 1;
        format!(
            "{in_dir}{shared}echo > $HOME/x; echo > $TMPDIR/x; \
             setsid sleep 86400 >/dev/null 2>&1 & (trap '' TERM INT HUP; sleep 86400) & \
             for n in $(seq 0 {last}); do \
             printf '%0{FILE_BYTES}d' 2 > part; mv part changed$n; \
             printf '%0{FILE_BYTES}d' 2 > part; mv part new$n; rm -f removed$n; done; \
             mkdir -p made/deep; ln -s nowhere made/link; sleep 0.03"
        )
    }

    /// Restores the directory.
    fn restore(&self) {
        let dir = self.fixture.path(self.target_dir());
        fs::remove_dir_all(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        for number in 0..FILES {
            fs::write(dir.join(format!("changed{number}")), file_content("1")).unwrap();
            fs::write(dir.join(format!("removed{number}")), file_content("1")).unwrap();
        }
    }

    /// Checks that each file is complete or missing. `part` is a temporary file of the command.
    #[track_caller]
    fn check_files(&self) {
        let (old, new, job) = (file_content("1"), file_content("2"), self.job);
        let dir = self.fixture.path(self.target_dir());
        for name in self.fixture.names(self.target_dir()) {
            let allowed: &[&String] = match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
                "changed" => &[&old, &new],
                "new" => &[&new],
                "removed" => &[&old],
                "made" | "part" => continue,
                _ => panic!("{job:?}: {name}"),
            };
            let found = fs::read_to_string(dir.join(&name)).unwrap();
            assert!(
                allowed.contains(&&found),
                "{job:?}: {name}: {} bytes",
                found.len()
            );
        }
        for number in 0..FILES {
            assert!(
                dir.join(format!("changed{number}")).exists(),
                "{job:?}: {number}"
            );
        }
    }

    /// Checks that an undisturbed command has made all its changes.
    #[track_caller]
    fn check_changed(&self) {
        let mut expected = vec!["made".to_owned()];
        for number in 0..FILES {
            expected.extend([format!("changed{number}"), format!("new{number}")]);
        }
        if (self.job.level, self.job.method) == (SandboxLevel::Landlock, StartMethod::InRun) {
            // The delivery removes nothing.
            expected.extend((0..FILES).map(|number| format!("removed{number}")));
        }
        expected.sort();
        assert_eq!(
            self.fixture.names(self.target_dir()),
            expected,
            "{:?}",
            self.job
        );
        let changed = self.fixture.path(self.target_dir()).join("changed0");
        assert_eq!(fs::read_to_string(changed).unwrap(), file_content("2"));
    }

    fn begin(&self) -> Child {
        let level = self.job.level.to_string();
        let script = self.script();
        let options = ["sandbox", "--grants", "grants.json", "--phase", "final"];
        let alone = ["--sandbox", &level, "--", "bash", "-c", &script];
        let arguments = match self.job.method {
            StartMethod::Alone => [&options[..], &alone[..]].concat(),
            StartMethod::InRun => vec!["-c", "team.yaml", "go"],
        };
        self.fixture.start(self.fixture.massgen(&arguments))
    }

    /// Waits until massgen has ended, and returns its exit status unless a signal ended it.
    #[track_caller]
    fn await_end(&self, massgen: &mut Child) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = massgen.try_wait().unwrap() {
                return status.code();
            }
            if begun.elapsed() > LIFE_MAX {
                massgen.kill().unwrap();
                panic!("{:?}: it hangs: {}", self.job, self.fixture.stderr());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Runs a command to its end, and checks that it has made its changes and that nothing is left
    /// of it and of all before it. Returns its duration.
    #[track_caller]
    fn run_to_end(&self, description: &str) -> Duration {
        self.restore();
        let begun = Instant::now();
        let code = self.await_end(&mut self.begin());
        let duration = begun.elapsed();
        assert_eq!(
            code,
            Some(0),
            "{:?}, {description}: {}",
            self.job,
            self.fixture.stderr()
        );
        self.check_changed();
        check_nothing_left(&self.fixture);
        duration
    }
}

/// Sends a signal to the victim. Returns whether there was one.
fn signal_victim(
    fixture: &ChaosFixture,
    massgen: &Child,
    victim: KilledProcess,
    number: usize,
) -> bool {
    let own = i32::try_from(massgen.id()).unwrap();
    let (signal, chosen) = match victim {
        KilledProcess::Massgen => (Signal::KILL, Some(own)),
        KilledProcess::Command if number.is_multiple_of(2) => (Signal::TERM, Some(own)),
        KilledProcess::Command => (Signal::INT, Some(own)),
        KilledProcess::Outer | KilledProcess::Inner => {
            let all = processes(fixture);
            let children = |parent: i32| -> Vec<&Process> {
                let children = all.iter().filter(|process| process.parent == parent);
                children.collect()
            };
            // The first child is the fork server, from which the others were forked.
            let outer: Vec<&Process> = children(own).into_iter().skip(1).collect();
            let chosen = match victim {
                KilledProcess::Inner => outer.iter().find_map(|outer| children(outer.number).pop()),
                KilledProcess::Outer | KilledProcess::Massgen | KilledProcess::Command => {
                    outer.last().copied()
                }
            };
            (Signal::KILL, chosen.map(|process| process.number))
        }
    };
    let chosen = chosen.and_then(Pid::from_raw);
    // massgen's process id cannot be reused before it is waited for; another process is checked
    // again through the handle.
    let handle = chosen.and_then(|chosen| pidfd_open(chosen, PidfdFlags::empty()).ok());
    let is_it = |chosen: Pid| {
        let number = chosen.as_raw_nonzero().get();
        number == own
            || processes(fixture)
                .iter()
                .any(|process| process.number == number)
    };
    handle.is_some_and(|handle| {
        chosen.is_some_and(is_it) && pidfd_send_signal(handle, signal).is_ok()
    })
}

/// Kills as many commands as `job` says. Checks after each that none of its processes is running
/// and every file is complete, and at the end that the next command cleans up what massgen could
/// not.
fn run_job(job: KillJob, seed: u64) -> usize {
    let fixture = ChaosFixture::new(job.level);
    let series = KillSeries { fixture, job };
    let fixture = &series.fixture;
    let in_background = json!({"command": "setsid sleep 86400 & while :; do sleep 0.05; done"});
    let calls = [
        ("start_background_command", in_background),
        ("execute_command", json!({"command": "sleep 0.02"})),
    ];
    let last = [("execute_command", json!({"command": series.script()}))];
    fixture.team(&json!({}), &calls, &last);
    let mut random = Random::new(seed);
    let mut duration = series.run_to_end("the first");
    let mut killed = 0;
    while killed < job.kills {
        series.restore();
        let begun = Instant::now();
        let mut massgen = series.begin();
        thread::sleep(random.time_below(duration));
        let mut was_signalled = false;
        while !was_signalled && massgen.try_wait().unwrap().is_none() && begun.elapsed() < LIFE_MAX
        {
            was_signalled = signal_victim(fixture, &massgen, job.victim, killed);
            thread::sleep(Duration::from_millis(1));
        }
        let code = series.await_end(&mut massgen);
        if was_signalled {
            killed += 1;
        } else {
            // It had already ended: the machine has become faster.
            duration = begun.elapsed();
        }
        await_end_of_all(fixture);
        series.check_files();
        let stderr = fixture.stderr();
        assert!(!stderr.contains("panicked"), "{job:?}: {stderr}");
        // It may get the signal before its handlers are installed.
        let can_be_killed = matches!(job.victim, KilledProcess::Massgen | KilledProcess::Command);
        assert!(code.is_some() || can_be_killed, "{job:?}: {stderr}");
    }
    series.run_to_end("the last");
    killed
}

#[test]
fn commands_leave_nothing_when_any_process_is_killed_at_any_moment() {
    let levels = levels();
    println!("first random number: {SEED}; levels: {levels:?}");
    let jobs = all_jobs(&levels);
    let next = AtomicU32::new(0);
    let killed = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(usize::try_from(index).unwrap()) else {
                        return;
                    };
                    let done = run_job(*job, SEED + u64::from(index));
                    *killed.lock().unwrap() += done;
                }
            });
        }
    });
    let killed = killed.into_inner().unwrap();
    println!("{killed} commands were killed");
    assert!(levels.is_empty() || killed >= kill_count(), "{killed}");
}
