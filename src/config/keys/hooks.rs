//! The keys of `hooks`: the events on which the user's commands run, groups of hooks for the same
//! tools, and a hook.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, NeedsNamedConfig};
use crate::config::keys::{ValueShape, value_rules};
use crate::hooks::TIMEOUT_SECONDS_MAX;

/// The shape of a group of hooks.
static GROUP: ValueShape = ValueShape::TextOr(&HOOK_GROUP);

keys! {
    /// Commands of yours that decide about actions of agents or are notified of them. Hooks of the
    /// agent, its backend, `orchestrator` and the top of the file are combined.
    const KEY = ["hooks"] section(&HOOKS);
}

section! {
    /// Hooks by event, in the format of Claude Code; see `docs/hooks.md` for their input and
    /// output. A string instead of a group is the command of a hook for all tools. A found config,
    /// not named with `--config`, cannot have any.
    pub static HOOKS = "hooks";

    /// Before a tool call that grants and rules allow. A hook that denies or fails blocks it.
    const PRE_TOOL_USE = ["PreToolUse"] nodes(&GROUP).in_found(ByValue(value_rules::hook))
        .with_default("[]");

    /// After a tool call.
    const POST_TOOL_USE = ["PostToolUse"] nodes(&GROUP).in_found(ByValue(value_rules::hook))
        .with_default("[]");

    /// Before an answer is accepted. A hook that denies or fails rejects it.
    const ANSWER_SUBMITTED = ["AnswerSubmitted"] nodes(&GROUP).in_found(ByValue(value_rules::hook))
        .with_default("[]");

    /// Before a vote is accepted. A hook that denies or fails rejects it.
    const VOTE_CAST = ["VoteCast"] nodes(&GROUP).in_found(ByValue(value_rules::hook))
        .with_default("[]");

    /// Before files are delivered. If a hook denies or fails, all of them are left for `massgen
    /// apply`.
    const BEFORE_DELIVERY = ["BeforeDelivery"] nodes(&GROUP).in_found(ByValue(value_rules::hook))
        .with_default("[]");

    /// After the delivery.
    const AFTER_DELIVERY = ["AfterDelivery"] nodes(&GROUP).in_found(ByValue(value_rules::hook))
        .with_default("[]");
}

/// The longest timeout of a hook, in seconds.
const HOOK_SECONDS_MAX: i64 = {
    assert!(TIMEOUT_SECONDS_MAX == 600, "the reference says it");
    600
};

section! {
    /// A hook command: an item of `hooks` in a group.
    pub static HOOK = "hook";

    /// The kind of hook; only commands exist.
    const TYPE = ["type"] one_of(&["command"]).with_default("command");

    /// The shell command, run in the directory in which massgen is started.
    const COMMAND = ["command"] verbatim_text().make_required()
        .in_found(NeedsNamedConfig("runs its own command"));

    /// Timeout in seconds.
    const TIMEOUT = ["timeout"] integer(1, HOOK_SECONDS_MAX).with_default("60");

    /// Its network access: none, full, or the hosts of these domains, as in `command_line_network`.
    const NETWORK = ["network"] one_of_or_list(&["off", "on"])
        .in_found(NeedsNamedConfig("runs its own command")).with_default("off");
}

section! {
    /// Hooks for the same tools.
    pub static HOOK_GROUP = "hooks.PreToolUse[]";

    /// A regular expression for the whole name of a tool, such as `mcp__git__.*`. `Bash`, `Read`,
    /// `Write`, `Edit`, `Grep`, `Glob` and `LS` match the corresponding tools of massgen. Default,
    /// and for `*`: all tools.
    const MATCHER = ["matcher"] verbatim_text().with_default("'*'");

    /// The hooks. A string is the command alone.
    const GROUP_HOOKS = ["hooks"] nodes(const { &ValueShape::TextOr(&HOOK) }).make_required();
}
