//! Jobs as processes of this machine.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use async_trait::async_trait;
use tokio::task::JoinSet;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::batch_scheduler::{BatchScheduler, EndedJob};
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{open_process, start_worker, terminate};

/// The value of `--on` for this machine.
pub const LOCAL: &str = "local";

/// Starts each job as a process of this machine.
#[derive(Debug)]
pub struct LocalScheduler {
    executable: AbsPath,
    /// The arguments before the numbers of the cells.
    arguments: Vec<String>,
    dir: AbsPath,
    env: ProcessEnvironment,
    next_job: u64,
    jobs: BTreeMap<u64, LocalJob>,
    exits: JoinSet<(u64, io::Result<ExitStatus>)>,
}

/// A job that has been started.
#[derive(Debug)]
struct LocalJob {
    cells: Vec<u32>,
    /// A handle on the process, which never means another one with the same id.
    process: OwnedFd,
}

impl LocalScheduler {
    /// Creates a scheduler that starts `executable` in `dir` with `arguments`, the environment
    /// `env` and the numbers of the cells.
    pub fn new(
        executable: AbsPath,
        arguments: Vec<String>,
        dir: AbsPath,
        env: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            executable,
            arguments,
            dir,
            env: ProcessEnvironment::inherit_except(env, &[]),
            next_job: 0,
            jobs: BTreeMap::new(),
            exits: JoinSet::new(),
        }
    }

    fn start(&mut self, cells: Vec<u32>) -> io::Result<()> {
        let numbers: Vec<String> = cells.iter().map(ToString::to_string).collect();
        let arguments: Vec<&str> = self
            .arguments
            .iter()
            .chain(&numbers)
            .map(String::as_str)
            .collect();
        let mut child = start_worker(&self.executable, &arguments, &self.dir, &self.env)?;
        let id = child.id().ok_or(io::ErrorKind::NotFound)?;
        let process = match open_process(id) {
            Ok(process) => process,
            Err(error) => {
                // It would run on, uncounted and out of reach of `cancel`. Killing a child that is
                // not waited for yet can only fail if it has ended.
                child.start_kill().unwrap_or_default();
                return Err(error);
            }
        };
        let job = self.next_job;
        self.next_job = job.saturating_add(1);
        self.jobs.insert(job, LocalJob { cells, process });
        self.exits.spawn(async move { (job, child.wait().await) });
        Ok(())
    }
}

#[async_trait]
impl BatchScheduler for LocalScheduler {
    fn name(&self) -> &'static str {
        LOCAL
    }

    async fn preflight(&mut self) -> Result<()> {
        Ok(())
    }

    async fn submit(&mut self, cells: Vec<u32>) -> Result<()> {
        self.start(cells).map_err(|error| {
            Error::new(ErrorKind::Environment, "cannot start a job of the batch")
                .with_source(error)
                .with_hint("lower `--parallel`, or check the limits of processes: `ulimit -u`")
        })
    }

    async fn poll(&mut self) -> Result<EndedJob> {
        let Some(exit) = self.exits.join_next().await else {
            return pending().await;
        };
        let (job, status) =
            exit.map_err(|_| Error::bug("waiting for a job failed unexpectedly"))?;
        let job = self.jobs.remove(&job);
        Ok(EndedJob {
            cells: job.map_or_else(Vec::new, |job| job.cells),
            exit_code: status.ok().and_then(|status| status.code()),
        })
    }

    async fn cancel(&mut self) -> Result<()> {
        for job in self.jobs.values() {
            terminate(&job.process);
        }
        Ok(())
    }

    fn jobs(&self) -> usize {
        self.jobs.len()
    }
}
