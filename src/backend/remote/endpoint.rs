//! The URLs of requests, their headers, and the key for them. Nothing here opens a connection.

use std::fmt;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use url::Url;

use crate::backend::connect::ConnectContext;
use crate::config::vendors::{EndpointStyle, KeyRequirement, UrlDestination, Vendor, destination};
use crate::config::{BackendConfig, KeyHosts};
use crate::error::{Error, ErrorKind, Result};
use crate::text::list_names;

/// The config parameter for the version of Azure's API; it goes into the URL.
const API_VERSION: &str = "api_version";
/// The version of Azure's API that is used if the config names none.
const API_VERSION_DEFAULT: &str = "2024-12-01-preview";
/// The version of Anthropic's API: the only stable one so far.
/// <https://platform.claude.com/docs/en/api/versioning>
const ANTHROPIC_VERSION: &str = "2023-06-01";
/// The config parameters that name beta features of Anthropic's API, as a list or as a string; they
/// go into a header.
pub(crate) const BETAS: &[&str] = &["betas", "anthropic_beta"];

/// A key and its origin.
#[derive(Debug)]
pub(crate) struct ApiKey {
    pub(crate) secret: SecretString,
    pub(crate) origin: KeyOrigin,
}

/// Origin of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeyOrigin {
    /// `api_key` in the config.
    Config,
    /// This environment variable.
    Variable(&'static str),
}

impl fmt::Debug for KeyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prints the name of the key's origin, in backticks.
impl fmt::Display for KeyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyOrigin::Config => f.write_str("`api_key`"),
            KeyOrigin::Variable(name) => write!(f, "`{name}`"),
        }
    }
}

/// Returns the endpoint as the user configured it, before anything is appended.
pub(crate) fn base_url(config: &BackendConfig, context: ConnectContext<'_>) -> Result<Url> {
    let vendor = config.vendor;
    let text = vendor
        .endpoint(config.base_url.as_deref(), context.env)
        .ok_or_else(|| missing_base_url_error(vendor))?;
    match Url::parse(&text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
            match context.policy.refuse_model(vendor, Some(&url)) {
                Some(refusal) => Err(refusal),
                None => Ok(url),
            }
        }
        Ok(_) | Err(_) => {
            let message = format!("`base_url: {text}` is not an `http://` or `https://` URL");
            Err(Error::new(ErrorKind::Config, message).with_hint("write it as `https://host/v1`"))
        }
    }
}

fn missing_base_url_error(vendor: &Vendor) -> Error {
    let message = format!("`type: {}` needs an endpoint", vendor.name);
    let error =
        Error::new(ErrorKind::Config, message).with_hint("set `base_url` in addition to `type`");
    match vendor.base_url_variable {
        Some(variable) => error.with_hint(format!("or set `{variable}`")),
        None => error,
    }
}

/// Returns the key from the config or, if it has none, from the environment.
pub(crate) fn key(
    config: &BackendConfig,
    base_url: &Url,
    context: ConnectContext<'_>,
) -> Result<Option<ApiKey>> {
    // Without `base_url`, the endpoint is the vendor's, or comes from the user's environment.
    let key_hosts = match config.base_url {
        None => KeyHosts::Configured,
        Some(_) => config.key_hosts,
    };
    let variables = match (key_hosts, destination(base_url)) {
        (KeyHosts::Configured, _) => config.vendor.key_variables_at(base_url),
        (KeyHosts::OfVendors, UrlDestination::Vendor(variables)) => variables,
        (KeyHosts::OfVendors, UrlDestination::ThisMachine | UrlDestination::Elsewhere(_)) => &[],
    };
    if let Some(secret) = &config.api_key {
        let (secret, origin) = (secret.clone(), KeyOrigin::Config);
        return Ok(Some(ApiKey { secret, origin }));
    }
    for variable in variables {
        if let Some(value) = (context.env)(variable).filter(|value| !value.trim().is_empty()) {
            let (secret, origin) = (value.trim().into(), KeyOrigin::Variable(variable));
            return Ok(Some(ApiKey { secret, origin }));
        }
    }
    match config.vendor.key_requirement_at(base_url) {
        KeyRequirement::Optional => Ok(None),
        KeyRequirement::Required => Err(missing_key_error(config.vendor, variables)),
    }
}

fn missing_key_error(vendor: &Vendor, variables: &[&str]) -> Error {
    let names = list_names(variables, "or");
    let message = format!("no API key for `{}`: {names} is not set", vendor.name);
    Error::new(ErrorKind::Environment, message)
        .with_hint(format!(
            "export {names}, or set it in `.env` in this directory or in `~/.massgen/.env`"
        ))
        .with_hint("or see it work without an API key: `massgen demo`")
}

/// Returns the URL for Chat Completions. A `base_url` that already has the full path is used as it
/// is.
pub(crate) fn chat_url(
    base_url: &Url,
    config: &BackendConfig,
    context: ConnectContext<'_>,
) -> Result<Url> {
    let path = base_url.path().trim_end_matches('/');
    // Azure's newer API ends in `/v1` and is like everyone else's.
    let classic_azure =
        config.vendor.endpoint_style == EndpointStyle::Azure && !path.ends_with("/v1");
    let mut segments = Vec::new();
    if classic_azure && !path.contains("/deployments/") {
        segments.extend(["openai", "deployments", &config.model]);
    }
    if !path.ends_with("/chat/completions") {
        segments.extend(["chat", "completions"]);
    }

    let mut url = append_path(base_url, segments);
    if classic_azure && !url.query_pairs().any(|(name, _)| name == "api-version") {
        let version = api_version(&config.parameters, context)?;
        url.query_pairs_mut().append_pair("api-version", &version);
    }
    Ok(url)
}

/// Returns the URL for Responses. A `base_url` that already has the full path is used as it is.
pub(crate) fn responses_url(base_url: &Url) -> Url {
    let path = base_url.path().trim_end_matches('/');
    if path.ends_with("/responses") {
        base_url.clone()
    } else {
        append_path(base_url, ["responses"])
    }
}

fn api_version(parameters: &Map<String, Value>, context: ConnectContext<'_>) -> Result<String> {
    match parameters.get(API_VERSION) {
        Some(Value::String(version)) => Ok(version.clone()),
        None | Some(Value::Null) => Ok((context.env)("AZURE_OPENAI_API_VERSION")
            .unwrap_or_else(|| API_VERSION_DEFAULT.to_owned())),
        Some(other) => {
            let message = format!("`{API_VERSION}: {other}` is not a string");
            Err(Error::new(ErrorKind::Config, message).with_hint(format!(
                "write it as `{API_VERSION}: \"{API_VERSION_DEFAULT}\"`"
            )))
        }
    }
}

/// Returns the URL for a stream from one of Google's models. A name with a slash includes the kind
/// of the model, as in `tunedModels/mine`.
pub(crate) fn generate_url(base_url: &Url, model: &str) -> Url {
    let kind = (!model.contains('/')).then_some("models");
    let method = format!("{model}:streamGenerateContent");
    let mut url = append_path(base_url, kind.into_iter().chain(method.split('/')));
    url.query_pairs_mut().append_pair("alt", "sse");
    url
}

/// Returns the URL for Messages. A `base_url` that already has the full path is used as it is.
pub(crate) fn messages_url(base_url: &Url) -> Url {
    let path = base_url.path().trim_end_matches('/');
    let segments: &[&str] = if path.ends_with("/messages") {
        &[]
    } else if path.ends_with("/v1") {
        &["messages"]
    } else {
        &["v1", "messages"]
    };
    append_path(base_url, segments.iter().copied())
}

/// Returns the URL of another API of the same endpoint, whose `base_url` may have the full path for
/// Responses.
pub(crate) fn sibling_url<'w>(base_url: &Url, path: impl IntoIterator<Item = &'w str>) -> Url {
    let mut base_url = base_url.clone();
    let is_full = base_url
        .path()
        .trim_end_matches('/')
        .ends_with("/responses");
    if let (true, Ok(mut segments)) = (is_full, base_url.path_segments_mut()) {
        segments.pop_if_empty().pop();
    }
    append_path(&base_url, path)
}

/// Appends to the path of `base_url`; its query stays.
fn append_path<'w>(base_url: &Url, path: impl IntoIterator<Item = &'w str>) -> Url {
    let mut url = base_url.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Returns the headers of each request.
pub(crate) fn headers(config: &BackendConfig, key: Option<&ApiKey>) -> Result<HeaderMap> {
    let style = config.vendor.endpoint_style;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = key {
        let secret = key.secret.expose_secret();
        let (name, text) = match style {
            EndpointStyle::Standard => (AUTHORIZATION, format!("Bearer {secret}")),
            EndpointStyle::Azure => (HeaderName::from_static("api-key"), secret.to_owned()),
            EndpointStyle::Google => (HeaderName::from_static("x-goog-api-key"), secret.to_owned()),
            EndpointStyle::Anthropic => (HeaderName::from_static("x-api-key"), secret.to_owned()),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| unsendable_key_error(key))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    if style == EndpointStyle::Anthropic {
        let version = HeaderValue::from_static(ANTHROPIC_VERSION);
        headers.insert("anthropic-version", version);
        if let Some(betas) = beta_header(&config.parameters)? {
            headers.insert("anthropic-beta", betas);
        }
    }
    Ok(headers)
}

/// Returns the header for the beta features that a config names.
fn beta_header(parameters: &Map<String, Value>) -> Result<Option<HeaderValue>> {
    let values = BETAS.iter().filter_map(|name| parameters.get(*name));
    let texts = values.flat_map(|value| match value.as_array() {
        Some(list) => list.iter().filter_map(Value::as_str).collect(),
        None => Vec::from_iter(value.as_str()),
    });
    let beta_names: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    if beta_names.is_empty() {
        return Ok(None);
    }
    let names = beta_names.join(",");
    HeaderValue::from_str(&names).map(Some).map_err(|_| {
        let message = format!("`betas: {names}` contains characters that cannot be sent");
        Error::new(ErrorKind::Config, message).with_hint("write them as `betas: [name-2026-01-31]`")
    })
}

fn unsendable_key_error(key: &ApiKey) -> Error {
    let message = format!(
        "the API key from {} contains characters that cannot be sent",
        key.origin
    );
    Error::new(ErrorKind::Environment, message)
        .with_hint("an API key is one line of printable ASCII characters: check for line breaks")
}
