//! The keys of an agent's backend, except for those about commands.

use crate::config::execution_mode::ELSEWHERE_HINT;
use crate::config::keys::found_config::FoundConfigUse::{
    ByValue, Harmless, Inside, NeedsNamedConfig,
};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::media::MAKES_MEDIA;
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::shape::{
    self, Flag, Integer, NodeList, Section, Text, TextList, TextOrList, Tree,
};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape, agents, commands,
    context_paths, custom_tools, docker, extra_body, fallback, folder_guard, hooks, media,
    permissions, servers, uploads, value_rules,
};

/// The maximum number of tokens that a request can ask for; no model produces more.
const TOKENS_MAX: i64 = 10_000_000;

pub(crate) const BASE_URL: TypedKey<Text> = TypedKey::optional(
    &["base_url"],
    shape::text(),
    "The API endpoint. Default: the vendor's.",
    ByValue(value_rules::endpoint),
);

pub(crate) const REPLIES: TypedKey<Tree> = TypedKey::optional(
    &["replies"],
    shape::verbatim_tree(),
    "The replies of a `scripted` backend.",
    Harmless,
);

pub(crate) const SCRIPT: TypedKey<Text> = TypedKey::optional(
    &["script"],
    shape::text(),
    "A YAML file with the replies of a `scripted` backend, relative to the config.",
    Inside(PathPurpose::ReadByMassgen),
);

pub(crate) const EXTRA_BODY: TypedKey<Section> = TypedKey::optional(
    &["extra_body"],
    shape::section(&extra_body::EXTRA_BODY),
    "Additional keys for the model's API.",
    NeedsNamedConfig("sends keys to the model's API that massgen does not know"),
);

pub(crate) const IMAGE_INPUT: TypedKey<Flag> = TypedKey::optional(
    &["image_input"],
    shape::flag(),
    "Whether the model receives images: those of the task, of files and of MCP tools. Default: \
     yes for `claude`, `openai`, `azure_openai`, `gemini`, `grok`, `openrouter`, `claude_code`, \
     `codex`, `gemini_cli` and `scripted`, and for `chatcompletion` without `base_url`. If a vendor rejects a request with images, it is retried once without them.",
    Harmless,
);

pub(crate) const REASONING_ECHO: TypedKey<Flag> = TypedKey::optional(
    &["reasoning_echo"],
    shape::flag(),
    "Whether a Chat Completions model gets the reasoning before its tool calls back in later \
     requests. Default: yes for hosts and models that are known to want it; for others, if a \
     request is refused without it.",
    Harmless,
);

pub(crate) const TYPE: TypedKey<Text> = TypedKey::required(
    &["type"],
    shape::text(),
    "The vendor: one of the backend types.",
    ByValue(value_rules::vendor),
);

pub(crate) const MODEL: TypedKey<Text> = TypedKey::optional(
    &["model"],
    shape::text(),
    "The vendor's name of the model. Required unless the type has a default.",
    Harmless,
);

pub(crate) const API_KEY: TypedKey<Text> = TypedKey::optional(
    &["api_key"],
    shape::text(),
    "The API key. Preferably omitted: then the vendor's variable is read from the \
     environment or a `.env` file. `${NAME}` uses another variable.",
    ByValue(value_rules::api_key),
);

pub(crate) const CWD: TypedKey<Text> = TypedKey::optional(
    &["cwd"],
    shape::text(),
    "The agent's workspace; without one it has no file tools. An external agent without `cwd` \
     has one called `workspace`. A relative path is below `.massgen/workspaces/` and \
     managed by massgen: of several agents with the same one, each has its own, with a \
     number at the end. An absolute one is yours and never cleared.",
    ByValue(value_rules::workspace),
);

pub(crate) const ALLOWED_TOOLS: TypedKey<TextList> = TypedKey::optional(
    &["allowed_tools"],
    shape::texts(&ValueShape::Text),
    "The only tools offered to the agent, by the names of massgen, of its servers, or, for an \
     external agent, of that program.",
    Harmless,
);

pub(crate) const EXCLUDE_TOOLS: TypedKey<TextList> = TypedKey::optional(
    &["exclude_tools", "disallowed_tools"],
    shape::texts(&ValueShape::Text),
    "Tools not offered to the agent.",
    Harmless,
)
.with_default("[]");

pub(crate) const FETCH_URL: TypedKey<TextOrList> = TypedKey::optional(
    &["fetch_url"],
    shape::one_of_or_list(&["off", "on"]),
    "The hosts whose pages the agent may read with the tool `fetch_url`: none, all public ones, or \
     those of these domains, as in `command_line_network`. It can send what it knows to \
     these hosts, as part of an address.",
    ByValue(value_rules::pages),
)
.with_default("off");

/// The model that makes images unless the config names another.
pub(crate) const IMAGE_MODEL_DEFAULT: &str = "gpt-image-1";

/// The model that speaks unless the config names another.
pub(crate) const AUDIO_MODEL_DEFAULT: &str = "gpt-4o-mini-tts";

pub(crate) const ENABLE_IMAGE_GENERATION: TypedKey<Flag> = TypedKey::optional(
    &["enable_image_generation"],
    shape::flag(),
    "Whether the agent may have images made with the tool `generate_media`, by a model of its \
     vendor; for `openai`.",
    NeedsNamedConfig(MAKES_MEDIA),
)
.with_default("false");

pub(crate) const IMAGE_GENERATION_MODEL: TypedKey<Text> = TypedKey::optional(
    &["image_generation_model"],
    shape::text(),
    "The model that makes images.",
    Harmless,
)
.with_default(IMAGE_MODEL_DEFAULT);

pub(crate) const ENABLE_AUDIO_GENERATION: TypedKey<Flag> = TypedKey::optional(
    &["enable_audio_generation"],
    shape::flag(),
    "Whether the agent may generate speech with the tool `generate_media`, by a model of its \
     vendor; for `openai`.",
    NeedsNamedConfig(MAKES_MEDIA),
)
.with_default("false");

pub(crate) const AUDIO_GENERATION_MODEL: TypedKey<Text> = TypedKey::optional(
    &["audio_generation_model"],
    shape::text(),
    "The model that speaks.",
    Harmless,
)
.with_default(AUDIO_MODEL_DEFAULT);

pub(crate) const ENABLE_FILE_GENERATION: TypedKey<Flag> = TypedKey::optional(
    &["enable_file_generation"],
    shape::flag(),
    "Whether the agent, if it is the final one, is asked to make one file of the best parts of those \
     that all agents left.",
    Harmless,
)
.with_default("false");

pub(crate) const ENFORCE_READ_BEFORE_DELETE: TypedKey<Flag> = TypedKey::optional(
    &["enforce_read_before_delete"],
    shape::flag(),
    "Whether the agent must have read a file before it deletes or overwrites it.",
    Harmless,
)
.with_default("true");

pub(crate) const EXCLUDE_FILE_OPERATION_MCPS: TypedKey<Flag> = TypedKey::optional(
    &["exclude_file_operation_mcps"],
    shape::flag(),
    "Whether the agent works on files by its commands alone: it is offered no file tools. \
     Programs of an agent with `enable_code_based_tools` keep them, and an external agent \
     has its own.",
    Harmless,
)
.with_default("false");

pub(crate) const COMMAND: TypedKey<TextList> = TypedKey::optional(
    &["command"],
    shape::texts(&ValueShape::Text),
    "The program of an external agent and its arguments: required for `acp`; for other \
     types it replaces the default program. See [agent-programs.md](agent-programs.md).",
    NeedsNamedConfig("starts a program"),
);

pub(crate) const NETWORK: TypedKey<TextOrList> = TypedKey::optional(
    &["network"],
    shape::one_of_or_list(&["off", "on"]),
    "Network access of the external agent: none, full, or the hosts of these domains, as \
     in `command_line_network`. Default: its vendor's hosts.",
    ByValue(value_rules::network),
);

pub(crate) const RECORD: TypedKey<Text> = TypedKey::optional(
    &["record"],
    shape::text(),
    "A file, relative to the config, to which the replies of the model are written at the \
     end of the run, for a `scripted` backend. Only an existing recording is replaced.",
    Inside(PathPurpose::WrittenByMassgen),
);

pub(crate) const FALLBACK: TypedKey<NodeList> = TypedKey::optional(
    &["fallback"],
    shape::nodes(const { &ValueShape::TextOr(&fallback::FALLBACK) }),
    "Models to switch to when this one fails, in order. A string is another model of the \
     same vendor with the same keys.",
    Harmless,
)
.with_default("[]");

pub(crate) const FIRST_BYTE_TIMEOUT_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["first_byte_timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "Timeout until the first byte of a reply; the request is then retried.",
    Harmless,
)
.with_default("300");

pub(crate) const IDLE_TIMEOUT_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["idle_timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "Timeout between two pieces of a reply; the request is then retried.",
    Harmless,
)
.with_default("300");

pub(crate) const REQUEST_TIMEOUT_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["request_timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "Timeout of a whole reply; the request is then retried.",
    Harmless,
)
.with_default("3600");

/// The model of an agent, and how it is reached.
pub static BACKEND: KeySection = KeySection {
    path: "agents[].backend",
    doc: "The model and its API. Keys that are not listed are sent to the model's API unchanged in \
          every request; one that looks like a misspelt listed key is an error.",
    unknown_keys: UnknownKeys::PassedOn,
    keys: &[
        TYPE.row(),
        MODEL.row(),
        BASE_URL.row(),
        API_KEY.row(),
        CWD.row(),
        context_paths::KEY.row(),
        ALLOWED_TOOLS.row(),
        EXCLUDE_TOOLS.row(),
        EXCLUDE_FILE_OPERATION_MCPS.row(),
        FETCH_URL.row(),
        ENABLE_IMAGE_GENERATION.row(),
        IMAGE_GENERATION_MODEL.row(),
        ENABLE_AUDIO_GENERATION.row(),
        AUDIO_GENERATION_MODEL.row(),
        media::MULTIMODAL
            .with_doc("Same as in `orchestrator`, for this agent.")
            .row(),
        media::IMAGE_VENDOR
            .with_doc("Same as in `orchestrator`, for this agent.")
            .row(),
        media::AUDIO_VENDOR
            .with_doc("Same as in `orchestrator`, for this agent.")
            .row(),
        media::VIDEO_VENDOR,
        ENABLE_FILE_GENERATION.row(),
        ENFORCE_READ_BEFORE_DELETE.row(),
        agents::SYSTEM_MESSAGE
            .with_doc("Same as `system_message` of the agent, which takes precedence.")
            .row(),
        folder_guard::KEY
            .with_doc("Same as `folder_guard` of the agent, which takes precedence.")
            .row(),
        REPLIES.row(),
        SCRIPT.row(),
        COMMAND.row(),
        NETWORK.row(),
        RECORD.row(),
        IMAGE_INPUT.row(),
        REASONING_ECHO.row(),
        FALLBACK.row(),
        FIRST_BYTE_TIMEOUT_SECONDS.row(),
        IDLE_TIMEOUT_SECONDS.row(),
        REQUEST_TIMEOUT_SECONDS.row(),
        EXTRA_BODY.row(),
        ConfigKey::passed_on(
            &["temperature"],
            ValueShape::Number(0.0, 2.0),
            "Sampling temperature.",
            Harmless,
        ),
        ConfigKey::passed_on(
            &["top_p", "min_p", "top_a"],
            ValueShape::Number(0.0, 1.0),
            "Sampling cut-offs.",
            Harmless,
        ),
        ConfigKey::passed_on(
            &["max_tokens", "max_completion_tokens"],
            ValueShape::Integer(1, TOKENS_MAX),
            "Maximum length of a reply.",
            Harmless,
        ),
        ConfigKey::passed_on(
            &["presence_penalty", "frequency_penalty"],
            ValueShape::Number(-2.0, 2.0),
            "Penalties for repetition.",
            Harmless,
        ),
        ConfigKey::passed_on(
            &["reasoning_effort", "verbosity", "service_tier"],
            ValueShape::Text,
            "Amount of reasoning, length of replies, and priority of requests.",
            Harmless,
        ),
        ConfigKey::passed_on(
            &["api_version"],
            ValueShape::Text,
            "The version of the API, for `azure_openai`.",
            Harmless,
        ),
        ConfigKey::passed_on(
            &["prompt_caching"],
            ValueShape::Flag,
            "Whether `claude` caches prompts.",
            Harmless,
        )
        .with_default("true"),
        ConfigKey::passed_on(
            &["cache_ttl"],
            ValueShape::OneOf(&["5m", "1h"]),
            "Lifetime of the prompt cache of `claude`; an hour costs more.",
            Harmless,
        )
        .with_default("5m"),
        ConfigKey::passed_on(
            &["speed"],
            ValueShape::Text,
            "Speed of the replies of `claude`, which needs an entry in `betas`.",
            Harmless,
        ),
        ConfigKey::passed_on(
            &["betas", "anthropic_beta"],
            ValueShape::Any,
            "Beta features of the API of `claude`, by name.",
            NeedsNamedConfig("switches on functions of the vendor that massgen does not know"),
        ),
        ConfigKey::passed_on(
            &[
                "reasoning",
                "thinking",
                "think",
                "text",
                "top_k",
                "seed",
                "stop",
                "store",
                "user",
                "metadata",
                "models",
                "provider",
                "route",
                "transforms",
                "logprobs",
                "top_logprobs",
                "logit_bias",
                "repetition_penalty",
                "response_format",
                "parallel_tool_calls",
                "stream_options",
                "strict",
                "prediction",
                "num_ctx",
                "keep_alive",
            ],
            ValueShape::Any,
            "Other parameters of vendors, passed unchanged.",
            Harmless,
        ),
        ConfigKey::passed_on(
            &["plugins"],
            ValueShape::Any,
            "Plugins of `openrouter`, such as its web search.",
            NeedsNamedConfig("lets models use the network or run programs at their vendor"),
        ),
        ConfigKey::passed_on(
            &[
                "enable_web_search",
                "enable_code_execution",
                "enable_code_interpreter",
            ],
            ValueShape::Flag,
            "Whether the model may search the web or run programs at its vendor. massgen's \
             permissions do not apply there, except to the requests of models that have these as \
             tools of massgen's.",
            NeedsNamedConfig("lets models use the network or run programs at their vendor"),
        )
        .with_default("false"),
        ConfigKey::passed_on(
            &["enable_strict_tool_use"],
            ValueShape::Flag,
            "Whether the arguments of calls of servers' and custom tools conform to the tools' schemas, \
             for `claude`, as far as it accepts these schemas.",
            Harmless,
        )
        .with_default("false"),
        ConfigKey::unsupported(
            &["enable_x_search"],
            ValueShape::Flag,
            "the agent has massgen's own tools and none of the vendor's",
            IgnoredEffect::Convenience,
        )
        .with_default("false"),
        ConfigKey::unsupported(
            &["enable_video_generation"],
            ValueShape::Flag,
            "MassGen does nothing with it either: its videos are made by custom tools",
            IgnoredEffect::Nothing,
        ),
        commands::CODE.row(),
        commands::CODE_LANGUAGE.row(),
        commands::CODE_LIBRARIES.row(),
        commands::ENABLED.row(),
        commands::MODE.row(),
        commands::ALLOWED.row(),
        commands::BLOCKED.row(),
        commands::POLICY.row(),
        commands::SANDBOX.row(),
        commands::NETWORK.row(),
        commands::LIMITS.row(),
        commands::ENV.row(),
        commands::SRT_DOMAINS.row(),
        commands::SRT_READ_MODE,
        commands::SRT_ALLOW_READ,
        commands::SRT_DENY_READ,
        commands::SRT_SOCKETS,
        commands::PREFIX,
        commands::VENV,
        docker::IMAGE.row(),
        docker::MEMORY.row(),
        docker::CPUS.row(),
        docker::NETWORK.row(),
        docker::SUDO.row(),
        docker::CREDENTIALS.row(),
        docker::PACKAGES.row(),
        servers::KEY.row(),
        servers::DIRECT.row(),
        custom_tools::CUSTOM_TOOLS.row(),
        custom_tools::TOOLS.row(),
        custom_tools::AUTO_DISCOVER.row(),
        custom_tools::EXCLUDE.row(),
        ConfigKey::unsupported(
            &["shared_tools_directory"],
            ValueShape::Any,
            "massgen writes the tools of programs into directories of its own",
            IgnoredEffect::Nothing,
        ),
        ConfigKey::unsupported(
            &[
                "custom_tools_path",
                "multimodal_config",
                "video_generation_model",
            ],
            ValueShape::Any,
            "the agent has massgen's own tools",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &[
                "enable_tool_search",
                "tool_search_variant",
                "enable_programmatic_flow",
            ],
            ValueShape::Any,
            "the model is offered all its tools from the start, and calls them one by one",
            IgnoredEffect::Convenience,
        )
        .with_default("false"),
        ConfigKey::unsupported(
            &[
                "use_mcpwrapped_for_tool_filtering",
                "use_no_roots_wrapper",
                "concurrent_tool_execution",
                "max_concurrent_tools",
            ],
            ValueShape::Any,
            "it concerns how MassGen works inside",
            IgnoredEffect::Nothing,
        ),
        ConfigKey::unsupported(
            &["debug_delay_seconds", "debug_delay_after_n_tools"],
            ValueShape::Any,
            "no agent pauses for a test; `delay_ms` in the script of a `scripted` backend delays a reply",
            IgnoredEffect::Nothing,
        ),
        ConfigKey::unsupported(
            &["websocket_mode"],
            ValueShape::Any,
            "replies are streamed over HTTP",
            IgnoredEffect::Convenience,
        )
        .with_default("false"),
        ConfigKey::unsupported(
            &["vote_only"],
            ValueShape::Flag,
            "every agent may answer; leave out the agent",
            IgnoredEffect::Restricts,
        )
        .with_default("false"),
        ConfigKey::unsupported(
            &["max_thinking_tokens"],
            ValueShape::Any,
            "limit the agent with `limits`, or the model with `max_tokens` or `thinking`",
            IgnoredEffect::Restricts,
        ),
        uploads::KEY.row(),
        hooks::KEY.row(),
        permissions::KEY.row(),
        ConfigKey::unsupported(
            &["permission_mode"],
            ValueShape::OneOf(&["default", "acceptEdits", "bypassPermissions", "plan"]),
            "what the agent may touch follows from `cwd`, `context_paths` and `folder_guard`; for `plan`, \
             write `role: read-only` in `permissions`",
            IgnoredEffect::RestrictsAs(&["plan"]),
        ),
        ConfigKey::unsupported(
            &["enable_rate_limit"],
            ValueShape::Flag,
            "massgen waits when a vendor asks it to",
            IgnoredEffect::Convenience,
        )
        .with_default("false"),
        ConfigKey::unsupported(
            &[
                "agent_temporary_workspace",
                "voting_sensitivity",
                "voting_threshold",
                "write_mode",
            ],
            ValueShape::Any,
            "only the key in `orchestrator` counts",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &[
                "agent_config",
                "session_id",
                "instance_id",
                "agent_id",
                "enable_nlip",
                "nlip",
                "nlip_config",
            ],
            ValueShape::Any,
            "it is not sent to the model either",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::refused(
            &["system_prompt", "append_system_prompt"],
            "write it as `system_message` of the agent",
        ),
        ConfigKey::refused(
            &["messages", "functions", "stream"],
            "massgen writes it into every request itself",
        ),
        ConfigKey::refused(&["n"], "massgen asks for one reply at a time"),
        ConfigKey::refused(
            &["command_line_docker_host", "command_line_kubernetes"],
            ELSEWHERE_HINT,
        ),
    ],
};
