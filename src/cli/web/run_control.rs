//! What the person at the page decides about a live run: answers to its questions, messages
//! to its agents, and its end.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::json;

use crate::agent::user_messages::{MessageRecipient, MessageRejection, UserMessage};
use crate::cli::web::logged_run::find_logged;
use crate::cli::web::page_run::PageRun;
use crate::cli::web::pending_questions::{parse_approval, parse_decision};
use crate::cli::web::reply::{ApiError, ApiResult, JsonBody, JsonReply};
use crate::cli::web::server_state::WebServer;
use crate::event::InputChannel;
use crate::id::AgentId;
use crate::orchestrator::review::UserQuestion;

/// Body of an answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerRequest {
    /// `None` leaves an open question without an answer.
    answer: Option<String>,
}

/// Body of `POST /api/runs/{id}/stop`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StopRequest {
    mode: StopMode,
}

/// Body of `POST /api/runs/{id}/messages`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageRequest {
    /// The agent that reads it; all agents if there is none.
    agent: Option<String>,
    text: String,
}

/// How a run is stopped.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StopMode {
    /// It ends with the best that it has.
    Finish,
    /// It is aborted.
    Cancel,
}

/// Answers `POST /api/runs/{id}/approvals/{approval}`.
pub(super) async fn approve(
    State(server): State<Arc<WebServer>>,
    Path((id, approval)): Path<(String, String)>,
    JsonBody(request): JsonBody<AnswerRequest>,
) -> ApiResult {
    let run = live_run(&server, id).await?;
    let decision = request
        .answer
        .as_deref()
        .and_then(parse_approval)
        .ok_or_else(|| ApiError::invalid("expected `once`, `session` or `no`"))?;
    let question = run.feed().with_questions(|questions| {
        questions
            .take(|id, question| id == approval && matches!(question, UserQuestion::Call { .. }))
    });
    let Some(UserQuestion::Call { answer, .. }) = question else {
        return Err(no_question_error(&approval));
    };
    answer
        .send(decision)
        .map_err(|_| no_question_error(&approval))?;
    Ok(JsonReply(json!({"answered": approval})))
}

/// Answers `POST /api/runs/{id}/questions/{question}`: an open question, or whether a delivery
/// whose checks failed is kept.
pub(super) async fn answer(
    State(server): State<Arc<WebServer>>,
    Path((id, question_id)): Path<(String, String)>,
    JsonBody(request): JsonBody<AnswerRequest>,
) -> ApiResult {
    let run = live_run(&server, id).await?;
    let decision = request.answer.as_deref().and_then(parse_decision);
    let question = run.feed().with_questions(|questions| {
        let failed_check = questions.find(|id, question| {
            id == question_id && matches!(question, UserQuestion::FailedCheck { .. })
        });
        if failed_check.is_some() && decision.is_none() {
            return Err(ApiError::invalid("expected `keep` or `revert`"));
        }
        let is_wanted = |id: &str, question: &UserQuestion| {
            let has_text_answer = matches!(
                question,
                UserQuestion::FailedCheck { .. } | UserQuestion::Open { .. }
            );
            id == question_id && has_text_answer
        };
        questions
            .take(is_wanted)
            .ok_or_else(|| no_question_error(&question_id))
    })?;
    let is_sent = match (question, decision) {
        (UserQuestion::Open { answer, .. }, _) => match request.answer {
            Some(text) => answer.send(text).is_ok(),
            None => !answer.is_closed(),
        },
        (UserQuestion::FailedCheck { answer, .. }, Some(decision)) => answer.send(decision).is_ok(),
        (
            UserQuestion::FailedCheck { .. }
            | UserQuestion::Apply { .. }
            | UserQuestion::Call { .. },
            _,
        ) => false,
    };
    if !is_sent {
        return Err(no_question_error(&question_id));
    }
    Ok(JsonReply(json!({"answered": question_id})))
}

/// Answers `POST /api/runs/{id}/stop`.
pub(super) async fn stop(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<StopRequest>,
) -> ApiResult {
    let run = live_run(&server, id).await?;
    // The immediate stop comes first, so that no agent begins another step in between.
    if let StopMode::Cancel = request.mode {
        run.stop().immediate.cancel();
    }
    run.stop().graceful.cancel();
    Ok(JsonReply(json!({"stopping": true})))
}

/// Answers `POST /api/runs/{id}/messages`: a message that agents read before their next request.
pub(super) async fn send_message(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<MessageRequest>,
) -> ApiResult {
    let run = live_run(&server, id).await?;
    let agent = request
        .agent
        .as_deref()
        .map(AgentId::parse)
        .transpose()
        .map_err(|error| ApiError::invalid(error.to_string()))?;
    let message = UserMessage {
        to: MessageRecipient::from(agent),
        text: request.text.into(),
        by: InputChannel::Web,
    };
    match run.send(message) {
        Some(Ok(())) => Ok(JsonReply(json!({"sent": true}))),
        Some(Err(rejection @ MessageRejection::RunOver)) => {
            Err(ApiError::conflict(rejection.to_string()))
        }
        Some(Err(rejection)) => Err(ApiError::invalid(rejection.to_string())),
        None => Err(ApiError::conflict("the run takes no messages")),
    }
}

/// Returns a live run that the page started.
async fn live_run(server: &WebServer, id: String) -> ApiResult<Arc<PageRun>> {
    let run = find_logged(server, id).await?;
    let page_run = server.runs.find(run.name());
    page_run.filter(|run| !run.is_ended()).ok_or_else(|| {
        let message = format!("`{}` is not an active run of this page", run.name());
        ApiError::conflict(message)
            .with_hint("a run of another process is answered and stopped in its terminal")
    })
}

fn no_question_error(question: &str) -> ApiError {
    ApiError::conflict(format!("nothing waits for an answer to `{question}`"))
}
