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
    "Servers whose tools this agent may use: a list of mappings with `name`, or a mapping of names. \
     They need `cwd`. One that the top of the file names too counts as it is written here.",
    ByValue(value_rules::servers),
);
/// The servers of all agents.
pub(super) const OF_ALL: ConfigKey = ConfigKey::served(
    &["mcp_servers"],
    ValueShape::Named(&MCP_SERVER),
    "Servers whose tools every agent with a `cwd` may use. Each agent has its own instance of a \
     program that is not `shared`.",
    ByValue(value_rules::servers),
);

/// One server.
pub static MCP_SERVER: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[]",
    doc: "A server that speaks the Model Context Protocol. A config that massgen has found and you \
          have not named with `--config` cannot name one. See [mcp.md](mcp.md).",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["name"],
            ValueShape::Text,
            "Letters, digits, `_` and `-`. Its tools are called `mcp__NAME__TOOL`.", Harmless,),
        ConfigKey::served(
            &["type"],
            ValueShape::OneOf(&["stdio", "streamable-http", "http", "sse"]),
            "How it is reached: a program that massgen starts, or a server on the network (`http` is \
             `streamable-http`). Without it, `url` or `command` says so. `sse` is the older protocol, \
             in which a server that does not know `streamable-http` is tried anyway.", Harmless,),
        ConfigKey::served(
            &["command"],
            ValueShape::Text,
            "The program of a `stdio` server, or several words with its first arguments.", Named("starts a program"),),
        ConfigKey::served(&["args"], ValueShape::List(&ValueShape::Text), "Its arguments.", Named("starts a program"),).with_default("[]"),
        ConfigKey::served(
            &["env"],
            ValueShape::Names,
            "Variables that the program has besides the usual ones: names of yours, or names with \
             values.", Named("starts a program"),)
        .with_default("[]"),
        ConfigKey::served(
            &["cwd"],
            ValueShape::Text,
            "The directory that the program begins in, which has to be open to the agent. The \
             agent's workspace without it, and a private directory for one that is shared.", Named("starts a program"),),
        ConfigKey::served(
            &["network"],
            ValueShape::OneOfOrList(&["off", "on"]),
            "What the program reaches of the network: nothing, everything, or hosts of these domains, \
             as in `command_line_network`.", Named("starts a program"),)
        .with_default("off"),
        ConfigKey::served(
            &["shared"],
            ValueShape::Flag,
            "Whether all agents with this server share one instance of the program. It reads what all \
             of them may read, and writes nowhere. A server on the network is always shared.", Harmless,)
        .with_default("false"),
        ConfigKey::served(
            &["url"],
            ValueShape::Text,
            "The address of a server on the network.", Named("sends what agents work on to a server"),),
        ConfigKey::served(
            &["headers"],
            ValueShape::Names,
            "A mapping of headers that every request carries to their texts.", Named("sends what agents work on to a server"),),
        ConfigKey::served(
            &["oauth"],
            ValueShape::Mapping(&OAUTH),
            "How massgen signs in where the server wants that, with `massgen mcp login`.", Named("sends what agents work on to a server"),),
        ConfigKey::served(
            &["allowed_tools"],
            ValueShape::List(&ValueShape::Text),
            "Only these of its tools, as the server calls them.", Harmless,),
        ConfigKey::served(
            &["exclude_tools"],
            ValueShape::List(&ValueShape::Text),
            "Never these of its tools.", Harmless,)
        .with_default("[]"),
        ConfigKey::served(
            &["tools"],
            ValueShape::Names,
            "A mapping of single tools, as the server calls them, to `allow`, `ask` or `deny`: the same \
             as rules `mcp(server/tool)` in `permissions`. What is denied is not offered either.", Harmless,),
        ConfigKey::served(
            &["permission"],
            ValueShape::OneOf(&["read", "write"]),
            "What its tools may do at the paths that they are given. The program of a server with \
             `read` writes to none of the agent's directories.", Harmless,)
        .with_default("read"),
        ConfigKey::served(
            &["content_arguments"],
            ValueShape::List(&ValueShape::Text),
            "Arguments that are content, so that nothing in them is taken for a path: `argument`, or \
             `tool.argument`.", Harmless,)
        .with_default("[]"),
        ConfigKey::served(
            &["outside_effects"],
            ValueShape::OneOf(&["some", "none"]),
            "Whether its tools change anything outside the agent's directories. Where agents only \
             plan, calls of one that does wait for the final phase.", Harmless,)
        .with_default("some"),
        ConfigKey::served(
            &["tools_without_outside_effects"],
            ValueShape::List(&ValueShape::Text),
            "Tools that change nothing outside, whatever `outside_effects` says.", Harmless,)
        .with_default("[]"),
        ConfigKey::served(
            &["timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "How long one call may take.", Harmless,)
        .with_default("120"),
        ConfigKey::served(
            &["security"],
            ValueShape::Mapping(&SECURITY),
            "What may be started and reached.", Harmless,),
        ConfigKey::unserved(
            &["description"],
            ValueShape::Text,
            "models read what the server says of its tools", IgnoredEffect::Cosmetic,),
    ],
};

/// How massgen signs in to a server.
pub static OAUTH: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[].oauth",
    doc: "How massgen signs in at a server on the network. Nothing of it is needed where the server \
          takes programs that register themselves.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["client_id"],
            ValueShape::Text,
            "What massgen is known as there, if it was registered by hand.",
            Named("sends what agents work on to a server"),
        ),
        ConfigKey::served(
            &["client_secret"],
            ValueShape::Text,
            "What proves that, if anything does: best `${VARIABLE}`.",
            Named("sends what agents work on to a server"),
        ),
        ConfigKey::served(
            &["scopes"],
            ValueShape::List(&ValueShape::Text),
            "The rights that are asked for. Without any, those that the server names.",
            Named("sends what agents work on to a server"),
        )
        .with_default("[]"),
    ],
};

/// The programs and addresses that are allowed for a server.
pub static SECURITY: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[].security",
    doc: "What may be started and reached. Whatever this says, programs run in the agent's sandbox.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["level"],
            ValueShape::OneOf(&["strict", "moderate", "permissive"]),
            "Which programs a server may be: interpreters and what starts packages; `moderate` adds \
             `git` and `nodejs`, `permissive` adds `curl`, `wget` and any program that is named by its \
             whole path.", Harmless,)
        .with_default("strict"),
        ConfigKey::served(
            &["allow_localhost"],
            ValueShape::Flag,
            "Whether `url` may lead to this machine.", Named("sends what agents work on to a server"),)
        .with_default("false"),
        ConfigKey::served(
            &["allow_private_ips"],
            ValueShape::Flag,
            "Whether `url` may lead into a private network.", Named("sends what agents work on to a server"),)
        .with_default("false"),
    ],
};
