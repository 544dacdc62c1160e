//! The keys about the programs and addresses that are allowed for an MCP server.

use crate::config::keys::ForeignValue;
use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;

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
    pub static SECURITY = "agents[].backend.mcp_servers[].security";

    /// Allowed programs: interpreters and package runners; `moderate` adds `git` and `nodejs`,
    /// `permissive` adds `curl`, `wget` and any program with an absolute path.
    const LEVEL = ["level"] one_of(&["strict", "moderate", "permissive"]).with_default("strict")
        .with_foreign_values(FOREIGN_LEVELS);

    /// Whether `url` may point to this machine.
    const ALLOW_LOCALHOST = ["allow_localhost"] flag()
        .in_found(NeedsNamedConfig("sends the agents' work to a server")).with_default("false");

    /// Whether `url` may point to a private network.
    const ALLOW_PRIVATE_IPS = ["allow_private_ips"] flag()
        .in_found(NeedsNamedConfig("sends the agents' work to a server")).with_default("false");
}
