//! The questions of a run to the user, and the deliveries that depend on the answers: without a
//! user to ask, everything that may be applied is; without an answer, nothing. Deliveries are
//! reverted and recovered here too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::mpsc::WeakSender;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::config::checks::FailedCheckPolicy;
use crate::config::{DeliveryMode, DriftConflictPolicy};
use crate::delivery::choice::DeliveryChoice;
use crate::delivery::hunks::HunkChoice;
use crate::delivery::plan::{
    ContentSource, DeliveryConflict, DeliveryEntry, DeliveryPlan, EntryAction,
};
use crate::error::Result;
use crate::event::{ApprovalAnswer, InputChannel};
use crate::id::AgentId;
use crate::orchestrator::coordination_result::CoordinationEnd;
use crate::orchestrator::hooks::{HookEventPayload, hook_refusal};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Phase;
use crate::text::list_first;
use crate::world::access::hook_runner::HookRunner;
use crate::world::access::merge_bases::MergeBases;
use crate::world::approval::ApprovalRequest;
use crate::world::delivery::contents::change_since_plan;
use crate::world::delivery::merging::merge;
use crate::world::delivery::planning::{ConflictBaseline, EarlierFiles, PartialFiles, plan};
use crate::world::delivery::store::{
    DELIVERIES_MAX, DeliverySource, OpenDelivery, RetentionLimits, prune,
};
use crate::world::delivery::transaction::{SelectionOrigin, apply, select_hunks};
use crate::world::delivery::undo::{
    AppliedDelivery, ChangedFilePolicy, DeliveredState, UndoDirection, UndoOutcome, UndoRow,
};
use crate::world::io::event_sink::{QueuedEvent, wait_until_recorded};
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::io::locate::locate;
use crate::world::io::run_blocking;
use crate::world::io::tree_changes::WatchedTrees;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::store::delivery_names::names_of;

/// The most paths that the reason of a refused delivery lists.
const PATHS_LISTED_MAX: usize = 5;

/// Channel to the user, for questions about a run. Clones share it.
#[derive(Clone, Debug)]
pub struct Reviewer {
    /// Where the questions go.
    pub(crate) questions: mpsc::Sender<UserQuestion>,
    /// Where the answers come from.
    pub(crate) channel: InputChannel,
}

/// A question to the user.
#[derive(Debug)]
pub enum UserQuestion {
    /// Which changes of a delivery are applied.
    Apply {
        /// The delivery, whose files can be inspected.
        delivery: Arc<OpenDelivery>,
        /// Its planned changes.
        plan: Arc<DeliveryPlan>,
        /// Channel for the answer. If it is dropped, nothing is applied.
        answer: oneshot::Sender<DeliverySelection>,
    },
    /// Whether an agent's call is approved.
    Call {
        /// The agent.
        agent: AgentId,
        /// What it would do, and why approval is needed.
        question: ApprovalRequest,
        /// The file for persistent approvals; without one, there is no such answer.
        always: Option<AbsPath>,
        /// Channel for the answer. When it is closed, nothing waits for the answer any more.
        answer: oneshot::Sender<ApprovalAnswer>,
    },
    /// Whether a delivery whose checks fail is kept.
    FailedCheck {
        /// The failed checks, as the beginning of a sentence.
        reason: String,
        /// Channel for the answer. If it is dropped, the delivery is reverted.
        answer: oneshot::Sender<FailedCheckDecision>,
    },
    /// An open question.
    Open {
        /// Who asks what, as one sentence.
        question: String,
        /// What happens without an answer.
        without_answer: String,
        /// Channel for the answer, which may be empty. If it is dropped, there is none.
        answer: oneshot::Sender<String>,
    },
}

impl UserQuestion {
    /// Returns whether the run no longer waits for the answer.
    pub fn is_withdrawn(&self) -> bool {
        match self {
            UserQuestion::Apply { answer, .. } => answer.is_closed(),
            UserQuestion::Call { answer, .. } => answer.is_closed(),
            UserQuestion::FailedCheck { answer, .. } => answer.is_closed(),
            UserQuestion::Open { answer, .. } => answer.is_closed(),
        }
    }
}

impl Reviewer {
    /// Returns the user's answer to an open question, trimmed; `None` if there is none. The caller
    /// limits the time.
    pub async fn ask_open_question(
        &self,
        question: String,
        without_answer: String,
    ) -> Option<String> {
        let (answer, reply) = oneshot::channel();
        let question = UserQuestion::Open {
            question,
            without_answer,
            answer,
        };
        self.questions.send(question).await.ok()?;
        Some(reply.await.ok()?.trim().to_owned())
    }
}

/// Decision about a delivery whose checks fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedCheckDecision {
    /// It stays.
    Keep,
    /// It is reverted.
    Revert,
}

/// The changes of a plan that are applied.
#[derive(Clone, Debug, Default)]
pub struct DeliverySelection {
    /// One choice for each entry.
    pub choices: Vec<DeliveryChoice>,
    /// The choices for the hunks of files that are applied in part, by the index of the entry.
    pub parts: BTreeMap<usize, Vec<HunkChoice>>,
}

impl DeliverySelection {
    /// Selects everything that may be applied without a choice of its own.
    pub fn take_all(plan: &DeliveryPlan) -> Self {
        Self {
            choices: plan.select_all(),
            parts: BTreeMap::new(),
        }
    }

    /// Selects nothing.
    pub fn take_none(plan: &DeliveryPlan) -> Self {
        Self {
            choices: vec![DeliveryChoice::Leave; plan.entries.len()],
            parts: BTreeMap::new(),
        }
    }

    /// Returns whether it takes all of `plan` as it is in the source.
    fn is_whole(&self, plan: &DeliveryPlan) -> bool {
        let is_as_in_source = |entry: &DeliveryEntry| {
            entry.source == ContentSource::SourceDirectory && entry.conflict.is_none()
        };
        plan.refused.is_empty()
            && self.parts.is_empty()
            && plan.entries.iter().all(is_as_in_source)
            && (self.choices.iter()).all(|choice| *choice == DeliveryChoice::Apply)
    }

    /// Selects nothing that is reviewed, but the removal of every directory that is not reviewed by
    /// itself: it is removed if nothing in it stays.
    pub fn take_no_files(plan: &DeliveryPlan) -> Self {
        let mut selection = Self::take_none(plan);
        let reviewable_entries = plan.reviewable_entries().into_iter();
        let reviewed_indices: BTreeSet<usize> =
            reviewable_entries.map(|(index, _)| index).collect();
        let entries = plan.entries.iter().zip(&mut selection.choices).enumerate();
        for (index, (entry, choice)) in entries {
            let is_directory_removal = entry.ours.is_absent() && !entry.is_file();
            if is_directory_removal && !reviewed_indices.contains(&index) {
                *choice = DeliveryChoice::Apply;
            }
        }
        selection
    }
}

/// Creates a reviewer who answers over `channel`, and the receiver of its questions.
pub fn reviewer_channel(channel: InputChannel) -> (Reviewer, mpsc::Receiver<UserQuestion>) {
    let (questions, receiver) = mpsc::channel(1);
    (Reviewer { questions, channel }, receiver)
}

/// Settings of a run's deliveries.
#[derive(Clone, Debug)]
pub struct DeliverySettings {
    /// The directory of deliveries.
    pub dir: AbsPath,
    /// The name of the run.
    pub run: String,
    /// The versions of the user's files that agents read.
    pub merge_bases: MergeBases,
    /// Whether the user is asked which changes are applied.
    pub mode: DeliveryMode,
    /// What happens to a delivery whose checks fail.
    pub on_failed_check: FailedCheckPolicy,
    /// What happens to files that the user changed since the run began.
    pub drift: DriftConflictPolicy,
    /// Reviews the delivery before it is applied. `None` applies everything.
    pub reviewer: Option<Reviewer>,
    /// Cancelled when the user wants to stop; then no further question is asked.
    pub stop: CancellationToken,
    /// The queue of the run's events, as long as others send to it: a delivery waits until those
    /// before it are on the disk.
    pub events: WeakSender<QueuedEvent>,
}

/// State of the final agent's work when it is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresentationState {
    /// It is complete.
    Complete,
    /// It was interrupted: nothing is applied automatically, and its changes can be applied later.
    Interrupted,
}

impl PresentationState {
    /// Returns the state of work that ended in this way.
    pub fn from_end(end: CoordinationEnd) -> Self {
        match end {
            CoordinationEnd::Agreed => PresentationState::Complete,
            CoordinationEnd::Stopped(_) => PresentationState::Interrupted,
        }
    }
}

/// The hooks that are asked before a delivery.
#[derive(Debug)]
pub struct DeliveryHooks {
    /// Runs them.
    pub runner: HookRunner,
    /// The overlay that they see, if there is one.
    pub overlay: Option<WriteOverlay>,
}

/// Result of a delivery.
#[derive(Debug, Default)]
pub struct DeliveryResult {
    /// What happened to every path.
    pub changes: Vec<FileChange>,
    /// Why the hooks reject the delivery, if they do.
    pub refusal: Option<String>,
    /// Where the user selected the changes; `None` if they were not asked, or did not answer.
    pub selected_by: Option<InputChannel>,
    /// Whether everything in the source was applied, and nothing else, to trees that are as they
    /// were when it was checked.
    pub is_as_checked: bool,
}

/// Delivers the changes in `source`: plans the delivery, asks the hooks and the user, and applies
/// what is selected. massgen's versions of files that the user changed meanwhile go to
/// `conflicts_dir`; `checked_trees` are those on which the content was checked, if it was.
pub async fn deliver(
    deliveries: &DeliverySettings,
    delivery: &Arc<OpenDelivery>,
    source: DeliverySource,
    conflicts_dir: Option<RealPath>,
    state: PresentationState,
    hooks: Option<DeliveryHooks>,
    checked_trees: Option<WatchedTrees>,
) -> Result<DeliveryResult> {
    let (delivery, drift_policy) = (Arc::clone(delivery), deliveries.drift);
    let delivery_plan = deliveries.plan_delivery(&delivery, source).await?;
    if delivery_plan.is_empty() {
        return Ok(DeliveryResult::default());
    }
    let delivery_plan = Arc::new(delivery_plan);
    let (mut refusal, mut selected_by) = (None, None);
    let selection = match state {
        PresentationState::Complete => {
            refusal = drift_refusal(drift_policy, &delivery_plan)?;
            if let (None, Some(DeliveryHooks { runner, overlay })) = (&refusal, hooks) {
                let payload = HookEventPayload::Delivery(Arc::clone(&delivery_plan));
                let stop = &deliveries.stop;
                refusal = hook_refusal(&runner, payload, Phase::Final, overlay, stop).await;
            }
            match refusal {
                None => {
                    let selection = deliveries
                        .ask_for_selection(&delivery, &delivery_plan)
                        .await;
                    selected_by = selection.as_ref().map(|(_, channel)| *channel);
                    let default = || deliveries.default_selection(&delivery_plan);
                    selection.map_or_else(default, |(selection, _)| selection)
                }
                Some(_) => DeliverySelection::take_none(&delivery_plan),
            }
        }
        PresentationState::Interrupted => DeliverySelection::take_none(&delivery_plan),
    };
    let checked_trees = checked_trees.filter(|_| selection.is_whole(&delivery_plan));
    let apply_selection = move || {
        // As late as possible, because the user may have changed something during the review.
        let is_as_checked = checked_trees.is_some_and(|trees| trees.are_unchanged());
        let mut delivery_plan = DeliveryPlan::clone(&delivery_plan);
        let refusal = if refusal.is_none() && state == PresentationState::Complete {
            drift_refusal(drift_policy, &delivery_plan)?
        } else {
            refusal
        };
        let selection = match &refusal {
            None => selection,
            Some(_) => DeliverySelection::take_none(&delivery_plan),
        };
        let choices = select_hunks(
            &delivery,
            &mut delivery_plan,
            selection.choices,
            &selection.parts,
        )?;
        let origin = match selected_by {
            Some(_) => SelectionOrigin::Review,
            None => SelectionOrigin::Default,
        };
        let conflicts_dir = conflicts_dir.as_ref();
        let changes = apply(&delivery, &delivery_plan, &choices, origin, conflicts_dir)?;
        Ok(DeliveryResult {
            changes,
            refusal,
            selected_by,
            is_as_checked,
        })
    };
    run_blocking(apply_selection).await
}

/// Returns why nothing of `plan` is applied, if `policy` requires that nothing has changed since
/// the run began and the user has changed something.
fn drift_refusal(policy: DriftConflictPolicy, plan: &DeliveryPlan) -> Result<Option<String>> {
    match policy {
        DriftConflictPolicy::Skip | DriftConflictPolicy::PreferPresenter => return Ok(None),
        DriftConflictPolicy::Fail => {}
    }
    let mut drifted = Vec::new();
    for entry in &plan.entries {
        let conflict = match entry.conflict {
            Some(conflict) => Some(conflict),
            None => change_since_plan(plan, entry)?,
        };
        if conflict.is_some_and(DeliveryConflict::is_drift) {
            drifted.push(plan.path(entry).to_string());
        }
    }
    Ok((!drifted.is_empty()).then(|| {
        let paths = list_first(&drifted, PATHS_LISTED_MAX);
        format!("you changed {paths} since the run began (`drift_conflict_policy: fail`)")
    }))
}

/// Returns what a resumed run delivered after `restart` restarts, before it was interrupted, with
/// the name of the delivery; `None` if it delivered nothing.
pub async fn recover_delivery(
    deliveries: &DeliverySettings,
    restart: u32,
) -> Result<Option<(String, Vec<FileChange>)>> {
    let (dir, run) = (deliveries.dir.clone(), deliveries.run.clone());
    let search = move || {
        for name in names_of(&run, &dir)? {
            let delivery = OpenDelivery::open(&dir, &name)?;
            if !delivery.is_applied()? || delivery.read_source()?.restart != restart {
                continue;
            }
            let Some(applied_delivery) = AppliedDelivery::open(delivery)? else {
                continue;
            };
            let changes = applied_changes(&applied_delivery)?;
            if !changes.is_empty() {
                return Ok(Some((name, changes)));
            }
        }
        Ok(None)
    };
    run_blocking(search).await
}

/// Returns the changes of a delivery that are still as it delivered them.
fn applied_changes(delivery: &AppliedDelivery) -> Result<Vec<FileChange>> {
    let names = delivery
        .listed_paths()
        .filter(|(_, _, state)| *state == DeliveredState::Applied);
    let change = |(path, action, _): (AbsPath, EntryAction, DeliveredState)| {
        let kind = match action {
            EntryAction::Create => ChangeKind::Created,
            EntryAction::Change => ChangeKind::Changed,
            EntryAction::Delete => ChangeKind::Deleted,
        };
        let path = locate(&path)?.into_real();
        Ok(FileChange::new(path, kind))
    };
    names.map(change).collect()
}

/// Opens the delivery `name` of the run, which another process created.
pub async fn reopen_delivery(
    deliveries: &DeliverySettings,
    name: String,
) -> Result<Arc<OpenDelivery>> {
    let dir = deliveries.dir.clone();
    run_blocking(move || OpenDelivery::open(&dir, &name).map(Arc::new)).await
}

/// Reverts a delivery, except for files that were changed since. Returns the paths that are as they
/// were before.
pub async fn revert_delivery(delivery: Arc<OpenDelivery>) -> Result<BTreeSet<AbsPath>> {
    let revert = move || {
        let Some(applied_delivery) = AppliedDelivery::open(delivery)? else {
            return Ok(BTreeSet::new());
        };
        let rows =
            applied_delivery.undo_or_redo(UndoDirection::Undo, &[], ChangedFilePolicy::Kept)?;
        let is_reverted =
            |row: &UndoRow| matches!(row.outcome, UndoOutcome::Restored | UndoOutcome::Removed);
        let reverted_rows = rows.into_iter().filter(is_reverted);
        Ok(reverted_rows.map(|row| row.path).collect())
    };
    run_blocking(revert).await
}

impl DeliverySettings {
    /// Returns whether a delivery whose checks fail is kept; `reason` is shown to the user.
    pub async fn keeps_failed_delivery(&self, reason: &str) -> bool {
        let Some(Reviewer { questions, .. }) = &self.reviewer else {
            return self.on_failed_check == FailedCheckPolicy::Keep;
        };
        if self.on_failed_check != FailedCheckPolicy::Ask {
            return self.on_failed_check == FailedCheckPolicy::Keep;
        }
        let (answer, reply) = oneshot::channel();
        let question = UserQuestion::FailedCheck {
            reason: reason.to_owned(),
            answer,
        };
        let exchange = async {
            questions.send(question).await.ok()?;
            reply.await.ok()
        };
        tokio::select! {
            decision = exchange => decision == Some(FailedCheckDecision::Keep),
            () = self.stop.cancelled() => false,
        }
    }

    /// Starts a delivery of the run once all events before it are recorded: a run that is killed
    /// while it delivers finds its answer in the log. Prunes excess older deliveries.
    pub async fn start_delivery(&self) -> Result<Arc<OpenDelivery>> {
        if let Some(events) = self.events.upgrade() {
            wait_until_recorded(&events).await;
        }
        let (dir, run) = (self.dir.clone(), self.run.clone());
        let start = move || {
            let limits = RetentionLimits {
                count: DELIVERIES_MAX,
                bytes: None,
            };
            // An open delivery is not pruned.
            let delivery = OpenDelivery::create(&dir, &run)?;
            prune(&dir, limits)?;
            Ok(Arc::new(delivery))
        };
        run_blocking(start).await
    }

    /// Plans the delivery of `source`, and records it.
    async fn plan_delivery(
        &self,
        delivery: &Arc<OpenDelivery>,
        source: DeliverySource,
    ) -> Result<DeliveryPlan> {
        let merge_bases = Some(self.merge_bases.clone());
        let offers_drift =
            self.drift == DriftConflictPolicy::PreferPresenter && self.reviewer.is_some();
        let delivery = Arc::clone(delivery);
        let make_plan = move || {
            let baseline = ConflictBaseline {
                began_ns: i128::from(source.began_ns),
                merge_bases,
                partial: PartialFiles::default(),
                earlier: EarlierFiles::default(),
            };
            let mut delivery_plan = plan(&delivery, &source, Some(&baseline))?;
            merge(&delivery, &mut delivery_plan, &baseline)?;
            if offers_drift {
                delivery_plan.offer_drift();
            }
            if !delivery_plan.is_empty() {
                delivery.write_source(&source)?;
            }
            Ok(delivery_plan)
        };
        run_blocking(make_plan).await
    }

    /// Returns the reviewer if the user is to select changes of `plan`.
    fn reviewer_of(&self, plan: &DeliveryPlan) -> Option<&Reviewer> {
        let needs_answer = plan.entries.iter().any(|entry| entry.consent.is_some());
        let is_reviewed = (self.mode != DeliveryMode::Auto || needs_answer)
            && !plan.reviewable_entries().is_empty();
        self.reviewer.as_ref().filter(|_| is_reviewed)
    }

    /// Returns what is applied without an answer: everything that needs none, unless the user was
    /// to select it.
    fn default_selection(&self, plan: &DeliveryPlan) -> DeliverySelection {
        match self.reviewer_of(plan) {
            Some(_) if self.mode != DeliveryMode::Auto => DeliverySelection::take_none(plan),
            Some(_) | None => DeliverySelection::take_all(plan),
        }
    }

    /// Asks the user to select changes of `plan`, and returns where the answer came from. `None` if
    /// the user is not asked, or does not answer.
    async fn ask_for_selection(
        &self,
        delivery: &Arc<OpenDelivery>,
        plan: &Arc<DeliveryPlan>,
    ) -> Option<(DeliverySelection, InputChannel)> {
        let Reviewer { questions, channel } = self.reviewer_of(plan)?;
        let (answer, reply) = oneshot::channel();
        let question = UserQuestion::Apply {
            delivery: Arc::clone(delivery),
            plan: Arc::clone(plan),
            answer,
        };
        let exchange = async {
            questions.send(question).await.ok()?;
            reply.await.ok()
        };
        tokio::select! {
            selection = exchange => selection.map(|selection| (selection, *channel)),
            () = self.stop.cancelled() => None,
        }
    }
}
