//! The keys of `hooks`: the events on which the user's commands run.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless};
use crate::config::keys::shape::{self, NodeList, Section, TypedShape};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape, hook_group, value_rules};

/// The shape of all lists of hooks.
const GROUPS: TypedShape<NodeList> =
    shape::nodes(const { &ValueShape::TextOr(&hook_group::HOOK_GROUP) });

pub(crate) const KEY: TypedKey<Section> = TypedKey::optional(
    &["hooks"],
    shape::section(&HOOKS),
    "Commands of yours that decide about actions of agents or are \
     notified of them. Hooks of the agent, its backend, `orchestrator` \
     and the top of the file are combined.",
    Harmless,
);

pub(crate) const PRE_TOOL_USE: TypedKey<NodeList> = TypedKey::optional(
    &["PreToolUse"],
    GROUPS,
    "Before a tool call that grants and rules allow. A hook that denies or fails blocks \
     it.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const POST_TOOL_USE: TypedKey<NodeList> = TypedKey::optional(
    &["PostToolUse"],
    GROUPS,
    "After a tool call.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const ANSWER_SUBMITTED: TypedKey<NodeList> = TypedKey::optional(
    &["AnswerSubmitted"],
    GROUPS,
    "Before an answer is accepted. A hook that denies or fails rejects it.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const VOTE_CAST: TypedKey<NodeList> = TypedKey::optional(
    &["VoteCast"],
    GROUPS,
    "Before a vote is accepted. A hook that denies or fails rejects it.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const BEFORE_DELIVERY: TypedKey<NodeList> = TypedKey::optional(
    &["BeforeDelivery"],
    GROUPS,
    "Before files are delivered. If a hook denies or fails, all of them are left for \
     `massgen apply`.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const AFTER_DELIVERY: TypedKey<NodeList> = TypedKey::optional(
    &["AfterDelivery"],
    GROUPS,
    "After the delivery.",
    ByValue(value_rules::hook),
)
.with_default("[]");

/// The hooks of each event.
pub static HOOKS: KeySection = KeySection {
    path: "hooks",
    doc: "Hooks by event, in the format of Claude Code; see `docs/hooks.md` for their input and \
          output. A string instead of a group is the command of a hook for all tools. A found \
          config, not named with `--config`, cannot have any.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        PRE_TOOL_USE.row(),
        POST_TOOL_USE.row(),
        ANSWER_SUBMITTED.row(),
        VOTE_CAST.row(),
        BEFORE_DELIVERY.row(),
        AFTER_DELIVERY.row(),
    ],
};
