//! Owns the running of commands in an agent's container: each is ended inside it when its time is
//! out, with all that it has started, and commands beside it go on.

use std::io;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use bollard::errors::Error as EngineError;
use bollard::query_parameters::StartContainerOptions;
use tokio::time::{Instant, timeout};

use crate::path::AbsPath;
use crate::world::clock::Stopwatch;
use crate::world::docker::client::{broken_off, is_missing};
use crate::world::docker::command::{Call, Mark, Patience, Running, Stopped, Written, is_stopped};
use crate::world::docker::container::{Container, Held};
use crate::world::docker::instance::REMOVED;
use crate::world::docker::mounts::Reachable;
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::output::HeadAndTail;
use crate::world::sandbox::{Ended, Finished, Wait};

/// Longer than any run.
const FOREVER: Duration = Duration::from_hours(24 * 365);
/// What an engine writes in the place of a command's output if it cannot start it.
const NEVER_RAN: &str = "OCI runtime exec failed";
/// How long an engine may take to start a command.
const START_TIME_MAX: Duration = Duration::from_mins(1);
/// What a command that never ran ends with.
const NEVER_RAN_STATUS: [i32; 2] = [126, 127];

/// The commands that run in a container.
#[derive(Debug, Default)]
pub(super) struct Live {
    last: u64,
    running: Vec<(Mark, Weak<()>)>,
}

/// A command that runs as long as this is there.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) mark: Mark,
    _alive: Arc<()>,
}

impl Live {
    /// Counts a command in.
    pub(super) fn begin(&mut self) -> Begun {
        self.running.retain(|(_, alive)| alive.strong_count() > 0);
        self.last = self.last.saturating_add(1);
        let alive = Arc::new(());
        let mark = Mark::new(self.last);
        self.running.push((mark.clone(), Arc::downgrade(&alive)));
        Begun {
            mark,
            _alive: alive,
        }
    }

    /// The commands that run besides one.
    fn besides(&self, ending: &Mark) -> Vec<Mark> {
        let running = self.running.iter();
        let others = running.filter(|(mark, alive)| mark != ending && alive.strong_count() > 0);
        others.map(|(mark, _)| mark.clone()).collect()
    }
}

/// What is kept of what a command writes.
pub(super) struct Kept {
    stdout: HeadAndTail,
    stderr: HeadAndTail,
}

impl Kept {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            stdout: HeadAndTail::new(bytes_max),
            stderr: HeadAndTail::new(bytes_max),
        }
    }

    fn take(&mut self, written: &Written<'_>) {
        match written {
            Written::Out(bytes) => self.stdout.add(bytes),
            Written::Errors(bytes) => self.stderr.add(bytes),
        }
    }

    pub(super) fn finish(self, ended: Ended, elapsed: Duration) -> Finished {
        let stdout = self.stdout.finish();
        let never_ran = matches!(&ended, Ended::Exited(code) if NEVER_RAN_STATUS.contains(code))
            && stdout.text.starts_with(NEVER_RAN);
        let ended = if never_ran {
            Ended::Refused {
                step: "start the command in its container".to_owned(),
                why: stdout.text.trim().to_owned(),
            }
        } else {
            ended
        };
        Finished {
            ended,
            stdout,
            stderr: self.stderr.finish(),
            elapsed,
            notes: Vec::new(),
        }
    }
}

/// What a call is waited for with.
pub(super) struct Bounds<'a> {
    pub(super) time_max: Duration,
    pub(super) interrupt: Option<&'a Interrupt>,
}

impl Container {
    /// Runs a command of the agent's that begins in `dir`, and waits for its end. It blocks, and must
    /// not be called by part of an event loop.
    pub fn run(&self, command: &str, dir: &AbsPath, wait: Wait<'_>) -> io::Result<Finished> {
        let watch = Stopwatch::start();
        let held = self.hold();
        let failed = self.install_dependencies(&held);
        let begun = self.begin();
        let call = Call {
            dir: Some(dir.clone()),
            ..self.call()
        };
        let call = call.command(command, &begun.mark);
        let bounds = Bounds {
            time_max: wait.time_max,
            interrupt: Some(wait.interrupt),
        };
        let mut kept = Kept::new(wait.output_bytes_max);
        let ended = self.execute(&held, (call, &begun), &bounds, &mut kept);
        let ended = self.end_left(&held, &begun.mark).and(ended);
        let ended = self.answered(held, ended)?;
        let mut finished = kept.finish(ended, watch.elapsed());
        if !failed.is_empty() {
            finished.stderr.text.insert_str(0, &failed);
        }
        Ok(finished)
    }

    /// Runs a command of the agent's that begins in a directory, beside others, until it ends or is
    /// interrupted, and hands on what it writes on both streams. It reaches this and no more. It
    /// blocks, and must not be called by part of an event loop.
    pub fn follow(
        &self,
        (command, dir): (&str, &AbsPath),
        reachable: &Reachable,
        interrupt: &Interrupt,
        taken: &mut (dyn FnMut(&[u8]) + Send),
    ) -> io::Result<Ended> {
        let begun = self.begin();
        let call = Call {
            dir: Some(dir.clone()),
            ..self.call()
        };
        let call = call.command(command, &begun.mark);
        let held = self.hold_showing(reachable).map_err(io::Error::other)?;
        let disks = held.disks(self);
        let mut running = match self.start(&held, call) {
            Ok(running) => running,
            Err(error) => return self.answered(held, Err(error)),
        };
        // It may go on when the container is made anew, and ends by that.
        drop(held);
        let mut listen = |patience: Patience<'_>| {
            let listening = running.listen(&patience, |written| match written {
                Written::Out(bytes) | Written::Errors(bytes) => taken(bytes),
            });
            self.engine.wait(listening).map_err(broken_off)
        };
        let stopped = listen(Patience {
            until: Instant::now() + FOREVER,
            interrupt: Some(interrupt),
            disks: Some(&disks),
        })?;
        if let Some(ended) = stopped.cut_off() {
            self.sweep(&self.hold(), &begun.mark);
            listen(Patience::at_the_end())?;
            let left = self.end_left(&self.hold(), &begun.mark);
            return left.map(|()| ended).map_err(broken_off);
        }
        let left = self.end_left(&self.hold(), &begun.mark);
        left.map_err(broken_off)?;
        match self.engine.wait(running.status(&self.engine.client)) {
            // The container was made anew, or is closed.
            Err(error) if is_missing(&error) => Ok(Ended::Interrupted),
            ended => ended.map_err(broken_off),
        }
    }

    /// Ends what a command has left behind where it may write to more than the workspace, so that
    /// nothing goes on there while others look at what it did. As long as another command runs there,
    /// which somebody looks at later, only what cannot hide among its processes is ended.
    fn end_left(&self, held: &Held<'_>, ending: &Mark) -> Result<(), EngineError> {
        if !held.writes_beyond(&self.workspace) {
            return Ok(());
        }
        // No command begins meanwhile.
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.besides(ending).is_empty() {
            return self.end_all(held);
        }
        drop(live);
        self.sweep(held, ending);
        Ok(())
    }

    /// Counts a command in.
    pub(super) fn begin(&self) -> Begun {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.begin()
    }

    /// Runs a call to its end. If it does not end by itself, all that it has started is ended inside
    /// the container; if that does not help, the container is started anew.
    pub(super) fn execute(
        &self,
        held: &Held<'_>,
        (call, begun): (Call, &Begun),
        bounds: &Bounds<'_>,
        kept: &mut Kept,
    ) -> Result<Ended, EngineError> {
        let until = Instant::now() + bounds.time_max;
        let mut running = self.start(held, call)?;
        let disks = held.disks(self);
        let mut listen = |patience: Patience<'_>| {
            let listening = running.listen(&patience, |written| kept.take(&written));
            self.engine.wait(listening)
        };
        let stopped = listen(Patience {
            until,
            interrupt: bounds.interrupt,
            disks: Some(&disks),
        })?;
        if let Some(ended) = stopped.cut_off() {
            self.sweep(held, &begun.mark);
            if listen(Patience::at_the_end())? != Stopped::AtItsEnd {
                self.restart(held)?;
                listen(Patience::at_the_end())?;
            }
            return Ok(ended);
        }
        self.engine.wait(running.status(&self.engine.client))
    }

    /// What came of a call. If somebody has removed the container, there is another afterwards.
    fn answered(&self, held: Held<'_>, ended: Result<Ended, EngineError>) -> io::Result<Ended> {
        match ended {
            Err(error) if is_missing(&error) && held.is_open() => {
                drop(held);
                self.make_again().map_err(io::Error::other)?;
                Err(io::Error::other(REMOVED))
            }
            ended => ended.map_err(broken_off),
        }
    }

    /// Starts a call; a container that was ended from outside, or by its own memory limit, is started
    /// again first.
    pub(super) fn start(&self, held: &Held<'_>, call: Call) -> Result<Running, EngineError> {
        let client = &self.engine.client;
        let started = async {
            match Running::start(client, held.id(), call.clone()).await {
                Err(error) if is_stopped(&error) => {
                    let start = client
                        .api
                        .start_container(held.id(), None::<StartContainerOptions>);
                    start.await?;
                    Running::start(client, held.id(), call).await
                }
                started => started,
            }
        };
        let started = self
            .engine
            .wait(async { timeout(START_TIME_MAX, started).await });
        started.unwrap_or(Err(EngineError::RequestTimeoutError))
    }

    /// Ends everything in the container that belongs to no command besides the one that ends.
    pub(super) fn sweep(&self, held: &Held<'_>, ending: &Mark) {
        // No command begins meanwhile: it would not be known yet.
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = live.besides(ending);
        let own = self.engine.client.user();
        let root = self.has_root().then_some((0, 0));
        for user in [own].into_iter().chain(root) {
            let Ok(mut sweep) = self.start(held, Call::sweep(user, &kept)) else {
                continue;
            };
            // Whether it has helped shows in the command's own end.
            let patience = Patience::at_the_end();
            drop(self.engine.wait(sweep.listen(&patience, |_| ())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_run_are_known_until_they_end() {
        let mut live = Live::default();
        let first = live.begin();
        let second = live.begin();
        assert_eq!(
            live.besides(&first.mark),
            std::slice::from_ref(&second.mark)
        );
        drop(second);
        assert_eq!(live.besides(&first.mark), []);
    }
}
