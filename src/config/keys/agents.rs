//! Owns the keys of an agent and of its backend.

use crate::config::keys::commands;
use crate::config::keys::docker;
use crate::config::keys::found::FoundUse::{ByValue, Harmless, Inside, Named};
use crate::config::keys::found::PathUse;
use crate::config::keys::hooks::{self, HOOKS};
use crate::config::keys::limits::LIMITS;
use crate::config::keys::orchestrator::CONTEXT_PATH;
use crate::config::keys::permissions::{DOC, PERMISSIONS};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::servers;
use crate::config::keys::{Ignored, Key, Others, Section, Shape, values};
use crate::permissions::guard::Preset;

/// The most tokens that a request can ask for; no model gives more.
const TOKENS_MAX: i64 = 10_000_000;

/// One agent.
pub static AGENT: Section = Section {
    path: "agents[]",
    doc: "One agent: a model, what you tell it, and what it may touch.",
    others: Others::Refused,
    keys: &[
        Key::required(
            &["id"],
            Shape::Text,
            "Its name in logs and directories: letters, digits, `_`, `-` and `.`. Other agents never \
             see it, in no path either; of `cwd` they see the last part.",
            Harmless,
        ),
        Key::required(
            &["backend"],
            Shape::Mapping(&BACKEND),
            "The model that speaks for it.",
            Harmless,
        ),
        Key::served(
            &["system_message"],
            Shape::Text,
            "What you tell this agent beside the task.",
            Harmless,
        ),
        Key::served(
            &["folder_guard"],
            Shape::Mapping(&FOLDER_GUARD),
            GUARD_DOC,
            Harmless,
        ),
        Key::served(
            &["permissions"],
            Shape::Mapping(&PERMISSIONS),
            DOC,
            Harmless,
        ),
        Key::served(&["hooks"], Shape::Mapping(&HOOKS), hooks::DOC, Harmless),
        Key::served(
            &["limits"],
            Shape::Mapping(&LIMITS),
            "How much money, how many tokens and how many tool calls this agent may use.",
            Harmless,
        ),
        Key::unserved(
            &["memory"],
            Shape::Any,
            "agents remember the conversation of the run and nothing else",
            Ignored::Looks,
        ),
        Key::unserved(
            &["subtask", "subagent_agents", "main_agent"],
            Shape::Any,
            "every agent works on the whole task",
            Ignored::Looks,
        ),
        Key::unserved(
            &["max_new_answers_per_agent"],
            Shape::Any,
            "write `max_new_answers_per_agent` in `orchestrator`, for all agents",
            Ignored::Restricts,
        ),
        Key::unserved(
            &[
                "voting_sensitivity",
                "voting_threshold",
                "answer_novelty_requirement",
            ],
            Shape::Any,
            "only the key in `orchestrator` counts",
            Ignored::Looks,
        ),
    ],
};

const GUARD_DOC: &str = "Directories that this agent is held to. With it, the context paths are not \
                         open to the agent.";

/// The two lists of directories that an agent is held to.
pub static FOLDER_GUARD: Section = Section {
    path: "agents[].folder_guard",
    doc: "Directories that an agent is held to, absolute, below `~`, or relative to the directory \
          that massgen is started in. An empty `write` makes the agent read-only; two empty lists \
          open none of them. Without `folder_guard` there is no guard.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["preset"],
            Shape::OneOf(Preset::NAMES),
            "Directories of a part in a workflow, besides those of the lists. `execution` reads \
             `learnings` and writes `execution`; `planning` reads `learnings` and writes `planning`; \
             `validation` reads `execution` and writes `validation`; `read_only` reads `learnings`.",
            Harmless,
        ),
        Key::served(
            &["root"],
            Shape::Text,
            "Where the directories of `preset` and `Downloads/` lie, and where relative paths of the \
             agent's calls begin; its workspace unless it is written. What lies in the workspace is \
             made; elsewhere the directories must exist.",
            Inside(PathUse::OpenedForWriting),
        ),
        Key::served(
            &["read"],
            Shape::List(&Shape::Text),
            "Directories that may be read.",
            Inside(PathUse::OpenedForReading),
        )
        .or("[]"),
        Key::served(
            &["write"],
            Shape::List(&Shape::Text),
            "Directories that may be read, and written by the winner.",
            Inside(PathUse::OpenedForWriting),
        )
        .or("[]"),
        Key::served(
            &["downloads"],
            Shape::Flag,
            "Whether `Downloads/` is open besides: for reading, and for writing where anything is.",
            Harmless,
        )
        .or("true"),
    ],
};

/// The endpoint, of the agent's model and of those after it.
const BASE_URL: Key = Key::served(
    &["base_url"],
    Shape::Text,
    "The endpoint, instead of the vendor's own.",
    ByValue(values::endpoint),
);
/// Replies in the config itself.
const REPLIES: Key = Key::served(
    &["replies"],
    Shape::Verbatim,
    "The replies of a `scripted` backend.",
    Harmless,
);
/// Replies in a file.
const SCRIPT: Key = Key::served(
    &["script"],
    Shape::Text,
    "A YAML file with the replies of a `scripted` backend, relative to the config.",
    Inside(PathUse::ReadByMassgen),
);
/// Keys that go into requests whatever they are called.
const MORE: Key = Key::served(
    &["extra_body"],
    Shape::Mapping(&EXTRA_BODY),
    "More keys for the model's API.",
    Named("sends keys to the model's API that massgen does not know"),
);

const IMAGE_INPUT: Key = Key::served(
    &["image_input"],
    Shape::Flag,
    "Whether the model is given the images that tools of servers give. Unless it is written, the models \
     of `claude`, `openai`, `azure_openai`, `gemini`, `grok`, `openrouter`, `claude_code`, `codex`, \
     `gemini_cli` and `scripted` are. If a vendor refuses a request with images, it is asked once more \
     without.",
    Harmless,
);

/// Where a model is asked, and how.
pub static BACKEND: Section = Section {
    path: "agents[].backend",
    doc: "Where a model is asked, and how. A key that is not listed belongs to the model's API and \
          goes into every request as it is; one that looks like a typing error of a listed key is an \
          error.",
    others: Others::Passed,
    keys: &[
        Key::required(
            &["type"],
            Shape::Text,
            "Which vendor is asked: one of the backend types below.", ByValue(values::vendor),),
        Key::served(
            &["model"],
            Shape::Text,
            "The model's name at the vendor. Needed unless the type has a default.", Harmless,),
        BASE_URL,
        Key::served(
            &["api_key"],
            Shape::Text,
            "The key. Better left out: then the vendor's variable is read from the environment or a \
             `.env` file. `${NAME}` names another variable.", ByValue(values::api_key),),
        Key::served(
            &["cwd"],
            Shape::Text,
            "The agent's workspace; without one it has no file tools. A relative one lies below \
             `.massgen/workspaces/` and is massgen's; an absolute one is yours and never cleared.", ByValue(values::workspace),),
        Key::served(
            &["context_paths"],
            Shape::List(&Shape::TextOr(&CONTEXT_PATH)),
            "Paths that only this agent is given, besides those of `orchestrator`.", Inside(PathUse::Opened),)
        .or("[]"),
        Key::served(
            &["allowed_tools"],
            Shape::List(&Shape::Text),
            "The only tools that the agent is offered.", Harmless,),
        Key::served(
            &["exclude_tools", "disallowed_tools"],
            Shape::List(&Shape::Text),
            "Tools that the agent is not offered.", Harmless,)
        .or("[]"),
        Key::served(
            &["enforce_read_before_delete"],
            Shape::Flag,
            "Whether the agent must have read a file before it deletes or overwrites it.", Harmless,)
        .or("true"),
        Key::served(
            &["system_message"],
            Shape::Text,
            "The same as `system_message` of the agent, which counts if both are there.", Harmless,),
        Key::served(
            &["folder_guard"],
            Shape::Mapping(&FOLDER_GUARD),
            "The same as `folder_guard` of the agent, which counts if both are there.", Harmless,),
        REPLIES,
        SCRIPT,
        Key::served(
            &["command"],
            Shape::List(&Shape::Text),
            "The program of an agent that is one, and its arguments: needed for `acp`, and in the \
             place of the usual program for the others. See [agent-programs.md](agent-programs.md).", Named("starts a program"),),
        Key::served(
            &["network"],
            Shape::OneOfOrList(&["off", "on"]),
            "What such a program reaches of the network: nothing, everything, or hosts of these \
             domains, as in `command_line_network`. Unless it is written, its vendor's.", ByValue(values::network),),
        Key::served(
            &["record"],
            Shape::Text,
            "A file, relative to the config, that gets the replies of the agent's model at the end of \
             the run, as a `scripted` backend takes them. A file that is no recording is never \
             replaced.", Inside(PathUse::WrittenByMassgen),),
        IMAGE_INPUT,
        Key::served(
            &["fallback"],
            Shape::List(&Shape::TextOr(&FALLBACK)),
            "Models that are asked when this one cannot go on, in this order. A text is another model \
             of the same vendor with the same keys.", Harmless,)
        .or("[]"),
        Key::served(
            &["first_byte_timeout_seconds"],
            Shape::Integer(1, SECONDS_MAX),
            "How long nothing may come after a request, until it is tried again.", Harmless,)
        .or("300"),
        Key::served(
            &["idle_timeout_seconds"],
            Shape::Integer(1, SECONDS_MAX),
            "How long nothing may come in the middle of a reply, until the request is tried again.", Harmless,)
        .or("300"),
        Key::served(
            &["request_timeout_seconds"],
            Shape::Integer(1, SECONDS_MAX),
            "How long a whole reply may take, until the request is tried again.", Harmless,)
        .or("3600"),
        MORE,
        Key::passed(
            &["temperature"],
            Shape::Number(0.0, 2.0),
            "How freely the model chooses its words.", Harmless,),
        Key::passed(
            &["top_p", "min_p", "top_a"],
            Shape::Number(0.0, 1.0),
            "Which share of the likely words the model chooses from.", Harmless,),
        Key::passed(
            &["max_tokens", "max_completion_tokens"],
            Shape::Integer(1, TOKENS_MAX),
            "How long one reply may be.", Harmless,),
        Key::passed(
            &["presence_penalty", "frequency_penalty"],
            Shape::Number(-2.0, 2.0),
            "How much the model avoids to repeat itself.", Harmless,),
        Key::passed(
            &["reasoning_effort", "verbosity", "service_tier"],
            Shape::Text,
            "How much the model thinks, how much it says, and how soon it is served.", Harmless,),
        Key::passed(
            &["api_version"],
            Shape::Text,
            "The version of the API, for `azure_openai`.", Harmless,),
        Key::passed(
            &["prompt_caching"],
            Shape::Flag,
            "Whether `claude` serves what was sent before from its cache.", Harmless,)
        .or("true"),
        Key::passed(
            &["cache_ttl"],
            Shape::OneOf(&["5m", "1h"]),
            "How long the cache of `claude` keeps it; an hour costs more.", Harmless,)
        .or("5m"),
        Key::passed(
            &["betas", "anthropic_beta"],
            Shape::Any,
            "Beta features of the API of `claude`, by name.", Named("switches on functions of the vendor that massgen does not know"),),
        Key::passed(
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
            Shape::Any,
            "Other parameters that vendors know, passed as they are.", Harmless,),
        Key::passed(
            &["plugins"],
            Shape::Any,
            "Plugins of `openrouter`, such as its web search.",
            Named("lets models use the network or run programs at their vendor"),
        ),
        Key::passed(
            &[
                "enable_web_search",
                "enable_code_execution",
                "enable_code_interpreter",
            ],
            Shape::Flag,
            "Whether the model may search the web, or run programs, at its vendor. massgen's \
             permissions do not reach there.", Named("lets models use the network or run programs at their vendor"),)
        .or("false"),
        Key::unserved(
            &[
                "enable_x_search",
                "enable_image_generation",
                "enable_audio_generation",
                "enable_video_generation",
                "enable_file_generation",
                "enable_multimodal_tools",
                "auto_discover_custom_tools",
            ],
            Shape::Flag,
            "the agent has massgen's own tools and none of the vendor's", Ignored::Looks,)
        .or("false"),
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
        Key::unserved(
            &["direct_mcp_servers"],
            Shape::Any,
            "all servers are those of `mcp_servers`", Ignored::Looks,),
        Key::unserved(
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
            Shape::Any,
            "the agent has massgen's own tools", Ignored::Looks,),
        Key::unserved(
            &["exclude_file_operation_mcps"],
            Shape::Flag,
            "list the file tools in `exclude_tools`, or leave out `cwd`",
            Ignored::Restricts,
        )
        .or("false"),
        Key::unserved(
            &["vote_only"],
            Shape::Flag,
            "every agent may answer; leave out the agent",
            Ignored::Restricts,
        )
        .or("false"),
        Key::unserved(
            &["max_thinking_tokens"],
            Shape::Any,
            "limit the agent with `limits`, or the model with `max_tokens` or `thinking`",
            Ignored::Restricts,
        ),
        Key::unserved(
            &["upload_files"],
            Shape::Any,
            "give the directory in `context_paths`, or name the file in the task as `@path`", Ignored::Looks,),
        Key::served(&["hooks"], Shape::Mapping(&HOOKS), hooks::DOC, Harmless,),
        Key::served(&["permissions"], Shape::Mapping(&PERMISSIONS), DOC, Harmless,),
        Key::unserved(
            &["permission_mode"],
            Shape::OneOf(&["default", "acceptEdits", "bypassPermissions", "plan"]),
            "what the agent may touch follows from `cwd`, `context_paths` and `folder_guard`; for `plan`, \
             write `role: read-only` in `permissions`", Ignored::RestrictsAs(&["plan"]),),
        Key::unserved(
            &["enable_rate_limit"],
            Shape::Flag,
            "massgen waits when a vendor asks it to", Ignored::Looks,)
        .or("false"),
        Key::unserved(
            &[
                "agent_temporary_workspace",
                "voting_sensitivity",
                "voting_threshold",
                "write_mode",
            ],
            Shape::Any,
            "only the key in `orchestrator` counts", Ignored::Looks,),
        Key::unserved(
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
            Shape::Any,
            "it is not sent to the model either", Ignored::Looks,),
        Key::refused(
            &["system_prompt", "append_system_prompt"],
            "write it as `system_message` of the agent",
        ),
        Key::refused(
            &["messages", "tools", "functions", "stream"],
            "massgen writes it into every request itself",
        ),
        Key::refused(&["n"], "massgen asks for one reply at a time"),
    ],
};

/// A model that is asked when the agent's own cannot go on.
pub static FALLBACK: Section = Section {
    path: "agents[].backend.fallback[]",
    doc: "A model that is asked when the one before it cannot go on: its key is bad, it is unknown, \
          overloaded for too long, or the conversation is too long for it. Keys of the model's API \
          are written as in `backend`.",
    others: Others::AsInBackend,
    keys: &[
        Key::served(
            &["type"],
            Shape::Text,
            "Which vendor is asked; the same as in `backend` if it is not there.",
            ByValue(values::vendor),
        ),
        Key::required(
            &["model"],
            Shape::Text,
            "The model's name at the vendor.",
            Harmless,
        ),
        BASE_URL,
        Key::served(
            &["api_key"],
            Shape::Text,
            "The key, instead of the vendor's variable.",
            ByValue(values::api_key),
        ),
        IMAGE_INPUT,
        REPLIES,
        SCRIPT,
        MORE,
    ],
};

/// More keys for the model's API.
pub static EXTRA_BODY: Section = Section {
    path: "agents[].backend.extra_body",
    doc: "Keys that go into every request as they are, whatever they are called.",
    others: Others::Passed,
    keys: &[],
};
