//! Reviews of what pipelines deliver: the changes of `main`, what the person takes of them, and what
//! was applied. Files alone are delivered, as by `massgen apply --history none`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cli::deliveries::pipeline::{file_source, open_delivery};
use crate::cli::deliveries::{deliveries_directory, recover};
use crate::cli::output::CliOutput;
use crate::cli::pipeline::run::pipelines_directory;
use crate::cli::web::reply::{ApiError, ApiResult};
use crate::cli::web::review::{AppliedChanges, DeliveryRequest, apply_selected, plan_json};
use crate::cli::web::server_state::WebServer;
use crate::delivery::plan::DeliveryPlan;
use crate::error::Result;
use crate::host::Host;
use crate::pipeline::delivery::{HistoryMode, PipelineDelivery};
use crate::world::delivery::planning::plan;
use crate::world::delivery::store::OpenDelivery;
use crate::world::store::delivery_names::newest_of_pipeline;
use crate::world::store::pipelines::{self, PipelineDir, find_by_name};

/// Returns what the pipeline `id` would deliver now, and what of it was applied.
pub(super) async fn diff(server: &WebServer, id: &str) -> ApiResult<Value> {
    let _alone = server.runs().lock_deliveries().await;
    let host = server.host();
    let delivering = open(id, host).await?;
    let applied = applied_changes(id, host)?;
    // What is offered for the first time is taken unless the person leaves it.
    let state = if applied.files.is_empty() {
        "offered"
    } else {
        "kept"
    };
    let mut found = json!({"state": state, "files": []});
    if !delivering.is_empty() {
        let delivery = create(&delivering, host)?;
        let planned = plan_files(&delivering, &delivery, host).await;
        let shown = planned.and_then(|planned| plan_json(state, &delivery, &planned, host));
        delivery.discard()?;
        found = shown?;
    }
    if let Some(found) = found.as_object_mut() {
        found.insert("applied".to_owned(), applied.files.into());
    }
    Ok(found)
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
    let _alone = server.runs().lock_deliveries().await;
    let host = server.host();
    let mut output = CliOutput::with_writers(std::io::sink(), std::io::sink());
    recover(host, &mut output)?;
    let delivering = open(id, host).await?;
    delivering.require_unchanged(HistoryMode::Files).await?;
    let delivery = create(&delivering, host)?;
    let applied = plan_files(&delivering, &delivery, host)
        .await
        .map_err(ApiError::from)
        .and_then(|mut planned| apply_selected(&delivery, &mut planned, request, host));
    if !delivery.is_applied() {
        delivery.discard()?;
    }
    applied
}

/// Determines what the pipeline `id` delivers.
async fn open(id: &str, host: &Host) -> ApiResult<PipelineDelivery> {
    let found: Option<PipelineDir> = find_by_name(id, &pipelines_directory(host))?;
    let dir = found.ok_or_else(|| ApiError::not_found(format!("no pipeline `{id}`")))?;
    Ok(open_delivery(dir, HistoryMode::Files, host).await?)
}

fn create(delivering: &PipelineDelivery, host: &Host) -> Result<OpenDelivery> {
    OpenDelivery::create(&deliveries_directory(host), &delivering.delivery_name())
}

/// Plans all files of `delivery`.
async fn plan_files(
    delivering: &PipelineDelivery,
    delivery: &OpenDelivery,
    host: &Host,
) -> Result<DeliveryPlan> {
    let offer = file_source(delivering, delivery, host).await?;
    plan(delivery, &offer, None)
}

/// Returns what was applied of the newest delivery of the pipeline `id`.
fn applied_changes(id: &str, host: &Host) -> Result<AppliedChanges> {
    let deliveries = deliveries_directory(host);
    let newest = newest_of_pipeline(pipelines::short_name(id), &deliveries)?;
    match newest {
        Some(name) => {
            let delivery = OpenDelivery::open(&deliveries, &name)?;
            AppliedChanges::read(&Arc::new(delivery), host)
        }
        None => Ok(AppliedChanges::default()),
    }
}
