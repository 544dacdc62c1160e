//! Creates the models of an agent from a config: their backends, fallbacks, subagents' models and
//! clients for tools and media. It finds endpoints and keys and reports what is missing; it must
//! never open a connection: the first request contacts a model.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::backend::Backend;
use crate::backend::available_model::{AvailableModel, SubagentModel};
use crate::backend::external_agent::ExternalAgent;
use crate::backend::rate_limit::RateLimiter;
use crate::backend::remote::RemoteBackend;
use crate::backend::remote::media::MediaClient;
use crate::backend::scripted::ScriptedBackend;
use crate::backend::scripted::script::ScriptedReplies;
use crate::config::api_parameters::{separate_tool_format, separate_tools, without_separate_tools};
use crate::config::machine_policy::MachinePolicy;
use crate::config::pricing_vendor::model_query;
use crate::config::subagents::SubagentBackend;
use crate::config::vendors::file_input::ModelFileInput;
use crate::config::vendors::{VENDORS, Vendor, VendorConnection};
use crate::config::{BackendConfig, ScriptSource};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::spending::models::ModelList;
use crate::tools::vendor_tool::VendorTool;
use crate::world::io::http::HttpClient;

/// Everything besides its config that a backend may need.
#[derive(Clone, Copy)]
pub struct ConnectContext<'a> {
    /// Looks up an environment variable; an empty one counts as unset.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The client that all backends share.
    pub http: &'a HttpClient,
    /// The user's current directory.
    pub cwd: &'a AbsPath,
    /// The rate limits, shared by all agents.
    pub rate_limiter: &'a RateLimiter,
    /// The prices and context sizes of models.
    pub models: &'a ModelList,
    /// Reads a script file as a string.
    pub read: &'a dyn Fn(&AbsPath) -> Result<String>,
    /// The policy of the machine.
    pub policy: &'a MachinePolicy,
}

impl fmt::Debug for ConnectContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectContext")
            .field("cwd", self.cwd)
            .finish_non_exhaustive()
    }
}

/// Returns the model that `config` describes, followed by its fallback models.
///
/// # Errors
/// `Config` for an unsupported type, a malformed endpoint or script; `Environment` for a missing
/// key.
pub fn connect(config: &BackendConfig, context: ConnectContext<'_>) -> Result<Vec<AvailableModel>> {
    // A fallback model has the subagents of its agent.
    let subagents = subagent_models(config, context)?;
    let model = |config: &BackendConfig| {
        Ok(AvailableModel {
            name: config.model.as_str().into(),
            price: context.models.price(&model_query(config)),
            context_tokens: context
                .models
                .find(&model_query(config))
                .and_then(|row| row.context_tokens),
            backend: backend(&without_separate_tools(config), context)?,
            vendor_tools: vendor_tool_clients(config, context)?,
            media: MediaClient::connect(config, context)?.map(Arc::new),
            subagents: Arc::clone(&subagents),
            image_input: config.image_input,
            file_input: ModelFileInput::at(config.vendor, config.base_url.as_deref()),
            rate_limiter: context.rate_limiter.model_limiter(config),
        })
    };
    config.with_fallbacks().map(model).collect()
}

/// Returns the models of the subagents of an agent with these models.
fn subagent_models(
    config: &BackendConfig,
    context: ConnectContext<'_>,
) -> Result<Arc<[SubagentModel]>> {
    let model = |subagent: &SubagentBackend| -> Result<SubagentModel> {
        Ok(SubagentModel {
            name: subagent.name.as_str().into(),
            models: connect(&subagent.backend, context)?.into(),
        })
    };
    config.subagent_models.iter().map(model).collect()
}

/// Returns the clients by which the vendor's tools are used that it does not combine with others.
fn vendor_tool_clients(
    config: &BackendConfig,
    context: ConnectContext<'_>,
) -> Result<BTreeMap<VendorTool, Arc<dyn Backend>>> {
    let client = |tool: VendorTool| -> Result<Option<(VendorTool, Arc<dyn Backend>)>> {
        let Some(format) = separate_tool_format(config.vendor) else {
            return Ok(None);
        };
        // The parameters of the config are meant for the agent's own requests.
        let mut tool_config = config.clone();
        tool_config.parameters = Map::from_iter([(tool.key().to_owned(), Value::Bool(true))]);
        let client = RemoteBackend::connect(&tool_config, format, context)?;
        Ok(Some((tool, Arc::new(client))))
    };
    let tools = separate_tools(config).into_iter();
    tools.filter_map(|tool| client(tool).transpose()).collect()
}

fn backend(config: &BackendConfig, context: ConnectContext<'_>) -> Result<Arc<dyn Backend>> {
    if let Some(refusal) = context.policy.refuse_model(config.vendor, None) {
        return Err(refusal);
    }
    match config.vendor.connection {
        VendorConnection::Http(format) => {
            Ok(Arc::new(RemoteBackend::connect(config, format, context)?))
        }
        VendorConnection::Scripted => {
            let replies = scripted_replies(config, context.cwd, context.read)?;
            Ok(Arc::new(ScriptedBackend::new(replies)))
        }
        VendorConnection::ExternalAgent(_) => {
            let agent_config = config.external_agent.as_ref();
            let external_agent = agent_config.ok_or_else(|| {
                let message = format!("`type: {}` cannot be used here", config.vendor.name);
                Error::new(ErrorKind::Config, message)
                    .with_hint("write it as the `type` of an agent in a config")
            })?;
            Ok(Arc::new(ExternalAgent::new(
                Arc::clone(external_agent),
                config.timeouts,
            )))
        }
        VendorConnection::Unsupported => Err(unsupported_vendor(config.vendor)),
    }
}

/// Checks the scripts of all `scripted` models that are asked for an agent. `read` reads a script.
///
/// # Errors
/// `Config` if one is malformed; the error of `read` if one cannot be read.
pub fn require_scripts(
    config: &BackendConfig,
    cwd: &AbsPath,
    read: &dyn Fn(&AbsPath) -> Result<String>,
) -> Result<()> {
    let models = config.with_subagent_models();
    for model in models.filter(|model| model.script.is_some()) {
        scripted_replies(model, cwd, read)?;
    }
    Ok(())
}

/// Returns the replies of a `scripted` model.
fn scripted_replies(
    config: &BackendConfig,
    cwd: &AbsPath,
    read: &dyn Fn(&AbsPath) -> Result<String>,
) -> Result<ScriptedReplies> {
    match &config.script {
        Some(ScriptSource::Inline { replies, lines }) => {
            ScriptedReplies::from_list(replies, lines, cwd)
        }
        Some(ScriptSource::File(path)) => {
            let text = read(path)?;
            ScriptedReplies::parse(&text, &path.to_string(), cwd)
        }
        None => Err(
            Error::new(ErrorKind::Config, "a `scripted` backend needs replies")
                .with_hint("set `replies` or `script` with `type: scripted`"),
        ),
    }
}

fn unsupported_vendor(vendor: &Vendor) -> Error {
    let supported: Vec<&str> = VENDORS
        .iter()
        .filter(|vendor| vendor.is_supported())
        .map(|vendor| vendor.name)
        .collect();
    let message = format!("`type: {}` is not supported by this version", vendor.name);
    let error = Error::new(ErrorKind::Config, message);
    let error = vendor.alternative.into_iter().fold(error, Error::with_hint);
    error.with_hint(format!("supported types: {}", supported.join(", ")))
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::json;

    use super::*;
    use crate::config::vendors::{ImageInput, find_vendor};
    use crate::config::{KeyHosts, MediaModels, ReplyTimeouts};

    fn config(vendor: &str) -> BackendConfig {
        BackendConfig {
            vendor: find_vendor(vendor).unwrap(),
            model: "m".to_owned(),
            base_url: None,
            api_key: None,
            key_hosts: KeyHosts::default(),
            parameters: Map::new(),
            script: None,
            external_agent: None,
            media: MediaModels::default(),
            image_input: ImageInput::Refused,
            reasoning_echo: None,
            timeouts: ReplyTimeouts::default(),
            subagent_models: Vec::new(),
            fallback: Vec::new(),
        }
    }

    fn connect_and_describe(config: &BackendConfig, env: &[(&str, &str)]) -> Result<String> {
        let value = |name: &str| env.iter().find(|(variable, _)| *variable == name);
        let context = ConnectContext {
            env: &|name| value(name).map(|(_, value)| (*value).to_owned()),
            http: &HttpClient::new(),
            cwd: &AbsPath::new("/home/ada").unwrap(),
            rate_limiter: &RateLimiter::default(),
            models: &ModelList::with_user_rows(Vec::new()),
            read: &|path| Ok(format!("replies: [{{text: from {path}}}]")),
            policy: &MachinePolicy::default(),
        };
        connect(config, context).map(|backend| format!("{backend:?}"))
    }

    #[track_caller]
    fn connection_error(config: &BackendConfig, env: &[(&str, &str)]) -> (ErrorKind, String) {
        let error = connect_and_describe(config, env).unwrap_err();
        let hints = error.hints().join("\n");
        (error.kind(), format!("{error}\n{hints}"))
    }

    #[test]
    fn a_missing_key_names_the_variables_and_where_to_put_them() {
        let (kind, text) = connection_error(&config("moonshot"), &[("OPENAI_API_KEY", "sk-1")]);
        assert_eq!(kind, ErrorKind::Environment);
        insta::assert_snapshot!(text, @r#"
        no API key for `moonshot`: `MOONSHOT_API_KEY` or `KIMI_API_KEY` is not set
        export `MOONSHOT_API_KEY` or `KIMI_API_KEY`, or set it in `.env` in this directory or in `~/.massgen/.env`
        or see it work without an API key: `massgen demo`
        "#);
        assert!(
            connection_error(&config("moonshot"), &[("KIMI_API_KEY", " ")])
                .1
                .contains("no API key")
        );
    }

    #[test]
    fn a_key_is_found_in_the_config_first_and_never_shown() {
        #[track_caller]
        fn check(config: &BackendConfig, env: &[(&str, &str)], origin: &str) {
            let shown = connect_and_describe(config, env).unwrap();
            assert!(shown.contains(origin), "{shown}");
            assert!(!shown.contains("sk-"), "{shown}");
        }

        let both = [("KIMI_API_KEY", "sk-2"), ("MOONSHOT_API_KEY", "sk-1")];
        let mut config = config("moonshot");
        check(&config, &both, "`MOONSHOT_API_KEY`");
        check(&config, &both[..1], "`KIMI_API_KEY`");
        config.api_key = Some(SecretString::from("sk-3"));
        check(&config, &both, "`api_key`");
        config.api_key = Some(SecretString::from("sk-3\n"));
        let (kind, text) = connection_error(&config, &[]);
        assert_eq!(kind, ErrorKind::Environment);
        assert!(!text.contains("sk-3"), "{text}");
    }

    #[test]
    fn an_endpoint_comes_from_the_config_the_environment_or_the_table() {
        let azure = [
            ("AZURE_OPENAI_API_KEY", "sk-1"),
            ("AZURE_OPENAI_ENDPOINT", "https://a.example"),
        ];
        let shown = connect_and_describe(&config("azure_openai"), &azure).unwrap();
        assert!(
            shown.contains("https://a.example/openai/deployments/m/chat"),
            "{shown}"
        );
        let mut named = config("azure_openai");
        named.base_url = Some("https://b.example/".to_owned());
        let shown = connect_and_describe(&named, &azure).unwrap();
        assert!(
            shown.contains("https://b.example/openai/deployments/m/chat"),
            "{shown}"
        );
        let shown = connect_and_describe(&config("ollama"), &[]).unwrap();
        assert!(
            shown.contains("http://localhost:11434/v1/chat/completions"),
            "{shown}"
        );

        let (kind, text) = connection_error(&config("azure_openai"), &azure[..1]);
        assert_eq!(kind, ErrorKind::Config);
        insta::assert_snapshot!(text, @"
        `type: azure_openai` needs an endpoint
        set `base_url` in addition to `type`
        or set `AZURE_OPENAI_ENDPOINT`
        ");
        for malformed in ["localhost:8000/v1", "/v1", "ftp://a.example", "https://"] {
            named.base_url = Some(malformed.to_owned());
            let (kind, text) = connection_error(&named, &azure);
            assert_eq!(kind, ErrorKind::Config);
            assert!(text.contains(malformed), "{text}");
        }
    }

    fn inline(replies: Value) -> ScriptSource {
        let lines = vec![1];
        ScriptSource::Inline { replies, lines }
    }

    #[test]
    fn fallback_models_have_the_subagents_of_their_agent() {
        let mut model = config("scripted");
        model.script = Some(inline(json!([{"text": "x"}])));
        let mut agent = model.clone();
        agent.fallback = vec![model.clone()];
        agent.subagent_models = vec![SubagentBackend {
            name: "quick".to_owned(),
            backend: model,
        }];
        let shown = connect_and_describe(&agent, &[]).unwrap();
        assert_eq!(shown.matches("name: \"quick\"").count(), 2, "{shown}");
    }

    #[test]
    fn a_type_that_is_not_supported_names_what_to_use_instead() {
        let (kind, text) = connection_error(&config("copilot"), &[("OPENAI_API_KEY", "sk-1")]);
        assert_eq!(kind, ErrorKind::Config);
        let (text, supported) = text.rsplit_once("\nsupported types: ").unwrap();
        insta::assert_snapshot!(text, @"
        `type: copilot` is not supported by this version
        use `type: acp` with `command: [copilot, --acp]`, if the program is installed
        ");
        assert!(supported.starts_with("chatcompletion, "), "{supported}");
        assert!(supported.contains(", scripted"), "{supported}");
    }

    #[test]
    fn a_script_is_read_from_the_config_or_from_a_file() {
        let mut config = config("scripted");
        assert_eq!(connection_error(&config, &[]).0, ErrorKind::Config);
        config.script = Some(inline(json!([{"text": "from {{cwd}}"}])));
        assert!(
            connect_and_describe(&config, &[])
                .unwrap()
                .contains("from /home/ada")
        );
        config.script = Some(ScriptSource::File(AbsPath::new("/s.yaml").unwrap()));
        assert!(
            connect_and_describe(&config, &[])
                .unwrap()
                .contains("from /s.yaml")
        );
    }
}
