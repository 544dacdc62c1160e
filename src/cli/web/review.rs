//! Reviews of deliveries: shows what a run would change, applies the changes that the user selects,
//! and undoes them. A review that a live run waits for is answered; any other delivery is applied
//! as `massgen apply` does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::cli::deliveries::apply::{EarlierParts, labelled_source, plan_answer};
use crate::cli::deliveries::parts::{earlier_files, parts_of, revertible_parts};
use crate::cli::deliveries::reapplied_files::ReappliedFiles;
use crate::cli::deliveries::undo::revert;
use crate::cli::deliveries::{
    deliveries_directory, display_path, finish_interrupted_deliveries, plan_kept, resolve_paths,
};
use crate::cli::output::CliOutput;
use crate::cli::web::change_json::{change_json, refusals_json};
use crate::cli::web::delivery_choice::{RequestedFileChoice, delivery_selection};
use crate::cli::web::logged_run::find_run;
use crate::cli::web::overview::run_blocking;
use crate::cli::web::page_run::PageRun;
use crate::cli::web::pipeline_review;
use crate::cli::web::reply::{ApiError, ApiResult, JsonBody, JsonReply};
use crate::cli::web::reverted_files::{offer_reverted, reverted_json, split_reverted};
use crate::cli::web::server_state::WebServer;
use crate::delivery::plan::{DeliveryEntry, DeliveryPlan, NeededConsent};
use crate::error::{Error, Result};
use crate::event::DeliveryRow;
use crate::host::Host;
use crate::orchestrator::delivery_rows::delivery_row;
use crate::orchestrator::review::{DeliverySelection, UserQuestion};
use crate::path::AbsPath;
use crate::world::delivery::contents::{
    DeliveryDifference, DiffSide, change_since_plan, difference,
};
use crate::world::delivery::planning::{EarlierFiles, PartialFiles};
use crate::world::delivery::store::{NO_DELIVERY_HINT, OpenDelivery};
use crate::world::delivery::transaction::{SelectionOrigin, apply, select_hunks};
use crate::world::delivery::undo::{
    AppliedDelivery, DeliveredState, UndoOutcome, UndoRow, refuse_outside,
};
use crate::world::io::file_change::FileChange;
use crate::world::store::pipelines;
use crate::world::store::runs::RunDir;

/// Maximum wait for the outcome of an answered delivery; after it, the outcome follows in the
/// stream.
const OUTCOME_TIME_MAX: Duration = Duration::from_secs(10);

/// Query of `GET /api/runs/{id}/diff`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffQuery {
    answer: Option<String>,
    against: Option<String>,
}

/// Body of `POST /api/runs/{id}/delivery`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeliveryRequest {
    pub(super) files: Vec<RequestedFileChoice>,
    /// Apply the files of this answer instead of those of the run's result.
    pub(super) answer: Option<String>,
    /// How the result of a pipeline reaches the git history.
    #[serde(default)]
    pub(super) history: RequestedHistory,
}

/// How the result of a pipeline reaches the git history; see `--history` of `massgen apply`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RequestedHistory {
    /// Only files are delivered.
    #[default]
    None,
    /// One commit contains everything.
    Squash,
    /// A merge commit makes all of its commits reachable.
    Merge,
}

/// Body of `POST /api/runs/{id}/undo`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoRequest {
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    force: bool,
    /// The delivery to revert. Default: the newest one of which something is applied.
    part: Option<String>,
}

/// Answers `GET /api/runs/{id}/diff`.
pub(super) async fn diff(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    query: std::result::Result<Query<DiffQuery>, QueryRejection>,
) -> ApiResult {
    let Query(query) = query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    if pipelines::is_name(&id) {
        if query.answer.is_some() || query.against.is_some() {
            return Err(ApiError::invalid("a pipeline has no answers to compare"));
        }
        return pipeline_review::diff(&server, &id).await.map(JsonReply);
    }
    let run = find_run(&server, id).await?;
    let pending_review = pending_delivery(&server, &run.name());
    let host = server.host.clone();
    let read_changes = move || {
        Ok(match (query.answer, query.against, pending_review) {
            (None, Some(_), _) => Err(ApiError::invalid("`against` needs `answer`")),
            (None, None, Some((delivery, plan))) => {
                plan_json("pending", &delivery, &plan, &host).map_err(ApiError::from)
            }
            (None, None, None) => kept_json(&run, &host).map_err(ApiError::from),
            (Some(answer), against, _) => answer_json(&run, &answer, against.as_deref(), &host),
        })
    };
    run_blocking(read_changes).await?.map(JsonReply)
}

/// Answers `POST /api/runs/{id}/delivery`.
pub(super) async fn deliver(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<DeliveryRequest>,
) -> ApiResult {
    if pipelines::is_name(&id) {
        let reply = pipeline_review::deliver(&server, &id, &request).await;
        return reply.map(JsonReply);
    }
    let run = find_run(&server, id).await?;
    if request.history != RequestedHistory::None {
        return Err(ApiError::invalid("only a pipeline has a history to commit"));
    }
    let page_run = server.runs.find(&run.name());
    if let (Some(page_run), Some((delivery, plan)), None) = (
        page_run,
        pending_delivery(&server, &run.name()),
        &request.answer,
    ) {
        let cwd = server.host.cwd.clone();
        let select_changes = move || Ok(delivery_selection(&delivery, &plan, &request.files, &cwd));
        let selection = run_blocking(select_changes).await??;
        return answer_pending(&page_run, selection).await;
    }
    let _delivery_guard = server.runs.lock_deliveries().await;
    let host = server.host.clone();
    let apply_changes = move || Ok(apply_kept(&run, &request, &host));
    run_blocking(apply_changes).await?.map(JsonReply)
}

/// Answers `POST /api/runs/{id}/undo`.
pub(super) async fn undo(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<UndoRequest>,
) -> ApiResult {
    if !pipelines::is_name(&id) {
        find_run(&server, id.clone()).await?;
    }
    let _delivery_guard = server.runs.lock_deliveries().await;
    let host = server.host.clone();
    let undo_changes = move || Ok(undo_applied(&id, &request, &host));
    run_blocking(undo_changes).await?.map(JsonReply)
}

/// Returns the delivery and its plan if a live run waits for the user's review of it.
fn pending_delivery(
    server: &WebServer,
    run: &str,
) -> Option<(Arc<OpenDelivery>, Arc<DeliveryPlan>)> {
    let page_run = server.runs.find(run)?;
    page_run.feed().with_questions(|questions| {
        let question = questions.find(|_, question| is_delivery(question))?;
        if let UserQuestion::Apply { delivery, plan, .. } = question {
            return Some((Arc::clone(delivery), Arc::clone(plan)));
        }
        None
    })
}

fn is_delivery(question: &UserQuestion) -> bool {
    matches!(question, UserQuestion::Apply { .. })
}

/// Answers the delivery that waits, and waits for its outcome for a while.
async fn answer_pending(run: &PageRun, selection: DeliverySelection) -> ApiResult {
    let not_waiting_error = || ApiError::conflict("the delivery does not wait any more");
    let feed = run.feed();
    let question = feed
        .with_questions(|questions| questions.take(|_, question| is_delivery(question)))
        .ok_or_else(not_waiting_error)?;
    let UserQuestion::Apply { answer, .. } = question else {
        return Err(not_waiting_error());
    };
    let mut changes = feed.subscribe();
    answer.send(selection).map_err(|_| not_waiting_error())?;
    let rows = || feed.with_view(|view| view.delivery().rows.clone());
    let outcome = changes.wait_for(|()| rows().is_some() || run.is_ended());
    drop(timeout(OUTCOME_TIME_MAX, outcome).await);
    Ok(JsonReply(json!({"answered": true, "rows": rows()})))
}

/// Returns the newest delivery of the run or the pipeline `name` that is kept, opened.
fn open_newest(name: &str, host: &Host) -> ApiResult<OpenDelivery> {
    let deliveries = deliveries_directory(host);
    let parts = parts_of(name, &deliveries)?;
    let newest = parts.first().ok_or_else(|| no_delivery(name))?;
    Ok(OpenDelivery::open(&deliveries, newest)?)
}

fn no_delivery(name: &str) -> ApiError {
    ApiError::not_found(format!("`{name}` has no delivery")).with_hint(NO_DELIVERY_HINT)
}

/// Returns all changes of `plan`, each with the conflict that there is by now.
pub(super) fn plan_json(
    state: &str,
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    host: &Host,
) -> Result<Value> {
    let reviewable_entries = plan.reviewable_entries();
    let is_shown = |(index, entry): &(usize, &DeliveryEntry)| {
        let is_reviewable = reviewable_entries.iter().any(|(other, _)| other == index);
        is_reviewable || (entry.is_file() && entry.conflict.is_some())
    };
    let mut files = Vec::new();
    for (_, entry) in plan.entries.iter().enumerate().filter(is_shown) {
        let file_diff = difference(delivery, plan, entry)?;
        // A plan that waits for the user may be older than their last change.
        let conflict = match entry.conflict {
            Some(conflict) => Some(conflict),
            None => change_since_plan(plan, entry)?,
        };
        let mut change = change_json(&file_diff, conflict, &host.cwd);
        if let Some(fields) = change.as_object_mut() {
            let consent = entry.consent.map(NeededConsent::label);
            fields.insert("consent".to_owned(), consent.into());
        }
        files.push(change);
    }
    files.extend(refusals_json(plan, &host.cwd));
    Ok(json!({"state": state, "files": files}))
}

/// Returns what a kept delivery would change now, and what was applied: the files of the newest
/// part that can be reverted, or else of the newest one, and those of the other parts that were
/// reverted.
fn kept_json(run: &RunDir, host: &Host) -> Result<Value> {
    let deliveries = deliveries_directory(host);
    let parts = parts_of(&run.name(), &deliveries)?;
    let Some(newest) = parts.first() else {
        return Ok(json!({"state": "none", "files": [], "applied": [], "parts": []}));
    };
    let revertible_parts = revertible_parts(&parts, &deliveries)?;
    let earlier_applied = revertible_parts
        .first()
        .filter(|part| *part != newest)
        .map(|part| applied_files(part, host))
        .transpose()?;
    let delivery = Arc::new(OpenDelivery::open(&deliveries, newest)?);
    let AppliedChanges {
        files: applied,
        reverted,
        partial,
    } = AppliedChanges::read(&delivery, host)?;
    let mut applied = match earlier_applied {
        Some(mut earlier_applied) => {
            add_reverted_files(&mut earlier_applied, applied);
            earlier_applied
        }
        None => applied,
    };
    let other_parts = parts
        .iter()
        .filter(|part| *part != newest && Some(*part) != revertible_parts.first());
    for part in other_parts {
        // A delivery that cannot be read has none.
        add_reverted_files(&mut applied, applied_files(part, host).unwrap_or_default());
    }
    let source = delivery.read_source()?;
    let plan = plan_kept(&delivery, &source, partial, EarlierFiles::default())?;
    let mut review = plan_json("kept", &delivery, &plan, host)?;
    if let Some(fields) = review.as_object_mut() {
        if let Some(files) = fields.get_mut("files").and_then(Value::as_array_mut) {
            offer_reverted(files, reverted);
        }
        fields.insert("applied".to_owned(), applied.into());
        fields.insert("parts".to_owned(), revertible_parts.into());
    }
    Ok(review)
}

/// Returns the applied files of the delivery `part`, each with its current state.
pub(super) fn applied_files(part: &str, host: &Host) -> Result<Vec<Value>> {
    let delivery = OpenDelivery::open(&deliveries_directory(host), part)?;
    Ok(AppliedChanges::read(&Arc::new(delivery), host)?.files)
}

/// Adds those files of another part of the delivery that were reverted and are not among `files`.
fn add_reverted_files(files: &mut Vec<Value>, other_files: Vec<Value>) {
    let reverted_word = delivered_word(DeliveredState::Reverted);
    for file in other_files {
        let mut paths = files.iter().map(|known| known.get("path"));
        let is_known = paths.any(|path| path == file.get("path"));
        if !is_known && file.get("state").and_then(Value::as_str) == Some(reverted_word) {
            files.push(file);
        }
    }
}

/// What of a delivery was applied.
#[derive(Debug, Default)]
struct AppliedChanges {
    /// The files, each with its current state.
    files: Vec<Value>,
    /// Those that were reverted, by path, each as the change that applies it again.
    reverted: BTreeMap<String, Value>,
    /// Those of which only a part was applied.
    partial: PartialFiles,
}

impl AppliedChanges {
    /// Reads what of `delivery` was applied.
    fn read(delivery: &Arc<OpenDelivery>, host: &Host) -> Result<Self> {
        let Some(mut applied_delivery) = AppliedDelivery::open(Arc::clone(delivery))? else {
            return Ok(Self::default());
        };
        let mut files = Vec::new();
        let partial = applied_delivery.partial_files();
        let reverted = reverted_json(&mut applied_delivery, &host.cwd)?;
        let states: BTreeMap<AbsPath, DeliveredState> = applied_delivery
            .listed_paths()
            .map(|(path, _, state)| (path, state))
            .collect();
        for file_diff in applied_delivery.differences() {
            let file_diff = file_diff?;
            let mut change = change_json(&file_diff, None, &host.cwd);
            let state = states.get(&file_diff.path).copied().map(delivered_word);
            if let (Some(change), Some(state)) = (change.as_object_mut(), state) {
                change.insert("state".to_owned(), state.into());
                files.push(Value::Object(change.clone()));
            }
        }
        Ok(Self {
            files,
            reverted,
            partial,
        })
    }
}

fn delivered_word(state: DeliveredState) -> &'static str {
    match state {
        DeliveredState::Applied => "applied",
        DeliveredState::Reverted => "reverted",
        DeliveredState::Changed => "changed since",
    }
}

/// Returns how the project with the files of an answer differs from the project, or from the
/// project with the files of another answer.
fn answer_json(run: &RunDir, answer: &str, against: Option<&str>, host: &Host) -> ApiResult<Value> {
    let delivery = open_newest(&run.name(), host)?;
    let source = delivery.read_source()?;
    let read_answer =
        |label: &str| -> Result<(DeliveryPlan, BTreeMap<AbsPath, DeliveryDifference>)> {
            let plan = plan_answer(&delivery, &labelled_source(run, label, source.clone())?)?;
            let mut differences = BTreeMap::new();
            for (_, entry) in plan.reviewable_entries() {
                let file_diff = difference(&delivery, &plan, entry)?;
                differences.insert(file_diff.path.clone(), file_diff);
            }
            Ok((plan, differences))
        };
    let (plan, differences) = read_answer(answer)?;
    let shown_differences: Vec<DeliveryDifference> = match against {
        None => differences.into_values().collect(),
        Some(other_answer) => {
            let (_, other_differences) = read_answer(other_answer)?;
            changes_between(&other_differences, &differences)
        }
    };
    let shown_differences = shown_differences.iter();
    let mut files: Vec<Value> = shown_differences
        .map(|file_diff| change_json(file_diff, None, &host.cwd))
        .collect();
    files.extend(refusals_json(&plan, &host.cwd));
    Ok(json!({"state": "answer", "answer": answer, "against": against, "files": files}))
}

/// Returns how the project after the changes `new_differences` differs from the project after the
/// changes `old_differences`.
fn changes_between(
    old_differences: &BTreeMap<AbsPath, DeliveryDifference>,
    new_differences: &BTreeMap<AbsPath, DeliveryDifference>,
) -> Vec<DeliveryDifference> {
    let paths = old_differences.keys().chain(
        new_differences
            .keys()
            .filter(|path| !old_differences.contains_key(*path)),
    );
    let changes = paths.filter_map(|path| {
        let (old_difference, new_difference) =
            (old_differences.get(path), new_differences.get(path));
        let unchanged_side = old_difference
            .or(new_difference)
            .map(|known| known.before.clone())?;
        let changed_side = |file_diff: Option<&DeliveryDifference>| -> DiffSide {
            file_diff.map_or_else(
                || unchanged_side.clone(),
                |file_diff| file_diff.after.clone(),
            )
        };
        let change = DeliveryDifference {
            path: path.clone(),
            before: changed_side(old_difference),
            after: changed_side(new_difference),
            details: None,
            modes: None,
        };
        (change.before != change.after).then_some(change)
    });
    changes.collect()
}

/// Recovers interrupted deliveries. The page shows the state of its own delivery in any case.
pub(super) fn recover_silently(host: &Host) -> Result<()> {
    let mut output = CliOutput::with_writers(std::io::sink(), std::io::sink());
    finish_interrupted_deliveries(host, &mut output)
}

/// Applies a kept delivery, or the files of an answer.
fn apply_kept(run: &RunDir, request: &DeliveryRequest, host: &Host) -> ApiResult<Value> {
    recover_silently(host)?;
    if let Some(label) = &request.answer {
        let delivery = open_newest(&run.name(), host)?;
        let source = labelled_source(run, label, delivery.read_source()?)?;
        drop(delivery);
        let deliveries = deliveries_directory(host);
        let earlier = earlier_files(&run.name(), &deliveries)?;
        let delivery = OpenDelivery::create(&deliveries, &run.name())?;
        let result = delivery
            .write_source(&source)
            .and_then(|()| plan_kept(&delivery, &source, PartialFiles::default(), earlier))
            .map_err(ApiError::from)
            .and_then(|mut plan| apply_selected(&delivery, &mut plan, &request.files, host));
        if !delivery.is_applied()? {
            delivery.discard()?;
        }
        return result;
    }
    let delivery = Arc::new(open_newest(&run.name(), host)?);
    let Some(mut applied_delivery) = AppliedDelivery::open(Arc::clone(&delivery))? else {
        return apply_rest(&delivery, &request.files, host);
    };
    let (reapplied_files, files) =
        split_reverted(&mut applied_delivery, &request.files, &host.cwd)?;
    let roots = applied_delivery.roots();
    drop(applied_delivery);
    if reapplied_files.is_empty() {
        return apply_rest(&delivery, &files, host);
    }
    refuse_outside(&roots, &host.project, &reapplied_files.paths())?;
    let takes_other_files = files.iter().any(|file| file.take);
    if takes_other_files {
        // Nothing is applied again if something else is refused.
        let plan = plan_rest(&delivery)?;
        refuse_outside(&plan.roots, &host.project, &taken_paths(&files, host))?;
        delivery_selection(&delivery, &plan, &files, &host.cwd)?;
    }
    let mut rows = reapply(&delivery, &reapplied_files, host)?;
    if takes_other_files {
        let reply = apply_rest(&delivery, &files, host).map_err(|error| {
            error.with_hint("the files that had been undone were applied again before that")
        })?;
        if let Some(Value::Array(other_rows)) = reply.get("rows") {
            rows.extend(other_rows.iter().cloned());
        }
    }
    Ok(json!({"answered": true, "rows": rows}))
}

/// Plans what was not applied of a kept delivery.
fn plan_rest(delivery: &Arc<OpenDelivery>) -> Result<DeliveryPlan> {
    let earlier = EarlierParts::read(delivery)?;
    let source = delivery.read_source()?;
    plan_kept(delivery, &source, earlier.partial, EarlierFiles::default())
}

/// Applies what `files` take of what was not applied of a kept delivery.
fn apply_rest(
    delivery: &Arc<OpenDelivery>,
    files: &[RequestedFileChoice],
    host: &Host,
) -> ApiResult<Value> {
    let mut plan = plan_rest(delivery)?;
    apply_selected(delivery, &mut plan, files, host)
}

/// Applies files again that were undone.
fn reapply(
    delivery: &Arc<OpenDelivery>,
    files: &ReappliedFiles,
    host: &Host,
) -> Result<Vec<Value>> {
    let applied_delivery = AppliedDelivery::open(Arc::clone(delivery))?
        .ok_or_else(|| Error::bug("a delivery was undone, but not applied"))?;
    let rows = files.apply(applied_delivery)?;
    Ok(rows.iter().map(|row| undo_row(row, host)).collect())
}

/// Returns the paths of the selected files.
pub(super) fn taken_paths(files: &[RequestedFileChoice], host: &Host) -> Vec<AbsPath> {
    let names: Vec<String> = files
        .iter()
        .filter(|file| file.take)
        .map(|file| file.path.clone())
        .collect();
    resolve_paths(&names, host)
}

/// Applies the changes of `plan` that `files` select.
pub(super) fn apply_selected(
    delivery: &OpenDelivery,
    plan: &mut DeliveryPlan,
    files: &[RequestedFileChoice],
    host: &Host,
) -> ApiResult<Value> {
    refuse_outside(&plan.roots, &host.project, &taken_paths(files, host))?;
    let selection = delivery_selection(delivery, plan, files, &host.cwd)?;
    let choices = select_hunks(delivery, plan, selection.choices, &selection.parts)?;
    let changes = apply(delivery, plan, &choices, SelectionOrigin::Review, None)?;
    Ok(json!({"answered": true, "rows": change_rows(&changes, host)}))
}

/// Returns the outcome of each change.
pub(super) fn change_rows(changes: &[FileChange], host: &Host) -> Vec<DeliveryRow> {
    let rows = changes.iter();
    rows.filter_map(|change| change_row(change, &host.cwd))
        .collect()
}

fn change_row(change: &FileChange, cwd: &AbsPath) -> Option<DeliveryRow> {
    let row = delivery_row(change)?;
    let path = display_path(&change.path.to_abs(), cwd);
    Some(DeliveryRow { path, ..row })
}

/// Reverts a delivery of a run or a pipeline.
fn undo_applied(run: &str, request: &UndoRequest, host: &Host) -> ApiResult<Value> {
    recover_silently(host)?;
    let deliveries = deliveries_directory(host);
    let parts = parts_of(run, &deliveries)?;
    let newest = parts.first().ok_or_else(|| no_delivery(run))?;
    let part = match &request.part {
        Some(part) if parts.contains(part) => part.clone(),
        Some(part) => {
            let message = format!("`{run}` has no delivery `{part}`");
            return Err(ApiError::not_found(message));
        }
        None => {
            let applied_part = revertible_parts(&parts, &deliveries)?.into_iter().next();
            applied_part.unwrap_or_else(|| newest.clone())
        }
    };
    let Some(applied_delivery) = AppliedDelivery::open(OpenDelivery::open(&deliveries, &part)?)?
    else {
        let message = format!("nothing of `{run}` was applied");
        return Err(ApiError::conflict(message));
    };
    let rows = revert(applied_delivery, &request.paths, request.force, host)?;
    let rows: Vec<Value> = rows.iter().map(|row| undo_row(row, host)).collect();
    // The delivery of a pipeline is offered again, and an earlier delivery of a run only by its
    // name.
    let may_apply_again = part == *newest && !pipelines::is_name(run);
    Ok(json!({"rows": rows, "may_apply_again": may_apply_again}))
}

fn undo_row(row: &UndoRow, host: &Host) -> Value {
    let path = display_path(&row.path, &host.cwd);
    match row.outcome {
        UndoOutcome::Restored => json!({"path": path, "outcome": "restored"}),
        UndoOutcome::PartlyRestored(hunks) => {
            json!({"path": path, "outcome": "restored", "hunks": hunks})
        }
        UndoOutcome::Removed => json!({"path": path, "outcome": "removed"}),
        UndoOutcome::Left(reason) => json!({"path": path, "outcome": "left", "reason": reason}),
    }
}
