//! Replies of the API: JSON values and errors. They are encoded only when the reply leaves the
//! server, after secrets have been redacted and invisible characters escaped.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind};
use crate::text::{escape_text, map_json_strings};
use crate::world::store::redact::Redactor;

/// Maximum length of a string in a reply, in bytes; the rest is cut off.
pub(super) const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// The content of a reply of the API.
#[derive(Clone, Debug)]
pub(super) struct JsonReply(pub(super) Value);

/// An error of the API.
#[derive(Clone, Debug)]
pub(super) struct ApiError(Box<ApiErrorContent>);

#[derive(Clone, Debug)]
struct ApiErrorContent {
    status: StatusCode,
    message: String,
    hints: Vec<String>,
    details: Value,
}

/// Result of an API call.
pub(super) type ApiResult<T = JsonReply> = std::result::Result<T, ApiError>;

/// The body of a request, which must be JSON.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl IntoResponse for JsonReply {
    fn into_response(self) -> Response {
        let mut response = Response::default();
        response.extensions_mut().insert(self);
        response
    }
}

impl ApiError {
    /// Creates an error with this status.
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self(Box::new(ApiErrorContent {
            status,
            message: message.into(),
            hints: Vec::new(),
            details: Value::Null,
        }))
    }

    /// Creates the error of something that does not exist.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// Creates the error of a request that cannot be understood.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Creates the error of a request that does not fit the state of a run.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// Adds what the client can do next.
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// Adds the fields of an object to the reply.
    pub(super) fn with_details(mut self, details: Value) -> Self {
        self.0.details = details;
        self
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Usage | ErrorKind::Config => StatusCode::BAD_REQUEST,
            ErrorKind::Denied => StatusCode::FORBIDDEN,
            ErrorKind::Limit => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Environment | ErrorKind::Interrupted | ErrorKind::Parked => {
                StatusCode::CONFLICT
            }
            ErrorKind::Backend => StatusCode::BAD_GATEWAY,
            ErrorKind::Io | ErrorKind::Bug => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut api_error = Self::new(status, format!("{error:#}"));
        api_error.0.hints = error.hints().to_vec();
        api_error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let ApiErrorContent {
            status,
            message,
            hints,
            details,
        } = *self.0;
        let mut body = json!({"error": {"message": message, "hints": hints}});
        if let (Some(body), Value::Object(details)) = (body.as_object_mut(), details) {
            body.extend(details);
        }
        (status, JsonReply(body)).into_response()
    }
}

impl<S, T> FromRequest<S> for JsonBody<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => {
                let is_data = matches!(rejection, JsonRejection::JsonDataError(_));
                let status = if is_data {
                    StatusCode::BAD_REQUEST
                } else {
                    rejection.status()
                };
                Err(ApiError::new(status, rejection.body_text()))
            }
        }
    }
}

/// Redacts secrets in `value`, escapes its invisible characters, and shortens its strings.
pub(super) fn sanitize(redactor: &Redactor, value: Value) -> Value {
    map_json_strings(value, &|text| {
        let redacted_text = redactor.text(text);
        let (head, tail) =
            redacted_text.split_at(redacted_text.floor_char_boundary(TEXT_BYTES_MAX));
        let mut head_text = escape_text(head).into_owned();
        if !tail.is_empty() {
            head_text.push('…');
        }
        head_text
    })
}

/// Encodes the reply that a handler returned, if it is one of the API.
pub(super) fn encode(response: &mut Response, redactor: &Redactor) {
    let Some(JsonReply(value)) = response.extensions_mut().remove() else {
        return;
    };
    let text = sanitize(redactor, value).to_string();
    *response.body_mut() = text.into();
    let content_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_hold_no_secret_and_nothing_invisible() {
        let mut redactor = Redactor::default();
        redactor.insert("sk-0123456789abcdef");
        let value = json!({"an\u{202e}swer": ["key sk-0123456789abcdef", 1, null, "a\u{200b}b\n"]});
        let expected = json!({"an\\u{202e}swer": ["key [redacted]", 1, null, "a\\u{200b}b\n"]});
        assert_eq!(sanitize(&redactor, value), expected);
        let long = sanitize(&redactor, json!("ä".repeat(TEXT_BYTES_MAX)));
        assert_eq!(
            long.as_str().unwrap().chars().count(),
            TEXT_BYTES_MAX / 2 + 1
        );
    }
}
