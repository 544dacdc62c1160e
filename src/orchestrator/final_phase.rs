//! The final phase of a turn: the winner presents the answer with a gate of its own, and its
//! changes are delivered. If it leaves its files in the workspace although a path is open for
//! writing, they are copied to that path through the same gate.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use crate::agent::calls::ToolEffects;
use crate::agent::deadline::{RunDeadline, StopCause};
use crate::agent::presentation::{PresentationStop, present};
use crate::agent::{ModelSession, emit};
use crate::error::{Error, Result};
use crate::event::{DeliveryEvent, DeliveryOutcome, DeliveryRow, InputChannel, RunEvent};
use crate::id::AgentNumber;
use crate::orchestrator::check_runner::CheckTarget;
use crate::orchestrator::coordination::{
    AcceptedAnswer, CoordinationEnd, CoordinationResult, CountedVote,
};
use crate::orchestrator::delivery_rows::{delivery_rows, user_path_changes};
use crate::orchestrator::grants::{permission_manager, real_path, write_roots};
use crate::orchestrator::hooks::{self, HookEventPayload};
use crate::orchestrator::review::{self, DeliveryHooks, PresentationState};
use crate::orchestrator::team::{AgentTeam, ModelConnection, TeamMember};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantScope, Phase};
use crate::prompts::untrusted_text::UntrustedText;
use crate::prompts::{self, AnswerView, CandidateVotes, TaskPrompt};
use crate::text::single_line;
use crate::tools::call::{ExistingTarget, FileSelection, ToolCall, UserPath};
use crate::world::access::gate::Gate;
use crate::world::delivery::store::{DeliverySource, OpenDelivery, SourceDirectory, SourceLayout};
use crate::world::exec::fingerprint::fingerprint;
use crate::world::exec::{self, ActionOutcome, Observation};
use crate::world::io::event_queue::QueuedEvent;
use crate::world::io::file_change::{ChangeKind, FileChange};
use crate::world::sandbox::exec_environment::ExecEnvironment;
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
    /// The number of the attempt that it ends.
    pub attempt: u32,
    /// The deadline.
    pub deadline: &'a RunDeadline,
}

/// Reports that the final phase was stopped before it started, and returns its result.
async fn unstarted_result(
    stored_answer: Arc<str>,
    stop_cause: StopCause,
    events: &Sender<QueuedEvent>,
) -> FinalPhaseResult {
    let status = stop_cause.exit_status();
    emit(events, RunEvent::CoordinationStopped { status }).await;
    FinalPhaseResult::from_stored_answer(stored_answer, CoordinationEnd::Stopped(stop_cause))
}

/// Begins the conversation of the final agent with `message`.
async fn start_conversation(
    team: &AgentTeam,
    member: &TeamMember,
    overlay: Option<&WriteOverlay>,
    notes: Vec<String>,
    message: &str,
    connection: ModelConnection,
) -> Result<ModelSession> {
    let session = team
        .model_session(member, Phase::Final, overlay, message, connection)
        .await?;
    let agent = member.id.clone();
    session.emit(DeliveryEvent::FinalStarted { agent }).await;
    for message in notes {
        session.emit(RunEvent::Warning { message }).await;
    }
    Ok(session)
}

/// Runs the winner's presentation and delivers its files.
pub async fn present_and_deliver(
    team: &AgentTeam,
    input: FinalPhaseInput<'_>,
) -> Result<FinalPhaseResult> {
    let FinalPhaseInput {
        member,
        connection,
        task,
        coordination,
        stored_answer,
        attempt,
        deadline,
    } = input;
    let recovery = recover_result(team, member, &connection, &stored_answer, attempt, deadline);
    if let Some(final_result) = recovery.await? {
        return Ok(final_result);
    }
    let message = presentation_prompt(team, member, task, coordination);
    let (overlay, notes) = team.open_overlay(member, attempt).await?;
    let events = connection.events.clone();
    let start = start_conversation(team, member, overlay.as_ref(), notes, &message, connection);
    let mut session = tokio::select! {
        biased;
        conversation = start => conversation?,
        stop_cause = deadline.wait() => {
            return Ok(unstarted_result(stored_answer, stop_cause, &events).await);
        }
    };
    let presentation = present(&mut session, deadline).await;
    let text = presented_text(&presentation.text, stored_answer);
    let is_complete = presentation.stopped_by.is_none();
    let end = match presentation.stopped_by {
        None => CoordinationEnd::Agreed,
        Some(stop) => report_interruption(&session, stop, &text).await,
    };
    let mut effects = presentation.effects;
    effects.add(end_background(session.gate.clone()).await?);
    let permissions = permission_manager(&member.grants, Phase::Final);
    let mut delivery = FinalDelivery {
        team,
        member,
        overlay,
        open_delivery: team.start_delivery().await?,
        state: presentation_state(end),
        attempt,
        events: session.events.clone(),
        selected_by: None,
    };
    let has_written = user_path_changes(&effects.changes, &permissions).any(is_done);
    delivery.apply_overlay(&mut effects).await?;
    let has_delivered =
        has_written || user_path_changes(&effects.changes, &permissions).any(is_done);
    if end == CoordinationEnd::Agreed && !has_delivered {
        delivery
            .deliver_workspace(&mut effects, &permissions)
            .await?;
    }
    let selected_by = delivery.selected_by;
    let open_delivery = delivery.open_delivery.as_ref();
    let name = open_delivery.map(|open| open.name().to_owned());
    if user_path_changes(&effects.changes, &permissions).any(is_in_place) {
        delivery
            .verify(&mut effects, deadline, &session.events)
            .await?;
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
        session.emit(RunEvent::Warning { message }).await;
    }
    Ok(FinalPhaseResult {
        text,
        rows,
        selected_by,
        end,
        session: (is_complete && end == CoordinationEnd::Agreed).then_some(session),
    })
}

/// Returns the text that was presented, or the stored answer if there is none.
fn presented_text(text: &str, stored_answer: Arc<str>) -> Arc<str> {
    match text.trim() {
        "" => stored_answer,
        text => text.into(),
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
async fn recover_result(
    team: &AgentTeam,
    member: &TeamMember,
    connection: &ModelConnection,
    stored_answer: &Arc<str>,
    attempt: u32,
    deadline: &RunDeadline,
) -> Result<Option<FinalPhaseResult>> {
    let (Some(conversation), Some((settings, _))) =
        (&connection.recorded, team.delivery_settings())
    else {
        return Ok(None);
    };
    let Some((name, changes)) = review::recover_delivery(settings, attempt).await? else {
        return Ok(None);
    };
    let mut effects = ToolEffects::from_changes(changes);
    let delivery = FinalDelivery {
        team,
        member,
        overlay: None,
        open_delivery: Some(review::reopen_delivery(settings, name).await?),
        state: PresentationState::Complete,
        attempt,
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
            .map_or_else(|| Arc::clone(stored_answer), |text| text.trim().into()),
        rows: with_fingerprints(rows, user_tree_gate).await?,
        selected_by: None,
        end,
        session: None,
    }))
}

/// Reports why the presentation ended early, and which text is used. Returns how the final phase
/// ends.
async fn report_interruption(
    session: &ModelSession,
    stop: PresentationStop,
    text: &str,
) -> CoordinationEnd {
    match stop {
        PresentationStop::Stopped(stop_cause) => {
            session
                .emit(RunEvent::CoordinationStopped {
                    status: stop_cause.exit_status(),
                })
                .await;
            CoordinationEnd::Stopped(stop_cause)
        }
        // The agents have agreed on the answer, which stands without a presentation.
        PresentationStop::Failed(error) => {
            let consequence = if text.is_empty() {
                ""
            } else {
                "; its answer is used unchanged"
            };
            let message = format!("the final agent failed{consequence}: {error}");
            session.emit(RunEvent::Warning { message }).await;
            CoordinationEnd::Agreed
        }
        PresentationStop::Endless(reason) => {
            let message = format!(
                "the final agent did not finish: {reason}; its last text, or else its answer, is used"
            );
            session.emit(RunEvent::Warning { message }).await;
            CoordinationEnd::Agreed
        }
    }
}

fn presentation_prompt(
    team: &AgentTeam,
    me: &TeamMember,
    task: &TaskPrompt,
    coordination: &CoordinationResult,
) -> String {
    let reasons = |candidate: AgentNumber| -> Vec<UntrustedText> {
        let is_for_candidate = |vote: &&CountedVote| vote.candidate == candidate;
        coordination
            .votes
            .values()
            .filter(is_for_candidate)
            .map(|vote| vote.reason.clone().into())
            .collect()
    };
    let vote_counts = coordination
        .tally
        .iter()
        .flat_map(|tally| tally.votes.iter());
    let votes: Vec<CandidateVotes> = vote_counts
        .map(|(agent, count)| CandidateVotes {
            candidate: *agent,
            count: *count,
            reasons: reasons(*agent),
        })
        .collect();
    let view = |(agent, answer): (&AgentNumber, &AcceptedAnswer)| {
        let is_own_answer = *agent == me.number;
        let workspace = team
            .member(*agent)
            .and_then(|member| member.workspace.as_ref());
        match (is_own_answer, workspace) {
            (true, Some(workspace)) => AnswerView {
                label: answer.label,
                content: UntrustedText::from(&*answer.content),
                files: Some(workspace.to_string()),
                check_results: answer.check_results.clone(),
            },
            (_, workspace) => answer.view(workspace),
        }
    };
    let answers: Vec<AnswerView> = coordination.answers.iter().map(view).collect();
    prompts::present_answers(task, me.number, &votes, &answers)
}

/// Ends the background commands of the agent, and returns their changes.
async fn end_background(gate: Option<Gate>) -> Result<ToolEffects> {
    let work = move || {
        let commands = gate.as_ref().and_then(Gate::commands);
        ToolEffects::from_changes(commands.map_or_else(Vec::new, ExecEnvironment::end_background))
    };
    let work_result = tokio::task::spawn_blocking(work).await;
    work_result.map_err(|_| Error::bug("cannot stop the background commands"))
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

/// Delivery of the winner's files to the user.
struct FinalDelivery<'a> {
    team: &'a AgentTeam,
    member: &'a TeamMember,
    overlay: Option<WriteOverlay>,
    open_delivery: Option<Arc<OpenDelivery>>,
    state: PresentationState,
    attempt: u32,
    events: Sender<QueuedEvent>,
    /// Where the user selected the changes, once they have.
    selected_by: Option<InputChannel>,
}

impl FinalDelivery<'_> {
    /// Delivers the changes in the overlay. In `effects`, their outcomes replace the changes.
    async fn apply_overlay(&mut self, effects: &mut ToolEffects) -> Result<()> {
        let Some(overlay) = self.overlay.clone() else {
            return Ok(());
        };
        let sync_result = tokio::task::spawn_blocking(move || overlay.sync_layers()).await;
        let written = sync_result.map_err(|_| Error::bug("the delivery failed unexpectedly"))?;
        let changes = match written {
            Ok(()) => {
                let overlay = self.overlay.clone();
                self.deliver(|grant, used_directories| {
                    source_directory(overlay.as_ref(), grant, used_directories)
                })
                .await?
            }
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
        // The overlay's changes are in the user's trees now.
        self.overlay = None;
        let agent = &self.member.id;
        let results = check_runner.run_checks(agent, CheckTarget::Delivery, deadline, events);
        let results = results.await;
        let Some(failure) = results.failed_requirements() else {
            return Ok(());
        };
        let reason = if deadline.stop.is_cancelled() && !results.has_failed() {
            "interrupted before all checks had finished".to_owned()
        } else {
            failure
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
        self.apply_overlay(effects).await?;
        if user_path_changes(&effects.changes, permissions).any(is_done) {
            let message = WORKSPACE_DELIVERED.to_owned();
            emit(&self.events, RunEvent::Warning { message }).await;
        }
        Ok(())
    }

    /// Copies the workspace to the first write path that is a directory: in the overlay, or without
    /// one in the user's own tree.
    async fn copy_workspace(&mut self) -> Result<ToolEffects> {
        let roots = write_roots(&self.member.grants);
        let target = roots.iter().find(|grant| grant.scope == GrantScope::Tree);
        let (Some(workspace), Some(target)) = (&self.member.workspace, target) else {
            return Ok(ToolEffects::default());
        };
        if self.overlay.is_none() {
            let source = SourceDirectory {
                path: real_path(workspace)?.to_abs(),
                layout: SourceLayout::SeparateDirectory,
                left_out: self.left_out_of_answers(),
            };
            let source_for = |grant: &Grant, _: &mut _| {
                (grant.root == target.root && grant.scope == GrantScope::Tree)
                    .then(|| source.clone())
            };
            return self
                .deliver(source_for)
                .await
                .map(ToolEffects::from_changes);
        }
        let gate = self
            .team
            .delivery_gate(self.member, self.overlay.as_ref())?;
        let call = copy_all_call(workspace, &target.root, self.team.left_out_of_answers());
        let (Some(gate), Some(call)) = (gate, call) else {
            return Ok(ToolEffects::default());
        };
        let root = target.root.clone();
        let work = move || match gate.check(call) {
            Ok(permitted) => {
                ToolEffects::from_changes(observed_changes(exec::run(permitted), root))
            }
            Err(denial) => ToolEffects::from_denial(denial),
        };
        let work_result = tokio::task::spawn_blocking(work).await;
        work_result.map_err(|_| Error::bug("the delivery failed unexpectedly"))
    }

    /// Returns the directories that are not part of an answer, as paths below a workspace.
    fn left_out_of_answers(&self) -> Vec<RelPath> {
        let names = self.team.left_out_of_answers().into_iter();
        names.filter_map(RelPath::new).collect()
    }

    /// Delivers the source directory that `source_for` returns for each write path.
    async fn deliver(
        &mut self,
        source_for: impl Fn(&Grant, &mut BTreeSet<AbsPath>) -> Option<SourceDirectory>,
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
                .map(|grant| source_for(grant, &mut used_directories))
                .collect(),
            began_ns: i64::try_from(conflicts.run_started_ns).unwrap_or_default(),
            attempt: self.attempt,
            left_out_of_answers: self.left_out_of_answers(),
        };
        let conflicts_dir = Some(conflicts.dir.clone());
        let hooks = self.team.hooks(self.member)?;
        let hooks = hooks.map(|runner| DeliveryHooks {
            runner,
            overlay: self.overlay.clone(),
        });
        let delivery_result =
            match review::deliver(settings, delivery, source, conflicts_dir, self.state, hooks)
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
        Ok(delivery_result.changes)
    }
}

/// Returns the upper directory of `overlay` for the directory that `grant` opens, or in which it
/// opens a file. Files of the same directory share an upper directory, which is returned once.
fn source_directory(
    overlay: Option<&WriteOverlay>,
    grant: &Grant,
    used_directories: &mut BTreeSet<AbsPath>,
) -> Option<SourceDirectory> {
    let dir = match grant.scope {
        GrantScope::Tree => grant.root.clone(),
        GrantScope::File => grant.root.parent()?,
    };
    let tree = overlay?.trees().find(|tree| *tree.root == dir)?;
    used_directories
        .insert(tree.upper.clone())
        .then(|| SourceDirectory {
            path: tree.upper.clone(),
            layout: SourceLayout::OverlayLayer,
            left_out: Vec::new(),
        })
}

/// Returns whether a presentation that ended in this way is complete.
fn presentation_state(end: CoordinationEnd) -> PresentationState {
    match end {
        CoordinationEnd::Agreed => PresentationState::Complete,
        CoordinationEnd::Stopped(_) => PresentationState::Interrupted,
    }
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

/// Returns the call that copies the content of a directory, without its subdirectories `left_out`,
/// over that of another.
pub(super) fn copy_all_call(
    from: &AbsPath,
    to: &RealPath,
    left_out: impl IntoIterator<Item = &'static str>,
) -> Option<ToolCall> {
    Some(ToolCall::CopyFilesBatch {
        source: UserPath::parse(from.as_path().to_str()?).ok()?,
        destination: UserPath::parse(to.as_path().to_str()?).ok()?,
        selection: FileSelection {
            include: vec!["*".to_owned()],
            exclude: left_out
                .into_iter()
                .map(|name| format!("{name}/*"))
                .collect(),
        },
        existing: ExistingTarget::Overwrite,
    })
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

/// Adds the sizes and hashes of the files on disk to `rows`, as far as `gate` allows reading them.
async fn with_fingerprints(
    mut rows: Vec<DeliveryRow>,
    gate: Option<Gate>,
) -> Result<Vec<DeliveryRow>> {
    let Some(gate) = gate else {
        return Ok(rows);
    };
    let work = move || {
        for row in rows.iter_mut().filter(|row| row.outcome.is_delivered()) {
            let digest = fingerprint(&gate, &row.path);
            row.bytes = digest.as_ref().map(|digest| digest.bytes);
            row.sha256 = digest.map(|digest| digest.sha256);
        }
        rows
    };
    let work_result = tokio::task::spawn_blocking(work).await;
    work_result.map_err(|_| Error::bug("cannot inspect the delivered files"))
}
