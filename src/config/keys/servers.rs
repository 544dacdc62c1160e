//! The keys of an MCP server.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Named};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, UnknownKeys, ValueShape, value_rules,
};

/// The servers of one agent.
pub(super) const OF_AGENT: ConfigKey = ConfigKey::served(
    &["mcp_servers"],
    ValueShape::Named(&MCP_SERVER),
    "MCP servers of this agent: a list of mappings with `name`, or a mapping of names. They \
     require `cwd`. An entry here replaces one of the same name at the top of the file.",
    ByValue(value_rules::servers),
);
/// The servers of all agents.
pub(super) const OF_ALL: ConfigKey = ConfigKey::served(
    &["mcp_servers"],
    ValueShape::Named(&MCP_SERVER),
    "MCP servers of every agent with a `cwd`. Unless it is `shared`, each agent has its own \
     instance of a program.",
    ByValue(value_rules::servers),
);

/// One server.
pub static MCP_SERVER: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[]",
    doc: "An MCP server. A found config, not named with `--config`, cannot have any. See \
          [mcp.md](mcp.md).",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["name"],
            ValueShape::Text,
            "Letters, digits, `_` and `-`. Its tools are called `mcp__NAME__TOOL`.",
            Harmless,
        ),
        ConfigKey::served(
            &["type"],
            ValueShape::OneOf(&["stdio", "streamable-http", "http", "sse"]),
            "The transport: a program that massgen starts, or a remote server (`http` is \
             `streamable-http`). Default: from `url` or `command`. `sse` is the older protocol, \
             which is also the fallback for servers without `streamable-http`.",
            Harmless,
        ),
        ConfigKey::served(
            &["command"],
            ValueShape::Text,
            "The program of a `stdio` server, or several words with its first arguments.",
            Named("starts a program"),
        ),
        ConfigKey::served(
            &["args"],
            ValueShape::List(&ValueShape::Text),
            "Its arguments.",
            Named("starts a program"),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["env"],
            ValueShape::Names,
            "Additional environment variables of the program: names of yours, or names with \
             values.",
            Named("starts a program"),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["cwd"],
            ValueShape::Text,
            "The working directory of the program, which must be open to the agent. Default: the \
             agent's workspace, or a private directory for a shared server.",
            Named("starts a program"),
        ),
        ConfigKey::served(
            &["network"],
            ValueShape::OneOfOrList(&["off", "on"]),
            "Network access of the program: none, full, or the hosts of these domains, as in \
             `command_line_network`.",
            Named("starts a program"),
        )
        .with_default("off"),
        ConfigKey::served(
            &["shared"],
            ValueShape::Flag,
            "Whether all agents with this server share one instance of the program. It can read \
             what all of them may read, and writes nothing. Remote servers are always shared.",
            Harmless,
        )
        .with_default("false"),
        ConfigKey::served(
            &["url"],
            ValueShape::Text,
            "The URL of a remote server.",
            Named("sends the agents' work to a server"),
        ),
        ConfigKey::served(
            &["headers"],
            ValueShape::Names,
            "HTTP headers of every request, as a mapping.",
            Named("sends the agents' work to a server"),
        ),
        ConfigKey::served(
            &["oauth"],
            ValueShape::Mapping(&OAUTH),
            "How massgen signs in with `massgen mcp login`, if the server requires it.",
            Named("sends the agents' work to a server"),
        ),
        ConfigKey::served(
            &["allowed_tools"],
            ValueShape::List(&ValueShape::Text),
            "The only tools to use, by the server's names.",
            Harmless,
        ),
        ConfigKey::served(
            &["exclude_tools"],
            ValueShape::List(&ValueShape::Text),
            "Tools not to use.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["tools"],
            ValueShape::Names,
            "A mapping of tools, by the server's names, to `allow`, `ask` or `deny`: the same as \
             rules `mcp(server/tool)` in `permissions`. Denied tools are not offered.",
            Harmless,
        ),
        ConfigKey::served(
            &["permission"],
            ValueShape::OneOf(&["read", "write"]),
            "Access of its tools to paths in their arguments. The program of a server with `read` \
             cannot write to the agent's directories.",
            Harmless,
        )
        .with_default("read"),
        ConfigKey::served(
            &["content_arguments"],
            ValueShape::List(&ValueShape::Text),
            "Arguments that are content and never treated as paths: `argument`, or \
             `tool.argument`.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["side_effects"],
            ValueShape::OneOf(&["some", "none"]),
            "Whether its tools change anything outside the agent's directories. In planning mode, \
             calls of tools with side effects wait for the final phase.",
            Harmless,
        )
        .with_default("some")
        .with_former_name("outside_effects"),
        ConfigKey::served(
            &["tools_without_side_effects"],
            ValueShape::List(&ValueShape::Text),
            "Tools that change nothing outside, whatever `side_effects` says.",
            Harmless,
        )
        .with_default("[]")
        .with_former_name("tools_without_outside_effects"),
        ConfigKey::served(
            &["timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Timeout of a call, in seconds.",
            Harmless,
        )
        .with_default("120"),
        ConfigKey::served(
            &["security"],
            ValueShape::Mapping(&SECURITY),
            "Allowed programs and addresses.",
            Harmless,
        ),
        ConfigKey::unserved(
            &["description"],
            ValueShape::Text,
            "models read the server's own descriptions of its tools",
            IgnoredEffect::Cosmetic,
        ),
    ],
};

/// How massgen signs in to a server.
pub static OAUTH: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[].oauth",
    doc: "How massgen signs in to a remote server. Not needed if the server supports dynamic \
          client registration.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["client_id"],
            ValueShape::Text,
            "The client id, if massgen was registered manually.",
            Named("sends the agents' work to a server"),
        ),
        ConfigKey::served(
            &["client_secret"],
            ValueShape::Text,
            "The client secret, if there is one; preferably `${VARIABLE}`.",
            Named("sends the agents' work to a server"),
        ),
        ConfigKey::served(
            &["scopes"],
            ValueShape::List(&ValueShape::Text),
            "The scopes to request. Default: those that the server announces.",
            Named("sends the agents' work to a server"),
        )
        .with_default("[]"),
    ],
};

/// The programs and addresses that are allowed for a server.
pub static SECURITY: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[].security",
    doc: "Allowed programs and addresses. Programs always run in the agent's sandbox.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["level"],
            ValueShape::OneOf(&["strict", "moderate", "permissive"]),
            "Allowed programs: interpreters and package runners; `moderate` adds `git` and \
             `nodejs`, `permissive` adds `curl`, `wget` and any program with an absolute path.",
            Harmless,
        )
        .with_default("strict"),
        ConfigKey::served(
            &["allow_localhost"],
            ValueShape::Flag,
            "Whether `url` may point to this machine.",
            Named("sends the agents' work to a server"),
        )
        .with_default("false"),
        ConfigKey::served(
            &["allow_private_ips"],
            ValueShape::Flag,
            "Whether `url` may point to a private network.",
            Named("sends the agents' work to a server"),
        )
        .with_default("false"),
    ],
};
