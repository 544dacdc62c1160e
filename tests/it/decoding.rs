//! Invariants of every decoded reply, whatever its bytes are. Tests and fuzz targets share them; no
//! network is involved.

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use massgen::backend::connect::ConnectContext;
use massgen::backend::conversation::{ChatMessage, Conversation};
use massgen::backend::rate_limit::RateLimiter;
use massgen::backend::remote::RemoteBackend;
use massgen::backend::{BackendError, ModelRequest, ReplyEvent};
use massgen::config::machine_policy::MachinePolicy;
use massgen::config::vendors::{ImageInput, VendorConnection, find_vendor};
use massgen::config::{BackendConfig, KeyHosts, ReplyTimeouts};
use massgen::path::AbsPath;
use massgen::spending::models::ModelList;
use massgen::tools::CallRequest;
use massgen::world::io::http::HttpClient;
use serde_json::Map;

/// Content type of a streamed body.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";
/// Content type of a complete body.
const JSON: &str = "application/json";
/// Id of an earlier call.
const TAKEN_ID: &str = "taken";
/// Length of the separator that decoders insert between two texts, in bytes.
const BREAK_BYTES: usize = "\n\n".len();

/// One reply, as far as it could be decoded.
type Events = Vec<Result<ReplyEvent, BackendError>>;

/// Returns the backend that `config` describes, with an empty environment.
pub(crate) fn connect(config: &BackendConfig) -> RemoteBackend {
    let context = ConnectContext {
        env: &|_| None,
        http: &HttpClient::new(),
        cwd: &AbsPath::new("/").unwrap(),
        rate_limiter: &RateLimiter::default(),
        models: &ModelList::with_user_rows(Vec::new()),
        read: &|path| panic!("{path} was read"),
        policy: &MachinePolicy::default(),
    };
    let VendorConnection::Http(format) = config.vendor.connection else {
        panic!("`{}` is not asked over HTTP", config.vendor.name);
    };
    RemoteBackend::connect(config, format, context).unwrap()
}

/// Returns the config of a model of `vendor` at the vendor's own endpoint.
pub(crate) fn backend_config(vendor: &str) -> BackendConfig {
    BackendConfig {
        vendor: find_vendor(vendor).unwrap(),
        model: "big-model".to_owned(),
        base_url: None,
        api_key: Some("sk-1".into()),
        key_hosts: KeyHosts::default(),
        parameters: Map::new(),
        script: None,
        external_agent: None,
        media: massgen::config::MediaModels::default(),
        image_input: ImageInput::Accepted,
        reasoning_echo: None,
        timeouts: ReplyTimeouts::default(),
        subagent_models: Vec::new(),
        fallback: Vec::new(),
    }
}

/// Decoder of one wire format, for replies to a conversation with an earlier call.
#[derive(Debug)]
pub(crate) struct Decoding {
    remote: RemoteBackend,
    conversation: Conversation,
}

impl Decoding {
    /// Returns the decoder for `vendor`.
    pub(crate) fn of(vendor: &str) -> Self {
        let earlier = CallRequest {
            id: TAKEN_ID.to_owned(),
            name: "read_text_file".to_owned(),
            arguments: "{}".to_owned(),
        };
        let message = ChatMessage::Assistant {
            text: String::new(),
            calls: vec![earlier],
            echo: None,
        };
        Self {
            remote: connect(&backend_config(vendor)),
            conversation: Conversation::from_messages(vec![message]),
        }
    }

    /// Returns the events of a body that arrives in these chunks.
    pub(crate) fn events<'c>(
        &self,
        content_type: &str,
        chunks: impl IntoIterator<Item = &'c [u8]>,
    ) -> Events {
        let request = ModelRequest {
            system: "".into(),
            conversation: &self.conversation,
            tools: [].into(),
        };
        let chunks: Vec<Vec<u8>> = chunks.into_iter().map(<[u8]>::to_vec).collect();
        let body = stream::iter(chunks).map(|chunk| Ok(chunk.into())).boxed();
        let reply = self.remote.decode_body(request, content_type, body);
        let events = stream::once(reply).try_flatten().collect::<Vec<_>>();
        events.now_or_never().expect("all bytes are there")
    }

    /// Checks the invariants of every body.
    #[track_caller]
    pub(crate) fn check(&self, body: &[u8]) {
        Self::check_sound(body, &self.events(JSON, [body]));

        let events = self.events(EVENT_STREAM, [body]);
        Self::check_sound(body, &events);
        let one_by_one = self.events(EVENT_STREAM, body.chunks(1));
        assert_eq!(one_by_one, events, "in chunks of one byte");
        let pieces = body.chunk_by(|one, other| (one ^ other) % 4 != 0);
        assert_eq!(self.events(EVENT_STREAM, pieces), events, "in pieces");

        let half = &body[..body.len() / 2];
        let begun = self.events(EVENT_STREAM, [half]);
        Self::check_sound(half, &begun);
        if let Some((Err(_), head)) = begun.split_last() {
            assert!(events.starts_with(head), "{head:?} became {events:?}");
        }
    }

    /// Checks that the events are a reply or an error: one end and nothing after it, only valid
    /// calls and only before the end, and no more text than was received.
    #[track_caller]
    fn check_sound(body: &[u8], events: &Events) {
        let (last, others) = events.split_last().expect("a reply ends");
        let others: Vec<&ReplyEvent> = others
            .iter()
            .map(|event| event.as_ref().expect("only the last event is an error"))
            .collect();
        let (mut ids, mut text_bytes) = (vec![TAKEN_ID], 0);
        for event in others {
            match event {
                ReplyEvent::Text(text) | ReplyEvent::Reasoning(text) => {
                    assert!(!text.is_empty(), "an empty text");
                    text_bytes += text.len() - BREAK_BYTES.min(text.len());
                }
                ReplyEvent::Call(call) => {
                    assert!(last.is_ok(), "a call in a broken reply");
                    assert!(!call.name.is_empty() && !call.id.is_empty(), "{call:?}");
                    assert!(!ids.contains(&&*call.id), "an id twice: {call:?}");
                    ids.push(&call.id);
                }
                ReplyEvent::Echo(_)
                | ReplyEvent::Usage(_)
                | ReplyEvent::UnknownFinish(_)
                | ReplyEvent::Cost(_)
                | ReplyEvent::Uncounted
                | ReplyEvent::NativeToolCall(_)
                | ReplyEvent::Plan(_) => {}
                ReplyEvent::End(_) => panic!("something after the end: {events:?}"),
            }
        }
        assert!(
            text_bytes <= body.len(),
            "more text than came: {text_bytes}"
        );
        let is_end = matches!(last, Ok(ReplyEvent::End(_)) | Err(_));
        assert!(is_end, "no end: {last:?}");
    }
}
