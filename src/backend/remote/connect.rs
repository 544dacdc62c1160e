//! Creates a remote client: finds endpoint and key, and selects the wire format. It must never open
//! a connection.

use std::sync::Mutex;

use crate::backend::chatcompletion::ChatCompletionsCodec;
use crate::backend::connect::ConnectContext;
use crate::backend::gemini::GenerateContentCodec;
use crate::backend::messages::MessagesCodec;
use crate::backend::remote::errors::{LocalServerStart, RemoteErrors};
use crate::backend::remote::reply::ReplyLimits;
use crate::backend::remote::wire::WireCodec;
use crate::backend::remote::{RemoteBackend, endpoint};
use crate::backend::responses::ResponsesCodec;
use crate::config::BackendConfig;
use crate::config::vendors::WireFormat;
use crate::error::Result;
use crate::world::io::http::display_url;

impl RemoteBackend {
    /// Finds endpoint and key of the model that `config` describes, whose vendor uses `format`.
    ///
    /// # Errors
    /// `Config` if the endpoint is missing or malformed, `Environment` if the key is missing.
    pub fn connect(
        config: &BackendConfig,
        format: WireFormat,
        context: ConnectContext<'_>,
    ) -> Result<Self> {
        let base_url = endpoint::base_url(config, context)?;
        let key = endpoint::key(config, &base_url, context)?;
        let (url, wire): (_, Box<dyn WireCodec>) = match format {
            WireFormat::ChatCompletions => {
                let url = endpoint::chat_url(&base_url, config, context)?;
                let wire = ChatCompletionsCodec::new(config, &url);
                (url, Box::new(wire))
            }
            WireFormat::Responses => {
                let url = endpoint::responses_url(&base_url);
                (url, Box::new(ResponsesCodec::new(config)))
            }
            WireFormat::Messages => {
                let wire = MessagesCodec::new(config);
                (endpoint::messages_url(&base_url), Box::new(wire))
            }
            WireFormat::GenerateContent => {
                let url = endpoint::generate_url(&base_url, &config.model);
                (url, Box::new(GenerateContentCodec::new(config)))
            }
        };
        context.http.add_host(&url);
        let headers = endpoint::headers(config, key.as_ref())?;
        let local = LocalServerStart::for_url(config.vendor, &url);
        Ok(Self {
            http: context.http.clone(),
            headers,
            wire,
            prefix_cache: Mutex::default(),
            errors: RemoteErrors::new(config.vendor.name, display_url(&url), key, local),
            limits: ReplyLimits::from_timeouts(config.timeouts),
            url,
        })
    }
}
