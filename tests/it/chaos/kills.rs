//! Five hundred commands that are killed at random moments of their lives: while their sandbox is
//! built, while they run, while what they changed is carried over, with commands in the background.

use std::fs;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use crate::chaos::random::Random;
use crate::chaos::scene::Scene;
use crate::chaos::tiers;
use crate::chaos::traces::{Process, await_end_of_all, check_nothing_left, processes};
use crate::repetition::repetitions;

/// Where the random moments begin; a different number gives different ones.
const SEED: u64 = 20_250_401;
/// How many commands are killed in all.
const KILLS: usize = 500;
/// The same at every change.
const KILLS_SHORT: usize = 96;
/// How many are at work at once.
const AT_ONCE: usize = 3;
/// A command that takes longer hangs.
const LIFE_MAX: Duration = Duration::from_mins(2);

/// How a command is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// By `massgen sandbox`.
    Alone,
    /// By an agent of a run that presents, with commands of its in the background.
    InRun,
}

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The command, because massgen is told to end.
    Command,
    /// massgen, which cannot do anything about it.
    Massgen,
    /// The process outside the sandbox.
    Outer,
    /// What that has started: the first process of the sandbox.
    Inner,
}

/// One place where commands are killed, one after the other.
#[derive(Clone, Copy, Debug)]
struct Job {
    tier: SandboxLevel,
    manner: Manner,
    victim: Victim,
    kills: usize,
}

/// How many commands are killed.
fn kills() -> usize {
    repetitions(KILLS_SHORT, KILLS)
}

/// All of them. A run takes longer than one command, and has fewer.
fn jobs(tiers: &[SandboxLevel]) -> Vec<Job> {
    let manners = [(Manner::InRun, 1), (Manner::Alone, 3)];
    let victims = [
        Victim::Massgen,
        Victim::Command,
        Victim::Outer,
        Victim::Inner,
    ];
    let parts = tiers.len() * victims.len() * (1 + 3);
    let part = kills().div_ceil(parts);
    let mut jobs = Vec::new();
    for (manner, share) in manners {
        for tier in tiers {
            let job = |victim| Job {
                tier: *tier,
                manner,
                victim,
                kills: part * share,
            };
            jobs.extend(victims.map(job));
        }
    }
    jobs
}

/// How long each file is that a command writes, in bytes.
const FILE_BYTES: usize = 32 * 1024;
/// How many files of each kind there are.
const FILES: usize = 6;

/// A file as it was (`1`) or as a command writes it (`2`).
fn content(digit: &str) -> String {
    format!("{digit:0>FILE_BYTES$}")
}

/// Where something is done, and how.
struct Stage {
    scene: Scene,
    job: Job,
}

impl Stage {
    /// The directory in which changes are seen.
    fn changed(&self) -> &'static str {
        match (self.job.tier, self.job.manner) {
            (SandboxLevel::C, Manner::Alone) => "project/ws",
            // In a run of tier C a command writes to the workspace, and the run delivers.
            _ => "project/src",
        }
    }

    /// Changes files, each in one step, makes new ones and removes others, and leaves processes
    /// behind.
    fn script(&self) -> String {
        let scene = &self.scene;
        let in_dir = match (self.job.tier, self.job.manner) {
            (SandboxLevel::C, Manner::InRun) => String::new(),
            _ => format!("cd {}; ", scene.path(self.changed()).display()),
        };
        // What is in there is the machine's in tier C.
        let shared = match self.job.tier {
            SandboxLevel::C => String::new(),
            SandboxLevel::A | SandboxLevel::B | SandboxLevel::D | SandboxLevel::Off => {
                format!("echo > /tmp/{0}.x; echo > /dev/shm/{0}.x; ", scene.name())
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

    /// Makes the directory as it was before.
    fn restore(&self) {
        let dir = self.scene.path(self.changed());
        fs::remove_dir_all(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        for number in 0..FILES {
            fs::write(dir.join(format!("changed{number}")), content("1")).unwrap();
            fs::write(dir.join(format!("removed{number}")), content("1")).unwrap();
        }
    }

    /// Expects that each file is there as a whole or not at all. `part` is the command's own.
    #[track_caller]
    fn check_files(&self) {
        let (old, new, job) = (content("1"), content("2"), self.job);
        let dir = self.scene.path(self.changed());
        for name in self.scene.names(self.changed()) {
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

    /// Expects that a command which nothing came in between has done all that it should.
    #[track_caller]
    fn check_changed(&self) {
        let mut expected = vec!["made".to_owned()];
        for number in 0..FILES {
            expected.extend([format!("changed{number}"), format!("new{number}")]);
        }
        if (self.job.tier, self.job.manner) == (SandboxLevel::C, Manner::InRun) {
            // Delivery removes nothing.
            expected.extend((0..FILES).map(|number| format!("removed{number}")));
        }
        expected.sort();
        assert_eq!(self.scene.names(self.changed()), expected, "{:?}", self.job);
        let changed = self.scene.path(self.changed()).join("changed0");
        assert_eq!(fs::read_to_string(changed).unwrap(), content("2"));
    }

    fn begin(&self) -> Child {
        let tier = self.job.tier.to_string();
        let script = self.script();
        let options = ["sandbox", "--grants", "grants.json", "--phase", "final"];
        let alone = ["--sandbox", &tier, "--", "bash", "-c", &script];
        let words = match self.job.manner {
            Manner::Alone => [&options[..], &alone[..]].concat(),
            Manner::InRun => vec!["-c", "team.yaml", "go"],
        };
        self.scene.start(self.scene.massgen(&words))
    }

    /// Waits until massgen has ended, with its exit status if no signal ended it.
    #[track_caller]
    fn await_end(&self, massgen: &mut Child) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = massgen.try_wait().unwrap() {
                return status.code();
            }
            if begun.elapsed() > LIFE_MAX {
                massgen.kill().unwrap();
                panic!("{:?}: it hangs: {}", self.job, self.scene.said());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Lets a command come to its end, and expects that it has done all that it should and that
    /// nothing is left of it and all before it. How long it took.
    #[track_caller]
    fn undisturbed(&self, what: &str) -> Duration {
        self.restore();
        let begun = Instant::now();
        let code = self.await_end(&mut self.begin());
        let life = begun.elapsed();
        assert_eq!(
            code,
            Some(0),
            "{:?}, {what}: {}",
            self.job,
            self.scene.said()
        );
        self.check_changed();
        check_nothing_left(&self.scene);
        life
    }
}

/// Sends a signal to the victim. Whether there was one.
fn strike(scene: &Scene, massgen: &Child, victim: Victim, number: usize) -> bool {
    let own = i32::try_from(massgen.id()).unwrap();
    let (signal, chosen) = match victim {
        Victim::Massgen => (Signal::KILL, Some(own)),
        Victim::Command if number.is_multiple_of(2) => (Signal::TERM, Some(own)),
        Victim::Command => (Signal::INT, Some(own)),
        Victim::Outer | Victim::Inner => {
            let all = processes(scene);
            let children = |parent: i32| -> Vec<&Process> {
                let children = all.iter().filter(|process| process.parent == parent);
                children.collect()
            };
            // The first is the stem, from which the others were split off.
            let outer: Vec<&Process> = children(own).into_iter().skip(1).collect();
            let chosen = match victim {
                Victim::Inner => outer.iter().find_map(|outer| children(outer.number).pop()),
                Victim::Outer | Victim::Massgen | Victim::Command => outer.last().copied(),
            };
            (Signal::KILL, chosen.map(|process| process.number))
        }
    };
    let chosen = chosen.and_then(Pid::from_raw);
    // Nobody else gets the number of massgen as long as it has not been waited for; another process
    // is looked at once more through the handle.
    let handle = chosen.and_then(|chosen| pidfd_open(chosen, PidfdFlags::empty()).ok());
    let is_it = |chosen: Pid| {
        let number = chosen.as_raw_nonzero().get();
        number == own
            || processes(scene)
                .iter()
                .any(|process| process.number == number)
    };
    handle.is_some_and(|handle| {
        chosen.is_some_and(is_it) && pidfd_send_signal(handle, signal).is_ok()
    })
}

/// Kills as many commands as `job` says, and expects after each that nothing of it runs and every
/// file is whole, and after all that the next command clears away what massgen could not.
fn carry_out(job: Job, seed: u64) -> usize {
    let scene = Scene::new(job.tier);
    let stage = Stage { scene, job };
    let scene = &stage.scene;
    let in_background = json!({"command": "setsid sleep 86400 & while :; do sleep 0.05; done"});
    let calls = [
        ("start_background_command", in_background),
        ("execute_command", json!({"command": "sleep 0.02"})),
    ];
    let last = [("execute_command", json!({"command": stage.script()}))];
    scene.team(&json!({}), &calls, &last);
    let mut random = Random::new(seed);
    let mut life = stage.undisturbed("the first");
    let mut killed = 0;
    while killed < job.kills {
        stage.restore();
        let begun = Instant::now();
        let mut massgen = stage.begin();
        thread::sleep(random.time_below(life));
        let mut struck = false;
        while !struck && massgen.try_wait().unwrap().is_none() {
            struck = strike(scene, &massgen, job.victim, killed);
            thread::sleep(Duration::from_millis(1));
        }
        let code = stage.await_end(&mut massgen);
        if struck {
            killed += 1;
        } else {
            // It was over before: the machine has become faster.
            life = begun.elapsed();
        }
        await_end_of_all(scene);
        stage.check_files();
        let said = scene.said();
        assert!(!said.contains("panicked"), "{job:?}: {said}");
        // It can be told to end before it listens.
        let can_be_killed = matches!(job.victim, Victim::Massgen | Victim::Command);
        assert!(code.is_some() || can_be_killed, "{job:?}: {said}");
    }
    stage.undisturbed("the last");
    killed
}

#[test]
fn whatever_is_killed_whenever_nothing_is_left() {
    let tiers = tiers();
    println!("first random number: {SEED}; tiers: {tiers:?}");
    let jobs = jobs(&tiers);
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
                    let done = carry_out(*job, SEED + u64::from(index));
                    *killed.lock().unwrap() += done;
                }
            });
        }
    });
    let killed = killed.into_inner().unwrap();
    println!("{killed} commands were killed");
    assert!(tiers.is_empty() || killed >= kills(), "{killed}");
}
