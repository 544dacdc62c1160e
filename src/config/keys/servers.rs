//! The keys of an MCP server.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Named};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::shape::{
    self, Flag, Integer, NamedSections, NamesOrPairs, Section, Text, TextList, TextOrList,
};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, ServedKey, UnknownKeys, ValueShape, oauth,
    server_security, value_rules,
};

/// The servers of an agent or of all agents.
pub(crate) const KEY: ServedKey<NamedSections> = ServedKey::optional(
    &["mcp_servers"],
    shape::named_sections(&MCP_SERVER),
    "Servers whose tools this agent may use: a list of mappings with `name`, or a mapping of names. \
     They need `cwd`. One that the top of the file names too counts as it is written here.",
    ByValue(value_rules::servers),
);

pub(crate) const NAME: ServedKey<Text> = ServedKey::optional(
    &["name"],
    shape::text(),
    "Letters, digits, `_` and `-`. Its tools are called `mcp__NAME__TOOL`.",
    Harmless,
);

pub(crate) const TYPE: ServedKey<Text> = ServedKey::optional(
    &["type"],
    shape::one_of(&["stdio", "streamable-http", "http", "sse"]),
    "How it is reached: a program that massgen starts, or a server on the network (`http` is \
     `streamable-http`). Without it, `url` or `command` says so. `sse` is the older protocol, \
     in which a server that does not know `streamable-http` is tried anyway.",
    Harmless,
);

pub(crate) const COMMAND: ServedKey<Text> = ServedKey::optional(
    &["command"],
    shape::text(),
    "The program of a `stdio` server, or several words with its first arguments.",
    Named("starts a program"),
);

pub(crate) const ARGS: ServedKey<TextList> = ServedKey::optional(
    &["args"],
    shape::texts(&ValueShape::Text),
    "Its arguments.",
    Named("starts a program"),
)
.with_default("[]");

pub(crate) const ENV: ServedKey<NamesOrPairs> = ServedKey::optional(
    &["env"],
    shape::names_or_pairs(),
    "Variables that the program has besides the usual ones: names of yours, or names with \
     values.",
    Named("starts a program"),
)
.with_default("[]");

pub(crate) const CWD: ServedKey<Text> = ServedKey::optional(
    &["cwd"],
    shape::text(),
    "The directory that the program begins in, which has to be open to the agent. The \
     agent's workspace without it, and a private directory for one that is shared.",
    Named("starts a program"),
);

pub(crate) const NETWORK: ServedKey<TextOrList> = ServedKey::optional(
    &["network"],
    shape::one_of_or_list(&["off", "on"]),
    "What the program reaches of the network: nothing, everything, or hosts of these domains, \
     as in `command_line_network`.",
    Named("starts a program"),
)
.with_default("off");

pub(crate) const SHARED: ServedKey<Flag> = ServedKey::optional(
    &["shared"],
    shape::flag(),
    "Whether all agents with this server share one instance of the program. It reads what all \
     of them may read, and writes nowhere. A server on the network is always shared.",
    Harmless,
)
.with_default("false");

pub(crate) const URL: ServedKey<Text> = ServedKey::optional(
    &["url"],
    shape::text(),
    "The address of a server on the network.",
    Named("sends what agents work on to a server"),
);

pub(crate) const HEADERS: ServedKey<NamesOrPairs> = ServedKey::optional(
    &["headers"],
    shape::names_or_pairs(),
    "A mapping of headers that every request carries to their texts.",
    Named("sends what agents work on to a server"),
);

pub(crate) const OAUTH: ServedKey<Section> = ServedKey::optional(
    &["oauth"],
    shape::section(&oauth::OAUTH),
    "How massgen signs in where the server wants that, with `massgen mcp login`.",
    Named("sends what agents work on to a server"),
);

pub(crate) const ALLOWED_TOOLS: ServedKey<TextList> = ServedKey::optional(
    &["allowed_tools"],
    shape::texts(&ValueShape::Text),
    "Only these of its tools, as the server calls them.",
    Harmless,
);

pub(crate) const EXCLUDE_TOOLS: ServedKey<TextList> = ServedKey::optional(
    &["exclude_tools"],
    shape::texts(&ValueShape::Text),
    "Never these of its tools.",
    Harmless,
)
.with_default("[]");

pub(crate) const TOOLS: ServedKey<NamesOrPairs> = ServedKey::optional(
    &["tools"],
    shape::names_or_pairs(),
    "A mapping of single tools, as the server calls them, to `allow`, `ask` or `deny`: the same \
     as rules `mcp(server/tool)` in `permissions`. What is denied is not offered either.",
    Harmless,
);

pub(crate) const PERMISSION: ServedKey<Text> = ServedKey::optional(
    &["permission"],
    shape::one_of(&["read", "write"]),
    "What its tools may do at the paths that they are given. The program of a server with \
     `read` writes to none of the agent's directories.",
    Harmless,
)
.with_default("read");

pub(crate) const CONTENT_ARGUMENTS: ServedKey<TextList> = ServedKey::optional(
    &["content_arguments"],
    shape::texts(&ValueShape::Text),
    "Arguments that are content, so that nothing in them is taken for a path: `argument`, or \
     `tool.argument`.",
    Harmless,
)
.with_default("[]");

pub(crate) const OUTSIDE_EFFECTS: ServedKey<Text> = ServedKey::optional(
    &["outside_effects"],
    shape::one_of(&["some", "none"]),
    "Whether its tools change anything outside the agent's directories. Where agents only \
     plan, calls of one that does wait for the final phase.",
    Harmless,
)
.with_default("some");

pub(crate) const TOOLS_WITHOUT_OUTSIDE_EFFECTS: ServedKey<TextList> = ServedKey::optional(
    &["tools_without_outside_effects"],
    shape::texts(&ValueShape::Text),
    "Tools that change nothing outside, whatever `outside_effects` says.",
    Harmless,
)
.with_default("[]");

pub(crate) const TIMEOUT_SECONDS: ServedKey<Integer> = ServedKey::optional(
    &["timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "How long one call may take.",
    Harmless,
)
.with_default("120");

pub(crate) const SECURITY: ServedKey<Section> = ServedKey::optional(
    &["security"],
    shape::section(&server_security::SECURITY),
    "What may be started and reached.",
    Harmless,
);

/// One server.
pub static MCP_SERVER: KeySection = KeySection {
    path: "agents[].backend.mcp_servers[]",
    doc: "A server that speaks the Model Context Protocol. A config that massgen has found and you \
          have not named with `--config` cannot name one. See [mcp.md](mcp.md).",
    others: UnknownKeys::Refused,
    keys: &[
        NAME.row(),
        TYPE.row(),
        COMMAND.row(),
        ARGS.row(),
        ENV.row(),
        CWD.row(),
        NETWORK.row(),
        SHARED.row(),
        URL.row(),
        HEADERS.row(),
        OAUTH.row(),
        ALLOWED_TOOLS.row(),
        EXCLUDE_TOOLS.row(),
        TOOLS.row(),
        PERMISSION.row(),
        CONTENT_ARGUMENTS.row(),
        OUTSIDE_EFFECTS.row(),
        TOOLS_WITHOUT_OUTSIDE_EFFECTS.row(),
        TIMEOUT_SECONDS.row(),
        SECURITY.row(),
        ConfigKey::unserved(
            &["description"],
            ValueShape::Text,
            "models read what the server says of its tools",
            IgnoredEffect::Cosmetic,
        ),
    ],
};
