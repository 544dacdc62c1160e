//! A call that a runner of the agent carries out with models: the call blocks until the runner is
//! done, and the runner learns when the call is cancelled.

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use crate::world::access::gate::Gate;
use crate::world::exec::server_calls::wait_until_raised;
use crate::world::exec::tool_result::ToolError;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// A call, and the runner that carries it out.
pub(super) struct RunnerCall<'a, R: ?Sized> {
    pub(super) runner: &'a R,
    runtime: Handle,
    /// Its id in the conversation of the agent.
    pub(super) call_id: &'a str,
    interrupt: Option<&'a CommandInterrupt>,
}

impl<'a, R: ?Sized> RunnerCall<'a, R> {
    /// Creates the call that `gate` was opened for.
    ///
    /// # Errors
    /// There is no runner, because this is not the call of an agent in a run; `unavailable` says
    /// so.
    pub(super) fn new(
        gate: &'a Gate,
        interrupt: Option<&'a CommandInterrupt>,
        runner: Option<&'a R>,
        unavailable: &str,
    ) -> Result<Self, ToolError> {
        let outside_runs = || ToolError::failed(unavailable);
        Ok(Self {
            runner: runner.ok_or_else(outside_runs)?,
            runtime: Handle::try_current().map_err(|_| outside_runs())?,
            call_id: gate.call_id().unwrap_or_default(),
            interrupt,
        })
    }

    /// Blocks until the future of `start` is complete. `start` gets the runner, the id of the call
    /// and a future that completes when the call is cancelled.
    pub(super) fn block_on<T>(
        &self,
        start: impl FnOnce(&'a R, &'a str, BoxFuture<'a, ()>) -> BoxFuture<'a, T>,
    ) -> T {
        let cancelled: BoxFuture<'a, ()> = Box::pin(wait_until_raised(self.interrupt));
        let future = start(self.runner, self.call_id, cancelled);
        self.runtime.block_on(future)
    }
}
