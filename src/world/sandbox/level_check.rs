//! Tests a sandbox level: a command that is restricted to two directories tries to get out of them.
//! What it may do is tested as well, so that a sandbox in which nothing works does not pass as
//! secure.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::sandbox_policy::NetworkAccess;
use crate::sandbox_policy::OverlayLayer;
use crate::sandbox_policy::ResourceLimits;
use crate::sandbox_policy::compile::{CommandContext, WriteTarget, compile};
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sandbox::{CommandWaitLimits, ExitReason, Sandbox};
use crate::world::sys::state_files::dir::{
    self, DirectoryAudience, DirectoryCreation, StagingDirectory,
};
use crate::world::sys::state_files::file;

/// Timeout of the test command, long enough for a machine under load.
const CHECK_TIME_MAX: Duration = Duration::from_secs(20);
/// Limit on the output that is kept, in bytes.
const OUTPUT_BYTES_MAX: usize = 4096;
/// First of the exit statuses by which the command reports which test case failed.
const STATUS_FIRST: i32 = 100;

/// Test case that a shell runs in the directory `inside`.
struct LevelCheckCase {
    action: &'static str,
    /// Uses only shell built-ins wherever possible, because a process costs time.
    script: &'static str,
    /// The levels in which it must succeed; in the others it must fail.
    allowed_levels: &'static [SandboxLevel],
    /// The levels in which it is run.
    tested_levels: &'static [SandboxLevel],
}

const ALL_LEVELS: &[SandboxLevel] = &[
    SandboxLevel::Overlay,
    SandboxLevel::Namespaces,
    SandboxLevel::Landlock,
];
const NAMESPACE_LEVELS: &[SandboxLevel] = &[SandboxLevel::Overlay, SandboxLevel::Namespaces];

const CASES: &[LevelCheckCase] = &[
    check_case("writing inside", "echo x > new", ALL_LEVELS, ALL_LEVELS),
    check_case(
        "reading inside",
        "read -r x < known",
        ALL_LEVELS,
        ALL_LEVELS,
    ),
    check_case(
        "writing into its home",
        "echo x > \"$HOME/new\"",
        ALL_LEVELS,
        ALL_LEVELS,
    ),
    check_case(
        "reading the project",
        "read -r x < ../project/known",
        ALL_LEVELS,
        ALL_LEVELS,
    ),
    check_case(
        "writing into the project",
        "echo x > ../project/new",
        NAMESPACE_LEVELS,
        ALL_LEVELS,
    ),
    check_case(
        "writing to what is masked",
        "echo x > ../project/.git/new",
        &[],
        ALL_LEVELS,
    ),
    check_case(
        "reading outside",
        "read -r x < ../outside/known",
        &[],
        ALL_LEVELS,
    ),
    check_case(
        "reading through a link",
        "read -r x < link",
        &[],
        ALL_LEVELS,
    ),
    check_case(
        "writing outside",
        "echo x > ../outside/new",
        &[],
        ALL_LEVELS,
    ),
    check_case("writing through a link", "echo x >> link", &[], ALL_LEVELS),
    check_case(
        "changing the rights of the project",
        "chmod 700 ../project/known",
        &[],
        &[SandboxLevel::Landlock],
    ),
    check_case(
        "finding a route",
        "{ read -r x && read -r x; } < /proc/net/route",
        &[],
        NAMESPACE_LEVELS,
    ),
];

const fn check_case(
    action: &'static str,
    script: &'static str,
    allowed_levels: &'static [SandboxLevel],
    tested_levels: &'static [SandboxLevel],
) -> LevelCheckCase {
    LevelCheckCase {
        action,
        script,
        allowed_levels,
        tested_levels,
    }
}

/// Returns how the level of `sandbox` deviates from what it must enforce; `None` if it does not.
/// The test runs in `directory`, which is created if it is missing and then removed again.
///
/// # Errors
/// The directories of the test cannot be prepared in `directory`.
pub(super) fn find_deviation(sandbox: &Sandbox, directory: &AbsPath) -> Result<Option<String>> {
    if let Some(parent) = directory.parent() {
        dir::create_all(&parent, DirectoryAudience::Umask)?;
    }
    let creation = dir::create(directory)?;
    let check_result = run_check(sandbox, directory);
    if creation == DirectoryCreation::Created {
        dir::remove_empty(directory);
    }
    check_result
}

fn run_check(sandbox: &Sandbox, directory: &AbsPath) -> Result<Option<String>> {
    let staging = StagingDirectory::new(&dir::resolve(directory)?.to_abs())?;
    let directories = LevelCheckDirectories::prepare(staging.path())?;
    let run_result = directories.run(sandbox);
    let file_deviation = directories.find_file_deviation(sandbox.level());
    // overlayfs creates `work/work` without permissions: only root could remove it with the tree.
    dir::remove_empty(&directories.layer.work.join("work"));
    Ok(run_result?.or(file_deviation))
}

/// The directories of a test.
struct LevelCheckDirectories {
    root: AbsPath,
    layer: OverlayLayer,
}

impl LevelCheckDirectories {
    fn prepare(root: &AbsPath) -> Result<Self> {
        let dirs = [
            "inside",
            "outside",
            "project",
            "project/.git",
            "upper",
            "work",
            "home",
            "tmp",
        ];
        for dir in dirs {
            dir::create(&root.join(dir))?;
        }
        for known_path in ["inside/known", "outside/known", "project/known"] {
            file::replace_unsynced(&root.join(known_path), b"x\n")?;
        }
        file::replace_link(&root.join("inside/link"), Path::new("../outside/known"))?;
        Ok(Self {
            root: root.clone(),
            layer: OverlayLayer {
                root: root.join("project"),
                upper: root.join("upper"),
                work: root.join("work"),
                between: None,
            },
        })
    }

    /// Runs all test cases in one command and returns what deviates.
    fn run(&self, sandbox: &Sandbox) -> Result<Option<String>> {
        let level = sandbox.level();
        let grant = |name: &str, kind| -> Result<Grant> {
            let root = dir::resolve(&self.root.join(name))?;
            Ok(Grant::tree(root, kind, Permission::Write))
        };
        let grants = vec![
            grant("inside", GrantKind::Workspace)?,
            grant("project", GrantKind::Context)?,
        ];
        let manager = PathPermissionManager::new(grants, Phase::Final);
        let policy = match compile(&manager, level, self.command_context(level)) {
            Ok(policy) => policy,
            Err(error) => return Err(Error::bug(error.to_string())),
        };
        let limits = CommandWaitLimits {
            time_max: CHECK_TIME_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
            interrupt: None,
            network: None,
        };
        Ok(match sandbox.run(&policy, limits) {
            Ok(output) => deviation_of(level, &output.exit_reason),
            Err(error) => Some(format!("cannot start a process in it: {error}")),
        })
    }

    fn command_context(&self, level: SandboxLevel) -> CommandContext {
        let home = self.root.join("home");
        let env = [
            ("HOME", home.to_string()),
            ("PATH", "/usr/bin:/bin".to_owned()),
        ];
        let env = env
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let program = ["/bin/sh".to_owned(), "-c".to_owned(), check_script(level)];
        CommandContext {
            dir: self.root.join("inside"),
            scratch: self.root.join("tmp"),
            toolchains: Vec::new(),
            env: env.collect::<BTreeMap<String, String>>(),
            limits: ResourceLimits {
                disk_free_bytes: 0,
                disk_free_files: 0,
                ..ResourceLimits::default()
            },
            network: NetworkAccess::None,
            write_target: WriteTarget::Layers(vec![self.layer.clone()]),
            identities: BTreeMap::new(),
            masked: vec![self.root.join("project/.git")],
            hidden: Vec::new(),
            program: program.to_vec(),
            home,
        }
    }

    /// Returns a file that exists outside the sandbox but must not, or that is missing but must
    /// exist.
    fn find_file_deviation(&self, level: SandboxLevel) -> Option<String> {
        let is_there = |path: &str| file::exists(&self.root.join(path)).ok();
        let expected = [
            ("outside/new", false),
            ("inside/new", true),
            // A level without an overlay writes to the path itself, or denies it.
            ("project/new", level == SandboxLevel::Namespaces),
            ("upper/new", level == SandboxLevel::Overlay),
        ];
        let wrong_path = expected
            .iter()
            .find(|(path, expected)| is_there(path) != Some(*expected));
        wrong_path.map(|(path, expected)| {
            let state = if *expected { "is missing" } else { "came out" };
            format!("`{path}` {state}")
        })
    }
}

/// Builds the script that runs all cases of the level in order, and exits with the status of the
/// first that fails.
fn check_script(level: SandboxLevel) -> String {
    let line = |(status, case): (i32, &LevelCheckCase)| {
        let LevelCheckCase { script, .. } = case;
        let operator = if case.allowed_levels.contains(&level) {
            "||"
        } else {
            "&&"
        };
        format!("{{ {script}; }} 2>/dev/null {operator} exit {status}\n")
    };
    let numbered_cases = (STATUS_FIRST..).zip(CASES);
    let tested_cases = numbered_cases.filter(|(_, case)| case.tested_levels.contains(&level));
    let lines: String = tested_cases.map(line).collect();
    lines + "exit 0\n"
}

/// Returns the deviation that the exit of the command reports.
fn deviation_of(level: SandboxLevel, exit_reason: &ExitReason) -> Option<String> {
    let case_of = |status: i32| {
        let mut numbered_cases = (STATUS_FIRST..).zip(CASES);
        numbered_cases.find(|(number, _)| *number == status)
    };
    match exit_reason {
        ExitReason::Exited(0) => None,
        ExitReason::Refused { step, reason } => Some(format!("{step}: {reason}")),
        ExitReason::Exited(status) => Some(match case_of(*status) {
            Some((_, case)) if case.allowed_levels.contains(&level) => {
                format!("{} does not work", case.action)
            }
            Some((_, case)) => format!("{} is possible", case.action),
            None => format!("the test ended with status {status}"),
        }),
        ExitReason::Signalled(_)
        | ExitReason::TimedOut
        | ExitReason::Interrupted
        | ExitReason::DiskFull(_) => Some(format!("the test failed: {exit_reason}")),
    }
}
