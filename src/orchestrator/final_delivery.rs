//! The delivery of the final phase: what the winner changed, in its attempt or while it presented,
//! reaches the user's trees. If it leaves its files in the workspace although a path is open for
//! writing, they are copied to that path through the same gate.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use crate::agent::calls::ToolEffects;
use crate::agent::deadline::{RunDeadline, StopCause};
use crate::agent::{ModelSession, emit};
use crate::answer_changes::ChangeLayers;
use crate::check_results::CheckResult;
use crate::error::{Error, Result};
use crate::event::{DeliveryOutcome, DeliveryRow, InputChannel, RunEvent};
use crate::orchestrator::check_runner::{CheckTarget, failure_of_checks};
use crate::orchestrator::coordination_result::{
    AcceptedAnswer, CoordinationEnd, CoordinationResult,
};
use crate::orchestrator::delivery_rows::{delivery_rows, user_path_changes};
use crate::orchestrator::grants::{first_write_tree, permission_manager, real_path, write_roots};
use crate::orchestrator::hooks::{self, HookEventPayload};
use crate::orchestrator::overlays::OverlayPurpose;
use crate::orchestrator::review::{self, DeliveryHooks, DeliverySettings, PresentationState};
use crate::orchestrator::team::{AgentTeam, ModelConnection, TeamMember};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Phase};
use crate::prompts::TaskPrompt;
use crate::text::single_line;
use crate::world::access::gate::Gate;
use crate::world::access::verdict::PermitError;
use crate::world::delivery::store::{DeliverySource, OpenDelivery, SourceDirectory, SourceLayout};
use crate::world::exec;
use crate::world::exec::fingerprint::{HASHED_BYTES_MAX, fingerprint};
use crate::world::exec::tool_result::{ActionOutcome, Observation};
use crate::world::io::event_sink::QueuedEvent;
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::io::run_blocking;
use crate::world::io::tree_changes::WatchedTrees;
use crate::world::sandbox::overlay::WriteOverlay;

/// Maximum length, in a warning, of the reason why hooks stop a delivery, in characters.
const REASON_CHARS_MAX: usize = 300;

/// Warning if the final agent left it to massgen to deliver its workspace.
const WORKSPACE_DELIVERED: &str = "the winner wrote nothing to your paths, so the files of its \
                                   workspace are delivered";

/// Result of the final phase.
#[derive(Debug)]
pub struct FinalPhaseResult {
    /// The final answer.
    pub text: Arc<str>,
    /// The outcomes for files outside the workspace.
    pub rows: Vec<DeliveryRow>,
    /// Where the user selected the changes to apply; `None` if they were not asked.
    pub selected_by: Option<InputChannel>,
    /// How it ended.
    pub end: CoordinationEnd,
    /// The conversation, for the evaluation of the result; `None` if there is nothing to evaluate.
    pub session: Option<ModelSession>,
}

impl FinalPhaseResult {
    /// Returns the result if nothing was presented: the stored answer.
    pub fn from_stored_answer(stored_answer: Arc<str>, end: CoordinationEnd) -> Self {
        Self {
            text: stored_answer,
            rows: Vec::new(),
            selected_by: None,
            end,
            session: None,
        }
    }
}

/// Input of the final phase.
#[derive(Debug)]
pub struct FinalPhaseInput<'a> {
    /// The agent that presents.
    pub member: &'a TeamMember,
    /// How its model is reached.
    pub connection: ModelConnection,
    /// The user's task.
    pub task: &'a TaskPrompt,
    /// All answers and votes.
    pub coordination: &'a CoordinationResult,
    /// The answer to use if the model gives no text.
    pub stored_answer: Arc<str>,
    /// The number of restarts before it.
    pub restart: u32,
    /// The deadline.
    pub deadline: &'a RunDeadline,
    /// Why the answer is delivered and not what was presented, if the record of the run says so.
    pub kept_answer: Option<String>,
}

/// Delivers what the winning answer changed in its attempt, or only offers it if the coordination
/// was stopped.
pub async fn deliver_answer(
    team: &AgentTeam,
    input: FinalPhaseInput<'_>,
    answer: &AcceptedAnswer,
) -> Result<FinalPhaseResult> {
    let end = input.coordination.end;
    let FinalPhaseInput {
        member,
        connection,
        stored_answer,
        restart,
        deadline,
        ..
    } = input;
    let delivery = FinalDelivery {
        team,
        member,
        content: answer_content(team, member, answer, restart).await?,
        is_as_checked: false,
        open_delivery: team.start_delivery().await?,
        state: PresentationState::from_end(end),
        restart,
        events: connection.events.clone(),
        selected_by: None,
    };
    let effects = ToolEffects::default();
    delivery
        .complete(effects, stored_answer, end, deadline)
        .await
}

/// Returns the content of a delivery of what `answer` changes.
pub(super) async fn answer_content(
    team: &AgentTeam,
    member: &TeamMember,
    answer: &AcceptedAnswer,
    restart: u32,
) -> Result<DeliveryContent> {
    let layers = answer.layers();
    let view = match team.hooks(member)? {
        Some(_) => {
            let purpose = OverlayPurpose::View(restart);
            team.open_overlay(member, purpose, &layers).await?.0
        }
        None => None,
    };
    Ok(DeliveryContent::Answer {
        layers,
        view,
        checked_since_ns: answer.checked_since_ns(),
        settled_checks: answer.results_with_fixed_files(),
    })
}

/// Records the write paths of `member` without anything to deliver, so that the user can apply one
/// of the answers that did not win. Returns the name of that delivery, if there are write paths.
pub(super) async fn offer_answers(
    team: &AgentTeam,
    member: &TeamMember,
    restart: u32,
) -> Result<Option<String>> {
    let grants = member.write_grants();
    let delivery = team.start_delivery().await?;
    let (Some((_, conflicts)), Some(delivery)) = (team.delivery_settings(), delivery) else {
        return Ok(None);
    };
    if grants.is_empty() {
        return Ok(None);
    }
    let source = DeliverySource {
        source_dirs: vec![None; grants.len()],
        grants,
        began_ns: i64::try_from(conflicts.run_started_ns).unwrap_or_default(),
        restart,
        left_out_of_answers: left_out_of_answers(team),
    };
    let name = delivery.name().to_owned();
    run_blocking(move || delivery.write_source(&source)).await?;
    Ok(Some(name))
}

/// Returns the directories of workspaces that do not belong to answers.
fn left_out_of_answers(team: &AgentTeam) -> Vec<RelPath> {
    let names = team.left_out_of_answers().into_iter();
    names.filter_map(RelPath::new).collect()
}

/// Delivery of the winner's files to the user.
pub(super) struct FinalDelivery<'a> {
    pub(super) team: &'a AgentTeam,
    pub(super) member: &'a TeamMember,
    pub(super) content: DeliveryContent,
    /// Whether the user's trees are now as the checks saw them.
    pub(super) is_as_checked: bool,
    pub(super) open_delivery: Option<Arc<OpenDelivery>>,
    pub(super) state: PresentationState,
    pub(super) restart: u32,
    pub(super) events: Sender<QueuedEvent>,
    /// Where the user selected the changes, once they have.
    pub(super) selected_by: Option<InputChannel>,
}

/// Where the content of a delivery is.
pub(super) enum DeliveryContent {
    /// In the user's trees already.
    InPlace,
    /// On the overlay of the final agent.
    Overlay(WriteOverlay),
    /// In the layers of an answer.
    Answer {
        /// The layers.
        layers: ChangeLayers,
        /// The overlay on which hooks see it, if there are hooks.
        view: Option<WriteOverlay>,
        /// When the checks on it began, in nanoseconds since 1970, if they have passed.
        checked_since_ns: Option<i128>,
        /// The results of the checks that did not see all of it.
        settled_checks: Vec<CheckResult>,
    },
}

impl DeliveryContent {
    /// Returns the layer over the user's directory `dir`, if there is one.
    fn layer_over(&self, dir: &RealPath) -> Option<AbsPath> {
        match self {
            DeliveryContent::InPlace => None,
            DeliveryContent::Overlay(overlay) => {
                let tree = overlay.trees().find(|tree| tree.root == dir)?;
                Some(tree.upper.clone())
            }
            DeliveryContent::Answer { layers, .. } => layers.over(&dir.to_abs()).cloned(),
        }
    }

    /// Returns the overlay that shows it.
    fn overlay(&self) -> Option<&WriteOverlay> {
        match self {
            DeliveryContent::InPlace => None,
            DeliveryContent::Overlay(overlay) => Some(overlay),
            DeliveryContent::Answer { view, .. } => view.as_ref(),
        }
    }
}

impl FinalDelivery<'_> {
    /// Delivers, in addition to the `effects` so far, and returns the result without a conversation.
    pub(super) async fn complete(
        mut self,
        mut effects: ToolEffects,
        text: Arc<str>,
        end: CoordinationEnd,
        deadline: &RunDeadline,
    ) -> Result<FinalPhaseResult> {
        let (team, member, events) = (self.team, self.member, self.events.clone());
        let permissions = permission_manager(&member.grants, Phase::Final);
        let has_written = user_path_changes(&effects.changes, &permissions).any(is_done);
        self.apply_content(&mut effects).await?;
        let has_delivered =
            has_written || user_path_changes(&effects.changes, &permissions).any(is_done);
        let is_captured = matches!(self.content, DeliveryContent::Answer { .. });
        if end == CoordinationEnd::Agreed && !has_delivered && !is_captured {
            self.deliver_workspace(&mut effects, &permissions).await?;
        }
        let selected_by = self.selected_by;
        let open_delivery = self.open_delivery.as_ref();
        let name = open_delivery.map(|open| open.name().to_owned());
        if !self.is_as_checked && user_path_changes(&effects.changes, &permissions).any(is_in_place)
        {
            self.verify(&mut effects, deadline, &events).await?;
        }
        let user_tree_gate = team.delivery_gate(member, None)?;
        let rows = delivery_rows(&effects, &permissions, &team.working_directory(member));
        let rows = with_fingerprints(rows, user_tree_gate).await?;
        run_delivered_hooks(team, member, &rows, deadline).await?;
        let end = end_after_interrupt(end, &rows, deadline);
        let kept_name = name.as_deref().filter(|_| end != CoordinationEnd::Agreed);
        let notes = failed_delivery_note(&rows, member)
            .into_iter()
            .chain(unlisted_change_notes(&effects, &permissions))
            .chain(undelivered_note(&rows, kept_name));
        for message in notes {
            emit(&events, RunEvent::Warning { message }).await;
        }
        Ok(FinalPhaseResult {
            text,
            rows,
            selected_by,
            end,
            session: None,
        })
    }

    /// Returns the user's trees on which the checks passed, if they have.
    fn checked_trees(&self, settings: &DeliverySettings) -> Option<WatchedTrees> {
        let DeliveryContent::Answer {
            checked_since_ns: Some(since_ns),
            ..
        } = self.content
        else {
            return None;
        };
        let grants = self.member.grants.iter();
        let trees = grants.filter(|grant| grant.kind == GrantKind::Context);
        Some(WatchedTrees {
            roots: trees.map(|grant| grant.root.clone()).collect(),
            except: settings.dir.parent()?,
            since_ns,
        })
    }

    /// Delivers the changes in the layers. In `effects`, their outcomes replace the changes.
    async fn apply_content(&mut self, effects: &mut ToolEffects) -> Result<()> {
        let written = match &self.content {
            DeliveryContent::InPlace => return Ok(()),
            DeliveryContent::Overlay(overlay) => {
                let overlay = overlay.clone();
                run_blocking(move || overlay.sync_layers()).await
            }
            DeliveryContent::Answer { .. } => Ok(()),
        };
        let changes = match written {
            Ok(()) => self.deliver(source_directory).await?,
            Err(error) => failed_changes(&write_roots(&self.member.grants), &error),
        };
        effects.changes.retain(|change| !is_in_place(change));
        effects.add(ToolEffects::from_changes(changes));
        Ok(())
    }

    /// Runs the checks on what was delivered, and reverts it if they require that.
    async fn verify(
        mut self,
        effects: &mut ToolEffects,
        deadline: &RunDeadline,
        events: &Sender<QueuedEvent>,
    ) -> Result<()> {
        let Some(check_runner) = self.team.check_runner() else {
            return Ok(());
        };
        // The changes are in the user's trees now, and no overlay is needed any more.
        let settled = match mem::replace(&mut self.content, DeliveryContent::InPlace) {
            DeliveryContent::Answer { settled_checks, .. } => settled_checks,
            DeliveryContent::InPlace | DeliveryContent::Overlay(_) => Vec::new(),
        };
        let (agent, target) = (&self.member.id, CheckTarget::Delivery { settled });
        let results = check_runner.run_checks(agent, target, deadline, events);
        let results = results.await;
        let Some(reason) = failure_of_checks(&results, deadline) else {
            return Ok(());
        };
        let (Some((settings, _)), Some(delivery)) =
            (self.team.delivery_settings(), self.open_delivery)
        else {
            return Ok(());
        };
        if settings.keeps_failed_delivery(&reason).await {
            let message = format!("{reason}; the delivery is kept");
            emit(events, RunEvent::Warning { message }).await;
            return Ok(());
        }
        let reverted = review::revert_delivery(delivery).await?;
        for change in &mut effects.changes {
            if reverted.contains(&change.path.to_abs()) {
                let reason = reason.clone();
                change.kind = ChangeKind::Reverted { reason };
            }
        }
        Ok(())
    }

    /// Delivers the files in the agent's workspace, and reports that.
    async fn deliver_workspace(
        &mut self,
        effects: &mut ToolEffects,
        permissions: &PathPermissionManager,
    ) -> Result<()> {
        effects.add(self.copy_workspace().await?);
        if matches!(self.content, DeliveryContent::Overlay(_)) {
            self.apply_content(effects).await?;
        }
        if user_path_changes(&effects.changes, permissions).any(is_done) {
            let message = WORKSPACE_DELIVERED.to_owned();
            emit(&self.events, RunEvent::Warning { message }).await;
        }
        Ok(())
    }

    /// Copies the workspace to the first write path that is a directory: in the overlay, or without
    /// one in the user's own tree.
    async fn copy_workspace(&mut self) -> Result<ToolEffects> {
        let target = first_write_tree(&self.member.grants);
        let (Some(workspace), Some(target)) = (&self.member.workspace, target) else {
            return Ok(ToolEffects::default());
        };
        let DeliveryContent::Overlay(overlay) = &self.content else {
            let source = SourceDirectory {
                path: real_path(workspace)?.to_abs(),
                layout: SourceLayout::SeparateDirectory,
                left_out: left_out_of_answers(self.team),
            };
            let source_for = |_: &DeliveryContent, grant: &Grant, _: &mut _| {
                (grant.root == *target && grant.scope == GrantScope::Tree).then(|| source.clone())
            };
            return self
                .deliver(source_for)
                .await
                .map(ToolEffects::from_changes);
        };
        let Some((gate, call)) = self.team.workspace_copy(self.member, overlay)? else {
            return Ok(ToolEffects::default());
        };
        let root = target.clone();
        let work = move || match gate.check(call) {
            Ok(permitted) => {
                ToolEffects::from_changes(observed_changes(exec::run(permitted), root))
            }
            Err(PermitError::Denied(denial)) => ToolEffects::from_denial(denial),
            Err(error @ PermitError::Exhausted(_)) => {
                ToolEffects::from_changes(observed_changes(error.into(), root))
            }
        };
        run_blocking(move || Ok(work())).await
    }

    /// Delivers the source directory that `source_for` returns for each write path.
    async fn deliver(
        &mut self,
        source_for: impl Fn(&DeliveryContent, &Grant, &mut BTreeSet<AbsPath>) -> Option<SourceDirectory>,
    ) -> Result<Vec<FileChange>> {
        let (Some((settings, conflicts)), Some(delivery)) =
            (self.team.delivery_settings(), &self.open_delivery)
        else {
            return Ok(Vec::new());
        };
        let roots = write_roots(&self.member.grants);
        let mut used_directories = BTreeSet::new();
        let source = DeliverySource {
            grants: self.member.write_grants(),
            source_dirs: roots
                .iter()
                .map(|grant| source_for(&self.content, grant, &mut used_directories))
                .collect(),
            began_ns: i64::try_from(conflicts.run_started_ns).unwrap_or_default(),
            restart: self.restart,
            left_out_of_answers: left_out_of_answers(self.team),
        };
        let conflicts_dir = Some(conflicts.dir.clone());
        let hooks = self.team.hooks(self.member)?;
        let hooks = hooks.map(|runner| DeliveryHooks {
            runner,
            overlay: self.content.overlay().cloned(),
        });
        let delivery_result = match review::deliver(
            settings,
            delivery,
            source,
            conflicts_dir,
            self.state,
            hooks,
            self.checked_trees(settings),
        )
        .await
        {
            Ok(delivery_result) => delivery_result,
            Err(error) => return Ok(failed_changes(&roots, &error)),
        };
        if let Some(reason) = delivery_result.refusal {
            let (name, reason) = (delivery.name(), single_line(&reason, REASON_CHARS_MAX));
            let message = format!(
                "nothing was delivered: {reason}; see `massgen diff {name}`, and apply it with \
                     `massgen apply {name}`"
            );
            emit(&self.events, RunEvent::Warning { message }).await;
        }
        self.selected_by = delivery_result.selected_by.or(self.selected_by);
        self.is_as_checked = delivery_result.is_as_checked;
        Ok(delivery_result.changes)
    }
}

/// Informs the user's hooks about the outcomes for the files, if there are any.
async fn run_delivered_hooks(
    team: &AgentTeam,
    member: &TeamMember,
    rows: &[DeliveryRow],
    deadline: &RunDeadline,
) -> Result<()> {
    let hooks = team.hooks(member)?.filter(|_| !rows.is_empty());
    if let Some(hooks) = hooks {
        let payload = HookEventPayload::Delivered(rows.to_vec());
        // The delivery is complete, so a refusal has no effect.
        let _refusal =
            hooks::hook_refusal(&hooks, payload, Phase::Final, None, &deadline.stop).await;
    }
    Ok(())
}

/// Returns the result of a final phase that was interrupted after it had delivered and before it
/// reported so.
pub(super) async fn recover_result(
    team: &AgentTeam,
    input: &FinalPhaseInput<'_>,
) -> Result<Option<FinalPhaseResult>> {
    let FinalPhaseInput {
        member,
        connection,
        stored_answer,
        restart,
        deadline,
        kept_answer,
        ..
    } = input;
    let (Some(conversation), Some((settings, _))) =
        (&connection.recorded, team.delivery_settings())
    else {
        return Ok(None);
    };
    let Some((name, changes)) = review::recover_delivery(settings, *restart).await? else {
        return Ok(None);
    };
    let mut effects = ToolEffects::from_changes(changes);
    let delivery = FinalDelivery {
        team,
        member,
        content: DeliveryContent::InPlace,
        is_as_checked: false,
        open_delivery: Some(review::reopen_delivery(settings, name).await?),
        state: PresentationState::Complete,
        restart: *restart,
        events: connection.events.clone(),
        selected_by: None,
    };
    delivery
        .verify(&mut effects, deadline, &connection.events)
        .await?;
    let permissions = permission_manager(&member.grants, Phase::Final);
    let user_tree_gate = team.delivery_gate(member, None)?;
    let rows = delivery_rows(&effects, &permissions, &team.working_directory(member));
    let end = end_after_interrupt(CoordinationEnd::Agreed, &rows, deadline);
    Ok(Some(FinalPhaseResult {
        text: conversation
            .last_presented_text()
            .filter(|_| kept_answer.is_none())
            .map_or_else(|| Arc::clone(stored_answer), |text| text.trim().into()),
        rows: with_fingerprints(rows, user_tree_gate).await?,
        selected_by: None,
        end,
        session: None,
    }))
}

/// Returns notes about directories whose changes may not all be listed in the rows.
fn unlisted_change_notes(
    effects: &ToolEffects,
    permissions: &PathPermissionManager,
) -> BTreeSet<String> {
    let note_about = |change: &FileChange| {
        let ChangeKind::Unlisted { reason } = &change.kind else {
            return None;
        };
        Some(format!(
            "commands may have made more changes in `{}` than listed: {reason}",
            change.path
        ))
    };
    user_path_changes(&effects.changes, permissions)
        .filter_map(note_about)
        .collect()
}

/// Returns the layer of `content` for the directory that `grant` opens, or in which it opens a file.
/// Files of the same directory share a layer, which is returned once.
fn source_directory(
    content: &DeliveryContent,
    grant: &Grant,
    used_directories: &mut BTreeSet<AbsPath>,
) -> Option<SourceDirectory> {
    let dir = match grant.scope {
        GrantScope::Tree => grant.root.clone(),
        GrantScope::File => grant.root.parent()?,
    };
    let path = content.layer_over(&dir)?;
    used_directories
        .insert(path.clone())
        .then(|| SourceDirectory {
            path,
            layout: SourceLayout::OverlayLayer,
            left_out: Vec::new(),
        })
}

/// Returns how the final phase ends: interrupted if the user stopped it during a question or a
/// check, so that something is not delivered, and otherwise as `end` says.
fn end_after_interrupt(
    end: CoordinationEnd,
    rows: &[DeliveryRow],
    deadline: &RunDeadline,
) -> CoordinationEnd {
    use DeliveryOutcome::{Declined, Reverted};
    let is_missing = |row: &DeliveryRow| matches!(row.outcome, Declined | Reverted { .. });
    if end == CoordinationEnd::Agreed && deadline.stop.is_cancelled() && rows.iter().any(is_missing)
    {
        CoordinationEnd::Stopped(StopCause::Interrupted)
    } else {
        end
    }
}

/// Returns the note about changes that an interrupted final phase did not deliver; `name` is that
/// of its delivery.
fn undelivered_note(rows: &[DeliveryRow], name: Option<&str>) -> Option<String> {
    let is_declined = |row: &DeliveryRow| matches!(row.outcome, DeliveryOutcome::Declined);
    let name = name.filter(|_| rows.iter().any(is_declined))?;
    Some(format!(
        "the final agent's changes were not delivered; see `massgen diff {name}`, and apply them \
         with `massgen apply {name}`"
    ))
}

/// Returns the note about files that could not be written.
fn failed_delivery_note(rows: &[DeliveryRow], member: &TeamMember) -> Option<String> {
    let is_failed = |row: &DeliveryRow| matches!(row.outcome, DeliveryOutcome::Failed { .. });
    let workspace = member
        .workspace
        .as_ref()
        .filter(|_| rows.iter().any(is_failed))?;
    Some(format!("undelivered files are still in `{workspace}`"))
}

/// Returns whether a file was changed in place, in the overlay or in the user's tree.
fn is_in_place(change: &FileChange) -> bool {
    use ChangeKind::{Changed, Created, Deleted, Mode, PartlyChanged};
    matches!(
        change.kind,
        Created | Changed | PartlyChanged { .. } | Deleted | Mode { .. }
    )
}

/// Returns the changes of a delivery that failed as a whole: one for each root.
fn failed_changes(roots: &[&Grant], error: &Error) -> Vec<FileChange> {
    let change = |grant: &&Grant| {
        FileChange::new(
            grant.root.clone(),
            ChangeKind::Failed {
                reason: format!("{error:#}"),
            },
        )
    };
    roots.iter().map(change).collect()
}

/// Returns the changes of `observation`. If it failed before it changed a file, one change of
/// `root` represents them all.
fn observed_changes(observation: Observation, root: RealPath) -> Vec<FileChange> {
    let Observation {
        outcome,
        content,
        changes,
        ..
    } = observation;
    if outcome == ActionOutcome::Done || !changes.is_empty() {
        return changes;
    }
    let kind = ChangeKind::Failed { reason: content };
    vec![FileChange::new(root, kind)]
}

/// Returns whether the change was made, or not made because the user changed or declined it.
fn is_done(change: &FileChange) -> bool {
    !matches!(
        change.kind,
        ChangeKind::Denied { .. }
            | ChangeKind::Failed { .. }
            | ChangeKind::Unlisted { .. }
            | ChangeKind::Reverted { .. }
    )
}

/// Adds to `rows` the sizes and hashes of those files on disk that `gate` lets be read.
async fn with_fingerprints(
    mut rows: Vec<DeliveryRow>,
    gate: Option<Gate>,
) -> Result<Vec<DeliveryRow>> {
    let Some(gate) = gate else {
        return Ok(rows);
    };
    let work = move || {
        let mut bytes_left = HASHED_BYTES_MAX;
        for row in rows.iter_mut().filter(|row| row.outcome.is_delivered()) {
            let digest = fingerprint(&gate, &row.path, &mut bytes_left);
            row.bytes = digest.as_ref().map(|digest| digest.bytes);
            row.sha256 = digest.and_then(|digest| digest.sha256);
        }
        rows
    };
    run_blocking(move || Ok(work())).await
}
