//! The keys of `permissions`: what is denied, needs approval or is allowed, in addition to the
//! grants.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::{ConfigKey, IgnoredEffect, KeySection, UnknownKeys, ValueShape};

/// The documentation of `permissions`, wherever it can be used.
pub(super) const DOC: &str = "Calls that are denied or need approval, within the grants. Rules of \
                              the agent, its backend, `orchestrator` and the top of the file are \
                              combined.";

/// The rules that deny and that ask.
pub static PERMISSIONS: KeySection = KeySection {
    path: "permissions",
    doc: "Rules about calls; see `docs/rules.md` for their syntax and scope. Rules only restrict \
          the grants. `deny` takes precedence over `ask`, and `ask` over `allow`.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["deny"],
            ValueShape::List(&ValueShape::Verbatim),
            "Denied calls: `command(git push *)`, `read_file(GLOB)`, `write_file(GLOB)`, \
             `mcp(server/tool)`, `tool(NAME)`.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["ask"],
            ValueShape::List(&ValueShape::Verbatim),
            "Calls that need approval. Without an answer they are denied.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["allow"],
            ValueShape::List(&ValueShape::Verbatim),
            "Calls that need no approval, for readers and for `massgen explain`. It grants nothing \
             and does not override `ask`: calls without a rule are allowed anyway, within the \
             grants.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["examples"],
            ValueShape::List(&ValueShape::Verbatim),
            "Calls and their expected decision, such as `- write_file(src/x.lock): deny`. A \
             different decision is an error.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["ask_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Timeout of an approval request in seconds, 300 by default; the call is then denied. \
             The shortest of several applies.",
            Harmless,
        ),
        ConfigKey::served(
            &["enabled"],
            ValueShape::Flag,
            "`false` disables the rules next to it.",
            Harmless,
        )
        .with_default("true"),
        ConfigKey::served(
            &["role"],
            ValueShape::OneOf(&["read-only", "researcher", "read-write", "implementer"]),
            "What is denied in addition to the rules: `read-only` and `researcher` deny writing \
             files and running commands and programs. The others deny nothing.",
            Harmless,
        ),
        ConfigKey::unserved(
            &["roles", "mode", "risk", "risk_tiers"],
            ValueShape::Any,
            "write the rules as `deny` and `ask`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unserved(
            &["approval", "approvals", "provider", "max_consecutive_auto"],
            ValueShape::Any,
            "write `ask`; approval requests go to the terminal or to `--approval-socket`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unserved(
            &["audit", "audit_log", "ledger"],
            ValueShape::Any,
            "every call and every answer is in `events.jsonl` of the run",
            IgnoredEffect::Cosmetic,
        ),
    ],
};
