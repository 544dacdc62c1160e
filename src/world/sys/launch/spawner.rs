//! The single thread that spawns sandbox helpers. The kernel kills a helper when the thread that
//! counts as its parent exits (`PR_SET_PDEATHSIG`), so that thread must live as long as massgen; a
//! pool thread may not. It also reaps the helpers whose work is done.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::path::AbsPath;
use crate::world::sys::cgroup::CommandCgroup;
use crate::world::sys::launch::fork_server::{ForkServer, HelperStreams};
use crate::world::sys::launch::overlay_request::OverlayRequest;
use crate::world::sys::launch::process::ChildProcess;

/// How long a helper may take to exit when its work is done, and how often that is checked.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The limit on open files that massgen sets for itself, if it may.
const OPEN_FILES_MAX: u64 = 65_536;

/// Starts sandbox helpers on a thread of its own. When the last clone is dropped, the thread kills
/// the helpers whose work is done and that have not exited, removes their groups, and exits.
#[derive(Clone, Debug)]
pub(crate) struct HelperSpawner(Arc<SharedSpawner>);

/// What all clones share.
#[derive(Debug)]
struct SharedSpawner {
    /// The sending end of the thread's requests.
    requests: Sender<SpawnerRequest>,
    /// For the helpers of an overlay namespace, the spawner whose thread the kernel takes for their
    /// parent.
    _keeps_parent_alive: Option<HelperSpawner>,
}

impl Drop for SharedSpawner {
    fn drop(&mut self) {
        let (reply, receiver) = channel();
        if self.requests.send(SpawnerRequest::KillAll(reply)).is_ok() {
            // A closed channel means that the thread has exited, and with it all that it knew of.
            receiver.recv().unwrap_or_default();
        }
    }
}

/// A request to the thread.
#[derive(Debug)]
enum SpawnerRequest {
    /// Starts a helper with these streams.
    Start(HelperStreams, Sender<io::Result<ChildProcess>>),
    /// Forks a fork server for an overlay namespace.
    ForkOverlayServer(Sender<io::Result<ForkServer>>),
    /// Forks the helper of the next start in advance.
    Prepare,
    /// Waits for the exit of this helper.
    Reap(ReapableProcess),
    /// Kills those that have not exited, and replies.
    KillAll(Sender<()>),
}

/// A helper whose work is done, and the control group of the processes that it has started.
#[derive(Debug)]
pub(crate) struct ReapableProcess {
    process: ChildProcess,
    /// When it is killed.
    deadline: Instant,
    /// Removed after its exit.
    _group: CommandCgroup,
}

impl ReapableProcess {
    /// Records what remains of a command that has ended.
    pub(crate) fn new(process: ChildProcess, group: CommandCgroup) -> Self {
        Self {
            process,
            deadline: Instant::now() + EXIT_WAIT_MAX,
            _group: group,
        }
    }

    /// Returns whether it has not exited yet. A helper that takes too long is killed.
    fn is_alive(&mut self) -> bool {
        let is_running = self.process.poll_exit().is_ok() && !self.process.has_ended();
        if is_running && self.deadline <= Instant::now() {
            self.process.kill_and_wait();
            return false;
        }
        is_running
    }
}

impl HelperSpawner {
    /// Starts the thread. `executable` is massgen itself.
    pub(crate) fn new(executable: &AbsPath) -> io::Result<Self> {
        raise_open_file_limit();
        let (requests, incoming) = channel();
        let executable = executable.clone();
        thread_builder().spawn(move || {
            let start = || ForkServer::start(&executable);
            // It starts while massgen prepares the first command. If it fails, the first request
            // that needs it starts it again and gets the error.
            run_spawner(&incoming, start().ok(), start);
        })?;
        Ok(Self::with_thread(requests, None))
    }

    /// Starts another thread, whose helpers live in an overlay namespace. That namespace ends with
    /// the last of the clones, or with its fork server, and is never recreated. The handles are
    /// those of [`ForkServer::enter_overlay`]: on the root, then on the directories of the
    /// overlays.
    pub(crate) fn in_overlay(&self, request: &OverlayRequest) -> io::Result<(Self, Vec<OwnedFd>)> {
        let (reply, receiver) = channel();
        let fork = SpawnerRequest::ForkOverlayServer(reply);
        self.0
            .requests
            .send(fork)
            .map_err(|_| spawner_gone_error())?;
        let mut server = receiver.recv().map_err(|_| spawner_gone_error())??;
        let handles = server.enter_overlay(request)?;
        let (requests, incoming) = channel();
        thread_builder().spawn(move || {
            run_spawner(&incoming, Some(server), || {
                Err(io::Error::other("the overlay is gone"))
            });
        })?;
        Ok((Self::with_thread(requests, Some(self.clone())), handles))
    }

    fn with_thread(requests: Sender<SpawnerRequest>, origin: Option<Self>) -> Self {
        Self(Arc::new(SharedSpawner {
            requests,
            _keeps_parent_alive: origin,
        }))
    }

    /// Starts a helper that builds a sandbox, with an empty environment.
    pub(crate) fn start(&self, streams: HelperStreams) -> io::Result<ChildProcess> {
        let (reply, receiver) = channel();
        let request = SpawnerRequest::Start(streams, reply);
        self.0
            .requests
            .send(request)
            .map_err(|_| spawner_gone_error())?;
        receiver.recv().map_err(|_| spawner_gone_error())?
    }

    /// Forks the helper of the next start in advance.
    pub(crate) fn prepare(&self) {
        // Without the thread, nothing is started any more.
        self.0
            .requests
            .send(SpawnerRequest::Prepare)
            .unwrap_or_default();
    }

    /// Leaves the wait for a helper's exit to the thread.
    pub(crate) fn reap_later(&self, helper: ReapableProcess) {
        if let Err(send_error) = self.0.requests.send(SpawnerRequest::Reap(helper))
            && let SpawnerRequest::Reap(mut helper) = send_error.0
        {
            helper.process.kill_and_wait();
        }
    }
}

/// Raises massgen's own limit on open files as far as possible. Helpers receive their streams over
/// a socket, and the kernel refuses to pass descriptors while the user has more of them in flight
/// than the sender's limit on open files: commands must not be able to reach that number.
fn raise_open_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let target_limit = limit.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
    if limit.current.is_some_and(|current| current < target_limit) {
        let new_limit = Rlimit {
            current: Some(target_limit),
            ..limit
        };
        // With the present limit, massgen works as long as no command attacks it.
        setrlimit(Resource::Nofile, new_limit).unwrap_or_default();
    }
}

fn thread_builder() -> thread::Builder {
    thread::Builder::new().name("spawner".to_owned())
}

fn spawner_gone_error() -> io::Error {
    io::Error::other("the thread that starts processes is gone")
}

/// Handles requests until no more can come.
fn run_spawner(
    requests: &Receiver<SpawnerRequest>,
    mut fork_server: Option<ForkServer>,
    start: impl Fn() -> io::Result<ForkServer>,
) {
    let mut helpers = Vec::new();
    while let Some(request) = next_request(requests, &mut helpers) {
        match request {
            SpawnerRequest::Start(streams, reply) => {
                let process = with_fork_server(&mut fork_server, &start, |fork_server| {
                    fork_server.fork_helper(&streams)
                });
                drop(streams);
                if let Err(send_error) = reply.send(process) {
                    abandon(send_error.0);
                }
            }
            SpawnerRequest::ForkOverlayServer(reply) => {
                let server =
                    with_fork_server(&mut fork_server, &start, ForkServer::fork_overlay_server);
                // If the receiver is gone, the fork server is killed on drop.
                reply.send(server).unwrap_or_default();
            }
            SpawnerRequest::Prepare => {
                let request_result = fork_server.as_mut().map(ForkServer::request_standby);
                // A dead fork server is detected when a helper is needed.
                request_result.unwrap_or(Ok(())).unwrap_or_default();
            }
            SpawnerRequest::Reap(helper) => helpers.push(helper),
            SpawnerRequest::KillAll(reply) => {
                for mut helper in helpers.drain(..) {
                    helper.process.kill_and_wait();
                }
                // The requester still waits for the reply.
                reply.send(()).unwrap_or_default();
            }
        }
    }
}

/// Returns the next request; `None` if there will be none. Meanwhile, checks which helpers have
/// exited.
fn next_request(
    requests: &Receiver<SpawnerRequest>,
    helpers: &mut Vec<ReapableProcess>,
) -> Option<SpawnerRequest> {
    loop {
        helpers.retain_mut(ReapableProcess::is_alive);
        if helpers.is_empty() {
            return requests.recv().ok();
        }
        match requests.recv_timeout(POLL_INTERVAL) {
            Ok(request) => return Some(request),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Forks something from the fork server. A fork server that does not exist, or was killed, is
/// restarted.
fn with_fork_server<T>(
    fork_server: &mut Option<ForkServer>,
    start: impl Fn() -> io::Result<ForkServer>,
    mut fork: impl FnMut(&mut ForkServer) -> io::Result<T>,
) -> io::Result<T> {
    if let Some(fork_server) = fork_server
        && let Ok(forked_process) = fork(fork_server)
    {
        return Ok(forked_process);
    }
    fork(fork_server.insert(start()?))
}

/// Kills a helper that no caller waits for.
fn abandon(process: io::Result<ChildProcess>) {
    if let Ok(mut process) = process {
        process.kill_and_wait();
    }
}
