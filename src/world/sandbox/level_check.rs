//! Owns the trial of a tier: a command is held to two directories and tries to get out of them. What
//! it may do is tried as well, so that a sandbox in which nothing works is not taken for a tight one.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::sandbox_policy::OverlayLayer;
use crate::sandbox_policy::compile::{CommandContext, WriteTarget, compile};
use crate::sandbox_policy::limits::ResourceLimits;
use crate::sandbox_policy::network::NetworkAccess;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::{CommandWaitLimits, ExitReason, Sandbox};
use crate::world::sys::state_files::dir::{
    self, DirectoryAudience, DirectoryCreation, StagingDirectory,
};
use crate::world::sys::state_files::file::{self, FileDurability};

/// How long the command of a trial may take; a machine under load takes its time.
const TIME_MAX: Duration = Duration::from_secs(20);
/// How much is kept of what it says, in bytes.
const OUTPUT_BYTES_MAX: usize = 4096;
/// The first of the exit statuses by which the command tells what went otherwise than it should.
const STATUS_FIRST: i32 = 100;

/// Something that is tried by a shell in the directory `inside`.
struct LevelCheckCase {
    what: &'static str,
    /// What a shell does without another program wherever that is possible: a process costs time.
    script: &'static str,
    /// The tiers in which it must work; in the others it must not.
    works_in: &'static [SandboxLevel],
    /// The tiers in which it is tried.
    tried_in: &'static [SandboxLevel],
}

const ALL: &[SandboxLevel] = &[SandboxLevel::A, SandboxLevel::B, SandboxLevel::C];
const NAMESPACES: &[SandboxLevel] = &[SandboxLevel::A, SandboxLevel::B];

const ATTEMPTS: &[LevelCheckCase] = &[
    check_case("writing inside", "echo x > new", ALL, ALL),
    check_case("reading inside", "read -r x < known", ALL, ALL),
    check_case("writing into its home", "echo x > \"$HOME/new\"", ALL, ALL),
    check_case(
        "reading the project",
        "read -r x < ../project/known",
        ALL,
        ALL,
    ),
    check_case(
        "writing into the project",
        "echo x > ../project/new",
        NAMESPACES,
        ALL,
    ),
    check_case(
        "writing to what is masked",
        "echo x > ../project/.git/new",
        &[],
        ALL,
    ),
    check_case("reading outside", "read -r x < ../outside/known", &[], ALL),
    check_case("reading through a link", "read -r x < link", &[], ALL),
    check_case("writing outside", "echo x > ../outside/new", &[], ALL),
    check_case("writing through a link", "echo x >> link", &[], ALL),
    check_case(
        "changing the rights of the project",
        "chmod 700 ../project/known",
        &[],
        &[SandboxLevel::C],
    ),
    check_case(
        "finding a route",
        "{ read -r x && read -r x; } < /proc/net/route",
        &[],
        NAMESPACES,
    ),
];

const fn check_case(
    what: &'static str,
    script: &'static str,
    works_in: &'static [SandboxLevel],
    tried_in: &'static [SandboxLevel],
) -> LevelCheckCase {
    LevelCheckCase {
        what,
        script,
        works_in,
        tried_in,
    }
}

/// What the tier of `sandbox` does otherwise than it should; `None` if it holds. The trial is done
/// in `place`, which is made if it is missing and then goes again.
///
/// # Errors
/// Nothing can be prepared in `place`.
pub(super) fn find_deviation(sandbox: &Sandbox, place: &AbsPath) -> Result<Option<String>> {
    if let Some(parent) = place.parent() {
        dir::create_all(&parent, DirectoryAudience::Umask)?;
    }
    let made = dir::create(place)?;
    let fault = run_check(sandbox, place);
    if made == DirectoryCreation::Created {
        dir::remove_empty(place);
    }
    fault
}

fn run_check(sandbox: &Sandbox, place: &AbsPath) -> Result<Option<String>> {
    let stage = StagingDirectory::new(&dir::resolve(place)?.to_abs())?;
    let room = LevelCheckDirectories::prepare(stage.path())?;
    let outcome = room.run(sandbox);
    let after = room.find_leak(sandbox.level());
    // The kernel leaves it closed, and then only whoever has all rights could remove it as a tree.
    dir::remove_empty(&room.layer.work.join("work"));
    Ok(outcome?.or(after))
}

/// The directories of a trial.
struct LevelCheckDirectories {
    at: AbsPath,
    layer: OverlayLayer,
}

impl LevelCheckDirectories {
    fn prepare(at: &AbsPath) -> Result<Self> {
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
            dir::create(&at.join(dir))?;
        }
        for known in ["inside/known", "outside/known", "project/known"] {
            file::replace(&at.join(known), b"x\n", FileDurability::Process)?;
        }
        file::replace_link(&at.join("inside/link"), Path::new("../outside/known"))?;
        Ok(Self {
            at: at.clone(),
            layer: OverlayLayer {
                root: at.join("project"),
                upper: at.join("upper"),
                work: at.join("work"),
            },
        })
    }

    /// Lets a command try everything, and says what went otherwise than it should.
    fn run(&self, sandbox: &Sandbox) -> Result<Option<String>> {
        let tier = sandbox.level();
        let grant = |name: &str, kind| -> Result<Grant> {
            let root = dir::resolve(&self.at.join(name))?;
            Ok(Grant::tree(root, kind, Permission::Write))
        };
        let grants = vec![
            grant("inside", GrantKind::Workspace)?,
            grant("project", GrantKind::Context)?,
        ];
        let manager = PathPermissionManager::new(grants, Phase::Final);
        let confinement = match compile(&manager, tier, self.command_context(tier)) {
            Ok(confinement) => confinement,
            Err(cannot) => return Err(Error::bug(cannot.to_string())),
        };
        let interrupt = CommandInterrupt::new();
        let interrupt = interrupt.map_err(|error| Error::io("cannot try a sandbox", error))?;
        let wait = CommandWaitLimits {
            time_max: TIME_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
            interrupt: &interrupt,
            network: None,
        };
        Ok(match sandbox.run(&confinement, wait) {
            Ok(finished) => reported_deviation(tier, &finished.ended),
            Err(error) => Some(format!("no process can be started in it: {error}")),
        })
    }

    fn command_context(&self, tier: SandboxLevel) -> CommandContext {
        let home = self.at.join("home");
        let env = [
            ("HOME", home.to_string()),
            ("PATH", "/usr/bin:/bin".to_owned()),
        ];
        let env = env
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let program = ["/bin/sh".to_owned(), "-c".to_owned(), check_script(tier)];
        CommandContext {
            dir: self.at.join("inside"),
            scratch: self.at.join("tmp"),
            toolchains: Vec::new(),
            env: env.collect::<BTreeMap<String, String>>(),
            limits: ResourceLimits {
                disk_free_bytes: 0,
                disk_free_files: 0,
                ..ResourceLimits::default()
            },
            reach: NetworkAccess::None,
            written: WriteTarget::Layers(vec![self.layer.clone()]),
            identities: BTreeMap::new(),
            masked: vec![self.at.join("project/.git")],
            hidden: Vec::new(),
            program: program.to_vec(),
            home,
        }
    }

    /// What came out of the sandbox and should not have, or the other way.
    fn find_leak(&self, tier: SandboxLevel) -> Option<String> {
        let is_there = |path: &str| file::kind(&self.at.join(path)).is_ok();
        let expected = [
            ("outside/new", false),
            ("inside/new", true),
            ("project/new", tier == SandboxLevel::B),
            ("upper/new", tier == SandboxLevel::A),
        ];
        let wrong = expected
            .iter()
            .find(|(path, expected)| is_there(path) != *expected);
        wrong.map(|(path, expected)| {
            let found = if *expected { "is missing" } else { "came out" };
            format!("`{path}` {found}")
        })
    }
}

/// Tries everything of the tier in order, and ends with the status of the first that went otherwise
/// than it should.
fn check_script(tier: SandboxLevel) -> String {
    let line = |(status, attempt): (i32, &LevelCheckCase)| {
        let LevelCheckCase { script, .. } = attempt;
        let on_wrong = if attempt.works_in.contains(&tier) {
            "||"
        } else {
            "&&"
        };
        format!("{{ {script}; }} 2>/dev/null {on_wrong} exit {status}\n")
    };
    let numbered = (STATUS_FIRST..).zip(ATTEMPTS);
    let tried = numbered.filter(|(_, attempt)| attempt.tried_in.contains(&tier));
    let lines: String = tried.map(line).collect();
    lines + "exit 0\n"
}

/// What the command told by its end.
fn reported_deviation(tier: SandboxLevel, ended: &ExitReason) -> Option<String> {
    let told = |status: i32| {
        let mut numbered = (STATUS_FIRST..).zip(ATTEMPTS);
        numbered.find(|(number, _)| *number == status)
    };
    match ended {
        ExitReason::Exited(0) => None,
        ExitReason::Refused { step, why } => Some(format!("{step}: {why}")),
        ExitReason::Exited(status) => Some(match told(*status) {
            Some((_, attempt)) if attempt.works_in.contains(&tier) => {
                format!("{} does not work", attempt.what)
            }
            Some((_, attempt)) => format!("{} is possible", attempt.what),
            None => format!("the trial ended with status {status}"),
        }),
        ExitReason::Signalled(_)
        | ExitReason::TimedOut
        | ExitReason::Interrupted
        | ExitReason::DiskFull(_) => Some(format!("the trial broke off: {ended}")),
    }
}
