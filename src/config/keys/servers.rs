//! The keys of an MCP server.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, NeedsNamedConfig};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::shape::{
    self, Flag, Integer, NamedSections, NamesOrPairs, Section, Text, TextList, TextOrList,
};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape, oauth,
    server_security, value_rules,
};

/// The servers of an agent or of all agents. In a found config, the rule refuses all of them.
pub(crate) const KEY: TypedKey<NamedSections> = TypedKey::optional(
    &["mcp_servers"],
    shape::named_sections(&MCP_SERVER),
    "MCP servers of this agent: a list of mappings with `name`, or a mapping of names. An entry here replaces one of the same name at the top of the file.",
    ByValue(value_rules::servers),
);

pub(crate) const DIRECT: TypedKey<TextList> = TypedKey::optional(
    &["direct_mcp_servers"],
    shape::texts(&ValueShape::Text),
    "With `enable_code_based_tools`: the servers whose tools the model calls one by one, and not by \
     its programs.",
    Harmless,
)
.with_default("[]");

pub(crate) const NAME: TypedKey<Text> = TypedKey::optional(
    &["name"],
    shape::text(),
    "Letters, digits, `_` and `-`. Its tools are called `mcp__NAME__TOOL`.",
    Harmless,
);

pub(crate) const TYPE: TypedKey<Text> = TypedKey::optional(
    &["type"],
    shape::one_of(&["stdio", "streamable-http", "http", "sse"]),
    "The transport: a program that massgen starts, or a remote server (`http` is \
     `streamable-http`). Default: from `url` or `command`. `sse` is the older protocol, \
     which is also the fallback for servers without `streamable-http`.",
    Harmless,
);

pub(crate) const COMMAND: TypedKey<Text> = TypedKey::optional(
    &["command"],
    shape::text(),
    "The program of a `stdio` server, or several words with its first arguments.",
    NeedsNamedConfig("starts a program"),
);

pub(crate) const ARGS: TypedKey<TextList> = TypedKey::optional(
    &["args"],
    shape::texts(&ValueShape::Text),
    "Its arguments.",
    NeedsNamedConfig("starts a program"),
)
.with_default("[]");

pub(crate) const ENV: TypedKey<NamesOrPairs> = TypedKey::optional(
    &["env"],
    shape::names_or_pairs(),
    "Additional environment variables of the program: names of yours, or names with \
     values.",
    NeedsNamedConfig("starts a program"),
)
.with_default("[]");

pub(crate) const CWD: TypedKey<Text> = TypedKey::optional(
    &["cwd"],
    shape::text(),
    "The working directory of the program, which must be open to the agent. Default: the \
     agent's workspace, or a private directory if the agent has none, the server is shared, or it \
     has `env` or `network`.",
    NeedsNamedConfig("starts a program"),
);

pub(crate) const RUN_IN: TypedKey<Text> = TypedKey::optional(
    &["run_in"],
    shape::one_of(&["sandbox", "container"]),
    "Where the program runs: in massgen's sandbox on this machine, or in a container of its own on the \
     engine of the agent's commands, which need `command_line_execution_mode: docker`. The \
     container has the network of `command_line_docker_network_mode`.",
    NeedsNamedConfig("starts a program"),
)
.with_default("sandbox");

pub(crate) const IMAGE: TypedKey<Text> = TypedKey::optional(
    &["image"],
    shape::text(),
    "The image of its container. Default: `command_line_docker_image` of the agent.",
    NeedsNamedConfig("starts a program"),
);

pub(crate) const NETWORK: TypedKey<TextOrList> = TypedKey::optional(
    &["network"],
    shape::one_of_or_list(&["off", "on"]),
    "Network access of the program: none, full, or the hosts of these domains, as in \
     `command_line_network`.",
    NeedsNamedConfig("starts a program"),
)
.with_default("off");

pub(crate) const SHARED: TypedKey<Flag> = TypedKey::optional(
    &["shared"],
    shape::flag(),
    "Whether all agents with this server share one instance of the program. It can read \
     what all of them may read, and writes nothing. Remote servers are always shared.",
    Harmless,
)
.with_default("false");

pub(crate) const REQUIRED: TypedKey<Flag> = TypedKey::optional(
    &["required"],
    shape::flag(),
    "Whether a run ends if the server does not start or does not list its tools. Otherwise a \
     warning says so, and the agents continue without its tools.",
    Harmless,
)
.with_default("false");

pub(crate) const URL: TypedKey<Text> = TypedKey::optional(
    &["url"],
    shape::text(),
    "The URL of a remote server.",
    NeedsNamedConfig("sends the agents' work to a server"),
);

pub(crate) const HEADERS: TypedKey<NamesOrPairs> = TypedKey::optional(
    &["headers"],
    shape::names_or_pairs(),
    "HTTP headers of every request, as a mapping.",
    NeedsNamedConfig("sends the agents' work to a server"),
);

pub(crate) const OAUTH: TypedKey<Section> = TypedKey::optional(
    &["oauth"],
    shape::section(&oauth::OAUTH),
    "How massgen gets a token, if the server requires one.",
    NeedsNamedConfig("sends the agents' work to a server"),
);

pub(crate) const ALLOWED_TOOLS: TypedKey<TextList> = TypedKey::optional(
    &["allowed_tools"],
    shape::texts(&ValueShape::Text),
    "The only tools to use, by the server's names.",
    Harmless,
);

pub(crate) const EXCLUDE_TOOLS: TypedKey<TextList> = TypedKey::optional(
    &["exclude_tools"],
    shape::texts(&ValueShape::Text),
    "Tools not to use.",
    Harmless,
)
.with_default("[]");

pub(crate) const TOOLS: TypedKey<NamesOrPairs> = TypedKey::optional(
    &["tools"],
    shape::names_or_pairs(),
    "A mapping of tools, by the server's names, to `allow`, `ask` or `deny`: the same as \
     rules `mcp(server/tool)` in `permissions`. Denied tools are not offered.",
    Harmless,
);

pub(crate) const PERMISSION: TypedKey<Text> = TypedKey::optional(
    &["permission"],
    shape::one_of(&["read", "write"]),
    "Access of its tools to paths in their arguments. The program of a server with `read` \
     cannot write to the agent's directories.",
    Harmless,
)
.with_default("read");

pub(crate) const CONTENT_ARGUMENTS: TypedKey<TextList> = TypedKey::optional(
    &["content_arguments"],
    shape::texts(&ValueShape::Text),
    "Arguments that are content and never treated as paths: `argument`, or \
     `tool.argument`.",
    Harmless,
)
.with_default("[]");

pub(crate) const SIDE_EFFECTS: TypedKey<Text> = TypedKey::optional(
    &["side_effects"],
    shape::one_of(&["some", "none"]),
    "Whether its tools change anything outside the agent's directories. In planning mode, \
     calls of tools with side effects wait for the final phase.",
    Harmless,
)
.with_default("some");

pub(crate) const TOOLS_WITHOUT_SIDE_EFFECTS: TypedKey<TextList> = TypedKey::optional(
    &["tools_without_side_effects"],
    shape::texts(&ValueShape::Text),
    "Tools that change nothing outside, whatever `side_effects` says.",
    Harmless,
)
.with_default("[]");

pub(crate) const TIMEOUT_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "Timeout of a call, in seconds.",
    Harmless,
)
.with_default("120");

pub(crate) const SECURITY: TypedKey<Section> = TypedKey::optional(
    &["security"],
    shape::section(&server_security::SECURITY),
    "Allowed programs and addresses.",
    Harmless,
);

/// One server.
pub static MCP_SERVER: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[]",
    doc: "An MCP server. A found config, not named with `--config`, cannot have any. See \
          [mcp.md](mcp.md).",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        NAME.row(),
        TYPE.row(),
        COMMAND.row(),
        ARGS.row(),
        ENV.row(),
        CWD.row(),
        RUN_IN.row(),
        IMAGE.row(),
        NETWORK.row(),
        SHARED.row(),
        REQUIRED.row(),
        URL.row(),
        HEADERS.row(),
        OAUTH.row(),
        ALLOWED_TOOLS.row(),
        EXCLUDE_TOOLS.row(),
        TOOLS.row(),
        PERMISSION.row(),
        CONTENT_ARGUMENTS.row(),
        SIDE_EFFECTS.row(),
        TOOLS_WITHOUT_SIDE_EFFECTS.row(),
        TIMEOUT_SECONDS.row(),
        SECURITY.row(),
        ConfigKey::unsupported(
            &["defer_loading", "allowed_callers"],
            ValueShape::Any,
            "the model is offered all its tools from the start, and calls them one by one",
            IgnoredEffect::Convenience,
        )
        .with_default("false"),
        ConfigKey::unsupported(
            &["description"],
            ValueShape::Text,
            "models read the server's own descriptions of its tools",
            IgnoredEffect::Convenience,
        ),
    ],
};
