//! Owns the process that builds a sandbox around one program (`massgen __sandbox`, or one that was
//! split off from a [`stem`]). What the program may do arrives as a value; the kernel is told so in
//! this order, and each step that fails ends all.
//!
//! 1. It parts with massgen: own session, no handle but the three of every process. One of a stem
//!    then stands by until there is an order.
//! 2. It splits. The outer half stays outside and waits ([`watch`]); the inner half begins in
//!    namespaces of its own ([`namespaces`]) and is the first process there ([`init`]).
//! 3. The inner half puts a root directory together ([`furnish`]) and enters it.
//! 4. It gives up all privileges ([`privileges`]), enters a Landlock domain ([`domain`]) and lets
//!    its system calls be filtered ([`filter`]).
//! 5. It starts the program. When that ends, the kernel ends all that is left in there.
//!
//! Tier C has no namespaces: there the outer half waits for a [`supervisor`], and that for a
//! [`worker`] which does step 4 on the machine as it is and is replaced by the program.

pub(crate) mod arguments;
pub(crate) mod bpf;
pub(crate) mod control;
pub(crate) mod domain;
pub(crate) mod caller;
pub(crate) mod connections;
pub(crate) mod descendants;
pub(crate) mod filter;
pub(crate) mod furnish;
pub(crate) mod granted;
pub(crate) mod init;
pub(crate) mod layers;
pub(crate) mod lending;
pub(crate) mod link;
pub(crate) mod metadata;
pub(crate) mod narrow;
pub(crate) mod notice;
pub(crate) mod openings;
pub(crate) mod program;
pub(crate) mod signals;
pub(crate) mod staged_world;
pub(crate) mod stem;
pub(crate) mod supervisor;
pub(crate) mod worker;
pub(crate) mod mounts;
pub(crate) mod namespaces;
pub(crate) mod system;
pub(crate) mod plan;
pub(crate) mod privileges;
pub(crate) mod raw;
pub(crate) mod refusal;
pub(crate) mod settings;
pub(crate) mod root;
pub(crate) mod watch;

use std::io::{self, stdin};
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit, setsid, umask,
};

use crate::confinement::tier::Tier;
use crate::world::sys::sandbox::control::{Control, Order};
use crate::world::sys::sandbox::filter::OfWalls;
use crate::world::sys::sandbox::furnish::identities;
use crate::world::sys::sandbox::init::Before;
use crate::world::sys::sandbox::namespaces::{Owner, enter};
use crate::world::sys::sandbox::privileges::CORE_BYTES;
use crate::world::sys::sandbox::raw::Half;
use crate::world::sys::sandbox::refusal::{Built, During, Refusal};
use crate::world::sys::sandbox::settings::Kept;
use crate::world::sys::sandbox::stem::Became;

/// The exit status of a helper that got no order, or could not tell how it went.
const NO_ORDER: u8 = 1;

/// What others may do with files that a program makes, if it says nothing else.
const OTHERS_READ: Mode = Mode::from_raw_mode(0o022);

/// The whole of a process that such helpers are split off from, and of each of them; its exit status
/// comes back.
pub(crate) fn stem() -> u8 {
    become_one(stem::stand)
}

/// The same in a staged world.
pub(crate) fn stage() -> u8 {
    become_one(stem::stand_on_stage)
}

/// What every sandbox needs and no order changes; a stem has it ready for all.
#[derive(Debug)]
pub(crate) struct Ready {
    /// What the machine's settings keep from others.
    pub(crate) kept: Kept,
    /// What holds system calls in tiers A and B.
    pub(crate) calls: OfWalls,
}

impl Ready {
    fn make() -> Self {
        Self {
            kept: Kept::look(),
            calls: OfWalls::prepare(),
        }
    }
}

fn become_one(stand: fn() -> io::Result<Became>) -> u8 {
    let ready = Ready::make();
    match stand() {
        Ok(Became::Helper) => status(&stand_by_and_obey(&ready)),
        Ok(Became::Nothing) => 0,
        Err(_) => NO_ORDER,
    }
}

/// The whole helper process; its exit status comes back.
pub(crate) fn helper() -> u8 {
    status(&part_with_massgen().and_then(|()| obey(&Ready::make())))
}

fn status(done: &io::Result<()>) -> u8 {
    match done {
        Ok(()) => 0,
        Err(_) => NO_ORDER,
    }
}

/// What can be done before there is an order is done by then.
fn stand_by_and_obey(ready: &Ready) -> io::Result<()> {
    part_with_massgen()?;
    if stem::stand_by()? {
        obey(ready)
    } else {
        Ok(())
    }
}

fn obey(ready: &Ready) -> io::Result<()> {
    let control = Control::inherited()?;
    let order = control.order()?;
    let done = match order.confinement.tier {
        Tier::A | Tier::B => walled(&control, order, ready),
        Tier::C | Tier::Off => supervisor::run(&control, order),
        Tier::D => Err(Refusal {
            step: "choosing the tier".to_owned(),
            why: "in tier D no program is run".to_owned(),
        }),
    };
    match done {
        Ok(done) => done,
        Err(refusal) => control.report(&refusal.into()),
    }
}

/// Whatever happens to massgen or to its terminal, this process is none of it, and ends when the
/// thread that started it does.
fn part_with_massgen() -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    umask(OTHERS_READ);
    raw::close_from(3)?;
    let held = getrlimit(Resource::Core).maximum.unwrap_or(u64::MAX);
    let none = Some(held.min(CORE_BYTES));
    let none = Rlimit {
        current: none,
        maximum: none,
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// Leaves what the program writes to the program: whoever reads it sees its end when the program is
/// gone. Where that cannot be, it is seen when this process is gone too.
fn let_streams_go() {
    let Ok(nothing) = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let input = stdin();
    let streams = [input.as_fd(), nothing.as_fd(), nothing.as_fd()];
    raw::become_streams(streams).unwrap_or_default();
}

/// Tiers A and B: a root and namespaces of its own.
fn walled(control: &Control, order: Order, ready: &Ready) -> Built<io::Result<()>> {
    let before = Before {
        owner: Owner::of_this_process(),
        identities: identities(&order.confinement)?,
        ready,
    };
    let mut set_aside = Vec::new();
    for layer in &order.confinement.layers {
        let moved = layers::set_aside(layer);
        if moved.during(format_args!("preparing the layer on `{}`", layer.root))? {
            set_aside.push(layer.clone());
        }
    }
    let (reader, writer) = io::pipe().during("making a pipe")?;
    Ok(match enter(order.confinement.reach)? {
        Half::Outer { pid, handle } => {
            let_streams_go();
            drop(writer);
            for layer in &set_aside {
                // What stays is removed before the layer is used again.
                layers::remove_what_was_set_aside(layer).unwrap_or_default();
            }
            watch::until_gone(control, pid, &handle, reader)
        }
        Half::Inner => {
            drop(reader);
            init::run(control, order, &before, writer)
        }
    })
}
