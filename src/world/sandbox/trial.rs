//! Owns the trial of a tier: a command is held to two directories and tries to get out of them. What
//! it may do is tried as well, so that a sandbox in which nothing works is not taken for a tight one.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::confinement::Layer;
use crate::confinement::compile::{Facts, Written, compile};
use crate::confinement::limits::Limits;
use crate::confinement::network::Reach;
use crate::confinement::tier::Tier;
use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::{Ended, Sandbox, Wait};
use crate::world::sys::own::dir::{self, Audience, Made, Stage};
use crate::world::sys::own::file::{self, Durability};

/// How long the command of a trial may take; a machine under load takes its time.
const TIME_MAX: Duration = Duration::from_secs(20);
/// How much is kept of what it says, in bytes.
const OUTPUT_BYTES_MAX: usize = 4096;
/// The first of the exit statuses by which the command tells what went otherwise than it should.
const STATUS_FIRST: i32 = 100;

/// Something that is tried by a shell in the directory `inside`.
struct Attempt {
    what: &'static str,
    /// What a shell does without another program wherever that is possible: a process costs time.
    script: &'static str,
    /// The tiers in which it must work; in the others it must not.
    works_in: &'static [Tier],
    /// The tiers in which it is tried.
    tried_in: &'static [Tier],
}

const ALL: &[Tier] = &[Tier::A, Tier::B, Tier::C];
const NAMESPACES: &[Tier] = &[Tier::A, Tier::B];

const ATTEMPTS: &[Attempt] = &[
    attempt("writing inside", "echo x > new", ALL, ALL),
    attempt("reading inside", "read -r x < known", ALL, ALL),
    attempt("writing into its home", "echo x > \"$HOME/new\"", ALL, ALL),
    attempt(
        "reading the project",
        "read -r x < ../project/known",
        ALL,
        ALL,
    ),
    attempt(
        "writing into the project",
        "echo x > ../project/new",
        NAMESPACES,
        ALL,
    ),
    attempt(
        "writing to what is masked",
        "echo x > ../project/.git/new",
        &[],
        ALL,
    ),
    attempt("reading outside", "read -r x < ../outside/known", &[], ALL),
    attempt("reading through a link", "read -r x < link", &[], ALL),
    attempt("writing outside", "echo x > ../outside/new", &[], ALL),
    attempt("writing through a link", "echo x >> link", &[], ALL),
    attempt(
        "changing the rights of the project",
        "chmod 700 ../project/known",
        &[],
        &[Tier::C],
    ),
    attempt(
        "finding a route",
        "{ read -r x && read -r x; } < /proc/net/route",
        &[],
        NAMESPACES,
    ),
];

const fn attempt(
    what: &'static str,
    script: &'static str,
    works_in: &'static [Tier],
    tried_in: &'static [Tier],
) -> Attempt {
    Attempt {
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
pub(super) fn fault(sandbox: &Sandbox, place: &AbsPath) -> Result<Option<String>> {
    if let Some(parent) = place.parent() {
        dir::create_all(&parent, Audience::Umask)?;
    }
    let made = dir::create(place)?;
    let fault = tried(sandbox, place);
    if made == Made::Now {
        dir::remove_empty(place);
    }
    fault
}

fn tried(sandbox: &Sandbox, place: &AbsPath) -> Result<Option<String>> {
    let stage = Stage::new(&dir::follow(place)?.to_abs())?;
    let room = Room::furnish(stage.path())?;
    let outcome = room.run(sandbox);
    let after = room.look(sandbox.tier());
    // The kernel leaves it closed, and then only whoever has all rights could remove it as a tree.
    dir::remove_empty(&room.layer.work.join("work"));
    Ok(outcome?.or(after))
}

/// The directories of a trial.
struct Room {
    at: AbsPath,
    layer: Layer,
}

impl Room {
    fn furnish(at: &AbsPath) -> Result<Self> {
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
            file::replace(&at.join(known), b"x\n", Durability::Process)?;
        }
        file::point_link(&at.join("inside/link"), Path::new("../outside/known"))?;
        Ok(Self {
            at: at.clone(),
            layer: Layer {
                root: at.join("project"),
                upper: at.join("upper"),
                work: at.join("work"),
            },
        })
    }

    /// Lets a command try everything, and says what went otherwise than it should.
    fn run(&self, sandbox: &Sandbox) -> Result<Option<String>> {
        let tier = sandbox.tier();
        let grant = |name: &str, kind| -> Result<Grant> {
            let root = dir::follow(&self.at.join(name))?;
            Ok(Grant::tree(root, kind, Permission::Write))
        };
        let grants = vec![
            grant("inside", GrantKind::Workspace)?,
            grant("project", GrantKind::Context)?,
        ];
        let manager = PathPermissionManager::new(grants, Phase::Final);
        let confinement = match compile(&manager, tier, self.facts(tier)) {
            Ok(confinement) => confinement,
            Err(cannot) => return Err(Error::bug(cannot.to_string())),
        };
        let interrupt = Interrupt::new();
        let interrupt = interrupt.map_err(|error| Error::io("cannot try a sandbox", error))?;
        let wait = Wait {
            time_max: TIME_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
            interrupt: &interrupt,
            network: None,
        };
        Ok(match sandbox.run(&confinement, wait) {
            Ok(finished) => deviation(tier, &finished.ended),
            Err(error) => Some(format!("no process can be started in it: {error}")),
        })
    }

    fn facts(&self, tier: Tier) -> Facts {
        let home = self.at.join("home");
        let env = [
            ("HOME", home.to_string()),
            ("PATH", "/usr/bin:/bin".to_owned()),
        ];
        let env = env
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let program = ["/bin/sh".to_owned(), "-c".to_owned(), script(tier)];
        Facts {
            dir: self.at.join("inside"),
            scratch: self.at.join("tmp"),
            toolchains: Vec::new(),
            env: env.collect::<BTreeMap<String, String>>(),
            limits: Limits {
                disk_free_bytes: 0,
                disk_free_files: 0,
                ..Limits::default()
            },
            reach: Reach::None,
            written: Written::ToLayers(vec![self.layer.clone()]),
            identities: BTreeMap::new(),
            masked: vec![self.at.join("project/.git")],
            hidden: Vec::new(),
            program: program.to_vec(),
            home,
        }
    }

    /// What came out of the sandbox and should not have, or the other way.
    fn look(&self, tier: Tier) -> Option<String> {
        let is_there = |path: &str| file::kind(&self.at.join(path)).is_ok();
        let expected = [
            ("outside/new", false),
            ("inside/new", true),
            ("project/new", tier == Tier::B),
            ("upper/new", tier == Tier::A),
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
fn script(tier: Tier) -> String {
    let line = |(status, attempt): (i32, &Attempt)| {
        let Attempt { script, .. } = attempt;
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
fn deviation(tier: Tier, ended: &Ended) -> Option<String> {
    let told = |status: i32| {
        let mut numbered = (STATUS_FIRST..).zip(ATTEMPTS);
        numbered.find(|(number, _)| *number == status)
    };
    match ended {
        Ended::Exited(0) => None,
        Ended::Refused { step, why } => Some(format!("{step}: {why}")),
        Ended::Exited(status) => Some(match told(*status) {
            Some((_, attempt)) if attempt.works_in.contains(&tier) => {
                format!("{} does not work", attempt.what)
            }
            Some((_, attempt)) => format!("{} is possible", attempt.what),
            None => format!("the trial ended with status {status}"),
        }),
        Ended::Signalled(_) | Ended::OutOfTime | Ended::Interrupted | Ended::DiskFull(_) => {
            Some(format!("the trial broke off: {ended}"))
        }
    }
}
