//! What starts the jobs of a batch. A scheduler knows nothing of results: the files of the batch are
//! the truth, and a job whose end it misses is found by them.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;

pub mod local;

/// A job that has ended, for whatever reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedJob {
    /// The numbers of its cells.
    pub cells: Vec<u32>,
    /// The exit status of the last cell; `None` if a signal ended the job.
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

    /// Waits until a job ends; forever if there is none. Can be cancelled.
    async fn poll(&mut self) -> Result<EndedJob>;

    /// Asks all jobs to park their runs and end; they are polled afterwards.
    async fn cancel(&mut self) -> Result<()>;

    /// Returns the number of jobs that have not ended.
    fn jobs(&self) -> usize;
}
