//! What runs the jobs of a batch: processes of this machine, or arrays of Slurm. An engine starts
//! each index of a submission, and starts it again if its process was lost. It knows no results:
//! they are read from the files of the batch.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;

pub mod local;
pub mod slurm;

/// The numbers of jobs that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Those that are running.
    pub running: usize,
    /// Those that wait for their first start, or for another one.
    pub waiting: usize,
}

/// Runs arrays of jobs.
#[async_trait]
pub trait ArrayEngine: Debug + Send {
    /// Returns its name, as `--on` takes it.
    fn name(&self) -> &'static str;

    /// Returns whether its jobs continue when the control process ends.
    fn outlives_control(&self) -> bool;

    /// Returns the largest number of indexes of a submission.
    async fn indexes_max(&mut self) -> Result<u32>;

    /// Begins a submission with the indexes from 0 on.
    async fn submit(&mut self, submission: u32, indexes: u32) -> Result<()>;

    /// Counts the jobs of the batch, after it has started those that may run.
    async fn poll(&mut self) -> Result<JobCounts>;

    /// Waits until the counts may have changed. Is cancel safe.
    async fn wait(&mut self);

    /// Cancels the jobs that wait; running ones act on the files of the batch.
    async fn cancel_waiting(&mut self) -> Result<()>;

    /// Returns what helps to see why jobs fail.
    fn failure_hint(&self) -> String;
}
