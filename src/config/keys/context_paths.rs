//! The keys of a context path, and of a folder guard.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Inside};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::{ValueShape, value_rules};
use crate::permissions::guard::GuardPreset;

keys! {
    /// Context paths for this agent only, in addition to those of `orchestrator`.
    const KEY = ["context_paths"] nodes(const { &ValueShape::TextOr(&CONTEXT_PATH) })
        .in_found(Inside(PathPurpose::Opened)).with_default("[]");
}

section! {
    /// A directory of yours that is open to agents. All agents may read it; with `permission:
    /// write`, each changes its own copy of it until an answer has won.
    /// `orchestrator.context_paths` and `agents[].backend.context_paths` have the same keys; of two
    /// entries with the same path, the one of `orchestrator` takes precedence.
    pub static CONTEXT_PATH = "context_paths[]";

    /// The path: absolute, below `~`, or relative to the directory in which massgen is started.
    const PATH = ["path"] text().make_required().in_found(Inside(PathPurpose::Opened));

    /// What agents may do there; the changes of the answer that wins are delivered.
    const PERMISSION = ["permission"] one_of(&["read", "write"]).with_default("read");

    /// Paths inside that are read-only.
    const PROTECTED_PATHS = ["protected_paths"] texts().with_default("[]");

    /// Paths inside that are hidden, in addition to `.env` and `.env.*` (not `.env.example`,
    /// `.env.sample` and `.env.template`).
    const HIDDEN_PATHS = ["hidden_paths"] texts().with_default("[]");

    /// Names that are protected by default, such as `.vscode`, but writable here; `.env` is then
    /// readable too.
    const UNPROTECTED = ["unprotected"] texts().in_found(ByValue(value_rules::unprotected))
        .with_default("[]");

    /// Whether the path may be your home directory, a system directory, or a parent of the
    /// directory in which massgen is started.
    const ALLOW_BROAD = ["allow_broad"] flag().with_default("false");
}

keys! {
    /// Restricts this agent to these directories. The context paths are then not open to it.
    const GUARD = ["folder_guard"] section(&FOLDER_GUARD);
}

section! {
    /// The only directories open to an agent: absolute, below `~`, or relative to the directory in
    /// which massgen is started. With an empty `write` the agent is read-only; two empty lists open
    /// nothing. Without `folder_guard` there is no such restriction.
    pub static FOLDER_GUARD = "agents[].folder_guard";

    /// Directories for a part in a workflow, in addition to the lists. `execution` reads
    /// `learnings` and writes `execution`; `planning` reads `learnings` and writes `planning`;
    /// `validation` reads `execution` and writes `validation`; `read_only` reads `learnings`.
    const PRESET = ["preset"] one_of(GuardPreset::NAMES);

    /// The parent of the directories of `preset` and of `Downloads/`, and the base of relative
    /// paths in the agent's calls. Default: its workspace. Directories in the workspace are
    /// created; elsewhere they must exist.
    const ROOT = ["root"] text().in_found(Inside(PathPurpose::OpenedForWriting));

    /// Directories that may be read.
    const READ = ["read"] texts().in_found(Inside(PathPurpose::OpenedForReading))
        .with_default("[]");

    /// Directories that may be read, and changed like a context path with `permission: write`.
    const WRITE = ["write"] texts().in_found(Inside(PathPurpose::OpenedForWriting))
        .with_default("[]");

    /// Whether `Downloads/` is also open: to read, and to write if any directory is writable.
    const DOWNLOADS = ["downloads"] flag().with_default("true");
}
