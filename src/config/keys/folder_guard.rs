//! The keys of a folder guard.

use crate::config::keys::found_config::FoundConfigUse::Inside;
use crate::config::keys::found_config::PathPurpose;
use crate::permissions::guard::GuardPreset;

keys! {
    /// Restricts this agent to these directories. The context paths are then not open to it.
    const KEY = ["folder_guard"] section(&FOLDER_GUARD);
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
