//! Checks the backend of an agent: its vendor, endpoint, model and parameters.

use std::sync::Arc;

use secrecy::SecretString;
use url::Url;

use crate::config::check::ConfigChecker;
use crate::config::check::commands::sandbox;
use crate::config::check::mapping_view::{MappingView, TextValue, scalar_text};
use crate::config::diagnostic::quote;
use crate::config::keys::backend::{BACKEND, FALLBACK_SECTION};
use crate::config::keys::shape::Integer;
use crate::config::keys::{ConfigKey, TypedKey, backend, commands, limits, nearest_hint, root};
use crate::config::model_family::find_foreign_maker;
use crate::config::rates::RateLimit;
use crate::config::vendors::{self, ImageInput, ReasoningEcho, VENDORS, Vendor, VendorConnection};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::config::{BackendConfig, KeyHosts, MediaModels, ReplyTimeouts, ScriptSource};
use crate::path::AbsPath;
use crate::text::list_names;

/// The default time that an external agent may be silent, in seconds: longer than the commands that
/// such programs run.
const EXTERNAL_AGENT_IDLE_SECONDS_DEFAULT: u64 = 1_200;

impl ConfigChecker<'_> {
    /// Builds the backend of one agent.
    pub(super) fn backend(&mut self, view: &MappingView<'_>) -> Option<BackendConfig> {
        let vendor = view
            .text(&backend::TYPE)
            .and_then(|text| self.vendor(&text));
        let api_key = view
            .text(&backend::API_KEY)
            .and_then(|text| self.api_key(&text));
        let vendor = vendor?;
        let model = self.model(view, vendor);
        let base_url = self.base_url(view, vendor);
        let level_refusal = self.context.policy.refuse_level(sandbox(view));
        self.refuse_by_policy(view.at(&commands::SANDBOX), level_refusal);
        let script = self.script(view, vendor);
        let model = model?;
        let image_input_default = vendor.image_input_at(base_url.as_deref());
        let mut backend = BackendConfig {
            vendor,
            base_url,
            api_key,
            key_hosts: KeyHosts::default(),
            parameters: self.parameters(view, &BACKEND, vendor, &model),
            model,
            script,
            external_agent: None,
            media: self.media(view, vendor),
            image_input: image_input(view, image_input_default),
            reasoning_echo: reasoning_echo(view),
            timeouts: reply_timeouts(view, vendor),
            subagent_models: Vec::new(),
            fallback: Vec::new(),
        };
        if let VendorConnection::ExternalAgent(protocol) = vendor.connection {
            backend.external_agent = Some(Arc::new(self.external_agent(view, &backend, protocol)?));
            return Some(backend);
        }
        self.refuse_external_agent_keys(view);
        self.warn_of_foreign_model(view, &backend);
        backend.fallback = self.fallback(view, &backend)?;
        Some(backend)
    }

    /// Builds the fallback models of `primary`.
    fn fallback(
        &mut self,
        view: &MappingView<'_>,
        primary: &BackendConfig,
    ) -> Option<Vec<BackendConfig>> {
        let items = view.items(&backend::FALLBACK);
        items
            .into_iter()
            .map(|(path, node)| match scalar_text(node, path.clone()) {
                Some(text) => Some(BackendConfig {
                    model: text.value.trim().to_owned(),
                    parameters: self.fallback_parameters(primary, &text),
                    ..primary.clone()
                }),
                None => self.fallback_with_settings(&MappingView { node, path }, primary),
            })
            .collect()
    }

    /// Builds a fallback model that has settings of its own.
    fn fallback_with_settings(
        &mut self,
        view: &MappingView<'_>,
        primary: &BackendConfig,
    ) -> Option<BackendConfig> {
        let type_text = view.text(&backend::TYPE);
        let vendor = match &type_text {
            Some(text) => self.vendor(text)?,
            None => primary.vendor,
        };
        if let (VendorConnection::ExternalAgent(_), Some(text)) = (vendor.connection, type_text) {
            let message = "an external agent cannot be a fallback";
            let hint = "make it a separate agent, or use a type with an HTTP API";
            self.refuse(&text, message, hint);
            return None;
        }
        let api_key = view
            .text(&backend::API_KEY)
            .and_then(|text| self.api_key(&text));
        let model = self.model(view, vendor)?;
        let parameters = self.parameters(view, &FALLBACK_SECTION, vendor, &model);
        let url_text = view.text(&backend::BASE_URL);
        let is_same_server = vendor.name == primary.vendor.name && url_text.is_none();
        let image_input_default = if is_same_server {
            primary.image_input
        } else {
            vendor.image_input_at(url_text.map(|text| text.value))
        };
        Some(BackendConfig {
            vendor,
            model,
            base_url: if is_same_server {
                primary.base_url.clone()
            } else {
                self.base_url(view, vendor)
            },
            api_key: api_key.or_else(|| primary.api_key.clone().filter(|_| is_same_server)),
            key_hosts: KeyHosts::default(),
            parameters,
            script: self.script(view, vendor),
            external_agent: None,
            media: MediaModels::default(),
            image_input: image_input(view, image_input_default),
            reasoning_echo: reasoning_echo(view)
                .or(primary.reasoning_echo.filter(|_| is_same_server)),
            timeouts: primary.timeouts,
            subagent_models: Vec::new(),
            fallback: Vec::new(),
        })
    }

    /// Builds the rate limits.
    pub(super) fn rate_limits(&mut self, root: &MappingView<'_>) -> Vec<RateLimit> {
        let views = root.views(&root::RATE_LIMITS).into_iter();
        let rate_limit = |view: MappingView<'_>| RateLimit {
            vendor: view
                .text(&limits::RATE_TYPE)
                .and_then(|text| self.vendor(&text)),
            model: view.string(&limits::RATE_MODEL),
            requests_per_minute: view.integer(&limits::REQUESTS_PER_MINUTE),
            tokens_per_minute: view.integer(&limits::TOKENS_PER_MINUTE),
        };
        views.map(rate_limit).collect()
    }

    /// Returns the vendor with this name; adds an error if it is unknown or not supported.
    pub(super) fn vendor(&mut self, text: &TextValue<'_>) -> Option<&'static Vendor> {
        let name = quote(text.value);
        let names = VENDORS.iter().map(|vendor| vendor.name);
        if let Some(vendor) = vendors::find_vendor(text.value) {
            if vendor.is_supported() {
                let refusal = self.context.policy.refuse_model(vendor, None);
                let is_allowed = refusal.is_none();
                self.refuse_by_policy(text, refusal);
                return is_allowed.then_some(vendor);
            }
            let message = format!("backend type {name} is not supported yet");
            self.refuse(text, message, vendor.alternative.unwrap_or_default());
            return None;
        }
        let supported = VENDORS.iter().filter(|vendor| vendor.is_supported());
        let supported: Vec<&str> = supported.map(|vendor| vendor.name).collect();
        let known_types = format!("known types: {}", list_names(&supported, "and"));
        let hint = match vendors::type_of_company(text.value) {
            Some(vendor_name) => format!("did you mean `{vendor_name}`?"),
            None => nearest_hint(text.value, names, known_types),
        };
        self.refuse(text, format!("unknown backend type {name}"), hint);
        None
    }

    fn api_key(&mut self, text: &TextValue<'_>) -> Option<SecretString> {
        if text.value.trim().is_empty() {
            let hint = "remove it to use the vendor's environment variable";
            self.refuse(text, "`api_key` is empty", hint);
            return None;
        }
        Some(SecretString::from(text.value))
    }

    fn model(&mut self, view: &MappingView<'_>, vendor: &Vendor) -> Option<String> {
        let config_model = view
            .text(&backend::MODEL)
            .map(|text| text.value.trim().to_owned())
            .filter(|name| !name.is_empty());
        let model = config_model.or_else(|| vendor.default_model.map(str::to_owned));
        if model.is_none() {
            let message = format!("`model` is missing, and `{}` has no default", vendor.name);
            let hint = "add `model: …` with a name that the vendor lists";
            self.refuse(view.at(&backend::MODEL), message, hint);
        }
        model
    }

    /// Warns about a model of another maker than the one whose server is asked.
    fn warn_of_foreign_model(&mut self, view: &MappingView<'_>, backend: &BackendConfig) {
        let Some(maker) = find_foreign_maker(backend, self.context.env) else {
            return;
        };
        let message = format!(
            "{} is a model of `{maker}`, but `type` is `{}`",
            quote(&backend.model),
            backend.vendor.name
        );
        let hint = format!("set `type: {maker}`");
        self.warn(view.at(&backend::MODEL), message, hint);
    }

    /// Returns the endpoint of a backend, which the policy of the machine has to allow.
    fn base_url(&mut self, view: &MappingView<'_>, vendor: &Vendor) -> Option<String> {
        let endpoint = self.endpoint(view, vendor)?;
        let url = Url::parse(&endpoint).ok();
        let refusal = self.context.policy.refuse_model(vendor, url.as_ref());
        self.refuse_by_policy(view.at(&backend::BASE_URL), refusal);
        Some(endpoint)
    }

    /// Returns the endpoint from the config, else from the vendor's variable, else the vendor's
    /// own.
    fn endpoint(&mut self, view: &MappingView<'_>, vendor: &Vendor) -> Option<String> {
        if let Some(text) = view.text(&backend::BASE_URL) {
            if let Some(problem) = url_problem(text.value) {
                let hint = "write it like `https://api.example.org/v1`";
                self.refuse(&text, format!("`base_url` {problem}"), hint);
            }
            return Some(text.value.to_owned());
        }
        let endpoint = vendor.endpoint(None, |name| self.context.env.get(name).map(str::to_owned));
        if endpoint.is_none() && vendor.is_http() {
            let message = format!(
                "`base_url` is missing, and `{}` has no default",
                vendor.name
            );
            let hint = match vendor.base_url_variable {
                Some(name) => format!("add `base_url: https://…`, or set {name}"),
                None => "add `base_url: https://…`".to_owned(),
            };
            self.refuse(view.at(&backend::BASE_URL), message, hint);
        }
        endpoint
    }

    /// Returns the source of a scripted backend's replies; other types have none.
    fn script(&mut self, view: &MappingView<'_>, vendor: &Vendor) -> Option<ScriptSource> {
        let replies = view
            .get(&backend::REPLIES)
            .map(|node| ScriptSource::Inline {
                replies: node.to_json(),
                lines: self.item_lines(node),
            });
        let file = view
            .text(&backend::SCRIPT)
            .and_then(|text| self.config_relative_path(&text).map(ScriptSource::File));
        let is_scripted = vendor.connection == VendorConnection::Scripted;
        let (replies_key, script_key): (&ConfigKey, &ConfigKey) =
            (&backend::REPLIES, &backend::SCRIPT);
        let (key, message, hint) = match (is_scripted, replies, file) {
            (true, Some(script), None) | (true, None, Some(script)) => return Some(script),
            (false, None, None) => return None,
            (true, None, None) => (
                replies_key,
                "a `scripted` backend needs its replies",
                "list them under `replies`, or name a file with `script`",
            ),
            (true, Some(_), Some(_)) => (
                script_key,
                "`replies` and `script` are both set",
                "keep one of the two",
            ),
            (false, replies, _) => (
                if replies.is_some() {
                    replies_key
                } else {
                    script_key
                },
                "only a `scripted` backend can have replies",
                "write `type: scripted`, or remove the key",
            ),
        };
        self.refuse(view.at(key), message, hint);
        None
    }

    /// Returns the line of each item of a list, from 1.
    fn item_lines(&self, list: &YamlNode) -> Vec<usize> {
        let YamlValue::List(items) = &list.value else {
            return Vec::new();
        };
        let line_ends = self.text.match_indices('\n').map(|(index, _)| index);
        let line_ends: Vec<usize> = line_ends.collect();
        let line = |item: &YamlNode| {
            let earlier_lines = line_ends.partition_point(|end| *end < item.span.start);
            earlier_lines.saturating_add(1)
        };
        items.iter().map(line).collect()
    }

    /// Resolves a file name; a relative one is resolved against the config's directory.
    pub(super) fn config_relative_path(&mut self, text: &TextValue<'_>) -> Option<AbsPath> {
        // Also of a relative name, so that an invalid one gets its error.
        let path = self.path(text)?;
        let is_relative = !text.value.starts_with(['/', '~']);
        let config_dir = self.origin.directory.as_ref().filter(|_| is_relative);
        Some(match config_dir {
            Some(directory) => AbsPath::resolve(directory, text.value),
            None => path,
        })
    }
}

/// Returns whether the model accepts images, as the config says; `default` if it does not say.
fn image_input(view: &MappingView<'_>, default: ImageInput) -> ImageInput {
    match view.flag(&backend::IMAGE_INPUT) {
        Some(true) => ImageInput::Accepted,
        Some(false) => ImageInput::Refused,
        None => default,
    }
}

/// Returns whether the model gets its reasoning back, if that is configured.
fn reasoning_echo(view: &MappingView<'_>) -> Option<ReasoningEcho> {
    let is_wanted = view.flag(&backend::REASONING_ECHO)?;
    Some(if is_wanted {
        ReasoningEcho::Wanted
    } else {
        ReasoningEcho::Refused
    })
}

/// Returns the timeouts of replies.
fn reply_timeouts(view: &MappingView<'_>, vendor: &Vendor) -> ReplyTimeouts {
    let default = match vendor.connection {
        VendorConnection::ExternalAgent(_) => ReplyTimeouts {
            idle_seconds: EXTERNAL_AGENT_IDLE_SECONDS_DEFAULT,
            ..ReplyTimeouts::default()
        },
        VendorConnection::Http(_) | VendorConnection::Scripted | VendorConnection::Unsupported => {
            ReplyTimeouts::default()
        }
    };
    let seconds = |key: &TypedKey<Integer>, default| view.integer(key).unwrap_or(default);
    ReplyTimeouts {
        first_byte_seconds: seconds(
            &backend::FIRST_BYTE_TIMEOUT_SECONDS,
            default.first_byte_seconds,
        ),
        idle_seconds: seconds(&backend::IDLE_TIMEOUT_SECONDS, default.idle_seconds),
        total_seconds: seconds(&backend::REQUEST_TIMEOUT_SECONDS, default.total_seconds),
    }
}

/// Returns why a string cannot be the address of a model's API; `None` if it can.
fn url_problem(text: &str) -> Option<&'static str> {
    let Ok(url) = Url::parse(text) else {
        return Some("is not a URL");
    };
    if !matches!(url.scheme(), "http" | "https") {
        Some("is not an HTTP URL")
    } else if !url.username().is_empty() || url.password().is_some() {
        Some("contains a password: use `api_key` instead")
    } else if url.host_str().is_none_or(str::is_empty) {
        Some("has no host")
    } else {
        None
    }
}
