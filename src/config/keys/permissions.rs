//! The keys of `permissions`: what is denied, needs approval or is allowed, in addition to the
//! grants.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::shape::{self, Flag, Integer, NodeList, Section, Text};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape, permission_rules,
};

pub(crate) const KEY: TypedKey<Section> = TypedKey::optional(
    &["permissions"],
    shape::section(&PERMISSIONS),
    "Calls that are denied or need approval, within the grants. Rules of \
     the agent, its backend, `orchestrator` and the top of the file are \
     combined.",
    Harmless,
);

pub(crate) const DENY: TypedKey<NodeList> = TypedKey::optional(
    &["deny"],
    shape::nodes(&ValueShape::Verbatim),
    "Denied calls: `command(git push *)`, `read_file(GLOB)`, `write_file(GLOB)`, \
     `mcp(server/tool)`, `tool(NAME)`.",
    Harmless,
)
.with_default("[]");

pub(crate) const ASK: TypedKey<NodeList> = TypedKey::optional(
    &["ask"],
    shape::nodes(&ValueShape::Verbatim),
    "Calls that need approval. Without an answer they are denied.",
    Harmless,
)
.with_default("[]");

pub(crate) const ALLOW: TypedKey<NodeList> = TypedKey::optional(
    &["allow"],
    shape::nodes(&ValueShape::Verbatim),
    "Calls that need no approval, for readers and for `massgen explain`. It grants nothing \
     and does not override `ask`: calls without a rule are allowed anyway, within the \
     grants.",
    Harmless,
)
.with_default("[]");

pub(crate) const EXAMPLES: TypedKey<NodeList> = TypedKey::optional(
    &["examples"],
    shape::nodes(&ValueShape::Verbatim),
    "Calls and their expected decision, such as `- write_file(src/x.lock): deny`. A \
     different decision is an error.",
    Harmless,
)
.with_default("[]");

pub(crate) const ASK_TIMEOUT_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["ask_timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "Timeout of an approval request in seconds, 300 by default; the call is then denied. \
     The shortest of several applies.",
    Harmless,
);

pub(crate) const ENABLED: TypedKey<Flag> = TypedKey::optional(
    &["enabled"],
    shape::flag(),
    "`false` disables the rules next to it.",
    Harmless,
)
.with_default("true");

pub(crate) const RULES: TypedKey<Section> = TypedKey::optional(
    &["rules"],
    shape::section(&permission_rules::PERMISSION_RULES),
    "The same lists as MassGen writes them: `*` at the end of a pattern of commands also matches \
     further words. With it, `automation_default` is `risk-based` unless it is set.",
    Harmless,
);

pub(crate) const AUTOMATION_DEFAULT: TypedKey<Text> = TypedKey::optional(
    &["automation_default"],
    shape::one_of(&["risk-based", "deny-all", "allow-all"]),
    "Which calls need approval in addition to the rules: with `risk-based`, commands that MassGen \
     considers dangerous, such as `sudo`, `rm -r`, `git push --force` and `curl`; with \
     `deny-all`, all commands and all calls of MCP servers; with `allow-all`, none. Calls \
     that `ask` names need approval in any case.",
    Harmless,
);

pub(crate) const ROLE: TypedKey<Text> = TypedKey::optional(
    &["role"],
    shape::one_of(&["read-only", "researcher", "read-write", "implementer"]),
    "What is denied in addition to the rules: `read-only` and `researcher` deny writing \
     files and running commands and programs. The others deny nothing.",
    Harmless,
);

/// The rules that deny and that ask.
pub static PERMISSIONS: KeySection = KeySection {
    path: "permissions",
    doc: "Rules about calls; see `docs/rules.md` for their syntax and scope. Rules only restrict \
          the grants. `deny` takes precedence over `ask`, and `ask` over `allow`.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        DENY.row(),
        ASK.row(),
        ALLOW.row(),
        EXAMPLES.row(),
        ASK_TIMEOUT_SECONDS.row(),
        ENABLED.row(),
        ROLE.row(),
        RULES.row(),
        AUTOMATION_DEFAULT.row(),
        ConfigKey::unsupported(
            &["roles", "mode", "risk", "risk_tiers"],
            ValueShape::Any,
            "write the rules as `deny` and `ask`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unsupported(
            &["approval", "approvals", "provider", "max_consecutive_auto"],
            ValueShape::Any,
            "write `ask`; approval requests go to the terminal or to `--approval-socket`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unsupported(
            &["audit", "audit_log", "ledger"],
            ValueShape::Any,
            "every call and every answer is in `events.jsonl` of the run",
            IgnoredEffect::Convenience,
        ),
    ],
};
