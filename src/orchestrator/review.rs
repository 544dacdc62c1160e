//! Owns the question what of a delivery is applied, and the delivering itself: whoever conducts the
//! run answers it, or everything is applied that may be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::config::DeliveryMode;
use crate::config::checks::FailedCheckPolicy;
use crate::delivery::choice::DeliveryChoice;
use crate::delivery::plan::{DeliveryPlan, EntryAction};
use crate::error::{Error, Result};
use crate::event::ApprovalAnswer;
use crate::id::AgentId;
use crate::orchestrator::hooks::{self, HookEventPayload};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Phase;
use crate::world::access::hook_runner::HookRunner;
use crate::world::access::merge_bases::MergeBases;
use crate::world::approval::ApprovalRequest;
use crate::world::delivery::merging::merge;
use crate::world::delivery::planning::{ConflictBaseline, plan};
use crate::world::delivery::retention::{DELIVERIES_MAX, RetentionLimits, prune};
use crate::world::delivery::store::{DeliverySource, OpenDelivery};
use crate::world::delivery::transaction::{apply, select_hunks};
use crate::world::delivery::undo::{
    AppliedDelivery, ChangedFilePolicy, DeliveredState, UndoDirection, UndoOutcome, UndoRow,
};
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::io::locate::locate;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::store::delivery_names::names_of;

/// Who is asked what of a delivery is applied. A clone asks the same one.
#[derive(Clone, Debug)]
pub struct Reviewer(pub(crate) mpsc::Sender<UserQuestion>);

/// What is to be answered.
#[derive(Debug)]
pub enum UserQuestion {
    /// What of a delivery is applied.
    Apply {
        /// The delivery, whose files can be looked at.
        delivery: Arc<OpenDelivery>,
        /// What it would change.
        plan: Arc<DeliveryPlan>,
        /// Where the answer goes. Without one, nothing is applied.
        answer: oneshot::Sender<DeliverySelection>,
    },
    /// Whether an agent may make a call.
    Call {
        /// Who.
        agent: AgentId,
        /// What it would do, and why it is asked.
        question: ApprovalRequest,
        /// The file that keeps what is agreed to for always; without one, there is no such answer.
        always: Option<AbsPath>,
        /// Where the answer goes. Nobody waits for it any more when it is closed.
        answer: oneshot::Sender<ApprovalAnswer>,
    },
    /// What becomes of a delivery whose checks do not pass.
    FailedCheck {
        /// Which checks, as the beginning of a sentence.
        reason: String,
        /// Where the answer goes. Without one, the delivery is taken back.
        answer: oneshot::Sender<FailedCheckDecision>,
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
    pub async fn ask_open_question(
        &self,
        (question, otherwise): (String, String),
        stop: &CancellationToken,
    ) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        let question = UserQuestion::Open {
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
pub enum FailedCheckDecision {
    /// It stays.
    Keep,
    /// It is taken back.
    Revert,
}

/// What of a plan is applied.
#[derive(Clone, Debug, Default)]
pub struct DeliverySelection {
    /// One for each entry.
    pub takes: Vec<DeliveryChoice>,
    /// Of files that are not taken as a whole: which of their hunks are.
    pub parts: BTreeMap<usize, Vec<bool>>,
}

impl DeliverySelection {
    /// Everything that may be applied.
    pub fn take_all(plan: &DeliveryPlan) -> Self {
        Self {
            takes: plan.everything(),
            parts: BTreeMap::new(),
        }
    }

    /// Nothing.
    pub fn take_none(plan: &DeliveryPlan) -> Self {
        Self {
            takes: vec![DeliveryChoice::Left; plan.entries.len()],
            parts: BTreeMap::new(),
        }
    }
}

/// A reviewer, and where the questions to it arrive.
pub fn reviewer_channel() -> (Reviewer, mpsc::Receiver<UserQuestion>) {
    let (sender, questions) = mpsc::channel(1);
    (Reviewer(sender), questions)
}

/// How a run delivers.
#[derive(Clone, Debug)]
pub struct DeliverySettings {
    /// Where deliveries are kept.
    pub dir: AbsPath,
    /// The name of the run.
    pub run: String,
    /// What agents read of the user's files.
    pub merge_bases: MergeBases,
    /// Whether it is asked what is applied.
    pub mode: DeliveryMode,
    /// What becomes of a delivery whose checks do not pass.
    pub on_failed_check: FailedCheckPolicy,
    /// Who is asked; without one, everything is applied.
    pub reviewer: Option<Reviewer>,
    /// Says that the user wants to stop; then nothing more is asked.
    pub stop: CancellationToken,
}

/// Whether the final agent has done all that it wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresentationState {
    /// It has.
    Complete,
    /// It was cut short: nothing is applied by itself, and what there is can be taken later.
    Interrupted,
}

/// Delivers what `offer` tells of: plans it, asks, and applies what is taken. Our versions of files that
/// the user changed meanwhile go to `kept_in`. The hooks that are `asked` first see the stage; gives why
/// they refuse the delivery, if they do.
pub async fn deliver(
    deliveries: &DeliverySettings,
    delivery: &Arc<OpenDelivery>,
    offer: DeliverySource,
    (kept_in, state): (Option<RealPath>, PresentationState),
    asked: Option<(HookRunner, Option<WriteOverlay>)>,
) -> Result<(Vec<FileChange>, Option<String>)> {
    let bases = Some(deliveries.merge_bases.clone());
    let delivery = Arc::clone(delivery);
    let planning = {
        let delivery = Arc::clone(&delivery);
        move || {
            let since = ConflictBaseline {
                began_ns: i128::from(offer.began_ns),
                bases,
            };
            let mut planned = plan(&delivery, &offer, Some(&since))?;
            merge(&delivery, &mut planned, &since)?;
            if !planned.is_empty() {
                delivery.write_source(&offer)?;
            }
            Ok(planned)
        }
    };
    let planned = run_blocking(planning).await?;
    if planned.is_empty() {
        return Ok((Vec::new(), None));
    }
    let planned = Arc::new(planned);
    let mut refused = None;
    let choice = match state {
        PresentationState::Complete => {
            if let Some((hooks, stage)) = asked {
                let asked = HookEventPayload::Delivery(Arc::clone(&planned));
                let here = (Phase::Final, stage);
                refused = hooks::hook_refusal(&hooks, asked, here, &deliveries.stop).await;
            }
            match refused {
                None => deliveries.ask_for_selection(&delivery, &planned).await,
                Some(_) => DeliverySelection::take_none(&planned),
            }
        }
        PresentationState::Interrupted => DeliverySelection::take_none(&planned),
    };
    let applying = move || {
        let mut planned = DeliveryPlan::clone(&planned);
        let takes = select_hunks(&delivery, &mut planned, choice.takes, &choice.parts)?;
        apply(&delivery, &planned, &takes, kept_in.as_ref())
    };
    Ok((run_blocking(applying).await?, refused))
}

/// What an `attempt` of a run had delivered that was broken off after that and is gone on with, with the
/// name of the delivery; `None` if it had not come so far.
pub async fn recover_delivery(
    deliveries: &DeliverySettings,
    attempt: u32,
) -> Result<Option<(String, Vec<FileChange>)>> {
    let (dir, run) = (deliveries.dir.clone(), deliveries.run.clone());
    let looking = move || {
        for name in names_of(&run, &dir)? {
            let delivery = OpenDelivery::open(&dir, &name)?;
            if !delivery.is_applied() || delivery.read_source()?.attempt != attempt {
                continue;
            }
            let Some(delivered) = AppliedDelivery::open(delivery)? else {
                continue;
            };
            let changes = applied_changes(&delivered)?;
            if !changes.is_empty() {
                return Ok(Some((name, changes)));
            }
        }
        Ok(None)
    };
    run_blocking(looking).await
}

/// What of a delivery stands as it was delivered.
fn applied_changes(delivered: &AppliedDelivery) -> Result<Vec<FileChange>> {
    let names = delivered
        .names()
        .filter(|(_, _, now)| *now == DeliveredState::Applied);
    let change = |(path, deed, _): (AbsPath, EntryAction, DeliveredState)| {
        let kind = match deed {
            EntryAction::Create => ChangeKind::Created,
            EntryAction::Change => ChangeKind::Changed,
            EntryAction::Delete => ChangeKind::Deleted,
        };
        let path = locate(&path)?.into_real();
        Ok(FileChange { path, kind })
    };
    names.map(change).collect()
}

/// The delivery `name` of the run, which another process made.
pub async fn reopen_delivery(
    deliveries: &DeliverySettings,
    name: String,
) -> Result<Arc<OpenDelivery>> {
    let dir = deliveries.dir.clone();
    run_blocking(move || OpenDelivery::open(&dir, &name).map(Arc::new)).await
}

/// Takes back what was delivered, but for what somebody has changed since. Gives the paths that are as
/// they were before.
pub async fn revert_delivery(delivery: Arc<OpenDelivery>) -> Result<BTreeSet<AbsPath>> {
    let delivery = Arc::try_unwrap(delivery);
    let delivery = delivery.map_err(|_| Error::bug("the delivery is still under way"))?;
    let taking = move || {
        let Some(mut delivered) = AppliedDelivery::open(delivery)? else {
            return Ok(BTreeSet::new());
        };
        let rows = delivered.move_steps(UndoDirection::Back, &[], ChangedFilePolicy::Kept)?;
        let is_back =
            |row: &UndoRow| matches!(row.outcome, UndoOutcome::Restored | UndoOutcome::Removed);
        let back = rows.into_iter().filter(is_back);
        Ok(back.map(|row| row.path).collect())
    };
    run_blocking(taking).await
}

impl DeliverySettings {
    /// Whether the user keeps a delivery that does not hold, for this `reason`.
    pub async fn keeps_failed_delivery(&self, reason: &str) -> bool {
        let Some(Reviewer(questions)) = &self.reviewer else {
            return self.on_failed_check == FailedCheckPolicy::Keep;
        };
        if self.on_failed_check != FailedCheckPolicy::Ask {
            return self.on_failed_check == FailedCheckPolicy::Keep;
        }
        let (answer, answered) = oneshot::channel();
        let question = UserQuestion::FailedCheck {
            reason: reason.to_owned(),
            answer,
        };
        let asked = async {
            questions.send(question).await.ok()?;
            answered.await.ok()
        };
        tokio::select! {
            kept = asked => kept == Some(FailedCheckDecision::Keep),
            () = self.stop.cancelled() => false,
        }
    }

    /// Begins a delivery of the run. What is too much of older ones goes.
    pub async fn start_delivery(&self) -> Result<Arc<OpenDelivery>> {
        let (dir, run) = (self.dir.clone(), self.run.clone());
        let beginning = move || {
            let limits = RetentionLimits {
                count: DELIVERIES_MAX,
                bytes: None,
            };
            // Held, it is not taken for an old one.
            let delivery = OpenDelivery::create(&dir, &run)?;
            prune(&dir, limits)?;
            Ok(Arc::new(delivery))
        };
        run_blocking(beginning).await
    }

    async fn ask_for_selection(
        &self,
        delivery: &Arc<OpenDelivery>,
        plan: &Arc<DeliveryPlan>,
    ) -> DeliverySelection {
        let Some(Reviewer(questions)) = &self.reviewer else {
            return DeliverySelection::take_all(plan);
        };
        if self.mode == DeliveryMode::Auto || plan.items().is_empty() {
            return DeliverySelection::take_all(plan);
        }
        let (answer, answered) = oneshot::channel();
        let question = UserQuestion::Apply {
            delivery: Arc::clone(delivery),
            plan: Arc::clone(plan),
            answer,
        };
        let asked = async {
            questions.send(question).await.ok()?;
            answered.await.ok()
        };
        tokio::select! {
            choice = asked => choice.unwrap_or_else(|| DeliverySelection::take_none(plan)),
            () = self.stop.cancelled() => DeliverySelection::take_none(plan),
        }
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::bug("the delivery broke off"))?
}
