//! Owns tier C from the outside: starts the program's process, answers the calls that the kernel
//! hands over, and sees to it that nothing is left when the program ends, or when massgen goes. It
//! stays outside the program's domain and filters, and has no capability.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, set_parent_process_death_signal, waitpid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};

use crate::confinement::report::Report;
use crate::path::AbsPath;
use crate::world::sys::sandbox::caller::Caller;
use crate::world::sys::sandbox::control::{Control, Order};
use crate::world::sys::sandbox::descendants::Descendants;
use crate::world::sys::sandbox::link::{Link, Said};
use crate::world::sys::sandbox::metadata;
use crate::world::sys::sandbox::notice::{Notice, Notices};
use crate::world::sys::sandbox::openings;
use crate::world::sys::sandbox::privileges;
use crate::world::sys::sandbox::raw::{self, Half};
use crate::world::sys::sandbox::refusal::{Built, During};
use crate::world::sys::sandbox::worker;

/// Runs the program in tier C to its end, and tells massgen how it goes.
pub(crate) fn run(control: &Control, order: Order) -> Built<io::Result<()>> {
    openings::check(&order.confinement).during("compiling the confinement")?;
    // The end of massgen is seen by its socket. To be killed would leave the others alone.
    set_parent_process_death_signal(None).during("outliving massgen")?;
    privileges::renounce()?;
    let descendants = Descendants::adopt().during("becoming the one that adopts")?;
    let writable = openings::writable(&order.confinement).cloned().collect();
    let (link, workers_link) = Link::pair().during("connecting to the program's process")?;
    match raw::split(0).during("splitting off the program's process")? {
        Half::Inner => {
            drop(link);
            Ok(worker::run(&workers_link, order))
        }
        Half::Outer { pid, handle } => {
            drop(workers_link);
            let mut watch = Watch {
                control,
                link: Some(link),
                worker: pid,
                worker_handle: handle,
                writable,
            };
            let ended = watch.until_the_end();
            descendants.end();
            Ok(control.report(&ended.unwrap_or_else(Report::from)))
        }
    }
}

/// What the supervisor waits for.
struct Watch<'a> {
    control: &'a Control,
    /// Until the program runs.
    link: Option<Link>,
    worker: Pid,
    worker_handle: OwnedFd,
    writable: Vec<AbsPath>,
}

/// What came first.
enum Happened {
    /// The program's process has something to say.
    Said,
    /// The program's process has ended.
    Ended,
    /// Massgen does not want it any more, or is gone.
    Unwanted,
}

impl Watch<'_> {
    fn until_the_end(&mut self) -> Built<Report> {
        loop {
            match self.next().during("waiting for the program")? {
                Happened::Said => self.listen()?,
                Happened::Ended => return self.ended().during("waiting for the program"),
                Happened::Unwanted => {
                    return Ok(Report::Ended {
                        code: None,
                        signal: Some(libc::SIGKILL),
                    });
                }
            }
        }
    }

    fn next(&self) -> io::Result<Happened> {
        let wanted = PollFlags::IN;
        let mut handles = vec![
            PollFd::new(self.control, wanted),
            PollFd::new(&self.worker_handle, wanted),
        ];
        handles.extend(self.link.as_ref().map(|link| PollFd::new(link, wanted)));
        loop {
            match poll(&mut handles, None) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let has_news = |index: usize| {
            let handle = handles.get(index);
            handle.is_some_and(|handle| !handle.revents().is_empty())
        };
        // After the order massgen says nothing more: this is the end of it.
        Ok(if has_news(0) {
            Happened::Unwanted
        } else if has_news(2) {
            Happened::Said
        } else {
            Happened::Ended
        })
    }

    /// Takes what the program's process says until its program replaces it.
    fn listen(&mut self) -> Built<()> {
        let Some(link) = &self.link else {
            return Ok(());
        };
        match link.hear().during("listening to the program's process")? {
            Said::Calls(listener) => self.answer_calls(listener),
            Said::Refused(refusal) => Err(refusal),
            Said::Gone => {
                self.link = None;
                // Whoever does not hear it has gone, and that is seen next.
                self.control.report(&Report::Started).unwrap_or_default();
                Ok(())
            }
        }
    }

    /// Answers calls from now on, in a thread of its own: what they do to a slow disk must not keep
    /// the end from being seen.
    fn answer_calls(&self, listener: OwnedFd) -> Built<()> {
        let notices = Notices::new(listener);
        let writable = self.writable.clone();
        let thread = thread::Builder::new().name("answers".to_owned());
        let started = thread.spawn(move || answer_all(&notices, &writable));
        started.map(drop).during("starting the thread for answers")
    }

    fn ended(&self) -> io::Result<Report> {
        let status = waitpid(Some(self.worker), WaitOptions::empty())?;
        let status = status.map(|(_, status)| status);
        Ok(Report::Ended {
            code: status.and_then(WaitStatus::exit_status),
            signal: status.and_then(WaitStatus::terminating_signal),
        })
    }
}

/// Answers calls as long as there are any. When it returns, every later call fails.
fn answer_all(notices: &Notices, writable: &[AbsPath]) {
    while let Ok(Some(notice)) = notices.next() {
        if let Err(error) = answer(notices, &notice, writable) {
            notices.answer(&notice, Err(error));
        }
    }
}

fn answer(notices: &Notices, notice: &Notice, writable: &[AbsPath]) -> Result<(), Errno> {
    let caller = Caller::new(notice.caller)?;
    // What was opened is of the caller only if it still waits.
    notices.still_waits(notice)?;
    if notice.call == libc::SYS_ioctl {
        return open_terminal(notices, notice, &caller);
    }
    let prepared = metadata::prepare(notice, &caller, writable)?;
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
