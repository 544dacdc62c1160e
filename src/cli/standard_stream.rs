//! A standard stream of the process. While signals can stop a command, another thread writes to it:
//! a reader who does not read keeps massgen waiting, but neither from a signal nor past the time
//! limit of a run.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::orchestrator::execution::ShutdownSignal;
use crate::world::io::clock::Stopwatch;

/// Time that a reader has for the next piece of the output when the run is to end.
const UNREAD_TIME_MAX: Duration = Duration::from_secs(2);
/// Interval at which a blocked write checks whether the run is to end.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Size of a piece, in bytes.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// Names a standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamName {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// What ends the wait for a reader, for all streams that share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteLimit(Arc<Mutex<Option<RunEndSignal>>>);

/// When a run is to end.
#[derive(Clone, Debug)]
pub(crate) struct RunEndSignal {
    stop: ShutdownSignal,
    time_limit: Option<(Stopwatch, Duration)>,
    /// Cancelled when the run has ended before its time limit, which then has no meaning any more.
    ended_in_time: CancellationToken,
}

/// A standard stream.
#[derive(Debug)]
pub(crate) struct StandardStream {
    name: StreamName,
    limit: WriteLimit,
    thread: Option<StreamThread>,
    is_abandoned: bool,
}

/// The thread that writes to a stream.
#[derive(Debug)]
struct StreamThread {
    pieces: SyncSender<Vec<u8>>,
    results: Receiver<io::Result<()>>,
}

impl WriteLimit {
    /// Sets when the run is to end; `None` if nothing is to end.
    pub(crate) fn set(&self, end: Option<RunEndSignal>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn get(&self) -> Option<RunEndSignal> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl RunEndSignal {
    /// Returns the end of a run that `stop` ends, or else `seconds_max` from now if it has a time
    /// limit.
    pub(crate) fn new(stop: &ShutdownSignal, seconds_max: Option<u64>) -> Self {
        let time_max = seconds_max.map(Duration::from_secs);
        Self {
            stop: stop.clone(),
            time_limit: time_max.map(|time_max| (Stopwatch::start(), time_max)),
            ended_in_time: CancellationToken::new(),
        }
    }

    /// Records that the run has ended.
    pub(crate) fn record_end(&self) {
        if !self.is_out_of_time() {
            self.ended_in_time.cancel();
        }
    }

    fn is_out_of_time(&self) -> bool {
        let is_reached = |(start, time_max): &(Stopwatch, Duration)| start.elapsed() >= *time_max;
        !self.ended_in_time.is_cancelled() && self.time_limit.as_ref().is_some_and(is_reached)
    }

    fn is_due(&self) -> bool {
        let ShutdownSignal { graceful, park, .. } = &self.stop;
        graceful.is_cancelled() || park.is_cancelled() || self.is_out_of_time()
    }
}

impl StandardStream {
    /// Creates the stream `name`.
    pub(crate) fn new(name: StreamName, limit: &WriteLimit) -> Self {
        Self {
            name,
            limit: limit.clone(),
            thread: None,
            is_abandoned: false,
        }
    }

    /// Writes a piece, and waits until it is written, or until `end` is due and the reader has not
    /// taken it in [`UNREAD_TIME_MAX`].
    fn write_piece(&mut self, piece: &[u8], end: &RunEndSignal) -> io::Result<()> {
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => StreamThread::start(self.name)?,
        };
        let lost = |_| io::Error::from(ErrorKind::BrokenPipe);
        thread.pieces.send(piece.to_vec()).map_err(lost)?;
        let mut since_due: Option<Stopwatch> = None;
        loop {
            match thread.results.recv_timeout(CHECK_INTERVAL) {
                Ok(result) => {
                    self.thread = Some(thread);
                    return result;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(ErrorKind::BrokenPipe.into()),
            }
            if end.is_due() {
                let waited = since_due.get_or_insert_with(Stopwatch::start).elapsed();
                if waited >= UNREAD_TIME_MAX || end.stop.immediate.is_cancelled() {
                    // The thread is left to the end of the process.
                    self.is_abandoned = true;
                    return Err(ErrorKind::BrokenPipe.into());
                }
            }
        }
    }
}

impl Write for StandardStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_abandoned {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let Some(end) = self.limit.get() else {
            return self.name.writer().write(bytes);
        };
        let piece = bytes.get(..PIECE_BYTES_MAX).unwrap_or(bytes);
        self.write_piece(piece, &end)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // What the thread has written is flushed.
        match self.limit.get() {
            Some(_) => Ok(()),
            None => self.name.writer().flush(),
        }
    }
}

impl StreamName {
    fn writer(self) -> Box<dyn Write> {
        match self {
            StreamName::Output => Box::new(io::stdout()),
            StreamName::Error => Box::new(io::stderr()),
        }
    }
}

impl StreamThread {
    fn start(name: StreamName) -> io::Result<Self> {
        let (pieces, received) = sync_channel::<Vec<u8>>(1);
        let (sender, results) = sync_channel(1);
        let builder = thread::Builder::new().name("output".to_owned());
        builder.spawn(move || {
            let mut writer = name.writer();
            for piece in received {
                let result = writer.write_all(&piece).and_then(|()| writer.flush());
                if sender.send(result).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { pieces, results })
    }
}
