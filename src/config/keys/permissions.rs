//! The keys of `permissions`: what is denied, needs approval or is allowed, in addition to the
//! grants.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::shape::{self, Flag, Integer, NodeList, Section, Text};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, ServedKey, UnknownKeys, ValueShape,
};

pub(crate) const KEY: ServedKey<Section> = ServedKey::optional(
    &["permissions"],
    shape::section(&PERMISSIONS),
    "What is denied or asked before it happens, within what the grants give. \
     Those of the agent, of its backend, of `orchestrator` and at the top \
     of the file add up.",
    Harmless,
);

pub(crate) const DENY: ServedKey<NodeList> = ServedKey::optional(
    &["deny"],
    shape::nodes(&ValueShape::Verbatim),
    "Calls that do not happen: `command(git push *)`, `read_file(GLOB)`, `write_file(GLOB)`, \
     `mcp(server/tool)`, `tool(NAME)`.",
    Harmless,
)
.with_default("[]");

pub(crate) const ASK: ServedKey<NodeList> = ServedKey::optional(
    &["ask"],
    shape::nodes(&ValueShape::Verbatim),
    "Calls that a person has to agree to. Where nobody answers, they are denied.",
    Harmless,
)
.with_default("[]");

pub(crate) const ALLOW: ServedKey<NodeList> = ServedKey::optional(
    &["allow"],
    shape::nodes(&ValueShape::Verbatim),
    "Calls that are meant to go unasked, for readers and for `massgen explain`. It opens \
     nothing, and what is asked is still asked: what no rule names is allowed anyway, as far \
     as the grants go.",
    Harmless,
)
.with_default("[]");

pub(crate) const EXAMPLES: ServedKey<NodeList> = ServedKey::optional(
    &["examples"],
    shape::nodes(&ValueShape::Verbatim),
    "Calls and what the rules say of them, as `- write_file(src/x.lock): deny`. One that \
     comes out otherwise is an error.",
    Harmless,
)
.with_default("[]");

pub(crate) const ASK_TIMEOUT_SECONDS: ServedKey<Integer> = ServedKey::optional(
    &["ask_timeout_seconds"],
    shape::integer(1, SECONDS_MAX),
    "How long a question waits for its answer, 300 seconds if nothing is said; after that the \
     call is denied. The shortest of several counts.",
    Harmless,
);

pub(crate) const ENABLED: ServedKey<Flag> = ServedKey::optional(
    &["enabled"],
    shape::flag(),
    "`false` switches off the rules that stand beside it.",
    Harmless,
)
.with_default("true");

pub(crate) const ROLE: ServedKey<Text> = ServedKey::optional(
    &["role"],
    shape::one_of(&["read-only", "researcher", "read-write", "implementer"]),
    "What is denied besides the rules: with `read-only` or `researcher`, writing files and \
     running commands and programs. The others deny nothing.",
    Harmless,
);

/// The rules that deny and that ask.
pub static PERMISSIONS: KeySection = KeySection {
    path: "permissions",
    doc: "Rules about calls; `docs/rules.md` tells their forms and what they reach. A rule only lowers \
          what the grants give. What is denied is denied whatever else fits, and what is asked is \
          asked whatever is allowed.",
    others: UnknownKeys::Refused,
    keys: &[
        DENY.row(),
        ASK.row(),
        ALLOW.row(),
        EXAMPLES.row(),
        ASK_TIMEOUT_SECONDS.row(),
        ENABLED.row(),
        ROLE.row(),
        ConfigKey::unserved(
            &["roles", "mode", "risk", "risk_tiers"],
            ValueShape::Any,
            "write the rules as `deny` and `ask`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unserved(
            &["approval", "approvals", "provider", "max_consecutive_auto"],
            ValueShape::Any,
            "write `ask`; questions go to the terminal, or to the socket of `--ask-file`",
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
