//! The keys of `hooks`: the events on which the user's commands run.

use crate::config::keys::found_config::FoundConfigUse::ByValue;
use crate::config::keys::{ValueShape, hook_group, value_rules};

/// The shape of a group of hooks.
static GROUP: ValueShape = ValueShape::TextOr(&hook_group::HOOK_GROUP);

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
