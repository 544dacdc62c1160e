//! Owns the keys of a foreign server of tools.

use crate::config::keys::found::FoundUse::{ByValue, Harmless, Named};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::{Ignored, Key, Others, Section, Shape, values};

/// The servers of one agent.
pub(super) const OF_AGENT: Key = Key::served(
    &["mcp_servers"],
    Shape::Named(&MCP_SERVER),
    "Servers whose tools this agent may use: a list of mappings with `name`, or a mapping of names. \
     They need `cwd`. One that the top of the file names too counts as it is written here.",
    ByValue(values::servers),
);
/// The servers of all agents.
pub(super) const OF_ALL: Key = Key::served(
    &["mcp_servers"],
    Shape::Named(&MCP_SERVER),
    "Servers whose tools every agent with a `cwd` may use. Each agent has its own instance of a \
     program that is not `shared`.",
    ByValue(values::servers),
);

/// One server.
pub static MCP_SERVER: Section = Section {
    path: "agents[].backend.mcp_servers[]",
    doc: "A server that speaks the Model Context Protocol. A config that massgen has found and you \
          have not named with `--config` cannot name one. See [mcp.md](mcp.md).",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["name"],
            Shape::Text,
            "Letters, digits, `_` and `-`. Its tools are called `mcp__NAME__TOOL`.", Harmless,),
        Key::served(
            &["type"],
            Shape::OneOf(&["stdio", "streamable-http", "http", "sse"]),
            "How it is reached: a program that massgen starts, or a server on the network (`http` is \
             `streamable-http`). Without it, `url` or `command` says so. `sse` is the older protocol, \
             in which a server that does not know `streamable-http` is tried anyway.", Harmless,),
        Key::served(
            &["command"],
            Shape::Text,
            "The program of a `stdio` server, or several words with its first arguments.", Named("starts a program"),),
        Key::served(&["args"], Shape::List(&Shape::Text), "Its arguments.", Named("starts a program"),).or("[]"),
        Key::served(
            &["env"],
            Shape::Names,
            "Variables that the program has besides the usual ones: names of yours, or names with \
             values.", Named("starts a program"),)
        .or("[]"),
        Key::served(
            &["cwd"],
            Shape::Text,
            "The directory that the program begins in, which has to be open to the agent. The \
             agent's workspace without it, and a private directory for one that is shared.", Named("starts a program"),),
        Key::served(
            &["network"],
            Shape::OneOfOrList(&["off", "on"]),
            "What the program reaches of the network: nothing, everything, or hosts of these domains, \
             as in `command_line_network`.", Named("starts a program"),)
        .or("off"),
        Key::served(
            &["shared"],
            Shape::Flag,
            "Whether all agents with this server share one instance of the program. It reads what all \
             of them may read, and writes nowhere. A server on the network is always shared.", Harmless,)
        .or("false"),
        Key::served(
            &["url"],
            Shape::Text,
            "The address of a server on the network.", Named("sends what agents work on to a server"),),
        Key::served(
            &["headers"],
            Shape::Names,
            "A mapping of headers that every request carries to their texts.", Named("sends what agents work on to a server"),),
        Key::served(
            &["oauth"],
            Shape::Mapping(&OAUTH),
            "How massgen signs in where the server wants that, with `massgen mcp login`.", Named("sends what agents work on to a server"),),
        Key::served(
            &["allowed_tools"],
            Shape::List(&Shape::Text),
            "Only these of its tools, as the server calls them.", Harmless,),
        Key::served(
            &["exclude_tools"],
            Shape::List(&Shape::Text),
            "Never these of its tools.", Harmless,)
        .or("[]"),
        Key::served(
            &["tools"],
            Shape::Names,
            "A mapping of single tools, as the server calls them, to `allow`, `ask` or `deny`: the same \
             as rules `mcp(server/tool)` in `permissions`. What is denied is not offered either.", Harmless,),
        Key::served(
            &["permission"],
            Shape::OneOf(&["read", "write"]),
            "What its tools may do at the paths that they are given. The program of a server with \
             `read` writes to none of the agent's directories.", Harmless,)
        .or("read"),
        Key::served(
            &["content_arguments"],
            Shape::List(&Shape::Text),
            "Arguments that are content, so that nothing in them is taken for a path: `argument`, or \
             `tool.argument`.", Harmless,)
        .or("[]"),
        Key::served(
            &["outside_effects"],
            Shape::OneOf(&["some", "none"]),
            "Whether its tools change anything outside the agent's directories. Where agents only \
             plan, calls of one that does wait for the final phase.", Harmless,)
        .or("some"),
        Key::served(
            &["tools_without_outside_effects"],
            Shape::List(&Shape::Text),
            "Tools that change nothing outside, whatever `outside_effects` says.", Harmless,)
        .or("[]"),
        Key::served(
            &["timeout_seconds"],
            Shape::Integer(1, SECONDS_MAX),
            "How long one call may take.", Harmless,)
        .or("120"),
        Key::served(
            &["security"],
            Shape::Mapping(&SECURITY),
            "What may be started and reached.", Harmless,),
        Key::unserved(
            &["description"],
            Shape::Text,
            "models read what the server says of its tools", Ignored::Looks,),
    ],
};

/// How massgen signs in at a server.
pub static OAUTH: Section = Section {
    path: "agents[].backend.mcp_servers[].oauth",
    doc: "How massgen signs in at a server on the network. Nothing of it is needed where the server \
          takes programs that register themselves.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["client_id"],
            Shape::Text,
            "What massgen is known as there, if it was registered by hand.",
            Named("sends what agents work on to a server"),
        ),
        Key::served(
            &["client_secret"],
            Shape::Text,
            "What proves that, if anything does: best `${VARIABLE}`.",
            Named("sends what agents work on to a server"),
        ),
        Key::served(
            &["scopes"],
            Shape::List(&Shape::Text),
            "The rights that are asked for. Without any, those that the server names.",
            Named("sends what agents work on to a server"),
        )
        .or("[]"),
    ],
};

/// What may be started and reached for a server.
pub static SECURITY: Section = Section {
    path: "agents[].backend.mcp_servers[].security",
    doc: "What may be started and reached. Whatever this says, programs run in the agent's sandbox.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["level"],
            Shape::OneOf(&["strict", "moderate", "permissive"]),
            "Which programs a server may be: interpreters and what starts packages; `moderate` adds \
             `git` and `nodejs`, `permissive` adds `curl`, `wget` and any program that is named by its \
             whole path.", Harmless,)
        .or("strict"),
        Key::served(
            &["allow_localhost"],
            Shape::Flag,
            "Whether `url` may lead to this machine.", Named("sends what agents work on to a server"),)
        .or("false"),
        Key::served(
            &["allow_private_ips"],
            Shape::Flag,
            "Whether `url` may lead into a private network.", Named("sends what agents work on to a server"),)
        .or("false"),
    ],
};
