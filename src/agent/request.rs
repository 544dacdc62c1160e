//! Owns the account of one request: it is told of when it begins, and charged exactly once, also
//! where it is given up in the middle because nobody waits for the reply any more.

use std::sync::Arc;

use tokio::time::Instant;

use crate::agent::Mind;
use crate::agent::account::Ending;
use crate::backend::Model;
use crate::event::Event;
use crate::spending::Usage;
use crate::spending::money::Money;
use crate::world::clock::milliseconds;

/// A request that is under way. To drop it is to give it up.
pub(super) struct OpenRequest<'a> {
    mind: &'a Mind,
    model: &'a Model,
    since: Instant,
    /// What the vendor has counted so far.
    pub(super) usage: Usage,
    /// What that has cost, where whoever replies says so itself.
    pub(super) told_cost: Option<Money>,
    /// Whether it has used up something that is counted only at its end.
    pub(super) is_uncounted: bool,
    charged: Charged,
}

/// Whether a request has been charged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Charged {
    No,
    Yes,
}

impl<'a> OpenRequest<'a> {
    /// A request of `mind` to `model` that begins now.
    pub(super) async fn begin(mind: &'a Mind, model: &'a Model) -> Self {
        let request = Self {
            mind,
            model,
            since: Instant::now(),
            usage: Usage::default(),
            told_cost: None,
            is_uncounted: false,
            charged: Charged::No,
        };
        mind.emit(Event::Asking {
            agent: mind.agent.clone(),
            model: Arc::clone(&model.name),
        })
        .await;
        request
    }

    /// The request has ended so. What a whole one has used, and nobody has counted, is told.
    pub(super) async fn end(mut self, ending: Ending) {
        let asked = self.charge(ending);
        let cost = if let Event::Asked { cost_usd, .. } = &asked {
            *cost_usd
        } else {
            None
        };
        self.mind.emit(asked).await;
        if ending == Ending::Whole && self.usage == Usage::default() {
            self.mind.tell_of_uncounted(&self.model.name, cost).await;
        }
    }

    /// Charges the request, and says so.
    fn charge(&mut self, ending: Ending) -> Event {
        self.charged = Charged::Yes;
        let Self { mind, model, .. } = self;
        Event::Asked {
            agent: mind.agent.clone(),
            model: Arc::clone(&model.name),
            phase: mind.phase,
            usage: self.usage,
            cost_usd: mind.account.charge(
                (model, mind.phase),
                (self.usage, self.told_cost),
                ending,
            ),
            elapsed_ms: milliseconds(self.since.elapsed()),
        }
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if self.charged == Charged::No {
            let asked = self.charge(Ending::GivenUp);
            // Nothing can be waited for here: where too many events wait, this one is not told.
            drop(self.mind.events.try_send(asked));
        }
    }
}
