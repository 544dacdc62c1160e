//! The keys of an agent and of its backend.

use crate::config::keys::commands;
use crate::config::keys::docker;
use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Inside, Named};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::hooks::{self, HOOKS};
use crate::config::keys::limits::LIMITS;
use crate::config::keys::orchestrator::CONTEXT_PATH;
use crate::config::keys::permissions::{DOC, PERMISSIONS};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::servers;
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, UnknownKeys, ValueShape, value_rules,
};
use crate::permissions::guard::GuardPreset;

/// The maximum number of tokens that a request can ask for; no model produces more.
const TOKENS_MAX: i64 = 10_000_000;

/// One agent.
pub static AGENT: KeySection = KeySection {
    path: "agents[]",
    doc: "An agent: a model, its instructions and its access.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["id"],
            ValueShape::Text,
            "Its name in logs and directories: letters, digits, `_`, `-` and `.`. Other agents \
             never see it, not even in paths; they see the last part of `cwd`.",
            Harmless,
        ),
        ConfigKey::required(
            &["backend"],
            ValueShape::Mapping(&BACKEND),
            "Its model.",
            Harmless,
        ),
        ConfigKey::served(
            &["system_message"],
            ValueShape::Text,
            "Additional instructions for this agent.",
            Harmless,
        ),
        ConfigKey::served(
            &["folder_guard"],
            ValueShape::Mapping(&FOLDER_GUARD),
            GUARD_DOC,
            Harmless,
        ),
        ConfigKey::served(
            &["permissions"],
            ValueShape::Mapping(&PERMISSIONS),
            DOC,
            Harmless,
        ),
        ConfigKey::served(
            &["hooks"],
            ValueShape::Mapping(&HOOKS),
            hooks::DOC,
            Harmless,
        ),
        ConfigKey::served(
            &["limits"],
            ValueShape::Mapping(&LIMITS),
            "How much money, how many tokens and how many tool calls this agent may use.",
            Harmless,
        ),
        ConfigKey::unserved(
            &["memory"],
            ValueShape::Any,
            "agents remember the conversation of the run and nothing else",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["subtask", "subagent_agents", "main_agent"],
            ValueShape::Any,
            "every agent works on the whole task",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["max_new_answers_per_agent"],
            ValueShape::Any,
            "write `max_new_answers_per_agent` in `orchestrator`, for all agents",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unserved(
            &[
                "voting_sensitivity",
                "voting_threshold",
                "answer_novelty_requirement",
            ],
            ValueShape::Any,
            "only the key in `orchestrator` counts",
            IgnoredEffect::Cosmetic,
        ),
    ],
};

const GUARD_DOC: &str = "Restricts this agent to these directories. The context paths are then not \
                         open to it.";

/// The two lists of directories that an agent is restricted to.
pub static FOLDER_GUARD: KeySection = KeySection {
    path: "agents[].folder_guard",
    doc: "The only directories open to an agent: absolute, below `~`, or relative to the directory \
          in which massgen is started. With an empty `write` the agent is read-only; two empty \
          lists open nothing. Without `folder_guard` there is no such restriction.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["preset"],
            ValueShape::OneOf(GuardPreset::NAMES),
            "Directories for a part in a workflow, in addition to the lists. `execution` reads \
             `learnings` and writes `execution`; `planning` reads `learnings` and writes \
             `planning`; `validation` reads `execution` and writes `validation`; `read_only` reads \
             `learnings`.",
            Harmless,
        ),
        ConfigKey::served(
            &["root"],
            ValueShape::Text,
            "The parent of the directories of `preset` and of `Downloads/`, and the base of \
             relative paths in the agent's calls. Default: its workspace. Directories in the \
             workspace are created; elsewhere they must exist.",
            Inside(PathPurpose::OpenedForWriting),
        ),
        ConfigKey::served(
            &["read"],
            ValueShape::List(&ValueShape::Text),
            "Directories that may be read.",
            Inside(PathPurpose::OpenedForReading),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["write"],
            ValueShape::List(&ValueShape::Text),
            "Directories that may be read, and written by the winner.",
            Inside(PathPurpose::OpenedForWriting),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["downloads"],
            ValueShape::Flag,
            "Whether `Downloads/` is also open: to read, and to write if any directory is \
             writable.",
            Harmless,
        )
        .with_default("true"),
    ],
};

/// The endpoint of the agent's model and of its fallback models.
const BASE_URL: ConfigKey = ConfigKey::served(
    &["base_url"],
    ValueShape::Text,
    "The API endpoint. Default: the vendor's.",
    ByValue(value_rules::endpoint),
);
/// Replies in the config itself.
const REPLIES: ConfigKey = ConfigKey::served(
    &["replies"],
    ValueShape::Verbatim,
    "The replies of a `scripted` backend.",
    Harmless,
);
/// Replies in a file.
const SCRIPT: ConfigKey = ConfigKey::served(
    &["script"],
    ValueShape::Text,
    "A YAML file with the replies of a `scripted` backend, relative to the config.",
    Inside(PathPurpose::ReadByMassgen),
);
/// Keys that are sent in requests under any name.
const MORE: ConfigKey = ConfigKey::served(
    &["extra_body"],
    ValueShape::Mapping(&EXTRA_BODY),
    "Additional keys for the model's API.",
    Named("sends keys to the model's API that massgen does not know"),
);

const IMAGE_INPUT: ConfigKey = ConfigKey::served(
    &["image_input"],
    ValueShape::Flag,
    "Whether the model receives images from MCP tools. Default: yes for `claude`, `openai`, \
     `azure_openai`, `gemini`, `grok`, `openrouter`, `claude_code`, `codex`, `gemini_cli` and \
     `scripted`. If a vendor rejects a request with images, it is retried once without them.",
    Harmless,
);

/// The model of an agent, and how it is reached.
pub static BACKEND: KeySection = KeySection {
    path: "agents[].backend",
    doc: "The model and its API. Keys that are not listed are sent to the model's API unchanged in \
          every request; one that looks like a misspelt listed key is an error.",
    others: UnknownKeys::PassedOn,
    keys: &[
        ConfigKey::required(
            &["type"],
            ValueShape::Text,
            "The vendor: one of the backend types below.",
            ByValue(value_rules::vendor),
        ),
        ConfigKey::served(
            &["model"],
            ValueShape::Text,
            "The vendor's name of the model. Required unless the type has a default.",
            Harmless,
        ),
        BASE_URL,
        ConfigKey::served(
            &["api_key"],
            ValueShape::Text,
            "The API key. Preferably omitted: then the vendor's variable is read from the \
             environment or a `.env` file. `${NAME}` uses another variable.",
            ByValue(value_rules::api_key),
        ),
        ConfigKey::served(
            &["cwd"],
            ValueShape::Text,
            "The agent's workspace; without one it has no file tools. A relative path is below \
             `.massgen/workspaces/` and managed by massgen; an absolute one is yours and never \
             cleared.",
            ByValue(value_rules::workspace),
        ),
        ConfigKey::served(
            &["context_paths"],
            ValueShape::List(&ValueShape::TextOr(&CONTEXT_PATH)),
            "Context paths for this agent only, in addition to those of `orchestrator`.",
            Inside(PathPurpose::Opened),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["allowed_tools"],
            ValueShape::List(&ValueShape::Text),
            "The only tools offered to the agent.",
            Harmless,
        ),
        ConfigKey::served(
            &["exclude_tools", "disallowed_tools"],
            ValueShape::List(&ValueShape::Text),
            "Tools not offered to the agent.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["enforce_read_before_delete"],
            ValueShape::Flag,
            "Whether the agent must have read a file before it deletes or overwrites it.",
            Harmless,
        )
        .with_default("true"),
        ConfigKey::served(
            &["system_message"],
            ValueShape::Text,
            "Same as `system_message` of the agent, which takes precedence.",
            Harmless,
        ),
        ConfigKey::served(
            &["folder_guard"],
            ValueShape::Mapping(&FOLDER_GUARD),
            "Same as `folder_guard` of the agent, which takes precedence.",
            Harmless,
        ),
        REPLIES,
        SCRIPT,
        ConfigKey::served(
            &["command"],
            ValueShape::List(&ValueShape::Text),
            "The program of an external agent and its arguments: required for `acp`; for other \
             types it replaces the default program. See [agent-programs.md](agent-programs.md).",
            Named("starts a program"),
        ),
        ConfigKey::served(
            &["network"],
            ValueShape::OneOfOrList(&["off", "on"]),
            "Network access of the external agent: none, full, or the hosts of these domains, as \
             in `command_line_network`. Default: its vendor's hosts.",
            ByValue(value_rules::network),
        ),
        ConfigKey::served(
            &["record"],
            ValueShape::Text,
            "A file, relative to the config, to which the replies of the model are written at the \
             end of the run, for a `scripted` backend. Only an existing recording is replaced.",
            Inside(PathPurpose::WrittenByMassgen),
        ),
        IMAGE_INPUT,
        ConfigKey::served(
            &["fallback"],
            ValueShape::List(&ValueShape::TextOr(&FALLBACK)),
            "Models to switch to when this one fails, in order. A string is another model of the \
             same vendor with the same keys.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["first_byte_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Timeout until the first byte of a reply; the request is then retried.",
            Harmless,
        )
        .with_default("300"),
        ConfigKey::served(
            &["idle_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Timeout between two pieces of a reply; the request is then retried.",
            Harmless,
        )
        .with_default("300"),
        ConfigKey::served(
            &["request_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Timeout of a whole reply; the request is then retried.",
            Harmless,
        )
        .with_default("3600"),
        MORE,
        ConfigKey::passed(
            &["temperature"],
            ValueShape::Number(0.0, 2.0),
            "Sampling temperature.",
            Harmless,
        ),
        ConfigKey::passed(
            &["top_p", "min_p", "top_a"],
            ValueShape::Number(0.0, 1.0),
            "Sampling cut-offs.",
            Harmless,
        ),
        ConfigKey::passed(
            &["max_tokens", "max_completion_tokens"],
            ValueShape::Integer(1, TOKENS_MAX),
            "Maximum length of a reply.",
            Harmless,
        ),
        ConfigKey::passed(
            &["presence_penalty", "frequency_penalty"],
            ValueShape::Number(-2.0, 2.0),
            "Penalties for repetition.",
            Harmless,
        ),
        ConfigKey::passed(
            &["reasoning_effort", "verbosity", "service_tier"],
            ValueShape::Text,
            "Amount of reasoning, length of replies, and priority of requests.",
            Harmless,
        ),
        ConfigKey::passed(
            &["api_version"],
            ValueShape::Text,
            "The version of the API, for `azure_openai`.",
            Harmless,
        ),
        ConfigKey::passed(
            &["prompt_caching"],
            ValueShape::Flag,
            "Whether `claude` caches prompts.",
            Harmless,
        )
        .with_default("true"),
        ConfigKey::passed(
            &["cache_ttl"],
            ValueShape::OneOf(&["5m", "1h"]),
            "Lifetime of the prompt cache of `claude`; an hour costs more.",
            Harmless,
        )
        .with_default("5m"),
        ConfigKey::passed(
            &["betas", "anthropic_beta"],
            ValueShape::Any,
            "Beta features of the API of `claude`, by name.",
            Named("switches on functions of the vendor that massgen does not know"),
        ),
        ConfigKey::passed(
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
                "prediction",
                "num_ctx",
                "keep_alive",
            ],
            ValueShape::Any,
            "Other parameters of vendors, passed unchanged.",
            Harmless,
        ),
        ConfigKey::passed(
            &["plugins"],
            ValueShape::Any,
            "Plugins of `openrouter`, such as its web search.",
            Named("lets models use the network or run programs at their vendor"),
        ),
        ConfigKey::passed(
            &[
                "enable_web_search",
                "enable_code_execution",
                "enable_code_interpreter",
            ],
            ValueShape::Flag,
            "Whether the model may search the web or run programs at its vendor. massgen's \
             permissions do not apply there.",
            Named("lets models use the network or run programs at their vendor"),
        )
        .with_default("false"),
        ConfigKey::unserved(
            &[
                "enable_x_search",
                "enable_image_generation",
                "enable_audio_generation",
                "enable_video_generation",
                "enable_file_generation",
                "enable_multimodal_tools",
                "auto_discover_custom_tools",
            ],
            ValueShape::Flag,
            "the agent has massgen's own tools and none of the vendor's",
            IgnoredEffect::Cosmetic,
        )
        .with_default("false"),
        commands::CODE,
        commands::CODE_LANGUAGE,
        commands::CODE_LIBRARIES,
        commands::ENABLED,
        commands::MODE,
        commands::ALLOWED,
        commands::BLOCKED,
        commands::POLICY,
        commands::SANDBOX,
        commands::NETWORK,
        commands::LIMITS,
        commands::ENV,
        commands::SRT_DOMAINS,
        commands::SRT_READ_MODE,
        commands::SRT_ALLOW_READ,
        commands::SRT_DENY_READ,
        commands::SRT_SOCKETS,
        commands::PREFIX,
        commands::VENV,
        docker::IMAGE,
        docker::MEMORY,
        docker::CPUS,
        docker::NETWORK,
        docker::SUDO,
        docker::CREDENTIALS,
        docker::PACKAGES,
        servers::OF_AGENT,
        ConfigKey::unserved(
            &["direct_mcp_servers"],
            ValueShape::Any,
            "all servers are those of `mcp_servers`",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &[
                "custom_tools",
                "custom_tools_path",
                "exclude_custom_tools",
                "shared_tools_directory",
                "use_mcpwrapped_for_tool_filtering",
                "use_no_roots_wrapper",
                "multimodal_config",
                "image_generation_backend",
                "image_generation_model",
                "video_generation_backend",
                "video_generation_model",
                "audio_generation_backend",
                "audio_generation_model",
            ],
            ValueShape::Any,
            "the agent has massgen's own tools",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &["exclude_file_operation_mcps"],
            ValueShape::Flag,
            "list the file tools in `exclude_tools`, or leave out `cwd`",
            IgnoredEffect::Restricts,
        )
        .with_default("false"),
        ConfigKey::unserved(
            &["vote_only"],
            ValueShape::Flag,
            "every agent may answer; leave out the agent",
            IgnoredEffect::Restricts,
        )
        .with_default("false"),
        ConfigKey::unserved(
            &["max_thinking_tokens"],
            ValueShape::Any,
            "limit the agent with `limits`, or the model with `max_tokens` or `thinking`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unserved(
            &["upload_files"],
            ValueShape::Any,
            "give the directory in `context_paths`, or name the file in the task as `@path`",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::served(
            &["hooks"],
            ValueShape::Mapping(&HOOKS),
            hooks::DOC,
            Harmless,
        ),
        ConfigKey::served(
            &["permissions"],
            ValueShape::Mapping(&PERMISSIONS),
            DOC,
            Harmless,
        ),
        ConfigKey::unserved(
            &["permission_mode"],
            ValueShape::OneOf(&["default", "acceptEdits", "bypassPermissions", "plan"]),
            "what the agent may touch follows from `cwd`, `context_paths` and `folder_guard`; for `plan`, \
             write `role: read-only` in `permissions`",
            IgnoredEffect::RestrictsAs(&["plan"]),
        ),
        ConfigKey::unserved(
            &["enable_rate_limit"],
            ValueShape::Flag,
            "massgen waits when a vendor asks it to",
            IgnoredEffect::Cosmetic,
        )
        .with_default("false"),
        ConfigKey::unserved(
            &[
                "agent_temporary_workspace",
                "voting_sensitivity",
                "voting_threshold",
                "write_mode",
            ],
            ValueShape::Any,
            "only the key in `orchestrator` counts",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::unserved(
            &[
                "agent_config",
                "concurrent_tool_execution",
                "max_concurrent_tools",
                "websocket_mode",
                "session_id",
                "instance_id",
                "agent_id",
                "debug_delay_seconds",
                "debug_delay_after_n_tools",
                "enable_nlip",
                "nlip",
                "nlip_config",
            ],
            ValueShape::Any,
            "it is not sent to the model either",
            IgnoredEffect::Cosmetic,
        ),
        ConfigKey::refused(
            &["system_prompt", "append_system_prompt"],
            "write it as `system_message` of the agent",
        ),
        ConfigKey::refused(
            &["messages", "tools", "functions", "stream"],
            "massgen writes it into every request itself",
        ),
        ConfigKey::refused(&["n"], "massgen asks for one reply at a time"),
    ],
};

/// A model that is used when the agent's own fails.
pub static FALLBACK: KeySection = KeySection {
    path: "agents[].backend.fallback[]",
    doc: "A model that is asked when the one before it cannot go on: its key is bad, it is unknown, \
          overloaded for too long, or the conversation is too long for it. Keys of the model's API \
          are written as in `backend`.",
    others: UnknownKeys::AsInBackend,
    keys: &[
        ConfigKey::served(
            &["type"],
            ValueShape::Text,
            "Which vendor is asked; the same as in `backend` if it is not there.",
            ByValue(value_rules::vendor),
        ),
        ConfigKey::required(
            &["model"],
            ValueShape::Text,
            "The model's name at the vendor.",
            Harmless,
        ),
        BASE_URL,
        ConfigKey::served(
            &["api_key"],
            ValueShape::Text,
            "The key, instead of the vendor's variable.",
            ByValue(value_rules::api_key),
        ),
        IMAGE_INPUT,
        REPLIES,
        SCRIPT,
        MORE,
    ],
};

/// Additional keys for the model's API.
pub static EXTRA_BODY: KeySection = KeySection {
    path: "agents[].backend.extra_body",
    doc: "Keys that go into every request as they are, whatever they are called.",
    others: UnknownKeys::PassedOn,
    keys: &[],
};
