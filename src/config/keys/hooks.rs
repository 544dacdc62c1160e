//! The keys of `hooks`: the user's commands that run on events of agents.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Named};
use crate::config::keys::{ConfigKey, KeySection, UnknownKeys, ValueShape, value_rules};
use crate::hooks::TIMEOUT_SECONDS_MAX;

/// The documentation of `hooks`, wherever it can be used.
pub(super) const DOC: &str = "Commands of yours that decide about actions of agents or are \
                              notified of them. Hooks of the agent, its backend, `orchestrator` \
                              and the top of the file are combined.";

/// The longest timeout of a hook, in seconds.
const SECONDS_MAX: i64 = {
    assert!(TIMEOUT_SECONDS_MAX == 600, "the reference says it");
    600
};

/// The shape of all lists of hooks.
const GROUPS: ValueShape = ValueShape::List(&ValueShape::TextOr(&HOOK_GROUP));

/// The hooks of each event.
pub static HOOKS: KeySection = KeySection {
    path: "hooks",
    doc: "Hooks by event, in the format of Claude Code; see `docs/hooks.md` for their input and \
          output. A string instead of a group is the command of a hook for all tools. A found \
          config, not named with `--config`, cannot have any.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["PreToolUse"],
            GROUPS,
            "Before a tool call that grants and rules allow. A hook that denies or fails blocks \
             it.",
            ByValue(value_rules::hook),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["PostToolUse"],
            GROUPS,
            "After a tool call.",
            ByValue(value_rules::hook),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["AnswerSubmitted"],
            GROUPS,
            "Before an answer is accepted. A hook that denies or fails rejects it.",
            ByValue(value_rules::hook),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["VoteCast"],
            GROUPS,
            "Before a vote is accepted. A hook that denies or fails rejects it.",
            ByValue(value_rules::hook),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["BeforeDelivery"],
            GROUPS,
            "Before files are delivered. If a hook denies or fails, all of them are left for \
             `massgen apply`.",
            ByValue(value_rules::hook),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["AfterDelivery"],
            GROUPS,
            "After the delivery.",
            ByValue(value_rules::hook),
        )
        .with_default("[]"),
    ],
};

/// Hooks for the same tools.
pub static HOOK_GROUP: KeySection = KeySection {
    path: "hooks.PreToolUse[]",
    doc: "Hooks for the same tools.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["matcher"],
            ValueShape::Verbatim,
            "A regular expression for the whole name of a tool, such as `mcp__git__.*`. `Bash`, \
             `Read`, `Write`, `Edit`, `Grep`, `Glob` and `LS` match the corresponding tools of \
             massgen. Default, and for `*`: all tools.",
            Harmless,
        )
        .with_default("'*'"),
        ConfigKey::required(
            &["hooks"],
            ValueShape::List(&ValueShape::TextOr(&HOOK)),
            "The hooks. A string is the command alone.",
            Harmless,
        ),
    ],
};

/// One hook.
pub static HOOK: KeySection = KeySection {
    path: "hook",
    doc: "A hook command: an item of `hooks` in a group.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["type"],
            ValueShape::OneOf(&["command"]),
            "The kind of hook; only commands exist.",
            Harmless,
        )
        .with_default("command"),
        ConfigKey::required(
            &["command"],
            ValueShape::Verbatim,
            "The shell command, run in the directory in which massgen is started.",
            Named("runs its own command"),
        ),
        ConfigKey::served(
            &["timeout"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Timeout in seconds.",
            Harmless,
        )
        .with_default("60"),
        ConfigKey::served(
            &["network"],
            ValueShape::OneOfOrList(&["off", "on"]),
            "Its network access: none, full, or the hosts of these domains, as in \
             `command_line_network`.",
            Named("runs its own command"),
        )
        .with_default("off"),
    ],
};
