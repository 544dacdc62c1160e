//! Owns the end of a turn: the winner presents with a gate of its own, and if it leaves its files in
//! the workspace although a path is open, they are carried there through the same gate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use crate::agent::calls::Worked;
use crate::agent::patience::{Over, Patience};
use crate::agent::present::{BrokenOff, present};
use crate::agent::{Mind, emit};
use crate::brief::foreign::ForeignText;
use crate::brief::{self, AnswerView, Task};
use crate::error::{Error, Result};
use crate::event::{DeliveryOutcome, DeliveryRow, Event};
use crate::id::AgentNumber;
use crate::orchestrator::coordinate::{Answer, Coordinated, CountedVote, End};
use crate::orchestrator::examiner::Examined;
use crate::orchestrator::grants::{manager, real, write_roots};
use crate::orchestrator::hooks::{self, Asked};
use crate::orchestrator::review::{self, State};
use crate::orchestrator::team::{Line, Member, Team};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase, Scope};
use crate::permissions::{Decision, DenyReason, PathPermissionManager};
use crate::tools::call::{Existing, Selection, ToolCall, UserPath};
use crate::wording::one_line;
use crate::world::change::{Change, ChangeKind};
use crate::world::commands::Commands;
use crate::world::delivery::store::{Delivery as Held, Offer, Origin, Written};
use crate::world::exec::fingerprint::fingerprint;
use crate::world::exec::{self, Observation, Outcome};
use crate::world::gate::Gate;
use crate::world::stage::Stage;
use crate::world::verdict::Refused;

/// How much is told of why hooks stop a delivery, in characters.
const WHY_CHARS_MAX: usize = 300;
/// What the user is told where the final agent has left it to massgen to deliver.
const CARRIED: &str = "the winner wrote nothing to your paths itself: the files of its workspace are \
                       delivered";

/// What the final phase came to.
#[derive(Debug)]
pub struct Finished {
    /// The final answer.
    pub text: Arc<str>,
    /// What became of files outside the workspace.
    pub rows: Vec<DeliveryRow>,
    /// How it ended.
    pub end: End,
    /// The conversation, for the judgement of the result; without one there is none to judge.
    pub mind: Option<Mind>,
}

impl Finished {
    /// One in which nothing was presented: the answer is the one that is stored.
    pub fn as_stored(stored: Arc<str>, end: End) -> Self {
        Self {
            text: stored,
            rows: Vec::new(),
            end,
            mind: None,
        }
    }
}

/// What the final agent is to present.
#[derive(Debug)]
pub struct Assignment<'a> {
    /// Who presents.
    pub member: &'a Member,
    /// How its model is reached.
    pub line: Line,
    /// What the user wants.
    pub task: &'a Task,
    /// All answers and votes.
    pub coordinated: &'a Coordinated,
    /// What is presented if the model gives no text.
    pub stored: Arc<str>,
    /// Which attempt it ends.
    pub attempt: u32,
    /// Until when it may go on.
    pub patience: &'a Patience,
}

/// What there is where the final agent never began, which is told.
async fn never_begun(stored: Arc<str>, over: Over, events: &Sender<Event>) -> Finished {
    let status = over.status();
    emit(events, Event::CutShort { status }).await;
    Finished::as_stored(stored, End::Over(over))
}

/// Begins the conversation of the final agent: `message` is told.
async fn begin(
    team: &Team,
    member: &Member,
    (stage, notes): (Option<&Stage>, Vec<String>),
    (message, line): (&str, Line),
) -> Result<Mind> {
    let mind = team
        .mind(member, (Phase::Final, stage), message, line)
        .await?;
    let agent = member.id.clone();
    mind.emit(Event::FinalStarted { agent }).await;
    for message in notes {
        mind.emit(Event::Warning { message }).await;
    }
    Ok(mind)
}

/// Lets the winner present and deliver.
pub async fn present_and_deliver(team: &Team, assignment: Assignment<'_>) -> Result<Finished> {
    let Assignment {
        member,
        line,
        task,
        coordinated,
        stored,
        attempt,
        patience,
    } = assignment;
    let known = (&stored, attempt, patience);
    if let Some(finished) = finished_before(team, member, &line, known).await? {
        return Ok(finished);
    }
    let message = message(team, member, task, coordinated);
    let (stage, notes) = team.stage(member, attempt).await?;
    let events = line.events.clone();
    let begun = begin(team, member, (stage.as_ref(), notes), (&message, line));
    let mut mind = tokio::select! {
        biased;
        begun = begun => begun?,
        over = patience.over() => return Ok(never_begun(stored, over, &events).await),
    };
    let presented = present(&mut mind, patience).await;
    let text = presented.text.trim();
    let text: Arc<str> = if text.is_empty() { stored } else { text.into() };
    let is_whole = presented.broken_off.is_none();
    let end = match presented.broken_off {
        None => End::Agreed,
        Some(why) => broken_off(&mind, why, &text).await,
    };
    let mut worked = presented.worked;
    worked.add(end_background(mind.gate.clone()).await?);
    let permissions = manager(&member.grants, Phase::Final);
    let mut delivery = Delivery {
        team,
        member,
        stage,
        held: team.hold_delivery().await?,
        state: state(end),
        attempt,
        events: mind.events.clone(),
    };
    let has_written = delivered(&worked.changes, &permissions).any(is_done);
    delivery.apply(&mut worked).await?;
    let has_delivered = has_written || delivered(&worked.changes, &permissions).any(is_done);
    if end == End::Agreed && !has_delivered {
        delivery.carry(&mut worked, &permissions).await?;
    }
    let name = delivery.held.as_ref().map(|held| held.name().to_owned());
    if delivered(&worked.changes, &permissions).any(is_in_place) {
        delivery.prove(&mut worked, patience, &mind.events).await?;
    }
    let users = team.delivery_gate(member, None)?;
    let rows = with_fingerprints(rows(&worked, &permissions), users).await?;
    tell_hooks(team, member, (&rows, patience)).await?;
    let end = stopped(end, &rows, patience);
    let left = left_for_later(&rows, name.as_deref().filter(|_| end != End::Agreed));
    let told = not_delivered(&rows, member).into_iter();
    for message in told.chain(unlisted(&worked, &permissions)).chain(left) {
        mind.emit(Event::Warning { message }).await;
    }
    Ok(Finished {
        text,
        rows,
        end,
        mind: (is_whole && end == End::Agreed).then_some(mind),
    })
}

/// Tells the user's hooks what became of the files, if there were any.
async fn tell_hooks(
    team: &Team,
    member: &Member,
    (rows, patience): (&[DeliveryRow], &Patience),
) -> Result<()> {
    let hooks = team.hooks(member)?.filter(|_| !rows.is_empty());
    if let Some(hooks) = hooks {
        let asked = Asked::Delivered(rows.to_vec());
        // What they say changes nothing any more.
        let _said = hooks::refusal(&hooks, asked, (Phase::Final, None), &patience.stop).await;
    }
    Ok(())
}

/// What the final phase came to, where the run was broken off after it had delivered and before it told
/// so.
async fn finished_before(
    team: &Team,
    member: &Member,
    line: &Line,
    (stored, attempt, patience): (&Arc<str>, u32, &Patience),
) -> Result<Option<Finished>> {
    let (Some(memory), Some((how, _))) = (&line.memory, team.delivers_by()) else {
        return Ok(None);
    };
    let Some((name, before)) = review::delivered_before(how, attempt).await? else {
        return Ok(None);
    };
    let mut worked = Worked::done(before);
    let delivery = Delivery {
        team,
        member,
        stage: None,
        held: Some(review::again(how, name).await?),
        state: State::Whole,
        attempt,
        events: line.events.clone(),
    };
    delivery.prove(&mut worked, patience, &line.events).await?;
    let permissions = manager(&member.grants, Phase::Final);
    let users = team.delivery_gate(member, None)?;
    let rows = rows(&worked, &permissions);
    let end = stopped(End::Agreed, &rows, patience);
    Ok(Some(Finished {
        text: memory
            .last_words()
            .map_or_else(|| Arc::clone(stored), Arc::from),
        rows: with_fingerprints(rows, users).await?,
        end,
        mind: None,
    }))
}

/// Tells why the presentation ended early, and what is used of it.
async fn broken_off(mind: &Mind, why: BrokenOff, text: &str) -> End {
    match why {
        BrokenOff::Over(over) => {
            mind.emit(Event::CutShort {
                status: over.status(),
            })
            .await;
            End::Over(over)
        }
        BrokenOff::Failed(fault) => {
            let instead = if text.is_empty() {
                ""
            } else {
                ", its answer is used as it is"
            };
            let message = format!("the final agent failed{instead}: {fault}");
            mind.emit(Event::Warning { message }).await;
            End::Agreed
        }
    }
}

fn message(team: &Team, me: &Member, task: &Task, coordinated: &Coordinated) -> String {
    let reasons = |candidate: AgentNumber| -> Vec<ForeignText> {
        let for_it = |vote: &&CountedVote| vote.candidate == candidate;
        coordinated
            .votes
            .values()
            .filter(for_it)
            .map(|vote| vote.reason.clone().into())
            .collect()
    };
    let tally = coordinated
        .tally
        .iter()
        .flat_map(|tally| tally.votes.iter());
    let votes: Vec<_> = tally
        .map(|(agent, count)| (*agent, *count, reasons(*agent)))
        .collect();
    let view = |(agent, answer): (&AgentNumber, &Answer)| {
        let own = *agent == me.number;
        let workspace = team.member(*agent).and_then(|m| m.workspace.as_ref());
        match (own, workspace) {
            (true, Some(workspace)) => AnswerView {
                label: answer.label,
                content: ForeignText::from(&*answer.content),
                files: Some(workspace.to_string()),
                evidence: answer.evidence.clone(),
            },
            (_, workspace) => answer.view(workspace),
        }
    };
    let answers: Vec<AnswerView> = coordinated.answers.iter().map(view).collect();
    brief::present(task, me.number, &votes, &answers)
}

/// Ends the commands that the agent has left running, and gives what they changed.
async fn end_background(gate: Option<Gate>) -> Result<Worked> {
    let work = move || {
        let commands = gate.as_ref().and_then(Gate::commands);
        Worked::done(commands.map_or_else(Vec::new, Commands::end_background))
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::bug("the background commands could not be ended"))
}

/// Where more may have changed than the rows tell.
fn unlisted(worked: &Worked, permissions: &PathPermissionManager) -> BTreeSet<String> {
    let told = |change: &Change| {
        let ChangeKind::Unlisted { reason } = &change.kind else {
            return None;
        };
        Some(format!(
            "commands may have changed more in `{}` than is listed: {reason}",
            change.path
        ))
    };
    delivered(&worked.changes, permissions)
        .filter_map(told)
        .collect()
}

/// The way of the winner's files to the user.
struct Delivery<'a> {
    team: &'a Team,
    member: &'a Member,
    stage: Option<Stage>,
    held: Option<Arc<Held>>,
    state: State,
    attempt: u32,
    events: Sender<Event>,
}

impl Delivery<'_> {
    /// Delivers what was changed on the stage. What `worked` tells of changes there is replaced by what
    /// came of them.
    async fn apply(&mut self, worked: &mut Worked) -> Result<()> {
        let Some(stage) = self.stage.clone() else {
            return Ok(());
        };
        let written = tokio::task::spawn_blocking(move || stage.write_down()).await;
        let written = written.map_err(|_| Error::bug("the delivery broke off"))?;
        let changes = match written {
            Ok(()) => {
                self.deliver(|grant, taken| self.origin(grant, taken))
                    .await?
            }
            Err(error) => failed(&write_roots(&self.member.grants), &error),
        };
        worked.changes.retain(|change| !is_in_place(change));
        worked.add(Worked::done(changes));
        Ok(())
    }

    /// Has the checks look at what was delivered, and takes it back if they say so.
    async fn prove(
        mut self,
        worked: &mut Worked,
        patience: &Patience,
        events: &Sender<Event>,
    ) -> Result<()> {
        let Some(examiner) = self.team.examiner() else {
            return Ok(());
        };
        // What was changed on the stage is in the user's trees now.
        self.stage = None;
        let agent = &self.member.id;
        let evidence = examiner.examine(agent, Examined::Delivery, patience, events);
        let evidence = evidence.await;
        let Some(red) = evidence.red() else {
            return Ok(());
        };
        let reason = if patience.stop.is_cancelled() && !evidence.has_failed() {
            "interrupted before all checks had ended".to_owned()
        } else {
            red
        };
        let (Some((how, _)), Some(held)) = (self.team.delivers_by(), self.held) else {
            return Ok(());
        };
        if how.keeps_on_red(&reason).await {
            let message = format!("{reason}; the delivery stays");
            emit(events, Event::Warning { message }).await;
            return Ok(());
        }
        let taken_back = review::take_back(held).await?;
        for change in &mut worked.changes {
            if taken_back.contains(&change.path.to_abs()) {
                let reason = reason.clone();
                change.kind = ChangeKind::TakenBack { reason };
            }
        }
        Ok(())
    }

    /// Delivers what the agent left in its workspace, and says so.
    async fn carry(
        &mut self,
        worked: &mut Worked,
        permissions: &PathPermissionManager,
    ) -> Result<()> {
        worked.add(self.carry_workspace().await?);
        self.apply(worked).await?;
        if delivered(&worked.changes, permissions).any(is_done) {
            let message = CARRIED.to_owned();
            emit(&self.events, Event::Warning { message }).await;
        }
        Ok(())
    }

    /// Copies the workspace to the first write path that is a directory: to the stage, or without one
    /// to the user's own.
    async fn carry_workspace(&mut self) -> Result<Worked> {
        let roots = write_roots(&self.member.grants);
        let target = roots.iter().find(|grant| grant.scope == Scope::Tree);
        let (Some(workspace), Some(target)) = (&self.member.workspace, target) else {
            return Ok(Worked::default());
        };
        if self.stage.is_none() {
            let origin = Origin {
                path: real(workspace)?.to_abs(),
                written: Written::Apart,
            };
            let of_target = |grant: &Grant, _: &mut _| {
                (grant.root == target.root && grant.scope == Scope::Tree).then(|| origin.clone())
            };
            return self.deliver(of_target).await.map(Worked::done);
        }
        let gate = self.team.delivery_gate(self.member, self.stage.as_ref())?;
        let (Some(gate), Some(call)) = (gate, copy_all(workspace, &target.root)) else {
            return Ok(Worked::default());
        };
        let root = target.root.clone();
        let work = move || match gate.check(call) {
            Ok(permitted) => Worked::done(told(exec::run(permitted), root)),
            Err(denial) => Worked::refused(denial),
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| Error::bug("the delivery broke off"))
    }

    /// Delivers what lies where `origin` says for each write path.
    async fn deliver(
        &self,
        origin: impl Fn(&Grant, &mut BTreeSet<AbsPath>) -> Option<Origin>,
    ) -> Result<Vec<Change>> {
        let (Some((how, conflicts)), Some(held)) = (self.team.delivers_by(), &self.held) else {
            return Ok(Vec::new());
        };
        let roots = write_roots(&self.member.grants);
        let mut taken = BTreeSet::new();
        let offer = Offer {
            grants: self.member.write_grants(),
            origins: roots
                .iter()
                .map(|grant| origin(grant, &mut taken))
                .collect(),
            began_ns: i64::try_from(conflicts.run_started_ns).unwrap_or_default(),
            attempt: self.attempt,
        };
        let kept_in = Some(conflicts.kept_in.clone());
        let hooks = self.team.hooks(self.member)?;
        let asked = hooks.map(|hooks| (hooks, self.stage.clone()));
        match review::deliver(how, held, offer, (kept_in, self.state), asked).await {
            Ok((changes, None)) => Ok(changes),
            Ok((changes, Some(why))) => {
                let (name, why) = (held.name(), one_line(&why, WHY_CHARS_MAX));
                let message = format!(
                    "nothing is delivered: {why}; `massgen diff {name}` shows it, and `massgen apply \
                     {name}` applies it"
                );
                emit(&self.events, Event::Warning { message }).await;
                Ok(changes)
            }
            Err(error) => Ok(failed(&roots, &error)),
        }
    }

    /// What was changed on the stage of the directory that `grant` opens, or in which it opens a file.
    /// Files of the same directory are staged with it, once.
    fn origin(&self, grant: &Grant, taken: &mut BTreeSet<AbsPath>) -> Option<Origin> {
        let dir = match grant.scope {
            Scope::Tree => grant.root.clone(),
            Scope::File => grant.root.parent()?,
        };
        let stage = self.stage.as_ref()?;
        let tree = stage.trees().find(|tree| *tree.root == dir)?;
        taken.insert(tree.upper.clone()).then(|| Origin {
            path: tree.upper.clone(),
            written: Written::Over,
        })
    }
}

/// Whether a final agent whose presentation ended so has done all that it wanted.
fn state(end: End) -> State {
    match end {
        End::Agreed => State::Whole,
        End::Over(_) => State::BrokenOff,
    }
}

/// How a final phase ends that went to its end: stopped, if the user stopped it while they were asked or
/// while a check ran, so that something is not delivered.
fn stopped(end: End, rows: &[DeliveryRow], patience: &Patience) -> End {
    use DeliveryOutcome::{Declined, TakenBack};
    let is_missing = |row: &DeliveryRow| matches!(row.outcome, Declined | TakenBack { .. });
    if end == End::Agreed && patience.stop.is_cancelled() && rows.iter().any(is_missing) {
        End::Over(Over::Interrupted)
    } else {
        end
    }
}

/// What is said of a final phase that was cut short, whose delivery has this `name`.
fn left_for_later(rows: &[DeliveryRow], name: Option<&str>) -> Option<String> {
    let is_left = |row: &DeliveryRow| matches!(row.outcome, DeliveryOutcome::Declined);
    let name = name.filter(|_| rows.iter().any(is_left))?;
    Some(format!(
        "what the final agent had changed is not delivered; `massgen diff {name}` shows it, and \
         `massgen apply {name}` applies it"
    ))
}

/// What is said of files that could not be written.
fn not_delivered(rows: &[DeliveryRow], member: &Member) -> Option<String> {
    let failed = |row: &DeliveryRow| matches!(row.outcome, DeliveryOutcome::Failed { .. });
    let workspace = member.workspace.as_ref();
    let workspace = workspace.filter(|_| rows.iter().any(failed))?;
    Some(format!(
        "what could not be delivered is still in `{workspace}`"
    ))
}

/// Whether a file was changed where it stands, on the stage or at the user's.
fn is_in_place(change: &Change) -> bool {
    use ChangeKind::{Changed, Created, Deleted, Mode};
    matches!(change.kind, Created | Changed | Deleted | Mode { .. })
}

/// A delivery of which nothing came: the roots stand for all of it.
fn failed(roots: &[&Grant], error: &Error) -> Vec<Change> {
    let change = |grant: &&Grant| Change {
        path: grant.root.clone(),
        kind: ChangeKind::Failed {
            reason: format!("{error:#}"),
        },
    };
    roots.iter().map(change).collect()
}

/// What `observation` changed. If it failed before it came to a single file, the `root` stands for
/// all of them.
fn told(observation: Observation, root: RealPath) -> Vec<Change> {
    let Observation {
        outcome,
        content,
        changes,
        ..
    } = observation;
    if outcome == Outcome::Done || !changes.is_empty() {
        return changes;
    }
    let kind = ChangeKind::Failed { reason: content };
    vec![Change { path: root, kind }]
}

/// The call that copies all that is in a directory over what is in another.
pub(super) fn copy_all(from: &AbsPath, to: &RealPath) -> Option<ToolCall> {
    Some(ToolCall::CopyFilesBatch {
        source: UserPath::parse(from.as_path().to_str()?).ok()?,
        destination: UserPath::parse(to.as_path().to_str()?).ok()?,
        selection: Selection {
            include: vec!["*".to_owned()],
            exclude: Vec::new(),
        },
        existing: Existing::Overwrite,
    })
}

/// The changes in the user's own paths. A workspace inside such a path is not one of them: there
/// the workspace's grant is the deeper one, and speaks.
fn delivered<'a>(
    changes: &'a [Change],
    permissions: &PathPermissionManager,
) -> impl Iterator<Item = &'a Change> {
    let users = |change: &&Change| match permissions.decide(&change.path, Permission::Write) {
        Decision::Allow { grant } | Decision::Deny(DenyReason::Lowered { grant, .. }) => {
            grant.kind == GrantKind::Context
        }
        Decision::Deny(DenyReason::OutsideGrants) => false,
    };
    changes.iter().filter(users)
}

/// Whether the file was written or removed, or left alone for the user's sake.
fn is_done(change: &Change) -> bool {
    !matches!(
        change.kind,
        ChangeKind::Denied { .. }
            | ChangeKind::Failed { .. }
            | ChangeKind::Unlisted { .. }
            | ChangeKind::TakenBack { .. }
    )
}

/// One row a file: what the whole phase came to, not each step on the way. A refused write counts
/// unless the same path was written in the end.
fn rows(worked: &Worked, permissions: &PathPermissionManager) -> Vec<DeliveryRow> {
    let mut outcomes: BTreeMap<String, Option<DeliveryOutcome>> = BTreeMap::new();
    for change in delivered(&worked.changes, permissions) {
        let path = change.path.to_string();
        let before = outcomes.remove(&path).flatten();
        outcomes.insert(path, combined(before, &change.kind));
    }
    for denial in &worked.denied {
        if let Refused::Access { path, .. } = &denial.refused {
            let denied = DeliveryOutcome::Denied {
                reason: denial.reason.clone(),
            };
            outcomes.entry(path.clone()).or_insert(Some(denied));
        }
    }
    let row = |(path, outcome): (String, Option<DeliveryOutcome>)| {
        outcome.map(|outcome| DeliveryRow::new(path, outcome))
    };
    outcomes.into_iter().filter_map(row).collect()
}

/// The `rows` with what now stands on the disk, as the final agent's gate lets it be read.
async fn with_fingerprints(
    mut rows: Vec<DeliveryRow>,
    gate: Option<Gate>,
) -> Result<Vec<DeliveryRow>> {
    let Some(gate) = gate else {
        return Ok(rows);
    };
    let work = move || {
        for row in rows.iter_mut().filter(|row| row.outcome.is_delivered()) {
            let found = fingerprint(&gate, &row.path);
            row.bytes = found.as_ref().map(|found| found.bytes);
            row.sha256 = found.map(|found| found.sha256);
        }
        rows
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::bug("the delivered files could not be looked at"))
}

/// What one change comes to.
pub fn outcome_of(kind: &ChangeKind) -> Option<DeliveryOutcome> {
    combined(None, kind)
}

/// What two changes of the same file come to; `None` if it is as it was.
fn combined(before: Option<DeliveryOutcome>, after: &ChangeKind) -> Option<DeliveryOutcome> {
    use DeliveryOutcome::{Changed, Created, Deleted, Denied, Failed};
    let before = before.filter(|outcome| !matches!(outcome, Denied { .. } | Failed { .. }));
    match (before, after) {
        (Some(Created), ChangeKind::Deleted) => None,
        (Some(Created), ChangeKind::Changed) | (None, ChangeKind::Created) => Some(Created),
        (_, ChangeKind::Created | ChangeKind::Changed) => Some(Changed),
        (_, ChangeKind::Deleted) => Some(Deleted),
        (_, ChangeKind::Mode { before, after }) => Some(DeliveryOutcome::Mode {
            before: before.map(|before| format!("{before:o}")),
            after: format!("{after:o}"),
        }),
        (_, ChangeKind::Conflict { kept }) => Some(DeliveryOutcome::Conflict {
            kept: kept.to_string(),
        }),
        (_, ChangeKind::Declined) => Some(DeliveryOutcome::Declined),
        (_, ChangeKind::Denied { reason }) => Some(Denied {
            reason: reason.clone(),
        }),
        (_, ChangeKind::Failed { reason }) => Some(Failed {
            reason: reason.clone(),
        }),
        (_, ChangeKind::TakenBack { reason }) => Some(DeliveryOutcome::TakenBack {
            reason: reason.clone(),
        }),
        (before, ChangeKind::Unlisted { .. }) => before,
    }
}
