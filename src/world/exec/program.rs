//! Runs permitted programs. A program is confined to a private directory; everything that it does
//! to files elsewhere goes through the tool calls that it makes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::code_mode::language::{ProgramDialect, PythonLibraries};
use crate::code_mode::offer;
use crate::code_mode::package::{PackageRoots, ParentPaths, SourceFile, files};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::sandbox_policy::NetworkAccess;
use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::compile::compile;
use crate::tools::served::ToolCaller;
use crate::tools::spec::ToolOffer;
use crate::world::access::gate::Gate;
use crate::world::access::policy::ParentDirPolicy;
use crate::world::exec::process_report::{process_observation, summary};
use crate::world::exec::tool_call_server::{CallSummary, ToolCallServer};
use crate::world::exec::tool_result::{Observation, ToolError, ToolResult};
use crate::world::sandbox::exec_environment::CommandSpec;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::program_environment::ProgramEnvironment;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits};
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::{clear, file};

/// The timeout of the probe program, which only imports: a compiler with an empty cache first
/// compiles its standard library.
const PROBE_TIME_MAX: Duration = Duration::from_mins(3);
/// The most output of the probe program that is kept, in bytes.
const PROBE_OUTPUT_BYTES_MAX: usize = 4 * 1024;

/// Builds a Go program, without the debug information that takes a quarter of the time, and
/// replaces the shell with it; the arguments are the directories of the package and of the program.
const BUILD_AND_RUN: &str =
    r#"cd "$1" && go build -ldflags=-w -o "$2/.program" . && cd "$2" && exec ./.program"#;

/// Environment of the Go toolchain: it reads nothing of the user's and starts no other compiler.
const GO_VARIABLES: &[(&str, &str)] = &[
    ("CGO_ENABLED", "0"),
    ("GO111MODULE", "on"),
    ("GOENV", "off"),
    ("GOFLAGS", "-buildvcs=false"),
    ("GOTELEMETRY", "off"),
    ("GOWORK", "off"),
];

/// Returns the tools that are currently offered to an agent that works by programs; `None` for
/// other agents.
pub fn tool_offers(gate: &Gate) -> Option<Vec<ToolOffer>> {
    let programs = gate.policy().programs.as_ref()?;
    Some(offer::offers(
        programs.dialect(),
        &callable_tools(gate, programs),
    ))
}

/// Returns the tools that an agent's programs may call, including those of its MCP servers that the
/// model does not call itself.
fn callable_tools(gate: &Gate, programs: &ProgramEnvironment) -> Vec<ToolOffer> {
    let mut tools = programs.tools(gate.manager(), gate.command_offering());
    tools.extend(gate.catalogue().offers_to(ToolCaller::Programs));
    tools
}

/// Implements `execute_code`.
pub(super) fn execute_code(
    gate: &Gate,
    program: &str,
    timeout_seconds: Option<u64>,
    interrupt: Option<&CommandInterrupt>,
) -> ToolResult {
    let Some(programs) = &gate.policy().programs else {
        return Err(ToolError::failed("no programs are run here"));
    };
    let tools = callable_tools(gate, programs);
    let roots = package_roots(gate, programs);
    write_program(programs, program, &tools, &roots).map_err(|error| run_error(&error))?;
    let environment = programs.environment();
    let wait = CommandWaitLimits {
        time_max: environment.time_max(timeout_seconds),
        output_bytes_max: environment.output_bytes_max(),
        interrupt,
        network: None,
    };
    let cancellation = CancellationToken::new();
    let calls = ToolCallServer::new(gate.for_calls_within(cancellation.clone()), tools);
    let output =
        run_and_serve(programs, &calls, &cancellation, wait).map_err(|error| run_error(&error))?;
    Ok(observation(&output, calls.into_summary()))
}

/// Runs a program that only imports, to find out before any model request whether programs can run.
///
/// # Errors
/// Programs cannot run; the string says why.
pub fn check_language(programs: &ProgramEnvironment) -> Result<(), String> {
    let program = programs.dialect().probe_program();
    let result = write_program(programs, program, &[], &PackageRoots::default());
    result.map_err(|error| error.to_string())?;
    let wait = CommandWaitLimits {
        time_max: PROBE_TIME_MAX,
        output_bytes_max: PROBE_OUTPUT_BYTES_MAX,
        interrupt: None,
        network: None,
    };
    let (_server_end, program_end) = UnixStream::pair().map_err(|error| error.to_string())?;
    let output = run(programs, program_end.into(), wait).map_err(|error| error.to_string())?;
    match output.exit_reason.exit_code() {
        Some(0) => Ok(()),
        Some(_) | None => Err(summary(&output)),
    }
}

/// Returns what the program's package knows about paths: the directories that the gate allows now,
/// and how paths are resolved.
fn package_roots(gate: &Gate, programs: &ProgramEnvironment) -> PackageRoots {
    let allowed_roots = |permission| {
        let grants = gate.manager().grants().iter();
        let open_grants = grants.filter(|grant| gate.allows(&grant.root, permission));
        open_grants.map(|grant| grant.root.to_string()).collect()
    };
    PackageRoots {
        base: gate.policy().base.to_string(),
        read: allowed_roots(Permission::Read),
        write: allowed_roots(Permission::Write),
        parents: match gate.policy().parent_dirs {
            ParentDirPolicy::Followed => ParentPaths::Allowed,
            ParentDirPolicy::Refused => ParentPaths::Refused,
        },
        checks: programs.safeguards().package,
    }
}

/// Writes a program with its package; files that are already the same stay. The previous program's
/// directory is removed.
fn write_program(
    programs: &ProgramEnvironment,
    program: &str,
    tools: &[ToolOffer],
    roots: &PackageRoots,
) -> crate::error::Result<()> {
    let directories = programs.environment().directories();
    clear::remove(&directories.program())?;
    dir::create_all(&directories.program(), DirectoryAudience::User)?;
    for SourceFile { path, content } in files(programs.dialect().language(), program, tools, roots)
    {
        let path = directories.package().join(path);
        if let Some(parent) = path.parent() {
            dir::create_all(&parent, DirectoryAudience::User)?;
        }
        let bytes_max = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let existing = file::read_regular_capped(&path, bytes_max).ok().flatten();
        if existing.as_deref() != Some(content.as_bytes()) {
            file::replace_unsynced(&path, content.as_bytes())?;
        }
    }
    Ok(())
}

/// Runs the written program and answers its calls until it has ended.
fn run_and_serve(
    programs: &ProgramEnvironment,
    calls: &ToolCallServer,
    cancellation: &CancellationToken,
    wait: CommandWaitLimits<'_>,
) -> io::Result<CommandOutput> {
    let (server_end, program_end) = UnixStream::pair()?;
    let end_signal = CommandInterrupt::new()?;
    thread::scope(|scope| {
        let (stream, end_signal_ref) = (&server_end, &end_signal);
        let serve = move || calls.serve(stream, end_signal_ref);
        let server = thread::Builder::new().name("calls".to_owned());
        let server = server.spawn_scoped(scope, serve)?;
        let output = run(programs, program_end.into(), wait);
        // Calls in progress end with their program.
        end_signal.raise();
        cancellation.cancel();
        // Ends the server's wait for calls; this fails only if the connection has ended already.
        let shutdown_result = server_end.shutdown(std::net::Shutdown::Both);
        drop(shutdown_result);
        if server.join().is_err() {
            return Err(io::Error::other(
                "the thread that answers calls has ended unexpectedly",
            ));
        }
        output
    })
}

/// Runs the written program with `input` as its standard input.
fn run(
    programs: &ProgramEnvironment,
    input: OwnedFd,
    wait: CommandWaitLimits<'_>,
) -> io::Result<CommandOutput> {
    let policy = policy(programs)?;
    let sandbox = programs
        .environment()
        .backend()
        .local_sandbox()
        .map_err(|reason| io::Error::other(format!("programs {reason}")))?;
    sandbox.run_with_input(&policy, Some(input), wait)
}

/// Returns the sandbox policy of a program: it may write to its working directory and read its
/// package.
fn policy(programs: &ProgramEnvironment) -> io::Result<SandboxPolicy> {
    let environment = programs.environment();
    let directories = environment.directories();
    let open_paths = [
        (directories.program(), Permission::Write),
        (directories.package(), Permission::Read),
    ];
    let mut grants = Vec::new();
    for (path, permission) in &open_paths {
        let real = dir::resolve(path).map_err(io::Error::other)?;
        grants.push(Grant::tree(real, GrantKind::Workspace, *permission));
    }
    let manager = PathPermissionManager::new(grants, Phase::Coordination);
    let package = directories.package();
    let command: Vec<String> = match programs.dialect() {
        ProgramDialect::Python(libraries) => {
            // Without third-party packages, their directories are not searched.
            let no_packages = Some("-S").filter(|_| libraries == PythonLibraries::Standard);
            let run_script = package.join("run.py").to_string();
            let command = ["python3", "-I", "-B", "-X", "utf8"]
                .into_iter()
                .chain(no_packages)
                .chain([run_script.as_str()]);
            command.map(str::to_owned).collect()
        }
        ProgramDialect::Go => {
            let (package, program) = (package.to_string(), directories.program().to_string());
            let command = ["bash", "-c", BUILD_AND_RUN, "go", &package, &program];
            command.map(str::to_owned).to_vec()
        }
    };
    let spec = CommandSpec {
        program: command,
        dir: directories.program(),
        venv: None,
    };
    let mut command_context = environment.command_context(spec, NetworkAccess::None);
    if programs.dialect() == ProgramDialect::Go {
        let variables = GO_VARIABLES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        command_context.env.extend(variables);
    }
    compile(&manager, environment.sandbox_level(), command_context).map_err(io::Error::other)
}

fn run_error(error: &dyn std::fmt::Display) -> ToolError {
    ToolError::failed(format!("the program was not run: {error}"))
}

fn observation(output: &CommandOutput, calls_made: CallSummary) -> Observation {
    let calls = ("calls", calls_made.call_lines().into());
    let summary = format!("{}; {}", calls_made.summary(), summary(output));
    Observation {
        changes: calls_made.changes,
        denials: calls_made.denials,
        summary: Some(summary),
        ..process_observation(output, [calls], calls_made.notes)
    }
}
