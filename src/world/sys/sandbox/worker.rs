//! Owns the process that becomes the program of tier C: it gives everything up, one thing after the
//! other, and is then replaced by the program. What it cannot give up, it says to the supervisor.
//! Without a sandbox it gives up nothing.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;

use landlock::ABI;
use rustix::process::{Signal, chdir, set_parent_process_death_signal, setsid};

use crate::confinement::Confinement;
use crate::confinement::network::Reach;
use crate::confinement::tier::Tier;
use crate::world::sys::sandbox::control::Order;
use crate::world::sys::sandbox::domain::{Domain, Ports};
use crate::world::sys::sandbox::filter;
use crate::world::sys::sandbox::link::Link;
use crate::world::sys::sandbox::narrow;
use crate::world::sys::sandbox::openings;
use crate::world::sys::sandbox::privileges;
use crate::world::sys::sandbox::program;
use crate::world::sys::sandbox::refusal::{Built, During};

/// Becomes the program, or says why not and returns.
pub(crate) fn run(link: &Link, order: Order) -> io::Result<()> {
    match become_program(link, order) {
        Ok(never) => match never {},
        Err(refusal) => link.say_refused(&refusal),
    }
}

fn become_program(link: &Link, order: Order) -> Built<Infallible> {
    let Order { confinement, input } = order;
    // The end of the supervisor is not told to processes that this one starts: it ends them itself.
    set_parent_process_death_signal(Some(Signal::KILL))
        .during("binding itself to the supervisor")?;
    // Its own group: a signal to the group of the program does not reach the supervisor.
    setsid().during("beginning a session")?;
    program::take_terminal(input.as_ref())?;
    program::yield_memory()?;
    let dir = &confinement.dir;
    chdir(dir.as_path()).during(format_args!("going to `{dir}`"))?;
    privileges::limit(confinement.tier, &confinement.limits)?;
    let mut command = program::command(&confinement, input)?;
    if confinement.tier != Tier::Off {
        wall_in(link, &confinement)?;
    }
    // Until here it had a handle to pass on.
    privileges::limit_open_files(&confinement.limits)?;
    Err(command.exec()).during(format_args!("starting `{}`", program::name(&confinement)))
}

/// Gives up what the program must not do.
fn wall_in(link: &Link, confinement: &Confinement) -> Built<()> {
    let abi = enter_domain(confinement)?;
    let mut rules = filter::everywhere();
    rules.extend(narrow::rules(confinement.reach, abi));
    let calls = filter::install_and_listen(&rules).during("filtering system calls")?;
    link.say_calls(calls.as_fd())
        .during("handing its calls over")
}

/// The only wall towards the disk: what is not opened here is closed.
fn enter_domain(confinement: &Confinement) -> Built<ABI> {
    let step = "confining itself with Landlock";
    let mut domain = Domain::closed(match confinement.reach {
        Reach::None => Ports::None,
        Reach::Host => Ports::All,
        Reach::Proxy { port } => Ports::Only(port),
    })
    .during(step)?;
    openings::open_all(confinement, &mut domain).during(step)?;
    let abi = domain.enter().during(step)?;
    if abi == ABI::Unsupported {
        return Err("the kernel does not offer it").during(step);
    }
    Ok(abi)
}
