//! The keys of `hooks`: the user's commands that run on events of agents.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Named};
use crate::config::keys::{ConfigKey, KeySection, UnknownKeys, ValueShape, value_rules};
use crate::hooks::TIMEOUT_SECONDS_MAX;

/// The documentation of `hooks`, wherever it can be used.
pub(super) const DOC: &str = "Commands of yours that are asked about what agents do, and told of it. \
                              Those of the agent, of its backend, of `orchestrator` and at the top of \
                              the file add up.";

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
    doc: "Hooks by their event, in the form of Claude Code; `docs/hooks.md` tells what they read and \
          what their answers do. Text in the place of a group is the command of a hook for all tools. \
          A config that massgen has found and you have not named with `--config` cannot have any.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["PreToolUse"],
            GROUPS,
            "Before a call of a tool is carried out that the grants and rules allow. One that denies, \
             or fails, keeps it from happening.", ByValue(value_rules::hook),)
        .with_default("[]"),
        ConfigKey::served(
            &["PostToolUse"],
            GROUPS,
            "After a call of a tool was carried out.", ByValue(value_rules::hook),)
        .with_default("[]"),
        ConfigKey::served(
            &["AnswerSubmitted"],
            GROUPS,
            "Before an answer counts. One that denies, or fails, refuses it.", ByValue(value_rules::hook),)
        .with_default("[]"),
        ConfigKey::served(
            &["VoteCast"],
            GROUPS,
            "Before a vote counts. One that denies, or fails, refuses it.", ByValue(value_rules::hook),)
        .with_default("[]"),
        ConfigKey::served(
            &["BeforeDelivery"],
            GROUPS,
            "Before files are delivered. One that denies, or fails, leaves all of them for \
             `massgen apply`.", ByValue(value_rules::hook),)
        .with_default("[]"),
        ConfigKey::served(&["AfterDelivery"], GROUPS, "After the delivery.", ByValue(value_rules::hook),).with_default("[]"),
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
            "A regular expression for the whole name of a tool, such as `mcp__git__.*`. `Bash`, `Read`, \
             `Write`, `Edit`, `Grep`, `Glob` and `LS` stand for what does the same here. Without \
             it, and as `*`, all tools.", Harmless,)
        .with_default("'*'"),
        ConfigKey::required(
            &["hooks"],
            ValueShape::List(&ValueShape::TextOr(&HOOK)),
            "The hooks. Text is the command alone.", Harmless,),
    ],
};

/// One hook.
pub static HOOK: KeySection = KeySection {
    path: "hook",
    doc: "A command that is asked: an item of `hooks` in a group.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["type"],
            ValueShape::OneOf(&["command"]),
            "What it is; there are only commands.",
            Harmless,
        )
        .with_default("command"),
        ConfigKey::required(
            &["command"],
            ValueShape::Verbatim,
            "What is given to the shell, in the directory that massgen is started in.",
            Named("runs a command of its own"),
        ),
        ConfigKey::served(
            &["timeout"],
            ValueShape::Integer(1, SECONDS_MAX),
            "How long it may take, in seconds.",
            Harmless,
        )
        .with_default("60"),
        ConfigKey::served(
            &["network"],
            ValueShape::OneOfOrList(&["off", "on"]),
            "What it reaches of the network: nothing, everything, or hosts of these domains, as in \
             `command_line_network`.",
            Named("runs a command of its own"),
        )
        .with_default("off"),
    ],
};
