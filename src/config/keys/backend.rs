//! The keys of an agent's backend, except for those about commands, and of a fallback model.

use crate::config::execution_mode::ELSEWHERE_HINT;
use crate::config::keys::found_config::FoundConfigUse::{ByValue, Inside, NeedsNamedConfig};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::limits::SECONDS_MAX;
use crate::config::keys::media::{self, MAKES_MEDIA};
use crate::config::keys::{
    ConfigKey, ValueShape, agents, commands, context_paths, custom_tools, docker, hooks,
    permissions, servers, value_rules,
};

/// The maximum number of tokens that a request can ask for; no model produces more.
const TOKENS_MAX: i64 = 10_000_000;

/// The model that makes images unless the config names another.
pub(crate) const IMAGE_MODEL_DEFAULT: &str = "gpt-image-1";

/// The model that speaks unless the config names another.
pub(crate) const AUDIO_MODEL_DEFAULT: &str = "gpt-4o-mini-tts";

section! {
    /// The model and its API. Keys that are not listed are sent to the model's API unchanged in
    /// every request; one that looks like a misspelt listed key is an error.
    pub static BACKEND = "agents[].backend", PassedOn;

    /// The vendor: one of the backend types.
    const TYPE = ["type"] text().make_required().in_found(ByValue(value_rules::vendor));

    /// The vendor's name of the model. Required unless the type has a default.
    const MODEL = ["model"] text();

    /// The API endpoint. Default: the vendor's.
    const BASE_URL = ["base_url"] text().in_found(ByValue(value_rules::endpoint));

    /// The API key. Preferably omitted: then the vendor's variable is read from the environment or
    /// a `.env` file. `${NAME}` uses another variable.
    const API_KEY = ["api_key"] text().in_found(ByValue(value_rules::api_key));

    /// The agent's workspace; without one it has no file tools. An external agent without `cwd` has
    /// one called `workspace`. A relative path is below `.massgen/workspaces/` and managed by
    /// massgen: of several agents with the same one, each has its own, with a number at the end. An
    /// absolute one is yours and never cleared.
    const CWD = ["cwd"] text().in_found(ByValue(value_rules::workspace));
    row context_paths::KEY.row();

    /// The only tools offered to the agent, by the names of massgen, of its servers, or, for an
    /// external agent, of that program.
    const ALLOWED_TOOLS = ["allowed_tools"] texts();

    /// Tools not offered to the agent.
    const EXCLUDE_TOOLS = ["exclude_tools", "disallowed_tools"] texts().with_default("[]");

    /// Whether the agent works on files by its commands alone: it is offered no file tools.
    /// Programs of an agent with `enable_code_based_tools` keep them, and an external agent has its
    /// own.
    const EXCLUDE_FILE_OPERATION_MCPS = ["exclude_file_operation_mcps"] flag()
        .with_default("false");

    /// The hosts whose pages the agent may read with the tool `fetch_url`: none, all public ones,
    /// or those of these domains, as in `command_line_network`. It can send what it knows to these
    /// hosts, as part of an address.
    const FETCH_URL = ["fetch_url"] one_of_or_list(&["off", "on"])
        .in_found(ByValue(value_rules::pages)).with_default("off");

    /// Whether the agent may have images made with the tool `generate_media`, by a model of its
    /// vendor; for `openai`.
    const ENABLE_IMAGE_GENERATION = ["enable_image_generation"] flag()
        .in_found(NeedsNamedConfig(MAKES_MEDIA)).with_default("false");

    /// The model that makes images.
    const IMAGE_GENERATION_MODEL = ["image_generation_model"] text()
        .with_default(IMAGE_MODEL_DEFAULT);

    /// Whether the agent may generate speech with the tool `generate_media`, by a model of its
    /// vendor; for `openai`.
    const ENABLE_AUDIO_GENERATION = ["enable_audio_generation"] flag()
        .in_found(NeedsNamedConfig(MAKES_MEDIA)).with_default("false");

    /// The model that speaks.
    const AUDIO_GENERATION_MODEL = ["audio_generation_model"] text()
        .with_default(AUDIO_MODEL_DEFAULT);
    row media::MULTIMODAL.with_doc("Same as in `orchestrator`, for this agent.").row();
    row media::IMAGE_VENDOR.with_doc("Same as in `orchestrator`, for this agent.").row();
    row media::AUDIO_VENDOR.with_doc("Same as in `orchestrator`, for this agent.").row();
    row media::VIDEO_VENDOR;

    /// Whether the agent, if it is the final one, is asked to make one file of the best parts of
    /// those that all agents left.
    const ENABLE_FILE_GENERATION = ["enable_file_generation"] flag().with_default("false");

    /// Whether the agent must have read a file before it deletes or overwrites it.
    const ENFORCE_READ_BEFORE_DELETE = ["enforce_read_before_delete"] flag().with_default("true");
    row agents::SYSTEM_MESSAGE
        .with_doc("Same as `system_message` of the agent, which takes precedence.").row();
    row context_paths::GUARD.with_doc("Same as `folder_guard` of the agent, which takes precedence.")
        .row();

    /// The replies of a `scripted` backend.
    const REPLIES = ["replies"] verbatim_tree();

    /// A YAML file with the replies of a `scripted` backend, relative to the config.
    const SCRIPT = ["script"] text().in_found(Inside(PathPurpose::ReadByMassgen));

    /// The program of an external agent and its arguments: required for `acp`; for other types it
    /// replaces the default program. See [agent-programs.md](agent-programs.md).
    const COMMAND = ["command"] texts().in_found(NeedsNamedConfig("starts a program"));

    /// Network access of the external agent: none, full, or the hosts of these domains, as in
    /// `command_line_network`. Default: its vendor's hosts.
    const NETWORK = ["network"] one_of_or_list(&["off", "on"])
        .in_found(ByValue(value_rules::network));

    /// A file, relative to the config, to which the replies of the model are written at the end of
    /// the run, for a `scripted` backend. Only an existing recording is replaced.
    const RECORD = ["record"] text().in_found(Inside(PathPurpose::WrittenByMassgen));

    /// Whether the model receives images: those of the task, of files and of MCP tools. Default:
    /// yes for `claude`, `openai`, `azure_openai`, `gemini`, `grok`, `openrouter`, `claude_code`,
    /// `codex`, `gemini_cli` and `scripted`, and for `chatcompletion` without `base_url`. If a
    /// vendor rejects a request with images, it is retried once without them.
    const IMAGE_INPUT = ["image_input"] flag();

    /// Whether a Chat Completions model gets the reasoning before its tool calls back in later
    /// requests. Default: yes for hosts and models that are known to want it; for others, if a
    /// request is refused without it.
    const REASONING_ECHO = ["reasoning_echo"] flag();

    /// Models to switch to when this one fails, in order. A string is another model of the same
    /// vendor with the same keys.
    const FALLBACK = ["fallback"] nodes(const { &ValueShape::TextOr(&FALLBACK_SECTION) })
        .with_default("[]");

    /// Timeout until the first byte of a reply; the request is then retried.
    const FIRST_BYTE_TIMEOUT_SECONDS = ["first_byte_timeout_seconds"] integer(1, SECONDS_MAX)
        .with_default("300");

    /// Timeout between two pieces of a reply; the request is then retried.
    const IDLE_TIMEOUT_SECONDS = ["idle_timeout_seconds"] integer(1, SECONDS_MAX)
        .with_default("300");

    /// Timeout of a whole reply; the request is then retried.
    const REQUEST_TIMEOUT_SECONDS = ["request_timeout_seconds"] integer(1, SECONDS_MAX)
        .with_default("3600");

    /// Additional keys for the model's API.
    const EXTRA_BODY = ["extra_body"] section(&EXTRA_BODY_SECTION)
        .in_found(NeedsNamedConfig("sends keys to the model's API that massgen does not know"));
    passed_on ["temperature"] Number(0.0, 2.0), "Sampling temperature.";
    passed_on ["top_p", "min_p", "top_a"] Number(0.0, 1.0), "Sampling cut-offs.";
    passed_on ["max_tokens", "max_completion_tokens"] Integer(1, TOKENS_MAX),
        "Maximum length of a reply.";
    passed_on ["presence_penalty", "frequency_penalty"] Number(-2.0, 2.0),
        "Penalties for repetition.";
    passed_on ["reasoning_effort", "verbosity", "service_tier"] Text,
        "Amount of reasoning, length of replies, and priority of requests.";
    passed_on ["api_version"] Text, "The version of the API, for `azure_openai`.";
    passed_on ["prompt_caching"] Flag.with_default("true"), "Whether `claude` caches prompts.";
    passed_on ["cache_ttl"] OneOf(&["5m", "1h"]).with_default("5m"),
        "Lifetime of the prompt cache of `claude`; an hour costs more.";
    passed_on ["speed"] Text, "Speed of the replies of `claude`, which needs an entry in `betas`.";
    passed_on ["betas", "anthropic_beta"] Any
        .in_found(NeedsNamedConfig("switches on functions of the vendor that massgen does not \
        know")), "Beta features of the API of `claude`, by name.";
    passed_on ["reasoning", "thinking", "think", "text", "top_k", "seed", "stop", "store", "user",
        "metadata", "models", "provider", "route", "transforms", "logprobs", "top_logprobs",
        "logit_bias", "repetition_penalty", "response_format", "parallel_tool_calls",
        "stream_options", "strict", "prediction", "num_ctx", "keep_alive"] Any,
        "Other parameters of vendors, passed unchanged.";
    passed_on ["plugins"] Any
        .in_found(NeedsNamedConfig("lets models use the network or run programs at their vendor")),
        "Plugins of `openrouter`, such as its web search.";
    passed_on ["enable_web_search", "enable_code_execution", "enable_code_interpreter"] Flag
        .in_found(NeedsNamedConfig("lets models use the network or run programs at their vendor"))
        .with_default("false"),
        "Whether the model may search the web or run programs at its vendor. massgen's permissions \
        do not apply there, except to the requests of models that have these as tools of \
        massgen's.";
    passed_on ["enable_strict_tool_use"] Flag.with_default("false"),
        "Whether the arguments of calls of servers' and custom tools conform to the tools' \
        schemas, for `claude`, as far as it accepts these schemas.";
    unsupported ["enable_x_search"] Convenience.with_shape(ValueShape::Flag).with_default("false"),
        "the agent has massgen's own tools and none of the vendor's";
    unsupported ["enable_video_generation"] Nothing.with_shape(ValueShape::Flag),
        "MassGen does nothing with it either: its videos are made by custom tools";
    row commands::CODE.row();
    row commands::CODE_LANGUAGE.row();
    row commands::CODE_LIBRARIES.row();
    row commands::ENABLED.row();
    row commands::MODE.row();
    row commands::ALLOWED.row();
    row commands::BLOCKED.row();
    row commands::POLICY.row();
    row commands::SANDBOX.row();
    row commands::NETWORK.row();
    row commands::LIMITS.row();
    row commands::ENV.row();
    row commands::SRT_DOMAINS.row();
    row commands::SRT_READ_MODE;
    row commands::SRT_ALLOW_READ;
    row commands::SRT_DENY_READ;
    row commands::SRT_SOCKETS;
    row commands::PREFIX;
    row commands::VENV;
    row docker::IMAGE.row();
    row docker::MEMORY.row();
    row docker::CPUS.row();
    row docker::NETWORK.row();
    row docker::SUDO.row();
    row docker::CREDENTIALS.row();
    row docker::PACKAGES.row();
    row servers::KEY.row();
    row servers::DIRECT.row();
    row custom_tools::CUSTOM_TOOLS.row();
    row custom_tools::TOOLS.row();
    row custom_tools::AUTO_DISCOVER.row();
    row custom_tools::EXCLUDE.row();
    unsupported ["shared_tools_directory"] Nothing,
        "massgen writes the tools of programs into directories of its own";
    unsupported ["custom_tools_path", "multimodal_config", "video_generation_model"] Convenience,
        "the agent has massgen's own tools";
    unsupported ["enable_tool_search", "tool_search_variant",
        "enable_programmatic_flow"] Convenience.with_default("false"),
        "the model is offered all its tools from the start, and calls them one by one";
    unsupported ["use_mcpwrapped_for_tool_filtering", "use_no_roots_wrapper",
        "concurrent_tool_execution", "max_concurrent_tools"] Nothing,
        "it concerns how MassGen works inside";
    unsupported ["debug_delay_seconds", "debug_delay_after_n_tools"] Nothing,
        "no agent pauses for a test; `delay_ms` in the script of a `scripted` backend delays a \
        reply";
    unsupported ["websocket_mode"] Convenience.with_default("false"),
        "replies are streamed over HTTP";
    unsupported ["vote_only"] Restricts.with_shape(ValueShape::Flag).with_default("false"),
        "every agent may answer; leave out the agent";
    unsupported ["max_thinking_tokens"] Restricts,
        "limit the agent with `limits`, or the model with `max_tokens` or `thinking`";
    row media::UPLOAD_FILES.row();
    row hooks::KEY.row();
    row permissions::KEY.row();
    unsupported ["permission_mode"] RestrictsAs(&["plan"])
        .with_shape(ValueShape::OneOf(&["default", "acceptEdits", "bypassPermissions", "plan"])),
        "what the agent may touch follows from `cwd`, `context_paths` and `folder_guard`; for \
        `plan`, write `role: read-only` in `permissions`";
    unsupported ["enable_rate_limit"] Convenience.with_shape(ValueShape::Flag)
        .with_default("false"), "massgen waits when a vendor asks it to";
    unsupported ["voting_sensitivity", "voting_threshold", "write_mode"] Convenience,
        "only the key in `orchestrator` counts";
    unsupported ["agent_temporary_workspace"] Nothing,
        "what agents see of each other is below `.massgen`";
    unsupported ["agent_config", "session_id", "instance_id", "agent_id", "enable_nlip", "nlip",
        "nlip_config"] Convenience, "it is not sent to the model either";
    refused ["system_prompt", "append_system_prompt"], "write it as `system_message` of the agent";
    refused ["messages", "functions", "stream"], "massgen writes it into every request itself";
    refused ["n"], "massgen asks for one reply at a time";
    row ConfigKey::refused(&["command_line_docker_host", "command_line_kubernetes"],
        ELSEWHERE_HINT);
}

section! {
    /// A model that is asked when the one before it cannot continue: its key is bad, it is unknown,
    /// overloaded for too long, or the conversation is too long for it. Keys of the model's API are
    /// written as in `backend`.
    pub static FALLBACK_SECTION = "agents[].backend.fallback[]", PassedOnUnlessOfBackend;
    row TYPE
        .with_doc("Which vendor is asked; the same as in `backend` if it is not there.")
        .make_optional().row();
    row MODEL.with_doc("The model's name at the vendor.").make_required().row();
    row BASE_URL.row();
    row API_KEY.with_doc("The key, instead of the vendor's variable.").row();
    row IMAGE_INPUT.row();
    row REASONING_ECHO.row();
    row REPLIES.row();
    row SCRIPT.row();
    row EXTRA_BODY.row();
}

section! {
    /// Keys that go into every request as they are, whatever they are called.
    pub static EXTRA_BODY_SECTION = "agents[].backend.extra_body", PassedOn;
}
