//! Owns the first process of a sandbox: it builds the sandbox around itself, starts the program in
//! it, and lives as long as the program. Its end is the end of all that runs in there.

use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, chdir, set_dumpable_behavior,
    set_parent_process_death_signal, setsid, wait,
};

use crate::confinement::Confinement;
use crate::confinement::report::Report;
use crate::permissions::grant::Permission;
use crate::world::sys::sandbox::Ready;
use crate::world::sys::sandbox::control::{Control, Order, framed};
use crate::world::sys::sandbox::descendants::none_is_left;
use crate::world::sys::sandbox::domain::{Domain, Ports, Rights};
use crate::world::sys::sandbox::furnish::{DEVICES, Identities, SHARED, furnished};
use crate::world::sys::sandbox::namespaces::{self, Owner};
use crate::world::sys::sandbox::plan::{Piece, pieces};
use crate::world::sys::sandbox::privileges;
use crate::world::sys::sandbox::program;
use crate::world::sys::sandbox::refusal::{Built, During};
use crate::world::sys::sandbox::root::{IsDirectory, is_directory};

/// What the outer half found out before the namespaces were there.
#[derive(Debug)]
pub(crate) struct Before<'a> {
    /// Whom the process belongs to.
    pub(crate) owner: Owner,
    /// What stands at each path that is opened.
    pub(crate) identities: Identities,
    /// What was found out before there was an order.
    pub(crate) ready: &'a Ready,
}

/// Builds the sandbox, runs the program in it to its end, and writes how it went to `outcome`.
pub(crate) fn run(
    control: &Control,
    order: Order,
    before: &Before<'_>,
    mut outcome: PipeWriter,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if is_alone(&outcome)? {
        return Ok(());
    }
    let report = match built(control, &order.confinement, before)
        .and_then(|()| started(&order.confinement, order.input))
    {
        Ok(program) => {
            // If massgen is gone, the outer half ends all this.
            control.report(&Report::Started).unwrap_or_default();
            ended(program)?
        }
        Err(refusal) => refusal.into(),
    };
    if !none_is_left() {
        outcome.write_all(&framed(&Report::LeftBehind)?)?;
    }
    outcome.write_all(&framed(&report)?)
}

/// Whether the outer half ended before it could be noticed.
fn is_alone(outcome: &PipeWriter) -> io::Result<bool> {
    let mut reader = [PollFd::from_borrowed_fd(
        outcome.as_fd(),
        PollFlags::empty(),
    )];
    poll(&mut reader, Some(&Timespec::default()))?;
    Ok(reader.iter().any(|reader| !reader.revents().is_empty()))
}

fn built(control: &Control, confinement: &Confinement, before: &Before<'_>) -> Built<()> {
    program::yield_memory()?;
    namespaces::settle(before.owner)?;
    namespaces::connect(confinement.reach, control)?;
    furnished(confinement, &before.identities, &before.ready.kept)?.enter()?;
    let dir = &confinement.dir;
    chdir(dir.as_path()).during(format_args!("going to `{dir}`"))?;
    privileges::limit(confinement.tier, &confinement.limits)?;
    privileges::limit_open_files(&confinement.limits)?;
    privileges::renounce()?;
    enter_domain(confinement)?;
    let filtered = before.ready.calls.install();
    filtered.during("filtering system calls")?;
    // What this process knows and holds is nothing for the program, which has the same user.
    let closed = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    closed.during("closing its own memory")
}

/// The second wall: what the root shows may be read, and what is writable may be written to.
fn enter_domain(confinement: &Confinement) -> Built<()> {
    let step = "confining itself with Landlock";
    let mut domain = Domain::closed(Ports::All).during(step)?;
    domain.open_tree(opened("/")?, Rights::Read).during(step)?;
    for path in SHARED {
        domain
            .open_tree(opened(path)?, Rights::Write)
            .during(step)?;
    }
    domain
        .open_tree(opened(DEVICES)?, Rights::Device)
        .during(step)?;
    for (path, piece) in pieces(confinement) {
        if let Piece::Open(Permission::Write) | Piece::Layer(_) = piece {
            let place = opened(path.as_path())?;
            match is_directory(&place).during(step)? {
                IsDirectory::Yes => domain.open_tree(place, Rights::Write),
                IsDirectory::No => domain.open_file(place, Rights::Write),
            }
            .during(step)?;
        }
    }
    domain.enter().map(drop).during(step)
}

fn opened(path: impl AsRef<Path>) -> Built<OwnedFd> {
    let path = path.as_ref();
    let place = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    place.during(format_args!("opening `{}`", path.display()))
}

fn started(confinement: &Confinement, input: Option<OwnedFd>) -> Built<Pid> {
    setsid().during("beginning a session")?;
    program::take_terminal(input.as_ref())?;
    let child = program::command(confinement, input)?.spawn();
    let child = child.during(format_args!("starting `{}`", program::name(confinement)))?;
    Ok(Pid::from_child(&child))
}

/// Waits for the program, and cleans up after whatever was left to this process.
fn ended(program: Pid) -> io::Result<Report> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                return Ok(Report::Ended {
                    code: status.exit_status(),
                    signal: status.terminating_signal(),
                });
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
