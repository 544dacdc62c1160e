//! What starts the jobs of a batch: a scheduler of processes on this machine, or a queue on other
//! hosts. Neither knows results: they are read from the files of the batch, which also show the
//! jobs whose end was missed.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};

pub mod local;
pub mod site_command;
pub mod slurm;
pub mod command_queue;
pub mod kubernetes;

/// A job that has ended, for whatever reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedJob {
    /// The numbers of its cells.
    pub cells: Vec<u32>,
    /// The exit status of the last cell; `None` if a signal ended the job or nothing is known.
    pub exit_code: Option<i32>,
}

/// Starts jobs, each of which runs the cells that it names, one after another.
#[async_trait]
pub trait BatchScheduler: Debug + Send {
    /// Returns its name, as `--on` takes it.
    fn name(&self) -> &'static str;

    /// Checks that jobs can be started at all.
    async fn preflight(&mut self) -> Result<()>;

    /// Starts a job for these cells.
    async fn submit(&mut self, cells: Vec<u32>) -> Result<()>;

    /// Waits until a job ends; forever if there is none. Is cancel safe.
    async fn poll(&mut self) -> Result<EndedJob>;

    /// Asks all jobs to park their runs and end; they are polled afterwards.
    async fn cancel(&mut self) -> Result<()>;

    /// Returns the number of jobs that have not ended.
    fn jobs(&self) -> usize;
}

/// A job of a queue that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueJob {
    /// Its name in the claims of its cells.
    pub name: String,
    /// Whether it is not running: it waits for its first start, or for a restart.
    pub is_waiting: bool,
}

/// What a queue knows about the jobs of a batch.
#[derive(Debug, Default)]
pub struct JobListing {
    /// Those that have not ended.
    pub jobs: Vec<QueueJob>,
    /// The reason why some of them wait, if the queue gives one.
    pub wait: Option<String>,
    /// What the user should know and has not been told yet: how jobs ended that the queue ended.
    pub messages: Vec<String>,
    /// Why no job can ever work.
    pub error: Option<Error>,
}

impl From<Vec<QueueJob>> for JobListing {
    fn from(jobs: Vec<QueueJob>) -> Self {
        Self {
            jobs,
            ..Self::default()
        }
    }
}

/// A queue of jobs on other hosts. Its jobs name no cells: each claims cells until none is left.
/// They outlive the process that submitted them, and a queue finds those of its batch again.
#[async_trait]
pub trait JobQueue: Debug + Send {
    /// Returns its name, as `--on` takes it and as the claims of its jobs have it.
    fn name(&self) -> &'static str;

    /// Returns how long a job is missing from the list before it counts as lost.
    fn loss_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns whether a job that waits may have been running before, so that it has lost its cell.
    fn restarts_jobs(&self) -> bool {
        true
    }

    /// Checks that jobs can be submitted at all.
    async fn preflight(&mut self) -> Result<()>;

    /// Submits `jobs` jobs, none of them on `excluded_nodes` if the queue can avoid nodes.
    async fn submit(&mut self, jobs: usize, excluded_nodes: &[String]) -> Result<()>;

    /// Lists the jobs of the batch that have not ended.
    async fn list(&mut self) -> Result<JobListing>;

    /// Cancels the jobs that wait; running ones act on the files of the batch.
    async fn cancel_waiting(&mut self) -> Result<()>;

    /// Cancels the jobs of a batch that is cancelled or has ended; running ones are parked.
    async fn cancel_all(&mut self) -> Result<()> {
        self.cancel_waiting().await
    }
}
