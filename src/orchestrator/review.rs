//! Owns the question what of a delivery is applied, and the delivering itself: whoever conducts the
//! run answers it, or everything is applied that may be.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::delivery::choice::Take;
use crate::delivery::plan::Plan;
use crate::error::{Error, Result};
use crate::path::{AbsPath, RealPath};
use crate::world::bases::Bases;
use crate::world::change::Change;
use crate::world::delivery::merging::merge;
use crate::world::delivery::planning::{Since, plan};
use crate::world::delivery::retention::{DELIVERIES_MAX, Limits, prune};
use crate::world::delivery::store::{Delivery, Offer};
use crate::world::delivery::transaction::{apply, take_parts};

/// Who is asked what of a delivery is applied. A clone asks the same one.
#[derive(Clone, Debug)]
pub struct Reviewer(mpsc::Sender<Question>);

/// What is to be answered.
#[derive(Debug)]
pub struct Question {
    /// The delivery, whose files can be looked at.
    pub delivery: Arc<Delivery>,
    /// What it would change.
    pub plan: Arc<Plan>,
    /// Where the answer goes. Without one, nothing is applied.
    pub answer: oneshot::Sender<Choice>,
}

/// What of a plan is applied.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// One for each entry.
    pub takes: Vec<Take>,
    /// Of files that are not taken as a whole: which of their hunks are.
    pub parts: BTreeMap<usize, Vec<bool>>,
}

impl Choice {
    /// Everything that may be applied.
    pub fn everything(plan: &Plan) -> Self {
        Self {
            takes: plan.everything(),
            parts: BTreeMap::new(),
        }
    }

    /// Nothing.
    pub fn nothing(plan: &Plan) -> Self {
        Self {
            takes: vec![Take::Left; plan.entries.len()],
            parts: BTreeMap::new(),
        }
    }
}

/// A reviewer, and where the questions to it arrive.
pub fn reviewer() -> (Reviewer, mpsc::Receiver<Question>) {
    let (sender, questions) = mpsc::channel(1);
    (Reviewer(sender), questions)
}

/// How a run delivers.
#[derive(Clone, Debug)]
pub struct Deliveries {
    /// Where deliveries are kept.
    pub dir: AbsPath,
    /// The name of the run.
    pub run: String,
    /// What agents read of the user's files.
    pub bases: Bases,
    /// Who is asked; without one, everything is applied.
    pub reviewer: Option<Reviewer>,
    /// Says that the user wants to stop; then nothing more is asked.
    pub stop: CancellationToken,
}

/// Delivers what `offer` tells of: plans it, asks, and applies what is taken. Our versions of files that
/// the user changed meanwhile go to `kept_in`.
pub async fn deliver(
    deliveries: &Deliveries,
    delivery: &Arc<Delivery>,
    offer: Offer,
    kept_in: Option<RealPath>,
) -> Result<Vec<Change>> {
    let bases = Some(deliveries.bases.clone());
    let delivery = Arc::clone(delivery);
    let planning = {
        let delivery = Arc::clone(&delivery);
        move || {
            delivery.file_offer(&offer)?;
            let since = Since {
                began_ns: i128::from(offer.began_ns),
                bases,
            };
            let mut planned = plan(&delivery, &offer, Some(&since))?;
            merge(&delivery, &mut planned, &since)?;
            Ok(planned)
        }
    };
    let planned = blocking(planning).await?;
    if planned.is_empty() {
        return Ok(Vec::new());
    }
    let planned = Arc::new(planned);
    let choice = deliveries.ask(&delivery, &planned).await;
    let applying = move || {
        let mut planned = Plan::clone(&planned);
        let takes = take_parts(&delivery, &mut planned, choice.takes, &choice.parts)?;
        apply(&delivery, &planned, &takes, kept_in.as_ref())
    };
    blocking(applying).await
}

impl Deliveries {
    /// Begins a delivery of the run. What is too much of older ones goes.
    pub async fn begin(&self) -> Result<Arc<Delivery>> {
        let (dir, run) = (self.dir.clone(), self.run.clone());
        let beginning = move || {
            let limits = Limits {
                count: DELIVERIES_MAX,
                bytes: None,
            };
            prune(&dir, limits)?;
            Delivery::create(&dir, &run).map(Arc::new)
        };
        blocking(beginning).await
    }

    async fn ask(&self, delivery: &Arc<Delivery>, plan: &Arc<Plan>) -> Choice {
        let Some(Reviewer(questions)) = &self.reviewer else {
            return Choice::everything(plan);
        };
        if plan.items().is_empty() {
            return Choice::everything(plan);
        }
        let (answer, answered) = oneshot::channel();
        let question = Question {
            delivery: Arc::clone(delivery),
            plan: Arc::clone(plan),
            answer,
        };
        let asked = async {
            questions.send(question).await.ok()?;
            answered.await.ok()
        };
        tokio::select! {
            choice = asked => choice.unwrap_or_else(|| Choice::nothing(plan)),
            () = self.stop.cancelled() => Choice::nothing(plan),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::bug("the delivery broke off"))?
}
