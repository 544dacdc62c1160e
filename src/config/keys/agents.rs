//! The keys of an agent.

use crate::config::keys::{backend, folder_guard, hooks, limits, permissions};

/// `COPIES_MAX` in the type of a key's bounds.
const COPIES_KEY_MAX: i64 = 16;

section! {
    /// An agent: a model, its instructions and its access.
    pub static AGENT = "agents[]";

    /// Its name in logs and directories: letters, digits, `_`, `-` and `.`. Other agents never see
    /// it, not even in paths; they see the last part of `cwd`.
    const ID = ["id"] text().make_required();

    /// Its model.
    const BACKEND = ["backend"] section(&backend::BACKEND).make_required();

    /// How many of it take part, as `ID-1`, `ID-2` and so on.
    const COPIES = ["copies"] integer(1, COPIES_KEY_MAX).with_default("1");

    /// Additional instructions for this agent.
    const SYSTEM_MESSAGE = ["system_message"] text();

    /// More instructions, which follow those of `system_message`.
    const APPEND_SYSTEM_PROMPT = ["append_system_prompt"] text();
    row folder_guard::KEY.row();
    row permissions::KEY.row();
    row hooks::KEY.row();
    row limits::KEY
        .with_doc("How much money, how many tokens and how many tool calls this agent may use.")
        .row();
    unsupported ["memory"] Convenience,
        "agents remember the conversation of the run and nothing else";
    unsupported ["nlip", "nlip_config", "enable_nlip"] Convenience,
        "messages are sent to the vendor directly";
    unsupported ["subtask", "subagent_agents", "main_agent"] Convenience,
        "every agent works on the whole task";
    unsupported ["max_new_answers_per_agent"] Restricts,
        "write `max_new_answers_per_agent` in `orchestrator`, for all agents";
    unsupported ["voting_sensitivity", "voting_threshold",
        "answer_novelty_requirement"] Convenience, "only the key in `orchestrator` counts";
}
