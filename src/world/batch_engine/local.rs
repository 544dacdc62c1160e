//! Jobs as processes of this machine.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::io;
use std::process::ExitStatus;

use async_trait::async_trait;
use tokio::task::{JoinError, JoinSet};

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::batch_engine::{ArrayEngine, JobCounts};
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::start_worker;

/// The value of `--on` for this machine.
pub const LOCAL: &str = "local";

/// Starts each job as a process of this machine.
#[derive(Debug)]
pub struct LocalEngine {
    executable: AbsPath,
    dir: AbsPath,
    env: ProcessEnvironment,
    batch: String,
    /// The number of jobs at the same time.
    parallel: usize,
    /// How often a job is started again.
    restarts_max: u32,
    submission: u32,
    /// The indexes that wait.
    waiting: VecDeque<u32>,
    restarts: BTreeMap<u32, u32>,
    exits: JoinSet<(u32, io::Result<ExitStatus>)>,
}

impl LocalEngine {
    /// Creates an engine that starts `executable` in `dir` with the environment `env` for the jobs
    /// of `batch`, at most `parallel` at the same time, and each again at most `restarts_max` times.
    pub fn new(
        executable: AbsPath,
        dir: AbsPath,
        env: &BTreeMap<String, String>,
        batch: String,
        parallel: usize,
        restarts_max: u32,
    ) -> Self {
        Self {
            executable,
            dir,
            env: ProcessEnvironment::inherit_except(env, &[]),
            batch,
            parallel,
            restarts_max,
            submission: 0,
            waiting: VecDeque::new(),
            restarts: BTreeMap::new(),
            exits: JoinSet::new(),
        }
    }

    fn start(&mut self, index: u32) -> io::Result<()> {
        let [submission, index_word] = [self.submission, index].map(|number| number.to_string());
        let arguments = ["batch", "job", &self.batch, &submission, &index_word];
        let mut child = start_worker(&self.executable, &arguments, &self.dir, &self.env)?;
        self.exits.spawn(async move { (index, child.wait().await) });
        Ok(())
    }

    /// Lets a job wait again whose process was lost or parked.
    fn handle_exit(&mut self, exit: std::result::Result<(u32, io::Result<ExitStatus>), JoinError>) {
        let Ok((index, status)) = exit else {
            return;
        };
        let restarts = self.restarts.entry(index).or_default();
        if !status.is_ok_and(|status| status.success()) && *restarts < self.restarts_max {
            *restarts = restarts.saturating_add(1);
            self.waiting.push_back(index);
        }
    }
}

#[async_trait]
impl ArrayEngine for LocalEngine {
    fn name(&self) -> &'static str {
        LOCAL
    }

    fn outlives_control(&self) -> bool {
        false
    }

    async fn indexes_max(&mut self) -> Result<u32> {
        Ok(u32::MAX)
    }

    async fn submit(&mut self, submission: u32, indexes: u32) -> Result<()> {
        self.submission = submission;
        self.restarts.clear();
        self.waiting = (0..indexes).collect();
        Ok(())
    }

    async fn poll(&mut self) -> Result<JobCounts> {
        while let Some(exit) = self.exits.try_join_next() {
            self.handle_exit(exit);
        }
        while self.exits.len() < self.parallel
            && let Some(index) = self.waiting.pop_front()
        {
            if let Err(error) = self.start(index) {
                self.waiting.push_front(index);
                if self.exits.is_empty() {
                    let message = "cannot start a job of the batch";
                    return Err(Error::new(ErrorKind::Environment, message)
                        .with_source(error)
                        .with_hint(
                            "lower `--parallel`, or check the limits of processes: `ulimit -u`",
                        ));
                }
                // It is tried again when another job has ended.
                break;
            }
        }
        Ok(JobCounts {
            running: self.exits.len(),
            waiting: self.waiting.len(),
        })
    }

    async fn wait(&mut self) {
        match self.exits.join_next().await {
            Some(exit) => self.handle_exit(exit),
            None => pending().await,
        }
    }

    async fn cancel_waiting(&mut self) -> Result<()> {
        self.waiting.clear();
        Ok(())
    }

    fn failure_hint(&self) -> String {
        let (batch, submission) = (&self.batch, self.submission);
        format!("see what one of them says: massgen batch job {batch} {submission} 0")
    }
}
