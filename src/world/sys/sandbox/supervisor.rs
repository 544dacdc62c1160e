//! Owns tier C from the outside: starts the program's process, answers the calls that the kernel
//! hands over, and sees to it that nothing is left when the program ends, or when massgen goes. It
//! stays outside the program's domain and filters, and has no capability. Without a sandbox it sees
//! to the end alone, and gives nothing up. Should it be killed itself, its parent ends what is left.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, pidfd_send_signal, set_parent_process_death_signal, wait, waitpid,
};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};

use crate::confinement::network::Reach;
use crate::confinement::report::Report;
use crate::confinement::tier::Tier;
use crate::path::AbsPath;
use crate::world::sys::sandbox::caller::Caller;
use crate::world::sys::sandbox::connections;
use crate::world::sys::sandbox::control::{Control, Order};
use crate::world::sys::sandbox::descendants::{Descendants, none_is_left};
use crate::world::sys::sandbox::let_streams_go;
use crate::world::sys::sandbox::link::{Link, Said};
use crate::world::sys::sandbox::metadata;
use crate::world::sys::sandbox::notice::{Notice, Notices};
use crate::world::sys::sandbox::openings;
use crate::world::sys::sandbox::privileges;
use crate::world::sys::sandbox::raw::{self, Half};
use crate::world::sys::sandbox::refusal::{Built, During};
use crate::world::sys::sandbox::signals;
use crate::world::sys::sandbox::worker;

/// Runs the program in tier C, or without a sandbox, to its end, and tells massgen how it goes.
pub(crate) fn run(control: &Control, order: Order) -> Built<io::Result<()>> {
    // The end of massgen is seen by its socket. To be killed would leave the others alone.
    set_parent_process_death_signal(None).during("outliving massgen")?;
    let tier = order.confinement.tier;
    if tier != Tier::Off {
        openings::check(&order.confinement).during("compiling the confinement")?;
        privileges::renounce()?;
    }
    let left_alone = adopt(tier)?;
    match raw::split(0).during("splitting off the supervisor")? {
        Half::Inner => supervise(control, order),
        Half::Outer { pid, .. } => {
            drop(order);
            let_streams_go();
            let ended = waitpid(Some(pid), WaitOptions::empty());
            left_alone.end();
            Ok(ended.map(drop).map_err(io::Error::from))
        }
    }
}

/// Becomes the one that adopts whoever loses its parent from now on.
fn adopt(tier: Tier) -> Built<Descendants> {
    let adopted = match tier {
        Tier::Off => Descendants::adopt(),
        Tier::A | Tier::B | Tier::C | Tier::D => Descendants::adopt_and_keep_in(),
    };
    adopted.during("becoming the one that adopts")
}

fn supervise(control: &Control, order: Order) -> Built<io::Result<()>> {
    let descendants = adopt(order.confinement.tier)?;
    let writable = openings::writable(&order.confinement).cloned().collect();
    let (link, workers_link) = Link::pair().during("connecting to the program's process")?;
    match raw::split(0).during("splitting off the program's process")? {
        Half::Inner => {
            drop(link);
            Ok(worker::run(&workers_link, order))
        }
        Half::Outer { pid, handle } => {
            drop(workers_link);
            let_streams_go();
            let port = match order.confinement.reach {
                Reach::Proxy { port } => Some(port),
                Reach::None | Reach::Host => None,
            };
            let program = Program {
                control,
                pid,
                handle,
                descendants,
                open: Open { writable, port },
            };
            let ended = program.attend(&link);
            if ended.is_ok() && !none_is_left() {
                control.report(&Report::LeftBehind).unwrap_or_default();
            }
            descendants.end();
            Ok(control.report(&ended.unwrap_or_else(Report::from)))
        }
    }
}

fn in_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Built<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    let started = thread.spawn(work).map(drop);
    started.during("starting a thread")
}

/// The program's process, seen from outside.
struct Program<'a> {
    control: &'a Control,
    pid: Pid,
    handle: OwnedFd,
    descendants: Descendants,
    open: Open,
}

/// What is open to the program of what it has to ask for.
#[derive(Clone)]
struct Open {
    /// The trees that it may change.
    writable: Vec<AbsPath>,
    /// The port of massgen's proxy, if it reaches nothing else of the network.
    port: Option<u16>,
}

impl Program<'_> {
    /// Stays with it to its end.
    fn attend(&self, link: &Link) -> Built<Report> {
        let mut notices = None;
        loop {
            self.await_word(link);
            match link.hear().during("listening to the program's process")? {
                Said::Calls(listener) => notices = Some(Notices::new(listener)),
                Said::Refused(refusal) => return Err(refusal),
                Said::Gone => break,
            }
        }
        self.watch(notices)?;
        // If massgen does not hear it, it has gone, and that is seen.
        self.control.report(&Report::Started).unwrap_or_default();
        self.ended().during("waiting for the program")
    }

    /// Waits until its process says something; should massgen go meanwhile, that is its end.
    fn await_word(&self, link: &Link) {
        if let [true, false] = until_any([self.control.as_fd(), link.as_fd()]) {
            pidfd_send_signal(&self.handle, Signal::KILL).unwrap_or_default();
        }
    }

    /// Watches massgen from now on, and answers the program's calls from the first of them on, in
    /// threads: what such a call does to a slow disk must not keep the end from being seen.
    fn watch(&self, notices: Option<Notices>) -> Built<()> {
        let massgen = self.control.try_clone().during("watching massgen")?;
        let program = self.handle.try_clone().during("watching the program")?;
        let (descendants, open) = (self.descendants, self.open.clone());
        in_thread("massgen", move || {
            if let Some(notices) = notices
                && let [false, _] = until_any([massgen.as_fd(), notices.as_fd()])
                && !notices.is_forsaken()
            {
                // Where there is no thread, its calls fail.
                in_thread("answers", move || answer_all(&notices, &open)).unwrap_or_default();
            }
            until_any([massgen.as_fd()]);
            pidfd_send_signal(&program, Signal::KILL).unwrap_or_default();
            descendants.kill_if_kept_in();
        })
    }

    /// Waits for its end, and buries those that were adopted meanwhile.
    fn ended(&self) -> io::Result<Report> {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == self.pid => {
                    return Ok(Report::Ended {
                        code: status.exit_status(),
                        signal: status.terminating_signal(),
                    });
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Waits until one of these has something to be read, or its other end was closed; which of them have.
/// After the order there is nothing more that massgen could say.
fn until_any<const N: usize>(watched: [BorrowedFd<'_>; N]) -> [bool; N] {
    let events = PollFlags::IN | PollFlags::RDHUP;
    let mut watched = watched.map(|handle| PollFd::from_borrowed_fd(handle, events));
    while poll(&mut watched, None) == Err(Errno::INTR) {}
    watched.map(|watched| !watched.revents().is_empty())
}

/// Answers calls as long as there are any. When it returns, every later call fails.
fn answer_all(notices: &Notices, open: &Open) {
    while let Ok(Some(notice)) = notices.next() {
        if let Err(error) = answer(notices, &notice, open) {
            notices.answer(&notice, Err(error));
        }
    }
}

fn answer(notices: &Notices, notice: &Notice, open: &Open) -> Result<(), Errno> {
    let caller = Caller::new(notice.caller)?;
    // What was opened is of the caller only if it still waits.
    notices.still_waits(notice)?;
    match notice.call {
        libc::SYS_ioctl => return open_terminal(notices, notice, &caller),
        libc::SYS_connect => {
            let connection = connections::prepare(notice, &caller, open.port)?;
            notices.still_waits(notice)?;
            connection.open()?;
            notices.answer(notice, Ok(()));
            return Ok(());
        }
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill => {
            signals::send(notice, &caller)?;
            notices.answer(notice, Ok(()));
            return Ok(());
        }
        _ => {}
    }
    let prepared = metadata::prepare(notice, &caller, &open.writable)?;
    notices.still_waits(notice)?;
    prepared.carry_out()?;
    notices.answer(notice, Ok(()));
    Ok(())
}

/// Opens the other end of a pseudo terminal that the caller made.
fn open_terminal(notices: &Notices, notice: &Notice, caller: &Caller) -> Result<(), Errno> {
    let terminal = caller.copy_of_handle(notice.number(0))?;
    notices.still_waits(notice)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let peer = ioctl_tiocgptpeer(terminal, flags)?;
    let flags = notice.half(2) & OpenptFlags::CLOEXEC.bits();
    notices.answer_with(notice, peer.as_fd(), flags)
}
