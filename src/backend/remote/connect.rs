//! Owns the making of a remote client: finds endpoint and key, chooses the wire. It must never open
//! a connection.

use std::sync::Mutex;

use crate::backend::chatcompletion::Completions;
use crate::backend::connect::Surroundings;
use crate::backend::gemini::GenerateContent;
use crate::backend::messages::Messages;
use crate::backend::remote::Remote;
use crate::backend::remote::endpoint;
use crate::backend::remote::faults::Faults;
use crate::backend::remote::reply::Limits;
use crate::backend::remote::wire::Wire;
use crate::backend::responses::Responses;
use crate::config::BackendConfig;
use crate::config::vendors::WireFormat;
use crate::error::Result;
use crate::world::http::place;

impl Remote {
    /// Finds endpoint and key of the model that `config` describes, whose vendor speaks `format`.
    ///
    /// # Errors
    /// `Config` if the endpoint is missing or malformed, `Environment` if the key is.
    pub fn connect(
        config: &BackendConfig,
        format: WireFormat,
        around: Surroundings<'_>,
    ) -> Result<Self> {
        let base_url = endpoint::base_url(config, around)?;
        let key = endpoint::key(config, &base_url, around)?;
        let (url, wire): (_, Box<dyn Wire>) = match format {
            WireFormat::ChatCompletions => {
                let url = endpoint::chat_url(&base_url, config, around)?;
                let wire = Completions::new(config, &url);
                (url, Box::new(wire))
            }
            WireFormat::Responses => {
                let url = endpoint::responses_url(&base_url);
                (url, Box::new(Responses::new(config)))
            }
            WireFormat::Messages => {
                let wire = Messages::new(config);
                (endpoint::messages_url(&base_url), Box::new(wire))
            }
            WireFormat::GenerateContent => {
                let url = endpoint::generate_url(&base_url, &config.model);
                (url, Box::new(GenerateContent::new(config)))
            }
        };
        let headers = endpoint::headers(config, key.as_ref())?;
        Ok(Self {
            http: around.http.clone(),
            headers,
            wire,
            written: Mutex::default(),
            faults: Faults::new(config.vendor.name, place(&url), key),
            limits: Limits::of(config.times),
            url,
        })
    }
}
