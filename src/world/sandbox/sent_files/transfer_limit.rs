//! When a transfer ends although it is not complete: at an interrupt, or if nothing happens for too
//! long.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::sent_files::transfer_error::TransferError;

/// The reason of a step that takes too long.
const NO_ANSWER: &str = "the container engine does not answer in time";
/// Interval between two checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The limit of all transfers before or after one command.
#[derive(Debug)]
pub(in crate::world::sandbox) struct TransferLimit<'i> {
    interrupt: Option<&'i CommandInterrupt>,
    /// How long the transfers may continue after the interrupt.
    grace: Duration,
    /// When they must end; `None` until the interrupt is noticed.
    deadline: Cell<Option<Instant>>,
}

impl<'i> TransferLimit<'i> {
    /// Ends transfers `grace` after an interrupt.
    pub(in crate::world::sandbox) fn new(
        interrupt: Option<&'i CommandInterrupt>,
        grace: Duration,
    ) -> Self {
        Self {
            interrupt,
            grace,
            deadline: Cell::new(None),
        }
    }

    /// Ends transfers after this time.
    pub(in crate::world::sandbox) fn within(time: Duration) -> Self {
        Self {
            interrupt: None,
            grace: Duration::ZERO,
            deadline: Cell::new(Instant::now().checked_add(time)),
        }
    }

    /// Refuses to continue if transfers must end.
    pub(in crate::world::sandbox) fn check(&self) -> Result<(), TransferError> {
        if self.deadline.get().is_none() && self.interrupt.is_some_and(CommandInterrupt::is_raised)
        {
            self.deadline.set(Some(Instant::now() + self.grace));
        }
        match self.deadline.get() {
            Some(deadline) if Instant::now() >= deadline => Err(TransferError::Interrupted),
            Some(_) | None => Ok(()),
        }
    }

    /// Waits for one step of a transfer, until `step_deadline`.
    pub(in crate::world::sandbox) async fn wait<T>(
        &self,
        step_deadline: Instant,
        step: impl Future<Output = T>,
    ) -> Result<T, TransferError> {
        let step_result = self.watch(timeout_at(step_deadline, step)).await?;
        step_result.map_err(|_| TransferError::RemoteFailure(NO_ANSWER.to_owned()))
    }

    /// Waits for one step of a transfer that has a timeout of its own.
    pub(in crate::world::sandbox) async fn watch<T>(
        &self,
        step: impl Future<Output = T>,
    ) -> Result<T, TransferError> {
        let mut step = pin!(step);
        loop {
            self.check()?;
            let next_check = Instant::now() + POLL_INTERVAL;
            if let Ok(step_result) = timeout_at(next_check, step.as_mut()).await {
                return Ok(step_result);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn a_transfer_ends_soon_after_an_interrupt_and_not_before() {
        let interrupt = CommandInterrupt::new().unwrap();
        let at_once = TransferLimit::new(Some(&interrupt), Duration::ZERO);
        let later = TransferLimit::new(Some(&interrupt), LONG);
        let never = TransferLimit::new(None, Duration::ZERO);
        let over = TransferLimit::within(Duration::ZERO);
        let far = || Instant::now() + LONG;
        assert_eq!(at_once.wait(far(), ready(1)).await.ok(), Some(1));
        let waiting = at_once.wait(far(), pending::<()>());
        let raising = async {
            tokio::task::yield_now().await;
            interrupt.raise();
        };
        let (result, ()) = tokio::join!(waiting, raising);
        assert!(matches!(result, Err(TransferError::Interrupted)));
        let result = at_once.wait(far(), ready(1)).await;
        assert!(
            matches!(result, Err(TransferError::Interrupted)),
            "it stays"
        );
        let result = at_once.watch(pending::<()>()).await;
        assert!(matches!(result, Err(TransferError::Interrupted)));
        assert_eq!(never.watch(ready(4)).await.ok(), Some(4));
        let result = over.watch(ready(5)).await;
        assert!(matches!(result, Err(TransferError::Interrupted)));
        let still = TransferLimit::within(LONG);
        assert_eq!(still.watch(ready(6)).await.ok(), Some(6));
        assert_eq!(later.wait(far(), ready(2)).await.ok(), Some(2));
        assert_eq!(never.wait(far(), ready(3)).await.ok(), Some(3));
    }

    #[tokio::test]
    async fn a_step_that_makes_no_progress_ends() {
        let limit = TransferLimit::new(None, LONG);
        let result = limit.wait(Instant::now(), pending::<()>()).await;
        assert!(matches!(result, Err(TransferError::RemoteFailure(reason)) if reason == NO_ANSWER));
    }
}
