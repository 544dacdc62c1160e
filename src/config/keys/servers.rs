//! The keys of an MCP server, how massgen signs in to it, and the programs and addresses that are
//! allowed for it.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, NeedsNamedConfig};
use crate::config::keys::limits::SECONDS_MAX;
use crate::config::keys::{ForeignValue, ValueShape, value_rules};

keys! {
    /// MCP servers of this agent: a list of mappings with `name`, or a mapping of names. An entry
    /// here replaces one of the same name at the top of the file.
    const KEY = ["mcp_servers"] named_sections(&MCP_SERVER).in_found(ByValue(value_rules::servers));

    /// With `enable_code_based_tools`: the servers whose tools the model calls one by one, and not
    /// by its programs.
    const DIRECT = ["direct_mcp_servers"] texts().with_default("[]");
}

section! {
    /// An MCP server. A found config, not named with `--config`, cannot have any. See
    /// [mcp.md](mcp.md).
    pub static MCP_SERVER = "agents[].backend.mcp_servers[]";

    /// Letters, digits, `_` and `-`. Its tools are called `mcp__NAME__TOOL`.
    const NAME = ["name"] text();

    /// The transport: a program that massgen starts, or a remote server (`http` is
    /// `streamable-http`). Default: from `url` or `command`. HTTP+SSE, the older transport (`sse`),
    /// is not supported.
    const TYPE = ["type"] one_of(&["stdio", "streamable-http", "http"]);

    /// The program of a `stdio` server, or several words with its first arguments.
    const COMMAND = ["command"] text().in_found(NeedsNamedConfig("starts a program"));

    /// Its arguments.
    const ARGS = ["args"] texts().in_found(NeedsNamedConfig("starts a program")).with_default("[]");

    /// Additional environment variables of the program: names of yours, or names with values.
    const ENV = ["env"] names_or_pairs().in_found(NeedsNamedConfig("starts a program"))
        .with_default("[]");

    /// The working directory of the program, which must be open to the agent. Default: the agent's
    /// workspace, or a private directory if the agent has none, the server is shared, or it has
    /// `env` or `network`.
    const CWD = ["cwd"] text().in_found(NeedsNamedConfig("starts a program"));

    /// Where the program runs: in massgen's sandbox on this machine, or in a container of its own
    /// on the engine of the agent's commands, which need `command_line_execution_mode: docker`. The
    /// container has the network of `command_line_docker_network_mode`.
    const RUN_IN = ["run_in"] one_of(&["sandbox", "container"])
        .in_found(NeedsNamedConfig("starts a program")).with_default("sandbox");

    /// The image of its container. Default: `command_line_docker_image` of the agent.
    const IMAGE = ["image"] text().in_found(NeedsNamedConfig("starts a program"));

    /// Network access of the program: none, full, or the hosts of these domains, as in
    /// `command_line_network`.
    const NETWORK = ["network"] one_of_or_list(&["off", "on"])
        .in_found(NeedsNamedConfig("starts a program")).with_default("off");

    /// Whether all agents with this server share one instance of the program. It can read what all
    /// of them may read, and writes nothing. Remote servers are always shared.
    const SHARED = ["shared"] flag().with_default("false");

    /// Whether a run ends if the server does not start or does not list its tools. Otherwise a
    /// warning says so, and the agents continue without its tools.
    const REQUIRED = ["required"] flag().with_default("false");

    /// The URL of a remote server.
    const URL = ["url"] text().in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// HTTP headers of every request, as a mapping.
    const HEADERS = ["headers"] names_or_pairs()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// How massgen gets a token, if the server requires one.
    const OAUTH = ["oauth"] section(&SERVER_OAUTH)
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// The only tools to use, by the server's names.
    const ALLOWED_TOOLS = ["allowed_tools"] texts();

    /// Tools not to use.
    const EXCLUDE_TOOLS = ["exclude_tools"] texts().with_default("[]");

    /// A mapping of tools, by the server's names, to `allow`, `ask` or `deny`: the same as rules
    /// `mcp(server/tool)` in `permissions`. Denied tools are not offered.
    const TOOLS = ["tools"] names_or_pairs();

    /// Access of its tools to paths in their arguments. The program of a server with `read` cannot
    /// write to the agent's directories.
    const PERMISSION = ["permission"] one_of(&["read", "write"]).with_default("read");

    /// Arguments that are content and never treated as paths: `argument`, or `tool.argument`.
    const CONTENT_ARGUMENTS = ["content_arguments"] texts().with_default("[]");

    /// Whether its tools change anything outside the agent's directories. In planning mode, calls
    /// of tools with side effects wait for the final phase.
    const SIDE_EFFECTS = ["side_effects"] one_of(&["some", "none"]).with_default("some");

    /// Tools that change nothing outside, whatever `side_effects` says.
    const TOOLS_WITHOUT_SIDE_EFFECTS = ["tools_without_side_effects"] texts().with_default("[]");

    /// Timeout of a call, in seconds.
    const TIMEOUT_SECONDS = ["timeout_seconds"] integer(1, SECONDS_MAX).with_default("120");

    /// Allowed programs and addresses.
    const SECURITY = ["security"] section(&SERVER_SECURITY);
    unsupported ["defer_loading", "allowed_callers"] Convenience.with_default("false"),
        "the model is offered all its tools from the start, and calls them one by one";
    unsupported ["description"] Convenience.with_shape(ValueShape::Text),
        "models read the server's own descriptions of its tools";
}

section! {
    /// How massgen signs in to a remote server. Not needed if the server supports dynamic client
    /// registration.
    pub static SERVER_OAUTH = "agents[].backend.mcp_servers[].oauth";

    /// The client id, if massgen was registered manually.
    const CLIENT_ID = ["client_id"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// The client secret, if there is one; preferably `${VARIABLE}`.
    const CLIENT_SECRET = ["client_secret"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    refused ["grant_type", "private_key", "assertion", "assertion_file"],
        "massgen gets no token without a user: sign in with `massgen mcp login`, or add a token to \
         `headers`";

    /// The issuer URL of the authorization server that knows massgen, the only one that is used.
    /// Default: the one that the server names, which receives `client_secret` only if it has the
    /// origin of `url`.
    const ISSUER = ["issuer"] text()
        .in_found(NeedsNamedConfig("sends the agents' work to a server"));

    /// The scopes to request. Default: those that the server announces.
    const SCOPES = ["scopes"] texts()
        .in_found(NeedsNamedConfig("sends the agents' work to a server")).with_default("[]");
}

/// Levels that MassGen accepts and reads as the strictest.
const FOREIGN_LEVELS: &[ForeignValue] = &[
    ForeignValue {
        massgen_value: "high",
        read_as: "strict",
        doc: "there is no such level, and the strictest one applies, as in MassGen",
    },
    ForeignValue {
        massgen_value: "medium",
        read_as: "strict",
        doc: "there is no such level, and the strictest one applies, as in MassGen",
    },
    ForeignValue {
        massgen_value: "low",
        read_as: "strict",
        doc: "there is no such level, and the strictest one applies, as in MassGen",
    },
];

section! {
    /// Allowed programs and addresses. Programs always run in the agent's sandbox.
    pub static SERVER_SECURITY = "agents[].backend.mcp_servers[].security";

    /// Allowed programs: interpreters and package runners; `moderate` adds `git` and `nodejs`,
    /// `permissive` adds `curl`, `wget` and any program with an absolute path.
    const SECURITY_LEVEL = ["level"] one_of(&["strict", "moderate", "permissive"]).with_default("strict")
        .with_foreign_values(FOREIGN_LEVELS);

    /// Whether `url` may point to this machine.
    const ALLOW_LOCALHOST = ["allow_localhost"] flag()
        .in_found(NeedsNamedConfig("sends the agents' work to a server")).with_default("false");

    /// Whether `url` may point to a private network.
    const ALLOW_PRIVATE_IPS = ["allow_private_ips"] flag()
        .in_found(NeedsNamedConfig("sends the agents' work to a server")).with_default("false");
}
