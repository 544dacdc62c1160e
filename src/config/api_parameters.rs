//! The table of parameters that only some vendors' APIs have. A parameter that is not in it is sent
//! to every API. Also the vendors' tools that need a request of their own.

use serde_json::Value;

use crate::config::BackendConfig;
use crate::config::vendors::{
    ACP, AgentProtocolKind, GROK, GeminiGeneration, Vendor, VendorConnection, WireFormat,
    gemini_generation,
};
use crate::tools::vendor_tool::VendorTool;

/// The APIs, as far as they differ in their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelApi {
    /// Chat Completions of any server but `OpenRouter`'s.
    Chat,
    /// Chat Completions of `OpenRouter`, which has all common parameters and more.
    OpenRouter,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// Google's `generateContent`.
    GenerateContent,
}

/// Keys that the same APIs support.
#[derive(Debug)]
pub struct ApiParameters {
    /// Their names in a backend.
    pub keys: &'static [&'static str],
    /// The APIs that support them.
    pub apis: &'static [ModelApi],
    /// What it means that other APIs do not get them.
    pub consequence: &'static str,
}

const CHAT: &[ModelApi] = &[ModelApi::OpenRouter, ModelApi::Chat];
const OPENAI: &[ModelApi] = &[ModelApi::Responses, ModelApi::OpenRouter, ModelApi::Chat];
const NOT_RESPONSES: &[ModelApi] = &[
    ModelApi::Messages,
    ModelApi::GenerateContent,
    ModelApi::OpenRouter,
    ModelApi::Chat,
];
const NOT_GOOGLE: &[ModelApi] = &[
    ModelApi::Responses,
    ModelApi::Messages,
    ModelApi::OpenRouter,
    ModelApi::Chat,
];

const NO_SAMPLING: &str = "it chooses words without this parameter";
const NO_PARAMETER: &str = "it has no such parameter";
const NO_SEARCH: &str = "the agent works without the vendor's web search";
const NO_CODE: &str = "the agent works without programs run by the vendor";

/// The beginnings of the names of xAI's models that have no tools of the vendor.
const GROK_WITHOUT_TOOLS: &[&str] = &["grok-2", "grok-3", "grok-beta"];

/// Which API supports what: <https://platform.openai.com/docs/api-reference/responses/create>,
/// <https://docs.claude.com/en/api/messages>, <https://ai.google.dev/api/generate-content>,
/// <https://openrouter.ai/docs/features/web-search>. Servers of Chat Completions differ so much
/// that they are sent every parameter that some of them support; but they have no vendor tools (xAI
/// answers its `search_parameters` with 410: <https://docs.x.ai/docs/guides/live-search>).
pub static API_PARAMETERS: &[ApiParameters] = &[
    row(&["top_k"], NOT_RESPONSES, NO_SAMPLING),
    row(
        &["stop"],
        NOT_RESPONSES,
        "replies end where the model ends them",
    ),
    row(
        &["presence_penalty", "frequency_penalty", "seed"],
        &[
            ModelApi::GenerateContent,
            ModelApi::OpenRouter,
            ModelApi::Chat,
        ],
        NO_SAMPLING,
    ),
    row(
        &["min_p", "top_a", "repetition_penalty", "logit_bias"],
        CHAT,
        NO_SAMPLING,
    ),
    row(&["verbosity"], OPENAI, "the model decides the length"),
    row(&["thinking"], NOT_RESPONSES, "write `reasoning_effort`"),
    row(
        &["reasoning"],
        OPENAI,
        "write `thinking` or `reasoning_effort`",
    ),
    row(&["store", "text", "top_logprobs"], OPENAI, NO_PARAMETER),
    row(
        &["metadata", "parallel_tool_calls", "response_format", "user"],
        NOT_GOOGLE,
        NO_PARAMETER,
    ),
    row(
        &[
            "api_version",
            "keep_alive",
            "logprobs",
            "models",
            "num_ctx",
            "plugins",
            "prediction",
            "provider",
            "route",
            "stream_options",
            "strict",
            "think",
            "transforms",
        ],
        CHAT,
        NO_PARAMETER,
    ),
    row(
        &[
            "anthropic_beta",
            "betas",
            "cache_ttl",
            "enable_strict_tool_use",
            "prompt_caching",
            "speed",
        ],
        &[ModelApi::Messages],
        NO_PARAMETER,
    ),
    row(
        &["enable_web_search"],
        &[
            ModelApi::Responses,
            ModelApi::Messages,
            ModelApi::GenerateContent,
            ModelApi::OpenRouter,
        ],
        NO_SEARCH,
    ),
    row(
        &["enable_code_execution"],
        &[ModelApi::Messages, ModelApi::GenerateContent],
        NO_CODE,
    ),
    row(
        &["enable_code_interpreter"],
        &[ModelApi::Responses],
        NO_CODE,
    ),
];

const fn row(
    keys: &'static [&'static str],
    apis: &'static [ModelApi],
    consequence: &'static str,
) -> ApiParameters {
    ApiParameters {
        keys,
        apis,
        consequence,
    }
}

/// Returns why a key is not sent to a model, worded to follow a colon; `None` if it is sent.
pub fn unsent_reason(key: &str, vendor: &Vendor, model: &str) -> Option<&'static str> {
    if let VendorConnection::ExternalAgent(protocol) = vendor.connection {
        let has_effect = match key {
            // It asks for what these programs do anyway: they search by themselves.
            "enable_web_search" => vendor.name != ACP,
            // https://developers.openai.com/codex/config-reference
            "reasoning" | "reasoning_effort" => protocol != AgentProtocolKind::Acp,
            _ => false,
        };
        return (!has_effect).then_some("the external agent sends its own requests");
    }
    if (key, vendor.name) == ("num_ctx", "ollama") {
        return Some(
            "Ollama reads it only in its own API; set `OLLAMA_CONTEXT_LENGTH` where Ollama runs",
        );
    }
    let mut rows = API_PARAMETERS.iter();
    let row = rows.find(|row| row.keys.contains(&key))?;
    let api = ModelApi::from_vendor(vendor)?;
    if separate_tool(key, vendor, model).is_some() {
        // The request of the tool gets it.
        return None;
    }
    if !row.apis.contains(&api) {
        return Some(row.consequence);
    }
    let is_early_gemini =
        api == ModelApi::GenerateContent && gemini_generation(model) == GeminiGeneration::Early;
    (is_early_gemini && key.starts_with("enable_")).then_some(
        "models before Gemini 3 support either Google's tools or massgen's, and get massgen's",
    )
}

/// Returns the vendor's tool that a key enables, if the vendor does not combine it with massgen's
/// tools, so that it needs a request of its own:
/// <https://ai.google.dev/gemini-api/docs/tool-combination>,
/// <https://docs.x.ai/docs/guides/tools/overview> (only the Responses API has it).
fn separate_tool(key: &str, vendor: &Vendor, model: &str) -> Option<VendorTool> {
    let tool = VendorTool::ALL.into_iter().find(|tool| tool.key() == key)?;
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_separate = match tool {
        _ if vendor.connection == VendorConnection::Http(WireFormat::GenerateContent) => {
            name.starts_with("gemini-2")
        }
        VendorTool::WebSearch => {
            let mut prefixes = GROK_WITHOUT_TOOLS.iter();
            vendor.name == GROK && !prefixes.any(|prefix| name.starts_with(prefix))
        }
        VendorTool::CodeExecution => false,
    };
    is_separate.then_some(tool)
}

/// Returns the vendor's tools that a config enables for its model, and that need requests of their
/// own.
pub fn separate_tools(config: &BackendConfig) -> Vec<VendorTool> {
    let is_enabled = |tool: &VendorTool| {
        config.parameters.get(tool.key()) == Some(&Value::Bool(true))
            && separate_tool(tool.key(), config.vendor, &config.model).is_some()
    };
    VendorTool::ALL.into_iter().filter(is_enabled).collect()
}

/// Returns the wire format of the requests for [`separate_tools`]; `None` for a vendor that is not
/// connected to over HTTP.
pub fn separate_tool_format(vendor: &Vendor) -> Option<WireFormat> {
    match vendor.connection {
        VendorConnection::Http(_) if vendor.name == GROK => Some(WireFormat::Responses),
        VendorConnection::Http(format) => Some(format),
        VendorConnection::Scripted
        | VendorConnection::ExternalAgent(_)
        | VendorConnection::Unsupported => None,
    }
}

/// Returns the config for the agent's own requests to its model, in which [`separate_tools`] are
/// not enabled.
#[must_use]
pub fn without_separate_tools(config: &BackendConfig) -> BackendConfig {
    let mut agent_config = config.clone();
    for tool in separate_tools(config) {
        agent_config.parameters.shift_remove(tool.key());
    }
    agent_config
}

impl ModelApi {
    /// Returns the API of a vendor; one that is not connected to over HTTP has none.
    pub fn from_vendor(vendor: &Vendor) -> Option<Self> {
        match vendor.connection {
            VendorConnection::Http(WireFormat::ChatCompletions) if vendor.name == "openrouter" => {
                Some(ModelApi::OpenRouter)
            }
            VendorConnection::Http(WireFormat::ChatCompletions) => Some(ModelApi::Chat),
            VendorConnection::Http(WireFormat::Responses) => Some(ModelApi::Responses),
            VendorConnection::Http(WireFormat::Messages) => Some(ModelApi::Messages),
            VendorConnection::Http(WireFormat::GenerateContent) => Some(ModelApi::GenerateContent),
            VendorConnection::Scripted
            | VendorConnection::ExternalAgent(_)
            | VendorConnection::Unsupported => None,
        }
    }

    /// Returns how the reference names the backend types with this API.
    pub fn describe(self) -> &'static str {
        match self {
            ModelApi::Chat => "other types",
            ModelApi::OpenRouter => "`openrouter`",
            ModelApi::Responses => "`openai`",
            ModelApi::Messages => "`claude`",
            ModelApi::GenerateContent => "`gemini`",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::KeyStatus;
    use crate::config::keys::backend::BACKEND;
    use crate::config::vendors::find_vendor;

    /// Checks to which of these vendors a key is sent.
    #[track_caller]
    fn check(key: &str, expected: &[&str]) {
        let vendors = [
            "groq",
            "openrouter",
            "openai",
            "claude",
            "gemini",
            "scripted",
        ];
        let is_sent = |name: &&str| {
            unsent_reason(key, find_vendor(name).unwrap(), "gemini-3.8-flash").is_none()
        };
        let sent: Vec<&str> = vendors.into_iter().filter(is_sent).collect();
        assert_eq!(sent[..sent.len() - 1], *expected, "{key}");
    }

    #[test]
    fn each_api_is_sent_what_it_has() {
        let all = ["groq", "openrouter", "openai", "claude", "gemini"];
        for key in [
            "temperature",
            "top_p",
            "max_tokens",
            "reasoning_effort",
            "my_own",
        ] {
            check(key, &all);
        }
        for key in ["top_k", "stop", "thinking"] {
            check(key, &["groq", "openrouter", "claude", "gemini"]);
        }
        for key in ["seed", "presence_penalty", "frequency_penalty"] {
            check(key, &["groq", "openrouter", "gemini"]);
        }
        check("logit_bias", &["groq", "openrouter"]);
        check("verbosity", &["groq", "openrouter", "openai"]);
        check("metadata", &["groq", "openrouter", "openai", "claude"]);
        check("prompt_caching", &["claude"]);
        check(
            "enable_web_search",
            &["openrouter", "openai", "claude", "gemini"],
        );
        let grok = find_vendor("grok").unwrap();
        assert_eq!(unsent_reason("enable_web_search", grok, "grok-4"), None);
        assert!(unsent_reason("enable_web_search", grok, "grok-3-mini").is_some());
        assert!(unsent_reason("enable_code_execution", grok, "grok-4").is_some());
        check("enable_code_execution", &["claude", "gemini"]);
        check("enable_code_interpreter", &["openai"]);
    }

    #[test]
    fn tools_of_google_have_requests_of_their_own_for_models_that_do_not_combine_them() {
        let gemini = find_vendor("gemini").unwrap();
        for tool in VendorTool::ALL {
            let key = tool.key();
            for (model, separate) in [("gemini-3.8-flash", None), ("gemini-2.5-flash", Some(tool))]
            {
                assert_eq!(unsent_reason(key, gemini, model), None, "{model}");
                assert_eq!(separate_tool(key, gemini, model), separate, "{model}");
            }
            let reason = unsent_reason(key, gemini, "gemma-3-27b-it").unwrap();
            assert!(reason.contains("before Gemini 3"), "{reason}");
        }
        assert_eq!(unsent_reason("seed", gemini, "gemini-2.5-flash"), None);
    }

    #[test]
    fn every_key_is_in_one_row_and_passed() {
        let keys: Vec<&str> = API_PARAMETERS
            .iter()
            .flat_map(|row| row.keys)
            .copied()
            .collect();
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{key} is there twice");
            let row = BACKEND
                .find(key)
                .unwrap_or_else(|| panic!("{key} is no key"));
            assert_eq!(row.status, KeyStatus::PassedOn, "{key}");
        }
    }
}
