//! Owns a program that answers on its standard input and output for as long as somebody asks. A
//! thread follows it to its end; the program ends when this goes.

use std::io::{self, pipe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fd::OwnedFd;

use crate::confinement::Confinement;
use crate::world::sandbox::disk_watch::DiskWatch;
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::output::Ring;
use crate::world::sandbox::proxy::Proxy;
use crate::world::sandbox::running::{Bounds, Running, Stream};
use crate::world::sandbox::{Ended, Sandbox, Streams};

/// How much is kept of what it writes on its standard error: the end, in bytes.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// How long its end may take to be known once it answers no more.
const END_TIME_MAX: Duration = Duration::from_secs(1);

/// Takes what a program writes on its standard error, piece by piece, and gives what of it may be told.
pub(in crate::world) type Log = Box<dyn FnMut(&[u8]) -> String + Send>;

/// A program that answers.
#[derive(Debug)]
pub(in crate::world) struct Answering {
    interrupt: Interrupt,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What is spoken over.
#[derive(Debug)]
pub(in crate::world) struct Pipes {
    /// What the program reads is written here.
    pub(in crate::world) input: OwnedFd,
    /// What the program answers is read here.
    pub(in crate::world) output: OwnedFd,
}

/// What the thread of a program tells.
#[derive(Debug)]
struct Shared {
    said: Mutex<Said>,
    has_ended: Condvar,
}

#[derive(Debug)]
struct Said {
    errors: Ring,
    ended: Option<Ended>,
}

impl Shared {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answering {
    /// Starts a program in a sandbox and waits until it runs.
    ///
    /// # Errors
    /// It could not be started, or its sandbox could not be built.
    pub(in crate::world) fn start(
        sandbox: &Sandbox,
        confinement: &Confinement,
        network: Option<Arc<Proxy>>,
        log: Log,
    ) -> io::Result<(Self, Pipes)> {
        let (stdin, input) = pipe()?;
        let (output, stdout) = pipe()?;
        let (errors, stderr) = pipe()?;
        let streams = Streams {
            stdin: Some(stdin.into()),
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        let running = sandbox.start(confinement, streams, network.as_deref())?;
        let shared = Arc::new(Shared {
            said: Mutex::new(Said {
                errors: Ring::new(KEPT_BYTES_MAX),
                ended: None,
            }),
            has_ended: Condvar::new(),
        });
        let interrupt = Interrupt::new()?;
        let following = Following {
            running,
            disk: DiskWatch::over(confinement),
            network,
            interrupt: interrupt.clone(),
            shared: Arc::clone(&shared),
            log,
        };
        let thread = thread::Builder::new().name("server".to_owned());
        let thread = thread.spawn(move || following.until_it_ends(errors))?;
        let started = Self {
            interrupt,
            shared,
            thread: Some(thread),
        };
        let pipes = Pipes {
            input: input.into(),
            output: output.into(),
        };
        Ok((started, pipes))
    }

    /// How it ended, if it has, and the last that it wrote on its standard error. It waits a moment
    /// for the end of one that answers no more.
    pub(in crate::world) fn last_words(&self) -> (Option<Ended>, String) {
        let said = self.shared.said();
        let has_not_ended = |said: &mut Said| said.ended.is_none();
        let ended = &self.shared.has_ended;
        let waited = ended.wait_timeout_while(said, END_TIME_MAX, has_not_ended);
        let (mut said, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let text = said.errors.part(0, KEPT_BYTES_MAX).text;
        (said.ended.clone(), text)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.interrupt.raise();
        if let Some(thread) = self.thread.take() {
            // A thread that broke off has dropped its program, which ends it.
            thread.join().unwrap_or_default();
        }
    }
}

/// What the thread of a program works with.
struct Following {
    running: Running,
    disk: DiskWatch,
    network: Option<Arc<Proxy>>,
    interrupt: Interrupt,
    shared: Arc<Shared>,
    log: Log,
}

impl Following {
    fn until_it_ends(mut self, errors: io::PipeReader) {
        let bounds = Bounds {
            interrupt: Some(&self.interrupt),
            disk: Some(&self.disk),
            ..Bounds::default()
        };
        let mut taken = |bytes: &[u8]| {
            let told = (self.log)(bytes);
            self.shared.said().errors.add(told.as_bytes());
        };
        let ended = self
            .running
            .conduct(&mut [Stream::new(errors, &mut taken)], &bounds);
        // It answers as long as the program goes on.
        drop(self.network);
        self.shared.said().ended = Some(ended.unwrap_or(Ended::Interrupted));
        self.shared.has_ended.notify_all();
    }
}
