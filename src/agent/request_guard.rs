//! Accounts for one request: emits an event when it begins, and charges it exactly once, even if it
//! is dropped because nothing waits for the reply any more.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use crate::agent::ModelSession;
use crate::agent::budget::RequestOutcome;
use crate::backend::AvailableModel;
use crate::event::{Event, ModelEvent};
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::world::io::clock::milliseconds;

/// A request in progress. Dropping it abandons the request.
pub(super) struct RequestGuard<'a> {
    session: &'a ModelSession,
    model: &'a AvailableModel,
    since: Instant,
    /// The usage that the vendor has counted so far.
    pub(super) usage: TokenUsage,
    /// The cost of that, if the backend reports it itself.
    pub(super) reported_cost: Option<Money>,
    /// Whether it has used something that is counted only at its end.
    pub(super) is_uncounted: bool,
    is_charged: bool,
}

impl<'a> RequestGuard<'a> {
    /// Begins a request of `session` to `model`.
    pub(super) async fn begin(session: &'a ModelSession, model: &'a AvailableModel) -> Self {
        let request = Self {
            session,
            model,
            since: Instant::now(),
            usage: TokenUsage::default(),
            reported_cost: None,
            is_uncounted: false,
            is_charged: false,
        };
        session
            .emit(ModelEvent::ModelRequestStarted {
                agent: session.agent.clone(),
                model: Arc::clone(&model.name),
            })
            .await;
        request
    }

    /// Ends the request with this outcome. Warns if a complete one was not counted.
    pub(super) async fn end(mut self, ending: RequestOutcome) {
        let event = self.charge(ending);
        let cost = if let Event::Model(ModelEvent::ModelRequestFinished { cost_usd, .. }) = &event {
            *cost_usd
        } else {
            None
        };
        self.session.emit(event).await;
        if ending == RequestOutcome::Whole && self.usage == TokenUsage::default() {
            self.session.warn_uncounted(&self.model.name, cost).await;
        }
    }

    /// Charges the request, and returns the event for it.
    fn charge(&mut self, ending: RequestOutcome) -> Event {
        self.is_charged = true;
        let Self { session, model, .. } = self;
        Event::Model(ModelEvent::ModelRequestFinished {
            agent: session.agent.clone(),
            model: Arc::clone(&model.name),
            phase: session.phase,
            usage: self.usage,
            cost_usd: session.budget.charge(
                model,
                session.phase,
                self.usage,
                self.reported_cost,
                ending,
            ),
            elapsed_ms: milliseconds(self.since.elapsed()),
        })
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if !self.is_charged {
            let event = self.charge(RequestOutcome::GivenUp);
            emit_without_waiting(&self.session.events, event);
        }
    }
}

/// Emits an event where nothing can wait. If the channel is full, because a disk or a terminal is slow, a
/// task of its own waits until there is room; until then the channel stays open.
fn emit_without_waiting(events: &Sender<Event>, event: Event) {
    let Err(TrySendError::Full(event)) = events.try_send(event) else {
        return;
    };
    if let Ok(runtime) = Handle::try_current() {
        let events = events.clone();
        // If the receiver is gone, no sink is left.
        runtime.spawn(async move { events.send(event).await.unwrap_or_default() });
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::event::RunEvent;

    #[tokio::test]
    async fn an_event_that_finds_no_room_comes_later() {
        let (events, mut received) = mpsc::channel(1);
        let warnings = ["one", "two"].map(|message| {
            Event::Run(RunEvent::Warning {
                message: message.to_owned(),
            })
        });
        for event in &warnings {
            emit_without_waiting(&events, event.clone());
        }
        drop(events);
        for event in warnings {
            assert_eq!(received.recv().await, Some(event));
        }
        assert_eq!(received.recv().await, None);
    }
}
