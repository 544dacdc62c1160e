//! The keys of `memory`: when conversations are compacted, and whether notes outlive a session.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, Decimal, Flag, Section};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape,
};

pub(crate) const KEY: TypedKey<Section> = TypedKey::optional(
    &["memory"],
    shape::section(&MEMORY),
    "When conversations are compacted, and whether notes outlive the session.",
    Harmless,
);

pub(crate) const ENABLED: TypedKey<Flag> = TypedKey::optional(
    &["enabled"],
    shape::flag(),
    "Whether the section has an effect.",
    Harmless,
)
.with_default("false");

pub(crate) const PERSISTENT: TypedKey<Section> = TypedKey::optional(
    &["persistent_memory"],
    shape::section(&PERSISTENT_MEMORY),
    "What outlives the session.",
    Harmless,
);

pub(crate) const PERSISTENT_ENABLED: TypedKey<Flag> = TypedKey::optional(
    &["enabled"],
    shape::flag(),
    "The same as `enable_memory_filesystem_mode` in `coordination`: notes in files. massgen uses no \
     vector database.",
    NeedsNamedConfig("keeps notes of agents and gives them to later ones"),
)
.with_default("false");

pub(crate) const COMPRESSION: TypedKey<Section> = TypedKey::optional(
    &["compression"],
    shape::section(&MEMORY_COMPRESSION),
    "When and how far conversations are compacted.",
    Harmless,
);

pub(crate) const TRIGGER_THRESHOLD: TypedKey<Decimal> = TypedKey::optional(
    &["trigger_threshold"],
    shape::decimal(0.0, 1.0),
    "The share of the model's context from which a conversation is compacted; for models whose \
     context massgen knows (`massgen models`). Without it, when the vendor refuses the conversation.",
    Harmless,
);

pub(crate) const TARGET_RATIO: TypedKey<Decimal> = TypedKey::optional(
    &["target_ratio"],
    shape::decimal(0.0, 1.0),
    "The same as `compression_target_ratio` in `coordination`, which takes precedence.",
    Harmless,
);

/// The memory of agents.
pub static MEMORY: KeySection = KeySection {
    path: "memory",
    doc: "What agents remember. An agent always has the conversation of its run.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        ENABLED.row(),
        PERSISTENT.row(),
        COMPRESSION.row(),
        ConfigKey::unsupported(
            &["conversation_memory", "recording", "retrieval"],
            ValueShape::Any,
            "an agent has its whole conversation, and reads notes when it needs them",
            IgnoredEffect::Convenience,
        ),
    ],
};

/// What outlives a session.
pub static PERSISTENT_MEMORY: KeySection = KeySection {
    path: "memory.persistent_memory",
    doc: "What outlives the session: notes of the winner in `.massgen/memory`.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        PERSISTENT_ENABLED.row(),
        ConfigKey::unsupported(
            &[
                "agent_name",
                "embedding",
                "llm",
                "on_disk",
                "path",
                "qdrant",
                "session_name",
                "vector_store",
            ],
            ValueShape::Any,
            "notes are files, without a database or a model of their own",
            IgnoredEffect::Nothing,
        ),
    ],
};

/// The compaction of conversations.
pub static MEMORY_COMPRESSION: KeySection = KeySection {
    path: "memory.compression",
    doc: "When a conversation is compacted before it is too long for its model, and how far.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[TRIGGER_THRESHOLD.row(), TARGET_RATIO.row()],
};
