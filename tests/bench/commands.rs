//! Measures commands: `true` in the sandbox of each level beside a plain process and `bwrap`, with a
//! small and a big parent, one at a time and several at once; whole calls of `execute_command` in
//! level `overlay`, with the commit; and in a container beside `docker exec`. What is compared is
//! timed in turns, so that other work of the machine slows all of it alike. Prints tables; asserts
//! no time.
//!
//! Containers are measured if `MASSGEN_BENCH_IMAGE` names an image of a running engine.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use massgen::config::command_line::CommandLineConfig;
use massgen::config::docker::DockerConfig;
use massgen::dotenv::ConfigVariables;
use massgen::id::AgentId;
use massgen::layout::RunName;
use massgen::path::AbsPath;
use massgen::path::RealPath;
use massgen::permissions::grant::{GrantScope, Permission};
use massgen::sandbox_policy::AccessiblePath;
use massgen::sandbox_policy::ResourceLimits;
use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::world::access::gate::Gate;
use massgen::world::access::policy::GatePolicy;
use massgen::world::exec;
use massgen::world::exec::tool_result::ActionOutcome;
use massgen::world::sandbox::container_owner::{ContainerOrigin, ContainerOwner};
use massgen::world::sandbox::docker::container::{AgentContainer, ContainerWork};
use massgen::world::sandbox::docker::credentials::HostUser;
use massgen::world::sandbox::docker::engine::ContainerEngine;
use massgen::world::sandbox::exec_backend::ExecBackend;
use massgen::world::sandbox::exec_environment::agent_directories::AgentDirectories;
use massgen::world::sandbox::exec_environment::{ExecEnvironment, ExecEnvironmentConfig};
use massgen::world::sandbox::interrupt::CommandInterrupt;
use massgen::world::sandbox::reachable_paths::ReachablePaths;
use massgen::world::sandbox::{ENFORCING_LEVELS, ExitReason, Sandbox};

use crate::room::{Room, has_bwrap, run, wait};

const ROUNDS: usize = 300;
/// How much the big parent holds, in bytes.
const BALLAST_BYTES: usize = 1024 * 1024 * 1024;
/// How often it takes that up and lets it go, and how many rounds there are each time.
const BALLASTS: usize = 15;
const BALLAST_ROUNDS: usize = 20;
/// How many commands run at once, and how many one after the other in each of these.
const WIDTHS: &[usize] = &[1, 2, 4];
const IN_A_ROW: usize = 10;
const PARALLEL_ROUNDS: usize = 15;
const CALL_ROUNDS: usize = 100;
/// How often a process with one command runs, how many directories earlier ones left behind, and how
/// many of these each process removes.
const FIRST_ROUNDS: usize = 60;
const LEFT_BEHIND: usize = 625;
const REMOVED_AT_ONCE: usize = 8;
/// The files of a small and of a big project.
const FILES: [usize; 2] = [10, 10_000];
const FILES_IN_A_DIRECTORY: usize = 100;
const CONTAINER_ROUNDS: usize = 60;
const IMAGE: &str = "MASSGEN_BENCH_IMAGE";

/// Something that is timed. The number says which of several at once it is.
type Timed<'a> = (String, Box<dyn Fn(usize) + Sync + 'a>);

/// Takes the figures and prints them.
pub(crate) fn measure() {
    let room = Room::new();
    let sandboxes: Vec<Sandbox> = ENFORCING_LEVELS
        .iter()
        .filter_map(|level| room.sandbox(*level))
        .collect();
    let contestants = all(&room, &sandboxes);
    one_at_a_time(&contestants);
    beside_a_big_parent(&contestants);
    several_at_once(&contestants);
    first_commands();
    whole_calls();
    in_a_container();
}

fn all<'a>(room: &'a Room, sandboxes: &'a [Sandbox]) -> Vec<Timed<'a>> {
    let mut contestants: Vec<Timed<'_>> = vec![("plain".to_owned(), Box::new(|_| room.plain()))];
    if has_bwrap() {
        contestants.push(("bwrap".to_owned(), Box::new(|_| room.bwrap())));
    }
    for sandbox in sandboxes {
        let level = sandbox.level();
        let interrupt = CommandInterrupt::new().unwrap();
        let widest = WIDTHS.iter().max().copied().unwrap_or(1);
        let policies: Vec<_> = (0..widest)
            .map(|number| room.policy(level, number))
            .collect();
        contestants.push((
            format!("level {level}"),
            Box::new(move |number| run(sandbox, &policies[number], &interrupt)),
        ));
    }
    contestants
}

/// Times everything in turns; the times of each, sorted.
fn in_turns(contestants: &[Timed<'_>], rounds: usize) -> Vec<Vec<Duration>> {
    let mut times = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for ((_, work), times) in contestants.iter().zip(&mut times) {
            let begun = Instant::now();
            work(0);
            times.push(begun.elapsed());
        }
    }
    for times in &mut times {
        times.sort();
    }
    times
}

fn median(times: &[Duration]) -> f64 {
    ms(times[times.len() / 2])
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The median of what `name` is timed under, by the medians of all.
fn of(contestants: &[Timed<'_>], medians: &[f64], name: &str) -> Option<f64> {
    let at = contestants.iter().position(|(other, _)| other == name)?;
    Some(medians[at])
}

fn ratio(one: f64, other: Option<f64>) -> String {
    other.map_or("-".to_owned(), |other| format!("{:.2} ×", one / other))
}

fn one_at_a_time(contestants: &[Timed<'_>]) {
    // The first ones find nothing in memory.
    in_turns(contestants, 5);
    let times = in_turns(contestants, ROUNDS);
    let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let (plain, bwrap) = (
        of(contestants, &medians, "plain"),
        of(contestants, &medians, "bwrap"),
    );
    println!("\n`true`, {ROUNDS} times in turns\n");
    println!("| where | median | fastest tenth | beside a plain process | beside `bwrap` |");
    println!("|---|---|---|---|---|");
    for (((name, _), times), median) in contestants.iter().zip(&times).zip(&medians) {
        println!(
            "| {name} | {median:.2} ms | {:.2} ms | {} | {} |",
            ms(times[times.len() / 10]),
            ratio(*median, plain),
            ratio(*median, bwrap)
        );
    }
}

fn beside_a_big_parent(contestants: &[Timed<'_>]) {
    let mut without = vec![Vec::new(); contestants.len()];
    let mut with = without.clone();
    let add = |to: &mut Vec<Vec<Duration>>| {
        for (to, times) in to.iter_mut().zip(in_turns(contestants, BALLAST_ROUNDS)) {
            to.extend(times);
        }
    };
    for _ in 0..BALLASTS {
        add(&mut without);
        let ballast = vec![1_u8; BALLAST_BYTES];
        add(&mut with);
        black_box(ballast);
    }
    println!("\n`true`, with 1 GiB in the memory of the parent and without, in turns\n");
    println!("| where | without | with | ratio |");
    println!("|---|---|---|---|");
    for ((name, _), (without, with)) in contestants.iter().zip(without.iter_mut().zip(&mut with)) {
        without.sort();
        with.sort();
        let (without, with) = (median(without), median(with));
        let ratio = ratio(with, Some(without));
        println!("| {name} | {without:.2} ms | {with:.2} ms | {ratio} |");
    }
}

fn several_at_once(contestants: &[Timed<'_>]) {
    let mut times = vec![vec![Vec::new(); WIDTHS.len()]; contestants.len()];
    for _ in 0..PARALLEL_ROUNDS {
        for ((_, work), times) in contestants.iter().zip(&mut times) {
            for (width, times) in WIDTHS.iter().zip(times) {
                let begun = Instant::now();
                thread::scope(|scope| {
                    for number in 0..*width {
                        scope.spawn(move || (0..IN_A_ROW).for_each(|_| work(number)));
                    }
                });
                times.push(begun.elapsed());
            }
        }
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("\n`true`, {WIDTHS:?} at once on {cores} cores, in commands a second\n");
    for ((name, _), times) in contestants.iter().zip(&mut times) {
        let rates = WIDTHS.iter().zip(times).map(|(width, times)| {
            times.sort();
            let rate = (width * IN_A_ROW) as f64 / median(times) * 1e3;
            format!(" {rate:.0} |")
        });
        println!("| {name} |{}", rates.collect::<String>());
    }
}

/// The first command of a process, in a temporary directory that is empty and in one in which earlier
/// calls left directories.
fn first_commands() {
    let room = Room::new();
    room.write_grants();
    for temporary in ["tmp", "left"] {
        fs::create_dir_all(room.path(temporary).as_path()).unwrap();
    }
    for number in 0..LEFT_BEHIND + FIRST_ROUNDS * REMOVED_AT_ONCE {
        let left = format!("left/.massgen_call_{number:08x}/caller/home");
        fs::create_dir_all(room.path(&left).as_path()).unwrap();
    }
    let sandbox: (&[&str], &[&str]) = (&["sandbox"], &["--", "true"]);
    let tool: (&[&str], &[&str]) = (
        &["tool", "execute_command"],
        &["--args", r#"{"command":"true"}"#],
    );
    let room = &room;
    let mut contestants: Vec<Timed<'_>> = Vec::new();
    if has_bwrap() {
        contestants.push(("bwrap".to_owned(), Box::new(|_| room.bwrap())));
    }
    for (name, words, temporary) in [
        ("`massgen sandbox`", sandbox, "tmp"),
        ("`massgen tool execute_command`", tool, "tmp"),
        (
            "`massgen sandbox`, others left directories",
            sandbox,
            "left",
        ),
    ] {
        let call = move |_| room.single_call(words, temporary);
        contestants.push((name.to_owned(), Box::new(call)));
    }
    // The first one checks the level, and those after it trust the record of that.
    in_turns(&contestants, 3);
    let times = in_turns(&contestants, FIRST_ROUNDS);
    let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let bwrap = of(&contestants, &medians, "bwrap");
    println!("\n`true` as the only command of a process, {FIRST_ROUNDS} times in turns\n");
    println!("| what | median | fastest tenth | beside `bwrap` |");
    println!("|---|---|---|---|");
    for (((name, _), times), median) in contestants.iter().zip(&times).zip(&medians) {
        println!(
            "| {name} | {median:.2} ms | {:.2} ms | {} |",
            ms(times[times.len() / 10]),
            ratio(*median, bwrap)
        );
    }
}

/// `execute_command` through the gate, where a command may write to a project.
fn whole_calls() {
    let rooms = FILES.map(|files| {
        let room = Room::new();
        for number in 0..files {
            let directory = format!("project/d{}", number / FILES_IN_A_DIRECTORY);
            let directory = room.path(&directory);
            fs::create_dir_all(directory.as_path()).unwrap();
            let file = directory.join(format!("f{number}"));
            fs::write(file.as_path(), [b'x'; 512]).unwrap();
        }
        room
    });
    let Some(gates) = rooms.iter().map(gate).collect::<Option<Vec<Gate>>>() else {
        println!("\nthis machine has no sandbox level `overlay`");
        return;
    };
    let mut contestants: Vec<Timed<'_>> = Vec::new();
    for (name, command) in [
        ("`true`", "true"),
        ("one file changed", "date +%N > ../project/d0/f0"),
        (
            "100 files made and removed",
            "cd ../project; if test -d new; then rm -r new; else mkdir new; \
             for n in $(seq 100); do echo x > new/$n; done; fi",
        ),
    ] {
        for (gate, files) in gates.iter().zip(FILES) {
            contestants.push((
                format!("{name}, {files} files"),
                Box::new(move |_| call(gate, command)),
            ));
        }
    }
    let times = in_turns(&contestants, CALL_ROUNDS);
    println!(
        "\n`execute_command` at level `overlay` with the commit, {CALL_ROUNDS} times in turns\n"
    );
    println!("| what, in a project of | median |");
    println!("|---|---|");
    for ((name, _), times) in contestants.iter().zip(&times) {
        println!("| {name} | {:.2} ms |", median(times));
    }
}

/// The gate of an agent with commands at level `overlay`.
fn gate(room: &Room) -> Option<Gate> {
    let sandbox = room.sandbox(SandboxLevel::Overlay)?;
    let commands = ExecEnvironment::new(ExecEnvironmentConfig {
        config: &CommandLineConfig::default(),
        backend: ExecBackend::Sandbox(sandbox),
        executable: &AbsPath::new(env!("CARGO_BIN_EXE_massgen")).unwrap(),
        directories: AgentDirectories::prepare(&room.path("state")).unwrap(),
        env: &BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        config_env: BTreeMap::new(),
        home: None,
    });
    let policy = GatePolicy {
        commands: Some(commands),
        ..GatePolicy::minimal(RealPath::vouch(room.path("ws").as_path()))
    };
    Some(Gate::open(room.manager(), policy).unwrap())
}

fn call(gate: &Gate, command: &str) {
    let arguments = serde_json::json!({ "command": command }).to_string();
    let call = parse("execute_command", &arguments, &ToolCatalogue::default()).unwrap();
    let observation = exec::run(gate.check(call).unwrap());
    assert_eq!(
        observation.outcome,
        ActionOutcome::Done,
        "{}",
        observation.content
    );
}

fn in_a_container() {
    let Ok(image) = env::var(IMAGE) else {
        println!("\n`{IMAGE}` names no image: nothing is measured in a container");
        return;
    };
    let room = Room::new();
    let host = env::var("DOCKER_HOST").ok();
    let engine = ContainerEngine::open(host.as_deref()).unwrap();
    let (agent, workspace) = (AgentId::parse("bench").unwrap(), room.path("ws"));
    let owner = ContainerOwner {
        agent: &agent,
        origin: ContainerOrigin {
            run: RunName::new(0xbe7c),
            state: &room.path("state"),
            unique_directory: &workspace,
        },
        workspace: &workspace,
        limits: &ResourceLimits::default(),
        config_env: &BTreeMap::new(),
    };
    let config = DockerConfig {
        image,
        ..DockerConfig::default()
    };
    let user = HostUser {
        home: None,
        env: &BTreeMap::new(),
        variables: &ConfigVariables::default(),
    };
    let reachable = ReachablePaths {
        open: vec![AccessiblePath {
            path: workspace.clone(),
            permission: Permission::Write,
            scope: GrantScope::Tree,
        }],
        ..ReachablePaths::default()
    };
    let container = AgentContainer::open(
        &engine,
        owner,
        ContainerWork::Commands,
        &config,
        user,
        &reachable,
        None,
    )
    .unwrap();
    let interrupt = CommandInterrupt::new().unwrap();
    let ours = |_| {
        let finished = container.run("true", &workspace, wait(&interrupt));
        assert_eq!(finished.unwrap().exit_reason, ExitReason::Exited(0));
    };
    let theirs = |_| {
        let mut docker = Command::new("docker");
        docker.args(["exec", container.name(), "sh", "-c", "true"]);
        let output = docker.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let contestants: Vec<Timed<'_>> = vec![
        ("`docker exec`".to_owned(), Box::new(theirs)),
        ("`execute_command`".to_owned(), Box::new(ours)),
    ];
    in_turns(&contestants, 3);
    let times = in_turns(&contestants, CONTAINER_ROUNDS);
    let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    println!("\n`sh -c true` in a container, {CONTAINER_ROUNDS} times in turns\n");
    for ((name, _), median) in contestants.iter().zip(&medians) {
        let ratio = ratio(*median, medians.first().copied());
        println!("| {name} | {median:.2} ms | {ratio} |");
    }
}
