//! Reviews of what pipelines deliver: the changes of `main`, what the person takes of them, and
//! what was applied. Files alone are delivered in any choice, and all of them with a commit, as by
//! `massgen apply --history`.

use serde_json::{Value, json};

use crate::cli::deliveries::deliveries_directory;
use crate::cli::deliveries::parts::{parts_of, revertible_parts};
use crate::cli::deliveries::pipeline::{
    apply_with, commit, file_source, open_delivery, require_all_allowed,
};
use crate::cli::pipeline::run::pipelines_directory;
use crate::cli::web::reply::{ApiError, ApiResult};
use crate::cli::web::review::{
    DeliveryRequest, RequestedHistory, applied_files, apply_selected, change_rows, plan_json,
    recover_silently, taken_paths,
};
use crate::cli::web::server_state::WebServer;
use crate::error::Result;
use crate::host::Host;
use crate::pipeline::delivery::{HistoryMode, PipelineDelivery};
use crate::world::delivery::planning::plan;
use crate::world::delivery::store::{DeliverySource, OpenDelivery};
use crate::world::delivery::transaction::{SelectionOrigin, apply};
use crate::world::io::file_change::FileChange;
use crate::world::store::pipelines::{PipelineDir, find_by_name};

/// Returns what the pipeline `id` would deliver now, and what of it was applied.
pub(super) async fn diff(server: &WebServer, id: &str) -> ApiResult<Value> {
    let _delivery_guard = server.runs.lock_deliveries().await;
    let host = &server.host;
    let pipeline_delivery = open_pipeline_delivery(id, HistoryMode::Files, host).await?;
    let deliveries = deliveries_directory(host);
    let parts = parts_of(id, &deliveries)?;
    let revertible_parts = revertible_parts(&parts, &deliveries)?;
    let applied_rows = match revertible_parts.first().or(parts.first()) {
        Some(part) => applied_files(part, host)?,
        None => Vec::new(),
    };
    // What is offered for the first time is taken unless the person leaves it.
    let state = if applied_rows.is_empty() {
        "offered"
    } else {
        "kept"
    };
    let mut review = json!({"state": state, "files": []});
    if !pipeline_delivery.is_empty() {
        let delivery = pipeline_delivery.create_delivery(&deliveries_directory(host))?;
        let source = file_source(&pipeline_delivery, &delivery, host).await;
        let review_result = source
            .and_then(|source| plan(&delivery, &source, None))
            .and_then(|plan| plan_json(state, &delivery, &plan, host));
        delivery.discard()?;
        review = review_result?;
    }
    if let Some(fields) = review.as_object_mut() {
        fields.insert("applied".to_owned(), applied_rows.into());
        fields.insert("parts".to_owned(), revertible_parts.into());
        let may_commit = pipeline_delivery.has_branch() && !pipeline_delivery.is_empty();
        fields.insert("may_commit".to_owned(), may_commit.into());
    }
    Ok(review)
}

/// Applies what the person takes of what the pipeline `id` delivers.
pub(super) async fn deliver(
    server: &WebServer,
    id: &str,
    request: &DeliveryRequest,
) -> ApiResult<Value> {
    if request.answer.is_some() {
        return Err(ApiError::invalid(
            "a pipeline has no answers to choose from",
        ));
    }
    let _delivery_guard = server.runs.lock_deliveries().await;
    let host = &server.host;
    recover_silently(host)?;
    match request.history {
        RequestedHistory::None => deliver_files(id, request, host).await,
        RequestedHistory::Squash => commit_all(id, HistoryMode::Squash, host).await,
        RequestedHistory::Merge => commit_all(id, HistoryMode::Merge, host).await,
    }
}

/// Applies the files and hunks that the request takes.
async fn deliver_files(id: &str, request: &DeliveryRequest, host: &Host) -> ApiResult<Value> {
    let pipeline_delivery = open_pipeline_delivery(id, HistoryMode::Files, host).await?;
    let chosen_paths = taken_paths(&request.files, host);
    let apply = |delivery: &OpenDelivery, source: &DeliverySource| {
        let mut plan = plan(delivery, source, None)?;
        apply_selected(delivery, &mut plan, &request.files, host)
    };
    let mode = HistoryMode::Files;
    let (result, _) = apply_with(&pipeline_delivery, mode, &chosen_paths, host, apply).await?;
    result
}

/// Applies all files, and commits them to the user's branch.
async fn commit_all(id: &str, history_mode: HistoryMode, host: &Host) -> ApiResult<Value> {
    let pipeline_delivery = open_pipeline_delivery(id, history_mode, host).await?;
    if pipeline_delivery.is_empty() {
        let message = "your branch already has all changes of the pipeline";
        return Err(ApiError::conflict(message));
    }
    let (changes, applied_delivery) =
        apply_with(&pipeline_delivery, history_mode, &[], host, apply_all).await?;
    let rows = change_rows(&changes?, host);
    let (commit, branch) = commit(&pipeline_delivery, history_mode, applied_delivery).await?;
    Ok(json!({"answered": true, "rows": rows, "commit": commit.as_str(), "branch": branch}))
}

fn apply_all(delivery: &OpenDelivery, source: &DeliverySource) -> Result<Vec<FileChange>> {
    let plan = plan(delivery, source, None)?;
    require_all_allowed(&plan)?;
    let choices = plan.select_all();
    apply(delivery, &plan, &choices, SelectionOrigin::Default, None)
}

/// Determines what the pipeline `id` delivers in this form.
async fn open_pipeline_delivery(
    id: &str,
    history_mode: HistoryMode,
    host: &Host,
) -> ApiResult<PipelineDelivery> {
    let pipeline: Option<PipelineDir> = find_by_name(id, &pipelines_directory(host))?;
    let dir = pipeline.ok_or_else(|| ApiError::not_found(format!("no pipeline `{id}`")))?;
    Ok(open_delivery(dir, history_mode, host).await?)
}
