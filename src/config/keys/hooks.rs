//! The keys of `hooks`: the events on which the user's commands run.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless};
use crate::config::keys::shape::{self, NodeList, Section, TypedShape};
use crate::config::keys::{
    KeySection, ServedKey, UnknownKeys, ValueShape, hook_group, value_rules,
};

/// The shape of all lists of hooks.
const GROUPS: TypedShape<NodeList> =
    shape::nodes(const { &ValueShape::TextOr(&hook_group::HOOK_GROUP) });

pub(crate) const KEY: ServedKey<Section> = ServedKey::optional(
    &["hooks"],
    shape::section(&HOOKS),
    "Commands of yours that are asked about what agents do, and told of it. \
     Those of the agent, of its backend, of `orchestrator` and at the top of \
     the file add up.",
    Harmless,
);

pub(crate) const PRE_TOOL_USE: ServedKey<NodeList> = ServedKey::optional(
    &["PreToolUse"],
    GROUPS,
    "Before a call of a tool is carried out that the grants and rules allow. One that denies, \
     or fails, keeps it from happening.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const POST_TOOL_USE: ServedKey<NodeList> = ServedKey::optional(
    &["PostToolUse"],
    GROUPS,
    "After a call of a tool was carried out.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const ANSWER_SUBMITTED: ServedKey<NodeList> = ServedKey::optional(
    &["AnswerSubmitted"],
    GROUPS,
    "Before an answer counts. One that denies, or fails, refuses it.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const VOTE_CAST: ServedKey<NodeList> = ServedKey::optional(
    &["VoteCast"],
    GROUPS,
    "Before a vote counts. One that denies, or fails, refuses it.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const BEFORE_DELIVERY: ServedKey<NodeList> = ServedKey::optional(
    &["BeforeDelivery"],
    GROUPS,
    "Before files are delivered. One that denies, or fails, leaves all of them for \
     `massgen apply`.",
    ByValue(value_rules::hook),
)
.with_default("[]");

pub(crate) const AFTER_DELIVERY: ServedKey<NodeList> = ServedKey::optional(
    &["AfterDelivery"],
    GROUPS,
    "After the delivery.",
    ByValue(value_rules::hook),
)
.with_default("[]");

/// The hooks of each event.
pub static HOOKS: KeySection = KeySection {
    path: "hooks",
    doc: "Hooks by their event, in the form of Claude Code; `docs/hooks.md` tells what they read and \
          what their answers do. Text in the place of a group is the command of a hook for all tools. \
          A config that massgen has found and you have not named with `--config` cannot have any.",
    others: UnknownKeys::Refused,
    keys: &[
        PRE_TOOL_USE.row(),
        POST_TOOL_USE.row(),
        ANSWER_SUBMITTED.row(),
        VOTE_CAST.row(),
        BEFORE_DELIVERY.row(),
        AFTER_DELIVERY.row(),
    ],
};
