//! Owns the question what of a delivery is applied, and the delivering itself: whoever conducts the
//! run answers it, or everything is applied that may be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::config::DeliveryMode;
use crate::config::checks::OnRed;
use crate::delivery::choice::Take;
use crate::delivery::plan::{Deed, Plan};
use crate::error::{Error, Result};
use crate::event::Said;
use crate::id::AgentId;
use crate::orchestrator::hooks::{self, Asked};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Phase;
use crate::world::bases::Bases;
use crate::world::change::{Change, ChangeKind};
use crate::world::consultation::Question as Consultation;
use crate::world::delivery::merging::merge;
use crate::world::delivery::planning::{Since, plan};
use crate::world::delivery::retention::{DELIVERIES_MAX, Limits, prune};
use crate::world::delivery::store::{Delivery, Offer, names_of};
use crate::world::delivery::transaction::{apply, take_parts};
use crate::world::delivery::undo::{Delivered, Direction, Now, Outcome, Row, Since as SinceThen};
use crate::world::hooks::Hooks;
use crate::world::locate::locate;
use crate::world::stage::Stage;

/// Who is asked what of a delivery is applied. A clone asks the same one.
#[derive(Clone, Debug)]
pub struct Reviewer(pub(crate) mpsc::Sender<Question>);

/// What is to be answered.
#[derive(Debug)]
pub enum Question {
    /// What of a delivery is applied.
    Apply {
        /// The delivery, whose files can be looked at.
        delivery: Arc<Delivery>,
        /// What it would change.
        plan: Arc<Plan>,
        /// Where the answer goes. Without one, nothing is applied.
        answer: oneshot::Sender<Choice>,
    },
    /// Whether an agent may make a call.
    Call {
        /// Who.
        agent: AgentId,
        /// What it would do, and why it is asked.
        question: Consultation,
        /// The file that keeps what is agreed to for always; without one, there is no such answer.
        always: Option<AbsPath>,
        /// Where the answer goes. Nobody waits for it any more when it is closed.
        answer: oneshot::Sender<Said>,
    },
    /// What becomes of a delivery whose checks do not pass.
    Red {
        /// Which checks, as the beginning of a sentence.
        reason: String,
        /// Where the answer goes. Without one, the delivery is taken back.
        answer: oneshot::Sender<Red>,
    },
    /// Something that only a person knows.
    Open {
        /// Who wants to know, and what, as one sentence.
        question: String,
        /// What happens if the person says nothing.
        otherwise: String,
        /// Where the answer goes; an empty one says nothing.
        answer: oneshot::Sender<String>,
    },
}

impl Reviewer {
    /// What a person answers to an open question; `None` if they say nothing, have gone, or want to
    /// stop.
    pub async fn open_question(
        &self,
        (question, otherwise): (String, String),
        stop: &CancellationToken,
    ) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        let question = Question::Open {
            question,
            otherwise,
            answer,
        };
        let asked = async {
            self.0.send(question).await.ok()?;
            answered.await.ok()
        };
        let said = tokio::select! {
            said = asked => said?,
            () = stop.cancelled() => return None,
        };
        let said = said.trim();
        (!said.is_empty()).then(|| said.to_owned())
    }
}

/// What becomes of a delivery whose checks do not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Red {
    /// It stays.
    Keep,
    /// It is taken back.
    TakeBack,
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
    /// Whether it is asked what is applied.
    pub mode: DeliveryMode,
    /// What becomes of a delivery whose checks do not pass.
    pub on_red: OnRed,
    /// Who is asked; without one, everything is applied.
    pub reviewer: Option<Reviewer>,
    /// Says that the user wants to stop; then nothing more is asked.
    pub stop: CancellationToken,
}

/// Whether the final agent has done all that it wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has.
    Whole,
    /// It was cut short: nothing is applied by itself, and what there is can be taken later.
    BrokenOff,
}

/// Delivers what `offer` tells of: plans it, asks, and applies what is taken. Our versions of files that
/// the user changed meanwhile go to `kept_in`. The hooks that are `asked` first see the stage; gives why
/// they refuse the delivery, if they do.
pub async fn deliver(
    deliveries: &Deliveries,
    delivery: &Arc<Delivery>,
    offer: Offer,
    (kept_in, state): (Option<RealPath>, State),
    asked: Option<(Hooks, Option<Stage>)>,
) -> Result<(Vec<Change>, Option<String>)> {
    let bases = Some(deliveries.bases.clone());
    let delivery = Arc::clone(delivery);
    let planning = {
        let delivery = Arc::clone(&delivery);
        move || {
            let since = Since {
                began_ns: i128::from(offer.began_ns),
                bases,
            };
            let mut planned = plan(&delivery, &offer, Some(&since))?;
            merge(&delivery, &mut planned, &since)?;
            if !planned.is_empty() {
                delivery.file_offer(&offer)?;
            }
            Ok(planned)
        }
    };
    let planned = blocking(planning).await?;
    if planned.is_empty() {
        return Ok((Vec::new(), None));
    }
    let planned = Arc::new(planned);
    let mut refused = None;
    let choice = match state {
        State::Whole => {
            if let Some((hooks, stage)) = asked {
                let asked = Asked::Delivery(Arc::clone(&planned));
                let here = (Phase::Final, stage);
                refused = hooks::refusal(&hooks, asked, here, &deliveries.stop).await;
            }
            match refused {
                None => deliveries.ask(&delivery, &planned).await,
                Some(_) => Choice::nothing(&planned),
            }
        }
        State::BrokenOff => Choice::nothing(&planned),
    };
    let applying = move || {
        let mut planned = Plan::clone(&planned);
        let takes = take_parts(&delivery, &mut planned, choice.takes, &choice.parts)?;
        apply(&delivery, &planned, &takes, kept_in.as_ref())
    };
    Ok((blocking(applying).await?, refused))
}

/// What an `attempt` of a run had delivered that was broken off after that and is gone on with, with the
/// name of the delivery; `None` if it had not come so far.
pub async fn delivered_before(
    deliveries: &Deliveries,
    attempt: u32,
) -> Result<Option<(String, Vec<Change>)>> {
    let (dir, run) = (deliveries.dir.clone(), deliveries.run.clone());
    let looking = move || {
        for name in names_of(&run, &dir)? {
            let delivery = Delivery::open(&dir, &name)?;
            if !delivery.is_applied() || delivery.offer()?.attempt != attempt {
                continue;
            }
            let Some(delivered) = Delivered::open(delivery)? else {
                continue;
            };
            let changes = applied(&delivered)?;
            if !changes.is_empty() {
                return Ok(Some((name, changes)));
            }
        }
        Ok(None)
    };
    blocking(looking).await
}

/// What of a delivery stands as it was delivered.
fn applied(delivered: &Delivered) -> Result<Vec<Change>> {
    let names = delivered.names().filter(|(_, _, now)| *now == Now::Applied);
    let change = |(path, deed, _): (AbsPath, Deed, Now)| {
        let kind = match deed {
            Deed::Create => ChangeKind::Created,
            Deed::Change => ChangeKind::Changed,
            Deed::Delete => ChangeKind::Deleted,
        };
        let path = locate(&path)?.into_real();
        Ok(Change { path, kind })
    };
    names.map(change).collect()
}

/// The delivery `name` of the run, which another process made.
pub async fn again(deliveries: &Deliveries, name: String) -> Result<Arc<Delivery>> {
    let dir = deliveries.dir.clone();
    blocking(move || Delivery::open(&dir, &name).map(Arc::new)).await
}

/// Takes back what was delivered, but for what somebody has changed since. Gives the paths that are as
/// they were before.
pub async fn take_back(delivery: Arc<Delivery>) -> Result<BTreeSet<AbsPath>> {
    let delivery = Arc::try_unwrap(delivery);
    let delivery = delivery.map_err(|_| Error::bug("the delivery is still under way"))?;
    let taking = move || {
        let Some(mut delivered) = Delivered::open(delivery)? else {
            return Ok(BTreeSet::new());
        };
        let rows = delivered.take(Direction::Back, &[], SinceThen::Kept)?;
        let is_back = |row: &Row| matches!(row.outcome, Outcome::Restored | Outcome::Removed);
        let back = rows.into_iter().filter(is_back);
        Ok(back.map(|row| row.path).collect())
    };
    blocking(taking).await
}

impl Deliveries {
    /// Whether the user keeps a delivery that does not hold, for this `reason`.
    pub async fn keeps_on_red(&self, reason: &str) -> bool {
        let Some(Reviewer(questions)) = &self.reviewer else {
            return self.on_red == OnRed::Keep;
        };
        if self.on_red != OnRed::Ask {
            return self.on_red == OnRed::Keep;
        }
        let (answer, answered) = oneshot::channel();
        let question = Question::Red {
            reason: reason.to_owned(),
            answer,
        };
        let asked = async {
            questions.send(question).await.ok()?;
            answered.await.ok()
        };
        tokio::select! {
            kept = asked => kept == Some(Red::Keep),
            () = self.stop.cancelled() => false,
        }
    }

    /// Begins a delivery of the run. What is too much of older ones goes.
    pub async fn begin(&self) -> Result<Arc<Delivery>> {
        let (dir, run) = (self.dir.clone(), self.run.clone());
        let beginning = move || {
            let limits = Limits {
                count: DELIVERIES_MAX,
                bytes: None,
            };
            // Held, it is not taken for an old one.
            let delivery = Delivery::create(&dir, &run)?;
            prune(&dir, limits)?;
            Ok(Arc::new(delivery))
        };
        blocking(beginning).await
    }

    async fn ask(&self, delivery: &Arc<Delivery>, plan: &Arc<Plan>) -> Choice {
        let Some(Reviewer(questions)) = &self.reviewer else {
            return Choice::everything(plan);
        };
        if self.mode == DeliveryMode::Auto || plan.items().is_empty() {
            return Choice::everything(plan);
        }
        let (answer, answered) = oneshot::channel();
        let question = Question::Apply {
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
