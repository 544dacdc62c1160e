//! Owns the running of permitted programs. One is held to a directory of its own and nothing else; all
//! that it does to files is done by the calls that it makes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::confinement::Confinement;
use crate::confinement::compile::compile;
use crate::confinement::network::Reach;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::programs::dialect::{Dialect, Libraries};
use crate::programs::offer;
use crate::programs::package::{Parents, Roots, SourceFile, files};
use crate::tools::menu::Commands as OfferedCommands;
use crate::tools::spec::ToolOffer;
use crate::world::commands::{Order, Place};
use crate::world::exec::Observation;
use crate::world::exec::answer::{Answer, Stop};
use crate::world::exec::calls::{Calls, Made};
use crate::world::exec::ended::{summary, told};
use crate::world::gate::Gate;
use crate::world::policy::ParentNames;
use crate::world::programs::Programs;
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::{Ended, Finished, Wait};
use crate::world::sys::own::clear;
use crate::world::sys::own::dir::{self, Audience};
use crate::world::sys::own::file::{self, Durability};

/// How long the first program, which does nothing, may take: a compiler with an empty cache compiles
/// what it came with.
const TRIAL_TIME_MAX: Duration = Duration::from_mins(3);
/// How much is kept of what the first program writes, in bytes.
const TRIAL_OUTPUT_BYTES_MAX: usize = 4 * 1024;

/// How a Go program is built and becomes the process: the directories of the package and of the
/// program.
const BUILD_AND_RUN: &str =
    r#"cd "$1" && go build -o "$2/.program" . && cd "$2" && exec ./.program"#;

/// Variables of the Go toolchain: it looks at nothing of the user's and starts no other compiler.
const GO_VARIABLES: &[(&str, &str)] = &[
    ("CGO_ENABLED", "0"),
    ("GO111MODULE", "on"),
    ("GOENV", "off"),
    ("GOFLAGS", "-buildvcs=false"),
    ("GOTELEMETRY", "off"),
    ("GOWORK", "off"),
];

/// How an agent that works by programs is offered that now; `None` if it does not.
pub fn offers(gate: &Gate) -> Option<Vec<ToolOffer>> {
    let programs = gate.policy().programs.as_ref()?;
    Some(offer::offers(programs.dialect(), &callable(gate, programs)))
}

/// The tools that the programs of an agent may call, those of its servers among them.
fn callable(gate: &Gate, programs: &Programs) -> Vec<ToolOffer> {
    let commands = OfferedCommands::run_in(gate.commands());
    let mut tools = programs.tools(gate.manager(), commands);
    tools.extend(gate.catalogue().offers());
    tools
}

/// `execute_code`
pub(super) fn execute_code(
    gate: &Gate,
    program: &str,
    timeout_seconds: Option<u64>,
    interrupt: Option<&Interrupt>,
) -> Answer {
    let Some(programs) = &gate.policy().programs else {
        return Err(Stop::failed("no programs are run here"));
    };
    let tools = callable(gate, programs);
    let roots = roots(gate, programs);
    write(programs, program, &tools, &roots).map_err(|error| not_run(&error))?;
    let never = Interrupt::new().map_err(|error| not_run(&error))?;
    let held = programs.held();
    let wait = Wait {
        time_max: held.time_max(timeout_seconds),
        output_bytes_max: held.output_bytes_max(),
        interrupt: interrupt.unwrap_or(&never),
        network: None,
    };
    let ended = CancellationToken::new();
    let calls = Calls::new(gate.for_calls_within(ended.clone()), tools);
    let finished = run_with(programs, (&calls, &ended), wait).map_err(|error| not_run(&error))?;
    Ok(observation(&finished, calls.made()))
}

/// Runs a program that does nothing but import, so that it is known before any model is asked whether
/// programs can be run.
///
/// # Errors
/// Why they cannot.
pub fn try_language(programs: &Programs) -> Result<(), String> {
    let program = programs.dialect().trial();
    let written = write(programs, program, &[], &Roots::default());
    written.map_err(|error| error.to_string())?;
    let never = Interrupt::new().map_err(|error| error.to_string())?;
    let wait = Wait {
        time_max: TRIAL_TIME_MAX,
        output_bytes_max: TRIAL_OUTPUT_BYTES_MAX,
        interrupt: &never,
        network: None,
    };
    let (_ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let finished = run(programs, theirs.into(), wait).map_err(|error| error.to_string())?;
    match finished.ended {
        Ended::Exited(0) => Ok(()),
        Ended::Exited(_)
        | Ended::Signalled(_)
        | Ended::OutOfTime
        | Ended::Interrupted
        | Ended::DiskFull(_)
        | Ended::Refused { .. } => Err(summary(&finished)),
    }
}

/// The directories as the gate sees them now.
fn roots(gate: &Gate, programs: &Programs) -> Roots {
    let allowed = |wanted| {
        let grants = gate.manager().grants().iter();
        let open = grants.filter(|grant| gate.allows(&grant.root, wanted));
        open.map(|grant| grant.root.to_string()).collect()
    };
    Roots {
        base: gate.policy().base.to_string(),
        read: allowed(Permission::Read),
        write: allowed(Permission::Write),
        parents: match gate.policy().parents {
            ParentNames::Followed => Parents::Taken,
            ParentNames::Refused => Parents::Refused,
        },
        checks: programs.layers().package,
    }
}

/// Writes a program with its package; a file that is the same stays. What the program before has left
/// goes.
fn write(
    programs: &Programs,
    program: &str,
    tools: &[ToolOffer],
    roots: &Roots,
) -> crate::error::Result<()> {
    let room = programs.held().room();
    clear::remove(&room.program())?;
    dir::create_all(&room.program(), Audience::User)?;
    for SourceFile { path, content } in files(programs.dialect().language(), program, tools, roots)
    {
        let path = room.package().join(path);
        if let Some(parent) = path.parent() {
            dir::create_all(&parent, Audience::User)?;
        }
        let bytes_max = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let there = file::read_regular_capped(&path, bytes_max).ok().flatten();
        if there.as_deref() != Some(content.as_bytes()) {
            file::replace(&path, content.as_bytes(), Durability::Process)?;
        }
    }
    Ok(())
}

/// Runs the program that is written, and answers its calls until it has ended.
fn run_with(
    programs: &Programs,
    (calls, ended): (&Calls, &CancellationToken),
    wait: Wait<'_>,
) -> io::Result<Finished> {
    let (ours, theirs) = UnixStream::pair()?;
    let over = Interrupt::new()?;
    thread::scope(|scope| {
        let (line, ends) = (&ours, &over);
        let serving = move || calls.serve(line, ends);
        let server = thread::Builder::new().name("calls".to_owned());
        let server = server.spawn_scoped(scope, serving)?;
        let finished = run(programs, theirs.into(), wait);
        // Calls that are under way end with their program.
        over.raise();
        ended.cancel();
        let closed = ours.shutdown(std::net::Shutdown::Both);
        drop(closed);
        if server.join().is_err() {
            return Err(io::Error::other("the thread that answers calls broke off"));
        }
        finished
    })
}

/// Runs the program that is written, with `line` as its standard input.
fn run(programs: &Programs, line: OwnedFd, wait: Wait<'_>) -> io::Result<Finished> {
    let confinement = confinement(programs)?;
    match programs.held().place() {
        Place::Sandbox(sandbox) => sandbox.run_fed(&confinement, Some(line), wait),
        Place::Container(_) => Err(io::Error::other("programs do not run in containers")),
    }
}

/// What a program may do: write where it begins, and read what it is made of.
fn confinement(programs: &Programs) -> io::Result<Confinement> {
    let held = programs.held();
    let room = held.room();
    let opened = [
        (room.program(), Permission::Write),
        (room.package(), Permission::Read),
    ];
    let mut grants = Vec::new();
    for (path, permission) in &opened {
        let real = dir::follow(path).map_err(io::Error::other)?;
        grants.push(Grant::tree(real, GrantKind::Workspace, *permission));
    }
    let manager = PathPermissionManager::new(grants, Phase::Coordination);
    let package = room.package();
    let words: Vec<String> = match programs.dialect() {
        Dialect::Python(libraries) => {
            // What is installed beside the language is found where it is asked for.
            let alone = Some("-S").filter(|_| libraries == Libraries::Standard);
            let run = package.join("run.py").to_string();
            let words = ["python3", "-I", "-B", "-X", "utf8"].into_iter();
            let words = words.chain(alone).chain([run.as_str()]);
            words.map(str::to_owned).collect()
        }
        Dialect::Go => {
            let (package, program) = (package.to_string(), room.program().to_string());
            let words = ["bash", "-c", BUILD_AND_RUN, "go", &package, &program];
            words.map(str::to_owned).to_vec()
        }
    };
    let order = Order {
        program: words,
        dir: room.program(),
        venv: None,
    };
    let mut facts = held.facts(order, Reach::None);
    if programs.dialect() == Dialect::Go {
        let variables = GO_VARIABLES.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        facts.env.extend(variables);
    }
    compile(&manager, held.tier(), facts).map_err(io::Error::other)
}

fn not_run(why: &dyn std::fmt::Display) -> Stop {
    Stop::failed(format!("the program was not run: {why}"))
}

fn observation(finished: &Finished, made: Made) -> Observation {
    let calls = ("calls", made.told().into());
    let summary = format!("{}; {}", made.summary(), summary(finished));
    Observation {
        changes: made.changes,
        denied: made.denied,
        summary: Some(summary),
        ..told(finished, [calls], made.notes)
    }
}
