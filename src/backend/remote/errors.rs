//! Errors of a vendor or of the connection to it: in the vendor's own words, short, printable,
//! without the key, and classified by whether a retry can help.

use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use secrecy::ExposeSecret;
use serde_json::Value;
use url::Url;

use crate::backend::remote::endpoint::{ApiKey, KeyOrigin};
use crate::backend::remote::wire::ReplyDecodeError;
use crate::backend::{BackendError, BackendErrorKind};
use crate::config::vendors::{Vendor, is_this_machine};
use crate::event::SetupProblem;
use crate::text::{escape_name, truncate};
use crate::world::io::http::{HttpSetupError, causes, root_cause};
use crate::world::store::redact::SECRET_BYTES_MIN;

/// Maximum length of a vendor's message that is shown, in characters.
const MESSAGE_CHARS_MAX: usize = 600;
/// Maximum wait that a vendor can ask for, in seconds.
const RETRY_AFTER_SECONDS_MAX: f64 = 3600.0;
/// Types and codes of errors that persist however often the request is retried.
const PERMANENT_ERRORS: &[&str] = &[
    "FAILED_PRECONDITION",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "content_filter",
    "content_policy_violation",
    "data_inspection_failed",
    "invalid_prompt",
    "invalid_request_error",
    "not_found_error",
    "permission_error",
];

/// Types and codes of errors for a request that is too long.
const TOO_LONG_ERRORS: &[&str] = &["context_length_exceeded", "request_too_large"];

/// What vendors write, in lower case, when a conversation does not fit into a model's context.
const CONTEXT_TOO_LONG_PHRASES: &[&str] = &[
    "maximum context length",
    "context length exceeded",
    "context window",
    "exceed context limit",
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "input token count",
    "exceeds the available context size",
    "reduce the length of the messages",
    "request too large for",
    "greater than the context length",
    "context size has been exceeded",
    "longer than the model's context length",
    "exceeded max context length",
    "maximum prompt length is",
    "exceeded model token limit",
    "range of input length should be",
    "context shift is disabled",
    // Ollama has cut the user's message away.
    "no user query found in messages",
];

/// How the TLS library begins its message about a certificate that it does not accept.
const BAD_CERTIFICATE: &str = "invalid peer certificate";

/// What the HTTP library reports of a name that is not found.
const DNS_FAILURE: &str = "dns error";

/// Types and codes of errors for a model that the endpoint does not have.
const UNKNOWN_MODEL_ERRORS: &[&str] = &["model_not_found", "invalid_model"];
/// What vendors write, in lower case, about a model that they do not have.
const UNKNOWN_MODEL_PHRASES: &[&str] = &[
    "not found",
    "not exist",
    "not a valid model",
    "invalid model",
    "unknown model",
];
/// Types and codes of errors for a key that is not accepted.
const REJECTED_KEY_ERRORS: &[&str] = &["authentication_error", "invalid_api_key"];
/// Types and codes of errors for an account without credit.
const EXHAUSTED_ACCOUNT_ERRORS: &[&str] = &["billing_error", "insufficient_quota"];

/// What Google writes, in lower case, when a quota will not be available again soon. Each of its
/// 429s mentions plan and billing, so that proves nothing.
const QUOTA_EXHAUSTED_PHRASES: &[&str] = &["credits are depleted", "limit: 0,"];
/// Part of the name of a quota that is renewed once a day.
const DAILY_QUOTA: &str = "PerDay";

/// Common context of one backend's errors.
#[derive(Debug)]
pub(super) struct RemoteErrors {
    /// The backend's type.
    vendor: &'static str,
    /// The endpoint, without query and credentials.
    url: String,
    /// The key, so that it can be redacted from messages.
    key: Option<ApiKey>,
    /// The server on this machine that the user has to start, if the endpoint is there.
    local_server: Option<LocalServerStart>,
}

/// A server that the user starts on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalServerStart {
    /// The command that starts it, if there is a usual one.
    start_command: Option<&'static str>,
}

impl LocalServerStart {
    /// Returns the server of `vendor` at `url`, if that is on this machine: the vendor's usual one,
    /// or any that the config or the environment names.
    pub(super) fn for_url(vendor: &Vendor, url: &Url) -> Option<Self> {
        is_this_machine(url).then_some(Self {
            start_command: vendor.start_command,
        })
    }
}

impl RemoteErrors {
    /// Creates the errors of requests to `url` with `key`.
    pub(super) fn new(
        vendor: &'static str,
        url: String,
        key: Option<ApiKey>,
        local_server: Option<LocalServerStart>,
    ) -> Self {
        Self {
            vendor,
            url,
            key,
            local_server,
        }
    }

    /// Returns where the key was found, if there is one.
    pub(super) fn key_origin(&self) -> Option<KeyOrigin> {
        self.key.as_ref().map(|key| key.origin)
    }

    /// Returns the error that the client could not be set up.
    pub(super) fn client_setup_failed(&self, error: &HttpSetupError) -> BackendError {
        self.permanent(&error.to_string())
    }

    /// Returns the error that no response came, or the connection broke.
    pub(super) fn connection_failed(&self, error: reqwest::Error) -> BackendError {
        let error = error.without_url();
        let root = root_cause(&error);
        let cause = self.quote(&root.to_string());
        if error.is_connect() {
            let message = format!("cannot be reached at `{}`: {cause}", self.url);
            if cause.starts_with(BAD_CERTIFICATE) {
                let hint = if cause.contains("not valid for name") {
                    "use a name of the certificate in the URL"
                } else if cause.contains("expired") {
                    "renew the certificate of the server"
                } else {
                    "name a file with its certificate or that of its authority in `SSL_CERT_FILE`"
                };
                return self.permanent(&format!("{message} (hint: {hint})"));
            }
            let system = root.downcast_ref::<std::io::Error>();
            let is_refused =
                system.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
            if causes(&error).any(|cause| cause.to_string() == DNS_FAILURE) {
                let kind = BackendErrorKind::NeedsUser(SetupProblem::NoNetwork);
                return self.error(kind, &message);
            }
            match self.local_server.filter(|_| is_refused) {
                // Nothing listens there, and that will not change by itself.
                Some(LocalServerStart { start_command }) => {
                    let server = start_command.unwrap_or("the server");
                    self.permanent(&format!("{message} (hint: is {server} running?)"))
                }
                None => self.error(BackendErrorKind::Unreachable, &message),
            }
        } else {
            self.transient(&format!("closed the connection: {cause}"))
        }
    }

    /// Returns the error that the reply could not be decoded.
    pub(super) fn decode_failed(&self, error: ReplyDecodeError) -> BackendError {
        match error {
            ReplyDecodeError::Malformed(reason) => self.malformed_reply(&reason),
            ReplyDecodeError::TooLong(excess) => {
                self.permanent(&format!("sent a reply that {excess}"))
            }
            ReplyDecodeError::VendorError(text) => self.vendor_error(&text),
            ReplyDecodeError::ReplyFailed(reason) => self.reply_failed(&reason),
            ReplyDecodeError::UnexpectedEnd => self.transient("sent an incomplete reply"),
        }
    }

    /// Returns the error that the reply took too long.
    pub(super) fn reply_timed_out(&self, total: Duration) -> BackendError {
        self.transient(&format!(
            "did not finish its reply in {} s",
            total.as_secs_f64()
        ))
    }

    /// Returns the error that the header of the response, or more of its body, did not arrive in
    /// time.
    pub(super) fn idle_timed_out(&self, silence: Duration) -> BackendError {
        let seconds = silence.as_secs_f64();
        self.transient(&format!(
            "did not send the next part of its response in {seconds} s"
        ))
    }

    /// Returns the error that more arrived than the limit allows.
    pub(super) fn too_long(&self, part: &str, bytes_max: usize) -> BackendError {
        self.permanent(&format!("sent {part} of more than {bytes_max} bytes"))
    }

    /// Returns the error that the response cannot be decoded.
    pub(super) fn malformed_reply(&self, reason: &str) -> BackendError {
        self.transient(&format!("sent a malformed reply: {}", self.quote(reason)))
    }

    /// Returns the error that a web page came instead of a reply.
    pub(super) fn web_page(&self) -> BackendError {
        let url = &self.url;
        self.permanent(&format!(
            "answered with a web page at `{url}`: check `base_url`"
        ))
    }

    fn reply_failed(&self, finish_reason: &str) -> BackendError {
        let reason = self.quote(finish_reason);
        self.transient(&format!("ended its reply with `{reason}`"))
    }

    /// Returns the error for an HTTP status other than success, with the body as far as it was
    /// read.
    pub(super) fn http_status_error(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> BackendError {
        let error = VendorErrorBody::parse(&String::from_utf8_lossy(body));
        let vendor_message = self.quote(&error.describe());
        let mut message = format!("answered {}", status.as_str());
        if let Some(reason) = status.canonical_reason() {
            message = format!("{message} {reason}");
        }
        if !vendor_message.is_empty() {
            message = format!("{message}: {vendor_message}");
        }
        let note = match (status.as_u16(), &self.key) {
            (401 | 403, Some(key)) => format!(" (the key is from {})", key.origin),
            (401 | 403, None) => " (no key was sent)".to_owned(),
            (400, Some(key)) if error.is_about_key() => {
                format!(" (the key is from {})", key.origin)
            }
            // The path begins with the name of the API.
            (404, _) if matches!(self.url.split('/').nth(3), Some("chat" | "responses")) => {
                format!(
                    " (asked at `{}`; hint: end `base_url` with `/v1`)",
                    self.url
                )
            }
            (404, _) => format!(" (asked at `{}`)", self.url),
            (300..400, _) => self.describe_redirect(headers),
            (400 | 422, _) if vendor_message.contains("stream_options") => {
                " (set `stream_options: null` next to `model` to omit it)".to_owned()
            }
            (400, _) if vendor_message.starts_with("Encrypted content is not supported") => {
                " (set `include: null` next to `model` to not request it)".to_owned()
            }
            _ => String::new(),
        };
        message.push_str(&note);
        let kind = error.kind(Some(status.as_u16()), retry_after(headers), &vendor_message);
        self.error(kind, &message)
    }

    /// Returns an error that the vendor sent instead of a reply or within it. The request was
    /// accepted before, so it may well recover.
    fn vendor_error(&self, text: &str) -> BackendError {
        let error = VendorErrorBody::parse(text);
        let vendor_message = self.quote(&error.describe());
        let message = format!("reported an error: {vendor_message}");
        self.error(error.kind(error.status(), None, &vendor_message), &message)
    }

    fn describe_redirect(&self, headers: &HeaderMap) -> String {
        let target = headers.get(LOCATION).map(HeaderValue::as_bytes);
        let target = String::from_utf8_lossy(target.unwrap_or_default());
        format!(" (redirects to `{}` are not followed)", self.quote(&target))
    }

    fn permanent(&self, message: &str) -> BackendError {
        self.error(BackendErrorKind::Permanent, message)
    }

    fn transient(&self, message: &str) -> BackendError {
        let retry_after = None;
        self.error(BackendErrorKind::Transient { retry_after }, message)
    }

    fn error(&self, kind: BackendErrorKind, message: &str) -> BackendError {
        BackendError {
            kind,
            message: format!("`{}` {message}", self.vendor),
        }
    }

    /// Prepares a vendor's message for display.
    fn quote(&self, text: &str) -> String {
        let secret = self
            .key
            .as_ref()
            .map_or("", |key| key.secret.expose_secret());
        // Local servers accept any short key, such as `x`, and words contain it by chance.
        let text = if secret.len() < SECRET_BYTES_MIN {
            text.to_owned()
        } else {
            text.replace(secret, "[key]")
        };
        let printable = escape_name(text.replace(char::is_control, " ").trim());
        truncate(&printable, MESSAGE_CHARS_MAX)
    }
}

/// Returns whether a status means that the same request may succeed later.
fn is_transient_status(status: u16) -> bool {
    // 499 is Google's own, for requests that it cancelled itself.
    matches!(status, 408 | 409 | 425 | 429 | 499) || status >= 500
}

/// Returns whether a status means that the vendor rejects something in the request. Vendors that
/// select a model by its capabilities answer 404 if none accepts images.
fn is_invalid_request_status(status: u16) -> bool {
    matches!(status, 400 | 404 | 413 | 415 | 422)
}

/// An error body as vendors write it: JSON in one of many shapes, or plain text.
struct VendorErrorBody {
    json: Value,
    text: String,
}

impl VendorErrorBody {
    fn parse(text: &str) -> Self {
        let mut json: Value = serde_json::from_str(text).unwrap_or_default();
        // Google wraps the error in a list.
        if let Some(first_element) = json.get_mut(0) {
            json = first_element.take();
        }
        let text = text.to_owned();
        Self { json, text }
    }

    /// Returns the vendor's message, wherever it is in the body.
    fn message(&self) -> String {
        const PLACES: &[&str] = &[
            "/error/message",
            "/error",
            "/message",
            "/detail",
            "/detail/0/msg",
            "/errors/0/message",
        ];
        let at = |pointer: &&str| self.json.pointer(pointer)?.as_str();
        let message = PLACES.iter().find_map(at).unwrap_or(&self.text);
        // OpenRouter puts the message of the vendor behind it there.
        match at(&"/error/metadata/raw") {
            Some(raw) => format!("{message}: {raw}"),
            None => message.to_owned(),
        }
    }

    /// Returns what is shown: its message, and the vendor's id of the request.
    fn describe(&self) -> String {
        let request = self
            .json
            .get("request_id")
            .and_then(Value::as_str)
            .map(|id| format!(" (request `{id}`)"));
        self.message() + &request.unwrap_or_default()
    }

    /// Returns the kind of an error with this status: whether a retry can help. `wait` is the wait
    /// that the headers ask for; without one, that of the error or of its `message` is used.
    fn kind(&self, status: Option<u16>, wait: Option<Duration>, message: &str) -> BackendErrorKind {
        if self.is_context_too_long() {
            BackendErrorKind::ContextTooLong
        } else if let Some(problem) = self.setup_problem(status) {
            BackendErrorKind::NeedsUser(problem)
        } else if status.is_some_and(is_invalid_request_status) {
            BackendErrorKind::InvalidRequest
        } else if self.is_permanent() || status.is_some_and(|status| !is_transient_status(status)) {
            BackendErrorKind::Permanent
        } else {
            let retry_after = wait
                .or_else(|| self.retry_delay())
                .or_else(|| parse_wait(message));
            BackendErrorKind::Transient { retry_after }
        }
    }

    /// Returns what the user has to change first, if it is one of that kind.
    fn setup_problem(&self, status: Option<u16>) -> Option<SetupProblem> {
        let has_type = |types: &[&str]| self.error_types().any(|kind| types.contains(&kind));
        let message = self.message().to_lowercase();
        let is_about_model = message.contains("model")
            && UNKNOWN_MODEL_PHRASES
                .iter()
                .any(|phrase| message.contains(phrase));
        if status == Some(402) || has_type(EXHAUSTED_ACCOUNT_ERRORS) || self.is_quota_exhausted() {
            Some(SetupProblem::ExhaustedAccount)
        } else if matches!(status, Some(401 | 403))
            || has_type(REJECTED_KEY_ERRORS)
            || self.is_about_key()
        {
            Some(SetupProblem::RejectedKey)
        } else if has_type(UNKNOWN_MODEL_ERRORS)
            || (matches!(status, Some(400 | 404)) && is_about_model)
            || (has_type(&["not_found_error"]) && message.contains("model"))
        {
            Some(SetupProblem::UnknownModel)
        } else {
            None
        }
    }

    /// Returns whether it means that the conversation does not fit into the model's context.
    fn is_context_too_long(&self) -> bool {
        let message = self.message().to_lowercase();
        self.error_types()
            .any(|kind| TOO_LONG_ERRORS.contains(&kind))
            || CONTEXT_TOO_LONG_PHRASES
                .iter()
                .any(|phrase| message.contains(phrase))
    }

    /// Returns whether it is of a type that persists however often the request is retried.
    fn is_permanent(&self) -> bool {
        self.error_types()
            .any(|kind| PERMANENT_ERRORS.contains(&kind))
            || self.is_quota_exhausted()
    }

    /// Returns whether a quota is used up that will not be available again soon.
    fn is_quota_exhausted(&self) -> bool {
        let message = self.message().to_lowercase();
        let violations = self.details().filter_map(|detail| detail.get("violations"));
        let quotas = violations.filter_map(Value::as_array).flatten();
        let mut names = quotas.filter_map(|violation| violation.get("quotaId")?.as_str());
        names.any(|name| name.contains(DAILY_QUOTA))
            || QUOTA_EXHAUSTED_PHRASES
                .iter()
                .any(|phrase| message.contains(phrase))
    }

    /// Returns whether Google rejects the key, which it reports with an ambiguous status.
    fn is_about_key(&self) -> bool {
        self.details()
            .any(|detail| detail.get("reason").and_then(Value::as_str) == Some("API_KEY_INVALID"))
    }

    /// Returns the wait that Google asks for, as in `17.5s`.
    fn retry_delay(&self) -> Option<Duration> {
        let delay = self
            .details()
            .find_map(|detail| detail.get("retryDelay")?.as_str())?;
        duration(delay)
    }

    /// Returns the details that Google adds to an error.
    fn details(&self) -> impl Iterator<Item = &Value> {
        let details = self
            .json
            .pointer("/error/details")
            .and_then(Value::as_array);
        details.into_iter().flatten()
    }

    /// Returns the types and codes that it names.
    fn error_types(&self) -> impl Iterator<Item = &str> {
        [
            "/error/type",
            "/error/code",
            "/error/status",
            "/type",
            "/code",
        ]
        .into_iter()
        .filter_map(|pointer| self.json.pointer(pointer)?.as_str())
    }

    /// Returns the HTTP status that the error would have had by itself.
    fn status(&self) -> Option<u16> {
        let code = self.json.pointer("/error/code");
        match code.or_else(|| self.json.get("code"))? {
            Value::Number(number) => number.as_u64()?.try_into().ok(),
            Value::String(text) => text.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// Returns the wait that the vendor asks for, in seconds or until a date. The date is relative to
/// the vendor's own clock, which is in the same headers.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let until_date = || {
        let response_date = date(headers.get(DATE)?.to_str().ok()?)?;
        Some(date(text)?.duration_since(response_date).as_secs_f64())
    };
    bounded_wait(text.trim().parse().ok().or_else(until_date)?)
}

/// Returns a wait of this many seconds, clamped to the bounds.
fn bounded_wait(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.clamp(0.0, RETRY_AFTER_SECONDS_MAX)).ok()
}

/// Returns the wait that the vendor's message asks for: `Please try again in 1.2s.`
fn parse_wait(message: &str) -> Option<Duration> {
    let (_, wait_text) = message.split_once("try again in ")?;
    duration(wait_text.split_whitespace().next()?.trim_end_matches('.'))
}

/// Parses a wait as in `17.5s` or `1m30s`, and clamps it to the bounds.
fn duration(text: &str) -> Option<Duration> {
    let duration: SignedDuration = text.parse().ok()?;
    bounded_wait(duration.as_secs_f64())
}

fn date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text.trim()).ok()
}
