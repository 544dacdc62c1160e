//! Owns a program that answers on its standard input and output for as long as somebody asks. A
//! thread follows it to its end; the program ends when this goes.

use std::io::{self, pipe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

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

/// Takes what a program writes on its standard error, piece by piece.
pub(in crate::world) type Log = Box<dyn FnMut(&[u8]) + Send>;

/// A program that answers.
#[derive(Debug)]
pub(in crate::world) struct Answering {
    interrupt: Interrupt,
    shared: Arc<Mutex<Shared>>,
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

#[derive(Debug)]
struct Shared {
    errors: Ring,
    ended: Option<Ended>,
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
        let shared = Arc::new(Mutex::new(Shared {
            errors: Ring::new(KEPT_BYTES_MAX),
            ended: None,
        }));
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
        let thread = thread.spawn(move || following.to_the_end(errors))?;
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

    /// How it ended, if it has, and the last that it wrote on its standard error.
    pub(in crate::world) fn last_words(&self) -> (Option<Ended>, String) {
        let mut shared = lock(&self.shared);
        let text = shared.errors.part(0, KEPT_BYTES_MAX).text;
        (shared.ended.clone(), text)
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
    shared: Arc<Mutex<Shared>>,
    log: Log,
}

impl Following {
    fn to_the_end(mut self, errors: io::PipeReader) {
        let bounds = Bounds {
            interrupt: Some(&self.interrupt),
            disk: Some(&self.disk),
            ..Bounds::default()
        };
        let mut taken = |bytes: &[u8]| {
            lock(&self.shared).errors.add(bytes);
            (self.log)(bytes);
        };
        let ended = self
            .running
            .conduct(&mut [Stream::new(errors, &mut taken)], &bounds);
        // It answers as long as the program goes on.
        drop(self.network);
        lock(&self.shared).ended = Some(ended.unwrap_or(Ended::Interrupted));
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
