//! Owns the keys of `hooks`: commands of the user's that are asked about what agents do.

use crate::config::keys::found::FoundUse::{ByValue, Harmless, Named};
use crate::config::keys::{Key, Others, Section, Shape, values};
use crate::hooks::TIMEOUT_SECONDS_MAX;

/// What `hooks` does, where it may stand.
pub(super) const DOC: &str = "Commands of yours that are asked about what agents do, and told of it. \
                              Those of the agent, of its backend, of `orchestrator` and at the top of \
                              the file add up.";

/// The longest time of a hook, in seconds.
const SECONDS_MAX: i64 = {
    assert!(TIMEOUT_SECONDS_MAX == 600, "the reference says it");
    600
};

/// What all lists of hooks have in common.
const GROUPS: Shape = Shape::List(&Shape::TextOr(&HOOK_GROUP));

/// The hooks of each event.
pub static HOOKS: Section = Section {
    path: "hooks",
    doc: "Hooks by their event, in the form of Claude Code; `docs/hooks.md` tells what they read and \
          what their answers do. Text in the place of a group is the command of a hook for all tools. \
          A config that massgen has found and you have not named with `--config` cannot have any.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["PreToolUse"],
            GROUPS,
            "Before a call of a tool is carried out that the grants and rules allow. One that denies, \
             or fails, keeps it from happening.", ByValue(values::hook),)
        .or("[]"),
        Key::served(
            &["PostToolUse"],
            GROUPS,
            "After a call of a tool was carried out.", ByValue(values::hook),)
        .or("[]"),
        Key::served(
            &["AnswerSubmitted"],
            GROUPS,
            "Before an answer counts. One that denies, or fails, refuses it.", ByValue(values::hook),)
        .or("[]"),
        Key::served(
            &["VoteCast"],
            GROUPS,
            "Before a vote counts. One that denies, or fails, refuses it.", ByValue(values::hook),)
        .or("[]"),
        Key::served(
            &["BeforeDelivery"],
            GROUPS,
            "Before files are delivered. One that denies, or fails, leaves all of them for \
             `massgen apply`.", ByValue(values::hook),)
        .or("[]"),
        Key::served(&["AfterDelivery"], GROUPS, "After the delivery.", ByValue(values::hook),).or("[]"),
    ],
};

/// Hooks for the same tools.
pub static HOOK_GROUP: Section = Section {
    path: "hooks.PreToolUse[]",
    doc: "Hooks for the same tools.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["matcher"],
            Shape::Verbatim,
            "A regular expression for the whole name of a tool, such as `mcp__git__.*`. `Bash`, `Read`, \
             `Write`, `Edit`, `Grep`, `Glob` and `LS` stand for what does the same here. Without \
             it, and as `*`, all tools.", Harmless,)
        .or("'*'"),
        Key::required(
            &["hooks"],
            Shape::List(&Shape::TextOr(&HOOK)),
            "The hooks. Text is the command alone.", Harmless,),
    ],
};

/// One hook.
pub static HOOK: Section = Section {
    path: "hook",
    doc: "A command that is asked: an item of `hooks` in a group.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["type"],
            Shape::OneOf(&["command"]),
            "What it is; there are only commands.",
            Harmless,
        )
        .or("command"),
        Key::required(
            &["command"],
            Shape::Verbatim,
            "What is given to the shell, in the directory that massgen is started in.",
            Named("runs a command of its own"),
        ),
        Key::served(
            &["timeout"],
            Shape::Integer(1, SECONDS_MAX),
            "How long it may take, in seconds.",
            Harmless,
        )
        .or("60"),
        Key::served(
            &["network"],
            Shape::OneOfOrList(&["off", "on"]),
            "What it reaches of the network: nothing, everything, or hosts of these domains, as in \
             `command_line_network`.",
            Named("runs a command of its own"),
        )
        .or("off"),
    ],
};
