//! Makes images and speech through the API of OpenAI:
//! <https://platform.openai.com/docs/api-reference/images/create>,
//! <https://platform.openai.com/docs/api-reference/audio/createSpeech>. The request goes to the
//! endpoint of the agent's model, with its key, or to that of a vendor that the config names.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::StreamExt;
use futures_util::stream;
use reqwest::Response;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use url::Url;

use crate::backend::connect::ConnectContext;
use crate::backend::remote::errors::{LocalServerStart, RemoteErrors};
use crate::backend::remote::reply::{ReplyLimits, collect_body, limited_body, wait_for_vendor};
use crate::backend::remote::{REFUSAL_BYTES_MAX, endpoint};
use crate::backend::{
    Backend, BackendError, BackendErrorKind, ModelRequest, ReplyEvent, ReplyStream,
};
use crate::config::BackendConfig;
use crate::config::pricing_vendor::model_query;
use crate::config::vendors::Vendor;
use crate::error::Result;
use crate::event::StopReason;
use crate::spending::price::ModelPrice;
use crate::spending::{TokenUsage, UsageReport, token_count};
use crate::tools::media::{MediaKind, MediaOrder};
use crate::world::io::http::{HttpClient, display_url};

/// Maximum size of a response, in bytes; an image is a third longer there than in its file.
const RESPONSE_BYTES_MAX: usize = 48 << 20;
/// Timeout of one request, in seconds: images take up to a few minutes.
const REQUEST_SECONDS_MAX: u64 = 600;
/// The voice of speech, unless a call names another.
const VOICE_DEFAULT: &str = "alloy";

/// A model that makes media.
#[derive(Clone, Debug)]
pub struct MediaModel {
    /// Its name.
    pub name: String,
    /// What it costs; `None` if that is not known.
    pub price: Option<ModelPrice>,
}

impl MediaModel {
    /// Returns whether its responses say what was used for media of this kind: for speech and for
    /// images of the older models they do not.
    pub fn usage_report(&self, kind: MediaKind) -> UsageReport {
        match kind {
            MediaKind::Image if !self.name.starts_with("dall-e") => UsageReport::Present,
            MediaKind::Image | MediaKind::Audio => UsageReport::Missing,
        }
    }
}

/// A client of the models of one vendor that make media.
pub struct MediaClient {
    http: HttpClient,
    base_url: Url,
    headers: HeaderMap,
    errors: RemoteErrors,
    image: Option<MediaModel>,
    audio: Option<MediaModel>,
}

impl fmt::Debug for MediaClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the URL, whose query may hold a key, and the headers.
        f.debug_struct("MediaClient")
            .field("image", &self.image)
            .field("audio", &self.audio)
            .finish_non_exhaustive()
    }
}

impl MediaClient {
    /// Returns the client for the models that `config` names, if it names any.
    ///
    /// # Errors
    /// `Config` if the endpoint is missing or malformed, `Environment` if the key is missing.
    pub fn connect(config: &BackendConfig, context: ConnectContext<'_>) -> Result<Option<Self>> {
        let media = &config.media;
        if media.image.is_none() && media.audio.is_none() {
            return Ok(None);
        }
        let other_vendor_config = media.vendor.map(|vendor| vendor_config(config, vendor));
        let config = other_vendor_config.as_ref().unwrap_or(config);
        let model = |name: &String| {
            let config = BackendConfig {
                model: name.clone(),
                ..config.clone()
            };
            MediaModel {
                name: name.clone(),
                price: context.models.price(&model_query(&config)),
            }
        };
        let base_url = endpoint::base_url(config, context)?;
        let key = endpoint::key(config, &base_url, context)?;
        let mut headers = endpoint::headers(config, key.as_ref())?;
        // No response here is an event stream.
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        let shown_url = display_url(&base_url);
        let local = LocalServerStart::for_url(config.vendor, &base_url);
        Ok(Some(Self {
            http: context.http.clone(),
            headers,
            errors: RemoteErrors::new(config.vendor.name, shown_url, key, local),
            image: media.image.as_ref().map(model),
            audio: media.audio.as_ref().map(model),
            base_url,
        }))
    }

    /// Returns the model that makes media of this kind, if there is one.
    pub fn model(&self, kind: MediaKind) -> Option<&MediaModel> {
        match kind {
            MediaKind::Image => self.image.as_ref(),
            MediaKind::Audio => self.audio.as_ref(),
        }
    }

    /// Returns what the vendor has made for `order`.
    ///
    /// # Errors
    /// It has made nothing.
    async fn generate(&self, order: &MediaOrder) -> std::result::Result<MediaReply, BackendError> {
        let name = self.model(order.kind).map(|model| model.name.as_str());
        let name = name.unwrap_or_default();
        let (url_path, body) = match order.kind {
            MediaKind::Image => (["images", "generations"], image_body(name, order)),
            MediaKind::Audio => (["audio", "speech"], speech_body(name, order)),
        };
        let url = endpoint::sibling_url(&self.base_url, url_path);
        let response = self.send(url, &body).await?;
        // From here on the vendor has made something.
        let response = match self.read_body(response).await {
            Ok(response) => response,
            Err(error) => return Ok(MediaReply::unusable(error)),
        };
        let (content, usage) = match order.kind {
            MediaKind::Image => decode_image_response(&response),
            MediaKind::Audio => (decode_speech_response(response), TokenUsage::default()),
        };
        let content = content.map_err(|reason| without_retry(self.errors.malformed_reply(&reason)));
        Ok(MediaReply { content, usage })
    }

    /// Returns the response if it reports success, before its body is read.
    async fn send(&self, url: Url, body: &Value) -> std::result::Result<Response, BackendError> {
        let errors = &self.errors;
        let limits = response_limits();
        let client = self
            .http
            .client_for(&url)
            .map_err(|error| errors.client_setup_failed(&error))?;
        let request = client.post(url).headers(self.headers.clone());
        let response_future = request.body(body.to_string()).send();
        let response = wait_for_vendor(response_future, limits.first_byte, errors).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let refusal_body = limited_body(response, errors, limits);
        let refusal = collect_body(refusal_body, REFUSAL_BYTES_MAX).await;
        Err(errors.http_status_error(status, &headers, &refusal.unwrap_or_default()))
    }

    async fn read_body(&self, response: Response) -> std::result::Result<Vec<u8>, BackendError> {
        let body_stream = limited_body(response, &self.errors, response_limits());
        let body = collect_body(body_stream, RESPONSE_BYTES_MAX).await?;
        if body.len() > RESPONSE_BYTES_MAX {
            return Err(self.errors.too_long("a file", RESPONSE_BYTES_MAX));
        }
        Ok(body)
    }
}

fn response_limits() -> ReplyLimits {
    let timeout = Duration::from_secs(REQUEST_SECONDS_MAX);
    ReplyLimits {
        first_byte: timeout,
        idle: timeout,
        total: timeout,
        event_bytes_max: RESPONSE_BYTES_MAX,
        reply_bytes_max: RESPONSE_BYTES_MAX,
    }
}

/// A successful response of a vendor, which it charges for even if it cannot be used.
struct MediaReply {
    /// The content, or why there is none.
    content: std::result::Result<Vec<u8>, BackendError>,
    /// The tokens that were counted for it.
    usage: TokenUsage,
}

impl MediaReply {
    /// Returns the reply whose body could not be read because of `error`.
    fn unusable(error: BackendError) -> Self {
        Self {
            content: Err(without_retry(error)),
            usage: TokenUsage::default(),
        }
    }

    /// Returns the event with the usage, or for a failed reply without one the event that its usage
    /// is unknown.
    fn usage_event(&self) -> Option<ReplyEvent> {
        if self.usage != TokenUsage::default() {
            return Some(ReplyEvent::Usage(self.usage));
        }
        self.content.is_err().then_some(ReplyEvent::Uncounted)
    }
}

/// Returns `error` as one after which the request is not sent again.
fn without_retry(error: BackendError) -> BackendError {
    let message = error.message;
    BackendError {
        kind: BackendErrorKind::Permanent,
        message: format!(
            "{message}; it is not requested again, because the vendor may charge for it"
        ),
    }
}

/// Returns the config of another vendor's models: at that vendor's endpoint, with the key in its
/// variable, and nothing that was meant for the agent's model.
fn vendor_config(agent: &BackendConfig, vendor: &'static Vendor) -> BackendConfig {
    BackendConfig {
        vendor,
        base_url: None,
        api_key: None,
        parameters: Map::new(),
        external_agent: None,
        script: None,
        fallback: Vec::new(),
        ..agent.clone()
    }
}

fn image_body(model: &str, order: &MediaOrder) -> Value {
    // The older models have another way to say that the image is part of the reply.
    let (name, value) = if model.starts_with("dall-e") {
        ("response_format", "b64_json")
    } else {
        ("output_format", order.format)
    };
    json!({"model": model, "prompt": order.prompt, "n": 1, name: value})
}

fn speech_body(model: &str, order: &MediaOrder) -> Value {
    let voice = order.voice.as_deref().unwrap_or(VOICE_DEFAULT);
    let mut body = Map::new();
    let mut add = |name: &str, value: &str| body.insert(name.to_owned(), json!(value));
    add("model", model);
    add("input", &order.prompt);
    add("voice", voice);
    add("response_format", order.format);
    if let Some(style) = &order.style {
        add("instructions", style);
    }
    body.into()
}

/// Returns the image in the body of a successful response, or why there is none, and the tokens
/// that were counted for it.
fn decode_image_response(body: &[u8]) -> (std::result::Result<Vec<u8>, String>, TokenUsage) {
    let response: Value = match serde_json::from_slice(body) {
        Ok(response) => response,
        Err(error) => return (Err(error.to_string()), TokenUsage::default()),
    };
    let count = |name: &str| {
        let count = response.pointer(&format!("/usage/{name}"));
        count.and_then(token_count).unwrap_or_default()
    };
    let usage = TokenUsage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        ..TokenUsage::default()
    };
    (decode_image(&response), usage)
}

/// Returns the body of a successful response of a model of speech, which is the file itself, unless
/// it is empty.
fn decode_speech_response(body: Vec<u8>) -> std::result::Result<Vec<u8>, String> {
    if body.is_empty() {
        return Err("the body is empty".to_owned());
    }
    Ok(body)
}

fn decode_image(response: &Value) -> std::result::Result<Vec<u8>, String> {
    let text = response
        .pointer("/data/0/b64_json")
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| "the body holds no image".to_owned())?;
    BASE64.decode(text).map_err(|error| error.to_string())
}

/// One request for media, as the backend of a conversation: its reply says in a text what was made,
/// and the content is here.
pub struct MediaRequest {
    client: Arc<MediaClient>,
    order: MediaOrder,
    content: Mutex<Option<Vec<u8>>>,
}

impl fmt::Debug for MediaRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the content.
        f.debug_struct("MediaRequest")
            .field("client", &self.client)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

impl MediaRequest {
    /// Creates the request for `order`.
    pub fn new(client: Arc<MediaClient>, order: MediaOrder) -> Self {
        Self {
            client,
            order,
            content: Mutex::new(None),
        }
    }

    /// Returns what was made, if the request has succeeded.
    pub fn take_content(&self) -> Option<Vec<u8>> {
        self.lock_content().take()
    }

    fn lock_content(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the request, and returns the events of its reply. What was counted comes first, so
    /// that it is charged whether the content can be used or not.
    async fn reply_events(&self) -> Vec<std::result::Result<ReplyEvent, BackendError>> {
        let reply = match self.client.generate(&self.order).await {
            Ok(reply) => reply,
            Err(error) => return vec![Err(error)],
        };
        let mut events: Vec<_> = reply.usage_event().map(Ok).into_iter().collect();
        match reply.content {
            Ok(content) => {
                let (kind, format) = (self.order.kind.name(), self.order.format);
                let text = format!("{kind}, {format}, {} bytes", content.len());
                *self.lock_content() = Some(content);
                events.push(Ok(ReplyEvent::Text(text)));
                events.push(Ok(ReplyEvent::End(StopReason::Done)));
            }
            Err(error) => events.push(Err(error)),
        }
        events
    }
}

impl Backend for MediaRequest {
    fn ask<'a>(&'a self, _request: ModelRequest<'a>) -> ReplyStream<'a> {
        stream::once(self.reply_events())
            .flat_map(stream::iter)
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(kind: MediaKind, format: &'static str) -> MediaOrder {
        MediaOrder {
            kind,
            prompt: "p".to_owned(),
            format,
            voice: None,
            style: Some("slowly".to_owned()),
        }
    }

    #[test]
    fn bodies_have_what_their_models_know() {
        let image = order(MediaKind::Image, "webp");
        let body = json!({"model": "gpt-image-1", "prompt": "p", "n": 1, "output_format": "webp"});
        assert_eq!(image_body("gpt-image-1", &image), body);
        let body = json!({"model": "dall-e-3", "prompt": "p", "n": 1,
            "response_format": "b64_json"});
        assert_eq!(image_body("dall-e-3", &image), body);
        let speech = order(MediaKind::Audio, "mp3");
        let body = json!({"model": "t", "input": "p", "voice": "alloy", "response_format": "mp3",
            "instructions": "slowly"});
        assert_eq!(speech_body("t", &speech), body);
    }

    #[test]
    fn an_image_is_decoded_with_its_usage() {
        let response = json!({"data": [{"b64_json": BASE64.encode(b"abc")}],
            "usage": {"input_tokens": 5, "output_tokens": 7}});
        let (content, usage) = decode_image_response(response.to_string().as_bytes());
        assert_eq!(content.unwrap(), b"abc");
        assert_eq!((usage.input_tokens, usage.output_tokens), (5, 7));
        for malformed in ["", "{}", r#"{"data":[{"url":"https://example.org"}]}"#] {
            let (content, _) = decode_image_response(malformed.as_bytes());
            assert!(content.is_err(), "{malformed}");
        }
    }

    #[test]
    fn unusable_media_is_charged_and_not_requested_again() {
        let response = br#"{"data":[{"b64_json":"@"}],"usage":{"output_tokens":7}}"#;
        let (content, usage) = decode_image_response(response);
        assert!(content.is_err());
        assert_eq!(usage.output_tokens, 7);
        assert!(decode_speech_response(Vec::new()).is_err());
        let reply = MediaReply::unusable(BackendError {
            kind: BackendErrorKind::Transient { retry_after: None },
            message: "closed the connection".to_owned(),
        });
        assert_eq!(reply.usage_event(), Some(ReplyEvent::Uncounted));
        let error = reply.content.unwrap_err();
        assert_eq!(error.kind, BackendErrorKind::Permanent);
        assert!(error.message.contains("not requested again"), "{error}");
    }
}
