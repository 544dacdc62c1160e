//! The keys of a stage of a pipeline.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Integer, Text, TextList};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};

/// The maximum number of copies of a role that work at the same time.
const COPIES_MAX: i64 = 16;

pub(crate) const ROLE: TypedKey<Text> = TypedKey::required(
    &["role"],
    shape::text(),
    "The role: `understand`, `planner`, `implementer`, `reviewer`, `tester`, `user`, or one of \
     `roles`.",
    Harmless,
);

pub(crate) const AGENT: TypedKey<Text> = TypedKey::optional(
    &["agent"],
    shape::text(),
    "The agent. Default: the one with the name of the role, or the first.",
    Harmless,
);

pub(crate) const AGENTS: TypedKey<TextList> = TypedKey::optional(
    &["agents"],
    shape::texts(&ValueShape::Text),
    "Several agents that answer and vote; the files of the winner count.",
    Harmless,
);

pub(crate) const COPIES: TypedKey<Integer> = TypedKey::optional(
    &["copies"],
    shape::integer(1, COPIES_MAX),
    "Number of copies of the role that work in parallel, each on a part of the plan.",
    Harmless,
)
.with_default("1");

/// A stage.
pub static STAGE: KeySection = KeySection {
    path: "workflow.stages[]",
    doc: "A stage of a pipeline.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[ROLE.row(), AGENT.row(), AGENTS.row(), COPIES.row()],
};
