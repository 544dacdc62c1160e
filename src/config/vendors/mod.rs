//! The table of backend types: the wire format, endpoint and key variables of each, and what their
//! models need. Also the hosts to which keys may be sent. It must never hold a key or ask for one.

use url::{Host, Url};

pub mod file_input;

/// The format of requests and replies over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireFormat {
    /// Chat Completions, which most vendors and all local servers use.
    ChatCompletions,
    /// Responses, by OpenAI.
    Responses,
    /// Messages, used by Anthropic and compatible servers.
    Messages,
    /// Google's `generateContent`.
    GenerateContent,
}

/// How a vendor is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VendorConnection {
    /// Over HTTP.
    Http(WireFormat),
    /// Replies from a file; no network.
    Scripted,
    /// Through a program of the vendor that massgen starts, and that has its own tools.
    ExternalAgent(AgentProtocolKind),
    /// Known, but not supported by this version.
    Unsupported,
}

/// The protocol of an external agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentProtocolKind {
    /// The Agent Client Protocol.
    Acp,
    /// Claude Code's stream of JSON.
    ClaudeCode,
    /// Codex's events, with one process per turn.
    Codex,
}

/// The URL of a request, and how the key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointStyle {
    /// Below `{base_url}`, with the key as a bearer token.
    Standard,
    /// With the deployment in the path, the version in the query, and the key in `api-key`.
    Azure,
    /// `{base_url}/v1/messages`, with the version in a header and the key in `x-api-key`.
    Anthropic,
    /// With the model in the path and the key in `x-goog-api-key`.
    Google,
}

/// Whether a vendor requires a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRequirement {
    /// A missing key is an error before the first request.
    Required,
    /// A key is sent if there is one.
    Optional,
}

/// Whether a vendor wants the reasoning before a tool call sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEcho {
    /// The conversation cannot continue without it.
    Wanted,
    /// It is kept, and sent once the vendor refuses a request because it is missing.
    OnDemand,
    /// A request that contains it is refused.
    Refused,
}

/// Whether a model accepts images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageInput {
    /// It accepts them.
    Accepted,
    /// It accepts none, or that is unknown.
    Refused,
}

/// The features of a Google model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeminiGeneration {
    /// Before Gemini 3, and all models not called Gemini: effort is a number of tokens, and
    /// Google's own tools cannot be combined with other tools.
    Early,
    /// Since Gemini 3: effort is a level, Google's tools can be combined with others, and a call
    /// without the signature of the preceding thoughts is refused.
    Current,
}

/// A backend type.
#[derive(Debug)]
pub struct Vendor {
    /// The name after `type:`.
    pub name: &'static str,
    /// How it is connected to.
    pub connection: VendorConnection,
    /// The URL of requests, and how the key is sent.
    pub endpoint_style: EndpointStyle,
    /// Whether it requires a key.
    pub key_requirement: KeyRequirement,
    /// Environment variables that may hold the key, in order of precedence.
    pub key_variables: &'static [&'static str],
    /// The default model.
    pub default_model: Option<&'static str>,
    /// The default endpoint.
    pub base_url: Option<&'static str>,
    /// The environment variable that may give the endpoint when the config does not.
    pub base_url_variable: Option<&'static str>,
    /// Whether its models accept images, unless a config says otherwise.
    pub image_input: ImageInput,
    /// Whether it is a server on the user's own machine or network.
    pub is_local_server: bool,
    /// The command that starts it, as it is named in hints.
    pub start_command: Option<&'static str>,
    /// The alternative to an unsupported type, as a hint.
    pub alternative: Option<&'static str>,
}

/// The common properties of most Chat Completions vendors.
const CHAT: Vendor = Vendor {
    name: "",
    connection: VendorConnection::Http(WireFormat::ChatCompletions),
    endpoint_style: EndpointStyle::Standard,
    key_requirement: KeyRequirement::Required,
    key_variables: &[],
    default_model: None,
    base_url: None,
    base_url_variable: None,
    image_input: ImageInput::Refused,
    is_local_server: false,
    start_command: None,
    alternative: None,
};

/// The common properties of types that need no key.
const KEYLESS: Vendor = Vendor {
    key_requirement: KeyRequirement::Optional,
    ..CHAT
};

/// The common properties of servers on the user's own machine or network.
const LOCAL: Vendor = Vendor {
    is_local_server: true,
    ..KEYLESS
};

/// The common properties of types that this version does not support.
const UNSUPPORTED: Vendor = Vendor {
    connection: VendorConnection::Unsupported,
    ..CHAT
};

/// The type of OpenAI's models.
const OPENAI: &str = "openai";

/// The type of programs that use the Agent Client Protocol.
pub(crate) const ACP: &str = "acp";

/// The type of xAI's models.
pub(crate) const GROK: &str = "grok";

/// Every backend type, supported or not, in the order in which they are listed to the user.
pub static VENDORS: &[Vendor] = &[
    Vendor {
        name: "chatcompletion",
        key_variables: &["OPENAI_API_KEY"],
        base_url: Some("https://api.openai.com/v1"),
        base_url_variable: Some("OPENAI_BASE_URL"),
        ..CHAT
    },
    Vendor {
        name: OPENAI,
        connection: VendorConnection::Http(WireFormat::Responses),
        key_variables: &["OPENAI_API_KEY"],
        default_model: Some("gpt-5-mini"),
        base_url: Some("https://api.openai.com/v1"),
        base_url_variable: Some("OPENAI_BASE_URL"),
        image_input: ImageInput::Accepted,
        ..CHAT
    },
    Vendor {
        name: "claude",
        connection: VendorConnection::Http(WireFormat::Messages),
        endpoint_style: EndpointStyle::Anthropic,
        key_variables: &["ANTHROPIC_API_KEY"],
        default_model: Some("claude-sonnet-5-5"),
        base_url: Some("https://api.anthropic.com"),
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
        image_input: ImageInput::Accepted,
        ..CHAT
    },
    Vendor {
        name: "openrouter",
        key_variables: &["OPENROUTER_API_KEY"],
        base_url: Some("https://openrouter.ai/api/v1"),
        image_input: ImageInput::Accepted,
        ..CHAT
    },
    Vendor {
        name: GROK,
        key_variables: &["XAI_API_KEY"],
        default_model: Some("grok-4"),
        base_url: Some("https://api.x.ai/v1"),
        image_input: ImageInput::Accepted,
        ..CHAT
    },
    Vendor {
        name: "groq",
        key_variables: &["GROQ_API_KEY"],
        default_model: Some("llama-3.3-70b-versatile"),
        base_url: Some("https://api.groq.com/openai/v1"),
        ..CHAT
    },
    Vendor {
        name: "cerebras",
        key_variables: &["CEREBRAS_API_KEY"],
        default_model: Some("llama-3.3-70b"),
        base_url: Some("https://api.cerebras.ai/v1"),
        ..CHAT
    },
    Vendor {
        name: "together",
        key_variables: &["TOGETHER_API_KEY"],
        default_model: Some("meta-llama/Llama-3.3-70B-Instruct-Turbo"),
        base_url: Some("https://api.together.xyz/v1"),
        ..CHAT
    },
    Vendor {
        name: "fireworks",
        key_variables: &["FIREWORKS_API_KEY"],
        default_model: Some("accounts/fireworks/models/llama-v3p3-70b-instruct"),
        base_url: Some("https://api.fireworks.ai/inference/v1"),
        ..CHAT
    },
    Vendor {
        name: "moonshot",
        key_variables: &["MOONSHOT_API_KEY", "KIMI_API_KEY"],
        default_model: Some("moonshot-v1-128k"),
        base_url: Some("https://api.moonshot.cn/v1"),
        ..CHAT
    },
    Vendor {
        name: "nebius",
        key_variables: &["NEBIUS_API_KEY"],
        default_model: Some("Qwen/Qwen3-4B-fast"),
        base_url: Some("https://api.studio.nebius.ai/v1"),
        ..CHAT
    },
    Vendor {
        name: "qwen",
        key_variables: &["QWEN_API_KEY", "DASHSCOPE_API_KEY"],
        default_model: Some("qwen-max"),
        base_url: Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        ..CHAT
    },
    Vendor {
        name: "zai",
        key_variables: &["ZAI_API_KEY"],
        default_model: Some("glm-4.5"),
        base_url: Some("https://api.z.ai/api/paas/v4"),
        ..CHAT
    },
    Vendor {
        name: "poe",
        key_variables: &["POE_API_KEY"],
        base_url: Some("https://api.poe.com/v1"),
        ..CHAT
    },
    Vendor {
        name: "nvidia_nim",
        key_variables: &["NGC_API_KEY", "NVIDIA_API_KEY"],
        base_url: Some("https://integrate.api.nvidia.com/v1"),
        ..CHAT
    },
    Vendor {
        name: "azure_openai",
        endpoint_style: EndpointStyle::Azure,
        key_variables: &["AZURE_OPENAI_API_KEY"],
        base_url_variable: Some("AZURE_OPENAI_ENDPOINT"),
        image_input: ImageInput::Accepted,
        ..CHAT
    },
    Vendor {
        name: "ollama",
        base_url: Some("http://localhost:11434/v1"),
        base_url_variable: Some(OLLAMA_HOST),
        start_command: Some("`ollama serve`"),
        ..LOCAL
    },
    Vendor {
        name: "lmstudio",
        base_url: Some("http://localhost:1234/v1"),
        start_command: Some("`lms server start`"),
        ..LOCAL
    },
    Vendor {
        name: "vllm",
        key_variables: &["VLLM_API_KEY"],
        base_url: Some("http://localhost:8000/v1"),
        start_command: Some("`vllm serve`"),
        ..LOCAL
    },
    Vendor {
        name: "sglang",
        key_variables: &["SGLANG_API_KEY"],
        base_url: Some("http://localhost:30000/v1"),
        start_command: Some("`sglang.launch_server`"),
        ..LOCAL
    },
    Vendor {
        name: "inference",
        ..LOCAL
    },
    Vendor {
        name: "scripted",
        connection: VendorConnection::Scripted,
        default_model: Some("scripted"),
        image_input: ImageInput::Accepted,
        ..KEYLESS
    },
    Vendor {
        name: "gemini",
        connection: VendorConnection::Http(WireFormat::GenerateContent),
        endpoint_style: EndpointStyle::Google,
        key_variables: &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
        default_model: Some("gemini-3.8-flash"),
        base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
        image_input: ImageInput::Accepted,
        ..CHAT
    },
    Vendor {
        name: "claude_code",
        connection: VendorConnection::ExternalAgent(AgentProtocolKind::ClaudeCode),
        key_variables: &["CLAUDE_CODE_API_KEY", "ANTHROPIC_API_KEY"],
        default_model: Some("claude_code"),
        image_input: ImageInput::Accepted,
        ..KEYLESS
    },
    Vendor {
        name: "codex",
        connection: VendorConnection::ExternalAgent(AgentProtocolKind::Codex),
        key_variables: &["OPENAI_API_KEY"],
        default_model: Some("codex"),
        image_input: ImageInput::Accepted,
        ..KEYLESS
    },
    Vendor {
        name: "gemini_cli",
        connection: VendorConnection::ExternalAgent(AgentProtocolKind::Acp),
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        default_model: Some("gemini_cli"),
        image_input: ImageInput::Accepted,
        ..KEYLESS
    },
    Vendor {
        name: ACP,
        connection: VendorConnection::ExternalAgent(AgentProtocolKind::Acp),
        default_model: Some(ACP),
        ..KEYLESS
    },
    Vendor {
        name: "antigravity_cli",
        alternative: Some("use `type: gemini_cli`, or `gemini` for the model alone"),
        ..UNSUPPORTED
    },
    Vendor {
        name: "copilot",
        alternative: Some(
            "use `type: acp` with `command: [copilot, --acp]`, if the program is installed",
        ),
        ..UNSUPPORTED
    },
    Vendor {
        name: "ag2",
        alternative: Some(
            "describe the model in `agent_config` as an agent of its own: massgen runs no AG2 \
             agents",
        ),
        ..UNSUPPORTED
    },
    Vendor {
        name: "uitars",
        alternative: Some("use a model with tools: massgen does not operate screens"),
        ..UNSUPPORTED
    },
];

/// The variable with the address of Ollama's server:
/// <https://github.com/ollama/ollama/blob/main/docs/faq.mdx>.
const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// Returns the endpoint at an address as Ollama reads it: the scheme, the host and the port may be
/// missing. A server that listens on all addresses is reached on this machine.
fn ollama_endpoint(address: &str) -> String {
    let (scheme, rest, default_port) = match address.split_once("://") {
        Some(("https", rest)) => ("https", rest, "443"),
        Some((_, rest)) => ("http", rest, "80"),
        None => ("http", address, "11434"),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && !port.contains(']') => (host, port),
        Some(_) | None => (authority.trim_end_matches(':'), default_port),
    };
    let host = match host {
        "" | "0.0.0.0" | "[::]" => "localhost",
        host => host,
    };
    format!("{scheme}://{host}:{port}/v1")
}

/// The key variables for `chatcompletion` with a `base_url`, by the domain of the host.
const KEY_VARIABLES_BY_DOMAIN: &[(&str, &[&str])] = &[
    ("aliyuncs.com", &["QWEN_API_KEY", "DASHSCOPE_API_KEY"]),
    ("anthropic.com", &["ANTHROPIC_API_KEY"]),
    ("bigmodel.cn", &["ZAI_API_KEY"]),
    ("cerebras.ai", &["CEREBRAS_API_KEY"]),
    ("deepseek.com", &["DEEPSEEK_API_KEY"]),
    ("fireworks.ai", &["FIREWORKS_API_KEY"]),
    ("googleapis.com", &["GOOGLE_API_KEY", "GEMINI_API_KEY"]),
    ("groq.com", &["GROQ_API_KEY"]),
    ("moonshot.ai", &["MOONSHOT_API_KEY", "KIMI_API_KEY"]),
    ("moonshot.cn", &["MOONSHOT_API_KEY", "KIMI_API_KEY"]),
    ("nebius.ai", &["NEBIUS_API_KEY"]),
    ("nebius.com", &["NEBIUS_API_KEY"]),
    ("nvidia.com", &["NGC_API_KEY", "NVIDIA_API_KEY"]),
    ("openrouter.ai", &["OPENROUTER_API_KEY"]),
    ("poe.com", &["POE_API_KEY"]),
    ("together.ai", &["TOGETHER_API_KEY"]),
    ("together.xyz", &["TOGETHER_API_KEY"]),
    ("x.ai", &["XAI_API_KEY"]),
    ("z.ai", &["ZAI_API_KEY"]),
];

/// The hosts of vendors' APIs, and the variables with their keys. Below some of the vendors'
/// domains anyone can run a server, so a host must match exactly.
const VENDOR_HOSTS: &[(&str, &[&str])] = &[
    ("api.anthropic.com", &["ANTHROPIC_API_KEY"]),
    ("api.cerebras.ai", &["CEREBRAS_API_KEY"]),
    ("api.deepseek.com", &["DEEPSEEK_API_KEY"]),
    ("api.fireworks.ai", &["FIREWORKS_API_KEY"]),
    ("api.groq.com", &["GROQ_API_KEY"]),
    ("api.moonshot.ai", &["MOONSHOT_API_KEY", "KIMI_API_KEY"]),
    ("api.moonshot.cn", &["MOONSHOT_API_KEY", "KIMI_API_KEY"]),
    ("api.openai.com", &["OPENAI_API_KEY"]),
    ("api.poe.com", &["POE_API_KEY"]),
    ("api.studio.nebius.ai", &["NEBIUS_API_KEY"]),
    ("api.tokenfactory.nebius.com", &["NEBIUS_API_KEY"]),
    ("api.together.ai", &["TOGETHER_API_KEY"]),
    ("api.together.xyz", &["TOGETHER_API_KEY"]),
    ("api.x.ai", &["XAI_API_KEY"]),
    ("api.z.ai", &["ZAI_API_KEY"]),
    (
        "dashscope-intl.aliyuncs.com",
        &["QWEN_API_KEY", "DASHSCOPE_API_KEY"],
    ),
    (
        "dashscope.aliyuncs.com",
        &["QWEN_API_KEY", "DASHSCOPE_API_KEY"],
    ),
    (
        "generativelanguage.googleapis.com",
        &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
    ),
    (
        "integrate.api.nvidia.com",
        &["NGC_API_KEY", "NVIDIA_API_KEY"],
    ),
    ("open.bigmodel.cn", &["ZAI_API_KEY"]),
    ("openrouter.ai", &["OPENROUTER_API_KEY"]),
];

/// Domains whose models want their reasoning sent back: without it they refuse to continue after a
/// tool call, or give worse replies.
/// <https://openrouter.ai/docs/use-cases/reasoning-tokens>
const DOMAINS_WANTING_REASONING: &[&str] = &[
    "deepseek.com",
    "moonshot.ai",
    "moonshot.cn",
    "openrouter.ai",
    "z.ai",
];
/// The backend types of those domains.
const TYPES_WANTING_REASONING: &[&str] = &["moonshot", "openrouter", "zai"];
/// Domains that refuse requests with reasoning.
const DOMAINS_REFUSING_REASONING: &[&str] = &["groq.com", "openai.com"];
/// The backend types of those domains.
const TYPES_REFUSING_REASONING: &[&str] = &["groq"];
/// Parts of the names of models that want their reasoning sent back wherever they run, each with a
/// second part that the name must contain too.
/// <https://api-docs.deepseek.com/guides/thinking_mode>,
/// <https://docs.z.ai/guides/capabilities/thinking-mode>,
/// <https://docs.vllm.ai/en/latest/features/interleaved_thinking/>
const MODELS_WANTING_REASONING: &[(&str, &str)] = &[
    ("deepseek", ""),
    ("kimi", ""),
    ("glm-", ""),
    ("minimax", ""),
    ("mimo", ""),
    ("qwen", "thinking"),
];

/// Returns the vendor with this name.
pub fn find_vendor(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.name == name)
}

/// Names of companies and products, each with the backend type that a user of the name means.
const COMPANY_NAMES: &[(&str, &str)] = &[
    ("alibaba", "qwen"),
    ("anthropic", "claude"),
    ("azure", "azure_openai"),
    ("google", "gemini"),
    ("gpt", "openai"),
    ("kimi", "moonshot"),
    ("nvidia", "nvidia_nim"),
    ("xai", "grok"),
    ("zhipu", "zai"),
];

/// Returns the backend type that the name of a company or product means.
pub fn type_of_company(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let mut known_names = COMPANY_NAMES.iter();
    known_names.find_map(|(company, backend)| (*company == name).then_some(*backend))
}

impl Vendor {
    /// Returns whether massgen can have its models make images and speech.
    pub fn makes_media(&self) -> bool {
        self.name == OPENAI
    }

    /// Returns whether massgen connects to it over HTTP.
    pub fn is_http(&self) -> bool {
        matches!(self.connection, VendorConnection::Http(_))
    }

    /// Returns whether this version supports it.
    pub fn is_supported(&self) -> bool {
        match self.connection {
            VendorConnection::Http(_)
            | VendorConnection::Scripted
            | VendorConnection::ExternalAgent(_) => true,
            VendorConnection::Unsupported => false,
        }
    }

    /// Returns its endpoint: the `base_url` of the config, else the value of its variable, else its
    /// default.
    pub fn endpoint(
        &self,
        config_url: Option<&str>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let from_env = || {
            let variable = self.base_url_variable?;
            let value = env(variable).filter(|url| !url.trim().is_empty())?;
            Some(match variable {
                OLLAMA_HOST => ollama_endpoint(value.trim()),
                _ => value.trim().to_owned(),
            })
        };
        let default_url = || self.base_url.map(str::to_owned);
        config_url
            .map(str::to_owned)
            .or_else(from_env)
            .or_else(default_url)
    }

    /// Returns whether its models accept images, unless a config says otherwise. Without a
    /// `base_url` in the config, `chatcompletion` is OpenAI.
    pub fn image_input_at(&self, config_url: Option<&str>) -> ImageInput {
        match (self.name, config_url) {
            ("chatcompletion", None) => ImageInput::Accepted,
            _ => self.image_input,
        }
    }

    /// Returns the variables that may hold the key for `base_url`, in order of precedence. Only
    /// `chatcompletion` is used with hosts of other vendors, and uses the key of the host.
    pub fn key_variables_at(&self, base_url: &Url) -> &'static [&'static str] {
        if self.name != "chatcompletion" {
            return self.key_variables;
        }
        let Some(Host::Domain(host)) = base_url.host() else {
            return self.key_variables;
        };
        KEY_VARIABLES_BY_DOMAIN
            .iter()
            .find(|(domain, _)| is_within(host, domain))
            .map_or(self.key_variables, |(_, variables)| variables)
    }

    /// Returns whether a request to `base_url` needs a key; servers on this machine do not.
    pub fn key_requirement_at(&self, base_url: &Url) -> KeyRequirement {
        if is_this_machine(base_url) {
            KeyRequirement::Optional
        } else {
            self.key_requirement
        }
    }
}

/// Returns whether `model` of `vendor`, at the host of `url`, wants the reasoning before a tool
/// call back.
pub fn reasoning_echo(vendor: &str, url: &Url, model: &str) -> ReasoningEcho {
    let host = match url.host() {
        Some(Host::Domain(host)) => host,
        Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => "",
    };
    let is_host_in = |domains: &[&str]| domains.iter().any(|domain| is_within(host, domain));
    let model = model.to_lowercase();
    let has_parts =
        |(part, second_part): &(&str, &str)| model.contains(part) && model.contains(second_part);
    if is_host_in(DOMAINS_REFUSING_REASONING) || TYPES_REFUSING_REASONING.contains(&vendor) {
        ReasoningEcho::Refused
    } else if is_host_in(DOMAINS_WANTING_REASONING)
        || TYPES_WANTING_REASONING.contains(&vendor)
        || MODELS_WANTING_REASONING.iter().any(has_parts)
    {
        ReasoningEcho::Wanted
    } else {
        ReasoningEcho::OnDemand
    }
}

/// Returns the generation of the Google model with this name.
pub fn gemini_generation(model: &str) -> GeminiGeneration {
    let name = model.rsplit('/').next().unwrap_or(model);
    match name.strip_prefix("gemini-") {
        Some(version) if !version.starts_with(['1', '2']) => GeminiGeneration::Current,
        Some(_) | None => GeminiGeneration::Early,
    }
}

/// The destination of a URL: whether a key may be sent there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlDestination {
    /// A loopback address, independent of DNS.
    ThisMachine,
    /// A vendor's own host, encrypted; these variables hold the keys that it accepts.
    Vendor(&'static [&'static str]),
    /// Anywhere else. The string continues a sentence after the URL and "which".
    Elsewhere(&'static str),
}

/// Returns the destination of `url`. A host is a vendor's own only if it is spelled exactly as in
/// `VENDOR_HOSTS`.
pub fn destination(url: &Url) -> UrlDestination {
    if !url.username().is_empty() || url.password().is_some() {
        return UrlDestination::Elsewhere("contains a user name");
    }
    if is_this_machine(url) {
        return UrlDestination::ThisMachine;
    }
    let vendor_host = VENDOR_HOSTS
        .iter()
        .find(|(host, _)| url.host_str() == Some(host));
    match vendor_host {
        None => UrlDestination::Elsewhere("is not a known vendor's host"),
        Some(_) if url.scheme() != "https" => UrlDestination::Elsewhere("is not encrypted"),
        Some(_) if url.port().is_some() => UrlDestination::Elsewhere("uses another port"),
        Some((_, variables)) => UrlDestination::Vendor(variables),
    }
}

/// Returns the variables that may hold the key of each vendor and host, in order of precedence.
fn key_variable_lists() -> impl Iterator<Item = &'static [&'static str]> {
    let by_type = VENDORS.iter().map(|vendor| vendor.key_variables);
    let by_domain = KEY_VARIABLES_BY_DOMAIN
        .iter()
        .map(|(_, variables)| *variables);
    by_type.chain(by_domain)
}

/// Returns every variable that may hold a key.
pub fn key_variables() -> impl Iterator<Item = &'static str> {
    key_variable_lists().flatten().copied()
}

/// Returns the variables that hold the key of some vendor only if the variable `name` is not set.
pub fn key_variables_after(name: &str) -> impl Iterator<Item = &'static str> {
    key_variable_lists().flat_map(move |variables| {
        let variables = variables.iter().copied();
        variables.skip_while(move |known| *known != name).skip(1)
    })
}

/// Returns whether `name` is a variable that may hold a key. A config or a `.env` file that came
/// with a project may set no other variable.
pub fn is_key_variable(name: &str) -> bool {
    key_variables().any(|variable| variable == name)
}

/// Returns whether `host` is `domain` or a name below it; `notgroq.com` is not below `groq.com`.
pub(crate) fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Returns whether the URL's host is a loopback address. The unspecified address leads there as
/// well, and names in `localhost` are never resolved by DNS.
pub(crate) fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => is_local_name(name),
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => {
            let address = address.to_canonical();
            address.is_loopback() || address.is_unspecified()
        }
        None => false,
    }
}

/// Returns whether a name refers to this machine: `localhost`, or a name below it (RFC 6761,
/// section 6.3).
pub(crate) fn is_local_name(name: &str) -> bool {
    is_within(name.strip_suffix('.').unwrap_or(name), "localhost")
}

#[cfg(test)]
mod tests;
