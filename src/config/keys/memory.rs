//! The keys of `memory`: when conversations are compacted, and whether notes outlive a session.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;

keys! {
    /// When conversations are compacted, and whether notes outlive the session.
    const KEY = ["memory"] section(&MEMORY);
}

section! {
    /// What agents remember. An agent always has the conversation of its run.
    pub static MEMORY = "memory";

    /// Whether the section has an effect.
    const ENABLED = ["enabled"] flag().with_default("false");

    /// What outlives the session.
    const PERSISTENT = ["persistent_memory"] section(&PERSISTENT_MEMORY);

    /// When and how far conversations are compacted.
    const COMPRESSION = ["compression"] section(&MEMORY_COMPRESSION);
    unsupported ["conversation_memory", "recording", "retrieval"] Convenience,
        "an agent has its whole conversation, and reads notes when it needs them";
}

section! {
    /// What outlives the session: notes of the winner in `.massgen/memory`.
    pub static PERSISTENT_MEMORY = "memory.persistent_memory";

    /// The same as `enable_memory_filesystem_mode` in `coordination`: notes in files. massgen uses
    /// no vector database.
    const PERSISTENT_ENABLED = ["enabled"] flag()
        .in_found(NeedsNamedConfig("keeps notes of agents and gives them to later ones"))
        .with_default("false");
    unsupported ["agent_name", "embedding", "llm", "on_disk", "path", "qdrant", "session_name",
        "vector_store"] Nothing, "notes are files, without a database or a model of their own";
}

section! {
    /// When a conversation is compacted before it is too long for its model, and how far.
    pub static MEMORY_COMPRESSION = "memory.compression";

    /// The share of the model's context from which a conversation is compacted; for models whose
    /// context massgen knows (`massgen models`). Without it, when the vendor refuses the
    /// conversation.
    const TRIGGER_THRESHOLD = ["trigger_threshold"] decimal(0.0, 1.0);

    /// The same as `compression_target_ratio` in `coordination`, which takes precedence.
    const TARGET_RATIO = ["target_ratio"] decimal(0.0, 1.0);
}
