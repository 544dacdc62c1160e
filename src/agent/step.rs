//! One step of an agent: asks its model until there is a complete reply. Transient errors are
//! retried, a conversation that is too long is compacted, and a model that cannot continue is
//! replaced by its fallback; each a bounded number of times.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures_util::StreamExt;
use serde_json::Value;

use crate::agent::budget::RequestOutcome;
use crate::agent::compaction::compact;
use crate::agent::recorded_conversation::RecordedReply;
use crate::agent::request_guard::RequestGuard;
use crate::agent::{ModelReply, ModelSession};
use crate::backend::available_model::AvailableModel;
use crate::backend::conversation::ChatMessage;
use crate::backend::rate_limit::RateReservation;
use crate::backend::{
    BackendError, BackendErrorKind, CALLS_MAX, ModelRequest, NativeToolCall, REPLY_BYTES_MAX,
    ReplyEvent, json_bytes,
};
use crate::config::vendors::ImageInput;
use crate::config::vendors::file_input::ModelFileInput;
use crate::event::{ModelEvent, ReplyTextKind, RunEvent, StopReason, ToolEvent};
use crate::prompts::call_answers;
use crate::text::{escape_name, truncate};
use crate::world::io::clock::milliseconds;
use crate::world::io::event_sink::wait_until_recorded;

/// Maximum number of retries of one request after transient errors. If one request in three fails,
/// one in twenty thousand fails for good.
const RETRIES_MAX: usize = 8;
/// Maximum number of retries of one request if the server is unreachable.
const UNREACHABLE_RETRIES_MAX: usize = 5;
/// First retry delay; it doubles each time, with jitter.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(250);
/// Maximum retry delay. If the vendor asks for more, the fallback is asked, or the agent drops out:
/// the others would have to wait for it.
const RETRY_WAIT_MAX: Duration = Duration::from_mins(1);
/// Maximum number of compactions for one request.
const COMPACTIONS_MAX: u32 = 4;
/// Maximum number of times that a paused reply is continued.
const PAUSES_MAX: u32 = 32;
/// Maximum number of replies in a row that the output limit may cut in their calls.
const CUT_REPLIES_MAX: u32 = 3;
/// Maximum length of a finish reason that is shown, in characters.
const FINISH_CHARS_MAX: usize = 200;
/// Maximum length of the text in one event, in bytes, so that queued events are bounded in size.
const EVENT_TEXT_BYTES_MAX: usize = 16 * 1024;

/// A complete reply, with how it ended.
struct StreamedReply {
    reply: ModelReply,
    /// What the vendor requires back with it in later requests.
    echo: Option<Value>,
    stop: StopReason,
}

/// The remaining retries and compactions of one request.
struct RetryBudget {
    delays: ExponentialBackoff,
    unreachable_retries: usize,
    compactions: u32,
}

impl RetryBudget {
    fn new() -> Self {
        let delays = ExponentialBuilder::default()
            .with_min_delay(RETRY_WAIT_MIN)
            .with_max_delay(RETRY_WAIT_MAX)
            .with_max_times(RETRIES_MAX)
            .with_jitter();
        Self {
            delays: delays.build(),
            unreachable_retries: UNREACHABLE_RETRIES_MAX,
            compactions: COMPACTIONS_MAX,
        }
    }

    /// Returns the delay before the request is retried; `None` if a retry is futile.
    fn next_delay(&mut self, error: BackendErrorKind) -> Option<Duration> {
        let requested = match error {
            BackendErrorKind::Permanent
            | BackendErrorKind::NeedsUser(_)
            | BackendErrorKind::InvalidRequest
            | BackendErrorKind::ContextTooLong => return None,
            BackendErrorKind::Unreachable => {
                self.unreachable_retries = self.unreachable_retries.checked_sub(1)?;
                Duration::ZERO
            }
            BackendErrorKind::Transient { retry_after } => retry_after.unwrap_or_default(),
        };
        let delay = self.delays.next()?.min(RETRY_WAIT_MAX);
        (requested <= RETRY_WAIT_MAX).then_some(delay.max(requested))
    }

    /// Returns whether the conversation may be compacted once more, and counts it.
    fn may_compact(&mut self) -> bool {
        let attempts_left = self.compactions.checked_sub(1);
        self.compactions = attempts_left.unwrap_or_default();
        attempts_left.is_some()
    }
}

impl ModelSession {
    /// Asks the model for one reply and adds it to the conversation. A reply whose stream breaks
    /// off is discarded as a whole; one that the vendor paused is continued to its end. A reply
    /// that was paid for is on the disk when this returns.
    pub async fn step(&mut self) -> Result<ModelReply, BackendError> {
        let reply = self.next_reply().await;
        self.wait_until_paid_is_recorded().await;
        reply
    }

    /// Like [`Self::step`], unless `interruption` completes first: then the request is cancelled.
    pub async fn step_unless<T>(
        &mut self,
        interruption: impl Future<Output = T>,
    ) -> Result<Result<ModelReply, BackendError>, T> {
        let cause = tokio::select! {
            biased;
            cause = interruption => cause,
            reply = self.next_reply() => {
                // The reply counts: its recording is not interrupted.
                self.wait_until_paid_is_recorded().await;
                return Ok(reply);
            }
        };
        self.shutdown().await;
        Err(cause)
    }

    /// Waits until the replies so far are on the disk, unless they cost nothing: after a power
    /// failure, the user does not pay again for replies whose calls were carried out.
    async fn wait_until_paid_is_recorded(&self) {
        let is_paid = |model: &AvailableModel| !model.backend.is_free();
        if self.models.first().is_some_and(is_paid) {
            wait_until_recorded(&self.events).await;
        }
    }

    async fn next_reply(&mut self) -> Result<ModelReply, BackendError> {
        if self.compaction_trigger.take() {
            self.compact_conversation().await;
        }
        self.show_images().await;
        self.show_user_messages().await;
        let reply = match self.call_progress.stop_reason() {
            Some(reason) => Err(permanent_error(&reason)),
            None => self.complete_reply().await,
        };
        self.messages.count_step();
        if let Err(error) = &reply {
            self.emit(ModelEvent::Failed {
                agent: self.agent.clone(),
                reason: error.message.clone(),
                problem: error.setup_problem(),
            })
            .await;
        }
        reply
    }

    async fn complete_reply(&mut self) -> Result<ModelReply, BackendError> {
        let mut earlier_text = String::new();
        let mut cut_replies = 0_u32;
        for _ in 0..PAUSES_MAX {
            let streamed_reply = if let Some(recorded_reply) = self.next_recorded_reply() {
                recorded_reply?
            } else {
                let streamed_reply = self.ask_with_retries().await?;
                self.emit_reply(&streamed_reply).await;
                streamed_reply
            };
            let is_paused =
                streamed_reply.stop == StopReason::Paused && streamed_reply.reply.calls.is_empty();
            let is_cut =
                streamed_reply.stop == StopReason::Length && !streamed_reply.reply.calls.is_empty();
            let mut reply = self.append_reply(streamed_reply);
            if is_cut {
                // The last call may lack a part even if its arguments are JSON.
                for call in &reply.calls {
                    self.add_call_result(&call.id, call_answers::reply_cut());
                }
                cut_replies = cut_replies.saturating_add(1);
                if cut_replies == CUT_REPLIES_MAX {
                    let reason = format!(
                        "the output limit cut {CUT_REPLIES_MAX} replies with calls in a row; raise \
                         `max_tokens`"
                    );
                    return Err(permanent_error(&reason));
                }
                continue;
            }
            reply.text.insert_str(0, &earlier_text);
            if !is_paused {
                return Ok(reply);
            }
            earlier_text = reply.text;
        }
        Err(permanent_error("the vendor paused its reply too often"))
    }

    /// Returns the next recorded reply, or the recorded failure.
    fn next_recorded_reply(&mut self) -> Option<Result<StreamedReply, BackendError>> {
        let next_reply = self.recorded.as_mut()?.replies.pop_front()?;
        Some(match next_reply {
            RecordedReply::Failed(error) => Err(error),
            RecordedReply::Whole {
                text,
                calls,
                stop,
                echo,
            } => Ok(StreamedReply {
                reply: ModelReply { text, calls },
                echo,
                stop,
            }),
        })
    }

    /// Returns the first complete reply of the first model that gives one.
    async fn ask_with_retries(&mut self) -> Result<StreamedReply, BackendError> {
        let mut budget = RetryBudget::new();
        loop {
            self.require_request_budget().await?;
            let reservation = self.wait_for_rate_limit().await?;
            let error = match self.send_request(reservation).await {
                Ok(streamed_reply) => return Ok(streamed_reply),
                Err(error) => error,
            };
            if !self.recover(&error, &mut budget).await {
                self.fall_back(with_wait(error)).await?;
                budget = RetryBudget::new();
            }
        }
    }

    /// Prepares a retry with the same model: waits, or makes the conversation acceptable to it.
    /// Returns whether a retry is possible.
    async fn recover(&mut self, error: &BackendError, budget: &mut RetryBudget) -> bool {
        if error.kind == BackendErrorKind::ContextTooLong {
            return budget.may_compact()
                && (self.compact_conversation().await
                    || self.drop_files(ModelFileInput::NONE).await);
        }
        // What the vendor rejects may be a file or an image.
        if error.kind == BackendErrorKind::InvalidRequest {
            return self.drop_files(ModelFileInput::NONE).await || self.drop_images().await;
        }
        let Some(wait) = budget.next_delay(error.kind) else {
            return false;
        };
        self.emit(ModelEvent::Retrying {
            agent: self.agent.clone(),
            reason: error.message.clone(),
            wait_ms: milliseconds(wait),
        })
        .await;
        tokio::time::sleep(wait).await;
        true
    }

    /// Compacts the conversation; returns whether that was possible.
    async fn compact_conversation(&mut self) -> bool {
        let share = self.compaction_trigger.recent_share;
        let compaction = self
            .conversation
            .rewrite(|messages| compact(messages, share));
        let Some(removal) = compaction else {
            return false;
        };
        self.report_compaction(removal).await;
        true
    }

    /// Reports that the conversation was shortened; `removal` says what was removed.
    pub(super) async fn report_compaction(&self, removal: String) {
        self.emit(ModelEvent::ContextCompacted {
            agent: self.agent.clone(),
            removal,
        })
        .await;
    }

    /// Switches to the next model, or returns the error if there is none.
    async fn fall_back(&mut self, error: BackendError) -> Result<(), BackendError> {
        let [failed_model, next_model, ..] = self.models.as_slice() else {
            return Err(error);
        };
        self.emit(ModelEvent::ModelFallback {
            agent: self.agent.clone(),
            from: Arc::clone(&failed_model.name),
            to: Arc::clone(&next_model.name),
            reason: error.message,
        })
        .await;
        self.models.remove(0);
        self.conversation.drop_echoes();
        if self.image_input() == ImageInput::Refused {
            self.drop_images().await;
        }
        if let Some(input) = self.models.first().map(|model| model.file_input) {
            self.drop_files(input).await;
        }
        Ok(())
    }

    async fn emit_reply(&self, streamed_reply: &StreamedReply) {
        self.emit(ModelEvent::Replied {
            agent: self.agent.clone(),
            text: streamed_reply.reply.text.as_str().into(),
            calls: streamed_reply.reply.calls.clone(),
            stop: streamed_reply.stop,
            echo: streamed_reply.echo.clone(),
        })
        .await;
    }

    /// Emits the model's text in pieces of limited size.
    async fn emit_text(&self, kind: ReplyTextKind, text_piece: String) {
        for text in split_text(text_piece, EVENT_TEXT_BYTES_MAX) {
            let agent = self.agent.clone();
            self.emit(ModelEvent::from_piece(kind, agent, text)).await;
        }
    }

    async fn emit_native_tool_call(&self, call: NativeToolCall) {
        let NativeToolCall {
            tool,
            detail,
            denied,
        } = call;
        self.emit(ToolEvent::NativeToolCall {
            agent: self.agent.clone(),
            tool,
            detail,
            denied,
        })
        .await;
    }

    /// Warns that a model ended a reply for an unknown reason.
    async fn warn_unknown_finish(&self, model: &AvailableModel, reason: &str) {
        let reason = escape_name(&truncate(reason, FINISH_CHARS_MAX));
        let message = format!(
            "[{}] `{}` ended a reply with `{reason}`, which is not known here; the reply is taken as complete",
            self.agent, model.name
        );
        self.emit(RunEvent::Warning { message }).await;
    }

    /// Adds a complete reply to the conversation.
    fn append_reply(&mut self, streamed_reply: StreamedReply) -> ModelReply {
        let StreamedReply { reply, echo, .. } = streamed_reply;
        let (text, calls) = (reply.text.clone(), reply.calls.clone());
        self.conversation
            .push(ChatMessage::Assistant { text, calls, echo });
        reply
    }

    async fn send_request(
        &self,
        reservation: Option<RateReservation>,
    ) -> Result<StreamedReply, BackendError> {
        let Some(model) = self.models.first() else {
            return Err(permanent_error("the agent has no model"));
        };
        if let Some(prefix) = &self.shared_prefix {
            prefix.wait().await;
        }
        let mut request = RequestGuard::begin(self, model).await;
        let reply = self.read_reply(model, &mut request).await;
        self.note_reply();
        let tokens = request.usage.total_tokens();
        self.compaction_trigger
            .record_usage(tokens, model.context_tokens);
        // Without a count, the estimate stays.
        if let Some(reservation) = reservation.filter(|_| tokens > 0) {
            reservation.set_token_count(tokens);
        }
        let (agent, messages) = (self.agent.as_str(), self.conversation.messages().len());
        let has_failed = reply.is_err();
        tracing::debug!(agent, messages, failed = has_failed, "a model was asked");
        let outcome = match (request.is_uncounted, has_failed) {
            (true, _) => RequestOutcome::Uncounted,
            (false, true) => RequestOutcome::Failed,
            (false, false) => RequestOutcome::Complete,
        };
        request.end(outcome).await;
        reply
    }

    fn note_reply(&self) {
        if let Some(prefix) = &self.shared_prefix {
            prefix.note_reply();
        }
    }

    /// Waits until the rate limits of the model allow a request, and checks the budget again:
    /// meanwhile others may have spent the rest.
    async fn wait_for_rate_limit(&self) -> Result<Option<RateReservation>, BackendError> {
        let bytes = self.system.len().saturating_add(self.conversation.bytes());
        let model = self.models.first();
        let reservation = model.and_then(|model| model.rate_limiter.reserve(bytes));
        if let Some(reservation) = reservation
            .as_ref()
            .filter(|reservation| !reservation.wait.is_zero())
        {
            self.emit(ModelEvent::RateLimited {
                agent: self.agent.clone(),
                reason: reservation.reason.clone(),
                wait_ms: milliseconds(reservation.wait),
            })
            .await;
            tokio::time::sleep(reservation.wait).await;
            self.require_request_budget().await?;
        }
        Ok(reservation)
    }

    async fn read_reply(
        &self,
        model: &AvailableModel,
        request: &mut RequestGuard<'_>,
    ) -> Result<StreamedReply, BackendError> {
        let mut reply = model.backend.ask(ModelRequest {
            system: Arc::clone(&self.system),
            conversation: &self.conversation,
            tools: Arc::clone(&self.tools),
        });
        let (mut text, mut calls, mut echo) = (String::new(), Vec::new(), None);
        let mut bytes_left = REPLY_BYTES_MAX;
        while let Some(event) = reply.next().await {
            let event = event?;
            self.note_reply();
            bytes_left = bytes_left
                .checked_sub(text_bytes(&event))
                .ok_or_else(reply_too_long)?;
            match event {
                ReplyEvent::Text(piece) => {
                    text.push_str(&piece);
                    self.emit_text(ReplyTextKind::Text, piece).await;
                }
                ReplyEvent::Reasoning(piece) => {
                    self.emit_text(ReplyTextKind::Reasoning, piece).await;
                }
                ReplyEvent::Call(_) if calls.len() == CALLS_MAX => return Err(too_many_calls()),
                ReplyEvent::Call(call) => calls.push(call.cut_if_malformed()),
                ReplyEvent::Echo(value) => echo = Some(value),
                ReplyEvent::Uncounted => request.is_uncounted = true,
                ReplyEvent::Usage(usage) => {
                    request.usage = usage;
                    request.is_uncounted = false;
                }
                ReplyEvent::Cost(cost) => {
                    request.reported_cost = Some(cost);
                    request.is_uncounted = false;
                }
                ReplyEvent::NativeToolCall(call) => self.emit_native_tool_call(call).await,
                // An external agent reports it, without a call of massgen's tool for plans.
                ReplyEvent::Plan(plan) => self.update_plan(None, plan).await,
                ReplyEvent::UnknownFinish(reason) => self.warn_unknown_finish(model, &reason).await,
                ReplyEvent::End(stop) => {
                    let reply = ModelReply { text, calls };
                    return reject_empty(StreamedReply { reply, echo, stop });
                }
            }
        }
        Err(BackendError {
            kind: BackendErrorKind::Transient { retry_after: None },
            message: "the reply was cut before its end".to_owned(),
        })
    }
}

/// Returns the reply, unless it is empty because of the vendor's filter or length limit.
fn reject_empty(streamed_reply: StreamedReply) -> Result<StreamedReply, BackendError> {
    let is_empty = streamed_reply.reply.text.is_empty() && streamed_reply.reply.calls.is_empty();
    match streamed_reply.stop {
        StopReason::Filtered if is_empty => Err(permanent_error("the vendor withheld the reply")),
        StopReason::Length if is_empty => Err(permanent_error(
            "the empty reply reached the vendor's length limit",
        )),
        StopReason::Done | StopReason::Filtered | StopReason::Length | StopReason::Paused => {
            Ok(streamed_reply)
        }
    }
}

/// Returns how much `event` adds to the size of a reply, in bytes.
fn text_bytes(event: &ReplyEvent) -> usize {
    match event {
        ReplyEvent::Text(text) | ReplyEvent::Reasoning(text) => text.len(),
        ReplyEvent::Call(call) => call.name.len().saturating_add(call.arguments.len()),
        ReplyEvent::Echo(value) => json_bytes(value),
        ReplyEvent::NativeToolCall(_)
        | ReplyEvent::Plan(_)
        | ReplyEvent::UnknownFinish(_)
        | ReplyEvent::Uncounted
        | ReplyEvent::Usage(_)
        | ReplyEvent::Cost(_)
        | ReplyEvent::End(_) => 0,
    }
}

fn reply_too_long() -> BackendError {
    permanent_error(&format!("the reply is longer than {REPLY_BYTES_MAX} bytes"))
}

fn too_many_calls() -> BackendError {
    permanent_error(&format!("the reply makes more than {CALLS_MAX} tool calls"))
}

/// Splits `text` into pieces of at most `bytes_max` bytes, which must be enough for any character.
fn split_text(mut text: String, bytes_max: usize) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let later_text = text.split_off(text.floor_char_boundary(bytes_max));
        let piece = std::mem::replace(&mut text, later_text);
        (!piece.is_empty()).then_some(piece)
    })
}

fn permanent_error(message: &str) -> BackendError {
    BackendError {
        kind: BackendErrorKind::Permanent,
        message: message.to_owned(),
    }
}

/// Adds the wait that the vendor asks for to the error, if it exceeds the maximum retry delay.
fn with_wait(mut error: BackendError) -> BackendError {
    if let BackendErrorKind::Transient {
        retry_after: Some(wait),
    } = error.kind
        && wait > RETRY_WAIT_MAX
    {
        let (seconds, seconds_max) = (wait.as_secs(), RETRY_WAIT_MAX.as_secs());
        let message = error.message;
        error.message = format!(
            "{message} (it asks to wait {seconds} s, but massgen waits at most {seconds_max} s)"
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks how often a request is retried that always fails in this way, whatever the jitter.
    #[track_caller]
    fn check(error: BackendErrorKind, expected: usize) {
        for _ in 0..200 {
            let mut budget = RetryBudget::new();
            let waits: Vec<Duration> = std::iter::from_fn(|| budget.next_delay(error)).collect();
            assert_eq!(waits.len(), expected, "{error:?}: {waits:?}");
            assert!(
                waits.iter().all(|wait| *wait <= RETRY_WAIT_MAX),
                "{waits:?}"
            );
        }
    }

    #[test]
    fn a_long_text_is_emitted_in_pieces() {
        #[track_caller]
        fn check(text: &str, expected: &[&str]) {
            let pieces: Vec<String> = split_text(text.to_owned(), 4).collect();
            assert_eq!(pieces, expected);
        }
        check("", &[]);
        check("abcd", &["abcd"]);
        check("abcdefghi", &["abcd", "efgh", "i"]);
        check("abcöf", &["abc", "öf"]);
    }

    #[test]
    fn the_number_of_retries_depends_on_the_kind_of_error() {
        let after = |retry_after| BackendErrorKind::Transient { retry_after };
        check(BackendErrorKind::Permanent, 0);
        check(BackendErrorKind::Unreachable, UNREACHABLE_RETRIES_MAX);
        check(after(None), RETRIES_MAX);
        check(after(Some(RETRY_WAIT_MAX)), RETRIES_MAX);
        check(after(Some(RETRY_WAIT_MAX + Duration::from_millis(1))), 0);
    }
}
