//! Accounts for one request: emits an event when it begins, and charges it exactly once, even if it
//! is dropped because nothing waits for the reply any more.

use std::sync::Arc;

use tokio::sync::mpsc::OwnedPermit;
use tokio::time::Instant;

use crate::agent::ModelSession;
use crate::agent::budget::RequestOutcome;
use crate::backend::available_model::AvailableModel;
use crate::event::{Event, ModelEvent};
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::world::io::clock::milliseconds;
use crate::world::io::event_sink::QueuedEvent;

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
    /// The reserved capacity of the channel for the event of its end, which a drop cannot wait for;
    /// `None` if no sink is left.
    end_event_permit: Option<OwnedPermit<QueuedEvent>>,
    has_been_charged: bool,
}

impl<'a> RequestGuard<'a> {
    /// Begins a request of `session` to `model`.
    pub(super) async fn begin(session: &'a ModelSession, model: &'a AvailableModel) -> Self {
        let since = Instant::now();
        let end_event_permit = session.events.clone().reserve_owned().await.ok();
        session
            .emit(ModelEvent::ModelRequestStarted {
                agent: session.agent.clone(),
                model: Arc::clone(&model.name),
            })
            .await;
        Self {
            session,
            model,
            since,
            usage: TokenUsage::default(),
            reported_cost: None,
            is_uncounted: false,
            end_event_permit,
            has_been_charged: false,
        }
    }

    /// Ends the request with this outcome. Warns if a complete one was not counted.
    pub(super) async fn end(mut self, outcome: RequestOutcome) {
        let cost = self.charge(outcome);
        if outcome == RequestOutcome::Complete && self.usage == TokenUsage::default() {
            self.session.warn_uncounted(&self.model.name, cost).await;
        }
    }

    /// Charges the request, emits the event of its end, and returns its cost, if that is known.
    fn charge(&mut self, outcome: RequestOutcome) -> Option<Money> {
        self.has_been_charged = true;
        let (session, model) = (self.session, self.model);
        let cost_usd = session.budget.charge(
            model,
            session.phase,
            self.usage,
            self.reported_cost,
            outcome,
        );
        if let Some(permit) = self.end_event_permit.take() {
            let event = ModelEvent::ModelRequestFinished {
                agent: session.agent.clone(),
                model: Arc::clone(&model.name),
                phase: session.phase,
                usage: self.usage,
                cost_usd,
                elapsed_ms: milliseconds(self.since.elapsed()),
            };
            permit.send(Event::Model(event).into());
        }
        cost_usd
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if !self.has_been_charged {
            self.charge(RequestOutcome::Abandoned);
        }
    }
}
